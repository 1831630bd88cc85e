/* SPDX-License-Identifier: BSD-3-Clause */
/* Pools: the cache of one reactor, and the calls of users. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "base/why.h"
#include "mem/shared-pool-internal.h"
#include "mem/tags.h"
#include "reactor/op-inline.h"

/* What a pool has, where it is, and its holders. */

struct weir_mmap *weir_pool_mmap(const struct weir_pool *pool)
{
	return pool->shared_pool->classes[0].slabs[0].mmap;
}

struct weir_reactor *weir_pool_reactor(const struct weir_pool *pool)
{
	return pool->r;
}

size_t weir_pool_buf_size(const struct weir_pool *pool)
{
	return pool->shared_pool->classes[0].buf_size;
}

static void add_up(struct weir_pool_stats *stats, const struct pool_class *pc)
{
	const struct shared_pool_class *cls = pc->cls;
	uint32_t i;

	stats->total += pc->owned;
	stats->free += pc->free_list.n_free;
	stats->in_transit += pc->transit;
	stats->waiting += pc->waiting;
	stats->gets += pc->gets;
	stats->empty += pc->empty;
	stats->refills += pc->refills;
	stats->flushes += pc->flushes;
	for (i = 0; i < cls->n_slabs; i++) {
		stats->registered += pc->links[i]->use->registered;
		stats->huge |= cls->slabs[i].transparent ||
			       cls->slabs[i].page_size > 4096;
	}
}

void pool_add_up(const struct weir_pool *pool, struct weir_pool_stats *stats)
{
	uint32_t i;

	reactor_check_thread(pool->r);
	for (i = 0; i < pool->n_classes; i++)
		add_up(stats, &pool->classes[i]);
	stats->out = stats->total - stats->free - stats->in_transit;
}

int weir_pool_stats(const struct weir_pool *pool, struct weir_pool_stats *ret)
{
	struct weir_pool_stats stats = { .size = sizeof(stats) };

	shared_pool_lock(pool->shared_pool);
	pool_add_up(pool, &stats);
	shared_pool_unlock(pool->shared_pool);
	return opts_give(ret, &stats, sizeof(stats), "weir_pool_stats");
}

static void count_slab(const struct pool_class *pc,
		       const struct shared_pool_slab *slab, struct tags *tags)
{
	uint32_t i;

	for (i = 0; i < slab->n; i++)
		if (slab->bufs[i].free_list == &pc->free_list &&
		    slab->bufs[i].state != BUF_FREE)
			tags_add(tags, &slab->bufs[i]);
}

/* A buf's owner changes under the lock; the state of this pool's bufs belongs
 * to this thread. */
static void pool_count_tags(const struct weir_pool *pool, struct tags *tags)
{
	const struct pool_class *pc = pool->classes;
	uint32_t i, j;

	shared_pool_lock(pool->shared_pool);
	for (i = 0; i < pool->n_classes; i++, pc++)
		for (j = 0; j < pc->cls->n_slabs; j++)
			count_slab(pc, &pc->cls->slabs[j], tags);
	shared_pool_unlock(pool->shared_pool);
}

uint32_t weir_pool_owners(const struct weir_pool *pool,
			  struct weir_buf_owner *ret, uint32_t max)
{
	struct tags tags = { 0 };

	pool_count_tags(pool, &tags);
	tags_sort(&tags);
	if (max > tags.n)
		max = tags.n;
	memcpy(ret, tags.owner, max * sizeof(ret[0]));
	return tags.n;
}

/*
 * Pools: a reactor's cache of a shared pool's buffers.
 *
 * A hit takes no lock and no locked instruction: it checks whether a buffer is
 * cached and whether an operation waits.  Everything else is in
 * shared-pool-move.c.
 */

#define BUFS_DEFAULT 64
#define BUF_SIZE_DEFAULT ((size_t)64 << 10)
#define CACHE_DEFAULT 32
#define KNOWN_FLAGS (WEIR_POOL_NO_REGISTER | WEIR_POOL_NO_HUGE | \
		     WEIR_POOL_NO_CACHE)

