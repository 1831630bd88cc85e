/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_REACTOR_OP_INTERNAL_H
#define WEIR_REACTOR_OP_INTERNAL_H

/*
 * The library's side of <weir/op.h>, for every layer that starts operations.
 *
 * An operation is in these lists, by state:
 *
 *	IDLE     none; it is the caller's
 *	PENDING  the reactor's live list, and, if its class has it wait
 *	         somewhere, that queue (backlog, worker queue, pool waiters)
 *	READY    the reactor's ready list, or that of what is deferred
 *
 * What an operation does is its class's business.  A class that starts one
 * calls op_begin(), and then, not necessarily at once, op_complete(), exactly
 * once; both are in op-inline.h.  Only they and op_run_ready() move its state.
 */

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include <weir/op.h>

enum op_state {
	OP_IDLE,	/* The caller's; what zeroed memory says. */
	OP_PENDING,	/* Started; no result yet. */
	OP_READY,	/* Has a result; its callback is due. */
};

enum op_flag {
	OP_CANCEL = 1,		/* Somebody asked for its end. */
	OP_TIMED_OUT = 2,	/* And it was the deadline. */
	OP_QUEUED = 4,		/* In a queue; op->next and op->pprev are it. */
	OP_ENGAGED = 8,		/* The kernel or a worker has it. */
	OP_LENT = 16,		/* Its memory is annotated as lent. */
	OP_WORKER = 32,		/* With the worker pool, waiting or running. */
};

/* What kind of operation it is: one static const per kind. */
struct weir_op_class {
	const char *name;	/* For messages: "read". */

	/*
	 * Somebody wants it to end early.  Called once at most, on the
	 * reactor's thread, with OP_CANCEL set, while it is PENDING.  May
	 * complete it with -ECANCELED at once, or see to it that it ends; or
	 * do nothing, if it cannot.  NULL: it cannot.
	 */
	void (*cancel)(struct weir_op *op);

	/*
	 * It came home from another thread, its result in op->res: complete
	 * it.  NULL: just that.
	 */
	void (*home)(struct weir_op *op);

	/*
	 * From look_begin() to look_end(), on the reactor's thread: look
	 * whether there is a result, and op_return() it; and, since the reactor
	 * goes to sleep, or is awake again, have somebody else look, or not.
	 * May come for one whose result is on its way.
	 */
	void (*look)(struct weir_op *op);
	void (*asleep)(struct weir_op *op, bool asleep);
};

_Static_assert(sizeof(struct weir_op) == 256, "part of the ABI");

/* weir_op_cancel(), and its sister for a deadline. */
void op_request_cancel(struct weir_op *op, unsigned int why);

/*
 * Any thread: hand a PENDING @op home, its result in op->res.  Its reactor
 * completes it in its next turn, and is woken for that.  Never fails.
 */
void op_return(struct weir_op *op);

/*
 * Have the class of @op, which is PENDING, look for its end.  False: there is no
 * room.  look_end() comes before its end, and in .look() if it likes.
 */
bool look_begin(struct weir_op *op);
void look_end(struct weir_op *op);

/* Start @op, which ends at @when_ns: weir_sleep_until() that is not refused. */
void op_sleep(struct weir_reactor *r, struct weir_op *op, uint64_t when_ns);

static inline bool op_cancel_wanted(const struct weir_op *op)
{
	return op->flags & OP_CANCEL;
}

/* A queue of operations that can be left from the middle. */
struct op_queue {
	struct weir_op *first;
	struct weir_op **last;
};

static inline void op_queue_init(struct op_queue *q)
{
	q->first = NULL;
	q->last = &q->first;
}

static inline bool op_queue_empty(const struct op_queue *q)
{
	return !q->first;
}

static inline void op_queue_push(struct op_queue *q, struct weir_op *op)
{
	op->next = NULL;
	op->pprev = q->last;
	*q->last = op;
	q->last = &op->next;
	op->flags |= OP_QUEUED;
}

static inline void op_queue_del(struct op_queue *q, struct weir_op *op)
{
	if (op->next)
		op->next->pprev = op->pprev;
	else
		q->last = op->pprev;
	*op->pprev = op->next;
	op->flags &= (uint8_t)~OP_QUEUED;
}

static inline struct weir_op *op_queue_pop(struct op_queue *q)
{
	struct weir_op *op = q->first;

	if (op)
		op_queue_del(q, op);
	return op;
}

#endif /* WEIR_REACTOR_OP_INTERNAL_H */
