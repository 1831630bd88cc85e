/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Shared receive queues: their tables, whose bufs they take, and how QPs leave
 * them.
 */

#include "tests/support/message-fixture.h"
#include "tests/support/table-fixture.h"

#include <pthread.h>

/* The table of calls. */

enum column { NEW, USED, BOUND, OUT };

struct fixture {
	struct peers t;
	struct weir_conn *more;
	bool gone;
};

static void fixture_begin(struct fixture *g, void **state, enum column column)
{
	memset(g, 0, sizeof(*g));
	peers_init(&g->t, state);
	assert_int_equal(weir_srq_create(&g->t.srq, g->t.r, &g->t.srq_opts),
			 0);
	g->t.e.opts.srq = g->t.srq;
	if (column == NEW)
		return;
	ends_open(&g->t.e);
	if (column == USED)
		return;
	ends_establish(&g->t.e);
	peers_listen(&g->t);
	g->t.server.keep = column == OUT;
	send_number(&g->t, 0, 1);
	all_sent(&g->t, 1);
	until_heard(&g->t, 1);
	peers_close(&g->t);
}

static const char *state_name(const struct fixture *g)
{
	struct weir_srq_stats s;

	if (g->gone)
		return "gone";
	s = srq_stats_of(g->t.srq);
	return s.users ? "USED" : !s.device[0] ? "NEW" :
	       g->t.server.n_kept ? "OUT" : "BOUND";
}

static void fixture_end(struct fixture *g)
{
	assert_int_equal(weir_conn_destroy(g->more), 0);
	peers_end(&g->t);
}

static int call_use(void *fixture)
{
	struct fixture *g = fixture;

	return weir_conn_create(&g->more, g->t.r, NULL, &g->t.e.opts);
}

static int call_stats(void *fixture)
{
	struct weir_srq_stats s = { .size = sizeof(s) };

	return weir_srq_stats(((struct fixture *)fixture)->t.srq, &s);
}

static int call_destroy(void *fixture)
{
	struct fixture *g = fixture;
	int err = weir_srq_destroy(g->t.srq);

	if (err) {
		assert_non_null(strstr(weir_why(), "weir_srq_destroy"));
		return err;
	}
	g->gone = true;
	g->t.srq = NULL;
	return 0;
}

static void srq_call_does_what_the_state_table_says(void **state)
{
	static const struct table_call calls[] = {
		{ "use", call_use }, { "stats", call_stats },
		{ "destroy", call_destroy },
	};
	static const char *const columns[] = { "NEW", "USED", "BOUND",
					       "OUT" };
	struct table t;
	struct table_cell c;
	struct fixture g;

	table_open(&t, "docs/internals/rdma.md", "shared receive queue: call by state",
		   calls, N_OF(calls), columns, N_OF(columns));
	while (table_next(&t, &c)) {
		fixture_begin(&g, state, (enum column)c.column);
		table_result(&c, c.call->fn(&g));
		if (strcmp(c.then, state_name(&g)))
			fail_msg("%s in %s: %s, but the page says \"%s\"",
				 c.call->name, c.column_name, state_name(&g),
				 c.text);
		fixture_end(&g);
	}
	table_close(&t);
}

/* Options. */

