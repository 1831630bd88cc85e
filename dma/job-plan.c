/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs: the plan for a job that was checked, and the check of the alignment
 * that the plan requires. */

#include <errno.h>
#include <string.h>

#include <weir/route.h>

#include "base/why.h"
#include "dma/route.h"

static int verify_by(const struct engine *e, const struct weir_operand *operand,
		     const struct operand_info *info, uint64_t total)
{
	struct weir_job half;
	struct operand_info here = { .domain = weir_domain_system() };

	half.kind = WEIR_JOB_COPY;
	half.flags = 0;
	half.n_extra = 0;
	half.src = *operand;
	half.dst = weir_operand_at(NULL, STAGING_ALIGN, total);
	return e->kind->verify(&half, info, &here, total);
}

/* What an engine of a user's or provider's verifies of a side that it moves. */
static int check_side(const struct engine *e, const struct weir_job *job,
		      int side)
{
	unsigned int since;
	int err;

	if (!e || !e->kind->ops.verify)
		return 0;
	since = why_begin();
	err = e->kind->ops.verify(e->arg, job, side);
	if (likely(!err))
		return 0;
	err = err < 0 ? (int)sane_result(err) : -EIO;
	return why_is_new(since) ? err :
	       why(err, "weir_job_start: the engine '%s' refuses it: %s",
		   e->kind->ops.name, strerror(-err));
}

/* The same of all sides. */
static int check_sides(const struct engine *e, const struct weir_job *job,
		       const struct job_shape *s)
{
	uint32_t i;
	int err = 0;

	if (s->src_side)
		err = check_side(e, job, WEIR_JOB_SRC);
	if (!err && s->dst_side)
		err = check_side(e, job, WEIR_JOB_DST);
	for (i = 0; i < job->n_extra && !err; i++)
		err = check_side(e, job, WEIR_JOB_EXTRA + (int)i);
	return err;
}

/* Returns 0 if @e can move all of @operand to or from staging at its alignment,
 * or an errno. */
static int verify_half(const struct engine *e,
		       const struct weir_operand *operand,
		       const struct operand_info *info, uint64_t total)
{
	return e && e->kind->verify ? verify_by(e, operand, info, total) : 0;
}

static int verify_extra(const struct weir_dma *dma, const struct weir_job *job,
			const struct job_shape *s)
{
	const struct engine *e;
	struct operand_info info;
	uint32_t i;
	int err = 0;

	for (i = 0; i < job->n_extra && !err; i++) {
		if (!s->plan.more[i])
			continue;
		e = &dma->engines[s->plan.more[i] - 1];
		info.domain = operand_domain(&job->more[i]);
		err = verify_half(e, &job->more[i], &info, s->total);
		if (!err)
			err = check_side(e, job, WEIR_JOB_EXTRA + (int)i);
	}
	return err;
}

static int verify_bounce(const struct weir_dma *dma, const struct weir_job *job,
			 const struct job_shape *s)
{
	int err = verify_half(s->plan.pull.engine, &job->src, &s->src,
			      s->total);

	if (!err)
		err = check_side(s->plan.pull.engine, job, WEIR_JOB_SRC);
	if (!err)
		err = check_side(s->plan.push.engine, job, WEIR_JOB_DST);
	if (!err)
		err = verify_half(s->plan.push.engine, &job->dst, &s->dst,
				  kind_is_user(job->kind) ? s->dst.total :
							    s->total);
	return err ? err : verify_extra(dma, job, s);
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
		.n_extra = job->n_extra,
	};
}

static bool may_translate_any(const struct weir_job *job,
			      const struct job_shape *s)
{
	return !job->n_extra && s->total && ((s->src_side && translate_may(&job->src)) ||
				 (s->dst_side && translate_may(&job->dst)));
}

int job_plan(const struct weir_dma *dma, const struct weir_job *job,
	     struct job_shape *s, bool may_translate)
{
	reactor_check_thread(dma->r);
	s->plan.direct.q = query_of(job, s);
	route_plan(dma, job, &s->plan);
	s->planned = true;
	if (unlikely(may_translate) && may_translate_any(job, s)) {
		route_translate(dma, &s->plan);
		return 0;
	}
	if (!s->plan.engine)
		return why_static(-EXDEV, "weir_job_start: no engine moves "
				  "between these domains; weir_route_explain() "
				  "says more");
	if (unlikely(s->plan.route == WEIR_ROUTE_BOUNCE))
		return verify_bounce(dma, job, s);
	if (unlikely(s->plan.engine->kind->ops.verify))
		return check_sides(s->plan.engine, job, s);
	if (!s->plan.engine->kind->verify)
		return 0;
	return s->plan.engine->kind->verify(job, &s->src, &s->dst, s->total);
}

/*
 * Whether routing can only come to the file engine: of the library's own it is
 * the first, and the only one, that copies between a file and memory.
 */
static bool is_for_file(const struct weir_dma *dma, const struct weir_job *job,
			const struct job_shape *s)
{
	if (dma->n_for_files || !s->src_side || !s->dst_side)
		return false;
	if (domain_is_file(s->src.domain) && domain_is_memory(s->dst.domain))
		return job->kind == WEIR_JOB_COPY || job->kind == WEIR_JOB_PULL;
	if (domain_is_memory(s->src.domain) && domain_is_file(s->dst.domain))
		return job->kind == WEIR_JOB_COPY || job->kind == WEIR_JOB_PUSH;
	return false;
}

static int find_engine(const struct weir_dma *dma, const struct weir_job *job,
		       struct job_shape *s)
{
	bool src = s->src_side && is_foreign(s->src.domain);
	bool dst = s->dst_side && is_foreign(s->dst.domain);

	if (job->kind == WEIR_JOB_PULL && (!src || dst))
		return why_static(-EINVAL, "weir_job_start: a pull is to memory "
				  "of this process, from elsewhere");
	if (job->kind == WEIR_JOB_PUSH && (src || !dst))
		return why_static(-EINVAL, "weir_job_start: a push is from "
				  "memory of this process, to elsewhere");
	return job_plan(dma, job, s, src || dst);
}

int job_check(const struct weir_dma *dma, const struct weir_job *job,
	      struct job_shape *s)
{
	int err = job_check_operands(dma, job, s);

	reactor_check_thread(dma->r);
	s->planned = false;
	return err ? err : find_engine(dma, job, s);
}

int job_plan_to_start(struct weir_dma *dma, const struct weir_job *job,
		      struct job_shape *s)
{
	reactor_check_thread(dma->r);
	if (!is_for_file(dma, job, s))
		return find_engine(dma, job, s);
	s->plan.route = domain_is_file(s->src.domain) ? WEIR_ROUTE_PULL :
							WEIR_ROUTE_PUSH;
	s->plan.engine = &dma->engines[ENGINE_FILE];
	return engine_file.verify(job, &s->src, &s->dst, s->total);
}
