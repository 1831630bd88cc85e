/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exports by devices of providers.  The peer gets the bytes of a
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
#define PEER (WEIR_MMAP_PEER_READ | WEIR_MMAP_PEER_WRITE)

_Static_assert(DEVICE_DESC_MAX == DESCRIPTOR_BYTES_MAX &&
	       DEVICE_OWNER_MAX < DESCRIPTOR_NAME, "what a descriptor has");

static int check_mmap(struct weir_mmap *mmap, const struct weir_device *device,
		      const char *call)
{
	if (mmap->import)
		return why(-EPERM, "%s: the mmap is imported; only its "
			   "owner can export it", call);
	if (!mmap_is_started(mmap))
		return why(-EBADFD, "%s: the mmap is not started",
			   call);
	if (!*mmap_find_device(mmap, device))
		return why(-ENOENT, "%s: device %s is none of the mmap's; "
			   "see weir_mmap_add_device()", call,
			   device_name(device));
	if (!device_can(device, WEIR_DEVICE_CAP_EXPORT) ||
	    !device->info.cls->describe)
		return why(-EOPNOTSUPP, "%s: device %s does not export "
			   "memory", call, device_name(device));
	return 0;
}

/* Writing includes reading. */
static int check_rights(const struct weir_mmap *mmap,
			struct weir_export_opts *opts, const char *call)
{
	uint32_t has = mmap->permissions & PEER;

	if (opts->flags)
		return why(-EINVAL, "%s: unknown .flags %#x", call,
			   opts->flags);
	if (opts->permissions & ~PEER)
		return why(-EINVAL, "%s: .permissions are WEIR_MMAP_PEER_ "
			   "ones, not %#x", call, opts->permissions);
	if (has & WEIR_MMAP_PEER_WRITE)
		has = PEER;
	if (!has || opts->permissions & ~has)
		return why(-EACCES, "%s: .permissions %#x, but the mmap "
			   "has %#x of WEIR_MMAP_PEER_", call, opts->permissions,
			   has);
	if (!opts->permissions)
		opts->permissions = has;
	if (opts->permissions & WEIR_MMAP_PEER_WRITE)
		opts->permissions = PEER;
	return export_check_key(opts->key, opts->key_len, call);
}

/* Register it, and ask the device what importers need to know. */
static int ask_device(struct device_desc *desc, struct weir_mmap *mmap,
		      struct weir_device *device, const struct mmap_export *x,
		      const struct weir_export_opts *opts, const char *call)
{
	struct device_mr mr = { NULL, 0, 0 };
	int err = mmap_mr(mmap, device, opts->permissions,
			  x->device ? x : NULL, &mr, call);

	if (err)
		return err;
	desc->addr = (uintptr_t)mmap->addr;
	desc->len = mmap->len;
	desc->permissions = opts->permissions;
	desc->r = x->r;
	err = device->info.cls->describe(device, &mr, desc);
	if (err)
		return err;
	if (desc->n_bytes > DEVICE_DESC_MAX || desc->addr > INT64_MAX ||
	    desc->len > INT64_MAX - desc->addr)
		return why(-EIO, "%s: what device %s says of the memory "
			   "has no capacity in a descriptor", call,
			   device_name(device));
	return 0;
}

static int describe(struct export_blob **ret, struct weir_mmap *mmap,
		    struct weir_device *device, struct mmap_export *x,
		    const struct weir_export_opts *opts, const char *call)
{
	struct descriptor d = {
		.generation = 1,
		.not_after = opts->not_after,
		.kind = DESCRIPTOR_DEVICE,
		.permissions = DESCRIPTOR_READ,
	};
	struct device_desc desc = { .n_bytes = 0 };
	uint8_t bytes[DESCRIPTOR_MAX];
	int n = export_device_id(x, call);

	if (!n)
		n = ask_device(&desc, mmap, device, x, opts, call);
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
	n = descriptor_format(bytes, &d, opts->key, opts->key_len, call);
	return n < 0 ? n : export_keep(ret, x, DESCRIPTOR_DEVICE, bytes,
				       (size_t)n, call);
}

int export_by_device(struct export_blob **ret, struct weir_mmap *mmap,
		     struct weir_device *device, struct mmap_export *x,
		     struct weir_export_opts *opts, const char *call)
{
	int err = check_mmap(mmap, device, call);

	if (!err)
		err = check_rights(mmap, opts, call);
	return err ? err : describe(ret, mmap, device, x, opts, call);
}

int weir_mmap_export_device(struct weir_mmap *mmap, struct weir_device *device,
			    const struct weir_export_opts *user,
			    struct weir_export_desc *ret)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct export_blob *blob = NULL;
	struct weir_export_opts opts;
	struct mmap_export *x;
	int err = opts_capacity(ret, EXPORT);

	if (!err)
		err = opts_load(&opts, sizeof(opts), user, EXPORT);
	if (err)
		return err;
	x = export_get(mmap, EXPORT);
	if (!x)
		return -ENOMEM;
	err = export_by_device(&blob, mmap, device, x, &opts, EXPORT);
	if (!err)
		mmap->export = x;
	else if (x != mmap->export)
		export_free(x);
	if (err)
		return err;
	desc.bytes = blob->bytes;
	desc.len = blob->len;
	memset(desc.fds, 0xff, sizeof(desc.fds));
	return opts_give(ret, &desc, sizeof(desc), EXPORT);
}
