/* SPDX-License-Identifier: BSD-3-Clause */

/* Groups: their states, cell by cell of README.md; cores that fail. */

#include "tests/support/group-fixture.h"

#include <stdatomic.h>

#include <weir/sim/world.h>
#include <weir/timer.h>

#include "base/fault.h"
#include "reactor/group/group.h"
#include "tests/support/table-fixture.h"

static void stop_group(void *arg)
{
	weir_group_stop(arg);
}

/* The table. */

enum column { STOPPED, STARTED, STOPPING, N_COLUMNS };

static const char *const columns[] = { "STOPPED", "STARTED", "STOPPING" };

struct fixture {
	struct team t;
	enum column column;
	int res;
	bool gone;
};

static void fixture_begin(struct fixture *g, void **state, enum column column)
{
	memset(g, 0, sizeof(*g));
	g->column = column;
	team_create(&g->t, state, 2, 0);
	if (column == STOPPED)
		return;
	team_start(&g->t);
	if (column == STOPPING)
		weir_group_stop(g->t.group);
}

static void fixture_end(struct fixture *g)
{
	if (!g->gone)
		team_end(&g->t);
}

static int call_set_cpus(void *fixture)
{
	static const uint32_t cpus[2];

	return weir_group_set_cpus(((struct fixture *)fixture)->t.group, cpus,
				   2);
}

static int call_set_core_fns(void *fixture)
{
	return weir_group_set_core_fns(((struct fixture *)fixture)->t.group,
				       NULL, NULL, NULL);
}

static int call_set_event_fn(void *fixture)
{
	return weir_group_set_event_fn(((struct fixture *)fixture)->t.group,
				       NULL, NULL);
}

static int call_start(void *fixture)
{
	return weir_group_start(((struct fixture *)fixture)->t.group);
}

static int call_stop(void *fixture)
{
	return weir_group_stop(((struct fixture *)fixture)->t.group);
}

static int call_run(void *fixture)
{
	struct fixture *g = fixture;

	if (g->column == STARTED)
		assert_int_equal(weir_post(g->t.r[0], stop_group, g->t.group),
				 0);
	return weir_group_run(g->t.group);
}

static void run_and_stop(void *arg)
{
	struct fixture *g = arg;

	g->res = weir_group_run(g->t.group);
	weir_group_stop(g->t.group);
}

static int call_run_in_a_callback(void *fixture)
{
	struct fixture *g = fixture;

	assert_int_equal(weir_post(g->t.r[0], run_and_stop, g), 0);
	assert_int_equal(weir_group_run(g->t.group), 0);
	return g->res;
}

static int call_load(void *fixture)
{
	struct weir_group_load load = { .size = sizeof(load) };

	return weir_group_load(((struct fixture *)fixture)->t.group, 1, &load);
}

static int call_destroy(void *fixture)
{
	struct fixture *g = fixture;
	int err = weir_group_destroy(g->t.group);

	g->gone = !err;
	return err;
}

static const struct table_call calls[] = {
	{ "set_cpus", call_set_cpus },
	{ "set_core_fns", call_set_core_fns },
	{ "set_event_fn", call_set_event_fn },
	{ "start", call_start },
	{ "stop", call_stop },
	{ "run", call_run },
	{ "run in a callback", call_run_in_a_callback },
	{ "load", call_load },
	{ "destroy", call_destroy },
};

static void check_state(struct fixture *g, const struct table_cell *c)
{
	static const int states[] = {
		WEIR_GROUP_STOPPED, WEIR_GROUP_STARTED, WEIR_GROUP_STOPPING,
	};
	int i;

	for (i = 0; c->then[0] && i < N_COLUMNS; i++)
		if (!strcmp(columns[i], c->then))
			assert_int_equal(weir_group_state(g->t.group),
					 states[i]);
}

static void the_table_of_states_holds(void **state)
{
	struct table_cell c;
	struct table t;
	struct fixture g;

	table_open(&t, "docs/internals/reactor.md", "group: call by state", calls,
		   N_OF(calls), columns, N_OF(columns));
	while (table_next(&t, &c)) {
		fixture_begin(&g, state, (enum column)c.column);
		table_result(&c, c.call->fn(&g));
		check_state(&g, &c);
		fixture_end(&g);
	}
	table_close(&t);
}

/* Init and fini. */

struct story {
	struct team t;
	int fails_at;		/* -1: none. */
	char told[64];		/* "i0 i1 f1 f0 " */
	pthread_t thread[TEAM_MAX];
	bool wrong;
	unsigned int ran;
};

static void tell(struct story *s, char what, uint32_t core)
{
	size_t len = strlen(s->told);

	snprintf(s->told + len, sizeof(s->told) - len, "%c%u ", what, core);
}

