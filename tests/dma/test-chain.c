/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Chains: the tables of docs/internals/dma.md; order, branches, cancel,
 * reuse; and a model: random graphs against the rules, read off one step at a
 * time.
 */

#include "tests/support/job-fixture.h"
#include "tests/support/table-fixture.h"

#include <limits.h>

#include <weir/chain.h>

#include "base/fault.h"

#include "tests/support/sim-calls.h"

#define STEPS_MAX 24

/* What steps did, in order; and what each is to do. */
struct log {
	int order[4 * STEPS_MAX];
	int n;
	int64_t result[STEPS_MAX];	/* Of call or operation. */
	bool pends[STEPS_MAX];		/* An operation that waits for ever. */
	int again[STEPS_MAX];		/* Times that there is no capacity. */
	struct weir_reactor *r;
	struct weir_op *cancel_in;	/* Cancelled by step cancel_at. */
	int cancel_at;
};

static int64_t on_call(struct weir_chain *chain, uint32_t step, void *arg)
{
	struct log *log = arg;

	assert_int_equal(harness_starting, 0);
	assert_int_equal(weir_chain_destroy(chain), -EBUSY);
	log->order[log->n++] = (int)step;
	if (log->cancel_in && log->cancel_at == (int)step)
		assert_int_equal(weir_op_cancel(log->cancel_in), 0);
	return log->result[step];
}

static int on_start(struct weir_chain *chain, uint32_t step, struct weir_op *op,
		    void *arg)
{
	struct log *log = arg;

	(void)chain;
	assert_int_equal(harness_starting, 0);
	if (log->again[step]) {
		log->again[step]--;
		return -EAGAIN;
	}
	log->order[log->n++] = (int)step;
	if (log->cancel_in && log->cancel_at == (int)step)
		assert_int_equal(weir_op_cancel(log->cancel_in), 0);
	if (log->result[step])
		return (int)log->result[step];
	return log->pends[step] ? weir_sleep_until(log->r, op, WEIR_FOREVER) :
				  weir_defer(log->r, op);
}

static struct weir_chain *make(struct weir_reactor *r, struct log *log)
{
	struct weir_chain_opts opts = { .size = sizeof(opts),
					.steps = STEPS_MAX, .ctx = log };
	struct weir_chain *chain = NULL;

	memset(log, 0, sizeof(*log));
	log->r = r;
	log->cancel_at = -1;
	assert_int_equal(weir_chain_create(&chain, r, &opts), 0);
	assert_ptr_equal(weir_chain_ctx(chain), log);
	return chain;
}

static int call(struct weir_chain *chain, int after)
{
	int n = weir_chain_add_call(chain, after, on_call,
				    weir_chain_ctx(chain));

	assert_true(n >= 0);
	return n;
}

static int async(struct weir_chain *chain, int after)
{
	int n = weir_chain_add_op(chain, after, on_start,
				  weir_chain_ctx(chain));

	assert_true(n >= 0);
	return n;
}

static uint32_t state_of(struct weir_chain *chain, int step)
{
	struct weir_chain_step s = { .size = sizeof(s) };

	assert_int_equal(weir_chain_get_step(chain, (uint32_t)step, &s), 0);
	return s.state;
}

static int64_t run(struct weir_chain *chain, struct log *log)
{
	struct rec rec;

	rec_init(&rec);
	log->n = 0;
	STARTS(weir_chain_start(chain, &rec.op));
	return finish(log->r, &rec);
}

static void assert_order(const struct log *log, const char *want)
{
	char got[4 * STEPS_MAX + 1];
	int i;

	for (i = 0; i < log->n; i++)
		got[i] = (char)('a' + log->order[i]);
	got[log->n] = '\0';
	assert_string_equal(got, want);
}

static void says(const char *beginning)
{
	if (strncmp(weir_why(), beginning, strlen(beginning)))
		fail_msg("\"%s\" does not begin with \"%s\"", weir_why(),
			 beginning);
}

/* A9.1, A9.2 */
static void bad_arguments_are_refused(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_chain_opts opts = { .size = sizeof(opts), .steps = 1025 };
	struct weir_dma *dma = start_dma(r, (struct weir_dma_opts){ 0 });
	struct weir_chain_step s = { .size = sizeof(s) };
	struct weir_chain *chain = NULL;
	struct weir_job job;
	struct rec rec;

	rec_init(&rec);
	assert_int_equal(weir_chain_create(&chain, r, &opts), -EINVAL);
	opts.steps = 3;
	opts.deps = 2;
	assert_int_equal(weir_chain_create(&chain, r, &opts), 0);
	assert_int_equal(weir_chain_start(chain, &rec.op), -EINVAL);
	assert_int_equal(weir_chain_add_call(chain, 0, on_call, NULL), -EINVAL);
	says("weir_chain_add_call: after is 0, and the chain has 0 steps");
	assert_int_equal(weir_chain_add_call(chain, -2, on_call, NULL),
			 -EINVAL);
	says("weir_chain_add_call: after is -2, ");
	assert_int_equal(weir_chain_add_call(chain, -1, NULL, NULL), -EINVAL);
	assert_int_equal(weir_chain_add_op(chain, -1, NULL, NULL), -EINVAL);
	assert_int_equal(weir_chain_add_job(chain, -1, dma, NULL), -EINVAL);
	assert_int_equal(weir_chain_add_job(chain, -1, NULL, &job), -EINVAL);
	assert_int_equal(weir_chain_get_step(chain, 0, &s), -EINVAL);

	assert_int_equal(weir_chain_add_call(chain, -1, on_call, NULL), 0);
	assert_int_equal(weir_chain_add_call(chain, 0, on_call, NULL), 1);
	assert_int_equal(weir_chain_add_call(chain, 1, on_call, NULL), 2);
	assert_int_equal(weir_chain_add_call(chain, 2, on_call, NULL), -ENOSPC);
	says("weir_chain_add_call: 3 of 3 steps and 2 of 2 ");
	assert_int_equal(weir_chain_add_fence(chain), -ENOSPC);
	says("weir_chain_add_fence: 3 of 3 ");
	assert_int_equal(weir_chain_add_dep(chain, 2, 0, 1), -ENOSPC);
	says("weir_chain_add_dep: 3 of 3 ");
	assert_int_equal(weir_chain_add_dep(chain, 1, 0, 3), 0);
	assert_int_equal(weir_chain_add_dep(chain, 1, 1, 1), -EINVAL);
	says("weir_chain_add_dep: step 1 cannot wait for 1 ");
	assert_int_equal(weir_chain_add_dep(chain, 0, 1, 1), -EINVAL);
	assert_int_equal(weir_chain_add_dep(chain, 3, 1, 1), -EINVAL);
	assert_int_equal(weir_chain_add_dep(chain, 2, 1, 0), -EINVAL);
	assert_int_equal(weir_chain_add_dep(chain, 2, 1, 4), -EINVAL);
	s.size = 3;
	assert_int_equal(weir_chain_get_step(chain, 0, &s), -EINVAL);
	assert_int_equal(weir_chain_destroy(chain), 0);
	assert_int_equal(weir_chain_destroy(NULL), 0);
	assert_int_equal(weir_dma_destroy(dma), 0);
}

static void steps_run_in_their_order_and_again(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct log log;
	struct weir_chain *chain = make(r, &log);
	int a = call(chain, WEIR_CHAIN_FIRST), b = async(chain, a);
	int c = call(chain, b), i;

	assert_int_equal(state_of(chain, a), WEIR_STEP_IDLE);
	for (i = 0; i < 3; i++) {
		assert_int_equal(run(chain, &log), 3);
		assert_order(&log, "abc");
		assert_int_equal(state_of(chain, c), WEIR_STEP_DONE);
		assert_int_equal(weir_chain_failed_step(chain),
				 WEIR_CHAIN_FIRST);
	}
	assert_int_equal(weir_chain_destroy(chain), 0);
}

