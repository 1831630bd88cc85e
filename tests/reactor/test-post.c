/* SPDX-License-Identifier: BSD-3-Clause */

/* What comes from other threads: posts, and work that workers did. */

#include "tests/support/gate-fixture.h"

#include <pthread.h>
#include <stdatomic.h>

#include "tests/support/sim-calls.h"

static void count(void *arg)
{
	++*(int *)arg;
}

static void a_post_runs_in_the_turn_and_not_before(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int n = 0;

	assert_int_equal(weir_post(r, count, &n), 0);
	assert_int_equal(n, 0);
	UNTIL(r, n);
	some_turns(r, 3);
	assert_int_equal(n, 1);
}

/* One sender's posts, which must come in its order. */
struct sender {
	struct weir_reactor *r;
	pthread_t thread;
	unsigned int n, next, retries;
	bool disorder;
};

struct note {
	struct sender *sender;
	unsigned int number;
};

static void on_note(void *arg)
{
	struct note *note = arg;
	struct sender *s = note->sender;

	s->disorder |= note->number != s->next;
	s->next++;
	free(note);
}

static void *send_notes(void *arg)
{
	struct sender *s = arg;
	struct note *note;
	unsigned int i;
	int err;

	for (i = 0; i < s->n; i++) {
		note = malloc(sizeof(*note));
		*note = (struct note){ s, i };
		while ((err = weir_post(s->r, on_note, note)) == -EAGAIN) {
			s->retries++;
			sched_yield();
		}
		if (err)
			abort();
	}
	return NULL;
}

static void many_senders(void **state, uint32_t mailbox)
{
	struct weir_reactor *r = start_reactor_with(state,
		(struct weir_reactor_opts){ .mailbox = mailbox });
	struct weir_reactor_stats st = { .size = sizeof(st) };
	struct sender s[4];
	unsigned int n = scaled(20000);
	int i;

	for (i = 0; i < 4; i++) {
		s[i] = (struct sender){ .r = r, .n = n };
		assert_int_equal(pthread_create(&s[i].thread, NULL, send_notes,
						&s[i]), 0);
	}
	UNTIL(r, s[0].next == n && s[1].next == n && s[2].next == n &&
	      s[3].next == n);
	for (i = 0; i < 4; i++) {
		pthread_join(s[i].thread, NULL);
		assert_false(s[i].disorder);
		assert_int_equal(s[i].next, n);
	}
	assert_int_equal(weir_reactor_stats(r, &st), 0);
	assert_int_equal(st.posts, 4 * n);
}

static void posts_of_each_thread_keep_their_order(void **state)
{
	many_senders(state, 0);
}

static void a_tiny_mailbox_loses_nothing(void **state)
{
	many_senders(state, 2);
}

static void mailbox_of_one_post_loses_nothing(void **state)
{
	many_senders(state, 1);
}

static void mailbox_for_a_single_post_refuses_the_second(void **state)
{
	struct weir_reactor *r = start_reactor_with(state,
		(struct weir_reactor_opts){ .mailbox = 1 });
	int n = 0, i;

	for (i = 1; i <= 3; i++) {
		assert_int_equal(weir_post(r, count, &n), 0);
		assert_int_equal(weir_post(r, count, &n), -EAGAIN);
		some_turns(r, 2);
		assert_int_equal(n, i);
	}
}

static void a_full_mailbox_refuses(void **state)
{
	struct weir_reactor *r = start_reactor_with(state,
		(struct weir_reactor_opts){ .mailbox = 8 });
	int n = 0, i;

	for (i = 0; i < 8; i++)
		assert_int_equal(weir_post(r, count, &n), 0);
	assert_int_equal(weir_post(r, count, &n), -EAGAIN);
	assert_int_equal(weir_post(r, count, &n), -EAGAIN);
	UNTIL(r, n == 8);
	for (i = 0; i < 8; i++)
		assert_int_equal(weir_post(r, count, &n), 0);
	UNTIL(r, n == 16);
	some_turns(r, 3);
	assert_int_equal(n, 16);
}

