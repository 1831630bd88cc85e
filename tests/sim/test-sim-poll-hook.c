/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Poll hooks in a world, which makes the turns of their reactors: there is no
 * spin, and only what happens in the world ends a sleep.
 */

#include "tests/support/harness.h"

#include <sys/eventfd.h>

#include <weir/poll-hook.h>
#include <weir/sim/file.h>
#include <weir/sim/world.h>
#include <weir/watch.h>

struct fixture {
	struct weir_sim *sim;
	struct weir_reactor *r, *other;
	struct weir_poll_hook *hook;
	int fd;
	bool is_counter;	/* .fd is an eventfd, to be read. */
	int polls, asked, refuse, error, found;
	uint64_t found_ns;
};

static int hook_poll(void *arg)
{
	struct fixture *g = arg;

	g->polls++;
	return 0;
}

static int hook_before_sleep(void *arg, int *fd)
{
	struct fixture *g = arg;

	g->asked++;
	*fd = g->fd;
	/* It is the reactor's turn, so nothing else is. */
	assert_int_equal(weir_sim_run(g->sim, 1, 0), -EBUSY);
	if (g->refuse && g->refuse--)
		return 1;
	return g->error;
}

static void hook_after_sleep(void *arg, int readable)
{
	struct fixture *g = arg;
	eventfd_t n;

	if (!readable)
		return;
	g->found++;
	g->found_ns = weir_sim_now(g->sim);
	if (g->is_counter)
		assert_int_equal(eventfd_read(g->fd, &n), 0);
}

static const struct weir_poll_hook_ops ops = {
	.size = sizeof(ops),
	.poll = hook_poll,
	.before_sleep = hook_before_sleep,
	.after_sleep = hook_after_sleep,
};

static void fixture_begin(struct fixture *g, int fd)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts) };

	*g = (struct fixture){ .fd = fd };
	assert_int_equal(weir_sim_create(&g->sim, 1, NULL), 0);
	opts.sim = g->sim;
	assert_int_equal(weir_reactor_create(&g->r, &opts), 0);
	assert_int_equal(weir_reactor_create(&g->other, &opts), 0);
	assert_int_equal(weir_poll_hook_create(&g->hook, g->r, &ops, g), 0);
}

static void fixture_end(struct fixture *g)
{
	weir_poll_hook_destroy(g->hook);
	assert_int_equal(weir_reactor_destroy(g->r), 0);
	assert_int_equal(weir_reactor_destroy(g->other), 0);
	assert_int_equal(weir_sim_destroy(g->sim), 0);
}

static struct weir_poll_hook_stats stats_of(const struct fixture *g)
{
	struct weir_poll_hook_stats s = { .size = sizeof(s) };

	assert_int_equal(weir_poll_hook_stats(g->hook, &s), 0);
	return s;
}

static void run(const struct fixture *g, uint64_t ns)
{
	assert_true(weir_sim_run(g->sim, ns, 0) >= 0);
}

static void signal_it(struct weir_op *op, int64_t res)
{
	const struct fixture *g = op->data;

	assert_int_equal(res, 0);
	assert_int_equal(eventfd_write(g->fd, 1), 0);
}

/* Another reactor writes to the descriptor; the same seed, the same times. */
static void descriptor_of_the_system_wakes_the_reactor(void **state)
{
	uint64_t found_ns[2][5];
	struct weir_op op;
	struct fixture g;
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), i, k;

	(void)state;
	weir_op_init(&op, signal_it);
	op.data = &g;
	for (k = 0; k < 2; k++) {
		fixture_begin(&g, fd);
		g.is_counter = true;
		for (i = 1; i <= 5; i++) {
			assert_int_equal(weir_sleep_until(
				g.other, &op, weir_reactor_now(g.other) +
				5 * WEIR_MSEC), 0);
			run(&g, WEIR_SEC);
			assert_int_equal(g.found, i);
			found_ns[k][i - 1] = g.found_ns;
		}
		assert_int_equal(stats_of(&g).wakeups, 5);
		assert_in_range(g.polls, 5, 40);
		fixture_end(&g);
	}
	assert_memory_equal(found_ns[0], found_ns[1], sizeof(found_ns[0]));
	close(fd);
}

