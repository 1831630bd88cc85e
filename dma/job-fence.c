/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs that do not begin when they are started: lazy ones wait for the flush,
 * fences for what was started before them.
 *
 * The context's list of jobs is in the order of the starts, so a fence may
 * begin when it is the first.  It begins in the tick of the engines, never
 * where the job before it has ended: that may be inside an engine.
 */

#include <errno.h>

#include "base/mutation.h"
#include "dma/job-internal.h"

void order_init(struct weir_dma *dma)
{
	reactor_check_thread(dma->r);
	dma->jobs_last = &dma->jobs;
	dma->lazy_last = &dma->lazy;
}

static void lazy_add(struct weir_dma *dma, struct weir_job *job)
{
	struct job_priv *p = job_priv(job);

	p->q_next = NULL;
	p->q_pprev = dma->lazy_last;
	*dma->lazy_last = job;
	dma->lazy_last = &p->q_next;
}

static void lazy_del(struct weir_dma *dma, struct job_priv *p)
{
	debug_check(p->q_pprev && *p->q_pprev);
	*p->q_pprev = p->q_next;
	if (p->q_next)
		job_priv(p->q_next)->q_pprev = p->q_pprev;
	else
		dma->lazy_last = p->q_pprev;
	p->q_pprev = NULL;
}

static bool fence_waits(const struct weir_dma *dma, const struct weir_job *job)
{
	return (job->flags & WEIR_JOB_FENCE) && dma->jobs != job;
}

bool order_hold(struct weir_job *job)
{
	struct job_priv *p = job_priv(job);
	struct weir_dma *dma = p->dma;

	debug_check(job->op.state == OP_PENDING);
	if (job->flags & WEIR_JOB_LAZY) {
		lazy_add(dma, job);
		if (!mutation(missed_flush))
			engines_arm(dma);
	} else if (fence_waits(dma, job)) {
		dma->n_fenced++;
	} else {
		return false;
	}
	p->held = true;
	return true;
}

void order_drop(struct weir_job *job)
{
	struct job_priv *p = job_priv(job);

	debug_check(p->held);
	if (p->q_pprev)
		lazy_del(p->dma, p);
	else
		p->dma->n_fenced--;
	p->held = false;
}

/* The job was accepted before, so an error of the engine is its result. */
static void begin(struct weir_job *job)
{
	struct job_priv *p = job_priv(job);
	struct weir_dma *dma = p->dma;
	int err;

	debug_check(p->held);
	order_drop(job);
	job_enter(job);
	err = engine_start(p->engine, job);
	if (unlikely(err)) {
		p->held = true;
		dma->n_fenced++;
		job_end(job, err);
	}
	job_exit(dma, job);
}

/* The job is held and not begun, but it waits for no other job. */
static bool fence_opens(const struct weir_job *job)
{
	const struct job_priv *p = job_priv((struct weir_job *)job);

	return p->held && !p->q_pprev;
}

void order_open(struct weir_dma *dma)
{
	struct weir_job *job;

	reactor_check_thread(dma->r);
	while ((job = dma->lazy)) {
		if (!fence_waits(dma, job)) {
			begin(job);
			continue;
		}
		lazy_del(dma, job_priv(job));
		dma->n_fenced++;
	}
	while ((job = dma->jobs) && fence_opens(job))
		begin(job);
}

void weir_dma_flush(struct weir_dma *dma)
{
	order_open(dma);
	engines_flush(dma);
}
