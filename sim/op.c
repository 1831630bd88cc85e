/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors in a world, the steps of operations on them, and the states of an
 * operation from start to end. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/watch.h>

#include "sim/world.h"

/*
 * Descriptors are numbers that no kernel assigns, so a number of a world is
 * never mistaken for one of the kernel.  The upper bits select the world.  The
 * lowest free number is taken, as the kernel does, so that uses of closed
 * numbers are found here, too.
 */

#define FD_BASE VFD_BASE
#define FD_SHIFT 20
#define FDS_MAX (1u << FD_SHIFT)

struct weir_sim *sim_worlds[SIM_WORLDS];

/* Whether @fd is a number of some world. */
static bool sim_fd_is(int fd)
{
	return fd >= FD_BASE && fd < FD_BASE + (SIM_WORLDS << FD_SHIFT);
}

/* For messages: from 0 on in each world; -1: it is not open. */
static int sim_fd_number(const struct sim_fd *f)
{
	return f && f->fd >= 0 ? (f->fd - FD_BASE) & (int)(FDS_MAX - 1) : -1;
}

static int grow(struct weir_sim *sim)
{
	uint32_t n = sim->n_fds ? 2 * sim->n_fds : 64;
	struct sim_fd **fds;

	if (n > FDS_MAX)
		return -EMFILE;
	fds = realloc(sim->fds, n * sizeof(struct sim_fd *));
	if (!fds)
		return -ENOMEM;
	memset(fds + sim->n_fds, 0,
	       (n - sim->n_fds) * sizeof(struct sim_fd *));
	sim->fds = fds;
	sim->n_fds = n;
	return 0;
}

/* The lowest, or -EMFILE or -ENOMEM. */
static int free_slot(struct weir_sim *sim)
{
	uint32_t i = 0;
	int err;

	while (i < sim->n_fds && sim->fds[i])
		i++;
	err = i == sim->n_fds ? grow(sim) : 0;
	return err ? err : (int)i;
}

int sim_fd_open(struct weir_sim *sim, struct sim_fd *f,
		const struct sim_fd_class *cls)
{
	int i = free_slot(sim);

	if (i < 0)
		return i;
	sim->fds[i] = f;
	f->opens = 1;
	f->sim = sim;
	f->cls = cls;
	if (!f->host)
		f->host = sim->here;
	f->users = 1;
	f->fd = FD_BASE + (int)(sim->slot << FD_SHIFT | (uint32_t)i);
	op_queue_init(&f->waiting);
	return f->fd;
}

struct sim_fd *sim_fd_find(int fd)
{
	struct weir_sim *sim;
	uint32_t i;

	if (!sim_fd_is(fd))
		return NULL;
	i = (uint32_t)(fd - FD_BASE);
	sim = sim_worlds[i >> FD_SHIFT];
	i &= FDS_MAX - 1;
	return sim && i < sim->n_fds ? sim->fds[i] : NULL;
}

static void sim_fd_unuse(struct sim_fd *f)
{
	debug_check(f->users > 0);
	if (!--f->users)
		f->cls->release(f);
}

static void sim_io_done(struct weir_sim *sim, struct weir_op *op, int64_t res);

static void touch_watchers(struct sim_fd *f)
{
	if (f->shared)
		sim_touch_all(f->sim);
	else if (f->watcher)
		sim_touch(f->watcher);
}

/* Descriptors that are passed on their way, and have no number. */
#define FD_ON_THE_WAY (FD_BASE - 1)

static uint32_t slot_of(int fd)
{
	return (uint32_t)(fd - FD_BASE) & (FDS_MAX - 1);
}

static int number_of(const struct sim_fd *f)
{
	const struct weir_sim *sim = f->sim;

	for (uint32_t i = 0; i < sim->n_fds; i++)
		if (sim->fds[i] == f)
			return FD_BASE + (int)(sim->slot << FD_SHIFT | i);
	return FD_ON_THE_WAY;
}

void sim_fd_drop(struct sim_fd *f, int fd)
{
	struct weir_op *op;

	debug_check(f->fd >= 0 && f->opens > 0);
	if (fd >= 0)
		f->sim->fds[slot_of(fd)] = NULL;
	if (--f->opens) {
		f->fd = number_of(f);
		return;
	}
	f->fd = -1;
	touch_watchers(f);
	sim_fd_use(f);
	if (f->cls->closed)
		f->cls->closed(f);
	while ((op = op_queue_pop(&f->waiting)))
		sim_io_done(f->sim, op, -EBADF);
	sim_fd_unuse(f);
	sim_fd_unuse(f);
}

