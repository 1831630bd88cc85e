/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The order of RFC 6724, section 6: which of the addresses of a name to try first.
 *
 * Both sources could do it, but each in its own way, and c-ares with sockets of its
 * own.  The kernel is asked for the source address of each destination, by
 * connecting a UDP socket to it: nothing is sent.  Rules 3, 4 and 7 (deprecated
 * addresses, home addresses, tunnels) need what the kernel does not tell, and are
 * left out, as in other implementations for user space.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "resolve/resolve.h"

/* The policy table of section 2.1; the longest prefix that matches decides. */
static const struct policy {
	uint8_t prefix[16];
	uint8_t bits, precedence, label;
} policies[] = {
	{ { [15] = 1 }, 128, 50, 0 },				/* ::1 */
	{ { [10] = 0xff, 0xff }, 96, 35, 4 },			/* IPv4 */
	{ { 0 }, 96, 1, 3 },					/* compatible */
	{ { 0x20, 0x01 }, 32, 5, 5 },				/* Teredo */
	{ { 0x20, 0x02 }, 16, 30, 2 },				/* 6to4 */
	{ { 0x3f, 0xfe }, 16, 1, 12 },				/* 6bone */
	{ { 0xfe, 0xc0 }, 10, 1, 11 },				/* site-local */
	{ { 0xfc }, 7, 3, 13 },					/* ULA */
	{ { 0 }, 0, 40, 1 },
};

static unsigned int common_bits(const uint8_t *a, const uint8_t *b)
{
	unsigned int n = 0;

	while (n < 128 && !((a[n / 8] ^ b[n / 8]) & (0x80 >> n % 8)))
		n++;
	return n;
}

static const struct policy *policy_of(const struct in6_addr *a)
{
	const struct policy *p = policies;

	while (common_bits(p->prefix, a->s6_addr) < p->bits)
		p++;
	return p;
}

/* Scopes of section 3.1; those of IPv4 by section 3.2. */
static int scope_of(const struct in6_addr *a)
{
	const uint8_t *b = a->s6_addr;

	if (IN6_IS_ADDR_V4MAPPED(a))
		return b[12] == 127 || (b[12] == 169 && b[13] == 254) ? 2 : 14;
	if (b[0] == 0xff)
		return b[1] & 15;
	if (IN6_IS_ADDR_LINKLOCAL(a) || IN6_IS_ADDR_LOOPBACK(a))
		return 2;
	return IN6_IS_ADDR_SITELOCAL(a) ? 5 : 14;
}

static struct in6_addr to_in6(const struct sockaddr *sa)
{
	struct in6_addr a = { .s6_addr = { [10] = 0xff, 0xff } };

	if (sa->sa_family == AF_INET6)
		return ((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr;
	memcpy(a.s6_addr + 12,
	       &((const struct sockaddr_in *)(const void *)sa)->sin_addr, 4);
	return a;
}

void sort_find_source(const struct weir_resolve_address *dst,
		      struct source_address *ret)
{
	struct weir_resolve_address to = *dst, from = { 0 };
	socklen_t len = sizeof(from.addr);
	int fd = socket(dst->addr.sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	*ret = (struct source_address){ .is_reached = false };
	if (fd < 0)
		return;
	address_set_port(&to, 9); /* Port 0 is refused by some kernels. */
	if (!connect(fd, &to.addr.sa, to.len) &&
	    !getsockname(fd, &from.addr.sa, &len)) {
		ret->is_reached = true;
		ret->addr = to_in6(&from.addr.sa);
	}
	close(fd);
}

/* < 0: @a is better. */
int sort_compare(const struct weir_resolve_address *a,
		 const struct source_address *from_a,
		 const struct weir_resolve_address *b,
		 const struct source_address *from_b)
{
	struct in6_addr to_a = to_in6(&a->addr.sa), to_b = to_in6(&b->addr.sa);
	const struct policy *p_a = policy_of(&to_a), *p_b = policy_of(&to_b);
	int fits_a, fits_b;

	/* Rule 1: avoid unusable destinations. */
	if (from_a->is_reached != from_b->is_reached)
		return from_a->is_reached ? -1 : 1;
	if (from_a->is_reached) {
		/* Rule 2: prefer matching scope. */
		fits_a = scope_of(&to_a) == scope_of(&from_a->addr);
		fits_b = scope_of(&to_b) == scope_of(&from_b->addr);
		if (fits_a != fits_b)
			return fits_b - fits_a;
		/* Rule 5: prefer matching label. */
		fits_a = p_a->label == policy_of(&from_a->addr)->label;
		fits_b = p_b->label == policy_of(&from_b->addr)->label;
		if (fits_a != fits_b)
			return fits_b - fits_a;
	}
	/* Rule 6: prefer higher precedence. */
	if (p_a->precedence != p_b->precedence)
		return p_b->precedence - p_a->precedence;
	/* Rule 8: prefer smaller scope. */
	if (scope_of(&to_a) != scope_of(&to_b))
		return scope_of(&to_a) - scope_of(&to_b);
	/* Rule 9: use the longest matching prefix, of IPv6 only: for IPv4 it
	 * would defeat servers that spread load by the order of addresses. */
	if (from_a->is_reached && a->addr.sa.sa_family == AF_INET6 &&
	    b->addr.sa.sa_family == AF_INET6) {
		fits_a = (int)common_bits(to_a.s6_addr, from_a->addr.s6_addr);
		fits_b = (int)common_bits(to_b.s6_addr, from_b->addr.s6_addr);
		/* Interface identifiers say nothing of a route. */
		fits_a = fits_a > 64 ? 64 : fits_a;
		fits_b = fits_b > 64 ? 64 : fits_b;
		return fits_b - fits_a;
	}
	/* Rule 10: leave the order unchanged. */
	return 0;
}

/* By insertion, which is stable: there are few. */
void sort_addresses(struct found *f)
{
	struct source_address from[ADDRESSES_MAX], source;
	struct weir_resolve_address a;
	uint32_t i, at;

	for (i = 0; f->n > 1 && i < f->n; i++) {
		a = f->at[i];
		sort_find_source(&a, &source);
		for (at = i; at && sort_compare(&a, &source, &f->at[at - 1],
						&from[at - 1]) < 0; at--) {
			f->at[at] = f->at[at - 1];
			from[at] = from[at - 1];
		}
		f->at[at] = a;
		from[at] = source;
	}
}
