/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The reactor: options, states by call (the table in
 * docs/internals/reactor.md), turns that are bounded and fair, and the
 * account of what it did.
 */

#include "tests/support/harness.h"

#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <weir/file.h>
#include <weir/socket.h>
#include <weir/timer.h>
#include <weir/watch.h>

#include "tests/support/ignore.h"
#include "tests/support/sim-calls.h"

static struct weir_reactor_opts opts_of(void **state)
{
	return (struct weir_reactor_opts){
		.size = sizeof(struct weir_reactor_opts),
		.backend = backend_of(*state),
		.sim = harness_sim,
	};
}

/* Create must answer @err, leave a message, and not touch its result. */
static void refuses(const struct weir_reactor_opts *opts, int err)
{
	struct weir_reactor *const nobody = (void *)0x77;
	struct weir_reactor *r = nobody;

	assert_int_equal(weir_reactor_create(&r, opts), err);
	assert_ptr_equal(r, nobody);
	assert_true(strlen(weir_why()) > 10);
}

static void unknown_options_are_e2big(void **state)
{
	struct {
		struct weir_reactor_opts opts;
		uint64_t newer;
	} big = { .opts = opts_of(state) };
	struct weir_reactor *r;

	big.opts.size = sizeof(big);
	assert_int_equal(weir_reactor_create(&r, &big.opts), 0);
	assert_int_equal(weir_reactor_destroy(r), 0);
	big.newer = 1;
	refuses(&big.opts, -E2BIG);
}

static void older_callers_get_defaults(void **state)
{
	struct weir_reactor_opts opts = opts_of(state);
	struct weir_reactor *r;

	/* As if the struct had ended after .backend, with rubbish behind. */
	opts.size = offsetof(struct weir_reactor_opts, spin_ns);
	opts.ops_max = UINT32_MAX;
	opts.mailbox = 3;
	assert_int_equal(weir_reactor_create(&r, &opts), 0);
	assert_int_equal(weir_reactor_destroy(r), 0);
}

static void absurd_options_are_einval(void **state)
{
	struct weir_reactor_opts opts = opts_of(state);

	opts.size = 0;
	refuses(&opts, -EINVAL);
	opts.size = SIZE_MAX;	/* Was never set; nothing behind it is read. */
	refuses(&opts, -EINVAL);
	opts = opts_of(state);
	opts.backend = 99;
	refuses(&opts, -EINVAL);
	opts = opts_of(state);
	opts.mailbox = 1000;	/* No power of 2. */
	refuses(&opts, -EINVAL);
	opts = opts_of(state);
	opts.mailbox = UINT32_MAX;
	refuses(&opts, -EINVAL);
	opts = opts_of(state);
	opts.workers = UINT32_MAX;
	refuses(&opts, -EINVAL);
	opts = opts_of(state);
	opts.rx_bufs = UINT32_MAX;
	refuses(&opts, -EINVAL);
	opts = opts_of(state);
	opts.napi_us = 1000001;
	refuses(&opts, -EINVAL);
	opts = opts_of(state);
	opts.napi_us = 1;
	opts.napi_prefer = 2;
	refuses(&opts, -EINVAL);
	opts = opts_of(state);
	opts.napi_prefer = 1;
	refuses(&opts, -EINVAL);
}

static void the_environment_names_a_backend(void **state)
{
	const struct world *w = *state;
	struct weir_reactor_opts opts = opts_of(state);
	struct weir_reactor *r;

	opts.backend = WEIR_BACKEND_AUTO;
	setenv("WEIR_BACKEND", "nonsense", 1);
	refuses(&opts, -EINVAL);
	refuses(NULL, -EINVAL);
	setenv("WEIR_BACKEND", w->backend, 1);
	assert_int_equal(weir_reactor_create(&r, &opts), 0);
	assert_string_equal(weir_reactor_backend(r), w->backend);
	assert_true(strlen(weir_reactor_describe(r)) > 4);
	assert_int_equal(weir_reactor_destroy(r), 0);

	/* An option is stronger than the environment. */
	setenv("WEIR_BACKEND", "nonsense", 1);
	opts.backend = backend_of(w);
	assert_int_equal(weir_reactor_create(&r, &opts), 0);
	assert_string_equal(weir_reactor_backend(r), w->backend);
	assert_int_equal(weir_reactor_destroy(r), 0);
	setenv("WEIR_BACKEND", "auto", 1);
	assert_int_equal(weir_reactor_create(&r, NULL), 0);
	assert_int_equal(weir_reactor_destroy(r), 0);
	unsetenv("WEIR_BACKEND");
	assert_int_equal(weir_reactor_create(&r, NULL), 0);
	assert_int_equal(weir_reactor_destroy(r), 0);
}

