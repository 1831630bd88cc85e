/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exports by devices of providers.  The peer gets the bytes of a descriptor, and
 * nothing else: there is no shared page that shows the end of the export, and no
 * file descriptor that hangs up.  The device decides what its key opens, and a stop
 * of the mmap tells the device first.
 */

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#include "base/check.h"
#include "base/opts.h"
#include "base/why.h"
#include "mem/domain-internal.h"
#include "mem/export/internal.h"

#define EXPORT "weir_mmap_export_device"
#define DESCRIBE "weir_mmap_describe"
#define PEER (WEIR_MMAP_PEER_READ | WEIR_MMAP_PEER_WRITE)

_Static_assert(WEIR_PROVIDER_DESC_MAX == DESCRIPTOR_BYTES_MAX &&
	       WEIR_PROVIDER_NAME_MAX < DESCRIPTOR_NAME &&
	       WEIR_DESCRIPTOR_MAX == DESCRIPTOR_MAX, "what a descriptor has");

static int check_mmap(const struct weir_mmap *mmap, const char *call)
{
	if (mmap->import)
		return why(-EPERM, "%s: the mmap is imported; only its "
			   "owner can export it", call);
	if (!mmap_is_started(mmap))
		return why(-EBADFD, "%s: the mmap is not started",
			   call);
	return 0;
}

static int check_has(struct weir_mmap *mmap, const struct weir_device *device,
		     const char *call)
{
	if (!*mmap_find_device(mmap, device))
		return why(-ENOENT, "%s: device %s is none of the mmap's; "
			   "see weir_mmap_add_device()", call,
			   device_name(device));
	return 0;
}

