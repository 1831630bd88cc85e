/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMA_CONN_INTERNAL_H
#define RDMA_CONN_INTERNAL_H

/*
 * The internals of connections, and the calls for engines.
 *
 *	conn.c          create and destroy, and the getters
 *	conn-connect.c  its states: connect, accept, reconnect, disconnect
 *	conn-listen.c   listeners
 *	conn-end.c      how it ends; keepalive
 *	conn-qp.c       the QP, and the devices that have QPs
 *	cm-dispatcher.c one source of rdma_cm events per reactor
 *	message.c srq.c messages and shared receive queues; see srq-internal.h
 *
 * A connection has an id of rdma_cm's from the start of a connect or from the
 * request on, and a QP as soon as the device is known; neither is ever used for
 * a second connection.  Code that posts work counts it (conn_begin(),
 * conn_end()): a connection is over when it has ended and the count is 0, so
 * nothing refers to a QP that is gone.
 */

#include <stdbool.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <weir/message.h>
#include <weir/timer.h>

#include "rdma/channel-internal.h"
#include "rdma/op-list.h"

#define CONN_LINGER_NS (5 * WEIR_SEC)	/* Wait for DISCONNECTED. */
#define CONN_DATA_MAX 256

struct weir_cm;
struct weir_device;
struct weir_verbs_event;
struct srq_member;
struct srq_slot;
struct verbs_queue;
struct weir_mw;

/* The context of an id points to this. */
struct conn_user {
	/* May free the user. */
	void (*event)(struct conn_user *user, const struct rdma_cm_event *ev);
};

/* One per reactor; see cm-dispatcher.c. */
struct cm_dispatcher {
	struct weir_reactor *r;
	struct weir_cm *cm;
	unsigned int refs;
	uint32_t serial;		/* Of the next connection. */
	struct cm_dispatcher *next;
};

/* An RDMA device with connections; see conn-qp.c. */
struct conn_device {
	struct weir_device *dev;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_device_attr attr;
	char name[64];
	bool dead;			/* It was removed or reset; by the lock. */
	unsigned int refs;
	struct conn_device *next;
};

/* Those of one reactor, and the source of events that it has for them. */
struct conn_device_ref {
	struct conn_device *device;
	struct weir_reactor *r;
	struct weir_verbs_event *events;
	unsigned int refs;
	struct weir_conn *conns;
	struct weir_srq *srqs;
	void (*srq_event)(struct conn_device_ref *device_ref,
			  const struct ibv_async_event *ev);	/* Theirs. */
	struct conn_device_ref *next;
};

/* The steps of CONNECTING. */
enum conn_step {
	CONN_ADDRESS,		/* Address resolution is in flight. */
	CONN_ROUTE,		/* The route is being resolved. */
	CONN_ANSWER,		/* The request is sent. */
	CONN_BACKOFF,		/* The next attempt is due later. */
};

/* News of the device; weir_conn.news. */
enum conn_news {
	CONN_NEWS_QP = 1,	/* It may have failed. */
	CONN_NEWS_DEVICE = 2,	/* The device has. */
	CONN_NEWS_DATA = 4,	/* The peer sends already. */
	CONN_NEWS_FLOOD = 8,	/* More than the queue of messages holds. */
};

/*
 * A write of 0 bytes, which fails if the peer is gone; see conn-end.c.  It
 * has a place of its own in the send queue and in the completion queue, and
 * lives as long as the QP, which may be longer than the connection.
 */
struct conn_beat {
	struct weir_wr wr;
	struct weir_conn *conn;		/* NULL: it is gone. */
	bool posted;
};

struct weir_conn {
	struct weir_object *obj;
	struct conn_user user;
	struct weir_reactor *r;
	struct cm_dispatcher *dispatcher;
	struct weir_conn_opts opts;	/* With defaults filled in. */

	uint32_t state;			/* WEIR_CONN_ */
	enum conn_step step;
	bool passive;			/* It came from a listener. */
	bool wanted;			/* CLOSING: we asked for it. */
	bool quiet;			/* CLOSING: the fabric is done. */
	int why;			/* CLOSING: what ended it. */
	struct weir_op *op;
	struct weir_op *due;		/* Has its result, but no callback yet. */
	const struct weir_op_kind *op_kind; /* Of the last of both. */
	uint64_t posted;

