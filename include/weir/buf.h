/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_BUF_H
#define WEIR_BUF_H

/*
 * A buf: a descriptor of memory that holds, or is to hold, data.
 *
 *	addr                data              data + data_len     addr + len
 *	 |<---- headroom --->|<------ data ------>|<---- tailroom ---->|
 *	 |<-------------------------- window -------------------------->|
 *
 * The window lies in an mmap and does not change; the data lie in the window.
 * Bufs are linked to lists with a head; a job that reads takes the data of all
 * of them in order, one that writes appends to the data, filling one tailroom
 * after the other.
 *
 * Bufs come from an inventory, which makes them of any mmap attached to it, or
 * from a pool, where each has memory of its own.  Either way weir_buf_put()
 * gives them back.  They belong to the reactor of their free list, their
 * owner, on whose thread all calls may be made; none of them blocks or
 * allocates.
 *
 * While a job uses a list, the list cannot be changed (-EBUSY): several jobs
 * may read one list at the same time, but one that writes is alone.
 *
 * On other reactors.  The holder of a reference may hand it to another
 * thread, by weir_post() or in any way that orders memory.  There the calls
 * that say "on the holder's thread" can be made, and a job can use the list
 * (see below), but those that count references or change lists are made on
 * the owner. weir_buf_put() is for any thread: it sends the list back.  For
 * anything more, take a list like it from an inventory of that thread, with
 * weir_inventory_dup().
 *
 * A job on a reactor that is not the owner takes no reference and does not keep
 * others from the list: keep the reference until its callback, hand over only
 * what no job uses, and let one thread change windows at a time.  It does not
 * use the owner's registered memory either; for that there is the dup.
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
 * Take another reference to the list that @buf is the head of.
 *
 * Returns 0, or
 *   -EPERM     @buf is in a list, and not its head
 *   -EMSGSIZE  it has WEIR_BUF_REFS_MAX already
 *
 * Call on the buf's reactor.
 *
 * Re-creates doca_buf_inc_refcount().
 */
WEIR_API int weir_buf_ref(struct weir_buf *buf);

/*
 * Give back a reference to the list that @buf is the head of; with the last
 * one all bufs of the list are returned to the free lists that they came
 * from, and waiters of these are served.  NULL is allowed.
 *
 * A job on the owner that uses the list has a reference of its own, so that the
 * caller's can be given back while it runs.  Never fails.  To put a buf that is
 * not out, or one in the middle of a list, is a bug and ends the process.
 *
 * Put on another thread, also one without a reactor, the list is out until it
 * was returned, in a turn of its reactor, which is woken for it.
 *
 * Any thread.  Never blocks, never allocates.
 */
WEIR_API void weir_buf_put(struct weir_buf *buf);

/*
 * The number of references to @buf; 0 in the middle of a list.
 *
 * Call on the buf's reactor.
 */
WEIR_API uint32_t weir_buf_refs(const struct weir_buf *buf);

/*
 * The beginning of the window of @buf.
 *
 * Call on the holder's thread.
 */
WEIR_API void *weir_buf_addr(const struct weir_buf *buf);

/*
 * The bytes in the window of @buf.
 *
 * Call on the holder's thread.
 */
WEIR_API size_t weir_buf_len(const struct weir_buf *buf);

/*
 * The beginning of the data of @buf.
 *
 * Call on the holder's thread.
 */
WEIR_API void *weir_buf_data(const struct weir_buf *buf);

/*
 * The bytes of data in @buf alone, not in its list.
 *
 * Call on the holder's thread.
 */
WEIR_API size_t weir_buf_data_len(const struct weir_buf *buf);

/*
 * The bytes before the data of @buf.
 *
 * Call on the holder's thread.
 *
 * Re-creates rte_pktmbuf_headroom().
 */
WEIR_API size_t weir_buf_headroom(const struct weir_buf *buf);

/*
 * The bytes after the data of @buf.
 *
 * Call on the holder's thread.
 *
 * Re-creates rte_pktmbuf_tailroom().
 */
