/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_DMA_BOUNCE_INTERNAL_H
#define WEIR_DMA_BOUNCE_INTERNAL_H

/* The slots of bounce.c, whose blocks are moved in bounce-block.c. */

#include "dma/bounce.h"

#define STEP_PIECES 16

enum half_state {
	EMPTY,
	FILLING,
	FULL,
	DRAINING,
};

/* Staging memory for one block. */
struct half {
	char *mem;
	uint32_t state;		/* enum half_state */
	uint64_t want;		/* What was asked of the source. */
	uint64_t len;		/* What came. */
};

/* A pull or a push of one block. */
struct step {
	struct weir_job job;
	struct slot *slot;
	struct half *half;
	struct weir_domain *held;	/* In quarantine. */
	bool starting;			/* Its engine's start is on the stack. */
	struct iovec iov[STEP_PIECES];
};

struct slot {
	struct weir_dma *dma;
	struct weir_job *job;	/* That has it; NULL: free, or quarantine. */
	struct slot *next;	/* In the list of free ones. */
	struct half half[2];
	struct step src, dst;	/* The steps of the two sides. */
	unsigned int in, out;	/* Halves that are next. */
	uint32_t blocks;	/* That this turn has begun. */
	int64_t err;		/* The first. */
};

static inline bool step_busy(const struct step *step)
{
	return step->job.op.state != OP_IDLE;
}

static inline void slot_fail(struct slot *s, int64_t err)
{
	if (!s->err)
		s->err = err;
}

static inline bool step_is_push(const struct slot *s, const struct step *step)
{
	return step == &s->dst && step->half->state == DRAINING;
}

/* Begin what can be begun in @s, which has a job; leave it if that is all. */
void bounce_run(struct slot *s);

/* A step of a slot is done: its op's callback. */
void bounce_step_ended(struct weir_op *op, int64_t res);

/* Nothing is under way in @s: its job is done, or makes room for others, and
 * the first that waits gets the slot. */
void bounce_leave(struct slot *s);

/* A step that was under way when @s lost its job has ended: if it was the last,
 * the slot is free again. */
void bounce_out_of_quarantine(struct slot *s);

#endif /* WEIR_DMA_BOUNCE_INTERNAL_H */
