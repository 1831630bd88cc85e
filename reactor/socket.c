/* SPDX-License-Identifier: BSD-3-Clause */
/* Sockets: connected ones, and those that listen. */

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

#include <weir/socket.h>
#include <weir/watch.h>

#include "base/fault.h"
#include "base/why.h"
#include "reactor/io.h"

/* Operations on sockets: check, describe, launch. */

#define BAD_ARGS "no buffer for the bytes, too many bytes, or unknown flags"
#define SEND_FLAGS (WEIR_SOCK_ZEROCOPY | WEIR_SOCK_MORE | WEIR_SOCK_VOLATILE)
#define SENDMSG_FLAGS (IO_SENDMSG_FLAGS | WEIR_SOCK_VOLATILE)

_Static_assert(WEIR_SOCK_ALL == MSG_WAITALL && WEIR_SOCK_MORE == MSG_MORE &&
	       WEIR_SOCK_ZEROCOPY == MSG_ZEROCOPY &&
	       !(WEIR_SOCK_VOLATILE & (IO_SENDMSG_FLAGS | MSG_ZEROCOPY)),
	       "they are the system's");

/* After op_admit(); what u.io.aux is, the caller has set. */
static inline void launch(struct weir_reactor *r, struct weir_op *op, int kind,
			  int fd, const void *addr, uint64_t len,
			  uint32_t flags)
{
	op->kind = (uint8_t)kind;
	op->u.io.fd = fd;
	op->u.io.flags = flags;
	op->u.io.addr = (uintptr_t)addr;
	op->u.io.len = len;
	op->u.io.off = WEIR_OFF_STREAM;
	op->u.io.done = 0;
	op->u.io.seg = 0;
	op->u.io.seg_off = 0;
	op->u.io.buf_index = 0;
	io_launch(r, op);
}

static int start(struct weir_reactor *r, struct weir_op *op, int kind, int fd,
		 const void *addr, uint64_t len, uint32_t flags)
{
	int err = op_admit(r, op);

	if (unlikely(err))
		return io_refused(err, op, kind);
	launch(r, op, kind, fd, addr, len, flags);
	return 0;
}

int weir_accept(struct weir_reactor *r, struct weir_op *op, int fd,
		struct sockaddr *addr, socklen_t *addrlen, int flags)
{
	int err;

	if ((addr && !addrlen) || flags & ~(SOCK_CLOEXEC | SOCK_NONBLOCK))
		return io_invalid(IO_ACCEPT, "an address without its length, "
				  "or unknown flags");
	err = op_admit(r, op);
	if (unlikely(err))
		return io_refused(err, op, IO_ACCEPT);
	op->u.io.aux = addr ? (uintptr_t)addrlen : 0;
	launch(r, op, IO_ACCEPT, fd, addr, 0,
	       (uint32_t)(flags | SOCK_CLOEXEC));
	return 0;
}

int weir_connect(struct weir_reactor *r, struct weir_op *op, int fd,
		 const struct sockaddr *addr, socklen_t addrlen)
{
	if (!addr || addrlen < sizeof(addr->sa_family))
		return io_invalid(IO_CONNECT, "no address, or a short one");
	return start(r, op, IO_CONNECT, fd, addr, addrlen, 0);
}

int weir_recv(struct weir_reactor *r, struct weir_op *op, int fd, void *buf,
	      size_t len, uint32_t flags)
{
	if (unlikely((!buf && len) || len > INT64_MAX ||
		     flags & ~WEIR_SOCK_ALL))
		return io_invalid(IO_RECV, BAD_ARGS);
	return start(r, op, IO_RECV, fd, buf, len, flags);
}

/* It counts as copied, until a backend reports a send without a copy. */
static inline int wish(struct weir_op *op, uint32_t flags, int err)
{
	if (unlikely(flags & WEIR_SOCK_ZEROCOPY) && !err)
		op->detail.code = WEIR_SOCK_COPIED;
	return err;
}

int weir_send(struct weir_reactor *r, struct weir_op *op, int fd,
	      const void *buf, size_t len, uint32_t flags)
{
	if (unlikely((!buf && len) || len > INT64_MAX || flags & ~SEND_FLAGS))
		return io_invalid(IO_SEND, BAD_ARGS);
	return wish(op, flags, start(r, op, IO_SEND, fd, buf, len, flags));
}

int weir_sendv(struct weir_reactor *r, struct weir_op *op, int fd,
	       const struct iovec *iov, uint32_t n, uint32_t flags)
{
	int64_t total = io_iov_total(iov, n, IO_SENDV);
	int err;

	if (total < 0)
		return (int)total;
	if (flags & ~SEND_FLAGS)
		return io_invalid(IO_SENDV, "unknown flags");
	err = op_admit(r, op);
	if (err)
		return io_refused(err, op, IO_SENDV);
	op->u.io.aux = (uint64_t)total;
	launch(r, op, IO_SENDV, fd, iov, n, flags);
	return wish(op, flags, 0);
}

int weir_sendmsg(struct weir_reactor *r, struct weir_op *op, int fd,
		 const struct msghdr *msg, uint32_t flags)
{
	if (!msg || flags & ~SENDMSG_FLAGS)
		return io_invalid(IO_SENDMSG, "no message, or unknown flags");
	return start(r, op, IO_SENDMSG, fd, msg, 0, flags);
}

int weir_recvmsg(struct weir_reactor *r, struct weir_op *op, int fd,
		 struct msghdr *msg, uint32_t flags)
{
	if (!msg || flags & ~IO_RECVMSG_FLAGS)
		return io_invalid(IO_RECVMSG, "no message, or unknown flags");
	/* There is no readiness to wait for. */
	if (flags & (MSG_OOB | MSG_ERRQUEUE))
		flags |= MSG_DONTWAIT;
	return start(r, op, IO_RECVMSG, fd, msg, 0, flags);
}

int weir_shutdown(struct weir_reactor *r, struct weir_op *op, int fd, int how)
{
	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return io_invalid(IO_SHUTDOWN, "how is none of SHUT_RD, "
				  "SHUT_WR and SHUT_RDWR");
	return start(r, op, IO_SHUTDOWN, fd, NULL, 0, (uint32_t)how);
}

int weir_poll(struct weir_reactor *r, struct weir_op *op, int fd,
	      uint32_t events)
{
	if (!events || events & ~(WEIR_READABLE | WEIR_WRITABLE))
		return io_invalid(IO_POLL, "no events, or unknown ones");
	return start(r, op, IO_POLL, fd, NULL, 0, events);
}

/* A listening socket: the one thing about sockets that is always the same. */

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
