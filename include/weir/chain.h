/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_CHAIN_H
#define WEIR_CHAIN_H

/*
 * A chain: steps with dependencies, run as one operation.
 *
 * A step is a job, an operation that a function of the user's starts, or a
 * plain call.  Each names a step that it comes after; more dependencies can be
 * added, on success, on failure or on the end of another step.
 *
 *	weir_chain_create(&chain, r, NULL);
 *	a = weir_chain_add_job(chain, WEIR_CHAIN_FIRST, dma, &rq->read);
 *	b = weir_chain_add_job(chain, a, dma, &rq->crc);
 *	c = weir_chain_add_job(chain, b, dma, &rq->write);
 *	err = weir_chain_start(chain, &rq->op);
 *
 * A step runs once all its dependencies have ended as they should; if one ends
 * otherwise the step is skipped.  A step that fails, and has no dependant that
 * waits for its failure, fails the chain: what is in flight ends, nothing more
 * is begun but steps that wait for nothing but the end of others, which is
 * where to clean up, and the chain's result is that of the first such failure.
 * Cancelling the chain (weir_op_cancel() of its operation, a deadline, a
 * stopping reactor) cancels the steps in flight and skips all the rest but
 * finally steps, see weir_chain_set_finally().
 *
 * Which steps that have not begun still begin, once something has gone wrong:
 *
 *	the step waits for    its dependency    another step     the chain is
 *	                      has failed        has failed (1)   cancelled (2)
 *	ON_DONE               no                no               no
 *	ON_FAILED             yes               no               no
 *	ON_END only           yes               yes              no
 *	nothing               -                 no               no
 *	(a finally step)      yes               yes              yes
 *
 *	(1) and has failed the chain: no step waits for its failure
 *	(2) or its deadline has passed
 *
 *	step:  IDLE -> RUNNING -> DONE, FAILED or CANCELLED
 *	         +---> SKIPPED
 *
 * It is in flight from its start until its callback begins, and nothing else
 * says that it has ended: from the callback's first line on it can be started
 * again, which allocates nothing, changed, or destroyed.
 *
 * A copy in memory and, as the next step, the CRC-32C of what was copied are
 * done in one pass, as if they had run one after the other.  A job of a step
 * beside them that writes to the same bytes is a race, as it would be without.
 *
 * A job may belong to a DMA context of another reactor: the step hops there and
 * is returned.  On its way it counts as running; it is not refused, and a
 * cancel reaches it there.
 *
 * Re-creates SPDK's accel sequence and doca_graph, and adds cancel, deadline,
 * branches and the status of each step.
 */

#include <weir/op.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_chain;
struct weir_dma;
struct weir_job;

/* As the step to come after: none; it begins when the chain does. */
#define WEIR_CHAIN_FIRST (-1)

/* How a dependency has to end for its dependant to run. */
#define WEIR_CHAIN_ON_DONE 1u	/* With success. */
#define WEIR_CHAIN_ON_FAILED 2u	/* With an error. */
#define WEIR_CHAIN_ON_END 3u	/* In any way; or it was skipped. */

/* States of a step. */
#define WEIR_STEP_IDLE 0	/* Not reached, or the chain never ran. */
#define WEIR_STEP_RUNNING 1
#define WEIR_STEP_DONE 2
#define WEIR_STEP_FAILED 3
#define WEIR_STEP_CANCELLED 4	/* Begun, and ended by the cancel. */
#define WEIR_STEP_SKIPPED 5	/* Never begun, in the last run. */

/*
 * Options of weir_chain_create().  Set .size to the size of the struct; 0
 * is the default of every other member.
 */
struct weir_chain_opts {
	size_t size;
	uint32_t steps;		/* That fit; 0: 8; at most 1024. */
	uint32_t deps;		/* Dependencies that fit; 0: twice .steps. */
	void *ctx;		/* For weir_chain_ctx(). */
};

/* What became of a step; weir_chain_get_step(). */
struct weir_chain_step {
	size_t size;		/* Set by the caller: the size of the struct. */
	uint32_t state;		/* WEIR_STEP_ */
	uint32_t reserved;
	int64_t res;		/* Its result, if it ended; else 0. */
	struct weir_op_detail detail;
	const char *engine;	/* That did the job; NULL: none was. */
};