static void a_join_waits_for_all(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct log log;
	struct weir_chain *chain = make(r, &log);
	int a = call(chain, WEIR_CHAIN_FIRST);
	int b = async(chain, a), c = call(chain, a), d = async(chain, c);
	int e = call(chain, b);

	assert_int_equal(weir_chain_add_dep(chain, (uint32_t)e, (uint32_t)d,
					    WEIR_CHAIN_ON_DONE), 0);
	log.again[d] = 3;
	assert_int_equal(run(chain, &log), 5);
	assert_order(&log, "abcde");
	assert_int_equal(weir_chain_destroy(chain), 0);
}

/* A9.4 */
static void the_first_failure_is_the_chains(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct log log;
	struct weir_chain *chain = make(r, &log);
	int a = call(chain, WEIR_CHAIN_FIRST), b = call(chain, a);
	int c = call(chain, b);
	struct weir_chain_step s = { .size = sizeof(s) };

	log.result[b] = -EDOM;
	assert_int_equal(run(chain, &log), -EDOM);
	assert_order(&log, "ab");
	assert_int_equal(weir_chain_failed_step(chain), b);
	assert_int_equal(state_of(chain, a), WEIR_STEP_DONE);
	assert_int_equal(state_of(chain, b), WEIR_STEP_FAILED);
	assert_int_equal(state_of(chain, c), WEIR_STEP_SKIPPED);
	assert_int_equal(weir_chain_get_step(chain, (uint32_t)b, &s), 0);
	assert_int_equal(s.res, -EDOM);

	log.result[b] = 0;
	assert_int_equal(run(chain, &log), 3);
	assert_int_equal(state_of(chain, c), WEIR_STEP_DONE);
	assert_int_equal(weir_chain_destroy(chain), 0);
}

static void a_failure_has_a_branch_of_its_own(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct log log;
	struct weir_chain *chain = make(r, &log);
	int a = async(chain, WEIR_CHAIN_FIRST);
	int good = call(chain, a), bad = call(chain, a), end;

	assert_int_equal(weir_chain_add_dep(chain, (uint32_t)bad, (uint32_t)a,
					    WEIR_CHAIN_ON_FAILED), 0);
	end = call(chain, good);
	assert_int_equal(weir_chain_add_dep(chain, (uint32_t)end,
					    (uint32_t)good,
					    WEIR_CHAIN_ON_END), 0);
	assert_int_equal(run(chain, &log), 3);
	assert_order(&log, "abd");
	assert_int_equal(state_of(chain, bad), WEIR_STEP_SKIPPED);

	log.result[a] = -EIO;
	assert_int_equal(run(chain, &log), 2);
	assert_int_equal(state_of(chain, good), WEIR_STEP_SKIPPED);
	assert_int_equal(state_of(chain, bad), WEIR_STEP_DONE);
	assert_int_equal(state_of(chain, end), WEIR_STEP_DONE);
	assert_int_equal(weir_chain_failed_step(chain), WEIR_CHAIN_FIRST);
	assert_int_equal(weir_chain_destroy(chain), 0);
}

static void cleanup_step_runs_after_a_failure(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct log log;
	struct weir_chain *chain = make(r, &log);
	int a = call(chain, WEIR_CHAIN_FIRST), b = call(chain, a);
	int c = async(chain, b);

	assert_int_equal(weir_chain_add_dep(chain, (uint32_t)c, (uint32_t)b,
					    WEIR_CHAIN_ON_END), 0);
	log.result[a] = -EIO;
	assert_int_equal(run(chain, &log), -EIO);
	assert_order(&log, "ac");
	assert_int_equal(state_of(chain, b), WEIR_STEP_SKIPPED);
	assert_int_equal(state_of(chain, c), WEIR_STEP_DONE);
	assert_int_equal(weir_chain_destroy(chain), 0);
}

static int finally(struct weir_chain *chain, int after)
{
	int n = async(chain, after);

	assert_int_equal(weir_chain_set_finally(chain, (uint32_t)n), 0);
	return n;
}

/* A chain of a and b, and of c, d, which comes after c, and e, which always
 * run. */
static struct weir_chain *make_with_finally(struct weir_reactor *r,
					    struct log *log)
{
	struct weir_chain *chain = make(r, log);
	int a = async(chain, WEIR_CHAIN_FIRST), c;

	async(chain, a);
	c = finally(chain, a);
	async(chain, c);	/* One, too, because c is. */
	finally(chain, WEIR_CHAIN_FIRST);
	return chain;
}

static void finally_steps_run_after_success_and_failure(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct log log;
	struct weir_chain *chain = make_with_finally(r, &log);

	assert_int_equal(run(chain, &log), 5);
	assert_order(&log, "abced");
	log.result[0] = -EIO;
	assert_int_equal(run(chain, &log), -EIO);
	assert_order(&log, "aced");
	assert_int_equal(state_of(chain, 1), WEIR_STEP_SKIPPED);

	/* One that fails does not keep others from running; the first failure
	 * counts. */
	log.result[2] = -EPROTO;
	assert_int_equal(run(chain, &log), -EIO);
	assert_order(&log, "aced");
	log.result[0] = 0;
	assert_int_equal(run(chain, &log), -EPROTO);
	assert_order(&log, "abced");
	assert_int_equal(weir_chain_failed_step(chain), 2);
	assert_int_equal(weir_chain_destroy(chain), 0);
}

/* @when step: -1: before the first. */
static int64_t run_cut(struct weir_chain *chain, struct log *log, int when,
		       bool deadline)
{
	struct rec rec;

	rec_init(&rec);
	log->n = 0;
	log->cancel_in = when < 0 ? NULL : &rec.op;
	log->cancel_at = when;
	if (deadline)
		weir_op_set_deadline(&rec.op, weir_reactor_now(log->r));
	STARTS(weir_chain_start(chain, &rec.op));
	if (when < 0 && !deadline)
		assert_int_equal(weir_op_cancel(&rec.op), 0);
	return finish(log->r, &rec);
}

static void finally_steps_run_after_cancel_and_deadline(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct log log;
	struct weir_chain *chain = make_with_finally(r, &log);
	int i;

	assert_int_equal(run_cut(chain, &log, -1, false), -ECANCELED);
	assert_order(&log, "ced");
	assert_int_equal(state_of(chain, 0), WEIR_STEP_SKIPPED);
	log.pends[0] = true;
	assert_int_equal(run_cut(chain, &log, 0, false), -ECANCELED);
	assert_order(&log, "aced");
	assert_int_equal(state_of(chain, 0), WEIR_STEP_CANCELLED);
	assert_int_equal(run_cut(chain, &log, -1, true), -ETIMEDOUT);
	assert_int_equal(log.order[log.n - 3], 2);
	assert_int_equal(state_of(chain, 3), WEIR_STEP_DONE);

	/* A failure of theirs does not hide the cancel. */
	log.result[4] = -EPROTO;
	assert_int_equal(run_cut(chain, &log, 0, false), -ECANCELED);
	assert_order(&log, "aced");
	assert_int_equal(state_of(chain, 4), WEIR_STEP_FAILED);
	log.result[4] = 0;
	log.pends[0] = false;

	/* What comes while they run comes too late. */
	for (i = 2; i < 5; i++) {
		assert_int_equal(run_cut(chain, &log, i, false), 5);
		assert_order(&log, "abced");
	}
	assert_int_equal(weir_chain_destroy(chain), 0);
}

