/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Connections and what becomes of the device, the fabric and time: over the
 * mock, which does as it is told.  B3.9, B4.3.
 */

#include "tests/support/conn-fixture.h"

#include <stdatomic.h>

#include "base/fault.h"

#include <infiniband/verbs.h>

#include <weir/rdma/channel.h>
#include <weir/device.h>
#include <weir/rdma/device.h>

/* B4.3: ids are destroyed, and the device is closed. */
static void a_removed_device_ends_all_that_it_had(void **state)
{
	struct weir_conn *other;
	struct rec rec;
	struct ends e;

	ends_begin(&e, state, AF_INET);
	ends_establish(&e);
	assert_int_equal(weir_conn_create(&other, e.r, NULL, &e.opts), 0);
	rec_init(&rec);
	STARTS(weir_conn_connect(other, &rec.op, sa_of(&e.addr), e.addr.len,
				 NULL, 0, NULL, 0));
	UNTIL(e.r, e.l->n_requests);
	mock_cm_remove_device();
	UNTIL(e.r, e.n_ends[0] && e.n_ends[1] && rec.calls);
	assert_int_equal(e.why[0], -ENODEV);
	assert_int_equal(e.why[1], -ENODEV);
	assert_int_equal(rec.res, -ENODEV);
	assert_int_equal(mocked()->ids, 1); /* The listener's. */
	assert_int_equal(mocked()->qps, 0);
	assert_int_equal(mocked()->contexts, 0);
	assert_int_equal(weir_conn_destroy(other), 0);
	ends_destroy(&e);
}

static void fatal_device(struct ends *e)
{
	struct ibv_async_event ev = { .event_type = IBV_EVENT_DEVICE_FATAL };

	mock_async(e->client->device_ref->device->ctx, &ev);
}

static void a_device_that_failed_ends_all_that_it_had(void **state)
{
	struct ends e;

	ends_begin(&e, state, AF_INET);
	ends_establish(&e);
	fatal_device(&e);
	UNTIL(e.r, e.n_ends[0] && e.n_ends[1]);
	assert_int_equal(e.why[0], -ENODEV);
	assert_int_equal(e.why[1], -ENODEV);
	ends_destroy(&e);
}

/* B3.9; the peer finds that it has disconnected. */
static void a_qp_that_the_device_breaks_ends_its_connection(void **state)
{
	struct ends e;
	int i;

	for (i = 0; i < 2; i++) {
		ends_begin(&e, state, AF_INET);
		ends_establish(&e);
		mock_break(i ? e.server->qp : e.client->qp);
		UNTIL(e.r, e.n_ends[0] && e.n_ends[1]);
		assert_int_equal(e.why[i], -EIO);
		assert_int_equal(e.why[!i], 0);
		assert_int_equal(e.n_ends[0] + e.n_ends[1], 2);
		ends_destroy(&e);
	}
}

static void unrelated_device_events_are_ignored(void **state)
{
	static const enum ibv_event_type types[] = {
		IBV_EVENT_PORT_ACTIVE, IBV_EVENT_PORT_ERR,
		IBV_EVENT_LID_CHANGE, IBV_EVENT_GID_CHANGE,
	};
	struct ibv_async_event ev = { .element.port_num = 1 };
	struct ends e;
	size_t i;

	ends_begin(&e, state, AF_INET);
	ends_establish(&e);
	for (i = 0; i < N_OF(types); i++) {
		ev.event_type = types[i];
		mock_async(e.client->device_ref->device->ctx, &ev);
		some_turns(e.r, 3);
	}
	assert_int_equal(e.n_ends[0] + e.n_ends[1], 0);
	ends_destroy(&e);
}

