/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What I/O operations share: ownership of buffers, steps and short transfers,
 * start, cancel, end.
 */

#include <limits.h>
#include <linux/stat.h>
#include <stdio.h>
#include <sys/socket.h>

#include <weir/file.h>
#include <weir/socket.h>

#include "base/own.h"
#include "base/why.h"
#include "reactor/io.h"

/* The memory of I/O operations, which the library owns from start to end. */

#ifdef OWN_ANNOTATE

typedef void piece_fn(const void *p, size_t len, size_t filled);

static void release_in(const void *p, size_t len, size_t filled)
{
	(void)filled;
	own_release_in(p, len);
}

static void release_again(const void *p, size_t len, size_t filled)
{
	(void)filled;
	own_unuse(p, len);
}

static void each_piece(const struct iovec *iov, size_t n, piece_fn *fn)
{
	for (size_t i = 0; i < n; i++)
		fn(iov[i].iov_base, iov[i].iov_len, iov[i].iov_len);
}

/* The memory that the kernel writes; @fn annotates it. */
static void inward(const struct weir_op *op, piece_fn *fn)
{
	const void *addr = (const void *)(uintptr_t)op->u.io.addr;
	const struct msghdr *msg = addr;
	size_t len = op->u.io.len;

	switch (op->kind) {
	case IO_READ:
	case IO_RECV:
		fn(addr, len, len);
		break;
	case IO_READV:
		each_piece(addr, len, fn);
		break;
	case IO_RECVMSG:
		each_piece(msg->msg_iov, msg->msg_iovlen, fn);
		break;
	case IO_READLINK:
	case IO_READDIR:
	case IO_XATTR_GET:
	case IO_XATTR_LIST:
		fn((const void *)(uintptr_t)op->u.io.aux, len, len);
		break;
	case IO_STATX:
		fn((const void *)(uintptr_t)op->u.io.aux, sizeof(struct statx),
		   sizeof(struct statx));
		break;
	default:
		break;
	}
}

typedef uint32_t sum_fn(const void *p, size_t len, uint32_t sum);

static uint32_t sum_pieces(const struct iovec *iov, size_t n, sum_fn *fn)
{
	uint32_t sum = 0;

	for (size_t i = 0; i < n; i++)
		sum = fn(iov[i].iov_base, iov[i].iov_len, sum);
	return sum;
}

static bool may_change(const struct weir_op *op)
{
	return op->kind >= IO_SEND && op->kind <= IO_SENDMSG &&
	       op->u.io.flags & WEIR_SOCK_VOLATILE;
}

/*
 * What the kernel reads from; @fn lends or takes it.  Returns the sum of it,
 * or 0 if it may change.
 */
static uint32_t outward(const struct weir_op *op, sum_fn *fn)
{
	const void *addr = (const void *)(uintptr_t)op->u.io.addr;
	const struct msghdr *msg = addr;
	size_t len = op->u.io.len;
	uint32_t sum = 0;

	switch (op->kind) {
	case IO_WRITE:
	case IO_SEND:
		sum = fn(addr, len, 0);
		break;
	case IO_XATTR_SET:
		sum = fn((const void *)(uintptr_t)op->u.io.aux, len, 0);
		break;
	case IO_WRITEV:
	case IO_SENDV:
		sum = sum_pieces(addr, len, fn);
		break;
	case IO_SENDMSG:
		sum = sum_pieces(msg->msg_iov, msg->msg_iovlen, fn);
		break;
	default:
		break;
	}
	return may_change(op) ? 0 : sum;
}

/* Until it ends, the bytes of its detail are the sum of what it sends. */
void io_release_received(struct weir_op *op)
{
	op->detail.bytes = outward(op, own_release_out);
	inward(op, release_in);
	own_release(op);
}

void io_release_again_received(struct weir_op *op)
{
	inward(op, release_again);
}

void io_acquire_received(struct weir_op *op)
{
	own_acquire(op);
	inward(op, own_acquire_in);
	if (outward(op, own_acquire_out) != op->detail.bytes)
		own_was_changed();
}

#else
typedef int io_own_is_empty; /* ISO C requires a declaration in each file. */
#endif /* OWN_ANNOTATE */

/* Transfers that the kernel cuts short are continued here, step by step. */

