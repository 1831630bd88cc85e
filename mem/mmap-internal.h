/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_MEM_MMAP_INTERNAL_H
#define WEIR_MEM_MMAP_INTERNAL_H

/*
 * An mmap, and how it is used by reactor.
 *
 *	weir_mmap --uses--> mmap_use ... --links--> mmap_link ...
 *	                    one per reactor         one per inventory or pool
 *
 *	mmap.c        create, settings, kinds of range, devices, start
 *	mmap-alloc.c, mmap-dmabuf.c  two more kinds of range
 *	mmap-keys.c   registration with devices
 *	mmap-use.c    uses: attach, register, detach
 *	mmap-stop.c   stop, at once or by visits to other threads; destroy
 *
 * A use has the registration with the reactor's backend, and the count of bufs
 * that are out there.  The first link creates it, the last one frees it.  The
 * mmap's lock guards the list of uses and, in each, the list of links.  The
 * rest of a use belongs to its reactor's thread.
 */

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include <weir/mmap.h>

#include "mem/device-internal.h"

#include "base/check.h"
#include "reactor/group/deferred.h"

struct mmap_export;
struct mmap_use;
struct mmap_mw;
struct segment_list;
struct weir_dm;
struct weir_domain;

enum mmap_range {
	MMAP_NONE,
	MMAP_MEM,	/* The caller's memory. */
	MMAP_FD,	/* A file that we have mapped, shared. */
	MMAP_ALLOC,	/* Pages of our own; .fd >= 0: of a memfd. */
	MMAP_DMABUF,	/* .fd is a dma-buf. */
	MMAP_DM,	/* A part of .dm; addresses are offsets in the range. */
	MMAP_DOMAIN,	/* A part of .domain, a user's, by its addresses. */
	MMAP_IMPORT,	/* Another process's. */
};

/* The exporter's revocation, as an import sees it: an import embeds this as its
 * first member and sets weir_mmap.import to it. */
struct mmap_import {
	const _Atomic uint64_t *generation;	/* Of the exporter. */
	/* What is looked at first: .generation, or a word that never is .mine,
	 * where that does not suffice: then import_is_stale() decides. */
	const _Atomic uint64_t *_Atomic seen;
	_Atomic uint32_t *busy;	/* Jobs on any thread; NULL: not counted. */
	/* The exporter executes the fences of importers. */
	bool fenced;

	/* Start or stop counting the jobs of @use at a place of its own, if one
	 * is free.  NULL: jobs are not counted. */
	void (*claim)(struct mmap_use *use);
	void (*unclaim)(struct mmap_use *use);

	/* Of a lease: whether its time is over; if so the import is stale for
	 * good.  Any thread.  NULL: it has no such end. */
	bool (*expired)(const struct mmap_import *import);
	/* Its value at the export; 0: the exporter has ended. */
	_Atomic uint64_t mine;
	uint32_t rkey;		/* By which a peer knows the memory; 0: none. */
};

/* A part of an mmap, or fewer rights, with a registration of its own. */
struct mmap_part {
	struct mmap_part *next;
	uint64_t off, len;
	uint32_t permissions;
	const void *owner;	/* A lease's export; NULL: it is shared. */
	bool is_ending;		/* It is revoked; peers still use it. */
	struct device_mr mr;
};

/* A device of an mmap, and its registration there: mmap-keys.c. */
struct mmap_device {
	struct weir_device *device;	/* Counted as used. */
	struct mmap_device *next;
	bool registered;
	bool given;		/* A peer has its remote key. */
	struct device_mr mr;
	struct mmap_part *parts;
	void *slot;		/* Of the device's provider; weir_mmap_bind(). */
};

struct weir_mmap {
	struct weir_domain *domain;
	pid_t owner;		/* See mmap_is_inherited(). */
	uint32_t permissions;
	atomic_int state;	/* WEIR_MMAP_ */
	bool was_started;

	/* The range. */
	bool has_range;
	bool cpu;		/* Addresses are pointers of this process. */
	bool readonly;		/* The mapping is read-only. */
	enum mmap_range range;
	char *addr;		/* Also NULL if addresses begin at 0. */
	size_t len;
	size_t page_size;	/* 0: it has no pages. */
	char page_why[256];	/* Why they are smaller than requested. */
	int fd;			/* The mmap's own; -1: none. */
	uint64_t fd_off;	/* The offset of the range in it. */
	struct weir_dm *dm;
	uint64_t dm_off;

