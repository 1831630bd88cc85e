/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Chains: steps, the dependencies between them, and who may run next.
 *
 * A step waits for n_waiting dependencies.  When one of them ends, the edge
 * between the two is looked at once: it is as it should be, or the step is
 * unmet and will be skipped.  With the last it goes to the runnable list, from
 * which run() takes it: to begin it, or to skip it.  So there is no recursion,
 * and everything is looked at once: the work is that of steps plus edges.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weir/chain.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "base/why.h"
#include "dma/job-internal.h"

#define STEPS_DEFAULT 8
#define STEPS_MAX 1024
#define DEPS_MAX (64 * STEPS_MAX)

enum step_kind {
	STEP_JOB,
	STEP_CALL,
	STEP_OP,
};

struct dep {
	uint32_t to;		/* The step that waits. */
	uint32_t on;		/* WEIR_CHAIN_ON_ */
	struct dep *next;	/* Of those that wait for the same step. */
};

struct step {
	struct weir_chain *chain;
	uint32_t kind;		/* enum step_kind */
	uint32_t state;		/* WEIR_STEP_ */
	uint32_t n_deps;
	uint32_t n_waiting;	/* Dependencies that have not ended. */
	bool unmet;		/* One of them has not ended as it should. */
	bool last;		/* Waits for the end of others only. */
	bool has_branch;	/* Somebody waits for its failure. */
	struct dep *deps;	/* Who waits for it, in the order of adding. */
	struct dep **deps_last;
	struct step *next;	/* In the runnable list. */

	struct weir_dma *dma;
	struct weir_job *job;
	weir_chain_call_fn *call;
	weir_chain_start_fn *start;
	void *arg;

	int64_t res;
	struct weir_op_detail detail;
	struct weir_op op;	/* Of STEP_OP. */
};

struct weir_chain {
	struct weir_reactor *r;
	void *ctx;
	struct weir_op *op;	/* NULL: not under way. */
	struct step *steps;
	struct dep *deps;
	uint32_t n_steps, steps_max;
	uint32_t n_deps, deps_max;

	/* Of the run. */
	struct step *runnable;
	struct step **runnable_last;
	uint32_t n_left;	/* Steps that have not ended. */
	uint32_t n_done;
	int64_t err;		/* The first failure. */
	int failed_step;
	bool cancelled;
	bool in_run;		/* run() is on the stack. */
	bool in_fn;		/* So is a function of the user's. */
	struct weir_op tick;
	struct reactor_obj obj;
};

static void tick_run(struct weir_op *op, int64_t res);

static int load_opts(struct weir_chain_opts *opts,
		     const struct weir_chain_opts *user)
{
	int err = opts_load(opts, sizeof(*opts), user, "weir_chain_create");

	if (err)
		return err;
	if (!opts->steps)
		opts->steps = STEPS_DEFAULT;
	if (!opts->deps && opts->steps <= STEPS_MAX)
		opts->deps = 2 * opts->steps;
	if (opts->steps > STEPS_MAX || opts->deps > DEPS_MAX)
		return why(-EINVAL, "weir_chain_create: .steps is at most %u, "
			   ".deps %u", STEPS_MAX, DEPS_MAX);
	return 0;
}

static void chain_free(struct weir_chain *chain)
{
	free(chain->steps);
	free(chain->deps);
	free(chain);
}

int weir_chain_create(struct weir_chain **ret, struct weir_reactor *r,
		      const struct weir_chain_opts *user)
{
	struct weir_chain_opts opts;
	struct weir_chain *chain;
	int err;

	err = load_opts(&opts, user);
	if (err)
		return err;
	chain = mem_calloc(1, sizeof(*chain));
	if (!chain)
		return why(-ENOMEM, "weir_chain_create: no memory");
	chain->steps = mem_calloc(opts.steps, sizeof(*chain->steps));
	chain->deps = mem_calloc(opts.deps, sizeof(*chain->deps));
	if (!chain->steps || !chain->deps)
		err = why(-ENOMEM, "weir_chain_create: no memory for %u steps",
			  opts.steps);
	if (!err)
		err = reactor_attach(r, &chain->obj, "chain");
	if (err) {
		chain_free(chain);
		return err;
	}
	chain->r = r;
	chain->ctx = opts.ctx;
	chain->steps_max = opts.steps;
	chain->deps_max = opts.deps;
	chain->runnable_last = &chain->runnable;
	chain->failed_step = WEIR_CHAIN_FIRST;
	weir_op_init(&chain->tick, tick_run);
	*ret = chain;
	return 0;
}

int weir_chain_destroy(struct weir_chain *chain)
{
	if (!chain)
		return 0;
	if (chain->op || chain->in_fn || weir_op_is_busy(&chain->tick))
		return why(-EBUSY, "weir_chain_destroy: the chain is under "
			   "way");
	reactor_detach(&chain->obj);
	chain_free(chain);
	return 0;
}

static void connect(struct weir_chain *chain, struct step *from,
		    struct step *to, uint32_t on)
{
	struct dep *dep = &chain->deps[chain->n_deps++];

	dep->to = (uint32_t)(to - chain->steps);
	dep->on = on;
	*from->deps_last = dep;
	from->deps_last = &dep->next;
	to->n_deps++;
}

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

static int add(struct weir_chain *chain, int after, uint32_t kind,
	       struct step **ret)
{
	struct step *s;

