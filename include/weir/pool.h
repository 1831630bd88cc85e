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
 * The memory is one range, page-aligned, in huge pages where the system gives
 * them, faulted in when the pool is created, and registered with the backend as
 * far as the limits allow (see <weir/mmap.h>).
 *
 * Waiters are served in the order they came: a buffer that comes back while
 * an operation waits is the first waiter's and cannot be taken by others.
 * What is out, what is free and what is in transit adds up to the total at
 * any time.
 *
 * The buffers are the pool's own, of one size; or, with .shared_pool, those
 * of a store (see <weir/shared-pool.h>), which pools of other reactors share,
 * and in several sizes.  Then the pool is a cache, and what is free in it may
 * go to waiters elsewhere.
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
	uint32_t waiters_max;	/* That may wait; 0: no limit but .ops_max. */
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

/* What a pool has and did; weir_pool_stats(). */
struct weir_pool_stats {
	size_t size;		/* Set by the caller: the size of the struct. */
	uint64_t total;		/* Its own: free + out + in_transit. */
	uint64_t free; /* With .shared_pool: cached. */
	uint64_t out;
	uint64_t waiting;	/* Operations that wait for a buffer. */
	uint64_t gets;		/* Buffers handed out so far. */
	uint64_t empty;		/* Gets answered -EAGAIN so far. */
	uint64_t registered;	/* Bytes that the backend has registered. */
	uint64_t huge;		/* 1 if the memory is in huge pages, by wish. */
	uint64_t in_transit;	/* A waiter's, whose turn is to come. */
	uint64_t refills; /* Batches taken from the shared pool. */
	uint64_t flushes;	/* Batches given back to it. */
};

/*
 * Create a pool of @r.
 *
 * Without .mmap it allocates the memory, all of it at once, and touches it.
 * With .mmap it hands out that range, as many buffers as .bufs says or, if that
 * is 0, as fit; the mmap cannot be stopped while the pool exists.  No byte is
 * in two pools of the process: not in two over one mmap, not in two over
 * mmaps that overlap, and not in one over memory that another pool, or a
 * shared pool, has allocated.  Bufs that an inventory makes of the same mmap
 * at addresses of the caller's are the caller's affair, and so is memory that
 * is mapped twice. With .shared_pool it takes what that has, and registers
 * its memory with the reactor; the shared pool cannot be destroyed while the
 * pool exists.
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
 *   -ENOMEM     no memory; weir_why() says how much was wanted
 *   -ESHUTDOWN  @r is stopping
 *   another     weir_mmap_start() refuses the pool's own memory with it
 *
 * Call on @r's thread.  May take long: memory is faulted in.
 */
WEIR_API int weir_pool_create(struct weir_pool **ret, struct weir_reactor *r,
			      const struct weir_pool_opts *opts);

/*
 * Free @pool and its memory; what it had cached goes back to its shared pool.
 * NULL is allowed.
 *
 * Returns 0, or, with the pool as it was:
 *   -EBUSY  buffers are out, or operations wait; weir_why() says how many, and
 *           their holders by tag; or a pipeline was created with it; or its own
 *           memory is not to be freed, see weir_segment_set_flags()
 *
 * Call on the pool's reactor; callbacks too.
 */
WEIR_API int weir_pool_destroy(struct weir_pool *pool);

/*
 * Take a buffer now: empty, its data at the beginning of the window.  Of a pool
 * with several sizes, the smallest.
 *
 * Returns 0 with *@ret set, to be given back with weir_buf_put(), or
 *   -EAGAIN  none is free here or in the shared pool (while an operation waits,
 *            none is); other pools may have some cached, which
 *            weir_pool_wait() recalls
 *
 * Call on the pool's reactor.  Never allocates; takes the shared pool's lock if
 * nothing is cached.
 */
WEIR_API int weir_pool_get(struct weir_buf **ret, struct weir_pool *pool);

/*
 * Take a buffer of at least @size bytes now: of the smallest size that has
 * capacity for them, also if there are none of that and some of a larger one.
 *
 * Returns 0 with *@ret set, to be given back with weir_buf_put(), or
 *   -EMSGSIZE  no buffers are so large
 *   -EAGAIN    none is free, as for weir_pool_get()
 *
 * Call on the pool's reactor.  Never allocates; takes the shared pool's lock if
 * nothing is cached.
 */
