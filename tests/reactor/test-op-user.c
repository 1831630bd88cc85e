/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Operations of the program's own: weir_op_start() and weir_op_finish().  What
 * they have in common with all others is in test-op.c.
 */

#include "tests/support/table-fixture.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <time.h>

#include <weir/chain.h>

/* An operation, and what became of its cancel. */
struct own {
	struct rec rec;
	struct weir_reactor *r;
	int cancels;
	int64_t at_once;	/* The cancel finishes it with this; 0: it does
				 * not. */
};

static void own_cancel(struct weir_op *op, void *arg)
{
	struct own *own = arg;

	assert_ptr_equal(op, &own->rec.op);
	assert_int_equal(harness_starting, 0);
	assert_int_equal(own->rec.calls, 0);
	own->cancels++;
	if (own->at_once) {
		assert_int_equal(weir_op_finish(op, own->at_once), 0);
		assert_int_equal(own->rec.calls, 0);
	}
}

static void own_init(struct own *own, struct weir_reactor *r, int64_t at_once)
{
	memset(own, 0, sizeof(*own));
	rec_init(&own->rec);
	own->r = r;
	own->at_once = at_once;
}

static int own_start(struct own *own)
{
	return weir_op_start(own->r, &own->rec.op, own_cancel, own);
}

static void finish_in_start_calls_back_from_loop(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct own own;

	own_init(&own, r, 0);
	STARTS(own_start(&own));
	STARTS(weir_op_finish(&own.rec.op, 77));
	assert_int_equal(own.rec.calls, 0);
	assert_int_equal(weir_op_is_busy(&own.rec.op), 1);
	assert_int_equal(finish(r, &own.rec), 77);
	assert_int_equal(own.rec.detail.bytes, 0);
	assert_int_equal(own.cancels, 0);
}

static void negative_result_that_is_no_errno_is_EIO(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	const int64_t results[] = { INT64_MIN, -4096, -4095, -EPROTO,
				    INT64_MAX };
	struct own own;

	for (size_t i = 0; i < N_OF(results); i++) {
		own_init(&own, r, 0);
		STARTS(own_start(&own));
		assert_int_equal(weir_op_finish(&own.rec.op, results[i]), 0);
		assert_int_equal(finish(r, &own.rec),
				 i < 2 ? -EIO : results[i]);
	}
}

static void ignore_op(struct weir_op *op, int64_t res)
{
	(void)op, (void)res;
}

static void operation_lends_one_buffer_until_its_callback(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_op nop;
	struct own own;
	char buf[64] = { 0 };

	own_init(&own, r, 1);
	rec_init(&own.rec);
	assert_int_equal(weir_op_lend(&own.rec.op, buf, 64, WEIR_LEND_IN),
			 -EINVAL);
	STARTS(weir_op_start(r, &own.rec.op, NULL, NULL));
	assert_int_equal(weir_op_lend(&own.rec.op, NULL, 64, WEIR_LEND_IN),
			 -EINVAL);
	assert_int_equal(weir_op_lend(&own.rec.op, buf, 64,
				      WEIR_LEND_IN | WEIR_LEND_OUT), -EINVAL);
	assert_int_equal(weir_op_lend(&own.rec.op, buf, 64, WEIR_LEND_IN), 0);
	assert_int_equal(weir_op_lend(&own.rec.op, buf, 64, WEIR_LEND_OUT),
			 -EBUSY);
	assert_int_equal(weir_op_finish(&own.rec.op, 0), 0);
	UNTIL(r, own.rec.calls);
	buf[0] = 1;
	/* In flight, and not by weir_op_start(). */
	weir_op_init(&nop, ignore_op);
	assert_int_equal(weir_nop(r, &nop), 0);
	assert_int_equal(weir_op_lend(&nop, buf, 64, WEIR_LEND_IN), -EINVAL);
	UNTIL(r, !weir_op_is_busy(&nop));
}

static void second_finish_is_refused(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct own own;

	own_init(&own, r, 0);
	STARTS(own_start(&own));
	assert_int_equal(weir_op_finish(&own.rec.op, 1), 0);
	assert_int_equal(weir_op_finish(&own.rec.op, 2), -EALREADY);
	assert_starts_with(weir_why(), "weir_op_finish: the operation was "
			   "finished already");
	assert_int_equal(finish(r, &own.rec), 1);
	assert_int_equal(weir_op_finish(&own.rec.op, 3), -EALREADY);
	some_turns(r, 3);
	assert_int_equal(own.rec.calls, 1);
	/* It is as good as new. */
	own.rec.calls = 0;
	STARTS(own_start(&own));
	assert_int_equal(weir_op_finish(&own.rec.op, 4), 0);
	assert_int_equal(finish(r, &own.rec), 4);
}

