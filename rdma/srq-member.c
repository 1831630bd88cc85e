/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * QPs that receive from a shared queue, by number; and what comes after their
 * connections have gone: see struct srq_member.
 */

#include <stdlib.h>

#include "base/alloc.h"
#include "base/why.h"
#include "rdma/srq-internal.h"

/* Soft-RoCE never says that a QP has taken its last. */
#define LAST_NS (100 * WEIR_MSEC)

static struct srq_member **bucket(struct weir_srq *srq, uint32_t qp_num)
{
	return &srq->members[qp_num % SRQ_BUCKETS];
}

struct weir_conn *srq_find(const struct weir_srq *srq, uint32_t qp_num)
{
	struct srq_member *m = *bucket((struct weir_srq *)srq, qp_num);

	while (m && m->qp_num != qp_num)
		m = m->next;
	return m ? m->conn : NULL;
}

static void on_time(struct weir_timer_node *node)
{
	srq_last(weir_container_of(node, struct srq_member, timer));
}

/* Before the QP is there, for its end needs no memory. */
int srq_join(struct weir_conn *c)
{
	struct srq_member *m = mem_calloc(1, sizeof(*m));

	if (!m)
		return why(-ENOMEM, "weir_conn: no memory");
	m->srq = c->opts.srq;
	m->conn = c;
	m->timer.fire = on_time;
	c->member = m;
	return 0;
}

void srq_unjoin(struct weir_conn *c)
{
	free(c->member);
	c->member = NULL;
}

void srq_joined(struct weir_conn *c)
{
	struct srq_member *m = c->member, **at;

	m->qp = c->qp;
	m->qp_num = c->qp->qp_num;
	at = bucket(m->srq, m->qp_num);
	m->next = *at;
	*at = m;
}

void srq_mark_set(const struct weir_srq *srq, struct srq_mark *mark)
{
	struct weir_channel_stats stats = { .size = sizeof(stats) };

	weir_channel_stats(srq->channel, &stats);
	mark->empty_polls = stats.empty_polls;
	mark->completions = stats.completions;
}

/* It was found empty, or everything that can have been in it was told. */
bool srq_mark_passed(const struct weir_srq *srq, const struct srq_mark *mark)
{
	struct weir_channel_stats stats = { .size = sizeof(stats) };

	weir_channel_stats(srq->channel, &stats);
	return srq->failed || stats.empty_polls != mark->empty_polls ||
	       stats.completions - mark->completions >= stats.capacity;
}

static void bury(struct srq_member *m)
{
	wheel_del(&m->srq->r->wheel, &m->timer);
	ibv_destroy_qp(m->qp);
	conn_beat_free(m->beat, m->channel, m->qp_num, m->orphans);
	weir_channel_release(m->channel, m->credits);
	if (m->owns_channel)
		weir_channel_destroy(m->channel);
	free(m);
}

void srq_last(struct srq_member *m)
{
	if (m->state != SRQ_LAST)
		return;
	m->state = SRQ_DRAIN;
	srq_mark_set(m->srq, &m->mark);
	deferred_send(&m->srq->deferred);
}

static void off_bucket(struct srq_member *m)
{
	struct srq_member **at = bucket(m->srq, m->qp_num);

	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
}

void srq_leave(struct weir_conn *c)
{
	struct srq_member *m = c->member;
	struct weir_srq *srq = m->srq;

	c->member = NULL;
	off_bucket(m);
	m->conn = NULL;
	m->channel = c->channel;
	m->owns_channel = !c->given;
	m->credits = conn_credits(c);
	m->orphans = c->orphans;
	m->beat = c->beat;
	if (m->beat)
		m->beat->conn = NULL;
	channel_user_del(&c->channel_user);
	if (!m->ready || srq->failed || m->orphans) {
		bury(m);
		return;
	}
	m->state = SRQ_LAST;
	m->next = srq->leaving;
	srq->leaving = m;
	srq->n_leaving++;
	if (m->last) {
		srq_last(m);
		return;
	}
	wheel_rearm(&srq->r->wheel, &m->timer, reactor_now(srq->r) + LAST_NS);
	reactor_touch(srq->r);
}

void srq_run(struct deferred *deferred)
{
	struct weir_srq *srq =
		weir_container_of(deferred, struct weir_srq, deferred);
	struct srq_member **at = &srq->leaving, *m;
	bool more = false;

	while ((m = *at)) {
		if (m->state != SRQ_DRAIN || !srq_mark_passed(srq, &m->mark)) {
			more |= m->state == SRQ_DRAIN;
			at = &m->next;
			continue;
		}
		*at = m->next;
		srq->n_leaving--;
		bury(m);
	}
	if (more)
		deferred_send(&srq->deferred);
}

/* The queue itself goes: nothing that they still have is missed. */
void srq_bury_all(struct weir_srq *srq)
{
	struct srq_member *m;

	while ((m = srq->leaving)) {
		srq->leaving = m->next;
		srq->n_leaving--;
		bury(m);
	}
}
