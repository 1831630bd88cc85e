/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Pipelines, as they are steered: the tables of docs/internals/dma.md cell by
 * cell; pause, stop and window at any point; pools that let nobody wait.
 */

#include "tests/support/ignore.h"
#include "tests/support/pipeline-fixture.h"
#include "tests/support/table-fixture.h"

#define UNITS 20
#define DEPTH 4

enum column { IDLE, UNDER_WAY, PAUSED, ENDING, IN_NEXT, IN_DONE, DUE,
	      IN_CALLBACK };

static const char *const columns[] = { "idle", "in flight", "paused", "ending",
				       "in next()", "in done()",
				       "result there, callback due",
				       "in its callback" };

/* What all pipelines of the table take from. */
static struct weir_pool *table_pool;

/* For a start while the pipeline's first operation is in flight. */
static struct rec second;

/* The call whose turn it is, for the hooks. */
static const struct table_call *hook_call;
static int hook_result, hook_calls;

static int call_start(void *arg)
{
	struct stream *s = arg;

	return weir_pipeline_start(s->p, weir_op_is_busy(&s->rec.op) ?
				   &second.op : &s->rec.op);
}

static int call_kick(void *arg)
{
	weir_pipeline_kick(((struct stream *)arg)->p);
	return 0;
}

static int call_pause(void *arg)
{
	return weir_pipeline_pause(((struct stream *)arg)->p);
}

static int call_resume(void *arg)
{
	return weir_pipeline_resume(((struct stream *)arg)->p);
}

static int call_stop(void *arg)
{
	return weir_pipeline_stop(((struct stream *)arg)->p);
}

static int call_set_window(void *arg)
{
	struct stream *s = arg;

	assert_int_equal(weir_pipeline_set_window(s->p, 0), -EINVAL);
	assert_int_equal(weir_pipeline_set_window(s->p, DEPTH + 1), -EINVAL);
	assert_int_equal(look(s).window, DEPTH);
	return weir_pipeline_set_window(s->p, 2);
}

static int call_cancel(void *arg)
{
	return weir_op_cancel(&((struct stream *)arg)->rec.op);
}

static int call_destroy(void *arg)
{
	struct stream *s = arg;
	int err = weir_pipeline_destroy(s->p);

	if (!err)
		s->p = NULL;
	return err;
}

static int call_pool_destroy(void *arg)
{
	(void)arg;
	return weir_pool_destroy(table_pool);
}

static const struct table_call calls[] = {
	{ "start", call_start },
	{ "kick", call_kick },
	{ "pause", call_pause },
	{ "resume", call_resume },
	{ "stop", call_stop },
	{ "set_window", call_set_window },
	{ "cancel of its operation", call_cancel },
	{ "destroy", call_destroy },
	{ "pool_destroy of its pool", call_pool_destroy },
};

static void hook(struct stream *s)
{
	if (s->next_at == 6 && !hook_calls++)
		hook_result = hook_call->fn(s);
}

static void hook_callback(struct weir_op *op, int64_t res)
{
	struct stream *s = weir_container_of(op, struct stream, rec.op);

	rec_done(op, res);
	if (hook_calls++)
		return;
	s->next_at = 0;
	hook_result = hook_call->fn(s);
}

/* It has its result inside the stop, for there is nothing to wait for. */
static int call_when_due(struct stream *s, const struct table_cell *c)
{
	s->gap_at = 0;
	STARTS(weir_pipeline_start(s->p, &s->rec.op));
	UNTIL(s->r, s->gap_at);
	assert_int_equal(weir_pipeline_stop(s->p), 0);
	return c->call->fn(s);
}

/* Bring the pipeline to @c, and make the call there. */
static int call_in(struct stream *s, const struct table_cell *c)
{
	if (c->column == IDLE)
		return c->call->fn(s);
	if (c->column == DUE)
		return call_when_due(s, c);
	hook_call = c->call;
	hook_calls = 0;
	if (c->column == IN_CALLBACK)
		s->rec.op.fn = hook_callback;
	s->in_next = c->column == IN_NEXT ? hook : NULL;
	s->in_done = c->column == IN_DONE ? hook : NULL;
	s->closed = c->column < IN_NEXT;
	STARTS(weir_pipeline_start(s->p, &s->rec.op));
	if (!s->closed) {
		UNTIL(s->r, hook_calls);
		return hook_result;
	}
	UNTIL(s->r, s->in_window == DEPTH);
	if (c->column == PAUSED)
		assert_int_equal(weir_pipeline_pause(s->p), 0);
	if (c->column == ENDING)
		assert_int_equal(weir_pipeline_stop(s->p), 0);
	return c->call->fn(s);
}

