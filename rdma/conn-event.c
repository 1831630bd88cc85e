/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What an event of rdma_cm's does to a connection, by its state.  What is not
 * said here is no news: an event that came too late, or one that only says that
 * the fabric has changed its mind about a route.
 */

#include "base/why.h"
#include "rdma/conn-internal.h"

/* Why an address or a route was not found. */
static int resolve_errno(int status)
{
	return status == -ENODEV ? -ENODEV : -EHOSTUNREACH;
}

/* How an exchange that was begun has failed; 0: it has not. */
static int failure_of(const struct rdma_cm_event *ev, bool passive)
{
	switch (ev->event) {
	case RDMA_CM_EVENT_REJECTED:
		return passive ? -ECONNRESET : -ECONNREFUSED;
	case RDMA_CM_EVENT_UNREACHABLE:
		return -ETIMEDOUT;
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_DISCONNECTED:
		return -ECONNRESET;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		return -ENODEV;
	default:
		return 0;
	}
}

static void connecting(struct weir_conn *c, const struct rdma_cm_event *ev)
{
	enum conn_step step = c->step;
	int err;

	switch (ev->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		if (step == CONN_ADDRESS)
			conn_resolved(c);
		return;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		if (step == CONN_ROUTE)
			conn_routed(c);
		return;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
		if (step != CONN_ANSWER)
			conn_done(c, resolve_errno(ev->status), ev->status);
		return;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		if (step == CONN_ANSWER)
			conn_answered(c, ev);
		return;
	default:
		break;
	}
	err = failure_of(ev, false);
	if (!err || (step != CONN_ANSWER && err != -ENODEV))
		return;
	conn_keep_data(c, ev);
	conn_done(c, err, ev->status);
}

static void requested(struct weir_conn *c, const struct rdma_cm_event *ev)
{
	if (!failure_of(ev, true))
		return;
	conn_teardown(c);
	c->state = WEIR_CONN_ENDED;
}

static void accepting(struct weir_conn *c, const struct rdma_cm_event *ev)
{
	int err = failure_of(ev, true);

	if (err || ev->event == RDMA_CM_EVENT_ESTABLISHED)
		conn_done(c, err, ev->status);
}

/*
 * The answer to a peer that disconnects is to disconnect.  A server that gives
 * up before it hears that the connection is established sends a REJECTED.  If
 * the interface has another address the peer may be out of reach: probe it.
 */
static void established(struct weir_conn *c, const struct rdma_cm_event *ev)
{
	int err = failure_of(ev, true);

	if (ev->event == RDMA_CM_EVENT_ADDR_CHANGE)
		conn_watch_probe(c);
	if (!err)
		return;
	if (ev->event == RDMA_CM_EVENT_DISCONNECTED) {
		rdma_disconnect(c->id);
		err = 0;
	} else if (err != -ENODEV) {
		err = -ECONNRESET;
	}
	conn_close(c, err);
	conn_settle(c);
}

/* DISCONNECTED is enough to end: between it and TIMEWAIT_EXIT the kernel only
 * keeps the QP's number from others. */
static void closing(struct weir_conn *c, const struct rdma_cm_event *ev)
{
	if (ev->event != RDMA_CM_EVENT_TIMEWAIT_EXIT && !failure_of(ev, true))
		return;
	c->quiet = true;
	conn_settle(c);
}

void conn_event(struct conn_user *user, const struct rdma_cm_event *ev)
{
	struct weir_conn *c = weir_container_of(user, struct weir_conn, user);

	if (ev->event == RDMA_CM_EVENT_DEVICE_REMOVAL && c->device_ref)
		conn_device_ref_dead(c->device_ref);
	switch (c->state) {
	case WEIR_CONN_CONNECTING:
		connecting(c, ev);
		break;
	case WEIR_CONN_REQUESTED:
		requested(c, ev);
		break;
	case WEIR_CONN_ACCEPTING:
		accepting(c, ev);
		break;
	case WEIR_CONN_ESTABLISHED:
		established(c, ev);
		break;
	case WEIR_CONN_CLOSING:
		closing(c, ev);
		break;
	default:	/* It has no id. */
		break;
	}
}