/* A sender that waits until the reactor has gone to sleep. */
struct waker {
	struct weir_reactor *r;
	atomic_bool sleeps;
	int n;
};

static void *wake_later(void *arg)
{
	struct waker *w = arg;

	while (!atomic_load(&w->sleeps))
		sched_yield();
	/* It is about to sleep, or sleeps: both must end by this. */
	usleep(2000);
	if (weir_post(w->r, count, &w->n))
		abort();
	return NULL;
}

/* Its first sleep, so that nothing else has prepared it for a wake-up. */
static void wakes_within(void **state, uint64_t timeout_ns)
{
	struct waker w = { .r = start_reactor_with(state,
		(struct weir_reactor_opts){ .spin_ns = WEIR_SPIN_NONE }) };
	struct weir_reactor_stats st = { .size = sizeof(st) };
	pthread_t t;

	assert_int_equal(pthread_create(&t, NULL, wake_later, &w), 0);
	atomic_store(&w.sleeps, true);
	while (!w.n)
		assert_true(weir_reactor_turn(w.r, timeout_ns) >= 0);
	pthread_join(t, NULL);
	assert_int_equal(weir_reactor_stats(w.r, &st), 0);
	assert_true(st.wakes <= 1);
}

static void a_sleeping_reactor_is_woken(void **state)
{
	wakes_within(state, WEIR_FOREVER);
}

static void reactor_that_sleeps_for_an_hour_is_woken(void **state)
{
	wakes_within(state, 3600 * WEIR_SEC);
}

/* What woke it is over then: nothing keeps it from sleeping on. */
static void a_wake_up_ends_one_sleep(void **state)
{
	struct waker w = { .r = start_reactor_with(state,
		(struct weir_reactor_opts){ .spin_ns = WEIR_SPIN_NONE }) };
	struct weir_reactor_stats before = { .size = sizeof(before) };
	struct weir_reactor_stats after = { .size = sizeof(after) };
	struct rec nap;
	pthread_t t;

	assert_int_equal(pthread_create(&t, NULL, wake_later, &w), 0);
	atomic_store(&w.sleeps, true);
	UNTIL(w.r, w.n);
	pthread_join(t, NULL);
	rec_init(&nap);
	weir_reactor_stats(w.r, &before);
	STARTS(weir_sleep_until(w.r, &nap.op,
				weir_reactor_now(w.r) + 100 * WEIR_MSEC));
	UNTIL(w.r, nap.calls);
	weir_reactor_stats(w.r, &after);
	/* About ten; one that cannot sleep tries thousands of times. */
	assert_true(after.sleeps - before.sleeps < 100);
}

/* To and fro, without a timeout: a wake-up that is lost hangs. */
struct side {
	struct weir_reactor *r;
	struct side *other;
	unsigned int left;
	bool second;
	pthread_barrier_t barrier;	/* Nobody posts any more. */
};

static void serve(void *arg)
{
	struct side *s = arg;
	bool last = !--s->left;

	if (last)
		weir_reactor_break(s->r);
	if (last && s->second)
		return;
	if (weir_post(s->other->r, serve, s->other))
		abort();
}

static struct weir_reactor_opts side_opts;

static void *run_side(void *arg)
{
	struct side *s = arg;
	struct weir_reactor *r;

	if (weir_reactor_create(&r, &side_opts))
		abort();
	__atomic_store_n(&s->r, r, __ATOMIC_RELEASE);
	if (weir_reactor_run(r) != 1)
		abort();
	pthread_barrier_wait(&s->barrier);
	if (weir_reactor_destroy(r))
		abort();
	return NULL;
}