static void count_ran(void *arg)
{
	((struct story *)arg)->ran++;
}

static void nothing(void *arg)
{
	(void)arg;
}

static int init(struct weir_group *group, uint32_t core, void *arg)
{
	struct story *s = arg;
	struct weir_reactor *last = weir_group_reactor(group,
		weir_group_size(group) - 1);

	tell(s, 'i', core);
	s->thread[core] = pthread_self();
	s->wrong |= !last || weir_post(last, count_ran, s);
	return (int)core == s->fails_at ? -ENOKEY : 0;
}

static void fini(struct weir_group *group, uint32_t core, void *arg)
{
	struct story *s = arg;

	tell(s, 'f', core);
	s->wrong |= !pthread_equal(s->thread[core], pthread_self());
	s->wrong |= weir_reactor_state(weir_group_reactor(group, core)) !=
		    WEIR_REACTOR_STOPPED;
}

static void story_begin(struct story *s, void **state, int fails_at)
{
	memset(s, 0, sizeof(*s));
	s->fails_at = fails_at;
	team_create(&s->t, state, 3, 0);
	assert_int_equal(weir_group_set_core_fns(s->t.group, init, fini, s), 0);
}

static void init_comes_in_order_and_fini_in_reverse(void **state)
{
	struct story s;

	story_begin(&s, state, -1);
	team_start(&s.t);
	assert_string_equal(s.told, "i0 i1 i2 ");
	team_end(&s.t);
	assert_string_equal(s.told, "i0 i1 i2 f2 f1 f0 ");
	assert_false(s.wrong);
	assert_int_equal(s.ran, 3);
	assert_true(pthread_equal(s.thread[0], pthread_self()));
	assert_true(harness_sim ||
		    !pthread_equal(s.thread[1], s.thread[2]));
}

static void a_core_that_fails_has_the_others_stopped(void **state)
{
	static const char *const told[] = {
		"i0 ", "i0 i1 f0 ", "i0 i1 i2 f1 f0 ",
	};
	struct story s;
	int i;

	for (i = 0; i < 3; i++) {
		story_begin(&s, state, i);
		assert_int_equal(weir_group_start(s.t.group), -ENOKEY);
		assert_non_null(strstr(weir_why(), "init function"));
		assert_string_equal(s.told, told[i]);
		assert_false(s.wrong);
		assert_int_equal(s.ran, i + 1);
		assert_int_equal(weir_group_state(s.t.group),
				 WEIR_GROUP_STOPPED);
		/* It can be started again. */
		s.fails_at = -1;
		s.told[0] = '\0';
		team_start(&s.t);
		team_end(&s.t);
		assert_string_equal(s.told, "i0 i1 i2 f2 f1 f0 ");
	}
}

/* The last init asks the first core, which runs before the others do. */
static int ask_for_a_stop(struct weir_group *group, uint32_t core, void *arg)
{
	(void)arg;
	if (core + 1 < weir_group_size(group))
		return 0;
	return weir_post(weir_group_reactor(group, 0), stop_group, group);
}

static void a_stop_by_a_core_that_runs_already_is_heard(void **state)
{
	struct weir_reactor_opts ropts = {
		.size = sizeof(ropts), .backend = backend_of(*state),
		.sim = harness_sim,
	};
	struct weir_group_opts opts = {
		.size = sizeof(opts), .n_cores = 3, .reactor = &ropts,
	};
	struct weir_group *group;

	assert_int_equal(weir_group_create(&group, &opts), 0);
	assert_int_equal(weir_group_set_core_fns(group, ask_for_a_stop, NULL,
						 NULL), 0);
	for (unsigned int i = 0; i < scaled(200); i++) {
		assert_int_equal(weir_group_start(group), 0);
		assert_int_equal(weir_group_run(group), 0);
	}
	assert_int_equal(weir_group_destroy(group), 0);
}

/* Each allocation and system call of a start fails once. */
static void a_start_that_fails_anywhere_leaves_nothing(void **state)
{
	struct team t;
	int err, nth;

	for (nth = 0; ; nth++) {
		team_create(&t, state, 2, 0);
		fault_arm(nth);
		err = weir_group_start(t.group);
		if (!fault_disarm()) {
			assert_int_equal(err, 0);
			team_end(&t);
			break;
		}
		/* Some have another way, and some hit a core that runs. */
		if (!err) {
			weir_group_stop(t.group);
			weir_group_run(t.group);
		}
		assert_int_equal(weir_group_destroy(t.group), 0);
	}
	assert_true(nth > 5);
}

static void never(struct weir_timer *timer, uint64_t n, void *arg)
{
	(void)timer, (void)n, (void)arg;
}

