/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_DMA_ROUTE_H
#define WEIR_DMA_ROUTE_H

/*
 * How a job will be done, and why not better.
 *
 * The plan is a function of what is asked and of what the engines say that they
 * can: nothing that changes goes into it, and making it changes nothing.
 */

#include "dma/job-internal.h"

/* The engines' answers to one query.  Why one cannot is asked when a caller
 * wants to know. */
struct answers {
	struct weir_engine_query q;
	struct engine *engine;		/* That can; NULL: none can. */
	bool asked;
};

struct plan {
	uint32_t route;			/* WEIR_ROUTE_; 0: none. */
	struct engine *engine;		/* That has the job. */
	struct answers direct;
	struct answers pull;		/* Of a bounce; not asked: not needed. */
	struct answers push;
	struct answers beside;		/* The last of those for other places. */
	uint8_t more[WEIR_JOB_EXTRA_MAX]; /* Of those: engines, number + 1. */
	const char *no_direct;		/* Why none, whatever engines say. */
	const char *no_bounce;
};

/* Find the best route in @dma for what @job asks, which is plan->direct.q.  The
 * rest of *@plan need not be set before. */
void route_plan(const struct weir_dma *dma, const struct weir_job *job,
		struct plan *plan);

/* How much of a plan is made of asking a domain to translate: see
 * translate.c.  The rest of @plan is the way that it goes otherwise. */
void route_translate(const struct weir_dma *dma, struct plan *plan);

/* Write in @job what becomes of it by @plan. */
void route_note(struct weir_job *job, const struct plan *plan);

/* Whether the processor cannot go there as it is. */
static inline bool is_foreign(const struct weir_domain *domain)
{
	return domain && !domain_is_memory(domain);
}

/* What checking has found out about a job. */
struct job_shape {
	enum operand_side src_side, dst_side;
	struct operand_info src, dst;
	uint64_t total;
	struct plan plan;
	bool planned;			/* .plan is set. */
};

/*
 * job-check.c: whether @job makes sense; sets what @s has but the plan.  0, or
 * what weir_job_start() returns.
 */
int job_check_operands(const struct weir_dma *dma, const struct weir_job *job,
		       struct job_shape *s);

/* Leave a message for @err, which that returned, and return it. */
int job_refuse(int err);

/* job-plan.c: that, and a plan with its reasons. */
int job_check(const struct weir_dma *dma, const struct weir_job *job,
	      struct job_shape *s);

/* Whether there is a peer to signal to. */
bool job_may_signal(const struct weir_job *job);

/*
 * The plan of @job for a start, which needs no reasons.  @s has all but that.
 */
int job_plan_to_start(struct weir_dma *dma, const struct weir_job *job,
		      struct job_shape *s);

/* Choose a way for @job, of which @s has all but the plan, and see whether it
 * lies as that wants it.  0, -EXDEV, or what the engine says. */
int job_plan(const struct weir_dma *dma, const struct weir_job *job,
	     struct job_shape *s, bool may_translate);

/* translate.c: whether @loc may be memory of this process in truth. */
bool translate_may(const struct weir_operand *operand);

/* Make capacity for what is translated.  0 or -ENOMEM. */
int translate_create(struct weir_dma *dma);

extern const struct engine_kind engine_translate;

/* job-check.c: say in @len bytes at @out why @job is refused with @err; @s is
 * what job_check() has found out until then. */
void refusal_say(char *out, size_t len, const struct weir_job *job,
		 const struct job_shape *s, int err);

/* All there are. */
#define JOB_FLAGS (WEIR_JOB_OVERWRITE | WEIR_JOB_SHORT_OK | WEIR_JOB_FENCE | \
		   WEIR_JOB_LAZY | WEIR_JOB_SIGNAL)

/* To which staging is aligned. */
#define STAGING_ALIGN 4096

#endif /* WEIR_DMA_ROUTE_H */
