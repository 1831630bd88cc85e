/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The domain engine: to and from a user's domain, by the functions that it has.
 * What it can do is what they can: nothing is bridged here.
 *
 * Where both sides are given by addresses the domain gets all of it at once,
 * the caller's own pieces.  Bufs are handed over some at a time.
 */

#include <errno.h>

#include "dma/bounce.h"
#include "dma/job-internal.h"

/* A function that moves, and whose it is. */
struct mover {
	struct weir_domain *domain;
	weir_domain_move_fn *fn;
};

static bool is_user(const struct weir_domain *domain)
{
	return domain && domain_is_user(domain);
}

static bool is_memory(const struct weir_domain *domain)
{
	return domain && domain_is_memory(domain);
}

static weir_domain_move_fn *pull_of(struct domain_user *src, uint32_t kind)
{
	return kind == WEIR_JOB_COPY || kind == WEIR_JOB_PULL ? src->pull :
								NULL;
}

static weir_domain_move_fn *push_of(struct domain_user *dst, uint32_t kind)
{
	if (kind != WEIR_JOB_COPY && kind != WEIR_JOB_PUSH)
		return NULL;
	return dst->push ? dst->push : dst->transfer;
}

/* The function that does @kind from @src to @dst; .fn is NULL without one. */
static struct mover find(uint32_t kind, struct weir_domain *src,
			 struct weir_domain *dst)
{
	struct mover m = { dst, NULL };

	if (is_user(src) && is_memory(dst)) {
		m.domain = src;
		m.fn = pull_of(domain_to_user(src), kind);
	} else if (!is_user(dst)) {
		m.fn = NULL;
	} else if (kind == WEIR_JOB_FILL) {
		m.fn = domain_to_user(dst)->fill;
	} else if (is_memory(src)) {
		m.fn = push_of(domain_to_user(dst), kind);
	} else if (is_user(src) && kind == WEIR_JOB_COPY) {
		m.fn = domain_to_user(dst)->transfer;
	}
	return m;
}

/* Returns what the domain lacks for @q. */
static const char *missing(const struct weir_engine_query *q)
{
	if (!is_user(q->src) && !is_user(q->dst))
		return "only domains of the user's own";
	if (q->kind == WEIR_JOB_FILL)
		return "the domain has no fill";
	if (q->kind != WEIR_JOB_COPY && q->kind != WEIR_JOB_PULL &&
	    q->kind != WEIR_JOB_PUSH)
		return "only copies and fills";
	if (is_user(q->src) && is_memory(q->dst))
		return "the domain has no pull";
	if (is_memory(q->src))
		return "the domain has neither push nor transfer";
	return is_user(q->src) && is_user(q->dst) ?
		       "the destination has no transfer" :
		       "only to and from memory, and between users' domains";
}

static int can(void *arg, const struct weir_engine_query *q, const char **why)
{
	(void)arg;
	if (find(q->kind, (struct weir_domain *)q->src,
		 (struct weir_domain *)q->dst).fn)
		return 1;
	*why = missing(q);
	return 0;
}

/* All of @c's operand, which is no buf. */
static void whole(struct weir_domain_side *side, const struct cursor *c,
		  struct iovec *one)
{
	const struct weir_operand *operand = c->operand;

	side->iov = operand->n_iov ? operand->iov : one;
	side->n_iov = operand->n_iov ? operand->n_iov : 1;
	one->iov_base = (void *)(uintptr_t)c->addr;
	one->iov_len = c->len;
}

/*
 * What comes next of bufs: one piece of the side that has the longer one, and
 * as much of the other.  Returns the bytes.
 */
static uint64_t next_pieces(struct job_priv *p)
{
	bool src_long = p->src.len >= p->dst.len;
	struct weir_domain_side *one = src_long ? &p->move.src : &p->move.dst;
	struct weir_domain_side *more = src_long ? &p->move.dst : &p->move.src;
	const struct cursor *c = src_long ? &p->src : &p->dst;
	const struct cursor *rest = src_long ? &p->dst : &p->src;
	uint64_t n;

	more->iov = p->move_iov + 1;
	more->n_iov = cursor_gather(rest, p->move_iov + 1, JOB_MOVE_IOVS - 1,
				    job_slice(p, c->len), &n);
	one->iov = p->move_iov;
	one->n_iov = cursor_gather(c, p->move_iov, 1, n, &n);
	return n;
}

