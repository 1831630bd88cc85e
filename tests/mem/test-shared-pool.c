/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Stores: caches, waiters of many reactors, growth, and exact numbers.  C2.4 to
 * C2.6 and gotcha 21 of the systems that have such caches are named beside
 * their cases.
 */

#include "tests/support/job-fixture.h"
#include "tests/support/cores.h"
#include "tests/support/table-fixture.h"

#include <sys/mman.h>
#include <time.h>

#include <weir/pool.h>
#include <weir/shared-pool.h>
#include <weir/watch.h>

#include "base/fault.h"
#include "mem/buf-internal.h"

#define SMALL 1000
#define LARGE 5000

static struct weir_shared_pool *make_shared_pool(uint32_t small, uint32_t large)
{
	struct weir_shared_pool_class classes[] = {
		{ .buf_size = LARGE, .bufs = large },
		{ .buf_size = SMALL, .bufs = small, .align = 64 },
	};
	struct weir_shared_pool_opts opts = {
		.size = sizeof(opts),
		.classes = classes,
		.n_classes = 2,
	};
	struct weir_shared_pool *shared_pool = NULL;

	assert_int_equal(weir_shared_pool_create(&shared_pool, &opts), 0);
	return shared_pool;
}

static struct weir_pool *make_pool(struct weir_reactor *r,
				   struct weir_shared_pool *shared_pool,
				   uint32_t cache)
{
	struct weir_pool_opts opts = {
		.size = sizeof(opts),
		.shared_pool = shared_pool,
		.cache = cache,
		.flags = cache ? 0 : WEIR_POOL_NO_CACHE,
	};
	struct weir_pool *pool = NULL;

	MUST(!weir_pool_create(&pool, r, &opts));
	return pool;
}

static struct weir_pool_stats look(const struct weir_pool *pool)
{
	struct weir_pool_stats s = { .size = sizeof(s) };

	MUST(!weir_pool_stats(pool, &s));
	MUST(s.free + s.out + s.in_transit == s.total);
	return s;
}

static struct weir_shared_pool_stats survey(
	struct weir_shared_pool *shared_pool)
{
	struct weir_shared_pool_stats s = { .size = sizeof(s) };

	MUST(!weir_shared_pool_stats(shared_pool, 0, &s));
	MUST(s.free + s.held + s.in_transit == s.total);
	return s;
}

static struct weir_buf *take(struct weir_pool *pool, size_t size)
{
	struct weir_buf *buf = NULL;

	MUST(!weir_pool_get_sized(&buf, pool, size));
	MUST(weir_buf_len(buf) >= size && !weir_buf_data_len(buf));
	return buf;
}

/* All that it has is a waiter. */
static void pool_with_a_waiter_is_not_destroyed(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_shared_pool *shared_pool = make_shared_pool(1, 1);
	struct weir_pool *pool = make_pool(r, shared_pool, 0);
	struct weir_pool *other = make_pool(r, shared_pool, 0);
	struct weir_buf *buf = take(other, SMALL), *large = take(other, LARGE);
	struct rec rec;

	rec_init(&rec);
	STARTS(weir_pool_wait_sized(pool, &rec.op, SMALL));
	some_turns(r, 2);
	assert_int_equal(rec.calls, 0);
	assert_int_equal(weir_pool_destroy(pool), -EBUSY);
	weir_buf_put(buf);
	assert_int_equal(finish(r, &rec), SMALL);
	weir_buf_put(weir_pool_taken(&rec.op));
	weir_buf_put(large);
	assert_int_equal(weir_pool_destroy(pool), 0);
	assert_int_equal(weir_pool_destroy(other), 0);
	assert_int_equal(weir_shared_pool_destroy(shared_pool), 0);
}

static void bad_options_are_refused(void **state)
{
	static const struct weir_shared_pool_class bad[][2] = {
		{ { .bufs = 1 } },
		{ { .buf_size = 1 } },
		{ { .buf_size = 1, .bufs = (1u << 24) + 1 } },
		{ { .buf_size = 1, .bufs = 1, .align = 24 } },
		{ { .buf_size = SIZE_MAX / 2, .bufs = 1 } },
		{ { .buf_size = 1, .bufs = 1 }, { .buf_size = 1, .bufs = 2 } },
	};
	struct weir_shared_pool_opts opts = { .size = sizeof(opts),
					      .n_classes = 1 };
	struct weir_shared_pool *shared_pool = NULL;
	size_t i;

	(void)state;
	assert_int_equal(weir_shared_pool_create(&shared_pool, NULL), -EINVAL);
	assert_int_equal(weir_shared_pool_create(&shared_pool, &opts), -EINVAL);
	for (i = 0; i < N_OF(bad); i++) {
		opts.classes = bad[i];
		opts.n_classes = bad[i][1].bufs ? 2 : 1;
		assert_int_equal(weir_shared_pool_create(&shared_pool, &opts),
				 -EINVAL);
		assert_starts_with(weir_why(), "weir_shared_pool_create: ");
	}
	opts.classes = (struct weir_shared_pool_class[]){ { 1, 0, 1, 0 } };
	opts.n_classes = 65;
	assert_int_equal(weir_shared_pool_create(&shared_pool, &opts), -EINVAL);
	opts.n_classes = 1;
	opts.flags = 0x100;
	assert_int_equal(weir_shared_pool_create(&shared_pool, &opts), -EINVAL);
	opts.flags = 0;
	opts.reserved = 1;
	assert_int_equal(weir_shared_pool_create(&shared_pool, &opts), -E2BIG);
	opts.reserved = 0;
	opts.classes = (struct weir_shared_pool_class[]){ { 1, 0, 1, 1 } };
	assert_int_equal(weir_shared_pool_create(&shared_pool, &opts), -E2BIG);
	assert_null(shared_pool);
	assert_int_equal(weir_shared_pool_destroy(NULL), 0);
}

/* C2.4: a cache larger than the free list, and what is the shared pool's to
 * say. */
static void bad_options_of_a_pool_are_refused(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_shared_pool *shared_pool = make_shared_pool(10, 4);
	const struct weir_pool_opts bad[] = {
		{ .shared_pool = shared_pool, .cache = 5 },
		{ .shared_pool = shared_pool, .bufs = 1 },
		{ .shared_pool = shared_pool, .buf_size = 1 },
		{ .shared_pool = shared_pool, .align = 1 },
		{ .shared_pool = shared_pool, .mmap = (void *)8 },
		{ .shared_pool = shared_pool, .flags = WEIR_POOL_NO_HUGE },
		{ .shared_pool = shared_pool,
		  .flags = WEIR_POOL_NO_CACHE,
		  .cache = 1 },
		{ .cache = 1 },
		{ .flags = WEIR_POOL_NO_CACHE },
	};
	struct weir_pool_opts opts;
	struct weir_pool *pool = NULL;
	size_t i;

	for (i = 0; i < N_OF(bad); i++) {
		opts = bad[i];
		opts.size = sizeof(opts);
		assert_int_equal(weir_pool_create(&pool, r, &opts), -EINVAL);
	}
	assert_null(pool);
	pool = make_pool(r, shared_pool, 4);
	assert_int_equal(weir_shared_pool_destroy(shared_pool), -EBUSY);
	assert_int_equal(weir_pool_grow(pool, 1), -EPERM);
	assert_int_equal(weir_pool_destroy(pool), 0);
	assert_int_equal(weir_shared_pool_destroy(shared_pool), 0);
}

