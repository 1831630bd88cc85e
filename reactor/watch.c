/* SPDX-License-Identifier: BSD-3-Clause */
/* Readiness of a descriptor. */

#include <weir/watch.h>

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/why.h"
#include "reactor/op-inline.h"
#include "reactor/source.h"

#define ASKED \
	(WEIR_READABLE | WEIR_WRITABLE | WEIR_PRI | WEIR_RDHUP | WEIR_EDGE)

struct weir_watch {
	struct source source;
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

int weir_watch_create(struct weir_watch **ret, struct weir_reactor *r, int fd,
		      uint32_t events, weir_watch_fn *fn, void *arg)
{
	struct weir_watch *w;
	int err;

	if (!fn || events & ~ASKED)
		return why(-EINVAL, "weir_watch_create: no callback, or unknown "
			   "events %#x", events);
	err = source_check_fd(r, fd, "weir_watch_create");
	if (err)
		return err;
	w = mem_calloc(1, sizeof(*w));
	if (!w)
		return why(-ENOMEM, "weir_watch_create: no memory");
	w->fn = fn;
	w->arg = arg;
	w->source.deliver = deliver;
	w->source.release = release;
	err = source_init(&w->source, r, "weir_watch", SOURCE_WATCH, fd);
	if (err) {
		free(w);
		return err;
	}
	err = weir_watch_set(w, events);
	if (err) {
		source_destroy(&w->source);
		return why(err, "weir_watch_create: no capacity for descriptor %d",
			   fd);
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
	if (s->reactor->attention & ATTENTION_STOPPING)
		return why(-ESHUTDOWN, "weir_watch_set: the reactor is stopping "
			   "or stopped");
	if (s->wanted && events == s->events)
		return 0;
	source_disarm(s);
	s->events = events;
	err = events & ~WEIR_EDGE ? source_arm(s) : 0;
	if (err)
		return why(err, "weir_watch_set: descriptor %d cannot be "
			   "watched: %s", s->fd, strerror(-err));
	return 0;
}

void weir_watch_destroy(struct weir_watch *watch)
{
	if (watch)
		source_destroy(&watch->source);
}
