/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a slot does with the job that has it: its blocks, in and out.
 */

#include <errno.h>
#include <string.h>

#include "base/crc32c.h"
#include "dma/bounce-internal.h"

static void copy_out(const struct cursor *to, const char *mem, uint64_t n)
{
	struct cursor c = *to;
	uint64_t some;

	for (; n; n -= some) {
		some = c.len < n ? c.len : n;
		memcpy((void *)(uintptr_t)c.addr, mem, some);
		mem += some;
		cursor_advance(&c, some);
	}
}

/* The pattern goes on where the last block left it. */
static void fill(char *mem, uint64_t n, uint64_t pattern, uint64_t phase)
{
	char bytes[8];
	uint64_t i;

	for (i = 0; i < 8; i++)
		bytes[i] = (char)(pattern >> ((phase + i) & 7) * 8);
	for (i = 0; i + 8 <= n; i += 8)
		memcpy(mem + i, bytes, 8);
	memcpy(mem + i, bytes, n - i);
}

/* Whether the destination is ahead of where its cursor is. */
static uint64_t under_way(const struct slot *s)
{
	uint64_t n = 0;
	int i;

	for (i = 0; i < 2; i++)
		if (s->half[i].state != EMPTY)
			n += s->half[i].len;
	return n;
}

/* The next block into the half whose turn it is.  False: not now. */
static bool fill_half(struct slot *s)
{
	struct job_priv *p = job_priv(s->job);
	struct half *h = &s->half[s->in];
	struct cursor dst = p->dst;
	uint64_t ahead, n;

	if (s->sum)
		return bounce_add(s);
	if (h->state != EMPTY || step_busy(&s->src) || !may_fill(s))
		return false;
	ahead = under_way(s);
	if (dst.side) {
		if (ahead >= dst.left)
			return false;
		cursor_skip(&dst, ahead);
	}
	s->pos = p->done + ahead;
	n = bounce_next_len(s, &dst);
	s->in ^= 1;
	s->blocks++;
	if (s->job->kind == WEIR_JOB_XOR) {
		s->sum = h;
		s->n_added = 0;
	}
	if (p->src.side) {
		bounce_fetch(s, &s->src, h, bounce_of(s->job)->pull, &p->src,
			     n);
		return true;
	}
	fill(h->mem, n, s->job->pattern, s->pos);
	h->want = h->len = n;
	h->state = FULL;
	return true;
}

static void block_done(struct slot *s, struct half *h, uint64_t n)
{
	struct job_priv *p = job_priv(s->job);

	p->done += n;
	job_route(s->job)->bounced += n;
	s->dma->stats.bounced_bytes += n;
	if (p->dst.side)
		cursor_skip(&p->dst, n);
	h->state = EMPTY;
	s->out ^= 1;
}

/* A copy to two goes to one after the other; what only one has is not done. */
static void put_done(struct slot *s, struct half *h, uint64_t n)
{
	bool first = s->job->kind == WEIR_JOB_DUALCAST && !s->second;

	s->second = first && !s->err;
	if (s->second)
		h->state = FULL;
	else
		block_done(s, h, first ? 0 : n);
}

/* The block in @h to where it goes. */
static void put(struct slot *s, struct half *h)
{
	struct job_priv *p = job_priv(s->job);
	struct engine *e = bounce_of(s->job)->push;
	const struct cursor *c = &p->dst;
	struct cursor second;
	int err;

	if (s->second) {
		extra_cursor(s->job, 0, p->done, &second);
		c = &second;
		e = bounce_extra(s->job, 0);
	}
	if (!e || !h->len) {
		if (c->side)
			copy_out(c, h->mem, h->len);
		put_done(s, h, h->len);
		return;
	}
	h->state = DRAINING;
	s->dst.half = h;
	err = bounce_begin_step(&s->dst, e, c, h->len, false);
	if (err) {
		h->state = EMPTY;
		slot_fail(s, err, s->dst.job.op.detail.code);
	}
}

static bool has_crc(const struct weir_job *job)
{
	return job->kind == WEIR_JOB_CRC32C ||
	       job->kind == WEIR_JOB_COPY_CRC32C;
}

/* The block whose turn it is.  False: not now. */
static bool drain_half(struct slot *s)
{
	struct job_priv *p = job_priv(s->job);
	struct half *h = &s->half[s->out];

	if (h->state != FULL || step_busy(&s->dst) || s->err)
		return false;
	if (has_crc(s->job))
		p->crc = crc32c(p->crc, h->mem, h->len);
	put(s, h);
	return true;
}

/* The end of a step. */

static void pull_ended(struct slot *s, struct step *step, uint64_t n,
		       int64_t res)
{
	struct job_priv *p = job_priv(s->job);

	if (!s->sum || step->half == s->sum)
		cursor_skip(step == &s->src ? &p->src : &p->dst, n);
	step->half->len = n;
	step->half->state = res < 0 ? EMPTY : arrived_state(s);
	if (n < step->half->want)
		bounce_of(s->job)->ended = true;
}

void bounce_step_ended(struct weir_op *op, int64_t res)
{
	struct step *step = weir_container_of(op, struct step, job.op);
	struct slot *s = step->slot;
	uint64_t n = op->detail.bytes;

	if (step->held) {
		domain_unuse(step->held);
		step->held = NULL;
		bounce_out_of_quarantine(s);
		return;
	}
	if (res < 0)
		slot_fail(s, res, op->detail.code);
	if (step_is_push(s, step))
		put_done(s, step->half, n);
	else
		pull_ended(s, step, n, res);
	bounce_run(s);
}

static bool all_empty(const struct slot *s)
{
	return !step_busy(&s->src) && !step_busy(&s->dst) &&
	       (s->err || (s->half[0].state == EMPTY &&
			   s->half[1].state == EMPTY));
}

/* Both are tried: what goes out makes space for what comes in. */
static bool go_on(struct slot *s)
{
	bool compares = s->job->kind == WEIR_JOB_COMPARE;
	bool in = compares ? bounce_fill_both(s) : fill_half(s);
	bool out = compares ? bounce_compare_both(s) : drain_half(s);

	return in || out;
}

/*
 * A step may call a function of the user's, which may ask for the end of the
 * job.  The job then ends when that function has returned, without more steps.
 */
void bounce_run(struct slot *s)
{
	struct weir_dma *dma = s->dma;
	struct weir_job *job = s->job;

	job_enter(job);
	do {
		if (unlikely(op_cancel_wanted(&job->op)))
			slot_fail(s, -ECANCELED, 0);
	} while (go_on(s));
	if (all_empty(s))
		bounce_leave(s);
	job_exit(dma, job);
}
