/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Atomics at a peer.  Each is one work request.  What the word was comes into
 * memory that the device knows: a word for each place of the ring, which is
 * registered at the first atomic, and with the QP until it goes.
 */

#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/why.h"
#include "rdma/engine.h"

/* Not connected: that is another answer, and another device's another time. */
bool verbs_can_atomic(const struct weir_dma *dma,
		      const struct weir_domain *domain, const char **why)
{
	const struct weir_conn *c;

	*why = "only a peer by RDMA";
	if (!domain_is_remote(domain))
		return false;
	c = domain_remote_link((struct weir_domain *)domain);
	if (!c || !dma || c->r != dma->r || !c->device_ref ||
	    c->device_ref->device->attr.atomic_cap != IBV_ATOMIC_NONE)
		return true;
	*why = "the device of the connection does no atomics";
	return false;
}

static int no_counters(struct verbs_queue *q, int err)
{
	free(q->words);
	q->words = NULL;
	return why(err,
		   "weir_job_start: %s does not register %u words for "
		   "atomics",
		   q->conn->device_ref->device->name, q->size);
}

int verbs_words_get(struct verbs_queue *q)
{
	if (likely(q->words))
		return 0;
	q->words = mem_calloc(q->size, sizeof(q->words[0]));
	if (!q->words)
		return -ENOMEM;
	errno = fault("ibv_reg_mr") ? ENOMEM : 0;
	if (!errno)
		q->words_mr =
			ibv_reg_mr(q->conn->device_ref->device->pd, q->words,
				   q->size * sizeof(q->words[0]),
				   IBV_ACCESS_LOCAL_WRITE);
	return q->words_mr ? 0 : no_counters(q, conn_error());
}

void verbs_words_free(struct verbs_queue *q)
{
	if (!q->words)
		return;
	ibv_dereg_mr(q->words_mr);
	free(q->words);
}

void verbs_build_atomic(struct verbs_queue *q, struct weir_job *job,
			struct verbs_wr *w, uint32_t rkey)
{
	struct cursor *there = verbs_there(job);
	bool add = job->kind == WEIR_JOB_FETCH_ADD;

	w->sge[0] = (struct ibv_sge){
		.addr = (uintptr_t)&q->words[q->tail % q->size],
		.length = sizeof(q->words[0]),
		.lkey = q->words_mr->lkey,
	};
	w->send = (struct ibv_send_wr){
		.wr_id = (uintptr_t)&w->wr,
		.sg_list = w->sge,
		.num_sge = 1,
		.opcode = add ? IBV_WR_ATOMIC_FETCH_AND_ADD :
				IBV_WR_ATOMIC_CMP_AND_SWP,
		.wr.atomic = {
			.remote_addr = there->addr,
			.compare_add = add ? job->pattern : job->compare,
			.swap = job->pattern,
			.rkey = rkey,
		},
	};
	w->len = sizeof(q->words[0]);
	cursor_advance(there, w->len);
}
