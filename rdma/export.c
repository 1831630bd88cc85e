/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Exports and imports by RDMA.  The peer gets the bytes of a descriptor, and
 * nothing else: there is no shared page that shows the end of the export, and
 * no file descriptor that hangs up.  The exporter's device decides what the key
 * opens, and a stop of the mmap tells the device first.
 *
 * This file calls nothing of rdma-core: the mmap knows whether there are
 * devices that register memory, and an import is a description.
 */

#include <errno.h>
#include <string.h>
#include <time.h>

#include <weir/rdma/export.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "base/why.h"
#include "mem/domain-internal.h"
#include "rdma/export.h"

#define EXPORT "weir_mmap_export_rdma"
#define IMPORT "weir_mmap_import_rdma"
#define RIGHTS (WEIR_MMAP_READ | WEIR_MMAP_WRITE | WEIR_MMAP_RDMA_ATOMIC)

/* A permission of the exporter's, its bit in the descriptor, and the
 * importer's. */
static const struct right {
	uint32_t there, bit, here;
} rights[] = {
	{ WEIR_MMAP_RDMA_READ, DESCRIPTOR_READ, WEIR_MMAP_READ },
	{ WEIR_MMAP_RDMA_WRITE, DESCRIPTOR_WRITE, WEIR_MMAP_WRITE },
	{ WEIR_MMAP_RDMA_ATOMIC, DESCRIPTOR_ATOMIC, WEIR_MMAP_RDMA_ATOMIC },
};
#define N_RIGHTS (sizeof(rights) / sizeof(rights[0]))

static int check_key(const struct weir_export_rdma_opts *opts)
{
	uint8_t mac[DESCRIPTOR_MAC_LEN];

	if (!opts->key && opts->key_len)
		return why(-EINVAL, EXPORT ": .key_len without .key");
	if (!opts->key)
		return 0;
	return descriptor_mac(mac, "", 0, opts->key, opts->key_len, EXPORT);
}

static int check_opts(const struct weir_export_rdma_opts *opts)
{
	if (opts->flags)
		return why(-EINVAL, EXPORT ": unknown .flags %#x", opts->flags);
	if (opts->permissions & ~MMAP_RDMA)
		return why(-EINVAL, EXPORT ": .permissions are WEIR_MMAP_RDMA_ "
			   "ones, not %#x", opts->permissions);
	return check_key(opts);
}

static int check_mmap(struct weir_mmap *mmap, struct weir_device *device)
{
	if (mmap->import)
		return why(-EPERM, EXPORT ": the mmap is imported; only its "
			   "owner can export it");
	if (!mmap_is_started(mmap))
		return why(-EBADFD, EXPORT ": the mmap is not started");
	if (!(mmap->permissions & MMAP_RDMA))
		return why(-EACCES, EXPORT ": the mmap has no WEIR_MMAP_RDMA_ "
			   "permission");
	if (!*mmap_find_device(mmap, device))
		return why(-ENOENT, EXPORT ": device %s is none of the mmap's; "
			   "see weir_mmap_add_device()", device_name(device));
	if (!device->info.cls->mr_register)
		return why(-EOPNOTSUPP, EXPORT ": device %s registers no "
			   "memory", device_name(device));
	return 0;
}

/* Check the part of @mmap that is asked for; replace 0 by the default. */
static int check_part(const struct weir_mmap *mmap,
		      struct weir_export_rdma_opts *opts)
{
	uint32_t has = mmap->permissions & MMAP_RDMA;

	if (opts->permissions & ~has)
		return why(-EACCES, EXPORT ": .permissions %#x, but the mmap "
			   "has %#x", opts->permissions, has);
	if (opts->off >= mmap->len || opts->len > mmap->len - opts->off)
		return why(-ERANGE, EXPORT ": .off %llu and .len %llu are not "
			   "within the %zu bytes of the mmap",
			   (unsigned long long)opts->off,
			   (unsigned long long)opts->len, mmap->len);
	if (!opts->permissions)
		opts->permissions = has;
	if (!opts->len)
		opts->len = mmap->len - opts->off;
	return 0;
}

