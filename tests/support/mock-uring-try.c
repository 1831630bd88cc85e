/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The model's operations, each done without waiting.  By raw system calls: the
 * memory is the library's, and interceptors of sanitizers would complain.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/mock-uring-internal.h"

#define NOSIGNAL 0x100		/* RWF_NOSIGNAL */
#define NOWAIT 0x8		/* RWF_NOWAIT */

/* The first version that has an opcode. */
static int opcode_since(unsigned int op)
{
	if (op <= IORING_OP_TEE)
		return 510;
	if (op <= IORING_OP_UNLINKAT)
		return 511;
	if (op <= IORING_OP_LINKAT)
		return 515;
	if (op <= IORING_OP_MSG_RING)
		return 518;
	if (op <= IORING_OP_URING_CMD)
		return 519;
	if (op <= IORING_OP_SEND_ZC)
		return 600;
	if (op <= IORING_OP_SEND_ZC + 1)
		return 601;
	return op == OP_FTRUNCATE ? 609 : op <= 62 ? 618 : 9999;
}

int mock_uring_check(const struct ring *ring, const struct io_uring_sqe *sqe)
{
	int version = ring->version;

	if (version < opcode_since(sqe->opcode))
		return -EINVAL;
	if (sqe->flags & IOSQE_CQE_SKIP_SUCCESS && version < 517)
		return -EINVAL;
	switch (sqe->opcode) {
	case IORING_OP_POLL_ADD:
		if (sqe->ioprio || sqe->buf_index ||
		    (sqe->len && (version < 513 ||
				  sqe->len != IORING_POLL_ADD_MULTI)))
			return -EINVAL;
		break;
	case IORING_OP_ACCEPT:
		if (sqe->ioprio && (version < 519 ||
				    sqe->ioprio != IORING_ACCEPT_MULTISHOT))
			return -EINVAL;
		break;
	case IORING_OP_RECV:
	case IORING_OP_RECVMSG:
		/* 5.18 and older do not look at it. */
		if (version >= 519 && sqe->ioprio &&
		    (version < 600 ||
		     sqe->ioprio & ~(3u | (version < 610 ? 0 : RECVSEND_BUNDLE))))
			return -EINVAL;
		if (sqe->ioprio & IORING_RECV_MULTISHOT && version >= 600 &&
		    (!(sqe->flags & IOSQE_BUFFER_SELECT) || sqe->len))
			return -EINVAL;
		break;
	}
	return 0;
}

static int32_t result(long n)
{
	return n < 0 ? -errno : (int32_t)n;
}

int mock_uring_fd(const struct request *req)
{
	if (req->fd >= 0)
		return req->fd;
	if (!(req->sqe.flags & IOSQE_FIXED_FILE))
		return req->sqe.fd;
	return req->ring->has_files && (unsigned int)req->sqe.fd < N_FILES ?
	       req->ring->files[req->sqe.fd] : -1;
}

/* A call that may not wait: the mode is that of the open file, so briefly. */
static int nonblock(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags >= 0 && !(flags & O_NONBLOCK))
		fcntl(fd, F_SETFL, flags | O_NONBLOCK);
	return flags;
}

static void restore(int fd, int flags)
{
	int saved = errno;

	if (flags >= 0 && !(flags & O_NONBLOCK))
		fcntl(fd, F_SETFL, flags);
	errno = saved;
}

static bool is_stored(int fd)
{
	struct stat st;

	return !fstat(fd, &st) && (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode) ||
				   S_ISDIR(st.st_mode));
}

static bool is_seekable(int fd)
{
	return lseek(fd, 0, SEEK_CUR) >= 0 || errno != ESPIPE;
}

static bool is_out(const struct io_uring_sqe *sqe)
{
	return sqe->opcode == IORING_OP_WRITE ||
	       sqe->opcode == IORING_OP_WRITEV ||
	       sqe->opcode == IORING_OP_WRITE_FIXED;
}

static bool is_fixed(const struct io_uring_sqe *sqe)
{
	return sqe->opcode == IORING_OP_READ_FIXED ||
	       sqe->opcode == IORING_OP_WRITE_FIXED;
}

