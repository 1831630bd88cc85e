/* SPDX-License-Identifier: BSD-3-Clause */
/* Sync events: set, add and get, in a program and in an mmap. */

#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include <weir/domain.h>

#include "base/alloc.h"
#include "base/check.h"
#include "base/opts.h"
#include "base/why.h"
#include "dma/sync/internal.h"
#include "mem/export/internal.h"
#include "mem/mmap-internal.h"

/* Sync events: their life, and the signals. */

/* A new one, whose word is still to be set; NULL: no memory. */
static struct weir_sync *sync_alloc(void)
{
	struct weir_sync *sync = mem_calloc(1, sizeof(*sync));
	pthread_mutexattr_t attr;

	if (!sync)
		return NULL;
	pthread_mutexattr_init(&attr);
#ifdef __GLIBC__
	/* Held for less than a sleep would take. */
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_ADAPTIVE_NP);
#endif
	pthread_mutex_init(&sync->lock, &attr);
	pthread_mutexattr_destroy(&attr);
	sync->last = &sync->first;
	return sync;
}

static uint32_t flags_of(const struct weir_sync *sync)
{
	return (sync->always ? SYNC_FLAG_ALWAYS : 0) |
	       (sync->polled ? SYNC_FLAG_POLLED : 0) |
	       (sync->apart ? SYNC_FLAG_APART : 0);
}

/* Set up its word; the magic comes last. */
static void sync_word_init(struct weir_sync *sync,
			   const struct weir_sync_opts *opts)
{
	struct sync_word *w = sync->word;

	atomic_store(&w->magic, 0);
	atomic_store(&w->value, opts->value);
	atomic_store(&w->seq, 0);
	atomic_store(&w->waiting, 0);
	atomic_store(&w->flags, flags_of(sync));
	atomic_store(&w->reserved, 0);
	atomic_store(&w->magic, SYNC_MAGIC);
}

int weir_sync_create(struct weir_sync **ret, const struct weir_sync_opts *user)
{
	struct weir_sync_opts opts;
	struct weir_sync *sync;
	int err;

	err = opts_load(&opts, sizeof(opts), user, "weir_sync_create");
	if (err)
		return err;
	if (opts.flags & ~WEIR_SYNC_READERS || opts.reserved)
		return why(-EINVAL, "weir_sync_create: unknown .flags %#x, or "
			   ".reserved is not 0", opts.flags);
	sync = sync_alloc();
	if (!sync)
		return why(-ENOMEM, "weir_sync_create: no memory");
	sync->word = &sync->local;
	sync->writable = true;
	sync->creator = true;
	sync_word_init(sync, &opts);
	*ret = sync;
	return 0;
}

/* Tell other processes; this one needs no flag. */
static void close_word(struct weir_sync *sync)
{
	atomic_fetch_or(&sync->word->flags, SYNC_FLAG_CLOSED);
	sync_wake_sleepers(sync);
}

/* In a forked child the word is the parent's, and so are the watcher's thread and
 * a lock that another thread held at the fork. */
static bool is_inherited(const struct weir_sync *sync)
{
	return sync->mmap && mmap_is_inherited(sync->mmap);
}

/* No other thread or process is left with it. */
static void end(struct weir_sync *sync)
{
	/* The thread that woke the last waiter may still be on its way out. */
	while (atomic_load(&sync->users))
		sched_yield();
	sync_watch_leave(sync);
	if (sync->mmap && sync->creator)
		close_word(sync);
	/* A waiter takes the lock: its holder must have released it. */
	pthread_mutex_lock(&sync->lock);
	pthread_mutex_unlock(&sync->lock);
	pthread_mutex_destroy(&sync->lock);
}

int weir_sync_destroy(struct weir_sync *sync)
{
	if (!sync)
		return 0;
	if (atomic_load(&sync->n_ops) || atomic_load(&sync->n_blocked))
		return why(-EBUSY, "weir_sync_destroy: %u operations and %u "
			   "threads wait; cancel them or signal first",
			   atomic_load(&sync->n_ops),
			   atomic_load(&sync->n_blocked));
	if (!is_inherited(sync))
		end(sync);
	if (sync->mmap)
		atomic_fetch_sub(&sync->mmap->n_syncs, 1);
	free(sync);
	return 0;
}