static int check_cache(struct weir_shared_pool *shared_pool, uint32_t cache)
{
	unsigned long long total;
	uint32_t i;

	for (i = 0; i < shared_pool->n_classes; i++) {
		shared_pool_lock(shared_pool);
		total = shared_pool->classes[i].total;
		shared_pool_unlock(shared_pool);
		if (cache > total)
			return why(-EINVAL,
				   "weir_pool_create: .cache of %u is "
				   "more than the %llu buffers of %zu bytes",
				   cache, total,
				   shared_pool->classes[i].buf_size);
	}
	return 0;
}

/* With a shared pool, the shared pool has all options that describe buffers. */
static int check_shared(const struct weir_pool_opts *opts)
{
	if (opts->bufs || opts->buf_size || opts->align || opts->mmap ||
	    opts->flags & WEIR_POOL_NO_HUGE)
		return why(-EINVAL, "weir_pool_create: .bufs, .buf_size, "
			   ".align, .mmap and WEIR_POOL_NO_HUGE are the "
			   "shared pool's; omit them, or .shared_pool");
	if (opts->flags & WEIR_POOL_NO_CACHE && opts->cache)
		return why(-EINVAL, "weir_pool_create: .cache with "
			   "WEIR_POOL_NO_CACHE");
	return check_cache(opts->shared_pool, opts->cache);
}

static int load_opts(struct weir_pool_opts *opts,
		     const struct weir_pool_opts *user)
{
	int err = opts_load(opts, sizeof(*opts), user, "weir_pool_create");

	if (err)
		return err;
	if (opts->reserved || opts->reserved1)
		return why(-E2BIG, "weir_pool_create: .reserved is unknown to "
			   "this version");
	if (opts->flags & ~KNOWN_FLAGS)
		return why(-EINVAL, "weir_pool_create: unknown .flags %x",
			   opts->flags);
	if (opts->shared_pool)
		return check_shared(opts);
	if (opts->cache || opts->flags & WEIR_POOL_NO_CACHE)
		return why(-EINVAL, "weir_pool_create: .cache is for a pool "
			   "with .shared_pool; any other caches "
			   "everything");
	if (!opts->buf_size)
		opts->buf_size = BUF_SIZE_DEFAULT;
	if (!opts->align)
		opts->align = SHARED_POOL_ALIGN_DEFAULT;
	if (!opts->bufs && !opts->mmap)
		opts->bufs = BUFS_DEFAULT;
	return shared_pool_check_sizes("weir_pool_create", opts->buf_size,
				       opts->align, opts->bufs);
}

/* Check the caller's mmap, and how many buffers fit into it. */
static int fit_mmap(const struct shared_pool_class *cls,
		    struct weir_pool_opts *opts)
{
	struct weir_mmap *mmap = opts->mmap;
	size_t skip = (size_t)-(uintptr_t)mmap->addr & (opts->align - 1);
	size_t capacity, fit = 0;

	if (weir_mmap_state(mmap) != WEIR_MMAP_STARTED)
		return why(-EBADFD, "weir_pool_create: .mmap is not started");
	if (!(mmap->permissions & WEIR_MMAP_WRITE))
		return why(-EINVAL, "weir_pool_create: .mmap is not writable");
	capacity = mmap->len > skip ? mmap->len - skip : 0;
	if (capacity >= opts->buf_size)
		fit = (capacity - opts->buf_size) / shared_pool_stride(cls) + 1;
	if (!opts->bufs)
		opts->bufs = fit > SHARED_POOL_BUFS_MAX ? SHARED_POOL_BUFS_MAX :
							  (uint32_t)fit;
	if (!fit || fit < opts->bufs)
		return why(-ERANGE, "weir_pool_create: .mmap has space for %zu "
			   "buffers of %zu bytes", fit, opts->buf_size);
	return 0;
}

/* A shared pool that only this pool uses. */
static int make_shared_pool(struct weir_shared_pool **ret,
			    struct weir_pool_opts *opts)
{
	struct weir_shared_pool *shared_pool = shared_pool_alloc(1, false);
	struct shared_pool_class *cls;
	int err = 0;