static bool is_in_buf(const struct ring *ring, const struct io_uring_sqe *sqe)
{
	const struct iovec *buf = &ring->bufs[sqe->buf_index % N_BUFS];
	uint64_t base = (uintptr_t)buf->iov_base;

	return ring->has_bufs && sqe->buf_index < N_BUFS && base &&
	       sqe->addr >= base && sqe->addr + sqe->len <= base + buf->iov_len;
}

/* A length for a transfer that is cut short, of one that is not empty. */
static size_t cut(struct ring *ring, size_t len, uint32_t n)
{
	if (len < 2 || !mock_uring_draw(ring, n))
		return len;
	mock_uring.cut++;
	return 1 + mock_uring_below(ring, (uint32_t)len - 1);
}

static int32_t try_rw(struct request *req)
{
	const struct io_uring_sqe *sqe = &req->sqe;
	bool vector = sqe->opcode == IORING_OP_READV ||
		      sqe->opcode == IORING_OP_WRITEV;
	struct iovec one = { (void *)(uintptr_t)(sqe->addr + req->done),
			     sqe->len - req->done };
	const struct iovec *iov = vector ?
		(const struct iovec *)(uintptr_t)sqe->addr : &one;
	unsigned int n = vector ? sqe->len : 1;
	long call = is_out(sqe) ? SYS_pwritev2 : SYS_preadv2;
	int fd = mock_uring_fd(req), mode = -1;
	bool stored = is_stored(fd);
	uint64_t off;
	int32_t res;

	if (is_fixed(sqe) && !is_in_buf(req->ring, sqe))
		return -EFAULT;
	if (vector && n == 1) {
		one = iov[0];
		iov = &one;
	}
	if (iov == &one && !(stored && !~sqe->off) && !(sqe->rw_flags & ~NOSIGNAL) &&
	    !(fcntl(fd, F_GETFL) & O_DIRECT))
		one.iov_len = cut(req->ring, one.iov_len, stored ?
				  mock_uring.odds.cut :
				  mock_uring.odds.cut_stream);
	if (!stored)
		mode = nonblock(fd);
	off = is_seekable(fd) ? sqe->off : UINT64_MAX;
	res = result(syscall(call, fd, iov, n, off, 0, sqe->rw_flags));
	/* A file that has no flags at all has no signals either. */
	if (res == -EOPNOTSUPP && sqe->rw_flags == NOSIGNAL)
		res = result(syscall(call, fd, iov, n, off, 0, 0));
	restore(fd, mode);
	return res;
}

static int32_t try_transfer(const struct request *req)
{
	const struct io_uring_sqe *sqe = &req->sqe;
	void *p = (void *)(uintptr_t)sqe->addr;
	int flags = (int)sqe->msg_flags | MSG_DONTWAIT;
	int fd = mock_uring_fd(req);
	size_t len = sqe->len;

	if (sqe->opcode == IORING_OP_RECVMSG)
		return result(syscall(SYS_recvmsg, fd, p, flags));
	if (sqe->opcode == IORING_OP_SENDMSG)
		return result(syscall(SYS_sendmsg, fd, p, flags));
	len = cut(req->ring, len, mock_uring.odds.cut_stream);
	if (sqe->opcode == IORING_OP_RECV)
		return result(syscall(SYS_recvfrom, fd, p, len, flags, NULL,
				      NULL));
	return result(syscall(SYS_sendto, fd, p, len, flags, NULL, 0));
}

/* Sockets of these families only send without a copy. */
static int32_t try_send_zc(const struct request *req)
{
	int domain = 0, fd = mock_uring_fd(req);
	socklen_t len = sizeof(domain);

	if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len))
		return -errno;
	if (domain != AF_INET && domain != AF_INET6)
		return -EOPNOTSUPP;
	if (mock_uring_draw(req->ring, mock_uring.odds.memory))
		return mock_uring_draw(req->ring, 2) ? -ENOMEM : -ENOBUFS;
	return try_transfer(req);
}

static int32_t try_accept(const struct request *req)
{
	const struct io_uring_sqe *sqe = &req->sqe;
	int fd = mock_uring_fd(req), mode = nonblock(fd);
	int32_t res;

	res = result(syscall(SYS_accept4, fd, (void *)(uintptr_t)sqe->addr,
			     (void *)(uintptr_t)sqe->addr2,
			     sqe->accept_flags));
	restore(fd, mode);
	return res;
}

