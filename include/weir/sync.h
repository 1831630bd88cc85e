/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_SYNC_H
#define WEIR_SYNC_H

/*
 * Sync events: a 64-bit value to signal and to wait on, from any thread, on any
 * reactor, and, in an exported mmap, from other processes.
 *
 *	weir_sync_create(&filled, NULL);
 *
 * One thread fills a block and signals; another thread's reactor waits for the
 * n-th:
 *
 *	weir_sync_add(filled, 1, NULL);
 *
 *	weir_sync_wait(filled, r, &rq->op, WEIR_SYNC_GE, n, WEIR_SYNC_ALL);
 *
 * A signal never overtakes the data before it: data that a thread has written
 * before weir_sync_set() or weir_sync_add() are visible to a thread that has
 * seen their effect, by weir_sync_get() or at the end of a wait.  That also
 * holds between processes, for data in shared memory.  A job has written its
 * data when its callback runs: signal there, or in the next step of the chain.
 *
 * A wait ends when the signaller, or the waiter before it begins to wait, sees
 * that the condition holds.  A wait may miss a value that is replaced soon;
 * wait for values that only grow.
 *
 * Between processes: one creates the sync event at an offset of an mmap that it
 * exports (<weir/export.h>); others import the mmap and open it there.  It has
 * WEIR_SYNC_LEN bytes, in the byte order of the machine:
 *
 *	0   8  magic: "weirsyn" and the version, 1
 *	8   8  the value
 *	16  4  the waiters' futex: changes when they should check the value
 *	20  4  not 0: a thread waits there; the waker sets it to 0
 *	24  4  flags: 1, wake in any case; 2, its creator has destroyed it; 4,
 *	       devices signal it too, so poll every millisecond; 8, only
 *	       devices signal it
 *	28  4  0
 *
 * Whatever a peer writes there, it can only make a wait too long or too short.
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

/* Bytes of a sync event in an mmap.  Keep two of them 64 bytes apart. */
#define WEIR_SYNC_LEN 32

/* The maximum number of sync events in mmaps for which operations wait. */
#define WEIR_SYNC_WATCHED_MAX 8128

/* Conditions: (value & mask) compared with the value of the wait. */
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
	uint64_t value;		/* The initial value. */
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
 * Create a sync event in the WEIR_SYNC_LEN bytes at offset @off of @mmap.
 *
 * The bytes are overwritten.  @mmap cannot be stopped until the sync event is
 * destroyed.
 *
 * Any holder or importer of @mmap can open it.  A read-only importer cannot
 * announce that it waits, so it is woken only if every signal makes a system
 * call.  That is the case if @mmap lets others only read, or with
 * WEIR_SYNC_READERS; otherwise such an importer polls every millisecond.
 *
 * Returns 0 with *@ret set, to be freed by weir_sync_destroy(), or
 *   -EPERM       @mmap is imported: only its exporter can create one
 *   -EBADFD      @mmap is not started
 *   -EACCES      @mmap has no WEIR_MMAP_WRITE
 *   -EOPNOTSUPP  @mmap is not memory of the system, so no thread can wait there
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
 * Open the sync event that was created at offset @off of @mmap.
 *
 * @mmap may be imported or this process's own.  It cannot be stopped or
 * destroyed until weir_sync_destroy().
 *
 * Returns 0 with *@ret set, to be freed by weir_sync_destroy(), or
 *   -EBADMSG          there is no sync event
 *   -EPROTONOSUPPORT  the sync event has another version
 *   -ESTALE           its creator has destroyed it, or the exporter of @mmap
 *                     has revoked it
 *   -EBADFD           @mmap is not started
 *   -EOPNOTSUPP       @mmap is not memory of the system; for example it was
 *                     imported by copying
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
 * Free @sync.
 *
 * NULL is allowed.  Calls of other processes that have opened it return
 * -ESTALE.
 *
 * A waiter may destroy @sync as soon as its wait has ended, even if the call
 * that has signalled has not returned yet; this call waits for that one.
 *
 * In a child that the owner of its mmap has forked, this frees what the child has
 * of it, and no other process is told.
 *
 * Returns 0, or, with @sync unchanged:
 *   -EBUSY  an operation or a thread of this process waits
 *
 * Any thread, if no other is about to make a call with @sync; callbacks too.
 */
WEIR_API int weir_sync_destroy(struct weir_sync *sync);

/*
 * Set the value.
 *
 * Returns 0, or
 *   -EACCES  the mmap is imported for reading only
 *   -EXDEV   peers may signal it by a device whose atomics are not atomic to
 *            processors, so a signal could be lost; see <weir/sync-remote.h>
 *   -ESTALE  its creator has destroyed it, or it was revoked
 *
 * Any thread.  Never allocates.  Takes no lock and makes no system call unless
 * a thread waits.
 *
 * Re-creates doca_sync_event_update_set().
 */
