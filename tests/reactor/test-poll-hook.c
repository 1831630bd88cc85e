/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Poll hooks: a device whose completions the reactor polls, and which wakes it
 * by a descriptor.
 */

#include "tests/support/harness.h"

#include <errno.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <weir/file.h>
#include <weir/poll-hook.h>

enum function { POLL, DELIVER, BEFORE_SLEEP, AFTER_SLEEP, FUNCTIONS };

struct device {
	struct weir_reactor *r;
	struct weir_poll_hook *hook;
	int fd;			/* What .before_sleep() sets; -1: none. */
	int had_fd;		/* What it was given. */
	int n;			/* There is so much to deliver. */
	int calls[FUNCTIONS];
	uint32_t max;		/* The largest of .deliver(). */
	int refuse;		/* So often .before_sleep() returns 1. */
	int error;		/* Or this. */
	int arm_error;		/* What .poll() returns. */
	int events;		/* Read from .fd. */
	/* Called once by function .when of the hook. */
	enum function when;
	void (*then)(struct device *d);
	bool then_done;
	struct weir_poll_hook *other;
	struct device *dead;	/* That of .other. */
	int dead_calls[FUNCTIONS];
	struct rec *op;
};

static void called(struct device *d, enum function f)
{
	assert_int_equal(harness_starting, 0);
	d->calls[f]++;
	if (d->then && d->when == f && !d->then_done) {
		d->then_done = true;
		d->then(d);
	}
}

static int device_poll(void *arg)
{
	struct device *d = arg;

	called(d, POLL);
	return d->n > 0 ? 1 : d->arm_error;
}

static int device_deliver(void *arg, uint32_t max)
{
	struct device *d = arg;
	uint32_t n = d->n > 0 ? (uint32_t)d->n : 0;

	called(d, DELIVER);
	if (max > d->max)
		d->max = max;
	if (n > max)
		n = max;
	d->n -= (int)n;
	return (int)n;
}

static int device_before_sleep(void *arg, int *fd)
{
	struct device *d = arg;

	called(d, BEFORE_SLEEP);
	d->had_fd = *fd;
	*fd = d->fd;
	if (d->refuse && d->refuse--)
		return 1;
	return d->error;
}

static void device_after_sleep(void *arg, int readable)
{
	struct device *d = arg;
	eventfd_t n;

	called(d, AFTER_SLEEP);
	if (!readable)
		return;
	assert_int_equal(eventfd_read(d->fd, &n), 0);
	d->events += (int)n;
	d->n += (int)n;
}

static const struct weir_poll_hook_ops device_ops = {
	.size = sizeof(device_ops),
	.name = "device",
	.poll = device_poll,
	.deliver = device_deliver,
	.before_sleep = device_before_sleep,
	.after_sleep = device_after_sleep,
};

static int counter(void)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	assert_true(fd >= 0);
	return fd;
}

static void device_open(struct device *d, struct weir_reactor *r, int fd)
{
	*d = (struct device){ .r = r, .fd = fd, .had_fd = -2 };
	STARTS(weir_poll_hook_create(&d->hook, r, &device_ops, d));
}

static void device_close(struct device *d)
{
	weir_poll_hook_destroy(d->hook);
	if (d->fd >= 0)
		close(d->fd);
}

static struct weir_poll_hook_stats stats_of(const struct device *d)
{
	struct weir_poll_hook_stats s = { .size = sizeof(s) };

	assert_int_equal(weir_poll_hook_stats(d->hook, &s), 0);
	return s;
}