/* A turn that waits, not one that the world makes. */
static void waiting_turn_is_woken_too(void **state)
{
	struct fixture g;
	struct weir_op op;
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	(void)state;
	fixture_begin(&g, fd);
	g.is_counter = true;
	weir_op_init(&op, signal_it);
	op.data = &g;
	assert_int_equal(weir_sleep_until(g.other, &op,
			 weir_reactor_now(g.other) + 5 * WEIR_MSEC), 0);
	while (!g.found)
		assert_true(weir_reactor_turn(g.r, WEIR_FOREVER) >= 0);
	/* Nothing else will ever happen. */
	while (weir_reactor_turn(g.r, WEIR_FOREVER) >= 0)
		;
	assert_int_equal(weir_reactor_turn(g.r, WEIR_FOREVER), -EDEADLK);
	fixture_end(&g);
	close(fd);
}

static void no_event(struct weir_event *event, uint64_t n, void *arg)
{
	(void)event, (void)n, (void)arg;
}

static void descriptor_of_the_world_wakes_the_reactor(void **state)
{
	struct weir_event *event;
	struct fixture g;

	(void)state;
	fixture_begin(&g, -1);
	assert_int_equal(weir_event_create(&event, g.other, no_event, NULL), 0);
	g.fd = weir_event_fd(event);
	run(&g, WEIR_SEC);
	assert_int_equal(stats_of(&g).wakeups, 0);
	assert_int_equal(stats_of(&g).failures, 0);
	weir_event_signal(event);
	assert_true(weir_reactor_turn(g.r, WEIR_FOREVER) >= 0);
	assert_int_equal(g.found, 1);
	weir_event_destroy(event);
	fixture_end(&g);
}

/* As outside of worlds. */
static void file_of_the_world_cannot_be_watched(void **state)
{
	struct fixture g;

	(void)state;
	fixture_begin(&g, -1);
	g.fd = weir_sim_file_open(g.sim, "/file", O_CREAT | O_RDWR,
				  0600);
	assert_true(g.fd >= 0);
	run(&g, WEIR_SEC / 100);
	assert_int_equal(stats_of(&g).error, -EPERM);
	assert_int_equal(stats_of(&g).wakeups, 0);
	fixture_end(&g);
}

static void hook_that_refuses_to_sleep_gets_turns(void **state)
{
	struct fixture g;

	(void)state;
	fixture_begin(&g, -1);
	g.refuse = 9;
	run(&g, WEIR_SEC);
	assert_int_equal(g.refuse, 0);
	assert_in_range(g.asked, 10, 12);
	assert_in_range(g.polls, 9, 12);
	fixture_end(&g);
}

/* Each millisecond, or a little later. */
static void hook_that_cannot_be_armed_gets_turns(void **state)
{
	struct fixture g;

	(void)state;
	fixture_begin(&g, -1);
	g.error = -EIO;
	run(&g, 100 * WEIR_MSEC);
	assert_in_range(g.polls, 20, 110);
	assert_int_equal(stats_of(&g).error, -EIO);
	fixture_end(&g);
}

static void reactor_with_idle_hook_has_no_turns(void **state)
{
	struct fixture g;
	int polls;

	(void)state;
	fixture_begin(&g, -1);
	run(&g, WEIR_SEC);
	polls = g.polls;
	run(&g, 1000 * WEIR_SEC);
	assert_int_equal(g.polls, polls);
	fixture_end(&g);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(descriptor_of_the_system_wakes_the_reactor),
		CASE(waiting_turn_is_woken_too),
		CASE(descriptor_of_the_world_wakes_the_reactor),
		CASE(file_of_the_world_cannot_be_watched),
		CASE(hook_that_refuses_to_sleep_gets_turns),
		CASE(hook_that_cannot_be_armed_gets_turns),
		CASE(reactor_with_idle_hook_has_no_turns),
	};

	return harness_run_plain(cases, N_OF(cases));
}
