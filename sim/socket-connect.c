/* SPDX-License-Identifier: BSD-3-Clause */
/* Sockets in a world: the calls that make them, listeners, and how connections
 * are made. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/watch.h>

#include "base/opts.h"
#include "base/why.h"
#include "sim/socket.h"

/* The calls of <weir/sim/socket.h> that need no reactor. */

static void give_up(struct end *e)
{
	if (e && e->f.fd >= 0)
		sim_fd_close(&e->f);
	else if (e)
		end_free(e);
}

static int pair(struct weir_sim *sim, int fds[2], const char *call,
		const struct sim_fd_class *cls)
{
	struct sockets *s = sockets_of(sim);
	struct end *ends[2] = { NULL, NULL };
	int err = -ENOMEM, fd[2];

	for (int i = 0; i < 2; i++) {
		ends[i] = s ? end_new(s, "") : NULL;
		if (!ends[i])
			goto fail;
		err = sim_fd_open(sim, &ends[i]->f, cls);
		if (err < 0)
			goto fail;
		fd[i] = err;
		err = -ENOMEM;
	}
	if (!conn_new(s, ends[0], ends[1]))
		goto fail;
	ends[0]->state = END_UP;
	ends[1]->state = END_UP;
	memcpy(fds, fd, sizeof(fd));
	return 0;
fail:
	give_up(ends[0]);
	give_up(ends[1]);
	return why(err, "%s: %s", call, err == -ENOMEM ? "no memory" :
			"the world has no descriptor left; close some");
}

int weir_sim_socket_pair(struct weir_sim *sim, int fds[2])
{
	return pair(sim, fds, "weir_sim_socket_pair", &socket_class);
}

int weir_sim_pipe(struct weir_sim *sim, int fds[2])
{
	return pair(sim, fds, "weir_sim_pipe", &pipe_class);
}

int weir_sim_socket(struct weir_sim *sim, int *ret_fd, const char *name)
{
	struct sockets *s = sockets_of(sim);
	struct end *e;
	int fd;

	if (!name || strlen(name) >= WEIR_SIM_NAME_MAX)
		return why(-EINVAL, "weir_sim_socket: no name, or longer than "
			   "%d bytes", WEIR_SIM_NAME_MAX - 1);
	e = s ? end_new(s, name) : NULL;
	if (!e)
		return why(-ENOMEM, "weir_sim_socket: no memory");
	fd = end_open(e, &socket_class);
	if (fd < 0)
		return why(fd, "weir_sim_socket: the world has no descriptor "
			   "left; close some");
	*ret_fd = fd;
	return 0;
}

static int listener_open(struct sockets *s, const char *name, int backlog);

int weir_sim_listen(struct weir_sim *sim, int *ret_fd, const char *name,
		    int backlog)
{
	struct sockets *s = sockets_of(sim);
	int fd;

	if (!name || !*name || strlen(name) >= WEIR_SIM_NAME_MAX ||
	    backlog < 1)
		return why(-EINVAL, "weir_sim_listen: no name, or longer than "
			   "%d bytes, or a backlog below 1",
			   WEIR_SIM_NAME_MAX - 1);
	if (!s)
		return why(-ENOMEM, "weir_sim_listen: no memory");
	if (listener_find(s, name))
		return why(-EADDRINUSE, "weir_sim_listen: a listener is at "
			   "'%s'", name);
	fd = listener_open(s, name, backlog);
	if (fd < 0)
		return why(fd, "weir_sim_listen: no descriptor or memory left");
	*ret_fd = fd;
	return 0;
}

static int64_t now_or_again(int64_t res)
{
	return res == SIM_NOT_YET ? -EAGAIN : res;
}

ssize_t weir_sim_read(int fd, void *buf, size_t len)
{
	struct io_step step = { .off = WEIR_OFF_STREAM, .addr = buf,
				.len = len };
	struct sim_fd *f = sim_fd_find(fd);

	if (!f)
		return -EBADF;
	if (f->dead)
		return -EIO;
	return f->cls->read ? now_or_again(f->cls->read(f, &step)) : -EINVAL;
}

