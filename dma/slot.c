/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/* Slots and progress of pipelines, as their users see them. */

#include <errno.h>
#include <string.h>

#include "dma/pipeline-internal.h"

int weir_pipeline_progress(const struct weir_pipeline *p,
			   struct weir_pipeline_progress *ret)
{
	struct weir_pipeline_progress out = p->progress;
	size_t size = ret->size;

	if (size < sizeof(ret->size))
		return -EINVAL;
	out.size = size;
	out.in_flight = p->n_active;
	memcpy(ret, &out, size < sizeof(out) ? size : sizeof(out));
	return 0;
}

int64_t weir_pipeline_failed_unit(const struct weir_pipeline *p)
{
	return p->failed_unit;
}

void *weir_slot_data(struct weir_slot *slot)
{
	return slot->data;
}

struct weir_buf *weir_slot_buf(const struct weir_slot *slot)
{
	return slot->buf;
}

struct weir_chain *weir_slot_chain(const struct weir_slot *slot)
{
	return slot->chain;
}

uint64_t weir_slot_unit(const struct weir_slot *slot)
{
	return slot->unit;
}

void weir_slot_set_bytes(struct weir_slot *slot, uint64_t bytes)
{
	slot->bytes = bytes;
}

struct weir_pipeline *weir_slot_pipeline(const struct weir_slot *slot)
{
	return slot->p;
}
