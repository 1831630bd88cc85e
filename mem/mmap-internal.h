/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_MEM_MMAP_INTERNAL_H
#define WEIR_MEM_MMAP_INTERNAL_H

/*
 * An mmap, and how it is used by reactor.
 *
 *	weir_mmap --uses--> mmap_use ... --links--> mmap_link ...
 *	                    one per reactor         one per inventory or pool
 *
 *	mmap.c        create, settings, start, destroy
 *	mmap-range.c  the kinds of range
 *	mmap-use.c    uses: attach, register, detach
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

struct mmap_export;
struct mmap_use;
struct weir_dm;
struct weir_domain;

enum mmap_range {
	MMAP_NONE,
	MMAP_MEM,	/* The caller's memory. */
	MMAP_FD,	/* A file that we have mapped, shared. */
	MMAP_ALLOC,	/* Pages of our own; .fd >= 0: of a memfd. */
	MMAP_DMABUF,	/* .fd is a dma-buf. */
	MMAP_DM,	/* A part of .dm; addresses are offsets in the range. */
	MMAP_IMPORT,	/* Another process's. */
};

/*
 * What tells whether the exporter has revoked: an import embeds it as its first
 * member and sets weir_mmap.import to it.
 */
struct mmap_import {
	const _Atomic uint64_t *generation;	/* The exporter's. */
	uint64_t mine;				/* When it was exported. */
};

struct weir_mmap {
	struct weir_domain *domain;
	uint32_t permissions;
	atomic_int state;	/* WEIR_MMAP_ */
	bool was_started;

	/* The range. */
	bool has_range;
	bool cpu;		/* Addresses are pointers of this process. */
	bool readonly;		/* They cannot be written through. */
	enum mmap_range range;
	char *addr;		/* NULL also if addresses begin at 0. */
	size_t len;
	size_t page_size;
	int fd;			/* Of our own; -1: none. */
	uint64_t fd_off;	/* Where in it the range begins. */
	struct weir_dm *dm;
	uint64_t dm_off;

	/* Called once, by destroy: unmap, close; NULL: nothing to do. */
	void (*release)(struct weir_mmap *mmap);

	struct mmap_export *export;	/* NULL: not exported. */
	struct mmap_import *import;	/* NULL: not imported. */

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

static inline bool mmap_is_started(const struct weir_mmap *mmap)
{
	return atomic_load_explicit(&mmap->state, memory_order_relaxed) ==
	       WEIR_MMAP_STARTED;
}

/* Whether the exporter of @mmap has revoked it.  Any thread. */
static inline bool mmap_stale(const struct weir_mmap *mmap)
{
	const struct mmap_import *import = mmap->import;

	return import && atomic_load_explicit(import->generation,
					      memory_order_acquire) !=
				 import->mine;
}

/* -EBADFD if @mmap is started; leaves a sentence. */
int mmap_refuse_started(const struct weir_mmap *mmap, const char *call);

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

/* Drop the registration of @use, which is in no list any more, and free it. */
void mmap_use_free(struct mmap_use *use);

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
