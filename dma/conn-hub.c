/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One source of rdma_cm events per reactor, for all its connections and
 * listeners, kept as long as there is one.  Reactors are few, so a list.
 */

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <weir/cm.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/why.h"
#include "dma/conn-internal.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct conn_hub *hubs;

/* A request comes with an id that has its listener's context. */
static void on_event(struct weir_cm *cm, const struct rdma_cm_event *ev,
		     void *arg)
{
	struct rdma_cm_id *id = ev->event == RDMA_CM_EVENT_CONNECT_REQUEST ?
				ev->listen_id : ev->id;
	struct conn_user *user = id ? id->context : NULL;

	(void)cm, (void)arg;
	if (user)
		user->event(user, ev);
}

static struct conn_hub *find(struct weir_reactor *r)
{
	struct conn_hub *hub;

	pthread_mutex_lock(&lock);
	for (hub = hubs; hub && hub->r != r; hub = hub->next)
		;
	pthread_mutex_unlock(&lock);
	return hub;
}

/* Only @r's thread makes, finds and frees that of @r. */
int conn_hub_get(struct conn_hub **ret, struct weir_reactor *r)
{
	struct conn_hub *hub = find(r);
	int err;

	if (hub) {
		hub->refs++;
		*ret = hub;
		return 0;
	}
	hub = mem_calloc(1, sizeof(*hub));
	if (!hub)
		return why(-ENOMEM, "weir_conn_create: no memory");
	err = weir_cm_create(&hub->cm, r, on_event, hub);
	if (err) {
		free(hub);
		return err;
	}
	hub->r = r;
	hub->refs = 1;
	pthread_mutex_lock(&lock);
	hub->next = hubs;
	hubs = hub;
	pthread_mutex_unlock(&lock);
	*ret = hub;
	return 0;
}

void conn_hub_put(struct conn_hub *hub)
{
	struct conn_hub **at = &hubs;

	if (--hub->refs)
		return;
	pthread_mutex_lock(&lock);
	while (*at != hub)
		at = &(*at)->next;
	*at = hub->next;
	pthread_mutex_unlock(&lock);
	weir_cm_destroy(hub->cm);
	free(hub);
}

int conn_hub_id(struct conn_hub *hub, struct rdma_cm_id **ret,
		struct conn_user *user)
{
	errno = 0;
	if (fault("rdma_create_id"))
		return -ENOMEM;
	if (rdma_create_id(weir_cm_events(hub->cm), ret, user, RDMA_PS_TCP))
		return conn_error();
	return 0;
}
