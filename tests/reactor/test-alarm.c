/* SPDX-License-Identifier: BSD-3-Clause */

/* Timers on the wall clock, <weir/alarm.h>.  The clock is that of all programs, so
 * one case alone sets it, in the guest (tests/vm); for the others a fault has the
 * kernel say that it was set. */

#include "tests/support/harness.h"

#include <time.h>

#include <weir/alarm.h>

#include "tests/support/fault-fixture.h"

#define N 100

struct seen {
	struct weir_alarm *alarm;
	unsigned int due, set, order;
	uint64_t at_ns;
	bool destroy;
	bool repeat;		/* As soon as possible. */
	struct seen *destroys;	/* Another one. */
};

static struct seen all[N];
static unsigned int n_calls;

static uint64_t wall_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * WEIR_SEC + (uint64_t)ts.tv_nsec;
}

static void on_alarm(struct weir_alarm *alarm, uint32_t events, void *arg)
{
	struct seen *s = arg;

	assert_ptr_equal(s->alarm, alarm);
	assert_true(events && !(events & ~3u));
	s->due += !!(events & WEIR_ALARM_DUE);
	s->set += !!(events & WEIR_ALARM_CLOCK_SET);
	s->order = n_calls++;
	s->at_ns = wall_now();
	if (s->repeat)
		weir_alarm_set(alarm, 0);
	if (s->destroys) {
		weir_alarm_destroy(s->destroys->alarm);
		s->destroys->alarm = NULL;
	}
	if (s->destroy) {
		weir_alarm_destroy(s->alarm);
		s->alarm = NULL;
	}
}

static void create(struct weir_reactor *r, unsigned int n)
{
	memset(all, 0, sizeof(all));
	n_calls = 0;
	for (unsigned int i = 0; i < n; i++)
		assert_int_equal(weir_alarm_create(&all[i].alarm, r, on_alarm,
						   &all[i]), 0);
}

static void destroy(unsigned int n)
{
	for (unsigned int i = 0; i < n; i++)
		weir_alarm_destroy(all[i].alarm);
}

static void until_calls(struct weir_reactor *r, unsigned int n)
{
	while (n_calls < n)
		assert_true(weir_reactor_turn(r, WEIR_FOREVER) >= 0);
	some_turns(r, 3);
	assert_int_equal(n_calls, n);
}

static void alarms_are_due_in_the_order_of_their_times(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	uint64_t now = wall_now();
	unsigned int i;

	create(r, N);
	/* 37 and 100 have no common divisor: each place once. */
	for (i = 0; i < N; i++)
		weir_alarm_set(all[i].alarm, now + 5 * WEIR_MSEC +
			       i * 37 % N * 10 * WEIR_USEC);
	until_calls(r, N);
	for (i = 0; i < N; i++) {
		assert_true(all[i].at_ns >= now + 5 * WEIR_MSEC +
			    i * 37 % N * 10 * WEIR_USEC);
		assert_int_equal(all[i].order, i * 37 % N);
		assert_int_equal(all[i].due, 1);
		assert_int_equal(all[i].set, 0);
	}
	destroy(N);
}

/* From any place in the heap. */
static void alarms_that_are_moved_often_are_due_in_order(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	uint64_t now = wall_now(), at[N], last = 0;
	unsigned int i, j, n = 0, seed = 1;

	create(r, N);
	for (i = 0; i < 50 * N; i++) {
		j = i < N ? i : (unsigned int)rand_r(&seed) % N;
		at[j] = (uint64_t)rand_r(&seed) % WEIR_MSEC;
		weir_alarm_set(all[j].alarm, now + 20 * WEIR_MSEC + at[j]);
	}
	for (i = 0; i < N; i += 3)
		weir_alarm_stop(all[i].alarm);
	until_calls(r, N - (N + 2) / 3);
	for (i = 0; i < n_calls; i++) {
		for (j = 0; j < N && (!all[j].due || all[j].order != i); j++)
			;
		assert_true(j < N && j % 3 && at[j] >= last);
		last = at[j];
		n++;
	}
	assert_int_equal(n, n_calls);
	destroy(N);
}

static void alarm_is_not_early_and_the_past_is_due_at_once(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	uint64_t when;

	create(r, 3);
	weir_alarm_set(all[0].alarm, 0);
	weir_alarm_set(all[1].alarm, 1);
	weir_alarm_set(all[2].alarm, WEIR_FOREVER);
	assert_int_equal(n_calls, 0);
	until_calls(r, 2);
	assert_int_equal(all[2].due, 0);
	when = wall_now() + 3 * WEIR_MSEC;
	weir_alarm_set(all[0].alarm, when);
	until_calls(r, 3);
	assert_true(all[0].at_ns >= when);
	destroy(3);
}

static void alarm_that_repeats_in_the_past_leaves_others_their_turn(
	void **state)
{
	struct weir_reactor *r = start_reactor(state);
	unsigned int n;

	create(r, 2);
	all[0].repeat = true;
	weir_alarm_set(all[0].alarm, 0);
	weir_alarm_set(all[1].alarm, wall_now());
	while (!all[1].due) {
		n = all[0].due;
		assert_true(weir_reactor_turn(r, WEIR_FOREVER) >= 0);
		assert_in_range(all[0].due, n, n + 1);
	}
	while (all[0].due < 100)
		assert_true(weir_reactor_turn(r, WEIR_FOREVER) >= 0);
	assert_int_equal(all[1].due, 1);
	destroy(2);
}