/*
 * A step that is a call: returns a result >= 0, or a negative errno, which is
 * a failure.
 */
typedef int64_t weir_chain_call_fn(struct weir_chain *chain, uint32_t step,
				   void *arg);

/*
 * A step that starts an operation of its own: start @op and return 0.  Return 1
 * if there is nothing to be done: the step is done, with 0.  Else return the
 * negative errno that the start returned, which is the step's failure; but not
 * -EAGAIN: the chain asks again, at most a millisecond later.  @op has its
 * callback; leave it.  To return 0 without starting @op fails the step with
 * -EINVAL; once @op is started, what is returned does not count.
 */
typedef int weir_chain_start_fn(struct weir_chain *chain, uint32_t step,
				struct weir_op *op, void *arg);

/*
 * Create a chain of @r, without steps.
 *
 * Returns 0 with *@ret set, to be freed by weir_chain_destroy(), or
 *   -EINVAL     .steps or .deps is out of its range
 *   -E2BIG      @opts sets a member that this version does not have
 *   -ENOMEM     no memory
 *   -ESHUTDOWN  @r is stopping
 *
 * Call on @r's thread.
 */
WEIR_API int weir_chain_create(struct weir_chain **ret, struct weir_reactor *r,
			       const struct weir_chain_opts *opts);

/*
 * Free @chain.  NULL is allowed.
 *
 * Returns 0, or, with the chain as it was:
 *   -EBUSY  it is in flight, one of its steps' functions is running, or it
 *           is a step of another chain
 *
 * Call on the chain's reactor; callbacks too.
 */
WEIR_API int weir_chain_destroy(struct weir_chain *chain);

/*
 * Add @job as a step, to be started in @dma after step @after has succeeded;
 * WEIR_CHAIN_FIRST: at once.
 *
 * The job stays the caller's, who says what it does before the chain starts or
 * in a call step before it; its callback and .op.data are the chain's from now
 * on.  -EAGAIN from its start is not a failure: the step waits for capacity.
 * It may be more than one step; one that is in flight already fails the step
 * (-EINVAL).
 *
 * @dma may be of another reactor.  The job then runs on that one's thread, and
 * is not to be touched here while the step runs; bufs of this reactor that it
 * names must stay taken until it has ended, and nothing marks them meanwhile,
 * see <weir/buf.h>.  If that reactor is stopping or has stopped the step fails
 * with -ESHUTDOWN, or with -ECANCELED if its job was in flight.
 *
 * @dma cannot be destroyed before the chain.
 *
 * Returns the number of the step, counted from 0, or
 *   -EINVAL  there is no step @after, or @dma or @job is NULL
 *   -ENOSPC  .steps or .deps are used up
 *   -EBUSY   the chain is in flight, or a step of another
 *
 * Call on the chain's reactor.  Never allocates.
 */
WEIR_API int weir_chain_add_job(struct weir_chain *chain, int after,
				struct weir_dma *dma, struct weir_job *job);

/*
 * Add a call of @fn as a step.
 *
 * Returns what weir_chain_add_job() returns.
 *
 * Call on the chain's reactor.  Never allocates.
 */
WEIR_API int weir_chain_add_call(struct weir_chain *chain, int after,
				 weir_chain_call_fn *fn, void *arg);

/*
 * Add as a step the operation that @fn starts: any operation of the chain's
 * reactor.
 *
 * Returns what weir_chain_add_job() returns.
 *
 * Call on the chain's reactor.  Never allocates.
 */
WEIR_API int weir_chain_add_op(struct weir_chain *chain, int after,
			       weir_chain_start_fn *fn, void *arg);

/*
 * Add the chain @inner as a step, which ends as @inner does.  From now on
 * @inner cannot be changed, and not be destroyed before @chain.  It may still
 * be started by itself, and be a step more than once; one that is in flight
 * already fails the step (-EBUSY).
 *
 * Returns the number of the step, counted from 0, or
 *   -EINVAL    there is no step @after; @inner is NULL, has no steps, or is of
 *              another reactor
 *   -EPERM     @inner is @chain
 *   -EMSGSIZE  chains would be in chains more than 16 deep
 *   -ENOSPC    .steps or .deps are used up
 *   -EBUSY     the chain is in flight, or a step of another
 *
 * Call on the chain's reactor.  Never allocates.
 *
 * Re-creates doca_graph_node_create_from_sub_graph().
 */
