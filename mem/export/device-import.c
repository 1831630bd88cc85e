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
#define READ_DESC "weir_provider_read_desc"
#define IMPORT_DESC "weir_mmap_import_desc"
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
			   "memory; what is exported by RDMA is imported by "
			   "weir_mmap_import_rdma()", device_name(device));
	/* What weir_mmap_export_device() gives; a provider may have others. */
	if (!(d->permissions & DESCRIPTOR_READ) ||
	    d->permissions & DESCRIPTOR_ATOMIC)
		return why(-EBADMSG, IMPORT ": the permissions of the export "
			   "make no sense");
	return 0;
}

/* What a descriptor gives an importer. */
static uint32_t rights_of(const struct descriptor *d)
{
	return (d->permissions & DESCRIPTOR_READ ? WEIR_MMAP_READ : 0) |
	       (d->permissions & DESCRIPTOR_WRITE ? WEIR_MMAP_WRITE : 0) |
	       (d->permissions & DESCRIPTOR_ATOMIC ? WEIR_MMAP_RDMA_ATOMIC : 0);
}

static int decide_rights(uint32_t *ret, const struct descriptor *d,
			 const struct weir_import_opts *opts)
{
	uint32_t given = rights_of(d);

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

	if (device) {
		/* .import_end() may destroy the domain. */
		mmap_set_domain(mmap, weir_domain_system());
		if (device->info.cls->import_end)
			device->info.cls->import_end(device, &im->reached);
		device_unuse(device);
	}
	device_owner_put(im->owner);
	free(im);
}

bool mmap_import_key(const struct weir_mmap *mmap,
		     const struct weir_device *dev, struct device_mr *ret)
{
	struct import *im = import_of(mmap);

	if (im->owner) {
		ret->priv = &im->desc;
		return dev->info.cls->owner == im->owner;
	}
	if (!im->device || im->device != dev)
		return false;
	ret->priv = im->reached.data;
	return true;
}

/* The provider tells of a revocation: weir_provider_revoked(). */
static const _Atomic uint64_t for_ever = 1;

/* Neither another process nor its end can be seen. */
static struct import *make_import(const char *call)
{
	struct import *im = mem_calloc(1, sizeof(*im));

	if (!im) {
		why(-ENOMEM, "%s: no memory", call);
		return NULL;
	}
	im->lifeline = -1;
	im->place = -1;
	im->exporter = -1;
	im->presence.fd = -1;
	import_init(&im->base, &for_ever, for_ever);
	return im;
}

static void become_import(struct weir_mmap *mmap, struct import *im,
			  struct weir_domain *domain, uint64_t addr,
			  uint64_t len, uint32_t permissions, void *user_data)
{
	mmap_set_domain(mmap, domain);
	mmap->addr = (char *)(uintptr_t)addr;
	mmap->len = (size_t)len;
	mmap->cpu = domain_is_memory(domain);
	mmap->permissions = permissions;
	mmap->readonly = !(permissions & WEIR_MMAP_WRITE);
	mmap->user_data = user_data;
	mmap->range = MMAP_IMPORT;
	mmap->has_range = true;
	mmap->import = &im->base;
	mmap->release = release;
	mmap->was_started = true;
	atomic_store_explicit(&mmap->state, WEIR_MMAP_STARTED,
			      memory_order_release);
}

