/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_BUF_H
#define WEIR_BUF_H

/*
 * A buf: a descriptor of memory, with a window and the data in it.
 *
 *	addr                data              data + data_len     addr + len
 *	 |<---- headroom --->|<------ data ------>|<---- tailroom ---->|
 *	 |<-------------------------- window -------------------------->|
 *
 * The window is a range of an mmap and does not change; the data are a part of
 * the window.  Bufs are linked to lists with a head (scatter-gather lists).  A
 * job that reads takes the data of all bufs in order; a job that writes appends
 * to the data, and fills one tailroom after the other.
 *
 * Bufs come from an inventory, which makes them of any mmap attached to it, or
 * from a pool, where each has memory of its own.  weir_buf_put() returns them.
 * A buf belongs to the reactor of its free list, its owner.  All calls may be
 * made on the owner's thread; none of them blocks or allocates.
 *
 * While a job uses a list, the list cannot be changed (-EBUSY).  Several jobs
 * may read one list at the same time; a job that writes must be the only one.
 *
 * On other reactors: the holder of a reference may pass it to another thread,
 * by weir_post() or in any way that orders memory.  That thread can make the
 * calls that say "on the holder's thread", and a job there can use the list
 * (see below).  Only the owner can count references or change lists.
 * weir_buf_put() is for any thread: it sends the list back.  For anything else,
 * make a list with the same memory from an inventory of that thread, with
 * weir_inventory_dup().
 *
 * A job on a reactor that is not the owner takes no reference and does not mark
 * the list as used.  So keep the reference until its callback, pass only lists
 * that no job uses, and let one thread change windows at a time.  The job does
 * not use the owner's registration either; weir_inventory_dup() provides one.
 *
 * Re-creates doca_buf.
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_buf;
struct weir_mmap;

/* References that a buf can have. */
#define WEIR_BUF_REFS_MAX 65535

/*
 * Take another reference to the list whose head is @buf.
 *
 * Returns 0, or
 *   -EPERM     @buf is in a list, and not its head
 *   -EMSGSIZE  @buf has WEIR_BUF_REFS_MAX references
 *
 * Call on the buf's reactor.
 *
 * Re-creates doca_buf_inc_refcount().
 */
WEIR_API int weir_buf_ref(struct weir_buf *buf);

/*
 * Drop a reference to the list whose head is @buf.
 *
 * With the last reference all bufs of the list return to their free lists, and
 * waiters of these are served.  NULL is allowed.
 *
 * A job on the owner that uses the list has a reference of its own, so the
 * caller may put the list while the job runs.  Never fails.  Putting a buf that
 * is not out, or one in the middle of a list, is a bug and ends the process.
 *
 * If the call is made on another thread, which need not have a reactor, the
 * list is out until it has been returned, in a turn of its reactor, which the
 * call wakes.
 *
 * Any thread.  Never blocks, never allocates.
 *
 * Re-creates doca_buf_dec_refcount(), spdk_iobuf_put() and rte_mempool_put().
 */
WEIR_API void weir_buf_put(struct weir_buf *buf);

/*
 * Get the number of references to @buf; 0 in the middle of a list.
 *
 * Returns the number of references.  Call on the buf's reactor.
 *
 * Re-creates doca_buf_get_refcount().
 */
WEIR_API uint32_t weir_buf_refs(const struct weir_buf *buf);

/*
 * Get the beginning of the window of @buf.
 *
 * Returns the address.  Call on the holder's thread.
 *
 * Re-creates doca_buf_get_head().
 */
WEIR_API void *weir_buf_addr(const struct weir_buf *buf);

/*
 * Get the number of bytes in the window of @buf.
 *
 * Returns the number of bytes.  Call on the holder's thread.
 *
 * Re-creates doca_buf_get_len().
 */
WEIR_API size_t weir_buf_len(const struct weir_buf *buf);

/*
 * Get the beginning of the data of @buf.
 *
 * Returns the address.  Call on the holder's thread.
 *
 * Re-creates doca_buf_get_data() and rte_pktmbuf_mtod().
 */
WEIR_API void *weir_buf_data(const struct weir_buf *buf);

/*
 * Get the number of bytes of data in @buf alone, not in its list.
 *
 * Returns the number of bytes.  Call on the holder's thread.
 *
 * Re-creates doca_buf_get_data_len() and rte_pktmbuf_data_len().
 */
WEIR_API size_t weir_buf_data_len(const struct weir_buf *buf);

/*
 * Get the number of bytes in the window before the data of @buf.
 *
 * Returns the number of bytes.  Call on the holder's thread.
 *
 * Re-creates rte_pktmbuf_headroom().
 */
WEIR_API size_t weir_buf_headroom(const struct weir_buf *buf);

/*
 * Get the number of bytes in the window after the data of @buf.
 *
 * Returns the number of bytes.  Call on the holder's thread.
 *
 * Re-creates rte_pktmbuf_tailroom().
 */
