/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * An operation as system calls: for workers, and for sockets that are ready.
 *
 * It uses syscall(2), not libc's functions: the library owns the memory, and
 * ASan's interceptors would take its accesses for the caller's.
 */

#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/libc.h"
#include "base/own.h"
#include "reactor/io.h"

#include <weir/watch.h>

#ifndef RWF_NOSIGNAL
#define RWF_NOSIGNAL 0x100
#endif

#define COPY_STEP_MAX (16u << 20) /* Bytes that the kernel copies at a time. */

static int64_t result(long ret)
{
	return ret < 0 ? -errno : ret;
}

static void use_pieces(const struct iovec *iov, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		own_use(iov[i].iov_base, iov[i].iov_len);
}

void io_use(const struct io_step *s)
{
	own_use(s->addr, s->len);
	use_pieces(s->iov, s->n);
}

int io_open_again(int fd, int flags)
{
	char path[32];

	if (fault("open")) {
		errno = EMFILE;
		return -1;
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return open(path, flags | O_CLOEXEC);
}

/* As the caller has set for @op; by @fd, which may be another descriptor. */
static long rw_how(const struct weir_op *op, int fd, long call,
		   const struct io_step *s)
{
	struct iovec one = { s->addr, s->len };
	bool stream = s->off == WEIR_OFF_STREAM;

	return syscall(call, fd, s->n ? s->iov : &one, s->n ? s->n : 1, s->off,
		       stream ? -1L : 0L, io_rw_flags(op));
}

/*
 * Whether the file system forgets RWF_APPEND of a system call, as overlayfs does in
 * Linux 6.1: the bytes would replace those at the offset.  (It keeps the flag of a
 * ring's request.)
 */
static bool forgets_append(int fd, int flags)
{
	struct statfs fs;

	if (flags & O_APPEND)
		return false;
	return fault_choice("overlayfs") ||
	       (!fstatfs(fd, &fs) && fs.f_type == OVERLAYFS_SUPER_MAGIC);
}

/* There a description of its own, with O_APPEND, writes at the end; the caller's
 * moves as if it had. */
static long append_step(const struct weir_op *op, const struct io_step *s)
{
	int fd = op->u.io.fd, flags = fcntl(fd, F_GETFL), again, err;
	long res;

	if (flags < 0 || !forgets_append(fd, flags))
		return rw_how(op, fd, SYS_pwritev2, s);
	again = io_open_again(fd, (flags & (O_ACCMODE | O_DIRECT | O_SYNC)) |
				  O_APPEND);
	if (again < 0) {
		errno = EOPNOTSUPP;
		return -1;
	}
	res = rw_how(op, again, SYS_pwritev2, s);
	err = errno;
	if (res >= 0 && s->off == WEIR_OFF_STREAM)
		lseek(fd, lseek(again, 0, SEEK_CUR), SEEK_SET);
	close(again);
	errno = err;
	return res;
}

/* On 64-bit systems the offset is one argument; the kernel ignores the rest. */
static long read_step(const struct weir_op *op, const struct io_step *s)
{
	bool stream = s->off == WEIR_OFF_STREAM;
	int fd = op->u.io.fd;

	io_use(s);
	if (unlikely(io_rw_flags(op)))
		return rw_how(op, fd, SYS_preadv2, s);
	if (s->n)
		return stream ? syscall(SYS_readv, fd, s->iov, s->n) :
				syscall(SYS_preadv, fd, s->iov, s->n, s->off, 0);
	return stream ? syscall(SYS_read, fd, s->addr, s->len) :
			syscall(SYS_pread64, fd, s->addr, s->len, s->off);
}

static long write_step(const struct weir_op *op, const struct io_step *s)
{
	bool stream = s->off == WEIR_OFF_STREAM;
	int fd = op->u.io.fd;

	if (unlikely(io_rw_flags(op) & WEIR_RW_APPEND))
		return append_step(op, s);
	if (unlikely(io_rw_flags(op)))
		return rw_how(op, fd, SYS_pwritev2, s);
	if (s->n)
		return stream ? syscall(SYS_writev, fd, s->iov, s->n) :
				syscall(SYS_pwritev, fd, s->iov, s->n, s->off,
					0);
	return stream ? syscall(SYS_write, fd, s->addr, s->len) :
			syscall(SYS_pwrite64, fd, s->addr, s->len, s->off);
}

/* With the flag a pipe reads one byte, or does not support the flag. */
static int ask_nosignal(void)
{
	struct iovec iov = { .iov_base = "", .iov_len = 1 };
	int p[2];
	long n;

	if (pipe2(p, O_CLOEXEC))
		return 0;
	n = syscall(SYS_pwritev2, p[1], &iov, 1, -1L, -1L, RWF_NOSIGNAL);
	close(p[0]);
	close(p[1]);
	return n == 1 ? RWF_NOSIGNAL : 0;
}

int io_nosignal(void)
{
	static atomic_int known;	/* 0: not known yet; else result + 1. */
	int n = atomic_load(&known);

	if (!n) {
		n = ask_nosignal() | 1;
		atomic_store(&known, n);
	}
	return n & ~1;
}

/*
 * With two flags that exclude each other a kernel that knows all of them finds
 * a mistake, and no file is asked for what it supports; one that does not know
 * all says that.  The second of the two is older than those in question.
 */
#define RWF_NOAPPEND_6_9 0x20

static bool knows(int p, int flag)
{
	struct iovec iov = { .iov_base = "", .iov_len = 1 };

	return syscall(SYS_pwritev2, p, &iov, 1, -1L, -1L,
		       flag | RWF_APPEND | RWF_NOAPPEND_6_9) < 0 &&
	       errno == EINVAL;
}

static uint32_t ask_rw(void)
{
	static const uint32_t flags[] = { WEIR_RW_ATOMIC, WEIR_RW_DONTCACHE };
	uint32_t ret = 0;
	int p[2];

	if (pipe2(p, O_CLOEXEC))
		return UINT32_MAX; /* Let it tell itself. */
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if (knows(p[1], (int)flags[i]))
			ret |= flags[i];
	close(p[0]);
	close(p[1]);
	return ret;
}

uint32_t io_rw_known(void)
{
	static _Atomic uint32_t known;	/* 0: not known yet. */
	uint32_t n = atomic_load(&known);

	if (fault_choice("rw_flags"))
		return 0;
	if (!n) {
		n = ask_rw() | WEIR_RW_DSYNC;
		atomic_store(&known, n);
	}
	return n;
}

/* Without a path it fails, and how tells. */
bool io_has_openat2(void)
{
	static atomic_int known;	/* 0: not known yet, 1: no, 2: yes. */
	int n = atomic_load(&known);

	if (fault_choice("openat2"))
		return false;
	if (!n) {
		n = syscall(SYS_openat2, -1, NULL, NULL, 0) < 0 &&
		    errno == EINVAL ? 2 : 1;
		atomic_store(&known, n);
	}
	return n == 2;
}

void io_sigpipe_begin(struct io_sigpipe *s)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGPIPE);
	pthread_sigmask(SIG_BLOCK, &set, &s->mask);
	/* A signal that was not blocked cannot have been pending. */
	s->pending = sigismember(&s->mask, SIGPIPE) && !sigpending(&set) &&
		     sigismember(&set, SIGPIPE);
}

