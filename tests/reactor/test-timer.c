/* SPDX-License-Identifier: BSD-3-Clause */

/* Timers, as <weir/timer.h> promises them; the wheel has its own test. */

#include "tests/support/harness.h"

#include <weir/timer.h>

struct tick {
	struct weir_timer *timer;
	struct weir_reactor *r;
	int calls;
	uint64_t n, not_before;
	bool early;
	int set_inside;
	void (*then)(struct tick *tick);
};

static void on_tick(struct weir_timer *timer, uint64_t n, void *arg)
{
	struct tick *tick = arg;

	assert_ptr_equal(timer, tick->timer);
	tick->calls++;
	tick->n += n;
	tick->early |= weir_reactor_now(tick->r) < tick->not_before;
	tick->set_inside = weir_timer_is_set(timer);
	if (tick->then)
		tick->then(tick);
}

static void make(struct tick *tick, struct weir_reactor *r)
{
	*tick = (struct tick){ .r = r };
	assert_int_equal(weir_timer_create(&tick->timer, r, on_tick, tick), 0);
}

static void set_in(struct tick *tick, uint64_t ns, uint64_t period)
{
	tick->not_before = weir_reactor_now(tick->r) + ns;
	weir_timer_start(tick->timer, tick->not_before, period);
}

static void a_callback_is_needed(void **state)
{
	struct weir_timer *t = (void *)0x77;

	assert_int_equal(weir_timer_create(&t, start_reactor(state), NULL,
					   NULL), -EINVAL);
	assert_ptr_equal(t, (void *)0x77);
}

static void timer_fires_once_and_not_early(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct tick t;

	make(&t, r);
	assert_int_equal(weir_timer_is_set(t.timer), 0);
	set_in(&t, WEIR_MSEC, 0);
	assert_int_equal(weir_timer_is_set(t.timer), 1);
	UNTIL(r, t.calls);
	some_turns(r, 5);
	assert_int_equal(t.calls, 1);
	assert_int_equal(t.n, 1);
	assert_false(t.early);
	assert_int_equal(t.set_inside, 0);
	assert_int_equal(weir_timer_is_set(t.timer), 0);
	weir_timer_destroy(t.timer);
}

static void timer_is_never_early(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct tick t[50];
	int i;

	for (i = 0; i < 50; i++) {
		make(&t[i], r);
		set_in(&t[i], (uint64_t)(i * 7919 % 50) * 31 * WEIR_USEC, 0);
	}
	for (i = 0; i < 50; i++) {
		UNTIL(r, t[i].calls);
		assert_false(t[i].early);
		weir_timer_destroy(t[i].timer);
	}
}

static void a_past_time_is_due_in_the_next_turn(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct tick t;

	make(&t, r);
	weir_timer_start(t.timer, 0, 0);
	assert_int_equal(t.calls, 0);
	some_turns(r, 2);
	assert_int_equal(t.calls, 1);
	weir_timer_destroy(t.timer);
}

static void forever_never_comes(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct tick t;

	make(&t, r);
	weir_timer_start(t.timer, WEIR_FOREVER, 0);
	some_turns(r, 10);
	assert_int_equal(t.calls, 0);
	weir_timer_destroy(t.timer);
}

static void a_period_that_never_ends_does_not_come_round(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct tick t;

	make(&t, r);
	set_in(&t, 0, WEIR_FOREVER);
	UNTIL(r, t.calls);
	some_turns(r, 10);
	assert_int_equal(t.calls, 1);
	assert_int_equal(t.set_inside, 1);
	set_in(&t, 0, WEIR_FOREVER - weir_reactor_now(r));
	UNTIL(r, t.calls == 2);
	some_turns(r, 10);
	assert_int_equal(t.calls, 2);
	weir_timer_destroy(t.timer);
}

static void set_again_it_is_moved(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct tick t, other;

	make(&t, r);
	make(&other, r);
	set_in(&t, 3600 * WEIR_SEC, 0);
	set_in(&t, WEIR_MSEC, 0);
	UNTIL(r, t.calls == 1);
	set_in(&t, WEIR_MSEC, 0);
	set_in(&t, 3600 * WEIR_SEC, 0);
	set_in(&other, 3 * WEIR_MSEC, 0);
	UNTIL(r, other.calls);
	assert_int_equal(t.calls, 1);
	weir_timer_destroy(t.timer);
	weir_timer_destroy(other.timer);
}

