/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The engine "verbs": keys of memory, atomics, which jobs it can do, and the
 * domains that a connection reaches.
 */

#include <errno.h>
#include <stdlib.h>

#include <weir/buf.h>

#include "base/alloc.h"
#include "base/why.h"
#include "rdma/device.h"
#include "rdma/engine.h"
#include "rdma/export.h"

size_t verbs_area;

static bool is_atomic(uint32_t kind)
{
	return kind == WEIR_JOB_FETCH_ADD || kind == WEIR_JOB_COMPARE_SWAP;
}

static const struct weir_operand *side_of(const struct weir_job *job, int side)
{
	return side == WEIR_JOB_SRC ? &job->src :
	       side == WEIR_JOB_DST ? &job->dst :
				      &job->more[side - WEIR_JOB_EXTRA];
}

static struct weir_domain *domain_of(const struct weir_operand *operand)
{
	if (operand->buf)
		return weir_mmap_domain(weir_buf_mmap(operand->buf));
	return operand->domain ? operand->domain : weir_domain_system();
}

/*
 * Keys: of memory here, for the device of a connection; and of a peer's.
 */

static uint32_t need_of(const struct weir_job *job, int side);

/* Of steps through staging only this sees what their bufs are. */
int verbs_far(const struct verbs_queue *q, struct weir_job *job,
	      struct iovec *far, uint32_t *rkey)
{
	const struct weir_operand *operand = side_of(job, verbs_there(job));
	const struct weir_remote_key *given = operand->buf ? NULL :
							     operand->ctx;
	const struct weir_provider_desc *import;
	struct weir_provider_key key;
	struct rdma_key peers;
	uint32_t need;
	int n;

	if (given) {
		weir_job_pieces(job, verbs_there(job), 0, far, 1);
		*rkey = given->rkey;
		return 0;
	}
	n = weir_job_keys(job, verbs_there(job), 0, verbs_device(q), far, &key,
			  1);
	if (unlikely(n < 0))
		return n;
	import = key.data;
	need = need_of(job, verbs_there(job));
	if (unlikely((import->permissions & need) != need))
		return -EACCES;
	peers = rdma_key_read(import);
	if (unlikely(peers.qp_num && peers.qp_num != q->conn->peer_qp))
		return -ESTALE;
	*rkey = peers.rkey;
	return 0;
}

/* Whether all of @operand, at the peer, has keys, with the rights @need: 0, or
 * the errno with a message. */
static int verbs_check_rkeys(const struct weir_operand *operand, uint32_t need)
{
	const struct weir_provider_desc *import;
	const struct weir_buf *buf;

	if (!operand->buf && !operand->ctx)
		return why(-EACCES, "weir_job_start: addresses at a peer have "
			   "no key: use bufs of an mmap that was imported, or "
			   "set .ctx to a struct weir_remote_key");
	for (buf = operand->buf; buf; buf = weir_buf_next(buf)) {
		import = weir_mmap_desc(weir_buf_mmap(buf), verbs_provider);
		if (!import)
			return why(-EXDEV, "weir_job_start: a buf is not of an "
				   "import by RDMA");
		if ((import->permissions & need) != need)
			return why(-EACCES, "weir_job_start: the peer does not "
				   "give this right");
	}
	return 0;
}

/* Whether all of @job's memory at the peer is known there by a key for @q, and
 * not for a connection that has ended: 0, or -ESTALE with a message. */
static int verbs_check_peer(const struct verbs_queue *q, struct weir_job *job)
{
	const struct weir_buf *buf = side_of(job, verbs_there(job))->buf;
	const struct weir_provider_desc *import;
	struct rdma_key key;

	for (; buf; buf = weir_buf_next(buf)) {
		import = weir_mmap_desc(weir_buf_mmap(buf), verbs_provider);
		if (unlikely(!import))
			continue;
		key = rdma_key_read(import);
		if (unlikely(key.qp_num && key.qp_num != q->conn->peer_qp))
			return why(-ESTALE, "weir_job_start: the peer has "
				   "exported this for its QP %u, and the "
				   "connection leads to QP %u; ask it for "
				   "another", key.qp_num, q->conn->peer_qp);
	}
	return 0;
}