WEIR_API int weir_chain_add_chain(struct weir_chain *chain, int after,
				  struct weir_chain *inner);

/*
 * Add a fence: all steps that were added so far end, in any way, before one
 * that is added later begins.  It is a step itself, and done as soon as they
 * have ended; it takes a dependency for each step that none comes after, and
 * one for each step that is added later and comes after none behind the
 * fence.
 *
 * Returns the number of the step, or
 *   -EINVAL  it has no steps
 *   -ENOSPC  .steps or .deps are used up
 *   -EBUSY   the chain is in flight, or a step of another
 *
 * Call on the chain's reactor.  Never allocates.
 *
 * Re-creates rte_dmadev's fence.
 */
WEIR_API int weir_chain_add_fence(struct weir_chain *chain);

/*
 * Have @step wait also for @dep, an earlier step, to end as @on says.  If it
 * depends on it already, @on replaces what was asked for.
 *
 * Returns 0, or
 *   -EINVAL  there is no such step, @dep is not before @step, or @on makes no
 *            sense; @step is a finally step and @on not WEIR_CHAIN_ON_END, or
 *            @dep is one and @step is not
 *   -ENOSPC  .deps are used up
 *   -EBUSY   the chain is in flight, or a step of another
 *
 * Call on the chain's reactor.  Never allocates.
 */
WEIR_API int weir_chain_add_dep(struct weir_chain *chain, uint32_t step,
				uint32_t dep, uint32_t on);

/*
 * Make @step a finally step, where to clean up: each run of the chain runs it
 * exactly once, after all steps that are not finally ones have ended in any
 * way, skipped ones included, and after the finally steps that it comes
 * after.
 *
 * Neither a failure nor a cancel or deadline of the chain skips or cancels it,
 * even if that comes while it runs; only what ends its own operation does: the
 * deadline of its job, or a stop of the reactor or DMA context.  The chain's
 * operation ends after it.  If it fails the chain fails, with its errno, unless
 * the chain has failed or was cancelled already.
 *
 * What it depends on so far it waits for on WEIR_CHAIN_ON_END.  A step that is
 * added with it as @after is a finally step, too.  A finally step of a chain
 * that is a step of another runs if that chain was started.
 *
 * Returns 0, or
 *   -EINVAL  there is no such step, it is a fence, or a step that is not a
 *            finally one depends on it
 *   -EBUSY   the chain is in flight, or a step of another
 *
 * Call on the chain's reactor.  Never allocates.
 */
WEIR_API int weir_chain_set_finally(struct weir_chain *chain, uint32_t step);

/*
 * Start @chain; @op is its operation.
 *
 * Calls and functions of steps run from the loop, never inside this call.
 *
 * Completes with the number of steps that were done, or with the errno of the
 * first failure, or -ECANCELED.
 *
 * Returns 0, or
 *   -EINVAL     it has no steps; @op is in flight, or has no callback
 *   -EBUSY      the chain is in flight
 *   -EAGAIN     .ops_max operations are in flight
 *   -ESHUTDOWN  the reactor is stopping
 *
 * Call on the chain's reactor.  Never blocks, never allocates.
 */
WEIR_API int weir_chain_start(struct weir_chain *chain, struct weir_op *op);

/*
 * Copy what became of @step in the last run, or has so far in this one, to
 * *@ret, whose .size the caller has set.
 *
 * Returns 0, or
 *   -EINVAL  there is no such step, or .size is too small
 *
 * Call on the chain's reactor.  Never blocks.
 */
WEIR_API int weir_chain_get_step(const struct weir_chain *chain,
				 uint32_t step, struct weir_chain_step *ret);

/*
 * The step whose failure is the chain's, in the last run; WEIR_CHAIN_FIRST if
 * there is none.
 *
 * Call on the chain's reactor.  Never blocks.
 */
WEIR_API int weir_chain_failed_step(const struct weir_chain *chain);

/*
 * The user's pointer that @chain was created with.
 *
 * Call on the chain's reactor.  Never blocks.  Re-creates
 * doca_ctx_get_user_data().
 */
WEIR_API void *weir_chain_ctx(const struct weir_chain *chain);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_CHAIN_H */
