/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_DMA_H
#define WEIR_DMA_H

/*
 * A DMA context: where a reactor's jobs run.
 *
 * It has a fixed bound of jobs in flight and a list of engines, from which each
 * job is given the first that can move between its two domains:
 *
 *	cpu      memory <-> memory, by the reactor's own thread in slices, so
 *	         that a large copy does not hold up the loop; by a worker from
 *	         .worker_min on
 *	file     memory <-> file, and file -> file inside the kernel
 *	process  memory <-> another process, by a worker
 *	domain   memory <-> a user's domain, by its functions
 *
 * and those of the user's own, see <weir/engine.h>.  What none does at once
 * goes through staging memory of the context, see <weir/route.h>.
 *
 *	           start()           stop()            drained
 *	STOPPED -----------> RUNNING --------> STOPPING -------> STOPPED
 *
 * Re-creates doca_dma with its doca_ctx, and the SPDK accel framework.
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_dma;
struct weir_op;
struct weir_reactor;

/* States; weir_dma_state(). */
#define WEIR_DMA_STOPPED 1
#define WEIR_DMA_RUNNING 2
#define WEIR_DMA_STOPPING 3

/* A context has gone from state @prev to @next. */
typedef void weir_dma_state_fn(struct weir_dma *dma, int prev, int next,
			       void *arg);

/*
 * Options of weir_dma_create().  Set .size to the size of the struct; 0
 * is the default of every other member.
 */
struct weir_dma_opts {
	size_t size;
	uint32_t jobs_max;	/* In flight at once; 0: 4096. */
	uint32_t turn_bytes;	/* That cpu may touch in a turn, reads and
				 * writes of all locations; 0: 2 MiB, so a
				 * copy of 1 MiB. */
	uint64_t worker_min;	/* Bytes from which on cpu jobs go to a
				 * worker, if one can be made; 0: none does. */
	uint64_t file_slice;	/* Bytes that the kernel copies between files
				 * at a time; 0: 16 MiB. */
	uint64_t stream_min;	/* Bytes from which on cpu copies and fills
				 * past the cache; 0: half of the last cache,
				 * 4 to 64 MiB; UINT64_MAX: never. */
	uint32_t staging_bufs;	/* For jobs that bounce, see <weir/route.h>;
				 * each holds two blocks; 0: 4.  Beside them
				 * there are eight small ones, of at most
				 * 16 KiB a block, for jobs that are nested and
				 * in place of those in quarantine. */
	uint32_t staging_size;	/* Bytes of a block; 0: 256 KiB. */
};

/* What a context did; weir_dma_stats(). */
struct weir_dma_stats {
	size_t size;		/* Set by the caller: the size of the struct. */
	uint64_t started;	/* Jobs. */
	uint64_t completed;	/* With success. */
	uint64_t failed;	/* With an error, but not a cancel. */
	uint64_t cancelled;
	uint64_t refused;	/* Starts answered -EAGAIN. */
	uint64_t in_flight;	/* Now; weir_dma_in_flight(). */
	uint64_t bytes;		/* Moved by jobs that have ended. */
	uint64_t cpu_jobs;	/* Started, by engine. */
	uint64_t file_jobs;
	uint64_t worker_jobs;	/* Of cpu_jobs, those that a worker did. */
	uint64_t fixed;		/* Transfers that used registered memory. */
	uint64_t process_jobs;	/* Started, by engine. */
	uint64_t domain_jobs;
	uint64_t translated;	/* Jobs over what was memory in truth. */
	uint64_t bounced;	/* Jobs that went through staging, */
	uint64_t bounced_bytes;	/* and what did. */
	uint64_t bounce_waits;	/* Of them, those that had to wait for it. */
	uint64_t fallbacks;	/* And those that a better route refused. */
	uint64_t quarantines;	/* Jobs that ended before the device let go of
				 * their staging, */
	uint64_t quarantined;	/* and staging buffers that are so now. */
	uint64_t fused;		/* Steps of chains that were done in the pass
				 * of the step before, without a job. */
};

/*
 * Create a context of @r, in state WEIR_DMA_STOPPED.
 *
 * Returns 0 with *@ret set, to be freed by weir_dma_destroy(), or
 *   -EINVAL     .jobs_max is more than 2^24; .turn_bytes or .file_slice is
 *               less than 4096; .staging_bufs is more than 1024, or
 *               .staging_size more than 64 MiB or no multiple of 4096
 *   -E2BIG      @opts sets a member that this version does not have
 *   -ENOMEM     no memory
 *   -ESHUTDOWN  @r is stopping
 *
 * Call on @r's thread.
 */