static void chain_may_have_finally_steps_only(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct log log;
	struct weir_chain *chain = make(r, &log);
	int a = finally(chain, WEIR_CHAIN_FIRST);

	finally(chain, a);
	assert_int_equal(run(chain, &log), 2);
	assert_order(&log, "ab");
	assert_int_equal(run_cut(chain, &log, -1, false), 2);
	assert_order(&log, "ab");
	assert_int_equal(weir_chain_destroy(chain), 0);
}

static void inner_chains_have_finally_steps_of_their_own(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct log log, inner_log;
	struct weir_chain *inner = make_with_finally(r, &inner_log);
	struct weir_chain *chain = make(r, &log);
	struct rec rec;
	int n;

	n = weir_chain_add_chain(chain, WEIR_CHAIN_FIRST, inner);
	finally(chain, n);
	inner_log.pends[0] = true;
	rec_init(&rec);
	STARTS(weir_chain_start(chain, &rec.op));
	UNTIL(r, inner_log.n);
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	assert_int_equal(finish(r, &rec), -ECANCELED);
	assert_order(&inner_log, "aced");
	assert_order(&log, "b");
	assert_int_equal(weir_chain_destroy(chain), 0);
	assert_int_equal(weir_chain_destroy(inner), 0);
}

static void finally_steps_that_make_no_sense_are_refused(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct log log;
	struct weir_chain *chain = make(r, &log);
	int a = call(chain, WEIR_CHAIN_FIRST), b = call(chain, a);
	int c = finally(chain, a), fence, d;

	assert_int_equal(weir_chain_set_finally(chain, (uint32_t)a), -EINVAL);
	says("weir_chain_set_finally: there is no step 0, it is a fence");
	assert_int_equal(weir_chain_set_finally(chain, 9), -EINVAL);
	assert_int_equal(weir_chain_add_dep(chain, (uint32_t)c, (uint32_t)b,
					    WEIR_CHAIN_ON_FAILED), -EINVAL);
	assert_int_equal(weir_chain_add_dep(chain, (uint32_t)c, (uint32_t)b,
					    WEIR_CHAIN_ON_END), 0);
	fence = weir_chain_add_fence(chain);
	assert_true(fence > 0);
	assert_int_equal(weir_chain_set_finally(chain, (uint32_t)fence),
			 -EINVAL);
	d = call(chain, WEIR_CHAIN_FIRST);
	assert_int_equal(weir_chain_add_dep(chain, (uint32_t)d, (uint32_t)c,
					    WEIR_CHAIN_ON_END), -EINVAL);
	/* A fence is for the others: finally steps come after what it holds
	 * up. */
	assert_int_equal(run(chain, &log), 5);
	assert_order(&log, "abec");
	assert_int_equal(weir_chain_destroy(chain), 0);
}

static void a_cancel_reaches_what_runs_and_skips_the_rest(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct log log;
	struct weir_chain *chain = make(r, &log);
	int a = call(chain, WEIR_CHAIN_FIRST), b = async(chain, a);
	int c = async(chain, a), d = call(chain, b);
	struct rec rec;

	log.pends[b] = log.pends[c] = true;
	assert_int_equal(weir_chain_add_dep(chain, (uint32_t)d, (uint32_t)b,
					    WEIR_CHAIN_ON_END), 0);
	rec_init(&rec);
	STARTS(weir_chain_start(chain, &rec.op));
	UNTIL(r, state_of(chain, c) == WEIR_STEP_RUNNING);
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	assert_int_equal(finish(r, &rec), -ECANCELED);
	assert_int_equal(state_of(chain, a), WEIR_STEP_DONE);
	assert_int_equal(state_of(chain, b), WEIR_STEP_CANCELLED);
	assert_int_equal(state_of(chain, c), WEIR_STEP_CANCELLED);
	assert_int_equal(state_of(chain, d), WEIR_STEP_SKIPPED);
	assert_int_equal(weir_chain_destroy(chain), 0);
}

static void a_cancel_may_come_before_the_first_step(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct log log;
	struct weir_chain *chain = make(r, &log);
	int a = call(chain, WEIR_CHAIN_FIRST);
	struct rec rec;

	rec_init(&rec);
	STARTS(weir_chain_start(chain, &rec.op));
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	assert_int_equal(finish(r, &rec), -ECANCELED);
	assert_int_equal(log.n, 0);
	assert_int_equal(state_of(chain, a), WEIR_STEP_SKIPPED);
	assert_int_equal(weir_chain_destroy(chain), 0);
}

static void a_step_may_cancel_its_own_chain(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct log log;
	struct weir_chain *chain = make(r, &log);
	int a = call(chain, WEIR_CHAIN_FIRST), b = call(chain, a);
	struct rec rec;

	rec_init(&rec);
	log.cancel_in = &rec.op;
	log.cancel_at = a;
	STARTS(weir_chain_start(chain, &rec.op));
	assert_int_equal(finish(r, &rec), -ECANCELED);
	assert_int_equal(state_of(chain, a), WEIR_STEP_DONE);
	assert_int_equal(state_of(chain, b), WEIR_STEP_SKIPPED);

	/* In the last step it is too late. */
	log.cancel_at = b;
	STARTS(weir_chain_start(chain, &rec.op));
	assert_int_equal(finish(r, &rec), 2);
	assert_int_equal(weir_chain_destroy(chain), 0);
}

static void a_branch_not_taken_is_not_the_cancels(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct log log;
	struct weir_chain *chain = make(r, &log);
	int a = call(chain, WEIR_CHAIN_FIRST), b = call(chain, a);
	int c = call(chain, a);
	struct rec rec;

	assert_int_equal(weir_chain_add_dep(chain, (uint32_t)b, (uint32_t)a,
					    WEIR_CHAIN_ON_FAILED), 0);
	rec_init(&rec);
	log.cancel_in = &rec.op;
	log.cancel_at = c;
	STARTS(weir_chain_start(chain, &rec.op));
	assert_int_equal(finish(r, &rec), 2);
	assert_int_equal(state_of(chain, b), WEIR_STEP_SKIPPED);
	log.cancel_at = a;
	STARTS(weir_chain_start(chain, &rec.op));
	assert_int_equal(finish(r, &rec), -ECANCELED);
	assert_int_equal(weir_chain_destroy(chain), 0);
}

/* What it starts after that is reached all the same. */
static void a_step_may_cancel_its_chain_and_then_start(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct log log;
	struct weir_chain *chain = make(r, &log);
	int a = async(chain, WEIR_CHAIN_FIRST);
	struct rec rec;

	rec_init(&rec);
	log.pends[a] = true;
	log.cancel_in = &rec.op;
	log.cancel_at = a;
	STARTS(weir_chain_start(chain, &rec.op));
	assert_int_equal(finish(r, &rec), -ECANCELED);
	assert_int_equal(state_of(chain, a), WEIR_STEP_CANCELLED);
	assert_int_equal(weir_chain_destroy(chain), 0);
}

static void a_deadline_reaches_what_runs(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct log log;
	struct weir_chain *chain = make(r, &log);
	int a = async(chain, WEIR_CHAIN_FIRST);
	uint64_t soon = WEIR_MSEC;
	struct rec rec;

	log.pends[a] = true;
	do { /* Until there was time enough to run the step. */
		soon *= 2;
		rec_init(&rec);
		weir_op_set_deadline(&rec.op, weir_reactor_now(r) + soon);
		STARTS(weir_chain_start(chain, &rec.op));
		assert_int_equal(finish(r, &rec), -ETIMEDOUT);
	} while (state_of(chain, a) == WEIR_STEP_SKIPPED);
	assert_int_equal(state_of(chain, a), WEIR_STEP_CANCELLED);
	assert_int_equal(weir_chain_destroy(chain), 0);
}