static void no_descriptors_left_is_emfile(void **state)
{
	struct weir_reactor_opts opts = opts_of(state);
	struct rlimit old, few;
	struct weir_reactor *r;
	int spare, i, err = 1;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	few = old;
	/* However many it gets, the one that is missing is told. */
	for (i = 0; i < 64; i++) {
		spare = dup(0);
		assert_true(spare >= 0);
		few.rlim_cur = (rlim_t)spare + (rlim_t)i;
		close(spare);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		err = weir_reactor_create(&r, &opts);
		setrlimit(RLIMIT_NOFILE, &old);
		if (!err)
			break;
		assert_int_equal(err, -EMFILE);
		assert_true(strlen(weir_why()) > 10);
	}
	assert_int_equal(err, 0);
	assert_true(i > 0);
	assert_int_equal(weir_reactor_destroy(r), 0);
}

/* States. */

static void a_new_one_runs(void **state)
{
	struct weir_reactor *r = start_reactor(state);

	assert_int_equal(weir_reactor_state(r), WEIR_REACTOR_RUNNING);
	assert_int_equal(weir_reactor_start(r), 0);
	assert_int_equal(weir_reactor_turn(r, 0), 0);
}

static void destroying_nothing_is_allowed(void **state)
{
	(void)state;
	assert_int_equal(weir_reactor_destroy(NULL), 0);
}

static void stopped_it_can_be_started_again(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct rec rec;
	int i;

	rec_init(&rec);
	for (i = 0; i < 3; i++) {
		weir_reactor_stop(r);
		weir_reactor_stop(r);
		assert_int_equal(weir_reactor_run(r), 0);
		assert_int_equal(weir_reactor_state(r), WEIR_REACTOR_STOPPED);
		weir_reactor_stop(r);
		assert_int_equal(weir_reactor_run(r), 0);
		assert_int_equal(weir_nop(r, &rec.op), -ESHUTDOWN);
		assert_true(weir_reactor_turn(r, WEIR_FOREVER) >= 0);

		assert_int_equal(weir_reactor_start(r), 0);
		assert_int_equal(weir_reactor_start(r), 0);
		assert_int_equal(weir_reactor_state(r), WEIR_REACTOR_RUNNING);
		STARTS(weir_nop(r, &rec.op));
		assert_int_equal(finish(r, &rec), 0);
	}
}

static int stop_and_start(struct weir_poller *poller, void *arg)
{
	struct weir_reactor *r = arg;

	(void)poller;
	assert_int_equal(weir_reactor_state(r), WEIR_REACTOR_RUNNING);
	weir_reactor_stop(r);
	assert_int_equal(weir_reactor_start(r), -EBUSY);
	return 0;
}

/* The turn's other sources are still to run, and would be silent else. */
static void a_start_does_not_stop_it_in_the_middle_of_a_turn(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_poller *pollers[2];
	int i;

	for (i = 0; i < 2; i++)
		assert_int_equal(weir_poller_create(&pollers[i], r, 0,
						    stop_and_start, r), 0);
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(weir_reactor_start(r), 0);
	for (i = 0; i < 2; i++)
		weir_poller_destroy(pollers[i]);
}

static void run_returns_when_a_callback_stops_the_reactor(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct rec rec, waiting;

	rec_init(&rec);
	rec_init(&waiting);
	rec.stop = r;
	STARTS(weir_sleep_until(r, &waiting.op, WEIR_FOREVER - 1));
	STARTS(weir_nop(r, &rec.op));
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(rec.calls, 1);
	assert_int_equal(waiting.calls, 1);
	assert_int_equal(waiting.res, -ECANCELED);
}

