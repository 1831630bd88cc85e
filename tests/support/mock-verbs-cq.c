/* SPDX-License-Identifier: BSD-3-Clause */

/* The mock's completion queues and channels, by the rules of B3. */

#include "tests/support/mock-verbs-internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Channels. */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
	struct mock_channel *ch = calloc(1, sizeof(*ch));

	ch->channel.context = ctx;
	ch->channel.fd = mock_fifo_open(&ch->events);
	if (ch->channel.fd < 0) {
		free(ch);
		return NULL;
	}
	mock_lock();
	mock_self.channels++;
	mock_unlock();
	return &ch->channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	struct mock_channel *ch = (struct mock_channel *)channel;
	bool busy;

	mock_lock();
	busy = channel->refcnt > 0;
	mock_self.channels -= !busy;
	mock_unlock();
	if (busy)
		return EBUSY;
	mock_fifo_close(&ch->events);
	free(ch);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
		     void **cq_context)
{
	struct mock_channel *ch = (struct mock_channel *)channel;
	struct mock_event e;

	if (mock_fifo_take(&ch->events, &e))
		return -1;
	*cq = (struct ibv_cq *)(uintptr_t)e.owner;
	*cq_context = (*cq)->cq_context;
	((struct mock_cq *)*cq)->reported++;
	mock_self.unacked++;
	mock_unlock();
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	mock_lock();
	cq->comp_events_completed += n;
	mock_self.unacked -= (int)n;
	mock_self.acks++;
	mock_unlock();
}

/* Queues. */

static uint32_t rounded_up(uint32_t cqe)
{
	uint32_t size = 2;

	while (size < cqe + 1)
		size *= 2;
	return size - 1;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector)
{
	struct mock_cq *cq;

	if (cqe <= 0 || cqe > MOCK_MAX_CQE || comp_vector < 0 ||
	    comp_vector >= ctx->num_comp_vectors)
		return mock_fail(EINVAL);
	cq = calloc(1, sizeof(*cq));
	cq->size = rounded_up((uint32_t)cqe);
	cq->ring = calloc(cq->size, sizeof(*cq->ring));
	cq->cq.context = ctx;
	cq->cq.channel = channel;
	cq->cq.cq_context = cq_context;
	cq->cq.cqe = (int)cq->size;
	mock_lock();
	if (channel)
		channel->refcnt++;
	mock_self.cqs++;
	mock_unlock();
	return &cq->cq;
}

int ibv_resize_cq(struct ibv_cq *ibcq, int cqe)
{
	struct mock_cq *cq = (struct mock_cq *)ibcq;
	struct mock_cqe *ring;
	uint32_t size, i;

	mock_lock();
	if (cqe <= 0 || cqe > MOCK_MAX_CQE || (uint32_t)cqe < cq->count) {
		mock_unlock();
		return EINVAL;
	}
	size = rounded_up((uint32_t)cqe);
	ring = calloc(size, sizeof(*ring));
	for (i = 0; i < cq->count; i++)
		ring[i] = cq->ring[(cq->head + i) % cq->size];
	free(cq->ring);
	cq->ring = ring;
	cq->size = size;
	cq->head = 0;
	ibcq->cqe = (int)size;
	mock_unlock();
	return 0;
}

static void check_acked(const struct mock_cq *cq)
{
	if (cq->reported != cq->cq.comp_events_completed)
		mock_hang("ibv_destroy_cq", "completion events not acked");
	if (cq->async_reported != cq->cq.async_events_completed)
		mock_hang("ibv_destroy_cq", "async events not acked");
}

int ibv_destroy_cq(struct ibv_cq *ibcq)
{
	struct mock_cq *cq = (struct mock_cq *)ibcq;
	struct mock_channel *ch = (struct mock_channel *)ibcq->channel;

	mock_lock();
	if (cq->users) {
		mock_unlock();
		return EBUSY;
	}
	check_acked(cq);
	mock_async_purge(ibcq->context, ibcq);
	if (ch) {
		mock_fifo_purge(&ch->events, ibcq);
		ch->channel.refcnt--;
	}
	mock_self.cqs--;
	free(cq->ring);
	free(cq);
	mock_unlock();
	return 0;
}

static void fire(struct mock_cq *cq)
{
	struct mock_channel *ch = (struct mock_channel *)cq->cq.channel;
	struct mock_event e = { .owner = cq };

	cq->armed = false;
	if (!ch)
		return;
	mock_self.events++;
	mock_fifo_put(&ch->events, &e);
}

