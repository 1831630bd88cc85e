/* SPDX-License-Identifier: BSD-3-Clause */

/* How the cores of a group spend their time, as other threads are told. */

#include "tests/support/group-fixture.h"

#include <pthread.h>
#include <stdatomic.h>

#include "reactor/group/group.h"

static void a_sleeping_core_is_seen_to_sleep_and_not_woken(void **state)
{
	struct weir_group_load a = { .size = sizeof(a) }, b;
	struct team t;
	int i;

	team_begin(&t, state, 2, 0);
	do
		assert_int_equal(weir_group_load(t.group, 1, &a), 0);
	while (!atomic_load(&t.group->cores[1].clock.asleep));
	assert_int_equal(weir_group_load(t.group, 1, &a), 0);
	b = a;
	for (i = 0; i < 1000; i++)
		assert_int_equal(weir_group_load(t.group, 1, &b), 0);
	assert_true(b.sleep_ns > a.sleep_ns);
	assert_int_equal(b.sleeps, a.sleeps);
	assert_int_equal(b.wakes, a.wakes);
	assert_int_equal(b.busy_ns, a.busy_ns);
	assert_int_equal(b.last_busy_ns, 0);
	assert_int_equal(weir_group_load(t.group, 2, &b), -EINVAL);
	team_end(&t);
}

/* Between its turns the host has the thread, and the core nothing to do. */
static void a_core_that_a_host_turns_is_seen_to_sleep(void **state)
{
	struct weir_group_load a = { .size = sizeof(a) }, b;
	struct team t;

	team_begin(&t, state, 2, 0);
	assert_true(weir_reactor_fd(t.r[0]) >= 0);
	some_turns(t.r[0], 3);
	assert_int_equal(weir_group_load(t.group, 0, &a), 0);
	b = a;
	assert_int_equal(weir_group_load(t.group, 0, &b), 0);
	assert_true(b.sleep_ns > a.sleep_ns);
	assert_int_equal(b.busy_ns, a.busy_ns);
	team_end(&t);
}

struct watcher {
	struct weir_group *group;
	atomic_int looks;
	int err;		/* That ended it. */
};

static void *watch(void *arg)
{
	struct weir_group_load load = { .size = sizeof(load) };
	struct watcher *w = arg;

	while (!(w->err = weir_group_load(w->group, 1, &load)))
		atomic_fetch_add(&w->looks, 1);
	return NULL;
}

#define LIVES 50

static void group_may_be_read_while_it_stops(void **state)
{
	struct watcher w = { 0 };
	pthread_t thread;
	struct team t;

	team_create(&t, state, 2, 0);
	w.group = t.group;
	for (int i = 0; i < LIVES; i++) {
		team_start(&t);
		assert_int_equal(pthread_create(&thread, NULL, watch, &w), 0);
		while (!atomic_exchange(&w.looks, 0))
			sched_yield();
		weir_group_stop(t.group);
		assert_int_equal(weir_group_run(t.group), 0);
		pthread_join(thread, NULL);
		assert_int_equal(w.err, -EBADFD);
	}
	assert_int_equal(weir_group_destroy(t.group), 0);
}

int main(void)
{
	static const struct harness_case cases[] = {
		REAL(a_sleeping_core_is_seen_to_sleep_and_not_woken),
		REAL(a_core_that_a_host_turns_is_seen_to_sleep),
		REAL(group_may_be_read_while_it_stops),
	};

	return harness_run_all(cases, N_OF(cases));
}
