/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMA_MMAP_MW_H
#define RDMA_MMAP_MW_H

/*
 * Memory windows of type 2, for code that has queue pairs: a part of an mmap
 * and some of its rights, behind a key that is valid on one queue pair only,
 * and that one work request creates and another one revokes.
 *
 * A part that is not all of the mmap is registered by itself, so that a device
 * that does not check the range of a window checks that of the region.  The
 * region's own key opens nothing.  On a device without windows the key is that
 * of a region: valid on any queue pair, and without a work request.
 *
 * A window belongs to its maker, until it is abandoned.  The mmap's stop frees
 * its part on the device, bound or not; the maker then gets -ESTALE, and
 * destroys the rest.  If the window was abandoned, the stop frees that, too.
 */

#include <stdbool.h>
#include <stdint.h>

struct ibv_send_wr;
struct mmap_mw;
struct weir_device;
struct weir_mmap;

struct mmap_mw_opts {
	uint64_t off, len; /* In the range; .len is not 0. */
	uint32_t permissions; /* WEIR_MMAP_RDMA_, the mmap's. */
	bool narrow; /* No key that is good on any queue pair. */
};

/*
 * Make a window on @device, one of @mmap's, which is started.
 *
 * Returns 0 with *@ret set, to be freed by mmap_mw_destroy(), or, with a
 * message that begins with @call:
 *   -EOPNOTSUPP  .narrow, and the device has no windows or the range is no
 *                memory; or it registers nothing
 *   -ERANGE, -EACCES  the mmap has not got this part, or these rights
 *   -EBADFD, -ENOENT, -ENOMEM, ...  what weir_mmap_keys() says
 *
 * Any thread.
 */
int mmap_mw_create(struct mmap_mw **ret, struct weir_mmap *mmap,
		   struct weir_device *device, const struct mmap_mw_opts *opts,
		   const char *call);

/*
 * Fill in what @wr needs to bind @w, or to invalidate it (not .wr_id,
 * .send_flags, .next).  It is to be posted, and mmap_mw_done() called when
 * it has ended; the mmap cannot be stopped in between.  The key is new each
 * time, and good for the peer once the work request has completed.
 *
 * Returns 0, or
 *   -ESTALE  the mmap was stopped
 *   -EBUSY   bound already, or another work request is in flight
 *   -ENOKEY  to be invalidated, and not bound
 *
 * Any thread.
 */
int mmap_mw_bind(struct mmap_mw *w, struct ibv_send_wr *wr);
int mmap_mw_invalidate(struct mmap_mw *w, struct ibv_send_wr *wr);

/* It has ended, and @w is bound, or its key opens nothing. */
void mmap_mw_done(struct mmap_mw *w, bool bound);

/*
 * The key of @w for peers, and the address that it begins at.  Returns 0,
 * -ESTALE, or -ENOKEY: it is not bound.  Any thread.
 */
int mmap_mw_key(const struct mmap_mw *w, uint64_t *addr, uint32_t *rkey);

/*
 * Free @w, bound or not: its key opens nothing any more.  NULL is allowed.
 * Returns 0, or the driver's errno, with a message.  Any thread.
 */
int mmap_mw_destroy(struct mmap_mw *w);

#endif /* RDMA_MMAP_MW_H */
