/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMA_VERBS_FD_H
#define RDMA_VERBS_FD_H

/*
 * A descriptor of rdma-core's to wait on, as a source: that of a completion
 * channel, of asynchronous events, or of librdmacm's events.
 *
 * Unlike other sources it continues while the reactor stops, because its events
 * end the work in flight.
 *
 * A simulated world has no descriptors of the system.  There the world checks,
 * some time after every other event, whether it is readable.
 *
 *	verbs_fd_init()           verbs_fd_close()
 *	              OPEN -----------------------> CLOSED --> freed
 *
 * It is freed when the kernel has no request of it and no call is between
 * verbs_fd_get() and verbs_fd_put(): a callback may close the object that
 * called it.
 */

#include <errno.h>
#include <fcntl.h>

#include "base/fault.h"
#include "reactor/group/deferred.h"
#include "reactor/source.h"

struct verbs_fd {
	struct source source;
	struct deferred deferred;
	struct observer observer;
	bool closed;
	uint32_t refs;

	/*
	 * In the turn: it is readable, or verbs_fd_send() was called.  @err
	 * is a negative errno if it will not be watched any more.  May close
	 * it.
	 */
	void (*ready)(struct verbs_fd *vfd, int err);

	/* Free the memory. */
	void (*release)(struct verbs_fd *vfd);
};

/*
 * Make @fd non-blocking, and watch it.  The caller has set .ready and .release.  After a failure nothing has to be released.
 */
int verbs_fd_init(struct verbs_fd *vfd, struct weir_reactor *r,
		  const char *what, int fd, uint32_t events);

/* Make @fd non-blocking: 0 or -ENOMEM. */
static inline int verbs_fd_nonblock(int fd)
{
	int flags = fault("fcntl") ? -1 : fcntl(fd, F_GETFL);

	if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK))
		return -ENOMEM;
	return 0;
}

/* Any thread that holds what verbs_fd_close() comes after. */
void verbs_fd_send(struct verbs_fd *vfd);

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