static void the_smallest_size_that_fits_is_taken(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_shared_pool *shared_pool = make_shared_pool(1, 1);
	struct weir_pool *pool = make_pool(r, shared_pool, 1);
	struct weir_buf *small, *large, *none = NULL;
	struct rec rec;

	small = take(pool, 0);
	assert_int_equal(weir_buf_len(small), SMALL);
	assert_int_equal(weir_pool_buf_size(pool), SMALL);
	assert_int_equal(weir_pool_get_sized(&none, pool, SMALL), -EAGAIN);
	large = take(pool, SMALL + 1);
	assert_int_equal(weir_buf_len(large), LARGE);
	assert_int_equal(weir_pool_get_sized(&none, pool, LARGE + 1),
			 -EMSGSIZE);
	assert_int_equal(weir_pool_get_bulk(&none, pool, LARGE + 1, 1),
			 -EMSGSIZE);
	rec_init(&rec);
	assert_int_equal(weir_pool_wait_sized(pool, &rec.op, LARGE + 1),
			 -EMSGSIZE);
	assert_null(none);

	STARTS(weir_pool_wait_sized(pool, &rec.op, LARGE));
	weir_buf_put(small);
	some_turns(r, 3);
	assert_int_equal(rec.calls, 0);
	weir_buf_put(large);
	assert_int_equal(finish(r, &rec), LARGE);
	weir_buf_put(weir_pool_taken(&rec.op));
	assert_int_equal(weir_pool_destroy(pool), 0);
	assert_int_equal(weir_shared_pool_destroy(shared_pool), 0);
}

static void buffers_are_apart_and_writable(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_shared_pool *shared_pool = make_shared_pool(20, 10);
	struct weir_pool *pool = make_pool(r, shared_pool, 4);
	struct weir_buf *buf[30];
	unsigned char *p;
	int i;

	for (i = 0; i < 30; i++) {
		buf[i] = take(pool, i < 20 ? SMALL : LARGE);
		p = weir_buf_addr(buf[i]);
		assert_int_equal((uintptr_t)p % (i < 20 ? 64 : 4096), 0);
		memset(p, i, weir_buf_len(buf[i]));
	}
	for (i = 0; i < 30; i++) {
		p = weir_buf_addr(buf[i]);
		assert_int_equal(p[0], i);
		assert_int_equal(p[weir_buf_len(buf[i]) - 1], i);
		weir_buf_put(buf[i]);
	}
	assert_int_equal(weir_pool_destroy(pool), 0);
	assert_int_equal(weir_shared_pool_destroy(shared_pool), 0);
}

/* C2.5: half a cache more on a miss, half a cache back on overflow. */
static void a_cache_is_filled_and_emptied_by_halves(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_shared_pool *shared_pool = make_shared_pool(100, 8);
	struct weir_pool *pool = make_pool(r, shared_pool, 8);
	struct weir_buf *buf[20];
	int i;

	assert_int_equal(look(pool).total, 0);
	buf[0] = take(pool, 1);
	assert_int_equal(look(pool).free, 4);
	assert_int_equal(survey(shared_pool).held, 5);
	for (i = 1; i < 5; i++)
		buf[i] = take(pool, 1);
	assert_int_equal(look(pool).refills, 1);
	for (; i < 20; i++)
		buf[i] = take(pool, 1);
	assert_int_equal(look(pool).refills, 4);
	assert_int_equal(look(pool).free, 0);

	for (i = 0; i < 8; i++)
		weir_buf_put(buf[i]);
	assert_int_equal(look(pool).free, 8);
	assert_int_equal(look(pool).flushes, 0);
	weir_buf_put(buf[i++]);
	assert_int_equal(look(pool).free, 4);
	assert_int_equal(look(pool).flushes, 1);
	/* The warm ones stay. */
	buf[0] = take(pool, 1);
	assert_ptr_equal(buf[0], buf[8]);
	weir_buf_put(buf[0]);
	while (i < 20)
		weir_buf_put(buf[i++]);
	assert_int_equal(survey(shared_pool).held, look(pool).free);
	assert_int_equal(weir_pool_destroy(pool), 0);
	assert_int_equal(survey(shared_pool).free, 108);
	assert_int_equal(weir_shared_pool_destroy(shared_pool), 0);
}

/* C2.4, C2.5: all or nothing; what is more than a cache goes past it. */
static void bulks_are_all_or_nothing(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_shared_pool *shared_pool = make_shared_pool(40, 8);
	struct weir_pool *pool = make_pool(r, shared_pool, 8);
	struct weir_buf *buf[41] = { NULL };
	int i;

	assert_int_equal(weir_pool_get_bulk(buf, pool, 0, 41), -EAGAIN);
	assert_null(buf[0]);
	assert_int_equal(look(pool).total, 0);
	assert_int_equal(weir_pool_get_bulk(buf, pool, 0, 0), 0);
	assert_int_equal(weir_pool_get_bulk(buf, pool, 0, 30), 0);
	assert_int_equal(look(pool).free, 0);
	assert_int_equal(look(pool).out, 30);
	assert_int_equal(weir_pool_get_bulk(buf + 30, pool, 0, 4), 0);
	assert_int_equal(look(pool).free, 4);
	assert_int_equal(weir_pool_get_bulk(buf + 34, pool, 0, 7), -EAGAIN);
	assert_int_equal(weir_pool_get_bulk(buf + 34, pool, 0, 6), 0);
	assert_null(buf[40]);
	for (i = 0; i < 40; i++)
		weir_buf_put(buf[i]);
	assert_int_equal(look(pool).out, 0);
	assert_int_equal(weir_pool_destroy(pool), 0);
	assert_int_equal(weir_shared_pool_destroy(shared_pool), 0);
}

static void shared_pool_without_a_cache_keeps_nothing(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_shared_pool *shared_pool = make_shared_pool(4, 4);
	struct weir_pool *pool = make_pool(r, shared_pool, 0);
	struct weir_buf *buf = take(pool, 1);

	assert_int_equal(look(pool).free, 0);
	assert_int_equal(survey(shared_pool).free, 7);
	weir_buf_put(buf);
	assert_int_equal(look(pool).free, 0);
	assert_int_equal(survey(shared_pool).free, 8);
	assert_int_equal(weir_pool_destroy(pool), 0);
	assert_int_equal(weir_shared_pool_destroy(shared_pool), 0);
}

/* A pool on a core of its own, with what it holds. */
struct member {
	struct core core;
	struct weir_shared_pool *shared_pool;
	struct weir_pool *pool;
	uint32_t cache;
	struct weir_buf *buf[64];
	int n;
	struct rec rec[4];
	atomic_int *served; /* How many of all members were. */
	int place[4];
};

static void member_open(struct core *core, void *arg)
{
	struct member *m = arg;

	m->pool = make_pool(core->r, m->shared_pool, m->cache);
}

