/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a connection ends.
 *
 *	ESTABLISHED --> CLOSING: the QP is in error, and flushes what is posted
 *	CLOSING --> ENDED: nothing is posted any more; after a disconnect of our
 *	            own, the peer has also answered; and the callback of the
 *	            connect or accept has been called
 *
 * Who posts counts (conn_begin(), conn_end()), so no work request of ours is
 * needed to know that all have been flushed.
 */

#include <string.h>

#include "base/why.h"
#include "rdma/engine.h"
#include "rdma/srq-internal.h"

void conn_teardown(struct weir_conn *c)
{
	wheel_del(&c->r->wheel, &c->timer);
	c->watched = false;
	if (c->qp)
		conn_qp_free(c);
	if (c->id)
		rdma_destroy_id(c->id);
	c->id = NULL;
}

void conn_tell(struct weir_conn *c, int why_told)
{
	if (c->end_fn)
		c->end_fn(c, why_told, c->end_arg);
}

void conn_close(struct weir_conn *c, int why_closed)
{
	wheel_del(&c->r->wheel, &c->timer);
	c->watched = false;
	c->state = WEIR_CONN_CLOSING;
	c->why = why_closed;
	c->wanted = false;
	c->quiet = true;
	conn_qp_error(c);
	if (c->member)
		srq_mark_set(c->member->srq, &c->member->mark);
}

void conn_settle(struct weir_conn *c)
{
	struct weir_op *op = c->op;

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
		op_complete(op, c->why);
}

void conn_end(struct weir_conn *c)
{
	if (!--c->posted && c->state == WEIR_CONN_CLOSING)
		deferred_send(&c->deferred);
}

void conn_op_leaves(struct weir_op *op)
{
	struct weir_conn *c = (struct weir_conn *)(uintptr_t)op->u.words[0];

	c->due = NULL;
	if (c->state == WEIR_CONN_CLOSING || c->held)
		deferred_send(&c->deferred);
}

void conn_fail(struct weir_conn *c, int err)
{
	if (c->state != WEIR_CONN_ESTABLISHED)
		return;
	conn_close(c, err);
	deferred_send(&c->deferred);
}

/*
 * An event may be about a QP that had the same address before: so it is asked.
 * 0: the QP is well.
 */
static int failure_of(struct weir_conn *c, unsigned int news)
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
 * The first data prove that the answer has arrived, whether or not the peer's
 * last message has.  What came before an end is told before it.
 */
void conn_run(struct deferred *deferred)
{
	struct weir_conn *c =
		weir_container_of(deferred, struct weir_conn, deferred);
	unsigned int news = c->news;
	int err;

	if (conn_tell_message(c))
		return;
	err = failure_of(c, news);
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

void conn_timer(struct weir_timer_node *node)
{
	struct weir_conn *c = weir_container_of(node, struct weir_conn, timer);

	if (c->state == WEIR_CONN_CLOSING) {
		c->quiet = true;
		conn_settle(c);
	} else if (c->state == WEIR_CONN_ESTABLISHED) {
		conn_watch_run(c);
	} else {
		conn_try_again(c);
	}
}

/* Whether it is connecting with nobody who waits for it. */
static bool is_reconnecting(const struct weir_conn *c)
{
	return c->state == WEIR_CONN_CONNECTING && !conn_busy(c);
}

/* The reactor stops: operations are cancelled, this is none. */
void conn_stop(struct reactor_obj *obj)
{
	struct weir_conn *c = weir_container_of(obj, struct weir_conn, obj);

	if (!is_reconnecting(c))
		return;
	conn_teardown(c);
	c->state = WEIR_CONN_ENDED;
}

static void cancel(struct weir_op *op)
{
	struct weir_conn *c = (struct weir_conn *)(uintptr_t)op->u.words[0];

	c->quiet = true;
	c->why = -ECANCELED;
	conn_settle(c);
}

static const struct weir_op_class disconnect_class = {
	.name = "RDMA disconnect",
	.cancel = cancel,
};

/* What waits is posted before, and may be flushed.  That may be the end of it,
 * too. */
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
	wheel_rearm(&c->r->wheel, &c->timer,
		    reactor_now(c->r) + CONN_LINGER_NS);
}

int weir_conn_disconnect(struct weir_conn *c, struct weir_op *op)
{
	int err;

	if (conn_busy(c))
		return why(-EBUSY, "weir_conn_disconnect: an operation is in "
			   "flight: %s", conn_busy(c)->cls->name);
	if (c->state != WEIR_CONN_ESTABLISHED &&
	    c->state != WEIR_CONN_CLOSING && !is_reconnecting(c))
		return why(-ENOTCONN, "weir_conn_disconnect: there is no "
			   "connection");
	err = op_begin(c->r, op, &disconnect_class);
	if (err)
		return op_admitted(err);
	op->u.words[0] = (uintptr_t)c;
	c->op = op;
	if (c->state == WEIR_CONN_ESTABLISHED)
		linger(c);
	c->quiet |= c->state == WEIR_CONN_CONNECTING;
	c->wanted = true;
	c->why = 0;
	conn_settle(c);
	return 0;
}
