/* SPDX-License-Identifier: CC0-1.0 */

/*
 * A reactor in a GLib main loop: a desktop program or a daemon on GLib gains
 * what weir can do, and its loop stays its own.
 */

#include <weir/host/glib.h>

#include "hosted.h"

static GMainLoop *loop;
static int end_err = -1;

/* A callback of GLib's, outside of any turn of the reactor. */
static gboolean on_timer(gpointer data)
{
	(void)data;
	hosted_next();
	return G_SOURCE_REMOVE;
}

static void later(unsigned int ms)
{
	g_timeout_add(ms, on_timer, NULL);
}

/* The reactor has stopped. */
static void on_end(struct weir_host *host, int err)
{
	(void)host;
	end_err = err;
	g_main_loop_quit(loop);
}

int main(void)
{
	struct weir_host_glib host = { 0 };
	struct weir_reactor *reactor;
	int err;

	loop = g_main_loop_new(NULL, FALSE);
	reactor = hosted_create(later);
	if (!reactor)
		return 1;

	err = weir_host_glib_attach(&host, NULL, reactor, on_end);
	if (err)
		return fprintf(stderr, "06-host-glib: %s\n", weir_why()), 1;
	later(5);
	g_main_loop_run(loop);

	g_main_loop_unref(loop);
	return hosted_destroy(end_err);
}
