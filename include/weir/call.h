/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_CALL_H
#define WEIR_CALL_H

/*
 * Calls from one reactor to another: run there, complete here.
 *
 *	static int64_t look_up(void *arg)	// on the other's thread
 *	{
 *		struct query *q = arg;
 *		...
 *		return found;
 *	}
 *
 *	weir_op_init(&q->op, on_found);
 *	err = weir_call(here, &q->op, there, look_up, q);
 *	if (err == -EAGAIN)
 *		weir_capacity_wait(here, &q->capacity, there);
 *
 * New work is bounded: when the ring or the mailbox is full, the call is
 * refused with -EAGAIN.  Use weir_capacity_wait() to learn when there is
 * capacity.  Replies always succeed: each call reserves the place for its
 * reply.
 *
 * Between the reactors of a group (<weir/group.h>) calls and posts use a ring
 * of their own for each pair.  They are published at the end of a turn, and
 * after every 32, and cost some nanoseconds.  Between other reactors they use
 * the mailbox.
 *
 * Re-creates Seastar's smp::submit_to() and spdk_thread_send_msg() with a
 * reply.
 */

#include <weir/base.h>
#include <weir/op.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_reactor;

/*
 * Run @fn(@arg) on @to, in its turn, and complete @op on @r with its result.
 *
 * Calls from @r to @to, and posts to it in @r's turns, run in the order in
 * which they were made; so do those outside of turns, if the thread has no
 * other reactor.  Within a group up to 32 messages may still be accepted after
 * @to has begun to stop; they are run.
 * @fn must not block; for long work it replies later, by a call of its own.
 * weir_call() may be called from anywhere on @r's thread; outside a turn the
 * message is sent at once, in a turn together with the others of the turn.
 *
 * A cancel or a deadline reaches a call that has not run: it then does not run,
 * and ends with -ECANCELED or -ETIMEDOUT.  A call that has run ends with its
 * result.  In both cases the reply comes from @to, so the caller owns @arg
 * again when @op has ended.
 *
 * Returns 0, or what weir_defer() returns, or
 *   -EINVAL     @fn or @to is NULL
 *   -EAGAIN     the ring or mailbox to @to is full, or .ops_max is reached
 *   -ESHUTDOWN  @r or @to is stopping or stopped: @fn will not run
 *
 * Call on @r's thread.  Never blocks, never allocates, takes no lock.  @to must
 * not be destroyed before @op has ended; a group makes sure of that.
 */
WEIR_API int weir_call(struct weir_reactor *r, struct weir_op *op,
		       struct weir_reactor *to, int64_t (*fn)(void *arg),
		       void *arg);

/*
 * Complete @op on @r with 0 when there is capacity for posts and calls to @to.
 *
 * Use it after a call or post was refused with -EAGAIN.  There is capacity when
 * half of the ring or mailbox is free; then as many waiting operations complete
 * as messages fit, first come first served.  Capacity is not reserved: if
 * others have used it, wait again.  If there is capacity already, @op completes
 * in the next turn.  @op can be cancelled and can have a deadline.  It ends
 * with -ESHUTDOWN when @to stops.
 *
 * Returns 0, or what weir_defer() returns, or
 *   -EINVAL     @to is NULL
 *   -ESHUTDOWN  @r or @to is stopping or stopped
 *
 * Call on @r's thread.  Never blocks, never allocates, takes no lock.  @to must
 * not be destroyed before @op has ended.
 */
WEIR_API int weir_capacity_wait(struct weir_reactor *r, struct weir_op *op,
				struct weir_reactor *to);

#ifdef __cplusplus
}
#endif
#endif /* WEIR_CALL_H */
