/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What weir-proxy does with connections, with real sockets at both of its ends,
 * over every backend.  Limits, drain and reload: test-weir-proxy-control.c; names
 * and who the client is: test-weir-proxy-address.c.
 */

#include <signal.h>
#include <sys/wait.h>

#include "tests/proxy-kit.h"

#define LARGE (3u << 20)

/* What is in front of any proxied data may take so much of the kernel. */
#define KERNEL_MAX ((size_t)64 << 20)

/* ---- bytes ---- */

static void bytes_go_both_ways_unchanged(void **state)
{
	struct rig rig;
	struct pair p;

	rig_start(state, &rig);
	p = connect_both(&rig);
	transfer(p.client, p.server, LARGE, 1);
	transfer(p.server, p.client, LARGE, 2);
	say(p.client, "ping");
	hear(p.server, "ping");
	close_both(&p);
	rig_end(&rig);
}

static void who_has_closed_one_way_still_hears_the_other(void **state)
{
	struct rig rig;
	struct pair p;

	rig_start(state, &rig);
	p = connect_both(&rig);
	say(p.client, "question");
	shutdown(p.client, SHUT_WR);
	hear(p.server, "question");
	hear_end(p.server);
	transfer(p.server, p.client, LARGE, 3);
	close(p.server);
	hear_end(p.client);
	close(p.client);
	rig_end(&rig);
}

static void and_the_target_may_close_first(void **state)
{
	struct rig rig;
	struct pair p;

	rig_start(state, &rig);
	p = connect_both(&rig);
	shutdown(p.server, SHUT_WR);
	hear_end(p.client);
	transfer(p.client, p.server, LARGE, 4);
	close(p.client);
	hear_end(p.server);
	close(p.server);
	rig_end(&rig);
}

/* The listener's name is a path, and so is the target's. */
static void unix_sockets_are_as_good(void **state)
{
	struct rig rig;
	char at[80], to[80];
	int client, server, target;

	rig_init(state, &rig);
	snprintf(at, sizeof(at), "%s", test_path(state, "at"));
	snprintf(to, sizeof(to), "%s", test_path(state, "to"));
	target = listen_unix(to);
	close(listen_unix(at)); /* Somebody was killed. */
	rig_configure(&rig, "listen unix:%s to unix:%s\n", at, to);
	rig_run(state, &rig, "2");
	client = dial_unix(at);
	server = take(target);
	transfer(client, server, LARGE, 5);
	shutdown(server, SHUT_WR);
	hear_end(client);
	close(client);
	close(server);
	close(target);
	rig_end(&rig);
	assert_int_equal(access(at, F_OK), -1);
}

static void cores_share_one_port(void **state)
{
	struct pair p[16];
	struct rig rig;
	size_t i;

	rig_init(state, &rig);
	rig_configure(&rig, "listen 127.0.0.1:%u to 127.0.0.1:%u\n", rig.at,
		      rig.to);
	rig_run(state, &rig, "3");
	for (i = 0; i < N_OF(p); i++)
		p[i] = connect_both(&rig);
	for (i = 0; i < N_OF(p); i++)
		transfer(p[i].client, p[i].server, 100000, (unsigned int)i);
	for (i = 0; i < N_OF(p); i++)
		close_both(&p[i]);
	rig_end(&rig);
}

/* ---- back-pressure ---- */

static void a_slow_reader_holds_up_the_writer(void **state)
{
	struct rig rig;
	struct pair p;
	size_t n;
	long before;

	rig_start(state, &rig);
	p = connect_both(&rig);
	say(p.client, "x");
	hear(p.server, "x");
	before = rig_memory(&rig);
	n = fill(p.client, 6);
	assert_true(n < KERNEL_MAX);
	assert_true(rig_memory(&rig) < before + 4096);
	say(p.server, "the other way is free");
	hear(p.client, "the other way is free");
	drink(p.server, n, 6);
	close_both(&p);
	rig_end(&rig);
}

static void idle_connections_hold_no_buffers(void **state)
{
	enum { N = 200 };
	struct pair p[N];
	struct rig rig;
	long before;
	int i;

	rig_start(state, &rig);
	p[0] = connect_both(&rig);
	before = rig_memory(&rig);
	for (i = 1; i < N; i++)
		p[i] = connect_both(&rig);
	if (!UNDER_ASAN && !UNDER_TSAN)
		assert_true(rig_memory(&rig) < before + N * 3);
	say(p[N - 1].client, "still here");
	hear(p[N - 1].server, "still here");
	for (i = 0; i < N; i++)
		close_both(&p[i]);
	rig_end(&rig);
}

/* ---- splice ---- */