static void bad_functions_are_refused(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_poll_hook *hook = NULL;
	struct {
		struct weir_poll_hook_ops ops;
		void *newer;
	} new = { .ops = device_ops, .newer = &hook };
	struct weir_poll_hook_stats stats = { .size = 1 };
	struct weir_poll_hook_ops ops = device_ops;
	struct device d;

	assert_int_equal(weir_poll_hook_create(&hook, r, NULL, NULL), -EINVAL);
	ops.size = 0;
	assert_int_equal(weir_poll_hook_create(&hook, r, &ops, NULL), -EINVAL);
	ops = device_ops;
	ops.poll = NULL;
	assert_int_equal(weir_poll_hook_create(&hook, r, &ops, NULL), -EINVAL);
	assert_starts_with(weir_why(), "weir_poll_hook_create: .poll or");
	ops = device_ops;
	ops.before_sleep = NULL;
	assert_int_equal(weir_poll_hook_create(&hook, r, &ops, NULL), -EINVAL);
	new.ops.size = sizeof(new);
	assert_int_equal(weir_poll_hook_create(&hook, r, &new.ops, NULL),
			 -E2BIG);
	assert_null(hook);
	weir_poll_hook_destroy(NULL);
	device_open(&d, r, -1);
	assert_int_equal(weir_poll_hook_stats(d.hook, &stats), -EINVAL);
	assert_int_equal(weir_reactor_destroy(r), -EBUSY);
	assert_non_null(strstr(weir_why(), "weir_poll_hook 1"));
	device_close(&d);
	weir_reactor_stop(r);
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(weir_poll_hook_create(&hook, r, &device_ops, NULL),
			 -ESHUTDOWN);
}

static void turn_polls_and_delivers(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_poll_hook_stats s;
	struct device d;

	device_open(&d, r, -1);
	assert_int_equal(weir_reactor_turn(r, 0), 0);
	assert_int_equal(d.calls[POLL], 1);
	assert_int_equal(d.calls[DELIVER], 0);
	d.n = 3;
	assert_int_equal(weir_reactor_turn(r, 0), 3);
	assert_int_equal(d.calls[POLL], 2);
	assert_int_equal(d.calls[DELIVER], 1);
	assert_int_equal(d.n, 0);
	assert_int_equal(weir_reactor_turn(r, 0), 0);
	assert_int_equal(d.calls[DELIVER], 1);
	s = stats_of(&d);
	assert_int_equal(s.polls, 3);
	assert_int_equal(s.found, 1);
	assert_int_equal(s.delivered, 3);
	assert_int_equal(s.failures, 0);
	device_close(&d);
}

static void delivery_is_bounded_by_the_turn(void **state)
{
	struct weir_reactor *r = start_reactor_with(state,
			(struct weir_reactor_opts){ .turn_max = 4 });
	struct device d;

	device_open(&d, r, -1);
	d.n = 10;
	assert_int_equal(weir_reactor_turn(r, 0), 4);
	assert_int_equal(d.max, 4);
	/* What is left is delivered without another poll. */
	assert_int_equal(weir_reactor_turn(r, 0), 4);
	assert_int_equal(d.calls[POLL], 1);
	assert_int_equal(weir_reactor_turn(r, WEIR_FOREVER), 2);
	assert_int_equal(d.calls[POLL], 1);
	assert_int_equal(d.calls[BEFORE_SLEEP], 0);
	device_close(&d);
}

#define CROWD 150

static void crowd_shares_turns(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct device *d = calloc(CROWD, sizeof(*d));
	int i, polls = 0;

	assert_true(CROWD > 2 * WEIR_POLL_HOOKS_AT_ONCE);
	for (i = 0; i < CROWD; i++)
		device_open(&d[i], r, -1);
	assert_int_equal(weir_reactor_turn(r, 0), 0);
	for (i = 0; i < CROWD; i++)
		polls += d[i].calls[POLL];
	assert_int_equal(polls, WEIR_POLL_HOOKS_AT_ONCE);
	some_turns(r, 2);
	for (i = 0; i < CROWD; i++) {
		assert_in_range(d[i].calls[POLL], 1, 2);
		device_close(&d[i]);
	}
	free(d);
}

/* The descriptor is readable already when the reactor falls asleep. */
static void descriptor_ends_the_sleep(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_poll_hook_stats s;
	struct device d;
	int i;

	device_open(&d, r, counter());
	for (i = 1; i <= 5; i++) {
		assert_int_equal(eventfd_write(d.fd, 2), 0);
		UNTIL(r, d.events == 2 * i && !d.n);
		assert_int_equal(d.had_fd, i == 1 ? -1 : d.fd);
	}
	s = stats_of(&d);
	assert_int_equal(s.wakeups, 5);
	assert_int_equal(s.delivered, 10);
	assert_true(s.sleeps >= 5);
	assert_int_equal(s.failures, 0);
	device_close(&d);
}

