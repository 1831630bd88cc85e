/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Connections: made, refused and given up; B4.1 to B4.3.  How they end:
 * test-conn-end.c; what each call and event does in each state:
 * test-conn-state.c.
 */

#include "tests/support/conn-fixture.h"

#include "base/fault.h"

/* B4.1, B4.2 */
static void connect_carries_private_data_both_ways(void **state)
{
	struct weir_conn_info info = { .size = sizeof(info) };
	struct address peer = { .len = sizeof(peer.sa) };
	struct ends e;

	ends_begin(&e, state, family_of(state));
	assert_int_equal(state_of(e.client), WEIR_CONN_IDLE);
	ends_establish(&e);
	assert_said(e.server, "may I");
	assert_said(e.client, "you may");
	assert_int_equal(weir_conn_peer_address(e.client,
				(struct sockaddr *)&peer.sa, &peer.len), 0);
	assert_int_equal(port_of(&peer), port_of(&e.addr));
	assert_int_equal(weir_conn_info(e.client, &info), 0);
	assert_int_not_equal(info.qp_num, 0);
	assert_int_equal(info.sends, 64);
	assert_int_equal(info.connects, 1);
	assert_true(info.reads_out > 0 && info.reads_in > 0);
	assert_string_not_equal(info.device, "");
	ends_destroy(&e);
}

static void a_rejection_says_why(void **state)
{
	struct ends e;

	ends_begin(&e, state, family_of(state));
	ends_request(&e);
	assert_int_equal(weir_conn_reject(e.server, "not you", 7), 0);
	assert_int_equal(state_of(e.server), WEIR_CONN_ENDED);
	assert_int_equal(finish(e.r, &e.connected), -ECONNREFUSED);
	assert_int_equal(e.connected.detail.code, 28);
	assert_int_equal(state_of(e.client), WEIR_CONN_ENDED);
	assert_said(e.client, "not you");
	ends_destroy(&e);
}

/* And can be asked again: ENDED is where a client may begin. */
static void a_port_where_nobody_listens_refuses(void **state)
{
	size_t len = 1;
	struct ends e;

	ends_begin(&e, state, family_of(state));
	assert_int_equal(weir_listener_destroy(e.l), 0);
	start_connect(&e);
	assert_int_equal(finish(e.r, &e.connected), -ECONNREFUSED);
	assert_int_equal(e.connected.detail.code, 8);
	weir_conn_peer_data(e.client, &len);
	set_port(&e.addr, 0);
	ends_listen(&e);
	ends_establish(&e);
	ends_destroy(&e);
}

/* Refused at once, or after the neighbours were asked. */
static void an_address_that_nobody_has_is_not_reached(void **state)
{
	int family = family_of(state);
	struct address to = ip(family == AF_INET6 ? "2001:db8:dead::1" :
						    "192.0.2.1", 7);
	struct ends e;
	int64_t res;

	ends_begin(&e, state, family);
	rec_init(&e.connected);
	res = weir_conn_connect(e.client, &e.connected.op, sa_of(&to), to.len,
				NULL, 0, NULL, 0);
	assert_int_equal(state_of(e.client), res ? WEIR_CONN_IDLE :
						   WEIR_CONN_CONNECTING);
	if (!res)
		res = finish(e.r, &e.connected);
	if (res != -ENETUNREACH && res != -EHOSTUNREACH && res != -ENODEV)
		fail_msg("%d", (int)res);
	ends_destroy(&e);
}

static void bad_address_is_refused(void **state)
{
	struct sockaddr_storage sa = { .ss_family = AF_UNIX };
	struct weir_listener *l = NULL;
	struct ends e;

	ends_begin(&e, state, AF_INET);
	rec_init(&e.connected);
	assert_int_equal(weir_conn_connect(e.client, &e.connected.op,
					   (struct sockaddr *)&sa, sizeof(sa),
					   NULL, 0, NULL, 0), -EINVAL);
	assert_int_equal(weir_conn_connect(e.client, &e.connected.op,
					   sa_of(&e.addr), e.addr.len - 1,
					   NULL, 0, NULL, 0), -EINVAL);
	assert_int_equal(weir_conn_connect(e.client, &e.connected.op,
					   sa_of(&e.addr), e.addr.len,
					   sa_of(&e.addr), 1, NULL, 0),
			 -EINVAL);
	assert_int_equal(weir_listener_create(&l, e.r, (struct sockaddr *)&sa,
					      sizeof(sa), NULL), -EINVAL);
	assert_int_equal(weir_listener_create(&l, e.r, sa_of(&e.addr),
					      e.addr.len, &e.listen),
			 -EADDRINUSE);
	assert_null(l);
	ends_destroy(&e);
}

