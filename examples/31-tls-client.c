/* SPDX-License-Identifier: CC0-1.0 */

/*
 * A TLS connection whose handshake, read and write are operations, by
 * weir_op_start(), and steps of a chain: OpenSSL does the work, and weir_poll()
 * waits for the socket.  The server is a thread with a certificate that it makes
 * for itself.
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <weir/chain.h>
#include <weir/reactor.h>
#include <weir/socket.h>
#include <weir/watch.h>

#include "tls-server.h"

/* A connection, and what is in flight on it: one thing at a time. */
struct tls {
	struct weir_reactor *r;
	SSL *ssl;
	struct weir_op ready;	/* The poll of the socket. */
	struct weir_op *op;	/* What waits for it. */
	int (*step)(struct tls *t);
	char *buf;
	int len;
};

static int step_handshake(struct tls *t)
{
	return SSL_connect(t->ssl);
}

static int step_read(struct tls *t)
{
	return SSL_read(t->ssl, t->buf, t->len);
}

static int step_write(struct tls *t)
{
	return SSL_write(t->ssl, t->buf, t->len);
}

/* One more try.  If the socket is not ready, its poll is the next thing. */
static void tls_go_on(struct tls *t)
{
	int n, why, err;

	ERR_clear_error();
	n = t->step(t);
	why = n > 0 ? SSL_ERROR_NONE : SSL_get_error(t->ssl, n);
	if (why == SSL_ERROR_WANT_READ || why == SSL_ERROR_WANT_WRITE) {
		err = weir_poll(t->r, &t->ready, SSL_get_fd(t->ssl),
				why == SSL_ERROR_WANT_READ ? WEIR_READABLE :
							     WEIR_WRITABLE);
		if (err)
			weir_op_finish(t->op, err);
		return;
	}
	weir_op_finish(t->op, why == SSL_ERROR_NONE ? n :
		       why == SSL_ERROR_ZERO_RETURN ? 0 : -EPROTO);
}

static void on_ready(struct weir_op *op, int64_t res)
{
	struct tls *t = weir_container_of(op, struct tls, ready);

	if (res < 0)
		weir_op_finish(t->op, res);
	else
		tls_go_on(t);
}

/* The poll ends with -ECANCELED, and so does what waits for it. */
static void on_cancel(struct weir_op *op, void *arg)
{
	struct tls *t = arg;

	(void)op;
	weir_op_cancel(&t->ready);
}

static int tls_start(struct tls *t, struct weir_op *op,
		     int (*step)(struct tls *t), char *buf, int len)
{
	int err;

	if (weir_op_is_busy(&t->ready))
		return -EBUSY;
	err = weir_op_start(t->r, op, on_cancel, t);
	if (err)
		return err;
	t->op = op;
	t->step = step;
	t->buf = buf;
	t->len = len;
	tls_go_on(t);
	return 0;
}

static int tls_handshake(struct tls *t, struct weir_op *op)
{
	return tls_start(t, op, step_handshake, NULL, 0);
}

static int tls_read(struct tls *t, struct weir_op *op, char *buf, int len)
{
	return tls_start(t, op, step_read, buf, len);
}

static int tls_write(struct tls *t, struct weir_op *op, char *buf, int len)
{
	return tls_start(t, op, step_write, buf, len);
}

/* A request: four steps of a chain. */
struct request {
	struct weir_op op;
	struct tls tls;
	struct sockaddr_in addr;
	char out[16], in[16];
	int64_t res;
};

enum { CONNECT, HANDSHAKE, WRITE, READ, STEPS };

static int start_step(struct weir_chain *chain, uint32_t step,
		      struct weir_op *op, void *arg)
{
	struct request *rq = arg;
	struct tls *t = &rq->tls;

	(void)chain;
	switch (step) {
	case CONNECT:
		return weir_connect(t->r, op, SSL_get_fd(t->ssl),
				    (struct sockaddr *)&rq->addr,
				    sizeof(rq->addr));
	case HANDSHAKE:
		return tls_handshake(t, op);
	case WRITE:
		return tls_write(t, op, rq->out, sizeof(rq->out));
	default:
		return tls_read(t, op, rq->in, sizeof(rq->in));
	}
}

static void on_end(struct weir_op *op, int64_t res)
{
	struct request *rq = weir_container_of(op, struct request, op);

	rq->res = res;
	weir_reactor_break(rq->tls.r);
}

/* The server answers once: a second read has to wait for its deadline. */
static int read_in_vain(struct request *rq)
{
	weir_op_set_deadline(&rq->op, weir_reactor_now(rq->tls.r) +
			     50 * WEIR_MSEC);
	if (tls_read(&rq->tls, &rq->op, rq->in, sizeof(rq->in)) ||
	    weir_reactor_run(rq->tls.r) < 0)
		return 1;
	printf("another read: %s\n", strerror((int)-rq->res));
	return rq->res != -ETIMEDOUT;
}

int main(void)
{
	static struct request rq = { .out = "hello, server" };
	static struct tls_server server;
	struct weir_chain *chain;
	int bad = 0;

	if (weir_reactor_create(&rq.tls.r, NULL) ||
	    tls_server_start(&server, &rq.addr) ||
	    weir_chain_create(&chain, rq.tls.r, NULL))
		return 1;
	rq.tls.ssl = tls_client_new(&server);
	weir_op_init(&rq.tls.ready, on_ready);
	weir_op_init(&rq.op, on_end);
	for (int i = CONNECT; i < STEPS; i++)
		bad |= weir_chain_add_op(chain, i - 1, start_step, &rq) != i;
	if (bad || !rq.tls.ssl || weir_chain_start(chain, &rq.op) ||
	    weir_reactor_run(rq.tls.r) < 0)
		return 1;
	printf("%s: \"%s\" (%d steps)\n", SSL_get_version(rq.tls.ssl), rq.in,
	       (int)rq.res);
	bad = rq.res != STEPS || strcmp(rq.in, "HELLO, SERVER") ||
	      read_in_vain(&rq);
	tls_client_free(rq.tls.ssl);
	tls_server_stop(&server);
	return bad || weir_chain_destroy(chain) ||
	       weir_reactor_destroy(rq.tls.r);
}
