/* SPDX-License-Identifier: CC0-1.0 */
/*
 * The file at this end.  What is written has a temporary name until it is
 * complete, in the directory where it will be.
 *
 * A server keeps clients in its directory: the kernel refuses every name that
 * leads out, by "..", by a slash in front, or by a symbolic link on the way.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "weir-rdma.h"

#define TEMP ".weir-rdma-"

static atomic_uint temps;

void file_init(struct file *f, int root, const char *name, bool sink)
{
	memset(f, 0, sizeof(*f));
	f->root = root;
	f->sink = sink;
	f->dir = f->fd = -1;
	snprintf(f->name, sizeof(f->name), "%s", name);
}

static int open_at(const struct file *f, const char *name, int flags)
{
	struct open_how how = {
		.flags = (uint64_t)flags | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS,
	};
	long fd;

	if (f->beneath)
		fd = syscall(SYS_openat2, f->root, name, &how, sizeof(how));
	else
		fd = openat(f->root, name, flags | O_CLOEXEC);
	return fd < 0 ? -errno : (int)fd;
}

/* Nothing but files have content that ends; a fifo would not even open. */
static int open_source(struct file *f)
{
	struct stat st;

	f->fd = open_at(f, f->name, O_RDONLY | O_NONBLOCK | O_NOCTTY);
	if (f->fd < 0)
		return f->fd;
	if (fstat(f->fd, &st))
		return -errno;
	if (S_ISDIR(st.st_mode))
		return -EISDIR;
	if (!S_ISREG(st.st_mode))
		return -EMEDIUMTYPE;
	f->size = (uint64_t)st.st_size;
	f->mode = st.st_mode & 0777;
	return 0;
}

/* The directory that it will be in, and its name there. */
static int open_dir(struct file *f)
{
	char *slash = strrchr(f->name, '/');
	const char *dir = ".";

	f->base = slash ? slash + 1 : f->name;
	if (!*f->base || !strcmp(f->base, ".") || !strcmp(f->base, ".."))
		return -EISDIR;
	if (slash == f->name)
		dir = "/";
	else if (slash)
		dir = f->name;
	if (slash && slash != f->name)
		*slash = 0;
	f->dir = open_at(f, dir, O_PATH | O_DIRECTORY);
	if (slash && slash != f->name)
		*slash = '/';
	return f->dir < 0 ? f->dir : 0;
}

/* All of its space now: a disk that is full is known before anything moves. */
static int take_space(struct file *f)
{
	if (!f->size || !fallocate(f->fd, 0, 0, (off_t)f->size))
		return 0;
	if (errno != EOPNOTSUPP)
		return -errno;
	return ftruncate(f->fd, (off_t)f->size) ? -errno : 0;
}

static int open_sink(struct file *f)
{
	struct stat st;
	int err = open_dir(f);

	if (err)
		return err;
	if (!fstatat(f->dir, f->base, &st, AT_SYMLINK_NOFOLLOW) &&
	    S_ISDIR(st.st_mode))
		return -EISDIR;
	snprintf(f->temp, sizeof(f->temp), TEMP "%ld-%u", (long)getpid(),
		 atomic_fetch_add(&temps, 1));
	f->fd = openat(f->dir, f->temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW |
		       O_CLOEXEC, 0600);
	if (f->fd < 0) {
		f->temp[0] = 0;
		return -errno;
	}
	return take_space(f);
}

/* On a worker. */
int64_t file_open_work(void *arg)
{
	struct file *f = arg;
	const char *slash = strrchr(f->name, '/');

	if (!strncmp(slash ? slash + 1 : f->name, TEMP, strlen(TEMP)))
		return -EPERM;
	return f->sink ? open_sink(f) : open_source(f);
}

/* On a worker: it is complete, and gets its mode and name. */
int64_t file_finish_work(void *arg)
{
	struct file *f = arg;

	if (fchmod(f->fd, f->mode & 0777) || (f->fsync && fsync(f->fd)) ||
	    renameat(f->dir, f->temp, f->dir, f->base))
		return -errno;
	f->temp[0] = 0;
	if (!f->fsync)
		return 0;
	close(f->fd);
	f->fd = openat(f->dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return f->fd < 0 || fsync(f->fd) ? -errno : 0;
}

void file_close(struct file *f)
{
	if (f->temp[0])
		unlinkat(f->dir, f->temp, 0);
	f->temp[0] = 0;
	if (f->fd >= 0)
		close(f->fd);
	if (f->dir >= 0)
		close(f->dir);
	f->fd = f->dir = -1;
}
