/* SPDX-License-Identifier: CC0-1.0 */
/*
 * The client: one transfer.
 *
 *	put	open the file, connect, HELLO, READY, move
 *	get	connect, HELLO, READY, open the file, move
 *
 * It exports memory, and the server does with it what the HELLO has asked for.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <string.h>

#include "weir-rdma.h"

static bool is_put(const struct transfer *t)
{
	return t->app->opts.command == CMD_PUT;
}

static void say_hello(struct transfer *t)
{
	struct note n = {
		.type = NOTE_HELLO,
		.what = t->app->opts.command,
		.slot = t->slots,
		.len = (uint32_t)t->block,
		.name = t->app->opts.name,
	};
	int err = staging_create(t, is_put(t) ? WEIR_MMAP_RDMA_READ :
						WEIR_MMAP_RDMA_WRITE);

	if (!err)
		err = staging_export(t, &n);
	if (err) {
		transfer_fail(t, FAIL_MEMORY, err);
		return;
	}
	if (is_put(t)) {
		n.off = t->file.size;
		n.mode = t->file.mode;
	}
	t->state = STATE_HELLO;
	transfer_listen(t);
	transfer_say(t, &n);
}

/* What a server says with its refusal; without a server, nothing. */
static enum fail refused(const struct transfer *t)
{
	size_t len = 0;
	const char *data = weir_conn_peer_data(t->conn, &len);

	return len >= sizeof(BUSY) && !memcmp(data, BUSY, sizeof(BUSY)) ?
		       FAIL_BUSY : FAIL_CONNECT;
}

static void on_connected(struct weir_op *op, int64_t res)
{
	struct transfer *t = weir_container_of(op, struct transfer, conn_op);

	if (res < 0)
		transfer_fail(t, res == -ECONNREFUSED ? refused(t) :
			      FAIL_CONNECT, (int)res);
	else if (t->state != STATE_DONE)
		say_hello(t);
	transfer_idle(t);
}

/* The address of @host: the first that there is. */
static struct addrinfo *resolve(const char *host, const char *port)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM };
	struct addrinfo *list = NULL;

	return getaddrinfo(host, port, &hints, &list) ? NULL : list;
}

static int start(struct transfer *t, const struct addrinfo *to,
		 const struct addrinfo *from)
{
	struct weir_conn_opts opts = { .size = sizeof(opts) };
	int err;

	opts.srq = t->app->srq;
	err = weir_conn_create(&t->conn, t->app->reactor, NULL, &opts);
	weir_op_init(&t->conn_op, on_connected);
	if (!err)
		err = weir_conn_connect(t->conn, &t->conn_op, to->ai_addr,
					to->ai_addrlen,
					from ? from->ai_addr : NULL,
					from ? from->ai_addrlen : 0, NULL, 0);
	return err;
}

static void connect_(struct transfer *t)
{
	const struct opts *o = &t->app->opts;
	struct addrinfo *from = o->from ? resolve(o->from, NULL) : NULL;
	struct addrinfo *to = resolve(o->host, o->port);
	int err = -EDESTADDRREQ;

	t->state = STATE_CONNECTING;
	if (to && (from || !o->from))
		err = start(t, to, from);
	if (!err) {
		transfer_busy(t);
		weir_op_set_deadline(&t->conn_op, o->timeout_ns +
				     weir_reactor_now(t->app->reactor));
	} else {
		t->state = STATE_HELLO;
		transfer_fail(t, FAIL_CONNECT, err);
	}
	if (to)
		freeaddrinfo(to);
	if (from)
		freeaddrinfo(from);
}

static void move(struct transfer *t)
{
	int err = move_begin(t);

	if (err)
		transfer_fail(t, FAIL_MEMORY, err);
}

void client_opened(struct transfer *t)
{
	t->sized = true;
	if (t->conn)
		move(t);
	else
		connect_(t);
}

/* The server is ready; of a get it says how large the file is. */
void client_note(struct transfer *t, const struct note *n)
{
	if (n->type != NOTE_READY || t->state != STATE_HELLO ||
	    n->off > INT64_MAX) {
		transfer_fail(t, FAIL_PROTOCOL, -EPROTO);
		return;
	}
	if (is_put(t)) {
		move(t);
		return;
	}
	t->file.size = n->off;
	t->file.mode = n->mode;
	t->sized = true;
	transfer_open(t);
}

int client_begin(struct app *app)
{
	struct transfer *t = transfer_new(app, NULL);

	if (!t)
		return -ENOMEM;
	snprintf(t->peer, sizeof(t->peer), "%s", app->opts.host);
	file_init(&t->file, AT_FDCWD, app->opts.path,
		  app->opts.command == CMD_GET);
	if (is_put(t))
		transfer_open(t);
	else
		connect_(t);
	return 0;
}