/* A pause holds back what is new, and nothing else. */
static void check_paused(struct stream *s)
{
	uint64_t units = s->next_at;

	assert_int_equal(look(s).paused, 1);
	s->closed = false;
	UNTIL(s->r, !s->in_window);
	some_turns(s->r, 5);
	assert_int_equal(s->next_at, units);
	assert_int_equal(s->rec.calls, 0);
	assert_int_equal(weir_pipeline_resume(s->p), 0);
	assert_int_equal(look(s).paused, 0);
	assert_int_equal(finish(s->r, &s->rec), UNITS);
}

/* Nothing new, and the rest to its end, if it was not for a cancel. */
static void check_ending(struct stream *s, bool cancelled)
{
	uint64_t units = s->next_at;
	int64_t res;

	s->closed = false;
	res = finish(s->r, &s->rec);
	assert_int_equal(s->next_at, units);
	assert_true(units < UNITS);
	assert_int_equal(s->in_window, 0);
	assert_int_equal(res, cancelled ? -ECANCELED : (int64_t)units);
}

static void check_then(struct stream *s, const struct table_cell *c)
{
	bool cancelled = c->call->fn == call_cancel;

	if (!strcmp(c->then, "gone")) {
		assert_null(s->p);
	} else if (!strcmp(c->then, "paused")) {
		check_paused(s);
	} else if (!strcmp(c->then, "ending")) {
		/* What is at its end already, is not cut by a cancel. */
		check_ending(s, cancelled && (c->column != ENDING ||
					      look(s).in_flight));
	} else if (!strcmp(c->then, "in flight")) {
		assert_int_equal(look(s).paused, 0);
		s->closed = false;
		assert_int_equal(finish(s->r, &s->rec), UNITS);
	} else if (!strcmp(c->then, "idle")) {
		assert_int_equal(run(s), UNITS);
	} else if (*c->then) {
		fail_msg("unknown state \"%s\"", c->then);
	}
}

/* Whatever was found, to the end and away. */
static void end_stream(struct stream *s)
{
	int64_t res;

	if (!s->p)
		return;
	s->closed = false;
	if (weir_op_is_busy(&s->rec.op)) {
		weir_pipeline_resume(s->p);
		res = finish(s->r, &s->rec);
		assert_int_equal(res, s->next_at);
	}
	assert_int_equal(weir_pipeline_destroy(s->p), 0);
}

static void calls_by_state(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_pool_opts opts = { .size = sizeof(opts), .bufs = DEPTH };
	struct table t;
	struct table_cell c;
	struct stream s;

	assert_int_equal(weir_pool_create(&table_pool, r, &opts), 0);
	rec_init(&second);
	table_open(&t, "docs/internals/dma.md", "pipeline: call by state", calls,
		   N_OF(calls), columns, N_OF(columns));
	while (table_next(&t, &c)) {
		make(&s, r, DEPTH, 0, table_pool);
		s.n_units = UNITS;
		table_result(&c, call_in(&s, &c));
		check_then(&s, &c);
		end_stream(&s);
	}
	table_close(&t);
	assert_int_equal(weir_pool_destroy(table_pool), 0);
}

static void stops(struct stream *s)
{
	if (s->next_at == 10)
		weir_pipeline_stop(s->p);
}

static int ends_whole(void *arg)
{
	return (int)run(arg);
}

static int ends_stopped(void *arg)
{
	struct stream *s = arg;
	int64_t res;

	s->in_next = stops;
	res = run(s);
	assert_int_equal(res, 11);
	return (int)res;
}

static int ends_forgiven(void *arg)
{
	struct stream *s = arg;

	s->fail_at = 7;
	s->fail_counts = false;
	assert_int_equal(run(s), UNITS - 1);
	return UNITS - 1;
}

