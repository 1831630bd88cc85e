/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Shared receive queues are kept filled: when, by whom, and what happens if the
 * pool has too few bufs or the device takes none.
 */

#include "tests/support/message-fixture.h"

#include "base/fault.h"

/* Filling. */

static void the_device_says_when_few_are_left(void **state)
{
	struct peers t;
	int i;

	peers_init(&t, state);
	t.srq_opts.recvs = 16;
	t.srq_opts.batch = 16;
	t.srq_opts.low = 8;
	peers_open(&t);
	assert_int_equal(srq_stats_of(t.srq).posted, 16);
	for (i = 0; i < 12; i++)
		send_number(&t, i, 1);
	all_sent(&t, 12);
	until_heard(&t, 12);
	UNTIL(t.r, srq_stats_of(t.srq).low);
	UNTIL(t.r, srq_stats_of(t.srq).posted > 8);
	assert_true(srq_stats_of(t.srq).batches > 1);
	peers_end(&t);
}

static void a_batch_is_posted_when_it_is_missing(void **state)
{
	struct peers t;
	int i;

	peers_init(&t, state);
	t.srq_opts.recvs = 32;
	t.srq_opts.batch = 4;
	t.srq_opts.low = 1;
	peers_open(&t);
	assert_int_equal(srq_stats_of(t.srq).batches, 1);
	for (i = 0; i < 16; i++) {
		send_number(&t, i, 1);
		until_heard(&t, i + 1);
	}
	all_sent(&t, 16);
	assert_int_equal(srq_stats_of(t.srq).batches, 5);
	assert_int_equal(srq_stats_of(t.srq).messages, 16);
	peers_end(&t);
}

/* A refusal of the device's is made good a little later. */
static void receives_not_posted_are_posted_later(void **state)
{
	struct peers t;
	int i;

	peers_init(&t, state);
	t.srq_opts.recvs = t.srq_opts.batch = 4;
	t.srq_opts.low = 1;
	peers_open(&t);
	for (i = 0; i < 3; i++)
		send_number(&t, i, 1);
	all_sent(&t, 3);
	until_heard(&t, 3);
	assert_int_equal(srq_stats_of(t.srq).posted, 1);
	fault_arm(0);
	assert_int_equal(srq_fill(t.srq, true), -ENOMEM);
	assert_int_equal(fault_disarm(), 1);
	assert_int_equal(srq_stats_of(t.srq).posted, 1);
	UNTIL(t.r, srq_stats_of(t.srq).posted == 4);
	peers_end(&t);
}

/* Fewer bufs than receives: it always waits for more. */
static void short_open(struct peers *t, void **state, uint32_t bufs)
{
	peers_init(t, state);
	t->srq_opts.recvs = 4;
	t->srq_opts.bufs = bufs;
	peers_open(t);
}

static void a_queue_with_fewer_bufs_than_receives_can_go(void **state)
{
	struct peers t;
	int i;

	short_open(&t, state, 2);
	assert_int_equal(srq_stats_of(t.srq).posted, 2);
	assert_int_equal(srq_stats_of(t.srq).starved, 1);
	for (i = 0; i < 5; i++) {
		send_number(&t, i, 1);
		until_heard(&t, i + 1);
	}
	all_sent(&t, 5);
	peers_end(&t);
}

/* What came for the queue is not the user's. */
static void srq_is_destroyed_when_its_last_buf_is_put(void **state)
{
	struct peers t;

	short_open(&t, state, 2);
	t.server.keep = true;
	send_mem(&t, 0, 0, 100);
	until_heard(&t, 1);
	all_sent(&t, 1);
	peers_close(&t);
	assert_int_equal(weir_srq_destroy(t.srq), -EBUSY);
	put_kept(&t.server);
	peers_destroy_srq(&t);
	peers_end(&t);
}

/* Two connections that nobody listens to have all of it. */
static void buf_of_a_dropped_message_is_replaced(void **state)
{
	struct peers t;
	int i;

	short_open(&t, state, 8);
	weir_conn_set_message_fn(t.e.client, NULL, NULL);
	weir_conn_set_message_fn(t.e.server, NULL, NULL);
	for (i = 0; i < 4; i++)
		send_number_by(&t, i & 1 ? t.e.client : t.e.server, i, 1);
	UNTIL(t.r, srq_stats_of(t.srq).held == 4);
	assert_int_equal(srq_stats_of(t.srq).posted, 0);
	all_sent(&t, 4);
	peers_close(&t);
	assert_int_equal(srq_stats_of(t.srq).dropped, 4);
	ends_open(&t.e);
	ends_establish(&t.e);
	peers_listen(&t);
	send_number(&t, 0, 1);
	until_heard(&t, 1);
	all_sent(&t, 1);
	peers_end(&t);
}

