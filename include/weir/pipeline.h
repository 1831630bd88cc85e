/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_PIPELINE_H
#define WEIR_PIPELINE_H

/*
 * A pipeline: a chain that runs for each unit of a stream, several at the same
 * time.
 *
 * It has a window of slots.  Each slot has a chain, built once, memory for the
 * user, and, if the pipeline has a pool, a buf while a unit is in it.
 *
 *	build(slot)     once for each slot, when the pipeline is created: add
 *	                the steps to weir_slot_chain(slot)
 *	next(slot)      set up the jobs for the next unit, if there is one
 *	  ... the slot's chain runs ...
 *	done(slot, res) the unit has ended: count it, or return an error that
 *	                ends the pipeline
 *
 * next() is called in the order of the stream whenever a slot is free.  With
 * WEIR_PIPELINE_ORDERED done() is called in that order too: a unit that ends
 * early waits in its slot for those before it.  Without the flag done() is
 * called as units end.
 *
 * The pipeline is itself an operation: it completes when the stream has ended
 * and every unit is done.  The first error ends it: there are no more units,
 * those in flight are cancelled and drained, and done() is called for them too.
 * A cancel does the same.  weir_pipeline_stop() ends it after the units in
 * flight, and weir_pipeline_pause() suspends it.  It can be started again or
 * destroyed from its callback's first line on, but not before.
 *
 * Lack of capacity is not an error: units, buffers and steps wait for it, and
 * the loop sleeps.
 */

#include <weir/op.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_buf;
struct weir_chain;
struct weir_pipeline;
struct weir_pool;
struct weir_slot;

/* weir_pipeline_opts.flags */
#define WEIR_PIPELINE_ORDERED 1u	/* done() in the order of next(). */

/* Results of next(). */
#define WEIR_PIPELINE_END 0		/* The stream is at its end. */
#define WEIR_PIPELINE_UNIT 1		/* The slot has a unit. */

/*
 * Add the steps of @slot to its chain.  Returns 0, or a negative errno that
 * weir_pipeline_create() fails with.
 */
typedef int weir_pipeline_build_fn(struct weir_slot *slot, void *arg);

/*
 * Put the next unit of the stream into @slot, whose buf is empty.
 *
 * Returns WEIR_PIPELINE_UNIT, WEIR_PIPELINE_END, or a negative errno: -EAGAIN
 * if there is no unit now (call weir_pipeline_kick() when there is one); any
 * other errno fails the pipeline, and any other value fails it with -EINVAL.
 * It is not called again after the end or an error.
 */
typedef int weir_pipeline_next_fn(struct weir_slot *slot, void *arg);

/*
 * Called when the unit in @slot has ended, with the result @res of its chain.
 * The slot still has its buf and data.
 *
 * Returns 0 to continue, also if the unit failed, or a negative errno, which
 * fails the pipeline.  After a failure or a cancel the result is ignored.
 */
typedef int weir_pipeline_done_fn(struct weir_slot *slot, int64_t res,
				  void *arg);

/*
 * Options of weir_pipeline_create().  Set .size to the size of the struct, and
 * .build, .next and .done; 0 is the default of every other member.
 */
struct weir_pipeline_opts {
	size_t size;
	weir_pipeline_build_fn *build;
	weir_pipeline_next_fn *next;
	weir_pipeline_done_fn *done;
	void *arg;		/* For the three. */
	struct weir_pool *pool;	/* For the slots' bufs; NULL: none.  Cannot be
				 * destroyed before the pipeline. */
	uint32_t depth;		/* Slots; 0: 8; at most 4096. */
	uint32_t flags;		/* WEIR_PIPELINE_ */
	uint32_t data_size;	/* Bytes of the user's in each slot. */
	uint32_t steps;		/* Of each chain; 0: 8. */
	uint32_t deps;		/* Of each chain; 0: twice .steps. */
	uint32_t reserved;
};

