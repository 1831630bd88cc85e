/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Messages: what each call does, and what becomes of what comes, in each state
 * of a connection, as the tables of docs/internals/rdma.md say it.
 */

#include "tests/support/message-fixture.h"
#include "tests/support/table-fixture.h"

/* Calls. */

enum state {
	IDLE, CONNECTING, REQUESTED, ACCEPTING, ESTABLISHED, CLOSING, ENDED,
};

struct fixture {
	struct peers t;
	struct weir_conn *c;
	enum state state;
};

static void fixture_connect(struct fixture *g)
{
	struct ends *e = &g->t.e;

	ends_request(e);
	g->c = e->server;
	if (g->state == REQUESTED)
		return;
	start_accept(e, NULL);
	if (g->state == ACCEPTING)
		return;
	result_of(g->t.r, &e->connected);
	result_of(g->t.r, &e->accepted);
	g->c = e->client;
	if (g->state == CLOSING) {
		rec_init(&e->closed);
		STARTS(weir_conn_disconnect(g->c, &e->closed.op));
	} else if (g->state == ENDED) {
		do_disconnect(e, g->c);
	}
}

static void fixture_begin(struct fixture *g, void **state, enum state at)
{
	memset(g, 0, sizeof(*g));
	g->state = at;
	peers_init(&g->t, state);
	peers_create(&g->t);
	g->c = g->t.e.client;
	if (at == CONNECTING)
		start_connect(&g->t.e);
	else if (at != IDLE)
		fixture_connect(g);
}

static void end_op(struct fixture *g, struct rec *rec)
{
	if (weir_op_is_busy(&rec->op)) {
		weir_op_cancel(&rec->op);
		UNTIL(g->t.r, rec->calls);
	}
}

static void fixture_end(struct fixture *g)
{
	end_op(g, &g->t.sent[0]);
	end_op(g, &g->t.e.connected);
	end_op(g, &g->t.e.accepted);
	end_op(g, &g->t.e.closed);
	peers_end(&g->t);
}

static int call_set_message_fn(void *fixture)
{
	struct fixture *g = fixture;

	return weir_conn_set_message_fn(g->c, on_message, &g->t.server);
}

static int call_send(void *fixture)
{
	struct fixture *g = fixture;
	struct weir_message m = { .size = sizeof(m) };

	return try_send(&g->t, g->c, 0, &m);
}

static void message_call_does_what_the_state_table_says(void **state)
{
	static const struct table_call calls[] = {
		{ "set_message_fn", call_set_message_fn },
		{ "send", call_send },
	};
	static const char *const columns[] = {
		"IDLE", "CONNECTING", "REQUESTED", "ACCEPTING", "ESTABLISHED",
		"CLOSING", "ENDED",
	};
	struct table t;
	struct table_cell c;
	struct fixture g;

	table_open(&t, "docs/internals/rdma.md", "message: call by state", calls,
		   N_OF(calls), columns, N_OF(columns));
	while (table_next(&t, &c)) {
		fixture_begin(&g, state, (enum state)c.column);
		table_result(&c, c.call->fn(&g));
		fixture_end(&g);
	}
	table_close(&t);
}

/* What comes. */

enum column { WHILE_ACCEPTING, UNHEARD, HEARD, WHILE_CLOSING, GONE };

struct guest {
	struct peers t;
	enum column column;
	uint64_t before;	/* Messages that came to make it so. */
};

static void guest_begin(struct guest *g, void **state, enum column column,
			bool flood)
{
	struct peers *t = &g->t;

	memset(g, 0, sizeof(*g));
	g->column = column;
	peers_init(t, state);
	t->srq_opts.buf_size = 128;
	t->e.opts.recvs = flood ? 1 : 8;
	peers_create(t);
	ends_request(&t->e);
	if (column != UNHEARD)
		weir_conn_set_message_fn(t->e.server, on_message, &t->server);
	start_accept(&t->e, NULL);
	if (column == WHILE_ACCEPTING) {
		mock_cm_hold(true);
		mock_cm_step(1);
	}
	result_of(t->r, &t->e.connected);
	if (column != WHILE_ACCEPTING)
		result_of(t->r, &t->e.accepted);
	weir_conn_set_end_fn(t->e.server, on_end, &t->e);
	peers_memory(t);
}

