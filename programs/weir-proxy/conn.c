/* SPDX-License-Identifier: CC0-1.0 */
/*
 * One connection: a client, a target, and the two ways between them.
 *
 *	[HEADER] -->
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

/* The time for the header of the PROXY protocol. */
#define HEADER_NS (5 * WEIR_SEC)

static void set_server(struct conn *c, struct server *s);

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

/* What was cut short must not look as if it had been all.  @s owns @fd, if any. */
static void close_end(int fd, struct weir_stream *s, bool reset)
{
	struct linger none = { .l_onoff = 1, .l_linger = 0 };

	if (fd < 0)
		return;
	if (reset)
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	if (s)
		tls_close(s);
	else
		close(fd);
}

static void conn_free(struct conn *c)
{
	struct core *core = c->core;
	/* A client whose handshake has failed is told why by TLS. */
	bool reset = c->end != END_DONE && c->end != END_BAD_TLS;

	log_conn(c);
	set_server(c, NULL);
	flow_release(&c->up);
	flow_release(&c->down);
	close_end(c->client_fd, c->front, reset);
	close_end(c->target_fd, c->back, reset);
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

bool conn_is_idle(const struct conn *c)
{
	uint64_t idle_ns = c->config->idle_ns;

	return idle_ns &&
	       weir_reactor_now(c->core->r) - c->active_ns >= idle_ns;
}

/* Who the client is. */
size_t conn_header(struct conn *c, unsigned char *to)
{
	if (!c->local.len) {
		c->local.len = sizeof(c->local.sa);
		getsockname(c->client_fd, (struct sockaddr *)&c->local.sa,
			    &c->local.len);
		address_unmap(&c->local);
	}
	return header_make(to, c->listen->route->header, &c->client, &c->local);
}

/* Before what the client has said already. */
static bool put_header(struct conn *c)
{
	unsigned char header[HEADER_CAPACITY];
	size_t len;

	if (!c->up.buf) {
		c->up.buf = buffer_get(c->core);
		c->up.at = c->up.len = HEADER_CAPACITY;
	}
	if (!c->up.buf)
		return false;
	len = conn_header(c, header);
	c->up.at -= (uint32_t)len;
	memcpy(c->up.buf + c->up.at, header, len);
	return true;
}

static void begin_flows(struct conn *c)
{
	c->up.from = c->down.to = c->client_fd;
	c->up.to = c->down.from = c->target_fd;
	c->connected_ns = c->active_ns = weir_reactor_now(c->core->r);
	if (c->listen->route->header && !put_header(c))
		conn_end(c, END_STOPPED);
	else if (c->up.buf)
		flow_send(&c->up);
	else
		flow_wait(&c->up);
	if (!c->end)
		flow_wait(&c->down);
}

static void begin_target(struct conn *c)
{
	int one = 1;

	if (c->server->addr.sa.ss_family != AF_UNIX)
		setsockopt(c->target_fd, IPPROTO_TCP, TCP_NODELAY, &one,
			   sizeof(one));
	if (c->front || c->listen->route->tls_out)
		tls_begin(c);
	else
		begin_flows(c);
}

static void on_connected(struct weir_op *op, int64_t res)
{
	struct conn *c = weir_container_of(op, struct conn, up.op);

	if (c->end) {
		;
	} else if (res < 0) {
		/* A deadline may come just after the target has answered. */
		close_end(c->target_fd, NULL, true);
		c->target_fd = -1;
		conn_next_after_failure(c);
	} else {
		begin_target(c);
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

/* @s is the connection's from now on, instead of the one before; NULL: none. */
static void set_server(struct conn *c, struct server *s)
{
	if (c->server) {
		c->server->n_conns--;
		server_put(c->server);
	}
	c->server = s;
	if (s) {
		s->n_conns++;
		s->users++;
	}
}

void conn_try_next(struct conn *c)
{
	struct server *s = NULL;

	if (c->tries)
		s = server_choose(c->listen->route,
				  weir_reactor_now(c->core->r), c->tried);
	if (!s) {
		conn_end(c, END_NO_TARGET);
		return;
	}
	c->tries--;
	c->tried |= s->bit;
	set_server(c, s);
	if (connect_to(c, &s->addr))
		conn_end(c, END_STOPPED); /* No descriptor, say. */
}

void conn_next_after_failure(struct conn *c)
{
	c->server->rests_until = weir_reactor_now(c->core->r) +
				 c->config->rest_ns;
	conn_try_next(c);
}

static void begin(struct conn *c)
{
	if (c->listen->route->tls_in)
		tls_accept(c);
	else
		conn_try_next(c);
}

/* ---- a header from the client's proxy ---- */

static void read_header(struct conn *c);

static void on_header(struct weir_op *op, int64_t res)
{
	struct conn *c = weir_container_of(op, struct conn, up.op);
	ssize_t n = -1;

	if (c->end) {
		conn_check(c);
		return;
	}
	if (res > 0) {
		c->up.len += (uint32_t)res;
		n = header_parse((unsigned char *)c->up.buf + c->up.at,
				 c->up.len - c->up.at, &c->client, &c->local);
	}
	if (res == -ECANCELED) {
		conn_end(c, END_STOPPED);
	} else if (res < 0 && res != -ETIMEDOUT) {
		conn_end(c, END_RESET);
	} else if (n < 0 || (!n && c->up.len == BUFFER_MIN)) {
		conn_end(c, END_BAD_HEADER);
	} else if (!n) {
		read_header(c);
	} else {
		c->up.at += (uint32_t)n;
		/* Bytes that came with it are sent after the target's header. */
		if (c->up.at == c->up.len)
			flow_release(&c->up);
		c->began_ns = weir_reactor_now(c->core->r);
		begin(c);
	}
	conn_check(c);
}

/* Capacity is left before it for another header. */
static void read_header(struct conn *c)
{
	if (!c->up.buf) {
		c->up.buf = buffer_get(c->core);
		c->up.at = c->up.len = HEADER_CAPACITY;
	}
	c->up.op.fn = on_header;
	weir_op_set_deadline(&c->up.op, c->began_ns + HEADER_NS);
	if (!c->up.buf ||
	    weir_recv(c->core->r, &c->up.op, c->client_fd,
		      c->up.buf + c->up.len, BUFFER_MIN - c->up.len, 0))
		conn_end(c, END_STOPPED);
}

static bool comes_by_proxy(const struct conn *c)
{
	const struct route *route = c->listen->route;
	unsigned int i;

	for (i = 0; i < route->n_nets; i++)
		if (net_has(&route->nets[i], &c->client))
			return true;
	return false;
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
	int err;

	if (!c) {
		close_end(fd, NULL, true);
		return;
	}
	c->core = l->core;
	c->config = config_get(l->core->config);
	c->listen = l->listen;
	c->tries = l->listen->route->n_servers;
	c->client_fd = fd;
	c->target_fd = -1;
	c->up.conn = c->down.conn = c;
	c->client.len = sizeof(c->client.sa);
	err = getpeername(fd, (struct sockaddr *)&c->client.sa, &c->client.len);
	address_unmap(&c->client);
	c->began_ns = weir_reactor_now(c->core->r);
	link_to_core(c);
	if (err) /* It was reset; whether a header is due cannot be known. */
		conn_end(c, END_RESET);
	else if (comes_by_proxy(c))
		read_header(c);
	else
		begin(c);
	conn_check(c);
}
