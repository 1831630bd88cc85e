/* SPDX-License-Identifier: BSD-3-Clause */

/* The mock's work requests, posted; receive queues that QPs share. */

#include "tests/support/mock-verbs-internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint64_t length_of(const struct ibv_sge *sge, int n)
{
	uint64_t len = 0;
	int i;

	for (i = 0; i < n; i++)
		len += sge[i].length;
	return len;
}

static bool is_atomic(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static bool can_inline(enum ibv_wr_opcode opcode)
{
	return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
	       opcode == IBV_WR_SEND_WITH_INV || opcode == IBV_WR_RDMA_WRITE ||
	       opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static int check_wr(const struct mock_qp *qp, const struct ibv_send_wr *wr)
{
	uint64_t len;

	if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD &&
	    qp->state != IBV_QPS_ERR)
		return EINVAL;
	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->cap.max_send_sge)
		return EINVAL;
	len = length_of(wr->sg_list, wr->num_sge);
	if (len > MOCK_MAX_MESSAGE)
		return EINVAL;
	if (wr->send_flags & IBV_SEND_INLINE &&
	    (!can_inline(wr->opcode) || len > qp->cap.max_inline_data))
		return EINVAL;
	if (is_atomic(wr->opcode))
		return len < 8 || wr->wr.atomic.remote_addr & 7 ? EINVAL : 0;
	switch (wr->opcode) {
	case IBV_WR_BIND_MW:
		return wr->bind_mw.mw && !wr->num_sge ? 0 : EINVAL;
	case IBV_WR_LOCAL_INV:
	case IBV_WR_RDMA_READ:
		return 0;
	default:
		return can_inline(wr->opcode) ? 0 : EOPNOTSUPP;
	}
}

/* The bytes are the sender's again at once. */
static void copy_inline(struct mock_wqe *wqe, const struct ibv_send_wr *wr)
{
	size_t len = length_of(wr->sg_list, wr->num_sge), off = 0;
	int i;

	wqe->inlined = malloc(len ? len : 1);
	wqe->inlined_span = (struct mock_span){ wqe->inlined, len };
	for (i = 0; i < wr->num_sge; i++) {
		memcpy(wqe->inlined + off,
		       (const char *)(uintptr_t)wr->sg_list[i].addr,
		       wr->sg_list[i].length);
		off += wr->sg_list[i].length;
	}
}

static void fill(struct mock_wqe *wqe, const struct ibv_send_wr *wr)
{
	free(wqe->inlined);
	memset(wqe, 0, offsetof(struct mock_wqe, sge));
	wqe->wr_id = wr->wr_id;
	wqe->opcode = wr->opcode;
	wqe->flags = wr->send_flags;
	wqe->imm = wr->imm_data;
	wqe->n_sge = wr->num_sge;
	if (wr->num_sge)
		memcpy(wqe->sge, wr->sg_list,
		       (size_t)wr->num_sge * sizeof(*wr->sg_list));
	if (wr->send_flags & IBV_SEND_INLINE)
		copy_inline(wqe, wr);
	if (is_atomic(wr->opcode)) {
		wqe->remote_addr = wr->wr.atomic.remote_addr;
		wqe->rkey = wr->wr.atomic.rkey;
		wqe->compare_add = wr->wr.atomic.compare_add;
		wqe->swap = wr->wr.atomic.swap;
	} else if (wr->opcode == IBV_WR_BIND_MW) {
		wqe->mw = (struct mock_mw *)wr->bind_mw.mw;
		wqe->mw_key = wr->bind_mw.mw->rkey;
		wqe->rkey = wr->bind_mw.rkey;
		wqe->bind = wr->bind_mw.bind_info;
	} else {
		wqe->remote_addr = wr->wr.rdma.remote_addr;
		wqe->rkey = wr->wr.rdma.rkey;
	}
}

static int post_send(struct ibv_qp *ibqp, struct ibv_send_wr *wr,
		     struct ibv_send_wr **bad)
{
	struct mock_qp *qp = (struct mock_qp *)ibqp;
	struct mock_wqe *wqe;
	int err = 0;

	mock_lock();
	for (; wr; wr = wr->next) {
		wqe = mock_ring_capacity(&qp->sq);
		err = check_wr(qp, wr);
		if (!err && (!wqe || mock_sim_refuses(qp)))
			err = ENOMEM;
		if (err)
			break;
		fill(wqe, wr);
		qp->sq.tail++;
	}
	if (err)
		*bad = wr;
	mock_self.posts++;
	mock_pump();
	mock_unlock();
	return err;
}

/* Receives. */

static int put_recv(struct mock_ring *ring, uint32_t max_sge, uint32_t taken,
		    const struct ibv_recv_wr *wr)
{
	struct mock_wqe *wqe = mock_ring_capacity(ring);

	if (wr->num_sge < 0 || (uint32_t)wr->num_sge > max_sge)
		return EINVAL;
	if (!wqe || ring->tail - ring->head + taken >= ring->size)
		return ENOMEM;
	wqe->wr_id = wr->wr_id;
	wqe->n_sge = wr->num_sge;
	if (wr->num_sge)
		memcpy(wqe->sge, wr->sg_list,
		       (size_t)wr->num_sge * sizeof(*wr->sg_list));
	ring->tail++;
	return 0;
}

