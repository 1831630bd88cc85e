/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs of the cpu engine: what a job costs beside its bytes, and how fast the
 * bytes are, hot in the cache and out of memory.
 *
 * "bare" is memcpy(), followed by weir_crc32c() of the source where there is a
 * CRC, or memset(): what a program would write that has no library.  "job" is
 * one job, "chain" a chain of two steps.  Each variant does the same bytes of
 * the same memory.
 *
 * "streamed" is a copy by hand for more than the cache holds, where memcpy() is
 * slow: stores past the cache, and the CRC after them.
 * "isa-l" is memcpy() with ISA-L's CRC after it.  "copy alone" is the same job
 * without CRC.  "rte_dmadev" is DPDK's interface to a copy engine, here a thread
 * on the other CPU; this thread only polls for the end.
 */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#ifdef HAVE_ISAL
#include <isa-l/crc.h>
#endif

#include <weir/chain.h>
#include <weir/crc32c.h>
#include <weir/dma.h>
#include <weir/job.h>
#include <weir/reactor.h>

#include "bench/bench.h"
#include "bench/dpdk.h"
#include "bench/streamed.h"

#define BATCH_MAX 32
#define MEMORY ((size_t)256 << 20)
#define BIG ((size_t)16 << 20)	/* More than a cache holds. */

static struct weir_reactor *reactor;
static struct weir_dma *dma;
static char *src, *dst;
static uint32_t crc;

/* What is run now. */
static struct weir_job jobs[BATCH_MAX];
static size_t size, batch;
static uint32_t kind;
static uint64_t left, running;
static const char dmadev[] = "rte_dmadev";

static void *pages(size_t len)
{
	char *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		bench_die("mmap", 12);
	madvise(p, len, MADV_HUGEPAGE);
	for (size_t i = 0; i < len; i += 4096)
		p[i] = (char)(i >> 12);
	return p;
}

/* bare, isa-l, streamed */

static uint32_t weir_crc(const void *p, size_t len)
{
	return weir_crc32c(0, p, len);
}

static void plain_copy(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
}

static void plain_zero(void *to, const void *from, size_t len)
{
	(void)from;
	memset(to, 0, len);
}

static double run_bare(uint64_t n,
		       void (*copy)(void *to, const void *from, size_t len),
		       uint32_t (*crc_of)(const void *p, size_t len))
{
	uint64_t begin = bench_wall_ns();

	for (uint64_t i = 0; i < n; i++) {
		copy(dst, src, size);
		if (kind == WEIR_JOB_COPY_CRC32C)
			crc ^= crc_of(src, size);
		__asm__ volatile("" : : "r"(dst) : "memory");
	}
	return (double)(bench_wall_ns() - begin) / (double)n;
}

#ifdef HAVE_ISAL
/* There is no const in its prototype; and the inversions are left to us. */
static uint32_t isal_crc(const void *p, size_t len)
{
	return ~crc32_iscsi((unsigned char *)(uintptr_t)p, (int)len, ~0u);
}
#endif

/* job */

static void start(struct weir_job *job)
{
	struct weir_operand to = weir_operand_mem(dst, size);
	struct weir_operand from = weir_operand_mem(src, size);

	if (kind == WEIR_JOB_COPY_CRC32C)
		weir_job_copy_crc32c(job, to, from, 0);
	else if (kind == WEIR_JOB_FILL)
		weir_job_memzero(job, to);
	else
		weir_job_copy(job, to, from);
	bench_must(weir_job_start(dma, job), "weir_job_start");
}

/* The next batch when the last of this one has ended. */
static void start_batch(void)
{
	for (size_t i = 0; i < batch && left; i++, left--, running++)
		start(&jobs[i]);
	if (!running)
		weir_reactor_break(reactor);
}

static void on_job(struct weir_op *op, int64_t res)
{
	if (res != (int64_t)size)
		bench_die("job", (int)-res);
	crc ^= weir_job_of(op)->crc;
	if (!--running)
		start_batch();
}

static double run_jobs(uint64_t n)
{
	uint64_t begin;

	left = n;
	for (int i = 0; i < BATCH_MAX; i++)
		weir_job_init(&jobs[i], on_job);
	begin = bench_wall_ns();
	start_batch();
	bench_must(weir_reactor_run(reactor), "weir_reactor_run");
	return (double)(bench_wall_ns() - begin) / (double)n;
}

