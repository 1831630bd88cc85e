/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_HOST_H
#define WEIR_HOST_H

/*
 * Running a reactor together with another event loop.
 *
 *	host	the other loop drives a reactor
 *	guest	a reactor drives the other loop
 *
 * There are headers for four loops, with a pair of functions for host and
 * guest: <weir/host/libev.h>, <weir/host/libuv.h>, <weir/host/glib.h>,
 * <weir/host/sd-event.h>.  They are short and inline, so that libweir needs
 * none of these libraries.  This header is for other loops.
 *
 * A host watches weir_reactor_fd() for reading, level-triggered, and calls
 * weir_host_turn() when it is ready.  Attach a reactor to its host before you
 * start any operation on it, or create it with .hosted = 1: see
 * weir_reactor_fd().
 *
 * A guest runs on the reactor's thread, in each turn, after everything else, so
 * that changes by callbacks of the reactor take effect before the reactor
 * sleeps.  This costs about one system call in each turn.
 */

#include <errno.h>

#include <weir/op.h>
#include <weir/reactor.h>
#include <weir/timer.h>
#include <weir/watch.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_host;
struct weir_guest;

/*
 * Called when a host does not drive the reactor any more: @err is 0 if the
 * reactor has stopped, or the negative errno of a turn.  It is called from the
 * host's loop, not from a turn, so it may destroy the reactor.
 */
typedef void weir_host_end_fn(struct weir_host *host, int err);

/* Common members of all hosts; the caller's memory. */
struct weir_host {
	struct weir_reactor *reactor;
	weir_host_end_fn *on_end;	/* May be NULL. */
	void *data;			/* For the caller; not used. */
};

/*
 * Make a turn when weir_reactor_fd() is readable.
 *
 * Do not call it from a callback of the reactor; it then returns 1 and does
 * nothing.
 *
 * Returns 1 to continue, 0 if the reactor has stopped, or
 *   -ENOMEM, -EIO  the kernel refused; weir_why() says more
 * If the result is not 1, stop watching the descriptor, which stays readable,
 * and call .on_end.
 *
 * Call on the reactor's thread.
 */
static inline int weir_host_turn(struct weir_host *host)
{
	int n = weir_reactor_turn(host->reactor, 0);

	if (n == -EBUSY)
		return 1;
	if (n < 0)
		return n;
	return weir_reactor_state(host->reactor) != WEIR_REACTOR_STOPPED;
}

/*
 * Call .on_end of @host, which does not drive its reactor any more.
 *
 * Call on the reactor's thread, outside its callbacks.
 */
static inline void weir_host_end(struct weir_host *host, int err)
{
	if (host->on_end)
		host->on_end(host, err);
}

/* Results of a weir_guest_fn, or a negative errno. */
#define WEIR_GUEST_ASLEEP 0	/* It waits for its descriptor and *sleep_ns. */
#define WEIR_GUEST_IDLE 1	/* It waits for nothing, for now. */
#define WEIR_GUEST_ENDED 2	/* It will never run again. */

/*
 * Run the due events of the foreign loop, without waiting, and prepare the loop
 * for a wait.  *@sleep_ns is WEIR_FOREVER; set it to the time that the loop may
 * sleep while its descriptor is not readable, 0 if more is due already.
 */
typedef int weir_guest_fn(struct weir_guest *guest, uint64_t *sleep_ns);

/*
 * Called when a reactor does not drive the guest any more; the guest is already
 * detached.  @err is 0 if the guest has ended, or a negative errno.
 */
typedef void weir_guest_end_fn(struct weir_guest *guest, int err);

/* Common members of all guests; the caller's memory. */
struct weir_guest {
	struct weir_reactor *reactor;
	weir_guest_fn *run;
	void (*detach)(struct weir_guest *guest);
	weir_guest_end_fn *on_end;	/* May be NULL. */
	void *data;			/* For the caller; not used. */
	struct weir_poller *poller;	/* NULL: not attached. */
	struct weir_watch *watch;
	struct weir_timer *timer;
	int idle;			/* The watch is paused. */
};

static inline void weir__guest_ready(struct weir_watch *watch, uint32_t events,
				     void *guest)
{
	/* The watch has caused a turn; its poller runs the guest. */
	(void)watch, (void)events, (void)guest;
}

static inline void weir__guest_due(struct weir_timer *timer, uint64_t n,
				   void *guest)
{
	(void)timer, (void)n, (void)guest;
}

static inline void weir__guest_sleep(struct weir_guest *guest, int idle,
				     uint64_t ns)
{
	uint64_t now = weir_reactor_now(guest->reactor);

	if (idle != guest->idle)
		weir_watch_set(guest->watch, idle ? 0 : WEIR_READABLE);
	guest->idle = idle;
	if (idle || ns >= WEIR_FOREVER - now)
		weir_timer_stop(guest->timer);
	else
		weir_timer_start(guest->timer, now + ns, 0);
}

static inline int weir__guest_turn(struct weir_poller *poller, void *arg)
{
	struct weir_guest *guest = (struct weir_guest *)arg;
	uint64_t ns = WEIR_FOREVER;
	int n = guest->run(guest, &ns);

	(void)poller;
	if (!guest->poller)
		return 1; /* Detached, in a callback of the guest. */
	if (n == WEIR_GUEST_ASLEEP || n == WEIR_GUEST_IDLE) {
		weir__guest_sleep(guest, n, ns);
		return 0;
	}
	guest->detach(guest);
	if (guest->on_end)
		guest->on_end(guest, n < 0 ? n : 0);
	return 1;
}

/*
 * Detach @guest, so that its reactor does not drive the foreign loop any more.
 *
 * The call has no effect on a guest that is detached.  In a callback of the
 * guest, keep its memory until that callback has returned.
 *
 * Call on the reactor's thread, callbacks included.
 */
static inline void weir_guest_detach(struct weir_guest *guest)
{
	weir_poller_destroy(guest->poller);
	weir_timer_destroy(guest->timer);
	weir_watch_destroy(guest->watch);
	guest->poller = NULL;
	guest->timer = NULL;
	guest->watch = NULL;
}

/*
 * Attach a foreign loop to @r, which calls @run in each turn and wakes for @fd.
 *
 * @fd must be readable when an event of the loop is due.  Headers for loops use
 * this function.  They set .detach and .on_end before, if weir_guest_detach()
 * is not sufficient.
 *
 * Returns 0, or
 *   -EBADF, -EPERM  @fd is not open, or cannot be polled
 *   -ENOMEM     no memory
 *   -ESHUTDOWN  @r is stopping
 *
 * Call on @r's thread.
 */
static inline int weir_guest_attach(struct weir_guest *guest,
				    struct weir_reactor *r, int fd,
				    weir_guest_fn *run)
{
	int err;

	guest->reactor = r;
	guest->run = run;
	guest->idle = 0;
	guest->poller = NULL;
	guest->timer = NULL;
	guest->watch = NULL;
	if (!guest->detach)
		guest->detach = weir_guest_detach;
	err = weir_watch_create(&guest->watch, r, fd, WEIR_READABLE,
				weir__guest_ready, guest);
	if (!err)
		err = weir_timer_create(&guest->timer, r, weir__guest_due,
					guest);
	if (!err)
		err = weir_poller_create(&guest->poller, r, WEIR_FOREVER,
					 weir__guest_turn, guest);
	if (err)
		weir_guest_detach(guest);
	return err;
}

#ifdef __cplusplus
}
#endif

#endif /* WEIR_HOST_H */
