/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * librdmacm's events in the loop, as <weir/rdma/cm.h> promises them.  Linked once
 * with the mock and once with the real library.
 */

#include "tests/support/harness.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include <weir/rdma/cm.h>
#include <weir/timer.h>

#include "base/fault.h"
#include "tests/support/mock-verbs.h"

#define TOLD 32
#define GREETING "what the one says to the other"
#define REFUSAL "no"

struct side {
	struct weir_cm *cm;
	struct rdma_cm_id *id;
	int calls;
	enum rdma_cm_event_type told[TOLD];
	char data[256];
	uint8_t data_len;
	int status;
	void (*then)(struct side *side, const struct rdma_cm_event *event);
};

static void on_event(struct weir_cm *cm, const struct rdma_cm_event *event,
		     void *arg)
{
	struct side *s = arg;

	assert_ptr_equal(cm, s->cm);
	assert_int_equal(harness_starting, 0);
	/* B4.3: acknowledged by now. */
	if (mocked)
		assert_int_equal(mocked()->unacked, 0);
	s->told[s->calls++ % TOLD] = event->event;
	s->status = event->status;
	s->data_len = event->param.conn.private_data_len;
	if (event->param.conn.private_data)
		memcpy(s->data, event->param.conn.private_data, s->data_len);
	if (s->then)
		s->then(s, event);
}

static void side_begin(struct side *s, struct weir_reactor *r)
{
	int err;

	memset(s, 0, sizeof(*s));
	err = weir_cm_create(&s->cm, r, on_event, s);
	if (err == -ENODEV && !mocked)
		skip_because("this machine has no RDMA device");
	assert_int_equal(err, 0);
	assert_non_null(weir_cm_events(s->cm));
}

static void side_end(struct side *s)
{
	if (s->id)
		assert_int_equal(rdma_destroy_id(s->id), 0);
	weir_cm_destroy(s->cm);
	if (mocked)
		assert_int_equal(mocked()->unacked, 0);
}

static struct sockaddr *device_address(void)
{
	static struct sockaddr_in address;
	const char *text = getenv("WEIR_RDMA_ADDRESS");

	if (mocked)
		text = "127.0.0.1";
	if (!text)
		skip_because("no WEIR_RDMA_ADDRESS: which is the device's?");
	address = (struct sockaddr_in){ .sin_family = AF_INET };
	assert_int_equal(inet_pton(AF_INET, text, &address.sin_addr), 1);
	return (struct sockaddr *)&address;
}

static struct rdma_cm_id *new_id(struct side *s)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(weir_cm_events(s->cm), &id, s,
					RDMA_PS_TCP), 0);
	return id;
}

static void resolve(struct side *s, struct rdma_cm_id *id, __be16 port)
{
	struct sockaddr_in *to = (struct sockaddr_in *)device_address();

	to->sin_port = port ? port : htons(7471);
	harness_starting++;
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)to,
					   2000), 0);
	harness_starting--;
	(void)s;
}

static void bad_arguments_are_refused(void **state)
{
	struct weir_cm *cm = (void *)0x77;

	assert_int_equal(weir_cm_create(&cm, start_reactor(state), NULL, NULL),
			 -EINVAL);
	assert_ptr_equal(cm, (void *)0x77);
	weir_cm_destroy(NULL);
}

