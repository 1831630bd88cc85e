/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs: whether one makes sense, and in words why not.  Changes nothing. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/why.h"
#include "dma/route.h"
#include "mem/buf-internal.h"

static bool may_have_more(const struct weir_job *job)
{
	return job->more &&
	       ((job->kind == WEIR_JOB_DUALCAST && job->n_extra == 1) ||
		(job->kind == WEIR_JOB_XOR &&
		 job->n_extra <= WEIR_JOB_EXTRA_MAX));
}

/* Only a peer can be signalled, so only jobs that write to one may signal. */
bool job_may_signal(const struct weir_job *job)
{
	return (job->kind == WEIR_JOB_COPY || job->kind == WEIR_JOB_PUSH) &&
	       domain_is_remote(operand_domain(&job->dst));
}

/* The sides of each kind of job.  Where the destination is written,
 * WEIR_JOB_OVERWRITE decides whether the data of its bufs are overwritten or
 * appended to. */
static const struct job_kind {
	uint8_t src, dst;	/* enum operand_side */
	uint8_t min_extra;
	bool at_sight;		/* In memory the cpu engine is the only route
				 * that can be, whatever its operands are. */
} kinds[] = {
	[WEIR_JOB_COPY] = { OPERAND_SRC, OPERAND_APPEND, 0, true },
	[WEIR_JOB_PULL] = { OPERAND_SRC, OPERAND_APPEND, 0, false },
	[WEIR_JOB_PUSH] = { OPERAND_SRC, OPERAND_APPEND, 0, false },
	[WEIR_JOB_COPY_CRC32C] = { OPERAND_SRC, OPERAND_APPEND, 0, true },
	[WEIR_JOB_DUALCAST] = { OPERAND_SRC, OPERAND_APPEND, 1, false },
	[WEIR_JOB_XOR] = { OPERAND_SRC, OPERAND_APPEND, 1, false },
	[WEIR_JOB_FILL] = { OPERAND_NONE, OPERAND_APPEND, 0, true },
	[WEIR_JOB_CRC32C] = { OPERAND_SRC, OPERAND_NONE, 0, true },
	[WEIR_JOB_COMPARE] = { OPERAND_SRC, OPERAND_SRC, 0, true },
	[WEIR_JOB_FETCH_ADD] = { OPERAND_NONE, OPERAND_UPDATE, 0, true },
	[WEIR_JOB_COMPARE_SWAP] = { OPERAND_NONE, OPERAND_UPDATE, 0, true },
};

#define N_KINDS (sizeof(kinds) / sizeof(kinds[0]))

/* The registered kinds, all alike: the first has no output. */
static const struct job_kind registered[] = {
	{ OPERAND_SRC, OPERAND_NONE, 0, true },
	{ OPERAND_SRC, OPERAND_APPEND, 0, true },
};

/* Returns the row of the kind of @job, or NULL: there is no such kind. */
static const struct job_kind *kind_row(const struct weir_job *job)
{
	const struct weir_kind_ops *ops;

	if (job->kind - 1u < N_KINDS - 1)
		return &kinds[job->kind];
	ops = kind_find(job->kind);
	return ops ? &registered[ops->flags & WEIR_KIND_OUTPUT ? 1 : 0] : NULL;
}

static inline uint8_t dst_side(const struct weir_job *job,
			       const struct job_kind *kind)
{
	return kind->dst == OPERAND_APPEND && job->flags & WEIR_JOB_OVERWRITE ?
		       OPERAND_OVERWRITE : kind->dst;
}

