/* SPDX-License-Identifier: BSD-3-Clause */

/* Segments: the map of all memory that is known. */

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "mem/segment-internal.h"

int segment_add(struct weir_mmap *mmap)
{
	(void)mmap;
	return 0;
}

void segment_added(struct weir_mmap *mmap)
{
	(void)mmap;
}

int segment_may_remove(const struct weir_mmap *mmap)
{
	(void)mmap;
	return 0;
}

void segment_remove(struct weir_mmap *mmap)
{
	(void)mmap;
}