/* A fill has a destination by address only: there are no bufs there. */
static uint64_t set_pieces(struct job_priv *p)
{
	if (p->src.side && (p->src.operand->buf || p->dst.operand->buf))
		return next_pieces(p);
	whole(&p->move.dst, &p->dst, &p->move_iov[0]);
	if (p->src.side)
		whole(&p->move.src, &p->src, &p->move_iov[1]);
	return p->total;
}

static void set_side(struct weir_domain_side *side,
		     const struct weir_operand *operand)
{
	side->domain = operand_domain(operand);
	side->ctx = operand->ctx;
	side->translation = operand->translation;
}

static int step(struct weir_job *job)
{
	struct job_priv *p = job_priv(job);
	struct weir_domain *src =
		p->src.side ? operand_domain(p->src.operand) : NULL;
	struct mover m = find(job->kind, src, operand_domain(p->dst.operand));
	struct domain_call call = {
		.domain = m.domain,
		.fn = m.fn,
		.move = &p->move,
	};

	if (unlikely(job_is_stale(job)))
		return -ESTALE;
	p->move = (struct weir_domain_move){ .size = sizeof(p->move) };
	if (p->src.side)
		set_side(&p->move.src, p->src.operand);
	set_side(&p->move.dst, p->dst.operand);
	p->move.pattern = job->kind == WEIR_JOB_FILL ? job->pattern : 0;
	p->step = set_pieces(p);
	call.total = p->step;
	return domain_move(job->op.reactor, &job->inner, &call);
}

static void step_done(struct weir_op *op, int64_t res)
{
	struct weir_job *job = weir_container_of(op, struct weir_job, inner);
	struct job_priv *p = job_priv(job);
	struct weir_dma *dma = p->dma;
	uint64_t n = op->detail.bytes;
	int err;

	p->done += n;
	cursor_skip(&p->src, p->src.side ? n : 0);
	cursor_skip(&p->dst, n);
	job->op.detail.code = op->detail.code;
	if (res < 0) {
		job_end(job, res);
	} else if (p->done == p->total) {
		job_end(job, 0);
	} else if (n < p->step) {
		job_end(job, job->flags & WEIR_JOB_SHORT_OK ? 0 : -ENODATA);
	} else if (op_cancel_wanted(&job->op)) {
		job_end(job, -ECANCELED);
	} else {
		job_enter(job);
		err = step(job);
		if (err == -EAGAIN)
			engine_wait(job);
		else if (err)
			job_end(job, err);
		job_exit(dma, job);
	}
}

/* Whether @job, a transfer, could go through memory. */
static bool has_way_round(const struct weir_job *job)
{
	const struct job_priv *p = job_priv((struct weir_job *)job);
	struct weir_domain *src =
		p->src.side ? operand_domain(p->src.operand) : NULL;
	struct weir_domain *dst = operand_domain(p->dst.operand);

	return !p->is_step && is_user(src) && is_user(dst) &&
	       domain_to_user(src)->pull && domain_to_user(dst)->push;
}

/*
 * If the domain refuses the first step, the job has not begun, as if the domain
 * had been called directly.  A domain that can transfer need not be able to
 * from this place: if it answers so, the bytes go through memory.
 */
static int start(void *arg, struct weir_job *job)
{
	int err;

	(void)arg;
	job_inner(job, step_done);
	err = step(job);
	if (likely(err != -EXDEV && err != -EOPNOTSUPP) || !has_way_round(job))
		return err;
	bounce_instead(job, err);
	return 0;
}

static void cancel(void *arg, struct weir_job *job)
{
	(void)arg;
	weir_op_cancel(&job->inner);
}

const struct engine_kind engine_domain = {
	.ops = {
		.size = sizeof(struct weir_engine_ops),
		.name = "domain",
		.can = can,
		.start = start,
		.cancel = cancel,
	},
	.refuses = true,
	.serves = &domain_class_user,
};
