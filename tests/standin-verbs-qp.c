/* SPDX-License-Identifier: BSD-3-Clause */

/* The stand-in's queue pairs. */

#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include "tests/standin-verbs-internal.h"

void standin_qp_reported(struct ibv_qp *qp)
{
	((struct standin_qp *)qp)->reported++;
}

void standin_srq_reported(struct ibv_srq *srq)
{
	((struct standin_srq *)srq)->reported++;
}

void standin_qp_polled(struct standin_qp *qp, const struct standin_cqe *cqe)
{
	(void)qp;
	(void)cqe;
}

void standin_qps_lose(struct standin_cq *cq)
{
	(void)cq;
}
