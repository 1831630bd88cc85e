/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/* Jobs: everything is checked before anything is changed; then an engine. */

#include <errno.h>

#include <weir/route.h>

#include "base/probe.h"
#include "dma/bounce.h"
#include "dma/route.h"
#include "mem/buf-internal.h"
#include "reactor/io.h"

#define FLAGS (WEIR_JOB_OVERWRITE | WEIR_JOB_SHORT_OK | WEIR_JOB_FENCE | \
	       WEIR_JOB_LAZY)

static bool may_have_more(const struct weir_job *job)
{
	return job->more && ((job->kind == WEIR_JOB_DUALCAST &&
			      job->n_more == 1) ||
			     (job->kind == WEIR_JOB_XOR &&
			      job->n_more <= WEIR_JOB_MORE_MAX));
}

static int set_sides(const struct weir_job *job, struct job_shape *s)
{
	bool over = job->flags & WEIR_JOB_OVERWRITE;

	if (job->flags & ~FLAGS)
		return -EINVAL;
	if (unlikely(job->n_more) && !may_have_more(job))
		return -EINVAL;
	s->src_side = LOC_SRC;
	s->dst_side = over ? LOC_OVERWRITE : LOC_APPEND;
	switch (job->kind) {
	case WEIR_JOB_COPY:
	case WEIR_JOB_PULL:
	case WEIR_JOB_PUSH:
	case WEIR_JOB_COPY_CRC32C:
		return 0;
	case WEIR_JOB_DUALCAST:
	case WEIR_JOB_XOR:
		return job->n_more ? 0 : -EINVAL;
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

static int check_totals(const struct weir_job *job, struct job_shape *s)
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

static struct loc_part src_part(const struct weir_job *job,
				const struct job_shape *s)
{
	return (struct loc_part){ &job->src, s->src_side, &s->src };
}

static struct loc_part dst_part(const struct weir_job *job,
				const struct job_shape *s)
{
	return (struct loc_part){ &job->dst, s->dst_side, &s->dst };
}

/* Whether it is seen at once that nothing overlaps. */
static bool are_apart(const struct weir_job *job, const struct job_shape *s)
{
	return !job->src.buf && !job->n_more &&
	       (s->src.lo >= s->dst.hi || s->dst.lo >= s->src.hi);
}

static int check_overlap(const struct weir_dma *dma, const struct weir_job *job,
			 const struct job_shape *s)
{
	struct loc_part src, dst;

	if (!s->src_side || !s->dst_side || s->dst_side == LOC_SRC)
		return 0;
	if (likely(are_apart(job, s)))
		return 0;
	src = src_part(job, s);
	dst = dst_part(job, s);
	if (loc_overlap(&src, &dst, s->total))
		return -EINVAL;
	return job->n_more ? more_check(dma, job, &src, &dst, s->total) : 0;
}

static bool is_foreign(const struct weir_domain *domain)
{
	return domain && !domain_is_memory(domain);
}

/* Whether @e can move all of @loc from or to staging as it lies. */
static int verify_half(const struct engine *e, const struct weir_loc *loc,
		       const struct loc_info *info, uint64_t total)
{
	struct weir_job half;
	struct loc_info here = { .domain = weir_domain_system() };

	if (!e || !e->kind->verify)
		return 0;
	half.kind = WEIR_JOB_COPY;
	half.flags = 0;
	half.n_more = 0;
	half.src = *loc;
	half.dst = weir_loc_at(NULL, STAGING_ALIGN, total);
	return e->kind->verify(&half, info, &here, total);
}

static int verify_bounce(const struct weir_job *job, const struct job_shape *s)
{
	int err = verify_half(s->plan.pull.engine, &job->src, &s->src,
			      s->total);

	return err ? err : verify_half(s->plan.push.engine, &job->dst, &s->dst,
				       s->total);
}

static struct weir_engine_query query_of(const struct weir_job *job,
					 const struct job_shape *s)
{
	return (struct weir_engine_query){
		.size = sizeof(struct weir_engine_query),
		.kind = job->kind,
		.flags = job->flags,
		.src = s->src_side ? s->src.domain : NULL,
		.dst = s->dst_side ? s->dst.domain : NULL,
		.bytes = s->total,
		.n_src = s->src_side ? s->src.n_pieces : 0,
		.n_dst = s->dst_side ? s->dst.n_pieces : 0,
		.n_more = job->n_more,
	};
}

static bool may_translate_any(const struct weir_job *job,
			      const struct job_shape *s)
{
	return !job->n_more &&
	       ((s->src_side && translate_may(&job->src)) ||
		(s->dst_side && translate_may(&job->dst)));
}

int job_plan(const struct weir_dma *dma, const struct weir_job *job,
	     struct job_shape *s, bool may_translate)
{
	struct weir_engine_query q = query_of(job, s);

	route_plan(dma, &q, &s->plan);
	s->planned = true;
	if (unlikely(may_translate) && may_translate_any(job, s)) {
		route_translate(dma, &s->plan);
		return 0;
	}
	if (!s->plan.engine)
		return -EXDEV;
	if (unlikely(s->plan.route == WEIR_ROUTE_BOUNCE))
		return verify_bounce(job, s);
	if (!s->plan.engine->kind->verify)
		return 0;
	return s->plan.engine->kind->verify(job, &s->src, &s->dst, s->total);
}

static int find_engine(const struct weir_dma *dma, const struct weir_job *job,
		       struct job_shape *s)
{
	bool src = s->src_side && is_foreign(s->src.domain);
	bool dst = s->dst_side && is_foreign(s->dst.domain);

	if (job->kind == WEIR_JOB_PULL && (!src || dst))
		return -EINVAL;
	if (job->kind == WEIR_JOB_PUSH && (src || !dst))
		return -EINVAL;
	return job_plan(dma, job, s, src || dst);
}

static int check_locations(const struct weir_dma *dma,
			   const struct weir_job *job, struct job_shape *s)
{
	int err = set_sides(job, s);

	if (!err && s->src_side)
		err = loc_check(&job->src, s->src_side, dma->r, &s->src);
	if (!err && s->dst_side)
		err = loc_check(&job->dst, s->dst_side, dma->r, &s->dst);
	if (!err)
		err = check_totals(job, s);
	if (!err)
		err = check_overlap(dma, job, s);
	return err;
}

int job_check(const struct weir_dma *dma, const struct weir_job *job,
	      struct job_shape *s)
{
	int err = check_locations(dma, job, s);

	s->planned = false;
	return err ? err : find_engine(dma, job, s);
}

/*
 * Whether routing can only come to the cpu engine: it is asked first, and does
 * whatever is in memory of this process.
 */
static bool is_for_cpu(const struct weir_dma *dma, const struct weir_job *job,
		       const struct job_shape *s)
{
	return dma->n_engines == N_SHIPPED && job->kind != WEIR_JOB_PULL &&
	       job->kind != WEIR_JOB_PUSH &&
	       (!s->src_side || !is_foreign(s->src.domain)) &&
	       (!s->dst_side || !is_foreign(s->dst.domain));
}

/* As job_check(), without the reasons. */
static int check_to_start(struct weir_dma *dma, const struct weir_job *job,
			  struct job_shape *s)
{
	int err = check_locations(dma, job, s);

	if (unlikely(err))
		return err;
	if (unlikely(!is_for_cpu(dma, job, s)))
		return find_engine(dma, job, s);
	s->plan.route = WEIR_ROUTE_DIRECT;
	s->plan.engine = &dma->engines[ENGINE_CPU];
	return 0;
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
	struct weir_job *job = weir_job_of(op);

	if (job_priv(job)->held)
		job_end(job, -ECANCELED);
	else
		engine_cancel(job);
}

static const struct weir_op_class job_class = {
	.name = "job",
	.cancel = job_cancel,
};

static void enlist(struct weir_dma *dma, struct weir_job *job)
{
	struct job_priv *p = job_priv(job);

	p->dma = dma;
	p->next = NULL;
	p->pprev = dma->jobs_last;
	*dma->jobs_last = job;
	dma->jobs_last = &p->next;
	dma->n_jobs++;
	dma->stats.started++;
}

static void delist(struct weir_dma *dma, struct job_priv *p)
{
	*p->pprev = p->next;
	if (p->next)
		job_priv(p->next)->pprev = p->pprev;
	else
		dma->jobs_last = p->pprev;
	dma->n_jobs--;
	if (unlikely(dma->n_fenced))
		engines_arm(dma);
}

static void let_go(struct weir_dma *dma, struct weir_job *job)
{
	struct job_priv *p = job_priv(job);

	if (p->src.side && unlikely(loc_has_owner(&job->src)))
		loc_release(&job->src, p->src.side, dma->r);
	if (p->dst.side && unlikely(loc_has_owner(&job->dst)))
		loc_release(&job->dst, p->dst.side, dma->r);
	if (unlikely(job->n_more))
		more_release(dma, job);
}

/* The engine does not want it: it has never begun. */
static void take_back(struct weir_dma *dma, struct weir_job *job)
{
	let_go(dma, job);
	delist(dma, job_priv(job));
	dma->stats.started--;
	op_abandon(&job->op);
}

/*
 * Whether @job is over before it could be waited for, cancelled or seen: it
 * holds nothing, waits for nothing, and is for who does it here and now.  Half
 * of what a small job costs is to be listed and found again, so this is not.
 */
static bool may_be_at_once(const struct weir_dma *dma,
			   const struct weir_job *job,
			   const struct job_shape *s)
{
	return s->plan.engine == &dma->engines[ENGINE_CPU] && !job->n_more &&
	       !(job->flags & (WEIR_JOB_FENCE | WEIR_JOB_LAZY)) &&
	       (!s->src_side || s->src.plain) && (!s->dst_side || s->dst.plain);
}

/* What is left of a job's life then: to be counted, and called back. */
static void end_at_once(struct weir_dma *dma, struct weir_job *job,
			const struct job_shape *s)
{
	struct job_priv *p = job_priv(job);

	p->engine = s->plan.engine;
	job->crc = p->crc;
	dma->stats.started++;
	dma->stats.completed++;
	dma->stats.bytes += p->done;
	PROBE3(job_done, job, p->done, p->done);
	op_begin_ready(dma->r, &job->op, (int64_t)p->done);
	job->op.detail.bytes = p->done;
	route_note(job, &s->plan);
}

int weir_job_start(struct weir_dma *dma, struct weir_job *job)
{
	struct job_priv *p = job_priv(job);
	struct job_shape s;
	int err;

	if (unlikely(job->op.state != OP_IDLE))
		return -EINVAL;
	err = check_to_start(dma, job, &s);
	if (likely(!err))
		err = may_start(dma, job);
	if (unlikely(err))
		return err;

	p->total = s.total;
	PROBE3(job_submit, job, job->kind, s.total);
	if (may_be_at_once(dma, job, &s) && cpu_at_once(dma, job)) {
		end_at_once(dma, job, &s);
		return 0;
	}
	op_enlist(dma->r, &job->op, &job_class);
	enlist(dma, job);
	p->done = 0;
	p->crc = job->crc;
	p->q_pprev = NULL;
	p->differ = false;
	p->waits = false;
	p->is_step = false;
	p->held = false;
	atomic_init(&p->stop, false);
	p->src.side = s.src_side;
	p->dst.side = s.dst_side;
	if (s.src_side) {
		if (unlikely(loc_has_owner(&job->src)))
			loc_hold(&job->src, s.src_side, dma->r);
		cursor_init(&p->src, &job->src, s.src_side, s.total);
	}
	if (s.dst_side) {
		if (unlikely(loc_has_owner(&job->dst)))
			loc_hold(&job->dst, s.dst_side, dma->r);
		cursor_init(&p->dst, &job->dst, s.dst_side, s.total);
	}
	if (unlikely(job->n_more))
		more_hold(dma, job);
	route_note(job, &s.plan);
	p->engine = s.plan.engine;
	if (unlikely(job->flags & (WEIR_JOB_FENCE | WEIR_JOB_LAZY)) &&
	    order_hold(job))
		return 0;
	err = engine_start(p->engine, job);
	if (unlikely(err)) {
		PROBE2(job_refused, job, err);
		take_back(dma, job);
	}
	return err;
}

int weir_job_start_batch(struct weir_dma *dma, struct weir_job *const *jobs,
			 uint32_t n, uint32_t *n_started)
{
	uint32_t i;
	int err = 0;

	for (i = 0; i < n; i++) {
		err = weir_job_start(dma, jobs[i]);
		if (unlikely(err))
			break;
	}
	*n_started = i;
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

/* It holds nothing, and the job that it is of looks at what it came to. */
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

/* Only bufs are of mmaps. */
static bool may_be_stale(const struct weir_job *job)
{
	return job->src.buf || job->dst.buf || job->n_more;
}

bool job_is_stale(const struct weir_job *job)
{
	const struct job_priv *p = job_priv((struct weir_job *)job);

	if (likely(!may_be_stale(job)))
		return false;
	return (p->src.side && loc_stale(&job->src)) ||
	       (p->dst.side && loc_stale(&job->dst)) || more_stale(job);
}

void job_end(struct weir_job *job, int64_t res)
{
	struct job_priv *p = job_priv(job);
	struct weir_dma *dma = p->dma;

	if (unlikely(p->is_step)) {
		end_step(job, res);
		return;
	}
	if (res >= 0 && unlikely(job_is_stale(job)))
		res = -ESTALE;
	if (res >= 0) {
		res = (int64_t)p->done;
		if (unlikely(job->dst.buf) && (p->dst.side == LOC_APPEND ||
					       p->dst.side == LOC_OVERWRITE))
			loc_commit(&job->dst, p->dst.side, p->done);
		if (unlikely(job->n_more))
			more_commit(job, p->done);
		job->crc = p->crc;
	}
	if (unlikely(job_route(job)->translated))
		translate_end(job);
	let_go(dma, job);
	job->op.detail.bytes = p->done;
	job->op.detail.segment = p->src.side ? p->src.index : p->dst.index;
	count(dma, p, res);
	if (unlikely(p->held))
		order_drop(job);
	else
		engine_left(job, res);
	delist(dma, p);
	PROBE3(job_done, job, res, p->done);
	op_complete(&job->op, res);
	if (unlikely(dma->room))
		room_made(dma);
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