	struct rdma_cm_id *id;
	struct ibv_qp *qp;
	struct weir_channel *given;	/* The user's; NULL: our own. */
	struct weir_channel *channel;	/* While there is a QP. */
	struct channel_user channel_user; /* On .channel. */
	struct conn_device_ref *device_ref; /* Likewise. */
	struct verbs_queue *queue;	/* Likewise. */
	struct srq_member *member;	/* Likewise, with .srq. */
	struct conn_beat *beat;		/* Likewise, with .keepalive_ns. */
	bool orphans;			/* The CQ may get completions of the QP
					 * that are not counted by .posted. */
	uint32_t n_domains;		/* Attached. */
	struct weir_mw *windows; /* Open, or about to be; while there */
	void (*windows_end)(struct weir_conn *c);	/* Theirs. */
	uint32_t peer_qp;		/* is a QP, as the peer's number. */
	uint32_t serial;		/* Among those of the reactor. */
	struct weir_conn *ref_next, **ref_pprev;
	uint32_t reads_out, reads_in;
	uint32_t max_sge, max_inline, max_message;

	unsigned int news;		/* For conn_run(). */
	struct weir_timer *timer;	/* CONNECTING: backoff.  ESTABLISHED:
					 * watch.  CLOSING: linger. */
	bool watched;			/* The timer is armed as watch. */
	/* When the watch last ran: */
	bool busy;			/* work was posted; */
	uint64_t seen;			/* so many requests had ended, */
	uint64_t moved_ns;		/* the last of them at this time. */
	uint32_t tries;			/* Attempts that are left. */
	uint64_t backoff_ns;
	uint64_t n_connects, n_attempts;

	weir_conn_end_fn *end_fn;
	void *end_arg;

	weir_message_fn *message_fn;
	void *message_arg;
	struct srq_slot *held, **held_last;	/* Messages that wait. */
	uint32_t n_held;
	bool has_dropped;	/* One that found no capacity: none that follows
				 * on this connection is delivered. */

	struct sockaddr_storage to, from;	/* .ss_family 0: any. */
	uint8_t data[WEIR_CONN_CONNECT_DATA];
	uint8_t data_len;

	_Alignas(8) uint8_t peer_data[CONN_DATA_MAX];
	size_t peer_len;

	struct weir_conn *next;		/* In the listener's queue. */
};

struct weir_listener {
	struct weir_object *obj;
	struct conn_user user;
	struct weir_reactor *r;
	struct cm_dispatcher *dispatcher;
	struct rdma_cm_id *id;		/* NULL: its device was removed. */
	struct sockaddr_storage addr;
	struct weir_channel *channel;
	struct weir_conn_opts opts;
	uint32_t backlog, n_requests;
	struct weir_conn *requests, **requests_last;
	struct op_list waiters;
};

/* rdma-core's errno, if it has set it. */
static inline int conn_error(void)
{
	return errno > 0 ? -errno : -EIO;
}

/* Calls for engines. */

/*
 * Work is about to be posted.  Returns 0, and it counts until conn_end(), or
 * -ENOTCONN.
 */
static inline int conn_begin(struct weir_conn *c)
{
	if (unlikely(c->state != WEIR_CONN_ESTABLISHED))
		return -ENOTCONN;
	c->posted++;
	return 0;
}

/* It has ended, or was not posted after all.  Makes no callback. */
void conn_end(struct weir_conn *c);

/*
 * A completion reports that the QP has failed: the connection ends with @err,
 * once nothing is posted any more.  Calls no callback.
 */
void conn_fail(struct weir_conn *c, int err);

/* conn.c */
int conn_alloc(struct weir_conn **ret, struct weir_reactor *r,
	       struct weir_channel *channel, const struct weir_conn_opts *opts,
	       const char *call);
int conn_opts_load(struct weir_conn_opts *opts,
		   const struct weir_conn_opts *user,
		   const struct weir_reactor *r, const char *call);
void conn_keep_data(struct weir_conn *c, const struct rdma_cm_event *ev);

/* The size of an address of IPv4 or IPv6 of @len bytes; 0: it is none. */
socklen_t conn_address_len(const struct sockaddr *addr, socklen_t len);
int conn_copy_address(struct sockaddr *dst, socklen_t *len,
		      const struct sockaddr *addr, const char *call);

