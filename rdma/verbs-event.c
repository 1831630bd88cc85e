/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Asynchronous events.  A device context has one descriptor for them, and the
 * sources of it all watch that: the first one reads an event, gives each
 * source a copy, and acknowledges it; then callbacks run.
 */

#include <weir/object.h>
#include <weir/rdma/verbs-event.h>
#include <weir/watch.h>

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include <infiniband/verbs.h>

#include "base/alloc.h"
#include "base/why.h"
#include "rdma/verbs-fd.h"

#define INBOX 64	/* Events read by other sources. */
#define BATCH 16	/* In a turn. */

struct weir_verbs_event {
	struct verbs_fd vfd;
	struct ibv_context *ctx;
	weir_verbs_event_fn *fn;
	void *arg;

	/* Under the lock. */
	struct ibv_async_event inbox[INBOX];
	uint32_t head, tail;
	bool lost;
	bool dead;			/* The device has no more events. */
	struct weir_verbs_event *next;
};

static struct {
	pthread_mutex_t lock;
	struct weir_verbs_event *first;
} sources = { .lock = PTHREAD_MUTEX_INITIALIZER };

static void put(struct weir_verbs_event *ev,
		const struct ibv_async_event *event)
{
	if (ev->tail - ev->head == INBOX)
		ev->lost = true;
	else
		ev->inbox[ev->tail++ % INBOX] = *event;
}

/* @self handles its own event.  After the @last no event follows. */
static void tell_all(struct weir_verbs_event *self,
		     const struct ibv_async_event *event, bool last)
{
	struct weir_verbs_event *ev;

	pthread_mutex_lock(&sources.lock);
	for (ev = sources.first; ev; ev = ev->next) {
		if (ev->ctx != self->ctx || ev->dead)
			continue;
		ev->dead = last;
		put(ev, event);
		if (ev != self)
			weir_object_notify(ev->vfd.obj);
	}
	pthread_mutex_unlock(&sources.lock);
}

static bool has_mail(struct weir_verbs_event *ev)
{
	bool has;

	pthread_mutex_lock(&sources.lock);
	has = ev->head != ev->tail || ev->lost;
	pthread_mutex_unlock(&sources.lock);
	return has;
}

static bool get_event(struct weir_verbs_event *ev,
		      struct ibv_async_event *event)
{
	errno = weir_fault("ibv_get_async_event") ? EIO : 0;
	return !errno && !ibv_get_async_event(ev->ctx, event);
}

/*
 * No event can be read of a device that was removed or reset.  The first source
 * that finds that out tells all others, as if the device had sent an event.
 */
static bool read_one(struct weir_verbs_event *ev)
{
	struct ibv_async_event event;

	if (!get_event(ev, &event)) {
		if (errno == EAGAIN || errno == EINTR)
			return false;
		(void)weir_watch_set(ev->vfd.watch, 0);
		event = (struct ibv_async_event){
			.event_type = IBV_EVENT_DEVICE_FATAL,
		};
		tell_all(ev, &event, true);
		return has_mail(ev);
	}
	if (event.event_type == IBV_EVENT_CQ_ERR)
		channel_cq_failed(event.element.cq);
	tell_all(ev, &event, false);
	ibv_ack_async_event(&event);
	return true;
}

enum took { NOTHING, EVENT, LOSS };

static enum took take(struct weir_verbs_event *ev,
		      struct ibv_async_event *event)
{
	enum took took = NOTHING;

	pthread_mutex_lock(&sources.lock);
	if (ev->head != ev->tail) {
		*event = ev->inbox[ev->head++ % INBOX];
		took = EVENT;
	} else if (ev->lost) {
		ev->lost = false;
		took = LOSS;
	}
	pthread_mutex_unlock(&sources.lock);
	return took;
}

/* Returns false if a callback has destroyed it, or there was nothing. */
static bool deliver_one(struct weir_verbs_event *ev)
{
	struct ibv_async_event event;
	enum took took = take(ev, &event);

	if (took == NOTHING)
		return false;
	ev->fn(ev, took == EVENT ? &event : NULL, ev->arg);
	return !ev->vfd.closed;
}

static void ready(struct verbs_fd *vfd)
{
	struct weir_verbs_event *ev =
		weir_container_of(vfd, struct weir_verbs_event, vfd);
	int i;

	for (i = 0; i < BATCH; i++)
		if (!deliver_one(ev) && (vfd->closed || !read_one(ev)))
			return;
	weir_object_notify(vfd->obj);
}

static void release(struct verbs_fd *vfd)
{
	free(weir_container_of(vfd, struct weir_verbs_event, vfd));
}

static void list_add(struct weir_verbs_event *ev)
{
	pthread_mutex_lock(&sources.lock);
	ev->next = sources.first;
	sources.first = ev;
	pthread_mutex_unlock(&sources.lock);
}

static void list_del(struct weir_verbs_event *ev)
{
	struct weir_verbs_event **p;

	pthread_mutex_lock(&sources.lock);
	for (p = &sources.first; *p != ev; p = &(*p)->next)
		;
	*p = ev->next;
	pthread_mutex_unlock(&sources.lock);
}

int weir_verbs_event_create(struct weir_verbs_event **ret,
			    struct weir_reactor *r, struct ibv_context *ctx,
			    weir_verbs_event_fn *fn, void *arg)
{
	struct weir_verbs_event *ev;
	int err;

	rdma_check_thread(r);
	if (!ctx || !fn)
		return why(-EINVAL, "weir_verbs_event_create: no device "
			   "context, or no callback");
	ev = mem_calloc(1, sizeof(*ev));
	if (!ev)
		return why(-ENOMEM, "weir_verbs_event_create: no memory");
	ev->ctx = ctx;
	ev->fn = fn;
	ev->arg = arg;
	ev->vfd.ready = ready;
	ev->vfd.release = release;
	err = verbs_fd_init(&ev->vfd, r, "weir_verbs_event", ctx->async_fd);
	if (err) {
		free(ev);
		return err;
	}
	list_add(ev);
	*ret = ev;
	return 0;
}

void weir_verbs_event_destroy(struct weir_verbs_event *ev)
{
	if (!ev)
		return;
	rdma_check_thread(ev->vfd.reactor);
	list_del(ev);
	verbs_fd_close(&ev->vfd);
}