static void finish_of_what_was_not_started_is_refused(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct own own, copy;
	struct rec rec;

	own_init(&own, r, 0);
	assert_int_equal(weir_op_finish(&own.rec.op, 0), -EINVAL);
	assert_starts_with(weir_why(), "weir_op_finish: the operation is not");
	rec_init(&rec);
	STARTS(weir_sleep_until(r, &rec.op, WEIR_FOREVER - 1));
	assert_int_equal(weir_op_finish(&rec.op, 0), -EINVAL);
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	assert_int_equal(finish(r, &rec), -ECANCELED);
	/* A copy of one in flight is not in flight. */
	STARTS(own_start(&own));
	copy = own;
	assert_int_equal(weir_op_finish(&copy.rec.op, 0), -EINVAL);
	assert_int_equal(weir_op_finish(&own.rec.op, 0), 0);
	assert_int_equal(finish(r, &own.rec), 0);
}

static void start_is_refused_with_message(void **state)
{
	struct weir_reactor *r;
	struct own own, other;

	r = start_reactor_with(state, (struct weir_reactor_opts){
		.ops_max = 1 });
	own_init(&own, r, -ECANCELED);
	own_init(&other, r, 0);
	own.rec.op.fn = NULL;
	assert_int_equal(own_start(&own), -EINVAL);
	assert_starts_with(weir_why(), "weir_op_start: the operation has no");
	own_init(&own, r, -ECANCELED);
	STARTS(own_start(&own));
	assert_int_equal(own_start(&own), -EINVAL);
	assert_starts_with(weir_why(), "weir_op_start: the operation is in");
	assert_int_equal(own_start(&other), -EAGAIN);
	assert_int_equal(other.rec.calls, 0);
	weir_reactor_stop(r);
	UNTIL(r, own.rec.calls);
	assert_int_equal(own.rec.res, -ECANCELED);
	assert_int_equal(own_start(&own), -ESHUTDOWN);
	assert_starts_with(weir_why(), "weir_op_start: the reactor is stop");
}

static void cancel_is_passed_on_once_and_finish_decides(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct own own;

	own_init(&own, r, 0);
	STARTS(own_start(&own));
	assert_int_equal(weir_op_cancel(&own.rec.op), 0);
	assert_int_equal(weir_op_cancel(&own.rec.op), 0);
	assert_int_equal(own.cancels, 1);
	some_turns(r, 5);
	assert_int_equal(own.rec.calls, 0);
	assert_int_equal(weir_op_finish(&own.rec.op, 5), 0);
	assert_int_equal(finish(r, &own.rec), 5);
	assert_int_equal(own.cancels, 1);
}

static void cancel_function_may_finish(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct own own;

	own_init(&own, r, -ECANCELED);
	STARTS(own_start(&own));
	assert_int_equal(weir_op_cancel(&own.rec.op), 0);
	assert_int_equal(own.cancels, 1);
	assert_int_equal(weir_op_finish(&own.rec.op, 5), -EALREADY);
	assert_int_equal(finish(r, &own.rec), -ECANCELED);
}

static void finished_operation_is_not_cancelled(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct own own;

	own_init(&own, r, -ECANCELED);
	STARTS(own_start(&own));
	assert_int_equal(weir_op_finish(&own.rec.op, 5), 0);
	assert_int_equal(weir_op_cancel(&own.rec.op), 0);
	assert_int_equal(finish(r, &own.rec), 5);
	assert_int_equal(own.cancels, 0);
	assert_int_equal(weir_op_cancel(&own.rec.op), -EINVAL);
}

static void operation_without_cancel_lasts_until_it_is_finished(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct own own;

	own_init(&own, r, 0);
	STARTS(weir_op_start(r, &own.rec.op, NULL, NULL));
	assert_int_equal(weir_op_cancel(&own.rec.op), 0);
	weir_reactor_stop(r);
	some_turns(r, 5);
	assert_int_equal(weir_reactor_state(r), WEIR_REACTOR_STOPPING);
	assert_int_equal(own.rec.calls, 0);
	assert_int_equal(weir_op_finish(&own.rec.op, 6), 0);
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(own.rec.calls, 1);
	assert_int_equal(own.rec.res, 6);
}

