/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_REACTOR_IO_KINDS_H
#define WEIR_REACTOR_IO_KINDS_H

/*
 * Each kind of I/O operation has a row, from which come the enum (backend.h),
 * the class (io.c), the system call (io-sync.c) and the data for io_uring
 * (uring/):
 *
 *	NAME	IO_NAME; op->kind
 *	text	for people
 *	step	io-sync.c: step_..(), which does one step without waiting
 *	OPCODE	IORING_OP_OPCODE
 *	fill	uring/fill.c: fill_..(), which describes a step to the kernel
 *	WEIGHT	uring/uring.c: its weight there until it ends.  SURE: it ends
 *		soon, whatever others do.  COUNTED: it ends, perhaps late.
 *		UNCOUNTED: it ends when a peer acts; there may be any number
 *		of these, and most stay for long
 *
 * Their parameters are in op->u.io:
 *
 *	kind         fd    addr     len     off    flags     aux
 *	READ WRITE   fd    memory   bytes   off    io.h      -
 *	READV WRITEV fd    iovec    n       off    io.h      bytes
 *	FSYNC        fd    -        len     off    FSYNC_    -
 *	FALLOCATE    fd    -        len     off    mode      -
 *	OPEN         dirfd path     mode    RESOLVE_ O_      by openat2
 *	CLOSE        fd    -        -       -      -         -
 *	STATX        dirfd path     mask    -      AT_       struct statx
 *	RENAME       dirfd from     dirfd   -      flags     to
 *	UNLINK       dirfd path     -       -      AT_       -
 *	MKDIR        dirfd path     mode    -      -         -
 *	LINK         dirfd from     dirfd   -      AT_       to
 *	SYMLINK      dirfd target   -       -      -         path
 *	FTRUNCATE    fd    -        length  -      -         -
 *	XATTR_GET    fd    name     bytes   -      -         memory
 *	XATTR_SET    fd    name     bytes   -      XATTR_    memory
 *	ACCEPT       fd    sockaddr -       -      SOCK_     its length
 *	CONNECT      fd    sockaddr addrlen -      -         -
 *	RECV SEND    fd    memory   bytes   -      SOCK_     -
 *	SENDV        fd    iovec    n       -      SOCK_     bytes
 *	SENDMSG RECVMSG fd msghdr   -       -      SOCK_     -
 *	SHUTDOWN     fd    -        -       -      how       -
 *	POLL         fd    -        -       -      WEIR_     -
 *	SPLICE       polled in       bytes   pipes  WEIR_     out
 *	COPY_RANGE   src   dst fd   bytes   off    -         dst off
 *	READLINK     dirfd path     bytes   -      -         memory
 *	CHMOD        dirfd path     mode    -      AT_       -
 *	CHOWN        dirfd path     uid     gid    AT_       -
 *	UTIMENS      dirfd path     -       -      AT_       times
 *	XATTR_LIST   fd    -        bytes   -      -         memory
 *	XATTR_REMOVE fd    name     -       -      -         -
 *	READDIR      fd    -        bytes   -      -         memory
 *	WORK         -     fn       -       -      -         arg
 */
#define IO_ROWS(ROW) \
	ROW(NOP, "nop", nop, NOP, nop, SURE) \
	ROW(READ, "read", transfer, READ, rw, COUNTED) \
	ROW(WRITE, "write", transfer, WRITE, rw, COUNTED) \
	ROW(READV, "readv", transfer, READV, rw, COUNTED) \
	ROW(WRITEV, "writev", transfer, WRITEV, rw, COUNTED) \
	ROW(FSYNC, "fsync", fsync, FSYNC, fsync, SURE) \
	ROW(FALLOCATE, "fallocate", fallocate, FALLOCATE, fallocate, SURE) \
	ROW(OPEN, "open", open, OPENAT, open, COUNTED) /* A FIFO's waits. */ \
	ROW(CLOSE, "close", close, CLOSE, close, SURE) \
	ROW(STATX, "statx", statx, STATX, path, SURE) \
	ROW(RENAME, "rename", rename, RENAMEAT, path, SURE) \
	ROW(UNLINK, "unlink", unlink, UNLINKAT, path, SURE) \
	ROW(MKDIR, "mkdir", mkdir, MKDIRAT, path, SURE) \
	ROW(LINK, "link", link, LINKAT, path, SURE) \
	ROW(SYMLINK, "symlink", symlink, SYMLINKAT, path, SURE) \
	ROW(FTRUNCATE, "ftruncate", ftruncate, FTRUNCATE_6_9, ftruncate, SURE) \
	ROW(XATTR_GET, "xattr_get", xattr_get, FGETXATTR, file, SURE) \
	ROW(XATTR_SET, "xattr_set", xattr_set, FSETXATTR, file, SURE) \
	ROW(ACCEPT, "accept", accept, ACCEPT, file, UNCOUNTED) \
	ROW(CONNECT, "connect", connect, CONNECT, connect, UNCOUNTED) \
	ROW(RECV, "recv", transfer, RECV, recv, UNCOUNTED) \
	ROW(SEND, "send", transfer, SEND, send, COUNTED) \
	ROW(SENDV, "sendv", transfer, SENDMSG, send, COUNTED) \
	ROW(SENDMSG, "sendmsg", sendmsg, SENDMSG, msg, COUNTED) \
	ROW(RECVMSG, "recvmsg", recvmsg, RECVMSG, msg, UNCOUNTED) \
	ROW(SHUTDOWN, "shutdown", shutdown, SHUTDOWN, shutdown, SURE) \
	ROW(POLL, "poll", poll, POLL_ADD, poll, UNCOUNTED) \
	/* A poll for what it waits; splice.c does the rest. */ \
	ROW(SPLICE, "splice", poll, POLL_ADD, poll, UNCOUNTED)

/* Those that a worker always does. */
#define IO_WORKER_ROWS(ROW) \
	ROW(COPY_RANGE, "copy_range", copy_range) \
	ROW(READLINK, "readlink", readlink) \
	ROW(CHMOD, "chmod", chmod) \
	ROW(CHOWN, "chown", chown) \
	ROW(UTIMENS, "utimens", utimens) \
	ROW(XATTR_LIST, "xattr_list", xattr_list) \
	ROW(XATTR_REMOVE, "xattr_remove", xattr_remove) \
	ROW(READDIR, "readdir", readdir) \
	ROW(WORK, "work", nop)

#endif /* WEIR_REACTOR_IO_KINDS_H */
