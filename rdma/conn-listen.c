/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Listeners.
 *
 * A request becomes a connection as soon as it arrives, and waits for an
 * operation, or an operation for it: only one of the two queues has anything.
 */

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "base/why.h"
#include "rdma/srq-internal.h"

#define BACKLOG_DEFAULT 64
#define BACKLOG_MAX 4096

/* A next(), in the area of its operation. */
struct next {
	struct op_link link;
	struct weir_conn **ret;	/* Where the connection is to go. */
};

_Static_assert(sizeof(struct next) <= WEIR_OP_AREA, "in its area");

static struct next *next_of(struct weir_op *op)
{
	return weir_op_area(op);
}

static void hand_over(struct weir_op *op, struct weir_conn *c)
{
	*next_of(op)->ret = c;
	weir_op_finish(op, 0);
}

void conn_queue_request(struct weir_listener *l, struct weir_conn *c)
{
	c->next = NULL;
	*l->requests_last = c;
	l->requests_last = &c->next;
	l->n_requests++;
}

static struct weir_conn *take_first(struct weir_listener *l)
{
	struct weir_conn *c = l->requests;

	if (!c)
		return NULL;
	l->requests = c->next;
	if (!l->requests)
		l->requests_last = &l->requests;
	debug_check(l->n_requests > 0);
	l->n_requests--;
	return c;
}

/* Skip requests that have ended while they waited. */
static struct weir_conn *pop_request(struct weir_listener *l)
{
	struct weir_conn *c;

	while ((c = take_first(l)) && c->state != WEIR_CONN_REQUESTED)
		weir_conn_destroy(c);
	return c;
}

static int make_request(struct weir_listener *l, struct weir_conn **ret,
			const struct rdma_cm_event *ev)
{
	struct weir_conn *c;
	int err;

	if (l->n_requests >= l->backlog)
		return -EAGAIN;
	err = conn_alloc(&c, l->r, l->channel, &l->opts, "weir_listener");
	if (err)
		return err;
	c->passive = true;
	c->state = WEIR_CONN_REQUESTED;
	c->id = ev->id;
	c->id->context = &c->user;
	c->reads_in = ev->param.conn.responder_resources;
	c->reads_out = ev->param.conn.initiator_depth;
	conn_keep_data(c, ev);
	*ret = c;
	return 0;
}

/* A request that cannot be queued is refused: the peer may try again. */
static void request(struct weir_listener *l, const struct rdma_cm_event *ev)
{
	struct weir_op *op;
	struct weir_conn *c;

	if (make_request(l, &c, ev)) {
		rdma_reject(ev->id, NULL, 0);
		rdma_destroy_id(ev->id);
		return;
	}
	op = op_list_pop(&l->waiters);
	if (op)
		hand_over(op, c);
	else
		conn_queue_request(l, c);
}

static void removed(struct weir_listener *l)
{
	struct weir_op *op;

	rdma_destroy_id(l->id);
	l->id = NULL;
	while ((op = op_list_pop(&l->waiters)))
		weir_op_finish(op, -ENODEV);
}

static void listener_event(struct conn_user *user,
			   const struct rdma_cm_event *ev)
{
	struct weir_listener *l = weir_container_of(user, struct weir_listener,
						    user);

	if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		request(l, ev);
	else if (ev->event == RDMA_CM_EVENT_DEVICE_REMOVAL)
		removed(l);
}

static int load_opts(struct weir_listener *l,
		     const struct weir_listener_opts *user)
{
	struct weir_listener_opts opts;
	int err = opts_load(&opts, sizeof(opts), user, "weir_listener_create");

	if (err)
		return err;
	if (opts.backlog > BACKLOG_MAX || opts.reserved)
		return why(-EINVAL, "weir_listener_create: .backlog is at most "
			   "%d, .reserved 0", BACKLOG_MAX);
	l->backlog = opts.backlog ? opts.backlog : BACKLOG_DEFAULT;
	l->channel = opts.channel;
	return conn_opts_load(&l->opts, opts.conn, l->r,
			      "weir_listener_create");
}

