/* SPDX-License-Identifier: BSD-3-Clause */

/* Connections: work on them, their ends, by either side, and reconnecting. */

#include "tests/support/conn-fixture.h"

#include "base/fault.h"

#include <infiniband/verbs.h>

#include <weir/rdma/channel.h>
#include <weir/device.h>
#include <weir/rdma/device.h>

/* Bytes by the QP itself: the engine is another matter. */
struct message {
	struct weir_wr wr;
	struct weir_conn *c;
	int calls, status;
};

static void on_wr(struct weir_wr *wr, const struct ibv_wc *wc)
{
	struct message *m = weir_container_of(wr, struct message, wr);

	m->calls++;
	m->status = wc->status;
	conn_end(m->c);
}

static void begin_message(struct message *m, struct weir_conn *c)
{
	memset(m, 0, sizeof(*m));
	m->wr.fn = on_wr;
	m->c = c;
	assert_int_equal(conn_begin(c), 0);
}

static void receive(struct message *m, struct weir_conn *c, struct ibv_sge *sge)
{
	struct ibv_recv_wr wr = { .wr_id = (uintptr_t)&m->wr, .sg_list = sge,
				  .num_sge = !!sge };
	struct ibv_recv_wr *bad;

	begin_message(m, c);
	assert_int_equal(ibv_post_recv(c->qp, &wr, &bad), 0);
}