static void deadline_calls_cancel_and_gives_ETIMEDOUT(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct own own;

	own_init(&own, r, -ECANCELED);
	weir_op_set_deadline(&own.rec.op, weir_reactor_now(r) + WEIR_MSEC);
	STARTS(own_start(&own));
	assert_int_equal(finish(r, &own.rec), -ETIMEDOUT);
	assert_int_equal(own.cancels, 1);
	/* Another result is its own. */
	own_init(&own, r, -EPIPE);
	weir_op_set_deadline(&own.rec.op, weir_reactor_now(r) + WEIR_MSEC);
	STARTS(own_start(&own));
	assert_int_equal(finish(r, &own.rec), -EPIPE);
}

static void deadline_that_has_passed_cancels_from_loop(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct own own;

	own_init(&own, r, -ECANCELED);
	weir_op_set_deadline(&own.rec.op, weir_reactor_now(r));
	STARTS(own_start(&own));
	assert_int_equal(own.cancels, 0);
	assert_int_equal(own.rec.calls, 0);
	assert_int_equal(finish(r, &own.rec), -ETIMEDOUT);
	assert_int_equal(own.cancels, 1);
}

/* The stop of its reactor is a cancel; this one needs a while. */
struct slow {
	struct own own;
	struct rec later;
};

static void slow_end(struct weir_op *op, int64_t res)
{
	struct slow *slow = weir_container_of(op, struct slow, later.op);

	rec_done(op, res);
	assert_int_equal(weir_op_finish(&slow->own.rec.op, -ECONNABORTED), 0);
}

static void slow_cancel(struct weir_op *op, void *arg)
{
	struct slow *slow = arg;

	(void)op;
	slow->own.cancels++;
	assert_int_equal(weir_op_cancel(&slow->later.op), 0);
}

static void stop_drains_operation_that_ends_later(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct slow slow;

	own_init(&slow.own, r, 0);
	rec_init(&slow.later);
	slow.later.op.fn = slow_end;
	STARTS(weir_sleep_until(r, &slow.later.op, WEIR_FOREVER - 1));
	STARTS(weir_op_start(r, &slow.own.rec.op, slow_cancel, &slow));
	weir_reactor_stop(r);
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(slow.own.rec.calls, 1);
	assert_int_equal(slow.own.rec.res, -ECONNABORTED);
	assert_int_equal(slow.own.cancels, 1);
}

static void destroy_names_operation_that_does_not_end(void **state)
{
	struct weir_reactor *r = start_reactor_with(state,
		(struct weir_reactor_opts){ .drain_ms = 20 });
	struct own own;

	own_init(&own, r, 0);
	STARTS(own_start(&own));
	assert_int_equal(weir_reactor_destroy(r), -EBUSY);
	assert_non_null(strstr(weir_why(), "the first a 'user'"));
	assert_int_equal(own.cancels, 1);
	assert_int_equal(weir_op_finish(&own.rec.op, 3), 0);
	assert_int_equal(finish(r, &own.rec), 3);
}

/* All that a cancel function may do to what is around it. */
struct busybody {
	struct own own, second, third;
	struct rec nop;
	int refused;
};

static void meddle(struct weir_op *op, void *arg)
{
	struct busybody *b = arg;
	struct weir_reactor *r = b->own.r;

	b->refused += weir_reactor_turn(r, 0) == -EBUSY;
	b->refused += weir_reactor_run(r) == -EBUSY;
	b->refused += weir_reactor_destroy(r) == -EBUSY;
	assert_int_equal(weir_op_cancel(op), 0);
	assert_int_equal(weir_op_set_deadline(op, weir_reactor_now(r)), 0);
	assert_int_equal(weir_op_cancel(&b->second.rec.op), 0);
	assert_int_equal(weir_op_finish(&b->third.rec.op, 3), 0);
	assert_int_equal(weir_nop(r, &b->nop.op), 0);
	assert_int_equal(weir_op_finish(op, 1), 0);
	assert_int_equal(own_start(&b->own), -EINVAL);
	weir_reactor_stop(r);
}

