/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The file engine: memory <-> file by the reactor's reads and writes, and file
 * -> file inside the kernel.
 *
 * A job is a sequence of steps.  Each step is one operation on a contiguous
 * range of the file, and on up to JOB_IOVS pieces of memory.
 *
 * O_DIRECT requires aligned offsets, lengths and memory.  The unaligned parts
 * at both ends of a range go through the descriptor without O_DIRECT; the
 * kernel keeps the two coherent as long as they do not share a page, see
 * mem/domain-internal.h.
 */

#include <errno.h>
#include <string.h>

#include "base/why.h"
#include "dma/bounce.h"
#include "mem/buf-internal.h"
#include "reactor/io.h"

static bool knows(const struct weir_domain *domain)
{
	return domain && (domain_is_memory(domain) || domain_is_file(domain));
}

static int can(void *arg, const struct weir_engine_query *q, const char **why)
{
	bool copies = q->kind == WEIR_JOB_COPY || q->kind == WEIR_JOB_PULL ||
		      q->kind == WEIR_JOB_PUSH;

	(void)arg;
	*why = copies ? "only files, and memory of this process" :
			"only copies";
	return copies && knows(q->src) && knows(q->dst);
}

static bool is_file(const struct cursor *c)
{
	return !c->operand->buf && c->operand->domain &&
	       domain_is_file(c->operand->domain);
}

static struct domain_file *file_of(const struct cursor *c)
{
	return domain_to_file(c->operand->domain);
}

/* Whether every piece begins at a multiple of @align and is whole blocks. */
static bool is_aligned(const struct weir_operand *operand,
		       enum operand_side side, uint64_t n, uint32_t align,
		       uint32_t block)
{
	struct cursor c;

	for (cursor_init(&c, operand, side, n); c.left;
	     cursor_advance(&c, c.len))
		if (c.addr & (align - 1) || c.len & (block - 1))
			return false;
	return true;
}

static int refuse(const struct domain_file *file)
{
	return why(-EINVAL, "weir_job_start: domain %s is O_DIRECT alone (%s): "
		   "align its offsets and lengths to %u bytes, memory to %u, "
		   "or give .buffered_fd", file->domain.id,
		   file->no_way ? strerror(-file->no_way) : "as was asked for",
		   file->domain.align, file->mem_align);
}

/*
 * Without a way round O_DIRECT all must be aligned from the start, and so must
 * every step be, which ends where a piece of either side does.
 */
static int check_direct(const struct weir_operand *floc,
			enum operand_side fside,
			const struct weir_operand *mloc,
			enum operand_side mside,
			const struct operand_info *finfo, uint64_t total)
{
	const struct domain_file *file = domain_to_file(finfo->domain);
	uint32_t align = file->domain.align;

	return is_aligned(floc, fside, total, align, align) &&
	       is_aligned(mloc, mside, total, file->mem_align, align) ?
		       0 : refuse(file);
}

/* Whether it is of an O_DIRECT file, and there is no way round that. */
static bool is_direct_alone(const struct operand_info *info)
{
	const struct domain_file *file;

	if (!domain_is_file(info->domain))
		return false;
	file = domain_to_file(info->domain);
	return file->domain.align && file->buffered_fd < 0;
}

static int check_job(const struct weir_job *job, const struct operand_info *src,
		     const struct operand_info *dst, uint64_t total)
{
	enum operand_side side = job->flags & WEIR_JOB_OVERWRITE ?
					 OPERAND_OVERWRITE :
					 OPERAND_APPEND;

	if (src->domain->kind == dst->domain->kind)
		return 0;
	if (unlikely(is_direct_alone(src)))
		return check_direct(&job->src, OPERAND_SRC, &job->dst, side,
				    src, total);
	if (unlikely(is_direct_alone(dst)))
		return check_direct(&job->dst, side, &job->src, OPERAND_SRC,
				    dst, total);
	return 0;
}

static uint64_t min3(uint64_t a, uint64_t b, uint64_t c)
{
	uint64_t ab = a < b ? a : b;

	return ab < c ? ab : c;
}

static void launch(struct weir_job *job, int kind, int fd, uint64_t addr,
		   uint64_t len, uint64_t off, uint64_t aux)
{
	struct weir_op *op = &job->inner;

	op->kind = (uint8_t)kind;
	op->u.io.fd = fd;
	op->u.io.flags = 0;
	op->u.io.addr = addr;
	op->u.io.len = len;
	op->u.io.off = off;
	op->u.io.aux = aux;
	op->u.io.done = 0;
	op->u.io.seg = 0;
	op->u.io.seg_off = 0;
	io_launch(job->op.reactor, op);
}

/* The kernel's copy between files needs no alignment: use the fd without
 * O_DIRECT. */
static int plain_fd(const struct cursor *c)
{
	struct domain_file *file = file_of(c);

	return file->buffered_fd >= 0 ? file->buffered_fd : file->fd;
}

static void step_files(struct weir_job *job)
{
	struct job_priv *p = job_priv(job);
	uint64_t n = min3(p->src.len, p->dst.len, p->dma->file_slice);

	p->direct = false;
	job->inner.u.io.buf_index = 0;
	launch(job, IO_COPY_RANGE, plain_fd(&p->src),
	       (uint64_t)plain_fd(&p->dst), n, p->src.addr, p->dst.addr);
}

