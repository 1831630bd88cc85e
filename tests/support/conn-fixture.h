/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_CONN_FIXTURE_H
#define TESTS_CONN_FIXTURE_H

/*
 * Two ends of a connection in one process, on one reactor.
 *
 * The same cases run over the mock for RDMA and, in a guest, over soft-RoCE
 * (WEIR_RDMA_ADDRESS, vm/guest.sh): programs that link the mock have
 * mock().
 */

#include "tests/support/harness.h"
#include "tests/support/mock-verbs.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include <weir/conn.h>

#include "rdma/conn-internal.h"

struct address {
	struct sockaddr_storage sa;
	socklen_t len;
};

struct ends {
	struct weir_reactor *r;
	struct weir_conn_opts opts; /* Of both. */
	struct weir_listener_opts listen;
	struct address addr; /* The listener's. */
	struct address from; /* The client's; none: whichever. */
	struct weir_listener *l;
	struct weir_conn *client, *server;
	struct rec connected, accepted, next, closed;
	int n_ends[2], why[2]; /* Client's, server's. */
	bool others; /* Somebody else has the device. */
};

/*
 * librdmacm opens each device once and for good: before anybody counts.  What
 * is real is in no simulated world; the mock is.
 */
static inline int run_over_rdma(const struct harness_case *cases, size_t n)
{
	struct ibv_context **all = mocked ? NULL : rdma_get_devices(NULL);

	if (all)
		rdma_free_devices(all);
	return mocked ? harness_run_all(cases, n) : harness_run(cases, n);
}

static inline struct address ip(const char *text, uint16_t port)
{
	struct address a = { .len = 0 };
	struct sockaddr_in *in = (struct sockaddr_in *)&a.sa;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&a.sa;

	if (inet_pton(AF_INET, text, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		a.len = sizeof(*in);
	} else if (inet_pton(AF_INET6, text, &in6->sin6_addr) == 1) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons(port);
		a.len = sizeof(*in6);
	} else {
		fail_msg("%s is no address", text);
	}
	return a;
}

/* Of the device that there is. */
static inline const char *own_ip(int family)
{
	const char *six = family == AF_INET6 ? "_6" : "";
	char name[32];
	const char *text;

	if (mocked)
		return family == AF_INET6 ? "fd77::1" : "10.77.0.1";
	snprintf(name, sizeof(name), "WEIR_RDMA_ADDRESS%s", six);
	text = getenv(name);
	if (!text)
		skip_because("no RDMA here: %s is not set; see tests/vm", name);
	return text;
}

static inline const struct sockaddr *sa_of(const struct address *a)
{
	return (const struct sockaddr *)&a->sa;
}

static inline void set_port(struct address *a, uint16_t port)
{
	if (a->sa.ss_family == AF_INET)
		((struct sockaddr_in *)&a->sa)->sin_port = htons(port);
	else
		((struct sockaddr_in6 *)&a->sa)->sin6_port = htons(port);
}

static inline uint16_t port_of(const struct address *a)
{
	return ntohs(a->sa.ss_family == AF_INET ?
			     ((const struct sockaddr_in *)&a->sa)->sin_port :
			     ((const struct sockaddr_in6 *)&a->sa)->sin6_port);
}

static inline void ends_listen(struct ends *e)
{
	struct address any = e->addr;

	e->listen.size = sizeof(e->listen);
	e->listen.conn = &e->opts;
	assert_int_equal(weir_listener_create(&e->l, e->r, sa_of(&any), any.len,
					      &e->listen),
			 0);
	e->addr.len = sizeof(e->addr.sa);
	assert_int_equal(weir_listener_address(e->l,
					       (struct sockaddr *)&e->addr.sa,
					       &e->addr.len),
			 0);
	assert_int_equal(e->addr.len, any.len);
	assert_int_not_equal(port_of(&e->addr), 0);
}

/* A listener and an unconnected client; .opts may be changed before. */
static inline void ends_init(struct ends *e, void **state, int family)
{
	struct world *w = *state;

	memset(e, 0, sizeof(*e));
	e->addr = ip(own_ip(family), 0);
	e->r = w->r ? w->r : start_reactor(state);
	e->opts.size = sizeof(e->opts);
}

static inline void ends_open(struct ends *e)
{
	ends_listen(e);
	assert_int_equal(weir_conn_create(&e->client, e->r, NULL, &e->opts), 0);
}

static inline void ends_begin(struct ends *e, void **state, int family)
{
	ends_init(e, state, family);
	ends_open(e);
}

static inline void on_end(struct weir_conn *c, int why_told, void *arg)
{
	struct ends *e = arg;
	int i = c == e->server;

	e->n_ends[i]++;
	e->why[i] = why_told;
}

