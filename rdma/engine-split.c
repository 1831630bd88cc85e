/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Jobs into work requests.
 *
 * One work request is about one piece of the peer's and up to .max_sge pieces
 * here, and has at most .max_len bytes: so a cancel takes effect within a large
 * job, and every device takes it.  Writers and readers take turns, each up to
 * VERBS_RUN work requests; of a run only the last is signalled, for its
 * completion tells of all before it.  Where the peer is told something, by a
 * message or a signal, writers go by age.
 */

#include <arpa/inet.h>
#include <errno.h>

#include "rdma/engine.h"

static struct verbs_list *list_of(struct verbs_queue *q, struct weir_job *job)
{
	return &q->wait[verbs_is_answered(job)];
}

static void list_add(struct verbs_queue *q, struct weir_job *job)
{
	struct verbs_list *list = list_of(q, job);
	struct job_priv *p = job_priv(job);

	p->q_next = NULL;
	p->q_pprev = list->last;
	*list->last = job;
	list->last = &p->q_next;
}

static void list_del(struct verbs_queue *q, struct weir_job *job)
{
	struct verbs_list *list = list_of(q, job);
	struct job_priv *p = job_priv(job);

	*p->q_pprev = p->q_next;
	if (p->q_next)
		job_priv(p->q_next)->q_pprev = p->q_pprev;
	else
		list->last = p->q_pprev;
	p->q_pprev = NULL;
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

/* Up to @max bytes here, as far as the pieces go.  Returns an errno. */
static int gather(struct verbs_queue *q, struct weir_job *job,
		  struct verbs_wr *w, uint64_t max)
{
	struct cursor *here = verbs_here(job);
	struct ibv_sge *sge;
	uint32_t n;
	int err;

	w->len = 0;
	w->send.num_sge = 0;
	while (w->len < max && (uint32_t)w->send.num_sge < q->max_sge) {
		sge = &w->sge[w->send.num_sge];
		err = verbs_lkey(q, job, here, &sge->lkey);
		if (err)
			return err;
		n = (uint32_t)least(here->len, max - w->len);
		sge->addr = here->addr;
		sge->length = n;
		w->send.num_sge++;
		w->len += n;
		cursor_advance(here, n);
	}
	return 0;
}

/* A write or a read, as long as can be. */
static int build_move(struct verbs_queue *q, struct weir_job *job,
		      struct verbs_wr *w, uint32_t rkey)
{
	struct verbs_job *v = verbs_job(job);
	struct cursor *there = verbs_there(job);
	int err;

	w->send = (struct ibv_send_wr){
		.wr_id = (uintptr_t)&w->wr,
		.sg_list = w->sge,
		.opcode = v->read ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE,
		.send_flags = v->inlined ? IBV_SEND_INLINE : 0,
		.wr.rdma = { .remote_addr = there->addr, .rkey = rkey },
	};
	err = gather(q, job, w, least(there->len, q->max_len));
	if (err)
		return err;
	cursor_advance(there, w->len);
	if (job->flags & WEIR_JOB_SIGNAL && !there->left) {
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
	uint32_t rkey;
	int err = verbs_rkey(verbs_there(job), verbs_need(job), &rkey);

	if (!err && unlikely(v->atomic))
		verbs_build_atomic(q, job, w, rkey);
	else if (!err)
		err = build_move(q, job, w, rkey);
	if (err)
		return err;
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

	while (!err && verbs_there(job)->left &&
	       has_capacity(q, verbs_is_answered(job)) &&
	       q->tail - before < VERBS_RUN)
		err = build(q, job);
	if (q->tail != before)
		verbs_at(q, q->tail - 1)->send.send_flags |= IBV_SEND_SIGNALED;
	if (!err && verbs_there(job)->left) {
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
 * The first of the list; but the oldest, if that is a signal, which comes after
 * all that is older.  So it is, too, if a message waits, which with capacity is
 * younger than the oldest: what is younger still does not overtake it.
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

/* Nothing more can be posted: none of what waits has a chance. */
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
