/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_JOB_H
#define WEIR_JOB_H

/*
 * A job: one move of memory, or one computation over it.
 *
 * The caller owns a struct weir_job, as it owns a struct weir_op.  It fills the
 * job and starts it in a DMA context.
 *
 *	weir_job_init(&rq->job, on_copied);
 *	weir_job_copy(&rq->job, weir_operand_buf(buf), weir_operand_at(file, off, len));
 *	err = weir_job_start(dma, &rq->job);
 *
 * The contract of <weir/op.h> holds; job->op is the operation: cancel it, give
 * it a deadline, get its detail.  Everything is checked before it starts, so a
 * job that is refused has changed nothing.
 *
 *   - A source of bufs is their data.  A destination of bufs is their tail
 *     capacities, in order: the job appends to the data; with
 *     WEIR_JOB_OVERWRITE it replaces the data.
 *   - Memory and files given by address are written at that address.
 *   - A job that fails or is cancelled leaves the data lengths of its bufs
 *     unchanged; the memory may be partly written.  The detail has the number
 *     of bytes.
 *   - The bufs of a job are in use until its callback begins, whatever its
 *     size: weir_buf_reset() and similar calls return -EBUSY, and a second job
 *     that would write to them, or read what this one writes, is refused.
 *     The data lengths change just before the callback.
 *   - A source that ends early, a short file, is -ENODATA with the bytes moved
 *     in the detail; with WEIR_JOB_SHORT_OK it is a success, with the bytes as
 *     result.
 *
 * Jobs have no order unless the caller requests one, with a chain or a fence:
 *
 *   - A job with WEIR_JOB_FENCE begins when all jobs that were started before it
 *     in its context have ended, successfully or not.  Jobs started after it do
 *     not wait for it, unless they are fences too.  If a job must run only after
 *     another one has succeeded, make both steps of a chain.
 *   - A job with WEIR_JOB_LAZY begins when weir_dma_flush() is called, or in the
 *     reactor's next turn, so that jobs started one by one begin together.
 *   - Before it begins, either is in flight like any other job: it counts, holds
 *     its bufs, and can be cancelled, with nothing done.
 *
 * A copy or push to a peer with WEIR_JOB_SIGNAL sends the peer .signal when all
 * bytes have arrived: see <weir/message.h>.  A job that fails sends none.
 *
 * Re-creates doca_dma's tasks, SPDK's accel operations and rte_dmadev.
 */

#include <string.h>
#include <sys/uio.h>

#include <weir/op.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_buf;
struct weir_dma;
struct weir_domain;
struct weir_translation;

/*
 * Where bytes are: bufs, or addresses in a domain.
 *
 * With .buf, .addr and .len select a part: of a source, .len bytes of the data
 * from .addr bytes into them; of a destination, at most .len bytes are written
 * (.addr must be 0).  A .len of 0 means all there is.
 *
 * Otherwise .domain is the address space (NULL: this process's).  The pieces are
 * .iov (iov_base is the address, in any domain) or, if .n_iov is 0, the .len
 * bytes at .addr.  The caller must keep the iovecs until the callback.
 *
 * The functions of a user's domain get .ctx and .translation unchanged, see
 * <weir/domain-user.h>; for other domains .translation must be NULL.
 */
struct weir_operand {
	struct weir_buf *buf;
	struct weir_domain *domain;
	uint64_t addr;
	uint64_t len;
	const struct iovec *iov;
	uint32_t n_iov;
	uint32_t reserved0;
	void *ctx;		/* For a user's domain. */
	const struct weir_translation *translation; /* For it too, if known. */
};

/* Pieces that each side of a job may have: bufs or iovecs. */
#define WEIR_JOB_PIECES_MAX 256