ssize_t weir_sim_write(int fd, const void *buf, size_t len)
{
	struct io_step step = { .off = WEIR_OFF_STREAM,
				.addr = (void *)(uintptr_t)buf, .len = len };
	struct sim_fd *f = sim_fd_find(fd);

	if (!f)
		return -EBADF;
	if (f->dead)
		return -EIO;
	return f->cls->write ? now_or_again(f->cls->write(f, &step)) : -EINVAL;
}

int weir_sim_accept(int fd)
{
	struct sim_fd *f = sim_fd_find(fd);

	if (!f)
		return -EBADF;
	if (f->dead)
		return -EIO;
	return f->cls->accept ? (int)now_or_again(f->cls->accept(f)) : -EINVAL;
}

/* A socket that can be connected: 0 with *@ret set, or a negative errno. */
static int find_end(int fd, struct end **ret)
{
	struct sim_fd *f = sim_fd_find(fd);

	if (!f)
		return -EBADF;
	if (f->dead)
		return -EIO;
	if (!f->cls->socket)
		return -ENOTSOCK;
	if (f->cls != &socket_class)
		return -ENOTCONN;	/* It listens. */
	*ret = end_of(f);
	return 0;
}

static int end_call(struct end *e, const struct sockaddr *addr, size_t len);

int weir_sim_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct weir_op op = { .kind = IO_CONNECT };
	struct sim_fd *f = sim_fd_find(fd);
	struct end *e;
	int err = find_end(fd, &e);

	if (err == -ENOTCONN && f->cls->datagrams && addr &&
	    len >= sizeof(addr->sa_family)) {
		op.u.io.addr = (uint64_t)(uintptr_t)addr;
		op.u.io.len = len;
		return (int)f->cls->call(f, &op);
	}
	if (err)
		return err == -ENOTCONN ? -EINVAL : err;
	if (!addr || len < sizeof(addr->sa_family))
		return -EINVAL;
	return end_call(e, addr, len);
}

/* The name of the other end's host. */
int sim_socket_peer(int fd, struct sockaddr_storage *ret, uint32_t *len)
{
	struct sim_fd *f = sim_fd_find(fd);
	const char *name;
	struct end *e = NULL;
	int err, family;

	if (f && !f->dead && f->cls->get_name) {
		name = f->cls->get_name(f, true, &family);
		if (!name)
			return -ENOTCONN;
		address_give(f->sim, name, family, ret, len);
		return 0;
	}
	err = find_end(fd, &e);
	if (err)
		return err;
	if (e->state != END_UP)
		return -ENOTCONN;
	address_give(e->f.sim, e->conn->name[!e->side], e->family, ret, len);
	return 0;
}

int sim_socket_name(int fd, struct sockaddr_storage *ret, uint32_t *len)
{
	return weir_sim_getsockname(fd, (struct sockaddr *)ret, len);
}

int weir_sim_shutdown(int fd, int how)
{
	struct end *e;
	int err;

	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return -EINVAL;
	err = find_end(fd, &e);
	return err ? err : (int)end_shutdown(e, how);
}

int weir_sim_close(int fd)
{
	struct sim_fd *f = sim_fd_find(fd);

	if (!f)
		return -EBADF;
	sim_fd_drop(f, fd);
	return 0;
}

int weir_sim_reset(int fd)
{
	struct end *e;
	int err = find_end(fd, &e);

	if (err)
		return err;
	if (e->state != END_UP)
		return -ENOTCONN;
	conn_reset(e->conn, e->side, -ECONNRESET);
	return 0;
}

int weir_sim_socket_stats(struct weir_sim *sim,
			  struct weir_sim_socket_stats *ret)
{
	struct weir_sim_socket_stats stats = { .size = sizeof(stats) };
	struct sockets *s = sockets_of(sim);
	const struct conn *conn;

