/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/*
 * The backend of reactors in a world.  An operation's way:
 *
 *	submit --> QUEUED --> BUSY --> (the step) --> DONE --> reap
 *	   full       |         |          |  \                  |
 *	              |       STUCK        |   WAITING           | a short step
 *	              v cancel  v healed   v      ^ |            v
 *	            -ECANCELED             DONE   +-+ changed    QUEUED
 *
 * QUEUED, BUSY and, for a while, STUCK have an event; the step is done when
 * BUSY's comes.  WAITING is in the descriptor's list, STUCK in the world's,
 * DONE in the reactor's.  What all of it needs lies in the operation itself, so
 * a submission cannot fail for want of memory.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/why.h"
#include "reactor/rx.h"
#include "reactor/sim.h"

#include <weir/watch.h>

#define STUCK_NS (30 * WEIR_SEC)
#define BUFS_MAX 1024

enum io_state {
	QUEUED,
	BUSY,
	STUCK,
	WAITING,
	DONE,
};

/* In op->reserved. */
struct sim_io {
	struct sim_event event;
	struct sim_fd *f;	/* NULL: it has none, or one that is not open. */
	uint32_t serial;
	uint8_t state;		/* enum io_state */
};

_Static_assert(sizeof(struct sim_io) <= sizeof(((struct weir_op *)0)->reserved),
	       "has to fit");

static struct sim_io *io_of(struct weir_op *op)
{
	return (struct sim_io *)(void *)op->reserved;
}

static struct weir_op *op_of(struct sim_event *ev)
{
	return weir_container_of(ev, struct weir_op, reserved);
}

static const char *name_of(const struct weir_op *op)
{
	return io_classes[op->kind].name;
}

/* Its place is another's now. */
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

	if (io->f)
		sim_fd_unuse(io->f);
	io->f = NULL;
}

void sim_io_done(struct weir_sim *sim, struct weir_op *op, int64_t res)
{
	struct sim_reactor *sr = sim_of(op->reactor);
	struct weir_op *first = sr->done.first;

	io_of(op)->state = DONE;
	op->res = res;
	sim_mix(sim, (uint64_t)io_of(op)->serial << 8 | op->kind);
	sim_mix(sim, (uint64_t)res);
	if (sim_traced(sim))
		sim_trace(sim, "reactor %u: %s %u: %lld", sr->id, name_of(op),
			  io_of(op)->serial, (long long)res);
	if (first && sim_fault(sim, WEIR_SIM_REORDER, name_of(op))) {
		/* The one that would have been first is told last. */
		op_queue_del(&sr->done, first);
		op_queue_push(&sr->done, op);
		op = first;
	}
	op_queue_push(&sr->done, op);
}

/* How it ends, if not by doing what was asked: one of what is documented. */
static int draw_error(struct weir_sim *sim, const struct weir_op *op)
{
	static const int of_reads[] = { -EIO, -ENOMEM, -EIO };
	static const int of_writes[] = { -EIO, -ENOSPC, -EDQUOT };
	static const int of_paths[] = { -EIO, -ENOMEM, -EMFILE, -EACCES };
	static const int of_sockets[] = { -ECONNRESET, -ETIMEDOUT, -ENOBUFS };
	static const int of_accepts[] = { -EMFILE, -ECONNABORTED, -ENOMEM };
	static const int of_connects[] = { -ECONNREFUSED, -ETIMEDOUT,
					   -EHOSTUNREACH };
	uint64_t draw = sim_rng(&sim->fault_rng[WEIR_SIM_ERROR]);

	switch (op->kind) {
	case IO_READ: case IO_READV:
		return of_reads[draw % 3];
	case IO_WRITE: case IO_WRITEV: case IO_FALLOCATE: case IO_COPY_RANGE:
		return of_writes[draw % 3];
	case IO_OPEN: case IO_STATX: case IO_RENAME: case IO_UNLINK:
		return of_paths[draw % 4];
	case IO_RECV: case IO_SEND: case IO_SENDV: case IO_SENDMSG:
	case IO_RECVMSG:
		return of_sockets[draw % 3];
	case IO_ACCEPT:
		return of_accepts[draw % 3];
	case IO_CONNECT:
		return of_connects[draw % 3];
	default:
		return -EIO;
	}
}

