/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations to the kernel, cancelled, and back; flush, wait, wake; the table
 * of the backend.
 */

#include <poll.h>
#include <time.h>
#include <unistd.h>

#include <weir/socket.h>

#include "base/fault.h"
#include "base/own.h"
#include "reactor/cached.h"
#include "reactor/io.h"
#include "reactor/op-inline.h"
#include "reactor/uring/uring.h"

/*
 * Operations on the ring: one submission entry for each step, and the handling
 * of its completion.
 *
 * The ring reports -EAGAIN for a descriptor in non-blocking mode.  Our callers
 * want to wait until the operation is possible, so the operation becomes a
 * poll, and when the poll has fired it is submitted again: OP_POLLING.  The
 * flag is cleared when the operation ends, because the bit has another meaning
 * for other code then.
 */

/* The weight of an operation in .begun and .ended of the ring. */
#define UNCOUNTED 0
#define COUNTED (URING_ONE)
#define SURE (URING_ONE | URING_ONE_SURE)
#define IO_WEIGHT(kind, text, step, opcode, fill, weight) [IO_##kind] = weight,

static const uint64_t weights[IO_KINDS] = {
	IO_ROWS(IO_WEIGHT)
	[IO_ENTRY] = COUNTED,
};

/* The user data first: then the call that fills in the rest is the last thing,
 * and there is nothing to keep over it. */
static inline void enter_in(struct uring *u, struct io_uring_sqe *sqe,
			    struct weir_op *op)
{
	uint32_t kind = op->kind;

	u->begun += weights[kind];
	op->flags |= OP_ENGAGED;
	memset(sqe, 0, sizeof(*sqe));
	sqe->user_data = (uintptr_t)op;
	if (kind == IO_NOP)
		return;
	if (unlikely(op->flags & OP_POLLING))
		uring_fill_polling(u, sqe, op);
	else
		uring_fill[kind](u, sqe, op);
}

/* Put @op into the submission queue; false if the queue has no entry. */
static bool start(struct uring *u, struct weir_op *op)
{
	struct io_uring_sqe *sqe = uring_sqe(u);

	if (unlikely(!sqe))
		return false;
	enter_in(u, sqe, op);
	return true;
}

/* Sends stay behind those that came before. */
static inline bool has_capacity(const struct uring *u)
{
	return uring_in_flight(u) < u->limit && !u->backlog.first;
}

/* The slow path: not for an operation of one step that finds capacity. */
__attribute__((noinline)) static void go_on(struct uring *u, struct weir_op *op)
{
	if ((!has_capacity(u) && weights[op->kind]) || !start(u, op))
		op_queue_push(&u->backlog, op);
}

#define READ_BITS (IO_BIT(IO_READ) | IO_BIT(IO_READV))
#define ALONE_MAX 1		/* Reads in a turn that are no batch. */

/*
 * Whether so few reads come in a turn that the ring would be entered for each: then
 * the page cache is asked first.  A batch is one system call.
 */
static bool is_lone_read(struct uring *u)
{
	uint64_t turn = u->r->stats.turns;

	if (u->reads_turn != turn) {
		u->reads_before = u->reads_turn + 1 == turn ? u->reads_now : 0;
		u->reads_turn = turn;
		u->reads_now = 0;
	}
	return ++u->reads_now <= ALONE_MAX && u->reads_before <= ALONE_MAX;
}

/* @op is a read, or the ring does not have it. */
__attribute__((noinline)) static void submit_apart(struct uring *u,
						   struct weir_op *op)
{
	if (u->unsupported >> op->kind & 1)
		worker_submit(u->r, op);
	else if (is_lone_read(u) && cached_read(u->r, op))
		return;
	else if (has_capacity(u) && uring_has_sqe(u))
		enter_in(u, uring_next_sqe(u, 0), op);
	else
		go_on(u, op);
}

static void uring_submit(struct weir_reactor *r, struct weir_op *op)
{
	struct uring *u = uring_of(r);

	debug_check(op->reactor == r && op->state == OP_PENDING);
	if (unlikely((u->unsupported | READ_BITS) >> op->kind & 1))
		submit_apart(u, op);
	else if (likely(has_capacity(u) && uring_has_sqe(u)))
		enter_in(u, uring_next_sqe(u, 0), op);
	else
		go_on(u, op);
}

