/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Late writes: bytes that land in memory after an operation on it has ended.
 *
 * "revoke", "stop" and "drain": another process has imported our memory and writes
 * to all of it, again and again, by one engine.  At a random time we take the
 * memory back.  When that has ended we fill it with a pattern; when the other
 * process has ended, too, we count the bytes that are not the pattern.  Beside it:
 * how long the end takes, and how soon the other process is told.
 *
 * "killed": the other process is killed in the middle of a write, and revoked.
 * "stopped": it is stopped (SIGSTOP) in the middle of a write; the revoke has a
 * deadline, and is repeated when the process goes on.
 *
 * "cancel" and "deadline": a job of our own, which ends early; the pattern is
 * filled in in its callback, and the bytes are counted when all workers are idle.
 *
 * "destroy": a read of a file in flight, whose reactor is stopped, run to its end
 * and destroyed; and a ring of liburing, on which io_uring_queue_exit() is called.
 * The manual of liburing promises nothing about requests in flight: a program has
 * to wait for them before.
 */

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weir/dma.h>
#include <weir/domain.h>
#include <weir/export.h>
#include <weir/file.h>
#include <weir/inventory.h>
#include <weir/job.h>
#include <weir/mmap.h>
#include <weir/reactor.h>

#include "bench/bench.h"
#include "bench/late-peers.h"

enum engine { CPU, WORKER, FROM_FILE, STAGED, COPYING, N_ENGINES };

static const char *const names[] = {
	"cpu", "worker", "file", "bounce", "process",
};

enum ending { REVOKE, STOP, DRAIN, KILLED, STOPPED, N_ENDINGS };

static const char *const endings[] = {
	"revoke", "stop", "drain", "killed", "stopped",
};

static size_t size;

/* What both processes see, beside the memory. */
static struct notes {
	_Atomic uint64_t told_ns;	/* When the watch has ended. */
	_Atomic uint32_t running;	/* A write has begun. */
} *notes;

struct writer {
	struct weir_reactor *r;
	struct weir_dma *dma;
	struct weir_mmap *mmap;
	struct weir_inventory *inv;
	struct weir_buf *buf;
	struct weir_domain *file;
	char *source;
	struct weir_job job;
	struct weir_op watch;
	bool ended, told;
	int64_t res;
};

static void job_ended(struct weir_op *op, int64_t res)
{
	struct writer *w = weir_container_of(op, struct writer, job.op);

	w->ended = true;
	w->res = res;
}

static void on_watch(struct weir_op *op, int64_t res)
{
	(void)res;
	atomic_store(&notes->told_ns, bench_wall_ns());
	weir_container_of(op, struct writer, watch)->told = true;
}

static int file_of_theirs(const char *source)
{
	int fd = memfd_create("bench-late", MFD_CLOEXEC);

	if (fd < 0 || write(fd, source, size) != (ssize_t)size)
		bench_die("memfd", errno);
	return fd;
}

static void writer_open(struct writer *w, enum engine engine)
{
	struct weir_dma_opts opts = {
		.size = sizeof(opts),
		.worker_min = engine == WORKER ? 1 : UINT64_MAX,
	};

	memset(w, 0, sizeof(*w));
	w->source = malloc(size);
	if (!w->source)
		bench_die("malloc", ENOMEM);
	memset(w->source, LATE_THEIRS, size);
	bench_must(weir_reactor_create(&w->r, NULL), "weir_reactor_create");
	bench_must(weir_dma_create(&w->dma, w->r, &opts), "weir_dma_create");
	bench_must(weir_dma_start(w->dma), "weir_dma_start");
	bench_must(weir_domain_file_create(&w->file, file_of_theirs(w->source),
					   NULL), "weir_domain_file_create");
	weir_job_init(&w->job, job_ended);
}

static int write_all(struct writer *w, enum engine engine,
		     struct weir_operand to)
{
	struct weir_operand file = weir_operand_at(w->file, 0, size);

