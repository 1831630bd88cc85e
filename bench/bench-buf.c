/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * What a buffer costs: to take one and to give it back, of an inventory, of a
 * pool, and of a shared pool's cache, which is hit or missed; and to hand it to
 * another core, which puts it.
 *
 * "depth" is how many are taken before they are given back.  With more than the
 * cache holds, a cache is filled and emptied by halves, under the shared
 * pool's lock.
 */

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include <weir/inventory.h>
#include <weir/mmap.h>
#include <weir/pool.h>
#include <weir/reactor.h>
#include <weir/shared-pool.h>

#include "bench/bench.h"
#include "bench/dpdk.h"

#define BUFS 1024
#define BUF_SIZE 2048
#define CACHE 64
#define DEEP 256
#define RING 64

struct fixture {
	struct weir_reactor *r;
	struct weir_mmap *m;
	struct weir_inventory *inv;
	struct weir_pool *pool;
	struct weir_shared_pool *shared_pool;
	struct weir_pool *cached;
	struct weir_pool *bare;
};

static char memory[1 << 16] __attribute__((aligned(4096)));

static void fixture_begin(struct fixture *g)
{
	struct weir_shared_pool_class one = { .buf_size = BUF_SIZE,
					      .bufs = BUFS };
	struct weir_shared_pool_opts sopts = {
		.size = sizeof(sopts),
		.classes = &one,
		.n_classes = 1,
	};
	struct weir_pool_opts opts = { .size = sizeof(opts), .bufs = BUFS,
				       .buf_size = BUF_SIZE };

	bench_must(weir_reactor_create(&g->r, NULL), "reactor");
	bench_must(weir_mmap_create(&g->m, NULL), "mmap");
	weir_mmap_set_memrange(g->m, memory, sizeof(memory));
	bench_must(weir_mmap_start(g->m), "mmap");
	bench_must(weir_inventory_create(&g->inv, g->r, NULL), "inventory");
	bench_must(weir_inventory_attach(g->inv, g->m), "attach");
	bench_must(weir_pool_create(&g->pool, g->r, &opts), "pool");
	bench_must(weir_shared_pool_create(&g->shared_pool, &sopts), "store");
	opts = (struct weir_pool_opts){ .size = sizeof(opts),
					.cache = CACHE,
					.shared_pool = g->shared_pool };
	bench_must(weir_pool_create(&g->cached, g->r, &opts), "pool");
	opts.cache = 0;
	opts.flags = WEIR_POOL_NO_CACHE;
	bench_must(weir_pool_create(&g->bare, g->r, &opts), "pool");
}

static void fixture_end(struct fixture *g)
{
	bench_must(weir_pool_destroy(g->bare), "destroy");
	bench_must(weir_pool_destroy(g->cached), "destroy");
	bench_must(weir_shared_pool_destroy(g->shared_pool), "destroy");
	bench_must(weir_pool_destroy(g->pool), "destroy");
	bench_must(weir_inventory_destroy(g->inv), "destroy");
	bench_must(weir_mmap_destroy(g->m), "destroy");
	bench_must(weir_reactor_destroy(g->r), "destroy");
}

static double inventory(struct fixture *g, uint32_t depth, uint64_t rounds)
{
	uint64_t begun = bench_thread_ns();
	struct weir_buf *buf[DEEP];

	for (uint64_t i = 0; i < rounds; i++) {
		for (uint32_t k = 0; k < depth; k++)
			bench_must(weir_inventory_get(&buf[k], g->inv, g->m,
						      memory + 64 * k, 64,
						      NULL, 0), "get");
		for (uint32_t k = 0; k < depth; k++)
			weir_buf_put(buf[k]);
	}
	return (double)(bench_thread_ns() - begun) / (double)(rounds * depth);
}

static double pool(struct weir_pool *p, uint32_t depth, uint64_t rounds)
{
	uint64_t begun = bench_thread_ns();
	struct weir_buf *buf[DEEP];

	for (uint64_t i = 0; i < rounds; i++) {
		for (uint32_t k = 0; k < depth; k++)
			bench_must(weir_pool_get(&buf[k], p), "get");
		for (uint32_t k = 0; k < depth; k++)
			weir_buf_put(buf[k]);
	}
	return (double)(bench_thread_ns() - begun) / (double)(rounds * depth);
}

