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

#include <weir/domain.h>
#include <weir/mmap.h>
#include <weir/rdma/export.h>

#include "base/opts.h"
#include "base/why.h"
#include "rdma/device.h"
#include "rdma/export.h"

#define EXPORT "weir_mmap_export_rdma"
#define IMPORT "weir_mmap_import_rdma"
#define RIGHTS (WEIR_MMAP_READ | WEIR_MMAP_WRITE | WEIR_MMAP_RDMA_ATOMIC)

/* The constructor of the library cannot report its failure: each call does. */
static int no_provider(const char *call)
{
	return why(-EOPNOTSUPP, "%s: there is no RDMA: libweir-rdma could not "
		   "register its provider when it was loaded, for lack of "
		   "memory, of one of %d places, or of its name", call,
		   WEIR_PROVIDERS_MAX);
}

struct exported {
	struct weir_mmap *mmap;
	uint64_t off;
};

/* For weir_mmap_describe(). */
static int describe(void *arg, const struct weir_provider_key *key,
		    struct weir_provider_desc *desc)
{
	const struct exported *e = arg;
	struct weir_provider_range range = { .size = sizeof(range) };
	int err = weir_mmap_part(e->mmap, e->off, desc->len, desc->permissions,
				 &range);

	if (err)
		return err;
	desc->addr = device_range_start(&range);
	rdma_key_write(desc, &(struct rdma_key){ .rkey = key->rkey });
	return 0;
}

int weir_mmap_export_rdma(struct weir_mmap *mmap, struct weir_device *device,
			  const struct weir_export_rdma_opts *user,
			  struct weir_export_desc *ret)
{
	struct weir_describe_opts what;
	struct weir_export_rdma_opts opts;
	int err = opts_load(&opts, sizeof(opts), user, EXPORT);

	if (err)
		return err;
	if (opts.flags)
		return why(-EINVAL, EXPORT ": unknown .flags %#x", opts.flags);
	if (!verbs_provider)
		return no_provider(EXPORT);
	what = rdma_describe_opts(&opts);
	what.flags = WEIR_DESCRIBE_REGISTER;
	err = weir_mmap_describe(verbs_provider, mmap, device, &what, describe,
				 &(struct exported){ mmap, opts.off }, ret);
	return err ? why_call(err, "weir_mmap_describe", EXPORT) : 0;
}

/* The importer's side. */

static int check_import(const struct weir_domain *domain,
			const struct weir_import_opts *opts)
{
	if (!rdma_is_remote(domain))
		return why(-EINVAL, IMPORT ": domain %s is no remote one; see "
			   "weir_domain_remote_create()",
			   weir_domain_id(domain));
	if (opts->flags || opts->peer)
		return why(-EINVAL, IMPORT ": .flags and .peer have no meaning "
			   "by RDMA");
	if (opts->permissions & ~RIGHTS)
		return why(-EINVAL, IMPORT ": .permissions are WEIR_MMAP_READ, "
			   "WEIR_MMAP_WRITE and WEIR_MMAP_RDMA_ATOMIC, not "
			   "%#x", opts->permissions);
	return verbs_provider ? 0 : no_provider(IMPORT);
}

static int import_read(struct weir_mmap **ret, struct weir_domain *domain,
		       struct weir_provider_desc *desc,
		       const struct weir_import_opts *opts)
{
	if (!rdma_key_is_there(desc))
		return why(-EBADMSG, IMPORT ": the descriptor names no "
			   "registered memory");
	if (opts->permissions & ~desc->permissions)
		return why(-EACCES, IMPORT ": .permissions want %#x, and the "
			   "export gives %#x", opts->permissions,
			   desc->permissions);
	if (opts->permissions)
		desc->permissions = opts->permissions;
	return weir_mmap_import_desc(ret, verbs_provider, domain, desc,
				     rdma_key_read(desc).rkey, opts->user_data);
}

int weir_mmap_import_rdma(struct weir_mmap **ret, struct weir_domain *domain,
			  const void *bytes, size_t len,
			  const struct weir_import_opts *user)
{
	struct weir_provider_desc desc = { .size = sizeof(desc) };
	struct weir_import_opts opts;
	int err = opts_load(&opts, sizeof(opts), user, IMPORT);

	if (!err)
		err = check_import(domain, &opts);
	if (err)
		return err;
	err = weir_provider_read_desc(verbs_provider, bytes, len, opts.key,
				      opts.key_len, &desc);
	if (err)
		return why_call(err, "weir_provider_read_desc", IMPORT);
	err = import_read(ret, domain, &desc, &opts);
	return err ? why_call(err, "weir_mmap_import_desc", IMPORT) : 0;
}

int weir_mmap_import_info(const struct weir_mmap *mmap,
			  struct weir_import_info *ret)
{
	struct weir_import_info info = { .size = sizeof(info) };
	const struct weir_provider_desc *desc = NULL;
	struct rdma_key key;
	int err = opts_capacity(ret, "weir_mmap_import_info");

	if (err)
		return err;
	if (verbs_provider)
		desc = weir_mmap_desc(mmap, verbs_provider);
	if (!desc)
		return why(-EPERM, "weir_mmap_import_info: the mmap is no "
			   "import by RDMA");
	key = rdma_key_read(desc);
	info.qp_num = key.qp_num;
	info.rkey = key.rkey;
	info.node = key.node;
	return opts_give(ret, &info, sizeof(info), "weir_mmap_import_info");
}