	w->ended = false;
	if (engine == FROM_FILE)
		weir_job_copy(&w->job, to, file);
	else if (engine == STAGED)
		weir_job_copy_crc32c(&w->job, to, file, 0);
	else
		weir_job_copy(&w->job, to, weir_operand_mem(w->source, size));
	w->job.flags |= WEIR_JOB_OVERWRITE;
	return weir_job_start(w->dma, &w->job);
}

/* The other process. */

static int receive(int sock, char *bytes, size_t *len, int *fds)
{
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(WEIR_EXPORT_FDS * sizeof(int))];
	} control;
	struct iovec iov = { bytes, 1024 };
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1,
		.msg_control = control.buf,
		.msg_controllen = sizeof(control.buf),
	};
	ssize_t n = recvmsg(sock, &msg, MSG_CMSG_CLOEXEC);
	struct cmsghdr *c = n > 0 ? CMSG_FIRSTHDR(&msg) : NULL;

	if (!c)
		return 0;
	*len = (size_t)n;
	n = (ssize_t)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	memcpy(fds, CMSG_DATA(c), (size_t)n * sizeof(int));
	return (int)n;
}

static void import(struct writer *w, const char *bytes, size_t len,
		   const int *fds, int n)
{
	struct weir_exporter_peer peer = { getppid(), geteuid(), getegid() };
	struct weir_import_opts opts = {
		.size = sizeof(opts), .flags = WEIR_IMPORT_COPY, .peer = &peer,
	};
	void *addr;

	bench_must(weir_mmap_import(&w->mmap, bytes, len, fds, (uint32_t)n,
				    &opts), "weir_mmap_import");
	for (int i = 0; i < n; i++)
		close(fds[i]);
	bench_must(weir_inventory_create(&w->inv, w->r, NULL), "inventory");
	bench_must(weir_inventory_attach(w->inv, w->mmap), "attach");
	bench_must(weir_mmap_memrange(w->mmap, &addr, NULL), "memrange");
	bench_must(weir_inventory_get(&w->buf, w->inv, w->mmap, addr, size,
				      NULL, 0), "weir_inventory_get");
	weir_op_init(&w->watch, on_watch);
	w->told = false;
	bench_must(weir_mmap_watch(w->mmap, w->r, &w->watch), "watch");
}

static void let_go(struct writer *w)
{
	while (!w->told)
		bench_must(weir_reactor_turn(w->r, WEIR_FOREVER), "turn");
	weir_buf_put(w->buf);
	bench_must(weir_inventory_destroy(w->inv), "inventory");
	bench_must(weir_mmap_destroy(w->mmap), "weir_mmap_destroy");
}

static void write_there(int sock, enum engine engine)
{
	int fds[WEIR_EXPORT_FDS], n;
	struct writer w;
	char bytes[1024];
	size_t len;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	writer_open(&w, engine);
	while ((n = receive(sock, bytes, &len, fds)) > 0) {
		import(&w, bytes, len, fds, n);
		while (!write_all(&w, engine, weir_operand_buf(w.buf))) {
			atomic_store(&notes->running, 1);
			while (!w.ended)
				bench_must(weir_reactor_turn(w.r, WEIR_FOREVER),
					   "turn");
			if (w.res < 0)
				break;
		}
		let_go(&w);
		if (send(sock, "", 1, MSG_NOSIGNAL) != 1)
			break;
	}
	_exit(0);
}

/* Here. */

struct owner {
	struct weir_reactor *r;
	struct weir_mmap *mmap;
	char *memory;
	pid_t pid;
	int sock;
	struct weir_op op;
	bool ended;
	int64_t res;
};

static void on_end(struct weir_op *op, int64_t res)
{
	struct owner *o = weir_container_of(op, struct owner, op);

	o->ended = true;
	o->res = res;
}

