/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Work requests that are no job's: they have their place in the send queue as
 * jobs' have, before what still waits for one.
 */

#include "rdma/engine.h"

void verbs_request_end(struct verbs_queue *q, struct verbs_request *request,
		       int err, int32_t code)
{
	struct weir_conn *c = q->conn;

	request->done(request, err, code);
	conn_end(c);
}

static struct verbs_request *take(struct verbs_queue *q)
{
	struct verbs_request *request = q->requests;

	q->requests = request->next;
	if (!q->requests)
		q->requests_last = &q->requests;
	return request;
}

static void place(struct verbs_queue *q, struct verbs_request *request)
{
	struct verbs_wr *w = verbs_take(q);

	w->request = request;
	w->send = request->send;
	w->send.wr_id = (uintptr_t)&w->wr;
	w->send.send_flags = IBV_SEND_SIGNALED;
}

void verbs_requests_run(struct verbs_queue *q)
{
	while (unlikely(q->requests) && verbs_has_place(q))
		place(q, take(q));
}

void verbs_requests_give_up(struct verbs_queue *q)
{
	while (q->requests)
		verbs_request_end(q, take(q), -ECANCELED,
				  IBV_WC_WR_FLUSH_ERR);
}

int verbs_request(struct verbs_queue *q, struct verbs_request *request)
{
	int err = conn_begin(q->conn);

	if (err)
		return err;
	request->next = NULL;
	*q->requests_last = request;
	q->requests_last = &request->next;
	verbs_pump(q);
	verbs_post(q);
	return 0;
}