int64_t io_iov_total(const struct iovec *iov, uint32_t n, int kind)
{
	uint64_t sum = 0;

	if (n > IOV_MAX)
		return why(-EMSGSIZE, "weir_%s: %u pieces, of at most %d",
			   io_classes[kind].name, n, IOV_MAX);
	if (n && !iov)
		return io_invalid(kind, "the iovec is NULL");
	for (uint32_t i = 0; i < n; i++) {
		if (iov[i].iov_len > INT64_MAX - sum ||
		    (iov[i].iov_len && !iov[i].iov_base))
			return io_invalid(kind, "an iovec has bytes and no "
					  "address, or all are too long");
		sum += iov[i].iov_len;
	}
	return (int64_t)sum;
}

static const struct iovec *io_vec(const struct weir_op *op)
{
	return (const struct iovec *)(uintptr_t)op->u.io.addr;
}

static bool is_vector(const struct weir_op *op)
{
	return op->kind == IO_READV || op->kind == IO_WRITEV ||
	       op->kind == IO_SENDV;
}

static uint64_t total(const struct weir_op *op)
{
	return is_vector(op) ? op->u.io.aux : op->u.io.len;
}

static void one_piece(struct io_step *step, uint64_t addr, uint64_t len)
{
	step->addr = (void *)(uintptr_t)addr;
	step->len = len < IO_STEP_MAX ? len : IO_STEP_MAX;
	step->iov = NULL;
	step->n = 0;
}

/*
 * A vector continues with the rest of the piece where it stopped, alone, and
 * then with the whole pieces after it, so that no iovec is copied or changed.
 */
void io_step_next(const struct weir_op *op, struct io_step *step)
{
	uint64_t done = op->u.io.done;
	const struct iovec *iov;

	step->off = op->u.io.off;
	if (step->off != WEIR_OFF_STREAM)
		step->off += done;
	if (!is_vector(op)) {
		one_piece(step, op->u.io.addr + done, op->u.io.len - done);
		return;
	}

	iov = io_vec(op) + op->u.io.seg;
	if (op->u.io.seg_off) {
		one_piece(step, (uintptr_t)iov->iov_base + op->u.io.seg_off,
			  iov->iov_len - op->u.io.seg_off);
		return;
	}
	step->addr = NULL;
	step->len = 0;
	step->iov = iov;
	step->n = (uint32_t)op->u.io.len - op->u.io.seg;
}

/* Move the place in the iovecs @n bytes on, and to the start of a piece. */
static void advance(struct weir_op *op, uint64_t n)
{
	const struct iovec *iov = io_vec(op);
	uint64_t left;

	n += op->u.io.seg_off;
	while (op->u.io.seg < op->u.io.len) {
		left = iov[op->u.io.seg].iov_len;
		if (n < left)
			break;
		n -= left;
		op->u.io.seg++;
	}
	op->u.io.seg_off = n;
	op->detail.segment = op->u.io.seg;
}

/* Whether a transfer of @op that made @n > 0 bytes is the last. */
static bool is_last(const struct weir_op *op)
{
	if (op->u.io.done >= total(op))
		return true;
	switch (op->kind) {
	case IO_READ:
	case IO_READV:
		return op->u.io.off == WEIR_OFF_STREAM ||
		       op->u.io.flags & IO_RW_SINGLE;
	case IO_WRITE:
	case IO_WRITEV:
		return op->u.io.flags & IO_RW_SINGLE;
	case IO_RECV:
		return !(op->u.io.flags & WEIR_SOCK_ALL);
	default:
		return false;
	}
}

static bool is_transfer(const struct weir_op *op)
{
	switch (op->kind) {
	case IO_READ:
	case IO_WRITE:
	case IO_READV:
	case IO_WRITEV:
	case IO_RECV:
	case IO_SEND:
	case IO_SENDV:
		return true;
	default:
		return false;
	}
}

/* The result of 0 bytes: the end for a read, an error for a write. */
static int64_t end_of(const struct weir_op *op)
{
	switch (op->kind) {
	case IO_WRITE:
	case IO_WRITEV:
	case IO_SEND:
	case IO_SENDV:
		return op->u.io.done < total(op) ? -EIO : (int64_t)total(op);
	default:
		return (int64_t)op->u.io.done;
	}
}

/*
 * Whether the kernel's -EOPNOTSUPP means that this file has no transfers that
 * do not wait.  It says so in two ways, by the call.
 */
static bool cannot_but_wait(const struct weir_op *op)
{
	return io_never_waits(op) &&
	       !(op->u.io.flags & (WEIR_RW_ATOMIC | WEIR_RW_DONTCACHE));
}

