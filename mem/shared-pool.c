/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared pools: create, grow, destroy, and counts of what is where. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "base/why.h"
#include "mem/segment/internal.h"
#include "mem/shared-pool-internal.h"
#include "reactor/op-inline.h"

/*
 * Shared pools and pools on the page of statistics.
 *
 * The counts of a shared pool and its pools are consistent under its lock.  A
 * pool tries the lock and does not wait for it; without it, the numbers stay as
 * they are until the next time.  The pool that gets it also writes the shared
 * pool's numbers.
 */

static const struct stats_field pool_fields[] = {
	STATS_NOW("total", "Buffers it owns: free, out and in transit"),
	STATS_NOW("free", "Buffers free; with a shared pool: cached"),
	STATS_NOW("out", "Buffers that users hold"),
	STATS_NOW("waiting", "Operations that wait for a buffer"),
	STATS_COUNT("gets", "Buffers handed out"),
	STATS_COUNT("empty", "Gets answered -EAGAIN"),
	STATS_BYTES_NOW("registered", "Memory that the backend has registered"),
	STATS_NOW("huge", "1 if its memory is in huge pages, by wish"),
	STATS_NOW("in_transit", "Buffers of waiters whose turn is to come"),
	STATS_COUNT("refills", "Batches taken from the shared pool"),
	STATS_COUNT("flushes", "Batches given back to the shared pool"),
};
STATS_FITS(pool_fields, struct weir_pool_stats, total);

static const struct stats_kind pool_kind = STATS_KIND("pool", pool_fields);

static const struct stats_field shared_pool_fields[] = {
	STATS_NOW("total", "Buffers: free, held and in transit"),
	STATS_NOW("free", "Buffers in the shared pool itself"),
	STATS_NOW("held", "Buffers in caches of pools, or out"),
	STATS_NOW("in_transit", "Buffers of waiters whose turn is to come"),
	STATS_NOW("waiting", "Operations that wait for a buffer"),
	STATS_NOW("pools", "Pools that take from it"),
	STATS_BYTES_NOW("bytes", "Memory of its buffers"),
	STATS_BYTES_NOW("page_size", "The smallest pages that it is in"),
	STATS_NOW("transparent", "1: the kernel may make huge pages of it"),
	STATS_COUNT("recalls", "Times that caches were recalled"),
};
STATS_FITS(shared_pool_fields, struct weir_shared_pool_stats, total);

static const struct stats_kind shared_pool_kind =
	STATS_KIND("store", shared_pool_fields);

static bool try_lock(struct weir_shared_pool *shared_pool)
{
	return !shared_pool->shared ||
	       !pthread_mutex_trylock(&shared_pool->lock);
}

static void shared_pool_add_up(struct weir_shared_pool *shared_pool,
			const struct shared_pool_class *only,
			struct weir_shared_pool_stats *stats);

static void put_shared_pool(struct weir_shared_pool *shared_pool, uint64_t now)
{
	struct weir_shared_pool_stats stats = { .size = sizeof(stats) };

	shared_pool_add_up(shared_pool, NULL, &stats);
	stats_put(shared_pool->record, now, &stats.total);
}

static void publish(struct stats_item *item, uint64_t now)
{
	struct weir_pool *pool =
		weir_container_of(item, struct weir_pool, item);
	struct weir_pool_stats stats = { .size = sizeof(stats) };

	if (!try_lock(pool->shared_pool))
		return;
	pool_add_up(pool, &stats);
	if (pool->shared_pool->record)
		put_shared_pool(pool->shared_pool, now);
	shared_pool_unlock(pool->shared_pool);
	stats_put(item->record, now, &stats.total);
}

/* "4096 B", or the smallest and the largest of several. */
static void name_sizes(char label[64],
		       const struct weir_shared_pool *shared_pool)
{
	const struct shared_pool_class *cls = shared_pool->classes;
	uint32_t n = shared_pool->n_classes;

	if (n == 1)
		snprintf(label, 64, "%zu B", cls->buf_size);
	else
		snprintf(label, 64, "%zu-%zu B", cls->buf_size,
			 cls[n - 1].buf_size);
}

static void shared_pool_publish(struct weir_shared_pool *shared_pool)
{
	char label[64];

	if (!stats_wanted())
		return;
	name_sizes(label, shared_pool);
	shared_pool->record = stats_record_add(&shared_pool_kind, 0, label);
	shared_pool_lock(shared_pool);
	put_shared_pool(shared_pool, 0);
	shared_pool_unlock(shared_pool);
}