/* The fabric does not wait: what is sent has come when the call returns. */
static void come(struct guest *g)
{
	struct peers *t = &g->t;

	if (g->column == WHILE_CLOSING) {
		rec_init(&t->e.closed);
		STARTS(weir_conn_disconnect(t->e.server, &t->e.closed.op));
	} else if (g->column == GONE) {
		assert_int_equal(weir_conn_destroy(t->e.server), 0);
		t->e.server = NULL;
	}
	some_turns(t->r, 6);
}

/* What the connection has ended with. */
static int outcome(struct guest *g)
{
	struct peers *t = &g->t;

	come(g);
	if (g->column == WHILE_ACCEPTING && t->e.accepted.calls)
		return (int)t->e.accepted.res;
	return t->e.n_ends[1] ? t->e.why[1] : 0;
}

static int what_message(void *fixture)
{
	send_number(&((struct guest *)fixture)->t, 0, 1);
	return outcome(fixture);
}

static int what_empty(void *fixture)
{
	struct guest *g = fixture;
	struct weir_message m = { .size = sizeof(m) };

	STARTS(try_send(&g->t, g->t.e.client, 0, &m));
	return outcome(g);
}

static int what_signal(void *fixture)
{
	struct guest *g = fixture;
	struct ibv_send_wr *bad, wr = {
		.opcode = IBV_WR_RDMA_WRITE_WITH_IMM, .imm_data = 1,
	};

	assert_int_equal(ibv_post_send(g->t.e.client->qp, &wr, &bad), 0);
	return outcome(g);
}

static int what_flood(void *fixture)
{
	struct guest *g = fixture;

	send_number(&g->t, 0, 1);
	send_number(&g->t, 1, 1);
	g->before = 1;
	return outcome(g);
}

static int what_larger(void *fixture)
{
	struct guest *g = fixture;

	send_mem(&g->t, 0, 0, 129);
	return outcome(g);
}

static const char *became(const struct guest *g)
{
	struct weir_srq_stats s = srq_stats_of(g->t.srq);

	return s.held ? "held" : s.dropped ? "dropped" :
	       g->t.server.n ? "told" : "lost";
}

static void guest_end(struct guest *g)
{
	struct peers *t = &g->t;

	mock_cm_hold(false);
	UNTIL(t->r, t->e.accepted.calls);
	if (g->column == WHILE_CLOSING)
		UNTIL(t->r, t->e.closed.calls);
	some_turns(t->r, 4);
	peers_end(t);
}

static void completion_becomes_what_the_state_table_says(void **state)
{
	static const struct table_call calls[] = {
		{ "message", what_message }, { "empty message", what_empty },
		{ "signal", what_signal },
		{ "one more than .recvs", what_flood },
		{ "larger than the buffer", what_larger },
	};
	static const char *const columns[] = {
		"ACCEPTING", "unheard", "ESTABLISHED", "CLOSING", "gone",
	};
	struct table t;
	struct table_cell c;
	struct guest g;

	if (!mocked)
		skip_because("soft-RoCE takes its time");
	table_open(&t, "docs/internals/rdma.md", "message: what comes, by state", calls,
		   N_OF(calls), columns, N_OF(columns));
	while (table_next(&t, &c)) {
		guest_begin(&g, state, (enum column)c.column,
			    c.call->fn == what_flood);
		table_result(&c, c.call->fn(&g));
		if (strcmp(c.then, became(&g)))
			fail_msg("%s, %s: %s, but the page says \"%s\"",
				 c.call->name, c.column_name, became(&g),
				 c.text);
		guest_end(&g);
	}
	table_close(&t);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(message_call_does_what_the_state_table_says),
		CASE(completion_becomes_what_the_state_table_says),
	};

	return run_over_rdma(cases, N_OF(cases));
}
