/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a connection ends, and how it detects that its peer does not answer.
 */

#include <stdlib.h>
#include <string.h>

#include "base/why.h"
#include "rdma/engine.h"
#include "rdma/srq-internal.h"

/*
 * Connections whose peer does not answer.
 *
 * The device detects this when it sends something, and only if its retries are
 * limited.  So each connection has a timer.  If nothing was sent since the
 * timer last expired, it posts a write of 0 bytes (keepalive), which needs no
 * key and which the peer's program does not notice.  If work is posted and none
 * of it has ended for .stall_ns, it ends the connection.
 *
 * Without keepalive the timer runs only while work is posted.  Its times are
 * rounded up, so that the connections of a reactor share wake-ups.
 */

#define SHARES 8	/* Times per period at which a timer may expire. */

static bool has_work(const struct weir_conn *c)
{
	return c->queue->head != c->queue->posted ||
	       (c->beat && c->beat->posted);
}

static void arm(struct weir_conn *c)
{
	uint64_t period = c->beat ? c->opts.keepalive_ns : c->opts.stall_ns;
	uint64_t share = period / SHARES;
	uint64_t at = weir_reactor_now(c->r) + period;

	c->watched = true;
	weir_timer_start(c->timer,
			 at < period ? WEIR_FOREVER :
				       at + share - 1 - (at + share - 1) % share,
			 0);
}

void conn_watch_begin(struct weir_conn *c)
{
	rdma_check_thread(c->r);
	c->seen = c->queue->head;
	c->moved_ns = weir_reactor_now(c->r);
	c->busy = false;
	if (c->beat)
		arm(c);
}

void conn_watch_posted(struct weir_conn *c)
{
	rdma_check_thread(c->r);
	if (c->opts.stall_ns == WEIR_FOREVER ||
	    c->state != WEIR_CONN_ESTABLISHED)
		return;
	c->seen = c->queue->head;
	c->moved_ns = weir_reactor_now(c->r);
	c->busy = true;
	arm(c);
}

static void on_beat(struct weir_wr *wr, const struct ibv_wc *wc)
{
	struct conn_beat *beat = weir_container_of(wr, struct conn_beat, wr);

	beat->posted = false;
	if (beat->conn && wc->status != IBV_WC_SUCCESS)
		conn_fail(beat->conn, verbs_end_of(wc->status));
}

void conn_watch_probe(struct weir_conn *c)
{
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};
	struct conn_beat *beat = c->beat;
	int err;

	rdma_check_thread(c->r);
	if (!beat || beat->posted)
		return;
	beat->wr.fn = on_beat;
	wr.wr_id = (uintptr_t)&beat->wr;
	err = weir_fault("ibv_post_send") ? ENOMEM :
	      ibv_post_send(c->qp, &wr, &bad);
	if (err)
		conn_fail(c, -err);
	else
		beat->posted = true;
}

void conn_watch_run(struct weir_conn *c)
{
	uint64_t now = weir_reactor_now(c->r);
	bool busy = has_work(c), idle = !busy && c->seen == c->queue->head;

	rdma_check_thread(c->r);
	c->watched = false;
	if (!busy || !c->busy || c->seen != c->queue->head)
		c->moved_ns = now;
	c->busy = busy;
	c->seen = c->queue->head;
	if (now - c->moved_ns >= c->opts.stall_ns) {
		conn_fail(c, -ETIMEDOUT);
		return;
	}
	if (idle)
		conn_watch_probe(c);
	if (c->state == WEIR_CONN_ESTABLISHED && (busy || c->beat))
		arm(c);
}

void conn_beat_free(struct conn_beat *beat, struct weir_channel *ch,
		    uint32_t qp_num, bool orphans)
{
	if (orphans || (beat && beat->posted))
		weir_channel_forget(ch, qp_num);
	free(beat);
}

/*
 * How a connection ends.
 *
 *	ESTABLISHED --> CLOSING: the QP is in error, and flushes what is posted
 *	CLOSING --> ENDED: nothing is posted any more; after a disconnect of our
 *	            own, the peer has also answered; and the callback of the
 *	            connect or accept has been called
 *
 * Posters are counted (conn_begin(), conn_end()), so the library needs no work
 * request of its own to find out that all have been flushed.
 */

void conn_teardown(struct weir_conn *c)
{
	rdma_check_thread(c->r);
	weir_timer_stop(c->timer);
	c->watched = false;
	if (c->qp)
		conn_qp_free(c);
	if (c->id)
		rdma_destroy_id(c->id);
	c->id = NULL;
}

void conn_tell(struct weir_conn *c, int why_told)
{
	rdma_check_thread(c->r);
	if (c->end_fn)
		c->end_fn(c, why_told, c->end_arg);
}

void conn_close(struct weir_conn *c, int why_closed)
{
	rdma_check_thread(c->r);
	weir_timer_stop(c->timer);
	c->watched = false;
	c->state = WEIR_CONN_CLOSING;
	c->why = why_closed;
	c->wanted = false;
	c->quiet = true;
	conn_qp_error(c);
	if (c->member)
		srq_mark_set(c->member->srq, &c->member->mark);
}

void conn_end(struct weir_conn *c)
{
	rdma_check_thread(c->r);
	if (!--c->posted && c->state == WEIR_CONN_CLOSING)
		weir_object_notify(c->obj);
}

void conn_op_leaves(struct weir_op *op, void *conn)
{
	struct weir_conn *c = conn;

	debug_check(c->due == op);
	c->due = NULL;
	if (c->state == WEIR_CONN_CLOSING || c->held)
		weir_object_notify(c->obj);
}

void conn_fail(struct weir_conn *c, int err)
{
	rdma_check_thread(c->r);
	if (c->state != WEIR_CONN_ESTABLISHED)
		return;
	conn_close(c, err);
	weir_object_notify(c->obj);
}

/* The reactor stops: operations are cancelled, this is none. */
void conn_stop(void *conn)
{
	struct weir_conn *c = conn;

	if (!conn_is_reconnecting(c))
		return;
	conn_teardown(c);
	c->state = WEIR_CONN_ENDED;
}