/* One core, which splices as soon as 16 pieces in a row have come. */
static void rig_splice(void **state, struct rig *rig)
{
	rig_init(state, rig);
	rig_configure(rig, "splice 1\nlisten 127.0.0.1:%u to 127.0.0.1:%u\n",
		      rig->at, rig->to);
	rig_run(state, rig, "1");
}

static void who_carries_much_gets_a_pipe(void **state)
{
	struct rig rig;
	struct pair p;
	unsigned int pipes;
	size_t n;

	rig_splice(state, &rig);
	p = connect_both(&rig);
	say(p.client, "x");
	hear(p.server, "x");
	pipes = rig_fds(&rig, "pipe:");
	n = fill(p.client, 11);
	assert_int_equal(rig_fds(&rig, "pipe:"), pipes + 2);
	assert_true(n < KERNEL_MAX);
	drink(p.server, n, 11);
	transfer(p.client, p.server, LARGE, 12);
	transfer(p.server, p.client, LARGE, 13);
	shutdown(p.client, SHUT_WR);
	hear_end(p.server);
	close_both(&p);
	rig_end(&rig);
}

/* What is in a pipe is one connection's: the pipe goes with it. */
static void a_pipe_that_was_cut_off_is_nobody_elses(void **state)
{
	struct rig rig;
	struct pair p;
	int i;

	rig_splice(state, &rig);
	for (i = 0; i < 3; i++) {
		p = connect_both(&rig);
		fill(p.client, 14);
		reset(p.server);
		hear_reset(p.client);
		close(p.client);
		p = connect_both(&rig);
		transfer(p.client, p.server, LARGE, 15);
		close_both(&p);
	}
	rig_end(&rig);
}

static void stop_for_now(struct rig *rig)
{
	int status;

	rig_signal(rig, SIGSTOP);
	assert_int_equal(waitpid(rig->pid, &status, WUNTRACED), rig->pid);
	assert_true(WIFSTOPPED(status));
}

/* Bytes come at the same moment as the target's reset: the proxy learns of both
 * when it goes on, and the connection has ended when they are in the pipe. */
static void nor_is_one_that_was_filled_at_the_end(void **state)
{
	struct rig rig;
	struct pair p;

	rig_splice(state, &rig);
	for (unsigned int i = 0; i < 20; i++) {
		p = connect_both(&rig);
		transfer(p.client, p.server, LARGE, i);
		say(p.server, "x");
		hear(p.client, "x");
		stop_for_now(&rig);
		reset(p.server);
		say(p.client, "what nobody is to see");
		rig_signal(&rig, SIGCONT);
		hear_reset(p.client);
		close(p.client);
	}
	rig_end(&rig);
}

static void unix_sockets_are_spliced_too(void **state)
{
	struct rig rig;
	char at[80];
	int client, server;

	rig_init(state, &rig);
	snprintf(at, sizeof(at), "%s", test_path(state, "at"));
	rig_configure(&rig, "splice 1\nlisten unix:%s to 127.0.0.1:%u\n", at,
		      rig.to);
	rig_run(state, &rig, "1");
	client = dial_unix(at);
	server = take(rig.target);
	transfer(client, server, LARGE, 16);
	transfer(server, client, LARGE, 17);
	shutdown(server, SHUT_WR);
	hear_end(client);
	close(client);
	close(server);
	rig_end(&rig);
}

static void sends_without_a_copy_are_as_good(void **state)
{
	struct rig rig;
	struct pair p;

	rig_init(state, &rig);
	rig_configure(&rig, "zerocopy 1\nsplice 0\n"
		      "listen 127.0.0.1:%u to 127.0.0.1:%u\n", rig.at, rig.to);
	rig_run(state, &rig, "1");
	p = connect_both(&rig);
	transfer(p.client, p.server, LARGE, 18);
	transfer(p.server, p.client, LARGE, 19);
	close_both(&p);
	rig_end(&rig);
}

/* ---- the end of a connection ---- */

static void a_reset_is_passed_on(void **state)
{
	struct rig rig;
	struct pair p;

	rig_start(state, &rig);
	p = connect_both(&rig); /* By the client, in silence. */
	reset(p.client);
	hear_reset(p.server);
	close(p.server);

	p = connect_both(&rig); /* By the target, after some bytes. */
	say(p.client, "x");
	hear(p.server, "x");
	reset(p.server);
	hear_reset(p.client);
	close(p.client);

	p = connect_both(&rig); /* After half of it was closed. */
	shutdown(p.client, SHUT_WR);
	hear_end(p.server);
	reset(p.server);
	hear_reset(p.client);
	close(p.client);
	rig_end(&rig);
}

