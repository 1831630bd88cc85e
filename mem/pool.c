/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Pools: a reactor's cache of a store's buffers.
 *
 * A hit takes no lock and no locked instruction: it looks whether something is
 * cached, and whether anybody waits.  All else is in store-move.c.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "base/why.h"
#include "mem/store-internal.h"
#include "mem/tags.h"
#include "reactor/op-inline.h"

#define BUFS_DEFAULT 64
#define BUF_SIZE_DEFAULT ((size_t)64 << 10)
#define CACHE_DEFAULT 32
#define KNOWN_FLAGS (WEIR_POOL_NO_REGISTER | WEIR_POOL_NO_HUGE | \
		     WEIR_POOL_NO_CACHE)

static int check_cache(struct weir_store *store, uint32_t cache)
{
	unsigned long long total;
	uint32_t i;

	for (i = 0; i < store->n_classes; i++) {
		store_lock(store);
		total = store->classes[i].total;
		store_unlock(store);
		if (cache > total)
			return why(-EINVAL, "weir_pool_create: .cache of %u is "
				   "more than the %llu buffers of %zu bytes",
				   cache, total, store->classes[i].buf_size);
	}
	return 0;
}

/* With a store, all that describes buffers is the store's. */
static int check_shared(const struct weir_pool_opts *opts)
{
	if (opts->bufs || opts->buf_size || opts->align || opts->mmap ||
	    opts->flags & WEIR_POOL_NO_HUGE)
		return why(-EINVAL, "weir_pool_create: .bufs, .buf_size, "
			   ".align, .mmap and WEIR_POOL_NO_HUGE are the "
			   "store's, if there is .store");
	if (opts->flags & WEIR_POOL_NO_CACHE && opts->cache)
		return why(-EINVAL, "weir_pool_create: .cache with "
			   "WEIR_POOL_NO_CACHE");
	return check_cache(opts->store, opts->cache);
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
	if (opts->store)
		return check_shared(opts);
	if (opts->cache || opts->flags & WEIR_POOL_NO_CACHE)
		return why(-EINVAL, "weir_pool_create: .cache is for a pool "
			   "with .store; without, all is its own");
	if (!opts->buf_size)
		opts->buf_size = BUF_SIZE_DEFAULT;
	if (!opts->align)
		opts->align = STORE_ALIGN_DEFAULT;
	if (!opts->bufs && !opts->mmap)
		opts->bufs = BUFS_DEFAULT;
	return store_check_sizes("weir_pool_create", opts->buf_size,
				 opts->align, opts->bufs);
}

/* Check the mmap that was given in, and how many buffers it has room for. */
static int fit_mmap(const struct store_class *cls, struct weir_pool_opts *opts)
{
	struct weir_mmap *mmap = opts->mmap;
	size_t skip = (size_t)-(uintptr_t)mmap->addr & (opts->align - 1);
	size_t room, fit = 0;

	if (weir_mmap_state(mmap) != WEIR_MMAP_STARTED)
		return why(-EBADFD, "weir_pool_create: .mmap is not started");
	if (!(mmap->permissions & WEIR_MMAP_WRITE))
		return why(-EINVAL, "weir_pool_create: .mmap is not writable");
	room = mmap->len > skip ? mmap->len - skip : 0;
	if (room >= opts->buf_size)
		fit = (room - opts->buf_size) / store_stride(cls) + 1;
	if (!opts->bufs)
		opts->bufs = fit > STORE_BUFS_MAX ? STORE_BUFS_MAX :
						    (uint32_t)fit;
	if (!fit || fit < opts->bufs)
		return why(-ERANGE, "weir_pool_create: .mmap has room for %zu "
			   "buffers of %zu bytes", fit, opts->buf_size);
	return 0;
}