/* Progress of a pipeline; weir_pipeline_progress(). */
struct weir_pipeline_progress {
	size_t size;		/* Set by the caller: the size of the struct. */
	uint64_t units;		/* From next() in this run. */
	uint64_t done;		/* Units that succeeded, after done(). */
	uint64_t failed;	/* Units that failed or were cancelled. */
	uint64_t bytes;		/* Of units that succeeded. */
	uint64_t in_flight;	/* Units in the window now. */
	uint64_t waits;		/* Times the window had to wait for a buf. */
	uint64_t window;	/* Slots that may have units now. */
	uint64_t paused;	/* 1 or 0. */
};

/* Where a pipeline failed; weir_pipeline_failure.where. */
#define WEIR_PIPELINE_AT_NEXT 1u /* In next(), or for lack of a buf. */
#define WEIR_PIPELINE_AT_STEP 2u /* In a step; done() returned its error. */
#define WEIR_PIPELINE_AT_DONE 3u /* In done(), which returned its own error. */

/* The error that ended a run; weir_pipeline_failure(). */
struct weir_pipeline_failure {
	size_t size;		/* Set by the caller: the size of the struct. */
	uint64_t unit;		/* Counted from 0. */
	uint32_t where;		/* WEIR_PIPELINE_AT_ */
	int32_t step;		/* Of the unit's chain, or WEIR_CHAIN_FIRST. */
	int64_t res;		/* The error; the pipeline's result. */
	struct weir_op_detail detail;	/* Of the step. */
};

/*
 * Create a pipeline of @r, and build the chains of its slots.
 *
 * Returns 0 with *@ret set, to be freed by weir_pipeline_destroy(), or
 *   -EINVAL     a function is missing, .build has added no steps, .depth is
 *               too large, a flag is unknown, or .pool belongs to another
 *               reactor
 *   -E2BIG      @opts sets a member that this version does not have
 *   -ENOMEM     no memory
 *   -ESHUTDOWN  @r is stopping
 *   or what .build returned
 *
 * Call on @r's thread.
 */
WEIR_API int weir_pipeline_create(struct weir_pipeline **ret,
				  struct weir_reactor *r,
				  const struct weir_pipeline_opts *opts);

/*
 * Free @pipeline with its slots and their chains.  NULL is allowed.
 *
 * Returns 0, or, with the pipeline as it was:
 *   -EBUSY  it is in flight, or one of its functions is running
 *
 * Call on the pipeline's reactor; callbacks too.
 */
WEIR_API int weir_pipeline_destroy(struct weir_pipeline *pipeline);

/*
 * Start @pipeline; @op is its operation.
 *
 * The loop calls next(); it is not called inside this call.
 *
 * Completes when all units have ended: with the number of units that were done,
 * or with the first error, or -ECANCELED.
 *
 * Returns 0, or
 *   -EBUSY      it is in flight
 *   -EINVAL     @op is in flight, or has no callback
 *   -EAGAIN     .ops_max operations are in flight
 *   -ESHUTDOWN  the reactor is stopping
 *
 * Call on the pipeline's reactor.  Never blocks, never allocates.
 */
WEIR_API int weir_pipeline_start(struct weir_pipeline *pipeline,
				 struct weir_op *op);

/*
 * Call next() again after it has returned -EAGAIN, because there may be units.
 *
 * At any other time the call has no effect.
 *
 * Call on the pipeline's reactor.  Never blocks, never allocates.
 */
WEIR_API void weir_pipeline_kick(struct weir_pipeline *pipeline);

/*
 * Pause @pipeline: next() is not called until weir_pipeline_resume().
 *
 * Units in flight continue to their end, and done() is called for them; when
 * .in_flight is 0 all have ended.  A paused pipeline has no bufs except those
 * of its units.  The call has no effect if @pipeline is paused.
 *
 * Returns 0, or
 *   -EBADFD  it is not in flight
 *
 * Call on the pipeline's reactor, next() and done() included.  Never blocks,
 * never allocates.
 */
WEIR_API int weir_pipeline_pause(struct weir_pipeline *pipeline);

/*
 * Resume @pipeline after weir_pipeline_pause().
 *
 * The call has no effect if @pipeline is not paused.  The loop calls next(); it
 * is not called inside this call.
 *
 * Returns 0, or
 *   -EBADFD  it is not in flight
 *
 * Call on the pipeline's reactor, next() and done() included.  Never blocks,
 * never allocates.
 */
