/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * What pools, stores, inventories, DMA contexts, engines, channels and
 * connections have on the page of statistics is what their own calls tell.
 */

#include "tests/support/ignore.h"
#include "tests/support/job-fixture.h"
#include "tests/support/stats-fixture.h"

#include <weir/rdma/channel.h>
#include <weir/conn.h>
#include <weir/engine.h>
#include <weir/inventory.h>
#include <weir/poll-hook.h>
#include <weir/pool.h>
#include <weir/shared-pool.h>

#ifdef HAVE_VERBS
#include "tests/support/conn-fixture.h"
#endif

static struct weir_stats *read_all(struct weir_reactor *r)
{
	assert_int_equal(weir_stats_update(r), 0);
	return must_open(getpid());
}

/* All numbers of a section, in the order of the struct that has them. */
static void assert_words(const struct weir_stats *s, const char *kind,
			 const char *label, const void *counters, size_t len)
{
	struct weir_stats_field f = { .size = sizeof(f) };
	int i = find_section(s, kind, label);
	const uint64_t *want = counters;
	uint32_t j;

	assert_true(i >= 0);
	for (j = 0; !weir_stats_field(s, (uint32_t)i, j, &f); j++)
		if (f.value != want[j])
			fail_msg("%s.%s is %llu and not %llu", kind, f.name,
				 (unsigned long long)f.value,
				 (unsigned long long)want[j]);
	assert_int_equal(j, len / sizeof(want[0]));
}

#define ASSERT_WORDS(s, kind, label, stats, first)                        \
	assert_words(s, kind, label, &(stats).first,                      \
		     sizeof(stats) - offsetof(__typeof__(stats), first))

static void page_has_pools_and_shared_pools(void **state)
{
	struct weir_shared_pool_class cls = { .buf_size = 8192, .bufs = 64 };
	struct weir_shared_pool_opts store_opts = { .size = sizeof(store_opts),
						    .classes = &cls,
						    .n_classes = 1 };
	struct weir_pool_opts opts = { .size = sizeof(opts), .cache = 8 };
	struct weir_shared_pool_stats sst = { .size = sizeof(sst) };
	struct weir_pool_stats pst = { .size = sizeof(pst) };
	struct weir_shared_pool *store;
	struct weir_pool *pool, *own;
	struct weir_reactor *r;
	struct weir_buf *buf;
	struct weir_stats *s;

	publish_here(state);
	r = start_reactor(state);
	assert_int_equal(weir_shared_pool_create(&store, &store_opts), 0);
	opts.shared_pool = store;
	assert_int_equal(weir_pool_create(&pool, r, &opts), 0);
	opts = (struct weir_pool_opts){ .size = sizeof(opts), .bufs = 3,
					.buf_size = 512 };
	assert_int_equal(weir_pool_create(&own, r, &opts), 0);
	assert_int_equal(weir_pool_get(&buf, pool), 0);
	s = read_all(r);
	assert_int_equal(weir_pool_stats(pool, &pst), 0);
	assert_int_equal(pst.out, 1);
	ASSERT_WORDS(s, "pool", "8192 B", pst, total);
	assert_int_equal(weir_pool_stats(own, &pst), 0);
	ASSERT_WORDS(s, "pool", "512 B", pst, total);
	assert_int_equal(weir_shared_pool_stats(store, 0, &sst), 0);
	assert_int_equal(sst.pools, 1);
	ASSERT_WORDS(s, "store", "8192 B", sst, total);
	weir_buf_put(buf);
	assert_int_equal(weir_pool_destroy(own), 0);
	assert_int_equal(weir_pool_destroy(pool), 0);
	assert_int_equal(weir_stats_read(s), 0);
	assert_int_equal(find_section(s, "pool", ""), -1);
	assert_int_equal(weir_shared_pool_destroy(store), 0);
	assert_int_equal(weir_stats_read(s), 0);
	assert_int_equal(find_section(s, "store", ""), -1);
	weir_stats_close(s);
	publish_no_more(state);
}

static void page_has_inventories(void **state)
{
	struct weir_inventory_stats st = { .size = sizeof(st) };
	static char mem[4096];
	struct weir_mmap *mmap = start_mmap(mem, sizeof(mem), WEIR_MMAP_READ);
	struct weir_inventory *inv;
	struct weir_reactor *r;
	struct weir_buf *buf;
	struct weir_stats *s;

	publish_here(state);
	r = start_reactor(state);
	assert_int_equal(weir_inventory_create(&inv, r, NULL), 0);
	assert_int_equal(weir_inventory_attach(inv, mmap), 0);
	assert_int_equal(weir_inventory_get_by_addr(&buf, inv, mmap, mem, 1),
			 0);
	s = read_all(r);
	assert_int_equal(weir_inventory_stats(inv, &st), 0);
	assert_int_equal(st.out, 1);
	ASSERT_WORDS(s, "inventory", "", st, total);
	weir_buf_put(buf);
	assert_int_equal(weir_inventory_destroy(inv), 0);
	assert_int_equal(weir_stats_read(s), 0);
	assert_int_equal(find_section(s, "inventory", ""), -1);
	weir_stats_close(s);
	assert_int_equal(weir_mmap_destroy(mmap), 0);
	publish_no_more(state);
}