static void begin_other(struct owner *o, enum engine engine)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends))
		bench_die("socketpair", errno);
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	o->pid = fork();
	if (o->pid < 0)
		bench_die("fork", errno);
	if (!o->pid) {
		close(ends[0]);
		write_there(ends[1], engine);
	}
	close(ends[1]);
	o->sock = ends[0];
}

static void end_other(struct owner *o)
{
	int status;

	close(o->sock);
	if (waitpid(o->pid, &status, 0) < 0 ||
	    (status && status != SIGKILL))
		bench_die("the other process failed", EPIPE);
}

static void owner_open(struct owner *o, enum engine engine)
{
	begin_other(o, engine);
	bench_must(weir_reactor_create(&o->r, NULL), "weir_reactor_create");
	bench_must(weir_mmap_create(&o->mmap, NULL), "weir_mmap_create");
	bench_must(weir_mmap_alloc(o->mmap, size, engine == COPYING ? 0 :
				   WEIR_MMAP_ALLOC_MEMFD), "weir_mmap_alloc");
	bench_must(weir_mmap_set_permissions(o->mmap, WEIR_MMAP_WRITE |
					     WEIR_MMAP_PEER_WRITE), "permissions");
	bench_must(weir_mmap_memrange(o->mmap, (void **)&o->memory, NULL),
		   "weir_mmap_memrange");
	weir_op_init(&o->op, on_end);
}

static void owner_close(struct owner *o)
{
	end_other(o);
	bench_must(weir_mmap_destroy(o->mmap), "weir_mmap_destroy");
	bench_must(weir_reactor_destroy(o->r), "weir_reactor_destroy");
}

static void hand_over(struct owner *o)
{
	struct weir_export_opts opts = {
		.size = sizeof(opts), .flags = WEIR_EXPORT_COPY,
	};
	struct weir_export_desc d = { .size = sizeof(d) };
	union {
		struct cmsghdr align;
		char buf[CMSG_SPACE(WEIR_EXPORT_FDS * sizeof(int))];
	} control = { .buf = { 0 } };
	struct iovec iov;
	struct msghdr msg = {
		.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.buf,
	};
	struct cmsghdr *c;

	bench_must(weir_mmap_start(o->mmap), "weir_mmap_start");
	bench_must(weir_mmap_export(o->mmap, &opts, &d), "weir_mmap_export");
	iov.iov_base = (void *)d.bytes;
	iov.iov_len = d.len;
	msg.msg_controllen = CMSG_SPACE(d.n_fds * sizeof(int));
	c = CMSG_FIRSTHDR(&msg);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(d.n_fds * sizeof(int));
	memcpy(CMSG_DATA(c), d.fds, d.n_fds * sizeof(int));
	atomic_store(&notes->running, 0);
	atomic_store(&notes->told_ns, 0);
	if (sendmsg(o->sock, &msg, MSG_NOSIGNAL) < 0)
		bench_die("sendmsg", errno);
	while (!atomic_load(&notes->running))
		usleep(20);
}

/* Some part of the time that a write takes. */
static void wait_a_while(void)
{
	uint64_t until = bench_wall_ns() + (uint64_t)(rand() % 1000) * 2000;

	while (bench_wall_ns() < until)
		;
}

static int64_t take_back(struct owner *o, enum ending ending,
			 uint64_t timeout_ns)
{
	int err;

	o->ended = false;
	if (timeout_ns)
		weir_op_set_deadline(&o->op, weir_reactor_now(o->r) +
					     timeout_ns);
	err = ending == STOP ? weir_mmap_stop(o->mmap, o->r, &o->op) :
	      ending == DRAIN ? weir_mmap_drain(o->mmap, o->r, &o->op) :
				weir_mmap_revoke(o->mmap, o->r, &o->op);
	bench_must(err, endings[ending]);
	while (!o->ended)
		bench_must(weir_reactor_turn(o->r, WEIR_FOREVER), "turn");
	return o->res;
}