static void options_have_ranges(void **state)
{
	static const struct weir_conn_opts bad[] = {
		{ .sends = (1u << 20) + 1 }, { .recvs = (1u << 20) + 1 },
		{ .retries = 8 }, { .rnr_retries = 8 }, { .ack_timeout = 32 },
		{ .rnr_timer = 32 }, { .reads = 256 },
		{ .resolve_ms = 1u << 31 },
	};
	struct {
		struct weir_conn_opts known;
		uint64_t newer;
	} opts = { .known = { .size = sizeof(opts) }, .newer = 1 };
	struct weir_conn *c = NULL;
	struct ends e;
	size_t i;

	ends_begin(&e, state, AF_INET);
	assert_int_equal(weir_conn_create(&c, e.r, NULL, &opts.known), -E2BIG);
	for (i = 0; i < N_OF(bad); i++) {
		e.opts = bad[i];
		e.opts.size = sizeof(e.opts);
		assert_int_equal(weir_conn_create(&c, e.r, NULL, &e.opts),
				 -EINVAL);
	}
	assert_null(c);
	ends_destroy(&e);
}

static void private_data_have_a_length(void **state)
{
	static const char data[256];
	struct ends e;

	ends_begin(&e, state, AF_INET);
	rec_init(&e.connected);
	assert_int_equal(weir_conn_connect(e.client, &e.connected.op,
			 sa_of(&e.addr), e.addr.len, NULL, 0, data,
			 WEIR_CONN_CONNECT_DATA + 1), -EMSGSIZE);
	ends_request(&e);
	rec_init(&e.accepted);
	assert_int_equal(weir_conn_accept(e.server, &e.accepted.op, data,
					  WEIR_CONN_ACCEPT_DATA + 1),
			 -EMSGSIZE);
	assert_int_equal(weir_conn_reject(e.server, data,
					  WEIR_CONN_REJECT_DATA + 1),
			 -EMSGSIZE);
	STARTS(weir_conn_accept(e.server, &e.accepted.op, data,
				WEIR_CONN_ACCEPT_DATA));
	assert_int_equal(finish(e.r, &e.connected), 0);
	assert_int_equal(result_of(e.r, &e.accepted), 0);
	ends_destroy(&e);
}

static void query(const struct weir_conn *c, struct ibv_qp_attr *attr)
{
	struct ibv_qp_init_attr init;

	assert_int_equal(ibv_query_qp(c->qp, attr, IBV_QP_TIMEOUT |
				      IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				      IBV_QP_MIN_RNR_TIMER |
				      IBV_QP_MAX_QP_RD_ATOMIC |
				      IBV_QP_MAX_DEST_RD_ATOMIC, &init), 0);
}

