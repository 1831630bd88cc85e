/* SPDX-License-Identifier: BSD-3-Clause */

/* Work requests that do what they are for. */

#include "tests/rdma/verbs-rules.h"

#include <arpa/inet.h>
#include <pthread.h>

static struct rules *filled_pair(void **state, const struct rules_opts *opts)
{
	struct rules *rules = rules_pair(state, opts);

	fill_pattern(rules->a.bytes, RULES_LEN, 0, 1);
	fill_pattern(rules->b.bytes, RULES_LEN, 0, 2);
	return rules;
}

static void a_write_arrives_where_it_was_meant_to(void **state)
{
	struct rules *rules = filled_pair(state, &(struct rules_opts){ 0 });
	struct rules_end *a = &rules->a, *b = &rules->b;
	struct ibv_wc wc;

	assert_int_equal(rules_send(a, rules_wr(IBV_WR_RDMA_WRITE, a, b, 100,
						3000, 1)), 0);
	wc = rules_wait(a->cq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RDMA_WRITE);
	assert_int_equal(wc.qp_num, a->qp->qp_num);
	assert_true(is_pattern(b->bytes, 100, 0, 2));
	assert_true(is_pattern(b->bytes + 100, 3000, 100, 1));
	assert_true(is_pattern(b->bytes + 3100, RULES_LEN - 3100, 3100, 2));
	rules_expect_none(b->cq);
	rules_end();
}

static void read_brings_the_remote_bytes(void **state)
{
	struct rules *rules = filled_pair(state, &(struct rules_opts){ 0 });
	struct rules_end *a = &rules->a, *b = &rules->b;
	struct ibv_wc wc;

	assert_int_equal(rules_send(a, rules_wr(IBV_WR_RDMA_READ, a, b, 100,
						3000, 1)), 0);
	wc = rules_wait(a->cq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RDMA_READ);
	assert_true(is_pattern(a->bytes, 100, 0, 1));
	assert_true(is_pattern(a->bytes + 100, 3000, 100, 2));
	assert_true(is_pattern(a->bytes + 3100, RULES_LEN - 3100, 3100, 1));
	rules_end();
}

/* Three pieces, in order, one of them empty. */
static struct ibv_send_wr *in_pieces(struct ibv_send_wr *wr,
				     const struct rules_end *end)
{
	static struct ibv_sge sge[3];

	sge[0] = (struct ibv_sge){ (uintptr_t)end->bytes + 1000, 300,
				   end->mr->lkey };
	sge[1] = (struct ibv_sge){ (uintptr_t)end->bytes, 0, end->mr->lkey };
	sge[2] = (struct ibv_sge){ (uintptr_t)end->bytes + 10, 700,
				   end->mr->lkey };
	wr->sg_list = sge;
	wr->num_sge = 3;
	return wr;
}

static void a_write_gathers_in_order(void **state)
{
	struct rules *rules = filled_pair(state, &(struct rules_opts){ 0 });
	struct rules_end *a = &rules->a, *b = &rules->b;
	struct ibv_send_wr *wr = rules_wr(IBV_WR_RDMA_WRITE, a, b, 50, 0, 1);

	assert_int_equal(rules_send(a, in_pieces(wr, a)), 0);
	rules_expect(a->cq, 1, IBV_WC_SUCCESS);
	assert_true(is_pattern(b->bytes + 50, 300, 1000, 1));
	assert_true(is_pattern(b->bytes + 350, 700, 10, 1));
	rules_end();
}

static void a_read_scatters_in_order(void **state)
{
	struct rules *rules = filled_pair(state, &(struct rules_opts){ 0 });
	struct rules_end *a = &rules->a, *b = &rules->b;
	struct ibv_send_wr *wr = rules_wr(IBV_WR_RDMA_READ, a, b, 50, 0, 1);

	assert_int_equal(rules_send(a, in_pieces(wr, a)), 0);
	rules_expect(a->cq, 1, IBV_WC_SUCCESS);
	assert_true(is_pattern(a->bytes + 1000, 300, 50, 2));
	assert_true(is_pattern(a->bytes + 10, 700, 350, 2));
	rules_end();
}

/* B3.7: of nothing, not even the key is asked. */
static void write_of_0_bytes_succeeds(void **state)
{
	struct rules *rules = filled_pair(state, &(struct rules_opts){ 0 });
	struct rules_end *a = &rules->a;
	struct ibv_send_wr *wr = rules_wr(IBV_WR_RDMA_WRITE, a, &rules->b, 0, 0,
					  1);

	wr->num_sge = 0;
	wr->wr.rdma.rkey = 0;
	assert_int_equal(rules_send(a, wr), 0);
	rules_expect(a->cq, 1, IBV_WC_SUCCESS);
	assert_true(is_pattern(rules->b.bytes, RULES_LEN, 0, 2));
	rules_end();
}