	/* Called once, by destroy: unmap, close.  NULL: nothing to do. */
	void (*release)(struct weir_mmap *mmap);

	struct mmap_device *devices;
	/* How often keys were taken back, which makes cached keys stale. */
	atomic_uint keys_taken;
	uint32_t n_devices;
	uint32_t max_devices;		/* 0: the default. */
	struct mmap_export *export;	/* NULL: not exported, but by leases. */
	struct mmap_export *leases;	/* Those that have not ended. */
	struct mmap_export *revoked;	/* Its importers may be busy. */
	struct mmap_import *import;	/* NULL: not imported. */
	struct segment_list *segment;	/* mem/segment/segment.c */

	weir_mmap_free_fn *free_fn;
	void *free_arg;
	void *user_data;
	atomic_uint n_syncs;		/* Sync events that lie in it. */
	atomic_uint revokes;		/* In flight; it cannot be destroyed. */
	pthread_mutex_t lock;
	struct mmap_use *uses;

	/* Used while it is STOPPING, under the lock; see mmap-stop.c. */
	struct weir_op *stop_op;	/* NULL otherwise. */
	/* Uses that have not been visited yet. */
	uint32_t stop_waits;
	bool stop_busy;			/* A use had bufs out. */
	bool stop_drains;		/* Waits for bufs to return. */
	/* Waits for bufs, or for importers, ... */
	bool stop_settles;
	uint64_t stop_since;		/* ... since this time. */
	struct weir_timer_node stop_timer; /* When to check again. */
	bool stop_decided;		/* The registrations are being dropped. */
	bool stop_returns;		/* The op is being returned. */
};

struct mmap_link {
	struct mmap_use *use;	/* NULL: not attached. */
	/* A pool uses its memory, so it cannot be stopped. */
	bool is_pool;

	/*
	 * More is registered, from byte @from of the range on.  Called on the
	 * use's thread, under the mmap's lock.  NULL: indices are looked up
	 * each time.
	 */
	void (*more)(struct mmap_link *link, size_t from);
	void *arg;
	uint32_t which;
	struct mmap_link *next;
	struct mmap_link **pprev;
};

/* A stop's wish to a use on another thread. */
enum mmap_wish {
	MMAP_NO_WISH,
	MMAP_WISH_LOOK,	/* Are bufs out? */
	MMAP_WISH_DROP,	/* Drop it. */
};

/*
 * The kernel registers at most 1 GiB in one piece, and a limit may allow only
 * smaller ones.  So a range is registered as several pieces, one after the
 * other from its beginning.
 */
struct mmap_piece {
	size_t end;		/* Offset in the range. */
	int index;		/* Of the registered buffer. */
};

struct mmap_use {
	struct weir_mmap *mmap;
	struct weir_reactor *r;
	struct mmap_link *links;
	struct mmap_use *next;
	enum mmap_wish wish;	/* Under the lock. */
	bool dead;		/* Freed when the deferred call has arrived. */
	struct deferred deferred;
	bool tried;		/* A registration was tried. */
	size_t registered;	/* Bytes registered, from the beginning. */
	atomic_ulong n_bufs;	/* Out.  Written by the reactor's thread. */
	char why[256];		/* Why not all is registered. */
	/* The device of the last mmap_use_key(), */
	struct weir_device *key_device;
	uint32_t lkey;			/* its answer, */
	void *key_data;
	int key_err;
	unsigned int keys_taken;	/* and .keys_taken of the mmap then. */
	struct weir_timer_node retry;	/* When to try to register more. */
	/* Of an import: the word that its exporter polls, NULL if no place is
	 * free, */
	_Atomic uint32_t *busy;
	int place;		/* the place of that word, or -1, */
	uint32_t n_jobs;	/* and what it says: jobs that touch it. */
	bool fenced;		/* There is a word, and it takes no fence here. */
	uint32_t retries;	/* Consecutive retries without success. */
	/* The next use that the reactor has tried to register: on its thread
	 * alone. */
	struct mmap_use *next_of_r;
	struct mmap_use **pprev_of_r;
	uint32_t n_pieces;
	uint32_t max_pieces;
	struct mmap_piece pieces[];
};

