/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine "verbs": keys of memory, atomics, which jobs it can do, and the
 * domains that a connection reaches.
 */

#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/why.h"
#include "dma/route.h"
#include "mem/buf-internal.h"
#include "rdma/engine.h"

/*
 * Keys: of memory here, for the device of a connection; and of a peer's.
 *
 * A buf is known by its mmap's key, if the device is one of the mmap's.
 * Staging is registered when a context first bounces over a device, once for
 * all its connections, until the context goes or the last of them.
 */

static bool is_staging(const struct weir_dma *dma, uint64_t addr)
{
	size_t len = bounce_staging_len(dma);

	return addr - (uintptr_t)dma->staging < len;
}

uint32_t verbs_place;

static struct verbs_staging *find(const struct verbs_queue *q,
				  const struct weir_dma *dma)
{
	struct verbs_staging *s;

	for (s = verbs_dma(dma)->staging; s && s->device_ref != q->conn->device_ref;
	     s = s->next_of_dma)
		;
	return s;
}

static int staging_get(struct verbs_queue *q, struct weir_dma *dma)
{
	size_t len = bounce_staging_len(dma);
	struct conn_device_ref *device_ref = q->conn->device_ref;
	struct verbs_staging *s;

	if (find(q, dma))
		return 0;
	s = mem_calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	errno = weir_fault("ibv_reg_mr") ? ENOMEM : 0;
	s->mr = errno ? NULL :
			ibv_reg_mr(device_ref->device->pd, dma->staging, len,
				   IBV_ACCESS_LOCAL_WRITE);
	if (!s->mr) {
		free(s);
		return why(conn_error(),
			   "weir_job_start: %s does not register "
			   "%zu bytes of staging; is ulimit -l too low?",
			   device_ref->device->name, len);
	}
	s->dma = dma;
	s->device_ref = device_ref;
	s->next_of_ref = device_ref->staging;
	device_ref->staging = s;
	s->next_of_dma = verbs_dma(dma)->staging;
	verbs_dma(dma)->staging = s;
	return 0;
}

static void drop(struct verbs_staging *s)
{
	struct verbs_staging **at = &verbs_dma(s->dma)->staging;

	while (*at != s)
		at = &(*at)->next_of_dma;
	*at = s->next_of_dma;
	at = &s->device_ref->staging;
	while (*at != s)
		at = &(*at)->next_of_ref;
	*at = s->next_of_ref;
	ibv_dereg_mr(s->mr);
	free(s);
}

void verbs_staging_drop(struct conn_device_ref *device_ref)
{
	while (device_ref->staging)
		drop(device_ref->staging);
}

/* The engine's .fini(). */
static void verbs_fini(struct weir_dma *dma)
{
	while (verbs_dma(dma)->staging)
		drop(verbs_dma(dma)->staging);
}

/* Of bufs of other reactors we may read the key, and nothing else. */
int verbs_buf_lkey(const struct verbs_queue *q, const struct weir_buf *buf,
		   uint32_t *lkey)
{
	struct weir_device *device = q->conn->device_ref->device->dev;

	if (likely(buf->use->r == q->conn->r))
		return mmap_use_key(buf->use, device, lkey);
	return weir_mmap_keys(buf->use->mmap, device, lkey, NULL);
}

int verbs_lkey(struct verbs_queue *q, struct weir_job *job,
	       const struct cursor *c, uint32_t *lkey)
{
	const struct verbs_staging *s;

	*lkey = 0;
	if (verbs_job(job)->inlined)
		return 0;
	if (c->buf)
		return verbs_buf_lkey(q, c->buf, lkey);
	if (!is_staging(job_priv(job)->dma, c->addr))
		return -ENOENT;
	s = find(q, job_priv(job)->dma);
	if (!s)
		return -ENOENT;
	*lkey = s->mr->lkey;
	return 0;
}

int verbs_rkey(const struct cursor *c, uint32_t need, uint32_t *rkey)
{
	const struct weir_remote_key *key = c->operand->ctx;

	if (c->buf)
		return mmap_remote_key(c->buf->use->mmap, need, rkey);
	*rkey = key->rkey;
	return 0;
}

