/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Changes of files: an inotify descriptor, watched.
 *
 * The first half of a move waits for the second, which the kernel queues right
 * after it, unless another thread's event comes between them:
 *
 *	IN_MOVED_FROM --> kept -- IN_MOVED_TO, same cookie --> one event
 *	                    |
 *	                    +-- another event, or 10 ms ------> IN_MOVED_FROM
 *
 * Whatever comes between ends the waiting: reported in the order of the queue,
 * each half alone is right, too.
 *
 * Each watch of a file is an entry in a sorted array, because the kernel
 * reports events of one that was removed: these have no entry.
 */

#include <weir/fswatch.h>

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/watch.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/why.h"
#include "reactor/op-inline.h"
#include "reactor/source.h"

#define HALF_NS (10 * WEIR_MSEC)
#define BYTES 8192		/* Of events at a time. */

struct entry {
	int id;
	void *data;
};

struct weir_fswatch {
	struct source source;	/* On the inotify descriptor. */
	weir_fswatch_fn *fn;
	void *arg;
	struct entry *entries;
	uint32_t n, max;
	bool destroyed;
	bool delivering;	/* Its events: that frees it, */
	bool released;		/* if this is set. */

	/* The first half of a move. */
	struct weir_timer_node timer;
	struct entry from;	/* .id 0: none. */
	uint32_t from_mask, cookie;
	char from_name[NAME_MAX + 1];

	char buf[BYTES] __attribute__((aligned(8)));
};

