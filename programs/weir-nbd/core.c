/* SPDX-License-Identifier: CC0-1.0 */
/* What each core has: the connections that it was given. */
#include <stdio.h>

#include <weir/file.h>

#include "weir-nbd.h"

static void on_grace(struct weir_timer *timer, uint64_t n, void *arg);

/* That one core has at most, as they are spread. */
static uint32_t connections_max(const struct server *server)
{
	return (server->opts.connections + server->n_cores - 1) /
	       server->n_cores;
}

int core_begin(struct server *server, uint32_t n, struct weir_reactor *reactor)
{
	struct core *core = &server->cores[n];
	int err;

	core->server = server;
	core->reactor = reactor;
	err = block_core_begin(&core->block, reactor, server->exports,
			       server->n_exports,
			       REQUESTS * connections_max(server));
	if (!err)
		err = weir_timer_create(&core->grace, core->reactor, on_grace,
					core);
	if (!err && n == 0)
		err = listen_begin(server);
	if (err)
		core_end(server, n);
	return err;
}

void core_end(struct server *server, uint32_t n)
{
	struct core *core = &server->cores[n];

	if (n == 0)
		listen_end(server);
	weir_timer_destroy(core->grace);
	core->grace = NULL;
	block_core_end(&core->block);
}

/* Calls @fn for each connection, which may end by it. */
static void for_each(struct core *core, void (*fn)(struct conn *c))
{
	struct conn *next;

	for (struct conn *c = core->conns; c; c = next) {
		next = c->next;
		fn(c);
	}
}

static void cut(struct conn *c)
{
	conn_drop(c);
	conn_pump(c);
}

/* Their time is up; or core 0 could not be told. */
static void on_grace(struct weir_timer *timer, uint64_t n, void *arg)
{
	struct core *core = arg;

	(void)timer, (void)n;
	for_each(core, cut);
	core_check_end(core);
}

/* On its thread. */
void core_stop(void *arg)
{
	struct core *core = arg;
	uint64_t grace = core->server->opts.grace_s * WEIR_SEC;

	core->stopping = true;
	weir_timer_start(core->grace, weir_reactor_now(core->reactor) + grace,
			 0);
	for_each(core, conn_finish);
	core_check_end(core);
}

/* The server waits for all cores to have no connection. */
void core_check_end(struct core *core)
{
	struct server *server = core->server;
	int err;

	if (!core->stopping || core->conns || core->empty)
		return;
	err = weir_post(server->cores[0].reactor, server_empty, server);
	core->empty = !err;
	if (err)
		weir_timer_start(core->grace,
				 weir_reactor_now(core->reactor) + WEIR_MSEC,
				 0);
	else
		weir_timer_stop(core->grace);
}
