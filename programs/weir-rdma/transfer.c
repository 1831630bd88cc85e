/* SPDX-License-Identifier: CC0-1.0 */
/*
 * A transfer: what both ends of it have in common.
 *
 *	CONNECTING -> HELLO -> OPENING -> MOVING -> FINISHING -> DONE
 *
 * The first failure is the transfer's, wherever it was: it is DONE, the peer is
 * told, and everything drains.  A transfer is over when nothing of it is in
 * flight; then it is freed, with all that it has made.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "weir-rdma.h"

/* For the peer to hear of a failure, before the connection is taken down. */
#define FAREWELL (2 * WEIR_SEC)

static void on_timeout(struct weir_timer *timer, uint64_t n, void *arg);

struct transfer *transfer_new(struct app *app, struct weir_conn *conn)
{
	struct transfer *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->app = app;
	t->slots = app->opts.depth;
	t->bufs = t->slots < BUFS_MAX ? t->slots : BUFS_MAX;
	t->block = app->opts.block;
	t->file.fd = t->file.dir = -1;
	t->started_ns = weir_reactor_now(app->reactor);
	if (weir_timer_create(&t->timeout, app->reactor, on_timeout, t)) {
		free(t);
		return NULL;
	}
	for (uint32_t i = 0; i < NOTES_MAX; i++) {
		t->ops[i].t = t;
		t->ops[i].next = t->free_ops;
		t->free_ops = &t->ops[i];
	}
	t->conn = conn;
	t->next = app->transfers;
	app->transfers = t;
	app->n_transfers++;
	return t;
}

/* The other way round from how it was made. */
static void destroy(struct transfer *t)
{
	struct transfer **at = &t->app->transfers;

	weir_pipeline_destroy(t->pipeline);
	staging_destroy(t);
	weir_conn_destroy(t->conn);
	weir_domain_destroy(t->disk);
	weir_timer_destroy(t->timeout);
	file_close(&t->file);
	while (*at != t)
		at = &(*at)->next;
	*at = t->next;
	t->app->n_transfers--;
	free(t);
}

static void on_over(struct weir_op *op, int64_t res)
{
	struct transfer *t = weir_container_of(op, struct transfer, over_op);
	struct app *app = t->app;

	(void)res;
	file_close(&t->file);
	say_result(t);
	destroy(t);
	app_check_end(app);
}

static void on_left(struct weir_op *op, int64_t res)
{
	struct transfer *t = weir_container_of(op, struct transfer, leave_op);

	(void)res;
	transfer_idle(t);
}

/*
 * Flush what is in flight on the connection.  One on which nothing is needs no
 * farewell: it is freed, and the peer is told by that.
 */
static void leave(struct transfer *t)
{
	if (t->leaving)
		return;
	t->leaving = true;
	weir_op_init(&t->leave_op, on_left);
	if (t->conn && !weir_conn_disconnect(t->conn, &t->leave_op))
		transfer_busy(t);
}

void transfer_busy(struct transfer *t)
{
	t->busy++;
}

/* Not freed at once, for the caller may have more to do with it. */
void transfer_idle(struct transfer *t)
{
	if (--t->busy || t->state != STATE_DONE || t->over)
		return;
	t->over = true;
	weir_op_init(&t->over_op, on_over);
	weir_defer(t->app->reactor, &t->over_op);
}

/* From now on nothing can fail it; what is in flight comes to its end. */
void transfer_done(struct transfer *t)
{
	transfer_busy(t);
	t->state = STATE_DONE;
	t->ended_ns = weir_reactor_now(t->app->reactor);
	weir_timer_start(t->timeout, t->ended_ns + FAREWELL, 0);
	transfer_idle(t);
}

static void tell(struct transfer *t)
{
	struct note n = { .type = NOTE_FAIL, .what = t->fail, .err = t->err };

	if (t->fail_there || t->fail == FAIL_PEER || !t->conn ||
	    weir_conn_state(t->conn) != WEIR_CONN_ESTABLISHED)
		return;
	transfer_say(t, &n);
}

void transfer_fail(struct transfer *t, enum fail fail, int err)
{
	bool connecting = t->state == STATE_CONNECTING;

	if (t->state == STATE_DONE)
		return;
	t->fail = fail;
	t->err = err;
	t->state = STATE_DONE;
	if (connecting)
		weir_op_cancel(&t->conn_op);
	move_cancel(t);
	tell(t);
	transfer_busy(t);
	transfer_done(t);
	if (fail == FAIL_PEER)
		leave(t);
	transfer_idle(t);
}

/* Nothing has come for a while: an idle end does not learn of a dead peer. */
static void on_timeout(struct weir_timer *timer, uint64_t n, void *arg)
{
	struct transfer *t = arg;

	(void)timer, (void)n;
	if (t->state == STATE_DONE)
		leave(t);
	else
		transfer_fail(t, FAIL_PEER, -ETIMEDOUT);
}

void transfer_wait(struct transfer *t)
{
	if (t->state != STATE_DONE)
		weir_timer_start(t->timeout,
				 weir_reactor_now(t->app->reactor) +
					 t->app->opts.timeout_ns,
				 0);
}

