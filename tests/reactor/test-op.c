/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The completion contract of <weir/op.h>, as a table: every kind of operation
 * (a row) times every promise (a column).  A new kind of operation needs one
 * new row, in op-kinds.c.
 */

#include "tests/support/harness.h"
#include "tests/support/op-kinds.h"
#include "tests/support/sim-calls.h"

/* What one test plays with. */
struct cell {
	const struct op_kind *kind;
	struct weir_reactor *r;
	struct stage stage;
};

static void set_kind(struct cell *c, const struct world *w)
{
	c->kind = w->arg;
	if (!strcmp(c->kind->name, "open how:"))
		skip_without_openat2();
}

static void cell_begin(struct cell *c, void **state)
{
	const struct world *w = *state;

	set_kind(c, w);
	c->r = start_reactor(state);
	stage_begin(&c->stage, state, c->r);
}

static void cell_end(struct cell *c, void **state)
{
	end_reactor(state);
	stage_end(&c->stage);
}

static int start(struct cell *c, struct weir_op *op)
{
	return c->kind->start(&c->stage, op);
}

/* What waits is let go: somebody connects, sends, makes space. */
static void release(struct cell *c)
{
	if (c->kind->release)
		c->kind->release(&c->stage);
}

/* Its result is one that the kind has when nobody interferes. */
static void assert_natural(struct cell *c, struct rec *rec)
{
	int64_t res = harness_sim && c->kind->not_sim ? -EOPNOTSUPP :
							c->kind->res;

	if (res == OP_GIVES_FD) {
		assert_true(rec->res >= 0);
		close((int)rec->res);
		return;
	}
	if (rec->res != res)
		fail_msg("%s: %lld, not %lld", c->kind->name,
			 (long long)rec->res, (long long)res);
	if (c->kind->moves)
		assert_int_equal(rec->detail.bytes, rec->res);
}

/* Asked to end: what waits for others has @err, the rest may be done. */
static void assert_ended(struct cell *c, struct rec *rec, int64_t err)
{
	assert_int_equal(rec->calls, 1);
	if (!c->kind->waits && rec->res != err)
		assert_natural(c, rec);
	else
		assert_int_equal(rec->res, err);
}

/* 2.4; A7.5 */
static void completes_once_and_not_inside_the_start(void **state)
{
	struct cell c;
	struct rec rec;

	cell_begin(&c, state);
	rec_init(&rec);
	STARTS(start(&c, &rec.op));
	assert_int_equal(rec.calls, 0);
	assert_int_equal(weir_op_is_busy(&rec.op), 1);
	if (c.kind->waits) {
		some_turns(c.r, 3);
		assert_int_equal(rec.calls, 0);
	}
	release(&c);
	finish(c.r, &rec);
	some_turns(c.r, 5);
	assert_int_equal(rec.calls, 1);
	assert_int_equal(weir_op_is_busy(&rec.op), 0);
	assert_natural(&c, &rec);
	cell_end(&c, state);
}

static void says_nothing_in_detail_while_under_way(void **state)
{
	struct weir_op_detail detail = { .bytes = 77, .code = 7 };
	struct cell c;
	struct rec rec;

	cell_begin(&c, state);
	rec_init(&rec);
	assert_int_equal(weir_op_get_detail(&rec.op, &detail), 0);
	assert_int_equal(detail.bytes, 0);
	detail.bytes = 77;
	STARTS(start(&c, &rec.op));
	assert_int_equal(weir_op_get_detail(&rec.op, &detail), -EINVAL);
	assert_int_equal(detail.bytes, 77);
	release(&c);
	weir_op_cancel(&rec.op);
	finish(c.r, &rec);
	if (rec.res >= 0)
		assert_natural(&c, &rec);
	cell_end(&c, state);
}

struct again {
	struct rec rec;
	struct cell *c;
	int err;
};

static void start_again(struct weir_op *op, int64_t res)
{
	struct again *a = weir_container_of(op, struct again, rec.op);

	rec_done(op, res);
	if (a->rec.calls == 1) {
		if (a->c->kind->res == OP_GIVES_FD && res >= 0)
			close((int)res);
		a->err = start(a->c, op);
	}
}

