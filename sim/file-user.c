/* SPDX-License-Identifier: BSD-3-Clause */
/* Simulated files: the calls of tests, outside the loop. */

#include <weir/sim/file.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/why.h"
#include "sim/file.h"

/* Create @path, which must not exist, as a durable name of a new file. */
static int make(struct weir_sim *sim, const char *path, enum inode_kind kind,
		uint32_t mode, struct inode **ret)
{
	struct sim_files *files = files_of(sim);
	char resolved[PATH_BYTES];
	struct name *name;
	struct inode *i;
	int err = path_resolve(sim, "", AT_FDCWD, path, resolved);

	if (err || !files)
		return err ? err : -ENOMEM;
	if (name_inode(files, resolved) || dir_exists(files, resolved))
		return -EEXIST;
	if (has_file_above(files, resolved))
		return -ENOTDIR;
	name = name_make(files, resolved);
	i = name ? inode_make(files, kind, mode) : NULL;
	if (!i)
		return -ENOMEM;
	name_settle(name, i);
	inode_put(i);
	*ret = i;
	return 0;
}

int weir_sim_mkdir(struct weir_sim *sim, const char *path)
{
	struct inode *i;
	int err = make(sim, path, INODE_DIR, S_IFDIR | 0755, &i);

	return err ? why(err, "weir_sim_mkdir: %s: %s", path, strerror(-err)) :
		     0;
}

int weir_sim_disk(struct weir_sim *sim, const char *path, uint64_t bytes,
		  uint32_t sector)
{
	struct inode *i;
	int err;

	if (sector < SECTOR || sector & (sector - 1) || !bytes ||
	    bytes > INT64_MAX || bytes & (sector - 1))
		return why(-EINVAL, "weir_sim_disk: %s: sectors are a power of "
			   "2 from 512, and a disk is some of them", path);
	err = make(sim, path, INODE_DISK, S_IFBLK | 0600, &i);
	if (err)
		return why(err, "weir_sim_disk: %s: %s", path, strerror(-err));
	i->size = bytes;
	i->size_old = bytes;
	i->align = sector;
	return 0;
}

/* The file or disk @path: 0, -ENOENT or -EISDIR; *@name is set where
 * possible. */
static int look_up(struct weir_sim *sim, const char *path, struct name **name,
		   struct inode **ret)
{
	struct sim_files *files = files_of(sim);
	char resolved[PATH_BYTES];

	*name = NULL;
	if (!files || path_resolve(sim, "", AT_FDCWD, path, resolved))
		return -ENOENT;
	*name = name_find(files, resolved);
	if (dir_exists(files, resolved))
		return -EISDIR;
	if (!*name || !(*name)->now)
		return -ENOENT;
	*ret = (*name)->now;
	return 0;
}

static uint64_t within(uint64_t size, uint64_t off, uint64_t len)
{
	if (off >= size)
		return 0;
	return len < size - off ? len : size - off;
}

int64_t weir_sim_file_read(struct weir_sim *sim, const char *path, void *buf,
			   size_t len, uint64_t off)
{
	struct io_step step = { .addr = buf, .len = len };
	struct inode *i;
	struct name *name;
	int err = look_up(sim, path, &name, &i);
	uint64_t n;

	if (err)
		return err;
	n = within(i->size, off, len);
	inode_read(i, &step, n, off);
	return (int64_t)n;
}

int64_t weir_sim_file_size(struct weir_sim *sim, const char *path)
{
	struct inode *i;
	struct name *name;
	int err = look_up(sim, path, &name, &i);

	if (err)
		return err == -EISDIR ? 0 : err;
	return (int64_t)i->size;
}

int64_t weir_sim_file_durable(struct weir_sim *sim, const char *path, void *buf,
			      size_t len, uint64_t off)
{
	unsigned char sectors[CHUNK];
	uint64_t n, done, at, some;
	struct chunk *c;
	struct inode *i;
	struct name *name;
	int err = look_up(sim, path, &name, &i);

	if (err == -EISDIR)
		return err;
	if (!name || !name->old)
		return -ENOENT;
	i = name->old;
	n = within(i->size_old, off, len);
	for (done = 0; done < n; done += some) {
		at = (off + done) % CHUNK;
		some = CHUNK - at < n - done ? CHUNK - at : n - done;
		c = inode_chunk(i, (off + done) / CHUNK);
		if (c)
			chunk_durable(c, sectors);
		else
			memset(sectors, 0, CHUNK);
		memcpy((char *)buf + done, sectors + at, some);
	}
	return (int64_t)n;
}

