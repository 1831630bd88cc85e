/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Objects of a program's own: they are notified, are told of a stop, hold their
 * reactor, and have a section on the page of statistics.
 */

#include "tests/support/stats-fixture.h"

#include <pthread.h>

#include <weir/object.h>

/* More than a mailbox has capacity for. */
#define MANY 5000

struct thing {
	struct weir_reactor *r;
	struct weir_object *obj;
	int notified, stopped, published;
	void (*then)(struct thing *t);	/* In both functions. */
	struct thing *other;
	struct rec *rec;
	int op_calls;			/* At the stop. */
	int seen;			/* Of .work. */
	int work;			/* Another thread's, before it notifies. */
};

static void on_notified(void *arg)
{
	struct thing *t = arg;

	assert_int_equal(harness_starting, 0);
	t->notified++;
	t->seen = t->work;
	if (t->then)
		t->then(t);
}

static void on_stop(void *arg)
{
	struct thing *t = arg;

	assert_int_equal(weir_reactor_state(t->r), WEIR_REACTOR_STOPPING);
	t->stopped++;
	if (t->rec)
		t->op_calls = t->rec->calls;
	if (t->then)
		t->then(t);
}

static void on_publish(void *arg, uint64_t *values)
{
	struct thing *t = arg;

	t->published++;
	values[0] = (uint64_t)t->notified;
	values[1] = 4096;
}

static const struct weir_object_field fields[] = {
	{ "packets", "Packets that have come", WEIR_STATS_COUNTER,
	  WEIR_STATS_NUMBER, 0 },
	{ "buffered", "Bytes that wait", WEIR_STATS_GAUGE, WEIR_STATS_BYTES,
	  0 },
};

static const struct weir_object_ops thing_ops = {
	.size = sizeof(thing_ops),
	.name = "acme_queue",
	.notified = on_notified,
	.stop = on_stop,
	.section = "queue",
	.fields = fields,
	.n_fields = N_OF(fields),
	.publish = on_publish,
};

static void thing_open(struct thing *t, struct weir_reactor *r)
{
	*t = (struct thing){ .r = r };
	STARTS(weir_object_create(&t->obj, r, &thing_ops, "acme0", t));
}

static void thing_close(struct thing *t)
{
	weir_object_destroy(t->obj);
	t->obj = NULL;
}

static void bad_functions_are_refused(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_object_field bad[WEIR_OBJECT_FIELDS_MAX + 1] = { fields[0] };
	struct weir_object_ops ops = thing_ops;
	struct weir_object *obj = NULL;
	struct {
		struct weir_object_ops ops;
		uint64_t newer;
	} longer = { thing_ops, 1 };

	assert_int_equal(weir_object_create(&obj, r, NULL, "", NULL), -EINVAL);
	ops.size = 0;
	assert_int_equal(weir_object_create(&obj, r, &ops, "", NULL), -EINVAL);
	ops = thing_ops;
	ops.name = NULL;
	assert_int_equal(weir_object_create(&obj, r, &ops, "", NULL), -EINVAL);
	ops = thing_ops;
	ops.publish = NULL;
	assert_int_equal(weir_object_create(&obj, r, &ops, "", NULL), -EINVAL);
	ops = thing_ops;
	ops.n_fields = N_OF(bad);
	assert_int_equal(weir_object_create(&obj, r, &ops, "", NULL), -EINVAL);
	ops.fields = bad;
	ops.n_fields = 1;
	bad[0].type = WEIR_STATS_HISTOGRAM;
	assert_int_equal(weir_object_create(&obj, r, &ops, "", NULL), -EINVAL);
	bad[0] = fields[0];
	bad[0].unit = WEIR_STATS_BYTES + 1;
	assert_int_equal(weir_object_create(&obj, r, &ops, "", NULL), -EINVAL);
	bad[0] = fields[0];
	bad[0].name = NULL;
	assert_int_equal(weir_object_create(&obj, r, &ops, "", NULL), -EINVAL);
	longer.ops.size = sizeof(longer);
	assert_int_equal(weir_object_create(&obj, r, &longer.ops, "", NULL),
			 -E2BIG);
	assert_null(obj);
	weir_reactor_stop(r);
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(weir_object_create(&obj, r, &thing_ops, "", NULL),
			 -ESHUTDOWN);
	assert_null(obj);
}

