/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_DM_H
#define WEIR_DM_H

/*
 * Device memory: a piece of the memory on a network card.
 *
 * It is small (some hundred KiB, for all users of the card), near the wire, and
 * not memory of this process: there is no pointer to it.  The program copies
 * to and from it in words of 4 bytes, and the card reads and writes it when it
 * is registered, which is done by making it the range of an mmap, see
 * weir_mmap_set_dm().  Addresses in it are offsets from its beginning.
 *
 * Which devices have some, and how much, weir_device_list() tells; where they
 * say no, the calls here are -EOPNOTSUPP.  Where no card has any, the device
 * "soft-dm" emulates it in software: the same calls with the same limits, in
 * ordinary memory and by software.  What is written for the one runs on the
 * other.
 *
 * Control calls: they take locks and make system calls, and copying is slow,
 * since the processor itself moves each word over the bus.
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
 * What another handle of the same memory is made from, see weir_dm_export().
 * Set .size to the size of the struct.
 */
struct weir_dm_token {
	size_t size;
	uint64_t len;		/* Of the memory. */
	int32_t fd;		/* Names it, or -1. */
	uint32_t handle;	/* Names it, if there is no fd. */
};

/*
 * Allocate @len bytes of the memory of @device, which stays open by that.  What
 * they hold is not defined.  On the device they begin at a multiple of
 * 2^@log_align.  All allocations of a device share its memory, also those of
 * other processes (of "soft-dm", those of this process).
 *
 * Returns 0 with *@ret set, to be freed by weir_dm_free(), or, in this order:
 *   -EOPNOTSUPP  @device has no memory
 *   -EINVAL      @len is 0 or more than the device can ever give, or @log_align
 *                is more than it can do
 *   -ENOMEM      there is no capacity left on it, or no memory here
 *   another      the errno of the device's driver
 *
 * Any thread.
 *
 * Re-creates ibv_alloc_dm().
 */
WEIR_API int weir_dm_alloc(struct weir_dm **ret, struct weir_device *device,
			   size_t len, uint32_t log_align);

/*
 * Free @dm.  NULL is allowed.  What was imported is only let go: the memory is
 * that of the handle which it was imported from.  What is still imported
 * elsewhere goes back to the device when the last holder lets go; of
 * "soft-dm", which counts for each process by itself, when the last handle in
 * this process has gone.
 *
 * Returns 0, or, with @dm as it was:
 *   -EINVAL  it is no device memory, or was freed before
 *   -EBUSY   an mmap has it for its range
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
 *   -EFAULT      the range ends behind the memory
 *   -EINVAL      @off or @len is no multiple of 4, or @len is 0
 *   another      the errno of the device's driver
 *
 * Any thread.  May be long: the processor moves each word over the bus.
 *
 * Re-creates ibv_memcpy_to_dm().
 */
WEIR_API int weir_dm_copy_to(struct weir_dm *dm, uint64_t off, const void *src,
			     size_t len);

/*
 * Copy @len bytes of @dm, beginning at @off, to @dst.
 *
 * Returns 0, or, with nothing copied, what weir_dm_copy_to() does.
 *
 * Any thread.  May be long: reading over a bus is slower still than writing.
 *
 * Re-creates ibv_memcpy_from_dm().
 */
WEIR_API int weir_dm_copy_from(void *dst, struct weir_dm *dm, uint64_t off,
			       size_t len);

/*
 * The length of @dm in bytes, as it was asked for.
 *
 * Any thread.  Never blocks.  Re-creates .length of struct ibv_alloc_dm_attr.
 */
WEIR_API size_t weir_dm_len(const struct weir_dm *dm);

/*
 * The device whose memory @dm is.
 *
 * Any thread.  Never blocks.  Re-creates .context of struct ibv_dm.
 */
WEIR_API struct weir_device *weir_dm_device(const struct weir_dm *dm);

/*
 * Whether @dm was imported: 1 or 0.
 *
 * Any thread.  Never blocks.  Re-creates what tells ibv_unimport_dm() from
 * ibv_free_dm(), which here are one.
 */
WEIR_API int weir_dm_is_imported(const struct weir_dm *dm);

/*
 * Fill @token, whose .size is set, so that weir_dm_import() can make another
 * handle of the same memory.
 *
 * Of "soft-dm" it holds an fd, the caller's to close, which may be sent to
 * another process: its holder can read and write the memory.  Of a card it is a
 * handle of the driver, of use to this process and this device alone.
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
 * Make a handle of the memory that @token names.  Freeing it never frees the
 * memory.  .fd is not consumed.
 *
 * Returns 0 with *@ret set, to be freed by weir_dm_free(), or
 *   -EOPNOTSUPP  @device's memory cannot be imported (of cards, only mlx5's
 *                can)
 *   -EINVAL      @token is of no such memory, or its length is not that
 *   -E2BIG       @token says what this version does not know
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
 * Make a dma-buf of @dm, which others than its device can reach.
 *
 * Returns an fd, the caller's to close, or
 *   -EOPNOTSUPP  the driver, or the rdma-core that weir was built with, cannot
 *   -ENODATA     this memory has none
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
