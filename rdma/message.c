/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Sending.  A message goes through the ring of the connection's QP as jobs do,
 * see engine.h: its place there tells of its end, and without capacity it
 * waits in the queue.  There it does not overtake writes that were started
 * before it, of which any part is still to be posted; nor do those that were
 * started after it overtake it.
 *
 * The first message of a turn goes at once: nobody knows whether there will be
 * another.  Those that follow it wait for the end of the turn, and then go
 * together, with one doorbell, and one completion for each run of them.
 */

#include <arpa/inet.h>

#include "base/why.h"
#include "rdma/engine.h"
#include "mem/buf-internal.h"

#define KNOWN_FLAGS (WEIR_MESSAGE_IMM | WEIR_MESSAGE_INVALIDATE)

/* In the operation's part for its class. */
struct sending {
	struct weir_conn *conn;
	struct weir_buf *buf;
	const void *data;
	uint64_t len;
	uint64_t ticket;
	uint64_t tail;		/* Of the ring, when it was placed there. */
	uint32_t flags;
	uint32_t number;	/* .imm or .rkey */
	bool inlined;
};

_Static_assert(sizeof(struct sending) <= sizeof(((struct weir_op *)0)->u),
	       "in the part of the class");

static struct sending *sending_of(struct weir_op *op)
{
	return (struct sending *)(void *)&op->u;
}

static struct weir_operand operand_of(const struct sending *s)
{
	return s->buf ? weir_operand_buf(s->buf) :
			weir_operand_mem(s->data, s->len);
}

/* Not in the queue or the ring any more. */
static void end(struct weir_op *op, int64_t res, int32_t code)
{
	struct sending *s = sending_of(op);
	struct weir_operand operand = operand_of(s);
	struct weir_conn *c = s->conn;

	if (s->buf)
		operand_release(&operand, OPERAND_SRC, c->r);
	op->detail.code = code;
	op->detail.bytes = res < 0 ? 0 : s->len;
	op_complete(op, res < 0 ? res : (int64_t)s->len);
}

void verbs_sent(struct weir_op *op, int err, int32_t code)
{
	end(op, err, code);
}

static void cancel(struct weir_op *op)
{
	struct verbs_queue *q = sending_of(op)->conn->queue;

	if (!(op->flags & OP_QUEUED)) {
		verbs_overdue(q, sending_of(op)->tail);
		return;
	}
	op_queue_del(&q->sends, op);
	end(op, -ECANCELED, 0);
}

/* Its callback begins: until then the connection is not over. */
static void leave(struct weir_op *op)
{
	conn_end(sending_of(op)->conn);
}

static const struct weir_op_class send_class = {
	.name = "RDMA send",
	.cancel = cancel,
	.leave = leave,
};

static int gather(struct verbs_queue *q, const struct sending *s,
		  struct verbs_wr *w)
{
	struct weir_operand operand = operand_of(s);
	struct cursor c;
	struct ibv_sge *sge;
	int err = 0;

	if (!s->len)
		return 0;
	cursor_init(&c, &operand, OPERAND_SRC, s->len);
	while (c.left && !err) {
		sge = &w->sge[w->send.num_sge++];
		sge->addr = c.addr;
		sge->length = (uint32_t)c.len;
		sge->lkey = 0;
		if (!s->inlined)
			err = verbs_buf_lkey(q, c.buf, &sge->lkey);
		cursor_advance(&c, c.len);
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
		end(op, err, 0);
		return;
	}
	w->len = 0;
	verbs_take(q)->op = op;
	s->tail = q->tail;
}

static bool may_go(const struct verbs_queue *q, struct weir_op *op)
{
	return op && verbs_has_place(q) &&
	       (!q->writers || verbs_job(q->writers)->ticket >
			       sending_of(op)->ticket);
}

/* Of a run only the last is signalled, as of a run of a job's. */
bool verbs_send_run(struct verbs_queue *q)
{
	uint64_t before = q->tail;

	while (may_go(q, q->sends.first) && q->tail - before < VERBS_RUN)
		build(q, op_queue_pop(&q->sends));
	if (q->tail == before)
		return false;
	verbs_at(q, q->tail - 1)->send.send_flags |= IBV_SEND_SIGNALED;
	return true;
}

