/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_DMA_BOUNCE_H
#define WEIR_DMA_BOUNCE_H

/* Jobs through staging memory, see bounce.c. */

#include "dma/job-internal.h"

struct slot;

/* The state of a bouncing job, kept in its area while it has no slot, too. */
struct bounce {
	struct slot *slot;		/* NULL: it waits for one. */
	struct engine *pull;		/* Source; NULL: not foreign. */
	struct engine *push;		/* Destination; likewise. */
	struct job_queue *queue;	/* The queue that it is in. */
	uint64_t ticket;		/* Order of arrival. */
	uint8_t class;
	uint8_t nesting;		/* Also if it calls no function. */
	bool ended;			/* The source has. */
	uint8_t more[WEIR_JOB_EXTRA_MAX]; /* Engines: number + 1; 0: memory. */
};

_Static_assert(sizeof(struct bounce) <= WEIR_JOB_AREA, "in a job's area");

static inline struct bounce *bounce_of(struct weir_job *job)
{
	return (struct bounce *)(void *)job_priv(job)->area;
}

/* The engine that moves the @i-th extra operand; NULL: it is not foreign. */
static inline struct engine *bounce_extra(struct weir_job *job, uint32_t i)
{
	uint8_t n = bounce_of(job)->more[i];

	return n ? &job_priv(job)->dma->engines[n - 1] : NULL;
}

extern const struct engine_kind engine_bounce;

/* Whether @e is a user's, whose functions may do anything. */
static inline bool bounce_is_own(const struct engine *e)
{
	return e->kind == &e->own && !(e->own.ops.flags & WEIR_ENGINE_LEAF);
}

/* How deep functions are nested that @job calls, a step of one of the slots. */
uint32_t bounce_nesting(const struct weir_job *job);

/* Write to @out, of @len bytes, why a job like @job would wait for staging now;
 * an empty string if it would not. */
void bounce_say(const struct weir_dma *dma, const struct weir_job *job,
		char *out, size_t len);

/* Make the slots of @dma, whose number and size are set.  0, or -ENOMEM. */
int bounce_create(struct weir_dma *dma);

/* Free them; none is in use. */
void bounce_destroy(struct weir_dma *dma);

/* @job, about to start, moves by these engines; @more, if it has operands
 * beside, are those for them, as in struct bounce. */
void bounce_prepare(struct weir_job *job, struct engine *pull,
		    struct engine *push, const uint8_t *more);

/* Whether what comes after the step that @job is may happen where it ends, and
 * need not wait for its turn. */
bool bounce_goes_on(const struct weir_job *job);

/* The kernel, or an engine, has refused @job, which has moved nothing, with
 * @err: let it go through staging, if it can, or end it. */
void bounce_instead(struct weir_job *job, int64_t err);

#endif /* WEIR_DMA_BOUNCE_H */