/* The reactor's stop ends the queue's wait for a buf. */
static void srq_is_filled_again_after_a_stop(void **state)
{
	struct peers t;
	int i;

	short_open(&t, state, 2);
	t.server.keep = true;
	for (i = 0; i < 2; i++)
		send_number(&t, i, 1);
	all_sent(&t, 2);
	until_heard(&t, 2);
	assert_int_equal(srq_stats_of(t.srq).posted, 0);
	weir_reactor_stop(t.r);
	assert_int_equal(weir_reactor_run(t.r), 0);
	put_kept(&t.server);
	assert_int_equal(weir_reactor_start(t.r), 0);
	send_number(&t, 2, 1);
	until_heard(&t, 3);
	all_sent(&t, 3);
	peers_end(&t);
}

static int takes_no_receive(const char *name)
{
	return !strcmp(name, "ibv_post_srq_recv");
}

/* What is refused for ever keeps no idle core busy. */
static void refusals_are_tried_again_less_and_less(void **state)
{
	uint64_t ns = WEIR_MSEC;
	struct peers t;
	int i;

	peers_init(&t, state);
	t.srq_opts.recvs = t.srq_opts.batch = 4;
	peers_open(&t);
	send_number(&t, 0, 1);
	all_sent(&t, 1);
	until_heard(&t, 1);
	fault_ask(takes_no_receive);
	for (i = 0; i < 12; i++) {
		assert_int_equal(t.srq->again_ns, ns);
		assert_int_equal(srq_fill(t.srq, true), -ENOMEM);
		ns = 2 * ns < WEIR_SEC ? 2 * ns : WEIR_SEC;
	}
	fault_ask(NULL);
	assert_int_equal(srq_fill(t.srq, true), 0);
	assert_int_equal(srq_stats_of(t.srq).posted, 4);
	assert_int_equal(t.srq->again_ns, WEIR_MSEC);
	peers_end(&t);
}

/* Each call that can fail does, once. */
static void each_call_fails_once(void **state, uint32_t bufs)
{
	struct peers t;
	int nth = 0, hit, err;

	do {
		peers_init(&t, state);
		t.srq_opts.recvs = 4;
		t.srq_opts.bufs = bufs;
		assert_int_equal(weir_srq_create(&t.srq, t.r, &t.srq_opts), 0);
		t.e.opts.srq = t.srq;
		ends_open(&t.e);
		ends_request(&t.e);
		fault_arm(nth++);
		rec_init(&t.e.accepted);
		err = weir_conn_accept(t.e.server, &t.e.accepted.op, NULL, 0);
		hit = fault_disarm();
		assert_true(hit || !err);
		if (err) {
			assert_int_equal(weir_conn_state(t.e.server),
					 WEIR_CONN_REQUESTED);
			STARTS(weir_conn_accept(t.e.server, &t.e.accepted.op,
						NULL, 0));
		}
		result_of(t.r, &t.e.connected);
		result_of(t.r, &t.e.accepted);
		peers_end(&t);
		assert_true(nth < 1000);
	} while (hit);
}

static void failing_call_leaves_the_srq_whole(void **state)
{
	each_call_fails_once(state, 0);
}

/* A wait that was begun for the device is over with it. */
static void failing_call_leaves_the_srq_whole_while_bufs_are_few(void **state)
{
	each_call_fails_once(state, 2);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(the_device_says_when_few_are_left),
		CASE(a_batch_is_posted_when_it_is_missing),
		CASE(receives_not_posted_are_posted_later),
		CASE(a_queue_with_fewer_bufs_than_receives_can_go),
		CASE(srq_is_destroyed_when_its_last_buf_is_put),
		CASE(buf_of_a_dropped_message_is_replaced),
		CASE(srq_is_filled_again_after_a_stop),
		CASE(refusals_are_tried_again_less_and_less),
		CASE(failing_call_leaves_the_srq_whole),
		CASE(failing_call_leaves_the_srq_whole_while_bufs_are_few),
	};

	return run_over_rdma(cases, N_OF(cases));
}
