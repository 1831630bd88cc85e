/* SPDX-License-Identifier: BSD-3-Clause */
/* Transfers that the kernel cuts short are continued here, step by step. */

#include <limits.h>

#include "reactor/io.h"

int64_t io_iov_total(const struct iovec *iov, uint32_t n)
{
	uint64_t sum = 0;

	if (n > IOV_MAX)
		return -EMSGSIZE;
	if (n && !iov)
		return -EINVAL;
	for (uint32_t i = 0; i < n; i++) {
		if (iov[i].iov_len > INT64_MAX - sum ||
		    (iov[i].iov_len && !iov[i].iov_base))
			return -EINVAL;
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
 * A vector goes on with the rest of the piece where it stopped, alone, and then
 * with the whole pieces after it: so no iovec is copied or changed.
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
		return op->u.io.off == WEIR_OFF_STREAM;
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

/* Nothing came: the end of what is read; of what is written, a fault. */
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

bool io_step_account(struct weir_op *op, int64_t *res)
{
	if (unlikely(op->kind == IO_SPLICE))
		return io_splice_account(op, res);
	if (!is_transfer(op)) {
		/* A close is done in any case; a connect goes on by itself. */
		if (*res == -EINTR && op->kind != IO_CLOSE &&
		    op->kind != IO_CONNECT)
			return false;
		if (*res > 0 && (op->kind == IO_SENDMSG ||
				 op->kind == IO_RECVMSG))
			op->u.io.done = (uint64_t)*res;
		return true;
	}
	if (unlikely(*res < 0))
		return *res != -EINTR;
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