void pool_publish(struct weir_pool *pool)
{
	char label[64];

	reactor_check_thread(pool->r);
	name_sizes(label, pool->shared_pool);
	stats_item_add(pool->r, &pool->item, &pool_kind, publish, 0, label);
}

/*
 * A count of where all buffers of a shared pool are.
 *
 * The lock guards the number of free buffers, of those that each pool owns, and
 * of those in transit.  Only a pool's own thread knows how its share splits
 * into cached and out, and changes that without a lock.  So each pool is
 * visited and notes what it has cached.  After the last visit the numbers are
 * added under the lock.  A pool that has given away some of its cache since is
 * counted with at most what it still owns.
 */

#define COUNT "weir_shared_pool_count"

enum { COUNT_RESULT, COUNT_SHARED_POOL, COUNT_SEQ };

static void add_class(struct weir_shared_pool_count *count,
		      struct shared_pool_class *cls)
{
	size_t which = (size_t)(cls - cls->shared_pool->classes);
	const struct weir_pool *pool;
	const struct pool_class *pc;
	uint64_t held, cached;

	count->total += cls->total;
	count->free += cls->n_free;
	for (pool = cls->shared_pool->pools; pool; pool = pool->next) {
		pc = &pool->classes[which];
		held = pc->owned - pc->transit;
		cached = pc->seen_cached < held ? pc->seen_cached : held;
		count->cached += cached;
		count->out += held - cached;
		count->in_transit += pc->transit;
	}
}

static int64_t add_up(struct weir_shared_pool *shared_pool,
		      struct weir_shared_pool_count *ret)
{
	struct weir_shared_pool_count count = { .size = sizeof(count) };
	uint32_t i;

	for (i = 0; i < shared_pool->n_classes; i++)
		add_class(&count, &shared_pool->classes[i]);
	opts_give(ret, &count, sizeof(count), COUNT);
	return (int64_t)count.total;
}

static struct weir_shared_pool *shared_pool_of(const struct weir_op *op)
{
	return (struct weir_shared_pool *)(uintptr_t)
		op->u.words[COUNT_SHARED_POOL];
}

static void push(struct weir_shared_pool *shared_pool, struct weir_op *op)
{
	shared_pool->n_counts++;
	op->next = shared_pool->counts;
	op->pprev = &shared_pool->counts;
	if (op->next)
		op->next->pprev = &op->next;
	shared_pool->counts = op;
}

/* It is not in the list, so it counts as visited. */
static void take_out(struct weir_op *op)
{
	*op->pprev = op->next;
	if (op->next)
		op->next->pprev = op->pprev;
	op->pprev = NULL;
}

static bool all_counted(const struct weir_shared_pool *shared_pool,
			uint64_t seq)
{
	const struct weir_pool *pool;

	for (pool = shared_pool->pools; pool; pool = pool->next)
		if (pool->counted < seq)
			return false;
	return true;
}

void shared_pool_settle_counts(struct weir_shared_pool *shared_pool,
			       struct weir_reactor *r)
{
	struct weir_op *op, *next;

	for (op = shared_pool->counts; op; op = next) {
		next = op->next;
		if (!all_counted(shared_pool, op->u.words[COUNT_SEQ]))
			continue;
		take_out(op);
		op->res = add_up(shared_pool,
				 (struct weir_shared_pool_count *)(uintptr_t)
					 op->u.words[COUNT_RESULT]);
		if (op->reactor == r) {
			shared_pool->n_counts--;
			op_complete(op, op->res);
		} else {
			op_return(op);
		}
	}
}

void shared_pool_visit(struct weir_pool *pool)
{
	struct weir_shared_pool *shared_pool = pool->shared_pool;
	uint32_t i;

	reactor_check_thread(pool->r);
	if (likely(!shared_pool->counts))
		return;
	for (i = 0; i < pool->n_classes; i++)
		pool->classes[i].seen_cached =
			pool->classes[i].free_list.n_free;
	pool->counted = shared_pool->count_seq;
	shared_pool_settle_counts(shared_pool, pool->r);
}

static void count_cancel(struct weir_op *op)
{
	struct weir_shared_pool *shared_pool = shared_pool_of(op);
	bool waits;

	debug_check(op_cancel_wanted(op));
	shared_pool_lock(shared_pool);
	waits = op->pprev;
	if (waits) {
		take_out(op);
		shared_pool->n_counts--;
	}
	shared_pool_unlock(shared_pool);
	if (waits)
		op_complete(op, -ECANCELED);
}