static void on_break(struct weir_op *op, int64_t res)
{
	weir_reactor_break(op->data);
	rec_done(op, res);
}

static void a_break_ends_run_and_nothing_else(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct rec rec, waiting;

	rec_init(&rec);
	rec_init(&waiting);
	rec.op.fn = on_break;
	rec.op.data = r;
	STARTS(weir_sleep_until(r, &waiting.op, WEIR_FOREVER - 1));
	STARTS(weir_nop(r, &rec.op));
	assert_int_equal(weir_reactor_run(r), 1);
	assert_int_equal(weir_reactor_state(r), WEIR_REACTOR_RUNNING);
	assert_int_equal(waiting.calls, 0);

	/* One that nobody waits for holds for the next run. */
	weir_reactor_break(r);
	assert_int_equal(weir_reactor_run(r), 1);
	assert_int_equal(weir_reactor_state(r), WEIR_REACTOR_RUNNING);
	end_reactor(state);
}

static void *stop_it(void *r)
{
	weir_reactor_stop(r);
	return NULL;
}

static void *break_it(void *r)
{
	weir_reactor_break(r);
	return NULL;
}

static void another_thread_ends_run(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	pthread_t t;

	assert_int_equal(pthread_create(&t, NULL, break_it, r), 0);
	assert_int_equal(weir_reactor_run(r), 1);
	pthread_join(t, NULL);
	assert_int_equal(pthread_create(&t, NULL, stop_it, r), 0);
	assert_int_equal(weir_reactor_run(r), 0);
	pthread_join(t, NULL);
	assert_int_equal(weir_reactor_state(r), WEIR_REACTOR_STOPPED);
}

static struct weir_reactor *handler_reactor;

static void stopping_handler(int signo)
{
	(void)signo;
	weir_reactor_stop(handler_reactor);
}

static void signal_handler_may_stop_a_reactor(void **state)
{
	struct weir_reactor *r = start_reactor(state);

	handler_reactor = r;
	signal(SIGUSR1, stopping_handler);
	raise(SIGUSR1);
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(weir_reactor_state(r), WEIR_REACTOR_STOPPED);
	signal(SIGUSR1, SIG_DFL);
}

struct inside {
	struct rec rec;
	struct weir_reactor *r;
	int run, turn, destroy;
};

static void try_all(struct weir_op *op, int64_t res)
{
	struct inside *in = weir_container_of(op, struct inside, rec.op);

	in->run = weir_reactor_run(in->r);
	in->turn = weir_reactor_turn(in->r, 0);
	in->destroy = weir_reactor_destroy(in->r);
	rec_done(op, res);
}

/* A6.3 */
static void callbacks_may_not_run_or_destroy_their_reactor(void **state)
{
	struct inside in = { .r = start_reactor(state) };

	rec_init(&in.rec);
	in.rec.op.fn = try_all;
	STARTS(weir_nop(in.r, &in.rec.op));
	finish(in.r, &in.rec);
	assert_int_equal(in.run, -EBUSY);
	assert_int_equal(in.turn, -EBUSY);
	assert_int_equal(in.destroy, -EBUSY);
	assert_true(strlen(weir_why()) > 10);
	assert_int_equal(weir_reactor_state(in.r), WEIR_REACTOR_RUNNING);
	STARTS(weir_nop(in.r, &in.rec.op));
	end_reactor(state);
	assert_int_equal(in.rec.calls, 2);
}

/* A6.1 */
static void destroy_names_the_objects_that_are_left(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_timer *timer;
	struct weir_watch *watch;
	struct rec rec;
	int p[2];

	rec_init(&rec);
	pipe_pair(p);
	assert_int_equal(weir_timer_create(&timer, r, ignore_timer, NULL), 0);
	assert_int_equal(weir_reactor_destroy(r), -EBUSY);
	assert_non_null(strstr(weir_why(), "timer"));
	weir_timer_destroy(timer);

	assert_int_equal(weir_watch_create(&watch, r, p[0], WEIR_READABLE,
					   ignore_watch, NULL),
			 0);
	assert_int_equal(weir_reactor_destroy(r), -EBUSY);
	assert_non_null(strstr(weir_why(), "watch"));

	/* It was left as it was. */
	assert_int_equal(weir_reactor_state(r), WEIR_REACTOR_RUNNING);
	STARTS(weir_nop(r, &rec.op));
	assert_int_equal(finish(r, &rec), 0);
	weir_watch_destroy(watch);
	close_pair(p);
}

