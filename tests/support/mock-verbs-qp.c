/* SPDX-License-Identifier: BSD-3-Clause */

/* The mock's queue pairs: made, taken from state to state, ended. */

#include "tests/support/mock-verbs-internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct mock_qp *mock_qps;

struct mock_qp *mock_qp_find(uint32_t num)
{
	struct mock_qp *qp = mock_qps;

	while (qp && qp->qp.qp_num != num)
		qp = qp->next;
	return qp;
}

void mock_qp_reported(struct ibv_qp *qp)
{
	((struct mock_qp *)qp)->reported++;
}

void mock_qp_event(struct mock_qp *qp, enum ibv_event_type type)
{
	struct ibv_async_event event = { .event_type = type,
					 .element.qp = &qp->qp };

	mock_async(qp->qp.context, &event);
}

/* Rings of work requests. */

void mock_ring_open(struct mock_ring *ring, uint32_t size)
{
	memset(ring, 0, sizeof(*ring));
	ring->size = size;
	ring->wqe = calloc(size ? size : 1, sizeof(*ring->wqe));
}

static void empty(struct mock_ring *ring)
{
	uint32_t i;

	for (i = 0; i < ring->size; i++) {
		free(ring->wqe[i].inlined);
		ring->wqe[i].inlined = NULL;
	}
	ring->head = ring->next = ring->tail = 0;
}

void mock_ring_close(struct mock_ring *ring)
{
	empty(ring);
	free(ring->wqe);
}

/* The next one to be done, or NULL. */
struct mock_wqe *mock_ring_next(struct mock_ring *ring)
{
	return ring->next == ring->tail ? NULL :
					  &ring->wqe[ring->next % ring->size];
}

/* Where the next one that is posted goes, or NULL. */
struct mock_wqe *mock_ring_capacity(struct mock_ring *ring)
{
	return ring->tail - ring->head == ring->size ?
		       NULL :
		       &ring->wqe[ring->tail % ring->size];
}

/* A slot is free when the completion of its work request, or of a later one,
 * was polled. */
void mock_qp_polled(struct mock_qp *qp, const struct mock_cqe *cqe)
{
	if (!cqe->is_recv)
		qp->sq.head += cqe->slots;
	else if (qp->qp.srq)
		((struct mock_srq *)qp->qp.srq)->taken -= cqe->slots;
	else
		qp->rq.head += cqe->slots;
}

void mock_qp_fail(struct mock_qp *qp)
{
	qp->state = IBV_QPS_ERR;
	qp->flush_to = qp->rq.tail;
	if (qp->qp.srq && !qp->told_last && !qp->soft) {
		qp->told_last = true;
		mock_qp_event(qp, IBV_EVENT_QP_LAST_WQE_REACHED);
	}
}

void mock_qps_lose(struct mock_cq *cq)
{
	struct mock_qp *qp;

	for (qp = mock_qps; qp; qp = qp->next) {
		if (qp->qp.send_cq != &cq->cq && qp->qp.recv_cq != &cq->cq)
			continue;
		qp->lost = true;
		if (qp->state != IBV_QPS_RESET)
			mock_qp_fail(qp);
	}
}

/* Create and destroy. */

static uint32_t rounded_up(uint32_t n)
{
	uint32_t size = 1;

	while (size < n)
		size *= 2;
	return size;
}

static int check_init(const struct ibv_pd *pd,
		      const struct ibv_qp_init_attr *attr)
{
	const struct ibv_qp_cap *cap = &attr->cap;

	if (!pd || !attr->send_cq || !attr->recv_cq)
		return EINVAL;
	if (attr->qp_type != IBV_QPT_RC)
		return EOPNOTSUPP;
	if (cap->max_send_wr > MOCK_MAX_WR || cap->max_recv_wr > MOCK_MAX_WR ||
	    cap->max_send_sge > MOCK_MAX_SGE ||
	    cap->max_recv_sge > MOCK_MAX_SGE ||
	    cap->max_inline_data > MOCK_MAX_INLINE)
		return EINVAL;
	return attr->srq && attr->srq->context != pd->context ? EINVAL : 0;
}

static void hold_users(struct mock_qp *qp, int by)
{
	((struct mock_cq *)qp->qp.send_cq)->users += by;
	((struct mock_cq *)qp->qp.recv_cq)->users += by;
	((struct mock_pd *)qp->qp.pd)->children += by;
	if (qp->qp.srq)
		((struct mock_srq *)qp->qp.srq)->users += by;
	mock_self.qps += by;
}

