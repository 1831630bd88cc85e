/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The mock at work: one step is one work request done or flushed.  Each QP
 * does its own in order; nothing is written before all of it was checked.
 */

#include "tests/support/mock-verbs-internal.h"

#include <stdlib.h>
#include <string.h>

static enum mock_link link_state;
static bool held;

/* Completions. */

static enum ibv_wc_opcode opcode_of(enum ibv_wr_opcode opcode)
{
	switch (opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return IBV_WC_RDMA_WRITE;
	case IBV_WR_RDMA_READ:
		return IBV_WC_RDMA_READ;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
		return IBV_WC_COMP_SWAP;
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return IBV_WC_FETCH_ADD;
	case IBV_WR_BIND_MW:
		return IBV_WC_BIND_MW;
	case IBV_WR_LOCAL_INV:
		return IBV_WC_LOCAL_INV;
	default:
		return IBV_WC_SEND;
	}
}

static void complete(struct mock_cq *cq, const struct mock_cqe *cqe,
		     bool solicited)
{
	mock_sim_ended(cqe->qp, &cqe->wc);
	if (!cqe->qp->lost)
		mock_cq_push(cq, cqe, solicited);
}

static void end_send(struct mock_qp *qp, const struct mock_wqe *wqe,
		     enum ibv_wc_status status, size_t len)
{
	struct mock_cqe cqe = {
		.wc = { .wr_id = wqe->wr_id,
			.status = status,
			.opcode = opcode_of(wqe->opcode),
			.byte_len = (uint32_t)len,
			.qp_num = qp->qp.qp_num },
		.qp = qp,
		.slots = ++qp->silent,
	};

	qp->sq.next++;
	if (qp->soft) { /* Its slot is free already. */
		qp->sq.head = qp->sq.next;
		cqe.slots = qp->silent = 0;
	}
	if (status == IBV_WC_SUCCESS && !qp->sig_all &&
	    !(wqe->flags & IBV_SEND_SIGNALED))
		return;
	qp->silent = 0;
	complete((struct mock_cq *)qp->qp.send_cq, &cqe, false);
	if (status != IBV_WC_SUCCESS && qp->state != IBV_QPS_ERR)
		mock_qp_fail(qp);
}

/* What a message that takes a receive says of itself. */
static void describe(const struct mock_qp *qp, struct ibv_wc *wc,
		     const struct mock_wqe *sent, size_t len)
{
	wc->byte_len = (uint32_t)len;
	wc->opcode = sent->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ?
			     IBV_WC_RECV_RDMA_WITH_IMM :
			     IBV_WC_RECV;
	if (sent->opcode == IBV_WR_RDMA_WRITE_WITH_IMM ||
	    sent->opcode == IBV_WR_SEND_WITH_IMM) {
		wc->wc_flags = IBV_WC_WITH_IMM;
		wc->imm_data = sent->imm;
	} else if (sent->opcode == IBV_WR_SEND_WITH_INV) {
		/* The kernel's number for it. */
		wc->wc_flags = qp->soft ? 1 << 2 : IBV_WC_WITH_INV;
		wc->invalidated_rkey = sent->imm;
	}
}

/* @sent is NULL for one that is flushed. */
static void end_recv(struct mock_qp *qp, const struct mock_wqe *wqe,
		     enum ibv_wc_status status, const struct mock_wqe *sent,
		     size_t len)
{
	struct mock_cqe cqe = {
		.wc = { .wr_id = wqe->wr_id,
			.status = status,
			.qp_num = qp->qp.qp_num,
			.src_qp = qp->attr.dest_qp_num },
		.qp = qp,
		.slots = 1,
		.is_recv = true,
	};

	if (sent)
		describe(qp, &cqe.wc, sent, len);
	if (!qp->qp.srq)
		qp->rq.next++;
	complete((struct mock_cq *)qp->qp.recv_cq, &cqe,
		 sent && sent->flags & IBV_SEND_SOLICITED);
}