static void member_begin(struct member *m, void **state,
			 struct weir_shared_pool *shared_pool, uint32_t cache)
{
	memset(m, 0, sizeof(*m));
	m->shared_pool = shared_pool;
	m->cache = cache;
	core_begin(&m->core, state);
	core_do(&m->core, member_open, m);
}

static void member_close(struct core *core, void *arg)
{
	struct member *m = arg;

	(void)core;
	MUST(!weir_pool_destroy(m->pool));
}

static void member_end(struct member *m)
{
	core_do(&m->core, member_close, m);
	core_end(&m->core);
}

/* Take all there are of the small. */
static void member_takes(struct core *core, void *arg)
{
	struct member *m = arg;

	(void)core;
	while (m->n < 64 && !weir_pool_get(&m->buf[m->n], m->pool))
		m->n++;
}

static void member_puts(struct core *core, void *arg)
{
	struct member *m = arg;

	(void)core;
	while (m->n)
		weir_buf_put(m->buf[--m->n]);
	look(m->pool);
}

static void member_puts_one(struct core *core, void *arg)
{
	struct member *m = arg;

	(void)core;
	weir_buf_put(m->buf[--m->n]);
}

static void member_cannot_get(struct core *core, void *arg)
{
	struct member *m = arg;
	struct weir_buf *buf;

	(void)core;
	MUST(weir_pool_get(&buf, m->pool) == -EAGAIN);
}

/*
 * Gotcha 21, and the wait that never ends of spdk_iobuf: all that is free is in
 * the cache of a core that sleeps.
 */
static void cache_of_a_sleeping_core_is_recalled(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_shared_pool *shared_pool = make_shared_pool(16, 16);
	struct weir_pool *pool = make_pool(r, shared_pool, 16);
	struct weir_buf *none = NULL;
	struct member m;
	struct rec rec;

	member_begin(&m, state, shared_pool, 16);
	core_do(&m.core, member_takes, &m);
	assert_int_equal(m.n, 16);
	core_do(&m.core, member_puts, &m);
	core_await_sleep(&m.core);
	assert_int_equal(survey(shared_pool).held, 16);

	assert_int_equal(weir_pool_get(&none, pool), -EAGAIN);
	rec_init(&rec);
	STARTS(weir_pool_wait(pool, &rec.op));
	assert_int_equal(finish(r, &rec), SMALL);
	assert_int_equal(survey(shared_pool).recalls, 1);
	/* The one that was wanted has gone, the others are where they were. */
	assert_int_equal(look(pool).total, 1);
	assert_int_equal(survey(shared_pool).held, 16);
	weir_buf_put(weir_pool_taken(&rec.op));
	member_end(&m);
	assert_int_equal(weir_pool_destroy(pool), 0);
	assert_int_equal(weir_shared_pool_destroy(shared_pool), 0);
}

/* And nothing is recalled of who has nothing, so that it may sleep on. */
static void core_without_cached_buffers_is_not_woken(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_shared_pool *shared_pool = make_shared_pool(1, 1);
	struct weir_pool *pool = make_pool(r, shared_pool, 1);
	struct weir_buf *buf = take(pool, 1);
	struct member m;
	struct rec rec;

	member_begin(&m, state, shared_pool, 1);
	rec_init(&rec);
	STARTS(weir_pool_wait(pool, &rec.op));
	assert_int_equal(survey(shared_pool).recalls, 0);
	assert_int_equal(survey(shared_pool).waiting, 1);
	weir_buf_put(buf);
	assert_int_equal(finish(r, &rec), SMALL);
	weir_buf_put(weir_pool_taken(&rec.op));
	member_end(&m);
	assert_int_equal(weir_pool_destroy(pool), 0);
	assert_int_equal(weir_shared_pool_destroy(shared_pool), 0);
}

static void on_served(struct weir_op *op, int64_t res)
{
	struct rec *rec = weir_container_of(op, struct rec, op);
	struct member *m = op->data;

	MUST(res == SMALL);
	m->buf[m->n++] = weir_pool_taken(op);
	/* There is one buffer: nobody else is served meanwhile. */
	m->place[rec - m->rec] = atomic_load(m->served);
	atomic_fetch_add(m->served, 1);
}

static void member_waits(struct core *core, void *arg)
{
	struct member *m = arg;
	int i = 0;

	(void)core;
	while (m->rec[i].op.fn)
		i++;
	weir_op_init(&m->rec[i].op, on_served);
	m->rec[i].op.data = m;
	MUST(!weir_pool_wait(m->pool, &m->rec[i].op));
}

static uint64_t n_waiting(struct weir_shared_pool *shared_pool)
{
	return survey(shared_pool).waiting;
}

/*
 * Three wait here and there; the only buffer goes round in the order in which
 * they came, and nobody else gets it, wherever it is put.
 */
static void waiters_of_all_cores_are_one_queue(void **state)
{
	struct weir_shared_pool *shared_pool = make_shared_pool(1, 1);
	atomic_int served = 0;
	struct member m[2];
	int i;

	for (i = 0; i < 2; i++) {
		member_begin(&m[i], state, shared_pool, 1);
		m[i].served = &served;
	}
	core_do(&m[0].core, member_takes, &m[0]);
	core_do(&m[0].core, member_waits, &m[0]);
	core_do(&m[1].core, member_waits, &m[1]);
	core_do(&m[0].core, member_waits, &m[0]);
	assert_int_equal(n_waiting(shared_pool), 3);

	for (i = 0; i < 3; i++) {
		core_do(&m[i == 2].core, member_puts_one, &m[i == 2]);
		core_do(&m[0].core, member_cannot_get, &m[0]);
		core_do(&m[1].core, member_cannot_get, &m[1]);
		while (atomic_load(&served) == i)
			sched_yield();
	}
	assert_int_equal(m[0].place[0], 0);
	assert_int_equal(m[1].place[0], 1);
	assert_int_equal(m[0].place[1], 2);
	core_do(&m[0].core, member_puts, &m[0]);
	for (i = 0; i < 2; i++)
		member_end(&m[i]);
	assert_int_equal(weir_shared_pool_destroy(shared_pool), 0);
}

/* Not even with a buffer in its own cache, which has not been recalled yet. */
static int get_one(struct weir_buf **ret, struct weir_pool *pool)
{
	return weir_pool_get_bulk(ret, pool, 0, 1);
}

static void try_to_overtake(void **state,
			    int (*get)(struct weir_buf **ret,
				       struct weir_pool *pool))
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_shared_pool *shared_pool = make_shared_pool(2, 2);
	struct weir_pool *a = make_pool(r, shared_pool, 2);
	struct weir_pool *b = make_pool(r, shared_pool, 2);
	struct weir_buf *buf[2], *none = NULL;
	struct rec first, second;

	assert_int_equal(weir_pool_get_bulk(buf, a, 0, 2), 0);
	weir_buf_put(buf[0]);
	rec_init(&first);
	rec_init(&second);
	STARTS(weir_pool_wait(b, &first.op));
	assert_int_equal(look(a).free, 1);
	assert_int_equal(get(&none, a), -EAGAIN);
	assert_int_equal(survey(shared_pool).waiting, 0);
	STARTS(weir_pool_wait(a, &second.op));
	weir_buf_put(buf[1]);
	assert_int_equal(get(&none, a), -EAGAIN);
	UNTIL(r, first.calls && second.calls);
	assert_null(none);
	weir_buf_put(weir_pool_taken(&first.op));
	weir_buf_put(weir_pool_taken(&second.op));
	assert_int_equal(weir_pool_destroy(a), 0);
	assert_int_equal(weir_pool_destroy(b), 0);
	assert_int_equal(weir_shared_pool_destroy(shared_pool), 0);
	end_reactor(state);
}

