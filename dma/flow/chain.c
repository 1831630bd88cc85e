/* SPDX-License-Identifier: BSD-3-Clause */
/* Chains, building: steps and the dependencies between them. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/opts.h"
#include "base/why.h"
#include "dma/flow/chain-internal.h"

#define STEPS_DEFAULT 8
#define STEPS_MAX 1024
#define DEPS_MAX (64 * STEPS_MAX)
#define DEPTH_MAX 16

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

int weir_chain_create(struct weir_chain **ret, struct weir_reactor *r,
		      const struct weir_chain_opts *user)
{
	struct weir_chain_opts opts;
	struct weir_chain *chain;
	size_t used, rest;
	int err;

	err = load_opts(&opts, user);
	if (err)
		return err;
	/* In one piece, and what few steps have is not touched yet: programs make chains
	 * for each request. */
	used = sizeof(*chain) + opts.steps * sizeof(*chain->steps);
	rest = opts.deps * sizeof(*chain->deps) +
	       opts.steps * sizeof(*chain->away);
	chain = fault("malloc") ? NULL : malloc(used + rest);
	if (!chain)
		return why(-ENOMEM, "weir_chain_create: no memory for %u steps",
			   opts.steps);
	memset(chain, 0, used);
	err = reactor_attach(r, &chain->obj, "weir_chain");
	if (err) {
		free(chain);
		return err;
	}
	chain->steps = (struct step *)(chain + 1);
	chain->deps = (struct dep *)(chain->steps + opts.steps);
	chain->away = (struct step_away *)(chain->deps + opts.deps);
	chain->r = r;
	chain->ctx = opts.ctx;
	chain->steps_max = opts.steps;
	chain->deps_max = opts.deps;
	chain->runnable_last = &chain->runnable;
	chain->failed_step = WEIR_CHAIN_FIRST;
	chain->fence = WEIR_CHAIN_FIRST;
	chain->tick.fn = chain_tick;
	*ret = chain;
	return 0;
}

/* Drop the references of the steps to contexts and chains. */
static void let_go(struct weir_chain *chain)
{
	struct step *s, *end = chain->steps + chain->n_steps;

	for (s = chain->steps; s < end; s++) {
		if (s->kind == STEP_HOP) {
			hop_part(s);
			atomic_fetch_sub(&s->dma->n_hops, 1);
		} else if (s->dma) {
			s->dma->n_steps--;
		}
		if (s->start == chain_start_inner)
			((struct weir_chain *)s->arg)->n_parents--;
	}
}

/* 0, or -EBUSY with a message of @call: the steps of @chain are needed. */
static int check_unused(const struct weir_chain *chain, const char *call)
{
	if (chain->op || chain->in_fn || weir_op_is_busy(&chain->tick))
		return why(-EBUSY, "%s: the chain is in flight", call);
	if (chain->n_parents)
		return why(-EBUSY, "%s: the chain is a step of another; destroy "
			   "that first", call);
	return 0;
}

/* The steps that were used are zeroed, as by chain_create(). */
int weir_chain_reset(struct weir_chain *chain)
{
	int err = check_unused(chain, "weir_chain_reset");

	if (err)
		return err;
	let_go(chain);
	memset(chain->steps, 0, chain->n_steps * sizeof(*chain->steps));
	chain->n_steps = chain->n_deps = chain->depth = 0;
	chain->failed_step = chain->fence = WEIR_CHAIN_FIRST;
	return 0;
}

int weir_chain_destroy(struct weir_chain *chain)
{
	int err;

	if (!chain)
		return 0;
	err = check_unused(chain, "weir_chain_destroy");
	if (err)
		return err;
	let_go(chain);
	reactor_detach(&chain->obj);
	free(chain);
	return 0;
}

static void connect(struct weir_chain *chain, struct step *from,
		    struct step *to, uint32_t on)
{
	struct dep *dep = &chain->deps[chain->n_deps++];

	debug_check(chain->n_deps <= chain->deps_max && from < to);
	*dep = (struct dep){ .to = (uint32_t)(to - chain->steps), .on = on };
	*from->deps_last = dep;
	from->deps_last = &dep->next;
	to->n_deps++;
}

/* The chain is in flight, or a step of another chain, which depends on its
 * steps. */
static bool is_sealed(const struct weir_chain *chain)
{
	return chain->op || chain->n_parents;
}

static struct step *append(struct weir_chain *chain, uint32_t kind)
{
	struct step *s = &chain->steps[chain->n_steps++];

	debug_check(chain->n_steps <= chain->steps_max);
	s->chain = chain;
	s->kind = kind;
	s->deps_last = &s->deps;
	s->capacity.fn = chain_capacity;
	if (kind == STEP_OP || kind == STEP_HOP) {
		s->away = &chain->away[s - chain->steps];
		memset(s->away, 0, sizeof(*s->away));
		s->away->step = s;
		s->away->op.fn = chain_op_ended;
	}
	chain->changed = true;
	return s;
}

