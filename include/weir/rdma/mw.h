/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_RDMA_MW_H
#define WEIR_RDMA_MW_H

/*
 * Memory windows: a part of an mmap and some of its rights, for the peer of one
 * connection only.
 *
 *	exporter                              importer
 *	weir_mw_create(), its op
 *	weir_mw_export() ---- bytes ----> weir_mmap_import_rdma()
 *	weir_mw_revoke() ---------------> its jobs fail
 *
 * What weir_mmap_export_rdma() gives is good for any peer that learns it.  A
 * window is bound to the queue pair of its connection: from any other one its
 * key opens nothing.  The device sees to its rights and its range, whatever the
 * importer does, and takes it back without touching anything else of the
 * mmap's.
 *
 * A window is over when it is revoked or destroyed, when its mmap stops and
 * when its connection ends: each takes the key back first, so that a late
 * access ends in the peer's error and changes nothing here.  Over it stays: a
 * connection that is established again needs a new one.
 *
 * Windows were run over soft-RoCE, and over mocks for what it has not; on no
 * hardware.  See weir-rdma(7).
 *
 * Without verbs, there is no connection to make one for: -EOPNOTSUPP.
 */

#include <weir/rdma/export.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_conn;
struct weir_mw;

/* Where a window is; weir_mw_info(). */
#define WEIR_MW_BINDING 1 /* It is about to open. */
#define WEIR_MW_OPEN 2
#define WEIR_MW_REVOKING 3 /* It is about to be over. */
#define WEIR_MW_OVER 4

/*
 * Make a window for the peer of @c, which is established: what
 * weir_mmap_export_rdma() would give with @opts, for the device of @c.
 *
 * It is a memory window of type 2, bound to the queue pair by a work request:
 * so it opens behind all that was posted before, and a cancel or a deadline
 * comes too late.  A part of the mmap is registered by itself, with a key that
 * opens nothing, for not every device looks at the range of a window.
 *
 * Where the device has no windows, or none over device memory or a dma-buf, the
 * part is registered with a key of its own that is good on any queue pair of
 * the device: weir_mw_info() says .qp_num 0 then, and so do the bytes.
 * WEIR_EXPORT_BOUND refuses that.
 *
 * Completes with 0 when it is open, or
 *   -ENOTCONN  the connection has ended
 *   -EIO and others  the device refuses; then the connection ends
 * and then it is over, and still to be destroyed.
 *
 * Returns 0 with *@ret set, to be freed by weir_mw_destroy(), or
 *   -ENOTCONN    @c is not established
 *   -EBADFD      @mmap is not started
 *   -EPERM       @mmap is imported
 *   -EACCES      it has none of WEIR_MMAP_RDMA_, or not what is asked for
 *   -ENOENT      the device of @c is none of @mmap's
 *   -ERANGE      .off and .len are not within the range
 *   -EOPNOTSUPP  WEIR_EXPORT_BOUND, and there can be no window; or a key, and
 *                no libsodium
 *   -EINVAL      unknown flags or permissions, or a key of a wrong length
 *   -E2BIG       @opts sets a member that this version does not have
 *   -EAGAIN, -ESHUTDOWN  @op cannot be started, see <weir/op.h>
 *   -ENOMEM, -EFAULT, ...  it cannot be registered, see weir_mmap_keys()
 *
 * Call on the connection's reactor, where control calls of @mmap are allowed.
 * Registering takes time for each page.
 *
 * Re-creates ibv_alloc_mw() and IBV_WR_BIND_MW.
 */
WEIR_API int weir_mw_create(struct weir_mw **ret, struct weir_conn *c,
			    struct weir_op *op, struct weir_mmap *mmap,
			    const struct weir_export_rdma_opts *opts);

/*
 * Fill *@ret with the bytes that the peer needs to import what @w opens.  They
 * are @w's, and good until it is destroyed; there are no file descriptors.
 *
 * Returns 0, or, with *@ret as it was:
 *   -EBUSY   it is not open yet
 *   -ESTALE  it is over, or about to be
 *   -EINVAL  .size is smaller than the member itself
 *
 * Call on the connection's reactor.  Never blocks.  Re-creates .rkey of struct
 * ibv_mw.
 */
WEIR_API int weir_mw_export(const struct weir_mw *w,
			    struct weir_export_desc *ret);

/* What there is to know about a window; weir_mw_info(). */
struct weir_mw_info {
	size_t size; /* Set by the caller: the size of the struct. */
	uint32_t state; /* WEIR_MW_ */
	uint32_t qp_num; /* On which its key is good; 0: on any of the
				 * device's. */
};

/*
 * Copy what there is to know about @w to *@ret, whose .size the caller has set.
 *
 * Returns 0, or
 *   -EINVAL  .size is smaller than the member itself
 *
 * Call on the connection's reactor.  Never blocks.  Re-creates struct
 * ibv_mw_bind_info.
 */
WEIR_API int weir_mw_info(const struct weir_mw *w, struct weir_mw_info *ret);

/*
 * Take back what @w opens.
 *
 * Completes with 0 when nothing that the peer does can reach the memory by it
 * any more: also if it was over, and if the connection ends meanwhile.  A work
 * request does it, so a cancel or a deadline comes too late; where there is no
 * connection, or no window, a system call.  That may be refused, and then it
 * completes with
 *   -EBUSY and others  the device keeps it, and perhaps open; to revoke or
 *                      destroy it asks again
 * and it is over all the same.
 *
 * Returns 0, or
 *   -EBUSY  an operation on it is in flight
 *   -EAGAIN, -EINVAL, -ESHUTDOWN  see <weir/op.h>
 *
 * Call on the connection's reactor.
 *
 * Re-creates IBV_WR_LOCAL_INV.
 */
WEIR_API int weir_mw_revoke(struct weir_mw *w, struct weir_op *op);

/*
 * Free @w.  If it is open, it is taken back before this returns, by a system
 * call.  NULL is allowed.
 *
 * Returns 0, or, with nothing changed:
 *   -EBUSY  an operation on it is in flight
 *   others  the device keeps it; weir_why() says more
 *
 * Call on the connection's reactor.
 *
 * Re-creates ibv_dealloc_mw().
 */
WEIR_API int weir_mw_destroy(struct weir_mw *w);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_RDMA_MW_H */
