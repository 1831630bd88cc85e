/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work requests: of jobs, and of others; in the ring, to the device, and back.
 */

#include <arpa/inet.h>
#include <errno.h>

#include "base/mutation.h"
#include "rdma/engine.h"

/*
 * Work requests that are no job's: they have their place in the send queue as
 * jobs' have, before what still waits for one.
 */

static void verbs_request_end(struct verbs_queue *q, struct verbs_request *request,
		       int err, int32_t code)
{
	struct weir_conn *c = q->conn;

	debug_check(request->done);
	request->done(request, err, code);
	conn_end(c);
}

static struct verbs_request *take(struct verbs_queue *q)
{
	struct verbs_request *request = q->requests;

	debug_check(q->requests);
	q->requests = request->next;
	if (!q->requests)
		q->requests_last = &q->requests;
	return request;
}

static void place(struct verbs_queue *q, struct verbs_request *request)
{
	struct verbs_wr *w = verbs_take(q);

	w->request = request;
	w->send = request->send;
	w->send.wr_id = (uintptr_t)&w->wr;
	w->send.send_flags = IBV_SEND_SIGNALED;
}

static void verbs_requests_run(struct verbs_queue *q)
{
	while (unlikely(q->requests) && verbs_has_place(q))
		place(q, take(q));
}

static void verbs_requests_give_up(struct verbs_queue *q)
{
	while (q->requests)
		verbs_request_end(q, take(q), -ECANCELED,
				  IBV_WC_WR_FLUSH_ERR);
}

int verbs_request(struct verbs_queue *q, struct verbs_request *request)
{
	int err = conn_begin(q->conn);

	if (err)
		return err;
	request->next = NULL;
	*q->requests_last = request;
	q->requests_last = &request->next;
	verbs_pump(q);
	verbs_post(q);
	return 0;
}

/*
 * Posting work requests, and handling their completions.
 *
 * A batch is one list, and so one doorbell.  A completion also retires all work
 * requests posted before its own: a QP does them in order, and reports one that
 * fails whether or not it was signalled.  The first that fails has the true
 * cause; the device flushes the others.
 */

static int errno_of(enum ibv_wc_status status)
{
	switch (status) {
	case IBV_WC_SUCCESS:
		return 0;
	case IBV_WC_WR_FLUSH_ERR:
		return -ECANCELED;
	case IBV_WC_REM_ACCESS_ERR:
		return -EACCES;
	case IBV_WC_REM_OP_ERR:
	case IBV_WC_REM_ABORT_ERR:
		return -EREMOTEIO;
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR:
		return -ETIMEDOUT;
	case IBV_WC_LOC_PROT_ERR:
	case IBV_WC_LOC_ACCESS_ERR:
		return -EFAULT;
	case IBV_WC_LOC_LEN_ERR:
	case IBV_WC_REM_INV_REQ_ERR:
		return -EPROTO;
	default:
		return -EIO;
	}
}

/* The errno with which the connection has ended. */
int verbs_end_of(enum ibv_wc_status status)
{
	return status == IBV_WC_RETRY_EXC_ERR ||
	       status == IBV_WC_RNR_RETRY_EXC_ERR ? -ECONNRESET : -EIO;
}

/* The bytes that have arrived are its beginning. */
static int64_t outcome(struct weir_job *job)
{
	const struct verbs_job *v = verbs_job(job);

	if (v->done == v->total)
		return 0;
	return v->err ? v->err : -ECANCELED;
}

static void finish(struct weir_job *job)
{
	struct verbs_job *v = verbs_job(job);
	struct weir_conn *c = v->q->conn;

	weir_job_end(job, v->done, outcome(job), v->code);
	conn_end(c);
}

/*
 * The job that has the cause ends first.  Others could end earlier: of a job in
 * parts the last must be flushed too, and a disconnect of the peer may arrive
 * before the device reports the work request that it has given up on.
 */
static void hold(struct verbs_queue *q, struct weir_job *job)
{
	verbs_job(job)->held = true;
	verbs_job(job)->next = NULL;
	*q->held.last = job;
	q->held.last = &verbs_job(job)->next;
}

