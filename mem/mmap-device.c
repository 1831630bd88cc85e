/* SPDX-License-Identifier: BSD-3-Clause */
/* The devices of an mmap: which they are.  mmap-keys.c has their keys. */

#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/why.h"
#include "mem/dm-internal.h"
#include "mem/mmap-internal.h"

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

int mmap_refuse_device(const struct weir_mmap *mmap,
		       const struct weir_device *device, const char *call)
{
	uint32_t cap = mmap->range == MMAP_DMABUF ? WEIR_DEVICE_CAP_DMABUF :
						    WEIR_DEVICE_CAP_MMAP;

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
		       WEIR_DEVICE_CAP_DM);
	if (cap && device_can(device, cap))
		return 0;
	return why(-EOPNOTSUPP, "%s: device %s does not serve %s", call,
		   device_name(device), mmap->range == MMAP_DMABUF ?
		   "dma-bufs" : "memory of this process");
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

int mmap_check_devices(const struct weir_mmap *mmap)
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