static int bind_and_listen(struct weir_listener *l, const struct sockaddr *addr)
{
	struct sockaddr_storage copy;

	memset(&copy, 0, sizeof(copy));
	memcpy(&copy, addr, conn_address_len(addr, sizeof(copy)));
	errno = 0;
	if (weir_fault("rdma_bind_addr"))
		return -EADDRINUSE;
	if (rdma_bind_addr(l->id, (struct sockaddr *)&copy))
		return conn_error();
	if (weir_fault("rdma_listen"))
		return -EADDRINUSE;
	if (rdma_listen(l->id, (int)l->backlog))
		return conn_error();
	memcpy(&l->addr, rdma_get_local_addr(l->id), sizeof(copy));
	return 0;
}

static int open_listener(struct weir_listener *l, const struct sockaddr *addr)
{
	int err = cm_dispatcher_id(l->dispatcher, &l->id, &l->user);

	if (!err) {
		err = bind_and_listen(l, addr);
		if (err)
			rdma_destroy_id(l->id);
	}
	return !err ? 0 : why(err, "weir_listener_create: %s", strerror(-err));
}

/* If this fails it has undone all that it did. */
static int attach(struct weir_listener *l, const struct sockaddr *addr)
{
	static const struct weir_object_ops ops = {
		.size = sizeof(ops),
		.name = "weir_listener",
	};
	int err = weir_object_create(&l->obj, l->r, &ops, "", l);

	if (err)
		return why_call(err, "weir_object_create",
				"weir_listener_create");
	err = cm_dispatcher_get(&l->dispatcher, l->r);
	if (!err) {
		err = open_listener(l, addr);
		if (err)
			cm_dispatcher_put(l->dispatcher);
	}
	if (err)
		weir_object_destroy(l->obj);
	return err;
}

int weir_listener_create(struct weir_listener **ret, struct weir_reactor *r,
			 const struct sockaddr *addr, socklen_t len,
			 const struct weir_listener_opts *user)
{
	struct weir_listener *l;
	int err;

	if (!conn_address_len(addr, len))
		return why(-EINVAL, "weir_listener_create: not an address of "
			   "IPv4 or IPv6");
	l = mem_calloc(1, sizeof(*l));
	if (!l)
		return why(-ENOMEM, "weir_listener_create: no memory");
	l->r = r;
	l->user.event = listener_event;
	l->requests_last = &l->requests;
	op_list_init(&l->waiters);
	err = load_opts(l, user);
	if (!err)
		err = attach(l, addr);
	if (err) {
		free(l);
		return err;
	}
	if (l->opts.srq)
		l->opts.srq->n_users++;
	*ret = l;
	return 0;
}

int weir_listener_address(const struct weir_listener *l, struct sockaddr *addr,
			  socklen_t *len)
{
	return conn_copy_address(addr, len, (const struct sockaddr *)&l->addr,
				 "weir_listener_address");
}

static void cancel(struct weir_op *op, void *listener)
{
	struct weir_listener *l = listener;

	op_list_del(&l->waiters, op);
	weir_op_finish(op, -ECANCELED);
}

static const struct weir_op_kind next_kind = {
	.size = sizeof(next_kind),
	.name = "RDMA listen",
	.cancel = cancel,
};

int weir_listener_next(struct weir_listener *l, struct weir_op *op,
		       struct weir_conn **ret)
{
	struct weir_conn *c;
	int err;

	if (!l->id && !l->requests)
		return why(-ENODEV, "weir_listener_next: the device was "
			   "removed");
	err = rdma_op_begin(l->r, op, &next_kind, l, "weir_listener_next");
	if (err)
		return err < 0 ? err : 0;
	next_of(op)->ret = ret;
	c = pop_request(l);
	if (c)
		hand_over(op, c);
	else
		op_list_push(&l->waiters, op);
	return 0;
}

int weir_listener_destroy(struct weir_listener *l)
{
	struct weir_conn *c;

	if (!l)
		return 0;
	if (l->waiters.first)
		return why(-EBUSY, "weir_listener_destroy: operations of "
			   "weir_listener_next() are in flight; cancel them");
	while ((c = take_first(l)))
		weir_conn_destroy(c);
	if (l->id)
		rdma_destroy_id(l->id);
	cm_dispatcher_put(l->dispatcher);
	if (l->opts.srq)
		l->opts.srq->n_users--;
	weir_object_destroy(l->obj);
	free(l);
	return 0;
}