/* The lock also waits for the thread that returned it and has yet to wake
 * us. */
static void count_returned(struct weir_op *op)
{
	struct weir_shared_pool *shared_pool = shared_pool_of(op);

	debug_check(op->state == OP_PENDING);
	shared_pool_lock(shared_pool);
	debug_check(shared_pool->n_counts > 0);
	shared_pool->n_counts--;
	shared_pool_unlock(shared_pool);
	op_complete(op, op->res);
}

static const struct weir_op_class count_class = {
	.name = "store count",
	.cancel = count_cancel,
	.returned = count_returned,
};

int weir_shared_pool_count(struct weir_shared_pool *shared_pool,
			   struct weir_reactor *r, struct weir_op *op,
			   struct weir_shared_pool_count *ret)
{
	struct weir_pool *pool;
	int err = opts_capacity(ret, COUNT);

	if (err)
		return err;
	err = op_begin(r, op, &count_class);
	if (err)
		return op_refused(err, op, COUNT);
	op->u.words[COUNT_RESULT] = (uintptr_t)ret;
	op->u.words[COUNT_SHARED_POOL] = (uintptr_t)shared_pool;
	shared_pool_lock(shared_pool);
	op->u.words[COUNT_SEQ] = ++shared_pool->count_seq;
	push(shared_pool, op);
	for (pool = shared_pool->pools; pool; pool = pool->next)
		deferred_send(&pool->deferred);
	shared_pool_settle_counts(shared_pool, r);
	shared_pool_unlock(shared_pool);
	return 0;
}

/* Shared pools: create, grow, query, free. shared-pool-move.c has the
 * transfers. */

#define KNOWN_FLAGS \
	(WEIR_SHARED_POOL_HUGE_2M | WEIR_SHARED_POOL_HUGE_1G | \
	 WEIR_SHARED_POOL_NO_HUGE | WEIR_SHARED_POOL_NUMA)

struct weir_shared_pool *shared_pool_alloc(uint32_t n_classes, bool shared)
{
	struct weir_shared_pool *shared_pool;
	struct shared_pool_class *cls;

	shared_pool = mem_aligned(
		_Alignof(struct shared_pool_class),
		sizeof(*shared_pool) +
			n_classes * sizeof(shared_pool->classes[0]));
	if (!shared_pool)
		return NULL;
	pthread_mutex_init(&shared_pool->lock, NULL);
	pthread_mutex_init(&shared_pool->control, NULL);
	shared_pool->shared = shared;
	shared_pool->n_classes = n_classes;
	for (cls = shared_pool->classes; n_classes--; cls++) {
		cls->shared_pool = shared_pool;
		cls->last = &cls->first;
	}
	return shared_pool;
}

void shared_pool_free(struct weir_shared_pool *shared_pool)
{
	struct shared_pool_class *cls;
	uint32_t i, j;

	stats_record_del(shared_pool->record);
	for (i = 0; i < shared_pool->n_classes; i++) {
		cls = &shared_pool->classes[i];
		for (j = 0; j < cls->n_slabs; j++)
			slab_free(&cls->slabs[j]);
	}
	pthread_mutex_destroy(&shared_pool->control);
	pthread_mutex_destroy(&shared_pool->lock);
	free(shared_pool);
}

int shared_pool_check_sizes(const char *call, size_t size, size_t align,
			    uint32_t n)
{
	if (align & (align - 1) || align > SHARED_POOL_ALIGN_MAX)
		return why(-EINVAL,
			   "%s: .align %zu is no power of 2 up to "
			   "1 GiB",
			   call, align);
	if (n > SHARED_POOL_BUFS_MAX || size > PTRDIFF_MAX / 2 ||
	    (n && size + align > PTRDIFF_MAX / 2 / n))
		return why(-EINVAL, "%s: %u buffers of %zu bytes are too much",
			   call, n, size);
	return 0;
}

static int check_class(const struct weir_shared_pool_class *c)
{
	if (c->reserved)
		return why(-E2BIG,
			   "weir_shared_pool_create: .reserved of a class is "
			   "unknown to this version");
	if (!c->buf_size || !c->bufs)
		return why(-EINVAL,
			   "weir_shared_pool_create: a class of %u buffers "
			   "of %zu bytes is none",
			   c->bufs, c->buf_size);
	return shared_pool_check_sizes(
		"weir_shared_pool_create", c->buf_size,
		c->align ? c->align : SHARED_POOL_ALIGN_DEFAULT, c->bufs);
}