static uint64_t count_others(const char *memory)
{
	uint64_t n = 0;

	for (size_t i = 0; i < size; i++)
		n += (unsigned char)memory[i] != LATE_OURS;
	return n;
}

/* One ending, in the middle of a write.  Returns the bytes that came late. */
static uint64_t one(struct owner *o, enum engine engine, enum ending ending,
		    struct bench_hist *took, struct bench_hist *told)
{
	uint64_t begun, late;
	char byte;

	hand_over(o);
	wait_a_while();
	if (ending == KILLED)
		kill(o->pid, SIGKILL);
	if (ending == STOPPED) {
		kill(o->pid, SIGSTOP);
		take_back(o, REVOKE, WEIR_MSEC);
		kill(o->pid, SIGCONT);
	}
	begun = bench_wall_ns();
	bench_must((int)take_back(o, ending, 0), endings[ending]);
	bench_hist_add(took, bench_wall_ns() - begun);
	memset(o->memory, LATE_OURS, size);
	if (ending == KILLED) {
		end_other(o);
		begin_other(o, engine);
	} else if (recv(o->sock, &byte, 1, 0) != 1) {
		bench_die("the other process has ended", EPIPE);
	} else if (ending != STOPPED) {
		bench_hist_add(told, atomic_load(&notes->told_ns) - begun);
	}
	late = count_others(o->memory);
	bench_must(weir_mmap_stop(o->mmap, NULL, NULL), "weir_mmap_stop");
	return late;
}

static void by_others(struct bench *b, enum engine engine, int n)
{
	char what[48], variant[24];
	uint64_t late;
	struct owner o = { .ended = false };

	snprintf(variant, sizeof(variant), "weir %s", names[engine]);
	if (!bench_wants(b, variant))
		return;
	owner_open(&o, engine);
	for (enum ending e = 0; e < N_ENDINGS; e++) {
		late = 0;
		snprintf(what, sizeof(what), "%s, told", endings[e]);
		for (int i = 0; i < n; i++)
			late += one(&o, engine, e,
				    bench_latency(b, endings[e], variant),
				    bench_latency(b, what, variant));
		bench_add(b, endings[e], variant, "late bytes", (double)late);
	}
	owner_close(&o);
}

/* Our own jobs. */

static void own_ended(struct weir_op *op, int64_t res)
{
	struct writer *w = weir_container_of(op, struct writer, job.op);

	memset(w->watch.data, LATE_OURS, size);
	job_ended(op, res);
}

static uint64_t end_own(struct writer *w, enum engine engine, char *memory,
			bool deadline)
{
	weir_op_init(&w->job.op, own_ended);
	w->watch.data = memory;
	if (deadline)
		weir_op_set_deadline(&w->job.op, weir_reactor_now(w->r) +
				     (uint64_t)(rand() % 1000) * 1000);
	bench_must(write_all(w, engine, weir_operand_mem(memory, size)),
		   "weir_job_start");
	if (!deadline) {
		bench_must(weir_reactor_turn(w->r, 0), "turn");
		if (!w->ended)
			weir_op_cancel(&w->job.op);
	}
	while (!w->ended)
		bench_must(weir_reactor_turn(w->r, WEIR_FOREVER), "turn");
	/* A worker that went on would be seen within this. */
	usleep(2000);
	return count_others(memory);
}