static void *signal_soon(void *arg)
{
	struct device *d = arg;

	assert_int_equal(eventfd_write(d->fd, 1), 0);
	return NULL;
}

static void thread_wakes_the_reactor_by_the_descriptor(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	unsigned int i, n = scaled(200);
	pthread_t thread;
	struct device d;

	device_open(&d, r, counter());
	for (i = 1; i <= n; i++) {
		assert_int_equal(pthread_create(&thread, NULL, signal_soon,
						&d), 0);
		while (d.events < (int)i || d.n)
			assert_true(weir_reactor_turn(r, WEIR_FOREVER) >= 0);
		pthread_join(thread, NULL);
	}
	assert_int_equal(d.events, n);
	device_close(&d);
}

/* Turns that would wait for ever, until a function was called @n times: some find
 * something else to do first. */
static void turn_until(struct weir_reactor *r, const int *calls, int n)
{
	while (*calls < n)
		assert_true(weir_reactor_turn(r, WEIR_FOREVER) >= 0);
	assert_int_equal(*calls, n);
}

static void refusal_prevents_the_sleep(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_reactor_stats before = { .size = sizeof(before) };
	struct weir_reactor_stats after = { .size = sizeof(after) };
	struct device d;
	int i;

	device_open(&d, r, -1);
	d.refuse = 5;
	assert_int_equal(weir_reactor_stats(r, &before), 0);
	for (i = 1; i <= 5; i++) {
		turn_until(r, &d.calls[BEFORE_SLEEP], i);
		assert_int_equal(d.calls[AFTER_SLEEP], i);
	}
	assert_int_equal(weir_reactor_stats(r, &after), 0);
	assert_int_equal(after.sleeps, before.sleeps);
	assert_int_equal(stats_of(&d).refused, 5);
	assert_int_equal(stats_of(&d).sleeps, 0);
	device_close(&d);
}

static void finds_at_last(struct device *d)
{
	d->n = 1;
}

/* It would sleep for ever. */
static void hook_that_cannot_be_armed_is_polled(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_poll_hook_stats s;
	struct device d;

	device_open(&d, r, -1);
	d.error = -EIO;
	turn_until(r, &d.calls[BEFORE_SLEEP], 3);
	d.when = BEFORE_SLEEP;
	d.then = finds_at_last;
	UNTIL(r, d.calls[DELIVER]);
	s = stats_of(&d);
	assert_true(s.failures >= 4);
	assert_int_equal(s.error, -EIO);
	assert_int_equal(s.sleeps, 0);
	device_close(&d);
}

static void failed_poll_is_counted(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct device d;

	device_open(&d, r, -1);
	d.arm_error = -EPROTO;
	assert_int_equal(weir_reactor_turn(r, 0), 0);
	assert_int_equal(stats_of(&d).failures, 1);
	assert_int_equal(stats_of(&d).error, -EPROTO);
	assert_int_equal(stats_of(&d).found, 0);
	device_close(&d);
}

/* Then the hook is polled, as one that cannot be armed. */
static void descriptor_that_cannot_be_watched_is_a_failure(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int file = test_file(state, "file", 10, 1);
	struct device d;

	device_open(&d, r, file);
	turn_until(r, &d.calls[BEFORE_SLEEP], 3);
	assert_int_equal(stats_of(&d).error, -EPERM);
	assert_true(stats_of(&d).failures >= 3);
	d.fd = 1000;
	turn_until(r, &d.calls[BEFORE_SLEEP], 4);
	assert_int_equal(stats_of(&d).error, -EBADF);
	/* Another descriptor is another attempt. */
	d.fd = counter();
	assert_int_equal(eventfd_write(d.fd, 1), 0);
	UNTIL(r, d.events);
	close(file);
	device_close(&d);
}