/* A device belongs to the process: each reactor is told, and knows its own. */
static void reactors_share_a_device(void **state)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts) };
	struct weir_reactor *r2;
	struct weir_conn *far;
	struct ends e;

	ends_begin(&e, state, AF_INET);
	opts.backend = backend_of(*state);
	opts.sim = harness_sim;
	assert_int_equal(weir_reactor_create(&r2, &opts), 0);
	ends_establish(&e);
	assert_int_equal(weir_conn_create(&far, r2, NULL, &e.opts), 0);
	rec_init(&e.connected);
	STARTS(weir_conn_connect(far, &e.connected.op, sa_of(&e.addr),
				 e.addr.len, NULL, 0, NULL, 0));
	UNTIL(r2, far->step == CONN_ANSWER);
	assert_int_equal(mocked()->contexts, 1);
	mock_break(e.client->qp);
	some_turns(r2, 5);
	UNTIL(e.r, e.n_ends[0]);
	assert_int_equal(state_of(far), WEIR_CONN_CONNECTING);
	fatal_device(&(struct ends){ .client = far });
	UNTIL(r2, e.connected.calls);
	assert_int_equal(e.connected.res, -ENODEV);
	assert_int_equal(weir_conn_destroy(far), 0);
	assert_int_equal(weir_reactor_destroy(r2), 0);
	UNTIL(e.r, e.n_ends[1]);
	ends_destroy(&e);
}

static void a_channel_of_another_device_is_refused(void **state)
{
	struct weir_channel_opts opts = { .size = sizeof(opts), .depth = 512 };
	struct weir_device *dev;
	struct weir_channel *ch;
	struct ends e;

	ends_init(&e, state, AF_INET);
	ends_listen(&e);
	assert_int_equal(weir_device_open_name(&dev, "mock_rxe"), 0);
	assert_int_equal(weir_channel_create(&ch, e.r, weir_device_verbs(dev),
					     &opts), 0);
	assert_int_equal(weir_conn_create(&e.client, e.r, ch, &e.opts), 0);
	start_connect(&e);
	assert_int_equal(finish(e.r, &e.connected), -EXDEV);
	assert_int_equal(weir_channel_destroy(ch), 0);
	assert_int_equal(weir_device_close(dev), 0);
	ends_destroy(&e);
}

/* Its name is there again, with another context. */
static void device_that_was_reset_is_opened_anew(void **state)
{
	struct weir_device *held;
	struct ibv_context *old;
	struct ends e;

	ends_begin(&e, state, AF_INET);
	ends_establish(&e);
	old = e.client->device_ref->device->ctx;
	assert_int_equal(weir_device_open_name(
				 &held, e.client->device_ref->device->name),
			 0);
	assert_ptr_equal(weir_device_verbs(held), old);
	fatal_device(&e);
	UNTIL(e.r, e.n_ends[0] && e.n_ends[1]);
	assert_int_equal(weir_conn_destroy(e.server), 0);
	ends_establish(&e);
	assert_ptr_not_equal(e.client->device_ref->device->ctx, old);
	e.others = true;
	ends_destroy(&e);
	assert_int_equal(weir_device_close(held), 0);
	nothing_is_left();
}

static int lose_events(const char *name)
{
	return !strcmp(name, "ibv_get_async_event");
}

static void unreadable_device_events_end_its_connections(void **state)
{
	struct ibv_async_event ev = { .event_type = IBV_EVENT_PORT_ACTIVE };
	struct ends e;

	ends_begin(&e, state, AF_INET);
	ends_establish(&e);
	fault_ask(lose_events);
	mock_async(e.client->device_ref->device->ctx, &ev);
	UNTIL(e.r, e.n_ends[0] && e.n_ends[1]);
	fault_ask(NULL);
	assert_int_equal(e.why[0], -ENODEV);
	assert_int_equal(e.why[1], -ENODEV);
	ends_destroy(&e);
}

static atomic_int n_opened;

static int count_opens(const char *name)
{
	n_opened += !strcmp(name, "ibv_open_device");
	return 0;
}

/* Once to ask what it can do, and once for good. */
static void connecting_opens_no_other_device(void **state)
{
	struct ends e;

	ends_begin(&e, state, AF_INET);
	n_opened = 0;
	fault_ask(count_opens);
	ends_establish(&e);
	fault_ask(NULL);
	assert_int_equal(n_opened, 2);
	ends_destroy(&e);
}

static int refuse_to_grow(const char *name)
{
	return !strcmp(name, "ibv_resize_cq");
}