bool io_step_account(struct weir_op *op, int64_t *res)
{
	if (unlikely(op->kind == IO_SPLICE))
		return io_splice_account(op, res);
	if (!is_transfer(op)) {
		/* A close is done anyway; a connect continues after EINTR. */
		if (*res == -EINTR && op->kind != IO_CLOSE &&
		    op->kind != IO_CONNECT)
			return false;
		if (*res > 0 && (op->kind == IO_SENDMSG ||
				 op->kind == IO_RECVMSG))
			op->u.io.done = (uint64_t)*res;
		return true;
	}
	if (unlikely(*res < 0)) {
		if (*res == -EOPNOTSUPP && cannot_but_wait(op))
			*res = -EAGAIN;
		return *res != -EINTR;
	}
	if (unlikely(!*res)) {
		*res = end_of(op);
		return true;
	}

	op->u.io.done += (uint64_t)*res;
	if (likely(is_last(op))) {
		*res = (int64_t)op->u.io.done;
		return true;
	}
	if (is_vector(op))
		advance(op, (uint64_t)*res);
	return false;
}

/* Common code of all I/O operations: start, cancel, return, end. */

/* A worker's operation is cancelled in the queue, others by the backend. */
static void io_cancel(struct weir_op *op)
{
	struct weir_reactor *r = op->reactor;

	if (op->flags & OP_WORKER) {
		if (worker_cancel(r, op))
			io_end(op, -ECANCELED);
	} else if (!r->backend->cancel(r, op)) {
		op_repeat_cancel(op);
	}
}

/* A worker has done all steps and returned it. */
static void io_returned(struct weir_op *op)
{
	io_end(op, op->res);
}

/* A descriptor half closed is of no use: a close cannot be cancelled. */
#define IO_CLASS(kind, text, ...) \
	[IO_##kind] = { \
		.name = text, \
		.cancel = IO_##kind == IO_CLOSE ? NULL : io_cancel, \
		.returned = io_returned, \
	},

const struct weir_op_class io_classes[IO_KINDS] = {
	IO_ROWS(IO_CLASS)
	IO_WORKER_ROWS(IO_CLASS)
};

void io_launch(struct weir_reactor *r, struct weir_op *op)
{
	reactor_check_thread(r);
	op_enlist(r, op, &io_classes[op->kind]);
	io_release(op);
	if (likely(r->backend->io_kinds & IO_BIT(op->kind)))
		r->backend->submit(r, op);
	else
		worker_submit(r, op);
}

void io_launch_worker(struct weir_reactor *r, struct weir_op *op)
{
	reactor_check_thread(r);
	op_enlist(r, op, &io_classes[op->kind]);
	io_release(op);
	worker_submit(r, op);
}

void io_launch_params(struct weir_reactor *r, struct weir_op *op, int kind,
		      const struct io_params *p)
{
	op->kind = (uint8_t)kind;
	op->u.io.fd = p->fd;
	op->u.io.flags = p->flags;
	op->u.io.addr = (uintptr_t)p->addr;
	op->u.io.len = p->len;
	op->u.io.off = p->off;
	op->u.io.aux = p->aux;
	op->u.io.done = 0;
	io_launch(r, op);
}

int io_start(struct weir_reactor *r, struct weir_op *op, int kind,
	     struct io_params p)
{
	int err = op_admit(r, op);

	if (unlikely(err))
		return io_refused(err, op, kind);
	io_launch_params(r, op, kind, &p);
	return 0;
}

int io_refused(int err, const struct weir_op *op, int kind)
{
	char call[32];

	snprintf(call, sizeof(call), "weir_%s", io_classes[kind].name);
	return op_refused(err, op, call);
}

int io_invalid(int kind, const char *text)
{
	return why(-EINVAL, "weir_%s: %s", io_classes[kind].name, text);
}

int weir_nop(struct weir_reactor *r, struct weir_op *op)
{
	int err = op_admit(r, op);

	if (unlikely(err))
		return io_refused(err, op, IO_NOP);
	op->kind = IO_NOP;
	op->u.io.done = 0;
	op_enlist(r, op, &io_classes[IO_NOP]);
	r->backend->submit(r, op);
	return 0;
}

int weir_work(struct weir_reactor *r, struct weir_op *op,
	      int64_t (*fn)(void *arg), void *arg)
{
	int err;

	if (!fn)
		return io_invalid(IO_WORK, "the function is NULL");
	err = op_admit(r, op);
	if (err)
		return io_refused(err, op, IO_WORK);
	err = worker_ensure(r);
	if (err)
		return why(err, "weir_work: no worker can be made: %s",
			   strerror(-err));
	op->kind = IO_WORK;
	op->u.io.addr = (uintptr_t)fn;
	op->u.io.aux = (uintptr_t)arg;
	op->u.io.done = 0;
	io_launch(r, op);
	return 0;
}
