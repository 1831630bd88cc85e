/* SPDX-License-Identifier: CC0-1.0 */
/*
 * The beginning of a file, on a worker: open both sides, and find out what is
 * to be moved.  A small file that the kernel may copy is done here altogether.
 *
 * The new file has no name until it is complete (O_TMPFILE), so that nothing
 * is left behind whatever happens; where there is no such thing, or a second
 * descriptor is needed for it, it has a temporary name.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "weir-cp.h"

static int open_src(struct file *f, int dir, int flags)
{
	flags |= O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;
	if (!f->follow)
		flags |= O_NOFOLLOW;
	return openat(dir, f->name, flags);
}

/* What says that it is empty and is not, as in /proc, has no size to go by. */
static bool has_no_size(const struct file *f)
{
	char byte;

	return f->st.st_size == 0 && pread(f->src, &byte, 1, 0) == 1;
}

static int open_source(struct file *f, int dir)
{
	bool direct = f->cp->opts.direct;

	f->src = open_src(f, dir, direct ? O_DIRECT : 0);
	if (f->src < 0)
		return file_wrong(f, direct && errno == EINVAL ?
				  "open with O_DIRECT" : "open", -errno);
	if (fstat(f->src, &f->st))
		return file_wrong(f, "look at", -errno);
	f->size_before = f->st.st_size;
	/* It was a file when the walk came by. */
	if (!S_ISREG(f->st.st_mode))
		return file_wrong(f, "is no file any more", 0);
	if (!direct)
		return 0;
	f->src_buffered = open_src(f, dir, 0);
	return f->src_buffered < 0 ? file_wrong(f, "open", -errno) : 0;
}

void make_temp_name(struct file *f)
{
	snprintf(f->temp, sizeof(f->temp), ".weir-cp-%x-%x", getpid(),
		 atomic_fetch_add(&f->cp->temps, 1));
}

static int create_named(struct file *f, int dir, mode_t mode)
{
	int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW;
	int fd;

	do {
		make_temp_name(f);
		fd = openat(dir, f->temp, flags, mode);
	} while (fd < 0 && errno == EEXIST);
	if (fd < 0) {
		f->temp[0] = 0;
		return -errno;
	}
	return fd;
}

/*
 * A second descriptor of the copy, for O_DIRECT.  It may be that not even its
 * owner can open it by the mode that it is to have.
 */
static int open_again(struct file *f, int dir, int flags)
{
	char path[32];
	struct stat st;
	int fd, err;

	if (fstat(f->dst, &st))
		return -errno;
	if ((st.st_mode & 0600) != 0600 && fchmod(f->dst, st.st_mode | 0600))
		return -errno;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", f->dst);
	fd = f->temp[0] ? openat(dir, f->temp, flags) : open(path, flags);
	err = fd < 0 ? -errno : 0;
	if ((st.st_mode & 0600) != 0600 && fchmod(f->dst, st.st_mode) && !err)
		err = -errno;
	if (err && fd >= 0)
		close(fd);
	return err ? err : fd;
}

static int create_unnamed(struct file *f, int dir, mode_t mode)
{
	int fd = -1;

	if (atomic_load(&f->cp->no_tmpfile))
		return -EOPNOTSUPP;
	fd = openat(dir, ".", O_RDWR | O_TMPFILE | O_CLOEXEC, mode);
	if (fd >= 0)
		return fd;
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != ENOENT)
		return -errno;
	atomic_store(&f->cp->no_tmpfile, true);
	return -EOPNOTSUPP;
}

/* With --direct what has no name needs /proc to be opened again by. */
static int create_both(struct file *f, int dir, mode_t mode, bool named)
{
	int fd;

	f->dst = named ? create_named(f, dir, mode) :
			 create_unnamed(f, dir, mode);
	if (f->dst < 0 || !f->cp->opts.direct)
		return f->dst;
	fd = open_again(f, dir, O_RDWR | O_DIRECT | O_CLOEXEC);
	if (fd < 0) {
		close(f->dst);
		f->dst = -1;
		return fd == -ENOENT && !named ? -EOPNOTSUPP : fd;
	}
	f->dst_buffered = f->dst;
	f->dst = fd;
	return 0;
}

/*
 * Make the new file, with the mode that it is to have if its owner is already
 * the right one; until it is, no other user may open it.
 */
static int create_dst(struct file *f, int dir)
{
	struct cp *cp = f->cp;
	mode_t mode = mode_until_done(cp, &f->st, rights_of(f->src, &f->st));
	int err = create_both(f, dir, mode, false);

	if (err == -EOPNOTSUPP)
		err = create_both(f, dir, mode, true);
	if (err < 0)
		return file_wrong(f, cp->opts.direct && err == -EINVAL ?
				  "create with O_DIRECT a copy of" :
				  "create a copy of", err);
	return 0;
}

/*
 * As copy_file_range(), but between any two files: where that is refused, in
 * auto, small files at least need not go through our buffers.
 */
static ssize_t copy_some(struct file *f, uint64_t pos)
{
	size_t len = (size_t)f->st.st_size - (size_t)pos;
	ssize_t n;

	if (!atomic_load(&f->cp->no_range)) {
		n = copy_file_range(f->src, NULL, f->dst, NULL, len, 0);
		if (n >= 0 || !file_may_fall_back(f, -errno))
			return n;
		atomic_store(&f->cp->no_range, true);
	}
	return sendfile(f->dst, f->src, NULL, len);
}

/*
 * Have the kernel copy all of a small file.  Returns 1, 0 if it does not do
 * that here, or a negative errno.
 */