/* What must be done whatever happens, or has no device that could fail. */
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
	if (most && sim_fault(sim, WEIR_SIM_SHORT, name_of(op)))
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
	io_take(op);
	res = fn(f, &step);
	io_lend(op);
	return res;
}

static int64_t poll_now(struct sim_fd *f, uint32_t wanted)
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
	int64_t res = f->dead ? -EIO : 0;

	if (f->fd < 0)
		return -EBADF;
	sim_fd_close(f);
	return res;
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
		return poll_now(f, op->u.io.flags);
	case IO_ACCEPT:
		return f->cls->accept ? f->cls->accept(f) : -EINVAL;
	default:
		return f->cls->call ? f->cls->call(f, op) : -EINVAL;
	}
}

static int64_t do_step(struct weir_sim *sim, struct weir_op *op)
{
	struct sim_io *io = io_of(op);
	int64_t res;

	switch (op->kind) {
	case IO_NOP:
		return 0;
	case IO_WORK:
		return work(op);
	case IO_OPEN: case IO_STATX: case IO_RENAME: case IO_UNLINK:
		io_take(op);
		res = sim_path_call(sim, op);
		io_lend(op);
		return res;
	case IO_COPY_RANGE:
		return sim_copy_range(sim, op);
	case IO_SENDMSG: case IO_RECVMSG:
		io_take(op);
		res = call_fd(sim, io->f, op);
		io_lend(op);
		return res;
	default:
		return call_fd(sim, io->f, op);
	}
}

static int fail(struct weir_sim *sim, struct weir_op *op)
{
	struct sim_fd *f = io_of(op)->f;

	if (f && f->fd >= 0 && !f->dead && f->cls->failed) {
		io_take(op);
		f->cls->failed(f, op);
		io_lend(op);
	}
	return draw_error(sim, op);
}