/* The index of @id, or that which it would get. */
static uint32_t place(const struct weir_fswatch *w, int id)
{
	uint32_t low = 0, high = w->n, mid;

	while (low < high) {
		mid = low + (high - low) / 2;
		if (w->entries[mid].id < id)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static struct entry *find(const struct weir_fswatch *w, int id)
{
	uint32_t i = place(w, id);

	return i < w->n && w->entries[i].id == id ? &w->entries[i] : NULL;
}

static void insert(struct weir_fswatch *w, struct entry e)
{
	uint32_t i = place(w, e.id);

	memmove(w->entries + i + 1, w->entries + i,
		(w->n - i) * sizeof(w->entries[0]));
	w->entries[i] = e;
	w->n++;
}

static void drop(struct weir_fswatch *w, int id)
{
	uint32_t i = place(w, id);

	w->n--;
	memmove(w->entries + i, w->entries + i + 1,
		(w->n - i) * sizeof(w->entries[0]));
}

static void report(struct weir_fswatch *w, struct weir_fswatch_event event)
{
	if (!w->destroyed)
		w->fn(w, &event, w->arg);
}

/* Forget the first half of a move. */
static void take_half(struct weir_fswatch *w)
{
	w->from.id = 0;
	wheel_del(&w->source.reactor->wheel, &w->timer);
}

/* Report it alone, unless its watch was removed meanwhile. */
static void report_half(struct weir_fswatch *w)
{
	struct entry from = w->from;

	if (!from.id || w->destroyed)
		return;
	take_half(w);
	report(w, (struct weir_fswatch_event){
		.mask = w->from_mask, .id = from.id, .data = from.data,
		.name = w->from_name });
}

static void keep_half(struct weir_fswatch *w, const struct inotify_event *e,
		      const struct entry *entry)
{
	struct weir_reactor *r = w->source.reactor;

	w->from = *entry;
	w->from_mask = e->mask;
	w->cookie = e->cookie;
	memcpy(w->from_name, e->name, strnlen(e->name, NAME_MAX) + 1);
	wheel_rearm(&r->wheel, &w->timer, reactor_now(r) + HALF_NS);
}

static bool is_second_half(const struct weir_fswatch *w,
			   const struct inotify_event *e)
{
	return w->from.id && e->mask & IN_MOVED_TO && e->cookie == w->cookie;
}

static void take_event(struct weir_fswatch *w, const struct inotify_event *e)
{
	struct entry *found = find(w, e->wd);
	struct weir_fswatch_event event = {
		.mask = e->mask, .id = e->wd, .name = e->len ? e->name : NULL,
	};

	if (found && is_second_half(w, e)) {
		event.data = found->data;
		event.mask |= IN_MOVED_FROM;
		event.from_id = w->from.id;
		event.from_data = w->from.data;
		event.from_name = w->from_name;
		take_half(w);
		report(w, event);
		return;
	}
	report_half(w);
	if (w->destroyed)
		return;
	if (e->mask & IN_Q_OVERFLOW) {
		report(w, event);
		return;
	}
	/* The callback may have removed it. */
	found = find(w, e->wd);
	if (!found)
		return;
	if (e->mask & IN_MOVED_FROM && e->len) {
		keep_half(w, e, found);
		return;
	}
	event.data = found->data;
	if (e->mask & IN_IGNORED)
		drop(w, e->wd);
	report(w, event);
}

static void free_now(struct weir_fswatch *w)
{
	free(w->entries);
	free(w);
}

static void release(struct source *s)
{
	struct weir_fswatch *w = weir_container_of(s, struct weir_fswatch,
						   source);

	if (w->delivering)
		w->released = true;
	else
		free_now(w);
}

/* The watch of the descriptor is level-triggered: one read at a time. */
static void deliver(struct source *s, int64_t res, int rx_id)
{
	struct weir_fswatch *w = weir_container_of(s, struct weir_fswatch,
						   source);
	const struct inotify_event *e;
	ssize_t n = read(s->fd, w->buf, sizeof(w->buf)), at;

	(void)rx_id;
	if (res < 0)
		(void)source_arm(s);
	w->delivering = true;
	for (at = 0; at < n && !w->destroyed;
	     at += (ssize_t)(sizeof(*e) + e->len)) {
		e = (const struct inotify_event *)(const void *)(w->buf + at);
		take_event(w, e);
	}
	w->delivering = false;
	if (w->released)
		free_now(w);
}

/* There is no second half, or it is late. */
static void on_timer(struct weir_timer_node *node)
{
	struct weir_fswatch *w = weir_container_of(node, struct weir_fswatch,
						   timer);

	w->delivering = true;
	report_half(w);
	w->delivering = false;
	if (w->released)
		free_now(w);
}

static int begin(struct weir_fswatch *w, struct weir_reactor *r, int fd)
{
	struct source *s = &w->source;
	int err;

	s->deliver = deliver;
	s->release = release;
	s->events = WEIR_READABLE;
	w->timer.fire = on_timer;
	err = source_init(s, r, "weir_fswatch", SOURCE_WATCH, fd);
	if (err) {
		close(fd);
		free(w);
		return err;
	}
	err = source_arm(s);
	if (!err)
		return 0;
	weir_fswatch_destroy(w);
	return why(err, "weir_fswatch_create: no capacity to watch it");
}

int weir_fswatch_create(struct weir_fswatch **ret, struct weir_reactor *r,
			weir_fswatch_fn *fn, void *arg)
{
	struct weir_fswatch *w;
	int fd, err;

	reactor_check_thread(r);
	if (!fn)
		return why(-EINVAL, "weir_fswatch_create: no callback");
	if (r->backend->isolated)
		return why(-EOPNOTSUPP, "weir_fswatch_create: a simulated world "
			   "does not report changes of files");
	if (r->attention & ATTENTION_STOPPING)
		return why(-ESHUTDOWN, "weir_fswatch_create: the reactor is "
			   "stopping or stopped");
	w = mem_calloc(1, sizeof(*w));
	if (!w)
		return why(-ENOMEM, "weir_fswatch_create: no memory");
	w->fn = fn;
	w->arg = arg;
	fd = fault("inotify_init") ? (errno = EMFILE, -1) :
	     inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (fd < 0) {
		err = -errno;
		free(w);
		return why_no_fd(err, "weir_fswatch_create",
				 "an inotify instance");
	}
	err = begin(w, r, fd);
	if (!err)
		*ret = w;
	return err;
}

/* What else the caller may set beside events. */
#define HOW (IN_ONLYDIR | IN_DONT_FOLLOW | IN_EXCL_UNLINK | IN_ONESHOT)

int weir_fswatch_add(struct weir_fswatch *watch, const char *path,
		     uint32_t mask, void *data)
{
	int id;

	reactor_check_thread(watch->source.reactor);
	if (!path || !(mask & IN_ALL_EVENTS) || mask & ~(IN_ALL_EVENTS | HOW))
		return why(-EINVAL, "weir_fswatch_add: no path, or %#x is no "
			   "set of events of inotify(7)", mask);
	if (mem_grow(&watch->entries, sizeof(struct entry), watch->n,
		     &watch->max))
		return why(-ENOMEM, "weir_fswatch_add: no memory");
	id = inotify_add_watch(watch->source.fd, path, mask | IN_MASK_CREATE);
	if (id < 0 && errno == ENOSPC)
		return why(-ENOSPC, "weir_fswatch_add: %s: the user has as many "
			   "watches as /proc/sys/fs/inotify/max_user_watches "
			   "allows", path);
	if (id < 0)
		return why(-errno, "weir_fswatch_add: %s: %s", path,
			   strerror(errno));
	insert(watch, (struct entry){ id, data });
	return id;
}

int weir_fswatch_remove(struct weir_fswatch *watch, int id)
{
	reactor_check_thread(watch->source.reactor);
	if (!find(watch, id))
		return why(-EINVAL, "weir_fswatch_remove: there is no watch %d",
			   id);
	drop(watch, id);
	if (watch->from.id == id)
		take_half(watch);
	/* It fails only if the kernel has ended it already. */
	(void)inotify_rm_watch(watch->source.fd, id);
	return 0;
}

void weir_fswatch_destroy(struct weir_fswatch *watch)
{
	int fd;

	if (!watch)
		return;
	fd = watch->source.fd;
	watch->destroyed = true;
	wheel_del(&watch->source.reactor->wheel, &watch->timer);
	source_destroy(&watch->source);
	close(fd);
}
