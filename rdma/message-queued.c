/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Messages to the callbacks of their connections: at once, or, if there is no
 * callback yet, one by one when there is.  A message that waits keeps its slot,
 * so their number is bounded by that of slots, too.
 */

#include <arpa/inet.h>

#include <weir/buf.h>

#include "base/why.h"
#include "rdma/srq-internal.h"

/* What soft-RoCE says for IBV_WC_WITH_INV: the kernel's number for it, which
 * here means that a device has summed up an IP packet. */
#define SOFT_WITH_INV (1u << 2)

static bool has_invalidated(const struct weir_conn *c, const struct ibv_wc *wc)
{
	if (wc->wc_flags & IBV_WC_WITH_INV)
		return true;
	return wc->wc_flags & SOFT_WITH_INV &&
	       !(c->device_ref->device->attr.device_cap_flags &
		 IBV_DEVICE_RC_IP_CSUM);
}

static void describe(struct srq_slot *slot, const struct weir_conn *c,
		     const struct ibv_wc *wc)
{
	struct weir_message *m = &slot->m;

	*m = (struct weir_message){ .size = sizeof(*m), .len = wc->byte_len };
	if (wc->wc_flags & IBV_WC_WITH_IMM) {
		m->flags = WEIR_MESSAGE_IMM;
		m->imm = ntohl(wc->imm_data);
	} else if (has_invalidated(c, wc)) {
		m->flags = WEIR_MESSAGE_INVALIDATE;
		m->rkey = wc->invalidated_rkey;
	}
	if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
		m->flags |= WEIR_MESSAGE_SIGNAL;
	} else if (m->len) {
		m->buf = slot->buf;
		weir_buf_set_data(m->buf, weir_buf_addr(m->buf), m->len);
		m->data = weir_buf_data(m->buf);
		return;
	}
	weir_buf_put(slot->buf); /* It was not needed. */
	slot->buf = NULL;
}

static bool may_tell(const struct weir_conn *c)
{
	return c->message_fn && !c->due &&
	       (c->state == WEIR_CONN_ESTABLISHED ||
		c->state == WEIR_CONN_CLOSING);
}

/* The callback comes last: it may destroy the queue. */
static void tell(struct weir_conn *c, struct srq_slot *slot)
{
	struct weir_message m = slot->m;
	struct weir_srq *srq = slot->srq;

	srq_slot_free(slot);
	srq_fill(srq, false);
	c->message_fn(c, &m, c->message_arg);
}

static void send_news(struct weir_conn *c, unsigned int news)
{
	c->news |= news;
	deferred_send(&c->deferred);
}

/* Its data prove that the peer has heard of an accept. */
static void hold(struct weir_conn *c, struct srq_slot *slot)
{
	if (c->n_held == c->opts.recvs) {
		slot->srq->stats.dropped++;
		srq_slot_drop(slot);
		send_news(c, CONN_NEWS_FLOOD);
		return;
	}
	slot->next = NULL;
	*c->held_last = slot;
	c->held_last = &slot->next;
	c->n_held++;
	slot->srq->n_held++;
	send_news(c, CONN_NEWS_DATA);
}

static struct srq_slot *take_held(struct weir_conn *c)
{
	struct srq_slot *slot = c->held;

	if (!slot)
		return NULL;
	c->held = slot->next;
	if (!c->held)
		c->held_last = &c->held;
	c->n_held--;
	slot->srq->n_held--;
	return slot;
}

bool conn_tell_message(struct weir_conn *c)
{
	if (!c->held || !may_tell(c))
		return false;
	deferred_send(&c->deferred);
	tell(c, take_held(c));
	return true;
}

void conn_drop_messages(struct weir_conn *c)
{
	struct srq_slot *slot;

	if (!c->held)
		return;
	while ((slot = take_held(c))) {
		slot->srq->stats.dropped++;
		srq_slot_drop(slot);
	}
	srq_fill(c->opts.srq, false);
}

bool conn_has_delivered(struct weir_conn *c)
{
	if (!c->member || (!(c->held && may_tell(c)) &&
			   srq_mark_passed(c->member->srq, &c->member->mark)))
		return true;
	deferred_send(&c->deferred);
	return false;
}

static void failed(struct weir_conn *c, const struct ibv_wc *wc)
{
	if (wc->status == IBV_WC_WR_FLUSH_ERR)
		return;
	if (c->state == WEIR_CONN_ACCEPTING)
		send_news(c, CONN_NEWS_QP);
	else
		conn_fail(c,
			  wc->status == IBV_WC_LOC_LEN_ERR ? -EMSGSIZE : -EIO);
}

void message_on_wr(struct weir_wr *wr, const struct ibv_wc *wc)
{
	struct srq_slot *slot = weir_container_of(wr, struct srq_slot, wr);
	struct weir_srq *srq = slot->srq;
	struct weir_conn *c = srq_find(srq, wc->qp_num);

	srq->n_posted--;
	if (unlikely(!c || wc->status != IBV_WC_SUCCESS)) {
		srq->stats.dropped += wc->status == IBV_WC_SUCCESS;
		srq_slot_drop(slot);
		if (c)
			failed(c, wc);
		srq_fill(srq, false);
		return;
	}
	srq->stats.messages++;
	describe(slot, c, wc);
	if (likely(may_tell(c) && !c->held)) {
		tell(c, slot);
		return;
	}
	hold(c, slot);
	srq_fill(srq, false);
}

int weir_conn_set_message_fn(struct weir_conn *c, weir_message_fn *fn,
			     void *arg)
{
	if (!c->opts.srq)
		return why(-EBADFD,
			   "weir_conn_set_message_fn: nothing can be "
			   "received: set .srq of the connection's options");
	c->message_fn = fn;
	c->message_arg = arg;
	if (c->held)
		deferred_send(&c->deferred);
	return 0;
}
