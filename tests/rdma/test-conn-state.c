/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Connections: what each call and each event does in each state, as the tables
 * of docs/internals/rdma.md say it.  Events are handed in, but for those steps
 * that only the fabric can make.
 */

#include "tests/support/conn-fixture.h"
#include "tests/support/table-fixture.h"

#include <infiniband/verbs.h>

/* And on from CONN_ROUTE. */
static void resolve_route(struct ends *e)
{
	struct rdma_cm_event ev = { .event = RDMA_CM_EVENT_ROUTE_RESOLVED };

	if (route_held)
		conn_event(&e->client->user, &ev);
	until_step(e, CONN_ANSWER);
}

enum column {
	IDLE, ADDRESS, ROUTE, ANSWER, RECONNECTING, REQUESTED, ACCEPTING,
	ESTABLISHED, CLOSING_PEER, CLOSING_OWN, ENDED,
};

struct fixture {
	void **state;
	struct ends e;
	struct weir_conn *c;	/* Whom it is about; NULL: destroyed. */
	struct rec *rec;	/* Its operation in flight, or NULL. */
	struct rec call;
	bool phantom;		/* Work is counted that is none. */
	enum column column;
};

static void inject(struct weir_conn *c, enum rdma_cm_event_type type)
{
	struct rdma_cm_event ev = { .event = type, .id = c->id };

	if (type == RDMA_CM_EVENT_ADDR_ERROR ||
	    type == RDMA_CM_EVENT_ROUTE_ERROR)
		ev.status = -ETIMEDOUT;
	conn_event(&c->user, &ev);
}

static void begin_connecting(struct fixture *g)
{
	struct ends *e = &g->e;

	if (g->column == ANSWER) {
		ends_request(e);
	} else {
		start_connect(e);
		until_step(e, g->column == ROUTE ? CONN_ROUTE : CONN_ADDRESS);
	}
	g->rec = &e->connected;
}

static void begin_passive(struct fixture *g)
{
	struct ends *e = &g->e;

	ends_request(e);
	g->c = e->server;
	if (g->column == ACCEPTING) {
		start_accept(e, NULL);
		g->rec = &e->accepted;
	}
}

static void start_closing(struct fixture *g)
{
	rec_init(&g->e.closed);
	STARTS(weir_conn_disconnect(g->e.client, &g->e.closed.op));
	g->rec = &g->e.closed;
}

static void begin_established(struct fixture *g)
{
	struct ends *e = &g->e;

	ends_establish(e);
	switch (g->column) {
	case RECONNECTING:
		inject(g->c, RDMA_CM_EVENT_DISCONNECTED);
		assert_int_equal(g->c->step, CONN_BACKOFF);
		break;
	case CLOSING_PEER:
		assert_int_equal(conn_begin(g->c), 0);
		g->phantom = true;
		inject(g->c, RDMA_CM_EVENT_DISCONNECTED);
		break;
	case CLOSING_OWN:
		start_closing(g);
		break;
	case ENDED:
		start_closing(g);
		weir_op_cancel(&e->closed.op);
		assert_int_equal(finish(e->r, &e->closed), -ECANCELED);
		g->rec = NULL;
		break;
	default:
		break;
	}
}

static void fixture_begin(struct fixture *g, void **state, enum column column)
{
	memset(g, 0, sizeof(*g));
	g->state = state;
	g->column = column;
	ends_init(&g->e, state, AF_INET);
	if (column == RECONNECTING) {
		g->e.opts.attempts = 1;
		g->e.opts.first_ns = 3600 * WEIR_SEC;
		g->e.opts.most_ns = 3600 * WEIR_SEC;
	}
	ends_open(&g->e);
	g->c = g->e.client;
	if (column == ADDRESS || column == ROUTE || column == ANSWER)
		begin_connecting(g);
	else if (column == REQUESTED || column == ACCEPTING)
		begin_passive(g);
	else if (column != IDLE)
		begin_established(g);
	rec_init(&g->call);
}

static void stop_op(struct fixture *g, struct rec *rec)
{
	if (!rec->op.fn)
		return;
	weir_op_cancel(&rec->op);
	UNTIL(g->e.r, !weir_op_is_busy(&rec->op));
}