static int why_sealed(const char *call, const struct weir_chain *chain)
{
	return why(-EBUSY, "%s: the chain is %s", call, chain->op ?
		   "in flight; wait for its end" :
		   "a step of another, and stays as it is");
}

static int why_full(const char *call, const struct weir_chain *chain)
{
	return why(-ENOSPC, "%s: %u of %u steps and %u of %u dependencies are "
		   "there; create it with larger .steps or .deps", call,
		   chain->n_steps, chain->steps_max, chain->n_deps,
		   chain->deps_max);
}

/* Likely the errno of the call before, which the caller has not checked. */
static int why_no_step(const char *call, const struct weir_chain *chain,
		       int after)
{
	if (after < 0)
		return why(-EINVAL, "%s: after is %d, %s: no step, but what "
			   "an earlier call has failed with", call, after,
			   strerror(-after));
	return why(-EINVAL, "%s: after is %d, and the chain has %u steps",
		   call, after, chain->n_steps);
}

/* A step that comes after one behind the fence needs no edge to the fence. */
static int add(const char *call, struct weir_chain *chain, int after,
	       uint32_t kind, struct step **ret)
{
	bool fenced = after < chain->fence;
	struct step *s;
	uint32_t on;

	if (is_sealed(chain))
		return why_sealed(call, chain);
	if (after < WEIR_CHAIN_FIRST || after >= (int)chain->n_steps)
		return why_no_step(call, chain, after);
	if (chain->n_steps == chain->steps_max ||
	    chain->deps_max - chain->n_deps < (uint32_t)(after >= 0) + fenced)
		return why_full(call, chain);
	s = append(chain, kind);
	s->finally = after >= 0 && chain->steps[after].finally;
	on = s->finally ? WEIR_CHAIN_ON_END : WEIR_CHAIN_ON_DONE;
	if (fenced)
		connect(chain, &chain->steps[chain->fence], s, on);
	if (after >= 0)
		connect(chain, &chain->steps[after], s, on);
	*ret = s;
	return (int)chain->n_steps - 1;
}

int weir_chain_add_job(struct weir_chain *chain, int after,
		       struct weir_dma *dma, struct weir_job *job)
{
	struct step *s;
	int n;

	if (!dma || !job)
		return why(-EINVAL, "weir_chain_add_job: dma or job is NULL");
	n = add("weir_chain_add_job", chain, after,
		dma->r == chain->r ? STEP_JOB : STEP_HOP, &s);
	if (n < 0)
		return n;
	s->dma = dma;
	s->job = job;
	if (s->kind == STEP_HOP)
		atomic_fetch_add(&dma->n_hops, 1);
	else
		dma->n_steps++;
	return n;
}

int weir_chain_add_call(struct weir_chain *chain, int after,
			weir_chain_call_fn *fn, void *arg)
{
	struct step *s;
	int n;

	if (!fn)
		return why(-EINVAL, "weir_chain_add_call: fn is NULL");
	n = add("weir_chain_add_call", chain, after, STEP_CALL, &s);
	if (n < 0)
		return n;
	s->call = fn;
	s->arg = arg;
	return n;
}

int chain_add_op(const char *call, struct weir_chain *chain, int after,
		 weir_chain_start_fn *fn, void *arg)
{
	struct step *s;
	int n;

	n = add(call, chain, after, STEP_OP, &s);
	if (n < 0)
		return n;
	s->start = fn;
	s->arg = arg;
	return n;
}

int weir_chain_add_op(struct weir_chain *chain, int after,
		      weir_chain_start_fn *fn, void *arg)
{
	if (!fn)
		return why(-EINVAL, "weir_chain_add_op: fn is NULL");
	return chain_add_op("weir_chain_add_op", chain, after, fn, arg);
}

int chain_start_inner(struct weir_chain *chain, uint32_t step,
		      struct weir_op *op, void *arg)
{
	reactor_check_thread(chain->r);
	(void)chain, (void)step;
	return weir_chain_start(arg, op);
}

/* A step of another is sealed, so no chain can get into itself. */
int weir_chain_add_chain(struct weir_chain *chain, int after,
			 struct weir_chain *inner)
{
	int n;

	if (!inner || inner->r != chain->r || !inner->n_steps)
		return why(-EINVAL, "weir_chain_add_chain: inner is NULL, of "
			   "another reactor, or has no steps");
	if (inner == chain)
		return why(-EPERM, "weir_chain_add_chain: a chain is no step "
			   "of itself");
	if (inner->depth + 1 > DEPTH_MAX)
		return why(-EMSGSIZE, "weir_chain_add_chain: chains would be "
			   "in chains more than %d deep", DEPTH_MAX);
	n = chain_add_op("weir_chain_add_chain", chain, after,
			 chain_start_inner, inner);
	if (n < 0)
		return n;
	inner->n_parents++;
	if (chain->depth < inner->depth + 1)
		chain->depth = inner->depth + 1;
	return n;
}

