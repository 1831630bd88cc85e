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
 * Each pool keeps a cache of every class; it takes from it and returns to it
 * without a lock.  It fills an empty cache from the shared pool, and returns
 * half of an overfull one, both in batches under the shared pool's lock.
 *
 * Waiters of all reactors are in one queue per class, first come first served.
 * A waiter drains the caches of other pools, waking sleeping reactors if
 * needed.  While an operation waits, a returned buffer goes to the first
 * waiter, whatever its reactor, and weir_pool_get() returns -EAGAIN.  So a
 * waiter is served whenever a buffer is free in any pool.  weir_pool_get(),
 * which does not wait, may fail although a buffer is free in another pool's
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
#define WEIR_SHARED_POOL_HUGE_1G 2u /* Of 1 GiB, otherwise of 2 MiB. */
#define WEIR_SHARED_POOL_NO_HUGE 4u /* Not even transparent huge pages. */
#define WEIR_SHARED_POOL_NUMA 8u /* Memory of node .numa_node. */

/* A size of buffer. */
struct weir_shared_pool_class {
	size_t buf_size; /* Bytes in each. */
	size_t align; /* Of each, a power of 2; 0: 4096. */
	uint32_t bufs; /* Initial number. */
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

/* Counters of a shared pool, or of one class; weir_shared_pool_stats(). */
struct weir_shared_pool_stats {
	size_t size; /* Set by the caller: the size of the struct. */
	uint64_t total; /* Buffers: free + held + in_transit */
	uint64_t free; /* In the shared pool itself. */
	uint64_t held; /* By pools: in their caches, or out. */
	uint64_t in_transit; /* Given to waiters that have not run yet. */
	uint64_t waiting; /* Operations that wait. */
	uint64_t pools;
	uint64_t bytes; /* Of memory. */
	uint64_t page_size; /* The smallest page size of the memory. */
	uint64_t transparent; /* 1: the kernel may make huge pages of them. */
	uint64_t recalls; /* Times that caches were recalled. */
};

/* The places of all buffers; weir_shared_pool_count(). */
struct weir_shared_pool_count {
	size_t size; /* Set by the caller: the size of the struct. */
	uint64_t total; /* free + cached + out + in_transit */
	uint64_t free; /* In the shared pool itself. */
	uint64_t cached; /* In the caches of pools. */
	uint64_t out; /* Held by users, or on the way back. */
	uint64_t in_transit; /* Given to waiters that have not run yet. */
};

/*
 * Create a shared pool and allocate all its memory.
 *
 * The call touches the memory.  It uses huge pages as far as there are any:
 * reserved ones if .flags ask for them, otherwise transparent ones.
 * .page_size of weir_shared_pool_stats() tells the result, and
 * weir_shared_pool_describe() the reason.  The same holds for the node.
 *
 * Returns 0 with *@ret set, to be freed by weir_shared_pool_destroy(), or
 *   -EINVAL  there are no classes or more than 64; a class has no size, no
 *            buffers or more than 2^24, or an .align that is no power of 2 up
 *            to 1 GiB; two classes have the same size; or an unknown flag
 *   -E2BIG   @opts sets a member that this version does not have
 *   -ENOMEM  no memory; weir_why() says how much was requested
 *   another  weir_mmap_start() refuses the memory with it
 *
 * Any thread.  May take long, because memory is faulted in.
 */
WEIR_API int weir_shared_pool_create(struct weir_shared_pool **ret,
				     const struct weir_shared_pool_opts *opts);

/*
 * Free @shared_pool and its memory.  NULL is allowed.
 *
 * Returns 0, or, with the shared pool as it was:
 *   -EBUSY  it has pools, or a weir_shared_pool_count() or
 *           weir_shared_pool_grow() is in flight; or the program uses one of
 *           its mmaps, see weir_pool_destroy(); or
 *           weir_segment_set_flags() forbids freeing its memory
 *
 * Any thread.
 */
WEIR_API int weir_shared_pool_destroy(struct weir_shared_pool *shared_pool);

/*
 * Add @n buffers to the class of @buf_size bytes of @shared_pool.
 *
 * Their memory is allocated.  Pools may use the class meanwhile; waiters are
 * served at once.  The pools register the memory in later turns of their
 * reactors, and use it unregistered until then.
 *
 * Returns 0, or, with the shared pool as it was:
 *   -ENOENT  no class has that size
 *   -EINVAL  the class would have more than 2^24 buffers
 *   -ENOSPC  it has been grown 63 times
 *   -ENOMEM  no memory
 *   another  weir_mmap_start() refuses the memory with it
 *
 * Any thread.  May take long, because memory is faulted in.  Re-creates
 * rte_mempool_populate_anon().
 */
WEIR_API int weir_shared_pool_grow(struct weir_shared_pool *shared_pool,
				   size_t buf_size, uint32_t n);

/*
 * Get the counters of the class of @buf_size bytes of @shared_pool.
 *
 * @buf_size 0 is the whole shared pool.  The caller sets .size of *@ret.  The
 * counters are consistent with each other, but may already be out of date if
 * the shared pool is in use.
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
 * Count free, cached and used buffers of @shared_pool by visiting every pool.
 *
 * @op completes with the total, and *@ret, whose .size the caller sets, is then
 * filled in.  The parts add up to the total.  All but .cached and .out are
 * those at the visit of the last pool, and so is the sum of these two.  The
 * cached buffers of a pool are those at its own visit, less those that it has
 * lost since.
 *
 * Returns 0, or
 *   -EINVAL     .size is smaller than the member itself, or @op is in flight or
 *               has no callback
 *   -EAGAIN     .ops_max operations are in flight
 *   -ESHUTDOWN  @r is stopping
 *
 * Call on @r's thread; @r need not have a pool.  The pools' reactors must make
 * turns; the call wakes them.  The operation can be cancelled.  Takes the
 * shared pool's lock, and never blocks for long.  Re-creates
 * rte_mempool_in_use_count() and rte_mempool_avail_count().
 */
WEIR_API int weir_shared_pool_count(struct weir_shared_pool *shared_pool,
				    struct weir_reactor *r, struct weir_op *op,
				    struct weir_shared_pool_count *ret);

/*
 * Describe @shared_pool in the @size bytes at @text: classes, pages, node, and
 * the reasons if they are not those that were asked for.
 *
 * Returns the length of the whole text, which was cut if that is @size or more.
 *
 * Any thread.  Re-creates rte_mempool_dump().
 */
WEIR_API size_t weir_shared_pool_describe(struct weir_shared_pool *shared_pool,
					  char *text, size_t size);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_SHARED_POOL_H */
