/* SPDX-License-Identifier: BSD-3-Clause */
/* weir-proxy: limits, drain, reload and the log, over every backend. */

#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "tests/support/proxy-fixture.h"

#define LARGE (3u << 20)

static void connection_beyond_the_limit_waits(void **state)
{
	struct pair p, second;
	struct fixture fixture;

	fixture_init(state, &fixture);
	fixture_configure(&fixture,
			  "connections 1\n"
			  "listen 127.0.0.1:%u to 127.0.0.1:%u\n",
			  fixture.at, fixture.to);
	fixture_run(state, &fixture, "1");
	p = connect_both(&fixture);
	second.client = dial(fixture.at);
	assert_false(comes(fixture.target, 50));
	close_both(&p);
	second.server = take(fixture.target);
	say(second.client, "x");
	hear(second.server, "x");
	close_both(&second);
	fixture_end(&fixture);
}

static void a_drain_lets_connections_end(void **state)
{
	struct fixture fixture;
	struct pair p;
	int fd;

	fixture_start(state, &fixture);
	p = connect_both(&fixture);
	say(p.client, "x");
	hear(p.server, "x");
	fixture_signal(&fixture, SIGTERM);
	while ((fd = dial_once(fixture.at)) >= 0)
		close(fd);
	transfer(p.client, p.server, LARGE, 8);
	close_both(&p);
	fixture_await(&fixture);
}

static void connection_beyond_the_limit_does_not_wait_for_ever(void **state)
{
	struct fixture fixture;
	struct pair p;

	fixture_init(state, &fixture);
	fixture_configure(&fixture,
			  "drain 0.1\n"
			  "listen 127.0.0.1:%u to 127.0.0.1:%u\n",
			  fixture.at, fixture.to);
	fixture_run(state, &fixture, "2");
	p = connect_both(&fixture);
	fixture_signal(&fixture, SIGTERM);
	hear_reset(p.client);
	hear_reset(p.server);
	fixture_await(&fixture);
	close_both(&p);
}

static void a_reload_drops_nobody(void **state)
{
	uint16_t more = free_port();
	struct pair p, other;
	struct fixture fixture;
	int fd;

	fixture_start(state, &fixture);
	p = connect_both(&fixture);
	fixture_configure(&fixture, "listen 127.0.0.1:%u to 127.0.0.1:%u\n",
			  more, fixture.to);
	fixture_signal(&fixture, SIGHUP);
	other.client = dial(more);
	other.server = take(fixture.target);
	while ((fd = dial_once(fixture.at)) >= 0)
		close(fd);
	transfer(p.client, p.server, LARGE, 9);
	close_both(&other);
	close_both(&p);
	fixture_end(&fixture);
}

static void bad_reload_changes_nothing(void **state)
{
	struct fixture fixture;
	struct pair p;

	fixture_start(state, &fixture);
	p = connect_both(&fixture);
	fixture_configure(&fixture, "listen 127.0.0.1:%u to nowhere\n",
			  fixture.at);
	fixture_signal(&fixture, SIGHUP);
	await_text(fixture.err, "line 1: not the address of a target: nowhere");
	await_text(fixture.err, "stays as it was");
	say(p.client, "x");
	hear(p.server, "x");
	close_both(&p);
	p = connect_both(&fixture);
	close_both(&p);
	fixture_end(&fixture);
}

static void a_log_may_be_moved_away(void **state)
{
	char old[80];
	struct fixture fixture;
	struct pair p;

	fixture_init(state, &fixture);
	snprintf(old, sizeof(old), "%s", test_path(state, "old"));
	fixture_configure(&fixture,
			  "log %s\nlisten 127.0.0.1:%u to 127.0.0.1:%u\n",
			  fixture.log, fixture.at, fixture.to);
	fixture_run(state, &fixture, "2");
	p = connect_both(&fixture);
	say(p.client, "12345");
	hear(p.server, "12345");
	close_both(&p);
	await_text(fixture.log, "up=5 down=0 ");
	assert_int_equal(rename(fixture.log, old), 0);
	fixture_signal(&fixture, SIGHUP);
	while (access(fixture.log, F_OK))
		usleep(1000);
	p = connect_both(&fixture);
	close_both(&p);
	await_text(fixture.log, "up=0 down=0 ");
	await_text(fixture.log, "us done\n");
	fixture_end(&fixture);
}

/* To open it would be to wait for a reader. */
static void a_log_that_nobody_reads_holds_up_nobody(void **state)
{
	struct fixture fixture;
	struct pair p;

	fixture_start(state, &fixture);
	p = connect_both(&fixture);
	assert_int_equal(mkfifo(fixture.log, 0600), 0);
	fixture_configure(&fixture,
			  "log %s\nlisten 127.0.0.1:%u to 127.0.0.1:%u\n",
			  fixture.log, fixture.at, fixture.to);
	fixture_signal(&fixture, SIGHUP);
	await_text(fixture.err, "log: No such device or address");
	say(p.client, "x");
	hear(p.server, "x");
	close_both(&p);
	fixture_end(&fixture);
}