static void notifications_are_merged_until_function_runs(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct thing t;
	int i;

	thing_open(&t, r);
	some_turns(r, 3);
	assert_int_equal(t.notified, 0);
	for (i = 0; i < 10; i++)
		weir_object_notify(t.obj);
	assert_int_equal(t.notified, 0);
	some_turns(r, 3);
	assert_int_equal(t.notified, 1);
	weir_object_notify(t.obj);
	some_turns(r, 3);
	assert_int_equal(t.notified, 2);
	thing_close(&t);
}

static void notify_again(struct thing *t)
{
	if (t->notified < 3)
		weir_object_notify(t->obj);
}

static void notification_inside_function_runs_it_again(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct thing t;

	thing_open(&t, r);
	t.then = notify_again;
	weir_object_notify(t.obj);
	UNTIL(r, t.notified == 3);
	some_turns(r, 3);
	assert_int_equal(t.notified, 3);
	thing_close(&t);
}

static void notifications_are_never_refused(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct thing *t = calloc(MANY, sizeof(*t));
	int i;

	assert_non_null(t);
	for (i = 0; i < MANY; i++)
		thing_open(&t[i], r);
	for (i = 0; i < MANY; i++)
		weir_object_notify(t[i].obj);
	for (i = 0; i < MANY; i++)
		UNTIL(r, t[i].notified);
	for (i = 0; i < MANY; i++) {
		assert_int_equal(t[i].notified, 1);
		thing_close(&t[i]);
	}
	free(t);
}

static void destroyed_object_is_not_notified(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct thing t;

	thing_open(&t, r);
	weir_object_notify(t.obj);
	thing_close(&t);
	some_turns(r, 3);
	assert_int_equal(t.notified, 0);
	weir_object_destroy(NULL);
}

static void close_both(struct thing *t)
{
	thing_close(t->other);
	thing_close(t);
}

static void function_may_destroy_any_object(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct thing t[2];

	thing_open(&t[0], r);
	thing_open(&t[1], r);
	t[0].then = close_both;
	t[0].other = &t[1];
	weir_object_notify(t[0].obj);
	weir_object_notify(t[1].obj);
	some_turns(r, 3);
	assert_int_equal(t[0].notified, 1);
	assert_int_equal(t[1].notified, 0);
	assert_null(t[0].obj);
}

static void turn_of_its_reactor(struct thing *t)
{
	assert_int_equal(weir_reactor_turn(t->r, 0), -EBUSY);
	assert_int_equal(weir_reactor_destroy(t->r), -EBUSY);
}

static void reactor_is_busy_in_a_function(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct thing t;

	thing_open(&t, r);
	t.then = turn_of_its_reactor;
	weir_object_notify(t.obj);
	UNTIL(r, t.notified);
	weir_reactor_stop(r);
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(t.stopped, 1);
	thing_close(&t);
}

static void reactor_outlives_its_objects(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct thing t;

	thing_open(&t, r);
	assert_int_equal(weir_reactor_destroy(r), -EBUSY);
	assert_non_null(strstr(weir_why(), "acme_queue"));
	thing_close(&t);
}

/* It is cancelled after the object was told, and only a notification, which the
 * object sends then, ends it. */
static void cancel_later(struct weir_op *op, void *arg)
{
	struct thing *t = arg;

	(void)op;
	assert_int_equal(t->stopped, 1);
	weir_object_notify(t->obj);
}

static void finish_it(struct thing *t)
{
	if (t->notified)
		assert_int_equal(weir_op_finish(&t->rec->op, -ECANCELED), 0);
}

