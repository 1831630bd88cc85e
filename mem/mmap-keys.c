/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Registration of an mmap with its devices: once for each device, when keys are
 * first requested, and once for each part that peers get.  It lasts until the
 * stop.  The start has checked that each device serves this kind of range.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/why.h"
#include "mem/device-internal.h"
#include "mem/mmap-internal.h"
#include "reactor/reactor-internal.h"

static struct device_range range_of(const struct weir_mmap *mmap)
{
	struct device_range range = {
		.kind = DEVICE_RANGE_MEM,
		.permissions = mmap->permissions,
		.addr = mmap->addr,
		.len = mmap->len,
		.fd = -1,
	};

	if (mmap->range == MMAP_DM) {
		range.kind = DEVICE_RANGE_DM;
		range.dm = mmap->dm;
		range.off = mmap->dm_off;
	} else if (mmap->range == MMAP_DOMAIN) {
		range.kind = DEVICE_RANGE_DOMAIN;
		range.domain = mmap->domain;
	} else if (mmap->range == MMAP_DMABUF) {
		range.kind = DEVICE_RANGE_DMABUF;
		range.fd = mmap->fd;
		range.off = mmap->fd_off;
	}
	return range;
}

static int refuse_state(const struct weir_mmap *mmap)
{
	int err = mmap_may_take(mmap);

	if (err == -ESTALE)
		return why(err, "weir_mmap_keys: its exporter has revoked it");
	if (err)
		return why(err, "weir_mmap_keys: the mmap is not started");
	return 0;
}

/* Under the lock.  Sets *@ret to the entry of the device. */
static int ensure(struct weir_mmap *mmap, struct weir_device *device,
		  struct mmap_device **ret)
{
	struct mmap_device *md = *mmap_find_device(mmap, device);
	struct device_range range;
	int err = refuse_state(mmap);

	if (err)
		return err;
	if (!md)
		return why(-ENOENT, "weir_mmap_keys: device %s is none of the "
			   "mmap's; see weir_mmap_add_device()",
			   device_name(device));
	*ret = md;
	if (md->registered)
		return 0;
	if (!device->info.cls->mr_register)
		return why(-EOPNOTSUPP, "weir_mmap_keys: device %s registers "
			   "no memory", device_name(device));
	range = range_of(mmap);
	/* For peers there are parts. */
	range.permissions &= ~(WEIR_MMAP_PEER_READ | WEIR_MMAP_PEER_WRITE);
	range.windows = range.kind == DEVICE_RANGE_MEM &&
			mmap->permissions & MMAP_RDMA &&
			device_can(device, WEIR_DEVICE_CAP_MW);
	err = device->info.cls->mr_register(device, &range, &md->mr);
	md->registered = !err;
	return err;
}

/* All of it, with its own permissions; with @given a peer gets the remote key. */
static int whole_mr(struct weir_mmap *mmap, struct weir_device *device,
		    struct device_mr *ret, bool given)
{
	struct mmap_device *md = NULL;
	int err;

	pthread_mutex_lock(&mmap->lock);
	err = ensure(mmap, device, &md);
	if (!err) {
		*ret = md->mr;
		md->given |= given;
	}
	pthread_mutex_unlock(&mmap->lock);
	return err;
}

int mmap_use_ask_key(struct mmap_use *use, struct weir_device *device)
{
	struct device_mr mr;
	int err;

	/* Read this before the key: if keys are taken back meanwhile, the next
	 * call asks again. */
	use->keys_taken = atomic_load(&use->mmap->keys_taken);
	err = whole_mr(use->mmap, device, &mr, false);
	if (!err) {
		use->lkey = mr.lkey;
		use->key_data = mr.priv;
	}

	/* A failure for lack of resources may succeed the next time. */
	use->key_device = !err || err == -ENOENT ? device : NULL;
	use->key_err = err;
	return err;
}

int weir_mmap_keys(struct weir_mmap *mmap, struct weir_device *device,
		   uint32_t *lkey, uint32_t *rkey)
{
	struct device_mr mr;
	int err = whole_mr(mmap, device, &mr, rkey != NULL);

	if (!err && lkey)
		*lkey = mr.lkey;
	if (!err && rkey)
		*rkey = mr.rkey;
	return err;
}

