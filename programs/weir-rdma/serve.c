/* SPDX-License-Identifier: CC0-1.0 */
/*
 * The server: a transfer for each client, until it is stopped.
 *
 * It believes nothing that a client says, has no memory that a client can
 * reach, and bounds how many there are and what each takes: so a hostile one
 * can harm nothing but its own transfer.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>

#include "weir-rdma.h"

static void ask(struct app *app);

static void note_peer(struct transfer *t)
{
	struct sockaddr_storage addr;
	socklen_t len = sizeof(addr);

	if (weir_conn_peer_address(t->conn, (struct sockaddr *)&addr, &len) ||
	    getnameinfo((struct sockaddr *)&addr, len, t->peer,
			sizeof(t->peer), NULL, 0, NI_NUMERICHOST))
		snprintf(t->peer, sizeof(t->peer), "a client");
}

static void on_accepted(struct weir_op *op, int64_t res)
{
	struct transfer *t = weir_container_of(op, struct transfer, conn_op);

	if (res < 0) {
		transfer_fail(t, FAIL_CONNECT, (int)res);
	} else if (t->state != STATE_DONE) {
		t->state = STATE_HELLO;
		transfer_listen(t);
	}
	transfer_idle(t);
}

static void refuse(struct weir_conn *conn)
{
	weir_conn_reject(conn, BUSY, sizeof(BUSY));
	weir_conn_destroy(conn);
}

static void accept_(struct app *app, struct weir_conn *conn)
{
	struct transfer *t = NULL;
	int err;

	if (!app->ending && app->n_transfers < app->opts.clients)
		t = transfer_new(app, conn);
	if (!t) {
		refuse(conn);
		return;
	}
	t->serving = true;
	note_peer(t);
	weir_op_init(&t->conn_op, on_accepted);
	transfer_busy(t);
	err = weir_conn_accept(conn, &t->conn_op, NULL, 0);
	if (err)
		on_accepted(&t->conn_op, err);
}

static void on_asked(struct weir_op *op, int64_t res)
{
	struct app *app = weir_container_of(op, struct app, next_op);

	app->listening = false;
	if (res >= 0)
		accept_(app, app->asked);
	else if (res != -ECANCELED)
		say_setup_error(app, "listen", (int)res);
	if (res >= 0 && !app->ending)
		ask(app);
	else
		serve_stop(app);
}

static void ask(struct app *app)
{
	int err;

	weir_op_init(&app->next_op, on_asked);
	app->listening = true;
	err = weir_listener_next(app->listener, &app->next_op, &app->asked);
	if (err)
		on_asked(&app->next_op, err);
}

static int listen_(struct app *app)
{
	struct weir_listener_opts opts = { .size = sizeof(opts) };
	struct weir_conn_opts conn = { .size = sizeof(conn) };
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
				  .ai_flags = AI_PASSIVE };
	struct addrinfo *list = NULL;
	int err, tries = 100;

	conn.srq = app->srq;
	opts.conn = &conn;
	if (getaddrinfo(app->opts.listen, app->opts.port, &hints, &list))
		return -EDESTADDRREQ;
	/* The kernel frees the listener of a killed server a little later. */
	do {
		err = weir_listener_create(&app->listener, app->reactor,
					   list->ai_addr, list->ai_addrlen,
					   &opts);
	} while (err == -EADDRINUSE && tries-- && !usleep(10000));
	freeaddrinfo(list);
	return err;
}

int serve_begin(struct app *app)
{
	int err;

	app->root = open(app->opts.path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (app->root < 0) {
		err = -errno;
		say_setup_error(app, app->opts.path, err);
		return err;
	}
	err = listen_(app);
	if (err) {
		say_setup_error(app, "listen", err);
		return err;
	}
	say_listening(app);
	ask(app);
	return 0;
}

/* No more of them; those that there are end. */
void serve_stop(struct app *app)
{
	struct transfer *t;

	app->ending = true;
	if (app->listening)
		weir_op_cancel(&app->next_op);
	for (t = app->transfers; t; t = t->next)
		transfer_fail(t, FAIL_STOPPED, -ESHUTDOWN);
	app_check_end(app);
}

static int check_hello(const struct transfer *t, const struct note *n)
{
	if (n->type != NOTE_HELLO || t->state != STATE_HELLO ||
	    (n->what != CMD_PUT && n->what != CMD_GET) ||
	    !n->slot || n->slot > SLOTS_MAX ||
	    n->len < BLOCK_MIN || n->len > BLOCK_MAX || n->off > INT64_MAX)
		return -EPROTO;
	return 0;
}

static void set_up(struct transfer *t, const struct note *n)
{
	int err;

	t->slots = n->slot;
	t->bufs = n->slot < BUFS_MAX ? n->slot : BUFS_MAX;
	t->block = n->len;
	file_init(&t->file, t->app->root, n->name, n->what == CMD_PUT);
	t->file.beneath = true;
	t->file.size = n->off;
	t->file.mode = n->mode;
	err = staging_create(t, 0);
	if (!err)
		err = staging_import(t, n);
	if (err)
		transfer_fail(t, FAIL_MEMORY, err);
	else
		transfer_open(t);
}

void serve_note(struct transfer *t, const struct note *n)
{
	int err = check_hello(t, n);

	if (err)
		transfer_fail(t, FAIL_PROTOCOL, err);
	else if (n->what == CMD_PUT && t->app->opts.read_only)
		transfer_fail(t, FAIL_OPEN, -EROFS);
	else
		set_up(t, n);
}

void serve_opened(struct transfer *t)
{
	struct note n = { .type = NOTE_READY, .off = t->file.size,
			  .mode = t->file.mode };
	int err = move_begin(t);

	t->sized = true;
	if (err)
		transfer_fail(t, FAIL_MEMORY, err);
	else
		transfer_say(t, &n);
}
