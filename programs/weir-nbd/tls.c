/* SPDX-License-Identifier: CC0-1.0 */
/*
 * Connections with TLS: after STARTTLS all bytes go through a stream.
 *
 *	STARTTLS --> its reply is sent --> handshake --> options anew, requests
 *	all is answered --> close_notify --> the end
 *
 * c->rx_op and c->tx_op are used as without TLS, so conn_drop() ends both.
 */
#define _GNU_SOURCE 1
#include <limits.h>
#include <stdio.h>

#include <weir/stream.h>
#include <weir/tls/tls.h>

#include "weir-nbd.h"

/* The bytes of a stream, each way: the lower one sends several records at once. */
#define LOWER_BYTES (68u << 10)
#define UPPER_BYTES 17408u

/* Of nbdkit's directory, and how they are given to libweir-tls. */
static int make(struct weir_tls_context **ret, const struct opts *o)
{
	char ca[PATH_MAX], cert[PATH_MAX], key[PATH_MAX];
	struct weir_tls_opts opts = {
		.size = sizeof(opts), .flags = WEIR_TLS_SERVER,
		.psk_file = o->tls_psk,
	};
	const char *dir = o->tls_dir;

	if (dir) {
		snprintf(ca, sizeof(ca), "%s/ca-cert.pem", dir);
		snprintf(cert, sizeof(cert), "%s/server-cert.pem", dir);
		snprintf(key, sizeof(key), "%s/server-key.pem", dir);
		opts.cert_file = cert;
		opts.key_file = key;
	}
	if (o->tls_verify_peer) {
		opts.ca_file = ca;
		opts.flags |= WEIR_TLS_NEED_CERT;
	}
	return weir_tls_context_create(ret, &opts);
}

int tls_open(struct server *server)
{
	int err;

	if (!server->opts.tls)
		return 0;
	err = make(&server->tls, &server->opts);
	if (err)
		fprintf(stderr, "weir-nbd: TLS: %s\n", weir_why());
	return err;
}

void tls_close(struct server *server)
{
	weir_tls_context_destroy(server->tls);
}

/* Connections go on with what they have. */
void tls_reload(struct server *server)
{
	if (weir_tls_context_reload(server->tls))
		fprintf(stderr, "weir-nbd: TLS: %s\n", weir_why());
}

/* ---- A connection ---- */

static void on_shaken(struct weir_op *op, int64_t res)
{
	struct conn *c = weir_container_of(op, struct conn, rx_op);
	char why[160];

	c->receiving = false;
	c->busy--;
	c->rx_op.fn = conn_on_rx;
	if (res < 0 && c->state != CLOSING) {
		snprintf(why, sizeof(why), "TLS: %s",
			 *weir_tls_error(c->tls) ? weir_tls_error(c->tls) :
			 strerror((int)-res));
		peer_refuse(c->core, c->fd, why);
		conn_drop(c);
	}
	conn_pump(c);
}

/* Bytes that came behind STARTTLS are the client's hello, or it fails. */
static int wrap(struct conn *c)
{
	struct weir_stream_opts lower = {
		.size = sizeof(lower), .in_size = LOWER_BYTES,
		.out_size = LOWER_BYTES, .flags = WEIR_STREAM_KEEP_FDS,
	};
	struct weir_stream_opts upper = {
		.size = sizeof(upper), .in_size = UPPER_BYTES,
		.out_size = UPPER_BYTES,
	};
	struct weir_tls_stream_opts opts = { .size = sizeof(opts),
					     .stream = &upper };
	struct weir_stream *plain;
	int err = weir_stream_create_fd(&plain, c->core->reactor, c->fd, c->fd,
					&lower);

	if (err)
		return err;
	c->tls = plain;		/* Until it is wrapped, to be closed. */
	err = weir_stream_unread(plain, c->rx + c->head, c->tail - c->head);
	c->head = c->tail;
	return err ? err : weir_tls_stream_create(&c->tls, c->core->reactor,
						  plain, c->server->tls, &opts);
}

void tls_begin(struct conn *c)
{
	if (wrap(c)) {
		conn_drop(c);
		return;
	}
	c->rx_op.fn = on_shaken;
	weir_op_set_deadline(&c->rx_op, conn_hello_end(c));
	if (weir_tls_handshake(c->tls, &c->rx_op)) {
		c->rx_op.fn = conn_on_rx;
		conn_drop(c);
		return;
	}
	c->receiving = true;
	c->busy++;
}

static void on_said_end(struct weir_op *op, int64_t res)
{
	struct conn *c = weir_container_of(op, struct conn, tx_op);

	(void)res;
	c->sending = false;
	c->busy--;
	conn_drop(c);
	conn_pump(c);
}

/* Sends what is buffered, and that it is all. */
void tls_say_end(struct conn *c)
{
	c->tx_op.fn = on_said_end;
	weir_op_set_deadline(&c->tx_op, weir_reactor_now(c->core->reactor) +
			     c->server->opts.timeout_s * WEIR_SEC);
	if (weir_stream_shutdown(c->tls, &c->tx_op)) {
		conn_drop(c);
		return;
	}
	c->sending = true;
	c->busy++;
}

static void on_closed(struct weir_op *op, int64_t res)
{
	struct conn *c = weir_container_of(op, struct conn, rx_op);

	(void)res;
	c->busy--;
	conn_pump(c);
}

/* Nothing else is in flight. */
void tls_end(struct conn *c)
{
	struct weir_stream *s = c->tls;

	c->tls = NULL;
	c->rx_op.fn = on_closed;
	weir_op_set_deadline(&c->rx_op, WEIR_FOREVER);
	if (!weir_stream_close(s, &c->rx_op))
		c->busy++;
}
