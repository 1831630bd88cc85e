/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The verbs engine: between memory that the device of a connection knows and a
 * remote domain that the connection is attached to, by RDMA writes and reads;
 * and atomics there.
 *
 * What the device does not know goes through staging, which it does; a few
 * bytes to be written go into the work request itself.
 */

#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/why.h"
#include "rdma/engine.h"
#include "dma/route.h"

static bool is_remote(const struct weir_domain *domain)
{
	return domain && domain_is_remote(domain);
}

static int can(void *arg, const struct weir_engine_query *q, const char **why)
{
	if (unlikely(kind_is_atomic(q->kind)))
		return verbs_can_atomic(arg, q->dst, why);
	*why = "only copies between memory and a peer by RDMA";
	if (is_remote(q->src) && verbs_is_local(q->dst))
		return q->kind == WEIR_JOB_COPY || q->kind == WEIR_JOB_PULL;
	if (verbs_is_local(q->src) && is_remote(q->dst))
		return q->kind == WEIR_JOB_COPY || q->kind == WEIR_JOB_PUSH;
	return 0;
}

static int verify_side(const struct weir_operand *operand,
		       const struct operand_info *info, uint32_t need)
{
	if (is_remote(info->domain))
		return verbs_check_rkeys(operand, need);
	if (!domain_is_memory(info->domain) && !operand->buf)
		return why(-EOPNOTSUPP, "weir_job_start: addresses of device "
			   "memory have no key: use bufs of an mmap");
	return 0;
}

/* Of a half of a bounce it is not known whether it is read or written. */
static int verify(const struct weir_job *job, const struct operand_info *src,
		  const struct operand_info *dst, uint64_t total)
{
	bool half = !dst->total;
	int err;

	(void)total;
	if (kind_is_atomic(job->kind))
		return verify_side(&job->dst, dst, WEIR_MMAP_RDMA_ATOMIC);
	err = verify_side(&job->src, src, half ? 0 : WEIR_MMAP_READ);
	return err ? err : verify_side(&job->dst, dst, WEIR_MMAP_WRITE);
}

static struct weir_conn *conn_of(const struct weir_operand *operand)
{
	return domain_remote_link(operand_domain(operand));
}

/*
 * Through staging, if it is memory that can be copied; bounce.c has the engine
 * move between that and the peer.
 */
static int go_round(struct weir_job *job, int err)
{
	const struct job_priv *p = job_priv(job);
	const struct cursor *here = verbs_here(job);

	if (p->is_step)
		return err;
	if (job->flags & WEIR_JOB_SIGNAL)
		return why(-EXDEV, "weir_job_start: a signal goes with bytes "
			   "that the device knows: use bufs of an mmap that "
			   "has it, or few bytes");
	if (!domain_is_memory(operand_domain(here->operand)))
		return err == -ENOENT ? -EOPNOTSUPP : err;
	bounce_instead(job, err);
	return 0;
}

static bool is_small(const struct verbs_queue *q, const struct weir_job *job)
{
	return !verbs_job((struct weir_job *)job)->read &&
	       job_priv((struct weir_job *)job)->total <= q->max_inline &&
	       domain_is_memory(operand_domain(&job->src));
}

/* Have its flush post what @q has. */
static void hang_on(struct weir_dma *dma, struct verbs_queue *q)
{
	if (q->posted == q->tail || q->dma == dma)
		return;
	if (q->dma) {
		verbs_post(q);
		return;
	}
	q->dma = dma;
	q->next = verbs_dma(dma)->unposted;
	q->pprev = &verbs_dma(dma)->unposted;
	if (q->next)
		q->next->pprev = &q->next;
	verbs_dma(dma)->unposted = q;
}

static void hang_off(struct verbs_queue *q)
{
	if (!q->dma)
		return;
	*q->pprev = q->next;
	if (q->next)
		q->next->pprev = q->pprev;
	q->dma = NULL;
}

static struct verbs_job *set_up(struct weir_job *job)
{
	struct verbs_job *v = verbs_job(job);

	*v = (struct verbs_job){ .atomic = kind_is_atomic(job->kind) };
	v->read = !v->atomic && is_remote(operand_domain(&job->src));
	return v;
}

/* Of the memory here: 0 or an errno. */
static int find_keys(struct verbs_queue *q, struct weir_job *job)
{
	struct verbs_job *v = verbs_job(job);

	if (unlikely(v->atomic))
		return verbs_words_get(q);
	v->inlined = is_small(q, job);
	return v->inlined ? 0 : verbs_check_keys(q, job);
}

static int no_reads(const struct weir_job *job)
{
	return why(-EOPNOTSUPP, "weir_job_start: the peer serves no %s: it has "
		   "made the connection with .responder_resources 0",
		   kind_is_atomic(job->kind) ? "atomics" : "reads");
}