static void page_has_poll_hooks(void **state)
{
	const struct weir_poll_hook_ops ops = {
		.size = sizeof(ops),
		.name = "card",
		.poll = ignore_hook_poll,
		.before_sleep = ignore_before_sleep,
	};
	struct weir_poll_hook_stats st = { .size = sizeof(st) };
	struct weir_poll_hook *hook;
	struct weir_reactor *r;
	struct weir_stats *s;
	int bad = 1000;

	publish_here(state);
	r = start_reactor(state);
	assert_int_equal(weir_poll_hook_create(&hook, r, &ops, &bad), 0);
	do {
		assert_true(weir_reactor_turn(r, WEIR_MSEC) >= 0);
		assert_int_equal(weir_poll_hook_stats(hook, &st), 0);
	} while (!st.polls || !st.failures);
	s = read_all(r);
	assert_int_equal(weir_poll_hook_stats(hook, &st), 0);
	assert_words(s, "poll_hook", "card", &st.polls,
		     offsetof(struct weir_poll_hook_stats, error) -
		     offsetof(struct weir_poll_hook_stats, polls));
	weir_poll_hook_destroy(hook);
	assert_int_equal(weir_stats_read(s), 0);
	assert_int_equal(find_section(s, "poll_hook", "card"), -1);
	weir_stats_close(s);
	publish_no_more(state);
}

static void assert_engines(const struct weir_stats *s,
			   const struct weir_dma *dma)
{
	struct weir_dma_engine_stats st = { .size = sizeof(st) };
	uint32_t i;

	for (i = 0; !weir_dma_engine_stats(dma, i, &st); i++)
		ASSERT_WORDS(s, "engine", st.name, st, jobs);
	assert_true(i >= 5);
}

static int engine_can(void *arg, const struct weir_engine_query *query,
		      const char **why)
{
	(void)arg, (void)query;
	*why = "it does nothing";
	return 0;
}

static int engine_start(void *arg, struct weir_job *job)
{
	(void)arg, (void)job;
	return -EOPNOTSUPP;
}

static void page_has_dma_contexts_and_their_engines(void **state)
{
	static const struct weir_engine_ops ops = {
		.size = sizeof(ops), .name = "mine", .can = engine_can,
		.start = engine_start,
	};
	struct weir_dma_stats st = { .size = sizeof(st) };
	static char src[4096], dst[4096];
	struct weir_dma *dma = NULL;
	struct weir_reactor *r;
	struct weir_stats *s;
	struct jrec j;

	publish_here(state);
	r = start_reactor(state);
	assert_int_equal(weir_dma_create(&dma, r, NULL), 0);
	assert_int_equal(weir_dma_add_engine(dma, &ops, NULL), 0);
	assert_int_equal(weir_dma_start(dma), 0);
	for (int i = 0; i < 3; i++) {
		jrec_init(&j);
		weir_job_copy(&j.job, weir_operand_mem(dst, sizeof(dst)),
			      weir_operand_mem(src, sizeof(src)));
		assert_int_equal(jrec_run(dma, &j), sizeof(src));
	}
	s = read_all(r);
	assert_int_equal(weir_dma_stats(dma, &st), 0);
	assert_int_equal(st.completed, 3);
	ASSERT_WORDS(s, "dma", "", st, started);
	assert_int_equal(value_of(s, "engine", "cpu", "bytes"),
			 3 * sizeof(src));
	assert_engines(s, dma);
	assert_true(find_section(s, "engine", "mine") >= 0);
	assert_int_equal(value_of(s, "operation", "job", "count"), 3);
	assert_int_equal(weir_dma_destroy(dma), 0);
	assert_int_equal(weir_stats_read(s), 0);
	assert_int_equal(find_section(s, "dma", ""), -1);
	assert_int_equal(find_section(s, "engine", ""), -1);
	weir_stats_close(s);
	publish_no_more(state);
}

#ifdef HAVE_VERBS
static void page_has_channels_and_connections(void **state)
{
	struct weir_conn_info info = { .size = sizeof(info) };
	struct weir_stats *s;
	struct ends e;

	publish_here(state);
	ends_begin(&e, state, AF_INET);
	ends_establish(&e);
	s = read_all(e.r);
	assert_int_equal(weir_conn_info(e.client, &info), 0);
	assert_int_equal(value_of(s, "connection", "", "state"),
			 WEIR_CONN_ESTABLISHED);
	assert_int_equal(value_of(s, "connection", "", "sends"), info.sends);
	assert_int_equal(value_of(s, "connection", "", "connects"), 1);
	assert_true(value_of(s, "channel", "", "capacity") > 0);
	assert_int_equal(value_of(s, "channel", "", "failed"), 0);
	ends_destroy(&e);
	assert_int_equal(weir_stats_read(s), 0);
	assert_int_equal(find_section(s, "connection", ""), -1);
	assert_int_equal(find_section(s, "channel", ""), -1);
	weir_stats_close(s);
	publish_no_more(state);
}
#endif

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(page_has_pools_and_shared_pools),
		CASE(page_has_inventories),
		CASE(page_has_poll_hooks),
		CASE(page_has_dma_contexts_and_their_engines),
#ifdef HAVE_VERBS
		CASE(page_has_channels_and_connections),
#endif
	};

	return harness_run(cases, N_OF(cases));
}
