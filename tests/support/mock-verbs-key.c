/* SPDX-License-Identifier: BSD-3-Clause */

/* The mock's keys, and what they give access to; memory windows. */

#include "tests/support/mock-verbs-internal.h"

#include <errno.h>
#include <stdlib.h>

#define WINDOW_FLAGS \
	(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_ZERO_BASED)

/* An index is used once: what is stale names nothing. */
static struct key {
	struct mock_mr *mr;
	struct mock_mw *mw;
} * keys;
static uint32_t n_keys = 1, capacity;

uint32_t mock_key_new(struct mock_mr *mr, struct mock_mw *mw)
{
	if (n_keys >= capacity) {
		capacity = 2 * capacity + 64;
		keys = realloc(keys, capacity * sizeof(*keys));
	}
	keys[n_keys] = (struct key){ mr, mw };
	return n_keys++ << 8;
}

void mock_key_free(uint32_t key)
{
	keys[(key & ~MOCK_RKEY) >> 8] = (struct key){ NULL, NULL };
}

static struct key find(uint32_t key)
{
	uint32_t i = (key & ~MOCK_RKEY) >> 8;

	return i && i < n_keys ? keys[i] : (struct key){ NULL, NULL };
}

static bool is_within(uint64_t addr, uint64_t len, uint64_t from, uint64_t size)
{
	return addr >= from && addr - from <= size &&
	       len <= size - (addr - from);
}

enum ibv_wc_status mock_local(const struct mock_qp *qp,
			      const struct ibv_sge *sge, unsigned int need,
			      struct mock_span *ret)
{
	struct mock_mr *mr = find(sge->lkey).mr;

	if (!mr || mr->mr.lkey != sge->lkey || mr->mr.pd != qp->qp.pd ||
	    (mr->access & need) != need || !mr->bytes)
		return IBV_WC_LOC_QP_OP_ERR;
	if (!is_within(sge->addr, sge->length, mr->iova, mr->mr.length))
		return IBV_WC_LOC_PROT_ERR;
	ret->at = mr->bytes + (sge->addr - mr->iova);
	ret->len = sge->length;
	return IBV_WC_SUCCESS;
}

/* Soft-RoCE asks for no more than that it is within the region. */
static bool reaches(const struct mock_qp *qp, const struct mock_mw *mw,
		    uint64_t addr, size_t len)
{
	uint64_t base = mw->access & IBV_ACCESS_ZERO_BASED ? mw->addr : 0;

	if (qp->soft)
		return is_within(base + addr, len, mw->mr->iova,
				 mw->mr->mr.length);
	return is_within(base + addr, len, mw->addr, mw->len);
}

static enum ibv_wc_status by_window(const struct mock_qp *qp,
				    const struct mock_mw *mw, uint64_t addr,
				    size_t len, unsigned int need,
				    struct mock_span *ret)
{
	uint64_t base = mw->access & IBV_ACCESS_ZERO_BASED ? mw->addr : 0;

	if (!mw->mr || mw->mw.pd != qp->qp.pd ||
	    (mw->mw.type == IBV_MW_TYPE_2 && mw->qp != qp) ||
	    (mw->access & need) != need || !reaches(qp, mw, addr, len))
		return IBV_WC_REM_ACCESS_ERR;
	ret->at = mw->mr->bytes + (base + addr - mw->mr->iova);
	ret->len = len;
	return IBV_WC_SUCCESS;
}

enum ibv_wc_status mock_remote(const struct mock_qp *qp, uint32_t rkey,
			       uint64_t addr, size_t len, unsigned int need,
			       struct mock_span *ret)
{
	struct key key = find(rkey);

	if (key.mw && key.mw->rkey == rkey)
		return by_window(qp, key.mw, addr, len, need, ret);
	if (!key.mr || key.mr->mr.rkey != rkey || key.mr->mr.pd != qp->qp.pd ||
	    (key.mr->access & need) != need || !key.mr->bytes ||
	    !is_within(addr, len, key.mr->iova, key.mr->mr.length))
		return IBV_WC_REM_ACCESS_ERR;
	ret->at = key.mr->bytes + (addr - key.mr->iova);
	ret->len = len;
	return IBV_WC_SUCCESS;
}

/* Memory windows, by the rules of B2.8. */

static struct ibv_mw *alloc_mw(struct ibv_pd *pd, enum ibv_mw_type type)
{
	struct mock_mw *mw;