static void descriptor_may_change(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_reactor_stats s = { .size = sizeof(s) };
	int old = counter();
	struct device d;
	uint64_t turns;

	device_open(&d, r, old);
	UNTIL(r, stats_of(&d).sleeps);
	d.fd = counter();
	UNTIL(r, d.had_fd == old);
	/* The old one wakes nobody any more. */
	assert_int_equal(eventfd_write(old, 1), 0);
	assert_int_equal(weir_reactor_stats(r, &s), 0);
	turns = s.turns;
	assert_true(weir_reactor_turn(r, WEIR_MSEC) >= 0);
	assert_int_equal(stats_of(&d).wakeups, 0);
	close(old);
	assert_int_equal(eventfd_write(d.fd, 1), 0);
	UNTIL(r, d.events);
	assert_int_equal(stats_of(&d).wakeups, 1);
	/* And none at all. */
	old = d.fd;
	d.fd = -1;
	assert_true(weir_reactor_turn(r, WEIR_MSEC) >= 0);
	assert_int_equal(eventfd_write(old, 1), 0);
	assert_true(weir_reactor_turn(r, WEIR_MSEC) >= 0);
	assert_int_equal(stats_of(&d).wakeups, 1);
	assert_int_equal(weir_reactor_stats(r, &s), 0);
	assert_in_range(s.turns - turns, 4, 20);
	close(old);
	device_close(&d);
}

/* Unread, it ends each sleep once, and keeps no turn busy. */
static void descriptor_that_stays_readable_ends_each_sleep_once(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_poll_hook_ops ops = device_ops;
	struct device d = { .r = r, .fd = counter() };
	int i;

	ops.after_sleep = NULL;
	STARTS(weir_poll_hook_create(&d.hook, r, &ops, &d));
	assert_int_equal(eventfd_write(d.fd, 1), 0);
	for (i = 1; i <= 4; i++)
		UNTIL(r, stats_of(&d).wakeups == (uint64_t)i);
	some_turns(r, 3);
	assert_int_equal(stats_of(&d).wakeups, 4);
	device_close(&d);
}

static void destroy_it(struct device *d)
{
	weir_poll_hook_destroy(d->hook);
	d->hook = NULL;
	memcpy(d->dead_calls, d->calls, sizeof(d->dead_calls));
}

static void destroy_other(struct device *d)
{
	weir_poll_hook_destroy(d->other);
	d->other = NULL;
	memcpy(d->dead_calls, d->dead->calls, sizeof(d->dead_calls));
}

/* Turns of a few hooks of which that of @d calls @then in its @when. */
static void provoke(struct weir_reactor *r, struct device *d,
		    enum function when)
{
	int i;

	d->when = when;
	d->n = when == DELIVER;
	for (i = 0; i < 10 && !d->then_done; i++)
		assert_true(weir_reactor_turn(r, WEIR_MSEC) >= 0);
	assert_true(d->then_done);
	assert_true(weir_reactor_turn(r, WEIR_MSEC) >= 0);
}

static void function_may_destroy_its_hook(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct device d, beside[2];
	int f, k;

	for (f = 0; f < FUNCTIONS; f++) {
		device_open(&beside[0], r, -1);
		device_open(&d, r, f == AFTER_SLEEP ? counter() : -1);
		device_open(&beside[1], r, -1);
		d.then = destroy_it;
		if (f == AFTER_SLEEP)
			assert_int_equal(eventfd_write(d.fd, 1), 0);
		provoke(r, &d, (enum function)f);
		assert_null(d.hook);
		some_turns(r, 3);
		assert_memory_equal(d.dead_calls, d.calls,
				    sizeof(d.dead_calls));
		for (k = 0; k < 2; k++) {
			assert_true(beside[k].calls[POLL] > 3);
			device_close(&beside[k]);
		}
		if (d.fd >= 0)
			close(d.fd);
	}
}

