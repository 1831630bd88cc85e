/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_SIM_CALLS_H
#define TESTS_SIM_CALLS_H

/*
 * For tests that run in a simulated world, too: the system's calls on
 * descriptors, which go to the world for those that are the world's.  Include
 * it last.  In a world, nothing waits: what would is EAGAIN.
 */

#include <fcntl.h>
#include <netinet/in.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

int any_open(const char *path, int flags, int mode);
ssize_t any_pread(int fd, void *buf, size_t len, off_t off);
ssize_t any_pwrite(int fd, const void *buf, size_t len, off_t off);
off_t any_lseek(int fd, off_t off, int whence);
int any_ftruncate(int fd, off_t len);
ssize_t any_read(int fd, void *buf, size_t len);
ssize_t any_write(int fd, const void *buf, size_t len);
int any_close(int fd);
int any_shutdown(int fd, int how);
ssize_t any_recv(int fd, void *buf, size_t len, int flags);
int any_fcntl(int fd, int cmd, int arg);
int any_socket(int domain, int type, int protocol);
int any_connect(int fd, const struct sockaddr *addr, socklen_t len);
int any_getsockopt(int fd, int level, int name, void *val, socklen_t *len);
int any_setsockopt(int fd, int level, int name, const void *val,
		   socklen_t len);
int any_eventfd_write(int fd, uint64_t n);

/* In a world: a listener at a port of its own. */
int sim_listener(struct sockaddr_in *addr, int backlog);

#define ANY_FIRST(a, ...) a
#define ANY_SECOND(a, b, ...) b
#define open(path, ...) any_open(path, ANY_FIRST(__VA_ARGS__, 0), \
				 ANY_SECOND(__VA_ARGS__, 0, 0))
#define pread(fd, buf, len, off) any_pread(fd, buf, len, off)
#define pwrite(fd, buf, len, off) any_pwrite(fd, buf, len, off)
#define lseek(fd, off, whence) any_lseek(fd, off, whence)
#define ftruncate(fd, len) any_ftruncate(fd, len)
#define read(fd, buf, len) any_read(fd, buf, len)
#define write(fd, buf, len) any_write(fd, buf, len)
#define close(fd) any_close(fd)
#define shutdown(fd, how) any_shutdown(fd, how)
#define recv(fd, buf, len, flags) any_recv(fd, buf, len, flags)
#define fcntl(fd, ...) any_fcntl(fd, ANY_FIRST(__VA_ARGS__, 0), \
				 ANY_SECOND(__VA_ARGS__, 0, 0))
#define socket(domain, type, protocol) any_socket(domain, type, protocol)
#define connect(fd, addr, len) any_connect(fd, addr, len)
#define getsockopt(fd, level, name, val, len) \
	any_getsockopt(fd, level, name, val, len)
#define setsockopt(fd, level, name, val, len) \
	any_setsockopt(fd, level, name, val, len)
#define eventfd_write(fd, n) any_eventfd_write(fd, n)

#endif /* TESTS_SIM_CALLS_H */