static inline void start_connect_with(struct ends *e, const char *data)
{
	rec_init(&e->connected);
	STARTS(weir_conn_connect(e->client, &e->connected.op, sa_of(&e->addr),
				 e->addr.len,
				 e->from.len ? sa_of(&e->from) : NULL,
				 e->from.len, data, data ? strlen(data) : 0));
}

static inline void start_connect(struct ends *e)
{
	start_connect_with(e, NULL);
}

static inline void start_next(struct ends *e)
{
	rec_init(&e->next);
	STARTS(weir_listener_next(e->l, &e->next.op, &e->server));
}

static inline void start_accept(struct ends *e, const char *data)
{
	rec_init(&e->accepted);
	STARTS(weir_conn_accept(e->server, &e->accepted.op, data,
				data ? strlen(data) : 0));
}

/* The client asks, and nobody has answered. */
static inline void ends_request(struct ends *e)
{
	start_next(e);
	start_connect_with(e, "may I");
	assert_int_equal(finish(e->r, &e->next), 0);
	assert_non_null(e->server);
	assert_int_equal(weir_conn_state(e->server), WEIR_CONN_REQUESTED);
}

static inline void ends_establish(struct ends *e)
{
	ends_request(e);
	start_accept(e, "you may");
	assert_int_equal(finish(e->r, &e->connected), 0);
	if (!e->accepted.calls)
		assert_int_equal(finish(e->r, &e->accepted), 0);
	assert_int_equal(e->accepted.res, 0);
	assert_int_equal(weir_conn_state(e->client), WEIR_CONN_ESTABLISHED);
	assert_int_equal(weir_conn_state(e->server), WEIR_CONN_ESTABLISHED);
	weir_conn_set_end_fn(e->client, on_end, e);
	weir_conn_set_end_fn(e->server, on_end, e);
}

/* And each event was acknowledged: B4.3. */
static inline void nothing_is_left(void)
{
	const struct mock *s = mocked();

	assert_int_equal(s->ids + s->cm_channels, 0);
	assert_int_equal(s->qps + s->cqs + s->channels, 0);
	assert_int_equal(s->contexts + s->pds, 0);
	assert_int_equal(s->unacked, 0);
}

static inline void ends_destroy(struct ends *e)
{
	assert_int_equal(weir_conn_destroy(e->client), 0);
	assert_int_equal(weir_conn_destroy(e->server), 0);
	assert_int_equal(weir_listener_destroy(e->l), 0);
	if (mocked && !e->others)
		nothing_is_left();
}

static inline int state_of(const struct weir_conn *c)
{
	return weir_conn_state(c);
}

/* The news that ends CONN_ROUTE, if it came while somebody wanted that step. */
static bool route_held;

static inline void hold_route(struct conn_user *user,
			      const struct rdma_cm_event *ev)
{
	if (ev->event == RDMA_CM_EVENT_ROUTE_RESOLVED)
		route_held = true;
	else
		conn_event(user, ev);
}

/* Make turns until the client is at @step of connecting. */
static inline void until_step(struct ends *e, enum conn_step step)
{
	route_held = false;
	if (step == CONN_ROUTE)
		e->client->user.event = hold_route;
	UNTIL(e->r, e->client->step == step ||
			    state_of(e->client) != WEIR_CONN_CONNECTING);
	assert_int_equal(state_of(e->client), WEIR_CONN_CONNECTING);
	e->client->user.event = conn_event;
}

static inline int64_t do_disconnect(struct ends *e, struct weir_conn *c)
{
	rec_init(&e->closed);
	STARTS(weir_conn_disconnect(c, &e->closed.op));
	return finish(e->r, &e->closed);
}

/* The result of @rec, which may be there already. */
static inline int64_t result_of(struct weir_reactor *r, struct rec *rec)
{
	UNTIL(r, rec->calls);
	assert_int_equal(rec->calls, 1);
	return rec->res;
}

/* The fabric fills private data up with zeros. */
static inline void assert_said(const struct weir_conn *c, const char *text)
{
	size_t len, i;
	const char *data = weir_conn_peer_data(c, &len);

	assert_non_null(data);
	assert_true(len >= strlen(text));
	assert_memory_equal(data, text, strlen(text));
	for (i = strlen(text); i < len; i++)
		assert_int_equal(data[i], 0);
}

static inline int family_of(void **state)
{
	const struct world *w = *state;

	return w->arg ? *(const int *)w->arg : AF_INET;
}

static const int ipv6 = AF_INET6;

#endif /* TESTS_CONN_FIXTURE_H */
