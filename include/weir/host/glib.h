/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_HOST_GLIB_H
#define WEIR_HOST_GLIB_H

/*
 * A reactor in a GLib main context, and a main context in a reactor; see
 * <weir/host.h>.
 *
 *	struct weir_host_glib host = { 0 };
 *
 *	weir_reactor_create(&r, NULL);
 *	weir_host_glib_attach(&host, NULL, r, on_end);
 *	g_main_loop_run(loop);
 *
 * Compile and link with pkg-config's glib-2.0.
 */

#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <glib-unix.h>
#include <glib.h>

#include <weir/host.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A main context that drives a reactor; the caller's memory. */
struct weir_host_glib {
	struct weir_host host;
	GSource *source;	/* NULL: detached. */
};

/*
 * Detach @host, so that its main context does not drive the reactor any more.
 *
 * The call has no effect if @host is detached.
 *
 * Call on the reactor's thread, outside its callbacks; before the reactor is
 * destroyed, if it has not stopped.
 */
static inline void weir_host_glib_detach(struct weir_host_glib *host)
{
	if (!host->source)
		return;
	g_source_destroy(host->source);
	g_source_unref(host->source);
	host->source = NULL;
}

static inline gboolean weir__host_glib_ready(gint fd, GIOCondition condition,
					     gpointer data)
{
	struct weir_host_glib *host = (struct weir_host_glib *)data;
	int n = weir_host_turn(&host->host);

	(void)fd, (void)condition;
	if (n > 0)
		return G_SOURCE_CONTINUE;
	weir_host_glib_detach(host);
	weir_host_end(&host->host, n);
	return G_SOURCE_REMOVE;
}

/*
 * Drive @r from @context, until @r stops or is detached.
 *
 * NULL is the default context.  When @r stops, its source is removed, and
 * @on_end is called, if it is not NULL; it may quit the main loop.  .host.data
 * is for the caller.  The priority is the default; g_source_set_priority() of
 * .source changes it.
 *
 * Returns 0, or
 *   -EBUSY      @r is in use, and was created without .hosted
 *   -EMFILE, -ENOMEM  weir_reactor_fd() has failed
 *
 * Call on @r's thread, which is the one that iterates @context.
 */
static inline int weir_host_glib_attach(struct weir_host_glib *host,
					GMainContext *context,
					struct weir_reactor *r,
					weir_host_end_fn *on_end)
{
	int fd = weir_reactor_fd(r);

	if (fd < 0)
		return fd;
	host->host.reactor = r;
	host->host.on_end = on_end;
	host->source = g_unix_fd_source_new(fd, G_IO_IN);
	g_source_set_callback(host->source,
			      G_SOURCE_FUNC(weir__host_glib_ready), host, NULL);
	g_source_attach(host->source, context);
	return 0;
}

/* The maximum number of descriptors of a main context of a guest. */
#define WEIR_GUEST_GLIB_FDS 64

/* A main context that a reactor drives; the caller's memory. */
struct weir_guest_glib {
	struct weir_guest guest;
	GMainContext *context;
	int epoll;		/* Holds .fds. */
	gint priority;		/* Of what is due. */
	gint n;			/* Descriptors in .fds. */
	gint n_old;		/* And in .old. */
	GPollFD fds[WEIR_GUEST_GLIB_FDS];
	GPollFD old[WEIR_GUEST_GLIB_FDS]; /* Those of the turn before. */
};

static inline int weir__guest_glib_add(int epoll, const GPollFD *p)
{
	struct epoll_event ev;
	int r;

	/* The bits of GIOCondition, poll(2) and epoll(7) are the same. */
	memset(&ev, 0, sizeof(ev));
	ev.events = p->events;
	ev.data.fd = p->fd;
	r = epoll_ctl(epoll, EPOLL_CTL_ADD, p->fd, &ev);
	if (r && errno == EEXIST)
		r = epoll_ctl(epoll, EPOLL_CTL_MOD, p->fd, &ev);
	return r ? -errno : 0;
}

