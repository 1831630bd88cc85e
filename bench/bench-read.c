/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Random reads of 4 KiB from a file: out of the page cache, where the time is
 * the system call's and the copy's, and with O_DIRECT, where the device sets
 * the rate and what counts is the CPU time of a read.
 *
 * "liburing" is what it takes at best: one ring, registered file and buffers,
 * submissions in batches of 16.  "weir uring" and "weir ev" read into memory of
 * the caller's; "weir job" has the same file as a domain and reads, by copy
 * jobs, into buffers of a pool, which are registered.
 */

#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weir/file.h>
#include <weir/reactor.h>

#include "bench/bench.h"
#include "bench/read-jobs.h"

#define BLOCK 4096
#define DEPTH_MAX READ_JOBS_MAX
#define BATCH 16

static int fd;
static uint64_t n_blocks, left, seed = 0x853c49e6748fea9b;
static unsigned int depth;
static char *memory;	/* DEPTH_MAX blocks */

static uint64_t random_offset(void)
{
	return bench_random(&seed) % n_blocks * BLOCK;
}

/* pread */

static void run_pread(uint64_t n)
{
	while (n--)
		if (pread(fd, memory, BLOCK, (off_t)random_offset()) != BLOCK)
			bench_die("pread", errno);
}

/* liburing */

static struct io_uring ring;

static void raw_prep(unsigned int slot)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	io_uring_prep_read_fixed(sqe, 0, memory + slot * BLOCK, BLOCK,
				 random_offset(), 0);
	sqe->flags |= IOSQE_FIXED_FILE;
	io_uring_sqe_set_data64(sqe, slot);
}

static void run_raw(uint64_t n)
{
	struct io_uring_cqe *cqe;
	uint64_t started = 0, done = 0;
	unsigned int head, k;

	for (unsigned int i = 0; i < depth && started < n; i++, started++)
		raw_prep(i);
	while (done < n) {
		k = depth < BATCH ? depth : BATCH;
		if (n - done < k)
			k = (unsigned int)(n - done);
		bench_must(io_uring_submit_and_wait(&ring, k), "submit");
		k = 0;
		io_uring_for_each_cqe(&ring, head, cqe) {
			if (cqe->res != BLOCK)
				bench_die("read", -cqe->res);
			if (started < n) {
				raw_prep((unsigned int)cqe->user_data);
				started++;
			}
			k++;
		}
		io_uring_cq_advance(&ring, k);
		done += k;
	}
}

static int raw_init(void)
{
	struct iovec iov = { memory, DEPTH_MAX * BLOCK };
	int err;

	err = io_uring_queue_init(DEPTH_MAX, &ring, IORING_SETUP_SINGLE_ISSUER |
				  IORING_SETUP_DEFER_TASKRUN);
	if (err)
		err = io_uring_queue_init(DEPTH_MAX, &ring, 0);
	if (err)
		return err;
	io_uring_register_ring_fd(&ring);
	err = io_uring_register_buffers(&ring, &iov, 1);
	return err ? err : io_uring_register_files(&ring, &fd, 1);
}

/* weir */

static struct weir_reactor *reactor;
static struct weir_op ops[DEPTH_MAX];
static uint64_t running;

static uint64_t begun_ns[DEPTH_MAX];
static struct bench_hist *latency;	/* NULL: the clock is not read. */

static void start(struct weir_op *op)
{
	char *block = memory + (op - ops) * BLOCK;

	if (latency)
		begun_ns[op - ops] = bench_wall_ns();
	left--;
	running++;
	bench_must(weir_read(reactor, op, fd, block, BLOCK, random_offset()),
		   "weir_read");
}

static void on_read(struct weir_op *op, int64_t res)
{
	if (res != BLOCK)
		bench_die("weir_read", (int)-res);
	if (latency)
		bench_hist_add(latency, bench_wall_ns() - begun_ns[op - ops]);
	running--;
	if (left)
		start(op);
	else if (!running)
		weir_reactor_break(reactor);
}

static void run_weir(struct weir_reactor *r, uint64_t n)
{
	reactor = r;
	left = n;
	for (unsigned int i = 0; i < depth && left; i++) {
		weir_op_init(&ops[i], on_read);
		start(&ops[i]);
	}
	bench_must(weir_reactor_run(r), "weir_reactor_run");
}

/* weir, by jobs */

static void jobs_init(struct weir_reactor *r)
{
	read_jobs_init(r, fd, BLOCK, random_offset);
}

static void run_jobs(struct weir_reactor *r, uint64_t n)
{
	(void)r;
	read_jobs_run(n, depth);
}

static struct weir_reactor *reactor_new(const struct bench *b, uint32_t backend)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = backend,
	};
	struct weir_reactor *r = NULL;

	if (!bench_wants_backend(b, backend))
		return NULL;
	if (weir_reactor_create(&r, &opts))
		bench_note("a backend is not there: %s", weir_why());
	return r;
}

/* The file */

static void make_file(const char *dir, char *path, size_t size)
{
	static char block[1 << 20];
	uint64_t state = 1;
	int out;

	snprintf(path, size, "%s/bench-read.tmp", dir);
	out = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (out < 0)
		bench_die(path, errno);
	for (size_t i = 0; i < sizeof(block); i += 8)
		memcpy(block + i, &(uint64_t){ bench_random(&state) }, 8);
	for (uint64_t i = 0; i < n_blocks * BLOCK / sizeof(block); i++)
		if (write(out, block, sizeof(block)) != sizeof(block))
			bench_die("write", errno);
	fsync(out);
	close(out);
}