/* Jobs that were held back for the one to blame end. */
static void verbs_release(struct verbs_queue *q)
{
	struct weir_job *job;

	q->culprit = NULL;
	while ((job = q->held.first)) {
		q->held.first = verbs_job(job)->next;
		if (!q->held.first)
			q->held.last = &q->held.first;
		finish(job);
	}
}

void verbs_settle(struct weir_job *job)
{
	struct verbs_job *v = verbs_job(job);
	struct verbs_queue *q = v->q;
	bool done = v->done == v->total;

	if (!(v->err || v->stop || done) || v->n_wrs || v->held)
		return;
	if (unlikely(q->culprit ? q->culprit != job : verbs_may_blame(q)) &&
	    !done) {
		hold(q, job);
		return;
	}
	finish(job);
	if (unlikely(q->culprit == job))
		verbs_release(q);
}

void verbs_join(struct verbs_queue *q, struct weir_job *job)
{
	struct verbs_job *v = verbs_job(job);

	v->q = q;
	v->err = -ECANCELED;
	v->code = IBV_WC_WR_FLUSH_ERR;
	q->conn->posted++;
	verbs_settle(job);
}

/* The work request at @seq is what the connection ends for, with @err. */
static void blame(struct verbs_queue *q, uint64_t seq, int err)
{
	if (!q->culprit)
		q->culprit = verbs_at(q, seq)->job;
	conn_fail(q->conn, err);
}

static void note(struct weir_job *job, int err, int32_t code)
{
	struct verbs_job *v = verbs_job(job);

	/* If a part of a job was flushed, but another part has a cause, report
	 * the cause. */
	if (v->err && (v->code != IBV_WC_WR_FLUSH_ERR || err == -ECANCELED))
		return;
	v->err = err;
	v->code = code;
	if (v->waits)
		verbs_dequeue(v->q, job);
}

/* @w is done, one way or the other, and its place is free. */
static void retire(struct verbs_queue *q, struct verbs_wr *w, int err,
		   int32_t code)
{
	struct verbs_request *request = w->request;
	struct weir_job *job = w->job;
	struct weir_op *op = w->op;
	struct verbs_job *v;

	w->job = NULL;
	w->request = NULL;
	w->op = NULL;
	if (unlikely(request))
		verbs_request_end(q, request, err, code);
	if (op)
		verbs_sent(q, op, err, code);
	if (!job || (code == IBV_WC_WR_FLUSH_ERR && mutation(lost_flush)))
		return;
	v = verbs_job(job);
	debug_check(v->n_wrs > 0);
	v->n_wrs--;
	q->reads -= verbs_is_answered(job);
	if (err)
		note(job, err, code);
	else
		v->done += w->len;
	if (!err && v->atomic)
		weir_job_set_old(job, q->words[w->seq % q->size]);
	verbs_settle(job);
}

void verbs_on_wr(struct weir_wr *wr, const struct ibv_wc *wc)
{
	struct verbs_wr *w = weir_container_of(wr, struct verbs_wr, wr);
	enum ibv_wc_status status = wc->status;
	struct verbs_queue *q = w->q;
	uint64_t seq = w->seq;
	bool last;

	if (unlikely(status == IBV_WC_WR_FLUSH_ERR))
		conn_fail(q->conn, -EIO);
	else if (unlikely(status != IBV_WC_SUCCESS))
		blame(q, seq, verbs_end_of(status));
	while (q->head <= seq) {
		last = q->head == seq;
		w = verbs_at(q, q->head++);
		retire(q, w, last ? errno_of(status) : 0,
		       last ? (int32_t)status : 0);
	}
	verbs_pump(q);
	verbs_post(q);
}

static void marker_done(struct verbs_request *request, int err, int32_t code)
{
	(void)request, (void)err, (void)code;
}

/* End all that is posted, the first with @err and the rest with -ECANCELED: no
 * completion will tell how it ended. */
static void abandon(struct verbs_queue *q, int err)
{
	debug_check(q->head <= q->posted && q->posted <= q->tail);
	while (q->head != q->tail) {
		retire(q, verbs_at(q, q->head++), err, 0);
		err = -ECANCELED;
	}
	q->posted = q->tail;
}

