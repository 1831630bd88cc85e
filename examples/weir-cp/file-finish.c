/* SPDX-License-Identifier: CC0-1.0 */
/*
 * The end of a file, on a worker: see that the source is what it was, give the
 * copy its owner, mode and times, and then its name.  And symbolic links, which
 * have only that.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "weir-cp.h"

/*
 * The mode that a copy of @src gets if it belongs to @uid and @gid: setuid and
 * setgid would mean somebody else than they did.
 */
mode_t kept_mode(const struct cp *cp, const struct stat *src, uid_t uid,
		 gid_t gid)
{
	mode_t mode = src->st_mode & 07777;

	(void)cp;
	if (uid != src->st_uid)
		mode &= ~(mode_t)S_ISUID;
	if (gid != src->st_gid)
		mode &= ~(mode_t)S_ISGID;
	return mode;
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* Also its name has to lead to it still. */
static int check_source(struct file *f, int dir)
{
	struct stat st;

	if (fstatat(dir, f->name, &st, f->follow ? 0 : AT_SYMLINK_NOFOLLOW) ||
	    st.st_dev != f->st.st_dev || st.st_ino != f->st.st_ino ||
	    st.st_size != f->st.st_size ||
	    !same_time(&st.st_mtim, &f->st.st_mtim) ||
	    !same_time(&st.st_ctim, &f->st.st_ctim))
		return file_wrong(f, "changed while it was copied", 0);
	return 0;
}

static int set_attrs(struct file *f)
{
	struct timespec times[2] = { f->st.st_atim, f->st.st_mtim };
	struct stat st;
	mode_t mode;

	if (f->set_owner && fchown(f->dst, f->st.st_uid, f->st.st_gid))
		return file_wrong(f, "set the owner of the copy of", -errno);
	if (f->set_mode) {
		if (fstat(f->dst, &st))
			return file_wrong(f, "look at the copy of", -errno);
		mode = kept_mode(f->cp, &f->st, st.st_uid, st.st_gid);
		if (fchmod(f->dst, mode))
			return file_wrong(f, "set the mode of the copy of",
					  -errno);
	}
	if (futimens(f->dst, times))
		return file_wrong(f, "set the times of the copy of", -errno);
	return 0;
}

/* Whether what has the name of the copy now may be replaced by it. */
static int check_replaced(struct file *f, int dir)
{
	struct stat st;

	if (fstatat(dir, f->dst_name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? 0 : file_wrong(f, "look at the name "
							"of the copy of",
							-errno);
	if (st.st_dev == f->st.st_dev && st.st_ino == f->st.st_ino)
		return file_wrong(f, "is the same file in SOURCE and DEST", 0);
	if (S_ISDIR(st.st_mode))
		return file_wrong(f, "would replace a directory", 0);
	if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		return file_wrong(f, "would replace what is no file", 0);
	return 0;
}

/* Move @temp to the name that the copy is to have. */
int commit_name(struct file *f, int dir, const char *temp)
{
	int err;

	if (renameat2(dir, temp, dir, f->dst_name, RENAME_NOREPLACE) == 0)
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
			return file_wrong(f, "name the copy of", err);
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
	int err = check_source(f, src_dir);

	if (!err && f->written < (uint64_t)f->st.st_size &&
	    ftruncate(f->dst, f->st.st_size))
		err = file_wrong(f, "set the size of the copy of", -errno);
	if (!err)
		err = set_attrs(f);
	if (!err && f->cp->opts.fsync && fsync(f->dst))
		err = file_wrong(f, "write out the copy of", -errno);
	if (!err)
		err = commit(f, dst_dir);
	if (!err && f->cp->opts.fsync && fsync(dst_dir))
		err = file_wrong(f, "write out the name of the copy of",
				 -errno);
	f->done = !err;
	return err;
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

static int set_link_attrs(struct file *f, int dir, const char *name)
{
	struct timespec times[2] = { f->st.st_atim, f->st.st_mtim };

	if (f->cp->root &&
	    fchownat(dir, name, f->st.st_uid, f->st.st_gid,
		     AT_SYMLINK_NOFOLLOW))
		return -errno;
	if (utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW))
		return -errno;
	return 0;
}

static int copy_link(struct file *f, int src_dir, int dst_dir)
{
	char target[PATH_MAX];
	ssize_t n;
	int err;

	if (fstatat(src_dir, f->name, &f->st, AT_SYMLINK_NOFOLLOW))
		return file_wrong(f, "look at", -errno);
	n = readlinkat(src_dir, f->name, target, sizeof(target) - 1);
	if (n < 0)
		return file_wrong(f, "read the link", -errno);
	target[n] = 0;
	do {
		make_temp_name(f);
		err = symlinkat(target, dst_dir, f->temp) ? -errno : 0;
	} while (err == -EEXIST);
	if (err) {
		f->temp[0] = 0;
		return file_wrong(f, "create a copy of", err);
	}
	err = set_link_attrs(f, dst_dir, f->temp);
	if (err)
		return file_wrong(f, "set owner and times of the copy of",
				  err);
	err = commit_name(f, dst_dir, f->temp);
	if (!err)
		f->temp[0] = 0;
	return err;
}

/* A symbolic link is copied in one go. */
int64_t file_link_work(void *arg)
{
	struct file *f = arg;
	int src_dir, dst_dir;
	int err = dir_open(f->dir, &src_dir, &dst_dir);

	if (err)
		return file_wrong(f, "open the directory of", err);
	err = copy_link(f, src_dir, dst_dir);
	f->done = !err;
	file_drop(f, dst_dir);
	dir_close(f->dir);
	return err;
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
