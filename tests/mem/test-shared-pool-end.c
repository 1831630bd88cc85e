/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Stores, pools, counts and reactors that end while others are still at it, in
 * any order.  What goes wrong here is memory that is used after it was freed:
 * ThreadSanitizer and AddressSanitizer see it.
 */

#include "tests/support/cores.h"
#include "tests/support/job-fixture.h"

#include <weir/inventory.h>
#include <weir/pool.h>
#include <weir/segment.h>
#include <weir/shared-pool.h>

static int rounds(void)
{
	return want_long() ? 2000 : 200;
}

static struct weir_shared_pool *make_shared_pool(void)
{
	struct weir_shared_pool_class one = { .buf_size = 100, .bufs = 4 };
	struct weir_shared_pool_opts opts = {
		.size = sizeof(opts),
		.classes = &one,
		.n_classes = 1,
		.flags = WEIR_SHARED_POOL_NO_HUGE,
	};
	struct weir_shared_pool *shared_pool = NULL;

	assert_int_equal(weir_shared_pool_create(&shared_pool, &opts), 0);
	return shared_pool;
}

static struct weir_pool *make_pool(struct weir_reactor *r,
				   struct weir_shared_pool *shared_pool)
{
	struct weir_pool_opts opts = {
		.size = sizeof(opts),
		.shared_pool = shared_pool,
		.cache = 2,
	};
	struct weir_pool *pool = NULL;

	MUST(!weir_pool_create(&pool, r, &opts));
	return pool;
}

static struct weir_reactor *another_reactor(void **state)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts),
		.backend = backend_of(*state),
		.sim = harness_sim,
	};
	struct weir_reactor *r = NULL;

	assert_int_equal(weir_reactor_create(&r, &opts), 0);
	return r;
}

/* A pool on a core of its own. */
struct member {
	struct core core;
	struct weir_shared_pool *shared_pool;
	struct weir_pool *pool;
};

static void member_open(struct core *core, void *arg)
{
	struct member *m = arg;

	m->pool = make_pool(core->r, m->shared_pool);
}

static void member_close(struct core *core, void *arg)
{
	struct member *m = arg;

	(void)core;
	MUST(!weir_pool_destroy(m->pool));
}

/* Its last pool has gone, and the count's end is still to come. */
static void a_count_on_its_way_home_holds_the_shared_pool(void **state)
{
	struct weir_shared_pool_count c = { .size = sizeof(c) };
	struct weir_reactor *r = start_reactor(state);
	struct weir_reactor *other = another_reactor(state);
	struct weir_shared_pool *shared_pool = make_shared_pool();
	struct weir_pool *pool = make_pool(other, shared_pool);
	struct rec rec;

	rec_init(&rec);
	STARTS(weir_shared_pool_count(shared_pool, r, &rec.op, &c));
	assert_int_equal(weir_pool_destroy(pool), 0);
	assert_int_equal(weir_shared_pool_destroy(shared_pool), -EBUSY);
	assert_string_equal(weir_why(),
			    "weir_shared_pool_destroy: 1 counts are in "
			    "flight; wait for them, or cancel them");
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	assert_int_equal(finish(r, &rec), 4);
	assert_int_equal(weir_shared_pool_destroy(shared_pool), 0);
	assert_int_equal(weir_reactor_destroy(other), 0);
}

static void a_count_that_was_cancelled_holds_nothing(void **state)
{
	struct weir_shared_pool_count c = { .size = sizeof(c) };
	struct weir_reactor *r = start_reactor(state);
	struct weir_reactor *other = another_reactor(state);
	struct weir_shared_pool *shared_pool = make_shared_pool();
	struct weir_pool *pool = make_pool(other, shared_pool);
	struct rec rec;

	rec_init(&rec);
	STARTS(weir_shared_pool_count(shared_pool, r, &rec.op, &c));
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	assert_int_equal(weir_pool_destroy(pool), 0);
	assert_int_equal(weir_shared_pool_destroy(shared_pool), 0);
	assert_int_equal(finish(r, &rec), -ECANCELED);
	assert_int_equal(weir_reactor_destroy(other), 0);
}

/* Whoever destroys the shared pool tries until the last pool is gone. */
static void a_shared_pool_goes_as_soon_as_its_last_pool_has(void **state)
{
	struct member m;
	int i, err;

	memset(&m, 0, sizeof(m));
	core_begin(&m.core, state);
	for (i = 0; i < rounds(); i++) {
		m.shared_pool = make_shared_pool();
		core_do(&m.core, member_open, &m);
		core_post(&m.core, member_close, &m);
		while ((err = weir_shared_pool_destroy(m.shared_pool)))
			MUST(err == -EBUSY && !sched_yield());
		core_wait(&m.core);
	}
	core_end(&m.core);
}