/* chain */

static struct weir_chain *chain;
static struct weir_op chain_op;

static void on_chain(struct weir_op *op, int64_t res)
{
	if (res < 0)
		bench_die("chain", (int)-res);
	crc ^= jobs[1].crc;
	if (!--left)
		weir_reactor_break(reactor);
	else
		bench_must(weir_chain_start(chain, op), "weir_chain_start");
}

static double run_chain(uint64_t n)
{
	uint64_t begin;
	int first;

	left = n;
	bench_must(weir_chain_create(&chain, reactor, NULL), "chain");
	weir_job_init(&jobs[0], on_job);
	weir_job_init(&jobs[1], on_job);
	weir_job_copy(&jobs[0], weir_operand_mem(dst, size),
		      weir_operand_mem(src, size));
	weir_job_crc32c(&jobs[1], weir_operand_mem(dst, size), 0);
	first = weir_chain_add_job(chain, WEIR_CHAIN_FIRST, dma, &jobs[0]);
	bench_must(first, "weir_chain_add_job");
	bench_must(weir_chain_add_job(chain, first, dma, &jobs[1]), "add_job");
	weir_op_init(&chain_op, on_chain);
	begin = bench_wall_ns();
	bench_must(weir_chain_start(chain, &chain_op), "weir_chain_start");
	bench_must(weir_reactor_run(reactor), "weir_reactor_run");
	begin = bench_wall_ns() - begin;
	bench_must(weir_chain_destroy(chain), "weir_chain_destroy");
	return (double)begin / (double)n;
}

/* A request: copy, CRC of the copy, and the copy's copy; in a chain that was made once,
 * in one that is made for each, or in one whose steps are. */

static enum { REUSED, RESET, MADE_ANEW } how;

static void add_steps(void)
{
	int step;

	step = weir_chain_add_job(chain, WEIR_CHAIN_FIRST, dma, &jobs[0]);
	step = weir_chain_add_job(chain, step, dma, &jobs[1]);
	bench_must(weir_chain_add_job(chain, step, dma, &jobs[2]), "add_job");
}

static void start_request(struct weir_op *op)
{
	weir_job_copy(&jobs[0], weir_operand_mem(dst, size),
		      weir_operand_mem(src, size));
	weir_job_crc32c(&jobs[1], weir_operand_mem(dst, size), 0);
	weir_job_copy(&jobs[2], weir_operand_mem(dst + size, size),
		      weir_operand_mem(dst, size));
	bench_must(weir_chain_start(chain, op), "weir_chain_start");
}

static void on_request(struct weir_op *op, int64_t res)
{
	if (res < 0)
		bench_die("request", (int)-res);
	crc ^= jobs[1].crc;
	if (!--left) {
		weir_reactor_break(reactor);
		return;
	}
	if (how == MADE_ANEW) {
		bench_must(weir_chain_destroy(chain), "weir_chain_destroy");
		bench_must(weir_chain_create(&chain, reactor, NULL), "chain");
	} else if (how == RESET) {
		bench_must(weir_chain_reset(chain), "weir_chain_reset");
	}
	if (how != REUSED)
		add_steps();
	start_request(op);
}

static double run_requests(uint64_t n, int how_made)
{
	uint64_t begin;

	how = how_made;
	left = n;
	for (int i = 0; i < 3; i++)
		weir_job_init(&jobs[i], on_job);
	bench_must(weir_chain_create(&chain, reactor, NULL), "chain");
	add_steps();
	weir_op_init(&chain_op, on_request);
	begin = bench_wall_ns();
	start_request(&chain_op);
	bench_must(weir_reactor_run(reactor), "weir_reactor_run");
	begin = bench_wall_ns() - begin;
	bench_must(weir_chain_destroy(chain), "weir_chain_destroy");
	return (double)begin / (double)n;
}

/* Nanoseconds to GB/s. */
static double rate(double ns)
{
	return (double)size / ns;
}

