/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_RDMA_CHANNEL_H
#define WEIR_RDMA_CHANNEL_H

/*
 * Channels: completions of an RDMA device in the loop.
 *
 * A channel is a completion queue and its completion channel, on one reactor.
 * While the reactor is awake it polls the queue, without a system call; before
 * it sleeps it arms the queue, polls once more, and has the device wake it.  So
 * a completion is never lost between the two, whenever it comes.
 *
 * A work request is told of its completion by a struct weir_wr, embedded in its
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
 * Queue pairs and shared receive queues are the caller's.  Each reserves,
 * before it is made, what it can have outstanding: so the completion queue
 * cannot overrun, which would be the end of it.
 *
 * Completions go on to be told while the reactor stops: what is in flight ends
 * by them.
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
 * The receiver of a work request's completion; its address is the wr_id.  It
 * has to stay where it is until then, or until weir_channel_forget().  A
 * wr_id of 0 has no user.
 */
struct weir_wr {
	/*
	 * Called from the reactor's turn; @wc is there until it returns.  Of a
	 * completion with an error only wr_id, status, qp_num and vendor_err
	 * mean anything.  May destroy anything, the channel too.
	 */
	void (*fn)(struct weir_wr *wr, const struct ibv_wc *wc);
};

/*
 * Called once, from the reactor's turn, if a channel has failed: nothing that
 * is outstanding on it will be told any more.  @err is -EIO.  May destroy
 * anything.
 */
typedef void weir_channel_failed_fn(struct weir_channel *channel, int err,
				    void *arg);

/* Options of weir_channel_create(). */
struct weir_channel_opts {
	size_t size;		/* sizeof(struct weir_channel_opts) */
	uint32_t depth;		/* Completions that it has capacity for; 0: 256. */
	uint32_t batch;		/* Told in a turn, at most; 0: 64. */
	uint32_t vector;	/* Completion vector: which interrupt. */
	uint32_t reserved;	/* 0 */
	weir_channel_failed_fn *failed;	/* May be NULL. */
	void *arg;		/* For .failed. */
};

/* What a channel did; weir_channel_stats(). */
struct weir_channel_stats {
	size_t size;		/* Set by the caller: the size of the struct. */
	uint64_t completions;	/* Told. */
	uint64_t polls;		/* Of the queue, */
	uint64_t empty_polls;	/* and those that found nothing. */
	uint64_t arms;		/* Times that it was armed. */
	uint64_t events;	/* That the device has sent, */
	uint64_t empty_events;	/* and those after which nothing was there. */
	uint32_t capacity; /* Completions that the queue has capacity for, */
	uint32_t reserved;	/* and what of that is reserved. */
	uint32_t failed;	/* 1 if the queue is dead. */
	uint32_t unused;
};

/*
 * Create a channel of the device @ctx on @r.
 *
 * Returns 0 with *@ret set, to be freed by weir_channel_destroy(), or
 *   -EINVAL      @ctx is NULL, .vector is not one of the device's, or .depth is
 *                more than it has
 *   -E2BIG       @opts sets a member that this version does not have
 *   -EMFILE      no descriptor left
 *   -ENOMEM      no memory
 *   -ESHUTDOWN   @r is stopping
 * or what else the device answers.
 *
 * Call on @r's thread.
 *
 * Re-creates spdk_rdma_utils' and DOCA's progress engine over a completion
 * queue.
 */
WEIR_API int weir_channel_create(struct weir_channel **ret,
				 struct weir_reactor *r,
				 struct ibv_context *ctx,
				 const struct weir_channel_opts *opts);

/*
 * The completion queue of @channel, to make queue pairs with.  Do not poll, arm
 * or destroy it.
 *
 * Any thread.  Never blocks.
 */
WEIR_API struct ibv_cq *weir_channel_cq(const struct weir_channel *channel);

/*
 * Reserve capacity for @n completions: for all work requests, signalled or not,
 * that a queue pair, or a shared receive queue, can have outstanding.  Before
 * it is made.
 *
 * Returns 0, or
 *   -EAGAIN  the completion queue has no such capacity left
 *   -EIO     the channel has failed
 *
 * Call on the channel's reactor.  Never blocks, never allocates.  Re-creates
 * ib_cq_pool_get() of Linux' RDMA core.
 */
WEIR_API int weir_channel_reserve(struct weir_channel *channel, uint32_t n);

/*
 * Give back capacity for @n completions: when all of that many were told, or
 * after weir_channel_forget().
 *
 * Call on the channel's reactor.  Never blocks, never allocates.  Re-creates
 * ib_cq_pool_put() of Linux' RDMA core.
 */
WEIR_API void weir_channel_release(struct weir_channel *channel, uint32_t n);

/*
 * Have no completion told any more of the queue pair numbered @qp_num, which
 * was destroyed: some may be there still.  Others lose nothing.  After that its
 * work requests are free, and so is the capacity that it had reserved.  Of a
 * queue pair whose completions were all told there is nothing to forget.
 *
 * Call on the channel's reactor.  Never blocks, never allocates.  Re-creates
 * what the ibv_destroy_qp() of a driver does to the completion queue of its
 * own.
 */
WEIR_API void weir_channel_forget(struct weir_channel *channel,
				  uint32_t qp_num);

/*
 * What @channel did, into *@ret, whose .size says what it can hold.
 *
 * Returns 0, or
 *   -EINVAL  .size is less than that of itself
 *
 * Call on the channel's reactor.  Never blocks, never allocates.  Re-creates
 * doca_pe_get_num_inflight().
 */
WEIR_API int weir_channel_stats(const struct weir_channel *channel,
				struct weir_channel_stats *ret);

/*
 * Destroy @channel: no callback follows.  NULL is allowed.
 *
 * Returns 0, or, with nothing changed,
 *   -EBUSY  capacity is reserved, or the device says that the completion
 *           queue is in use
 *
 * Call on the channel's reactor.
 */
WEIR_API int weir_channel_destroy(struct weir_channel *channel);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_RDMA_CHANNEL_H */