/* What a job does; weir_job.kind. */
#define WEIR_JOB_COPY 1		/* Between any two places. */
#define WEIR_JOB_PULL 2		/* From a domain to this process. */
#define WEIR_JOB_PUSH 3		/* From this process to a domain. */
#define WEIR_JOB_FILL 4		/* With .pattern. */
#define WEIR_JOB_CRC32C 5	/* Of the source, into .crc. */
#define WEIR_JOB_COPY_CRC32C 6	/* Copy, and the CRC of what was copied. */
#define WEIR_JOB_COMPARE 7	/* Source and destination. */
#define WEIR_JOB_DUALCAST 8	/* To .dst, and to the one of .more. */
#define WEIR_JOB_XOR 9		/* Of .src and all of .more. */
#define WEIR_JOB_FETCH_ADD 10	/* Add .pattern to a word. */
#define WEIR_JOB_COMPARE_SWAP 11 /* If it is .compare, make it .pattern. */
#define WEIR_JOB_USER 1000 /* From here on: registered, see <weir/kind.h>. */

/* Operands that a job may have besides .src and .dst. */
#define WEIR_JOB_EXTRA_MAX 15

/* weir_job.flags */
#define WEIR_JOB_OVERWRITE 1u	/* Replace the data of destination bufs. */
#define WEIR_JOB_SHORT_OK 2u	/* The source may end early. */
#define WEIR_JOB_FENCE 4u	/* After all that was started before. */
#define WEIR_JOB_LAZY 8u	/* When the context is flushed. */
#define WEIR_JOB_SIGNAL 16u	/* Tell the peer of .signal at the end. */

/*
 * A job, 1216 bytes.  The first part, to .compare, is the caller's; the rest is
 * the library's.
 *
 * The size and the places of the caller's members are part of the ABI.  .engine
 * is what the library and an engine keep for a job in flight: 336 bytes, of
 * which a user's engine has WEIR_JOB_AREA.  .reserved is for later
 * versions, and this one uses none of it: leave it zero, as weir_job_init()
 * does.  Its value is not checked.  Do not write any of a job in flight.
 */
struct weir_job {
	struct weir_op op;
	uint32_t kind;		/* WEIR_JOB_ */
	uint32_t flags;		/* WEIR_JOB_OVERWRITE, ... */
	uint32_t crc;		/* In: continued from this.  Out: the CRC. */
	uint32_t reserved0;
	uint64_t pattern;	/* Repeated by FILL; its first byte is first.
				 * What an atomic adds, or stores. */
	struct weir_operand src;
	struct weir_operand dst;
	const struct weir_operand
		*more; /* Of the kinds that have them; lent. */
	uint32_t n_extra;
	uint32_t signal;	/* With WEIR_JOB_SIGNAL. */
	uint64_t compare;	/* What is compared with; in the byte order of
				 * this machine, as all of an atomic.  Of a
				 * registered kind: weir_job_args(). */

	/* The library's. */
	struct weir_op inner;
	uint64_t engine[42];
	uint64_t reserved[8];	/* 0. */
};

/* The bufs @buf is the head of. */
static inline struct weir_operand weir_operand_buf(struct weir_buf *buf)
{
	struct weir_operand loc;

	memset(&loc, 0, sizeof(loc));
	loc.buf = buf;
	return loc;
}

/* @len bytes at @addr of @domain: an offset, if it is a file. */
static inline struct weir_operand weir_operand_at(struct weir_domain *domain,
						  uint64_t addr, uint64_t len)
{
	struct weir_operand loc;

	memset(&loc, 0, sizeof(loc));
	loc.domain = domain;
	loc.addr = addr;
	loc.len = len;
	return loc;
}

/* @len bytes at @p of this process.  A source is not written to. */
static inline struct weir_operand weir_operand_mem(const void *p, size_t len)
{
	return weir_operand_at(NULL, (uint64_t)(uintptr_t)p, len);
}

/* @n pieces of @domain; NULL means this process. */
static inline struct weir_operand weir_operand_iov(struct weir_domain *domain,
						   const struct iovec *iov,
						   uint32_t n)
{
	struct weir_operand loc;

	memset(&loc, 0, sizeof(loc));
	loc.domain = domain;
	loc.iov = iov;
	loc.n_iov = n;
	return loc;
}

