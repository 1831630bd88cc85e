/* SPDX-License-Identifier: CC0-1.0 */
#ifndef CARD_HARDWARE_H
#define CARD_HARDWARE_H

/*
 * What stands for the hardware of card.c: it reads requests from a queue, moves
 * bytes between its memory and this process, and signals an eventfd.  It fails
 * at a broken address, and cannot take a request back.
 */

#include <string.h>
#include <sys/eventfd.h>

#include <weir/domain-user.h>
#include <weir/watch.h>

#include "card.h"

/* Byte @at of a side, and how many follow it in one piece. */
static char *find(const struct card *card, const struct weir_domain_side *side,
		  uint64_t at, uint64_t *left)
{
	const struct iovec *iov = side->iov;

	for (; at >= iov->iov_len; iov++)
		at -= iov->iov_len;
	*left = iov->iov_len - at;
	at += (uintptr_t)iov->iov_base;
	if (!side->domain || weir_domain_ctx(side->domain) != card)
		return (char *)(uintptr_t)at;
	if (card->broken >= at && card->broken - at < *left)
		*left = card->broken - at;
	return card->bytes + at;
}

/* Do the oldest request, and tell of it. */
static void execute(struct card *card)
{
	unsigned int done = atomic_load(&card->done);
	struct card_request *rq = &card->queue[done % CARD_QUEUE];
	int64_t n, total = 0;
	uint64_t a = 1, b;
	char *to, *from;

	for (uint32_t i = 0; i < rq->move->dst.n_iov; i++)
		total += (int64_t)rq->move->dst.iov[i].iov_len;
	for (n = 0; n < total && a; n += (int64_t)a) {
		to = find(card, &rq->move->dst, (uint64_t)n, &a);
		from = find(card, &rq->move->src, (uint64_t)n, &b);
		a = a < b ? a : b;
		memcpy(to, from, a);
	}
	rq->res = n < total ? ~n : n;
	atomic_store(&card->done, done + 1);
	weir_event_signal(card->event);
}

/* The thread, which the doorbell wakes; more than can be is the end. */
static void *hardware(void *arg)
{
	struct card *card = arg;
	eventfd_t n;

	while (!eventfd_read(card->doorbell, &n) && n <= CARD_QUEUE)
		while (n--)
			execute(card);
	return NULL;
}

#endif /* CARD_HARDWARE_H */
