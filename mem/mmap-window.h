/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_MEM_MMAP_WINDOW_H
#define WEIR_MEM_MMAP_WINDOW_H

/*
 * Memory windows of type 2, for who has queue pairs: a part of an mmap and some
 * of its rights, behind a key that is good on one queue pair alone, and that a
 * work request makes and another one takes back.  Only where HAVE_VERBS is.
 *
 * A window is its maker's.  The mmap's stop frees what it is on the device,
 * bound or not; the maker finds out by -ESTALE, and destroys the rest.
 */

#include <stdint.h>

struct ibv_send_wr;
struct mmap_window;
struct weir_device;
struct weir_mmap;

struct mmap_window_opts {
	uint64_t off, len;	/* In the range; .len is not 0. */
	uint32_t permissions;	/* WEIR_MMAP_RDMA_, the mmap's. */
};

/*
 * Make a window on @device, one of @mmap's, which is started.
 *
 * Returns 0 with *@ret set, to be freed by mmap_window_destroy(), or, with a
 * sentence that begins with @call:
 *   -EOPNOTSUPP  the device has no windows, or the range is no memory
 *   -ERANGE, -EACCES  the mmap has not got this part, or these rights
 *   -EBADFD, -ENOENT, -ENOMEM, ...  what weir_mmap_keys() says
 *
 * Any thread.
 */
int mmap_window_create(struct mmap_window **ret, struct weir_mmap *mmap,
		       struct weir_device *device,
		       const struct mmap_window_opts *opts, const char *call);

/* Post @wr.  Returns 0 or a negative errno.  Must not call anything here. */
typedef int mmap_window_post_fn(struct ibv_send_wr *wr, void *arg);

/*
 * Bind @w: fill in what @wr needs for it (not .wr_id, .send_flags, .next), and
 * have @post post it, while no stop can take the window away.  The key, of
 * mmap_window_key(), is new each time.  It is good for the peer of that queue
 * pair once the work request has completed; if that fails, call
 * mmap_window_unbound().
 *
 * Returns 0, or
 *   -ESTALE  the mmap was stopped
 *   -EBUSY   it is bound
 *   what @post says: then it is not bound
 *
 * Any thread.
 */
int mmap_window_bind(struct mmap_window *w, struct ibv_send_wr *wr,
		     mmap_window_post_fn *post, void *arg);

/* It was invalidated, or its queue pair is gone: its key opens nothing. */
void mmap_window_unbound(struct mmap_window *w);

/*
 * The key of @w for peers, and the address that it begins at.  Returns 0,
 * -ESTALE, or -ENOKEY: it is not bound.  Any thread.
 */
int mmap_window_key(const struct mmap_window *w, uint64_t *addr,
		    uint32_t *rkey);

/*
 * Free @w, bound or not: its key opens nothing any more.  NULL is allowed.
 * Returns 0, or what the driver says, with a sentence.  Any thread.
 */
int mmap_window_destroy(struct mmap_window *w);

#endif /* WEIR_MEM_MMAP_WINDOW_H */
