/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/*
 * Chains, running: who may run next.
 *
 * A step waits for n_waiting dependencies.  When one of them ends, the edge
 * between the two is looked at once: it is as it should be, or the step is
 * unmet and will be skipped.  With the last it goes to the runnable list, from
 * which run() takes it: to begin it, or to skip it.  So there is no recursion,
 * and everything is looked at once: the work is that of steps plus edges.
 */

#include <errno.h>

#include "dma/chain-internal.h"

/* Whether steps wait for the failure of this one is asked at each end. */
static void note_kinds(struct weir_chain *chain)
{
	struct step *s, *end = chain->steps + chain->n_steps;
	struct dep *dep;

	for (s = chain->steps; s < end; s++) {
		s->last = s->n_deps != 0;
		s->has_branch = false;
	}
	for (s = chain->steps; s < end; s++)
		for (dep = s->deps; dep; dep = dep->next) {
			if (dep->on == WEIR_CHAIN_ON_FAILED)
				s->has_branch = true;
			if (dep->on != WEIR_CHAIN_ON_END)
				chain->steps[dep->to].last = false;
		}
}

static void push(struct weir_chain *chain, struct step *s)
{
	s->next = NULL;
	*chain->runnable_last = s;
	chain->runnable_last = &s->next;
}

static struct step *pop(struct weir_chain *chain)
{
	struct step *s = chain->runnable;

	if (!s)
		return NULL;
	chain->runnable = s->next;
	if (!s->next)
		chain->runnable_last = &chain->runnable;
	return s;
}

static void arm_tick(struct weir_chain *chain)
{
	static const struct weir_op_class tick_class = { .name = "chain turn" };

	if (weir_op_is_busy(&chain->tick))
		return;
	op_enlist(chain->r, &chain->tick, &tick_class);
	op_complete(&chain->tick, 0);
}

static bool is_met(uint32_t on, uint32_t state)
{
	switch (on) {
	case WEIR_CHAIN_ON_DONE:
		return state == WEIR_STEP_DONE;
	case WEIR_CHAIN_ON_FAILED:
		return state == WEIR_STEP_FAILED;
	default:
		return true;
	}
}

/* @s has ended: remember how, and tell those who wait for it. */
static void end_step(struct step *s, uint32_t state, int64_t res)
{
	struct weir_chain *chain = s->chain;
	struct step *to;
	struct dep *dep;

	s->state = state;
	s->res = res;
	chain->n_left--;
	if (state == WEIR_STEP_DONE)
		chain->n_done++;
	if (state == WEIR_STEP_FAILED && !s->has_branch && !chain->err) {
		chain->err = res;
		chain->failed_step = (int)(s - chain->steps);
	}
	for (dep = s->deps; dep; dep = dep->next) {
		to = &chain->steps[dep->to];
		if (!is_met(dep->on, state))
			to->unmet = true;
		if (!--to->n_waiting)
			push(chain, to);
	}
}

static void cut_step(struct step *s, uint32_t state, int64_t res)
{
	s->chain->cut = true;
	end_step(s, state, res);
}

/* An ending that a cancel has asked for is the cancel's. */
static void end_begun(struct step *s, int64_t res)
{
	if (res >= 0)
		end_step(s, WEIR_STEP_DONE, res);
	else if (s->chain->cancelled && res == -ECANCELED)
		cut_step(s, WEIR_STEP_CANCELLED, res);
	else
		end_step(s, WEIR_STEP_FAILED, res);
}

/* The job may be a step of other chains too, or another step of this one. */
static int begin_job(struct step *s)
{
	struct weir_job *job = s->job;

	if (unlikely(job->op.state != OP_IDLE))
		return -EINVAL;
	job->op.fn = chain_job_ended;
	job->op.data = s;
	return weir_job_start(s->dma, job);
}

static int begin_op(struct step *s)
{
	struct weir_chain *chain = s->chain;
	int err;

	chain->in_fn = true;
	err = s->start(chain, (uint32_t)(s - chain->steps), &s->op, s->arg);
	chain->in_fn = false;

	/* What is under way has a callback to come, whatever was returned. */
	if (weir_op_is_busy(&s->op))
		return 0;
	return err ? err : -EINVAL;
}

static void begin_call(struct step *s)
{
	struct weir_chain *chain = s->chain;
	int64_t res;

	chain->in_fn = true;
	res = s->call(chain, (uint32_t)(s - chain->steps), s->arg);
	chain->in_fn = false;
	end_begun(s, res);
}