static void by_us(struct bench *b, enum engine engine, int n)
{
	char *memory = malloc(size), variant[24];
	uint64_t late[2] = { 0, 0 };
	struct writer w;

	snprintf(variant, sizeof(variant), "weir %s", names[engine]);
	if (!memory || !bench_wants(b, variant))
		return;
	writer_open(&w, engine);
	for (int i = 0; i < 2 * n; i++)
		late[i & 1] += end_own(&w, engine, memory, i & 1);
	bench_add(b, "cancel", variant, "late bytes", (double)late[0]);
	bench_add(b, "deadline", variant, "late bytes", (double)late[1]);
	/* What was cancelled may still be in staging of ours. */
	while (weir_dma_destroy(w.dma) == -EBUSY)
		bench_must(weir_reactor_turn(w.r, WEIR_MSEC), "turn");
	bench_must(weir_reactor_destroy(w.r), "weir_reactor_destroy");
	free(w.source);
	free(memory);
}

/* The end of all. */

struct reader {
	struct weir_op op;
	int64_t res;
	bool ended;
};

static void on_read(struct weir_op *op, int64_t res)
{
	struct reader *x = weir_container_of(op, struct reader, op);

	x->ended = true;
	x->res = res;
}

static uint64_t destroy_weir(int fd, char *memory)
{
	struct reader x = { .ended = false };
	struct weir_reactor *r = NULL;

	bench_must(weir_reactor_create(&r, NULL), "weir_reactor_create");
	weir_op_init(&x.op, on_read);
	bench_must(weir_read(r, &x.op, fd, memory, size, 0), "weir_read");
	weir_reactor_stop(r);
	bench_must(weir_reactor_run(r), "weir_reactor_run");
	bench_must(weir_reactor_destroy(r), "weir_reactor_destroy");
	return late_after(memory, size);
}

static void destroy_all(struct bench *b, int n)
{
	uint64_t ours = 0, theirs = 0;
	char *memory = malloc(size);
	int fd;

	if (!memory)
		bench_die("malloc", ENOMEM);
	memset(memory, LATE_THEIRS, size);
	fd = file_of_theirs(memory);
	for (int i = 0; i < n; i++) {
		ours += destroy_weir(fd, memory);
		theirs += late_liburing(fd, memory, size);
	}
	if (bench_wants(b, "weir"))
		bench_add(b, "destroy", "weir", "late bytes", (double)ours);
	if (bench_wants(b, "liburing") && late_has_liburing())
		bench_add(b, "destroy", "liburing", "late bytes",
			  (double)theirs);
	close(fd);
	free(memory);
}

static void one_rep(struct bench *b)
{
	int n = b->quick ? 2 : 50;

	for (enum engine e = 0; e < N_ENGINES; e++) {
		by_others(b, e, n);
		if (e != COPYING)
			by_us(b, e, n);
	}
	destroy_all(b, n);
}

#define GOAL "no byte lands after the end"

static void expect_none(struct bench *b, enum engine engine)
{
	char variant[24];

	snprintf(variant, sizeof(variant), "weir %s", names[engine]);
	for (enum ending e = 0; e < N_ENDINGS; e++)
		bench_goal(b, GOAL, endings[e], variant, NULL, BENCH_AT_MOST,
			   0);
	if (engine == COPYING)
		return;
	bench_goal(b, GOAL, "cancel", variant, NULL, BENCH_AT_MOST, 0);
	bench_goal(b, GOAL, "deadline", variant, NULL, BENCH_AT_MOST, 0);
}

int main(int argc, char **argv)
{
	static const uint64_t sizes[] = { 16 << 20 };
	static struct bench b;

	bench_init_with(&b, "late", BENCH_SIZES, argc, argv);
	bench_default(&b.sizes, sizes, 1);
	size = b.sizes.value[0];
	notes = mmap(NULL, sizeof(*notes), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (notes == MAP_FAILED)
		bench_die("mmap", errno);
	if (!late_has_liburing())
		bench_note("liburing is left out: the kernel refuses io_uring");
	for (bench_begin(&b); bench_next(&b); )
		one_rep(&b);
	for (enum engine e = 0; e < N_ENGINES; e++)
		expect_none(&b, e);
	bench_goal(&b, GOAL, "destroy", "weir", NULL, BENCH_AT_MOST, 0);
	return bench_done(&b);
}
