/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_REACTOR_SPSC_INLINE_H
#define WEIR_REACTOR_SPSC_INLINE_H

/* The sender's side of a ring, inline for the same reason as op-inline.h. */

#include "base/own.h"
#include "reactor/group/spsc.h"
#include "reactor/op-inline.h"

/* The ring from @r to @to; NULL if they are not of one group, or the same. */
static inline struct spsc *spsc_between(struct weir_reactor *r,
					struct weir_reactor *to)
{
	struct rings *a = r->mailbox.rings, *b = to->mailbox.rings;

	if (!a || !b || a->mesh != b->mesh)
		return NULL;
	return a->out[b->self];
}

static inline uint64_t spsc_used(const struct spsc *spsc)
{
	return spsc->next - spsc->done;
}

/*
 * A post is done when the receiver has taken it; a call when the sender has its
 * answer.
 */
static inline void spsc_forget_posts(struct spsc *spsc)
{
	if (!spsc->n_calls) {
		spsc->done = atomic_load(&spsc->head);
		own_after(&spsc->head);
	}
}

/* There is capacity. */
static inline void spsc_put(struct spsc *spsc, union spsc_fn fn, void *arg,
			    enum spsc_kind kind)
{
	uint64_t i = spsc->next & spsc->mask;

	spsc->cells[i].fn = fn;
	spsc->cells[i].arg = arg;
	/* The kind is mostly unchanged, and then the line stays shared. */
	if (unlikely(atomic_load_explicit(&spsc->kinds[i],
					  memory_order_relaxed) != kind))
		atomic_store_explicit(&spsc->kinds[i], (unsigned char)kind,
				      memory_order_relaxed);
	spsc->next++;
}

/* 0, -EAGAIN or -ESHUTDOWN. */
static inline int spsc_write(struct spsc *spsc, union spsc_fn fn, void *arg,
			     enum spsc_kind kind)
{
	if (unlikely(spsc->next == spsc->limit))
		return spsc_write_slowly(spsc, fn, arg, kind);
	spsc_put(spsc, fn, arg, kind);
	return 0;
}

static inline int spsc_post(struct spsc *spsc, void (*fn)(void *arg), void *arg)
{
	return spsc_write(spsc, (union spsc_fn){ .post = fn }, arg, SPSC_POST);
}

/* Likewise; the rest of what makes @op PENDING is the caller's. */
static inline int spsc_call(struct spsc *spsc, struct weir_op *op,
			    int64_t (*fn)(void *arg), void *arg)
{
	uint64_t i = spsc->next & spsc->mask;
	int err =
		spsc_write(spsc, (union spsc_fn){ .call = fn }, arg, SPSC_CALL);

	if (unlikely(err))
		return err;
	spsc->ops[i] = op;
	spsc->n_calls++;
	return 0;
}

#endif /* WEIR_REACTOR_SPSC_INLINE_H */