static void moved_and_stopped_alarms_are_as_last_set(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	uint64_t now = wall_now();

	create(r, 3);
	weir_alarm_set(all[0].alarm, now + 3600 * WEIR_SEC);
	weir_alarm_set(all[1].alarm, now + WEIR_MSEC);
	weir_alarm_set(all[2].alarm, now + WEIR_MSEC);
	weir_alarm_set(all[0].alarm, now + 2 * WEIR_MSEC);
	weir_alarm_set(all[1].alarm, now + 3600 * WEIR_SEC);
	weir_alarm_stop(all[2].alarm);
	weir_alarm_stop(all[2].alarm);
	until_calls(r, 1);
	assert_int_equal(all[0].due, 1);
	destroy(3);
}

/* To the present time, so that nothing else changes. */
static void set_clock(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	assert_int_equal(clock_settime(CLOCK_REALTIME, &ts), 0);
}

/* Also if that is before the kernel is asked to wait for something else. */
static void alarms_are_called_once_if_the_clock_is_really_set(void **state)
{
	struct weir_reactor *r;

	if (!getenv("WEIR_TEST_IN_GUEST"))
		skip_because("the clock is set in the guest only");
	r = start_reactor(state);
	create(r, 2);
	weir_alarm_set(all[0].alarm, wall_now() + 3600 * WEIR_SEC);
	some_turns(r, 3);
	set_clock();
	until_calls(r, 2);
	set_clock();
	weir_alarm_set(all[0].alarm, wall_now() + 1800 * WEIR_SEC);
	until_calls(r, 4);
	for (unsigned int i = 0; i < 2; i++)
		assert_true(all[i].set == 2 && !all[i].due);
	destroy(2);
}

static void alarms_are_called_if_the_clock_was_set(void **state)
{
	struct weir_reactor *r = start_reactor_with(state,
		(struct weir_reactor_opts){ .turn_max = 7 });
	unsigned int i;

	create(r, N);
	weir_alarm_set(all[0].alarm, wall_now() + 3600 * WEIR_SEC);
	weir_alarm_set(all[3].alarm, 1);
	/* Others go meanwhile, also the one that is next. */
	all[N - 1].destroys = &all[N - 2];
	all[50].destroy = true;
	unlike = "clock_set";
	fault_ask(differ);
	while (!n_calls)
		assert_true(weir_reactor_turn(r, WEIR_FOREVER) >= 0);
	unlike = NULL;
	until_calls(r, N - 1);
	fault_ask(NULL);
	for (i = 0; i < N; i++)
		assert_int_equal(all[i].set, i != N - 2);
	assert_int_equal(all[3].due, 1);
	assert_int_equal(all[0].due, 0);
	assert_null(all[50].alarm);
	destroy(N);
}

static void callback_may_destroy_the_last_alarm(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fds = count_fds();

	create(r, 1);
	assert_true(count_fds() > fds);
	assert_int_equal(weir_reactor_destroy(r), -EBUSY);
	assert_non_null(strstr(weir_why(), "weir_alarm"));
	weir_alarm_set(all[0].alarm, 1);
	all[0].destroy = true;
	until_calls(r, 1);
	assert_int_equal(count_fds(), fds);
	weir_alarm_destroy(NULL);
}

static void alarm_that_comes_while_the_reactor_is_stopped_waits(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_alarm *other;

	create(r, 1);
	weir_alarm_set(all[0].alarm, 1);
	weir_reactor_stop(r);
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(n_calls, 0);
	assert_int_equal(weir_alarm_create(&other, r, on_alarm, NULL),
			 -ESHUTDOWN);
	assert_int_equal(weir_reactor_start(r), 0);
	until_calls(r, 1);
	destroy(1);
}

static void alarms_whose_watch_failed_are_watched_again(void **state)
{
	struct weir_reactor *r = start_reactor(state);

	create(r, 1);
	restart_unwatched(r);
	weir_alarm_set(all[0].alarm, 1);
	until_calls(r, 1);
	destroy(1);
}

static void refused_alarms_leave_nothing(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int fds = count_fds(), err = -1;

	assert_int_equal(weir_alarm_create(&all[0].alarm, r, NULL, NULL),
			 -EINVAL);
	for (long nth = 0; err; nth++) {
		fault_arm(nth);
		err = weir_alarm_create(&all[0].alarm, r, on_alarm, &all[0]);
		if (fault_disarm())
			assert_true(err == -ENOMEM || err == -EMFILE);
		if (err) {
			some_turns(r, 3);
			assert_int_equal(count_fds(), fds);
		}
	}
	weir_alarm_destroy(all[0].alarm);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(alarms_are_due_in_the_order_of_their_times),
		CASE(alarms_that_are_moved_often_are_due_in_order),
		CASE(alarm_is_not_early_and_the_past_is_due_at_once),
		CASE(alarm_that_repeats_in_the_past_leaves_others_their_turn),
		CASE(moved_and_stopped_alarms_are_as_last_set),
		CASE(alarms_are_called_if_the_clock_was_set),
		CASE(alarms_are_called_once_if_the_clock_is_really_set),
		CASE(callback_may_destroy_the_last_alarm),
		CASE(alarm_that_comes_while_the_reactor_is_stopped_waits),
		CASE(alarms_whose_watch_failed_are_watched_again),
		CASE(refused_alarms_leave_nothing),
	};

	return harness_run(cases, N_OF(cases));
}
