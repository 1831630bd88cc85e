/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Memory windows.  A window is its maker's, until it is abandoned, and lives on
 * the mmap's device; each may go first, on a thread of its own.  So one lock is
 * around all of them, inside the mmap's.
 */

#include "rdma/mmap-mw.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/why.h"
#include "rdma/device.h"
#include "mem/mmap-internal.h"

/* Where a window is. */
enum place {
	FREE, /* Its key opens nothing yet, or any more. */
	POSTED, /* A work request is about to change that. */
	BOUND,
	STALE, /* Gone from the device. */
};

struct mmap_mw {
	struct mmap_mw *next; /* Of the mmap's device, unless it is */
	struct mmap_mw **pprev; /* stale. */
	struct weir_device *device;
	enum place place;
	bool narrow; /* Else there is none, and the key is */
	struct ibv_mw *mw; /* that of the region. */
	struct device_mr own; /* A region for this part alone; */
	bool has_own; /* else it is the mmap's. */
	bool abandoned; /* Nobody has it but the mmap. */
	uint32_t rkey;
	struct ibv_mw_bind_info info;
};

static pthread_mutex_t mw_lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned int access_of(uint32_t permissions)
{
	return (permissions & WEIR_MMAP_RDMA_READ ? IBV_ACCESS_REMOTE_READ :
						    0u) |
	       (permissions & WEIR_MMAP_RDMA_WRITE ? IBV_ACCESS_REMOTE_WRITE :
						     0u) |
	       (permissions & WEIR_MMAP_RDMA_ATOMIC ? IBV_ACCESS_REMOTE_ATOMIC :
						      0u);
}

static bool has_mws(const struct weir_mmap *mmap,
		    const struct weir_device *device)
{
	return device_can(device, WEIR_DEVICE_CAP_MW) && mmap->cpu &&
	       mmap->range != MMAP_DMABUF;
}

static int check_opts(const struct weir_mmap *mmap,
		      const struct weir_device *device,
		      const struct mmap_mw_opts *opts, const char *call)
{
	uint32_t has = mmap->permissions & MMAP_RDMA;

	if (opts->narrow && !has_mws(mmap, device))
		return why(-EOPNOTSUPP,
			   "%s: device %s has no memory windows, "
			   "or none over memory of this kind",
			   call, device_name(device));
	if (!opts->permissions || opts->permissions & ~has)
		return why(-EACCES,
			   "%s: a window with permissions %#x, and "
			   "the mmap has %#x",
			   call, opts->permissions, has);
	if (!opts->len || opts->off >= mmap->len ||
	    opts->len > mmap->len - opts->off)
		return why(-ERANGE,
			   "%s: a window that is not within the %zu "
			   "bytes of the mmap",
			   call, mmap->len);
	return 0;
}

static int check_mmap(struct weir_mmap *mmap, struct weir_device *device,
		      const char *call)
{
	if (mmap_may_take(mmap))
		return why(-EBADFD, "%s: the mmap is not started", call);
	if (!*mmap_find_device(mmap, device))
		return why(-ENOENT,
			   "%s: device %s is none of the mmap's; see "
			   "weir_mmap_add_device()",
			   call, device_name(device));
	return 0;
}

/* Without a window its rights are the region's; else the region has none. */
static int register_own(struct mmap_mw *w, const struct weir_mmap *mmap,
			const struct mmap_mw_opts *opts)
{
	struct device_range range = mmap_range_of_part(
		mmap, opts->off, opts->len, opts->permissions);
	int err;

	range.windows = w->narrow;
	if (w->narrow)
		range.permissions &= ~MMAP_RDMA;
	err = w->device->info.cls->mr_register(w->device, &range, &w->own);
	w->has_own = !err;
	if (err || w->narrow)
		return err;
	w->info.addr = device_range_address(&range);
	w->rkey = w->own.rkey;
	w->place = BOUND;
	return 0;
}

