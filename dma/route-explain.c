/* SPDX-License-Identifier: BSD-3-Clause */
/* The plan for a job in words, with the reason why each better one is none. */

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <weir/route.h>

#include "dma/bounce.h"
#include "dma/route.h"

/* Text that is cut off where there is no more capacity. */
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
		why = "not this";
		e->kind->ops.can(e->arg, &a->q, &why);
		say(t, "%s%s: %s", i ? "; " : what, e->kind->ops.name, why);
	}
	if (!a->engine && !route_own(dma, &a->q))
		say(t, "; nothing in this program reaches that domain: link "
		    "libweir-rdma for a peer");
	if (i)
		say(t, "\n");
}

static const char *name_of(const struct answers *a)
{
	return a->engine->kind->ops.name;
}

/* What the operands beside are for. */
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
		say(t, "pull by %s", name_of(&s->plan.pull));
		comma = ", ";
	}
	if (s->plan.push.asked) {
		say(t, "%s%s by %s", comma, compares ? "pull" : "push",
		    name_of(&s->plan.push));
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

	say(t, "%s: by %s\n", words[plan->route], name_of(&plan->direct));
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
		say(t, "by %s\n", name_of(&plan->direct));
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

/* As weir_job_start() does, but without counting a refusal. */
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