	if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)
		return mock_fail(EINVAL);
	mw = calloc(1, sizeof(*mw));
	mock_lock();
	mw->rkey = mock_key_new(NULL, mw) + MOCK_RKEY;
	mw->mw.context = pd->context;
	mw->mw.pd = pd;
	mw->mw.rkey = mw->rkey;
	mw->mw.type = type;
	((struct mock_pd *)pd)->children++;
	mock_self.mws++;
	mock_unlock();
	return &mw->mw;
}

static void unbind(struct mock_mw *mw)
{
	if (mw->mr)
		mw->mr->windows--;
	mw->mr = NULL;
	mw->qp = NULL;
}

static int dealloc_mw(struct ibv_mw *ibmw)
{
	struct mock_mw *mw = (struct mock_mw *)ibmw;

	mock_lock();
	unbind(mw);
	mock_key_free(mw->rkey);
	((struct mock_pd *)ibmw->pd)->children--;
	mock_self.mws--;
	mock_unlock();
	free(mw);
	return 0;
}

static bool may_bind(const struct mock_qp *qp, const struct mock_wqe *wqe)
{
	const struct mock_mr *mr = (struct mock_mr *)wqe->bind.mr;
	unsigned int access = wqe->bind.mw_access_flags;

	if (wqe->mw->mw.type == IBV_MW_TYPE_2 && wqe->mw->mr)
		return false;
	if (wqe->mw_key != wqe->mw->rkey)
		return false;
	if (!wqe->bind.length)
		return wqe->mw->mw.type == IBV_MW_TYPE_1;
	if (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC) &&
	    !(mr->access & IBV_ACCESS_LOCAL_WRITE))
		return false;
	return mr && !(access & ~(unsigned int)WINDOW_FLAGS) && mr->bytes &&
	       (mr->access & IBV_ACCESS_MW_BIND) &&
	       mr->mr.pd == wqe->mw->mw.pd && qp->qp.pd == mr->mr.pd &&
	       is_within(wqe->bind.addr, wqe->bind.length, mr->iova,
			 mr->mr.length);
}

enum ibv_wc_status mock_bind(struct mock_qp *qp, const struct mock_wqe *wqe)
{
	struct mock_mw *mw = wqe->mw;

	if (!may_bind(qp, wqe))
		return IBV_WC_MW_BIND_ERR;
	unbind(mw);
	mw->rkey = (mw->rkey & ~0xffu) | (wqe->rkey & 0xff);
	if (!wqe->bind.length)
		return IBV_WC_SUCCESS;
	mw->mr = (struct mock_mr *)wqe->bind.mr;
	mw->mr->windows++;
	mw->qp = mw->mw.type == IBV_MW_TYPE_2 ? qp : NULL;
	mw->addr = wqe->bind.addr;
	mw->len = wqe->bind.length;
	mw->access = wqe->bind.mw_access_flags;
	return IBV_WC_SUCCESS;
}

/* By LOCAL_INV, or by SEND_WITH_INV from the peer of @qp. */
bool mock_invalidate(struct mock_qp *qp, uint32_t rkey)
{
	struct mock_mw *mw = find(rkey).mw;

	if (!mw || mw->rkey != rkey || mw->mw.type != IBV_MW_TYPE_2 ||
	    (mw->mr && mw->qp != qp))
		return false;
	unbind(mw);
	return true;
}

/* Its QP is gone. */
void mock_unbind_all(const struct mock_qp *qp)
{
	uint32_t i;

	for (i = 1; i < n_keys; i++)
		if (keys[i].mw && keys[i].mw->qp == qp)
			unbind(keys[i].mw);
}

/* Type 1: the call gives it its next key. */
static int bind_mw(struct ibv_qp *qp, struct ibv_mw *mw,
		   struct ibv_mw_bind *bind)
{
	struct ibv_send_wr wr = {
		.wr_id = bind->wr_id,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = bind->send_flags,
		.bind_mw = { mw, ibv_inc_rkey(mw->rkey), bind->bind_info },
	}, *bad;
	int err = ibv_post_send(qp, &wr, &bad);

	if (!err)
		mw->rkey = wr.bind_mw.rkey;
	return err;
}

void mock_window_ops(struct ibv_context *ctx)
{
	ctx->ops.alloc_mw = alloc_mw;
	ctx->ops.dealloc_mw = dealloc_mw;
	ctx->ops.bind_mw = bind_mw;
}