static int is_closed(const struct weir_sync *sync)
{
	return !sync->creator &&
	       atomic_load_explicit(&sync->word->flags, memory_order_relaxed) &
		       SYNC_FLAG_CLOSED ? -ESTALE : 0;
}

/* By itself, so that others need not save registers for its call. */
__attribute__((noinline)) static int is_over(const struct weir_sync *sync)
{
	return mmap_stale(sync->mmap) ? -ESTALE : is_closed(sync);
}

int sync_over(const struct weir_sync *sync)
{
	if (likely(!sync->mmap))
		return 0;
	return likely(mmap_is_fresh(sync->mmap)) ? is_closed(sync) :
						   is_over(sync);
}

static int may_signal(const struct weir_sync *sync)
{
	if (unlikely(!sync->writable || sync->apart))
		return sync->writable ? -EXDEV : -EACCES;
	return sync_over(sync);
}

static void signal_end(struct weir_sync *sync)
{
	sync_leave(sync);
	atomic_fetch_sub(&sync->users, 1);
}

/* Keep @sync and its word until signal_end().  Returns 0 or an errno. */
static int signal_begin(struct weir_sync *sync)
{
	int err = may_signal(sync);

	if (unlikely(err))
		return err;
	atomic_fetch_add(&sync->users, 1);
	err = sync_enter(sync);
	if (unlikely(err))
		signal_end(sync);
	return err;
}

__attribute__((cold)) static int refuse_access(int err, const char *call)
{
	return why(err, "%s: %s", call,
		   err == -EACCES ? "the event was opened without the right to "
				    "write its memory" :
		   err == -EXDEV ? "a device does atomics in its memory that are "
				   "not atomic to the processor" :
		   "its creator has destroyed it, or its memory was revoked");
}

/*
 * A thread that sees the new value also sees all earlier writes.  An exchange,
 * and not a store, so that this also holds for values signalled before this one.
 */
int weir_sync_set(struct weir_sync *sync, uint64_t value)
{
	int err = signal_begin(sync);

	if (unlikely(err))
		return refuse_access(err, "weir_sync_set");
	atomic_exchange(&sync->word->value, value);
	sync_signalled(sync);
	signal_end(sync);
	return 0;
}

int weir_sync_add(struct weir_sync *sync, uint64_t n, uint64_t *old)
{
	int err = signal_begin(sync);
	uint64_t was;

	if (unlikely(err))
		return refuse_access(err, "weir_sync_add");
	was = atomic_fetch_add(&sync->word->value, n);
	sync_signalled(sync);
	signal_end(sync);
	if (old)
		*old = was;
	return 0;
}

int weir_sync_get(const struct weir_sync *sync, uint64_t *ret)
{
	int err = sync_over(sync);

	if (unlikely(err))
		return refuse_access(err, "weir_sync_get");
	*ret = atomic_load(&sync->word->value);
	return 0;
}

/*
 * Sync events in an mmap.  A peer may write to that memory at any time, so
 * nothing that matters to us is read from it: rights and place come from the
 * mmap, and flags are copied once.
 */

#define PEER (WEIR_MMAP_PEER_READ | WEIR_MMAP_PEER_WRITE)

/* Returns why no sync event can be at @off of @mmap, or 0. */
static int check_place(const struct weir_mmap *mmap, uint64_t off,
		       const char *call)
{
	int err = mmap_may_take(mmap);

	if (err == -ESTALE)
		return why(err, "%s: the exporter has revoked the mmap", call);
	if (err)
		return why(err, "%s: the mmap is not started", call);
	if (!mmap->cpu)
		return why(-EOPNOTSUPP, "%s: the mmap has no addresses of this "
			   "process; for one at a peer by RDMA see "
			   "weir_sync_remote_open()", call);
	if (off % 8 || (uintptr_t)mmap->addr % 8)
		return why(-EINVAL, "%s: at offset %llu it is not aligned to 8 "
			   "bytes", call, (unsigned long long)off);
	if (off > mmap->len || mmap->len - off < WEIR_SYNC_LEN)
		return why(-ERANGE, "%s: %d bytes at offset %llu reach beyond "
			   "the end of the mmap, %zu", call, WEIR_SYNC_LEN,
			   (unsigned long long)off, mmap->len);
	return 0;
}

