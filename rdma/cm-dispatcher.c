/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * One source of rdma_cm events per reactor, for all its connections and
 * listeners, kept as long as there is one.  Reactors are few, so a list.
 */

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <weir/rdma/cm.h>

#include "base/alloc.h"
#include "base/why.h"
#include "rdma/conn-internal.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct cm_dispatcher *dispatchers;

/* A request comes with an id that has its listener's context. */
static void on_event(struct weir_cm *cm, const struct rdma_cm_event *ev,
		     void *arg)
{
	struct rdma_cm_id *id = ev->event == RDMA_CM_EVENT_CONNECT_REQUEST ?
					ev->listen_id :
					ev->id;
	struct conn_user *user = id ? id->context : NULL;

	(void)cm, (void)arg;
	if (user)
		user->event(user, ev);
}

static struct cm_dispatcher *find(struct weir_reactor *r)
{
	struct cm_dispatcher *dispatcher;

	pthread_mutex_lock(&lock);
	for (dispatcher = dispatchers; dispatcher && dispatcher->r != r;
	     dispatcher = dispatcher->next)
		;
	pthread_mutex_unlock(&lock);
	return dispatcher;
}

/* Only @r's thread makes, finds and frees the dispatcher of @r. */
int cm_dispatcher_get(struct cm_dispatcher **ret, struct weir_reactor *r)
{
	struct cm_dispatcher *dispatcher = find(r);
	int err;

	if (dispatcher) {
		dispatcher->refs++;
		*ret = dispatcher;
		return 0;
	}
	dispatcher = mem_calloc(1, sizeof(*dispatcher));
	if (!dispatcher)
		return why(-ENOMEM, "weir_conn_create: no memory");
	err = weir_cm_create(&dispatcher->cm, r, on_event, dispatcher);
	if (err) {
		free(dispatcher);
		return err;
	}
	dispatcher->r = r;
	dispatcher->refs = 1;
	pthread_mutex_lock(&lock);
	dispatcher->next = dispatchers;
	dispatchers = dispatcher;
	pthread_mutex_unlock(&lock);
	*ret = dispatcher;
	return 0;
}

void cm_dispatcher_put(struct cm_dispatcher *dispatcher)
{
	struct cm_dispatcher **at = &dispatchers;

	debug_check(dispatcher->refs > 0);
	if (--dispatcher->refs)
		return;
	pthread_mutex_lock(&lock);
	while (*at != dispatcher)
		at = &(*at)->next;
	*at = dispatcher->next;
	pthread_mutex_unlock(&lock);
	weir_cm_destroy(dispatcher->cm);
	free(dispatcher);
}

int cm_dispatcher_id(struct cm_dispatcher *dispatcher, struct rdma_cm_id **ret,
		     struct conn_user *user)
{
	errno = 0;
	if (weir_fault("rdma_create_id"))
		return -ENOMEM;
	if (rdma_create_id(weir_cm_events(dispatcher->cm), ret, user,
			   RDMA_PS_TCP))
		return conn_error();
	return 0;
}