void verbs_send_give_up(struct verbs_queue *q)
{
	struct weir_op *op;

	while ((op = op_queue_pop(&q->sends)))
		end(op, -ECANCELED, IBV_WC_WR_FLUSH_ERR);
}

static void on_turn_end(struct weir_op *op, int64_t res)
{
	struct verbs_queue *q = weir_container_of(op, struct verbs_queue,
						  turn_end);

	(void)res;
	verbs_pump(q);
	verbs_post(q);
}

void verbs_sends_init(struct verbs_queue *q)
{
	op_queue_init(&q->sends);
	weir_op_init(&q->turn_end, on_turn_end);
}

/* Callbacks come in order: the turn ends before any of the messages that were
 * sent in it does, and so before the queue can go. */
static void send_soon(struct verbs_queue *q)
{
	static const struct weir_op_class cls = { .name = "RDMA sends" };

	if (weir_op_is_busy(&q->turn_end))
		return;
	op_enlist(q->conn->r, &q->turn_end, &cls);
	op_complete(&q->turn_end, 0);
	verbs_pump(q);
	verbs_post(q);
}

/* What it says of itself. */
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
	uint32_t lkey;
	int err = 0;

	for (; buf && !err; buf = buf->next)
		err = verbs_buf_lkey(c->queue, buf, &lkey);
	return err != -ENOENT ?
		       err :
		       why(-EXDEV,
			   "weir_message_send: the bufs are not of mmaps that "
			   "have device %s",
			   c->device_ref->device->name);
}

/* Of the bufs: how many bytes they have, and whether the device knows them. */
static int check_bufs(const struct weir_conn *c, struct sending *s)
{
	struct weir_operand operand = weir_operand_buf(s->buf);
	struct operand_info info;
	int err = operand_check(&operand, OPERAND_SRC, c->r, &info);

	if (err)
		return why(err, "weir_message_send: the bufs cannot be used "
			   "now");
	if (!verbs_is_local(info.domain))
		return why(-EXDEV, "weir_message_send: the bufs are not memory "
			   "of this machine");
	if (info.total > c->max_message || info.n_pieces > c->max_sge)
		return why(-EMSGSIZE, "weir_message_send: %llu bytes in %u "
			   "pieces; at most %u in %u are sent",
			   (unsigned long long)info.total, info.n_pieces,
			   c->max_message, c->max_sge);
	s->len = info.total;
	s->inlined = s->len <= c->max_inline && domain_is_memory(info.domain);
	return s->inlined ? 0 : check_keys(c, s->buf);
}

static int check_all(struct weir_conn *c, const struct weir_message *m,
		     struct sending *s)
{
	int err = check_message(c, m);

	if (err)
		return err;
	if (c->state != WEIR_CONN_ESTABLISHED)
		return why(-ENOTCONN, "weir_message_send: there is no "
			   "connection");
	*s = (struct sending){
		.conn = c,
		.buf = m->buf,
		.data = m->data,
		.len = m->len,
		.flags = m->flags,
		.number = m->flags & WEIR_MESSAGE_IMM ? m->imm : m->rkey,
		.inlined = true,
	};
	return m->buf ? check_bufs(c, s) : 0;
}

int weir_message_send(struct weir_conn *c, struct weir_op *op,
		      const struct weir_message *m)
{
	struct verbs_queue *q = c->queue;
	struct weir_operand operand;
	struct sending s;
	int err = check_all(c, m, &s);

	if (!err)
		err = op_begin(c->r, op, &send_class);
	if (err)
		return op_admitted(err);
	operand = operand_of(&s);
	if (s.buf)
		operand_hold(&operand, OPERAND_SRC, c->r);
	op->flags |= OP_LEAVES;
	s.ticket = q->tickets++;
	*sending_of(op) = s;
	c->posted++;
	op_queue_push(&q->sends, op);
	send_soon(q);
	return 0;
}
