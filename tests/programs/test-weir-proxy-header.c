/* SPDX-License-Identifier: BSD-3-Clause */
/* The header of the PROXY protocol: what weir-proxy makes, and what it takes. */

#include "tests/support/harness.h"

#include "programs/weir-proxy/weir-proxy.h"

#define V2 "\r\n\r\n\0\r\nQUIT\n"

struct text {
	const char *bytes;
	size_t len;
	const char *client, *local;	/* NULL: they stay as they were. */
};

#define TEXT(bytes, client, local) { bytes, sizeof(bytes) - 1, client, local }

static const struct text good[] = {
	TEXT("PROXY TCP4 192.0.2.1 198.51.100.1 56324 443\r\n",
	     "192.0.2.1:56324", "198.51.100.1:443"),
	TEXT("PROXY TCP6 2001:db8::1 2001:db8::2 0 65535\r\n",
	     "[2001:db8::1]:0", "[2001:db8::2]:65535"),
	TEXT("PROXY TCP6 ::ffff:192.0.2.1 ::1 1 2\r\n", "192.0.2.1:1", "[::1]:2"),
	TEXT("PROXY UNKNOWN\r\n", NULL, NULL),
	TEXT("PROXY UNKNOWN ffff:f...f:ffff 1 2 3\r\n", NULL, NULL),
	TEXT(V2 "\x21\x11\0\x0c\xc0\0\2\1\xc6\x33\x64\1\xdc\4\1\xbb",
	     "192.0.2.1:56324", "198.51.100.1:443"),
	/* With what else a proxy says, which is skipped. */
	TEXT(V2 "\x21\x11\0\x10\xc0\0\2\1\xc6\x33\x64\1\xdc\4\1\xbb\4\0\1x",
	     "192.0.2.1:56324", "198.51.100.1:443"),
	TEXT(V2 "\x21\x21\0\x24\x20\1\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\1"
	     "\x20\1\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\2\0\1\0\2",
	     "[2001:db8::1]:1", "[2001:db8::2]:2"),
	TEXT(V2 "\x20\0\0\0", NULL, NULL),	/* A health check. */
	TEXT(V2 "\x20\x41\0\0", NULL, NULL), /* Of an unknown family. */
	TEXT(V2 "\x20\x11\0\x0c\xc0\0\2\1\xc6\x33\x64\1\xdc\4\1\xbb", NULL, NULL),
	TEXT(V2 "\x21\0\0\2xx", NULL, NULL),	/* No family. */
};

static const struct text bad[] = {
	TEXT("GET / HTTP/1.1\r\n", NULL, NULL),
	TEXT("PROXY  TCP4 192.0.2.1 198.51.100.1 1 2\r\n", NULL, NULL),
	TEXT("PROXY TCP4 192.0.2.1 198.51.100.1 1 2\n", NULL, NULL),
	TEXT("PROXY TCP4 192.0.2.1 198.51.100.1 1\r\n", NULL, NULL),
	TEXT("PROXY TCP4 192.0.2.1 198.51.100.1 1 2 3\r\n", NULL, NULL),
	TEXT("PROXY TCP4 192.0.2.1 198.51.100.1 1 65536\r\n", NULL, NULL),
	TEXT("PROXY TCP4 192.0.2.1 198.51.100.1 +1 2\r\n", NULL, NULL),
	TEXT("PROXY TCP4 192.0.2.1 198.51.100.1 1a 2\r\n", NULL, NULL),
	TEXT("PROXY TCP4 192.0.2.1 198.51.100.1 1 \r\n", NULL, NULL),
	TEXT("PROXY TCP4 192.0.2 198.51.100.1 1 2\r\n", NULL, NULL),
	TEXT("PROXY TCP4 ::1 ::1 1 2\r\n", NULL, NULL),
	TEXT("PROXY TCP5 192.0.2.1 198.51.100.1 1 2\r\n", NULL, NULL),
	TEXT("PROXY TCP4 192.0.2.1\0 198.51.100.1 1 2\r\n", NULL, NULL),
	TEXT("PROXY UNKNOWNS\r\n", NULL, NULL),
	TEXT("PROXY \r\n", NULL, NULL),
	TEXT("PROXY TCP4 192.0.2.1 198.51.100.1 1 2                             "
	     "                                       \r\n", NULL, NULL),
	TEXT("\r\n\r\n\0\r\nQUIT\r", NULL, NULL),
	TEXT(V2 "\x11\x11\0\x0c\xc0\0\2\1\xc6\x33\x64\1\xdc\4\1\xbb", NULL, NULL),
	TEXT(V2 "\x22\x11\0\x0c\xc0\0\2\1\xc6\x33\x64\1\xdc\4\1\xbb", NULL, NULL),
	TEXT(V2 "\x21\x11\0\x0b\xc0\0\2\1\xc6\x33\x64\1\xdc\4\1", NULL, NULL),
	TEXT(V2 "\x21\x21\0\x23", NULL, NULL),	/* Too short for IPv6. */
	TEXT(V2 "\x21\x31\0\xd7", NULL, NULL),	/* And for a name. */
	TEXT(V2 "\x21\x41\0\0", NULL, NULL),	/* A family that is none. */
	TEXT(V2 "\x21\x13\0\x0c", NULL, NULL),
	TEXT(V2 "\x21\x11\xff\xff", NULL, NULL), /* Longer than what is taken. */
};

