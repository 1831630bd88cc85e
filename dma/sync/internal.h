/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_DMA_SYNC_INTERNAL_H
#define WEIR_DMA_SYNC_INTERNAL_H

/*
 * Sync events.
 *
 *	sync.c         create, destroy; set, add, get
 *	sync/wait.c    waits: operations, and threads that block
 *	sync/watch.c   the threads that wait for other processes
 *	sync/remote.c  those of a peer, by RDMA
 *
 * No waiter misses a signal, because the two sides do two things in opposite
 * order, all four sequentially consistent:
 *
 *	signal: change the value, then check for waiters
 *	wait:   register as a waiter, then check the value
 *
 * For operations of this process the count of waiters is .n_ops; the thread
 * that signals finds those whose condition holds in the list at .first, and
 * returns them to their reactors.  For threads that block, here and in other
 * processes, it is word.waiting; the futex word.seq wakes all of them, and each
 * checks the value itself.
 *
 * .waiting is a flag and not a count: a process that is killed while it waits
 * leaves it set, which costs one system call, while a count would stay wrong
 * for good.  A process that is killed between clearing it and waking leaves
 * sleepers behind: so in an mmap no waiter sleeps longer than SYNC_CHECK_NS
 * without a check.
 */

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <weir/sync.h>

#include "reactor/op-internal.h"
#include "mem/mmap-internal.h"
#include "reactor/backend.h"

struct sync_watcher;
struct weir_mmap;

#define SYNC_CHECK_NS (250 * WEIR_MSEC) /* Between checks of the exporter. */
#define SYNC_POLL_NS WEIR_MSEC		/* Between polls, without a signal. */
#define SYNC_WATCHED_MAX 127		/* Per watcher: futex_waitv() takes
					 * 128, one of them its own. */
#define SYNC_WATCHERS_MAX (WEIR_SYNC_WATCHED_MAX / SYNC_WATCHED_MAX)
#define SYNC_FRUITLESS_MAX 1024		/* Wake-ups for nothing. */

#define SYNC_MAGIC UINT64_C(0x016e797372696577)	/* "weirsyn", 1 */
#define SYNC_MAGIC_NAME UINT64_C(0x006e797372696577)
#define SYNC_MAGIC_VERSION (UINT64_C(0xff) << 56)

#define SYNC_FLAG_ALWAYS 1u	/* Waiters cannot set .waiting. */
#define SYNC_FLAG_CLOSED 2u
#define SYNC_FLAG_POLLED 4u	/* By devices, which wake no waiter, */
#define SYNC_FLAG_APART 8u	/* and know nothing of processors' atomics. */

/* As in <weir/sync.h>; in an mmap others may write it at any time. */
struct sync_word {
	_Atomic uint64_t magic;
	_Atomic uint64_t value;
	_Atomic uint32_t seq;
	_Atomic uint32_t waiting;
	_Atomic uint32_t flags;
	_Atomic uint32_t reserved;
};

_Static_assert(SYNC_WATCHERS_MAX * SYNC_WATCHED_MAX == WEIR_SYNC_WATCHED_MAX,
	       "documented");
_Static_assert(sizeof(struct sync_word) == WEIR_SYNC_LEN, "documented");

struct weir_sync {
	struct sync_word *word;		/* .local, or in .mmap. */
	struct weir_mmap *mmap;		/* NULL: local. */
	bool writable;
	bool creator;
	bool always;			/* Each signal wakes. */
	bool polled;			/* Some signals wake no waiter. */
	bool apart;			/* Those of processors might be lost. */
	_Atomic uint32_t users;		/* Calls that signal, just now. */
	_Atomic uint32_t n_blocked;	/* Threads. */
	_Atomic uint32_t unspun;	/* Waits to come that do not spin. */

	/* Operations that wait, first come first. */
	_Atomic uint32_t n_ops;	/* Including those being returned. */
	pthread_mutex_t lock;
	struct weir_op *first;
	struct weir_op **last;
	bool armed;	/* The watcher checks; under the lock, */
	uint32_t n_left; /* as are operations left to it. */