/* Who has sent the count back may not have woken it yet. */
static void a_reactor_goes_as_soon_as_its_count_has_ended(void **state)
{
	struct weir_shared_pool_count c = { .size = sizeof(c) };
	struct weir_reactor *r;
	struct member m;
	struct rec rec;
	int i;

	memset(&m, 0, sizeof(m));
	m.shared_pool = make_shared_pool();
	core_begin(&m.core, state);
	core_do(&m.core, member_open, &m);
	for (i = 0; i < rounds(); i++) {
		r = another_reactor(state);
		rec_init(&rec);
		STARTS(weir_shared_pool_count(m.shared_pool, r, &rec.op, &c));
		assert_int_equal(finish(r, &rec), 4);
		assert_int_equal(weir_reactor_destroy(r), 0);
	}
	core_do(&m.core, member_close, &m);
	core_end(&m.core);
	assert_int_equal(weir_shared_pool_destroy(m.shared_pool), 0);
}

/* An inventory on a core of its own. */
struct guest {
	struct core core;
	struct weir_mmap *m;
	struct weir_inventory *inv;
};

static void guest_open(struct core *core, void *arg)
{
	struct guest *g = arg;

	MUST(!weir_inventory_create(&g->inv, core->r, NULL));
	MUST(!weir_inventory_attach(g->inv, g->m));
}

static void guest_close(struct core *core, void *arg)
{
	struct guest *g = arg;

	(void)core;
	MUST(!weir_inventory_destroy(g->inv));
}

/* Done, if the core was asleep, after what came before it. */
static void nothing(struct core *core, void *arg)
{
	(void)core;
	(void)arg;
}

static void look_at_shared_pool(int event, const struct weir_segment *list,
				void *arg)
{
	(void)list;
	if (event == WEIR_SEGMENT_REMOVING)
		MUST(weir_shared_pool_describe(arg, NULL, 0));
}

/* Here it is the end of a stop, which tells of the removal of a segment, and
 * may look at the shared pool then. */
static void bufs_returned_at_a_pools_end_wait_for_a_turn(void **state)
{
	static char mem[4096] __attribute__((aligned(4096)));
	struct weir_reactor *r = start_reactor(state);
	struct weir_shared_pool *shared_pool = make_shared_pool();
	struct weir_pool *pool = make_pool(r, shared_pool);
	struct guest g;
	struct rec rec;

	memset(&g, 0, sizeof(g));
	g.m = start_mmap(mem, sizeof(mem), WEIR_MMAP_WRITE);
	core_begin(&g.core, state);
	core_do(&g.core, guest_open, &g);
	rec_init(&rec);
	core_await_sleep(&g.core);
	STARTS(weir_mmap_stop(g.m, r, &rec.op));
	core_do(&g.core, nothing, NULL);
	core_await_sleep(&g.core);
	some_turns(r, 1);
	core_do(&g.core, nothing, NULL);
	assert_int_equal(weir_mmap_state(g.m), WEIR_MMAP_STOPPING);
	assert_int_equal(weir_segment_event_register("end", look_at_shared_pool,
						     shared_pool),
			 0);
	assert_int_equal(weir_shared_pool_grow(shared_pool, 100, 1), 0);
	assert_int_equal(weir_pool_destroy(pool), 0);
	assert_int_equal(weir_mmap_state(g.m), WEIR_MMAP_STOPPING);
	assert_int_equal(finish(r, &rec), 0);
	assert_int_equal(weir_mmap_state(g.m), WEIR_MMAP_STOPPED);
	assert_int_equal(weir_segment_event_unregister("end", shared_pool), 0);
	core_do(&g.core, guest_close, &g);
	core_end(&g.core);
	assert_int_equal(weir_mmap_destroy(g.m), 0);
	assert_int_equal(weir_shared_pool_destroy(shared_pool), 0);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(a_count_on_its_way_home_holds_the_shared_pool),
		CASE(a_count_that_was_cancelled_holds_nothing),
		REAL(a_shared_pool_goes_as_soon_as_its_last_pool_has),
		CASE(a_reactor_goes_as_soon_as_its_count_has_ended),
		REAL(bufs_returned_at_a_pools_end_wait_for_a_turn),
	};

	return harness_run_all(cases, N_OF(cases));
}
