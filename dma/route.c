/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The route of a job, as a pure function of its description; and the same
 * function in words.
 */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <weir/route.h>

#include "base/opts.h"
#include "base/why.h"
#include "dma/bounce.h"
#include "dma/route.h"

/*
 * The route of a job, as a pure function of its description.  Either one engine
 * does all of it, or the job bounces: one engine moves blocks between the
 * source and staging memory, and another between staging memory and the
 * destination.
 */

/*
 * Returns the one engine of the library's own that may be able to, or NULL.
 * Each serves foreign domains that no other serves, so one is to be asked, and
 * not all; between domains of two of them none can.
 */
static const struct engine *route_own(const struct weir_dma *dma,
			       const struct weir_engine_query *q)
{
	const struct weir_domain *d = is_foreign(q->src) ? q->src : q->dst;
	const struct engine *e = &dma->engines[ENGINE_CPU];
	const struct engine *end = &dma->engines[dma->n_own];

	if (!is_foreign(d))
		return e;
	for (e++; e < end; e++)
		if (e->kind->serves == d->cls)
			return e;
	return NULL;
}

/* Whether @e can; or else *@why. */
static bool can(const struct engine *e, const struct weir_engine_query *q,
		const char **why)
{
	*why = "not this";
	return e->kind->ops.can(e->arg, q, why);
}

/* The same of an engine of the user's. */
static bool user_can(const struct engine *e, const struct weir_engine_query *q,
		     const char **why)
{
	if (e->kind->ops.flags & WEIR_ENGINE_FOREIGN && !is_foreign(q->src) &&
	    !is_foreign(q->dst)) {
		*why = "not asked about memory of this process";
		return false;
	}
	if (e->kind->ops.flags & WEIR_ENGINE_NO_FILES &&
	    ((q->src && domain_is_file(q->src)) ||
	     (q->dst && domain_is_file(q->dst)))) {
		*why = "not asked about files";
		return false;
	}
	return can(e, q, why);
}

/* Ask one after the other for the first that can. */
static void ask(const struct weir_dma *dma, struct answers *ret)
{
	const struct engine *e = route_own(dma, &ret->q);
	const char *why;
	uint32_t i;

	ret->asked = true;
	for (i = dma->n_own; i < dma->n_engines; i++) {
		ret->engine = (struct engine *)&dma->engines[i];
		if (user_can(ret->engine, &ret->q, &why))
			return;
	}
	ret->engine = e && can(e, &ret->q, &why) ? (struct engine *)e : NULL;
}

/* The engine that moves a block of one side to or from staging. */
static bool ask_half(const struct weir_dma *dma,
		     const struct weir_engine_query *whole,
		     const struct weir_domain *src,
		     const struct weir_domain *dst, struct answers *ret)
{
	ret->q = (struct weir_engine_query){
		.size = sizeof(ret->q),
		.kind = WEIR_JOB_COPY,
		.src = src,
		.dst = dst,
		.bytes = whole->bytes < dma->staging_size ? whole->bytes :
							    dma->staging_size,
		.n_src = 1,
		.n_dst = 1,
	};
	ask(dma, ret);
	return ret->engine != NULL;
}

static bool any_foreign(const struct weir_job *job,
			const struct weir_engine_query *q)
{
	uint32_t i;

	for (i = 0; i < q->n_extra; i++)
		if (is_foreign(operand_domain(&job->more[i])))
			return true;
	return is_foreign(q->src) || is_foreign(q->dst);
}

/* Why it is not for staging at all, or NULL. */
static const char *no_bounce(const struct weir_job *job,
			     const struct weir_engine_query *q)
{
	if (q->kind == WEIR_JOB_PULL || q->kind == WEIR_JOB_PUSH)
		return "a pull or a push is one step, not two";
	if (kind_is_user(q->kind) &&
	    kind_find(q->kind)->flags & WEIR_KIND_WHOLE)
		return "its kind needs all of both sides in memory";
	if (kind_is_atomic(q->kind))
		return "an atomic in two steps would be none";
	if (q->flags & WEIR_JOB_SIGNAL)
		return "a signal goes with one step, not two";
	return any_foreign(job, q) ? NULL :
				     "all sides are memory of this process";
}