static void busybody_start(struct busybody *b, struct weir_reactor *r)
{
	memset(b, 0, sizeof(*b));
	own_init(&b->own, r, 0);
	own_init(&b->second, r, -ECANCELED);
	own_init(&b->third, r, 0);
	rec_init(&b->nop);
	STARTS(weir_op_start(r, &b->own.rec.op, meddle, b));
	STARTS(own_start(&b->second));
	STARTS(own_start(&b->third));
}

static void assert_meddled(struct busybody *b, struct weir_reactor *r)
{
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(b->refused, 3);
	assert_int_equal(b->own.rec.res, 1);
	assert_int_equal(b->second.rec.res, -ECANCELED);
	assert_int_equal(b->third.rec.res, 3);
	assert_int_equal(b->third.cancels, 0);
	assert_int_equal(b->own.rec.calls + b->second.rec.calls +
			 b->third.rec.calls + b->nop.calls, 4);
}

static void cancel_function_may_do_all_but_destroy_reactor(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct busybody b;

	/* Outside of a turn. */
	busybody_start(&b, r);
	assert_int_equal(weir_op_cancel(&b.own.rec.op), 0);
	assert_meddled(&b, r);
	assert_int_equal(weir_reactor_start(r), 0);
	/* By a deadline, inside of one. */
	busybody_start(&b, r);
	weir_op_set_deadline(&b.own.rec.op, weir_reactor_now(r));
	assert_meddled(&b, r);
}

static uint64_t time_in_cancel;

static uint64_t clock_now(void)
{
	struct timespec ts;

	assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &ts), 0);
	return (uint64_t)ts.tv_sec * WEIR_SEC + (uint64_t)ts.tv_nsec;
}

static void note_time(struct weir_op *op, void *arg)
{
	time_in_cancel = weir_reactor_now(arg);
	assert_int_equal(weir_op_finish(op, 0), 0);
}

static void cancel_function_gets_present_time(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	uint64_t before;
	struct rec rec;

	/* Before its first turn, too. */
	for (int i = 0; i < 3; i++) {
		rec_init(&rec);
		STARTS(weir_op_start(r, &rec.op, note_time, r));
		weir_reactor_now(r);
		before = clock_now();
		assert_int_equal(weir_op_cancel(&rec.op), 0);
		assert_true(time_in_cancel >= before);
		assert_int_equal(finish(r, &rec), 0);
	}
}

struct again {
	struct own own;
	int left;
};

static void start_again(struct weir_op *op, int64_t res)
{
	struct again *a = weir_container_of(op, struct again, own.rec.op);

	rec_done(op, res);
	assert_int_equal(res, a->left);
	if (!--a->left)
		return;
	assert_int_equal(own_start(&a->own), 0);
	assert_int_equal(weir_op_finish(op, a->left), 0);
}

static void callback_may_start_it_again(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct again a = { .left = 1000 };

	own_init(&a.own, r, 0);
	a.own.rec.op.fn = start_again;
	STARTS(own_start(&a.own));
	assert_int_equal(weir_op_finish(&a.own.rec.op, 1000), 0);
	UNTIL(r, !a.left);
	assert_int_equal(a.own.rec.calls, 1000);
}

/* As a step of a chain. */
struct steps {
	struct weir_reactor *r;
	int64_t res[3];		/* 1: later; else at once. */
	int cancels;
	struct weir_op *op;	/* The step that is in flight. */
};

static void step_cancel(struct weir_op *op, void *arg)
{
	struct steps *s = arg;

	s->cancels++;
	assert_int_equal(weir_op_finish(op, -ECANCELED), 0);
}

static int step_start(struct weir_chain *chain, uint32_t step,
		      struct weir_op *op, void *arg)
{
	struct steps *s = arg;
	int err = weir_op_start(s->r, op, step_cancel, s);

	(void)chain;
	s->op = op;
	if (!err && s->res[step] != 1)
		err = weir_op_finish(op, s->res[step]);
	return err;
}

