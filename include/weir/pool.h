/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_POOL_H
#define WEIR_POOL_H

/*
 * A pool: a reactor's set of data buffers, each a buf with memory of its own.
 *
 *	weir_pool_create(&pool, r, NULL);
 *	err = weir_pool_get(&buf, pool);	// now, or -EAGAIN
 *	err = weir_pool_wait(pool, &op);	// or when there is one
 *	weir_buf_put(buf);
 *
 * The memory is one range, page-aligned, in huge pages if the system has them,
 * faulted in when the pool is created, and registered with the backend as far
 * as the limits allow (see <weir/mmap.h>).
 *
 * Waiters are served in order: a buffer that is returned while operations wait
 * goes to the first of them, and cannot be taken by others.
 * free + out + in_transit = total at any time.
 *
 * A pool has buffers of its own, of one size.  With .shared_pool (see
 * <weir/shared-pool.h>) it is a cache of buffers, in several sizes, that pools
 * of other reactors share; its free buffers may then go to waiters of other
 * pools.
 *
 * Re-creates spdk_iobuf, doca_buf_pool and rte_mempool.
 */

#include <weir/buf.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_mmap;
struct weir_op;
struct weir_pool;
struct weir_reactor;
struct weir_shared_pool;

/* weir_pool_opts.flags */
#define WEIR_POOL_NO_REGISTER 1u	/* Do not register with the backend. */
#define WEIR_POOL_NO_HUGE 2u		/* Do not ask for huge pages. */
#define WEIR_POOL_NO_CACHE 4u /* With .shared_pool: take from it singly. */

/*
 * Options of weir_pool_create().  Set .size to the size of the struct; 0
 * is the default of every other member.
 */
struct weir_pool_opts {
	size_t size;
	uint32_t bufs;		/* Buffers; 0: 64. */
	uint32_t waiters_max;	/* Waiting operations; 0: .ops_max. */
	size_t buf_size;	/* Bytes in each; 0: 64 KiB. */
	size_t align;		/* Of each, a power of 2; 0: 4096. */
	uint32_t flags;		/* WEIR_POOL_ */
	uint32_t reserved;
	struct weir_mmap *mmap;	/* Started, writable; NULL: memory of its own. */
	struct weir_shared_pool
		*shared_pool; /* To share with others; NULL: its own. */
	uint32_t cache; /* With .shared_pool: buffers to keep of each class;
				 * 0: 32. */
	uint32_t reserved1;
};

/* Counters of a pool; weir_pool_stats(). */
struct weir_pool_stats {
	size_t size;		/* Set by the caller: the size of the struct. */
	uint64_t total;		/* Its own: free + out + in_transit. */
	uint64_t free; /* With .shared_pool: cached. */
	uint64_t out;
	uint64_t waiting;	/* Operations that wait for a buffer. */
	uint64_t gets;		/* Buffers handed out so far. */
	uint64_t empty;		/* Gets that returned -EAGAIN so far. */
	uint64_t registered;	/* Bytes that the backend has registered. */
	uint64_t huge;		/* 1 if the memory is in huge pages. */
	uint64_t in_transit;	/* Given to waiters that have not run yet. */
	uint64_t refills; /* Batches taken from the shared pool. */
	uint64_t flushes;	/* Batches returned to it. */
};

/*
 * Create a pool of @r.
 *
 * Without .mmap the pool allocates its memory, all of it at once, and touches
 * it.  With .mmap the pool hands out that range, .bufs buffers, or as many as
 * fit if that is 0; the mmap cannot be stopped while the pool exists.  No byte
 * is in two pools of the process, not even by mmaps that overlap, or by memory
 * that another pool or a shared pool has allocated.  The caller must make sure
 * that bufs which an inventory makes of the same mmap do not conflict with
 * those of the pool; the same holds for memory that is mapped twice.
 * With .shared_pool the pool takes buffers from that, and registers their
 * memory with the reactor; the shared pool cannot be destroyed while the pool
 * exists.
 *
 * Returns 0 with *@ret set, to be freed by weir_pool_destroy(), or
 *   -EINVAL     .align is no power of 2 or more than 1 GiB, .bufs is more than
 *               2^24, the product overflows, an unknown flag, or .mmap is not
 *               writable; with .shared_pool, any of these is set, or .cache
 *               is more than a class has buffers
 *   -ERANGE     .mmap is too small for .bufs, or for one buffer
 *   -EBADFD     .mmap is not started
 *   -EBUSY      another pool hands out memory of .mmap
 *   -ESTALE     .mmap is imported, and its exporter has revoked it
 *   -E2BIG      @opts sets a member that this version does not have
 *   -ENOMEM     no memory; weir_why() says how much was requested
 *   -ESHUTDOWN  @r is stopping
 *   another     weir_mmap_start() refuses the pool's own memory with it
 *
 * Call on @r's thread.  May take long, because memory is faulted in.
 *
 * Re-creates spdk_iobuf_channel_init(), rte_mempool_create() and
 * doca_buf_pool_create().
 */
