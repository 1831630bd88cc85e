/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_SRQ_H
#define WEIR_SRQ_H

/*
 * A shared receive queue (SRQ): buffers into which peers of many connections
 * send.
 *
 *	weir_srq_create(&srq, r, NULL);
 *	opts.srq = srq;                      // of each connection, or listener
 *	weir_conn_create(&c, r, NULL, &opts);
 *	weir_conn_set_message_fn(c, fn, arg);     // see <weir/message.h>
 *
 * The library keeps it filled with bufs of a pool.  A message takes one of
 * them, the callback owns it, and weir_buf_put() returns it, on any thread.
 * When the device has one buffer less than .low it reports that, and the
 * library posts all free bufs.
 *
 * No message is lost if the buffers run out: a peer that finds no buffer waits,
 * and retries as often as its .rnr_retries say.  So a program that keeps bufs
 * delays all peers, because they share the buffers.
 *
 * The queue is made on the device of the first connection that uses it.
 *
 * Re-creates ibv_srq and the receive pools of SPDK's NVMe-oF target.
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_pool;
struct weir_reactor;
struct weir_srq;

/*
 * Options of weir_srq_create().  Set .size to the size of the struct; 0
 * is the default of every other member.
 */
struct weir_srq_opts {
	size_t size;
	uint32_t recvs;		/* Buffers that wait for messages; 0: 256. */
	uint32_t batch;		/* Posted together; 0: a sixteenth of them. */
	uint32_t low;		/* The device reports when it has fewer; 0: a
				 * quarter of them. */
	uint32_t bufs;		/* Of its own pool; 0: twice .recvs. */
	size_t buf_size;	/* Bytes in each of these; 0: 4096. */
	struct weir_pool *pool;	/* The pool of the buffers, whose mmaps must
				 * have the device; destroy it later.  NULL: a
				 * pool of its own. */
};

/* Counters of a shared receive queue; weir_srq_stats(). */
struct weir_srq_stats {
	size_t size;		/* Set by the caller: the size of the struct. */
	uint32_t recvs;		/* As .recvs. */
	uint32_t posted;	/* Buffers that wait for messages, */
	uint32_t held;		/* and messages that wait for a callback. */
	uint32_t users;		/* Connections and listeners. */
	uint32_t leaving;	/* QPs that the device still uses after their
				 * connection. */
	uint32_t reserved;
	uint64_t messages;	/* Delivered or held so far; signals too. */
	uint64_t dropped;	/* Without a connection, or too late. */
	uint64_t batches;	/* Posted so far. */
	uint64_t starved;	/* Times that the pool had too few buffers. */
	uint64_t low;		/* Times that the device had fewer than .low. */
	char device[64];	/* "": not known yet. */
};

/*
 * Create a shared receive queue of @r.
 *
 * Returns 0 with *@ret set, to be freed by weir_srq_destroy(), or
 *   -EINVAL      .recvs or .buf_size is more than 2^20, .bufs more than 2^21;
 *                .batch or .low is more than .recvs; .bufs or .buf_size with
 *                .pool
 *   -EXDEV       .pool belongs to another reactor
 *   -E2BIG       @opts sets a member that this version does not have
 *   -ENOMEM      no memory
 *   -ESHUTDOWN   @r is stopping
 *
 * Call on @r's thread.
 *
 * Re-creates ibv_create_srq().
 */
WEIR_API int weir_srq_create(struct weir_srq **ret, struct weir_reactor *r,
			     const struct weir_srq_opts *opts);

/*
 * Get the counters of @srq.
 *
 * The caller sets .size of *@ret.
 *
 * Returns 0, or
 *   -EINVAL  .size is smaller than the member itself
 *
 * Call on the queue's reactor.  Never blocks.  Re-creates ibv_query_srq().
 */
WEIR_API int weir_srq_stats(const struct weir_srq *srq,
			    struct weir_srq_stats *ret);

/*
 * Free @srq, and the pool if it is its own.  NULL is allowed.
 *
 * Returns 0, or
 *   -EBUSY  with nothing changed: connections or listeners use it, or bufs of
 *           its own pool are out; weir_why() says how many
 *   -EBUSY and others  the device keeps the memory of its own pool; weir_why()
 *           says more.  The queue has left the device; call this function again
 *
 * Call on the queue's reactor; callbacks too.
 */
WEIR_API int weir_srq_destroy(struct weir_srq *srq);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_SRQ_H */
