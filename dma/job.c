/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/* Jobs: everything is checked before anything is changed; then an engine. */

#include <errno.h>

#include "dma/job-internal.h"
#include "mem/buf-internal.h"
#include "reactor/io.h"

/* What the sides of a job are, by its kind and flags. */
struct shape {
	enum loc_side src_side, dst_side;
	struct loc_info src, dst;
	uint64_t total;
	struct engine *engine;
};

static int set_sides(const struct weir_job *job, struct shape *s)
{
	bool over = job->flags & WEIR_JOB_OVERWRITE;

	if (job->flags & ~(WEIR_JOB_OVERWRITE | WEIR_JOB_SHORT_OK))
		return -EINVAL;
	s->src_side = LOC_SRC;
	s->dst_side = over ? LOC_OVERWRITE : LOC_APPEND;
	switch (job->kind) {
	case WEIR_JOB_COPY:
	case WEIR_JOB_PULL:
	case WEIR_JOB_PUSH:
	case WEIR_JOB_COPY_CRC32C:
		return 0;
	case WEIR_JOB_FILL:
		s->src_side = LOC_NONE;
		return 0;
	case WEIR_JOB_CRC32C:
		s->dst_side = LOC_NONE;
		return 0;
	case WEIR_JOB_COMPARE:
		s->dst_side = LOC_SRC;
		return 0;
	default:
		return -EINVAL;
	}
}

static int check_totals(const struct weir_job *job, struct shape *s)
{
	s->total = s->src_side ? s->src.total : s->dst.total;
	if (!s->total)
		return -EINVAL;
	if (s->total > INT64_MAX)
		return -ERANGE;
	if (!s->dst_side || !s->src_side)
		return 0;
	if (job->dst.buf && s->dst_side != LOC_SRC)
		return s->dst.total < s->total ? -EMSGSIZE : 0;
	return s->dst.total != s->total ? -EMSGSIZE : 0;
}

/* Whether the same address in both is the same byte. */
static bool same_space(const struct weir_domain *a, const struct weir_domain *b)
{
	return a == b || (domain_is_memory(a) && domain_is_memory(b));
}

/* Addresses that are offsets in an mmap mean nothing in another. */
static bool other_mmaps(const struct weir_job *job, const struct shape *s)
{
	return !domain_is_memory(s->src.domain) && job->src.buf &&
	       job->dst.buf &&
	       job->src.buf->use->mmap != job->dst.buf->use->mmap;
}

static bool overlaps(const struct weir_job *job, const struct shape *s)
{
	if (!s->src_side || !s->dst_side || s->dst_side == LOC_SRC)
		return false;
	if (job->src.buf && job->src.buf == job->dst.buf)
		return true;
	if (!same_space(s->src.domain, s->dst.domain) ||
	    s->src.lo >= s->dst.hi || s->dst.lo >= s->src.hi ||
	    other_mmaps(job, s))
		return false;
	return loc_overlap(&job->src, s->src_side, &job->dst, s->dst_side,
			   s->total);
}

static bool is_foreign(const struct weir_domain *domain)
{
	return domain && !domain_is_memory(domain);
}

static int find_engine(const struct weir_dma *dma, const struct weir_job *job,
		       struct shape *s)
{
	const struct weir_domain *src = s->src_side ? s->src.domain : NULL;
	const struct weir_domain *dst = s->dst_side ? s->dst.domain : NULL;
	struct weir_engine_query q = {
		.size = sizeof(q),
		.kind = job->kind,
		.flags = job->flags,
		.src = src,
		.dst = dst,
		.bytes = s->total,
		.n_src = src ? s->src.n_pieces : 0,
		.n_dst = dst ? s->dst.n_pieces : 0,
	};

	if (job->kind == WEIR_JOB_PULL && (!is_foreign(src) || is_foreign(dst)))
		return -EINVAL;
	if (job->kind == WEIR_JOB_PUSH && (is_foreign(src) || !is_foreign(dst)))
		return -EINVAL;
	s->engine = route(dma, &q);
	if (!s->engine)
		return -EXDEV;
	if (!s->engine->kind->verify)
		return 0;
	return s->engine->kind->verify(job, &s->src, &s->dst, s->total);
}

static int check_job(const struct weir_dma *dma, const struct weir_job *job,
		     struct shape *s)
{
	int err = set_sides(job, s);

	if (!err && s->src_side)
		err = loc_check(&job->src, s->src_side, dma->r, &s->src);
	if (!err && s->dst_side)
		err = loc_check(&job->dst, s->dst_side, dma->r, &s->dst);
	if (!err)
		err = check_totals(job, s);
	if (!err && overlaps(job, s))
		err = -EINVAL;
	return err ? err : find_engine(dma, job, s);
}

