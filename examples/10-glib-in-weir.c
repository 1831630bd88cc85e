/* SPDX-License-Identifier: CC0-1.0 */

/*
 * A GLib main context in a reactor: code that needs GLib's main loop goes on
 * working in a program whose loop is weir's.
 */

#include <weir/host/glib.h>

#include "guested.h"

static gboolean on_timer(gpointer data)
{
	(void)data;
	guested_check(1, "a timeout of GLib's");
	return G_SOURCE_REMOVE;
}

static gboolean on_readable(gint fd, GIOCondition condition, gpointer data)
{
	char byte;

	(void)condition, (void)data;
	guested_check(read(fd, &byte, 1) == 1, "an fd of GLib's");
	return G_SOURCE_REMOVE;
}

static gboolean on_idle(gpointer data)
{
	(void)data;
	guested_check(1, "a source that a thread attached");
	return G_SOURCE_REMOVE;
}

static void set_timer(unsigned int ms)
{
	g_timeout_add(ms, on_timer, NULL);
}

static void watch(int fd)
{
	g_unix_fd_add(fd, G_IO_IN, on_readable, NULL);
}

static void wake(void)
{
	g_idle_add(on_idle, NULL);
}

int main(void)
{
	struct weir_guest_glib guest = { 0 };
	struct weir_reactor *reactor;
	int err;

	guested.set_timer = set_timer;
	guested.watch = watch;
	guested.wake = wake;
	guested.turns_max = 3;
	reactor = guested_create();
	if (!reactor)
		return 1;

	err = weir_guest_glib_attach(&guest, reactor, NULL, NULL);
	if (!err)
		err = weir_reactor_run(reactor);
	if (err)
		fprintf(stderr, "10-glib-in-weir: error %d\n", err);

	weir_guest_glib_detach(&guest);
	return guested_destroy() || err;
}
