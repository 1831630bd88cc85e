/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_DMA_H
#define WEIR_DMA_H

/*
 * A DMA context: where a reactor's jobs run.
 *
 * It bounds the jobs in flight and has a list of engines.  A job uses the first
 * engine that can move between its two domains:
 *
 *	cpu      memory <-> memory, by the reactor's own thread in slices, so
 *	         that a large copy does not delay the loop; by a worker from
 *	         .worker_min on
 *	file     memory <-> file, and file -> file inside the kernel
 *	process  memory <-> another process, by a worker
 *	domain   memory <-> a user's domain, by its functions
 *
 * and the user's own engines, see <weir/engine.h>.  A job that no engine can do
 * directly uses staging memory of the context, see <weir/route.h>.
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

/* Called when a context has changed its state from @prev to @next. */
typedef void weir_dma_state_fn(struct weir_dma *dma, int prev, int next,
			       void *arg);

/*
 * Options of weir_dma_create().  Set .size to the size of the struct; 0
 * is the default of every other member.
 */
struct weir_dma_opts {
	size_t size;
	uint32_t jobs_max;	/* In flight at once; 0: 4096. */
	uint32_t turn_bytes;	/* Bytes that cpu may read and write in a
				 * turn; 0: 2 MiB, which is a copy of 1 MiB. */
	uint64_t worker_min;	/* Bytes from which on a worker does cpu jobs,
				 * if there can be one; 0: never. */
	uint64_t file_slice;	/* Bytes that the kernel copies between files
				 * at a time; 0: 16 MiB. */
	uint64_t stream_min;	/* Bytes from which on cpu copies and fills
				 * past the cache; 0: half of the last cache,
				 * 4 to 64 MiB; UINT64_MAX: never. */
	uint32_t staging_bufs;	/* For jobs that bounce, see <weir/route.h>;
				 * each holds two blocks; 0: 4.  There are
				 * eight more with blocks of at most 16 KiB,
				 * for nested jobs and in place of those in
				 * quarantine. */
	uint32_t staging_size;	/* Bytes of a block; 0: 256 KiB. */
};

/* Counters of a context; weir_dma_stats(). */
struct weir_dma_stats {
	size_t size;		/* Set by the caller: the size of the struct. */
	uint64_t started;	/* Jobs. */
	uint64_t completed;	/* With success. */
	uint64_t failed;	/* With an error, but not a cancel. */
	uint64_t cancelled;
	uint64_t refused;	/* Starts that returned -EAGAIN. */
	uint64_t in_flight;	/* Now; weir_dma_in_flight(). */
	uint64_t bytes;		/* Moved by jobs that have ended. */
	uint64_t cpu_jobs;	/* Started, by engine. */
	uint64_t file_jobs;
	uint64_t worker_jobs;	/* cpu_jobs that a worker did. */
	uint64_t fixed;		/* Transfers that used registered memory. */
	uint64_t process_jobs;	/* Started, by engine. */
	uint64_t domain_jobs;
	uint64_t translated;	/* Jobs over translated memory. */
	uint64_t bounced;	/* Jobs that went through staging, */
	uint64_t bounced_bytes;	/* and their bytes. */
	uint64_t bounce_waits;	/* Jobs that had to wait for staging. */
	uint64_t fallbacks;	/* Jobs that a better route refused. */
	uint64_t quarantines;	/* Jobs that ended before the device released
				 * their staging, */
	uint64_t quarantined;	/* and staging buffers in quarantine now. */
	uint64_t fused;		/* Steps of chains done in the pass of the
				 * step before, without a job. */
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
 *
 * Re-creates doca_dma_create() and rte_dma_configure().
 */
WEIR_API int weir_dma_create(struct weir_dma **ret, struct weir_reactor *r,
			     const struct weir_dma_opts *opts);

/*
 * Start @dma, so that it accepts jobs.
 *
 * The call has no effect if @dma is running.
 *
 * Returns 0, or
 *   -EBUSY   @dma is stopping
 *   -EAGAIN  too many calls of the state callback are due: run the loop first
 *
 * Call on the context's reactor.  Never blocks.
 *
 * Re-creates doca_ctx_start() and rte_dma_start().
 */
WEIR_API int weir_dma_start(struct weir_dma *dma);

/*
 * Stop @dma: refuse new jobs, cancel those in flight, and complete @op with 0
 * when their callbacks have run.
 *
 * If @dma is stopped, @op completes at once.
 *
 * Returns 0, or
 *   -EBUSY  @dma is stopping already
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
 *   -EBUSY  jobs are in flight; it is stopping; a turn that it has requested,
 *           or a call of the state callback, is due; a device has not released
 *           the staging of a cancelled job; a step of a chain or pipeline names
 *           it, in flight or not; or a function of an engine or domain makes
 *           the call for a job of it
 *
 * Call on the context's reactor; callbacks too.
 *
 * Re-creates doca_dma_destroy() and rte_dma_close().
 */
WEIR_API int weir_dma_destroy(struct weir_dma *dma);

/*
 * Get the state of @dma: WEIR_DMA_STOPPED, _RUNNING or _STOPPING.
 *
 * Returns the state.  Call on the context's reactor.  Never blocks.
 *
 * Re-creates doca_ctx_get_state().
 */
WEIR_API int weir_dma_state(const struct weir_dma *dma);

/*
 * Set @fn, which the loop calls with @arg after each change of state.
 *
 * It is called once for each change, in order, and before the callback of the
 * operation of weir_dma_stop().  The state may have changed again by then.
 * NULL removes the function.
 *
 * @fn may stop the context and start it again, and destroy it when no jobs are
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
 * Begin lazy jobs now instead of in the reactor's next turn.
 *
 * The call begins jobs with WEIR_JOB_LAZY, and fences with no job left before
 * them, and flushes engines that collect jobs.
 *
 * Call on the context's reactor.  Never blocks, never allocates.
 * Re-creates rte_dma_submit() and doca_ctx_flush_tasks().
 */
WEIR_API void weir_dma_flush(struct weir_dma *dma);

/*
 * Get the number of jobs of @dma in flight: started, and their callback not yet
 * begun.
 *
 * If there are none, the caller may free its jobs.
 *
 * Returns the number, from 0 to .jobs_max.
 *
 * Call on the context's reactor.  Never blocks.
 * Re-creates doca_ctx_get_num_inflight_tasks().
 */
WEIR_API uint32_t weir_dma_in_flight(const struct weir_dma *dma);

/*
 * Get the reactor of @dma.
 *
 * Returns the reactor.  Any thread.  Never blocks.
 */
WEIR_API struct weir_reactor *weir_dma_reactor(const struct weir_dma *dma);

/*
 * Get the counters of @dma.
 *
 * The caller sets .size of *@ret.
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