	for (conn = s ? s->conns : NULL; conn; conn = conn->next)
		for (int i = 0; i < 2; i++)
			stats.held += conn->flow[i].sent - conn->flow[i].read;
	if (s) {
		stats.sent = s->sent;
		stats.received = s->received;
		stats.lost = s->lost;
		stats.connections = s->connections;
		stats.resets = s->resets;
	}
	return opts_give(ret, &stats, sizeof(stats), "weir_sim_socket_stats");
}

/*
 * Listeners, and how a connection is made:
 *
 *	IDLE -- connect --> CALLING -- the request arrives:
 *	                       no listener, or no capacity: -ECONNREFUSED
 *	                       partition: again in 1 s, 2 s, ... -ETIMEDOUT
 *	                       else it is in the listener's queue, and an
 *	                       answer goes back --> UP
 */

#define TRIES 7		/* After the last of which it is 127 s. */
#define PORT_FIRST 32768u	/* Of those that a connect chooses. */
#define PORTS 28232u
#define FREE_FIRST 49152u	/* Of those that a bind chooses. */
#define FREE_LAST 65535u

static struct listener *listener_of(struct sim_fd *f)
{
	return weir_container_of(f, struct listener, f);
}

struct listener *listener_find(const struct sockets *s, const char *name)
{
	struct listener *l;

	for (l = s->listeners; l; l = l->next)
		if (l->f.fd >= 0 && !l->f.dead && !strcmp(l->name, name))
			return l;
	return NULL;
}

static struct end *next_in_queue(struct listener *l)
{
	struct end *e = l->first;

	if (!e)
		return NULL;
	l->first = e->next_waiting;
	if (!l->first)
		l->last = &l->first;
	debug_check(l->n > 0);
	l->n--;
	return e;
}

static int64_t listener_accept(struct sim_fd *f)
{
	struct listener *l = listener_of(f);
	struct end *e = l->first;
	int fd;

	if (f->fd < 0)
		return -EBADF;
	if (!e)
		return SIM_NOT_YET;
	fd = sim_fd_open(f->sim, &e->f, &socket_class);
	if (fd >= 0)
		next_in_queue(l);
	return fd;
}

static uint32_t listener_events(struct sim_fd *f)
{
	return listener_of(f)->n ? WEIR_READABLE : 0;
}

/* A connection that was not accepted by then never will be. */
static void turn_away(struct listener *l, bool silent)
{
	struct end *e;

	while ((e = next_in_queue(l))) {
		if (e->conn && silent)
			e->conn->silent = true;
		else if (e->conn && e->state == END_UP)
			conn_reset(e->conn, e->side, -ECONNRESET);
		if (e->conn)
			conn_leave(e);
		end_free(e);
	}
}

void listener_cut(struct listener *l, bool silent)
{
	turn_away(l, silent);
	sim_fd_kill(&l->f);
}

static void listener_closed(struct sim_fd *f)
{
	turn_away(listener_of(f), false);
}

static void listener_describe(struct sim_fd *f, char *ret, size_t capacity)
{
	snprintf(ret, capacity, ", '%s'", listener_of(f)->name);
}

static void listener_release(struct sim_fd *f)
{
	struct listener *l = listener_of(f);

	*l->pprev = l->next;
	if (l->next)
		l->next->pprev = l->pprev;
	free(l);
}

static const struct sim_fd_class listener_class = {
	.name = "listener",
	.device = WEIR_SIM_SOCKET,
	.waits = true,
	.socket = true,
	.accept = listener_accept,
	.events = listener_events,
	.describe = listener_describe,
	.closed = listener_closed,
	.release = listener_release,
};

static struct listener *listener_at(int fd)
{
	struct sim_fd *f = sim_fd_find(fd);

	return f && f->cls == &listener_class ? listener_of(f) : NULL;
}

