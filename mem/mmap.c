/* SPDX-License-Identifier: BSD-3-Clause */
/* Mmaps: create, settings, ranges, devices, start. */

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/why.h"
#include "mem/dm-internal.h"
#include "mem/domain-internal.h"
#include "mem/export/internal.h"
#include "mem/mmap-internal.h"
#include "mem/pages.h"
#include "mem/segment/internal.h"
#include "mem/vma.h"

/* The kinds of range that an mmap can have. */

#define PAGE ((size_t)4096)

static int mmap_refuse_config(const struct weir_mmap *mmap, const char *call);

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

/* The release function for weir_mmap_set_fd(). */
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

/* If another process truncated the file, SIGBUS would kill this one. */
static int check_sealed(int fd)
{
	int seals = fault("fcntl") ? (errno = EBADF, -1) :
				     fcntl(fd, F_GET_SEALS);

	if (seals >= 0 && (seals & F_SEAL_SHRINK))
		return 0;
	if (seals < 0 && errno == EBADF)
		return why(-EBADF, "weir_mmap_set_fd: fd %d is not open", fd);
	return why(-EINVAL, "weir_mmap_set_fd: if fd %d is truncated, this "
		   "process ends with SIGBUS; seal it with F_SEAL_SHRINK (a "
		   "memfd), or say WEIR_MMAP_FD_TRUSTED if it never will be", fd);
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

int weir_mmap_set_domain(struct weir_mmap *mmap, struct weir_domain *domain,
			 uint64_t addr, size_t len)
{
	int err = mmap_refuse_range(mmap, "weir_mmap_set_domain", 0, len);

	if (err)
		return err;
	if (!domain || !domain_is_user(domain))
		return why(-EINVAL, "weir_mmap_set_domain: %s is no domain of "
			   "weir_domain_create()", domain ? domain->id : "NULL");
	if (addr > INT64_MAX || !domain_has(domain, addr, len))
		return why(-ERANGE, "weir_mmap_set_domain: domain %s has not "
			   "all of the %zu bytes at %#llx", domain->id, len,
			   (unsigned long long)addr);
	mmap_set_domain(mmap, domain);
	mmap->addr = (char *)(uintptr_t)addr;
	mmap->len = len;
	mmap->range = MMAP_DOMAIN;
	mmap->has_range = true;
	return 0;
}

/* The devices of an mmap. mmap-keys.c has their keys. */

#define MAX_DEFAULT 16u
#define MAX_MAX 1024u

struct mmap_device **mmap_find_device(struct weir_mmap *mmap,
				      const struct weir_device *device)
{
	struct mmap_device **p;

	for (p = &mmap->devices; *p && (*p)->device != device;
	     p = &(*p)->next)
		;
	return p;
}

uint32_t weir_mmap_max_devices(const struct weir_mmap *mmap)
{
	return mmap->max_devices ? mmap->max_devices : MAX_DEFAULT;
}

int weir_mmap_set_max_devices(struct weir_mmap *mmap, uint32_t n)
{
	int err = mmap_refuse_config(mmap, "weir_mmap_set_max_devices");

	if (err)
		return err;
	if (mmap->was_started)
		return why(-EPERM, "weir_mmap_set_max_devices: the mmap was "
			   "started once, and then the bound is fixed");
	if (!n || n > MAX_MAX || n < mmap->n_devices)
		return why(-EINVAL, "weir_mmap_set_max_devices: %u is not from "
			   "1 to %u, or less than the %u there are", n,
			   MAX_MAX, mmap->n_devices);
	mmap->max_devices = n;
	return 0;
}

/* Why @call is impossible with @device and the present range, or 0. */
static int mmap_refuse_device(const struct weir_mmap *mmap,
		       const struct weir_device *device, const char *call)
{
	uint32_t cap = WEIR_DEVICE_CAP_MMAP;
	const char *what = "memory of this process";

	if (mmap->range == MMAP_DMABUF) {
		cap = WEIR_DEVICE_CAP_DMABUF;
		what = "dma-bufs";
	} else if (mmap->range == MMAP_DOMAIN) {
		cap = WEIR_DEVICE_CAP_DOMAIN;
		what = "memory of a domain of a user's";
	}
	if (mmap->range == MMAP_DM) {
		if (mmap->dm->device == device)
			return 0;
		return why(-EOPNOTSUPP, "%s: the range is memory of device %s, "
			   "which %s does not reach", call,
			   device_name(mmap->dm->device), device_name(device));
	}
	if (!mmap->has_range)
		cap = device->info.caps.caps &
		      (WEIR_DEVICE_CAP_MMAP | WEIR_DEVICE_CAP_DMABUF |
		       WEIR_DEVICE_CAP_DM | WEIR_DEVICE_CAP_DOMAIN);
	if (cap && device_can(device, cap))
		return 0;
	return why(-EOPNOTSUPP, "%s: device %s does not serve %s", call,
		   device_name(device), what);
}

int weir_mmap_add_device(struct weir_mmap *mmap, struct weir_device *device)
{
	int err = mmap_refuse_config(mmap, "weir_mmap_add_device");
	uint32_t max = weir_mmap_max_devices(mmap);
	struct mmap_device *md;

	if (!err)
		err = mmap_refuse_device(mmap, device, "weir_mmap_add_device");
	if (err)
		return err;
	if (*mmap_find_device(mmap, device))
		return why(-EEXIST, "weir_mmap_add_device: device %s is added "
			   "already", device_name(device));
	if (mmap->n_devices >= max)
		return why(-ENOSPC, "weir_mmap_add_device: %u devices are the "
			   "most; see weir_mmap_set_max_devices()", max);
	md = mem_calloc(1, sizeof(*md));
	if (!md)
		return why(-ENOMEM, "weir_mmap_add_device: no memory");
	device_use(device);
	md->device = device;
	md->next = mmap->devices;
	mmap->devices = md;
	mmap->n_devices++;
	return 0;
}

static void del(struct weir_mmap *mmap, struct mmap_device **p)
{
	struct mmap_device *md = *p;

	*p = md->next;
	debug_check(mmap->n_devices > 0);
	mmap->n_devices--;
	device_unuse(md->device);
	free(md);
}

int weir_mmap_rm_device(struct weir_mmap *mmap, struct weir_device *device)
{
	int err = mmap_refuse_config(mmap, "weir_mmap_rm_device");
	struct mmap_device **p = mmap_find_device(mmap, device);

	if (err)
		return err;
	if (!*p)
		return why(-ENOENT, "weir_mmap_rm_device: device %s was not "
			   "added", device_name(device));
	del(mmap, p);
	return 0;
}

uint32_t weir_mmap_num_devices(const struct weir_mmap *mmap)
{
	return mmap->n_devices;
}

/* The same check for all devices, at the start. */
static int mmap_check_devices(const struct weir_mmap *mmap)
{
	const struct mmap_device *md;
	int err = 0;

	for (md = mmap->devices; md && !err; md = md->next)
		err = mmap_refuse_device(mmap, md->device, "weir_mmap_start");
	return err;
}

bool mmap_atomics_are_apart(const struct weir_mmap *mmap)
{
	const uint32_t all = WEIR_DEVICE_CAP_ATOMIC_ALL;
	const struct mmap_device *md;

	if (!(mmap->permissions & WEIR_MMAP_RDMA_ATOMIC) || mmap->import)
		return false;
	for (md = mmap->devices; md; md = md->next)
		if (device_can(md->device, WEIR_DEVICE_CAP_ATOMIC) &&
		    !device_can(md->device, all))
			return true;
	return false;
}

void mmap_rm_devices(struct weir_mmap *mmap)
{
	while (mmap->devices)
		del(mmap, &mmap->devices);
}

/* The settings of an mmap, and its life. */

#define PEER (WEIR_MMAP_PEER_READ | WEIR_MMAP_PEER_WRITE)

/* Peers and importers may have only rights that the owner has. */
#define NEED_WRITE                                        \
	(WEIR_MMAP_PEER_WRITE | WEIR_MMAP_RDMA_WRITE |    \
	 WEIR_MMAP_RDMA_ATOMIC)

#define ALL_PERMISSIONS                                             \
	(WEIR_MMAP_READ | WEIR_MMAP_RDMA_READ | WEIR_MMAP_WRITE |   \
	 WEIR_MMAP_RELAXED_ORDERING | PEER | NEED_WRITE)

int weir_mmap_create(struct weir_mmap **ret, struct weir_domain *domain)
{
	struct weir_mmap *mmap;

	if (!domain)
		domain = weir_domain_system();
	if (!domain_is_memory(domain))
		return why(-EOPNOTSUPP, "weir_mmap_create: domain %s is not "
			   "memory of this process; name places in it by "
			   "address in a job", domain->id);
	mmap = mem_calloc(1, sizeof(*mmap));
	if (!mmap)
		return why(-ENOMEM, "weir_mmap_create: no memory");
	pthread_mutex_init(&mmap->lock, NULL);
	atomic_init(&mmap->state, WEIR_MMAP_STOPPED);
	mmap->permissions = WEIR_MMAP_READ;
	mmap->domain = domain;
	mmap->owner = getpid();
	mmap->fd = -1;
	domain_use(domain);
	*ret = mmap;
	return 0;
}

/* Why the setting @call is refused in this state, or 0; leaves a message. */
static int mmap_refuse_config(const struct weir_mmap *mmap, const char *call)
{
	if (mmap->import)
		return why(-EPERM, "%s: the mmap is imported; its exporter "
			   "decides", call);
	if (weir_mmap_state(mmap) == WEIR_MMAP_STOPPED)
		return 0;
	return why(-EBADFD, "%s: the mmap is started; stop it first", call);
}

static int check_permissions(uint32_t p)
{
	if (p & ~ALL_PERMISSIONS)
		return why(-EINVAL, "weir_mmap_set_permissions: unknown bits in "
			   "%x", p);
	if ((p & NEED_WRITE) && !(p & WEIR_MMAP_WRITE))
		return why(-EINVAL, "weir_mmap_set_permissions: others may not "
			   "write (%x) where we may not; add WEIR_MMAP_WRITE",
			   p & NEED_WRITE);
	if ((p & WEIR_MMAP_RELAXED_ORDERING) && (p & PEER))
		return why(-EINVAL, "weir_mmap_set_permissions: "
			   "WEIR_MMAP_RELAXED_ORDERING does not go with what "
			   "another process is allowed");
	return 0;
}

int weir_mmap_set_permissions(struct weir_mmap *mmap, uint32_t permissions)
{
	int err = mmap_refuse_config(mmap, "weir_mmap_set_permissions");

	if (err)
		return err;
	err = check_permissions(permissions);
	if (err)
		return err;
	mmap->permissions = permissions | WEIR_MMAP_READ;
	return 0;
}

int weir_mmap_set_free_cb(struct weir_mmap *mmap, weir_mmap_free_fn *fn,
			  void *arg)
{
	int err = mmap_refuse_config(mmap, "weir_mmap_set_free_cb");

	if (err)
		return err;
	mmap->free_fn = fn;
	mmap->free_arg = arg;
	return 0;
}

int weir_mmap_set_user_data(struct weir_mmap *mmap, void *data)
{
	int err = mmap_refuse_config(mmap, "weir_mmap_set_user_data");

	if (!err)
		mmap->user_data = data;
	return err;
}

void *weir_mmap_user_data(const struct weir_mmap *mmap)
{
	return mmap->user_data;
}

static int refuse_start(const struct weir_mmap *mmap)
{
	if (mmap->import)
		return why(-EPERM, "weir_mmap_start: an imported mmap is "
			   "started for good");
	if (weir_mmap_state(mmap) == WEIR_MMAP_STOPPING)
		return why(-EBUSY, "weir_mmap_start: a stop is in flight; wait "
			   "for its operation");
	if (!mmap->has_range)
		return why(-EINVAL, "weir_mmap_start: the mmap has no range; "
			   "see weir_mmap_set_memrange() and "
			   "weir_mmap_alloc()");
	if (mmap->readonly && (mmap->permissions & WEIR_MMAP_WRITE))
		return why(-EACCES, "weir_mmap_start: WEIR_MMAP_WRITE, but the "
			   "range can only be read");
	return mmap_check_devices(mmap);
}

int weir_mmap_start(struct weir_mmap *mmap)
{
	int err;

	err = refuse_start(mmap);
	if (err || mmap_is_started(mmap))
		return err;
	if (mmap->range == MMAP_MEM)
		err = vma_check(mmap->addr, mmap->len,
				mmap->permissions & WEIR_MMAP_WRITE,
				"weir_mmap_start");
	if (!err)
		err = dmabuf_begin(mmap);
	if (err)
		return err;
	err = segment_add(mmap);
	if (err) {
		dmabuf_end(mmap);
		return err;
	}
	mmap->was_started = true;
	atomic_store_explicit(&mmap->state, WEIR_MMAP_STARTED,
			      memory_order_release);
	segment_added(mmap);
	return 0;
}

int weir_mmap_state(const struct weir_mmap *mmap)
{
	return atomic_load_explicit(&mmap->state, memory_order_acquire);
}

int weir_mmap_memrange(const struct weir_mmap *mmap, void **addr, size_t *len)
{
	if (!mmap->has_range)
		return why_static(-ENOENT, "weir_mmap_memrange: it has no range "
				  "yet; see weir_mmap_set_memrange()");
	if (addr)
		*addr = mmap->addr;
	if (len)
		*len = mmap->len;
	return 0;
}

int weir_mmap_is_imported(const struct weir_mmap *mmap)
{
	return mmap->import != NULL;
}

struct weir_domain *weir_mmap_domain(const struct weir_mmap *mmap)
{
	return mmap->domain;
}

uint32_t weir_mmap_permissions(const struct weir_mmap *mmap)
{
	return mmap->permissions;
}

uint64_t weir_mmap_num_bufs(const struct weir_mmap *cmmap)
{
	struct weir_mmap *mmap = (struct weir_mmap *)cmmap;
	struct mmap_use *use;
	uint64_t n = 0;

	pthread_mutex_lock(&mmap->lock);
	for (use = mmap->uses; use; use = use->next)
		n += atomic_load_explicit(&use->n_bufs, memory_order_relaxed);
	pthread_mutex_unlock(&mmap->lock);
	return n;
}
