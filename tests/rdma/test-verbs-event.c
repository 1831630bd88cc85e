/* SPDX-License-Identifier: BSD-3-Clause */

/* Asynchronous events of a device, as <weir/rdma/verbs-event.h> promises them. */

#include "tests/support/channel-fixture.h"

#include <pthread.h>
#include <stdatomic.h>

#include <weir/timer.h>
#include <weir/rdma/verbs-event.h>

#include "base/fault.h"
#include "tests/support/cores.h"

struct seen {
	struct weir_verbs_event *ev;
	struct weir_verbs_event *other;
	int calls, lost;
	struct ibv_async_event last;
	void (*then)(struct seen *seen);
};

static void on_event(struct weir_verbs_event *ev,
		     const struct ibv_async_event *event, void *arg)
{
	struct seen *s = arg;

	assert_ptr_equal(ev, s->ev);
	assert_int_equal(harness_starting, 0);
	s->calls++;
	s->lost += !event;
	if (event)
		s->last = *event;
	if (s->then)
		s->then(s);
}

static void see(struct seen *s, struct weir_reactor *r,
		struct ibv_context *ctx)
{
	*s = (struct seen){ 0 };
	assert_int_equal(weir_verbs_event_create(&s->ev, r, ctx, on_event, s),
			 0);
}

static void send_port(struct ibv_context *ctx, int port)
{
	struct ibv_async_event event = {
		.event_type = IBV_EVENT_PORT_ERR, .element.port_num = port,
	};

	harness_starting++;
	mock_async(ctx, &event);
	harness_starting--;
}

static void bad_arguments_are_refused(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = fixture_open_device();
	struct weir_verbs_event *ev = (void *)0x77;

	assert_int_equal(weir_verbs_event_create(&ev, r, NULL, on_event, NULL),
			 -EINVAL);
	assert_int_equal(weir_verbs_event_create(&ev, r, ctx, NULL, NULL),
			 -EINVAL);
	assert_ptr_equal(ev, (void *)0x77);
	weir_verbs_event_destroy(NULL);
	fixture_close_device(ctx);
}

static void device_events_are_reported_once_in_order(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = fixture_open_device();
	struct seen s;
	int i;

	see(&s, r, ctx);
	for (i = 1; i <= 10; i++) {
		send_port(ctx, i);
		UNTIL(r, s.calls == i);
		assert_int_equal(s.last.element.port_num, i);
		assert_int_equal(s.last.event_type, IBV_EVENT_PORT_ERR);
	}
	some_turns(r, 5);
	assert_int_equal(s.calls, 10);
	weir_verbs_event_destroy(s.ev);
	fixture_close_device(ctx);
}

static struct ibv_cq *doomed;

/* The mock ends the program if it is not acknowledged by now. */
static void destroy_what_it_is_about(struct seen *s)
{
	assert_int_equal(mocked()->unacked, 0);
	assert_ptr_equal(s->last.element.cq, doomed);
	assert_int_equal(ibv_destroy_cq(s->last.element.cq), 0);
}

/* B3.9 */
static void event_callback_may_destroy_the_subject_of_the_event(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = fixture_open_device();
	struct seen s;

	see(&s, r, ctx);
	s.then = destroy_what_it_is_about;
	doomed = ibv_create_cq(ctx, 10, NULL, NULL, 0);
	mock_overrun(doomed);
	UNTIL(r, s.calls);
	some_turns(r, 3);
	assert_int_equal(s.calls, 1);
	assert_int_equal(s.last.event_type, IBV_EVENT_CQ_ERR);
	weir_verbs_event_destroy(s.ev);
	fixture_close_device(ctx);
}

static void destroy_it(struct seen *s)
{
	weir_verbs_event_destroy(s->ev);
	s->ev = NULL;
}

static void event_callback_may_destroy_its_source(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = fixture_open_device();
	struct seen s[2];
	int i, which;

	/* One of them reads what both are told. */
	for (which = 0; which < 2; which++) {
		see(&s[0], r, ctx);
		see(&s[1], r, ctx);
		s[which].then = destroy_it;
		for (i = 0; i < 5; i++)
			send_port(ctx, i);
		UNTIL(r, s[which].calls && s[!which].calls == 5);
		some_turns(r, 5);
		assert_int_equal(s[which].calls, 1);
		weir_verbs_event_destroy(s[!which].ev);
	}
	fixture_close_device(ctx);
}