static struct listener *listener_new(struct sockets *s, const char *name,
				     int backlog)
{
	struct listener *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->f.host = sim_host_named(s->sim, name);
	l->family = AF_UNIX;
	l->backlog = (uint32_t)backlog;
	l->last = &l->first;
	strcpy(l->name, name);
	return l;
}

static void listener_add(struct sockets *s, struct listener *l)
{
	l->next = s->listeners;
	l->pprev = &s->listeners;
	if (l->next)
		l->next->pprev = &l->next;
	s->listeners = l;
}

static int listener_open(struct sockets *s, const char *name, int backlog)
{
	struct listener *l = listener_new(s, name, backlog);
	int fd;

	if (!l)
		return -ENOMEM;
	fd = sim_fd_open(s->sim, &l->f, &listener_class);
	if (fd < 0)
		free(l);
	else
		listener_add(s, l);
	return fd;
}

/* A listener gets the number of @e, which is closed by its own. */
static int end_listen(struct end *e, int backlog)
{
	struct sockets *s = sockets_of(e->f.sim);
	struct sim_fd **fds, *f = &e->f;
	int fd = e->f.fd, own = listener_open(s, e->name, backlog);
	struct listener *l = listener_at(own);

	if (!l)
		return own;
	l->family = e->family;
	fds = s->sim->fds;
	for (uint32_t i = 0; i < s->sim->n_fds; i++)
		if (fds[i] == f || fds[i] == &l->f)
			fds[i] = fds[i] == f ? &l->f : f;
	l->f.fd = fd;
	f->fd = own;
	sim_fd_close(f);
	return 0;
}

/* Calls that choose an address. */

/* A port that is free: @name ends with ":0". */
static int choose_port(const struct sockets *s, char *name)
{
	char *port = strrchr(name, ':') + 1;
	size_t capacity = WEIR_SIM_NAME_MAX - (size_t)(port - name);

	for (uint32_t n = FREE_FIRST; n <= FREE_LAST; n++) {
		if (snprintf(port, capacity, "%u", n) >= (int)capacity)
			return -EINVAL;
		if (!listener_find(s, name))
			return 0;
	}
	return -EADDRINUSE;
}

int weir_sim_bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct sim_fd *f = sim_fd_find(fd);
	char name[WEIR_SIM_NAME_MAX];
	const struct sockets *s;
	struct end *e;
	size_t n;
	int err;

	if (f && !f->dead && f->cls->bind)
		return f->cls->bind(f, addr, len);
	err = find_end(fd, &e);
	if (err)
		return err == -ENOTCONN ? -EINVAL : err;
	if (e->state != END_IDLE || e->bound || !addr ||
	    len < sizeof(addr->sa_family))
		return -EINVAL;
	if (addr->sa_family != e->family)
		return -EAFNOSUPPORT;
	s = sockets_of(e->f.sim);
	err = address_name(&e->f, addr, len, true, name);
	if (err)
		return err;
	n = strlen(name);
	if (e->family != AF_UNIX && n > 1 && !strcmp(name + n - 2, ":0"))
		err = choose_port(s, name);
	else if (listener_find(s, name))
		err = -EADDRINUSE;
	if (err)
		return err;
	strcpy(e->name, name);
	e->bound = true;
	return 0;
}

int weir_sim_bound_listen(int fd, int backlog)
{
	struct listener *l = listener_at(fd);
	struct end *e;
	int err;

	if (backlog < 1)
		backlog = 1;
	if (l) {
		l->backlog = (uint32_t)backlog;
		return 0;
	}
	err = find_end(fd, &e);
	if (err)
		return err;
	if (e->state != END_IDLE || !e->bound || e->f.users != 1 ||
	    e->f.watcher)
		return -EINVAL;
	if (listener_find(sockets_of(e->f.sim), e->name))
		return -EADDRINUSE;
	return end_listen(e, backlog);
}

