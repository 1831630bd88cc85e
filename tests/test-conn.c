/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Connections: made, refused, given up and ended, by either side; B4.1 to B4.3.
 * What each call and event does in each state: test-conn-state.c.
 */

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "tests/conn-kit.h"

#include <infiniband/verbs.h>

#include <weir/channel.h>
#include <weir/device.h>

#include "base/fault.h"

/* The result of @rec, which may be there already. */
static int64_t result_of(struct weir_reactor *r, struct rec *rec)
{
	UNTIL(r, rec->calls);
	assert_int_equal(rec->calls, 1);
	return rec->res;
}

static int family_of(void **state)
{
	const struct world *w = *state;

	return w->arg ? *(const int *)w->arg : AF_INET;
}

static const int ipv6 = AF_INET6;

/* The fabric fills private data up with zeros. */
static void assert_said(const struct weir_conn *c, const char *text)
{
	size_t len, i;
	const char *data = weir_conn_peer_data(c, &len);

	assert_non_null(data);
	assert_true(len >= strlen(text));
	assert_memory_equal(data, text, strlen(text));
	for (i = strlen(text); i < len; i++)
		assert_int_equal(data[i], 0);
}

/* B4.1, B4.2 */
static void two_ends_connect_with_private_data_both_ways(void **state)
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
	assert_int_equal(info.sends, 128);
	assert_int_equal(info.connects, 1);
	assert_true(info.reads_out > 0 && info.reads_in > 0);
	assert_string_not_equal(info.device, "");
	ends_destroy(&e);
}

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

static void bytes_go_both_ways(void **state)
{
	static char buf[2][64];
	struct message in, out;
	struct ibv_sge from, to;
	struct ibv_mr *mr;
	struct ends e;
	int i;

	ends_begin(&e, state, family_of(state));
	ends_establish(&e);
	mr = ibv_reg_mr(e.client->tap->device->pd, buf, sizeof(buf),
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

static void what_is_no_address_is_refused(void **state)
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

static void more_requests_than_the_backlog_are_refused(void **state)
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

static void who_waits_at_a_listener_that_goes_is_refused(void **state)
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

static void both_sides_disconnect_at_once(void **state)
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

	ends_begin(&e, state, AF_INET);
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

static void it_may_be_destroyed_when_it_ends(void **state)
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
	for (i = 0; i < 3; i++) {
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
	assert_int_equal(weir_conn_accept(e.server, &e.accepted.op, NULL, 0),
			 -ESHUTDOWN);
	ends_destroy(&e);
}

/* Channels. */

static void connections_share_a_channel_as_far_as_it_goes(void **state)
{
	struct weir_channel_opts opts = { .size = sizeof(opts), .depth = 512 };
	struct weir_channel_stats stats = { .size = sizeof(stats) };
	struct weir_conn *third;
	struct weir_device *dev;
	struct weir_channel *ch;
	struct ends e;

	ends_begin(&e, state, AF_INET);
	ends_establish(&e);
	assert_int_equal(weir_device_open_name(&dev,
					e.client->tap->device->name), 0);
	assert_int_equal(weir_channel_create(&ch, e.r, weir_device_verbs(dev),
					     &opts), 0);
	assert_int_equal(weir_channel_stats(ch, &stats), 0);
	e.opts.sends = stats.room / 2 + 1;
	e.opts.recvs = 1;
	assert_int_equal(weir_conn_create(&third, e.r, ch, &e.opts), 0);
	assert_int_equal(weir_channel_reserve(ch, stats.room / 2), 0);
	rec_init(&e.connected);
	STARTS(weir_conn_connect(third, &e.connected.op, sa_of(&e.addr),
				 e.addr.len, NULL, 0, NULL, 0));
	assert_int_equal(finish(e.r, &e.connected), -EAGAIN);
	weir_channel_release(ch, stats.room / 2);
	rec_init(&e.connected);
	STARTS(weir_conn_connect(third, &e.connected.op, sa_of(&e.addr),
				 e.addr.len, NULL, 0, NULL, 0));
	UNTIL(e.r, third->step == CONN_ANSWER);
	assert_int_equal(weir_channel_destroy(ch), -EBUSY);
	assert_int_equal(weir_op_cancel(&e.connected.op), 0);
	assert_int_equal(finish(e.r, &e.connected), -ECANCELED);
	assert_int_equal(weir_conn_destroy(third), 0);
	assert_int_equal(weir_channel_destroy(ch), 0);
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

static void what_ends_unasked_is_connected_again(void **state)
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

static void any_call_may_fail(void **state)
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
		CASE(two_ends_connect_with_private_data_both_ways),
		{ "two_ends_connect_by_IPv6",
		  two_ends_connect_with_private_data_both_ways, &ipv6, false },
		CASE(bytes_go_both_ways),
		{ "bytes_go_both_ways_by_IPv6", bytes_go_both_ways, &ipv6,
		  false },
		CASE(a_rejection_says_why),
		CASE(a_port_where_nobody_listens_refuses),
		CASE(an_address_that_nobody_has_is_not_reached),
		{ "an_address_of_IPv6_that_nobody_has_is_not_reached",
		  an_address_that_nobody_has_is_not_reached, &ipv6, false },
		CASE(what_is_no_address_is_refused),
		CASE(options_have_ranges),
		CASE(private_data_have_a_length),
		CASE(a_connect_is_cancelled_at_every_step),
		CASE(a_client_that_gave_up_is_noticed_by_the_accept),
		CASE(a_connect_that_is_not_answered_has_a_deadline),
		CASE(an_accept_is_cancelled),
		CASE(an_accept_that_is_not_heard_ends),
		CASE(requests_wait_for_operations_and_they_for_requests),
		CASE(more_requests_than_the_backlog_are_refused),
		CASE(who_waits_at_a_listener_that_goes_is_refused),
		CASE(either_side_disconnects),
		{ "either_side_disconnects_by_IPv6", either_side_disconnects,
		  &ipv6, false },
		CASE(both_sides_disconnect_at_once),
		CASE(a_disconnect_need_not_wait),
		CASE(work_under_way_ends_before_its_connection),
		CASE(a_peer_that_is_destroyed_has_disconnected),
		CASE(unanswered_requests_are_refused_by_a_destroy),
		CASE(a_qp_that_failed_shows_when_it_is_used),
		CASE(it_may_be_destroyed_when_it_ends),
		CASE(an_ended_client_connects_again_and_a_server_does_not),
		CASE(a_stopping_reactor_ends_what_is_under_way),
		CASE(connections_share_a_channel_as_far_as_it_goes),
		CASE(what_ends_unasked_is_connected_again),
		CASE(reconnecting_has_a_last_attempt),
		CASE(reconnecting_ends_when_asked),
		CASE(any_call_may_fail),
	};

	conn_warm_up();
	return harness_run(cases, N_OF(cases));
}