/*
 * Make @job idle, to call @fn at its end.  Needed once, not before each start.
 */
static inline void weir_job_init(struct weir_job *job, weir_op_fn *fn)
{
	memset(job, 0, sizeof(*job));
	job->op.fn = fn;
}

/* The job in which @op is the operation. */
static inline struct weir_job *weir_job_of(struct weir_op *op)
{
	return weir_container_of(op, struct weir_job, op);
}

/*
 * Have @job copy @src to @dst, as many bytes as @src has.
 *
 * They are appended to the data of bufs; with WEIR_JOB_OVERWRITE they replace
 * it.  Set .flags after this call, which clears them, as all such calls do.
 * Totals must fit: -EMSGSIZE if @dst has less capacity; an address range as
 * destination must be exactly as long.
 *
 * Re-creates rte_dma_copy(), spdk_accel_submit_copy(),
 * doca_dma_task_memcpy_alloc_init(), ucp_put_nbx() and ucp_get_nbx().
 */
static inline void weir_job_copy(struct weir_job *job, struct weir_operand dst,
				 struct weir_operand src)
{
	job->kind = WEIR_JOB_COPY;
	job->flags = 0;
	job->n_extra = 0;
	job->dst = dst;
	job->src = src;
}

/*
 * As weir_job_copy(), and .crc becomes the CRC-32C of what was copied.
 *
 * Re-creates spdk_accel_submit_copy_crc32c().
 */
static inline void weir_job_copy_crc32c(struct weir_job *job,
					struct weir_operand dst,
					struct weir_operand src, uint32_t crc)
{
	weir_job_copy(job, dst, src);
	job->kind = WEIR_JOB_COPY_CRC32C;
	job->crc = crc;
}

/*
 * Have @job compute the CRC-32C of @src into .crc, continued from @crc.
 *
 * Re-creates spdk_accel_submit_crc32c().
 */
static inline void weir_job_crc32c(struct weir_job *job,
				   struct weir_operand src, uint32_t crc)
{
	weir_job_copy(job, weir_operand_mem(NULL, 0), src);
	job->kind = WEIR_JOB_CRC32C;
	job->crc = crc;
}

/*
 * Have @job fill @dst with @pattern; bufs up to the end of their tail
 * capacities.
 *
 * Re-creates spdk_accel_submit_fill() and rte_dma_fill().
 */
static inline void weir_job_fill(struct weir_job *job, struct weir_operand dst,
				 uint64_t pattern)
{
	weir_job_copy(job, dst, weir_operand_mem(NULL, 0));
	job->kind = WEIR_JOB_FILL;
	job->pattern = pattern;
}

/* Have @job set @dst to zeros: a fill. */
static inline void weir_job_memzero(struct weir_job *job,
				    struct weir_operand dst)
{
	weir_job_fill(job, dst, 0);
}

/*
 * Have @job copy @src to @dst and to *@dst2, which must stay until the callback.
 * Each must have capacity, and none may overlap with another.  They may be of
 * different domains.  The bytes done are those that both destinations have.
 *
 * Re-creates spdk_accel_submit_dualcast().
 */
static inline void weir_job_dualcast(struct weir_job *job,
				     struct weir_operand dst,
				     const struct weir_operand *dst2,
				     struct weir_operand src)
{
	weir_job_copy(job, dst, src);
	job->kind = WEIR_JOB_DUALCAST;
	job->more = dst2;
	job->n_extra = 1;
}

/*
 * Have @job write to @dst the exclusive or of @n sources of equal length, which
 * must stay until the callback.  They may be of different domains, and overlap
 * with one another, but not with @dst.  @n is from 2 to 1 + WEIR_JOB_EXTRA_MAX.
 * The job ends where its first source does.
 *
 * Re-creates spdk_accel_submit_xor().
 */
static inline void weir_job_xor(struct weir_job *job, struct weir_operand dst,
				const struct weir_operand *srcs, uint32_t n)
{
	weir_job_copy(job, dst, srcs[0]);
	job->kind = WEIR_JOB_XOR;
	job->more = srcs + 1;
	job->n_extra = n - 1;
}

