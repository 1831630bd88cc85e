/* SPDX-License-Identifier: BSD-3-Clause */
/* Readiness of a descriptor. */

#include <weir/watch.h>

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/why.h"
#include "reactor/group/deferred.h"
#include "reactor/io.h"
#include "reactor/op-inline.h"
#include "reactor/source.h"

#define ASKED \
	(WEIR_READABLE | WEIR_WRITABLE | WEIR_PRI | WEIR_RDHUP | WEIR_EDGE)

/* A descriptor of the system in a world, which has none of those itself. */
struct foreign {
	struct observer observer;
	struct deferred deferred;
	struct weir_watch *watch;
};

struct weir_watch {
	struct source source;
	struct foreign *foreign;	/* NULL: the backend watches. */
	bool through_stop;
	weir_watch_fn *fn;
	void *arg;
};

/*
 * An error that the backend cannot recover from ends the watch, and is reported
 * once.
 */
static void deliver(struct source *s, int64_t res, int rx_id)
{
	struct weir_watch *w = weir_container_of(s, struct weir_watch, source);

	(void)rx_id;
	w->fn(w, res < 0 ? WEIR_ERROR : (uint32_t)res, w->arg);
}

static void release(struct source *s)
{
	free(weir_container_of(s, struct weir_watch, source));
}

/* Some time after every other event of the world. */
static void observe(struct observer *observer)
{
	struct foreign *f = weir_container_of(observer, struct foreign,
					      observer);
	struct source *s = &f->watch->source;
	struct pollfd p = { .fd = s->fd, .events = io_poll_mask(s->events) };

	if (s->events && poll(&p, 1, 0) > 0)
		deferred_send(&f->deferred);
}

static void observed(struct deferred *deferred)
{
	struct foreign *f = weir_container_of(deferred, struct foreign,
					      deferred);
	struct weir_watch *w = f->watch;
	struct pollfd p = { .fd = w->source.fd,
			    .events = io_poll_mask(w->source.events) };

	if (!w->source.events || poll(&p, 1, 0) <= 0)
		return;
	/* It may destroy the watch. */
	w->source.reactor->delivered++;
	w->fn(w, io_poll_events(p.revents, w->source.events), w->arg);
}

static int observe_begin(struct weir_watch *w)
{
	struct weir_reactor *r = w->source.reactor;

	w->foreign = mem_calloc(1, sizeof(*w->foreign));
	if (!w->foreign)
		return -ENOMEM;
	w->foreign->watch = w;
	w->foreign->observer.fn = observe;
	deferred_init(&w->foreign->deferred, r, observed);
	r->backend->observe(r, &w->foreign->observer);
	return 0;
}

static void observe_end(struct weir_watch *w)
{
	if (!w->foreign)
		return;
	observer_del(&w->foreign->observer);
	w->source.events = 0;
	deferred_finish(&w->foreign->deferred);
	free(w->foreign);
}

static bool is_foreign(const struct weir_reactor *r, int fd, uint32_t events)
{
	return events & WEIR_THROUGH_STOP && r->backend->observe &&
	       !fd_is_virtual(fd);
}

/* From now on for @events: 0 or a negative errno. */
static int set(struct weir_watch *w, uint32_t events)
{
	struct source *s = &w->source;

	if (w->foreign) {
		s->events = events;
		return 0;
	}
	source_disarm(s);
	s->events = events;
	return events & ~WEIR_EDGE ? source_arm(s) : 0;
}

static int begin(struct weir_watch *w, struct weir_reactor *r, int fd,
		 uint32_t events)
{
	int err = source_init(&w->source, r, "weir_watch", SOURCE_WATCH, fd);

	if (err)
		return err;
	w->through_stop = events & WEIR_THROUGH_STOP;
	if (w->through_stop)
		w->source.obj.stop = w->source.obj.start = NULL;
	if (is_foreign(r, fd, events))
		err = observe_begin(w);
	if (!err)
		err = set(w, events & ~WEIR_THROUGH_STOP);
	if (!err)
		return 0;
	observe_end(w);
	reactor_detach(&w->source.obj);
	return why(err, "weir_watch_create: no capacity for descriptor %d", fd);
}

int weir_watch_create(struct weir_watch **ret, struct weir_reactor *r, int fd,
		      uint32_t events, weir_watch_fn *fn, void *arg)
{
	struct weir_watch *w;
	int err;

	if (!fn || events & ~(ASKED | WEIR_THROUGH_STOP))
		return why(-EINVAL, "weir_watch_create: no callback, or unknown "
			   "events %#x", events);
	err = is_foreign(r, fd, events) ?
		      0 : source_check_fd(r, fd, "weir_watch_create");
	if (err)
		return err;
	w = mem_calloc(1, sizeof(*w));
	if (!w)
		return why(-ENOMEM, "weir_watch_create: no memory");
	w->fn = fn;
	w->arg = arg;
	w->source.deliver = deliver;
	w->source.release = release;
	err = begin(w, r, fd, events);
	if (err) {
		free(w);
		return err;
	}
	*ret = w;
	return 0;
}

int weir_watch_set(struct weir_watch *watch, uint32_t events)
{
	struct source *s = &watch->source;
	int err;

	reactor_check_thread(s->reactor);
	if (events & ~ASKED)
		return why(-EINVAL, "weir_watch_set: unknown events %#x",
			   events);
	if (s->reactor->attention & ATTENTION_STOPPING &&
	    !(watch->through_stop && !events))
		return why(-ESHUTDOWN, "weir_watch_set: the reactor is stopping "
			   "or stopped");
	if (s->wanted && events == s->events)
		return 0;
	err = set(watch, events);
	if (err)
		return why(err, "weir_watch_set: descriptor %d cannot be "
			   "watched: %s", s->fd, strerror(-err));
	return 0;
}

void weir_watch_destroy(struct weir_watch *watch)
{
	if (!watch)
		return;
	observe_end(watch);
	source_destroy(&watch->source);
}
