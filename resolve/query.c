/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What a query means: its name, its port, its family.
 *
 * The two sources differ in what they take for a name: getaddrinfo(3) takes "127.1"
 * for an address, c-ares asks servers for it.  So names are checked here, and
 * addresses never get to a source.
 */

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "base/opts.h"
#include "resolve/resolve.h"

#define LABEL_MAX 63
#define PORT_MAX 65535

/* An IPv6 address with a zone, "fe80::1%eth0": returns whether it is one. */
static bool parse_in6(struct sockaddr_in6 *in6, const char *text)
{
	char addr[INET6_ADDRSTRLEN];
	const char *zone = strchr(text, '%');
	size_t len = zone ? (size_t)(zone - text) : strlen(text);
	unsigned long index;
	char *end;

	if (len >= sizeof(addr))
		return false;
	memcpy(addr, text, len);
	addr[len] = 0;
	if (inet_pton(AF_INET6, addr, &in6->sin6_addr) != 1)
		return false;
	in6->sin6_family = AF_INET6;
	if (!zone)
		return true;
	index = if_nametoindex(zone + 1);
	if (!index && isdigit((unsigned char)zone[1])) {
		index = strtoul(zone + 1, &end, 10);
		if (*end || index > UINT32_MAX)
			index = 0;
	}
	in6->sin6_scope_id = (uint32_t)index;
	return index > 0;
}

bool address_parse(struct weir_resolve_address *ret, const char *text)
{
	*ret = (struct weir_resolve_address){ .ttl = UINT32_MAX };
	if (inet_pton(AF_INET, text, &ret->addr.in.sin_addr) == 1) {
		ret->addr.in.sin_family = AF_INET;
		ret->len = sizeof(ret->addr.in);
		return true;
	}
	ret->len = sizeof(ret->addr.in6);
	return parse_in6(&ret->addr.in6, text);
}

void address_set_port(struct weir_resolve_address *a, uint16_t port)
{
	if (a->addr.sa.sa_family == AF_INET)
		a->addr.in.sin_port = htons(port);
	else
		a->addr.in6.sin6_port = htons(port);
}

bool address_equal(const struct weir_resolve_address *a,
		   const struct weir_resolve_address *b)
{
	if (a->addr.sa.sa_family != b->addr.sa.sa_family)
		return false;
	if (a->addr.sa.sa_family == AF_INET)
		return a->addr.in.sin_addr.s_addr == b->addr.in.sin_addr.s_addr;
	return !memcmp(&a->addr.in6.sin6_addr, &b->addr.in6.sin6_addr,
		       sizeof(a->addr.in6.sin6_addr)) &&
	       a->addr.in6.sin6_scope_id == b->addr.in6.sin6_scope_id;
}

void found_add(struct found *f, const struct sockaddr *sa, uint32_t ttl,
	       uint16_t port)
{
	struct weir_resolve_address *a = &f->at[f->n];

	if (f->n == ADDRESSES_MAX ||
	    (sa->sa_family != AF_INET && sa->sa_family != AF_INET6))
		return;
	*a = (struct weir_resolve_address){ .ttl = ttl };
	a->len = sa->sa_family == AF_INET ? sizeof(a->addr.in) :
					    sizeof(a->addr.in6);
	memcpy(&a->addr, sa, a->len);
	address_set_port(a, port);
	for (uint32_t i = 0; i < f->n; i++)
		if (address_equal(a, &f->at[i]))
			return;
	f->n++;
}

