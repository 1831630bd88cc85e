/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Shared receive queues: their slots and bufs, the queue of the device, the
 * connections that are members, create and destroy.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/mmap.h>
#include <weir/pool.h>
#include <weir/provider.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "base/why.h"
#include "rdma/srq-internal.h"

/*
 * Posting bufs to a shared receive queue.
 *
 * When a batch is missing it is posted, as one list.  When the device reports
 * that few are left, all available bufs are posted.  If the pool has none, the
 * queue waits for bufs of the pool.
 */

/* Between two tries; twice as long each time, for a cause may be for ever. */
#define AGAIN_NS WEIR_MSEC
#define AGAIN_MAX_NS WEIR_SEC

static void on_buf(struct weir_op *op, int64_t res);

static void on_again(struct weir_timer *timer, uint64_t n, void *srq)
{
	(void)timer, (void)n;
	srq_fill(srq, true);
}

static void srq_slots_empty(struct weir_srq *srq);

static int srq_slots_create(struct weir_srq *srq)
{
	srq->slots = mem_calloc(srq->opts.recvs, sizeof(*srq->slots));
	srq->wait = mem_calloc(1, sizeof(*srq->wait));
	if (!srq->slots || !srq->wait)
		return why(-ENOMEM, "weir_srq_create: no memory");
	srq->wait->srq = srq;
	srq->again_ns = AGAIN_NS;
	weir_op_init(&srq->wait->op, on_buf);
	srq_slots_empty(srq);
	return 0;
}

static void srq_slots_empty(struct weir_srq *srq)
{
	struct srq_slot *slot;

	weir_timer_stop(srq->again);
	srq->free = NULL;
	for (slot = srq->slots; slot < srq->slots + srq->opts.recvs; slot++) {
		weir_buf_put(slot->buf);
		slot->srq = srq;
		srq_slot_free(slot);
	}
	srq->n_posted = 0;
	srq->limited = false;
}

/* An operation that still waits for a buf ends later, without the queue. */
static void srq_slots_destroy(struct weir_srq *srq)
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

/* Bufs that are with the queue, waiting for a message or a callback. */
static uint32_t srq_n_bufs(const struct weir_srq *srq)
{
	const struct weir_op *op = &srq->wait->op;
	uint32_t i, n = weir_op_is_busy(op) && !srq->wait->gave_back &&
			weir_pool_taken(op);

	for (i = 0; i < srq->opts.recvs; i++)
		n += srq->slots[i].buf != NULL;
	return n;
}

/* @buf into the first free slot, to be posted. */
static int load(struct weir_srq *srq, struct weir_buf *buf)
{
	struct srq_slot *slot = srq->free;
	struct weir_provider_key key = { .lkey = 0 };
	int err = weir_buf_key(buf, srq->device_ref->device->dev, &key);

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
	slot->sge.lkey = key.lkey;
	slot->recv = (struct ibv_recv_wr){ .wr_id = (uintptr_t)&slot->wr,
					   .sg_list = &slot->sge,
					   .num_sge = 1 };
	return 0;
}

static void try_later(struct weir_srq *srq, uint64_t ns)
{
	weir_timer_start(srq->again, weir_reactor_now(srq->r) + ns, 0);
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
	int err = weir_fault("ibv_post_srq_recv") ? ENOMEM :
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
	srq->wait->gave_back = false;
	if (weir_pool_wait(srq->pool, &srq->wait->op))
		try_later(srq, AGAIN_NS);
}

/* Post as many bufs as there are, beginning with @buf if it is not NULL.  What
 * failed is tried again a little later. */
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

/* The device may have reported this before its completions were delivered. */
static bool is_low(const struct weir_srq *srq)
{
	return !srq->limited && srq->n_posted <= srq->opts.low;
}

