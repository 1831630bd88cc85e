/* SPDX-License-Identifier: CC0-1.0 */

/*
 * An NBD server in a GLib main loop: a program that lives on GLib, with timers
 * and signals of its own, serves block devices beside what else it does.
 *
 *	28-nbd-in-glib [OPTION OF weir-nbd]...
 *
 * The server is that of weir-nbd, without its main() and its threads: see
 * weir-nbd/server.h.  Here it has one reactor, and the main loop drives that.
 * Without arguments it is visited by a client in a thread, and then ends.
 */

#include <signal.h>
#include <stdio.h>

#include <weir/host/glib.h>

#include "nbd-visitor.h"
#include "programs/weir-nbd/server.h"

static struct {
	GMainLoop *loop;
	guint tick, sigint, sigterm;
	struct weir_reactor *reactor;
	struct weir_host_glib host;
	struct server *server;
	int stopping, failed;
	unsigned int ticks;
} program;

/* What the program was there for before. */
static gboolean on_tick(gpointer data)
{
	(void)data;
	program.ticks++;
	return G_SOURCE_CONTINUE;
}

/* All clients have gone; the reactor is not needed any more. */
static void on_stopped(struct server *server, int err, void *arg)
{
	(void)server, (void)arg;
	program.failed |= err != 0;
	weir_reactor_stop(program.reactor);
}

/* The first signal asks, the next one insists. */
static gboolean on_signal(gpointer data)
{
	(void)data;
	if (program.stopping)
		weir_reactor_stop(program.reactor);
	else
		server_stop(program.server, on_stopped, NULL);
	program.stopping = 1;
	return G_SOURCE_CONTINUE;
}

/* The reactor has stopped: nothing of the server is in flight. */
static void on_end(struct weir_host *host, int err)
{
	(void)host;
	program.failed |= err != 0;
	g_main_loop_quit(program.loop);
}

static void begin_loop(void)
{
	program.loop = g_main_loop_new(NULL, FALSE);
	program.tick = g_timeout_add(1, on_tick, NULL);
	program.sigint = g_unix_signal_add(SIGINT, on_signal, NULL);
	program.sigterm = g_unix_signal_add(SIGTERM, on_signal, NULL);
}

/* A reactor, the server on it, and the loop below both. */
static int begin_server(void)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts), .hosted = 1 };
	int err = server_open(program.server);

	if (err)
		return err;
	err = weir_reactor_create(&program.reactor, &opts);
	if (!err)
		err = core_begin(program.server, 0, program.reactor);
	if (!err)
		err = weir_host_glib_attach(&program.host, NULL,
					    program.reactor, on_end);
	if (err)
		fprintf(stderr, "28-nbd-in-glib: %s\n", weir_why());
	else
		listen_say(program.server);
	return err;
}

static void end(void)
{
	core_end(program.server, 0);
	server_destroy(program.server);
	if (weir_reactor_destroy(program.reactor)) {
		fprintf(stderr, "28-nbd-in-glib: %s\n", weir_why());
		program.failed = 1;
	}
	g_source_remove(program.tick);
	g_source_remove(program.sigint);
	g_source_remove(program.sigterm);
	g_main_loop_unref(program.loop);
}

int main(int argc, char **argv)
{
	char *own[4] = { argv[0] };
	int alone = argc < 2, status;

	if (alone) {
		argc = visitor_args(own);
		argv = own;
	}
	status = server_create(&program.server, argc, argv);
	if (status >= 0)
		return status;
	begin_loop();
	if (begin_server() || (alone && visitor_come()))
		return EXIT_SETUP;
	g_main_loop_run(program.loop);

	end();
	if (alone)
		program.failed |= !visitor_go(program.ticks);
	return program.failed ? EXIT_FAILED : EXIT_OK;
}