/* Whether a fence has to wait for @s itself: a step that has dependants ends
 * before them, and finally steps come after all others. */
static bool is_leaf(const struct step *s)
{
	const struct dep *d = s->deps;

	while (d && s->chain->steps[d->to].finally)
		d = d->next;
	return !d && !s->finally;
}

static uint32_t n_leaves(const struct weir_chain *chain)
{
	uint32_t i, n = 0;

	for (i = 0; i < chain->n_steps; i++)
		n += is_leaf(&chain->steps[i]);
	return n;
}

int weir_chain_add_fence(struct weir_chain *chain)
{
	struct step *s, *fence;

	if (is_sealed(chain))
		return why_sealed("weir_chain_add_fence", chain);
	if (!chain->n_steps)
		return why(-EINVAL, "weir_chain_add_fence: there is no step "
			   "before it");
	if (chain->n_steps == chain->steps_max ||
	    chain->deps_max - chain->n_deps < n_leaves(chain))
		return why_full("weir_chain_add_fence", chain);
	fence = append(chain, STEP_FENCE);
	for (s = chain->steps; s < fence; s++)
		if (is_leaf(s))
			connect(chain, s, fence, WEIR_CHAIN_ON_END);
	chain->fence = (int)chain->n_steps - 1;
	return chain->fence;
}

int weir_chain_add_dep(struct weir_chain *chain, uint32_t step, uint32_t dep,
		       uint32_t on)
{
	struct dep *d;

	if (is_sealed(chain))
		return why_sealed("weir_chain_add_dep", chain);
	if (step >= chain->n_steps || dep >= step || !on ||
	    on > WEIR_CHAIN_ON_END)
		return why(-EINVAL, "weir_chain_add_dep: step %u cannot wait "
			   "for %u with %u: a step waits for an earlier one, "
			   "on WEIR_CHAIN_ON_DONE, _FAILED or _END", step, dep,
			   on);
	if (chain->steps[step].finally ? on != WEIR_CHAIN_ON_END :
					 chain->steps[dep].finally)
		return why(-EINVAL, "weir_chain_add_dep: a finally step waits "
			   "for others on WEIR_CHAIN_ON_END, and only finally "
			   "steps wait for one");
	chain->changed = true;
	for (d = chain->steps[dep].deps; d; d = d->next)
		if (d->to == step) {
			d->on = on;
			return 0;
		}
	if (chain->n_deps == chain->deps_max)
		return why_full("weir_chain_add_dep", chain);
	connect(chain, &chain->steps[dep], &chain->steps[step], on);
	return 0;
}

static bool may_be_finally(const struct weir_chain *chain, uint32_t step)
{
	const struct dep *d;

	if (step >= chain->n_steps || chain->steps[step].kind == STEP_FENCE)
		return false;
	for (d = chain->steps[step].deps; d; d = d->next)
		if (!chain->steps[d->to].finally)
			return false;
	return true;
}

int weir_chain_set_finally(struct weir_chain *chain, uint32_t step)
{
	uint32_t i;

	if (is_sealed(chain))
		return why_sealed("weir_chain_set_finally", chain);
	if (!may_be_finally(chain, step))
		return why(-EINVAL, "weir_chain_set_finally: there is no step "
			   "%u, it is a fence, or a step that is no finally "
			   "step comes after it", step);
	chain->changed = true;
	chain->steps[step].finally = true;
	for (i = 0; i < chain->n_deps; i++)
		if (chain->deps[i].to == step)
			chain->deps[i].on = WEIR_CHAIN_ON_END;
	return 0;
}

int weir_chain_get_step(const struct weir_chain *chain, uint32_t step,
			struct weir_chain_step *ret)
{
	struct weir_chain_step out;
	const struct step *s;

	if (step >= chain->n_steps)
		return why(-EINVAL, "weir_chain_get_step: there is no step %u; "
			   "the chain has %u", step, chain->n_steps);
	s = &chain->steps[step];
	out = (struct weir_chain_step){
		.size = sizeof(out),
		.state = s->state,
		.res = s->res,
		.detail = s->detail,
		.engine = s->engine,
	};
	return opts_give(ret, &out, sizeof(out), "weir_chain_get_step");
}

int weir_chain_failed_step(const struct weir_chain *chain)
{
	return chain->failed_step;
}

void *weir_chain_ctx(const struct weir_chain *chain)
{
	return chain->ctx;
}
