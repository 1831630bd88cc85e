/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks of jobs through staging: how long the next is, the steps that move it,
 * and blocks that need both halves of a slot.
 */

#include <errno.h>
#include <string.h>

#include "base/crc32c.h"
#include "dma/bounce-internal.h"
#include "dma/route.h"
#include "mem/buf-internal.h"
#include "reactor/io.h"

/*
 * Blocks that need both halves of a slot: those of comparisons, one for each
 * side, and those of XORs, which have the sum in one, and pull source after
 * source into the other.  While a sum is pushed the next can be begun, but goes
 * on only when that half is free again.
 */

static void bounce_fetch(struct slot *s, struct step *step, struct half *h,
			 struct engine *e, struct cursor *c, uint64_t n);
static uint64_t bounce_next_len(const struct slot *s, const struct cursor *dst);
static uint64_t step_len(const struct cursor *c, uint64_t max);
static void kind_pushed(struct slot *s, struct half *h, uint64_t n);
static uint32_t align_of(const struct cursor *c, bool strict);
static uint64_t trim(const struct cursor *c, uint32_t align, uint64_t n);

/* Comparisons: both sides come in; both are there.  False: not now. */
static bool bounce_fill_both(struct slot *s)
{
	struct job_priv *p = job_priv(s->job);
	struct bounce *b = bounce_of(s->job);
	uint64_t n;

	debug_check(s->job && s->job->kind == WEIR_JOB_COMPARE);
	if (s->half[0].state != EMPTY || s->half[1].state != EMPTY ||
	    !may_fill(s))
		return false;
	s->pos = p->done;
	n = bounce_next_len(s, &p->dst);
	s->blocks++;
	bounce_fetch(s, &s->src, &s->half[0], b->pull, &p->src, n);
	if (!s->err)
		bounce_fetch(s, &s->dst, &s->half[1], b->push, &p->dst, n);
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

static bool bounce_compare_both(struct slot *s)
{
	struct job_priv *p = job_priv(s->job);
	struct half *a = &s->half[0], *b = &s->half[1];
	uint64_t n = a->len < b->len ? a->len : b->len, same;

	debug_check(s->job && s->job->kind == WEIR_JOB_COMPARE);
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

static void xor_into(char *to, const char *from, uint64_t n)
{
	uint64_t a, b, i;

	for (i = 0; i + 8 <= n; i += 8) {
		memcpy(&a, to + i, 8);
		memcpy(&b, from + i, 8);
		a ^= b;
		memcpy(to + i, &a, 8);
	}
	for (; i < n; i++)
		to[i] ^= from[i];
}

/* A source that is memory of this process. */
static void add_memory(struct half *sum, struct cursor *c)
{
	uint64_t n, some;

	for (n = 0; n < sum->len; n += some) {
		some = c->len < sum->len - n ? c->len : sum->len - n;
		xor_into(sum->mem + n, (void *)(uintptr_t)c->addr, some);
		cursor_advance(c, some);
	}
}

/* The sum is as long as the shortest of the sources. */
static void add_half(struct half *sum, struct half *h)
{
	if (h->len < sum->len)
		sum->len = h->len;
	xor_into(sum->mem, h->mem, sum->len);
	h->state = EMPTY;
}

/* The next source: to the sum, or to the other half first. */
static bool bounce_add(struct slot *s)
{
	struct half *sum = s->sum, *h = &s->half[s->in];
	struct engine *e;
	struct cursor c;

	debug_check(s->sum);
	if (s->err || sum->state != PART || step_busy(&s->src))
		return false;
	if (h->state == PART) {
		add_half(sum, h);
		s->n_added++;
		return true;
	}
	if (s->n_added == s->job->n_extra || !sum->len) {
		sum->state = FULL;
		s->sum = NULL;
		return true;
	}
	extra_cursor(s->job, s->n_added, s->pos, &c);
	e = bounce_extra(s->job, s->n_added);
	if (!e) {
		add_memory(sum, &c);
		s->n_added++;
		return true;
	}
	if (h->state != EMPTY)
		return false;
	bounce_fetch(s, &s->src, h, e, &c, sum->len);
	return true;
}

/*
 * What a slot does with the job that has it: its blocks, in and out.
 */

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

	debug_check(s->in < 2 && s->out < 2);
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

static int bounce_begin_step(struct step *step, struct engine *e,
		      const struct cursor *c, uint64_t n, bool in);

static void block_done(struct slot *s, struct half *h, uint64_t n)
{
	struct job_priv *p = job_priv(s->job);

	debug_check(n <= h->len || s->err);
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

/* Memory on this side may be imported, too, and its exporter may revoke it. */
static bool is_revoked(const struct slot *s)
{
	return job_is_stale(s->job);
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
	if (!e && unlikely(is_revoked(s))) {
		h->state = EMPTY;
		slot_fail(s, -ESTALE, 0);
		return;
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

	debug_check(s->job);
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

	debug_check(step->half->state == FILLING);
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

	debug_check(op->state == OP_IDLE);
	if (step->held) {
		domain_unuse(step->held);
		step->held = NULL;
		bounce_out_of_quarantine(s);
		return;
	}
	if (res < 0)
		slot_fail(s, res, op->detail.code);
	if (step_is_push(s, step) && likely(s->blockwise))
		put_done(s, step->half, n);
	else if (step_is_push(s, step))
		kind_pushed(s, step->half, n);
	else
		pull_ended(s, step, n, res);
	bounce_run(s);
}

/*
 * Registered kinds: the input comes into half[0], the kind computes from there
 * into half[1], and that goes out.  So input and output may have any lengths,
 * and while output is pushed the next input is pulled.  In half[0], what
 * s->taken bytes are in front of has not been consumed; it is FULL if that is
 * enough for a call, and PART if the rest of a unit is still to come.
 */

static uint64_t kind_left(const struct slot *s)
{
	const struct half *h = &s->half[0];

	return h->off + h->len - s->taken;
}

/* Whether no more input comes. */
static bool kind_at_end(const struct slot *s)
{
	return bounce_of(s->job)->ended || !job_priv(s->job)->src.left;
}

/* Move what is left over in front of the place where the next input comes: an
 * aligned one, if there is space for that. */
static void kind_keep(struct slot *s, struct half *h, uint32_t unit)
{
	uint64_t left = kind_left(s);
	uint64_t off = (left + STAGING_ALIGN - 1) & ~(STAGING_ALIGN - 1ull);

	if (off + unit > s->size)
		off = left;
	memmove(h->mem + off - left, h->mem + s->taken, left);
	s->taken = off - left;
	h->off = (uint32_t)off;
}

/* The next input: whole units, unless the domain requires an alignment. */
static uint64_t kind_in_len(const struct slot *s, const struct half *h,
			    uint32_t unit)
{
	const struct cursor *c = &job_priv(s->job)->src;
	uint64_t n = step_len(c, s->size - h->off);
	uint64_t there = h->off - s->taken;
	uint32_t align = align_of(c, true);

	if (align)
		return trim(c, align, n);
	if (n < c->left && there + n >= unit)
		n -= (there + n) % unit;
	align = unit == 1 ? align_of(c, false) : 0;
	return align ? trim(c, align, n) : n;
}

/* More input into half[0], when what is there has been consumed.  False: not
 * now. */
static bool kind_in(struct slot *s)
{
	struct job_priv *p = job_priv(s->job);
	struct half *h = &s->half[0];
	uint32_t unit = kind_state(s->job)->in_unit;

	if (h->state == FULL && kind_left(s) < unit && !kind_at_end(s))
		h->state = PART;
	if (h->state == PART && !s->err && !kind_at_end(s)) {
		kind_keep(s, h, unit);
	} else if (h->state == EMPTY && may_fill(s)) {
		s->taken = 0;
		h->off = 0;
	} else {
		return false;
	}
	if (step_busy(&s->src) || p->differ)
		return false;
	s->blocks++;
	h->state = EMPTY;
	bounce_fetch(s, &s->src, h, bounce_of(s->job)->pull, &p->src,
		     kind_in_len(s, h, unit));
	return true;
}

/* Whether the kind can go on: there is input, or there will be no more. */
static bool kind_may_work(struct slot *s)
{
	struct weir_job *job = s->job;
	struct half *in = &s->half[0];
	uint32_t unit = kind_state(job)->in_unit;

	if (s->err || s->working || job_priv(job)->differ ||
	    s->half[1].state != EMPTY)
		return false;
	if (bounce_of(job)->ended && !(job->flags & WEIR_JOB_SHORT_OK)) {
		slot_fail(s, -ENODATA, 0);
		return false;
	}
	if (in->state == FULL && kind_left(s) >= unit)
		return true;
	if (!kind_at_end(s) || in->state == FILLING)
		return false;
	if (in->state != EMPTY && kind_left(s) % unit) {
		slot_fail(s, -ENODATA, 0);
		return false;
	}
	if (in->state == EMPTY)
		s->taken = in->off = in->len = 0;
	return true;
}

static int64_t kind_work(void *arg)
{
	struct slot *s = arg;
	struct job_priv *p = job_priv(s->job);
	struct half *in = &s->half[0], *out = &s->half[1];
	struct kind_piece piece = {
		.in = in->mem + s->taken,
		.in_len = (size_t)kind_left(s),
		.last = kind_at_end(s),
		.is_all = true,
	};

	if (p->dst.side) {
		piece.out = out->mem;
		piece.out_len = p->dst.left < s->size ? (size_t)p->dst.left :
							s->size;
		piece.is_all = piece.out_len == p->dst.left;
	}
	s->step_res = kind_step(s->job, &piece);
	if (s->step_res < 0)
		return 0;
	s->taken += piece.in_len;
	out->off = 0;
	out->len = piece.out_len;
	return 0;
}

/* It has worked: what is consumed makes space, and what is produced goes
 * out. */
static void kind_worked(struct slot *s)
{
	struct job_priv *p = job_priv(s->job);
	struct half *in = &s->half[0], *out = &s->half[1];

	s->working = false;
	out->state = EMPTY;
	in->state = kind_left(s) ? FULL : EMPTY;
	if (s->step_res < 0) {
		slot_fail(s, s->step_res, 0);
		return;
	}
	if (s->step_res == 1) {
		p->differ = true;
		in->state = EMPTY;
	}
	if (!p->dst.side)
		p->done = kind_state(s->job)->consumed;
	else if (out->len)
		out->state = FULL;
}

static void kind_work_ended(struct weir_op *op, int64_t res)
{
	struct weir_job *job = weir_container_of(op, struct weir_job, inner);
	struct slot *s = bounce_of(job)->slot;

	debug_check(s && s->job == job && s->working);
	if (res < 0)
		s->step_res = (int)res;
	kind_worked(s);
	bounce_run(s);
}

/* Returns whether something was computed; a worker does so later. */
static bool kind_compute(struct slot *s)
{
	struct weir_job *job = s->job;
	struct weir_op *op;

	if (!kind_may_work(s))
		return false;
	s->half[0].state = WORKING;
	s->half[1].state = WORKING;
	if (job_priv(job)->total < kind_worker_min(job) ||
	    worker_ensure(s->dma->r)) {
		kind_work(s);
		kind_worked(s);
		return true;
	}
	s->working = true;
	op = job_inner(job, kind_work_ended);
	op->kind = IO_WORK;
	op->u.io.addr = (uintptr_t)kind_work;
	op->u.io.aux = (uintptr_t)s;
	io_launch(job->op.reactor, op);
	return false;
}

/* @n bytes of output have arrived. */
static void kind_pushed(struct slot *s, struct half *h, uint64_t n)
{
	struct job_priv *p = job_priv(s->job);

	debug_check(n <= h->len && h == &s->half[1]);
	p->done += n;
	job_route(s->job)->bounced += n;
	s->dma->stats.bounced_bytes += n;
	cursor_skip(&p->dst, n);
	h->off += (uint32_t)n;
	h->len -= n;
	h->state = h->len && !s->err ? FULL : EMPTY;
}

/* Output to where it goes. */
static bool kind_out(struct slot *s)
{
	struct job_priv *p = job_priv(s->job);
	struct half *h = &s->half[1];
	struct engine *e = bounce_of(s->job)->push;
	int err;

	if (kind_compute(s))
		return true;
	if (h->state != FULL || step_busy(&s->dst) || s->err)
		return false;
	if (!e && unlikely(is_revoked(s))) {
		slot_fail(s, -ESTALE, 0);
		return false;
	}
	if (!e) {
		copy_out(&p->dst, h->mem + h->off, h->len);
		kind_pushed(s, h, h->len);
		return true;
	}
	h->state = DRAINING;
	s->dst.half = h;
	err = bounce_begin_step(&s->dst, e, &p->dst,
				step_len(&p->dst, h->len), false);
	if (err) {
		h->state = EMPTY;
		slot_fail(s, err, s->dst.job.op.detail.code);
	}
	return true;
}

static bool all_empty(const struct slot *s)
{
	return !s->working && !step_busy(&s->src) && !step_busy(&s->dst) &&
	       (s->err || (s->half[0].state == EMPTY &&
			   s->half[1].state == EMPTY));
}

/* Both are tried: what goes out makes space for what comes in. */
static bool go_on(struct slot *s)
{
	bool in = fill_half(s);
	bool out = drain_half(s);

	debug_check(s->job && s->blockwise);
	return in || out;
}

/* The same of the jobs whose blocks need both halves. */
static bool go_on_otherwise(struct slot *s)
{
	bool compares = s->job->kind == WEIR_JOB_COMPARE;
	bool in = compares ? bounce_fill_both(s) : kind_in(s);
	bool out = compares ? bounce_compare_both(s) : kind_out(s);

	debug_check(s->job && !s->blockwise);
	return in || out;
}

/*
 * A step may call a function of the user's, which may end the job.  The job
 * then ends when that function has returned, without more steps.
 */
void bounce_run(struct slot *s)
{
	struct weir_dma *dma = s->dma;
	struct weir_job *job = s->job;

	debug_check(s->job && bounce_of(s->job)->slot == s);
	reactor_check_thread(s->dma->r);
	job_enter(job);
	do {
		if (unlikely(op_cancel_wanted(&job->op)))
			slot_fail(s, -ECANCELED, 0);
	} while (likely(s->blockwise) ? go_on(s) : go_on_otherwise(s));
	if (all_empty(s))
		bounce_leave(s);
	job_exit(dma, job);
}

/*
 * Steps of jobs through staging: how much of a job its next block is, and how
 * one side of it comes into staging, or goes out.
 */

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

/* Returns the alignment for the side of @c, or 0 for none; @strict: only if it
 * is required. */
static uint32_t align_of(const struct cursor *c, bool strict)
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

/* Returns where the block is in the @i-th of all operands of its job. */
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

/* Do trim() for all operands that require their alignment; if none does, for
 * the first that prefers one. */
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

/* The bytes of the next block, at s->pos: what all operands can in one step.
 * The destination is at @dst there. */
static uint64_t bounce_next_len(const struct slot *s, const struct cursor *dst)
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
	debug_check(op_cancel_wanted(op));
	engine_cancel(weir_job_of(op));
}

static const struct weir_op_class step_class = {
	.name = "step of a job through staging",
	.cancel = cancel_step,
};

/* Fill in the library's part of a step's job; the cursors say what to move. */
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
	p->imported = false;
	p->entered = false;
	p->is_step = true;
	atomic_init(&p->stop, false);
	cursor_init(&p->src, &job->src, OPERAND_SRC, n);
	cursor_init(&p->dst, &job->dst, OPERAND_OVERWRITE, n);
}

/* Whether each buf at @c has a key of its own, which its addresses have not: of
 * what is imported from where this process has no addresses. */
static bool has_keys(const struct cursor *c)
{
	return unlikely(c->buf && c->buf->use->mmap->import) &&
	       !domain_is_memory(operand_domain(c->operand));
}

static void keep_bufs(struct cursor *ret, const struct cursor *c, uint64_t n)
{
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

/* Have @e move the next @n bytes at @c to staging, or, if !@in, from it. */
static int bounce_begin_step(struct step *step, struct engine *e,
		      const struct cursor *c, uint64_t n, bool in)
{
	struct weir_dma *dma = step->slot->dma;
	uint32_t nesting = dma->nesting;
	struct weir_operand here = weir_operand_mem(step->half->mem +
						     step->half->off, n);
	struct weir_operand there;
	uint64_t len;
	int err;

	debug_check(!step_busy(step) && n > 0);
	if (unlikely(job_is_stale(step->slot->job)))
		return -ESTALE;
	there = weir_operand_iov(operand_domain(c->operand), step->iov,
				 cursor_gather(c, step->iov, STEP_PIECES, n,
					       &len));
	if (likely(!has_keys(c)))
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
	if (unlikely(has_keys(c)))
		keep_bufs(in ? &job_priv(&step->job)->src :
			       &job_priv(&step->job)->dst, c, n);
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

/* Get @n bytes at @c into @h, by @step if that needs an engine. */
static void bounce_fetch(struct slot *s, struct step *step, struct half *h,
		  struct engine *e, struct cursor *c, uint64_t n)
{
	int err;

	debug_check(h->state == EMPTY || h == s->sum);
	h->want = n;
	h->len = 0;
	if (!e && unlikely(is_revoked(s))) {
		slot_fail(s, -ESTALE, 0);
		return;
	}
	if (!e) {
		copy_in(h->mem + h->off, c, n);
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

	return !bounce_is_own(e) && !job->op.entered && !step->slot->err &&
	       !step->slot->job->op.entered;
}
