/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_WATCH_H
#define WEIR_WATCH_H

/*
 * Sources that call back any number of times: for a descriptor, a counter, a
 * signal, or in every turn.
 *
 *	weir_watch	a descriptor is readable or writable
 *	weir_event	a counter that any thread may add to (an eventfd)
 *	weir_signal	a signal arrived
 *	weir_poller	every turn, for what can only be polled
 *
 * A callback may destroy any of them, including its own; no callback runs after
 * the destroy.  None calls back while the reactor is stopping, except a watch
 * with WEIR_THROUGH_STOP.
 */

#include <sys/signalfd.h>

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_reactor;
struct weir_watch;
struct weir_event;
struct weir_signal;
struct weir_poller;

/* Events to watch for, and events that have occurred. */
#define WEIR_READABLE 1u	/* Data, a connection, or the end. */
#define WEIR_WRITABLE 2u
#define WEIR_HANGUP 4u		/* Only reported: the peer is gone. */
#define WEIR_ERROR 8u		/* Only reported: an error is pending. */
#define WEIR_EDGE 16u		/* Only requested: edge-triggered. */
#define WEIR_PRI 32u		/* Urgent data, a change: POLLPRI. */
#define WEIR_RDHUP 64u		/* The peer sends no more: POLLRDHUP. */
#define WEIR_THROUGH_STOP 128u	/* Only requested: also while the reactor
				 * stops. */

/* Called when @watch is ready; @events is a set of the above. */
typedef void weir_watch_fn(struct weir_watch *watch, uint32_t events,
			   void *arg);

/*
 * Watch @fd, and call @fn with @arg when it is ready for one of @events.
 *
 * The watch is level-triggered: as long as @fd is ready, the callback runs once
 * in each turn.  With WEIR_EDGE it need run only when something new has
 * happened, which is cheaper on uring: then read or write until -EAGAIN.
 * WEIR_HANGUP and WEIR_ERROR are always watched for.  WEIR_PRI and WEIR_RDHUP
 * are reported only if they are among @events; both last until the program has
 * read the urgent data, or closed the socket, so without WEIR_EDGE take them
 * out of @events when they are known.  On libev a watch for one of them takes a
 * descriptor (an epoll(7) set of its own).  The caller owns @fd,
 * which must stay open until the watch is destroyed.  Regular files are always
 * ready and cannot be watched.  A descriptor may have several watches.
 *
 * With WEIR_THROUGH_STOP the watch continues until its reactor has stopped:
 * for a descriptor of another library whose events end operations in flight.
 * In a simulated world @fd may then be one of the system, which the world polls
 * at most 1 ms of its time after every other event.
 *
 * Returns 0 with *@ret set, to be freed by weir_watch_destroy(), or
 *   -EINVAL     @fn is NULL, or @events has other bits
 *   -EBADF      @fd is not open
 *   -EPERM      @fd cannot be polled, for example a regular file
 *   -EMFILE     no descriptor left for WEIR_PRI, or on libev for WEIR_RDHUP
 *   -ENOMEM     no memory
 *   -ESHUTDOWN  @r is stopping
 *
 * Call on @r's thread.
 *
 * Re-creates ev_io_start(), uv_poll_init() and io_uring_prep_poll_multishot().
 */
WEIR_API int weir_watch_create(struct weir_watch **ret, struct weir_reactor *r,
			       int fd, uint32_t events, weir_watch_fn *fn,
			       void *arg);

/*
 * Watch for @events from now on; 0 pauses the watch.
 *
 * Returns 0, or
 *   -EINVAL     @events has bits that cannot be watched for, or
 *               WEIR_THROUGH_STOP, which cannot change
 *   -EMFILE     no descriptor left for WEIR_PRI, or on libev for WEIR_RDHUP;
 *               the watch is paused
 *   -ESHUTDOWN  the reactor is stopping, and @watch is not one with
 *               WEIR_THROUGH_STOP that is paused
 *
 * Call on the watch's reactor.  Allocates nothing but that descriptor.
 *
 * Re-creates uv_poll_start().
 */
WEIR_API int weir_watch_set(struct weir_watch *watch, uint32_t events);

/*
 * Stop watching and free @watch.
 *
 * The caller may close the descriptor at once.  NULL is allowed.
 *
 * Call on the watch's reactor.
 *
 * Re-creates uv_poll_stop().
 */
