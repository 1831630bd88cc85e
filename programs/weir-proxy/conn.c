/* SPDX-License-Identifier: CC0-1.0 */
/*
 * One connection: a client, a target, and the two ways between them.
 *
 *	CONNECTING ---> OPEN, both ways flow ---> ENDED, operations are awaited
 *	    |  ^                                      ^
 *	    +--+ the next target                      | none is left
 *	    +-----------------------------------------+
 *
 * It is freed by the callback after which none of its operations is in flight.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/socket.h>

#include "weir-proxy.h"

/* ---- the end ---- */

void conn_end(struct conn *c, enum end end)
{
	if (c->end)
		return;
	c->end = end;
	if (weir_op_is_busy(&c->up.op))
		weir_op_cancel(&c->up.op);
	if (weir_op_is_busy(&c->down.op))
		weir_op_cancel(&c->down.op);
}

/* What was cut short must not look as if it had been all. */
static void close_socket(int fd, bool reset)
{
	struct linger none = { .l_onoff = 1, .l_linger = 0 };

	if (fd < 0)
		return;
	if (reset)
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	close(fd);
}

static void conn_free(struct conn *c)
{
	struct core *core = c->core;

	log_conn(c);
	flow_release(&c->up);
	flow_release(&c->down);
	close_socket(c->client_fd, c->end != END_DONE);
	close_socket(c->target_fd, c->end != END_DONE);
	*c->pprev = c->next;
	if (c->next)
		c->next->pprev = c->pprev;
	config_put(c->config);
	free(c);
	core->n_conns--;
	core_left(core);
}

void conn_check(struct conn *c)
{
	if (c->end && !weir_op_is_busy(&c->up.op) &&
	    !weir_op_is_busy(&c->down.op))
		conn_free(c);
}

/* ---- to a target ---- */

/* In turns; a failed target rests, unless all have failed. */
static struct target *choose(struct route *route, uint64_t now)
{
	struct target *t = &route->targets[route->turn % route->n_targets];
	unsigned int i;

	for (i = 0; i < route->n_targets; i++) {
		t = &route->targets[route->turn++ % route->n_targets];
		if (t->rests_until <= now)
			return t;
	}
	return &route->targets[route->turn++ % route->n_targets];
}

/* The first bytes that a target gets say who the client is. */
static bool begin_with_header(struct conn *c)
{
	struct address local = { .len = sizeof(local.sa) };

	c->up.buf = buffer_get(c->core);
	if (!c->up.buf)
		return false;
	getsockname(c->client_fd, (struct sockaddr *)&local.sa, &local.len);
	address_unmap(&local);
	c->up.at = 0;
	c->up.len = (uint32_t)header_make((unsigned char *)c->up.buf,
					  &c->client, &local);
	flow_send(&c->up);
	return true;
}

static void begin_flows(struct conn *c)
{
	int one = 1;

	if (c->target->addr.sa.ss_family != AF_UNIX)
		setsockopt(c->target_fd, IPPROTO_TCP, TCP_NODELAY, &one,
			   sizeof(one));
	c->up.from = c->down.to = c->client_fd;
	c->up.to = c->down.from = c->target_fd;
	c->connected_ns = c->active_ns = weir_reactor_now(c->core->r);
	if (!c->listen->route->header)
		flow_wait(&c->up);
	else if (!begin_with_header(c))
		conn_end(c, END_STOPPED);
	if (!c->end)
		flow_wait(&c->down);
}

static void on_connected(struct weir_op *op, int64_t res)
{
	struct conn *c = weir_container_of(op, struct conn, up.op);

	if (c->end) {
		;
	} else if (res < 0) {
		/* A deadline may come just after the target has answered. */
		close_socket(c->target_fd, true);
		c->target_fd = -1;
		c->target->rests_until = weir_reactor_now(c->core->r) +
					 c->config->rest_ns;
		conn_try_next(c);
	} else {
		begin_flows(c);
	}
	conn_check(c);
}

/* Connect to one target; the operation is that of the way to it. */
static int connect_to(struct conn *c, const struct address *to)
{
	int fd = socket(to->sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	c->target_fd = fd;
	c->up.op.fn = on_connected;
	if (c->config->connect_ns)
		weir_op_set_deadline(&c->up.op, weir_reactor_now(c->core->r) +
					c->config->connect_ns);
	return weir_connect(c->core->r, &c->up.op, fd,
			    (const struct sockaddr *)&to->sa, to->len);
}

void conn_try_next(struct conn *c)
{
	if (!c->tries) {
		conn_end(c, END_NO_TARGET);
		return;
	}
	c->tries--;
	c->target = choose(c->listen->route, weir_reactor_now(c->core->r));
	if (connect_to(c, &c->target->addr))
		conn_end(c, END_STOPPED); /* No descriptor, say. */
}

/* ---- the beginning ---- */

static void link_to_core(struct conn *c)
{
	struct core *core = c->core;

	c->next = core->conns;
	c->pprev = &core->conns;
	if (c->next)
		c->next->pprev = &c->next;
	core->conns = c;
	core->n_conns++;
}

/* @fd has come in; it is the connection's from now on. */
void conn_create(struct listener *l, int fd)
{
	struct conn *c = calloc(1, sizeof(*c));

	if (!c) {
		close_socket(fd, true);
		return;
	}
	c->core = l->core;
	c->config = config_get(l->core->config);
	c->listen = l->listen;
	c->tries = l->listen->route->n_targets;
	c->client_fd = fd;
	c->target_fd = -1;
	c->up.conn = c->down.conn = c;
	c->client.len = sizeof(c->client.sa);
	getpeername(fd, (struct sockaddr *)&c->client.sa, &c->client.len);
	address_unmap(&c->client);
	c->began_ns = weir_reactor_now(c->core->r);
	link_to_core(c);
	conn_try_next(c);
	conn_check(c);
}
