/* SPDX-License-Identifier: BSD-3-Clause */
/* What all I/O operations share: start, cancel, return, end. */

#include "reactor/io.h"

/* Where it is decides who can stop it. */
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

/* From a worker, which has done all its steps. */
static void io_returned(struct weir_op *op)
{
	io_end(op, op->res);
}

#define IO_CLASS(kind, text) \
	[kind] = { .name = text, .cancel = io_cancel, .returned = io_returned }

const struct weir_op_class io_classes[IO_KINDS] = {
	IO_CLASS(IO_NOP, "nop"),
	IO_CLASS(IO_READ, "read"),
	IO_CLASS(IO_WRITE, "write"),
	IO_CLASS(IO_READV, "readv"),
	IO_CLASS(IO_WRITEV, "writev"),
	IO_CLASS(IO_FSYNC, "fsync"),
	IO_CLASS(IO_FALLOCATE, "fallocate"),
	IO_CLASS(IO_OPEN, "open"),
	/* A descriptor half closed is of no use to anybody. */
	[IO_CLOSE] = { .name = "close", .returned = io_returned },
	IO_CLASS(IO_STATX, "statx"),
	IO_CLASS(IO_RENAME, "rename"),
	IO_CLASS(IO_UNLINK, "unlink"),
	IO_CLASS(IO_ACCEPT, "accept"),
	IO_CLASS(IO_CONNECT, "connect"),
	IO_CLASS(IO_RECV, "recv"),
	IO_CLASS(IO_SEND, "send"),
	IO_CLASS(IO_SENDV, "sendv"),
	IO_CLASS(IO_SENDMSG, "sendmsg"),
	IO_CLASS(IO_RECVMSG, "recvmsg"),
	IO_CLASS(IO_SHUTDOWN, "shutdown"),
	IO_CLASS(IO_POLL, "poll"),
	IO_CLASS(IO_SPLICE, "splice"),
	IO_CLASS(IO_COPY_RANGE, "copy_range"),
	IO_CLASS(IO_WORK, "work"),
};

void io_launch(struct weir_reactor *r, struct weir_op *op)
{
	op_enlist(r, op, &io_classes[op->kind]);
	io_release(op);
	if (likely(r->backend->io_kinds & IO_BIT(op->kind)))
		r->backend->submit(r, op);
	else
		worker_submit(r, op);
}

int io_start(struct weir_reactor *r, struct weir_op *op)
{
	int err = op_admit(r, op);

	if (likely(!err))
		io_launch(r, op);
	return op_admitted(err);
}

int weir_nop(struct weir_reactor *r, struct weir_op *op)
{
	int err = op_admit(r, op);

	if (unlikely(err))
		return op_admitted(err);
	op->kind = IO_NOP;
	op->u.io.done = 0;
	op_enlist(r, op, &io_classes[IO_NOP]);
	r->backend->submit(r, op);
	return 0;
}

int weir_work(struct weir_reactor *r, struct weir_op *op,
	      int64_t (*fn)(void *arg), void *arg)
{
	int err = fn ? op_admit(r, op) : -EINVAL;

	if (!err)
		err = worker_ensure(r);
	if (err)
		return op_admitted(err);
	op->kind = IO_WORK;
	op->u.io.addr = (uintptr_t)fn;
	op->u.io.aux = (uintptr_t)arg;
	op->u.io.done = 0;
	io_launch(r, op);
	return 0;
}