static void two_can_live_on_one_thread(void **state)
{
	struct weir_reactor_opts opts = opts_of(state);
	struct weir_reactor *a = start_reactor(state), *b;
	struct rec ra, rb;
	int i;

	assert_int_equal(weir_reactor_create(&b, &opts), 0);
	rec_init(&ra);
	rec_init(&rb);
	for (i = 0; i < 100; i++) {
		STARTS(weir_nop(a, &ra.op));
		STARTS(weir_nop(b, &rb.op));
		finish(a, &ra);
		assert_int_equal(rb.calls, i);
		finish(b, &rb);
	}
	/* Each to its own: one is gone, the other goes on. */
	assert_int_equal(weir_reactor_destroy(b), 0);
	STARTS(weir_nop(a, &ra.op));
	finish(a, &ra);
}

/* A callback of one may drive the other. */
static void turn_other(struct weir_op *op, int64_t res)
{
	struct inside *in = weir_container_of(op, struct inside, rec.op);

	in->turn = weir_reactor_turn(in->r, WEIR_SEC);
	rec_done(op, res);
}

static void callback_may_turn_another_reactor(void **state)
{
	struct weir_reactor_opts opts = opts_of(state);
	struct weir_reactor *a = start_reactor(state);
	struct inside in = { 0 };
	struct rec rec;

	assert_int_equal(weir_reactor_create(&in.r, &opts), 0);
	rec_init(&in.rec);
	rec_init(&rec);
	in.rec.op.fn = turn_other;
	STARTS(weir_defer(a, &in.rec.op));
	STARTS(weir_defer(in.r, &rec.op));
	finish(a, &in.rec);
	assert_int_equal(in.turn, 1);
	assert_int_equal(rec.calls, 1);
	assert_int_equal(weir_reactor_destroy(in.r), 0);
}

/* Bounds and fairness. */

static void a_turn_runs_at_most_turn_max_callbacks(void **state)
{
	struct weir_reactor *r = start_reactor_with(state,
		(struct weir_reactor_opts){ .turn_max = 10 });
	struct rec *recs = calloc(100, sizeof(*recs));
	int i, n, sum = 0, turns = 0;

	assert_non_null(recs);
	for (i = 0; i < 100; i++) {
		rec_init(&recs[i]);
		STARTS(weir_defer(r, &recs[i].op));
	}
	while (sum < 100) {
		n = weir_reactor_turn(r, WEIR_SEC);
		assert_true(n >= 0 && n <= 10);
		sum += n;
		turns++;
	}
	assert_true(turns >= 10);
	for (i = 0; i < 100; i++)
		assert_int_equal(recs[i].calls, 1);
	free(recs);
}

/* One that puts itself in line again and again. */
struct glutton {
	struct rec rec;
	struct weir_reactor *r;
	bool enough;
};

static void defer_again(struct weir_op *op, int64_t res)
{
	struct glutton *g = weir_container_of(op, struct glutton, rec.op);

	rec_done(op, res);
	if (!g->enough)
		weir_defer(g->r, op);
}

static void defer_in_a_callback_waits_a_turn(void **state)
{
	struct glutton g = { .r = start_reactor(state) };
	int i;

	rec_init(&g.rec);
	g.rec.op.fn = defer_again;
	STARTS(weir_defer(g.r, &g.rec.op));
	for (i = 1; i <= 20; i++) {
		assert_int_equal(weir_reactor_turn(g.r, WEIR_SEC), 1);
		assert_int_equal(g.rec.calls, i);
	}
	g.enough = true;
	some_turns(g.r, 3);
	assert_int_equal(g.rec.calls, 21);
}

