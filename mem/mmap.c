/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/* Mmaps: the range, its life, and its registrations. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/uio.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/why.h"
#include "mem/domain-internal.h"
#include "mem/mmap-internal.h"
#include "reactor/op-inline.h"

/* The kernel's bound for one registered buffer. */
#define REGISTER_MAX ((size_t)1 << 30)

/* Below this, what is left of the limit is not worth a look-up. */
#define REGISTER_MIN ((size_t)64 << 10)

#define PAGE ((size_t)4096)

static bool is_started(const struct weir_mmap *mmap)
{
	return atomic_load_explicit(&mmap->state, memory_order_relaxed) ==
	       WEIR_MMAP_STARTED;
}

int weir_mmap_create(struct weir_mmap **ret, struct weir_domain *domain)
{
	struct weir_mmap *mmap;

	if (!domain)
		domain = weir_domain_system();
	if (domain->kind != WEIR_DOMAIN_SYSTEM)
		return why(-EOPNOTSUPP, "weir_mmap_create: domain %s is not "
			   "memory of this process; name places in it by "
			   "address in a job", domain->id);
	mmap = mem_calloc(1, sizeof(*mmap));
	if (!mmap)
		return why(-ENOMEM, "weir_mmap_create: no memory");
	pthread_mutex_init(&mmap->lock, NULL);
	atomic_init(&mmap->state, WEIR_MMAP_STOPPED);
	mmap->permissions = WEIR_MMAP_READ;
	mmap->domain = domain;
	domain_use(domain);
	*ret = mmap;
	return 0;
}

static int refuse_started(const struct weir_mmap *mmap, const char *call)
{
	if (!is_started(mmap))
		return 0;
	return why(-EBADFD, "%s: the mmap is started; stop it first", call);
}

int weir_mmap_set_memrange(struct weir_mmap *mmap, void *addr, size_t len)
{
	int err = refuse_started(mmap, "weir_mmap_set_memrange");

	if (err)
		return err;
	if (!addr || !len || (uintptr_t)addr + len - 1 < (uintptr_t)addr)
		return why(-EINVAL,
			   "weir_mmap_set_memrange: no range: %zu bytes at %p",
			   len, addr);
	if (mmap->addr)
		return why(-EPERM,
			   "weir_mmap_set_memrange: the mmap has a range");
	mmap->addr = addr;
	mmap->len = len;
	return 0;
}

int weir_mmap_set_permissions(struct weir_mmap *mmap, uint32_t permissions)
{
	int err = refuse_started(mmap, "weir_mmap_set_permissions");

	if (err)
		return err;
	if (permissions & ~(WEIR_MMAP_READ | WEIR_MMAP_WRITE))
		return why(-EINVAL, "weir_mmap_set_permissions: unknown bits in "
			   "%x", permissions);
	mmap->permissions = permissions | WEIR_MMAP_READ;
	return 0;
}

int weir_mmap_set_free_cb(struct weir_mmap *mmap, weir_mmap_free_fn *fn,
			  void *arg)
{
	int err = refuse_started(mmap, "weir_mmap_set_free_cb");

	if (err)
		return err;
	mmap->free_fn = fn;
	mmap->free_arg = arg;
	return 0;
}

int weir_mmap_set_user_data(struct weir_mmap *mmap, void *data)
{
	int err = refuse_started(mmap, "weir_mmap_set_user_data");

	if (!err)
		mmap->user_data = data;
	return err;
}

void *weir_mmap_user_data(const struct weir_mmap *mmap)
{
	return mmap->user_data;
}

int weir_mmap_start(struct weir_mmap *mmap)
{
	if (!mmap->addr)
		return why(-EINVAL, "weir_mmap_start: the mmap has no range; "
			   "see weir_mmap_set_memrange()");
	mmap->was_started = true;
	atomic_store_explicit(&mmap->state, WEIR_MMAP_STARTED,
			      memory_order_release);
	return 0;
}

