/* SPDX-License-Identifier: BSD-3-Clause */
/* The client's way: address, route, request, answer; and reconnecting. */

#include <string.h>

#include "base/fault.h"
#include "base/why.h"
#include "rdma/conn-internal.h"

/* As rdma_x() is, with a fault point. */
#define TRY(call, args) \
	(errno = 0, fault(#call) ? -ENOMEM : call args ? conn_error() : 0)

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

void conn_resolved(struct weir_conn *c)
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

void conn_routed(struct weir_conn *c)
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
 * What we may have in flight at the peer is what it serves.  A peer that has
 * been answered once and is not to have a connection after all is told so.
 */
void conn_answered(struct weir_conn *c, const struct rdma_cm_event *ev)
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
 * Clients of a server that has failed are not to come back all at once.
 * Those of one reactor differ by number, others by their clock; in a
 * simulated world both repeat.
 */
static uint64_t jittered(const struct weir_conn *c)
{
	uint64_t mixed = reactor_now(c->r) + ((uint64_t)c->serial << 40);

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

	if (!c->tries || r->attention & ATTENTION_STOPPING) {
		c->state = WEIR_CONN_ENDED;
		return false;
	}
	c->tries--;
	c->state = WEIR_CONN_CONNECTING;
	c->step = CONN_BACKOFF;
	wheel_rearm(&r->wheel, &c->timer, reactor_now(r) + jittered(c));
	reactor_touch(r);
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
	c->tries = c->passive ? 0 : c->opts.attempts;
	c->backoff_ns = c->opts.first_ns;
	wait_for_next(c);
	conn_tell(c, why_ended);
}

void conn_try_again(struct weir_conn *c)
{
	int err = begin(c);

	if (err)
		retry(c, err);
}

/* In CONNECTING without an operation: reconnecting. */
void conn_done(struct weir_conn *c, int err, int code)
{
	struct weir_op *op = c->op;

	c->op = NULL;
	if (err) {
		conn_teardown(c);
	} else {
		c->state = WEIR_CONN_ESTABLISHED;
		c->n_connects++;
		conn_watch_begin(c);
		if (c->held)
			deferred_send(&c->deferred);
	}
	if (op) {
		if (err)
			c->state = WEIR_CONN_ENDED;
		op->detail.code = code;
		op->flags |= OP_LEAVES;
		c->due = op;
		op_complete(op, err);
	} else if (err) {
		retry(c, err);
	} else {
		conn_tell(c, WEIR_CONN_AGAIN);
	}
}

static void cancel(struct weir_op *op)
{
	conn_done((struct weir_conn *)(uintptr_t)op->u.words[0], -ECANCELED,
		  0);
}

static const struct weir_op_class connect_class = {
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

	if (!err)
		err = op_admit(c->r, op);
	if (err)
		return op_admitted(err);
	keep(c, to, to_len, from, from_len, data, len);
	err = begin(c);
	if (err)
		return why(err, "weir_conn_connect: %s", strerror(-err));
	op->u.words[0] = (uintptr_t)c;
	c->op = op;
	op_enlist(c->r, op, &connect_class);
	return 0;
}
