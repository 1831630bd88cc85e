/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Hot paths, one after the other, for callgrind to count their instructions:
 * what a count says does not depend on who else uses the machine.
 *
 *	count			run them all; under callgrind, dump each
 *	count --list		their names
 *
 * count.sh runs it, and compares with counts.txt.  What the kernel does is not
 * counted, nor what a path costs that is new to the cache.
 */

#include <stdlib.h>
#include <string.h>

#if __has_include(<valgrind/callgrind.h>)
#include <valgrind/callgrind.h>
#else
#define CALLGRIND_ZERO_STATS
#define CALLGRIND_DUMP_STATS_AT(name) ((void)(name))
#endif

#include <weir/chain.h>
#include <weir/dma.h>
#include <weir/inventory.h>
#include <weir/job.h>
#include <weir/mmap.h>
#include <weir/pool.h>
#include <weir/reactor.h>
#include <weir/sync.h>
#include <weir/timer.h>

#include "bench/bench.h"
#include "bench/count.h"

#define BYTES 64

static struct weir_reactor *r;
static struct weir_dma *dma;
static struct weir_mmap *map;
static struct weir_inventory *inventory;
static struct weir_pool *pool;
static struct weir_timer *timer;
static struct weir_sync *sync_event, *sync_ours, *sync_theirs;
static struct weir_chain *chain;

static struct weir_op ops[BATCH];
static struct weir_job steps[2];
struct weir_job jobs[BATCH];
static _Alignas(BYTES) char memory[3][BATCH][BYTES];
#define SYNC_AT (2 * sizeof(memory[0]))
static uint64_t left, running;

static void (*start)(struct weir_op *op);

static void again(struct weir_op *op)
{
	left--;
	running++;
	start(op);
}

/* The callback of all of them: the next, or the end. */
static void on_end(struct weir_op *op, int64_t res)
{
	bench_must((int)res, "an operation");
	running--;
	if (left)
		again(op);
	else if (!running)
		weir_reactor_break(r);
}

static void run(void)
{
	bench_must(weir_reactor_run(r), "weir_reactor_run");
}

void run_ops(void (*fn)(struct weir_op *op), uint64_t depth)
{
	start = fn;
	left = ROUNDS;
	for (uint64_t i = 0; i < depth; i++) {
		weir_op_init(&ops[i], on_end);
		again(&ops[i]);
	}
	run();
}

void run_jobs(void (*fn)(struct weir_op *op), uint64_t depth)
{
	start = fn;
	left = ROUNDS;
	for (uint64_t i = 0; i < depth; i++) {
		weir_job_init(&jobs[i], on_end);
		again(&jobs[i].op);
	}
	run();
}

/* Operations. */

static void start_nop(struct weir_op *op)
{
	bench_must(weir_nop(r, op), "weir_nop");
}

static void start_defer(struct weir_op *op)
{
	bench_must(weir_defer(r, op), "weir_defer");
}

static void nop_1(void)
{
	run_ops(start_nop, 1);
}

static void nop_32(void)
{
	run_ops(start_nop, BATCH);
}

static void defer_32(void)
{
	run_ops(start_defer, BATCH);
}

static void on_post(void *arg)
{
	(void)arg;
	if (--left)
		bench_must(weir_post(r, on_post, NULL), "weir_post");
	else
		weir_reactor_break(r);
}

static void post_self(void)
{
	left = ROUNDS;
	bench_must(weir_post(r, on_post, NULL), "weir_post");
	run();
}

static void start_sync(struct weir_op *op)
{
	static uint64_t value;

	value++;
	bench_must(weir_sync_wait(sync_event, r, op, WEIR_SYNC_GE, value,
				  WEIR_SYNC_ALL), "weir_sync_wait");
	bench_must(weir_sync_add(sync_event, 1, NULL), "weir_sync_add");
}

static void sync_wait(void)
{
	run_ops(start_sync, 1);
}