/* Enough of them for some milliseconds. */
static uint64_t how_many(const struct bench *b)
{
	uint64_t n = ((uint64_t)(b->quick ? 1 : 512) << 20) / size;

	if (n > (b->quick ? 1000 : 1000000))
		n = b->quick ? 1000 : 1000000;
	return n ? n : 1;
}

/* Fewer of them: one alone waits until that thread looks for it again. */
static double run_dmadev(uint64_t n)
{
	const char *reason;
	double ns;

	if (!dmadev_open(&reason))
		return NAN;
	ns = dmadev_run(dst, src, size, batch, n / 16 + batch);
	dmadev_close();
	return ns;
}

static const char requests[] = "copy, CRC and copy of 4 KiB";

static void measure_requests(struct bench *b)
{
	size = 4096;
	if (bench_wants(b, "chain for each"))
		bench_add(b, requests, "chain for each", "ns",
			  run_requests(how_many(b), MADE_ANEW));
	if (bench_wants(b, "chain, reset for each"))
		bench_add(b, requests, "chain, reset for each", "ns",
			  run_requests(how_many(b), RESET));
	if (bench_wants(b, "chain, reused"))
		bench_add(b, requests, "chain, reused", "ns",
			  run_requests(how_many(b), REUSED));
}

static void measure_overhead(struct bench *b, size_t n, const char *what)
{
	double bare;

	size = 64;
	kind = WEIR_JOB_COPY;
	batch = n;
	bare = run_bare(how_many(b), plain_copy, weir_crc);
	bench_add(b, what, "job", "ns over memcpy",
		  run_jobs(how_many(b)) - bare);
	if (bench_wants(b, dmadev))
		bench_add(b, what, dmadev, "ns over memcpy",
			  run_dmadev(how_many(b)) - bare);
}

static void measure_rate(struct bench *b, const char *what, size_t len,
			 uint32_t the_kind)
{
	uint64_t n;

	size = len;
	kind = the_kind;
	batch = 1;
	n = how_many(b);
	if (bench_wants(b, "bare"))
		bench_add(b, what, "bare", "GB/s",
			  rate(run_bare(n, kind == WEIR_JOB_FILL ? plain_zero :
								plain_copy,
					weir_crc)));
	if (bench_wants(b, "job"))
		bench_add(b, what, "job", "GB/s", rate(run_jobs(n)));
	if (kind == WEIR_JOB_COPY && bench_wants(b, dmadev))
		bench_add(b, what, dmadev, "GB/s", rate(run_dmadev(n)));
	if (kind == WEIR_JOB_COPY_CRC32C && bench_wants(b, "chain"))
		bench_add(b, what, "chain", "GB/s", rate(run_chain(n)));
}

/* Beside what others may write, and what the memory has to give. */
static void measure_peers(struct bench *b, const char *what, size_t len,
			  uint32_t the_kind)
{
	uint64_t n;

	size = len;
	kind = the_kind;
	batch = 1;
	n = how_many(b);
	if (len > BIG && bench_wants(b, "streamed"))
		bench_add(b, what, "streamed", "GB/s",
			  rate(run_bare(n, streamed, weir_crc)));
	if (kind != WEIR_JOB_COPY_CRC32C)
		return;
#ifdef HAVE_ISAL
	if (bench_wants(b, "isa-l"))
		bench_add(b, what, "isa-l", "GB/s",
			  rate(run_bare(n, plain_copy, isal_crc)));
#endif
	kind = WEIR_JOB_COPY;
	if (bench_wants(b, "copy alone"))
		bench_add(b, what, "copy alone", "GB/s", rate(run_jobs(n)));
}

static void measure(struct bench *b, const char *what, size_t len,
		    uint32_t the_kind)
{
	measure_rate(b, what, len, the_kind);
	if (the_kind != WEIR_JOB_FILL)
		measure_peers(b, what, len, the_kind);
}

static void measure_sizes(struct bench *b, const char *name, uint32_t the_kind)
{
	char what[48], text[24];

	for (int i = 0; i < b->sizes.n; i++) {
		snprintf(what, sizeof(what), "%s %s", name,
			 bench_size_text(text, b->sizes.value[i]));
		measure(b, what, b->sizes.value[i], the_kind);
	}
}

