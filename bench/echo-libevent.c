/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The echo server on libevent, a program of its own: libev has functions of the
 * same names, so that both cannot be in one.
 *
 *	echo-libevent FD	serve the listening socket FD
 */

#include <errno.h>
#include <event2/event.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/echo.h"

static struct event_base *base;

static void on_data(evutil_socket_t fd, short what, void *arg)
{
	static char buf[ECHO_BUF];
	struct event **e = arg;
	ssize_t n = recv(fd, buf, sizeof(buf), 0);

	(void)what;
	if (n > 0 && send(fd, buf, (size_t)n, MSG_NOSIGNAL) == n)
		return;
	if (n < 0 && errno == EAGAIN)
		return;
	event_free(*e);
	free(e);
	close(fd);
}

static void on_conn(evutil_socket_t listener, short what, void *arg)
{
	int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct event **e = calloc(1, sizeof(*e));
	int on = 1;

	(void)what;
	(void)arg;
	if (fd < 0 || !e) {
		free(e);
		return;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	*e = event_new(base, fd, EV_READ | EV_PERSIST, on_data, e);
	event_add(*e, NULL);
}

int main(int argc, char **argv)
{
	int fd = argc == 2 ? atoi(argv[1]) : -1;
	struct event *listener;

	base = event_base_new();
	if (!base || fd < 0)
		return 2;
	listener = event_new(base, fd, EV_READ | EV_PERSIST, on_conn, NULL);
	event_add(listener, NULL);
	return event_base_dispatch(base) ? 1 : 0;
}