/* As another process would signal it: by a handle without waiters. */
static void start_sync_shared(struct weir_op *op)
{
	static uint64_t value;

	value++;
	bench_must(weir_sync_wait(sync_ours, r, op, WEIR_SYNC_GE, value,
				  WEIR_SYNC_ALL), "weir_sync_wait");
	bench_must(weir_sync_set(sync_theirs, value), "weir_sync_set");
}

static void sync_shared(void)
{
	run_ops(start_sync_shared, 1);
}

/* Calls. */

static void timer_set(void)
{
	for (uint64_t i = 0; i < ROUNDS; i++) {
		weir_timer_start(timer, (i + 1) * 1000000000, 0);
		weir_timer_stop(timer);
	}
}

static void timer_move(void)
{
	for (uint64_t i = 0; i < ROUNDS; i++)
		weir_timer_start(timer, (i % 50 + 1) * 1000000000, 0);
	weir_timer_stop(timer);
}

static void inventory_get(void)
{
	struct weir_buf *buf;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		bench_must(weir_inventory_get(&buf, inventory, map, memory,
					      BYTES, NULL, 0),
			   "weir_inventory_get");
		weir_buf_put(buf);
	}
}

static void pool_get(void)
{
	struct weir_buf *buf;

	for (uint64_t i = 0; i < ROUNDS; i++) {
		bench_must(weir_pool_get(&buf, pool), "weir_pool_get");
		weir_buf_put(buf);
	}
}

/* Jobs. */

static void start_copy(struct weir_op *op)
{
	struct weir_job *job = weir_job_of(op);
	size_t i = (size_t)(job - jobs);

	weir_job_copy(job, weir_operand_mem(memory[0][i], BYTES),
		      weir_operand_mem(memory[1][i], BYTES));
	bench_must(weir_job_start(dma, job), "weir_job_start");
}

static void start_crc(struct weir_op *op)
{
	struct weir_job *job = weir_job_of(op);

	weir_job_crc32c(job, weir_operand_mem(memory[1], BYTES), 0);
	bench_must(weir_job_start(dma, job), "weir_job_start");
}

/* Of 1 KiB: with a loop over words it would be most of all. */
static void start_memzero(struct weir_op *op)
{
	struct weir_job *job = weir_job_of(op);

	weir_job_memzero(job, weir_operand_mem(memory[0], 1024));
	bench_must(weir_job_start(dma, job), "weir_job_start");
}

static void start_chain(struct weir_op *op)
{
	bench_must(weir_chain_start(chain, op), "weir_chain_start");
}

static void copy_1(void)
{
	run_jobs(start_copy, 1);
}

static void copy_32(void)
{
	run_jobs(start_copy, BATCH);
}

static void crc_32(void)
{
	run_jobs(start_crc, BATCH);
}

static void memzero_32(void)
{
	run_jobs(start_memzero, BATCH);
}

static void chain_2(void)
{
	run_ops(start_chain, 1);
}

static const struct {
	const char *name;
	void (*run)(void);
} paths[] = {
	{ "nop-1", nop_1 },
	{ "nop-32", nop_32 },
	{ "defer-32", defer_32 },
	{ "post-self", post_self },
	{ "post-ring-32", post_spsc_32 },
	{ "post-other-32", post_other_32 },
	{ "call-1", call_1 },
	{ "call-32", call_32 },
	{ "call-other-32", call_other_32 },
	{ "turn-2", turn_2 },
	{ "turn-64", turn_64 },
	{ "sync-wait", sync_wait },
	{ "sync-shared", sync_shared },
	{ "timer-set", timer_set },
	{ "timer-move", timer_move },
	{ "inventory-get", inventory_get },
	{ "pool-get", pool_get },
	{ "copy-1", copy_1 },
	{ "copy-32", copy_32 },
	{ "crc32c-32", crc_32 },
	{ "memzero-32", memzero_32 },
	{ "chain-2", chain_2 },
	{ "chain-crc", chain_crc },
	{ "job-export-32", job_export_32 },
	{ "job-import-32", job_import_32 },
	{ "job-read-32", job_read_32 },
	{ "pull-1", pull_1 },
	{ "bounce-1", bounce_1 },
};

