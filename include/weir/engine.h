/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_ENGINE_H
#define WEIR_ENGINE_H

/*
 * Engines, which execute jobs.
 *
 * A DMA context has a list of engines and gives each job to the first that can
 * do it.  The library's engines (cpu, file, process, domain) and the user's own
 * have the same table of functions.  Those of providers are asked first, then the
 * user's, in the order in which they were added.
 *
 *	static const struct weir_engine_ops ops = {
 *		.size = sizeof(ops), .name = "card",
 *		.can = card_can, .start = card_start, .cancel = card_cancel,
 *	};
 *
 *	err = weir_dma_add_engine(dma, &ops, card);
 *
 * An engine walks a job by weir_job_pieces() and weir_job_skip(), and ends it by
 * weir_job_end(), at once or later.  The context calls all functions of an
 * engine on its reactor; they must not block.
 *
 * All except .can() and .verify() may call any public function.  If one cancels
 * the job for which it is called, or the operation of which that job is a part,
 * or stops the context or the reactor, the library records the request and acts
 * on it when the function has returned: .cancel() is never called inside
 * .start() of the same job.  weir_dma_destroy() of the context is -EBUSY there.
 *
 * Re-creates spdk_accel_module_if and the driver's side of rte_dmadev.
 */

#include <sys/uio.h>

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_dma;
struct weir_domain;
struct weir_job;

/* Engines that a context can have, the library's own included. */
#define WEIR_ENGINES_MAX 16

/* A job, as a question to an engine whether it can do it. */
struct weir_engine_query {
	size_t size;		/* Of the struct, as the library knows it. */
	uint32_t kind;		/* WEIR_JOB_ */
	uint32_t flags;
	const struct weir_domain *src;	/* NULL: the kind has no such side. */
	const struct weir_domain *dst;
	uint64_t bytes;
	uint32_t n_src;		/* Pieces; of bufs, their number. */
	uint32_t n_dst;
	uint32_t n_extra; /* Extra operands; like .dst in a DUALCAST,
				 * like .src in an XOR. */
	uint32_t reserved;
};

/* weir_engine_ops.flags */
#define WEIR_ENGINE_FOREIGN 1u	/* It does only jobs that have a side in a
				 * domain other than this process's memory, and
				 * is not asked about others: small copies in
				 * memory then cost what they do without it. */
#define WEIR_ENGINE_NO_FILES 2u	/* It does no jobs with a side in a file, and is
				 * not asked about them: likewise. */
#define WEIR_ENGINE_LEAF 4u	/* No job of it waits for other jobs, and the next
				 * step of a job may begin in its call of
				 * weir_job_end(), but for .start() and
				 * .cancel(). */
#define WEIR_ENGINE_FLAGS 7u	/* All of them. */

/*
 * The functions of an engine.  Set .size to the size of the struct.
 */
struct weir_engine_ops {
	size_t size;
	const char *name;	/* For people; valid as long as the engine. */

	/*
	 * Tells whether it can do this: 1 or 0.  Must be a pure function of the
	 * query, without effects.  With 0 it may set *why to a string for
	 * people, which must stay valid: "only memory".
	 */
	int (*can)(void *arg, const struct weir_engine_query *q,
		   const char **why);

	/*
	 * Begin @job.  Returns 0, and calls weir_job_end() once, now or later;
	 * or, without calling it:
	 *   -EAGAIN  no capacity: the job waits in order, and the context calls
	 *            start again when a job of this engine has ended, or, if
	 *            none is in flight, in the next turns, and then at least
	 *            once in a millisecond
	 *   another errno  refused; weir_job_start() returns it, or, if the job
	 *            has waited, the job ends with it.  weir_why() then has
	 *            what the function has left by weir_why_set(), or else
	 *            the name of the engine
	 */
	int (*start)(void *arg, struct weir_job *job);

	/*
	 * A request to end @job early, which has begun and not ended.  The
	 * engine calls weir_job_end() soon, or lets the job continue.  Not
	 * called twice for one start.  NULL: jobs continue to their end.
	 */
	void (*cancel)(void *arg, struct weir_job *job);

	/*
	 * Submit jobs that have begun and wait for a doorbell.  Called once
	 * after each turn's starts, and by weir_dma_flush().  NULL: not needed.
	 */
	void (*flush)(void *arg);

	uint32_t flags;		/* WEIR_ENGINE_ */
	uint32_t reserved;