static int ends_failed(void *arg)
{
	struct stream *s = arg;

	s->fail_at = 7;
	return (int)run(s);
}

static int ends_by_done(void *arg)
{
	struct stream *s = arg;

	s->done_fails_at = 7;
	return (int)run(s);
}

static int ends_by_next(void *arg)
{
	struct stream *s = arg;

	s->next_fails_at = 7;
	return (int)run(s);
}

static int ends_by_nonsense(void *arg)
{
	struct stream *s = arg;

	s->nonsense_at = 7;
	return (int)run(s);
}

static int ends_cancelled(void *arg)
{
	struct stream *s = arg;

	s->cancel_at = 7;
	return (int)run(s);
}

static int ends_late(void *arg)
{
	struct stream *s = arg;

	s->pends = true;
	assert_int_equal(weir_op_set_deadline(&s->rec.op,
					      weir_reactor_now(s->r) +
					      WEIR_MSEC), 0);
	return (int)run(s);
}

static void cancels_and_stops(struct stream *s)
{
	assert_int_equal(weir_op_cancel(&s->rec.op), 0);
	weir_pipeline_stop(s->p);
}

static int ends_cancelled_and_stopped(void *arg)
{
	struct stream *s = arg;

	/* Nothing is in flight but what ends well: units are left out. */
	assert_int_equal(weir_pipeline_set_window(s->p, 1), 0);
	s->in_done = cancels_and_stops;
	return (int)run(s);
}

static int ends_before_the_cancel(void *arg)
{
	struct stream *s = arg;

	s->cancel_at = UNITS - 1;
	assert_int_equal(run(s), UNITS);
	return UNITS;
}

static int ends_failed_and_cancelled(void *arg)
{
	struct stream *s = arg;

	/* The last done() of a run that unit 7 has ended. */
	s->ordered = false;
	s->fail_at = 7;
	s->cancel_at = 8;
	return (int)run(s);
}

static const struct table_call endings[] = {
	{ "next() said the end", ends_whole },
	{ "it was stopped in the middle", ends_stopped },
	{ "a step failed but done() returned 0", ends_forgiven },
	{ "a step failed and done() returned that", ends_failed },
	{ "done() returned an error of its own", ends_by_done },
	{ "next() returned an error", ends_by_next },
	{ "next() returned what it may not", ends_by_nonsense },
	{ "it was cancelled", ends_cancelled },
	{ "it was cancelled and then stopped", ends_cancelled_and_stopped },
	{ "its deadline passed", ends_late },
	{ "it was cancelled after the last unit", ends_before_the_cancel },
	{ "it failed and then was cancelled", ends_failed_and_cancelled },
};

static void check_where(struct stream *s, const struct table_cell *c,
			int64_t res)
{
	static const char *const names[] = { "", "AT_NEXT", "AT_STEP",
					     "AT_DONE" };
	struct weir_pipeline_failure f = { .size = sizeof(f) };
	int err = weir_pipeline_failure(s->p, &f);

	table_result(c, err);
	if (err) {
		assert_int_equal(f.where, 0);
		return;
	}
	assert_string_equal(names[f.where], c->then);
	assert_int_equal(f.unit, 7);
	assert_int_equal(f.res, res);
	assert_int_equal(f.step, f.where == WEIR_PIPELINE_AT_STEP ?
			 0 : WEIR_CHAIN_FIRST);
	f.size = 4;
	assert_int_equal(weir_pipeline_failure(s->p, &f), -EINVAL);
}

static void pipeline_ends_as_its_control_says(void **state)
{
	static const char *const ends[] = { "result", "failure" };
	struct weir_reactor *r = start_reactor(state);
	struct table t;
	struct table_cell c;
	struct stream s;
	int res, flags;

	for (flags = 0; flags < 2; flags++) {
		table_open(&t, "docs/internals/dma.md", "pipeline: how it ends",
			   endings, N_OF(endings), ends, N_OF(ends));
		while (table_next(&t, &c)) {
			make(&s, r, DEPTH, (uint32_t)flags, NULL);
			s.n_units = UNITS;
			res = c.call->fn(&s);
			if (c.column == 0)
				table_result(&c, res);
			else
				check_where(&s, &c, res);
			assert_int_equal(s.in_window, 0);
			assert_int_equal(weir_pipeline_destroy(s.p), 0);
		}
		table_close(&t);
	}
}

