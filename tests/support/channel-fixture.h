/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_CHANNEL_FIXTURE_H
#define TESTS_CHANNEL_FIXTURE_H

/* What tests of RDMA in the loop share: the mock's device, and how much of
 * it is open. */

#include "tests/support/harness.h"

#include <infiniband/verbs.h>

#include <weir/rdma/channel.h>

#include "tests/support/mock-verbs.h"

static inline struct ibv_context *fixture_open_device(void)
{
	struct ibv_device **list;
	struct ibv_context *ctx;
	int n;

	list = ibv_get_device_list(&n);
	assert_true(n > 0);
	assert_string_equal(ibv_get_device_name(list[0]), "mock_mlx5");
	ctx = ibv_open_device(list[0]);
	assert_non_null(ctx);
	ibv_free_device_list(list);
	return ctx;
}

/* All was given back, and acknowledged. */
static inline void fixture_close_device(struct ibv_context *ctx)
{
	assert_int_equal(mocked()->unacked, 0);
	assert_int_equal(mocked()->cqs, 0);
	assert_int_equal(mocked()->channels, 0);
	assert_int_equal(ibv_close_device(ctx), 0);
}

static inline struct weir_channel_stats fixture_stats(
	const struct weir_channel *ch)
{
	struct weir_channel_stats stats = { .size = sizeof(stats) };

	assert_int_equal(weir_channel_stats(ch, &stats), 0);
	return stats;
}

static inline struct weir_channel *fixture_channel(struct weir_reactor *r,
						   struct ibv_context *ctx,
						   uint32_t depth,
						   uint32_t batch)
{
	struct weir_channel_opts opts = {
		.size = sizeof(opts),
		.depth = depth,
		.batch = batch,
	};
	struct weir_channel *ch;

	assert_int_equal(weir_channel_create(&ch, r, ctx, &opts), 0);
	return ch;
}

static inline void fixture_destroy(struct weir_channel *ch)
{
	assert_int_equal(weir_channel_destroy(ch), 0);
}

/* A work request, and what came of it. */
struct item {
	struct weir_wr wr;
	struct weir_channel *ch;
	int calls;
	int status;
	void (*then)(struct item *item);
};

static inline void item_done(struct weir_wr *wr, const struct ibv_wc *wc)
{
	struct item *item = weir_container_of(wr, struct item, wr);

	assert_int_equal(wc->wr_id, (uintptr_t)wr);
	assert_int_equal(harness_starting, 0);
	item->calls++;
	item->status = wc->status;
	if (item->then)
		item->then(item);
}

static inline void item_init(struct item *item, struct weir_channel *ch)
{
	*item = (struct item){ .wr.fn = item_done, .ch = ch };
}

static inline void item_complete(struct item *item)
{
	harness_starting++;
	assert_true(mock_complete(weir_channel_cq(item->ch),
				  (uintptr_t)&item->wr, IBV_WC_SUCCESS, false));
	harness_starting--;
}

/* What comes at a moment that was chosen. */

enum moment { BEFORE, AT_POLL, BEFORE_ARM, AFTER_ARM, AFTER_POLL, MOMENTS };

static struct {
	int (*poll)(struct ibv_cq *cq, int n, struct ibv_wc *wc);
	int (*arm)(struct ibv_cq *cq, int solicited_only);
	enum moment at;
	struct item *item;
	bool refuse_poll, refuse_arm;
} gate;

static inline void pass(enum moment at)
{
	struct item *item = gate.item;

	if (!item || gate.at != at)
		return;
	gate.item = NULL;
	item_complete(item);
}

static inline int gate_poll(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int res;

	if (gate.refuse_poll)
		return -1;
	res = gate.poll(cq, n, wc);
	if (!res)
		pass(mock_is_armed(cq) ? AFTER_POLL : AT_POLL);
	return res;
}

static inline int gate_arm(struct ibv_cq *cq, int solicited_only)
{
	int res;

	pass(BEFORE_ARM);
	res = gate.arm(cq, solicited_only);
	pass(AFTER_ARM);
	return gate.refuse_arm ? EIO : res;
}

static inline void gate_install(struct ibv_context *ctx)
{
	memset(&gate, 0, sizeof(gate));
	gate.poll = ctx->ops.poll_cq;
	gate.arm = ctx->ops.req_notify_cq;
	ctx->ops.poll_cq = gate_poll;
	ctx->ops.req_notify_cq = gate_arm;
}

#endif /* TESTS_CHANNEL_FIXTURE_H */
