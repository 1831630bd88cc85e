/* SPDX-License-Identifier: CC0-1.0 */
/*
 * One way of a connection: what comes from one socket goes to the other.
 *
 *	           readable              bytes
 *	WAIT ----------------> RECEIVE ---------> SEND
 *	  ^  no buffer here       |  ^              |
 *	  +------ 20 ms pass -----+  +-- all sent --+
 *
 * One operation at a time, and one buffer at most: nothing is received while
 * something is still to be sent, so a slow reader holds up the writer to
 * it, through the kernel's buffers, and no others.  A connection idle for a
 * moment gives the buffer back.
 *
 * Every callback may find that the connection has ended meanwhile, and ends
 * with conn_check(), which frees it after the last one.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <poll.h>

#include <weir/socket.h>

#include "weir-proxy.h"

/* How long a buffer waits for the next bytes. */
#define TIMEOUT_NS (20 * WEIR_MSEC)

/* So often much came at a time, or did not any more: the way is changed. */
#define MUCH_MAX 16

/* A send that takes so long is looked at. */
#define POLL_NS WEIR_SEC

static void receive(struct flow *f);

static uint64_t now(const struct flow *f)
{
	return weir_reactor_now(f->conn->core->r);
}

/*
 * A splice has to see to it that sockets do not wait, unless they are so; it
 * does not matter to other operations, but costs them something.
 */
static void set_mode(struct conn *c, int mode)
{
	fcntl(c->client_fd, F_SETFL, mode);
	fcntl(c->target_fd, F_SETFL, mode);
}

static void give_back_pipe(struct flow *f)
{
	struct conn *c = f->conn;

	pipe_put(c->core, f->pipe, f->at == f->len);
	f->pipe = NULL;
	if (!c->up.pipe && !c->down.pipe)
		set_mode(c, 0);
}

static void take_pipe(struct flow *f)
{
	f->pipe = pipe_get(f->conn->core);
	if (f->pipe)
		set_mode(f->conn, O_NONBLOCK);
	else
		f->much = 0; /* Ask again, but not soon. */
}

void flow_release(struct flow *f)
{
	if (f->buf)
		buffer_put(f->conn->core, f->buf);
	f->buf = NULL;
	if (f->pipe)
		give_back_pipe(f);
}

/* An operation was started, or @err says why not: the reactor is full. */
static void started(struct flow *f, enum step step, int err)
{
	f->step = step;
	if (err)
		conn_end(f->conn, END_STOPPED);
}

void flow_over(struct flow *f)
{
	struct conn *c = f->conn;

	flow_release(f);
	f->step = STEP_OVER;
	if (c->up.step == STEP_OVER && c->down.step == STEP_OVER)
		conn_end(c, c->broken ? END_RESET : END_DONE);
}

/*
 * The receiver of the bytes has gone.  What it sent before may still be on its
 * way to the other, and goes on.
 */
void flow_cut_short(struct flow *f)
{
	f->conn->broken = true;
	flow_over(f);
}

/* ---- wait ---- */

static void on_readable(struct weir_op *op, int64_t res)
{
	struct flow *f = weir_container_of(op, struct flow, op);
	struct conn *c = f->conn;

	if (c->end)
		;
	else if (res == -ETIMEDOUT && conn_is_idle(f->conn))
		conn_end(c, END_IDLE);
	else if (res == -ETIMEDOUT)
		flow_wait(f); /* The other way was busy. */
	else if (res < 0)
		conn_end(c, END_RESET);
	else
		receive(f);
	conn_check(c);
}

void flow_wait(struct flow *f)
{
	struct conn *c = f->conn;

	f->op.fn = on_readable;
	if (c->config->idle_ns)
		weir_op_set_deadline(&f->op,
				     c->active_ns + c->config->idle_ns);
	started(f, STEP_WAIT,
		weir_poll(c->core->r, &f->op, f->from, WEIR_READABLE));
}

/* ---- receive ---- */

/*
 * Whose bytes come in large pieces gets a pipe, through which they are spliced
 * instead of copied; for small ones that is dearer than a copy.
 */
static void weigh(struct flow *f, uint32_t n)
{
	uint64_t much = f->conn->config->splice;

	if (much && n >= much)
		f->much += f->much < MUCH_MAX;
	else
		f->much -= f->much > 0;
}

static void on_bytes(struct flow *f)
{
	f->conn->active_ns = now(f);
	weigh(f, f->len);
	flow_send(f);
}

/*
 * Pass on the end; the other direction stays open.  If the peer was reset while
 * data were sent to it, only the send reports the reset (.broken); here the
 * stream appears to end.
 */