static int set_sides(const struct weir_job *job, struct job_shape *s)
{
	const struct job_kind *kind;

	/* There is no kind 0. */
	if (unlikely(job->flags & ~JOB_FLAGS || job->kind - 1u >= N_KINDS - 1)) {
		kind = kind_row(job);
		s->kind_refused = false;
		if (!kind || job->flags & ~JOB_FLAGS)
			return -EINVAL;
	} else {
		kind = &kinds[job->kind];
	}
	if (unlikely(job->n_extra < kind->min_extra))
		return -EINVAL;
	if (unlikely(job->n_extra) && !may_have_more(job))
		return -EINVAL;
	if (unlikely(job->flags & WEIR_JOB_SIGNAL) && !job_may_signal(job))
		return -EINVAL;
	s->src_side = kind->src;
	s->dst_side = dst_side(job, kind);
	s->at_sight = kind->at_sight;
	return 0;
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

static int check_shape(const struct weir_kind_ops *ops,
		       const struct job_shape *s)
{
	const struct weir_kind_shape *shape = &s->kind;

	/* The kind's mistake, not the caller's. */
	if (!shape->in_unit || shape->in_unit > WEIR_KIND_UNIT_MAX ||
	    !shape->out_unit || shape->out_unit > WEIR_KIND_UNIT_MAX)
		return -EIO;
	if (s->total % shape->in_unit)
		return -EINVAL;
	if (!(ops->flags & WEIR_KIND_OUTPUT))
		return 0;
	return !s->dst.total || s->dst.total < shape->out_min ? -EMSGSIZE : 0;
}

/* A call that gets all of both sides needs them in memory, in one piece. */
static int check_whole(const struct weir_kind_ops *ops,
		       const struct job_shape *s)
{
	if (!(ops->flags & WEIR_KIND_WHOLE))
		return 0;
	return s->src.n_pieces > 1 || (s->dst_side && s->dst.n_pieces > 1) ?
		       -EMSGSIZE : 0;
}

/* Units go through staging whole, and it has small buffers too. */
static int check_staging(const struct weir_dma *dma, const struct job_shape *s)
{
	uint32_t unit = s->kind.in_unit > s->kind.out_unit ? s->kind.in_unit :
							     s->kind.out_unit;

	if (!is_foreign(s->src.domain) &&
	    !(s->dst_side && is_foreign(s->dst.domain)))
		return 0;
	return unit > dma->staging_size ? -EMSGSIZE : 0;
}

/* The rest of the check of a registered kind's job, whose sides were checked. */
static int check_registered(const struct weir_dma *dma,
			    const struct weir_job *job, struct job_shape *s)
{
	const struct weir_kind_ops *ops = kind_of(job);
	int err = 0;

	s->total = s->src.total;
	s->src.plain = false;	/* Not done at once, like small copies. */
	s->kind = (struct weir_kind_shape){ 1, 1, 0 };
	s->kind_since = why_begin();
	if (!s->total && !(ops->flags & WEIR_KIND_EMPTY))
		return -EINVAL;
	if (s->total > INT64_MAX || (s->dst_side && s->dst.total > INT64_MAX))
		return -ERANGE;
	if (ops->shape)
		err = ops->shape(job, s->total, &s->kind);
	s->kind_refused = err != 0;
	if (err)
		return err < 0 ? (int)sane_result(err) : -EIO;
	err = check_shape(ops, s);
	if (!err)
		err = check_whole(ops, s);
	return err ? err : check_staging(dma, s);
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

static bool is_one_range(const struct weir_operand *operand)
{
	return !operand->buf && !operand->n_iov && !operand->domain;
}

/* Whether a registered kind may write where it reads. */
static bool is_in_place(const struct weir_job *job)
{
	return kind_of(job)->flags & WEIR_KIND_IN_PLACE &&
	       is_one_range(&job->src) && is_one_range(&job->dst) &&
	       job->src.addr == job->dst.addr;
}

/* Each side up to its own end: those of registered kinds may differ. */
static bool overlap(const struct weir_job *job, const struct operand_part *src,
		    const struct operand_part *dst, uint64_t total)
{
	if (likely(!kind_is_user(job->kind)))
		return operand_overlap(src, dst, total);
	return !is_in_place(job) && operand_overlap(src, dst, INT64_MAX);
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
	if (overlap(job, &src, &dst, s->total))
		return -EINVAL;
	return job->n_extra ? extra_check(dma, job, &src, &dst, s->total) : 0;
}

int job_check_operands(const struct weir_dma *dma, const struct weir_job *job,
		       struct job_shape *s)
{
	int err = set_sides(job, s);

	reactor_check_thread(dma->r);
	s->src.import = s->dst.import = NULL;
	if (!err && s->src_side)
		err = operand_check(&job->src, s->src_side, dma->r, &s->src);
	if (!err && s->dst_side)
		err = operand_check(&job->dst, s->dst_side, dma->r, &s->dst);
	if (!err)
		err = unlikely(kind_is_user(job->kind)) ?
			      check_registered(dma, job, s) : check_totals(job, s);
	if (!err)
		err = check_overlap(dma, job, s);
	return err;
}

/* What is wrong, if it is with one side; .other if it is with neither. */
struct refusal {
	int err;
	const char *src, *dst, *other;
};

#define CALL "weir_job_start: "
#define MORE "; weir_route_explain() says more"
#define BOTH(text) CALL "the source " text MORE, CALL "the destination " text MORE

static const struct refusal refusals[] = {
	{ -EINVAL, BOTH("has no address, no .iov, or a .translation that its "
			"domain does not take"),
	  CALL "an option makes no sense, an operand is empty, or two overlap"
	  MORE },
	{ -EMSGSIZE, BOTH("has more than WEIR_JOB_PIECES_MAX pieces, or its buf "
			  "too little capacity or too many references"),
	  CALL "the destination has no capacity for the source, or another "
	  "length" MORE },
	{ -ERANGE, BOTH("is beyond its data or its domain, or wraps around"),
	  CALL "the lengths are more than 2^63 - 1 together" MORE },
	{ -EACCES, CALL "the source may not be read: its domain forbids it" MORE,
	  CALL "the destination may not be written: its mmap has no "
	  "WEIR_MMAP_WRITE, or its domain forbids it" MORE, NULL },
	{ -EPERM, BOTH("is a buf in the middle of a list; give the head"), NULL },
	{ -ESTALE, BOTH("is memory that its exporter has revoked"), NULL },
	{ -EBUSY, BOTH("is a buf that another job uses"), NULL },
	{ -EXDEV, BOTH("has bufs of different domains"), NULL },
};

/* The text of @r for the side of @job that is refused for that reason. */
static const char *text_of(const struct refusal *r, const struct weir_dma *dma,
			   const struct weir_job *job)
{
	const struct job_kind *kind = kind_row(job);
	uint8_t dst = kind ? dst_side(job, kind) : OPERAND_NONE;
	struct operand_info info = { .import = NULL };

	if (kind && kind->src &&
	    operand_check(&job->src, kind->src, dma->r, &info) == r->err)
		return r->src;
	if (dst && operand_check(&job->dst, dst, dma->r, &info) == r->err)
		return r->dst;
	return r->other;
}

int job_refuse(const struct weir_dma *dma, const struct weir_job *job, int err)
{
	const char *text = NULL;
	size_t i;

	for (i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
		if (refusals[i].err == err)
			text = text_of(&refusals[i], dma, job);
	return why_static(err, text ? text : CALL "refused" MORE);
}

/* Why, in words, for weir_route_explain(). */

static bool has_src(const struct weir_job *job)
{
	const struct job_kind *kind = kind_row(job);

	return kind && kind->src;
}

static bool has_dst(const struct weir_job *job)
{
	const struct job_kind *kind = kind_row(job);

	return kind && kind->dst;
}

/* Returns what is wrong with the job apart from its operands, or NULL. */
static const char *wrong_job(const struct weir_job *job)
{
	bool more = job->kind == WEIR_JOB_DUALCAST || job->kind == WEIR_JOB_XOR;

	if (weir_op_is_busy(&job->op))
		return "it is in flight";
	if (!kind_row(job))
		return "there is no such .kind";
	if (job->flags & ~JOB_FLAGS)
		return "there are no such .flags";
	if (job->flags & WEIR_JOB_SIGNAL && !job_may_signal(job))
		return "a signal is for a copy or push to a peer";
	if (more != (job->n_extra > 0) || (more && !job->more) ||
	    job->n_extra > WEIR_JOB_EXTRA_MAX)
		return ".n_extra and .more are not what its kind has";
	return NULL;
}

static uint64_t length_of(const struct weir_operand *operand)
{
	uint64_t n = 0;
	uint32_t i;

	if (!operand->n_iov)
		return operand->len;
	for (i = 0; i < operand->n_iov; i++)
		n += operand->iov[i].iov_len;
	return n;
}

/* Returns what is wrong with one operand by itself, or NULL. */
static const char *wrong_location(const struct weir_operand *operand)
{
	const struct weir_domain *domain = operand_domain(operand);
	uint32_t i;

	if (operand->reserved0)
		return ".reserved0 is not 0";
	if (operand->translation && !domain_is_user(domain))
		return "a translation is for users' domains";
	if (operand->buf)
		return NULL;
	if (operand->n_iov && !operand->iov)
		return ".n_iov is not 0, and .iov is NULL";
	if (!length_of(operand))
		return "its length is 0";
	if (!domain_is_memory(domain))
		return NULL;
	if (!operand->n_iov)
		return operand->addr ? NULL : "its address is 0";
	for (i = 0; i < operand->n_iov; i++)
		if (operand->iov[i].iov_len && !operand->iov[i].iov_base)
			return "the address of a piece is 0";
	return NULL;
}

/* The first operand that is wrong, and its name. */
static const char *wrong_locations(const struct weir_job *job,
				   const char **which)
{
	const char *what = NULL;
	uint32_t i;

	if (has_src(job)) {
		*which = "the source";
		what = wrong_location(&job->src);
	}
	if (!what && has_dst(job)) {
		*which = job->kind == WEIR_JOB_COMPARE ? "the other side" :
							 "the destination";
		what = wrong_location(&job->dst);
	}
	for (i = 0; i < job->n_extra && !what; i++) {
		*which = "an operand beside";
		what = wrong_location(&job->more[i]);
	}
	return what;
}

/* Returns what is wrong with the job and its operands together, or NULL. */
static const char *wrong_together(const struct weir_job *job,
				  const struct job_shape *s)
{
	static const char call[] = "weir_job_start: ";

	if (!job->op.fn)
		return "it has no callback";
	if (s->planned)		/* E.g. the alignment: an engine said why. */
		return strncmp(weir_why(), call, sizeof(call) - 1) ?
			       "an engine finds something wrong with it" :
			       weir_why() + sizeof(call) - 1;
	if (!s->total)
		return "its bufs have no data, or no capacity";
	if (job->kind == WEIR_JOB_PULL &&
	    (!is_foreign(s->src.domain) || is_foreign(s->dst.domain)))
		return "a pull is to memory of this process, from elsewhere";
	if (job->kind == WEIR_JOB_PUSH &&
	    (is_foreign(s->src.domain) || !is_foreign(s->dst.domain)))
		return "a push is from memory of this process, to elsewhere";
	if (kind_is_atomic(job->kind))
		return "the word of an atomic is in one piece, at a multiple "
		       "of 8";
	if (kind_is_user(job->kind) && s->kind.in_unit &&
	    s->total % s->kind.in_unit)
		return "the source is not a multiple of the unit of its kind";
	if (kind_is_user(job->kind) && s->kind_refused)
		return "its kind finds something wrong with its arguments";
	return "the destination overlaps with another operand";
}

static void say_invalid(char *out, size_t len, const struct weir_job *job,
			const struct job_shape *s)
{
	const char *which, *what = wrong_job(job);

	if (!what) {
		what = wrong_locations(job, &which);
		if (what) {
			snprintf(out, len, "%s: %s", which, what);
			return;
		}
		what = wrong_together(job, s);
	}
	snprintf(out, len, "%s", what);
}

static uint32_t pieces_of(const struct weir_operand *operand)
{
	const struct weir_buf *buf;
	uint32_t n = 0;

	if (!operand->buf)
		return operand->n_iov;
	for (buf = operand->buf; buf; buf = buf->next)
		n++;
	return n;
}

static bool is_worn_out(const struct weir_operand *operand)
{
	return operand->buf && operand->buf->refs >= WEIR_BUF_REFS_MAX - 1;
}

static void say_too_much_for_kind(char *out, size_t len,
				  const struct weir_job *job,
				  const struct job_shape *s)
{
	if (has_dst(job) && (!s->dst.total || s->dst.total < s->kind.out_min))
		snprintf(out, len, "the destination has capacity for %llu "
			 "bytes, and may need %llu",
			 (unsigned long long)s->dst.total,
			 (unsigned long long)s->kind.out_min);
	else if (kind_find(job->kind)->flags & WEIR_KIND_WHOLE)
		snprintf(out, len, "its kind needs each side in one piece");
	else
		snprintf(out, len, "its units are larger than a block of "
			 "staging");
}

static void say_too_much(char *out, size_t len, const struct weir_job *job,
			 const struct job_shape *s)
{
	uint32_t n_src = has_src(job) ? pieces_of(&job->src) : 0;
	uint32_t n_dst = has_dst(job) ? pieces_of(&job->dst) : 0;
	uint32_t n = n_src > n_dst ? n_src : n_dst;

	if (n > WEIR_JOB_PIECES_MAX)
		snprintf(out, len, "a side has %u pieces, and may have %d", n,
			 WEIR_JOB_PIECES_MAX);
	else if ((has_src(job) && is_worn_out(&job->src)) ||
		 (has_dst(job) && is_worn_out(&job->dst)))
		snprintf(out, len, "a list has as many references as may be");
	else if (kind_is_atomic(job->kind))
		snprintf(out, len, "an atomic is about 8 bytes, not %llu",
			 (unsigned long long)s->total);
	else if (kind_is_user(job->kind))
		say_too_much_for_kind(out, len, job, s);
	else if (has_src(job) && has_dst(job) && s->src.total != s->dst.total)
		snprintf(out, len, "the source has %llu bytes, the other side "
			 "%s%llu", (unsigned long long)s->src.total,
			 job->dst.buf ? "capacity for " : "",
			 (unsigned long long)s->dst.total);
	else
		snprintf(out, len, "an operand beside has another length, "
			 "or a part more than its bufs have");
}

/* A message for each of the others; see <weir/job.h>. */
static const char *cause(int err)
{
	switch (err) {
	case -ERANGE:
		return "a range ends outside its domain, or a part of bufs "
		       "is beyond their data";
	case -EACCES:
		return "the mmap, file or process does not allow it";
	case -EBUSY:
		return "another job in flight uses the bufs";
	case -EPERM:
		return "a buf is in the middle of a list";
	case -ESTALE:
		return "the exporter has revoked the memory";
	case -EXDEV:
		return "no engine does it";
	case -EDEADLK:
		return "functions of the user's are nested too deep";
	case -EBADFD:
		return "the context is not started";
	case -EAGAIN:
		return "as many jobs or operations as may be are in flight";
	default:
		return strerror(-err);
	}
}

void refusal_say(char *out, size_t len, const struct weir_job *job,
		 const struct job_shape *s, int err)
{
	if (err == -EINVAL)
		say_invalid(out, len, job, s);
	else if (err == -EMSGSIZE)
		say_too_much(out, len, job, s);
	else
		snprintf(out, len, "%s", cause(err));
}
