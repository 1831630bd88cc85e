/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs, the start: everything is checked before anything is changed; then an
 * engine gets the job.  job-check.c checks the job, job-plan.c chooses the
 * engine, and job-end.c ends the job.
 */

#include <errno.h>
#include <string.h>

#include <weir/route.h>

#include "base/probe.h"
#include "base/why.h"
#include "dma/route.h"
#include "mem/buf-internal.h"

/*
 * Whether the cpu engine is the only possible route: no engine of the user's is
 * asked before it, and it takes all jobs within memory of this process.
 */
static bool is_for_cpu(const struct weir_dma *dma, const struct weir_job *job,
		       const struct job_shape *s)
{
	return !dma->n_for_memory && s->at_sight &&
	       (s->dst_side != OPERAND_UPDATE || !atomic_refuse(job)) &&
	       (!s->src_side || !is_foreign(s->src.domain)) &&
	       (!s->dst_side || !is_foreign(s->dst.domain));
}

/* The same of the kinds that have more operands. */
static bool is_extra_for_cpu(const struct weir_dma *dma,
			     const struct weir_job *job,
			     const struct job_shape *s)
{
	uint32_t i;

	if (!job->n_extra || dma->n_for_memory ||
	    is_foreign(s->src.domain) || is_foreign(s->dst.domain))
		return false;
	for (i = 0; i < job->n_extra; i++)
		if (is_foreign(operand_domain(&job->more[i])))
			return false;
	return true;
}

/* The check of @job has said @err; or the .shape() of its kind, which may have
 * left a message. */
__attribute__((cold, noinline)) static int refuse_check(
	const struct weir_dma *dma, const struct weir_job *job,
	const struct job_shape *s, int err)
{
	if (!kind_is_user(job->kind) || !s->kind_refused)
		return job_refuse(dma, job, err);
	if (why_is_new(s->kind_since))
		return err;
	return why(err, "weir_job_start: the kind '%s' refuses the arguments: "
		   "%s", weir_kind_name(job->kind), strerror(-err));
}

/* Like job_check(), but without the reasons of a plan; a refusal sets
 * weir_why(). */
static int check_to_start(struct weir_dma *dma, const struct weir_job *job,
			  struct job_shape *s)
{
	int err = job_check_operands(dma, job, s);

	if (unlikely(err))
		return refuse_check(dma, job, s, err);
	if (unlikely(!is_for_cpu(dma, job, s)) &&
	    !is_extra_for_cpu(dma, job, s))
		return job_plan_to_start(dma, job, s);
	s->plan.route = WEIR_ROUTE_DIRECT;
	s->plan.engine = &dma->engines[ENGINE_CPU];
	return 0;
}

static int may_start(struct weir_dma *dma, struct weir_job *job)
{
	if (unlikely(dma->state != WEIR_DMA_RUNNING))
		return why_static(-EBADFD, "weir_job_start: the context is not "
				  "started; see weir_dma_start()");
	if (unlikely(dma->n_jobs >= dma->jobs_max)) {
		dma->stats.refused++;
		return -EAGAIN;
	}
	return op_admit(dma->r, &job->op);
}

/* What may_start() says; where the operation is refused there is no message yet. */
__attribute__((cold, noinline)) static int refuse_start(
	int err, const struct weir_dma *dma, const struct weir_job *job)
{
	if (err == -EBADFD)
		return err;
	if (err == -EAGAIN && dma->n_jobs >= dma->jobs_max)
		return why_static(err, "weir_job_start: as many jobs as "
				  ".jobs_max allows are in flight; start it "
				  "again in a callback");
	return op_refused(err, &job->op, "weir_job_start");
}

static void job_cancel(struct weir_op *op)
{
	struct weir_job *job = weir_job_of(op);

	debug_check(op_cancel_wanted(op));
	if (job_priv(job)->held)
		job_end(job, -ECANCELED);
	else
		engine_cancel(job);
}

