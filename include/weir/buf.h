/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_BUF_H
#define WEIR_BUF_H

/*
 * A buf: a descriptor of memory that holds, or is to hold, data.
 *
 *	addr                data              data + data_len     addr + len
 *	 |<---- head room --->|<------ data ------>|<---- tail room ---->|
 *	 |<-------------------------- window -------------------------->|
 *
 * The window lies in an mmap and does not change; the data lie in the window.
 * Bufs are linked to lists with a head; a job that reads takes the data of all
 * of them in order, one that writes appends to the data, filling one tail room
 * after the other.
 *
 * Bufs come from an inventory, which makes them of any mmap attached to it, or
 * from a pool, where each has memory of its own.  Either way weir_buf_put()
 * gives them back.  They belong to the reactor of their stock: all calls are
 * made on its thread, and none of them blocks, allocates or takes a lock.
 *
 * While a job uses a list, the list cannot be changed (-EBUSY): several jobs
 * may read one list at the same time, but one that writes is alone.
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
 */
WEIR_API int weir_buf_ref(struct weir_buf *buf);

/*
 * Give back a reference to the list that @buf is the head of; with the last
 * one all bufs of the list go home to the stocks that they came from, and
 * waiters of these are served.  NULL is allowed.
 *
 * A job that uses the list has references of its own, so that the caller's can
 * be given back while it runs.  Never fails.  To put a buf that is not out, or
 * one in the middle of a list, is a bug and ends the process.
 *
 * Call on the buf's reactor.
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
 * Call on the buf's reactor.
 */
WEIR_API void *weir_buf_addr(const struct weir_buf *buf);

/*
 * The bytes in the window of @buf.
 *
 * Call on the buf's reactor.
 */
WEIR_API size_t weir_buf_len(const struct weir_buf *buf);

/*
 * The beginning of the data of @buf.
 *
 * Call on the buf's reactor.
 */
WEIR_API void *weir_buf_data(const struct weir_buf *buf);

/*
 * The bytes of data in @buf alone, not in its list.
 *
 * Call on the buf's reactor.
 */
WEIR_API size_t weir_buf_data_len(const struct weir_buf *buf);

/*
 * The bytes before the data of @buf.
 *
 * Call on the buf's reactor.
 */
WEIR_API size_t weir_buf_headroom(const struct weir_buf *buf);

/*
 * The bytes after the data of @buf.
 *
 * Call on the buf's reactor.
 */
WEIR_API size_t weir_buf_tailroom(const struct weir_buf *buf);

/*
 * The mmap that the window of @buf lies in.
 *
 * Call on the buf's reactor.
 */
WEIR_API struct weir_mmap *weir_buf_mmap(const struct weir_buf *buf);

/*
 * Say where the data of @buf are: @len bytes at @data.
 *
 * Returns 0, or
 *   -ERANGE  that is not inside the window
 *   -EBUSY   a job uses the list
 *
 * Call on the buf's reactor.
 */
WEIR_API int weir_buf_set_data(struct weir_buf *buf, void *data, size_t len);

/*
 * Make @buf empty: no data, at the beginning of the window.
 *
 * Returns 0, or
 *   -EBUSY  a job uses the list
 *
 * Call on the buf's reactor.
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
 *   -EBUSY   a job uses one of the lists
 *
 * Call on the bufs' reactor, which is one.
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
 */
WEIR_API int weir_buf_unchain(struct weir_buf *head, struct weir_buf *buf);

/*
 * The buf after @buf in its list, or NULL.
 *
 * Call on the buf's reactor.
 */
WEIR_API struct weir_buf *weir_buf_next(const struct weir_buf *buf);

/*
 * The last buf of the list that @head is the head of.
 *
 * Call on the buf's reactor.
 */
WEIR_API struct weir_buf *weir_buf_last(const struct weir_buf *head);

/*
 * Whether @buf is in a list with others: 1 or 0.
 *
 * Call on the buf's reactor.
 */
WEIR_API int weir_buf_is_in_list(const struct weir_buf *buf);

/*
 * The number of bufs in the list that @head is the head of.
 *
 * Returns the number, or
 *   -EPERM  @head is in the middle of a list
 *
 * Call on the buf's reactor.
 */
WEIR_API int64_t weir_buf_list_len(const struct weir_buf *head);

/*
 * The bytes of data in @head and all bufs after it.
 *
 * Call on the buf's reactor.  Takes as long as the list is.
 */
WEIR_API uint64_t weir_buf_list_data_len(const struct weir_buf *head);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_BUF_H */
