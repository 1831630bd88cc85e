/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The stop of an mmap.
 *
 * If no other thread has it attached, it stops at once.  Otherwise the stop is
 * an operation that sends deferred calls to the reactors that have it attached,
 * in two rounds:
 *
 *	STARTED --> STOPPING   from here on no buf of it can be taken
 *	look        each reactor reports whether bufs are out.  If one has some,
 *	            or on a cancel: back to STARTED, with nothing changed
 *	settle      revoke its exports; wait for importers whose jobs touch it
 *	            and, if it drains, for bufs.  Cancel: back to STARTED
 *	drop        each reactor drops its registration and detaches; a cancel
 *	            comes too late
 *	STOPPED
 *
 * With one round, another core could take a buf before it saw the new state,
 * after a first registration was dropped.  A deferred call runs between calls,
 * so after it its core has seen the state, and the bufs that are out are
 * counted.
 *
 * During a drain bufs may be out, but after the first round no more are taken,
 * so this thread can read their counts.
 *
 * A use may leave meanwhile, with its inventory; then it need not be waited
 * for.  The operation is on a reactor of the thread that stops the mmap, which
 * makes all decisions.
 */

#include <errno.h>
#include <stdlib.h>

#include "base/why.h"
#include "mem/domain-internal.h"
#include "mem/export/internal.h"
#include "mem/mmap-internal.h"
#include "mem/segment/internal.h"
#include "reactor/op-inline.h"
#include "reactor/reactor-internal.h"

/* The kind of a stop: what it does not refuse. */
struct manner {
	bool travels;		/* To other threads. */
	bool drains;		/* Waits for bufs. */
};

static int refuse_use(const struct mmap_use *use, const struct manner *manner)
{
	const struct mmap_link *link;
	unsigned long n;

	n = atomic_load_explicit(&use->n_bufs, memory_order_relaxed);
	if (n && !manner->drains)
		return why(-EBUSY, "weir_mmap_stop: %lu bufs of the mmap are "
			   "out", n);
	for (link = use->links; link; link = link->next)
		if (link->is_pool)
			return why(-EBUSY, "weir_mmap_stop: a pool is made of "
				   "the mmap; destroy it first");
	if (!manner->travels && !reactor_is_here(use->r))
		return why(-EBUSY, "weir_mmap_stop: a reactor of another "
			   "thread has the mmap attached; detach it there "
			   "first, or stop with an operation");
	return 0;
}

/* Why it cannot be stopped now, or 0.  Under the lock. */
static int refuse_stop(const struct weir_mmap *mmap,
		       const struct manner *manner)
{
	const struct mmap_use *use;
	int err = 0;

	debug_check(mutex_is_held(&mmap->lock));
	if (mmap->stop_op)
		return why(-EBUSY, "weir_mmap_stop: a stop is in flight");
	if (atomic_load(&mmap->n_syncs))
		return why(-EBUSY, "weir_mmap_stop: %u sync events lie in the "
			   "mmap; destroy them first",
			   atomic_load(&mmap->n_syncs));
	for (use = mmap->uses; use && !err; use = use->next)
		err = refuse_use(use, manner);
	return err ? err : segment_may_remove(mmap, "weir_mmap_stop");
}

static void set_state(struct weir_mmap *mmap, int state)
{
	atomic_store_explicit(&mmap->state, state, memory_order_release);
}

/* Drop the uses of this thread.  Under the lock; the returned list is freed
 * without it. */
static struct mmap_use *drop_here(struct weir_mmap *mmap)
{
	struct mmap_use *use, *next, *dropped = NULL;

	debug_check(mutex_is_held(&mmap->lock));
	for (use = mmap->uses; use; use = next) {
		next = use->next;
		if (!reactor_is_here(use->r))
			continue;
		mmap_use_drop(use);
		use->next = dropped;
		dropped = use;
	}
	return dropped;
}

static void free_uses(struct mmap_use *use)
{
	struct mmap_use *next;

	for (; use; use = next) {
		next = use->next;
		mmap_use_free(use);
	}
}

/* It is STOPPED: notify importers, dma-bufs and segment callbacks. */
static void tell(struct weir_mmap *mmap)
{
	debug_check(mmap->state == WEIR_MMAP_STOPPED);
	debug_check(!mmap->export);
	dmabuf_end(mmap);
	segment_remove(mmap);
}