static void late_chain_runs_no_step(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct log log;
	struct weir_chain *chain = make(r, &log);
	int a = async(chain, WEIR_CHAIN_FIRST), b = call(chain, a);
	struct rec rec;

	rec_init(&rec);
	weir_op_set_deadline(&rec.op, weir_reactor_now(r));
	STARTS(weir_chain_start(chain, &rec.op));
	assert_int_equal(finish(r, &rec), -ETIMEDOUT);
	assert_int_equal(state_of(chain, a), WEIR_STEP_SKIPPED);
	assert_int_equal(state_of(chain, b), WEIR_STEP_SKIPPED);
	rec_init(&rec);
	STARTS(weir_chain_start(chain, &rec.op));
	assert_true(finish(r, &rec) >= 0);
	assert_int_equal(weir_chain_destroy(chain), 0);
}

static void stopping_reactor_ends_a_chain(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct log log;
	struct weir_chain *chain = make(r, &log);
	int a = async(chain, WEIR_CHAIN_FIRST), b = call(chain, a);
	struct rec rec;

	log.pends[a] = true;
	rec_init(&rec);
	STARTS(weir_chain_start(chain, &rec.op));
	some_turns(r, 2);
	weir_reactor_stop(r);
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(rec.res, -ECANCELED);
	assert_int_equal(state_of(chain, b), WEIR_STEP_SKIPPED);
	assert_int_equal(weir_chain_start(chain, &rec.op), -ESHUTDOWN);
	assert_int_equal(weir_chain_destroy(chain), 0);
}

/* A9.1, A9.3 */
static void chain_in_flight_cannot_be_changed(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct log log;
	struct weir_chain *chain = make(r, &log);
	int a = async(chain, WEIR_CHAIN_FIRST);
	struct rec rec, second;

	rec_init(&rec);
	rec_init(&second);
	STARTS(weir_chain_start(chain, &rec.op));
	assert_int_equal(weir_chain_start(chain, &second.op), -EBUSY);
	assert_int_equal(weir_chain_add_call(chain, a, on_call, NULL), -EBUSY);
	assert_int_equal(weir_chain_add_dep(chain, 0, 0, 1), -EBUSY);
	assert_int_equal(weir_chain_destroy(chain), -EBUSY);
	assert_int_equal(finish(r, &rec), 1);
	assert_int_equal(weir_chain_destroy(chain), 0);
}

/* Twice as many steps in all as it has places for. */
static void chain_that_was_reset_takes_other_steps(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_chain_opts opts = { .size = sizeof(opts), .steps = 3,
					.deps = 3 };
	struct weir_chain *chain, *outer, *inner;
	struct log log = { .r = r, .cancel_at = -1 }, other;
	struct rec rec;

	opts.ctx = &log;
	assert_int_equal(weir_chain_create(&chain, r, &opts), 0);
	for (int i = 0; i < 2; i++) {
		/* A fence, and a step that fails. */
		call(chain, WEIR_CHAIN_FIRST);
		assert_int_equal(weir_chain_add_fence(chain), 1);
		call(chain, WEIR_CHAIN_FIRST);
		log.result[2] = -EDOM;
		assert_int_equal(run(chain, &log), -EDOM);
		assert_order(&log, "ac");
		assert_int_equal(weir_chain_failed_step(chain), 2);

		/* Nothing of them is left. */
		assert_int_equal(weir_chain_reset(chain), 0);
		assert_int_equal(weir_chain_failed_step(chain),
				 WEIR_CHAIN_FIRST);
		rec_init(&rec);
		assert_int_equal(weir_chain_start(chain, &rec.op), -EINVAL);
		log.result[2] = 0;
		async(chain, call(chain, async(chain, WEIR_CHAIN_FIRST)));
		assert_int_equal(run(chain, &log), 3);
		assert_order(&log, "abc");
		assert_int_equal(weir_chain_reset(chain), 0);

		/* Both of the others after the first. */
		assert_int_equal(call(chain, WEIR_CHAIN_FIRST), 0);
		assert_int_equal(call(chain, 0), 1);
		assert_int_equal(call(chain, 0), 2);
		assert_int_equal(run(chain, &log), 3);
		assert_int_equal(weir_chain_reset(chain), 0);

		/* The last only after the second. */
		call(chain, async(chain, call(chain, WEIR_CHAIN_FIRST)));
		log.result[1] = -EDOM;
		assert_int_equal(run(chain, &log), -EDOM);
		assert_order(&log, "ab");
		assert_int_equal(state_of(chain, 2), WEIR_STEP_SKIPPED);
		assert_int_equal(weir_chain_reset(chain), 0);
		log.result[1] = 0;
	}

	/* Nor of a chain that was a step, which is free. */
	inner = make(r, &other);
	call(inner, WEIR_CHAIN_FIRST);
	outer = make(r, &log);
	assert_int_equal(weir_chain_add_chain(outer, -1, inner), 0);
	assert_int_equal(weir_chain_reset(inner), -EBUSY);
	says("weir_chain_reset: the chain is a step");
	assert_int_equal(weir_chain_reset(outer), 0);
	assert_int_equal(weir_chain_destroy(inner), 0);
	assert_int_equal(weir_chain_destroy(outer), 0);
	assert_int_equal(weir_chain_destroy(chain), 0);
}

static void on_ended_and_reset(struct weir_op *op, int64_t res)
{
	struct weir_chain *chain = op->data;
	struct log *log = weir_chain_ctx(chain);

	assert_int_equal(res, 1);
	assert_int_equal(weir_chain_reset(chain), 0);
	call(chain, call(chain, WEIR_CHAIN_FIRST));
	op->fn = rec_done;
	log->n = 0;
	assert_int_equal(weir_chain_start(chain, op), 0);
}

/* Until it has ended; in its callback it is free for the next request. */
static void chain_in_flight_is_not_reset(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_dma *dma = start_dma(r, (struct weir_dma_opts){ 0 });
	struct weir_job job;
	struct log log;
	struct weir_chain *chain = make(r, &log);
	struct rec rec;

	async(chain, WEIR_CHAIN_FIRST);
	rec_init(&rec);
	rec.op.fn = on_ended_and_reset;
	rec.op.data = chain;
	STARTS(weir_chain_start(chain, &rec.op));
	assert_int_equal(weir_chain_reset(chain), -EBUSY);
	says("weir_chain_reset: the chain is in flight");
	assert_int_equal(finish(r, &rec), 2);
	assert_order(&log, "ab");

	/* The context of a job's step is free, too. */
	assert_int_equal(weir_chain_reset(chain), 0);
	weir_job_init(&job, NULL);
	assert_int_equal(weir_chain_add_job(chain, -1, dma, &job), 0);
	assert_int_equal(weir_dma_destroy(dma), -EBUSY);
	assert_int_equal(weir_chain_reset(chain), 0);
	assert_int_equal(weir_dma_destroy(dma), 0);
	assert_int_equal(weir_chain_destroy(chain), 0);
}

static int starts_nothing(struct weir_chain *chain, uint32_t step,
			  struct weir_op *op, void *arg)
{
	(void)chain, (void)step, (void)op;
	return *(int *)arg;
}

static void an_operation_may_have_nothing_to_do(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct log log;
	struct weir_chain *chain = make(r, &log);
	int ret = 1;

	assert_int_equal(weir_chain_add_op(chain, WEIR_CHAIN_FIRST,
					   starts_nothing, &ret), 0);
	assert_int_equal(run(chain, &log), 1);
	ret = 0;
	assert_int_equal(run(chain, &log), -EINVAL);
	assert_int_equal(weir_chain_destroy(chain), 0);
}

static int starts_and_lies(struct weir_chain *chain, uint32_t step,
			   struct weir_op *op, void *arg)
{
	struct log *log = weir_chain_ctx(chain);

