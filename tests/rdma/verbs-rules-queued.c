/* SPDX-License-Identifier: BSD-3-Clause */

/* What the mock alone can be told; and what a card does of its own. */

#include "tests/support/mock-verbs.h"
#include "tests/rdma/verbs-rules-cm.h"

static struct ibv_send_wr *write_wr(struct rules *rules, uint64_t id)
{
	return rules_wr(IBV_WR_RDMA_WRITE, &rules->a, &rules->b, 0, 8, id);
}

static void write_some(struct rules *rules, uint64_t n)
{
	uint64_t i;

	for (i = 0; i < n; i++)
		assert_int_equal(rules_send(&rules->a, write_wr(rules, i)), 0);
}

static void held_completion_waits_to_be_reported(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){ 0 });
	struct ibv_cq *cq = rules->a.cq;

	mock_hold(true);
	write_some(rules, 3);
	rules->a.bytes[0] = 1;
	rules_expect_none(cq);
	assert_int_equal(rules->b.bytes[0], 0);
	assert_int_equal(mock_step(1), 1);
	rules_expect(cq, 0, IBV_WC_SUCCESS);
	rules_expect_none(cq);
	assert_int_equal(rules->b.bytes[0], 1);
	assert_int_equal(rules_to(&rules->a, IBV_QPS_ERR), 0);
	rules_expect_none(cq);
	mock_hold(false);
	rules_expect(cq, 1, IBV_WC_WR_FLUSH_ERR);
	rules_expect(cq, 2, IBV_WC_WR_FLUSH_ERR);
	rules_end();
}

static void a_link_that_is_lost_ends_what_is_sent(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){ 0 });

	mock_set_link(MOCK_LOST);
	write_some(rules, 2);
	rules_expect(rules->a.cq, 0, IBV_WC_RETRY_EXC_ERR);
	rules_expect(rules->a.cq, 1, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(rules_state(&rules->b), IBV_QPS_RTS);
	mock_set_link(MOCK_UP);
	rules_end();
}

static void a_link_that_stalls_delays_what_is_sent(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){ 0 });

	mock_set_link(MOCK_STALLED);
	write_some(rules, 2);
	rules_expect_none(rules->a.cq);
	mock_set_link(MOCK_UP);
	rules_expect(rules->a.cq, 0, IBV_WC_SUCCESS);
	rules_expect(rules->a.cq, 1, IBV_WC_SUCCESS);
	rules_end();
}

static void a_peer_that_was_killed_does_not_answer(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){ 0 });

	mock_kill(rules->b.qp);
	write_some(rules, 2);
	rules_expect(rules->a.cq, 0, IBV_WC_RETRY_EXC_ERR);
	rules_expect(rules->a.cq, 1, IBV_WC_WR_FLUSH_ERR);
	rules_end();
}

static void expect_news(struct rules *rules, enum ibv_event_type type,
			const struct ibv_qp *qp)
{
	struct ibv_async_event event;

	set_nonblock(rules->ctx->async_fd);
	assert_int_equal(ibv_get_async_event(rules->ctx, &event), 0);
	assert_int_equal(event.event_type, type);
	assert_ptr_equal(event.element.qp, qp);
	ibv_ack_async_event(&event);
}

static void broken_queue_pair_reports_an_event(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){ 0 });

	assert_int_equal(rules_recv(&rules->a, 0, 8, 7), 0);
	mock_break(rules->a.qp);
	rules_expect(rules->a.cq, 7, IBV_WC_WR_FLUSH_ERR);
	expect_news(rules, IBV_EVENT_QP_FATAL, rules->a.qp);
	rules_end();
}

/* As cards do; soft-RoCE does not. */
static void a_card_tells_whose_rights_were_not_respected(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){ 0 });
	struct ibv_send_wr *wr = write_wr(rules, 1);

	if (rules_is_soft(rules)) {
		rules_end();
		skip_because("no card");
	}
	wr->wr.rdma.rkey ^= 0x5500;
	assert_int_equal(rules_send(&rules->a, wr), 0);
	rules_expect(rules->a.cq, 1, IBV_WC_REM_ACCESS_ERR);
	expect_news(rules, IBV_EVENT_QP_ACCESS_ERR, rules->b.qp);
	rules_end();
}

/* A card has a slot again when a completion behind it was polled. */
static void a_card_wants_its_completions_polled(void **state)
{
	struct rules *rules =
		rules_pair(state, &(struct rules_opts){ .quiet = true });
	struct ibv_send_wr *wr;

	if (rules_is_soft(rules)) {
		rules_end();
		skip_because("no card");
	}
	write_some(rules, rules->a.depth - 1);
	wr = write_wr(rules, 99);
	wr->send_flags = IBV_SEND_SIGNALED;
	assert_int_equal(rules_send(&rules->a, wr), 0);
	assert_int_equal(rules_send(&rules->a, write_wr(rules, 1)), ENOMEM);
	rules_expect(rules->a.cq, 99, IBV_WC_SUCCESS);
	write_some(rules, rules->a.depth);
	assert_int_equal(rules_send(&rules->a, write_wr(rules, 1)), ENOMEM);
	rules_end();
}

/* rdma_cm. */