/*
 * Whether a forked child has a copy of the mmap.  Rings and devices are shared
 * with the parent: what it has registered there stays registered.
 */
static inline bool mmap_is_inherited(const struct weir_mmap *mmap)
{
	return mmap->owner != getpid();
}

static inline bool mmap_is_started(const struct weir_mmap *mmap)
{
	return atomic_load_explicit(&mmap->state, memory_order_relaxed) ==
	       WEIR_MMAP_STARTED;
}

/* The permissions of peers. */
#define MMAP_RDMA \
	(WEIR_MMAP_RDMA_READ | WEIR_MMAP_RDMA_WRITE | WEIR_MMAP_RDMA_ATOMIC)

/* export/watch.c: mmap_stale() of an import. */
bool import_is_stale(const struct mmap_import *import);

/* It is stale if *@generation is not @mine, which it is now. */
static inline void import_init(struct mmap_import *import,
			       const _Atomic uint64_t *generation, uint64_t mine)
{
	import->generation = generation;
	atomic_init(&import->seen, generation);
	atomic_init(&import->mine, mine);
}

/* Whether it is seen without a call that @import is not stale.  Sequentially
 * consistent: see export/presence.h. */
static inline bool import_is_fresh(const struct mmap_import *import)
{
	const _Atomic uint64_t *seen =
		atomic_load_explicit(&import->seen, memory_order_relaxed);

	return atomic_load(seen) ==
	       atomic_load_explicit(&import->mine, memory_order_relaxed);
}

/* The same of @mmap, which may be no import. */
static inline bool mmap_is_fresh(const struct weir_mmap *mmap)
{
	const struct mmap_import *import = mmap->import;

	return likely(!import) || import_is_fresh(import);
}

/* Whether the exporter of @mmap has revoked it.  Any thread. */
static inline bool mmap_stale(const struct weir_mmap *mmap)
{
	return unlikely(!mmap_is_fresh(mmap)) && import_is_stale(mmap->import);
}

/* Whether the exporter of @mmap checks whether jobs use it. */
static inline bool mmap_counts(const struct weir_mmap *mmap)
{
	return mmap->import && mmap->import->busy;
}

/* Whether bufs of @mmap can be taken: 0, -EBADFD or -ESTALE. */
static inline int mmap_may_take(const struct weir_mmap *mmap)
{
	if (unlikely(!mmap_is_started(mmap)))
		return -EBADFD;
	return unlikely(mmap_stale(mmap)) ? -ESTALE : 0;
}

/* device-import.c: whether @mmap, an import, is reached by @dev without a
 * registration; then what its provider has for it is in *@ret.  Any thread. */
bool mmap_import_key(const struct weir_mmap *mmap,
		     const struct weir_device *dev, struct device_mr *ret);

/* Why @call cannot set a range of @len bytes from @off now, or 0. */
int mmap_refuse_range(const struct weir_mmap *mmap, const char *call,
		      uint64_t off, size_t len);

/* Its addresses are those of @domain. */
void mmap_set_domain(struct weir_mmap *mmap, struct weir_domain *domain);

/* Map .len bytes at .fd_off of .fd, shared, to .addr; read-only if the file
 * does not allow writes.  Returns 0 or a negative errno. */
int mmap_map_fd(struct weir_mmap *mmap);

/* .release of mmap_map_fd()'s mapping, and of pages: unmap, close. */
void mmap_unmap(struct weir_mmap *mmap);

/* A duplicate of @fd for @call, or -EBADF, -EMFILE with a message. */
int mmap_dup_fd(int fd, const char *call);

/* mmap-dmabuf.c: the processor begins or ends its use of a mapped dma-buf.
 * Returns 0 or a negative errno. */
int dmabuf_begin(struct weir_mmap *mmap);
void dmabuf_end(struct weir_mmap *mmap);

/* ioctl(2), or a test's mock for dma-bufs. */
extern int (*dmabuf_ioctl)(int fd, unsigned long request, void *arg);