	/*
	 * Verify @side of @job, WEIR_JOB_SRC and so on, before the job moves
	 * anything; .can() has agreed.  Of a job through staging it is asked
	 * about the side that it moves alone.  It may read .kind, .flags, .src,
	 * .dst, .more and .n_extra of @job, which may be a copy, and must have
	 * no effects.  Returns 0, or the errno that weir_job_start() then
	 * returns, and may leave a message.  NULL: not needed.
	 */
	int (*verify)(void *arg, const struct weir_job *job, int side);
};

/*
 * Add an engine to @dma, after the user's earlier ones and before the
 * library's.
 *
 * The context copies @ops, and passes @arg to its functions.  The engine stays
 * until the context is destroyed.
 *
 * Returns 0, or
 *   -EINVAL  an argument is NULL, or .name, .can or .start is; .flags has unknown
 *            bits; or .size is too small for them
 *   -E2BIG   @ops sets a member that this version does not have
 *   -EEXIST  there is an engine of that name
 *   -EBUSY   the context is not stopped
 *   -ENOSPC  there are WEIR_ENGINES_MAX engines
 *
 * Call on the context's reactor.  Never blocks, never allocates.
 *
 * Re-creates SPDK_ACCEL_MODULE_REGISTER().
 */
WEIR_API int weir_dma_add_engine(struct weir_dma *dma,
				 const struct weir_engine_ops *ops, void *arg);

/* Counters of an engine in a context; weir_dma_engine_stats(). */
struct weir_dma_engine_stats {
	size_t size;		/* Set by the caller: the size of the struct. */
	const char *name;	/* The engine's. */
	uint64_t jobs;		/* Whole jobs that it began. */
	uint64_t steps;		/* Steps that it began, of jobs in several. */
	uint64_t failed;	/* Of both: with an error, or cancelled. */
	uint64_t bytes;		/* Of both. */
	uint64_t waited;	/* Of both: found no capacity at first. */
	uint64_t waiting;	/* Now. */
	uint64_t under_way;	/* Now. */
};

/*
 * Get the counters of the @i-th engine of @dma.
 *
 * The caller sets .size of *@ret.  Engines are counted from 0, in the order in
 * which they are asked.
 *
 * Returns 0, or
 *   -EINVAL  .size is smaller than the member itself
 *   -ENOENT  there is no @i-th engine
 *
 * Call on the context's reactor.  Never blocks.  Re-creates rte_dma_stats_get()
 * and spdk_accel_get_stats().
 */
WEIR_API int weir_dma_engine_stats(const struct weir_dma *dma, uint32_t i,
				   struct weir_dma_engine_stats *ret);

/* Sides of a job, for weir_job_pieces(). */
#define WEIR_JOB_SRC 0
#define WEIR_JOB_DST 1
#define WEIR_JOB_EXTRA 2 /* The first of .more; 3 is the second. */

/*
 * Get at most @n pieces of a side of @job, from @skip bytes after its
 * beginning.
 *
 * iov_base of a piece in @iov is an address in weir_job_domain().  The first
 * piece begins exactly @skip bytes after the beginning of the side, and the
 * last one ends where the job ends.
 *
 * Returns the number of pieces; 0: the side has no more, or the kind has no
 * such side.
 *
 * Call on the reactor's thread, for engines, between start and weir_job_end();
 * on another while its owner leaves @job alone.  Never blocks.  Re-creates
 * .s.iovs and .d.iovs of spdk_accel_task.
 */
WEIR_API uint32_t weir_job_pieces(const struct weir_job *job, int side,
				  uint64_t skip, struct iovec *iov, uint32_t n);

/*
 * Go on by @n bytes in the source and the destination of @job, at most to the end
 * of each: weir_job_pieces() and weir_job_keys() then count from there.
 *
 * So an engine need not count again what it has posted before.  Do not refuse a
 * job after that, nor send it through staging.  It is not for jobs of a
 * registered kind, whose sides have lengths of their own.
 *
 * Call on the reactor's thread, for engines, between start and weir_job_end().
 * Never blocks.  Re-creates the iterators of spdk_iov_xfer.
 */
WEIR_API void weir_job_skip(struct weir_job *job, uint64_t n);

/*
 * Have the library do @job through its staging, because the engine's device does
 * not know the job's memory in this process, for the reason @err.
 *
 * For .start() of an engine, which returns what this call returns.  The engine
 * gets steps of the job, between its domain and staging, of which
 * weir_job_keys() gives keys.  The first step may begin inside this call, by a
 * call of .start(), and the job may end there.  Steps have the kind
 * WEIR_JOB_COPY, and .can() is not asked about them.
 *
 * Returns 0, and the engine does not call weir_job_end().  Or the errno with which
 * .start() refuses the job: it has a signal, which goes with all bytes; it is no
 * copy between memory and another domain; or it is such a step, and @err stays
 * what it is.
 *
 * Call on the reactor's thread, inside .start().  Never blocks.
 *
 * Re-creates the bounce buffers of spdk_bdev_io and SWIOTLB.
 */
