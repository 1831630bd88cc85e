/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * libweir-sim-libc: calls of libc that programs make without a reactor, on the
 * files, sockets and clocks of their host.
 *
 * A call is simulated if its descriptor is, or if it makes one, names a file or
 * reads a clock while the program of a host runs.  All others go on to libc.
 */

/* What is defined here are the functions, not what headers make of them. */
#undef _FORTIFY_SOURCE
#undef _FILE_OFFSET_BITS
#define _GNU_SOURCE 1

#include <weir/sim/libc.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <weir/sim/file.h>
#include <weir/sim/host.h>
#include <weir/sim/socket.h>
#include <weir/watch.h>

#define EXPORT __attribute__((visibility("default")))
/* With the name of a host. */
#define PATH_BYTES (PATH_MAX + 256)
#define SECTOR 512

/* The function of this name that libc has. */
static void *next(void **at, const char *name)
{
	void *fn = __atomic_load_n(at, __ATOMIC_RELAXED);

	if (fn)
		return fn;
	fn = dlsym(RTLD_NEXT, name);
	if (!fn) {
		fprintf(stderr, "libweir-sim-libc: libc has no %s\n", name);
		abort();
	}
	__atomic_store_n(at, fn, __ATOMIC_RELAXED);
	return fn;
}

#define NEXT(name) \
	((__typeof__(name) *)({ \
		static void *at; \
		next(&at, #name); \
	}))

static bool is_simulated(int fd)
{
	return fd >= WEIR_SIM_FD_FIRST;
}

static int64_t give(int64_t res)
{
	if (res >= 0)
		return res;
	errno = (int)-res;
	return -1;
}

#define GIVE(res) ((int)give(res))

/* Files that the system has and no world. */
static bool is_of_system(const char *path)
{
	return !strncmp(path, "/proc/", 6) || !strncmp(path, "/sys/", 5) ||
	       !strncmp(path, "/dev/", 5);
}

/* Whether @path is one of a host whose program runs: then its name in the world
 * is in @ret. */
static bool is_of_host(int dirfd, const char *path, char *ret,
		       struct weir_sim **sim)
{
	struct weir_sim_host *host = weir_sim_host_here();

	if (!host || !path || is_of_system(path) ||
	    (dirfd != AT_FDCWD && *path != '/'))
		return false;
	/* The system says of it what it is: too long. */
	if (strnlen(path, PATH_MAX) == PATH_MAX)
		return false;
	*sim = weir_sim_host_world(host);
	snprintf(ret, PATH_BYTES, "%s/%s", weir_sim_host_name(host), path);
	return true;
}

/* Names. */

static bool makes_file(int flags)
{
	return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE;
}

EXPORT int openat(int dirfd, const char *path, int flags, ...)
{
	char name[PATH_BYTES];
	struct weir_sim *sim;
	mode_t mode = 0;
	va_list ap;

	if (makes_file(flags)) {
		va_start(ap, flags);
		mode = va_arg(ap, mode_t);
		va_end(ap);
	}
	if (!is_of_host(dirfd, path, name, &sim))
		return NEXT(openat)(dirfd, path, flags, mode);
	return GIVE(weir_sim_file_open(sim, name, flags, mode));
}

EXPORT int open(const char *path, int flags, ...)
{
	mode_t mode = 0;
	va_list ap;

	if (makes_file(flags)) {
		va_start(ap, flags);
		mode = va_arg(ap, mode_t);
		va_end(ap);
	}
	return openat(AT_FDCWD, path, flags, mode);
}

EXPORT int unlinkat(int dirfd, const char *path, int flags)
{
	char name[PATH_BYTES];
	struct weir_sim *sim;

	if (!is_of_host(dirfd, path, name, &sim))
		return NEXT(unlinkat)(dirfd, path, flags);
	return GIVE(weir_sim_unlink(sim, name, (uint32_t)flags));
}

EXPORT int unlink(const char *path)
{
	return unlinkat(AT_FDCWD, path, 0);
}

EXPORT int rmdir(const char *path)
{
	return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

EXPORT int rename(const char *from, const char *to)
{
	char a[PATH_BYTES], b[PATH_BYTES];
	struct weir_sim *sim;

	if (!is_of_host(AT_FDCWD, from, a, &sim) ||
	    !is_of_host(AT_FDCWD, to, b, &sim))
		return NEXT(rename)(from, to);
	return GIVE(weir_sim_rename(sim, a, b, 0));
}

EXPORT int mkdir(const char *path, mode_t mode)
{
	char name[PATH_BYTES];
	struct weir_sim *sim;

	if (!is_of_host(AT_FDCWD, path, name, &sim))
		return NEXT(mkdir)(path, mode);
	return GIVE(weir_sim_mkdir(sim, name));
}

/* A world has no permissions. */
EXPORT int chmod(const char *path, mode_t mode)
{
	char name[PATH_BYTES];
	struct weir_sim *sim;

	return is_of_host(AT_FDCWD, path, name, &sim) ? 0 :
							NEXT(chmod)(path, mode);
}

EXPORT int stat(const char *path, struct stat *ret)
{
	char name[PATH_BYTES];
	struct weir_sim *sim;

	if (!is_of_host(AT_FDCWD, path, name, &sim))
		return NEXT(stat)(path, ret);
	return GIVE(weir_sim_stat(sim, name, ret));
}

EXPORT int lstat(const char *path, struct stat *ret)
{
	char name[PATH_BYTES];
	struct weir_sim *sim;

	if (!is_of_host(AT_FDCWD, path, name, &sim))
		return NEXT(lstat)(path, ret);
	return GIVE(weir_sim_stat(sim, name, ret));
}

EXPORT int access(const char *path, int mode)
{
	char name[PATH_BYTES];
	struct weir_sim *sim;
	struct stat st;

	if (!is_of_host(AT_FDCWD, path, name, &sim))
		return NEXT(access)(path, mode);
	return GIVE(weir_sim_stat(sim, name, &st));
}

/* Descriptors. */

EXPORT int close(int fd)
{
	return is_simulated(fd) ? GIVE(weir_sim_close(fd)) : NEXT(close)(fd);
}

/* The faults of a transfer that the program of a host makes: 0 with *@len shortened,
 * or @err or -EINTR. */
static int spoil(int fd, size_t *len, int err)
{
	struct weir_sim_host *host = weir_sim_host_here();
	struct weir_sim *sim;
	struct stat st;

	if (!host || !*len)
		return 0;
	sim = weir_sim_host_world(host);
	if (weir_sim_fault(sim, WEIR_SIM_ERROR))
		return err;
	if (weir_sim_fault(sim, WEIR_SIM_EINTR))
		return -EINTR;
	if (*len > 1 && !weir_sim_fstat(fd, &st) && S_ISREG(st.st_mode) &&
	    weir_sim_fault(sim, WEIR_SIM_SHORT))
		*len /= 2;
	return 0;
}

EXPORT ssize_t read(int fd, void *buf, size_t len)
{
	int err;

	if (!is_simulated(fd))
		return NEXT(read)(fd, buf, len);
	err = spoil(fd, &len, -EIO);
	return give(err ? err : weir_sim_read(fd, buf, len));
}

EXPORT ssize_t write(int fd, const void *buf, size_t len)
{
	int err;

	if (!is_simulated(fd))
		return NEXT(write)(fd, buf, len);
	err = spoil(fd, &len, -ENOSPC);
	return give(err ? err : weir_sim_write(fd, buf, len));
}

EXPORT ssize_t pread(int fd, void *buf, size_t len, off_t off)
{
	int err;

	if (!is_simulated(fd))
		return NEXT(pread)(fd, buf, len, off);
	err = spoil(fd, &len, -EIO);
	return give(err ? err : weir_sim_pread(fd, buf, len, (uint64_t)off));
}

EXPORT ssize_t pwrite(int fd, const void *buf, size_t len, off_t off)
{
	int err;

	if (!is_simulated(fd))
		return NEXT(pwrite)(fd, buf, len, off);
	err = spoil(fd, &len, -ENOSPC);
	return give(err ? err : weir_sim_pwrite(fd, buf, len, (uint64_t)off));
}

/* One piece after the other, until one is short. */
static ssize_t each(int fd, const struct iovec *iov, int n, bool in)
{
	ssize_t done = 0, res = 0;

	for (int i = 0; i < n; i++) {
		res = in ? read(fd, iov[i].iov_base, iov[i].iov_len) :
			   write(fd, iov[i].iov_base, iov[i].iov_len);
		if (res > 0)
			done += res;
		if (res < (ssize_t)iov[i].iov_len)
			break;
	}
	return done ? done : res;
}

EXPORT ssize_t readv(int fd, const struct iovec *iov, int n)
{
	return is_simulated(fd) ? each(fd, iov, n, true) :
				  NEXT(readv)(fd, iov, n);
}

EXPORT ssize_t writev(int fd, const struct iovec *iov, int n)
{
	return is_simulated(fd) ? each(fd, iov, n, false) :
				  NEXT(writev)(fd, iov, n);
}

EXPORT ssize_t vmsplice(int fd, const struct iovec *iov, size_t n,
			unsigned int flags)
{
	return is_simulated(fd) ? each(fd, iov, (int)n, false) :
				  NEXT(vmsplice)(fd, iov, n, flags);
}

EXPORT int fsync(int fd)
{
	return is_simulated(fd) ? GIVE(weir_sim_fsync(fd)) : NEXT(fsync)(fd);
}

EXPORT int fdatasync(int fd)
{
	return is_simulated(fd) ? GIVE(weir_sim_fsync(fd)) :
				  NEXT(fdatasync)(fd);
}

EXPORT int ftruncate(int fd, off_t bytes)
{
	if (!is_simulated(fd))
		return NEXT(ftruncate)(fd, bytes);
	return GIVE(weir_sim_ftruncate(fd, (uint64_t)bytes));
}

EXPORT int fallocate(int fd, int mode, off_t off, off_t len)
{
	if (!is_simulated(fd))
		return NEXT(fallocate)(fd, mode, off, len);
	return GIVE(weir_sim_fallocate(fd, mode, (uint64_t)off,
				       (uint64_t)len));
}

EXPORT off_t lseek(int fd, off_t off, int whence)
{
	return is_simulated(fd) ? give(weir_sim_lseek(fd, off, whence)) :
				  NEXT(lseek)(fd, off, whence);
}

EXPORT int fstat(int fd, struct stat *ret)
{
	return is_simulated(fd) ? GIVE(weir_sim_fstat(fd, ret)) :
				  NEXT(fstat)(fd, ret);
}

EXPORT int posix_fadvise(int fd, off_t off, off_t len, int advice)
{
	return is_simulated(fd) ? 0 : NEXT(posix_fadvise)(fd, off, len, advice);
}

static int simulated_fcntl(int fd, int cmd, long arg)
{
	switch (cmd) {
	case F_GETFL:
		return GIVE(weir_sim_get_flags(fd));
	case F_SETFL:
		return GIVE(weir_sim_set_flags(fd, (int)arg));
	case F_GETFD: case F_SETFD:
		return GIVE(weir_sim_get_flags(fd) < 0 ? -EBADF : 0);
	case F_SETPIPE_SZ: case F_GETPIPE_SZ:
		return GIVE(weir_sim_pipe_size(fd, cmd == F_SETPIPE_SZ ?
						       (uint32_t)arg : 0));
	default:
		return GIVE(-EINVAL);
	}
}

EXPORT int fcntl(int fd, int cmd, ...)
{
	va_list ap;
	long arg;

	va_start(ap, cmd);
	arg = va_arg(ap, long);
	va_end(ap);
	return is_simulated(fd) ? simulated_fcntl(fd, cmd, arg) :
				  NEXT(fcntl)(fd, cmd, arg);
}

/* Of disks: their sizes. */
static int simulated_ioctl(int fd, unsigned long request, void *arg)
{
	struct stat st;
	int64_t end;

	if (weir_sim_fstat(fd, &st))
		return GIVE(-EBADF);
	if (!S_ISBLK(st.st_mode))
		return GIVE(-ENOTTY);
	end = weir_sim_lseek(fd, 0, SEEK_END);
	if (request == BLKGETSIZE64 && end >= 0)
		*(uint64_t *)arg = (uint64_t)end;
	else if (request == BLKSSZGET)
		*(int *)arg = SECTOR;
	else
		return GIVE(-ENOTTY);
	return 0;
}

#ifndef __GLIBC__
EXPORT int ioctl(int fd, int request, ...)
#else
EXPORT int ioctl(int fd, unsigned long request, ...)
#endif
{
	va_list ap;
	void *arg;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);
	return is_simulated(fd) ? simulated_ioctl(fd, (unsigned int)request, arg) :
				  NEXT(ioctl)(fd, request, arg);
}

/* Sockets and pipes. */

EXPORT int socket(int family, int type, int protocol)
{
	struct weir_sim_host *host = weir_sim_host_here();
	int kind = type & ~(SOCK_CLOEXEC | SOCK_NONBLOCK), fd = -1;
	int err = -EPROTONOSUPPORT;

	if (!host)
		return NEXT(socket)(family, type, protocol);
	if (kind == SOCK_STREAM)
		err = weir_sim_host_socket(host, &fd, family);
	else if (kind == SOCK_DGRAM)
		err = weir_sim_datagram(weir_sim_host_world(host), host, &fd,
					family);
	return GIVE(err ? err : fd);
}

EXPORT int socketpair(int family, int type, int protocol, int fds[2])
{
	struct weir_sim_host *host = weir_sim_host_here();

	if (!host)
		return NEXT(socketpair)(family, type, protocol, fds);
	return GIVE(weir_sim_socket_pair(weir_sim_host_world(host), fds));
}

EXPORT int pipe2(int fds[2], int flags)
{
	struct weir_sim_host *host = weir_sim_host_here();

	if (!host)
		return NEXT(pipe2)(fds, flags);
	return GIVE(weir_sim_pipe(weir_sim_host_world(host), fds));
}

EXPORT int pipe(int fds[2])
{
	return pipe2(fds, 0);
}

EXPORT int bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	return is_simulated(fd) ? GIVE(weir_sim_bind(fd, addr, len)) :
				  NEXT(bind)(fd, addr, len);
}

