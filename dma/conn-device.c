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
#include <weir/verbs-event.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/why.h"
#include "dma/srq-internal.h"
#include "mem/device-verbs.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct conn_device *devices;
static struct conn_tap *taps;

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

void conn_tap_dead(struct conn_tap *tap)
{
	pthread_mutex_lock(&lock);
	tap->device->dead = true;
	pthread_mutex_unlock(&lock);
	device_is_dead(tap->device->dev);
}

/* Each connection looks after it in a turn of its own, and may be gone then. */
static void on_async(struct weir_verbs_event *source,
		     const struct ibv_async_event *ev, void *arg)
{
	const struct conn_tap *tap = arg;
	unsigned int news = news_of(ev);
	bool all = !ev || news == CONN_NEWS_DEVICE;
	struct weir_conn *c;

	(void)source;
	if (news == CONN_NEWS_DEVICE)
		conn_tap_dead((struct conn_tap *)arg);
	if (ev)
		srq_event((struct conn_tap *)arg, ev);
	for (c = news ? tap->conns : NULL; c; c = c->tap_next) {
		if (!all && ev->element.qp != c->qp)
			continue;
		c->news |= news;
		errand_send(&c->errand);
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

static struct conn_tap *find_tap(struct weir_reactor *r, const char *name)
{
	struct conn_tap *tap;

	pthread_mutex_lock(&lock);
	for (tap = taps; tap; tap = tap->next)
		if (tap->r == r && !tap->device->dead &&
		    !strcmp(tap->device->name, name))
			break;
	pthread_mutex_unlock(&lock);
	return tap;
}

static int make_tap(struct conn_tap *tap, const char *name)
{
	int err;

	pthread_mutex_lock(&lock);
	err = find_device(&tap->device, name);
	pthread_mutex_unlock(&lock);
	if (err)
		return err;
	err = weir_verbs_event_create(&tap->events, tap->r, tap->device->ctx,
				      on_async, tap);
	pthread_mutex_lock(&lock);
	if (err) {
		tap->device->refs--;
		close_unused();
	} else {
		tap->next = taps;
		taps = tap;
	}
	pthread_mutex_unlock(&lock);
	return err;
}

/* Only @r's thread makes, finds and frees those of @r. */
int conn_tap_get(struct conn_tap **ret, struct weir_reactor *r,
		 const char *name)
{
	struct conn_tap *tap = find_tap(r, name);
	int err;

	if (!tap) {
		tap = mem_calloc(1, sizeof(*tap));
		if (!tap)
			return why(-ENOMEM, "weir_conn: no memory");
		tap->r = r;
		err = make_tap(tap, name);
		if (err) {
			free(tap);
			return err;
		}
	}
	tap->refs++;
	*ret = tap;
	return 0;
}

void conn_tap_put(struct conn_tap *tap)
{
	struct conn_tap **at = &taps;

	if (--tap->refs)
		return;
	weir_verbs_event_destroy(tap->events);
	pthread_mutex_lock(&lock);
	while (*at != tap)
		at = &(*at)->next;
	*at = tap->next;
	tap->device->refs--;
	close_unused();
	pthread_mutex_unlock(&lock);
	free(tap);
}

void conn_tap_add(struct conn_tap *tap, struct weir_conn *c)
{
	c->tap = tap;
	c->tap_next = tap->conns;
	c->tap_pprev = &tap->conns;
	if (tap->conns)
		tap->conns->tap_pprev = &c->tap_next;
	tap->conns = c;
}

void conn_tap_del(struct weir_conn *c)
{
	*c->tap_pprev = c->tap_next;
	if (c->tap_next)
		c->tap_next->tap_pprev = c->tap_pprev;
	if (!c->tap->conns)
		verbs_staging_drop(c->tap);
	c->tap = NULL;
}