/* Notes to the peer. */

static void on_said(struct weir_op *op, int64_t res)
{
	struct note_op *o = weir_container_of(op, struct note_op, op);
	struct transfer *t = o->t;

	if (o->buf)
		weir_buf_put(o->buf);
	o->buf = NULL;
	o->next = t->free_ops;
	t->free_ops = o;
	t->saying--;
	if (res < 0)
		transfer_fail(t, FAIL_PEER, (int)res);
	transfer_idle(t);
}

/* Longer ones have to lie in memory that the device knows. */
static int long_message(struct transfer *t, struct note_op *o,
			const struct note *n, struct weir_message *m)
{
	struct staging *s = &t->staging;
	char *at = s->base + t->slots * t->block;
	size_t len = note_encode(n, at, NOTE_BYTES);
	int err;

	if (!len)
		return -ENAMETOOLONG;
	err = weir_inventory_get_by_data(&o->buf, s->inventory, s->mmap, at,
					 len);
	m->buf = o->buf;
	return err;
}

static int post(struct transfer *t, struct note_op *o, const struct note *n)
{
	struct weir_message m = { .size = sizeof(m) };
	int err = 0;

	if (n->desc_len)
		err = long_message(t, o, n, &m);
	else
		m.len = note_encode(n, o->bytes, sizeof(o->bytes));
	if (!m.buf)
		m.data = o->bytes;
	weir_op_init(&o->op, on_said);
	return err ? err : weir_message_send(t->conn, &o->op, &m);
}

/* A peer that takes so many of them without an answer is none of ours. */
void transfer_say(struct transfer *t, const struct note *n)
{
	struct note_op *o = t->free_ops;
	int err;

	if (!o) {
		transfer_fail(t, FAIL_PROTOCOL, -ENOBUFS);
		return;
	}
	t->free_ops = o->next;
	t->saying++;
	transfer_busy(t);
	err = post(t, o, n);
	if (err)
		on_said(&o->op, err);
}

/* Notes from the peer. */

static void take(struct transfer *t, const struct note *n)
{
	switch (n->type) {
	case NOTE_FAIL:
		t->fail_there = true;
		transfer_fail(t, n->what && n->what < FAILS ?
			      (enum fail)n->what : FAIL_PROTOCOL,
			      n->err < 0 && n->err > -4096 ? n->err : -EPROTO);
		break;
	case NOTE_BLOCK:
	case NOTE_TAKEN:
	case NOTE_END:
	case NOTE_DONE:
		move_note(t, n);
		break;
	default:
		if (t->serving)
			serve_note(t, n);
		else
			client_note(t, n);
	}
}

static void on_message(struct weir_conn *conn, const struct weir_message *m,
		       void *arg)
{
	struct transfer *t = arg;
	struct note n;
	int err = -EPROTO;

	(void)conn;
	if (m->buf)
		err = note_decode(&n, weir_buf_data(m->buf), m->len);
	if (err)
		transfer_fail(t, FAIL_PROTOCOL, err);
	else if (t->state != STATE_DONE)
		take(t, &n);
	if (m->buf)
		weir_buf_put(m->buf);
	transfer_wait(t);
}

static void on_end(struct weir_conn *conn, int why, void *arg)
{
	(void)conn;
	transfer_fail(arg, FAIL_PEER, why ? why : -ECONNRESET);
}

void transfer_listen(struct transfer *t)
{
	weir_conn_set_end_fn(t->conn, on_end, t);
	weir_conn_set_message_fn(t->conn, on_message, t);
	transfer_wait(t);
}

/* The file, on a worker. */

static void work(struct transfer *t, weir_op_fn *fn, int64_t (*what)(void *))
{
	int err;

	weir_op_init(&t->work_op, fn);
	transfer_busy(t);
	err = weir_work(t->app->reactor, &t->work_op, what, &t->file);
	if (err)
		fn(&t->work_op, err);
}

static void on_opened(struct weir_op *op, int64_t res)
{
	struct transfer *t = weir_container_of(op, struct transfer, work_op);

	if (res >= 0)
		res = weir_domain_file_create(&t->disk, t->file.fd, NULL);
	if (res < 0)
		transfer_fail(t, FAIL_OPEN, (int)res);
	else if (t->state != STATE_DONE && t->serving)
		serve_opened(t);
	else if (t->state != STATE_DONE)
		client_opened(t);
	transfer_idle(t);
}

void transfer_open(struct transfer *t)
{
	t->file.fsync = t->app->opts.fsync;
	t->state = STATE_OPENING;
	work(t, on_opened, file_open_work);
}

static void on_finished(struct weir_op *op, int64_t res)
{
	struct transfer *t = weir_container_of(op, struct transfer, work_op);
	struct note n = { .type = NOTE_DONE, .crc = t->crc };

	if (res < 0) {
		transfer_fail(t, FAIL_NAME, (int)res);
	} else if (t->state != STATE_DONE) {
		transfer_say(t, &n);
		transfer_done(t);
	}
	transfer_idle(t);
}

void transfer_finish(struct transfer *t)
{
	t->state = STATE_FINISHING;
	work(t, on_finished, file_finish_work);
}