EXPORT int listen(int fd, int backlog)
{
	return is_simulated(fd) ? GIVE(weir_sim_bound_listen(fd, backlog)) :
				  NEXT(listen)(fd, backlog);
}

EXPORT int connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	return is_simulated(fd) ? GIVE(weir_sim_connect(fd, addr, len)) :
				  NEXT(connect)(fd, addr, len);
}

EXPORT int accept4(int fd, struct sockaddr *addr, socklen_t *len, int flags)
{
	int conn;

	if (!is_simulated(fd))
		return NEXT(accept4)(fd, addr, len, flags);
	conn = weir_sim_accept(fd);
	if (conn >= 0 && addr)
		weir_sim_getpeername(conn, addr, len);
	return GIVE(conn);
}

EXPORT int accept(int fd, struct sockaddr *addr, socklen_t *len)
{
	return accept4(fd, addr, len, 0);
}

EXPORT int shutdown(int fd, int how)
{
	return is_simulated(fd) ? GIVE(weir_sim_shutdown(fd, how)) :
				  NEXT(shutdown)(fd, how);
}

EXPORT ssize_t send(int fd, const void *buf, size_t len, int flags)
{
	return is_simulated(fd) ? write(fd, buf, len) :
				  NEXT(send)(fd, buf, len, flags);
}