static void a_message_takes_the_oldest_receive(void **state)
{
	struct rules *rules = filled_pair(state, &(struct rules_opts){ 0 });
	struct rules_end *a = &rules->a, *b = &rules->b;
	struct ibv_send_wr *wr;
	struct ibv_wc wc;

	assert_int_equal(rules_recv(b, 0, 1000, 10), 0);
	assert_int_equal(rules_recv(b, 1000, 1000, 11), 0);
	assert_int_equal(rules_send(a, rules_wr(IBV_WR_SEND, a, b, 200, 300,
						1)), 0);
	rules_expect(a->cq, 1, IBV_WC_SUCCESS);
	wr = rules_wr(IBV_WR_SEND_WITH_IMM, a, b, 700, 400, 2);
	wr->imm_data = htonl(0x12345678);
	assert_int_equal(rules_send(a, wr), 0);
	rules_expect(a->cq, 2, IBV_WC_SUCCESS);
	wc = rules_wait(b->cq);
	assert_int_equal(wc.wr_id, 10);
	assert_int_equal(wc.opcode, IBV_WC_RECV);
	assert_int_equal(wc.byte_len, 300);
	assert_int_equal(wc.wc_flags & IBV_WC_WITH_IMM, 0);
	wc = rules_wait(b->cq);
	assert_int_equal(wc.wr_id, 11);
	assert_int_equal(wc.byte_len, 400);
	assert_int_equal(wc.wc_flags & IBV_WC_WITH_IMM, IBV_WC_WITH_IMM);
	assert_int_equal(ntohl(wc.imm_data), 0x12345678);
	assert_true(is_pattern(b->bytes, 300, 200, 1));
	assert_true(is_pattern(b->bytes + 300, 700, 300, 2));
	assert_true(is_pattern(b->bytes + 1000, 400, 700, 1));
	rules_end();
}

static void write_with_immediate_takes_a_receive_and_no_bytes_of_the_receive(
	void **state)
{
	struct rules *rules = filled_pair(state, &(struct rules_opts){ 0 });
	struct rules_end *a = &rules->a, *b = &rules->b;
	struct ibv_send_wr *wr = rules_wr(IBV_WR_RDMA_WRITE_WITH_IMM, a, b, 0,
					  100, 1);
	struct ibv_wc wc;

	wr->imm_data = htonl(77);
	assert_int_equal(rules_recv(b, 1000, 10, 10), 0);
	assert_int_equal(rules_send(a, wr), 0);
	rules_expect(a->cq, 1, IBV_WC_SUCCESS);
	wc = rules_wait(b->cq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.byte_len, 100);
	assert_int_equal(wc.wc_flags & IBV_WC_WITH_IMM, IBV_WC_WITH_IMM);
	assert_int_equal(ntohl(wc.imm_data), 77);
	assert_true(is_pattern(b->bytes, 100, 0, 1));
	assert_true(is_pattern(b->bytes + 100, RULES_LEN - 100, 100, 2));
	rules_end();
}

/* Inline: of the bytes' key nothing is asked, and they are the caller's at
 * once. */
static void inline_data_is_copied_by_the_call(void **state)
{
	struct rules *rules = filled_pair(state, &(struct rules_opts){
		.max_inline = 64 });
	struct rules_end *a = &rules->a, *b = &rules->b;
	struct ibv_send_wr *wr = rules_wr(IBV_WR_RDMA_WRITE, a, b, 0, 64, 1);
	char bytes[64];

	memcpy(bytes, a->bytes, sizeof(bytes));
	wr->sg_list->addr = (uintptr_t)bytes;
	wr->sg_list->lkey = 0;
	wr->send_flags = IBV_SEND_INLINE;
	assert_int_equal(rules_send(a, wr), 0);
	memset(bytes, 0, sizeof(bytes));
	rules_expect(a->cq, 1, IBV_WC_SUCCESS);
	assert_true(is_pattern(b->bytes, 64, 0, 1));
	rules_end();
}

static void inline_data_beyond_the_limit_is_refused(void **state)
{
	struct rules *rules = filled_pair(state, &(struct rules_opts){
		.max_inline = 64 });
	struct rules_end *a = &rules->a;
	struct ibv_send_wr *wr = rules_wr(IBV_WR_RDMA_WRITE, a, &rules->b, 0,
					  RULES_LEN, 1);

	wr->send_flags = IBV_SEND_INLINE;
	assert_int_not_equal(rules_send(a, wr), 0);
	rules_expect_none(a->cq);
	wr->send_flags = 0;
	assert_int_equal(rules_send(a, wr), 0);
	rules_expect(a->cq, 1, IBV_WC_SUCCESS);
	rules_end();
}

