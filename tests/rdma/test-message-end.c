/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Messages when something goes wrong: each send ends once, the first with the
 * cause; nobody is drowned; what came before an end is told before it.
 */

#include "tests/support/message-fixture.h"
#include "tests/support/table-fixture.h"

#include "base/fault.h"

static bool is_soft(const struct peers *t)
{
	return !strncmp(t->e.client->device_ref->device->name, "rxe", 3) ||
	       !strcmp(t->e.client->device_ref->device->name, "mock_rxe");
}

#define N 6

/* From the first on, which has the cause. */
static void assert_all_failed(const struct peers *t, int n, int64_t err,
			      int code)
{
	int i;

	for (i = 0; i < n; i++) {
		assert_int_equal(t->sent[i].res, i ? -ECANCELED : err);
		assert_int_equal(t->sent[i].detail.code,
				 i ? IBV_WC_WR_FLUSH_ERR : code);
		assert_int_equal(t->sent[i].detail.bytes, 0);
	}
}

static void a_message_too_large_ends_both_ends(void **state)
{
	struct peers t;
	bool soft;
	int i;

	peers_init(&t, state);
	t.srq_opts.buf_size = 1000;
	peers_open(&t);
	soft = is_soft(&t);
	send_mem(&t, 0, 0, 1001);
	for (i = 1; i < N; i++)
		send_number(&t, i, 1);
	all_sent(&t, N);
	until_end(&t, 0);
	until_end(&t, 1);
	assert_all_failed(&t, N, soft ? -EREMOTEIO : -EPROTO,
			  soft ? IBV_WC_REM_OP_ERR : IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(t.e.why[1], soft ? -EIO : -EMSGSIZE);
	assert_int_equal(t.server.n, 0);
	peers_end(&t);
}

/* Its retries are counted, and then it is over. */
static void peer_without_receives_for_too_long_ends_a_conn(void **state)
{
	struct peers t;
	int i;

	peers_init(&t, state);
	t.e.opts.rnr_retries = 1;
	t.srq_opts.recvs = t.srq_opts.bufs = 2;
	peers_open(&t);
	t.server.keep = true;
	send_number(&t, 0, 0);
	send_number(&t, 1, 1);
	UNTIL(t.r, t.server.n_kept == 2);
	all_sent(&t, 2);
	for (i = 0; i < N; i++)
		send_number(&t, i, 1);
	all_sent(&t, N);
	assert_all_failed(&t, N, -ETIMEDOUT, IBV_WC_RNR_RETRY_EXC_ERR);
	until_end(&t, 0);
	assert_int_equal(t.e.why[0], -ECONNRESET);
	peers_end(&t);
}

static void deadline_ends_message_to_peer_without_receives(void **state)
{
	struct peers t;

	peers_init(&t, state);
	t.e.opts.grace_ns = WEIR_MSEC;
	t.srq_opts.recvs = t.srq_opts.bufs = 1;
	peers_open(&t);
	t.server.keep = true;
	send_number(&t, 0, 0);
	UNTIL(t.r, t.server.n_kept == 1);
	all_sent(&t, 1);
	send_number(&t, 0, 1);
	assert_int_equal(weir_op_set_deadline(&t.sent[0].op, 1), 0);
	all_sent(&t, 1);
	assert_int_equal(t.sent[0].res, -ETIMEDOUT);
	assert_int_equal(t.sent[0].detail.code, IBV_WC_WR_FLUSH_ERR);
	until_end(&t, 0);
	assert_int_equal(t.e.why[0], -ETIMEDOUT);
	peers_end(&t);
}

/* The end comes last, when all who wait have been told. */
static void all_are_told(struct weir_conn *c, int why_told, void *arg)
{
	struct peers *t = arg;
	int i;

	for (i = 0; i < N; i++)
		assert_int_equal(t->sent[i].calls, 1);
	on_end(c, why_told, &t->e);
}

static void a_cut_link_ends_each_send_once(void **state)
{
	struct peers t;
	int i;

	if (!mocked)
		skip_because("who cuts the link is not this program");
	peers_init(&t, state);
	t.e.opts.sends = 3;
	peers_open(&t);
	weir_conn_set_end_fn(t.e.client, all_are_told, &t);
	mock_set_link(MOCK_LOST);
	for (i = 0; i < N; i++)
		send_number(&t, i, 1);
	all_sent(&t, N);
	mock_set_link(MOCK_UP);
	assert_all_failed(&t, N, -ETIMEDOUT, IBV_WC_RETRY_EXC_ERR);
	until_end(&t, 0);
	assert_int_equal(t.e.why[0], -ECONNRESET);
	peers_end(&t);
}

/* The server has no callback. */
static void begin_unheard(struct peers *t, void **state)
{
	peers_begin(t, state);
	weir_conn_set_message_fn(t->e.server, NULL, NULL);
}

/* They wait, in order, until somebody listens. */
static void messages_wait_for_a_callback(void **state)
{
	struct peers t;
	int i;

	begin_unheard(&t, state);
	for (i = 0; i < N; i++)
		send_number(&t, i, (uint32_t)i);
	all_sent(&t, N);
	UNTIL(t.r, srq_stats_of(t.srq).held == N);
	weir_conn_set_message_fn(t.e.server, on_message, &t.server);
	assert_int_equal(t.server.n, 0);
	until_heard(&t, N);
	for (i = 0; i < N; i++)
		assert_int_equal(t.server.m[i].imm, i);
	assert_int_equal(srq_stats_of(t.srq).held, 0);
	peers_end(&t);
}

/* So that the buffers are there for others. */
static void a_flood_that_nobody_hears_ends_the_connection(void **state)
{
	struct peers t;
	int i;

	peers_init(&t, state);
	t.e.opts.recvs = 4;
	peers_open(&t);
	weir_conn_set_message_fn(t.e.server, NULL, NULL);
	for (i = 0; i < 4; i++)
		send_number(&t, i, 1);
	UNTIL(t.r, srq_stats_of(t.srq).held == 4);
	assert_int_equal(weir_conn_state(t.e.server), WEIR_CONN_ESTABLISHED);
	send_number(&t, 4, 1);
	until_end(&t, 1);
	assert_int_equal(t.e.why[1], -ENOBUFS);
	all_sent(&t, 5);
	assert_int_equal(srq_stats_of(t.srq).held, 0);
	assert_int_equal(srq_stats_of(t.srq).dropped, 5);
	peers_end(&t);
}

/* The queue has space again before the connection has ended: what comes then
 * would follow on a gap. */
static void messages_after_a_dropped_one_are_dropped(void **state)
{
	struct peers t;
	int n = 4, i;

	peers_init(&t, state);
	t.e.opts.recvs = 4;
	peers_open(&t);
	weir_conn_set_message_fn(t.e.server, NULL, NULL);
	for (i = 0; i < n; i++)
		send_number(&t, i, (uint32_t)i);
	UNTIL(t.r, srq_stats_of(t.srq).held == 4);
	weir_conn_set_message_fn(t.e.server, on_message, &t.server);
	while (n < 40 && weir_conn_state(t.e.client) ==
				 WEIR_CONN_ESTABLISHED) {
		for (i = 0; i < 2; i++, n++)
			send_number(&t, n, (uint32_t)n);
		some_turns(t.r, 1);
	}
	until_end(&t, 1);
	assert_int_equal(t.e.why[1], -ENOBUFS);
	all_sent(&t, n);
	assert_true(t.server.n >= 4);
	for (i = 0; i < t.server.n; i++)
		assert_int_equal(t.server.m[i].imm, i);
	peers_end(&t);
}

/* How many were told when the end was. */
static int heard_at_end;

static void count_at_end(struct weir_conn *c, int why_told, void *arg)
{
	struct peers *t = arg;

	heard_at_end = t->server.n;
	on_end(c, why_told, &t->e);
}

static void messages_before_the_end_are_reported_before_the_end(void **state)
{
	struct peers t;
	struct rec gone;
	int i;

	begin_unheard(&t, state);
	weir_conn_set_end_fn(t.e.server, count_at_end, &t);
	for (i = 0; i < N; i++)
		send_number(&t, i, (uint32_t)i);
	all_sent(&t, N);
	rec_init(&gone);
	STARTS(weir_conn_disconnect(t.e.client, &gone.op));
	weir_conn_set_message_fn(t.e.server, on_message, &t.server);
	until_end(&t, 1);
	assert_int_equal(heard_at_end, N);
	UNTIL(t.r, gone.calls);
	assert_int_equal(gone.res, 0);
	peers_end(&t);
}

static void unread_messages_are_dropped_at_the_end(void **state)
{
	struct peers t;
	int i;

	begin_unheard(&t, state);
	for (i = 0; i < N; i++)
		send_number(&t, i, (uint32_t)i);
	all_sent(&t, N);
	assert_int_equal(do_disconnect(&t.e, t.e.client), 0);
	until_end(&t, 1);
	assert_int_equal(t.e.why[1], 0);
	assert_int_equal(srq_stats_of(t.srq).dropped, N);
	assert_int_equal(srq_stats_of(t.srq).held, 0);
	peers_end(&t);
}

/* A message may come before the peer's last word of the connection. */
static void a_message_that_comes_while_it_is_accepted_waits(void **state)
{
	struct peers t;

	if (!mocked)
		skip_because("soft-RoCE tells the end of an accept in time");
	peers_init(&t, state);
	peers_create(&t);
	ends_request(&t.e);
	weir_conn_set_message_fn(t.e.server, on_message, &t.server);
	start_accept(&t.e, NULL);
	mock_cm_hold(true);
	mock_cm_step(1);
	UNTIL(t.r, t.e.connected.calls);
	send_number(&t, 0, 11);
	all_sent(&t, 1);
	some_turns(t.r, 3);
	assert_int_equal(weir_conn_state(t.e.server), WEIR_CONN_ACCEPTING);
	assert_int_equal(t.server.n, 0);
	mock_cm_hold(false);
	assert_int_equal(finish(t.r, &t.e.accepted), 0);
	until_heard(&t, 1);
	assert_int_equal(t.server.m[0].imm, 11);
	peers_end(&t);
}

static void a_send_that_waits_can_be_cancelled(void **state)
{
	struct peers t;
	int i;

	if (!mocked)
		skip_because("soft-RoCE does not wait to be told");
	peers_init(&t, state);
	t.e.opts.sends = 1;
	peers_open(&t);
	mock_hold(true);
	for (i = 0; i < 3; i++)
		send_number(&t, i, (uint32_t)i);
	weir_op_cancel(&t.sent[0].op);
	weir_op_cancel(&t.sent[1].op);
	assert_int_equal(weir_op_set_deadline(&t.sent[2].op, 1), 0);
	UNTIL(t.r, t.sent[1].calls && t.sent[2].calls);
	assert_int_equal(t.sent[1].res, -ECANCELED);
	assert_int_equal(t.sent[2].res, -ETIMEDOUT);
	assert_int_equal(t.sent[0].calls, 0);
	assert_int_equal(weir_conn_destroy(t.e.client), -EBUSY);
	mock_hold(false);
	all_sent(&t, 1);
	assert_int_equal(t.sent[0].res, 3);
	until_heard(&t, 1);
	peers_end(&t);
}

static void a_refused_doorbell_ends_the_connection(void **state)
{
	struct peers t;
	int i;

	peers_begin(&t, state);
	fault_arm(0);
	send_number(&t, 0, 1);
	assert_int_equal(fault_disarm(), 1);
	for (i = 1; i < N; i++)
		assert_int_equal(try_send(&t, t.e.client, i,
				&(struct weir_message){
				.size = sizeof(struct weir_message) }),
				-ENOTCONN);
	all_sent(&t, 1);
	assert_int_equal(t.sent[0].res, -ENOMEM);
	until_end(&t, 0);
	assert_int_equal(t.server.n, 0);
	peers_end(&t);
}

/* A callback that has had enough of everything. */
static void destroy_all(struct weir_conn *c, const struct weir_message *m,
			void *arg)
{
	struct peers *t = arg;

	weir_buf_put(m->buf);
	t->server.n++;
	assert_int_equal(weir_conn_destroy(c), 0);
	t->e.server = NULL;
	peers_close(t);
	peers_destroy_srq(t);
}

static void a_callback_may_destroy_everything(void **state)
{
	struct peers t;
	int i;

	begin_unheard(&t, state);
	for (i = 0; i < N; i++)
		send_number(&t, i, 1);
	all_sent(&t, N);
	UNTIL(t.r, srq_stats_of(t.srq).held == N);
	weir_conn_set_message_fn(t.e.server, destroy_all, &t);
	until_heard(&t, 1);
	peers_end(&t);
}

static void arguments_that_make_no_sense_change_nothing(void **state)
{
	static char plain[100];
	struct weir_message good = { .size = sizeof(good) }, m;
	struct weir_buf *stray;
	struct peers t;

	peers_begin(&t, state);
	stray = peers_buf(&t, 0, 3000);
#define REFUSED(err, ...)                                                 \
	do {                                                              \
		m = good;                                                 \
		__VA_ARGS__;                                              \
		assert_int_equal(try_send(&t, t.e.client, 0, &m), err);   \
	} while (0)
	REFUSED(-EINVAL, m.size = 8);
	REFUSED(-EINVAL, m.reserved = 1);
	REFUSED(-EINVAL, m.flags = WEIR_MESSAGE_SIGNAL);
	REFUSED(-EINVAL, m.flags = WEIR_MESSAGE_IMM | WEIR_MESSAGE_INVALIDATE);
	REFUSED(-EINVAL, m.buf = stray; m.data = plain);
	REFUSED(-EMSGSIZE, m.data = plain;
		m.len = t.e.client->max_inline + 1ull);
	assert_int_equal(weir_mmap_rm_device(t.m, t.dev), -EBADFD);
#undef REFUSED
	assert_int_equal(weir_buf_refs(stray), 1);
	weir_buf_put(stray);
	assert_int_equal(weir_conn_destroy(NULL), 0);
	send_number(&t, 0, 1);
	all_sent(&t, 1);
	until_heard(&t, 1);
	peers_end(&t);
}

/* Bufs that the device does not know; too many pieces. */
static void message_longer_than_port_takes_is_refused(void **state)
{
	struct weir_message m = { .size = sizeof(m) };
	struct peers t;

	if (!mocked)
		skip_because("soft-RoCE takes 8 MiB");
	mocked()->max_message = 1000;
	peers_begin(&t, state);
	assert_int_equal(t.e.client->max_message, 1000);
	m.buf = peers_buf(&t, 0, 1001);
	assert_int_equal(try_send(&t, t.e.client, 0, &m), -EMSGSIZE);
	weir_buf_put(m.buf);
	mocked()->max_message = 0;
	peers_end(&t);
}

static void message_that_the_device_cannot_send_is_refused(void **state)
{
	struct weir_pool_opts opts = { .size = sizeof(opts), .bufs = 1 };
	struct weir_message m = { .size = sizeof(m) };
	struct weir_pool *pool;
	struct weir_buf *own;
	struct peers t;
	uint32_t i;

	peers_begin(&t, state);
	assert_int_equal(weir_pool_create(&pool, t.r, &opts), 0);
	assert_int_equal(weir_pool_get(&own, pool), 0);
	m.buf = own;
	assert_int_equal(weir_buf_set_data(own, weir_buf_addr(own), 1000), 0);
	assert_int_equal(try_send(&t, t.e.client, 0, &m), -EXDEV);
	assert_int_equal(weir_buf_set_data(own, weir_buf_addr(own), 8), 0);
	STARTS(try_send(&t, t.e.client, 0, &m));
	all_sent(&t, 1);
	assert_int_equal(t.sent[0].res, 8);
	weir_buf_put(own);
	m.buf = peers_buf(&t, 0, 1);
	for (i = 0; i < t.e.client->max_sge; i++)
		assert_int_equal(weir_buf_chain(m.buf, peers_buf(&t, i, 1)), 0);
	assert_int_equal(try_send(&t, t.e.client, 0, &m), -EMSGSIZE);
	weir_buf_put(m.buf);
	assert_int_equal(weir_pool_destroy(pool), 0);
	peers_end(&t);
}

static void a_connection_without_a_queue_receives_nothing(void **state)
{
	struct weir_conn *c = NULL;
	struct peers t;

	peers_init(&t, state);
	assert_int_equal(weir_conn_create(&c, t.r, NULL, NULL), 0);
	assert_int_equal(weir_conn_set_message_fn(c, on_message, NULL),
			 -EBADFD);
	assert_int_equal(try_send(&t, c, 0, &(struct weir_message){
			 .size = sizeof(struct weir_message) }), -ENOTCONN);
	assert_int_equal(weir_conn_destroy(c), 0);
	free(t.sent);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(a_message_too_large_ends_both_ends),
		CASE(peer_without_receives_for_too_long_ends_a_conn),
		CASE(deadline_ends_message_to_peer_without_receives),
		CASE(a_cut_link_ends_each_send_once),
		CASE(messages_wait_for_a_callback),
		CASE(a_flood_that_nobody_hears_ends_the_connection),
		CASE(messages_after_a_dropped_one_are_dropped),
		CASE(messages_before_the_end_are_reported_before_the_end),
		CASE(unread_messages_are_dropped_at_the_end),
		CASE(a_message_that_comes_while_it_is_accepted_waits),
		CASE(a_send_that_waits_can_be_cancelled),
		CASE(a_refused_doorbell_ends_the_connection),
		CASE(a_callback_may_destroy_everything),
		CASE(arguments_that_make_no_sense_change_nothing),
		CASE(message_longer_than_port_takes_is_refused),
		CASE(message_that_the_device_cannot_send_is_refused),
		CASE(a_connection_without_a_queue_receives_nothing),
	};

	return run_over_rdma(cases, N_OF(cases));
}
