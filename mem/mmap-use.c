/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/* Mmaps by reactor: attached, registered as far as there is room, detached. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/uio.h>

#include "base/alloc.h"
#include "base/why.h"
#include "mem/mmap-internal.h"
#include "reactor/reactor-internal.h"

#define PIECE ((size_t)1 << MMAP_PIECE_SHIFT)

/* Below this, what is left of the limit is not worth a look-up. */
#define REGISTER_MIN ((size_t)64 << 10)

#define PAGE ((size_t)4096)

void mmap_use_drop(struct mmap_use *use)
{
	struct weir_reactor *r = use->r;
	struct mmap_link *link;
	struct mmap_use **p;
	uint32_t i;

	for (p = &use->mmap->uses; *p != use; p = &(*p)->next)
		;
	*p = use->next;
	for (link = use->links; link; link = link->next)
		link->use = NULL;
	for (i = 0; i < use->n_pieces; i++)
		r->backend->buf_unregister(r, use->index[i]);
}

/* Nobody sends its errand any more, for it is in no list. */
void mmap_use_free(struct mmap_use *use)
{
	if (atomic_load(&use->errand.sent))
		use->dead = true;
	else
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

static uint32_t n_pieces(const struct weir_mmap *mmap)
{
	size_t n = (mmap->len - 1) / PIECE + 1;

	return n < MMAP_PIECES_MAX ? (uint32_t)n : MMAP_PIECES_MAX;
}

/* What stood in the way, and what would help. */
static const char *reason(int err)
{
	switch (err) {
	case -ENXIO:
		return "it has no addresses of this process";
	case -EFAULT:
		return "the kernel cannot pin it: a part is not there, cannot "
		       "be written, or is shared with a file; memory that is "
		       "private or of a memfd can be registered";
	case -ENOBUFS:
		return "all places for registered buffers are taken; attach "
		       "fewer mmaps on this reactor";
	case 0:
		return "that many pieces of 1 GiB at most; make more mmaps";
	default:
		return strerror(-err);
	}
}

static void say_why(struct mmap_use *use, int err)
{
	const char *name = use->r->backend->name;
	size_t len = use->mmap->len;
	struct rlimit lim;

	if (use->registered == len)
		return;
	if (err == -EOPNOTSUPP)
		snprintf(use->why, sizeof(use->why),
			 "backend %s has no registered memory", name);
	else if (err == -ENOMEM && !getrlimit(RLIMIT_MEMLOCK, &lim))
		snprintf(use->why, sizeof(use->why),
			 "%s has registered %zu of %zu bytes: the limit of "
			 "locked memory is %llu KiB; raise it with ulimit -l "
			 "or LimitMEMLOCK=", name, use->registered, len,
			 (unsigned long long)lim.rlim_cur >> 10);
	else
		snprintf(use->why, sizeof(use->why),
			 "%s has registered %zu of %zu bytes: %s", name,
			 use->registered, len, reason(err));
}

/* As much of @iov as the limits allow: half, a quarter, ... of what is refused.
 * Returns 0, or why it is less than all. */
static int register_piece(struct mmap_use *use, struct iovec *iov)
{
	struct weir_reactor *r = use->r;
	int index, err = 0;

	for (;;) {
		index = r->backend->buf_register(r, iov);
		if (index >= 0)
			break;
		err = index;
		iov->iov_len = iov->iov_len / 2 & ~(PAGE - 1);
		if (err != -ENOMEM || iov->iov_len < REGISTER_MIN)
			return err;
	}
	use->index[use->n_pieces++] = index;
	use->registered += iov->iov_len;
	return err;
}

static void use_register(struct mmap_use *use)
{
	struct weir_mmap *mmap = use->mmap;
	uint32_t max = n_pieces(mmap);
	struct iovec iov;
	size_t left;
	int err = 0;

	use->tried = true;
	use->why[0] = '\0';
	if (!mmap->cpu)
		err = -ENXIO;
	while (!err && use->n_pieces < max) {
		left = mmap->len - use->registered;
		iov.iov_base = mmap->addr + use->registered;
		iov.iov_len = left < PIECE ? left : PIECE;
		err = register_piece(use, &iov);
	}
	say_why(use, err);
}

static struct mmap_use *use_create(struct weir_mmap *mmap,
				   struct weir_reactor *r)
{
	struct mmap_use *use = mem_calloc(1, sizeof(*use) +
				n_pieces(mmap) * sizeof(use->index[0]));

	if (!use)
		return NULL;
	use->mmap = mmap;
	use->r = r;
	errand_init(&use->errand, r, mmap_use_visit);
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
	else if (mmap_stale(mmap))
		err = why(-ESTALE, "its exporter has revoked the mmap");
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

void mmap_register(struct mmap_link *link)
{
	struct weir_mmap *mmap = link->use->mmap;

	pthread_mutex_lock(&mmap->lock);
	if (!link->use->tried)
		use_register(link->use);
	pthread_mutex_unlock(&mmap->lock);
}

void mmap_detach(struct mmap_link *link)
{
	struct mmap_use *use = link->use;
	struct weir_mmap *mmap = use->mmap;
	bool last;

	pthread_mutex_lock(&mmap->lock);
	*link->pprev = link->next;
	if (link->next)
		link->next->pprev = link->pprev;
	link->use = NULL;
	last = !use->links;
	if (last) {
		mmap_use_leaves(use);
		mmap_use_drop(use);
	}
	pthread_mutex_unlock(&mmap->lock);
	if (last)
		mmap_use_free(use);
}
