/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs, the start: everything is checked before anything is changed; then an
 * engine has it.  Which engine is job-plan.c's to say, the end job-end.c's.
 */

#include <errno.h>

#include <weir/route.h>

#include "base/probe.h"
#include "base/why.h"
#include "dma/bounce.h"
#include "dma/route.h"
#include "mem/buf-internal.h"

static bool may_have_more(const struct weir_job *job)
{
	return job->more &&
	       ((job->kind == WEIR_JOB_DUALCAST && job->n_extra == 1) ||
		(job->kind == WEIR_JOB_XOR &&
		 job->n_extra <= WEIR_JOB_EXTRA_MAX));
}

/* Who is told is a peer. */
bool job_may_signal(const struct weir_job *job)
{
	return (job->kind == WEIR_JOB_COPY || job->kind == WEIR_JOB_PUSH) &&
	       domain_is_remote(operand_domain(&job->dst));
}

static int set_sides(const struct weir_job *job, struct job_shape *s)
{
	bool over = job->flags & WEIR_JOB_OVERWRITE;

	if (job->flags & ~JOB_FLAGS)
		return -EINVAL;
	if (unlikely(job->n_extra) && !may_have_more(job))
		return -EINVAL;
	if (unlikely(job->flags & WEIR_JOB_SIGNAL) && !job_may_signal(job))
		return -EINVAL;
	s->src_side = OPERAND_SRC;
	s->dst_side = over ? OPERAND_OVERWRITE : OPERAND_APPEND;
	switch (job->kind) {
	case WEIR_JOB_COPY:
	case WEIR_JOB_PULL:
	case WEIR_JOB_PUSH:
	case WEIR_JOB_COPY_CRC32C:
		return 0;
	case WEIR_JOB_DUALCAST:
	case WEIR_JOB_XOR:
		return job->n_extra ? 0 : -EINVAL;
	case WEIR_JOB_FILL:
		s->src_side = OPERAND_NONE;
		return 0;
	case WEIR_JOB_CRC32C:
		s->dst_side = OPERAND_NONE;
		return 0;
	case WEIR_JOB_FETCH_ADD:
	case WEIR_JOB_COMPARE_SWAP:
		s->src_side = OPERAND_NONE;
		s->dst_side = OPERAND_UPDATE;
		return 0;
	case WEIR_JOB_COMPARE:
		s->dst_side = OPERAND_SRC;
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
	if (unlikely(s->dst_side == OPERAND_UPDATE))
		return atomic_check(job, s->total);
	if (!s->dst_side || !s->src_side)
		return 0;
	if (job->dst.buf && s->dst_side != OPERAND_SRC)
		return s->dst.total < s->total ? -EMSGSIZE : 0;
	if (likely(s->dst.total == s->total))
		return 0;
	return s->dst.total || job->dst.buf ? -EMSGSIZE : -EINVAL;
}

static struct operand_part src_part(const struct weir_job *job,
				    const struct job_shape *s)
{
	return (struct operand_part){ &job->src, s->src_side, &s->src };
}

static struct operand_part dst_part(const struct weir_job *job,
				    const struct job_shape *s)
{
	return (struct operand_part){ &job->dst, s->dst_side, &s->dst };
}

/* Whether it is seen at once that nothing overlaps. */
static bool are_apart(const struct weir_job *job, const struct job_shape *s)
{
	return !job->src.buf && !job->n_extra &&
	       (s->src.lo >= s->dst.hi || s->dst.lo >= s->src.hi);
}

static int check_overlap(const struct weir_dma *dma, const struct weir_job *job,
			 const struct job_shape *s)
{
	struct operand_part src, dst;

	if (!s->src_side || !s->dst_side || s->dst_side == OPERAND_SRC)
		return 0;
	if (likely(are_apart(job, s)))
		return 0;
	src = src_part(job, s);
	dst = dst_part(job, s);
	if (operand_overlap(&src, &dst, s->total))
		return -EINVAL;
	return job->n_extra ? extra_check(dma, job, &src, &dst, s->total) : 0;
}

static int check_locations(const struct weir_dma *dma,
			   const struct weir_job *job, struct job_shape *s)
{
	int err = set_sides(job, s);

	if (!err && s->src_side)
		err = operand_check(&job->src, s->src_side, dma->r, &s->src);
	if (!err && s->dst_side)
		err = operand_check(&job->dst, s->dst_side, dma->r, &s->dst);
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
	return err ? err : job_find_engine(dma, job, s);
}

/* Of these kinds it takes more to see it. */
#define NOT_AT_SIGHT (1u << WEIR_JOB_PULL | 1u << WEIR_JOB_PUSH | \
		      1u << WEIR_JOB_DUALCAST | 1u << WEIR_JOB_XOR)