static int64_t run_steps(struct weir_reactor *r, struct steps *s,
			 const uint32_t states[3], void (*meanwhile)(struct steps *s))
{
	struct weir_chain_step step = { .size = sizeof(step) };
	struct weir_chain *chain;
	struct rec rec;

	s->r = r;
	rec_init(&rec);
	assert_int_equal(weir_chain_create(&chain, r, NULL), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(weir_chain_add_op(chain, i - 1, step_start, s),
				 i);
	STARTS(weir_chain_start(chain, &rec.op));
	some_turns(r, 3);
	if (meanwhile)
		meanwhile(s);
	UNTIL(r, rec.calls);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(weir_chain_get_step(chain, i, &step), 0);
		assert_int_equal(step.state, states[i]);
	}
	assert_int_equal(weir_chain_destroy(chain), 0);
	return rec.res;
}

static void finish_step(struct steps *s)
{
	assert_int_equal(weir_op_finish(s->op, 0), 0);
}

static void time_step_out(struct steps *s)
{
	assert_int_equal(weir_op_set_deadline(s->op, weir_reactor_now(s->r)),
			 0);
}

static void step_of_chain_may_be_an_operation_of_ones_own(void **state)
{
	static const uint32_t done[] = { WEIR_STEP_DONE, WEIR_STEP_DONE,
					 WEIR_STEP_DONE };
	static const uint32_t failed[] = { WEIR_STEP_DONE, WEIR_STEP_FAILED,
					   WEIR_STEP_SKIPPED };
	struct weir_reactor *r = start_reactor(state);
	struct steps s = { .res = { 0, 1, 7 } };

	assert_int_equal(run_steps(r, &s, done, finish_step), 3);
	s = (struct steps){ .res = { 5, -EPROTO, 0 } };
	assert_int_equal(run_steps(r, &s, failed, NULL), -EPROTO);
	s = (struct steps){ .res = { 5, 1, 0 } };
	assert_int_equal(run_steps(r, &s, failed, time_step_out), -ETIMEDOUT);
	assert_int_equal(s.cancels, 1);
}

static void stop_cancels_step_of_chain(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct steps s = { .r = r, .res = { 1, 1, 1 } };
	struct weir_chain *chain;
	struct rec rec;

	rec_init(&rec);
	assert_int_equal(weir_chain_create(&chain, r, NULL), 0);
	assert_int_equal(weir_chain_add_op(chain, WEIR_CHAIN_FIRST, step_start,
					   &s), 0);
	STARTS(weir_chain_start(chain, &rec.op));
	some_turns(r, 2);
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	assert_int_equal(finish(r, &rec), -ECANCELED);
	assert_int_equal(s.cancels, 1);
	rec_init(&rec);
	STARTS(weir_chain_start(chain, &rec.op));
	some_turns(r, 2);
	weir_reactor_stop(r);
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(rec.res, -ECANCELED);
	assert_int_equal(s.cancels, 2);
	assert_int_equal(weir_chain_destroy(chain), 0);
}

/* Another thread finishes what it finds here. */
struct finisher {
	_Atomic(struct weir_op *) op;
	_Atomic bool quit;
	atomic_int done, refused;
	pthread_t thread;
};

static void *finisher_main(void *arg)
{
	struct finisher *f = arg;
	struct weir_op *op;

	while (!atomic_load(&f->quit)) {
		op = atomic_exchange(&f->op, NULL);
		if (!op)
			sched_yield();
		else if (weir_op_finish(op, 1))
			atomic_fetch_add(&f->refused, 1);
		else
			atomic_fetch_add(&f->done, 1);
	}
	return NULL;
}

static void finisher_begin(struct finisher *f)
{
	memset(f, 0, sizeof(*f));
	assert_int_equal(pthread_create(&f->thread, NULL, finisher_main, f), 0);
}

static void finisher_end(struct finisher *f)
{
	atomic_store(&f->quit, true);
	pthread_join(f->thread, NULL);
}

/*
 * The cancel takes the operation away from the other thread, if it comes first,
 * as code that has an owner for each request would; else it is too late.
 */
struct shared {
	struct rec rec;
	struct finisher *f;
	int cancels, mine;
};

static void shared_cancel(struct weir_op *op, void *arg)
{
	struct shared *s = arg;
	struct weir_op *seen = op;

	assert_int_equal(s->rec.calls, 0);
	s->cancels++;
	if (!atomic_compare_exchange_strong(&s->f->op, &seen, NULL))
		return;
	s->mine++;
	assert_int_equal(weir_op_finish(op, -ECANCELED), 0);
}