static void bad_work_request_stops_the_list_where_it_stands(void **state)
{
	struct rules *rules = filled_pair(state, &(struct rules_opts){ 0 });
	struct rules_end *a = &rules->a;
	struct ibv_send_wr *wr[3], *bad = NULL;
	struct ibv_sge many[64] = { { 0 } };
	int i;

	for (i = 0; i < 3; i++) {
		wr[i] = rules_wr(IBV_WR_RDMA_WRITE, a, &rules->b, 0, 8,
				 (uint64_t)i);
		if (i)
			wr[i - 1]->next = wr[i];
	}
	wr[1]->sg_list = many;
	wr[1]->num_sge = N_OF(many);
	assert_int_not_equal(ibv_post_send(a->qp, wr[0], &bad), 0);
	assert_ptr_equal(bad, wr[1]);
	rules_expect(a->cq, 0, IBV_WC_SUCCESS);
	rules_expect_none(a->cq);
	rules_end();
}

static void silent_ones_are_counted_by_the_next_that_is_not(void **state)
{
	struct rules *rules = filled_pair(state, &(struct rules_opts){
		.quiet = true });
	struct rules_end *a = &rules->a;
	struct ibv_send_wr *wr;
	uint64_t i;

	for (i = 1; i < 4 * a->depth + 1; i++) {
		wr = rules_wr(IBV_WR_RDMA_WRITE, a, &rules->b, 0, 8, i);
		wr->send_flags = i % a->depth ? 0 : IBV_SEND_SIGNALED;
		assert_int_equal(rules_send(a, wr), 0);
		if (wr->send_flags)
			rules_expect(a->cq, i, IBV_WC_SUCCESS);
	}
	rules_expect_none(a->cq);
	rules_end();
}

/* Atomics. */

static uint64_t *word_of(struct rules_end *end)
{
	return (uint64_t *)(void *)end->bytes;
}

static void fetch_and_add_brings_what_was(void **state)
{
	struct rules *rules = filled_pair(state, &(struct rules_opts){ 0 });
	struct rules_end *a = &rules->a, *b = &rules->b;
	struct ibv_send_wr *wr = rules_wr(IBV_WR_ATOMIC_FETCH_AND_ADD, a, b, 0,
					  8, 1);
	struct ibv_wc wc;

	*word_of(b) = UINT64_MAX - 1;
	wr->wr.atomic.compare_add = 5;
	assert_int_equal(rules_send(a, wr), 0);
	wc = rules_wait(a->cq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_FETCH_ADD);
	assert_int_equal(*word_of(a), UINT64_MAX - 1);
	assert_int_equal(*word_of(b), 3);
	rules_end();
}

static void compare_and_swap_brings_what_was(void **state)
{
	struct rules *rules = filled_pair(state, &(struct rules_opts){ 0 });
	struct rules_end *a = &rules->a, *b = &rules->b;
	struct ibv_send_wr *wr;
	int i;

	*word_of(b) = 7;
	for (i = 0; i < 2; i++) {
		wr = rules_wr(IBV_WR_ATOMIC_CMP_AND_SWP, a, b, 0, 8, 1);
		wr->wr.atomic.compare_add = 7;
		wr->wr.atomic.swap = 9;
		assert_int_equal(rules_send(a, wr), 0);
		rules_expect(a->cq, 1, IBV_WC_SUCCESS);
		assert_int_equal(*word_of(a), i ? 9 : 7);
		assert_int_equal(*word_of(b), 9);
	}
	rules_end();
}

static void an_atomic_that_is_not_aligned_is_refused(void **state)
{
	struct rules *rules = filled_pair(state, &(struct rules_opts){ 0 });
	struct rules_end *a = &rules->a;

	/* By the call, or by the responder. */
	if (rules_send(a, rules_wr(IBV_WR_ATOMIC_FETCH_AND_ADD, a, &rules->b, 4,
				   8, 1)))
		rules_expect_none(a->cq);
	else
		rules_expect(a->cq, 1, IBV_WC_REM_INV_REQ_ERR);
	assert_true(is_pattern(rules->b.bytes, RULES_LEN, 0, 2));
	rules_end();
}

static void peer_with_no_read_depth_cannot_be_read(void **state)
{
	struct rules *rules = filled_pair(state, &(struct rules_opts){
		.shy = true });
	struct rules_end *a = &rules->a, *b = &rules->b;

	assert_int_equal(rules_send(a, rules_wr(IBV_WR_RDMA_WRITE, a, b, 0, 8,
						1)), 0);
	rules_expect(a->cq, 1, IBV_WC_SUCCESS);
	rules_end();
}

