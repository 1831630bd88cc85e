/* SPDX-License-Identifier: CC0-1.0 */
/*
 * Connections with TLS on one side, or on both: by streams.
 *
 *	accepted --> handshake with the client --> connect, as without TLS
 *	connected --> header, handshake with the target --> two pipes, both ways
 *	end of a pipe --> shutdown of its receiver
 *
 * Both are stopped and begun again now and then, to see whether they have moved
 * anything: an idle connection ends.  The shutdown is not the pipe's, because the end
 * of a connection that was reset is not passed on; see on_end() in flow.c.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weir/stream.h>
#include <weir/tls/tls.h>

#include "weir-proxy.h"

/* The time for a handshake with a client, and with a target that has all the time
 * to accept a connection. */
#define HANDSHAKE_NS (10 * WEIR_SEC)

/* Bytes of a stream, each way: a record, with what is around it. */
#define STREAM_BYTES 17408

/* A context, which all cores share. */
struct tls {
	struct weir_tls_context *ctx;
	atomic_uint users;	/* Routes. */
};

/* ---- configuration ---- */

static int make(struct tls **ret, const struct weir_tls_opts *opts)
{
	struct tls *tls = calloc(1, sizeof(*tls));

	if (!tls || weir_tls_context_create(&tls->ctx, opts)) {
		complain("configuration: TLS: %s", tls ? weir_why() :
							 "no memory");
		free(tls);
		return -1;
	}
	atomic_init(&tls->users, 1);
	*ret = tls;
	return 0;
}

static struct tls *share(struct tls *tls)
{
	if (tls)
		atomic_fetch_add(&tls->users, 1);
	return tls;
}

static void put(struct tls *tls)
{
	if (!tls || atomic_fetch_sub(&tls->users, 1) > 1)
		return;
	weir_tls_context_destroy(tls->ctx);
	free(tls);
}

int tls_make(struct route *route, const struct route *like)
{
	const struct tls_words *w = &route->tls;
	struct weir_tls_opts in = {
		.size = sizeof(in), .cert_file = w->cert, .key_file = w->key,
		.alpn = w->alpn, .ca_file = w->client_ca,
		.flags = WEIR_TLS_SERVER |
			 (w->client_ca ? WEIR_TLS_NEED_CERT : 0),
	};
	struct weir_tls_opts out = {
		.size = sizeof(out), .ca_file = w->ca,
		.flags = w->no_verify ? WEIR_TLS_NO_VERIFY : 0,
	};

	if (like) {
		route->tls_in = share(like->tls_in);
		route->tls_out = share(like->tls_out);
		return 0;
	}
	if (w->cert && make(&route->tls_in, &in))
		return -1;
	return w->to_target ? make(&route->tls_out, &out) : 0;
}

void tls_free(struct route *route)
{
	put(route->tls_in);
	put(route->tls_out);
}

/* ---- streams ---- */

static uint64_t now(const struct conn *c)
{
	return weir_reactor_now(c->core->r);
}

static const struct weir_stream_opts stream_opts = {
	.size = sizeof(stream_opts), .in_size = STREAM_BYTES,
	.out_size = STREAM_BYTES,
};

/* Wraps *@at, which is plain, into TLS. */
static int wrap(struct conn *c, struct weir_stream **at, const struct tls *tls,
		const char *host)
{
	struct weir_tls_stream_opts opts = {
		.size = sizeof(opts), .host = host, .stream = &stream_opts,
	};
	struct weir_stream *s;
	int err = weir_tls_stream_create(&s, c->core->r, *at, tls->ctx, &opts);

	if (!err)
		*at = s;
	return err;
}

/* What the client has sent behind a header goes before what it sends now. */
static int take_client(struct conn *c)
{
	struct flow *f = &c->up;
	int err = weir_stream_create_fd(&c->front, c->core->r, c->client_fd,
					c->client_fd, &stream_opts);

	if (!err && f->buf)
		err = weir_stream_unread(c->front, f->buf + f->at,
					 f->len - f->at);
	flow_release(f);
	return err;
}

void tls_close(struct weir_stream *s)
{
	weir_stream_close(s, NULL);
}

/* ---- pipes ---- */

static void begin(struct flow *f, enum step step);

static void on_step(struct weir_op *op, int64_t res)
{
	struct flow *f = weir_container_of(op, struct flow, op);
	struct weir_op_detail detail;
	struct conn *c = f->conn;
	uint64_t n = (uint64_t)res;

	weir_op_get_detail(op, &detail);
	if (res < 0)
		n = detail.bytes;
	f->bytes += n;
	if (n)
		c->active_ns = now(c);
	if (c->end)
		;
	else if (res >= 0 && (f->step == STEP_SHUT || c->broken))
		flow_over(f);
	else if (res >= 0)
		begin(f, STEP_SHUT);
	else if (res == -ETIMEDOUT && weir_op_is_late(op) && conn_is_idle(c))
		conn_end(c, END_IDLE);
	else if (res == -ETIMEDOUT && weir_op_is_late(op))
		begin(f, f->step);
	else if (f->step == STEP_SHUT || detail.code == WEIR_STREAM_TO)
		flow_cut_short(f);
	else
		conn_end(c, END_RESET);
	conn_check(c);
}