/* Returns the number of bytes. */
static int format(uint8_t bytes[DESCRIPTOR_MAX], const struct mmap_export *x,
		  const struct weir_export_rdma_opts *opts,
		  const struct export_key *key)
{
	struct descriptor d = {
		.generation = 1,
		.len = opts->len,
		.not_after = opts->not_after,
		.kind = DESCRIPTOR_RDMA,
		.addr = key->addr,
		.rkey = key->rkey,
		.qp_num = key->qp_num,
		.node = key->node,
	};
	size_t i;

	for (i = 0; i < N_RIGHTS; i++)
		if (opts->permissions & rights[i].there)
			d.permissions |= rights[i].bit;
	memcpy(d.export_id, x->device_id, sizeof(d.export_id));
	return descriptor_format(bytes, &d, opts->key, opts->key_len, EXPORT);
}

static int describe(struct export_blob **ret, struct weir_mmap *mmap,
		    struct weir_device *device, struct mmap_export *x,
		    const struct weir_export_rdma_opts *opts)
{
	struct export_key key = { .qp_num = 0 };
	uint8_t bytes[DESCRIPTOR_MAX];
	int n = export_device_id(x, EXPORT);

	if (!n)
		n = mmap_keys_part(mmap, device, opts->off, opts->len,
				   opts->permissions, &key.addr, &key.rkey);
	if (!n)
		n = format(bytes, x, opts, &key);
	return n < 0 ? n : export_keep(ret, x, DESCRIPTOR_RDMA, bytes,
				       (size_t)n, EXPORT);
}

int export_rdma_check(struct weir_mmap *mmap, struct weir_device *device,
		      struct weir_export_rdma_opts *opts)
{
	int err = check_opts(opts);

	if (!err)
		err = check_mmap(mmap, device);
	return err ? err : check_part(mmap, opts);
}

static int export_part(struct export_blob **ret, struct weir_mmap *mmap,
		       struct weir_device *device,
		       const struct weir_export_rdma_opts *opts)
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

int weir_mmap_export_rdma(struct weir_mmap *mmap, struct weir_device *device,
			  const struct weir_export_rdma_opts *user,
			  struct weir_export_desc *ret)
{
	struct weir_export_desc desc = { .size = sizeof(desc) };
	struct weir_export_rdma_opts opts;
	struct export_blob *blob = NULL;
	int err = opts_capacity(ret, EXPORT);

	if (!err)
		err = opts_load(&opts, sizeof(opts), user, EXPORT);
	if (!err)
		err = export_rdma_check(mmap, device, &opts);
	if (!err)
		err = export_part(&blob, mmap, device, &opts);
	if (err)
		return err;
	desc.bytes = blob->bytes;
	desc.len = blob->len;
	memset(desc.fds, 0xff, sizeof(desc.fds));
	return opts_give(ret, &desc, sizeof(desc), EXPORT);
}

int export_rdma_key(uint8_t bytes[DESCRIPTOR_MAX], struct weir_mmap *mmap,
		    const struct weir_export_rdma_opts *opts,
		    const struct export_key *key)
{
	struct mmap_export *x = export_get(mmap, EXPORT);
	int n;

	if (!x)
		return -ENOMEM;
	n = export_device_id(x, EXPORT);
	if (!n)
		n = format(bytes, x, opts, key);
	if (n >= 0)
		mmap->export = x;
	else if (x != mmap->export)
		export_free(x);
	return n;
}

/* The importer's side. */

static int check_import(const void *bytes, const struct weir_domain *domain,
			const struct weir_import_opts *opts)
{
	if (!bytes)
		return why(-EINVAL, IMPORT ": no bytes");
	if (!domain_is_remote(domain))
		return why(-EINVAL, IMPORT ": domain %s is no remote one; see "
			   "weir_domain_remote_create()", domain->id);
	if (opts->flags || opts->peer)
		return why(-EINVAL, IMPORT ": .flags and .peer have no meaning "
			   "by RDMA");
	if (opts->permissions & ~RIGHTS)
		return why(-EINVAL, IMPORT ": .permissions are WEIR_MMAP_READ, "
			   "WEIR_MMAP_WRITE and WEIR_MMAP_RDMA_ATOMIC, not "
			   "%#x", opts->permissions);
	if (!opts->key && opts->key_len)
		return why(-EINVAL, IMPORT ": .key_len without .key");
	return 0;
}

