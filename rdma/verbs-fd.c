/* SPDX-License-Identifier: BSD-3-Clause */

#include <weir/object.h>
#include <weir/watch.h>

#include "base/why.h"
#include "rdma/verbs-fd.h"

static void make_ready(struct verbs_fd *vfd)
{
	verbs_fd_get(vfd);
	vfd->ready(vfd);
	verbs_fd_put(vfd);
}

static void readable(struct weir_watch *watch, uint32_t events, void *vfd)
{
	(void)watch, (void)events;
	make_ready(vfd);
}

static void sent(void *vfd)
{
	make_ready(vfd);
}

int verbs_fd_init(struct verbs_fd *vfd, struct weir_reactor *r,
		  const char *what, int fd)
{
	const struct weir_object_ops ops = {
		.size = sizeof(ops),
		.name = what,
		.notified = sent,
	};
	int err = verbs_fd_nonblock(fd);

	if (err)
		return why(err, "%s_create: its descriptor cannot be made "
			   "non-blocking", what);
	vfd->reactor = r;
	vfd->closed = false;
	vfd->refs = 1;
	err = weir_object_create(&vfd->obj, r, &ops, "", vfd);
	if (err)
		return why(err, "%s_create: no memory, or the reactor is "
			   "stopping", what);
	err = weir_watch_create(&vfd->watch, r, fd,
				WEIR_READABLE | WEIR_THROUGH_STOP, readable,
				vfd);
	if (!err)
		return 0;
	weir_object_destroy(vfd->obj);
	return why(err, "%s_create: no capacity for its descriptor", what);
}

void verbs_fd_close(struct verbs_fd *vfd)
{
	vfd->closed = true;
	weir_watch_destroy(vfd->watch);
	weir_object_destroy(vfd->obj);
	verbs_fd_put(vfd);
}

bool verbs_fd_put(struct verbs_fd *vfd)
{
	bool open = !vfd->closed;

	if (!--vfd->refs)
		vfd->release(vfd);
	return open;
}
