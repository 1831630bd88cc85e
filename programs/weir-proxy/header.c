/* SPDX-License-Identifier: CC0-1.0 */
/*
 * The header of the PROXY protocol.  Version 2 is twelve bytes that no other
 * protocol begins with, what follows, and the addresses of the connection that
 * the client has made, big-endian.  Version 1 is a line:
 *
 *	PROXY TCP4 192.0.2.1 198.51.100.1 56324 443
 *
 * The parser takes what proxies send, and nothing that is nearly that.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>

#include "weir-proxy.h"

#define V1_MAX 107		/* Bytes of a line, by its specification. */
#define VERSION_2_LOCAL 0x20
#define VERSION_2_PROXY 0x21
#define FAMILY_NONE 0x00	/* No addresses: UNSPEC. */
#define FAMILY_TCP4 0x11
#define FAMILY_TCP6 0x21
#define FAMILY_UNIX 0x31
#define UNIX_NAME 108
#define HEAD 16

static const unsigned char signature[12] = {
	'\r', '\n', '\r', '\n', 0, '\r', '\n', 'Q', 'U', 'I', 'T', '\n'
};

static size_t put(unsigned char *to, size_t at, const void *bytes, size_t len)
{
	memcpy(to + at, bytes, len);
	return at + len;
}

static size_t put_in(unsigned char *to, const struct sockaddr_in *from,
		     const struct sockaddr_in *local)
{
	size_t at = HEAD;

	at = put(to, at, &from->sin_addr, 4);
	at = put(to, at, &local->sin_addr, 4);
	at = put(to, at, &from->sin_port, 2);
	return put(to, at, &local->sin_port, 2);
}

static size_t put_in6(unsigned char *to, const struct sockaddr_in6 *from,
		      const struct sockaddr_in6 *local)
{
	size_t at = HEAD;

	at = put(to, at, &from->sin6_addr, 16);
	at = put(to, at, &local->sin6_addr, 16);
	at = put(to, at, &from->sin6_port, 2);
	return put(to, at, &local->sin6_port, 2);
}

/* A name, and zeros; clients mostly have none. */
static size_t put_un(unsigned char *to, size_t at, const struct address *a)
{
	const struct sockaddr_un *un = (const struct sockaddr_un *)&a->sa;
	size_t head = offsetof(struct sockaddr_un, sun_path);
	size_t len = a->len > head ? a->len - head : 0;

	memset(to + at, 0, UNIX_NAME);
	memcpy(to + at, un->sun_path, len < UNIX_NAME ? len : UNIX_NAME);
	return at + UNIX_NAME;
}

static size_t make_v2(unsigned char *to, const struct address *client,
		      const struct address *local)
{
	const void *from = &client->sa, *at = &local->sa;
	size_t len = HEAD;

	memcpy(to, signature, sizeof(signature));
	to[12] = VERSION_2_PROXY;
	to[13] = FAMILY_NONE;
	if (client->sa.ss_family != local->sa.ss_family) {
		; /* The header has one family. */
	} else if (client->sa.ss_family == AF_INET) {
		to[13] = FAMILY_TCP4;
		len = put_in(to, from, at);
	} else if (client->sa.ss_family == AF_INET6) {
		to[13] = FAMILY_TCP6;
		len = put_in6(to, from, at);
	} else if (client->sa.ss_family == AF_UNIX) {
		to[13] = FAMILY_UNIX;
		len = put_un(to, put_un(to, HEAD, client), local);
	}
	to[14] = (unsigned char)((len - HEAD) >> 8);
	to[15] = (unsigned char)(len - HEAD);
	return len;
}

/* Of UNIX sockets it can only say that they are unknown. */
static size_t make_v1(unsigned char *to, const struct address *client,
		      const struct address *local)
{
	const struct sockaddr_in *in = (const void *)&client->sa;
	const struct sockaddr_in *in_at = (const void *)&local->sa;
	const struct sockaddr_in6 *in6 = (const void *)&client->sa;
	const struct sockaddr_in6 *in6_at = (const void *)&local->sa;
	char from[INET6_ADDRSTRLEN], at[INET6_ADDRSTRLEN];
	const int family = client->sa.ss_family;
	bool is_in = family == AF_INET;

	if (family != local->sa.ss_family || (!is_in && family != AF_INET6))
		return (size_t)sprintf((char *)to, "PROXY UNKNOWN\r\n");
	inet_ntop(family, is_in ? (const void *)&in->sin_addr :
				  (const void *)&in6->sin6_addr,
		  from, sizeof(from));
	inet_ntop(family, is_in ? (const void *)&in_at->sin_addr :
				  (const void *)&in6_at->sin6_addr,
		  at, sizeof(at));
	return (size_t)snprintf((char *)to, HEADER_CAPACITY,
				"PROXY TCP%c %s %s %u %u\r\n", is_in ? '4' : '6',
				from, at,
				ntohs(is_in ? in->sin_port : in6->sin6_port),
				ntohs(is_in ? in_at->sin_port :
					      in6_at->sin6_port));
}

size_t header_make(unsigned char *to, enum header version,
		   const struct address *client, const struct address *local)
{
	return (version == HEADER_V1 ? make_v1 : make_v2)(to, client, local);
}

/* ---- the parser ---- */

static void set_in(struct address *a, const void *addr, const void *port)
{
	struct sockaddr_in *in = (struct sockaddr_in *)&a->sa;

	memset(a, 0, sizeof(*a));
	in->sin_family = AF_INET;
	memcpy(&in->sin_addr, addr, 4);
	memcpy(&in->sin_port, port, 2);
	a->len = sizeof(*in);
}