static void goals(struct bench *b)
{
	bench_goal(b, "a job alone, at most 100 ns", "overhead, batch 1",
		   "job", NULL, BENCH_AT_MOST, 100);
	bench_goal(b, "jobs by 32, at most 40 ns", "overhead, batch 32",
		   "job", NULL, BENCH_AT_MOST, 40);
	bench_goal(b, "copy and CRC as a chain of 4 KiB, 1/1.5 of bare",
		   "copy+crc32c 4 KiB", "chain", "bare", BENCH_AT_LEAST,
		   1 / 1.5);
	bench_goal(b, "a hot copy as fast as memcpy", "copy 1 MiB", "job",
		   "bare", BENCH_AT_LEAST, 1);
	bench_goal(b, "a copy of 64 MiB at least 1.6 times memcpy",
		   "copy 64 MiB", "job", "bare", BENCH_AT_LEAST, 1.6);
	bench_goal(b, "copy+crc32c at least 1.25 times at 64 KiB",
		   "copy+crc32c 64 KiB", "job", "bare", BENCH_AT_LEAST, 1.25);
	bench_goal(b, "copy+crc32c at least 2.2 times at 64 MiB",
		   "copy+crc32c 64 MiB", "job", "bare", BENCH_AT_LEAST, 2.2);
	bench_goal(b, "copy+crc32c at least 0.95 times the copy alone",
		   "copy+crc32c 64 MiB", "job", "copy alone", BENCH_AT_LEAST,
		   0.95);
	bench_goal(b, "a chain for each request: at most 1.3 times a reused one",
		   requests, "chain, reset for each", "chain, reused",
		   BENCH_AT_MOST, 1.3);
	bench_goal(b, "memzero at least as fast as memset, 4 and 64 KiB",
		   "memzero 4 KiB", "job", "bare", BENCH_AT_LEAST, 1);
	bench_goal(b, "memzero at least as fast as memset, 4 and 64 KiB",
		   "memzero 64 KiB", "job", "bare", BENCH_AT_LEAST, 1);
	bench_goal(b, "a job: at most 512 bytes", "memory of a job", "job",
		   NULL, BENCH_AT_MOST, 512);
	bench_goal(b, "memzero at least 0.95 times memset at 1 MiB",
		   "memzero 1 MiB", "job", "bare", BENCH_AT_LEAST, 0.95);
}

static void run(struct bench *b)
{
	measure_overhead(b, 1, "overhead, batch 1");
	measure_overhead(b, 32, "overhead, batch 32");
	measure_sizes(b, "copy", WEIR_JOB_COPY);
	measure_sizes(b, "copy+crc32c", WEIR_JOB_COPY_CRC32C);
	measure_sizes(b, "memzero", WEIR_JOB_FILL);
	measure_requests(b);
	bench_add(b, "memory of a job", "job", "bytes",
		  sizeof(struct weir_job));
}

int main(int argc, char **argv)
{
	static const uint64_t sizes[] = { 4096, 65536, 1 << 20, 64 << 20 };
	static struct bench b;
	const char *reason;

	bench_init_with(&b, "copy", BENCH_SIZES, argc, argv);
	bench_default(&b.sizes, sizes, ARRAY_SIZE(sizes));
	for (int i = 0; i < b.sizes.n; i++)
		if (b.sizes.value[i] > MEMORY)
			bench_die("--size", EFBIG);
	b.reference = "bare";
	/* It leaves this thread on one CPU, which our workers would inherit. */
	if (!dmadev_open(&reason))
		bench_note("rte_dmadev is left out: %s", reason);
	else
		dmadev_close();
	bench_unpin();
	src = pages(MEMORY);
	dst = pages(MEMORY);
	bench_must(weir_reactor_create(&reactor, NULL), "weir_reactor_create");
	bench_must(weir_dma_create(&dma, reactor, NULL), "weir_dma_create");
	bench_must(weir_dma_start(dma), "weir_dma_start");
	for (bench_begin(&b); bench_next(&b);)
		run(&b);
	goals(&b);
	bench_must(weir_dma_destroy(dma), "weir_dma_destroy");
	bench_must(weir_reactor_destroy(reactor), "weir_reactor_destroy");
	return bench_done(&b);
}
