/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_PIPELINE_H
#define WEIR_PIPELINE_H

/*
 * A pipeline: a chain run again and again over a stream of units, several at
 * the same time.
 *
 * It has a window of slots.  Each has a chain of its own, built once, memory of
 * the user's, and, if the pipeline has a pool, a buf while a unit is in it.
 *
 *	build(slot)     once for each slot, when the pipeline is created: add
 *	                the steps to weir_slot_chain(slot)
 *	next(slot)      is there another unit?  Say what the jobs do with it
 *	  ... the slot's chain runs ...
 *	done(slot, res) the unit has ended: count it, or make its error the
 *	                pipeline's
 *
 * next() is called in the order of the stream whenever a slot is free, and so
 * is done() with WEIR_PIPELINE_ORDERED: a unit that overtook others waits for
 * them, in its slot.  Without the flag it is called as units end.
 *
 * The pipeline is itself an operation: it completes when the stream is at its
 * end and every unit is done.  The first error ends it: no more units, those
 * in flight are cancelled and drained, done() is called for them too.  So does
 * a cancel.  weir_pipeline_stop() ends it after what is in flight, and
 * weir_pipeline_pause() lets it rest.  From its callback's first line on, and
 * not before, it can be started again, or destroyed.
 *
 * Nothing of it is refused for want of capacity: units, buffers and steps
 * wait for theirs, and the loop sleeps.
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

/* What next() returns. */
#define WEIR_PIPELINE_END 0		/* The stream is at its end. */
#define WEIR_PIPELINE_UNIT 1		/* The slot has a unit. */

/*
 * Add the steps of @slot to its chain.  Returns 0, or a negative errno that
 * weir_pipeline_create() fails with.
 */
typedef int weir_pipeline_build_fn(struct weir_slot *slot, void *arg);

/*
 * Put the next unit of the stream into @slot, which has its buf, empty.
 *
 * Returns WEIR_PIPELINE_UNIT, WEIR_PIPELINE_END, or a negative errno: -EAGAIN
 * if there is none now (weir_pipeline_kick() when there is), any other is an
 * error of the pipeline, and what is none of these is -EINVAL.  Not called
 * again after the end or an error.
 */
typedef int weir_pipeline_next_fn(struct weir_slot *slot, void *arg);

/*
 * The unit in @slot has ended, with the result @res of its chain.  The slot's
 * buf and data are still there.
 *
 * Returns 0 to go on, also if the unit failed, or a negative errno to end the
 * pipeline with.  Once it has failed or was cancelled, what is returned does
 * not count.
 */
typedef int weir_pipeline_done_fn(struct weir_slot *slot, int64_t res,
				  void *arg);

/*
 * Options of weir_pipeline_create().  Set .size to the size of the struct and
 * leave what you do not care about at 0, but build, next and done, which must
 * be there.
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

/* How far a pipeline is; weir_pipeline_progress(). */
struct weir_pipeline_progress {
	size_t size;		/* Set by the caller: the size of the struct. */
	uint64_t units;		/* That next() has brought in this run. */
	uint64_t done;		/* That ended well; done() has been called. */
	uint64_t failed;	/* That ended with an error or a cancel. */
	uint64_t bytes;		/* Of those that ended well. */
	uint64_t in_flight;	/* Units in the window now. */
	uint64_t waits;		/* Times the window had to wait for a buf. */
	uint64_t window;	/* Slots that may have units now. */
	uint64_t paused;	/* 1 or 0. */
};

/* Where a pipeline failed; weir_pipeline_failure.where. */
#define WEIR_PIPELINE_AT_NEXT 1u /* In next(), or for want of a buf. */
#define WEIR_PIPELINE_AT_STEP 2u /* In a step; done() did not forgive it. */
#define WEIR_PIPELINE_AT_DONE 3u /* In done(), the chain's end being none. */

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
 *               too large, an unknown flag, .pool is of another reactor
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
 * Start @pipeline; @op is its operation.  next() is first called from the loop,
 * not inside this call.
 *
 * Completes when all has drained: with the number of units that were done, or
 * with the first error, or -ECANCELED.
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
 * There may be units again, after next() has returned -EAGAIN: ask it.  At any
 * other time it has no effect.
 *
 * Call on the pipeline's reactor.  Never blocks, never allocates.
 */