void io_sigpipe_end(struct io_sigpipe *s, bool broke)
{
	static const struct timespec at_once;
	sigset_t set;

	if (broke && !s->pending) {
		sigemptyset(&set);
		sigaddset(&set, SIGPIPE);
		while (sigtimedwait(&set, NULL, &at_once) < 0 && errno == EINTR)
			;
	}
	pthread_sigmask(SIG_SETMASK, &s->mask, NULL);
}

bool io_lingers(int fd)
{
	struct linger linger;
	socklen_t len = sizeof(linger);

	return !getsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, &len) &&
	       linger.l_onoff && linger.l_linger;
}

int io_send_flags(uint32_t flags)
{
	return MSG_NOSIGNAL | (int)(flags & IO_SENDMSG_FLAGS);
}

static long send_step(const struct weir_op *op, const struct io_step *s)
{
	struct msghdr msg = { .msg_iov = (struct iovec *)s->iov,
			      .msg_iovlen = s->n };
	int flags = io_send_flags(op->u.io.flags) | MSG_DONTWAIT;

	if (s->n)
		return syscall(SYS_sendmsg, op->u.io.fd, &msg, flags);
	return syscall(SYS_sendto, op->u.io.fd, s->addr, s->len, flags, NULL,
		       0);
}

static long recv_step(const struct weir_op *op, const struct io_step *s)
{
	io_use(s);
	return syscall(SYS_recvfrom, op->u.io.fd, s->addr, s->len, MSG_DONTWAIT,
		       NULL, NULL);
}

