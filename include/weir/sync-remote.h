/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_SYNC_REMOTE_H
#define WEIR_SYNC_REMOTE_H

/*
 * Sync events at a peer, by RDMA.
 *
 * One side creates a sync event in an mmap (weir_sync_create_in()) and exports
 * that for RDMA; the other imports it, and opens what lies there:
 *
 *	err = weir_mmap_import_rdma(&theirs, domain, desc, len, NULL);
 *	err = weir_sync_remote_open(&done, dma, theirs, 0);
 *	err = weir_sync_remote_add(done, &rq->op, &rq->call, 1);
 *
 * Each call is an operation: a signal is a remote atomic, a look a remote read.
 * A wait looks again and again: at once at first, then less often, up to every
 * millisecond; so a sync event lies best in the waiter's memory.
 *
 * Its creator waits for it as for any other.  No device tells that it has
 * changed a word, so where the mmap has WEIR_MMAP_RDMA_WRITE or
 * WEIR_MMAP_RDMA_ATOMIC its waits look: a reactor while it is awake, and else
 * every millisecond.
 *
 * Where WEIR_MMAP_RDMA_ATOMIC goes with a device without
 * WEIR_DEVICE_CAP_ATOMIC_ALL, a signal by a processor could be lost: there
 * weir_sync_set() and weir_sync_add() are -EXDEV.  Then each direction needs a
 * sync event of its own, that only peers signal; or one that they only read.
 *
 * A signal never overtakes the data: what jobs to the peer have written whose
 * callbacks ran before, or that are earlier steps of the chain, is seen there
 * by the waiter.
 *
 * What the creator has destroyed is told by looks, not by signals: keep the
 * bytes unused until peers are done, or stop the mmap.
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

/* What a call needs while it is in flight: lent until its callback. */
struct weir_sync_call {
	uint64_t got;		/* The value: read; or what it was before. */
	uint64_t words[168];	/* The library's. */
};

/*
 * Open what lies at offset @off of @mmap, an import by RDMA, for calls by jobs
 * of @dma.  What is there is not looked at.  @mmap and @dma stay until
 * weir_sync_remote_destroy().
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
 * Returns 0, or, with it as it was:
 *   -EBUSY  calls are in flight
 *
 * Call on its reactor.
 *
 * Re-creates doca_sync_event_remote_net_destroy().
 */
WEIR_API int weir_sync_remote_destroy(struct weir_sync_remote *sync);

/*
 * Add @n to the value, which wraps around.  call->got is what it was.
 *
 * Completes with 0; -ECANCELED, -ETIMEDOUT; or what the job of an atomic
 * completes with, see weir_job_fetch_add(): if the connection has failed,
 * it is unknown whether it was added.
 *
 * Returns 0, or
 *   -EACCES  the exporter does not give WEIR_MMAP_RDMA_ATOMIC
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
 * Set the value, by compare and swap until no other change comes in between:
 * no signal of another's is lost unseen.  call->got is what it was.
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
 *   -EBADMSG          no sync event is there
 *   -EPROTONOSUPPORT  there is one of another version
 *   -ESTALE           its creator has destroyed it
 *   -ECANCELED, -ETIMEDOUT, or what weir_job_start() completes with
 *
 * Returns 0, or
 *   -EACCES  the exporter does not give WEIR_MMAP_RDMA_READ
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
 * Wait until the value, of which only the bits in @mask count, is as @cond and
 * @value say; see weir_sync_wait().  call->got is the value then.
 *
 * Completes with 0, also if it was destroyed after that; or as
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

/* A step of a chain; the caller's, as struct weir_sync_step is. */
struct weir_sync_remote_step {
	struct weir_sync_remote *sync;
	uint32_t action;	/* WEIR_SYNC_DO_ */
	uint32_t cond;		/* To wait: WEIR_SYNC_EQ, ... */
	uint64_t value;		/* To wait for, set or add. */
	uint64_t mask;		/* To wait: 0 is WEIR_SYNC_ALL. */
	struct weir_sync_call call;	/* .got as a call sets it. */
};

/*
 * Add @step to @chain: one of the calls above, in the place of an operation.
 * The result of the step is that of the call; -EINVAL for an unknown .action.
 *
 * Returns what weir_chain_add_job() returns.
 *
 * Call on the chain's reactor, which is that of .sync.  Never allocates.
 * Re-creates doca_graph_node_create_from_task() with a doca_sync_event task.
 */
WEIR_API int weir_chain_add_sync_remote(struct weir_chain *chain, int after,
					struct weir_sync_remote_step *step);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_SYNC_REMOTE_H */
