/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * weir-proxy among clients and targets that behave badly, disks that are full,
 * and signals while everybody is busy; over every backend.
 */

#include <signal.h>

#include "tests/proxy-kit.h"

#define LARGE (1u << 20)
#define PINGS 20

/* ---- abuse ---- */

static void leave_at_once(struct rig *rig)
{
	struct pair p = connect_both(rig);

	close_both(&p);
}

static void reset_at_once(struct rig *rig)
{
	struct pair p = connect_both(rig);

	reset(p.client);
	hear_reset(p.server);
	close(p.server);
}

static void be_reset_by_the_target(struct rig *rig)
{
	struct pair p = connect_both(rig);

	say(p.client, "question");
	reset(p.server);
	hear_reset(p.client);
	close(p.client);
}

static void leave_what_was_said_unread(struct rig *rig)
{
	struct pair p = connect_both(rig);

	say(p.server, "nobody reads this");
	say(p.client, "nor this");
	close_both(&p);
}

static void reset_after_half_a_close(struct rig *rig)
{
	struct pair p = connect_both(rig);

	say(p.client, "all");
	shutdown(p.client, SHUT_WR);
	hear(p.server, "all");
	hear_end(p.server);
	reset(p.client);
	close(p.server);
}

static void close_both_ways_in_turn(struct rig *rig)
{
	struct pair p = connect_both(rig);

	shutdown(p.server, SHUT_WR);
	hear_end(p.client);
	say(p.client, "still there");
	hear(p.server, "still there");
	close_both(&p);
}

static void (*const abuses[])(struct rig *rig) = {
	leave_at_once,
	reset_at_once,
	be_reset_by_the_target,
	leave_what_was_said_unread,
	reset_after_half_a_close,
	close_both_ways_in_turn,
};

static void abuse(struct rig *rig, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		abuses[i % N_OF(abuses)](rig);
}

/* Until the program has no more descriptors than @n. */
static void await_fds(const struct rig *rig, unsigned int n)
{
	while (rig_fds(rig, "") > n)
		usleep(1000);
	assert_int_equal(rig_fds(rig, ""), n);
}

static void crowds_leave_nothing_behind(void **state)
{
	unsigned int n = want_long() ? 24000 : 300, fds;
	struct rig rig;
	long kib;

	rig_start(state, &rig);
	abuse(&rig, 200);
	fds = 0;
	while (fds != rig_fds(&rig, "socket:")) {
		fds = rig_fds(&rig, "socket:");
		usleep(20000);
	}
	fds = rig_fds(&rig, "");
	kib = rig_memory(&rig);
	abuse(&rig, n);
	await_fds(&rig, fds);
	if (!UNDER_ASAN && !UNDER_TSAN)
		assert_true(rig_memory(&rig) <= kib + 512);
	rig_end(&rig);
}

/* What is urgent goes by no pipe; what follows it comes, and so does the end. */
static void an_urgent_byte_stops_no_flow(void **state)
{
	struct rig rig;
	struct pair p;

	rig_init(state, &rig);
	rig_configure(&rig, "splice 1\nlisten 127.0.0.1:%u to 127.0.0.1:%u\n",
		      rig.at, rig.to);
	rig_run(state, &rig, "1");
	p = connect_both(&rig);
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
	rig_end(&rig);
}

/* ---- signals while everybody is busy ---- */

static void a_reload_under_load_drops_nobody(void **state)
{
	struct pair p[4], passing;
	struct rig rig;
	size_t i, n;
	int round;

	rig_start(state, &rig);
	for (i = 0; i < N_OF(p); i++)
		p[i] = connect_both(&rig);
	n = fill(p[0].client, 20);
	for (round = 0; round < PINGS; round++) {
		rig_signal(&rig, SIGHUP);
		passing.client = dial_once(rig.at);
		assert_true(passing.client >= 0);
		passing.server = take(rig.target);
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
	rig_end(&rig);
}

static void a_drain_waits_for_whoever_is_busy(void **state)
{
	struct pair busy, half, quiet;
	struct rig rig;
	size_t n;
	int fd;

	rig_start(state, &rig);
	busy = connect_both(&rig);
	half = connect_both(&rig);
	quiet = connect_both(&rig);
	n = fill(busy.client, 22);
	shutdown(half.client, SHUT_WR);
	hear_end(half.server);
	rig_signal(&rig, SIGTERM);
	while ((fd = dial_once(rig.at)) >= 0)
		close(fd);
	close_both(&quiet);
	transfer(half.server, half.client, LARGE, 23);
	close_both(&half);
	drink(busy.server, n, 22);
	close_both(&busy);
	rig_await(&rig);
}

/* ---- a full disk ---- */

static void what_a_full_disk_does_not_take_is_counted(void **state)
{
	unsigned long lines = 0, dropped = 0;
	struct rig rig;
	int i, log;

	rig_init(state, &rig);
	rig_configure(&rig, "log /dev/full\n"
		      "listen 127.0.0.1:%u to 127.0.0.1:%u\n", rig.at, rig.to);
	rig_run(state, &rig, "1");
	for (i = 0; i < 5; i++)
		leave_at_once(&rig);
	await_text(rig.err, "the log: No space left on device");
	rig_configure(&rig, "log %s\n"
		      "listen 127.0.0.1:%u to 127.0.0.1:%u\n", rig.log, rig.at,
		      rig.to);
	rig_signal(&rig, SIGHUP);
	while (access(rig.log, F_OK))
		usleep(1000);
	leave_at_once(&rig);
	log = open(rig.log, O_RDONLY | O_CLOEXEC);
	while (lines + dropped < 6)
		lines += count_lines(log, &dropped);
	assert_int_equal(lines + dropped, 6);
	assert_true(dropped > 0);
	close(log);
	rig_end(&rig);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(crowds_leave_nothing_behind),
		CASE(an_urgent_byte_stops_no_flow),
		CASE(a_reload_under_load_drops_nobody),
		CASE(a_drain_waits_for_whoever_is_busy),
		CASE(what_a_full_disk_does_not_take_is_counted),
	};

	signal(SIGPIPE, SIG_IGN);
	return harness_run(cases, N_OF(cases));
}