static void destroy_the_other(struct seen *s)
{
	if (s->other)
		weir_verbs_event_destroy(s->other);
	s->other = NULL;
}

static void a_callback_may_destroy_another_that_is_due(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = fixture_open_device();
	struct seen s[2];
	int which, before;

	for (which = 0; which < 2; which++) {
		see(&s[0], r, ctx);
		see(&s[1], r, ctx);
		s[which].other = s[!which].ev;
		s[which].then = destroy_the_other;
		send_port(ctx, 1);
		send_port(ctx, 2);
		UNTIL(r, s[which].calls);
		before = s[!which].calls;
		UNTIL(r, s[which].calls == 2);
		some_turns(r, 5);
		assert_int_equal(s[!which].calls, before);
		weir_verbs_event_destroy(s[which].ev);
	}
	fixture_close_device(ctx);
}

static void sources_of_a_device_are_told_and_no_others(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = fixture_open_device();
	struct ibv_context *other = fixture_open_device();
	struct seen s[3], t;
	int i, j;

	for (i = 0; i < 3; i++)
		see(&s[i], r, ctx);
	see(&t, r, other);
	for (i = 1; i <= 40; i++) {
		send_port(ctx, i);
		for (j = 0; i % 3 == 0 && j < 3; j++) {
			UNTIL(r, s[j].calls == i);
			assert_int_equal(s[j].last.element.port_num, i);
		}
	}
	for (j = 0; j < 3; j++)
		UNTIL(r, s[j].calls == 40);
	some_turns(r, 3);
	assert_int_equal(t.calls, 0);
	for (i = 0; i < 3; i++)
		weir_verbs_event_destroy(s[i].ev);
	weir_verbs_event_destroy(t.ev);
	assert_int_equal(ibv_close_device(other), 0);
	fixture_close_device(ctx);
}

struct hearer {
	pthread_t thread;
	uint32_t backend;
	struct ibv_context *ctx;
	atomic_int calls, ready, sum;
	struct weir_reactor *r;
};

static void on_heard(struct weir_verbs_event *ev,
		    const struct ibv_async_event *event, void *arg)
{
	struct hearer *c = arg;

	(void)ev;
	atomic_fetch_add(&c->sum, event->element.port_num);
	if (atomic_fetch_add(&c->calls, 1) == 19)
		weir_reactor_break(c->r);
}

static void *run_hearer(void *arg)
{
	struct hearer *c = arg;
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = c->backend,
	};
	struct weir_verbs_event *ev;

	MUST(!weir_reactor_create(&c->r, &opts));
	MUST(!weir_verbs_event_create(&ev, c->r, c->ctx, on_heard, c));
	atomic_store(&c->ready, 1);
	MUST(weir_reactor_run(c->r) == 1);
	weir_verbs_event_destroy(ev);
	MUST(!weir_reactor_destroy(c->r));
	return NULL;
}

/* Few at a time: whose reactor does not run loses the 65th. */
static void sources_of_several_reactors_are_told_of_all(void **state)
{
	const struct world *w = *state;
	struct ibv_context *ctx = fixture_open_device();
	struct hearer c[3];
	int i, j;

	memset(c, 0, sizeof(c));
	for (i = 0; i < 3; i++) {
		c[i].backend = backend_of(w);
		c[i].ctx = ctx;
		pthread_create(&c[i].thread, NULL, run_hearer, &c[i]);
	}
	for (i = 0; i < 3; i++)
		while (!atomic_load(&c[i].ready))
			sched_yield();
	for (j = 1; j <= 20; j++)
		send_port(ctx, j);
	for (i = 0; i < 3; i++) {
		pthread_join(c[i].thread, NULL);
		assert_int_equal(atomic_load(&c[i].calls), 20);
		assert_int_equal(atomic_load(&c[i].sum), 210);
	}
	fixture_close_device(ctx);
}