static void get_does_not_overtake_a_waiter(void **state)
{
	try_to_overtake(state, weir_pool_get);
	try_to_overtake(state, get_one);
}

/* Given to a reactor that makes no turns, until it does. */
static void a_cancel_in_transit_is_too_late(void **state)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts) };
	struct weir_reactor *r = start_reactor(state), *still;
	struct weir_shared_pool *shared_pool = make_shared_pool(1, 1);
	struct weir_pool *a = make_pool(r, shared_pool, 1), *b;
	struct weir_buf *buf = take(a, 1);
	struct rec rec;

	opts.backend = backend_of(*state);
	opts.sim = harness_sim;
	assert_int_equal(weir_reactor_create(&still, &opts), 0);
	b = make_pool(still, shared_pool, 1);
	rec_init(&rec);
	STARTS(weir_pool_wait(b, &rec.op));
	weir_buf_put(buf);
	assert_int_equal(look(b).in_transit, 1);
	assert_int_equal(survey(shared_pool).in_transit, 1);
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	assert_int_equal(weir_pool_destroy(b), -EBUSY);
	assert_string_equal(weir_why(), "weir_pool_destroy: 0 buffers are out "
					"and 1 operations wait");
	assert_int_equal(finish(still, &rec), SMALL);
	assert_int_equal(look(b).in_transit, 0);
	weir_buf_put(weir_pool_taken(&rec.op));
	assert_int_equal(weir_pool_destroy(a), 0);
	assert_int_equal(weir_pool_destroy(b), 0);
	assert_int_equal(weir_reactor_destroy(still), 0);
	assert_int_equal(weir_shared_pool_destroy(shared_pool), 0);
}

/* What was cached at a pool's visit and has gone since is not counted twice. */
static void a_count_is_right_though_buffers_move(void **state)
{
	struct weir_shared_pool_count c = { .size = sizeof(c) };
	struct weir_reactor_opts opts = { .size = sizeof(opts) };
	struct weir_reactor *r = start_reactor(state), *still;
	struct weir_shared_pool *shared_pool = make_shared_pool(2, 2);
	struct weir_pool *a = make_pool(r, shared_pool, 2), *b;
	struct weir_buf *buf[2];
	struct rec count, wait;

	opts.backend = backend_of(*state);
	opts.sim = harness_sim;
	assert_int_equal(weir_reactor_create(&still, &opts), 0);
	b = make_pool(still, shared_pool, 2);
	assert_int_equal(weir_pool_get_bulk(buf, a, 0, 2), 0);
	weir_buf_put(buf[0]);
	weir_buf_put(buf[1]);
	rec_init(&count);
	rec_init(&wait);
	STARTS(weir_shared_pool_count(shared_pool, r, &count.op, &c));
	some_turns(r, 2);
	STARTS(weir_pool_wait(b, &wait.op));
	assert_int_equal(weir_pool_get(&buf[0], a), 0);
	assert_int_equal(look(a).total, 1);
	assert_int_equal(finish(still, &wait), SMALL);
	assert_int_equal(finish(r, &count), 4);
	assert_int_equal(c.total, 4);
	assert_int_equal(c.free, 2);
	assert_int_equal(c.cached, 1);
	assert_int_equal(c.out + c.in_transit, 1);
	weir_buf_put(buf[0]);
	weir_buf_put(weir_pool_taken(&wait.op));
	assert_int_equal(weir_pool_destroy(a), 0);
	assert_int_equal(weir_pool_destroy(b), 0);
	assert_int_equal(weir_reactor_destroy(still), 0);
	assert_int_equal(weir_shared_pool_destroy(shared_pool), 0);
}

static void a_pool_that_goes_leaves_all_to_the_others(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_shared_pool *shared_pool = make_shared_pool(8, 8);
	struct weir_pool *pool = make_pool(r, shared_pool, 8);
	struct weir_buf *buf[8];
	struct member m;
	int i;

	member_begin(&m, state, shared_pool, 8);
	core_do(&m.core, member_takes, &m);
	core_do(&m.core, member_puts, &m);
	assert_int_equal(survey(shared_pool).held, 8);
	member_end(&m);
	assert_int_equal(survey(shared_pool).pools, 1);
	assert_int_equal(survey(shared_pool).free, 16);
	for (i = 0; i < 8; i++)
		buf[i] = take(pool, 1);
	weir_buf_set_tag(buf[3], "cache");
	assert_int_equal(weir_pool_destroy(pool), -EBUSY);
	assert_string_equal(weir_why(),
			    "weir_pool_destroy: 8 buffers are out "
			    "(7 untagged, 1 by cache) and 0 operations wait");
	for (i = 0; i < 8; i++)
		weir_buf_put(buf[i]);
	assert_int_equal(weir_pool_destroy(pool), 0);
	assert_int_equal(weir_shared_pool_destroy(shared_pool), 0);
}

/* It makes no turns any more, in which it could give what it has. */
static void a_reactor_that_stops_keeps_no_cache(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_shared_pool *shared_pool = make_shared_pool(8, 8);
	struct weir_pool *pool = make_pool(r, shared_pool, 8);
	struct weir_buf *buf = take(pool, 1), *late = take(pool, 1);

	weir_buf_put(buf);
	assert_true(look(pool).free > 0);
	weir_reactor_stop(r);
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(look(pool).free, 0);
	assert_int_equal(survey(shared_pool).free, 15);
	weir_buf_put(late);
	assert_int_equal(survey(shared_pool).free, 16);
	assert_int_equal(weir_reactor_start(r), 0);
	weir_buf_put(take(pool, 1));
	assert_true(look(pool).free > 0);
	assert_int_equal(weir_pool_destroy(pool), 0);
	assert_int_equal(weir_shared_pool_destroy(shared_pool), 0);
}

static void growth_serves_who_waits(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_shared_pool *shared_pool = make_shared_pool(1, 1);
	struct weir_pool *pool = make_pool(r, shared_pool, 1);
	struct weir_buf *first = take(pool, 1), *buf[4];
	struct rec rec;
	int i;

	rec_init(&rec);
	STARTS(weir_pool_wait(pool, &rec.op));
	assert_int_equal(weir_shared_pool_grow(shared_pool, SMALL + 1, 1),
			 -ENOENT);
	assert_int_equal(weir_shared_pool_grow(shared_pool, 0, 1), -ENOENT);
	assert_int_equal(weir_shared_pool_grow(shared_pool, SMALL, 1u << 24),
			 -EINVAL);
	assert_int_equal(weir_shared_pool_grow(shared_pool, SMALL, 0), 0);
	assert_int_equal(weir_shared_pool_grow(shared_pool, SMALL, 5), 0);
	assert_int_equal(finish(r, &rec), SMALL);
	assert_int_equal(survey(shared_pool).total, 7);
	for (i = 0; i < 4; i++)
		buf[i] = take(pool, 1);
	for (i = 0; i < 4; i++)
		weir_buf_put(buf[i]);
	weir_buf_put(first);
	weir_buf_put(weir_pool_taken(&rec.op));
	assert_int_equal(weir_pool_destroy(pool), 0);
	assert_int_equal(survey(shared_pool).free, 7);
	assert_int_equal(weir_shared_pool_destroy(shared_pool), 0);
}

