/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Addresses, and the names that they stand for.
 *
 * A listener has a name: "a:7000".  The address of a name is that text, in a struct
 * sockaddr_un; or, if it begins with a host, the IP address of that host with the
 * port.  The addresses that mean "this host" mean the one that the socket is on.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "sim/socket.h"

_Static_assert(WEIR_SIM_NAME_MAX ==
	       sizeof(((struct sockaddr_un *)0)->sun_path), "a name is a path");

static struct weir_sim_host *host_with(const struct weir_sim *sim, uint32_t ip)
{
	struct weir_sim_host *h = sim->hosts;

	while (h && sim_host_ip(h) != ip)
		h = h->next;
	return h;
}

static int too_long(int len)
{
	return len >= WEIR_SIM_NAME_MAX ? -EINVAL : 0;
}

static int ipv4_name(const struct sim_fd *f, uint32_t ip, in_port_t port, char *ret)
{
	bool here = ip == INADDR_ANY || ip >> 24 == IN_LOOPBACKNET;
	struct weir_sim_host *h = here ? f->host : host_with(f->sim, ip);
	struct in_addr in = { htonl(ip) };
	char text[INET_ADDRSTRLEN];

	inet_ntop(AF_INET, &in, text, sizeof(text));
	return too_long(snprintf(ret, WEIR_SIM_NAME_MAX, "%s:%u",
				 h ? h->name : text,
				 (unsigned int)ntohs(port)));
}

static int ipv6_name(const struct sim_fd *f, const struct sockaddr_in6 *in6,
		     char *ret)
{
	const struct in6_addr *a = &in6->sin6_addr;
	char text[INET6_ADDRSTRLEN];
	uint32_t ip;

	if (IN6_IS_ADDR_V4MAPPED(a)) {
		memcpy(&ip, a->s6_addr + 12, sizeof(ip));
		return ipv4_name(f, ntohl(ip), in6->sin6_port, ret);
	}
	if (f->host && (IN6_IS_ADDR_UNSPECIFIED(a) || IN6_IS_ADDR_LOOPBACK(a)))
		return ipv4_name(f, INADDR_LOOPBACK, in6->sin6_port, ret);
	inet_ntop(AF_INET6, a, text, sizeof(text));
	return too_long(snprintf(ret, WEIR_SIM_NAME_MAX, "[%s]:%u", text,
				 (unsigned int)ntohs(in6->sin6_port)));
}

/* A listener of any host's; or else a path on this one. */
static int path_name(const struct sim_fd *f, const struct sockaddr *addr,
		     size_t len, bool bind, char *ret)
{
	const size_t path = offsetof(struct sockaddr_un, sun_path);
	const struct weir_sim_host *h = f->host;
	char below[2 * WEIR_SIM_NAME_MAX];

	if (len <= path || len > sizeof(struct sockaddr_un))
		return -EINVAL;
	memset(ret, 0, WEIR_SIM_NAME_MAX);
	len -= path;
	if (len >= WEIR_SIM_NAME_MAX)
		len = WEIR_SIM_NAME_MAX - 1;
	memcpy(ret, (const char *)addr + path, len);
	if (!h || (!bind && listener_find(sockets_of(f->sim), ret)))
		return 0;
	snprintf(below, sizeof(below), "%s/%s", h->name,
		 ret + strspn(ret, "/"));
	if (!bind && !listener_find(sockets_of(f->sim), below))
		return 0;
	return too_long(snprintf(ret, WEIR_SIM_NAME_MAX, "%s", below));
}

int address_name(const struct sim_fd *f, const struct sockaddr *addr, size_t len,
		 bool bind, char *ret)
{
	const struct sockaddr_in *in = (const void *)addr;
	const struct sockaddr_in6 *in6 = (const void *)addr;

	switch (addr->sa_family) {
	case AF_UNIX:
		return path_name(f, addr, len, bind, ret);
	case AF_INET:
		return len < sizeof(*in) ? -EINVAL :
			ipv4_name(f, ntohl(in->sin_addr.s_addr), in->sin_port,
				  ret);
	case AF_INET6:
		return len < sizeof(*in6) ? -EINVAL : ipv6_name(f, in6, ret);
	default:
		return -EAFNOSUPPORT;
	}
}

static socklen_t ipv4_of(struct weir_sim *sim, const char *name,
			 struct sockaddr_in *in)
{
	const struct weir_sim_host *h = sim_host_named(sim, name);
	const char *port = strrchr(name, ':');

	in->sin_family = AF_INET;
	in->sin_addr.s_addr = h ? htonl(sim_host_ip(h)) : INADDR_ANY;
	in->sin_port = htons(port ? (in_port_t)strtoul(port + 1, NULL, 10) : 0);
	return sizeof(*in);
}

static socklen_t ipv6_of(struct weir_sim *sim, const char *name,
			 struct sockaddr_in6 *in6)
{
	struct sockaddr_in in;

	ipv4_of(sim, name, &in);
	in6->sin6_family = AF_INET6;
	in6->sin6_port = in.sin_port;
	in6->sin6_addr.s6_addr[10] = 0xff;
	in6->sin6_addr.s6_addr[11] = 0xff;
	memcpy(in6->sin6_addr.s6_addr + 12, &in.sin_addr, 4);
	return sizeof(*in6);
}

static socklen_t path_of(const char *name, struct sockaddr_un *un)
{
	un->sun_family = AF_UNIX;
	memcpy(un->sun_path, name, strlen(name));
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
			   (*name ? strlen(name) + 1 : 0));
}

void address_give(struct weir_sim *sim, const char *name, int family,
		  struct sockaddr_storage *ret, socklen_t *len)
{
	union {
		struct sockaddr_un un;
		struct sockaddr_in in;
		struct sockaddr_in6 in6;
	} a;
	socklen_t n;

	memset(&a, 0, sizeof(a));
	if (family == AF_INET)
		n = ipv4_of(sim, name, &a.in);
	else if (family == AF_INET6)
		n = ipv6_of(sim, name, &a.in6);
	else
		n = path_of(name, &a.un);
	if (*len > sizeof(a))
		*len = sizeof(a);
	memcpy(ret, &a, *len);
	*len = n;
}
