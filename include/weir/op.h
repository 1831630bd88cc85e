/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_OP_H
#define WEIR_OP_H

/*
 * Operations: the contract of every asynchronous call in this library.
 *
 * The caller owns a struct weir_op, normally inside its own request, and passes
 * it to a function that starts work.  The library allocates nothing for it, so
 * starting work cannot fail for lack of memory.  There are two exceptions,
 * which weir_reactor_create() describes: worker threads, which are created when
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
 *   - If it returns a negative errno, nothing was started: no callback runs,
 *     and the caller still owns the op.
 *   - If it returns 0, the callback will run exactly once, with a result >= 0
 *     or a negative errno.  This holds for a cancelled op too: -ECANCELED.
 *   - The callback never runs inside the start function.  It runs from the
 *     reactor's turn, on the reactor's thread, with no lock of the library
 *     held.  It may start, cancel or free any object, and reuse or free this
 *     op.
 *   - From the start until the callback's first line, the library owns the op
 *     and the buffers that were given with it: do not move, reuse, write or
 *     free them.  Builds for ASan, TSan and valgrind detect a program that
 *     does.
 *
 * The callback never runs inside the start function because a caller may walk
 * its own list, or hold its own lock, while it starts work.
 *
 *	       start               result              callback
 *	IDLE ----------> PENDING ----------> READY ----------------> IDLE
 *	  ^ refused |       | cancel, deadline: a request; the result still comes
 *	  +---------+       +--> PENDING
 *
 * A program makes operations of its own with weir_op_start() and
 * weir_op_finish(): a DNS query, a handshake or a call to a database then has
 * this contract too.
 *
 * Re-creates uv_req_t, libxev's Completion and DOCA's task ownership rule.
 */

#include <string.h>

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_op;
struct weir_op_kind;
struct weir_reactor;

/*
 * Called when an operation has ended: @res is >= 0, or a negative errno.
 * The function that started the operation defines a result >= 0 (bytes, a new
 * descriptor, nothing).
 */
typedef void weir_op_fn(struct weir_op *op, int64_t res);

/* Details of how an operation ended; see weir_op_get_detail(). */
struct weir_op_detail {
	uint64_t bytes;		/* Moved before it ended, also on failure. */
	int32_t code;		/* The engine's own code; 0: it has none. */
	uint32_t segment;	/* Index of the segment that was being moved. */
};

/* A node of a reactor's timer wheel.  Private. */
struct weir_timer_node {
	struct weir_timer_node *next;
	struct weir_timer_node **pprev;	/* NULL: not in a wheel. */
	uint64_t expires_ns;
	void (*fire)(struct weir_timer_node *node);
};

/* A node of a reactor's list of poll hooks.  Private. */
struct weir_hook_node {
	const struct weir_hook_class *cls;
	struct weir_hook_node *next;
	struct weir_hook_node **pprev; /* NULL: not in the list. */
};

/*
 * An operation, 320 bytes.  The caller sets @fn and @data; the other members
 * are private.
 *
 * Their layout may change; the size and the places of @fn and @data are part of
 * the ABI.  .backend is what the backend keeps for an operation in flight: 64
 * bytes, all of which one or another of them uses.  .reserved is for later
 * versions, and this one uses none of it: leave it zero, as weir_op_init() does.
 * Its value is not checked.  Zeroed memory with @fn set is an idle operation.
 */
struct weir_op {
	weir_op_fn *fn;		/* Called at the end; must be set. */
	void *data;		/* For the caller; the library ignores it. */