static void a_reset_is_seen_while_the_other_does_not_read(void **state)
{
	struct rig rig;
	struct pair p;

	rig_init(state, &rig);
	rig_configure(&rig, "log %s\nlisten 127.0.0.1:%u to 127.0.0.1:%u\n",
		      rig.log, rig.at, rig.to);
	rig_run(state, &rig, "1");
	p = connect_both(&rig);
	fill(p.client, 7);
	reset(p.client);
	await_text(rig.log, "us reset\n");
	hear_reset(p.server);
	close(p.server);
	rig_end(&rig);
}

static void who_says_nothing_for_long_is_dropped(void **state)
{
	struct rig rig;
	struct pair p;

	rig_init(state, &rig);
	rig_configure(&rig, "listen 127.0.0.1:%u to 127.0.0.1:%u\n"
		      "idle-timeout 0.1\nlog %s\n", rig.at, rig.to, rig.log);
	rig_run(state, &rig, "1");
	p = connect_both(&rig);
	say(p.client, "x");
	hear(p.server, "x");
	hear_reset(p.client);
	hear_reset(p.server);
	close_both(&p);
	await_text(rig.log, "up=1 down=0 ");
	await_text(rig.log, "us idle\n");
	rig_end(&rig);
}

/* ---- targets ---- */

static void a_target_that_is_down_is_passed_over_and_rests(void **state)
{
	uint16_t down = free_port();
	struct rig rig;
	struct pair p;
	int i, late;

	rig_init(state, &rig);
	rig_configure(&rig, "listen 127.0.0.1:%u to 127.0.0.1:%u 127.0.0.1:%u\n",
		      rig.at, down, rig.to);
	rig_run(state, &rig, "1");
	p = connect_both(&rig);
	close_both(&p);
	late = listen_on(down, 16); /* It is up again, but is left alone. */
	for (i = 0; i < 4; i++) {
		p = connect_both(&rig);
		close_both(&p);
	}
	assert_false(comes(late, 0));
	close(late);
	rig_end(&rig);
}

static void targets_take_turns(void **state)
{
	uint16_t second = free_port();
	int other = listen_on(second, 16), i, server, client;
	struct rig rig;

	rig_init(state, &rig);
	rig_configure(&rig, "listen 127.0.0.1:%u to 127.0.0.1:%u 127.0.0.1:%u\n",
		      rig.at, rig.to, second);
	rig_run(state, &rig, "1");
	for (i = 0; i < 6; i++) {
		client = dial(rig.at);
		server = take(i % 2 ? other : rig.target);
		close(client);
		close(server);
	}
	close(other);
	rig_end(&rig);
}

static void no_target_is_a_reset(void **state)
{
	struct rig rig;
	int client;

	rig_init(state, &rig);
	rig_configure(&rig, "listen 127.0.0.1:%u to 127.0.0.1:%u\nlog %s\n",
		      rig.at, free_port(), rig.log);
	rig_run(state, &rig, "1");
	client = dial(rig.at);
	hear_reset(client);
	close(client);
	await_text(rig.log, "us no-target\n");
	rig_end(&rig);
}

/* A queue of one that is full: who comes then hears nothing. */
static void a_target_that_does_not_answer_is_passed_over(void **state)
{
	uint16_t mute = free_port();
	int full = listen_on(mute, 0), first = dial(mute);
	struct rig rig;
	struct pair p;

	rig_init(state, &rig);
	rig_configure(&rig, "connect-timeout 0.1\n"
		      "listen 127.0.0.1:%u to 127.0.0.1:%u 127.0.0.1:%u\n",
		      rig.at, mute, rig.to);
	rig_run(state, &rig, "1");
	p = connect_both(&rig);
	say(p.client, "x");
	hear(p.server, "x");
	close_both(&p);
	close(first);
	close(full);
	rig_end(&rig);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(bytes_go_both_ways_unchanged),
		CASE(who_has_closed_one_way_still_hears_the_other),
		CASE(and_the_target_may_close_first),
		CASE(unix_sockets_are_as_good),
		CASE(cores_share_one_port),
		CASE(a_slow_reader_holds_up_the_writer),
		CASE(idle_connections_hold_no_buffers),
		CASE(who_carries_much_gets_a_pipe),
		CASE(a_pipe_that_was_cut_off_is_nobody_elses),
		CASE(nor_is_one_that_was_filled_at_the_end),
		CASE(unix_sockets_are_spliced_too),
		CASE(sends_without_a_copy_are_as_good),
		CASE(a_reset_is_passed_on),
		CASE(a_reset_is_seen_while_the_other_does_not_read),
		CASE(who_says_nothing_for_long_is_dropped),
		CASE(a_target_that_is_down_is_passed_over_and_rests),
		CASE(targets_take_turns),
		CASE(no_target_is_a_reset),
		CASE(a_target_that_does_not_answer_is_passed_over),
	};

	signal(SIGPIPE, SIG_IGN);
	return harness_run(cases, N_OF(cases));
}