static void objects_left_by_fini_are_named(void **state)
{
	struct weir_timer *timer;
	struct weir_reactor *r;
	struct team t;

	team_begin(&t, state, 2, 0);
	r = t.r[0];
	assert_int_equal(weir_timer_create(&timer, r, never, NULL), 0);
	weir_group_stop(t.group);
	assert_int_equal(weir_group_run(t.group), -EBUSY);
	assert_non_null(strstr(weir_why(), "core 0"));
	assert_non_null(strstr(weir_why(), "timer"));
	assert_int_equal(weir_group_destroy(t.group), 0);
	/* It is kept; and here its thread is still there. */
	weir_timer_destroy(timer);
	assert_int_equal(weir_reactor_destroy(r), 0);
}

/* Options. */

static void bad_options_are_refused(void **state)
{
	struct weir_group_opts opts = { .size = sizeof(opts) };
	struct weir_group *group;
	uint32_t cpus[3] = { 0 };

	(void)state;
	opts.n_cores = WEIR_GROUP_CORES_MAX + 1;
	assert_int_equal(weir_group_create(&group, &opts), -EINVAL);
	opts.n_cores = 1;
	opts.spsc = 3;
	assert_int_equal(weir_group_create(&group, &opts), -EINVAL);
	opts.spsc = 0;
	opts.flags = 1u << 31;
	assert_int_equal(weir_group_create(&group, &opts), -EINVAL);
	opts.flags = 0;
	assert_int_equal(weir_group_create(&group, &opts), 0);
	assert_int_equal(weir_group_set_cpus(group, cpus, 3), -EINVAL);
	assert_int_equal(weir_group_destroy(group), 0);
	assert_int_equal(weir_group_destroy(NULL), 0);
}

/* On core 1: nothing is taken before core 0 sleeps. */
static void await_sleep(void *arg)
{
	struct weir_reactor *r = arg;

	while (!atomic_load(&r->mailbox.asleep))
		sched_yield();
}

static void sleeper_that_waits_for_capacity_is_woken(void **state)
{
	struct rec capacity;
	struct team t;

	team_begin(&t, state, 2, 4);
	assert_int_equal(weir_post(t.r[1], await_sleep, t.r[0]), 0);
	while (!weir_post(t.r[1], nothing, NULL))
		;
	rec_init(&capacity);
	STARTS(weir_capacity_wait(t.r[0], &capacity.op, t.r[1]));
	while (!capacity.calls)
		assert_true(weir_reactor_turn(t.r[0], WEIR_FOREVER) >= 0);
	assert_int_equal(capacity.res, 0);
	assert_true(atomic_load(&t.r[0]->mailbox.wakes) > 0);
	team_end(&t);
}

/* In a world the seed draws who is next. */
static uint64_t digest_of(uint64_t seed)
{
	struct weir_reactor_opts ropts = { .size = sizeof(ropts) };
	struct weir_group_opts opts = {
		.size = sizeof(opts), .n_cores = 4, .reactor = &ropts,
	};
	struct weir_group *group;
	uint64_t digest;

	assert_int_equal(weir_sim_create(&ropts.sim, seed, NULL), 0);
	assert_int_equal(weir_group_create(&group, &opts), 0);
	assert_int_equal(weir_group_start(group), 0);
	for (int i = 0; i < 40; i++)
		assert_int_equal(weir_post(weir_group_reactor(group,
			(uint32_t)i % 4), nothing, NULL), 0);
	weir_sim_run(ropts.sim, WEIR_SEC, 0);
	weir_group_stop(group);
	assert_int_equal(weir_group_run(group), 0);
	assert_int_equal(weir_group_destroy(group), 0);
	digest = weir_sim_digest(ropts.sim);
	assert_int_equal(weir_sim_destroy(ropts.sim), 0);
	return digest;
}

static void a_seed_draws_the_order_of_a_simulated_group(void **state)
{
	(void)state;
	assert_true(digest_of(1) == digest_of(1));
	assert_true(digest_of(1) != digest_of(2));
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(the_table_of_states_holds),
		CASE(init_comes_in_order_and_fini_in_reverse),
		CASE(a_core_that_fails_has_the_others_stopped),
		CASE(a_stop_by_a_core_that_runs_already_is_heard),
		REAL(a_start_that_fails_anywhere_leaves_nothing),
		CASE(objects_left_by_fini_are_named),
		REAL(bad_options_are_refused),
		REAL(sleeper_that_waits_for_capacity_is_woken),
		REAL(a_seed_draws_the_order_of_a_simulated_group),
	};

	return harness_run_all(cases, N_OF(cases));
}