/* An engine is asked about two domains only, so it does no job that has more,
 * and no atomic on a word that others change by other means. */
static const char *no_direct(const struct weir_job *job,
			     const struct weir_engine_query *q)
{
	const struct weir_domain *like = q->kind == WEIR_JOB_XOR ? q->src :
								   q->dst;
	uint32_t i;

	if (unlikely(kind_is_atomic(q->kind)))
		return atomic_refuse(job);
	for (i = 0; i < q->n_extra; i++)
		if (!operand_is_like(operand_domain(&job->more[i]), like))
			return "its operands are of several domains";
	return NULL;
}

/* The engines that move the extra operands. */
static bool ask_more(const struct weir_dma *dma, const struct weir_job *job,
		     const struct weir_engine_query *q, struct plan *plan)
{
	const struct weir_domain *here = weir_domain_system(), *there;
	bool in = q->kind == WEIR_JOB_XOR;
	uint32_t i;

	for (i = 0; i < q->n_extra; i++) {
		there = operand_domain(&job->more[i]);
		plan->more[i] = 0;
		if (!is_foreign(there))
			continue;
		if (!ask_half(dma, q, in ? there : here, in ? here : there,
			      &plan->beside))
			return false;
		plan->more[i] = (uint8_t)(plan->beside.engine - dma->engines +
					  1);
	}
	return true;
}

static bool plan_bounce(const struct weir_dma *dma, const struct weir_job *job,
			const struct weir_engine_query *q, struct plan *plan)
{
	const struct weir_domain *here = weir_domain_system();
	bool compares = q->kind == WEIR_JOB_COMPARE;
	bool ok = true;

	plan->no_bounce = no_bounce(job, q);
	if (plan->no_bounce)
		return false;
	if (is_foreign(q->src))
		ok = ask_half(dma, q, q->src, here, &plan->pull);
	if (is_foreign(q->dst))
		ok &= compares ?
			ask_half(dma, q, q->dst, here, &plan->push) :
			ask_half(dma, q, here, q->dst, &plan->push);
	return ok & ask_more(dma, job, q, plan);
}

static uint32_t direct_route(const struct weir_engine_query *q)
{
	if (is_foreign(q->src) && q->dst && !is_foreign(q->dst))
		return WEIR_ROUTE_PULL;
	if (q->src && !is_foreign(q->src) && is_foreign(q->dst))
		return WEIR_ROUTE_PUSH;
	return WEIR_ROUTE_DIRECT;
}

void route_plan(const struct weir_dma *dma, const struct weir_job *job,
		struct plan *plan)
{
	const struct weir_engine_query *q = &plan->direct.q;

	reactor_check_thread(dma->r);
	plan->route = 0;
	plan->direct.engine = NULL;
	plan->pull.asked = false;
	plan->pull.engine = NULL;
	plan->push.asked = false;
	plan->push.engine = NULL;
	plan->beside.asked = false;
	plan->no_direct = no_direct(job, q);
	if (likely(!plan->no_direct))
		ask(dma, &plan->direct);
	plan->engine = plan->direct.engine;
	if (likely(plan->engine)) {
		plan->route = direct_route(q);
	} else if (plan_bounce(dma, job, q, plan)) {
		plan->engine = (struct engine *)&dma->bounce;
		plan->route = WEIR_ROUTE_BOUNCE;
	}
}

void route_translate(const struct weir_dma *dma, struct plan *plan)
{
	reactor_check_thread(dma->r);
	plan->engine = (struct engine *)&dma->translate;
	plan->route = WEIR_ROUTE_TRANSLATE;
}

static const char *name_of(const struct engine *e)
{
	return e ? e->kind->ops.name : NULL;
}