/* A7.5 */
static void may_be_started_again_by_its_callback(void **state)
{
	struct cell c;
	struct again a = { .c = &c, .err = 1 };

	cell_begin(&c, state);
	rec_init(&a.rec);
	a.rec.op.fn = start_again;
	STARTS(start(&c, &a.rec.op));
	release(&c);
	if (c.kind->never)
		assert_int_equal(weir_op_cancel(&a.rec.op), 0);
	UNTIL(c.r, a.rec.calls == 1);
	assert_int_equal(a.err, 0);
	assert_int_equal(weir_op_is_busy(&a.rec.op), 1);
	weir_op_cancel(&a.rec.op);
	UNTIL(c.r, a.rec.calls == 2);
	some_turns(c.r, 3);
	assert_int_equal(a.rec.calls, 2);
	if (c.kind->res == OP_GIVES_FD && a.rec.res >= 0)
		close((int)a.rec.res);
	cell_end(&c, state);
}

static int freed;
static int64_t freed_res;

static void free_me(struct weir_op *op, int64_t res)
{
	memset(op, 0xa5, sizeof(*op));
	free(op);
	freed++;
	freed_res = res;
}

static void may_be_freed_by_its_callback(void **state)
{
	struct weir_op *op;
	struct cell c;

	cell_begin(&c, state);
	op = malloc(sizeof(*op));
	assert_non_null(op);
	weir_op_init(op, free_me);
	freed = 0;
	STARTS(start(&c, op));
	release(&c);
	if (c.kind->never)
		assert_int_equal(weir_op_cancel(op), 0);
	UNTIL(c.r, freed);
	some_turns(c.r, 3);
	assert_int_equal(freed, 1);
	if (c.kind->res == OP_GIVES_FD && freed_res >= 0)
		close((int)freed_res);
	cell_end(&c, state);
}

static void is_refused_while_under_way(void **state)
{
	struct weir_op before;
	struct cell c;
	struct rec rec;

	cell_begin(&c, state);
	rec_init(&rec);
	STARTS(start(&c, &rec.op));
	/* Compared only if no worker may be at work on it. */
	if (c.kind->waits)
		before = rec.op;
	assert_int_equal(start(&c, &rec.op), -EINVAL);
	assert_int_equal(weir_nop(c.r, &rec.op), -EINVAL);
	if (c.kind->waits)
		assert_memory_equal(&before, &rec.op, sizeof(before));
	release(&c);
	if (c.kind->never)
		assert_int_equal(weir_op_cancel(&rec.op), 0);
	finish(c.r, &rec);
	some_turns(c.r, 3);
	assert_int_equal(rec.calls, 1);
	if (c.kind->never)
		assert_ended(&c, &rec, -ECANCELED);
	else
		assert_natural(&c, &rec);
	cell_end(&c, state);
}

static void is_refused_without_callback(void **state)
{
	struct weir_op op, zero;
	struct cell c;

	cell_begin(&c, state);
	weir_op_init(&op, NULL);
	weir_op_init(&zero, NULL);
	assert_int_equal(start(&c, &op), -EINVAL);
	assert_memory_equal(&op, &zero, sizeof(op));
	some_turns(c.r, 3);
	cell_end(&c, state);
}

static void cancelled_at_once_it_ends_once(void **state)
{
	struct cell c;
	struct rec rec;

	cell_begin(&c, state);
	rec_init(&rec);
	STARTS(start(&c, &rec.op));
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	assert_int_equal(rec.calls, 0);
	finish(c.r, &rec);
	some_turns(c.r, 3);
	assert_ended(&c, &rec, -ECANCELED);
	cell_end(&c, state);
}

