/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections from a listening socket, as many as come. */

#include <weir/socket.h>

#include <stdlib.h>

#include "base/alloc.h"
#include "base/why.h"
#include "reactor/op-inline.h"
#include "reactor/source.h"

#define PAUSE_NS (100 * WEIR_MSEC)

struct weir_acceptor {
	struct source source;
	struct weir_timer_node pause;
	weir_acceptor_fn *fn;
	void *arg;
};

/* Errors that pass when a descriptor is closed or memory freed. */
static bool is_shortage(int64_t err)
{
	return err == -EMFILE || err == -ENFILE || err == -ENOBUFS ||
	       err == -ENOMEM;
}

/* The connection has failed before the accept: see accept(2). */
static bool is_the_connections(int64_t err)
{
	return err == -ECONNABORTED || err == -EINTR || err == -EPROTO ||
	       err == -EPERM || err == -ENETDOWN || err == -ENETUNREACH ||
	       err == -EHOSTDOWN || err == -EHOSTUNREACH || err == -EAGAIN;
}

static void pause_over(struct weir_timer_node *node)
{
	struct weir_acceptor *a = weir_container_of(node, struct weir_acceptor,
						    pause);
	int err = source_arm(&a->source);

	if (err)
		a->fn(a, err, a->arg);
}

static void deliver(struct source *s, int64_t res, int rx_id)
{
	struct weir_acceptor *a = weir_container_of(s, struct weir_acceptor,
						    source);
	struct weir_reactor *r = s->reactor;

	(void)rx_id;
	if (is_the_connections(res) && !source_arm(s))
		return;
	if (is_shortage(res))
		wheel_rearm(&r->wheel, &a->pause, reactor_now(r) + PAUSE_NS);
	else if (res < 0)
		source_disarm(s);
	a->fn(a, (int)res, a->arg);
}

static void release(struct source *s)
{
	free(weir_container_of(s, struct weir_acceptor, source));
}

static int check_fd(struct weir_reactor *r, int fd)
{
	socklen_t len = sizeof(int);
	int listens = 0;

	if (r->backend->check_fd)
		return r->backend->check_fd(r, SOURCE_ACCEPT, fd,
					    "weir_acceptor_create");
	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len))
		return why(-errno, "weir_acceptor_create: descriptor %d is not "
			   "a socket", fd);
	if (!listens)
		return why(-EINVAL, "weir_acceptor_create: descriptor %d does "
			   "not listen; see weir_listen()", fd);
	return 0;
}

int weir_acceptor_create(struct weir_acceptor **ret, struct weir_reactor *r,
			 int fd, weir_acceptor_fn *fn, void *arg)
{
	struct weir_acceptor *a;
	int err;

	if (!fn)
		return why(-EINVAL, "weir_acceptor_create: no callback");
	err = check_fd(r, fd);
	if (err)
		return err;
	a = mem_calloc(1, sizeof(*a));
	if (!a)
		return why(-ENOMEM, "weir_acceptor_create: no memory");
	a->fn = fn;
	a->arg = arg;
	a->pause.fire = pause_over;
	a->source.deliver = deliver;
	a->source.release = release;
	err = source_init(&a->source, r, "weir_acceptor", SOURCE_ACCEPT, fd);
	if (err) {
		free(a);
		return err;
	}
	err = source_arm(&a->source);
	if (err) {
		source_destroy(&a->source);
		return why(err, "weir_acceptor_create: no capacity for descriptor "
			   "%d", fd);
	}
	*ret = a;
	return 0;
}

void weir_acceptor_destroy(struct weir_acceptor *acceptor)
{
	if (!acceptor)
		return;
	wheel_del(&acceptor->source.reactor->wheel, &acceptor->pause);
	source_destroy(&acceptor->source);
}