WEIR_API int weir_pool_create(struct weir_pool **ret, struct weir_reactor *r,
			      const struct weir_pool_opts *opts);

/*
 * Free @pool and its memory.
 *
 * Its cached buffers return to its shared pool.  NULL is allowed.
 *
 * Returns 0, or, with the pool as it was:
 *   -EBUSY  buffers are out, or operations wait; weir_why() says how many, and
 *           their holders by tag; or a pipeline was created with it; or
 *           weir_segment_set_flags() forbids freeing its memory; or a callback
 *           of weir_pool_grow() makes the call; or the program uses the mmap of
 *           the pool: bufs of it are out of an inventory, a sync event lies in
 *           it, or a reactor of another thread has it attached
 *
 * Call on the pool's reactor; callbacks too.
 *
 * Re-creates rte_mempool_free() and spdk_iobuf_channel_fini().
 */
WEIR_API int weir_pool_destroy(struct weir_pool *pool);

/*
 * Take an empty buffer now.
 *
 * Its data begin at the beginning of the window.  If the pool has several
 * sizes, it is the smallest.
 *
 * Returns 0 with *@ret set, to be returned with weir_buf_put(), or
 *   -EAGAIN  none is free here or in the shared pool (while an operation waits,
 *            none is); other pools may have some cached, which
 *            weir_pool_wait() recalls
 *
 * Call on the pool's reactor.  Never allocates; takes the shared pool's lock if
 * nothing is cached.
 *
 * Re-creates spdk_iobuf_get(), rte_mempool_get() and doca_buf_pool_buf_alloc().
 */
WEIR_API int weir_pool_get(struct weir_buf **ret, struct weir_pool *pool);

/*
 * Take a buffer of at least @size bytes now.
 *
 * It is always of the smallest sufficient size; the call does not take a larger
 * one if none of that size is free.
 *
 * Returns 0 with *@ret set, to be returned with weir_buf_put(), or
 *   -EMSGSIZE  no buffers are that large
 *   -EAGAIN    none is free, as for weir_pool_get()
 *
 * Call on the pool's reactor.  Never allocates; takes the shared pool's lock if
 * nothing is cached.
 */
WEIR_API int weir_pool_get_sized(struct weir_buf **ret, struct weir_pool *pool,
				 size_t size);

/*
 * Take @n buffers of at least @size bytes now, all or none.
 *
 * @size 0 is the smallest size.  More buffers than a whole cache come directly
 * from the shared pool.
 *
 * Returns 0 with @ret[0] to @ret[@n - 1] set, each to be returned with
 * weir_buf_put(), or
 *   -EMSGSIZE  no buffers are that large
 *   -EAGAIN    fewer are free, as for weir_pool_get()
 *
 * Call on the pool's reactor.  Never allocates; takes the shared pool's lock
 * if fewer are cached.
 *
 * Re-creates rte_mempool_get_bulk().
 */
WEIR_API int weir_pool_get_bulk(struct weir_buf **ret, struct weir_pool *pool,
				size_t size, uint32_t n);

