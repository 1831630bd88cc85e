/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_RDMA_CHANNEL_H
#define WEIR_RDMA_CHANNEL_H

/*
 * Channels: completions of an RDMA device in the loop.
 *
 * A channel is a completion queue and its completion channel, on one reactor.
 * While the reactor is awake it polls the queue, without a system call.  Before
 * it sleeps it arms the queue, polls once more, and lets the device wake it.
 * So no completion is lost between poll and sleep.
 *
 * The callback for a work request is in a struct weir_wr, embedded in its
 * owner, whose address is its wr_id:
 *
 *	struct request {
 *		struct weir_wr wr;
 *		struct ibv_sge sge;
 *	};
 *
 *	static void on_sent(struct weir_wr *wr, const struct ibv_wc *wc)
 *	{
 *		struct request *rq = weir_container_of(wr, struct request, wr);
 *		...
 *	}
 *
 *	rq->wr.fn = on_sent;
 *	send_wr.wr_id = (uintptr_t)&rq->wr;
 *
 * The caller owns queue pairs and shared receive queues.  Before each is made,
 * the caller reserves capacity for all its outstanding work requests, so that
 * the completion queue cannot overrun, which would destroy it.
 *
 * Completions are also reported while the reactor stops, because work in flight
 * needs them to end.
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct ibv_context;
struct ibv_cq;
struct ibv_wc;
struct weir_channel;
struct weir_reactor;

/*
 * The callback for the completion of a work request; its address is the wr_id.
 * It must stay valid until the completion, or until weir_channel_forget().  A
 * work request whose wr_id is 0 has no callback.
 */
struct weir_wr {
	/*
	 * Called from the reactor's turn; @wc is valid until it returns.  For a
	 * completion with an error only wr_id, status, qp_num and vendor_err
	 * are defined.  May destroy any object, including the channel.
	 */
	void (*fn)(struct weir_wr *wr, const struct ibv_wc *wc);
};

/*
 * Called once, from the reactor's turn, if a channel has failed: no outstanding
 * completion will be reported.  @err is -EIO.  May destroy any object.
 */
typedef void weir_channel_failed_fn(struct weir_channel *channel, int err,
				    void *arg);

/* Options of weir_channel_create(). */
struct weir_channel_opts {
	size_t size;		/* sizeof(struct weir_channel_opts) */
	uint32_t depth;		/* Capacity for completions; 0: 256. */
	uint32_t batch;		/* Completions in a turn; 0: 64. */
	uint32_t vector;	/* Completion vector: the interrupt. */
	uint32_t reserved;	/* 0 */
	weir_channel_failed_fn *failed;	/* May be NULL. */
	void *arg;		/* For .failed. */
};

/* Counters of a channel; weir_channel_stats(). */
struct weir_channel_stats {
	size_t size;		/* Set by the caller: the size of the struct. */
	uint64_t completions;	/* Reported. */
	uint64_t polls;		/* Of the queue, */
	uint64_t empty_polls;	/* and those without a completion. */
	uint64_t arms;		/* Times that it was armed. */
	uint64_t events;	/* From the device, */
	uint64_t empty_events;	/* and those without a completion. */
	uint32_t capacity;	/* Of the queue, in completions, */
	uint32_t reserved;	/* and the reserved part of it. */
	uint32_t failed;	/* 1 if the queue has failed. */
	uint32_t unused;
};

/*
 * Create a channel of the device @ctx on @r.
 *
 * Returns 0 with *@ret set, to be freed by weir_channel_destroy(), or
 *   -EINVAL      @ctx is NULL, the device does not have .vector, or .depth is
 *                more than it supports
 *   -E2BIG       @opts sets a member that this version does not have
 *   -EMFILE      no descriptor left
 *   -ENOMEM      no memory
 *   -ESHUTDOWN   @r is stopping
 * or another errno of the device.
 *
 * Call on @r's thread.
 *
 * Re-creates ibv_create_comp_channel(), ibv_req_notify_cq(),
 * ibv_get_cq_event(), ibv_ack_cq_events() and ibv_poll_cq().
 */
WEIR_API int weir_channel_create(struct weir_channel **ret,
				 struct weir_reactor *r,
				 struct ibv_context *ctx,
				 const struct weir_channel_opts *opts);

/*
 * Get the completion queue of @channel, for new queue pairs.
 *
 * Do not poll, arm or destroy it.
 *
 * Returns the completion queue.  Any thread.  Never blocks.
 *
 * Re-creates ibv_create_cq().
 */
WEIR_API struct ibv_cq *weir_channel_cq(const struct weir_channel *channel);

/*
 * Reserve capacity for @n completions, before a queue pair or a shared receive
 * queue is made.
 *
 * @n is the number of work requests, signalled or not, that the queue can have
 * outstanding.
 *
 * Returns 0, or
 *   -EAGAIN  the completion queue has less capacity left
 *   -EIO     the channel has failed
 *
 * Call on the channel's reactor.  Never blocks, never allocates.  Re-creates
 * ib_cq_pool_get() of Linux' RDMA core.
 */
WEIR_API int weir_channel_reserve(struct weir_channel *channel, uint32_t n);

/*
 * Release capacity for @n completions, when all have been reported, or after
 * weir_channel_forget().
 *
 * Call on the channel's reactor.  Never blocks, never allocates.  Re-creates
 * ib_cq_pool_put() of Linux' RDMA core.
 */
WEIR_API void weir_channel_release(struct weir_channel *channel, uint32_t n);

/*
 * Discard completions that are left of the queue pair numbered @qp_num, which
 * was destroyed.
 *
 * Completions of other queue pairs are not affected.  Afterwards its work
 * requests may be freed, and its reserved capacity released.  The call is not
 * needed if all completions of the queue pair were reported.
 *
 * Call on the channel's reactor.  Never blocks, never allocates.  Re-creates
 * the work of a driver's ibv_destroy_qp() on its completion queue.
 */
WEIR_API void weir_channel_forget(struct weir_channel *channel,
				  uint32_t qp_num);

/*
 * Get the counters of @channel.
 *
 * The caller sets .size of *@ret.
 *
 * Returns 0, or
 *   -EINVAL  .size is smaller than the member itself
 *
 * Call on the channel's reactor.  Never blocks, never allocates.  Re-creates
 * doca_pe_get_num_inflight().
 */
WEIR_API int weir_channel_stats(const struct weir_channel *channel,
				struct weir_channel_stats *ret);

/*
 * Destroy @channel.
 *
 * No callback runs afterwards.  NULL is allowed.
 *
 * Returns 0, or, with nothing changed,
 *   -EBUSY  capacity is reserved, or the device still uses the completion queue
 *
 * Call on the channel's reactor.
 */
WEIR_API int weir_channel_destroy(struct weir_channel *channel);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_RDMA_CHANNEL_H */
