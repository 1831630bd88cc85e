/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of <weir/sim/socket.h>: descriptors, and what needs no reactor. */

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/opts.h"
#include "base/why.h"
#include "sim/socket.h"

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
		return why(-EADDRINUSE, "weir_sim_listen: somebody listens at "
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

/* A socket that can be connected: *@ret, or an errno. */
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

int weir_sim_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
	struct end *e;
	int err = find_end(fd, &e);

	if (err)
		return err == -ENOTCONN ? -EINVAL : err;
	if (!addr || len < sizeof(addr->sa_family))
		return -EINVAL;
	return end_call(e, addr, len);
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
	sim_fd_close(f);
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