/*
 * Wait for a buffer and take it.
 *
 * @op completes with the size of the buffer, and the callback gets the buffer
 * from weir_pool_taken(@op).
 *
 * If a cancel was too late, @op completes with the size and has the buffer: the
 * callback must take it, or the pool loses it.
 *
 * With .shared_pool all waiters for buffers of a size are in one queue,
 * whatever their reactor, and buffers in the caches of other pools are
 * recalled.
 *
 * Returns 0, or
 *   -EAGAIN     .waiters_max wait already, or .ops_max operations are in flight
 *   -EINVAL     @op is in flight, or has no callback
 *   -ESHUTDOWN  the reactor is stopping
 *
 * Call on the pool's reactor.  Never allocates; takes the shared pool's lock if
 * nothing is cached.
 *
 * Re-creates spdk_iobuf_get() with an entry to wait by.
 */
WEIR_API int weir_pool_wait(struct weir_pool *pool, struct weir_op *op);

/*
 * Wait for a buffer of at least @size bytes and take it.
 *
 * It is of the smallest sufficient size; otherwise as weir_pool_wait().
 *
 * Returns 0, or
 *   -EMSGSIZE   no buffers are that large
 *   -EAGAIN     as for weir_pool_wait()
 *   -EINVAL     @op is in flight, or has no callback
 *   -ESHUTDOWN  the reactor is stopping
 *
 * Call on the pool's reactor.  Never allocates; takes the shared pool's lock if
 * nothing is cached.
 */
WEIR_API int weir_pool_wait_sized(struct weir_pool *pool, struct weir_op *op,
				  size_t size);

/*
 * Add @n buffers to @pool, in memory of their own.
 *
 * Buffers may be out; waiters are served at once.
 *
 * Returns 0, or, with the pool as it was:
 *   -EPERM   the buffers are a shared pool's (see weir_shared_pool_grow()),
 *            or in an mmap of the caller
 *   -EINVAL  it would have more than 2^24
 *   -ENOSPC  it has been grown 63 times
 *   -ENOMEM  no memory
 *   another  weir_mmap_start() refuses the memory with it
 *
 * Call on the pool's reactor.  May take long, because memory is faulted in.
 * Re-creates rte_mempool_populate_anon().
 */
WEIR_API int weir_pool_grow(struct weir_pool *pool, uint32_t n);

/*
 * List the holders of the buffers of @pool that are out, by their tags.
 *
 * weir_buf_set_tag() sets the tags.  Up to @max are written to @ret, the
 * largest number of buffers first.
 *
 * Returns the number of different tags, 32 at most; bufs without a tag count as
 * one.
 *
 * Call on the pool's reactor.  The time grows with the number of buffers in its
 * shared pool.
 */
WEIR_API uint32_t weir_pool_owners(const struct weir_pool *pool,
				   struct weir_buf_owner *ret, uint32_t max);

/*
 * Get the buffer that a completed weir_pool_wait(), @op, has taken; NULL if it
 * failed, or still waits.
 *
 * Valid until @op is started again; the wait may have taken it before the
 * callback begins.
 *
 * Returns the buf, or NULL.  Call on the pool's reactor.  Never blocks.
 */
WEIR_API struct weir_buf *weir_pool_taken(const struct weir_op *op);

/*
 * Get the mmap of @pool, which the pool owns unless the caller has given it.
 *
 * If the pool has grown, or has several sizes, it is the first; see
 * weir_buf_mmap().
 *
 * Returns the mmap.  Call on the pool's reactor.  Never blocks.  Re-creates .mz
 * of struct rte_mempool.
 */
WEIR_API struct weir_mmap *weir_pool_mmap(const struct weir_pool *pool);

/*
 * Get the reactor of @pool.
 *
 * Returns the reactor.  Any thread, while @pool exists.  Never blocks.
 *
 * Re-creates the lcore of a cache of rte_mempool.
 */
WEIR_API struct weir_reactor *weir_pool_reactor(const struct weir_pool *pool);

/*
 * Get the number of bytes in each buffer of @pool, or in the smallest.
 *
 * Returns the number of bytes.  Call on the pool's reactor.  Never blocks.
 */
WEIR_API size_t weir_pool_buf_size(const struct weir_pool *pool);

/*
 * Get the counters of @pool.
 *
 * The caller sets .size of *@ret.
 *
 * Returns 0, or
 *   -EINVAL  .size is smaller than the member itself
 *
 * Call on the pool's reactor.  Never blocks.
 */
WEIR_API int weir_pool_stats(const struct weir_pool *pool,
			     struct weir_pool_stats *ret);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_POOL_H */