static void a_stop_ends_what_has_nothing_under_way(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct stream s;
	int paused;

	for (paused = 0; paused < 2; paused++) {
		make(&s, r, DEPTH, 0, NULL);
		s.n_units = UNITS;
		s.gap_at = 6;
		STARTS(weir_pipeline_start(s.p, &s.rec.op));
		UNTIL(r, s.dones == 6);
		if (paused)
			assert_int_equal(weir_pipeline_pause(s.p), 0);
		some_turns(r, 3);
		assert_int_equal(s.rec.calls, 0);
		STARTS(weir_pipeline_stop(s.p));
		assert_int_equal(finish(r, &s.rec), 6);
		assert_int_equal(weir_pipeline_destroy(s.p), 0);
	}
}

static void narrows(struct stream *s)
{
	if (s->next_at == 30)
		assert_int_equal(weir_pipeline_set_window(s->p, 2), 0);
	if (s->next_at > 30 && s->next_at <= 60)
		assert_true(s->in_window < (s->next_at < 40 ? 8 : 2));
	if (s->next_at == 60) {
		assert_int_equal(weir_pipeline_set_window(s->p, 6), 0);
		s->window_max = 0;
	}
}

static void the_window_can_be_changed_on_the_way(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct stream s;
	int flags;

	for (flags = 0; flags < 2; flags++) {
		make(&s, r, 8, (uint32_t)flags, NULL);
		s.n_units = 120;
		s.random = true;
		s.in_next = narrows;
		assert_int_equal(run(&s), 120);
		assert_int_equal(s.window_max, 6);
		assert_int_equal(weir_pipeline_destroy(s.p), 0);
	}
}

/* Nothing that ends has to bring the turn. */
static void wider_window_is_filled_at_once(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct stream s;

	make(&s, r, 4, 0, NULL);
	s.n_units = 10;
	s.pends = true;
	assert_int_equal(weir_pipeline_set_window(s.p, 1), 0);
	STARTS(weir_pipeline_start(s.p, &s.rec.op));
	some_turns(r, 3);
	assert_int_equal(s.in_window, 1);
	assert_int_equal(weir_pipeline_set_window(s.p, 3), 0);
	some_turns(r, 3);
	assert_int_equal(s.in_window, 3);
	weir_op_cancel(&s.rec.op);
	assert_int_equal(finish(r, &s.rec), -ECANCELED);
	assert_int_equal(weir_pipeline_destroy(s.p), 0);
}

static void destroyed_pipeline_leaves_the_bound_as_it_was(void **state)
{
	struct weir_reactor *r = start_reactor_with(state,
		(struct weir_reactor_opts){ .ops_max = 3 });
	struct rec more[4];
	struct stream s;

	make(&s, r, 4, 0, NULL);
	assert_int_equal(weir_pipeline_destroy(s.p), 0);
	for (int i = 0; i < 4; i++) {
		rec_init(&more[i]);
		assert_int_equal(weir_defer(r, &more[i].op),
				 i < 3 ? 0 : -EAGAIN);
	}
	UNTIL(r, more[2].calls);
}

/* A pool of one buf, which is out; and one who waits for it. */
struct full {
	struct weir_pool *pool;
	struct weir_buf *buf;
	struct rec taker;
};

static void full_begin(struct full *f, struct weir_reactor *r,
		       uint32_t waiters_max)
{
	struct weir_pool_opts opts = { .size = sizeof(opts), .bufs = 1,
				       .waiters_max = waiters_max };

	assert_int_equal(weir_pool_create(&f->pool, r, &opts), 0);
	assert_int_equal(weir_pool_get(&f->buf, f->pool), 0);
	rec_init(&f->taker);
}

static void full_end(struct full *f, struct stream *s)
{
	assert_int_equal(weir_pipeline_destroy(s->p), 0);
	assert_int_equal(pool_free_bufs(f->pool), 1);
	assert_int_equal(weir_pool_destroy(f->pool), 0);
}

static uint64_t waiting(struct weir_pool *pool)
{
	struct weir_pool_stats st = { .size = sizeof(st) };

	assert_int_equal(weir_pool_stats(pool, &st), 0);
	return st.waiting;
}