void sim_fd_close(struct sim_fd *f)
{
	sim_fd_drop(f, f->fd);
}

int sim_fd_dup(struct sim_fd *f)
{
	struct weir_sim *sim = f->sim;
	int i = free_slot(sim);

	if (i < 0)
		return i;
	sim->fds[i] = f;
	f->opens++;
	f->fd = FD_BASE + (int)(sim->slot << FD_SHIFT | (uint32_t)i);
	return f->fd;
}

void sim_fds_close(struct weir_sim *sim, const struct weir_sim_host *host)
{
	for (uint32_t i = 0; i < sim->n_fds; i++)
		if (sim->fds[i] && (!host || sim->fds[i]->host == host))
			sim_fd_drop(sim->fds[i], FD_BASE +
				    (int)(sim->slot << FD_SHIFT | i));
}

static void sim_io_again(struct weir_sim *sim, struct weir_op *op);

void sim_fd_changed(struct sim_fd *f)
{
	struct op_queue again;
	struct weir_op *op;

	f->changes++;
	touch_watchers(f);
	op_queue_init(&again);
	while ((op = op_queue_pop(&f->waiting)))
		op_queue_push(&again, op);
	while ((op = op_queue_pop(&again)))
		sim_io_again(f->sim, op);
}

static void sim_stuck_fd(struct sim_fd *f);

void sim_fd_kill(struct sim_fd *f)
{
	f->dead = true;
	sim_stuck_fd(f);
	sim_fd_changed(f);
}

uint64_t sim_step_len(const struct io_step *step)
{
	uint64_t sum = step->n ? 0 : step->len;

	for (uint32_t i = 0; i < step->n; i++)
		sum += step->iov[i].iov_len;
	return sum;
}

/* Call @fn for @len bytes from @skip on, piece by piece. */
static void each(const struct io_step *step, uint64_t skip, char *other,
		 uint64_t len, void (*fn)(char *mine, char *other, uint64_t n))
{
	struct iovec one = { step->addr, step->len };
	const struct iovec *iov = step->n ? step->iov : &one;
	uint64_t n;

	for (; len; iov++) {
		if (skip >= iov->iov_len) {
			skip -= iov->iov_len;
			continue;
		}
		n = iov->iov_len - skip;
		if (n > len)
			n = len;
		fn((char *)iov->iov_base + skip, other, n);
		other += n;
		len -= n;
		skip = 0;
	}
}

static void fill(char *mine, char *other, uint64_t n)
{
	memcpy(mine, other, n);
}

static void drain(char *mine, char *other, uint64_t n)
{
	memcpy(other, mine, n);
}

void sim_step_fill(const struct io_step *step, uint64_t skip, const void *from,
		   uint64_t len)
{
	each(step, skip, (char *)(uintptr_t)from, len, fill);
}

void sim_step_drain(const struct io_step *step, uint64_t skip, void *to,
		    uint64_t len)
{
	each(step, skip, to, len, drain);
}

/* The steps of operations.  Each does at once what the system call would do. */

/* The first piece of a vector that is not empty, alone. */
static void take_piece(struct io_step *step)
{
	debug_check(step->n > 0);
	while (step->n > 1 && !step->iov->iov_len) {
		step->iov++;
		step->n--;
	}
	step->addr = step->iov->iov_base;
	step->len = step->iov->iov_len;
	step->n = 0;
	step->iov = NULL;
}

/* Where the first grain of the file ends, if @step begins in one. */
static uint64_t first_cut(const struct io_step *step, uint64_t grain)
{
	return step->off == WEIR_OFF_STREAM ? grain : grain - step->off % grain;
}

static void shorten(struct weir_sim *sim, struct sim_fd *f, struct weir_op *op,
		    struct io_step *step)
{
	uint64_t grain = f->cls->grain ? f->cls->grain(f, step) : 1;
	uint64_t first = first_cut(step, grain), most;

	if (step->n)
		take_piece(step);
	most = step->len > first ? (step->len - 1 - first) / grain + 1 : 0;
	if (most && sim_fault(sim, WEIR_SIM_SHORT, sim_io_name(op)))
		step->len = first + grain *
			sim_below(sim_fault_rng(sim, WEIR_SIM_SHORT), most);
}

