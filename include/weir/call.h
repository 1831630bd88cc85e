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
 * capacity. Replies always succeed: each call reserves the place for its
 * reply.
 *
 * Between the reactors of a group (<weir/group.h>) calls and posts go by a ring
 * of each pair's own.  They are shown to the other side at the end of a turn,
 * and after every 32, and cost some nanoseconds.  Between others they go by the
 * mailbox that all share.
 *
 * Re-creates Seastar's smp::submit_to() and spdk_thread_send_msg() with an
 * answer.
 */

#include <weir/base.h>
#include <weir/op.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_reactor;

/*
 * Have @to run @fn(@arg) in its turn; @op completes on @r with what it returns.
 *
 * Calls from @r to @to, and posts to it in @r's turns, are run in the order in
 * which they were made; so are those outside of turns, if the thread has no
 * other reactor.  Within a group up to 32 messages may still be accepted when
 * @to has begun to stop; they are run.
 * @fn must not wait, as no callback may: what takes longer answers by a call of
 * its own.  It may be called from anywhere on @r's thread; outside a turn it is
 * sent at once, in a turn with all else that this turn sends.
 *
 * A cancel or a deadline reaches a call that was not run yet: then it is not
 * run, and ends with -ECANCELED or -ETIMEDOUT.  What has run has its result.
 * In both cases the answer comes from @to, so when @op has ended @arg is the
 * caller's again.
 *
 * Returns 0, or what weir_defer() returns, or
 *   -EINVAL     @fn or @to is NULL
 *   -EAGAIN     the way to @to is full, or .ops_max is reached
 *   -ESHUTDOWN  @r or @to is stopping or stopped: @fn will not run
 *
 * Call on @r's thread.  Never blocks, never allocates, takes no lock.  @to must
 * not be destroyed before @op has ended: reactors of a group see to that.
 */
WEIR_API int weir_call(struct weir_reactor *r, struct weir_op *op,
		       struct weir_reactor *to, int64_t (*fn)(void *arg),
		       void *arg);

/*
 * Complete @op on @r with 0 when there is capacity for posts and calls to @to.
 *
 * Use it after a call or post was refused with -EAGAIN.  There is capacity
 * when half of the way is free; then as many waiters are told as messages
 * fit, first come first served, and each once.  That is no reservation:
 * others may be faster, and then one asks again.  If there is capacity
 * already, @op completes in the next turn.  @op can be cancelled, and have a
 * deadline.  It ends with -ESHUTDOWN when @to stops.
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
