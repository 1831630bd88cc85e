/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of I/O operations, lent at the start and taken at the end. */

#include <linux/stat.h>
#include <sys/socket.h>

#include "base/own.h"
#include "reactor/io.h"

#include <weir/file.h>
#include <weir/socket.h>

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

/* What the kernel writes to; @fn lends or takes it. */
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
typedef int io_own_is_empty; /* ISO C wants something in a file. */
#endif /* OWN_ANNOTATE */