static void cancelled_under_way_it_ends_once(void **state)
{
	struct cell c;
	struct rec rec;

	cell_begin(&c, state);
	rec_init(&rec);
	STARTS(start(&c, &rec.op));
	some_turns(c.r, 2);
	if (weir_op_is_busy(&rec.op)) {
		assert_int_equal(weir_op_cancel(&rec.op), 0);
		some_turns(c.r, 1);
		if (weir_op_is_busy(&rec.op))
			assert_int_equal(weir_op_cancel(&rec.op), 0);
		UNTIL(c.r, rec.calls);
	}
	some_turns(c.r, 3);
	assert_ended(&c, &rec, -ECANCELED);
	cell_end(&c, state);
}

static void cancelled_and_released_together_it_ends_once(void **state)
{
	struct cell c;
	struct rec rec;

	cell_begin(&c, state);
	rec_init(&rec);
	STARTS(start(&c, &rec.op));
	some_turns(c.r, 2);
	release(&c);
	if (weir_op_is_busy(&rec.op))
		assert_int_equal(weir_op_cancel(&rec.op), 0);
	UNTIL(c.r, rec.calls);
	some_turns(c.r, 3);
	assert_int_equal(rec.calls, 1);
	if (rec.res != -ECANCELED)
		assert_natural(&c, &rec);
	cell_end(&c, state);
}

static int cancel_inside;

static void cancel_me(struct weir_op *op, int64_t res)
{
	cancel_inside = weir_op_cancel(op);
	rec_done(op, res);
}

static void cannot_be_cancelled_when_idle(void **state)
{
	struct cell c;
	struct rec rec;

	cell_begin(&c, state);
	rec_init(&rec);
	rec.op.fn = cancel_me;
	cancel_inside = 0;
	assert_int_equal(weir_op_cancel(&rec.op), -EINVAL);
	STARTS(start(&c, &rec.op));
	weir_op_cancel(&rec.op);
	finish(c.r, &rec);
	assert_int_equal(cancel_inside, -EINVAL);
	assert_int_equal(weir_op_cancel(&rec.op), -EINVAL);
	some_turns(c.r, 2);
	assert_ended(&c, &rec, -ECANCELED);
	cell_end(&c, state);
}

static void a_past_deadline_ends_it(void **state)
{
	struct cell c;
	struct rec rec;

	cell_begin(&c, state);
	rec_init(&rec);
	assert_int_equal(weir_op_set_deadline(&rec.op, 1), 0);
	STARTS(start(&c, &rec.op));
	assert_int_equal(rec.calls, 0);
	finish(c.r, &rec);
	assert_int_equal(weir_op_is_late(&rec.op), rec.res == -ETIMEDOUT);
	some_turns(c.r, 3);
	assert_ended(&c, &rec, -ETIMEDOUT);
	cell_end(&c, state);
}

static bool is_zero(const char *buf, size_t n)
{
	return !buf[0] && !memcmp(buf, buf + 1, n - 1);
}

/*
 * Whatever it would do it has not done: nothing is read, and what is written,
 * or renamed, or opened, is as before.
 */
static void a_late_start_touches_nothing(void **state)
{
	struct cell c;
	struct rec rec, look;

	cell_begin(&c, state);
	rec_init(&rec);
	rec_init(&look);
	memset(c.stage.buf2, 0, sizeof(c.stage.buf2));
	STARTS(weir_write(c.r, &look.op, c.stage.file2, c.stage.buf2,
			  sizeof(c.stage.buf2), 0));
	assert_int_equal(finish(c.r, &look), sizeof(c.stage.buf2));
	assert_int_equal(weir_op_set_deadline(&rec.op, weir_reactor_now(c.r)),
			 0);
	STARTS(start(&c, &rec.op));
	assert_int_equal(weir_op_is_busy(&rec.op), 1);
	release(&c);
	finish(c.r, &rec);
	if (c.kind->always || c.kind->begins) {
		assert_natural(&c, &rec);
	} else {
		assert_int_equal(rec.res, -ETIMEDOUT);
		assert_int_equal(rec.detail.bytes, 0);
	}
	rec_init(&look);
	STARTS(weir_read(c.r, &look.op, c.stage.file2, c.stage.buf2,
			 sizeof(c.stage.buf2), 0));
	assert_int_equal(finish(c.r, &look), sizeof(c.stage.buf2));
	assert_true(is_zero(c.stage.buf2, sizeof(c.stage.buf2)));
	cell_end(&c, state);
}