static int give(struct weir_sim *sim, const char *name, int family,
		struct sockaddr *addr, socklen_t *len)
{
	struct sockaddr_storage all;
	socklen_t n = sizeof(all);

	address_give(sim, name, family, &all, &n);
	memcpy(addr, &all, n < *len ? n : *len);
	*len = n;
	return 0;
}

int weir_sim_getsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
	const struct listener *l = listener_at(fd);
	struct sim_fd *f = sim_fd_find(fd);
	const char *name;
	struct end *e;
	int err, family;

	if (f && !f->dead && f->cls->get_name) {
		name = f->cls->get_name(f, false, &family);
		return give(f->sim, name, family, addr, len);
	}
	if (l)
		return give(l->f.sim, l->name, l->family, addr, len);
	err = find_end(fd, &e);
	return err ? err : give(e->f.sim, e->name, e->family, addr, len);
}

int weir_sim_host_socket(struct weir_sim_host *host, int *ret_fd, int family)
{
	struct end *e;
	int err;

	if (family != AF_UNIX && family != AF_INET && family != AF_INET6)
		return why(-EAFNOSUPPORT, "weir_sim_host_socket: sockets of "
			   "family %d are not simulated", family);
	err = weir_sim_socket(host->sim, ret_fd, host->name);
	if (!err && !find_end(*ret_fd, &e))
		e->family = family;
	return err;
}

int weir_sim_getpeername(int fd, struct sockaddr *addr, socklen_t *len)
{
	struct sockaddr_storage all;
	socklen_t n = sizeof(all);
	int err = sim_socket_peer(fd, &all, &n);

	if (err)
		return err;
	memcpy(addr, &all, n < *len ? n : *len);
	*len = n;
	return 0;
}

int weir_sim_poll(int fd, uint32_t events)
{
	struct sim_fd *f = sim_fd_find(fd);
	int64_t res;

	if (!f)
		return -EBADF;
	if (f->dead)
		return WEIR_ERROR;
	res = sim_poll_now(f, events);
	return res == SIM_NOT_YET ? 0 : (int)res;
}

int weir_sim_take_error(int fd)
{
	struct end *e;
	int err = find_end(fd, &e);

	if (err)
		return err == -ENOTCONN ? 0 : err;
	err = e->err;
	e->err = 0;
	return err;
}

int weir_sim_close_resets(int fd, int on)
{
	struct end *e;
	int err = find_end(fd, &e);

	if (!err)
		e->resets = on;
	return err == -ENOTCONN ? 0 : err;
}

/* Connecting. */

static void fail(struct end *e, int err)
{
	sim_trace(e->f.sim, "'%s' cannot connect to '%s': %s", e->name, e->to,
		  err == -ETIMEDOUT ? "no answer" : "refused");
	e->state = END_IDLE;
	e->err = err;
	sim_fd_changed(&e->f);
}

static void refuse_fire(struct weir_sim *sim, struct sim_event *ev)
{
	(void)sim;
	fail(weir_container_of(ev, struct end, call), -ECONNREFUSED);
}

/* The answer takes as long as the request did. */
static void refuse(struct end *e)
{
	uint64_t ns = sim_latency(e->f.sim, WEIR_SIM_WIRE);

	e->call.fire = refuse_fire;
	if (ns)
		sim_at(e->f.sim, &e->call, ns);
	else
		fail(e, -ECONNREFUSED);
}

static int enter_queue(struct sockets *s, struct end *e, struct listener *l)
{
	struct end *peer;

	if (l->n >= l->backlog)
		return -ECONNREFUSED;
	peer = end_new(s, l->name);
	if (!peer)
		return -ENOMEM;
	peer->f.cls = &socket_class;
	peer->family = l->family;
	if (!conn_new(s, e, peer)) {
		end_free(peer);
		return -ENOMEM;
	}
	peer->state = END_UP;
	*l->last = peer;
	l->last = &peer->next_waiting;
	l->n++;
	return 0;
}