static int may_start(struct weir_dma *dma, struct weir_job *job)
{
	if (unlikely(dma->state != WEIR_DMA_RUNNING))
		return -EBADFD;
	if (unlikely(dma->n_jobs >= dma->jobs_max)) {
		dma->stats.refused++;
		return -EAGAIN;
	}
	return op_may_begin(dma->r, &job->op);
}

static void job_cancel(struct weir_op *op)
{
	engine_cancel(weir_job_of(op));
}

static const struct weir_op_class job_class = {
	.name = "job",
	.cancel = job_cancel,
};

static void enlist(struct weir_dma *dma, struct weir_job *job)
{
	struct job_priv *p = job_priv(job);

	p->dma = dma;
	p->next = dma->jobs;
	p->pprev = &dma->jobs;
	if (p->next)
		job_priv(p->next)->pprev = &p->next;
	dma->jobs = job;
	dma->n_jobs++;
	dma->stats.started++;
}

static void delist(struct weir_dma *dma, struct job_priv *p)
{
	*p->pprev = p->next;
	if (p->next)
		job_priv(p->next)->pprev = p->pprev;
	dma->n_jobs--;
}

static void let_go(struct weir_dma *dma, struct weir_job *job)
{
	struct job_priv *p = job_priv(job);

	if (p->src.side)
		loc_release(&job->src, p->src.side, dma->r);
	if (p->dst.side)
		loc_release(&job->dst, p->dst.side, dma->r);
}

/* The engine does not want it: it has never begun. */
static void take_back(struct weir_dma *dma, struct weir_job *job)
{
	let_go(dma, job);
	delist(dma, job_priv(job));
	dma->stats.started--;
	op_abandon(&job->op);
}

int weir_job_start(struct weir_dma *dma, struct weir_job *job)
{
	struct job_priv *p = job_priv(job);
	struct shape s;
	int err;

	if (unlikely(job->op.state != OP_IDLE))
		return -EINVAL;
	err = check_job(dma, job, &s);
	if (likely(!err))
		err = may_start(dma, job);
	if (unlikely(err))
		return err;

	op_enlist(dma->r, &job->op, &job_class);
	enlist(dma, job);
	p->total = s.total;
	p->done = 0;
	p->crc = job->crc;
	p->q_pprev = NULL;
	p->differ = false;
	p->waits = false;
	p->is_step = false;
	atomic_init(&p->stop, false);
	p->src.side = s.src_side;
	p->dst.side = s.dst_side;
	if (s.src_side) {
		loc_hold(&job->src, s.src_side, dma->r);
		cursor_init(&p->src, &job->src, s.src_side, s.total);
	}
	if (s.dst_side) {
		loc_hold(&job->dst, s.dst_side, dma->r);
		cursor_init(&p->dst, &job->dst, s.dst_side, s.total);
	}
	err = engine_start(s.engine, job);
	if (unlikely(err))
		take_back(dma, job);
	return err;
}

static void count(struct weir_dma *dma, const struct job_priv *p, int64_t res)
{
	dma->stats.bytes += p->done;
	if (res >= 0)
		dma->stats.completed++;
	else if (res == -ECANCELED)
		dma->stats.cancelled++;
	else
		dma->stats.failed++;
}

void job_end(struct weir_job *job, int64_t res)
{
	struct job_priv *p = job_priv(job);
	struct weir_dma *dma = p->dma;

	if (res >= 0 && ((p->src.side && loc_stale(&job->src)) ||
			 (p->dst.side && loc_stale(&job->dst))))
		res = -ESTALE;
	if (res >= 0) {
		res = (int64_t)p->done;
		if (p->dst.side == LOC_APPEND || p->dst.side == LOC_OVERWRITE)
			loc_commit(&job->dst, p->dst.side, p->done);
		job->crc = p->crc;
	}
	let_go(dma, job);
	job->op.detail.bytes = p->done;
	job->op.detail.segment = p->src.side ? p->src.index : p->dst.index;
	count(dma, p, res);
	engine_left(job, res);
	delist(dma, p);
	op_complete(&job->op, res);
	if (unlikely(dma->stop_op))
		dma_left(dma);
}

static void work_done(struct weir_op *op, int64_t res)
{
	job_end(weir_container_of(op, struct weir_job, inner), res);
}

void job_work(struct weir_job *job, int64_t (*fn)(void *job))
{
	struct weir_op *op = &job->inner;

	weir_op_init(op, work_done);
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