	(void)step;
	assert_int_equal(weir_sleep_until(log->r, op, WEIR_FOREVER), 0);
	log->n++;
	return *(int *)arg;
}

static void chain_waits_for_started_steps_in_any_case(void **state)
{
	static const int lies[] = { 1, -EIO, -EAGAIN };
	struct weir_reactor *r = start_reactor(state);
	struct weir_chain *chain;
	struct log log;
	struct rec rec;
	size_t i;
	int ret;

	for (i = 0; i < N_OF(lies); i++) {
		chain = make(r, &log);
		ret = lies[i];
		assert_int_equal(weir_chain_add_op(chain, WEIR_CHAIN_FIRST,
						   starts_and_lies, &ret), 0);
		rec_init(&rec);
		STARTS(weir_chain_start(chain, &rec.op));
		some_turns(r, 5);
		assert_int_equal(log.n, 1);
		assert_int_equal(rec.calls, 0);
		assert_int_equal(weir_chain_destroy(chain), -EBUSY);
		assert_int_equal(weir_op_cancel(&rec.op), 0);
		assert_int_equal(finish(r, &rec), -ECANCELED);
		assert_int_equal(state_of(chain, 0), WEIR_STEP_CANCELLED);
		assert_int_equal(weir_chain_destroy(chain), 0);
	}
}

/* A9.1, A9.4 */
static void jobs_are_steps(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_dma *dma = start_dma(r, (struct weir_dma_opts){
		.jobs_max = 1, .turn_bytes = 4096 });
	struct weir_domain *in, *out;
	int fd[2], a, b, c, i;
	struct weir_chain_step s = { .size = sizeof(s) };
	struct weir_chain *chain;
	struct weir_job job[3];
	char *mem = malloc(100000);
	struct log log;

	for (i = 0; i < 2; i++)
		fd[i] = test_file(state, i ? "out" : "in", 100000, 5);
	in = file_domain(fd[0]);
	out = file_domain(fd[1]);
	chain = make(r, &log);
	for (i = 0; i < 3; i++)
		weir_job_init(&job[i], NULL);
	a = weir_chain_add_job(chain, WEIR_CHAIN_FIRST, dma, &job[0]);
	b = weir_chain_add_job(chain, a, dma, &job[1]);
	c = weir_chain_add_job(chain, a, dma, &job[2]);
	assert_true(a == 0 && b == 1 && c == 2);
	weir_job_copy(&job[0], weir_operand_mem(mem, 100000),
		      weir_operand_at(in, 0, 100000));
	weir_job_crc32c(&job[1], weir_operand_mem(mem, 100000), 0);
	weir_job_copy(&job[2], weir_operand_at(out, 7, 100000),
		      weir_operand_mem(mem, 100000));

	/* The context has space for one at a time: the other is tried again. */
	assert_int_equal(run(chain, &log), 3);
	assert_true(is_pattern(mem, 100000, 0, 5));
	assert_int_equal(weir_chain_get_step(chain, 0, &s), 0);
	assert_int_equal(s.detail.bytes, 100000);
	assert_int_equal(s.res, 100000);

	/* One that cannot start fails; so does one that ends early. */
	job[1].kind = 77;
	assert_int_equal(run(chain, &log), -EINVAL);
	assert_int_equal(weir_chain_failed_step(chain), 1);
	job[1].kind = WEIR_JOB_CRC32C;
	weir_job_copy(&job[0], weir_operand_mem(mem, 100000),
		      weir_operand_at(in, 1, 100000));
	assert_int_equal(run(chain, &log), -ENODATA);
	assert_int_equal(weir_chain_get_step(chain, 0, &s), 0);
	assert_int_equal(s.detail.bytes, 99999);

	assert_int_equal(weir_chain_destroy(chain), 0);
	assert_int_equal(weir_domain_destroy(in), 0);
	assert_int_equal(weir_domain_destroy(out), 0);
	assert_int_equal(weir_dma_destroy(dma), 0);
	close_pair(fd);
	free(mem);
}

/*
 * The model.  A random graph of steps with random results.  Since a step only
 * depends on earlier ones, what becomes of it follows from the states of these:
 * but for whether it began before or after an unrelated failure, which the
 * model takes from the chain, and checks that either is allowed.
 */
struct model {
	int n;
	uint32_t dep[STEPS_MAX][STEPS_MAX];	/* [step][dep]: on, or 0. */
};

static void model_build(struct model *m, struct weir_chain *chain,
			struct log *log, unsigned int *seed)
{
	int i, k, dep;
	uint32_t on;

	memset(m, 0, sizeof(*m));
	m->n = 1 + (int)(rand_r(seed) % (STEPS_MAX - 1));
	for (i = 0; i < m->n; i++) {
		if (rand_r(seed) % 2)
			call(chain, WEIR_CHAIN_FIRST);
		else
			async(chain, WEIR_CHAIN_FIRST);
		log->result[i] = rand_r(seed) % 4 ? 0 : -EDOM - i;
		for (k = (int)(rand_r(seed) % 3); i && k; k--) {
			dep = (int)(rand_r(seed) % (unsigned int)i);
			on = 1 + rand_r(seed) % 3;
			if (weir_chain_add_dep(chain, (uint32_t)i,
					       (uint32_t)dep, on))
				break;
			m->dep[i][dep] = on;
		}
	}
}

static bool edge_met(uint32_t on, uint32_t state)
{
	return on == WEIR_CHAIN_ON_END ||
	       (on == WEIR_CHAIN_ON_DONE && state == WEIR_STEP_DONE) ||
	       (on == WEIR_CHAIN_ON_FAILED && state == WEIR_STEP_FAILED);
}

static bool has_branch(const struct model *m, int step)
{
	int i;

	for (i = 0; i < m->n; i++)
		if (m->dep[i][step] == WEIR_CHAIN_ON_FAILED)
			return true;
	return false;
}

static void model_check(const struct model *m, struct weir_chain *chain,
			const struct log *log, int64_t res)
{
	int failed = weir_chain_failed_step(chain), i, d, done = 0;
	bool met, last;
	uint32_t st;

	for (i = 0; i < m->n; i++) {
		st = state_of(chain, i);
		met = true;
		last = false;
		for (d = 0; d < i; d++)
			if (m->dep[i][d]) {
				met &= edge_met(m->dep[i][d],
						state_of(chain, d));
				last = true;
			}
		for (d = 0; d < i; d++)
			last &= !m->dep[i][d] ||
				m->dep[i][d] == WEIR_CHAIN_ON_END;
		if (!met)
			assert_int_equal(st, WEIR_STEP_SKIPPED);
		else if (st == WEIR_STEP_SKIPPED)
			assert_true(failed >= 0 && !last);
		else
			assert_int_equal(st, log->result[i] ? WEIR_STEP_FAILED :
							      WEIR_STEP_DONE);
		if (st == WEIR_STEP_FAILED && !has_branch(m, i))
			assert_true(failed >= 0);
		done += st == WEIR_STEP_DONE;
	}
	if (failed >= 0) {
		assert_int_equal(state_of(chain, failed), WEIR_STEP_FAILED);
		assert_false(has_branch(m, failed));
		assert_int_equal(res, log->result[failed]);
	} else {
		assert_int_equal(res, done);
	}
}