/*
 * A completion that tells of all before it, from a QP in error.  It counts, for
 * the QP may be there for longer than the ring.  Returns whether the device has
 * taken it.
 */
static bool post_marker(struct verbs_queue *q)
{
	struct verbs_wr *w = verbs_at(q, q->tail);
	struct ibv_send_wr *bad;

	debug_check(verbs_has_place(q));
	w->send = (struct ibv_send_wr){
		.wr_id = (uintptr_t)&w->wr,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};
	if (weir_fault("ibv_post_send") || ibv_post_send(q->conn->qp, &w->send, &bad))
		return false;
	q->marker.done = marker_done;
	q->conn->posted++;
	verbs_take(q)->request = &q->marker;
	q->posted = q->tail;
	return true;
}

/*
 * The device has refused the work requests behind @q->posted.  A QP whose posts
 * are refused is useless, so the connection ends.  The last work request that
 * the device has taken may not be signalled.  If the device takes no marker
 * either, all work ends now: the QP is in error and moves no more bytes, and
 * what it flushes later is dropped with the QP.
 */
static void refuse(struct verbs_queue *q, int err)
{
	uint64_t first = q->posted, seq;

	debug_check(q->posted < q->tail);
	blame(q, first, err);
	for (seq = first; seq < q->tail; seq++) {
		retire(q, verbs_at(q, seq), err, 0);
		err = -ECANCELED;
	}
	q->tail = first;
	if (q->head != first &&
	    !(verbs_at(q, first - 1)->send.send_flags & IBV_SEND_SIGNALED) &&
	    !post_marker(q)) {
		q->conn->orphans = true;
		abandon(q, -ECANCELED);
	}
	verbs_pump(q);
}

void verbs_queue_abandon(struct weir_conn *c)
{
	struct verbs_queue *q = c->queue;

	rdma_check_thread(c->r);
	if (!q)
		return;
	if (q->head != q->tail)
		blame(q, q->head, -EIO);
	abandon(q, -EIO);
	verbs_pump(q);
}

static struct ibv_send_wr *link_all(struct verbs_queue *q)
{
	uint64_t seq;

	debug_check(q->posted < q->tail);
	for (seq = q->posted; seq + 1 < q->tail; seq++)
		verbs_at(q, seq)->send.next = &verbs_at(q, seq + 1)->send;
	verbs_at(q, seq)->send.next = NULL;
	return &verbs_at(q, q->posted)->send;
}

void verbs_post(struct verbs_queue *q)
{
	uint64_t tail = q->tail;
	struct ibv_send_wr *first, *bad;
	int err;

	debug_check(q->head <= q->posted && q->posted <= q->tail);
	if (q->posted == tail)
		return;
	first = link_all(q);
	bad = first;
	err = weir_fault("ibv_post_send") ? ENOMEM :
	      ibv_post_send(q->conn->qp, first, &bad);
	if (likely(!err)) {
		q->posted = tail;
		if (unlikely(!q->conn->watched))
			conn_watch_posted(q->conn);
		return;
	}
	q->posted = weir_container_of(bad, struct verbs_wr, send)->seq;
	refuse(q, -err);
}

/*
 * Turning jobs into work requests.
 *
 * One work request covers one piece at the peer and up to .max_sge pieces here,
 * and has at most .max_len bytes: so a cancel takes effect within a large job,
 * and every device accepts it.  Writers and readers take turns, each up to
 * VERBS_RUN work requests.  Only the last of a run is signalled; its completion
 * also stands for all before it.  If the peer is to be notified, by a message
 * or a signal, writers are posted by age.
 */

static struct verbs_list *list_of(struct verbs_queue *q, struct weir_job *job)
{
	return &q->wait[verbs_is_answered(job)];
}

static void list_add(struct verbs_queue *q, struct weir_job *job)
{
	struct verbs_list *list = list_of(q, job);
	struct verbs_job *v = verbs_job(job);

	v->next = NULL;
	v->pprev = list->last;
	*list->last = job;
	list->last = &v->next;
}

