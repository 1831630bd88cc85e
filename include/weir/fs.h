/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_FS_H
#define WEIR_FS_H

/*
 * Operations on directories, links and attributes of files.
 *
 * Open, rename, unlink and statx are in <weir/file.h>.
 *
 * Each starts @op by the contract of <weir/op.h>.  All of them return 0, or
 *
 *   -EINVAL     an argument is invalid: @op is in flight or has no callback, a
 *               pointer is NULL, a length is beyond INT64_MAX
 *   -EAGAIN     .ops_max operations are in flight
 *   -ESHUTDOWN  the reactor is stopping
 *
 * and the errors that their own comment lists; errors of the kernel come with
 * the completion.  All of them are called on the reactor's thread, never block
 * and never allocate.  The library uses paths, names, times and buffers until
 * the callback; descriptors too: do not close one that an operation uses.
 *
 * A path is relative to @dirfd, which may be AT_FDCWD.  Where there are @flags,
 * AT_EMPTY_PATH with the path "" means the file of @dirfd itself, which may have
 * been opened with O_PATH, and AT_SYMLINK_NOFOLLOW a symbolic link itself.
 *
 * io_uring executes weir_mkdir(), weir_link(), weir_symlink(), weir_xattr_get()
 * and weir_xattr_set(), and from Linux 6.9 weir_ftruncate().  A worker thread
 * makes the system calls of the others, and on libev those of all.  The results
 * are the same.
 *
 * A simulated world has directories, hard links and lengths; other operations
 * complete with -EOPNOTSUPP there.
 */

#include <sys/types.h>

#include <weir/op.h>

