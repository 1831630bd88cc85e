/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What weir-proxy does with connections, with real sockets at both of its ends,
 * over every backend.  Limits, drain and reload: test-weir-proxy-control.c;
 * names and who the client is: test-weir-proxy-address.c.
 */

#include <signal.h>
#include <sys/wait.h>

#include "tests/support/proxy-fixture.h"

#define LARGE (3u << 20)

/* What is in front of any proxied data may take so much of the kernel. */
#define KERNEL_MAX ((size_t)64 << 20)

/* ---- bytes ---- */

static void bytes_go_both_ways_unchanged(void **state)
{
	struct fixture fixture;
	struct pair p;

	fixture_start(state, &fixture);
	p = connect_both(&fixture);
	transfer(p.client, p.server, LARGE, 1);
	transfer(p.server, p.client, LARGE, 2);
	say(p.client, "ping");
	hear(p.server, "ping");
	close_both(&p);
	fixture_end(&fixture);
}

static void half_closed_connection_still_receives(void **state)
{
	struct fixture fixture;
	struct pair p;

	fixture_start(state, &fixture);
	p = connect_both(&fixture);
	say(p.client, "question");
	shutdown(p.client, SHUT_WR);
	hear(p.server, "question");
	hear_end(p.server);
	transfer(p.server, p.client, LARGE, 3);
	close(p.server);
	hear_end(p.client);
	close(p.client);
	fixture_end(&fixture);
}

static void and_the_target_may_close_first(void **state)
{
	struct fixture fixture;
	struct pair p;

	fixture_start(state, &fixture);
	p = connect_both(&fixture);
	shutdown(p.server, SHUT_WR);
	hear_end(p.client);
	transfer(p.client, p.server, LARGE, 4);
	close(p.client);
	hear_end(p.server);
	close(p.server);
	fixture_end(&fixture);
}

/* The listener's name is a path, and so is the target's. */
static void unix_sockets_are_as_good(void **state)
{
	struct fixture fixture;
	char at[80], to[80];
	int client, server, target;

	fixture_init(state, &fixture);
	snprintf(at, sizeof(at), "%s", test_path(state, "at"));
	snprintf(to, sizeof(to), "%s", test_path(state, "to"));
	target = listen_unix(to);
	close(listen_unix(at)); /* Somebody was killed. */
	fixture_configure(&fixture, "listen unix:%s to unix:%s\n", at, to);
	fixture_run(state, &fixture, "2");
	client = dial_unix(at);
	server = take(target);
	transfer(client, server, LARGE, 5);
	shutdown(server, SHUT_WR);
	hear_end(client);
	close(client);
	close(server);
	close(target);
	fixture_end(&fixture);
	assert_int_equal(access(at, F_OK), -1);
}

static void cores_share_one_port(void **state)
{
	struct pair p[16];
	struct fixture fixture;
	size_t i;

	fixture_init(state, &fixture);
	fixture_configure(&fixture, "listen 127.0.0.1:%u to 127.0.0.1:%u\n",
			  fixture.at, fixture.to);
	fixture_run(state, &fixture, "3");
	for (i = 0; i < N_OF(p); i++)
		p[i] = connect_both(&fixture);
	for (i = 0; i < N_OF(p); i++)
		transfer(p[i].client, p[i].server, 100000, (unsigned int)i);
	for (i = 0; i < N_OF(p); i++)
		close_both(&p[i]);
	fixture_end(&fixture);
}

/* ---- back-pressure ---- */

static void a_slow_reader_holds_up_the_writer(void **state)
{
	struct fixture fixture;
	struct pair p;
	size_t n;
	long before;

	fixture_start(state, &fixture);
	p = connect_both(&fixture);
	say(p.client, "x");
	hear(p.server, "x");
	before = status_of(fixture.pid, "VmRSS:");
	n = fill(p.client, 6);
	assert_true(n < KERNEL_MAX);
	assert_true(status_of(fixture.pid, "VmRSS:") < before + 4096);
	say(p.server, "the other way is free");
	hear(p.client, "the other way is free");
	drink(p.server, n, 6);
	close_both(&p);
	fixture_end(&fixture);
}

static void idle_connections_hold_no_buffers(void **state)
{
	enum { N = 200 };
	struct pair p[N];
	struct fixture fixture;
	long before;
	int i;

	fixture_start(state, &fixture);
	p[0] = connect_both(&fixture);
	before = status_of(fixture.pid, "VmRSS:");
	for (i = 1; i < N; i++)
		p[i] = connect_both(&fixture);
	if (!UNDER_ASAN && !UNDER_TSAN)
		assert_true(status_of(fixture.pid, "VmRSS:") < before + N * 3);
	say(p[N - 1].client, "still here");
	hear(p[N - 1].server, "still here");
	for (i = 0; i < N; i++)
		close_both(&p[i]);
	fixture_end(&fixture);
}

/* ---- splice ---- */