int srq_fill(struct weir_srq *srq, bool all)
{
	uint32_t missing = srq->opts.recvs - srq->n_posted - srq->n_held;

	rdma_check_thread(srq->r);
	if (!srq->srq || srq->failed)
		return 0;
	if (!all && missing < srq->opts.batch && !is_low(srq))
		return 0;
	return fill(srq, NULL);
}

/* A buf that has come, and whose callback has not begun, goes back now. */
static void end_wait(struct srq_wait *wait)
{
	if (!weir_op_is_busy(&wait->op) || wait->gave_back)
		return;
	weir_op_cancel(&wait->op);
	wait->gave_back = weir_pool_taken(&wait->op);
	if (wait->gave_back)
		weir_buf_put(weir_pool_taken(&wait->op));
}

/* There is no buf if the wait was ended because the device is no longer
 * ours. */
static void on_buf(struct weir_op *op, int64_t res)
{
	struct srq_wait *wait = weir_container_of(op, struct srq_wait, op);
	struct weir_buf *buf = res < 0 || wait->gave_back ?
				       NULL :
				       weir_pool_taken(op);
	struct weir_srq *srq = wait->srq;

	if (srq && srq->srq && !srq->failed) {
		fill(srq, buf);
		return;
	}
	weir_buf_put(buf);
	if (!srq)
		free(wait);
}

/*
 * The queue of the device: made for the first connection, filled, and never
 * moved to another one; and what the device tells of it.
 */

/* No completion will come for what is in flight. */
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
	weir_object_notify(srq->obj);
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

/* If the device refuses, this is tried once more later. */
static int srq_free_memory(struct weir_srq *srq)
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

	debug_check(!srq->srq);
	errno = weir_fault("ibv_create_srq") ? ENOMEM : 0;
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

static void srq_unbind(struct weir_srq *srq);

static void srq_event(struct conn_device_ref *device_ref,
		      const struct ibv_async_event *ev);

int srq_bind(struct weir_srq *srq, struct conn_device_ref *device_ref)
{
	int err;

	rdma_check_thread(srq->r);
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
	device_ref->srq_event = srq_event;
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

	debug_check(!srq->srq);
	if (!srq->channel)
		return;
	weir_channel_stats(srq->channel, &stats);
	weir_channel_release(srq->channel, stats.reserved);
	weir_channel_destroy(srq->channel);
	srq->channel = NULL;
}

/* The device writes into no buf any more when its queue is gone. */
static void srq_unbind(struct weir_srq *srq)
{
	if (!srq->device_ref)
		return;
	if (srq->srq)
		ibv_destroy_srq(srq->srq);
	srq->srq = NULL;
	free_channel(srq);
	end_wait(srq->wait);
	srq_slots_empty(srq);
	(void)srq_free_memory(srq);
	srq->pool = NULL;
	off_ref(srq);
}

static void srq_last(struct srq_member *m);

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

