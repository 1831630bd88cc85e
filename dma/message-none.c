/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages and shared receive queues without rdma-core: there are none. */

#include <weir/message.h>
#include <weir/srq.h>

#include "dma/no-verbs.h"

int weir_conn_set_message_fn(struct weir_conn *c, weir_message_fn *fn,
			     void *arg)
{
	(void)c, (void)fn, (void)arg;
	return no_verbs("weir_conn_set_message_fn");
}

int weir_message_send(struct weir_conn *c, struct weir_op *op,
		      const struct weir_message *m)
{
	(void)c, (void)op, (void)m;
	return no_verbs("weir_message_send");
}

int weir_srq_create(struct weir_srq **ret, struct weir_reactor *r,
		    const struct weir_srq_opts *opts)
{
	(void)ret, (void)r, (void)opts;
	return no_verbs("weir_srq_create");
}

int weir_srq_stats(const struct weir_srq *srq, struct weir_srq_stats *ret)
{
	(void)srq, (void)ret;
	return no_verbs("weir_srq_stats");
}

/* Of NULL, and there is nothing else. */
int weir_srq_destroy(struct weir_srq *srq)
{
	(void)srq;
	return 0;
}