static int refuse_importers(const char *names)
{
	return why(-EBUSY, "weir_mmap_stop: jobs of importers are using the "
		   "mmap: %s; stop with an operation, or revoke it first",
		   names);
}

/* Whether importers use what was revoked: -EINPROGRESS, or another errno of a device. */
static int ask_importers(struct weir_mmap *mmap, char *names, size_t len)
{
	return export_count_busy(mmap, false, names, len) ?
		       -EINPROGRESS : mmap_keys_ask_again(mmap, names, len);
}

/* Close every access from outside, but for keys if it @drains: jobs use them.  Under the
 * lock.  Returns 0, or an errno with nothing revoked but what devices have. */
static int close_access(struct weir_mmap *mmap, bool drains)
{
	int err = mmap_keys_drop(mmap, drains);

	debug_check(mutex_is_held(&mmap->lock));
	export_revoke(mmap, !err);
	return err;
}

/* Revoke its exports, if no importer is busy.  One may become busy between the
 * check and the revocation, and a device's importers are known only after it; wait
 * for it, for a moment.  Under the lock. */
static int revoke_at_once(struct weir_mmap *mmap)
{
	unsigned int tries = 0;
	char names[200];
	int err;

	debug_check(mutex_is_held(&mmap->lock));
	if (export_count_busy(mmap, true, names, sizeof(names)))
		return refuse_importers(names);
	err = close_access(mmap, true);
	if (err)
		return err;
	while ((err = ask_importers(mmap, names, sizeof(names))) == -EINPROGRESS)
		if (!export_pause(&tries))
			return refuse_importers(names);
	return err ? err : mmap_keys_drop(mmap, false);
}

/* All uses are of this thread.  Called under the lock, which it releases. */
static void stop_here(struct weir_mmap *mmap)
{
	struct mmap_use *dropped = drop_here(mmap);

	debug_check(mutex_is_held(&mmap->lock) && mmap_is_started(mmap));
	export_revoke(mmap, true);
	set_state(mmap, WEIR_MMAP_STOPPED);
	pthread_mutex_unlock(&mmap->lock);
	free_uses(dropped);
	tell(mmap);
}

/* Set a wish for all uses of other threads.  Returns their number. */
static uint32_t send_out(struct weir_mmap *mmap, enum mmap_wish wish)
{
	struct mmap_use *use;
	uint32_t n = 0;

	debug_check(mutex_is_held(&mmap->lock) && wish);
	for (use = mmap->uses; use; use = use->next) {
		if (reactor_is_here(use->r))
			continue;
		use->wish = wish;
		n++;
	}
	mmap->stop_waits = n;
	for (use = mmap->uses; use; use = use->next)
		if (!reactor_is_here(use->r))
			deferred_send(&use->deferred);
	return n;
}

/* For all uses: in a simulated world, between turns, each of them is on this
 * thread, even if a turn has sent the wish to another reactor. */
static void take_back(struct weir_mmap *mmap)
{
	debug_check(mutex_is_held(&mmap->lock));
	for (struct mmap_use *use = mmap->uses; use; use = use->next)
		use->wish = MMAP_NO_WISH;
	mmap->stop_waits = 0;
}

/* A visit has ended, or is not needed.  The last one ends the round. */
static void visited(struct weir_mmap *mmap, bool end)
{
	debug_check(mutex_is_held(&mmap->lock) && mmap->stop_op);
	debug_check(mmap->stop_waits > 0);
	mmap->stop_waits--;
	if (mmap->stop_returns || (mmap->stop_waits && !end))
		return;
	mmap->stop_returns = true;
	op_return(mmap->stop_op);
}

void mmap_use_visit(struct deferred *deferred)
{
	struct mmap_use *use =
		weir_container_of(deferred, struct mmap_use, deferred);
	struct weir_mmap *mmap = use->mmap;
	enum mmap_wish wish;

	if (use->dead) {
		free(use);
		return;
	}
	pthread_mutex_lock(&mmap->lock);
	wish = use->wish;
	use->wish = MMAP_NO_WISH;
	if (wish == MMAP_WISH_LOOK) {
		mmap->stop_busy |= atomic_load(&use->n_bufs) != 0;
		visited(mmap, mmap->stop_busy && !mmap->stop_drains);
	} else if (wish == MMAP_WISH_DROP) {
		mmap_use_drop(use);
		visited(mmap, false);
	}
	pthread_mutex_unlock(&mmap->lock);
	if (wish == MMAP_WISH_DROP)
		mmap_use_free(use);
}