/* Whether all of @loc, at the peer, has keys, with the rights @need: 0, or the
 * errno with a message. */
static int verbs_check_rkeys(const struct weir_operand *operand, uint32_t need)
{
	const struct weir_buf *buf;
	uint32_t rkey;
	int err = 0;

	if (!operand->buf && !operand->ctx)
		return why(-EACCES, "weir_job_start: addresses at a peer have "
			   "no key: use bufs of an mmap that was imported, or "
			   "set .ctx to a struct weir_remote_key");
	for (buf = operand->buf; buf && !err; buf = buf->next)
		err = mmap_remote_key(buf->use->mmap, need, &rkey);
	return !err ? 0 : why(err, "weir_job_start: the peer does not give this "
			      "right");
}

/* Whether all of @job's memory at the peer is known there by a key for @q, and
 * not for a connection that has ended: 0, or -ESTALE with a message. */
static int verbs_check_peer(const struct verbs_queue *q, struct weir_job *job)
{
	const struct weir_buf *buf = verbs_there(job)->buf;
	uint32_t bound_to;

	for (; buf; buf = buf->next) {
		bound_to = mmap_remote_qp(buf->use->mmap);
		if (unlikely(bound_to && bound_to != q->conn->peer_qp))
			return why(-ESTALE, "weir_job_start: the peer has "
				   "exported this for its QP %u, and the "
				   "connection leads to QP %u; ask it for "
				   "another", bound_to, q->conn->peer_qp);
	}
	return 0;
}

/* Whether all of @job's memory here has keys: 0 or an errno. */
static int verbs_check_keys(struct verbs_queue *q, struct weir_job *job)
{
	const struct weir_buf *buf = verbs_here(job)->buf;
	uint32_t lkey;
	int err = 0;

	if (!buf && !job_priv(job)->is_step)
		return -ENOENT;
	if (!buf)
		return staging_get(q, job_priv(job)->dma);
	for (; buf && !err; buf = buf->next)
		err = verbs_buf_lkey(q, buf, &lkey);
	return err;
}

/*
 * Atomics at a peer.  Each is one work request.  The old value of the word is
 * stored in memory that the device has registered: one word for each place of
 * the ring.  The words are registered at the first atomic, and freed with the
 * QP.
 */

/* Refuse only for a known device: without a connection the start fails with an
 * errno of its own, and the next connection may be on another device. */
static bool verbs_can_atomic(const struct weir_dma *dma,
		      const struct weir_domain *domain, const char **why)
{
	const struct weir_conn *c;

	*why = "only a peer by RDMA";
	if (!domain_is_remote(domain))
		return false;
	c = domain_remote_link((struct weir_domain *)domain);
	if (!c || !dma || c->r != dma->r || !c->device_ref ||
	    c->device_ref->device->attr.atomic_cap != IBV_ATOMIC_NONE)
		return true;
	*why = "the device of the connection does no atomics";
	return false;
}

static int no_words(struct verbs_queue *q, int err)
{
	free(q->words);
	q->words = NULL;
	return why(err,
		   "weir_job_start: %s does not register %u words for "
		   "atomics",
		   q->conn->device_ref->device->name, q->size);
}

/* Have capacity for what they fetch, known to the device; 0 or an errno. */
static int verbs_words_get(struct verbs_queue *q)
{
	if (likely(q->words))
		return 0;
	q->words = mem_calloc(q->size, sizeof(q->words[0]));
	if (!q->words)
		return -ENOMEM;
	errno = weir_fault("ibv_reg_mr") ? ENOMEM : 0;
	if (!errno)
		q->words_mr =
			ibv_reg_mr(q->conn->device_ref->device->pd, q->words,
				   q->size * sizeof(q->words[0]),
				   IBV_ACCESS_LOCAL_WRITE);
	return q->words_mr ? 0 : no_words(q, conn_error());
}

static void verbs_words_free(struct verbs_queue *q)
{
	if (!q->words)
		return;
	ibv_dereg_mr(q->words_mr);
	free(q->words);
}

