/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_MEM_MMAP_INTERNAL_H
#define WEIR_MEM_MMAP_INTERNAL_H

/*
 * How an mmap is used, by reactor.
 *
 *	weir_mmap --uses--> mmap_use ... --links--> mmap_link ...
 *	                    one per reactor         one per inventory or pool
 *
 * A use holds the registration with the reactor's backend, and counts the bufs
 * that are out there; it comes with its first link and goes with the last.  The
 * mmap's lock guards the list of uses and, in each, the list of links; what
 * else is in a use belongs to its reactor's thread.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <weir/mmap.h>

struct mmap_use;
struct weir_domain;

struct weir_mmap {
	struct weir_domain *domain;
	char *addr;		/* NULL: no range yet. */
	size_t len;
	uint32_t permissions;
	atomic_int state;
	bool was_started;
	weir_mmap_free_fn *free_fn;
	void *free_arg;
	void *user_data;
	pthread_mutex_t lock;
	struct mmap_use *uses;
};

struct mmap_link {
	struct mmap_use *use;	/* NULL: not attached. */
	bool is_pool;		/* Its memory is a pool's: cannot be stopped. */
	struct mmap_link *next;
	struct mmap_link **pprev;
};

struct mmap_use {
	struct weir_mmap *mmap;
	struct weir_reactor *r;
	struct mmap_link *links;
	struct mmap_use *next;
	bool tried;		/* To register it. */
	int index;		/* Of the registered buffer; -1: none. */
	size_t registered;	/* Bytes of it, from the beginning. */
	atomic_ulong n_bufs;	/* Out.  Written by the reactor's thread. */
	char why[256];		/* If not all is registered. */
};

/*
 * Attach @link to @mmap on @r, and register the memory if this is the first on
 * this reactor with @may_register.
 *
 * Returns 0, -EBADFD if it is not started, or -ENOMEM; leaves a sentence.
 */
int mmap_attach(struct weir_mmap *mmap, struct weir_reactor *r,
		struct mmap_link *link, bool may_register);

/* Undo it.  No bufs taken by this link are out. */
void mmap_detach(struct mmap_link *link);

/* Only the owning thread writes, so this needs no locked instruction. */
static inline void mmap_use_count(struct mmap_use *use, long n)
{
	unsigned long old = atomic_load_explicit(&use->n_bufs,
						 memory_order_relaxed);

	atomic_store_explicit(&use->n_bufs, old + (unsigned long)n,
			      memory_order_relaxed);
}

/* Index of the registered buffer that holds all of the range, plus 1; or 0. */
static inline int mmap_use_index(const struct mmap_use *use, const char *addr,
				 size_t len)
{
	size_t off = (size_t)(addr - use->mmap->addr);

	if (off >= use->registered || use->registered - off < len)
		return 0;
	return use->index + 1;
}

#endif /* WEIR_MEM_MMAP_INTERNAL_H */