static void function_may_destroy_another_hook(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct device d, o[2];
	int f, k;

	for (f = 0; f < FUNCTIONS; f++) {
		for (k = 0; k < 2; k++) {
			device_open(&o[0], r, counter());
			device_open(&d, r, -1);
			device_open(&o[1], r, counter());
			d.then = destroy_other;
			d.other = o[k].hook;
			d.dead = &o[k];
			provoke(r, &d, (enum function)f);
			assert_null(d.other);
			assert_memory_equal(d.dead_calls, o[k].calls,
					    sizeof(d.dead_calls));
			o[k].hook = NULL;
			device_close(&o[0]);
			device_close(&o[1]);
			device_close(&d);
		}
	}
}

static void make_other(struct device *d)
{
	struct device *new = d->op->op.data;

	device_open(new, d->r, -1);
	new->refuse = 1;
}

/* It has not been asked: so the reactor does not sleep before it was. */
static void hook_made_before_a_sleep_is_asked_first(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct device d, new = { 0 };
	struct rec rec;

	rec_init(&rec);
	rec.op.data = &new;
	device_open(&d, r, -1);
	d.op = &rec;
	d.then = make_other;
	d.when = BEFORE_SLEEP;
	turn_until(r, &d.calls[BEFORE_SLEEP], 1);
	assert_true(d.then_done);
	turn_until(r, &new.calls[BEFORE_SLEEP], 1);
	assert_int_equal(stats_of(&new).refused, 1);
	device_close(&new);
	device_close(&d);
}

static char block[512];

static void start_read(struct device *d)
{
	assert_int_equal(weir_read(d->r, &d->op->op, *(int *)d->op->op.data,
				   block, sizeof(block), 0), 0);
}

static void close_file(struct weir_reactor *r, int fd)
{
	struct rec rec;

	rec_init(&rec);
	STARTS(weir_close(r, &rec.op, fd));
	assert_int_equal(finish(r, &rec), 0);
}

static void start_nap(struct device *d)
{
	assert_int_equal(weir_sleep_until(d->r, &d->op->op,
					  weir_reactor_now(d->r) + WEIR_MSEC),
			 0);
}

/* Not one of the functions says that there was anything. */
static void operation_started_in_a_function_is_submitted(void **state)
{
	static void (*const starts[])(struct device *) = { start_read,
							   start_nap };
	struct weir_reactor *r = start_reactor(state);
	int fd = test_file(state, "file", sizeof(block), 1), f;
	struct device d;
	struct rec rec;
	size_t i;

	for (f = 0; f < FUNCTIONS; f++) {
		for (i = 0; i < N_OF(starts); i++) {
			rec_init(&rec);
			rec.op.data = &fd;
			device_open(&d, r, -1);
			d.op = &rec;
			d.then = starts[i];
			d.when = (enum function)f;
			d.n = f == DELIVER;
			/* Only the spin polls, after the first turn. */
			if (f == AFTER_SLEEP)
				d.refuse = 1;
			while (!rec.calls)
				assert_true(weir_reactor_turn(
					r, WEIR_FOREVER) >= 0);
			device_close(&d);
		}
	}
	close_file(r, fd);
}

/* In the third poll, which in all but a world is one of the spin. */
static int third_poll(void *arg)
{
	struct device *d = arg;

	if (++d->calls[POLL] == 3)
		assert_int_equal(weir_defer(d->r, &d->op->op), 0);
	return 0;
}

static int no_sleep_before_the_callback(void *arg, int *fd)
{
	const struct device *d = arg;

	(void)fd;
	assert_int_equal(weir_op_is_busy(&d->op->op), 0);
	return 0;
}

static void operation_started_while_spinning_comes_before_the_sleep(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_poll_hook_ops ops = device_ops;
	struct device d = { .r = r, .fd = -1 };
	struct rec rec;

	rec_init(&rec);
	d.op = &rec;
	ops.poll = third_poll;
	ops.before_sleep = no_sleep_before_the_callback;
	STARTS(weir_poll_hook_create(&d.hook, r, &ops, &d));
	UNTIL(r, rec.calls);
	device_close(&d);
}

static void finish_own(struct device *d)
{
	assert_int_equal(weir_op_finish(&d->op->op, 7), 0);
	assert_int_equal(d->op->calls, 0);
}

