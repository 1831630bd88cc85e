/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations on directories, links and attributes: check, describe, launch. */

#include <weir/fs.h>

#include "base/why.h"
#include "reactor/io.h"

static int check_path(int kind, const char *path)
{
	return path ? 0 : io_invalid(kind, "the path is NULL");
}

static int check_name(int kind, const char *name)
{
	return name ? 0 : io_invalid(kind, "the name is NULL");
}

static int check_buf(int kind, const void *buf, size_t len)
{
	if (!buf && len)
		return io_invalid(kind, "the buffer is NULL");
	return len > INT64_MAX ?
		       io_invalid(kind, "the length is beyond 2^63 - 1") : 0;
}

int weir_mkdir(struct weir_reactor *r, struct weir_op *op, int dirfd,
	       const char *path, mode_t mode)
{
	int err = check_path(IO_MKDIR, path);

	return err ? err : io_start(r, op, IO_MKDIR, (struct io_params){
		.fd = dirfd, .addr = path, .len = mode });
}

int weir_link(struct weir_reactor *r, struct weir_op *op, int from_dirfd,
	      const char *from, int to_dirfd, const char *to, int flags)
{
	int err = check_path(IO_LINK, from && to ? to : NULL);

	return err ? err : io_start(r, op, IO_LINK, (struct io_params){
		.fd = from_dirfd, .addr = from, .aux = (uintptr_t)to,
		.len = (uint32_t)to_dirfd, .flags = (uint32_t)flags });
}

int weir_symlink(struct weir_reactor *r, struct weir_op *op, const char *target,
		 int dirfd, const char *path)
{
	int err = check_path(IO_SYMLINK, target && path ? path : NULL);

	return err ? err : io_start(r, op, IO_SYMLINK, (struct io_params){
		.fd = dirfd, .addr = target, .aux = (uintptr_t)path });
}

int weir_readlink(struct weir_reactor *r, struct weir_op *op, int dirfd,
		  const char *path, char *buf, size_t len)
{
	int err = check_path(IO_READLINK, path);

	if (!err)
		err = check_buf(IO_READLINK, buf, len);
	return err ? err : io_start(r, op, IO_READLINK, (struct io_params){
		.fd = dirfd, .addr = path, .aux = (uintptr_t)buf, .len = len });
}

int weir_ftruncate(struct weir_reactor *r, struct weir_op *op, int fd,
		   uint64_t len)
{
	if (len > INT64_MAX)
		return io_invalid(IO_FTRUNCATE,
				  "the length is beyond 2^63 - 1");
	return io_start(r, op, IO_FTRUNCATE, (struct io_params){
		.fd = fd, .len = len });
}

int weir_chmod(struct weir_reactor *r, struct weir_op *op, int dirfd,
	       const char *path, mode_t mode, int flags)
{
	int err = check_path(IO_CHMOD, path);

	return err ? err : io_start(r, op, IO_CHMOD, (struct io_params){
		.fd = dirfd, .addr = path, .len = mode,
		.flags = (uint32_t)flags });
}

int weir_chown(struct weir_reactor *r, struct weir_op *op, int dirfd,
	       const char *path, uid_t uid, gid_t gid, int flags)
{
	int err = check_path(IO_CHOWN, path);

	return err ? err : io_start(r, op, IO_CHOWN, (struct io_params){
		.fd = dirfd, .addr = path, .len = uid, .off = gid,
		.flags = (uint32_t)flags });
}

int weir_utimens(struct weir_reactor *r, struct weir_op *op, int dirfd,
		 const char *path, const struct timespec *times, int flags)
{
	int err = check_path(IO_UTIMENS, path);

	return err ? err : io_start(r, op, IO_UTIMENS, (struct io_params){
		.fd = dirfd, .addr = path, .aux = (uintptr_t)times,
		.flags = (uint32_t)flags });
}

int weir_xattr_get(struct weir_reactor *r, struct weir_op *op, int fd,
		   const char *name, void *buf, size_t len)
{
	int err = check_name(IO_XATTR_GET, name);

	if (!err)
		err = check_buf(IO_XATTR_GET, buf, len);
	return err ? err : io_start(r, op, IO_XATTR_GET, (struct io_params){
		.fd = fd, .addr = name, .aux = (uintptr_t)buf, .len = len });
}

int weir_xattr_set(struct weir_reactor *r, struct weir_op *op, int fd,
		   const char *name, const void *value, size_t len, int flags)
{
	int err = check_name(IO_XATTR_SET, name);

	if (!err)
		err = check_buf(IO_XATTR_SET, value, len);
	return err ? err : io_start(r, op, IO_XATTR_SET, (struct io_params){
		.fd = fd, .addr = name, .aux = (uintptr_t)value, .len = len,
		.flags = (uint32_t)flags });
}

int weir_xattr_list(struct weir_reactor *r, struct weir_op *op, int fd,
		    char *buf, size_t len)
{
	int err = check_buf(IO_XATTR_LIST, buf, len);

	return err ? err : io_start(r, op, IO_XATTR_LIST, (struct io_params){
		.fd = fd, .aux = (uintptr_t)buf, .len = len });
}

int weir_xattr_remove(struct weir_reactor *r, struct weir_op *op, int fd,
		      const char *name)
{
	int err = check_name(IO_XATTR_REMOVE, name);

	return err ? err : io_start(r, op, IO_XATTR_REMOVE, (struct io_params){
		.fd = fd, .addr = name });
}

int weir_readdir(struct weir_reactor *r, struct weir_op *op, int fd, void *buf,
		 size_t len)
{
	int err = check_buf(IO_READDIR, buf, len);

	return err ? err : io_start(r, op, IO_READDIR, (struct io_params){
		.fd = fd, .aux = (uintptr_t)buf, .len = len });
}