static void io_fire(struct weir_sim *sim, struct sim_event *ev)
{
	struct weir_op *op = op_of(ev);
	struct sim_io *io = io_of(op);
	int64_t res;

	leave(sim, op);
	io->state = BUSY;
	if (!never_fails(op) && sim_fault(sim, WEIR_SIM_ERROR, name_of(op)))
		res = fail(sim, op);
	else if (may_be_interrupted(op) &&
		 sim_fault(sim, WEIR_SIM_EINTR, name_of(op)))
		res = -EINTR;
	else
		res = do_step(sim, op);
	if (res != SIM_NOT_YET) {
		sim_io_done(sim, op, res);
		return;
	}
	io->state = WAITING;
	op_queue_push(&io->f->waiting, op);
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

/* Until the first worker that is free has done what takes @ns. */
static uint64_t worker_delay(struct weir_sim *sim, struct sim_reactor *sr,
			     uint64_t ns)
{
	uint64_t *free_ns = &sr->worker_ns[0];

	for (uint32_t i = 1; i < sr->workers; i++)
		if (sr->worker_ns[i] < *free_ns)
			free_ns = &sr->worker_ns[i];
	if (*free_ns < sim->now_ns)
		*free_ns = sim->now_ns;
	/* None ends together with the one before it. */
	*free_ns += ns + 1;
	return *free_ns - sim->now_ns;
}

static uint64_t delay(struct weir_sim *sim, struct weir_op *op)
{
	struct sim_fd *f = io_of(op)->f;
	uint64_t ns = f && f->cls->delay ? f->cls->delay(f, op) :
					   sim_latency(sim, device_of(op));

	if (sim_fault(sim, WEIR_SIM_DELAY, name_of(op)))
		ns *= 2 + sim_below(&sim->fault_rng[WEIR_SIM_DELAY], 1000);
	if (op->kind == IO_WORK)
		return worker_delay(sim, sim_of(op->reactor), ns);
	return ns;
}

/* The device has it.  Half of what is stuck moves by itself some time. */
static void begin(struct weir_sim *sim, struct weir_op *op)
{
	struct sim_io *io = io_of(op);
	uint64_t ns = delay(sim, op);

	if (op->kind != IO_CLOSE && sim_fault(sim, WEIR_SIM_STUCK,
					      name_of(op))) {
		io->state = STUCK;
		op_queue_push(&sim->stuck, op);
		if (sim_rng(&sim->fault_rng[WEIR_SIM_STUCK]) & 1)
			sim_at(sim, &io->event, STUCK_NS);
		return;
	}
	io->state = BUSY;
	sim_at(sim, &io->event, ns);
}

static void queue_fire(struct weir_sim *sim, struct sim_event *ev)
{
	struct weir_op *op = op_of(ev);

	io_of(op)->event.fire = io_fire;
	begin(sim, op);
}

static void enqueue(struct weir_sim *sim, struct weir_op *op)
{
	struct sim_io *io = io_of(op);

	if (sim_fault(sim, WEIR_SIM_FULL, name_of(op))) {
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

static bool is_workers(const struct weir_op *op)
{
	return op->kind == IO_WORK || op->kind == IO_COPY_RANGE;
}

static void sim_submit(struct weir_reactor *r, struct weir_op *op)
{
	struct weir_sim *sim = sim_of(r)->sim;
	struct sim_io *io = io_of(op);

	memset(io, 0, sizeof(*io));
	io->serial = ++sim->serial;
	if (names_fd(op))
		io->f = sim_fd_find(op->u.io.fd);
	if (io->f && io->f->sim != sim)
		io->f = NULL;
	if (io->f)
		sim_fd_use(io->f);
	if (sim_traced(sim))
		sim_trace(sim, "reactor %u: %s %u begins", sim_of(r)->id,
			  name_of(op), io->serial);
	if (is_workers(op) && !sim_of(r)->has_worker && sim_fault(sim, WEIR_SIM_REFUSED, name_of(op)))
		sim_io_done(sim, op, -EAGAIN);
	else
		enqueue(sim, op);
}

int sim_worker_ensure(struct weir_reactor *r)
{
	struct sim_reactor *sr = sim_of(r);

	if (!sr->has_worker && sim_fault(sr->sim, WEIR_SIM_REFUSED, "worker"))
		return -EAGAIN;
	sr->has_worker = true;
	return 0;
}

void sim_io_again(struct weir_sim *sim, struct weir_op *op)
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

void sim_stuck_fd(struct sim_fd *f)
{
	sim_stuck_again(f->sim, is_on, f);
}

uint32_t sim_io_serial(const struct weir_op *op)
{
	return ((const struct sim_io *)(const void *)op->reserved)->serial;
}

/* What waits for a peer, or for its turn, can be taken back; what a disk has
 * begun can not, and a worker's call may or may not have begun. */
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

static void sim_cancel(struct weir_reactor *r, struct weir_op *op)
{
	struct weir_sim *sim = sim_of(r)->sim;

	if (!can_be_cancelled(sim, op))
		return;
	if (sim_traced(sim))
		sim_trace(sim, "reactor %u: %s %u is cancelled", sim_of(r)->id,
			  name_of(op), io_of(op)->serial);
	leave(sim, op);
	let_go(op);
	io_end(op, -ECANCELED);
}

/* The next step of @op, or its end. */
static void reap_op(struct weir_sim *sim, struct weir_op *op)
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

static bool source_due(const struct sim_reactor *sr, const struct source *s)
{
	struct sim_fd *f = sim_fd_find(s->fd);
	uint32_t wanted = s->kind == SOURCE_WATCH ? s->events : WEIR_READABLE;

	if (!f || f->dead)
		return true;
	if (s->events & WEIR_EDGE && s->place == f->changes)
		return false;
	if (s->kind == SOURCE_RECV && !sr->r->rx->n_free)
		return false;
	return poll_now(f, wanted) != SIM_NOT_YET;
}

static void unlink_source(struct sim_reactor *sr, struct source *s)
{
	if (sr->cursor == s)
		sr->cursor = s->next;
	if (sr->current == s)
		sr->current = NULL;
	*s->pprev = s->next;
	if (s->next)
		s->next->pprev = s->pprev;
	s->armed = false;
}

static void end_source(struct sim_reactor *sr, struct source *s, int err)
{
	unlink_source(sr, s);
	source_deliver(s, err, -1);
}

static void run_recv(struct sim_reactor *sr, struct source *s,
		     struct sim_fd *f)
{
	struct weir_reactor *r = sr->r;
	int id = rx_take(r->rx);
	struct io_step step = { .off = WEIR_OFF_STREAM,
				.addr = rx_buf(r->rx, id),
				.len = r->rx->size };
	int64_t res;

	if (step.len > 1 && sim_fault(sr->sim, WEIR_SIM_SHORT, "receiver"))
		step.len = 1 + sim_below(&sr->sim->chance, step.len - 1);
	own_take(step.addr, r->rx->size, r->rx->size);
	res = f->cls->read ? f->cls->read(f, &step) : -EINVAL;
	own_lend_in(step.addr, r->rx->size);
	if (res > 0) {
		source_deliver(s, res, id);
		return;
	}
	rx_put(r, id);
	if (!res)
		source_deliver(s, 0, -1);
	else if (res != SIM_NOT_YET)
		end_source(sr, s, (int)res);
}

static int64_t accept_one(struct weir_sim *sim, struct sim_fd *f)
{
	static const int errors[] = { -EMFILE, -ECONNABORTED, -ENOMEM };

	if (!f->cls->accept)
		return -EINVAL;
	if (sim_fault(sim, WEIR_SIM_ERROR, "acceptor"))
		return errors[sim_rng(&sim->fault_rng[WEIR_SIM_ERROR]) % 3];
	return f->cls->accept(f);
}

static void run_source(struct sim_reactor *sr, struct source *s)
{
	struct sim_fd *f = sim_fd_find(s->fd);
	int64_t res;

	if (!f || f->dead) {
		end_source(sr, s, f ? -EIO : -EBADF);
		return;
	}
	s->place = f->changes;
	switch (s->kind) {
	case SOURCE_WATCH:
		source_deliver(s, poll_now(f, s->events), -1);
		break;
	case SOURCE_ACCEPT:
		res = accept_one(sr->sim, f);
		if (res >= 0)
			source_deliver(s, res, -1);
		else if (res != SIM_NOT_YET)
			end_source(sr, s, (int)res);
		break;
	case SOURCE_RECV:
		run_recv(sr, s, f);
		break;
	}
}

static void run_sources(struct sim_reactor *sr)
{
	struct source *s;

	for (sr->cursor = sr->sources; (s = sr->cursor);) {
		sr->cursor = s->next;
		sr->current = s;
		if (!source_due(sr, s))
			continue;
		source_catch_up(sr->r);
		if (sr->current == s && source_due(sr, s))
			run_source(sr, s);
	}
	sr->current = NULL;
}

static int sim_reap(struct weir_reactor *r, unsigned int max)
{
	struct sim_reactor *sr = sim_of(r);
	struct weir_op *op;
	unsigned int n;

	for (n = 0; n < max && (op = op_queue_pop(&sr->done)); n++)
		reap_op(sr->sim, op);
	run_sources(sr);
	return (int)n;
}

static bool sim_ready(struct weir_reactor *r)
{
	struct sim_reactor *sr = sim_of(r);
	const struct source *s;

	if (!op_queue_empty(&sr->done))
		return true;
	for (s = sr->sources; s; s = s->next)
		if (source_due(sr, s))
			return true;
	return false;
}

int sim_source_check(struct weir_reactor *r, enum source_kind kind, int fd,
		     const char *call)
{
	struct sim_fd *f = sim_fd_find(fd);

	if (!f || f->sim != sim_of(r)->sim)
		return why(-EBADF, "%s: descriptor %d is not open in this "
			   "world", call, fd);
	if (kind != SOURCE_WATCH && !f->cls->socket)
		return why(-ENOTSOCK, "%s: descriptor %d is a %s, not a socket",
			   call, fd, f->cls->name);
	if (kind == SOURCE_ACCEPT && !f->cls->accept)
		return why(-EINVAL, "%s: descriptor %d does not listen; see "
			   "weir_sim_listen()", call, fd);
	if (kind == SOURCE_WATCH && !f->cls->events)
		return why(-EPERM, "%s: descriptor %d is always ready (a file, "
			   "say); read it with weir_read()", call, fd);
	return 0;
}

static int sim_arm(struct weir_reactor *r, struct source *s)
{
	struct sim_reactor *sr = sim_of(r);
	struct sim_fd *f = sim_fd_find(s->fd);

	if (!f || f->sim != sr->sim)
		return -EBADF;
	s->armed = true;
	s->place = f->changes - 1;
	s->next = sr->sources;
	s->pprev = &sr->sources;
	if (s->next)
		s->next->pprev = &s->next;
	sr->sources = s;
	return 0;
}

static void sim_disarm(struct weir_reactor *r, struct source *s)
{
	if (s->armed)
		unlink_source(sim_of(r), s);
}

static uint64_t sim_now(struct weir_reactor *r)
{
	return sim_of(r)->sim->now_ns;
}

/* A turn takes its time: who polls, by turns of its own, sees time go on. */
static int sim_flush(struct weir_reactor *r)
{
	struct weir_sim *sim = sim_of(r)->sim;
	uint64_t until;

	if (sim->depth)
		return 0;
	until = sim->now_ns + 1 + sim_latency(sim, WEIR_SIM_TURN);
	while (sim_step(sim, until))
		;
	if (sim->now_ns < until)
		sim->now_ns = until;
	return 0;
}

/* The others go on, until there is something for @r. */
static int sim_wait(struct weir_reactor *r, uint64_t timeout_ns)
{
	struct weir_sim *sim = sim_of(r)->sim;
	uint64_t until = WEIR_FOREVER - 1;

	if (timeout_ns < until - sim->now_ns)
		until = sim->now_ns + timeout_ns;
	sim_happened(sim);
	while (!sim_ready(r) && !mailbox_has(&r->mailbox) &&
	       !reactor_requested(r)) {
		if (sim_step(sim, until))
			continue;
		if (timeout_ns == WEIR_FOREVER)
			return -EDEADLK;
		sim->now_ns = until;
		break;
	}
	return 0;
}

/* It is this thread that wakes, so it is awake. */
static void sim_wake(struct weir_reactor *r)
{
	(void)r;
}

static int sim_pollfd(struct weir_reactor *r)
{
	(void)r;
	return -EOPNOTSUPP;
}

static void sim_rx_returned(struct weir_reactor *r, unsigned int id)
{
	(void)r, (void)id;
}

static int sim_fd_register(struct weir_reactor *r, int fd)
{
	return sim_fd_find(fd) &&
	       !sim_fault(sim_of(r)->sim, WEIR_SIM_REGISTER, "file");
}

static void sim_fd_unregister(struct weir_reactor *r, int fd)
{
	(void)r, (void)fd;
}

static int sim_buf_register(struct weir_reactor *r, const struct iovec *iov)
{
	struct sim_reactor *sr = sim_of(r);

	(void)iov;
	if (sim_fault(sr->sim, WEIR_SIM_REGISTER, "buffer"))
		return -ENOMEM;
	if (sr->n_bufs == BUFS_MAX)
		return -ENOSPC;
	sr->n_bufs++;
	return (int)(sr->next_buf++ & INT32_MAX);
}

static void sim_buf_unregister(struct weir_reactor *r, int index)
{
	(void)index;
	sim_of(r)->n_bufs--;
}

static int sim_create(struct weir_reactor *r,
		      const struct weir_reactor_opts *opts)
{
	struct sim_reactor *sr = calloc(1, sizeof(*sr)), **end;
	struct weir_sim *sim = opts->sim;

	if (!sr)
		return why(-ENOMEM, "weir_reactor_create: no memory");
	sr->sim = sim;
	sr->r = r;
	sr->id = sim->n_reactors++;
	sr->turn_max = opts->turn_max;
	sr->workers = opts->workers < SIM_WORKERS ? opts->workers :
						    SIM_WORKERS;
	op_queue_init(&sr->done);
	for (end = &sim->reactors; *end; end = &(*end)->next)
		;
	*end = sr;
	r->backend_data = sr;
	snprintf(r->describe, sizeof(r->describe),
		 "sim: reactor %u of the world of seed %llu", sr->id,
		 (unsigned long long)sim->seed);
	return 0;
}

static void sim_destroy(struct weir_reactor *r)
{
	struct sim_reactor *sr = sim_of(r), **at;
	struct weir_sim *sim = sr->sim;

	for (at = &sim->reactors; *at != sr; at = &(*at)->next)
		;
	*at = sr->next;
	sim->stats.started += r->n_begun;
	sim->stats.completions += r->begun_max - r->ops_max;
	free(sr);
}

const struct backend backend_sim = {
	.name = "sim",
	.simulated = true,
	.create = sim_create,
	.destroy = sim_destroy,
	.now = sim_now,
	.submit = sim_submit,
	.cancel = sim_cancel,
	.reap = sim_reap,
	.flush = sim_flush,
	.ready = sim_ready,
	.wait = sim_wait,
	.wake = sim_wake,
	.pollfd = sim_pollfd,
	.arm = sim_arm,
	.disarm = sim_disarm,
	.rx_returned = sim_rx_returned,
	.fd_register = sim_fd_register,
	.fd_unregister = sim_fd_unregister,
	.buf_register = sim_buf_register,
	.buf_unregister = sim_buf_unregister,
};