static void fill(struct mock_qp *qp, struct ibv_pd *pd,
		 struct ibv_qp_init_attr *attr)
{
	static uint32_t num = 0x11;

	if (attr->srq) {
		attr->cap.max_recv_wr = 0;
		attr->cap.max_recv_sge = 0;
	}
	attr->cap.max_send_wr = rounded_up(attr->cap.max_send_wr);
	if (attr->cap.max_recv_wr)
		attr->cap.max_recv_wr = rounded_up(attr->cap.max_recv_wr);
	qp->cap = attr->cap;
	qp->soft = mock_model_of(pd->context) == MOCK_RXE;
	qp->sig_all = attr->sq_sig_all;
	qp->qp.context = pd->context;
	qp->qp.qp_context = attr->qp_context;
	qp->qp.pd = pd;
	qp->qp.send_cq = attr->send_cq;
	qp->qp.recv_cq = attr->recv_cq;
	qp->qp.srq = attr->srq;
	qp->qp.qp_type = attr->qp_type;
	qp->qp.qp_num = num++;
	/* Soft-RoCE has more capacity than it says. */
	mock_ring_open(&qp->sq, (qp->cap.max_send_wr << qp->soft) - qp->soft);
	mock_ring_open(&qp->rq,
		       !qp->cap.max_recv_wr ?
			       0 :
			       (qp->cap.max_recv_wr << qp->soft) - qp->soft);
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct mock_qp *qp;
	int err = check_init(pd, attr);

	if (err)
		return mock_fail(err);
	mock_lock();
	qp = mock_sim_qp();
	fill(qp, pd, attr);
	hold_users(qp, 1);
	qp->next = mock_qps;
	mock_qps = qp;
	mock_unlock();
	return &qp->qp;
}

/* Soft-RoCE leaves in a CQ what it has of a QP that is gone. */
static void forget_cqes(struct mock_qp *qp)
{
	mock_cq_forget((struct mock_cq *)qp->qp.send_cq, qp);
	mock_cq_forget((struct mock_cq *)qp->qp.recv_cq, qp);
}

int ibv_destroy_qp(struct ibv_qp *ibqp)
{
	struct mock_qp *qp = (struct mock_qp *)ibqp, **at;

	mock_lock();
	if (qp->reported != ibqp->events_completed)
		mock_hang("ibv_destroy_qp", "async events not acked");
	mock_async_purge(ibqp->context, ibqp);
	for (at = &mock_qps; *at != qp; at = &(*at)->next)
		;
	*at = qp->next;
	forget_cqes(qp);
	mock_unbind_all(qp);
	hold_users(qp, -1);
	mock_ring_close(&qp->sq);
	mock_ring_close(&qp->rq);
	mock_sim_qp_free(qp);
	mock_unlock();
	return 0;
}

/* From state to state: 2.8, with what each step must and may be told. */

#define RESOLVED (IBV_QP_ALT_PATH | IBV_QP_ACCESS_FLAGS)
#define RUNNING (RESOLVED | IBV_QP_MIN_RNR_TIMER | IBV_QP_PATH_MIG_STATE)
#define SET_UP (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)

static const struct step {
	enum ibv_qp_state from, to;
	int must, may;
} steps[] = {
	{ IBV_QPS_RESET, IBV_QPS_INIT, SET_UP, 0 },
	{ IBV_QPS_INIT, IBV_QPS_INIT, 0, SET_UP },
	{ IBV_QPS_INIT, IBV_QPS_RTR,
	  IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	  RESOLVED | IBV_QP_PKEY_INDEX },
	{ IBV_QPS_RTR, IBV_QPS_RTS,
	  IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		  IBV_QP_MAX_QP_RD_ATOMIC,
	  RUNNING },
	{ IBV_QPS_RTS, IBV_QPS_RTS, 0, RUNNING },
	{ IBV_QPS_RTS, IBV_QPS_SQD, 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },
	{ IBV_QPS_SQD, IBV_QPS_RTS, 0, RUNNING },
	{ IBV_QPS_SQD, IBV_QPS_SQD, 0,
	  RUNNING | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY },
};