	/* Private. */
	struct weir_reactor *reactor;	/* Its owner, from the start on. */
	const struct weir_op_class *cls; /* Its kind, and its cancel. */
	struct weir_op *next;		/* In the queue where it waits. */
	struct weir_op **pprev;
	int64_t res;
	uint8_t state;
	uint8_t flags;
	uint8_t kind;
	uint8_t entered;		/* User functions on the stack. */
	uint32_t rw;			/* weir_op_set_rw() */
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
			uint32_t seg;	/* Position in the iovecs: index, */
			int32_t buf_index;	/* registered buffer + 1. */
			uint64_t seg_off;	/* and bytes into it. */
		} io;
		struct weir_timer_node timer;
		struct {
			struct weir_hook_node hook;
			uint64_t words[5];
		} hooked; /* Its reactor polls for its end. */
		struct {
			uint64_t mark;	/* Started, finished; atomic. */
			const struct weir_op_kind *kind;
			void (*cancel)(struct weir_op *op, void *arg);
			void *arg;
			void *lent;	/* weir_op_lend() */
			uint64_t lent_len;
			uint32_t lent_how;
			uint32_t lent_sum;
		} own; /* weir_op_start(), weir_op_begin() */
		uint64_t words[8];
	} u;

	struct weir_timer_node deadline;
	struct weir_op_detail detail;
	uint64_t backend[8];
	uint64_t reserved[8];	/* 0. */
};

/*
 * Initialize @op as an idle operation that calls @fn at its end.
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
 * Request the cancel of @op.
 *
 * The callback still runs, exactly once: with -ECANCELED, or, if the request
 * was too late, with the result of the operation.  It runs only when neither
 * the kernel nor a device can access the caller's buffers any more; for a read
 * that a disk is executing, this may be when the disk has finished.  The
 * library repeats the request until the operation ends; calling this function
 * again has no effect.  weir_op_get_detail() tells how many bytes were moved.
 *
 * Returns 0 if @op is in flight, or
 *   -EINVAL  @op is idle: never started, or its callback has begun
 *
 * Call on the reactor's thread, callbacks included.  Never blocks, never
 * allocates; capacity to submit a cancel is always reserved.
 *
 * Re-creates io_uring_prep_cancel() and uv_cancel(), with a reliable outcome.
 */
WEIR_API int weir_op_cancel(struct weir_op *op);

/*
 * Cancel @op at @deadline_ns, if it is still in flight then.
 *
 * The time is absolute, on weir_reactor_now()'s clock; WEIR_FOREVER means no
 * deadline.  A deadline that is set before the start is valid for the next
 * operation only; one that is set on an operation in flight replaces the
 * previous one.  At the deadline the library requests a cancel, with the same
 * guarantee about buffers: the operation ends with -ETIMEDOUT, or later with
 * its own result if it could not be stopped; see weir_op_is_late().  An operation
 * whose deadline has passed at its start ends with -ETIMEDOUT and touches nothing;
 * only a close is done in any case, and for one of weir_op_start() the loop calls
 * the cancel function.
 *
 * Returns 0, or
 *   -EINVAL  @op has its result already, and its callback is due
 *
 * Call on the reactor's thread.  Never blocks, never allocates.
 *
 * Re-creates io_uring_prep_link_timeout().
 */
WEIR_API int weir_op_set_deadline(struct weir_op *op, uint64_t deadline_ns);

/*
 * Get the bytes moved, the segment and the engine's code of an ended operation.
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
 * Tell whether the deadline has ended @op, which has ended with -ETIMEDOUT.
 *
 * A connection that gets no answer any more ends an operation with -ETIMEDOUT,
 * too, and after that seems to end as if its peer had closed it.  So a program
 * that tries again after a deadline asks this first.
 *
 * Valid in the callback and after it, until @op is started again.
 *
 * Returns 1 if it was the deadline, or 0.  Call on the reactor's thread.  Never
 * blocks.
 *
 * Re-creates the difference between -ECANCELED of a request that
 * io_uring_prep_link_timeout() has cancelled and ETIMEDOUT of tcp(7).
 */
WEIR_API int weir_op_is_late(const struct weir_op *op);

/*
 * Tell whether @op is in flight: started, and its callback not yet begun.
 *
 * Returns 1 or 0.  Call on the reactor's thread.  Never blocks.
 */
WEIR_API int weir_op_is_busy(const struct weir_op *op);