EXPORT ssize_t recv(int fd, void *buf, size_t len, int flags)
{
	if (!is_simulated(fd))
		return NEXT(recv)(fd, buf, len, flags);
	return flags & ~MSG_DONTWAIT ? GIVE(-EOPNOTSUPP) : read(fd, buf, len);
}

EXPORT ssize_t sendto(int fd, const void *buf, size_t len, int flags,
		      const struct sockaddr *addr, socklen_t addr_len)
{
	return is_simulated(fd) ?
		give(weir_sim_sendto(fd, buf, len, addr, addr_len)) :
		NEXT(sendto)(fd, buf, len, flags, addr, addr_len);
}

EXPORT ssize_t recvfrom(int fd, void *buf, size_t len, int flags,
			struct sockaddr *addr, socklen_t *addr_len)
{
	return is_simulated(fd) ?
		give(weir_sim_recvfrom(fd, buf, len, addr, addr_len)) :
		NEXT(recvfrom)(fd, buf, len, flags, addr, addr_len);
}

EXPORT int getsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
	return is_simulated(fd) ? GIVE(weir_sim_getsockname(fd, addr, len)) :
				  NEXT(getsockname)(fd, addr, len);
}

EXPORT int getpeername(int fd, struct sockaddr *addr, socklen_t *len)
{
	return is_simulated(fd) ? GIVE(weir_sim_getpeername(fd, addr, len)) :
				  NEXT(getpeername)(fd, addr, len);
}

