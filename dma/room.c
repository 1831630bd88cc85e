/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for room in a context: steps of chains do, because who starts a job
 * by hand is told -EAGAIN.  First come, first served, from a turn of its own:
 * a job ends deep inside engines.
 */

#include "dma/job-internal.h"

void room_wait(struct weir_dma *dma, struct dma_room *room)
{
	room->next = NULL;
	room->pprev = dma->room_last;
	*dma->room_last = room;
	dma->room_last = &room->next;
}

void room_wait_no_more(struct weir_dma *dma, struct dma_room *room)
{
	if (!room->pprev)
		return;
	*room->pprev = room->next;
	if (room->next)
		room->next->pprev = room->pprev;
	else
		dma->room_last = room->pprev;
	room->pprev = NULL;
}

/* Who finds none goes to the end of the list: so this ends. */
static void tick(struct weir_op *op, int64_t res)
{
	struct weir_dma *dma = weir_container_of(op, struct weir_dma,
						 room_tick);
	struct dma_room *room;

	(void)res;
	while ((room = dma->room) && !room_none(dma)) {
		room_wait_no_more(dma, room);
		room->fn(room);
	}
}

void room_made(struct weir_dma *dma)
{
	static const struct weir_op_class tick_class = { .name = "DMA room" };

	if (weir_op_is_busy(&dma->room_tick))
		return;
	op_enlist(dma->r, &dma->room_tick, &tick_class);
	op_complete(&dma->room_tick, 0);
}

void room_init(struct weir_dma *dma)
{
	dma->room_last = &dma->room;
	weir_op_init(&dma->room_tick, tick);
}