/* Nor is it run once more for each source that is ready. */
static void sources_do_not_hurry_what_is_deferred(void **state)
{
	struct glutton g = { .r = start_reactor(state) };
	struct weir_watch *watches[10];
	int p[2], i, calls;

	pipe_pair(p);
	assert_int_equal(write(p[1], "x", 1), 1);
	for (i = 0; i < 10; i++)
		assert_int_equal(weir_watch_create(&watches[i], g.r, p[0],
						   WEIR_READABLE, ignore_watch,
						   NULL),
				 0);
	some_turns(g.r, 2);
	rec_init(&g.rec);
	g.rec.op.fn = defer_again;
	STARTS(weir_defer(g.r, &g.rec.op));
	for (i = 0; i < 5; i++) {
		calls = g.rec.calls;
		some_turns(g.r, 1);
		assert_int_equal(g.rec.calls, calls + 1);
	}
	g.enough = true;
	some_turns(g.r, 3);
	for (i = 0; i < 10; i++)
		weir_watch_destroy(watches[i]);
	close_pair(p);
}

static void a_self_deferring_op_starves_nobody(void **state)
{
	struct glutton g = { .r = start_reactor(state) };
	struct rec sleep, recv, nop;
	int sv[2];
	char byte;

	socket_pair(sv);
	rec_init(&sleep);
	rec_init(&recv);
	rec_init(&nop);
	rec_init(&g.rec);
	g.rec.op.fn = defer_again;
	STARTS(weir_defer(g.r, &g.rec.op));
	STARTS(weir_recv(g.r, &recv.op, sv[0], &byte, 1, 0));
	STARTS(weir_sleep_until(g.r, &sleep.op,
				weir_reactor_now(g.r) + WEIR_MSEC));
	STARTS(weir_nop(g.r, &nop.op));
	some_turns(g.r, 3);
	assert_int_equal(write(sv[1], "x", 1), 1);
	UNTIL(g.r, sleep.calls && recv.calls && nop.calls);
	g.enough = true;
	some_turns(g.r, 3);
	close_pair(sv);
}

static void count_watch(struct weir_watch *w, uint32_t events, void *arg)
{
	(void)w, (void)events;
	++*(int *)arg;
}

static void always_ready_pipes_starve_nobody(void **state)
{
	struct weir_reactor *r = start_reactor_with(state,
		(struct weir_reactor_opts){ .turn_max = 4 });
	struct weir_watch *w[16];
	int p[16][2], seen[16] = { 0 };
	struct rec sleep, work;
	int i;

	for (i = 0; i < 16; i++) {
		pipe_pair(p[i]);
		assert_int_equal(write(p[i][1], "x", 1), 1);
		assert_int_equal(weir_watch_create(&w[i], r, p[i][0],
						   WEIR_READABLE, count_watch,
						   &seen[i]), 0);
	}
	rec_init(&sleep);
	rec_init(&work);
	STARTS(weir_sleep_until(r, &sleep.op,
				weir_reactor_now(r) + WEIR_MSEC));
	STARTS(weir_nop(r, &work.op));
	UNTIL(r, sleep.calls && work.calls);
	/* All of them are served, though four fill a turn. */
	for (i = 0; i < 16; i++)
		UNTIL(r, seen[i] > 1);
	for (i = 0; i < 16; i++) {
		weir_watch_destroy(w[i]);
		close_pair(p[i]);
	}
}

static void an_idle_reactor_sleeps(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_reactor_stats before = { .size = sizeof(before) };
	struct weir_reactor_stats after = { .size = sizeof(after) };
	struct rec rec;

	rec_init(&rec);
	rec.stop = r;
	weir_reactor_stats(r, &before);
	STARTS(weir_sleep_until(r, &rec.op,
				weir_reactor_now(r) + 50 * WEIR_MSEC));
	assert_int_equal(weir_reactor_run(r), 0);
	weir_reactor_stats(r, &after);
	/* A loop that spins would have made thousands. */
	assert_true(after.turns - before.turns < 30);
	assert_true(after.sleeps > before.sleeps);
	assert_true(after.syscalls - before.syscalls < 60);
}

