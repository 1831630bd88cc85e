/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations on the ring: one submission entry per step, and what is done with
 * its completion.
 *
 * The ring reports -EAGAIN for a descriptor that is in non-blocking mode.  Our
 * callers mean "when it is possible", so such an operation becomes a poll, and
 * itself again when that has fired: OP_POLLING.  That is gone when the
 * operation ends, for the bit means something else to others then.
 */

#include <weir/socket.h>

#include "reactor/io.h"
#include "reactor/op-inline.h"
#include "reactor/uring/uring.h"

/*
 * What an operation counts for in .begun and .ended of the ring.  The others
 * count for nothing: accept, connect, receive, poll and splice, whose end is
 * somebody else's to bring about.  There may be any number of these, and most
 * stay for long.
 */
#define COUNTED (URING_ONE)
#define SURE (URING_ONE | URING_ONE_SURE)	/* Nobody can keep up its end. */

static const uint64_t weights[IO_KINDS] = {
	[IO_NOP] = SURE,
	[IO_READ] = COUNTED, [IO_READV] = COUNTED,
	[IO_WRITE] = COUNTED, [IO_WRITEV] = COUNTED,
	[IO_FSYNC] = SURE, [IO_FALLOCATE] = SURE,
	[IO_OPEN] = COUNTED,			/* That of a FIFO waits. */
	[IO_CLOSE] = SURE, [IO_STATX] = SURE,
	[IO_RENAME] = SURE, [IO_UNLINK] = SURE,
	[IO_SEND] = COUNTED, [IO_SENDV] = COUNTED, [IO_SENDMSG] = COUNTED,
	[IO_SHUTDOWN] = SURE,
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

/* To the kernel, as far as the queue; false if it has no entry. */
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

/* Not the path of an operation that is done in one step, and finds capacity. */
__attribute__((noinline)) static void go_on(struct uring *u, struct weir_op *op)
{
	if ((!has_capacity(u) && weights[op->kind]) || !start(u, op))
		op_queue_push(&u->backlog, op);
}

void uring_submit(struct weir_reactor *r, struct weir_op *op)
{
	struct uring *u = uring_of(r);

	if (unlikely(u->unsupported >> op->kind & 1))
		worker_submit(r, op);
	else if (likely(has_capacity(u) && uring_has_sqe(u)))
		enter_in(u, uring_next_sqe(u), op);
	else
		go_on(u, op);
}

static inline void finish(struct uring *u, struct weir_op *op, int32_t res)
{
	debug_check(!(op->flags & OP_POLLING));
	/* Nothing was lent and nothing moved: what is left of an io_end(). */
	if (op->kind == IO_NOP) {
		op_complete(op, res);
		return;
	}
	if (op->kind == IO_POLL && res >= 0)
		res = (int32_t)uring_weir_bits((uint32_t)res);
	if (!io_step_done(op, res))
		go_on(u, op);
}

/* For all but the usual end, which has it inline. */
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

void uring_repeat_connects(struct uring *u)
{
	struct weir_op *op;

	/* They come back only with their completions. */
	while ((op = op_queue_pop(&u->connects)))
		go_on(u, op);
}

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
bool uring_cancel(struct weir_reactor *r, struct weir_op *op)
{
	struct uring *u = uring_of(r);

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
 * A wish for zero copy that this socket does not grant, or for which the user
 * has too little locked memory left: what is in flight counts towards it.
 */
static bool zerocopy_refused(const struct weir_op *op, int32_t res)
{
	return op->kind == IO_SEND && op->u.io.flags & WEIR_SOCK_ZEROCOPY &&
	       (res == -EOPNOTSUPP || res == -EINVAL || res == -ENOBUFS ||
		res == -ENOMEM);
}

/*
 * Not the result yet?  After a poll, or an error that is ours to deal with, the
 * operation is to be started again, unless somebody wants its end.
 */
static bool goes_on(struct weir_op *op, int32_t res)
{
	uint32_t bit = URING_BIT(op->kind);

	if (op->flags & OP_POLLING) {
		op->flags &= (uint8_t)~OP_POLLING;
		return res >= 0;
	}
	if (res == -EAGAIN && bit & (URING_IN_KINDS | URING_OUT_KINDS)) {
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

/* The kernel says that @op ended with @res, or half ended; see @flags. */
static inline void op_cqe(struct uring *u, struct weir_op *op, int32_t res,
			  uint32_t flags)
{
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
 * Take in what is there now, at most @max.  What callbacks add meanwhile is for
 * the next time, so this ends; each entry is copied, for they may submit.
 */
unsigned int uring_take(struct uring *u, unsigned int max)
{
	const struct io_uring_cq *cq = &u->ring.cq;
	unsigned int head = *cq->khead;
	unsigned int n = __atomic_load_n(cq->ktail, __ATOMIC_ACQUIRE) - head;
	unsigned int end;

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

void uring_serve_ops(struct uring *u)
{
	struct weir_op *op;

	while ((op = u->backlog.first) && uring_in_flight(u) < u->limit) {
		if (!start(u, op))
			return;
		op_queue_del(&u->backlog, op);
	}
}

/*
 * If nothing ends while all the capacity is taken, then what took it waits as
 * well, unless it is sure to end.  That it may end at once after all is an
 * overflow, which costs time and loses nothing.
 *
 * What is sure to end stays within the window: only the others are on top of
 * that, and as they end the limit comes back.
 */
void uring_move_limit(struct uring *u, bool some_ended)
{
	uint32_t most = u->window + uring_in_flight(u) - uring_sure(u);

	if (u->limit > most || (!some_ended && uring_is_stuck(u)))
		u->limit = most;
}
