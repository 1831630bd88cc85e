/* SPDX-License-Identifier: BSD-3-Clause */
/* weir-proxy: limits, drain, reload and the log, over every backend. */

#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "tests/proxy-kit.h"

#define LARGE (3u << 20)

static void who_is_beyond_the_limit_waits(void **state)
{
	struct pair p, second;
	struct rig rig;

	rig_init(state, &rig);
	rig_configure(&rig, "connections 1\n"
		      "listen 127.0.0.1:%u to 127.0.0.1:%u\n", rig.at, rig.to);
	rig_run(state, &rig, "1");
	p = connect_both(&rig);
	second.client = dial(rig.at);
	assert_false(comes(rig.target, 50));
	close_both(&p);
	second.server = take(rig.target);
	say(second.client, "x");
	hear(second.server, "x");
	close_both(&second);
	rig_end(&rig);
}

static void a_drain_lets_connections_end(void **state)
{
	struct rig rig;
	struct pair p;
	int fd;

	rig_start(state, &rig);
	p = connect_both(&rig);
	say(p.client, "x");
	hear(p.server, "x");
	rig_signal(&rig, SIGTERM);
	while ((fd = dial_once(rig.at)) >= 0)
		close(fd);
	transfer(p.client, p.server, LARGE, 8);
	close_both(&p);
	rig_await(&rig);
}

static void but_not_for_ever(void **state)
{
	struct rig rig;
	struct pair p;

	rig_init(state, &rig);
	rig_configure(&rig, "drain 0.1\n"
		      "listen 127.0.0.1:%u to 127.0.0.1:%u\n", rig.at, rig.to);
	rig_run(state, &rig, "2");
	p = connect_both(&rig);
	rig_signal(&rig, SIGTERM);
	hear_reset(p.client);
	hear_reset(p.server);
	rig_await(&rig);
	close_both(&p);
}

static void a_reload_drops_nobody(void **state)
{
	uint16_t more = free_port();
	struct pair p, other;
	struct rig rig;
	int fd;

	rig_start(state, &rig);
	p = connect_both(&rig);
	rig_configure(&rig, "listen 127.0.0.1:%u to 127.0.0.1:%u\n", more,
		      rig.to);
	rig_signal(&rig, SIGHUP);
	other.client = dial(more);
	other.server = take(rig.target);
	while ((fd = dial_once(rig.at)) >= 0)
		close(fd);
	transfer(p.client, p.server, LARGE, 9);
	close_both(&other);
	close_both(&p);
	rig_end(&rig);
}

static void what_makes_no_sense_changes_nothing(void **state)
{
	struct rig rig;
	struct pair p;

	rig_start(state, &rig);
	p = connect_both(&rig);
	rig_configure(&rig, "listen 127.0.0.1:%u to nowhere\n", rig.at);
	rig_signal(&rig, SIGHUP);
	await_text(rig.err, "line 1: not the address of a target: nowhere");
	await_text(rig.err, "stays as it was");
	say(p.client, "x");
	hear(p.server, "x");
	close_both(&p);
	p = connect_both(&rig);
	close_both(&p);
	rig_end(&rig);
}

static void a_log_may_be_moved_away(void **state)
{
	char old[80];
	struct rig rig;
	struct pair p;

	rig_init(state, &rig);
	snprintf(old, sizeof(old), "%s", test_path(state, "old"));
	rig_configure(&rig, "log %s\nlisten 127.0.0.1:%u to 127.0.0.1:%u\n",
		      rig.log, rig.at, rig.to);
	rig_run(state, &rig, "2");
	p = connect_both(&rig);
	say(p.client, "12345");
	hear(p.server, "12345");
	close_both(&p);
	await_text(rig.log, "up=5 down=0 ");
	assert_int_equal(rename(rig.log, old), 0);
	rig_signal(&rig, SIGHUP);
	while (access(rig.log, F_OK))
		usleep(1000);
	p = connect_both(&rig);
	close_both(&p);
	await_text(rig.log, "up=0 down=0 ");
	await_text(rig.log, "us done\n");
	rig_end(&rig);
}

/* To open it would be to wait for a reader. */
static void a_log_that_nobody_reads_holds_up_nobody(void **state)
{
	struct rig rig;
	struct pair p;

	rig_start(state, &rig);
	p = connect_both(&rig);
	assert_int_equal(mkfifo(rig.log, 0600), 0);
	rig_configure(&rig, "log %s\nlisten 127.0.0.1:%u to 127.0.0.1:%u\n",
		      rig.log, rig.at, rig.to);
	rig_signal(&rig, SIGHUP);
	await_text(rig.err, "log: No such device or address");
	say(p.client, "x");
	hear(p.server, "x");
	close_both(&p);
	rig_end(&rig);
}

