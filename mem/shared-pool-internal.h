/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_MEM_SHARED_POOL_INTERNAL_H
#define WEIR_MEM_SHARED_POOL_INTERNAL_H

/*
 * Shared pools and pools: where each buffer is.
 *
 *	shared_pool_class --free--> bufs        pool_class --free list.free--> bufs
 *	  |   waiters of all pools          one per class and pool: its cache
 *	  slabs: memory, bufs               links: registration, by slab
 *
 *	shared-pool.c        create, grow, destroy; counts
 *	shared-pool-slab.c   the memory
 *	shared-pool-move.c   between shared pool, caches and waiters, locked
 *	pool.c               the caches, and the calls of users
 *
 * A buffer is in the shared pool, or it belongs to a pool.  That pool counts it
 * as .owned until it has returned it: in the cache, out, or in transit to a
 * waiter.  Only transfers change .owned, under the shared pool's lock, so
 * "free + owned = total" holds there.
 *
 * These rules keep a waiter from being forgotten:
 *
 *  1. While a class has waiters, no buffer of it is free in the shared pool.
 *  2. The first waiter of a class sends a deferred call to all other pools that
 *     own any buffer of it.  The deferred call gives the cached buffers to the
 *     waiters.
 *  3. A pool that sees n_waiting > 0 in a get or put takes the lock.  It may
 *     see an old 0 until its deferred call has run, but not after.  A buffer
 *     that it puts into its cache before is found by the deferred call.
 *
 * A pool without a shared pool has a private one: no lock is taken, the cache
 * has no bound, and it is never recalled.
 */

#include <weir/pool.h>
#include <weir/shared-pool.h>

#include "mem/buf-internal.h"
#include "reactor/stats/page.h"

#define SHARED_POOL_CLASSES_MAX 64
#define SHARED_POOL_SLABS_MAX 64 /* In a class: the first, and growth. */
#define SHARED_POOL_BUFS_MAX (1u << 24)
#define SHARED_POOL_ALIGN_DEFAULT ((size_t)4096)
#define SHARED_POOL_ALIGN_MAX ((size_t)1 << 30)

struct shared_pool_slab {
	struct weir_mmap *mmap;
	bool own_mmap;
	size_t page_size;
	bool transparent; /* The kernel may make huge pages of them. */
	int node_err; /* Why it is not on the node that was wanted. */
	struct weir_buf *bufs;
	uint32_t n;
	struct slab_range *range; /* Of the bufs; see shared-pool-slab.c. */
};

struct shared_pool_class {
	/* Looked at in every get and put; written under the lock. */
	atomic_uint n_waiting __attribute__((aligned(64)));

	/* What does not change. */
	struct weir_shared_pool *shared_pool __attribute__((aligned(64)));
	size_t buf_size;
	size_t align;

	/* Under the lock. */
	struct weir_buf *free;
	uint64_t n_free;
	uint64_t total;
	struct weir_op *first; /* Waiters, by next and pprev. */
	struct weir_op **last;
	uint64_t recalls;
	uint32_t n_slabs;
	struct shared_pool_slab slabs[SHARED_POOL_SLABS_MAX];
};

struct weir_shared_pool {
	pthread_mutex_t lock; /* Short: transfers, the list of pools. */
	pthread_mutex_t control; /* Long: pools come and go, growth. */
	bool shared; /* Else it is one pool's own. */
	uint32_t flags; /* WEIR_SHARED_POOL_ */
	uint32_t numa_node;
	uint32_t n_classes;
	struct weir_pool *pools;
	uint32_t n_leaving; /* Under control: not of .pools any
					 * more, and not done with us. */
	uint32_t n_growing; /* Under control: calls that add buffers, whose
			     * segment callbacks may try to destroy it. */
	struct weir_op *counts; /* In flight; by next and pprev. */
	uint32_t n_counts; /* Those, and what is returned of them. */
	uint64_t count_seq; /* The last that was begun. */
	struct stats_record *record; /* Written under the lock. */
	struct shared_pool_class classes[]; /* From small to large. */
};

struct pool_class {
	struct buf_free_list free_list; /* The cache. */
	struct shared_pool_class *cls;
	struct weir_pool *pool;
	uint64_t cache_max; /* More of it than this goes back. */
	uint64_t gets;
	uint64_t empty;
	uint64_t refills;
	uint64_t flushes;
	uint32_t n_seen; /* Slabs that were registered, or not. */

	/* Under the shared pool's lock. */
	uint64_t owned;
	uint64_t transit; /* Given to waiters, not here yet. */
	uint64_t waiting;
	uint64_t seen_cached; /* When a count came by. */
	struct mmap_link *links[SHARED_POOL_SLABS_MAX];
};

struct weir_pool {
	struct weir_reactor *r;
	struct weir_shared_pool *shared_pool;
	bool may_register;
	uint32_t waiters_max; /* 0: no limit. */
	uint32_t n_pipelines; /* That take their bufs here. */
	uint64_t cache_max;
	struct op_queue outside; /* Wait for .waiters_max to let them in. */
	struct deferred deferred;
	bool gone; /* From the shared pool's list. */
	uint64_t counted; /* Under the lock: up to this count. */
	struct stats_item item;
	struct weir_pool *next; /* Of the shared pool. */
	struct weir_pool **pprev;
	struct reactor_obj obj;
	uint32_t n_classes;
	struct pool_class classes[];
};

static inline void shared_pool_lock(struct weir_shared_pool *shared_pool)
{
	if (shared_pool->shared)
		pthread_mutex_lock(&shared_pool->lock);
}