static void finish_of_another_thread_races_with_cancel(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	unsigned int rounds = want_long() || UNDER_TSAN ? 100000 :
			      scaled(100000);
	unsigned int theirs = 0;
	struct finisher f;
	struct shared s = { .f = &f };

	finisher_begin(&f);
	for (unsigned int i = 0; i < rounds; i++) {
		rec_init(&s.rec);
		s.cancels = s.mine = 0;
		STARTS(weir_op_start(r, &s.rec.op, shared_cancel, &s));
		atomic_store(&f.op, &s.rec.op);
		for (volatile unsigned int spin = i % 97; spin; spin--)
			;
		if (i % 3 == 2)
			weir_op_set_deadline(&s.rec.op, weir_reactor_now(r));
		else
			weir_op_cancel(&s.rec.op);
		UNTIL(r, s.rec.calls);
		assert_int_equal(s.rec.calls, 1);
		assert_in_range(s.cancels, 0, 1);
		assert_int_equal(s.rec.res, !s.mine ? 1 : i % 3 == 2 ?
				 -ETIMEDOUT : -ECANCELED);
		theirs += !s.mine;
	}
	finisher_end(&f);
	assert_int_equal(atomic_load(&f.done), theirs);
	assert_int_equal(atomic_load(&f.refused), 0);
}

static void *finish_it(void *arg)
{
	assert_int_equal(weir_op_finish(arg, 4), 0);
	return NULL;
}

static void operation_finished_by_another_thread_is_not_cancelled(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	pthread_t thread;
	struct own own;

	own_init(&own, r, -ECANCELED);
	STARTS(own_start(&own));
	assert_int_equal(pthread_create(&thread, NULL, finish_it,
					&own.rec.op), 0);
	pthread_join(thread, NULL);
	/* Its result is on the way. */
	assert_int_equal(own.rec.calls, 0);
	assert_int_equal(weir_op_is_busy(&own.rec.op), 1);
	assert_int_equal(weir_op_cancel(&own.rec.op), 0);
	assert_int_equal(weir_op_finish(&own.rec.op, 5), -EALREADY);
	assert_int_equal(finish(r, &own.rec), 4);
	assert_int_equal(own.cancels, 0);
}

/* docs/internals/reactor.md: each call in each state. */
enum column { IDLE, STARTED, CANCELLED, AWAY, FINISHED, ENDED, N_COLUMNS };

static const char *const columns[N_COLUMNS] = {
	"IDLE", "STARTED", "CANCELLED", "AWAY", "FINISHED", "ENDED",
};

static int call_start(void *fixture)
{
	return own_start(fixture);
}

static int call_finish(void *fixture)
{
	return weir_op_finish(&((struct own *)fixture)->rec.op, 3);
}

static void *finish_for_table(void *arg)
{
	return (void *)(intptr_t)weir_op_finish(arg, 3);
}

static int call_finish_by_another_thread(void *fixture)
{
	pthread_t thread;
	void *err;

	assert_int_equal(pthread_create(&thread, NULL, finish_for_table,
					&((struct own *)fixture)->rec.op), 0);
	pthread_join(thread, &err);
	return (int)(intptr_t)err;
}

static int call_cancel(void *fixture)
{
	return weir_op_cancel(&((struct own *)fixture)->rec.op);
}

static int call_set_deadline(void *fixture)
{
	return weir_op_set_deadline(&((struct own *)fixture)->rec.op,
				    WEIR_FOREVER);
}

static int call_get_detail(void *fixture)
{
	struct weir_op_detail detail;

	return weir_op_get_detail(&((struct own *)fixture)->rec.op, &detail);
}

static const struct table_call calls[] = {
	{ "start", call_start },
	{ "finish", call_finish },
	{ "finish by another thread", call_finish_by_another_thread },
	{ "cancel", call_cancel },
	{ "set_deadline", call_set_deadline },
	{ "get_detail", call_get_detail },
};

static void bring_to(struct own *own, enum column column)
{
	if (column == IDLE)
		return;
	STARTS(own_start(own));
	if (column == CANCELLED)
		assert_int_equal(call_cancel(own), 0);
	else if (column == AWAY)
		assert_int_equal(call_finish_by_another_thread(own), 0);
	else if (column == FINISHED || column == ENDED)
		assert_int_equal(call_finish(own), 0);
	if (column == ENDED)
		finish(own->r, &own->rec);
}

/* What the state is, as the other calls tell it. */
static enum column state_of(struct own *own)
{
	struct own copy = *own;