/* Each end has its own; of reads what both have. */
static void options_reach_the_qp(void **state)
{
	struct ibv_qp_attr client, server;
	struct ends e;

	ends_init(&e, state, AF_INET);
	e.opts = (struct weir_conn_opts){
		.size = sizeof(e.opts), .reads = 2, .retries = 3,
		.rnr_retries = WEIR_CONN_NO_RETRY, .ack_timeout = 11,
		.rnr_timer = 5,
	};
	ends_listen(&e);
	e.opts.reads = 4;
	e.opts.ack_timeout = 13;
	assert_int_equal(weir_conn_create(&e.client, e.r, NULL, &e.opts), 0);
	ends_request(&e);
	rec_init(&e.accepted);
	fault_arm(1);
	assert_true(weir_conn_accept(e.server, &e.accepted.op, NULL, 0) < 0);
	assert_int_equal(fault_disarm(), 1);
	assert_int_equal(state_of(e.server), WEIR_CONN_REQUESTED);
	start_accept(&e, NULL);
	assert_int_equal(finish(e.r, &e.connected), 0);
	assert_int_equal(result_of(e.r, &e.accepted), 0);
	query(e.client, &client);
	query(e.server, &server);
	assert_int_equal(client.timeout, 13);
	assert_int_equal(server.timeout, 11);
	assert_int_equal(client.retry_cnt, 3);
	assert_int_equal(client.rnr_retry, 0);
	assert_int_equal(client.min_rnr_timer, 5);
	assert_int_equal(client.max_rd_atomic, server.max_dest_rd_atomic);
	assert_int_equal(client.max_rd_atomic, 2);
	assert_int_equal(server.max_rd_atomic, 2);
	ends_destroy(&e);
}

/* Given up. */

static void a_connect_is_cancelled_at_every_step(void **state)
{
	enum conn_step step;
	struct ends e;

	ends_begin(&e, state, AF_INET);
	for (step = CONN_ADDRESS; step <= CONN_ANSWER; step++) {
		start_connect(&e);
		until_step(&e, step);
		assert_int_equal(weir_op_cancel(&e.connected.op), 0);
		assert_int_equal(result_of(e.r, &e.connected), -ECANCELED);
		assert_int_equal(state_of(e.client), WEIR_CONN_ENDED);
	}
	ends_destroy(&e);
}

/* The server is told when it accepts, or, if the news is slow, later. */
static void a_client_that_gave_up_is_noticed_by_the_accept(void **state)
{
	struct ends e;
	int err;

	ends_begin(&e, state, AF_INET);
	ends_request(&e);
	assert_int_equal(weir_op_cancel(&e.connected.op), 0);
	assert_int_equal(finish(e.r, &e.connected), -ECANCELED);
	rec_init(&e.accepted);
	err = state_of(e.server) != WEIR_CONN_REQUESTED ? -ECONNRESET :
	      weir_conn_accept(e.server, &e.accepted.op, NULL, 0);
	if (!err)
		err = (int)finish(e.r, &e.accepted);
	assert_int_equal(err, -ECONNRESET);
	ends_destroy(&e);
}

static void a_connect_that_is_not_answered_has_a_deadline(void **state)
{
	struct ends e;

	ends_begin(&e, state, AF_INET);
	start_connect(&e);
	until_step(&e, CONN_ANSWER);
	assert_int_equal(weir_op_set_deadline(&e.connected.op,
			 weir_reactor_now(e.r) + 20 * WEIR_MSEC), 0);
	assert_int_equal(finish(e.r, &e.connected), -ETIMEDOUT);
	ends_destroy(&e);
}

/* The client may have been answered already: then it ends soon after. */
static void an_accept_is_cancelled(void **state)
{
	struct ends e;

	ends_begin(&e, state, AF_INET);
	ends_request(&e);
	start_accept(&e, NULL);
	weir_conn_set_end_fn(e.client, on_end, &e);
	assert_int_equal(weir_op_cancel(&e.accepted.op), 0);
	assert_int_equal(finish(e.r, &e.accepted), -ECANCELED);
	assert_int_equal(state_of(e.server), WEIR_CONN_ENDED);
	UNTIL(e.r, state_of(e.client) == WEIR_CONN_ENDED);
	assert_int_equal(e.connected.calls, 1);
	assert_int_equal(e.n_ends[0], e.connected.res == 0);
	ends_destroy(&e);
}

static void an_accept_that_is_not_heard_ends(void **state)
{
	struct ends e;

	ends_begin(&e, state, AF_INET);
	ends_request(&e);
	start_accept(&e, NULL);
	/* The answer may be on its way to the client, or in its queue. */
	assert_int_equal(weir_op_cancel(&e.connected.op), 0);
	assert_int_equal(finish(e.r, &e.connected), -ECANCELED);
	assert_int_equal(result_of(e.r, &e.accepted), -ECONNRESET);
	assert_int_equal(state_of(e.server), WEIR_CONN_ENDED);
	ends_destroy(&e);
}

