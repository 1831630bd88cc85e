/* SPDX-License-Identifier: BSD-3-Clause */
/* Files and disks in a world: the calls on their descriptors. */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/fs.h>
#include <weir/sim/file.h>

#include "sim/file.h"

/* Flags of open() that no descriptor has, and those that can be set later. */
#define ONCE (O_CREAT | O_EXCL | O_NOCTTY | O_TRUNC | O_CLOEXEC)
#define SETTABLE (O_APPEND | O_DIRECT | O_NONBLOCK)

/* The system's calls on descriptors, at once. */
static bool is_dir(const struct file *file);

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

/* The next byte from @off on that takes space, or takes none. */
static int64_t seek_kind(struct file *file, int64_t off, int whence)
{
	const struct inode *i = file->inode;
	const struct ranges *held;
	uint64_t at = (uint64_t)off;

	if (!i || off < 0 || at >= i->size)
		return -ENXIO;
	held = &i->held;
	if (i->kind == INODE_DISK) {
		at = whence == SEEK_DATA ? at : i->size;
	} else if (whence == SEEK_DATA) {
		at = ranges_first(held, at, i->size);
		if (at == i->size)
			return -ENXIO;
	} else {
		for (uint32_t n = 0; n < held->n; n++)
			if (held->at[n].from <= at && at < held->at[n].to)
				at = held->at[n].to;
		if (at > i->size)
			at = i->size;
	}
	file->pos = at;
	return (int64_t)at;
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
	if (whence == SEEK_DATA || whence == SEEK_HOLE)
		return seek_kind(file, off, whence);
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

static int truncate_now(struct file *file, uint64_t bytes)
{
	if (file->f.flags & O_PATH)
		return -EBADF;
	if (!file->inode || file->inode->kind != INODE_FILE ||
	    (file->f.flags & O_ACCMODE) == O_RDONLY || bytes > INT64_MAX)
		return -EINVAL;
	return inode_resize(file->inode, bytes);
}

int weir_sim_ftruncate(int fd, uint64_t bytes)
{
	struct file *file;
	int err = look_up(fd, &file);

	if (err)
		return err == -ESPIPE ? -EINVAL : err;
	return truncate_now(file, bytes);
}

static int64_t sync_now(struct file *file, uint64_t off, uint64_t len);
static int64_t allocate(struct file *file, int mode, uint64_t from,
			uint64_t len);

int weir_sim_fsync(int fd)
{
	struct file *file;
	int err = look_up(fd, &file);

	if (err)
		return err == -ESPIPE ? -EINVAL : err;
	return (int)sync_now(file, 0, 0);
}

int weir_sim_fallocate(int fd, int mode, uint64_t off, uint64_t len)
{
	struct file *file;
	int err = look_up(fd, &file);

	if (err)
		return err;
	if (off > INT64_MAX || len > INT64_MAX - off)
		return -EFBIG;
	return is_dir(file) ? -EISDIR : (int)allocate(file, mode, off, len);
}

int weir_sim_get_flags(int fd)
{
	struct sim_fd *f = sim_fd_find(fd);

	if (!f)
		return -EBADF;
	return file_of(f) ? (int)(f->flags & ~(uint32_t)ONCE) : O_RDWR;
}

int weir_sim_set_flags(int fd, int flags)
{
	struct sim_fd *f = sim_fd_find(fd);

	if (!f)
		return -EBADF;
	if (file_of(f))
		f->flags = (f->flags & ~(uint32_t)SETTABLE) |
			   ((uint32_t)flags & SETTABLE);
	return 0;
}

/* The functions of the descriptors. */

struct file *file_of(struct sim_fd *f)
{
	return f->cls == &file_class ? weir_container_of(f, struct file, f) :
				       NULL;
}

static bool may(const struct file *file, bool write)
{
	uint32_t mode = file->f.flags & O_ACCMODE;

	if (file->f.flags & O_PATH)
		return false;
	return mode == O_RDWR || mode == (write ? O_WRONLY : O_RDONLY);
}

static bool is_dir(const struct file *file)
{
	return !file->inode || file->inode->kind == INODE_DIR;
}

static bool is_direct(const struct file *file)
{
	return file->f.flags & O_DIRECT;
}

static bool piece_is_aligned(const void *addr, uint64_t len, uint32_t align)
{
	return !((uintptr_t)addr & (DIRECT_MEM - 1)) && !(len & (align - 1));
}

/* The alignment that O_DIRECT requires of memory, length and offset. */
static bool is_aligned(const struct file *file, const struct io_step *step,
		       uint64_t off)
{
	uint32_t align = file->inode->align;

	if (!is_direct(file))
		return true;
	if (off & (align - 1))
		return false;
	if (!step->n)
		return piece_is_aligned(step->addr, step->len, align);
	for (uint32_t i = 0; i < step->n; i++)
		if (!piece_is_aligned(step->iov[i].iov_base,
				      step->iov[i].iov_len, align))
			return false;
	return true;
}

static int64_t file_read(struct sim_fd *f, const struct io_step *step)
{
	struct file *file = file_of(f);
	bool stream = step->off == WEIR_OFF_STREAM;
	uint64_t off = stream ? file->pos : step->off;
	uint64_t len = sim_step_len(step), good;
	struct inode *i = file->inode;

	if (!may(file, false))
		return -EBADF;
	if (is_dir(file))
		return -EISDIR;
	if (off >= i->size || !len)
		return 0;
	if (!is_aligned(file, step, off))
		return -EINVAL;
	if (len > i->size - off)
		len = i->size - off;
	good = ranges_first(&i->bad[0], off, off + len) - off;
	if (!good)
		return -EIO;
	inode_read(i, step, good, off);
	if (stream)
		file->pos += good;
	return (int64_t)good;
}

/* How many of @len bytes at @off the medium has; if none, why. */
static int64_t takes(const struct file *file, uint64_t off, uint64_t len)
{
	const struct inode *i = file->inode;
	uint64_t end = off + len, good;

	if (i->kind == INODE_DISK && end > i->size)
		end = i->size;
	if (i->kind == INODE_FILE)
		end = inode_capacity(i, off, end);
	if (is_direct(file))
		end -= (end - off) & (i->align - 1);
	if (end <= off)
		return -ENOSPC;
	if (!is_direct(file))
		return (int64_t)(end - off);
	good = ranges_first(&i->bad[1], off, end) - off;
	return good ? (int64_t)good : -EIO;
}

/* Whether a write with @flags is durable when it ends. */
static bool is_durable(const struct file *file, uint32_t flags)
{
	return file->f.flags & O_DSYNC ||
	       flags & (WEIR_RW_DSYNC | WEIR_RW_SYNC);
}

/* Bytes that were written there become part of the file. */
static int64_t account(struct file *file, uint64_t off, uint64_t len,
		       uint32_t flags)
{
	struct inode *i = file->inode;
	uint64_t end = off + len;
	int err = 0;

	if (i->kind == INODE_FILE) {
		err = ranges_add(&i->held, off, end);
		if (!err && end > i->size)
			err = inode_resize(i, end);
	}
	if (!err && is_durable(file, flags)) {
		err = inode_sync(i, off, end);
		file->errors = i->errors;
	}
	return err ? err : (int64_t)len;
}

static int64_t file_write(struct sim_fd *f, const struct io_step *step)
{
	struct file *file = file_of(f);
	bool stream = step->off == WEIR_OFF_STREAM;
	uint64_t off = stream ? file->pos : step->off;
	uint64_t len = sim_step_len(step);
	struct inode *i = file->inode;
	int64_t n;

	if (!may(file, true))
		return -EBADF;
	if ((file->f.flags & O_APPEND || step->flags & WEIR_RW_APPEND) &&
	    i->kind == INODE_FILE)
		off = i->size;
	if (!len)
		return 0;
	if (off >= INT64_MAX)
		return -EFBIG;
	if (len > INT64_MAX - off)
		len = INT64_MAX - off;
	if (!is_aligned(file, step, off))
		return -EINVAL;
	n = takes(file, off, len);
	if (n > 0)
		n = inode_write(i, step, (uint64_t)n, off);
	if (n > 0)
		n = account(file, off, (uint64_t)n, step->flags);
	if (n > 0 && stream)
		file->pos = off + (uint64_t)n;
	return n;
}

static int64_t sync_now(struct file *file, uint64_t off, uint64_t len)
{
	struct inode *i = file->inode;

	if (file->f.flags & O_PATH)
		return -EBADF;
	if (is_dir(file)) {
		names_sync(file->files, file->dir);
		return 0;
	}
	inode_sync(i, off, len ? off + len : UINT64_MAX);
	if (file->errors == i->errors)
		return 0;
	file->errors = i->errors;
	return -EIO;
}

static int punch(struct inode *i, uint64_t from, uint64_t to, bool allocate)
{
	int err = inode_zero(i, from, to);

	if (err)
		return err;
	return allocate ? ranges_add(&i->held, from, to) :
			  ranges_del(&i->held, from, to);
}

/* As in the block layer: nothing to allocate, and whole sectors. */
static int allocate_disk(struct inode *i, int mode, uint64_t from, uint64_t to)
{
	int kinds = mode & ~FALLOC_FL_KEEP_SIZE;

	if (kinds != FALLOC_FL_PUNCH_HOLE && kinds != FALLOC_FL_ZERO_RANGE)
		return -EOPNOTSUPP;
	if (to > i->size && mode & FALLOC_FL_KEEP_SIZE)
		to = i->size;
	if (to > i->size || from >= to || (from | to) & (i->align - 1))
		return -EINVAL;
	return inode_zero(i, from, to);
}

static int64_t allocate(struct file *file, int mode, uint64_t from,
			uint64_t len)
{
	int kinds = mode & ~FALLOC_FL_KEEP_SIZE;
	struct inode *i = file->inode;
	uint64_t to = from + len;
	int err;

	if (!may(file, true))
		return -EBADF;
	if (!len)
		return -EINVAL;
	if ((kinds && kinds != FALLOC_FL_PUNCH_HOLE &&
	     kinds != FALLOC_FL_ZERO_RANGE) || mode == FALLOC_FL_PUNCH_HOLE)
		return -EOPNOTSUPP;
	if (i->kind == INODE_DISK)
		return allocate_disk(i, mode, from, to);
	if (kinds != FALLOC_FL_PUNCH_HOLE && inode_capacity(i, from, to) < to)
		return -ENOSPC;
	err = kinds ? punch(i, from, to, kinds == FALLOC_FL_ZERO_RANGE) :
		      ranges_add(&i->held, from, to);
	if (!err && !(mode & FALLOC_FL_KEEP_SIZE) && to > i->size)
		err = inode_resize(i, to);
	return err;
}

/*
 * The entry of the directory @dir that comes after the one that *@at led to;
 * NULL: the first.  Sets *@at, and returns the entry's name, which has *@len
 * bytes and is followed by more of the path; or NULL: there are no more.
 *
 * A directory is found by its own name, or by the first of those below, which
 * are in a row; its own name comes first, but not just before them.
 */
static const char *dir_next(struct sim_files *files, const char *dir,
		     const struct name **at, size_t *len)
{
	char own[PATH_BYTES];
	size_t base = strlen(dir) + (*dir != 0), n;
	const struct name *name;
	const char *entry;

	snprintf(own, sizeof(own), *dir ? "%s/" : "%s", dir);
	for (uint32_t i = name_place(files, *at ? (*at)->path : own);
	     i < files->n_names; i++) {
		name = files->names[i];
		if (!begins_with(name->path, own))
			break;
		entry = name->path + base;
		n = strcspn(entry, "/");
		if (!name->now || !n || name == *at ||
		    (*at && strcspn((*at)->path + base, "/") == n &&
		     !strncmp((*at)->path + base, entry, n)))
			continue;
		memcpy(own + base, entry, n);
		own[base + n] = 0;
		if (entry[n] && name_inode(files, own)) {
			own[base] = 0;
			continue;
		}
		*at = name;
		*len = n;
		return entry;
	}
	return NULL;
}

/* The kind of file that an entry leads to. */
static unsigned char entry_type(const struct name *name, const char *entry,
				size_t len)
{
	if (entry[len])
		return DT_DIR;
	switch (name->now->kind) {
	case INODE_DIR:
		return DT_DIR;
	case INODE_DISK:
		return DT_BLK;
	default:
		return DT_REG;
	}
}

/* An entry of @len bytes of @name, at @to, if there is space. */
static size_t put_entry(void *to, size_t capacity, const char *name, size_t len,
			const struct weir_dirent *like)
{
	size_t n = (offsetof(struct weir_dirent, name) + len + 8) & ~(size_t)7;
	struct weir_dirent *e = to;

	if (n > capacity)
		return 0;
	memset(e, 0, n);
	*e = *like;
	e->len = (uint16_t)n;
	memcpy((char *)to + offsetof(struct weir_dirent, name), name, len);
	return n;
}

/*
 * Find the entry before the position, which counts the entries, after an lseek(2).
 * Returns false if there are fewer.
 */
static bool go_to_position(struct file *file)
{
	size_t len;

	if (file->found_pos == file->pos)
		return true;
	file->found = NULL;
	for (file->found_pos = 2; file->found_pos < file->pos; file->found_pos++)
		if (!dir_next(file->files, file->dir, &file->found, &len))
			return false;
	return true;
}

static size_t read_entry(struct file *file, void *to, size_t capacity)
{
	struct weir_dirent like = { .ino = 1, .type = DT_DIR,
				    .off = (int64_t)file->pos + 1 };
	const struct name *at;
	const char *entry = "..";
	size_t len;

	if (file->pos < 2)
		return put_entry(to, capacity, entry, file->pos + 1, &like);
	if (!go_to_position(file))
		return SIZE_MAX;
	at = file->found;
	entry = dir_next(file->files, file->dir, &at, &len);
	if (!entry)
		return SIZE_MAX;
	like.type = entry_type(at, entry, len);
	if (!entry[len])
		like.ino = at->now->number;
	len = put_entry(to, capacity, entry, len, &like);
	if (len) {
		file->found = at;
		file->found_pos = file->pos + 1;
	}
	return len;
}

static int64_t read_dir(struct file *file, const struct weir_op *op)
{
	char *buf = (char *)(uintptr_t)op->u.io.aux;
	size_t at = 0, n;

	if (!is_dir(file))
		return -ENOTDIR;
	if (file->f.flags & O_PATH)
		return -EBADF;
	for (;; at += n, file->pos++) {
		n = read_entry(file, buf + at, op->u.io.len - at);
		if (n == SIZE_MAX)
			return (int64_t)at;
		if (!n)
			return at ? (int64_t)at : -EINVAL;
	}
}

static int64_t file_call(struct sim_fd *f, struct weir_op *op)
{
	struct file *file = file_of(f);

	switch (op->kind) {
	case IO_FSYNC:
		return sync_now(file, op->u.io.off, op->u.io.len);
	case IO_FALLOCATE:
		return allocate(file, (int)op->u.io.flags, op->u.io.off,
				op->u.io.len);
	case IO_FTRUNCATE:
		return truncate_now(file, op->u.io.len);
	case IO_READDIR:
		return read_dir(file, op);
	case IO_XATTR_GET: case IO_XATTR_SET: case IO_XATTR_LIST:
	case IO_XATTR_REMOVE:
		return -EOPNOTSUPP;
	default:
		return -ENOTSOCK;
	}
}

/* A write past the cache, some of whose whole sectors are written although it
 * fails. */
static void write_in_part(struct file *file, const struct weir_op *op)
{
	struct inode *i = file->inode;
	struct io_step step, part;
	uint64_t off;

	io_step_next(op, &step);
	off = step.off == WEIR_OFF_STREAM ? file->pos : step.off;
	if (step.n || !may(file, true) || !is_aligned(file, &step, off) ||
	    takes(file, off, step.len) < (int64_t)step.len ||
	    off + step.len > i->size)
		return;
	for (uint64_t at = 0; at < step.len; at += i->align) {
		if (sim_rng(&i->files->rng) & 1)
			continue;
		part = (struct io_step){ .addr = (char *)step.addr + at,
					 .len = i->align };
		if (inode_write(i, &part, part.len, off + at) < 0)
			return;
	}
}

static bool writes_durably(const struct file *file, const struct weir_op *op)
{
	return (op->kind == IO_WRITE || op->kind == IO_WRITEV) &&
	       is_durable(file, op->u.io.flags);
}

/* @err was drawn for @op: leave behind what a failed call may leave.  That of a
 * durable write may be one of an earlier write, as that of a sync. */
static void file_failed(struct sim_fd *f, struct weir_op *op, int err)
{
	struct file *file = file_of(f);

	if (is_dir(file))
		return;
	if (op->kind == IO_WRITE && is_direct(file))
		write_in_part(file, op);
	if (op->kind != IO_FSYNC && !(err == -EIO && writes_durably(file, op)))
		return;
	inode_sync_failed(file->inode);
	file->errors = file->inode->errors;
}

static uint64_t file_delay(struct sim_fd *f, const struct weir_op *op)
{
	bool disk = op->kind == IO_FSYNC || f->flags & (O_DIRECT | O_DSYNC) ||
		    writes_durably(file_of(f), op);

	return sim_latency(f->sim, disk ? WEIR_SIM_DISK : WEIR_SIM_FILE);
}

/* With O_DIRECT a transfer is cut short at a sector, and so is one that is durable:
 * the system writes whole ones. */
static uint32_t file_grain(struct sim_fd *f, const struct io_step *step)
{
	struct file *file = file_of(f);
	bool whole = is_direct(file) || is_durable(file, step->flags);

	return whole ? file->inode->align : 1;
}

static void file_describe(struct sim_fd *f, char *ret, size_t capacity)
{
	const struct file *file = file_of(f);

	snprintf(ret, capacity, ", '%s'", is_dir(file) ? file->dir :
						   file->inode->name->path);
}

static void file_release(struct sim_fd *f)
{
	struct file *file = file_of(f);

	if (file->inode)
		inode_put(file->inode);
	free(file->dir);
	free(file);
}

const struct sim_fd_class file_class = {
	.name = "file",
	.device = WEIR_SIM_FILE,
	.read = file_read,
	.write = file_write,
	.call = file_call,
	.failed = file_failed,
	.grain = file_grain,
	.delay = file_delay,
	.describe = file_describe,
	.release = file_release,
};
