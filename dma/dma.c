/* SPDX-License-Identifier: BSD-3-Clause */
/* DMA contexts: their life, and what they count. */

#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "base/why.h"
#include "dma/bounce.h"
#include "dma/route.h"

#define JOBS_DEFAULT 4096
#define JOBS_MAX (1u << 24)
#define TURN_BYTES_DEFAULT (2u << 20)
#define FILE_SLICE_DEFAULT (16u << 20)
#define SLICE_MIN 4096
#define STAGING_BUFS_DEFAULT 4
#define STAGING_BUFS_MAX 1024
#define STAGING_SIZE_DEFAULT (256u << 10)
#define STAGING_SIZE_MAX (64u << 20)

static int load_opts(struct weir_dma_opts *opts,
		     const struct weir_dma_opts *user)
{
	int err = opts_load(opts, sizeof(*opts), user, "weir_dma_create");

	if (err)
		return err;
	if (!opts->jobs_max)
		opts->jobs_max = JOBS_DEFAULT;
	if (!opts->turn_bytes)
		opts->turn_bytes = TURN_BYTES_DEFAULT;
	if (!opts->file_slice)
		opts->file_slice = FILE_SLICE_DEFAULT;
	if (!opts->worker_min)
		opts->worker_min = UINT64_MAX;
	if (!opts->staging_bufs)
		opts->staging_bufs = STAGING_BUFS_DEFAULT;
	if (!opts->staging_size)
		opts->staging_size = STAGING_SIZE_DEFAULT;
	if (opts->jobs_max > JOBS_MAX)
		return why(-EINVAL, "weir_dma_create: .jobs_max is at most %u",
			   JOBS_MAX);
	if (opts->turn_bytes < SLICE_MIN || opts->file_slice < SLICE_MIN)
		return why(-EINVAL, "weir_dma_create: .turn_bytes and "
			   ".file_slice are at least %u", SLICE_MIN);
	if (opts->staging_bufs > STAGING_BUFS_MAX ||
	    opts->staging_size > STAGING_SIZE_MAX ||
	    opts->staging_size % STAGING_ALIGN)
		return why(-EINVAL, "weir_dma_create: .staging_bufs is at most "
			   "%u, .staging_size at most %u and a multiple of %u",
			   STAGING_BUFS_MAX, STAGING_SIZE_MAX, STAGING_ALIGN);
	return 0;
}

int weir_dma_create(struct weir_dma **ret, struct weir_reactor *r,
		    const struct weir_dma_opts *user)
{
	struct weir_dma_opts opts;
	struct weir_dma *dma;
	int err;

	err = load_opts(&opts, user);
	if (err)
		return err;
	dma = mem_calloc(1, sizeof(*dma));
	if (!dma)
		return why(-ENOMEM, "weir_dma_create: no memory");
	dma->r = r;
	dma->n_slots = opts.staging_bufs;
	dma->staging_size = opts.staging_size;
	if (translate_create(dma) || bounce_create(dma)) {
		free(dma->translated);
		free(dma);
		return why(-ENOMEM, "weir_dma_create: no memory for staging");
	}
	err = reactor_attach(r, &dma->obj, "weir_dma");
	if (err) {
		bounce_destroy(dma);
		free(dma->translated);
		free(dma);
		return err;
	}
	dma->state = WEIR_DMA_STOPPED;
	dma->jobs_max = opts.jobs_max;
	dma->worker_min = opts.worker_min;
	dma->file_slice = opts.file_slice;
	dma->turn_bytes = opts.turn_bytes;
	dma->stream_min = opts.stream_min;
	order_init(dma);
	state_init(dma);
	cpu_init(dma);
	capacity_init(dma);
	hop_init(dma);
	err = engines_init(dma);
	if (err) {
		engines_fini(dma);
		reactor_detach(&dma->obj);
		bounce_destroy(dma);
		free(dma->translated);
		free(dma);
		return err;
	}
	dma_publish(dma);
	*ret = dma;
	return 0;
}

