/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The states of a connection: connect, accept, reconnect, disconnect; what
 * events of rdma_cm do in each.
 */

#include <string.h>

#include "base/why.h"
#include "rdma/engine.h"

/* The client's steps: address, route, request, answer; and reconnecting. */

/* Call rdma_x(), with a fault point; returns 0 or an errno. */
#define TRY(call, args) \
	(errno = 0, weir_fault(#call) ? -ENOMEM : call args ? conn_error() : 0)

static int begin(struct weir_conn *c)
{
	struct sockaddr *from = c->from.ss_family ?
				(struct sockaddr *)&c->from : NULL;
	int err;

	err = cm_dispatcher_id(c->dispatcher, &c->id, &c->user);
	if (err)
		return err;
	err = TRY(rdma_resolve_addr, (c->id, from, (struct sockaddr *)&c->to,
				      (int)c->opts.resolve_ms));
	if (err) {
		rdma_destroy_id(c->id);
		c->id = NULL;
		return err;
	}
	c->state = WEIR_CONN_CONNECTING;
	c->step = CONN_ADDRESS;
	c->peer_len = 0;
	c->n_attempts++;
	return 0;
}

static void conn_resolved(struct weir_conn *c)
{
	int err = TRY(rdma_resolve_route, (c->id, (int)c->opts.resolve_ms));

	if (err)
		conn_done(c, err, err);
	else
		c->step = CONN_ROUTE;
}

static int request(struct weir_conn *c)
{
	struct rdma_conn_param param = {
		.private_data = c->data_len ? c->data : NULL,
		.private_data_len = c->data_len,
		.responder_resources = (uint8_t)c->reads_in,
		.initiator_depth = (uint8_t)c->reads_out,
		.retry_count = c->opts.retries,
		.rnr_retry_count = c->opts.rnr_retries,
		.srq = !!c->opts.srq,
		.qp_num = c->qp->qp_num,
	};

	return TRY(rdma_connect, (c->id, &param));
}

static void done(struct weir_conn *c, int err)
{
	if (err)
		why_call(err, "weir_conn", "weir_conn_connect");
	conn_done(c, err, err);
}

/* The route is known: make the QP and send the request. */
static void conn_routed(struct weir_conn *c)
{
	int err = conn_qp_make(c);

	if (!err)
		err = request(c);
	if (err)
		done(c, err);
	else
		c->step = CONN_ANSWER;
}

static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

/*
 * The peer has answered.  The number of reads that we may have in flight is
 * what the peer serves.  If the connection cannot be made after the answer,
 * reject it, so that the peer learns of that.
 */
static void conn_answered(struct weir_conn *c, const struct rdma_cm_event *ev)
{
	int err;

	conn_keep_data(c, ev);
	c->reads_out = least(c->reads_out, ev->param.conn.initiator_depth);
	c->reads_in = least(c->reads_in, ev->param.conn.responder_resources);
	err = conn_qp_ready(c);
	if (!err)
		err = TRY(rdma_establish, (c->id));
	if (err == -EINVAL)
		err = -ECONNRESET;
	if (err)
		rdma_reject(c->id, NULL, 0);
	done(c, err);
}

/*
 * Keep the clients of a server that has failed from reconnecting all at once.
 * Clients of one reactor differ by their number, others by their clock; both
 * repeat in a simulated world.
 */
static uint64_t jittered(const struct weir_conn *c)
{
	uint64_t mixed = weir_reactor_now(c->r) + ((uint64_t)c->serial << 40);

	mixed = (mixed ^ mixed >> 31) * 0x9e3779b97f4a7c15;
	mixed ^= mixed >> 29;
	return c->backoff_ns - mixed % (c->backoff_ns / 2 + 1);
}

/*
 * It has ended, or an attempt has failed: CONNECTING if there is another one to
 * make, ENDED if not.
 */
static bool wait_for_next(struct weir_conn *c)
{
	struct weir_reactor *r = c->r;

	if (!c->tries || weir_reactor_state(r) != WEIR_REACTOR_RUNNING) {
		c->state = WEIR_CONN_ENDED;
		return false;
	}
	debug_check(c->tries > 0);
	c->tries--;
	c->state = WEIR_CONN_CONNECTING;
	c->step = CONN_BACKOFF;
	weir_timer_start(c->timer, weir_reactor_now(r) + jittered(c), 0);
	c->backoff_ns *= 2;
	if (c->backoff_ns > c->opts.most_ns)
		c->backoff_ns = c->opts.most_ns;
	return true;
}

static void retry(struct weir_conn *c, int why_not)
{
	if (!wait_for_next(c))
		conn_tell(c, why_not);
}

void conn_ended(struct weir_conn *c, int why_ended)
{
	rdma_check_thread(c->r);
	c->tries = c->passive ? 0 : c->opts.attempts;
	c->backoff_ns = c->opts.first_ns;
	wait_for_next(c);
	conn_tell(c, why_ended);
}

void conn_try_again(struct weir_conn *c)
{
	int err = begin(c);

	rdma_check_thread(c->r);
	if (err)
		retry(c, err);
}

/* In CONNECTING without an operation: reconnecting. */
void conn_done(struct weir_conn *c, int err, int code)
{
	struct weir_op *op = c->op;

	rdma_check_thread(c->r);
	c->op = NULL;
	if (err) {
		conn_teardown(c);
	} else {
		c->state = WEIR_CONN_ESTABLISHED;
		c->n_connects++;
		conn_watch_begin(c);
		if (c->held)
			weir_object_notify(c->obj);
	}
	if (op) {
		if (err)
			c->state = WEIR_CONN_ENDED;
		c->due = op;
		rdma_op_finish(op, err, code, 0);
	} else if (err) {
		retry(c, err);
	} else {
		conn_tell(c, WEIR_CONN_AGAIN);
	}
}

static void cancel(struct weir_op *op, void *conn)
{
	(void)op;
	conn_done(conn, -ECANCELED, 0);
}

static const struct weir_op_kind connect_kind = {
	.size = sizeof(connect_kind),
	.name = "RDMA connect",
	.cancel = cancel,
	.leave = conn_op_leaves,
};

static int may_connect(const struct weir_conn *c, const struct sockaddr *to,
		       socklen_t to_len, const struct sockaddr *from,
		       socklen_t from_len, size_t len)
{
	if (c->passive)
		return why(-EPERM, "weir_conn_connect: it came from a listener; "
			   "its peer can connect again");
	if (conn_busy(c) ||
	    (c->state != WEIR_CONN_IDLE && c->state != WEIR_CONN_ENDED))
		return why(-EBADFD, "weir_conn_connect: it is in use already");
	if (!conn_address_len(to, to_len) ||
	    (from && !conn_address_len(from, from_len)))
		return why(-EINVAL, "weir_conn_connect: not an address of IPv4 "
			   "or IPv6");
	if (len > WEIR_CONN_CONNECT_DATA)
		return why(-EMSGSIZE, "weir_conn_connect: private data are at "
			   "most %d bytes", WEIR_CONN_CONNECT_DATA);
	return 0;
}

static void keep(struct weir_conn *c, const struct sockaddr *to,
		 socklen_t to_len, const struct sockaddr *from,
		 socklen_t from_len, const void *data, size_t len)
{
	memset(&c->to, 0, sizeof(c->to));
	memset(&c->from, 0, sizeof(c->from));
	memcpy(&c->to, to, conn_address_len(to, to_len));
	if (from)
		memcpy(&c->from, from, conn_address_len(from, from_len));
	if (len)
		memcpy(c->data, data, len);
	c->data_len = (uint8_t)len;
}

int weir_conn_connect(struct weir_conn *c, struct weir_op *op,
		      const struct sockaddr *to, socklen_t to_len,
		      const struct sockaddr *from, socklen_t from_len,
		      const void *data, size_t len)
{
	int err = may_connect(c, to, to_len, from, from_len, len);

	if (err)
		return err;
	err = rdma_op_begin(c->r, op, &connect_kind, c, "weir_conn_connect");
	if (err)
		return err < 0 ? err : 0;
	keep(c, to, to_len, from, from_len, data, len);
	err = begin(c);
	if (err) {
		weir_op_abandon(op);
		return why(err, "weir_conn_connect: %s", strerror(-err));
	}
	conn_op_set(c, op, &connect_kind);
	return 0;
}

/*
 * The server's way.  All that can fail is done inside the start, which leaves
 * everything as it was if it does; then only the peer is waited for.
 */

static const struct weir_op_kind accept_kind = {
	.size = sizeof(accept_kind),
	.name = "RDMA accept",
	.cancel = cancel,
	.leave = conn_op_leaves,
};

/* rdma_cm returns -EINVAL for an id whose peer has given up. */
static int answered(int failed, const char *call)
{
	int err = !failed ? 0 : errno == EINVAL ? -ECONNRESET : conn_error();

	return !err ? 0 : why(err, "%s: %s", call,
			      err == -ECONNRESET ? "the peer has given up" :
						   strerror(-err));
}

static int answer(struct weir_conn *c, const void *data, size_t len)
{
	struct rdma_conn_param param = {
		.private_data = len ? data : NULL,
		.private_data_len = (uint8_t)len,
		.responder_resources = (uint8_t)c->reads_in,
		.initiator_depth = (uint8_t)c->reads_out,
		.rnr_retry_count = c->opts.rnr_retries,
		.srq = !!c->opts.srq,
		.qp_num = c->qp->qp_num,
	};

	errno = weir_fault("rdma_accept") ? ENOMEM : 0;
	return answered(errno ? -1 : rdma_accept(c->id, &param),
			"weir_conn_accept");
}

static int may_answer(const struct weir_conn *c, size_t len, size_t max,
		      const char *call)
{
	if (c->state != WEIR_CONN_REQUESTED)
		return why(-EBADFD, "%s: there is no request", call);
	if (len > max)
		return why(-EMSGSIZE, "%s: private data are at most %zu bytes",
			   call, max);
	return 0;
}

/* What the peer has asked for, but at most what we offer. */
static uint32_t accept_least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static int make_ready(struct weir_conn *c, const void *data, size_t len)
{
	uint32_t reads_out = c->reads_out, reads_in = c->reads_in;
	int err = conn_qp_make(c);

	if (!err) {
		c->reads_out = accept_least(c->reads_out, reads_out);
		c->reads_in = accept_least(c->reads_in, reads_in);
		err = conn_qp_ready(c);
	}
	if (!err)
		err = answer(c, data, len);
	if (!err)
		return 0;
	if (c->qp)
		conn_qp_free(c);
	c->reads_out = reads_out;
	c->reads_in = reads_in;
	return why_call(err, "weir_conn", "weir_conn_accept");
}

int weir_conn_accept(struct weir_conn *c, struct weir_op *op, const void *data,
		     size_t len)
{
	int err = may_answer(c, len, WEIR_CONN_ACCEPT_DATA, "weir_conn_accept");

	if (err)
		return err;
	err = rdma_op_begin(c->r, op, &accept_kind, c, "weir_conn_accept");
	if (err)
		return err < 0 ? err : 0;
	err = make_ready(c, data, len);
	if (err) {
		weir_op_abandon(op);
		return err;
	}
	conn_op_set(c, op, &accept_kind);
	c->state = WEIR_CONN_ACCEPTING;
	return 0;
}

int weir_conn_reject(struct weir_conn *c, const void *data, size_t len)
{
	int err = may_answer(c, len, WEIR_CONN_REJECT_DATA, "weir_conn_reject");

	if (err)
		return err;
	errno = weir_fault("rdma_reject") ? ENOMEM : 0;
	err = answered(errno ? -1 : rdma_reject(c->id, data, (uint8_t)len),
		       "weir_conn_reject");
	if (err && err != -ECONNRESET)
		return err;
	conn_teardown(c);
	c->state = WEIR_CONN_ENDED;
	return 0;
}

/*
 * How the events of rdma_cm change a connection, by its state.  All others are
 * ignored: an event that came too late, or one that only reports that the
 * fabric has chosen another route.
 */

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
 * Answer a disconnect of the peer by a disconnect.  A server that gives up
 * before its side is established sends REJECTED.  If the address of the
 * interface has changed, the peer may be out of reach: probe it.
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

/* The connection's turn: by its timer, by what was deferred. */

void conn_settle(struct weir_conn *c)
{
	struct weir_op *op = c->op;

	rdma_check_thread(c->r);
	if (c->posted || !c->quiet || c->due || !conn_has_delivered(c))
		return;
	conn_teardown(c);
	c->state = WEIR_CONN_ENDED;
	if (!c->wanted) {
		conn_ended(c, c->why);
		return;
	}
	c->op = NULL;
	if (op)
		weir_op_finish(op, c->why);
}

/*
 * An event may concern an earlier QP at the same address, so query the QP.  0:
 * the QP is well.
 */
static int trouble_of(struct weir_conn *c, unsigned int news)
{
	if (!c->qp)
		return 0;
	if (news & CONN_NEWS_DEVICE)
		return -ENODEV;
	if (news & CONN_NEWS_FLOOD)
		return -ENOBUFS;
	return news & CONN_NEWS_QP && conn_qp_has_failed(c) ? -EIO : 0;
}

/*
 * The first data prove that the answer has arrived, even if the peer's last
 * message has not.  Messages that came before an end are delivered before it.
 */
void conn_run(void *conn)
{
	struct weir_conn *c = conn;
	unsigned int news = c->news;
	int err;

	if (c->queue)
		verbs_sends_end_turn(c->queue);
	if (conn_tell_message(c))
		return;
	err = trouble_of(c, news);
	c->news = 0;
	if (c->state == WEIR_CONN_ESTABLISHED && err)
		conn_close(c, err);
	if (c->state == WEIR_CONN_ACCEPTING && news & CONN_NEWS_DATA && !err)
		rdma_notify(c->id, IBV_EVENT_COMM_EST);
	if (c->state == WEIR_CONN_CLOSING)
		conn_settle(c);
	else if (err && (c->state == WEIR_CONN_CONNECTING ||
			 c->state == WEIR_CONN_ACCEPTING))
		conn_done(c, err, 0);
}

void conn_timer(struct weir_timer *timer, uint64_t n, void *conn)
{
	struct weir_conn *c = conn;

	(void)timer, (void)n;
	if (c->state == WEIR_CONN_CLOSING) {
		c->quiet = true;
		conn_settle(c);
	} else if (c->state == WEIR_CONN_ESTABLISHED) {
		conn_watch_run(c);
	} else {
		conn_try_again(c);
	}
}

static void disconnect_cancel(struct weir_op *op, void *conn)
{
	struct weir_conn *c = conn;

	(void)op;
	c->quiet = true;
	c->why = -ECANCELED;
	conn_settle(c);
}

static const struct weir_op_kind disconnect_kind = {
	.size = sizeof(disconnect_kind),
	.name = "RDMA disconnect",
	.cancel = disconnect_cancel,
};

/* Post what waits first; it may be flushed.  Posting may itself fail and end
 * the connection. */
static void linger(struct weir_conn *c)
{
	int failed;

	verbs_pump(c->queue);
	verbs_post(c->queue);
	if (c->state != WEIR_CONN_ESTABLISHED)
		return;
	failed = rdma_disconnect(c->id);
	conn_close(c, 0);
	if (failed)
		return;
	c->quiet = false;
	weir_timer_start(c->timer, weir_reactor_now(c->r) + CONN_LINGER_NS, 0);
}

int weir_conn_disconnect(struct weir_conn *c, struct weir_op *op)
{
	int err;

	if (conn_busy(c))
		return why(-EBUSY, "weir_conn_disconnect: an operation is in "
			   "flight: %s", c->op_kind->name);
	if (c->state != WEIR_CONN_ESTABLISHED &&
	    c->state != WEIR_CONN_CLOSING && !conn_is_reconnecting(c))
		return why(-ENOTCONN, "weir_conn_disconnect: there is no "
			   "connection");
	err = rdma_op_begin(c->r, op, &disconnect_kind, c,
			    "weir_conn_disconnect");
	if (err)
		return err < 0 ? err : 0;
	conn_op_set(c, op, &disconnect_kind);
	if (c->state == WEIR_CONN_ESTABLISHED)
		linger(c);
	c->quiet |= c->state == WEIR_CONN_CONNECTING;
	c->wanted = true;
	c->why = 0;
	conn_settle(c);
	return 0;
}
