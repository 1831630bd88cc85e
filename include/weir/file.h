/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_FILE_H
#define WEIR_FILE_H

/*
 * Operations on files and file systems.
 *
 * Each starts @op by the contract of <weir/op.h>.  All of them return 0, or
 *
 *   -EINVAL     an argument is invalid: @op is in flight or has no callback, a
 *               pointer is NULL, a length or an offset is beyond INT64_MAX
 *   -EAGAIN     .ops_max operations are in flight
 *   -ESHUTDOWN  the reactor is stopping
 *
 * and the errors that their own comment lists; errors of the kernel come with
 * the completion.  All of them are called on the reactor's thread, never block
 * and never allocate.  The library uses paths, buffers and iovecs until the
 * callback; descriptors too: do not close one that an operation uses.
 */

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <weir/op.h>

#ifdef __cplusplus
extern "C" {
#endif

struct open_how;
struct statx;

/*
 * As an offset: the descriptor's own position, or a stream that has none.
 *
 * A read is then a single transfer, as by read(2), which may be short.
 * weir_write() still continues until everything is written.
 */
#define WEIR_OFF_STREAM UINT64_MAX

/*
 * How a read or a write is done: see weir_op_set_rw().  The values are those of
 * the RWF_ flags of preadv2(2), by whose names they may be passed, too.
 */
#define WEIR_RW_HIPRI 0x01u	/* Poll the device; of O_DIRECT. */
#define WEIR_RW_DSYNC 0x02u	/* Write: durable at the end, as O_DSYNC. */
#define WEIR_RW_SYNC 0x04u	/* Write: the same, with all metadata. */
#define WEIR_RW_NOWAIT 0x08u	/* -EAGAIN rather than wait. */
#define WEIR_RW_APPEND 0x10u	/* Write: at the end of the file. */
#define WEIR_RW_ATOMIC 0x40u	/* Write: all or nothing, also at a crash. */
#define WEIR_RW_DONTCACHE 0x80u	/* Do not leave it in the page cache. */

/*
 * Set how the next read or write with @op is done: @flags and @ioprio.
 *
 * For weir_read(), weir_write(), weir_readv() and weir_writev(), of which it
 * concerns the next one that is started with @op, and none after it; a start
 * that is refused, and other operations, leave it as it is.
 *
 *	weir_op_set_rw(&rq->op, WEIR_RW_DSYNC, 0);
 *	err = weir_write(r, &rq->op, fd, rq->block, 4096, off);
 *
 * With WEIR_RW_NOWAIT the operation is a single transfer, which may be short,
 * and -EAGAIN is its result if it would have to wait for a device, a lock or a
 * peer, or if the file has only transfers that may.  With WEIR_RW_ATOMIC it is a
 * single one, too.  With WEIR_RW_APPEND the offset does not matter, unless it is
 * WEIR_OFF_STREAM: then the descriptor's position is the end afterwards.  On
 * overlayfs, which forgets the flag on older kernels, a worker opens the file again
 * to append, and the write completes with -EOPNOTSUPP where it cannot.
 * WEIR_RW_HIPRI is a hint; on uring, where a whole ring polls or none does, a
 * worker makes such a call on a file.
 *
 * @ioprio is a class and a level of ioprio_set(2), IOPRIO_PRIO_VALUE(), and 0
 * the priority of the thread.  Where a worker makes the call it takes on the
 * priority meanwhile.  It concerns files and block devices.
 *
 * The start of a read is refused with -EINVAL if a flag of writes was set, and a
 * start with -EOPNOTSUPP if the kernel does not know WEIR_RW_ATOMIC (Linux 6.11)
 * or WEIR_RW_DONTCACHE (6.14).
 *
 * The kernel decides what a file supports: -EOPNOTSUPP is the result, for
 * example, of WEIR_RW_DONTCACHE on tmpfs, or of WEIR_RW_ATOMIC on a disk that
 * has no such writes; -EINVAL of an atomic write whose size is no power of two
 * or whose offset no multiple of it; and -EPERM of a priority that the process
 * may not have.  Files of a simulated world are synced by WEIR_RW_DSYNC and
 * WEIR_RW_SYNC, appended to, and never keep WEIR_RW_NOWAIT waiting; they refuse
 * WEIR_RW_ATOMIC with -EOPNOTSUPP, and the rest changes nothing there.
 *
 * Returns 0, or
 *   -EINVAL  @op is in flight, @flags has unknown bits, or @ioprio has no class
 *
 * Call on the reactor's thread.  Never blocks, never allocates.
 *
 * Re-creates the flags of preadv2(2) and pwritev2(2), and .rw_flags and .ioprio
 * of an SQE.
 */
WEIR_API int weir_op_set_rw(struct weir_op *op, uint32_t flags,
			    uint16_t ioprio);

/*
 * Read @len bytes at @off of @fd into @buf.
 *
 * The library continues short reads: the result is @len, or less only at the
 * end of the file.  After an error the detail has the number of bytes read before
 * it.  @len may be more than 4 GiB.  weir_op_set_rw() sets flags and a priority
 * for it.
 *
 * On ev, and on uring if it is the only one of its turn, a read of up to 128 KiB is
 * tried by preadv2(2) with RWF_NOWAIT in the start: what is in the page cache
 * takes neither a worker nor the ring.
 *
 * Completes with the bytes read (0 at the end), or a negative errno of
 * pread(2).
 *
 * Re-creates io_uring_prep_read() and uv_fs_read().
 */
WEIR_API int weir_read(struct weir_reactor *r, struct weir_op *op, int fd,
		       void *buf, size_t len, uint64_t off);

/*
 * Write @len bytes of @buf at @off of @fd.
 *
 * Completes with @len, or a negative errno of pwrite(2), for example -ENOSPC;
 * then the detail has the number of bytes written.  -EPIPE, for a socket or a
 * pipe whose reading end is closed, comes without a signal.  One exception: on
 * uring, from Linux 6.4 to 6.17, the kernel sends SIGPIPE to the reactor's
 * thread for a pipe, as write(2) does; ignore the signal there.
 *
 * Re-creates io_uring_prep_write() and uv_fs_write().
 */
WEIR_API int weir_write(struct weir_reactor *r, struct weir_op *op, int fd,
			const void *buf, size_t len, uint64_t off);

/*
 * Read into @n pieces of memory, in order (a scatter list).
 *
 * Otherwise as weir_read().
 *
 * Returns also
 *   -EMSGSIZE  @n is more than IOV_MAX (1024)
 *
 * Re-creates io_uring_prep_readv(), as an operation.
 */
WEIR_API int weir_readv(struct weir_reactor *r, struct weir_op *op, int fd,
			const struct iovec *iov, uint32_t n, uint64_t off);

/*
 * Write from @n pieces of memory, in order (a gather list).
 *
 * Otherwise as weir_write().
 *
 * Returns also
 *   -EMSGSIZE  @n is more than IOV_MAX (1024)
 *
 * Re-creates io_uring_prep_writev() and writev(2), as an operation.
 */
WEIR_API int weir_writev(struct weir_reactor *r, struct weir_op *op, int fd,
			 const struct iovec *iov, uint32_t n, uint64_t off);

/* Only the data, and the metadata needed to read it: fdatasync(2). */
#define WEIR_FSYNC_DATA 1u

/*
 * Sync completed writes of @fd to the medium.
 *
 * Writes that have not completed may or may not be included.
 *
 * Completes with 0, or a negative errno of fsync(2).
 *
 * Re-creates io_uring_prep_fsync() and uv_fs_fsync().
 */
WEIR_API int weir_fsync(struct weir_reactor *r, struct weir_op *op, int fd,
			uint32_t flags);

/*
 * The same for @len bytes from @off on; a @len of 0 means to the end.
 *
 * More may be synced: all of the file on libev and on workers, because only
 * io_uring passes on a range, and there, if @len is 0 or more than 4 GiB.
 *
 * Completes with 0, or a negative errno of fsync(2).
 *
 * Re-creates fsync_range(2) of NetBSD and AIX, and IORING_OP_FSYNC with a
 * range.
 */
WEIR_API int weir_fsync_range(struct weir_reactor *r, struct weir_op *op,
			      int fd, uint32_t flags, uint64_t off,
			      uint64_t len);

/*
 * Allocate or free space of @fd: fallocate(2), with its @mode.
 *
 * Completes with 0, or a negative errno; -EOPNOTSUPP if the file system does
 * not support it.
 *
 * Re-creates io_uring_prep_fallocate().
 */
WEIR_API int weir_fallocate(struct weir_reactor *r, struct weir_op *op, int fd,
			    int mode, uint64_t off, uint64_t len);

/*
 * Open @path: openat(2), with O_CLOEXEC added to @flags.
 *
 * The open of a FIFO waits for the other end, in one of .workers threads.  If
 * all of these wait, the reactor's other file operations wait too, including
 * the open of the other end, until one is cancelled: use O_NONBLOCK or a
 * deadline for a FIFO.
 *
 * Completes with the new descriptor, which the caller owns, or a negative
 * errno.  If a cancel was too late the result is the descriptor.
 *
 * Re-creates io_uring_prep_openat() and uv_fs_open().
 */
WEIR_API int weir_open(struct weir_reactor *r, struct weir_op *op, int dirfd,
		       const char *path, int flags, mode_t mode);

/*
 * Open @path as *@how of @size bytes says: openat2(2), with O_CLOEXEC added to
 * how->flags.
 *
 * how->resolve keeps the path below @dirfd (RESOLVE_BENEATH, RESOLVE_IN_ROOT),
 * or on its file system, or free of symbolic links, and so on; include
 * <linux/openat2.h>.  The library copies *@how.  In a simulated world, where
 * there are neither links nor mounts, "..", which no path there may have, and an
 * absolute path are checked.
 *
 * Completes as weir_open() does, and with -EXDEV if the path leaves @dirfd,
 * -ELOOP at a symbolic link, or -EAGAIN if the name is not in the cache
 * (RESOLVE_CACHED).
 *
 * Returns also
 *   -EINVAL      @how is NULL, or @size less than that of Linux 5.6
 *   -E2BIG       *@how has members that are not 0 and that this version does
 *                not know
 *   -EOPNOTSUPP  the kernel has no openat2(2), or a filter of system calls
 *                refuses it
 *
 * Re-creates io_uring_prep_openat2() and openat2(2), as an operation.
 */
WEIR_API int weir_open_how(struct weir_reactor *r, struct weir_op *op,
			   int dirfd, const char *path,
			   const struct open_how *how, size_t size);

/*
 * Close @fd, and end its registration if it has one.
 *
 * A socket that lingers (SO_LINGER) waits for its peer on a worker, of which there
 * are .workers of the reactor's options.
 *
 * No operation may be using @fd.  Capacity for a close is always reserved: it
 * never returns -EAGAIN, nor -ESHUTDOWN while a reactor stops.
 *
 * Completes with 0, or a negative errno of close(2); @fd is closed in any case.
 *
 * Returns 0, or
 *   -EINVAL  @op is in flight or without callback
 *
 * Re-creates io_uring_prep_close() and uv_fs_close().
 */
WEIR_API int weir_close(struct weir_reactor *r, struct weir_op *op, int fd);

/*
 * Look up @path (or @dirfd itself, with AT_EMPTY_PATH and ""): statx(2).
 *
 * Completes with 0 and *@ret filled in, or a negative errno.
 *
 * Re-creates io_uring_prep_statx() and uv_fs_stat().
 */
WEIR_API int weir_statx(struct weir_reactor *r, struct weir_op *op, int dirfd,
			const char *path, int flags, unsigned int mask,
			struct statx *ret);

/*
 * Rename @from, relative to @from_dirfd, to @to, relative to @to_dirfd:
 * renameat2(2), with its @flags.
 *
 * Completes with 0, or a negative errno.
 *
 * Re-creates io_uring_prep_renameat() and uv_fs_rename().
 */
WEIR_API int weir_rename(struct weir_reactor *r, struct weir_op *op,
			 int from_dirfd, const char *from, int to_dirfd,
			 const char *to, uint32_t flags);

/*
 * Remove the name @path: unlinkat(2); with AT_REMOVEDIR, a directory.
 *
 * Completes with 0, or a negative errno.
 *
 * Re-creates io_uring_prep_unlinkat() and uv_fs_unlink().
 */
WEIR_API int weir_unlink(struct weir_reactor *r, struct weir_op *op, int dirfd,
			 const char *path, int flags);

/*
 * Copy @len bytes from @src at @src_off to @dst at @dst_off inside the kernel.
 *
 * The kernel shares extents if the file system can (reflink); otherwise it uses
 * copy_file_range(2).  Runs on a worker.
 *
 * Completes with the bytes copied, less than @len only at the end of @src, or a
 * negative errno; -EXDEV or -EOPNOTSUPP if the kernel cannot copy, with nothing
 * copied.
 *
 * Re-creates copy_file_range(2), as an operation.
 */
WEIR_API int weir_copy_range(struct weir_reactor *r, struct weir_op *op,
			     int src, uint64_t src_off, int dst,
			     uint64_t dst_off, size_t len);

/*
 * Register @fd with the kernel, so that operations save its look-up
 * (IORING_REGISTER_FILES).
 *
 * This is a hint: without support or capacity it does nothing.  On libev it
 * reserves memory for a descriptor with a high number; see
 * weir_reactor_create().
 *
 * Call weir_fd_unregister() or weir_close() before the descriptor is closed by
 * other means, because its number may be given to another file.
 *
 * Returns 0 if registered, 1 if not, or
 *   -EBADF  @fd is not open
 *
 * Call on @r's thread.
 *
 * Re-creates io_uring_register_files().
 */
WEIR_API int weir_fd_register(struct weir_reactor *r, int fd);

/*
 * End the registration by weir_fd_register().
 *
 * Operations in flight keep the file.
 *
 * Call on @r's thread.
 *
 * Re-creates io_uring_unregister_files().
 */
WEIR_API void weir_fd_unregister(struct weir_reactor *r, int fd);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_FILE_H */
