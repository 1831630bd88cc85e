/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_VERBS_FIXTURE_H
#define TESTS_VERBS_FIXTURE_H

/* A connection in one process (conn-fixture.h), and a context whose jobs move
 * between memory of its two ends. */

#include "tests/support/conn-fixture.h"
#include "tests/support/job-fixture.h"

#include <sys/mman.h>

#include <weir/rdma/channel.h>
#include <weir/device.h>
#include <weir/export.h>
#include <weir/inventory.h>
#include <weir/rdma/export.h>

#include "rdma/engine.h"

#define FAR (4u << 20)
#define NEAR (4u << 20)
#define BUFS 512

/* The memory here and there, and what should be in it. */
struct wire {
	struct weir_reactor *r;
	struct ends e;
	struct weir_conn *c, *peer;
	struct weir_channel *given; /* To .c, if it is set before. */
	struct weir_dma *dma;
	struct weir_domain *there;
	struct weir_device *dev;
	struct weir_mmap *m;
	struct weir_inventory *inv;
	char *near, *far, *near_shadow, *far_shadow;
	struct ibv_mr *mr;
	struct weir_remote_key key;
	struct jrec *j; /* 64 of them. */
};

static inline void wire_connect(struct wire *l)
{
	ends_listen(&l->e);
	assert_int_equal(weir_conn_create(&l->e.client, l->r, l->given,
					  &l->e.opts),
			 0);
	ends_establish(&l->e);
	l->c = l->e.client;
	l->peer = l->e.server;
}

static inline void wire_memory(struct wire *l)
{
	struct weir_inventory_opts inv = { .size = sizeof(inv) };

	l->near = malloc(NEAR);
	l->far = malloc(FAR);
	l->near_shadow = malloc(NEAR);
	l->far_shadow = malloc(FAR);
	fill_pattern(l->near, NEAR, 0, 1);
	fill_pattern(l->far, FAR, 0, 2);
	memcpy(l->near_shadow, l->near, NEAR);
	memcpy(l->far_shadow, l->far, FAR);
	assert_int_equal(weir_device_open_name(&l->dev,
					       l->c->device_ref->device->name),
			 0);
	l->m = start_mmap_on(l->dev, l->near, NEAR,
			     WEIR_MMAP_READ | WEIR_MMAP_WRITE);
	inv.bufs = BUFS;
	assert_int_equal(weir_inventory_create(&l->inv, l->r, &inv), 0);
	assert_int_equal(weir_inventory_attach(l->inv, l->m), 0);
	l->mr = ibv_reg_mr(l->peer->device_ref->device->pd, l->far, FAR,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_ATOMIC);
	assert_non_null(l->mr);
	l->key.rkey = l->mr->rkey;
}

/* .e.opts may be set before. */
static inline void wire_open(struct wire *l)
{
	wire_connect(l);
	wire_memory(l);
	assert_int_equal(weir_domain_remote_create(&l->there, NULL), 0);
	assert_int_equal(weir_conn_attach(l->c, l->there), 0);
	l->dma = start_dma(l->r,
			   (struct weir_dma_opts){ .staging_size = 64 << 10,
						   .staging_bufs = 2 });
	l->j = calloc(64, sizeof(*l->j));
}

static inline void wire_init(struct wire *l, void **state)
{
	memset(l, 0, sizeof(*l));
	ends_init(&l->e, state, AF_INET);
	l->r = l->e.r;
}

static inline void wire_begin(struct wire *l, void **state)
{
	wire_init(l, state);
	wire_open(l);
}

static inline void wire_revoke(struct wire *l)
{
	assert_int_equal(ibv_dereg_mr(l->mr), 0);
	l->mr = NULL;
}

static inline void wire_memory_end(struct wire *l)
{
	assert_int_equal(weir_inventory_destroy(l->inv), 0);
	assert_int_equal(weir_mmap_destroy(l->m), 0);
	if (l->mr)
		wire_revoke(l);
	assert_int_equal(weir_device_close(l->dev), 0);
	free(l->near);
	free(l->far);
	free(l->near_shadow);
	free(l->far_shadow);
}

static inline void wire_end(struct wire *l)
{
	some_turns(l->r, 3);
	assert_int_equal(weir_dma_destroy(l->dma), 0);
	assert_int_equal(weir_conn_detach(l->c, l->there), 0);
	assert_int_equal(weir_domain_destroy(l->there), 0);
	wire_memory_end(l);
	ends_destroy(&l->e);
	free(l->j);
}

static inline void assert_is_shadow(const struct wire *l)
{
	assert_memory_equal(l->near, l->near_shadow, NEAR);
	assert_memory_equal(l->far, l->far_shadow, FAR);
}

/* @len bytes there, from @off on. */
static inline struct weir_operand far_at(struct wire *l, uint64_t off,
					 uint64_t len)
{
	struct weir_operand operand =
		weir_operand_at(l->there, (uintptr_t)l->far + off, len);

	operand.ctx = &l->key;
	return operand;
}

/* A buf of @len bytes here, with data in it or to be filled. */
static inline struct weir_buf *near_buf(struct wire *l, uint64_t off,
					size_t len, bool data)
{
	return get_buf(l->inv, l->m, l->near + off, len, data ? len : 0);
}

/* Start the @i-th job: @len bytes from here to there, both at @off. */
static inline void start_write(struct wire *l, int i, uint64_t off, size_t len)
{
	struct weir_buf *b = near_buf(l, off, len, true);

	jrec_init(&l->j[i]);
	weir_job_copy(&l->j[i].job, far_at(l, off, len), weir_operand_buf(b));
	STARTS(weir_job_start(l->dma, &l->j[i].job));
	weir_buf_put(b);
}

/* The other way. */
static inline void start_read(struct wire *l, int i, uint64_t off, size_t len)
{
	struct weir_buf *b = near_buf(l, off, len, false);

	jrec_init(&l->j[i]);
	weir_job_copy(&l->j[i].job, weir_operand_buf(b), far_at(l, off, len));
	STARTS(weir_job_start(l->dma, &l->j[i].job));
	weir_buf_put(b);
}

static inline void wait_for(struct wire *l, int n)
{
	int i;

	for (i = 0; i < n; i++)
		UNTIL(l->r, l->j[i].calls);
	for (i = 0; i < n; i++)
		assert_int_equal(l->j[i].calls, 1);
}

/* All of .far, as the peer's mmap, and as ours of it. */
struct import {
	struct weir_mmap *theirs, *m;
	struct weir_buf *buf; /* Of it, if it is set. */
};

static inline void import_far(struct wire *l, struct import *im,
			      uint32_t rights)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };

	*im = (struct import){ .buf = NULL };
	im->theirs = start_mmap_on(l->dev, l->far, FAR,
				   rights | WEIR_MMAP_READ | WEIR_MMAP_WRITE);
	assert_int_equal(weir_mmap_export_rdma(im->theirs, l->dev, NULL, &desc),
			 0);
	assert_int_equal(weir_mmap_import_rdma(&im->m, l->there, desc.bytes,
					       desc.len, NULL),
			 0);
	assert_int_equal(weir_inventory_attach(l->inv, im->m), 0);
}

static inline void import_end(struct wire *l, struct import *im)
{
	weir_buf_put(im->buf);
	assert_int_equal(weir_inventory_detach(l->inv, im->m), 0);
	assert_int_equal(weir_mmap_destroy(im->m), 0);
	assert_int_equal(weir_mmap_destroy(im->theirs), 0);
}

#endif /* TESTS_VERBS_FIXTURE_H */
