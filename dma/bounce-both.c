/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Blocks that need both halves of a slot: those of comparisons, one for each
 * side, and those of XORs, which have the sum in one, and pull source after
 * source into the other.  While a sum is pushed the next can be begun, but goes
 * on only when that half is free again.
 */

#include <string.h>

#include "dma/bounce-internal.h"

bool bounce_fill_both(struct slot *s)
{
	struct job_priv *p = job_priv(s->job);
	struct bounce *b = bounce_of(s->job);
	uint64_t n;

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

bool bounce_compare_both(struct slot *s)
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

/* As long as the shortest of the sources is. */
static void add_half(struct half *sum, struct half *h)
{
	if (h->len < sum->len)
		sum->len = h->len;
	xor_into(sum->mem, h->mem, sum->len);
	h->state = EMPTY;
}

/* The next source: to the sum, or to the other half first. */
bool bounce_add(struct slot *s)
{
	struct half *sum = s->sum, *h = &s->half[s->in];
	struct engine *e;
	struct cursor c;

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