/* The responder. */

static struct mock_qp *peer_of(const struct mock_qp *qp)
{
	struct mock_qp *peer = mock_qp_find(qp->attr.dest_qp_num);

	if (!peer || peer->killed || qp->killed ||
	    peer->attr.dest_qp_num != qp->qp.qp_num ||
	    peer->qp.context->device != qp->qp.context->device ||
	    (peer->state != IBV_QPS_RTR && peer->state != IBV_QPS_RTS &&
	     peer->state != IBV_QPS_SQD))
		return NULL;
	return peer;
}

/* What it refuses ends its connection, too. */
static enum ibv_wc_status refuse(struct mock_qp *peer,
				 enum ibv_wc_status status)
{
	mock_qp_fail(peer);
	if (!peer->soft)
		mock_qp_event(peer, status == IBV_WC_REM_ACCESS_ERR ?
					    IBV_EVENT_QP_ACCESS_ERR :
					    IBV_EVENT_QP_REQ_ERR);
	return status;
}

static struct mock_wqe *take_recv(struct mock_qp *peer)
{
	return peer->qp.srq ? mock_srq_take((struct mock_srq *)peer->qp.srq) :
			      mock_ring_next(&peer->rq);
}

static bool has_recv(const struct mock_qp *peer)
{
	const struct mock_ring *ring =
		peer->qp.srq ? &((const struct mock_srq *)peer->qp.srq)->ring :
			       &peer->rq;

	return ring->next != ring->tail;
}

static enum ibv_wc_status refuse_send(struct mock_qp *peer,
				      const struct mock_wqe *recv,
				      enum ibv_wc_status theirs,
				      enum ibv_wc_status ours)
{
	end_recv(peer, recv, theirs, NULL, 0);
	mock_qp_fail(peer);
	return ours;
}

static enum ibv_wc_status deliver(struct mock_qp *peer,
				  const struct mock_wqe *wqe,
				  const struct mock_side *from)
{
	struct mock_wqe *recv = take_recv(peer);
	enum ibv_wc_status status;
	struct mock_side to;

	status = mock_sges(peer, recv, IBV_ACCESS_LOCAL_WRITE, &to);
	if (peer->soft && (status != IBV_WC_SUCCESS || from->len > to.len))
		return refuse_send(peer, recv, IBV_WC_LOC_QP_OP_ERR,
				   IBV_WC_REM_OP_ERR);
	if (status != IBV_WC_SUCCESS)
		return refuse_send(peer, recv, IBV_WC_LOC_PROT_ERR,
				   IBV_WC_REM_OP_ERR);
	if (from->len > to.len)
		return refuse_send(peer, recv, IBV_WC_LOC_LEN_ERR,
				   IBV_WC_REM_INV_REQ_ERR);
	mock_move(&to, from);
	/* The message itself has arrived, and its sender is told so. */
	if (wqe->opcode == IBV_WR_SEND_WITH_INV &&
	    !mock_invalidate(peer, wqe->imm))
		return refuse_send(peer, recv, IBV_WC_REM_INV_REQ_ERR,
				   IBV_WC_SUCCESS);
	end_recv(peer, recv, IBV_WC_SUCCESS, wqe, from->len);
	return IBV_WC_SUCCESS;
}

/* The range of the peer that @wqe is about, if it may be. */
static enum ibv_wc_status remote_side(struct mock_qp *peer,
				      const struct mock_wqe *wqe, size_t len,
				      unsigned int need, struct mock_side *ret)
{
	enum ibv_wc_status status;

	ret->n = 0;
	if (!(peer->attr.qp_access_flags & need) ||
	    (need != IBV_ACCESS_REMOTE_WRITE && !peer->attr.max_dest_rd_atomic))
		return refuse(peer, IBV_WC_REM_INV_REQ_ERR);
	if (!len) /* B3.7: of nothing, no key is asked. */
		return IBV_WC_SUCCESS;
	status = mock_remote(peer, wqe->rkey, wqe->remote_addr, len, need,
			     &ret->span[0]);
	ret->n = 1;
	ret->len = len;
	return status == IBV_WC_SUCCESS ? status : refuse(peer, status);
}

