/* SPDX-License-Identifier: BSD-3-Clause */
/* Sockets and pipes: the calls on them. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/socket.h"

#include <weir/watch.h>

#define PIPE_BLOCK 4096
#define RIGHTS_MAX 253u		/* Descriptors of a message: SCM_MAX_FD. */

static void nudge_fire(struct weir_sim *sim, struct sim_event *ev)
{
	(void)sim;
	sim_fd_changed(&weir_container_of(ev, struct end, nudge)->f);
}

struct end *end_new(struct sockets *s, const char *name)
{
	struct end *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->f.sim = s->sim;
	e->f.fd = -1;
	op_queue_init(&e->f.waiting);
	e->nudge.fire = nudge_fire;
	e->family = AF_UNIX;
	strcpy(e->name, name);
	e->f.host = sim_host_named(s->sim, name);
	e->next = s->ends;
	e->pprev = &s->ends;
	if (e->next)
		e->next->pprev = &e->next;
	s->ends = e;
	return e;
}

void end_free(struct end *e)
{
	*e->pprev = e->next;
	if (e->next)
		e->next->pprev = e->pprev;
	free(e);
}

int end_open(struct end *e, const struct sim_fd_class *cls)
{
	int fd = sim_fd_open(e->f.sim, &e->f, cls);

	if (fd < 0)
		end_free(e);
	return fd;
}

static struct flow *flow_in(const struct end *e)
{
	return &e->conn->flow[!e->side];
}

static struct flow *flow_out(const struct end *e)
{
	return &e->conn->flow[e->side];
}

static bool has_unread(const struct end *e)
{
	return e->conn && flow_in(e)->arrived > flow_in(e)->read;
}

/* It was reported ready, and now is not; but never twice in a row. */
static bool is_shy(struct end *e)
{
	if (e->shy) {
		e->shy = false;
		return false;
	}
	e->shy = sim_fault(e->f.sim, WEIR_SIM_EAGAIN, e->f.cls->name);
	if (e->shy && !e->nudge.queued)
		sim_at(e->f.sim, &e->nudge,
		       sim_latency(e->f.sim, WEIR_SIM_SOCKET));
	return e->shy;
}

/* The error is reported once, and then only its consequence. */
static int take_err(struct end *e, int after)
{
	int err = e->err;

	e->err = 0;
	return err ? err : after;
}

static int64_t end_receive(struct sim_fd *f, const struct io_step *step,
			   bool peek)
{
	struct end *e = end_of(f);

	if (f->fd < 0)
		return -EBADF;
	if (step->off != WEIR_OFF_STREAM)
		return -ESPIPE;
	if (e->state == END_CALLING)
		return SIM_NOT_YET;
	if (e->state == END_IDLE)
		return take_err(e, -ENOTCONN);
	if (!sim_step_len(step))
		return 0;
	if (has_unread(e))
		return is_shy(e) ? SIM_NOT_YET :
				   flow_receive(flow_in(e), step, peek);
	if (e->no_more || e->shut_rd)
		return 0;
	if (e->state == END_BROKEN || e->err)
		return take_err(e, 0);
	return SIM_NOT_YET;
}

static int64_t end_read(struct sim_fd *f, const struct io_step *step)
{
	return end_receive(f, step, false);
}

static int64_t end_write(struct sim_fd *f, const struct io_step *step)
{
	struct end *e = end_of(f);

	if (f->fd < 0)
		return -EBADF;
	if (step->off != WEIR_OFF_STREAM)
		return -ESPIPE;
	if (e->state == END_CALLING)
		return SIM_NOT_YET;
	if (e->state == END_IDLE)
		return take_err(e, -ENOTCONN);
	if (e->state == END_BROKEN || e->err || e->shut_wr || e->peer_closed)
		return take_err(e, -EPIPE);
	if (!sim_step_len(step))
		return 0;
	if (!flow_space(flow_out(e)) || is_shy(e))
		return SIM_NOT_YET;
	return flow_send(flow_out(e), step);
}

int64_t end_shutdown(struct end *e, int how)
{
	if (e->state != END_UP)
		return e->state == END_BROKEN ? 0 : -ENOTCONN;
	if (how != SHUT_WR)
		e->shut_rd = true;
	if (how != SHUT_RD && !e->shut_wr) {
		e->shut_wr = true;
		flow_tell(flow_out(e), PART_END);
	}
	sim_fd_changed(&e->f);
	return 0;
}

static uint32_t n_rights(const struct cmsghdr *c)
{
	return (uint32_t)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
}