/* A UNIX listener does not report that its full backlog has a place again. */
static int32_t try_connect(struct request *req)
{
	int fd = mock_uring_fd(req), mode = nonblock(fd);
	int32_t res;

	res = result(syscall(SYS_connect, fd, &req->peer,
			     (socklen_t)req->sqe.off));
	restore(fd, mode);
	if (res == -EISCONN && req->connecting)
		res = 0;
	if (res == -EINPROGRESS || (res == -EALREADY && req->connecting)) {
		req->connecting = true;
		res = mode & O_NONBLOCK &&
		      mock_uring_draw(req->ring, mock_uring.odds.nonblock) ?
		      -EINPROGRESS : -EAGAIN;
	}
	return res;
}

static int32_t try_poll(const struct request *req)
{
	struct pollfd p = { .fd = mock_uring_fd(req),
			    .events = (short)req->sqe.poll32_events };

	if (fcntl(p.fd, F_GETFD) < 0)
		return -EBADF;
	return poll(&p, 1, 0) > 0 ? (int32_t)p.revents : -EAGAIN;
}

static int32_t try_path(const struct request *req)
{
	const struct io_uring_sqe *sqe = &req->sqe;

	switch (sqe->opcode) {
	case IORING_OP_OPENAT:
		return result(syscall(SYS_openat, sqe->fd, req->path[0],
				      sqe->open_flags, sqe->len));
	case IORING_OP_OPENAT2:
		return result(syscall(SYS_openat2, sqe->fd, req->path[0],
				      sqe->off, (size_t)sqe->len));
	case IORING_OP_STATX:
		return result(syscall(SYS_statx, sqe->fd, req->path[0],
				      sqe->statx_flags, sqe->len, sqe->off));
	case IORING_OP_RENAMEAT:
		return result(syscall(SYS_renameat2, sqe->fd, req->path[0],
				      (int)sqe->len, req->path[1],
				      sqe->rename_flags));
	case IORING_OP_MKDIRAT:
		return result(syscall(SYS_mkdirat, sqe->fd, req->path[0],
				      sqe->len));
	case IORING_OP_SYMLINKAT:
		return result(syscall(SYS_symlinkat, req->path[0], sqe->fd,
				      req->path[1]));
	case IORING_OP_LINKAT:
		return result(syscall(SYS_linkat, sqe->fd, req->path[0],
				      (int)sqe->len, req->path[1],
				      sqe->hardlink_flags));
	default:
		return result(syscall(SYS_unlinkat, sqe->fd, req->path[0],
				      sqe->unlink_flags));
	}
}

static int32_t try_xattr(const struct request *req)
{
	const struct io_uring_sqe *sqe = &req->sqe;
	bool out = sqe->opcode == IORING_OP_FSETXATTR;

	return result(syscall(out ? SYS_fsetxattr : SYS_fgetxattr,
			      mock_uring_fd(req), sqe->addr, sqe->addr2,
			      (size_t)sqe->len, sqe->xattr_flags));
}

static int32_t try_fsync(const struct request *req)
{
	int fd = mock_uring_fd(req);

	return result(syscall(req->sqe.fsync_flags & IORING_FSYNC_DATASYNC ?
			      SYS_fdatasync : SYS_fsync, fd));
}

/* The kernel lingers in the call that submits, unless the request is for its workers;
 * these linger on their own. */
