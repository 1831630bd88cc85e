/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Reporting a context's state changes.  They are queued until the loop reports
 * them.  Only a start can be refused for lack of capacity, so it reserves
 * capacity for the stop that follows, too.
 */

#include <errno.h>
#include <string.h>

#include "base/why.h"
#include "dma/job-internal.h"

/* To RUNNING, STOPPING and STOPPED. */
#define ARROWS_OF_START 3

static void arm(struct weir_dma *dma)
{
	static const struct weir_op_class state_class = { .name = "DMA state" };

	if (weir_op_is_busy(&dma->state_op))
		return;
	op_enlist(dma->r, &dma->state_op, &state_class);
	op_complete(&dma->state_op, 0);
}

void dma_set_state(struct weir_dma *dma, uint32_t state)
{
	reactor_check_thread(dma->r);
	if (state == dma->state)
		return;
	if (dma->state_fn) {
		if (!dma->n_arrows)
			dma->arrows[0] = (uint8_t)dma->state;
		dma->arrows[++dma->n_arrows] = (uint8_t)state;
		arm(dma);
	}
	dma->state = state;
}

/* The last call may destroy the context. */
static void tell(struct weir_op *op, int64_t res)
{
	struct weir_dma *dma = weir_container_of(op, struct weir_dma, state_op);
	uint32_t n = dma->n_arrows;
	int prev, next;

	(void)res;
	while (n--) {
		prev = dma->arrows[0];
		next = dma->arrows[1];
		memmove(dma->arrows, dma->arrows + 1, dma->n_arrows);
		dma->n_arrows--;
		dma->state_fn(dma, prev, next, dma->state_arg);
	}
}

void state_init(struct weir_dma *dma)
{
	weir_op_init(&dma->state_op, tell);
}

bool state_is_due(const struct weir_dma *dma)
{
	reactor_check_thread(dma->r);
	return dma->n_arrows > 0;
}

bool state_is_full(const struct weir_dma *dma)
{
	reactor_check_thread(dma->r);
	return dma->n_arrows + ARROWS_OF_START >= DMA_ARROWS;
}

int weir_dma_set_state_cb(struct weir_dma *dma, weir_dma_state_fn *fn,
			  void *arg)
{
	if (dma->state != WEIR_DMA_STOPPED || dma->n_arrows)
		return why(-EBUSY, "weir_dma_set_state_cb: the context is not "
				   "stopped, or calls of its last one are due");
	dma->state_fn = fn;
	dma->state_arg = arg;
	return 0;
}

uint32_t weir_dma_in_flight(const struct weir_dma *dma)
{
	return (uint32_t)dma->n_jobs;
}

void dma_left(struct weir_dma *dma)
{
	struct weir_op *op = dma->stop_op;

	reactor_check_thread(dma->r);
	if (dma->n_jobs || dma->stats.quarantined)
		return;
	dma->stop_op = NULL;
	dma_set_state(dma, WEIR_DMA_STOPPED);
	op_complete(op, 0);
}