/* Why it cannot be stopped now, or 0.  Under the lock. */
static int refuse_busy(struct weir_mmap *mmap)
{
	struct mmap_use *use;
	struct mmap_link *link;
	unsigned long n;

	for (use = mmap->uses; use; use = use->next) {
		n = atomic_load_explicit(&use->n_bufs, memory_order_relaxed);
		if (n)
			return why(-EBUSY, "weir_mmap_stop: %lu bufs of the "
				   "mmap are out", n);
		if (!pthread_equal(use->r->thread, pthread_self()))
			return why(-EBUSY, "weir_mmap_stop: a reactor of "
				   "another thread has the mmap attached; "
				   "detach it there first");
		for (link = use->links; link; link = link->next)
			if (link->is_pool)
				return why(-EBUSY, "weir_mmap_stop: a pool is "
					   "made of the mmap; destroy it first");
	}
	return 0;
}

static void use_free(struct mmap_use *use)
{
	if (use->index >= 0)
		use->r->backend->buf_unregister(use->r, use->index);
	free(use);
}

static void do_stop(struct weir_mmap *mmap)
{
	struct mmap_use *use;
	struct mmap_link *link;

	while ((use = mmap->uses)) {
		mmap->uses = use->next;
		for (link = use->links; link; link = link->next)
			link->use = NULL;
		use_free(use);
	}
	atomic_store_explicit(&mmap->state, WEIR_MMAP_STOPPED,
			      memory_order_release);
}

static const struct weir_op_class stop_class = { .name = "mmap stop" };

int weir_mmap_stop(struct weir_mmap *mmap, struct weir_reactor *r,
		   struct weir_op *op)
{
	int err;

	pthread_mutex_lock(&mmap->lock);
	err = refuse_busy(mmap);
	if (!err && op)
		err = op_begin(r, op, &stop_class);
	if (!err)
		do_stop(mmap);
	pthread_mutex_unlock(&mmap->lock);
	if (!err && op)
		op_complete(op, 0);
	return err;
}

int weir_mmap_destroy(struct weir_mmap *mmap)
{
	int err;

	if (!mmap)
		return 0;
	err = weir_mmap_stop(mmap, NULL, NULL);
	if (err)
		return err;
	if (mmap->free_fn && mmap->was_started)
		mmap->free_fn(mmap->addr, mmap->len, mmap->free_arg);
	domain_unuse(mmap->domain);
	pthread_mutex_destroy(&mmap->lock);
	free(mmap);
	return 0;
}

int weir_mmap_state(const struct weir_mmap *mmap)
{
	return atomic_load_explicit(&mmap->state, memory_order_acquire);
}

int weir_mmap_memrange(const struct weir_mmap *mmap, void **addr, size_t *len)
{
	if (!mmap->addr)
		return -ENOENT;
	if (addr)
		*addr = mmap->addr;
	if (len)
		*len = mmap->len;
	return 0;
}

uint32_t weir_mmap_permissions(const struct weir_mmap *mmap)
{
	return mmap->permissions;
}

uint64_t weir_mmap_num_bufs(const struct weir_mmap *cmmap)
{
	struct weir_mmap *mmap = (struct weir_mmap *)cmmap;
	struct mmap_use *use;
	uint64_t n = 0;

	pthread_mutex_lock(&mmap->lock);
	for (use = mmap->uses; use; use = use->next)
		n += atomic_load_explicit(&use->n_bufs, memory_order_relaxed);
	pthread_mutex_unlock(&mmap->lock);
	return n;
}

static struct mmap_use *find_use(struct weir_mmap *mmap, struct weir_reactor *r)
{
	struct mmap_use *use;

	for (use = mmap->uses; use && use->r != r; use = use->next)
		;
	return use;
}

int64_t weir_mmap_registered(struct weir_mmap *mmap, struct weir_reactor *r,
			     const char **ret_why)
{
	struct mmap_use *use;

	pthread_mutex_lock(&mmap->lock);
	use = find_use(mmap, r);
	pthread_mutex_unlock(&mmap->lock);
	if (!use)
		return -ENOENT;
	if (ret_why)
		*ret_why = use->why;
	return (int64_t)use->registered;
}