static void events_of_an_id_are_reported(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct side s;

	side_begin(&s, r);
	s.id = new_id(&s);
	resolve(&s, s.id, 0);
	assert_int_equal(s.calls, 0);
	UNTIL(r, s.calls == 1);
	assert_int_equal(s.told[0], RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(rdma_resolve_route(s.id, 2000), 0);
	UNTIL(r, s.calls == 2);
	assert_int_equal(s.told[1], RDMA_CM_EVENT_ROUTE_RESOLVED);
	some_turns(r, 3);
	assert_int_equal(s.calls, 2);
	side_end(&s);
}

static void destroy_id(struct side *s, const struct rdma_cm_event *event)
{
	assert_ptr_equal(event->id, s->id);
	assert_int_equal(rdma_destroy_id(event->id), 0);
	s->id = NULL;
}

/* B4.3: it would wait for ever, or the mock end the program. */
static void cm_callback_may_destroy_the_id(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct side s;

	side_begin(&s, r);
	s.id = new_id(&s);
	s.then = destroy_id;
	resolve(&s, s.id, 0);
	UNTIL(r, s.calls);
	assert_null(s.id);
	side_end(&s);
}

static void destroy_both(struct side *s, const struct rdma_cm_event *event)
{
	destroy_id(s, event);
	weir_cm_destroy(s->cm);
	s->cm = NULL;
}

static void cm_callback_may_destroy_its_source(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct side s;

	side_begin(&s, r);
	s.id = new_id(&s);
	s.then = destroy_both;
	resolve(&s, s.id, 0);
	UNTIL(r, s.calls);
	some_turns(r, 3);
	assert_int_equal(s.calls, 1);
}

/* A listener, and one who comes. */

static void listen_here(struct side *s)
{
	s->id = new_id(s);
	assert_int_equal(rdma_bind_addr(s->id, device_address()), 0);
	assert_int_equal(rdma_listen(s->id, 4), 0);
}

static void go_on(struct side *s, const struct rdma_cm_event *event)
{
	struct rdma_conn_param param = {
		.private_data = GREETING, .private_data_len = sizeof(GREETING),
		.retry_count = 1, .qp_num = 0x1234,
	};

	(void)s;
	if (event->event == RDMA_CM_EVENT_ADDR_RESOLVED)
		assert_int_equal(rdma_resolve_route(event->id, 2000), 0);
	if (event->event == RDMA_CM_EVENT_ROUTE_RESOLVED)
		assert_int_equal(rdma_connect(event->id, &param), 0);
}

static void refuse(struct side *s, const struct rdma_cm_event *event)
{
	assert_int_equal(event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_ptr_equal(event->listen_id, s->id);
	assert_int_equal(rdma_reject(event->id, REFUSAL, sizeof(REFUSAL)), 0);
	assert_int_equal(rdma_destroy_id(event->id), 0);
}

/* The private data are still there when the event is not. */
static void private_data_are_a_copy(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct side server, client;
	int i;

	side_begin(&server, r);
	side_begin(&client, r);
	listen_here(&server);
	server.then = refuse;
	client.then = go_on;
	for (i = 1; i <= 5; i++) {
		client.calls = 0;
		client.id = new_id(&client);
		resolve(&client, client.id, rdma_get_src_port(server.id));
		UNTIL(r, client.calls == 3 && server.calls == i);
		assert_int_equal(client.told[0], RDMA_CM_EVENT_ADDR_RESOLVED);
		assert_int_equal(client.told[1], RDMA_CM_EVENT_ROUTE_RESOLVED);
		assert_int_equal(client.told[2], RDMA_CM_EVENT_REJECTED);
		assert_true(server.data_len >= sizeof(GREETING));
		assert_string_equal(server.data, GREETING);
		assert_true(client.data_len >= sizeof(REFUSAL));
		assert_string_equal(client.data, REFUSAL);
		assert_int_equal(rdma_destroy_id(client.id), 0);
		client.id = NULL;
	}
	side_end(&client);
	side_end(&server);
}

struct tick {
	struct side *s;
	int n, calls;
};

static void on_tick(struct weir_timer *timer, uint64_t n, void *arg)
{
	struct tick *t = arg;

	(void)timer;
	(void)n;
	t->n++;
	t->calls = t->s->calls;
}

static void a_flood_gets_its_share_and_no_more(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct rdma_cm_id *ids[200];
	struct weir_timer *timer;
	struct side s;
	struct tick t = { .s = &s };
	int i;

	side_begin(&s, r);
	some_turns(r, 2);
	for (i = 0; i < 200; i++) {
		ids[i] = new_id(&s);
		resolve(&s, ids[i], 0);
	}
	assert_int_equal(weir_timer_create(&timer, r, on_tick, &t), 0);
	weir_timer_start(timer, 0, 0);
	UNTIL(r, t.n);
	assert_true(t.calls <= 64);
	UNTIL(r, s.calls == 200);
	for (i = 0; i < 200; i++)
		assert_int_equal(rdma_destroy_id(ids[i]), 0);
	weir_timer_destroy(timer);
	side_end(&s);
}

static void destroyed_source_reports_nothing(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct side s;
	int i;

	for (i = 0; i < 10; i++) {
		side_begin(&s, r);
		s.id = new_id(&s);
		resolve(&s, s.id, 0);
		if (i % 2)
			some_turns(r, 1);
		side_end(&s);
		s.cm = NULL;
		some_turns(r, 3);
	}
}

static void events_are_told_while_the_reactor_stops(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_cm *none;
	struct side s;

	side_begin(&s, r);
	s.id = new_id(&s);
	some_turns(r, 2);
	weir_reactor_stop(r);
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(weir_cm_create(&none, r, on_event, &s), -ESHUTDOWN);
	resolve(&s, s.id, 0);
	UNTIL(r, s.calls);
	side_end(&s);
}

static void failed_cm_call_leaves_nothing_behind(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int err, n = 0, fired;
	struct side s;

	side_begin(&s, r);
	side_end(&s);
	do {
		s.cm = NULL;
		fault_arm(n++);
		err = weir_cm_create(&s.cm, r, on_event, &s);
		fired = fault_disarm();
		/* One failure is no reason: a device that may have no poll. */
		assert_true(err < 0 ? fired && !s.cm : s.cm != NULL);
		side_end(&s);
	} while (fired);
	assert_true(n > 3);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(bad_arguments_are_refused),
		CASE(events_of_an_id_are_reported),
		CASE(cm_callback_may_destroy_the_id),
		CASE(cm_callback_may_destroy_its_source),
		CASE(private_data_are_a_copy),
		CASE(a_flood_gets_its_share_and_no_more),
		CASE(destroyed_source_reports_nothing),
		CASE(events_are_told_while_the_reactor_stops),
		CASE(failed_cm_call_leaves_nothing_behind),
	};

	/* librdmacm opens devices when it first needs them, and keeps them. */
	if (!mocked)
		rdma_free_devices(rdma_get_devices(NULL));
	return mocked ? harness_run_all(cases, N_OF(cases)) :
			harness_run(cases, N_OF(cases));
}