struct tick {
	struct seen *s;
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
	struct ibv_context *ctx = fixture_open_device();
	struct weir_timer *timer;
	struct seen s;
	struct tick t = { .s = &s };
	int i;

	see(&s, r, ctx);
	some_turns(r, 2);
	for (i = 0; i < 1000; i++)
		send_port(ctx, i);
	assert_int_equal(weir_timer_create(&timer, r, on_tick, &t), 0);
	weir_timer_start(timer, 0, 0);
	UNTIL(r, t.n);
	assert_true(t.calls <= 64);
	UNTIL(r, s.calls == 1000);
	assert_int_equal(s.lost, 0);
	weir_timer_destroy(timer);
	weir_verbs_event_destroy(s.ev);
	fixture_close_device(ctx);
}

static void slow_reader_is_told_of_lost_events(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = fixture_open_device();
	const struct world *w = *state;
	struct weir_reactor_opts opts = {
		.size = sizeof(opts), .backend = backend_of(w),
	};
	struct weir_reactor *slow;
	struct seen s, t;
	int i;

	assert_int_equal(weir_reactor_create(&slow, &opts), 0);
	see(&s, r, ctx);
	see(&t, slow, ctx);
	for (i = 0; i < 100; i++) {
		send_port(ctx, i);
		UNTIL(r, s.calls == i + 1);
	}
	UNTIL(slow, t.lost);
	some_turns(slow, 5);
	assert_int_equal(t.lost, 1);
	assert_int_equal(t.calls, 64 + 1);
	assert_int_equal(t.last.element.port_num, 63);
	send_port(ctx, 7);
	UNTIL(slow, t.calls == 66);
	assert_int_equal(t.last.element.port_num, 7);
	assert_int_equal(s.lost, 0);
	weir_verbs_event_destroy(s.ev);
	weir_verbs_event_destroy(t.ev);
	assert_int_equal(weir_reactor_destroy(slow), 0);
	fixture_close_device(ctx);
}

static void events_are_told_while_the_reactor_stops(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = fixture_open_device();
	struct weir_verbs_event *none;
	struct seen s;

	see(&s, r, ctx);
	some_turns(r, 2);
	weir_reactor_stop(r);
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(weir_verbs_event_create(&none, r, ctx, on_event,
						 NULL), -ESHUTDOWN);
	send_port(ctx, 1);
	UNTIL(r, s.calls);
	weir_verbs_event_destroy(s.ev);
	fixture_close_device(ctx);
}

/* In a world, too, where turns that do not wait let time go on. */
static void event_reaches_a_reactor_that_only_polls(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = fixture_open_device();
	struct seen s;
	int i;

	see(&s, r, ctx);
	send_port(ctx, 1);
	for (i = 0; i < TURNS_MAX && !s.calls; i++)
		some_turns(r, 1);
	assert_int_equal(s.calls, 1);
	weir_verbs_event_destroy(s.ev);
	fixture_close_device(ctx);
}

static void failed_event_source_call_leaves_nothing_behind(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct ibv_context *ctx = fixture_open_device();
	struct weir_verbs_event *ev;
	int err, n = 0, fired;

	do {
		ev = NULL;
		fault_arm(n++);
		err = weir_verbs_event_create(&ev, r, ctx, on_event, NULL);
		fired = fault_disarm();
		assert_true(fired ? err < 0 && !ev : !err);
	} while (fired);
	assert_true(n > 2);
	weir_verbs_event_destroy(ev);
	fixture_close_device(ctx);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(bad_arguments_are_refused),
		CASE(device_events_are_reported_once_in_order),
		CASE(event_callback_may_destroy_the_subject_of_the_event),
		CASE(event_callback_may_destroy_its_source),
		CASE(a_callback_may_destroy_another_that_is_due),
		CASE(sources_of_a_device_are_told_and_no_others),
		REAL(sources_of_several_reactors_are_told_of_all),
		CASE(a_flood_gets_its_share_and_no_more),
		REAL(slow_reader_is_told_of_lost_events),
		CASE(events_are_told_while_the_reactor_stops),
		CASE(event_reaches_a_reactor_that_only_polls),
		CASE(failed_event_source_call_leaves_nothing_behind),
	};

	return harness_run_all(cases, N_OF(cases));
}