static void check_name(const struct address *a, const char *want)
{
	char name[NAME_MAX_ADDRESS] = "as it was";

	if (a->len)
		address_print(name, a);
	assert_string_equal(name, want ? want : "as it was");
}

static void headers_of_proxies_are_taken(void **state)
{
	(void)state;
	for (size_t i = 0; i < N_OF(good); i++) {
		struct address client = { .len = 0 }, local = { .len = 0 };
		unsigned char more[512];

		/* What follows is not the header's. */
		memcpy(more, good[i].bytes, good[i].len);
		memset(more + good[i].len, 'x', 100);
		assert_int_equal(header_parse(more, good[i].len + 100, &client,
					      &local), good[i].len);
		check_name(&client, good[i].client);
		check_name(&local, good[i].local);
	}
}

static void beginnings_of_headers_are_incomplete(void **state)
{
	struct address client = { .len = 0 }, local = { .len = 0 };

	(void)state;
	for (size_t i = 0; i < N_OF(good); i++)
		for (size_t len = 0; len < good[i].len; len++) {
			/* Valgrind and ASan see what is read behind it. */
			unsigned char *part = malloc(len + !len);

			assert_non_null(part);
			memcpy(part, good[i].bytes, len);
			assert_int_equal(header_parse(part, len, &client,
						      &local), 0);
			free(part);
		}
	assert_int_equal(client.len, 0);
}

static void bytes_that_are_nearly_a_header_are_refused(void **state)
{
	struct address client = { .len = 0 }, local = { .len = 0 };

	(void)state;
	for (size_t i = 0; i < N_OF(bad); i++) {
		assert_int_equal(header_parse((const void *)bad[i].bytes,
					      bad[i].len, &client, &local), -1);
		assert_int_equal(client.len + local.len, 0);
	}
}

static void line_without_an_end_is_refused_at_its_limit(void **state)
{
	struct address client, local;
	unsigned char line[200];

	(void)state;
	memset(line, '1', sizeof(line));
	memcpy(line, "PROXY TCP4 ", 11);
	assert_int_equal(header_parse(line, 106, &client, &local), 0);
	assert_int_equal(header_parse(line, 107, &client, &local), -1);
}

static void header_that_is_made_is_taken(void **state)
{
	static const char *const pairs[][2] = {
		{ "192.0.2.1:1", "198.51.100.1:65535" },
		{ "[2001:db8::1]:1", "[fe80::1234:5678:9abc:def0]:2" },
		{ "unix:/a/client", "unix:/a/server" },
	};
	unsigned char header[HEADER_CAPACITY];

	(void)state;
	for (size_t i = 0; i < N_OF(pairs); i++)
		for (int v = HEADER_V1; v <= HEADER_V2; v++) {
			struct address from, at, client = { .len = 0 };
			struct address local = { .len = 0 };
			bool knows = v == HEADER_V2 || i < 2;
			size_t len;

			assert_int_equal(address_parse(&from, pairs[i][0]), 0);
			assert_int_equal(address_parse(&at, pairs[i][1]), 0);
			len = header_make(header, v, &from, &at);
			assert_true(len <= sizeof(header));
			assert_int_equal(header_parse(header, len, &client,
						      &local), len);
			check_name(&client, knows ? pairs[i][0] : NULL);
			check_name(&local, knows ? pairs[i][1] : NULL);
		}
}

static void networks_have_their_addresses(void **state)
{
	static const struct { const char *net, *addr; bool has; } rows[] = {
		{ "10.0.0.0/8", "10.255.0.1:1", true },
		{ "10.0.0.0/8", "11.0.0.1:1", false },
		{ "192.0.2.128/25", "192.0.2.127:1", false },
		{ "192.0.2.128/25", "192.0.2.128:1", true },
		{ "192.0.2.1", "192.0.2.1:1", true },
		{ "192.0.2.1", "192.0.2.0:1", false },
		{ "0.0.0.0/0", "203.0.113.9:1", true },
		{ "0.0.0.0/0", "[::1]:1", false },
		{ "2001:db8::/33", "[2001:db8:7fff::]:1", true },
		{ "2001:db8::/33", "[2001:db8:8000::]:1", false },
		{ "unix", "unix:/x", true },
		{ "unix", "127.0.0.1:1", false },
	};
	struct address a;
	struct net net;

	(void)state;
	for (size_t i = 0; i < N_OF(rows); i++) {
		assert_int_equal(net_parse(&net, rows[i].net), 0);
		assert_int_equal(address_parse(&a, rows[i].addr), 0);
		assert_int_equal(net_has(&net, &a), rows[i].has);
	}
	assert_int_equal(net_parse(&net, "10.0.0.0/33"), -1);
	assert_int_equal(net_parse(&net, "10.0.0/8"), -1);
	assert_int_equal(net_parse(&net, "::/129"), -1);
	assert_int_equal(net_parse(&net, ""), -1);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(headers_of_proxies_are_taken),
		CASE(beginnings_of_headers_are_incomplete),
		CASE(bytes_that_are_nearly_a_header_are_refused),
		CASE(line_without_an_end_is_refused_at_its_limit),
		CASE(header_that_is_made_is_taken),
		CASE(networks_have_their_addresses),
	};

	return harness_run_plain(cases, N_OF(cases));
}
