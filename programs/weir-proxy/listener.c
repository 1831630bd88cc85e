/* SPDX-License-Identifier: CC0-1.0 */
/*
 * One socket of a core that brings connections, one at a time: so a core that
 * is full takes none, and they wait in the kernel.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/socket.h>

#include "weir-proxy.h"

/* No descriptors, say: after that it is tried again. */
#define REST_NS (100 * WEIR_MSEC)

static void listener_free(struct listener *l)
{
	struct core *core = l->core;

	if (l->taken >= 0)
		close(l->taken);
	close(l->fd);
	free(l);
	core->n_listeners--;
	core_left(core);
}

static void on_rested(struct weir_op *op, int64_t res)
{
	struct listener *l = weir_container_of(op, struct listener, op);

	(void)res;
	if (l->gone)
		listener_free(l);
	else
		listener_go_on(l);
}

static void rest(struct listener *l, int64_t err)
{
	if (!l->failed && err != -ECANCELED)
		complain("%s: no connection could be taken: %s", l->name,
			 strerror((int)-err));
	l->failed = true;
	l->op.fn = on_rested;
	weir_sleep_until(l->core->r, &l->op,
			 weir_reactor_now(l->core->r) + REST_NS);
}

static void on_connection(struct weir_op *op, int64_t res)
{
	struct listener *l = weir_container_of(op, struct listener, op);

	if (res >= 0)
		l->taken = (int)res;
	if (l->gone)
		listener_free(l);
	else if (res < 0)
		rest(l, res);
	else
		listener_go_on(l);
}

static bool may_go_on(const struct listener *l)
{
	return !weir_op_is_busy(&l->op) && !core_is_full(l->core) &&
	       route_is_ready(l->listen->route);
}

/*
 * Nothing happens if it is at it, if the core is full, or if addresses are still
 * looked up.  Both may have become so while it accepted, by another listener or a
 * reload: what was taken waits.
 */
void listener_go_on(struct listener *l)
{
	int fd = l->taken, err;

	if (may_go_on(l) && fd >= 0) {
		l->taken = -1;
		conn_create(l, fd);
	}
	if (!may_go_on(l))
		return;
	l->op.fn = on_connection;
	err = weir_accept(l->core->r, &l->op, l->fd, NULL, NULL, 0);
	if (err)
		rest(l, err);
}

int listener_create(struct core *c, struct listen *listen)
{
	struct listener *l = calloc(1, sizeof(*l));

	if (!l)
		return -ENOMEM;
	l->core = c;
	l->listen = listen;
	l->fd = listen->fd;
	l->taken = -1;
	listen->fd = -1;
	memcpy(l->name, listen->name, sizeof(l->name));
	l->next = c->listeners;
	c->listeners = l;
	c->n_listeners++;
	listener_go_on(l);
	return 0;
}

/* It is in no list any more. */
void listener_close(struct listener *l)
{
	l->gone = true;
	if (weir_op_is_busy(&l->op))
		weir_op_cancel(&l->op);
	else
		listener_free(l);
}