static void fixture_end(struct fixture *g)
{
	if (!g->c && (g->column == REQUESTED || g->column == ACCEPTING))
		g->e.server = NULL;
	else if (!g->c)
		g->e.client = NULL;
	if (g->phantom)
		conn_end(g->c);
	stop_op(g, &g->call);
	stop_op(g, &g->e.accepted);
	stop_op(g, &g->e.connected);
	stop_op(g, &g->e.closed);
	UNTIL(g->e.r, !g->e.client || !g->e.client->posted);
	ends_destroy(&g->e);
}

static const char *state_name(const struct weir_conn *c)
{
	static const char *const names[] = {
		"", "IDLE", "CONNECTING", "REQUESTED", "ACCEPTING",
		"ESTABLISHED", "CLOSING", "ENDED",
	};

	return c ? names[weir_conn_state(c)] : "gone";
}

/* Calls. */

static int call_connect(void *fixture)
{
	struct fixture *g = fixture;

	return weir_conn_connect(g->c, &g->call.op, sa_of(&g->e.addr),
				 g->e.addr.len, NULL, 0, NULL, 0);
}

static int call_accept(void *fixture)
{
	struct fixture *g = fixture;

	return weir_conn_accept(g->c, &g->call.op, NULL, 0);
}

static int call_reject(void *fixture)
{
	return weir_conn_reject(((struct fixture *)fixture)->c, NULL, 0);
}

static int call_disconnect(void *fixture)
{
	struct fixture *g = fixture;

	return weir_conn_disconnect(g->c, &g->call.op);
}

static int call_cancel(void *fixture)
{
	return weir_op_cancel(&((struct fixture *)fixture)->rec->op);
}

static int call_post(void *fixture)
{
	struct fixture *g = fixture;
	int err = conn_begin(g->c);

	if (!err)
		conn_end(g->c);
	return err;
}

static int call_peer_address(void *fixture)
{
	struct address a = { .len = sizeof(a.sa) };

	return weir_conn_peer_address(((struct fixture *)fixture)->c,
				      (struct sockaddr *)&a.sa, &a.len);
}

static int call_info(void *fixture)
{
	struct weir_conn_info info = { .size = sizeof(info) };
	struct fixture *g = fixture;
	int err = weir_conn_info(g->c, &info);

	assert_int_equal(info.state, weir_conn_state(g->c));
	return err;
}

static int call_peer_data(void *fixture)
{
	size_t len = 1;
	const void *data =
		weir_conn_peer_data(((struct fixture *)fixture)->c, &len);

	assert_true(!data == !len);
	return 0;
}

static int call_set_end_fn(void *fixture)
{
	weir_conn_set_end_fn(((struct fixture *)fixture)->c, NULL, NULL);
	return 0;
}

static int call_destroy(void *fixture)
{
	struct fixture *g = fixture;
	int err = weir_conn_destroy(g->c);

	if (!err)
		g->c = NULL;
	return err;
}

static const struct table_call calls[] = {
	{ "connect", call_connect }, { "accept", call_accept },
	{ "reject", call_reject }, { "disconnect", call_disconnect },
	{ "cancel of its operation", call_cancel },
	{ "post", call_post },
	{ "peer_address", call_peer_address }, { "info", call_info },
	{ "peer_data", call_peer_data }, { "set_end_fn", call_set_end_fn },
	{ "destroy", call_destroy },
};

static void conn_call_does_what_the_state_table_says(void **state)
{
	static const char *const columns[] = {
		"IDLE", "CONNECTING", "reconnecting", "REQUESTED", "ACCEPTING",
		"ESTABLISHED", "CLOSING, peer", "CLOSING, own", "ENDED",
	};
	static const enum column of[] = {
		IDLE, ANSWER, RECONNECTING, REQUESTED, ACCEPTING, ESTABLISHED,
		CLOSING_PEER, CLOSING_OWN, ENDED,
	};
	struct table t;
	struct table_cell c;
	struct fixture g;

	table_open(&t, "docs/internals/rdma.md", "connection: call by state", calls,
		   N_OF(calls), columns, N_OF(columns));
	while (table_next(&t, &c)) {
		fixture_begin(&g, state, of[c.column]);
		table_result(&c, c.call->fn(&g));
		if (c.then[0] && strcmp(c.then, state_name(g.c)))
			fail_msg("%s in \"%s\": %s, but the page says \"%s\"",
				 c.call->name, c.column_name, state_name(g.c),
				 c.text);
		fixture_end(&g);
	}
	table_close(&t);
}

/* Events. */

