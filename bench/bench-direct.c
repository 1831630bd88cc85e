/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * What software costs where the disk costs nothing: random reads of 4 KiB with
 * O_DIRECT, 32 at a time, from a loop device over memory.  Wall time, and CPU
 * time of the process that reads.  That of the kernel's workers, which do the
 * same work for everybody, is in no figure, but is not others' either: it does
 * not make a repetition a disturbed one.
 *
 *	liburing naive	an io_uring_submit() for each read, a completion at a
 *			time, nothing registered: as most people write it
 *	liburing best	registered file and buffers, deferred task work, half
 *			of the reads submitted and waited for at once
 *	fio		its io_uring engine, likewise; the better of two ways to
 *			wait, by its own account
 *	no spin		a reactor that sleeps at once, as the loops above do: to
 *			look for what comes is CPU time, too
 *
 * A loop device needs root.  It goes away with the process, however that ends;
 * see tests/loopdev.h.
 */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <liburing.h>

#include <weir/file.h>
#include <weir/reactor.h>

#include "bench/bench.h"
#include "bench/read-jobs.h"
#include "bench/tasks.h"
#include "tests/support/loopdev.h"

#define BLOCK 4096
#define DEPTH 32
#define BATCH 16

static struct loopdev device;
static uint64_t n_blocks, left, seed = 0x853c49e6748fea9b;
static char *memory;	/* DEPTH blocks */

static uint64_t random_offset(void)
{
	return bench_random(&seed) % n_blocks * BLOCK;
}

/* liburing, naively */

static void naive_read(struct io_uring *ring, unsigned int slot)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(ring);

	io_uring_prep_read(sqe, device.fd, memory + slot * BLOCK, BLOCK,
			   random_offset());
	io_uring_sqe_set_data64(sqe, slot);
	bench_must(io_uring_submit(ring), "submit");
}

static void run_naive(uint64_t n)
{
	struct io_uring_cqe *cqe;
	struct io_uring ring;
	uint64_t started, done;
	unsigned int slot;

	bench_must(io_uring_queue_init(DEPTH, &ring, 0), "ring");
	for (started = 0; started < DEPTH; started++)
		naive_read(&ring, (unsigned int)started);
	for (done = 0; done < n; done++) {
		bench_must(io_uring_wait_cqe(&ring, &cqe), "wait");
		if (cqe->res != BLOCK)
			bench_die("read", -cqe->res);
		slot = (unsigned int)cqe->user_data;
		io_uring_cqe_seen(&ring, cqe);
		if (started < n) {
			naive_read(&ring, slot);
			started++;
		}
	}
	io_uring_queue_exit(&ring);
}

/* liburing, with all it has */

static struct io_uring ring;

static bool best_init(void)
{
	struct iovec iov = { memory, DEPTH * BLOCK };

	if (io_uring_queue_init(64, &ring, IORING_SETUP_SINGLE_ISSUER |
				IORING_SETUP_DEFER_TASKRUN))
		return false;
	io_uring_register_ring_fd(&ring);
	if (!io_uring_register_buffers(&ring, &iov, 1) &&
	    !io_uring_register_files(&ring, &device.fd, 1))
		return true;
	io_uring_queue_exit(&ring);
	return false;
}

static void best_read(unsigned int slot)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	io_uring_prep_read_fixed(sqe, 0, memory + slot * BLOCK, BLOCK,
				 random_offset(), 0);
	sqe->flags |= IOSQE_FIXED_FILE;
	io_uring_sqe_set_data64(sqe, slot);
}

static void run_best(uint64_t n)
{
	uint64_t started, done = 0;
	struct io_uring_cqe *cqe;
	unsigned int head, k;

	for (started = 0; started < DEPTH; started++)
		best_read((unsigned int)started);
	while (done < n) {
		k = n - done < BATCH ? (unsigned int)(n - done) : BATCH;
		bench_must(io_uring_submit_and_wait(&ring, k), "submit");
		k = 0;
		io_uring_for_each_cqe(&ring, head, cqe) {
			if (cqe->res != BLOCK)
				bench_die("read", -cqe->res);
			if (started < n) {
				best_read((unsigned int)cqe->user_data);
				started++;
			}
			k++;
		}
		io_uring_cq_advance(&ring, k);
		done += k;
	}
}