static int check_create(const struct weir_mmap *mmap,
			const struct weir_sync_opts *opts)
{
	if (opts->flags & ~WEIR_SYNC_READERS || opts->reserved)
		return why(-EINVAL, "weir_sync_create_in: unknown .flags %#x, "
			   "or .reserved is not 0", opts->flags);
	if (mmap->import)
		return why(-EPERM, "weir_sync_create_in: the mmap is imported; "
			   "its exporter creates, others open");
	if (weir_mmap_state(mmap) == WEIR_MMAP_STARTED &&
	    !(mmap->permissions & WEIR_MMAP_WRITE))
		return why(-EACCES, "weir_sync_create_in: the mmap has no "
			   "WEIR_MMAP_WRITE");
	return 0;
}

static struct weir_sync *alloc_at(struct weir_mmap *mmap, uint64_t off)
{
	struct weir_sync *sync = sync_alloc();

	if (!sync)
		return NULL;
	sync->word = (struct sync_word *)(void *)(mmap->addr + off);
	sync->mmap = mmap;
	sync->writable = mmap->permissions & WEIR_MMAP_WRITE;
	atomic_fetch_add(&mmap->n_syncs, 1);
	return sync;
}

int weir_sync_create_in(struct weir_sync **ret, struct weir_mmap *mmap,
			uint64_t off, const struct weir_sync_opts *user)
{
	struct weir_sync_opts opts;
	struct weir_sync *sync;
	int err;

	err = opts_load(&opts, sizeof(opts), user, "weir_sync_create_in");
	if (!err)
		err = check_create(mmap, &opts);
	if (!err)
		err = check_place(mmap, off, "weir_sync_create_in");
	if (err)
		return err;
	sync = alloc_at(mmap, off);
	if (!sync)
		return why(-ENOMEM, "weir_sync_create_in: no memory");
	sync->creator = true;
	sync->always = opts.flags & WEIR_SYNC_READERS ||
		       (mmap->permissions & PEER) == WEIR_MMAP_PEER_READ;
	sync->polled = mmap->permissions & (WEIR_MMAP_RDMA_WRITE |
					    WEIR_MMAP_RDMA_ATOMIC);
	sync->apart = mmap_atomics_are_apart(mmap);
	sync_word_init(sync, &opts);
	*ret = sync;
	return 0;
}

static int check_word(const struct sync_word *w)
{
	uint64_t magic = atomic_load(&w->magic);

	if (magic == SYNC_MAGIC)
		return 0;
	if ((magic & ~SYNC_MAGIC_VERSION) == SYNC_MAGIC_NAME)
		return why(-EPROTONOSUPPORT, "weir_sync_open: version %u; this "
			   "library knows 1", (unsigned int)(magic >> 56));
	return why(-EBADMSG, "weir_sync_open: no sync event is there");
}

int weir_sync_open(struct weir_sync **ret, struct weir_mmap *mmap, uint64_t off)
{
	struct weir_sync *sync;
	uint32_t flags;
	int err;

	err = check_place(mmap, off, "weir_sync_open");
	if (!err)
		err = check_word((void *)(mmap->addr + off));
	if (err)
		return err;
	sync = alloc_at(mmap, off);
	if (!sync)
		return why(-ENOMEM, "weir_sync_open: no memory");
	flags = atomic_load(&sync->word->flags);
	sync->always = flags & SYNC_FLAG_ALWAYS;
	sync->polled = flags & SYNC_FLAG_POLLED;
	sync->apart = flags & SYNC_FLAG_APART;
	if (flags & SYNC_FLAG_CLOSED) {
		weir_sync_destroy(sync);
		return why(-ESTALE, "weir_sync_open: its creator has destroyed "
			   "it");
	}
	*ret = sync;
	return 0;
}

void sync_poll_exporter(struct weir_sync *sync)
{
	if (sync->mmap)
		import_poll(sync->mmap);
}
