/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Disks of virtual machines: weir-vhost beside qemu-storage-daemon's export
 * vhost-user-blk, with io_uring and with threads, of a file that the page cache
 * holds and, past the cache, of its disk.  One front end for all, in place of a
 * guest (tests/support/vhost-front.h): one queue, which is told and tells by
 * event indices.
 *
 * The server is on the first CPU, with all its threads, and the front end on the
 * second.  "CPU" is what the server's process takes for a request, in user space
 * and in the kernel; its inverse is requests in a second of CPU.
 */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "bench/bench.h"
#include "tests/support/vhost-front.h"

#define SIZE_MIB 256
#define BLOCKS (SIZE_MIB * 256u)	/* Of 4 KiB. */
#define RUN_NS 200000000
#define QUICK_NS 5000000
#define ASK_NS 20000000
#define ASKS 250
#define NUM 512u
#define HEADS (FRONT_QUEUES * FRONT_RING_BYTES)
#define DATA (1u << 20)
#define MEMORY (4u << 20)

static const struct server {
	const char *name, *program;
	const char *cached, *direct;	/* A shell's commands. */
} servers[] = {
#define QSD(aio, cache) "qemu-storage-daemon --blockdev driver=file," \
	"node-name=d,filename=$FILE,aio=" aio cache " --export " \
	"vhost-user-blk,id=e,node-name=d,addr.type=unix,addr.path=$SOCK," \
	"writable=on"
	{ "qemu, io_uring", "qemu-storage-daemon", QSD("io_uring", ""),
	  QSD("io_uring", ",cache.direct=on") },
	{ "qemu, threads", "qemu-storage-daemon", QSD("threads", ""),
	  QSD("threads", ",cache.direct=on") },
	{ "weir-vhost", NULL, "$WEIR_VHOST -q --unix=$SOCK path=$FILE",
	  "$WEIR_VHOST -q --unix=$SOCK path=$FILE,direct" },
};

static const struct work {
	const char *name;
	uint32_t type, depth;
	bool direct;
} works[] = {
	{ "read 4 KiB, depth 1", VIRTIO_BLK_T_IN, 1, false },
	{ "read 4 KiB, depth 32", VIRTIO_BLK_T_IN, 32, false },
	{ "read 4 KiB, depth 128", VIRTIO_BLK_T_IN, 128, false },
	{ "write 4 KiB, depth 1", VIRTIO_BLK_T_OUT, 1, false },
	{ "write 4 KiB, depth 32", VIRTIO_BLK_T_OUT, 32, false },
	{ "O_DIRECT, read, depth 32", VIRTIO_BLK_T_IN, 32, true },
	{ "O_DIRECT, write, depth 32", VIRTIO_BLK_T_OUT, 32, true },
};

static char file[4096], sock[100];

static void set_variables(const struct bench *b)
{
	char dir[4000];

	if (!realpath(b->dir, dir))
		bench_die(b->dir, errno);
	snprintf(file, sizeof(file), "%s/bench-vhost.img", dir);
	snprintf(sock, sizeof(sock), "/tmp/bench-vhost.%d", (int)getpid());
	setenv("SOCK", sock, 1);
	setenv("FILE", file, 1);
}

static void make_file(void)
{
	static char block[1 << 20];
	uint64_t state = 88172645463325252;
	FILE *f = fopen(file, "we");

	for (size_t i = 0; i < sizeof(block); i += sizeof(state))
		memcpy(block + i, &(uint64_t){ bench_random(&state) },
		       sizeof(state));
	for (int i = 0; f && i < SIZE_MIB; i++)
		fwrite(block, sizeof(block), 1, f);
	if (!f || fflush(f) || fsync(fileno(f)) || fclose(f))
		bench_die(file, errno);
}

static bool is_there(const struct server *s)
{
	return s->program ? bench_has_program(s->program)
			  : bench_find_example("weir-vhost");
}

/* It ends with us, and says nothing: what fails is seen by who connects. */
static pid_t start(const struct server *s, bool direct)
{
	char command[512];
	pid_t pid;

	unlink(sock);
	snprintf(command, sizeof(command), "exec %s >/dev/null 2>&1",
		 direct ? s->direct : s->cached);
	pid = fork();
	if (pid < 0)
		bench_die("fork", errno);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	bench_pin(0);
	execl("/bin/sh", "sh", "-c", command, (char *)NULL);
	_exit(127);
}

/* Returns whether there is a server, whose disk is the guest's then. */
static bool begin(struct front *f)
{
	struct timespec t = { .tv_nsec = ASK_NS };
	bool there = false;

	front_memory(f, MEMORY, false);
	for (int i = 0; i < ASKS && !there; i++) {
		nanosleep(&t, NULL);
		there = front_connect(f, sock);
	}
	if (!there)
		return false;
	front_hello(f, BIT(VHOST_F_LOG_ALL));
	front_place(f, f->queues, NUM, true);
	return !front_start(f, f->queues);
}