static inline int weir__guest_glib_sync(struct weir_guest_glib *guest,
					uint64_t *ns)
{
	/*
	 * Add all again, also what is the same number as before: it may be
	 * another file now, which epoll then does not know.
	 */
	gint i, k;
	int err;

	for (i = 0; i < guest->n_old; i++) {
		for (k = 0; k < guest->n; k++)
			if (guest->fds[k].fd == guest->old[i].fd)
				break;
		if (k == guest->n)
			epoll_ctl(guest->epoll, EPOLL_CTL_DEL,
				  guest->old[i].fd, NULL);
	}
	for (i = 0; i < guest->n; i++) {
		err = weir__guest_glib_add(guest->epoll, &guest->fds[i]);
		if (err == -EPERM)
			*ns = 0; /* A regular file: always ready. */
		else if (err)
			return err;
		guest->old[i] = guest->fds[i];
	}
	guest->n_old = guest->n;
	return WEIR_GUEST_ASLEEP;
}

static inline int weir__guest_glib_run(struct weir_guest *base, uint64_t *ns)
{
	struct weir_guest_glib *guest = weir_container_of(
		base, struct weir_guest_glib, guest);
	GMainContext *context = guest->context;
	gint timeout;

	/* First the end of the round that was begun the turn before. */
	if (guest->n) {
		g_poll(guest->fds, (guint)guest->n, 0);
		if (g_main_context_check(context, guest->priority, guest->fds,
					 guest->n))
			g_main_context_dispatch(context);
		if (!base->poller)
			return WEIR_GUEST_ENDED;
	}
	g_main_context_prepare(context, &guest->priority);
	guest->n = g_main_context_query(context, guest->priority, &timeout,
					guest->fds, WEIR_GUEST_GLIB_FDS);
	if (guest->n > WEIR_GUEST_GLIB_FDS)
		return -EMSGSIZE;
	if (timeout >= 0)
		*ns = (uint64_t)timeout * WEIR_MSEC;
	return weir__guest_glib_sync(guest, ns);
}

/*
 * Detach @guest, so that its reactor does not drive the main context any more.
 *
 * The call has no effect if @guest is detached.  In a callback of the context,
 * keep the memory of @guest until that callback has returned.
 *
 * Call on the reactor's thread, callbacks included.
 */
static inline void weir_guest_glib_detach(struct weir_guest_glib *guest)
{
	if (!guest->guest.poller)
		return;
	weir_guest_detach(&guest->guest);
	close(guest->epoll);
	g_main_context_release(guest->context);
	g_main_context_unref(guest->context);
}

static inline void weir__guest_glib_detach(struct weir_guest *base)
{
	weir_guest_glib_detach(weir_container_of(
		base, struct weir_guest_glib, guest));
}

/*
 * Drive @context from @r, until detached.
 *
 * NULL is the default context.  The calling thread owns the context meanwhile.
 * All kinds of sources work, also those that other threads attach or wake.
 * Close a descriptor only after its source was removed.  The context may have
 * at most WEIR_GUEST_GLIB_FDS descriptors; each costs a system call in each
 * turn.
 *
 * @on_end, if it is not NULL, is called if the context cannot be driven any
 * more: -EMSGSIZE (too many descriptors), -ENOSPC or -ENOMEM (the kernel
 * refuses further watches), -EBADF (a source has a closed descriptor).
 * .guest.data is for the caller.
 *
 * Returns 0, or
 *   -EBUSY      another thread owns @context
 *   -EMFILE     no descriptor left
 *   -ENOMEM     no memory
 *   -ESHUTDOWN  @r is stopping
 *
 * Call on @r's thread, outside @context's callbacks.
 */
static inline int weir_guest_glib_attach(struct weir_guest_glib *guest,
					 struct weir_reactor *r,
					 GMainContext *context,
					 weir_guest_end_fn *on_end)
{
	int err;

	if (!context)
		context = g_main_context_default();
	if (!g_main_context_acquire(context))
		return -EBUSY;
	guest->context = g_main_context_ref(context);
	guest->n = 0;
	guest->n_old = 0;
	guest->guest.on_end = on_end;
	guest->guest.detach = weir__guest_glib_detach;
	guest->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (guest->epoll < 0)
		err = -errno;
	else
		err = weir_guest_attach(&guest->guest, r, guest->epoll,
					weir__guest_glib_run);
	if (!err)
		return 0;
	if (guest->epoll >= 0)
		close(guest->epoll);
	g_main_context_release(context);
	g_main_context_unref(context);
	return err;
}

#ifdef __cplusplus
}
#endif

#endif /* WEIR_HOST_GLIB_H */
