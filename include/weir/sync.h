/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_SYNC_H
#define WEIR_SYNC_H

/*
 * Sync events: a 64-bit value to signal and to wait on, from any thread, on any
 * reactor, and, in an exported mmap, from other processes.
 *
 *	weir_sync_create(&filled, NULL);
 *
 * One thread fills a block and says so; another thread's reactor waits for the
 * n-th:
 *
 *	weir_sync_add(filled, 1, NULL);
 *
 *	weir_sync_wait(filled, r, &rq->op, WEIR_SYNC_GE, n, WEIR_SYNC_ALL);
 *
 * A signal never overtakes the data before it: what a thread has written before
 * weir_sync_set() or weir_sync_add() is seen by a thread that has seen their
 * effect, by weir_sync_get() or at the end of a wait.  That holds between
 * processes, for what lies in shared memory.  Data that a job moves is
 * written when the job's callback runs: signal there, or in the next step of
 * the chain.
 *
 * A wait ends when its condition is seen to hold: whoever signals looks, and
 * so does the waiter before it begins to wait.  A value that came and went may
 * have been missed; values that only grow cannot be.
 *
 * Between processes: one creates the sync event at an offset of an mmap that it
 * exports (<weir/export.h>), others import the mmap and open it there.
 * WEIR_SYNC_LEN bytes, in the byte order of the machine:
 *
 *	0   8  magic: "weirsyn" and the version, 1
 *	8   8  the value
 *	16  4  changes when those who wait should look again: their futex
 *	20  4  not 0: a thread waits there; the waker sets it to 0
 *	24  4  flags; 1: wake in any case; 2: its creator has destroyed it; 4: look
 *	       every millisecond, for devices signal it too; 8: only they
 *	28  4  0
 *
 * Whatever a peer writes there, it can only make us wait too long or not long
 * enough.
 *
 * Re-creates doca_sync_event.
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_chain;
struct weir_mmap;
struct weir_op;
struct weir_reactor;
struct weir_sync;

/* What a sync event needs of an mmap.  Keep two of them 64 bytes apart. */
#define WEIR_SYNC_LEN 32

/* Sync events in mmaps that operations of a process can have waited for. */
#define WEIR_SYNC_WATCHED_MAX 8128

/* Conditions: (value & mask) compared with what is waited for. */
#define WEIR_SYNC_EQ 1u
#define WEIR_SYNC_NE 2u
#define WEIR_SYNC_GE 3u
#define WEIR_SYNC_GT 4u

/* As a mask: all of the value. */
#define WEIR_SYNC_ALL UINT64_MAX

/* Flags of struct weir_sync_opts. */
#define WEIR_SYNC_READERS 1u	/* Wake read-only waiters; see below. */

/*
 * Options of weir_sync_create() and weir_sync_create_in().  Set .size to the
 * size of the struct; 0
 * is the default of every other member.
 */
struct weir_sync_opts {
	size_t size;
	uint64_t value;		/* To begin with. */
	uint32_t flags;		/* WEIR_SYNC_ */
	uint32_t reserved;	/* 0 */
};

/*
 * Create a sync event in memory of this process.
 *
 * Returns 0 with *@ret set, to be freed by weir_sync_destroy(), or
 *   -EINVAL  unknown flags
 *   -E2BIG   @opts sets a member that this version does not have
 *   -ENOMEM  no memory
 *
 * Any thread.
 *
 * Re-creates doca_sync_event_create() and doca_sync_event_start().
 */
WEIR_API int weir_sync_create(struct weir_sync **ret,
			      const struct weir_sync_opts *opts);

