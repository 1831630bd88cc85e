/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_ENGINE_H
#define WEIR_ENGINE_H

/*
 * Engines: what executes jobs.
 *
 * A DMA context has a list of them and gives each job to the first that can do
 * it.  Those that come with the library (cpu, file, process, domain) and those
 * of the user's own are behind the same table; the user's are asked first, in
 * the order in which they were added.
 *
 *	static const struct weir_engine_ops ops = {
 *		.size = sizeof(ops), .name = "card",
 *		.can = card_can, .start = card_start, .cancel = card_cancel,
 *	};
 *
 *	err = weir_dma_add_engine(dma, &ops, card);
 *
 * An engine walks a job by weir_job_pieces() and ends it by weir_job_end(), at
 * once or later.  All functions of an engine are called on the context's
 * reactor, and must not block.
 *
 * All but .can() may call any public function.  If one cancels the job for
 * which it is called, or what that job is part of, or stops the context or
 * the reactor, the request is recorded and takes effect when the function has
 * returned: .cancel() is never called inside .start() of the same job.
 * weir_dma_destroy() of the context is -EBUSY there.
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

/* What an engine is asked whether it can do. */
struct weir_engine_query {
	size_t size;		/* Of the struct, as the library knows it. */
	uint32_t kind;		/* WEIR_JOB_ */
	uint32_t flags;
	const struct weir_domain *src;	/* NULL: the kind has no such side. */
	const struct weir_domain *dst;
	uint64_t bytes;
	uint32_t n_src;		/* Pieces; of bufs, their number. */
	uint32_t n_dst;
	uint32_t n_extra; /* Locations beside; like .dst in a DUALCAST,
				 * like .src in an XOR. */
	uint32_t reserved;
};

/*
 * What an engine is made of.  Set .size to the size of the struct.
 */
struct weir_engine_ops {
	size_t size;
	const char *name;	/* For people; must live as long. */

	/*
	 * Whether it can do this: 1 or 0.  Must be a pure function of the
	 * query, without effects.  With 0 it may set *why
	 * to a string that lives as long, for people: "only memory".
	 */
	int (*can)(void *arg, const struct weir_engine_query *q,
		   const char **why);

	/*
	 * Begin @job.  Returns 0: weir_job_end() is called once, now or later;
	 * or, without having called it:
	 *   -EAGAIN  no capacity: the job waits, in its place, and start is
	 *            called again when a job of this engine has ended, or, if
	 *            none is in flight, in the next turns, and then at least
	 *            once in a millisecond
	 *   another errno  refused; weir_job_start() returns it, or, if the job
	 *            has waited, it ends with it
	 */
	int (*start)(void *arg, struct weir_job *job);

	/*
	 * @job, which has begun and not ended, should end early: see to it that
	 * weir_job_end() is called soon, or let it go on.  Not called twice for
	 * one start.  NULL: jobs go on to their end.
	 */
	void (*cancel)(void *arg, struct weir_job *job);

	/*
	 * No more jobs come for now: those that have begun and wait for a
	 * doorbell should go.  Called once after each turn's starts, or by
	 * the caller that flushes the context.  NULL: there is nothing to do.
	 */
	void (*flush)(void *arg);
};

/*
 * Add an engine to @dma, after those that were added before and in front of the
 * library's own.  The context keeps a copy of @ops; @arg goes to its functions.
 * It stays until the context is destroyed.
 *
 * Returns 0, or
 *   -EINVAL  an argument is NULL, or .name, .can or .start is; or .size is too
 *            small to hold them
 *   -E2BIG   @ops has members that this version does not know
 *   -EEXIST  there is an engine of that name
 *   -EBUSY   the context is not stopped
 *   -ENOSPC  there are WEIR_ENGINES_MAX
 *
 * Call on the context's reactor.  Never blocks, never allocates.
 *
 * Re-creates SPDK_ACCEL_MODULE_REGISTER().
 */
WEIR_API int weir_dma_add_engine(struct weir_dma *dma,
				 const struct weir_engine_ops *ops, void *arg);

