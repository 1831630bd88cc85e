/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_SIM_LIBC_H
#define WEIR_SIM_LIBC_H

/*
 * Calls of libc in simulated worlds, so that a program runs there as it is.
 *
 * A program calls more than this library: open(2), bind(2), pwrite(2) in a worker,
 * close(2), clock_gettime(2).  Link it with libweir-sim-libc before libc
 * (pkg-config weir-sim-libc), and these calls are simulated while it runs on a host
 * (<weir/sim/host.h>).  The program is compiled once: linked without that library it
 * is the real one.
 *
 * Simulated are, on descriptors of a world at any time:
 *
 *	close, read, write, readv, writev, pread, pwrite, lseek, fsync, fdatasync,
 *	ftruncate, fallocate, fstat, fcntl (F_GETFL, F_SETFL, F_GETFD, F_SETFD,
 *	F_GETPIPE_SZ, F_SETPIPE_SZ), ioctl (BLKGETSIZE64, BLKSSZGET),
 *	posix_fadvise, bind, listen, connect, accept, accept4, shutdown, send, recv,
 *	sendto, recvfrom (of datagrams), getsockname, getpeername,
 *	setsockopt (SO_LINGER; others change nothing),
 *	getsockopt (SO_ERROR), poll, vmsplice
 *
 * and in .start() and callbacks of a host's program, on what the host has:
 *
 *	open, openat, unlink, unlinkat, rmdir, rename, mkdir, chmod, stat, lstat,
 *	access, socket (SOCK_STREAM, SOCK_DGRAM), socketpair, pipe, pipe2,
 *	clock_gettime, time, gettimeofday
 *
 * Paths are those of the host, from its root directory, but those below /proc, /sys
 * and /dev are the system's.  Sockets have addresses as <weir/sim/socket.h> says.
 *
 * These calls take no virtual time and never wait: what would wait fails with
 * EAGAIN, or EINPROGRESS for a connect, and a poll returns at once.  Reads and
 * writes have the faults WEIR_SIM_ERROR and WEIR_SIM_EINTR of the host, and on files
 * WEIR_SIM_SHORT; the others have none.
 * Other calls of libc are not simulated: a program that reads directories, resolves
 * names or makes threads and processes does so in the system.
 *
 * What the program allocates is its own: .gone() has to free it.  Static variables
 * keep what a killed program has left in them.
 */

#include <weir/base.h>

/* Descriptors of worlds are numbers from here on, which no kernel assigns. */
#define WEIR_SIM_FD_FIRST (1 << 30)

#endif /* WEIR_SIM_LIBC_H */