/* Let the device reach it. */
static int reach(struct import *im, const struct descriptor *d)
{
	const struct device_class *cls = im->device->info.cls;
	struct weir_provider_desc desc = {
		.size = sizeof(desc),
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
	struct import *im = make_import(IMPORT);
	struct weir_mmap *mmap = NULL;
	int err = im ? weir_mmap_create(&mmap, NULL) : -ENOMEM;

	if (err) {
		free(im);
		return err;
	}
	im->device = device;
	err = reach(im, d);
	if (err) {
		free(im);
		weir_mmap_destroy(mmap);
		return err;
	}
	become_import(mmap, im, im->reached.domain, im->reached.addr, d->len,
		      permissions, opts->user_data);
	device_use(device);
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

/* Imports that a provider makes itself. */

int weir_provider_read_desc(const struct weir_provider *provider,
			    const void *bytes, size_t len, const void *key,
			    size_t key_len, struct weir_provider_desc *ret)
{
	struct weir_provider_desc desc = { .size = sizeof(desc) };
	struct descriptor d;
	int err = opts_capacity(ret, READ_DESC);

	if (!err && !bytes)
		err = why(-EINVAL, READ_DESC ": no bytes");
	if (!err && !key && key_len)
		err = why(-EINVAL, READ_DESC ": a length of a key, and no key");
	if (!err)
		err = descriptor_parse(&d, bytes, len, key, key_len,
				       (uint64_t)time(NULL), READ_DESC);
	if (err)
		return err;
	if (d.kind != DESCRIPTOR_DEVICE)
		return why(-EOPNOTSUPP, READ_DESC ": the export is not by a "
			   "device; see weir_mmap_import()");
	if (strcmp(provider->owner.name, d.provider))
		return why(-EOPNOTSUPP, READ_DESC ": the export is by a device "
			   "of provider %s, not of %s", d.provider,
			   provider->owner.name);
	desc.addr = d.addr;
	desc.len = d.len;
	desc.permissions = rights_of(&d);
	desc.n_bytes = d.n_bytes;
	memcpy(desc.bytes, d.bytes, d.n_bytes);
	return opts_give(ret, &desc, sizeof(desc), READ_DESC);
}

static int check_desc(const struct weir_domain *domain,
		      const struct weir_provider_desc *desc)
{
	if (domain_is_memory(domain))
		return why(-EINVAL, IMPORT_DESC ": domain %s is memory of this "
			   "process", domain->id);
	if (!desc->len || !domain_has(domain, desc->addr, desc->len))
		return why(-ERANGE, IMPORT_DESC ": domain %s has not all of "
			   "%llu bytes at %#llx", domain->id,
			   (unsigned long long)desc->len,
			   (unsigned long long)desc->addr);
	if (!desc->permissions ||
	    desc->permissions & ~(RIGHTS | WEIR_MMAP_RDMA_ATOMIC) ||
	    desc->n_bytes > WEIR_PROVIDER_DESC_MAX)
		return why(-EINVAL, IMPORT_DESC ": .permissions are "
			   "WEIR_MMAP_READ, WEIR_MMAP_WRITE and "
			   "WEIR_MMAP_RDMA_ATOMIC, not %#x, or .n_bytes %u is "
			   "too large", desc->permissions, desc->n_bytes);
	return 0;
}

int weir_mmap_import_desc(struct weir_mmap **ret,
			  struct weir_provider *provider,
			  struct weir_domain *domain,
			  const struct weir_provider_desc *user, uint32_t rkey,
			  void *user_data)
{
	struct weir_provider_desc desc;
	struct weir_mmap *mmap = NULL;
	struct import *im;
	int err = opts_load(&desc, sizeof(desc), user, IMPORT_DESC);

	if (!err)
		err = check_desc(domain, &desc);
	if (err)
		return err;
	im = make_import(IMPORT_DESC);
	if (!im)
		return -ENOMEM;
	err = weir_mmap_create(&mmap, NULL);
	if (err) {
		free(im);
		return err;
	}
	im->owner = &provider->owner;
	atomic_fetch_add(&provider->owner.refs, 1);
	im->desc = desc;
	im->desc.size = sizeof(im->desc);
	im->desc.reactor = NULL;
	im->base.rkey = rkey;
	become_import(mmap, im, domain, desc.addr, desc.len, desc.permissions,
		      user_data);
	*ret = mmap;
	return 0;
}

const struct weir_provider_desc *
weir_mmap_desc(const struct weir_mmap *mmap,
	       const struct weir_provider *provider)
{
	const struct import *im = import_of(mmap);

	return im && im->owner == &provider->owner ? &im->desc : NULL;
}
