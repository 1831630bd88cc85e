/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_DMA_ROUTE_H
#define WEIR_DMA_ROUTE_H

/*
 * The plan for a job, and why there is no better one.
 *
 * The plan is a pure function of the job's description and of the engines'
 * answers: no changing state goes into it, and making it changes nothing.
 */

#include "dma/kind.h"

/* The engines' answers to one query.  The reasons are asked for only when a
 * caller wants them. */
struct answers {
	struct weir_engine_query q;
	struct engine *engine;		/* That can do it; NULL: none. */
	bool asked;
};

struct plan {
	uint32_t route;			/* WEIR_ROUTE_; 0: none. */
	struct engine *engine;		/* That will do the job. */
	struct answers direct;
	struct answers pull;		/* Of a bounce, if asked. */
	struct answers push;
	struct answers beside;		/* The last of those for other places. */
	uint8_t more[WEIR_JOB_EXTRA_MAX]; /* Their engines, number + 1. */
	const char *no_direct;		/* Why no engine may. */
	const char *no_bounce;
};

/* Find the best route in @dma for the query of @job, which is plan->direct.q.
 * The rest of *@plan need not be set before. */
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

/* The result of checking a job. */
struct job_shape {
	enum operand_side src_side, dst_side;
	struct operand_info src, dst;
	uint64_t total;
	struct weir_kind_shape kind;	/* Of a registered kind, */
	bool kind_refused;		/* whose .shape() has refused it, */
	unsigned int kind_since;	/* called at this why_begin(). */
	bool at_sight;			/* In memory it is for the cpu engine. */
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
int job_refuse(const struct weir_dma *dma, const struct weir_job *job, int err);

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

/* Choose a route for @job, of which @s has all but the plan, and check the
 * alignment that it requires.  0, -EXDEV, or the engine's errno. */
int job_plan(const struct weir_dma *dma, const struct weir_job *job,
	     struct job_shape *s, bool may_translate);

/* translate.c: whether @loc may be memory of this process in truth. */
bool translate_may(const struct weir_operand *operand);

/* Make capacity for what is translated.  0 or -ENOMEM. */
int translate_create(struct weir_dma *dma);

extern const struct engine_kind engine_translate;

/* job-check.c: write to @len bytes at @out why @job is refused with @err; @s is
 * the result of job_check() up to the refusal. */
void refusal_say(char *out, size_t len, const struct weir_job *job,
		 const struct job_shape *s, int err);

/* All there are. */
#define JOB_FLAGS (WEIR_JOB_OVERWRITE | WEIR_JOB_SHORT_OK | WEIR_JOB_FENCE | \
		   WEIR_JOB_LAZY | WEIR_JOB_SIGNAL)

/* The alignment of staging memory. */
#define STAGING_ALIGN 4096

#endif /* WEIR_DMA_ROUTE_H */