/*
 * Called when an operation of weir_op_start() is to end early: a cancel, its
 * deadline, or a reactor that stops.
 *
 * Called on the reactor's thread, at most once for each start, and never inside
 * weir_op_start().  It may call weir_op_finish() at once, cause the work to end
 * soon, or do nothing if the work cannot be stopped: the operation is in flight
 * until weir_op_finish(), and the result given there is its result.
 *
 * It may start, cancel and finish any operation, and destroy any object but the
 * reactor.  The reactor's turn, run and destroy return -EBUSY to it.
 */
typedef void weir_op_cancel_fn(struct weir_op *op, void *arg);

/*
 * Start @op as an operation of the caller's own, which weir_op_finish() ends.
 *
 * The library does no work for it.  It counts @op as in flight, watches its
 * deadline, passes on its cancel, and calls its callback once.  So a function
 * that begins with this call starts an operation like any other; it may be a
 * step of a chain, see weir_chain_add_op().
 *
 *	int resolve(struct weir_reactor *r, struct weir_op *op, struct query *q)
 *	{
 *		int err = weir_op_start(r, op, resolve_cancel, q);
 *
 *		if (!err)
 *			send_query(q);	// may call weir_op_finish()
 *		return err;
 *	}
 *
 * The library calls @cancel with @arg when @op is to end early.  With NULL it
 * cannot: then a stop of @r waits for weir_op_finish().  Keep what @arg points
 * to until the callback of @op.  If the deadline of @op has passed already, the
 * loop calls @cancel in its next turn.
 *
 * Returns 0, or
 *   -EINVAL     @op is in flight, or has no callback
 *   -EAGAIN     .ops_max operations are in flight
 *   -ESHUTDOWN  @r is stopping
 *
 * Call on @r's thread.  Never blocks, never allocates, no system call.
 *
 * Re-creates nng_aio_start() and nng_aio_begin().
 */
WEIR_API int weir_op_start(struct weir_reactor *r, struct weir_op *op,
			   weir_op_cancel_fn *cancel, void *arg);

/*
 * Finish @op, which weir_op_start() or weir_op_begin() has started, with @res.
 *
 * The loop calls the callback with @res, never inside this call.  After a
 * deadline -ECANCELED becomes -ETIMEDOUT.  A negative value that is not an
 * errno becomes -EIO.
 *
 * Of several calls for one start, the first decides the result, and the others
 * are refused.  A cancel never decides it: it only calls the cancel function.
 * After a call on the reactor's thread the cancel function is not called any
 * more.  A call on another thread may overlap with the cancel function; that
 * has returned when the callback begins.
 *
 * The callback may free @op, so do not access @op after this call on another
 * thread than the reactor's.  The reactor is not destroyed before this call has
 * released it.
 *
 * Returns 0, or
 *   -EALREADY  @op was finished already
 *   -EINVAL    @op was not started by weir_op_start() or weir_op_begin()
 *
 * Any thread.  Never blocks, never allocates, takes no lock.  In a simulated
 * world: its thread.
 *
 * Re-creates nng_aio_finish().
 */
WEIR_API int weir_op_finish(struct weir_op *op, int64_t res);

/* What becomes of a buffer; weir_op_lend(). */
#define WEIR_LEND_IN 1u		/* It is written to. */
#define WEIR_LEND_OUT 2u	/* It is read, and must not change. */

/*
 * Lend @len bytes at @buf to @op, which weir_op_start() or weir_op_begin() has
 * started, until its callback begins.
 *
 * This is for ASan, TSan and valgrind, which do not see what a device does, or a
 * library that was built without them.  In builds for these tools, a program
 * that touches, changes or frees the buffer in between is stopped, as for the
 * buffers of weir_recv() and weir_send(); in other builds the call does nothing.
 * Do not lend what code of the program itself writes or reads: the tools see
 * that.
 *
 * If @op succeeds, all bytes of a buffer that was lent by WEIR_LEND_IN count as
 * written.
 *
 * Returns 0, or
 *   -EINVAL  @op is not in flight by weir_op_start(), @how is neither
 *            WEIR_LEND_IN nor WEIR_LEND_OUT, or @buf is NULL
 *   -EBUSY   @op has a buffer already
 *
 * Call on the reactor's thread.  Never blocks, never allocates.
 *
 * Re-creates __tsan_release() and ASAN_POISON_MEMORY_REGION(), for an operation.
 */