/* Whether all of @job's memory here has keys: 0 or an errno. */
static int verbs_check_keys(struct verbs_queue *q, struct weir_job *job)
{
	const struct weir_buf *buf = side_of(job, verbs_here(job))->buf;
	struct weir_provider_key key;
	int err = 0;

	if (!buf) {
		err = weir_job_keys(job, verbs_here(job), 0, verbs_device(q),
				    NULL, &key, 1);
		return err < 0 ? err : 0;
	}
	for (; buf && !err; buf = weir_buf_next(buf))
		err = weir_buf_key(buf, verbs_device(q), &key);
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
static bool verbs_can_atomic(const struct verbs_engine *engine,
			     const struct weir_domain *domain, const char **why)
{
	const struct weir_conn *c;

	*why = "only a peer by RDMA";
	if (!rdma_is_remote(domain))
		return false;
	c = weir_domain_link(domain);
	if (!c || c->r != engine->r || !c->device_ref ||
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
			struct verbs_wr *w, uint64_t addr, uint32_t rkey)
{
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
			.remote_addr = addr,
			.compare_add = add ? job->pattern : job->compare,
			.swap = job->pattern,
			.rkey = rkey,
		},
	};
	w->len = sizeof(q->words[0]);
}

/*
 * The verbs engine: RDMA writes and reads between memory that the device of a
 * connection has registered and a remote domain that the connection is attached
 * to; and atomics there.
 *
 * Memory that the device has not registered goes through staging, which it has;
 * a few bytes to be written go into the work request itself.
 */

static int can(void *arg, const struct weir_engine_query *q, const char **why)
{
	if (unlikely(is_atomic(q->kind)))
		return verbs_can_atomic(arg, q->dst, why);
	*why = "only copies between memory and a peer by RDMA";
	if (rdma_is_remote(q->src) && verbs_is_local(q->dst))
		return q->kind == WEIR_JOB_COPY || q->kind == WEIR_JOB_PULL;
	if (verbs_is_local(q->src) && rdma_is_remote(q->dst))
		return q->kind == WEIR_JOB_COPY || q->kind == WEIR_JOB_PUSH;
	return 0;
}

/* The right that @job needs at the side @side. */
static uint32_t need_of(const struct weir_job *job, int side)
{
	if (is_atomic(job->kind))
		return WEIR_MMAP_RDMA_ATOMIC;
	if (side == WEIR_JOB_SRC || job->kind == WEIR_JOB_COMPARE ||
	    (side >= WEIR_JOB_EXTRA && job->kind != WEIR_JOB_DUALCAST))
		return WEIR_MMAP_READ;
	return WEIR_MMAP_WRITE;
}

static int verify(void *arg, const struct weir_job *job, int side)
{
	const struct weir_operand *operand = side_of(job, side);
	const struct weir_domain *domain = domain_of(operand);

	(void)arg;
	if (rdma_is_remote(domain))
		return verbs_check_rkeys(operand, need_of(job, side));
	if (!weir_domain_is_memory(domain) && !operand->buf)
		return why(-EOPNOTSUPP, "weir_job_start: addresses of device "
			   "memory have no key: use bufs of an mmap");
	return 0;
}

static struct weir_conn *conn_of(struct weir_job *job)
{
	return weir_domain_link(weir_job_domain(job, verbs_there(job)));
}

static bool is_small(const struct verbs_queue *q, const struct weir_job *job)
{
	return !verbs_job((struct weir_job *)job)->read &&
	       verbs_job((struct weir_job *)job)->left <= q->max_inline &&
	       weir_domain_is_memory(weir_job_domain(job, WEIR_JOB_SRC));
}

