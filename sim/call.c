/* SPDX-License-Identifier: BSD-3-Clause */
/* A step of an operation, when its time has come: as the system call would. */

#include "sim/world.h"

#include <weir/watch.h>

/* The first piece of a vector that is not empty, alone. */
static void take_piece(struct io_step *step)
{
	while (step->n > 1 && !step->iov->iov_len) {
		step->iov++;
		step->n--;
	}
	step->addr = step->iov->iov_base;
	step->len = step->iov->iov_len;
	step->n = 0;
	step->iov = NULL;
}

static void shorten(struct weir_sim *sim, struct sim_fd *f, struct weir_op *op,
		    struct io_step *step)
{
	uint64_t grain = f->cls->grain ? f->cls->grain(f) : 1, most;

	if (step->n)
		take_piece(step);
	most = step->len ? (step->len - 1) / grain : 0;
	if (most && sim_fault(sim, WEIR_SIM_SHORT, sim_io_name(op)))
		step->len = grain * (1 +
			sim_below(&sim->fault_rng[WEIR_SIM_SHORT], most));
}

static int64_t transfer(struct weir_sim *sim, struct sim_fd *f,
			struct weir_op *op, bool in)
{
	int64_t (*fn)(struct sim_fd *f, const struct io_step *step);
	struct io_step step;
	int64_t res;

	fn = in ? f->cls->read : f->cls->write;
	if (!fn)
		return -EINVAL;
	io_step_next(op, &step);
	if (sim->fault_rate[WEIR_SIM_SHORT])
		shorten(sim, f, op, &step);
	/* The device is us: what was lent to it is ours for the moment. */
	io_acquire(op);
	res = fn(f, &step);
	io_release(op);
	return res;
}

int64_t sim_poll_now(struct sim_fd *f, uint32_t wanted)
{
	uint32_t events = f->cls->events ? f->cls->events(f) :
					   WEIR_READABLE | WEIR_WRITABLE;

	events &= wanted | WEIR_HANGUP | WEIR_ERROR;
	return events ? (int64_t)events : SIM_NOT_YET;
}

static int64_t work(const struct weir_op *op)
{
	int64_t (*fn)(void *arg) =
		(int64_t (*)(void *))(uintptr_t)op->u.io.addr;

	return fn((void *)(uintptr_t)op->u.io.aux);
}

static int64_t close_now(struct sim_fd *f)
{
	if (f->fd < 0)
		return -EBADF;
	sim_fd_close(f);
	return 0;
}

static bool wants_socket(const struct weir_op *op)
{
	switch (op->kind) {
	case IO_ACCEPT: case IO_CONNECT: case IO_RECV: case IO_SEND:
	case IO_SENDV: case IO_SENDMSG: case IO_RECVMSG: case IO_SHUTDOWN:
		return true;
	default:
		return false;
	}
}

static int64_t call_fd(struct weir_sim *sim, struct sim_fd *f,
		       struct weir_op *op)
{
	if (!f || (f->fd < 0 && op->kind == IO_CLOSE))
		return -EBADF;
	if (f->dead && op->kind != IO_CLOSE)
		return -EIO;
	if (wants_socket(op) && !f->cls->socket)
		return -ENOTSOCK;
	switch (op->kind) {
	case IO_READ: case IO_READV: case IO_RECV:
		return transfer(sim, f, op, true);
	case IO_WRITE: case IO_WRITEV: case IO_SEND: case IO_SENDV:
		return transfer(sim, f, op, false);
	case IO_CLOSE:
		return close_now(f);
	case IO_POLL:
		return sim_poll_now(f, op->u.io.flags);
	case IO_ACCEPT:
		return f->cls->accept ? f->cls->accept(f) : -EINVAL;
	default:
		return f->cls->call ? f->cls->call(f, op) : -EINVAL;
	}
}

int64_t sim_call(struct weir_sim *sim, struct sim_fd *f, struct weir_op *op)
{
	int64_t res;

	switch (op->kind) {
	case IO_NOP:
		return 0;
	case IO_WORK:
		return work(op);
	case IO_OPEN: case IO_STATX: case IO_RENAME: case IO_UNLINK:
		io_acquire(op);
		res = sim_path_call(sim, op);
		io_release(op);
		return res;
	case IO_COPY_RANGE:
		return sim_copy_range(sim, op);
	case IO_SENDMSG: case IO_RECVMSG:
		io_acquire(op);
		res = call_fd(sim, f, op);
		io_release(op);
		return res;
	default:
		return call_fd(sim, f, op);
	}
}
