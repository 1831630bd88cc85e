/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_INVENTORY_H
#define WEIR_INVENTORY_H

/*
 * An inventory: a reactor's set of buf descriptors for existing memory.  (A
 * pool has bufs with memory of its own.)
 *
 * Attaching an mmap registers its memory with the reactor, once.  Afterwards
 * getting a buf of it costs a few loads and stores.  free + out = total at any
 * time.
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

/* Counts of an inventory; weir_inventory_stats(). */
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
 *
 * Re-creates doca_buf_inventory_create() and doca_buf_inventory_start().
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
 *
 * Re-creates doca_buf_inventory_destroy().
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
 * Attach @mmap, so that bufs of it can be taken, and register its memory with
 * the reactor's backend.
 *
 * Without support, or beyond the limits, the memory is used unregistered, which
 * is no error; weir_mmap_registered() tells.
 *
 * Returns 0, also if @mmap is attached already, or
 *   -EBADFD  @mmap is not started
 *   -ESTALE  @mmap is imported, and its exporter has revoked it
 *   -ENOSPC  .mmaps mmaps are attached
 *   -ENOMEM  no memory
 *
 * Call on the inventory's reactor.  May take long, because the kernel looks up
 * and pins pages.
 */
WEIR_API int weir_inventory_attach(struct weir_inventory *inventory,
				   struct weir_mmap *mmap);

/*
 * Detach @mmap.
 *
 * Returns 0, or
 *   -EBUSY   bufs of @mmap are out
 *   -ENOENT  @mmap is not attached
 *
 * Call on the inventory's reactor.
 */
WEIR_API int weir_inventory_detach(struct weir_inventory *inventory,
				   struct weir_mmap *mmap);

/*
 * Take a buf with the window [@addr, @addr + @len) of @mmap, and the data
 * [@data, @data + @data_len) in it.
 *
 * @data NULL is the beginning of the window.
 *
 * Returns 0 with *@ret set, to be returned with weir_buf_put(), or
 *   -EINVAL  @len is 0
 *   -ERANGE  the window is not inside @mmap, or the data not inside the window
 *   -ENOENT  @mmap is not attached
 *   -EBADFD  @mmap is being stopped
 *   -ESTALE  @mmap is imported, and its exporter has revoked it
 *   -EAGAIN  all bufs are out
 *
 * Call on the inventory's reactor.  Never blocks, never allocates.
 *
 * Re-creates doca_buf_inventory_buf_get_by_args().
 */
WEIR_API int weir_inventory_get(struct weir_buf **ret,
				struct weir_inventory *inventory,
				struct weir_mmap *mmap, void *addr, size_t len,
				void *data, size_t data_len);

/*
 * Take an empty buf with the window [@addr, @addr + @len) of @mmap.
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
 * Take a full buf with the window [@data, @data + @len) of @mmap.
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
 * Take a list of bufs with the same windows and data as the list whose head is
 * @src.
 *
 * The lists share the memory; it is not copied.  @src may belong to another
 * reactor; the new list uses the registration of this reactor.  It holds no
 * reference to @src.
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
 * Get the counts of @inventory.
 *
 * The caller sets .size of *@ret.
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