static int64_t write_durably(struct inode *i, const void *buf, uint64_t len,
			     uint64_t off)
{
	struct io_step step = { .addr = (void *)(uintptr_t)buf, .len = len };
	int64_t n = inode_write(i, &step, len, off);
	int err = 0;

	if (n < (int64_t)len)
		return -ENOMEM;
	if (i->kind == INODE_FILE) {
		err = ranges_add(&i->held, off, off + len);
		if (!err && off + len > i->size)
			err = inode_resize(i, off + len);
	}
	/* Writes through this interface repair bad sectors. */
	inode_sync_all(i, off, off + len);
	return err ? err : n;
}

int64_t weir_sim_file_write(struct weir_sim *sim, const char *path,
			    const void *buf, size_t len, uint64_t off)
{
	struct name *name;
	struct inode *i;
	int err = look_up(sim, path, &name, &i);

	if (err == -ENOENT) {
		err = make(sim, path, INODE_FILE, S_IFREG | 0644, &i);
		if (err)
			return err;
	} else if (err) {
		return err;
	} else if (!name->old) {
		name_settle(name, i);
	}
	if (len > INT64_MAX || off > INT64_MAX - len)
		return -EFBIG;
	if (i->kind == INODE_DISK && off + len > i->size)
		return -ENOSPC;
	return write_durably(i, buf, len, off);
}

int64_t weir_sim_file_list(struct weir_sim *sim, const char *prefix,
			   void (*fn)(const char *path, void *arg), void *arg)
{
	struct sim_files *files = files_of(sim);
	struct name *name;
	int64_t n = 0;

	if (!files)
		return 0;
	for (uint32_t i = name_place(files, prefix); i < files->n_names; i++) {
		name = files->names[i];
		if (!begins_with(name->path, prefix))
			break;
		if (!name->now)
			continue;
		n++;
		if (fn)
			fn(name->path, arg);
	}
	return n;
}

int weir_sim_file_corrupt(struct weir_sim *sim, const char *path, uint64_t off,
			  unsigned char mask)
{
	struct inode *i;
	struct name *name;
	int err = look_up(sim, path, &name, &i);

	if (!err && off >= i->size)
		err = -ERANGE;
	if (err)
		return err;
	return inode_flip(i, off, mask);
}

int weir_sim_space(struct weir_sim *sim, const char *prefix, uint64_t bytes)
{
	struct sim_files *files = files_of(sim);
	size_t len = strlen(prefix) + 1;
	struct budget *b = files ? files->budgets : NULL;

	while (b && strcmp(b->prefix, prefix))
		b = b->next;
	if (!b) {
		b = files ? malloc(sizeof(*b) + len) : NULL;
		if (!b)
			return why(-ENOMEM, "weir_sim_space: no memory");
		memcpy(b->prefix, prefix, len);
		b->next = files->budgets;
		files->budgets = b;
	}
	b->bytes = bytes;
	return 0;
}

int weir_sim_bad_sectors(struct weir_sim *sim, const char *path, uint64_t off,
			 uint64_t len, uint32_t which)
{
	struct inode *i;
	struct name *name;
	int err = look_up(sim, path, &name, &i);

	if (which & ~(WEIR_SIM_BAD_READS | WEIR_SIM_BAD_WRITES) || !len ||
	    off > INT64_MAX || len > INT64_MAX - off)
		return why(-EINVAL, "weir_sim_bad_sectors: %s: unknown bits, "
			   "or no bytes", path);
	if (err)
		return why(err, "weir_sim_bad_sectors: %s: %s", path,
			   strerror(-err));
	len += off & (i->align - 1);
	off -= off & (i->align - 1);
	len += (0 - len) & (i->align - 1);
	for (int n = 0; n < 2 && !err; n++)
		err = which >> n & 1 ? ranges_add(&i->bad[n], off, off + len) :
				       ranges_del(&i->bad[n], off, off + len);
	return err;
}
