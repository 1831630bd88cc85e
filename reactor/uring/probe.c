/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What io_uring can do here.  To find out, a ring is made as a reactor would
 * make it, examined, and destroyed.
 */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weir/uring.h>

#include "base/opts.h"
#include "base/why.h"
#include "reactor/rx.h"
#include "reactor/uring/uring.h"

static uint32_t features(const struct uring *u)
{
	unsigned int flags = u->ring.flags;
	uint32_t f = 0;

	f |= flags & IORING_SETUP_DEFER_TASKRUN ? WEIR_URING_DEFER_TASKRUN : 0;
	f |= flags & (IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_COOP_TASKRUN) ?
	     WEIR_URING_COOP_TASKRUN : 0;
	f |= u->has_ring_fd ? WEIR_URING_RING_FD : 0;
	f |= u->files ? WEIR_URING_FILES : 0;
	f |= u->free_bufs ? WEIR_URING_BUFFERS : 0;
	f |= u->rx_ring ? WEIR_URING_BUFFER_RINGS : 0;
	f |= u->has_send_zc ? WEIR_URING_SEND_ZC : 0;
	f |= u->has_cqe_skip ? WEIR_URING_CQE_SKIP : 0;
	return f;
}

/* The reactor's reason, in the name of this call. */
static int refuse(int err)
{
	char cause[256];
	const char *at = strstr(weir_why(), ": ");

	snprintf(cause, sizeof(cause), "%s", at ? at + 2 : weir_why());
	return why(err, "weir_uring_probe: %s", cause);
}

static int make(struct weir_reactor **ret)
{
	const char *env = getenv("WEIR_BACKEND");
	struct weir_reactor_opts opts = {
		.size = sizeof(opts),
		.backend = WEIR_BACKEND_URING,
		.ring_entries = 8,
		.mailbox = 8,
		.rx_bufs = 1,
		.rx_buf_size = 64,
	};
	int err;

	if (env && !strcmp(env, "ev"))
		return why(-EOPNOTSUPP, "weir_uring_probe: WEIR_BACKEND=ev "
			   "says not to touch io_uring; unset it");
	err = weir_reactor_create(ret, &opts);
	return err ? refuse(err) : 0;
}

int weir_uring_probe(struct weir_uring_info *ret)
{
	struct weir_uring_info info = { .size = sizeof(info) };
	struct weir_reactor *r = NULL;
	struct uring *u;
	int err = opts_capacity(ret, "weir_uring_probe");

	if (!err)
		err = make(&r);
	if (err)
		return err;
	u = uring_of(r);
	if (!rx_create(r))
		uring_rx_setup(u);
	info.features = features(u);
	info.max_files = u->n_files;
	info.max_buffers = u->n_free_bufs;
	info.max_ops = u->window;
	weir_reactor_destroy(r);
	return opts_give(ret, &info, sizeof(info), "weir_uring_probe");
}