/* Listeners. */

#define CLIENTS 4

struct crowd {
	struct ends e;
	struct weir_conn *clients[CLIENTS], *servers[CLIENTS];
	struct rec connected[CLIENTS], next[CLIENTS], accepted[CLIENTS];
};

static void crowd_connect(struct crowd *g)
{
	int i;

	for (i = 0; i < CLIENTS; i++) {
		assert_int_equal(weir_conn_create(&g->clients[i], g->e.r, NULL,
						  &g->e.opts), 0);
		rec_init(&g->connected[i]);
		STARTS(weir_conn_connect(g->clients[i], &g->connected[i].op,
					 sa_of(&g->e.addr), g->e.addr.len,
					 NULL, 0, &i, sizeof(i)));
	}
}

static void crowd_end(struct crowd *g)
{
	int i;

	for (i = 0; i < CLIENTS; i++) {
		assert_int_equal(weir_conn_destroy(g->clients[i]), 0);
		assert_int_equal(weir_conn_destroy(g->servers[i]), 0);
	}
	ends_destroy(&g->e);
}

static void requests_wait_for_operations_and_they_for_requests(void **state)
{
	struct crowd g = { .servers = { NULL } };
	size_t len;
	int i;

	ends_begin(&g.e, state, AF_INET);
	for (i = 0; i < CLIENTS / 2; i++) {
		rec_init(&g.next[i]);
		STARTS(weir_listener_next(g.e.l, &g.next[i].op,
					  &g.servers[i]));
	}
	crowd_connect(&g);
	for (i = 0; i < CLIENTS / 2; i++)
		assert_int_equal(result_of(g.e.r, &g.next[i]), 0);
	for (; i < CLIENTS; i++) {
		rec_init(&g.next[i]);
		STARTS(weir_listener_next(g.e.l, &g.next[i].op,
					  &g.servers[i]));
		assert_int_equal(finish(g.e.r, &g.next[i]), 0);
	}
	for (i = 0; i < CLIENTS; i++) {
		assert_int_equal(*(const int *)weir_conn_peer_data(
					g.servers[i], &len), i);
		rec_init(&g.accepted[i]);
		STARTS(weir_conn_accept(g.servers[i], &g.accepted[i].op, NULL,
					0));
	}
	for (i = 0; i < CLIENTS; i++) {
		assert_int_equal(result_of(g.e.r, &g.connected[i]), 0);
		assert_int_equal(result_of(g.e.r, &g.accepted[i]), 0);
	}
	crowd_end(&g);
}

static void requests_beyond_the_backlog_are_refused(void **state)
{
	struct crowd g = { .servers = { NULL } };
	int i, refused = 0;

	ends_init(&g.e, state, AF_INET);
	g.e.listen.backlog = 2;
	ends_open(&g.e);
	crowd_connect(&g);
	for (i = 0; i < 2; i++)
		UNTIL(g.e.r, g.connected[0].calls + g.connected[1].calls +
			     g.connected[2].calls + g.connected[3].calls > i);
	for (i = 0; i < CLIENTS; i++) {
		refused += g.connected[i].calls &&
			   g.connected[i].res == -ECONNREFUSED;
		if (!g.connected[i].calls)
			assert_int_equal(weir_op_cancel(&g.connected[i].op), 0);
	}
	assert_int_equal(refused, 2);
	for (i = 0; i < CLIENTS; i++)
		result_of(g.e.r, &g.connected[i]);
	crowd_end(&g);
}

static void destroyed_listener_refuses_waiting_requests(void **state)
{
	struct ends e;

	ends_begin(&e, state, AF_INET);
	start_next(&e);
	assert_int_equal(weir_listener_destroy(e.l), -EBUSY);
	assert_int_equal(weir_op_cancel(&e.next.op), 0);
	assert_int_equal(finish(e.r, &e.next), -ECANCELED);
	start_connect(&e);
	until_step(&e, CONN_ANSWER);
	some_turns(e.r, 10);
	assert_int_equal(weir_listener_destroy(e.l), 0);
	e.l = NULL;
	assert_int_equal(finish(e.r, &e.connected), -ECONNREFUSED);
	ends_destroy(&e);
}