void route_note(struct weir_job *job, const struct plan *plan)
{
	struct job_route *route = job_route(job);

	*route = (struct job_route){
		.route = (uint8_t)plan->route,
		.engine = name_of(plan->engine),
		.import = route->import,
	};
	if (unlikely(plan->route == WEIR_ROUTE_BOUNCE))
		bounce_prepare(job, plan->pull.engine, plan->push.engine,
			       plan->more);
}

int weir_job_get_route(const struct weir_job *job, struct weir_job_route *ret)
{
	const struct job_route *route = job_route((struct weir_job *)job);
	struct weir_job_route own = { .route = route->route };
	int err = opts_capacity(ret, "weir_job_get_route");

	if (err)
		return err;
	if (weir_op_is_busy(&job->op))
		return why(-EINVAL, "weir_job_get_route: the job is in flight; "
			   "ask in its callback");
	if (!route->route)
		return why(-ENOENT, "weir_job_get_route: the job has never been "
			   "started");
	own.engine = route->engine;
	own.pull = route->pull;
	own.push = route->push;
	own.steps = route->steps;
	own.refused = route->refused;
	own.bounced = route->bounced;
	return opts_give(ret, &own, sizeof(own), "weir_job_get_route");
}

/* The plan for a job in words, with the reason why each better one is none. */

/* A text buffer; what does not fit is cut off. */
struct text {
	char *at;
	size_t left;
};

__attribute__((format(printf, 2, 3)))
static void say(struct text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(t->at, t->left, fmt, ap);
	va_end(ap);
	if (n < 0 || !t->left)
		return;
	if ((size_t)n >= t->left)
		n = (int)t->left - 1;
	t->at += n;
	t->left -= (size_t)n;
}

/* Whether an engine of @dma copies between memory and the foreign domain of @q, a
 * peer, say. */
static bool is_reached(const struct weir_dma *dma,
		       const struct weir_engine_query *q)
{
	const struct weir_domain *d = is_foreign(q->src) ? q->src : q->dst;
	struct answers copy = { .q = *q };

	if (!is_foreign(d))
		return true;
	copy.q.kind = WEIR_JOB_COPY;
	copy.q.flags = 0;
	copy.q.src = d;
	copy.q.dst = weir_domain_system();
	copy.q.n_src = copy.q.n_dst = 1;
	copy.q.n_extra = 0;
	ask(dma, &copy);
	return copy.engine != NULL;
}

/* Why no engine, or none in front of the one that can. */
static void say_whys(struct text *t, const struct weir_dma *dma,
		     const struct answers *a, const char *what)
{
	const struct engine *e;
	const char *why;
	uint32_t i;

	for (i = 0; i < dma->n_engines; i++) {
		e = engine_at(dma, i);
		if (e == a->engine)
			break;
		user_can(e, &a->q, &why);
		say(t, "%s%s: %s", i ? "; " : what, e->kind->ops.name, why);
	}
	if (!a->engine && !is_reached(dma, &a->q))
		say(t, "; nothing in this program reaches that domain: link "
		    "libweir-rdma for a peer");
	if (i)
		say(t, "\n");
}

static const char *answer_name(const struct answers *a)
{
	return a->engine->kind->ops.name;
}

/* The step of the further operands. */
static const char *extra_word(const struct weir_job *job)
{
	return job->kind == WEIR_JOB_XOR ? "pull" : "push";
}

static void say_bounce(struct text *t, const struct weir_dma *dma,
		       const struct weir_job *job, const struct job_shape *s)
{
	uint64_t size = dma->staging_size;
	uint64_t n = (s->total + size - 1) / size;
	bool compares = job->kind == WEIR_JOB_COMPARE;
	const char *comma = "";
	char now[200];
	uint32_t i;

	say(t, "bounce: ");
	if (s->plan.pull.asked) {
		say(t, "pull by %s", answer_name(&s->plan.pull));
		comma = ", ";
	}
	if (s->plan.push.asked) {
		say(t, "%s%s by %s", comma, compares ? "pull" : "push",
		    answer_name(&s->plan.push));
		comma = ", ";
	}
	for (i = 0; i < job->n_extra; i++) {
		if (!s->plan.more[i])
			continue;
		say(t, "%s%s by %s", comma, extra_word(job),
		    dma->engines[s->plan.more[i] - 1].kind->ops.name);
		comma = ", ";
	}
	say(t, ", %llu block%s of %u bytes\n", (unsigned long long)n,
	    n == 1 ? "" : "s", dma->staging_size);
	bounce_say(dma, job, now, sizeof(now));
	if (*now)
		say(t, "  now: %s\n", now);
}

