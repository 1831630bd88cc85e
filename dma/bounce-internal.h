/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_DMA_BOUNCE_INTERNAL_H
#define WEIR_DMA_BOUNCE_INTERNAL_H

/*
 * The slots of bounce.c.  Their blocks are moved in bounce-step.c.
 */

#include "dma/bounce.h"
#include "dma/kind.h"

#define STEP_PIECES 16
#define BLOCKS_IN_TURN 8	/* Before others get the slot. */

enum half_state {
	EMPTY,
	FILLING,
	PART,		/* A sum to which more is added. */
	FULL,
	DRAINING,
	WORKING,	/* A registered kind computes from it, or into it. */
};

/* Staging memory for one block. */
struct half {
	char *mem;
	uint32_t state;		/* enum half_state */
	uint64_t want;		/* Bytes asked of the source. */
	uint64_t len;		/* Bytes received, or to be sent, */
	uint32_t off;		/* from here on: of registered kinds only. */
};

/* A pull or a push of one block. */
struct step {
	struct weir_job job;
	struct slot *slot;
	struct half *half;
	const struct weir_operand *operand; /* The job's operand. */
	struct weir_domain *held;	/* In quarantine. */
	struct iovec iov[STEP_PIECES];
};

struct slot {
	struct weir_dma *dma;
	bool blockwise;		/* Blocks of its job just go in and out. */
	struct slot **list;	/* The list of its kind, if free. */
	uint32_t size;		/* Of a half. */
	struct weir_job *job;	/* Its job; NULL: free, or quarantine. */
	struct slot *next;	/* In the list of free ones. */
	struct half half[2];
	struct step src, dst;	/* The steps of the two sides. */
	unsigned int in, out;	/* Halves that are next. */
	uint32_t blocks;	/* Begun in this turn. */
	uint32_t n_added;	/* Sources beside, to the sum. */
	uint64_t pos;		/* End of the last block begun. */
	struct half *sum;	/* Incomplete sum of an XOR; or NULL. */
	bool second;		/* A block has been put to the first of two. */
	bool working;		/* A worker has both halves. */
	int step_res;		/* What kind_step() said there, */
	uint64_t taken;		/* and bytes of half[0] that are consumed. */
	int64_t err;		/* The first. */
};

static inline bool step_busy(const struct step *step)
{
	return step->job.op.state != OP_IDLE;
}

/* The first failure counts, and what the engine calls it. */
static inline void slot_fail(struct slot *s, int64_t err, int32_t code)
{
	if (s->err)
		return;
	s->err = err;
	s->job->op.detail.code = code;
}

static inline bool step_is_push(const struct slot *s, const struct step *step)
{
	return step == &s->dst && step->half->state == DRAINING;
}

/* Whether a block may be begun: there is more, and nothing against it. */
static inline bool may_fill(const struct slot *s)
{
	const struct job_priv *p = job_priv(s->job);
	const struct bounce *b = bounce_of(s->job);
	const struct cursor *c = p->src.side ? &p->src : &p->dst;

	return !s->err && !b->ended && c->left &&
	       (s->blocks < BLOCKS_IN_TURN || !s->dma->n_slot_wait);
}

/* The state of a half after a pull. */
static inline uint32_t arrived_state(const struct slot *s)
{
	return s->sum ? PART : FULL;
}

/* Whether @job is complete, or gets no more input. */
static inline bool bounce_is_over(struct weir_job *job)
{
	const struct job_priv *p = job_priv(job);

	if (unlikely(kind_is_user(job->kind)))
		return p->differ;
	return bounce_of(job)->ended || p->done == p->total;
}

/* Begin what can be begun in @s, which has a job; leave it if that is all. */
void bounce_run(struct slot *s);

/* A step of a slot is done: its op's callback. */
void bounce_step_ended(struct weir_op *op, int64_t res);

/* Nothing is in flight in @s.  Its job is done, or lets others go on; the first
 * job that waits gets the slot. */
void bounce_leave(struct slot *s);

/* A step that was in flight when @s lost its job has ended: if it was the last,
 * the slot is free again. */
void bounce_out_of_quarantine(struct slot *s);

#endif /* WEIR_DMA_BOUNCE_INTERNAL_H */
