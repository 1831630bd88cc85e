/* SPDX-License-Identifier: BSD-3-Clause */
/* Stores: made, grown, looked at, freed.  What moves is in store-move.c. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "base/why.h"
#include "mem/segment-internal.h"
#include "mem/store-internal.h"

#define KNOWN_FLAGS (WEIR_STORE_HUGE_2M | WEIR_STORE_HUGE_1G | \
		     WEIR_STORE_NO_HUGE | WEIR_STORE_NUMA)

struct weir_store *store_alloc(uint32_t n_classes, bool shared)
{
	struct weir_store *store;
	struct store_class *cls;

	store = mem_aligned(_Alignof(struct store_class), sizeof(*store) +
			    n_classes * sizeof(store->classes[0]));
	if (!store)
		return NULL;
	pthread_mutex_init(&store->lock, NULL);
	pthread_mutex_init(&store->control, NULL);
	store->shared = shared;
	store->n_classes = n_classes;
	for (cls = store->classes; n_classes--; cls++) {
		cls->store = store;
		cls->last = &cls->first;
	}
	return store;
}

void store_free(struct weir_store *store)
{
	struct store_class *cls;
	uint32_t i, j;

	stats_record_del(store->record);
	for (i = 0; i < store->n_classes; i++) {
		cls = &store->classes[i];
		for (j = 0; j < cls->n_slabs; j++)
			slab_free(&cls->slabs[j]);
	}
	pthread_mutex_destroy(&store->control);
	pthread_mutex_destroy(&store->lock);
	free(store);
}

int store_check_sizes(const char *call, size_t size, size_t align, uint32_t n)
{
	if (align & (align - 1) || align > STORE_ALIGN_MAX)
		return why(-EINVAL, "%s: .align %zu is no power of 2 up to "
			   "1 GiB", call, align);
	if (n > STORE_BUFS_MAX || size > PTRDIFF_MAX / 2 ||
	    (n && size + align > PTRDIFF_MAX / 2 / n))
		return why(-EINVAL, "%s: %u buffers of %zu bytes are too much",
			   call, n, size);
	return 0;
}

static int check_class(const struct weir_store_class *c)
{
	if (c->reserved)
		return why(-E2BIG, "weir_store_create: .reserved of a class is "
			   "unknown to this version");
	if (!c->buf_size || !c->bufs)
		return why(-EINVAL, "weir_store_create: a class of %u buffers "
			   "of %zu bytes is none", c->bufs, c->buf_size);
	return store_check_sizes("weir_store_create", c->buf_size, c->align ?
				 c->align : STORE_ALIGN_DEFAULT, c->bufs);
}

static int load_opts(struct weir_store_opts *opts,
		     const struct weir_store_opts *user)
{
	int err = opts_load(opts, sizeof(*opts), user, "weir_store_create");
	uint32_t i;

	if (err)
		return err;
	if (opts->reserved)
		return why(-E2BIG, "weir_store_create: .reserved is unknown to "
			   "this version");
	if (opts->flags & ~KNOWN_FLAGS)
		return why(-EINVAL, "weir_store_create: unknown .flags %x",
			   opts->flags);
	if (!opts->classes || !opts->n_classes ||
	    opts->n_classes > STORE_CLASSES_MAX)
		return why(-EINVAL, "weir_store_create: %u classes; 1 to %u "
			   "can be", opts->classes ? opts->n_classes : 0,
			   STORE_CLASSES_MAX);
	for (i = 0; i < opts->n_classes && !err; i++)
		err = check_class(&opts->classes[i]);
	return err;
}

static int by_size(const void *va, const void *vb)
{
	const struct weir_store_class *a = va, *b = vb;

	return a->buf_size < b->buf_size ? -1 : a->buf_size > b->buf_size;
}

static int add_classes(struct weir_store *store,
		       const struct weir_store_opts *opts)
{
	struct weir_store_class sorted[STORE_CLASSES_MAX];
	struct store_class *cls = store->classes;
	uint32_t i;
	int err = 0;

	memcpy(sorted, opts->classes, opts->n_classes * sizeof(sorted[0]));
	qsort(sorted, opts->n_classes, sizeof(sorted[0]), by_size);
	for (i = 1; i < opts->n_classes; i++)
		if (sorted[i].buf_size == sorted[i - 1].buf_size)
			return why(-EINVAL, "weir_store_create: two classes of "
				   "%zu bytes", sorted[i].buf_size);
	for (i = 0; i < opts->n_classes && !err; i++, cls++) {
		cls->buf_size = sorted[i].buf_size;
		cls->align = sorted[i].align ? sorted[i].align :
					       STORE_ALIGN_DEFAULT;
		err = store_add(cls, sorted[i].bufs, NULL,
				"weir_store_create");
	}
	return err;
}

int weir_store_create(struct weir_store **ret,
		      const struct weir_store_opts *user)
{
	struct weir_store_opts opts;
	struct weir_store *store;
	int err = load_opts(&opts, user);

	if (err)
		return err;
	store = store_alloc(opts.n_classes, true);
	if (!store)
		return why(-ENOMEM, "weir_store_create: no memory");
	store->flags = opts.flags;
	store->numa_node = opts.numa_node;
	err = add_classes(store, &opts);
	if (err) {
		store_free(store);
		return err;
	}
	store_publish(store);
	*ret = store;
	return 0;
}

int store_may_free(const struct weir_store *store, const char *call)
{
	const struct store_class *cls;
	uint32_t i, j;
	int err = 0;

	for (i = 0; i < store->n_classes; i++) {
		cls = &store->classes[i];
		for (j = 0; j < cls->n_slabs && !err; j++)
			if (cls->slabs[j].own_mmap)
				err = segment_may_remove(cls->slabs[j].mmap,
							 call);
	}
	return err;
}

int weir_store_destroy(struct weir_store *store)
{
	uint32_t n, n_counts;
	struct weir_pool *pool;
	int err;

	if (!store)
		return 0;
	pthread_mutex_lock(&store->control);
	n = store->n_leaving;
	for (pool = store->pools; pool; pool = pool->next)
		n++;
	store_lock(store);
	n_counts = store->n_counts;
	store_unlock(store);
	pthread_mutex_unlock(&store->control);
	if (n)
		return why(-EBUSY, "weir_store_destroy: %u pools are made of "
			   "the store; destroy them first", n);
	if (n_counts)
		return why(-EBUSY, "weir_store_destroy: %u counts are under "
			   "way; wait for them, or cancel them", n_counts);
	err = store_may_free(store, "weir_store_destroy");
	if (!err)
		store_free(store);
	return err;
}

/* The class of buffers of just @buf_size bytes, or NULL. */
static struct store_class *find_class(struct weir_store *store, size_t buf_size)
{
	uint32_t i;