static void say_direct(struct text *t, const struct plan *plan)
{
	static const char *const words[] = {
		[WEIR_ROUTE_DIRECT] = "direct",
		[WEIR_ROUTE_PULL] = "pull",
		[WEIR_ROUTE_PUSH] = "push",
	};

	say(t, "%s: by %s\n", words[plan->route], answer_name(&plan->direct));
}

/* Whether it would, were it not for translation. */
static bool bounces(const struct plan *plan)
{
	return !plan->direct.engine && !plan->no_bounce &&
	       (!plan->pull.asked || plan->pull.engine) &&
	       (!plan->push.asked || plan->push.engine) &&
	       (!plan->beside.asked || plan->beside.engine);
}

static void say_plan(struct text *t, const struct weir_dma *dma,
		     const struct weir_job *job, const struct job_shape *s)
{
	const struct plan *plan = &s->plan;

	if (plan->route == WEIR_ROUTE_TRANSLATE)
		say(t, "translate: if the domain says where it is in memory; "
		    "else ");
	if (plan->route == WEIR_ROUTE_TRANSLATE && plan->direct.engine)
		say(t, "by %s\n", answer_name(&plan->direct));
	else if (plan->route == WEIR_ROUTE_TRANSLATE && !bounces(plan))
		say(t, "none\n");
	else if (plan->route == WEIR_ROUTE_BOUNCE ||
		 plan->route == WEIR_ROUTE_TRANSLATE)
		say_bounce(t, dma, job, s);
	else if (plan->route)
		say_direct(t, plan);
	else
		say(t, "none\n");
	if (plan->no_direct)
		say(t, "  not direct: %s\n", plan->no_direct);
	else
		say_whys(t, dma, &plan->direct, "  not direct: ");
	if (plan->direct.engine || bounces(plan))
		return;
	if (plan->no_bounce)
		say(t, "  no bounce: %s\n", plan->no_bounce);
	if (plan->pull.asked && !plan->pull.engine)
		say_whys(t, dma, &plan->pull, "  no pull of the source: ");
	if (plan->push.asked && !plan->push.engine)
		say_whys(t, dma, &plan->push,
			 job->kind == WEIR_JOB_COMPARE ?
				 "  no pull of the other: " :
				 "  no push to the destination: ");
	if (plan->beside.asked && !plan->beside.engine)
		say_whys(t, dma, &plan->beside, "  no way for one beside: ");
}

/* The same checks as in weir_job_start(), without counting a refusal. */
static int may_start(const struct weir_dma *dma, const struct weir_job *job)
{
	const struct weir_reactor *r = dma->r;

	if (dma->state != WEIR_DMA_RUNNING)
		return -EBADFD;
	if (!job->op.fn)
		return -EINVAL;
	if (r->attention & ATTENTION_STOPPING)
		return -ESHUTDOWN;
	return dma->n_jobs >= dma->jobs_max || r->n_begun >= r->begun_max ?
		       -EAGAIN : 0;
}

int weir_route_explain(struct weir_dma *dma, const struct weir_job *job,
		       char *text, size_t len)
{
	struct text t = { text, len };
	struct job_shape s = { .planned = false };
	char words[240];
	int err;

	if (len)
		*text = '\0';
	err = weir_op_is_busy(&job->op) ? -EINVAL : job_check(dma, job, &s);
	if (!err)
		err = may_start(dma, job);
	if (err) {
		refusal_say(words, sizeof(words), job, &s, err);
		say(&t, "refused: %s: %s\n", strerror(-err), words);
	}
	if (s.planned)
		say_plan(&t, dma, job, &s);
	return err;
}