/* Parts, for peers. */

struct device_range mmap_range_of_part(const struct weir_mmap *mmap,
				       uint64_t off, uint64_t len,
				       uint32_t permissions)
{
	struct device_range range = range_of(mmap);

	range.permissions = permissions |
			    (mmap->permissions & WEIR_MMAP_RELAXED_ORDERING);
	if (permissions & (WEIR_MMAP_PEER_WRITE | WEIR_MMAP_RDMA_WRITE |
			   WEIR_MMAP_RDMA_ATOMIC))
		range.permissions |= WEIR_MMAP_WRITE;
	range.len = (size_t)len;
	range.off += off;
	if (range.addr)
		range.addr = (char *)range.addr + off;
	return range;
}

/* Under the lock. */
static int ensure_part(struct mmap_part **ret, const struct weir_mmap *mmap,
		       struct mmap_device *md, uint64_t off, uint64_t len,
		       uint32_t permissions, const void *owner,
		       const char *call)
{
	struct device_range range;
	struct mmap_part *part;
	int err;

	for (part = md->parts; part; part = part->next)
		if (part->off == off && part->len == len &&
		    part->permissions == permissions && part->owner == owner &&
		    !part->is_ending)
			break;
	*ret = part;
	if (part)
		return 0;
	part = mem_calloc(1, sizeof(*part));
	if (!part)
		return why(-ENOMEM, "%s: no memory", call);
	range = mmap_range_of_part(mmap, off, len, permissions);
	err = md->device->info.cls->mr_register(md->device, &range, &part->mr);
	if (err) {
		free(part);
		return err;
	}
	part->off = off;
	part->len = len;
	part->permissions = permissions;
	part->owner = owner;
	part->next = md->parts;
	md->parts = part;
	*ret = part;
	return 0;
}

int mmap_mr(struct weir_mmap *mmap, struct weir_device *device, uint64_t off,
	    uint64_t len, uint32_t peers, const void *owner,
	    struct device_mr *ret, const char *call)
{
	struct mmap_part *part = NULL;
	int err;

	if (!peers)
		return whole_mr(mmap, device, ret, false);
	if (!off && len == mmap->len &&
	    peers == (mmap->permissions & MMAP_RDMA)) {
		debug_check(!owner);
		return whole_mr(mmap, device, ret, true);
	}
	pthread_mutex_lock(&mmap->lock);
	err = ensure_part(&part, mmap, *mmap_find_device(mmap, device), off,
			  len, peers, owner, call);
	if (!err)
		*ret = part->mr;
	pthread_mutex_unlock(&mmap->lock);
	return err;
}

/* Unless the registration is that of a parent process. */
static int deregister(const struct weir_mmap *mmap, struct weir_device *device,
		      struct device_mr *mr)
{
	return mmap_is_inherited(mmap) ? 0 :
	       device->info.cls->mr_deregister(device, mr);
}

/* Ends the part at @p, or else sets *@p to the one behind it: its device keeps it. */
static int end_part(const struct weir_mmap *mmap, struct mmap_device *md,
		    struct mmap_part ***p)
{
	struct mmap_part *part = **p;
	int err = deregister(mmap, md->device, &part->mr);

	if (err) {
		part->is_ending |= err == -EINPROGRESS;
		*p = &part->next;
	} else {
		**p = part->next;
		free(part);
	}
	return err;
}

/* The place of what @owner alone has, or NULL. */
static struct mmap_part **part_of(struct mmap_device *md, const void *owner)
{
	struct mmap_part **p = md ? &md->parts : NULL;

	while (p && *p && (*p)->owner != owner)
		p = &(*p)->next;
	return p && *p ? p : NULL;
}

int mmap_mr_end(struct weir_mmap *mmap, struct weir_device *device,
		const void *owner)
{
	struct mmap_device *md;
	struct mmap_part **p;
	int err = 0;

	pthread_mutex_lock(&mmap->lock);
	md = *mmap_find_device(mmap, device);
	p = part_of(md, owner);
	if (p)
		err = end_part(mmap, md, &p);
	pthread_mutex_unlock(&mmap->lock);
	return err;
}