static void options_out_of_range_are_refused(void **state)
{
	static const struct {
		int err;
		struct weir_srq_opts opts;
	} rows[] = {
		{ -EINVAL, { .recvs = (1u << 20) + 1 } },
		{ -EINVAL, { .bufs = (2u << 20) + 1 } },
		{ -EINVAL, { .buf_size = (1u << 20) + 1 } },
		{ -EINVAL, { .recvs = 8, .batch = 9 } },
		{ -EINVAL, { .recvs = 8, .low = 9 } },
	};
	struct weir_srq_stats s = { .size = 4 };
	struct weir_reactor *r = start_reactor(state);
	struct weir_srq_opts opts;
	struct weir_srq *srq = NULL;
	size_t i;

	for (i = 0; i < N_OF(rows); i++) {
		opts = rows[i].opts;
		opts.size = sizeof(opts);
		assert_int_equal(weir_srq_create(&srq, r, &opts), rows[i].err);
		assert_null(srq);
	}
	assert_int_equal(weir_srq_create(&srq, r, NULL), 0);
	assert_int_equal(weir_srq_stats(srq, &s), -EINVAL);
	assert_int_equal(srq_stats_of(srq).recvs, 256);
	assert_int_equal(weir_srq_destroy(srq), 0);
	assert_int_equal(weir_srq_destroy(NULL), 0);
}

static void srq_of_another_reactor_is_refused(void **state)
{
	struct weir_conn_opts conn = { .size = sizeof(conn) };
	struct weir_srq_opts opts = { .size = sizeof(opts) };
	struct weir_reactor *r = start_reactor(state), *other;
	struct weir_conn *c = NULL;
	struct weir_srq *srq;

	assert_int_equal(weir_reactor_create(&other, NULL), 0);
	assert_int_equal(weir_pool_create(&opts.pool, other, NULL), 0);
	assert_int_equal(weir_srq_create(&srq, r, &opts), -EXDEV);
	assert_int_equal(weir_pool_destroy(opts.pool), 0);
	assert_int_equal(weir_srq_create(&conn.srq, other, NULL), 0);
	assert_int_equal(weir_conn_create(&c, r, NULL, &conn), -EXDEV);
	assert_int_equal(weir_srq_destroy(conn.srq), 0);
	assert_int_equal(weir_reactor_destroy(other), 0);
}

/* Bufs of a pool of the user's. */

struct free_list {
	struct weir_device *dev;
	struct weir_mmap *m;
	struct weir_pool *pool;
};

static const char *device_here(void)
{
	return mocked ? "mock_mlx5" : getenv("WEIR_RDMA_DEVICE");
}

static void free_list_begin(struct free_list *s, struct weir_reactor *r,
			    bool known)
{
	struct weir_pool_opts opts = { .size = sizeof(opts),
				       .buf_size = 2048 };

	memset(s, 0, sizeof(*s));
	assert_int_equal(weir_mmap_create(&s->m, NULL), 0);
	if (known) {
		assert_int_equal(weir_device_open_name(&s->dev, device_here()),
				 0);
		assert_int_equal(weir_mmap_add_device(s->m, s->dev), 0);
	}
	assert_int_equal(weir_mmap_alloc(s->m, 32 * 4096, 0), 0);
	assert_int_equal(weir_mmap_set_permissions(s->m, WEIR_MMAP_READ |
						   WEIR_MMAP_WRITE), 0);
	assert_int_equal(weir_mmap_start(s->m), 0);
	opts.mmap = s->m;
	assert_int_equal(weir_pool_create(&s->pool, r, &opts), 0);
}

static void free_list_end(struct free_list *s)
{
	assert_int_equal(weir_pool_destroy(s->pool), 0);
	assert_int_equal(weir_mmap_destroy(s->m), 0);
	if (s->dev)
		assert_int_equal(weir_device_close(s->dev), 0);
}

static void bufs_may_come_from_a_pool_of_the_users(void **state)
{
	struct free_list s;
	struct peers t;
	int i;

	peers_init(&t, state);
	free_list_begin(&s, t.r, true);
	t.srq_opts.pool = s.pool;
	t.srq_opts.recvs = 8;
	peers_create(&t);
	ends_establish(&t.e);
	peers_listen(&t);
	t.server.keep = true;
	for (i = 0; i < 20; i++)
		send_number(&t, i, (uint32_t)i);
	all_sent(&t, 20);
	until_heard(&t, 20);
	assert_ptr_equal(weir_buf_mmap(t.server.kept[0]), s.m);
	put_kept(&t.server);
	some_turns(t.r, 3);
	peers_close(&t);
	peers_destroy_srq(&t);
	free_list_end(&s);
	peers_end(&t);
}

