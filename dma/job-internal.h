/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_DMA_JOB_INTERNAL_H
#define WEIR_DMA_JOB_INTERNAL_H

/*
 * The library's part of a job, the context it runs in, and engines.
 *
 *	weir_job_start()   check, find an engine, hold bufs and domains
 *	  engine->start()  ... moves .done bytes, and moves the cursors on ...
 *	job_end()          commit, release, complete job->op
 *
 * A job is on its context's list from start to end.
 */

#include <stdatomic.h>
#include <sys/uio.h>

#include <weir/dma.h>
#include <weir/job.h>

#include "dma/loc.h"
#include "reactor/op-inline.h"

struct engine;

#define JOB_IOVS 6	/* Pieces of memory that one file transfer takes. */
#define JOB_MOVE_IOVS 4	/* Pieces of both sides in a step by a domain. */

struct job_priv {
	struct weir_dma *dma;
	const struct engine *engine;
	struct weir_job *next;		/* In the context's list of all. */
	struct weir_job **pprev;
	struct weir_job *q_next;	/* In the cpu engine's queue. */
	struct weir_job **q_pprev;	/* NULL: not in it. */
	struct cursor src, dst;
	uint64_t total;
	uint64_t done;
	uint64_t step;			/* What the step was to move. */
	uint32_t crc;
	atomic_bool stop;		/* For the worker that has it. */
	bool differ;			/* A compare has found a difference. */
	bool direct;			/* The step goes through O_DIRECT. */
	union {
		struct iovec iov[JOB_IOVS];
		struct {
			struct weir_domain_move move;
			struct iovec move_iov[JOB_MOVE_IOVS];
		};
	};
};

_Static_assert(sizeof(struct weir_job) == 1024, "part of the ABI");
_Static_assert(sizeof(struct weir_loc) == 64, "part of the ABI");
_Static_assert(sizeof(struct job_priv) <= sizeof(((struct weir_job *)0)->words),
	       "the library's part of a job");

static inline struct job_priv *job_priv(struct weir_job *job)
{
	return (struct job_priv *)(void *)job->words;
}

/*
 * What executes jobs.  The first that can do a job gets it, so the order of
 * engines[] is the order of preference.
 */
struct engine {
	const char *name;

	/* Whether it can do @kind from @src to @dst; NULL is a side that is not
	 * used.  Looks at kinds and abilities only, and changes nothing. */
	bool (*can)(uint32_t kind, const struct weir_domain *src,
		    const struct weir_domain *dst);

	/* More to check before the start.  Optional. */
	int (*verify)(const struct weir_job *job, const struct loc_info *src,
		      const struct loc_info *dst, uint64_t total);

	/* Its op is PENDING, the cursors are at the start.  Cannot fail: call
	 * job_end(), now or later, exactly once. */
	void (*start)(struct weir_job *job);

	/* Instead of start(), for an engine that asks others: 0, or the errno
	 * with which the start is refused; then it has not called job_end(). */
	int (*try)(struct weir_job *job);

	/* It should end early; it has not called job_end() yet. */
	void (*cancel)(struct weir_job *job);
};

extern const struct engine engine_cpu;
extern const struct engine engine_domain;
extern const struct engine engine_file;
extern const struct engine engine_process;
extern const struct engine *const engines[];	/* Ends with NULL. */

/* route.c: who does it, or NULL.  Changes nothing. */
const struct engine *route(uint32_t kind, const struct weir_domain *src,
			   const struct weir_domain *dst);

struct weir_dma {
	struct weir_reactor *r;
	uint32_t state;
	uint32_t jobs_max;
	uint64_t n_jobs;
	struct weir_job *jobs;		/* All under way. */
	struct weir_op *stop_op;	/* In STOPPING. */
	uint64_t worker_min;		/* UINT64_MAX: never. */
	uint64_t file_slice;
	uint64_t stream_min;		/* Copies past the cache from here on. */

	/* The cpu engine's: what it may still do in this turn, and what waits
	 * for the next. */
	uint64_t turn_bytes;
	uint64_t budget;
	uint64_t budget_turn;
	struct weir_job *queue;
	struct weir_job **queue_last;
	struct weir_op tick;

	struct weir_dma_stats stats;
	struct reactor_obj obj;
};

/*
 * @job ends with @res, or, if that is >= 0, with what it has done.  Nothing
 * touches its memory any more.
 */
void job_end(struct weir_job *job, int64_t res);

/*
 * Have a worker do all of @job by @fn, which moves .done and the cursors on; the
 * job ends with what it returns.  It looks at .stop now and then.
 */
void job_work(struct weir_job *job, int64_t (*fn)(void *job));

/* Have the worker that has @job, if one has, stop. */
void job_work_cancel(struct weir_job *job);

/* engine-cpu.c: set up and take down its part of @dma. */
void cpu_init(struct weir_dma *dma);

/* dma.c: a job has left; a stop may be done. */
void dma_left(struct weir_dma *dma);

#endif /* WEIR_DMA_JOB_INTERNAL_H */
