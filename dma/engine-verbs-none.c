/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs engine without rdma-core: it can do nothing, and says why. */

#include <errno.h>

#include "dma/job-internal.h"

static int can(void *arg, const struct weir_engine_query *q, const char **why)
{
	bool remote = (q->src && domain_is_remote(q->src)) ||
		      (q->dst && domain_is_remote(q->dst));

	(void)arg;
	*why = remote ? "this weir was built without verbs" :
			"only copies between memory and a peer by RDMA";
	return 0;
}

static int start(void *arg, struct weir_job *job)
{
	(void)arg, (void)job;
	return -EOPNOTSUPP;
}

const struct engine_kind engine_verbs = {
	.ops = {
		.size = sizeof(struct weir_engine_ops),
		.name = "verbs",
		.can = can,
		.start = start,
	},
};

void verbs_fini(struct weir_dma *dma)
{
	(void)dma;
}
