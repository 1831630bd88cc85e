/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_VERBS_FIXTURE_H
#define TESTS_VERBS_FIXTURE_H

/*
 * Two ends with a QP each, and a context whose jobs go from one to memory of
 * the other's.
 *
 * Over the mock the two QPs are connected by hand, for nobody there manages
 * connections; over soft-RoCE as conn-fixture.h does it.
 */

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

static inline struct weir_conn *hand_made(struct weir_reactor *r,
					  const struct weir_conn_opts *opts)
{
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC };
	struct weir_channel_opts ch = { .size = sizeof(ch) };
	struct weir_conn *c = calloc(1, sizeof(*c));
	struct conn_device_ref *device_ref;

	assert_int_equal(conn_opts_load(&c->opts, opts, r, "test"), 0);
	c->r = r;
	c->user.event = conn_event;
	c->timer.fire = conn_timer;
	deferred_init(&c->deferred, r, conn_run);
	assert_int_equal(reactor_attach(r, &c->obj, "connection"), 0);
	assert_int_equal(conn_device_ref_get(&device_ref, r, "mock_mlx5"), 0);
	ch.depth = conn_credits(c);
	assert_int_equal(weir_channel_create(&c->channel, r,
					     device_ref->device->ctx, &ch),
			 0);
	assert_int_equal(weir_channel_reserve(c->channel, ch.depth), 0);
	c->channel_user.failed = conn_channel_failed;
	channel_user_add(c->channel, &c->channel_user);
	c->max_sge = c->opts.max_sge ? c->opts.max_sge : 16;
	c->max_message = WEIR_MESSAGE_MAX;
	init.send_cq = init.recv_cq = weir_channel_cq(c->channel);
	init.cap.max_send_wr = c->opts.sends;
	init.cap.max_recv_wr = c->opts.recvs;
	init.cap.max_send_sge = c->max_sge;
	init.cap.max_recv_sge = 1;
	init.cap.max_inline_data = 64;
	c->qp = ibv_create_qp(device_ref->device->pd, &init);
	assert_non_null(c->qp);
	c->max_inline = init.cap.max_inline_data;
	c->reads_out = c->opts.reads ? c->opts.reads : 16;
	conn_device_ref_add(device_ref, c);
	assert_int_equal(verbs_queue_create(c), 0);
	return c;
}

static inline void hand_connect(struct weir_conn *c, uint32_t peer)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC,
		.port_num = 1,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer,
		.max_dest_rd_atomic = 16,
		.min_rnr_timer = 12,
		.ah_attr = { .port_num = 1, .is_global = 1 },
		.timeout = 10,
		.retry_cnt = 1,
		.rnr_retry = 1,
		.max_rd_atomic = (uint8_t)c->reads_out,
	};

	assert_int_equal(ibv_modify_qp(c->qp, &a,
				       IBV_QP_STATE | IBV_QP_PKEY_INDEX |
					       IBV_QP_PORT |
					       IBV_QP_ACCESS_FLAGS),
			 0);
	a.qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(c->qp, &a,
				       IBV_QP_STATE | IBV_QP_AV |
					       IBV_QP_PATH_MTU |
					       IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					       IBV_QP_MAX_DEST_RD_ATOMIC |
					       IBV_QP_MIN_RNR_TIMER),
			 0);
	a.qp_state = IBV_QPS_RTS;
	assert_int_equal(
		ibv_modify_qp(c->qp, &a,
			      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
				      IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				      IBV_QP_MAX_QP_RD_ATOMIC),
		0);
	c->state = WEIR_CONN_ESTABLISHED;
}

static inline void hand_free(struct weir_conn *c)
{
	assert_int_equal(c->posted, 0);
	conn_teardown(c);
	deferred_finish(&c->deferred);
	reactor_detach(&c->obj);
	free(c);
}

static inline void wire_connect(struct wire *l, void **state)
{
	if (!mocked || l->given) {
		ends_listen(&l->e);
		assert_int_equal(weir_conn_create(&l->e.client, l->r, l->given,
						  &l->e.opts),
				 0);
		ends_establish(&l->e);
		l->c = l->e.client;
		l->peer = l->e.server;
		return;
	}
	(void)state;
	l->c = l->e.client = hand_made(l->r, &l->e.opts);
	l->peer = l->e.server = hand_made(l->r, &l->e.opts);
	hand_connect(l->c, l->peer->qp->qp_num);
	hand_connect(l->peer, l->c->qp->qp_num);
	weir_conn_set_end_fn(l->c, on_end, &l->e);
	weir_conn_set_end_fn(l->peer, on_end, &l->e);
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
static inline void wire_open(struct wire *l, void **state)
{
	wire_connect(l, state);
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
	wire_open(l, state);
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
	if (mocked && !l->given) {
		hand_free(l->c);
		hand_free(l->peer);
		assert_int_equal(mocked()->mrs, 0);
		assert_int_equal(mocked()->qps, 0);
		assert_int_equal(mocked()->contexts, 0);
	} else {
		ends_destroy(&l->e);
	}
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
	struct weir_buf *b = NULL;

	assert_int_equal(weir_inventory_get(&b, l->inv, l->m, l->near + off,
					    len, l->near + off, data ? len : 0),
			 0);
	return b;
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
