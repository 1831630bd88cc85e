/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_HOST_LIBUV_H
#define WEIR_HOST_LIBUV_H

/*
 * A reactor in a libuv loop, and a libuv loop in a reactor; see <weir/host.h>.
 *
 *	struct weir_host_libuv host = { 0 };
 *
 *	weir_reactor_create(&r, NULL);
 *	weir_host_libuv_attach(&host, uv_default_loop(), r, on_end);
 *	uv_run(uv_default_loop(), UV_RUN_DEFAULT);
 *
 * Include it where <uv.h> compiles (_GNU_SOURCE); link with pkg-config's libuv.
 */

#include <uv.h>

#include <weir/host.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A libuv loop that drives a reactor; the caller's memory. */
struct weir_host_libuv {
	struct weir_host host;
	uv_poll_t poll;
	int err;		/* For .on_end. */
};

static inline void weir__host_libuv_closed(uv_handle_t *handle)
{
	struct weir_host_libuv *host = (struct weir_host_libuv *)handle->data;

	weir_host_end(&host->host, host->err);
}

static inline void weir__host_libuv_close(struct weir_host_libuv *host,
					  int err)
{
	uv_handle_t *handle = (uv_handle_t *)&host->poll;

	if (uv_is_closing(handle))
		return;
	host->err = err;
	uv_close(handle, weir__host_libuv_closed);
}

static inline void weir__host_libuv_ready(uv_poll_t *poll, int status,
					  int events)
{
	struct weir_host_libuv *host = (struct weir_host_libuv *)poll->data;
	int n = status < 0 ? status : weir_host_turn(&host->host);

	(void)events;
	if (n <= 0)
		weir__host_libuv_close(host, n);
}

/*
 * Detach @host, so that its loop does not drive the reactor any more.
 *
 * The reactor makes no further turn, and may be destroyed at once.  But libuv
 * closes a handle only in the loop's next iteration.  The memory of @host is in
 * use until .on_end is called there, with 0.  Detaching again before that has
 * no effect.
 *
 * Call on the reactor's thread, outside its callbacks; before the reactor is
 * destroyed, if it has not stopped.
 */
static inline void weir_host_libuv_detach(struct weir_host_libuv *host)
{
	weir__host_libuv_close(host, 0);
}

/*
 * Drive @r from @loop, until @r stops or is detached.
 *
 * It keeps uv_run() running, as an active handle does (unless uv_unref() is
 * called on .poll).  When @r has stopped, or after a detach, @on_end is called
 * once, if it is not NULL; the memory of @host is in use until then.
 * .host.data is for the caller.
 *
 * Returns 0, or
 *   -EBUSY      @r is in use, and was created without .hosted
 *   -EMFILE, -ENOMEM  weir_reactor_fd() has failed
 *   another errno of uv_poll_start(); then run the loop once before you reuse
 *   the memory of @host
 *
 * Call on @r's thread, which is the one that runs @loop.
 */
static inline int weir_host_libuv_attach(struct weir_host_libuv *host,
					 uv_loop_t *loop,
					 struct weir_reactor *r,
					 weir_host_end_fn *on_end)
{
	int fd = weir_reactor_fd(r);
	int err;

	if (fd < 0)
		return fd;
	host->host.reactor = r;
	host->host.on_end = on_end;
	err = uv_poll_init(loop, &host->poll, fd);
	if (err)
		return err;
	host->poll.data = host;
	err = uv_poll_start(&host->poll, UV_READABLE, weir__host_libuv_ready);
	if (err)
		uv_close((uv_handle_t *)&host->poll, NULL);
	return err;
}

/* A libuv loop that a reactor drives; the caller's memory. */
struct weir_guest_libuv {
	struct weir_guest guest;
	uv_loop_t *loop;
};

static inline int weir__guest_libuv_run(struct weir_guest *base, uint64_t *ns)
{
	struct weir_guest_libuv *guest = weir_container_of(
		base, struct weir_guest_libuv, guest);
	int ms;

	uv_run(guest->loop, UV_RUN_NOWAIT);
	if (!base->poller)
		return WEIR_GUEST_ENDED;
	/* libuv does not look at descriptors of handles that do not count. */
	if (!uv_loop_alive(guest->loop))
		return WEIR_GUEST_IDLE;
	ms = uv_backend_timeout(guest->loop);
	if (ms >= 0)
		*ns = (uint64_t)ms * WEIR_MSEC;
	return WEIR_GUEST_ASLEEP;
}

/*
 * Detach @guest, so that its reactor does not drive the libuv loop any more.
 *
 * The call has no effect if @guest is detached.  In a callback of the loop,
 * keep the memory of @guest until that callback has returned.
 *
 * Call on the reactor's thread, callbacks included.
 */
static inline void weir_guest_libuv_detach(struct weir_guest_libuv *guest)
{
	weir_guest_detach(&guest->guest);
}

/*
 * Drive @loop from @r, until detached.
 *
 * All handles, timers, requests and asyncs of other threads work.  A loop
 * without active handles and requests does not run until there is one again;
 * uv_stop() only ends the present iteration.  .guest.data is for the caller.
 *
 * Returns 0, or
 *   -EBADF      @loop has no descriptor
 *   -ENOMEM     no memory
 *   -ESHUTDOWN  @r is stopping
 *
 * Call on @r's thread, outside @loop's callbacks.
 */
static inline int weir_guest_libuv_attach(struct weir_guest_libuv *guest,
					  struct weir_reactor *r,
					  uv_loop_t *loop)
{
	guest->loop = loop;
	guest->guest.on_end = NULL;
	guest->guest.detach = NULL;
	return weir_guest_attach(&guest->guest, r, uv_backend_fd(loop),
				 weir__guest_libuv_run);
}

#ifdef __cplusplus
}
#endif

#endif /* WEIR_HOST_LIBUV_H */