/* conn-listen.c */
void conn_queue_request(struct weir_listener *l, struct weir_conn *c);

/* conn-connect.c: what an event does, by state. */
void conn_event(struct conn_user *user, const struct rdma_cm_event *ev);

/* It has ended without a disconnect of ours; the next attempt is due.  May free
 * @c. */
void conn_ended(struct weir_conn *c, int why);
void conn_try_again(struct weir_conn *c);

/* A connect or accept has come to its end; may free @c. */
void conn_done(struct weir_conn *c, int err, int code);

/* The .leave() of their operations. */
void conn_op_leaves(struct weir_op *op, void *conn);

/* @op is that of @c, which is begun. */
static inline void conn_op_set(struct weir_conn *c, struct weir_op *op,
			       const struct weir_op_kind *kind)
{
	c->op = op;
	c->op_kind = kind;
}

/* Returns the operation that the user has to wait for, or NULL. */
static inline const struct weir_op *conn_busy(const struct weir_conn *c)
{
	return c->op ? c->op : c->due;
}

/* Whether it is connecting with no operation that waits for it. */
static inline bool conn_is_reconnecting(const struct weir_conn *c)
{
	return c->state == WEIR_CONN_CONNECTING && !conn_busy(c);
}

/* Check whether the peer of @c still answers, and close @c if not. */
void conn_watch_run(struct weir_conn *c);

/* conn-end.c */
void conn_teardown(struct weir_conn *c);	/* No id, no QP. */
void conn_close(struct weir_conn *c, int why);	/* -> CLOSING */
void conn_settle(struct weir_conn *c);		/* May free @c. */
void conn_timer(struct weir_timer *timer, uint64_t n, void *conn);
void conn_stop(void *conn);
void conn_run(void *conn);			/* It was notified. */
void conn_tell(struct weir_conn *c, int why);	/* May free @c. */

/* conn-end.c: the connection is ESTABLISHED; it has posted work; its timer. */
void conn_watch_begin(struct weir_conn *c);
void conn_watch_posted(struct weir_conn *c);

/* Probe now whether the peer still answers. */
void conn_watch_probe(struct weir_conn *c);

/* The QP is gone: so is what its completion queue @ch still has of it. */
void conn_beat_free(struct conn_beat *beat, struct weir_channel *ch,
		    uint32_t qp_num, bool orphans);

/* conn-qp.c; of conn_qp_make() nothing remains when it fails. */
int conn_qp_make(struct weir_conn *c);
uint32_t conn_credits(const struct weir_conn *c);
int conn_qp_ready(struct weir_conn *c);
void conn_qp_error(struct weir_conn *c);
bool conn_qp_has_failed(struct weir_conn *c);
void conn_channel_failed(struct channel_user *user, int err);
void conn_qp_free(struct weir_conn *c);

/* engine.c: what the engine has for a QP; of which nothing is posted, or
 * whose channel will tell nothing any more. */
int verbs_queue_create(struct weir_conn *c);
void verbs_queue_free(struct weir_conn *c);
void verbs_queue_abandon(struct weir_conn *c);

/* conn-qp.c */
int conn_device_ref_get(struct conn_device_ref **ret, struct weir_reactor *r,
			const char *name);
void conn_device_ref_put(struct conn_device_ref *device_ref);
void conn_device_ref_dead(
	struct conn_device_ref *device_ref); /* Not used again. */
void conn_device_ref_add(struct conn_device_ref *device_ref,
			 struct weir_conn *c);

/* message.c: deliver one message that waits, if there is one and its callback
 * is set.  Returns whether it did; then @c may be freed. */
bool conn_tell_message(struct weir_conn *c);

/* Those that wait get no callback. */
void conn_drop_messages(struct weir_conn *c);

/* Whether the messages that came before the close are delivered; if not,
 * conn_run() will run again. */
bool conn_has_delivered(struct weir_conn *c);

/* cm-dispatcher.c */
int cm_dispatcher_get(struct cm_dispatcher **ret, struct weir_reactor *r);
void cm_dispatcher_put(struct cm_dispatcher *dispatcher);

/* A new id whose events go to @user; -errno. */
int cm_dispatcher_id(struct cm_dispatcher *dispatcher, struct rdma_cm_id **ret,
		     struct conn_user *user);

#endif /* RDMA_CONN_INTERNAL_H */