/* A receive queue that QPs share. */

static struct ibv_srq *make_srq(struct rules *rules)
{
	struct ibv_srq_init_attr attr = { .attr = { 8, 1, 0 } };
	struct ibv_srq *srq = ibv_create_srq(rules->pd, &attr);

	assert_non_null(srq);
	return srq;
}

static void give(struct ibv_srq *srq, struct rules_end *end, uint64_t id)
{
	struct ibv_sge sge = { (uintptr_t)end->bytes, RULES_LEN,
			       end->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge,
				  .num_sge = 1 }, *bad;

	assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
}

static void a_shared_receive_is_taken_and_the_limit_told_once(void **state)
{
	struct ibv_srq *srq = make_srq(rules_begin(state));
	struct rules *rules = rules_pair(state, &(struct rules_opts){
		.srq = srq });
	struct rules_end *a = &rules->a, *b = &rules->b;
	struct ibv_srq_attr limit = { .srq_limit = 2 };
	struct ibv_async_event event;
	uint64_t i;

	set_nonblock(rules->ctx->async_fd);
	for (i = 0; i < 4; i++)
		give(srq, b, 10 + i);
	assert_int_equal(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT), 0);
	for (i = 0; i < 4; i++) {
		assert_int_equal(rules_send(a, rules_wr(IBV_WR_SEND, a, b, 0, 8,
							i)), 0);
		rules_expect(a->cq, i, IBV_WC_SUCCESS);
		rules_expect(b->cq, 10 + i, IBV_WC_SUCCESS);
	}
	while (ibv_get_async_event(rules->ctx, &event))
		assert_int_equal(errno, EAGAIN);
	assert_int_equal(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	assert_ptr_equal(event.element.srq, srq);
	ibv_ack_async_event(&event);
	assert_int_equal(ibv_get_async_event(rules->ctx, &event), -1);
	assert_int_equal(ibv_destroy_srq(srq), EBUSY);
	assert_int_equal(ibv_destroy_qp(b->qp), 0);
	b->qp = NULL;
	assert_int_equal(ibv_destroy_srq(srq), 0);
	rules_end();
}

/* Two threads, each with an end of its own. */

static void *work(void *arg)
{
	struct rules_end *end = arg, *peer = end->peer;
	struct ibv_sge sge = { (uintptr_t)end->bytes, 64, end->mr->lkey };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_READ, .sg_list = &sge, .num_sge = 1,
		.wr.rdma = { (uintptr_t)peer->bytes + 2048, peer->mr->rkey },
	};
	uintptr_t i;

	for (i = 0; i < 200; i++) {
		wr.wr_id = i;
		if (rules_send(end, &wr) ||
		    rules_wait(end->cq).status != IBV_WC_SUCCESS)
			break;
	}
	return (void *)i;
}

static void device_may_be_used_by_two_threads(void **state)
{
	struct rules *rules = filled_pair(state, &(struct rules_opts){ 0 });
	pthread_t thread;
	void *done;

	rules->a.peer = &rules->b;
	rules->b.peer = &rules->a;
	assert_int_equal(pthread_create(&thread, NULL, work, &rules->b), 0);
	assert_int_equal((uintptr_t)work(&rules->a), 200);
	assert_int_equal(pthread_join(thread, &done), 0);
	assert_int_equal((uintptr_t)done, 200);
	assert_true(is_pattern(rules->a.bytes, 64, 2048, 2));
	assert_true(is_pattern(rules->b.bytes, 64, 2048, 1));
	rules_end();
}

static const struct harness_case cases[] = {
	CASE(a_write_arrives_where_it_was_meant_to),
	CASE(read_brings_the_remote_bytes),
	CASE(a_write_gathers_in_order),
	CASE(a_read_scatters_in_order),
	CASE(write_of_0_bytes_succeeds),
	CASE(a_message_takes_the_oldest_receive),
	CASE(write_with_immediate_takes_a_receive_and_no_bytes_of_the_receive),
	CASE(inline_data_is_copied_by_the_call),
	CASE(inline_data_beyond_the_limit_is_refused),
	CASE(bad_work_request_stops_the_list_where_it_stands),
	CASE(silent_ones_are_counted_by_the_next_that_is_not),
	CASE(fetch_and_add_brings_what_was),
	CASE(compare_and_swap_brings_what_was),
	CASE(an_atomic_that_is_not_aligned_is_refused),
	CASE(peer_with_no_read_depth_cannot_be_read),
	CASE(device_may_be_used_by_two_threads),
	CASE(a_shared_receive_is_taken_and_the_limit_told_once),
};

const struct rules_part rules_move = { cases, N_OF(cases) };