/* Faults: whatever fails, all comes to an end, and is given back. */

/* A turn that fails for a fault is made again. */
#define THROUGH(e, cond)                                               \
	do {                                                           \
		unsigned int turns_ = 0;                               \
		while (!(cond)) {                                      \
			weir_reactor_turn((e)->r, WEIR_SEC);           \
			if (++turns_ > TURNS_MAX)                      \
				fail_msg("waiting for: %s", #cond);    \
		}                                                      \
	} while (0)

/* Returns 0 if both are established. */
static int try_establish(struct ends *e)
{
	if (weir_listener_create(&e->l, e->r, sa_of(&e->addr), e->addr.len,
				 &e->listen))
		return -1;
	e->addr.len = sizeof(e->addr.sa);
	weir_listener_address(e->l, (struct sockaddr *)&e->addr.sa,
			      &e->addr.len);
	if (weir_conn_create(&e->client, e->r, NULL, &e->opts))
		return -1;
	start_next(e);
	rec_init(&e->connected);
	if (weir_conn_connect(e->client, &e->connected.op, sa_of(&e->addr),
			      e->addr.len, NULL, 0, NULL, 0))
		return -1;
	THROUGH(e, e->next.calls || e->connected.calls);
	if (!e->next.calls || e->next.res)
		return -1;
	rec_init(&e->accepted);
	if (weir_conn_accept(e->server, &e->accepted.op, NULL, 0))
		return -1;
	THROUGH(e, e->accepted.calls && e->connected.calls);
	return e->accepted.res || e->connected.res ? -1 : 0;
}

static void clean_up(struct ends *e)
{
	if (e->connected.op.fn && weir_op_is_busy(&e->connected.op))
		weir_op_cancel(&e->connected.op);
	if (e->next.op.fn && weir_op_is_busy(&e->next.op))
		weir_op_cancel(&e->next.op);
	UNTIL(e->r, !weir_op_is_busy(&e->connected.op) &&
		    !weir_op_is_busy(&e->next.op));
	ends_destroy(e);
}

static void failing_call_ends_a_conn_with_its_error(void **state)
{
	struct ends e;
	long nth = 0;
	bool hit;
	int res;

	do {
		ends_init(&e, state, AF_INET);
		e.listen.size = sizeof(e.listen);
		e.listen.conn = &e.opts;
		fault_arm(nth++);
		res = try_establish(&e);
		hit = fault_disarm();
		if (res && !hit)
			fail_msg("failed without a fault, after %s",
				 fault_last());
		clean_up(&e);
		end_reactor(state);
		assert_true(nth < 1000);
	} while (hit);
	assert_int_equal(res, 0);
}

int main(void)
{
	const struct harness_case cases[] = {
		CASE(connect_carries_private_data_both_ways),
		{ "two_ends_connect_by_IPv6",
		  connect_carries_private_data_both_ways, &ipv6, false },
		CASE(a_rejection_says_why),
		CASE(a_port_where_nobody_listens_refuses),
		CASE(an_address_that_nobody_has_is_not_reached),
		{ "an_address_of_IPv6_that_nobody_has_is_not_reached",
		  an_address_that_nobody_has_is_not_reached, &ipv6, false },
		CASE(bad_address_is_refused),
		CASE(options_have_ranges),
		CASE(private_data_have_a_length),
		CASE(options_reach_the_qp),
		CASE(a_connect_is_cancelled_at_every_step),
		CASE(a_client_that_gave_up_is_noticed_by_the_accept),
		CASE(a_connect_that_is_not_answered_has_a_deadline),
		CASE(an_accept_is_cancelled),
		CASE(an_accept_that_is_not_heard_ends),
		CASE(requests_wait_for_operations_and_they_for_requests),
		CASE(requests_beyond_the_backlog_are_refused),
		CASE(destroyed_listener_refuses_waiting_requests),
		CASE(failing_call_ends_a_conn_with_its_error),
	};

	return run_over_rdma(cases, N_OF(cases));
}