static uint64_t page_size_with(uint32_t flags)
{
	struct weir_shared_pool_class one = { .buf_size = 1 << 20, .bufs = 4 };
	struct weir_shared_pool_opts opts = {
		.size = sizeof(opts),
		.classes = &one,
		.n_classes = 1,
		.flags = flags,
	};
	struct weir_shared_pool *shared_pool = NULL;
	uint64_t page;

	assert_int_equal(weir_shared_pool_create(&shared_pool, &opts), 0);
	page = survey(shared_pool).page_size;
	assert_int_equal(weir_shared_pool_destroy(shared_pool), 0);
	return page;
}

/* Whether the kernel has @len bytes of huge pages of 2 MiB for us now. */
static bool has_huge_2m(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB |
			       21 << 26 /* 2^21 bytes; MAP_HUGE_SHIFT */,
		       -1, 0);

	if (p == MAP_FAILED)
		return false;
	munmap(p, len);
	return true;
}

/* Of 1 GiB there are rarely any; where there are some of 2 MiB, those. */
static void the_largest_pages_that_there_are_are_taken(void **state)
{
	bool before = has_huge_2m(8 << 20); /* More than it takes. */
	uint64_t small = page_size_with(WEIR_SHARED_POOL_HUGE_2M);

	(void)state;
	if (small == 4096) {
		/* Others may have had them in between, but not both times. */
		assert_false(before && has_huge_2m(8 << 20));
		skip_because("no huge pages of 2 MiB are reserved");
	}
	assert_int_equal(small, 2 << 20);
	assert_true(page_size_with(WEIR_SHARED_POOL_HUGE_1G) >= small);
	assert_true(page_size_with(WEIR_SHARED_POOL_HUGE_1G |
				   WEIR_SHARED_POOL_HUGE_2M) >= small);
}

/* A cache may be as large as its class is now. */
static void buffer_of_a_grown_pool_may_be_cached(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_shared_pool *shared_pool = make_shared_pool(2, 8);
	struct weir_pool_opts opts = {
		.size = sizeof(opts),
		.shared_pool = shared_pool,
		.cache = 8,
	};
	struct weir_pool *pool = NULL;

	assert_int_equal(weir_pool_create(&pool, r, &opts), -EINVAL);
	assert_int_equal(weir_shared_pool_grow(shared_pool, SMALL, 6), 0);
	assert_int_equal(weir_pool_create(&pool, r, &opts), 0);
	assert_int_equal(weir_pool_destroy(pool), 0);
	assert_int_equal(weir_shared_pool_destroy(shared_pool), 0);
}

static void growth_is_bounded(void **state)
{
	struct weir_shared_pool *shared_pool = make_shared_pool(1, 1);
	int i;

	(void)state;
	for (i = 0; i < 63; i++)
		assert_int_equal(weir_shared_pool_grow(shared_pool, SMALL, 1),
				 0);
	assert_int_equal(weir_shared_pool_grow(shared_pool, SMALL, 1), -ENOSPC);
	assert_starts_with(weir_why(),
			   "weir_shared_pool_grow: the class has been");
	assert_int_equal(survey(shared_pool).total, 65);
	assert_int_equal(weir_shared_pool_destroy(shared_pool), 0);
}

/* What has come by growth is registered when the reactor comes round to it. */
static void memory_that_was_added_is_registered(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_shared_pool *shared_pool = make_shared_pool(4, 2);
	struct weir_pool *pool = make_pool(r, shared_pool, 2);
	uint64_t before = look(pool).registered;
	struct weir_buf *early, *late;

	assert_int_equal(weir_shared_pool_grow(shared_pool, SMALL, 4), 0);
	early = take(pool, 1);
	weir_buf_put(early);
	some_turns(r, 2);
	assert_true(before ? look(pool).registered > before :
			     look(pool).registered == 0);
	late = take(pool, 1);
	assert_int_equal(!late->index, !before);
	weir_buf_put(late);
	assert_int_equal(weir_pool_destroy(pool), 0);
	assert_int_equal(weir_shared_pool_destroy(shared_pool), 0);
}

/* Without a shared pool, too. */
static void a_pool_of_its_own_can_grow(void **state)
{
	struct weir_pool_opts opts = { .size = sizeof(opts),
				       .bufs = 1,
				       .buf_size = 100 };
	struct weir_reactor *r = start_reactor(state);
	struct weir_pool *pool = NULL;
	struct weir_buf *buf[4];
	struct rec rec;
	char *mem;
	int i;

	assert_int_equal(weir_pool_create(&pool, r, &opts), 0);
	buf[0] = take(pool, 1);
	rec_init(&rec);
	STARTS(weir_pool_wait(pool, &rec.op));
	assert_int_equal(weir_pool_grow(pool, 1u << 24), -EINVAL);
	assert_int_equal(weir_pool_grow(pool, 0), 0);
	assert_int_equal(weir_pool_grow(pool, 3), 0);
	assert_int_equal(finish(r, &rec), 100);
	buf[1] = weir_pool_taken(&rec.op);
	assert_int_equal(look(pool).free, 2);
	buf[2] = take(pool, 1);
	buf[3] = take(pool, 1);
	for (i = 0; i < 4; i++)
		weir_buf_put(buf[i]);
	assert_int_equal(look(pool).free, 4);
	assert_int_equal(weir_pool_destroy(pool), 0);

	mem = aligned_alloc(4096, 4096);
	opts.mmap = start_mmap(mem, 4096, WEIR_MMAP_WRITE);
	assert_int_equal(weir_pool_create(&pool, r, &opts), 0);
	assert_int_equal(weir_pool_grow(pool, 1), -EPERM);
	assert_int_equal(weir_pool_destroy(pool), 0);
	assert_int_equal(weir_mmap_destroy(opts.mmap), 0);
	free(mem);
}

static struct weir_shared_pool_count count_all(
	struct weir_reactor *r, struct weir_shared_pool *shared_pool)
{
	struct weir_shared_pool_count c = { .size = sizeof(c) };
	struct rec rec;
	int64_t total;

	rec_init(&rec);
	STARTS(weir_shared_pool_count(shared_pool, r, &rec.op, &c));
	total = finish(r, &rec);
	assert_int_equal(total, c.total);
	assert_int_equal(c.free + c.cached + c.out + c.in_transit, c.total);
	return c;
}