static int64_t step_transfer(struct weir_op *op)
{
	struct io_step s;

	io_step_next(op, &s);
	switch (op->kind) {
	case IO_READ:
	case IO_READV:
		return result(read_step(op, &s));
	case IO_WRITE:
	case IO_WRITEV:
		return result(write_step(op, &s));
	case IO_RECV:
		return result(recv_step(op, &s));
	default:
		return result(send_step(op, &s));
	}
}

static long recvmsg_step(int fd, struct msghdr *msg, int flags)
{
	use_pieces(msg->msg_iov, (uint32_t)msg->msg_iovlen);
	return syscall(SYS_recvmsg, fd, msg,
		       MSG_DONTWAIT | MSG_CMSG_CLOEXEC | flags);
}

int io_nonblock_begin(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0)
		return -errno;
	if (!(flags & O_NONBLOCK) && fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0)
		return -errno;
	return flags;
}

void io_nonblock_end(int fd, int flags)
{
	if (!(flags & O_NONBLOCK))
		fcntl(fd, F_SETFL, flags);
}

short io_poll_mask(uint32_t events)
{
	return (short)((events & WEIR_READABLE ? POLLIN | POLLRDHUP : 0) |
		       (events & WEIR_WRITABLE ? POLLOUT : 0) |
		       (events & WEIR_PRI ? POLLPRI : 0) |
		       (events & WEIR_RDHUP ? POLLRDHUP : 0));
}

uint32_t io_poll_events(int mask, uint32_t events)
{
	/* A reader reads the end, too. */
	if (mask & POLLRDHUP && events & WEIR_READABLE)
		mask |= POLLIN;
	return (mask & POLLIN ? WEIR_READABLE : 0) |
	       (mask & POLLOUT ? WEIR_WRITABLE : 0) |
	       (mask & POLLPRI ? WEIR_PRI : 0) |
	       (mask & POLLRDHUP ? events & WEIR_RDHUP : 0) |
	       (mask & POLLHUP ? WEIR_HANGUP : 0) |
	       (mask & (POLLERR | POLLNVAL) ? WEIR_ERROR : 0);
}

static int64_t step_poll(struct weir_op *op)
{
	struct pollfd p = { .fd = op->u.io.fd,
			    .events = io_poll_mask(op->u.io.flags) };
	int n = poll(&p, 1, 0);

	if (n < 0)
		return -errno;
	if (!n)
		return -EAGAIN;
	if (p.revents & POLLNVAL)
		return -EBADF;
	return io_poll_events(p.revents, op->u.io.flags);
}