static int is_socket(int fd)
{
	struct stat st;
	int err = weir_sim_fstat(fd, &st);

	return err ? err : S_ISSOCK(st.st_mode) ? 0 : -ENOTSOCK;
}

/* Only a linger of no time changes anything. */
EXPORT int setsockopt(int fd, int level, int name, const void *value,
		      socklen_t len)
{
	struct linger linger;
	int err;

	if (!is_simulated(fd))
		return NEXT(setsockopt)(fd, level, name, value, len);
	err = is_socket(fd);
	if (!err && level == SOL_SOCKET && name == SO_LINGER) {
		if (len < sizeof(linger))
			return GIVE(-EINVAL);
		memcpy(&linger, value, sizeof(linger));
		err = weir_sim_close_resets(fd, linger.l_onoff &&
						!linger.l_linger);
	}
	return GIVE(err);
}

EXPORT int getsockopt(int fd, int level, int name, void *value,
		      socklen_t *len)
{
	int err, n;

	if (!is_simulated(fd))
		return NEXT(getsockopt)(fd, level, name, value, len);
	err = is_socket(fd);
	if (!err && (level != SOL_SOCKET || *len < sizeof(n) ||
		     name != SO_ERROR))
		err = -ENOPROTOOPT;
	if (err)
		return GIVE(err);
	n = -weir_sim_take_error(fd);
	memcpy(value, &n, sizeof(n));
	*len = sizeof(n);
	return 0;
}