static struct ibv_mw *alloc_mw(const struct weir_device *device)
{
	errno = 0;
	if (fault("ibv_alloc_mw")) {
		errno = ENOMEM;
		return NULL;
	}
	return ibv_alloc_mw(device_verbs_of(device)->pd, IBV_MW_TYPE_2);
}

static int make_mw(struct mmap_mw *w, const char *call)
{
	int err;

	w->mw = alloc_mw(w->device);
	if (w->mw)
		return 0;
	err = errno > 0 ? errno : EIO;
	return why(-err, "%s: %s makes no memory window: %s", call,
		   device_name(w->device), strerror(err));
}

static void link_to(struct mmap_mw *w, struct mmap_device *md)
{
	pthread_mutex_lock(&mw_lock);
	w->next = md->windows;
	w->pprev = &md->windows;
	if (w->next)
		w->next->pprev = &w->next;
	md->windows = w;
	pthread_mutex_unlock(&mw_lock);
}

/* Under the mmap's lock.  All of the mmap is one region already. */
static int make(struct mmap_mw *w, struct weir_mmap *mmap,
		const struct mmap_mw_opts *opts, const char *call)
{
	struct mmap_device *md;
	int err = check_mmap(mmap, w->device, call);

	if (err)
		return err;
	md = *mmap_find_device(mmap, w->device);
	if (w->narrow && opts->len == mmap->len && md->registered)
		w->info.mr = md->mr.priv;
	else
		err = register_own(w, mmap, opts);
	if (err)
		return err;
	if (w->has_own)
		w->info.mr = w->own.priv;
	link_to(w, md);
	return w->narrow ? make_mw(w, call) : 0;
}

/* What failed first is told, and not what failed on the way back. */
static int back_out(struct mmap_mw *w, int err)
{
	char first[512];

	snprintf(first, sizeof(first), "%s", weir_why());
	mmap_mw_abandon(w);
	return why(err, "%s", first);
}

int mmap_mw_create(struct mmap_mw **ret, struct weir_mmap *mmap,
		   struct weir_device *device, const struct mmap_mw_opts *opts,
		   const char *call)
{
	struct mmap_mw *w;
	int err = check_mmap(mmap, device, call);

	if (!err)
		err = check_opts(mmap, device, opts, call);
	if (!err && opts->len == mmap->len && has_mws(mmap, device))
		err = weir_mmap_keys(mmap, device, NULL, NULL);
	if (err)
		return err;
	w = mem_calloc(1, sizeof(*w));
	if (!w)
		return why(-ENOMEM, "%s: no memory", call);
	w->device = device;
	w->narrow = has_mws(mmap, device);
	w->info.addr = (uintptr_t)mmap->addr + opts->off;
	w->info.length = opts->len;
	w->info.mw_access_flags = access_of(opts->permissions);
	pthread_mutex_lock(&mmap->lock);
	err = make(w, mmap, opts, call);
	pthread_mutex_unlock(&mmap->lock);
	if (!err)
		*ret = w;
	else if (w->pprev)
		return back_out(w, err);
	else
		free(w);
	return err;
}

bool mmap_mw_is_narrow(const struct mmap_mw *w)
{
	return w->narrow;
}

/* Under the lock: why no work request can take it from @from, or 0. */
static int refuse(const struct mmap_mw *w, enum place from)
{
	if (w->place == STALE || !w->mw)
		return why(-ESTALE, "a memory window's mmap was stopped");
	if (w->place == from)
		return 0;
	return w->place == FREE ?
		       why(-ENOKEY, "a memory window is not bound") :
		       why(-EBUSY,
			   "a memory window is bound already, or is about to "
			   "be");
}