/*
 * Have @job add @n, which may wrap around, to the 64-bit word at @dst, as one
 * atomic step; weir_job_old() returns the word's previous value.
 *
 * @dst is 8 bytes in one piece, at an address that is a multiple of 8.  In a buf
 * they are part of its data, whose length does not change.
 *
 * In memory of this machine the step is atomic to all processors, and so to
 * other processes that have mapped it.  At a peer, by RDMA, it needs
 * WEIR_MMAP_RDMA_ATOMIC of the exporter, and is atomic to all accesses through
 * the peer's device; to the peer's processors only if that device has
 * WEIR_DEVICE_CAP_ATOMIC_ALL.  So this job is refused with -EXDEV for a buf
 * whose mmap lets peers do atomics by a device without that capability.  The
 * library cannot check this for addresses without a buf, or for a peer that is
 * reached by several of its devices.
 *
 * The word is in the byte order of the machine where it is; operands and
 * weir_job_old() are in the byte order of this machine.
 *
 * It is done once or not at all, and never through staging.  If the connection
 * to the peer fails while it is in flight, it is unknown whether it was done:
 * the job ends with the error, and 0 bytes.
 *
 * Re-creates IBV_WR_ATOMIC_FETCH_AND_ADD.
 */
static inline void weir_job_fetch_add(struct weir_job *job,
				      struct weir_operand dst, uint64_t n)
{
	weir_job_copy(job, dst, weir_operand_mem(NULL, 0));
	job->kind = WEIR_JOB_FETCH_ADD;
	job->pattern = n;
}

/*
 * Have @job set the word at @dst to @swap if it is @compare.  It succeeds in
 * either case; it has swapped if weir_job_old() is @compare.  Otherwise it is
 * like weir_job_fetch_add().
 *
 * Re-creates IBV_WR_ATOMIC_CMP_AND_SWP.
 */
static inline void weir_job_compare_swap(struct weir_job *job,
					 struct weir_operand dst,
					 uint64_t compare, uint64_t swap)
{
	weir_job_copy(job, dst, weir_operand_mem(NULL, 0));
	job->kind = WEIR_JOB_COMPARE_SWAP;
	job->compare = compare;
	job->pattern = swap;
}

/*
 * Have @job compare @a with @b, two sources of equal length.  The result is the
 * number of bytes from the beginning that are equal.
 *
 * Re-creates spdk_accel_submit_compare().
 */
static inline void weir_job_compare(struct weir_job *job, struct weir_operand a,
				    struct weir_operand b)
{
	weir_job_copy(job, b, a);
	job->kind = WEIR_JOB_COMPARE;
}

/*
 * Have @job do what the registered kind @kind does, see <weir/kind.h>: from
 * @src to @dst, with @args, which are lent until the callback.
 *
 * For a kind without output @dst is weir_operand_mem(NULL, 0).  Input and
 * output may differ in length: @dst is the capacity, and the result is how many
 * bytes were written.
 */
static inline void weir_job_registered(struct weir_job *job, uint32_t kind,
				       struct weir_operand dst,
				       struct weir_operand src,
				       const void *args)
{
	weir_job_copy(job, dst, src);
	job->kind = kind;
	job->compare = (uint64_t)(uintptr_t)args;
}

/* The arguments of @job, which is of a registered kind. */
static inline const void *weir_job_args(const struct weir_job *job)
{
	return (const void *)(uintptr_t)job->compare;
}

