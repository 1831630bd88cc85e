/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exports and imports by devices of providers.  The peer gets the bytes of a
 * descriptor, and nothing else, as by RDMA: the device decides what its key
 * opens, and a stop of the mmap tells the device first.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "base/why.h"
#include "mem/domain-internal.h"
#include "mem/export/internal.h"

#define EXPORT "weir_mmap_export_device"
#define IMPORT "weir_mmap_import_device"
#define PEER (WEIR_MMAP_PEER_READ | WEIR_MMAP_PEER_WRITE)
#define RIGHTS (WEIR_MMAP_READ | WEIR_MMAP_WRITE)

_Static_assert(DEVICE_DESC_MAX == DESCRIPTOR_BYTES_MAX &&
	       DEVICE_OWNER_MAX < DESCRIPTOR_NAME, "what a descriptor has");

static int check_key(const void *key, size_t key_len, const char *call)
{
	uint8_t mac[DESCRIPTOR_MAC_LEN];

	if (!key)
		return key_len ? why(-EINVAL, "%s: .key_len without .key",
				     call) : 0;
	return descriptor_mac(mac, "", 0, key, key_len, call);
}

static int check_mmap(struct weir_mmap *mmap, const struct weir_device *device)
{
	if (mmap->import)
		return why(-EPERM, EXPORT ": the mmap is imported; only its "
			   "owner can export it");
	if (!mmap_is_started(mmap))
		return why(-EBADFD, EXPORT ": the mmap is not started");
	if (!*mmap_find_device(mmap, device))
		return why(-ENOENT, EXPORT ": device %s is none of the mmap's; "
			   "see weir_mmap_add_device()", device_name(device));
	if (!device_can(device, WEIR_DEVICE_CAP_EXPORT) ||
	    !device->info.cls->describe)
		return why(-EOPNOTSUPP, EXPORT ": device %s does not export "
			   "memory", device_name(device));
	return 0;
}

/* Writing includes reading. */
static int check_rights(const struct weir_mmap *mmap,
			struct weir_export_opts *opts)
{
	uint32_t has = mmap->permissions & PEER;

	if (opts->flags)
		return why(-EINVAL, EXPORT ": unknown .flags %#x", opts->flags);
	if (opts->permissions & ~PEER)
		return why(-EINVAL, EXPORT ": .permissions are WEIR_MMAP_PEER_ "
			   "ones, not %#x", opts->permissions);
	if (has & WEIR_MMAP_PEER_WRITE)
		has = PEER;
	if (!has || opts->permissions & ~has)
		return why(-EACCES, EXPORT ": .permissions %#x, but the mmap "
			   "has %#x of WEIR_MMAP_PEER_", opts->permissions, has);
	if (!opts->permissions)
		opts->permissions = has;
	if (opts->permissions & WEIR_MMAP_PEER_WRITE)
		opts->permissions = PEER;
	return check_key(opts->key, opts->key_len, EXPORT);
}

/* Register it, and ask the device what importers need to know. */
static int ask_device(struct device_desc *desc, struct weir_mmap *mmap,
		      struct weir_device *device,
		      const struct weir_export_opts *opts)
{
	struct device_mr mr = { NULL, 0, 0 };
	int err = mmap_mr(mmap, device, opts->permissions, &mr, EXPORT);

	if (err)
		return err;
	desc->addr = (uintptr_t)mmap->addr;
	desc->len = mmap->len;
	desc->permissions = opts->permissions;
	err = device->info.cls->describe(device, &mr, desc);
	if (err)
		return err;
	if (desc->n_bytes > DEVICE_DESC_MAX || desc->addr > INT64_MAX ||
	    desc->len > INT64_MAX - desc->addr)
		return why(-EIO, EXPORT ": what device %s says of the memory "
			   "has no capacity in a descriptor",
			   device_name(device));
	return 0;
}

static int describe(struct export_blob **ret, struct weir_mmap *mmap,
		    struct weir_device *device, struct mmap_export *x,
		    const struct weir_export_opts *opts)
{
	struct descriptor d = {
		.generation = 1,
		.not_after = opts->not_after,
		.kind = DESCRIPTOR_DEVICE,
		.permissions = DESCRIPTOR_READ,
	};
	struct device_desc desc = { .n_bytes = 0 };
	uint8_t bytes[DESCRIPTOR_MAX];
	int n = export_device_id(x, EXPORT);

	if (!n)
		n = ask_device(&desc, mmap, device, opts);
	if (n)
		return n;
	if (desc.permissions & WEIR_MMAP_PEER_WRITE)
		d.permissions |= DESCRIPTOR_WRITE;
	d.addr = desc.addr;
	d.len = mmap->len;
	d.n_bytes = desc.n_bytes;
	memcpy(d.bytes, desc.bytes, desc.n_bytes);
	memcpy(d.provider, device->info.cls->owner->name, DEVICE_OWNER_MAX);
	memcpy(d.export_id, x->device_id, sizeof(d.export_id));
	n = descriptor_format(bytes, &d, opts->key, opts->key_len, EXPORT);
	return n < 0 ? n : export_keep(ret, x, DESCRIPTOR_DEVICE, bytes,
				       (size_t)n, EXPORT);
}

static int export_with(struct export_blob **ret, struct weir_mmap *mmap,
		       struct weir_device *device,
		       const struct weir_export_opts *opts)
{
	struct mmap_export *x = export_get(mmap, EXPORT);
	int err;

	if (!x)
		return -ENOMEM;
	err = describe(ret, mmap, device, x, opts);
	if (!err)
		mmap->export = x;
	else if (x != mmap->export)
		export_free(x);
	return err;
}

int weir_mmap_export_device(struct weir_mmap *mmap, struct weir_device *device,
			    const struct weir_export_opts *user,
			    struct weir_export_desc *ret)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct export_blob *blob = NULL;
	struct weir_export_opts opts;
	int err = opts_capacity(ret, EXPORT);

	if (!err)
		err = opts_load(&opts, sizeof(opts), user, EXPORT);
	if (!err)
		err = check_mmap(mmap, device);
	if (!err)
		err = check_rights(mmap, &opts);
	if (!err)
		err = export_with(&blob, mmap, device, &opts);
	if (err)
		return err;
	desc.bytes = blob->bytes;
	desc.len = blob->len;
	memset(desc.fds, 0xff, sizeof(desc.fds));
	return opts_give(ret, &desc, sizeof(desc), EXPORT);
}

/* The importer's side. */

static int check_opts(const struct weir_import_opts *opts)
{
	if (opts->flags || opts->peer)
		return why(-EINVAL, IMPORT ": .flags and .peer have no meaning "
			   "for devices");
	if (opts->permissions & ~RIGHTS)
		return why(-EINVAL, IMPORT ": .permissions are WEIR_MMAP_READ "
			   "and WEIR_MMAP_WRITE, not %#x", opts->permissions);
	return check_key(opts->key, opts->key_len, IMPORT);
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
	im->base.generation = &for_ever;
	atomic_init(&im->base.mine, for_ever);
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