static short poll_one(const struct pollfd *p)
{
	uint32_t wanted = (p->events & POLLIN ? WEIR_READABLE : 0) |
			  (p->events & POLLOUT ? WEIR_WRITABLE : 0) |
			  (p->events & POLLRDHUP ? WEIR_RDHUP : 0);
	int have = weir_sim_poll(p->fd, wanted);

	if (have < 0)
		return POLLNVAL;
	return (short)((have & WEIR_READABLE ? POLLIN : 0) |
		       (have & WEIR_WRITABLE ? POLLOUT : 0) |
		       (have & WEIR_RDHUP ? POLLRDHUP : 0) |
		       (have & WEIR_HANGUP ? POLLHUP : 0) |
		       (have & WEIR_ERROR ? POLLERR : 0));
}

/* It does not wait: nothing else runs meanwhile. */
EXPORT int poll(struct pollfd *fds, nfds_t n, int timeout)
{
	bool any = false;
	int ready = 0;

	for (nfds_t i = 0; i < n; i++)
		any |= is_simulated(fds[i].fd);
	if (!any)
		return NEXT(poll)(fds, n, timeout);
	for (nfds_t i = 0; i < n; i++) {
		fds[i].revents = 0;
		if (is_simulated(fds[i].fd))
			fds[i].revents = poll_one(&fds[i]);
		ready += fds[i].revents != 0;
	}
	return ready;
}

/* Clocks. */

static struct timespec of_ns(uint64_t ns)
{
	return (struct timespec){ .tv_sec = (time_t)(ns / WEIR_SEC),
				  .tv_nsec = (long)(ns % WEIR_SEC) };
}