static void a_count_visits_every_pool(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_shared_pool *shared_pool = make_shared_pool(32, 8);
	struct weir_shared_pool_count c;
	struct member m[2];
	struct weir_pool *pool;
	struct weir_buf *buf;
	int i;

	c = count_all(r, shared_pool);
	assert_int_equal(c.free, 40);
	pool = make_pool(r, shared_pool, 8);
	for (i = 0; i < 2; i++)
		member_begin(&m[i], state, shared_pool, 4);
	core_do(&m[0].core, member_takes, &m[0]);
	core_do(&m[0].core, member_puts_one, &m[0]);
	core_do(&m[0].core, member_puts_one, &m[0]);
	buf = take(pool, LARGE);
	core_await_sleep(&m[0].core);
	core_await_sleep(&m[1].core);
	c = count_all(r, shared_pool);
	assert_int_equal(c.total, 40);
	assert_int_equal(c.out, 30 + 1);
	assert_int_equal(c.cached, 2 + 4);
	assert_int_equal(c.free, 3);
	weir_buf_put(buf);
	core_do(&m[0].core, member_puts, &m[0]);
	for (i = 0; i < 2; i++)
		member_end(&m[i]);
	assert_int_equal(weir_pool_destroy(pool), 0);
	assert_int_equal(count_all(r, shared_pool).free, 40);
	assert_int_equal(weir_shared_pool_destroy(shared_pool), 0);
}

/* A pool whose reactor makes no turns holds the count up, and no more. */
static void a_count_can_be_cancelled(void **state)
{
	struct weir_shared_pool_count c = { .size = sizeof(c), .total = 77 };
	struct weir_reactor_opts opts = { .size = sizeof(opts) };
	struct weir_reactor *r = start_reactor(state), *still;
	struct weir_shared_pool *shared_pool = make_shared_pool(1, 1);
	struct weir_pool *pool;
	struct rec rec;

	opts.backend = backend_of(*state);
	opts.sim = harness_sim;
	assert_int_equal(weir_reactor_create(&still, &opts), 0);
	pool = make_pool(still, shared_pool, 1);
	rec_init(&rec);
	STARTS(weir_shared_pool_count(shared_pool, r, &rec.op, &c));
	some_turns(r, 3);
	assert_int_equal(rec.calls, 0);
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	assert_int_equal(finish(r, &rec), -ECANCELED);
	assert_int_equal(c.total, 77);

	/* Nor does it wait for a pool that goes. */
	rec_init(&rec);
	STARTS(weir_shared_pool_count(shared_pool, r, &rec.op, &c));
	assert_int_equal(weir_pool_destroy(pool), 0);
	assert_int_equal(finish(r, &rec), 2);
	assert_int_equal(c.free, 2);
	c.size = 4;
	assert_int_equal(weir_shared_pool_count(shared_pool, r, &rec.op, &c),
			 -EINVAL);
	assert_int_equal(weir_reactor_destroy(still), 0);
	assert_int_equal(weir_shared_pool_destroy(shared_pool), 0);
}

static void counts_are_told_by_tag(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_shared_pool *shared_pool = make_shared_pool(8, 8);
	struct weir_pool *pool = make_pool(r, shared_pool, 8);
	struct weir_pool *other = make_pool(r, shared_pool, 1);
	struct weir_buf *buf[6], *not_ours = take(other, 1);
	struct weir_buf_owner who[3] = { { NULL, 9 } };
	int i;

	assert_int_equal(weir_pool_owners(pool, who, 3), 0);
	assert_int_equal(who[0].bufs, 9);
	for (i = 0; i < 6; i++) {
		buf[i] = take(pool, i < 3 ? SMALL : LARGE);
		if (i)
			weir_buf_set_tag(buf[i], i < 3 ? "a" : "b");
	}
	weir_buf_set_tag(not_ours, "a");
	assert_int_equal(weir_pool_owners(pool, who, 2), 3);
	assert_string_equal(who[0].tag, "b");
	assert_int_equal(who[0].bufs, 3);
	assert_string_equal(who[1].tag, "a");
	assert_int_equal(who[1].bufs, 2);
	assert_null(who[2].tag);
	for (i = 0; i < 6; i++)
		weir_buf_put(buf[i]);
	weir_buf_put(not_ours);
	assert_int_equal(weir_pool_destroy(pool), 0);
	assert_int_equal(weir_pool_destroy(other), 0);
	assert_int_equal(weir_shared_pool_destroy(shared_pool), 0);
}

/* Whatever this machine has, it is told, and the buffers work. */
static void pages_and_node_are_told(void **state)
{
	static const uint32_t tries[] = {
		0,
		WEIR_SHARED_POOL_NO_HUGE,
		WEIR_SHARED_POOL_HUGE_2M,
		WEIR_SHARED_POOL_HUGE_1G,
		WEIR_SHARED_POOL_NUMA,
	};
	struct weir_shared_pool_class one = { .buf_size = 1 << 20, .bufs = 4 };
	struct weir_shared_pool_opts opts = {
		.size = sizeof(opts),
		.classes = &one,
		.n_classes = 1,
	};
	struct weir_reactor *r = start_reactor(state);
	struct weir_shared_pool *shared_pool = NULL;
	struct weir_shared_pool_stats s;
	struct weir_pool *pool;
	struct weir_buf *buf;
	char text[512];
	size_t i, len;

	for (i = 0; i < N_OF(tries); i++) {
		opts.flags = tries[i];
		assert_int_equal(weir_shared_pool_create(&shared_pool, &opts),
				 0);
		s = survey(shared_pool);
		len = weir_shared_pool_describe(shared_pool, text,
						sizeof(text));
		assert_int_equal(len, strlen(text));
		assert_starts_with(text, "4 of 1048576 bytes in pages of ");
		assert_true(s.page_size >= 4096 && s.bytes >= 4 << 20);
		if (tries[i] & WEIR_SHARED_POOL_NO_HUGE)
			assert_false(s.transparent);
		if (tries[i] & WEIR_SHARED_POOL_HUGE_2M)
			assert_true((s.page_size == 2 << 20) !=
				    !!strstr(text, "2048 KiB are reserved"));
		if (tries[i] & WEIR_SHARED_POOL_HUGE_1G)
			assert_true((s.page_size == 1 << 30) !=
				    !!strstr(text, "1048576 KiB are reserved"));
		if (tries[i] & WEIR_SHARED_POOL_NUMA)
			assert_non_null(strstr(text, "node"));
		pool = make_pool(r, shared_pool, 2);
		buf = take(pool, 1 << 20);
		memset(weir_buf_addr(buf), 1, 1 << 20);
		weir_buf_put(buf);
		assert_int_equal(weir_pool_destroy(pool), 0);
		assert_int_equal(weir_shared_pool_destroy(shared_pool), 0);
	}
	opts.flags = WEIR_SHARED_POOL_NUMA;
	opts.numa_node = 5000;
	assert_int_equal(weir_shared_pool_create(&shared_pool, &opts), 0);
	assert_int_equal(weir_shared_pool_describe(shared_pool, NULL, 0),
			 weir_shared_pool_describe(shared_pool, text, 20));
	assert_int_equal(strlen(text), 19);
	weir_shared_pool_describe(shared_pool, text, sizeof(text));
	assert_non_null(strstr(text, "on any node (mbind to node 5000: "));
	assert_int_equal(weir_shared_pool_destroy(shared_pool), 0);
}

/*
 * Cores that take, keep, wait, cancel, put, and hand over to each other, at
 * random and as fast as they can.  In the end all waits have ended and all is
 * there.
 */
#define KEEP 12

