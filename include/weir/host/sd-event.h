/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_HOST_SD_EVENT_H
#define WEIR_HOST_SD_EVENT_H

/*
 * A reactor in a systemd event loop, and such a loop in a reactor; see
 * <weir/host.h>.
 *
 *	struct weir_host_sd_event host = { 0 };
 *
 *	weir_reactor_create(&r, NULL);
 *	weir_host_sd_event_attach(&host, event, r, on_end);
 *	sd_event_loop(event);
 *
 * Include it where <systemd/sd-event.h> compiles (_GNU_SOURCE); link with
 * pkg-config's libsystemd.
 */

#include <systemd/sd-event.h>

#include <weir/host.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A systemd event loop that drives a reactor; the caller's memory. */
struct weir_host_sd_event {
	struct weir_host host;
	sd_event_source *source; /* NULL: detached. */
};

/*
 * Detach @host, so that its loop does not drive the reactor any more.
 *
 * The call has no effect if @host is detached.
 *
 * Call on the reactor's thread, outside its callbacks; before the reactor is
 * destroyed, if it has not stopped.
 */
static inline void weir_host_sd_event_detach(struct weir_host_sd_event *host)
{
	host->source = sd_event_source_disable_unref(host->source);
}

static inline int weir__host_sd_event_ready(sd_event_source *source, int fd,
					    uint32_t revents, void *data)
{
	struct weir_host_sd_event *host = (struct weir_host_sd_event *)data;
	int n = weir_host_turn(&host->host);

	(void)source, (void)fd, (void)revents;
	if (n <= 0) {
		weir_host_sd_event_detach(host);
		weir_host_end(&host->host, n);
	}
	return 0;
}

/*
 * Drive @r from @event, until @r stops or is detached.
 *
 * When @r stops, its source is removed, and @on_end is called, if it is not
 * NULL; it may call sd_event_exit().  .host.data is for the caller.  The
 * priority is the default; sd_event_source_set_priority() of .source changes
 * it.
 *
 * Returns 0, or
 *   -EBUSY      @r is in use, and was created without .hosted
 *   -EMFILE, -ENOMEM  weir_reactor_fd() has failed
 *   another errno of sd_event_add_io(): -ECHILD after a fork, -ESTALE if @event
 *   has ended
 *
 * Call on @r's thread, which is the one that runs @event.
 */
static inline int weir_host_sd_event_attach(struct weir_host_sd_event *host,
					    sd_event *event,
					    struct weir_reactor *r,
					    weir_host_end_fn *on_end)
{
	int fd = weir_reactor_fd(r);
	int err;

	if (fd < 0)
		return fd;
	host->host.reactor = r;
	host->host.on_end = on_end;
	host->source = NULL;
	err = sd_event_add_io(event, &host->source, fd, EPOLLIN,
			      weir__host_sd_event_ready, host);
	return err < 0 ? err : 0;
}

/* The maximum number of callbacks of a systemd event loop in a turn. */
#define WEIR_GUEST_SD_EVENT_BATCH 32

/* A systemd event loop that a reactor drives; the caller's memory. */
struct weir_guest_sd_event {
	struct weir_guest guest;
	sd_event *event;
};

static inline int weir__guest_sd_event_round(sd_event *event)
{
	/*
	 * Take in, call back, prepare to be waited for: 1 if more is due, 0 if
	 * its descriptor will tell, else a negative errno.
	 */
	int r = sd_event_get_state(event);

	if (r == SD_EVENT_ARMED)
		r = sd_event_wait(event, 0);
	else
		r = r == SD_EVENT_PENDING;
	if (r > 0) {
		r = sd_event_dispatch(event);
		if (r == 0)
			return -ESTALE; /* That was the last. */
	}
	return r < 0 ? r : sd_event_prepare(event);
}

static inline int weir__guest_sd_event_run(struct weir_guest *base,
					   uint64_t *ns)
{
	struct weir_guest_sd_event *guest = weir_container_of(
		base, struct weir_guest_sd_event, guest);
	sd_event *event = sd_event_ref(guest->event);
	int i, r = 1;

	for (i = 0; i < WEIR_GUEST_SD_EVENT_BATCH && r > 0; i++) {
		r = weir__guest_sd_event_round(event);
		if (!base->poller)
			break;
	}
	sd_event_unref(event);
	if (r == -ESTALE)
		return WEIR_GUEST_ENDED;
	if (r > 0)
		*ns = 0;
	return r < 0 ? r : WEIR_GUEST_ASLEEP;
}

/*
 * Detach @guest, so that its reactor does not drive the event loop any more.
 *
 * The call has no effect if @guest is detached.  In a callback of the loop,
 * keep the memory of @guest until that callback has returned.
 *
 * Call on the reactor's thread, callbacks included.
 */
static inline void weir_guest_sd_event_detach(struct weir_guest_sd_event *guest)
{
	weir_guest_detach(&guest->guest);
	guest->event = sd_event_unref(guest->event);
}

static inline void weir__guest_sd_event_detach(struct weir_guest *base)
{
	weir_guest_sd_event_detach(weir_container_of(
		base, struct weir_guest_sd_event, guest));
}

/*
 * Drive @event from @r, until it ends by sd_event_exit() or is detached.
 *
 * All kinds of sources work, in their order of priority.  When @event ends it
 * is detached, and @on_end is called, if it is not NULL;
 * sd_event_get_exit_code() has the result.  .guest.data is for the caller.  The
 * guest holds a reference to @event.
 *
 * Returns 0, or
 *   -EBADF      @event has no descriptor, or was created before a fork
 *   -ENOMEM     no memory
 *   -ESHUTDOWN  @r is stopping
 *
 * Call on @r's thread, outside @event's callbacks.
 */
static inline int weir_guest_sd_event_attach(struct weir_guest_sd_event *guest,
					     struct weir_reactor *r,
					     sd_event *event,
					     weir_guest_end_fn *on_end)
{
	int fd = sd_event_get_fd(event);
	int err;

	if (fd < 0)
		return -EBADF;
	guest->guest.on_end = on_end;
	guest->guest.detach = weir__guest_sd_event_detach;
	err = weir_guest_attach(&guest->guest, r, fd, weir__guest_sd_event_run);
	if (!err)
		guest->event = sd_event_ref(event);
	return err;
}

#ifdef __cplusplus
}
#endif

#endif /* WEIR_HOST_SD_EVENT_H */
