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
 *	READY    the reactor's ready list, or that of deferred operations
 *
 * The class of an operation defines what it does.  A class that starts one
 * calls op_begin(), and then, not necessarily at once, op_complete(), exactly
 * once; both are in op-inline.h.  Only they and op_run_ready() change its
 * state.
 */

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include <weir/op.h>

/* Reserved words of an operation that is timed (stats/publish.c); a backend may
 * have them all for one that is not. */
enum { OP_BEGUN_NS, OP_WEIGHT };

enum op_state {
	OP_IDLE,	/* The caller's; zeroed memory. */
	OP_PENDING,	/* Started; no result yet. */
	OP_READY,	/* Has a result; its callback is due. */
};

enum op_flag {
	OP_CANCEL = 1,		/* Its end was requested. */
	OP_TIMED_OUT = 2,	/* And it was the deadline. */
	OP_QUEUED = 4,		/* In a queue; op->next and op->pprev are it. */
	OP_ENGAGED = 8,		/* The kernel or a worker has it. */
	OP_LENT = 16,		/* Its memory is annotated as lent. */
	OP_WORKER = 32,		/* A worker has it, or will. */
	OP_LEAVES = 64,		/* Its class has a .leave(), to be called. */
	OP_TIMED = 128,		/* It is timed, for the page of statistics. */

	/*
	 * A poll precedes its next try.  The ring uses this for its own
	 * operations until they end.  None of those has a .leave(), so the bit
	 * is shared.
	 */
	OP_POLLING = OP_LEAVES,
};

/* In op->entered: a cancel came meanwhile. */
#define OP_CANCEL_DUE 128

/* A kind of operation: one static const per kind. */
struct weir_op_class {
	const char *name;	/* For messages: "read"; NULL: see op_name(). */

	/*
	 * End the operation early.  Called once at most, on the reactor's
	 * thread, with OP_CANCEL set, while it is PENDING and not between
	 * op_enter() and op_exit().  May complete it with -ECANCELED at once,
	 * or cause it to end, or do nothing if it cannot be ended.  NULL: the
	 * last.  Called again only if it asks for that, by op_repeat_cancel().
	 */
	void (*cancel)(struct weir_op *op);

	/*
	 * It was returned from another thread, its result in op->res: complete
	 * it.  NULL: just that.
	 */
	void (*returned)(struct weir_op *op);

	/*
	 * Its callback is about to begin: what it was the operation of is idle
	 * from now on.  Called if OP_LEAVES is set, after op_begin(), which
	 * few do: so the others pay next to nothing for it.
	 */
	void (*leave)(struct weir_op *op);
};

/*
 * The functions of a node in a reactor's list of poll hooks, which are called
 * from hook_begin() to hook_end(), on its thread.  A hook of <weir/poll-hook.h>
 * is a node whose class calls the user's functions; an operation that must not
 * allocate embeds a node of its own.
 */
struct weir_hook_class {
	/*
	 * Poll.  Called often while the reactor spins, and in each turn if
	 * there is no .deliver().  Returns whether .deliver() has something to
	 * do, or an operation was completed; operations returned by op_return()
	 * or by a deferred call need not be reported.  Calls no callback of the
	 * library's.
	 */
	bool (*poll)(struct weir_hook_node *node);

	/*
	 * In each turn: poll, and run at most @max callbacks that are due.
	 * Returns how many, or 1 if there was something else to do.  NULL:
	 * there are none.
	 */
	unsigned int (*deliver)(struct weir_hook_node *node, unsigned int max);

	/*
	 * The reactor is about to sleep: arrange for a wake-up.  Returns when
	 * the reactor must poll again at the latest: 0 if now, so that it must
	 * not sleep, WEIR_FOREVER if it need not.  May be called several times
	 * in a row.
	 */
	uint64_t (*asleep)(struct weir_hook_node *node);

	/* The reactor is awake again: no other thread needs to watch.  Calls no
	 * function of the user's.  NULL: ignored. */
	void (*awake)(struct weir_hook_node *node);
};

/* What programs were compiled with. */
_Static_assert(sizeof(struct weir_op) == 320 &&
	       !(sizeof(struct weir_op) % 64), "part of the ABI");
_Static_assert(!offsetof(struct weir_op, fn) &&
	       offsetof(struct weir_op, data) == 8, "part of the ABI");
_Static_assert(sizeof(((struct weir_op *)0)->reserved) >= 64,
	       "later versions need it");

/* Leave a message of @call for @err, with which @op could not be begun, unless it
 * is OP_ENDED.  Returns op_admitted(@err). */
__attribute__((cold)) int op_refused(int err, const struct weir_op *op,
				     const char *call);

/* weir_op_cancel(), and the same for a deadline. */
void op_request_cancel(struct weir_op *op, unsigned int why);

/* From a class's .cancel(): @op may continue in spite of it, so call .cancel()
 * again, a little later each time, until @op has ended. */
void op_repeat_cancel(struct weir_op *op);

/*
 * Any thread: return a PENDING @op to its reactor, its result in op->res.  The
 * reactor is woken, and completes it in its next turn.  Never fails.
 */
void op_return(struct weir_op *op);

/*
 * Have @r poll @node, which is embedded in what it is about, by @cls.  Each
 * costs every turn, and all of a spin: where it need not be, only if
 * hook_has_capacity().  To end what is not polled is no error; the functions of any node
 * may end it.
 */
void hook_begin(struct weir_reactor *r, struct weir_hook_node *node,
		const struct weir_hook_class *cls);
void hook_end(struct weir_reactor *r, struct weir_hook_node *node);

/* Start @op, which ends at @when_ns: weir_sleep_until() that is not refused. */
void op_sleep(struct weir_reactor *r, struct weir_op *op, uint64_t when_ns);

/* What @op does, for messages and statistics: a literal. */
static inline const char *op_name(const struct weir_op *op)
{
	return op->cls->name ? op->cls->name : op->u.own.kind->name;
}

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
