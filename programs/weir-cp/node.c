/* SPDX-License-Identifier: CC0-1.0 */
/*
 * What has no data: symbolic links, fifos, sockets and devices.  A worker
 * copies one in one go.  They are held by descriptors that are only places
 * (O_PATH), so that nothing is opened, and no process can put something else
 * under a name between two calls.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "weir-cp.h"

static int open_node(struct file *f, int src_dir)
{
	f->src = openat(src_dir, f->name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	/* With -L a device may be where a symbolic link leads to. */
	if (f->src >= 0 && f->follow) {
		close(f->src);
		f->src = openat(src_dir, f->name, O_PATH | O_CLOEXEC);
	}
	if (f->src < 0)
		return file_wrong(f, "open", -errno);
	if (fstat(f->src, &f->st))
		return file_wrong(f, "look at", -errno);
	if (S_ISREG(f->st.st_mode) || S_ISDIR(f->st.st_mode))
		return file_wrong(f, "changed while it was copied", 0);
	return 0;
}

static int make_node(struct file *f, int dir, const char *target)
{
	mode_t mode = f->st.st_mode;

	if (S_ISLNK(mode))
		return symlinkat(target, dir, f->temp) ? -errno : 0;
	mode = (mode & S_IFMT) |
	       mode_until_done(f->cp, &f->st, rights_of(f->src, &f->st));
	return mknodat(dir, f->temp, mode, f->st.st_rdev) ? -errno : 0;
}

static int create(struct file *f, int dir)
{
	char target[PATH_MAX];
	ssize_t n = 0;
	int err;

	if (S_ISLNK(f->st.st_mode))
		n = readlinkat(f->src, "", target, sizeof(target) - 1);
	if (n < 0)
		return file_wrong(f, "read the link", -errno);
	target[n] = 0;
	do {
		make_temp_name(f);
		err = make_node(f, dir, target);
	} while (err == -EEXIST);
	if (!err)
		return 0;
	f->temp[0] = 0;
	return file_wrong(f, "create a copy of", err);
}

static int copy_node(struct file *f, int dst_dir)
{
	struct stat st;
	int err = create(f, dst_dir);

	if (err)
		return err;
	if (f->cp->opts.keep) {
		f->dst = openat(dst_dir, f->temp,
				O_PATH | O_NOFOLLOW | O_CLOEXEC);
		if (f->dst < 0 || fstat(f->dst, &st) ||
		    (st.st_mode & S_IFMT) != (f->st.st_mode & S_IFMT))
			return file_wrong(f, "open the copy of",
					  errno ? -errno : -ESTALE);
		attrs_copy(f->cp, &f->st, f->src, f->dst, &f->lost);
	}
	err = commit_name(f, dst_dir, f->temp);
	if (!err)
		f->temp[0] = 0;
	return err;
}

int64_t file_node_work(void *arg)
{
	struct file *f = arg;
	int src_dir, dst_dir;
	int err = dir_open(f->dir, &src_dir, &dst_dir);

	if (err)
		return file_wrong(f, "open the directory of", err);
	if (open_node(f, src_dir) == 0 &&
	    !(f->cp->opts.no_clobber && file_skip(f, dst_dir))) {
		links_see(f);
		if (!f->waiting && !file_skip(f, dst_dir) &&
		    !links_made(f, dst_dir) && !f->err)
			f->done = copy_node(f, dst_dir) >= 0;
	}
	file_drop(f, dst_dir);
	dir_close(f->dir);
	return f->err;
}
