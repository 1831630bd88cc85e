/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_SHARED_POOL_H
#define WEIR_SHARED_POOL_H

/*
 * A shared pool: data buffers of one or more sizes that the pools of many
 * reactors share.
 *
 *	struct weir_shared_pool_class classes[] = {
 *		{ .buf_size = 8 << 10, .bufs = 4096 },
 *		{ .buf_size = 132 << 10, .bufs = 512 },
 *	};
 *	struct weir_shared_pool_opts opts = {
 *		.size = sizeof(opts), .classes = classes, .n_classes = 2,
 *	};
 *	weir_shared_pool_create(&shared, &opts);
 *
 * Each reactor has a pool over it:
 *
 *	struct weir_pool_opts opts = { .size = sizeof(opts), .shared_pool = shared };
 *
 *	weir_pool_create(&pool, r, &opts);
 *	weir_pool_get_sized(&buf, pool, 5000);
 *
 * Each pool keeps a cache of every class, from which it takes and to which it
 * returns without a lock.  An empty cache is filled from the shared pool, an
 * overfull one gives half of it back, both in batches under the shared pool's
 * lock.
 *
 * Waiters of all reactors stand in one queue per class, first come first
 * served.  A waiter drains the caches of other pools, waking sleeping reactors
 * if needed.  While an operation waits, a buffer that comes back goes to the
 * first waiter, on whatever reactor that is, and weir_pool_get() gets nothing.
 * So a waiter is served when a buffer is free anywhere.  weir_pool_get(), which
 * does not wait, may find nothing although a buffer is idle in another pool's
 * cache.
 *
 * Re-creates spdk_iobuf and rte_mempool with its caches.
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_op;
struct weir_reactor;
struct weir_shared_pool;

/* weir_shared_pool_opts.flags */
#define WEIR_SHARED_POOL_HUGE_2M 1u /* Reserved huge pages of 2 MiB, if any. */
#define WEIR_SHARED_POOL_HUGE_1G 2u /* Those of 1 GiB, or else of 2 MiB. */
#define WEIR_SHARED_POOL_NO_HUGE 4u /* Not even transparent huge pages. */
#define WEIR_SHARED_POOL_NUMA 8u /* Memory of node .numa_node. */

/* A size of buffer. */
struct weir_shared_pool_class {
	size_t buf_size; /* Bytes in each. */
	size_t align; /* Of each, a power of 2; 0: 4096. */
	uint32_t bufs; /* How many to begin with. */
	uint32_t reserved;
};

/*
 * Options of weir_shared_pool_create().  Set .size to the size of the struct; 0
 * is the default of every other member.
 */
struct weir_shared_pool_opts {
	size_t size;
	const struct weir_shared_pool_class *classes; /* No two of one size. */
	uint32_t n_classes; /* 1 to 64. */
	uint32_t flags; /* WEIR_SHARED_POOL_ */
	uint32_t numa_node; /* With WEIR_SHARED_POOL_NUMA. */
	uint32_t reserved;
};

/* What a shared pool, or one class of it, has; weir_shared_pool_stats(). */
struct weir_shared_pool_stats {
	size_t size; /* Set by the caller: the size of the struct. */
	uint64_t total; /* Buffers: free + held + in_transit */
	uint64_t free; /* In the shared pool itself. */
	uint64_t held; /* By pools: in their caches, or out. */
	uint64_t in_transit; /* Given to a waiter whose turn is to come. */
	uint64_t waiting; /* Operations that wait. */
	uint64_t pools;
	uint64_t bytes; /* Of memory. */
	uint64_t page_size; /* Of the smallest pages that it is in. */
	uint64_t transparent; /* 1: the kernel may make huge pages of them. */
	uint64_t recalls; /* Times that caches were recalled. */
};

/* Where all buffers are; weir_shared_pool_count(). */
struct weir_shared_pool_count {
	size_t size; /* Set by the caller: the size of the struct. */
	uint64_t total; /* free + cached + out + in_transit */
	uint64_t free; /* In the shared pool itself. */
	uint64_t cached; /* In the caches of pools. */
	uint64_t out; /* Held by users, or on the way back. */
	uint64_t in_transit; /* Given to a waiter whose turn is to come. */
};

