/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chains, fusing: a copy, and then the CRC of what was copied, are one pass
 * over the data.
 *
 * Which steps may be such a pair follows from the graph: the second comes after
 * the first and after nothing else, and is its first dependant, so that nothing
 * of the user's runs in between.  Whether they are one is asked when the first
 * begins, for only then do the jobs say what they say; and again when the
 * second would begin, for its job is the user's until then.  If the answers
 * differ it is run by itself, and so it is if a function of a step beside has
 * been called meanwhile, which may have changed the bytes; nothing else of the
 * user's can run between the two.
 *
 * So neither step can tell: if the copy fails the CRC is skipped, and a cancel
 * that comes in between finds a copy that is done and a CRC not begun.
 */

#include <errno.h>

#include "dma/flow/chain-internal.h"
#include "mem/buf-internal.h"

static bool may_pair(const struct step *s, const struct step *t)
{
	return s->kind == STEP_JOB && t->kind == STEP_JOB && t->n_deps == 1 &&
	       !t->finally &&
	       s->deps->on == WEIR_CHAIN_ON_DONE && s->dma == t->dma &&
	       s->job != t->job;
}

void fuse_pairs(struct weir_chain *chain)
{
	struct step *s, *t, *end = chain->steps + chain->n_steps;

	for (s = chain->steps; s < end; s++)
		s->pair = NULL;
	for (s = chain->steps; s < end; s++) {
		if (!s->deps || s->pair)
			continue;
		t = &chain->steps[s->deps->to];
		if (may_pair(s, t)) {
			s->pair = t;
			t->pair = s;
		}
	}
}

/* Memory of this process, and nothing that another kind of job would refuse. */
static bool is_plain(const struct weir_operand *operand)
{
	return domain_is_memory(operand_domain(operand)) &&
	       !operand->reserved0 && !operand->translation;
}

static bool is_same(const struct weir_operand *a, const struct weir_operand *b)
{
	return a->buf == b->buf && a->addr == b->addr && a->len == b->len &&
	       a->n_iov == b->n_iov && (!a->n_iov || a->iov == b->iov);
}

/*
 * Whether the data that @copy will have left in its destination are just what
 * it has copied.  In one piece: of two, the second might lie over the first.
 */
static bool is_result(const struct weir_job *copy)
{
	const struct weir_buf *buf = copy->dst.buf;

	if (!buf)
		return copy->dst.n_iov <= 1;
	return !buf->next && (copy->flags & WEIR_JOB_OVERWRITE ||
			      !buf->data_len);
}

static bool is_crc(const struct weir_job *job)
{
	return job->kind == WEIR_JOB_CRC32C && !job->flags && !job->n_extra &&
	       job->op.state == OP_IDLE && is_plain(&job->src);
}

/* Whether @crc, which is one, is that of the @side of @copy. */
static bool is_crc_of(const struct weir_job *crc, const struct weir_job *copy,
		      enum fused side)
{
	const struct weir_operand *of = &crc->src;

	if (side == FUSED_SRC)
		return is_same(of, &copy->src);
	if (copy->dst.buf)
		return of->buf == copy->dst.buf && !of->addr && !of->len;
	return is_same(of, &copy->dst);
}

/* A user's engine gets the jobs that it was made for. */
static enum fused may_fuse(const struct step *s)
{
	const struct weir_job *copy = s->job, *crc;

	if (copy->kind != WEIR_JOB_COPY || s->dma->n_engines != s->dma->n_own ||
	    copy->flags & ~WEIR_JOB_OVERWRITE || !is_plain(&copy->src) ||
	    !is_plain(&copy->dst))
		return FUSED_NOT;
	crc = s->pair->job;
	if (!is_crc(crc))
		return FUSED_NOT;
	if (is_crc_of(crc, copy, FUSED_SRC))
		return FUSED_SRC;
	if (is_crc_of(crc, copy, FUSED_DST) && is_result(copy))
		return FUSED_DST;
	return FUSED_NOT;
}

/* .crc of both jobs is what it was again. */
static void part(struct step *s)
{
	s->job->kind = WEIR_JOB_COPY;
	s->job->crc = s->crc;
}

/* What cannot be done as one is done as two: then it is known whose fault it
 * was. */
int fuse_start(struct step *s)
{
	enum fused side = s->pair && s->pair > s ? may_fuse(s) : FUSED_NOT;
	int err;

	if (side == FUSED_NOT)
		return weir_job_start(s->dma, s->job);
	s->crc = s->job->crc;
	s->crc_in = s->pair->job->crc;
	s->job->kind = WEIR_JOB_COPY_CRC32C;
	s->job->crc = s->crc_in;
	err = weir_job_start(s->dma, s->job);
	if (!err) {
		s->fused = (uint8_t)side;
		return 0;
	}
	part(s);
	return err == -EAGAIN ? err : weir_job_start(s->dma, s->job);
}

void fuse_ended(struct step *s, int64_t res)
{
	uint32_t crc = s->job->crc;

	if (!s->fused)
		return;
	part(s);
	s->crc = crc;
	s->calls = s->chain->n_calls;
	if (res < 0)
		s->fused = FUSED_NOT;
}

bool fuse_take(struct step *s, int64_t *res)
{
	struct step *copy = s->pair;

	if (!copy || copy > s || !copy->fused ||
	    copy->calls != s->chain->n_calls || !is_crc(s->job) ||
	    !is_crc_of(s->job, copy->job, (enum fused)copy->fused) ||
	    s->job->crc != copy->crc_in)
		return false;
	s->job->crc = copy->crc;
	s->detail = copy->detail;
	if (copy->fused == FUSED_DST)
		s->detail.segment = 0;
	s->job->op.detail = s->detail;
	s->job->op.deadline.expires_ns = 0;
	s->engine = copy->engine;
	*res = copy->res;
	s->dma->stats.fused++;
	return true;
}
