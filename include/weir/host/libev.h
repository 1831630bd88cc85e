/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_HOST_LIBEV_H
#define WEIR_HOST_LIBEV_H

/*
 * A reactor in a libev loop, and a libev loop in a reactor; see <weir/host.h>.
 *
 *	struct weir_host_libev host = { 0 };
 *
 *	weir_reactor_create(&r, NULL);
 *	weir_host_libev_attach(&host, EV_DEFAULT, r, on_end);
 *	ev_run(EV_DEFAULT, 0);
 *
 * Include it where <ev.h> compiles; link with -lev.
 */

#include <ev.h>

#include <weir/host.h>

#if !EV_MULTIPLICITY
#error "weir needs a libev whose functions take a loop (EV_MULTIPLICITY)"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A libev loop that drives a reactor; the caller's memory. */
struct weir_host_libev {
	struct weir_host host;
	struct ev_loop *loop;
	ev_io io;
};

/*
 * Detach @host, so that its loop does not drive the reactor any more.
 *
 * The call has no effect if @host is detached.
 *
 * Call on the reactor's thread, outside its callbacks; before the reactor is
 * destroyed, if it has not stopped.
 */
static inline void weir_host_libev_detach(struct weir_host_libev *host)
{
	ev_io_stop(host->loop, &host->io);
}

static inline void weir__host_libev_ready(struct ev_loop *loop, ev_io *io,
					  int revents)
{
	struct weir_host_libev *host = (struct weir_host_libev *)io->data;
	int n = weir_host_turn(&host->host);

	(void)loop, (void)revents;
	if (n <= 0) {
		weir_host_libev_detach(host);
		weir_host_end(&host->host, n);
	}
}

/*
 * Drive @r from @loop, until @r stops or is detached.
 *
 * It keeps ev_run() running, as an active watcher does.  When @r stops it is
 * detached, and @on_end is called, if it is not NULL.  .host.data is for the
 * caller.  To give the reactor a priority other than 0, stop .io, call
 * ev_set_priority() and start it again.
 *
 * Returns 0, or
 *   -EBUSY      @r is in use, and was created without .hosted
 *   -EMFILE, -ENOMEM  weir_reactor_fd() has failed
 *
 * Call on @r's thread, which is the one that runs @loop.
 */
static inline int weir_host_libev_attach(struct weir_host_libev *host,
					 struct ev_loop *loop,
					 struct weir_reactor *r,
					 weir_host_end_fn *on_end)
{
	int fd = weir_reactor_fd(r);

	if (fd < 0)
		return fd;
	host->host.reactor = r;
	host->host.on_end = on_end;
	host->loop = loop;
	ev_io_init(&host->io, weir__host_libev_ready, fd, EV_READ);
	host->io.data = host;
	ev_io_start(loop, &host->io);
	return 0;
}

/* A libev loop that a reactor drives; the caller's memory. */
struct weir_guest_libev {
	struct weir_guest guest;
	struct ev_loop *loop;
	uint64_t tick_ns;
	ev_fork fork;
	int moved;		/* libev is about to have another descriptor. */
};

static inline int weir__guest_libev_fd(struct ev_loop *loop)
{
	/*
	 * libev has no call for its descriptor.  But one loop can be embedded
	 * in another, and what that one then watches is just it.
	 */
	struct ev_loop *other;
	ev_embed embed;
	int fd;

	if (!(ev_backend(loop) & ev_embeddable_backends()))
		return -EOPNOTSUPP;
	other = ev_loop_new(EVFLAG_NOENV | EVFLAG_NOSIGMASK | EVBACKEND_POLL |
			    EVBACKEND_SELECT);
	if (!other)
		return -ENOMEM;
	ev_embed_init(&embed, 0, loop);
	ev_embed_start(other, &embed);
	fd = embed.io.fd;
	ev_embed_stop(other, &embed);
	ev_loop_destroy(other);
	return fd;
}

