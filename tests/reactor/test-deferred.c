/* SPDX-License-Identifier: BSD-3-Clause */

/* Deferred work: what other threads ask a reactor to look after. */

#include "tests/support/harness.h"

#include <pthread.h>

#include "reactor/group/deferred.h"

#include "tests/support/sim-calls.h"

struct asked {
	struct deferred deferred;
	struct asked *finish; /* What it finishes when it runs. */
	struct deferred *send; /* What it sends. */
	struct weir_reactor *stop; /* Whose run() it ends. */
	int runs;
	int order; /* The how manieth of all it was. */
};

static int all_runs;

static void run(struct deferred *deferred)
{
	struct asked *a = weir_container_of(deferred, struct asked, deferred);

	a->runs++;
	a->order = ++all_runs;
	if (a->stop)
		weir_reactor_break(a->stop);
	if (a->finish)
		deferred_finish(&a->finish->deferred);
	if (a->send && a->runs == 1)
		deferred_send(a->send);
}

static void init(struct asked *a, int n, struct weir_reactor *r)
{
	all_runs = 0;
	memset(a, 0, (size_t)n * sizeof(*a));
	for (int i = 0; i < n; i++)
		deferred_init(&a[i].deferred, r, run);
}

static void sends_before_it_runs_are_one(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct asked a[3];
	int i;

	init(a, 3, r);
	for (i = 0; i < 9; i++)
		deferred_send(&a[i % 3].deferred);
	assert_int_equal(all_runs, 0);
	some_turns(r, 2);
	for (i = 0; i < 3; i++) {
		assert_int_equal(a[i].runs, 1);
		assert_int_equal(a[i].order, i + 1);
	}
	deferred_send(&a[0].deferred);
	some_turns(r, 1);
	assert_int_equal(a[0].runs, 2);
}

static void deferred_work_that_is_queued_by_itself_runs_again(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct asked a[1];

	init(a, 1, r);
	a[0].send = &a[0].deferred;
	deferred_send(&a[0].deferred);
	some_turns(r, 3);
	assert_int_equal(a[0].runs, 2);
}

static void finish_runs_what_was_sent_and_only_that(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct asked a[2];

	init(a, 2, r);
	deferred_send(&a[0].deferred);
	deferred_finish(&a[0].deferred);
	deferred_finish(&a[1].deferred);
	assert_int_equal(a[0].runs, 1);
	assert_int_equal(a[1].runs, 0);
}

/* Who finishes one is in the middle of something. */
static void finish_leaves_others_to_the_next_turn(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct asked a[3];
	int i;

	init(a, 3, r);
	for (i = 0; i < 3; i++)
		deferred_send(&a[i].deferred);
	deferred_finish(&a[1].deferred);
	assert_int_equal(all_runs, 1);
	assert_int_equal(a[1].runs, 1);
	UNTIL(r, all_runs == 3);
	assert_int_equal(a[0].order, 2);
	assert_int_equal(a[2].order, 3);
}

/* They was returned together: the rest is already off the stack. */
static void deferred_work_may_finish_the_work_behind_it(void **state)
{
	static const int order[] = { 1, 3, 2, 4 };
	struct weir_reactor *r = start_reactor(state);
	struct asked a[4];
	int i;

	init(a, 4, r);
	a[0].finish = &a[2];
	for (i = 0; i < 4; i++)
		deferred_send(&a[i].deferred);
	some_turns(r, 1);
	for (i = 0; i < 4; i++) {
		assert_int_equal(a[i].runs, 1);
		assert_int_equal(a[i].order, order[i]);
	}
}

static void *send_it(void *arg)
{
	deferred_send(arg);
	return NULL;
}

/* Asleep already or not yet: it runs, and what it does ends the wait. */
static void another_thread_wakes_the_reactor(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	pthread_t thread;
	struct asked a[1];
	int i;

	init(a, 1, r);
	a[0].stop = r;
	for (i = 1; i <= 100; i++) {
		assert_int_equal(pthread_create(&thread, NULL, send_it,
						&a[0].deferred),
				 0);
		assert_int_equal(weir_reactor_run(r), 1);
		pthread_join(thread, NULL);
		assert_int_equal(a[0].runs, i);
	}
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(sends_before_it_runs_are_one),
		CASE(deferred_work_that_is_queued_by_itself_runs_again),
		CASE(finish_runs_what_was_sent_and_only_that),
		CASE(finish_leaves_others_to_the_next_turn),
		CASE(deferred_work_may_finish_the_work_behind_it),
		REAL(another_thread_wakes_the_reactor),
	};

	return harness_run_all(cases, N_OF(cases));
}