/* The name of a client's socket is the client's choice. */
static void a_client_does_not_write_lines_of_the_log(void **state)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX }, to = name;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct rig rig;

	snprintf(name.sun_path, sizeof(name.sun_path), "%s",
		 test_path(state, "a\nb c"));
	snprintf(to.sun_path, sizeof(to.sun_path), "%s",
		 test_path(state, "front"));
	rig_init(state, &rig);
	rig_configure(&rig, "log %s\nlisten unix:%s to 127.0.0.1:%u\n",
		      rig.log, to.sun_path, rig.to);
	rig_run(state, &rig, "1");
	assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
	while (connect(fd, (struct sockaddr *)&to, sizeof(to)))
		usleep(1000);
	close(take(rig.target));
	close(fd);
	await_text(rig.log, "/a?b?c unix:");
	rig_end(&rig);
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
static void what_the_log_cannot_take_is_counted(void **state)
{
	unsigned long all = 6000, lines = 0, dropped = 0, i;
	struct rig rig;
	int log;

	rig_init(state, &rig);
	assert_int_equal(mkfifo(rig.log, 0600), 0);
	log = open(rig.log, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	rig_configure(&rig, "log %s\nlisten 127.0.0.1:%u to 127.0.0.1:%u\n",
		      rig.log, rig.at, free_port());
	rig_run(state, &rig, "1");
	for (i = 0; i < all; i++)
		knock(rig.at);
	while (lines + dropped < all && comes(log, -1))
		lines += count_lines(log, &dropped);
	assert_int_equal(lines + dropped, all);
	assert_true(dropped > 0);
	close(log);
	rig_end(&rig);
}

/* Its reader is there, but does not read: it ends all the same. */
static void a_stuck_log_does_not_hold_up_the_end(void **state)
{
	struct rig rig;
	int log, i;

	rig_init(state, &rig);
	assert_int_equal(mkfifo(rig.log, 0600), 0);
	log = open(rig.log, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	assert_int_equal(fcntl(log, F_SETPIPE_SZ, 4096), 4096);
	rig_configure(&rig, "log %s\nlisten 127.0.0.1:%u to 127.0.0.1:%u\n",
		      rig.log, rig.at, free_port());
	rig_run(state, &rig, "1");
	for (i = 0; i < 100; i++)
		knock(rig.at);
	rig_end(&rig);
	close(log);
}

/* And it may be given up for another one. */
static void a_stuck_log_can_be_replaced(void **state)
{
	char fifo[80];
	struct stat st;
	struct rig rig;
	int log, i;

	rig_init(state, &rig);
	snprintf(fifo, sizeof(fifo), "%s", test_path(state, "fifo"));
	assert_int_equal(mkfifo(fifo, 0600), 0);
	log = open(fifo, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	assert_int_equal(fcntl(log, F_SETPIPE_SZ, 4096), 4096);
	rig_configure(&rig, "log %s\nlisten 127.0.0.1:%u to 127.0.0.1:%u\n",
		      fifo, rig.at, free_port());
	rig_run(state, &rig, "1");
	for (i = 0; i < 100; i++)
		knock(rig.at);
	rig_configure(&rig, "log %s\nlisten 127.0.0.1:%u to 127.0.0.1:%u\n",
		      rig.log, rig.at, free_port());
	rig_signal(&rig, SIGHUP);
	do
		knock(rig.at);
	while (stat(rig.log, &st) || !st.st_size);
	rig_end(&rig);
	close(log);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(who_is_beyond_the_limit_waits),
		CASE(a_drain_lets_connections_end),
		CASE(but_not_for_ever),
		CASE(a_reload_drops_nobody),
		CASE(what_makes_no_sense_changes_nothing),
		CASE(a_log_may_be_moved_away),
		CASE(a_log_that_nobody_reads_holds_up_nobody),
		CASE(a_client_does_not_write_lines_of_the_log),
		CASE(what_the_log_cannot_take_is_counted),
		CASE(a_stuck_log_does_not_hold_up_the_end),
		CASE(a_stuck_log_can_be_replaced),
	};

	signal(SIGPIPE, SIG_IGN);
	return harness_run(cases, N_OF(cases));
}