/* What an engine did in a context; weir_dma_engine_stats(). */
struct weir_dma_engine_stats {
	size_t size;		/* Set by the caller: the size of the struct. */
	const char *name;	/* The engine's. */
	uint64_t jobs;		/* That it began, whole ones. */
	uint64_t steps;		/* That it began for a job in several. */
	uint64_t failed;	/* Of both: with an error, or cancelled. */
	uint64_t bytes;		/* Of both. */
	uint64_t waited;	/* That found no capacity at first. */
	uint64_t waiting;	/* Now. */
	uint64_t under_way;	/* Now. */
};

/*
 * Copy what the @i-th engine of @dma did to *@ret, whose .size the caller has
 * set.  They are counted from 0 in the order in which jobs are offered.
 *
 * Returns 0, or
 *   -EINVAL  .size is smaller than the member itself
 *   -ENOENT  there is no @i-th
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
 * The pieces of a side of @job that begin @skip bytes after its first, at most
 * @n of them, in @iov: iov_base is an address in weir_job_domain().  What is
 * before the first whole one is left out of it; nothing is left out at the end
 * but what the job does not use.
 *
 * Returns how many; 0: the side has no more, or the kind has no such side.
 *
 * Call on the reactor's thread, for engines, between start and weir_job_end();
 * on another while its owner leaves @job alone.  Never blocks.  Re-creates
 * .s.iovs and .d.iovs of spdk_accel_task.
 */
WEIR_API uint32_t weir_job_pieces(const struct weir_job *job, int side,
				  uint64_t skip, struct iovec *iov, uint32_t n);

/*
 * The domain of a side of @job, or NULL if the kind has no such side.
 *
 * Any thread, for engines, between start and weir_job_end().  Never blocks.
 * Re-creates .src_domain and .dst_domain of spdk_accel_task.
 */
WEIR_API struct weir_domain *weir_job_domain(const struct weir_job *job,
					     int side);

/*
 * The bytes that @job is to do.
 *
 * Any thread, for engines, between start and weir_job_end().  Never blocks.
 * Re-creates .nbytes of spdk_accel_task.
 */
WEIR_API uint64_t weir_job_bytes(const struct weir_job *job);

/* Bytes of a job that are its engine's. */
#define WEIR_JOB_AREA 128

/*
 * Memory in @job for its engine to use as it likes between start and
 * weir_job_end(), not cleared.
 *
 * Returns WEIR_JOB_AREA bytes, aligned to 8.
 *
 * Any thread, for engines.  Never blocks.  Re-creates the context that
 * .get_ctx_size of spdk_accel_module_if asks for.
 */
WEIR_API void *weir_job_area(struct weir_job *job);

/*
 * Say what the checksum of @job is, before weir_job_end().  Continue it from
 * job->crc; that is not to be written.
 *
 * Call on the reactor's thread, for engines, between start and weir_job_end().
 * Never blocks.  Re-creates .crc_dst of spdk_accel_task.
 */
WEIR_API void weir_job_set_crc(struct weir_job *job, uint32_t crc);

/*
 * Say what the word of @job, an atomic, was, before weir_job_end().  The word
 * is the one piece of WEIR_JOB_DST; see weir_job_fetch_add().
 *
 * Call on the reactor's thread, for engines, between start and weir_job_end().
 * Never blocks.  Re-creates the local buffer of IBV_WR_ATOMIC_FETCH_AND_ADD.
 */
WEIR_API void weir_job_set_old(struct weir_job *job, uint64_t old);

/*
 * @job ends: @bytes were done, at most weir_job_bytes(), and nothing touches
 * its memory any more.  @res is 0 or a negative errno, @code the engine's own
 * code for weir_op_get_detail().  More bytes than there are, or a negative
 * @res that is no errno (below -4095), make it -EIO.
 *
 * With 0 and fewer bytes a comparison has found a difference after them, and
 * any other kind a source that ended early.
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
