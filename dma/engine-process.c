/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The process engine: memory of this process <-> memory of another, by
 * process_vm_readv(2) and process_vm_writev(2).  These copy inside the kernel
 * and wait for pages, so a worker calls them, in slices, between which a cancel
 * takes effect.
 *
 * The kernel identifies the process by its number, which it may give to another
 * process when this one has ended and its parent has waited for it.  While the
 * pidfd does not report the end, the number is still its own.  The engine polls
 * the pidfd before each slice, so that it writes to no other process, and after
 * it, so that it does not accept data from another.  Before each slice it also
 * checks whether the memory is revoked, because its owner may use it for
 * something else then.
 */

#include <errno.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/fault.h"
#include "dma/job-internal.h"

#define PIECES 64			/* In a system call, of each side. */
#define SLICE ((uint64_t)1 << 20)	/* 100 to 300 us. */

static bool is_process(const struct weir_domain *domain)
{
	return domain && domain_is_process(domain);
}

static bool is_memory(const struct weir_domain *domain)
{
	return domain && domain_is_memory(domain);
}

/* A simulated world must repeat, so it reaches no other process: the memory
 * there changes independently of the world. */
static bool may_reach(const struct weir_dma *dma,
		      const struct weir_domain *domain)
{
	if (!dma || !dma->r->backend->isolated || !is_process(domain))
		return true;
	return ((const struct domain_process *)domain)->pid == getpid();
}

static int can(void *arg, const struct weir_engine_query *q, const char **why)
{
	if (!may_reach(arg, q->src) || !may_reach(arg, q->dst)) {
		*why = "a simulated world has no other processes";
		return 0;
	}
	*why = "only copies between another process and memory of this one";
	if (is_process(q->src) && is_memory(q->dst))
		return q->kind == WEIR_JOB_COPY || q->kind == WEIR_JOB_PULL;
	if (is_memory(q->src) && is_process(q->dst))
		return q->kind == WEIR_JOB_COPY || q->kind == WEIR_JOB_PUSH;
	return 0;
}

/* The direction, the two sides, and the other process. */
struct path {
	long call;
	struct cursor *here, *there;
	const struct domain_process *process;
};

static struct path path_of(struct job_priv *p)
{
	struct weir_domain *src = operand_domain(p->src.operand);

	if (is_process(src))
		return (struct path){ SYS_process_vm_readv, &p->dst, &p->src,
				      domain_to_process(src) };
	return (struct path){ SYS_process_vm_writev, &p->src, &p->dst,
			      domain_to_process(
				      operand_domain(p->dst.operand)) };
}

/* Copy up to the end of the shorter side.  Returns the bytes, or an errno. */
static long copy(const struct path *path)
{
	struct iovec here[PIECES], there[PIECES];
	uint64_t len;
	uint32_t n_here = cursor_gather(path->here, here, PIECES, SLICE, &len);
	uint32_t n_there = cursor_gather(path->there, there, PIECES, len, &len);
	long n;

	if (fault("process_vm_readv"))
		return -ENOMEM;
	n = syscall(path->call, path->process->pid, here, (long)n_here, there,
		    (long)n_there, 0L);
	return n < 0 ? -errno : n;
}

static int slice(struct weir_job *job, const struct path *path)
{
	struct job_priv *p = job_priv(job);
	long n;

	if (job_is_stale(job))
		return -ESTALE;
	if (!process_lives(path->process))
		return -ESRCH;
	n = copy(path);
	if (!process_lives(path->process))
		return -ESRCH;
	if (n <= 0)
		return n ? (int)n : -EFAULT;
	p->done += (uint64_t)n;
	cursor_skip(&p->src, (uint64_t)n);
	cursor_skip(&p->dst, (uint64_t)n);
	return 0;
}

/*
 * Runs on a worker.  The kernel stops before a missing page, and returns the
 * error only for a call that begins there: so .done is exact.
 */
static int64_t work(void *arg)
{
	struct weir_job *job = arg;
	struct job_priv *p = job_priv(job);
	struct path path = path_of(p);
	int err = 0;

	while (!err && p->done < p->total) {
		if (atomic_load_explicit(&p->stop, memory_order_relaxed))
			return -ECANCELED;
		err = slice(job, &path);
	}
	return err;
}

static int start(void *arg, struct weir_job *job)
{
	(void)arg;
	job_work(job, work);
	return 0;
}

static void cancel(void *arg, struct weir_job *job)
{
	(void)arg;
	job_work_cancel(job);
}

const struct engine_kind engine_process = {
	.ops = {
		.size = sizeof(struct weir_engine_ops),
		.name = "process",
		.can = can,
		.start = start,
		.cancel = cancel,
	},
	.serves = &domain_class_process,
};