static void transmit(struct message *m, struct weir_conn *c, struct ibv_sge *sge)
{
	struct ibv_send_wr wr = { .wr_id = (uintptr_t)&m->wr, .sg_list = sge,
				  .num_sge = !!sge, .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_send_wr *bad;

	begin_message(m, c);
	assert_int_equal(ibv_post_send(c->qp, &wr, &bad), 0);
}

/* The library posts none without .srq. */
static void begin_with_receives(struct ends *e, void **state, int family)
{
	ends_init(e, state, family);
	e->opts.recvs = 8;
	ends_open(e);
}

static void bytes_go_both_ways(void **state)
{
	static char buf[2][64];
	struct message in, out;
	struct ibv_sge from, to;
	struct ibv_mr *mr;
	struct ends e;
	int i;

	begin_with_receives(&e, state, family_of(state));
	ends_establish(&e);
	mr = ibv_reg_mr(e.client->device_ref->device->pd, buf, sizeof(buf),
			IBV_ACCESS_LOCAL_WRITE);
	assert_non_null(mr);
	for (i = 0; i < 2; i++) {
		memset(buf, 0, sizeof(buf));
		memcpy(buf[0], "hello", 5);
		from = (struct ibv_sge){ (uintptr_t)buf[0], 5, mr->lkey };
		to = (struct ibv_sge){ (uintptr_t)buf[1], 64, mr->lkey };
		receive(&in, i ? e.client : e.server, &to);
		transmit(&out, i ? e.server : e.client, &from);
		UNTIL(e.r, in.calls && out.calls);
		assert_int_equal(in.status, IBV_WC_SUCCESS);
		assert_int_equal(out.status, IBV_WC_SUCCESS);
		assert_memory_equal(buf[1], "hello", 6);
	}
	assert_int_equal(ibv_dereg_mr(mr), 0);
	ends_destroy(&e);
}

/* The ends. */

static void either_side_disconnects(void **state)
{
	struct weir_conn *who;
	struct ends e;
	int i;

	for (i = 0; i < 2; i++) {
		ends_begin(&e, state, family_of(state));
		ends_establish(&e);
		who = i ? e.server : e.client;
		assert_int_equal(do_disconnect(&e, who), 0);
		assert_int_equal(state_of(who), WEIR_CONN_ENDED);
		UNTIL(e.r, e.n_ends[!i]);
		assert_int_equal(state_of(i ? e.client : e.server),
				 WEIR_CONN_ENDED);
		assert_int_equal(e.why[!i], 0);
		assert_int_equal(e.n_ends[!i], 1);
		assert_int_equal(e.n_ends[i], 0);
		ends_destroy(&e);
		end_reactor(state);
	}
}

static void conns_may_disconnect_from_both_sides_at_once(void **state)
{
	struct rec other;
	struct ends e;

	ends_begin(&e, state, AF_INET);
	ends_establish(&e);
	rec_init(&e.closed);
	rec_init(&other);
	STARTS(weir_conn_disconnect(e.client, &e.closed.op));
	STARTS(weir_conn_disconnect(e.server, &other.op));
	assert_int_equal(result_of(e.r, &e.closed), 0);
	assert_int_equal(result_of(e.r, &other), 0);
	assert_int_equal(e.n_ends[0] + e.n_ends[1], 0);
	ends_destroy(&e);
}

static void a_disconnect_need_not_wait(void **state)
{
	struct ends e;

	ends_begin(&e, state, AF_INET);
	ends_establish(&e);
	rec_init(&e.closed);
	STARTS(weir_conn_disconnect(e.client, &e.closed.op));
	assert_int_equal(weir_op_cancel(&e.closed.op), 0);
	assert_int_equal(finish(e.r, &e.closed), -ECANCELED);
	assert_int_equal(state_of(e.client), WEIR_CONN_ENDED);
	UNTIL(e.r, e.n_ends[1]);
	ends_destroy(&e);
}

/* B3.5: what is posted is flushed; a connection ends after it. */
static void work_under_way_ends_before_its_connection(void **state)
{
	struct message in[3];
	struct ends e;
	int i;

	begin_with_receives(&e, state, AF_INET);
	ends_establish(&e);
	for (i = 0; i < 3; i++)
		receive(&in[i], i < 2 ? e.client : e.server, NULL);
	assert_int_equal(weir_conn_destroy(e.client), -EBUSY);
	rec_init(&e.closed);
	STARTS(weir_conn_disconnect(e.client, &e.closed.op));
	assert_int_equal(weir_op_cancel(&e.closed.op), 0);
	assert_int_equal(conn_begin(e.client), -ENOTCONN);
	assert_int_equal(finish(e.r, &e.closed), -ECANCELED);
	for (i = 0; i < 2; i++) {
		assert_int_equal(in[i].calls, 1);
		assert_int_equal(in[i].status, IBV_WC_WR_FLUSH_ERR);
	}
	UNTIL(e.r, e.n_ends[1]);
	assert_int_equal(in[2].calls, 1);
	assert_int_equal(e.server->posted, 0);
	ends_destroy(&e);
}

/* It has answered, and goes on when its own work has ended. */
static void work_at_the_peer_does_not_hold_up_a_disconnect(void **state)
{
	struct ends e;

	ends_begin(&e, state, AF_INET);
	ends_establish(&e);
	assert_int_equal(conn_begin(e.server), 0);
	assert_int_equal(do_disconnect(&e, e.client), 0);
	UNTIL(e.r, state_of(e.server) == WEIR_CONN_CLOSING);
	some_turns(e.r, 3);
	assert_int_equal(e.n_ends[1], 0);
	conn_end(e.server);
	UNTIL(e.r, e.n_ends[1]);
	ends_destroy(&e);
}

static void a_peer_that_is_destroyed_has_disconnected(void **state)
{
	struct ends e;
	int i;

	for (i = 0; i < 2; i++) {
		ends_begin(&e, state, AF_INET);
		ends_establish(&e);
		assert_int_equal(weir_conn_destroy(i ? e.server : e.client),
				 0);
		if (i)
			e.server = NULL;
		else
			e.client = NULL;
		UNTIL(e.r, e.n_ends[0] + e.n_ends[1]);
		assert_int_equal(e.why[!i], 0);
		ends_destroy(&e);
		end_reactor(state);
	}
}

static void unanswered_requests_are_refused_by_a_destroy(void **state)
{
	struct ends e;

	ends_begin(&e, state, AF_INET);
	ends_request(&e);
	assert_int_equal(weir_conn_destroy(e.client), -EBUSY);
	assert_int_equal(weir_conn_destroy(e.server), 0);
	e.server = NULL;
	assert_int_equal(finish(e.r, &e.connected), -ECONNREFUSED);
	ends_destroy(&e);
}

/* Both are read in one turn, before the callback. */
static void then_disconnect(struct conn_user *user,
			    const struct rdma_cm_event *ev)
{
	struct rdma_cm_event end = { .event = RDMA_CM_EVENT_DISCONNECTED };

	conn_event(user, ev);
	if (ev->event == RDMA_CM_EVENT_CONNECT_RESPONSE)
		conn_event(user, &end);
}

static void on_early_end(struct weir_conn *c, int told, void *arg)
{
	struct ends *e = arg;

	assert_int_equal(e->connected.calls, 1);
	on_end(c, told, arg);
}

static void an_end_is_told_after_the_connect(void **state)
{
	struct ends e;

	ends_begin(&e, state, AF_INET);
	weir_conn_set_end_fn(e.client, on_early_end, &e);
	e.client->user.event = then_disconnect;
	ends_request(&e);
	start_accept(&e, NULL);
	UNTIL(e.r, weir_conn_state(e.client) != WEIR_CONN_CONNECTING);
	if (!e.connected.calls) {
		assert_int_equal(weir_conn_destroy(e.client), -EBUSY);
		assert_int_equal(state_of(e.client), WEIR_CONN_CLOSING);
	}
	UNTIL(e.r, e.n_ends[0] && e.accepted.calls);
	assert_int_equal(e.connected.res, 0);
	assert_int_equal(e.n_ends[0], 1);
	assert_int_equal(state_of(e.client), WEIR_CONN_ENDED);
	ends_destroy(&e);
}

/* The peer's QP is in error, and nobody there has noticed. */
static void a_qp_that_failed_shows_when_it_is_used(void **state)
{
	struct message out;
	struct ends e;

	ends_init(&e, state, AF_INET);
	e.opts.retries = 1;
	e.opts.ack_timeout = 10;
	ends_open(&e);
	ends_establish(&e);
	conn_qp_error(e.server);
	transmit(&out, e.client, NULL);
	UNTIL(e.r, out.calls);
	assert_int_not_equal(out.status, IBV_WC_SUCCESS);
	conn_fail(e.client, -ECONNRESET);
	assert_int_equal(state_of(e.client), WEIR_CONN_CLOSING);
	assert_int_equal(e.n_ends[0], 0);
	conn_fail(e.client, -EIO);	/* The first one counts. */
	UNTIL(e.r, e.n_ends[0]);
	assert_int_equal(e.why[0], -ECONNRESET);
	assert_int_equal(state_of(e.client), WEIR_CONN_ENDED);
	UNTIL(e.r, e.n_ends[1]);
	assert_int_equal(e.n_ends[0], 1);
	ends_destroy(&e);
}

/* A callback may free what it is about. */
static void destroy_in_end(struct weir_conn *c, int why_told, void *arg)
{
	struct ends *e = arg;

	on_end(c, why_told, arg);
	assert_int_equal(weir_conn_destroy(c), 0);
	e->server = NULL;
}

static void conn_may_be_destroyed_when_it_ends(void **state)
{
	struct ends e;

	ends_begin(&e, state, AF_INET);
	ends_establish(&e);
	weir_conn_set_end_fn(e.server, destroy_in_end, &e);
	assert_int_equal(do_disconnect(&e, e.client), 0);
	UNTIL(e.r, !e.server);
	assert_int_equal(e.n_ends[1], 1);
	ends_destroy(&e);
}

static void an_ended_client_connects_again_and_a_server_does_not(void **state)
{
	struct ends e;
	struct rec rec;
	int i;

	ends_begin(&e, state, AF_INET);
	for (i = 0; i < 2; i++) {	/* Two seconds each, in the guest. */
		ends_establish(&e);
		assert_int_equal(do_disconnect(&e, e.client), 0);
		UNTIL(e.r, state_of(e.server) == WEIR_CONN_ENDED);
		rec_init(&rec);
		assert_int_equal(weir_conn_connect(e.server, &rec.op,
				 sa_of(&e.addr), e.addr.len, NULL, 0, NULL, 0),
				 -EPERM);
		assert_int_equal(weir_conn_destroy(e.server), 0);
		e.server = NULL;
	}
	ends_destroy(&e);
}

static void a_stopping_reactor_ends_what_is_under_way(void **state)
{
	struct ends e;
	struct rec waiting;

	ends_begin(&e, state, AF_INET);
	ends_request(&e);
	rec_init(&waiting);
	STARTS(weir_listener_next(e.l, &waiting.op, &e.server));
	weir_reactor_stop(e.r);
	assert_int_equal(weir_reactor_run(e.r), 0);
	assert_int_equal(e.connected.res, -ECANCELED);
	assert_int_equal(waiting.res, -ECANCELED);
	rec_init(&e.accepted);
	if (state_of(e.server) == WEIR_CONN_REQUESTED)
		assert_int_equal(weir_conn_accept(e.server, &e.accepted.op,
						  NULL, 0), -ESHUTDOWN);
	ends_destroy(&e);
}

/* The client has said that it is ready; the server gives up before it hears. */
static void accept_given_up_ends_established_client(void **state)
{
	struct ends e;

	if (!mocked)
		skip_because("test-plain-peer has it");
	ends_begin(&e, state, AF_INET);
	ends_request(&e);
	weir_conn_set_end_fn(e.client, on_end, &e);
	mock_cm_hold(true);
	start_accept(&e, NULL);
	UNTIL(e.r, mock_cm_step(1));
	assert_int_equal(finish(e.r, &e.connected), 0);
	weir_op_cancel(&e.accepted.op);
	assert_int_equal(finish(e.r, &e.accepted), -ECANCELED);
	assert_int_equal(state_of(e.client), WEIR_CONN_ESTABLISHED);
	mock_cm_hold(false);
	UNTIL(e.r, e.n_ends[0]);
	assert_int_equal(e.why[0], -ECONNRESET);
	ends_destroy(&e);
}

static void establish_with_keepalive(struct ends *e, void **state, uint64_t ns)
{
	ends_init(e, state, AF_INET);
	e->opts.keepalive_ns = ns;
	ends_open(e);
	ends_establish(e);
}

static void keepalive_detects_dead_peer_of_idle_connection(void **state)
{
	struct ends e;

	if (!mocked)
		skip_because("whose link is cut is not this program");
	establish_with_keepalive(&e, state, WEIR_MSEC);
	mock_set_link(MOCK_LOST);
	UNTIL(e.r, e.n_ends[0] && e.n_ends[1]);
	assert_int_equal(e.why[0], -ECONNRESET);
	assert_int_equal(e.why[1], -ECONNRESET);
	mock_set_link(MOCK_UP);
	ends_destroy(&e);
}

static void keepalive_leaves_living_connection(void **state)
{
	struct weir_conn_info info = { .size = sizeof(info) };
	unsigned int before;
	struct ends e;
	int i;

	establish_with_keepalive(&e, state, WEIR_MSEC);
	for (i = 0; i < 3; i++) {
		before = e.client->beat->posted;
		UNTIL(e.r, e.client->beat->posted != before);
	}
	assert_int_equal(weir_conn_info(e.client, &info), 0);
	assert_int_equal(info.posted, 0);
	assert_int_equal(e.n_ends[0] + e.n_ends[1], 0);
	ends_destroy(&e);
}

/* Its completion comes to a channel that others go on to use. */
struct destroyer {
	struct weir_wr wr;
	struct ends *e;
};

static void destroy_client(struct weir_wr *wr, const struct ibv_wc *wc)
{
	struct destroyer *d = weir_container_of(wr, struct destroyer, wr);

	(void)wc;
	assert_int_equal(weir_conn_destroy(d->e->client), 0);
	d->e->client = NULL;
}

static void connection_is_destroyed_with_keepalive_in_flight(void **state)
{
	struct weir_channel_opts opts = { .size = sizeof(opts), .depth = 512 };
	struct weir_channel_stats s = { .size = sizeof(s) };
	struct weir_device *dev;
	struct weir_channel *ch;
	struct ends e;
	struct destroyer d = { .wr.fn = destroy_client, .e = &e };

	if (!mocked)
		skip_because("soft-RoCE does not wait to be told");
	ends_begin(&e, state, AF_INET);
	ends_establish(&e);
	assert_int_equal(
		weir_device_open_name(&dev, e.client->device_ref->device->name),
		0);
	assert_int_equal(weir_channel_create(&ch, e.r, weir_device_verbs(dev),
					     &opts), 0);
	assert_int_equal(weir_conn_destroy(e.client), 0);
	assert_int_equal(weir_conn_destroy(e.server), 0);
	assert_int_equal(weir_conn_create(&e.client, e.r, ch, &e.opts), 0);
	ends_establish(&e);
	mock_hold(true);
	conn_watch_probe(e.client);
	assert_true(e.client->beat->posted);
	/* What ends it is polled together with the keepalive. */
	assert_true(mock_complete(weir_channel_cq(ch), (uintptr_t)&d.wr,
				  IBV_WC_SUCCESS, false));
	mock_hold(false);
	UNTIL(e.r, !e.client);
	some_turns(e.r, 5);
	assert_int_equal(weir_channel_stats(ch, &s), 0);
	assert_int_equal(s.completions, 1);
	assert_int_equal(weir_channel_destroy(ch), 0);
	e.others = true;
	ends_destroy(&e);
	assert_int_equal(weir_device_close(dev), 0);
}

static void idle_connection_without_keepalive_arms_nothing(void **state)
{
	struct ends e;

	establish_with_keepalive(&e, state, WEIR_FOREVER);
	assert_null(e.client->beat);
	assert_false(e.client->watched);
	assert_false(weir_timer_is_set(e.client->timer));
	assert_false(weir_timer_is_set(e.server->timer));
	ends_destroy(&e);
}

/* Memory. */

static size_t resident(void)
{
	unsigned long all, here;
	FILE *f = fopen("/proc/self/statm", "re");

	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lu %lu", &all, &here), 2);
	fclose(f);
	return here * (size_t)sysconf(_SC_PAGESIZE);
}

static void idle_connections_take_little_memory(void **state)
{
	enum { PAIRS = 16 };
	struct weir_conn *client[PAIRS], *server[PAIRS];
	size_t before = 0, each;
	struct ends e;
	int i;

	if (mocked)
		skip_because("the mock's memory says nothing");
	ends_begin(&e, state, AF_INET);
	assert_int_equal(weir_conn_destroy(e.client), 0);
	for (i = 0; i < PAIRS; i++) {
		assert_int_equal(weir_conn_create(&e.client, e.r, NULL,
						  &e.opts), 0);
		ends_establish(&e);
		client[i] = e.client;
		server[i] = e.server;
		if (!i)
			before = resident();
	}
	each = (resident() - before) / (2 * (PAIRS - 1));
	print_message("# each end: %zu KiB\n", each >> 10);
	assert_true(each < 192 << 10);
	for (i = 0; i < PAIRS - 1; i++) {
		assert_int_equal(weir_conn_destroy(client[i]), 0);
		assert_int_equal(weir_conn_destroy(server[i]), 0);
	}
	ends_destroy(&e);
}

/* Channels. */

static int refuse_resize(const char *name)
{
	return !strcmp(name, "ibv_resize_cq");
}

static void connections_share_a_channel_as_far_as_it_goes(void **state)
{
	struct weir_channel_opts opts = { .size = sizeof(opts), .depth = 512 };
	struct weir_channel_stats stats = { .size = sizeof(stats) };
	struct weir_conn *third;
	struct weir_device *dev;
	struct weir_channel *ch;
	struct ends e;
	uint32_t capacity;

	ends_begin(&e, state, AF_INET);
	ends_establish(&e);
	assert_int_equal(
		weir_device_open_name(&dev, e.client->device_ref->device->name),
		0);
	assert_int_equal(weir_channel_create(&ch, e.r, weir_device_verbs(dev),
					     &opts), 0);
	assert_int_equal(weir_channel_stats(ch, &stats), 0);
	e.opts.sends = stats.capacity / 2 + 1;
	e.opts.recvs = 1;
	assert_int_equal(weir_conn_create(&third, e.r, ch, &e.opts), 0);
	assert_int_equal(weir_channel_reserve(ch, stats.capacity / 2), 0);
	rec_init(&e.connected);
	STARTS(weir_conn_connect(third, &e.connected.op, sa_of(&e.addr),
				 e.addr.len, NULL, 0, NULL, 0));
	fault_ask(refuse_resize);
	assert_int_equal(finish(e.r, &e.connected), -EAGAIN);
	fault_ask(NULL);
	assert_int_equal(weir_channel_stats(ch, &stats), 0);
	capacity = stats.capacity;
	rec_init(&e.connected);
	STARTS(weir_conn_connect(third, &e.connected.op, sa_of(&e.addr),
				 e.addr.len, NULL, 0, NULL, 0));
	UNTIL(e.r, third->step == CONN_ANSWER);
	assert_int_equal(weir_channel_stats(ch, &stats), 0);
	assert_true(stats.capacity > capacity);
	assert_int_equal(stats.capacity, weir_channel_cq(ch)->cqe);
	weir_channel_release(ch, capacity / 2);
	assert_int_equal(weir_channel_destroy(ch), -EBUSY);
	assert_int_equal(weir_op_cancel(&e.connected.op), 0);
	assert_int_equal(finish(e.r, &e.connected), -ECANCELED);
	assert_int_equal(weir_conn_destroy(third), 0);
	assert_int_equal(weir_channel_destroy(ch), 0);
	e.others = true;
	ends_destroy(&e);
	assert_int_equal(weir_device_close(dev), 0);
}

/* Reconnecting. */

static void ends_with_policy(struct ends *e, void **state)
{
	ends_init(e, state, AF_INET);
	e->opts.attempts = 2;
	e->opts.first_ns = WEIR_MSEC;
	e->opts.most_ns = 2 * WEIR_MSEC;
	ends_open(e);
	ends_establish(e);
}

/* Its end goes: the client tries again. */
static void drop_server(struct ends *e)
{
	int n = e->n_ends[0];

	assert_int_equal(weir_conn_destroy(e->server), 0);
	e->server = NULL;
	UNTIL(e->r, e->n_ends[0] > n);
	assert_int_equal(e->why[0], 0);
	assert_int_equal(state_of(e->client), WEIR_CONN_CONNECTING);
	assert_int_equal(conn_begin(e->client), -ENOTCONN);
}

/* A timer begins with its place in the wheel. */
static uint64_t expiry_of(const struct weir_timer *timer)
{
	return ((const struct weir_timer_node *)(const void *)timer)->expires_ns;
}

static void waits_before_attempts_differ(void **state)
{
	uint64_t first, wait, at;
	struct ends e;
	int i, n_other = 0;

	ends_init(&e, state, AF_INET);
	e.opts.attempts = 20;
	e.opts.first_ns = e.opts.most_ns = 3600 * WEIR_SEC;
	ends_open(&e);
	ends_establish(&e);
	drop_server(&e);
	for (i = 0, first = 0; i < 10; i++) {
		at = weir_reactor_now(e.r);
		e.client->tries = 1;
		e.client->serial++;
		conn_ended(e.client, 0);
		wait = expiry_of(e.client->timer) - at;
		assert_true(wait >= 1799 * WEIR_SEC);
		assert_true(wait <= 3601 * WEIR_SEC);
		n_other += i && wait / WEIR_SEC != first;
		first = wait / WEIR_SEC;
	}
	assert_true(n_other > 5);
	ends_destroy(&e);
}

static void conn_that_ended_unasked_is_connected_again(void **state)
{
	struct weir_conn_info info = { .size = sizeof(info) };
	struct ends e;
	int i;

	ends_with_policy(&e, state);
	for (i = 0; i < 3; i++) {
		drop_server(&e);
		start_next(&e);
		assert_int_equal(finish(e.r, &e.next), 0);
		assert_said(e.server, "may I");
		start_accept(&e, NULL);
		UNTIL(e.r, e.why[0] == WEIR_CONN_AGAIN);
		assert_int_equal(result_of(e.r, &e.accepted), 0);
		assert_int_equal(state_of(e.client), WEIR_CONN_ESTABLISHED);
		assert_int_equal(e.n_ends[0], 2 * (i + 1));
	}
	assert_int_equal(weir_conn_info(e.client, &info), 0);
	assert_int_equal(info.connects, 4);
	ends_destroy(&e);
}

static void reconnecting_has_a_last_attempt(void **state)
{
	struct weir_conn_info info = { .size = sizeof(info) };
	struct ends e;

	ends_with_policy(&e, state);
	assert_int_equal(weir_listener_destroy(e.l), 0);
	e.l = NULL;
	drop_server(&e);
	UNTIL(e.r, e.n_ends[0] == 2);
	assert_int_equal(e.why[0], -ECONNREFUSED);
	assert_int_equal(state_of(e.client), WEIR_CONN_ENDED);
	assert_int_equal(weir_conn_info(e.client, &info), 0);
	assert_int_equal(info.attempts, 3);
	assert_true(e.client->backoff_ns == 2 * WEIR_MSEC);
	ends_destroy(&e);
}

static void reconnecting_ends_when_asked(void **state)
{
	struct ends e;
	int i;

	for (i = 0; i < 3; i++) {
		ends_with_policy(&e, state);
		drop_server(&e);
		if (i == 0) {
			assert_int_equal(do_disconnect(&e, e.client), 0);
			assert_int_equal(state_of(e.client), WEIR_CONN_ENDED);
		} else if (i == 1) {
			weir_reactor_stop(e.r);
			assert_int_equal(weir_reactor_run(e.r), 0);
			assert_int_equal(state_of(e.client), WEIR_CONN_ENDED);
		}
		assert_int_equal(e.n_ends[0], 1);
		ends_destroy(&e);
		end_reactor(state);
	}
}

int main(void)
{
	const struct harness_case cases[] = {
		CASE(bytes_go_both_ways),
		{ "bytes_go_both_ways_by_IPv6", bytes_go_both_ways, &ipv6,
		  false },
		CASE(either_side_disconnects),
		{ "either_side_disconnects_by_IPv6", either_side_disconnects,
		  &ipv6, false },
		CASE(conns_may_disconnect_from_both_sides_at_once),
		CASE(a_disconnect_need_not_wait),
		CASE(work_under_way_ends_before_its_connection),
		CASE(work_at_the_peer_does_not_hold_up_a_disconnect),
		CASE(a_peer_that_is_destroyed_has_disconnected),
		CASE(unanswered_requests_are_refused_by_a_destroy),
		CASE(an_end_is_told_after_the_connect),
		CASE(a_qp_that_failed_shows_when_it_is_used),
		CASE(conn_may_be_destroyed_when_it_ends),
		CASE(an_ended_client_connects_again_and_a_server_does_not),
		CASE(a_stopping_reactor_ends_what_is_under_way),
		CASE(accept_given_up_ends_established_client),
		CASE(keepalive_detects_dead_peer_of_idle_connection),
		CASE(keepalive_leaves_living_connection),
		CASE(connection_is_destroyed_with_keepalive_in_flight),
		CASE(idle_connection_without_keepalive_arms_nothing),
		CASE(idle_connections_take_little_memory),
		CASE(connections_share_a_channel_as_far_as_it_goes),
		CASE(waits_before_attempts_differ),
		CASE(conn_that_ended_unasked_is_connected_again),
		CASE(reconnecting_has_a_last_attempt),
		CASE(reconnecting_ends_when_asked),
	};

	return run_over_rdma(cases, N_OF(cases));
}