static void a_pool_that_the_device_does_not_know_is_refused(void **state)
{
	struct free_list s;
	struct peers t;

	peers_init(&t, state);
	free_list_begin(&s, t.r, false);
	t.srq_opts.pool = s.pool;
	t.srq_opts.recvs = 8;
	peers_create(&t);
	start_next(&t.e);
	start_connect(&t.e);
	assert_int_equal(finish(t.r, &t.e.connected), -EXDEV);
	assert_int_equal(weir_op_cancel(&t.e.next.op), 0);
	assert_int_equal(finish(t.r, &t.e.next), -ECANCELED);
	assert_string_equal(srq_stats_of(t.srq).device, "");
	peers_close(&t);
	peers_destroy_srq(&t);
	free_list_end(&s);
	peers_end(&t);
}

static void srq_of_another_device_is_refused(void **state)
{
	struct conn_device_ref *device_ref;
	struct peers t;

	if (!mocked)
		skip_because("one device is enough here");
	peers_begin(&t, state);
	assert_int_equal(conn_device_ref_get(&device_ref, t.r, "mock_rxe"), 0);
	assert_int_equal(srq_bind(t.srq, device_ref), -EXDEV);
	conn_device_ref_put(device_ref);
	peers_end(&t);
}

/* Each message is delivered, or counted as dropped, whenever the end comes. */
static void message_for_a_destroyed_conn_is_counted_as_dropped(void **state)
{
	uint64_t dropped = 0;
	struct peers t;

	for (int turns = 0; turns < 6; turns++) {
		peers_begin(&t, state);
		send_number(&t, 0, 1);
		some_turns(t.r, turns);
		assert_int_equal(weir_conn_destroy(t.e.server), 0);
		t.e.server = NULL;
		UNTIL(t.r, t.sent[0].calls);
		some_turns(t.r, 5);
		if (!t.sent[0].res)
			assert_int_equal(srq_stats_of(t.srq).messages +
					 srq_stats_of(t.srq).dropped, 1);
		dropped += srq_stats_of(t.srq).dropped;
		peers_end(&t);
	}
	if (mocked)
		assert_true(dropped > 0);
}

static void *put_buf(void *buf)
{
	weir_buf_put(buf);
	return NULL;
}