static void list_del(struct verbs_queue *q, struct weir_job *job)
{
	struct verbs_list *list = list_of(q, job);
	struct verbs_job *v = verbs_job(job);

	*v->pprev = v->next;
	if (v->next)
		verbs_job(v->next)->pprev = v->pprev;
	else
		list->last = v->pprev;
}

/* Writers by age, for messages and signals do not overtake older ones. */

static void age_add(struct verbs_queue *q, struct weir_job *job)
{
	struct verbs_job *v = verbs_job(job);

	v->ticket = q->tickets++;
	v->newer = NULL;
	v->older = q->writers_last;
	*q->writers_last = job;
	q->writers_last = &v->newer;
}

static void age_del(struct verbs_queue *q, struct weir_job *job)
{
	struct verbs_job *v = verbs_job(job);

	*v->older = v->newer;
	if (v->newer)
		verbs_job(v->newer)->older = v->older;
	else
		q->writers_last = v->older;
}

void verbs_enqueue(struct verbs_queue *q, struct weir_job *job)
{
	verbs_job(job)->waits = true;
	list_add(q, job);
	if (!verbs_is_answered(job))
		age_add(q, job);
}

void verbs_dequeue(struct verbs_queue *q, struct weir_job *job)
{
	verbs_job(job)->waits = false;
	list_del(q, job);
	if (!verbs_is_answered(job))
		age_del(q, job);
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

#define PIECES 16	/* That are asked for at once. */

/* The next pieces of @job here, from @skip on, into @sge, at most @n.  Returns
 * how many, or a negative errno. */
static int local(struct verbs_queue *q, struct weir_job *job, uint64_t skip,
		 struct ibv_sge *sge, uint32_t n)
{
	struct weir_provider_key keys[PIECES];
	struct iovec iov[PIECES];
	int i, n_pieces;

	n = n < PIECES ? n : PIECES;
	if (verbs_job(job)->inlined) {
		memset(keys, 0, sizeof(keys));	/* None is needed. */
		n_pieces = (int)weir_job_pieces(job, verbs_here(job), skip, iov,
						n);
	} else {
		n_pieces = weir_job_keys(job, verbs_here(job), skip,
					 verbs_device(q), iov, keys, n);
	}
	for (i = 0; i < n_pieces; i++)
		sge[i] = (struct ibv_sge){
			.addr = (uintptr_t)iov[i].iov_base,
			.length = (uint32_t)least(iov[i].iov_len, q->max_len),
			.lkey = keys[i].lkey,
		};
	return n_pieces;
}

/* Up to @max bytes here, as far as the pieces go.  Returns an errno. */
static int gather(struct verbs_queue *q, struct weir_job *job,
		  struct verbs_wr *w, uint64_t max)
{
	struct ibv_sge *sge;
	int i, n;

	w->len = 0;
	w->send.num_sge = 0;
	while (w->len < max && (uint32_t)w->send.num_sge < q->max_sge) {
		sge = &w->sge[w->send.num_sge];
		n = local(q, job, w->len, sge,
			  q->max_sge - (uint32_t)w->send.num_sge);
		if (n < 0)
			return n;
		for (i = 0; i < n && w->len < max; i++) {
			sge[i].length = (uint32_t)least(sge[i].length,
							max - w->len);
			w->len += sge[i].length;
			w->send.num_sge++;
		}
	}
	return 0;
}

/* A write or a read, as long as can be. */
static int build_move(struct verbs_queue *q, struct weir_job *job,
		      struct verbs_wr *w, const struct iovec *far,
		      uint32_t rkey)
{
	struct verbs_job *v = verbs_job(job);
	int err;

	w->send = (struct ibv_send_wr){
		.wr_id = (uintptr_t)&w->wr,
		.sg_list = w->sge,
		.opcode = v->read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
		.send_flags = v->inlined ? IBV_SEND_INLINE : 0,
		.wr.rdma = {
			.remote_addr = (uintptr_t)far->iov_base,
			.rkey = rkey,
		},
	};
	err = gather(q, job, w, least(far->iov_len, q->max_len));
	if (err)
		return err;
	weir_job_skip(job, w->len);
	if (job->flags & WEIR_JOB_SIGNAL && w->len == v->left) {
		w->send.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
		w->send.imm_data = htonl(job->signal);
	}
	return 0;
}

/* The next of @job into the next place.  Returns an errno. */
static int build(struct verbs_queue *q, struct weir_job *job)
{
	struct verbs_wr *w = verbs_at(q, q->tail);
	struct verbs_job *v = verbs_job(job);
	struct iovec far;
	uint32_t rkey;
	int err = verbs_far(q, job, &far, &rkey);

	if (unlikely(weir_job_is_stale(job)))
		err = -ESTALE;
	if (!err && unlikely(v->atomic))
		verbs_build_atomic(q, job, w, (uintptr_t)far.iov_base, rkey);
	else if (!err)
		err = build_move(q, job, w, &far, rkey);
	if (err)
		return err;
	v->left -= w->len;
	verbs_take(q)->job = job;
	v->tail = q->tail;
	q->reads += verbs_is_answered(job);
	v->n_wrs++;
	return 0;
}

static bool has_capacity(const struct verbs_queue *q, bool answered)
{
	return verbs_has_place(q) &&
	       (!answered || q->reads < q->conn->reads_out);
}

/* Some of @job, which is then the last of its list, or off it. */
static void run(struct verbs_queue *q, struct weir_job *job)
{
	struct verbs_job *v = verbs_job(job);
	uint64_t before = q->tail;
	int err = 0;

	while (!err && v->left &&
	       has_capacity(q, verbs_is_answered(job)) &&
	       q->tail - before < VERBS_RUN)
		err = build(q, job);
	if (q->tail != before)
		verbs_at(q, q->tail - 1)->send.send_flags |= IBV_SEND_SIGNALED;
	if (!err && v->left) {
		list_del(q, job);
		list_add(q, job);
		return;
	}
	verbs_dequeue(q, job);
	if (err) {
		v->err = err;
		verbs_settle(job);
	}
}

/*
 * Take the first of the list.  But if that is a signal, take the oldest,
 * because a signal comes after all older writers.  Take the oldest, too, while
 * a message waits: a message that has capacity is younger than the oldest
 * writer, and writers younger than the message must not overtake it.
 */
static struct weir_job *next_writer(const struct verbs_queue *q)
{
	struct weir_job *job = q->wait[0].first;

	if (job && (q->sends.first || job->flags & WEIR_JOB_SIGNAL))
		return q->writers;
	return job;
}

/* The next one for which there is capacity, or NULL. */
static struct weir_job *next(struct verbs_queue *q)
{
	struct weir_job *job;
	unsigned int i;

	for (i = 0; i < 2; i++) {
		q->turn ^= 1;
		job = q->turn ? q->wait[1].first : next_writer(q);
		if (job && has_capacity(q, q->turn))
			return job;
	}
	return NULL;
}

/* Nothing more can be posted: end all that waits. */
static void give_up(struct verbs_queue *q)
{
	struct weir_job *job;
	int i;

	verbs_requests_give_up(q);
	for (i = 0; i < 2; i++)
		while ((job = q->wait[i].first)) {
			verbs_dequeue(q, job);
			if (!verbs_job(job)->err)
				verbs_job(job)->err = -ECANCELED;
			verbs_job(job)->code = verbs_job(job)->code ?
				verbs_job(job)->code : IBV_WC_WR_FLUSH_ERR;
			verbs_settle(job);
		}
	verbs_send_give_up(q);
}

/* All messages that may go before a job does: writers may be younger. */
void verbs_pump(struct verbs_queue *q)
{
	struct weir_job *job;

	if (unlikely(q->conn->state != WEIR_CONN_ESTABLISHED)) {
		give_up(q);
		if (!verbs_may_blame(q) && !q->culprit)
			verbs_release(q);
		return;
	}
	verbs_requests_run(q);
	do {
		while (verbs_send_run(q))
			;
		job = next(q);
		if (job)
			run(q, job);
	} while (job);
}