/*
 * Create a sync event in the WEIR_SYNC_LEN bytes at offset @off of @mmap, which
 * are overwritten.  @mmap cannot be stopped until it is destroyed.
 *
 * Any holder of @mmap, and any importer of it, can open it.  An importer that
 * cannot write cannot say that it waits either: it is woken if every signal
 * pays for a system call.  That is so if @mmap lets others only read, or with
 * WEIR_SYNC_READERS; otherwise such an importer looks every millisecond.
 *
 * Returns 0 with *@ret set, to be freed by weir_sync_destroy(), or
 *   -EPERM       @mmap is imported: its exporter creates
 *   -EBADFD      it is not started
 *   -EACCES      it has no WEIR_MMAP_WRITE
 *   -EOPNOTSUPP  it is not memory of the system, so that no thread can wait
 *                there
 *   -EINVAL      @off is not a multiple of 8, or unknown flags
 *   -ERANGE      it would reach beyond the end
 *   -E2BIG       @opts sets a member that this version does not have
 *   -ENOMEM      no memory
 *
 * The owner's thread of @mmap.
 */
WEIR_API int weir_sync_create_in(struct weir_sync **ret,
				 struct weir_mmap *mmap, uint64_t off,
				 const struct weir_sync_opts *opts);

/*
 * Open the sync event that was created at offset @off of @mmap, which
 * is an import or our own.  @mmap cannot be stopped or destroyed until
 * weir_sync_destroy().
 *
 * Returns 0 with *@ret set, to be freed by weir_sync_destroy(), or
 *   -EBADMSG          there is no sync event
 *   -EPROTONOSUPPORT  there is one of another version
 *   -ESTALE           its creator has destroyed it, or the exporter of @mmap
 *                     has revoked it
 *   -EBADFD           @mmap is not started
 *   -EOPNOTSUPP       @mmap is not memory of the system; imported by copying,
 *                     say
 *   -EINVAL           @off is not a multiple of 8
 *   -ERANGE           it would reach beyond the end
 *   -ENOMEM           no memory
 *
 * The owner's thread of @mmap.
 *
 * Re-creates doca_sync_event_create_from_export().
 */
WEIR_API int weir_sync_open(struct weir_sync **ret, struct weir_mmap *mmap,
			    uint64_t off);

/*
 * Free @sync.  NULL is allowed.  Processes that have opened it find that
 * it is over: -ESTALE.
 *
 * A wait that has ended may destroy it at once, although the call that has
 * signalled may not have returned yet: that is waited for.
 *
 * Returns 0, or, with it as it was:
 *   -EBUSY  a thread of this process waits
 *
 * Any thread, if no other is about to call anything with @sync; callbacks too.
 */
WEIR_API int weir_sync_destroy(struct weir_sync *sync);

/*
 * Set the value.
 *
 * Returns 0, or
 *   -EACCES  the mmap is imported for reading only
 *   -EXDEV   peers may signal it by a device whose atomics are not atomic to
 *            processors: one of the two would be lost; see <weir/sync-remote.h>
 *   -ESTALE  it was destroyed by its creator, or revoked
 *
 * Any thread.  Never allocates.  No lock and no system call unless a thread
 * waits.
 *
 * Re-creates doca_sync_event_update_set().
 */
WEIR_API int weir_sync_set(struct weir_sync *sync, uint64_t value);

/*
 * Add @n to the value, which wraps around; to subtract, add UINT64_MAX - n + 1.
 * If @old is not NULL, *@old is what it was before.
 *
 * Returns what weir_sync_set() returns.
 *
 * Any thread.  Never allocates.  No lock and no system call unless a thread
 * waits.
 *
 * Re-creates doca_sync_event_update_add().
 */
WEIR_API int weir_sync_add(struct weir_sync *sync, uint64_t n, uint64_t *old);

/*
 * Copy the value to *@ret.
 *
 * Returns 0, or
 *   -ESTALE  it was destroyed by its creator, or revoked
 *
 * Any thread.  Never blocks, never allocates.
 *
 * Re-creates doca_sync_event_get().
 */
WEIR_API int weir_sync_get(const struct weir_sync *sync, uint64_t *ret);