static int load_opts(struct weir_shared_pool_opts *opts,
		     const struct weir_shared_pool_opts *user)
{
	int err =
		opts_load(opts, sizeof(*opts), user, "weir_shared_pool_create");
	uint32_t i;

	if (err)
		return err;
	if (opts->reserved)
		return why(-E2BIG,
			   "weir_shared_pool_create: .reserved is unknown to "
			   "this version");
	if (opts->flags & ~KNOWN_FLAGS)
		return why(-EINVAL,
			   "weir_shared_pool_create: unknown .flags %x",
			   opts->flags);
	if (!opts->classes || !opts->n_classes ||
	    opts->n_classes > SHARED_POOL_CLASSES_MAX)
		return why(-EINVAL,
			   "weir_shared_pool_create: %u classes; 1 to %u "
			   "can be",
			   opts->classes ? opts->n_classes : 0,
			   SHARED_POOL_CLASSES_MAX);
	for (i = 0; i < opts->n_classes && !err; i++)
		err = check_class(&opts->classes[i]);
	return err;
}

static int by_size(const void *va, const void *vb)
{
	const struct weir_shared_pool_class *a = va, *b = vb;

	return a->buf_size < b->buf_size ? -1 : a->buf_size > b->buf_size;
}

static int add_classes(struct weir_shared_pool *shared_pool,
		       const struct weir_shared_pool_opts *opts)
{
	struct weir_shared_pool_class sorted[SHARED_POOL_CLASSES_MAX];
	struct shared_pool_class *cls = shared_pool->classes;
	uint32_t i;
	int err = 0;

	memcpy(sorted, opts->classes, opts->n_classes * sizeof(sorted[0]));
	qsort(sorted, opts->n_classes, sizeof(sorted[0]), by_size);
	for (i = 1; i < opts->n_classes; i++)
		if (sorted[i].buf_size == sorted[i - 1].buf_size)
			return why(-EINVAL,
				   "weir_shared_pool_create: two classes of "
				   "%zu bytes",
				   sorted[i].buf_size);
	for (i = 0; i < opts->n_classes && !err; i++, cls++) {
		cls->buf_size = sorted[i].buf_size;
		cls->align = sorted[i].align ? sorted[i].align :
					       SHARED_POOL_ALIGN_DEFAULT;
		err = shared_pool_add(cls, sorted[i].bufs, NULL,
				      "weir_shared_pool_create");
	}
	return err;
}

int weir_shared_pool_create(struct weir_shared_pool **ret,
			    const struct weir_shared_pool_opts *user)
{
	struct weir_shared_pool_opts opts;
	struct weir_shared_pool *shared_pool;
	int err = load_opts(&opts, user);

	if (err)
		return err;
	shared_pool = shared_pool_alloc(opts.n_classes, true);
	if (!shared_pool)
		return why(-ENOMEM, "weir_shared_pool_create: no memory");
	shared_pool->flags = opts.flags;
	shared_pool->numa_node = opts.numa_node;
	err = add_classes(shared_pool, &opts);
	if (err) {
		shared_pool_free(shared_pool);
		return err;
	}
	shared_pool_publish(shared_pool);
	*ret = shared_pool;
	return 0;
}

int shared_pool_may_free(const struct weir_shared_pool *shared_pool,
			 const char *call)
{
	const struct shared_pool_class *cls;
	uint32_t i, j;
	int err = 0;

	for (i = 0; i < shared_pool->n_classes; i++) {
		cls = &shared_pool->classes[i];
		for (j = 0; j < cls->n_slabs && !err; j++)
			if (cls->slabs[j].own_mmap)
				err = mmap_may_free(cls->slabs[j].mmap, call);
	}
	return err;
}