	if (!shared_pool)
		return why(-ENOMEM, "weir_pool_create: no memory");
	if (opts->flags & WEIR_POOL_NO_HUGE)
		shared_pool->flags = WEIR_SHARED_POOL_NO_HUGE;
	cls = shared_pool->classes;
	cls->buf_size = opts->buf_size;
	cls->align = opts->align;
	if (opts->mmap)
		err = fit_mmap(cls, opts);
	if (!err)
		err = shared_pool_add(cls, opts->bufs, opts->mmap,
				      "weir_pool_create");
	if (err)
		shared_pool_free(shared_pool);
	else
		*ret = shared_pool;
	return err;
}

/* A buffer has been returned. */
static void returned(struct buf_free_list *free_list, struct weir_buf *buf)
{
	struct pool_class *pc =
		weir_container_of(free_list, struct pool_class, free_list);

	free_list_push(free_list, buf);
	if (unlikely(free_list->n_free > pc->cache_max ||
		     shared_pool_has_waiters(pc->cls)))
		shared_pool_give(pc);
}

static void detach_slabs(struct weir_pool *pool)
{
	struct pool_class *pc = pool->classes;
	uint32_t i, j;

	for (i = 0; i < pool->n_classes; i++, pc++)
		for (j = 0; j < SHARED_POOL_SLABS_MAX && pc->links[j]; j++) {
			mmap_detach(pc->links[j]);
			free(pc->links[j]);
			pc->links[j] = NULL;
		}
}

static int attach_slab(struct pool_class *pc, uint32_t which)
{
	struct mmap_link *link = shared_pool_make_link(pc, which);
	int err;

	if (!link)
		return why(-ENOMEM, "weir_pool_create: no memory");
	err = mmap_attach(pc->cls->slabs[which].mmap, pc->pool->r, link,
			  pc->pool->may_register, "weir_pool_create");
	if (err)
		free(link);
	else
		pc->links[which] = link;
	return err;
}

static int attach_slabs(struct weir_pool *pool)
{
	struct pool_class *pc = pool->classes;
	uint32_t i, j;
	int err = 0;

	for (i = 0; i < pool->n_classes && !err; i++, pc++)
		for (j = 0; j < pc->cls->n_slabs && !err; j++)
			err = attach_slab(pc, j);
	if (err)
		detach_slabs(pool);
	return err;
}

static void on_stop(struct reactor_obj *obj)
{
	shared_pool_stop_caching(weir_container_of(obj, struct weir_pool, obj));
}

static void on_start(struct reactor_obj *obj)
{
	shared_pool_start_caching(
		weir_container_of(obj, struct weir_pool, obj));
}

static struct weir_pool *pool_alloc(struct weir_reactor *r,
				    struct weir_shared_pool *shared_pool,
				    const struct weir_pool_opts *opts)
{
	uint32_t n = shared_pool->n_classes, i;
	struct weir_pool *pool = mem_aligned(_Alignof(struct weir_pool),
		sizeof(*pool) + n * sizeof(pool->classes[0]));
	struct pool_class *pc;

	if (!pool)
		return NULL;
	pool->r = r;
	pool->shared_pool = shared_pool;
	pool->may_register = !(opts->flags & WEIR_POOL_NO_REGISTER);
	pool->waiters_max = opts->waiters_max;
	pool->cache_max = !shared_pool->shared             ? UINT64_MAX :
			  opts->flags & WEIR_POOL_NO_CACHE ? 0 :
			  opts->cache                      ? opts->cache :
							     CACHE_DEFAULT;
	pool->n_classes = n;
	op_queue_init(&pool->outside);
	deferred_init(&pool->deferred, r, shared_pool_deferred);
	for (i = 0; i < n; i++) {
		pc = &pool->classes[i];
		free_list_init(&pc->free_list, r);
		pc->free_list.returned = returned;
		pc->cls = &shared_pool->classes[i];
		pc->pool = pool;
		pc->cache_max = pool->cache_max;
	}
	return pool;
}