static enum ibv_wc_status write_to(struct mock_qp *peer,
				   const struct mock_wqe *wqe,
				   const struct mock_side *from)
{
	enum ibv_wc_status status;
	struct mock_side to;

	status =
		remote_side(peer, wqe, from->len, IBV_ACCESS_REMOTE_WRITE, &to);
	if (status != IBV_WC_SUCCESS)
		return status;
	mock_move(&to, from);
	if (wqe->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		end_recv(peer, take_recv(peer), IBV_WC_SUCCESS, wqe, from->len);
	return status;
}

static enum ibv_wc_status read_from(struct mock_qp *peer,
				    const struct mock_wqe *wqe,
				    const struct mock_side *to)
{
	enum ibv_wc_status status;
	struct mock_side from;

	status = remote_side(peer, wqe, to->len, IBV_ACCESS_REMOTE_READ, &from);
	if (status == IBV_WC_SUCCESS)
		mock_move(to, &from);
	return status;
}

static enum ibv_wc_status atomic_on(struct mock_qp *peer,
				    const struct mock_wqe *wqe,
				    const struct mock_side *to)
{
	enum ibv_wc_status status;
	struct mock_side at;
	uint64_t old, *word;
	struct mock_side result = { .span = { { (char *)&old, 8 } }, .n = 1 };

	status = remote_side(peer, wqe, 8, IBV_ACCESS_REMOTE_ATOMIC, &at);
	if (status != IBV_WC_SUCCESS)
		return status;
	word = (uint64_t *)(void *)at.span[0].at;
	old = wqe->compare_add;
	if (wqe->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		old = __atomic_fetch_add(word, wqe->compare_add,
					 __ATOMIC_SEQ_CST);
	else
		__atomic_compare_exchange_n(word, &old, wqe->swap, false,
					    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
	mock_move(to, &result);
	return status;
}

/* The requester. */

static bool takes_recv(const struct mock_wqe *wqe)
{
	return wqe->opcode != IBV_WR_RDMA_WRITE &&
	       wqe->opcode != IBV_WR_RDMA_READ &&
	       wqe->opcode != IBV_WR_ATOMIC_CMP_AND_SWP &&
	       wqe->opcode != IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static enum ibv_wc_status exchange(struct mock_qp *peer,
				   const struct mock_wqe *wqe,
				   const struct mock_side *local)
{
	switch (wqe->opcode) {
	case IBV_WR_RDMA_WRITE:
	case IBV_WR_RDMA_WRITE_WITH_IMM:
		return write_to(peer, wqe, local);
	case IBV_WR_RDMA_READ:
		return read_from(peer, wqe, local);
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return atomic_on(peer, wqe, local);
	default:
		return deliver(peer, wqe, local);
	}
}

/* What has to do with no peer. */
static enum ibv_wc_status at_owner(struct mock_qp *qp,
				   const struct mock_wqe *wqe)
{
	if (wqe->opcode == IBV_WR_BIND_MW)
		return mock_bind(qp, wqe);
	return mock_invalidate(qp, wqe->imm) ? IBV_WC_SUCCESS :
					       IBV_WC_LOC_QP_OP_ERR;
}

/* Every retry at once, as if the time for them had passed; but a QP that
 * retries for ever waits. */
static bool send_one(struct mock_qp *qp, const struct mock_wqe *wqe)
{
	bool gets = wqe->opcode == IBV_WR_RDMA_READ ||
		    wqe->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
		    wqe->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	enum ibv_wc_status status;
	struct mock_qp *peer;
	struct mock_side local;

	status = mock_local_side(qp, wqe, gets ? IBV_ACCESS_LOCAL_WRITE : 0,
				 &local);
	if (status == IBV_WC_SUCCESS && gets && !qp->attr.max_rd_atomic)
		status = IBV_WC_LOC_QP_OP_ERR;
	if (status == IBV_WC_SUCCESS) {
		if (link_state == MOCK_STALLED)
			return false;
		peer = link_state == MOCK_UP ? peer_of(qp) : NULL;
		if (!peer && !qp->attr.timeout)
			return false;
		status = IBV_WC_RETRY_EXC_ERR;
		if (peer && takes_recv(wqe) && !has_recv(peer)) {
			if (qp->attr.rnr_retry == 7)
				return false;
			status = IBV_WC_RNR_RETRY_EXC_ERR;
		} else if (peer) {
			status = exchange(peer, wqe, &local);
		}
	}
	end_send(qp, wqe, status, local.len);
	return true;
}

/* Soft-RoCE flushes no receive that is posted later. */
static struct mock_wqe *to_flush(struct mock_qp *qp)
{
	return qp->qp.srq || (qp->soft && qp->rq.next == qp->flush_to) ?
		       NULL :
		       mock_ring_next(&qp->rq);
}

bool mock_qp_is_due(struct mock_qp *qp)
{
	if (qp->state == IBV_QPS_ERR && to_flush(qp))
		return true;
	return (qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_RTS) &&
	       mock_ring_next(&qp->sq);
}

void mock_fail_next(struct mock_qp *qp, enum ibv_wc_status status)
{
	struct mock_wqe *wqe = mock_ring_next(&qp->sq);

	if (wqe)
		end_send(qp, wqe, status, 0);
}

bool mock_step_qp(struct mock_qp *qp)
{
	struct mock_wqe *wqe = mock_ring_next(&qp->sq), *recv;

	if (qp->state == IBV_QPS_ERR) {
		recv = to_flush(qp);
		if (wqe)
			end_send(qp, wqe, IBV_WC_WR_FLUSH_ERR, 0);
		else if (recv)
			end_recv(qp, recv, IBV_WC_WR_FLUSH_ERR, NULL, 0);
		return wqe || recv;
	}
	if (!wqe || qp->state != IBV_QPS_RTS)
		return false;
	if (wqe->opcode != IBV_WR_BIND_MW && wqe->opcode != IBV_WR_LOCAL_INV)
		return send_one(qp, wqe);
	end_send(qp, wqe, at_owner(qp, wqe), 0);
	return true;
}

/* What tests tell it. */

unsigned int mock_step(unsigned int most)
{
	unsigned int done = 0, before;
	struct mock_qp *qp;

	mock_lock();
	do {
		before = done;
		for (qp = mock_qps; qp && done < most; qp = qp->next)
			done += mock_step_qp(qp);
	} while (done != before && done < most);
	mock_unlock();
	return done;
}

static void pump_world(void)
{
	struct mock_qp *qp;

	for (qp = mock_qps; qp; qp = qp->next)
		qp->blocked = false;
	mock_sim_pump();
}

void mock_pump(void)
{
	if (mock_in_world())
		pump_world();
	else if (!held)
		mock_step(UINT32_MAX);
}

void mock_hold(bool hold)
{
	mock_lock();
	held = hold;
	mock_pump();
	mock_unlock();
}

void mock_set_link(enum mock_link state)
{
	mock_lock();
	link_state = state;
	mock_pump();
	mock_unlock();
}

bool mock_is_cut(void)
{
	return link_state == MOCK_LOST;
}

void mock_kill(struct ibv_qp *qp)
{
	mock_lock();
	((struct mock_qp *)qp)->killed = true;
	mock_unlock();
}

void mock_break(struct ibv_qp *qp)
{
	mock_lock();
	mock_qp_fail((struct mock_qp *)qp);
	mock_qp_event((struct mock_qp *)qp, IBV_EVENT_QP_FATAL);
	mock_pump();
	mock_unlock();
}