	/* Its watcher's, under that one's lock. */
	struct sync_watcher *_Atomic watcher;	/* NULL: not watched yet. */
	struct weir_sync *watch_next;
	uint32_t watch_seq;	/* word.seq at its last check. */
	_Atomic uint32_t fruitless; /* Changes of that in vain, lately. */

	struct observer observer; /* Instead of it, in a world. */
	struct sync_word local;
};

/* The condition of a wait. */
struct sync_cond {
	uint32_t cond;
	uint64_t value;
	uint64_t mask;
};

/* 0, or -EINVAL. */
static inline int sync_cond_check(const struct sync_cond *c)
{
	if (c->cond < WEIR_SYNC_EQ || c->cond > WEIR_SYNC_GT)
		return -EINVAL;
	return !c->mask || c->value & ~c->mask ? -EINVAL : 0;
}

static inline bool sync_cond_holds(const struct sync_cond *c, uint64_t value)
{
	value &= c->mask;
	switch (c->cond) {
	case WEIR_SYNC_EQ:
		return value == c->value;
	case WEIR_SYNC_NE:
		return value != c->value;
	case WEIR_SYNC_GE:
		return value >= c->value;
	default:
		return value > c->value;
	}
}

/* 0, or -ESTALE: it will not be signalled any more. */
int sync_over(const struct weir_sync *sync);

/* The value has changed: wake the waiters. */
void sync_signalled(struct weir_sync *sync);

/* Wake all that sleep on the word, without asking whether there are any. */
void sync_wake_sleepers(struct weir_sync *sync);

/*
 * Return the operations whose condition holds to their reactors.  Returns
 * whether there was any.
 */
bool sync_serve(struct weir_sync *sync);

/*
 * Register a waiter, if we may.  Returns whether signals will wake us; if not,
 * the caller polls every SYNC_POLL_NS.
 */
bool sync_announce(struct weir_sync *sync);

static inline bool sync_is_shared(const struct weir_sync *sync)
{
	return sync->mmap;
}

/* Check whether the exporter of its mmap is dead. */
void sync_poll_exporter(struct weir_sync *sync);

/* sync/watch.c: be watched from now on, for @r.  0, or -ENOSPC or -EAGAIN
 * with a message. */
int sync_watch_join(struct weir_sync *sync, struct weir_reactor *r);

/* Stop watching. */
void sync_watch_leave(struct weir_sync *sync);

/* A wait for @sync has begun, which was not armed. */
void sync_watch_kick(struct weir_sync *sync);

/* Nanoseconds of CLOCK_MONOTONIC. */
uint64_t sync_now(void);

/*
 * Sleep while *@word is @seen, at most until @until_ns of sync_now().  Returns
 * 0 or a negative errno.
 */
int sync_futex_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t until_ns,
		    bool shared);
void sync_futex_wake(_Atomic uint32_t *word, bool shared);

/* Tests: as if the kernel had no futex_waitv(). */
extern atomic_bool sync_no_waitv;

/* Tests: as if reactors had no capacity for poll hooks. */
extern atomic_bool sync_no_hooks;

/*
 * This thread writes to the word from here to sync_leave(); if the word is in
 * an import, a revoking exporter waits for that.  Returns 0, or -ESTALE: the
 * thread may not write, but must call sync_leave() all the same.
 */
static inline int sync_enter(const struct weir_sync *sync)
{
	if (likely(!sync->mmap || !mmap_counts(sync->mmap)))
		return 0;
	return import_enter(sync->mmap->import);
}

static inline void sync_leave(const struct weir_sync *sync)
{
	if (unlikely(sync->mmap && mmap_counts(sync->mmap)))
		import_leave(sync->mmap->import);
}

#endif /* WEIR_DMA_SYNC_INTERNAL_H */
