/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMA_ENGINE_H
#define RDMA_ENGINE_H

/*
 * The internals of the verbs engine.
 *
 *	engine.c       the engine; which jobs it can do; keys; atomics
 *	engine-post.c  jobs into work requests, posting them, completions
 *	message.c      messages into work requests
 *
 * Each QP has a queue.  Its ring mirrors the send queue of the device, in the
 * order of posting:
 *
 *	 done        in flight        to be posted       free
 *	......|head ...............|posted ........|tail .....
 *
 * A completion of a work request means that all before it are done, too.  A job
 * that has more to post than there is capacity for waits in its queue, not in
 * the context: a peer that does not answer delays only its own work.
 */

#include <infiniband/verbs.h>

#include <weir/rdma/channel.h>
#include <weir/mmap.h>

#include <weir/device.h>
#include <weir/domain.h>
#include <weir/engine.h>
#include <weir/job.h>
#include <weir/provider.h>

#include "rdma/conn-internal.h"

#define VERBS_WR_LEN (1u << 20)	/* Of one work request, at most. */
#define VERBS_RUN 8		/* Work requests before others have a turn. */

struct verbs_queue;

/*
 * A work request that belongs to no job, embedded in its owner from its start
 * to .done, which gets its result and may free it.
 */
struct verbs_request {
	struct ibv_send_wr send;	/* Without .wr_id, flags and .next. */
	void (*done)(struct verbs_request *request, int err, int32_t code);
	struct verbs_request *next;	/* In the queue. */
};

/* A place in the ring. */
struct verbs_wr {
	struct weir_wr wr;
	struct verbs_queue *q;
	struct weir_job *job;		/* Its job, or */
	struct verbs_request *request;	/* that, */
	struct weir_op *op;		/* or a message's.  All NULL: no op's. */
	uint64_t seq;			/* How many were posted before it. */
	uint32_t len;
	struct ibv_send_wr send;
	struct ibv_sge sge[];		/* .max_sge of the queue's. */
};

/* The engine's state in a context. */
struct verbs_engine {
	struct weir_reactor *r;
	struct verbs_queue *unposted;	/* Posted at the flush. */
};

void verbs_engine_provide(struct weir_provider_ops *ops);

/* Jobs that have more to post, first come first served. */
struct verbs_list {
	struct weir_job *first, **last;
};

struct verbs_queue {
	struct weir_conn *conn;
	char *ring;
	size_t stride;
	uint32_t size;			/* Places. */
	uint32_t max_sge, max_inline;
	uint32_t max_len;		/* VERBS_WR_LEN, or what the port takes. */
	uint32_t reads;			/* In flight, or to be posted. */
	uint64_t head, posted, tail;
	struct verbs_list wait[2];	/* Writers, readers. */
	struct weir_job *culprit;	/* It has the cause, and ends first; */
	struct verbs_list held;		/* those that wait for that. */
	struct verbs_request *requests, **requests_last;
	struct verbs_request marker;	/* Empty; see post_marker(). */
	struct weir_timer *grace;	/* While cancelled work is posted. */
	uint64_t cut;			/* All before this has to end. */
	uint64_t cut_head;		/* .head when .grace was armed. */
	struct op_list sends;		/* Messages that wait. */
	bool turn_is_open;		/* More of them go at its end. */
	struct weir_job *writers, **writers_last; /* Waiting, oldest first. */
	uint64_t tickets;		/* Given to writers and messages. */
	unsigned int turn;		/* Writers or readers. */
	struct verbs_engine *engine;	/* Its flush posts; NULL: none. */
	struct verbs_queue *next, **pprev;
	uint64_t *words;		/* What atomics fetch, by place; NULL: */
	struct ibv_mr *words_mr;	/* there were none yet. */
};

/* A job's, in its area. */
struct verbs_job {
	struct verbs_queue *q;
	uint64_t total, left, done;	/* Bytes: all, to be posted, moved. */
	uint32_t n_wrs;			/* In the ring, */
	uint64_t tail;			/* all of them before this. */
	bool read;
	bool atomic;
	bool inlined;
	bool waits;			/* It is in the queue's list. */
	bool stop;			/* Post no more of it. */
	bool held;			/* Over, and in the queue's list. */
	struct weir_job *next, **pprev;	/* Of that list. */
	uint64_t ticket;		/* Of a writer: */
	struct weir_job *newer, **older; /* its place among them. */
	int32_t code;
	int err;			/* The first. */
};

_Static_assert(sizeof(struct verbs_job) <= WEIR_JOB_AREA, "in a job's area");

/* engine.c: where the area of a job is, which is asked for too often for a
 * call. */
extern size_t verbs_area;