/* One core, which splices as soon as 16 pieces in a row have come. */
static void fixture_splice(void **state, struct fixture *fixture)
{
	fixture_init(state, fixture);
	fixture_configure(fixture,
			  "splice 1\nlisten 127.0.0.1:%u to 127.0.0.1:%u\n",
			  fixture->at, fixture->to);
	fixture_run(state, fixture, "1");
}

static void busy_connection_gets_a_pipe(void **state)
{
	struct fixture fixture;
	struct pair p;
	unsigned int pipes;
	size_t n;

	fixture_splice(state, &fixture);
	p = connect_both(&fixture);
	say(p.client, "x");
	hear(p.server, "x");
	pipes = fds_of(fixture.pid, "pipe:");
	n = fill(p.client, 11);
	assert_int_equal(fds_of(fixture.pid, "pipe:"), pipes + 2);
	assert_true(n < KERNEL_MAX);
	drink(p.server, n, 11);
	transfer(p.client, p.server, LARGE, 12);
	transfer(p.server, p.client, LARGE, 13);
	shutdown(p.client, SHUT_WR);
	hear_end(p.server);
	close_both(&p);
	fixture_end(&fixture);
}

/* What is in a pipe is one connection's: the pipe goes with it. */
static void a_pipe_that_was_cut_off_is_nobody_elses(void **state)
{
	struct fixture fixture;
	struct pair p;
	int i;

	fixture_splice(state, &fixture);
	for (i = 0; i < 3; i++) {
		p = connect_both(&fixture);
		fill(p.client, 14);
		reset(p.server);
		hear_reset(p.client);
		close(p.client);
		p = connect_both(&fixture);
		transfer(p.client, p.server, LARGE, 15);
		close_both(&p);
	}
	fixture_end(&fixture);
}

static void stop_for_now(struct fixture *fixture)
{
	int status;

	fixture_signal(fixture, SIGSTOP);
	assert_int_equal(waitpid(fixture->pid, &status, WUNTRACED),
			 fixture->pid);
	assert_true(WIFSTOPPED(status));
}

/* Bytes come at the same moment as the target's reset: the proxy learns of both
 * when it goes on, and the connection has ended when they are in the pipe. */
static void pipe_that_was_filled_at_the_end_is_not_used_again(void **state)
{
	struct fixture fixture;
	struct pair p;

	fixture_splice(state, &fixture);
	for (unsigned int i = 0; i < 20; i++) {
		p = connect_both(&fixture);
		transfer(p.client, p.server, LARGE, i);
		say(p.server, "x");
		hear(p.client, "x");
		stop_for_now(&fixture);
		reset(p.server);
		say(p.client, "what nobody is to see");
		fixture_signal(&fixture, SIGCONT);
		hear_reset(p.client);
		close(p.client);
	}
	fixture_end(&fixture);
}

static void unix_sockets_are_spliced(void **state)
{
	struct fixture fixture;
	char at[80];
	int client, server;

	fixture_init(state, &fixture);
	snprintf(at, sizeof(at), "%s", test_path(state, "at"));
	fixture_configure(&fixture,
			  "splice 1\nlisten unix:%s to 127.0.0.1:%u\n", at,
			  fixture.to);
	fixture_run(state, &fixture, "1");
	client = dial_unix(at);
	server = take(fixture.target);
	transfer(client, server, LARGE, 16);
	transfer(server, client, LARGE, 17);
	shutdown(server, SHUT_WR);
	hear_end(client);
	close(client);
	close(server);
	fixture_end(&fixture);
}

static void sends_without_a_copy_are_as_good(void **state)
{
	struct fixture fixture;
	struct pair p;

	fixture_init(state, &fixture);
	fixture_configure(&fixture,
			  "zerocopy 1\nsplice 0\n"
			  "listen 127.0.0.1:%u to 127.0.0.1:%u\n",
			  fixture.at, fixture.to);
	fixture_run(state, &fixture, "1");
	p = connect_both(&fixture);
	transfer(p.client, p.server, LARGE, 18);
	transfer(p.server, p.client, LARGE, 19);
	close_both(&p);
	fixture_end(&fixture);
}

/* ---- the end of a connection ---- */

static void a_reset_is_passed_on(void **state)
{
	struct fixture fixture;
	struct pair p;

	fixture_start(state, &fixture);
	p = connect_both(&fixture); /* By the client, in silence. */
	reset(p.client);
	hear_reset(p.server);
	close(p.server);

	p = connect_both(&fixture); /* By the target, after some bytes. */
	say(p.client, "x");
	hear(p.server, "x");
	reset(p.server);
	hear_reset(p.client);
	close(p.client);

	p = connect_both(&fixture); /* After half of it was closed. */
	shutdown(p.client, SHUT_WR);
	hear_end(p.server);
	reset(p.server);
	hear_reset(p.client);
	close(p.client);
	fixture_end(&fixture);
}