/* For entries of 128 bytes. */
static void uring_submit_wide(struct weir_reactor *r, struct weir_op *op)
{
	struct uring *u = uring_of(r);

	debug_check(u->sqe_shift && op->state == OP_PENDING);
	if (u->unsupported >> op->kind & 1)
		worker_submit(r, op);
	else if (!(READ_BITS & IO_BIT(op->kind)) || !is_lone_read(u) ||
		 !cached_read(r, op))
		go_on(u, op);
}

__attribute__((always_inline)) static inline void finish(struct uring *u,
							 struct weir_op *op,
							 int32_t res)
{
	debug_check(!(op->flags & OP_POLLING));
	/* Nothing was lent and nothing moved: io_end() has no more to do. */
	if (op->kind == IO_NOP) {
		op_complete(op, res);
		return;
	}
	if (op->kind == IO_POLL && res >= 0)
		res = (int32_t)uring_weir_bits((uint32_t)res);
	if (!io_step_done(op, res))
		go_on(u, op);
}

/* For all ends but the usual one, which has finish() inline. */
__attribute__((noinline)) static void finish_apart(struct uring *u,
						   struct weir_op *op,
						   int32_t res)
{
	finish(u, op, res);
}

/* The kernel does not tell when the backlog of a UNIX socket has capacity
 * again, so such a connect is tried again, as often as a cancel would be. */
static void connect_later(struct uring *u, struct weir_op *op)
{
	op_queue_push(&u->connects, op);
	repeats_plan(u->r);
}

/* Try the connects again that found a full backlog. */
static void uring_repeat_connects(struct uring *u)
{
	struct weir_op *op;

	/* They are queued here again only by their completions. */
	while ((op = op_queue_pop(&u->connects)))
		go_on(u, op);
}

static void uring_other_cqe(struct uring *u, uint64_t user_data, int32_t res,
		     uint32_t flags);

static struct op_queue *queue_of(struct uring *u, const struct weir_op *op)
{
	const struct weir_op *it;

	if (op->kind == IO_CONNECT)
		for (it = u->connects.first; it; it = it->next)
			if (it == op)
				return &u->connects;
	return &u->backlog;
}

/* If there is no entry for the request now, the next repetition makes it. */
static bool uring_cancel(struct weir_reactor *r, struct weir_op *op)
{
	struct uring *u = uring_of(r);

	debug_check(op->reactor == r && op->state == OP_PENDING);
	if (op->flags & OP_ENGAGED) {
		uring_cancel_request(u, (uintptr_t)op);
		return false;
	}
	op_queue_del(queue_of(u, op), op);
	op->flags &= (uint8_t)~OP_POLLING;
	finish_apart(u, op, -ECANCELED);
	return true;
}

/*
 * Whether zero copy was asked for and refused: the socket does not support it,
 * or the user's limit of locked memory, which counts what is in flight, is
 * reached.
 */
static bool zerocopy_refused(const struct weir_op *op, int32_t res)
{
	return op->kind == IO_SEND && op->u.io.flags & WEIR_SOCK_ZEROCOPY &&
	       (res == -EOPNOTSUPP || res == -EINVAL || res == -ENOBUFS ||
		res == -ENOMEM);
}

/*
 * Whether @res is not the result: after a poll, or an error that we handle, the
 * operation is started again, unless it was cancelled.
 */