/* A6.3 */
static void a_turn_that_may_not_wait_does_not(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_reactor_stats st = { .size = sizeof(st) };
	struct rec rec;

	rec_init(&rec);
	STARTS(weir_sleep_until(r, &rec.op, WEIR_FOREVER - 1));
	some_turns(r, 100);
	assert_int_equal(weir_reactor_stats(r, &st), 0);
	assert_int_equal(st.sleeps, 0);
	assert_int_equal(st.in_flight, 1);
	end_reactor(state);
}

static void reactor_that_does_not_spin_counts_no_spins(void **state)
{
	struct weir_reactor *r = start_reactor_with(state,
		(struct weir_reactor_opts){ .spin_ns = WEIR_SPIN_NONE });
	struct weir_reactor_stats st = { .size = sizeof(st) };
	struct rec rec;
	int i;

	rec_init(&rec);
	for (i = 0; i < 20; i++) {
		STARTS(weir_sleep_until(r, &rec.op, weir_reactor_now(r) +
					100 * WEIR_USEC));
		finish(r, &rec);
	}
	assert_int_equal(weir_reactor_stats(r, &st), 0);
	assert_int_equal(st.spin_ns, 0);
	assert_true(st.sleeps > 0);
}

static void the_account_adds_up(void **state)
{
	struct weir_reactor_stats st = { .size = sizeof(st) };
	uint64_t t0, t1, sum;
	struct weir_reactor *r;
	struct rec rec[10];
	int i;

	r = start_reactor(state);
	t0 = weir_reactor_now(r);
	for (i = 0; i < 10; i++) {
		rec_init(&rec[i]);
		STARTS(weir_nop(r, &rec[i].op));
	}
	weir_reactor_stats(r, &st);
	assert_int_equal(st.in_flight, 10);
	assert_int_equal(st.started, 10);
	assert_int_equal(st.completed, 0);
	for (i = 0; i < 10; i++)
		UNTIL(r, rec[i].calls);
	STARTS(weir_sleep_until(r, &rec[0].op,
				weir_reactor_now(r) + 2 * WEIR_MSEC));
	finish(r, &rec[0]);
	t1 = weir_reactor_now(r);
	weir_reactor_stats(r, &st);
	assert_int_equal(st.started, 11);
	assert_int_equal(st.completed, 11);
	assert_int_equal(st.in_flight, 0);
	assert_true(st.turns > 0);
	assert_int_equal(st.overflows, 0);
	/* The parts of the time since its birth, which was before t0. */
	sum = st.busy_ns + st.spin_ns + st.sleep_ns;
	assert_true(sum >= t1 - t0);
}

static void stats_fill_what_there_is_capacity_for(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_reactor_stats st;

	memset(&st, 0x5a, sizeof(st));
	st.size = offsetof(struct weir_reactor_stats, spin_ns);
	assert_int_equal(weir_reactor_stats(r, &st), 0);
	assert_true(st.spin_ns == UINT64_C(0x5a5a5a5a5a5a5a5a));
	st.size = 4;
	assert_int_equal(weir_reactor_stats(r, &st), -EINVAL);
	assert_true(st.busy_ns != UINT64_C(0x5a5a5a5a5a5a5a5a));
}

static void time_does_not_go_back(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	uint64_t last = weir_reactor_now(r), now;
	int i;

	for (i = 0; i < 1000; i++) {
		some_turns(r, 1);
		now = weir_reactor_now(r);
		assert_true(now >= last);
		last = now;
	}
}

static void operations_complete_once_each(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	unsigned int n = scaled(20000), i, sum = 0;
	struct rec *recs = calloc(n, sizeof(*recs));

	assert_non_null(recs);
	for (i = 0; i < n; i++) {
		rec_init(&recs[i]);
		if (i % 3 == 0)
			STARTS(weir_defer(r, &recs[i].op));
		else
			STARTS(weir_nop(r, &recs[i].op));
	}
	/* Every seventh is cancelled, wherever it is. */
	for (i = 0; i < n; i += 7)
		assert_int_equal(weir_op_cancel(&recs[i].op), 0);
	for (i = 0; i < n; i++)
		UNTIL(r, recs[i].calls);
	some_turns(r, 10);
	for (i = 0; i < n; i++) {
		sum += (unsigned int)recs[i].calls;
		assert_true(!recs[i].res || (i % 7 == 0 &&
					     recs[i].res == -ECANCELED));
	}
	assert_int_equal(sum, n);
	free(recs);
}