	if (!weir_op_is_busy(&own->rec.op))
		return own->rec.calls ? ENDED : IDLE;
	if (call_set_deadline(own))
		return FINISHED;
	/* The mark is good for its own address only. */
	assert_int_equal(call_finish(&copy), -EINVAL);
	if (call_finish(own) == -EALREADY)
		return AWAY;
	return own->cancels ? CANCELLED : STARTED;
}

static void table_of_states_holds(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct table_cell c;
	struct table t;
	struct own own;

	table_open(&t, "docs/internals/reactor.md",
		   "own operation: call by state", calls, N_OF(calls), columns,
		   N_OF(columns));
	while (table_next(&t, &c)) {
		own_init(&own, r, 0);
		bring_to(&own, (enum column)c.column);
		table_result(&c, c.call->fn(&own));
		assert_string_equal(columns[state_of(&own)], c.then);
		if (weir_op_is_busy(&own.rec.op)) {
			own.rec.calls = 0;
			finish(r, &own.rec);
		}
	}
	table_close(&t);
}

/* Both finish it, and one of the two is refused. */
static void first_finish_of_two_threads_decides(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	unsigned int rounds = scaled(want_long() ? 1000 : 300);
	int mine = 0, seen, err;
	struct finisher f;
	struct rec rec;

	finisher_begin(&f);
	for (unsigned int i = 0; i < rounds; i++) {
		rec_init(&rec);
		seen = atomic_load(&f.done) + atomic_load(&f.refused);
		STARTS(weir_op_start(r, &rec.op, NULL, NULL));
		atomic_store(&f.op, &rec.op);
		for (volatile unsigned int spin = i % 300; spin; spin--)
			;
		err = weir_op_finish(&rec.op, 2);
		assert_true(!err || err == -EALREADY);
		mine += !err;
		UNTIL(r, rec.calls &&
			 atomic_load(&f.done) + atomic_load(&f.refused) >
				 seen);
		assert_int_equal(rec.calls, 1);
		assert_int_equal(rec.res, err ? 1 : 2);
	}
	finisher_end(&f);
	assert_int_equal(atomic_load(&f.refused), mine);
}

/* The other thread may still be inside weir_op_finish(). */
static void reactor_may_be_destroyed_after_the_callback(void **state)
{
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = backend_of(*state),
	};
	struct finisher f;
	struct rec rec;

	finisher_begin(&f);
	for (unsigned int i = 0; i < scaled(400); i++) {
		struct weir_reactor *r;

		assert_int_equal(weir_reactor_create(&r, &opts), 0);
		rec_init(&rec);
		rec.stop = r;
		STARTS(weir_op_start(r, &rec.op, NULL, NULL));
		atomic_store(&f.op, &rec.op);
		assert_int_equal(weir_reactor_run(r), 0);
		assert_int_equal(rec.res, 1);
		assert_int_equal(weir_reactor_destroy(r), 0);
	}
	finisher_end(&f);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(finish_in_start_calls_back_from_loop),
		CASE(negative_result_that_is_no_errno_is_EIO),
		CASE(operation_lends_one_buffer_until_its_callback),
		CASE(second_finish_is_refused),
		CASE(finish_of_what_was_not_started_is_refused),
		CASE(start_is_refused_with_message),
		CASE(cancel_is_passed_on_once_and_finish_decides),
		CASE(cancel_function_may_finish),
		CASE(finished_operation_is_not_cancelled),
		CASE(operation_without_cancel_lasts_until_it_is_finished),
		CASE(deadline_calls_cancel_and_gives_ETIMEDOUT),
		CASE(deadline_that_has_passed_cancels_from_loop),
		CASE(stop_drains_operation_that_ends_later),
		CASE(destroy_names_operation_that_does_not_end),
		CASE(cancel_function_may_do_all_but_destroy_reactor),
		REAL(cancel_function_gets_present_time),
		CASE(callback_may_start_it_again),
		CASE(step_of_chain_may_be_an_operation_of_ones_own),
		CASE(stop_cancels_step_of_chain),
		REAL(table_of_states_holds),
		REAL(operation_finished_by_another_thread_is_not_cancelled),
		REAL(finish_of_another_thread_races_with_cancel),
		REAL(first_finish_of_two_threads_decides),
		REAL(reactor_may_be_destroyed_after_the_callback),
	};

	return harness_run_all(cases, N_OF(cases));
}
