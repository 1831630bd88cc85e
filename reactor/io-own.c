/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/* The memory of I/O operations, lent at the start and taken at the end. */

#include <linux/stat.h>
#include <sys/socket.h>

#include "base/own.h"
#include "reactor/io.h"

#include <weir/file.h>

#ifdef OWN_ANNOTATE

typedef void piece_fn(const void *p, size_t len, size_t filled);

static void lend_in(const void *p, size_t len, size_t filled)
{
	(void)filled;
	own_lend_in(p, len);
}

static void lend_again(const void *p, size_t len, size_t filled)
{
	(void)filled;
	own_unuse(p, len);
}

static void lend_out(const void *p, size_t len, size_t filled)
{
	(void)filled;
	own_lend_out(p, len);
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

/* What the kernel reads from: it must be there, and defined. */
static void outward(const struct weir_op *op)
{
	const void *addr = (const void *)(uintptr_t)op->u.io.addr;
	const struct msghdr *msg = addr;
	size_t len = op->u.io.len;

	switch (op->kind) {
	case IO_WRITE:
	case IO_SEND:
		own_lend_out(addr, len);
		break;
	case IO_WRITEV:
	case IO_SENDV:
		each_piece(addr, len, lend_out);
		break;
	case IO_SENDMSG:
		each_piece(msg->msg_iov, msg->msg_iovlen, lend_out);
		break;
	default:
		break;
	}
}

void io_lend_heard(struct weir_op *op)
{
	outward(op);
	inward(op, lend_in);
	own_release(op);
}

void io_lend_again_heard(struct weir_op *op)
{
	inward(op, lend_again);
}

void io_take_heard(struct weir_op *op)
{
	own_acquire(op);
	inward(op, own_take);
}

#else
typedef int io_own_is_empty; /* ISO C wants something in a file. */
#endif /* OWN_ANNOTATE */
