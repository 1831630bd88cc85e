/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/*
 * What a slot does with the job that has it: the blocks of copies, fills and
 * checksums, those of comparisons, and the steps that move them.
 */

#include <errno.h>
#include <string.h>

#include "base/crc32c.h"
#include "dma/bounce-internal.h"

#define BLOCKS_IN_TURN 8	/* Before others get the slot. */

/* How much of @c a step can take, at most @max. */
static uint64_t step_len(const struct cursor *c, uint64_t max)
{
	struct iovec iov[STEP_PIECES];
	uint64_t n;

	if (!c->side)
		return max;
	if (domain_is_memory(loc_domain(c->loc)))
		return c->left < max ? c->left : max;
	cursor_gather(c, iov, STEP_PIECES, max, &n);
	return n;
}

/* The file on the side of @c, if it is O_DIRECT; @strict: and nothing else. */
static const struct domain_file *direct_file(const struct cursor *c,
					     bool strict)
{
	const struct domain_file *file;

	if (!c->side || !domain_is_file(loc_domain(c->loc)))
		return NULL;
	file = domain_to_file(loc_domain(c->loc));
	return file->align && (!strict || file->buffered_fd < 0) ? file : NULL;
}

/* Have the block of @n bytes end where O_DIRECT can go on. */
static uint64_t trim(const struct cursor *c, const struct domain_file *file,
		     uint64_t n)
{
	uint64_t over;

	if (n == c->left || n > c->len)
		return n;
	over = (c->addr + n) & (file->align - 1);
	return over < n ? n - over : n;
}

/* The next block: what both sides can in one step. */
static uint64_t next_len(const struct slot *s, const struct cursor *src,
			 const struct cursor *dst)
{
	const struct cursor *const sides[2] = { src, dst };
	const struct domain_file *file;
	uint64_t n = step_len(dst, step_len(src, s->dma->staging_size));
	int i;

	/* Whoever has no other way decides. */
	for (i = 0; i < 4; i++) {
		file = direct_file(sides[i & 1], i < 2);
		if (file)
			return trim(sides[i & 1], file, n);
	}
	return n;
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
	cursor_init(&p->src, &job->src, LOC_SRC, n);
	cursor_init(&p->dst, &job->dst, LOC_OVERWRITE, n);
}