struct loops {
	struct weir_reactor *uring, *ev;
	bool raw;
	bool direct;
};

static void add(struct bench *b, const struct loops *l, const char *variant,
		uint64_t n, uint64_t wall, uint64_t cpu)
{
	const char *how = l->direct ? "O_DIRECT" : "cached";
	char what[48];

	wall = bench_wall_ns() - wall;
	cpu = bench_process_ns() - cpu;
	snprintf(what, sizeof(what), "%s, depth %u, rate", how, depth);
	bench_add(b, what, variant, "kIO/s", (double)n * 1e6 / (double)wall);
	snprintf(what, sizeof(what), "%s, depth %u, CPU", how, depth);
	bench_add(b, what, variant, "us/IO", (double)cpu / 1e3 / (double)n);
}

#define MEASURE(variant, n, call) do {				\
	uint64_t wall_ = bench_wall_ns();			\
	uint64_t cpu_ = bench_process_ns();			\
								\
	if (!bench_wants(b, variant))				\
		break;						\
	call;							\
	add(b, l, variant, n, wall_, cpu_);			\
} while (0)

/* Apart from the rates: to look at the clock costs as much as a tenth of a
 * read. */
static void latencies(struct bench *b, const struct loops *l, const char *name,
		      struct weir_reactor *r, uint64_t n)
{
	char what[48];

	if (!r || !bench_wants(b, name))
		return;
	snprintf(what, sizeof(what), "%s, depth %u",
		 l->direct ? "O_DIRECT" : "cached", depth);
	latency = bench_latency(b, what, name);
	run_weir(r, n);
	latency = NULL;
}

static void one_rep(struct bench *b, const struct loops *l)
{
	uint64_t n = l->direct ? 10000 : 200000;

	if (b->quick)
		n /= 20;
	if (l->direct && depth < 8)
		n /= 5;
	MEASURE("pread", n / (l->direct ? 5 : 1),
		run_pread(n / (l->direct ? 5 : 1)));
	if (l->raw)
		MEASURE("liburing", n, run_raw(n));
	if (l->uring)
		MEASURE("weir uring", n, run_weir(l->uring, n));
	if (l->uring)
		MEASURE("weir job", n, run_jobs(l->uring, n));
	if (l->ev)
		MEASURE("weir ev", n / 4, run_weir(l->ev, n / 4));
	latencies(b, l, "weir uring", l->uring, n / 4);
	latencies(b, l, "weir ev", l->ev, n / 8);
}

static int measure(struct bench *b, struct loops *l, const char *path)
{
	fd = open(path, O_RDONLY | O_CLOEXEC | (l->direct ? O_DIRECT : 0));
	if (fd < 0)
		return -errno;
	l->raw = !raw_init();
	if (l->uring) {
		weir_fd_register(l->uring, fd);
		jobs_init(l->uring);
	}
	if (!l->direct)
		run_pread(n_blocks * 2);
	for (int i = 0; i < b->depths.n; i++) {
		depth = (unsigned int)b->depths.value[i];
		for (bench_begin(b); bench_next(b); )
			one_rep(b, l);
	}
	if (l->uring) {
		read_jobs_fini();
		weir_fd_unregister(l->uring, fd);
	}
	io_uring_queue_exit(&ring);
	close(fd);
	return 0;
}

int main(int argc, char **argv)
{
	static const uint64_t depths[] = { 1, 32 };
	static struct bench b;
	struct loops l = { 0 };
	char path[4096];

	bench_init_with(&b, "read", BENCH_BACKENDS | BENCH_DEPTHS, argc, argv);
	bench_default(&b.depths, depths, ARRAY_SIZE(depths));
	for (int i = 0; i < b.depths.n; i++)
		if (b.depths.value[i] > DEPTH_MAX)
			bench_die("--depth", E2BIG);
	n_blocks = (b.quick ? 16 : 256) << 8;	/* MiB */
	if (posix_memalign((void **)&memory, BLOCK, DEPTH_MAX * BLOCK))
		bench_die("memory", ENOMEM);
	memset(memory, 0, DEPTH_MAX * BLOCK);
	make_file(b.dir, path, sizeof(path));
	l.uring = reactor_new(&b, WEIR_BACKEND_URING);
	l.ev = reactor_new(&b, WEIR_BACKEND_EV);

	bench_must(measure(&b, &l, path), path);
	l.direct = true;
	if (measure(&b, &l, path))
		bench_note("no O_DIRECT in %s", b.dir);
	unlink(path);
	bench_goal(&b, "cached reads of 4 KiB, one by one: pread's rate",
		   "cached, depth 1, rate", "weir uring", "pread",
		   BENCH_AT_LEAST, 1);
	bench_goal(&b, "cached reads of 4 KiB, 32 at a time: pread's rate",
		   "cached, depth 32, rate", "weir uring", "pread",
		   BENCH_AT_LEAST, 1);
	bench_must(weir_reactor_destroy(l.uring), "destroy");
	bench_must(weir_reactor_destroy(l.ev), "destroy");
	return bench_done(&b);
}