static void srq_event(struct conn_device_ref *device_ref,
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

/*
 * QPs that receive from a shared queue, by number; and what comes after their
 * connections have gone: see struct srq_member.
 */

/* Soft-RoCE sends no event for the last buf that a QP has taken, so wait this
 * long. */
#define LAST_NS (100 * WEIR_MSEC)

static struct srq_member **bucket(struct weir_srq *srq, uint32_t qp_num)
{
	return &srq->members[qp_num % SRQ_BUCKETS];
}

struct weir_conn *srq_find(const struct weir_srq *srq, uint32_t qp_num)
{
	struct srq_member *m = *bucket((struct weir_srq *)srq, qp_num);

	rdma_check_thread(srq->r);
	while (m && m->qp_num != qp_num)
		m = m->next;
	return m ? m->conn : NULL;
}

static void on_time(struct weir_timer *timer, uint64_t n, void *member)
{
	(void)timer, (void)n;
	srq_last(member);
}

/* Before the QP is there, for its end needs no memory. */
int srq_join(struct weir_conn *c)
{
	struct srq_member *m = mem_calloc(1, sizeof(*m));

	debug_check(!c->member);
	rdma_check_thread(c->r);
	if (!m || weir_timer_create(&m->timer, c->r, on_time, m)) {
		free(m);
		return why(-ENOMEM, "weir_conn: no memory");
	}
	m->srq = c->opts.srq;
	m->conn = c;
	c->member = m;
	return 0;
}

void srq_unjoin(struct weir_conn *c)
{
	rdma_check_thread(c->r);
	if (c->member)
		weir_timer_destroy(c->member->timer);
	free(c->member);
	c->member = NULL;
}

void srq_joined(struct weir_conn *c)
{
	struct srq_member *m = c->member, **at;

	debug_check(c->member && c->qp);
	rdma_check_thread(c->r);
	m->qp = c->qp;
	m->qp_num = c->qp->qp_num;
	at = bucket(m->srq, m->qp_num);
	m->next = *at;
	*at = m;
}

void srq_mark_set(const struct weir_srq *srq, struct srq_mark *mark)
{
	struct weir_channel_stats stats = { .size = sizeof(stats) };

	rdma_check_thread(srq->r);
	weir_channel_stats(srq->channel, &stats);
	mark->empty_polls = stats.empty_polls;
	mark->completions = stats.completions;
}

/* The queue was found empty, or all that can have been in it was delivered. */
bool srq_mark_passed(const struct weir_srq *srq, const struct srq_mark *mark)
{
	struct weir_channel_stats stats = { .size = sizeof(stats) };

	rdma_check_thread(srq->r);
	weir_channel_stats(srq->channel, &stats);
	return srq->failed || stats.empty_polls != mark->empty_polls ||
	       stats.completions - mark->completions >= stats.capacity;
}

static void bury(struct srq_member *m)
{
	debug_check(!m->conn);
	weir_timer_destroy(m->timer);
	ibv_destroy_qp(m->qp);
	conn_beat_free(m->beat, m->channel, m->qp_num, m->orphans);
	weir_channel_release(m->channel, m->credits);
	if (m->owns_channel)
		weir_channel_destroy(m->channel);
	free(m);
}

static void srq_last(struct srq_member *m)
{
	if (m->state != SRQ_LAST)
		return;
	m->state = SRQ_DRAIN;
	srq_mark_set(m->srq, &m->mark);
	weir_object_notify(m->srq->obj);
}

static void off_bucket(struct srq_member *m)
{
	struct srq_member **at = bucket(m->srq, m->qp_num);

	debug_check(m->conn);
	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
}

void srq_leave(struct weir_conn *c)
{
	struct srq_member *m = c->member;
	struct weir_srq *srq = m->srq;

	debug_check(c->member && c->member->conn == c);
	rdma_check_thread(c->r);
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
	weir_timer_start(m->timer, weir_reactor_now(srq->r) + LAST_NS, 0);
}

static void srq_run(void *arg)
{
	struct weir_srq *srq = arg;
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
		weir_object_notify(srq->obj);
}

/* The queue itself goes: nothing that they still have is missed. */
static void srq_bury_all(struct weir_srq *srq)
{
	struct srq_member *m;

	while ((m = srq->leaving)) {
		srq->leaving = m->next;
		srq->n_leaving--;
		bury(m);
	}
}

/* Shared receive queues: create and destroy, and the getters. */

#define RECVS_DEFAULT 256
#define BUF_SIZE_DEFAULT 4096
#define MOST (1u << 20)

static void fill_in(struct weir_srq_opts *opts)
{
	if (!opts->recvs)
		opts->recvs = RECVS_DEFAULT;
	if (!opts->batch)
		opts->batch = (opts->recvs + 15) / 16;
	if (!opts->low)
		opts->low = (opts->recvs + 3) / 4;
	if (!opts->bufs)
		opts->bufs = 2 * opts->recvs;
	if (!opts->buf_size)
		opts->buf_size = BUF_SIZE_DEFAULT;
}

static int load_opts(struct weir_srq_opts *opts,
		     const struct weir_srq_opts *user,
		     const struct weir_reactor *r)
{
	int err = opts_load(opts, sizeof(*opts), user, "weir_srq_create");

	if (err)
		return err;
	if (opts->pool && (opts->bufs || opts->buf_size))
		return why(-EINVAL, "weir_srq_create: .bufs and .buf_size are "
			   "the pool's, if there is .pool");
	if (opts->pool && weir_pool_reactor(opts->pool) != r)
		return why(-EXDEV, "weir_srq_create: .pool is another "
			   "reactor's");
	if (opts->recvs > MOST || opts->bufs > 2 * MOST ||
	    opts->buf_size > MOST)
		return why(-EINVAL, "weir_srq_create: .recvs and .buf_size are "
			   "at most %u, .bufs %u", MOST, 2 * MOST);
	fill_in(opts);
	if (opts->batch > opts->recvs || opts->low > opts->recvs)
		return why(-EINVAL, "weir_srq_create: .batch and .low are at "
			   "most .recvs, %u", opts->recvs);
	return 0;
}

static const struct weir_object_ops object_ops = {
	.size = sizeof(object_ops),
	.name = "weir_srq",
	.notified = srq_run,
};

static void srq_free(struct weir_srq *srq)
{
	srq_slots_destroy(srq);
	weir_timer_destroy(srq->again);
	weir_object_destroy(srq->obj);
	free(srq);
}

int weir_srq_create(struct weir_srq **ret, struct weir_reactor *r,
		    const struct weir_srq_opts *user)
{
	struct weir_srq_opts opts;
	struct weir_srq *srq;
	int err = load_opts(&opts, user, r);

	if (err)
		return err;
	srq = mem_calloc(1, sizeof(*srq));
	if (!srq)
		return why(-ENOMEM, "weir_srq_create: no memory");
	srq->r = r;
	srq->opts = opts;
	err = weir_object_create(&srq->obj, r, &object_ops, "", srq);
	if (err)
		why_call(err, "weir_object_create", "weir_srq_create");
	if (!err)
		err = weir_timer_create(&srq->again, r, on_again, srq);
	if (!err)
		err = srq_slots_create(srq);
	if (err) {
		srq_free(srq);
		return err;
	}
	*ret = srq;
	return 0;
}

/* Bufs that users hold of a pool that is destroyed with the queue. */
static uint64_t n_out(const struct weir_srq *srq)
{
	struct weir_pool_stats stats = { .size = sizeof(stats) };

	if (!srq->mmap || !srq->pool)
		return 0;
	weir_pool_stats(srq->pool, &stats);
	return stats.out + stats.in_transit - srq_n_bufs(srq);
}

int weir_srq_destroy(struct weir_srq *srq)
{
	int err;

	if (!srq)
		return 0;
	if (srq->n_users)
		return why(-EBUSY, "weir_srq_destroy: %u connections or "
			   "listeners use it", srq->n_users);
	if (n_out(srq))
		return why(-EBUSY, "weir_srq_destroy: %llu bufs of messages "
			   "were not put", (unsigned long long)n_out(srq));
	srq_bury_all(srq);
	srq_unbind(srq);
	err = srq_free_memory(srq);
	if (err)
		return err;
	srq_free(srq);
	return 0;
}

int weir_srq_stats(const struct weir_srq *srq, struct weir_srq_stats *ret)
{
	struct weir_srq_stats stats = srq->stats;

	stats.recvs = srq->opts.recvs;
	stats.posted = srq->n_posted;
	stats.held = srq->n_held;
	stats.users = srq->n_users;
	stats.leaving = srq->n_leaving;
	if (srq->device_ref)
		snprintf(stats.device, sizeof(stats.device), "%s",
			 srq->device_ref->device->name);
	return opts_give(ret, &stats, sizeof(stats), "weir_srq_stats");
}