static void on_end(struct flow *f)
{
	if (!f->conn->broken)
		shutdown(f->to, SHUT_WR);
	flow_over(f);
}

static void on_received(struct weir_op *op, int64_t res)
{
	struct flow *f = weir_container_of(op, struct flow, op);
	struct conn *c = f->conn;

	/* Wanted or not, they are there; with them a pipe is not given on. */
	if (res > 0) {
		f->at = 0;
		f->len = (uint32_t)res;
	}
	if (c->end) {
		;
	} else if (res > 0) {
		on_bytes(f);
	} else if (res == 0) {
		on_end(f);
	} else if (res == -ETIMEDOUT && weir_op_is_late(op)) {
		flow_release(f);
		flow_wait(f);
	} else if (res == -EAGAIN) {
		f->much = 0; /* Urgent bytes go by a buffer only. */
		receive(f);
	} else {
		conn_end(c, END_RESET);
	}
	conn_check(c);
}

/* A pipe for a busy connection, else a buffer; it is empty now. */
static int provide(struct flow *f)
{
	struct core *core = f->conn->core;

	if (f->pipe ? !f->much : f->much == MUCH_MAX)
		flow_release(f);
	if (!f->pipe && f->much == MUCH_MAX)
		take_pipe(f);
	if (!f->pipe && !f->buf)
		f->buf = buffer_get(core);
	return f->pipe || f->buf ? 0 : -ENOMEM;
}

static void receive(struct flow *f)
{
	struct core *core = f->conn->core;
	int err = provide(f);

	f->op.fn = on_received;
	weir_op_set_deadline(&f->op, now(f) + TIMEOUT_NS);
	if (!err && f->pipe)
		err = weir_splice(core->r, &f->op, f->from, f->pipe->in,
				  PIPE_BYTES);
	else if (!err)
		err = weir_recv(core->r, &f->op, f->from, f->buf,
				core->buffer_size, 0);
	started(f, STEP_RECEIVE, err);
}

/* ---- send ---- */

/* The source was reset: the end of this send does not matter. */
static bool source_is_gone(const struct flow *f)
{
	struct pollfd p = { .fd = f->from };

	return poll(&p, 1, 0) == 1 && (p.revents & POLLERR);
}

static void sent(struct flow *f, uint64_t n)
{
	f->at += (uint32_t)n;
	f->bytes += n;
	if (n)
		f->conn->active_ns = now(f);
}

/* A send takes long: the buffers of the kernel, and of the reader, are full. */
static void look(struct flow *f)
{
	struct weir_op_detail detail;

	weir_op_get_detail(&f->op, &detail);
	sent(f, detail.bytes);
	if (f->at == f->len)
		receive(f);
	else if (source_is_gone(f))
		conn_end(f->conn, END_RESET);
	else if (conn_is_idle(f->conn))
		conn_end(f->conn, END_IDLE);
	else
		flow_send(f);
}

/*
 * Where the kernel copies all the same, through the loopback device or to a
 * card that cannot fetch pieces, zero copy only costs: it is not asked for
 * again.
 */
static void learn(struct flow *f)
{
	struct weir_op_detail detail;

	if (!f->asked)
		return;
	f->asked = false;
	weir_op_get_detail(&f->op, &detail);
	f->copied = detail.code == WEIR_SOCK_COPIED;
}

static void on_sent(struct weir_op *op, int64_t res)
{
	struct flow *f = weir_container_of(op, struct flow, op);
	struct conn *c = f->conn;

	if (c->end) {
		;
	} else if (res == -ETIMEDOUT && weir_op_is_late(op)) {
		look(f);
	} else if (res < 0) {
		flow_cut_short(f);
	} else {
		learn(f);
		sent(f, (uint64_t)res);
		if (f->at == f->len)
			receive(f);
		else
			flow_send(f); /* A splice may be short. */
	}
	conn_check(c);
}

static int start_send(struct flow *f)
{
	struct conn *c = f->conn;
	uint32_t left = f->len - f->at, flags = 0;

	if (f->pipe)
		return weir_splice(c->core->r, &f->op, f->pipe->out, f->to,
				   left);

	f->asked = c->config->zerocopy && left >= c->config->zerocopy &&
		   !f->copied;
	if (f->asked)
		flags = WEIR_SOCK_ZEROCOPY;
	return weir_send(c->core->r, &f->op, f->to, f->buf + f->at, left,
			 flags);
}

void flow_send(struct flow *f)
{
	f->op.fn = on_sent;
	weir_op_set_deadline(&f->op, now(f) + POLL_NS);
	started(f, STEP_SEND, start_send(f));
}