/* A store of the pool's own. */
static int make_store(struct weir_store **ret, struct weir_pool_opts *opts)
{
	struct weir_store *store = store_alloc(1, false);
	struct store_class *cls;
	int err = 0;

	if (!store)
		return why(-ENOMEM, "weir_pool_create: no memory");
	if (opts->flags & WEIR_POOL_NO_HUGE)
		store->flags = WEIR_STORE_NO_HUGE;
	cls = store->classes;
	cls->buf_size = opts->buf_size;
	cls->align = opts->align;
	if (opts->mmap)
		err = fit_mmap(cls, opts);
	if (!err)
		err = store_add(cls, opts->bufs, opts->mmap,
				"weir_pool_create");
	if (err)
		store_free(store);
	else
		*ret = store;
	return err;
}

/* A buffer is back. */
static void returned(struct buf_stock *stock, struct weir_buf *buf)
{
	struct pool_class *pc = weir_container_of(stock, struct pool_class,
						  stock);

	stock_push(stock, buf);
	if (unlikely(stock->n_free > pc->cache_max ||
		     store_has_waiters(pc->cls)))
		store_give(pc);
}

static void detach_slabs(struct weir_pool *pool)
{
	struct pool_class *pc = pool->classes;
	uint32_t i, j;

	for (i = 0; i < pool->n_classes; i++, pc++)
		for (j = 0; j < STORE_SLABS_MAX && pc->links[j]; j++) {
			mmap_detach(pc->links[j]);
			free(pc->links[j]);
			pc->links[j] = NULL;
		}
}

static int attach_slab(struct pool_class *pc, uint32_t which)
{
	struct mmap_link *link = store_make_link(pc, which);
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
	store_stop_caching(weir_container_of(obj, struct weir_pool, obj));
}

static void on_start(struct reactor_obj *obj)
{
	store_start_caching(weir_container_of(obj, struct weir_pool, obj));
}

static struct weir_pool *pool_alloc(struct weir_reactor *r,
				    struct weir_store *store,
				    const struct weir_pool_opts *opts)
{
	uint32_t n = store->n_classes, i;
	struct weir_pool *pool = mem_aligned(_Alignof(struct weir_pool),
		sizeof(*pool) + n * sizeof(pool->classes[0]));
	struct pool_class *pc;

	if (!pool)
		return NULL;
	pool->r = r;
	pool->store = store;
	pool->may_register = !(opts->flags & WEIR_POOL_NO_REGISTER);
	pool->waiters_max = opts->waiters_max;
	pool->cache_max = !store->shared ? UINT64_MAX :
			  opts->flags & WEIR_POOL_NO_CACHE ? 0 :
			  opts->cache ? opts->cache : CACHE_DEFAULT;
	pool->n_classes = n;
	op_queue_init(&pool->outside);
	errand_init(&pool->errand, r, store_errand);
	for (i = 0; i < n; i++) {
		pc = &pool->classes[i];
		stock_init(&pc->stock, r);
		pc->stock.returned = returned;
		pc->cls = &store->classes[i];
		pc->pool = pool;
		pc->cache_max = pool->cache_max;
	}
	return pool;
}

/* Under the store's control lock: it does not grow meanwhile. */
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
	store_enter(pool);
	if (!pool->store->shared)
		check(store_refill(pool->classes, pool->classes->cls->n_free));
	pool_publish(pool);
	return 0;
}

int weir_pool_create(struct weir_pool **ret, struct weir_reactor *r,
		     const struct weir_pool_opts *user)
{
	struct weir_pool_opts opts;
	struct weir_store *store;
	struct weir_pool *pool;
	int err;

	err = load_opts(&opts, user);
	if (err)
		return err;
	store = opts.store;
	if (!store)
		err = make_store(&store, &opts);
	if (err)
		return err;
	pool = pool_alloc(r, store, &opts);
	if (pool) {
		pthread_mutex_lock(&store->control);
		err = enter(pool);
		pthread_mutex_unlock(&store->control);
	} else {
		err = why(-ENOMEM, "weir_pool_create: no memory");
	}
	if (!err) {
		*ret = pool;
		return 0;
	}
	free(pool);
	if (!store->shared)
		store_free(store);
	return err;
}