static void object_is_told_of_stop_and_notified_until_its_end(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct thing t;
	struct rec rec;

	rec_init(&rec);
	thing_open(&t, r);
	t.rec = &rec;
	t.then = finish_it;
	STARTS(weir_op_start(r, &rec.op, cancel_later, &t));
	weir_reactor_stop(r);
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(t.stopped, 1);
	assert_int_equal(t.op_calls, 0);
	assert_int_equal(t.notified, 1);
	assert_int_equal(rec.calls, 1);
	assert_int_equal(rec.res, -ECANCELED);
	thing_close(&t);
}

static void stop_may_destroy_any_object(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct thing t[3];
	int i;

	/* Whichever is told first destroys its neighbours. */
	for (i = 0; i < 3; i++)
		thing_open(&t[i], r);
	t[1].then = close_both;
	t[1].other = &t[0];
	t[2].other = &t[0];
	weir_reactor_stop(r);
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(t[0].stopped + t[1].stopped + t[2].stopped, 2);
	assert_null(t[0].obj);
	assert_null(t[1].obj);
	thing_close(&t[2]);
}

/* Or else it would wait then, though the caller has what it waited for. */
static void turn_counts_a_notification(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct thing t;

	thing_open(&t, r);
	weir_object_notify(t.obj);
	assert_int_equal(weir_reactor_turn(r, WEIR_FOREVER), 1);
	assert_int_equal(t.notified, 1);
	thing_close(&t);
}

static void *notify_main(void *arg)
{
	struct thing *t = arg;

	t->work = 4711;
	weir_object_notify(t->obj);
	return NULL;
}

static void thread_wakes_the_reactor(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	pthread_t thread;
	struct thing t;

	thing_open(&t, r);
	assert_int_equal(pthread_create(&thread, NULL, notify_main, &t), 0);
	while (!t.notified)
		assert_true(weir_reactor_turn(r, WEIR_FOREVER) >= 0);
	assert_int_equal(t.seen, 4711);
	assert_int_equal(pthread_join(thread, NULL), 0);
	thing_close(&t);
}

static void page_has_a_section_of_each_object(void **state)
{
	struct weir_object_ops unnamed = thing_ops;
	struct weir_stats_field f = { .size = sizeof(f) };
	struct weir_reactor *r;
	struct weir_stats *s;
	struct thing t, other;
	int i;

	publish_here(state);
	r = start_reactor(state);
	thing_open(&t, r);
	weir_object_notify(t.obj);
	UNTIL(r, t.notified);
	unnamed.section = NULL;
	other = (struct thing){ .r = r, .notified = 7 };
	STARTS(weir_object_create(&other.obj, r, &unnamed, "acme1", &other));
	assert_int_equal(weir_stats_update(r), 0);
	assert_true(t.published > 0);
	s = must_open(getpid());
	assert_int_equal(value_of(s, "queue", "acme0", "packets"), 1);
	assert_int_equal(value_of(s, "queue", "acme0", "buffered"), 4096);
	assert_int_equal(value_of(s, "queue", "acme1", "packets"), 7);
	i = find_section(s, "queue", "acme0");
	assert_int_equal(weir_stats_field(s, (uint32_t)i, 1, &f), 0);
	assert_int_equal(f.type, WEIR_STATS_GAUGE);
	assert_int_equal(f.unit, WEIR_STATS_BYTES);
	assert_string_equal(f.help, "Bytes that wait");
	thing_close(&t);
	thing_close(&other);
	assert_int_equal(weir_stats_read(s), 0);
	assert_int_equal(find_section(s, "queue", ""), -1);
	weir_stats_close(s);
	publish_no_more(state);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(bad_functions_are_refused),
		CASE(notifications_are_merged_until_function_runs),
		CASE(notification_inside_function_runs_it_again),
		CASE(notifications_are_never_refused),
		CASE(destroyed_object_is_not_notified),
		CASE(function_may_destroy_any_object),
		CASE(reactor_is_busy_in_a_function),
		CASE(reactor_outlives_its_objects),
		CASE(object_is_told_of_stop_and_notified_until_its_end),
		CASE(stop_may_destroy_any_object),
		CASE(turn_counts_a_notification),
		REAL(thread_wakes_the_reactor),
		REAL(page_has_a_section_of_each_object),
	};

	return harness_run_all(cases, N_OF(cases));
}