struct player {
	struct core core;
	struct weir_shared_pool *shared_pool;
	struct weir_pool *pool;
	struct player *other;
	struct weir_poller *poller;
	struct weir_buf *kept[KEEP];
	int n;
	struct weir_op op[4];
	unsigned int seed;
	uint64_t steps, waits, served, cancelled, sent;
	atomic_ulong received;
	atomic_bool done;
};

static void keep(struct player *p, struct weir_buf *buf)
{
	if (p->n < KEEP)
		p->kept[p->n++] = buf;
	else
		weir_buf_put(buf);
}

static void player_served(struct weir_op *op, int64_t res)
{
	struct player *p = op->data;

	MUST((res < 0) == !weir_pool_taken(op));
	MUST(res >= 0 || res == -ECANCELED || res == -ETIMEDOUT);
	if (res < 0) {
		p->cancelled++;
	} else {
		p->served++;
		keep(p, weir_pool_taken(op));
	}
}

struct parcel {
	struct player *to;
};

static void on_parcel(void *arg)
{
	struct weir_buf *buf = arg;
	struct parcel *parcel = weir_buf_addr(buf);
	struct player *p = parcel->to;

	weir_buf_put(buf);
	atomic_fetch_add(&p->received, 1);
}

static void hand_over(struct player *p)
{
	struct weir_buf *buf = p->kept[p->n - 1];

	*(struct parcel *)weir_buf_addr(buf) = (struct parcel){ p->other };
	if (!weir_post(p->other->core.r, on_parcel, buf)) {
		p->n--;
		p->sent++;
	}
}

static void begin_wait(struct player *p, struct weir_op *op)
{
	if (weir_op_is_busy(op))
		return;
	if (rand_r(&p->seed) % 4 == 0)
		weir_op_set_deadline(op,
				     weir_reactor_now(p->core.r) +
					     rand_r(&p->seed) % 50 * WEIR_USEC);
	MUST(!weir_pool_wait_sized(p->pool, op,
				   rand_r(&p->seed) % 2 ? SMALL : LARGE));
	p->waits++;
}

static void play(struct player *p)
{
	struct weir_op *op = &p->op[rand_r(&p->seed) % 4];
	struct weir_buf *buf[3];

	switch (rand_r(&p->seed) % 8) {
	case 0:
		if (!weir_pool_get_sized(buf, p->pool, LARGE))
			keep(p, buf[0]);
		break;
	case 1:
		if (p->n + 3 < KEEP && !weir_pool_get_bulk(buf, p->pool, 0, 3))
			for (int i = 0; i < 3; i++)
				keep(p, buf[i]);
		break;
	case 2:
	case 3:
		begin_wait(p, op);
		break;
	case 4:
		if (weir_op_is_busy(op))
			weir_op_cancel(op);
		break;
	case 5:
		if (p->n)
			hand_over(p);
		break;
	default:
		if (p->n)
			weir_buf_put(p->kept[--p->n]);
	}
}

static bool any_busy(const struct player *p)
{
	int i;

	for (i = 0; i < 4; i++)
		if (weir_op_is_busy(&p->op[i]))
			return true;
	return false;
}

/* A few steps a turn; then all is put, so that every wait must end. */
static int player_turn(struct weir_poller *poller, void *arg)
{
	struct player *p = arg;
	int i;

	(void)poller;
	for (i = 0; p->steps && i < 8; i++, p->steps--)
		play(p);
	/* With fewer CPUs than cores, let the others in. */
	if (rand_r(&p->seed) % 16 == 0)
		sched_yield();
	if (p->steps)
		return 1;
	while (p->n)
		weir_buf_put(p->kept[--p->n]);
	if (!any_busy(p))
		atomic_store(&p->done, true);
	return 0;
}

static void player_open(struct core *core, void *arg)
{
	struct player *p = arg;
	int i;

	p->pool = make_pool(core->r, p->shared_pool, 4);
	for (i = 0; i < 4; i++) {
		weir_op_init(&p->op[i], player_served);
		p->op[i].data = p;
	}
	MUST(!weir_poller_create(&p->poller, core->r, WEIR_FOREVER, player_turn,
				 p));
}

static void player_rest(struct core *core, void *arg)
{
	struct player *p = arg;

	(void)core;
	weir_poller_destroy(p->poller);
	while (p->n)
		weir_buf_put(p->kept[--p->n]);
}

static void player_close(struct core *core, void *arg)
{
	struct player *p = arg;

	(void)core;
	MUST(!look(p->pool).out && !look(p->pool).waiting);
	MUST(p->served + p->cancelled == p->waits);
	MUST(!weir_pool_destroy(p->pool));
}

#define PLAYERS 3

static void cores_at_full_speed_lose_nothing(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct player *p = calloc(PLAYERS, sizeof(*p));
	struct weir_shared_pool *shared_pool = make_shared_pool(10, 7);
	struct weir_shared_pool_count c;
	unsigned int seed = want_long() ? (unsigned int)time(NULL) : 1;
	int i;

	printf("# seed %u\n", seed);
	for (i = 0; i < PLAYERS; i++) {
		p[i].shared_pool = shared_pool;
		p[i].other = &p[(i + 1) % PLAYERS];
		p[i].seed = seed + (unsigned int)i;
		p[i].steps = scaled(want_long() ? 10000000 : 400000);
		core_begin(&p[i].core, state);
	}
	for (i = 0; i < PLAYERS; i++)
		core_do(&p[i].core, player_open, &p[i]);
	for (i = 0; i < PLAYERS; i++)
		while (!atomic_load(&p[i].done)) {
			count_all(r, shared_pool);
			survey(shared_pool);
		}
	for (i = 0; i < PLAYERS; i++)
		core_do(&p[i].core, player_rest, &p[i]);
	for (i = 0; i < PLAYERS; i++)
		while (atomic_load(&p[i].other->received) < p[i].sent)
			sched_yield();
	/* The last put may be on its way; so may its receiver's wake-up. */
	do
		c = count_all(r, shared_pool);
	while (c.out);
	assert_int_equal(c.total, 17);
	assert_int_equal(c.in_transit, 0);
	for (i = 0; i < PLAYERS; i++)
		core_do(&p[i].core, player_close, &p[i]);
	for (i = 0; i < PLAYERS; i++)
		core_end(&p[i].core);
	assert_int_equal(survey(shared_pool).free, 17);
	assert_int_equal(weir_shared_pool_destroy(shared_pool), 0);
	free(p);
}

/* The table of docs/internals/mem.md. */
enum { NO_POOLS, ALL_IN, BUFS_OUT, WAITING };

static const char *const states[] = {
	"no pools",
	"pools, all in",
	"bufs out",
	"operations wait",
};

struct stand {
	struct weir_reactor *r;
	struct weir_shared_pool *shared_pool;
	struct weir_pool *pool;
	struct weir_buf *buf[2];
	struct rec wait, count;
	struct weir_shared_pool_count all;
	bool gone;
};

static int call_grow(void *arg)
{
	struct stand *s = arg;

	return weir_shared_pool_grow(s->shared_pool, SMALL, 1);
}

static int call_stats(void *arg)
{
	struct stand *s = arg;

	survey(s->shared_pool);
	return 0;
}

