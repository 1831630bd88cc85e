/* SPDX-License-Identifier: CC0-1.0 */
/*
 * A server: it reads what a client says it has, and says so; then writes it to
 * where the client wants it, and says so.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weir/buf.h>
#include <weir/dma.h>
#include <weir/inventory.h>

#include "weir-rping.h"

static int take_next(struct rping *rp);

/* Its word, and letters that follow one another. */
static bool is_ping(const char *p, uint32_t size)
{
	const char *at = memchr(p, ' ', size);
	unsigned int c;

	if (strncmp(p, "rdma-ping-", 10) || p[size - 1] || !at)
		return false;
	c = (unsigned char)*++at;
	for (; at < p + size - 1; at++) {
		if ((unsigned char)*at != c)
			return false;
		c = c == 'z' ? 'A' : c + 1;
	}
	return true;
}

/* A move of @size bytes, of which @info says where they are at the client. */
static void move(struct session *s, const struct info *info, bool in,
		 weir_op_fn *fn)
{
	struct weir_operand there =
		weir_operand_at(s->there, info->addr, info->size);
	struct weir_buf *buf;
	int err;

	s->key.rkey = info->rkey;
	there.ctx = &s->key;
	err = weir_inventory_get(&buf, s->inv, s->source.mmap, s->source.at,
				 info->size, s->source.at,
				 in ? 0 : info->size);
	if (!err) {
		weir_job_init(&s->job, fn);
		s->job.op.data = s;
		if (in)
			weir_job_copy(&s->job, weir_operand_buf(buf), there);
		else
			weir_job_copy(&s->job, there, weir_operand_buf(buf));
		err = weir_job_start(s->rp->dma, &s->job);
		weir_buf_put(buf);
	}
	if (err && err != -ENOTCONN)
		session_fail(s, "cannot move %u bytes: %s", info->size,
			     strerror(-err));
}

/* Whether a job has ended well. */
static bool is_done(struct session *s, int64_t res, const char *what)
{
	if (res >= 0)
		return true;
	if (res != -ECANCELED)
		session_fail(s, "ping %llu cannot be %s: %s",
			     (unsigned long long)s->pings, what,
			     strerror((int)-res));
	return false;
}

static void on_read(struct weir_op *op, int64_t res)
{
	struct session *s = op->data;

	if (!is_done(s, res, "read") || s->failed) {
		session_callback(s);
		return;
	}
	if (s->rp->o.verify && !is_ping(s->source.at, (uint32_t)res)) {
		session_fail(s, "ping %llu has other bytes than rping's",
			     (unsigned long long)s->pings);
		return;
	}
	if (s->rp->o.verbose)
		printf("server ping data: %.*s\n", (int)res, s->source.at);
	s->step = STEP_SINK;
	session_send(s, NULL);
}

static void on_written(struct weir_op *op, int64_t res)
{
	struct session *s = op->data;

	if (!is_done(s, res, "written") || s->failed) {
		session_callback(s);
		return;
	}
	s->in_ping = false;
	s->pings++;
	s->step = STEP_SOURCE;
	session_send(s, NULL);
}

void server_message(struct weir_conn *c, const struct weir_message *m,
		    void *arg)
{
	struct session *s = arg;
	enum step step = s->step;
	struct info info;

	(void)c;
	if (!session_take(s, m, &info))
		return;
	if (step == STEP_BUSY || !info.size || info.size > s->rp->o.size) {
		session_fail(s, step == STEP_BUSY ?
			     "the client does not wait for its answer" :
			     "the client's ping has %u bytes, and at most %u "
			     "are served; see -S", info.size, s->rp->o.size);
		return;
	}
	s->step = STEP_BUSY;
	s->in_ping = true;
	move(s, &info, step == STEP_SOURCE,
	     step == STEP_SOURCE ? on_read : on_written);
}

/* Between two pings a client may go. */
static void on_end(struct weir_conn *c, int why, void *arg)
{
	struct session *s = arg;

	(void)c;
	if (!s->failed && (why || s->in_ping))
		complain(s->rp, "a client has gone in the middle of ping %llu: "
			 "%s", (unsigned long long)s->pings,
			 why ? strerror(-why) : "it has disconnected");
	session_free(s);
}

static void on_accepted(struct weir_op *op, int64_t res)
{
	struct session *s = op->data;

	if (res < 0) {
		if (!s->rp->ending)
			complain(s->rp, "a client has gone while it was "
				 "accepted: %s", strerror((int)-res));
		session_free(s);
		return;
	}
	weir_conn_set_end_fn(s->c, on_end, s);
	if (!session_ready(s))
		weir_conn_set_message_fn(s->c, server_message, s);
}

static void serve(struct rping *rp, struct weir_conn *c)
{
	struct session *s = session_create(rp, c);
	int err = -ENOMEM;

	if (!s) {
		weir_conn_destroy(c);
	} else {
		weir_op_init(&s->op, on_accepted);
		s->op.data = s;
		err = weir_conn_accept(c, &s->op, NULL, 0);
	}
	if (!err)
		return;
	complain(rp, "cannot accept a client: %s", reason(err));
	if (s)
		session_free(s);
	else
		rping_left(rp);
}

static void on_next(struct weir_op *op, int64_t res)
{
	struct rping *rp = op->data;

	if (res < 0) {
		if (!rp->ending)
			complain(rp, "no more clients come: %s",
				 strerror((int)-res));
		rp->ending = true;
		rping_left(rp);
		return;
	}
	serve(rp, rp->taken);
	if (rp->o.persistent && take_next(rp)) {
		rp->ending = true;
		rping_left(rp);
	}
}

static int take_next(struct rping *rp)
{
	int err;

	weir_op_init(&rp->next, on_next);
	rp->next.data = rp;
	err = weir_listener_next(rp->listener, &rp->next, &rp->taken);
	if (err && err != -ESHUTDOWN)
		complain(rp, "cannot wait for clients: %s", reason(err));
	return err;
}

int server_start(struct rping *rp)
{
	struct weir_conn_opts conn = { .size = sizeof(conn),
				       .srq = rp->srq };
	struct weir_listener_opts opts = { .size = sizeof(opts),
					   .conn = &conn };
	int err = weir_listener_create(&rp->listener, rp->r,
				       (struct sockaddr *)&rp->o.addr.sa,
				       rp->o.addr.len, &opts);

	if (err) {
		complain(rp, "cannot listen: %s", reason(err));
		return err;
	}
	if (rp->o.verbose)
		puts("waiting for clients");
	return take_next(rp);
}
