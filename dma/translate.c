/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs over a user's domain that can translate its addresses to memory of this
 * process: they are done in that memory, without pulls or pushes.
 *
 * An engine in front of the others: it asks the domain, and passes the job on
 * to the engine for the translated places.  If the domain does not translate,
 * the job takes the route that it would have taken without this engine.  A
 * translation is invalidated once, when the job ends or its start fails.
 */

#include <errno.h>
#include <stdlib.h>

#include <weir/route.h>

#include "base/alloc.h"
#include "dma/route.h"

#define TRANSLATED_MAX 64	/* Jobs at once; others wait. */

/* The translated places of both sides. */
struct translated {
	struct weir_translation t[2];
	struct weir_operand operand[2];
	struct translated *next;	/* In the list of free ones. */
};

int translate_create(struct weir_dma *dma)
{
	uint32_t i;

	reactor_check_thread(dma->r);
	dma->translated = mem_calloc(TRANSLATED_MAX, sizeof(*dma->translated));
	if (!dma->translated)
		return -ENOMEM;
	for (i = 0; i < TRANSLATED_MAX; i++) {
		dma->translated[i].next = dma->translated_free;
		dma->translated_free = &dma->translated[i];
	}
	return 0;
}

static bool is_memory(const struct weir_translation *t)
{
	return t->domain && domain_is_memory(t->domain);
}

bool translate_may(const struct weir_operand *operand)
{
	const struct weir_domain *domain = operand_domain(operand);

	if (operand->buf || !domain_is_user(domain))
		return false;
	if (operand->translation && is_memory(operand->translation))
		return true;
	return operand->n_iov < 2 &&
	       domain_to_user((struct weir_domain *)domain)->translate;
}

/* The whole side of @c, as the caller has translated it. */
static int take_known(struct weir_operand *ret,
		      const struct weir_translation *t, const struct cursor *c)
{
	const struct iovec *iov = weir_translation_iov(t);
	uint64_t total = 0;
	uint32_t i;

	if (!t->n_iov || t->n_iov > WEIR_JOB_PIECES_MAX)
		return -EMSGSIZE;
	for (i = 0; i < t->n_iov; i++)
		total += iov[i].iov_len;
	if (total != c->left)
		return -EMSGSIZE;
	*ret = weir_operand_iov(t->domain, iov, t->n_iov);
	return 0;
}

static int ask_domain(struct weir_operand *ret, struct weir_translation *t,
		      const struct cursor *c)
{
	int err;

	t->size = sizeof(*t);
	err = weir_domain_translate(operand_domain(c->operand), c->operand->ctx,
				    weir_domain_system(), NULL, c->addr,
				    c->left, t);
	if (err)
		return err;
	if (is_memory(t) && t->n_iov <= WEIR_JOB_PIECES_MAX) {
		*ret = weir_operand_iov(t->domain, weir_translation_iov(t),
					t->n_iov);
		return 0;
	}
	weir_domain_invalidate(t);
	return -EXDEV;
}

/* Have @c go where its side really is. */
static int translate_side(const struct weir_dma *dma, struct translated *r,
			  int i, struct cursor *c, struct operand_info *info)
{
	const struct weir_operand *operand = c->operand;
	uint64_t n = c->left;
	int err;

	if (!c->side || !translate_may(operand))
		return -EOPNOTSUPP;
	if (operand->translation && is_memory(operand->translation))
		err = take_known(&r->operand[i], operand->translation, c);
	else
		err = ask_domain(&r->operand[i], &r->t[i], c);
	if (!err)
		err = operand_check(&r->operand[i], (enum operand_side)c->side,
				    dma->r, info);
	if (err)
		return err;
	cursor_init(c, &r->operand[i], (enum operand_side)c->side, n);
	return 0;
}

static void give_back(struct weir_dma *dma, struct translated *r)
{
	weir_domain_invalidate(&r->t[0]);
	weir_domain_invalidate(&r->t[1]);
	r->next = dma->translated_free;
	dma->translated_free = r;
}

/* The job as it is now, for the checks of its new engine. */
static void describe(const struct weir_job *job, struct weir_job *ret,
		     struct job_shape *s)
{
	const struct job_priv *p = job_priv((struct weir_job *)job);

