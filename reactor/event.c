/* SPDX-License-Identifier: BSD-3-Clause */
/* A counter that any thread may add to: an eventfd, watched. */

#include <weir/watch.h>

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/why.h"
#include "reactor/op-inline.h"
#include "reactor/source.h"

struct weir_event {
	struct source source;
	weir_event_fn *fn;
	void *arg;
	int fd;
};

/* A read takes the whole sum.  It is 0 if another reader was first, or if the counter
 * cannot be watched and nothing was signalled. */
static void deliver(struct source *s, int64_t res, int rx_id)
{
	struct weir_event *e = weir_container_of(s, struct weir_event, source);
	eventfd_t n;

	(void)res, (void)rx_id;
	if (fd_is_virtual(e->fd))
		n = vfd_ops->counters->take(e->fd);
	else if (eventfd_read(e->fd, &n))
		n = 0;
	if (n)
		e->fn(e, n, e->arg);
}

static void release(struct source *s)
{
	free(weir_container_of(s, struct weir_event, source));
}

static int open_fd(struct weir_reactor *r)
{
	int fd;

	if (fault("eventfd"))
		return -EMFILE;
	if (r->backend->counter_open)
		return r->backend->counter_open(r);
	fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return fd < 0 ? -errno : fd;
}

static void close_fd(int fd)
{
	if (fd_is_virtual(fd))
		vfd_ops->close(fd);
	else
		close(fd);
}

static int event_open(struct weir_event *e, struct weir_reactor *r)
{
	int err;

	e->fd = open_fd(r);
	if (e->fd < 0)
		return why_no_fd(e->fd, "weir_event_create", "an eventfd");
	e->source.deliver = deliver;
	e->source.release = release;
	e->source.events = WEIR_READABLE | WEIR_EDGE;
	err = source_init(&e->source, r, "weir_event", SOURCE_WATCH, e->fd);
	if (err) {
		close_fd(e->fd);
		return err;
	}
	return 0;
}

int weir_event_create(struct weir_event **ret, struct weir_reactor *r,
		      weir_event_fn *fn, void *arg)
{
	struct weir_event *e;
	int err;

	if (!fn)
		return why(-EINVAL, "weir_event_create: no callback");
	e = mem_calloc(1, sizeof(*e));
	if (!e)
		return why(-ENOMEM, "weir_event_create: no memory");
	e->fn = fn;
	e->arg = arg;
	err = event_open(e, r);
	if (err) {
		free(e);
		return err;
	}
	err = source_arm(&e->source);
	if (err) {
		weir_event_destroy(e);
		return why(err, "weir_event_create: no capacity to watch it");
	}
	*ret = e;
	return 0;
}

void weir_event_signal(struct weir_event *event)
{
	int saved = errno;

	/* If the counter is full (2^64 - 2), the callback is due anyway. */
	if (fd_is_virtual(event->fd))
		vfd_ops->counters->add(event->fd, 1);
	else
		(void)eventfd_write(event->fd, 1);
	errno = saved;
}

int weir_event_fd(const struct weir_event *event)
{
	return event->fd;
}

void weir_event_destroy(struct weir_event *event)
{
	int fd;

	if (!event)
		return;
	fd = event->fd;
	source_destroy(&event->source);
	close_fd(fd);
}