WEIR_API int weir_op_lend(struct weir_op *op, void *buf, size_t len,
			  uint32_t how);

/*
 * A kind of operation that a library above weir has: one static const for each.
 * Set .size to the size of the struct.
 */
struct weir_op_kind {
	size_t size;
	const char *name;	/* For messages and statistics: "dial". */
	weir_op_cancel_fn *cancel; /* As weir_op_start() takes it, or NULL. */

	/*
	 * The callback of @op is about to begin, and the library has no more to
	 * do with @op.  May call what a callback may, but neither destroy
	 * anything nor start @op.  NULL: not needed.
	 */
	void (*leave)(struct weir_op *op, void *arg);
};

/*
 * Start @op as weir_op_start() does, as an operation of @kind.
 *
 * For libraries, whose functions that start an operation call it first:
 *
 *	int dial(struct weir_reactor *r, struct weir_op *op, struct line *line)
 *	{
 *		int err = weir_op_begin(r, op, &dial_kind, line);
 *
 *		if (err)
 *			return err < 0 ? err : 0;
 *		err = off_hook(line);	// may call weir_op_finish()
 *		if (err)
 *			weir_op_abandon(op);
 *		return err;
 *	}
 *
 * So an operation whose deadline has passed touches nothing: the call returns 1,
 * and @op ends with -ETIMEDOUT, without a call of the functions of @kind.
 *
 * The functions of @kind get @arg.
 *
 * Returns 0, 1, or
 *   -EINVAL     @op is in flight, or has no callback; or .name of @kind is NULL,
 *               or .size too small
 *   -E2BIG      @kind sets a member that this version does not have
 *   -EAGAIN     .ops_max operations are in flight
 *   -ESHUTDOWN  @r is stopping
 *
 * Call on @r's thread.  Never blocks, never allocates, no system call.
 *
 * Re-creates nng_aio_start(), and uv__req_init() of libuv's own requests.
 */
WEIR_API int weir_op_begin(struct weir_reactor *r, struct weir_op *op,
			   const struct weir_op_kind *kind, void *arg);

/*
 * Undo weir_op_begin() or weir_op_start() of @op, which is refused after all.
 *
 * Only the function that has called it may do this, before it returns.  No
 * callback follows, and a deadline that was set before is set again.
 *
 * Returns 0, or
 *   -EINVAL  @op is not in flight by weir_op_begin() or weir_op_start(), or was
 *            finished
 *
 * Call on the reactor's thread.  Never blocks, never allocates.
 *
 * Re-creates uv__req_unregister() of libuv's own requests.
 */
WEIR_API int weir_op_abandon(struct weir_op *op);

/*
 * Set what weir_op_get_detail() gives for @op, before weir_op_finish().
 *
 * Returns 0, or
 *   -EINVAL  @op is not in flight by weir_op_begin() or weir_op_start(), or was
 *            finished
 *
 * Call on the reactor's thread.  Never blocks.
 *
 * Re-creates nng_aio_set_output().
 */
WEIR_API int weir_op_set_detail(struct weir_op *op,
				const struct weir_op_detail *detail);

/* Bytes of an operation for the library that does it; weir_op_area(). */
#define WEIR_OP_AREA 48

/*
 * Get memory in @op that the library that does it may use between
 * weir_op_begin() or weir_op_start() and weir_op_finish().
 *
 * It is not cleared.
 *
 * Returns WEIR_OP_AREA bytes, aligned to 8.
 *
 * Any thread.  Never blocks.
 *
 * Re-creates the reserved members of uv_req_t, and nng_aio_set_input().
 */
WEIR_API void *weir_op_area(struct weir_op *op);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_OP_H */