/* Compute the rights that are granted and asked for. */
static int decide_rights(uint32_t *ret, const struct descriptor *d,
			 const struct weir_import_opts *opts)
{
	uint32_t given = 0;
	size_t i;

	if (d->kind != DESCRIPTOR_RDMA)
		return why(-EOPNOTSUPP, IMPORT ": the export is not for RDMA; "
			   "see weir_mmap_import()");
	for (i = 0; i < N_RIGHTS; i++)
		if (d->permissions & rights[i].bit)
			given |= rights[i].here;
	if (opts->permissions & ~given)
		return why(-EACCES, IMPORT ": .permissions want %#x, and the "
			   "export gives %#x", opts->permissions, given);
	*ret = opts->permissions ? opts->permissions : given;
	return 0;
}

/* Nothing reports a revocation, so such an import is never marked as
 * revoked. */
static const _Atomic uint64_t for_ever = 1;

static struct import *make_import(const struct descriptor *d,
				  uint32_t permissions)
{
	struct import *im = mem_calloc(1, sizeof(*im));

	if (!im) {
		why(-ENOMEM, IMPORT ": no memory");
		return NULL;
	}
	im->lifeline = -1;
	im->place = -1;
	im->exporter = -1;
	im->presence.fd = -1;
	im->remote.rkey = d->rkey;
	im->remote.permissions = permissions;
	im->remote.qp_num = d->qp_num;
	im->remote.node = d->node;
	import_init(&im->base, &for_ever, for_ever);
	im->base.remote = &im->remote;
	return im;
}

/* Called by destroy. */
static void release(struct weir_mmap *mmap)
{
	import_free(import_of(mmap));
}

static void become_import(struct weir_mmap *mmap, struct weir_domain *domain,
			  const struct descriptor *d, struct import *im,
			  const struct weir_import_opts *opts)
{
	mmap_set_domain(mmap, domain);
	mmap->addr = (char *)(uintptr_t)d->addr;
	mmap->len = (size_t)d->len;
	mmap->permissions = im->remote.permissions;
	mmap->readonly = !(mmap->permissions & WEIR_MMAP_WRITE);
	mmap->user_data = opts->user_data;
	mmap->range = MMAP_IMPORT;
	mmap->has_range = true;
	mmap->import = &im->base;
	mmap->release = release;
	mmap->was_started = true;
	atomic_store_explicit(&mmap->state, WEIR_MMAP_STARTED,
			      memory_order_release);
}

static int import_parsed(struct weir_mmap **ret, struct weir_domain *domain,
			 const struct descriptor *d,
			 const struct weir_import_opts *opts)
{
	struct weir_mmap *mmap = NULL;
	uint32_t permissions = 0;
	struct import *im;
	int err = decide_rights(&permissions, d, opts);

	if (err)
		return err;
	im = make_import(d, permissions);
	if (!im)
		return -ENOMEM;
	err = weir_mmap_create(&mmap, NULL);
	if (err) {
		import_free(im);
		return err;
	}
	become_import(mmap, domain, d, im, opts);
	*ret = mmap;
	return 0;
}

int weir_mmap_import_rdma(struct weir_mmap **ret, struct weir_domain *domain,
			  const void *bytes, size_t len,
			  const struct weir_import_opts *user)
{
	struct weir_import_opts opts;
	struct descriptor d;
	int err;

	err = opts_load(&opts, sizeof(opts), user, IMPORT);
	if (!err)
		err = check_import(bytes, domain, &opts);
	if (!err)
		err = descriptor_parse(&d, bytes, len, opts.key, opts.key_len,
				       (uint64_t)time(NULL), IMPORT);
	if (!err)
		err = import_parsed(ret, domain, &d, &opts);
	return err;
}

int weir_mmap_import_info(const struct weir_mmap *mmap,
			  struct weir_import_info *ret)
{
	const struct mmap_remote *remote = NULL;
	struct weir_import_info info = { .size = sizeof(info) };
	int err = opts_capacity(ret, "weir_mmap_import_info");

	if (err)
		return err;
	if (mmap->import)
		remote = mmap->import->remote;
	if (!remote)
		return why(-EPERM, "weir_mmap_import_info: the mmap is no "
			   "import by RDMA");
	info.qp_num = remote->qp_num;
	info.rkey = remote->rkey;
	info.node = remote->node;
	return opts_give(ret, &info, sizeof(info), "weir_mmap_import_info");
}