static uint32_t rw_flags(const struct weir_op *op)
{
	switch (op->kind) {
	case IO_READ: case IO_WRITE: case IO_READV: case IO_WRITEV:
		return io_rw_flags(op);
	default:
		return 0;
	}
}

static int64_t transfer(struct weir_sim *sim, struct sim_fd *f,
			struct weir_op *op, bool in)
{
	int64_t (*fn)(struct sim_fd *f, const struct io_step *step);
	struct io_step step;
	int64_t res;

	debug_check(op->state == OP_PENDING);
	fn = in ? f->cls->read : f->cls->write;
	if (!fn)
		return -EINVAL;
	io_step_next(op, &step);
	step.flags = rw_flags(op);
	if (step.flags & WEIR_RW_ATOMIC)
		return -EOPNOTSUPP;
	if (step.flags & WEIR_RW_NOWAIT && !f->cls->waits &&
	    sim_fault(sim, WEIR_SIM_EAGAIN, sim_io_name(op)))
		return -EAGAIN;
	if (sim->faults->rate[WEIR_SIM_SHORT] && !f->cls->datagrams)
		shorten(sim, f, op, &step);
	/* The world acts as the device, so it may access the memory that was
	 * lent to it. */
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

static int64_t close_now(struct sim_fd *f, int fd)
{
	if (sim_fd_find(fd) != f)
		return -EBADF;
	sim_fd_drop(f, fd);
	return 0;
}

/* With the address of the peer, cut to its capacity as accept4(2) does. */
static int64_t accept_now(struct sim_fd *f, const struct weir_op *op)
{
	socklen_t *len = (socklen_t *)(uintptr_t)op->u.io.aux, capacity, n;
	void *addr = (void *)(uintptr_t)op->u.io.addr;
	struct sockaddr_storage peer;
	int64_t fd;

	if (!f->cls->accept)
		return -EINVAL;
	fd = f->cls->accept(f);
	if (fd < 0 || !addr)
		return fd;
	n = sizeof(peer);
	capacity = *len;
	if (vfd_ops->peer((int)fd, &peer, &n))
		n = 0;
	memcpy(addr, &peer, n < capacity ? n : capacity);
	*len = n;
	return fd;
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
		return close_now(f, op->u.io.fd);
	case IO_POLL:
		return sim_poll_now(f, op->u.io.flags);
	case IO_ACCEPT:
		return accept_now(f, op);
	default:
		return f->cls->call ? f->cls->call(f, op) : -EINVAL;
	}
}

static void wait_for(struct weir_op *op, struct sim_fd *f);

/* It waits for the side that is not ready. */
static int64_t splice_now(struct weir_sim *sim, struct weir_op *op)
{
	struct sim_fd *in = sim_fd_find((int)op->u.io.addr);
	struct sim_fd *out = sim_fd_find((int)op->u.io.aux), *blocked;
	int64_t res;

	if (!in || !out || in->sim != sim || out->sim != sim)
		return -EBADF;
	if (in->dead || out->dead)
		return -EIO;
	if (!in->cls->splice)
		return -EINVAL;
	res = in->cls->splice(in, out, op->u.io.len, &blocked);
	if (res == SIM_NOT_YET)
		wait_for(op, blocked);
	return res;
}

/* The next step of @op, on @f (NULL: there is none). */
static int64_t sim_call(struct weir_sim *sim, struct sim_fd *f, struct weir_op *op)
{
	int64_t res;

	switch (op->kind) {
	case IO_NOP:
		return 0;
	case IO_WORK:
		return work(op);
	case IO_OPEN: case IO_STATX: case IO_RENAME: case IO_UNLINK:
	case IO_MKDIR: case IO_LINK: case IO_SYMLINK: case IO_READLINK:
	case IO_CHMOD: case IO_CHOWN: case IO_UTIMENS:
		io_acquire(op);
		res = sim_path_call(sim, op);
		io_release(op);
		return res;
	case IO_COPY_RANGE:
		return sim_copy_range(sim, op);
	case IO_SPLICE:
		return splice_now(sim, op);
	case IO_SENDMSG: case IO_RECVMSG: case IO_READDIR:
		io_acquire(op);
		res = call_fd(sim, f, op);
		io_release(op);
		return res;
	default:
		return call_fd(sim, f, op);
	}
}

