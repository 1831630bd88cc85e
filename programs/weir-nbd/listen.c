/* SPDX-License-Identifier: CC0-1.0 */
/* Where clients come in, and to which core they go. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/un.h>
#include <unistd.h>

#include "../common/listen-unix.h"
#include "weir-nbd.h"

#define BACKLOG 128
#define FIRST_FD 3	/* Of those that a service manager hands over. */

/* The core with the fewest connections; or, if there are as many as there may
 * be, the one with the most handshakes, one of which may make way. */
static struct core *choose(struct server *server, bool *full)
{
	struct core *least = &server->cores[0], *most = NULL;
	uint32_t all = 0, max = 0;

	for (uint32_t i = 0; i < server->n_cores; i++) {
		struct core *core = &server->cores[i];
		uint32_t hellos = atomic_load(&core->n_hellos);

		all += core->n_conns;
		if (core->n_conns < least->n_conns)
			least = core;
		if (hellos > max) {
			max = hellos;
			most = core;
		}
	}
	*full = all >= server->opts.connections;
	return *full ? most : least;
}

/* Of TCP; others do not know it.  A host that is gone does not say so, and
 * would keep its connection for ever. */
static void set_up(int fd)
{
	static const struct { int level, name, value; } all[] = {
		{ IPPROTO_TCP, TCP_NODELAY, 1 },
		{ SOL_SOCKET, SO_KEEPALIVE, 1 },
		{ IPPROTO_TCP, TCP_KEEPIDLE, 60 },
		{ IPPROTO_TCP, TCP_KEEPINTVL, 10 },
		{ IPPROTO_TCP, TCP_KEEPCNT, 6 },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		setsockopt(fd, all[i].level, all[i].name, &all[i].value,
			   sizeof(all[i].value));
}

/* Returns NULL, or why the client of @fd is refused. */
static const char *hand_over(struct server *server, int fd)
{
	bool full;
	struct core *core = choose(server, &full);
	struct peer *peer;
	struct conn *c;

	if (!core)
		return conn_too_many;
	if (peer_get(&peer, server, fd))
		return "too many addresses are connected";
	c = conn_make(server, core, peer, fd);
	if (!c) {
		peer_put(peer);
		return "there is no memory";
	}
	c->displaces = full;
	set_up(fd);
	if (!weir_post(core->reactor, conn_adopt, c))
		return NULL;
	conn_unmake(c);
	return "its core has too much to do";
}

static void on_accept(struct weir_acceptor *acceptor, int fd, void *arg)
{
	struct server *server = arg;
	const char *why;

	(void)acceptor;
	if (fd < 0) {
		say("take a connection", fd);
		return;
	}
	why = hand_over(server, fd);
	if (why) {
		peer_refuse(&server->cores[0], fd, why);
		close(fd);
	}
}

/* On core 0. */
int listen_begin(struct server *server)
{
	int err = 0;

	for (uint32_t i = 0; i < server->n_listeners && !err; i++)
		err = weir_acceptor_create(&server->acceptors[i],
					   server->cores[0].reactor,
					   server->listeners[i], on_accept,
					   server);
	return err;
}

void listen_end(struct server *server)
{
	for (uint32_t i = 0; i < server->n_listeners; i++) {
		weir_acceptor_destroy(server->acceptors[i]);
		server->acceptors[i] = NULL;
	}
}

static void add(struct server *server, int fd)
{
	server->listeners[server->n_listeners++] = fd;
}

/* Sockets that a service manager has made for us: see sd_listen_fds(3). */
static int open_handed(struct server *server)
{
	const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
	long n = fds ? strtol(fds, NULL, 10) : 0;

	if (!pid || strtol(pid, NULL, 10) != getpid() || n < 1)
		return 0;
	if (n > LISTENERS_MAX) {
		fprintf(stderr, "weir-nbd: LISTEN_FDS=%ld: at most %u\n", n,
			LISTENERS_MAX);
		return -E2BIG;
	}
	for (int i = 0; i < n; i++)
		add(server, FIRST_FD + i);
	return 0;
}

/* It is the owner's alone. */
static int open_unix(struct server *server)
{
	int fd, err;

	err = listen_unix_wait(&fd, server->opts.unix_path, 0600, BACKLOG);
	if (err) {
		say(server->opts.unix_path, err);
		return err;
	}
	server->unix_made = true;
	add(server, fd);
	return 0;
}

static int open_tcp(struct server *server)
{
	const struct opts *o = &server->opts;
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
				  .ai_flags = AI_PASSIVE | AI_NUMERICSERV };
	struct addrinfo *list;
	int fd, err = getaddrinfo(o->address, o->port, &hints, &list);

	if (err) {
		fprintf(stderr, "weir-nbd: %s: %s\n", o->address,
			gai_strerror(err));
		return -EADDRNOTAVAIL;
	}
	err = weir_listen(&fd, list->ai_addr, list->ai_addrlen, BACKLOG,
			  WEIR_LISTEN_WAIT);
	freeaddrinfo(list);
	if (err) {
		fprintf(stderr, "weir-nbd: %s port %s: %s\n", o->address,
			o->port, strerror(-err));
		return err;
	}
	add(server, fd);
	return 0;
}

int listen_open(struct server *server)
{
	const struct opts *o = &server->opts;
	int err = open_handed(server);

	if (!err && o->unix_path)
		err = open_unix(server);
	if (!err && (o->tcp || !server->n_listeners))
		err = open_tcp(server);
	return err;
}

/* From now on the kernel refuses clients, and the name is free for another
 * server. */
void listen_close(struct server *server)
{
	/* Once the socket is closed, the name may be another server's. */
	if (server->unix_made)
		unlink(server->opts.unix_path);
	server->unix_made = false;
	for (uint32_t i = 0; i < server->n_listeners; i++)
		close(server->listeners[i]);
	server->n_listeners = 0;
}

/* One line for each, for people and scripts. */
void listen_say(const struct server *server)
{
	if (server->opts.quiet)
		return;
	for (uint32_t i = 0; i < server->n_listeners; i++) {
		union {
			struct sockaddr any;
			struct sockaddr_un un;
			struct sockaddr_storage capacity;
		} a = { .capacity = { 0 } };
		socklen_t len = sizeof(a);
		char host[64], port[8];

		if (getsockname(server->listeners[i], &a.any, &len))
			continue;
		if (a.any.sa_family == AF_UNIX)
			printf("listening at %s\n", a.un.sun_path);
		else if (!getnameinfo(&a.any, len, host, sizeof(host), port,
				      sizeof(port),
				      NI_NUMERICHOST | NI_NUMERICSERV))
			printf("listening at %s port %s\n", host, port);
	}
	fflush(stdout);
}