static int check_device(const struct weir_device *device, const char *call)
{
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
static int ask_device(struct weir_provider_desc *desc, struct weir_mmap *mmap,
		      struct weir_device *device,
		      const struct mmap_export *lease,
		      const struct weir_export_opts *opts, const char *call)
{
	struct device_mr mr = { NULL, 0, 0 };
	int err = mmap_mr(mmap, device, 0, mmap->len, opts->permissions, lease,
			  &mr, call);

	if (err)
		return err;
	desc->addr = (uintptr_t)mmap->addr;
	desc->len = mmap->len;
	desc->permissions = opts->permissions;
	desc->reactor = lease ? lease->r : NULL;
	return device->info.cls->describe(device, &mr, desc);
}

/* Give @x the id of exports by devices, if it has none yet. */
static int make_id(struct mmap_export *x, const char *call)
{
	if (x->has_device_id)
		return 0;
	if (fault("getrandom") ||
	    getrandom(x->device_id, sizeof(x->device_id), 0) !=
		    (ssize_t)sizeof(x->device_id))
		return why(-EIO, "%s: no random numbers", call);
	x->has_device_id = true;
	return 0;
}

/* The bit of a permission of the exporter's, or of two. */
static const struct right {
	uint32_t permissions, bit;
} rights[] = {
	{ WEIR_MMAP_PEER_READ | WEIR_MMAP_RDMA_READ, DESCRIPTOR_READ },
	{ WEIR_MMAP_PEER_WRITE | WEIR_MMAP_RDMA_WRITE, DESCRIPTOR_WRITE },
	{ WEIR_MMAP_RDMA_ATOMIC, DESCRIPTOR_ATOMIC },
};
#define N_RIGHTS (sizeof(rights) / sizeof(rights[0]))

/*
 * Write the descriptor of @len bytes of which @device says @desc.  Returns its
 * length, or a negative errno with a message.
 */
static int format(uint8_t bytes[DESCRIPTOR_MAX], const struct mmap_export *x,
		  const struct weir_device *device,
		  const struct weir_provider_desc *desc, uint64_t len,
		  const struct weir_export_opts *opts, const char *call)
{
	struct descriptor d = {
		.generation = 1,
		.len = len,
		.not_after = opts->not_after,
		.kind = DESCRIPTOR_DEVICE,
		.addr = desc->addr,
		.n_bytes = desc->n_bytes,
	};
	size_t i;

	if (d.n_bytes > DESCRIPTOR_BYTES_MAX || d.addr > INT64_MAX ||
	    len > INT64_MAX - d.addr)
		return why(-EIO, "%s: what device %s says of the memory "
			   "does not fit into a descriptor", call,
			   device_name(device));
	for (i = 0; i < N_RIGHTS; i++)
		if (opts->permissions & rights[i].permissions)
			d.permissions |= rights[i].bit;
	memcpy(d.bytes, desc->bytes, d.n_bytes);
	memcpy(d.provider, device->info.cls->owner->name, WEIR_PROVIDER_NAME_MAX);
	memcpy(d.export_id, x->device_id, sizeof(d.export_id));
	return descriptor_format(bytes, &d, opts->key, opts->key_len, call);
}

/*
 * Write what the provider has said, when its functions have returned: they may have
 * stopped or revoked @mmap.  It is kept in *@kept, if that is not NULL.  Returns the
 * length, or a negative errno with a message.
 */
static int seal(uint8_t bytes[DESCRIPTOR_MAX], struct export_blob **kept,
		struct weir_mmap *mmap, const struct weir_device *device,
		struct mmap_export *lease, const struct weir_provider_desc *desc,
		uint64_t len, const struct weir_export_opts *opts,
		const char *call)
{
	struct mmap_export *x = lease;
	int n, err;

	err = check_mmap(mmap, call);
	if (err)
		return err;
	if (!x)
		x = export_get(mmap, call);
	if (!x)
		return -ENOMEM;
	n = make_id(x, call);
	if (!n)
		n = format(bytes, x, device, desc, len, opts, call);
	if (n > 0 && kept) {
		err = export_keep(kept, x, DESCRIPTOR_DEVICE, bytes, (size_t)n,
				  call);
		n = err ? err : n;
	}
	if (n > 0 && !lease)
		mmap->export = x;
	else if (!lease && x != mmap->export)
		export_free(x);
	return n;
}

int export_by_device(struct export_blob **ret, struct weir_mmap *mmap,
		     struct weir_device *device, struct mmap_export *lease,
		     struct weir_export_opts *opts, const char *call)
{
	struct weir_provider_desc desc = { .size = sizeof(desc) };
	uint8_t bytes[DESCRIPTOR_MAX];
	int n = check_mmap(mmap, call);

	if (!n)
		n = check_has(mmap, device, call);
	if (!n)
		n = check_device(device, call);
	if (!n)
		n = check_rights(mmap, opts, call);
	if (!n)
		n = ask_device(&desc, mmap, device, lease, opts, call);
	if (!n)
		n = seal(bytes, ret, mmap, device, lease, &desc, mmap->len,
			 opts, call);
	return n < 0 ? n : 0;
}

static int give(struct weir_export_desc *ret, const uint8_t *bytes, size_t len,
		const char *call)
{
	struct weir_export_desc desc = {
		.size = sizeof(desc),
		.bytes = bytes,
		.len = len,
	};

	memset(desc.fds, 0xff, sizeof(desc.fds));
	return opts_give(ret, &desc, sizeof(desc), call);
}

int weir_mmap_export_device(struct weir_mmap *mmap, struct weir_device *device,
			    const struct weir_export_opts *user,
			    struct weir_export_desc *ret)
{
	struct export_blob *blob = NULL;
	struct weir_export_opts opts;
	int err = opts_capacity(ret, EXPORT);

	if (!err)
		err = opts_load(&opts, sizeof(opts), user, EXPORT);
	if (!err)
		err = export_by_device(&blob, mmap, device, NULL, &opts,
				       EXPORT);
	return err ? err : give(ret, blob->bytes, blob->len, EXPORT);
}

/* Descriptors whose bytes a provider writes itself. */

static int check_described_opts(const struct weir_describe_opts *opts)
{
	if (opts->flags & ~WEIR_DESCRIBE_REGISTER)
		return why(-EINVAL, DESCRIBE ": unknown .flags %#x",
			   opts->flags);
	if (opts->permissions & ~MMAP_RDMA)
		return why(-EINVAL, DESCRIBE ": .permissions are "
			   "WEIR_MMAP_RDMA_ ones, not %#x", opts->permissions);
	return export_check_key(opts->key, opts->key_len, DESCRIBE);
}

/* Replace 0 by the default. */
static int check_described(const struct device_owner *owner,
			   struct weir_mmap *mmap,
			   const struct weir_device *device,
			   struct weir_describe_opts *opts)
{
	uint32_t has = mmap->permissions & MMAP_RDMA;
	int err = check_described_opts(opts);

	if (!err)
		err = check_mmap(mmap, DESCRIBE);
	if (err)
		return err;
	if (!has)
		return why(-EACCES, DESCRIBE ": the mmap has no WEIR_MMAP_RDMA_ "
			   "permission");
	err = check_has(mmap, device, DESCRIBE);
	if (err)
		return err;
	if (device->info.cls->owner != owner || !device->info.cls->mr_register)
		return why(-EOPNOTSUPP, DESCRIBE ": device %s registers no "
			   "memory by provider %s", device_name(device),
			   owner->name);
	if (opts->permissions & ~has)
		return why(-EACCES, DESCRIBE ": .permissions %#x, but the mmap "
			   "has %#x of WEIR_MMAP_RDMA_", opts->permissions,
			   has);
	if (opts->off >= mmap->len || opts->len > mmap->len - opts->off)
		return why(-ERANGE, DESCRIBE ": .off %llu and .len %llu are "
			   "not within the %zu bytes of the mmap",
			   (unsigned long long)opts->off,
			   (unsigned long long)opts->len, mmap->len);
	if (!opts->permissions)
		opts->permissions = has;
	if (!opts->len)
		opts->len = mmap->len - opts->off;
	return 0;
}

/* Register the part, if that is asked for, and ask the provider. */
static int ask_caller(struct weir_provider_desc *desc, struct weir_mmap *mmap,
		      struct weir_device *device,
		      const struct weir_describe_opts *opts,
		      weir_describe_fn *fn, void *arg)
{
	struct device_mr mr = { NULL, 0, 0 };
	unsigned int since;
	int err = 0;

	desc->addr = (uintptr_t)mmap->addr + opts->off;
	desc->len = opts->len;
	desc->permissions = opts->permissions;
	if (opts->flags & WEIR_DESCRIBE_REGISTER)
		err = mmap_mr(mmap, device, opts->off, opts->len,
			      opts->permissions, NULL, &mr, DESCRIBE);
	if (err)
		return err;
	since = why_begin();
	err = fn(arg, &(struct weir_provider_key){ mr.priv, mr.lkey, mr.rkey },
		 desc);
	if (!err || (err < 0 && why_is_new(since)))
		return (int)sane_result(err);
	err = err < 0 ? (int)sane_result(err) : -EIO;
	return why(err, DESCRIBE ": the provider of device %s: %s",
		   device_name(device), strerror(-err));
}

int weir_mmap_describe(const struct weir_provider *provider,
		       struct weir_mmap *mmap, struct weir_device *device,
		       const struct weir_describe_opts *user,
		       weir_describe_fn *fn, void *arg,
		       struct weir_export_desc *ret)
{
	struct weir_provider_desc desc = { .size = sizeof(desc) };
	struct weir_export_opts sealed = { .size = sizeof(sealed) };
	struct weir_describe_opts opts;
	struct export_blob *blob = NULL;
	uint8_t bytes[DESCRIPTOR_MAX];
	int n = opts_capacity(ret, DESCRIBE);

	if (!n)
		n = opts_load(&opts, sizeof(opts), user, DESCRIBE);
	if (!n)
		n = check_described(&provider->owner, mmap, device, &opts);
	if (!n)
		n = ask_caller(&desc, mmap, device, &opts, fn, arg);
	if (n)
		return n;
	sealed.permissions = opts.permissions;
	sealed.not_after = opts.not_after;
	sealed.key = opts.key;
	sealed.key_len = opts.key_len;
	n = seal(bytes, opts.bytes ? NULL : &blob, mmap, device, NULL, &desc,
		 opts.len, &sealed, DESCRIBE);
	if (n < 0)
		return n;
	if (blob)
		return give(ret, blob->bytes, blob->len, DESCRIBE);
	memcpy(opts.bytes, bytes, (size_t)n);
	return give(ret, opts.bytes, (size_t)n, DESCRIBE);
}
