/* SPDX-License-Identifier: BSD-3-Clause */
/* Mmaps by reactor: attach, register as far as limits allow, detach. */

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

#define PIECE ((size_t)1 << 30)

/* A smaller rest of the limit is not worth a look-up.  Pieces end at multiples
 * of this, so that few bufs cross their borders. */
#define REGISTER_MIN ((size_t)64 << 10)

/* A retry runs in a turn: milliseconds for a range in small pages. */
#define RETRY_MAX ((size_t)128 << 20)

/* The most pieces of a use: those of the range, and smaller ones near the
 * limits. */
#define PIECES_MAX 512
#define PIECES_EXTRA 32

/* Retry after 1, 2, 4, ... ms, this many times: four seconds in all. */
#define RETRIES_MAX 12
#define RETRY_NS UINT64_C(1000000)

/* An mmap that gave up its registration for a pool skips the first retries, so
 * that the pool's come first. */
#define RETRY_AFTER_POOLS 4

static void drop_pieces(struct mmap_use *use)
{
	struct weir_reactor *r = use->r;

	debug_check(mutex_is_held(&use->mmap->lock));
	if (mmap_is_inherited(use->mmap))
		use->n_pieces = 0;
	while (use->n_pieces)
		r->backend->buf_unregister(r,
					   use->pieces[--use->n_pieces].index);
	use->registered = 0;
}

void mmap_use_drop(struct mmap_use *use)
{
	struct weir_reactor *r = use->r;
	struct mmap_link *link;
	struct mmap_use **p;

	debug_check(mutex_is_held(&use->mmap->lock));
	for (p = &use->mmap->uses; *p != use; p = &(*p)->next)
		;
	*p = use->next;
	for (link = use->links; link; link = link->next)
		link->use = NULL;
	wheel_del(&r->wheel, &use->retry);
	if (use->pprev_of_r) {
		*use->pprev_of_r = use->next_of_r;
		if (use->next_of_r)
			use->next_of_r->pprev_of_r = use->pprev_of_r;
		use->pprev_of_r = NULL;
	}
	drop_pieces(use);
	if (use->mmap->import && use->mmap->import->unclaim)
		use->mmap->import->unclaim(use);
}

/* It is in no list, so no thread sends its deferred call any more. */
void mmap_use_free(struct mmap_use *use)
{
	if (atomic_load(&use->deferred.sent))
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
		return why(-ENOENT, "weir_mmap_registered: nothing of the "
			   "reactor has attached the mmap");
	if (ret_why)
		*ret_why = use->why;
	return (int64_t)use->registered;
}

static uint32_t max_pieces(const struct weir_mmap *mmap)
{
	size_t n = (mmap->len - 1) / RETRY_MAX + 1;

	return (n < PIECES_MAX ? (uint32_t)n : PIECES_MAX) + PIECES_EXTRA;
}

int mmap_use_find(const struct mmap_use *use, size_t off, size_t last)
{
	uint32_t low = 0, high = use->n_pieces, mid;

	debug_check(off <= last);
	while (low < high) {
		mid = low + (high - low) / 2;
		if (use->pieces[mid].end <= off)
			low = mid + 1;
		else
			high = mid;
	}
	return last < use->pieces[low].end ? use->pieces[low].index + 1 : 0;
}

/* What prevented the registration, and the remedy. */
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
		return "the rest follows in later turns";
	case -ENOSPC:
		return "a range has no more pieces; make more mmaps";
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

/* Register the next @len bytes. */
static int register_piece(struct mmap_use *use, size_t len)
{
	struct weir_reactor *r = use->r;
	struct iovec iov = {
		.iov_base = use->mmap->addr + use->registered,
		.iov_len = len,
	};
	int index = r->backend->buf_register(r, &iov);

	debug_check(len > 0 && use->registered + len <= use->mmap->len);
	if (index < 0)
		return index;
	use->registered += len;
	use->pieces[use->n_pieces].end = use->registered;
	use->pieces[use->n_pieces++].index = index;
	return 0;
}

/*
 * Register up to @max more bytes.  If the kernel refuses, try half, a quarter,
 * and so on, until nothing more fits.  Returns 0, or why it registered less;
 * -ENOSPC: there are too many pieces.
 */
static int register_more(struct mmap_use *use, size_t max)
{
	size_t left = use->mmap->len - use->registered, try = PIECE;
	int err = 0;

	debug_check(mutex_is_held(&use->mmap->lock));
	if (left > max)
		left = max;
	while (left && use->n_pieces < use->max_pieces) {
		if (try > left)
			try = left;
		err = register_piece(use, try);
		if (!err) {
			left -= try;
			continue;
		}
		if (err != -ENOMEM || try <= REGISTER_MIN)
			break;
		try = try / 2 & ~(REGISTER_MIN - 1);
		if (try < REGISTER_MIN)
			try = REGISTER_MIN;
	}
	return !err && left ? -ENOSPC : err;
}

/* Only a limit may allow more soon: other users release memory, and the kernel
 * uncharges an ended process late.  No other failure is worth a retry. */
