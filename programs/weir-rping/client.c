/* SPDX-License-Identifier: CC0-1.0 */
/*
 * A client: it says where its ping is, which the server reads; then where the
 * echo is to go, which the server writes.  Each time the server says when.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <string.h>

#include "weir-rping.h"

/* As rping has it: a word, and letters that roll on from ping to ping. */
static void fill_ping(char *p, uint32_t size, uint64_t n)
{
	unsigned int c = 'A' + (unsigned int)(n % ('z' - 'A' + 1));
	int len = snprintf(p, size, "rdma-ping-%u: ", (uint32_t)n);
	uint32_t i;

	for (i = (uint32_t)len; i < size; i++) {
		p[i] = (char)c;
		c = c == 'z' ? 'A' : c + 1;
	}
	p[size - 1] = '\0';
}

static void next_ping(struct session *s)
{
	struct options *o = &s->rp->o;

	if (o->count && s->pings == o->count) {
		session_end(s);
		return;
	}
	fill_ping(s->source.at, o->size, s->pings);
	memset(s->sink.at, 0, o->size);
	s->in_ping = true;
	s->step = STEP_SOURCE;
	session_send(s, &s->source);
}

static void echoed(struct session *s)
{
	struct options *o = &s->rp->o;

	if (o->verify && memcmp(s->source.at, s->sink.at, o->size)) {
		session_fail(s, "ping %llu came back with other bytes",
			     (unsigned long long)s->pings);
		return;
	}
	if (o->verbose)
		printf("ping data: %.*s\n", (int)o->size, s->sink.at);
	s->in_ping = false;
	s->pings++;
	next_ping(s);
}

void client_message(struct weir_conn *c, const struct weir_message *m,
		    void *arg)
{
	struct session *s = arg;
	struct info info;

	(void)c;
	if (!session_take(s, m, &info))
		return;
	if (s->step == STEP_SOURCE) {
		s->step = STEP_SINK;
		session_send(s, &s->sink);
	} else {
		echoed(s);
	}
}

/* The server has no reason to go first. */
static void on_end(struct weir_conn *c, int why, void *arg)
{
	struct session *s = arg;

	(void)c;
	if (!s->failed)
		complain(s->rp, "the server has gone %s: %s",
			 s->in_ping ? "in the middle of a ping" :
				      "before it was asked to",
			 why ? strerror(-why) : "it has disconnected");
	session_free(s);
}

static void on_connected(struct weir_op *op, int64_t res)
{
	struct session *s = op->data;

	if (res < 0) {
		if (!s->rp->ending)
			complain(s->rp, "cannot connect: %s%s",
				 strerror((int)-res),
				 res == -ECONNREFUSED ?
				 "; is a server there, and -p the same?" : "");
		session_free(s);
		return;
	}
	weir_conn_set_end_fn(s->c, on_end, s);
	if (!session_ready(s))
		next_ping(s);
}

int client_start(struct rping *rp)
{
	struct weir_conn_opts opts = { .size = sizeof(opts),
				       .srq = rp->srq };
	struct options *o = &rp->o;
	struct weir_conn *c;
	struct session *s;
	int err = weir_conn_create(&c, rp->r, NULL, &opts);

	s = err ? NULL : session_create(rp, c);
	if (!s) {
		complain(rp, "cannot begin: %s", reason(err ? err : -ENOMEM));
		return -1;
	}
	weir_conn_set_message_fn(c, client_message, s);
	weir_op_init(&s->op, on_connected);
	s->op.data = s;
	weir_op_set_deadline(&s->op, weir_reactor_now(rp->r) + 10 * WEIR_SEC);
	err = weir_conn_connect(c, &s->op, (struct sockaddr *)&o->addr.sa,
				o->addr.len, o->from.len ?
				(struct sockaddr *)&o->from.sa : NULL,
				o->from.len, NULL, 0);
	if (err)
		complain(rp, "cannot connect: %s", reason(err));
	return err;
}
