/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses of weir-proxy: who the client is, in the header of the PROXY
 * protocol and in the log, and who may connect to the name of a UNIX socket.
 */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/stat.h>

#include "tests/support/proxy-fixture.h"

static const unsigned char head[12] = "\r\n\r\n\0\r\nQUIT\n";

/* Of a client that came by IPv4: TCP4, both addresses and both ports. */
static void hear_header(const struct fixture *fixture, const struct pair *p)
{
	unsigned char want[28], got[28];
	struct sockaddr_in in;
	socklen_t len = sizeof(in);

	getsockname(p->client, (void *)&in, &len);
	memcpy(want, head, sizeof(head));
	memcpy(want + 12, "\x21\x11\0\x0c\x7f\0\0\1\x7f\0\0\1", 12);
	memcpy(want + 24, &in.sin_port, 2);
	want[26] = (unsigned char)(fixture->at >> 8);
	want[27] = (unsigned char)fixture->at;
	assert_int_equal(recv(p->server, got, 28, MSG_WAITALL), 28);
	assert_memory_equal(got, want, 28);
}

static void the_header_of_the_proxy_protocol_is_exact(void **state)
{
	struct fixture fixture;
	struct pair p;

	fixture_init(state, &fixture);
	fixture_configure(&fixture,
			  "listen 127.0.0.1:%u to 127.0.0.1:%u proxy-v2\n",
			  fixture.at, fixture.to);
	fixture_run(state, &fixture, "1");
	p = connect_both(&fixture);
	say(p.client, "hello");
	hear_header(&fixture, &p);
	hear(p.server, "hello");
	close_both(&p);
	fixture_end(&fixture);
}

static bool has_ipv6(void)
{
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

/* Where all of IPv6 and IPv4 is listened at, IPv4 is quoted in IPv6. */
static void client_over_ipv4_is_logged_with_its_ipv4_address(void **state)
{
	struct fixture fixture;
	struct pair p;

	if (!has_ipv6())
		skip_because("there is no IPv6");
	fixture_init(state, &fixture);
	fixture_configure(&fixture,
			  "log %s\nlisten *:%u to 127.0.0.1:%u proxy-v2\n",
			  fixture.log, fixture.at, fixture.to);
	fixture_run(state, &fixture, "1");
	p = connect_both(&fixture);
	hear_header(&fixture, &p);
	close_both(&p);
	await_text(fixture.log, " 127.0.0.1:");
	fixture_end(&fixture);
}

static void and_the_header_of_a_unix_socket(void **state)
{
	unsigned char want[232] = { 0 }, got[232];
	struct fixture fixture;
	char at[80];
	int client, server;

	fixture_init(state, &fixture);
	snprintf(at, sizeof(at), "%s", test_path(state, "at"));
	fixture_configure(&fixture, "listen unix:%s to 127.0.0.1:%u proxy-v2\n",
			  at, fixture.to);
	fixture_run(state, &fixture, "1");
	client = dial_unix(at);
	server = take(fixture.target);
	memcpy(want, head, sizeof(head));
	memcpy(want + 12, "\x21\x31\0\xd8", 4);
	memcpy(want + 16 + 108, at, strlen(at));
	assert_int_equal(recv(server, got, 232, MSG_WAITALL), 232);
	assert_memory_equal(got, want, 232);
	close(client);
	close(server);
	fixture_end(&fixture);
}

/* ---- who may connect ---- */

static void expect_mode(void **state, const char *setting, mode_t mode)
{
	struct fixture fixture;
	struct stat st;
	char at[80];
	int client;

	fixture_init(state, &fixture);
	snprintf(at, sizeof(at), "%s", test_path(state, "at"));
	fixture_configure(&fixture, "%s\nlisten unix:%s to 127.0.0.1:%u\n",
			  setting, at, fixture.to);
	fixture_run(state, &fixture, "1");
	client = dial_unix(at);
	close(take(fixture.target)); /* It is up, and can be ended. */
	close(client);
	assert_int_equal(stat(at, &st), 0);
	assert_int_equal(st.st_mode & 07777, mode);
	fixture_end(&fixture);
}

static void a_name_is_its_owners_alone(void **state)
{
	expect_mode(state, "", 0600);
}

static void or_everybodys_if_that_is_said_whatever_the_umask(void **state)
{
	mode_t before = umask(077);

	expect_mode(state, "unix-mode 0666", 0666);
	umask(before);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(the_header_of_the_proxy_protocol_is_exact),
		CASE(client_over_ipv4_is_logged_with_its_ipv4_address),
		CASE(and_the_header_of_a_unix_socket),
		CASE(a_name_is_its_owners_alone),
		CASE(or_everybodys_if_that_is_said_whatever_the_umask),
	};

	signal(SIGPIPE, SIG_IGN);
	return harness_run(cases, N_OF(cases));
}