static void a_job_may_be_a_step_more_than_once(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_dma *dma = start_dma(r, (struct weir_dma_opts){
		.turn_bytes = 4096 });
	static char mem[16384] = "to and fro";
	struct weir_chain *chain, *other;
	struct weir_job job;
	struct log log;
	int a;

	weir_job_init(&job, NULL);
	weir_job_copy(&job, weir_operand_mem(mem + 8192, 8192),
		      weir_operand_mem(mem, 8192));
	chain = make(r, &log);
	a = weir_chain_add_job(chain, WEIR_CHAIN_FIRST, dma, &job);
	assert_int_equal(weir_chain_add_job(chain, a, dma, &job), 1);
	other = make(r, &log);
	assert_int_equal(weir_chain_add_job(other, WEIR_CHAIN_FIRST, dma, &job),
			 0);
	assert_int_equal(run(chain, &log), 2);
	assert_int_equal(run(other, &log), 1);
	assert_string_equal(mem + 8192, "to and fro");
	assert_int_equal(weir_chain_destroy(chain), 0);

	/* But not at the same time. */
	assert_int_equal(weir_chain_add_job(other, WEIR_CHAIN_FIRST, dma, &job),
			 1);
	assert_int_equal(run(other, &log), -EINVAL);
	assert_int_equal(state_of(other, 0), WEIR_STEP_DONE);
	assert_int_equal(weir_chain_failed_step(other), 1);
	assert_int_equal(weir_chain_destroy(other), 0);
	assert_int_equal(weir_dma_destroy(dma), 0);
}

static void random_graphs_obey_the_rules(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	unsigned int rounds = scaled(3000), seed = 11;
	struct weir_chain *chain;
	struct model m;
	struct log log;

	while (rounds--) {
		chain = make(r, &log);
		model_build(&m, chain, &log, &seed);
		model_check(&m, chain, &log, run(chain, &log));
		model_check(&m, chain, &log, run(chain, &log));
		assert_int_equal(weir_chain_destroy(chain), 0);
	}
}

static void random_cancels_end_it_once(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	unsigned int rounds = scaled(2000), seed = 12, i;
	struct weir_chain *chain;
	struct model m;
	struct log log;
	struct rec rec;
	int s;

	while (rounds--) {
		chain = make(r, &log);
		model_build(&m, chain, &log, &seed);
		for (i = 0; i < STEPS_MAX; i++)
			log.pends[i] = rand_r(&seed) % 4 == 0;
		rec_init(&rec);
		STARTS(weir_chain_start(chain, &rec.op));
		some_turns(r, (int)(rand_r(&seed) % 6));
		weir_op_cancel(&rec.op);
		if (!rec.calls)
			finish(r, &rec);
		assert_int_equal(rec.calls, 1);
		for (s = 0; s < m.n; s++)
			assert_true(state_of(chain, s) >= WEIR_STEP_DONE);
		assert_int_equal(weir_chain_destroy(chain), 0);
	}
}

static void failed_chain_call_leaves_nothing_behind(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_chain *chain = NULL;
	int err, n = 0, fired;

	do {
		fault_arm(n++);
		err = weir_chain_create(&chain, r, NULL);
		fired = fault_disarm();
		assert_int_equal(err, fired ? -ENOMEM : 0);
	} while (fired);
	assert_int_equal(weir_chain_destroy(chain), 0);
}

/* A9.1: a chain is a step; not of itself. */
static void a_chain_is_a_step(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct log outer_log, inner_log;
	struct weir_chain *outer = make(r, &outer_log);
	struct weir_chain *inner = make(r, &inner_log);
	struct weir_chain_step s = { .size = sizeof(s) };
	struct rec rec;
	int a, b;

	assert_int_equal(weir_chain_add_chain(outer, -1, inner), -EINVAL);
	assert_int_equal(weir_chain_add_chain(outer, -1, NULL), -EINVAL);
	call(inner, async(inner, WEIR_CHAIN_FIRST));
	a = call(outer, WEIR_CHAIN_FIRST);
	b = weir_chain_add_chain(outer, a, inner);
	assert_int_equal(b, 1);
	call(outer, b);
	assert_int_equal(weir_chain_add_chain(outer, b, outer), -EPERM);
	assert_int_equal(weir_chain_add_chain(inner, 0, outer), -EBUSY);
	assert_int_equal(weir_chain_add_call(inner, 0, on_call, NULL), -EBUSY);
	assert_int_equal(weir_chain_destroy(inner), -EBUSY);
	assert_int_equal(run(outer, &outer_log), 3);
	assert_int_equal(inner_log.n, 2);
	assert_int_equal(run(inner, &inner_log), 2);

	inner_log.result[1] = -EDOM;
	assert_int_equal(run(outer, &outer_log), -EDOM);
	assert_int_equal(weir_chain_failed_step(outer), b);
	assert_int_equal(weir_chain_failed_step(inner), 1);
	assert_int_equal(weir_chain_get_step(outer, (uint32_t)b, &s), 0);
	assert_int_equal(s.res, -EDOM);

	/* A cancel reaches what runs inside. */
	inner_log.pends[0] = true;
	rec_init(&rec);
	STARTS(weir_chain_start(outer, &rec.op));
	UNTIL(r, state_of(inner, 0) == WEIR_STEP_RUNNING);
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	assert_int_equal(finish(r, &rec), -ECANCELED);
	assert_int_equal(state_of(inner, 0), WEIR_STEP_CANCELLED);
	assert_int_equal(state_of(outer, b), WEIR_STEP_CANCELLED);
	assert_int_equal(weir_chain_destroy(outer), 0);
	assert_int_equal(weir_chain_destroy(inner), 0);
}

static void chains_go_so_deep_and_no_deeper(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_chain *chains[18];
	struct log log;
	int i;

	for (i = 0; i < 18; i++) {
		assert_int_equal(weir_chain_create(&chains[i], r, NULL), 0);
		memset(&log, 0, sizeof(log));
		if (!i)
			weir_chain_add_call(chains[i], -1, on_call, &log);
		else
			assert_int_equal(weir_chain_add_chain(chains[i], -1,
							      chains[i - 1]),
					 i < 17 ? 0 : -EMSGSIZE);
	}
	log.r = r;
	assert_int_equal(run(chains[16], &log), 1);
	while (i--)
		assert_int_equal(weir_chain_destroy(chains[i]), 0);
}

static void a_fence_parts_what_is_before_from_what_is_behind(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct log log;
	struct weir_chain *chain = make(r, &log);
	int a, b, c, f, d, e;

	assert_int_equal(weir_chain_add_fence(chain), -EINVAL);
	a = async(chain, WEIR_CHAIN_FIRST);
	b = call(chain, a);
	c = async(chain, WEIR_CHAIN_FIRST);
	f = weir_chain_add_fence(chain);
	assert_int_equal(f, 3);
	d = call(chain, WEIR_CHAIN_FIRST);
	e = call(chain, a);
	assert_int_equal(e, 5);
	log.again[c] = 6;
	assert_int_equal(run(chain, &log), 6);
	assert_order(&log, "abcef");

	/* Behind a failure that somebody sees to, the rest goes on. */
	log.result[a] = -EIO;
	log.again[c] = 0;
	assert_int_equal(run(chain, &log), -EIO);
	assert_int_equal(state_of(chain, f), WEIR_STEP_DONE);
	assert_int_equal(state_of(chain, d), WEIR_STEP_SKIPPED);
	assert_int_equal(weir_chain_add_dep(chain, (uint32_t)b, (uint32_t)a,
					    WEIR_CHAIN_ON_FAILED), 0);
	assert_int_equal(run(chain, &log), 4);
	assert_int_equal(state_of(chain, d), WEIR_STEP_DONE);
	assert_int_equal(state_of(chain, e), WEIR_STEP_SKIPPED);
	assert_int_equal(weir_chain_destroy(chain), 0);
}

/* Refused at first, as there is no capacity, then with an error of its own. */
static int start_in_vain(struct weir_chain *chain, uint32_t step,
			 struct weir_op *op, void *arg)
{
	struct log *log = arg;

	(void)chain, (void)step;
	switch (log->n++) {
	case 0:
		return weir_sleep_until(log->r, op, WEIR_FOREVER);
	case 1:
		return -EAGAIN;
	default:
		return -EDOM;
	}
}