static void stopped_it_is_silent(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct tick t, other;

	make(&t, r);
	make(&other, r);
	weir_timer_stop(t.timer);
	set_in(&t, 0, 0);
	weir_timer_stop(t.timer);
	weir_timer_stop(t.timer);
	assert_int_equal(weir_timer_is_set(t.timer), 0);
	set_in(&other, WEIR_MSEC, 0);
	UNTIL(r, other.calls);
	assert_int_equal(t.calls, 0);
	weir_timer_destroy(t.timer);
	weir_timer_destroy(other.timer);
}

static void a_periodic_one_goes_on(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	uint64_t start, periods;
	struct tick t;

	make(&t, r);
	start = weir_reactor_now(r);
	set_in(&t, WEIR_MSEC, WEIR_MSEC);
	UNTIL(r, t.n >= 10);
	assert_int_equal(t.set_inside, 1);
	assert_false(t.early);
	/* In rhythm: no more periods are told than have passed. */
	periods = (weir_reactor_now(r) - start) / WEIR_MSEC;
	assert_true(t.n <= periods);
	weir_timer_stop(t.timer);
	periods = t.n;
	some_turns(r, 10);
	assert_int_equal(t.n, periods);
	weir_timer_destroy(t.timer);
}

/* The loop is late by construction: the first expiry is long ago. */
static void missed_periods_are_counted_not_fired(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct tick t;
	uint64_t now;

	make(&t, r);
	now = weir_reactor_now(r);
	/* A machine that is up for minutes only has no longer past. */
	weir_timer_start(t.timer, 1, now / 10);
	some_turns(r, 3);
	assert_int_equal(t.calls, 1);
	assert_true(t.n >= 10 && t.n <= 12);
	weir_timer_stop(t.timer);
	weir_timer_destroy(t.timer);
}

static void destroy_self(struct tick *tick)
{
	weir_timer_destroy(tick->timer);
	tick->timer = NULL;
}

static void stop_self(struct tick *tick)
{
	weir_timer_stop(tick->timer);
}

static void start_self(struct tick *tick)
{
	if (tick->calls < 5)
		weir_timer_start(tick->timer, 0, 0);
}

static void timer_callback_may_destroy_its_timer(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct tick once, periodic;

	make(&once, r);
	make(&periodic, r);
	once.then = periodic.then = destroy_self;
	set_in(&once, 0, 0);
	set_in(&periodic, 0, 1);
	UNTIL(r, once.calls && periodic.calls);
	some_turns(r, 10);
	assert_int_equal(once.calls, 1);
	assert_int_equal(periodic.calls, 1);
}

static void timer_callback_may_stop_its_timer(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct tick t;

	make(&t, r);
	t.then = stop_self;
	set_in(&t, 0, 1);
	UNTIL(r, t.calls);
	some_turns(r, 10);
	assert_int_equal(t.calls, 1);
	assert_int_equal(weir_timer_is_set(t.timer), 0);
	weir_timer_destroy(t.timer);
}

static void timer_callback_may_set_its_timer_again(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct tick t;

	make(&t, r);
	t.then = start_self;
	set_in(&t, 0, 0);
	UNTIL(r, t.calls == 5);
	some_turns(r, 10);
	assert_int_equal(t.calls, 5);
	weir_timer_destroy(t.timer);
}

static struct tick *victim;

static void destroy_victim(struct tick *tick)
{
	(void)tick;
	if (victim && victim->timer)
		destroy_self(victim);
}

/* Both are due in the same turn; the first to run takes the other along. */
static void timer_callback_may_destroy_another_timer_that_is_due(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct tick a, b;

	make(&a, r);
	make(&b, r);
	a.then = destroy_victim;
	victim = &b;
	weir_timer_start(a.timer, 1, 0);
	weir_timer_start(b.timer, 1, 0);
	some_turns(r, 5);
	assert_int_equal(a.calls, 1);
	assert_int_equal(b.calls, 0);
	weir_timer_destroy(a.timer);
}