static void on_timer(struct weir_timer *t, uint64_t n, void *arg)
{
	(void)t;
	(void)n;
	(void)arg;
}

static void make_memory(void)
{
	struct weir_pool_opts opts = {
		.size = sizeof(opts), .bufs = BATCH, .buf_size = 4096,
	};
	struct weir_inventory_opts bufs = {
		.size = sizeof(bufs), .bufs = BATCH,
	};

	bench_must(weir_mmap_create(&map, NULL), "weir_mmap_create");
	bench_must(weir_mmap_set_memrange(map, memory, sizeof(memory)),
		   "weir_mmap_set_memrange");
	bench_must(weir_mmap_set_permissions(map, WEIR_MMAP_WRITE),
		   "weir_mmap_set_permissions");
	bench_must(weir_mmap_start(map), "weir_mmap_start");
	bench_must(weir_inventory_create(&inventory, r, &bufs),
		   "weir_inventory_create");
	bench_must(weir_inventory_attach(inventory, map),
		   "weir_inventory_attach");
	bench_must(weir_pool_create(&pool, r, &opts), "weir_pool_create");
	bench_must(weir_sync_create_in(&sync_ours, map, SYNC_AT, NULL),
		   "weir_sync_create_in");
	bench_must(weir_sync_open(&sync_theirs, map, SYNC_AT),
		   "weir_sync_open");
}

static void make_chain(void)
{
	int first;

	bench_must(weir_chain_create(&chain, r, NULL), "weir_chain_create");
	for (int i = 0; i < 2; i++)
		weir_job_init(&steps[i], on_end);
	weir_job_copy(&steps[0], weir_operand_mem(memory[0], BYTES),
		      weir_operand_mem(memory[1], BYTES));
	weir_job_fill(&steps[1], weir_operand_mem(memory[1], BYTES), 0);
	first = weir_chain_add_job(chain, WEIR_CHAIN_FIRST, dma, &steps[0]);
	bench_must(first, "weir_chain_add_job");
	bench_must(weir_chain_add_job(chain, first, dma, &steps[1]),
		   "weir_chain_add_job");
}

static void make(void)
{
	bench_must(weir_reactor_create(&r, NULL), "weir_reactor_create");
	bench_must(weir_dma_create(&dma, r, NULL), "weir_dma_create");
	bench_must(weir_dma_start(dma), "weir_dma_start");
	bench_must(weir_timer_create(&timer, r, on_timer, NULL),
		   "weir_timer_create");
	bench_must(weir_sync_create(&sync_event, NULL), "weir_sync_create");
	make_memory();
	make_chain();
	jobs_make(r, dma);
	cores_make();
}

static void end(void)
{
	cores_end();
	jobs_end();
	bench_must(weir_chain_destroy(chain), "weir_chain_destroy");
	bench_must(weir_pool_destroy(pool), "weir_pool_destroy");
	bench_must(weir_inventory_destroy(inventory), "weir_inventory_destroy");
	bench_must(weir_sync_destroy(sync_theirs), "weir_sync_destroy");
	bench_must(weir_sync_destroy(sync_ours), "weir_sync_destroy");
	bench_must(weir_mmap_destroy(map), "weir_mmap_destroy");
	bench_must(weir_sync_destroy(sync_event), "weir_sync_destroy");
	weir_timer_destroy(timer);
	bench_must(weir_dma_destroy(dma), "weir_dma_destroy");
	bench_must(weir_reactor_destroy(r), "weir_reactor_destroy");
}

int main(int argc, char **argv)
{
	bool list = argc > 1 && !strcmp(argv[1], "--list");

	for (size_t i = 0; list && i < ARRAY_SIZE(paths); i++)
		puts(paths[i].name);
	if (list)
		return 0;
	make();
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		paths[i].run();		/* What happens once, happens now. */
		CALLGRIND_ZERO_STATS;
		paths[i].run();
		CALLGRIND_DUMP_STATS_AT(paths[i].name);
	}
	end();
	return 0;
}