static void a_paused_pipeline_takes_no_bufs(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct stream s;
	struct full f;

	full_begin(&f, r, 0);
	make(&s, r, DEPTH, 0, f.pool);
	s.n_units = UNITS;
	STARTS(weir_pipeline_start(s.p, &s.rec.op));
	some_turns(r, 2);
	assert_int_equal(waiting(f.pool), 1);
	assert_int_equal(weir_pipeline_pause(s.p), 0);
	weir_buf_put(f.buf);
	some_turns(r, 3);
	assert_int_equal(pool_free_bufs(f.pool), 1);
	assert_int_equal(s.next_at, 0);
	assert_int_equal(weir_pipeline_resume(s.p), 0);
	assert_int_equal(finish(r, &s.rec), UNITS);

	/* And a stop does not wait for one. */
	assert_int_equal(weir_pool_get(&f.buf, f.pool), 0);
	s.next_at = s.dones = 0;
	STARTS(weir_pipeline_start(s.p, &s.rec.op));
	some_turns(r, 2);
	assert_int_equal(weir_pipeline_stop(s.p), 0);
	assert_int_equal(finish(r, &s.rec), 0);
	weir_buf_put(f.buf);
	full_end(&f, &s);
}

/* Not in every turn, that is: the loop can sleep. */
static void a_pool_without_capacity_for_waiters_is_not_asked_again(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct stream s, t;
	struct full f;
	uint64_t waits;

	full_begin(&f, r, 1);
	make(&s, r, DEPTH, 0, f.pool);
	make(&t, r, DEPTH, 0, f.pool);
	s.n_units = t.n_units = UNITS;
	STARTS(weir_pool_wait(f.pool, &f.taker.op));
	STARTS(weir_pipeline_start(t.p, &t.rec.op));
	STARTS(weir_pipeline_start(s.p, &s.rec.op));
	some_turns(r, 2);
	waits = look(&s).waits;
	some_turns(r, 20);
	assert_int_equal(look(&s).waits, waits);
	assert_int_equal(waiting(f.pool), 1);
	assert_int_equal(weir_pool_destroy(f.pool), -EBUSY);

	/* The waiter is served; one of those who hear of it has lost interest,
	 * and the other takes the place. */
	weir_buf_put(f.buf);
	assert_int_equal(weir_op_cancel(&t.rec.op), 0);
	finish(r, &f.taker);
	UNTIL(r, t.rec.calls && waiting(f.pool) == 1);
	assert_int_equal(t.rec.res, -ECANCELED);
	assert_int_equal(s.next_at, 0);
	weir_buf_put(weir_pool_taken(&f.taker.op));
	assert_int_equal(finish(r, &s.rec), UNITS);
	assert_int_equal(weir_pipeline_destroy(t.p), 0);
	full_end(&f, &s);
}

/* The place that a cancelled waiter leaves is the pipeline's. */
static void pipeline_takes_the_place_of_a_cancelled_waiter(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct stream s;
	struct full f;

	full_begin(&f, r, 1);
	make(&s, r, DEPTH, 0, f.pool);
	s.n_units = UNITS;
	STARTS(weir_pool_wait(f.pool, &f.taker.op));
	STARTS(weir_pipeline_start(s.p, &s.rec.op));
	some_turns(r, 3);
	assert_int_equal(weir_op_cancel(&f.taker.op), 0);
	assert_int_equal(finish(r, &f.taker), -ECANCELED);
	some_turns(r, 3);
	assert_int_equal(waiting(f.pool), 1);
	weir_buf_put(f.buf);
	assert_int_equal(finish(r, &s.rec), UNITS);
	full_end(&f, &s);
}