static int64_t step_copy_range(struct weir_op *op)
{
	int64_t src_off, dst_off;
	uint64_t left, step;
	long n;

	while ((left = op->u.io.len - op->u.io.done)) {
		src_off = (int64_t)(op->u.io.off + op->u.io.done);
		dst_off = (int64_t)(op->u.io.aux + op->u.io.done);
		step = left < COPY_STEP_MAX ? left : COPY_STEP_MAX;
		n = syscall(SYS_copy_file_range, op->u.io.fd, &src_off,
			    (int)op->u.io.addr, &dst_off, step, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		op->u.io.done += (uint64_t)n;
	}
	return (int64_t)op->u.io.done;
}

static void *address_of(const struct weir_op *op)
{
	return (void *)(uintptr_t)op->u.io.addr;
}

static int64_t step_open(struct weir_op *op)
{
	struct open_how how;

	if (op->u.io.aux) {
		how = io_how(op);
		return result(syscall(SYS_openat2, op->u.io.fd, address_of(op),
				      &how, sizeof(how)));
	}
	return result(syscall(SYS_openat, op->u.io.fd, address_of(op),
			      (int)op->u.io.flags, op->u.io.len));
}

static int64_t step_statx(struct weir_op *op)
{
	void *to = (void *)(uintptr_t)op->u.io.aux;

	own_use(to, 256);
	return result(syscall(SYS_statx, op->u.io.fd, address_of(op),
			      op->u.io.flags, (unsigned int)op->u.io.len, to));
}

static int64_t step_rename(struct weir_op *op)
{
	return result(syscall(SYS_renameat2, op->u.io.fd, address_of(op),
			      (int)op->u.io.len, (void *)(uintptr_t)op->u.io.aux,
			      op->u.io.flags));
}

static int64_t step_unlink(struct weir_op *op)
{
	return result(syscall(SYS_unlinkat, op->u.io.fd, address_of(op),
			      (int)op->u.io.flags));
}

static int64_t step_fsync(struct weir_op *op)
{
	return result(op->u.io.flags & WEIR_FSYNC_DATA ?
		      fdatasync(op->u.io.fd) : fsync(op->u.io.fd));
}

static int64_t step_fallocate(struct weir_op *op)
{
	return result(fallocate(op->u.io.fd, (int)op->u.io.flags,
				(off_t)op->u.io.off, (off_t)op->u.io.len));
}

static int64_t step_mkdir(struct weir_op *op)
{
	return result(syscall(SYS_mkdirat, op->u.io.fd, address_of(op),
			      op->u.io.len));
}

static void *other_of(const struct weir_op *op)
{
	return (void *)(uintptr_t)op->u.io.aux;
}

static int64_t step_link(struct weir_op *op)
{
	return result(syscall(SYS_linkat, op->u.io.fd, address_of(op),
			      (int)op->u.io.len, other_of(op),
			      (int)op->u.io.flags));
}

static int64_t step_symlink(struct weir_op *op)
{
	return result(syscall(SYS_symlinkat, address_of(op), op->u.io.fd,
			      other_of(op)));
}

/* The memory that the call is about to fill. */
static void *filled(const struct weir_op *op)
{
	own_use(other_of(op), op->u.io.len);
	return other_of(op);
}

/* The kernel has the size as an int, of which it would refuse what is cut. */
static size_t bytes_of(const struct weir_op *op)
{
	return op->u.io.len < INT_MAX ? op->u.io.len : INT_MAX;
}

static int64_t step_readlink(struct weir_op *op)
{
	return result(syscall(SYS_readlinkat, op->u.io.fd, address_of(op),
			      filled(op), bytes_of(op)));
}

static int64_t step_readdir(struct weir_op *op)
{
	return result(syscall(SYS_getdents64, op->u.io.fd, filled(op),
			      bytes_of(op)));
}

static int64_t step_ftruncate(struct weir_op *op)
{
	return result(ftruncate(op->u.io.fd, (off_t)op->u.io.len));
}

/* Whether the file of the descriptor itself is meant. */
static bool is_itself(const struct weir_op *op)
{
	uint32_t other = op->u.io.flags & ~(uint32_t)AT_SYMLINK_NOFOLLOW;

	return other == AT_EMPTY_PATH && !*(char *)address_of(op);
}

/* Linux 6.6; the headers may be older. */
#define CALL_FCHMODAT2 452

/* A descriptor of O_PATH has no fchmod(2), but a name in /proc. */
static long chmod_itself(const struct weir_op *op, mode_t mode)
{
	char path[32];

	if (op->u.io.fd == AT_FDCWD)
		return syscall(SYS_fchmodat, AT_FDCWD, ".", mode);
	if (!fchmod(op->u.io.fd, mode))
		return 0;
	if (errno != EBADF || fcntl(op->u.io.fd, F_GETFD) < 0)
		return -1;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", op->u.io.fd);
	return syscall(SYS_fchmodat, AT_FDCWD, path, mode);
}

static int64_t step_chmod(struct weir_op *op)
{
	mode_t mode = (mode_t)op->u.io.len;
	long res;

	if (is_itself(op))
		return result(chmod_itself(op, mode));
	if (!(op->u.io.flags & ~(uint32_t)AT_EMPTY_PATH))
		return result(syscall(SYS_fchmodat, op->u.io.fd, address_of(op),
				      mode));
	res = fault_choice("fchmodat2") ? (errno = ENOSYS, -1) :
	      syscall(CALL_FCHMODAT2, op->u.io.fd, address_of(op), mode,
		      op->u.io.flags);
	if (res < 0 && errno == ENOSYS)
		errno = EOPNOTSUPP;
	return result(res);
}

static int64_t step_chown(struct weir_op *op)
{
	return result(syscall(SYS_fchownat, op->u.io.fd, address_of(op),
			      (uid_t)op->u.io.len, (gid_t)op->u.io.off,
			      (int)op->u.io.flags));
}

static int64_t step_utimens(struct weir_op *op)
{
	const char *path = address_of(op);

	/* Before Linux 5.8 only futimens(3) takes no path. */
	if (is_itself(op) && op->u.io.fd != AT_FDCWD &&
	    !futimens(op->u.io.fd, other_of(op)))
		return 0;
	return result(utimensat(op->u.io.fd, path, other_of(op),
				(int)op->u.io.flags));
}

static int64_t step_xattr_get(struct weir_op *op)
{
	return result(syscall(SYS_fgetxattr, op->u.io.fd, address_of(op),
			      filled(op), op->u.io.len));
}

static int64_t step_xattr_set(struct weir_op *op)
{
	return result(syscall(SYS_fsetxattr, op->u.io.fd, address_of(op),
			      other_of(op), op->u.io.len,
			      (int)op->u.io.flags));
}

static int64_t step_xattr_list(struct weir_op *op)
{
	return result(syscall(SYS_flistxattr, op->u.io.fd, filled(op),
			      op->u.io.len));
}

static int64_t step_xattr_remove(struct weir_op *op)
{
	return result(syscall(SYS_fremovexattr, op->u.io.fd, address_of(op)));
}

static int64_t step_close(struct weir_op *op)
{
	return result(close(op->u.io.fd));
}

static int64_t step_shutdown(struct weir_op *op)
{
	return result(shutdown(op->u.io.fd, (int)op->u.io.flags));
}

static int64_t step_accept(struct weir_op *op)
{
	return result(accept4(op->u.io.fd, address_of(op),
			      (socklen_t *)(uintptr_t)op->u.io.aux,
			      (int)op->u.io.flags));
}

static int64_t step_connect(struct weir_op *op)
{
	return result(connect(op->u.io.fd, address_of(op),
			      (socklen_t)op->u.io.len));
}

static int64_t step_sendmsg(struct weir_op *op)
{
	return result(syscall(SYS_sendmsg, op->u.io.fd, address_of(op),
			      MSG_DONTWAIT | io_send_flags(op->u.io.flags)));
}

static int64_t step_recvmsg(struct weir_op *op)
{
	return result(recvmsg_step(op->u.io.fd, address_of(op),
				   (int)op->u.io.flags));
}

static int64_t step_nop(struct weir_op *op)
{
	(void)op;
	return 0;
}

#define IO_STEP(kind, text, step, ...) [IO_##kind] = step_##step,

static int64_t (*const steps[IO_KINDS])(struct weir_op *op) = {
	IO_ROWS(IO_STEP)
	IO_WORKER_ROWS(IO_STEP)
};

int64_t io_sync_step(struct weir_op *op)
{
	if (fault(io_classes[op->kind].name))
		return op->kind == IO_CLOSE ? (close(op->u.io.fd), -EIO) : -EIO;
	return steps[op->kind](op);
}

static int64_t sync_steps(struct weir_op *op)
{
	int64_t res;

	do {
		res = io_sync_step(op);
	} while (!io_step_account(op, &res));
	return res;
}

/* Of a read or write; 0: that of the thread. */
static uint32_t io_prio(const struct weir_op *op)
{
	switch (op->kind) {
	case IO_READ:
	case IO_WRITE:
	case IO_READV:
	case IO_WRITEV:
		return op->u.io.flags >> IO_RW_PRIO_SHIFT;
	default:
		return 0;
	}
}

#define IOPRIO_WHO_THREAD 1

static int64_t sync_at_priority(struct weir_op *op)
{
	long before = syscall(SYS_ioprio_get, IOPRIO_WHO_THREAD, 0);
	int64_t res;

	if (before < 0 || syscall(SYS_ioprio_set, IOPRIO_WHO_THREAD, 0,
				  io_prio(op)))
		return -errno;
	res = sync_steps(op);
	syscall(SYS_ioprio_set, IOPRIO_WHO_THREAD, 0, before);
	return res;
}

int64_t io_sync(struct weir_op *op)
{
	int64_t (*fn)(void *arg);

	if (op->kind == IO_WORK) {
		fn = (int64_t (*)(void *))(uintptr_t)op->u.io.addr;
		return fn((void *)(uintptr_t)op->u.io.aux);
	}
	if (unlikely(io_prio(op)))
		return sync_at_priority(op);
	return sync_steps(op);
}