int weir_shared_pool_destroy(struct weir_shared_pool *shared_pool)
{
	uint32_t n, n_counts, n_growing;
	struct weir_pool *pool;
	int err;

	if (!shared_pool)
		return 0;
	pthread_mutex_lock(&shared_pool->control);
	n = shared_pool->n_leaving;
	for (pool = shared_pool->pools; pool; pool = pool->next)
		n++;
	shared_pool_lock(shared_pool);
	n_counts = shared_pool->n_counts;
	shared_pool_unlock(shared_pool);
	n_growing = shared_pool->n_growing;
	pthread_mutex_unlock(&shared_pool->control);
	if (n_growing)
		return why(-EBUSY,
			   "weir_shared_pool_destroy: a weir_shared_pool_grow() "
			   "has not returned");
	if (n)
		return why(-EBUSY,
			   "weir_shared_pool_destroy: %u pools are made of "
			   "the shared pool; destroy them first",
			   n);
	if (n_counts)
		return why(-EBUSY,
			   "weir_shared_pool_destroy: %u counts are in "
			   "flight; wait for them, or cancel them",
			   n_counts);
	err = shared_pool_may_free(shared_pool, "weir_shared_pool_destroy");
	if (!err)
		shared_pool_free(shared_pool);
	return err;
}

/* The class of buffers of exactly @buf_size bytes, or NULL. */
static struct shared_pool_class *find_class(
	struct weir_shared_pool *shared_pool, size_t buf_size)
{
	uint32_t i;

	for (i = 0; i < shared_pool->n_classes; i++)
		if (shared_pool->classes[i].buf_size == buf_size)
			return &shared_pool->classes[i];
	return NULL;
}

/* Attach the pools to the new slab; their own threads register it. */
static int attach_pools(struct shared_pool_class *cls, struct weir_mmap *mmap)
{
	size_t which = (size_t)(cls - cls->shared_pool->classes);
	struct weir_pool *pool;
	struct mmap_link *link;
	int err;

	for (pool = cls->shared_pool->pools; pool; pool = pool->next) {
		link = shared_pool_make_link(&pool->classes[which],
					     cls->n_slabs);
		if (!link)
			return why(-ENOMEM,
				   "weir_shared_pool_grow: no memory to attach "
				   "a pool");
		err = mmap_attach(mmap, pool->r, link, false,
				  "weir_shared_pool_grow");
		if (err) {
			free(link);
			return err;
		}
		pool->classes[which].links[cls->n_slabs] = link;
	}
	return 0;
}

static void detach_pools(struct shared_pool_class *cls)
{
	size_t which = (size_t)(cls - cls->shared_pool->classes);
	struct mmap_link **link;
	struct weir_pool *pool;

	for (pool = cls->shared_pool->pools; pool; pool = pool->next) {
		link = &pool->classes[which].links[cls->n_slabs];
		if (*link) {
			mmap_detach(*link);
			free(*link);
			*link = NULL;
		}
	}
}

/* Under the control lock. */
static int refuse_growth(const struct shared_pool_class *cls, uint32_t n,
			 const char *call)
{
	if (n > SHARED_POOL_BUFS_MAX - cls->total)
		return why(-EINVAL,
			   "%s: %u buffers more would be more than "
			   "%u",
			   call, n, SHARED_POOL_BUFS_MAX);
	if (cls->n_slabs == SHARED_POOL_SLABS_MAX)
		return why(-ENOSPC,
			   "%s: the class has been grown %u times; "
			   "add more at a time",
			   call, SHARED_POOL_SLABS_MAX - 1);
	return 0;
}

/* Under the control lock. */
static int move_in(struct shared_pool_class *cls,
		   const struct shared_pool_slab *slab, const char *call)
{
	struct weir_shared_pool *shared_pool = cls->shared_pool;
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
	shared_pool_lock(shared_pool);
	shared_pool_take_in(cls, cls->n_slabs++);
	for (pool = shared_pool->pools; pool; pool = pool->next)
		deferred_send(&pool->deferred);
	shared_pool_unlock(shared_pool);
	return 0;
}

/* Allocate without a lock, because segment callbacks and validators run. */
int shared_pool_add(struct shared_pool_class *cls, uint32_t n,
		    struct weir_mmap *mmap, const char *call)
{
	struct weir_shared_pool *shared_pool = cls->shared_pool;
	struct shared_pool_slab slab;
	int err, made;

	pthread_mutex_lock(&shared_pool->control);
	err = refuse_growth(cls, n, call);
	shared_pool->n_growing += !err;
	pthread_mutex_unlock(&shared_pool->control);
	if (err)
		return err;
	made = slab_make(&slab, cls, n, mmap, call);
	pthread_mutex_lock(&shared_pool->control);
	err = made ? made : move_in(cls, &slab, call);
	pthread_mutex_unlock(&shared_pool->control);
	if (err && !made)
		slab_free(&slab);
	pthread_mutex_lock(&shared_pool->control);
	shared_pool->n_growing--;
	pthread_mutex_unlock(&shared_pool->control);
	return err;
}