/* weir: operations */

static struct weir_reactor *reactor;
static struct weir_op ops[DEPTH];
static uint64_t running;

static void start(struct weir_op *op)
{
	left--;
	running++;
	bench_must(weir_read(reactor, op, device.fd,
			     memory + (op - ops) * BLOCK, BLOCK,
			     random_offset()), "weir_read");
}

static void on_read(struct weir_op *op, int64_t res)
{
	if (res != BLOCK)
		bench_die("weir_read", (int)-res);
	running--;
	if (left)
		start(op);
	else if (!running)
		weir_reactor_break(reactor);
}

static void run_ops(uint64_t n)
{
	left = n;
	for (int i = 0; i < DEPTH; i++) {
		weir_op_init(&ops[i], on_read);
		start(&ops[i]);
	}
	bench_must(weir_reactor_run(reactor), "weir_reactor_run");
}

/* weir: jobs of the file engine */

static void run_jobs(uint64_t n)
{
	read_jobs_run(n, DEPTH);
}

static bool weir_init(uint32_t spin_ns)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = WEIR_BACKEND_URING,
		.spin_ns = spin_ns,
	};
	if (weir_reactor_create(&reactor, &opts)) {
		bench_note("no io_uring: %s", weir_why());
		return false;
	}
	weir_fd_register(reactor, device.fd);
	read_jobs_init(reactor, device.fd, BLOCK, random_offset);
	return true;
}

static void weir_fini(void)
{
	read_jobs_fini();
	bench_must(weir_reactor_destroy(reactor), "weir_reactor_destroy");
}

/* fio, which says itself what it has used. */

static const char *const fio_waits[] = {
	"--iodepth_batch_complete_min=1 --iodepth_batch_complete_max=32",
	"--iodepth_batch_complete_min=16 --iodepth_batch_complete_max=32",
};

static double number_after(const char *text, const char *name)
{
	const char *at = text ? strstr(text, name) : NULL;
	double value;

	at = at ? strchr(at + strlen(name), ':') : NULL;
	return at && sscanf(at + 1, "%lf", &value) == 1 ? value : NAN;
}

/* One run of a second or less; microseconds for a read, and thousands of them
 * in a second. */
static bool run_fio(const struct bench *b, const char *wait, double *cpu,
		    double *rate)
{
	static char out[1 << 16];
	const char *read_part;
	char command[512];
	size_t n;
	FILE *f;

	snprintf(command, sizeof(command), "fio --name=direct --filename=%s "
		 "--direct=1 --rw=randread --bs=4k --ioengine=io_uring "
		 "--iodepth=%d --iodepth_batch=%d %s --fixedbufs "
		 "--registerfiles --norandommap --gtod_reduce=1 --time_based "
		 "--runtime=%dms --output-format=json 2>/dev/null",
		 device.path, DEPTH, BATCH, wait, b->quick ? 100 : 1000);
	f = popen(command, "r");
	if (!f)
		return false;
	n = fread(out, 1, sizeof(out) - 1, f);
	out[n] = 0;
	if (pclose(f))
		return false;
	read_part = strstr(out, "\"read\"");
	*rate = number_after(read_part, "\"iops\"") / 1e3;
	*cpu = (number_after(out, "\"usr_cpu\"") +
		number_after(out, "\"sys_cpu\"")) / 100 * 1e3 / *rate;
	return *cpu > 0;
}