static void fed_without_end_it_leaves_capacity_for_others(void **state)
{
	struct weir_reactor *r = start_reactor_with(state,
		(struct weir_reactor_opts){ .turn_max = 8 });
	struct tick t[32];
	struct rec nop;
	int i;

	rec_init(&nop);
	for (i = 0; i < 32; i++) {
		make(&t[i], r);
		weir_timer_start(t[i].timer, 1, 1);
	}
	STARTS(weir_nop(r, &nop.op));
	UNTIL(r, nop.calls);
	for (i = 0; i < 32; i++) {
		UNTIL(r, t[i].calls > 1);
		weir_timer_destroy(t[i].timer);
	}
}

static void a_stopped_reactor_keeps_them_silent(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct tick t;

	make(&t, r);
	set_in(&t, 0, WEIR_MSEC);
	weir_reactor_stop(r);
	assert_int_equal(weir_reactor_run(r), 0);
	some_turns(r, 5);
	assert_int_equal(t.calls, 0);
	assert_int_equal(weir_reactor_destroy(r), -EBUSY);
	assert_int_equal(weir_reactor_start(r), 0);
	UNTIL(r, t.calls);
	weir_timer_destroy(t.timer);
}

static int fired;

static void on_any(struct weir_timer *timer, uint64_t n, void *arg)
{
	(void)timer, (void)n, (void)arg;
	fired++;
}

static void a_million_can_be_set_and_stopped(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	unsigned int n = scaled(1000000), i;
	struct weir_timer **t = calloc(n, sizeof(*t));
	uint64_t now = weir_reactor_now(r);

	assert_non_null(t);
	fired = 0;
	for (i = 0; i < n; i++) {
		assert_int_equal(weir_timer_create(&t[i], r, on_any, NULL), 0);
		weir_timer_start(t[i], now + 3600 * WEIR_SEC + i * 1000u, 0);
	}
	some_turns(r, 3);
	assert_int_equal(fired, 0);
	for (i = 0; i < n; i++) {
		if (i % 10)
			weir_timer_stop(t[i]);
		else
			weir_timer_start(t[i], now, 0);
	}
	UNTIL(r, fired == (int)((n + 9) / 10));
	some_turns(r, 3);
	assert_int_equal(fired, (n + 9) / 10);
	for (i = 0; i < n; i++)
		weir_timer_destroy(t[i]);
	free(t);
}

static void cancelled_sleep_does_not_come_back(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct rec rec, later;

	rec_init(&rec);
	rec_init(&later);
	STARTS(weir_sleep_until(r, &rec.op, weir_reactor_now(r) + WEIR_MSEC));
	STARTS(weir_sleep_until(r, &later.op,
				weir_reactor_now(r) + 3 * WEIR_MSEC));
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	UNTIL(r, later.calls);
	assert_int_equal(rec.calls, 1);
	assert_int_equal(rec.res, -ECANCELED);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(cancelled_sleep_does_not_come_back),
		CASE(a_callback_is_needed),
		CASE(timer_fires_once_and_not_early),
		CASE(timer_is_never_early),
		CASE(a_past_time_is_due_in_the_next_turn),
		CASE(forever_never_comes),
		CASE(a_period_that_never_ends_does_not_come_round),
		CASE(set_again_it_is_moved),
		CASE(stopped_it_is_silent),
		CASE(a_periodic_one_goes_on),
		CASE(missed_periods_are_counted_not_fired),
		CASE(timer_callback_may_destroy_its_timer),
		CASE(timer_callback_may_stop_its_timer),
		CASE(timer_callback_may_set_its_timer_again),
		CASE(timer_callback_may_destroy_another_timer_that_is_due),
		CASE(fed_without_end_it_leaves_capacity_for_others),
		CASE(a_stopped_reactor_keeps_them_silent),
		CASE(a_million_can_be_set_and_stopped),
	};

	return harness_run_all(cases, N_OF(cases));
}