static const struct weir_op_class job_class = {
	.name = "job",
	.cancel = job_cancel,
	.leave = job_leave,
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

/*
 * Whether @job is over before it could be waited for, cancelled or seen: it
 * holds nothing, waits for nothing, and is for an engine that does it at once.
 * Half of what a small job costs is to be listed and found again, so this is
 * not.
 */
static bool may_be_at_once(const struct weir_dma *dma,
			   const struct weir_job *job,
			   const struct job_shape *s)
{
	return s->plan.engine == &dma->engines[ENGINE_CPU] && !job->n_extra &&
	       !(job->flags & (WEIR_JOB_FENCE | WEIR_JOB_LAZY)) &&
	       (!s->src_side || s->src.plain) && (!s->dst_side || s->dst.plain);
}

static void leave_at_once(struct weir_op *op)
{
	struct weir_dma *dma = job_priv(weir_job_of(op))->dma;

	dma->stats.completed++;
	job_uncount(dma);
}

static const struct weir_op_class at_once_class = {
	.name = "job",
	.leave = leave_at_once,
};

/* The job is done already: count it, and have its callback called. */
static void end_at_once(struct weir_dma *dma, struct weir_job *job,
			const struct job_shape *s, uint64_t since)
{
	struct job_priv *p = job_priv(job);

	p->engine = s->plan.engine;
	job->crc = p->crc;
	dma->n_jobs++;
	dma->stats.started++;
	dma->stats.bytes += p->done;
	PROBE3(job_done, job, p->done, p->done);
	op_begin_ready(dma->r, &job->op, &at_once_class, (int64_t)p->done,
		       since);
	job->op.flags |= OP_LEAVES;
	job->op.detail.bytes = p->done;
	route_note(job, &s->plan);
}

static inline void hold_side(const struct weir_dma *dma,
			     const struct weir_operand *operand,
			     enum operand_side side, uint64_t total,
			     struct cursor *c)
{
	c->side = side;
	if (!side)
		return;
	operand_hold(operand, side, dma->r);
	cursor_init(c, operand, side, total);
}

static bool extra_counts(const struct weir_job *job)
{
	const struct weir_buf *buf;
	uint32_t i;

	for (i = 0; i < job->n_extra; i++) {
		if (operand_import(&job->more[i]))
			return true;
		for (buf = job->more[i].buf; buf; buf = buf->next)
			if (mmap_counts(buf->use->mmap))
				return true;
	}
	return false;
}

/* Most jobs have one import, on one side. */
static inline void note_imports(struct weir_job *job, const struct job_shape *s)
{
	struct mmap_use *src = s->src.import, *dst = s->dst.import;
	struct mmap_use *import = src ? src : dst;

	if (unlikely(job->n_extra) && extra_counts(job))
		import = OPERAND_IMPORTS;
	else if (unlikely(src && dst && src != dst))
		import = OPERAND_IMPORTS;
	job_priv(job)->imported = import != NULL;
	job_route(job)->import = import == OPERAND_IMPORTS ? NULL : import;
}

/* The destination is what there is, not what the source has. */
static void kind_set_up(struct weir_job *job, const struct job_shape *s)
{
	struct job_priv *p = job_priv(job);

	memset(kind_state(job), 0, sizeof(struct kind_state));
	kind_state(job)->in_unit = s->kind.in_unit;
	kind_state(job)->out_unit = s->kind.out_unit;
	if (s->dst_side)
		cursor_init(&p->dst, &job->dst, s->dst_side, s->dst.total);
}

/* Put the job into the context's list, and hold what it uses. */
static void set_up(struct weir_dma *dma, struct weir_job *job,
		   const struct job_shape *s)
{
	struct job_priv *p = job_priv(job);

	op_enlist(dma->r, &job->op, &job_class);
	job->op.flags |= OP_LEAVES;
	enlist(dma, job);
	p->done = 0;
	p->crc = job->crc;
	p->q_pprev = NULL;
	p->differ = false;
	p->waits = false;
	p->is_step = false;
	p->held = false;
	p->imported = false;
	p->entered = false;
	p->begun = false;
	atomic_init(&p->stop, false);
	hold_side(dma, &job->src, s->src_side, s->total, &p->src);
	hold_side(dma, &job->dst, s->dst_side, s->total, &p->dst);
	if (unlikely(s->src.import || s->dst.import || job->n_extra))
		note_imports(job, s);
	if (unlikely(job->n_extra))
		extra_hold(dma, job);
	if (unlikely(kind_is_user(job->kind)))
		kind_set_up(job, s);
	route_note(job, &s->plan);
	p->engine = s->plan.engine;
}

static int start_or_take_back(struct weir_job *job)
{
	int err = engine_start(job_priv(job)->engine, job);

	if (unlikely(err)) {
		PROBE2(job_refused, job, err);
		job_take_back(job);
	}
	return err;
}

/* An engine, or a function of the user's that it calls, may leave a message; if
 * none has, that of an older call must not stand for this one. */
__attribute__((cold, noinline)) static int refuse_engine(
	int err, const struct engine *e, unsigned int since)
{
	if (why_is_new(since))
		return err;
	if (err == -EAGAIN)
		return why_static(err, "weir_job_start: the engine has no "
				  "capacity now; start the job again later");
	return why(err, "weir_job_start: the engine '%s' refuses the job: %s",
		   e->kind->ops.name, strerror(-err));
}

static int begin(struct weir_dma *dma, struct weir_job *job)
{
	const struct engine *e = job_priv(job)->engine;
	unsigned int since = why_begin();
	int err;

	if (unlikely(job->flags & (WEIR_JOB_FENCE | WEIR_JOB_LAZY)) &&
	    order_hold(job))
		return 0;
	if (e->kind->is_alone) {
		err = start_or_take_back(job);
	} else {
		job_enter(job);
		err = start_or_take_back(job);
		job_exit(dma, job);
	}
	return likely(!err) ? 0 : refuse_engine(err, e, since);
}

int weir_job_start(struct weir_dma *dma, struct weir_job *job)
{
	struct job_shape s;
	uint64_t since;
	int err;

	if (unlikely(job->op.state != OP_IDLE))
		return why_static(-EINVAL, "weir_job_start: the job is in "
				  "flight; wait for its callback");
	err = check_to_start(dma, job, &s);
	if (unlikely(err))
		return err;
	err = may_start(dma, job);
	if (unlikely(err))
		return refuse_start(err, dma, job);

	job_priv(job)->total = s.total;
	PROBE3(job_submit, job, job->kind, s.total);
	since = op_time_now(dma->r);
	if (may_be_at_once(dma, job, &s) && cpu_at_once(dma, job)) {
		end_at_once(dma, job, &s, since);
		return 0;
	}
	set_up(dma, job, &s);
	return begin(dma, job);
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
