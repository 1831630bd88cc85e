/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations on sockets: check, describe, launch. */

#include <weir/socket.h>
#include <weir/watch.h>

#include "reactor/io.h"

#define MESSAGE_FLAGS (WEIR_SOCK_MORE | WEIR_SOCK_VOLATILE)
#define SEND_FLAGS (WEIR_SOCK_ZEROCOPY | MESSAGE_FLAGS)

static int start(struct weir_reactor *r, struct weir_op *op, int kind, int fd,
		 const void *addr, uint64_t len, uint32_t flags)
{
	int err = op_admit(r, op);

	if (unlikely(err))
		return op_admitted(err);
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
	return 0;
}

int weir_accept(struct weir_reactor *r, struct weir_op *op, int fd)
{
	return start(r, op, IO_ACCEPT, fd, NULL, 0, 0);
}

int weir_connect(struct weir_reactor *r, struct weir_op *op, int fd,
		 const struct sockaddr *addr, socklen_t addrlen)
{
	if (!addr || addrlen < sizeof(addr->sa_family))
		return -EINVAL;
	return start(r, op, IO_CONNECT, fd, addr, addrlen, 0);
}

int weir_recv(struct weir_reactor *r, struct weir_op *op, int fd, void *buf,
	      size_t len, uint32_t flags)
{
	if (unlikely((!buf && len) || len > INT64_MAX ||
		     flags & ~WEIR_SOCK_ALL))
		return -EINVAL;
	return start(r, op, IO_RECV, fd, buf, len, flags);
}

/* Without a copy is a wish, until a backend says that it was granted. */
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
		return -EINVAL;
	return wish(op, flags, start(r, op, IO_SEND, fd, buf, len, flags));
}

int weir_sendv(struct weir_reactor *r, struct weir_op *op, int fd,
	       const struct iovec *iov, uint32_t n, uint32_t flags)
{
	int64_t total = io_iov_total(iov, n);
	int err;

	if (total < 0)
		return (int)total;
	if (flags & ~SEND_FLAGS)
		return -EINVAL;
	err = op_admit(r, op);
	if (err)
		return op_admitted(err);
	op->u.io.aux = (uint64_t)total;
	return wish(op, flags, start(r, op, IO_SENDV, fd, iov, n, flags));
}

int weir_sendmsg(struct weir_reactor *r, struct weir_op *op, int fd,
		 const struct msghdr *msg, uint32_t flags)
{
	if (!msg || flags & ~MESSAGE_FLAGS)
		return -EINVAL;
	return start(r, op, IO_SENDMSG, fd, msg, 0, flags);
}

int weir_recvmsg(struct weir_reactor *r, struct weir_op *op, int fd,
		 struct msghdr *msg, uint32_t flags)
{
	if (!msg || flags)
		return -EINVAL;
	return start(r, op, IO_RECVMSG, fd, msg, 0, 0);
}

int weir_shutdown(struct weir_reactor *r, struct weir_op *op, int fd, int how)
{
	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return -EINVAL;
	return start(r, op, IO_SHUTDOWN, fd, NULL, 0, (uint32_t)how);
}

int weir_poll(struct weir_reactor *r, struct weir_op *op, int fd,
	      uint32_t events)
{
	if (!events || events & ~(WEIR_READABLE | WEIR_WRITABLE))
		return -EINVAL;
	return start(r, op, IO_POLL, fd, NULL, 0, events);
}