	for (i = 0; i < store->n_classes; i++)
		if (store->classes[i].buf_size == buf_size)
			return &store->classes[i];
	return NULL;
}

/* Attach the pools to the new slab; they register it themselves. */
static int attach_pools(struct store_class *cls, struct weir_mmap *mmap)
{
	size_t which = (size_t)(cls - cls->store->classes);
	struct weir_pool *pool;
	struct mmap_link *link;
	int err;

	for (pool = cls->store->pools; pool; pool = pool->next) {
		link = store_make_link(&pool->classes[which], cls->n_slabs);
		if (!link)
			return why(-ENOMEM, "weir_store_grow: no memory to attach "
				   "a pool");
		err = mmap_attach(mmap, pool->r, link, false,
				  "weir_store_grow");
		if (err) {
			free(link);
			return err;
		}
		pool->classes[which].links[cls->n_slabs] = link;
	}
	return 0;
}

static void detach_pools(struct store_class *cls)
{
	size_t which = (size_t)(cls - cls->store->classes);
	struct mmap_link **link;
	struct weir_pool *pool;

	for (pool = cls->store->pools; pool; pool = pool->next) {
		link = &pool->classes[which].links[cls->n_slabs];
		if (*link) {
			mmap_detach(*link);
			free(*link);
			*link = NULL;
		}
	}
}

/* Under the control lock. */
static int refuse_growth(const struct store_class *cls, uint32_t n,
			 const char *call)
{
	if (n > STORE_BUFS_MAX - cls->total)
		return why(-EINVAL, "%s: %u buffers more would be more than "
			   "%u", call, n, STORE_BUFS_MAX);
	if (cls->n_slabs == STORE_SLABS_MAX)
		return why(-ENOSPC, "%s: the class has been grown %u times; "
			   "add more at a time", call, STORE_SLABS_MAX - 1);
	return 0;
}

/* Under the control lock. */
static int move_in(struct store_class *cls, const struct store_slab *slab,
		   const char *call)
{
	struct weir_store *store = cls->store;
	struct weir_pool *pool;
	int err = refuse_growth(cls, slab->n, call);

	if (err)
		return err;
	cls->slabs[cls->n_slabs] = *slab;
	err = attach_pools(cls, slab->mmap);
	if (err) {
		detach_pools(cls);
		return err;
	}
	store_lock(store);
	store_take_in(cls, cls->n_slabs++);
	for (pool = store->pools; pool; pool = pool->next)
		errand_send(&pool->errand);
	store_unlock(store);
	return 0;
}