/*
 * Choose the descriptor for the next bytes, at most @n, and return how many may
 * use it: up to the next aligned offset, or whole aligned blocks.
 */
static uint64_t pick_fd(struct job_priv *p, const struct domain_file *file,
			const struct cursor *f, const struct cursor *m,
			uint64_t n, int *fd)
{
	uint64_t head = (0 - f->addr) & (file->domain.align - 1);
	uint64_t body = n & ~(uint64_t)(file->domain.align - 1);

	p->direct = false;
	*fd = file->buffered_fd;
	if (head)
		return head < n ? head : n;
	if (!body || m->addr & (file->mem_align - 1))
		return n;
	p->direct = true;
	*fd = file->fd;
	return body;
}

/* The registered buffer under @m, plus 1; a reactor has its own numbers. */
static int fixed_index(const struct weir_job *job, const struct cursor *m)
{
	if (!m->buf || !buf_is_owned_by(m->buf, job->op.reactor))
		return 0;
	return m->buf->index;
}

static void step_one(struct weir_job *job, struct job_priv *p,
		     const struct cursor *f, const struct cursor *m, bool in)
{
	uint64_t n = job_slice(p, f->len < m->len ? f->len : m->len);
	struct domain_file *file = file_of(f);
	int index = fixed_index(job, m);
	int fd = file->fd;

	p->direct = false;
	if (file->domain.align)
		n = pick_fd(p, file, f, m, n, &fd);
	job->inner.u.io.buf_index = index;
	p->dma->stats.fixed += index != 0;
	launch(job, in ? IO_READ : IO_WRITE, fd, m->addr, n, f->addr, 0);
}

static void step_memory(struct weir_job *job)
{
	struct job_priv *p = job_priv(job);
	bool in = is_file(&p->src);
	struct cursor *f = in ? &p->src : &p->dst;
	struct cursor *m = in ? &p->dst : &p->src;
	uint64_t len;
	uint32_t n;

	if (f->len <= m->len || file_of(f)->domain.align) {
		step_one(job, p, f, m, in);
		return;
	}
	p->direct = false;
	n = cursor_gather(m, p->iov, JOB_IOVS, job_slice(p, f->len), &len);
	job->inner.u.io.buf_index = 0;
	launch(job, in ? IO_READV : IO_WRITEV, file_of(f)->fd,
	       (uintptr_t)p->iov, n, f->addr, len);
}

static void step(struct weir_job *job)
{
	struct job_priv *p = job_priv(job);

	if (unlikely(job_is_stale(job)))
		job_end(job, -ESTALE);
	else if (is_file(&p->src) && is_file(&p->dst))
		step_files(job);
	else
		step_memory(job);
}

/* The length that the step asked for. */
static uint64_t asked(const struct weir_op *op)
{
	return op->kind == IO_READV || op->kind == IO_WRITEV ? op->u.io.aux :
							       op->u.io.len;
}

/*
 * After a short direct read, which ended at the end of the file, the next
 * offset is not aligned, so the kernel's -EINVAL means the end of the file.
 */
static bool is_direct_end(const struct job_priv *p, const struct weir_op *op,
			  int64_t res)
{
	return res == -EINVAL && p->direct && op->kind == IO_READ &&
	       op->detail.bytes;
}

/* Whether the kernel cannot copy between these two files, or no worker could be
 * made for it; reads and writes may not need one. */
static bool is_refusal(const struct weir_job *job, int64_t res)
{
	const struct job_priv *p = job_priv((struct weir_job *)job);

	if (job->inner.kind != IO_COPY_RANGE)
		return false;
	return res == -EXDEV || res == -EOPNOTSUPP ||
	       (!p->done && (res == -EINVAL || res == -EAGAIN));
}

static void step_done(struct weir_op *op, int64_t res)
{
	struct weir_job *job = weir_container_of(op, struct weir_job, inner);
	struct job_priv *p = job_priv(job);
	uint64_t n = op->detail.bytes;

	p->done += n;
	cursor_skip(&p->src, n);
	cursor_skip(&p->dst, n);
	if (is_direct_end(p, op, res))
		res = (int64_t)n;

	if (is_refusal(job, res))
		bounce_instead(job, res);
	else if (res < 0)
		job_end(job, res);
	else if (p->done == p->total)
		job_end(job, 0);
	else if (n < asked(op))
		job_end(job, job->flags & WEIR_JOB_SHORT_OK ? 0 : -ENODATA);
	else if (op_cancel_wanted(&job->op))
		job_end(job, -ECANCELED);
	else
		step(job);
}

static int start(void *arg, struct weir_job *job)
{
	(void)arg;
	job_inner(job, step_done);
	step(job);
	return 0;
}

static void cancel(void *arg, struct weir_job *job)
{
	(void)arg;
	weir_op_cancel(&job->inner);
}

const struct engine_kind engine_file = {
	.ops = {
		.size = sizeof(struct weir_engine_ops),
		.name = "file",
		.can = can,
		.start = start,
		.cancel = cancel,
	},
	.verify = check_job,
	.is_alone = true,
	.serves = &domain_class_file,
};
