/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_DMA_JOB_INTERNAL_H
#define WEIR_DMA_JOB_INTERNAL_H

/*
 * The library's part of a job, the context it runs in, and engines.
 *
 *	weir_job_start()   check, find an engine, hold bufs and domains
 *	  engine's start()  ... moves .done bytes, and moves the cursors on ...
 *	job_end()          commit, release, complete job->op
 *
 * A job is on its context's list from start to end.
 */

#include <stdatomic.h>
#include <sys/uio.h>

#include <weir/dma.h>
#include <weir/engine.h>
#include <weir/job.h>

#include "dma/loc.h"
#include "reactor/op-inline.h"

struct engine;

#define JOB_IOVS 6	/* Pieces of memory that one file transfer takes. */
#define JOB_MOVE_IOVS 4	/* Pieces of both sides in a step by a domain. */

struct job_priv {
	struct weir_dma *dma;
	struct engine *engine;
	struct weir_job *next;		/* In the context's list of all. */
	struct weir_job **pprev;
	struct weir_job *q_next;	/* In the queue where it waits. */
	struct weir_job **q_pprev;	/* NULL: not in it. */
	struct cursor src, dst;
	uint64_t total;
	uint64_t done;
	uint64_t step;			/* What the step was to move. */
	uint32_t crc;
	atomic_bool stop;		/* For the worker that has it. */
	bool differ;			/* A compare has found a difference. */
	bool direct;			/* The step goes through O_DIRECT. */
	bool waits : 1;			/* For room in its engine. */
	bool is_step : 1;		/* Of another job. */
	union {
		struct iovec iov[JOB_IOVS];
		struct {
			struct weir_domain_move move;
			struct iovec move_iov[JOB_MOVE_IOVS];
		};
		uint64_t area[20];	/* A user's engine's. */
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
 * The table of an engine, which the library's own have in common with the
 * user's, and what only they have.  Their arg is the context.
 */
struct engine_kind {
	struct weir_engine_ops ops;

	/* More to check before the start.  Optional. */
	int (*verify)(const struct weir_job *job, const struct loc_info *src,
		      const struct loc_info *dst, uint64_t total);

	/* -EAGAIN of its start is the caller's to deal with. */
	bool refuses;
};

extern const struct engine_kind engine_cpu;
extern const struct engine_kind engine_domain;
extern const struct engine_kind engine_file;
extern const struct engine_kind engine_process;

/* The library's own, as they stand in a context's array. */
enum { ENGINE_CPU, ENGINE_FILE, ENGINE_PROCESS, ENGINE_DOMAIN, N_SHIPPED };

/* An engine in a context. */
struct engine {
	const struct engine_kind *kind;
	void *arg;
	bool unflushed;			/* Jobs have begun since the flush. */
	struct weir_job *wait;		/* For room, first come first served. */
	struct weir_job **wait_last;
	struct weir_dma_engine_stats stats;
	struct engine_kind own;		/* A user's. */
};

/* Which of the library's own does @kind from @src to @dst directly, or NULL. */
const struct engine_kind *engine_own(uint32_t kind,
				     const struct weir_domain *src,
				     const struct weir_domain *dst);

/* engine.c: those that every context has. */
void engines_init(struct weir_dma *dma);

/* The @i-th in the order of preference. */
struct engine *engine_at(const struct weir_dma *dma, uint32_t i);

/* Have @e do @job, whose op is PENDING and whose cursors are at the start.
 * Returns 0, or the errno with which it is refused. */
int engine_start(struct engine *e, struct weir_job *job);

/* Have @job, which has not ended, end early. */
void engine_cancel(struct weir_job *job);

/* @job ends with @res: for job_end(). */
void engine_left(struct weir_job *job, int64_t res);

/* Ring the doorbell of each that has begun jobs since. */
void engines_flush(struct weir_dma *dma);

/* route.c: who does it, or NULL.  Changes nothing. */
struct engine *route(const struct weir_dma *dma,
		     const struct weir_engine_query *q);

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

	/* The user's behind the library's. */
	struct engine engines[WEIR_ENGINES_MAX];
	uint32_t n_engines;
	struct weir_op engine_tick;

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
