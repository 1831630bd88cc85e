/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Targets of weir-proxy: which one a connection gets, names, health checks, and
 * proxies in front of it.
 */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "tests/support/dns-fixture.h"
#include "tests/support/proxy-fixture.h"

#define LARGE (1u << 20)

/* ---- proxies in front ---- */

static void begin_behind_proxy(void **state, struct fixture *f, const char *nets,
			       const char *header)
{
	fixture_init(state, f);
	fixture_configure(f, "log %s\nlisten 127.0.0.1:%u accept-proxy=%s to "
			  "127.0.0.1:%u %s\n", f->log, f->at, nets, f->to,
			  header);
	fixture_run(state, f, "1");
}

static void client_behind_proxies_is_passed_on(void **state)
{
	static const char v2[] = "\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c"
				 "\xc0\0\2\x09\xc6\x33\x64\1\x04\xd2\0\x50";
	static const char v1[] =
		"PROXY TCP4 192.0.2.9 198.51.100.1 1234 80\r\n";
	struct fixture f;
	struct pair p;
	char got[28];

	begin_behind_proxy(state, &f, "127.0.0.0/8", "proxy-v2");
	p.client = dial(f.at);
	say(p.client, v1);
	p.server = take(f.target);
	say(p.client, "hello");
	assert_int_equal(recv(p.server, got, 28, MSG_WAITALL), 28);
	assert_memory_equal(got, v2, 28);
	hear(p.server, "hello");
	transfer(p.client, p.server, LARGE, 1);
	transfer(p.server, p.client, LARGE, 2);
	close_both(&p);
	await_text(f.log, " 192.0.2.9:1234 ");
	fixture_end(&f);

	/* And the other way round, with bytes that come at the same time. */
	begin_behind_proxy(state, &f, "10.0.0.0/8,127.0.0.1", "proxy-v1");
	p.client = dial(f.at);
	assert_int_equal(write(p.client, v2, 28), 28);
	say(p.client, "hello");
	p.server = take(f.target);
	hear(p.server, v1);
	hear(p.server, "hello");
	close_both(&p);
	fixture_end(&f);
}