bool mmap_mr_is_ending(struct weir_mmap *mmap, struct weir_device *device,
		       const void *owner)
{
	struct mmap_part **p = part_of(*mmap_find_device(mmap, device), owner);

	return p && (*p)->is_ending;
}

static int unbind(const struct weir_mmap *mmap, struct mmap_device *md)
{
	if (!md->slot)
		return 0;
	if (mmap_is_inherited(mmap))
		return why(-EBUSY, "weir_mmap_stop: a forked child cannot take "
			   "back what its parent has bound");
	return md->device->info.cls->unbind(md->device, &md->slot);
}

/* What peers still use stays, and is ending. */
static int drop_parts(const struct weir_mmap *mmap, struct mmap_device *md)
{
	struct mmap_part **p = &md->parts;
	int err = 0;

	while (*p && (!err || err == -EINPROGRESS))
		err = end_part(mmap, md, &p);
	return err == -EINPROGRESS ? 0 : err;
}

int mmap_keys_ask_again(struct weir_mmap *mmap, char *names, size_t len)
{
	struct mmap_device *md;
	struct mmap_part **p;
	int ret = 0, err;

	debug_check(mutex_is_held(&mmap->lock));
	for (md = mmap->devices; md; md = md->next)
		for (p = &md->parts; *p;) {
			if (!(*p)->is_ending) {
				p = &(*p)->next;
				continue;
			}
			err = end_part(mmap, md, &p);
			if (err && err != -EINPROGRESS)
				return err;
			if (err && names)
				snprintf(names, len, "%s", weir_why());
			ret = err ? err : ret;
		}
	return ret;
}

static int drop_device(struct weir_mmap *mmap, struct mmap_device *md)
{
	int err = unbind(mmap, md);

	if (!err)
		err = drop_parts(mmap, md);
	if (err || !md->registered)
		return err;
	atomic_fetch_add(&mmap->keys_taken, 1);
	err = deregister(mmap, md->device, &md->mr);
	if (!err)
		md->registered = md->given = false;
	return err;
}

/* Free memory windows first; otherwise the device keeps the memory that they
 * are bound to: A1.15, B2.4. */
int mmap_keys_drop(struct weir_mmap *mmap, bool parts_only)
{
	struct mmap_device *md;
	int err = 0;

	debug_check(mutex_is_held(&mmap->lock));
	for (md = mmap->devices; md && !err; md = md->next)
		err = parts_only ? drop_parts(mmap, md) :
				   drop_device(mmap, md);
	return err;
}

/* Whether jobs of this process may have taken a key, or may be taking one. */
static bool may_be_used(const struct weir_mmap *mmap)
{
	const struct mmap_use *use;

	debug_check(mutex_is_held(&mmap->lock));
	for (use = mmap->uses; use; use = use->next)
		if (!reactor_is_here(use->r) || atomic_load(&use->n_bufs))
			return true;
	return false;
}

/* Check all devices before the first key is taken back. */
static int refuse_revoke(const struct weir_mmap *mmap, const char *call)
{
	const struct mmap_device *md = mmap->devices;

	while (md && !md->given)
		md = md->next;
	if (md && may_be_used(mmap))
		return why(-EBUSY, "%s: peers have the key of all of the mmap "
			   "on device %s, and bufs of it are out, or another "
			   "thread has it attached; to revoke while it is in "
			   "use, export parts of it or memory windows", call,
			   device_name(md->device));
	return 0;
}

static int revoke_device(struct weir_mmap *mmap, struct mmap_device *md)
{
	int err;

	err = unbind(mmap, md);
	if (!err)
		err = drop_parts(mmap, md);
	if (err || !md->given)
		return err;
	atomic_fetch_add(&mmap->keys_taken, 1);
	err = deregister(mmap, md->device, &md->mr);
	md->registered = err;
	md->given = err;
	return err;
}

int mmap_keys_revoke(struct weir_mmap *mmap, const char *call)
{
	struct mmap_device *md;
	int err;

	pthread_mutex_lock(&mmap->lock);
	err = refuse_revoke(mmap, call);
	for (md = mmap->devices; md && !err; md = md->next)
		err = revoke_device(mmap, md);
	pthread_mutex_unlock(&mmap->lock);
	return err;
}