/* An accept over a full channel of @device, which cannot grow. */
static void accept_over(void **state, const char *device, int err,
			const char *text)
{
	struct weir_channel_opts opts = { .size = sizeof(opts), .depth = 64 };
	struct weir_channel_stats stats = { .size = sizeof(stats) };
	struct weir_channel *ch = NULL;
	struct weir_device *dev = NULL;
	struct ends e;

	ends_init(&e, state, AF_INET);
	assert_int_equal(weir_device_open_name(&dev, device), 0);
	assert_int_equal(weir_channel_create(&ch, e.r, weir_device_verbs(dev),
					     &opts), 0);
	assert_int_equal(weir_channel_stats(ch, &stats), 0);
	assert_int_equal(weir_channel_reserve(ch, (uint32_t)stats.capacity),
			 0);
	e.listen.channel = ch;
	ends_open(&e);
	ends_request(&e);
	rec_init(&e.accepted);
	fault_ask(refuse_to_grow);
	assert_int_equal(weir_conn_accept(e.server, &e.accepted.op, NULL, 0),
			 err);
	fault_ask(NULL);
	assert_non_null(strstr(weir_why(), text));
	assert_int_equal(state_of(e.server), WEIR_CONN_REQUESTED);
	assert_int_equal(weir_conn_reject(e.server, NULL, 0), 0);
	assert_int_equal(finish(e.r, &e.connected), -ECONNREFUSED);
	e.others = true;
	ends_destroy(&e);
	weir_channel_release(ch, (uint32_t)stats.capacity);
	weir_channel_destroy(ch);
	assert_int_equal(weir_device_close(dev), 0);
	nothing_is_left();
}

static void accept_over_a_full_channel_is_refused(void **state)
{
	accept_over(state, "mock_mlx5", -EAGAIN, "capacity");
}

static void accept_over_a_channel_of_another_device_is_refused(void **state)
{
	accept_over(state, "mock_mana", -EXDEV, "another device");
}

static void iwarp_device_is_refused_on_both_sides(void **state)
{
	struct ibv_device *dev;
	struct rec rec;
	struct ends e;

	ends_begin(&e, state, AF_INET);
	ends_request(&e);
	dev = e.server->id->verbs->device;
	dev->transport_type = IBV_TRANSPORT_IWARP;
	rec_init(&rec);
	assert_int_equal(weir_conn_accept(e.server, &rec.op, NULL, 0),
			 -EOPNOTSUPP);
	assert_starts_with(weir_why(), "weir_conn_accept: the address is ");
	assert_non_null(strstr(weir_why(), "iWARP"));
	assert_int_equal(weir_conn_reject(e.server, NULL, 0), 0);
	assert_int_equal(finish(e.r, &e.connected), -ECONNREFUSED);
	start_connect(&e);
	assert_int_equal(finish(e.r, &e.connected), -EOPNOTSUPP);
	assert_starts_with(weir_why(), "weir_conn_connect: the address is ");
	dev->transport_type = IBV_TRANSPORT_IB;
	ends_destroy(&e);
}

static void missing_route_and_missing_device_are_told_apart(void **state)
{
	static const struct {
		int addr, route, want;
	} fails[] = {
		{ -ETIMEDOUT, 0, -EHOSTUNREACH },
		{ -EHOSTUNREACH, 0, -EHOSTUNREACH },
		{ -ENODEV, 0, -ENODEV },
		{ 0, -ETIMEDOUT, -EHOSTUNREACH },
		{ 0, -EINVAL, -EHOSTUNREACH },
	};
	struct ends e;
	size_t i;

	ends_begin(&e, state, AF_INET);
	for (i = 0; i < N_OF(fails); i++) {
		mocked()->fail_addr = fails[i].addr;
		mocked()->fail_route = fails[i].route;
		start_connect(&e);
		assert_int_equal(finish(e.r, &e.connected), fails[i].want);
		assert_int_equal(e.connected.detail.code,
				 fails[i].addr + fails[i].route);
		assert_int_equal(state_of(e.client), WEIR_CONN_ENDED);
	}
	mocked()->fail_addr = mocked()->fail_route = 0;
	ends_destroy(&e);
}