static int copy_small(struct file *f)
{
	uint64_t done = 0;
	ssize_t n;

	while (done < (uint64_t)f->st.st_size) {
		n = copy_some(f, done);
		if (n == 0)
			return file_stream(f) ? f->err : 1;
		if (n < 0 && file_may_fall_back(f, -errno)) {
			f->path = PATH_PIPELINE;
			return 0;
		}
		if (n < 0)
			return file_wrong(f, "copy", -errno);
		done += (uint64_t)n;
	}
	f->data = f->written = done;
	return 1;
}

/*
 * Share the extents of the whole file (reflink), where the file system does
 * that.  Returns 1 if it did, or 0.
 */
static int clone_all(struct file *f)
{
	if (ioctl(f->dst, FICLONE, f->src))
		return 0;
	f->written = (uint64_t)f->st.st_size;
	return 1;
}

/* A server can copy without sending the bytes here and back. */
static bool is_remote(int fd)
{
	struct statfs fs;

	if (fstatfs(fd, &fs))
		return false;
	switch ((uint32_t)fs.f_type) {
	case NFS_SUPER_MAGIC:
	case SMB_SUPER_MAGIC:
	case CIFS_SUPER_MAGIC:
	case 0xfe534d42:	/* SMB2: not in older headers. */
	case CEPH_SUPER_MAGIC:
	case FUSE_SUPER_MAGIC:
		return true;
	}
	return false;
}

static bool is_small(const struct file *f)
{
	return f->st.st_size <= SMALL_MAX && !file_is_sparse(f);
}

/*
 * With the choice left to us: what must be seen goes through the pipeline.  A
 * small file is the kernel's, for one call is cheaper than a trip through a
 * flow.  A large one on a local disk is not: two threads that read and write
 * side by side, through buffers that stay in the processor's cache, take two
 * thirds of the time of copy_file_range() in one.
 */
static enum cp_path choose_path(const struct file *f)
{
	const struct cp_opts *o = &f->cp->opts;

	if (o->path != PATH_AUTO)
		return o->path;
	if (o->checksum || o->direct || o->convert)
		return PATH_PIPELINE;
	if (is_small(f))
		return PATH_KERNEL;
	return is_remote(f->dst) && !atomic_load(&f->cp->no_range) ?
		       PATH_KERNEL : PATH_PIPELINE;
}

/*
 * Have the kernel copy all of it at once, if that is quick.  Returns 1 if it
 * did, 0 if not, or a negative errno.
 */
static int copy_at_once(struct file *f)
{
	const struct cp_opts *o = &f->cp->opts;

	if (o->path == PATH_PIPELINE || o->checksum || o->direct || o->verify)
		return 0;
	if (is_small(f))
		return copy_small(f);
	if (atomic_load(&f->cp->no_range) || !clone_all(f))
		return 0;
	f->path = PATH_KERNEL;
	return 1;
}

static int make_domains(struct file *f)
{
	struct weir_domain_file_opts src = { .size = sizeof(src) };
	struct weir_domain_file_opts dst = { .size = sizeof(dst) };
	int err;

	if (f->cp->opts.direct) {
		src.flags = dst.flags = WEIR_DOMAIN_FILE_BUFFERED;
		src.buffered_fd = f->src_buffered;
		dst.buffered_fd = f->dst_buffered;
	}
	err = weir_domain_file_create(&f->src_domain, f->src, &src);
	if (!err)
		err = weir_domain_file_create(&f->dst_domain, f->dst, &dst);
	return err ? file_wrong(f, "use", err) : 0;
}

/*
 * Blocks are written in any order, so a file that is not sparse gets its space
 * first: that keeps it in one piece, lets O_DIRECT writes run side by side, and
 * finds a full disk at once.
 */
static int reserve(struct file *f)
{
	off_t size = f->st.st_size;

	if (!f->cp->opts.direct || size == 0 || file_is_sparse(f))
		return 0;
	if (fallocate(f->dst, 0, 0, size) == 0 || errno == EOPNOTSUPP)
		return 0;
	return file_wrong(f, "make space for the copy of", -errno);
}

static int prepare(struct file *f, int src_dir, int dst_dir)
{
	int err = open_source(f, src_dir);

	if (err)
		return err;
	/* As with cp, a link to what -n leaves alone becomes a copy, and one
	 * to what -u leaves alone a link. */
	if (f->cp->opts.no_clobber && file_skip(f, dst_dir))
		return 0;
	links_see(f);
	if (f->waiting || file_skip(f, dst_dir) || links_made(f, dst_dir))
		return f->err;
	err = create_dst(f, dst_dir);
	if (err)
		return err;
	f->path = choose_path(f);
	return reserve(f);
}

static int64_t begin_moving(struct file *f, int src_dir, int dst_dir)
{
	int err;

	if (f->cp->opts.convert && has_no_size(f))
		return file_wrong(f, "has no size, so it cannot be converted",
				  0);
	if (f->cp->opts.convert)
		return convert_open(f);
	err = has_no_size(f) ? (file_stream(f) ? f->err : 1) : copy_at_once(f);

	if (err < 0)
		return err;
	if (err)
		return file_complete(f, src_dir, dst_dir);
	if (f->st.st_size > 0 && make_domains(f))
		return f->err;
	file_begin_pass(f);
	return file_scan(f);
}

/* Returns the extents that are to be moved, or 0 if .done, .waiting, .again or
 * .err. */
int64_t file_open_work(void *arg)
{
	struct file *f = arg;
	int src_dir, dst_dir;
	int64_t res;
	int err = dir_open(f->dir, &src_dir, &dst_dir);

	if (err)
		return file_wrong(f, "open the directory of", err);
	res = prepare(f, src_dir, dst_dir);
	if (!res && !f->waiting && !f->done)
		res = begin_moving(f, src_dir, dst_dir);
	if (f->waiting || f->done || f->again)
		file_drop(f, dst_dir);
	dir_close(f->dir);
	return res;
}
