/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/*
 * Operations on the ring: one submission entry per step, a table that fills it
 * by kind, and what is done with its completion.
 *
 * The ring reports -EAGAIN for a descriptor that is in non-blocking mode.  Our
 * callers mean "when it is possible", so such an operation becomes a poll, and
 * itself again when that has fired: OP_POLLING.
 */

#include <poll.h>
#include <sys/socket.h>

#include <weir/file.h>
#include <weir/socket.h>
#include <weir/watch.h>

#include "reactor/io.h"
#include "reactor/op-inline.h"
#include "reactor/uring.h"

#define BIT(kind) (UINT32_C(1) << (kind))

_Static_assert(IO_KINDS <= 32, "a kind is a bit");
_Static_assert(sizeof(struct msghdr) <= sizeof(((struct weir_op *)0)->reserved),
	       "the header of a sendmsg has to live in the op");

/* What waits for a descriptor to become readable, or writable. */
#define IN_KINDS                                                          \
	(BIT(IO_READ) | BIT(IO_READV) | BIT(IO_ACCEPT) | BIT(IO_RECV) |   \
	 BIT(IO_RECVMSG))
#define OUT_KINDS                                                         \
	(BIT(IO_WRITE) | BIT(IO_WRITEV) | BIT(IO_SEND) | BIT(IO_SENDV) |  \
	 BIT(IO_SENDMSG))

uint32_t uring_poll_bits(uint32_t events)
{
	return (events & WEIR_READABLE ? POLLIN : 0u) |
	       (events & WEIR_WRITABLE ? POLLOUT : 0u);
}

uint32_t uring_weir_bits(uint32_t bits)
{
	return (bits & POLLIN ? WEIR_READABLE : 0u) |
	       (bits & POLLOUT ? WEIR_WRITABLE : 0u) |
	       (bits & POLLHUP ? WEIR_HANGUP : 0u) |
	       (bits & (POLLERR | POLLNVAL) ? WEIR_ERROR : 0u);
}

void uring_fill_poll(struct io_uring_sqe *sqe, int fd, uint32_t bits)
{
	memset(sqe, 0, sizeof(*sqe));
	io_uring_prep_poll_add(sqe, fd, bits);
}

/* A registered file's index is its descriptor. */
static inline void fill_fd(const struct uring *u, struct io_uring_sqe *sqe,
			   int fd)
{
	sqe->fd = fd;
	if (unlikely((uint32_t)fd < u->files_top) && u->files[fd])
		sqe->flags = IOSQE_FIXED_FILE;
}

static void fill_rw(const struct uring *u, struct io_uring_sqe *sqe,
		    struct weir_op *op)
{
	bool out = op->kind == IO_WRITE || op->kind == IO_WRITEV;
	struct io_step step;

	io_step_next(op, &step);
	fill_fd(u, sqe, op->u.io.fd);
	sqe->off = step.off;
	if (step.n) {
		sqe->opcode = out ? IORING_OP_WRITEV : IORING_OP_READV;
		sqe->addr = (uintptr_t)step.iov;
		sqe->len = step.n;
		return;
	}
	sqe->addr = (uintptr_t)step.addr;
	sqe->len = (uint32_t)step.len;
	if (op->u.io.buf_index > 0) {
		sqe->opcode = out ? IORING_OP_WRITE_FIXED :
				    IORING_OP_READ_FIXED;
		sqe->buf_index = (uint16_t)(op->u.io.buf_index - 1);
	} else {
		sqe->opcode = out ? IORING_OP_WRITE : IORING_OP_READ;
	}
}

static void fill_recv(const struct uring *u, struct io_uring_sqe *sqe,
		      struct weir_op *op)
{
	struct io_step step;

	io_step_next(op, &step);
	fill_fd(u, sqe, op->u.io.fd);
	sqe->opcode = IORING_OP_RECV;
	sqe->addr = (uintptr_t)step.addr;
	sqe->len = (uint32_t)step.len;
	if (op->u.io.flags & WEIR_SOCK_ALL)
		sqe->msg_flags = MSG_WAITALL;
}

static inline uint32_t send_flags(const struct weir_op *op)
{
	return MSG_NOSIGNAL |
	       (op->u.io.flags & WEIR_SOCK_MORE ? (uint32_t)MSG_MORE : 0);
}

