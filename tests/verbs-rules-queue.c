/* SPDX-License-Identifier: BSD-3-Clause */

/* The rules of completion channels and queues. */

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "tests/verbs-rules.h"

/* B3.1 */
static void an_empty_channel_that_does_not_wait_says_EAGAIN(void **state)
{
	struct rules *rules = rules_begin(state);
	struct ibv_comp_channel *ch = ibv_create_comp_channel(rules->ctx);
	struct ibv_cq *cq;
	void *arg;

	assert_non_null(ch);
	set_nonblock(ch->fd);
	assert_int_equal(ibv_get_cq_event(ch, &cq, &arg), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(ibv_destroy_comp_channel(ch), 0);
	rules_end();
}

/* B3.1 */
static void a_channel_of_a_queue_is_busy(void **state)
{
	struct rules *rules = rules_begin(state);
	struct ibv_comp_channel *ch = ibv_create_comp_channel(rules->ctx);
	struct ibv_cq *cq = ibv_create_cq(rules->ctx, 4, NULL, ch, 0);

	assert_non_null(cq);
	assert_int_equal(ibv_destroy_comp_channel(ch), EBUSY);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(ch), 0);
	rules_end();
}

/* B3.6 */
static void a_queue_has_at_least_the_room_that_was_asked_for(void **state)
{
	static const int sizes[] = { 1, 4, 5, 63, 64, 100 };
	struct rules *rules = rules_begin(state);
	struct ibv_cq *cq;
	size_t i;

	for (i = 0; i < N_OF(sizes); i++) {
		cq = ibv_create_cq(rules->ctx, sizes[i], NULL, NULL, 0);
		assert_non_null(cq);
		assert_true(cq->cqe >= sizes[i]);
		assert_int_equal(ibv_resize_cq(cq, 2 * sizes[i]), 0);
		assert_true(cq->cqe >= 2 * sizes[i]);
		assert_int_equal(ibv_destroy_cq(cq), 0);
	}
	rules_end();
}

static void a_queue_that_no_device_has_is_EINVAL(void **state)
{
	struct rules *rules = rules_begin(state);
	struct ibv_device_attr attr;

	assert_int_equal(ibv_query_device(rules->ctx, &attr), 0);
	assert_null(ibv_create_cq(rules->ctx, attr.max_cqe + 1, NULL, NULL, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_cq(rules->ctx, 0, NULL, NULL, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_cq(rules->ctx, 4, NULL, NULL,
				  rules->ctx->num_comp_vectors));
	assert_int_equal(errno, EINVAL);
	rules_end();
}

/* B3.9 */
static void no_news_is_EAGAIN(void **state)
{
	struct rules *rules = rules_begin(state);
	struct ibv_async_event event;

	set_nonblock(rules->ctx->async_fd);
	assert_int_equal(ibv_get_async_event(rules->ctx, &event), -1);
	assert_int_equal(errno, EAGAIN);
	rules_end();
}

static const struct harness_case cases[] = {
	CASE(an_empty_channel_that_does_not_wait_says_EAGAIN),
	CASE(a_channel_of_a_queue_is_busy),
	CASE(a_queue_has_at_least_the_room_that_was_asked_for),
	CASE(a_queue_that_no_device_has_is_EINVAL),
	CASE(no_news_is_EAGAIN),
};

const struct rules_part rules_queue = { cases, N_OF(cases) };
