/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Who is refused by a pool's .waiters_max, and has nothing else to wait for,
 * waits here instead of asking in every turn.  When a waiter leaves all are
 * told: one that has lost interest meanwhile must not cost the others theirs.
 */

#include <errno.h>

#include "mem/shared-pool-internal.h"
#include "reactor/op-inline.h"

static void capacity_cancel(struct weir_op *op)
{
	struct weir_pool *pool = (struct weir_pool *)(uintptr_t)op->u.words[0];

	op_queue_del(&pool->outside, op);
	op_complete(op, -ECANCELED);
}

static const struct weir_op_class capacity_class = {
	.name = "pool capacity",
	.cancel = capacity_cancel,
};

void shared_pool_wait_or_capacity(struct pool_class *pc, struct weir_op *op)
{
	if (!shared_pool_wait_always(pc, op))
		return;
	op_enlist(pc->pool->r, op, &capacity_class);
	op->u.words[0] = (uintptr_t)pc->pool;
	op_queue_push(&pc->pool->outside, op);
}

bool shared_pool_is_full(const struct weir_pool *pool)
{
	uint64_t n = 0;
	uint32_t i;

	for (i = 0; i < pool->n_classes; i++)
		n += pool->classes[i].waiting;
	return pool->waiters_max && n >= pool->waiters_max;
}

void shared_pool_let_in(struct weir_pool *pool)
{
	struct weir_op *op;

	if (likely(op_queue_empty(&pool->outside)) || shared_pool_is_full(pool))
		return;
	while ((op = op_queue_pop(&pool->outside)))
		op_complete(op, 0);
}
