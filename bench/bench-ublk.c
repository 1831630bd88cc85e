/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Block devices of this kernel over one disk, past the page cache: random reads and writes
 * of 4 KiB, and long reads, 1 and 32 at a time: their rate, and the CPU time of the whole
 * machine, because much of it is the kernel's threads'.  It takes root, and Linux 6.5 with
 * the module ublk_drv.
 *
 *	loop		the kernel's own driver, with direct I/O
 *	nbd		the kernel's client of weir-nbd, over a UNIX socket
 *	weir-ublk	with as many queues as it has by default
 *
 * The disk is what WEIR_BENCH_UBLK names, which is overwritten, or a file in --dir.
 */

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <liburing.h>

#include "bench/bench.h"

#define SIZE (UINT64_C(64) << 20)
#define DEPTH_MAX 32u
#define RUN_NS UINT64_C(1500000000)
#define QUICK_NS UINT64_C(30000000)

static const struct work {
	const char *name;
	uint32_t depth, len;
	bool write;
} works[] = {
	{ "read 4 KiB, depth 1", 1, 4096, false },
	{ "read 4 KiB, depth 32", 32, 4096, false },
	{ "write 4 KiB, depth 32", 32, 4096, true },
	{ "read 256 KiB, depth 8", 8, 256 << 10, false },
};

static struct target {
	const char *name, *program;
	char path[32];		/* Of its device; "": there is none. */
	pid_t pid;		/* Of its server; 0: none. */
} targets[] = {
	{ .name = "loop", .program = "losetup" },
	{ .name = "nbd", .program = "nbd-client" },
	{ .name = "weir-ublk" },
};
enum { LOOP, NBD, UBLK, TARGETS };

static char disk[4096], sock[64];
static char *memory;

/* The time that all CPUs were busy, in nanoseconds. */
static double busy_ns(void)
{
	double user = 0, nice = 0, sys = 0, idle, wait, irq = 0, soft = 0;
	FILE *f = fopen("/proc/stat", "re");

	if (f && fscanf(f, "cpu %lf %lf %lf %lf %lf %lf %lf", &user, &nice, &sys, &idle,
			&wait, &irq, &soft) != 7)
		user = 0;
	if (f)
		fclose(f);
	return (user + nice + sys + irq + soft) * 1e9 / (double)sysconf(_SC_CLK_TCK);
}

static void make_disk(const struct bench *b)
{
	const char *named = getenv("WEIR_BENCH_UBLK");
	static char block[1 << 20];
	uint64_t state = 88172645463325252, at;
	int fd;

	if (named)
		snprintf(disk, sizeof(disk), "%s", named);
	else
		snprintf(disk, sizeof(disk), "%s/bench-ublk.img", b->dir);
	for (size_t i = 0; i < sizeof(block); i += sizeof(state))
		memcpy(block + i, &(uint64_t){ bench_random(&state) }, sizeof(state));
	fd = open(disk, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	for (at = 0; fd >= 0 && at < SIZE; at += sizeof(block))
		if (pwrite(fd, block, sizeof(block), (off_t)at) != sizeof(block))
			break;
	if (fd < 0 || at < SIZE || fsync(fd))
		bench_die(disk, errno);
	close(fd);
}

/* The first line that @command prints. */
static void line_of(const char *command, char *line, int len)
{
	FILE *f = popen(command, "re");

	if (!f || !fgets(line, len, f))
		*line = 0;
	line[strcspn(line, "\n")] = 0;
	if (f && pclose(f))
		*line = 0;
}

/* A server that ends with us; its output goes to *@out, if it is not NULL. */
static pid_t start(const char *command, int *out)
{
	int fds[2] = { -1, -1 };
	pid_t pid;

	if (out && pipe2(fds, O_CLOEXEC))
		bench_die("pipe", errno);
	pid = fork();
	if (pid < 0)
		bench_die("fork", errno);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (out)
			dup2(fds[1], 1);
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	if (out) {
		close(fds[1]);
		*out = fds[0];
	}
	return pid;
}

static void begin_loop(struct target *t)
{
	line_of("losetup --direct-io=on -f --show \"$DISK\" 2>/dev/null", t->path,
		sizeof(t->path));
}

static void begin_nbd(struct target *t)
{
	t->pid = start("exec $WEIR_NBD -q --unix=\"$SOCK\" \"path=$DISK,direct\"", NULL);
	if (!system("for i in $(seq 50); do [ -S \"$SOCK\" ] && break; sleep 0.1; done;"
		    "nbd-client -unix \"$SOCK\" /dev/nbd0 >/dev/null 2>&1"))
		strcpy(t->path, "/dev/nbd0");
}

static void begin_ublk(struct target *t)
{
	ssize_t n;
	int out;

	t->pid = start("exec $WEIR_UBLK --no-recovery \"path=$DISK,direct\"", &out);
	n = read(out, t->path, sizeof(t->path) - 1);
	t->path[n > 0 ? n : 0] = 0;
	t->path[strcspn(t->path, "\n")] = 0;
	close(out);
}

static void begin(struct target *t, void (*fn)(struct target *t))
{
	if (t->program && !bench_has_program(t->program)) {
		bench_note("%s is not there: without %s", t->program, t->name);
		return;
	}
	fn(t);
	if (!*t->path)
		bench_note("%s: no device can be had", t->name);
}

static void end_all(void)
{
	char command[64];

	if (*targets[LOOP].path) {
		snprintf(command, sizeof(command), "losetup -d %s", targets[LOOP].path);
		(void)!system(command);
	}
	if (*targets[NBD].path)
		(void)!system("nbd-client -d /dev/nbd0 >/dev/null 2>&1");
	for (int i = 0; i < TARGETS; i++)
		if (targets[i].pid)
			bench_end(targets[i].pid);
}

static void ask(struct io_uring *ring, int fd, const struct work *w, uint32_t slot,
		uint64_t *state)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
	uint64_t off = bench_random(state) % (SIZE / w->len) * w->len;

	io_uring_prep_rw(w->write ? IORING_OP_WRITE : IORING_OP_READ, sqe, fd,
			 memory + (size_t)slot * w->len, w->len, off);
	io_uring_sqe_set_data64(sqe, slot);
}

