/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections from a listening socket, as many as come. */

#include <weir/socket.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/why.h"
#include "reactor/backend.h"
#include "reactor/op-inline.h"
#include "reactor/source.h"

#define PAUSE_NS (100 * WEIR_MSEC)

/*
 * While it is paused, connections that the kernel had accepted for it before
 * are kept, and handed out in a later turn after the resume.
 */
struct weir_acceptor {
	struct source source;
	struct weir_timer_node pause;	/* After a shortage. */
	weir_acceptor_fn *fn;
	void *arg;
	int current;		/* The callback's connection, or -1. */
	bool *gone;		/* In the callback: set if it is destroyed. */
	bool paused;
	bool ended;		/* After an error. */
	bool destroyed;		/* .resume is in flight, and frees it. */
	struct weir_op resume;	/* Its callback hands out those kept. */
	int *kept;
	uint32_t first, n_kept, kept_max;
};

static void close_connection(int fd)
{
	if (fd_is_virtual(fd))
		vfd_ops->close(fd);
	else
		close(fd);
}

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

/* Returns whether it was not destroyed meanwhile. */
static bool call(struct weir_acceptor *a, int fd)
{
	bool gone = false;

	a->current = fd;
	a->gone = &gone;
	a->fn(a, fd, a->arg);
	if (gone)
		return false;
	a->current = -1;
	a->gone = NULL;
	return true;
}

static void pause_over(struct weir_timer_node *node)
{
	struct weir_acceptor *a = weir_container_of(node, struct weir_acceptor,
						    pause);
	int err = source_arm(&a->source);

	if (!err)
		return;
	a->ended = true;
	call(a, err);
}

/* If there is no memory to keep it the peer sees a close. */
static void keep(struct weir_acceptor *a, int fd)
{
	uint32_t max = a->kept_max ? 2 * a->kept_max : 16;
	int *kept;

	if (a->n_kept == a->kept_max) {
		kept = mem_calloc(max, sizeof(*kept));
		if (!kept) {
			close_connection(fd);
			return;
		}
		if (a->kept)
			memcpy(kept, a->kept, a->n_kept * sizeof(*kept));
		free(a->kept);
		a->kept = kept;
		a->kept_max = max;
	}
	a->kept[a->n_kept++] = fd;
}

static void deliver(struct source *s, int64_t res, int rx_id)
{
	struct weir_acceptor *a = weir_container_of(s, struct weir_acceptor,
						    source);
	struct weir_reactor *r = s->reactor;

	(void)rx_id;
	if (res >= 0 && (a->paused || a->n_kept)) {
		keep(a, (int)res);
		return;
	}
	if (is_the_connections(res) && !source_arm(s))
		return;
	if (is_shortage(res)) {
		wheel_rearm(&r->wheel, &a->pause, reactor_now(r) + PAUSE_NS);
	} else if (res < 0) {
		a->ended = true;
		source_disarm(s);
	}
	call(a, (int)res);
}

static void acceptor_free(struct weir_acceptor *a)
{
	while (a->first < a->n_kept)
		close_connection(a->kept[a->first++]);
	free(a->kept);
	free(a);
}

static void release(struct source *s)
{
	struct weir_acceptor *a = weir_container_of(s, struct weir_acceptor,
						    source);

	if (weir_op_is_busy(&a->resume))
		a->destroyed = true;
	else
		acceptor_free(a);
}

static bool is_silent(const struct weir_acceptor *a)
{
	return a->paused || a->source.reactor->state != WEIR_REACTOR_RUNNING;
}

/* In the order in which they came.  The callback may pause or destroy it. */
static void on_resume(struct weir_op *op, int64_t res)
{
	struct weir_acceptor *a = weir_container_of(op, struct weir_acceptor,
						    resume);

	(void)res;
	if (a->destroyed) {
		acceptor_free(a);
		return;
	}
	while (!is_silent(a) && a->first < a->n_kept)
		if (!call(a, a->kept[a->first++]))
			return;
	if (a->first == a->n_kept)
		a->first = a->n_kept = 0;
}

static void hand_out_later(struct weir_acceptor *a)
{
	if (a->n_kept && !weir_op_is_busy(&a->resume))
		op_defer(a->source.reactor, &a->resume);
}

static void on_start(struct reactor_obj *obj)
{
	struct weir_acceptor *a = weir_container_of(obj, struct weir_acceptor,
						    source.obj);

	if (!a->paused)
		hand_out_later(a);
	source_start(obj);
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
	a->current = -1;
	weir_op_init(&a->resume, on_resume);
	err = source_init(&a->source, r, "weir_acceptor", SOURCE_ACCEPT, fd);
	if (err) {
		free(a);
		return err;
	}
	a->source.obj.start = on_start;
	err = source_arm(&a->source);
	if (err) {
		source_destroy(&a->source);
		return why(err, "weir_acceptor_create: no capacity for descriptor "
			   "%d", fd);
	}
	*ret = a;
	return 0;
}

int weir_acceptor_set(struct weir_acceptor *acceptor, int on)
{
	struct source *s = &acceptor->source;
	int err;

	reactor_check_thread(s->reactor);
	if (s->reactor->attention & ATTENTION_STOPPING)
		return why(-ESHUTDOWN, "weir_acceptor_set: the reactor is "
			   "stopping or stopped");
	if (acceptor->paused == !on)
		return 0;
	if (!on) {
		/* What the kernel has accepted by then still comes. */
		wheel_del(&s->reactor->wheel, &acceptor->pause);
		acceptor->paused = true;
		s->keeps = true;
		source_disarm(s);
		return 0;
	}
	err = acceptor->ended ? 0 : source_arm(s);
	if (err)
		return why(err, "weir_acceptor_set: no capacity for descriptor "
			   "%d; the acceptor is still paused", s->fd);
	s->keeps = false;
	acceptor->paused = false;
	hand_out_later(acceptor);
	return 0;
}

int weir_acceptor_peer(const struct weir_acceptor *acceptor,
		       struct sockaddr_storage *ret, socklen_t *ret_len)
{
	socklen_t len = sizeof(*ret);
	int fd = acceptor->current, err = 0;

	if (!ret || !ret_len)
		return why(-EINVAL, "weir_acceptor_peer: nowhere to put the "
			   "address: a pointer is NULL");
	if (fd < 0)
		return why(-EINVAL, "weir_acceptor_peer: there is no "
			   "connection: call it in the callback, for one");
	if (fd_is_virtual(fd))
		err = vfd_ops->peer(fd, ret, &len);
	else if (getpeername(fd, (struct sockaddr *)ret, &len))
		err = -errno;
	if (err)
		return why(err, "weir_acceptor_peer: the peer of descriptor %d "
			   "is not known: %s", fd, strerror(-err));
	*ret_len = len;
	return 0;
}

void weir_acceptor_destroy(struct weir_acceptor *acceptor)
{
	if (!acceptor)
		return;
	if (acceptor->gone)
		*acceptor->gone = true;
	acceptor->gone = NULL;
	wheel_del(&acceptor->source.reactor->wheel, &acceptor->pause);
	source_destroy(&acceptor->source);
}