static void operation_finished_in_a_function_is_called_back(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct device d;
	struct rec rec;
	int f;

	for (f = 0; f < FUNCTIONS; f++) {
		rec_init(&rec);
		STARTS(weir_op_start(r, &rec.op, NULL, NULL));
		device_open(&d, r, -1);
		d.op = &rec;
		d.then = finish_own;
		d.when = (enum function)f;
		d.n = f == DELIVER;
		d.refuse = f == AFTER_SLEEP;
		while (!rec.calls)
			assert_true(weir_reactor_turn(r, WEIR_FOREVER) >= 0);
		assert_int_equal(rec.res, 7);
		device_close(&d);
	}
}

static void try_everything(struct device *d)
{
	assert_int_equal(weir_reactor_turn(d->r, 0), -EBUSY);
	assert_int_equal(weir_reactor_run(d->r), -EBUSY);
	assert_int_equal(weir_reactor_destroy(d->r), -EBUSY);
}

static void reactor_is_busy_in_a_function(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct device d;
	int f;

	for (f = 0; f < FUNCTIONS; f++) {
		device_open(&d, r, -1);
		d.then = try_everything;
		d.refuse = f == AFTER_SLEEP;
		provoke(r, &d, (enum function)f);
		device_close(&d);
	}
}

static void stop_it(struct device *d)
{
	weir_reactor_stop(d->r);
}

static void function_may_stop_the_reactor(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct device d;
	int f;

	for (f = 0; f < FUNCTIONS; f++) {
		device_open(&d, r, -1);
		d.then = stop_it;
		d.when = (enum function)f;
		d.n = f == DELIVER;
		d.refuse = f == AFTER_SLEEP;
		assert_int_equal(weir_reactor_run(r), 0);
		assert_true(d.then_done);
		device_close(&d);
		assert_int_equal(weir_reactor_start(r), 0);
	}
}

static void own_cancel(struct weir_op *op, void *arg)
{
	struct device *d = arg;

	(void)op;
	/* Ends it in some poll; the descriptor wakes the reactor for that. */
	assert_int_equal(eventfd_write(d->fd, 1), 0);
}

static int poll_for_the_end(void *arg)
{
	struct device *d = arg;

	d->calls[POLL]++;
	if (!d->n)
		return 0;
	d->n = 0;
	weir_op_finish(&d->op->op, -ECANCELED);
	return 1;
}

static void stopping_reactor_polls_until_its_operations_have_ended(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_poll_hook_ops ops = device_ops;
	struct device d = { .r = r, .fd = counter() };
	struct rec rec;

	rec_init(&rec);
	d.op = &rec;
	ops.poll = poll_for_the_end;
	STARTS(weir_poll_hook_create(&d.hook, r, &ops, &d));
	STARTS(weir_op_start(r, &rec.op, own_cancel, &d));
	weir_reactor_stop(r);
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(rec.calls, 1);
	assert_int_equal(rec.res, -ECANCELED);
	assert_int_equal(d.events, 1);
	device_close(&d);
}

/* With nothing to do there is a turn for each sleep, and no more. */
static void idle_reactor_is_not_woken(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_poll_hook_stats s;
	struct device d;
	struct rec rec;
	uint64_t sleeps;

	device_open(&d, r, counter());
	some_turns(r, 3);
	assert_true(weir_reactor_turn(r, WEIR_MSEC) >= 0);
	sleeps = stats_of(&d).sleeps;
	rec_init(&rec);
	STARTS(weir_sleep_until(r, &rec.op,
				weir_reactor_now(r) + 30 * WEIR_MSEC));
	while (!rec.calls)
		assert_true(weir_reactor_turn(r, WEIR_FOREVER) >= 0);
	s = stats_of(&d);
	assert_in_range(s.sleeps - sleeps, 1, 4);
	assert_int_equal(s.wakeups, 0);
	assert_int_equal(s.refused, 0);
	device_close(&d);
}

/* A host: a bare epoll. */
static int host_of(struct weir_reactor *r)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int host = epoll_create1(EPOLL_CLOEXEC);

	assert_int_equal(epoll_ctl(host, EPOLL_CTL_ADD, weir_reactor_fd(r),
				   &ev), 0);
	return host;
}