static void the_version_is_that_of_the_headers(void **state)
{
	char text[32];

	(void)state;
	snprintf(text, sizeof(text), "%d.%d.%d", WEIR_VERSION_MAJOR,
		 WEIR_VERSION_MINOR, WEIR_VERSION_PATCH);
	assert_string_equal(weir_version(), text);
}

static int64_t add_one(void *arg)
{
	return *(int *)arg + 1;
}

/* Returns 0, or the number of what a reactor of a child does not do. */
static int use_one(const struct weir_reactor_opts *opts, int fd)
{
	struct weir_reactor *r;
	struct rec work, read;
	int one = 1;
	char c = 0;

	if (weir_reactor_create(&r, opts))
		return 1;
	rec_init(&work);
	rec_init(&read);
	if (weir_work(r, &work.op, add_one, &one) ||
	    weir_read(r, &read.op, fd, &c, 1, 0))
		return 2;
	while (!work.calls || !read.calls)
		if (weir_reactor_turn(r, WEIR_FOREVER) < 0)
			return 3;
	if (work.res != 2 || read.res != 1 || c != 'x')
		return 4;
	return weir_reactor_destroy(r) ? 5 : 0;
}

static void child_of_fork_may_create_a_reactor(void **state)
{
	struct weir_reactor_opts opts = opts_of(state);
	struct weir_reactor *r = start_reactor(state);
	char path[] = "/tmp/test-reactor-XXXXXX", got = 0;
	int ends[2], fd = mkstemp(path), status;
	struct rec rec;
	pid_t pid;

	assert_true(fd >= 0);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(write(fd, "x", 1), 1);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0,
				    ends), 0);
	rec_init(&rec);
	STARTS(weir_recv(r, &rec.op, ends[0], &got, 1, 0));
	some_turns(r, 2);
	fflush(NULL);
	pid = fork();
	if (!pid)
		_exit(use_one(&opts, fd));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	/* The parent's goes on. */
	assert_int_equal(rec.calls, 0);
	assert_int_equal(write(ends[1], "y", 1), 1);
	assert_int_equal(finish(r, &rec), 1);
	assert_int_equal(got, 'y');
	assert_int_equal(close(ends[0]) | close(ends[1]) | close(fd), 0);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(unknown_options_are_e2big),
		REAL(older_callers_get_defaults),
		CASE(absurd_options_are_einval),
		REAL(the_environment_names_a_backend),
		REAL(no_descriptors_left_is_emfile),
		CASE(a_new_one_runs),
		CASE(destroying_nothing_is_allowed),
		CASE(stopped_it_can_be_started_again),
		CASE(a_start_does_not_stop_it_in_the_middle_of_a_turn),
		CASE(run_returns_when_a_callback_stops_the_reactor),
		CASE(a_break_ends_run_and_nothing_else),
		REAL(another_thread_ends_run),
		CASE(signal_handler_may_stop_a_reactor),
		CASE(callbacks_may_not_run_or_destroy_their_reactor),
		CASE(destroy_names_the_objects_that_are_left),
		REAL(two_can_live_on_one_thread),
		REAL(child_of_fork_may_create_a_reactor),
		CASE(callback_may_turn_another_reactor),
		CASE(a_turn_runs_at_most_turn_max_callbacks),
		CASE(defer_in_a_callback_waits_a_turn),
		CASE(sources_do_not_hurry_what_is_deferred),
		CASE(a_self_deferring_op_starves_nobody),
		CASE(always_ready_pipes_starve_nobody),
		CASE(an_idle_reactor_sleeps),
		CASE(a_turn_that_may_not_wait_does_not),
		CASE(reactor_that_does_not_spin_counts_no_spins),
		CASE(the_account_adds_up),
		CASE(stats_fill_what_there_is_capacity_for),
		CASE(time_does_not_go_back),
		CASE(operations_complete_once_each),
		CASE(the_version_is_that_of_the_headers),
	};

	unsetenv("WEIR_BACKEND");
	return harness_run_all(cases, N_OF(cases));
}
