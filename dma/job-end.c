/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs: the end of one, and what may come to it on a worker. */

#include <errno.h>

#include "base/probe.h"
#include "dma/bounce.h"
#include "dma/route.h"
#include "mem/buf-internal.h"
#include "reactor/io.h"

static void delist(struct weir_dma *dma, struct job_priv *p)
{
	*p->pprev = p->next;
	if (p->next)
		job_priv(p->next)->pprev = p->pprev;
	else
		dma->jobs_last = p->pprev;
	if (unlikely(dma->n_fenced))
		engines_arm(dma);
}

static void let_go(struct weir_dma *dma, struct weir_job *job)
{
	struct job_priv *p = job_priv(job);

	if (p->src.side)
		operand_release(&job->src, p->src.side, dma->r);
	if (p->dst.side)
		operand_release(&job->dst, p->dst.side, dma->r);
	if (unlikely(job->n_extra))
		extra_release(dma, job);
}

static int enter(const struct weir_operand *operand,
		 const struct weir_reactor *r)
{
	const struct weir_mmap *mmap = operand_import(operand);
	const struct weir_buf *buf;
	int err = 0;

	if (mmap)
		return import_enter(mmap->import);
	for (buf = operand->buf; buf; buf = buf->next)
		if (mmap_counts(buf->use->mmap) && mmap_enter(buf->use, r))
			err = -ESTALE;
	return err;
}

static void leave(const struct weir_operand *operand,
		   const struct weir_reactor *r)
{
	const struct weir_mmap *mmap = operand_import(operand);
	const struct weir_buf *buf;

	if (mmap)
		import_leave(mmap->import);
	for (buf = operand->buf; buf; buf = buf->next)
		if (mmap_counts(buf->use->mmap))
			mmap_leave(buf->use, r);
}

int job_enter_each(struct weir_job *job)
{
	const struct weir_reactor *r = job->op.reactor;
	const struct job_priv *p = job_priv(job);
	uint32_t i;
	int err = 0;

	if (p->src.side)
		err |= enter(&job->src, r);
	if (p->dst.side)
		err |= enter(&job->dst, r);
	for (i = 0; i < job->n_extra; i++)
		err |= enter(&job->more[i], r);
	return err;
}

__attribute__((noinline)) static void leave_each(struct weir_job *job)
{
	const struct weir_reactor *r = job->op.reactor;
	const struct job_priv *p = job_priv(job);
	uint32_t i;

	if (p->src.side)
		leave(&job->src, r);
	if (p->dst.side)
		leave(&job->dst, r);
	for (i = 0; i < job->n_extra; i++)
		leave(&job->more[i], r);
}

static inline void leave_imports(struct weir_job *job)
{
	struct mmap_use *import = job_route(job)->import;

	job_priv(job)->entered = false;
	if (likely(import))
		mmap_leave_own(import);
	else
		leave_each(job);
}

void job_take_back(struct weir_job *job)
{
	struct weir_dma *dma = job_priv(job)->dma;

	if (unlikely(job_priv(job)->entered))
		leave_imports(job);
	let_go(dma, job);
	delist(dma, job_priv(job));
	debug_check(dma->stats.started > 0);
	dma->stats.started--;
	op_abandon(&job->op);
	job_uncount(dma);
}

static void count(struct weir_dma *dma, const struct weir_op *op)
{
	if (op->res >= 0)
		dma->stats.completed++;
	else if (op->res == -ECANCELED ||
		 (op->res == -ETIMEDOUT && op->flags & OP_TIMED_OUT))
		dma->stats.cancelled++;
	else
		dma->stats.failed++;
}

/* Set the data lengths of the bufs that @job has written to. */
static void commit(struct weir_job *job)
{
	struct job_priv *p = job_priv(job);

	if (unlikely(job->dst.buf) &&
	    (p->dst.side == OPERAND_APPEND || p->dst.side == OPERAND_OVERWRITE))
		operand_commit(&job->dst, p->dst.side, p->done);
	if (unlikely(job->n_extra))
		extra_commit(job, p->done);
}

void job_leave(struct weir_op *op)
{
	struct weir_job *job = weir_job_of(op);
	struct weir_dma *dma = job_priv(job)->dma;

	if (op->res >= 0)
		commit(job);
	let_go(dma, job);
	count(dma, op);
	job_uncount(dma);
}

/* A step holds nothing.  The callback of its job examines the result. */
static void end_step(struct weir_job *job, int64_t res)
{
	struct job_priv *p = job_priv(job);

	engine_left(job, res);
	job->op.detail.bytes = p->done;
	res = res < 0 ? res : (int64_t)p->done;
	if (bounce_goes_on(job)) {
		op_abandon(&job->op);
		job->op.fn(&job->op, res);
	} else {
		op_complete(&job->op, res);
	}
}

bool job_is_stale_slow(const struct weir_job *job)
{
	const struct job_priv *p = job_priv((struct weir_job *)job);

	return (p->src.side && operand_stale(&job->src)) ||
	       (p->dst.side && operand_stale(&job->dst)) ||
	       (job->n_extra && extra_stale(job));
}

void job_end(struct weir_job *job, int64_t res)
{
	struct job_priv *p = job_priv(job);
	struct weir_dma *dma = p->dma;
	bool translated = job_route(job)->translated;

	if (unlikely(p->is_step)) {
		end_step(job, res);
		return;
	}
	if (unlikely(p->entered))
		leave_imports(job);
	if (res >= 0) {
		res = (int64_t)p->done;
		job->crc = p->crc;
	}
	if (unlikely(p->begun))
		kind_end(job, res);
	if (unlikely(translated)) {
		job_enter(job);
		dma->translate.kind->ended(job);
	}
	job->op.detail.bytes = p->done;
	job->op.detail.segment = p->src.side ? p->src.index : p->dst.index;
	dma->stats.bytes += p->done;
	if (unlikely(p->held))
		order_drop(job);
	else
		engine_left(job, res);
	delist(dma, p);
	PROBE3(job_done, job, res, p->done);
	op_complete(&job->op, res);
	if (unlikely(translated))
		job_exit(dma, job);
}

static void work_done(struct weir_op *op, int64_t res)
{
	job_end(weir_container_of(op, struct weir_job, inner), res);
}

void job_work(struct weir_job *job, int64_t (*fn)(void *job))
{
	struct weir_op *op = job_inner(job, work_done);

	op->kind = IO_WORK;
	op->u.io.addr = (uintptr_t)fn;
	op->u.io.aux = (uintptr_t)job;
	io_launch(job->op.reactor, op);
}

void job_work_cancel(struct weir_job *job)
{
	atomic_store_explicit(&job_priv(job)->stop, true, memory_order_relaxed);
	weir_op_cancel(&job->inner);
}
