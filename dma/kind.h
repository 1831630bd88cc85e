/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_DMA_KIND_H
#define WEIR_DMA_KIND_H

/*
 * Registered kinds of jobs: their table, and what a job of one keeps while it
 * runs.
 *
 * The cpu engine calls kind_step() for the pieces of those whose sides are
 * memory of this process, bounce for the halves of a slot.
 */

#include <weir/kind.h>

#include "dma/job-internal.h"

/* The state of a job of a registered kind.  The end of a job's area, behind
 * what bounce has there; only .result lies behind what engines may use. */
struct kind_state {
	uint64_t consumed;		/* Bytes of input. */
	uint32_t in_unit, out_unit;
	uint64_t state[WEIR_KIND_STATE];
	uint64_t result[WEIR_KIND_RESULT];
};

#define KIND_AREA 8	/* Words in front of it. */

_Static_assert(sizeof(((struct job_priv *)0)->area) ==
		       KIND_AREA * 8 + sizeof(struct kind_state),
	       "the rest of a job's area");
_Static_assert(KIND_AREA * 8 + offsetof(struct kind_state, result) >=
		       WEIR_JOB_AREA,
	       "an engine does not write to what the job reports");

static inline struct kind_state *kind_state(const struct weir_job *job)
{
	return (struct kind_state *)(void *)&job_priv((struct weir_job *)job)
		->area[KIND_AREA];
}

static inline bool kind_is_user(uint32_t kind)
{
	return kind >= WEIR_JOB_USER;
}

/* Returns the functions of @kind, or NULL: there is no such kind. */
const struct weir_kind_ops *kind_find(uint32_t kind);

/* @job begins.  Returns 0, or the errno with which its kind refuses it. */
int kind_begin(struct weir_job *job);

/* The functions of the kind of @job, which was checked. */
static inline const struct weir_kind_ops *kind_of(const struct weir_job *job)
{
	return kind_find(job->kind);
}

/* Input from which on a worker does @job. */
static inline uint64_t kind_worker_min(const struct weir_job *job)
{
	uint64_t min = kind_of(job)->worker_min;

	return min ? min : UINT64_MAX;
}

/* @job, which has begun, ends with @res. */
static inline void kind_end(struct weir_job *job, int64_t res)
{
	struct job_priv *p = job_priv(job);

	debug_check(p->begun);
	p->begun = false;
	if (kind_of(job)->end)
		kind_of(job)->end(job, res < 0 ? res : (int64_t)p->done);
}

/* What kind_step() works on: a piece of the input, and capacity. */
struct kind_piece {
	const char *in;
	size_t in_len;
	char *out;
	size_t out_len;
	bool last;		/* The input ends with this. */
	bool is_all;		/* There is no capacity beyond .out_len. */
};

/*
 * Call .run() of @job's kind for @piece.  Returns 0, with .in_len and .out_len
 * set to what was consumed and produced; 1 if the output is complete; or an
 * errno.
 */
int kind_step(struct weir_job *job, struct kind_piece *piece);

#endif /* WEIR_DMA_KIND_H */
