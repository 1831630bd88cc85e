/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_INVENTORY_H
#define WEIR_INVENTORY_H

/*
 * An inventory: a reactor's set of buf descriptors, for memory that is there
 * already.  (For memory to be handed out there is the pool.)
 *
 * An mmap is attached once, which registers its memory with the reactor; from
 * then on a buf of it costs a few loads and shared pools.  What is out and
 * what is free adds up to the total at any time.
 *
 * Re-creates doca_buf_inventory.
 */

#include <weir/buf.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_inventory;
struct weir_mmap;
struct weir_reactor;

/*
 * Options of weir_inventory_create().  Set .size to the size of the struct; 0
 * is the default of every other member.
 */
struct weir_inventory_opts {
	size_t size;
	uint32_t bufs;		/* Descriptors; 0: 1024. */
	uint32_t mmaps;		/* That can be attached; 0: 16. */
};

/* What an inventory has; weir_inventory_stats(). */
struct weir_inventory_stats {
	size_t size;		/* Set by the caller: the size of the struct. */
	uint64_t total;
	uint64_t free;
	uint64_t out;
};

/*
 * Create an inventory for @r.
 *
 * Returns 0 with *@ret set, to be freed by weir_inventory_destroy(), or
 *   -EINVAL     .bufs is more than 2^24, or .mmaps more than 4096
 *   -E2BIG      @opts sets a member that this version does not have
 *   -ENOMEM     no memory
 *   -ESHUTDOWN  @r is stopping
 *
 * Call on @r's thread.
 */
WEIR_API int weir_inventory_create(struct weir_inventory **ret,
				   struct weir_reactor *r,
				   const struct weir_inventory_opts *opts);

/*
 * Detach all mmaps and free @inventory.  NULL is allowed.
 *
 * Returns 0, or, with the inventory as it was:
 *   -EBUSY  bufs are out; weir_why() says how many, and their holders by tag
 *
 * Call on the inventory's reactor; callbacks too.
 */
WEIR_API int weir_inventory_destroy(struct weir_inventory *inventory);

/*
 * Add @n descriptors to @inventory.  Bufs may be out.
 *
 * Returns 0, or, with the inventory as it was:
 *   -EINVAL  it would have more than 2^24
 *   -ENOMEM  no memory
 *
 * Call on the inventory's reactor.  Re-creates doca_buf_inventory_expand().
 */
WEIR_API int weir_inventory_expand(struct weir_inventory *inventory,
				   uint32_t n);

/*
 * Attach @mmap, so that bufs can be taken of it, and register its memory with
 * the reactor's backend, as far as there is such a thing and the limits allow.
 * That it was not possible is no error: weir_mmap_registered() says so.
 *
 * Returns 0, also if it is attached already, or
 *   -EBADFD  @mmap is not started
 *   -ESTALE  @mmap is imported, and its exporter has revoked it
 *   -ENOSPC  .mmaps are attached
 *   -ENOMEM  no memory
 *
 * Call on the inventory's reactor.  May take long: pages are looked up and
 * pinned.
 */
WEIR_API int weir_inventory_attach(struct weir_inventory *inventory,
				   struct weir_mmap *mmap);

/*
 * Detach @mmap.
 *
 * Returns 0, or
 *   -EBUSY   bufs of it are out
 *   -ENOENT  it is not attached
 *
 * Call on the inventory's reactor.
 */
WEIR_API int weir_inventory_detach(struct weir_inventory *inventory,
				   struct weir_mmap *mmap);

/*
 * Take a buf with the window [@addr, @addr + @len) of @mmap, and the data
 * [@data, @data + @data_len) in it; @data NULL means at its beginning.
 *
 * Returns 0 with *@ret set, to be given back with weir_buf_put(), or
 *   -EINVAL  @len is 0
 *   -ERANGE  the window is not inside @mmap, or the data not inside the window
 *   -ENOENT  @mmap is not attached
 *   -EBADFD  @mmap is being stopped
 *   -ESTALE  @mmap is imported, and its exporter has revoked it
 *   -EAGAIN  all bufs are out
 *
 * Call on the inventory's reactor.  Never blocks, never allocates.
 */
WEIR_API int weir_inventory_get(struct weir_buf **ret,
				struct weir_inventory *inventory,
				struct weir_mmap *mmap, void *addr, size_t len,
				void *data, size_t data_len);

/*
 * Take a buf to be filled: the window [@addr, @addr + @len) of @mmap, and no
 * data.
 *
 * Returns as weir_inventory_get().
 *
 * Call on the inventory's reactor.  Never blocks, never allocates.
 *
 * Re-creates doca_buf_inventory_buf_get_by_addr().
 */
static inline int weir_inventory_get_by_addr(struct weir_buf **ret,
					     struct weir_inventory *inventory,
					     struct weir_mmap *mmap, void *addr,
					     size_t len)
{
	return weir_inventory_get(ret, inventory, mmap, addr, len, addr, 0);
}

/*
 * Take a buf to be read: the window [@data, @data + @len) of @mmap, all of it
 * data.
 *
 * Returns as weir_inventory_get().
 *
 * Call on the inventory's reactor.  Never blocks, never allocates.
 *
 * Re-creates doca_buf_inventory_buf_get_by_data().
 */
static inline int weir_inventory_get_by_data(struct weir_buf **ret,
					     struct weir_inventory *inventory,
					     struct weir_mmap *mmap, void *data,
					     size_t len)
{
	return weir_inventory_get(ret, inventory, mmap, data, len, data, len);
}

/*
 * Take a list of bufs like the list that @src is the head of: the same windows
 * with the same data.  The memory is shared, and not copied.  @src may be at
 * home on another reactor: so its memory is used here, with the registration
 * that this reactor has of it.  Nothing keeps @src out for the sake of the dup.
 *
 * Returns 0 with *@ret set, or
 *   -EPERM   @src is in the middle of a list
 *   -ENOENT  an mmap of @src is not attached to @inventory
 *   -EBADFD  an mmap of @src is being stopped
 *   -ESTALE  an mmap of @src is imported, and its exporter has revoked it
 *   -EAGAIN  fewer bufs than needed are free; none is taken
 *
 * Call on the inventory's reactor, holding @src.  Never blocks, never
 * allocates.
 *
 * Re-creates doca_buf_inventory_buf_dup().
 */
WEIR_API int weir_inventory_dup(struct weir_buf **ret,
				struct weir_inventory *inventory,
				const struct weir_buf *src);

/*
 * Copy what @inventory has to *@ret, whose .size the caller has set.
 *
 * Returns 0, or
 *   -EINVAL  .size is smaller than the member itself
 *
 * Call on the inventory's reactor.  Never blocks.
 *
 * Re-creates doca_buf_inventory_get_num_elements() and
 * doca_buf_inventory_get_num_free_elements().
 */
WEIR_API int weir_inventory_stats(const struct weir_inventory *inventory,
				  struct weir_inventory_stats *ret);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_INVENTORY_H */