static int post_recv(struct ibv_qp *ibqp, struct ibv_recv_wr *wr,
		     struct ibv_recv_wr **bad)
{
	struct mock_qp *qp = (struct mock_qp *)ibqp;
	int err = 0;

	mock_lock();
	for (; wr; wr = wr->next) {
		err = ibqp->srq || qp->state == IBV_QPS_RESET ?
			      EINVAL :
			      put_recv(&qp->rq, qp->cap.max_recv_sge, 0, wr);
		if (err)
			break;
	}
	if (err)
		*bad = wr;
	mock_pump();
	mock_unlock();
	return err;
}

void mock_post_ops(struct ibv_context *ctx)
{
	ctx->ops.post_send = post_send;
	ctx->ops.post_recv = post_recv;
	ctx->ops.post_srq_recv = mock_post_srq_recv;
}

/* Shared receive queues. */

static uint32_t rounded_up(uint32_t n)
{
	uint32_t size = 1;

	while (size < n)
		size *= 2;
	return size;
}

struct ibv_srq *ibv_create_srq(struct ibv_pd *pd,
			       struct ibv_srq_init_attr *init)
{
	struct mock_srq *srq;

	if (!init->attr.max_wr || init->attr.max_wr > MOCK_MAX_WR ||
	    init->attr.max_sge > MOCK_MAX_SGE)
		return mock_fail(EINVAL);
	init->attr.max_wr = rounded_up(init->attr.max_wr);
	srq = calloc(1, sizeof(*srq));
	srq->srq.context = pd->context;
	srq->srq.srq_context = init->srq_context;
	srq->srq.pd = pd;
	srq->max_sge = init->attr.max_sge;
	mock_ring_open(&srq->ring, init->attr.max_wr);
	mock_lock();
	((struct mock_pd *)pd)->children++;
	mock_self.srqs++;
	mock_unlock();
	return &srq->srq;
}

static void tell_limit(struct mock_srq *srq)
{
	struct ibv_async_event event = {
		.event_type = IBV_EVENT_SRQ_LIMIT_REACHED,
		.element.srq = &srq->srq,
	};

	if (srq->limit <= srq->ring.tail - srq->ring.head)
		return;
	srq->limit = 0; /* It is told once. */
	mock_async(srq->srq.context, &event);
}

int ibv_modify_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr, int mask)
{
	struct mock_srq *srq = (struct mock_srq *)ibsrq;

	if (mask & IBV_SRQ_MAX_WR)
		return EOPNOTSUPP;
	if (mask & IBV_SRQ_LIMIT && attr->srq_limit > srq->ring.size)
		return EINVAL;
	mock_lock();
	if (mask & IBV_SRQ_LIMIT)
		srq->limit = attr->srq_limit;
	tell_limit(srq);
	mock_unlock();
	return 0;
}

int ibv_query_srq(struct ibv_srq *ibsrq, struct ibv_srq_attr *attr)
{
	struct mock_srq *srq = (struct mock_srq *)ibsrq;

	mock_lock();
	attr->max_wr = srq->ring.size;
	attr->max_sge = srq->max_sge;
	attr->srq_limit = srq->limit;
	mock_unlock();
	return 0;
}

int ibv_destroy_srq(struct ibv_srq *ibsrq)
{
	struct mock_srq *srq = (struct mock_srq *)ibsrq;

	mock_lock();
	if (srq->users) {
		mock_unlock();
		return EBUSY;
	}
	if (srq->reported != ibsrq->events_completed)
		mock_hang("ibv_destroy_srq", "async events not acked");
	mock_async_purge(ibsrq->context, ibsrq);
	((struct mock_pd *)ibsrq->pd)->children--;
	mock_self.srqs--;
	mock_ring_close(&srq->ring);
	free(srq);
	mock_unlock();
	return 0;
}

void mock_srq_reported(struct ibv_srq *srq)
{
	((struct mock_srq *)srq)->reported++;
}

int mock_post_srq_recv(struct ibv_srq *ibsrq, struct ibv_recv_wr *wr,
		       struct ibv_recv_wr **bad)
{
	struct mock_srq *srq = (struct mock_srq *)ibsrq;
	int err = 0;

	mock_lock();
	for (; wr; wr = wr->next) {
		err = put_recv(&srq->ring, srq->max_sge, srq->taken, wr);
		if (err)
			break;
	}
	if (err)
		*bad = wr;
	mock_pump();
	mock_unlock();
	return err;
}

/* The next one is a QP's; it stays good until the next is taken. */
struct mock_wqe *mock_srq_take(struct mock_srq *srq)
{
	struct mock_wqe *wqe = mock_ring_next(&srq->ring);

	if (!wqe)
		return NULL;
	srq->ring.head = ++srq->ring.next;
	srq->taken++;
	tell_limit(srq);
	return wqe;
}