/* Memory is made without a lock: who watches segments is told, and asked. */
int store_add(struct store_class *cls, uint32_t n, struct weir_mmap *mmap,
	      const char *call)
{
	struct weir_store *store = cls->store;
	struct store_slab slab;
	int err;

	pthread_mutex_lock(&store->control);
	err = refuse_growth(cls, n, call);
	pthread_mutex_unlock(&store->control);
	if (!err)
		err = slab_make(&slab, cls, n, mmap, call);
	if (err)
		return err;
	pthread_mutex_lock(&store->control);
	err = move_in(cls, &slab, call);
	pthread_mutex_unlock(&store->control);
	if (err)
		slab_free(&slab);
	return err;
}

int weir_store_grow(struct weir_store *store, size_t buf_size, uint32_t n)
{
	struct store_class *cls = find_class(store, buf_size);

	if (!cls)
		return why(-ENOENT, "weir_store_grow: no class of %zu bytes",
			   buf_size);
	if (!n)
		return 0;
	return store_add(cls, n, NULL, "weir_store_grow");
}

static void add_up(struct weir_store_stats *stats, struct store_class *cls)
{
	size_t which = (size_t)(cls - cls->store->classes);
	const struct weir_pool *pool;
	const struct pool_class *pc;
	uint32_t i;

	stats->total += cls->total;
	stats->free += cls->n_free;
	stats->waiting += atomic_load_explicit(&cls->n_waiting,
					       memory_order_relaxed);
	stats->recalls += cls->recalls;
	for (pool = cls->store->pools; pool; pool = pool->next) {
		pc = &pool->classes[which];
		stats->held += pc->owned - pc->transit;
		stats->in_transit += pc->transit;
	}
	for (i = 0; i < cls->n_slabs; i++) {
		stats->bytes += cls->slabs[i].mmap->len;
		if (!stats->page_size ||
		    cls->slabs[i].page_size < stats->page_size)
			stats->page_size = cls->slabs[i].page_size;
		stats->transparent |= cls->slabs[i].transparent;
	}
}

void store_add_up(struct weir_store *store, const struct store_class *only,
		  struct weir_store_stats *stats)
{
	struct weir_pool *pool;
	uint32_t i;

	for (i = 0; i < store->n_classes; i++)
		if (!only || only == &store->classes[i])
			add_up(stats, &store->classes[i]);
	for (pool = store->pools; pool; pool = pool->next)
		stats->pools++;
}

int weir_store_stats(struct weir_store *store, size_t buf_size,
		     struct weir_store_stats *ret)
{
	struct weir_store_stats stats = { .size = sizeof(stats) };
	struct store_class *only = NULL;

	if (buf_size && !(only = find_class(store, buf_size)))
		return why(-ENOENT, "weir_store_stats: the store has no bufs of "
			   "%zu bytes", buf_size);
	store_lock(store);
	store_add_up(store, only, &stats);
	store_unlock(store);
	return opts_give(ret, &stats, sizeof(stats), "weir_store_stats");
}

static size_t page_size_max(const struct store_class *cls)
{
	uint32_t flags = cls->store->flags;

	return flags & WEIR_STORE_HUGE_1G ? (size_t)1 << 30 :
	       flags & WEIR_STORE_HUGE_2M ? (size_t)2 << 20 : 0;
}

static void describe_slab(FILE *out, const struct store_class *cls,
			  const struct store_slab *slab)
{
	const struct weir_store *store = cls->store;

	fprintf(out, "%u of %zu bytes in pages of %zu KiB", slab->n,
		cls->buf_size, slab->page_size >> 10);
	if (slab->transparent)
		fprintf(out, ", transparently huge as far as possible");
	if (slab->page_size < page_size_max(cls))
		fprintf(out, " (not enough pages of %zu KiB are reserved; see "
			"vm.nr_hugepages)", page_size_max(cls) >> 10);
	if (store->flags & WEIR_STORE_NUMA && !slab->node_err)
		fprintf(out, ", on node %u", store->numa_node);
	else if (store->flags & WEIR_STORE_NUMA)
		fprintf(out, ", on any node (mbind to node %u: %s)",
			store->numa_node, strerror(-slab->node_err));
	fprintf(out, "\n");
}

size_t weir_store_describe(struct weir_store *store, char *text, size_t size)
{
	size_t len = 0;
	char *all = NULL;
	uint32_t i, j;
	FILE *out = open_memstream(&all, &len);

	if (!out)
		return 0;
	pthread_mutex_lock(&store->control);
	for (i = 0; i < store->n_classes; i++)
		for (j = 0; j < store->classes[i].n_slabs; j++)
			describe_slab(out, &store->classes[i],
				      &store->classes[i].slabs[j]);
	pthread_mutex_unlock(&store->control);
	if (fclose(out))
		len = 0;
	if (size)
		snprintf(text, size, "%s", len ? all : "");
	free(all);
	return len;
}