/*
 * Create a shared pool, with all its memory, which is touched.
 *
 * Huge pages are taken as far as there are any: reserved ones if .flags ask for
 * them, else transparent ones; .page_size of weir_shared_pool_stats() tells
 * what was got, and weir_shared_pool_describe() why it was not more.  The
 * same holds for the node.
 *
 * Returns 0 with *@ret set, to be freed by weir_shared_pool_destroy(), or
 *   -EINVAL  no classes or more than 64, one without size or buffers, with more
 *            than 2^24 of them, or an .align that is no power of 2 up to 1 GiB,
 *            two of the same size, or an unknown flag
 *   -E2BIG   @opts sets a member that this version does not have
 *   -ENOMEM  no memory; weir_why() says how much was wanted
 *   another  weir_mmap_start() refuses the memory with it
 *
 * Any thread.  May take long: memory is faulted in.
 */
WEIR_API int weir_shared_pool_create(struct weir_shared_pool **ret,
				     const struct weir_shared_pool_opts *opts);

/*
 * Free @shared_pool and its memory.  NULL is allowed.
 *
 * Returns 0, or, with the shared pool as it was:
 *   -EBUSY  pools are made of it, or a weir_shared_pool_count() is in flight;
 *           or its memory is not to be freed, see weir_segment_set_flags()
 *
 * Any thread.
 */
WEIR_API int weir_shared_pool_destroy(struct weir_shared_pool *shared_pool);

/*
 * Add @n buffers to the class of @buf_size bytes of @shared_pool, in memory
 * of their own.  Pools may use it meanwhile; waiters are served at once.
 * The pools register the memory when their reactors come round to it, and use
 * it unregistered until then.
 *
 * Returns 0, or, with the shared pool as it was:
 *   -ENOENT  no class has that size
 *   -EINVAL  the class would have more than 2^24 buffers
 *   -ENOSPC  it has been grown 63 times
 *   -ENOMEM  no memory
 *   another  weir_mmap_start() refuses the memory with it
 *
 * Any thread.  May take long: memory is faulted in.  Re-creates
 * rte_mempool_populate_anon().
 */
WEIR_API int weir_shared_pool_grow(struct weir_shared_pool *shared_pool,
				   size_t buf_size, uint32_t n);

/*
 * Copy what the class of @buf_size bytes of @shared_pool has, or all of
 * @shared_pool if @buf_size is 0, to *@ret, whose .size the caller has set.
 * The figures are of one moment, but the shared pool may be in use, and they
 * may be past already.
 *
 * Returns 0, or
 *   -ENOENT  no class has that size
 *   -EINVAL  .size is smaller than the member itself
 *
 * Any thread.  Takes the shared pool's lock.
 */
WEIR_API int weir_shared_pool_stats(struct weir_shared_pool *shared_pool,
				    size_t buf_size,
				    struct weir_shared_pool_stats *ret);

/*
 * Count where all buffers of @shared_pool are, visiting every pool: @op
 * completes with the total, and *@ret, whose .size the caller has set, is
 * filled then.
 *
 * The parts add up to the total.  All but .cached and .out are of the moment
 * when the last pool was visited, and so is the sum of these two; what a pool
 * has cached is as of its own visit, less what it does not have any more.
 *
 * Returns 0, or
 *   -EINVAL     .size is smaller than the member itself, or @op is in flight or
 *               has no callback
 *   -EAGAIN     .ops_max operations are in flight
 *   -ESHUTDOWN  @r is stopping
 *
 * Call on @r's thread; @r need not have a pool.  The pools' reactors have to
 * make turns, and are woken for it; the operation can be cancelled.  Never
 * blocks for long: takes the shared pool's lock.  Re-creates
 * rte_mempool_in_use_count() and rte_mempool_avail_count().
 */
WEIR_API int weir_shared_pool_count(struct weir_shared_pool *shared_pool,
				    struct weir_reactor *r, struct weir_op *op,
				    struct weir_shared_pool_count *ret);

/*
 * Write a text about @shared_pool for people to the @size bytes at @text:
 * classes, pages, node, and why not what was asked for.
 *
 * Returns the length of the whole text, which has been cut if that is not less
 * than @size.
 *
 * Any thread.  Re-creates rte_mempool_dump().
 */
WEIR_API size_t weir_shared_pool_describe(struct weir_shared_pool *shared_pool,
					  char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_SHARED_POOL_H */
