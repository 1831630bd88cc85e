/* SPDX-License-Identifier: CC0-1.0 */

/*
 * An NBD server in a libev loop: a program that lives on libev, with timers and
 * signals of its own, serves block devices beside what else it does.
 *
 *	27-nbd-in-libev [OPTION OF weir-nbd]...
 *
 * The server is that of weir-nbd, without its main() and its threads: see
 * weir-nbd/server.h.  Here it has one reactor, and the loop drives that.
 * Without arguments it is visited by a client in a thread, and then ends.
 */

#include <ev.h>
#include <signal.h>
#include <stdio.h>

#include <weir/host/libev.h>

#include "nbd-visitor.h"
#include "programs/weir-nbd/server.h"

static struct {
	struct ev_loop *loop;
	ev_timer tick;
	ev_signal sigint, sigterm;
	struct weir_reactor *reactor;
	struct weir_host_libev host;
	struct server *server;
	int stopping, failed;
	unsigned int ticks;
} program;

/* What the program was there for before. */
static void on_tick(struct ev_loop *loop, ev_timer *tick, int revents)
{
	(void)loop, (void)tick, (void)revents;
	program.ticks++;
}

/* All clients have gone; the reactor is not needed any more. */
static void on_stopped(struct server *server, int err, void *arg)
{
	(void)server, (void)arg;
	program.failed |= err != 0;
	weir_reactor_stop(program.reactor);
}

/* The first signal asks, the next one insists. */
static void on_signal(struct ev_loop *loop, ev_signal *signal, int revents)
{
	(void)loop, (void)signal, (void)revents;
	if (program.stopping)
		weir_reactor_stop(program.reactor);
	else
		server_stop(program.server, on_stopped, NULL);
	program.stopping = 1;
}

/* The reactor has stopped: nothing of the server is in flight. */
static void on_end(struct weir_host *host, int err)
{
	(void)host;
	program.failed |= err != 0;
	ev_break(program.loop, EVBREAK_ALL);
}

static void begin_loop(void)
{
	program.loop = ev_default_loop(EVFLAG_AUTO);
	ev_timer_init(&program.tick, on_tick, 0.001, 0.001);
	ev_timer_start(program.loop, &program.tick);
	ev_signal_init(&program.sigint, on_signal, SIGINT);
	ev_signal_start(program.loop, &program.sigint);
	ev_signal_init(&program.sigterm, on_signal, SIGTERM);
	ev_signal_start(program.loop, &program.sigterm);
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
		err = weir_host_libev_attach(&program.host, program.loop,
					     program.reactor, on_end);
	if (err)
		fprintf(stderr, "27-nbd-in-libev: %s\n", weir_why());
	else
		listen_say(program.server);
	return err;
}

static void end(void)
{
	core_end(program.server, 0);
	server_destroy(program.server);
	if (weir_reactor_destroy(program.reactor)) {
		fprintf(stderr, "27-nbd-in-libev: %s\n", weir_why());
		program.failed = 1;
	}
	ev_loop_destroy(program.loop);
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
	ev_run(program.loop, 0);

	end();
	if (alone)
		program.failed |= !visitor_go(program.ticks);
	return program.failed ? EXIT_FAILED : EXIT_OK;
}