int weir_shared_pool_grow(struct weir_shared_pool *shared_pool, size_t buf_size,
			  uint32_t n)
{
	struct shared_pool_class *cls = find_class(shared_pool, buf_size);

	if (!cls)
		return why(-ENOENT,
			   "weir_shared_pool_grow: no class of %zu bytes",
			   buf_size);
	if (!n)
		return 0;
	return shared_pool_add(cls, n, NULL, "weir_shared_pool_grow");
}

static void class_add_up(struct weir_shared_pool_stats *stats,
		   struct shared_pool_class *cls)
{
	size_t which = (size_t)(cls - cls->shared_pool->classes);
	const struct weir_pool *pool;
	const struct pool_class *pc;
	uint32_t i;

	stats->total += cls->total;
	stats->free += cls->n_free;
	stats->waiting +=
		atomic_load_explicit(&cls->n_waiting, memory_order_relaxed);
	stats->recalls += cls->recalls;
	for (pool = cls->shared_pool->pools; pool; pool = pool->next) {
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

static void shared_pool_add_up(struct weir_shared_pool *shared_pool,
			const struct shared_pool_class *only,
			struct weir_shared_pool_stats *stats)
{
	struct weir_pool *pool;
	uint32_t i;

	for (i = 0; i < shared_pool->n_classes; i++)
		if (!only || only == &shared_pool->classes[i])
			class_add_up(stats, &shared_pool->classes[i]);
	for (pool = shared_pool->pools; pool; pool = pool->next)
		stats->pools++;
}

int weir_shared_pool_stats(struct weir_shared_pool *shared_pool,
			   size_t buf_size, struct weir_shared_pool_stats *ret)
{
	struct weir_shared_pool_stats stats = { .size = sizeof(stats) };
	struct shared_pool_class *only = NULL;

	if (buf_size && !(only = find_class(shared_pool, buf_size)))
		return why(-ENOENT,
			   "weir_shared_pool_stats: the shared pool has no bufs of "
			   "%zu bytes",
			   buf_size);
	shared_pool_lock(shared_pool);
	shared_pool_add_up(shared_pool, only, &stats);
	shared_pool_unlock(shared_pool);
	return opts_give(ret, &stats, sizeof(stats), "weir_shared_pool_stats");
}

static size_t page_size_max(const struct shared_pool_class *cls)
{
	uint32_t flags = cls->shared_pool->flags;

	return flags & WEIR_SHARED_POOL_HUGE_1G ? (size_t)1 << 30 :
	       flags & WEIR_SHARED_POOL_HUGE_2M ? (size_t)2 << 20 :
						  0;
}

static void describe_slab(FILE *out, const struct shared_pool_class *cls,
			  const struct shared_pool_slab *slab)
{
	const struct weir_shared_pool *shared_pool = cls->shared_pool;

	fprintf(out, "%u of %zu bytes in pages of %zu KiB", slab->n,
		cls->buf_size, slab->page_size >> 10);
	if (slab->transparent)
		fprintf(out, ", transparently huge as far as possible");
	if (slab->page_size < page_size_max(cls))
		fprintf(out,
			" (not enough pages of %zu KiB are reserved; see "
			"vm.nr_hugepages)",
			page_size_max(cls) >> 10);
	if (shared_pool->flags & WEIR_SHARED_POOL_NUMA && !slab->node_err)
		fprintf(out, ", on node %u", shared_pool->numa_node);
	else if (shared_pool->flags & WEIR_SHARED_POOL_NUMA)
		fprintf(out, ", on any node (mbind to node %u: %s)",
			shared_pool->numa_node, strerror(-slab->node_err));
	fprintf(out, "\n");
}

size_t weir_shared_pool_describe(struct weir_shared_pool *shared_pool,
				 char *text, size_t size)
{
	size_t len = 0;
	char *all = NULL;
	uint32_t i, j;
	FILE *out = open_memstream(&all, &len);

	if (!out)
		return 0;
	pthread_mutex_lock(&shared_pool->control);
	for (i = 0; i < shared_pool->n_classes; i++)
		for (j = 0; j < shared_pool->classes[i].n_slabs; j++)
			describe_slab(out, &shared_pool->classes[i],
				      &shared_pool->classes[i].slabs[j]);
	pthread_mutex_unlock(&shared_pool->control);
	if (fclose(out))
		len = 0;
	if (size)
		snprintf(text, size, "%s", len ? all : "");
	free(all);
	return len;
}