static void add_fio(struct bench *b)
{
	double best = INFINITY, best_rate = 0, cpu, rate;

	for (size_t i = 0; i < ARRAY_SIZE(fio_waits); i++) {
		if (!run_fio(b, fio_waits[i], &cpu, &rate))
			continue;
		best = fmin(best, cpu);
		best_rate = fmax(best_rate, rate);
	}
	if (!best_rate)
		return;
	bench_add(b, "CPU", "fio", "us/IO", best);
	bench_add(b, "rate", "fio", "kIO/s", best_rate);
}

/* All of them */

static void measure(struct bench *b, const char *variant,
		    void (*run)(uint64_t n))
{
	uint64_t n = b->quick ? 5000 : 200000, wall, cpu;

	if (!bench_wants(b, variant))
		return;
	wall = bench_wall_ns();
	cpu = bench_process_ns();
	run(n);
	cpu = bench_process_ns() - cpu;
	wall = bench_wall_ns() - wall;
	bench_add(b, "CPU", variant, "us/IO", (double)cpu / 1e3 / (double)n);
	bench_add(b, "rate", variant, "kIO/s",
		  (double)n * 1e6 / (double)wall);
}

static void measure_weir(struct bench *b, uint32_t spin_ns, const char *ops_are,
			 const char *jobs_are)
{
	if (!weir_init(spin_ns))
		bench_die("a reactor", ENOSYS);
	measure(b, ops_are, run_ops);
	measure(b, jobs_are, run_jobs);
	weir_fini();
}

static void goals(struct bench *b)
{
	static const char *const variants[] = { "weir read", "weir job" };

	for (size_t i = 0; i < ARRAY_SIZE(variants); i++) {
		bench_goal(b, "O_DIRECT 4 KiB: 0.55 of a naive loop's CPU",
			   "CPU", variants[i], "liburing naive", BENCH_AT_MOST,
			   0.55);
		bench_goal(b, "O_DIRECT 4 KiB: 0.8 of the CPU of fio's best",
			   "CPU", variants[i], "fio", BENCH_AT_MOST, 0.8);
		bench_goal(b, "O_DIRECT 4 KiB: 0.95 of the best loop's rate",
			   "rate", variants[i], "liburing best",
			   BENCH_AT_LEAST, 0.95);
	}
}

static void one_rep(struct bench *b, bool best, bool has_fio)
{
	static struct bench_tasks before, after;

	bench_tasks_kernel(&before);
	measure(b, "liburing naive", run_naive);
	if (best)
		measure(b, "liburing best", run_best);
	measure_weir(b, 0, "weir read", "weir job");
	measure_weir(b, WEIR_SPIN_NONE, "weir read, no spin",
		     "weir job, no spin");
	if (has_fio && bench_wants(b, "fio"))
		add_fio(b);
	bench_tasks_kernel(&after);
	bench_own_cpu(b, (double)bench_tasks_used(&before, &after) / 1e9);
}

static void measure_all(struct bench *b)
{
	bool best = best_init(), has_fio = !system("command -v fio >/dev/null");

	if (!has_fio)
		bench_note("no fio: left out");
	if (!weir_init(0))
		return;
	weir_fini();
	for (bench_begin(b); bench_next(b); )
		one_rep(b, best, has_fio);
	if (best)
		io_uring_queue_exit(&ring);
	goals(b);
}

int main(int argc, char **argv)
{
	static struct bench b;
	size_t size;
	int err;

	bench_init(&b, "direct", argc, argv);
	size = (b.quick ? 16u : 256u) << 20;
	n_blocks = size / BLOCK;
	if (posix_memalign((void **)&memory, BLOCK, DEPTH * BLOCK))
		bench_die("memory", ENOMEM);
	memset(memory, 0, DEPTH * BLOCK);
	err = loopdev_open(&device, size, BLOCK);
	if (err) {
		bench_note("no loop device (%s), which needs root: skipped",
			   strerror(-err));
		return bench_done(&b);
	}
	measure_all(&b);
	loopdev_close(&device);
	return bench_done(&b);
}
