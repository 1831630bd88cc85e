/* SPDX-License-Identifier: BSD-3-Clause */

/* How work requests fail, and what becomes of those behind them. */

#include "tests/rdma/verbs-rules.h"

static struct ibv_send_wr *write_wr(struct rules *rules, uint64_t id)
{
	return rules_wr(IBV_WR_RDMA_WRITE, &rules->a, &rules->b, 0, 8, id);
}

/* B3.5 */
static void the_first_says_why_and_the_rest_is_flushed(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){ 0 });
	struct rules_end *a = &rules->a;
	struct ibv_send_wr *wr[4];
	int i;

	for (i = 0; i < 4; i++) {
		wr[i] = write_wr(rules, (uint64_t)i);
		if (i)
			wr[i - 1]->next = wr[i];
	}
	wr[1]->wr.rdma.rkey ^= 0x5500;
	assert_int_equal(rules_send(a, wr[0]), 0);
	rules_expect(a->cq, 0, IBV_WC_SUCCESS);
	rules_expect(a->cq, 1, IBV_WC_REM_ACCESS_ERR);
	rules_expect(a->cq, 2, IBV_WC_WR_FLUSH_ERR);
	rules_expect(a->cq, 3, IBV_WC_WR_FLUSH_ERR);
	rules_expect_none(a->cq);
	assert_int_equal(rules_state(a), IBV_QPS_ERR);
	rules_end();
}

/* B3.5 */
static void post_in_the_error_state_is_flushed(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){ 0 });
	struct rules_end *a = &rules->a;

	assert_int_equal(rules_to(a, IBV_QPS_ERR), 0);
	assert_int_equal(rules_send(a, write_wr(rules, 1)), 0);
	rules_expect(a->cq, 1, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(rules_recv(a, 0, 8, 2), 0);
	if (rules_is_soft(rules)) {	/* It wants to be told once more. */
		rules_expect_none(a->cq);
		assert_int_equal(rules_to(a, IBV_QPS_ERR), 0);
	}
	rules_expect(a->cq, 2, IBV_WC_WR_FLUSH_ERR);
	rules_end();
}

/* B3.5: even what was to end in silence. */
static void a_silent_one_is_heard_when_it_fails(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){
		.quiet = true });
	struct rules_end *a = &rules->a;
	struct ibv_send_wr *wr = write_wr(rules, 1), *next = write_wr(rules, 2);

	wr->wr.rdma.rkey ^= 0x5500;
	wr->next = next;
	assert_int_equal(rules_send(a, wr), 0);
	rules_expect(a->cq, 1, IBV_WC_REM_ACCESS_ERR);
	rules_expect(a->cq, 2, IBV_WC_WR_FLUSH_ERR);
	rules_end();
}

static void receives_are_flushed_in_order(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){ 0 });
	struct rules_end *a = &rules->a;
	uint64_t i;

	for (i = 0; i < 4; i++)
		assert_int_equal(rules_recv(a, 0, 8, i), 0);
	assert_int_equal(rules_to(a, IBV_QPS_ERR), 0);
	for (i = 0; i < 4; i++)
		rules_expect(a->cq, i, IBV_WC_WR_FLUSH_ERR);
	rules_expect_none(a->cq);
	rules_end();
}

/* B3.6; there may be more capacity than was told. */
static void a_full_send_queue_is_ENOMEM(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){
		.rnr_retries = 7 });
	struct rules_end *a = &rules->a;
	struct ibv_send_wr *wr, *bad;
	uint32_t i, n;
	int err = 0;

	assert_true(a->depth >= 8);
	for (n = 0; !err && n < 4 * a->depth; n++) {
		wr = rules_wr(IBV_WR_SEND, a, &rules->b, 0, 8, n);
		bad = NULL;
		err = ibv_post_send(a->qp, wr, &bad);
	}
	assert_int_equal(err, ENOMEM);
	assert_ptr_equal(bad, wr);
	assert_true(--n >= a->depth);
	assert_int_equal(rules_to(a, IBV_QPS_ERR), 0);
	for (i = 0; i < n; i++)
		rules_expect(a->cq, i, IBV_WC_WR_FLUSH_ERR);
	rules_end();
}

/* What a requester gets wrong, and how it is told. */

enum wrong { WRONG_KEY, BEYOND, BEFORE, OTHERS, UNKEYED, LOCAL_KEY,
	     LOCAL_BEYOND, WRONGS };

static void spoil(struct rules *rules, struct ibv_send_wr *wr, enum wrong wrong,
		  const struct ibv_mr *others)
{
	switch (wrong) {
	case WRONG_KEY:
		wr->wr.rdma.rkey ^= 0x5500;
		break;
	case BEYOND:
		wr->wr.rdma.remote_addr = (uintptr_t)rules->b.bytes +
					  RULES_LEN - 7;
		break;
	case BEFORE:
		wr->wr.rdma.remote_addr = (uintptr_t)rules->b.bytes - 1;
		break;
	case OTHERS:
		wr->wr.rdma.rkey = others->rkey;
		break;
	case UNKEYED:
		wr->wr.rdma.rkey = 0;
		break;
	case LOCAL_KEY:
		wr->sg_list->lkey ^= 0x5500;
		break;
	default:
		wr->sg_list->addr = (uintptr_t)rules->a.bytes + RULES_LEN - 7;
		break;
	}
}

