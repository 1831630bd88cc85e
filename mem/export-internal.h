/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_MEM_EXPORT_INTERNAL_H
#define WEIR_MEM_EXPORT_INTERNAL_H

/* What the life of an mmap wants of its exports. */

struct weir_mmap;

/*
 * @mmap, whose .export is set, has stopped: its importers must find out.  Sets
 * .export to NULL.  Cannot fail.
 */
static inline void export_revoke(struct weir_mmap *mmap)
{
	(void)mmap;
}

#endif /* WEIR_MEM_EXPORT_INTERNAL_H */
