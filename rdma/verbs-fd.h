/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMA_VERBS_FD_H
#define RDMA_VERBS_FD_H

/*
 * A descriptor of rdma-core's to wait on: that of asynchronous events, or of
 * librdmacm's events; and a function that makes those of completion channels
 * ready for a poll hook.
 *
 * It is watched while the reactor stops, too, because its events end the work
 * in flight.
 *
 *	verbs_fd_init()           verbs_fd_close()
 *	              OPEN -----------------------> CLOSED --> freed
 *
 * It is freed when no call is between verbs_fd_get() and verbs_fd_put(): a
 * callback may close the object that called it.
 */

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>

#include <weir/reactor.h>

#include "base/check.h"

struct weir_object;
struct weir_watch;

/* That this is the thread of @r. */
#define rdma_check_thread(r) debug_check(weir_reactor_is_here(r))

struct verbs_fd {
	struct weir_reactor *reactor;
	struct weir_watch *watch;
	struct weir_object *obj;
	bool closed;
	uint32_t refs;

	/* In the turn: it is readable, or .obj was notified.  May close it. */
	void (*ready)(struct verbs_fd *vfd);

	/* Free the memory. */
	void (*release)(struct verbs_fd *vfd);
};

/*
 * Make @fd non-blocking, and watch it.  The caller has set .ready and .release;
 * @what is "weir_cm".  After a failure nothing has to be released.
 */
int verbs_fd_init(struct verbs_fd *vfd, struct weir_reactor *r,
		  const char *what, int fd);

/* Make @fd non-blocking: 0 or -ENOMEM. */
static inline int verbs_fd_nonblock(int fd)
{
	int flags = weir_fault("fcntl") ? -1 : fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK))
		return -ENOMEM;
	return 0;
}

/* @fd may be closed at once.  No thread sends any more. */
void verbs_fd_close(struct verbs_fd *vfd);

static inline void verbs_fd_get(struct verbs_fd *vfd)
{
	vfd->refs++;
}

/* Returns whether it is still open; if not, it may be gone. */
bool verbs_fd_put(struct verbs_fd *vfd);

/* channel.c.  Any thread: the completion queue @cq is dead; it may belong to
 * any channel, or to none. */
struct ibv_cq;
void channel_cq_failed(const struct ibv_cq *cq);

#endif /* RDMA_VERBS_FD_H */