/* A step that gets capacity beyond the bound, and does not start. */
static void failed_start_beyond_the_bound_gives_it_back(void **state)
{
	struct weir_reactor *r = start_reactor_with(state,
		(struct weir_reactor_opts){ .ops_max = 2 });
	struct rec sleep, rec, more[2];
	struct weir_chain *chain;
	struct log log;

	rec_init(&sleep);
	rec_init(&rec);
	chain = make(r, &log);
	assert_int_equal(weir_chain_add_op(chain, WEIR_CHAIN_FIRST,
					   start_in_vain, &log), 0);
	STARTS(weir_sleep_until(r, &sleep.op, WEIR_FOREVER));
	STARTS(weir_chain_start(chain, &rec.op));
	/* While it waits to try again nothing else gets what it did not use. */
	some_turns(r, 1);
	assert_int_equal(log.n, 2);
	rec_init(&more[0]);
	rec_init(&more[1]);
	assert_int_equal(weir_defer(r, &more[1].op), -EAGAIN);
	assert_int_equal(finish(r, &rec), -EDOM);
	STARTS(weir_defer(r, &more[0].op));
	assert_int_equal(weir_defer(r, &more[1].op), -EAGAIN);
	weir_op_cancel(&sleep.op);
	UNTIL(r, sleep.calls && more[0].calls);
	assert_int_equal(weir_chain_destroy(chain), 0);
}

static int start_later(struct weir_chain *chain, uint32_t step,
		       struct weir_op *op, void *arg)
{
	(void)chain, (void)step, (void)op, (void)arg;
	return -EAGAIN;
}

/* By then it asks once in a millisecond only. */
static void chain_cancelled_while_it_waits_to_try_again_can_go(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_chain *chain;
	struct rec rec, nap;
	struct log log;

	rec_init(&rec);
	rec_init(&nap);
	chain = make(r, &log);
	assert_int_equal(weir_chain_add_op(chain, WEIR_CHAIN_FIRST,
					   start_later, NULL), 0);
	STARTS(weir_chain_start(chain, &rec.op));
	STARTS(weir_sleep_until(r, &nap.op,
				weir_reactor_now(r) + 20 * WEIR_MSEC));
	finish(r, &nap);
	assert_int_equal(rec.calls, 0);
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	assert_int_equal(finish(r, &rec), -ECANCELED);
	assert_int_equal(weir_chain_destroy(chain), 0);
}

/* It does not make turn after turn to ask whether there is capacity. */
static void a_step_that_waits_lets_the_reactor_sleep(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_dma *dma = start_dma(r, (struct weir_dma_opts){
		.jobs_max = 1 });
	struct weir_reactor_stats before = { .size = sizeof(before) }, after;
	int fd = test_file(state, "f", 4096, 1), n;
	struct weir_domain *file = file_domain(fd);
	struct weir_chain *chain;
	struct weir_job job[3];
	char mem[64] = "x";
	struct log log;
	struct rec rec;

	chain = make(r, &log);
	for (n = 0; n < 3; n++) {
		weir_job_init(&job[n], NULL);
		assert_int_equal(weir_chain_add_job(chain, WEIR_CHAIN_FIRST,
						    dma, &job[n]), n);
		weir_job_copy(&job[n], weir_operand_mem(mem + 32, 16),
			      weir_operand_mem(mem, 16));
	}
	weir_job_copy(&job[0], weir_operand_mem(mem, 16),
		      weir_operand_at(file, 0, 16));
	after = before;
	rec_init(&rec);
	STARTS(weir_chain_start(chain, &rec.op));
	assert_int_equal(state_of(chain, 0), WEIR_STEP_RUNNING);
	assert_int_equal(state_of(chain, 1), WEIR_STEP_IDLE);
	assert_int_equal(weir_reactor_stats(r, &before), 0);
	assert_int_equal(finish(r, &rec), 3);
	assert_int_equal(weir_reactor_stats(r, &after), 0);
	assert_true(after.turns - before.turns < 10);

	/* A cancel reaches those that wait. */
	STARTS(weir_chain_start(chain, &rec.op));
	assert_int_equal(weir_op_cancel(&rec.op), 0);
	finish(r, &rec);
	assert_int_equal(state_of(chain, 1), WEIR_STEP_SKIPPED);
	assert_int_equal(state_of(chain, 2), WEIR_STEP_SKIPPED);
	assert_int_equal(weir_chain_destroy(chain), 0);
	assert_int_equal(weir_dma_destroy(dma), 0);
	assert_int_equal(weir_domain_destroy(file), 0);
	close(fd);
}

/* The table of docs/internals/dma.md. */
struct table_fixture {
	struct weir_reactor *r;
	struct weir_dma *dma;
	struct weir_chain *chain, *inner;
	struct log log, inner_log;
	struct weir_job job;
	struct weir_job short_jobs[2];
	char bytes[8];
	struct rec rec, second;
	bool in_fn;
	int (*fn)(void *fixture); /* For a function of the chain's. */
	int got;
};

static int call_add_job(void *fixture)
{
	struct table_fixture *g = fixture;

	return weir_chain_add_job(g->chain, -1, g->dma, &g->job);
}

static int call_add_call(void *fixture)
{
	struct table_fixture *g = fixture;

	return weir_chain_add_call(g->chain, -1, on_call, &g->log);
}

static int call_add_op(void *fixture)
{
	struct table_fixture *g = fixture;

	return weir_chain_add_op(g->chain, -1, on_start, &g->log);
}

static int call_add_chain(void *fixture)
{
	struct table_fixture *g = fixture;

	return weir_chain_add_chain(g->chain, -1, g->inner);
}

static int call_add_fence(void *fixture)
{
	return weir_chain_add_fence(((struct table_fixture *)fixture)->chain);
}

static int call_add_dep(void *fixture)
{
	return weir_chain_add_dep(((struct table_fixture *)fixture)->chain, 1,
				  0, WEIR_CHAIN_ON_END);
}

static int call_set_finally(void *fixture)
{
	return weir_chain_set_finally(((struct table_fixture *)fixture)->chain,
				      1);
}

static int call_start(void *fixture)
{
	struct table_fixture *g = fixture;

	return weir_chain_start(g->chain, &g->second.op);
}

static int call_destroy(void *fixture)
{
	struct table_fixture *g = fixture;
	int err = weir_chain_destroy(g->chain);

	if (!err)
		g->chain = NULL;
	return err;
}

static int call_cancel(void *fixture)
{
	return weir_op_cancel(&((struct table_fixture *)fixture)->rec.op);
}

static int64_t in_fn(struct weir_chain *chain, uint32_t step, void *arg)
{
	struct table_fixture *g = arg;

	(void)chain, (void)step;
	if (g->fn)
		g->got = g->fn(g);
	return 0;
}

static void in_callback(struct weir_op *op, int64_t res)
{
	struct table_fixture *g =
		weir_container_of(op, struct table_fixture, rec.op);

	rec_done(op, res);
	if (g->fn)
		g->got = g->fn(g);
}

enum { EMPTY, IDLE, UNDER_WAY, IN_FN, DUE, IN_CALLBACK, INSIDE };

/* Steps that all end in the chain's start. */
static void add_short_steps(struct table_fixture *g)
{
	int i;

	for (i = 0; i < 2; i++) {
		weir_job_init(&g->short_jobs[i], NULL);
		weir_job_fill(&g->short_jobs[i],
			      weir_operand_mem(g->bytes + 4 * i, 4), 'x');
		weir_chain_add_job(g->chain, -1, g->dma, &g->short_jobs[i]);
	}
}