static int call_describe(void *arg)
{
	struct stand *s = arg;

	return weir_shared_pool_describe(s->shared_pool, NULL, 0) ? 0 : -EINVAL;
}

static int call_count(void *arg)
{
	struct stand *s = arg;

	s->all.size = sizeof(s->all);
	return weir_shared_pool_count(s->shared_pool, s->r, &s->count.op,
				      &s->all);
}

static int call_pool_create(void *arg)
{
	struct stand *s = arg;

	return weir_pool_destroy(make_pool(s->r, s->shared_pool, 1));
}

static int call_pool_destroy(void *arg)
{
	struct stand *s = arg;
	int err = weir_pool_destroy(s->pool);

	if (!err)
		s->pool = NULL;
	return err;
}

static int call_destroy(void *arg)
{
	struct stand *s = arg;
	int err = weir_shared_pool_destroy(s->shared_pool);

	s->gone = !err;
	return err;
}

static void stand_begin(struct stand *s, void **state, int column)
{
	memset(s, 0, sizeof(*s));
	s->r = start_reactor(state);
	s->shared_pool = make_shared_pool(2, 1);
	rec_init(&s->wait);
	rec_init(&s->count);
	if (column > NO_POOLS)
		s->pool = make_pool(s->r, s->shared_pool, 1);
	if (column >= BUFS_OUT)
		assert_int_equal(weir_pool_get_bulk(s->buf, s->pool, 0, 2), 0);
	if (column == WAITING)
		STARTS(weir_pool_wait(s->pool, &s->wait.op));
}

static void stand_end(struct stand *s, void **state)
{
	weir_buf_put(s->buf[0]);
	weir_buf_put(s->buf[1]);
	if (weir_op_is_busy(&s->wait.op)) {
		UNTIL(s->r, s->wait.calls);
		weir_buf_put(weir_pool_taken(&s->wait.op));
	}
	if (weir_op_is_busy(&s->count.op)) {
		UNTIL(s->r, s->count.calls);
		assert_int_equal(s->count.res, s->all.total);
	}
	assert_int_equal(weir_pool_destroy(s->pool), 0);
	if (!s->gone)
		assert_int_equal(weir_shared_pool_destroy(s->shared_pool), 0);
	end_reactor(state);
}

static void shared_pool_answers_as_its_state_table_says(void **state)
{
	static const struct table_call calls[] = {
		{ "grow", call_grow },
		{ "stats", call_stats },
		{ "describe", call_describe },
		{ "count", call_count },
		{ "pool_create", call_pool_create },
		{ "pool_destroy", call_pool_destroy },
		{ "destroy", call_destroy },
	};
	struct table_cell c;
	struct stand s;
	struct table t;

	table_open(&t, "docs/internals/mem.md", "shared pool: call by state", calls,
		   N_OF(calls), states, N_OF(states));
	while (table_next(&t, &c)) {
		stand_begin(&s, state, c.column);
		table_result(&c, c.call->fn(&s));
		assert_int_equal(s.gone, !strcmp(c.then, "gone"));
		stand_end(&s, state);
	}
	table_close(&t);
}

static void failed_shared_pool_call_leaves_nothing_behind(void **state)
{
	struct weir_shared_pool_class one = { .buf_size = 100, .bufs = 4 };
	struct weir_shared_pool_opts opts = {
		.size = sizeof(opts),
		.classes = &one,
		.n_classes = 1,
	};
	struct weir_pool_opts popts = { .size = sizeof(popts), .cache = 2 };
	struct weir_reactor *r = start_reactor(state);
	struct weir_shared_pool *shared_pool;
	int n, fired, err;

	for (n = 0, fired = 1; fired; n++) {
		shared_pool = NULL;
		fault_arm(n);
		err = weir_shared_pool_create(&shared_pool, &opts);
		fired = fault_disarm();
		assert_true(!err == !!shared_pool);
		assert_true(!err || (fired && err == -ENOMEM));
		assert_int_equal(weir_shared_pool_destroy(shared_pool), 0);
	}
	assert_true(n > 4);
	assert_int_equal(weir_shared_pool_create(&shared_pool, &opts), 0);
	popts.shared_pool = shared_pool;
	for (n = 0, fired = 1; fired; n++) {
		struct weir_pool *pool = NULL;

		fault_arm(n);
		err = weir_pool_create(&pool, r, &popts);
		fired = fault_disarm();
		assert_true(!err == !!pool);
		assert_true(!err || (fired && err == -ENOMEM));
		assert_int_equal(weir_pool_destroy(pool), 0);
		assert_int_equal(survey(shared_pool).free, 4);
	}
	assert_true(n > 3);
	assert_int_equal(weir_shared_pool_destroy(shared_pool), 0);
}

static void a_growth_that_fails_changes_nothing(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_shared_pool *shared_pool = make_shared_pool(2, 2);
	struct weir_pool *pool = make_pool(r, shared_pool, 2);
	int n, fired, err, grown = 0;

	for (n = 0, fired = 1; fired; n++) {
		fault_arm(n);
		err = weir_shared_pool_grow(shared_pool, SMALL, 3);
		fired = fault_disarm();
		assert_true(!err || (fired && err == -ENOMEM));
		grown += !err;
		assert_int_equal(survey(shared_pool).total, 4 + 3 * grown);
		weir_buf_put(take(pool, 1));
	}
	assert_true(n > 4);
	assert_int_equal(weir_pool_destroy(pool), 0);
	assert_int_equal(weir_shared_pool_destroy(shared_pool), 0);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(pool_with_a_waiter_is_not_destroyed),
		CASE(bad_options_are_refused),
		CASE(bad_options_of_a_pool_are_refused),
		CASE(the_smallest_size_that_fits_is_taken),
		CASE(buffers_are_apart_and_writable),
		CASE(a_cache_is_filled_and_emptied_by_halves),
		CASE(bulks_are_all_or_nothing),
		CASE(shared_pool_without_a_cache_keeps_nothing),
		CASE(cache_of_a_sleeping_core_is_recalled),
		CASE(core_without_cached_buffers_is_not_woken),
		CASE(waiters_of_all_cores_are_one_queue),
		CASE(get_does_not_overtake_a_waiter),
		CASE(a_cancel_in_transit_is_too_late),
		REAL(a_count_is_right_though_buffers_move),
		CASE(a_pool_that_goes_leaves_all_to_the_others),
		CASE(a_reactor_that_stops_keeps_no_cache),
		CASE(growth_serves_who_waits),
		REAL(the_largest_pages_that_there_are_are_taken),
		CASE(buffer_of_a_grown_pool_may_be_cached),
		CASE(growth_is_bounded),
		CASE(memory_that_was_added_is_registered),
		CASE(a_pool_of_its_own_can_grow),
		CASE(a_count_visits_every_pool),
		REAL(a_count_can_be_cancelled),
		CASE(counts_are_told_by_tag),
		CASE(pages_and_node_are_told),
		CASE(cores_at_full_speed_lose_nothing),
		CASE(shared_pool_answers_as_its_state_table_says),
		CASE(failed_shared_pool_call_leaves_nothing_behind),
		CASE(a_growth_that_fails_changes_nothing),
	};

	return harness_run_all(cases, N_OF(cases));
}
