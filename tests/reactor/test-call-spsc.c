/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Calls by rings that are full, or flooded, or on whose way something else is:
 * each is answered by what it has done, and in time.
 */

#include "tests/support/group-fixture.h"

#include <stdatomic.h>
#include <time.h>

static void nothing(void *arg)
{
	(void)arg;
}

static int64_t seven(void *arg)
{
	(void)arg;
	return 7;
}

static void set(void *arg)
{
	atomic_store((atomic_int *)arg, 1);
}

static int64_t set_too(void *arg)
{
	set(arg);
	return 42;
}

static void hold(void *arg)
{
	while (!atomic_load((atomic_int *)arg))
		sched_yield();
}

/*
 * The end of a call is told while core 1 goes on, so that more is answered than
 * was seen; and then its callback fills the ring anew.
 */
#define SIZE 64
#define HELD 40

struct refill {
	struct team t;
	struct weir_op first;
	struct rec second;
	atomic_int told, last, ran, over;
};

static void post_when_there_is_capacity(struct refill *f, void (*fn)(void *arg),
					void *arg)
{
	int err;

	do
		err = weir_post(f->t.r[1], fn, arg);
	while (err == -EAGAIN);
	assert_int_equal(err, 0);
}

static void refill(struct weir_op *op, int64_t res)
{
	struct refill *f = weir_container_of(op, struct refill, first);

	assert_int_equal(res, 7);
	atomic_store(&f->told, 1);
	hold(&f->last);
	post_when_there_is_capacity(f, hold, &f->over);
	post_when_there_is_capacity(f, nothing, NULL);
	STARTS(weir_call(f->t.r[0], &f->second.op, f->t.r[1], set_too,
			 &f->ran));
}

static void no_call_is_answered_before_it_has_run(void **state)
{
	struct refill f = { 0 };
	int i;

	team_begin(&f.t, state, 2, SIZE);
	weir_op_init(&f.first, refill);
	rec_init(&f.second);
	STARTS(weir_call(f.t.r[0], &f.first, f.t.r[1], seven, NULL));
	for (i = 1; i < HELD; i++)
		assert_int_equal(weir_post(f.t.r[1], nothing, NULL), 0);
	assert_int_equal(weir_post(f.t.r[1], hold, &f.told), 0);
	for (i++; i < SIZE - 1; i++)
		assert_int_equal(weir_post(f.t.r[1], nothing, NULL), 0);
	assert_int_equal(weir_post(f.t.r[1], set, &f.last), 0);
	UNTIL(f.t.r[0], atomic_load(&f.told));
	assert_int_equal(f.second.calls, 0);
	atomic_store(&f.over, 1);
	assert_int_equal(finish(f.t.r[0], &f.second), 42);
	assert_int_equal(atomic_load(&f.ran), 1);
	team_end(&f.t);
}

/* Core 1 sends more to core 0 than this can do in a turn, again and again. */
#define FLOOD (16 * 1024)
#define WORK_NS (20 * WEIR_USEC)

struct flood {
	struct team t;
	struct weir_op op;
	atomic_int stop, begun;
	unsigned int sent; /* Core 1's. */
	unsigned int ran; /* Core 0's. */
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * WEIR_SEC + (uint64_t)now.tv_nsec;
}

static void one_of_many(void *arg)
{
	uint64_t end = now_ns() + WORK_NS;
	struct flood *f = arg;

	while (now_ns() < end)
		;
	f->ran++;
}

static void send_many(struct weir_op *op, int64_t res)
{
	struct flood *f = weir_container_of(op, struct flood, op);

	while (!res && !weir_post(f->t.r[0], one_of_many, f))
		f->sent++;
	atomic_store(&f->begun, 1);
	if (!atomic_load(&f->stop) && f->sent < FLOOD)
		weir_defer(f->t.r[1], &f->op);
}

static void begin_to_send(void *arg)
{
	struct flood *f = arg;

	weir_op_init(&f->op, send_many);
	weir_defer(f->t.r[1], &f->op);
}

static void a_flood_does_not_keep_back_the_ends_of_calls(void **state)
{
	struct flood f = { 0 };
	struct rec rec;

	team_begin(&f.t, state, 2, 0);
	assert_int_equal(weir_post(f.t.r[1], begin_to_send, &f), 0);
	UNTIL(f.t.r[0], atomic_load(&f.begun));
	rec_init(&rec);
	STARTS(weir_call(f.t.r[0], &rec.op, f.t.r[1], seven, NULL));
	assert_int_equal(finish(f.t.r[0], &rec), 7);
	assert_true(f.ran < FLOOD);
	atomic_store(&f.stop, 1);
	team_end(&f.t);
}

static uint64_t wakes_of(struct weir_reactor *r)
{
	struct weir_reactor_stats stats = { .size = sizeof(stats) };

	assert_int_equal(weir_reactor_stats(r, &stats), 0);
	return stats.wakes;
}

static void cancelled_waiter_for_capacity_is_not_woken(void **state)
{
	struct rec capacity;
	uint64_t before;
	struct team t;

	team_begin(&t, state, 2, 0);
	rec_init(&capacity);
	STARTS(weir_capacity_wait(t.r[0], &capacity.op, t.r[1]));
	weir_op_cancel(&capacity.op);
	assert_int_equal(finish(t.r[0], &capacity), -ECANCELED);
	before = wakes_of(t.r[0]);
	for (int i = 0; i < 20; i++) {
		assert_int_equal(weir_post(t.r[1], nothing, NULL), 0);
		assert_true(weir_reactor_turn(t.r[0], WEIR_MSEC) >= 0);
	}
	assert_int_equal(wakes_of(t.r[0]), before);
	team_end(&t);
}

/* Core 0 of both groups is this thread. */
struct order {
	struct team t, other;
	struct rec call;
	atomic_int n, call_at, post_at;
};

static int64_t called(void *arg)
{
	struct order *o = arg;

	atomic_store(&o->call_at, atomic_fetch_add(&o->n, 1) + 1);
	return 0;
}

static void posted(void *arg)
{
	struct order *o = arg;

	atomic_store(&o->post_at, atomic_fetch_add(&o->n, 1) + 1);
}

static void call_and_post(void *arg)
{
	struct order *o = arg;

	STARTS(weir_call(o->t.r[0], &o->call.op, o->t.r[1], called, o));
	assert_int_equal(weir_post(o->t.r[1], posted, o), 0);
}

static void groups_on_one_thread_keep_their_orders(void **state)
{
	struct order o = { 0 };

	team_begin(&o.t, state, 2, 0);
	team_begin(&o.other, state, 2, 0);
	rec_init(&o.call);
	assert_int_equal(weir_post(o.t.r[0], call_and_post, &o), 0);
	UNTIL(o.t.r[0], o.call.calls && atomic_load(&o.post_at));
	assert_int_equal(atomic_load(&o.call_at), 1);
	assert_int_equal(atomic_load(&o.post_at), 2);
	team_end(&o.other);
	team_end(&o.t);
}

int main(void)
{
	static const struct harness_case cases[] = {
		REAL(no_call_is_answered_before_it_has_run),
		REAL(a_flood_does_not_keep_back_the_ends_of_calls),
		CASE(cancelled_waiter_for_capacity_is_not_woken),
		CASE(groups_on_one_thread_keep_their_orders),
	};

	return harness_run_all(cases, N_OF(cases));
}