WEIR_API int weir_sync_set(struct weir_sync *sync, uint64_t value);

/*
 * Add @n to the value, which wraps around.
 *
 * To subtract, add UINT64_MAX - n + 1.  If @old is not NULL, *@old is set to
 * the previous value.
 *
 * Returns what weir_sync_set() returns.
 *
 * Any thread.  Never allocates.  Takes no lock and makes no system call unless
 * a thread waits.
 *
 * Re-creates doca_sync_event_update_add().
 */
WEIR_API int weir_sync_add(struct weir_sync *sync, uint64_t n, uint64_t *old);

/*
 * Get the value.
 *
 * Returns 0 with *@ret set, or
 *   -ESTALE  its creator has destroyed it, or it was revoked
 *
 * Any thread.  Never blocks, never allocates.
 *
 * Re-creates doca_sync_event_get().
 */
WEIR_API int weir_sync_get(const struct weir_sync *sync, uint64_t *ret);

/*
 * Wait on @r until the value meets the condition @cond with @value.
 *
 * Only the bits in @mask are compared.
 *
 * Completes with 0, at the earliest in the next turn, also if the condition
 * holds already, or with
 *   -ESTALE  its creator has destroyed it, the mmap was revoked, or the
 *            exporter has exited; the last is detected within a second
 *   -ECANCELED, -ETIMEDOUT
 *
 * Waiters are served in order.  While @r is awake it polls for signals of other
 * processes.  The first wait for a sync event in an mmap creates a thread that
 * waits for them while @r sleeps, one for every 127 such sync events of the
 * process.  On kernels before 5.16 the thread polls every millisecond while
 * there are such waits.
 *
 * Returns 0, or
 *   -EINVAL  unknown @cond; @mask is 0; @value has bits that are not in @mask;
 *            or @op is in flight or has no callback
 *   -ESTALE  its creator has destroyed it, or it was revoked
 *   -ENOSPC  operations of this process have waited for WEIR_SYNC_WATCHED_MAX
 *            sync events in mmaps that are not destroyed yet
 *   -EAGAIN  the thread cannot be created
 *   -EAGAIN, -ESHUTDOWN  @op cannot be started, see <weir/op.h>
 *
 * Call on @r's thread.  Never blocks; allocates nothing except that thread.
 *
 * Re-creates doca_sync_event_wait_gt_yield() and doca_sync_event_task_wait_eq.
 */
WEIR_API int weir_sync_wait(struct weir_sync *sync, struct weir_reactor *r,
			    struct weir_op *op, uint32_t cond, uint64_t value,
			    uint64_t mask);

/*
 * Block the calling thread until the value meets the condition @cond with
 * @value, at most @timeout_ns.
 *
 * Only the bits in @mask are compared.  WEIR_FOREVER is no limit; 0 only checks
 * the value.  The thread spins for about 50 us before it sleeps, if that has
 * been useful recently.
 *
 * Returns 0, or
 *   -ETIMEDOUT  the condition did not hold in that time
 *   -EINVAL     unknown @cond; @mask is 0; or @value has bits that are not in
 *               @mask
 *   -ESTALE     its creator has destroyed it, or it was revoked
 *   -EOPNOTSUPP it would block in a simulated world that is running
 *
 * Any thread; in a callback it blocks the loop.
 *
 * Re-creates doca_sync_event_wait_gt().
 */
WEIR_API int weir_sync_wait_blocking(struct weir_sync *sync, uint32_t cond,
				     uint64_t value, uint64_t mask,
				     uint64_t timeout_ns);

/* Actions of a step of a chain: .action of struct weir_sync_step. */
#define WEIR_SYNC_DO_WAIT 0u
#define WEIR_SYNC_DO_SET 1u
#define WEIR_SYNC_DO_ADD 2u
#define WEIR_SYNC_DO_GET 3u

/*
 * A step of a chain, in the caller's memory.  The caller may change it until
 * the step begins, in each run of the chain.  So the chain holds no reference
 * to .sync, which must exist while the chain is in flight.
 */
struct weir_sync_step {
	struct weir_sync *sync;
	uint32_t action;	/* WEIR_SYNC_DO_ */
	uint32_t cond;		/* To wait: WEIR_SYNC_EQ, ... */
	uint64_t value;		/* To wait for, set or add. */
	uint64_t mask;		/* To wait: 0 is WEIR_SYNC_ALL. */
	uint64_t got;		/* Set by GET; by ADD: the previous value. */
};

/*
 * Add @step, a wait, a signal or a get, to @chain.
 *
 * The result of the step is 0, or the errno of weir_sync_wait(),
 * weir_sync_set(), weir_sync_add() or weir_sync_get(); -EINVAL for an unknown
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