static void a_deadline_ends_it_not_before(void **state)
{
	uint64_t when;
	struct cell c;
	struct rec rec;

	cell_begin(&c, state);
	rec_init(&rec);
	when = weir_reactor_now(c.r) + 2 * WEIR_MSEC;
	assert_int_equal(weir_op_set_deadline(&rec.op, when), 0);
	STARTS(start(&c, &rec.op));
	finish(c.r, &rec);
	if (rec.res == -ETIMEDOUT)
		assert_true(weir_reactor_now(c.r) >= when);
	assert_int_equal(weir_op_is_late(&rec.op), rec.res == -ETIMEDOUT);
	some_turns(c.r, 3);
	assert_ended(&c, &rec, -ETIMEDOUT);
	cell_end(&c, state);
}

/* A deadline belongs to one operation; the op's next one has none. */
static void a_deadline_that_was_met_is_forgotten(void **state)
{
	struct cell c;
	struct rec rec, nap;
	uint64_t when;

	cell_begin(&c, state);
	rec_init(&rec);
	rec_init(&nap);
	when = weir_reactor_now(c.r) + WEIR_SEC;
	assert_int_equal(weir_op_set_deadline(&rec.op, when), 0);
	STARTS(start(&c, &rec.op));
	release(&c);
	if (c.kind->never)
		weir_op_cancel(&rec.op);
	finish(c.r, &rec);
	assert_true(rec.res != -ETIMEDOUT);
	if (c.kind->res == OP_GIVES_FD && rec.res >= 0)
		close((int)rec.res);

	when = weir_reactor_now(c.r) + WEIR_MSEC;
	assert_int_equal(weir_op_set_deadline(&rec.op, when), 0);
	STARTS(weir_nop(c.r, &rec.op));
	finish(c.r, &rec);
	STARTS(weir_sleep_until(c.r, &rec.op, WEIR_FOREVER - 1));
	STARTS(weir_sleep_until(c.r, &nap.op, when + 3 * WEIR_MSEC));
	finish(c.r, &nap);
	assert_int_equal(weir_op_is_busy(&rec.op), 1);
	weir_op_cancel(&rec.op);
	assert_int_equal(finish(c.r, &rec), -ECANCELED);
	cell_end(&c, state);
}

static void a_deadline_moves_while_under_way(void **state)
{
	struct cell c;
	struct rec rec, nap;
	uint64_t now;

	cell_begin(&c, state);
	rec_init(&rec);
	rec_init(&nap);
	STARTS(start(&c, &rec.op));
	/* Later: it outlives the first one. */
	now = weir_reactor_now(c.r);
	assert_int_equal(weir_op_set_deadline(&rec.op, now + WEIR_MSEC), 0);
	assert_int_equal(weir_op_set_deadline(&rec.op, now + 3600 * WEIR_SEC),
			 0);
	STARTS(weir_sleep_until(c.r, &nap.op, now + 3 * WEIR_MSEC));
	finish(c.r, &nap);
	assert_int_equal(weir_op_is_busy(&rec.op), 1);
	/* Never, and then long ago. */
	assert_int_equal(weir_op_set_deadline(&rec.op, WEIR_FOREVER), 0);
	some_turns(c.r, 2);
	assert_int_equal(weir_op_is_busy(&rec.op), 1);
	assert_int_equal(weir_op_set_deadline(&rec.op, 0), 0);
	finish(c.r, &rec);
	assert_ended(&c, &rec, -ETIMEDOUT);
	cell_end(&c, state);
}

static void a_cancel_and_a_deadline_give_one_callback(void **state)
{
	struct cell c;
	struct rec rec;

	cell_begin(&c, state);
	rec_init(&rec);
	weir_op_set_deadline(&rec.op, 1);
	STARTS(start(&c, &rec.op));
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	finish(c.r, &rec);
	some_turns(c.r, 3);
	assert_int_equal(rec.calls, 1);
	if (rec.res == -ECANCELED)
		assert_ended(&c, &rec, -ECANCELED);
	else
		assert_ended(&c, &rec, -ETIMEDOUT);
	cell_end(&c, state);
}

