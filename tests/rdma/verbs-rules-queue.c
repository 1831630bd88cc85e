/* SPDX-License-Identifier: BSD-3-Clause */

/* The rules of completion channels and queues. */

#include "tests/rdma/verbs-rules.h"

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
static void a_queue_has_at_least_the_capacity_that_was_asked_for(void **state)
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

/* Whether there is an event; one that there must be is waited for. */
static bool took_event(struct rules *rules, struct ibv_cq *want, bool must)
{
	struct ibv_cq *cq;
	void *arg;

	set_nonblock(rules->channel->fd);
	while (ibv_get_cq_event(rules->channel, &cq, &arg)) {
		assert_int_equal(errno, EAGAIN);
		if (!must)
			return false;
	}
	assert_ptr_equal(cq, want);
	assert_ptr_equal(arg, want->cq_context);
	ibv_ack_cq_events(cq, 1);
	return true;
}

static void write_nothing(struct rules *rules)
{
	assert_int_equal(rules_send(&rules->a, rules_wr(IBV_WR_RDMA_WRITE,
							&rules->a, &rules->b,
							0, 8, 1)), 0);
}

/* B3.2 */
static void an_armed_queue_fires_once(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){ 0 });
	struct rules_end *a = &rules->a;

	assert_int_equal(ibv_req_notify_cq(a->cq, 0), 0);
	assert_false(took_event(rules, a->cq, false));
	write_nothing(rules);
	assert_true(took_event(rules, a->cq, true));
	rules_expect(a->cq, 1, IBV_WC_SUCCESS);
	write_nothing(rules);
	rules_expect(a->cq, 1, IBV_WC_SUCCESS);
	assert_false(took_event(rules, a->cq, false));
	assert_int_equal(ibv_req_notify_cq(a->cq, 0), 0);
	write_nothing(rules);
	assert_true(took_event(rules, a->cq, true));
	rules_expect(a->cq, 1, IBV_WC_SUCCESS);
	rules_end();
}

/* B3.2: what is there already is not what one is armed for. */
static void a_completion_that_was_there_does_not_fire(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){ 0 });
	struct rules_end *a = &rules->a;

	write_nothing(rules);
	write_nothing(rules);
	rules_expect(a->cq, 1, IBV_WC_SUCCESS);
	rules_idle(rules);
	assert_int_equal(ibv_req_notify_cq(a->cq, 0), 0);
	assert_false(took_event(rules, a->cq, false));
	rules_expect(a->cq, 1, IBV_WC_SUCCESS);
	assert_false(took_event(rules, a->cq, false));
	write_nothing(rules);
	assert_true(took_event(rules, a->cq, true));
	rules_expect(a->cq, 1, IBV_WC_SUCCESS);
	rules_end();
}

/* An event for a completion that somebody polled meanwhile is legal. */
static void an_event_may_come_to_an_empty_queue(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){ 0 });
	struct rules_end *a = &rules->a;

	assert_int_equal(ibv_req_notify_cq(a->cq, 0), 0);
	write_nothing(rules);
	rules_expect(a->cq, 1, IBV_WC_SUCCESS);
	rules_expect_none(a->cq);
	assert_true(took_event(rules, a->cq, true));
	rules_end();
}

static void send_8(struct rules *rules, unsigned int flags, uint64_t id)
{
	struct ibv_send_wr *wr = rules_wr(IBV_WR_SEND, &rules->a, &rules->b, 0,
					  8, id);

	wr->send_flags = flags;
	assert_int_equal(rules_send(&rules->a, wr), 0);
	rules_expect(rules->a.cq, id, IBV_WC_SUCCESS);
}

/* B3.3 */
static void solicited_notification_is_for_solicited_completions(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){ 0 });
	struct rules_end *b = &rules->b;

	assert_int_equal(rules_recv(b, 0, 64, 10), 0);
	assert_int_equal(rules_recv(b, 0, 64, 11), 0);
	assert_int_equal(ibv_req_notify_cq(b->cq, 1), 0);
	send_8(rules, 0, 1);
	rules_expect(b->cq, 10, IBV_WC_SUCCESS);
	assert_false(took_event(rules, b->cq, false));
	send_8(rules, IBV_SEND_SOLICITED, 2);
	assert_true(took_event(rules, b->cq, true));
	rules_expect(b->cq, 11, IBV_WC_SUCCESS);
	rules_end();
}

/* B3.3: an error is as good as solicited. */
static void solicited_notification_is_for_errors(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){ 0 });
	struct rules_end *b = &rules->b;

	assert_int_equal(rules_recv(b, 0, 64, 10), 0);
	assert_int_equal(ibv_req_notify_cq(b->cq, 1), 0);
	assert_int_equal(rules_to(b, IBV_QPS_ERR), 0);
	assert_true(took_event(rules, b->cq, true));
	rules_expect(b->cq, 10, IBV_WC_WR_FLUSH_ERR);
	rules_end();
}

/* An event that nobody read goes with its queue. */
static void an_event_of_a_queue_that_is_gone_is_not_delivered(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){ 0 });
	struct rules_end *a = &rules->a;
	struct ibv_cq *cq;
	void *arg;

	assert_int_equal(ibv_req_notify_cq(a->cq, 0), 0);
	write_nothing(rules);
	rules_expect(a->cq, 1, IBV_WC_SUCCESS);
	assert_int_equal(ibv_destroy_qp(a->qp), 0);
	assert_int_equal(ibv_destroy_cq(a->cq), 0);
	a->qp = NULL;
	a->cq = NULL;
	set_nonblock(rules->channel->fd);
	assert_int_equal(ibv_get_cq_event(rules->channel, &cq, &arg), -1);
	assert_int_equal(errno, EAGAIN);
	rules_end();
}

static void destroy_unacked(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){ 0 });
	struct ibv_cq *cq;
	void *arg;

	ibv_req_notify_cq(rules->a.cq, 0);
	write_nothing(rules);
	ibv_get_cq_event(rules->channel, &cq, &arg);
	ibv_destroy_qp(rules->a.qp);
	alarm(1);
	ibv_destroy_cq(cq);
}

/* B3.4 */
static void a_queue_waits_for_acknowledgements(void **state)
{
	rules_wait_for_ever(destroy_unacked, state);
}

static const struct harness_case cases[] = {
	CASE(an_empty_channel_that_does_not_wait_says_EAGAIN),
	CASE(a_channel_of_a_queue_is_busy),
	CASE(a_queue_has_at_least_the_capacity_that_was_asked_for),
	CASE(a_queue_that_no_device_has_is_EINVAL),
	CASE(no_news_is_EAGAIN),
	CASE(an_armed_queue_fires_once),
	CASE(a_completion_that_was_there_does_not_fire),
	CASE(an_event_may_come_to_an_empty_queue),
	CASE(solicited_notification_is_for_solicited_completions),
	CASE(solicited_notification_is_for_errors),
	CASE(an_event_of_a_queue_that_is_gone_is_not_delivered),
	CASE(a_queue_waits_for_acknowledgements),
};

const struct rules_part rules_queue = { cases, N_OF(cases) };