/*
 * The states of an operation in a world:
 *
 *	submit --> QUEUED --> BUSY --> (the step) --> DONE --> reap
 *	   full       |         |          |  \                  |
 *	              |       STUCK        |   WAITING           | a short step
 *	              v cancel  v healed   v      ^ |            v
 *	            -ECANCELED             DONE   +-+ changed    QUEUED
 *
 * QUEUED, BUSY and, for a while, STUCK have an event; the event of BUSY makes
 * the step.  WAITING is in the descriptor's list, STUCK in the world's, DONE in
 * the reactor's.  The operation itself has all that this needs, so a submission
 * allocates nothing and cannot fail.
 */

#define STUCK_NS (30 * WEIR_SEC)

enum io_state {
	QUEUED,
	BUSY,
	STUCK,
	WAITING,
	DONE,
};

/* In op->backend. */
struct sim_io {
	struct sim_event event;
	struct sim_fd *f;	/* NULL: it has none, or one that is not open. */
	uint32_t serial;
	uint8_t state;		/* enum io_state */
	bool tried;		/* This step, before: aims have counted it. */
};

_Static_assert(sizeof(struct sim_io) <= sizeof(((struct weir_op *)0)->backend),
	       "has to fit");

static struct sim_io *io_of(struct weir_op *op)
{
	return (struct sim_io *)(void *)op->backend;
}

/* From now on @op is on @f. */
static void wait_for(struct weir_op *op, struct sim_fd *f)
{
	struct sim_io *io = io_of(op);

	if (io->f == f)
		return;
	if (io->f)
		sim_fd_unuse(io->f);
	sim_fd_use(f);
	io->f = f;
}

static struct weir_op *op_of(struct sim_event *ev)
{
	return weir_container_of(ev, struct weir_op, backend);
}

/* Remove @op from the heap, and from the list that its state puts it in. */
static void leave(struct weir_sim *sim, struct weir_op *op)
{
	struct sim_io *io = io_of(op);

	sim_unqueue(sim, &io->event);
	if (!(op->flags & OP_QUEUED))
		return;
	if (io->state == STUCK)
		op_queue_del(&sim->stuck, op);
	else if (io->state == WAITING)
		op_queue_del(&io->f->waiting, op);
	else
		op_queue_del(&sim_of(op->reactor)->done, op);
}

static void let_go(struct weir_op *op)
{
	struct sim_io *io = io_of(op);

	debug_check(io_of(op)->state != QUEUED || !io_of(op)->f ||
		    io_of(op)->f->users > 0);
	if (io->f)
		sim_fd_unuse(io->f);
	io->f = NULL;
}

/* @op has ended with @res; its reactor is notified in its next turn. */
static void sim_io_done(struct weir_sim *sim, struct weir_op *op, int64_t res)
{
	struct sim_reactor *sr = sim_of(op->reactor);
	struct weir_op *first = sr->done.first;

	debug_check(io_of(op)->state != DONE);
	io_of(op)->state = DONE;
	op->res = res;
	sim_touch(sr);
	sim_mix(sim, (uint64_t)io_of(op)->serial << 8 | op->kind);
	sim_mix(sim, (uint64_t)res);
	if (sim_traced(sim))
		sim_trace(sim, "%s: %s %u: %lld", sr->label, sim_io_name(op),
			  io_of(op)->serial, (long long)res);
	if (first && sim_fault(sim, WEIR_SIM_REORDER, sim_io_name(op))) {
		/* The one that would have been first is reported last. */
		op_queue_del(&sr->done, first);
		op_queue_push(&sr->done, op);
		op = first;
	}
	op_queue_push(&sr->done, op);
}

/* Operations that must end whatever happens, or that no device can fail. */
static bool never_fails(const struct weir_op *op)
{
	return op->kind == IO_CLOSE || op->kind == IO_NOP ||
	       op->kind == IO_WORK || op->kind == IO_POLL;
}

static bool may_be_interrupted(const struct weir_op *op)
{
	return !never_fails(op) && op->kind != IO_CONNECT &&
	       op->kind != IO_COPY_RANGE;
}

static int fail(struct weir_sim *sim, struct weir_op *op)
{
	struct sim_fd *f = io_of(op)->f;
	int err = sim_draw_error(sim, op);

	if (f && f->fd >= 0 && !f->dead && f->cls->failed) {
		io_acquire(op);
		f->cls->failed(f, op, err);
		io_release(op);
	}
	return err;
}

