/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * File domains.  Their limits are read from the descriptor once, at creation.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/opts.h"
#include "base/why.h"
#include "mem/domain-internal.h"
#include "reactor/backend.h"

#define PAGE 4096u

/* What a second descriptor of the file has of the first: rights, and when a
 * write is done. */
#define KEPT_FLAGS (O_ACCMODE | O_SYNC | O_DSYNC | O_NOATIME)

static struct domain_place place(const struct weir_domain *domain)
{
	const struct domain_file *file = (const struct domain_file *)domain;

	return (struct domain_place){ PLACE_FILE,
				      { file->file[0], file->file[1] } };
}

const struct domain_class domain_class_file = {
	.place = place,
};

static int file_flags(int fd, const char *name)
{
	struct vfd_info info;
	int flags;

	if (fault("fcntl"))
		flags = -1;
	else if (fd_is_virtual(fd))
		flags = vfd_ops->info(fd, &info) ? -1 : info.flags;
	else
		flags = fcntl(fd, F_GETFL);
	if (flags < 0)
		return why(-EBADF, "weir_domain_file_create: %s %d is not open",
			   name, fd);
	return flags;
}

/* What it is: 0, or -errno. */
static int hook(int fd, bool *is_dir, bool *has_offsets)
{
	struct vfd_info info;
	struct stat st;

	if (fault("fstat"))
		return -EIO;
	if (fd_is_virtual(fd)) {
		if (vfd_ops->info(fd, &info))
			return -EBADF;
		*is_dir = info.is_dir;
		*has_offsets = info.has_offsets;
		return 0;
	}
	if (fstat(fd, &st))
		return -errno;
	*is_dir = S_ISDIR(st.st_mode);
	*has_offsets = lseek(fd, 0, SEEK_CUR) >= 0;
	return 0;
}

static int check_kind(int fd, int flags)
{
	bool is_dir = false, has_offsets = false;
	int err;

	if (flags & O_PATH)
		return why(-EINVAL, "weir_domain_file_create: fd %d was opened "
			   "with O_PATH and cannot be read or written", fd);
	if ((flags & O_APPEND) && (flags & O_ACCMODE) != O_RDONLY)
		return why(-EINVAL, "weir_domain_file_create: fd %d has "
			   "O_APPEND, which ignores the offset of a write", fd);
	err = hook(fd, &is_dir, &has_offsets);
	if (err)
		return why(-EBADF, "weir_domain_file_create: fd %d: %s", fd,
			   strerror(-err));
	if (is_dir)
		return why(-EINVAL,
			   "weir_domain_file_create: fd %d is a directory", fd);
	if (!has_offsets)
		return why(-ESPIPE, "weir_domain_file_create: fd %d has no "
			   "offsets: a pipe, a socket or a terminal", fd);
	return 0;
}

/* What O_DIRECT wants of this file; kernels before 6.1 do not tell. */
static void ask_alignment(struct domain_file *file)
{
	uint32_t off = PAGE, mem = PAGE;
	struct vfd_info info;
#ifdef STATX_DIOALIGN
	struct statx stx = { 0 };

	if (!fd_is_virtual(file->fd) && !fault("statx") &&
	    !statx(file->fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) &&
	    (stx.stx_mask & STATX_DIOALIGN) && stx.stx_dio_offset_align) {
		off = stx.stx_dio_offset_align;
		mem = stx.stx_dio_mem_align ? stx.stx_dio_mem_align : PAGE;
	}
#endif
	if (fd_is_virtual(file->fd) && !fault("statx") &&
	    !vfd_ops->info(file->fd, &info)) {
		off = info.align;
		mem = info.mem_align;
	}
	file->domain.align = off < PAGE ? PAGE : off;
	file->mem_align = mem;
}

/* Which file it is, a device by whatever name: 0, or -errno. */
static int identify(int fd, uint64_t id[2])
{
	struct vfd_info info;
	struct stat st;

	if (fault("fstat"))
		return -EIO;
	if (fd_is_virtual(fd)) {
		if (vfd_ops->info(fd, &info))
			return -EBADF;
		id[0] = info.file[0];
		id[1] = info.file[1];
		return 0;
	}
	if (fstat(fd, &st))
		return -errno;
	id[0] = S_ISBLK(st.st_mode) ? st.st_rdev : st.st_dev;
	id[1] = S_ISBLK(st.st_mode) ? UINT64_MAX : st.st_ino;
	return 0;
}

static bool is_same_file(int a, int b)
{
	uint64_t id_a[2] = { 0 }, id_b[2] = { 0 };

	return !identify(a, id_a) && !identify(b, id_b) &&
	       id_a[0] == id_b[0] && id_a[1] == id_b[1];
}

static int check_buffered(const struct domain_file *file, int fd)
{
	int flags = file_flags(fd, ".buffered_fd"), err;

	if (flags < 0)
		return flags;
	err = check_kind(fd, flags);
	if (err)
		return err;
	if (!is_same_file(file->fd, fd))
		return why(-EINVAL, "weir_domain_file_create: .buffered_fd %d "
			   "is not open on the file of fd %d", fd, file->fd);
	if (flags & O_DIRECT)
		return why(-EINVAL, "weir_domain_file_create: .buffered_fd %d "
			   "has O_DIRECT too", fd);
	if ((!file->domain.no_read && (flags & O_ACCMODE) == O_WRONLY) ||
	    (!file->domain.no_write && (flags & O_ACCMODE) == O_RDONLY))
		return why(-EINVAL, "weir_domain_file_create: .buffered_fd %d "
			   "has fewer rights than fd %d", fd, file->fd);
	return 0;
}

