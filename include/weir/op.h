/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_OP_H
#define WEIR_OP_H

/*
 * Operations: how every asynchronous call in this library finishes.
 *
 * The caller owns a struct weir_op, normally inside its own request, and hands
 * it to a function that starts work.  The library allocates nothing for it, so
 * starting work cannot fail for want of memory.  There are two exceptions,
 * which weir_reactor_create() describes: worker threads, which are made when
 * they are first needed, and on libev descriptors with high numbers.
 *
 *	struct request {
 *		struct weir_op op;
 *		char block[4096];
 *	};
 *
 *	static void on_read(struct weir_op *op, int64_t res)
 *	{
 *		struct request *rq = weir_container_of(op, struct request, op);
 *		...
 *	}
 *
 *	weir_op_init(&rq->op, on_read);
 *	err = weir_read(reactor, &rq->op, fd, rq->block, sizeof(rq->block), 0);
 *
 * One contract holds for every function that starts an operation:
 *
 *   - A negative errno means that nothing was started: no callback follows,
 *     and the op is the caller's as before.
 *   - 0 means that the callback will run exactly once, with a result >= 0 or
 *     a negative errno.  A cancelled op is no exception: -ECANCELED.
 *   - The callback never runs inside the start function.  It runs from the
 *     reactor's turn, on the reactor's thread, with no lock of the library's
 *     held.  It may start, cancel or free anything, and reuse or free this op.
 *   - From the start until the callback's first line, the op and the buffers
 *     that were given with it belong to the library: do not move, reuse, write
 *     or free them.  Builds for ASan, TSan and valgrind catch a program that
 *     does.
 *
 * Why never inside: a caller that starts work while it walks its own list, or
 * holds its own lock, would be re-entered halfway through.
 *
 *	       start               result              callback
 *	IDLE ----------> PENDING ----------> READY ----------------> IDLE
 *	  ^ refused |       | cancel, deadline: a request; the result still comes
 *	  +---------+       +--> PENDING
 *
 * Re-creates uv_req_t, libxev's Completion and DOCA's task ownership rule.
 */

#include <string.h>

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_op;
struct weir_reactor;

/*
 * Called when an operation has ended: @res is >= 0, or a negative errno.
 * What a result >= 0 counts (bytes, a new descriptor, nothing) is said by the
 * function that started the operation.
 */
typedef void weir_op_fn(struct weir_op *op, int64_t res);

/* What more is known of how an operation ended; see weir_op_get_detail(). */
struct weir_op_detail {
	uint64_t bytes;		/* Moved before it ended, well or badly. */
	int32_t code;		/* The engine's own code; 0: it has none. */
	uint32_t segment;	/* Index of the segment that was being moved. */
};

/* A place in a reactor's timer wheel.  The library's. */
struct weir_timer_node {
	struct weir_timer_node *next;
	struct weir_timer_node **pprev;	/* NULL: in no wheel. */
	uint64_t expires_ns;
	void (*fire)(struct weir_timer_node *node);
};

/* A place among what a reactor looks at while it is awake.  The library's. */
struct weir_poll_hook {
	const struct weir_poll_hook_class *cls;
	struct weir_poll_hook *next;
	struct weir_poll_hook **pprev; /* NULL: not there. */
};

/*
 * An operation.  @fn and @data are the caller's; the rest is the library's and
 * its layout may change inside the size, which is part of the ABI and has
 * capacity to spare.  Zeroed memory with @fn set is an idle operation.
 */
struct weir_op {
	weir_op_fn *fn;		/* Called at the end; must be set. */
	void *data;		/* For the caller; never looked at. */

	/* The library's. */
	struct weir_reactor *reactor;	/* Whose it is, from the start. */
	const struct weir_op_class *cls; /* What it does; its cancel. */
	struct weir_op *next;		/* In the queue where it waits. */
	struct weir_op **pprev;
	int64_t res;
	uint8_t state;
	uint8_t flags;
	uint8_t kind;
	uint8_t entered;		/* Functions of the user's on the stack. */
	uint32_t token;
	struct weir_op *live_next;	/* In the list of all in flight. */
	struct weir_op **live_pprev;

	/* Parameters and progress, by class. */
	union {
		struct {
			int32_t fd;
			uint32_t flags;
			uint64_t addr;	/* Memory, a path or iovecs. */
			uint64_t len;	/* Bytes, or number of iovecs. */
			uint64_t off;
			uint64_t done;	/* Bytes of earlier, short steps. */
			uint64_t aux;
			uint32_t seg;	/* Where in the iovecs: index, */
			int32_t buf_index;	/* registered buffer + 1. */
			uint64_t seg_off;	/* and bytes into it. */
		} io;
		struct weir_timer_node timer;
		struct {
			struct weir_poll_hook hook;
			uint64_t words[5];
		} hooked; /* What its reactor looks at for its end. */
		uint64_t words[8];
	} u;

	struct weir_timer_node deadline;
	struct weir_op_detail detail;
	uint64_t reserved[8];
};

/*
 * Make @op idle, to call @fn at its end.
 *
 * Needed once, not before each start.  Never on an op that is in flight.
 *
 * Any thread.  Never blocks.
 */
static inline void weir_op_init(struct weir_op *op, weir_op_fn *fn)
{
	memset(op, 0, sizeof(*op));
	op->fn = fn;
}

/*
 * Ask that @op end early.
 *
 * A request, not a result: the callback still comes, exactly once, with what
 * the operation would have had if it was too late, or with -ECANCELED.  It
 * comes only when nothing can touch the caller's buffers any more; for a read
 * that a disk is working on that may be when the disk is done.  Until then the
 * library repeats the request until the operation ends; to call this again has
 * no effect.  weir_op_get_detail() says how many bytes were moved.
 *
 * Returns 0 if @op is in flight, or
 *   -EINVAL  @op is idle: never started, or its callback has begun
 *
 * Call on the reactor's thread, callbacks included.  Never blocks, never
 * allocates; capacity to submit a cancel is always kept.
 *
 * Re-creates IORING_OP_ASYNC_CANCEL and uv_cancel(), with an outcome that can
 * be relied on.
 */
WEIR_API int weir_op_cancel(struct weir_op *op);

/*
 * Cancel @op at @deadline_ns, if it is still in flight then.
 *
 * The time is absolute, on weir_reactor_now()'s clock; WEIR_FOREVER means
 * none.  Set before the start it holds for the next operation only; set on an
 * operation in flight it moves the deadline of that one.  An operation that
 * ends because of it has -ETIMEDOUT; one that could not be stopped has its own
 * result, late: a deadline is a cancel at a time, with the same promise about
 * buffers.  An operation that is started when its deadline has passed ends with
 * -ETIMEDOUT and has touched nothing; but a close is done in any case.
 *
 * Returns 0, or
 *   -EINVAL  the result of @op is already there; only its callback is due
 *
 * Call on the reactor's thread.  Never blocks, never allocates.
 */
WEIR_API int weir_op_set_deadline(struct weir_op *op, uint64_t deadline_ns);

/*
 * Copy to *@ret what more is known of how @op ended.
 *
 * Valid in the callback and after it, until @op is started again.
 *
 * Returns 0, or
 *   -EINVAL  @op is in flight
 *
 * Call on the reactor's thread.  Never blocks.
 */
WEIR_API int weir_op_get_detail(const struct weir_op *op,
				struct weir_op_detail *ret);

/*
 * Whether @op is in flight: started, and its callback not yet begun.
 *
 * Returns 1 or 0.  Call on the reactor's thread.  Never blocks.
 */
WEIR_API int weir_op_is_busy(const struct weir_op *op);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_OP_H */