/* The index of @device in the list of its devices, or the length of the
 * list. */
struct mmap_device **mmap_find_device(struct weir_mmap *mmap,
				      const struct weir_device *device);

/* Whether peers may do atomics in it by a device whose atomics are not atomic
 * to the processor. */
bool mmap_atomics_are_apart(const struct weir_mmap *mmap);

/* Release all its devices, at the end. */
void mmap_rm_devices(struct weir_mmap *mmap);

/*
 * Get the registration of @mmap with @device, which is made if need be.  @peers is 0
 * for this process's own, which is of all of @mmap; or the rights of peers, by which
 * they reach @len bytes from @off on.  That is a registration of its own, except that
 * the whole range with all WEIR_MMAP_RDMA_ rights that @mmap has shares this process's.
 * Then @device is one of @mmap's devices.  With @owner, which is NULL otherwise, no
 * other exports share that.  Returns 0, or a
 * negative errno with a message, as weir_mmap_keys().
 */
int mmap_mr(struct weir_mmap *mmap, struct weir_device *device, uint64_t off,
	    uint64_t len, uint32_t peers, const void *owner,
	    struct device_mr *ret, const char *call);

/* End the registration that @owner alone has, if it has one still.  Returns 0 or
 * the device's errno: peers may still reach the memory. */
int mmap_mr_end(struct weir_mmap *mmap, struct weir_device *device,
		const void *owner);

/* Describe what a device must register so that peers have @permissions on @len
 * bytes of @mmap from @off. */
struct device_range mmap_range_of_part(const struct weir_mmap *mmap,
				       uint64_t off, uint64_t len,
				       uint32_t permissions);

/* Deregister all devices, or only what peers have; under the lock, when the stop is
 * decided.  Returns 0, or a negative errno with a message: then the rest stays
 * registered.  What peers still use is asked again by mmap_keys_ask_again(). */
int mmap_keys_drop(struct weir_mmap *mmap, bool parts_only);

/* Ask the devices of what was revoked again.  Returns 0 if no peer uses it, -EINPROGRESS
 * if some do, or another errno of a device with its message; @names, if it is not NULL,
 * gets one that does.  Under the lock. */
int mmap_keys_ask_again(struct weir_mmap *mmap, char *names, size_t len);

/* Whether what @owner had registered is revoked, and peers still use it.  On the
 * owner's thread. */
bool mmap_mr_is_ending(struct weir_mmap *mmap, struct weir_device *device,
		       const void *owner);

/*
 * Take back the keys that peers have, and keep those that only this process
 * has.  Returns 0, or a negative errno with a message that begins with @call:
 * -EBUSY, jobs of this process may be using a key that peers have, too.
 */
int mmap_keys_revoke(struct weir_mmap *mmap, const char *call);

/*
 * Attach @link to @mmap on @r, and register the memory if this is the first
 * link on this reactor with @may_register.
 *
 * Returns 0, -EBADFD if it is not started, -ESTALE if its exporter has revoked
 * it, or -ENOMEM; leaves a message of @call.
 */
int mmap_attach(struct weir_mmap *mmap, struct weir_reactor *r,
		struct mmap_link *link, bool may_register, const char *call);

/*
 * Register the memory of @link if that was not tried yet, as mmap_attach() does
 * with @may_register: for a link that another thread has attached.
 *
 * On the reactor's thread.
 */
void mmap_register(struct mmap_link *link);

/* Undo mmap_attach().  No bufs that were taken by this link are out. */
void mmap_detach(struct mmap_link *link);

/* Under the lock, on the use's thread: remove @use from its mmap and its links,
 * and drop its registration.  The caller frees it later, without the lock. */
void mmap_use_drop(struct mmap_use *use);
void mmap_use_free(struct mmap_use *use);

/* Stop @mmap at once, or return why it cannot be stopped. */
int mmap_stop_now(struct weir_mmap *mmap);

/* Why the mmap of a pool, which is the argument of @call, cannot be destroyed
 * now, apart from the pool's own bufs; or 0. */
int mmap_may_free(struct weir_mmap *mmap, const char *call);