	if (chain->op)
		return -EBUSY;
	if (after < WEIR_CHAIN_FIRST || after >= (int)chain->n_steps)
		return -EINVAL;
	if (chain->n_steps == chain->steps_max ||
	    (after >= 0 && chain->n_deps == chain->deps_max))
		return -ENOSPC;
	s = &chain->steps[chain->n_steps++];
	s->chain = chain;
	s->kind = kind;
	s->deps_last = &s->deps;
	if (after >= 0)
		connect(chain, &chain->steps[after], s, WEIR_CHAIN_ON_DONE);
	*ret = s;
	return (int)chain->n_steps - 1;
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

/* An ending that a cancel has asked for is the cancel's. */
static void end_begun(struct step *s, int64_t res)
{
	if (res >= 0)
		end_step(s, WEIR_STEP_DONE, res);
	else if (s->chain->cancelled && res == -ECANCELED)
		end_step(s, WEIR_STEP_CANCELLED, res);
	else
		end_step(s, WEIR_STEP_FAILED, res);
}

static int begin_op(struct step *s)
{
	struct weir_chain *chain = s->chain;
	int err;

	chain->in_fn = true;
	err = s->start(chain, (uint32_t)(s - chain->steps), &s->op, s->arg);
	chain->in_fn = false;
	if (!err && !weir_op_is_busy(&s->op))
		err = -EINVAL;
	return err;
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
	err = s->kind == STEP_JOB ? weir_job_start(s->dma, s->job) :
				    begin_op(s);
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
	const struct weir_chain *chain = s->chain;

	return s->unmet || chain->cancelled || (chain->err && !s->last);
}

static void finish(struct weir_chain *chain)
{
	struct weir_op *op = chain->op;
	int64_t res = chain->n_done;

	if (chain->err)
		res = chain->err;
	else if (chain->cancelled && chain->n_done < chain->n_steps)
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

static void tick_run(struct weir_op *op, int64_t res)
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

static void job_ended(struct weir_op *op, int64_t res)
{
	step_ended(op->data, op, res);
}

static void op_ended(struct weir_op *op, int64_t res)
{
	step_ended(weir_container_of(op, struct step, op), op, res);
}

int weir_chain_add_job(struct weir_chain *chain, int after,
		       struct weir_dma *dma, struct weir_job *job)
{
	struct step *s;
	int n;

	if (!dma || !job || dma->r != chain->r)
		return -EINVAL;
	n = add(chain, after, STEP_JOB, &s);
	if (n < 0)
		return n;
	s->dma = dma;
	s->job = job;
	job->op.fn = job_ended;
	job->op.data = s;
	return n;
}

int weir_chain_add_call(struct weir_chain *chain, int after,
			weir_chain_call_fn *fn, void *arg)
{
	struct step *s;
	int n;

	if (!fn)
		return -EINVAL;
	n = add(chain, after, STEP_CALL, &s);
	if (n < 0)
		return n;
	s->call = fn;
	s->arg = arg;
	return n;
}

int weir_chain_add_op(struct weir_chain *chain, int after,
		      weir_chain_start_fn *fn, void *arg)
{
	struct step *s;
	int n;

	if (!fn)
		return -EINVAL;
	n = add(chain, after, STEP_OP, &s);
	if (n < 0)
		return n;
	s->start = fn;
	s->arg = arg;
	weir_op_init(&s->op, op_ended);
	return n;
}

int weir_chain_add_dep(struct weir_chain *chain, uint32_t step, uint32_t dep,
		       uint32_t on)
{
	struct dep *d;

	if (chain->op)
		return -EBUSY;
	if (step >= chain->n_steps || dep >= step || !on ||
	    on > WEIR_CHAIN_ON_END)
		return -EINVAL;
	for (d = chain->steps[dep].deps; d; d = d->next)
		if (d->to == step) {
			d->on = on;
			return 0;
		}
	if (chain->n_deps == chain->deps_max)
		return -ENOSPC;
	connect(chain, &chain->steps[dep], &chain->steps[step], on);
	return 0;
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
	chain->cancelled = false;
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

int weir_chain_start(struct weir_chain *chain, struct weir_op *op)
{
	int err;

	if (chain->op)
		return -EBUSY;
	if (!chain->n_steps)
		return -EINVAL;
	err = op_begin(chain->r, op, &chain_class);
	if (err)
		return err;
	op->u.words[0] = (uintptr_t)chain;
	chain->op = op;
	reset(chain);
	run(chain, false);
	return 0;
}

int weir_chain_get_step(const struct weir_chain *chain, uint32_t step,
			struct weir_chain_step *ret)
{
	struct weir_chain_step out;
	const struct step *s;

	if (step >= chain->n_steps || ret->size < sizeof(ret->size))
		return -EINVAL;
	s = &chain->steps[step];
	out = (struct weir_chain_step){
		.size = ret->size,
		.state = s->state,
		.res = s->res,
		.detail = s->detail,
	};
	memcpy(ret, &out, ret->size < sizeof(out) ? ret->size : sizeof(out));
	return 0;
}

int weir_chain_failed_step(const struct weir_chain *chain)
{
	return chain->failed_step;
}

void *weir_chain_ctx(const struct weir_chain *chain)
{
	return chain->ctx;
}