/* The descriptors of @msg in *@ret, or NULL; or a negative errno. */
static int rights_load(struct end *e, const struct msghdr *msg,
		       struct rights **ret)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(msg);
	struct rights *r;
	struct sim_fd *f;
	int fd;

	*ret = NULL;
	if (!c)
		return msg->msg_controllen ? -EINVAL : 0;
	if (e->family != AF_UNIX || c->cmsg_level != SOL_SOCKET ||
	    c->cmsg_type != SCM_RIGHTS ||
	    CMSG_NXTHDR((struct msghdr *)(uintptr_t)msg, c))
		return -EOPNOTSUPP;
	if (c->cmsg_len < CMSG_LEN(0) || n_rights(c) > RIGHTS_MAX)
		return -EINVAL;
	r = calloc(1, sizeof(*r) + n_rights(c) * sizeof(r->f[0]));
	if (!r)
		return -ENOBUFS;
	r->part = e->conn->part;
	for (; r->n < n_rights(c); r->n++) {
		memcpy(&fd, CMSG_DATA(c) + r->n * sizeof(fd), sizeof(fd));
		f = sim_fd_find(fd);
		if (!f || f->sim != e->f.sim) {
			free(r);
			return -EBADF;
		}
		r->f[r->n] = f;
	}
	for (uint32_t i = 0; i < r->n; i++)
		r->f[i]->opens++;
	*ret = r;
	return 0;
}

static int64_t send_message(struct sim_fd *f, const struct weir_op *op)
{
	const struct msghdr *msg =
		(const struct msghdr *)(uintptr_t)op->u.io.addr;
	struct io_step step = { .off = WEIR_OFF_STREAM, .iov = msg->msg_iov,
				.n = (uint32_t)msg->msg_iovlen };
	struct end *e = end_of(f);
	struct rights *rights = NULL;
	uint64_t pos;
	int64_t res;
	int err;

	if (op->u.io.flags & MSG_OOB)
		return -EOPNOTSUPP;
	if (!msg->msg_controllen || e->state != END_UP)
		return end_write(f, &step);
	pos = flow_out(e)->sent;
	err = rights_load(e, msg, &rights);
	if (err)
		return err;
	/* Before the bytes, which may arrive at once. */
	if (rights)
		rights_send(flow_out(e), rights, pos);
	res = end_write(f, &step);
	if (rights && res <= 0)
		rights_take_back(flow_out(e), rights);
	return res;
}

/* Numbers for the descriptors; those that have no space are closed. */
static void rights_give(struct rights *r, struct msghdr *msg)
{
	size_t space = msg->msg_controllen, n = 0;
	struct cmsghdr *c = msg->msg_control;
	int fd;

	while (n < r->n && CMSG_LEN((n + 1) * sizeof(int)) <= space) {
		fd = sim_fd_dup(r->f[n]);
		if (fd < 0)
			break;
		memcpy(CMSG_DATA(c) + n++ * sizeof(fd), &fd, sizeof(fd));
	}
	msg->msg_controllen = 0;
	if (n < r->n)
		msg->msg_flags |= MSG_CTRUNC;
	if (n) {
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		msg->msg_controllen = c->cmsg_len;
	}
	rights_doom(r);
}

static int64_t receive_message(struct sim_fd *f, const struct weir_op *op)
{
	struct msghdr *msg = (struct msghdr *)(uintptr_t)op->u.io.addr;
	struct io_step step = { .off = WEIR_OFF_STREAM, .iov = msg->msg_iov,
				.n = (uint32_t)msg->msg_iovlen };
	struct end *e = end_of(f);
	struct rights *rights = NULL;
	int64_t res;

	if (op->u.io.flags & MSG_ERRQUEUE)
		return SIM_NOT_YET;	/* It is always empty. */
	if (op->u.io.flags & (MSG_OOB | MSG_TRUNC))
		return -EOPNOTSUPP;
	if (e->conn && !(op->u.io.flags & MSG_PEEK))
		rights = rights_take(flow_in(e));
	res = end_receive(f, &step, op->u.io.flags & MSG_PEEK);
	if (res < 0 && rights)
		rights_return(flow_in(e), rights);
	if (res < 0)
		return res;
	msg->msg_namelen = 0;
	msg->msg_flags = 0;
	if (rights)
		rights_give(rights, msg);
	else
		msg->msg_controllen = 0;
	return res;
}

static int64_t socket_call(struct sim_fd *f, struct weir_op *op)
{
	if (f->fd < 0)
		return -EBADF;
	switch (op->kind) {
	case IO_CONNECT:
		return end_connect(end_of(f), op);
	case IO_SENDMSG:
		return send_message(f, op);
	case IO_RECVMSG:
		return receive_message(f, op);
	case IO_SHUTDOWN:
		return end_shutdown(end_of(f), (int)op->u.io.flags);
	default:
		return -EINVAL;
	}
}

static bool is_over(const struct end *e)
{
	return e->state == END_BROKEN || e->peer_closed ||
	       (e->no_more && e->shut_wr);
}

static uint32_t socket_events(struct sim_fd *f)
{
	struct end *e = end_of(f);
	uint32_t events = e->err ? WEIR_ERROR : 0;

	if (e->state == END_CALLING || f->fd < 0)
		return 0;
	if (e->state == END_IDLE)
		return events | WEIR_WRITABLE | WEIR_HANGUP;
	if (has_unread(e) || e->no_more || e->shut_rd || e->err ||
	    e->state == END_BROKEN)
		events |= WEIR_READABLE;
	if (is_over(e) || e->shut_wr || flow_space(flow_out(e)))
		events |= WEIR_WRITABLE;
	if (e->no_more || e->shut_rd || e->peer_closed ||
	    e->state == END_BROKEN)
		events |= WEIR_RDHUP;
	return is_over(e) ? events | WEIR_HANGUP : events;
}

