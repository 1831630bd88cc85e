/* SPDX-License-Identifier: CC0-1.0 */
#ifndef WEIR_NBD_SERVER_H
#define WEIR_NBD_SERVER_H

/*
 * The server without its main(), for programs that have a loop of their own.
 * What drives its reactor is not its business: main.c has a group do it, and
 * examples/27-nbd-in-libev.c a loop that was there before.
 *
 *	server_create()		with the options of weir-nbd(1)
 *	server_open()		exports are open, clients can connect,
 *	core_begin()		and are served
 *	...
 *	server_stop()		no new ones are; when requests are answered and
 *				files are synced, its callback comes
 *	core_end()
 *	server_destroy()
 *
 * Call all of it on the reactor's thread.  A program with more reactors than
 * one sets .n_cores (weir-nbd.h), and calls core_begin() and core_end() for
 * each of them on its thread, for core 0 first.
 */

#include <stdint.h>

#include <weir/reactor.h>

struct server;

/* How a server may end, as exit status; weir-nbd(1) has them, too. */
enum { EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_SETUP };

/*
 * Make a server of the arguments that weir-nbd takes; --cores and --stats are
 * main()'s.  The process ignores SIGPIPE from now on.  Returns -1 to go on,
 * or the status to exit with: it has said why.
 */
int server_create(struct server **ret, int argc, char **argv);
void server_destroy(struct server *server);

/* Open exports and sockets.  Returns 0, or an errno: it has said what is
 * wrong. */
int server_open(struct server *server);

/* Say on stdout where it listens, but for --quiet. */
void listen_say(const struct server *server);

/* Serve by @reactor.  Returns 0, or an errno; weir_why() may say more. */
int core_begin(struct server *server, uint32_t core,
	       struct weir_reactor *reactor);

/* After the stop: in its callback or later, or when @reactor is STOPPED, which
 * cuts off all clients. */
void core_end(struct server *server, uint32_t core);

/* @err is not 0 if some file could not be synced. */
typedef void server_stopped_fn(struct server *server, int err, void *arg);

/* Come to an end, within the seconds of --grace.  To be called once; @fn comes
 * later, on the reactor of core 0. */
void server_stop(struct server *server, server_stopped_fn *fn, void *arg);

#endif /* WEIR_NBD_SERVER_H */