/*
 * Whether routing can only come to the cpu engine: it is asked first, and does
 * whatever is in memory of this process.
 */
static bool is_for_cpu(const struct weir_dma *dma, const struct weir_job *job,
		       const struct job_shape *s)
{
	return dma->n_engines == dma->n_own &&
	       !(NOT_AT_SIGHT >> job->kind & 1) &&
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

	if (!job->n_extra || dma->n_engines != dma->n_own ||
	    is_foreign(s->src.domain) || is_foreign(s->dst.domain))
		return false;
	for (i = 0; i < job->n_extra; i++)
		if (is_foreign(operand_domain(&job->more[i])))
			return false;
	return true;
}

#define REFUSED(err, text) \
	case err: \
		return why_static(err, "weir_job_start: " text \
				  "; weir_route_explain() says more")

/* Which argument it is takes looking at the job again. */
static int refuse(int err)
{
	switch (err) {
	REFUSED(-EINVAL, "an option or an operand makes no sense, is empty or "
		"overlaps with another");
	REFUSED(-EMSGSIZE, "the destination has no capacity for the source, or "
		"another length, or there are too many pieces");
	REFUSED(-ERANGE, "a range is beyond the data, or wraps around");
	REFUSED(-EACCES, "the source may not be read, or the destination not "
		"written");
	REFUSED(-EPERM, "a buf is in the middle of a list");
	REFUSED(-ESTALE, "the exporter has revoked the memory of a buf");
	REFUSED(-EBUSY, "another job uses a buf");
	default:
		return why_static(err, "weir_job_start: refused; "
				  "weir_route_explain() says why");
	}
}

/* As job_check(), without the reasons of a plan; of a refusal it leaves one. */
static int check_to_start(struct weir_dma *dma, const struct weir_job *job,
			  struct job_shape *s)
{
	int err = check_locations(dma, job, s);

	if (unlikely(err))
		return refuse(err);
	if (unlikely(!is_for_cpu(dma, job, s)) &&
	    !is_extra_for_cpu(dma, job, s))
		return job_find_to_start(dma, job, s);
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
 * holds nothing, waits for nothing, and is for who does it here and now.  Half
 * of what a small job costs is to be listed and found again, so this is not.
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

/* What is left of a job's life then: to be counted, and called back. */
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

/* From here on it is listed, and holds what it uses. */
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
	atomic_init(&p->stop, false);
	hold_side(dma, &job->src, s->src_side, s->total, &p->src);
	hold_side(dma, &job->dst, s->dst_side, s->total, &p->dst);
	if (unlikely(job->n_extra))
		extra_hold(dma, job);
	route_note(job, &s->plan);
	p->engine = s->plan.engine;
}

static int begin(struct weir_dma *dma, struct weir_job *job)
{
	int err;

	if (unlikely(job->flags & (WEIR_JOB_FENCE | WEIR_JOB_LAZY)) &&
	    order_hold(job))
		return 0;
	job_enter(job);
	err = engine_start(job_priv(job)->engine, job);
	if (unlikely(err)) {
		PROBE2(job_refused, job, err);
		job_take_back(job);
	}
	job_exit(dma, job);
	return err;
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
		return op_admitted(err);

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