/*
 * The same file once more, without O_DIRECT.  What /proc names is opened, so
 * the name that the file had does not matter, nor whether it still has one; but
 * what is mounted there may be something else, so look.
 */
static int reopen(const struct domain_file *file, int flags)
{
	char path[32];
	int fd;

	if (fd_is_virtual(file->fd))
		return fault("open") ? -ENOENT :
		       vfd_ops->reopen(file->fd, flags & KEPT_FLAGS);
	snprintf(path, sizeof(path), "/proc/self/fd/%d", file->fd);
	fd = fault("open") ? (errno = ENOENT, -1) :
			     open(path, (flags & KEPT_FLAGS) | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (is_same_file(file->fd, fd))
		return fd;
	close(fd);
	return -ENOENT;
}

static void close_own(struct weir_domain *domain)
{
	int fd = domain_to_file(domain)->buffered_fd;

	if (fd_is_virtual(fd))
		vfd_ops->close(fd);
	else
		close(fd);
}

/* A way round O_DIRECT; without one, jobs have to be aligned. */
static void find_way_round(struct domain_file *file, int flags)
{
	int fd = reopen(file, flags);

	if (fd < 0) {
		file->no_way = fd;
		return;
	}
	file->buffered_fd = fd;
	file->domain.release = close_own;
}

static void set_direct(struct domain_file *file, int flags,
		       const struct weir_domain_file_opts *opts)
{
	ask_alignment(file);
	if (opts->align) {
		file->domain.align = opts->align;
		file->mem_align = opts->align;
	}
	if (opts->flags & WEIR_DOMAIN_FILE_BUFFERED)
		file->buffered_fd = opts->buffered_fd;
	else if (!(opts->flags & WEIR_DOMAIN_FILE_DIRECT_ONLY))
		find_way_round(file, flags);
	file->domain.strict = file->buffered_fd < 0;
	if (!file->domain.strict && file->domain.align < PAGE)
		file->domain.align = PAGE;
}

static int check_opts(const struct weir_domain_file_opts *opts)
{
	uint32_t both = WEIR_DOMAIN_FILE_BUFFERED |
			WEIR_DOMAIN_FILE_DIRECT_ONLY;

	if (opts->flags & ~both)
		return why(-EINVAL, "weir_domain_file_create: unknown .flags %x",
			   opts->flags);
	if (opts->flags == both)
		return why(-EINVAL, "weir_domain_file_create: there is a "
			   ".buffered_fd, and WEIR_DOMAIN_FILE_DIRECT_ONLY");
	if (opts->reserved)
		return why(-E2BIG, "weir_domain_file_create: .reserved is "
			   "unknown to this version");
	if (opts->align & (opts->align - 1))
		return why(-EINVAL, "weir_domain_file_create: .align %u is no "
			   "power of 2", opts->align);
	return 0;
}

static int find_out_which(struct domain_file *file)
{
	int err = identify(file->fd, file->file);

	return err ? why(-EBADF, "weir_domain_file_create: fd %d: %s",
			 file->fd, strerror(-err)) : 0;
}

int weir_domain_file_create(struct weir_domain **ret, int fd,
			    const struct weir_domain_file_opts *user)
{
	struct weir_domain_file_opts opts;
	struct domain_file *file;
	const char *id;
	size_t id_len;
	int flags, err;

	err = opts_load(&opts, sizeof(opts), user, "weir_domain_file_create");
	if (!err)
		err = check_opts(&opts);
	if (err)
		return err;
	flags = file_flags(fd, "fd");
	if (flags < 0)
		return flags;
	err = check_kind(fd, flags);
	if (err)
		return err;

	id = opts.id ? opts.id : "file";
	id_len = strlen(id) + 1;
	file = mem_calloc(1, sizeof(*file) + id_len);
	if (!file)
		return why(-ENOMEM, "weir_domain_file_create: no memory");
	memcpy(file->id_mem, id, id_len);
	file->domain.cls = &domain_class_file;
	file->domain.kind = WEIR_DOMAIN_FILE;
	file->domain.size = INT64_MAX;
	file->domain.id = file->id_mem;
	file->domain.ctx = opts.ctx;
	file->fd = fd;
	file->buffered_fd = -1;
	file->domain.no_read = (flags & O_ACCMODE) == O_WRONLY;
	file->domain.no_write = (flags & O_ACCMODE) == O_RDONLY;
	err = find_out_which(file);
	if (!err && opts.flags & WEIR_DOMAIN_FILE_BUFFERED)
		err = check_buffered(file, opts.buffered_fd);
	if (err) {
		free(file);
		return err;
	}
	if (flags & O_DIRECT)
		set_direct(file, flags, &opts);
	domain_add(&file->domain);
	*ret = &file->domain;
	return 0;
}