static void end_closed(struct sim_fd *f)
{
	struct end *e = end_of(f);

	sim_unqueue(f->sim, &e->nudge);
	sim_unqueue(f->sim, &e->call);
	if (e->conn && e->resets && e->state == END_UP)
		conn_reset(e->conn, e->side, -ECONNRESET);
	if (e->conn)
		conn_leave(e);
}

/* Splice: what one end has, as far as the other has space. */

static bool is_end(const struct sim_fd *f)
{
	return f->cls == &pipe_class || f->cls == &socket_class;
}

static int check_splice(const struct sim_fd *in, const struct sim_fd *out)
{
	const struct end *from = weir_container_of(in, const struct end, f);
	const struct end *to = weir_container_of(out, const struct end, f);

	if (!is_end(in) || !is_end(out) || from->conn == to->conn ||
	    (in->cls != &pipe_class && out->cls != &pipe_class))
		return -EINVAL;
	if ((in->cls == &pipe_class && from->side) ||
	    (out->cls == &pipe_class && !to->side))
		return -EBADF;
	return 0;
}

/* Whether @e can be written to: how much, or SIM_NOT_YET, or why not. */
static int64_t space_of(struct end *e)
{
	static const struct io_step nothing = { .off = WEIR_OFF_STREAM };
	int64_t res = end_write(&e->f, &nothing);

	if (res)
		return res;
	return flow_space(flow_out(e)) ? (int64_t)flow_space(flow_out(e)) :
					 SIM_NOT_YET;
}

static int64_t end_splice(struct sim_fd *in, struct sim_fd *out, uint64_t len,
			  struct sim_fd **blocked)
{
	char block[PIPE_BLOCK];
	struct io_step step = { .off = WEIR_OFF_STREAM, .addr = block };
	int64_t res = check_splice(in, out);
	uint64_t done = 0;

	if (!res) {
		*blocked = out;
		res = space_of(end_of(out));
	}
	if (res < 0)
		return res;
	if (len > (uint64_t)res)
		len = (uint64_t)res;
	if (len > 1 && sim_fault(in->sim, WEIR_SIM_SHORT, "splice"))
		len = 1 + sim_below(sim_fault_rng(in->sim, WEIR_SIM_SHORT),
				    len - 1);
	*blocked = in;
	while (done < len) {
		step.len = len - done < sizeof(block) ? len - done :
							sizeof(block);
		res = done ? flow_receive(flow_in(end_of(in)), &step, false) :
			     end_read(in, &step);
		if (res <= 0)
			return done ? (int64_t)done : res;
		step.len = (uint64_t)res;
		res = flow_send(flow_out(end_of(out)), &step);
		if (res < 0)
			return res;
		done += step.len;
	}
	return (int64_t)done;
}

static void end_describe(struct sim_fd *f, char *ret, size_t capacity)
{
	const struct end *e = end_of(f);

	snprintf(ret, capacity, e->conn ? ", '%s' to '%s'" : ", '%s'", e->name,
		 e->conn ? e->conn->name[!e->side] : "");
}

static void end_release(struct sim_fd *f)
{
	end_free(end_of(f));
}

const struct sim_fd_class socket_class = {
	.name = "socket",
	.device = WEIR_SIM_SOCKET,
	.waits = true,
	.socket = true,
	.read = end_read,
	.write = end_write,
	.call = socket_call,
	.splice = end_splice,
	.events = socket_events,
	.describe = end_describe,
	.closed = end_closed,
	.release = end_release,
};

/* A pipe: end 0 reads, end 1 writes. */

static int64_t pipe_read(struct sim_fd *f, const struct io_step *step)
{
	return end_of(f)->side ? -EBADF : end_read(f, step);
}

static int64_t pipe_write(struct sim_fd *f, const struct io_step *step)
{
	return end_of(f)->side ? end_write(f, step) : -EBADF;
}

static uint32_t pipe_events(struct sim_fd *f)
{
	struct end *e = end_of(f);
	uint32_t events = 0;

	if (f->fd < 0)
		return 0;
	if (!e->side) {
		events = has_unread(e) ? WEIR_READABLE : 0;
		return e->no_more ? events | WEIR_HANGUP : events;
	}
	if (e->peer_closed)
		return WEIR_WRITABLE | WEIR_ERROR;
	return flow_space(flow_out(e)) ? WEIR_WRITABLE : 0;
}

const struct sim_fd_class pipe_class = {
	.name = "pipe",
	.device = WEIR_SIM_SOCKET,
	.waits = true,
	.read = pipe_read,
	.write = pipe_write,
	.splice = end_splice,
	.events = pipe_events,
	.closed = end_closed,
	.release = end_release,
};