/* The turns that the host makes until it waits for @timeout_ms in vain. */
/* The kernel may interrupt a wait of the host's to complete requests of uring. */
static bool host_waits(int host, int timeout_ms)
{
	struct epoll_event ev;
	int n;

	do
		n = epoll_wait(host, &ev, 1, timeout_ms);
	while (n < 0 && errno == EINTR);
	assert_true(n >= 0);
	return n;
}

static int host_rounds(struct weir_reactor *r, int host, int timeout_ms)
{
	int n;

	for (n = 0; host_waits(host, timeout_ms); n++) {
		assert_true(weir_reactor_turn(r, 0) >= 0);
		assert_true(n < 100);
	}
	return n;
}

static void host_is_woken_by_the_descriptor(void **state)
{
	struct weir_reactor *r = start_reactor_with(state,
			(struct weir_reactor_opts){ .hosted = 1 });
	int host = host_of(r), i, polls;
	struct device d;

	device_open(&d, r, counter());
	host_rounds(r, host, 10);
	for (i = 1; i <= 5; i++) {
		polls = d.calls[POLL];
		assert_int_equal(host_rounds(r, host, 0), 0);
		assert_int_equal(d.calls[POLL], polls);
		assert_int_equal(eventfd_write(d.fd, 1), 0);
		while (d.events < i)
			host_rounds(r, host, -(d.events < i - 1));
		host_rounds(r, host, 10);
		assert_int_equal(d.n, 0);
	}
	assert_int_equal(stats_of(&d).wakeups, 5);
	close(host);
	device_close(&d);
}

static void host_comes_back_for_a_hook_that_refuses_to_sleep(void **state)
{
	struct weir_reactor *r = start_reactor_with(state,
			(struct weir_reactor_opts){ .hosted = 1 });
	int host = host_of(r);
	struct device d;

	device_open(&d, r, -1);
	host_rounds(r, host, 10);
	assert_int_equal(d.calls[AFTER_SLEEP], d.calls[BEFORE_SLEEP] - 1);
	d.refuse = 7;
	d.calls[BEFORE_SLEEP] = 0;
	weir_reactor_turn(r, 0);
	assert_in_range(host_rounds(r, host, 10), 6, 8);
	assert_int_equal(d.refuse, 0);
	/* One that cannot be armed is polled by the timer. */
	d.error = -EIO;
	d.calls[BEFORE_SLEEP] = 0;
	weir_reactor_turn(r, 0);
	while (d.calls[BEFORE_SLEEP] < 3) {
		assert_true(host_waits(host, -1));
		assert_true(weir_reactor_turn(r, 0) >= 0);
	}
	close(host);
	device_close(&d);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(bad_functions_are_refused),
		CASE(turn_polls_and_delivers),
		CASE(delivery_is_bounded_by_the_turn),
		CASE(crowd_shares_turns),
		CASE(descriptor_ends_the_sleep),
		REAL(thread_wakes_the_reactor_by_the_descriptor),
		CASE(refusal_prevents_the_sleep),
		CASE(hook_that_cannot_be_armed_is_polled),
		CASE(failed_poll_is_counted),
		REAL(descriptor_that_cannot_be_watched_is_a_failure),
		CASE(descriptor_may_change),
		CASE(descriptor_that_stays_readable_ends_each_sleep_once),
		CASE(function_may_destroy_its_hook),
		CASE(function_may_destroy_another_hook),
		CASE(hook_made_before_a_sleep_is_asked_first),
		CASE(operation_started_in_a_function_is_submitted),
		CASE(operation_started_while_spinning_comes_before_the_sleep),
		CASE(operation_finished_in_a_function_is_called_back),
		CASE(reactor_is_busy_in_a_function),
		CASE(function_may_stop_the_reactor),
		CASE(stopping_reactor_polls_until_its_operations_have_ended),
		CASE(idle_reactor_is_not_woken),
		REAL(host_is_woken_by_the_descriptor),
		REAL(host_comes_back_for_a_hook_that_refuses_to_sleep),
	};

	return harness_run_all(cases, N_OF(cases));
}