/* 0, or -EINVAL, -ENAMETOOLONG. */
static int check_name(const char *name, const char *call)
{
	size_t len = strlen(name), label = 0;
	const char *last = name;

	if (len && name[len - 1] == '.')
		len--;
	if (len > WEIR_RESOLVE_NAME_MAX)
		return weir_why_set(-ENAMETOOLONG, "%s: the name has %zu bytes; "
				    "at most %d are possible", call, len,
				    WEIR_RESOLVE_NAME_MAX);
	for (size_t i = 0; i < len; i++) {
		if (name[i] <= ' ' || name[i] > '~')
			return weir_why_set(-EINVAL, "%s: the name has byte %#x; "
					    "names in other scripts are written "
					    "\"xn--...\"", call,
					    (unsigned char)name[i]);
		label = name[i] == '.' ? 0 : label + 1;
		if (label > LABEL_MAX || (name[i] == '.' &&
					  (!i || name[i - 1] == '.')))
			return weir_why_set(-EINVAL, "%s: a label of \"%s\" is "
					    "empty or longer than %d bytes",
					    call, name, LABEL_MAX);
		if (!label)
			last = name + i + 1;
	}
	if (!label)
		return weir_why_set(-EINVAL, "%s: the name is empty", call);
	/* The URL standard's rule: what ends in a number is an IPv4 address. */
	if (last[0] == '0' && (last[1] == 'x' || last[1] == 'X') &&
	    strspn(last + 2, "0123456789abcdefABCDEF") ==
	    (size_t)(name + len - last - 2))
		last = name + len;
	else
		last += strspn(last, "0123456789");
	if (last == name + len)
		return weir_why_set(-EINVAL, "%s: \"%s\" ends in a number and is "
				    "not an address as 192.0.2.1", call, name);
	return 0;
}

static int parse_service(uint16_t *port, const struct weir_resolve_query *src,
			 const char *call)
{
	struct servent entry, *res = NULL;
	char buf[2048], *end;
	unsigned long n;

	if (isdigit((unsigned char)src->service[0])) {
		n = strtoul(src->service, &end, 10);
		if (*end || n > PORT_MAX)
			return weir_why_set(-EINVAL, "%s: \"%s\" is not a port",
					    call, src->service);
		*port = (uint16_t)n;
		return 0;
	}
	if (getservbyname_r(src->service, "tcp", &entry, buf, sizeof(buf),
			    &res) || !res)
		return weir_why_set(-EINVAL, "%s: there is no service \"%s\" of "
				    "TCP; see services(5)", call, src->service);
	*port = ntohs((uint16_t)entry.s_port);
	return 0;
}

int query_check(struct query *q, const struct weir_resolve_query *src,
		const char *call)
{
	struct weir_resolve_query own;
	int err;

	if (!src)
		return weir_why_set(-EINVAL, "%s: the query is NULL", call);
	err = opts_load(&own, sizeof(own), src, call);
	if (err)
		return err;
	if (!own.name)
		return weir_why_set(-EINVAL, "%s: .name is NULL", call);
	if (own.family != AF_UNSPEC && own.family != AF_INET &&
	    own.family != AF_INET6)
		return weir_why_set(-EINVAL, "%s: .family is %u; it can be AF_INET, "
				    "AF_INET6 and AF_UNSPEC", call, own.family);
	if (own.flags & ~WEIR_RESOLVE_NUMERIC || own.reserved)
		return weir_why_set(-EINVAL, "%s: .flags or .reserved has unknown "
				    "bits", call);
	if (own.port > PORT_MAX)
		return weir_why_set(-EINVAL, "%s: .port is %u", call, own.port);
	q->port = (uint16_t)own.port;
	if (own.service)
		err = parse_service(&q->port, &own, call);
	if (err)
		return err;

	q->family = (int)own.family;
	q->numeric = address_parse(&q->addr, own.name);
	if (q->numeric)
		address_set_port(&q->addr, q->port);
	else
		err = check_name(own.name, call);
	if (err)
		return err;
	if (!q->numeric && own.flags & WEIR_RESOLVE_NUMERIC)
		return weir_why_set(-EINVAL, "%s: \"%s\" is not a numeric address",
				    call, own.name);
	if (!q->numeric)
		strcpy(q->name, own.name);
	return 0;
}

int weir_resolve_check(const struct weir_resolve_query *query)
{
	struct query q;

	return query_check(&q, query, "weir_resolve_check");
}