static void begin(struct flow *f, enum step step)
{
	struct conn *c = f->conn;
	struct weir_stream *from = f == &c->up ? c->front : c->back;
	struct weir_stream *to = f == &c->up ? c->back : c->front;

	f->step = step;
	f->op.fn = on_step;
	if (c->config->idle_ns)
		weir_op_set_deadline(&f->op, now(c) + c->config->idle_ns / 4);
	if (step == STEP_SHUT ? weir_stream_shutdown(to, &f->op) :
				weir_stream_pipe(from, &f->op, to, WEIR_FOREVER,
						 WEIR_STREAM_KEEP_OPEN))
		conn_end(c, END_STOPPED);
}

static void pipes_begin(struct conn *c)
{
	c->connected_ns = c->active_ns = now(c);
	begin(&c->up, STEP_SEND);
	if (!c->end)
		begin(&c->down, STEP_SEND);
}

/* ---- handshakes ---- */

static void on_accepted(struct weir_op *op, int64_t res)
{
	struct conn *c = weir_container_of(op, struct conn, up.op);

	if (c->end)
		;
	else if (res < 0)
		conn_end(c, res == -ECANCELED ? END_STOPPED : END_BAD_TLS);
	else
		conn_try_next(c);
	conn_check(c);
}

void tls_accept(struct conn *c)
{
	if (take_client(c) ||
	    wrap(c, &c->front, c->listen->route->tls_in, NULL)) {
		conn_end(c, END_STOPPED);
		return;
	}
	c->up.op.fn = on_accepted;
	weir_op_set_deadline(&c->up.op, now(c) + HANDSHAKE_NS);
	if (weir_tls_handshake(c->front, &c->up.op))
		conn_end(c, END_STOPPED);
}

static void on_target(struct weir_op *op, int64_t res)
{
	struct conn *c = weir_container_of(op, struct conn, up.op);

	if (c->end) {
		;
	} else if (res < 0) {
		if (c->server->tls_error != (int)res)
			complain("%s: TLS: %s", c->server->name,
				 *weir_tls_error(c->back) ?
				 weir_tls_error(c->back) :
				 strerror((int)-res));
		c->server->tls_error = (int)res;
		tls_close(c->back);
		c->back = NULL;
		c->target_fd = -1;
		conn_next_after_failure(c);
	} else {
		c->server->tls_error = 0;
		pipes_begin(c);
	}
	conn_check(c);
}

/* Whom the certificate of @c's server has to be of; text of an address in @text. */
static const char *host_of(const struct conn *c, char text[NAME_MAX_ADDRESS])
{
	const struct tls_words *w = &c->listen->route->tls;
	const struct target *t = c->server->target;
	size_t len;

	if (w->name || t->host)
		return w->name ? w->name : t->host;
	if (c->server->addr.sa.ss_family == AF_UNIX)
		return NULL;
	/* "127.0.0.1:443", "[::1]:443" */
	strcpy(text, c->server->name);
	len = strlen(text);
	while (len && text[len] != ':')
		text[len--] = 0;
	text[len] = 0;
	if (*text != '[')
		return text;
	text[len - 1] = 0;
	return text + 1;
}

static int begin_target(struct conn *c)
{
	const struct route *route = c->listen->route;
	unsigned char header[HEADER_CAPACITY];
	char text[NAME_MAX_ADDRESS];
	int err = 0;

	if (!c->front)
		err = take_client(c);
	if (!err)
		err = weir_stream_create_fd(&c->back, c->core->r,
					    c->target_fd, c->target_fd,
					    &stream_opts);
	if (!err && route->header)
		err = weir_stream_put(c->back, header,
				      conn_header(c, header), 0);
	if (err || !route->tls_out)
		return err;
	err = wrap(c, &c->back, route->tls_out, host_of(c, text));
	if (err)
		return err;
	c->up.op.fn = on_target;
	weir_op_set_deadline(&c->up.op, now(c) + (c->config->connect_ns ?
						  c->config->connect_ns :
						  HANDSHAKE_NS));
	return weir_tls_handshake(c->back, &c->up.op);
}

void tls_begin(struct conn *c)
{
	if (begin_target(c))
		conn_end(c, END_STOPPED);
	else if (!c->listen->route->tls_out)
		pipes_begin(c);
}