static void a_reset_is_seen_while_the_other_does_not_read(void **state)
{
	struct fixture fixture;
	struct pair p;

	fixture_init(state, &fixture);
	fixture_configure(&fixture,
			  "log %s\nlisten 127.0.0.1:%u to 127.0.0.1:%u\n",
			  fixture.log, fixture.at, fixture.to);
	fixture_run(state, &fixture, "1");
	p = connect_both(&fixture);
	fill(p.client, 7);
	reset(p.client);
	await_text(fixture.log, "us reset\n");
	hear_reset(p.server);
	close(p.server);
	fixture_end(&fixture);
}

static void idle_connection_is_dropped(void **state)
{
	struct fixture fixture;
	struct pair p;

	fixture_init(state, &fixture);
	fixture_configure(&fixture,
			  "listen 127.0.0.1:%u to 127.0.0.1:%u\n"
			  "idle-timeout 0.1\nlog %s\n",
			  fixture.at, fixture.to, fixture.log);
	fixture_run(state, &fixture, "1");
	p = connect_both(&fixture);
	say(p.client, "x");
	hear(p.server, "x");
	hear_reset(p.client);
	hear_reset(p.server);
	close_both(&p);
	await_text(fixture.log, "up=1 down=0 ");
	await_text(fixture.log, "us idle\n");
	fixture_end(&fixture);
}

/* ---- targets ---- */

static void a_target_that_is_down_is_passed_over_and_rests(void **state)
{
	uint16_t down = free_port();
	struct fixture fixture;
	struct pair p;
	int i, late;

	fixture_init(state, &fixture);
	fixture_configure(&fixture,
			  "listen 127.0.0.1:%u to 127.0.0.1:%u 127.0.0.1:%u\n",
			  fixture.at, down, fixture.to);
	fixture_run(state, &fixture, "1");
	p = connect_both(&fixture);
	close_both(&p);
	late = listen_on(down, 16); /* It is up again, but is left alone. */
	for (i = 0; i < 4; i++) {
		p = connect_both(&fixture);
		close_both(&p);
	}
	assert_false(comes(late, 0));
	close(late);
	fixture_end(&fixture);
}

static void targets_take_turns(void **state)
{
	uint16_t second = free_port();
	int other = listen_on(second, 16), i, server, client;
	struct fixture fixture;

	fixture_init(state, &fixture);
	fixture_configure(&fixture,
			  "listen 127.0.0.1:%u to 127.0.0.1:%u 127.0.0.1:%u\n",
			  fixture.at, fixture.to, second);
	fixture_run(state, &fixture, "1");
	for (i = 0; i < 6; i++) {
		client = dial(fixture.at);
		server = take(i % 2 ? other : fixture.target);
		close(client);
		close(server);
	}
	close(other);
	fixture_end(&fixture);
}

static void no_target_is_a_reset(void **state)
{
	struct fixture fixture;
	int client;

	fixture_init(state, &fixture);
	fixture_configure(&fixture,
			  "listen 127.0.0.1:%u to 127.0.0.1:%u\nlog %s\n",
			  fixture.at, free_port(), fixture.log);
	fixture_run(state, &fixture, "1");
	client = dial(fixture.at);
	hear_reset(client);
	close(client);
	await_text(fixture.log, "us no-target\n");
	fixture_end(&fixture);
}

/* A queue of one that is full: who comes then hears nothing. */
static void a_target_that_does_not_answer_is_passed_over(void **state)
{
	uint16_t mute = free_port();
	int full = listen_on(mute, 0), first = dial(mute);
	struct fixture fixture;
	struct pair p;

	fixture_init(state, &fixture);
	fixture_configure(&fixture,
			  "connect-timeout 0.1\n"
			  "listen 127.0.0.1:%u to 127.0.0.1:%u 127.0.0.1:%u\n",
			  fixture.at, mute, fixture.to);
	fixture_run(state, &fixture, "1");
	p = connect_both(&fixture);
	say(p.client, "x");
	hear(p.server, "x");
	close_both(&p);
	close(first);
	close(full);
	fixture_end(&fixture);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(bytes_go_both_ways_unchanged),
		CASE(half_closed_connection_still_receives),
		CASE(and_the_target_may_close_first),
		CASE(unix_sockets_are_as_good),
		CASE(cores_share_one_port),
		CASE(a_slow_reader_holds_up_the_writer),
		CASE(idle_connections_hold_no_buffers),
		CASE(busy_connection_gets_a_pipe),
		CASE(a_pipe_that_was_cut_off_is_nobody_elses),
		CASE(pipe_that_was_filled_at_the_end_is_not_used_again),
		CASE(unix_sockets_are_spliced),
		CASE(sends_without_a_copy_are_as_good),
		CASE(a_reset_is_passed_on),
		CASE(a_reset_is_seen_while_the_other_does_not_read),
		CASE(idle_connection_is_dropped),
		CASE(a_target_that_is_down_is_passed_over_and_rests),
		CASE(targets_take_turns),
		CASE(no_target_is_a_reset),
		CASE(a_target_that_does_not_answer_is_passed_over),
	};

	signal(SIGPIPE, SIG_IGN);
	return harness_run(cases, N_OF(cases));
}
