/* SPDX-License-Identifier: BSD-3-Clause */
/* librdmacm's event channel. */

#include <weir/rdma/cm.h>
#include <weir/watch.h>

#include <errno.h>
#include <stdlib.h>

#include <rdma/rdma_cma.h>

#include "base/alloc.h"
#include "base/why.h"
#include "rdma/verbs-fd.h"

#define BATCH 16	/* Events in a turn. */

struct weir_cm {
	struct verbs_fd vfd;
	struct rdma_event_channel *events;
	weir_cm_fn *fn;
	void *arg;
};

/* A datagram's parameters begin as a connection's do. */
static void copy(struct rdma_cm_event *to, unsigned char *data,
		 const struct rdma_cm_event *from)
{
	*to = *from;
	if (!from->param.conn.private_data)
		return;
	memcpy(data, from->param.conn.private_data,
	       from->param.conn.private_data_len);
	to->param.conn.private_data = data;
}

/* Returns false if there was none, or the callback has destroyed @cm. */
static bool deliver_one(struct weir_cm *cm)
{
	struct rdma_cm_event *event, mine;
	unsigned char data[UINT8_MAX];

	if (rdma_get_cm_event(cm->events, &event))
		return false;
	copy(&mine, data, event);
	rdma_ack_cm_event(event);
	cm->fn(cm, &mine, cm->arg);
	return !cm->vfd.closed;
}

static void ready(struct verbs_fd *vfd)
{
	struct weir_cm *cm = weir_container_of(vfd, struct weir_cm, vfd);
	int i;

	for (i = 0; i < BATCH && deliver_one(cm); i++)
		;
}

static void release(struct verbs_fd *vfd)
{
	free(weir_container_of(vfd, struct weir_cm, vfd));
}

static int open_events(struct weir_cm *cm)
{
	int err;

	errno = weir_fault("rdma_create_event_channel") ? EMFILE : 0;
	if (!errno)
		cm->events = rdma_create_event_channel();
	if (cm->events)
		return 0;
	err = errno > 0 ? -errno : -EIO;
	return why(err, "weir_cm_create: rdma_create_event_channel() failed: "
		   "error %d; are rdma_cm and rdma_ucm loaded, and is there a "
		   "device?", -err);
}

int weir_cm_create(struct weir_cm **ret, struct weir_reactor *r,
		   weir_cm_fn *fn, void *arg)
{
	struct weir_cm *cm;
	int err;

	rdma_check_thread(r);
	if (!fn)
		return why(-EINVAL, "weir_cm_create: no callback");
	cm = mem_calloc(1, sizeof(*cm));
	if (!cm)
		return why(-ENOMEM, "weir_cm_create: no memory");
	cm->fn = fn;
	cm->arg = arg;
	cm->vfd.ready = ready;
	cm->vfd.release = release;
	err = open_events(cm);
	if (!err)
		err = verbs_fd_init(&cm->vfd, r, "weir_cm", cm->events->fd);
	if (!err) {
		*ret = cm;
		return 0;
	}
	if (cm->events)
		rdma_destroy_event_channel(cm->events);
	free(cm);
	return err;
}

struct rdma_event_channel *weir_cm_events(const struct weir_cm *cm)
{
	return cm->events;
}

void weir_cm_destroy(struct weir_cm *cm)
{
	struct rdma_event_channel *events;

	if (!cm)
		return;
	rdma_check_thread(cm->vfd.reactor);
	events = cm->events;
	verbs_fd_close(&cm->vfd);
	rdma_destroy_event_channel(events);
}
