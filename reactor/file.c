/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations on files: check, describe, launch. */

#include <weir/file.h>

#include <limits.h>
#include <linux/openat2.h>

#include "base/libc.h"
#include "base/why.h"
#include "reactor/cached.h"
#include "reactor/io.h"

/* A range of a file that signed 64-bit offsets can name. */
#define TOO_FAR "the range ends beyond 2^63 - 1"

static bool range_is_sound(uint64_t off, uint64_t len)
{
	if (len > INT64_MAX)
		return false;
	return off == WEIR_OFF_STREAM || off <= INT64_MAX - len;
}

/* The values are the system's, and more than its headers may have. */
_Static_assert(WEIR_RW_HIPRI == RWF_HIPRI && WEIR_RW_DSYNC == RWF_DSYNC &&
	       WEIR_RW_SYNC == RWF_SYNC && WEIR_RW_NOWAIT == RWF_NOWAIT &&
	       WEIR_RW_APPEND == RWF_APPEND, "as documented");
#ifdef RWF_ATOMIC
_Static_assert(WEIR_RW_ATOMIC == RWF_ATOMIC, "as documented");
#endif
#ifdef RWF_DONTCACHE
_Static_assert(WEIR_RW_DONTCACHE == RWF_DONTCACHE, "as documented");
#endif

#define RW_WRITES \
	(WEIR_RW_DSYNC | WEIR_RW_SYNC | WEIR_RW_APPEND | WEIR_RW_ATOMIC)
#define RW_NEW (WEIR_RW_ATOMIC | WEIR_RW_DONTCACHE)
#define RW_ALL \
	(RW_WRITES | RW_NEW | WEIR_RW_HIPRI | WEIR_RW_NOWAIT)
#define IOPRIO_CLASSES 3	/* Real time, best effort, idle. */

int weir_op_set_rw(struct weir_op *op, uint32_t flags, uint16_t ioprio)
{
	uint32_t class = ioprio >> 13;

	if (op->state != OP_IDLE)
		return why_static(-EINVAL, "weir_op_set_rw: the operation is "
				  "in flight");
	if (flags & ~RW_ALL)
		return why(-EINVAL, "weir_op_set_rw: unknown flags %#x: use "
			   "those of WEIR_RW_", flags & ~RW_ALL);
	if (ioprio && (!class || class > IOPRIO_CLASSES))
		return why(-EINVAL, "weir_op_set_rw: priority %#x has no class "
			   "from 1 to 3: use IOPRIO_PRIO_VALUE()", ioprio);
	op->rw = flags | (uint32_t)ioprio << IO_RW_PRIO_SHIFT;
	return 0;
}

/* Whether what was set for @op suits its kind and the kernel. */
__attribute__((cold, noinline)) static int
check_rw(const struct weir_reactor *r, const struct weir_op *op, int kind)
{
	bool out = kind == IO_WRITE || kind == IO_WRITEV;
	uint32_t lacks;

	if (!out && op->rw & RW_WRITES)
		return io_invalid(kind, "DSYNC, SYNC, APPEND and ATOMIC are "
				  "for writes; see weir_op_set_rw()");
	if (r->backend->isolated || !(op->rw & RW_NEW))
		return 0;
	lacks = op->rw & RW_NEW & ~io_rw_known();
	if (!lacks)
		return 0;
	return why(-EOPNOTSUPP, "weir_%s: this kernel has no %s",
		   io_classes[kind].name, lacks & WEIR_RW_ATOMIC ?
		   "atomic writes (RWF_ATOMIC), which Linux 6.11 has" :
		   "RWF_DONTCACHE, which Linux 6.14 has");
}

static bool is_of_blocks(int fd)
{
	struct stat st;

	return !fstat(fd, &st) &&
	       (S_ISREG(st.st_mode) || S_ISBLK(st.st_mode));
}

/* A ring refuses to poll for one operation alone, so a worker does. */
__attribute__((cold, noinline)) static void
launch_rw(struct weir_reactor *r, struct weir_op *op)
{
	op->rw = 0;
	if (op->u.io.flags & WEIR_RW_HIPRI && !r->backend->isolated) {
		if (is_of_blocks(op->u.io.fd)) {
			io_launch_worker(r, op);
			return;
		}
		op->u.io.flags &= ~WEIR_RW_HIPRI;
	}
	io_launch(r, op);
}

static int refuse_rw(int err, struct weir_op *op, int kind)
{
	if (err == OP_ENDED)
		op->rw = 0;
	return io_refused(err, op, kind);
}

/* What every read and write ends its start with. */
static inline int go(struct weir_reactor *r, struct weir_op *op)
{
	op->u.io.flags = op->rw;
	if (likely(!op->rw))
		io_launch(r, op);
	else
		launch_rw(r, op);
	return 0;
}

