/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Steps of jobs through staging: how much of a job its next block is, and how
 * one side of it comes into staging, or goes out.
 */

#include <errno.h>
#include <string.h>

#include "dma/bounce-internal.h"

/* How much of @c a step can take, at most @max. */
static uint64_t step_len(const struct cursor *c, uint64_t max)
{
	struct iovec iov[STEP_PIECES];
	uint64_t n;

	if (!c->side)
		return max;
	if (c->len == c->left || domain_is_memory(operand_domain(c->operand)))
		return c->left < max ? c->left : max;
	cursor_gather(c, iov, STEP_PIECES, max, &n);
	return n;
}

/* What the side of @c should be aligned to; @strict: if it has to be.  0:
 * nothing. */
static inline uint32_t align_of(const struct cursor *c, bool strict)
{
	const struct weir_domain *domain;

	if (!c->side)
		return 0;
	domain = operand_domain(c->operand);
	return !strict || domain->strict ? domain->align : 0;
}

/* Have the block of @n bytes end where the next one begins well. */
static uint64_t trim(const struct cursor *c, uint32_t align, uint64_t n)
{
	struct cursor end = *c;
	uint64_t over;

	if (n == c->left)
		return n;
	cursor_skip(&end, n);
	over = end.addr & (align - 1);
	return over < n ? n - over : n;
}

/* Where the block is in the @i-th of all operands of its job. */
static const struct cursor *place(const struct slot *s, uint32_t i,
				  const struct cursor *dst, struct cursor *more)
{
	if (i == 0)
		return &job_priv(s->job)->src;
	if (i == 1)
		return dst;
	extra_cursor(s->job, i - 2, s->pos, more);
	return more;
}

/* As trim(), for all operands.  Whoever has no other way decides. */
static uint64_t trim_all(const struct slot *s, const struct cursor *dst,
			 uint64_t n)
{
	uint32_t i, n_operands = s->job->n_extra + 2;
	const struct cursor *c;
	uint32_t align;
	bool strict = false;
	struct cursor more;

	for (i = 0; i < n_operands; i++) {
		c = place(s, i, dst, &more);
		align = align_of(c, true);
		if (!align)
			continue;
		n = trim(c, align, n);
		strict = true;
	}
	for (i = 0; i < n_operands && !strict; i++) {
		c = place(s, i, dst, &more);
		align = align_of(c, false);
		if (align)
			return trim(c, align, n);
	}
	return n;
}

uint64_t bounce_next_len(const struct slot *s, const struct cursor *dst)
{
	const struct cursor *src = &job_priv(s->job)->src;
	uint64_t n = s->size;
	bool aligned = align_of(src, false) || align_of(dst, false);
	const struct cursor *c;
	struct cursor more;
	uint32_t i;

	n = step_len(dst, step_len(src, n));
	for (i = 0; i < s->job->n_extra; i++) {
		c = place(s, i + 2, dst, &more);
		n = step_len(c, n);
		aligned |= align_of(c, false) != 0;
	}
	return unlikely(aligned) ? trim_all(s, dst, n) : n;
}

static void cancel_step(struct weir_op *op)
{
	engine_cancel(weir_job_of(op));
}

static const struct weir_op_class step_class = {
	.name = "step of a job through staging",
	.cancel = cancel_step,
};

/* The library's part of a step's job: the cursors say what moves. */
static void set_up(struct step *step, uint64_t n)
{
	struct weir_job *job = &step->job;
	struct job_priv *p = job_priv(job);

	p->dma = step->slot->dma;
	p->total = n;
	p->done = 0;
	p->crc = 0;
	p->q_pprev = NULL;
	p->differ = false;
	p->waits = false;
	p->held = false;
	p->is_step = true;
	atomic_init(&p->stop, false);
	cursor_init(&p->src, &job->src, OPERAND_SRC, n);
	cursor_init(&p->dst, &job->dst, OPERAND_OVERWRITE, n);
}

/* Bufs at a peer have a key each, which their addresses have not. */
static void keep_bufs(struct cursor *ret, const struct cursor *c, uint64_t n)
{
	if (likely(!c->buf || !domain_is_remote(operand_domain(c->operand))))
		return;
	*ret = *c;
	ret->left = n;
	if (ret->len > n)
		ret->len = n;
}

uint32_t bounce_nesting(const struct weir_job *job)
{
	const struct step *step = weir_container_of(job, struct step, job);

	return bounce_of(step->slot->job)->nesting + 1u;
}

int bounce_begin_step(struct step *step, struct engine *e,
		      const struct cursor *c, uint64_t n, bool in)
{
	struct weir_dma *dma = step->slot->dma;
	uint32_t nesting = dma->nesting;
	struct weir_operand here = weir_operand_mem(step->half->mem, n), there;
	uint64_t len;
	int err;

	if (unlikely(job_is_stale(step->slot->job)))
		return -ESTALE;
	there = weir_operand_iov(operand_domain(c->operand), step->iov,
				 cursor_gather(c, step->iov, STEP_PIECES, n,
					       &len));
	there.ctx = c->operand->ctx;
	/* It is known of all of the operand, not of a block. */
	if (!c->operand->buf && n == job_priv(step->slot->job)->total)
		there.translation = c->operand->translation;
	step->job.kind = WEIR_JOB_COPY;
	step->job.flags = in ? WEIR_JOB_SHORT_OK : 0;
	step->job.src = in ? there : here;
	step->job.dst = in ? here : there;
	op_enlist(dma->r, &step->job.op, &step_class);
	set_up(step, n);
	keep_bufs(in ? &job_priv(&step->job)->src : &job_priv(&step->job)->dst,
		  c, n);
	step->operand = c->operand;
	job_enter(&step->job);
	dma->nesting = bounce_nesting(&step->job);
	err = engine_start(e, &step->job);
	dma->nesting = nesting;
	if (err)
		op_abandon(&step->job.op);
	else
		job_route(step->slot->job)->steps++;
	job_exit(dma, &step->job);
	return err;
}

/* Memory of this process, between @c and staging. */
static void copy_in(char *mem, const struct cursor *from, uint64_t n)
{
	struct cursor c = *from;
	uint64_t some;

	for (; n; n -= some) {
		some = c.len < n ? c.len : n;
		memcpy(mem, (void *)(uintptr_t)c.addr, some);
		mem += some;
		cursor_advance(&c, some);
	}
}

void bounce_fetch(struct slot *s, struct step *step, struct half *h,
		  struct engine *e, struct cursor *c, uint64_t n)
{
	int err;

	h->want = n;
	h->len = 0;
	if (!e) {
		copy_in(h->mem, c, n);
		cursor_skip(c, n);
		h->len = n;
		h->state = arrived_state(s);
		return;
	}
	h->state = FILLING;
	step->half = h;
	err = bounce_begin_step(step, e, c, n, true);
	if (err) {
		h->state = EMPTY;
		slot_fail(s, err, step->job.op.detail.code);
	}
}

/*
 * Whether the end of a step may begin the next one.  The library's own engines
 * end jobs in callbacks of theirs, where anything may be begun.  A user's
 * engine may end one anywhere; a function of the user's may be on the stack;
 * and a slot that only drains may do so inside a cancel.
 */
bool bounce_goes_on(const struct weir_job *job)
{
	const struct step *step = weir_container_of(job, struct step, job);
	const struct engine *e = job_priv((struct weir_job *)job)->engine;

	return e->kind != &e->own && !job->op.entered && !step->slot->err &&
	       !step->slot->job->op.entered;
}