EXPORT int clock_gettime(clockid_t clock, struct timespec *ret)
{
	struct weir_sim_host *host = weir_sim_host_here();

	if (!host || (clock != CLOCK_REALTIME && clock != CLOCK_MONOTONIC &&
		      clock != CLOCK_REALTIME_COARSE &&
		      clock != CLOCK_MONOTONIC_COARSE &&
		      clock != CLOCK_MONOTONIC_RAW && clock != CLOCK_BOOTTIME))
		return NEXT(clock_gettime)(clock, ret);
	*ret = of_ns(clock == CLOCK_REALTIME ||
		     clock == CLOCK_REALTIME_COARSE ?
			     weir_sim_host_wall(host) :
			     weir_sim_host_now(host));
	return 0;
}

EXPORT time_t time(time_t *ret)
{
	struct weir_sim_host *host = weir_sim_host_here();
	time_t now;

	if (!host)
		return NEXT(time)(ret);
	now = of_ns(weir_sim_host_wall(host)).tv_sec;
	if (ret)
		*ret = now;
	return now;
}

EXPORT int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
	struct weir_sim_host *host = weir_sim_host_here();
	struct timespec now;

	if (!host)
		return NEXT(gettimeofday)(ret, zone);
	now = of_ns(weir_sim_host_wall(host));
	*ret = (struct timeval){ now.tv_sec, now.tv_nsec / 1000 };
	return 0;
}

#ifdef __GLIBC__
/* Offsets have 64 bits here: these are the same functions.  Elsewhere they are macros. */
EXPORT int open64(const char *path, int flags, ...)
	__attribute__((alias("open")));
EXPORT int openat64(int dirfd, const char *path, int flags, ...)
	__attribute__((alias("openat")));
EXPORT ssize_t pread64(int fd, void *buf, size_t len, off_t off)
	__attribute__((alias("pread")));
EXPORT ssize_t pwrite64(int fd, const void *buf, size_t len, off_t off)
	__attribute__((alias("pwrite")));
EXPORT int ftruncate64(int fd, off_t bytes)
	__attribute__((alias("ftruncate")));
EXPORT int fallocate64(int fd, int mode, off_t off, off_t len)
	__attribute__((alias("fallocate")));
EXPORT off_t lseek64(int fd, off_t off, int whence)
	__attribute__((alias("lseek")));
EXPORT int fcntl64(int fd, int cmd, ...) __attribute__((alias("fcntl")));

/* What headers make of calls with _FORTIFY_SOURCE: the sizes are checked there, too,
 * and what they find does not go on. */
static void check_size(size_t len, size_t size)
{
	if (len > size) {
		fprintf(stderr, "libweir-sim-libc: a buffer overflows\n");
		abort();
	}
}

int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
ssize_t __read_chk(int fd, void *buf, size_t len, size_t size);
ssize_t __pread_chk(int fd, void *buf, size_t len, off_t off, size_t size);
ssize_t __recv_chk(int fd, void *buf, size_t len, size_t size, int flags);
int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t size);

EXPORT int __open_2(const char *path, int flags)
{
	return open(path, flags);
}

EXPORT int __open64_2(const char *path, int flags)
	__attribute__((alias("__open_2")));

EXPORT ssize_t __read_chk(int fd, void *buf, size_t len, size_t size)
{
	check_size(len, size);
	return read(fd, buf, len);
}

EXPORT ssize_t __pread_chk(int fd, void *buf, size_t len, off_t off,
			   size_t size)
{
	check_size(len, size);
	return pread(fd, buf, len, off);
}

EXPORT ssize_t __pread64_chk(int fd, void *buf, size_t len, off_t off,
			     size_t size)
	__attribute__((alias("__pread_chk")));

EXPORT ssize_t __recv_chk(int fd, void *buf, size_t len, size_t size,
			  int flags)
{
	check_size(len, size);
	return recv(fd, buf, len, flags);
}

EXPORT int __poll_chk(struct pollfd *fds, nfds_t n, int timeout, size_t size)
{
	check_size(n * sizeof(*fds), size);
	return poll(fds, n, timeout);
}
#endif /* __GLIBC__ */