WEIR_API int weir_pool_get_sized(struct weir_buf **ret, struct weir_pool *pool,
				 size_t size);

/*
 * Take @n buffers of at least @size bytes now, all or none; @size 0 means the
 * smallest.  More than a whole cache come straight from the shared pool.
 *
 * Returns 0 with @ret[0] to @ret[@n - 1] set, each to be given back with
 * weir_buf_put(), or
 *   -EMSGSIZE  no buffers are so large
 *   -EAGAIN    not so many are free, as for weir_pool_get()
 *
 * Call on the pool's reactor.  Never allocates; takes the shared pool's lock
 * if not so many are cached.
 *
 * Re-creates rte_mempool_get_bulk().
 */
WEIR_API int weir_pool_get_bulk(struct weir_buf **ret, struct weir_pool *pool,
				size_t size, uint32_t n);

/*
 * Take a buffer when there is one: @op completes with its size, and the
 * callback gets the buffer from weir_pool_taken(@op).
 *
 * An operation that was cancelled too late completes with the size, and has the
 * buffer: take it, or it is lost to the pool.
 *
 * With .shared_pool all waiters for buffers of a size are in one queue,
 * whatever their reactor; what other pools have cached is recalled.
 *
 * Returns 0, or
 *   -EAGAIN     .waiters_max wait already, or .ops_max operations are in flight
 *   -EINVAL     @op is in flight, or has no callback
 *   -ESHUTDOWN  the reactor is stopping
 *
 * Call on the pool's reactor.  Never allocates; takes the shared pool's lock if
 * nothing is cached.
 */
WEIR_API int weir_pool_wait(struct weir_pool *pool, struct weir_op *op);

/*
 * As weir_pool_wait(), for a buffer of at least @size bytes, of the smallest
 * size that has capacity for them.
 *
 * Returns 0, or
 *   -EMSGSIZE   no buffers are so large
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
 * Add @n buffers to @pool, in memory of their own.  Buffers may be out; who
 * waits is served at once.
 *
 * Returns 0, or, with the pool as it was:
 *   -EPERM   the buffers are a shared pool's (see weir_shared_pool_grow()),
 *            or lie in an mmap that was given in
 *   -EINVAL  it would have more than 2^24
 *   -ENOSPC  it has been grown 63 times
 *   -ENOMEM  no memory
 *   another  weir_mmap_start() refuses the memory with it
 *
 * Call on the pool's reactor.  May take long: memory is faulted in.  Re-creates
 * rte_mempool_populate_anon().
 */
WEIR_API int weir_pool_grow(struct weir_pool *pool, uint32_t n);

/*
 * The holders of the buffers of @pool that are out, by the tags that
 * weir_buf_set_tag() has given them: up to @max at @ret, the largest first.
 *
 * Returns how many different tags there are, 32 at most; bufs without one count
 * as one.
 *
 * Call on the pool's reactor.  Takes as long as there are buffers in its
 * shared pool.
 */
WEIR_API uint32_t weir_pool_owners(const struct weir_pool *pool,
				   struct weir_buf_owner *ret, uint32_t max);

/*
 * The buffer that @op, a weir_pool_wait() that has completed, brought; NULL if
 * it failed.  Valid until @op is started again.
 *
 * Call on the pool's reactor.  Never blocks.
 */
WEIR_API struct weir_buf *weir_pool_taken(const struct weir_op *op);

/*
 * The mmap behind @pool; it is the pool's, unless it was given in.  If it has
 * grown, or has several sizes, the first; see weir_buf_mmap().
 *
 * Call on the pool's reactor.  Never blocks.  Re-creates .mz of struct
 * rte_mempool.
 */
WEIR_API struct weir_mmap *weir_pool_mmap(const struct weir_pool *pool);

/*
 * Bytes in each buffer of @pool, or in the smallest.
 *
 * Call on the pool's reactor.  Never blocks.
 */
WEIR_API size_t weir_pool_buf_size(const struct weir_pool *pool);

/*
 * Copy what @pool has and did to *@ret, whose .size the caller has set.
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