WEIR_API void weir_watch_destroy(struct weir_watch *watch);

/* Called with the sum that was added to @event since the last call, never 0. */
typedef void weir_event_fn(struct weir_event *event, uint64_t n, void *arg);

/*
 * Create a counter that calls @fn with @arg after any thread has added to it.
 *
 * Returns 0 with *@ret set, to be freed by weir_event_destroy(), or
 *   -EINVAL     @fn is NULL
 *   -EMFILE     no descriptor left
 *   -ENOMEM     no memory
 *   -ESHUTDOWN  @r is stopping
 *
 * Call on @r's thread.
 *
 * Re-creates uv_async_init().
 */
WEIR_API int weir_event_create(struct weir_event **ret, struct weir_reactor *r,
			       weir_event_fn *fn, void *arg);

/*
 * Add 1 to @event.
 *
 * Any thread, signal handlers included.  Never blocks; one system call.
 *
 * Re-creates uv_async_send().
 */
WEIR_API void weir_event_signal(struct weir_event *event);

/*
 * Get the eventfd of @event, for the kernel, another process or a library that
 * signals by writing to a descriptor.
 *
 * @event owns it.
 *
 * Returns the eventfd.  Any thread.  Never blocks.
 *
 * Re-creates the eventfd(2) of a uv_async_t.
 */
WEIR_API int weir_event_fd(const struct weir_event *event);

/*
 * Free @event, and close its descriptor.  NULL is allowed.
 *
 * Call on the event's reactor, when no other thread uses it any more.
 */
WEIR_API void weir_event_destroy(struct weir_event *event);

/*
 * Called with the signal that arrived, from the loop: info->ssi_signo is its
 * number, .ssi_pid and .ssi_uid its sender, .ssi_code and .ssi_int what
 * sigqueue(3) sent, and so on; see signalfd(2).  @info is valid until the
 * callback returns.
 */
typedef void weir_signal_fn(struct weir_signal *signal,
			    const struct signalfd_siginfo *info, void *arg);

/*
 * Call @fn with @arg, from the loop, when the process receives @signo.
 *
 * The library installs no handler: it blocks the signal for the calling thread
 * and reads it from a signalfd.  Block the signal in the other threads too;
 * threads that are created after this call inherit that.  Signals of one number
 * that arrive together may be reported once.
 *
 * In a simulated world it gets the signals of weir_sim_signal().
 *
 * Returns 0 with *@ret set, to be freed by weir_signal_destroy(), or
 *   -EINVAL     @fn is NULL, or @signo is no signal or cannot be caught
 *   -EBUSY      this signal has a weir_signal in @r already
 *   -EMFILE     no descriptor left
 *   -ENOMEM     no memory
 *   -ESHUTDOWN  @r is stopping
 *
 * Call on @r's thread.
 *
 * Re-creates uv_signal_start() and ev_signal_start().
 */
WEIR_API int weir_signal_create(struct weir_signal **ret,
				struct weir_reactor *r, int signo,
				weir_signal_fn *fn, void *arg);

/*
 * Free @signal and restore the thread's mask for it.
 *
 * NULL is allowed.
 *
 * Call on the signal's reactor.
 */
WEIR_API void weir_signal_destroy(struct weir_signal *signal);

/*
 * Called in every turn.  Returns the amount of work done.  While this is 0 for
 * all pollers and nothing else happens, the loop spins for its usual time and
 * then sleeps, and wakes for the pollers every @period_ns.
 */
typedef int weir_poller_fn(struct weir_poller *poller, void *arg);

/*
 * Call @fn with @arg in every turn of @r, and at least every @period_ns.
 *
 * With a period of 0 the loop does not sleep while the poller exists.
 *
 * Returns 0 with *@ret set, to be freed by weir_poller_destroy(), or
 *   -EINVAL     @fn is NULL
 *   -ENOMEM     no memory
 *   -ESHUTDOWN  @r is stopping
 *
 * Call on @r's thread.
 *
 * Re-creates spdk_poller_register().
 */
WEIR_API int weir_poller_create(struct weir_poller **ret,
				struct weir_reactor *r, uint64_t period_ns,
				weir_poller_fn *fn, void *arg);

/*
 * Free @poller.  NULL is allowed.
 *
 * Call on the poller's reactor.
 */
WEIR_API void weir_poller_destroy(struct weir_poller *poller);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_WATCH_H */
