/* SPDX-License-Identifier: BSD-3-Clause */

/* The stand-in's completion queues and channels, by the rules of B3. */

#include "tests/standin-verbs-internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Channels. */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ctx)
{
	struct standin_channel *ch = calloc(1, sizeof(*ch));

	ch->channel.context = ctx;
	ch->channel.fd = standin_fifo_open(&ch->events);
	if (ch->channel.fd < 0) {
		free(ch);
		return NULL;
	}
	standin_lock();
	standin_self.channels++;
	standin_unlock();
	return &ch->channel;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
	struct standin_channel *ch = (struct standin_channel *)channel;
	bool busy;

	standin_lock();
	busy = channel->refcnt > 0;
	standin_self.channels -= !busy;
	standin_unlock();
	if (busy)
		return EBUSY;
	standin_fifo_close(&ch->events);
	free(ch);
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq,
		     void **cq_context)
{
	struct standin_channel *ch = (struct standin_channel *)channel;
	struct standin_event e;

	if (standin_fifo_take(&ch->events, &e))
		return -1;
	*cq = (struct ibv_cq *)(uintptr_t)e.owner;
	*cq_context = (*cq)->cq_context;
	((struct standin_cq *)*cq)->reported++;
	standin_self.unacked++;
	standin_unlock();
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	standin_lock();
	cq->comp_events_completed += n;
	standin_self.unacked -= (int)n;
	standin_self.acks++;
	standin_unlock();
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
	struct standin_cq *cq;

	if (cqe <= 0 || cqe > STANDIN_MAX_CQE || comp_vector < 0 ||
	    comp_vector >= ctx->num_comp_vectors)
		return standin_fail(EINVAL);
	cq = calloc(1, sizeof(*cq));
	cq->size = rounded_up((uint32_t)cqe);
	cq->ring = calloc(cq->size, sizeof(*cq->ring));
	cq->cq.context = ctx;
	cq->cq.channel = channel;
	cq->cq.cq_context = cq_context;
	cq->cq.cqe = (int)cq->size;
	standin_lock();
	if (channel)
		channel->refcnt++;
	standin_self.cqs++;
	standin_unlock();
	return &cq->cq;
}

int ibv_resize_cq(struct ibv_cq *ibcq, int cqe)
{
	struct standin_cq *cq = (struct standin_cq *)ibcq;
	struct standin_cqe *ring;
	uint32_t size, i;

	standin_lock();
	if (cqe <= 0 || cqe > STANDIN_MAX_CQE || (uint32_t)cqe < cq->count) {
		standin_unlock();
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
	standin_unlock();
	return 0;
}

static void check_acked(const struct standin_cq *cq)
{
	if (cq->reported != cq->cq.comp_events_completed)
		standin_hang("ibv_destroy_cq", "completion events not acked");
	if (cq->async_reported != cq->cq.async_events_completed)
		standin_hang("ibv_destroy_cq", "async events not acked");
}

int ibv_destroy_cq(struct ibv_cq *ibcq)
{
	struct standin_cq *cq = (struct standin_cq *)ibcq;
	struct standin_channel *ch = (struct standin_channel *)ibcq->channel;

	standin_lock();
	if (cq->users) {
		standin_unlock();
		return EBUSY;
	}
	check_acked(cq);
	standin_async_purge(ibcq->context, ibcq);
	if (ch) {
		standin_fifo_purge(&ch->events, ibcq);
		ch->channel.refcnt--;
	}
	standin_self.cqs--;
	free(cq->ring);
	free(cq);
	standin_unlock();
	return 0;
}

static void fire(struct standin_cq *cq)
{
	struct standin_channel *ch = (struct standin_channel *)cq->cq.channel;
	struct standin_event e = { .owner = cq };

	cq->armed = false;
	if (!ch)
		return;
	standin_self.events++;
	standin_fifo_put(&ch->events, &e);
}

/* B3.6: what does not fit is lost, and all that comes after it. */
static void overrun(struct standin_cq *cq)
{
	struct ibv_async_event event = { .event_type = IBV_EVENT_CQ_ERR,
					 .element.cq = &cq->cq };

	if (cq->dead)
		return;
	cq->dead = true;
	standin_async(cq->cq.context, &event);
	standin_qps_lose(cq);
}

bool standin_cq_push(struct standin_cq *cq, const struct standin_cqe *cqe,
		     bool solicited)
{
	if (cq->dead || cq->count == cq->size) {
		overrun(cq);
		return false;
	}
	cq->ring[(cq->head + cq->count++) % cq->size] = *cqe;
	standin_self.cqes++;
	if (cq->armed && (!cq->solicited_only || solicited ||
			  cqe->wc.status != IBV_WC_SUCCESS))
		fire(cq);
	return true;
}

/* @qp is gone, or begins anew.  What it has in here is removed; but soft-RoCE
 * leaves it. */
void standin_cq_forget(struct standin_cq *cq, struct standin_qp *qp)
{
	bool keeps = standin_model_of(cq->cq.context) == STANDIN_RXE;
	struct standin_cqe *cqe;
	uint32_t i, n = 0;

	for (i = 0; i < cq->count; i++) {
		cqe = &cq->ring[(cq->head + i) % cq->size];
		if (cqe->qp == qp) {
			standin_qp_polled(qp, cqe);
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
	struct standin_cq *cq = (struct standin_cq *)ibcq;
	struct standin_cqe *cqe;
	int i;

	standin_lock();
	standin_sim_meanwhile();
	for (i = 0; i < n && cq->count; i++) {
		cqe = &cq->ring[cq->head];
		show(&wc[i], &cqe->wc);
		if (cqe->qp)
			standin_qp_polled(cqe->qp, cqe);
		cq->head = (cq->head + 1) % cq->size;
		cq->count--;
	}
	standin_self.polls++;
	standin_unlock();
	return i;
}

/* B3.2: what is there already does not fire.  One who asks for all is not
 * overruled by one who then asks for less. */
static int req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
	struct standin_cq *cq = (struct standin_cq *)ibcq;

	standin_lock();
	standin_sim_meanwhile();
	cq->solicited_only = solicited_only &&
			     (!cq->armed || cq->solicited_only);
	cq->armed = true;
	standin_self.arms++;
	standin_sim_meanwhile();
	standin_unlock();
	return 0;
}

void standin_cq_ops(struct ibv_context *ctx)
{
	ctx->ops.poll_cq = poll_cq;
	ctx->ops.req_notify_cq = req_notify_cq;
}

/* What tests tell it. */

bool standin_complete(struct ibv_cq *cq, uint64_t wr_id, int status,
		      bool solicited)
{
	struct standin_cqe cqe = { .wc = { .wr_id = wr_id,
					   .status = status } };
	bool pushed;

	standin_lock();
	pushed = standin_cq_push((struct standin_cq *)cq, &cqe, solicited);
	standin_unlock();
	return pushed;
}

void standin_fire(struct ibv_cq *cq)
{
	standin_lock();
	fire((struct standin_cq *)cq);
	standin_unlock();
}

void standin_overrun(struct ibv_cq *cq)
{
	standin_lock();
	overrun((struct standin_cq *)cq);
	standin_unlock();
}

bool standin_is_armed(const struct ibv_cq *cq)
{
	bool armed;

	standin_lock();
	armed = ((const struct standin_cq *)cq)->armed;
	standin_unlock();
	return armed;
}
