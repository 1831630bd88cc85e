/* SPDX-License-Identifier: BSD-3-Clause */
/* The common part of what delivers again and again; states in the header. */

#include "reactor/source.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <weir/watch.h>

#include "base/fault.h"
#include "base/why.h"
#include "reactor/io.h"
#include "reactor/op-inline.h"

static void source_stop(struct reactor_obj *obj)
{
	struct source *s = weir_container_of(obj, struct source, obj);

	if (s->armed)
		s->reactor->backend->disarm(s->reactor, s);
}

void source_start(struct reactor_obj *obj)
{
	struct source *s = weir_container_of(obj, struct source, obj);
	int err;

	if (!s->wanted || s->armed)
		return;
	err = fault_choice("source_start") ? -ENOMEM :
	      s->reactor->backend->arm(s->reactor, s);
	if (err)
		s->deliver(s, err, -1);
}

static void source_abandon(struct reactor_obj *obj)
{
	source_destroy(weir_container_of(obj, struct source, obj));
}

int source_init(struct source *s, struct weir_reactor *r, const char *what,
		enum source_kind kind, int fd)
{
	s->reactor = r;
	s->kind = kind;
	s->fd = fd;
	s->obj.stop = source_stop;
	s->obj.start = source_start;
	s->obj.abandon = source_abandon;
	return reactor_attach(r, &s->obj, what);
}

int source_set_open(struct source *s)
{
	struct epoll_event ev = {
		.events = (uint32_t)io_poll_mask(s->events & ~WEIR_EDGE) |
			  (s->events & WEIR_EDGE ? EPOLLET : 0),
	};
	int fd = fault("epoll_create") ? (errno = EMFILE, -1) :
					 epoll_create1(EPOLL_CLOEXEC);
	int err;

	debug_check(s->kind == SOURCE_WATCH && !s->set);
	if (fd < 0)
		return -errno;
	if (epoll_ctl(fd, EPOLL_CTL_ADD, s->fd, &ev)) {
		err = -errno;
		close(fd);
		return err;
	}
	s->set = fd + 1;
	return 0;
}

void source_set_close(struct source *s)
{
	if (s->set)
		close(s->set - 1);
	s->set = 0;
}

int64_t source_set_take(struct source *s)
{
	struct pollfd p = { .fd = s->fd, .events = io_poll_mask(s->events) };
	struct epoll_event taken;

	debug_check(s->set);
	if (s->events & WEIR_EDGE && epoll_wait(s->set - 1, &taken, 1, 0) <= 0)
		return -EAGAIN;
	if (poll(&p, 1, 0) <= 0)
		return -EAGAIN;
	if (p.revents & POLLNVAL)
		return -EBADF;
	return io_poll_events(p.revents, s->events);
}

/* A character device may have no poll: only epoll_ctl(2) tells. */
static bool device_has_poll(int fd)
{
	struct epoll_event ev = { .events = EPOLLIN };
	int epoll = fault("epoll_create") ? -1 : epoll_create1(EPOLL_CLOEXEC);
	bool ret;

	if (epoll < 0)
		return true; /* Not known; the backend detects it. */
	ret = !epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev) || errno != EPERM;
	close(epoll);
	return ret;
}

int source_check_fd(struct weir_reactor *r, int fd, const char *call)
{
	struct stat st;

	if (r->backend->check_fd)
		return r->backend->check_fd(r, SOURCE_WATCH, fd, call);
	if (fstat(fd, &st))
		return why(-errno, "%s: descriptor %d is not open", call, fd);
	if (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode) ||
	    S_ISBLK(st.st_mode) ||
	    (S_ISCHR(st.st_mode) && !device_has_poll(fd)))
		return why(-EPERM, "%s: descriptor %d is always ready (a file, "
			   "say); read it with weir_read()", call, fd);
	return 0;
}

int source_arm(struct source *s)
{
	struct weir_reactor *r = s->reactor;
	int err = 0;

	if (r->attention & ATTENTION_STOPPING)
		return -ESHUTDOWN;
	if (!s->armed)
		err = r->backend->arm(r, s);
	if (!err)
		s->wanted = true;
	reactor_touch(r);
	return err;
}

void source_disarm(struct source *s)
{
	s->wanted = false;
	if (s->armed)
		s->reactor->backend->disarm(s->reactor, s);
	reactor_touch(s->reactor);
}

void source_destroy(struct source *s)
{
	source_disarm(s);
	if (s->obj.pprev)
		reactor_detach(&s->obj);
	if (!s->engaged) {
		s->release(s);
		return;
	}
	s->zombie = true;
	s->reactor->n_zombies++;
}

void source_unref(struct source *s)
{
	if (!s->zombie || s->engaged)
		return;
	debug_check(s->reactor->n_zombies > 0);
	s->reactor->n_zombies--;
	s->release(s);
}
