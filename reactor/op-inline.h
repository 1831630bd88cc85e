/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_REACTOR_OP_INLINE_H
#define WEIR_REACTOR_OP_INLINE_H

/*
 * The two ends of an operation's life, inline because every operation passes
 * both and a call costs as much as what they do.
 */

#include <errno.h>

#include "base/mutation.h"
#include "base/own.h"
#include "reactor/reactor-internal.h"
#include "reactor/stats/publish.h"

/* Returns 0 if @op is not in flight and the reactor starts operations, or why
 * not. */
static inline int op_may_begin(struct weir_reactor *r, const struct weir_op *op)
{
	reactor_check_thread(r);
	if (unlikely(op->state != OP_IDLE || !op->fn))
		return -EINVAL;
	if (unlikely(r->attention & ATTENTION_STOPPING))
		return -ESHUTDOWN;
	if (unlikely(r->n_begun >= r->begun_max)) {
		r->stats.refused++;
		return -EAGAIN;
	}
	return 0;
}

/* Whether the deadline of @op, which is IDLE, has passed. */
static inline bool op_is_late(struct weir_reactor *r, const struct weir_op *op)
{
	return unlikely(op->deadline.expires_ns) &&
	       op->deadline.expires_ns <= r->backend->now(r);
}

/*
 * Called by a start function first: returns op_may_begin(), or OP_ENDED if @op
 * is late; then it has ended with -ETIMEDOUT, without effect, and its callback
 * is due.  The start function returns op_admitted() of this result.
 */
#define OP_ENDED 1

static inline int op_admit(struct weir_reactor *r, struct weir_op *op)
{
	int err = op_may_begin(r, op);

	if (likely(!err && !op->deadline.expires_ns))
		return 0;
	return err ? err : op_admit_timely(r, op);
}

static inline int op_admitted(int err)
{
	return err < 0 ? err : 0;
}

/* IDLE -> PENDING, after op_may_begin() or for what must not be refused. */
static inline void op_enlist(struct weir_reactor *r, struct weir_op *op,
			     const struct weir_op_class *cls)
{
	op->reactor = r;
	op->cls = cls;
	op->state = OP_PENDING;
	op->flags = 0;
	op->detail = (struct weir_op_detail){ 0 };

	op->live_pprev = &r->live;
	if (r->live)
		r->live->live_pprev = &op->live_next;
	op->live_next = r->live;
	r->live = op;
	r->n_begun++;
	if (unlikely(r->n_begun >= r->time_at))
		stats_time_begin(r, op, 0);

	if (unlikely(op->deadline.expires_ns))
		op_deadline_begin(r, op);
	reactor_touch(r);
}

/*
 * Take @op from IDLE to PENDING, as an operation of @cls on @r.
 *
 * Returns 0, or OP_ENDED (see op_admit()), or what every start function may
 * return, with @op untouched:
 *   -EINVAL     @op is in flight, or has no callback
 *   -EAGAIN     too many operations are in flight
 *   -ESHUTDOWN  the reactor is stopping
 */
static inline int op_begin(struct weir_reactor *r, struct weir_op *op,
			   const struct weir_op_class *cls)
{
	int err = op_admit(r, op);

	if (likely(!err))
		op_enlist(r, op, cls);
	return err;
}

/* Like op_begin(), for operations that must not be refused: a close, a
 * clean-up. */
static inline int op_begin_always(struct weir_reactor *r, struct weir_op *op,
				  const struct weir_op_class *cls)
{
	reactor_check_thread(r);
	if (op->state != OP_IDLE || !op->fn)
		return -EINVAL;
	op_enlist(r, op, cls);
	return 0;
}

/* Put @op at the end of the ready list: its callback is due in the next
 * turn. */
static inline void op_make_ready(struct weir_reactor *r, struct weir_op *op,
				 int64_t res)
{
	op->res = res;
	op->state = OP_READY;
	op->next = NULL;
	*r->ready_last = op;
	r->ready_last = &op->next;
}

/*
 * IDLE -> READY at once, with 0: @op is never PENDING, so it cannot be
 * cancelled. For an operation that op_may_begin() has admitted, or that is
 * never refused. On a list of its own, because the sources of this turn come
 * first.
 */
static inline void op_defer(struct weir_reactor *r, struct weir_op *op)
{
	op->reactor = r;
	op->flags = 0;
	op->detail = (struct weir_op_detail){ 0 };
	r->n_begun++;
	op->res = 0;
	op->state = OP_READY;
	op->next = NULL;
	*r->deferred_last = op;
	r->deferred_last = &op->next;
	reactor_touch(r);
}

/* The time, if what begins next on @r is one to be timed, else 0. */
static inline uint64_t op_time_now(struct weir_reactor *r)
{
	return unlikely(r->n_begun + 1 >= r->time_at) ? r->backend->now(r) : 0;
}

/* For weir_op_is_late(): whether @op, which has failed, was ended by its deadline.
 * Its node is in no wheel any more, and can say so. */
static inline void op_set_late(struct weir_op *op, bool late)
{
	op->deadline.next = late ? &op->deadline : NULL;
}

/*
 * IDLE -> READY at once, with @res, after op_may_begin(): @op was done within
 * its start, so it cannot be cancelled, and no deadline matters.  @since is the
 * result of op_time_now() before it was done.
 */
static inline void op_begin_ready(struct weir_reactor *r, struct weir_op *op,
				  const struct weir_op_class *cls, int64_t res,
				  uint64_t since)
{
	op->reactor = r;
	op->cls = cls;
	op->flags = 0;
	op->detail = (struct weir_op_detail){ 0 };
	op_set_late(op, false);
	r->n_begun++;
	if (unlikely(since))
		stats_time_begin(r, op, since);
	op_make_ready(r, op, res);
	reactor_touch(r);
}

