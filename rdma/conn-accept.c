/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The server's way.  All that can fail is done inside the start, which leaves
 * everything as it was if it does; then only the peer is waited for.
 */

#include <string.h>

#include "base/fault.h"
#include "base/why.h"
#include "rdma/conn-internal.h"

static void cancel(struct weir_op *op)
{
	conn_done((struct weir_conn *)(uintptr_t)op->u.words[0], -ECANCELED,
		  0);
}

static const struct weir_op_class accept_class = {
	.name = "RDMA accept",
	.cancel = cancel,
	.leave = conn_op_leaves,
};

/* An id whose peer has given up takes no answer: -EINVAL. */
static int answered(int failed, const char *call)
{
	int err = !failed ? 0 : errno == EINVAL ? -ECONNRESET : conn_error();

	return !err ? 0 : why(err, "%s: %s", call,
			      err == -ECONNRESET ? "the peer has given up" :
						   strerror(-err));
}

static int answer(struct weir_conn *c, const void *data, size_t len)
{
	struct rdma_conn_param param = {
		.private_data = len ? data : NULL,
		.private_data_len = (uint8_t)len,
		.responder_resources = (uint8_t)c->reads_in,
		.initiator_depth = (uint8_t)c->reads_out,
		.rnr_retry_count = c->opts.rnr_retries,
		.srq = !!c->opts.srq,
		.qp_num = c->qp->qp_num,
	};

	errno = fault("rdma_accept") ? ENOMEM : 0;
	return answered(errno ? -1 : rdma_accept(c->id, &param),
			"weir_conn_accept");
}

static int may_answer(const struct weir_conn *c, size_t len, size_t max,
		      const char *call)
{
	if (c->state != WEIR_CONN_REQUESTED)
		return why(-EBADFD, "%s: nobody asks for it", call);
	if (len > max)
		return why(-EMSGSIZE, "%s: private data are at most %zu bytes",
			   call, max);
	return 0;
}

/* What the peer has asked for, at most what we have. */
static uint32_t least(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static int make_ready(struct weir_conn *c, const void *data, size_t len)
{
	uint32_t reads_out = c->reads_out, reads_in = c->reads_in;
	int err = conn_qp_make(c);

	if (!err) {
		c->reads_out = least(c->reads_out, reads_out);
		c->reads_in = least(c->reads_in, reads_in);
		err = conn_qp_ready(c);
	}
	if (!err)
		err = answer(c, data, len);
	if (!err)
		return 0;
	if (c->qp)
		conn_qp_free(c);
	c->reads_out = reads_out;
	c->reads_in = reads_in;
	return why_call(err, "weir_conn", "weir_conn_accept");
}

int weir_conn_accept(struct weir_conn *c, struct weir_op *op, const void *data,
		     size_t len)
{
	int err = may_answer(c, len, WEIR_CONN_ACCEPT_DATA, "weir_conn_accept");

	if (!err)
		err = op_admit(c->r, op);
	if (!err)
		err = make_ready(c, data, len);
	if (err)
		return op_admitted(err);
	op->u.words[0] = (uintptr_t)c;
	c->op = op;
	c->state = WEIR_CONN_ACCEPTING;
	op_enlist(c->r, op, &accept_class);
	return 0;
}

int weir_conn_reject(struct weir_conn *c, const void *data, size_t len)
{
	int err = may_answer(c, len, WEIR_CONN_REJECT_DATA, "weir_conn_reject");

	if (err)
		return err;
	errno = fault("rdma_reject") ? ENOMEM : 0;
	err = answered(errno ? -1 : rdma_reject(c->id, data, (uint8_t)len),
		       "weir_conn_reject");
	if (err && err != -ECONNRESET)
		return err;
	conn_teardown(c);
	c->state = WEIR_CONN_ENDED;
	return 0;
}
