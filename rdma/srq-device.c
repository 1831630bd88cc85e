/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The queue of the device: made for the first connection, filled, and never
 * moved to another one; and what the device tells of it.
 */

#include <string.h>

#include <weir/mmap.h>
#include <weir/pool.h>

#include "base/fault.h"
#include "base/why.h"
#include "rdma/srq-internal.h"
#include "mem/shared-pool-internal.h"

/* Of what is in flight nothing will be told any more. */
static void on_failed(struct weir_channel *channel, int err, void *arg)
{
	struct weir_srq *srq = arg;
	struct srq_member *m;
	unsigned int i;

	(void)channel;
	srq->failed = true;
	for (i = 0; i < SRQ_BUCKETS; i++)
		for (m = srq->members[i]; m; m = m->next)
			conn_fail(m->conn, err);
	deferred_send(&srq->deferred);
}

static int make_channel(struct weir_srq *srq)
{
	struct weir_channel_opts opts = { .size = sizeof(opts),
					  .depth = srq->opts.recvs,
					  .failed = on_failed,
					  .arg = srq };
	int err = weir_channel_create(&srq->channel, srq->r,
				      srq->device_ref->device->ctx, &opts);

	return err ? err : weir_channel_reserve(srq->channel, srq->opts.recvs);
}

/* A device that keeps it is asked once more, later. */
int srq_free_memory(struct weir_srq *srq)
{
	int err;

	if (!srq->mmap)
		return 0;
	weir_pool_destroy(srq->pool);
	srq->pool = NULL;
	err = weir_mmap_destroy(srq->mmap);
	if (!err)
		srq->mmap = NULL;
	return err;
}

static int make_memory(struct weir_srq *srq)
{
	struct weir_pool_opts opts = { .size = sizeof(opts),
				       .bufs = srq->opts.bufs,
				       .buf_size = srq->opts.buf_size,
				       .align = 64 };
	size_t stride = (opts.buf_size + 63) & ~(size_t)63;
	int err = srq_free_memory(srq);

	if (!err)
		err = weir_mmap_create(&srq->mmap, NULL);
	if (!err)
		err = weir_mmap_add_device(srq->mmap,
					   srq->device_ref->device->dev);
	if (!err)
		err = weir_mmap_alloc(srq->mmap, stride * opts.bufs, 0);
	if (!err)
		err = weir_mmap_set_permissions(srq->mmap, WEIR_MMAP_READ |
						WEIR_MMAP_WRITE);
	if (!err)
		err = weir_mmap_start(srq->mmap);
	opts.mmap = srq->mmap;
	return err ? err : weir_pool_create(&srq->pool, srq->r, &opts);
}

static int make_queue(struct weir_srq *srq)
{
	struct ibv_srq_init_attr init = {
		.srq_context = srq,
		.attr = { .max_wr = srq->opts.recvs, .max_sge = 1 },
	};
	int err;

	errno = fault("ibv_create_srq") ? ENOMEM : 0;
	srq->srq = errno ? NULL :
			   ibv_create_srq(srq->device_ref->device->pd, &init);
	if (srq->srq)
		return 0;
	err = conn_error();
	return why(err,
		   "weir_conn: %s refuses a shared receive queue of %u: "
		   "%s",
		   srq->device_ref->device->name, srq->opts.recvs,
		   strerror(-err));
}

static int make_all(struct weir_srq *srq)
{
	int err = make_channel(srq);

	srq->pool = srq->opts.pool;
	if (!err && !srq->pool)
		err = make_memory(srq);
	if (!err)
		err = make_queue(srq);
	return err ? err : srq_fill(srq, true);
}

int srq_bind(struct weir_srq *srq, struct conn_device_ref *device_ref)
{
	int err;

	if (srq->failed)
		return why(-EIO, "weir_conn: the shared receive queue has "
			   "failed; destroy it, and make another");
	if (srq->device_ref && srq->device_ref->device != device_ref->device)
		return why(-EXDEV,
			   "weir_conn: the address is %s's, but the "
			   "shared receive queue is %s's",
			   device_ref->device->name,
			   srq->device_ref->device->name);
	if (srq->device_ref)
		return 0;
	srq->device_ref = device_ref;
	device_ref->refs++;
	srq->ref_next = device_ref->srqs;
	device_ref->srqs = srq;
	err = make_all(srq);
	if (err)
		srq_unbind(srq);
	return err;
}

static void off_ref(struct weir_srq *srq)
{
	struct weir_srq **at = &srq->device_ref->srqs;

	while (*at != srq)
		at = &(*at)->ref_next;
	*at = srq->ref_next;
	conn_device_ref_put(srq->device_ref);
	srq->device_ref = NULL;
}

static void free_channel(struct weir_srq *srq)
{
	struct weir_channel_stats stats = { .size = sizeof(stats) };

	if (!srq->channel)
		return;
	weir_channel_stats(srq->channel, &stats);
	weir_channel_release(srq->channel, stats.reserved);
	weir_channel_destroy(srq->channel);
	srq->channel = NULL;
}

/* The device writes into no buf any more when its queue is gone. */
void srq_unbind(struct weir_srq *srq)
{
	if (!srq->device_ref)
		return;
	if (srq->srq)
		ibv_destroy_srq(srq->srq);
	srq->srq = NULL;
	free_channel(srq);
	shared_pool_wait_end(&srq->wait->op);
	srq_slots_empty(srq);
	(void)srq_free_memory(srq);
	srq->pool = NULL;
	off_ref(srq);
}

static void last_of(struct weir_srq *srq, const struct ibv_qp *qp)
{
	struct srq_member *m;
	unsigned int i;

	for (i = 0; i < SRQ_BUCKETS; i++)
		for (m = srq->members[i]; m; m = m->next)
			m->last |= m->qp == qp;
	for (m = srq->leaving; m; m = m->next)
		if (m->qp == qp)
			srq_last(m);
}

void srq_event(struct conn_device_ref *device_ref,
	       const struct ibv_async_event *ev)
{
	struct weir_srq *srq;

	for (srq = device_ref->srqs; srq; srq = srq->ref_next) {
		if (ev->event_type == IBV_EVENT_QP_LAST_WQE_REACHED) {
			last_of(srq, ev->element.qp);
		} else if (ev->event_type == IBV_EVENT_SRQ_LIMIT_REACHED &&
			   ev->element.srq == srq->srq) {
			srq->stats.low++;
			srq->limited = false;
			srq_fill(srq, true);
		} else if (ev->event_type == IBV_EVENT_SRQ_ERR &&
			   ev->element.srq == srq->srq) {
			on_failed(srq->channel, -EIO, srq);
		}
	}
}
