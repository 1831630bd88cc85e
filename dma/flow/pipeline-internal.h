/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_DMA_PIPELINE_INTERNAL_H
#define WEIR_DMA_PIPELINE_INTERNAL_H

/*
 * What a pipeline is made of.
 */

#include <weir/chain.h>
#include <weir/pipeline.h>
#include <weir/pool.h>

#include "reactor/op-inline.h"

struct weir_slot {
	struct weir_pipeline *p;
	struct weir_chain *chain;
	struct weir_buf *buf;
	void *data;
	uint64_t unit;
	uint64_t bytes;
	int64_t res;
	bool active;		/* Its chain is in flight. */
	bool ended;
	bool ran;		/* Its chain has been started for this unit. */
	struct weir_slot *next;	/* In the free list. */
	struct weir_op op;	/* The chain's. */
};

struct weir_pipeline {
	struct weir_reactor *r;
	struct weir_pipeline_opts opts;
	struct weir_op *op;	/* Up to its callback; NULL: not in flight. */
	struct weir_slot *slots;
	struct weir_slot **order;
	char *data;
	uint32_t window;	/* Slots that may have units. */

	/* Of the run. */
	struct weir_slot *free;
	struct weir_slot *parked;	/* Has no buf yet; wait is in flight. */
	struct weir_op wait;
	struct weir_op tick;
	uint64_t n_active;	/* Units between next() and done(). */
	uint64_t retire;	/* Next to be done, if ordered. */
	bool ended;		/* No more units: next() or the user. */
	bool idle;		/* next() has none now. */
	bool paused;
	bool stopping;		/* No more units: error or cancel. */
	bool cancelled;
	bool cut;		/* By the cancel: a unit. */
	bool drained;		/* .op has its result, and its callback is due. */
	unsigned int in_fn;	/* Functions of the user's on the stack. */
	struct weir_pipeline_progress progress;
	struct weir_pipeline_failure failure;	/* .where is 0: none. */
	struct reactor_obj obj;
};

#endif /* WEIR_DMA_PIPELINE_INTERNAL_H */