WEIR_API int weir_pipeline_resume(struct weir_pipeline *pipeline);

/*
 * Stop @pipeline after the units in flight, as if its stream had ended.
 *
 * There are no more units, those in flight continue to their end, and @pipeline
 * completes with the number of units that were done.  (weir_op_cancel() of its
 * operation cancels them instead.)  @pipeline may be paused.  The call has no
 * effect if it is not in flight.
 *
 * Returns 0.
 *
 * Call on the pipeline's reactor, next() and done() included.  Never blocks,
 * never allocates.
 */
WEIR_API int weir_pipeline_stop(struct weir_pipeline *pipeline);

/*
 * Limit the units in flight to @slots, from now on and in later runs.
 *
 * The initial limit is .depth.  If more units are in flight, the new limit
 * takes effect as they end.
 *
 * Returns 0, or, with the window as it was:
 *   -EINVAL  @slots is 0, or more than .depth
 *
 * Call on the pipeline's reactor, next() and done() included.  Never blocks,
 * never allocates.
 */
WEIR_API int weir_pipeline_set_window(struct weir_pipeline *pipeline,
				      uint32_t slots);

/*
 * Get the progress of @pipeline in the present or last run.
 *
 * The caller sets .size of *@ret.
 *
 * Returns 0, or
 *   -EINVAL  .size is smaller than the member itself
 *
 * Call on the pipeline's reactor.  Never blocks.
 */
WEIR_API int weir_pipeline_progress(const struct weir_pipeline *pipeline,
				    struct weir_pipeline_progress *ret);

/*
 * Get the unit, place and error of the failure of the last run of @pipeline.
 *
 * The caller sets .size of *@ret.  It is the first error; the results of units
 * in flight, which are then cancelled, are ignored.
 *
 * Returns 0, or, with *@ret unchanged:
 *   -ENOENT  the run has not failed: it succeeded, was stopped or was cancelled
 *   -EINVAL  .size is smaller than the member itself
 *
 * Call on the pipeline's reactor.  Never blocks.
 */
WEIR_API int weir_pipeline_failure(const struct weir_pipeline *pipeline,
				   struct weir_pipeline_failure *ret);

/*
 * Get the user's memory of @slot: .data_size bytes, aligned to 64, zeroed when
 * the pipeline was created.
 *
 * Returns the memory.  Call on the pipeline's reactor.  Never blocks.
 */
WEIR_API void *weir_slot_data(struct weir_slot *slot);

/*
 * Get the buf of @slot, from next() to done(); otherwise, and without a pool,
 * NULL.
 *
 * A step that puts the buf, or keeps it, must take a reference first.
 *
 * Returns the buf, or NULL.  Call on the pipeline's reactor.  Never blocks.
 */
WEIR_API struct weir_buf *weir_slot_buf(const struct weir_slot *slot);

/*
 * Get the chain of @slot.
 *
 * Add steps only in build().  weir_chain_ctx() of the chain is the slot.
 *
 * Returns the chain.  Call on the pipeline's reactor.  Never blocks.
 */
WEIR_API struct weir_chain *weir_slot_chain(const struct weir_slot *slot);

/*
 * Get the number of the unit in @slot, counted from 0 in each run.
 *
 * Returns the number of the unit.  Call on the pipeline's reactor.  Never
 * blocks.
 */
WEIR_API uint64_t weir_slot_unit(const struct weir_slot *slot);

/*
 * Set the number of bytes that the unit in @slot adds to the progress if it
 * succeeds; the default is 0.
 *
 * Call on the pipeline's reactor, from next() to done().  Never blocks.
 */
WEIR_API void weir_slot_set_bytes(struct weir_slot *slot, uint64_t bytes);

/*
 * Get the pipeline of @slot.
 *
 * Returns the pipeline.  Call on the pipeline's reactor.  Never blocks.
 * Re-creates doca_task_get_ctx().
 */
WEIR_API struct weir_pipeline *weir_slot_pipeline(const struct weir_slot *slot);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_PIPELINE_H */