static void pipeline_is_cancelled_before_its_wait_starts(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct stream s;
	struct full f;
	int way;

	for (way = 0; way < 4; way++) {
		full_begin(&f, r, 1);
		make(&s, r, DEPTH, 0, f.pool);
		s.n_units = UNITS;
		STARTS(weir_pool_wait(f.pool, &f.taker.op));
		STARTS(weir_pipeline_start(s.p, &s.rec.op));
		some_turns(r, 2);

		/* The waiter gives up: that is capacity too. */
		if (way >= 2)
			assert_int_equal(weir_op_cancel(&f.taker.op), 0);
		if (way % 2)
			assert_int_equal(weir_op_cancel(&s.rec.op), 0);
		else
			assert_int_equal(weir_pipeline_stop(s.p), 0);
		assert_int_equal(finish(r, &s.rec), way % 2 ? -ECANCELED : 0);
		if (way < 2)
			weir_op_cancel(&f.taker.op);
		UNTIL(r, f.taker.calls);
		weir_buf_put(f.buf);
		full_end(&f, &s);
	}
}

/* It has capacity of its own; its steps wait for theirs. */
static void a_reactor_without_capacity_holds_it_up_and_no_more(void **state)
{
	struct weir_reactor_opts opts = { .ops_max = 4 };
	struct weir_reactor *r = start_reactor_with(state, opts);
	struct stream s;

	make(&s, r, 16, WEIR_PIPELINE_ORDERED, NULL);
	s.n_units = 100;
	s.random = true;
	assert_int_equal(run(&s), 100);
	assert_int_equal(s.window_max, 16);
	assert_int_equal(weir_pipeline_destroy(s.p), 0);
}

static void steer_at_random(struct stream *s)
{
	unsigned int dice = rand_r(&s->seed) % 64;

	if (dice < 4)
		assert_int_equal(weir_pipeline_set_window(s->p, dice + 1), 0);
	else if (dice < 8)
		assert_int_equal(weir_pipeline_pause(s->p), 0);
	else if (dice == 8)
		assert_int_equal(weir_pipeline_stop(s->p), 0);
	else if (dice == 9)
		assert_int_equal(weir_op_cancel(&s->rec.op), 0);
}

static void steered_at_random_it_loses_nothing(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_pool_opts opts = { .size = sizeof(opts), .bufs = 3,
				       .waiters_max = 1 };
	unsigned int rounds = scaled(600), seed = 4;
	struct weir_pool *pool = NULL;
	struct stream s;

	assert_int_equal(weir_pool_create(&pool, r, &opts), 0);
	while (rounds--) {
		make(&s, r, DEPTH, rand_r(&seed) % 2,
		     rand_r(&seed) % 2 ? pool : NULL);
		s.n_units = rand_r(&seed) % 90;
		s.random = true;
		s.seed = seed;
		s.in_next = s.in_done = steer_at_random;
		s.fail_at = rand_r(&seed) % 200;
		STARTS(weir_pipeline_start(s.p, &s.rec.op));
		while (!s.rec.calls) {
			some_turns(r, 1 + (int)(rand_r(&seed) % 4));
			weir_pipeline_resume(s.p);
		}
		assert_int_equal(s.rec.calls, 1);
		assert_int_equal(s.in_window, 0);
		assert_int_equal(look(&s).units, s.dones);
		assert_true(s.rec.res < 0 || look(&s).done ==
			    (uint64_t)s.rec.res);
		assert_int_equal(pool_free_bufs(pool), 3);
		assert_int_equal(weir_pipeline_destroy(s.p), 0);
	}
	assert_int_equal(weir_pool_destroy(pool), 0);
}

static int tries_to_destroy(struct weir_slot *slot, void *arg)
{
	struct full *f = arg;

	assert_int_equal(weir_pool_destroy(f->pool), -EBUSY);
	assert_non_null(strstr(weir_why(), "1 pipelines"));
	return on_build(slot, NULL);
}

static int refuses(struct weir_slot *slot, void *arg)
{
	(void)slot, (void)arg;
	return -EDOM;
}

