/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_HOST_H
#define WEIR_HOST_H

/*
 * Living with another event loop, either way round.
 *
 *	host	the other loop drives a reactor
 *	guest	a reactor drives the other loop
 *
 * There is a header for each loop that weir knows, with a pair of functions
 * for either way: <weir/host/libev.h>, <weir/host/libuv.h>,
 * <weir/host/glib.h>, <weir/host/sd-event.h>.  All is inline, so that libweir
 * needs none of these libraries, and a few lines long: what is here serves
 * loops that have no header yet.
 *
 * For a host, the whole of it is: watch weir_reactor_fd() for reading,
 * level-triggered, and call weir_host_turn() when it is ready.  Attach a
 * reactor to its host before you start anything on it, or create it with
 * .hosted = 1: see weir_reactor_fd().
 *
 * A guest runs on the reactor's thread, in each turn, after everything else:
 * what callbacks of the reactor's change in it is therefore seen before the
 * reactor sleeps.  One system call or so in each turn is the price.
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
 * Called when a host does not drive the reactor any more: @err is 0 if it has
 * stopped, or the negative errno that a turn ended with.  It is called from the
 * host's loop, not from a turn, so the reactor may be destroyed.
 */
typedef void weir_host_end_fn(struct weir_host *host, int err);

/* What all hosts have in common; the caller's memory. */
struct weir_host {
	struct weir_reactor *reactor;
	weir_host_end_fn *on_end;	/* May be NULL. */
	void *data;			/* For the caller; never looked at. */
};

/*
 * Make the turn that the readiness of weir_reactor_fd() asks for.
 *
 * A host that is run from a callback of the reactor (do not) gets 1, and has
 * nothing done.
 *
 * Returns 1 to go on, 0 if the reactor has stopped, or
 *   -ENOMEM, -EIO  the kernel refused; weir_why() says more
 * In both latter cases stop watching the descriptor, which stays readable, and
 * call .on_end.
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
 * Say that @host does not drive its reactor any more, and why.
 *
 * Call on the reactor's thread, outside its callbacks.
 */
static inline void weir_host_end(struct weir_host *host, int err)
{
	if (host->on_end)
		host->on_end(host, err);
}

/* What a weir_guest_fn returns, if not a negative errno. */
#define WEIR_GUEST_ASLEEP 0	/* It waits for its descriptor and *sleep_ns. */
#define WEIR_GUEST_IDLE 1	/* It waits for nothing, for now. */
#define WEIR_GUEST_ENDED 2	/* It will never run again. */

/*
 * Run what is due in the foreign loop, without waiting, and prepare it for
 * being waited for.  *@sleep_ns is WEIR_FOREVER; set it to how long the loop
 * may sleep if its descriptor stays silent, 0 if more is due already.
 */
typedef int weir_guest_fn(struct weir_guest *guest, uint64_t *sleep_ns);

/*
 * Called when a reactor does not drive the guest any more, which is detached by
 * then: @err is 0 if it has ended, or a negative errno.
 */
typedef void weir_guest_end_fn(struct weir_guest *guest, int err);

/* What all guests have in common; the caller's memory. */
struct weir_guest {
	struct weir_reactor *reactor;
	weir_guest_fn *run;
	void (*detach)(struct weir_guest *guest);
	weir_guest_end_fn *on_end;	/* May be NULL. */
	void *data;			/* For the caller; never looked at. */
	struct weir_poller *poller;	/* NULL: not attached. */
	struct weir_watch *watch;
	struct weir_timer *timer;
	int idle;			/* The watch is paused. */
};

static inline void weir__guest_ready(struct weir_watch *watch, uint32_t events,
				     void *guest)
{
	/* It has made a turn of it, and that is enough: the poller follows. */
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
		return 1; /* Detached, in a callback of the guest's. */
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
 * Have @guest's reactor drive no foreign loop any more.  What is detached may
 * be detached again.
 *
 * In a callback of the guest's, its memory is needed until this has returned.
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
 * Have @r drive a foreign loop: call @run in each turn, and wake for @fd, which
 * is readable when something is due.
 *
 * For the writers of headers like these: they set .detach and .on_end before,
 * if weir_guest_detach() is not all there is to do.
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