void mmap_use_leaves(struct mmap_use *use)
{
	debug_check(mutex_is_held(&use->mmap->lock));
	if (use->wish)
		visited(use->mmap, false);
	use->wish = MMAP_NO_WISH;
}

/* Return to STARTED, with nothing changed.  Under the lock. */
static void give_up(struct weir_mmap *mmap)
{
	debug_check(mutex_is_held(&mmap->lock) && !mmap->stop_decided);
	wheel_del(&mmap->stop_op->reactor->wheel, &mmap->stop_timer);
	mmap->stop_settles = false;
	take_back(mmap);
	mmap->stop_op = NULL;
	set_state(mmap, WEIR_MMAP_STARTED);
}

/* No bufs are out, and none can be taken.  Called under the lock, which it
 * releases. */
static void decide(struct weir_mmap *mmap)
{
	struct mmap_use *dropped = drop_here(mmap);

	debug_check(mutex_is_held(&mmap->lock) && !mmap->stop_decided);
	mmap->stop_settles = false;
	mmap->stop_decided = true;
	mmap->stop_returns = false;
	if (!send_out(mmap, MMAP_WISH_DROP)) {
		mmap->stop_returns = true;
		op_return(mmap->stop_op);
	}
	pthread_mutex_unlock(&mmap->lock);
	free_uses(dropped);
}

static void finish(struct weir_mmap *mmap, struct weir_op *op)
{
	debug_check(mutex_is_held(&mmap->lock) && !mmap->stop_waits);
	mmap->stop_op = NULL;
	export_revoke(mmap, true);
	set_state(mmap, WEIR_MMAP_STOPPED);
	pthread_mutex_unlock(&mmap->lock);
	op_enter(op);
	tell(mmap);
	op_complete(op, 0);
	op_exit(op);
}

/* No buf can be taken any more.  A buf that is returned later is counted before
 * this sees the count. */
static unsigned long count_bufs(const struct weir_mmap *mmap)
{
	const struct mmap_use *use;
	unsigned long n = 0;

	debug_check(mutex_is_held(&mmap->lock));
	for (use = mmap->uses; use; use = use->next)
		n += atomic_load(&use->n_bufs);
	return n;
}

/* Returns 0 if it is unused, -EINPROGRESS, or another errno of a device. */
static int ask(struct weir_mmap *mmap)
{
	int err = ask_importers(mmap, NULL, 0);

	return err ? err : count_bufs(mmap) ? -EINPROGRESS : 0;
}

/* Called under the lock, which it releases.  A drain could not take keys back
 * while jobs used them. */
static void settled(struct weir_mmap *mmap, int err)
{
	struct weir_op *op = mmap->stop_op;

	if (!err && mmap->stop_drains)
		err = mmap_keys_drop(mmap, false);
	if (!err) {
		decide(mmap);
		return;
	}
	give_up(mmap);
	pthread_mutex_unlock(&mmap->lock);
	op_complete(op, err);
}

/* Called under the lock, which it releases: decide, or check again later. */
static void settle(struct weir_mmap *mmap)
{
	struct weir_reactor *r = mmap->stop_op->reactor;

	int err = ask(mmap);

	debug_check(mmap->stop_settles && !mmap->stop_decided);
	if (err != -EINPROGRESS) {
		settled(mmap, err);
		return;
	}
	wheel_add(&r->wheel, &mmap->stop_timer,
		  export_look_again(mmap->stop_since, reactor_now(r)));
	reactor_touch(r);
	pthread_mutex_unlock(&mmap->lock);
}

static void settle_again(struct weir_timer_node *node)
{
	struct weir_mmap *mmap =
		weir_container_of(node, struct weir_mmap, stop_timer);

	pthread_mutex_lock(&mmap->lock);
	settle(mmap);
}

/* Wait for those that still have access.  Called under the lock, which it
 * releases. */
static void begin_to_settle(struct weir_mmap *mmap)
{
	debug_check(mutex_is_held(&mmap->lock) && !mmap->stop_settles);
	mmap->stop_settles = true;
	mmap->stop_returns = false;
	mmap->stop_since = reactor_now(mmap->stop_op->reactor);
	mmap->stop_timer.fire = settle_again;
	settle(mmap);
}