/* Nothing comes back from there. */
static bool is_unreachable(const struct sockets *s, const struct end *e)
{
	struct weir_sim_host *from = e->f.host;
	struct weir_sim_host *to = sim_host_named(s->sim, e->to);

	return sockets_parted(s, e->name, e->to) ||
	       (to && to->state == WEIR_SIM_HOST_OFF) ||
	       (from && to && (sim_link_is_cut(sim_link(from, to)) ||
			       sim_link_is_cut(sim_link(to, from))));
}

static void call_arrives(struct weir_sim *sim, struct end *e)
{
	struct sockets *s = sockets_of(sim);
	struct listener *l = listener_find(s, e->to);

	if (is_unreachable(s, e)) {
		if (e->tries == TRIES)
			fail(e, -ETIMEDOUT);
		else
			sim_at(sim, &e->call, WEIR_SEC << e->tries++);
		return;
	}
	if (!l || enter_queue(s, e, l)) {
		refuse(e);
		return;
	}
	sim_trace(sim, "connection %llu: '%s' to '%s'",
		  (unsigned long long)e->conn->serial, e->name, e->to);
	sim_fd_changed(&l->f);
	conn_trouble(e->conn);
	flow_tell(&e->conn->flow[1], PART_UP);
}

static void call_fire(struct weir_sim *sim, struct sim_event *ev)
{
	struct end *e = weir_container_of(ev, struct end, call);
	struct weir_sim_host *outer = sim_enter(sim, e->f.host);

	call_arrives(sim, e);
	sim_enter(sim, outer);
}

static void call_up(struct end *e)
{
	struct weir_sim *sim = e->f.sim;
	uint64_t ns = sim_latency(sim, WEIR_SIM_WIRE);
	uint64_t stalled = wire_stall(sim, e->name);

	/* A lost request is sent again. */
	if (stalled)
		ns += stalled == WEIR_FOREVER ? 3 * WEIR_SEC :
						stalled - sim->now_ns;
	e->state = END_CALLING;
	e->err = 0;
	e->tries = 0;
	e->call.fire = call_fire;
	if (ns)
		sim_at(sim, &e->call, ns);
	else
		call_fire(sim, &e->call);
}

/* As the kernel gives a socket an address when it needs one. */
static void take_port(struct end *e)
{
	size_t len = strlen(e->name);

	if (e->family == AF_UNIX || e->bound || strchr(e->name, ':'))
		return;
	snprintf(e->name + len, sizeof(e->name) - len, ":%u",
		 PORT_FIRST + (unsigned int)(sockets_of(e->f.sim)->ports++ %
					     PORTS));
}

/* 0, -EINPROGRESS, or the error. */
static int end_call(struct end *e, const struct sockaddr *addr, size_t len)
{
	int err;

	if (e->state == END_UP || e->state == END_BROKEN)
		return -EISCONN;
	if (e->state == END_CALLING)
		return -EALREADY;
	err = address_name(&e->f, addr, len, false, e->to);
	if (err)
		return err;
	take_port(e);
	call_up(e);
	if (e->state == END_CALLING)
		return -EINPROGRESS;
	err = e->err;
	e->err = 0;
	return err;
}

static int64_t begin_connect(struct end *e, struct weir_op *op)
{
	int err = end_call(e, (const struct sockaddr *)(uintptr_t)
			   op->u.io.addr, op->u.io.len);

	if (err != -EINPROGRESS && err != -EALREADY)
		return err;
	/* It now waits for the answer. */
	op->u.io.seg = 1;
	return SIM_NOT_YET;
}

int64_t end_connect(struct end *e, struct weir_op *op)
{
	int err = e->err;

	if (!op->u.io.seg)
		return begin_connect(e, op);
	switch (e->state) {
	case END_CALLING:
		return SIM_NOT_YET;
	case END_UP:
		return 0;
	default:
		e->err = 0;
		return err ? err : -ECONNREFUSED;
	}
}
