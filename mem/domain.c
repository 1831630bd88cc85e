/* SPDX-License-Identifier: BSD-3-Clause */
/* The code that all domains share, the list of them, and the two domains that
 * always exist. */

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/mmap.h>

#include "base/check.h"
#include "base/why.h"
#include "mem/domain-internal.h"

static struct domain_place this_process(const struct weir_domain *domain)
{
	(void)domain;
	return (struct domain_place){ PLACE_PROCESS, { (uint64_t)getpid() } };
}

static const struct domain_class system_class = {
	.is_memory = true,
	.place = this_process,
};

static const struct domain_class hugepage_class = {
	.is_memory = true,
	.alloc_flags = WEIR_MMAP_ALLOC_HUGE_2M,
	.place = this_process,
};

static struct weir_domain hugepage_domain;

/* Guards the list, and .held of its members. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
struct weir_domain domain_of_system = {
	.cls = &system_class,
	.kind = WEIR_DOMAIN_SYSTEM,
	.size = UINT64_MAX,
	.id = "system",
	.immortal = true,
	.next = &hugepage_domain,
};
static struct weir_domain hugepage_domain = {
	.cls = &hugepage_class,
	.kind = WEIR_DOMAIN_HUGEPAGE,
	.size = UINT64_MAX,
	.id = "hugepage",
	.immortal = true,
	.pprev = &domain_of_system.next,
};
static struct weir_domain **last = &hugepage_domain.next;

struct weir_domain *weir_domain_system(void)
{
	return &domain_of_system;
}

struct weir_domain *weir_domain_hugepage(void)
{
	return &hugepage_domain;
}

void domain_add(struct weir_domain *domain)
{
	pthread_mutex_lock(&lock);
	domain->next = NULL;
	domain->pprev = last;
	*last = domain;
	last = &domain->next;
	pthread_mutex_unlock(&lock);
}

/* Under the lock. */
static void del(struct weir_domain *domain)
{
	if (!domain->pprev)
		return;
	*domain->pprev = domain->next;
	if (domain->next)
		domain->next->pprev = domain->pprev;
	else
		last = domain->pprev;
}

struct weir_domain *weir_domain_next(struct weir_domain *prev, const char *id)
{
	struct weir_domain *d;

	pthread_mutex_lock(&lock);
	d = prev ? prev->next : &domain_of_system;
	while (d && id && strcmp(d->id, id))
		d = d->next;
	if (d)
		d->held++;
	if (prev)
		prev->held--;
	pthread_mutex_unlock(&lock);
	return d;
}

void weir_domain_put(struct weir_domain *domain)
{
	if (!domain)
		return;
	pthread_mutex_lock(&lock);
	check(domain->held);
	domain->held--;
	pthread_mutex_unlock(&lock);
}

/* Why it cannot go, or 0.  Under the lock. */
static int refuse(const struct weir_domain *domain, const char *call)
{
	uint32_t users = atomic_load_explicit(&domain->users,
					      memory_order_acquire);

	if (users)
		return why(-EBUSY, "%s: %u mmaps, jobs or translations use "
			   "domain %s", call, users, domain->id);
	if (domain->held)
		return why(-EBUSY, "%s: a walk is at domain %s; call "
			   "weir_domain_next() or weir_domain_put()", call,
			   domain->id);
	return 0;
}

int domain_may_destroy(const struct weir_domain *domain, const char *call)
{
	int err;

	pthread_mutex_lock(&lock);
	err = refuse(domain, call);
	pthread_mutex_unlock(&lock);
	return err;
}

/* Out of the list, unless something uses it. */
static int leave(struct weir_domain *domain)
{
	int err;

	pthread_mutex_lock(&lock);
	err = refuse(domain, "weir_domain_destroy");
	if (!err)
		del(domain);
	pthread_mutex_unlock(&lock);
	return err;
}

int weir_domain_destroy(struct weir_domain *domain)
{
	int err;

	if (!domain)
		return 0;
	if (domain->immortal)
		return why(-EPERM,
			   "weir_domain_destroy: domain %s is always there",
			   domain->id);
	err = leave(domain);
	if (err)
		return err;
	if (domain->release)
		domain->release(domain);
	free(domain);
	return 0;
}

int weir_domain_is_memory(const struct weir_domain *domain)
{
	return domain_is_memory(domain);
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