static void bring_home(struct weir_pool *pool)
{
	uint32_t i;

	for (i = 0; i < pool->n_classes; i++)
		stock_bring_home(&pool->classes[i].stock);
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

/*
 * Off the list: what is left of it goes.  Without a lock at first, because what
 * comes home to the reactor with our errands may run callbacks.
 */
static void leave(struct weir_pool *pool)
{
	struct weir_store *store = pool->store;
	uint32_t i;

	for (i = 0; i < pool->n_classes; i++)
		stock_fini(&pool->classes[i].stock);
	errand_finish(&pool->errand);
	pthread_mutex_lock(&store->control);
	detach_slabs(pool);
	store->n_leaving--;
	pthread_mutex_unlock(&store->control);
}

int weir_pool_destroy(struct weir_pool *pool)
{
	struct weir_store *store;
	bool shared;
	int err;

	if (!pool)
		return 0;
	reactor_check_thread(pool->r);
	if (pool->n_pipelines)
		return why(-EBUSY, "weir_pool_destroy: %u pipelines take their "
			   "buffers here; destroy them first",
			   pool->n_pipelines);
	store = pool->store;
	shared = store->shared;
	err = shared ? 0 : store_may_free(store, "weir_pool_destroy");
	if (err)
		return err;
	bring_home(pool);
	pthread_mutex_lock(&store->control);
	err = store_leave(pool);
	pthread_mutex_unlock(&store->control);
	if (err)
		return refuse_busy(pool);
	stats_item_del(&pool->item);
	leave(pool);
	/* Whoever shares the store may have destroyed it by now. */
	reactor_detach(&pool->obj);
	free(pool);
	if (!shared)
		store_free(store);
	return 0;
}

static inline int get(struct weir_buf **ret, struct pool_class *pc)
{
	struct weir_buf *buf;

	reactor_check_thread(pc->pool->r);
	if (unlikely(!pc->stock.free || store_has_waiters(pc->cls)) &&
	    !store_refill(pc, 1)) {
		pc->empty++;
		return -EAGAIN;
	}
	buf = stock_pop(&pc->stock);
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

	return pc ? get(ret, pc) : -EMSGSIZE;
}

int weir_pool_get_bulk(struct weir_buf **ret, struct weir_pool *pool,
		       size_t size, uint32_t n)
{
	struct pool_class *pc = fit(pool, size);
	uint32_t i;

	reactor_check_thread(pool->r);
	if (!pc)
		return -EMSGSIZE;
	if ((pc->stock.n_free < n || store_has_waiters(pc->cls)) &&
	    !store_refill(pc, n)) {
		pc->empty++;
		return -EAGAIN;
	}
	for (i = 0; i < n; i++) {
		ret[i] = stock_pop(&pc->stock);
		pool_hand_out(pc, ret[i]);
	}
	return 0;
}

int weir_pool_wait(struct weir_pool *pool, struct weir_op *op)
{
	return store_wait(pool->classes, op);
}

int weir_pool_wait_sized(struct weir_pool *pool, struct weir_op *op,
			 size_t size)
{
	struct pool_class *pc = fit(pool, size);

	return pc ? store_wait(pc, op) : -EMSGSIZE;
}

struct weir_buf *weir_pool_taken(const struct weir_op *op)
{
	return store_taken(op);
}

int weir_pool_grow(struct weir_pool *pool, uint32_t n)
{
	struct weir_store *store = pool->store;
	struct store_class *cls = store->classes;
	int err = 0;

	reactor_check_thread(pool->r);
	if (store->shared || !cls->slabs[0].own_mmap)
		return why(-EPERM, "weir_pool_grow: the buffers are not the "
			   "pool's own; for a store see weir_store_grow()");
	if (n)
		err = store_add(cls, n, NULL, "weir_pool_grow");
	if (!err && cls->n_free)
		store_refill(pool->classes, pool->classes->stock.n_free +
			     cls->n_free);
	return err;
}
