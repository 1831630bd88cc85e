/* SPDX-License-Identifier: CC0-1.0 */
/* Replies: their headers, and many of them in one batch. */
#include "weir-nbd.h"

static uint8_t *simple(uint8_t *p, const struct request *rq)
{
	p = put32(p, NBD_SIMPLE_REPLY_MAGIC);
	p = put32(p, rq->error);
	return put64(p, rq->cookie);
}

static uint8_t *chunk(uint8_t *p, const struct request *rq, unsigned int type,
		      bool last, uint32_t len)
{
	p = put32(p, NBD_STRUCTURED_REPLY_MAGIC);
	p = put16(p, last ? NBD_REPLY_FLAG_DONE : 0);
	p = put16(p, type);
	p = put64(p, rq->cookie);
	return put32(p, len);
}

/* A read of which a part was sent tells where it went wrong. */
static uint8_t *error_chunk(uint8_t *p, const struct request *rq)
{
	bool where = rq->type == NBD_CMD_READ && rq->done;

	p = chunk(p, rq, where ? NBD_REPLY_TYPE_ERROR_OFFSET :
				 NBD_REPLY_TYPE_ERROR, true, where ? 14 : 6);
	p = put32(p, rq->error);
	p = put16(p, 0);
	return where ? put64(p, rq->off + rq->done) : p;
}

static bool is_last(const struct request *rq)
{
	return rq->type != NBD_CMD_READ || rq->error ||
	       rq->done + rq->piece == rq->len;
}

static uint8_t *head(uint8_t *p, const struct request *rq)
{
	if (!rq->conn->structured)
		return rq->done && rq->type == NBD_CMD_READ ? p : simple(p, rq);
	if (rq->error)
		return error_chunk(p, rq);
	if (rq->type == NBD_CMD_READ) {
		p = chunk(p, rq, NBD_REPLY_TYPE_OFFSET_DATA, is_last(rq),
			  8 + rq->piece);
		return put64(p, rq->off + rq->done);
	}
	if (rq->type == NBD_CMD_BLOCK_STATUS) {
		p = chunk(p, rq, NBD_REPLY_TYPE_BLOCK_STATUS, true,
			  4 + 8 * rq->extents);
		return put32(p, ALLOCATION_ID);
	}
	return simple(p, rq);
}

static uint32_t data_len(const struct request *rq)
{
	if (rq->error)
		return 0;
	if (rq->type == NBD_CMD_READ)
		return rq->piece;
	return rq->type == NBD_CMD_BLOCK_STATUS ? 8 * rq->extents : 0;
}

/* A simple reply that has begun cannot say any more that it went wrong. */
void reply_queue(struct request *rq)
{
	struct conn *c = rq->conn;

	if (rq == c->stream && rq->error) {
		conn_drop(c);
		return;
	}
	rq->head_len = (uint32_t)(head(rq->head, rq) - rq->head);
	rq->next = NULL;
	if (rq == c->stream) {
		c->stream_ready = true;
	} else {
		*c->ready_end = rq;
		c->ready_end = &rq->next;
	}
	conn_flush_later(c);
}

static void add(struct conn *c, struct request *rq)
{
	uint32_t len = data_len(rq);

	if (rq->head_len)
		c->iov[c->n_iov++] = (struct iovec){ rq->head, rq->head_len };
	if (len && !pages_take(c, rq, len))
		c->iov[c->n_iov++] = (struct iovec){ rq->data, len };
	c->n_bytes += len;
	rq->next = c->out;
	c->out = rq;
	/* Nothing may come between the pieces of a simple reply. */
	c->stream = !c->structured && !is_last(rq) ? rq : NULL;
}

/* Send what is ready: all of it, or as much as a patient client can take. */
void reply_flush(struct conn *c)
{
	if (c->stream && !c->stream_ready)
		return;
	c->n_iov = 0;
	c->n_bytes = 0;
	c->stream_ready = false;
	if (c->stream)
		add(c, c->stream);
	while (c->ready && !c->stream && !pages_left(c) &&
	       c->n_bytes < BATCH_BYTES) {
		struct request *rq = c->ready;

		c->ready = rq->next;
		add(c, rq);
	}
	if (!c->ready)
		c->ready_end = &c->ready;
	if (c->n_iov || pages_left(c))
		conn_send(c);
}

void reply_sent(struct conn *c)
{
	struct request *rq = c->out;

	c->out = NULL;
	while (rq) {
		struct request *next = rq->next;

		request_sent(rq);
		rq = next;
	}
	if (c->ready || c->stream_ready)
		conn_flush_later(c);
}