/* Under the shared pool's control lock, so that it does not grow meanwhile. */
static int enter(struct weir_pool *pool)
{
	int err = attach_slabs(pool);

	if (err)
		return err;
	err = reactor_attach(pool->r, &pool->obj, "weir_pool");
	if (err) {
		detach_slabs(pool);
		return err;
	}
	pool->obj.stop = on_stop;
	pool->obj.start = on_start;
	shared_pool_enter(pool);
	if (!pool->shared_pool->shared)
		check(shared_pool_refill(pool->classes,
					 pool->classes->cls->n_free));
	pool_publish(pool);
	return 0;
}

int weir_pool_create(struct weir_pool **ret, struct weir_reactor *r,
		     const struct weir_pool_opts *user)
{
	struct weir_pool_opts opts;
	struct weir_shared_pool *shared_pool;
	struct weir_pool *pool;
	int err;

	err = load_opts(&opts, user);
	if (err)
		return err;
	shared_pool = opts.shared_pool;
	/* Segment callbacks may try to destroy @r. */
	reactor_enter(r);
	if (!shared_pool)
		err = make_shared_pool(&shared_pool, &opts);
	reactor_exit(r);
	if (err)
		return err;
	pool = pool_alloc(r, shared_pool, &opts);
	if (pool) {
		pthread_mutex_lock(&shared_pool->control);
		err = enter(pool);
		pthread_mutex_unlock(&shared_pool->control);
	} else {
		err = why(-ENOMEM, "weir_pool_create: no memory");
	}
	if (!err) {
		*ret = pool;
		return 0;
	}
	free(pool);
	if (!shared_pool->shared)
		shared_pool_free(shared_pool);
	return err;
}

static void bring_back(struct weir_pool *pool)
{
	uint32_t i;

	for (i = 0; i < pool->n_classes; i++)
		free_list_collect(&pool->classes[i].free_list);
}

static bool is_busy(struct weir_pool *pool)
{
	struct weir_pool_stats st = { .size = sizeof(st) };

	weir_pool_stats(pool, &st);
	return st.out || st.waiting || st.in_transit;
}

static int refuse_busy(struct weir_pool *pool)
{
	struct weir_pool_stats st = { .size = sizeof(st) };
	struct tags tags = { 0 };

	pool_count_tags(pool, &tags);
	weir_pool_stats(pool, &st);
	return why(-EBUSY, "weir_pool_destroy: %llu buffers are out%s and %llu "
		   "operations wait", (unsigned long long)st.out,
		   tags_text(&tags),
		   (unsigned long long)(st.waiting + st.in_transit));
}

/* It is off the list; free the rest.  The first part needs no lock: bufs that
 * return to the reactor by its deferred call may run callbacks. */
static void leave(struct weir_pool *pool)
{
	struct weir_shared_pool *shared_pool = pool->shared_pool;
	uint32_t i;

	for (i = 0; i < pool->n_classes; i++)
		free_list_fini(&pool->classes[i].free_list);
	deferred_finish(&pool->deferred);
	pthread_mutex_lock(&shared_pool->control);
	detach_slabs(pool);
	debug_check(shared_pool->n_leaving > 0);
	shared_pool->n_leaving--;
	pthread_mutex_unlock(&shared_pool->control);
}

int weir_pool_destroy(struct weir_pool *pool)
{
	struct weir_shared_pool *shared_pool;
	bool shared;
	int err;

	if (!pool)
		return 0;
	reactor_check_thread(pool->r);
	if (pool->n_pipelines)
		return why(-EBUSY, "weir_pool_destroy: %u pipelines take their "
			   "buffers here; destroy them first",
			   pool->n_pipelines);
	shared_pool = pool->shared_pool;
	shared = shared_pool->shared;
	/* Only this thread grows it. */
	if (!shared && shared_pool->n_growing)
		return why(-EBUSY, "weir_pool_destroy: a weir_pool_grow() has "
			   "not returned");
	bring_back(pool);
	err = shared ? 0 :
		       shared_pool_may_free(shared_pool, "weir_pool_destroy");
	if (err)
		return is_busy(pool) ? refuse_busy(pool) : err;
	pthread_mutex_lock(&shared_pool->control);
	err = shared_pool_leave(pool);
	pthread_mutex_unlock(&shared_pool->control);
	if (err)
		return refuse_busy(pool);
	stats_item_del(&pool->item);
	leave(pool);
	/* Another user of the shared pool may have destroyed it by now. */
	reactor_detach(&pool->obj);
	free(pool);
	if (!shared)
		shared_pool_free(shared_pool);
	return 0;
}

