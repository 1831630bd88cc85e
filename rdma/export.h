/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMA_EXPORT_H
#define RDMA_EXPORT_H

/* Exports by RDMA: what windows have in common with the keys of mmaps. */

#include <weir/rdma/export.h>

#include "mem/export/internal.h"

/*
 * Check the options of weir_mmap_export_rdma(), and replace 0 by the defaults.
 * Returns 0 or its errnos.  The owner's thread.
 */
int export_rdma_check(struct weir_mmap *mmap, struct weir_device *device,
		      struct weir_export_rdma_opts *opts);

/* A key that is there already: that of a memory window, see mmap-mw.h. */
struct export_key {
	uint64_t addr;
	uint64_t node;		/* GUID of the node; 0: not known. */
	uint32_t rkey;
	uint32_t qp_num;	/* On which it is good; 0: on any. */
};

/*
 * Write the descriptor of the memory that @key opens in @mmap to @bytes, with
 * the options @opts, which were checked.  Returns its length, or a negative
 * errno as weir_mmap_export_rdma().  The owner's thread.
 */
int export_rdma_key(uint8_t bytes[DESCRIPTOR_MAX], struct weir_mmap *mmap,
		    const struct weir_export_rdma_opts *opts,
		    const struct export_key *key);

#endif /* RDMA_EXPORT_H */