/* Have its flush post what @q has. */
static void hang_on(struct verbs_engine *engine, struct verbs_queue *q)
{
	if (q->posted == q->tail || q->engine == engine)
		return;
	if (q->engine) {
		verbs_post(q);
		return;
	}
	q->engine = engine;
	q->next = engine->unposted;
	q->pprev = &engine->unposted;
	if (q->next)
		q->next->pprev = &q->next;
	engine->unposted = q;
}

static void hang_off(struct verbs_queue *q)
{
	if (!q->engine)
		return;
	*q->pprev = q->next;
	if (q->next)
		q->next->pprev = q->pprev;
	q->engine = NULL;
}

static struct verbs_job *set_up(struct weir_job *job)
{
	struct verbs_job *v = verbs_job(job);
	uint64_t total = weir_job_bytes(job);

	*v = (struct verbs_job){
		.atomic = is_atomic(job->kind),
		.total = total,
		.left = total,
	};
	v->read = !v->atomic && rdma_is_remote(weir_job_domain(job, WEIR_JOB_SRC));
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
		   is_atomic(job->kind) ? "atomics" : "reads");
}

/* While a job goes through staging its connection may end between two steps. */
static int too_late(const struct weir_conn *c, struct weir_job *job)
{
	if (!c || c->state != WEIR_CONN_CLOSING || !weir_job_is_step(job))
		return why(-ENOTCONN, "weir_job_start: the memory is a peer's, "
			   "and there is no connection to it; attach its "
			   "domain to one, and wait until it is established");
	if (!c->queue->culprit && !verbs_may_blame(c->queue)) {
		weir_job_set_code(job, IBV_WC_WR_FLUSH_ERR);
		return -ECANCELED;
	}
	verbs_join(c->queue, job);
	return 0;
}

static int start(void *arg, struct weir_job *job)
{
	struct verbs_engine *engine = arg;
	struct verbs_queue *q;
	struct verbs_job *v;
	struct weir_conn *c;
	int err;

	v = set_up(job);
	c = conn_of(job);
	if (!c || !c->queue || c->state != WEIR_CONN_ESTABLISHED)
		return too_late(c, job);
	if (c->r != engine->r)
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
		return v->atomic ? err : weir_job_stage(job, err);
	err = conn_begin(c);
	if (err)
		return err;
	verbs_enqueue(q, job);
	verbs_pump(q);
	hang_on(engine, q);
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
	struct verbs_engine *engine = arg;
	struct verbs_queue *q;

	while ((q = engine->unposted)) {
		hang_off(q);
		verbs_post(q);
	}
}

static int engine_open(void *arg, struct weir_reactor *r, void **engine)
{
	struct verbs_engine *e = mem_calloc(1, sizeof(*e));

	(void)arg;
	if (!e)
		return why(-ENOMEM, "weir_dma_create: no memory");
	e->r = r;
	*engine = e;
	return 0;
}

static void engine_close(void *engine)
{
	free(engine);
}

static const struct weir_engine_ops engine_ops = {
	.size = sizeof(engine_ops),
	.name = "verbs",
	.can = can,
	.start = start,
	.cancel = cancel,
	.flush = flush,
	.flags = WEIR_ENGINE_FOREIGN | WEIR_ENGINE_NO_FILES |
		 WEIR_ENGINE_LEAF,
	.verify = verify,
};

void verbs_engine_provide(struct weir_provider_ops *ops)
{
	struct weir_job job;

	verbs_area = (size_t)((char *)weir_job_area(&job) - (char *)&job);
	ops->engine = &engine_ops;
	ops->engine_open = engine_open;
	ops->engine_close = engine_close;
}

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
	op_list_init(&q->sends);
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
	if (!rdma_is_remote(domain) || weir_domain_link(domain) != c)
		return why(-ENOENT, "weir_conn_detach: the connection does not "
			   "reach domain %s", weir_domain_id(domain));
	if (c->posted)
		return why(-EBUSY, "weir_conn_detach: work is in flight: %llu; "
			   "weir_conn_disconnect() flushes it",
			   (unsigned long long)c->posted);
	weir_domain_detach(domain, c);
	debug_check(c->n_domains > 0);
	c->n_domains--;
	return 0;
}