static int32_t try_close(const struct io_uring_sqe *sqe)
{
	struct linger linger = { 0 };
	socklen_t len = sizeof(linger);

	if (!getsockopt(sqe->fd, SOL_SOCKET, SO_LINGER, &linger, &len) &&
	    linger.l_onoff && linger.l_linger && !(sqe->flags & IOSQE_ASYNC)) {
		fputs("mock-uring: a close holds up the loop\n", stderr);
		abort();
	}
	linger.l_onoff = 0;
	setsockopt(sqe->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
	return result(syscall(SYS_close, sqe->fd));
}

int32_t mock_uring_try(struct request *req)
{
	const struct io_uring_sqe *sqe = &req->sqe;
	int fd = mock_uring_fd(req);

	switch (sqe->opcode) {
	case IORING_OP_NOP:
		return 0;
	case IORING_OP_READ:
	case IORING_OP_READV:
	case IORING_OP_READ_FIXED:
	case IORING_OP_WRITE:
	case IORING_OP_WRITEV:
	case IORING_OP_WRITE_FIXED:
		return try_rw(req);
	case IORING_OP_RECV:
	case IORING_OP_SEND:
	case IORING_OP_RECVMSG:
	case IORING_OP_SENDMSG:
		return try_transfer(req);
	case IORING_OP_SEND_ZC:
		return try_send_zc(req);
	case IORING_OP_ACCEPT:
		return try_accept(req);
	case IORING_OP_CONNECT:
		return try_connect(req);
	case IORING_OP_POLL_ADD:
		return try_poll(req);
	case IORING_OP_FSYNC:
		return try_fsync(req);
	case IORING_OP_FALLOCATE:
		return result(syscall(SYS_fallocate, fd, sqe->len, sqe->off,
				      sqe->addr));
	case IORING_OP_FSETXATTR:
	case IORING_OP_FGETXATTR:
		return try_xattr(req);
	case OP_FTRUNCATE:
		return result(syscall(SYS_ftruncate, fd, sqe->off));
	case IORING_OP_SHUTDOWN:
		return result(syscall(SYS_shutdown, fd, sqe->len));
	case IORING_OP_CLOSE:
		return try_close(sqe);
	default:
		return try_path(req);
	}
}

uint32_t mock_uring_events(const struct request *req)
{
	switch (req->sqe.opcode) {
	case IORING_OP_POLL_ADD:
		return req->sqe.poll32_events;
	case IORING_OP_READ:
	case IORING_OP_READV:
	case IORING_OP_READ_FIXED:
	case IORING_OP_RECV:
	case IORING_OP_RECVMSG:
	case IORING_OP_ACCEPT:
		return POLLIN | POLLRDHUP;
	default:
		return POLLOUT;
	}
}

bool mock_uring_is_for_thread(const struct request *req)
{
	switch (req->sqe.opcode) {
	case IORING_OP_FSYNC:
	case IORING_OP_FALLOCATE:
	case IORING_OP_OPENAT:
	case IORING_OP_OPENAT2:
	case IORING_OP_STATX:
	case IORING_OP_RENAMEAT:
	case IORING_OP_UNLINKAT:
	case IORING_OP_MKDIRAT:
	case IORING_OP_SYMLINKAT:
	case IORING_OP_LINKAT:
	case IORING_OP_FSETXATTR:
	case IORING_OP_FGETXATTR:
	case OP_FTRUNCATE:
		return true;
	case IORING_OP_READ:
	case IORING_OP_READV:
	case IORING_OP_WRITE:
	case IORING_OP_WRITEV:
		return is_stored(mock_uring_fd(req)) &&
		       mock_uring_draw(req->ring, mock_uring.odds.thread);
	default:
		return false;
	}
}

bool mock_uring_says_again(const struct request *req)
{
	const struct io_uring_sqe *sqe = &req->sqe;
	int fd = mock_uring_fd(req);

	switch (sqe->opcode) {
	case IORING_OP_POLL_ADD:
		return false;
	case IORING_OP_RECV:
	case IORING_OP_SEND:
	case IORING_OP_RECVMSG:
	case IORING_OP_SENDMSG:
	case IORING_OP_SEND_ZC:
		return sqe->msg_flags & MSG_DONTWAIT;
	case IORING_OP_CONNECT:
		return fcntl(fd, F_GETFL) & O_NONBLOCK && !req->connecting;
	case IORING_OP_OPENAT:
	case IORING_OP_OPENAT2:
		return true;
	default:
		if (sqe->opcode != IORING_OP_ACCEPT &&
		    sqe->rw_flags & NOWAIT)
			return true;
		return req->ring->version < 618 &&
		       fcntl(fd, F_GETFL) & O_NONBLOCK &&
		       mock_uring_draw(req->ring, mock_uring.odds.nonblock);
	}
}