static inline struct verbs_job *verbs_job(struct weir_job *job)
{
	return (struct verbs_job *)(void *)((char *)job + verbs_area);
}

/* Whether the peer's answer has bytes: it serves a limited number of these. */
static inline bool verbs_is_answered(struct weir_job *job)
{
	return verbs_job(job)->read || verbs_job(job)->atomic;
}

static inline struct verbs_wr *verbs_at(const struct verbs_queue *q,
					uint64_t seq)
{
	return (struct verbs_wr *)(void *)(q->ring +
					   seq % q->size * q->stride);
}

/* Whether a device can have a key for memory of @domain. */
static inline bool verbs_is_local(const struct weir_domain *domain)
{
	const uint64_t local = WEIR_DEVICE_BIT(WEIR_DOMAIN_SYSTEM) |
			       WEIR_DEVICE_BIT(WEIR_DOMAIN_HUGEPAGE) |
			       WEIR_DEVICE_BIT(WEIR_DOMAIN_DEVICE) |
			       WEIR_DEVICE_BIT(WEIR_DOMAIN_DMABUF);
	uint32_t kind = domain ? weir_domain_kind(domain) : WEIR_DOMAIN_USER;

	return kind < 64 && local >> kind & 1;
}

/* The side of a job that is memory here, and the one at the peer. */
static inline int verbs_here(struct weir_job *job)
{
	return verbs_job(job)->read ? WEIR_JOB_DST : WEIR_JOB_SRC;
}

static inline int verbs_there(struct weir_job *job)
{
	return verbs_job(job)->read ? WEIR_JOB_SRC : WEIR_JOB_DST;
}

static inline struct weir_device *verbs_device(const struct verbs_queue *q)
{
	return q->conn->device_ref->device->dev;
}

/* engine.c: where the next piece of @job at the peer is, and its key there.
 * Returns 0 or a negative errno. */
int verbs_far(const struct verbs_queue *q, struct weir_job *job,
	      struct iovec *far, uint32_t *rkey);

/* @w, the next place, becomes that of @job, which is all of it. */
void verbs_build_atomic(struct verbs_queue *q, struct weir_job *job,
			struct verbs_wr *w, uint64_t addr, uint32_t rkey);

/* engine-post.c: queue @job, whose area is set up, for posting. */
void verbs_enqueue(struct verbs_queue *q, struct weir_job *job);
void verbs_dequeue(struct verbs_queue *q, struct weir_job *job);

/* Make work requests as far as there is capacity. */
void verbs_pump(struct verbs_queue *q);

/*
 * engine-post.c: post @request, after what was posted before, when
 * there is capacity.  Returns 0, and .done is called once, perhaps inside; or
 * -ENOTCONN.
 */
int verbs_request(struct verbs_queue *q, struct verbs_request *request);

/* message.c: the turn ends in which messages were sent: post them. */
void verbs_sends_end_turn(struct verbs_queue *q);

/* Build as many as have capacity, up to VERBS_RUN.  Returns whether any was. */
bool verbs_send_run(struct verbs_queue *q);

/* Those that wait have no chance. */
void verbs_send_give_up(struct verbs_queue *q);

/* The message of @op has been sent, or @err. */
void verbs_sent(struct verbs_queue *q, struct weir_op *op, int err,
		int32_t code);

/* engine-post.c: post what is in the ring. */
void verbs_post(struct verbs_queue *q);

/* Work posted before @tail must end: it was cancelled, or its deadline has
 * passed.  If it does not end, the connection does; see .grace_ns. */
void verbs_overdue(struct verbs_queue *q, uint64_t tail);

/* Returns the errno with which the connection ends. */
int verbs_end_of(enum ibv_wc_status status);

/* @job ends if nothing of it is in flight. */
void verbs_settle(struct weir_job *job);

/* The connection is over, and the device may yet tell for which job. */
static inline bool verbs_may_blame(const struct verbs_queue *q)
{
	return q->conn->state != WEIR_CONN_ESTABLISHED && !q->culprit &&
	       q->head != q->tail;
}

/* A step of a job came too late for the connection: it ends with the others. */
void verbs_join(struct verbs_queue *q, struct weir_job *job);

/* Told of a work request of a queue's. */
void verbs_on_wr(struct weir_wr *wr, const struct ibv_wc *wc);

static inline bool verbs_has_place(const struct verbs_queue *q)
{
	return q->tail - q->head < q->size;
}

/* Take the next place, verbs_at(q, q->tail); the caller sets its owner. */
static inline struct verbs_wr *verbs_take(struct verbs_queue *q)
{
	struct verbs_wr *w = verbs_at(q, q->tail);

	w->wr.fn = verbs_on_wr;
	w->q = q;
	w->seq = q->tail++;
	return w;
}

#endif /* RDMA_ENGINE_H */