/* MSG_WAITALL: the kernel goes on after a short send, where it knows how. */
static void fill_send(const struct uring *u, struct io_uring_sqe *sqe,
		      struct weir_op *op)
{
	struct io_step step;

	io_step_next(op, &step);
	fill_fd(u, sqe, op->u.io.fd);
	sqe->msg_flags = send_flags(op) | MSG_WAITALL;
	if (step.n) {
		struct msghdr *msg = (struct msghdr *)(void *)op->reserved;

		*msg = (struct msghdr){
			.msg_iov = (struct iovec *)(uintptr_t)step.iov,
			.msg_iovlen = step.n,
		};
		sqe->opcode = IORING_OP_SENDMSG;
		sqe->addr = (uintptr_t)msg;
		sqe->len = 1;
		return;
	}
	sqe->opcode = IORING_OP_SEND;
	if (unlikely(op->u.io.flags & WEIR_SOCK_ZEROCOPY) && u->has_send_zc &&
	    op->kind == IO_SEND)
		sqe->opcode = IORING_OP_SEND_ZC;
	sqe->addr = (uintptr_t)step.addr;
	sqe->len = (uint32_t)step.len;
}

static void fill_msg(const struct uring *u, struct io_uring_sqe *sqe,
		     struct weir_op *op)
{
	bool out = op->kind == IO_SENDMSG;

	fill_fd(u, sqe, op->u.io.fd);
	sqe->opcode = out ? IORING_OP_SENDMSG : IORING_OP_RECVMSG;
	sqe->addr = op->u.io.addr;
	sqe->len = 1;
	sqe->msg_flags = out ? send_flags(op) : (uint32_t)MSG_CMSG_CLOEXEC;
}

static void fill_fsync(const struct uring *u, struct io_uring_sqe *sqe,
		       struct weir_op *op)
{
	fill_fd(u, sqe, op->u.io.fd);
	sqe->opcode = IORING_OP_FSYNC;
	if (op->u.io.flags & WEIR_FSYNC_DATA)
		sqe->fsync_flags = IORING_FSYNC_DATASYNC;
}

static void fill_fallocate(const struct uring *u, struct io_uring_sqe *sqe,
			   struct weir_op *op)
{
	fill_fd(u, sqe, op->u.io.fd);
	sqe->opcode = IORING_OP_FALLOCATE;
	sqe->off = op->u.io.off;
	sqe->addr = op->u.io.len;
	sqe->len = op->u.io.flags;
}

static void fill_open(const struct uring *u, struct io_uring_sqe *sqe,
		      struct weir_op *op)
{
	(void)u;
	sqe->opcode = IORING_OP_OPENAT;
	sqe->fd = op->u.io.fd;
	sqe->addr = op->u.io.addr;
	sqe->len = (uint32_t)op->u.io.len;
	sqe->open_flags = op->u.io.flags | O_CLOEXEC;
}

static void fill_close(const struct uring *u, struct io_uring_sqe *sqe,
		       struct weir_op *op)
{
	(void)u;
	sqe->opcode = IORING_OP_CLOSE;
	sqe->fd = op->u.io.fd;
}

static void fill_statx(const struct uring *u, struct io_uring_sqe *sqe,
		       struct weir_op *op)
{
	(void)u;
	sqe->opcode = IORING_OP_STATX;
	sqe->fd = op->u.io.fd;
	sqe->addr = op->u.io.addr;
	sqe->len = (uint32_t)op->u.io.len;
	sqe->off = op->u.io.aux;
	sqe->statx_flags = op->u.io.flags;
}

static void fill_rename(const struct uring *u, struct io_uring_sqe *sqe,
			struct weir_op *op)
{
	(void)u;
	sqe->opcode = IORING_OP_RENAMEAT;
	sqe->fd = op->u.io.fd;
	sqe->addr = op->u.io.addr;
	sqe->len = (uint32_t)op->u.io.fd;
	sqe->off = op->u.io.aux;
	sqe->rename_flags = op->u.io.flags;
}

static void fill_unlink(const struct uring *u, struct io_uring_sqe *sqe,
			struct weir_op *op)
{
	(void)u;
	sqe->opcode = IORING_OP_UNLINKAT;
	sqe->fd = op->u.io.fd;
	sqe->addr = op->u.io.addr;
	sqe->unlink_flags = op->u.io.flags;
}