/* While a job goes through staging its connection may end between two steps. */
static int too_late(const struct weir_conn *c, struct weir_job *job)
{
	if (!c || c->state != WEIR_CONN_CLOSING || !job_priv(job)->is_step)
		return why(-ENOTCONN, "weir_job_start: the memory is a peer's, "
			   "and there is no connection to it; attach its "
			   "domain to one, and wait until it is established");
	if (!c->queue->culprit && !verbs_may_blame(c->queue)) {
		job->op.detail.code = IBV_WC_WR_FLUSH_ERR;
		return -ECANCELED;
	}
	verbs_join(c->queue, job);
	return 0;
}

static int start(void *arg, struct weir_job *job)
{
	struct weir_dma *dma = arg;
	struct verbs_queue *q;
	struct verbs_job *v;
	struct weir_conn *c;
	int err;

	v = set_up(job);
	c = conn_of(v->read ? &job->src : &job->dst);
	if (!c || !c->queue || c->state != WEIR_CONN_ESTABLISHED)
		return too_late(c, job);
	if (c->r != dma->r)
		return -EXDEV;
	q = c->queue;
	v->q = q;
	if (unlikely(verbs_is_answered(job) && !c->reads_out))
		return no_reads(job);
	err = verbs_check_peer(q, job);
	if (err)
		return err;
	err = find_keys(q, job);
	if (err)
		return v->atomic ? err : go_round(job, err);
	err = conn_begin(c);
	if (err)
		return err;
	verbs_enqueue(q, job);
	verbs_pump(q);
	hang_on(dma, q);
	return 0;
}

/* What is posted cannot be recalled: the job ends when it is done, or when its
 * connection is ended for it. */
static void cancel(void *arg, struct weir_job *job)
{
	struct verbs_job *v = verbs_job(job);

	(void)arg;
	v->stop = true;
	if (v->waits)
		verbs_dequeue(v->q, job);
	if (v->n_wrs)
		verbs_overdue(v->q, v->tail);
	verbs_settle(job);
}

static void flush(void *arg)
{
	struct weir_dma *dma = arg;
	struct verbs_queue *q;

	while ((q = verbs_dma(dma)->unposted)) {
		hang_off(q);
		verbs_post(q);
	}
}

static bool serves(const struct weir_domain *domain)
{
	return domain->cls->is_peer || domain->cls->is_device;
}

const struct engine_kind engine_verbs = {
	.ops = {
		.size = sizeof(struct weir_engine_ops),
		.name = "verbs",
		.can = can,
		.start = start,
		.cancel = cancel,
		.flush = flush,
	},
	.verify = verify,
	.serves = serves,
	.fini = verbs_fini,
};

/* The queue of a QP. */

static size_t stride_of(uint32_t max_sge)
{
	return sizeof(struct verbs_wr) + max_sge * sizeof(struct ibv_sge);
}

int verbs_queue_create(struct weir_conn *c)
{
	struct verbs_queue *q = mem_calloc(1, sizeof(*q));
	size_t stride = stride_of(c->max_sge);

	if (q)
		q->ring = mem_calloc(c->opts.sends, stride);
	if (!q || !q->ring) {
		free(q);
		return why(-ENOMEM, "weir_conn: no memory");
	}
	q->conn = c;
	q->stride = stride;
	q->size = c->opts.sends;
	q->max_sge = c->max_sge;
	q->max_inline = c->max_inline;
	q->max_len = c->max_message < VERBS_WR_LEN ? c->max_message :
						     VERBS_WR_LEN;
	q->wait[0].last = &q->wait[0].first;
	q->wait[1].last = &q->wait[1].first;
	q->held.last = &q->held.first;
	q->requests_last = &q->requests;
	q->writers_last = &q->writers;
	verbs_sends_init(q);
	c->queue = q;
	return 0;
}

void verbs_queue_free(struct weir_conn *c)
{
	struct verbs_queue *q = c->queue;

	if (!q)
		return;
	hang_off(q);
	wheel_del(&c->r->wheel, &q->grace);
	verbs_words_free(q);
	free(q->ring);
	free(q);
	c->queue = NULL;
}

/* Domains that a connection reaches. */

int weir_conn_attach(struct weir_conn *c, struct weir_domain *domain)
{
	int err = domain_remote_attach(domain, c, "connection",
				       "weir_conn_attach");

	if (!err)
		c->n_domains++;
	return err;
}

int weir_conn_detach(struct weir_conn *c, struct weir_domain *domain)
{
	if (!domain_is_remote(domain) || domain_remote_link(domain) != c)
		return why(-ENOENT, "weir_conn_detach: the connection does not "
			   "reach domain %s", domain->id);
	if (c->posted)
		return why(-EBUSY, "weir_conn_detach: work is in flight: %llu; "
			   "weir_conn_disconnect() flushes it",
			   (unsigned long long)c->posted);
	domain_remote_detach(domain, c);
	c->n_domains--;
	return 0;
}