static void retry_later(struct mmap_use *use, int err)
{
	struct weir_reactor *r = use->r;

	debug_check(mutex_is_held(&use->mmap->lock));
	if (use->registered == use->mmap->len || use->retries >= RETRIES_MAX ||
	    (err && err != -ENOMEM && err != -ENOBUFS))
		return;
	wheel_rearm(&r->wheel, &use->retry,
		    reactor_now(r) + (RETRY_NS << use->retries));
	reactor_touch(r);
}

static bool has_pool(const struct mmap_use *use)
{
	const struct mmap_link *link;

	for (link = use->links; link; link = link->next)
		if (link->is_pool)
			return true;
	return false;
}

/*
 * Drop the registration of another mmap on this reactor that has no pool and no
 * buf out, so nothing holds an index of it.  Its lock is the second one taken
 * here, so only try it.
 */
static bool make_capacity(const struct mmap_use *use)
{
	struct weir_reactor *r = use->r;
	struct mmap_use *other;
	bool done = false;

	for (other = r->mmap_uses; other && !done; other = other->next_of_r) {
		if (other == use || !other->registered ||
		    atomic_load_explicit(&other->n_bufs, memory_order_relaxed) ||
		    pthread_mutex_trylock(&other->mmap->lock))
			continue;
		done = !has_pool(other);
		if (done) {
			drop_pieces(other);
			snprintf(other->why, sizeof(other->why),
				 "a pool of this reactor comes first");
			other->retries = RETRY_AFTER_POOLS;
			retry_later(other, 0);
		}
		pthread_mutex_unlock(&other->mmap->lock);
	}
	return done;
}

/* Pools have priority: their buffers are in constant use. */
static void register_up_to(struct mmap_use *use, size_t max)
{
	struct mmap_link *link;
	size_t had = use->registered;
	int err;

	debug_check(use->registered <= use->mmap->len);
	do {
		err = register_more(use, max - (use->registered - had));
	} while (err == -ENOMEM && has_pool(use) && make_capacity(use));
	use->retries = use->registered > had ? 0 : use->retries + 1;
	use->why[0] = '\0';
	say_why(use, err);
	retry_later(use, err);
	for (link = use->links; link && use->registered > had;
	     link = link->next)
		if (link->more)
			link->more(link, had);
}

static void use_retry(struct weir_timer_node *node)
{
	struct mmap_use *use = weir_container_of(node, struct mmap_use, retry);
	struct weir_mmap *mmap = use->mmap;

	pthread_mutex_lock(&mmap->lock);
	register_up_to(use, RETRY_MAX);
	pthread_mutex_unlock(&mmap->lock);
}

/* At the first attach, and again with each new user. */
static void use_register(struct mmap_use *use)
{
	struct weir_reactor *r = use->r;

	debug_check(mutex_is_held(&use->mmap->lock));
	use->tried = true;
	if (use->registered == use->mmap->len)
		return;
	if (!use->mmap->cpu) {
		say_why(use, -ENXIO);
		return;
	}
	if (!use->pprev_of_r) {
		use->next_of_r = r->mmap_uses;
		use->pprev_of_r = &r->mmap_uses;
		if (use->next_of_r)
			use->next_of_r->pprev_of_r = &use->next_of_r;
		r->mmap_uses = use;
	}
	use->retries = 0;
	register_up_to(use, SIZE_MAX);
}

static struct mmap_use *use_create(struct weir_mmap *mmap,
				   struct weir_reactor *r)
{
	uint32_t n = max_pieces(mmap);
	struct mmap_use *use = mem_calloc(1, sizeof(*use) +
					  n * sizeof(use->pieces[0]));

	if (!use)
		return NULL;
	use->max_pieces = n;
	use->retry.fire = use_retry;
	use->mmap = mmap;
	use->r = r;
	deferred_init(&use->deferred, r, mmap_use_visit);
	snprintf(use->why, sizeof(use->why), "not asked for");
	use->next = mmap->uses;
	mmap->uses = use;
	if (mmap->import && mmap->import->claim)
		mmap->import->claim(use);
	return use;
}

int mmap_attach(struct weir_mmap *mmap, struct weir_reactor *r,
		struct mmap_link *link, bool may_register, const char *call)
{
	struct mmap_use *use;
	int err = 0;

	pthread_mutex_lock(&mmap->lock);
	use = find_use(mmap, r);
	if (!mmap_is_started(mmap))
		err = why(-EBADFD, "%s: the mmap is not started; see "
			  "weir_mmap_start()", call);
	else if (mmap_stale(mmap))
		err = why(-ESTALE, "%s: the exporter has revoked the mmap",
			  call);
	else if (!use)
		use = use_create(mmap, r);
	if (!err && !use)
		err = why(-ENOMEM, "%s: no memory to attach the mmap", call);
	if (!err) {
		link->use = use;
		link->next = use->links;
		link->pprev = &use->links;
		if (use->links)
			use->links->pprev = &link->next;
		use->links = link;
	}
	if (!err && may_register)
		use_register(use);
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
