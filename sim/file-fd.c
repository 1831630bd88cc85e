/* SPDX-License-Identifier: BSD-3-Clause */
/* Simulated files: the system's calls on descriptors, at once. */

#include <weir/sim/file.h>

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "sim/file.h"

/* 0 with *@ret set, or a negative errno. */
static int look_up(int fd, struct file **ret)
{
	struct sim_fd *f = sim_fd_find(fd);

	if (!f)
		return -EBADF;
	*ret = file_of(f);
	if (!*ret)
		return -ESPIPE;
	return f->dead ? -EIO : 0;
}

ssize_t weir_sim_pread(int fd, void *buf, size_t len, uint64_t off)
{
	struct io_step step = { .addr = buf, .len = len, .off = off };
	struct file *file;
	int err = look_up(fd, &file);

	if (err || off > INT64_MAX)
		return err ? err : -EINVAL;
	return (ssize_t)file_class.read(&file->f, &step);
}

ssize_t weir_sim_pwrite(int fd, const void *buf, size_t len, uint64_t off)
{
	struct io_step step = { .addr = (void *)(uintptr_t)buf, .len = len,
				.off = off };
	struct file *file;
	int err = look_up(fd, &file);

	if (err || off > INT64_MAX)
		return err ? err : -EINVAL;
	return (ssize_t)file_class.write(&file->f, &step);
}

int64_t weir_sim_lseek(int fd, int64_t off, int whence)
{
	struct file *file;
	uint64_t from = 0;
	int err = look_up(fd, &file);

	if (err)
		return err;
	if (file->f.flags & O_PATH)
		return -EBADF;
	if (whence == SEEK_CUR)
		from = file->pos;
	else if (whence == SEEK_END)
		from = file->inode ? file->inode->size : 0;
	else if (whence != SEEK_SET)
		return -EINVAL;
	if (off < 0 ? 0 - (uint64_t)off > from : (uint64_t)off >
						 INT64_MAX - from)
		return -EINVAL;
	file->pos = from + (uint64_t)off;
	return (int64_t)file->pos;
}

int weir_sim_ftruncate(int fd, uint64_t bytes)
{
	struct file *file;
	int err = look_up(fd, &file);

	if (err)
		return err == -ESPIPE ? -EINVAL : err;
	if (file->f.flags & O_PATH)
		return -EBADF;
	if (!file->inode || file->inode->kind != INODE_FILE ||
	    (file->f.flags & O_ACCMODE) == O_RDONLY || bytes > INT64_MAX)
		return -EINVAL;
	return inode_resize(file->inode, bytes);
}