WEIR_API size_t weir_buf_tailroom(const struct weir_buf *buf);

/*
 * Name the holder of @buf, for reports of leaks.
 *
 * @tag is not copied and must stay valid, as a string constant does; NULL
 * removes the name.  A buf has no tag when it is taken.
 *
 * Call on the holder's thread.  Never blocks.  Re-creates a field that
 * rte_mbuf_dynfield_register() adds to DPDK's buffers.
 */
WEIR_API void weir_buf_set_tag(struct weir_buf *buf, const char *tag);

/*
 * Get the name of the holder of @buf, set by weir_buf_set_tag().
 *
 * Returns the tag, or NULL.
 *
 * Any thread.  Never blocks.  Re-creates the reading of such a field,
 * RTE_MBUF_DYNFIELD().
 */
WEIR_API const char *weir_buf_tag(const struct weir_buf *buf);

/* The number of bufs that are out with one tag; weir_pool_owners(). */
struct weir_buf_owner {
	const char *tag;	/* NULL: bufs without a tag. */
	uint64_t bufs;
};

/*
 * Get the mmap that contains the window of @buf.
 *
 * Returns the mmap.  Call on the holder's thread.  Re-creates
 * rte_mempool_from_obj(), which gets the pool of a buffer.
 */
WEIR_API struct weir_mmap *weir_buf_mmap(const struct weir_buf *buf);

/*
 * Set the data of @buf to @len bytes at @data.
 *
 * Returns 0, or
 *   -ERANGE  the range is not inside the window
 *   -EBUSY   a job uses the list
 *
 * Call on the holder's thread.
 *
 * Re-creates doca_buf_set_data().
 */
WEIR_API int weir_buf_set_data(struct weir_buf *buf, void *data, size_t len);

/*
 * Make @buf empty: no data, at the beginning of the window.
 *
 * Returns 0, or
 *   -EBUSY  a job uses the list
 *
 * Call on the holder's thread.
 *
 * Re-creates doca_buf_reset_data_len().
 */
WEIR_API int weir_buf_reset(struct weir_buf *buf);

/*
 * Append the list @tail to the list @head.
 *
 * The list takes over the reference to @tail, and drops it at its end.
 *
 * Returns 0, or
 *   -EINVAL  @head and @tail are the same
 *   -EPERM   one of them is in the middle of a list, or @tail has more than one
 *            reference
 *   -EXDEV   they belong to different reactors
 *   -EBUSY   a job uses one of the lists
 *
 * Call on the bufs' reactor.
 *
 * Re-creates doca_buf_chain_list() and rte_pktmbuf_chain().
 */
WEIR_API int weir_buf_chain(struct weir_buf *head, struct weir_buf *tail);

/*
 * Cut the list @head before @buf.
 *
 * @buf becomes the head of a list with the rest, and has one reference.
 *
 * Returns 0, or
 *   -EINVAL  @buf is not in the list, or is @head
 *   -EPERM   @head is in the middle of a list
 *   -EBUSY   a job uses the list
 *
 * Call on the bufs' reactor.  The time grows with the length of the list.
 *
 * Re-creates doca_buf_unchain_list().
 */
WEIR_API int weir_buf_unchain(struct weir_buf *head, struct weir_buf *buf);

/*
 * Get the buf after @buf in its list, or NULL.
 *
 * Returns the buf, or NULL.  Call on the holder's thread.
 *
 * Re-creates doca_buf_get_next_in_list().
 */
WEIR_API struct weir_buf *weir_buf_next(const struct weir_buf *buf);

/*
 * Get the last buf of the list whose head is @head.
 *
 * Returns the buf.  Call on the holder's thread.
 *
 * Re-creates doca_buf_get_last_in_list().
 */
WEIR_API struct weir_buf *weir_buf_last(const struct weir_buf *head);

/*
 * Tell whether @buf is in a list with others: 1 or 0.
 *
 * Returns 1 or 0.  Call on the holder's thread.
 *
 * Re-creates doca_buf_is_in_list().
 */
WEIR_API int weir_buf_is_in_list(const struct weir_buf *buf);

/*
 * Get the number of bufs in the list whose head is @head.
 *
 * Returns the number, or
 *   -EPERM  @head is in the middle of a list
 *
 * Call on the holder's thread.
 *
 * Re-creates doca_buf_get_list_len().
 */
WEIR_API int64_t weir_buf_list_len(const struct weir_buf *head);

/*
 * Get the number of bytes of data in @head and all bufs after it.
 *
 * Returns the number of bytes.  Call on the holder's thread.  The time grows
 * with the length of the list.
 *
 * Re-creates rte_pktmbuf_pkt_len().
 */
WEIR_API uint64_t weir_buf_list_data_len(const struct weir_buf *head);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_BUF_H */
