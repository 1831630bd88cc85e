/* SPDX-License-Identifier: BSD-3-Clause */
/* Imports by devices of providers; see device.c. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "base/why.h"
#include "mem/domain-internal.h"
#include "mem/export/internal.h"

#define IMPORT "weir_mmap_import_device"
#define RIGHTS (WEIR_MMAP_READ | WEIR_MMAP_WRITE)

static int check_opts(const struct weir_import_opts *opts)
{
	if (opts->flags || opts->peer)
		return why(-EINVAL, IMPORT ": .flags and .peer have no meaning "
			   "for devices");
	if (opts->permissions & ~RIGHTS)
		return why(-EINVAL, IMPORT ": .permissions are WEIR_MMAP_READ "
			   "and WEIR_MMAP_WRITE, not %#x", opts->permissions);
	return export_check_key(opts->key, opts->key_len, IMPORT);
}

static int check_device(const struct weir_device *device,
			const struct descriptor *d)
{
	const struct device_class *cls = device->info.cls;

	if (d->kind != DESCRIPTOR_DEVICE)
		return why(-EOPNOTSUPP, IMPORT ": the export is not by a "
			   "device; see weir_mmap_import()");
	if (!cls->owner || strcmp(cls->owner->name, d->provider))
		return why(-EOPNOTSUPP, IMPORT ": the export is by a device of "
			   "provider %s, which %s is not", d->provider,
			   device_name(device));
	if (!device_can(device, WEIR_DEVICE_CAP_IMPORT) || !cls->import)
		return why(-EOPNOTSUPP, IMPORT ": device %s does not import "
			   "memory", device_name(device));
	return 0;
}

static int decide_rights(uint32_t *ret, const struct descriptor *d,
			 const struct weir_import_opts *opts)
{
	uint32_t given = WEIR_MMAP_READ;

	if (d->permissions & DESCRIPTOR_WRITE)
		given |= WEIR_MMAP_WRITE;
	if (opts->permissions & ~given)
		return why(-EACCES, IMPORT ": .permissions want to write, and "
			   "the export is for reading");
	*ret = opts->permissions ? opts->permissions | WEIR_MMAP_READ : given;
	return 0;
}

/* Called by destroy. */
static void release(struct weir_mmap *mmap)
{
	struct import *im = import_of(mmap);
	struct weir_device *device = im->device;

	/* .import_end() may destroy the domain. */
	mmap_set_domain(mmap, weir_domain_system());
	if (device->info.cls->import_end)
		device->info.cls->import_end(device, &im->reached);
	device_unuse(device);
	import_free(im);
}

bool mmap_import_key(const struct weir_mmap *mmap,
		     const struct weir_device *dev, struct device_mr *ret)
{
	const struct import *im = import_of(mmap);

	if (im->base.remote) {
		ret->priv = (void *)(uintptr_t)im->base.remote;
		return dev->info.caps.kind == WEIR_DEVICE_RDMA;
	}
	if (!im->device || im->device != dev)
		return false;
	ret->priv = im->reached.data;
	return true;
}

/* The device tells of a revocation: weir_provider_revoked(). */
static const _Atomic uint64_t for_ever = 1;

static void become_import(struct weir_mmap *mmap, struct import *im,
			  uint32_t permissions,
			  const struct weir_import_opts *opts)
{
	mmap_set_domain(mmap, im->reached.domain);
	mmap->addr = (char *)(uintptr_t)im->reached.addr;
	mmap->cpu = domain_is_memory(mmap->domain);
	mmap->permissions = permissions;
	mmap->readonly = !(permissions & WEIR_MMAP_WRITE);
	mmap->user_data = opts->user_data;
	mmap->range = MMAP_IMPORT;
	mmap->has_range = true;
	mmap->import = &im->base;
	mmap->release = release;
	mmap->was_started = true;
	device_use(im->device);
	atomic_store_explicit(&mmap->state, WEIR_MMAP_STARTED,
			      memory_order_release);
}

/* Let the device reach it. */
static int reach(struct import *im, const struct descriptor *d)
{
	const struct device_class *cls = im->device->info.cls;
	struct device_desc desc = {
		.addr = d->addr,
		.len = d->len,
		.permissions = WEIR_MMAP_PEER_READ,
		.n_bytes = d->n_bytes,
	};
	int err;

	if (d->permissions & DESCRIPTOR_WRITE)
		desc.permissions |= WEIR_MMAP_PEER_WRITE;
	memcpy(desc.bytes, d->bytes, d->n_bytes);
	im->reached.addr = d->addr;
	err = cls->import(im->device, &desc, &im->reached);
	if (err)
		return err;
	if (im->reached.domain && domain_has(im->reached.domain,
					     im->reached.addr, d->len) &&
	    (im->reached.addr || !domain_is_memory(im->reached.domain)))
		return 0;
	if (cls->import_end)
		cls->import_end(im->device, &im->reached);
	return why(-EIO, IMPORT ": device %s gave no domain that has the range",
		   device_name(im->device));
}

static int import_checked(struct weir_mmap **ret, struct weir_device *device,
			  const struct descriptor *d, uint32_t permissions,
			  const struct weir_import_opts *opts)
{
	struct import *im = mem_calloc(1, sizeof(*im));
	struct weir_mmap *mmap = NULL;
	int err = im ? weir_mmap_create(&mmap, NULL) :
		       why(-ENOMEM, IMPORT ": no memory");

	if (err) {
		free(im);
		return err;
	}
	im->lifeline = -1;
	im->place = -1;
	im->exporter = -1;
	im->presence.fd = -1;
	import_init(&im->base, &for_ever, for_ever);
	im->device = device;
	err = reach(im, d);
	if (err) {
		free(im);
		weir_mmap_destroy(mmap);
		return err;
	}
	mmap->len = (size_t)d->len;
	become_import(mmap, im, permissions, opts);
	*ret = mmap;
	return 0;
}

int weir_mmap_import_device(struct weir_mmap **ret, struct weir_device *device,
			    const void *bytes, size_t len,
			    const struct weir_import_opts *user)
{
	struct weir_import_opts opts;
	uint32_t permissions = 0;
	struct descriptor d;
	int err;

	if (!bytes)
		return why(-EINVAL, IMPORT ": no bytes");
	err = opts_load(&opts, sizeof(opts), user, IMPORT);
	if (!err)
		err = check_opts(&opts);
	if (!err)
		err = descriptor_parse(&d, bytes, len, opts.key, opts.key_len,
				       (uint64_t)time(NULL), IMPORT);
	if (!err)
		err = check_device(device, &d);
	if (!err)
		err = decide_rights(&permissions, &d, &opts);
	if (!err)
		err = import_checked(ret, device, &d, permissions, &opts);
	return err;
}
