/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_JOBS_BESIDE_FIXTURE_H
#define TESTS_JOBS_BESIDE_FIXTURE_H

/* Two ends that talk, and jobs beside their messages. */

#include "tests/support/message-fixture.h"

struct jobs_beside {
	struct peers t;
	struct weir_dma *dma;
	struct weir_domain *there;
	struct weir_remote_key key;
	struct ibv_mr *mr;
	char *far;
	struct jrec j[16];
};

static inline void jobs_beside_begin(struct jobs_beside *y, void **state,
				     uint32_t sends)
{
	struct peers *t = &y->t;

	peers_init(t, state);
	t->e.opts.sends = sends;
	peers_open(t);
	y->far = calloc(1, PEERS_MEM);
	y->mr = ibv_reg_mr(t->e.server->device_ref->device->pd, y->far,
			   PEERS_MEM,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ);
	y->key = (struct weir_remote_key){ .rkey = y->mr->rkey };
	assert_int_equal(weir_domain_remote_create(&y->there, NULL), 0);
	assert_int_equal(weir_conn_attach(t->e.client, y->there), 0);
	y->dma = start_dma(t->r,
			   (struct weir_dma_opts){ .staging_size = 64 << 10,
						   .staging_bufs = 2 });
}

static inline void jobs_beside_end(struct jobs_beside *y)
{
	assert_int_equal(weir_dma_destroy(y->dma), 0);
	assert_int_equal(weir_conn_detach(y->t.e.client, y->there), 0);
	assert_int_equal(weir_domain_destroy(y->there), 0);
	assert_int_equal(ibv_dereg_mr(y->mr), 0);
	free(y->far);
	peers_end(&y->t);
}

/* The @i-th: @len bytes from the client's memory, both at @at. */
static inline int put_there(struct jobs_beside *y, int i, size_t at, size_t len,
			    uint32_t flags)
{
	struct weir_buf *b = peers_buf(&y->t, at, len);
	struct weir_operand dst =
		weir_operand_at(y->there, (uintptr_t)y->far + at, len);
	struct weir_job *job = &y->j[i].job;
	int err;

	dst.ctx = &y->key;
	jrec_init(&y->j[i]);
	weir_job_copy(job, dst, weir_operand_buf(b));
	job->flags = flags;
	job->signal = 1000 + (uint32_t)i;
	err = weir_job_start(y->dma, job);
	weir_buf_put(b);
	return err;
}

#endif /* TESTS_JOBS_BESIDE_FIXTURE_H */