static void set_in6(struct address *a, const void *addr, const void *port)
{
	struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&a->sa;

	memset(a, 0, sizeof(*a));
	in6->sin6_family = AF_INET6;
	memcpy(&in6->sin6_addr, addr, 16);
	memcpy(&in6->sin6_port, port, 2);
	a->len = sizeof(*in6);
	address_unmap(a);
}

static void set_un(struct address *a, const unsigned char *name)
{
	struct sockaddr_un *un = (struct sockaddr_un *)&a->sa;
	size_t len = UNIX_NAME;

	memset(a, 0, sizeof(*a));
	un->sun_family = AF_UNIX;
	memcpy(un->sun_path, name, UNIX_NAME);
	while (len && !name[len - 1])
		len--;
	a->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
}

static ssize_t parse_v2(const unsigned char *p, size_t len,
			struct address *client, struct address *local)
{
	const unsigned char *addr = p + HEAD;
	size_t n;

	if (len < HEAD)
		return 0;
	n = (size_t)p[14] << 8 | p[15];
	if ((p[12] != VERSION_2_LOCAL && p[12] != VERSION_2_PROXY) ||
	    HEAD + n > HEADER_MAX)
		return -1;
	/* Datagrams, and addresses that do not fit, are no connection's.  What LOCAL
	 * says of a family does not count. */
	if (p[12] == VERSION_2_PROXY &&
	    (p[13] >> 4 > 3 || (p[13] & 15) > 2 ||
	     (p[13] == FAMILY_TCP4 && n < 12) ||
	     (p[13] == FAMILY_TCP6 && n < 36) ||
	     (p[13] == FAMILY_UNIX && n < 2 * UNIX_NAME)))
		return -1;
	if (len < HEAD + n)
		return 0;
	if (p[12] == VERSION_2_LOCAL)
		return (ssize_t)(HEAD + n);
	if (p[13] == FAMILY_TCP4) {
		set_in(client, addr, addr + 8);
		set_in(local, addr + 4, addr + 10);
	} else if (p[13] == FAMILY_TCP6) {
		set_in6(client, addr, addr + 32);
		set_in6(local, addr + 16, addr + 34);
	} else if (p[13] == FAMILY_UNIX) {
		set_un(client, addr);
		set_un(local, addr + UNIX_NAME);
	}
	return (ssize_t)(HEAD + n); /* With what else it has, which is skipped. */
}

/* A port in decimal, and nothing else. */
static bool parse_port(const char *text, in_port_t *ret)
{
	unsigned int n = 0, i;

	for (i = 0; text[i]; i++) {
		if (!isdigit((unsigned char)text[i]) || i == 5)
			return false;
		n = n * 10 + (unsigned int)(text[i] - '0');
	}
	if (!i || n > 65535)
		return false;
	*ret = htons((uint16_t)n);
	return true;
}

/* Cuts @line at single blanks; whether there are just @n words. */
static bool cut(char *line, char **words, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		words[i] = line;
		line += strcspn(line, " ");
		if (line == words[i] || (*line == 0) != (i == n - 1))
			return false;
		*line++ = 0;
	}
	return true;
}

static ssize_t parse_line(char *line, ssize_t len, struct address *client,
			  struct address *local)
{
	unsigned char from[16], at[16];
	in_port_t from_port, at_port;
	char *words[6];
	int family;

	if (!strncmp(line, "PROXY UNKNOWN", 13) && (!line[13] || line[13] == ' '))
		return len;
	if (!cut(line, words, 6))
		return -1;
	family = !strcmp(words[1], "TCP4") ? AF_INET :
		 !strcmp(words[1], "TCP6") ? AF_INET6 : AF_UNSPEC;
	if (family == AF_UNSPEC || inet_pton(family, words[2], from) != 1 ||
	    inet_pton(family, words[3], at) != 1 ||
	    !parse_port(words[4], &from_port) || !parse_port(words[5], &at_port))
		return -1;
	(family == AF_INET ? set_in : set_in6)(client, from, &from_port);
	(family == AF_INET ? set_in : set_in6)(local, at, &at_port);
	return len;
}

static ssize_t parse_v1(const unsigned char *p, size_t len,
			struct address *client, struct address *local)
{
	const size_t most = len < V1_MAX ? len : V1_MAX;
	const unsigned char *end = memchr(p, '\n', most);
	char line[V1_MAX + 1];
	size_t n;

	if (!end)
		return len < V1_MAX ? 0 : -1;
	n = (size_t)(end - p);
	if (!n || p[n - 1] != '\r' || memchr(p, 0, n))
		return -1;
	memcpy(line, p, n - 1);
	line[n - 1] = 0;
	return parse_line(line, (ssize_t)n + 1, client, local);
}

ssize_t header_parse(const unsigned char *p, size_t len, struct address *client,
		     struct address *local)
{
	static const char v1[6] = { 'P', 'R', 'O', 'X', 'Y', ' ' };
	size_t n = len < sizeof(signature) ? len : sizeof(signature);

	if (!memcmp(p, signature, n))
		return n < sizeof(signature) ? 0 :
		       parse_v2(p, len, client, local);
	n = len < sizeof(v1) ? len : sizeof(v1);
	if (memcmp(p, v1, n))
		return -1;
	return n < sizeof(v1) ? 0 : parse_v1(p, len, client, local);
}