/* Run by the deferred call of a use: carry out the wish of a stop. */
void mmap_use_visit(struct deferred *deferred);

/* Under the lock: @use goes by itself; a stop may be waiting for it. */
void mmap_use_leaves(struct mmap_use *use);

/* mmap-keys.c: the slow path of mmap_use_key().  Leaves a message. */
int mmap_use_ask_key(struct mmap_use *use, struct weir_device *device);

/*
 * Get the key by which @device knows the mmap of @use.  Returns 0 or what
 * weir_mmap_keys() returns.  Takes the lock only the first time, and after a
 * stop that took back some keys and then left the mmap started.
 *
 * On the use's thread, while bufs are out.
 */
static inline int mmap_use_key(struct mmap_use *use, struct weir_device *device,
			       uint32_t *lkey)
{
	unsigned int taken = atomic_load_explicit(&use->mmap->keys_taken,
						  memory_order_relaxed);
	int err = use->key_err;

	if (unlikely(use->key_device != device || use->keys_taken != taken))
		err = mmap_use_ask_key(use, device);
	*lkey = use->lkey;
	return err;
}

static inline int import_check(const struct mmap_import *import)
{
	return unlikely(!import_is_fresh(import)) && import_is_stale(import) ?
		       -ESTALE : 0;
}

/* mmap_enter() and mmap_leave() for a job on any thread. */
static inline int import_enter(const struct mmap_import *import)
{
	atomic_fetch_add(import->busy, 1);
	return import_check(import);
}

static inline void import_leave(const struct mmap_import *import)
{
	atomic_fetch_sub_explicit(import->busy, 1, memory_order_release);
}

/*
 * A job is about to touch @use's mmap, an import that counts jobs; until
 * mmap_leave_own() the exporter waits for it.  Returns 0, or -ESTALE: it must not
 * touch the mmap, but must call mmap_leave_own() all the same.  On the thread of
 * @use, which alone writes to its word, and needs no fence: .fenced.
 */
static inline int mmap_enter_own(struct mmap_use *use)
{
	debug_check(use->fenced);
	atomic_store_explicit(use->busy, ++use->n_jobs, memory_order_relaxed);
	atomic_signal_fence(memory_order_seq_cst);
	return import_check(use->mmap->import);
}

static inline void mmap_leave_own(struct mmap_use *use)
{
	debug_check(use->n_jobs > 0);
	atomic_store_explicit(use->busy, --use->n_jobs, memory_order_release);
}

/* The same of a job on @r, which may not be @use's reactor. */
static inline int mmap_enter(struct mmap_use *use, const struct weir_reactor *r)
{
	if (use->r != r || !use->busy)
		return import_enter(use->mmap->import);
	if (use->fenced)
		return mmap_enter_own(use);
	atomic_exchange(use->busy, ++use->n_jobs);
	return import_check(use->mmap->import);
}

static inline void mmap_leave(struct mmap_use *use,
			      const struct weir_reactor *r)
{
	if (use->r != r || !use->busy)
		import_leave(use->mmap->import);
	else
		mmap_leave_own(use);
}

/* Only the owning thread writes, so this needs no locked instruction. */
static inline void mmap_use_count(struct mmap_use *use, long n)
{
	unsigned long old = atomic_load_explicit(&use->n_bufs,
						 memory_order_relaxed);

	atomic_store_explicit(&use->n_bufs, old + (unsigned long)n,
			      memory_order_relaxed);
}

/* mmap_use_index() of the bytes from @off to @last, which are registered, but
 * not by the first piece alone. */
int mmap_use_find(const struct mmap_use *use, size_t off, size_t last);

/* The index of the registered buffer that contains the whole range, plus 1; or
 * 0.  The range is in the mmap, and not empty. */
static inline int mmap_use_index(const struct mmap_use *use, const char *addr,
				 size_t len)
{
	size_t off = (size_t)(addr - use->mmap->addr);
	size_t last = off + len - 1;

	if (last >= use->registered)
		return 0;
	if (likely(last < use->pieces[0].end))
		return use->pieces[0].index + 1;
	return mmap_use_find(use, off, last);
}

#endif /* WEIR_MEM_MMAP_INTERNAL_H */