/* From before the first build() until it is gone, whatever became of it. */
static void the_pool_it_takes_from_stays(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_pool_opts popts = { .size = sizeof(popts), .bufs = 1 };
	struct full f = { .pool = NULL };
	struct weir_pipeline_opts opts = {
		.size = sizeof(opts), .build = tries_to_destroy,
		.next = on_next, .done = on_done, .arg = &f, .depth = 2,
	};
	struct weir_pipeline *p = NULL;
	struct stream s;

	assert_int_equal(weir_pool_create(&f.pool, r, &popts), 0);
	opts.pool = f.pool;
	assert_int_equal(weir_pipeline_create(&p, r, &opts), 0);
	make(&s, r, DEPTH, 0, f.pool);
	s.n_units = UNITS;
	assert_int_equal(run(&s), UNITS);
	assert_int_equal(weir_pool_destroy(f.pool), -EBUSY);
	assert_non_null(strstr(weir_why(), "2 pipelines"));
	assert_int_equal(weir_pipeline_destroy(s.p), 0);
	assert_int_equal(weir_pool_destroy(f.pool), -EBUSY);
	assert_int_equal(weir_pipeline_destroy(p), 0);

	/* One that was not created has nothing. */
	opts.build = refuses;
	assert_int_equal(weir_pipeline_create(&p, r, &opts), -EDOM);
	assert_int_equal(weir_pool_destroy(f.pool), 0);
}

static int build_fill(struct weir_slot *slot, void *arg)
{
	struct weir_job *job = weir_slot_data(slot);

	weir_job_init(job, NULL);
	return weir_chain_add_job(weir_slot_chain(slot), WEIR_CHAIN_FIRST, arg,
				  job);
}

static int no_next(struct weir_slot *slot, void *arg)
{
	(void)slot, (void)arg;
	return WEIR_PIPELINE_END;
}

static void the_contexts_of_its_jobs_stay(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_pipeline_opts opts = {
		.size = sizeof(opts),
		.build = build_fill,
		.next = no_next,
		.done = ignore_unit,
		.depth = 3,
		.data_size = sizeof(struct weir_job),
	};
	struct weir_dma *dma = start_dma(r, (struct weir_dma_opts){ 0 });
	struct weir_pipeline *p = NULL;
	struct rec rec;

	opts.arg = dma;
	rec_init(&rec);
	assert_int_equal(weir_pipeline_create(&p, r, &opts), 0);
	assert_int_equal(weir_dma_destroy(dma), -EBUSY);
	assert_non_null(strstr(weir_why(), "3 steps"));
	assert_non_null(strstr(weir_why(), "pipelines"));
	STARTS(weir_pipeline_start(p, &rec.op));
	assert_int_equal(finish(r, &rec), 0);
	assert_int_equal(weir_dma_destroy(dma), -EBUSY);
	assert_int_equal(weir_pipeline_destroy(p), 0);
	assert_int_equal(weir_dma_destroy(dma), 0);
}

static void a_pool_of_another_reactor_is_refused(void **state)
{
	struct weir_reactor_opts ropts = {
		.size = sizeof(ropts), .backend = backend_of(*state),
		.sim = harness_sim,
	};
	struct weir_reactor *r = start_reactor(state), *other = NULL;
	struct weir_pool_opts popts = { .size = sizeof(popts), .bufs = 1 };
	struct weir_pipeline_opts opts = {
		.size = sizeof(opts), .build = on_build, .next = on_next,
		.done = on_done,
	};
	struct weir_pipeline *p = NULL;

	assert_int_equal(weir_reactor_create(&other, &ropts), 0);
	assert_int_equal(weir_pool_create(&opts.pool, other, &popts), 0);
	assert_int_equal(weir_pipeline_create(&p, r, &opts), -EINVAL);
	assert_null(p);
	assert_int_equal(weir_pool_destroy(opts.pool), 0);
	assert_int_equal(weir_reactor_destroy(other), 0);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(pipeline_takes_the_place_of_a_cancelled_waiter),
		CASE(destroyed_pipeline_leaves_the_bound_as_it_was),
		CASE(wider_window_is_filled_at_once),
		CASE(calls_by_state),
		CASE(pipeline_ends_as_its_control_says),
		CASE(a_stop_ends_what_has_nothing_under_way),
		CASE(the_window_can_be_changed_on_the_way),
		CASE(a_paused_pipeline_takes_no_bufs),
		CASE(a_pool_without_capacity_for_waiters_is_not_asked_again),
		CASE(pipeline_is_cancelled_before_its_wait_starts),
		CASE(a_reactor_without_capacity_holds_it_up_and_no_more),
		CASE(steered_at_random_it_loses_nothing),
		CASE(the_pool_it_takes_from_stays),
		CASE(the_contexts_of_its_jobs_stay),
		CASE(a_pool_of_another_reactor_is_refused),
	};

	return harness_run_all(cases, N_OF(cases));
}
