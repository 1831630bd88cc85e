/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-proxy among clients and targets that behave badly, disks that are full,
 * and signals while everybody is busy; over every backend.
 */

#include <signal.h>

#include "tests/support/proxy-fixture.h"

#define LARGE (1u << 20)
#define PINGS 20

/* ---- abuse ---- */

static void leave_at_once(struct fixture *fixture)
{
	struct pair p = connect_both(fixture);

	close_both(&p);
}

static void reset_at_once(struct fixture *fixture)
{
	struct pair p = connect_both(fixture);

	reset(p.client);
	hear_reset(p.server);
	close(p.server);
}

static void be_reset_by_the_target(struct fixture *fixture)
{
	struct pair p = connect_both(fixture);

	say(p.client, "question");
	reset(p.server);
	hear_reset(p.client);
	close(p.client);
}

static void leave_what_was_said_unread(struct fixture *fixture)
{
	struct pair p = connect_both(fixture);

	say(p.server, "nobody reads this");
	say(p.client, "nor this");
	close_both(&p);
}

static void reset_after_half_a_close(struct fixture *fixture)
{
	struct pair p = connect_both(fixture);

	say(p.client, "all");
	shutdown(p.client, SHUT_WR);
	hear(p.server, "all");
	hear_end(p.server);
	reset(p.client);
	close(p.server);
}

static void close_both_ways_in_turn(struct fixture *fixture)
{
	struct pair p = connect_both(fixture);

	shutdown(p.server, SHUT_WR);
	hear_end(p.client);
	say(p.client, "still there");
	hear(p.server, "still there");
	close_both(&p);
}

static void (*const abuses[])(struct fixture *fixture) = {
	leave_at_once,
	reset_at_once,
	be_reset_by_the_target,
	leave_what_was_said_unread,
	reset_after_half_a_close,
	close_both_ways_in_turn,
};

static void abuse(struct fixture *fixture, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		abuses[i % N_OF(abuses)](fixture);
}

/* Until the program has no more descriptors than @n. */
static void await_fds(const struct fixture *fixture, unsigned int n)
{
	while (fds_of(fixture->pid, "") > n)
		usleep(1000);
	assert_int_equal(fds_of(fixture->pid, ""), n);
}

static void crowds_leave_nothing_behind(void **state)
{
	unsigned int n = want_long() ? 24000 : 300, fds;
	struct fixture fixture;
	long kib;

	fixture_start(state, &fixture);
	abuse(&fixture, 200);
	fds = 0;
	while (fds != fds_of(fixture.pid, "socket:")) {
		fds = fds_of(fixture.pid, "socket:");
		usleep(20000);
	}
	fds = fds_of(fixture.pid, "");
	kib = status_of(fixture.pid, "VmRSS:");
	abuse(&fixture, n);
	await_fds(&fixture, fds);
	if (!UNDER_ASAN && !UNDER_TSAN)
		assert_true(status_of(fixture.pid, "VmRSS:") <= kib + 512);
	fixture_end(&fixture);
}

/* What is urgent goes by no pipe; what follows it comes, and so does the end. */
static void an_urgent_byte_stops_no_flow(void **state)
{
	struct fixture fixture;
	struct pair p;

	fixture_init(state, &fixture);
	fixture_configure(&fixture,
			  "splice 1\nlisten 127.0.0.1:%u to 127.0.0.1:%u\n",
			  fixture.at, fixture.to);
	fixture_run(state, &fixture, "1");
	p = connect_both(&fixture);
	transfer(p.client, p.server, LARGE, 24);
	assert_int_equal(send(p.client, "!", 1, MSG_OOB), 1);
	say(p.client, "hello");
	hear(p.server, "hello");
	transfer(p.client, p.server, LARGE, 25);
	assert_int_equal(send(p.client, "!", 1, MSG_OOB), 1);
	say(p.client, "the last");
	shutdown(p.client, SHUT_WR);
	hear(p.server, "the last");
	hear_end(p.server);
	close_both(&p);
	fixture_end(&fixture);
}

/* ---- signals while everybody is busy ---- */

static void a_reload_under_load_drops_nobody(void **state)
{
	struct pair p[4], passing;
	struct fixture fixture;
	size_t i, n;
	int round;

	fixture_start(state, &fixture);
	for (i = 0; i < N_OF(p); i++)
		p[i] = connect_both(&fixture);
	n = fill(p[0].client, 20);
	for (round = 0; round < PINGS; round++) {
		fixture_signal(&fixture, SIGHUP);
		passing.client = dial_once(fixture.at);
		assert_true(passing.client >= 0);
		passing.server = take(fixture.target);
		for (i = 1; i < N_OF(p); i++) {
			say(p[i].client, "ping");
			hear(p[i].server, "ping");
			say(p[i].server, "pong");
			hear(p[i].client, "pong");
		}
		transfer(passing.server, passing.client, 50000, 21);
		close_both(&passing);
	}
	drink(p[0].server, n, 20);
	for (i = 0; i < N_OF(p); i++)
		close_both(&p[i]);
	fixture_end(&fixture);
}

static void a_drain_waits_for_whoever_is_busy(void **state)
{
	struct pair busy, half, quiet;
	struct fixture fixture;
	size_t n;
	int fd;

	fixture_start(state, &fixture);
	busy = connect_both(&fixture);
	half = connect_both(&fixture);
	quiet = connect_both(&fixture);
	n = fill(busy.client, 22);
	shutdown(half.client, SHUT_WR);
	hear_end(half.server);
	fixture_signal(&fixture, SIGTERM);
	while ((fd = dial_once(fixture.at)) >= 0)
		close(fd);
	close_both(&quiet);
	transfer(half.server, half.client, LARGE, 23);
	close_both(&half);
	drink(busy.server, n, 22);
	close_both(&busy);
	fixture_await(&fixture);
}

/* ---- a full disk ---- */

static void log_lines_lost_to_a_full_disk_are_counted(void **state)
{
	unsigned long lines = 0, dropped = 0;
	struct fixture fixture;
	int i, log;

	fixture_init(state, &fixture);
	fixture_configure(&fixture,
			  "log /dev/full\n"
			  "listen 127.0.0.1:%u to 127.0.0.1:%u\n",
			  fixture.at, fixture.to);
	fixture_run(state, &fixture, "1");
	for (i = 0; i < 5; i++)
		leave_at_once(&fixture);
	await_text(fixture.err, "the log: No space left on device");
	fixture_configure(&fixture,
			  "log %s\n"
			  "listen 127.0.0.1:%u to 127.0.0.1:%u\n",
			  fixture.log, fixture.at, fixture.to);
	fixture_signal(&fixture, SIGHUP);
	while (access(fixture.log, F_OK))
		usleep(1000);
	leave_at_once(&fixture);
	log = open(fixture.log, O_RDONLY | O_CLOEXEC);
	while (lines + dropped < 6)
		lines += count_lines(log, &dropped);
	assert_int_equal(lines + dropped, 6);
	assert_true(dropped > 0);
	close(log);
	fixture_end(&fixture);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(crowds_leave_nothing_behind),
		CASE(an_urgent_byte_stops_no_flow),
		CASE(a_reload_under_load_drops_nobody),
		CASE(a_drain_waits_for_whoever_is_busy),
		CASE(log_lines_lost_to_a_full_disk_are_counted),
	};

	signal(SIGPIPE, SIG_IGN);
	return harness_run(cases, N_OF(cases));
}
