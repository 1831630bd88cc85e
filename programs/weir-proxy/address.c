/* SPDX-License-Identifier: CC0-1.0 */
/*
 * Addresses as text: "127.0.0.1:80", "[::1]:80", "*:80" (all of IPv6 and IPv4)
 * and "unix:/path".  Names of hosts are targets only: see names.c.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "../common/number.h"
#include "weir-proxy.h"

static int parse_unix(struct address *ret, const char *path)
{
	struct sockaddr_un *un = (struct sockaddr_un *)&ret->sa;
	size_t len = strlen(path);

	if (!len || len >= sizeof(un->sun_path))
		return -1;
	un->sun_family = AF_UNIX;
	memcpy(un->sun_path, path, len + 1);
	ret->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len +
			       1);
	return 0;
}

static int parse_port(const char *text, in_port_t *ret)
{
	uint64_t port;

	if (number_parse(text, 0, 65535, &port))
		return -1;
	*ret = htons((uint16_t)port);
	return 0;
}

static int set_host(struct address *ret, const char *host, in_port_t port)
{
	struct sockaddr_in *in = (struct sockaddr_in *)&ret->sa;
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&ret->sa;

	if (inet_pton(AF_INET, host, &in->sin_addr) == 1) {
		in->sin_family = AF_INET;
		in->sin_port = port;
		ret->len = sizeof(*in);
		return 0;
	}
	if (!strcmp(host, "*"))
		host = "::";
	memset(&ret->sa, 0, sizeof(ret->sa));
	if (inet_pton(AF_INET6, host, &in6->sin6_addr) != 1)
		return -1;
	in6->sin6_family = AF_INET6;
	in6->sin6_port = port;
	ret->len = sizeof(*in6);
	return 0;
}

int address_parse(struct address *ret, const char *text)
{
	char host[INET6_ADDRSTRLEN + 2];
	const char *colon = strrchr(text, ':');
	size_t len = colon ? (size_t)(colon - text) : 0;
	bool quoted = len > 2 && *text == '[' && text[len - 1] == ']';
	in_port_t port;

	memset(ret, 0, sizeof(*ret));
	if (!strncmp(text, "unix:", 5))
		return parse_unix(ret, text + 5);
	if (quoted) {
		text++;
		len -= 2;
	}
	if (!len || len >= sizeof(host) || parse_port(colon + 1, &port))
		return -1;
	memcpy(host, text, len);
	host[len] = 0;
	if (!quoted && strchr(host, ':'))
		return -1; /* Which of its numbers would be the port? */
	return set_host(ret, host, port);
}

/* "name:80": 0, or -1. */
int address_split(const char *text, char *host, uint16_t *port)
{
	const char *colon = strrchr(text, ':');
	in_port_t n;

	if (!colon || colon == text || parse_port(colon + 1, &n) || !n)
		return -1;
	memcpy(host, text, (size_t)(colon - text));
	host[colon - text] = 0;
	*port = ntohs(n);
	return strpbrk(host, "/:[]=") ? -1 : 0;
}

void address_set_port(struct address *a, uint16_t port)
{
	if (a->sa.ss_family == AF_INET)
		((struct sockaddr_in *)&a->sa)->sin_port = htons(port);
	else
		((struct sockaddr_in6 *)&a->sa)->sin6_port = htons(port);
}

/* "10.0.0.0/8", "fd00::/8", "192.0.2.1" or "unix". */
int net_parse(struct net *ret, const char *text)
{
	char addr[INET6_ADDRSTRLEN];
	const char *slash = strchr(text, '/');
	size_t len = slash ? (size_t)(slash - text) : strlen(text);
	uint64_t bits;

	memset(ret, 0, sizeof(*ret));
	ret->family = AF_UNIX;
	if (!strcmp(text, "unix"))
		return 0;
	if (len >= sizeof(addr))
		return -1;
	memcpy(addr, text, len);
	addr[len] = 0;
	ret->family = strchr(addr, ':') ? AF_INET6 : AF_INET;
	bits = ret->family == AF_INET6 ? 128 : 32;
	if (inet_pton(ret->family, addr, ret->addr) != 1 ||
	    (slash && number_parse(slash + 1, 0, bits, &bits)))
		return -1;
	ret->bits = (unsigned int)bits;
	return 0;
}

bool net_has(const struct net *net, const struct address *a)
{
	const unsigned char *bytes;
	unsigned int i;

	if (a->sa.ss_family != net->family)
		return false;
	if (net->family == AF_UNIX)
		return true;
	bytes = net->family == AF_INET ?
		(const void *)&((const struct sockaddr_in *)&a->sa)->sin_addr :
		(const void *)&((const struct sockaddr_in6 *)&a->sa)->sin6_addr;
	for (i = 0; i < net->bits; i++)
		if ((bytes[i / 8] ^ net->addr[i / 8]) & 0x80 >> i % 8)
			return false;
	return true;
}

/*
 * A client over IPv4 at a socket of IPv6 has an address in which its own is
 * quoted: ::ffff:192.0.2.1.  It becomes that address.
 */
void address_unmap(struct address *a)
{
	struct sockaddr_in6 in6;
	struct sockaddr_in in = { .sin_family = AF_INET };

	memcpy(&in6, &a->sa, sizeof(in6));
	if (in6.sin6_family != AF_INET6 ||
	    !IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr))
		return;
	in.sin_port = in6.sin6_port;
	memcpy(&in.sin_addr, &in6.sin6_addr.s6_addr[12], 4);
	memset(&a->sa, 0, sizeof(a->sa));
	memcpy(&a->sa, &in, sizeof(in));
	a->len = sizeof(in);
}

static void unix_name(char *name, const struct address *a)
{
	const struct sockaddr_un *un = (const struct sockaddr_un *)&a->sa;

	if (a->len <= offsetof(struct sockaddr_un, sun_path))
		snprintf(name, NAME_MAX_ADDRESS, "unix:");
	else
		snprintf(name, NAME_MAX_ADDRESS, "unix:%.*s",
			 (int)sizeof(un->sun_path), un->sun_path);
}

void address_print(char *name, const struct address *a)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)&a->sa;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)&a->sa;
	char host[INET6_ADDRSTRLEN];

	switch (a->sa.ss_family) {
	case AF_UNIX:
		unix_name(name, a);
		return;
	case AF_INET:
		inet_ntop(AF_INET, &in->sin_addr, host, sizeof(host));
		snprintf(name, NAME_MAX_ADDRESS, "%s:%u", host,
			 ntohs(in->sin_port));
		return;
	case AF_INET6:
		inet_ntop(AF_INET6, &in6->sin6_addr, host, sizeof(host));
		snprintf(name, NAME_MAX_ADDRESS, "[%s]:%u", host,
			 ntohs(in6->sin6_port));
		return;
	default:
		snprintf(name, NAME_MAX_ADDRESS, "-");
	}
}