/* The first reason counts, though the end may take until the deadline. */
static void cancelled_before_its_deadline_it_is_not_late(void **state)
{
	struct cell c;
	struct rec rec;

	for (int turns = 0; turns < 2; turns++) {
		cell_begin(&c, state);
		rec_init(&rec);
		STARTS(start(&c, &rec.op));
		some_turns(c.r, turns);
		if (!rec.calls) {
			assert_int_equal(weir_op_cancel(&rec.op), 0);
			(void)weir_op_set_deadline(&rec.op, 0);
			finish(c.r, &rec);
		}
		assert_int_equal(weir_op_is_late(&rec.op), 0);
		assert_ended(&c, &rec, -ECANCELED);
		cell_end(&c, state);
	}
}

/* A reactor that cannot finish to stop: a worker is busy until we say so. */
struct plugin {
	struct rec rec;
	int here[2], gate[2];
};

static int64_t wait_at_gate(void *arg)
{
	struct plugin *plugin = arg;
	char byte;

	if (write(plugin->here[1], "x", 1) != 1)
		return -EIO;
	return read(plugin->gate[0], &byte, 1);
}

static void plugin_in(struct plugin *plugin, struct weir_reactor *r)
{
	char byte;

	pipe_pair(plugin->here);
	pipe_pair(plugin->gate);
	rec_init(&plugin->rec);
	STARTS(weir_work(r, &plugin->rec.op, wait_at_gate, plugin));
	some_turns(r, 1);
	/* A worker has it now: a cancel comes too late. */
	assert_int_equal(read(plugin->here[0], &byte, 1), 1);
}

static void plugin_out(struct plugin *plugin)
{
	assert_int_equal(write(plugin->gate[1], "x", 1), 1);
}

static void is_refused_when_the_reactor_stops(void **state)
{
	struct weir_op before;
	struct cell c;
	struct plugin plugin;
	struct rec rec;

	cell_begin(&c, state);
	rec_init(&rec);
	plugin_in(&plugin, c.r);
	weir_reactor_stop(c.r);
	some_turns(c.r, 2);
	assert_int_equal(weir_reactor_state(c.r), WEIR_REACTOR_STOPPING);

	before = rec.op;
	if (c.kind->always) {
		STARTS(start(&c, &rec.op));
		finish(c.r, &rec);
		assert_natural(&c, &rec);
	} else {
		assert_int_equal(start(&c, &rec.op), -ESHUTDOWN);
		assert_memory_equal(&before, &rec.op, sizeof(before));
	}
	plugin_out(&plugin);
	assert_int_equal(weir_reactor_run(c.r), 0);
	assert_int_equal(plugin.rec.calls, 1);
	if (!c.kind->always)
		assert_int_equal(start(&c, &rec.op), -ESHUTDOWN);
	close_pair(plugin.here);
	close_pair(plugin.gate);
	cell_end(&c, state);
}

static void is_ended_when_the_reactor_stops(void **state)
{
	struct cell c;
	struct rec rec;

	cell_begin(&c, state);
	rec_init(&rec);
	STARTS(start(&c, &rec.op));
	weir_reactor_stop(c.r);
	assert_int_equal(weir_reactor_run(c.r), 0);
	assert_ended(&c, &rec, -ECANCELED);
	assert_int_equal(weir_reactor_state(c.r), WEIR_REACTOR_STOPPED);
	cell_end(&c, state);
}

static void is_ended_by_destroy(void **state)
{
	struct cell c;
	struct rec rec;

	cell_begin(&c, state);
	rec_init(&rec);
	STARTS(start(&c, &rec.op));
	some_turns(c.r, 1);
	end_reactor(state);
	assert_ended(&c, &rec, -ECANCELED);
	stage_end(&c.stage);
}