/* What its operation ended with, whose callback may still be due. */
static int ended_with(const struct fixture *g)
{
	if (!g->rec || g->c->op)
		return 0;
	return (int)(g->rec->calls ? g->rec->res : g->rec->op.res);
}

static int handed_in(void *fixture, enum rdma_cm_event_type type)
{
	struct fixture *g = fixture;

	inject(g->c, type);
	return ended_with(g);
}

#define EVENT(name) \
	static int event_##name(void *fixture) \
	{ \
		return handed_in(fixture, RDMA_CM_EVENT_##name); \
	}

EVENT(ADDR_ERROR)
EVENT(ROUTE_ERROR)
EVENT(CONNECT_ERROR)
EVENT(UNREACHABLE)
EVENT(REJECTED)
EVENT(ESTABLISHED)
EVENT(DISCONNECTED)
EVENT(DEVICE_REMOVAL)
EVENT(TIMEWAIT_EXIT)
EVENT(CONNECT_REQUEST)
EVENT(ADDR_CHANGE)
EVENT(MULTICAST_JOIN)
EVENT(MULTICAST_ERROR)

/* Those that are due only the fabric can bring. */
static int event_ADDR_RESOLVED(void *fixture)
{
	struct fixture *g = fixture;

	if (g->column != ADDRESS)
		return handed_in(g, RDMA_CM_EVENT_ADDR_RESOLVED);
	until_step(&g->e, CONN_ROUTE);
	return ended_with(g);
}

static int event_ROUTE_RESOLVED(void *fixture)
{
	struct fixture *g = fixture;

	if (g->column != ROUTE)
		return handed_in(g, RDMA_CM_EVENT_ROUTE_RESOLVED);
	resolve_route(&g->e);
	return ended_with(g);
}

static int event_CONNECT_RESPONSE(void *fixture)
{
	struct fixture *g = fixture;

	if (g->column != ANSWER)
		return handed_in(g, RDMA_CM_EVENT_CONNECT_RESPONSE);
	start_accept(&g->e, NULL);
	UNTIL(g->e.r, g->e.connected.calls);
	return ended_with(g);
}

static int news(struct fixture *g, unsigned int what)
{
	g->c->news |= what;
	conn_run(g->c);
	return ended_with(g);
}

static int event_QP_FATAL(void *fixture)
{
	struct fixture *g = fixture;

	if (g->c->qp)
		conn_qp_error(g->c);
	return news(g, CONN_NEWS_QP);
}

static int event_QP_FATAL_well(void *fixture)
{
	return news(fixture, CONN_NEWS_QP);
}

static int event_DEVICE_FATAL(void *fixture)
{
	return news(fixture, CONN_NEWS_DEVICE);
}

static int event_COMM_EST(void *fixture)
{
	return news(fixture, CONN_NEWS_DATA);
}

#define ROW(name) { #name, event_##name }

static const struct table_call events[] = {
	ROW(ADDR_RESOLVED), ROW(ROUTE_RESOLVED), ROW(ADDR_ERROR),
	ROW(ROUTE_ERROR), ROW(CONNECT_RESPONSE), ROW(CONNECT_ERROR),
	ROW(UNREACHABLE), ROW(REJECTED), ROW(ESTABLISHED), ROW(DISCONNECTED),
	ROW(DEVICE_REMOVAL), ROW(TIMEWAIT_EXIT), ROW(CONNECT_REQUEST),
	ROW(ADDR_CHANGE), ROW(MULTICAST_JOIN), ROW(MULTICAST_ERROR),
	ROW(QP_FATAL), { "QP_REQ_ERR", event_QP_FATAL },
	{ "QP_ACCESS_ERR", event_QP_FATAL }, ROW(DEVICE_FATAL),
	{ "QP_FATAL of a QP that is well", event_QP_FATAL_well },
	ROW(COMM_EST),
};

/* "0 → ENDED, told -EIO" */
static void check_told(const struct fixture *g, const struct table_cell *c)
{
	const char *told = strstr(c->text, "told ");
	int want = !told ? 0 : strcmp(told + 5, "0") ?
		   -table_errno(told + 6, strlen(told + 6)) : 0;

	if (g->e.n_ends[0] != !!told || (told && g->e.why[0] != want))
		fail_msg("%s in \"%s\": told %d times, %d, but the page says "
			 "\"%s\"", c->call->name, c->column_name,
			 g->e.n_ends[0], g->e.why[0], c->text);
}

static void cm_event_does_what_the_state_table_says(void **state)
{
	static const char *const columns[] = {
		"address", "route", "answer", "REQUESTED", "ACCEPTING",
		"ESTABLISHED", "CLOSING, peer", "CLOSING, own",
	};
	static const enum column of[] = {
		ADDRESS, ROUTE, ANSWER, REQUESTED, ACCEPTING, ESTABLISHED,
		CLOSING_PEER, CLOSING_OWN,
	};
	struct table t;
	struct table_cell c;
	struct fixture g;

	if (!mocked && !want_long())
		skip_because("176 exchanges: WEIR_TEST_LONG=1");
	table_open(&t, "docs/internals/rdma.md", "connection: event by state", events,
		   N_OF(events), columns, N_OF(columns));
	while (table_next(&t, &c)) {
		fixture_begin(&g, state, of[c.column]);
		table_result(&c, c.call->fn(&g));
		if (strcmp(c.then, state_name(g.c)))
			fail_msg("%s in \"%s\": %s, but the page says \"%s\"",
				 c.call->name, c.column_name, state_name(g.c),
				 c.text);
		check_told(&g, &c);
		fixture_end(&g);
	}
	table_close(&t);
}

/* Without an operation, an attempt that fails is followed by another. */
static void events_of_a_reconnect_lead_to_the_next_attempt(void **state)
{
	static const enum rdma_cm_event_type bad[] = {
		RDMA_CM_EVENT_ADDR_ERROR, RDMA_CM_EVENT_DEVICE_REMOVAL,
	};
	struct fixture g;
	size_t i;

	for (i = 0; i < N_OF(bad); i++) {
		fixture_begin(&g, state, RECONNECTING);
		g.c->tries = 1;
		conn_timer(g.c->timer, 1, g.c);
		assert_int_equal(g.c->step, CONN_ADDRESS);
		inject(g.c, bad[i]);
		assert_int_equal(g.c->step, CONN_BACKOFF);
		assert_int_equal(g.e.n_ends[0], 1);
		conn_timer(g.c->timer, 1, g.c);
		inject(g.c, bad[i]);
		assert_int_equal(state_of(g.c), WEIR_CONN_ENDED);
		assert_int_equal(g.e.n_ends[0], 2);
		assert_int_equal(g.e.why[0], i ? -ENODEV : -EHOSTUNREACH);
		fixture_end(&g);
	}
}

static void listener_whose_device_was_removed_says_so(void **state)
{
	struct rdma_cm_event ev = { .event = RDMA_CM_EVENT_ADDR_CHANGE };
	struct conn_user *user;
	struct ends e;

	ends_begin(&e, state, AF_INET);
	start_next(&e);
	user = &e.l->user;
	user->event(user, &ev);
	assert_int_equal(weir_op_is_busy(&e.next.op), 1);
	ev.event = RDMA_CM_EVENT_DEVICE_REMOVAL;
	user->event(user, &ev);
	assert_int_equal(finish(e.r, &e.next), -ENODEV);
	rec_init(&e.next);
	assert_int_equal(weir_listener_next(e.l, &e.next.op, &e.server),
			 -ENODEV);
	ends_destroy(&e);
}

/* Requests that end while they wait are handed to nobody. */
static void a_request_that_ended_in_the_queue_is_dropped(void **state)
{
	struct weir_conn *first;
	struct ends e;

	ends_begin(&e, state, AF_INET);
	ends_request(&e);
	first = e.server;
	e.server = NULL;
	conn_queue_request(e.l, first);
	inject(first, RDMA_CM_EVENT_REJECTED);
	start_next(&e);
	assert_int_equal(weir_op_is_busy(&e.next.op), 1);
	assert_int_equal(weir_op_cancel(&e.next.op), 0);
	assert_int_equal(finish(e.r, &e.next), -ECANCELED);
	UNTIL(e.r, e.connected.calls);
	ends_destroy(&e);
}

int main(void)
{
	const struct harness_case cases[] = {
		CASE(conn_call_does_what_the_state_table_says),
		CASE(cm_event_does_what_the_state_table_says),
		CASE(events_of_a_reconnect_lead_to_the_next_attempt),
		CASE(listener_whose_device_was_removed_says_so),
		CASE(a_request_that_ended_in_the_queue_is_dropped),
	};

	return run_over_rdma(cases, N_OF(cases));
}
