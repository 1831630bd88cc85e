/* SPDX-License-Identifier: CC0-1.0 */

/*
 * A libev loop in a reactor: code that needs libev goes on working in a program
 * whose loop is weir's.
 */

#include <weir/host/libev.h>

#include "guested.h"

static struct ev_loop *loop;
static ev_timer timer;
static ev_io io;
static ev_async async;

static void on_timer(struct ev_loop *l, ev_timer *t, int revents)
{
	(void)l, (void)t, (void)revents;
	guested_check(1, "a timer of libev's");
}

static void on_readable(struct ev_loop *l, ev_io *w, int revents)
{
	char byte;

	(void)revents;
	ev_io_stop(l, w);
	guested_check(read(w->fd, &byte, 1) == 1, "an fd of libev's");
}

static void on_async(struct ev_loop *l, ev_async *a, int revents)
{
	(void)l, (void)a, (void)revents;
	guested_check(1, "libev woken by a thread");
}

static void set_timer(unsigned int ms)
{
	/* libev's idea of the time is that of its last round. */
	ev_now_update(loop);
	ev_timer_set(&timer, ms / 1e3, 0.);
	ev_timer_start(loop, &timer);
}

static void watch(int fd)
{
	ev_io_set(&io, fd, EV_READ);
	ev_io_start(loop, &io);
}

static void wake(void)
{
	ev_async_send(loop, &async);
}

int main(void)
{
	struct weir_guest_libev guest = { 0 };
	struct weir_reactor *reactor;
	int err;

	loop = ev_loop_new(EVBACKEND_EPOLL);
	if (!loop)
		return 1;
	ev_timer_init(&timer, on_timer, 0., 0.);
	ev_init(&io, on_readable);
	ev_async_init(&async, on_async);
	ev_async_start(loop, &async);

	guested.set_timer = set_timer;
	guested.watch = watch;
	guested.wake = wake;
	guested.turns_max = 20; /* Of which the ticks are ten. */
	reactor = guested_create();
	if (!reactor)
		return 1;

	/* libev does not tell of timers, nor of asyncs: look every 20 ms. */
	err = weir_guest_libev_attach(&guest, reactor, loop, 20 * WEIR_MSEC,
				      NULL);
	if (!err)
		err = weir_reactor_run(reactor);
	if (err)
		fprintf(stderr, "08-libev-in-weir: error %d\n", err);

	weir_guest_libev_detach(&guest);
	ev_loop_destroy(loop);
	return guested_destroy() || err;
}