/* Remove @op from the live list, and its deadline from the wheel. */
static inline void op_delist(struct weir_reactor *r, struct weir_op *op)
{
	*op->live_pprev = op->live_next;
	if (op->live_next)
		op->live_next->live_pprev = op->live_pprev;
	if (unlikely(op->deadline.expires_ns) && !mutation(double_completion))
		wheel_del(&r->wheel, &op->deadline);
}

/* Returns the result for the callback: a cancel by a deadline is a timeout. */
static inline int64_t op_result(struct weir_op *op, int64_t res)
{
	bool late = res == -ECANCELED && op->flags & OP_TIMED_OUT;

	if (likely(res >= 0))
		return res;
	op_set_late(op, late);
	return late ? -ETIMEDOUT : res;
}

/*
 * PENDING -> READY: @res goes to the callback in the reactor's next turn, or
 * later in this one.  -ECANCELED after a deadline becomes -ETIMEDOUT.  Takes
 * the op off the live list; it must be in no queue any more.
 */
static inline void op_complete(struct weir_op *op, int64_t res)
{
	struct weir_reactor *r = op->reactor;

	debug_check(op->state == OP_PENDING && !(op->flags & OP_QUEUED));
	op_delist(r, op);
	op_make_ready(r, op, op_result(op, res));
	reactor_touch(r);
}

/* The parts of an end that few operations need. */
static inline void op_leave(struct weir_reactor *r, struct weir_op *op,
			    int64_t res)
{
	if (op->flags & OP_TIMED)
		stats_time_end(r, op, res);
	if (op->flags & OP_LEAVES)
		op->cls->leave(op);
}

/* Make @op IDLE, remove it from all lists, and call its callback. */
static inline void op_call_back(struct weir_reactor *r, struct weir_op *op,
				int64_t res)
{
	r->begun_max++;
	op->state = OP_IDLE;
	op->deadline.expires_ns = 0;
	if (unlikely(op->flags & (OP_LEAVES | OP_TIMED)))
		op_leave(r, op, res);
	op->fn(op, res);
}

/* PENDING -> IDLE, and its callback at once.  In the loop only, as the last
 * thing that is done: the callback may destroy whatever there is. */
static inline void op_finish(struct weir_op *op, int64_t res)
{
	struct weir_reactor *r = op->reactor;

	debug_check(op->state == OP_PENDING && !(op->flags & OP_QUEUED));
	op_delist(r, op);
	op_call_back(r, op, op_result(op, res));
}

/*
 * Count the threads that are inside the mailbox of this reactor.  While there
 * is one, the reactor does not stop between that thread's check that it is not
 * stopping and its push, and is not destroyed while that thread wakes it.
 * mailbox_leave() is the last access to it.
 */
static inline void mailbox_visit(struct weir_reactor *r)
{
	atomic_fetch_add(&r->mailbox.visitors, 1);
}

static inline void mailbox_leave(struct weir_reactor *r)
{
	own_before(&r->mailbox.visitors);
	atomic_fetch_sub(&r->mailbox.visitors, 1);
}

/* op_return() with @res, by a thread that may run on while the reactor is
 * destroyed. */
static inline void op_send_back(struct weir_op *op, int64_t res)
{
	struct weir_reactor *r = op->reactor;

	debug_check(op->state == OP_PENDING);
	mailbox_visit(r);
	op->res = res;
	mailbox_send(r, op);
	mailbox_leave(r);
}

/*
 * READY -> IDLE without a callback, for the owner of @op, which has just
 * started it: if it has ended in its start, and nothing else has since.  @last
 * is what r->ready_last was before the start.
 */
static inline bool op_take_ended(struct weir_op *op, struct weir_op **last)
{
	struct weir_reactor *r = op->reactor;

	if (op->state != OP_READY || r->ready_last != &op->next || *last != op)
		return false;
	*last = NULL;
	r->ready_last = last;
	r->begun_max++;
	op->state = OP_IDLE;
	op->deadline.expires_ns = 0;
	if (unlikely(op->flags & (OP_LEAVES | OP_TIMED)))
		op_leave(r, op, op->res);
	return true;
}

/*
 * PENDING -> IDLE: what was begun is refused after all, still inside the start.
 * No callback follows; a deadline that was set before is set again.
 */
static inline void op_abandon(struct weir_op *op)
{
	struct weir_reactor *r = op->reactor;

	check(op->state == OP_PENDING && !(op->flags & OP_QUEUED));
	op_delist(r, op);
	r->n_begun--;
	op->state = OP_IDLE;
	op->entered &= (uint8_t)~OP_CANCEL_DUE;
}

/*
 * A function of the user's is about to be called for @op, and may call any
 * other.  Until op_exit(), when it has returned and @op is what it then is, a
 * cancel of @op (by the user, a deadline, a stop of whatever it is part of) is
 * only recorded, and the reactor makes no turn, so that no callback runs.  The
 * two may be nested.
 */
static inline void op_enter(struct weir_op *op)
{
	reactor_enter(op->reactor);
	op->entered++;
}

/* On the last exit: if @op was to be cancelled meanwhile, and has neither ended
 * nor been refused, cancel it. */
static inline void op_exit(struct weir_op *op)
{
	reactor_exit(op->reactor);
	if (likely(--op->entered != OP_CANCEL_DUE))
		return;
	op->entered = 0;
	if (op->state == OP_PENDING && op->cls->cancel)
		op->cls->cancel(op);
}

#endif /* WEIR_REACTOR_OP_INLINE_H */