static void no_more_events(struct rules_cm *cm)
{
	struct rdma_cm_event *event;

	assert_int_equal(rdma_get_cm_event(cm->ours, &event), -1);
	assert_int_equal(errno, EAGAIN);
}

static void events_that_are_held_come_one_by_one(void **state)
{
	struct rules_cm *cm = rules_cm_begin(state, true);
	struct rdma_cm_id *id = rules_cm_client(cm);

	mock_cm_hold(true);
	assert_int_equal(rules_cm_resolve(cm, id), 0);
	no_more_events(cm);
	assert_int_equal(rdma_resolve_route(id, 1000), -1);
	assert_int_equal(mock_cm_step(1), 1);
	rules_cm_expect(cm->ours, RDMA_CM_EVENT_ADDR_RESOLVED, id, 0);
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	mock_cm_hold(false);
	rules_cm_expect(cm->ours, RDMA_CM_EVENT_ROUTE_RESOLVED, id, 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rules_cm_end();
}

static void armed_step_fails_as_armed(void **state)
{
	struct rules_cm *cm = rules_cm_begin(state, true);
	struct rdma_cm_id *id = rules_cm_client(cm);

	mocked()->fail_addr = -ENODEV;
	assert_int_equal(rules_cm_resolve(cm, id), 0);
	rules_cm_expect(cm->ours, RDMA_CM_EVENT_ADDR_ERROR, id, -ENODEV);
	mocked()->fail_addr = 0;
	assert_int_equal(rules_cm_resolve(cm, id), 0);
	rules_cm_expect(cm->ours, RDMA_CM_EVENT_ADDR_RESOLVED, id, 0);
	mocked()->fail_route = -ETIMEDOUT;
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	rules_cm_expect(cm->ours, RDMA_CM_EVENT_ROUTE_ERROR, id, -ETIMEDOUT);
	mocked()->fail_route = 0;
	assert_int_equal(rdma_resolve_route(id, 1000), 0);
	rules_cm_expect(cm->ours, RDMA_CM_EVENT_ROUTE_RESOLVED, id, 0);
	mocked()->fail_connect = -ETIMEDOUT;
	assert_int_equal(rules_cm_connect(cm, id, NULL, 0), 0);
	rules_cm_expect(cm->ours, RDMA_CM_EVENT_UNREACHABLE, id, -ETIMEDOUT);
	mocked()->fail_connect = 0;
	assert_int_equal(rdma_destroy_id(id), 0);
	rules_cm_end();
}

static void a_lost_link_is_unreachable(void **state)
{
	struct rules_cm *cm = rules_cm_begin(state, true);
	struct rdma_cm_id *id = rules_cm_resolved(cm);

	mock_set_link(MOCK_LOST);
	assert_int_equal(rules_cm_connect(cm, id, NULL, 0), 0);
	rules_cm_expect(cm->ours, RDMA_CM_EVENT_UNREACHABLE, id, -ETIMEDOUT);
	mock_set_link(MOCK_UP);
	assert_int_equal(rdma_destroy_id(id), 0);
	rules_cm_end();
}

static void address_of_nobody_is_an_error(void **state)
{
	static const struct {
		const char *address;
		int status;
	} table[] = {
		{ "198.51.100.7", -ETIMEDOUT },
		{ "203.0.113.7", -ENODEV },
	};
	struct rules_cm *cm = rules_cm_begin(state, false);
	struct sockaddr_in to = { .sin_family = AF_INET };
	struct rdma_cm_id *id;
	size_t i;

	for (i = 0; i < N_OF(table); i++) {
		id = rules_cm_client(cm);
		inet_pton(AF_INET, table[i].address, &to.sin_addr);
		assert_int_equal(rdma_resolve_addr(id, NULL,
						   (struct sockaddr *)&to,
						   1000),
				 0);
		rules_cm_expect(cm->ours, RDMA_CM_EVENT_ADDR_ERROR, id,
				table[i].status);
		assert_int_equal(rdma_destroy_id(id), 0);
	}
	rules_cm_end();
}

static void a_device_that_is_removed_is_told_to_its_ids(void **state)
{
	struct rules_cm *cm = rules_cm_begin(state, true);
	struct rdma_cm_id *id = rules_cm_resolved(cm);

	mock_cm_remove_device();
	rules_cm_expect(cm->ours, RDMA_CM_EVENT_DEVICE_REMOVAL, id, 0);
	assert_int_equal(rdma_destroy_id(id), 0);
	rules_cm_end();
}

static const struct harness_case cases[] = {
	CASE(held_completion_waits_to_be_reported),
	CASE(a_link_that_is_lost_ends_what_is_sent),
	CASE(a_link_that_stalls_delays_what_is_sent),
	CASE(a_peer_that_was_killed_does_not_answer),
	CASE(broken_queue_pair_reports_an_event),
	CASE(a_card_tells_whose_rights_were_not_respected),
	CASE(a_card_wants_its_completions_polled),
	CASE(events_that_are_held_come_one_by_one),
	CASE(armed_step_fails_as_armed),
	CASE(a_lost_link_is_unreachable),
	CASE(address_of_nobody_is_an_error),
	CASE(a_device_that_is_removed_is_told_to_its_ids),
};

const struct rules_part rules_told = { cases, N_OF(cases) };
