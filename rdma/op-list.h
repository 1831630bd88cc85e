/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RDMA_OP_LIST_H
#define RDMA_OP_LIST_H

/*
 * Operations of this library: how they end, and queues of them that can be left
 * from the middle, whose links come first in the area of each.
 */

#include <stdbool.h>
#include <stddef.h>

#include <weir/op.h>

#include "base/why.h"

/* weir_op_begin() for the public function @call.  Returns 1 if @op has ended. */
static inline int rdma_op_begin(struct weir_reactor *r, struct weir_op *op,
				const struct weir_op_kind *kind, void *arg,
				const char *call)
{
	int err = weir_op_begin(r, op, kind, arg);

	return err < 0 ? why_call(err, "weir_op_begin", call) : err;
}

/* weir_op_finish(), with the device's code and the bytes that were moved. */
static inline void rdma_op_finish(struct weir_op *op, int64_t res, int32_t code,
				  uint64_t bytes)
{
	const struct weir_op_detail detail = { .bytes = bytes, .code = code };

	(void)weir_op_set_detail(op, &detail);
	(void)weir_op_finish(op, res);
}

struct op_link {
	struct weir_op *next;
	struct weir_op **pprev;
};

struct op_list {
	struct weir_op *first;
	struct weir_op **last;
};

static inline struct op_link *op_link(struct weir_op *op)
{
	return weir_op_area(op);
}

static inline void op_list_init(struct op_list *q)
{
	q->first = NULL;
	q->last = &q->first;
}

static inline void op_list_push(struct op_list *q, struct weir_op *op)
{
	struct op_link *link = op_link(op);

	link->next = NULL;
	link->pprev = q->last;
	*q->last = op;
	q->last = &link->next;
}

static inline void op_list_del(struct op_list *q, struct weir_op *op)
{
	const struct op_link *link = op_link(op);

	if (link->next)
		op_link(link->next)->pprev = link->pprev;
	else
		q->last = link->pprev;
	*link->pprev = link->next;
}

static inline struct weir_op *op_list_pop(struct op_list *q)
{
	struct weir_op *op = q->first;

	if (op)
		op_list_del(q, op);
	return op;
}

#endif /* RDMA_OP_LIST_H */