static inline void shared_pool_unlock(struct weir_shared_pool *shared_pool)
{
	if (shared_pool->shared)
		pthread_mutex_unlock(&shared_pool->lock);
}

static inline bool
shared_pool_is_locked(const struct weir_shared_pool *shared_pool)
{
	return !shared_pool->shared || mutex_is_held(&shared_pool->lock);
}

static inline bool shared_pool_has_waiters(const struct shared_pool_class *cls)
{
	return atomic_load_explicit(&cls->n_waiting, memory_order_relaxed);
}

/* shared-pool.c */

/* A shared pool without memory; of a pool's own unless @shared. */
struct weir_shared_pool *shared_pool_alloc(uint32_t n_classes, bool shared);
void shared_pool_free(struct weir_shared_pool *shared_pool);

/*
 * Add @n bufs to @cls: in @mmap, or, if that is NULL, in memory of their own.
 * Attaches the pools there are.  No lock is held.  Returns 0, -EINVAL, -ENOSPC,
 * -ENOMEM or what starting an mmap does; leaves a message, which begins with
 * @call if it is about the shared pool.
 */
int shared_pool_add(struct shared_pool_class *cls, uint32_t n,
		    struct weir_mmap *mmap, const char *call);

/* -EBUSY if memory of its own is to stay, see <weir/segment.h>. */
int shared_pool_may_free(const struct weir_shared_pool *shared_pool,
			 const char *call);

/* Why @n bufs of @size bytes cannot be, or 0. */
int shared_pool_check_sizes(const char *call, size_t size, size_t align,
			    uint32_t n);

/* shared-pool-slab.c */

/*
 * Make *@slab: @n bufs of @cls, in @mmap, or, if that is NULL, in an mmap of
 * its own, which is started.  Returns 0, to be freed by slab_free(), -ENOMEM or
 * what starting an mmap does.
 */
int slab_make(struct shared_pool_slab *slab,
	      const struct shared_pool_class *cls, uint32_t n,
	      struct weir_mmap *mmap, const char *call);
void slab_free(struct shared_pool_slab *slab);

static inline size_t shared_pool_stride(const struct shared_pool_class *cls)
{
	return (cls->buf_size + cls->align - 1) & ~(cls->align - 1);
}

/* A link of @pc to the mmap of its slab @which, not attached yet; NULL: no
 * memory. */
struct mmap_link *shared_pool_make_link(struct pool_class *pc, uint32_t which);

/* shared-pool-move.c: all on the pool's thread, but for
 * shared_pool_take_in(). */

/* Put @pool on its shared pool's list.  Its links are there. */
void shared_pool_enter(struct weir_pool *pool);

/* Take it off, with all it has.  Returns 0, or -EBUSY if bufs are out or
 * operations wait. */
int shared_pool_leave(struct weir_pool *pool);

/* Under the lock, any thread: the bufs of @slab are new. */
void shared_pool_take_in(struct shared_pool_class *cls, uint32_t slab);

/* Have @n bufs in the cache: false if there are not so many, or others were
 * here before; then the cache is as it was, or smaller. */
bool shared_pool_refill(struct pool_class *pc, uint64_t n);

/* The cache is too large, or there are waiters: give. */
void shared_pool_give(struct pool_class *pc);

/* Wait: 0, with the operation begun and in the queue, or served at once; or
 * -EAGAIN at the pool's bound. */
int shared_pool_wait(struct pool_class *pc, struct weir_op *op,
		     const char *call);

/* shared-pool-move.c: those that .waiters_max keeps outside. */

/*
 * Wait as shared_pool_wait_always() does; and if .waiters_max wait already,
 * for some of them to leave.  Then @op completes with 0 and
 * shared_pool_taken() is NULL: ask again.
 */
void shared_pool_wait_or_capacity(struct pool_class *pc, struct weir_op *op);

/* The pool's deferred call: what others want of it. */
void shared_pool_deferred(struct deferred *deferred);

/* The cache goes back to the shared pool, now and from now on; or no longer. */
void shared_pool_stop_caching(struct weir_pool *pool);
void shared_pool_start_caching(struct weir_pool *pool);

/* The buffer that a wait has brought, or NULL. */
struct weir_buf *shared_pool_taken(const struct weir_op *op);

/* shared-pool.c: under the lock. */

/* @pool's deferred call: note what it has, for the counts in flight. */
void shared_pool_visit(struct weir_pool *pool);

/* End the counts that wait for no visit any more; @r: of this thread. */
void shared_pool_settle_counts(struct weir_shared_pool *shared_pool,
			       struct weir_reactor *r);

/* Under the lock: what it has; on the pool's thread. */
void pool_add_up(const struct weir_pool *pool, struct weir_pool_stats *stats);

/* shared-pool.c: they are on the page, if there is one; or no more. */
void pool_publish(struct weir_pool *pool);

/* pool.c: the holders of what is out. */
struct tags;

/* A pipeline of the pool's reactor takes its bufs here; or no more. */
static inline void pool_hold(struct weir_pool *pool)
{
	if (pool)
		pool->n_pipelines++;
}

static inline void pool_let_go(struct weir_pool *pool)
{
	if (pool)
		pool->n_pipelines--;
}

/* pool.c: buf_out() for a pool's buf that is not in the cache. */
static inline void pool_hand_out(struct pool_class *pc, struct weir_buf *buf)
{
	buf->data = buf->addr;
	buf->data_len = 0;
	buf_out(buf);
	pc->gets++;
}

#endif /* WEIR_MEM_SHARED_POOL_INTERNAL_H */
