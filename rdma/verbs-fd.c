/* SPDX-License-Identifier: BSD-3-Clause */

#include <poll.h>

#include "base/why.h"
#include "reactor/op-inline.h"
#include "rdma/verbs-fd.h"

static void make_ready(struct verbs_fd *vfd, int err)
{
	if (vfd->closed)
		return;
	verbs_fd_get(vfd);
	vfd->ready(vfd, err);
	verbs_fd_put(vfd);
}

static void deliver(struct source *s, int64_t res, int rx_id)
{
	(void)rx_id;
	make_ready(weir_container_of(s, struct verbs_fd, source),
		   res < 0 ? (int)res : 0);
}

static void run(struct deferred *deferred)
{
	make_ready(weir_container_of(deferred, struct verbs_fd, deferred), 0);
}

static void observe(struct observer *observer)
{
	struct verbs_fd *vfd =
		weir_container_of(observer, struct verbs_fd, observer);
	struct pollfd pfd = { .fd = vfd->source.fd, .events = POLLIN };

	if (poll(&pfd, 1, 0) > 0)
		deferred_send(&vfd->deferred);
}

static void source_gone(struct source *s)
{
	verbs_fd_put(weir_container_of(s, struct verbs_fd, source));
}

static int watch(struct verbs_fd *vfd)
{
	struct weir_reactor *r = vfd->source.reactor;

	if (!r->backend->observe)
		return source_arm(&vfd->source);
	vfd->observer.fn = observe;
	r->backend->observe(r, &vfd->observer);
	return 0;
}

int verbs_fd_init(struct verbs_fd *vfd, struct weir_reactor *r,
		  const char *what, int fd, uint32_t events)
{
	void (*release)(struct verbs_fd *) = vfd->release;
	int err = verbs_fd_nonblock(fd);

	if (err)
		return why(err, "%s_create: its descriptor cannot be made "
			   "non-blocking", what);
	deferred_init(&vfd->deferred, r, run);
	vfd->closed = false;
	vfd->refs = 1;
	vfd->source.events = events;
	vfd->source.deliver = deliver;
	vfd->source.release = source_gone;
	err = source_init(&vfd->source, r, what, SOURCE_WATCH, fd);
	if (err)
		return err;
	vfd->source.obj.stop = NULL;
	vfd->source.obj.start = NULL;
	err = watch(vfd);
	if (!err)
		return 0;
	vfd->release = NULL;
	source_destroy(&vfd->source);
	vfd->release = release;
	return why(err, "%s_create: no capacity for its descriptor", what);
}

void verbs_fd_send(struct verbs_fd *vfd)
{
	deferred_send(&vfd->deferred);
}

void verbs_fd_close(struct verbs_fd *vfd)
{
	vfd->closed = true;
	observer_del(&vfd->observer);
	deferred_finish(&vfd->deferred);
	source_destroy(&vfd->source);
}

bool verbs_fd_put(struct verbs_fd *vfd)
{
	bool open = !vfd->closed;

	if (!--vfd->refs && vfd->release)
		vfd->release(vfd);
	return open;
}
