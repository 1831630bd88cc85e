/* SPDX-License-Identifier: BSD-3-Clause */

/* The mock's events: behind descriptors, as the kernel's are. */

#include "tests/support/mock-verbs-internal.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

int mock_fifo_open(struct mock_fifo *fifo)
{
	fifo->first = NULL;
	fifo->fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
	return fifo->fd;
}

void mock_fifo_close(struct mock_fifo *fifo)
{
	while (fifo->first)
		mock_fifo_purge(fifo, fifo->first->owner);
	close(fifo->fd);
}

void mock_fifo_put(struct mock_fifo *fifo, const struct mock_event *event)
{
	struct mock_event **at = &fifo->first, *copy;
	uint64_t one = 1;

	copy = malloc(sizeof(*copy));
	*copy = *event;
	copy->next = NULL;
	while (*at)
		at = &(*at)->next;
	*at = copy;
	if (write(fifo->fd, &one, sizeof(one)) != sizeof(one))
		abort();
}

int mock_fifo_take(struct mock_fifo *fifo, struct mock_event *ret)
{
	struct mock_event *event;
	uint64_t one;

	for (;;) {
		if (read(fifo->fd, &one, sizeof(one)) != sizeof(one))
			return -1;
		mock_lock();
		event = fifo->first;
		if (event)
			break;
		mock_unlock(); /* Purged meanwhile. */
	}
	fifo->first = event->next;
	*ret = *event;
	free(event);
	return 0;
}

static void drop_token(struct mock_fifo *fifo)
{
	struct pollfd pfd = { .fd = fifo->fd, .events = POLLIN };
	uint64_t one;

	/* One who reads may have it. */
	if (poll(&pfd, 1, 0) == 1 &&
	    read(fifo->fd, &one, sizeof(one)) != sizeof(one))
		abort();
}

void mock_fifo_purge(struct mock_fifo *fifo, const void *owner)
{
	struct mock_event **at = &fifo->first, *event;

	while ((event = *at)) {
		if (event->owner != owner) {
			at = &event->next;
			continue;
		}
		*at = event->next;
		free(event->more);
		free(event);
		drop_token(fifo);
	}
}

/* Asynchronous events. */

static struct mock_fifo *async_of(struct ibv_context *ctx)
{
	return &((struct mock_context *)verbs_get_ctx(ctx))->async;
}

void mock_async_purge(struct ibv_context *ctx, const void *owner)
{
	mock_fifo_purge(async_of(ctx), owner);
}

enum about { ABOUT_DEVICE, ABOUT_CQ, ABOUT_QP, ABOUT_SRQ };

static enum about about_what(enum ibv_event_type type)
{
	switch (type) {
	case IBV_EVENT_CQ_ERR:
		return ABOUT_CQ;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return ABOUT_QP;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return ABOUT_SRQ;
	default:
		return ABOUT_DEVICE;
	}
}

void mock_async(struct ibv_context *ctx, const struct ibv_async_event *event)
{
	struct mock_event e = { .async = *event };

	if (about_what(event->event_type) != ABOUT_DEVICE)
		e.owner = event->element.qp;
	mock_lock();
	mock_fifo_put(async_of(ctx), &e);
	mock_unlock();
}

int ibv_get_async_event(struct ibv_context *ctx, struct ibv_async_event *event)
{
	struct mock_event e;

	if (mock_fifo_take(async_of(ctx), &e))
		return -1;
	*event = e.async;
	if (about_what(event->event_type) == ABOUT_CQ)
		((struct mock_cq *)event->element.cq)->async_reported++;
	if (about_what(event->event_type) == ABOUT_QP)
		mock_qp_reported(event->element.qp);
	if (about_what(event->event_type) == ABOUT_SRQ)
		mock_srq_reported(event->element.srq);
	mock_self.unacked++;
	mock_unlock();
	return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event)
{
	mock_lock();
	if (about_what(event->event_type) == ABOUT_CQ)
		event->element.cq->async_events_completed++;
	if (about_what(event->event_type) == ABOUT_QP)
		event->element.qp->events_completed++;
	if (about_what(event->event_type) == ABOUT_SRQ)
		event->element.srq->events_completed++;
	mock_self.unacked--;
	mock_unlock();
}