/* Returns false if there is no room for it now. */
static bool begin(struct step *s)
{
	int err;

	s->state = WEIR_STEP_RUNNING;
	if (s->kind == STEP_CALL) {
		begin_call(s);
		return true;
	}
	err = s->kind == STEP_JOB ? begin_job(s) : begin_op(s);
	if (err == -EAGAIN) {
		s->state = WEIR_STEP_IDLE;
		return false;
	}
	if (err)
		end_begun(s, err > 0 ? 0 : err);
	else if (unlikely(s->chain->cancelled))
		weir_op_cancel(s->job ? &s->job->op : &s->op);
	return true;
}

static bool is_skipped(const struct step *s)
{
	return s->unmet || (s->chain->err && !s->last);
}

static void finish(struct weir_chain *chain)
{
	struct weir_op *op = chain->op;
	int64_t res = chain->n_done;

	if (chain->err)
		res = chain->err;
	else if (chain->cut)
		res = -ECANCELED;
	chain->op = NULL;
	op_complete(op, res);
}

/*
 * Begin or skip what can be.  @from_loop: functions of the user's may be
 * called; in a start or a cancel they wait for the tick.  So does what there is
 * no room for now, without holding up what is behind it.
 */
static void run(struct weir_chain *chain, bool from_loop)
{
	struct step *held = NULL, **held_last = &held;
	struct step *s;

	if (chain->in_run)
		return;
	chain->in_run = true;
	while ((s = pop(chain))) {
		if (is_skipped(s)) {
			end_step(s, WEIR_STEP_SKIPPED, 0);
		} else if (chain->cancelled) {
			cut_step(s, WEIR_STEP_SKIPPED, 0);
		} else if ((s->kind != STEP_JOB && !from_loop) || !begin(s)) {
			s->next = NULL;
			*held_last = s;
			held_last = &s->next;
		}
	}
	chain->in_run = false;
	if (held) {
		chain->runnable = held;
		chain->runnable_last = held_last;
		arm_tick(chain);
	}
	if (!chain->n_left)
		finish(chain);
}

void chain_tick(struct weir_op *op, int64_t res)
{
	struct weir_chain *chain = weir_container_of(op, struct weir_chain,
						     tick);

	(void)res;
	if (chain->op)
		run(chain, true);
}

static void step_ended(struct step *s, struct weir_op *op, int64_t res)
{
	s->detail = op->detail;
	end_begun(s, res);
	run(s->chain, true);
}

void chain_job_ended(struct weir_op *op, int64_t res)
{
	step_ended(op->data, op, res);
}

void chain_op_ended(struct weir_op *op, int64_t res)
{
	step_ended(weir_container_of(op, struct step, op), op, res);
}

static void chain_cancel(struct weir_op *op)
{
	struct weir_chain *chain =
		(struct weir_chain *)(uintptr_t)op->u.words[0];
	struct step *s, *end = chain->steps + chain->n_steps;

	chain->cancelled = true;
	for (s = chain->steps; s < end; s++)
		if (s->state == WEIR_STEP_RUNNING && s->kind != STEP_CALL)
			weir_op_cancel(s->job ? &s->job->op : &s->op);
	run(chain, false);
}

static const struct weir_op_class chain_class = {
	.name = "chain",
	.cancel = chain_cancel,
};

static void reset(struct weir_chain *chain)
{
	struct step *s, *end = chain->steps + chain->n_steps;

	note_kinds(chain);
	chain->n_left = chain->n_steps;
	chain->n_done = 0;
	chain->err = 0;
	chain->failed_step = WEIR_CHAIN_FIRST;
	chain->cancelled = chain->cut = false;
	for (s = chain->steps; s < end; s++) {
		s->state = WEIR_STEP_IDLE;
		s->n_waiting = s->n_deps;
		s->unmet = false;
		s->res = 0;
		s->detail = (struct weir_op_detail){ 0 };
		if (!s->n_deps)
			push(chain, s);
	}
}

static int start(struct weir_chain *chain, struct weir_op *op, bool always)
{
	int err;

	if (chain->op)
		return -EBUSY;
	if (!chain->n_steps)
		return -EINVAL;
	err = always ? op_begin_always(chain->r, op, &chain_class) :
		       op_begin(chain->r, op, &chain_class);
	if (err)
		return err;
	op->u.words[0] = (uintptr_t)chain;
	chain->op = op;
	reset(chain);
	run(chain, false);
	return 0;
}

int weir_chain_start(struct weir_chain *chain, struct weir_op *op)
{
	return start(chain, op, false);
}

int chain_start_always(struct weir_chain *chain, struct weir_op *op)
{
	return start(chain, op, true);
}
