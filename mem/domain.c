/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/* What all domains have in common, and the system domain. */

#include <errno.h>
#include <stdlib.h>

#include "base/why.h"
#include "mem/domain-internal.h"

static struct weir_domain system_domain = {
	.kind = WEIR_DOMAIN_SYSTEM,
	.id = "system",
	.immortal = true,
};

struct weir_domain *weir_domain_system(void)
{
	return &system_domain;
}

int weir_domain_destroy(struct weir_domain *domain)
{
	unsigned int n;

	if (!domain)
		return 0;
	if (domain->immortal)
		return why(-EPERM,
			   "weir_domain_destroy: domain %s is always there",
			   domain->id);
	n = atomic_load_explicit(&domain->users, memory_order_acquire);
	if (n)
		return why(-EBUSY,
			   "weir_domain_destroy: %u mmaps or jobs use domain %s",
			   n, domain->id);
	free(domain);
	return 0;
}

uint32_t weir_domain_kind(const struct weir_domain *domain)
{
	return domain->kind;
}

const char *weir_domain_id(const struct weir_domain *domain)
{
	return domain->id;
}

void *weir_domain_ctx(const struct weir_domain *domain)
{
	return domain->ctx;
}

uint32_t weir_domain_users(const struct weir_domain *domain)
{
	return atomic_load_explicit(&domain->users, memory_order_relaxed);
}