static struct weir_sim_host *host_of(const struct weir_op *op)
{
	return sim_of(op->reactor)->host;
}

/* The result of the step of @op, which may have a fault; or SIM_NOT_YET. */
static int64_t io_result(struct weir_sim *sim, struct weir_op *op)
{
	if (!never_fails(op) && sim_fault(sim, WEIR_SIM_ERROR, sim_io_name(op)))
		return fail(sim, op);
	if (may_be_interrupted(op) &&
	    sim_fault(sim, WEIR_SIM_EINTR, sim_io_name(op)))
		return -EINTR;
	return sim_call(sim, io_of(op)->f, op);
}

/* With aimed faults. */
static int64_t io_aimed(struct weir_sim *sim, struct weir_op *op, bool *stuck)
{
	struct sim_io *io = io_of(op);
	struct sim_aim *aim;
	int64_t res = 0;

	if (io->tried)
		return io_result(sim, op);
	io->tried = true;
	switch (sim->aimed(sim, op, io->f, &res, &aim)) {
	case AIMED_FAILS:
		fail(sim, op);
		return res;
	case AIMED_DONE:
		return res;
	case AIMED_STUCK:
		*stuck = true;
		return SIM_NOT_YET;
	case AIMED_SPOILT:
		res = sim_call(sim, io->f, op);
		sim->spoil(sim, aim, op, io->f, res);
		return res;
	default:
		return io_result(sim, op);
	}
}

static void io_try(struct weir_sim *sim, struct weir_op *op)
{
	struct sim_io *io = io_of(op);
	bool stuck = false;
	int64_t res;

	leave(sim, op);
	io->state = BUSY;
	res = sim->aimed ? io_aimed(sim, op, &stuck) : io_result(sim, op);
	if (stuck) {
		io->state = STUCK;
		op_queue_push(&sim->stuck, op);
		return;
	}
	if (res == SIM_NOT_YET && io_never_waits(op))
		res = -EAGAIN;
	if (res != SIM_NOT_YET) {
		sim_io_done(sim, op, res);
		return;
	}
	io->state = WAITING;
	op_queue_push(&io->f->waiting, op);
}

static void io_fire(struct weir_sim *sim, struct sim_event *ev)
{
	struct weir_op *op = op_of(ev);
	struct weir_sim_host *outer = sim_enter(sim, host_of(op));

	io_try(sim, op);
	sim_enter(sim, outer);
}

static enum weir_sim_device device_of(struct weir_op *op)
{
	struct sim_fd *f = io_of(op)->f;

	switch (op->kind) {
	case IO_NOP:
		return WEIR_SIM_NOP;
	case IO_WORK:
		return WEIR_SIM_WORKER;
	case IO_FSYNC:
		return WEIR_SIM_DISK;
	default:
		return f ? f->cls->device : WEIR_SIM_FILE;
	}
}

/* The time until the first free worker has done work that takes @ns. */
static uint64_t worker_delay(struct weir_sim *sim, struct sim_reactor *sr,
			     uint64_t ns)
{
	uint64_t *free_ns = &sr->worker_ns[0];

	for (uint32_t i = 1; i < sr->workers; i++)
		if (sr->worker_ns[i] < *free_ns)
			free_ns = &sr->worker_ns[i];
	if (*free_ns < sim->now_ns)
		*free_ns = sim->now_ns;
	/* No two end at the same time. */
	*free_ns += ns + 1;
	return *free_ns - sim->now_ns;
}

static uint64_t delay(struct weir_sim *sim, struct weir_op *op)
{
	struct sim_fd *f = io_of(op)->f;
	uint64_t ns = f && f->cls->delay ? f->cls->delay(f, op) :
					   sim_latency(sim, device_of(op));

	if (sim_fault(sim, WEIR_SIM_DELAY, sim_io_name(op)))
		ns *= 2 + sim_below(sim_fault_rng(sim, WEIR_SIM_DELAY), 1000);
	if (op->kind == IO_WORK)
		return worker_delay(sim, sim_of(op->reactor), ns);
	return ns;
}

/* The power of its device was cut: it fails soon. */
static bool is_cut(struct weir_sim *sim, struct weir_op *op)
{
	struct sim_fd *f = io_of(op)->f;

	return f ? f->dead : sim_names_path(op) && sim_path_is_cut(sim, op);
}

/* The device has it.  Half of the stuck operations continue by themselves
 * later. */
