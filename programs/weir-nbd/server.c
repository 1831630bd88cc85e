/* SPDX-License-Identifier: CC0-1.0 */
/* The server, with reactors of its own or of a host: create, stop in order,
 * destroy. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <weir/file.h>

#include "weir-nbd.h"

int server_create(struct server **ret, int argc, char **argv)
{
	struct server *server = calloc(1, sizeof(*server));
	int status;

	if (!server) {
		say("start", -ENOMEM);
		return EXIT_SETUP;
	}
	/* What splice(2) sends when a client has gone. */
	signal(SIGPIPE, SIG_IGN);
	server->n_cores = 1;
	status = options_parse(server, argc, argv);
	if (status < 0)
		*ret = server;
	else
		free(server);
	return status;
}

void server_destroy(struct server *server)
{
	listen_close(server);
	tls_close(server);
	for (uint32_t i = 0; i < server->n_exports; i++)
		block_close(&server->exports[i]);
	free(server);
}

static int open_exports(struct server *server)
{
	for (uint32_t i = 0; i < server->n_exports; i++) {
		struct block *x = &server->exports[i];
		int err = block_open(x);

		if (err) {
			fprintf(stderr, "weir-nbd: %s: %s\n", block_title(x),
				block_why(x, err));
			return err;
		}
	}
	return 0;
}

/* Sockets come last: a client that can connect is served. */
int server_open(struct server *server)
{
	int err = open_exports(server);

	if (!err)
		err = tls_open(server);
	return err ? err : listen_open(server);
}

static void tell_cores(struct server *server);
static void sync_exports(struct server *server);

static void on_later(struct weir_op *op, int64_t res)
{
	struct server *server = weir_container_of(op, struct server, stop_op);

	if (!res)
		tell_cores(server);
}

/* A core whose mailbox is full is told a little later. */
static void tell_cores(struct server *server)
{
	struct weir_reactor *here = server->cores[0].reactor;

	while (server->n_told < server->n_cores) {
		struct core *core = &server->cores[server->n_told];

		if (weir_post(core->reactor, core_stop, core)) {
			weir_op_init(&server->stop_op, on_later);
			weir_sleep_until(here, &server->stop_op,
					 weir_reactor_now(here) + WEIR_MSEC);
			return;
		}
		server->n_told++;
	}
}

void server_stop(struct server *server, server_stopped_fn *fn, void *arg)
{
	server->stopped = fn;
	server->stopped_arg = arg;
	listen_end(server);
	listen_close(server);
	tell_cores(server);
}

static void synced(struct server *server, int err)
{
	if (err && err != -ECANCELED) {
		say(block_title(&server->exports[server->n_synced]), err);
		server->stop_err = err;
	}
	server->n_synced++;
}

static void on_synced(struct weir_op *op, int64_t res)
{
	struct server *server = weir_container_of(op, struct server, stop_op);
	const struct block *x = &server->exports[server->n_synced];

	synced(server, res < 0 ? (int)res : x->lost);
	sync_exports(server);
}

/* What clients have not flushed is worth keeping, too. */
static void sync_exports(struct server *server)
{
	while (server->n_synced < server->n_exports) {
		const struct block *x = &server->exports[server->n_synced];

		int err = -EOPNOTSUPP;

		weir_op_init(&server->stop_op, on_synced);
		if (!x->read_only)
			err = block_sync(x, server->cores[0].reactor,
					  &server->stop_op);
		if (!err)
			return;
		synced(server, err == -EOPNOTSUPP ? 0 : err);
	}
	server->stopped(server, server->stop_err, server->stopped_arg);
}

void server_empty(void *arg)
{
	struct server *server = arg;

	if (++server->n_empty == server->n_cores)
		sync_exports(server);
}