void verbs_build_atomic(struct verbs_queue *q, struct weir_job *job,
			struct verbs_wr *w, uint32_t rkey)
{
	struct cursor *there = verbs_there(job);
	bool add = job->kind == WEIR_JOB_FETCH_ADD;

	w->sge[0] = (struct ibv_sge){
		.addr = (uintptr_t)&q->words[q->tail % q->size],
		.length = sizeof(q->words[0]),
		.lkey = q->words_mr->lkey,
	};
	w->send = (struct ibv_send_wr){
		.wr_id = (uintptr_t)&w->wr,
		.sg_list = w->sge,
		.num_sge = 1,
		.opcode = add ? IBV_WR_ATOMIC_FETCH_AND_ADD :
				IBV_WR_ATOMIC_CMP_AND_SWP,
		.wr.atomic = {
			.remote_addr = there->addr,
			.compare_add = add ? job->pattern : job->compare,
			.swap = job->pattern,
			.rkey = rkey,
		},
	};
	w->len = sizeof(q->words[0]);
	cursor_advance(there, w->len);
}

/*
 * The verbs engine: RDMA writes and reads between memory that the device of a
 * connection has registered and a remote domain that the connection is attached
 * to; and atomics there.
 *
 * Memory that the device has not registered goes through staging, which it has;
 * a few bytes to be written go into the work request itself.
 */

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

/* In a half of a bounce the direction is unknown, so no right to read is
 * required. */
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

/* Find the keys of the local memory.  Returns 0 or an errno. */
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

/* Posted work cannot be withdrawn: the job ends when the work is done, or when
 * its connection is ended for it. */
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
	.serves_peers = true,
	.fini = verbs_fini,
};

/* The queue of a QP. */

static size_t stride_of(uint32_t max_sge)
{
	return sizeof(struct verbs_wr) + max_sge * sizeof(struct ibv_sge);
}

static void arm_grace(struct verbs_queue *q)
{
	struct weir_conn *c = q->conn;

	debug_check(q->head < q->tail);
	q->cut_head = q->head;
	weir_timer_start(q->grace, weir_reactor_now(c->r) + c->opts.grace_ns,
			 0);
}

/* The connection fails only if no work at all has ended meanwhile: much may be
 * posted before the cancelled work, and be on its way. */
static void on_grace(struct weir_timer *timer, uint64_t n, void *queue)
{
	struct verbs_queue *q = queue;

	(void)timer, (void)n;
	if (q->head >= q->cut)
		q->cut = 0;
	else if (q->head == q->cut_head)
		conn_fail(q->conn, -ETIMEDOUT);
	else
		arm_grace(q);
}

void verbs_overdue(struct verbs_queue *q, uint64_t tail)
{
	struct weir_conn *c = q->conn;
	bool armed = q->cut > q->head;

	if (c->opts.grace_ns == WEIR_FOREVER ||
	    c->state != WEIR_CONN_ESTABLISHED)
		return;
	if (tail > q->cut)
		q->cut = tail;
	if (!armed)
		arm_grace(q);
}

int verbs_queue_create(struct weir_conn *c)
{
	struct verbs_queue *q = mem_calloc(1, sizeof(*q));
	size_t stride = stride_of(c->max_sge);

	rdma_check_thread(c->r);
	if (q)
		q->ring = mem_calloc(c->opts.sends, stride);
	if (!q || !q->ring ||
	    weir_timer_create(&q->grace, c->r, on_grace, q)) {
		if (q)
			free(q->ring);
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

	rdma_check_thread(c->r);
	if (!q)
		return;
	hang_off(q);
	weir_timer_destroy(q->grace);
	verbs_words_free(q);
	free(q->ring);
	free(q);
	c->queue = NULL;
}

/* Domains that a connection reaches. */

int weir_conn_attach(struct weir_conn *c, struct weir_domain *domain)
{
	int err = weir_domain_attach(domain, c, "connection");

	if (err)
		return why_call(err, "weir_domain_attach", "weir_conn_attach");
	c->n_domains++;
	return 0;
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
	weir_domain_detach(domain, c);
	debug_check(c->n_domains > 0);
	c->n_domains--;
	return 0;
}
