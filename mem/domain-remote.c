/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Remote domains: the memory of a peer, by RDMA.  The domain only describes.
 * The mmaps that are imported into it say which addresses exist; the link that
 * a provider attaches reaches them.
 */

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "base/why.h"
#include "mem/domain-internal.h"

#define CALL "weir_domain_remote_create"

static const struct domain_class class_remote = {
	.is_peer = true,
};

int weir_domain_remote_create(struct weir_domain **ret,
			      const struct weir_domain_remote_opts *user)
{
	struct weir_domain_remote_opts opts;
	struct domain_remote *remote;
	const char *id = "remote";
	int err = opts_load(&opts, sizeof(opts), user, CALL);

	if (err)
		return err;
	if (opts.flags)
		return why(-EINVAL, CALL ": unknown .flags %#x", opts.flags);
	if (opts.reserved)
		return why(-E2BIG, CALL ": .reserved is unknown to this "
			   "version");
	if (opts.id)
		id = opts.id;
	remote = mem_calloc(1, sizeof(*remote) + strlen(id) + 1);
	if (!remote)
		return why(-ENOMEM, CALL ": no memory");
	memcpy(remote->id_mem, id, strlen(id) + 1);
	remote->domain.cls = &class_remote;
	remote->domain.kind = WEIR_DOMAIN_REMOTE;
	remote->domain.size = UINT64_MAX;
	remote->domain.id = remote->id_mem;
	remote->domain.ctx = opts.ctx;
	domain_add(&remote->domain);
	*ret = &remote->domain;
	return 0;
}

int weir_domain_attach(struct weir_domain *domain, void *link,
		       const char *name)
{
	static const char call[] = "weir_domain_attach";
	struct domain_remote *remote = (struct domain_remote *)domain;
	void *old = NULL;

	if (!link || !domain_is_remote(domain))
		return why(-EINVAL, "%s: no link, or domain %s is no remote "
			   "one; see weir_domain_remote_create()", call,
			   domain->id);
	if (!atomic_compare_exchange_strong(&remote->link, &old, link))
		return why(old == link ? -EALREADY : -EBUSY,
			   "%s: domain %s is reached by a connection already",
			   call, domain->id);
	remote->link_name = name;
	domain_use(domain);
	return 0;
}

void weir_domain_detach(struct weir_domain *domain, void *link)
{
	struct domain_remote *remote = (struct domain_remote *)domain;
	void *old = link;

	if (link && domain_is_remote(domain) &&
	    atomic_compare_exchange_strong(&remote->link, &old, NULL))
		domain_unuse(domain);
}

void *weir_domain_link(const struct weir_domain *domain)
{
	return domain_is_remote(domain) ?
		       domain_remote_link((struct weir_domain *)domain) :
		       NULL;
}