static void is_refused_beyond_ops_max(void **state)
{
	const struct world *w = *state;
	struct weir_reactor_stats st = { .size = sizeof(st) };
	struct weir_op before;
	struct rec rec, a, b;
	struct cell c;

	set_kind(&c, w);
	c.r = start_reactor_with(state, (struct weir_reactor_opts){
		.ops_max = 2 });
	stage_begin(&c.stage, state, c.r);
	rec_init(&rec);
	rec_init(&a);
	rec_init(&b);
	STARTS(weir_sleep_until(c.r, &a.op, WEIR_FOREVER - 1));
	STARTS(weir_sleep_until(c.r, &b.op, WEIR_FOREVER - 1));
	before = rec.op;
	if (c.kind->always) {
		STARTS(start(&c, &rec.op));
		finish(c.r, &rec);
	} else {
		assert_int_equal(start(&c, &rec.op), -EAGAIN);
		assert_memory_equal(&before, &rec.op, sizeof(before));
		assert_int_equal(weir_reactor_stats(c.r, &st), 0);
		assert_int_equal(st.refused, 1);
		/* One ends; there is capacity when its callback has begun. */
		weir_op_cancel(&a.op);
		finish(c.r, &a);
		STARTS(start(&c, &rec.op));
		weir_op_cancel(&rec.op);
		finish(c.r, &rec);
	}
	if (c.kind->res == OP_GIVES_FD && rec.res >= 0)
		close((int)rec.res);
	cell_end(&c, state);
}

/* To which kinds a promise applies. */
enum { ALL, NOT_NEVER, WAITING };

static const struct {
	const char *name;
	void (*fn)(void **state);
	int which;
	bool real;	/* Not in a simulated world. */
} columns[] = {
#define ROW(fn, which) { #fn, fn, which, false }
#define REAL_ROW(fn, which) { #fn, fn, which, true }
	ROW(completes_once_and_not_inside_the_start, NOT_NEVER),
	ROW(says_nothing_in_detail_while_under_way, ALL),
	ROW(may_be_started_again_by_its_callback, ALL),
	ROW(may_be_freed_by_its_callback, ALL),
	ROW(is_refused_while_under_way, ALL),
	ROW(is_refused_without_callback, ALL),
	ROW(cancelled_at_once_it_ends_once, ALL),
	ROW(cancelled_under_way_it_ends_once, ALL),
	ROW(cancelled_and_released_together_it_ends_once, ALL),
	ROW(cannot_be_cancelled_when_idle, ALL),
	ROW(a_past_deadline_ends_it, ALL),
	ROW(a_late_start_touches_nothing, ALL),
	ROW(a_deadline_ends_it_not_before, ALL),
	ROW(a_deadline_that_was_met_is_forgotten, ALL),
	ROW(a_deadline_moves_while_under_way, WAITING),
	ROW(a_cancel_and_a_deadline_give_one_callback, ALL),
	ROW(cancelled_before_its_deadline_it_is_not_late, ALL),
	REAL_ROW(is_refused_when_the_reactor_stops, ALL),
	ROW(is_ended_when_the_reactor_stops, ALL),
	ROW(is_ended_by_destroy, ALL),
	ROW(is_refused_beyond_ops_max, ALL),
};

static bool applies(int which, const struct op_kind *kind)
{
	return which == ALL || (which == NOT_NEVER && !kind->never) ||
	       (which == WAITING && kind->waits);
}

int main(void)
{
	static struct harness_case cases[64 * N_OF(columns)];
	static char names[64 * N_OF(columns)][128];
	size_t n = 0, i, j;

	for (i = 0; i < n_op_kinds && i < 64; i++) {
		for (j = 0; j < N_OF(columns); j++) {
			if (!applies(columns[j].which, &op_kinds[i]))
				continue;
			snprintf(names[n], sizeof(names[n]), "%s %s",
				 op_kinds[i].name, columns[j].name);
			cases[n].name = names[n];
			cases[n].fn = columns[j].fn;
			cases[n].real = columns[j].real;
			cases[n++].arg = &op_kinds[i];
		}
	}
	return harness_run_all(cases, n);
}