WEIR_API void weir_pipeline_kick(struct weir_pipeline *pipeline);

/*
 * No new units until weir_pipeline_resume(): next() is not called.  What is
 * in flight goes on to its end, and done() is called for it; with .in_flight 0
 * all of it has ended.  A paused pipeline has no bufs but those of its units.
 * Pausing what is paused has no effect.
 *
 * Returns 0, or
 *   -EBADFD  it is not in flight
 *
 * Call on the pipeline's reactor, next() and done() included.  Never blocks,
 * never allocates.
 */
WEIR_API int weir_pipeline_pause(struct weir_pipeline *pipeline);

/*
 * Go on after weir_pipeline_pause().  Resuming what is not paused has no
 * effect.  next() is called from the loop, not inside this call.
 *
 * Returns 0, or
 *   -EBADFD  it is not in flight
 *
 * Call on the pipeline's reactor, next() and done() included.  Never blocks,
 * never allocates.
 */
WEIR_API int weir_pipeline_resume(struct weir_pipeline *pipeline);

/*
 * End @pipeline as if its stream had ended here: no more units, those in flight
 * go on to their end, and it completes with the number of units that were done.
 * (weir_op_cancel() of its operation cancels them.)  Paused or not; what is not
 * in flight is stopped already.
 *
 * Returns 0.
 *
 * Call on the pipeline's reactor, next() and done() included.  Never blocks,
 * never allocates.
 */
WEIR_API int weir_pipeline_stop(struct weir_pipeline *pipeline);

/*
 * Have at most @slots units in flight, from now on and in later runs; at first
 * it is .depth.  Fewer than there are now takes effect as they end.
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
 * Copy how far @pipeline is, or was at its end, to *@ret, whose .size the
 * caller has set.
 *
 * Returns 0, or
 *   -EINVAL  .size is smaller than the member itself
 *
 * Call on the pipeline's reactor.  Never blocks.
 */
WEIR_API int weir_pipeline_progress(const struct weir_pipeline *pipeline,
				    struct weir_pipeline_progress *ret);

/*
 * Copy where and how the last run of @pipeline failed to *@ret, whose .size the
 * caller has set.  The first error wins: what comes of those in flight, which
 * are cancelled then, is not looked at.
 *
 * Returns 0, or, with *@ret as it was:
 *   -ENOENT  it has not failed: it went well, was stopped or cancelled
 *   -EINVAL  .size is smaller than the member itself
 *
 * Call on the pipeline's reactor.  Never blocks.
 */
WEIR_API int weir_pipeline_failure(const struct weir_pipeline *pipeline,
				   struct weir_pipeline_failure *ret);

/*
 * The user's memory in @slot: .data_size bytes, zeroed when it was created,
 * aligned to 64.
 *
 * Call on the pipeline's reactor.  Never blocks.
 */
WEIR_API void *weir_slot_data(struct weir_slot *slot);

/*
 * The buf of @slot, from next() to done(); else, and without a pool, NULL.
 * Steps that put it, or keep it, take a reference first.
 *
 * Call on the pipeline's reactor.  Never blocks.
 */
WEIR_API struct weir_buf *weir_slot_buf(const struct weir_slot *slot);

/*
 * The chain of @slot.  Steps are added in build() only; weir_chain_ctx() of it
 * is the slot.
 *
 * Call on the pipeline's reactor.  Never blocks.
 */
WEIR_API struct weir_chain *weir_slot_chain(const struct weir_slot *slot);

/*
 * The number of the unit in @slot, counted from 0 in each run.
 *
 * Call on the pipeline's reactor.  Never blocks.
 */
WEIR_API uint64_t weir_slot_unit(const struct weir_slot *slot);

/*
 * Say that the unit in @slot counts as @bytes in the progress, if it ends well.
 * 0 before.
 *
 * Call on the pipeline's reactor, from next() to done().  Never blocks.
 */
WEIR_API void weir_slot_set_bytes(struct weir_slot *slot, uint64_t bytes);

/*
 * The pipeline that @slot is in.
 *
 * Call on the pipeline's reactor.  Never blocks.  Re-creates
 * doca_task_get_ctx().
 */
WEIR_API struct weir_pipeline *weir_slot_pipeline(const struct weir_slot *slot);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_PIPELINE_H */