static void goes_wrong(void **state, enum ibv_wr_opcode opcode,
		       enum wrong wrong)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){ 0 });
	struct ibv_pd *pd = ibv_alloc_pd(rules->ctx);
	struct ibv_mr *others = ibv_reg_mr(pd, rules->b.bytes, RULES_LEN,
					   RULES_REMOTE);
	struct ibv_send_wr *wr = rules_wr(opcode, &rules->a, &rules->b, 0, 8,
					  1);
	char before[RULES_LEN];

	memset(rules->a.bytes, 'a', RULES_LEN);
	memset(rules->b.bytes, 'b', RULES_LEN);
	memcpy(before, opcode == IBV_WR_RDMA_READ ? rules->a.bytes :
						    rules->b.bytes, RULES_LEN);
	spoil(rules, wr, wrong, others);
	assert_int_equal(rules_send(&rules->a, wr), 0);
	rules_expect(rules->a.cq, 1, wrong < LOCAL_KEY ?
		     IBV_WC_REM_ACCESS_ERR :
		     rules_is_soft(rules) && wrong == LOCAL_KEY &&
		     opcode == IBV_WR_RDMA_WRITE ?
		     IBV_WC_LOC_QP_OP_ERR : IBV_WC_LOC_PROT_ERR);
	assert_int_equal(rules_state(&rules->a), IBV_QPS_ERR);
	assert_memory_equal(before, opcode == IBV_WR_RDMA_READ ?
			    rules->a.bytes : rules->b.bytes, RULES_LEN);
	assert_int_equal(ibv_dereg_mr(others), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	rules_end();
}

static void a_write_that_may_not_be_changes_nothing(void **state)
{
	enum wrong wrong;

	for (wrong = 0; wrong < WRONGS; wrong++)
		goes_wrong(state, IBV_WR_RDMA_WRITE, wrong);
}

static void a_read_that_may_not_be_changes_nothing(void **state)
{
	enum wrong wrong;

	for (wrong = 0; wrong < WRONGS; wrong++)
		goes_wrong(state, IBV_WR_RDMA_READ, wrong);
}

/* The rights of a region (3.2), and of a QP. */

static void try(void **state, unsigned int qp, unsigned int mr,
		enum ibv_wr_opcode opcode, enum ibv_wc_status status)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){
		.access = qp });
	struct ibv_mr *narrow = ibv_reg_mr(rules->pd, rules->b.bytes, RULES_LEN,
					   (int)mr);
	struct ibv_send_wr *wr = rules_wr(opcode, &rules->a, &rules->b, 0, 8,
					  1);

	assert_non_null(narrow);
	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		wr->wr.atomic.rkey = narrow->rkey;
	else
		wr->wr.rdma.rkey = narrow->rkey;
	assert_int_equal(rules_send(&rules->a, wr), 0);
	rules_expect(rules->a.cq, 1, status);
	assert_int_equal(ibv_dereg_mr(narrow), 0);
	rules_end();
}

static const struct {
	enum ibv_wr_opcode opcode;
	unsigned int right;
} rights[] = {
	{ IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE },
	{ IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ },
	{ IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_ACCESS_REMOTE_ATOMIC },
};

static void a_region_gives_no_other_right_than_its_own(void **state)
{
	size_t i, j;

	for (i = 0; i < N_OF(rights); i++)
		for (j = 0; j < N_OF(rights); j++)
			try(state, RULES_REMOTE,
			    IBV_ACCESS_LOCAL_WRITE | rights[i].right,
			    rights[j].opcode,
			    i == j ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR);
}

static void a_queue_pair_gives_no_other_right_than_its_own(void **state)
{
	size_t i, j;

	for (i = 0; i < N_OF(rights); i++)
		for (j = 0; j < N_OF(rights); j++)
			try(state, IBV_ACCESS_LOCAL_WRITE | rights[i].right,
			    RULES_REMOTE, rights[j].opcode,
			    i == j ? IBV_WC_SUCCESS : IBV_WC_REM_INV_REQ_ERR);
}

/* What is wrong at the other end. */

static void a_receive_that_is_too_short_ends_both(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){ 0 });
	struct rules_end *a = &rules->a, *b = &rules->b;

	assert_int_equal(rules_recv(b, 0, 7, 2), 0);
	assert_int_equal(rules_recv(b, 0, 64, 3), 0);
	assert_int_equal(rules_send(a, rules_wr(IBV_WR_SEND, a, b, 0, 8, 1)),
			 0);
	rules_expect(a->cq, 1, rules_is_soft(rules) ? IBV_WC_REM_OP_ERR :
		     IBV_WC_REM_INV_REQ_ERR);
	rules_expect(b->cq, 2, rules_is_soft(rules) ? IBV_WC_LOC_QP_OP_ERR :
		     IBV_WC_LOC_LEN_ERR);
	rules_expect(b->cq, 3, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(rules_state(b), IBV_QPS_ERR);
	rules_end();
}

