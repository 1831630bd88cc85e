/* SPDX-License-Identifier: BSD-3-Clause */
/* A listening socket: the one thing about sockets that is always the same. */

#include <weir/socket.h>

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/why.h"

#define RETRY_NS (10 * WEIR_MSEC)
#define RETRIES 100		/* WEIR_LISTEN_WAIT: a second. */

/* @addr for a person. */
static void print_addr(char *buf, size_t size, const struct sockaddr *addr,
		       socklen_t len)
{
	const struct sockaddr_in6 *in6 = (const void *)addr;
	const struct sockaddr_in *in = (const void *)addr;
	const struct sockaddr_un *un = (const void *)addr;
	char text[INET6_ADDRSTRLEN] = "?";

	switch (addr->sa_family) {
	case AF_INET:
		inet_ntop(AF_INET, &in->sin_addr, text, sizeof(text));
		snprintf(buf, size, "%s:%u", text, ntohs(in->sin_port));
		break;
	case AF_INET6:
		inet_ntop(AF_INET6, &in6->sin6_addr, text, sizeof(text));
		snprintf(buf, size, "[%s]:%u", text, ntohs(in6->sin6_port));
		break;
	default:
		snprintf(buf, size, "%.*s",
			 (int)(len - offsetof(struct sockaddr_un, sun_path)),
			 un->sun_path);
	}
}

static socklen_t least_len(sa_family_t family)
{
	switch (family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	case AF_UNIX:
		return offsetof(struct sockaddr_un, sun_path) + 1;
	default:
		return UINT32_MAX;
	}
}

static int set(int fd, int level, int name)
{
	int one = 1;

	if (fault("setsockopt"))
		return -ENOBUFS;
	return setsockopt(fd, level, name, &one, sizeof(one)) ? -errno : 0;
}

static int prepare(int fd, sa_family_t family, uint32_t flags)
{
	int err;

	if (family == AF_UNIX)
		return 0;
	err = set(fd, SOL_SOCKET, SO_REUSEADDR);
	if (!err && flags & WEIR_LISTEN_REUSEPORT)
		err = set(fd, SOL_SOCKET, SO_REUSEPORT);
	if (!err)
		err = set(fd, IPPROTO_TCP, TCP_NODELAY);
	return err;
}

/* @tries: so often again, while the address is taken. */
static int bind_and_listen(int fd, const struct sockaddr *addr,
			   socklen_t addrlen, int backlog, int tries)
{
	const struct timespec pause = { .tv_nsec = RETRY_NS };
	bool bound = false;

	if (fault("bind"))
		return -EADDRINUSE;
	for (;;) {
		bound = bound || !bind(fd, addr, addrlen);
		if (bound && !listen(fd, backlog))
			return 0;
		if (errno != EADDRINUSE || !tries--)
			return -errno;
		nanosleep(&pause, NULL);
	}
}

int weir_listen(int *ret_fd, const struct sockaddr *addr, socklen_t addrlen,
		int backlog, uint32_t flags)
{
	char text[160];
	int fd, err;

	if (!ret_fd || !addr || addrlen < sizeof(addr->sa_family) ||
	    addrlen < least_len(addr->sa_family))
		return why(-EINVAL, "weir_listen: not an address of a stream "
			   "socket: use IPv4, IPv6 or a UNIX path");
	if (flags & ~(WEIR_LISTEN_REUSEPORT | WEIR_LISTEN_WAIT))
		return why(-EINVAL, "weir_listen: unknown flags %#x", flags);

	fd = fault("socket") ? (errno = EMFILE, -1) :
	     socket(addr->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
		    0);
	if (fd < 0)
		return why(-errno, "weir_listen: socket: %s", strerror(errno));
	err = prepare(fd, addr->sa_family, flags);
	if (!err)
		err = bind_and_listen(fd, addr, addrlen, backlog,
				      flags & WEIR_LISTEN_WAIT ? RETRIES : 0);
	if (err) {
		close(fd);
		print_addr(text, sizeof(text), addr, addrlen);
		return why(err, "weir_listen: %s: %s", text, strerror(-err));
	}
	*ret_fd = fd;
	return 0;
}