WEIR_API int weir_dma_create(struct weir_dma **ret, struct weir_reactor *r,
			     const struct weir_dma_opts *opts);

/*
 * Let jobs in.  Starting what is running has no effect.
 *
 * Returns 0, or
 *   -EBUSY   it is stopping
 *   -EAGAIN  too many calls of the state callback are due: let the loop run
 *
 * Call on the context's reactor.  Never blocks.
 */
WEIR_API int weir_dma_start(struct weir_dma *dma);

/*
 * Stop: no new jobs, cancel those in flight, and when their callbacks have run,
 * complete @op with 0.  What is stopped completes at once.
 *
 * Returns 0, or
 *   -EBUSY  it is stopping already
 *   -EINVAL, -EAGAIN, -ESHUTDOWN  @op cannot be started, see <weir/op.h>
 *
 * Call on the context's reactor, callbacks included.  Never blocks.
 *
 * Re-creates doca_ctx_stop().
 */
WEIR_API int weir_dma_stop(struct weir_dma *dma, struct weir_op *op);

/*
 * Free @dma.  NULL is allowed.
 *
 * Returns 0, or, with the context as it was:
 *   -EBUSY  jobs are in flight, it is stopping, a turn that it has asked for
 *           or callbacks of changes of state are due, a
 *           device has not let go of the staging of a job that was cancelled,
 *           a step of a chain or pipeline names it, in flight or not, or the
 *           call comes from a function of an engine or domain for a job of it
 *
 * Call on the context's reactor; callbacks too.
 */
WEIR_API int weir_dma_destroy(struct weir_dma *dma);

/*
 * The state of @dma: WEIR_DMA_STOPPED, _RUNNING or _STOPPING.
 *
 * Call on the context's reactor.  Never blocks.
 *
 * Re-creates doca_ctx_get_state().
 */
WEIR_API int weir_dma_state(const struct weir_dma *dma);

/*
 * Have @fn called with @arg after each change of state, from the loop: once for
 * each arrow of the table above, in order, before the callback of the operation
 * of weir_dma_stop().  The state may have changed again by then.  NULL: nobody
 * is told.
 *
 * @fn may stop the context and start it again, and destroy it when nothing is
 * in flight and no more calls are due.
 *
 * Returns 0, or
 *   -EBUSY  the context is not stopped, or calls of the last one are due
 *
 * Call on the context's reactor.  Never blocks, never allocates.
 * Re-creates doca_ctx_set_state_changed_cb().
 */
WEIR_API int weir_dma_set_state_cb(struct weir_dma *dma, weir_dma_state_fn *fn,
				   void *arg);

/*
 * Begin what waits for that: jobs with WEIR_JOB_LAZY, fences that have nothing
 * left before them; and tell engines that collect jobs to go.  Without it all
 * this happens in the reactor's next turn.
 *
 * Call on the context's reactor.  Never blocks, never allocates.
 * Re-creates rte_dma_submit() and doca_ctx_flush_tasks().
 */
WEIR_API void weir_dma_flush(struct weir_dma *dma);

/*
 * Jobs of @dma in flight: started, and their callback has not begun.  When
 * there are none, the caller may free its jobs.
 *
 * Returns how many, from 0 to .jobs_max.
 *
 * Call on the context's reactor.  Never blocks.
 * Re-creates doca_ctx_get_num_inflight_tasks().
 */
WEIR_API uint32_t weir_dma_in_flight(const struct weir_dma *dma);

/*
 * The reactor that @dma belongs to.
 *
 * Any thread.  Never blocks.
 */
WEIR_API struct weir_reactor *weir_dma_reactor(const struct weir_dma *dma);

/*
 * Copy what @dma did to *@ret, whose .size the caller has set.
 *
 * Returns 0, or
 *   -EINVAL  .size is smaller than the member itself
 *
 * Call on the context's reactor.  Never blocks.
 *
 * Re-creates rte_dma_stats_get().
 */
WEIR_API int weir_dma_stats(const struct weir_dma *dma,
			    struct weir_dma_stats *ret);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_DMA_H */
