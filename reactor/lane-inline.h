/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_REACTOR_LANE_INLINE_H
#define WEIR_REACTOR_LANE_INLINE_H

/* The sender's side of a lane, inline for the same reason as op-inline.h. */

#include "reactor/lane.h"
#include "reactor/op-inline.h"

/* From @r to @to, or NULL: they are not of one group, or the same. */
static inline struct lane *lane_between(struct weir_reactor *r,
					struct weir_reactor *to)
{
	struct lanes *a = r->mailbox.lanes, *b = to->mailbox.lanes;

	if (!a || !b || a->mesh != b->mesh)
		return NULL;
	return a->out[b->self];
}

static inline uint64_t lane_used(const struct lane *lane)
{
	return lane->next - lane->done;
}

/* Posts are done when they have been taken; of calls somebody must hear. */
static inline void lane_forget_posts(struct lane *lane)
{
	if (!lane->n_calls)
		lane->done = atomic_load(&lane->head);
}

/* Where there is room. */
static inline void lane_put(struct lane *lane, union lane_fn fn, void *arg,
			    enum lane_kind kind)
{
	uint64_t i = lane->next & lane->mask;

	lane->cells[i].fn = fn;
	lane->cells[i].arg = arg;
	/* What was there before is mostly the same, and both sides have it. */
	if (unlikely(atomic_load_explicit(&lane->kinds[i],
					  memory_order_relaxed) != kind))
		atomic_store_explicit(&lane->kinds[i], (unsigned char)kind,
				      memory_order_relaxed);
	lane->next++;
}

/* 0, -EAGAIN or -ESHUTDOWN. */
static inline int lane_write(struct lane *lane, union lane_fn fn, void *arg,
			     enum lane_kind kind)
{
	if (unlikely(lane->next == lane->limit))
		return lane_write_slowly(lane, fn, arg, kind);
	lane_put(lane, fn, arg, kind);
	return 0;
}

static inline int lane_post(struct lane *lane, void (*fn)(void *arg), void *arg)
{
	return lane_write(lane, (union lane_fn){ .post = fn }, arg, LANE_POST);
}

/* Likewise; the rest of what makes @op PENDING is the caller's. */
static inline int lane_call(struct lane *lane, struct weir_op *op,
			    int64_t (*fn)(void *arg), void *arg)
{
	uint64_t i = lane->next & lane->mask;
	int err = lane_write(lane, (union lane_fn){ .call = fn }, arg,
			     LANE_CALL);

	if (unlikely(err))
		return err;
	lane->ops[i] = op;
	lane->n_calls++;
	return 0;
}

#endif /* WEIR_REACTOR_LANE_INLINE_H */