/* A round has ended. */
static void stop_returned(struct weir_op *op)
{
	struct weir_mmap *mmap = (struct weir_mmap *)(uintptr_t)op->u.words[0];
	int err = 0;

	debug_check(mmap->stop_op == op);
	debug_check(op->state == OP_PENDING);
	pthread_mutex_lock(&mmap->lock);
	if (mmap->stop_decided) {
		finish(mmap, op);
		return;
	}
	if (op_cancel_wanted(op))
		err = -ECANCELED;
	else if (mmap->stop_busy && !mmap->stop_drains)
		err = why(-EBUSY, "weir_mmap_stop: bufs of the mmap are out on "
			  "another thread");
	else
		err = segment_may_remove(mmap, "weir_mmap_stop");
	if (!err)
		err = close_access(mmap, mmap->stop_drains);
	if (!err) {
		begin_to_settle(mmap);
		return;
	}
	give_up(mmap);
	pthread_mutex_unlock(&mmap->lock);
	op_complete(op, err);
}

/* What the stop waits for, for weir_why(). */
static void explain_settling(struct weir_mmap *mmap)
{
	unsigned long bufs = count_bufs(mmap);
	char names[200];

	if (ask_importers(mmap, names, sizeof(names)) == -EINPROGRESS)
		why(-ECANCELED, "weir_mmap_stop: jobs of importers are still "
		    "using the mmap: %s", names);
	else if (bufs)
		why(-ECANCELED, "weir_mmap_drain: %lu bufs of the mmap are "
		    "out", bufs);
}

/* A reactor that has yet to be visited in the first round may never make a
 * turn; one of the second round has shown that it makes turns. */
static void stop_cancel(struct weir_op *op)
{
	struct weir_mmap *mmap = (struct weir_mmap *)(uintptr_t)op->u.words[0];
	bool too_late;

	debug_check(mmap->stop_op == op);
	debug_check(op_cancel_wanted(op));
	pthread_mutex_lock(&mmap->lock);
	too_late = mmap->stop_decided || mmap->stop_returns;
	if (!too_late && mmap->stop_settles)
		explain_settling(mmap);
	if (!too_late)
		give_up(mmap);
	pthread_mutex_unlock(&mmap->lock);
	if (!too_late)
		op_complete(op, -ECANCELED);
}

static const struct weir_op_class stop_class = {
	.name = "mmap stop",
	.returned = stop_returned,
	.cancel = stop_cancel,
};

/* Under the lock; @op has begun. */
static void set_stopping(struct weir_mmap *mmap, struct weir_op *op,
			 bool drains)
{
	debug_check(mutex_is_held(&mmap->lock) && !mmap->stop_op);
	mmap->stop_op = op;
	mmap->stop_drains = drains;
	mmap->stop_busy = false;
	mmap->stop_settles = false;
	mmap->stop_decided = false;
	mmap->stop_returns = false;
	set_state(mmap, WEIR_MMAP_STOPPING);
}

static bool is_elsewhere(const struct weir_mmap *mmap)
{
	const struct mmap_use *use;

	debug_check(mutex_is_held(&mmap->lock));
	for (use = mmap->uses; use; use = use->next)
		if (!reactor_is_here(use->r))
			return true;
	return false;
}

int mmap_stop_now(struct weir_mmap *mmap)
{
	const struct manner manner = { .travels = false };
	int err;

	pthread_mutex_lock(&mmap->lock);
	err = refuse_stop(mmap, &manner);
	if (!err)
		err = revoke_at_once(mmap);
	if (!err && mmap_is_started(mmap)) {
		stop_here(mmap);
		return 0;
	}
	pthread_mutex_unlock(&mmap->lock);
	return err;
}

/* The same with no use to visit.  Called under the lock, which it releases. */
static void stop_from_here(struct weir_mmap *mmap, struct weir_op *op,
			   bool drains)
{
	int err = close_access(mmap, drains);

	if (!err)
		err = ask(mmap);
	if (err == -EINPROGRESS) {
		set_stopping(mmap, op, drains);
		begin_to_settle(mmap);
		return;
	}
	if (!err && drains)
		err = mmap_keys_drop(mmap, false);
	if (!err)
		stop_here(mmap);
	else
		pthread_mutex_unlock(&mmap->lock);
	op_complete(op, err);
}

static int stop_by(struct weir_mmap *mmap, struct weir_reactor *r,
		   struct weir_op *op, bool drains)
{
	const struct manner manner = { .travels = true, .drains = drains };
	int err;