/*
 * Wait on @r until the value, of which only the bits in @mask count, is as
 * @cond and @value say.
 *
 * Completes with 0, at the earliest in the next turn, also if it holds already,
 * or with
 *   -ESTALE  it was destroyed by its creator, or the mmap was revoked, or the
 *            exporter is dead; the last is seen within a second
 *   -ECANCELED, -ETIMEDOUT
 *
 * Waiters are served in the order in which they came.  While @r is awake it
 * looks for signals from other processes itself.  The first wait for a sync
 * event in an mmap makes a thread that waits for them while @r sleeps: one for
 * every 127 such sync events of the process.  On kernels before 5.16 it looks
 * every millisecond while there are such waits.
 *
 * Returns 0, or
 *   -EINVAL  unknown @cond; @mask is 0; @value has bits that are not in @mask;
 *            or @op is in flight or without callback
 *   -ESTALE  it is over already
 *   -ENOSPC  WEIR_SYNC_WATCHED_MAX sync events in mmaps have been waited for,
 *            by operations of this process, and not been destroyed yet
 *   -EAGAIN  that thread cannot be made
 *   -EAGAIN, -ESHUTDOWN  @op cannot be started, see <weir/op.h>
 *
 * Call on @r's thread.  Never blocks; allocates nothing but that thread.
 *
 * Re-creates doca_sync_event_wait_gt_yield() and doca_sync_event_task_wait_eq.
 */
WEIR_API int weir_sync_wait(struct weir_sync *sync, struct weir_reactor *r,
			    struct weir_op *op, uint32_t cond, uint64_t value,
			    uint64_t mask);

/*
 * The same for a thread without reactor: block until it holds, or for
 * @timeout_ns; WEIR_FOREVER: for as long as it takes, 0: only look.  It spins
 * for some 50 us before it sleeps, if that was of use lately.
 *
 * Returns 0, or
 *   -ETIMEDOUT  it did not hold in that time
 *   -EINVAL     unknown @cond; @mask is 0; or @value has bits that are not in
 *               @mask
 *   -ESTALE     as above
 *   -EOPNOTSUPP it would block in a simulated world that is being run
 *
 * Any thread; in a callback it holds up the loop.
 *
 * Re-creates doca_sync_event_wait_gt().
 */
WEIR_API int weir_sync_wait_blocking(struct weir_sync *sync, uint32_t cond,
				     uint64_t value, uint64_t mask,
				     uint64_t timeout_ns);

/* What a step of a chain does: .action of struct weir_sync_step. */
#define WEIR_SYNC_DO_WAIT 0u
#define WEIR_SYNC_DO_SET 1u
#define WEIR_SYNC_DO_ADD 2u
#define WEIR_SYNC_DO_GET 3u

/*
 * A step of a chain; the caller's.  What it says may be changed until the step
 * begins, in each run of the chain anew; so nothing holds .sync before, and it
 * has to be there while the chain is in flight.
 */
struct weir_sync_step {
	struct weir_sync *sync;
	uint32_t action;	/* WEIR_SYNC_DO_ */
	uint32_t cond;		/* To wait: WEIR_SYNC_EQ, ... */
	uint64_t value;		/* To wait for, set or add. */
	uint64_t mask;		/* To wait: 0 is WEIR_SYNC_ALL. */
	uint64_t got;		/* Set by GET, and by ADD: what it was. */
};

/*
 * Add @step to @chain: a wait, or a signal, in the place of an operation.
 *
 * The result of the step is 0, or what weir_sync_wait(), weir_sync_set(),
 * weir_sync_add() or weir_sync_get() fails with; -EINVAL for an unknown
 * .action.  A deadline and a cancel of the chain reach the wait.
 *
 * Returns what weir_chain_add_job() returns.
 *
 * Call on the chain's reactor.  Never allocates.
 *
 * Re-creates doca_sync_event_task_wait_gt, doca_sync_event_task_notify_set,
 * doca_sync_event_task_notify_add and doca_sync_event_task_get.
 */
WEIR_API int weir_chain_add_sync(struct weir_chain *chain, int after,
				 struct weir_sync_step *step);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_SYNC_H */