/* Handed through a ring of one producer and one consumer. */
static _Atomic(struct weir_buf *) ring[RING];
static atomic_bool stop;

static void *put_all(void *arg)
{
	struct weir_buf *buf;
	unsigned int at = 0;

	(void)arg;
	bench_pin(1);
	while (!atomic_load(&stop)) {
		buf = atomic_load(&ring[at]);
		if (!buf)
			continue;
		atomic_store(&ring[at], NULL);
		at = (at + 1) % RING;
		weir_buf_put(buf);
	}
	return NULL;
}

static double handed_over(struct fixture *g, uint64_t rounds)
{
	struct weir_buf *buf;
	unsigned int at = 0;
	pthread_t thread;
	uint64_t begun;

	atomic_store(&stop, false);
	if (pthread_create(&thread, NULL, put_all, NULL))
		bench_die("pthread_create", 0);
	begun = bench_wall_ns();
	for (uint64_t i = 0; i < rounds; i++) {
		while (weir_pool_get(&buf, g->pool) == -EAGAIN)
			bench_must(weir_reactor_turn(g->r, 0), "turn");
		while (atomic_load(&ring[at]))
			;
		atomic_store(&ring[at], buf);
		at = (at + 1) % RING;
	}
	begun = bench_wall_ns() - begun;
	while (atomic_load(&ring[(at + RING - 1) % RING]))
		;
	atomic_store(&stop, true);
	pthread_join(thread, NULL);
	while (weir_reactor_turn(g->r, 0) > 0)
		;
	return (double)begun / (double)rounds;
}

static void one_depth(struct bench *b, struct fixture *g, uint32_t depth,
		      bool dpdk)
{
	uint64_t rounds = (b->quick ? 10000u : 4000000u) / depth;
	char what[48];

	snprintf(what, sizeof(what), "get+put, depth %u", depth);
	if (bench_wants(b, "inventory"))
		bench_add(b, what, "inventory", "ns",
			  inventory(g, depth, rounds));
	if (bench_wants(b, "pool"))
		bench_add(b, what, "pool", "ns", pool(g->pool, depth, rounds));
	if (bench_wants(b, "store, cache 64"))
		bench_add(b, what, "store, cache 64", "ns",
			  pool(g->cached, depth, rounds));
	if (bench_wants(b, "store, no cache"))
		bench_add(b, what, "store, no cache", "ns",
			  pool(g->bare, depth, rounds));
	if (dpdk && bench_wants(b, "rte_mempool"))
		bench_add(b, what, "rte_mempool", "ns",
			  mempool_run(depth, rounds));
}

static void goals(struct bench *b)
{
	static const char *const hit = "get+put, depth 1";

	bench_goal(b, "inventory get and put, at most 10 ns", hit, "inventory",
		   NULL, BENCH_AT_MOST, 10);
	bench_goal(b, "a hit costs at most twice an rte_mempool's", hit,
		   "store, cache 64", "rte_mempool", BENCH_AT_MOST, 2);
}

int main(int argc, char **argv)
{
	const char *reason = NULL;
	static struct bench b;
	struct fixture g = { 0 };
	bool dpdk;

	bench_init(&b, "buf", argc, argv);
	b.reference = "rte_mempool";
	dpdk = mempool_open(BUFS - 1, BUF_SIZE, CACHE, &reason);
	if (!dpdk)
		bench_note("%s: rte_mempool is left out", reason);
	bench_pin(0);
	fixture_begin(&g);
	for (bench_begin(&b); bench_next(&b); ) {
		one_depth(&b, &g, 1, dpdk);
		one_depth(&b, &g, 32, dpdk);
		one_depth(&b, &g, DEEP, dpdk);
		if (bench_cpus() > 1 && bench_wants(&b, "pool"))
			bench_add(&b, "get, put on another core", "pool", "ns",
				  handed_over(&g, b.quick ? 10000 : 1000000));
	}
	goals(&b);
	fixture_end(&g);
	if (dpdk)
		mempool_close();
	return bench_done(&b);
}
