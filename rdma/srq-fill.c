/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Bufs into a shared receive queue.
 *
 * When a batch is missing, it is posted, as one list.  When the device says
 * that it has few, all are that there are.  If the pool has none, the queue is
 * one of those that wait for it.
 */

#include <stdlib.h>

#include <weir/pool.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/why.h"
#include "rdma/srq-internal.h"
#include "mem/shared-pool-internal.h"

/* Between two tries; twice as long each time, for a cause may be for ever. */
#define AGAIN_NS WEIR_MSEC
#define AGAIN_MAX_NS WEIR_SEC

static void on_buf(struct weir_op *op, int64_t res);

static void on_again(struct weir_timer_node *node)
{
	srq_fill(weir_container_of(node, struct weir_srq, again), true);
}

int srq_slots_create(struct weir_srq *srq)
{
	srq->slots = mem_calloc(srq->opts.recvs, sizeof(*srq->slots));
	srq->wait = mem_calloc(1, sizeof(*srq->wait));
	if (!srq->slots || !srq->wait)
		return why(-ENOMEM, "weir_srq_create: no memory");
	srq->wait->srq = srq;
	srq->again.fire = on_again;
	srq->again_ns = AGAIN_NS;
	weir_op_init(&srq->wait->op, on_buf);
	srq_slots_empty(srq);
	return 0;
}

void srq_slots_empty(struct weir_srq *srq)
{
	struct srq_slot *slot;

	wheel_del(&srq->r->wheel, &srq->again);
	srq->free = NULL;
	for (slot = srq->slots; slot < srq->slots + srq->opts.recvs; slot++) {
		weir_buf_put(slot->buf);
		slot->srq = srq;
		srq_slot_free(slot);
	}
	srq->n_posted = 0;
	srq->limited = false;
}

/* What has waited for a buf is called once more, without us. */
void srq_slots_destroy(struct weir_srq *srq)
{
	if (srq->wait && weir_op_is_busy(&srq->wait->op)) {
		srq->wait->srq = NULL;
		srq->wait = NULL;
	}
	free(srq->wait);
	free(srq->slots);
}

void srq_slot_free(struct srq_slot *slot)
{
	slot->buf = NULL;
	slot->next = slot->srq->free;
	slot->srq->free = slot;
}

void srq_slot_drop(struct srq_slot *slot)
{
	weir_buf_put(slot->buf);
	srq_slot_free(slot);
}

uint32_t srq_n_bufs(const struct weir_srq *srq)
{
	const struct weir_op *op = &srq->wait->op;
	uint32_t i, n = weir_op_is_busy(op) && shared_pool_taken(op);

	for (i = 0; i < srq->opts.recvs; i++)
		n += srq->slots[i].buf != NULL;
	return n;
}

/* @buf into the first free slot, to be posted. */
static int load(struct weir_srq *srq, struct weir_buf *buf)
{
	struct srq_slot *slot = srq->free;
	int err = mmap_use_key(buf->use, srq->device_ref->device->dev,
			       &slot->sge.lkey);

	if (err) {
		weir_buf_put(buf);
		return why(err == -ENOENT ? -EXDEV : err,
			   "weir_conn: the pool "
			   "of the shared receive queue has memory that %s "
			   "does not know",
			   srq->device_ref->device->name);
	}
	srq->free = slot->next;
	slot->buf = buf;
	slot->wr.fn = message_on_wr;
	slot->sge.addr = (uintptr_t)weir_buf_addr(buf);
	slot->sge.length = (uint32_t)weir_buf_len(buf);
	slot->recv = (struct ibv_recv_wr){ .wr_id = (uintptr_t)&slot->wr,
					   .sg_list = &slot->sge,
					   .num_sge = 1 };
	return 0;
}

static void try_later(struct weir_srq *srq, uint64_t ns)
{
	wheel_rearm(&srq->r->wheel, &srq->again, reactor_now(srq->r) + ns);
	reactor_touch(srq->r);
}

static void try_after_failure(struct weir_srq *srq)
{
	try_later(srq, srq->again_ns);
	srq->again_ns *= 2;
	if (srq->again_ns > AGAIN_MAX_NS)
		srq->again_ns = AGAIN_MAX_NS;
}

static int post(struct weir_srq *srq, struct ibv_recv_wr *first)
{
	struct ibv_recv_wr *bad = first, *next;
	int err = fault("ibv_post_srq_recv") ? ENOMEM :
		  ibv_post_srq_recv(srq->srq, first, &bad);

	srq->stats.batches++;
	if (likely(!err))
		return 0;
	for (; bad; bad = next) {
		next = bad->next;
		srq_slot_drop(weir_container_of(bad, struct srq_slot, recv));
		srq->n_posted--;
	}
	return why(-err, "weir_conn: %s takes no receive: error %d",
		   srq->device_ref->device->name, err);
}

/* It tells once. */
static void watch(struct weir_srq *srq)
{
	struct ibv_srq_attr attr = { .srq_limit = srq->opts.low };

	if (!srq->limited && srq->n_posted > srq->opts.low)
		srq->limited = !ibv_modify_srq(srq->srq, &attr, IBV_SRQ_LIMIT);
}

/* It cannot if too many do, or if the reactor stops: then after its start. */
static void wait_for_buf(struct weir_srq *srq)
{
	if (!srq->free || weir_op_is_busy(&srq->wait->op))
		return;
	srq->stats.starved++;
	if (weir_pool_wait(srq->pool, &srq->wait->op))
		try_later(srq, AGAIN_NS);
}

/* As many as there are, and @buf, if it is one, first.  What failed is tried
 * again a little later. */
static int fill(struct weir_srq *srq, struct weir_buf *buf)
{
	struct ibv_recv_wr *first = NULL, **last = &first;
	struct srq_slot *slot;
	int err = 0, refused = 0, empty = 0;

	while ((slot = srq->free)) {
		if (!buf)
			empty = weir_pool_get(&buf, srq->pool);
		if (empty)
			break;
		err = load(srq, buf);
		buf = NULL;
		if (err)
			break;
		*last = &slot->recv;
		last = &slot->recv.next;
		srq->n_posted++;
	}
	weir_buf_put(buf);
	if (first) {
		refused = post(srq, first);
		watch(srq);
	}
	if (err || refused) {
		try_after_failure(srq);
		return err ? err : refused;
	}
	srq->again_ns = AGAIN_NS;
	if (empty)
		wait_for_buf(srq);
	return 0;
}

/* The device may have said so before we were told what came. */
static bool is_low(const struct weir_srq *srq)
{
	return !srq->limited && srq->n_posted <= srq->opts.low;
}

int srq_fill(struct weir_srq *srq, bool all)
{
	uint32_t missing = srq->opts.recvs - srq->n_posted - srq->n_held;

	if (!srq->srq || srq->failed)
		return 0;
	if (!all && missing < srq->opts.batch && !is_low(srq))
		return 0;
	return fill(srq, NULL);
}

/* Without a buf if the wait was ended, for a device that is ours no more. */
static void on_buf(struct weir_op *op, int64_t res)
{
	struct srq_wait *wait = weir_container_of(op, struct srq_wait, op);
	struct weir_buf *buf = res < 0 ? NULL : shared_pool_taken(op);
	struct weir_srq *srq = wait->srq;

	if (srq && srq->srq && !srq->failed) {
		fill(srq, buf);
		return;
	}
	weir_buf_put(buf);
	if (!srq)
		free(wait);
}
