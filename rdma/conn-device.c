/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Devices that have QPs, and what they tell by themselves.
 *
 * A device belongs to the process, and is open once for all connections.  Each
 * reactor has a tap of it: its own source of events, which are told to all, and
 * the list of its own connections.  The lock guards the two lists.
 */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/device.h>
#include <weir/rdma/verbs-event.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/why.h"
#include "rdma/srq-internal.h"
#include "rdma/device.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct conn_device *devices;
static struct conn_device_ref *device_refs;

static unsigned int news_of(const struct ibv_async_event *ev)
{
	if (!ev)	/* Some were lost. */
		return CONN_NEWS_QP;
	switch (ev->event_type) {
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
		return CONN_NEWS_QP;
	case IBV_EVENT_COMM_EST:
		return CONN_NEWS_DATA;
	case IBV_EVENT_DEVICE_FATAL:
		return CONN_NEWS_DEVICE;
	default:
		return 0;
	}
}

void conn_device_ref_dead(struct conn_device_ref *device_ref)
{
	pthread_mutex_lock(&lock);
	device_ref->device->dead = true;
	pthread_mutex_unlock(&lock);
	device_is_dead(device_ref->device->dev);
}

/* Each connection looks after it in a turn of its own, and may be gone then. */
static void on_async(struct weir_verbs_event *source,
		     const struct ibv_async_event *ev, void *arg)
{
	const struct conn_device_ref *device_ref = arg;
	unsigned int news = news_of(ev);
	bool all = !ev || news == CONN_NEWS_DEVICE;
	struct weir_conn *c;

	(void)source;
	if (news == CONN_NEWS_DEVICE)
		conn_device_ref_dead((struct conn_device_ref *)arg);
	if (ev)
		srq_event((struct conn_device_ref *)arg, ev);
	for (c = news ? device_ref->conns : NULL; c; c = c->ref_next) {
		if (!all && ev->element.qp != c->qp)
			continue;
		c->news |= news;
		deferred_send(&c->deferred);
	}
}

static int open_device(struct conn_device *d, const char *name)
{
	const struct device_verbs_open *v;
	int err = weir_device_open_name(&d->dev, name);

	if (err)
		return err;
	v = device_verbs_of(d->dev);
	d->ctx = v->ctx;
	d->pd = v->pd;
	snprintf(d->name, sizeof(d->name), "%s", name);
	err = fault("ibv_query_device") ? EIO :
	      ibv_query_device(d->ctx, &d->attr);
	if (!err)
		return 0;
	weir_device_close(d->dev);
	return why(-err, "weir_conn: %s does not tell what it can do: %s", name,
		   strerror(err));
}

/* The lock is held. */
static int find_device(struct conn_device **ret, const char *name)
{
	struct conn_device *d;
	int err;

	for (d = devices; d && (d->dead || strcmp(d->name, name));
	     d = d->next)
		;
	if (!d) {
		d = mem_calloc(1, sizeof(*d));
		err = d ? open_device(d, name) :
			  why(-ENOMEM, "weir_conn: no memory");
		if (err) {
			free(d);
			return err;
		}
		d->next = devices;
		devices = d;
	}
	d->refs++;
	*ret = d;
	return 0;
}

/*
 * The lock is held.  Close what nobody uses: a device that was opened by us
 * last, while an mmap was still on it, cannot be closed at once, and is when
 * the next one is.
 */
static void close_unused(void)
{
	struct conn_device **at = &devices, *d;

	while ((d = *at)) {
		if (d->refs || weir_device_close(d->dev)) {
			at = &d->next;
			continue;
		}
		*at = d->next;
		free(d);
	}
}

static struct conn_device_ref *find_ref(struct weir_reactor *r,
					const char *name)
{
	struct conn_device_ref *device_ref;

	pthread_mutex_lock(&lock);
	for (device_ref = device_refs; device_ref;
	     device_ref = device_ref->next)
		if (device_ref->r == r && !device_ref->device->dead &&
		    !strcmp(device_ref->device->name, name))
			break;
	pthread_mutex_unlock(&lock);
	return device_ref;
}

static int make_ref(struct conn_device_ref *device_ref, const char *name)
{
	int err;

	pthread_mutex_lock(&lock);
	err = find_device(&device_ref->device, name);
	pthread_mutex_unlock(&lock);
	if (err)
		return err;
	err = weir_verbs_event_create(&device_ref->events, device_ref->r,
				      device_ref->device->ctx, on_async,
				      device_ref);
	pthread_mutex_lock(&lock);
	if (err) {
		device_ref->device->refs--;
		close_unused();
	} else {
		device_ref->next = device_refs;
		device_refs = device_ref;
	}
	pthread_mutex_unlock(&lock);
	return err;
}

/* Only @r's thread makes, finds and frees those of @r. */
int conn_device_ref_get(struct conn_device_ref **ret, struct weir_reactor *r,
			const char *name)
{
	struct conn_device_ref *device_ref = find_ref(r, name);
	int err;

	if (!device_ref) {
		device_ref = mem_calloc(1, sizeof(*device_ref));
		if (!device_ref)
			return why(-ENOMEM, "weir_conn: no memory");
		device_ref->r = r;
		err = make_ref(device_ref, name);
		if (err) {
			free(device_ref);
			return err;
		}
	}
	device_ref->refs++;
	*ret = device_ref;
	return 0;
}

void conn_device_ref_put(struct conn_device_ref *device_ref)
{
	struct conn_device_ref **at = &device_refs;

	if (--device_ref->refs)
		return;
	weir_verbs_event_destroy(device_ref->events);
	pthread_mutex_lock(&lock);
	while (*at != device_ref)
		at = &(*at)->next;
	*at = device_ref->next;
	device_ref->device->refs--;
	close_unused();
	pthread_mutex_unlock(&lock);
	free(device_ref);
}

void conn_device_ref_add(struct conn_device_ref *device_ref,
			 struct weir_conn *c)
{
	c->device_ref = device_ref;
	c->ref_next = device_ref->conns;
	c->ref_pprev = &device_ref->conns;
	if (device_ref->conns)
		device_ref->conns->ref_pprev = &c->ref_next;
	device_ref->conns = c;
}

void conn_device_ref_del(struct weir_conn *c)
{
	*c->ref_pprev = c->ref_next;
	if (c->ref_next)
		c->ref_next->ref_pprev = c->ref_pprev;
	if (!c->device_ref->conns)
		verbs_staging_drop(c->device_ref);
	c->device_ref = NULL;
}
