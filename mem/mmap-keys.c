/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/*
 * Registration of an mmap with its devices: when somebody first wants the keys,
 * once for each device, until the stop.  That they serve this kind of range was
 * found out by the start.
 */

#include <errno.h>

#include "base/why.h"
#include "mem/device-internal.h"
#include "mem/mmap-internal.h"

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

/* Under the lock.  Sets *@ret to the device's entry. */
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
	err = device->info.cls->mr_register(device, &range, &md->mr);
	md->registered = !err;
	return err;
}

int weir_mmap_keys(struct weir_mmap *mmap, struct weir_device *device,
		   uint32_t *lkey, uint32_t *rkey)
{
	struct mmap_device *md = NULL;
	int err;

	pthread_mutex_lock(&mmap->lock);
	err = ensure(mmap, device, &md);
	if (!err && lkey)
		*lkey = md->mr.lkey;
	if (!err && rkey)
		*rkey = md->mr.rkey;
	pthread_mutex_unlock(&mmap->lock);
	return err;
}

/* A memory window may be bound to it: A1.15, B2.4. */
int mmap_keys_drop(struct weir_mmap *mmap)
{
	struct mmap_device *md;
	int err;

	for (md = mmap->devices; md; md = md->next) {
		if (!md->registered)
			continue;
		err = md->device->info.cls->mr_deregister(md->device, &md->mr);
		if (err)
			return err;
		md->registered = false;
	}
	return 0;
}
