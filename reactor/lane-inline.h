/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_REACTOR_LANE_INLINE_H
#define WEIR_REACTOR_LANE_INLINE_H

/* The sender's side of a lane, inline for the same reason as op-inline.h. */

#include "reactor/lane.h"
#include "reactor/op-inline.h"

#define LANE_SHOW_EVERY 32	/* The other side begins while this goes on. */

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

static inline int lane_may_write(struct lane *lane)
{
	if (unlikely(lane->from->attention & ATTENTION_STOPPING ||
		     atomic_load(&lane->closed)))
		return -ESHUTDOWN;
	if (likely(lane_used(lane) <= lane->mask))
		return 0;
	lane_forget_posts(lane);
	return lane_used(lane) <= lane->mask ? 0 : -EAGAIN;
}

static inline void lane_written(struct lane *lane)
{
	struct weir_reactor *r = lane->from;
	struct lanes *lanes = r->mailbox.lanes;

	lane->next++;
	if (unlikely(lane->next - lane->shown >= LANE_SHOW_EVERY)) {
		lane_show(lane);
	} else if (!lane->unshown) {
		lane->unshown = true;
		lane->next_unshown = lanes->unshown;
		lanes->unshown = lane;
	}
	if (unlikely(!r->in_turn))
		lanes_show(lanes);
}

/* 0, -EAGAIN or -ESHUTDOWN. */
static inline int lane_post(struct lane *lane, void (*fn)(void *arg), void *arg)
{
	struct lane_cell *cell = &lane->cells[lane->next & lane->mask];
	int err = lane_may_write(lane);

	if (unlikely(err))
		return err;
	cell->fn.post = fn;
	cell->arg = arg;
	atomic_store_explicit(&cell->kind, LANE_POST, memory_order_relaxed);
	lane->ops[lane->next & lane->mask] = NULL;
	lane_written(lane);
	return 0;
}

/* Likewise; the rest of what makes @op PENDING is the caller's. */
static inline int lane_call(struct lane *lane, struct weir_op *op,
	      int64_t (*fn)(void *arg), void *arg)
{
	struct lane_cell *cell = &lane->cells[lane->next & lane->mask];
	int err = lane_may_write(lane);

	if (unlikely(err))
		return err;
	cell->fn.call = fn;
	cell->arg = arg;
	atomic_store_explicit(&cell->kind, LANE_CALL, memory_order_relaxed);
	lane->ops[lane->next & lane->mask] = op;
	lane->n_calls++;
	lane_written(lane);
	return 0;
}

#endif /* WEIR_REACTOR_LANE_INLINE_H */