static int start_rw(struct weir_reactor *r, struct weir_op *op, int kind,
		    int fd, const void *buf, size_t len, uint64_t off)
{
	int err;

	if (unlikely((!buf && len) || !range_is_sound(off, len)))
		return io_invalid(kind, !buf && len ? "the buffer is NULL" :
				  TOO_FAR);
	err = op_admit(r, op);
	if (unlikely(err))
		return refuse_rw(err, op, kind);
	if (unlikely(op->rw)) {
		err = check_rw(r, op, kind);
		if (err)
			return err;
	}
	op->kind = (uint8_t)kind;
	op->u.io.fd = fd;
	op->u.io.addr = (uintptr_t)buf;
	op->u.io.len = len;
	op->u.io.off = off;
	op->u.io.done = 0;
	op->u.io.buf_index = 0;
	return go(r, op);
}

int weir_read(struct weir_reactor *r, struct weir_op *op, int fd, void *buf,
	      size_t len, uint64_t off)
{
	return start_rw(r, op, IO_READ, fd, buf, len, off);
}

int weir_write(struct weir_reactor *r, struct weir_op *op, int fd,
	       const void *buf, size_t len, uint64_t off)
{
	return start_rw(r, op, IO_WRITE, fd, buf, len, off);
}

static int start_rwv(struct weir_reactor *r, struct weir_op *op, int kind,
		     int fd, const struct iovec *iov, uint32_t n, uint64_t off)
{
	int64_t total = io_iov_total(iov, n, kind);
	int err;

	if (total < 0)
		return (int)total;
	if (!range_is_sound(off, (uint64_t)total))
		return io_invalid(kind, TOO_FAR);
	err = op_admit(r, op);
	if (err)
		return refuse_rw(err, op, kind);
	if (op->rw) {
		err = check_rw(r, op, kind);
		if (err)
			return err;
	}
	op->kind = (uint8_t)kind;
	op->u.io.fd = fd;
	op->u.io.addr = (uintptr_t)iov;
	op->u.io.len = n;
	op->u.io.off = off;
	op->u.io.done = 0;
	op->u.io.aux = (uint64_t)total;
	op->u.io.seg = 0;
	op->u.io.seg_off = 0;
	op->u.io.buf_index = 0;
	return go(r, op);
}

int weir_readv(struct weir_reactor *r, struct weir_op *op, int fd,
	       const struct iovec *iov, uint32_t n, uint64_t off)
{
	return start_rwv(r, op, IO_READV, fd, iov, n, off);
}

int weir_writev(struct weir_reactor *r, struct weir_op *op, int fd,
		const struct iovec *iov, uint32_t n, uint64_t off)
{
	return start_rwv(r, op, IO_WRITEV, fd, iov, n, off);
}

int weir_fsync(struct weir_reactor *r, struct weir_op *op, int fd,
	       uint32_t flags)
{
	if (flags & ~WEIR_FSYNC_DATA)
		return io_invalid(IO_FSYNC, "unknown flags");
	return io_start(r, op, IO_FSYNC, (struct io_params){
		.fd = fd, .flags = flags });
}

int weir_fsync_range(struct weir_reactor *r, struct weir_op *op, int fd,
		     uint32_t flags, uint64_t off, uint64_t len)
{
	if (flags & ~WEIR_FSYNC_DATA)
		return why(-EINVAL, "weir_fsync_range: unknown flags");
	if (off > INT64_MAX || !range_is_sound(off, len))
		return why(-EINVAL, "weir_fsync_range: " TOO_FAR);
	return io_start(r, op, IO_FSYNC, (struct io_params){
		.fd = fd, .flags = flags, .off = off, .len = len });
}

int weir_fallocate(struct weir_reactor *r, struct weir_op *op, int fd, int mode,
		   uint64_t off, uint64_t len)
{
	if (off > INT64_MAX || !range_is_sound(off, len))
		return io_invalid(IO_FALLOCATE, TOO_FAR);
	return io_start(r, op, IO_FALLOCATE, (struct io_params){
		.fd = fd, .flags = (uint32_t)mode, .off = off, .len = len });
}

int weir_open(struct weir_reactor *r, struct weir_op *op, int dirfd,
	      const char *path, int flags, mode_t mode)
{
	if (!path)
		return io_invalid(IO_OPEN, "the path is NULL");
	return io_start(r, op, IO_OPEN, (struct io_params){
		.fd = dirfd, .addr = path, .len = mode,
		.flags = (uint32_t)(flags | O_CLOEXEC) });
}