	pthread_mutex_lock(&mmap->lock);
	err = refuse_stop(mmap, &manner);
	if (!err) {
		err = op_begin(r, op, &stop_class);
		if (err)
			op_refused(err, op, drains ? "weir_mmap_drain" :
						     "weir_mmap_stop");
	}
	if (err) {
		pthread_mutex_unlock(&mmap->lock);
		return op_admitted(err);
	}
	op->u.words[0] = (uintptr_t)mmap;
	/* Segment callbacks may be called, and cancel it. */
	op_enter(op);
	if (!mmap_is_started(mmap)) {
		pthread_mutex_unlock(&mmap->lock);
		op_complete(op, 0);
	} else if (is_elsewhere(mmap)) {
		set_stopping(mmap, op, drains);
		send_out(mmap, MMAP_WISH_LOOK);
		pthread_mutex_unlock(&mmap->lock);
	} else {
		stop_from_here(mmap, op, drains);
	}
	op_exit(op);
	return 0;
}

int weir_mmap_stop(struct weir_mmap *mmap, struct weir_reactor *r,
		   struct weir_op *op)
{
	if (mmap->import)
		return why(-EPERM, "weir_mmap_stop: an imported mmap is "
			   "started for good; destroy it");
	if (!op)
		return mmap_stop_now(mmap);
	if (!r)
		return why(-EINVAL, "weir_mmap_stop: an operation without a "
			   "reactor");
	return stop_by(mmap, r, op, false);
}

int weir_mmap_drain(struct weir_mmap *mmap, struct weir_reactor *r,
		    struct weir_op *op)
{
	if (mmap->import)
		return why(-EPERM, "weir_mmap_drain: an imported mmap is "
			   "started for good; destroy it");
	if (!op || !r)
		return why(-EINVAL, "weir_mmap_drain: no operation, or no "
			   "reactor");
	return stop_by(mmap, r, op, true);
}

/* Why it cannot be destroyed now, or 0. */
static int refuse_destroy(const struct weir_mmap *mmap)
{
	if (atomic_load(&mmap->revokes))
		return why(-EBUSY, "weir_mmap_destroy: a weir_mmap_revoke(), or "
			   "a wait for one of its leases, is in flight; cancel "
			   "that first");
	if (!mmap->import)
		return 0;
	if (atomic_load(&import_of(mmap)->watches))
		return why(-EBUSY, "weir_mmap_destroy: an operation waits for "
			   "the end of its exporter; cancel that first");
	if (process_is_busy(mmap))
		return why(-EBUSY, "weir_mmap_destroy: jobs by address use its "
			   "domain");
	return 0;
}

/* A program may use the mmap of a pool as its own: it has bufs made of it by an
 * inventory, say. */
int mmap_may_free(struct weir_mmap *mmap, const char *call)
{
	const struct mmap_use *use;
	unsigned long n;
	int err = 0;

	if (atomic_load(&mmap->revokes))
		return why(-EBUSY, "%s: a weir_mmap_revoke() of its mmap is in "
			   "flight; cancel that first", call);
	pthread_mutex_lock(&mmap->lock);
	if (atomic_load(&mmap->n_syncs))
		err = why(-EBUSY, "%s: %u sync events lie in its mmap; destroy "
			  "them first", call, atomic_load(&mmap->n_syncs));
	for (use = mmap->uses; use && !err; use = use->next) {
		n = atomic_load_explicit(&use->n_bufs, memory_order_relaxed);
		if (n)
			err = why(-EBUSY, "%s: %lu bufs of its mmap are out",
				  call, n);
		else if (!reactor_is_here(use->r))
			err = why(-EBUSY, "%s: a reactor of another thread has "
				  "its mmap attached; detach it there first",
				  call);
	}
	pthread_mutex_unlock(&mmap->lock);
	return err ? err : segment_may_remove(mmap, call);
}

int weir_mmap_destroy(struct weir_mmap *mmap)
{
	int err;

	if (!mmap)
		return 0;
	err = refuse_destroy(mmap);
	if (!err)
		err = mmap_stop_now(mmap);
	if (err)
		return err;
	if (mmap->free_fn && mmap->was_started)
		mmap->free_fn(mmap->addr, mmap->len, mmap->free_arg);
	mmap_rm_devices(mmap);
	if (mmap->release)
		mmap->release(mmap);
	domain_unuse(mmap->domain);
	pthread_mutex_destroy(&mmap->lock);
	free(mmap);
	return 0;
}
