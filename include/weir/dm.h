/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_DM_H
#define WEIR_DM_H

/*
 * Device memory: a piece of the memory on a network card.
 *
 * It is small (some hundred KiB, for all users of the card), near the wire, and
 * not memory of this process: there is no pointer to it.  The program copies
 * to and from it in words of 4 bytes.  The card reads and writes it when it is
 * registered, as the range of an mmap, see weir_mmap_set_dm().  Addresses in it
 * are offsets from its beginning.
 *
 * weir_device_list() tells which devices have device memory, and how much; for
 * others the calls here return -EOPNOTSUPP.  The device "soft-dm" emulates
 * device memory in software, in ordinary memory, with the same calls and
 * limits.  Programs for one run on the other.
 *
 * These are control calls: they take locks and make system calls, and copying
 * is slow, because the processor moves each word over the bus.
 *
 * Re-creates ibv_alloc_dm() and its family.
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_device;
struct weir_dm;

/*
 * A token from which another handle of the same memory is made, see
 * weir_dm_export().  Set .size to the size of the struct.
 */
struct weir_dm_token {
	size_t size;
	uint64_t len;		/* Of the memory. */
	int32_t fd;		/* A descriptor of it, or -1. */
	uint32_t handle;	/* The driver's handle, without an fd. */
};

/*
 * Allocate @len bytes of the memory of @device.
 *
 * @device stays open while they are allocated.  Their contents are undefined.
 * On the device they begin at a multiple of 2^@log_align.  All allocations of a
 * device share its memory, also those of other processes ("soft-dm" has memory
 * of its own in each process).
 *
 * Returns 0 with *@ret set, to be freed by weir_dm_free(), or, in this order:
 *   -EOPNOTSUPP  @device has no memory
 *   -EINVAL      @len is 0 or more than the device can ever allocate, or
 *                @log_align is more than it supports
 *   -ENOMEM      not enough memory is left on the device, or in this process
 *   another      the errno of the device's driver
 *
 * Any thread.
 *
 * Re-creates ibv_alloc_dm().
 */
WEIR_API int weir_dm_alloc(struct weir_dm **ret, struct weir_device *device,
			   size_t len, uint32_t log_align);

/*
 * Free @dm.
 *
 * NULL is allowed.  Freeing an imported handle does not free the memory, which
 * belongs to the original handle.  Memory that is still imported elsewhere
 * returns to the device when the last handle is freed; "soft-dm" counts the
 * handles of each process separately.
 *
 * Returns 0, or, with @dm unchanged:
 *   -EINVAL  @dm is no device memory, or was freed before
 *   -EBUSY   @dm is the range of an mmap
 *   another  the errno of the device's driver
 *
 * Any thread, one at a time; callbacks too.
 *
 * Re-creates ibv_free_dm() and ibv_unimport_dm().
 */
WEIR_API int weir_dm_free(struct weir_dm *dm);

/*
 * Copy @len bytes at @src to @dm, beginning at @off.
 *
 * Returns 0, or, with nothing copied, in this order:
 *   -EOPNOTSUPP  the device's driver cannot copy
 *   -EFAULT      the range ends beyond the memory
 *   -EINVAL      @off or @len is no multiple of 4, or @len is 0
 *   another      the errno of the device's driver
 *
 * Any thread.  May take long: the processor moves each word over the bus.
 *
 * Re-creates ibv_memcpy_to_dm().
 */
WEIR_API int weir_dm_copy_to(struct weir_dm *dm, uint64_t off, const void *src,
			     size_t len);

/*
 * Copy @len bytes of @dm, beginning at @off, to @dst.
 *
 * Returns 0, or, with nothing copied, an errno of weir_dm_copy_to().
 *
 * Any thread.  May take long: reading over a bus is slower than writing.
 *
 * Re-creates ibv_memcpy_from_dm().
 */
WEIR_API int weir_dm_copy_from(void *dst, struct weir_dm *dm, uint64_t off,
			       size_t len);

/*
 * Get the length of @dm in bytes, as it was requested.
 *
 * Returns the length.  Any thread.  Never blocks.  Re-creates .length of struct
 * ibv_alloc_dm_attr.
 */
WEIR_API size_t weir_dm_len(const struct weir_dm *dm);

/*
 * Get the device of @dm.
 *
 * Returns the device.  Any thread.  Never blocks.  Re-creates .context of
 * struct ibv_dm.
 */
WEIR_API struct weir_device *weir_dm_device(const struct weir_dm *dm);

/*
 * Tell whether @dm was imported: 1 or 0.
 *
 * Returns 1 or 0.  Any thread.  Never blocks.  Re-creates the difference
 * between ibv_unimport_dm() and ibv_free_dm(), which are one call here.
 */
WEIR_API int weir_dm_is_imported(const struct weir_dm *dm);

/*
 * Get a token from which weir_dm_import() can make another handle of the same
 * memory.
 *
 * The caller sets .size of *@token.  For "soft-dm" the token has an fd, which
 * the caller must close, and may send to another process; anyone who has it can
 * read and write the memory.  For a card it has a handle of the driver, which
 * is valid in this process and for this device only.
 *
 * Returns 0, or
 *   -EOPNOTSUPP  the device's memory cannot be imported
 *   -EINVAL      .size is too small
 *   -EMFILE, -ENFILE  no fd is left
 *
 * Any thread.
 *
 * Re-creates the handle of ibv_import_dm().
 */
WEIR_API int weir_dm_export(struct weir_dm *dm, struct weir_dm_token *token);

/*
 * Make a handle of the memory of @token.
 *
 * Freeing the handle never frees the memory.  The caller still owns .fd.
 *
 * Returns 0 with *@ret set, to be freed by weir_dm_free(), or
 *   -EOPNOTSUPP  @device's memory cannot be imported (of cards, only mlx5's
 *                can)
 *   -EINVAL      @token is for other memory, or has another length
 *   -E2BIG       @token sets a member that this version does not have
 *   -ENOMEM      no memory
 *   another      the errno of the device's driver
 *
 * Any thread.
 *
 * Re-creates ibv_import_dm().
 */
WEIR_API int weir_dm_import(struct weir_dm **ret, struct weir_device *device,
			    const struct weir_dm_token *token);

/*
 * Make a dma-buf of @dm, which other devices can reach.
 *
 * Returns an fd, to be closed by the caller, or
 *   -EOPNOTSUPP  the driver, or the rdma-core with which weir was built, does
 *                not support it
 *   -ENODATA     this memory has no dma-buf
 *   another      the errno of the device's driver
 *
 * Any thread.
 *
 * Re-creates ibv_dm_export_dmabuf_fd().
 */
WEIR_API int weir_dm_dmabuf_fd(struct weir_dm *dm);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_DM_H */
