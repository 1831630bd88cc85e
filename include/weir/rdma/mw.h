/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_RDMA_MW_H
#define WEIR_RDMA_MW_H

/*
 * Memory windows: a part of an mmap with some of its rights, for the peer of
 * one connection only.
 *
 *	exporter                              importer
 *	weir_mw_create(), its op
 *	weir_mw_export() ---- bytes ----> weir_mmap_import_rdma()
 *	weir_mw_renew()
 *	weir_mw_revoke() ---------------> its jobs fail
 *
 * An export by weir_mmap_export_rdma() is valid for any peer that has its
 * bytes. A window is bound to the queue pair of its connection; on any other
 * queue pair its key is invalid.  The device enforces its rights and its range,
 * whatever the importer does.  A window can be revoked without affecting the
 * rest of the mmap.
 *
 * A window is over when it is revoked or destroyed, when its time is over, see
 * weir_mw_renew(), when its mmap stops and when its connection ends.  Each of these invalidates the key first, so a
 * later access is an error at the peer and changes nothing here.  A window that
 * is over cannot be opened again: a connection that is established again needs
 * a new one.
 *
 * Windows were tested over soft-RoCE, and over mocks for features that it
 * lacks; not on hardware.  See weir-rdma(7).
 */

#include <weir/rdma/export.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_conn;
struct weir_mw;

/* States of a window; weir_mw_info(). */
#define WEIR_MW_BINDING 1 /* Its bind is in flight. */
#define WEIR_MW_OPEN 2
#define WEIR_MW_REVOKING 3 /* Its revocation is in flight. */
#define WEIR_MW_OVER 4

/*
 * Create a window for the peer of @c, which must be established.
 *
 * The window covers the range and rights that weir_mmap_export_rdma() would
 * export with @opts, for the device of @c.
 *
 * It is a memory window of type 2, bound to the queue pair by a work request,
 * so it opens after all requests that were posted before; a cancel or a
 * deadline has no effect on a bind in flight.  A part of the mmap is registered
 * separately, with a key that grants peers no access, because some devices do
 * not check the range of a window.
 *
 * If the device has no windows, or none over device memory or a dma-buf, the
 * part is registered with a key of its own that is valid on any queue pair of
 * the device; weir_mw_info() and the bytes then have .qp_num 0.
 * WEIR_EXPORT_BOUND refuses that.
 *
 * Completes with 0 when it is open, or
 *   -ENOTCONN  the connection has ended
 *   -ETIMEDOUT  the deadline had passed before the call
 *   -EIO and others  the device refuses; then the connection ends
 * and then the window is over, and must still be destroyed.
 *
 * Returns 0 with *@ret set, to be freed by weir_mw_destroy(), or
 *   -ENOTCONN    @c is not established
 *   -EBADFD      @mmap is not started
 *   -EPERM       @mmap is imported
 *   -EACCES      @mmap has none of WEIR_MMAP_RDMA_, or not the requested ones
 *   -ENOENT      @mmap does not have the device of @c
 *   -ERANGE      .off and .len are not within the range
 *   -EOPNOTSUPP  WEIR_EXPORT_BOUND, and there can be no window; or a key, and
 *                no libsodium
 *   -EINVAL      unknown flags or permissions, or a key of a wrong length
 *   -E2BIG       @opts sets a member that this version does not have
 *   -EAGAIN, -ESHUTDOWN  @op cannot be started, see <weir/op.h>
 *   -ENOMEM, -EFAULT, ...  the range cannot be registered, see weir_mmap_keys()
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
 * Get the bytes from which the peer imports the memory of @w.
 *
 * @w owns the bytes, which are valid until it is destroyed; there are no file
 * descriptors.
 *
 * Returns 0, or, with *@ret unchanged:
 *   -EBUSY   @w is not open yet
 *   -ESTALE  @w is over or being revoked
 *   -EINVAL  .size is smaller than the member itself
 *
 * Call on the connection's reactor.  Never blocks.  Re-creates .rkey of struct
 * ibv_mw.
 */
WEIR_API int weir_mw_export(const struct weir_mw *w,
			    struct weir_export_desc *ret);

/* State of a window; weir_mw_info(). */
struct weir_mw_info {
	size_t size; /* Set by the caller: the size of the struct. */
	uint32_t state; /* WEIR_MW_ */
	uint32_t qp_num; /* On which its key is valid; 0: any of the device. */
};

/*
 * Get the state and the queue pair of @w.
 *
 * The caller sets .size of *@ret.
 *
 * Returns 0, or
 *   -EINVAL  .size is smaller than the member itself
 *
 * Call on the connection's reactor.  Never blocks.  Re-creates struct
 * ibv_mw_bind_info.
 */
WEIR_API int weir_mw_info(const struct weir_mw *w, struct weir_mw_info *ret);

/*
 * Give @w an end, @duration_ns from now, or move it; 0: it has none any more.  At
 * its end the window is revoked as by weir_mw_revoke(), by the clock of the
 * exporter's reactor; the importer's jobs fail.  This makes it a lease, see
 * <weir/lease.h>.
 *
 * Returns 0, or
 *   -ESTALE  @w is over or being revoked
 *
 * Call on the connection's reactor.  Never blocks.  Re-creates nothing: keys of
 * verbs have no end.
 */
WEIR_API int weir_mw_renew(struct weir_mw *w, uint64_t duration_ns);

/*
 * Revoke @w, so that the peer cannot access the memory through it.
 *
 * Completes with 0 when no access of the peer can reach the memory through @w
 * any more, also if @w was over, or if the connection ends meanwhile.  A work
 * request revokes it, so a cancel or a deadline has no effect; without a
 * connection, or without a window of the device, a system call does.  If that
 * is refused, the operation completes with
 *   -EBUSY and others  the device keeps it, perhaps open; revoke or destroy it
 *                      again
 * and @w is over in any case.
 *
 * Returns 0, or
 *   -EBUSY  an operation on @w is in flight
 *   -EAGAIN, -EINVAL, -ESHUTDOWN  see <weir/op.h>
 *
 * Call on the connection's reactor.
 *
 * Re-creates IBV_WR_LOCAL_INV.
 */
WEIR_API int weir_mw_revoke(struct weir_mw *w, struct weir_op *op);

/*
 * Free @w.
 *
 * If it is open, the call revokes it first, by a system call.  NULL is allowed.
 *
 * Returns 0, or, with nothing changed:
 *   -EBUSY  an operation on @w is in flight, or its end is revoking it
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