__attribute__((cold)) static int refuse_none(struct pool_class *pc)
{
	pc->empty++;
	return why_static(-EAGAIN, "the pool has no such buffer, or others "
			  "wait for one; see weir_pool_wait()");
}

static inline int get(struct weir_buf **ret, struct pool_class *pc)
{
	struct weir_buf *buf;

	reactor_check_thread(pc->pool->r);
	if (unlikely(!pc->free_list.free || shared_pool_has_waiters(pc->cls)) &&
	    !shared_pool_refill(pc, 1))
		return refuse_none(pc);
	buf = free_list_pop(&pc->free_list);
	pool_hand_out(pc, buf);
	*ret = buf;
	return 0;
}

/* The smallest class of at least @size bytes, or NULL. */
static inline struct pool_class *fit(struct weir_pool *pool, size_t size)
{
	uint32_t i;

	for (i = 0; i < pool->n_classes; i++)
		if (pool->classes[i].cls->buf_size >= size)
			return &pool->classes[i];
	return NULL;
}

int weir_pool_get(struct weir_buf **ret, struct weir_pool *pool)
{
	return get(ret, pool->classes);
}

int weir_pool_get_sized(struct weir_buf **ret, struct weir_pool *pool,
			size_t size)
{
	struct pool_class *pc = fit(pool, size);

	return pc ? get(ret, pc) :
		    why_static(-EMSGSIZE, "weir_pool_get_sized: no class of "
			       "the pool has bufs of that size");
}

int weir_pool_get_bulk(struct weir_buf **ret, struct weir_pool *pool,
		       size_t size, uint32_t n)
{
	struct pool_class *pc = fit(pool, size);
	uint32_t i;

	reactor_check_thread(pool->r);
	if (!pc)
		return why_static(-EMSGSIZE, "weir_pool_get_bulk: no class of "
				  "the pool has bufs of that size");
	if ((pc->free_list.n_free < n || shared_pool_has_waiters(pc->cls)) &&
	    !shared_pool_refill(pc, n))
		return refuse_none(pc);
	for (i = 0; i < n; i++) {
		ret[i] = free_list_pop(&pc->free_list);
		pool_hand_out(pc, ret[i]);
	}
	return 0;
}

int weir_pool_wait(struct weir_pool *pool, struct weir_op *op)
{
	return shared_pool_wait(pool->classes, op, "weir_pool_wait");
}

int weir_pool_wait_sized(struct weir_pool *pool, struct weir_op *op,
			 size_t size)
{
	struct pool_class *pc = fit(pool, size);

	return pc ? shared_pool_wait(pc, op, "weir_pool_wait_sized") :
		    why_static(-EMSGSIZE, "weir_pool_wait_sized: no class of "
			       "the pool has bufs of that size");
}

struct weir_buf *weir_pool_taken(const struct weir_op *op)
{
	return shared_pool_taken(op);
}

int weir_pool_grow(struct weir_pool *pool, uint32_t n)
{
	struct weir_shared_pool *shared_pool = pool->shared_pool;
	struct shared_pool_class *cls = shared_pool->classes;
	int err = 0;

	reactor_check_thread(pool->r);
	if (shared_pool->shared || !cls->slabs[0].own_mmap)
		return why(
			-EPERM,
			"weir_pool_grow: the buffers are not the "
			"pool's own; for a shared pool see weir_shared_pool_grow()");
	if (n)
		err = shared_pool_add(cls, n, NULL, "weir_pool_grow");
	if (!err && cls->n_free)
		shared_pool_refill(pool->classes,
				   pool->classes->free_list.n_free +
					   cls->n_free);
	return err;
}