/* All that can be waited for, step by step. */
static void a_deadline_reaches_every_step_of_a_connect(void **state)
{
	struct ends e;
	unsigned int steps, step;

	ends_begin(&e, state, AF_INET);
	for (steps = 0; steps < 3; steps++) {
		mock_cm_hold(true);
		start_connect(&e);
		for (step = 0; step < steps; step++) {
			UNTIL(e.r, mock_cm_step(1));
			UNTIL(e.r, e.client->step == (enum conn_step)step + 1);
		}
		assert_int_equal(weir_op_set_deadline(&e.connected.op,
				 weir_reactor_now(e.r) + WEIR_MSEC), 0);
		assert_int_equal(finish(e.r, &e.connected), -ETIMEDOUT);
		mock_cm_hold(false);
		some_turns(e.r, 3);
		assert_int_equal(state_of(e.client), WEIR_CONN_ENDED);
	}
	ends_destroy(&e);
}

static void an_accept_and_a_next_have_deadlines(void **state)
{
	struct ends e;

	ends_begin(&e, state, AF_INET);
	start_next(&e);
	assert_int_equal(weir_op_set_deadline(&e.next.op,
			 weir_reactor_now(e.r) + WEIR_MSEC), 0);
	assert_int_equal(finish(e.r, &e.next), -ETIMEDOUT);
	ends_request(&e);
	mock_cm_hold(true);
	start_accept(&e, NULL);
	assert_int_equal(weir_op_set_deadline(&e.accepted.op,
			 weir_reactor_now(e.r) + WEIR_MSEC), 0);
	assert_int_equal(finish(e.r, &e.accepted), -ETIMEDOUT);
	mock_cm_hold(false);
	UNTIL(e.r, state_of(e.client) == WEIR_CONN_ENDED);
	ends_destroy(&e);
}

/* For the peer's answer, or its own 5 s, or the deadline; not for
 * TIMEWAIT_EXIT, which the mock does not tell. */
static void a_disconnect_waits_for_the_peer_for_a_time(void **state)
{
	struct ends e;
	int i;

	for (i = 0; i < 3; i++) {
		ends_begin(&e, state, AF_INET);
		ends_establish(&e);
		mock_cm_hold(true);
		rec_init(&e.closed);
		STARTS(weir_conn_disconnect(e.client, &e.closed.op));
		mock_cm_step(1);
		UNTIL(e.r, e.n_ends[1]);
		some_turns(e.r, 3);
		assert_int_equal(e.closed.calls, 0);
		assert_int_equal(state_of(e.client), WEIR_CONN_CLOSING);
		if (i == 0)
			weir_op_set_deadline(&e.closed.op,
					     weir_reactor_now(e.r));
		else if (i == 1)
			conn_timer(e.client->timer, 1, e.client);
		else {
			weir_timer_stop(e.client->timer);
			mock_cm_hold(false);
		}
		assert_int_equal(finish(e.r, &e.closed), i ? 0 : -ETIMEDOUT);
		mock_cm_hold(false);
		ends_destroy(&e);
	}
}

int main(void)
{
	const struct harness_case cases[] = {
		CASE(a_removed_device_ends_all_that_it_had),
		CASE(a_device_that_failed_ends_all_that_it_had),
		CASE(a_qp_that_the_device_breaks_ends_its_connection),
		CASE(unrelated_device_events_are_ignored),
		CASE(reactors_share_a_device),
		CASE(a_channel_of_another_device_is_refused),
		CASE(device_that_was_reset_is_opened_anew),
		CASE(unreadable_device_events_end_its_connections),
		CASE(connecting_opens_no_other_device),
		CASE(accept_over_a_full_channel_is_refused),
		CASE(accept_over_a_channel_of_another_device_is_refused),
		CASE(iwarp_device_is_refused_on_both_sides),
		CASE(missing_route_and_missing_device_are_told_apart),
		CASE(a_deadline_reaches_every_step_of_a_connect),
		CASE(an_accept_and_a_next_have_deadlines),
		CASE(a_disconnect_waits_for_the_peer_for_a_time),
	};

	return run_over_rdma(cases, N_OF(cases));
}
