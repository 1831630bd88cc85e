/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_MESSAGE_H
#define WEIR_MESSAGE_H

/*
 * Messages between the ends of a connection, and signals that data have landed.
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
 * Received are they into the bufs of a shared receive queue, .srq of the
 * connection's options: see <weir/srq.h>.  Messages of one connection come in
 * the order in which they were sent, each once.
 *
 * A write with immediate data is a job (see <weir/job.h>) with WEIR_JOB_SIGNAL:
 * when its bytes have landed, the peer's callback is called with .signal.
 *
 * What is started first is done first: messages and signals arrive in the order
 * of their starts, and when one does, all bytes of jobs to the same peer that
 * were started before it have landed.  That is so for writes that the device
 * does by itself; those that go through staging, and reads, may still be in
 * flight.
 *
 * Nothing is lost while the connection stands, and nothing is sent twice; what
 * was in flight when it ends may have arrived or not.
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
#define WEIR_MESSAGE_IMM 1u	/* .imm comes with it. */
#define WEIR_MESSAGE_INVALIDATE 2u /* .rkey is not valid any more. */
#define WEIR_MESSAGE_SIGNAL 4u		/* Received: of a write's end. */

/*
 * A message, to be sent or received.  Its bytes are the data of .buf and the
 * bufs after it; to be sent, with .buf NULL, the .len bytes at .data.
 *
 * .imm is a number of the sender's, which goes in network order.  With
 * WEIR_MESSAGE_INVALIDATE the receiver's device takes back one of its own keys,
 * which the sender names: that of a memory window of type 2.
 */
struct weir_message {
	size_t size;		/* sizeof(struct weir_message) */
	struct weir_buf *buf;	/* Received: the receiver's, to be given back by
				 * weir_buf_put(); NULL: there are no bytes. */
	const void *data;
	uint64_t len;		/* Received: of a signal, what was written. */
	uint32_t flags;
	uint32_t imm;
	uint32_t rkey;
	uint32_t reserved;	/* 0 */
};

/*
 * Called for each message that has come on @c; *@m is there until it returns,
 * .buf until it is put.
 *
 * May destroy @c, and whatever else.  Runs from the loop.
 */
typedef void weir_message_fn(struct weir_conn *c, const struct weir_message *m,
			     void *arg);

/*
 * Have @fn called with @arg for messages that come on @c.  NULL: no callback.
 *
 * In any state; those that come before it is set, or before the connection
 * stands, wait, up to .recvs of the connection's options: the next one ends it,
 * -ENOBUFS, so that a peer whose messages are not taken does not keep the
 * buffers from others.  The callback of weir_conn_connect() or
 * weir_conn_accept() comes before the first message, and what has arrived
 * before the connection ends is told before that is.  It stays for the next
 * connection.
 *
 * A message that is larger than the buffer ends the connection at both ends:
 * here with -EMSGSIZE if the device tells why, -EIO if it does not, as
 * soft-RoCE.
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
 * Up to .max_inline bytes (see weir_conn_info()) may lie anywhere in this
 * process; more must be bufs of mmaps which have the connection's device.  Bufs
 * are referenced until the callback, and so must .data stay.  No bytes at all
 * are a message, too.
 *
 * The first message of the reactor's turn is posted at once; those that follow
 * it go together when the turn ends, and share its cost.  If the send queue is
 * full, they wait for capacity.
 *
 * Completes with the bytes sent, when the peer's device has them, or
 *   -ECANCELED, -ETIMEDOUT  cancelled, or the deadline, before it was posted:
 *                           it was not sent; what is posted goes on to its end
 *   -ETIMEDOUT   the peer does not answer, or has had no receive posted for as
 *                long as .rnr_retries wait
 *   -EPROTO, -EREMOTEIO  it is larger than the peer's buffer
 *   -ECANCELED   the connection has ended
 *   -EFAULT, -EIO and others  the device could not
 * and after all but the first the connection ends.  The code of the detail is
 * the device's own status.
 *
 * Returns 0, or
 *   -ENOTCONN    @c is not established
 *   -EINVAL      @m: .size is too small, a flag or .reserved is unknown,
 *                WEIR_MESSAGE_IMM with WEIR_MESSAGE_INVALIDATE, or .buf with
 *                .data; or @op is in flight
 *   -EMSGSIZE    more than WEIR_MESSAGE_MAX bytes, or than the device's port
 *                takes; or more pieces than .max_sge; or .data has more than
 *                .max_inline bytes
 *   -EXDEV       the bufs are not of mmaps that have the device
 *   -EPERM, -EBUSY, -ESTALE  of the bufs, see weir_job_start()
 *   -ENOMEM, -EFAULT, ...  their mmap, which is registered when it is first
 *                sent from, cannot be: see weir_mmap_keys()
 *   -EAGAIN, -ESHUTDOWN  see <weir/op.h>
 *
 * Call on the connection's reactor.  Never blocks, never allocates but for
 * that.
 *
 * Re-creates ibv_post_send() of IBV_WR_SEND, _SEND_WITH_IMM and _SEND_WITH_INV.
 */
WEIR_API int weir_message_send(struct weir_conn *c, struct weir_op *op,
			       const struct weir_message *m);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_MESSAGE_H */
