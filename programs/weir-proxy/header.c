/* SPDX-License-Identifier: CC0-1.0 */
/*
 * The header of the PROXY protocol, version 2: twelve bytes that no other
 * protocol begins with, what follows, and the addresses of the connection that
 * the client has made, big-endian.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/un.h>

#include "weir-proxy.h"

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

size_t header_make(unsigned char *to, const struct address *client,
		   const struct address *local)
{
	const void *from = &client->sa, *at = &local->sa;
	size_t len = HEAD;

	memcpy(to, signature, sizeof(signature));
	to[12] = VERSION_2_PROXY;
	to[13] = FAMILY_NONE;
	if (client->sa.ss_family == AF_INET) {
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
