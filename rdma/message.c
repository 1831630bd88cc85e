/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages: those that were received and wait for a callback, and sending. */

#include <arpa/inet.h>

#include <weir/buf.h>

#include "base/why.h"
#include "rdma/engine.h"
#include "rdma/srq-internal.h"

/*
 * Messages are delivered to the callbacks of their connections: at once, or, if
 * there is no callback yet, one by one when there is.  A message that waits
 * keeps its slot, so the number of slots also bounds the number of messages.
 */

/* Soft-RoCE's flag for IBV_WC_WITH_INV: the kernel's number for it, which
 * rdma-core uses for a verified checksum of an IP packet. */
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

	debug_check(wc->byte_len <= slot->srq->opts.buf_size ||
		    wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM);
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

	debug_check(may_tell(c) && slot->srq == c->opts.srq);
	srq_slot_free(slot);
	srq_fill(srq, false);
	c->message_fn(c, &m, c->message_arg);
}

static void send_news(struct weir_conn *c, unsigned int news)
{
	c->news |= news;
	weir_object_notify(c->obj);
}

/* Its data prove that the peer has heard of an accept. */
static void hold(struct weir_conn *c, struct srq_slot *slot)
{
	debug_check(c->n_held <= c->opts.recvs);
	if (c->has_dropped || c->n_held == c->opts.recvs) {
		c->has_dropped = true;
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

	debug_check(!c->held == !c->n_held);
	if (!slot)
		return NULL;
	c->held = slot->next;
	if (!c->held)
		c->held_last = &c->held;
	debug_check(c->n_held > 0);
	c->n_held--;
	debug_check(slot->srq->n_held > 0);
	slot->srq->n_held--;
	return slot;
}

bool conn_tell_message(struct weir_conn *c)
{
	rdma_check_thread(c->r);
	if (!c->held || !may_tell(c))
		return false;
	weir_object_notify(c->obj);
	tell(c, take_held(c));
	return true;
}

void conn_drop_messages(struct weir_conn *c)
{
	struct srq_slot *slot;

	rdma_check_thread(c->r);
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
	rdma_check_thread(c->r);
	if (!c->member || (!(c->held && may_tell(c)) &&
			   srq_mark_passed(c->member->srq, &c->member->mark)))
		return true;
	weir_object_notify(c->obj);
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

	debug_check(srq->n_posted > 0);
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
	if (likely(may_tell(c) && !c->held && !c->has_dropped)) {
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
		weir_object_notify(c->obj);
	return 0;
}

/*
 * Sending.  A message goes through the ring of the connection's QP as jobs do,
 * see engine.h: its place in the ring determines when it ends, and without
 * capacity it waits in the queue.  There it does not overtake writes that were
 * started before it and of which a part is still to be posted; nor do writes
 * that were started after it overtake it.
 *
 * The first message of a turn is posted at once, because another may not
 * follow.  Those that follow wait for the end of the turn, and are then posted
 * together, with one doorbell, and one completion for each run.
 */

#define KNOWN_FLAGS (WEIR_MESSAGE_IMM | WEIR_MESSAGE_INVALIDATE)

/* In the area of its operation, whose argument is the connection. */
struct sending {
	struct op_link link;	/* While it waits. */
	union {
		struct weir_buf *buf;
		const void *data;
	};
	uint64_t len;
	uint64_t at;		/* Its ticket; when posted, .tail of the ring. */
	uint32_t number;	/* .imm or .rkey */
	uint8_t flags;
	bool has_buf;
	bool inlined;
	bool posted;
};

_Static_assert(sizeof(struct sending) <= WEIR_OP_AREA, "in its area");

static struct sending *sending_of(struct weir_op *op)
{
	return weir_op_area(op);
}

/* It is neither in the queue nor in the ring any more. */
static void end(struct weir_conn *c, struct weir_op *op, int64_t res,
		int32_t code)
{
	const struct sending *s = sending_of(op);
	uint64_t len = s->len;

	if (s->has_buf)
		weir_buf_release(s->buf, c->r);
	rdma_op_finish(op, res < 0 ? res : (int64_t)len, code,
		       res < 0 ? 0 : len);
}

void verbs_sent(struct verbs_queue *q, struct weir_op *op, int err,
		int32_t code)
{
	end(q->conn, op, err, code);
}

static void cancel(struct weir_op *op, void *conn)
{
	struct weir_conn *c = conn;

	if (sending_of(op)->posted) {
		verbs_overdue(c->queue, sending_of(op)->at);
		return;
	}
	op_list_del(&c->queue->sends, op);
	end(c, op, -ECANCELED, 0);
}

/* Its callback begins: until then the connection is not over. */
static void leave(struct weir_op *op, void *conn)
{
	(void)op;
	conn_end(conn);
}

static const struct weir_op_kind send_kind = {
	.size = sizeof(send_kind),
	.name = "RDMA send",
	.cancel = cancel,
	.leave = leave,
};

static int gather(struct verbs_queue *q, const struct sending *s,
		  struct verbs_wr *w)
{
	const struct weir_buf *buf = s->has_buf ? s->buf : NULL;
	struct weir_provider_key key = { .lkey = 0 };
	int err = 0;

	if (!s->has_buf && s->len)
		w->sge[w->send.num_sge++] = (struct ibv_sge){
			.addr = (uintptr_t)s->data,
			.length = (uint32_t)s->len,
		};
	for (; buf && !err; buf = weir_buf_next(buf)) {
		if (!weir_buf_data_len(buf))
			continue;
		if (!s->inlined)
			err = weir_buf_key(buf, verbs_device(q), &key);
		w->sge[w->send.num_sge++] = (struct ibv_sge){
			.addr = (uintptr_t)weir_buf_data(buf),
			.length = (uint32_t)weir_buf_data_len(buf),
			.lkey = key.lkey,
		};
	}
	return err;
}

static enum ibv_wr_opcode opcode_of(uint32_t flags)
{
	return flags & WEIR_MESSAGE_IMM ? IBV_WR_SEND_WITH_IMM :
	       flags & WEIR_MESSAGE_INVALIDATE ? IBV_WR_SEND_WITH_INV :
						 IBV_WR_SEND;
}

/* The next into the next place; or it ends. */
static void build(struct verbs_queue *q, struct weir_op *op)
{
	struct verbs_wr *w = verbs_at(q, q->tail);
	struct sending *s = sending_of(op);
	int err;

	w->send = (struct ibv_send_wr){
		.wr_id = (uintptr_t)&w->wr,
		.sg_list = w->sge,
		.opcode = opcode_of(s->flags),
		.send_flags = IBV_SEND_SOLICITED |
			      (s->inlined ? IBV_SEND_INLINE : 0),
	};
	if (s->flags & WEIR_MESSAGE_IMM)
		w->send.imm_data = htonl(s->number);
	else
		w->send.invalidate_rkey = s->number;
	err = gather(q, s, w);
	if (err) {
		end(q->conn, op, err, 0);
		return;
	}
	w->len = 0;
	verbs_take(q)->op = op;
	s->posted = true;
	s->at = q->tail;
}

static bool may_go(const struct verbs_queue *q, struct weir_op *op)
{
	return op && verbs_has_place(q) &&
	       (!q->writers || verbs_job(q->writers)->ticket >
			       sending_of(op)->at);
}

/* Only the last of a run is signalled, as in a run of a job's work requests. */
bool verbs_send_run(struct verbs_queue *q)
{
	uint64_t before = q->tail;

	while (may_go(q, q->sends.first) && q->tail - before < VERBS_RUN)
		build(q, op_list_pop(&q->sends));
	if (q->tail == before)
		return false;
	verbs_at(q, q->tail - 1)->send.send_flags |= IBV_SEND_SIGNALED;
	return true;
}

void verbs_send_give_up(struct verbs_queue *q)
{
	struct weir_op *op;

	while ((op = op_list_pop(&q->sends)))
		end(q->conn, op, -ECANCELED, IBV_WC_WR_FLUSH_ERR);
}

void verbs_sends_end_turn(struct verbs_queue *q)
{
	if (!q->turn_is_open)
		return;
	q->turn_is_open = false;
	verbs_pump(q);
	verbs_post(q);
}

static void send_soon(struct verbs_queue *q)
{
	if (q->turn_is_open)
		return;
	q->turn_is_open = true;
	weir_object_notify(q->conn->obj);
	verbs_pump(q);
	verbs_post(q);
}

/* Check the message without its bufs. */
static int check_message(const struct weir_conn *c,
			 const struct weir_message *m)
{
	if (m->size < sizeof(*m) || m->reserved || m->flags & ~KNOWN_FLAGS)
		return why(-EINVAL, "weir_message_send: .size is not that of "
			   "the struct, or .flags or .reserved not known");
	if (m->flags == KNOWN_FLAGS || (m->buf && m->data))
		return why(-EINVAL, "weir_message_send: not both an immediate "
			   "number and a key, nor both .buf and .data");
	if (m->buf || m->len <= c->max_inline)
		return 0;
	return why(-EMSGSIZE, "weir_message_send: .data has %llu bytes, and at "
		   "most %u can be sent so; use bufs",
		   (unsigned long long)m->len, c->max_inline);
}

static int check_keys(const struct weir_conn *c, const struct weir_buf *buf)
{
	struct weir_provider_key key;
	int err = 0;

	for (; buf && !err; buf = weir_buf_next(buf))
		err = weir_buf_key(buf, verbs_device(c->queue), &key);
	return err != -ENOENT ?
		       err :
		       why(-EXDEV,
			   "weir_message_send: the bufs are not of mmaps that "
			   "have device %s",
			   c->device_ref->device->name);
}

/* Check the bufs, which are held: their length, and whether the device has
 * registered them. */
static int check_bufs(const struct weir_conn *c, struct sending *s, uint32_t n)
{
	const struct weir_domain *domain =
		weir_mmap_domain(weir_buf_mmap(s->buf));

	if (!verbs_is_local(domain))
		return why(-EXDEV, "weir_message_send: the bufs are not memory "
			   "of this machine");
	if (s->len > c->max_message || n > c->max_sge)
		return why(-EMSGSIZE, "weir_message_send: %llu bytes in %u "
			   "pieces; at most %u in %u are sent",
			   (unsigned long long)s->len, n, c->max_message,
			   c->max_sge);
	s->inlined = s->len <= c->max_inline && weir_domain_is_memory(domain);
	return s->inlined ? 0 : check_keys(c, s->buf);
}

static int hold_bufs(const struct weir_conn *c, struct sending *s,
		     struct weir_buf *buf)
{
	uint32_t n;
	int64_t len = weir_buf_hold(buf, c->r, &n);
	int err;

	if (len < 0)
		return why((int)len, "weir_message_send: the bufs cannot be "
			   "used now");
	s->buf = buf;
	s->has_buf = true;
	s->len = (uint64_t)len;
	err = check_bufs(c, s, n);
	if (err)
		weir_buf_release(buf, c->r);
	return err;
}

/* Check all.  If it succeeds, the bufs are held, and the caller releases them. */
static int prepare(struct weir_conn *c, const struct weir_message *m,
		   struct sending *s)
{
	int err = check_message(c, m);

	if (err)
		return err;
	if (c->state != WEIR_CONN_ESTABLISHED)
		return why(-ENOTCONN, "weir_message_send: there is no "
			   "connection");
	*s = (struct sending){
		.data = m->data,
		.len = m->len,
		.flags = (uint8_t)m->flags,
		.number = m->flags & WEIR_MESSAGE_IMM ? m->imm : m->rkey,
		.inlined = true,
	};
	return m->buf ? hold_bufs(c, s, m->buf) : 0;
}

int weir_message_send(struct weir_conn *c, struct weir_op *op,
		      const struct weir_message *m)
{
	struct verbs_queue *q = c->queue;
	struct sending s;
	int err = prepare(c, m, &s);

	if (err)
		return err;
	err = rdma_op_begin(c->r, op, &send_kind, c, "weir_message_send");
	if (err) {
		if (s.has_buf)
			weir_buf_release(s.buf, c->r);
		return err < 0 ? err : 0;
	}
	s.at = q->tickets++;
	*sending_of(op) = s;
	c->posted++;
	op_list_push(&q->sends, op);
	send_soon(q);
	return 0;
}