WEIR_API size_t weir_buf_tailroom(const struct weir_buf *buf);

/*
 * Name the holder of @buf, for reports of leaks; @tag is not copied and must
 * stay valid, as a string constant does.  NULL: no name.  A buf that is taken
 * has no tag.
 *
 * Call on the holder's thread.  Never blocks.  Re-creates a field that
 * rte_mbuf_dynfield_register() adds to DPDK's buffers.
 */
WEIR_API void weir_buf_set_tag(struct weir_buf *buf, const char *tag);

/*
 * The holder of @buf, as named by weir_buf_set_tag().
 *
 * Returns the tag, or NULL.
 *
 * Any thread.  Never blocks.  Re-creates the reading of such a field,
 * RTE_MBUF_DYNFIELD().
 */
WEIR_API const char *weir_buf_tag(const struct weir_buf *buf);

/* How many bufs are out under one tag; weir_pool_owners(). */
struct weir_buf_owner {
	const char *tag;	/* NULL: those without. */
	uint64_t bufs;
};

/*
 * The mmap that the window of @buf lies in.
 *
 * Call on the holder's thread.  Re-creates rte_mempool_from_obj(): what a
 * buffer was taken from.
 */
WEIR_API struct weir_mmap *weir_buf_mmap(const struct weir_buf *buf);

/*
 * Say where the data of @buf are: @len bytes at @data.
 *
 * Returns 0, or
 *   -ERANGE  that is not inside the window
 *   -EBUSY   a job uses the list
 *
 * Call on the holder's thread.
 */
WEIR_API int weir_buf_set_data(struct weir_buf *buf, void *data, size_t len);

/*
 * Make @buf empty: no data, at the beginning of the window.
 *
 * Returns 0, or
 *   -EBUSY  a job uses the list
 *
 * Call on the holder's thread.
 */
WEIR_API int weir_buf_reset(struct weir_buf *buf);

/*
 * Append the list @tail to the list @head.  The reference to @tail becomes part
 * of the list: it is given back with it.
 *
 * Returns 0, or
 *   -EINVAL  @head and @tail are the same
 *   -EPERM   one of them is in the middle of a list, or @tail has more than one
 *            reference
 *   -EXDEV   their homes are different reactors
 *   -EBUSY   a job uses one of the lists
 *
 * Call on the bufs' reactor.
 */
WEIR_API int weir_buf_chain(struct weir_buf *head, struct weir_buf *tail);

/*
 * Cut the list @head before @buf, which becomes the head of a list of its own,
 * with the rest of the list and one reference.
 *
 * Returns 0, or
 *   -EINVAL  @buf is not in the list, or is @head
 *   -EPERM   @head is in the middle of a list
 *   -EBUSY   a job uses the list
 *
 * Call on the bufs' reactor.  Takes as long as the list is.
 *
 * Re-creates doca_buf_unchain_list().
 */
WEIR_API int weir_buf_unchain(struct weir_buf *head, struct weir_buf *buf);

/*
 * The buf after @buf in its list, or NULL.
 *
 * Call on the holder's thread.
 */
WEIR_API struct weir_buf *weir_buf_next(const struct weir_buf *buf);

/*
 * The last buf of the list that @head is the head of.
 *
 * Call on the holder's thread.
 *
 * Re-creates doca_buf_get_last_in_list().
 */
WEIR_API struct weir_buf *weir_buf_last(const struct weir_buf *head);

/*
 * Whether @buf is in a list with others: 1 or 0.
 *
 * Call on the holder's thread.
 *
 * Re-creates doca_buf_is_in_list().
 */
WEIR_API int weir_buf_is_in_list(const struct weir_buf *buf);

/*
 * The number of bufs in the list that @head is the head of.
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
 * The bytes of data in @head and all bufs after it.
 *
 * Call on the holder's thread.  Takes as long as the list is.
 */
WEIR_API uint64_t weir_buf_list_data_len(const struct weir_buf *head);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_BUF_H */