/* B3.6: what does not fit is lost, and all that comes after it. */
static void overrun(struct mock_cq *cq)
{
	struct ibv_async_event event = { .event_type = IBV_EVENT_CQ_ERR,
					 .element.cq = &cq->cq };

	if (cq->dead)
		return;
	cq->dead = true;
	mock_async(cq->cq.context, &event);
	mock_qps_lose(cq);
}

bool mock_cq_push(struct mock_cq *cq, const struct mock_cqe *cqe,
		  bool solicited)
{
	if (cq->dead || cq->count == cq->size) {
		overrun(cq);
		return false;
	}
	cq->ring[(cq->head + cq->count++) % cq->size] = *cqe;
	mock_self.cqes++;
	if (cq->armed && (!cq->solicited_only || solicited ||
			  cqe->wc.status != IBV_WC_SUCCESS))
		fire(cq);
	return true;
}

/* @qp is gone, or begins anew.  What it has in here is removed; but soft-RoCE
 * leaves it. */
void mock_cq_forget(struct mock_cq *cq, struct mock_qp *qp)
{
	bool keeps = mock_model_of(cq->cq.context) == MOCK_RXE;
	struct mock_cqe *cqe;
	uint32_t i, n = 0;

	for (i = 0; i < cq->count; i++) {
		cqe = &cq->ring[(cq->head + i) % cq->size];
		if (cqe->qp == qp) {
			mock_qp_polled(qp, cqe);
			cqe->qp = NULL;
			if (!keeps)
				continue;
		}
		cq->ring[(cq->head + n++) % cq->size] = *cqe;
	}
	cq->count = n;
}

/* B3.5: of an error, no more is valid than four members. */
static void show(struct ibv_wc *wc, const struct ibv_wc *from)
{
	*wc = *from;
	if (from->status == IBV_WC_SUCCESS)
		return;
	memset(wc, 0xa5, sizeof(*wc));
	wc->wr_id = from->wr_id;
	wc->status = from->status;
	wc->qp_num = from->qp_num;
	wc->vendor_err = from->vendor_err;
}

static int poll_cq(struct ibv_cq *ibcq, int n, struct ibv_wc *wc)
{
	struct mock_cq *cq = (struct mock_cq *)ibcq;
	struct mock_cqe *cqe;
	int i;

	mock_lock();
	mock_sim_meanwhile();
	for (i = 0; i < n && cq->count; i++) {
		cqe = &cq->ring[cq->head];
		show(&wc[i], &cqe->wc);
		if (cqe->qp)
			mock_qp_polled(cqe->qp, cqe);
		cq->head = (cq->head + 1) % cq->size;
		cq->count--;
	}
	mock_self.polls++;
	mock_unlock();
	return i;
}

/* B3.2: what is there already does not fire.  One who asks for all is not
 * overruled by one who then asks for less. */
static int req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
	struct mock_cq *cq = (struct mock_cq *)ibcq;

	mock_lock();
	mock_sim_meanwhile();
	cq->solicited_only =
		solicited_only && (!cq->armed || cq->solicited_only);
	cq->armed = true;
	mock_self.arms++;
	mock_sim_meanwhile();
	mock_unlock();
	return 0;
}

void mock_cq_ops(struct ibv_context *ctx)
{
	ctx->ops.poll_cq = poll_cq;
	ctx->ops.req_notify_cq = req_notify_cq;
}

/* What tests tell it. */

bool mock_complete(struct ibv_cq *cq, uint64_t wr_id, int status,
		   bool solicited)
{
	struct mock_cqe cqe = { .wc = { .wr_id = wr_id, .status = status } };
	bool pushed;

	mock_lock();
	pushed = mock_cq_push((struct mock_cq *)cq, &cqe, solicited);
	mock_unlock();
	return pushed;
}

void mock_fire(struct ibv_cq *cq)
{
	mock_lock();
	fire((struct mock_cq *)cq);
	mock_unlock();
}

void mock_overrun(struct ibv_cq *cq)
{
	mock_lock();
	overrun((struct mock_cq *)cq);
	mock_unlock();
}

bool mock_is_armed(const struct ibv_cq *cq)
{
	bool armed;

	mock_lock();
	armed = ((const struct mock_cq *)cq)->armed;
	mock_unlock();
	return armed;
}
