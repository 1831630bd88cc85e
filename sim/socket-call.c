/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls on sockets that programs make without a reactor, at once. */

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <weir/watch.h>

#include "base/why.h"
#include "sim/socket.h"

#define PORT_FIRST 49152u	/* Of those that a bind chooses. */
#define PORT_LAST 65535u
#define PAGE 4096u
#define PIPE_MAX (1u << 20)	/* Of a user without privileges. */

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

/* A port that is free: @name ends with ":0". */
static int choose_port(const struct sockets *s, char *name)
{
	char *port = strrchr(name, ':') + 1;
	size_t room = WEIR_SIM_NAME_MAX - (size_t)(port - name);

	for (uint32_t n = PORT_FIRST; n <= PORT_LAST; n++) {
		if (snprintf(port, room, "%u", n) >= (int)room)
			return -EINVAL;
		if (!listener_find(s, name))
			return 0;
	}
	return -EADDRINUSE;
}

int weir_sim_bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	char name[WEIR_SIM_NAME_MAX];
	const struct sockets *s;
	struct end *e;
	size_t n;
	int err = find_end(fd, &e);

	if (err)
		return err == -ENOTCONN ? -EINVAL : err;
	if (e->state != END_IDLE || e->bound || !addr ||
	    len < sizeof(addr->sa_family))
		return -EINVAL;
	if (addr->sa_family != e->family)
		return -EAFNOSUPPORT;
	s = sockets_of(e->f.sim);
	err = address_name(e, addr, len, true, name);
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
	struct end *e;
	int err;

	if (l)
		return give(l->f.sim, l->name, l->family, addr, len);
	err = find_end(fd, &e);
	return err ? err : give(e->f.sim, e->name, e->family, addr, len);
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

int weir_sim_pipe_size(int fd, uint32_t bytes)
{
	struct sim_fd *f = sim_fd_find(fd);
	struct end *e;
	uint32_t size = PAGE;

	if (!f || f->cls != &pipe_class)
		return -EBADF;
	if (bytes > PIPE_MAX)
		return -EPERM;
	e = end_of(f);
	while (size < bytes)
		size *= 2;
	size = bytes ? size : 0;
	if (pipe_resize(e->conn, size) < size)
		return -EBUSY;
	return (int)pipe_resize(e->conn, 0);
}