	ret->kind = job->kind;
	ret->flags = job->flags;
	ret->n_extra = 0;
	if (p->src.side)
		ret->src = *p->src.operand;
	if (p->dst.side)
		ret->dst = *p->dst.operand;
	s->src_side = (enum operand_side)p->src.side;
	s->dst_side = (enum operand_side)p->dst.side;
	s->total = p->total;
}

static int check_sides(const struct weir_dma *dma, struct weir_job *job,
		       struct job_shape *s)
{
	struct operand_part src = { &job->src, s->src_side, &s->src };
	struct operand_part dst = { &job->dst, s->dst_side, &s->dst };

	if (s->src_side && s->dst_side && s->dst_side != OPERAND_SRC &&
	    operand_overlap(&src, &dst, kind_is_user(job->kind) ? INT64_MAX :
								 s->total))
		return -EINVAL;
	if (s->dst_side == OPERAND_UPDATE && atomic_check(job, s->total))
		return -EINVAL;
	return job_plan(dma, job, s, false);
}

/* A side that was checked already, and that may be anywhere. */
static struct operand_info unknown(const struct cursor *c)
{
	return (struct operand_info){
		.domain = operand_domain(c->operand),
		.total = c->left,
		.hi = UINT64_MAX,
		.n_pieces = 1,
	};
}

/* The engine for @job at the places where it really is. */
static int plan_rest(const struct weir_dma *dma, struct weir_job *job,
		     struct translated *r, struct job_shape *s, bool *any)
{
	struct job_priv *p = job_priv(job);
	struct weir_job real;
	int src_err, dst_err;

	src_err = translate_side(dma, r, 0, &p->src, &s->src);
	dst_err = translate_side(dma, r, 1, &p->dst, &s->dst);
	*any = !src_err || !dst_err;
	describe(job, &real, s);
	if (src_err && s->src_side)
		s->src = unknown(&p->src);
	if (dst_err && s->dst_side)
		s->dst = unknown(&p->dst);
	return check_sides(dma, &real, s);
}

/* Set the cursors back to the places that the caller named. */
static void undo(struct weir_dma *dma, struct weir_job *job,
		 struct translated *r)
{
	struct job_priv *p = job_priv(job);

	if (p->src.side)
		cursor_init(&p->src, &job->src, (enum operand_side)p->src.side,
			    p->total);
	if (p->dst.side)
		cursor_init(&p->dst, &job->dst, (enum operand_side)p->dst.side,
			    p->total);
	give_back(dma, r);
}

static int start(void *arg, struct weir_job *job)
{
	struct weir_dma *dma = arg;
	struct translated *r = dma->translated_free;
	struct job_route *route = job_route(job);
	struct job_shape s;
	bool any;
	int err;

	if (!r)
		return -EAGAIN;
	dma->translated_free = r->next;
	r->t[0].translator = NULL;
	r->t[1].translator = NULL;
	err = plan_rest(dma, job, r, &s, &any);
	if (err) {
		undo(dma, job, r);
		return err;
	}
	route_note(job, &s.plan);
	route->translated = r;
	if (any) {
		route->route = WEIR_ROUTE_TRANSLATE;
		dma->stats.translated++;
	}
	err = engine_start(s.plan.engine, job);
	if (err) {
		route->translated = NULL;
		job_priv(job)->engine = &dma->translate;
		dma->stats.translated -= any;
		undo(dma, job, r);
	}
	return err;
}

static void translate_end(struct weir_job *job)
{
	struct weir_dma *dma = job_priv(job)->dma;
	struct translated *r = job_route(job)->translated;

	job_route(job)->translated = NULL;
	give_back(dma, r);
	debug_check(dma->translate.stats.under_way > 0);
	dma->translate.stats.under_way--;
	if (dma->translate.wait)
		engines_arm(dma);
}

static int can(void *arg, const struct weir_engine_query *q, const char **why)
{
	(void)arg, (void)q;
	*why = "asked by the plan only";
	return 0;
}

/* No .cancel: once begun, the job belongs to another engine. */
const struct engine_kind engine_translate = {
	.ops = {
		.size = sizeof(struct weir_engine_ops),
		.name = "translate",
		.can = can,
		.start = start,
	},
	.ended = translate_end,
};