WEIR_API int weir_job_stage(struct weir_job *job, int err);

/*
 * Tell whether @job is a step of one that goes through staging: it has no caller
 * to be refused to, and others may follow it.
 *
 * Returns 1 or 0.  Any thread, for engines, between start and weir_job_end().
 * Never blocks.  Re-creates bounce_md of spdk_accel_task.
 */
WEIR_API int weir_job_is_step(const struct weir_job *job);

/*
 * Tell whether an exporter has revoked memory of @job that was imported by
 * weir_mmap_import().
 *
 * An engine that moves a job in parts asks before each, and ends the job with
 * -ESTALE.  Of a step the answer is 0: the library asks itself between steps.  Of
 * what a provider's device has imported the provider knows more.
 *
 * Returns 1 or 0.  Call on the reactor's thread, for engines, between start and
 * weir_job_end().  Never blocks.  Re-creates nothing: peers fail such accesses
 * in the device.
 */
WEIR_API int weir_job_is_stale(const struct weir_job *job);

/*
 * Get the domain of a side of @job, or NULL if the kind has no such side.
 *
 * Returns the domain, or NULL.  Any thread, for engines, between start and
 * weir_job_end().  Never blocks.
 * Re-creates .src_domain and .dst_domain of spdk_accel_task.
 */
WEIR_API struct weir_domain *weir_job_domain(const struct weir_job *job,
					     int side);

/*
 * Get the number of bytes of @job.
 *
 * Returns the number of bytes.  Any thread, for engines, between start and
 * weir_job_end().  Never blocks.
 * Re-creates .nbytes of spdk_accel_task.
 */
WEIR_API uint64_t weir_job_bytes(const struct weir_job *job);

/* Bytes of a job for its engine. */
#define WEIR_JOB_AREA 128

/*
 * Get memory in @job that its engine may use between start and weir_job_end().
 *
 * It is not cleared.  It is at the same distance from @job in each job.
 *
 * Returns WEIR_JOB_AREA bytes, aligned to 8.
 *
 * Any thread, for engines.  Never blocks.  Re-creates the context that
 * .get_ctx_size of spdk_accel_module_if asks for.
 */
WEIR_API void *weir_job_area(struct weir_job *job);

/*
 * Set the checksum of @job, before weir_job_end().
 *
 * Continue it from job->crc, and do not write that member.
 *
 * Call on the reactor's thread, for engines, between start and weir_job_end().
 * Never blocks.  Re-creates .crc_dst of spdk_accel_task.
 */
WEIR_API void weir_job_set_crc(struct weir_job *job, uint32_t crc);

/*
 * Set the old value of the word of @job, an atomic, before weir_job_end().
 *
 * The word is the one piece of WEIR_JOB_DST; see weir_job_fetch_add().
 *
 * Call on the reactor's thread, for engines, between start and weir_job_end().
 * Never blocks.  Re-creates the local buffer of IBV_WR_ATOMIC_FETCH_AND_ADD.
 */
WEIR_API void weir_job_set_old(struct weir_job *job, uint64_t old);

/*
 * Set the engine's own code of @job, for weir_op_get_detail(), before .start()
 * refuses a step; weir_job_end() has a code of its own.
 *
 * Call on the reactor's thread, for engines, inside .start().  Never blocks.
 * Re-creates the status that rte_dma_completed_status() gives.
 */
WEIR_API void weir_job_set_code(struct weir_job *job, int32_t code);

/*
 * End @job, of which @bytes were done, at most weir_job_bytes().
 *
 * The engine and its device must not access the job's memory any more.  @res is
 * 0 or a negative errno, @code the engine's own code for weir_op_get_detail().
 * If @bytes is too large, or @res is a negative value that is no errno (below
 * -4095), the job ends with -EIO.
 *
 * If @res is 0 and @bytes is less than weir_job_bytes(), a comparison has found
 * a difference after @bytes; for any other kind the source ended early.
 *
 * Call on the reactor's thread, for engines, once after start, also inside it.
 * Never blocks, never allocates.
 *
 * Re-creates spdk_accel_task_complete().
 */
WEIR_API void weir_job_end(struct weir_job *job, uint64_t bytes, int64_t res,
			   int32_t code);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_ENGINE_H */
