/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMA_SRQ_INTERNAL_H
#define RDMA_SRQ_INTERNAL_H

/*
 * Shared receive queues inside.
 *
 *	srq.c      the queue, its bufs and its members
 *	message.c  messages: sending, and queued ones to callbacks
 *
 * A buf that waits for a message is in a slot, whose address the device has:
 *
 *	FREE --post--> POSTED --message--> FREE, the buf is the callback's
 *	                                   HELD, until there is a callback
 *
 * All of the device's is on a channel of the queue's own, which has capacity
 * for as many completions as there are slots: so no number of connections can
 * overrun it.
 */

#include <weir/rdma/channel.h>
#include <weir/message.h>
#include <weir/srq.h>

#include "rdma/conn-internal.h"

#define SRQ_BUCKETS 64

struct srq_slot {
	struct weir_wr wr;
	struct weir_srq *srq;
	struct weir_buf *buf;		/* NULL: FREE. */
	struct srq_slot *next;		/* Free, or held by a connection. */
	struct weir_message m;		/* Held. */
	struct ibv_recv_wr recv;
	struct ibv_sge sge;
};

/* A mark after which a channel has delivered all that its queue has now. */
struct srq_mark {
	uint64_t empty_polls, completions;
};

/*
 * A QP that receives from the queue.  It outlives its connection until the
 * device has reported that it takes no more bufs (LAST_WQE_REACHED), and all
 * that it had taken are delivered: bufs that it still had would be lost with
 * it.
 *
 *	LIVE --connection goes--> LAST --event, or time--> DRAIN --told--> freed
 */
enum srq_member_state { SRQ_LIVE, SRQ_LAST, SRQ_DRAIN };

struct srq_member {
	struct weir_srq *srq;
	struct weir_conn *conn;		/* While LIVE. */
	struct ibv_qp *qp;
	uint32_t qp_num;
	enum srq_member_state state;
	bool ready;			/* It may have received something. */
	bool last;			/* The event has come. */
	struct weir_channel *channel;	/* Of its sends; and whether it is to be
					 * freed with it. */
	bool owns_channel;
	uint32_t credits;		/* Reserved on .channel. */
	struct conn_beat *beat;		/* For keepalive, or NULL. */
	bool orphans;			/* As the connection's. */
	struct srq_mark mark;
	struct weir_timer *timer;
	struct srq_member *next;	/* In the bucket, or of .leaving. */
};

/* Waits for a buf of the pool; outlives the queue until it is called. */
struct srq_wait {
	struct weir_op op;
	struct weir_srq *srq;		/* NULL: it is gone. */
	bool gave_back;			/* The buf was put before the callback. */
};

struct weir_srq {
	struct weir_object *obj;
	struct weir_reactor *r;
	struct weir_srq_opts opts;	/* With defaults filled in. */
	uint32_t n_users;

	/* From the first connection on. */
	struct conn_device_ref *device_ref;
	struct weir_srq *ref_next;
	struct weir_channel *channel;
	struct ibv_srq *srq;
	struct weir_mmap *mmap;		/* Of its own pool. */
	struct weir_pool *pool;
	bool failed;			/* The channel has. */

	struct srq_slot *slots, *free;
	uint32_t n_posted, n_held;
	bool limited;			/* The device watches .low. */
	struct srq_wait *wait;
	struct weir_timer *again;	/* To wait for a buf. */
	uint64_t again_ns;		/* How long after the next failure. */

	struct srq_member *members[SRQ_BUCKETS];	/* LIVE ones. */
	struct srq_member *leaving;
	uint32_t n_leaving;
	struct weir_srq_stats stats;
};

/* srq.c: make it for the device of @tap, if it is not. */
int srq_bind(struct weir_srq *srq, struct conn_device_ref *device_ref);

/* srq.c: slots, and bufs into the queue: if @all, however few. */
int srq_fill(struct weir_srq *srq, bool all);

/* It has no buf any more, or is to give it back. */
void srq_slot_free(struct srq_slot *slot);
void srq_slot_drop(struct srq_slot *slot);

/* srq.c: @c is to have a QP with the queue, bound already. */
int srq_join(struct weir_conn *c);
void srq_joined(struct weir_conn *c);		/* The QP was made. */
void srq_unjoin(struct weir_conn *c);		/* It could not be made. */

/* @c has finished with its QP and the QP's channel, which the queue now
 * owns. */
void srq_leave(struct weir_conn *c);
struct weir_conn *srq_find(const struct weir_srq *srq, uint32_t qp_num);

/* Whether all completions of the time of srq_mark_set() are delivered. */
void srq_mark_set(const struct weir_srq *srq, struct srq_mark *mark);
bool srq_mark_passed(const struct weir_srq *srq, const struct srq_mark *mark);

/* message.c: the completion of a slot. */
void message_on_wr(struct weir_wr *wr, const struct ibv_wc *wc);

#endif /* RDMA_SRQ_INTERNAL_H */
