/* SPDX-License-Identifier: CC0-1.0 */

/*
 * A reactor in a libuv loop: an application that lives on libuv gains what weir
 * can do, and its loop stays its own.
 */

#include <weir/host/libuv.h>

#include "hosted.h"

static uv_timer_t timer;
static int end_err = -1;

/* A callback of libuv's, outside of any turn of the reactor. */
static void on_timer(uv_timer_t *t)
{
	(void)t;
	hosted_next();
}

static void later(unsigned int ms)
{
	uv_timer_start(&timer, on_timer, ms, 0);
}

/* The reactor has stopped.  With the timer gone too, uv_run() returns. */
static void on_end(struct weir_host *host, int err)
{
	(void)host;
	end_err = err;
	uv_close((uv_handle_t *)&timer, NULL);
}

int main(void)
{
	struct weir_host_libuv host = { 0 };
	struct weir_reactor *reactor;
	uv_loop_t loop;
	int err;

	reactor = hosted_create(later);
	if (!reactor || uv_loop_init(&loop) || uv_timer_init(&loop, &timer))
		return 1;

	err = weir_host_libuv_attach(&host, &loop, reactor, on_end);
	if (err)
		return fprintf(stderr, "05-host-libuv: error %d\n", err), 1;
	later(5);
	uv_run(&loop, UV_RUN_DEFAULT);

	err = uv_loop_close(&loop);
	return hosted_destroy(end_err) || err;
}
