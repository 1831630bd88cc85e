/* SPDX-License-Identifier: BSD-3-Clause */

/* The states of a queue pair (2.8). */

#include "tests/rdma/verbs-rules.h"

/* The end that the cases take from state to state is a, b is ready for it. */

static int step(struct rules *rules, enum ibv_qp_state to)
{
	switch (to) {
	case IBV_QPS_INIT:
		return rules_init(&rules->a);
	case IBV_QPS_RTR:
		return rules_rtr(&rules->a, &rules->b);
	case IBV_QPS_RTS:
		return rules_rts(&rules->a);
	default:
		return rules_to(&rules->a, to);
	}
}

static void take_to(struct rules *rules, enum ibv_qp_state to)
{
	static const enum ibv_qp_state up[] = { IBV_QPS_INIT, IBV_QPS_RTR,
						IBV_QPS_RTS };
	size_t i;

	assert_int_equal(rules_to(&rules->a, IBV_QPS_RESET), 0);
	if (to == IBV_QPS_RESET)
		return;
	for (i = 0; i < N_OF(up) && (to == IBV_QPS_ERR || up[i] <= to); i++)
		assert_int_equal(step(rules, up[i]), 0);
	if (to == IBV_QPS_ERR)
		assert_int_equal(step(rules, to), 0);
}

/* SQD and SQE are left out: no RC queue pair that weir makes comes there. */
#define STATES 5
static const enum ibv_qp_state states[STATES] = {
	IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPS_ERR,
};

/* With all that the step needs, which is too much for any other. */
static const bool legal[STATES][STATES] = {
	/*	RESET INIT RTR RTS ERR */
	{ true, true, false, false, false },
	{ true, true, true, false, true },
	{ true, false, false, true, true },
	{ true, false, false, false, true },
	{ true, false, false, false, true },
};

static void state_step_is_legal_or_EINVAL(void **state)
{
	struct rules *rules = rules_ends(state, &(struct rules_opts){ 0 });
	size_t from, to;
	int err;

	for (from = 0; from < STATES; from++)
		for (to = 0; to < STATES; to++) {
			take_to(rules, states[from]);
			err = step(rules, states[to]);
			if (err != (legal[from][to] ? 0 : EINVAL))
				fail_msg("%d to %d: %d", states[from],
					 states[to], err);
			assert_int_equal(rules_state(&rules->a),
					 states[legal[from][to] ? to : from]);
		}
	rules_end();
}

static void a_step_without_what_it_needs_is_EINVAL(void **state)
{
	struct rules *rules = rules_ends(state, &(struct rules_opts){ 0 });

	assert_int_equal(rules_to(&rules->a, IBV_QPS_INIT), EINVAL);
	assert_int_equal(rules_init(&rules->a), 0);
	assert_int_equal(rules_to(&rules->a, IBV_QPS_RTR), EINVAL);
	assert_int_equal(rules_rtr(&rules->a, &rules->b), 0);
	assert_int_equal(rules_to(&rules->a, IBV_QPS_RTS), EINVAL);
	assert_int_equal(rules_state(&rules->a), IBV_QPS_RTR);
	rules_end();
}

/* In RESET nothing, from INIT on receives, from RTS on all. */
static void queue_pair_takes_the_work_that_its_state_allows(void **state)
{
	static const bool sends[STATES] = { false, false, false, true, true };
	struct rules *rules = rules_ends(state, &(struct rules_opts){ 0 });
	struct rules_end *a = &rules->a;
	size_t i;
	int err;

	for (i = 0; i < STATES; i++) {
		take_to(rules, states[i]);
		err = rules_recv(a, 0, 8, 1);
		if (!err != !!i)
			fail_msg("state %d: a receive: %d", states[i], err);
		err = rules_send(a, rules_wr(IBV_WR_RDMA_WRITE, a, &rules->b, 0,
					     8, 1));
		if (!err != sends[i])
			fail_msg("state %d: a send: %d", states[i], err);
	}
	rules_end();
}

static void a_reset_forgets_what_was_posted(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){ 0 });
	struct rules_end *a = &rules->a;
	uint32_t i;

	for (i = 0; i < 4; i++)
		assert_int_equal(rules_recv(a, 0, 8, i), 0);
	assert_int_equal(rules_to(a, IBV_QPS_RESET), 0);
	rules_expect_none(a->cq);
	assert_int_equal(rules_to(&rules->b, IBV_QPS_RESET), 0);
	rules_connect(rules);
	assert_int_equal(rules_send(a, rules_wr(IBV_WR_RDMA_WRITE, a, &rules->b,
						0, 8, 9)), 0);
	rules_expect(a->cq, 9, IBV_WC_SUCCESS);
	assert_int_equal(rules_send(&rules->b, rules_wr(IBV_WR_SEND, &rules->b,
							a, 0, 8, 8)), 0);
	rules_expect(rules->b.cq, 8, IBV_WC_RNR_RETRY_EXC_ERR);
	rules_end();
}

static void a_queue_pair_keeps_its_queues_and_domain(void **state)
{
	struct rules *rules = rules_ends(state, &(struct rules_opts){ 0 });
	struct ibv_cq *cq = rules->a.cq;

	assert_int_equal(ibv_destroy_cq(cq), EBUSY);
	assert_int_equal(ibv_dealloc_pd(rules->pd), EBUSY);	/* B2.4 */
	rules_end();
}

static const struct harness_case cases[] = {
	CASE(state_step_is_legal_or_EINVAL),
	CASE(a_step_without_what_it_needs_is_EINVAL),
	CASE(queue_pair_takes_the_work_that_its_state_allows),
	CASE(a_reset_forgets_what_was_posted),
	CASE(a_queue_pair_keeps_its_queues_and_domain),
};

const struct rules_part rules_states = { cases, N_OF(cases) };
