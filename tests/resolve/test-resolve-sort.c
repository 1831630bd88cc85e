/* SPDX-License-Identifier: BSD-3-Clause */

/* The order of addresses, by the rules and the examples of RFC 6724, section 10.2. */

#include "tests/support/harness.h"

#include <arpa/inet.h>

#include "resolve/resolve.h"

static struct source_address source_of(const char *text)
{
	struct source_address ret = { .is_reached = text != NULL };
	struct weir_resolve_address a;

	if (!text)
		return ret;
	assert_true(address_parse(&a, text));
	if (a.addr.sa.sa_family == AF_INET6) {
		ret.addr = a.addr.in6.sin6_addr;
		return ret;
	}
	ret.addr.s6_addr[10] = ret.addr.s6_addr[11] = 0xff;
	memcpy(ret.addr.s6_addr + 12, &a.addr.in.sin_addr, 4);
	return ret;
}

static int order(const char *a, const char *from_a, const char *b,
		 const char *from_b)
{
	struct source_address s_a = source_of(from_a), s_b = source_of(from_b);
	struct weir_resolve_address d_a, d_b;
	int forth, back;

	assert_true(address_parse(&d_a, a));
	assert_true(address_parse(&d_b, b));
	forth = sort_compare(&d_a, &s_a, &d_b, &s_b);
	back = sort_compare(&d_b, &s_b, &d_a, &s_a);
	assert_int_equal((forth > 0) - (forth < 0), (back < 0) - (back > 0));
	return forth;
}

#define FIRST(a, from_a, b, from_b) assert_true(order(a, from_a, b, from_b) < 0)

static void order_is_that_of_the_examples_of_the_rfc(void **state)
{
	(void)state;
	/* Prefer matching scope. */
	FIRST("2001:db8:1::1", "2001:db8:1::2", "198.51.100.121",
	      "169.254.13.78");
	FIRST("198.51.100.121", "198.51.100.117", "2001:db8:1::1",
	      "fe80::1");
	/* Prefer higher precedence. */
	FIRST("2001:db8:1::1", "2001:db8:1::2", "10.1.2.3", "10.1.2.4");
	/* Prefer smaller scope. */
	FIRST("fe80::1", "fe80::2", "2001:db8:1::1", "2001:db8:1::2");
	/* Prefer matching label. */
	FIRST("2002:c633:6401::1", "2002:c633:6401::2", "2001:db8:1::1",
	      "2002:c633:6401::2");
	/* Prefer higher precedence: 6to4 is behind native IPv6. */
	FIRST("2001:db8:1::1", "2001:db8:1::2", "2002:c633:6401::1",
	      "2002:c633:6401::2");
	/* And IPv4 is before ULA that is not ours. */
	FIRST("198.51.100.121", "198.51.100.117", "fd00::1", "2001:db8::2");
}

static void destination_without_a_route_is_last(void **state)
{
	(void)state;
	FIRST("192.0.2.1", "192.0.2.2", "2001:db8::1", NULL);
	FIRST("2001:db8::1", NULL, "192.0.2.1", NULL);
}

static void longest_prefix_decides_for_ipv6_only(void **state)
{
	(void)state;
	FIRST("2001:db8:1::1", "2001:db8:1::9", "2001:db8:8::1",
	      "2001:db8:1::9");
	/* Behind the prefix of a network it says nothing. */
	assert_int_equal(order("2001:db8:1::1", "2001:db8:1::1",
			       "2001:db8:1::8", "2001:db8:1::1"), 0);
	assert_int_equal(order("192.0.2.1", "192.0.2.2", "198.51.100.1",
			       "192.0.2.2"), 0);
}

static void sorting_keeps_the_order_of_equals(void **state)
{
	struct found f = { .n = 0 };
	struct weir_resolve_address a;
	char text[32];

	(void)state;
	for (int i = 0; i < ADDRESSES_MAX + 3; i++) {
		snprintf(text, sizeof(text), "127.0.0.%d", 200 - i);
		assert_true(address_parse(&a, text));
		found_add(&f, &a.addr.sa, 1, 80);
	}
	assert_int_equal(f.n, ADDRESSES_MAX);
	sort_addresses(&f);
	for (int i = 0; i < ADDRESSES_MAX; i++)
		assert_int_equal(ntohl(f.at[i].addr.in.sin_addr.s_addr),
				 0x7f000000 + 200 - i);
}

static void sorting_asks_the_kernel_for_routes(void **state)
{
	struct weir_resolve_address a, b;
	struct found f = { .n = 0 };
	struct source_address s;

	(void)state;
	assert_true(address_parse(&a, "127.0.0.1"));
	/* No machine is connected to a group of this kind. */
	assert_true(address_parse(&b, "255.255.255.255"));
	sort_find_source(&a, &s);
	assert_true(s.is_reached);
	assert_int_equal(s.addr.s6_addr[12], 127);
	sort_find_source(&b, &s);
	assert_false(s.is_reached);
	found_add(&f, &b.addr.sa, 1, 80);
	found_add(&f, &a.addr.sa, 1, 80);
	sort_addresses(&f);
	assert_true(address_equal(&f.at[0], &a));
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(order_is_that_of_the_examples_of_the_rfc),
		CASE(destination_without_a_route_is_last),
		CASE(longest_prefix_decides_for_ipv6_only),
		CASE(sorting_keeps_the_order_of_equals),
		CASE(sorting_asks_the_kernel_for_routes),
	};

	return harness_run_plain(cases, N_OF(cases));
}