static bool may_step(const struct mock_qp *qp, enum ibv_qp_state to, int mask)
{
	size_t i;

	mask &= ~(IBV_QP_STATE | IBV_QP_CUR_STATE);
	if (to == IBV_QPS_RESET || to == IBV_QPS_ERR)
		return !mask &&
		       (to == IBV_QPS_RESET || qp->state != IBV_QPS_RESET);
	for (i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
		if (steps[i].from == qp->state && steps[i].to == to)
			return (mask & steps[i].must) == steps[i].must &&
			       !(mask & ~(steps[i].must | steps[i].may));
	return false;
}

static bool is_valid(const struct ibv_qp_attr *attr, int mask)
{
	if (mask & IBV_QP_PORT && attr->port_num != 1)
		return false;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC &&
	    attr->max_rd_atomic > MOCK_MAX_READS)
		return false;
	return !(mask & IBV_QP_MAX_DEST_RD_ATOMIC) ||
	       attr->max_dest_rd_atomic <= MOCK_MAX_READS;
}

static void copy_attr(struct ibv_qp_attr *to, const struct ibv_qp_attr *attr,
		      int mask)
{
	if (mask & IBV_QP_ACCESS_FLAGS)
		to->qp_access_flags = attr->qp_access_flags;
	if (mask & IBV_QP_PORT)
		to->port_num = attr->port_num;
	if (mask & IBV_QP_AV)
		to->ah_attr = attr->ah_attr;
	if (mask & IBV_QP_PATH_MTU)
		to->path_mtu = attr->path_mtu;
	if (mask & IBV_QP_DEST_QPN)
		to->dest_qp_num = attr->dest_qp_num;
	if (mask & IBV_QP_RQ_PSN)
		to->rq_psn = attr->rq_psn;
	if (mask & IBV_QP_MAX_DEST_RD_ATOMIC)
		to->max_dest_rd_atomic = attr->max_dest_rd_atomic;
	if (mask & IBV_QP_MIN_RNR_TIMER)
		to->min_rnr_timer = attr->min_rnr_timer;
	if (mask & IBV_QP_TIMEOUT)
		to->timeout = attr->timeout;
	if (mask & IBV_QP_RETRY_CNT)
		to->retry_cnt = attr->retry_cnt;
	if (mask & IBV_QP_RNR_RETRY)
		to->rnr_retry = attr->rnr_retry;
	if (mask & IBV_QP_SQ_PSN)
		to->sq_psn = attr->sq_psn;
	if (mask & IBV_QP_MAX_QP_RD_ATOMIC)
		to->max_rd_atomic = attr->max_rd_atomic;
}

static void reset(struct mock_qp *qp)
{
	forget_cqes(qp);
	empty(&qp->sq);
	empty(&qp->rq);
	memset(&qp->attr, 0, sizeof(qp->attr));
	qp->silent = 0;
	qp->told_last = false;
}

static void step(struct mock_qp *qp, enum ibv_qp_state to)
{
	if (to == IBV_QPS_ERR) {
		mock_qp_fail(qp);
		return;
	}
	if (to == IBV_QPS_RESET)
		reset(qp);
	qp->state = to;
}

int ibv_modify_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask)
{
	struct mock_qp *qp = (struct mock_qp *)ibqp;
	enum ibv_qp_state to;

	mock_lock();
	to = mask & IBV_QP_STATE ? attr->qp_state : qp->state;
	if ((mask & IBV_QP_CUR_STATE && attr->cur_qp_state != qp->state) ||
	    !may_step(qp, to, mask) || !is_valid(attr, mask)) {
		mock_unlock();
		return EINVAL;
	}
	copy_attr(&qp->attr, attr, mask);
	if (mask & IBV_QP_EN_SQD_ASYNC_NOTIFY && attr->en_sqd_async_notify)
		mock_qp_event(qp, IBV_EVENT_SQ_DRAINED);
	step(qp, to);
	ibqp->state = to;
	mock_pump();
	mock_unlock();
	return 0;
}

int ibv_query_qp(struct ibv_qp *ibqp, struct ibv_qp_attr *attr, int mask,
		 struct ibv_qp_init_attr *init)
{
	struct mock_qp *qp = (struct mock_qp *)ibqp;

	(void)mask;
	mock_lock();
	*attr = qp->attr;
	attr->qp_state = attr->cur_qp_state = ibqp->state = qp->state;
	attr->cap = qp->cap;
	memset(init, 0, sizeof(*init));
	init->qp_context = ibqp->qp_context;
	init->send_cq = ibqp->send_cq;
	init->recv_cq = ibqp->recv_cq;
	init->srq = ibqp->srq;
	init->cap = qp->cap;
	init->qp_type = ibqp->qp_type;
	init->sq_sig_all = qp->sig_all;
	mock_unlock();
	return 0;
}
