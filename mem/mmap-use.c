/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/* Mmaps by reactor: attached, registered as far as there is room, detached. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/uio.h>

#include "base/alloc.h"
#include "base/why.h"
#include "mem/mmap-internal.h"
#include "reactor/reactor-internal.h"

/* The kernel's bound for one registered buffer. */
#define REGISTER_MAX ((size_t)1 << 30)

/* Below this, what is left of the limit is not worth a look-up. */
#define REGISTER_MIN ((size_t)64 << 10)

#define PAGE ((size_t)4096)

void mmap_use_free(struct mmap_use *use)
{
	if (use->index >= 0)
		use->r->backend->buf_unregister(use->r, use->index);
	free(use);
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
	if (!mmap_is_started(mmap))
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
		mmap_use_free(use);
	}
	pthread_mutex_unlock(&mmap->lock);
}
