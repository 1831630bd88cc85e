/* SPDX-License-Identifier: CC0-1.0 */
/*
 * The end of a file, on a worker: see whether the source is what it was, give
 * the copy its attributes, and then its name.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "weir-cp.h"

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

static bool earlier(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec :
					a->tv_nsec < b->tv_nsec;
}

/* With --changed=fail nothing at all may have changed: its name, too, has to
 * lead to it still. */
static bool is_other(const struct file *f, int dir)
{
	struct stat st;

	return fstatat(dir, f->name, &st,
		       f->follow ? 0 : AT_SYMLINK_NOFOLLOW) ||
	       st.st_dev != f->st.st_dev || st.st_ino != f->st.st_ino ||
	       !same_time(&st.st_ctim, &f->st.st_ctim);
}

/* What has become of the data of the source since it was opened. */
static int look_again(struct file *f, int dir)
{
	struct stat st;

	if (fstat(f->src, &st))
		return file_wrong(f, "look at", -errno);
	f->change = st.st_size > f->size_before ? GREW :
		    st.st_size != f->size_before ||
		    !same_time(&st.st_mtim, &f->st.st_mtim) ? CHANGED : SAME;
	if (f->cp->opts.fail_if_changed && is_other(f, dir))
		f->change = CHANGED;
	if (f->change == SAME)
		return 0;
	if (f->tries < f->cp->opts.retry)
		f->again = true;
	else if (f->cp->opts.fail_if_changed)
		return file_wrong(f, "changed while it was copied", 0);
	return 0;
}

/* Whether the copy is not wanted, for there is one (-n), or a newer one (-u). */
bool file_skip(struct file *f, int dir)
{
	const struct cp_opts *o = &f->cp->opts;
	struct stat st;

	if ((!o->no_clobber && !o->update) ||
	    fstatat(dir, f->dst_name, &st, AT_SYMLINK_NOFOLLOW))
		return false;
	f->done = f->skipped = o->no_clobber ||
			       !earlier(&st.st_mtim, &f->st.st_mtim);
	return f->skipped;
}

/* Whether what has the name of the copy now may be replaced by it: 0, 1 if it
 * is to stay, or a negative errno. */
static int check_replaced(struct file *f, int dir)
{
	struct stat st;

	if (f->cp->opts.no_clobber) {
		f->skipped = true;	/* It came meanwhile. */
		return 1;
	}

	if (fstatat(dir, f->dst_name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? 0 : file_wrong(f, "look at the name "
							"of the copy of",
							-errno);
	if (st.st_dev == f->st.st_dev && st.st_ino == f->st.st_ino)
		return file_wrong(f, "is the same file in SOURCE and DEST", 0);
	if (S_ISDIR(st.st_mode))
		return file_wrong(f, "would replace a directory", 0);
	/* A tree can be copied to where it was copied before. */
	if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode) &&
	    (st.st_mode & S_IFMT) != (f->st.st_mode & S_IFMT))
		return file_wrong(f, "would replace what is no file", 0);
	return 0;
}

/* Move @temp to the name that the copy is to have.  1: that is to stay. */
int commit_name(struct file *f, int dir, const char *temp)
{
	int err;

	if (syscall(SYS_renameat2, dir, temp, dir, f->dst_name,
		    RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EEXIST && errno != EINVAL && errno != ENOSYS)
		return file_wrong(f, "rename the copy of", -errno);
	err = check_replaced(f, dir);
	if (err)
		return err;
	if (renameat(dir, temp, dir, f->dst_name))
		return file_wrong(f, "rename the copy of", -errno);
	return 0;
}

/* Give the nameless file a name, by whatever means the kernel has. */
static int link_as(const struct file *f, int dir, const char *name)
{
	char path[48];

	if (linkat(f->dst, "", dir, name, AT_EMPTY_PATH) == 0)
		return 0;
	if (errno != ENOENT && errno != EPERM && errno != EINVAL)
		return -errno;
	/* Older kernels want a privilege for that, but not for this. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", f->dst);
	if (linkat(AT_FDCWD, path, dir, name, AT_SYMLINK_FOLLOW) == 0)
		return 0;
	return -errno;
}

static int commit(struct file *f, int dir)
{
	int err;

	if (!f->temp[0]) {
		err = link_as(f, dir, f->dst_name);
		if (err == 0)
			return 0;
		if (err == -EEXIST)
			err = check_replaced(f, dir);
		while (!err) {
			make_temp_name(f);
			err = link_as(f, dir, f->temp);
			if (err != -EEXIST)
				break;
			err = 0;
		}
		if (err) {
			f->temp[0] = 0;
			return err > 0 ? err :
			       file_wrong(f, "name the copy of", err);
		}
	}
	err = commit_name(f, dir, f->temp);
	if (!err)
		f->temp[0] = 0;
	return err;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Close everything; what is not complete is gone with that. */
void file_drop(struct file *f, int dst_dir)
{
	convert_drop(f);
	weir_domain_destroy(f->src_domain);
	weir_domain_destroy(f->dst_domain);
	f->src_domain = f->dst_domain = NULL;
	close_fd(&f->src);
	close_fd(&f->src_buffered);
	close_fd(&f->dst_buffered);
	close_fd(&f->dst);
	if (f->temp[0] && dst_dir >= 0)
		unlinkat(dst_dir, f->temp, 0);
	f->temp[0] = 0;
}

/* All data are in the copy: make it one. */
int file_complete(struct file *f, int src_dir, int dst_dir)
{
	int err = look_again(f, src_dir);

	if (f->again)
		return 0;
	if (!err && f->written < (uint64_t)f->st.st_size &&
	    ftruncate(f->dst, f->st.st_size))
		err = file_wrong(f, "set the size of the copy of", -errno);
	if (!err)
		attrs_copy(f->cp, &f->st, f->src, f->dst, &f->lost);
	if (!err && f->cp->opts.fsync && fsync(f->dst))
		err = file_wrong(f, "write out the copy of", -errno);
	if (!err)
		err = commit(f, dst_dir);
	if (!err && f->cp->opts.fsync && fsync(dst_dir))
		err = file_wrong(f, "write out the name of the copy of",
				 -errno);
	f->done = err >= 0;
	return err < 0 ? err : 0;
}

int64_t file_finish_work(void *arg)
{
	struct file *f = arg;
	int src_dir, dst_dir;
	int err = dir_open(f->dir, &src_dir, &dst_dir);

	if (err) {
		file_drop(f, -1);
		return file_wrong(f, "open the directory of", err);
	}
	if (!f->err)
		file_complete(f, src_dir, dst_dir);
	file_drop(f, dst_dir);
	dir_close(f->dir);
	return f->err;
}

/*
 * Before the copy is read back: have it written out and forgotten, so that what
 * is compared is what the disk has and not what the memory has.
 */
int64_t file_sync_work(void *arg)
{
	struct file *f = arg;

	if (f->written < (uint64_t)f->st.st_size &&
	    ftruncate(f->dst, f->st.st_size))
		return file_wrong(f, "set the size of the copy of", -errno);
	if (fdatasync(f->dst))
		return file_wrong(f, "write out the copy of", -errno);
	posix_fadvise(f->dst, 0, 0, POSIX_FADV_DONTNEED);
	f->comparing = true;
	f->written = (uint64_t)f->st.st_size;
	file_begin_pass(f);
	return file_scan(f);
}