static void header_may_come_byte_by_byte_and_alone(void **state)
{
	static const char v1[] =
		"PROXY TCP4 192.0.2.9 198.51.100.1 1234 80\r\nhello";
	int one = 1;
	struct fixture f;
	struct pair p;

	begin_behind_proxy(state, &f, "0.0.0.0/0", "");
	p.client = dial(f.at);
	setsockopt(p.client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	for (const char *at = v1; *at; at++) {
		assert_int_equal(write(p.client, at, 1), 1);
		sched_yield();
	}
	p.server = take(f.target);
	hear(p.server, "hello");
	say(p.server, "world");
	hear(p.client, "world");
	close_both(&p);
	/* The target speaks first. */
	p.client = dial(f.at);
	say(p.client, "PROXY UNKNOWN\r\n");
	p.server = take(f.target);
	say(p.server, "welcome");
	hear(p.client, "welcome");
	close_both(&p);
	fixture_end(&f);
}

static void connection_without_its_header_is_reset(void **state)
{
	struct fixture f;
	struct pair p;
	int client;

	begin_behind_proxy(state, &f, "127.0.0.1", "");
	client = dial(f.at);
	say(client, "GET / HTTP/1.1\r\n\r\n");
	hear_reset(client);
	close(client);
	await_text(f.log, "us bad-header\n");
	/* One that is reset when it has been accepted, as another after it was. */
	client = dial(f.at);
	p.client = dial(f.at);
	say(p.client, "PROXY UNKNOWN\r\n");
	p.server = take(f.target);
	close_both(&p);
	reset(client);
	await_text(f.log, "us reset\n");
	/* One that may be before. */
	client = dial(f.at);
	say(client, "PROXY ");
	reset(client);
	/* One that ends before it has said all. */
	client = dial(f.at);
	say(client, "PROXY ");
	shutdown(client, SHUT_WR);
	hear_reset(client);
	close(client);
	assert_false(comes(f.target, 0));
	fixture_end(&f);
}

static void header_of_a_stranger_is_data(void **state)
{
	struct fixture f;
	struct pair p;

	begin_behind_proxy(state, &f, "192.0.2.0/24,unix", "");
	p = connect_both(&f);
	say(p.client, "PROXY TCP4 192.0.2.9 198.51.100.1 1234 80\r\n");
	hear(p.server, "PROXY TCP4 192.0.2.9 198.51.100.1 1234 80\r\n");
	close_both(&p);
	await_text(f.log, " 127.0.0.1:");
	fixture_end(&f);
}

/* ---- the choice ---- */

static void targets_get_turns_by_weight(void **state)
{
	uint16_t second = free_port();
	int other = listen_on(second, 16), client, n = 0;
	struct fixture f;

	fixture_init(state, &f);
	fixture_configure(&f, "listen 127.0.0.1:%u to 127.0.0.1:%u weight=3 "
			  "127.0.0.1:%u\n", f.at, f.to, second);
	fixture_run(state, &f, "1");
	for (int i = 0; i < 12; i++) {
		struct pollfd p[2] = { { f.target, POLLIN, 0 },
				       { other, POLLIN, 0 } };

		client = dial(f.at);
		assert_int_equal(poll(p, 2, -1), 1);
		n += p[0].revents != 0;
		close(take(p[0].revents ? f.target : other));
		close(client);
		/* And no target is left out for long. */
		if (i % 4 == 3)
			assert_int_equal(n, 3 * (i + 1) / 4);
	}
	close(other);
	fixture_end(&f);
}

static void target_with_the_fewest_connections_is_chosen(void **state)
{
	uint16_t second = free_port();
	int other = listen_on(second, 16);
	struct pair p[4];
	struct fixture f;

	fixture_init(state, &f);
	fixture_configure(&f, "log %s\nlisten 127.0.0.1:%u to 127.0.0.1:%u "
			  "127.0.0.1:%u balance=leastconn\n", f.log, f.at, f.to,
			  second);
	fixture_run(state, &f, "1");
	p[0] = connect_both(&f);
	p[1].client = dial(f.at);
	p[1].server = take(other);
	/* Of equals it is the one that was not chosen last. */
	p[2] = connect_both(&f);
	/* The second has none now: it gets two. */
	close_both(&p[1]);
	await_text(f.log, "us done\n");
	for (int i = 0; i < 2; i++) {
		p[1 + 2 * i].client = dial(f.at);
		p[1 + 2 * i].server = take(other);
	}
	for (int i = 0; i < 4; i++)
		close_both(&p[i]);
	close(other);
	fixture_end(&f);
}

/* ---- health checks ---- */

#define GOOD "HTTP/1.1 204 No Content\r\n\r\n"
#define BAD "HTTP/1.1 503 Unavailable\r\n\r\n"

/* Answer a check that has come at @fd; true: it was a client, who says "x". */
static bool answer_one(int fd, const char *answer)
{
	char buf[512] = "";
	int server = take(fd);
	ssize_t n = recv(server, buf, sizeof(buf), 0);
	bool is_client = n == 1 && *buf == 'x';

	if (n > 0 && !is_client)
		assert_int_equal(strncmp(buf, "GET /up HTTP/1.0\r\n", 18), 0);
	(void)send(server, answer, strlen(answer), MSG_NOSIGNAL);
	close(server);
	return is_client;
}

/* Answer checks until the proxy says @text. */
static void answer_until(struct fixture *f, const char *answer, const char *text)
{
	while (!has_text_now(f->err, text))
		if (comes(f->target, 10))
			answer_one(f->target, answer);
}

static void answer_of_a_get_decides(void **state)
{
	struct fixture f;

	fixture_init(state, &f);
	fixture_configure(&f, "listen 127.0.0.1:%u to 127.0.0.1:%u check=0.02 "
			  "check-get=/up\n", f.at, f.to);
	fixture_run(state, &f, "1");
	answer_until(&f, BAD, " is down");
	answer_until(&f, GOOD, " is up");
	fixture_end(&f);
}

static void server_is_down_until_it_can_be_reached(void **state)
{
	uint16_t second = free_port();
	struct fixture f;
	int other;

	fixture_init(state, &f);
	fixture_configure(&f, "fall 2\nrise 2\nlisten 127.0.0.1:%u to "
			  "127.0.0.1:%u check=0.02\n", f.at, second);
	fixture_run(state, &f, "1");
	await_text(f.err, " is down");
	other = listen_on(second, 16);
	await_text(f.err, " is up");
	close(other);
	fixture_end(&f);
}

/*
 * Say "x" to the proxy until a server has answered: @f's, whose checks succeed.
 * @other has checks only, and they fail.
 */
static void reach_the_good_one(struct fixture *f, int other)
{
	struct pollfd p[2] = { { f->target, POLLIN, 0 }, { other, POLLIN, 0 } };
	int client = dial(f->at);
	bool is_there = false;

	say(client, "x");
	while (!is_there) {
		poll(p, 2, -1);
		if (p[1].revents)
			assert_false(answer_one(other, BAD));
		if (p[0].revents)
			is_there = answer_one(f->target, GOOD);
	}
	close(client);
}

/* Reload, and wait for the new configuration: its listener at @port, whose target cannot
 * be reached, resets a client. */
static void reload(struct fixture *f, uint16_t port)
{
	int client;

	fixture_signal(f, SIGHUP);
	client = dial(port);
	hear_reset(client);
	close(client);
}

/* The other remains down after a reload, too. */
static void reload_and_reach(struct fixture *f, uint16_t second, int other,
			     const char *more)
{
	uint16_t port = free_port();

	fixture_configure(f, "rest 0\nfall 1000\nlisten 127.0.0.1:%u to "
			  "127.0.0.1:%u 127.0.0.1:%u check=0.02 check-get=/up\n"
			  "listen 127.0.0.1:%u to 127.0.0.1:%u\n%s\n",
			  f->at, second, f->to, port, free_port(), more);
	reload(f, port);
	reach_the_good_one(f, other);
}

static void server_that_is_down_gets_no_connections(void **state)
{
	uint16_t second = free_port();
	int other = listen_on(second, 16);
	struct fixture f;
	char more[64];

	fixture_init(state, &f);
	fixture_configure(&f, "rest 0\nfall 2\nlisten 127.0.0.1:%u to "
			  "127.0.0.1:%u 127.0.0.1:%u check=0.02 check-get=/up\n",
			  f.at, second, f.to);
	fixture_run(state, &f, "1");
	while (!has_text_now(f.err, " is down")) {
		struct pollfd p[2] = { { f.target, POLLIN, 0 },
				       { other, POLLIN, 0 } };

		poll(p, 2, 10);
		if (p[0].revents)
			answer_one(f.target, GOOD);
		if (p[1].revents)
			answer_one(other, BAD);
	}
	for (int i = 0; i < 6; i++)
		reach_the_good_one(&f, other);
	/* Of two servers at an address the one that is checked is known better. */
	snprintf(more, sizeof(more), "listen 127.0.0.1:%u to 127.0.0.1:%u",
		 free_port(), second);
	reload_and_reach(&f, second, other, more);
	reload_and_reach(&f, second, other, "");
	close(other);
	fixture_end(&f);
}

/* Their deadlines are shorter than the time between two of them. */
static void checks_go_on_after_resets(void **state)
{
	struct fixture f;
	int fd;

	fixture_init(state, &f);
	fixture_configure(&f, "connect-timeout 0.01\nlisten 127.0.0.1:%u to "
			  "127.0.0.1:%u check=0.02 check-get=/up\n", f.at, f.to);
	fcntl(f.target, F_SETFL, O_NONBLOCK);
	fixture_run(state, &f, "1");
	/* At once, so that many are reset before the request is sent. */
	for (int i = 0; i < 40; i++) {
		while ((fd = accept4(f.target, NULL, NULL, SOCK_CLOEXEC)) < 0)
			assert_int_equal(errno, EAGAIN);
		reset(fd);
	}
	fixture_end(&f);
}

/* ---- names ---- */

/* A DNS server in a thread of its own. */
struct name_server {
	pthread_t thread;
	struct dns d;
	atomic_bool ready, leave, posted;
	const struct dns_name *names;
	_Atomic(struct weir_reactor *) r;
};

static void *serve_names(void *arg)
{
	struct name_server *s = arg;
	struct weir_reactor *r;

	assert_int_equal(weir_reactor_create(&r, NULL), 0);
	dns_start(&s->d, r, s->names, 1);
	atomic_store(&s->r, r);
	atomic_store(&s->ready, true);
	while (!atomic_load(&s->leave))
		weir_reactor_turn(r, WEIR_FOREVER);
	dns_stop(&s->d);
	/* A post uses the reactor until it returns. */
	while (!atomic_load(&s->posted))
		sched_yield();
	assert_int_equal(weir_reactor_destroy(r), 0);
	return NULL;
}

static void start_names(struct name_server *s, const struct dns_name *names)
{
	memset(s, 0, sizeof(*s));
	s->names = names;
	assert_int_equal(pthread_create(&s->thread, NULL, serve_names, s), 0);
	while (!atomic_load(&s->ready))
		sched_yield();
}

static void take_names(void *arg)
{
	struct name_server *s = arg;

	s->d.names = s->names;
}

static void change_names(struct name_server *s, const struct dns_name *names)
{
	s->names = names;
	assert_int_equal(weir_post(atomic_load(&s->r), take_names, s), 0);
}

/* Answer what was asked of names that are held. */
static void release_now(void *arg)
{
	struct name_server *s = arg;

	take_names(s);
	dns_release(&s->d);
}

static void release_names(struct name_server *s, const struct dns_name *names)
{
	s->names = names;
	assert_int_equal(weir_post(atomic_load(&s->r), release_now, s), 0);
}

static void leave(void *arg)
{
	atomic_store(&((struct name_server *)arg)->leave, true);
}

static void stop_names(struct name_server *s)
{
	assert_int_equal(weir_post(atomic_load(&s->r), leave, s), 0);
	atomic_store(&s->posted, true);
	pthread_join(s->thread, NULL);
}

static const struct dns_name at_one[] = {
	{ .name = "app.test", .addresses = "127.0.0.1" },
};
static const struct dns_name held[] = {
	{ .name = "app.test", .addresses = "127.0.0.1",
	  .flags = DNS_HOLD_A | DNS_HOLD_AAAA },
};
static const struct dns_name at_two[] = {
	{ .name = "app.test", .addresses = "127.0.0.2" },
};

/* Connect until one comes to the listener @fd, not to the fixture's target. */
static struct pair connect_until_at(struct fixture *f, int fd)
{
	struct pair p;

	while (true) {
		struct pollfd either[2] = { { f->target, POLLIN, 0 },
					    { fd, POLLIN, 0 } };

		p.client = dial(f->at);
		poll(either, 2, -1);
		p.server = take(either[1].revents ? fd : f->target);
		if (either[1].revents)
			return p;
		close_both(&p);
	}
}

static void target_follows_its_name(void **state)
{
	struct name_server s;
	struct fixture f;
	struct pair p;
	struct pair q;
	int two;

	start_names(&s, at_one);
	fixture_init(state, &f);
	two = listen_at("127.0.0.2", f.to, 16);
	fixture_configure(&f, "nameservers %s\nresolve 1\n"
			  "listen 127.0.0.1:%u to app.test:%u\n", s.d.server,
			  f.at, f.to);
	fixture_run(state, &f, "1");
	/* The first connection waits for the addresses. */
	p = connect_both(&f);
	change_names(&s, at_two);
	q = connect_until_at(&f, two);
	transfer(q.client, q.server, LARGE, 3);
	for (int i = 0; i < 4; i++) {
		close(dial(f.at));
		close(take(two));
	}
	/* What was connected goes on. */
	transfer(p.client, p.server, LARGE, 4);
	transfer(p.server, p.client, LARGE, 5);
	close_both(&q);
	close_both(&p);
	close(two);
	fixture_end(&f);
	stop_names(&s);
}

static void silence_about_ipv6_does_not_withhold_ipv4(void **state)
{
	static const struct dns_name silent[] = {
		{ .name = "app.test", .addresses = "127.0.0.1",
		  .flags = DNS_SILENT_AAAA },
	};
	struct name_server s;
	struct fixture f;
	struct pair p;

	start_names(&s, silent);
	fixture_init(state, &f);
	fixture_configure(&f, "nameservers %s\nlisten 127.0.0.1:%u to "
			  "app.test:%u\n", s.d.server, f.at, f.to);
	fixture_run(state, &f, "1");
	p = connect_both(&f);
	close_both(&p);
	fixture_end(&f);
	stop_names(&s);
}

/* Write @first, and then the addresses 127.0.1.@from to 127.0.1.(@to - 1), at which
 * nothing listens. */
static const char *dead_addresses(char *text, const char *first, int from, int to)
{
	char *at = text + sprintf(text, "%s", first);

	while (from < to)
		at += sprintf(at, " 127.0.1.%d", from++);
	return text;
}

/* Of all servers that a name ever had there are more than there are bits for those
 * that a connection has tried. */
static void servers_are_all_tried_when_many_have_come_and_gone(void **state)
{
	char text[2][40 * 16];
	struct dns_name before = {
		.name = "app.test", .addresses = dead_addresses(text[0], "", 1, 35),
	};
	struct dns_name after = {
		.name = "app.test",
		.addresses = dead_addresses(text[1], "127.0.0.2", 35, 69),
	};
	struct name_server s;
	struct fixture f;
	struct pair p;
	int two;

	start_names(&s, &before);
	fixture_init(state, &f);
	two = listen_at("127.0.0.2", f.to, 16);
	fixture_configure(&f, "rest 0\nnameservers %s\nresolve 1\n"
			  "listen 127.0.0.1:%u to 127.0.0.1:%u 127.0.0.1:%u "
			  "app.test:%u\n", s.d.server, f.at, free_port(), f.to,
			  f.to);
	fixture_run(state, &f, "1");
	p = connect_both(&f);
	close_both(&p);
	change_names(&s, &after);
	p = connect_until_at(&f, two);
	close_both(&p);
	close(two);
	for (int i = 0; i < 8; i++) {
		p = connect_both(&f);
		close_both(&p);
	}
	fixture_end(&f);
	stop_names(&s);
}

static void name_that_does_not_exist_is_no_target(void **state)
{
	struct name_server s;
	struct fixture f;
	int client;

	start_names(&s, at_one);
	fixture_init(state, &f);
	fixture_configure(&f, "log %s\nnameservers %s\n"
			  "listen 127.0.0.1:%u to nobody.test.:%u\n", f.log,
			  s.d.server, f.at, f.to);
	fixture_run(state, &f, "1");
	client = dial(f.at);
	hear_reset(client);
	close(client);
	await_text(f.log, " - up=0 down=0 ");
	await_text(f.err, "nobody.test.: the name does not exist");
	fixture_end(&f);
	stop_names(&s);
}

/* ---- reload ---- */

static void reload_drains_a_target_that_was_removed(void **state)
{
	struct name_server s;
	uint16_t second = free_port();
	int other = listen_on(second, 16);
	struct fixture f;
	struct pair p, q;

	start_names(&s, at_one);
	fixture_init(state, &f);
	fixture_configure(&f, "nameservers %s\nlisten 127.0.0.1:%u to "
			  "app.test:%u\n", s.d.server, f.at, f.to);
	fixture_run(state, &f, "2");
	p = connect_both(&f);
	fixture_configure(&f, "listen 127.0.0.1:%u to 127.0.0.1:%u\n", f.at,
			  second);
	fixture_signal(&f, SIGHUP);
	q = connect_until_at(&f, other);
	close_both(&q);
	transfer(p.client, p.server, LARGE, 6);
	transfer(p.server, p.client, LARGE, 7);
	close_both(&p);
	close(other);
	fixture_end(&f);
	stop_names(&s);
}

static void name_keeps_its_addresses_over_a_reload(void **state)
{
	uint16_t port = free_port();
	struct name_server s;
	struct fixture f;
	struct pair p;

	start_names(&s, at_one);
	fixture_init(state, &f);
	fixture_configure(&f, "nameservers %s\nlisten 127.0.0.1:%u to "
			  "app.test:%u\n", s.d.server, f.at, f.to);
	fixture_run(state, &f, "1");
	p = connect_both(&f);
	close_both(&p);
	/* Nobody answers then. */
	fixture_configure(&f, "nameservers %s\nlisten 127.0.0.1:%u to "
			  "app.test:%u\nlisten 127.0.0.1:%u to 127.0.0.1:%u\n",
			  s.d.server, f.at, f.to, port, free_port());
	stop_names(&s);
	reload(&f, port);
	p = connect_both(&f);
	close_both(&p);
	fixture_end(&f);
}

static void client_after_a_reload_waits_for_a_name(void **state)
{
	uint16_t more = free_port();
	struct name_server s;
	struct fixture f;
	struct pair p;

	start_names(&s, held);
	fixture_start(state, &f);
	p = connect_both(&f);
	close_both(&p);
	/* Its listener accepts, and still does after this. */
	fixture_configure(&f, "nameservers %s\nlisten 127.0.0.1:%u to "
			  "app.test:%u\nlisten 127.0.0.1:%u to 127.0.0.1:%u\n",
			  s.d.server, f.at, f.to, more, f.to);
	fixture_signal(&f, SIGHUP);
	p.client = dial(more);
	close(take(f.target));
	close(p.client);
	p.client = dial(f.at);
	assert_false(comes(f.target, 50));
	assert_false(comes(p.client, 0));
	release_names(&s, at_one);
	p.server = take(f.target);
	transfer(p.client, p.server, LARGE, 8);
	close_both(&p);
	fixture_end(&f);
	stop_names(&s);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(client_behind_proxies_is_passed_on),
		CASE(header_may_come_byte_by_byte_and_alone),
		CASE(connection_without_its_header_is_reset),
		CASE(header_of_a_stranger_is_data),
		CASE(targets_get_turns_by_weight),
		CASE(target_with_the_fewest_connections_is_chosen),
		CASE(answer_of_a_get_decides),
		CASE(server_is_down_until_it_can_be_reached),
		CASE(server_that_is_down_gets_no_connections),
		CASE(checks_go_on_after_resets),
		CASE(target_follows_its_name),
		CASE(silence_about_ipv6_does_not_withhold_ipv4),
		CASE(servers_are_all_tried_when_many_have_come_and_gone),
		CASE(name_that_does_not_exist_is_no_target),
		CASE(reload_drains_a_target_that_was_removed),
		CASE(name_keeps_its_addresses_over_a_reload),
		CASE(client_after_a_reload_waits_for_a_name),
	};

	return harness_run(cases, N_OF(cases));
}
