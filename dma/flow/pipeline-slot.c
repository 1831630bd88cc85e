/* SPDX-License-Identifier: BSD-3-Clause */
/* Slots of pipelines, as their users see them. */

#include "dma/flow/pipeline-internal.h"

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