static bool goes_on(struct weir_op *op, int32_t res)
{
	uint64_t bit = URING_BIT(op->kind);

	if (op->flags & OP_POLLING) {
		op->flags &= (uint8_t)~OP_POLLING;
		return res >= 0;
	}
	if (res == -EAGAIN && bit & (URING_IN_KINDS | URING_OUT_KINDS) &&
	    !io_never_waits(op)) {
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

/* @op ended with @res, which is an error or not the end. */
__attribute__((noinline)) static void end_or_go_on(struct uring *u,
						   struct weir_op *op,
						   int32_t res)
{
	bool full = op->kind == IO_CONNECT && res == -EAGAIN;

	debug_check(!(op->flags & OP_ENGAGED));
	if (full && !op_cancel_wanted(op)) {
		connect_later(u, op);
	} else if (!full && !goes_on(op, res)) {
		finish_apart(u, op, res);
	} else if (op_cancel_wanted(op)) {
		op->flags &= (uint8_t)~OP_POLLING;
		finish_apart(u, op, -ECANCELED);
	} else {
		go_on(u, op);
	}
}

/* The kernel has completed @op with @res, or completed a part; see @flags. */
__attribute__((always_inline)) static inline void op_cqe(struct uring *u,
							 struct weir_op *op,
							 int32_t res,
							 uint32_t flags)
{
	debug_check(op->flags & OP_ENGAGED);
	if (unlikely(flags & (IORING_CQE_F_MORE | IORING_CQE_F_NOTIF))) {
		if (flags & IORING_CQE_F_MORE) {
			op->res = res;
			return;
		}
		if (!((uint32_t)res & IORING_NOTIF_USAGE_ZC_COPIED))
			op->detail.code = 0;
		res = (int32_t)op->res;
	}
	u->ended += weights[op->kind];
	op->flags &= (uint8_t)~OP_ENGAGED;
	if (unlikely(res < 0 || op->flags & OP_POLLING))
		end_or_go_on(u, op, res);
	else
		finish(u, op, res);
}

/*
 * uring_take() for a ring with completions of 32 bytes.  In a mixed ring these
 * take two places, next to each other: where the ring ends the kernel fills the
 * last place with an entry to be skipped.
 */
__attribute__((noinline)) static unsigned int take_big(struct uring *u,
						       unsigned int max)
{
	const struct io_uring_cq *cq = &u->ring.cq;
	bool mixed = u->ring.flags & IORING_SETUP_CQE_MIXED;
	unsigned int head = *cq->khead;
	unsigned int tail = __atomic_load_n(cq->ktail, __ATOMIC_ACQUIRE);
	unsigned int n;

	debug_check(u->big_cqes);
	for (n = 0; head != tail && n < max; n++) {
		const struct io_uring_cqe *cqe =
			&cq->cqes[(head & cq->ring_mask) << !mixed];
		bool big = !mixed || cqe->flags & IORING_CQE_F_32;

		head += mixed && big ? 2 : 1;
		if (mixed && cqe->flags & IORING_CQE_F_SKIP)
			continue;
		u->extra = big ? (const uint64_t *)cqe->big_cqe : NULL;
		if ((cqe->user_data & TAG_MASK) == TAG_OP)
			op_cqe(u, (struct weir_op *)(uintptr_t)cqe->user_data,
			       cqe->res, cqe->flags);
		else
			uring_other_cqe(u, cqe->user_data, cqe->res,
					cqe->flags);
	}
	u->extra = NULL;
	if (n)
		__atomic_store_n(cq->khead, head, __ATOMIC_RELEASE);
	return n;
}

/*
 * Take what is in the completion queue now, at most @max.  What callbacks add
 * meanwhile is left for the next call, so this ends.  Each entry is copied,
 * because callbacks may submit.
 */
static unsigned int uring_take(struct uring *u, unsigned int max)
{
	const struct io_uring_cq *cq = &u->ring.cq;
	unsigned int head = *cq->khead;
	unsigned int n = __atomic_load_n(cq->ktail, __ATOMIC_ACQUIRE) - head;
	unsigned int end;

	if (unlikely(u->big_cqes))
		return take_big(u, max);
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

/* Go on with the backlog, as far as there is capacity. */
static void uring_serve_ops(struct uring *u)
{
	struct weir_op *op;

	while ((op = u->backlog.first) && uring_in_flight(u) < u->limit) {
		if (!start(u, op))
			return;
		op_queue_del(&u->backlog, op);
	}
}

/*
 * If nothing ends while all the capacity is taken, then the operations that
 * hold it are waiting too, unless they are sure to end: raise the limit by
 * their number.  Should one of them end at once after all, the queue may
 * overflow, which costs time and loses nothing.
 *
 * Operations that are sure to end stay within the window.  Only the others
 * exceed it, and as they end the limit falls back.
 */
static void uring_move_limit(struct uring *u, bool some_ended)
{
	uint32_t most = u->window + uring_in_flight(u) - uring_sure(u);

	if (u->limit > most || (!some_ended && uring_is_stuck(u)))
		u->limit = most;
}

/*
 * The ring in a turn: one system call submits what is queued and, with deferred
 * task work, produces the completions.  If there is nothing to submit or to
 * complete there is no system call.
 *
 * Sleeping is done in one of two ways:
 *
 *  inside   in io_uring_enter(); the ring polls the eventfd of wake()
 *  outside  in poll(2) on that eventfd, by us or by a foreign loop; the ring
 *           writes to it.  The ring's own descriptor cannot be used: with
 *           deferred task work the kernel wakes no poller of it.
 *
 * A ring begins inside.  It goes outside for good when pollfd() is called, or
 * under valgrind, which serialises threads and so must not block in the ring.
 */

#define BUSY_WAIT_MS 1		/* The kernel is short of memory: a breath. */
#define BUSY_WAIT_NS (BUSY_WAIT_MS * WEIR_MSEC)

static inline unsigned int sq_flags(const struct uring *u)
{
	return __atomic_load_n(u->ring.sq.kflags, __ATOMIC_RELAXED);
}

/* Whether there is something that only a system call brings. */
static inline bool kernel_has_more(const struct uring *u)
{
	return sq_flags(u) & (IORING_SQ_CQ_OVERFLOW | IORING_SQ_TASKRUN);
}

static inline bool unsubmitted(const struct uring *u)
{
	return u->ring.sq.sqe_tail !=
	       __atomic_load_n(u->ring.sq.khead, __ATOMIC_RELAXED);
}

/* Errors that pass by themselves: the next turn tries again. */
static inline bool is_transient(int err)
{
	return err == -EINTR || err == -EAGAIN || err == -EBUSY ||
	       err == -ETIME;
}

/* Submit, and have deferred work done.  0 or a lasting error. */
static int enter(struct uring *u)
{
	int err;

	if (unlikely(fault("io_uring_enter")))
		return 0;
	u->r->stats.syscalls++;
	err = io_uring_submit_and_get_events(&u->ring);
	return err < 0 && !is_transient(err) ? err : 0;
}

struct io_uring_sqe *uring_sqe_slow(struct uring *u)
{
	reactor_check_thread(u->r);
	if (fault("io_uring_enter"))
		return NULL;
	u->r->stats.syscalls++;
	io_uring_submit(&u->ring);
	return io_uring_get_sqe(&u->ring);
}

bool uring_cancel_request(struct uring *u, uint64_t user_data)
{
	struct io_uring_sqe *sqe = uring_sqe(u);

	reactor_check_thread(u->r);
	if (unlikely(!sqe))
		return false;
	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_ASYNC_CANCEL;
	sqe->fd = -1;
	/* Tests have it miss, as it does while a request is being moved. */
	sqe->addr = fault_choice("cancel") ? UINT64_MAX : user_data;
	sqe->user_data = TAG_IGNORE;
	if (u->has_cqe_skip)
		sqe->flags = IOSQE_CQE_SKIP_SUCCESS;
	return true;
}

/*
 * Each write to the eventfd wakes the poll, whatever the count is, so a poll
 * that continues needs no read.  Only a new poll would see the old count.
 */
static void drain_eventfd(struct uring *u)
{
	uint64_t count;

	while (read(u->event_fd, &count, sizeof(count)) < 0 && errno == EINTR)
		;
}

void uring_poll_wake(struct uring *u)
{
	struct io_uring_sqe *sqe;

	debug_check(!u->wake_polled);
	reactor_check_thread(u->r);
	sqe = uring_sqe(u);
	if (!sqe)
		return;
	memset(sqe, 0, sizeof(*sqe));
	uring_fill_poll(sqe, u->event_fd, POLLIN);
	if (!u->no_poll_multi) {
		sqe->len = IORING_POLL_ADD_MULTI;
		if (fault_choice("multishot"))
			sqe->ioprio = 1u << 14;
	}
	sqe->user_data = TAG_WAKE;
	u->wake_polled = true;
}

static void wake_cqe(struct uring *u, int32_t res, uint32_t flags)
{
	debug_check(u->wake_polled);
	if (flags & IORING_CQE_F_MORE)
		return;
	if (res == -EINVAL)
		u->no_poll_multi = true;
	u->wake_polled = false;
	if (u->wake_wanted)
		drain_eventfd(u);
}

/* Have the poll on the eventfd, or not, as it should be. */
static void keep_wake_poll(struct uring *u)
{
	if (u->wake_wanted)
		uring_poll_wake(u);
	else if (!u->wake_ending)
		u->wake_ending = uring_cancel_request(u, TAG_WAKE);
}

/* A completion that is not an operation's. */
static void uring_other_cqe(struct uring *u, uint64_t user_data, int32_t res,
		     uint32_t flags)
{
	switch (user_data & TAG_MASK) {
	case TAG_SOURCE:
		source_catch_up(u->r);
		uring_source_cqe(u, user_data, res, flags);
		break;
	case TAG_WAKE:
		wake_cqe(u, res, flags);
		break;
	case TAG_ENTRY:
		uring_entry_cqe(u, user_data, res, flags);
		break;
	}
}

/* Whether something that serve() handles has found no entry. */
static bool is_unserved(const struct uring *u)
{
	return uring_sources_wait(u) ||
	       (u->backlog.first && uring_in_flight(u) < u->limit) ||
	       (u->wake_wanted ? !u->wake_polled :
				 u->wake_polled && !u->wake_ending);
}

__attribute__((noinline)) static bool serve_apart(struct uring *u)
{
	if (u->backlog.first)
		uring_serve_ops(u);
	if (u->retry.first || u->starving.first)
		uring_serve_sources(u);
	if (u->wake_polled != u->wake_wanted)
		keep_wake_poll(u);
	return is_unserved(u);
}

/* Submit what waited for capacity or for an entry.  Returns whether some of it
 * has found no entry. */
static inline bool serve(struct uring *u)
{
	return unlikely(u->backlog.first || u->retry.first ||
			u->starving.first || u->wake_polled != u->wake_wanted) &&
	       serve_apart(u);
}

static bool uring_repeat(struct weir_reactor *r, bool ask)
{
	struct uring *u = uring_of(r);

	if (ask) {
		uring_repeat_sources(u);
		uring_repeat_connects(u);
		u->wake_ending = false;
	}
	return u->stale.first || u->connects.first ||
	       u->wake_polled > u->wake_wanted || unsubmitted(u) ||
	       is_unserved(u);
}

static void count_overflow(struct uring *u)
{
	bool now = sq_flags(u) & IORING_SQ_CQ_OVERFLOW;

	if (unlikely(now && !u->overflowed))
		u->r->stats.overflows++;
	u->overflowed = now;
}

/*
 * A ring with deferred task work may have signalled its eventfd for the last
 * time, see uring_undefer(): the kernel may never clear its bit for "signal in
 * flight".  Registering the eventfd again clears it.
 */
static void renew_eventfd(struct uring *u)
{
	debug_check(u->outside);
	if (!(u->ring.flags & IORING_SETUP_DEFER_TASKRUN))
		return;
	io_uring_unregister_eventfd(&u->ring);
	io_uring_register_eventfd(&u->ring, u->event_fd);
	u->r->stats.syscalls += 2;
}

static int uring_flush(struct weir_reactor *r)
{
	struct uring *u = uring_of(r);
	int err = 0;

	/* A turn will come for what is left, if nothing else brings one. */
	if (unlikely(serve(u)))
		repeats_plan(r);
	if (unsubmitted(u)) {
		err = enter(u);
		if (unlikely(unsubmitted(u)))
			repeats_plan(r);
	}
	if (unlikely(u->outside))
		renew_eventfd(u);
	return err;
}

int uring_reap(struct weir_reactor *r, unsigned int max)
{
	struct uring *u = uring_of(r);
	uint64_t ended = u->ended;
	unsigned int n;
	int err = 0;

	reactor_check_thread(r);
	/* First, so that what comes from now on makes it readable again. */
	if (unlikely(u->outside))
		drain_eventfd(u);
	count_overflow(u);
	if (unsubmitted(u) || kernel_has_more(u))
		err = enter(u);
	n = uring_take(u, max);
	u->cried = !n && kernel_has_more(u);
	if (unlikely(u->backlog.first || u->limit != u->window))
		uring_move_limit(u, u->ended != ended);
	serve(u);
	return unlikely(err) ? err : (int)n;
}

static bool uring_ready(struct weir_reactor *r)
{
	const struct uring *u = uring_of(r);

	return io_uring_cq_ready(&u->ring) ||
	       (kernel_has_more(u) && !u->cried) || uring_is_stuck(u);
}

static int wait_outside(struct uring *u, uint64_t timeout_ns)
{
	struct pollfd p = { .fd = u->event_fd, .events = POLLIN };
	struct timespec ts;
	int err = enter(u);

	debug_check(u->outside);
	u->r->stats.syscalls++;
	if (err || uring_ready(u->r))
		return err;
	if (unlikely(unsubmitted(u)) && timeout_ns > BUSY_WAIT_NS)
		timeout_ns = BUSY_WAIT_NS;
	ts.tv_sec = (time_t)(timeout_ns / WEIR_SEC);
	ts.tv_nsec = (long)(timeout_ns % WEIR_SEC);
	if (ppoll(&p, 1, timeout_ns == WEIR_FOREVER ? NULL : &ts, NULL) < 0)
		err = -errno;
	return is_transient(err) ? 0 : err;
}

static int wait_inside(struct uring *u, uint64_t timeout_ns)
{
	struct __kernel_timespec ts = {
		.tv_sec = (long long)(timeout_ns / WEIR_SEC),
		.tv_nsec = (long long)(timeout_ns % WEIR_SEC),
	};
	struct io_uring_cqe *cqe;

	u->r->stats.syscalls++;
	if (timeout_ns == WEIR_FOREVER)
		return io_uring_submit_and_wait(&u->ring, 1);
	return io_uring_submit_and_wait_timeout(&u->ring, &cqe, 1, &ts, NULL);
}

int uring_wait(struct weir_reactor *r, uint64_t timeout_ns)
{
	struct uring *u = uring_of(r);
	bool some = serve(u);
	int err;

	reactor_check_thread(r);
	/* serve() may have taken the last capacity: the next turn moves the
	 * limit. */
	if (uring_is_stuck(u))
		return 0;
	/* No event would end this sleep to submit what has found no entry. */
	if (unlikely(some) && timeout_ns > BUSY_WAIT_NS)
		timeout_ns = BUSY_WAIT_NS;
	if (unlikely(u->outside))
		return wait_outside(u, timeout_ns);
	if (unlikely(fault("io_uring_enter")))
		return 0;
	err = wait_inside(u, timeout_ns);
	if (err >= 0)
		return 0;
	/* Sleep only briefly: nothing could be submitted. */
	if (err == -EAGAIN || err == -EBUSY)
		poll(NULL, 0, BUSY_WAIT_MS);
	return is_transient(err) ? 0 : err;
}

/* The count cannot run over, and errno may be that of whom a signal hit. */
static void uring_wake(struct weir_reactor *r)
{
	static const uint64_t one = 1;
	int saved = errno;

	while (write(uring_of(r)->event_fd, &one, sizeof(one)) < 0 &&
	       errno == EINTR)
		;
	errno = saved;
}

int uring_pollfd(struct weir_reactor *r)
{
	struct uring *u = uring_of(r);
	int err;

	reactor_check_thread(r);
	if (u->outside)
		return u->event_fd;
	err = uring_undefer(r);
	if (err)
		return err;
	u = uring_of(r);
	if (fault("io_uring_register"))
		return -ENOMEM;
	err = io_uring_register_eventfd(&u->ring, u->event_fd);
	if (err)
		return err;
	u->outside = true;
	u->wake_wanted = false;
	repeats_plan(r);
	/* What is complete already was not signalled. */
	uring_wake(r);
	return u->event_fd;
}

static uint64_t uring_now(struct weir_reactor *r)
{
	struct timespec ts;

	(void)r;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * WEIR_SEC + (uint64_t)ts.tv_nsec;
}

#define TABLE(which) \
	{ \
		.name = "uring", \
		.io_kinds = IO_OF_KERNEL, \
		.create = uring_create, \
		.destroy = uring_destroy, \
		.now = uring_now, \
		.submit = uring_submit##which, \
		.cancel = uring_cancel, \
		.repeat = uring_repeat, \
		.flush = uring_flush, \
		.reap = uring_reap, \
		.ready = uring_ready, \
		.wait = uring_wait, \
		.wake = uring_wake, \
		.pollfd = uring_pollfd, \
		.arm = uring_arm, \
		.disarm = uring_disarm, \
		.rx_returned = uring_rx_returned, \
		.rx_end = uring_rx_end, \
		.fd_register = uring_fd_register, \
		.fd_unregister = uring_fd_unregister, \
		.buf_register = uring_buf_register, \
		.buf_unregister = uring_buf_unregister, \
	}

const struct backend backend_uring = TABLE();
const struct backend backend_uring_wide = TABLE(_wide);
