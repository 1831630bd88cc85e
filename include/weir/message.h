/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_MESSAGE_H
#define WEIR_MESSAGE_H

/*
 * Messages between the ends of a connection, and signals at the end of writes.
 *
 *	static void on_message(struct weir_conn *c,
 *			       const struct weir_message *m, void *arg)
 *	{
 *		consume(weir_buf_data(m->buf), m->len);
 *		weir_buf_put(m->buf);
 *	}
 *
 *	weir_conn_set_message_fn(c, on_message, arg);
 *
 *	struct weir_message m = { .size = sizeof(m), .data = "hi", .len = 2 };
 *	err = weir_message_send(c, &op, &m);
 *
 * They are received into the bufs of a shared receive queue, .srq of the
 * connection's options: see <weir/srq.h>.  Messages of one connection arrive in
 * the order in which they were sent, each once.
 *
 * A write with immediate data is a job (see <weir/job.h>) with WEIR_JOB_SIGNAL:
 * when its bytes have arrived, the peer's callback gets a message with
 * WEIR_MESSAGE_SIGNAL.
 *
 * Messages and signals arrive in the order of their starts.  When one arrives,
 * all bytes of jobs to the same peer that were started before it have arrived.
 * This holds for direct writes; writes through staging, and reads, may still be
 * in flight.
 *
 * While the connection is established no message is lost or sent twice.
 * Messages that are in flight at its end may have arrived or not.
 *
 * Re-creates ibv_post_send() and ibv_post_srq_recv().
 */

#include <weir/conn.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_buf;

/* Bytes of a message. */
#define WEIR_MESSAGE_MAX (1u << 30)

/* weir_message.flags */
#define WEIR_MESSAGE_IMM 1u	/* It has .imm. */
#define WEIR_MESSAGE_INVALIDATE 2u /* .rkey is not valid any more. */
#define WEIR_MESSAGE_SIGNAL 4u		/* Received: the end of a write. */

/*
 * A message to send, or a received one.  Its bytes are the data of .buf and the
 * bufs after it; for a send with .buf NULL, the .len bytes at .data.
 *
 * .imm is a number of the sender, sent in network order.  With
 * WEIR_MESSAGE_INVALIDATE the receiver's device invalidates one of its own
 * keys, .rkey, which the sender names: that of a memory window of type 2.
 */
struct weir_message {
	size_t size;		/* sizeof(struct weir_message) */
	struct weir_buf *buf;	/* Received: owned by the receiver, which calls
				 * weir_buf_put(); NULL: there are no bytes. */
	const void *data;
	uint64_t len;		/* Received: of a signal, bytes written. */
	uint32_t flags;
	uint32_t imm;
	uint32_t rkey;
	uint32_t reserved;	/* 0 */
};

/*
 * Called for each message that has arrived on @c.  *@m is valid until it
 * returns, .buf until it is put.
 *
 * May destroy @c and any other object.  Runs from the loop.
 */
typedef void weir_message_fn(struct weir_conn *c, const struct weir_message *m,
			     void *arg);

/*
 * Set @fn, which is called with @arg for each message that arrives on @c.
 *
 * NULL removes the callback.  The call is allowed in any state.  Messages that
 * arrive before it, or before the connection is established, wait, up to .recvs
 * of the connection's options.  One more ends the connection with -ENOBUFS, so
 * that a peer without a receiver does not take the buffers of others; neither
 * it nor any that follows is delivered.  The
 * callback of weir_conn_connect() or weir_conn_accept() runs before the first
 * message; messages that arrived before the connection ends are delivered
 * before the end is reported.  @fn stays set for the next connection.
 *
 * A message that is larger than the buffer ends the connection at both ends:
 * here with -EMSGSIZE, or with -EIO if the device does not report the reason
 * (soft-RoCE).
 *
 * Returns 0, or
 *   -EBADFD      @c was created without .srq
 *
 * Call on the connection's reactor.  Never blocks.
 */
WEIR_API int weir_conn_set_message_fn(struct weir_conn *c, weir_message_fn *fn,
				      void *arg);

/*
 * Send *@m, which is copied, to the peer of @c.
 *
 * Up to .max_inline bytes (see weir_conn_info()) may be anywhere in this
 * process; more must be bufs of mmaps that have the connection's device.  The
 * library holds references to the bufs until the callback; .data must stay
 * valid until then.  A message may be empty.
 *
 * The first message of the reactor's turn is posted at once; those that follow
 * are posted together at the end of the turn.  If the send queue is full, they
 * wait for capacity.
 *
 * Completes with the bytes sent, when the peer's device has them, or
 *   -ECANCELED, -ETIMEDOUT  it was cancelled, or its deadline passed, before it
 *                           was posted, and it was not sent; a posted message
 *                           continues to its end
 *   -ETIMEDOUT   the peer does not answer, or has posted no receive for as long
 *                as .rnr_retries wait
 *   -EPROTO, -EREMOTEIO  it is larger than the peer's buffer
 *   -ECANCELED   the connection has ended
 *   -EFAULT, -EIO and others  the device has failed
 * and after all but the first the connection ends.  The code of the detail is
 * the device's own status.
 *
 * Returns 0, or
 *   -ENOTCONN    @c is not established
 *   -EINVAL      @m: .size is too small, a flag is unknown, .reserved is not 0,
 *                WEIR_MESSAGE_IMM with WEIR_MESSAGE_INVALIDATE, or .buf with
 *                .data; or @op is in flight
 *   -EMSGSIZE    more than WEIR_MESSAGE_MAX bytes, or than the device's port
 *                supports; or more pieces than .max_sge; or .data has more than
 *                .max_inline bytes
 *   -EXDEV       the bufs are not of mmaps that have the device
 *   -EPERM, -EBUSY, -ESTALE  for the bufs, see weir_job_start()
 *   -ENOMEM, -EFAULT, ...  the mmap, which is registered at the first send,
 *                cannot be registered: see weir_mmap_keys()
 *   -EAGAIN, -ESHUTDOWN  see <weir/op.h>
 *
 * Call on the connection's reactor.  Never blocks; allocates only to register
 * an mmap.
 *
 * Re-creates ibv_post_send() of IBV_WR_SEND, IBV_WR_SEND_WITH_IMM and
 * IBV_WR_SEND_WITH_INV.
 */
WEIR_API int weir_message_send(struct weir_conn *c, struct weir_op *op,
			       const struct weir_message *m);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_MESSAGE_H */
