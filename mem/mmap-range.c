/* SPDX-License-Identifier: BSD-3-Clause */

/* The kinds of range that an mmap can have. */

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/why.h"
#include "mem/dm-internal.h"
#include "mem/domain-internal.h"
#include "mem/mmap-internal.h"
#include "mem/pages.h"

#define PAGE ((size_t)4096)

int mmap_refuse_range(const struct weir_mmap *mmap, const char *call,
		      uint64_t off, size_t len)
{
	int err = mmap_refuse_config(mmap, call);

	if (err)
		return err;
	if (mmap->has_range)
		return why(-EPERM, "%s: the mmap has a range", call);
	if (!len)
		return why(-EINVAL, "%s: a range of 0 bytes", call);
	if (len > PTRDIFF_MAX || off > INT64_MAX - len)
		return why(-EINVAL, "%s: %zu bytes from %llu on are more than "
			   "an address space has", call, len,
			   (unsigned long long)off);
	return 0;
}

void mmap_set_domain(struct weir_mmap *mmap, struct weir_domain *domain)
{
	domain_use(domain);
	domain_unuse(mmap->domain);
	mmap->domain = domain;
}

int weir_mmap_set_memrange(struct weir_mmap *mmap, void *addr, size_t len)
{
	int err = mmap_refuse_range(mmap, "weir_mmap_set_memrange", 0, len);

	if (err)
		return err;
	if (!addr || (uintptr_t)addr + len - 1 < (uintptr_t)addr)
		return why(-EINVAL,
			   "weir_mmap_set_memrange: no range: %zu bytes at %p",
			   len, addr);
	mmap->addr = addr;
	mmap->len = len;
	mmap->page_size = PAGE;
	mmap->cpu = true;
	mmap->range = MMAP_MEM;
	mmap->has_range = true;
	return 0;
}

int mmap_dup_fd(int fd, const char *call)
{
	int copy = fault("fcntl") ? (errno = EMFILE, -1) :
				    fcntl(fd, F_DUPFD_CLOEXEC, 0);

	if (copy >= 0)
		return copy;
	return why(-errno, "%s: fd %d: %s", call, fd, strerror(errno));
}

int mmap_map_fd(struct weir_mmap *mmap)
{
	int err = pages_map_fd(&mmap->addr, mmap->len, mmap->page_size,
			       mmap->fd, mmap->fd_off, &mmap->readonly);

	mmap->cpu = !err;
	return err;
}

void mmap_unmap(struct weir_mmap *mmap)
{
	if (mmap->addr)
		pages_free(mmap->addr, pages_round(mmap->len, mmap->page_size));
	if (mmap->fd >= 0)
		close(mmap->fd);
}

/* As weir_mmap_set_fd() is to take it back. */
static void forget(struct weir_mmap *mmap)
{
	mmap_unmap(mmap);
	mmap->addr = NULL;
	mmap->len = 0;
	mmap->fd = -1;
	mmap->fd_off = 0;
	mmap->cpu = false;
	mmap->readonly = false;
}

/* A file that others may cut short would end us with SIGBUS. */
static int check_sealed(int fd)
{
	int seals = fault("fcntl") ? (errno = EBADF, -1) :
				     fcntl(fd, F_GET_SEALS);

	if (seals >= 0 && (seals & F_SEAL_SHRINK))
		return 0;
	if (seals < 0 && errno == EBADF)
		return why(-EBADF, "weir_mmap_set_fd: fd %d is not open", fd);
	return why(-EINVAL, "weir_mmap_set_fd: who truncates fd %d ends this "
		   "process with SIGBUS; seal it with F_SEAL_SHRINK (a memfd), "
		   "or say WEIR_MMAP_FD_TRUSTED if nobody will", fd);
}

/* The size of its pages, or a negative errno. */
static int64_t check_file(int fd, uint64_t off, size_t len)
{
	struct statfs fs;
	struct stat st;
	size_t page;

	if (fault("fstat") || fstat(fd, &st) || fstatfs(fd, &fs))
		return why(-EBADF, "weir_mmap_set_fd: fd %d: %s", fd,
			   strerror(errno));
	if (!S_ISREG(st.st_mode))
		return why(-EINVAL, "weir_mmap_set_fd: fd %d is no file; for a "
			   "dma-buf see weir_mmap_set_dmabuf()", fd);
	if (off + len > (uint64_t)st.st_size)
		return why(-ERANGE, "weir_mmap_set_fd: the range ends at %llu, "
			   "the file at %llu", (unsigned long long)(off + len),
			   (unsigned long long)st.st_size);
	page = fs.f_type == HUGETLBFS_MAGIC ? (size_t)fs.f_bsize : PAGE;
	if (off & (page - 1))
		return why(-EINVAL, "weir_mmap_set_fd: offset %llu is no "
			   "multiple of the page size, %zu",
			   (unsigned long long)off, page);
	return (int64_t)page;
}

static int load_fd(struct weir_mmap *mmap, int fd, uint64_t off, size_t len,
		   int64_t page)
{
	int err = mmap_dup_fd(fd, "weir_mmap_set_fd");

	if (err < 0)
		return err;
	mmap->fd = err;
	mmap->fd_off = off;
	mmap->len = len;
	mmap->page_size = (size_t)page;
	err = mmap_map_fd(mmap);
	if (!err)
		return 0;
	forget(mmap);
	if (err == -EACCES)
		return why(err, "weir_mmap_set_fd: fd %d was not opened for "
			   "reading", fd);
	return why(err, "weir_mmap_set_fd: cannot map fd %d: %s", fd,
		   strerror(-err));
}

int weir_mmap_set_fd(struct weir_mmap *mmap, int fd, uint64_t off, size_t len,
		     uint32_t flags)
{
	int err = mmap_refuse_range(mmap, "weir_mmap_set_fd", off, len);
	int64_t page;

	if (err)
		return err;
	if (flags & ~WEIR_MMAP_FD_TRUSTED)
		return why(-EINVAL, "weir_mmap_set_fd: unknown flags %x",
			   flags);
	page = check_file(fd, off, len);
	if (page < 0)
		return (int)page;
	if (!(flags & WEIR_MMAP_FD_TRUSTED))
		err = check_sealed(fd);
	if (!err)
		err = load_fd(mmap, fd, off, len, page);
	if (err)
		return err;
	if (page > (int64_t)PAGE)
		mmap_set_domain(mmap, weir_domain_hugepage());
	mmap->release = mmap_unmap;
	mmap->range = MMAP_FD;
	mmap->has_range = true;
	return 0;
}

static void release_dm(struct weir_mmap *mmap)
{
	dm_unuse(mmap->dm);
}

int weir_mmap_set_dm(struct weir_mmap *mmap, struct weir_dm *dm, uint64_t off,
		     size_t len)
{
	int err = mmap_refuse_range(mmap, "weir_mmap_set_dm", off, len);

	if (err)
		return err;
	if (off + len > weir_dm_len(dm))
		return why(-ERANGE, "weir_mmap_set_dm: the range ends at %llu, "
			   "the device memory at %zu",
			   (unsigned long long)(off + len), weir_dm_len(dm));
	dm_use(dm);
	mmap_set_domain(mmap, dm_domain());
	mmap->dm = dm;
	mmap->dm_off = off;
	mmap->len = len;
	mmap->release = release_dm;
	mmap->range = MMAP_DM;
	mmap->has_range = true;
	return 0;
}