static void begin(struct weir_sim *sim, struct weir_op *op)
{
	struct sim_io *io = io_of(op);
	uint64_t ns = delay(sim, op);

	if (op->kind != IO_CLOSE && !is_cut(sim, op) &&
	    sim_fault(sim, WEIR_SIM_STUCK, sim_io_name(op))) {
		io->state = STUCK;
		op_queue_push(&sim->stuck, op);
		if (sim_rng(sim_fault_rng(sim, WEIR_SIM_STUCK)) & 1)
			sim_at(sim, &io->event, STUCK_NS);
		return;
	}
	io->state = BUSY;
	sim_at(sim, &io->event, ns);
}

static void queue_fire(struct weir_sim *sim, struct sim_event *ev)
{
	struct weir_op *op = op_of(ev);
	struct weir_sim_host *outer = sim_enter(sim, host_of(op));

	io_of(op)->event.fire = io_fire;
	begin(sim, op);
	sim_enter(sim, outer);
}

static void enqueue(struct weir_sim *sim, struct weir_op *op)
{
	struct sim_io *io = io_of(op);

	io->tried = false;
	if (sim_fault(sim, WEIR_SIM_FULL, sim_io_name(op))) {
		io->state = QUEUED;
		io->event.fire = queue_fire;
		sim_at(sim, &io->event, delay(sim, op));
		return;
	}
	io->event.fire = io_fire;
	begin(sim, op);
}

static bool names_fd(const struct weir_op *op)
{
	return op->kind != IO_NOP && op->kind != IO_WORK && !sim_names_path(op);
}

static bool has_range(const struct weir_op *op)
{
	switch (op->kind) {
	case IO_READ: case IO_WRITE: case IO_RECV: case IO_SEND:
	case IO_FSYNC: case IO_SPLICE: case IO_COPY_RANGE:
		return op->u.io.len;
	default:
		return false;
	}
}

/* What it is about: names, descriptor, bytes. */
static void trace_begin(struct weir_sim *sim, const struct weir_op *op)
{
	char what[2 * SIM_PATH_BYTES + 8] = "", bytes[64] = "", at[32] = "";
	char name[SIM_PATH_BYTES], to[SIM_PATH_BYTES];
	struct sim_fd *f = ((const struct sim_io *)(const void *)
				    op->backend)->f;

	if (sim_names_path(op) && !sim_path_names(sim, op, name, to))
		snprintf(what, sizeof(what), sim_names_two(op) ?
				 ", '%s' to '%s'" : ", '%s'", name, to);
	else if (f && f->cls->describe)
		f->cls->describe(f, what, sizeof(what));
	if (has_range(op))
		snprintf(bytes, sizeof(bytes), ", %llu bytes",
			 (unsigned long long)op->u.io.len);
	if (f && !f->cls->socket && op->u.io.off != WEIR_OFF_STREAM &&
	    (has_range(op) || op->kind == IO_READV || op->kind == IO_WRITEV))
		snprintf(at, sizeof(at), " at %llu",
			 (unsigned long long)op->u.io.off);
	sim_trace(sim, "%s: %s %u begins, on %d%s%s%s",
		  sim_of(op->reactor)->label, sim_io_name(op),
		  sim_io_serial(op), sim_fd_number(f), what, bytes, at);
}

static bool is_workers(const struct weir_op *op)
{
	return op->kind == IO_WORK || op->kind == IO_COPY_RANGE;
}

void sim_submit(struct weir_reactor *r, struct weir_op *op)
{
	struct weir_sim *sim = sim_of(r)->sim;
	struct sim_io *io = io_of(op);

	debug_check(op->reactor == r && op->state == OP_PENDING);
	reactor_check_thread(r);
	memset(io, 0, sizeof(*io));
	io->serial = ++sim->serial;
	if (names_fd(op))
		io->f = sim_fd_find(op->u.io.fd);
	if (io->f && io->f->sim != sim)
		io->f = NULL;
	if (io->f)
		sim_fd_use(io->f);
	if (sim_traced(sim))
		trace_begin(sim, op);
	if (sim_of(r)->host)
		sim_of(r)->host->begins(sim_of(r)->host);
	if (is_workers(op) && sim_worker_ensure(r))
		sim_io_done(sim, op, -EAGAIN);
	else
		enqueue(sim, op);
}

