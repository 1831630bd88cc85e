/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_SYNC_REMOTE_H
#define WEIR_SYNC_REMOTE_H

/*
 * Sync events at a peer, by RDMA.
 *
 * One side creates a sync event in an mmap (weir_sync_create_in()) and exports
 * the mmap for RDMA; the other imports it, and opens the sync event:
 *
 *	err = weir_mmap_import_rdma(&theirs, domain, desc, len, NULL);
 *	err = weir_sync_remote_open(&done, dma, theirs, 0);
 *	err = weir_sync_remote_add(done, &rq->op, &rq->call, 1);
 *
 * Each call is an operation: a signal is a remote atomic, a get a remote read.
 * A wait reads repeatedly: at once at first, then less often, up to every
 * millisecond.  So put a sync event into the memory of the side that waits.
 *
 * Its creator waits for it as for any other.  A device does not report that it
 * has changed a word, so if the mmap has WEIR_MMAP_RDMA_WRITE or
 * WEIR_MMAP_RDMA_ATOMIC its waits poll: a reactor while it is awake, otherwise
 * a thread every millisecond.
 *
 * If the mmap has WEIR_MMAP_RDMA_ATOMIC and its device lacks
 * WEIR_DEVICE_CAP_ATOMIC_ALL, a signal by a processor could be lost, so
 * weir_sync_set() and weir_sync_add() return -EXDEV.  Then use a sync event for
 * each direction: one that only peers signal, and one that they only read.
 *
 * A signal never overtakes the data: the waiter sees the data of jobs to the
 * peer whose callbacks ran before the signal, or that are earlier steps of the
 * chain.
 *
 * weir_sync_remote_get() and waits detect that the creator has destroyed the
 * sync event; signals do not.  So keep the bytes unused until peers are done,
 * or stop the mmap.
 *
 * Re-creates doca_sync_event_remote_net.
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_chain;
struct weir_dma;
struct weir_mmap;
struct weir_op;
struct weir_sync_remote;

/* Memory of a call, which the library uses until its callback. */
struct weir_sync_call {
	uint64_t got;		/* The value that was read, or the previous. */
	uint64_t words[168];	/* Private. */
};

/*
 * Open a sync event at offset @off of @mmap, an import by RDMA, for calls by
 * jobs of @dma.
 *
 * The call does not read the bytes there.  @mmap and @dma cannot be destroyed
 * before weir_sync_remote_destroy().
 *
 * Returns 0 with *@ret set, to be freed by weir_sync_remote_destroy(), or
 *   -EINVAL  @off is not a multiple of 8, or @mmap is no import by RDMA: see
 *            weir_sync_open()
 *   -ERANGE  it would reach beyond the end
 *   -ENOMEM  no memory
 *
 * Call on @dma's reactor, which is the thread of @mmap's owner.
 *
 * Re-creates doca_sync_event_remote_net_create_from_export().
 */
WEIR_API int weir_sync_remote_open(struct weir_sync_remote **ret,
				   struct weir_dma *dma, struct weir_mmap *mmap,
				   uint64_t off);

/*
 * Free @sync.  NULL is allowed.
 *
 * Returns 0, or, with @sync unchanged:
 *   -EBUSY  calls are in flight
 *
 * Call on its reactor.
 *
 * Re-creates doca_sync_event_remote_net_destroy().
 */
WEIR_API int weir_sync_remote_destroy(struct weir_sync_remote *sync);

/*
 * Add @n to the value, which wraps around.
 *
 * call->got is set to the previous value.
 *
 * Completes with 0; -ECANCELED, -ETIMEDOUT; or the result of the job of an
 * atomic, see weir_job_fetch_add(): if the connection has failed, it is unknown
 * whether @n was added.
 *
 * Returns 0, or
 *   -EACCES  the exporter has not granted WEIR_MMAP_RDMA_ATOMIC
 *   -EINVAL  @op is in flight or has no callback
 * or what weir_job_start() returns: -ENOTCONN, -EAGAIN, -EXDEV, ...
 *
 * Call on its reactor.  Never blocks, never allocates.
 *
 * Re-creates doca_sync_event_update_add() of a remote one.
 */
WEIR_API int weir_sync_remote_add(struct weir_sync_remote *sync,
				  struct weir_op *op,
				  struct weir_sync_call *call, uint64_t n);

/*
 * Set the value.
 *
 * The call repeats a compare-and-swap until no other change intervenes.
 * call->got is set to the value that it has replaced.
 *
 * Completes and returns as weir_sync_remote_add().
 *
 * Call on its reactor.  Never blocks, never allocates.
 *
 * Re-creates doca_sync_event_update_set() of a remote one.
 */
WEIR_API int weir_sync_remote_set(struct weir_sync_remote *sync,
				  struct weir_op *op,
				  struct weir_sync_call *call, uint64_t value);

/*
 * Read the value into call->got.
 *
 * Completes with 0, or
 *   -EBADMSG          there is no sync event
 *   -EPROTONOSUPPORT  the sync event has another version
 *   -ESTALE           its creator has destroyed it
 *   -ECANCELED, -ETIMEDOUT, or what weir_job_start() completes with
 *
 * Returns 0, or
 *   -EACCES  the exporter has not granted WEIR_MMAP_RDMA_READ
 *   -EINVAL  @op is in flight or has no callback
 * or what weir_job_start() returns: -ENOTCONN, -EAGAIN, -EXDEV, ...
 *
 * Call on its reactor.  Never blocks, never allocates.
 *
 * Re-creates doca_sync_event_get() of a remote one.
 */
WEIR_API int weir_sync_remote_get(struct weir_sync_remote *sync,
				  struct weir_op *op,
				  struct weir_sync_call *call);

/*
 * Wait until the value meets the condition @cond with @value.
 *
 * Only the bits in @mask are compared; see weir_sync_wait().  call->got is set
 * to the value.
 *
 * Completes with 0, also if the sync event was destroyed afterwards; or as
 * weir_sync_remote_get().
 *
 * Returns what weir_sync_remote_get() returns, or
 *   -EINVAL  unknown @cond; @mask is 0; or @value has bits that are not in
 *            @mask
 *
 * Call on its reactor.  Never blocks, never allocates.
 *
 * Re-creates doca_sync_event_wait_gt_yield() of a remote one.
 */
WEIR_API int weir_sync_remote_wait(struct weir_sync_remote *sync,
				   struct weir_op *op,
				   struct weir_sync_call *call, uint32_t cond,
				   uint64_t value, uint64_t mask);

/* A step of a chain, in the caller's memory, as struct weir_sync_step. */
struct weir_sync_remote_step {
	struct weir_sync_remote *sync;
	uint32_t action;	/* WEIR_SYNC_DO_ */
	uint32_t cond;		/* To wait: WEIR_SYNC_EQ, ... */
	uint64_t value;		/* To wait for, set or add. */
	uint64_t mask;		/* To wait: 0 is WEIR_SYNC_ALL. */
	struct weir_sync_call call;	/* .got as a call sets it. */
};

/*
 * Add @step, one of the calls above, to @chain.
 *
 * The result of the step is that of the call; -EINVAL for an unknown .action.
 *
 * Returns what weir_chain_add_job() returns.
 *
 * Call on the chain's reactor, which is that of .sync.  Never allocates.
 * Re-creates doca_graph_node_create_from_ctx() with a doca_sync_event task.
 */
WEIR_API int weir_chain_add_sync_remote(struct weir_chain *chain, int after,
					struct weir_sync_remote_step *step);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_SYNC_REMOTE_H */
