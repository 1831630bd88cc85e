/* SPDX-License-Identifier: BSD-3-Clause */
/* The operands that a job has beside its source and its destination. */

#include <errno.h>

#include "dma/job-internal.h"
#include "mem/buf-internal.h"

/* A list may be named several times; each takes a reference. */
static bool has_refs(const struct weir_dma *dma, const struct weir_job *job,
		     const struct weir_operand *operand)
{
	return !operand->buf || !buf_is_owned_by(operand->buf, dma->r) ||
	       operand->buf->refs + job->n_extra + 1 < WEIR_BUF_REFS_MAX;
}

static int check_total(const struct operand_part *part, uint64_t total)
{
	if (part->operand->buf && part->side != OPERAND_SRC)
		return part->info->total < total ? -EMSGSIZE : 0;
	return part->info->total != total ? -EMSGSIZE : 0;
}

/* @part is one of more, @like what the job has of its kind already. */
static int check_one(const struct operand_part *part,
		     const struct operand_part *like,
		     const struct operand_part *other, uint64_t total)
{
	int err = check_total(part, total);

	if (err)
		return err;
	if (operand_overlap(part, other, total))
		return -EINVAL;
	if (part->side != OPERAND_SRC && operand_overlap(part, like, total))
		return -EINVAL;
	return 0;
}

int extra_check(const struct weir_dma *dma, const struct weir_job *job,
		const struct operand_part *src, const struct operand_part *dst,
		uint64_t total)
{
	enum operand_side side = extra_side(job);
	struct operand_info info = { .import = NULL };
	struct operand_part part = { NULL, side, &info };
	uint32_t i;
	int err;

	reactor_check_thread(dma->r);
	if (!has_refs(dma, job, src->operand))
		return -EMSGSIZE;
	for (i = 0; i < job->n_extra; i++) {
		part.operand = &job->more[i];
		err = operand_check(part.operand, side, dma->r, &info);
		if (!err && !has_refs(dma, job, part.operand))
			err = -EMSGSIZE;
		if (!err)
			err = check_one(&part, side == OPERAND_SRC ? src : dst,
					side == OPERAND_SRC ? dst : src, total);
		if (err)
			return err;
	}
	return 0;
}

void extra_hold(const struct weir_dma *dma, const struct weir_job *job)
{
	uint32_t i;

	reactor_check_thread(dma->r);
	for (i = 0; i < job->n_extra; i++)
		operand_hold(&job->more[i], extra_side(job), dma->r);
}

void extra_release(const struct weir_dma *dma, const struct weir_job *job)
{
	uint32_t i;

	reactor_check_thread(dma->r);
	for (i = 0; i < job->n_extra; i++)
		operand_release(&job->more[i], extra_side(job), dma->r);
}

void extra_commit(const struct weir_job *job, uint64_t n)
{
	uint32_t i;

	if (extra_side(job) == OPERAND_SRC)
		return;
	for (i = 0; i < job->n_extra; i++)
		operand_commit(&job->more[i], extra_side(job), n);
}

bool extra_stale(const struct weir_job *job)
{
	uint32_t i;

	for (i = 0; i < job->n_extra; i++)
		if (operand_stale(&job->more[i]))
			return true;
	return false;
}

void extra_cursor(const struct weir_job *job, uint32_t i, uint64_t skip,
		  struct cursor *c)
{
	const struct job_priv *p = job_priv((struct weir_job *)job);

	cursor_init(c, &job->more[i], extra_side(job), p->total);
	cursor_skip(c, skip);
}
