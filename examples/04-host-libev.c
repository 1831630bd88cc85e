/* SPDX-License-Identifier: CC0-1.0 */

/*
 * A reactor in a libev loop: an application that lives on libev gains what weir
 * can do, and its loop stays its own.
 */

#include <weir/host/libev.h>

#include "hosted.h"

static struct ev_loop *loop;
static ev_timer timer;
static int end_err = -1;

/* A callback of libev's, outside of any turn of the reactor. */
static void on_timer(struct ev_loop *l, ev_timer *t, int revents)
{
	(void)l, (void)t, (void)revents;
	hosted_next();
}

static void later(unsigned int ms)
{
	ev_timer_set(&timer, ms / 1e3, 0.);
	ev_timer_start(loop, &timer);
}

/* The reactor has stopped.  No watcher is active any more: ev_run() returns. */
static void on_end(struct weir_host *host, int err)
{
	(void)host;
	end_err = err;
}

int main(void)
{
	struct weir_host_libev host = { 0 };
	struct weir_reactor *reactor;
	int err;

	loop = ev_loop_new(EVFLAG_AUTO);
	reactor = hosted_create(later);
	if (!loop || !reactor)
		return 1;
	ev_timer_init(&timer, on_timer, 0., 0.);

	err = weir_host_libev_attach(&host, loop, reactor, on_end);
	if (err)
		return fprintf(stderr, "04-host-libev: %s\n", weir_why()), 1;
	later(5);
	ev_run(loop, 0);

	ev_loop_destroy(loop);
	return hosted_destroy(end_err);
}
