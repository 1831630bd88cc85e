/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/*
 * Memory windows.  A window is its maker's and lives on the mmap's device; each
 * may go first, on a thread of its own.  So one lock is around all of them,
 * inside the mmap's.
 */

#include "mem/mmap-window.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/why.h"
#include "mem/device-verbs.h"
#include "mem/mmap-internal.h"

struct mmap_window {
	struct mmap_window *next;	/* Of the mmap's device, */
	struct mmap_window **pprev;	/* unless it was stopped: NULL. */
	struct ibv_mw *mw;		/* Then NULL, too. */
	struct ibv_mw_bind_info info;
	bool bound;
};

static pthread_mutex_t windows_lock = PTHREAD_MUTEX_INITIALIZER;

static unsigned int access_of(uint32_t permissions)
{
	return (permissions & WEIR_MMAP_RDMA_READ ?
		IBV_ACCESS_REMOTE_READ : 0u) |
	       (permissions & WEIR_MMAP_RDMA_WRITE ?
		IBV_ACCESS_REMOTE_WRITE : 0u) |
	       (permissions & WEIR_MMAP_RDMA_ATOMIC ?
		IBV_ACCESS_REMOTE_ATOMIC : 0u);
}

static int check_opts(const struct weir_mmap *mmap,
		      const struct weir_device *device,
		      const struct mmap_window_opts *opts, const char *call)
{
	uint32_t has = mmap->permissions & MMAP_RDMA;

	if (!device_can(device, WEIR_DEVICE_CAP_WINDOW) || !mmap->cpu ||
	    mmap->range == MMAP_DMABUF)
		return why(-EOPNOTSUPP, "%s: device %s has no memory windows, "
			   "or none over memory of this kind", call,
			   device_name(device));
	if (!opts->permissions || opts->permissions & ~has)
		return why(-EACCES, "%s: a window with permissions %#x, and "
			   "the mmap has %#x", call, opts->permissions, has);
	if (!opts->len || opts->off >= mmap->len ||
	    opts->len > mmap->len - opts->off)
		return why(-ERANGE, "%s: a window that is not within the %zu "
			   "bytes of the mmap", call, mmap->len);
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

static void link_to(struct mmap_window *w, struct mmap_device *md)
{
	pthread_mutex_lock(&windows_lock);
	w->next = md->windows;
	w->pprev = &md->windows;
	if (w->next)
		w->next->pprev = &w->next;
	md->windows = w;
	pthread_mutex_unlock(&windows_lock);
}

/* Under the mmap's lock.  It may have been stopped since it had keys. */
static int add(struct mmap_window *w, struct weir_mmap *mmap,
	       struct weir_device *device, const char *call)
{
	struct mmap_device *md = *mmap_find_device(mmap, device);
	int err;

	if (!md || !md->registered)
		return why(-EBADFD, "%s: the mmap is not started", call);
	w->mw = alloc_mw(device);
	if (!w->mw) {
		err = errno > 0 ? errno : EIO;
		return why(-err, "%s: %s makes no memory window: %s", call,
			   device_name(device), strerror(err));
	}
	w->info.mr = md->mr.priv;
	link_to(w, md);
	return 0;
}

int mmap_window_create(struct mmap_window **ret, struct weir_mmap *mmap,
		       struct weir_device *device,
		       const struct mmap_window_opts *opts, const char *call)
{
	struct mmap_window *w;
	int err = weir_mmap_keys(mmap, device, NULL, NULL);

	if (!err)
		err = check_opts(mmap, device, opts, call);
	if (err)
		return err;
	w = mem_calloc(1, sizeof(*w));
	if (!w)
		return why(-ENOMEM, "%s: no memory", call);
	w->info.addr = (uintptr_t)mmap->addr + opts->off;
	w->info.length = opts->len;
	w->info.mw_access_flags = access_of(opts->permissions);
	pthread_mutex_lock(&mmap->lock);
	err = add(w, mmap, device, call);
	pthread_mutex_unlock(&mmap->lock);
	if (err)
		free(w);
	else
		*ret = w;
	return err;
}

/* The provider reads the window while it is posted. */
static int bind_locked(struct mmap_window *w, struct ibv_send_wr *wr,
		       mmap_window_post_fn *post, void *arg)
{
	int err;

	if (!w->mw)
		return why(-ESTALE, "a memory window's mmap was stopped");
	if (w->bound)
		return why(-EBUSY, "a memory window is bound already");
	wr->opcode = IBV_WR_BIND_MW;
	wr->bind_mw.mw = w->mw;
	wr->bind_mw.rkey = ibv_inc_rkey(w->mw->rkey);
	wr->bind_mw.bind_info = w->info;
	err = post(wr, arg);
	if (err)
		return err;
	w->mw->rkey = wr->bind_mw.rkey;
	w->bound = true;
	return 0;
}

int mmap_window_bind(struct mmap_window *w, struct ibv_send_wr *wr,
		     mmap_window_post_fn *post, void *arg)
{
	int err;

	pthread_mutex_lock(&windows_lock);
	err = bind_locked(w, wr, post, arg);
	pthread_mutex_unlock(&windows_lock);
	return err;
}

void mmap_window_unbound(struct mmap_window *w)
{
	pthread_mutex_lock(&windows_lock);
	w->bound = false;
	pthread_mutex_unlock(&windows_lock);
}

int mmap_window_key(const struct mmap_window *w, uint64_t *addr, uint32_t *rkey)
{
	int err = 0;

	pthread_mutex_lock(&windows_lock);
	if (!w->mw)
		err = -ESTALE;
	else if (!w->bound)
		err = -ENOKEY;
	if (!err) {
		*addr = w->info.addr;
		*rkey = w->mw->rkey;
	}
	pthread_mutex_unlock(&windows_lock);
	return err;
}

/* Under the lock: off its device, which may keep it. */
static int drop(struct mmap_window *w)
{
	int err;

	if (!w->mw)
		return 0;
	err = fault("ibv_dealloc_mw") ? EBUSY : ibv_dealloc_mw(w->mw);
	if (err)
		return why(-err, "a memory window cannot be freed: %s",
			   strerror(err));
	*w->pprev = w->next;
	if (w->next)
		w->next->pprev = w->pprev;
	w->pprev = NULL;
	w->mw = NULL;
	w->bound = false;
	return 0;
}

int mmap_window_destroy(struct mmap_window *w)
{
	int err;

	if (!w)
		return 0;
	pthread_mutex_lock(&windows_lock);
	err = drop(w);
	pthread_mutex_unlock(&windows_lock);
	if (!err)
		free(w);
	return err;
}

int mmap_windows_drop(struct mmap_device *md)
{
	int err = 0;

	pthread_mutex_lock(&windows_lock);
	while (!err && md->windows)
		err = drop(md->windows);
	pthread_mutex_unlock(&windows_lock);
	return err;
}
