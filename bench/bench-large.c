/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Large copies: how late the loop is while one is in flight, and what a second
 * worker brings.
 *
 * "lateness" is that of a timer of 1 ms, by the clock when its callback runs:
 * "idle" with nothing else to do, "copying" while copies of 1 GiB are in flight
 * on the loop's own thread with the default budget, "worker" while a worker
 * does them, "thread" while a thread does that has nothing to do with the
 * loop.
 *
 * "two workers" is 64 MiB by each of two at once against one.  What the machine
 * has to give is "two threads", with nothing but a loop of stores past the
 * cache in each, against one of these.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <weir/dma.h>
#include <weir/job.h>
#include <weir/reactor.h>
#include <weir/timer.h>

#include "bench/bench.h"
#include "bench/streamed.h"

#define PART ((size_t)64 << 20)
#define PARTS 16		/* Of the job of 1 GiB, all of the same memory. */
#define PERIOD_NS 1000000ull
#define TICKS_MAX 2000

static struct weir_reactor *reactor;
static char *memory;		/* PART of source and destination, twice. */

static struct weir_dma *start_context(uint64_t worker_min)
{
	struct weir_dma_opts opts = {
		.size = sizeof(opts), .worker_min = worker_min,
	};
	struct weir_dma *dma = NULL;

	bench_must(weir_dma_create(&dma, reactor, &opts), "weir_dma_create");
	bench_must(weir_dma_start(dma), "weir_dma_start");
	return dma;
}

/* lateness */

static double late_us[TICKS_MAX];
static size_t n_ticks, ticks;
static uint64_t due;		/* The next of the timer. */
static struct weir_dma *copier;	/* NULL: without copies. */
static struct weir_job gib;

static void on_tick(struct weir_timer *timer, uint64_t n, void *arg)
{
	uint64_t now = bench_wall_ns();

	(void)timer;
	(void)arg;
	late_us[n_ticks++] = now > due ? (double)(now - due) / 1e3 : 0;
	due += n * PERIOD_NS;
	if (n_ticks == ticks)
		weir_reactor_break(reactor);
}

static void start_gib(void)
{
	static struct iovec src[PARTS], dst[PARTS];
	size_t i;

	for (i = 0; i < PARTS; i++) {
		src[i] = (struct iovec){ memory, PART };
		dst[i] = (struct iovec){ memory + PART, PART };
	}
	weir_job_copy(&gib, weir_operand_iov(NULL, dst, PARTS),
		      weir_operand_iov(NULL, src, PARTS));
	bench_must(weir_job_start(copier, &gib), "weir_job_start");
}

static void on_gib(struct weir_op *op, int64_t res)
{
	(void)op;
	if (res < 0)
		bench_die("copy of 1 GiB", (int)-res);
	if (n_ticks < ticks)
		start_gib();
}

static atomic_bool quit;

static void *copy_on(void *arg)
{
	(void)arg;
	while (!atomic_load(&quit))
		streamed(memory + PART, memory, PART);
	return NULL;
}