int sim_worker_ensure(struct weir_reactor *r)
{
	struct sim_reactor *sr = sim_of(r);

	reactor_check_thread(r);
	if (!sr->has_worker && sim_fault(sr->sim, WEIR_SIM_REFUSED, "worker"))
		return -EAGAIN;
	sr->has_worker = true;
	return 0;
}

/* @op, whose step was waiting or stuck, tries again soon. */
static void sim_io_again(struct weir_sim *sim, struct weir_op *op)
{
	io_of(op)->event.fire = io_fire;
	io_of(op)->state = BUSY;
	sim_at(sim, &io_of(op)->event, sim_latency(sim, device_of(op)));
}

void sim_stuck_again(struct weir_sim *sim,
		     bool (*which)(struct weir_op *op, void *arg), void *arg)
{
	struct weir_op *op, *next;

	for (op = sim->stuck.first; op; op = next) {
		next = op->next;
		if (!which(op, arg))
			continue;
		op_queue_del(&sim->stuck, op);
		sim_unqueue(sim, &io_of(op)->event);
		sim_io_again(sim, op);
	}
}

static bool every(struct weir_op *op, void *arg)
{
	(void)op, (void)arg;
	return true;
}

void sim_stuck_heal(struct weir_sim *sim)
{
	sim_stuck_again(sim, every, NULL);
}

static bool is_on(struct weir_op *op, void *arg)
{
	return io_of(op)->f == arg;
}

static void sim_stuck_fd(struct sim_fd *f)
{
	sim_stuck_again(f->sim, is_on, f);
}

uint32_t sim_io_serial(const struct weir_op *op)
{
	return ((const struct sim_io *)(const void *)op->backend)->serial;
}

/*
 * An operation that waits for a peer, or in a queue, can be cancelled.  One
 * that a disk has begun cannot; the call of a worker may or may not have begun.
 */
static bool can_be_cancelled(struct weir_sim *sim, struct weir_op *op)
{
	const struct sim_io *io = io_of(op);

	switch (io->state) {
	case QUEUED:
	case WAITING:
		return true;
	case BUSY:
	case STUCK:
		if (op->kind == IO_NOP || (io->f && io->f->cls->waits))
			return true;
		return io->state == BUSY && op->kind != IO_CLOSE &&
		       sim_rng(&sim->chance) & 1;
	default:
		return false;
	}
}

/*
 * Whether the kernel is about to retry the request of @op.  Then a cancel finds
 * no such request; the retry fails, and the request waits as before.  Only a
 * repeated cancel ends it.
 */
static bool is_being_tried(struct weir_sim *sim, struct weir_op *op)
{
	return io_of(op)->state == WAITING &&
	       sim_fault(sim, WEIR_SIM_EAGAIN, "cancel");
}

bool sim_cancel(struct weir_reactor *r, struct weir_op *op)
{
	struct weir_sim *sim = sim_of(r)->sim;

	debug_check(op->reactor == r);
	reactor_check_thread(r);
	if (is_being_tried(sim, op)) {
		sim_of(r)->turns.refused++;
		sim_of(r)->turns.refused_ns = sim->now_ns;
		return false;
	}
	if (!can_be_cancelled(sim, op))
		return true;
	if (sim_traced(sim))
		sim_trace(sim, "%s: %s %u is cancelled", sim_of(r)->label,
			  sim_io_name(op), io_of(op)->serial);
	leave(sim, op);
	let_go(op);
	io_end(op, -ECANCELED);
	return true;
}

static bool is_io(const struct weir_op *op)
{
	return op->cls >= io_classes && op->cls < io_classes + IO_KINDS;
}

static void forget(struct weir_sim *sim, struct weir_op *op)
{
	for (; op; op = op->live_next) {
		if (!is_io(op))
			continue;
		leave(sim, op);
		let_go(op);
		if (op->kind != IO_NOP)
			io_acquire(op);
	}
}

void sim_ops_forget(struct sim_reactor *sr)
{
	forget(sr->sim, sr->r->live);
	forget(sr->sim, sr->r->repeats.due);
	forget(sr->sim, sr->r->repeats.asked);
}

/* The next step of @op, or its end. */
void sim_io_reap(struct weir_sim *sim, struct weir_op *op)
{
	if (is_workers(op)) {
		let_go(op);
		io_end(op, op->res);
	} else if (io_step_done(op, op->res)) {
		let_go(op);
	} else {
		enqueue(sim, op);
	}
}
