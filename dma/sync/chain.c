/* SPDX-License-Identifier: BSD-3-Clause */
/* Sync events as steps: a wait is an operation, all else is done at once. */

#include <errno.h>

#include <weir/chain.h>

#include "base/why.h"
#include "dma/flow/chain-internal.h"
#include "dma/sync/internal.h"

static int start(struct weir_chain *chain, uint32_t n, struct weir_op *op,
		 void *arg)
{
	struct weir_sync_step *step = arg;
	int err;

	(void)n;
	switch (step->action) {
	case WEIR_SYNC_DO_WAIT:
		return weir_sync_wait(step->sync, chain->r, op, step->cond,
				      step->value,
				      step->mask ? step->mask : WEIR_SYNC_ALL);
	case WEIR_SYNC_DO_SET:
		err = weir_sync_set(step->sync, step->value);
		break;
	case WEIR_SYNC_DO_ADD:
		err = weir_sync_add(step->sync, step->value, &step->got);
		break;
	case WEIR_SYNC_DO_GET:
		err = weir_sync_get(step->sync, &step->got);
		break;
	default:
		return -EINVAL;
	}
	return err ? err : 1;
}

int weir_chain_add_sync(struct weir_chain *chain, int after,
			struct weir_sync_step *step)
{
	if (!step)
		return why(-EINVAL, "weir_chain_add_sync: step is NULL");
	return chain_add_op("weir_chain_add_sync", chain, after, start, step);
}