static void no_wake_up_is_lost_between_two(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	unsigned int n = scaled(20000);
	struct side a = { .r = r, .left = n };
	struct side b = { .other = &a, .left = n, .second = true };
	pthread_t t;

	pthread_barrier_init(&b.barrier, NULL, 2);
	side_opts = (struct weir_reactor_opts){
		.size = sizeof(side_opts),
		.backend = backend_of(*state),
		.spin_ns = WEIR_SPIN_NONE,
	};
	a.other = &b;
	assert_int_equal(pthread_create(&t, NULL, run_side, &b), 0);
	while (!__atomic_load_n(&b.r, __ATOMIC_ACQUIRE))
		sched_yield();
	assert_int_equal(weir_post(r, serve, &a), 0);
	assert_int_equal(weir_reactor_run(r), 1);
	pthread_barrier_wait(&b.barrier);
	pthread_join(t, NULL);
	pthread_barrier_destroy(&b.barrier);
}

static void reactor_may_post_to_itself(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int n = 0, i;

	for (i = 0; i < 100; i++) {
		assert_int_equal(weir_post(r, count, &n), 0);
		some_turns(r, 1);
	}
	UNTIL(r, n == 100);
}

struct echo {
	struct weir_reactor *r;
	int n, max;
};

static void post_again(void *arg)
{
	struct echo *e = arg;

	if (++e->n < e->max)
		assert_int_equal(weir_post(e->r, post_again, e), 0);
}

static void a_post_that_posts_leaves_capacity_for_others(void **state)
{
	struct echo e = { .r = start_reactor(state), .max = 1 << 30 };
	struct rec nop, nap;

	rec_init(&nop);
	rec_init(&nap);
	assert_int_equal(weir_post(e.r, post_again, &e), 0);
	STARTS(weir_nop(e.r, &nop.op));
	STARTS(weir_sleep_until(e.r, &nap.op,
				weir_reactor_now(e.r) + WEIR_MSEC));
	UNTIL(e.r, nop.calls && nap.calls);
	e.max = 0;
	some_turns(e.r, 2);
}

static void stopped_reactor_takes_no_post(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int n = 0;

	/* What was taken before the stop still runs. */
	assert_int_equal(weir_post(r, count, &n), 0);
	weir_reactor_stop(r);
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(n, 1);
	assert_int_equal(weir_post(r, count, &n), -ESHUTDOWN);
	assert_int_equal(weir_reactor_start(r), 0);
	assert_int_equal(weir_post(r, count, &n), 0);
	UNTIL(r, n == 2);
}

/* Work. */

static int64_t my_thread(void *arg)
{
	*(pthread_t *)arg = pthread_self();
	return -EDOM;
}

static void work_runs_elsewhere_and_gives_its_result(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	pthread_t t = pthread_self();
	struct rec rec;

	rec_init(&rec);
	STARTS(weir_work(r, &rec.op, my_thread, &t));
	assert_int_equal(finish(r, &rec), -EDOM);
	assert_false(pthread_equal(t, pthread_self()));
	assert_int_equal(weir_work(r, &rec.op, NULL, NULL), -EINVAL);
}

static int64_t add_one(void *arg)
{
	return atomic_fetch_add((atomic_int *)arg, 1);
}

static void single_worker_runs_jobs_in_order(void **state)
{
	struct weir_reactor *r = start_reactor_with(state,
		(struct weir_reactor_opts){ .workers = 1 });
	struct rec rec[50];
	atomic_int n = 0;
	int i;

	for (i = 0; i < 50; i++) {
		rec_init(&rec[i]);
		STARTS(weir_work(r, &rec[i].op, add_one, &n));
	}
	for (i = 0; i < 50; i++) {
		UNTIL(r, rec[i].calls);
		assert_int_equal(rec[i].res, i);
	}
}

static void a_cancel_reaches_work_that_waits_only(void **state)
{
	struct weir_reactor *r = start_reactor_with(state,
		(struct weir_reactor_opts){ .workers = 1 });
	struct rec runs, waits;
	struct gate g;

	gate_make(&g);
	rec_init(&runs);
	rec_init(&waits);
	STARTS(weir_work(r, &runs.op, pass_gate, &g));
	STARTS(weir_work(r, &waits.op, pass_gate, &g));
	some_turns(r, 1);
	gate_wait(&g);
	assert_int_equal(weir_op_cancel(&waits.op), 0);
	assert_int_equal(weir_op_cancel(&runs.op), 0);
	assert_int_equal(finish(r, &waits), -ECANCELED);
	some_turns(r, 3);
	assert_int_equal(runs.calls, 0);
	gate_open(&g);
	assert_int_equal(finish(r, &runs), 1);
	assert_int_equal(atomic_load(&g.ran), 1);
	gate_free(&g);
}

