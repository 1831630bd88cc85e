/* SPDX-License-Identifier: BSD-3-Clause */
/* Mmaps: their settings and their life. */

#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/why.h"
#include "mem/domain-internal.h"
#include "mem/export/internal.h"
#include "mem/mmap-internal.h"
#include "mem/segment/internal.h"
#include "mem/vma.h"

#define PEER (WEIR_MMAP_PEER_READ | WEIR_MMAP_PEER_WRITE)

/* What RDMA and importers may do only where the owner may, too. */
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
	mmap->fd = -1;
	domain_use(domain);
	*ret = mmap;
	return 0;
}

int mmap_refuse_config(const struct weir_mmap *mmap, const char *call)
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
		return -ENOENT;
	if (addr)
		*addr = mmap->addr;
	if (len)
		*len = mmap->len;
	return 0;
}

int weir_mmap_is_exported(const struct weir_mmap *mmap)
{
	return mmap->export != NULL;
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

