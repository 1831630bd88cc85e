/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for capacity in a context.  Steps of chains wait here; a caller that
 * starts a job by hand gets -EAGAIN instead.  Waiters are served in order, and
 * from a turn of their own, because jobs end deep inside engines.
 */

#include "dma/job-internal.h"

void capacity_wait(struct weir_dma *dma, struct dma_capacity *capacity)
{
	debug_check(!capacity->pprev && capacity->fn);
	reactor_check_thread(dma->r);
	capacity->next = NULL;
	capacity->pprev = dma->capacity_last;
	*dma->capacity_last = capacity;
	dma->capacity_last = &capacity->next;
}

void capacity_wait_no_more(struct weir_dma *dma, struct dma_capacity *capacity)
{
	reactor_check_thread(dma->r);
	if (!capacity->pprev)
		return;
	*capacity->pprev = capacity->next;
	if (capacity->next)
		capacity->next->pprev = capacity->pprev;
	else
		dma->capacity_last = capacity->pprev;
	capacity->pprev = NULL;
}

/* A waiter that finds none goes to the end of the list, so this ends. */
static void tick(struct weir_op *op, int64_t res)
{
	struct weir_dma *dma =
		weir_container_of(op, struct weir_dma, capacity_tick);
	struct dma_capacity *capacity;

	(void)res;
	while ((capacity = dma->capacity) && !capacity_none(dma)) {
		capacity_wait_no_more(dma, capacity);
		capacity->fn(capacity);
	}
}

void capacity_made(struct weir_dma *dma)
{
	static const struct weir_op_class tick_class = { .name = "DMA capacity" };

	reactor_check_thread(dma->r);
	if (weir_op_is_busy(&dma->capacity_tick))
		return;
	op_enlist(dma->r, &dma->capacity_tick, &tick_class);
	op_complete(&dma->capacity_tick, 0);
}

void capacity_init(struct weir_dma *dma)
{
	reactor_check_thread(dma->r);
	dma->capacity_last = &dma->capacity;
	weir_op_init(&dma->capacity_tick, tick);
}