static void fill_accept(const struct uring *u, struct io_uring_sqe *sqe,
			struct weir_op *op)
{
	fill_fd(u, sqe, op->u.io.fd);
	sqe->opcode = IORING_OP_ACCEPT;
	sqe->accept_flags = SOCK_CLOEXEC;
}

static void fill_connect(const struct uring *u, struct io_uring_sqe *sqe,
			 struct weir_op *op)
{
	fill_fd(u, sqe, op->u.io.fd);
	sqe->opcode = IORING_OP_CONNECT;
	sqe->addr = op->u.io.addr;
	sqe->off = op->u.io.len;
}

static void fill_shutdown(const struct uring *u, struct io_uring_sqe *sqe,
			  struct weir_op *op)
{
	fill_fd(u, sqe, op->u.io.fd);
	sqe->opcode = IORING_OP_SHUTDOWN;
	sqe->len = op->u.io.flags;
}

static void fill_poll(const struct uring *u, struct io_uring_sqe *sqe,
		      struct weir_op *op)
{
	uring_fill_poll(sqe, op->u.io.fd, uring_poll_bits(op->u.io.flags));
	fill_fd(u, sqe, op->u.io.fd);
}

static void fill_polling(const struct uring *u, struct io_uring_sqe *sqe,
			 struct weir_op *op)
{
	uring_fill_poll(sqe, op->u.io.fd,
			BIT(op->kind) & IN_KINDS ? POLLIN : POLLOUT);
	fill_fd(u, sqe, op->u.io.fd);
}

/* IO_NOP is not here: it is what a zeroed entry says. */
static void (*const fill[IO_KINDS])(const struct uring *u,
				    struct io_uring_sqe *sqe,
				    struct weir_op *op) = {
	[IO_READ] = fill_rw,
	[IO_WRITE] = fill_rw,
	[IO_READV] = fill_rw,
	[IO_WRITEV] = fill_rw,
	[IO_FSYNC] = fill_fsync,
	[IO_FALLOCATE] = fill_fallocate,
	[IO_OPEN] = fill_open,
	[IO_CLOSE] = fill_close,
	[IO_STATX] = fill_statx,
	[IO_RENAME] = fill_rename,
	[IO_UNLINK] = fill_unlink,
	[IO_ACCEPT] = fill_accept,
	[IO_CONNECT] = fill_connect,
	[IO_RECV] = fill_recv,
	[IO_SEND] = fill_send,
	[IO_SENDV] = fill_send,
	[IO_SENDMSG] = fill_msg,
	[IO_RECVMSG] = fill_msg,
	[IO_SHUTDOWN] = fill_shutdown,
	[IO_POLL] = fill_poll,
};

/* To the kernel, as far as the queue; false if it has no entry. */
static inline bool start(struct uring *u, struct weir_op *op)
{
	struct io_uring_sqe *sqe = uring_sqe(u);

	if (unlikely(!sqe))
		return false;
	u->in_flight++;
	op->flags |= OP_ENGAGED;
	memset(sqe, 0, sizeof(*sqe));
	if (op->kind != IO_NOP) {
		if (unlikely(op->flags & OP_POLLING))
			fill_polling(u, sqe, op);
		else
			fill[op->kind](u, sqe, op);
	}
	sqe->user_data = (uintptr_t)op;
	return true;
}

static inline void start_or_queue(struct uring *u, struct weir_op *op)
{
	if (unlikely(u->in_flight >= u->limit) || unlikely(!start(u, op)))
		op_queue_push(&u->backlog, op);
}

void uring_submit(struct weir_reactor *r, struct weir_op *op)
{
	struct uring *u = uring_of(r);

	if (unlikely(u->unsupported & BIT(op->kind)))
		worker_submit(r, op);
	else
		start_or_queue(u, op);
}

static inline void finish(struct uring *u, struct weir_op *op, int32_t res)
{
	/* Nothing was lent and nothing moved: what is left of an io_end(). */
	if (op->kind == IO_NOP) {
		op_complete(op, res);
		return;
	}
	if (op->kind == IO_POLL && res >= 0)
		res = (int32_t)uring_weir_bits((uint32_t)res);
	if (!io_step_done(op, res))
		start_or_queue(u, op);
}