int weir_dma_start(struct weir_dma *dma)
{
	if (dma->state == WEIR_DMA_STOPPING)
		return why(-EBUSY, "weir_dma_start: the context is stopping; "
			   "wait for the operation of weir_dma_stop()");
	if (dma->state == WEIR_DMA_RUNNING)
		return 0;
	if (state_is_full(dma))
		return why(-EAGAIN, "weir_dma_start: too many calls of the "
			   "state callback are due; let the loop run");
	dma_set_state(dma, WEIR_DMA_RUNNING);
	return 0;
}

static const struct weir_op_class stop_class = { .name = "DMA stop" };

/*
 * A cancel may end its job at once, or any job that was waiting for it: so the
 * list is walked by taking jobs off it and putting them on another.
 */
static void cancel_all(struct weir_dma *dma)
{
	struct weir_job *asked = NULL;
	struct weir_job *job;
	struct job_priv *p;

	while ((job = dma->jobs)) {
		p = job_priv(job);
		dma->jobs = p->next;
		if (p->next)
			job_priv(p->next)->pprev = &dma->jobs;
		p->next = asked;
		p->pprev = &asked;
		if (asked)
			job_priv(asked)->pprev = &p->next;
		asked = job;
		weir_op_cancel(&job->op);
	}
	dma->jobs = asked;
	dma->jobs_last = &dma->jobs;
	for (job = asked; job; job = p->next) {
		p = job_priv(job);
		p->pprev = dma->jobs_last;
		dma->jobs_last = &p->next;
	}
}

int weir_dma_stop(struct weir_dma *dma, struct weir_op *op)
{
	int err;

	if (dma->state == WEIR_DMA_STOPPING)
		return why(-EBUSY, "weir_dma_stop: the context is stopping");
	err = op_begin(dma->r, op, &stop_class);
	if (err)
		return op_refused(err, op, "weir_dma_stop");
	if (dma->n_jobs || dma->stats.quarantined)
		dma_set_state(dma, WEIR_DMA_STOPPING);
	cancel_all(dma);
	dma->stop_op = op;
	dma_left(dma);
	return 0;
}

int weir_dma_destroy(struct weir_dma *dma)
{
	if (!dma)
		return 0;
	if (dma->n_jobs)
		return why(-EBUSY, "weir_dma_destroy: jobs in flight: %llu; "
			   "weir_dma_stop() ends them",
			   (unsigned long long)dma->n_jobs);
	if (dma->state == WEIR_DMA_STOPPING)
		return why(-EBUSY, "weir_dma_destroy: the context is stopping; "
			   "wait for the operation of weir_dma_stop()");
	if (dma->n_entered)
		return why(-EBUSY, "weir_dma_destroy: called from a function "
			   "of an engine or domain for a job of the context");
	if (weir_op_is_busy(&dma->tick) || weir_op_is_busy(&dma->engine_tick) ||
	    weir_op_is_busy(&dma->capacity_tick) ||
	    weir_op_is_busy(&dma->gate_op))
		return why(-EBUSY, "weir_dma_destroy: callbacks of jobs are "
			   "due; let the reactor turn");
	if (state_is_due(dma))
		return why(-EBUSY, "weir_dma_destroy: calls of the state "
			   "callback are due; let the reactor turn");
	if (dma->stats.quarantined)
		return why(-EBUSY, "weir_dma_destroy: a device has not let go of "
			   "%llu staging buffers",
			   (unsigned long long)dma->stats.quarantined);
	if (dma->n_steps || atomic_load(&dma->n_hops))
		return why(-EBUSY, "weir_dma_destroy: %u steps of chains, or "
			   "of pipelines, name it; destroy those first",
			   dma->n_steps + atomic_load(&dma->n_hops));
	engines_fini(dma);
	dma_unpublish(dma);
	reactor_detach(&dma->obj);
	bounce_destroy(dma);
	free(dma->translated);
	free(dma);
	return 0;
}

int weir_dma_state(const struct weir_dma *dma)
{
	return (int)dma->state;
}

struct weir_reactor *weir_dma_reactor(const struct weir_dma *dma)
{
	return dma->r;
}