/* Have @e move the next @n bytes at @c to staging, or, if !@in, from it. */
static int begin_step(struct step *step, struct engine *e,
		      const struct cursor *c, uint64_t n, bool in)
{
	struct weir_dma *dma = step->slot->dma;
	struct weir_loc here = weir_loc_mem(step->half->mem, n), there;
	uint64_t len;
	int err;

	if (unlikely(job_is_stale(step->slot->job)))
		return -ESTALE;
	there = weir_loc_iov(loc_domain(c->loc), step->iov,
			     cursor_gather(c, step->iov, STEP_PIECES, n, &len));
	there.ctx = c->loc->ctx;
	/* It is known of all of the location, not of a block. */
	if (!c->loc->buf && n == job_priv(step->slot->job)->total)
		there.translation = c->loc->translation;
	step->job.kind = WEIR_JOB_COPY;
	step->job.flags = in ? WEIR_JOB_SHORT_OK : 0;
	step->job.src = in ? there : here;
	step->job.dst = in ? here : there;
	op_enlist(dma->r, &step->job.op, &step_class);
	set_up(step, n);
	step->starting = true;
	err = engine_start(e, &step->job);
	step->starting = false;
	if (err)
		op_abandon(&step->job.op);
	else
		job_route(step->slot->job)->steps++;
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

/* Get @n bytes of the side of @c into @h, by @step if that needs an engine. */
static void fetch(struct slot *s, struct step *step, struct half *h,
		  struct engine *e, struct cursor *c, uint64_t n)
{
	int err;

	h->want = n;
	h->len = 0;
	if (!e) {
		copy_in(h->mem, c, n);
		cursor_skip(c, n);
		h->len = n;
		h->state = FULL;
		return;
	}
	h->state = FILLING;
	step->half = h;
	err = begin_step(step, e, c, n, true);
	if (err) {
		h->state = EMPTY;
		slot_fail(s, err);
	}
}

/* Whether a block is begun: there is more, and nothing against it. */
static bool may_fill(const struct slot *s)
{
	const struct job_priv *p = job_priv(s->job);
	const struct bounce *b = bounce_of(s->job);
	const struct cursor *c = p->src.side ? &p->src : &p->dst;

	return !s->err && !b->ended && c->left &&
	       (s->blocks < BLOCKS_IN_TURN || !s->dma->bounce_queue);
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
	struct bounce *b = bounce_of(s->job);
	struct half *h = &s->half[s->in];
	struct cursor dst = p->dst;
	uint64_t ahead, n;

	if (h->state != EMPTY || step_busy(&s->src) || !may_fill(s))
		return false;
	ahead = under_way(s);
	if (dst.side) {
		if (ahead >= dst.left)
			return false;
		cursor_skip(&dst, ahead);
	}
	n = next_len(s, &p->src, &dst);
	s->in ^= 1;
	s->blocks++;
	if (p->src.side) {
		fetch(s, &s->src, h, b->pull, &p->src, n);
		return true;
	}
	fill(h->mem, n, s->job->pattern, p->done + ahead);
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
}

/* The block whose turn it is to where it goes.  False: not now. */
static bool drain_half(struct slot *s)
{
	struct job_priv *p = job_priv(s->job);
	struct bounce *b = bounce_of(s->job);
	struct half *h = &s->half[s->out];
	int err;

	if (h->state != FULL || step_busy(&s->dst) || s->err)
		return false;
	s->out ^= 1;
	if (s->job->kind != WEIR_JOB_COPY && s->job->kind != WEIR_JOB_FILL)
		p->crc = crc32c(p->crc, h->mem, h->len);
	if (!b->push || !h->len) {
		if (p->dst.side)
			copy_out(&p->dst, h->mem, h->len);
		block_done(s, h, h->len);
		return true;
	}
	h->state = DRAINING;
	s->dst.half = h;
	err = begin_step(&s->dst, b->push, &p->dst, h->len, false);
	if (err) {
		h->state = EMPTY;
		slot_fail(s, err);
	}
	return true;
}

/* Comparisons: both halves, one for each side. */

static bool fill_both(struct slot *s)
{
	struct job_priv *p = job_priv(s->job);
	struct bounce *b = bounce_of(s->job);
	uint64_t n;

	if (s->half[0].state != EMPTY || s->half[1].state != EMPTY ||
	    !may_fill(s))
		return false;
	n = next_len(s, &p->src, &p->dst);
	s->blocks++;
	fetch(s, &s->src, &s->half[0], b->pull, &p->src, n);
	if (!s->err)
		fetch(s, &s->dst, &s->half[1], b->push, &p->dst, n);
	return true;
}

static uint64_t equal_bytes(const char *a, const char *b, uint64_t len)
{
	uint64_t i = 0;

	if (!memcmp(a, b, len))
		return len;
	while (a[i] == b[i])
		i++;
	return i;
}

static bool compare_both(struct slot *s)
{
	struct job_priv *p = job_priv(s->job);
	struct half *a = &s->half[0], *b = &s->half[1];
	uint64_t n = a->len < b->len ? a->len : b->len, same;

	if (a->state != FULL || b->state != FULL || s->err)
		return false;
	same = equal_bytes(a->mem, b->mem, n);
	p->done += same;
	p->differ = same < n;
	bounce_of(s->job)->ended |= p->differ;
	job_route(s->job)->bounced += a->len + b->len;
	s->dma->stats.bounced_bytes += a->len + b->len;
	a->state = EMPTY;
	b->state = EMPTY;
	return true;
}

/* The end of a step. */

static void pull_ended(struct slot *s, struct step *step, uint64_t n,
		       int64_t res)
{
	struct job_priv *p = job_priv(s->job);

	cursor_skip(step == &s->src ? &p->src : &p->dst, n);
	step->half->len = n;
	step->half->state = res < 0 ? EMPTY : FULL;
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
	if (res < 0) {
		slot_fail(s, res);
		s->job->op.detail.code = op->detail.code;
	}
	if (step_is_push(s, step))
		block_done(s, step->half, n);
	else
		pull_ended(s, step, n, res);
	bounce_run(s);
}

/*
 * The library's own engines end jobs in callbacks of theirs, where anything may
 * be begun; not so a user's, and not while all that is left is to drain: that
 * may be inside a cancel.
 */
bool bounce_goes_on(const struct weir_job *job)
{
	const struct step *step = weir_container_of(job, struct step, job);
	const struct engine *e = job_priv((struct weir_job *)job)->engine;

	return e->kind != &e->own && !step->starting && !step->slot->err;
}

static bool all_empty(const struct slot *s)
{
	return !step_busy(&s->src) && !step_busy(&s->dst) &&
	       (s->err || (s->half[0].state == EMPTY &&
			   s->half[1].state == EMPTY));
}

void bounce_run(struct slot *s)
{
	bool compares = s->job->kind == WEIR_JOB_COMPARE;

	while (compares ? fill_both(s) | compare_both(s) :
			  fill_half(s) | drain_half(s))
		;
	if (!all_empty(s))
		return;
	bounce_leave(s);
}