static void a_receive_without_right_ends_both(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){ 0 });
	struct rules_end *a = &rules->a, *b = &rules->b;
	uint32_t lkey = b->mr->lkey;

	b->mr->lkey ^= 0x5500;
	assert_int_equal(rules_recv(b, 0, 64, 2), 0);
	b->mr->lkey = lkey;
	assert_int_equal(rules_send(a, rules_wr(IBV_WR_SEND, a, b, 0, 8, 1)),
			 0);
	rules_expect(a->cq, 1, IBV_WC_REM_OP_ERR);
	rules_expect(b->cq, 2, rules_is_soft(rules) ? IBV_WC_LOC_QP_OP_ERR :
		     IBV_WC_LOC_PROT_ERR);
	rules_end();
}

static void a_receiver_that_is_not_ready_is_an_error(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){ 0 });
	struct rules_end *a = &rules->a;

	assert_int_equal(rules_send(a, rules_wr(IBV_WR_SEND, a, &rules->b, 0,
						8, 1)), 0);
	rules_expect(a->cq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	rules_end();
}

static void sender_with_endless_retries_waits_for_the_receiver(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){
		.rnr_retries = 7 });
	struct rules_end *a = &rules->a, *b = &rules->b;

	assert_int_equal(rules_send(a, rules_wr(IBV_WR_SEND, a, b, 0, 8, 1)),
			 0);
	rules_expect_none(a->cq);
	assert_int_equal(rules_recv(b, 64, 64, 2), 0);
	rules_expect(a->cq, 1, IBV_WC_SUCCESS);
	rules_expect(b->cq, 2, IBV_WC_SUCCESS);
	rules_end();
}

static void a_peer_that_is_gone_exceeds_the_retries(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){ 0 });
	struct rules_end *a = &rules->a;

	assert_int_equal(ibv_destroy_qp(rules->b.qp), 0);
	rules->b.qp = NULL;
	assert_int_equal(rules_send(a, write_wr(rules, 1)), 0);
	assert_int_equal(rules_send(a, write_wr(rules, 2)), 0);
	rules_expect(a->cq, 1, IBV_WC_RETRY_EXC_ERR);
	rules_expect(a->cq, 2, IBV_WC_WR_FLUSH_ERR);
	rules_end();
}

static void a_peer_in_error_exceeds_the_retries(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){ 0 });
	struct rules_end *a = &rules->a;

	assert_int_equal(rules_to(&rules->b, IBV_QPS_ERR), 0);
	assert_int_equal(rules_send(a, write_wr(rules, 1)), 0);
	rules_expect(a->cq, 1, IBV_WC_RETRY_EXC_ERR);
	rules_end();
}

/* B3.6 */
static void an_overrun_is_told_as_an_error_of_the_queue(void **state)
{
	struct rules *rules = rules_pair(state, &(struct rules_opts){
		.depth = 256 });
	struct rules_end *a = &rules->a;
	struct ibv_async_event event;
	int i;

	set_nonblock(rules->ctx->async_fd);
	assert_true((uint32_t)a->cq->cqe + 2 <= a->depth);
	for (i = 0; i < a->cq->cqe + 2; i++)
		assert_int_equal(rules_send(a, write_wr(rules, 1)), 0);
	while (ibv_get_async_event(rules->ctx, &event))
		assert_int_equal(errno, EAGAIN);
	assert_int_equal(event.event_type, IBV_EVENT_CQ_ERR);
	assert_ptr_equal(event.element.cq, a->cq);
	ibv_ack_async_event(&event);
	rules_end();
}

static const struct harness_case cases[] = {
	CASE(the_first_says_why_and_the_rest_is_flushed),
	CASE(post_in_the_error_state_is_flushed),
	CASE(a_silent_one_is_heard_when_it_fails),
	CASE(receives_are_flushed_in_order),
	CASE(a_full_send_queue_is_ENOMEM),
	CASE(a_write_that_may_not_be_changes_nothing),
	CASE(a_read_that_may_not_be_changes_nothing),
	CASE(a_region_gives_no_other_right_than_its_own),
	CASE(a_queue_pair_gives_no_other_right_than_its_own),
	CASE(a_receive_that_is_too_short_ends_both),
	CASE(a_receive_without_right_ends_both),
	CASE(a_receiver_that_is_not_ready_is_an_error),
	CASE(sender_with_endless_retries_waits_for_the_receiver),
	CASE(a_peer_that_is_gone_exceeds_the_retries),
	CASE(a_peer_in_error_exceeds_the_retries),
	CASE(an_overrun_is_told_as_an_error_of_the_queue),
};

const struct rules_part rules_error = { cases, N_OF(cases) };
