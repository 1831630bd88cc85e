/* SPDX-License-Identifier: CC0-1.0 */
/* Addresses of clients, how many connections each may have, and what is said of
 * clients that are refused. */
#define _GNU_SOURCE 1
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

#include "weir-nbd.h"

union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_storage capacity;
};

/* Returns false if the client of @fd has no IP address. */
static bool get_address(int fd, struct in6_addr *ret)
{
	union address a = { .capacity = { 0 } };
	socklen_t len = sizeof(a);

	if (getpeername(fd, &a.any, &len))
		return false;
	memset(ret, 0, sizeof(*ret));
	if (a.any.sa_family == AF_INET) {
		/* As IPv6 maps it, and as a socket for both reports it. */
		ret->s6_addr[10] = 0xff;
		ret->s6_addr[11] = 0xff;
		memcpy(ret->s6_addr + 12, &a.in.sin_addr, 4);
	} else if (a.any.sa_family == AF_INET6) {
		*ret = a.in6.sin6_addr;
	}
	return a.any.sa_family == AF_INET || a.any.sa_family == AF_INET6;
}

/*
 * Find or make the entry of the address of @fd, on core 0.  Other cores only
 * count in it: an entry without a connection is free for another address.
 *
 * Returns -1 if there are too many addresses; *@ret is NULL for a UNIX socket,
 * whose clients are all of one user.
 */
int peer_get(struct peer **ret, struct server *server, int fd)
{
	struct peer *unused = NULL;
	struct in6_addr addr;

	*ret = NULL;
	if (!get_address(fd, &addr))
		return 0;
	for (uint32_t i = 0; i < server->n_peers; i++) {
		struct peer *p = &server->peers[i];

		if (!atomic_load(&p->connections))
			unused = p;
		else if (!memcmp(&p->addr, &addr, sizeof(addr)))
			*ret = p;
	}
	if (!*ret && !unused && server->n_peers < PEERS_MAX)
		unused = &server->peers[server->n_peers++];
	if (!*ret && unused) {
		unused->addr = addr;
		*ret = unused;
	}
	if (!*ret)
		return -1;
	atomic_fetch_add(&(*ret)->connections, 1);
	return 0;
}

void peer_put(struct peer *p)
{
	if (p)
		atomic_fetch_sub(&p->connections, 1);
}

/* Whether one more connection of this address may be served; each is counted
 * until peer_leave(). */
bool peer_enter(struct peer *p, uint32_t max)
{
	if (!p || atomic_fetch_add(&p->served, 1) < max)
		return true;
	atomic_fetch_sub(&p->served, 1);
	return false;
}

void peer_leave(struct peer *p)
{
	if (p)
		atomic_fetch_sub(&p->served, 1);
}

static void describe(int fd, char *buf, size_t size)
{
	union address a = { .capacity = { 0 } };
	socklen_t len = sizeof(a);
	struct ucred cred;

	if (!getpeername(fd, &a.any, &len) && a.any.sa_family != AF_UNIX &&
	    !getnameinfo(&a.any, len, buf, (socklen_t)size, NULL, 0,
			 NI_NUMERICHOST))
		return;
	len = sizeof(cred);
	/* The address of one that has gone is not known any more. */
	if (!getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &len) &&
	    cred.pid > 0)
		snprintf(buf, size, "process %d", (int)cred.pid);
	else
		snprintf(buf, size, "a client");
}

/* Count the refusal of the client of @fd.  Say it on standard error, but not
 * more than once in a second: clients decide how many there are. */
void peer_refuse(struct core *core, int fd, const char *why)
{
	uint64_t now = weir_reactor_now(core->reactor);
	char name[128], more[64] = "";

	core->counts.refused++;
	if (now < core->silent_until_ns) {
		core->unsaid++;
		return;
	}
	describe(fd, name, sizeof(name));
	if (core->unsaid)
		snprintf(more, sizeof(more), "; %u more were refused before",
			 core->unsaid);
	fprintf(stderr, "weir-nbd: %s is refused: %s%s\n", name, why, more);
	core->unsaid = 0;
	core->silent_until_ns = now + WEIR_SEC;
}