static void start_thread(pthread_t *thread, void *(*fn)(void *), void *arg)
{
	int err = pthread_create(thread, NULL, fn, arg);

	if (err)
		bench_die("pthread_create", err);
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void measure_lateness(struct bench *b, const char *variant,
			     struct weir_dma *dma)
{
	struct weir_timer *timer = NULL;

	if (!bench_wants(b, variant))
		return;
	copier = dma;
	ticks = b->quick ? 20 : TICKS_MAX;
	n_ticks = 0;
	bench_must(weir_timer_create(&timer, reactor, on_tick, NULL), "timer");
	weir_job_init(&gib, on_gib);
	due = bench_wall_ns() + PERIOD_NS;
	weir_timer_start(timer, due, PERIOD_NS);
	if (copier)
		start_gib();
	bench_must(weir_reactor_run(reactor), "weir_reactor_run");
	weir_timer_destroy(timer);
	while (weir_op_is_busy(&gib.op))
		bench_must(weir_reactor_turn(reactor, WEIR_FOREVER), "turn");
	qsort(late_us, ticks, sizeof(late_us[0]), by_size);
	bench_add(b, "lateness, p50", variant, "us", late_us[ticks / 2]);
	bench_add(b, "lateness, p99.9", variant, "us",
		  late_us[ticks - 1 - ticks / 1000]);
}

/* As "worker", but without one. */
static void measure_beside_thread(struct bench *b)
{
	pthread_t thread;

	if (!bench_wants(b, "thread"))
		return;
	atomic_store(&quit, false);
	start_thread(&thread, copy_on, NULL);
	measure_lateness(b, "thread", NULL);
	atomic_store(&quit, true);
	pthread_join(thread, NULL);
}

/* two threads */

static int rounds;

static void *copy_half(void *arg)
{
	char *src = memory + (arg ? 2 * PART : 0);
	int i;

	bench_pin(arg != NULL);
	for (i = 0; i < rounds; i++)
		streamed(src + PART, src, PART);
	return NULL;
}

static void measure_threads(struct bench *b, const char *variant, int n)
{
	pthread_t threads[2];
	uint64_t begin;
	int i;

	if (!bench_wants(b, variant))
		return;
	rounds = b->quick ? 1 : 8;
	begin = bench_wall_ns();
	for (i = 0; i < n; i++)
		start_thread(&threads[i], copy_half, i ? &threads[i] : NULL);
	for (i = 0; i < n; i++)
		pthread_join(threads[i], NULL);
	bench_add(b, "copies of 64 MiB", variant, "GB/s",
		  (double)rounds * n * PART / (double)(bench_wall_ns() - begin));
}

/* two workers */

static struct weir_job halves[2];
static unsigned int running;

static void on_half(struct weir_op *op, int64_t res)
{
	(void)op;
	if (res != (int64_t)PART)
		bench_die("copy of 64 MiB", (int)-res);
	if (!--running)
		weir_reactor_break(reactor);
}

static void start_half(struct weir_dma *dma, int i)
{
	char *src = memory + 2 * (size_t)i * PART;

	weir_job_init(&halves[i], on_half);
	weir_job_copy(&halves[i], weir_operand_mem(src + PART, PART),
		      weir_operand_mem(src, PART));
	bench_must(weir_job_start(dma, &halves[i]), "weir_job_start");
	running++;
}

static void measure_workers(struct bench *b, const char *variant,
			    struct weir_dma *dma, int n)
{
	uint64_t begin;
	int i, k;

	if (!bench_wants(b, variant))
		return;
	rounds = b->quick ? 1 : 8;
	begin = bench_wall_ns();
	for (k = 0; k < rounds; k++) {
		for (i = 0; i < n; i++)
			start_half(dma, i);
		bench_must(weir_reactor_run(reactor), "weir_reactor_run");
	}
	bench_add(b, "copies of 64 MiB", variant, "GB/s",
		  (double)rounds * n * PART / (double)(bench_wall_ns() - begin));
}

int main(int argc, char **argv)
{
	struct weir_dma *here, *worker;
	struct bench b;

	bench_init(&b, "large", argc, argv);
	b.reference = "one worker";
	memory = mmap(NULL, 4 * PART, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		bench_die("mmap", 12);
	madvise(memory, 4 * PART, MADV_HUGEPAGE);
	memset(memory, 1, 4 * PART);
	bench_must(weir_reactor_create(&reactor, NULL), "weir_reactor_create");
	here = start_context(0);
	worker = start_context(1 << 20);
	for (bench_begin(&b); bench_next(&b);) {
		measure_lateness(&b, "idle", NULL);
		measure_lateness(&b, "copying", here);
		measure_lateness(&b, "worker", worker);
		measure_beside_thread(&b);
		measure_workers(&b, "one worker", worker, 1);
		measure_workers(&b, "two workers", worker, 2);
		measure_threads(&b, "one thread", 1);
		measure_threads(&b, "two threads", 2);
	}
	bench_goal(&b, "the loop at most 2 ms late while it copies 1 GiB",
		   "lateness, p99.9", "copying", NULL, BENCH_AT_MOST, 2000);
	bench_goal(&b, "two workers at least 1.85 times one",
		   "copies of 64 MiB", "two workers", "one worker",
		   BENCH_AT_LEAST, 1.85);
	bench_goal(&b, "two workers at least 0.95 times two threads",
		   "copies of 64 MiB", "two workers", "two threads",
		   BENCH_AT_LEAST, 0.95);
	bench_must(weir_dma_destroy(here), "weir_dma_destroy");
	bench_must(weir_dma_destroy(worker), "weir_dma_destroy");
	bench_must(weir_reactor_destroy(reactor), "weir_reactor_destroy");
	return bench_done(&b);
}