static inline void weir__guest_libev_fork(struct ev_loop *loop, ev_fork *w,
					  int revents)
{
	/*
	 * Not only after a fork: libev also makes a new epoll set to get rid of
	 * events for what was closed behind its back.
	 */
	struct weir_guest_libev *guest = (struct weir_guest_libev *)w->data;

	(void)loop, (void)revents;
	weir_watch_destroy(guest->guest.watch);
	guest->guest.watch = NULL;
	guest->moved = 1;
}

static inline int weir__guest_libev_follow(struct weir_guest_libev *guest)
{
	int fd = weir__guest_libev_fd(guest->loop);

	if (fd < 0)
		return fd;
	guest->moved = 0;
	return weir_watch_create(&guest->guest.watch, guest->guest.reactor, fd,
				 WEIR_READABLE, weir__guest_ready,
				 &guest->guest);
}

static inline int weir__guest_libev_run(struct weir_guest *base, uint64_t *ns)
{
	struct weir_guest_libev *guest = weir_container_of(
		base, struct weir_guest_libev, guest);

	ev_run(guest->loop, EVRUN_NOWAIT);
	if (!base->poller)
		return WEIR_GUEST_ENDED;
	*ns = guest->tick_ns;
	return guest->moved ? weir__guest_libev_follow(guest) :
			      WEIR_GUEST_ASLEEP;
}

/*
 * Detach @guest, so that its reactor does not drive the libev loop any more.
 *
 * The call has no effect if @guest is detached.  In a callback of the loop,
 * keep the memory of @guest until that callback has returned.
 *
 * Call on the reactor's thread, callbacks included.
 */
static inline void weir_guest_libev_detach(struct weir_guest_libev *guest)
{
	if (ev_is_active(&guest->fork)) {
		ev_ref(guest->loop);
		ev_fork_stop(guest->loop, &guest->fork);
	}
	weir_guest_detach(&guest->guest);
}

static inline void weir__guest_libev_detach(struct weir_guest *base)
{
	weir_guest_libev_detach(weir_container_of(
		base, struct weir_guest_libev, guest));
}

/*
 * Drive @loop from @r, until detached.
 *
 * Ready descriptors wake @r at once.  libev does not report when its next timer
 * is due, and reports asyncs and signals only while it waits itself.  So @r
 * checks timers, periodics, asyncs, signals and children in each turn, and at
 * least every @tick_ns; pass WEIR_FOREVER if @loop has none.  Idle watchers run
 * once in a turn, and do not cause turns.  ev_break() has no effect.
 *
 * @on_end, if it is not NULL, is called with the errno if @loop cannot be
 * driven any more.  .guest.data is for the caller.
 *
 * Returns 0, or
 *   -EOPNOTSUPP  @loop's backend has no descriptor; epoll has
 *   -EINVAL     @tick_ns is 0
 *   -ENOMEM     no memory
 *   -ESHUTDOWN  @r is stopping
 *
 * Call on @r's thread, outside @loop's callbacks.
 */
static inline int weir_guest_libev_attach(struct weir_guest_libev *guest,
					  struct weir_reactor *r,
					  struct ev_loop *loop,
					  uint64_t tick_ns,
					  weir_guest_end_fn *on_end)
{
	int fd, err;

	if (!tick_ns)
		return -EINVAL;
	fd = weir__guest_libev_fd(loop);
	if (fd < 0)
		return fd;
	guest->loop = loop;
	guest->tick_ns = tick_ns;
	guest->moved = 0;
	guest->guest.on_end = on_end;
	guest->guest.detach = weir__guest_libev_detach;
	err = weir_guest_attach(&guest->guest, r, fd, weir__guest_libev_run);
	if (err)
		return err;
	ev_fork_init(&guest->fork, weir__guest_libev_fork);
	guest->fork.data = guest;
	ev_fork_start(loop, &guest->fork);
	ev_unref(loop); /* It does not keep ev_run() running. */
	return 0;
}

#ifdef __cplusplus
}
#endif

#endif /* WEIR_HOST_LIBEV_H */