#ifdef __cplusplus
extern "C" {
#endif

struct timespec;

/*
 * Make the directory @path with the permissions @mode & ~umask: mkdirat(2).
 *
 * Completes with 0, or a negative errno, for example -EEXIST.
 *
 * Re-creates io_uring_prep_mkdirat() and uv_fs_mkdir().
 */
WEIR_API int weir_mkdir(struct weir_reactor *r, struct weir_op *op, int dirfd,
			const char *path, mode_t mode);

/*
 * Make @to, relative to @to_dirfd, one more name of the file @from, relative to
 * @from_dirfd: linkat(2), with its @flags, AT_SYMLINK_FOLLOW or AT_EMPTY_PATH.
 *
 * Completes with 0, or a negative errno.
 *
 * Re-creates io_uring_prep_linkat() and uv_fs_link().
 */
WEIR_API int weir_link(struct weir_reactor *r, struct weir_op *op,
		       int from_dirfd, const char *from, int to_dirfd,
		       const char *to, int flags);

/*
 * Make the symbolic link @path, which contains @target: symlinkat(2).
 *
 * Completes with 0, or a negative errno; in a simulated world -EOPNOTSUPP.
 *
 * Re-creates io_uring_prep_symlinkat() and uv_fs_symlink().
 */
WEIR_API int weir_symlink(struct weir_reactor *r, struct weir_op *op,
			  const char *target, int dirfd, const char *path);

/*
 * Read the contents of the symbolic link @path into @buf of @len bytes:
 * readlinkat(2).  With the path "", those of the link that @dirfd is open on.
 *
 * Completes with the number of bytes, to which no 0 byte is appended: if that is
 * @len, the link may be longer.  Or with a negative errno, -EINVAL if @path is no
 * symbolic link, or its @len is 0; in a simulated world -EOPNOTSUPP.
 *
 * Re-creates readlinkat(2), as an operation, and uv_fs_readlink().
 */
WEIR_API int weir_readlink(struct weir_reactor *r, struct weir_op *op,
			   int dirfd, const char *path, char *buf, size_t len);

/*
 * Set the length of the file of @fd to @len bytes, as ftruncate(2) does: bytes
 * beyond it are lost, and bytes that are added read as zeros.
 *
 * Completes with 0, or a negative errno.
 *
 * Re-creates io_uring_prep_ftruncate() and uv_fs_ftruncate().
 */
WEIR_API int weir_ftruncate(struct weir_reactor *r, struct weir_op *op, int fd,
			    uint64_t len);

/*
 * Set the permissions of @path to @mode: fchmodat2(2), with its @flags.
 *
 * Completes with 0, or a negative errno: -EOPNOTSUPP with AT_SYMLINK_NOFOLLOW
 * before Linux 6.6, or for a symbolic link, which has no permissions; and in a
 * simulated world.
 *
 * Re-creates fchmodat(2), as an operation, and uv_fs_chmod() and uv_fs_fchmod().
 */
WEIR_API int weir_chmod(struct weir_reactor *r, struct weir_op *op, int dirfd,
			const char *path, mode_t mode, int flags);

/*
 * Set the owner and the group of @path; -1 leaves one as it is: fchownat(2), with
 * its @flags.
 *
 * Completes with 0, or a negative errno; in a simulated world -EOPNOTSUPP.
 *
 * Re-creates fchownat(2), as an operation, and uv_fs_chown(), uv_fs_fchown() and
 * uv_fs_lchown().
 */
WEIR_API int weir_chown(struct weir_reactor *r, struct weir_op *op, int dirfd,
			const char *path, uid_t uid, gid_t gid, int flags);

/*
 * Set the times of the last access, @times[0], and of the last change, @times[1],
 * of @path: utimensat(2), with its @flags, UTIME_NOW and UTIME_OMIT.  NULL sets
 * both to the present time.
 *
 * Completes with 0, or a negative errno; in a simulated world -EOPNOTSUPP.
 *
 * Re-creates utimensat(2), as an operation, and uv_fs_utime(), uv_fs_futime() and
 * uv_fs_lutime().
 */
WEIR_API int weir_utimens(struct weir_reactor *r, struct weir_op *op,
			  int dirfd, const char *path,
			  const struct timespec *times, int flags);

/*
 * Read the extended attribute @name of the file of @fd into @buf of @len bytes:
 * fgetxattr(2).  With a @len of 0 only its size is read.
 *
 * Completes with the size, or a negative errno: -ENODATA if there is no such
 * attribute, -ERANGE if @buf is too small; in a simulated world -EOPNOTSUPP.
 *
 * Re-creates io_uring_prep_fgetxattr().
 */
WEIR_API int weir_xattr_get(struct weir_reactor *r, struct weir_op *op, int fd,
			    const char *name, void *buf, size_t len);

/*
 * Set the extended attribute @name of the file of @fd to @len bytes at @value:
 * fsetxattr(2), with its @flags, XATTR_CREATE or XATTR_REPLACE.
 *
 * Completes with 0, or a negative errno; in a simulated world -EOPNOTSUPP.
 *
 * Re-creates io_uring_prep_fsetxattr().
 */
WEIR_API int weir_xattr_set(struct weir_reactor *r, struct weir_op *op, int fd,
			    const char *name, const void *value, size_t len,
			    int flags);

/*
 * Read the names of the extended attributes of the file of @fd into @buf of @len
 * bytes, each with a 0 byte at its end: flistxattr(2).  With a @len of 0 only
 * their size is read.
 *
 * Completes with the size of all, or a negative errno: -ERANGE if @buf is too
 * small; in a simulated world -EOPNOTSUPP.
 *
 * Re-creates flistxattr(2), as an operation.
 */
WEIR_API int weir_xattr_list(struct weir_reactor *r, struct weir_op *op,
			     int fd, char *buf, size_t len);

/*
 * Remove the extended attribute @name of the file of @fd: fremovexattr(2).
 *
 * Completes with 0, or a negative errno: -ENODATA if there is no such attribute;
 * in a simulated world -EOPNOTSUPP.
 *
 * Re-creates fremovexattr(2), as an operation.
 */
WEIR_API int weir_xattr_remove(struct weir_reactor *r, struct weir_op *op,
			       int fd, const char *name);

/* An entry of a directory, as the kernel writes it. */
struct weir_dirent {
	uint64_t ino;
	int64_t off;		/* Where the next begins, for lseek(2). */
	uint16_t len;		/* Bytes of this entry. */
	uint8_t type;		/* DT_REG, DT_DIR and so on, or DT_UNKNOWN. */
	__extension__ char name[]; /* With a 0 byte at its end. */
};

/*
 * Read the next entries of the directory of @fd into @buf of @len bytes:
 * getdents64(2).  weir_dirent_next() finds the entries there.
 *
 * "." and ".." are among them.  @buf must be aligned to 8 bytes and have space
 * for the longest entry, 280 bytes.  One system call fills @buf: 32 KiB have
 * space for about a thousand entries.  Each call reads on from the position of
 * the descriptor; lseek(2) to 0 begins again, and to an entry's .off goes on
 * after that entry.
 *
 *	static void on_entries(struct weir_op *op, int64_t res)
 *	{
 *		struct scan *s = weir_container_of(op, struct scan, op);
 *		const struct weir_dirent *e;
 *		size_t at = 0;
 *
 *		while (res > 0 && (e = weir_dirent_next(s->buf, res, &at)))
 *			puts(e->name);
 *		if (res > 0)
 *			weir_readdir(s->r, op, s->fd, s->buf, sizeof(s->buf));
 *	}
 *
 * Completes with the bytes of the entries, 0 at the end, or a negative errno:
 * -EINVAL if not even one entry fits.
 *
 * Re-creates getdents64(2), as an operation, and uv_fs_scandir() and
 * uv_fs_readdir().
 */
WEIR_API int weir_readdir(struct weir_reactor *r, struct weir_op *op, int fd,
			  void *buf, size_t len);

/*
 * Get the entry at *@at of the @len bytes at @buf that weir_readdir() has read,
 * and move *@at, which is 0 at first, to the next one.
 *
 * Returns the entry, which is in @buf, or NULL at the end.
 *
 * Any thread.  Never blocks.
 *
 * Re-creates readdir(3) and uv_fs_scandir_next().
 */
static inline const struct weir_dirent *
weir_dirent_next(const void *buf, int64_t len, size_t *at)
{
	const struct weir_dirent *e;

	if (len < 0 || *at >= (size_t)len)
		return NULL;
	e = (const struct weir_dirent *)(const void *)((const char *)buf + *at);
	*at += e->len;
	return e;
}

#ifdef __cplusplus
}
#endif

#endif /* WEIR_FS_H */