/* The members of Linux 5.6, which are all that there are. */
static int check_how(const struct open_how *how, size_t size)
{
	const char *bytes = (const char *)how;

	if (!how || size < sizeof(*how))
		return why(-EINVAL, "weir_open_how: no struct open_how, or of "
			   "less than %zu bytes", sizeof(*how));
	for (size_t i = sizeof(*how); i < size; i++)
		if (bytes[i])
			return why(-E2BIG, "weir_open_how: byte %zu of the "
				   "struct open_how is not 0, and of a member "
				   "that this version does not know", i);
	if (how->flags > UINT32_MAX || how->mode > UINT32_MAX)
		return why(-EINVAL, "weir_open_how: .flags or .mode have bits "
			   "that mean nothing");
	return 0;
}

int weir_open_how(struct weir_reactor *r, struct weir_op *op, int dirfd,
		  const char *path, const struct open_how *how, size_t size)
{
	int err = check_how(how, size);

	if (err)
		return err;
	if (!path)
		return why(-EINVAL, "weir_open_how: the path is NULL");
	if (!r->backend->isolated && !io_has_openat2())
		return why(-EOPNOTSUPP, "weir_open_how: this kernel has no "
			   "openat2(2), or a filter of system calls refuses "
			   "it: use weir_open()");
	return io_start(r, op, IO_OPEN, (struct io_params){
		.fd = dirfd, .addr = path, .len = how->mode,
		.off = how->resolve, .aux = true,
		.flags = (uint32_t)how->flags | O_CLOEXEC });
}

/* Never refused for capacity, nor while the reactor stops. */
int weir_close(struct weir_reactor *r, struct weir_op *op, int fd)
{
	struct io_params p = { .fd = fd };

	reactor_check_thread(r);
	if (op->state != OP_IDLE || !op->fn)
		return io_refused(-EINVAL, op, IO_CLOSE);
	cached_forget(r, fd);
	r->backend->fd_unregister(r, fd);
	io_launch_params(r, op, IO_CLOSE, &p);
	return 0;
}

int weir_statx(struct weir_reactor *r, struct weir_op *op, int dirfd,
	       const char *path, int flags, unsigned int mask,
	       struct statx *ret)
{
	if (!path || !ret)
		return io_invalid(IO_STATX, "the path or the result is NULL");
	return io_start(r, op, IO_STATX, (struct io_params){
		.fd = dirfd, .addr = path, .len = mask, .aux = (uintptr_t)ret,
		.flags = (uint32_t)flags });
}

int weir_rename(struct weir_reactor *r, struct weir_op *op, int from_dirfd,
		const char *from, int to_dirfd, const char *to, uint32_t flags)
{
	if (!from || !to)
		return io_invalid(IO_RENAME, "the path is NULL");
	return io_start(r, op, IO_RENAME, (struct io_params){
		.fd = from_dirfd, .addr = from, .aux = (uintptr_t)to,
		.len = (uint32_t)to_dirfd, .flags = flags });
}

int weir_unlink(struct weir_reactor *r, struct weir_op *op, int dirfd,
		const char *path, int flags)
{
	if (!path)
		return io_invalid(IO_UNLINK, "the path is NULL");
	return io_start(r, op, IO_UNLINK, (struct io_params){
		.fd = dirfd, .addr = path, .flags = (uint32_t)flags });
}

int weir_copy_range(struct weir_reactor *r, struct weir_op *op, int src,
		    uint64_t src_off, int dst, uint64_t dst_off, size_t len)
{
	int err;

	if (src_off > INT64_MAX || dst_off > INT64_MAX ||
	    !range_is_sound(src_off, len) || !range_is_sound(dst_off, len))
		return io_invalid(IO_COPY_RANGE, TOO_FAR);
	err = op_admit(r, op);
	if (err)
		return io_refused(err, op, IO_COPY_RANGE);
	err = worker_ensure(r);
	if (err)
		return why(err, "weir_copy_range: no worker can be made: %s",
			   strerror(-err));
	io_launch_params(r, op, IO_COPY_RANGE, &(struct io_params){
		.fd = src, .off = src_off, .len = len,
		.addr = (const void *)(uintptr_t)dst, .aux = dst_off });
	return 0;
}

int weir_fd_register(struct weir_reactor *r, int fd)
{
	reactor_check_thread(r);
	if (fd_is_virtual(fd) ? !vfd_ops->is_open(fd) : fcntl(fd, F_GETFD) < 0)
		return why(-EBADF, "weir_fd_register: %d is not open", fd);
	return !r->backend->fd_register(r, fd);
}

void weir_fd_unregister(struct weir_reactor *r, int fd)
{
	reactor_check_thread(r);
	r->backend->fd_unregister(r, fd);
}