/* Returns how many were done, in *@took. */
static uint64_t run(int fd, const struct work *w, uint64_t ns, uint64_t *took)
{
	uint64_t state = 1234567, begun = bench_wall_ns(), done = 0;
	uint32_t flying = w->depth;
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	unsigned int head, n;
	bool more;

	bench_must(io_uring_queue_init(DEPTH_MAX, &ring, 0), "ring");
	for (uint32_t i = 0; i < w->depth; i++)
		ask(&ring, fd, w, i, &state);
	while (flying) {
		if (io_uring_submit_and_wait(&ring, 1) < 0)
			bench_die("submit", EIO);
		more = bench_wall_ns() - begun < ns;
		n = 0;
		io_uring_for_each_cqe(&ring, head, cqe) {
			if (cqe->res != (int)w->len)
				bench_die("a request", cqe->res < 0 ? -cqe->res : EIO);
			if (more)
				ask(&ring, fd, w, (uint32_t)cqe->user_data, &state);
			else
				flying--;
			n++;
		}
		io_uring_cq_advance(&ring, n);
		done += n;
	}
	*took = bench_wall_ns() - begun;
	io_uring_queue_exit(&ring);
	return done;
}

static void one_work(struct bench *b, const struct target *t, const struct work *w)
{
	int fd = open(t->path, O_RDWR | O_DIRECT | O_CLOEXEC);
	uint64_t took, n;
	char what[48];
	double cpu;

	if (fd < 0)
		bench_die(t->path, errno);
	cpu = busy_ns();
	n = run(fd, w, b->quick ? QUICK_NS : RUN_NS, &took);
	cpu = busy_ns() - cpu;
	close(fd);
	bench_add(b, w->name, t->name, "kIO/s", (double)n * 1e6 / (double)took);
	snprintf(what, sizeof(what), "%s, CPU", w->name);
	bench_add(b, what, t->name, "us/IO", cpu / 1e3 / (double)n);
}

static void goals(struct bench *b)
{
	char goal[80];

	for (size_t i = 0; i < ARRAY_SIZE(works); i++) {
		snprintf(goal, sizeof(goal), "%s: at least loop", works[i].name);
		bench_goal(b, goal, works[i].name, "weir-ublk", "loop", BENCH_AT_LEAST, 1);
		snprintf(goal, sizeof(goal), "%s: 1.3 times nbd", works[i].name);
		bench_goal(b, goal, works[i].name, "weir-ublk", "nbd", BENCH_AT_LEAST, 1.3);
	}
}

int main(int argc, char **argv)
{
	static struct bench b;

	bench_init(&b, "ublk", argc, argv);
	bench_need_example("weir-ublk");
	bench_need_example("weir-nbd");
	b.reference = "loop";
	if (access("/dev/ublk-control", R_OK | W_OK)) {
		bench_note("/dev/ublk-control: %s; it takes root and the module ublk_drv",
			   strerror(errno));
		return bench_done(&b);
	}
	if (posix_memalign((void **)&memory, 4096, DEPTH_MAX * (64u << 10)))
		bench_die("memory", ENOMEM);
	make_disk(&b);
	snprintf(sock, sizeof(sock), "/tmp/bench-ublk.%d", (int)getpid());
	setenv("DISK", disk, 1);
	setenv("SOCK", sock, 1);
	begin(&targets[LOOP], begin_loop);
	begin(&targets[NBD], begin_nbd);
	begin(&targets[UBLK], begin_ublk);
	for (bench_begin(&b); bench_next(&b); )
		for (size_t k = 0; k < ARRAY_SIZE(works); k++)
			for (int i = 0; i < TARGETS; i++)
				if (*targets[i].path && bench_wants(&b, targets[i].name))
					one_work(&b, &targets[i], &works[k]);
	goals(&b);
	end_all();
	unlink(sock);
	if (!getenv("WEIR_BENCH_UBLK"))
		unlink(disk);
	free(memory);
	return bench_done(&b);
}