void uring_cancel(struct weir_reactor *r, struct weir_op *op)
{
	struct uring *u = uring_of(r);

	if (!(op->flags & OP_ENGAGED)) {
		op_queue_del(&u->backlog, op);
		op->flags &= (uint8_t)~OP_POLLING;
		finish(u, op, -ECANCELED);
	} else if (!uring_cancel_request(u, (uintptr_t)op)) {
		op_queue_push(&u->cancels, op);
	}
}

/*
 * A wish for zero copy that this socket does not grant, or for which the user
 * has too little locked memory left: what is in flight counts towards it.
 */
static bool zerocopy_refused(const struct weir_op *op, int32_t res)
{
	return op->kind == IO_SEND && op->u.io.flags & WEIR_SOCK_ZEROCOPY &&
	       (res == -EOPNOTSUPP || res == -EINVAL || res == -ENOBUFS ||
		res == -ENOMEM);
}

/*
 * Not the result yet?  After a poll, or an error that is ours to deal with, the
 * operation is to be started again, unless somebody wants its end.
 */
static bool goes_on(struct weir_op *op, int32_t res)
{
	uint32_t bit = BIT(op->kind);

	if (op->flags & OP_POLLING) {
		op->flags &= (uint8_t)~OP_POLLING;
		return res >= 0;
	}
	if (res == -EAGAIN && bit & (IN_KINDS | OUT_KINDS)) {
		op->flags |= OP_POLLING;
		return true;
	}
	if (op->kind == IO_CONNECT && (res == -EINPROGRESS ||
				       res == -EALREADY || res == -EINTR)) {
		op->flags |= OP_POLLING;
		return true;
	}
	if (zerocopy_refused(op, res)) {
		op->u.io.flags &= ~WEIR_SOCK_ZEROCOPY;
		return true;
	}
	return false;
}

__attribute__((noinline)) static void unusual_cqe(struct uring *u,
						  struct weir_op *op,
						  int32_t res)
{
	if (!goes_on(op, res)) {
		finish(u, op, res);
	} else if (op_cancel_wanted(op)) {
		op->flags &= (uint8_t)~OP_POLLING;
		finish(u, op, -ECANCELED);
	} else {
		start_or_queue(u, op);
	}
}

/* The kernel says that @op ended with @res, or half ended; see @flags. */
static inline void op_cqe(struct uring *u, struct weir_op *op, int32_t res,
			  uint32_t flags)
{
	if (unlikely(flags & (IORING_CQE_F_MORE | IORING_CQE_F_NOTIF))) {
		if (flags & IORING_CQE_F_MORE) {
			op->res = res;
			return;
		}
		res = (int32_t)op->res;
	}
	u->in_flight--;
	if (unlikely(op->flags & OP_QUEUED))
		op_queue_del(&u->cancels, op);
	op->flags &= (uint8_t)~OP_ENGAGED;
	if (unlikely(res < 0 || op->flags & OP_POLLING))
		unusual_cqe(u, op, res);
	else
		finish(u, op, res);
}

/*
 * Take in what is there now, at most @max.  What callbacks add meanwhile is for
 * the next time, so this ends; each entry is copied, for they may submit.
 */
unsigned int uring_take(struct uring *u, unsigned int max)
{
	const struct io_uring_cq *cq = &u->ring.cq;
	unsigned int head = *cq->khead;
	unsigned int n = __atomic_load_n(cq->ktail, __ATOMIC_ACQUIRE) - head;
	unsigned int end;

	if (n > max)
		n = max;
	for (end = head + n; head != end; head++) {
		const struct io_uring_cqe *cqe = &cq->cqes[head & cq->ring_mask];
		uint64_t data = cqe->user_data;

		if (likely((data & TAG_MASK) == TAG_OP))
			op_cqe(u, (struct weir_op *)(uintptr_t)data, cqe->res,
			       cqe->flags);
		else
			uring_other_cqe(u, data, cqe->res, cqe->flags);
	}
	if (n)
		__atomic_store_n(cq->khead, end, __ATOMIC_RELEASE);
	return n;
}

void uring_serve_ops(struct uring *u)
{
	struct weir_op *op;

	while ((op = u->cancels.first)) {
		if (!uring_cancel_request(u, (uintptr_t)op))
			return;
		op_queue_del(&u->cancels, op);
	}
	while ((op = u->backlog.first) && u->in_flight < u->limit) {
		if (!start(u, op))
			return;
		op_queue_del(&u->backlog, op);
	}
}
