/* SPDX-License-Identifier: CC0-1.0 */

/*
 * A libuv loop in a reactor: code that needs libuv goes on working in a program
 * whose loop is weir's.
 */

#include <weir/host/libuv.h>

#include "guested.h"

static uv_loop_t loop;
static uv_timer_t timer;
static uv_poll_t poller;
static uv_async_t async;

static void on_timer(uv_timer_t *t)
{
	(void)t;
	guested_check(1, "a timer of libuv's");
}

static void on_readable(uv_poll_t *handle, int status, int events)
{
	char byte;
	uv_os_fd_t fd;

	(void)events;
	uv_poll_stop(handle);
	guested_check(!status &&
		      !uv_fileno((uv_handle_t *)handle, &fd) &&
		      read(fd, &byte, 1) == 1, "an fd of libuv's");
}

static void on_async(uv_async_t *a)
{
	(void)a;
	guested_check(1, "libuv woken by a thread");
}

static void set_timer(unsigned int ms)
{
	/* libuv's idea of the time is that of its last round. */
	uv_update_time(&loop);
	uv_timer_start(&timer, on_timer, ms, 0);
}

static void watch(int fd)
{
	(void)fd; /* As in main(). */
	uv_poll_start(&poller, UV_READABLE, on_readable);
}

static void wake(void)
{
	uv_async_send(&async);
}

/* libuv lets go of a handle in the loop's next round; weir makes none now. */
static int close_all(void)
{
	uv_close((uv_handle_t *)&timer, NULL);
	uv_close((uv_handle_t *)&poller, NULL);
	uv_close((uv_handle_t *)&async, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	return uv_loop_close(&loop);
}

int main(void)
{
	struct weir_guest_libuv guest = { 0 };
	struct weir_reactor *reactor;
	int err;

	if (uv_loop_init(&loop) || uv_timer_init(&loop, &timer) ||
	    uv_async_init(&loop, &async, on_async))
		return 1;

	guested.set_timer = set_timer;
	guested.watch = watch;
	guested.wake = wake;
	guested.turns_max = 3;
	reactor = guested_create();
	if (!reactor || uv_poll_init(&loop, &poller, guested.pipe[0]))
		return 1;

	err = weir_guest_libuv_attach(&guest, reactor, &loop);
	if (!err)
		err = weir_reactor_run(reactor);
	if (err)
		fprintf(stderr, "09-libuv-in-weir: error %d\n", err);

	weir_guest_libuv_detach(&guest);
	err |= close_all();
	return guested_destroy() || err;
}