static void table_fixture_begin(struct table_fixture *g, struct weir_reactor *r,
				int column)
{
	memset(g, 0, sizeof(*g));
	g->r = r;
	g->dma = start_dma(r, (struct weir_dma_opts){ 0 });
	g->chain = make(r, &g->log);
	g->inner = make(r, &g->inner_log);
	weir_job_init(&g->job, NULL);
	weir_job_copy(&g->job, weir_operand_mem("abcd", 4),
		      weir_operand_mem("abcd", 4));
	rec_init(&g->rec);
	rec_init(&g->second);
	call(g->inner, -1);
	if (column == EMPTY)
		return;
	if (column == DUE || column == IN_CALLBACK) {
		g->rec.op.fn = in_callback;
		add_short_steps(g);
	} else {
		weir_chain_add_call(g->chain, -1, in_fn, g);
		async(g->chain, -1);
	}
	if (column == INSIDE)
		weir_chain_add_chain(g->inner, -1, g->chain);
	g->log.pends[1] = true;
	if (column >= UNDER_WAY && column <= IN_CALLBACK)
		STARTS(weir_chain_start(g->chain, &g->rec.op));
	if (column == DUE)
		assert_int_equal(state_of(g->chain, 1), WEIR_STEP_DONE);
}

static int table_call(struct table_fixture *g, const struct table_cell *c)
{
	if (c->column != IN_FN && c->column != IN_CALLBACK)
		return c->call->fn(g);
	g->fn = c->call->fn;
	g->got = INT_MAX;
	UNTIL(g->r, g->got != INT_MAX);
	return g->got;
}

static void table_fixture_end(struct table_fixture *g)
{
	weir_op_cancel(&g->rec.op);
	weir_op_cancel(&g->second.op);
	UNTIL(g->r, !weir_op_is_busy(&g->rec.op) &&
	      !weir_op_is_busy(&g->second.op));
	if (weir_chain_destroy(g->chain)) {
		assert_int_equal(weir_chain_destroy(g->inner), 0);
		assert_int_equal(weir_chain_destroy(g->chain), 0);
	} else {
		assert_int_equal(weir_chain_destroy(g->inner), 0);
	}
	assert_int_equal(weir_dma_destroy(g->dma), 0);
}

/* 2.6; A9.2, A9.3 */
static void chain_answers_as_its_state_table_says(void **state)
{
	static const struct table_call calls[] = {
		{ "add_job", call_add_job }, { "add_call", call_add_call },
		{ "add_op", call_add_op }, { "add_chain", call_add_chain },
		{ "add_fence", call_add_fence }, { "add_dep", call_add_dep },
		{ "set_finally", call_set_finally },
		{ "start", call_start },
		{ "cancel of its operation", call_cancel },
		{ "destroy", call_destroy },
	};
	static const char *const columns[] = {
		"empty", "idle", "in flight", "in a step's function",
		"result there, callback due", "in its callback",
		"a step of another",
	};
	struct weir_reactor *r = start_reactor(state);
	struct table_cell c;
	struct table_fixture g;
	struct table t;

	table_open(&t, "docs/internals/dma.md", "chain: call by state", calls,
		   N_OF(calls), columns, N_OF(columns));
	while (table_next(&t, &c)) {
		table_fixture_begin(&g, r, c.column);
		table_result(&c, table_call(&g, &c));
		if (!strcmp(c.then, "gone"))
			assert_null(g.chain);
		table_fixture_end(&g);
		if (c.column == DUE)
			assert_int_equal(g.rec.res, 2);
	}
	table_close(&t);
}

/* A step's function, and the chain's callback: the context cannot go there. */
struct holding {
	struct weir_dma *dma;
	struct rec rec;
	int refused;
};

static void is_held(struct holding *h)
{
	assert_int_equal(weir_dma_destroy(h->dma), -EBUSY);
	assert_non_null(strstr(weir_why(), "steps of chains"));
	h->refused++;
}

static int64_t held_in_step(struct weir_chain *chain, uint32_t step, void *arg)
{
	(void)chain, (void)step;
	is_held(arg);
	return 0;
}

static void held_in_callback(struct weir_op *op, int64_t res)
{
	struct holding *h = weir_container_of(op, struct holding, rec.op);

	is_held(h);
	rec_done(op, res);
}

static void a_context_stays_as_long_as_its_chain(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct holding h = { .dma = start_dma(r, (struct weir_dma_opts){ 0 }) };
	struct weir_chain *chain = NULL, *other = NULL;
	struct weir_job job;
	char bytes[8];
	int n, i;

	rec_init(&h.rec);
	h.rec.op.fn = held_in_callback;
	weir_job_init(&job, NULL);
	weir_job_fill(&job, weir_operand_mem(bytes, sizeof(bytes)), 'x');
	assert_int_equal(weir_chain_create(&chain, r, NULL), 0);
	assert_int_equal(weir_chain_create(&other, r, NULL), 0);
	n = weir_chain_add_call(chain, WEIR_CHAIN_FIRST, held_in_step, &h);
	n = weir_chain_add_job(chain, n, h.dma, &job);
	weir_chain_add_job(chain, n, h.dma, &job);
	weir_chain_add_job(other, WEIR_CHAIN_FIRST, h.dma, &job);
	for (i = 0; i < 2; i++) {
		is_held(&h);
		STARTS(weir_chain_start(chain, &h.rec.op));
		is_held(&h);
		assert_int_equal(finish(r, &h.rec), 3);
	}
	assert_int_equal(h.refused, 8);
	assert_int_equal(weir_chain_destroy(chain), 0);
	is_held(&h);
	assert_int_equal(weir_chain_destroy(other), 0);
	assert_int_equal(weir_dma_destroy(h.dma), 0);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(chain_cancelled_while_it_waits_to_try_again_can_go),
		CASE(failed_start_beyond_the_bound_gives_it_back),
		CASE(bad_arguments_are_refused),
		CASE(steps_run_in_their_order_and_again),
		CASE(a_join_waits_for_all),
		CASE(the_first_failure_is_the_chains),
		CASE(a_failure_has_a_branch_of_its_own),
		CASE(cleanup_step_runs_after_a_failure),
		CASE(finally_steps_run_after_success_and_failure),
		CASE(finally_steps_run_after_cancel_and_deadline),
		CASE(chain_may_have_finally_steps_only),
		CASE(inner_chains_have_finally_steps_of_their_own),
		CASE(finally_steps_that_make_no_sense_are_refused),
		CASE(a_cancel_reaches_what_runs_and_skips_the_rest),
		CASE(a_cancel_may_come_before_the_first_step),
		CASE(a_step_may_cancel_its_own_chain),
		CASE(a_branch_not_taken_is_not_the_cancels),
		CASE(a_step_may_cancel_its_chain_and_then_start),
		CASE(a_deadline_reaches_what_runs),
		CASE(late_chain_runs_no_step),
		CASE(stopping_reactor_ends_a_chain),
		CASE(chain_in_flight_cannot_be_changed),
		CASE(chain_in_flight_is_not_reset),
		CASE(chain_that_was_reset_takes_other_steps),
		CASE(an_operation_may_have_nothing_to_do),
		CASE(chain_waits_for_started_steps_in_any_case),
		CASE(jobs_are_steps),
		CASE(a_job_may_be_a_step_more_than_once),
		CASE(random_graphs_obey_the_rules),
		CASE(random_cancels_end_it_once),
		CASE(a_chain_is_a_step),
		CASE(chains_go_so_deep_and_no_deeper),
		CASE(a_fence_parts_what_is_before_from_what_is_behind),
		CASE(a_step_that_waits_lets_the_reactor_sleep),
		CASE(chain_answers_as_its_state_table_says),
		CASE(a_context_stays_as_long_as_its_chain),
		CASE(failed_chain_call_leaves_nothing_behind),
	};

	return harness_run_all(cases, N_OF(cases));
}
