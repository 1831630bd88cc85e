/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_CHAIN_H
#define WEIR_CHAIN_H

/*
 * A chain: steps with dependencies, run as one operation.
 *
 * A step is a job, an operation that a user function starts, or a plain call.
 * Each step names one that it comes after.  More dependencies can be added: on
 * the success, the failure or the end of another step.
 *
 *	weir_chain_create(&chain, r, NULL);
 *	a = weir_chain_add_job(chain, WEIR_CHAIN_FIRST, dma, &rq->read);
 *	b = weir_chain_add_job(chain, a, dma, &rq->crc);
 *	c = weir_chain_add_job(chain, b, dma, &rq->write);
 *	err = weir_chain_start(chain, &rq->op);
 *
 * A step runs when all its dependencies have ended as required; if one ends
 * otherwise the step is skipped.  A step that fails, and has no dependant that
 * waits for its failure, fails the chain.  Steps in flight then end; of the
 * others only those begin that wait just for the end of steps, which can clean
 * up.  The chain's result is that of the first such failure.
 * Cancelling the chain (weir_op_cancel() of its operation, a deadline, a
 * stopping reactor) cancels the steps in flight and skips all others except
 * finally steps, see weir_chain_set_finally().
 *
 * This table tells which steps still begin after a failure or a cancel:
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
 * A chain is in flight from its start until its callback begins.  From the
 * callback's first line on it can be started again, which allocates nothing,
 * changed, or destroyed.
 *
 * A copy in memory, and the CRC-32C of the copied bytes as the next step, are
 * done in one pass, with the same results.  A job of another step that writes
 * to the same bytes meanwhile is a race in any case.
 *
 * A job may belong to a DMA context of another reactor: the step travels there
 * and back.  Meanwhile it counts as running; it cannot be refused, and a cancel
 * reaches it there.
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

/* As the step to come after: none; the step begins when the chain does. */
#define WEIR_CHAIN_FIRST (-1)

/* How a dependency must end for its dependant to run. */
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
	uint32_t steps;		/* Capacity; 0: 8; at most 1024. */
	uint32_t deps;		/* Capacity for dependencies; 0: 2 * .steps. */
	void *ctx;		/* For weir_chain_ctx(). */
};

/* The state and result of a step; weir_chain_get_step(). */
struct weir_chain_step {
	size_t size;		/* Set by the caller: the size of the struct. */
	uint32_t state;		/* WEIR_STEP_ */
	uint32_t reserved;
	int64_t res;		/* Its result, if it ended; else 0. */
	struct weir_op_detail detail;
	const char *engine;	/* Of its job; NULL: it had none. */
};

/*
 * A step that is a call.  Returns a result >= 0, or a negative errno, which
 * fails the step.
 */
typedef int64_t weir_chain_call_fn(struct weir_chain *chain, uint32_t step,
				   void *arg);

/*
 * A step that starts an operation.  Start @op and return 0.  Return 1 if there
 * is nothing to do: the step is done, with result 0.  Otherwise return the
 * negative errno of the start, which fails the step; after -EAGAIN the chain
 * calls the function again, at most a millisecond later.  Do not change the
 * callback of @op.  If the function returns 0 without starting @op, the step
 * fails with -EINVAL; if @op is started, the returned value is ignored.
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
 *
 * Re-creates doca_graph_create().
 */
WEIR_API int weir_chain_create(struct weir_chain **ret, struct weir_reactor *r,
			       const struct weir_chain_opts *opts);

/*
 * Remove all steps of @chain, which is then as weir_chain_create() made it.
 *
 * For chains that are made anew for each request: adding steps and starting it
 * allocates nothing, so a program that keeps a chain with each of its requests
 * pays little more than for a chain whose steps stay.
 *
 *	weir_chain_reset(chain);
 *	a = weir_chain_add_job(chain, WEIR_CHAIN_FIRST, dma, &rq->read);
 *	if (rq->done)
 *		a = weir_chain_add_job(chain, a, dma, &rq->crc);
 *	b = weir_chain_add_job(chain, a, dma, &rq->write);
 *	err = weir_chain_start(chain, &rq->op);
 *
 * Returns 0, or, with the chain as it was:
 *   -EBUSY  it is in flight, a function of one of its steps is running, or it
 *           is a step of another chain
 *
 * Call on the chain's reactor; its own callback may.  Never blocks, never
 * allocates.
 */
WEIR_API int weir_chain_reset(struct weir_chain *chain);

/*
 * Free @chain.  NULL is allowed.
 *
 * Returns 0, or, with the chain as it was:
 *   -EBUSY  it is in flight, a function of one of its steps is running, or it
 *           is a step of another chain
 *
 * Call on the chain's reactor; callbacks too.
 *
 * Re-creates doca_graph_destroy().
 */
WEIR_API int weir_chain_destroy(struct weir_chain *chain);

/*
 * Add @job as a step, which starts in @dma after step @after has succeeded.
 *
 * With WEIR_CHAIN_FIRST it starts at once.  The caller owns the job, and sets
 * its kind and operands before the chain starts or in an earlier call step.
 * The chain uses its callback and .op.data from now on.  -EAGAIN from its start
 * is not a failure: the step waits for capacity.  A job may be in several
 * steps; if it is in flight already when a step begins, the step fails
 * (-EINVAL).
 *
 * @dma may belong to another reactor.  The job then runs on that reactor's
 * thread; do not access it here while the step runs.  Hold references to bufs
 * of this reactor that the job names until it has ended; they are not marked as
 * used meanwhile, see <weir/buf.h>.  If that reactor is stopping or stopped the
 * step fails with -ESHUTDOWN, or with -ECANCELED if its job was in flight.
 *
 * @dma cannot be destroyed before the chain.
 *
 * Returns the number of the step, counted from 0, or
 *   -EINVAL  there is no step @after, or @dma or @job is NULL
 *   -ENOSPC  .steps or .deps are used up
 *   -EBUSY   the chain is in flight, or a step of another
 *
 * Call on the chain's reactor.  Never allocates.
 *
 * Re-creates doca_graph_node_create_from_ctx() and spdk_accel_append_copy().
 */