static void a_deadline_reaches_work_that_waits(void **state)
{
	struct weir_reactor *r = start_reactor_with(state,
		(struct weir_reactor_opts){ .workers = 1 });
	struct rec runs, waits;
	struct gate g;

	gate_make(&g);
	rec_init(&runs);
	rec_init(&waits);
	STARTS(weir_work(r, &runs.op, pass_gate, &g));
	weir_op_set_deadline(&waits.op, weir_reactor_now(r) + WEIR_MSEC);
	STARTS(weir_work(r, &waits.op, pass_gate, &g));
	some_turns(r, 1);
	gate_wait(&g);
	/* On a slow machine it has ended before. */
	UNTIL(r, waits.calls);
	assert_int_equal(waits.res, -ETIMEDOUT);
	gate_open(&g);
	finish(r, &runs);
	gate_free(&g);
}

static void workers_work_side_by_side(void **state)
{
	struct weir_reactor *r = start_reactor_with(state,
		(struct weir_reactor_opts){ .workers = 3 });
	struct rec rec[4];
	struct gate g;
	int i;

	gate_make(&g);
	for (i = 0; i < 4; i++) {
		rec_init(&rec[i]);
		STARTS(weir_work(r, &rec[i].op, pass_gate, &g));
	}
	some_turns(r, 1);
	/* Three at once, and no fourth. */
	for (i = 0; i < 3; i++)
		gate_wait(&g);
	some_turns(r, 5);
	assert_int_equal(atomic_load(&g.ran), 3);
	for (i = 0; i < 4; i++)
		gate_open(&g);
	for (i = 0; i < 4; i++) {
		UNTIL(r, rec[i].calls);
		assert_int_equal(rec[i].res, 1);
	}
	gate_free(&g);
}

static void much_work_comes_home_once_each(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	unsigned int n = scaled(5000), i;
	struct rec *rec = calloc(n, sizeof(*rec));
	atomic_int ran = 0;

	assert_non_null(rec);
	for (i = 0; i < n; i++) {
		rec_init(&rec[i]);
		STARTS(weir_work(r, &rec[i].op, add_one, &ran));
		if (i % 5 == 0)
			weir_op_cancel(&rec[i].op);
	}
	for (i = 0; i < n; i++) {
		UNTIL(r, rec[i].calls);
		assert_int_equal(rec[i].calls, 1);
	}
	free(rec);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(a_post_runs_in_the_turn_and_not_before),
		REAL(posts_of_each_thread_keep_their_order),
		REAL(a_tiny_mailbox_loses_nothing),
		REAL(mailbox_of_one_post_loses_nothing),
		CASE(mailbox_for_a_single_post_refuses_the_second),
		CASE(a_full_mailbox_refuses),
		REAL(a_sleeping_reactor_is_woken),
		REAL(reactor_that_sleeps_for_an_hour_is_woken),
		REAL(a_wake_up_ends_one_sleep),
		REAL(no_wake_up_is_lost_between_two),
		CASE(reactor_may_post_to_itself),
		CASE(a_post_that_posts_leaves_capacity_for_others),
		CASE(stopped_reactor_takes_no_post),
		REAL(work_runs_elsewhere_and_gives_its_result),
		CASE(single_worker_runs_jobs_in_order),
		REAL(a_cancel_reaches_work_that_waits_only),
		REAL(a_deadline_reaches_work_that_waits),
		REAL(workers_work_side_by_side),
		CASE(much_work_comes_home_once_each),
	};

	return harness_run_all(cases, N_OF(cases));
}