struct client {
	struct front *f;
	const struct work *w;
	struct bench_hist *latency;
	uint64_t state;
	uint64_t began[NUM / 3];
};

static void ask(struct client *c, uint32_t slot)
{
	uint64_t block = bench_random(&c->state) % BLOCKS;

	front_request(c->f, c->f->queues, slot, c->w->type, 8 * block,
		      HEADS + 32 * slot, DATA + 4096 * slot, 4096);
	c->began[slot] = bench_wall_ns();
}

static void answered(struct client *c, const struct vring_used_elem *e)
{
	uint32_t slot = e->id / 3;

	if (c->f->mem[HEADS + 32 * slot + sizeof(struct virtio_blk_outhdr)])
		bench_die("a request", EIO);
	bench_hist_add(c->latency, bench_wall_ns() - c->began[slot]);
}

/* Returns how many requests were answered; *@took says in which time. */
static uint64_t run(struct client *c, uint64_t ns, uint64_t *took)
{
	struct front_queue *q = c->f->queues;
	uint64_t begun = bench_wall_ns(), n = 0;
	uint32_t flying = c->w->depth;

	for (uint32_t i = 0; i < c->w->depth; i++)
		ask(c, i);
	front_kick(c->f, q);
	while (flying) {
		bool more = bench_wall_ns() - begun < ns;
		struct vring_used_elem e;

		if (!front_wait(q, &e, 10000))
			bench_die("an answer", ETIMEDOUT);
		do {
			answered(c, &e);
			n++;
			if (more)
				ask(c, e.id / 3);
			else
				flying--;
		} while (front_take(q, &e));
		if (more)
			front_kick(c->f, q);
	}
	*took = bench_wall_ns() - begun;
	return n;
}

static void one_work(struct bench *b, const struct server *s, struct front *f,
		     pid_t pid, const struct work *w)
{
	struct client c = { .f = f, .w = w, .state = 1234567 };
	uint64_t took, n;
	double cpu;
	char what[48];

	c.latency = bench_latency(b, w->name, s->name);
	cpu = bench_cpu_ns(pid);
	n = run(&c, b->quick ? QUICK_NS : RUN_NS, &took);
	cpu = bench_cpu_ns(pid) - cpu;
	bench_add(b, w->name, s->name, "kIO/s", (double)n * 1e6 / (double)took);
	snprintf(what, sizeof(what), "%s, CPU", w->name);
	bench_add(b, what, s->name, "us/IO", cpu / 1e3 / (double)n);
}

static void one_server(struct bench *b, const struct server *s, bool direct)
{
	pid_t pid = start(s, direct);
	struct front f;

	if (!begin(&f))
		bench_note("%s does not answer", s->name);
	else
		for (size_t i = 0; i < ARRAY_SIZE(works); i++)
			if (works[i].direct == direct)
				one_work(b, s, &f, pid, &works[i]);
	front_end(&f);
	bench_end(pid);
}

static void one_rep(struct bench *b)
{
	for (int direct = 0; direct < 2; direct++)
		for (size_t i = 0; i < ARRAY_SIZE(servers); i++)
			if (is_there(&servers[i]) &&
			    bench_wants(b, servers[i].name))
				one_server(b, &servers[i], direct);
}

/* 1.2 times the requests in a second of CPU. */
static void goals(struct bench *b)
{
	static const char *const of[] = {
		"read 4 KiB, depth 32", "write 4 KiB, depth 32",
		"O_DIRECT, read, depth 32",
	};
	char cpu[48], goal[80];

	for (size_t i = 0; i < ARRAY_SIZE(of); i++) {
		snprintf(cpu, sizeof(cpu), "%s, CPU", of[i]);
		for (size_t k = 0; k < 2; k++) {
			snprintf(goal, sizeof(goal), "%s: CPU, 1/1.2 of %s",
				 of[i], servers[k].name);
			bench_goal(b, goal, cpu, "weir-vhost", servers[k].name,
				   BENCH_AT_MOST, 1 / 1.2);
		}
	}
}

int main(int argc, char **argv)
{
	static struct bench b;

	bench_init(&b, "vhost", argc, argv);
	bench_need_example("weir-vhost");
	b.reference = "qemu, io_uring";
	bench_pin(1);
	if (bench_cpus() < 2)
		bench_note("one CPU only: server and front end share it");
	set_variables(&b);
	make_file();
	for (size_t i = 0; i < ARRAY_SIZE(servers); i++)
		if (!is_there(&servers[i]))
			bench_note("%s is not there", servers[i].name);
	for (bench_begin(&b); bench_next(&b); )
		one_rep(&b);
	goals(&b);
	unlink(file);
	unlink(sock);
	return bench_done(&b);
}
