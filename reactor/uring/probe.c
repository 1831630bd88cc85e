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
	f |= u->n_rx_rings ? WEIR_URING_BUFFER_RINGS : 0;
	f |= u->has_send_zc ? WEIR_URING_SEND_ZC : 0;
	f |= u->has_cqe_skip ? WEIR_URING_CQE_SKIP : 0;
	f |= flags & IORING_SETUP_SQE128 ? WEIR_URING_SQE128 : 0;
	f |= flags & (IORING_SETUP_CQE32 | IORING_SETUP_CQE_MIXED) ?
	     WEIR_URING_CQE32 : 0;
	f |= flags & IORING_SETUP_CQE_MIXED ? WEIR_URING_CQE_MIXED : 0;
	f |= u->has_bundles && !u->no_bundles && !u->no_recv_multi ?
	     WEIR_URING_RECV_BUNDLES : 0;
	f |= u->has_napi ? WEIR_URING_NAPI : 0;
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
		.sqe128 = 1,
		.cqe32 = 1,
		.napi_us = 1,
	};
	int err;

	if (env && !strcmp(env, "ev"))
		return why(-EOPNOTSUPP, "weir_uring_probe: WEIR_BACKEND=ev "
			   "says not to touch io_uring; unset it");
	err = weir_reactor_create(ret, &opts);
	if (err == -EOPNOTSUPP) {
		opts.sqe128 = opts.cqe32 = 0;
		err = weir_reactor_create(ret, &opts);
	}
	return err ? refuse(err) : 0;
}

static struct weir_uring_info info_of(const struct uring *u)
{
	return (struct weir_uring_info){
		.size = sizeof(struct weir_uring_info),
		.features = features(u),
		.max_files = u->n_files,
		.max_buffers = u->free_bufs ? URING_BUFS : 0,
		.max_ops = u->window,
	};
}

int weir_uring_get_info(struct weir_reactor *r, struct weir_uring_info *ret)
{
	struct weir_uring_info info;
	int err = opts_capacity(ret, "weir_uring_get_info");

	if (err)
		return err;
	reactor_check_thread(r);
	if (r->backend != &backend_uring && r->backend != &backend_uring_wide)
		return why(-EOPNOTSUPP, "weir_uring_get_info: the reactor's "
			   "backend is %s; see weir_reactor_describe()",
			   r->backend->name);
	info = info_of(uring_of(r));
	return opts_give(ret, &info, sizeof(info), "weir_uring_get_info");
}

int weir_uring_probe(struct weir_uring_info *ret)
{
	struct weir_uring_info info;
	struct weir_reactor *r = NULL;
	struct uring *u;
	int err = opts_capacity(ret, "weir_uring_probe");

	if (!err)
		err = make(&r);
	if (err)
		return err;
	u = uring_of(r);
	if (!rx_create(r))
		uring_rx_setup(u, r->rx);
	info = info_of(u);
	weir_reactor_destroy(r);
	return opts_give(ret, &info, sizeof(info), "weir_uring_probe");
}