/*
 * Start @job in @dma.
 *
 * The operands are evaluated now: the lists of bufs, and their data or
 * capacity.  The job takes a reference to each buf until the callback, and
 * counts the domains as used.
 *
 * If it is refused, weir_route_explain() gives the exact reason.
 *
 * Completes with the bytes done (for a compare, the number of equal bytes), or
 * a negative errno: -ENODATA if the source ended early; the kernel's errno for a
 * file; -EFAULT at a page that another process lacks or may not write, -ESRCH
 * if that process has ended; the errno of a function of a user's domain; or, of
 * a registered kind, what the kind documents, -ENOSPC if its output does not
 * fit, and -EIO if its functions break their contract.
 *
 * Returns 0, or
 *   -EINVAL      .kind, .flags or .n_extra make no sense; .reserved0 of a
 *                operand is not 0, or its .translation not NULL and its
 *                domain not a user's; a length of 0; an address of 0 in this
 *                process; a destination overlaps with another operand, also
 *                if two domains of one file name them; the source is no
 *                multiple of the unit of a registered kind; pull from or push
 *                to this process; not as aligned as an O_DIRECT file without
 *                .buffered_fd needs it; the word of an atomic is in several
 *                pieces, or not at a multiple of 8; @job is in flight or has
 *                no callback
 *   -EMSGSIZE    a destination has no capacity for the source, or (a compare,
 *                an XOR, or a destination by address) another length; or less
 *                than a registered kind needs; or a side is in pieces, and
 *                such a kind needs it whole; an
 *                atomic is not of 8 bytes; or a side has more than
 *                WEIR_JOB_PIECES_MAX pieces, or a list of it has nearly
 *                WEIR_BUF_REFS_MAX references
 *   -ERANGE      a range wraps around, ends beyond INT64_MAX in a file or
 *                beyond the bounds of its domain, or a part of bufs is beyond
 *                their data
 *   -EACCES      the mmap, file, process or domain of the destination is not
 *                writable, or the file or domain of the source not readable
 *   -EPERM       a buf is in the middle of a list
 *   -ESTALE      a buf is of an import that its exporter has revoked; a job
 *                that is in flight then completes with -ESTALE
 *   -EBUSY       another job, whose callback has not begun, writes to one of
 *                the lists, or reads the list that this one would write to
 *   -EXDEV       no engine can do this between these domains, and none both
 *                ways through staging; or an atomic would not be one, or a
 *                signal, which goes with bytes that the device reaches;
 *                weir_route_explain() says why
 *   -EDEADLK     the job goes through staging, and is started in functions of
 *                domains or engines that are nested too deep, see
 *                <weir/route.h>
 *   -EBADFD      @dma is not started
 *   -EAGAIN      .jobs_max jobs, or .ops_max operations, are in flight; or the
 *                function of a user's domain returned it, and the job is
 *                neither a fence nor lazy and does not go through staging:
 *                such jobs wait
 *   -ESHUTDOWN   the reactor is stopping
 *   other errnos  returned by the function of a user's domain, or of a
 *                registered kind
 *
 * Call on @dma's reactor.  Never blocks, never allocates.
 *
 * Re-creates doca_task_submit(), and ibv_post_send() of IBV_WR_RDMA_READ and
 * IBV_WR_RDMA_WRITE.
 */
WEIR_API int weir_job_start(struct weir_dma *dma, struct weir_job *job);

/*
 * Start jobs[0] to jobs[n - 1] in @dma, in this order, until one cannot be
 * started.  *@n_started is set to the number of started jobs in any case.  The
 * others are unchanged; start them from jobs[*n_started] on when there is
 * capacity.
 *
 * Returns 0 if all were started, or the result of weir_job_start() for
 * jobs[*n_started]: -EAGAIN if there was no more capacity.
 *
 * Call on @dma's reactor.  Never blocks, never allocates.
 * Re-creates rte_dma_burst_capacity() and DOCA's task batches.
 */
WEIR_API int weir_job_start_batch(struct weir_dma *dma,
				  struct weir_job *const *jobs, uint32_t n,
				  uint32_t *n_started);

/*
 * Get the previous value of the word of an atomic.
 *
 * @job must have succeeded.
 *
 * Returns the value.
 *
 * Call on the reactor's thread, in the callback or after it.  Never blocks.
 * Re-creates the local buffer of IBV_WR_ATOMIC_FETCH_AND_ADD.
 */
WEIR_API uint64_t weir_job_old(const struct weir_job *job);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_JOB_H */