WEIR_API int weir_chain_add_job(struct weir_chain *chain, int after,
				struct weir_dma *dma, struct weir_job *job);

/*
 * Add a call of @fn as a step.
 *
 * Returns what weir_chain_add_job() returns.
 *
 * Call on the chain's reactor.  Never allocates.
 *
 * Re-creates doca_graph_node_create_from_user().
 */
WEIR_API int weir_chain_add_call(struct weir_chain *chain, int after,
				 weir_chain_call_fn *fn, void *arg);

/*
 * Add an operation that @fn starts on the chain's reactor as a step.
 *
 * Returns what weir_chain_add_job() returns.
 *
 * Call on the chain's reactor.  Never allocates.
 */
WEIR_API int weir_chain_add_op(struct weir_chain *chain, int after,
			       weir_chain_start_fn *fn, void *arg);

/*
 * Add the chain @inner as a step, which ends as @inner does.
 *
 * From now on @inner cannot be changed, and cannot be destroyed before @chain.
 * It may still be started by itself, and may be in several steps; if it is in
 * flight already when a step begins, the step fails (-EBUSY).
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
 * Re-creates doca_graph_node_create_from_graph().
 */
WEIR_API int weir_chain_add_chain(struct weir_chain *chain, int after,
				  struct weir_chain *inner);

/*
 * Add a fence, which makes steps that are added later wait for the end of all
 * steps so far.
 *
 * The fence is a step itself, and is done when they have ended in any way.  It
 * uses one dependency for each step that has no dependant, and one for each
 * later step that does not come after a step behind the fence.
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
 * Make @step depend also on @dep, an earlier step, ending as @on says.
 *
 * If @step depends on @dep already, @on replaces the condition.
 *
 * Returns 0, or
 *   -EINVAL  there is no such step, @dep is not before @step, or @on is
 *            invalid; @step is a finally step and @on is not
 *            WEIR_CHAIN_ON_END, or @dep is a finally step and @step is not
 *   -ENOSPC  .deps are used up
 *   -EBUSY   the chain is in flight, or a step of another
 *
 * Call on the chain's reactor.  Never allocates.
 *
 * Re-creates doca_graph_add_dependency().
 */
WEIR_API int weir_chain_add_dep(struct weir_chain *chain, uint32_t step,
				uint32_t dep, uint32_t on);

/*
 * Make @step a finally step, which cleans up at the end of each run.
 *
 * Each run of the chain runs it exactly once, after all other steps have ended
 * or were skipped, and after the finally steps that it comes after.
 *
 * A failure, a cancel or a deadline of the chain neither skips nor cancels it,
 * even while it runs.  Only the deadline of its job, or a stop of the reactor
 * or DMA context, ends it early.  The chain's operation ends after it.  If it
 * fails the chain fails, with its errno, unless the chain has failed or was
 * cancelled already.
 *
 * Its present dependencies become WEIR_CHAIN_ON_END.  A step that is added with
 * it as @after is a finally step too.  If a chain is a step of another, its
 * finally steps run if it was started.
 *
 * Returns 0, or
 *   -EINVAL  there is no such step, it is a fence, or a step that is not a
 *            finally step depends on it
 *   -EBUSY   the chain is in flight, or a step of another
 *
 * Call on the chain's reactor.  Never allocates.
 */
WEIR_API int weir_chain_set_finally(struct weir_chain *chain, uint32_t step);

/*
 * Start @chain; @op is its operation.
 *
 * The loop calls the functions of steps; they never run inside this call.
 *
 * Completes with the number of steps that were done, or with the errno of the
 * first failure, or -ECANCELED.
 *
 * Returns 0, or
 *   -EINVAL     the chain has no steps; @op is in flight, or has no callback
 *   -EBUSY      the chain is in flight
 *   -EAGAIN     .ops_max operations are in flight
 *   -ESHUTDOWN  the reactor is stopping
 *
 * Call on the chain's reactor.  Never blocks, never allocates.
 *
 * Re-creates doca_graph_instance_submit() and spdk_accel_sequence_finish().
 */
WEIR_API int weir_chain_start(struct weir_chain *chain, struct weir_op *op);

/*
 * Get the state and result of @step in the present or last run.
 *
 * The caller sets .size of *@ret.
 *
 * Returns 0, or
 *   -EINVAL  there is no such step, or .size is too small
 *
 * Call on the chain's reactor.  Never blocks.
 */
WEIR_API int weir_chain_get_step(const struct weir_chain *chain,
				 uint32_t step, struct weir_chain_step *ret);

/*
 * Get the step whose failure failed the chain in the last run;
 * WEIR_CHAIN_FIRST if there is none.
 *
 * Returns the number of the step, or WEIR_CHAIN_FIRST.  Call on the chain's
 * reactor.  Never blocks.
 */
WEIR_API int weir_chain_failed_step(const struct weir_chain *chain);

/*
 * Get the user's pointer with which @chain was created.
 *
 * Returns the pointer.  Call on the chain's reactor.  Never blocks.  Re-creates
 * doca_ctx_get_user_data().
 */
WEIR_API void *weir_chain_ctx(const struct weir_chain *chain);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_CHAIN_H */