static void say_why(struct mmap_use *use, int err)
{
	const char *name = use->r->backend->name;
	size_t len = use->mmap->len;
	struct rlimit lim;

	if (err == -EOPNOTSUPP)
		snprintf(use->why, sizeof(use->why),
			 "backend %s has no registered memory", name);
	else if (err == -ENOMEM && !getrlimit(RLIMIT_MEMLOCK, &lim))
		snprintf(use->why, sizeof(use->why),
			 "%s has registered %zu of %zu bytes: the limit of "
			 "locked memory is %llu KiB; raise it with ulimit -l "
			 "or LimitMEMLOCK=", name, use->registered, len,
			 (unsigned long long)lim.rlim_cur >> 10);
	else if (err)
		snprintf(use->why, sizeof(use->why),
			 "%s has registered %zu of %zu bytes: errno %d", name,
			 use->registered, len, -err);
	else if (use->registered < len)
		snprintf(use->why, sizeof(use->why),
			 "%s registers at most 1 GiB in one piece", name);
}

/* As much as the limits allow: half, a quarter, ... of what is refused. */
static void use_register(struct mmap_use *use)
{
	struct weir_mmap *mmap = use->mmap;
	struct iovec iov = { .iov_base = mmap->addr, .iov_len = mmap->len };
	int err = 0, index;

	use->tried = true;
	use->why[0] = '\0';
	if (iov.iov_len > REGISTER_MAX)
		iov.iov_len = REGISTER_MAX;
	for (;;) {
		index = use->r->backend->buf_register(use->r, &iov);
		if (index >= 0)
			break;
		err = index;
		iov.iov_len = iov.iov_len / 2 & ~(PAGE - 1);
		if (err != -ENOMEM || iov.iov_len < REGISTER_MIN)
			break;
	}
	if (index >= 0) {
		use->index = index;
		use->registered = iov.iov_len;
	}
	say_why(use, err);
}

static struct mmap_use *use_create(struct weir_mmap *mmap,
				   struct weir_reactor *r)
{
	struct mmap_use *use = mem_calloc(1, sizeof(*use));

	if (!use)
		return NULL;
	use->mmap = mmap;
	use->r = r;
	use->index = -1;
	snprintf(use->why, sizeof(use->why), "not asked for");
	use->next = mmap->uses;
	mmap->uses = use;
	return use;
}

int mmap_attach(struct weir_mmap *mmap, struct weir_reactor *r,
		struct mmap_link *link, bool may_register)
{
	struct mmap_use *use;
	int err = 0;

	pthread_mutex_lock(&mmap->lock);
	use = find_use(mmap, r);
	if (!is_started(mmap))
		err = why(-EBADFD, "the mmap is not started");
	else if (!use)
		use = use_create(mmap, r);
	if (!err && !use)
		err = why(-ENOMEM, "no memory to attach the mmap");
	if (!err && may_register && !use->tried)
		use_register(use);
	if (!err) {
		link->use = use;
		link->next = use->links;
		link->pprev = &use->links;
		if (use->links)
			use->links->pprev = &link->next;
		use->links = link;
	}
	pthread_mutex_unlock(&mmap->lock);
	return err;
}

void mmap_detach(struct mmap_link *link)
{
	struct mmap_use *use = link->use;
	struct weir_mmap *mmap = use->mmap;
	struct mmap_use **p;

	pthread_mutex_lock(&mmap->lock);
	*link->pprev = link->next;
	if (link->next)
		link->next->pprev = link->pprev;
	link->use = NULL;
	if (!use->links) {
		for (p = &mmap->uses; *p != use; p = &(*p)->next)
			;
		*p = use->next;
		use_free(use);
	}
	pthread_mutex_unlock(&mmap->lock);
}