/* The provider still needs the old key to find it. */
int mmap_mw_bind(struct mmap_mw *w, struct ibv_send_wr *wr)
{
	int err;

	pthread_mutex_lock(&mw_lock);
	err = refuse(w, FREE);
	if (!err) {
		w->place = POSTED;
		w->rkey = ibv_inc_rkey(w->mw->rkey);
		wr->opcode = IBV_WR_BIND_MW;
		wr->bind_mw.mw = w->mw;
		wr->bind_mw.rkey = w->rkey;
		wr->bind_mw.bind_info = w->info;
	}
	pthread_mutex_unlock(&mw_lock);
	return err;
}

int mmap_mw_invalidate(struct mmap_mw *w, struct ibv_send_wr *wr)
{
	int err;

	pthread_mutex_lock(&mw_lock);
	err = refuse(w, BOUND);
	if (!err) {
		w->place = POSTED;
		wr->opcode = IBV_WR_LOCAL_INV;
		wr->invalidate_rkey = w->rkey;
	}
	pthread_mutex_unlock(&mw_lock);
	return err;
}

void mmap_mw_done(struct mmap_mw *w, bool bound)
{
	pthread_mutex_lock(&mw_lock);
	if (w->place == POSTED)
		w->place = bound ? BOUND : FREE;
	if (w->mw && bound)
		w->mw->rkey = w->rkey;
	pthread_mutex_unlock(&mw_lock);
}

int mmap_mw_key(const struct mmap_mw *w, uint64_t *addr, uint32_t *rkey)
{
	int err = 0;

	pthread_mutex_lock(&mw_lock);
	if (w->place == STALE)
		err = -ESTALE;
	else if (w->place != BOUND)
		err = -ENOKEY;
	if (!err) {
		*addr = w->info.addr;
		*rkey = w->rkey;
	}
	pthread_mutex_unlock(&mw_lock);
	return err;
}

static int free_mw(struct mmap_mw *w)
{
	int err = fault("ibv_dealloc_mw") ? EBUSY : ibv_dealloc_mw(w->mw);

	if (err)
		return why(-err, "a memory window cannot be freed: %s",
			   strerror(err));
	w->mw = NULL;
	w->place = FREE;
	return 0;
}

/* Under the lock: off its device, which may keep it. */
static int drop(struct mmap_mw *w)
{
	int err = w->mw ? free_mw(w) : 0;

	if (!err && w->has_own) {
		err = w->device->info.cls->mr_deregister(w->device, &w->own);
		w->has_own = err;
	}
	if (err || w->place == STALE)
		return err;
	*w->pprev = w->next;
	if (w->next)
		w->next->pprev = w->pprev;
	w->place = STALE;
	return 0;
}

int mmap_mw_drop(struct mmap_mw *w)
{
	int err;

	pthread_mutex_lock(&mw_lock);
	err = drop(w);
	pthread_mutex_unlock(&mw_lock);
	return err;
}

int mmap_mw_destroy(struct mmap_mw *w)
{
	int err = w ? mmap_mw_drop(w) : 0;

	if (!err)
		free(w);
	return err;
}

void mmap_mw_abandon(struct mmap_mw *w)
{
	int err;

	pthread_mutex_lock(&mw_lock);
	if (w->place == POSTED)
		w->place = FREE;
	err = drop(w);
	w->abandoned = err;
	pthread_mutex_unlock(&mw_lock);
	if (!err)
		free(w);
}

/* All or none, as far as we know. */
static int refuse_drop(const struct mmap_device *md)
{
	const struct mmap_mw *w;

	for (w = md->windows; w; w = w->next)
		if (w->place == POSTED)
			return why(-EBUSY,
				   "a work request that binds or "
				   "invalidates a memory window of the mmap "
				   "is in flight");
	return 0;
}

int mmap_mws_drop(struct mmap_device *md)
{
	struct mmap_mw *w;
	int err;

	pthread_mutex_lock(&mw_lock);
	err = refuse_drop(md);
	while (!err && (w = md->windows)) {
		err = drop(w);
		if (!err && w->abandoned)
			free(w);
	}
	pthread_mutex_unlock(&mw_lock);
	return err;
}
