/* SPDX-License-Identifier: BSD-3-Clause */
/* The contents of a submission entry, by kind of operation. */

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <weir/file.h>
#include <weir/socket.h>
#include <weir/watch.h>

#include "reactor/io.h"
#include "reactor/uring/uring.h"

_Static_assert(sizeof(struct msghdr) <= sizeof(((struct weir_op *)0)->backend),
	       "the header of a sendmsg has to live in the op");

/* Without WEIR_PRI, for which there is a set: see source.c. */
uint32_t uring_poll_bits(uint32_t events)
{
	return (events & WEIR_READABLE ? POLLIN : 0u) |
	       (events & WEIR_WRITABLE ? POLLOUT : 0u) |
	       (events & WEIR_RDHUP ? POLLRDHUP : 0u);
}

uint32_t uring_weir_bits(uint32_t bits)
{
	return (bits & POLLIN ? WEIR_READABLE : 0u) |
	       (bits & POLLOUT ? WEIR_WRITABLE : 0u) |
	       (bits & POLLRDHUP ? WEIR_RDHUP : 0u) |
	       (bits & POLLHUP ? WEIR_HANGUP : 0u) |
	       (bits & (POLLERR | POLLNVAL) ? WEIR_ERROR : 0u);
}

void uring_fill_poll(struct io_uring_sqe *sqe, int fd, uint32_t bits)
{
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

/* The message header takes .backend of @op, which is then not
 * timed. */
static void fill_sending(struct io_uring_sqe *sqe, struct weir_op *op,
			 const struct io_step *step, uint32_t flags)
{
	struct msghdr *msg = (struct msghdr *)(void *)op->backend;

	sqe->msg_flags = flags;
	if (step->n) {
		op->flags &= (uint8_t)~OP_TIMED;
		*msg = (struct msghdr){
			.msg_iov = (struct iovec *)(uintptr_t)step->iov,
			.msg_iovlen = step->n,
		};
		sqe->opcode = IORING_OP_SENDMSG;
		sqe->addr = (uintptr_t)msg;
		sqe->len = 1;
		return;
	}
	sqe->opcode = IORING_OP_SEND;
	sqe->addr = (uintptr_t)step->addr;
	sqe->len = (uint32_t)step->len;
}

/*
 * Whether to send instead of write: @op writes to a socket, and this kernel has
 * no write without SIGPIPE.  A write at an offset is to no socket, and none takes
 * what has to be atomic, or not to be cached: the kernel refuses that.
 */
static bool must_be_sent(const struct uring *u, const struct weir_op *op)
{
	struct stat st;

	if (likely(u->nosignal ||
		   (op->u.io.off && op->u.io.off != WEIR_OFF_STREAM) ||
		   op->u.io.flags & (WEIR_RW_ATOMIC | WEIR_RW_DONTCACHE)))
		return false;
	return !fstat(op->u.io.fd, &st) && S_ISSOCK(st.st_mode);
}

static void fill_rw(const struct uring *u, struct io_uring_sqe *sqe,
		    struct weir_op *op)
{
	bool out = op->kind == IO_WRITE || op->kind == IO_WRITEV;
	struct io_step step;

	io_step_next(op, &step);
	fill_fd(u, sqe, op->u.io.fd);
	if (out && must_be_sent(u, op)) {
		fill_sending(sqe, op, &step, MSG_NOSIGNAL |
			     (op->u.io.flags & WEIR_RW_NOWAIT ?
			      (uint32_t)MSG_DONTWAIT : 0));
		return;
	}
	sqe->off = step.off;
	if (out)
		sqe->rw_flags = u->nosignal;
	if (unlikely(op->u.io.flags)) {
		sqe->rw_flags |= (int)io_rw_flags(op);
		sqe->ioprio = (uint16_t)(op->u.io.flags >> IO_RW_PRIO_SHIFT);
	}
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

/*
 * Never with MSG_WAITALL: after some tries the kernel would give the rest to a
 * thread of its own.  After a short one io.c makes the next request.
 */
static void fill_recv(const struct uring *u, struct io_uring_sqe *sqe,
		      struct weir_op *op)
{
	struct io_step step;

	io_step_next(op, &step);
	fill_fd(u, sqe, op->u.io.fd);
	sqe->opcode = IORING_OP_RECV;
	sqe->addr = (uintptr_t)step.addr;
	sqe->len = (uint32_t)step.len;
}

static inline uint32_t send_flags(const struct weir_op *op)
{
	return MSG_NOSIGNAL | (op->u.io.flags & IO_SENDMSG_FLAGS);
}

static void fill_send(const struct uring *u, struct io_uring_sqe *sqe,
		      struct weir_op *op)
{
	struct io_step step;

	io_step_next(op, &step);
	fill_fd(u, sqe, op->u.io.fd);
	fill_sending(sqe, op, &step, send_flags(op));
	if (unlikely(op->u.io.flags & WEIR_SOCK_ZEROCOPY) && u->has_send_zc &&
	    op->kind == IO_SEND) {
		sqe->opcode = IORING_OP_SEND_ZC;
		sqe->ioprio = u->zc_flags;
	}
}

static void fill_msg(const struct uring *u, struct io_uring_sqe *sqe,
		     struct weir_op *op)
{
	bool out = op->kind == IO_SENDMSG;

	fill_fd(u, sqe, op->u.io.fd);
	sqe->opcode = out ? IORING_OP_SENDMSG : IORING_OP_RECVMSG;
	sqe->addr = op->u.io.addr;
	sqe->len = 1;
	sqe->msg_flags = out ? send_flags(op) :
			       MSG_CMSG_CLOEXEC | op->u.io.flags;
}

static void fill_fsync(const struct uring *u, struct io_uring_sqe *sqe,
		       struct weir_op *op)
{
	fill_fd(u, sqe, op->u.io.fd);
	sqe->opcode = IORING_OP_FSYNC;
	/* A length of 32 bits, and 0 for all that there is: else the whole. */
	if (op->u.io.len && op->u.io.len <= UINT32_MAX) {
		sqe->off = op->u.io.off;
		sqe->len = (uint32_t)op->u.io.len;
	}
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
	struct open_how *how = (struct open_how *)(void *)op->backend;

	(void)u;
	sqe->opcode = IORING_OP_OPENAT;
	sqe->fd = op->u.io.fd;
	sqe->addr = op->u.io.addr;
	if (op->u.io.aux) {
		/* Where the words of a timed operation are. */
		op->flags &= (uint8_t)~OP_TIMED;
		*how = io_how(op);
		sqe->opcode = IORING_OP_OPENAT2;
		sqe->off = (uintptr_t)how;
		sqe->len = sizeof(*how);
		return;
	}
	sqe->len = (uint32_t)op->u.io.len;
	sqe->open_flags = op->u.io.flags | O_CLOEXEC;
}

static void fill_close(const struct uring *u, struct io_uring_sqe *sqe,
		       struct weir_op *op)
{
	(void)u;
	sqe->opcode = IORING_OP_CLOSE;
	sqe->fd = op->u.io.fd;
	/* Or else the kernel waits for the peer in io_uring_enter(2). */
	if (io_lingers(op->u.io.fd))
		sqe->flags |= IOSQE_ASYNC;
}

/* What the kernel has at the same places for all of them. */
static void fill_path(const struct uring *u, struct io_uring_sqe *sqe,
		      struct weir_op *op)
{
	(void)u;
	sqe->opcode = uring_opcodes[op->kind];
	sqe->fd = op->u.io.fd;
	sqe->addr = op->u.io.addr;
	/* The kernel refuses an attribute of this size in any case. */
	sqe->len = op->u.io.len < UINT32_MAX ? (uint32_t)op->u.io.len :
					       UINT32_MAX;
	sqe->off = op->u.io.aux;
	sqe->rw_flags = (int)op->u.io.flags;
}

static void fill_file(const struct uring *u, struct io_uring_sqe *sqe,
		      struct weir_op *op)
{
	fill_path(u, sqe, op);
	fill_fd(u, sqe, op->u.io.fd);
}

static void fill_ftruncate(const struct uring *u, struct io_uring_sqe *sqe,
			   struct weir_op *op)
{
	fill_fd(u, sqe, op->u.io.fd);
	sqe->opcode = IORING_OP_FTRUNCATE_6_9;
	sqe->off = op->u.io.len;
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

void uring_fill_polling(const struct uring *u, struct io_uring_sqe *sqe,
			struct weir_op *op)
{
	reactor_check_thread(u->r);
	uring_fill_poll(sqe, op->u.io.fd,
			URING_BIT(op->kind) & URING_IN_KINDS ? POLLIN : POLLOUT);
	fill_fd(u, sqe, op->u.io.fd);
}

#define fill_nop NULL	/* A zeroed entry is a NOP. */
#define IO_FILL(kind, text, step, opcode, fill, ...) [IO_##kind] = fill_##fill,

uring_fill_fn *const uring_fill[IO_KINDS] = {
	IO_ROWS(IO_FILL)
	[IO_ENTRY] = uring_fill_entry,
};
