/* SPDX-License-Identifier: BSD-3-Clause */
/* The locations that a job has beside its source and its destination. */

#include <errno.h>

#include "dma/job-internal.h"
#include "mem/buf-internal.h"

/* A list may be named several times; each takes a reference. */
static bool has_refs(const struct weir_dma *dma, const struct weir_job *job,
		     const struct weir_loc *loc)
{
	return !loc->buf || !buf_is_home(loc->buf, dma->r) ||
	       loc->buf->refs + job->n_more + 1 < WEIR_BUF_REFS_MAX;
}

static int check_total(const struct loc_part *part, uint64_t total)
{
	if (part->loc->buf && part->side != LOC_SRC)
		return part->info->total < total ? -EMSGSIZE : 0;
	return part->info->total != total ? -EMSGSIZE : 0;
}

/* @part is one of more, @like what the job has of its kind already. */
static int check_one(const struct loc_part *part, const struct loc_part *like,
		     const struct loc_part *other, uint64_t total)
{
	int err = check_total(part, total);

	if (err)
		return err;
	if (loc_overlap(part, other, total))
		return -EINVAL;
	if (part->side != LOC_SRC && loc_overlap(part, like, total))
		return -EINVAL;
	return 0;
}

int more_check(const struct weir_dma *dma, const struct weir_job *job,
	       const struct loc_part *src, const struct loc_part *dst,
	       uint64_t total)
{
	enum loc_side side = more_side(job);
	struct loc_info info;
	struct loc_part part = { NULL, side, &info };
	uint32_t i;
	int err;

	if (!has_refs(dma, job, src->loc))
		return -EMSGSIZE;
	for (i = 0; i < job->n_more; i++) {
		part.loc = &job->more[i];
		err = loc_check(part.loc, side, dma->r, &info);
		if (!err && !has_refs(dma, job, part.loc))
			err = -EMSGSIZE;
		if (!err)
			err = check_one(&part, side == LOC_SRC ? src : dst,
					side == LOC_SRC ? dst : src, total);
		if (err)
			return err;
	}
	return 0;
}

void more_hold(const struct weir_dma *dma, const struct weir_job *job)
{
	uint32_t i;

	for (i = 0; i < job->n_more; i++)
		loc_hold(&job->more[i], more_side(job), dma->r);
}

void more_release(const struct weir_dma *dma, const struct weir_job *job)
{
	uint32_t i;

	for (i = 0; i < job->n_more; i++)
		loc_release(&job->more[i], more_side(job), dma->r);
}

void more_commit(const struct weir_job *job, uint64_t n)
{
	uint32_t i;

	if (more_side(job) == LOC_SRC)
		return;
	for (i = 0; i < job->n_more; i++)
		loc_commit(&job->more[i], more_side(job), n);
}

bool more_stale(const struct weir_job *job)
{
	uint32_t i;

	for (i = 0; i < job->n_more; i++)
		if (loc_stale(&job->more[i]))
			return true;
	return false;
}

void more_cursor(const struct weir_job *job, uint32_t i, uint64_t skip,
		 struct cursor *c)
{
	const struct job_priv *p = job_priv((struct weir_job *)job);

	cursor_init(c, &job->more[i], more_side(job), p->total);
	cursor_skip(c, skip);
}
