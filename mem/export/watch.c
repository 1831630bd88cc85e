/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for the end of an exporter.  The pipe whose other end it has becomes
 * readable, by a byte, or by the end of the last process that has that end.  A
 * pidfd becomes readable when the exporter itself has ended.
 *
 * The caller's operation stands for two polls of our own, whose results mean
 * something else.  It ends when both have.
 *
 * A lease also ends when its time is over, although its exporter may be stopped
 * and tell nothing.  If the exporter has renewed it meanwhile, the watch waits
 * for the new end.
 *
 * A simulated world has no such descriptors: there it looks, some virtual time
 * after anything else has happened.
 */

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

#include <weir/socket.h>
#include <weir/watch.h>

#include "base/alloc.h"
#include "base/why.h"
#include "mem/export/internal.h"
#include "reactor/op-inline.h"

enum { PIPE, DEATH, N_POLLS };

struct watch {
	struct weir_op polls[N_POLLS];
	unsigned int n;		/* In flight. */
	int64_t res;
	struct weir_timer_node timer; /* When a lease ends. */
	struct observer observer; /* Instead of it, in a world. */
	struct weir_op *op;	/* The caller's; NULL: it has not begun. */
	struct import *im;
	const struct weir_mmap *mmap;
};

static struct watch *watch_of(const struct weir_op *op)
{
	return (struct watch *)(uintptr_t)op->u.words[0];
}

static void cancel_polls(struct watch *w)
{
	int i;

	for (i = 0; i < N_POLLS; i++)
		if (weir_op_is_busy(&w->polls[i]))
			weir_op_cancel(&w->polls[i]);
}

static void cancel(struct weir_op *op)
{
	cancel_polls(watch_of(op));
}

static const struct weir_op_class watch_class = {
	.name = "mmap watch",
	.cancel = cancel,
};

/* An exporter has this generation only if it is hostile, and then it keeps its own
 * memory open. */
const _Atomic uint64_t import_no_generation = UINT64_MAX;

bool import_is_stale(const struct mmap_import *import)
{
	uint64_t mine = atomic_load_explicit(&import->mine,
					     memory_order_relaxed);

	/* A hostile exporter can make its generation 0, too. */
	if (!mine || atomic_load(import->generation) != mine)
		return true;
	return import->expired && import->expired(import);
}

void import_poll(const struct weir_mmap *mmap)
{
	struct pollfd fds[N_POLLS] = {
		{ .fd = -1, .events = POLLIN },
		{ .fd = -1, .events = POLLIN },
	};

	if (!mmap->import)
		return;
	fds[PIPE].fd = import_of(mmap)->lifeline;
	fds[DEATH].fd = import_of(mmap)->exporter;
	/* Whatever comes out of the pipe, its exporter is over. */
	if (poll(fds, N_POLLS, 0) > 0)
		import_set_stale(&import_of(mmap)->base);
}

static void free_watch(struct watch *w)
{
	atomic_fetch_sub(&w->im->watches, 1);
	free(w);
}

static void wait_for_time(struct watch *w)
{
	struct weir_reactor *r = w->op->reactor;

	wheel_add(&r->wheel, &w->timer, atomic_load(&w->im->page->not_after));
	reactor_touch(r);
}

static void on_time(struct weir_timer_node *node)
{
	struct watch *w = weir_container_of(node, struct watch, timer);

	if (!w->im->base.expired(&w->im->base)) {
		wait_for_time(w);
		return;
	}
	w->res = -ESTALE;
	cancel_polls(w);
}

static void on_poll(struct watch *w, int64_t res)
{
	struct weir_op *op = w->op;

	if (res >= 0) {
		import_set_stale(&w->im->base);
		w->res = -ESTALE;
	} else if (!w->res) {
		w->res = res;
	}
	debug_check(w->n > 0);
	if (--w->n) {
		cancel_polls(w);
		return;
	}
	res = w->res;
	if (op)
		wheel_del(&op->reactor->wheel, &w->timer);
	free_watch(w);
	if (op)
		op_complete(op, res);
}

static void on_pipe(struct weir_op *poll, int64_t res)
{
	on_poll(weir_container_of(poll, struct watch, polls[PIPE]), res);
}

static void on_death(struct weir_op *poll, int64_t res)
{
	on_poll(weir_container_of(poll, struct watch, polls[DEATH]), res);
}

/* Returns 0 or an errno; with one of the two in flight @w is freed when that has
 * ended. */
static int start_polls(struct weir_reactor *r, struct watch *w)
{
	int err = weir_poll(r, &w->polls[PIPE], w->im->lifeline, WEIR_READABLE);

	if (err)
		return err;
	w->n = 1;
	if (w->im->exporter < 0)
		return 0;
	err = weir_poll(r, &w->polls[DEATH], w->im->exporter, WEIR_READABLE);
	w->n += !err;
	return err;
}

/* In a world. */

static void end_observed(struct weir_op *op, int res)
{
	observer_del(&watch_of(op)->observer);
	free_watch(watch_of(op));
	op_complete(op, res);
}

static void observe(struct observer *observer)
{
	struct watch *w = weir_container_of(observer, struct watch, observer);

	import_poll(w->mmap);
	if (mmap_stale(w->mmap))
		end_observed(w->op, -ESTALE);
}

static void cancel_observed(struct weir_op *op)
{
	debug_check(op_cancel_wanted(op));
	end_observed(op, -ECANCELED);
}

static const struct weir_op_class observed_class = {
	.name = "mmap watch in a world",
	.cancel = cancel_observed,
};

static int start_observed(struct weir_reactor *r, struct weir_op *op,
		      struct watch *w)
{
	w->observer.fn = observe;
	r->backend->observe(r, &w->observer);
	op->u.words[0] = (uintptr_t)w;
	op_enlist(r, op, &observed_class);
	atomic_fetch_add(&w->im->watches, 1);
	return 0;
}

int weir_mmap_watch(struct weir_mmap *mmap, struct weir_reactor *r,
		    struct weir_op *op)
{
	struct watch *w;
	int err;

	if (!mmap->import)
		return why(-EINVAL, "weir_mmap_watch: the mmap is not "
			   "imported");
	if (import_of(mmap)->owner)
		return why(-EOPNOTSUPP, "weir_mmap_watch: the mmap is reached "
			   "by %s, which says when that ends",
			   import_of(mmap)->owner->name);
	if (import_device(mmap))
		return why(-EOPNOTSUPP, "weir_mmap_watch: the mmap is reached "
			   "by device %s, which says when that ends",
			   device_name(import_device(mmap)));
	w = mem_calloc(1, sizeof(*w));
	if (!w)
		return why(-ENOMEM, "weir_mmap_watch: no memory");
	w->im = import_of(mmap);
	w->op = op;
	w->mmap = mmap;
	weir_op_init(&w->polls[PIPE], on_pipe);
	weir_op_init(&w->polls[DEATH], on_death);
	err = op_admit(r, op);
	if (!err && r->backend->observe)
		return start_observed(r, op, w);
	if (!err)
		err = start_polls(r, w);
	if (err && !w->n) {
		free(w);
		return op_refused(err, op, "weir_mmap_watch");
	}
	atomic_fetch_add(&w->im->watches, 1);
	if (err) {
		w->op = NULL;
		cancel_polls(w);
		return err;
	}
	op->u.words[0] = (uintptr_t)w;
	op_enlist(r, op, &watch_class);
	w->timer.fire = on_time;
	if (w->im->base.expired)
		wait_for_time(w);
	return 0;
}