/* Put by another thread, and not back yet. */
static void srq_with_a_buf_in_transit_is_not_destroyed(void **state)
{
	pthread_t thread;
	struct peers t;

	peers_begin(&t, state);
	t.server.keep = true;
	send_number(&t, 0, 1);
	all_sent(&t, 1);
	until_heard(&t, 1);
	peers_close(&t);
	assert_int_equal(weir_srq_destroy(t.srq), -EBUSY);
	assert_int_equal(pthread_create(&thread, NULL, put_buf,
					t.server.kept[--t.server.n_kept]), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(weir_srq_destroy(t.srq), -EBUSY);
	peers_end(&t);
}

/* How QPs leave. */

static void a_queue_outlives_its_connections_and_loses_no_buf(void **state)
{
	struct peers t;
	int i;

	peers_init(&t, state);
	t.srq_opts.recvs = t.srq_opts.bufs = 4;
	peers_create(&t);
	for (i = 0; i < 6; i++) {
		if (i)
			assert_int_equal(weir_conn_create(&t.e.client, t.r,
						NULL, &t.e.opts), 0);
		ends_establish(&t.e);
		peers_listen(&t);
		t.server.n = 0;
		send_number(&t, i, 1);
		if (i & 1)
			until_heard(&t, 1);
		all_sent(&t, i + 1);
		assert_int_equal(weir_conn_destroy(t.e.client), 0);
		assert_int_equal(weir_conn_destroy(t.e.server), 0);
	}
	UNTIL(t.r, !srq_stats_of(t.srq).leaving);
	UNTIL(t.r, srq_stats_of(t.srq).posted == 4);
	t.e.client = t.e.server = NULL;
	peers_end(&t);
}

/* While the event is awaited the QP is there. */
static void a_qp_waits_for_its_last_receive(void **state)
{
	struct peers t;

	if (!mocked)
		skip_because("soft-RoCE never says so");
	peers_begin(&t, state);
	assert_int_equal(weir_conn_destroy(t.e.client), 0);
	assert_int_equal(weir_conn_destroy(t.e.server), 0);
	t.e.client = t.e.server = NULL;
	assert_int_equal(srq_stats_of(t.srq).leaving, 2);
	assert_int_equal(mocked()->qps, 2);
	UNTIL(t.r, !srq_stats_of(t.srq).leaving);
	assert_int_equal(mocked()->qps, 0);
	peers_end(&t);
}

static void a_device_that_never_says_so_is_not_waited_for_long(void **state)
{
	struct peers t;

	if (mocked)
		mocked()->cm_device = "mock_rxe";
	peers_begin(&t, state);
	send_number(&t, 0, 1);
	all_sent(&t, 1);
	assert_int_equal(weir_conn_destroy(t.e.client), 0);
	assert_int_equal(weir_conn_destroy(t.e.server), 0);
	t.e.client = t.e.server = NULL;
	UNTIL(t.r, !srq_stats_of(t.srq).leaving);
	UNTIL(t.r, srq_stats_of(t.srq).posted > 240);
	peers_end(&t);
	if (mocked)
		mocked()->cm_device = NULL;
}

static void a_queue_whose_completions_are_lost_ends_its_connections(
	void **state)
{
	struct peers t;

	if (!mocked)
		skip_because("soft-RoCE does not lose completion queues");
	peers_begin(&t, state);
	mock_overrun(weir_channel_cq(t.srq->channel));
	until_end(&t, 0);
	until_end(&t, 1);
	assert_int_equal(t.e.why[1], -EIO);
	start_next(&t.e);
	start_connect(&t.e);
	assert_int_equal(finish(t.r, &t.e.connected), -EIO);
	assert_int_equal(weir_op_cancel(&t.e.next.op), 0);
	assert_int_equal(finish(t.r, &t.e.next), -ECANCELED);
	peers_end(&t);
}

static void memory_that_the_device_keeps_is_asked_for_again(void **state)
{
	struct peers t;

	if (!mocked)
		skip_because("soft-RoCE keeps nothing");
	peers_begin(&t, state);
	peers_close(&t);
	UNTIL(t.r, !srq_stats_of(t.srq).leaving);
	mocked()->bound = true;
	assert_int_equal(weir_srq_destroy(t.srq), -EBUSY);
	assert_int_equal(weir_srq_destroy(t.srq), -EBUSY);
	mocked()->bound = false;
	peers_destroy_srq(&t);
	peers_end(&t);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(message_for_a_destroyed_conn_is_counted_as_dropped),
		REAL(srq_with_a_buf_in_transit_is_not_destroyed),
		CASE(srq_call_does_what_the_state_table_says),
		CASE(options_out_of_range_are_refused),
		CASE(srq_of_another_reactor_is_refused),
		CASE(bufs_may_come_from_a_pool_of_the_users),
		CASE(a_pool_that_the_device_does_not_know_is_refused),
		CASE(srq_of_another_device_is_refused),
		CASE(memory_that_the_device_keeps_is_asked_for_again),
		CASE(a_queue_outlives_its_connections_and_loses_no_buf),
		CASE(a_qp_waits_for_its_last_receive),
		CASE(a_device_that_never_says_so_is_not_waited_for_long),
		CASE(a_queue_whose_completions_are_lost_ends_its_connections),
	};

	return run_over_rdma(cases, N_OF(cases));
}