/* The name of a client's socket is the client's choice. */
static void a_client_does_not_write_lines_of_the_log(void **state)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX }, to = name;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct fixture fixture;

	snprintf(name.sun_path, sizeof(name.sun_path), "%s",
		 test_path(state, "a\nb c"));
	snprintf(to.sun_path, sizeof(to.sun_path), "%s",
		 test_path(state, "front"));
	fixture_init(state, &fixture);
	fixture_configure(&fixture, "log %s\nlisten unix:%s to 127.0.0.1:%u\n",
			  fixture.log, to.sun_path, fixture.to);
	fixture_run(state, &fixture, "1");
	assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
	while (connect(fd, (struct sockaddr *)&to, sizeof(to)))
		usleep(1000);
	close(take(fixture.target));
	close(fd);
	await_text(fixture.log, "/a?b?c unix:");
	fixture_end(&fixture);
	unlink(name.sun_path);
}

/* Come, and be reset; which may be before connect() has returned. */
static void knock(uint16_t port)
{
	int fd;

	while ((fd = dial_once(port)) < 0 && errno != ECONNRESET)
		usleep(1000);
	if (fd < 0)
		return;
	hear_reset(fd);
	close(fd);
}

/* Nobody reads the log: connections go on, and what was lost is known. */
static void lost_lines_of_the_log_are_counted(void **state)
{
	unsigned long all = 6000, lines = 0, dropped = 0, i;
	struct fixture fixture;
	int log;

	fixture_init(state, &fixture);
	assert_int_equal(mkfifo(fixture.log, 0600), 0);
	log = open(fixture.log, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	fixture_configure(&fixture,
			  "log %s\nlisten 127.0.0.1:%u to 127.0.0.1:%u\n",
			  fixture.log, fixture.at, free_port());
	fixture_run(state, &fixture, "1");
	for (i = 0; i < all; i++)
		knock(fixture.at);
	while (lines + dropped < all && comes(log, -1))
		lines += count_lines(log, &dropped);
	assert_int_equal(lines + dropped, all);
	assert_true(dropped > 0);
	close(log);
	fixture_end(&fixture);
}

/* Its reader is there, but does not read: it ends all the same. */
static void a_stuck_log_does_not_hold_up_the_end(void **state)
{
	struct fixture fixture;
	int log, i;

	fixture_init(state, &fixture);
	assert_int_equal(mkfifo(fixture.log, 0600), 0);
	log = open(fixture.log, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	assert_int_equal(fcntl(log, F_SETPIPE_SZ, 4096), 4096);
	fixture_configure(&fixture,
			  "log %s\nlisten 127.0.0.1:%u to 127.0.0.1:%u\n",
			  fixture.log, fixture.at, free_port());
	fixture_run(state, &fixture, "1");
	for (i = 0; i < 100; i++)
		knock(fixture.at);
	fixture_end(&fixture);
	close(log);
}

/* And it may be given up for another one. */
static void a_stuck_log_can_be_replaced(void **state)
{
	char fifo[80];
	struct stat st;
	struct fixture fixture;
	int log, i;

	fixture_init(state, &fixture);
	snprintf(fifo, sizeof(fifo), "%s", test_path(state, "fifo"));
	assert_int_equal(mkfifo(fifo, 0600), 0);
	log = open(fifo, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	assert_int_equal(fcntl(log, F_SETPIPE_SZ, 4096), 4096);
	fixture_configure(&fixture,
			  "log %s\nlisten 127.0.0.1:%u to 127.0.0.1:%u\n", fifo,
			  fixture.at, free_port());
	fixture_run(state, &fixture, "1");
	for (i = 0; i < 100; i++)
		knock(fixture.at);
	fixture_configure(&fixture,
			  "log %s\nlisten 127.0.0.1:%u to 127.0.0.1:%u\n",
			  fixture.log, fixture.at, free_port());
	fixture_signal(&fixture, SIGHUP);
	do
		knock(fixture.at);
	while (stat(fixture.log, &st) || !st.st_size);
	fixture_end(&fixture);
	close(log);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(connection_beyond_the_limit_waits),
		CASE(a_drain_lets_connections_end),
		CASE(connection_beyond_the_limit_does_not_wait_for_ever),
		CASE(a_reload_drops_nobody),
		CASE(bad_reload_changes_nothing),
		CASE(a_log_may_be_moved_away),
		CASE(a_log_that_nobody_reads_holds_up_nobody),
		CASE(a_client_does_not_write_lines_of_the_log),
		CASE(lost_lines_of_the_log_are_counted),
		CASE(a_stuck_log_does_not_hold_up_the_end),
		CASE(a_stuck_log_can_be_replaced),
	};

	signal(SIGPIPE, SIG_IGN);
	return harness_run(cases, N_OF(cases));
}
