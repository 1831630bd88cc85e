/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/* The life of an operation: cancel, deadline, callback; and a simple one. */

#include "base/canary.h"
#include "reactor/op-inline.h"

/* Asked to end by its owner, its deadline, or a reactor that stops. */
void op_request_cancel(struct weir_op *op, unsigned int why)
{
	if (op_cancel_wanted(op))
		return;
	op->flags |= (uint8_t)(OP_CANCEL | why);
	if (op->cls->cancel)
		op->cls->cancel(op);
}

int weir_op_cancel(struct weir_op *op)
{
	if (op->state == OP_IDLE)
		return -EINVAL;
	reactor_check_thread(op->reactor);
	if (op->state == OP_PENDING) {
		op_request_cancel(op, OP_CANCEL);
		reactor_touch(op->reactor);
	}
	return 0;
}

static void deadline_fire(struct weir_timer_node *node)
{
	op_request_cancel(weir_container_of(node, struct weir_op, deadline),
			  OP_TIMED_OUT);
}

/* @op was just enlisted with a deadline that its owner had set before. */
void op_deadline_begin(struct weir_reactor *r, struct weir_op *op)
{
	op->deadline.fire = deadline_fire;
	wheel_add(&r->wheel, &op->deadline, op->deadline.expires_ns);
}

static void move_deadline(struct weir_op *op, uint64_t when)
{
	struct wheel *w = &op->reactor->wheel;

	if (when) {
		op->deadline.fire = deadline_fire;
		wheel_rearm(w, &op->deadline, when);
	} else {
		wheel_del(w, &op->deadline);
		op->deadline.expires_ns = 0;
	}
}

/* In the op, 0 is none; a caller's 0 is long past, and so is 1. */
int weir_op_set_deadline(struct weir_op *op, uint64_t deadline_ns)
{
	uint64_t when = deadline_ns == WEIR_FOREVER ? 0 :
			deadline_ns ? deadline_ns : 1;

	switch (op->state) {
	case OP_IDLE:
		op->deadline.expires_ns = when;
		return 0;
	case OP_PENDING:
		reactor_check_thread(op->reactor);
		move_deadline(op, when);
		reactor_touch(op->reactor);
		return 0;
	default:
		return -EINVAL;
	}
}

int weir_op_get_detail(const struct weir_op *op, struct weir_op_detail *ret)
{
	if (op->state != OP_IDLE)
		return -EINVAL;
	*ret = op->detail;
	return 0;
}

int weir_op_is_busy(const struct weir_op *op)
{
	return op->state != OP_IDLE;
}

/*
 * Only what is there now, taken off as a whole: what callbacks add waits, so
 * that a chain of them cannot hold up the rest of this turn.
 */
unsigned int op_run_ready(struct weir_reactor *r, unsigned int max)
{
	struct weir_op *op = r->ready, *next;
	struct weir_op **end = r->ready_last;
	unsigned int n;

	r->ready = NULL;
	r->ready_last = &r->ready;
	for (n = 0; op && n < max; n++) {
		next = op->next;
		op_call_back(r, op, op->res);
		op = next;
	}
	if (unlikely(op)) {
		/* The rest goes before what was added. */
		if (!canary(lost_completion))
			*end = r->ready;
		if (!r->ready)
			r->ready_last = end;
		r->ready = op;
	}
	return n;
}

/*
 * A cancel may complete this op or another, and may begin one; it runs no
 * callback.  So each is moved to a list of its own before it is asked.
 */
void op_cancel_all(struct weir_reactor *r)
{
	struct weir_op *asked = NULL;
	struct weir_op *op;

	while ((op = r->live)) {
		r->live = op->live_next;
		if (r->live)
			r->live->live_pprev = &r->live;
		op->live_next = asked;
		op->live_pprev = &asked;
		if (asked)
			asked->live_pprev = &op->live_next;
		asked = op;
		op_request_cancel(op, OP_CANCEL);
	}
	r->live = asked;
	if (asked)
		asked->live_pprev = &r->live;
}

int weir_defer(struct weir_reactor *r, struct weir_op *op)
{
	int err = op_may_begin(r, op);

	if (likely(!err))
		op_defer(r, op);
	return err;
}

static void sleep_fire(struct weir_timer_node *node)
{
	op_complete(weir_container_of(node, struct weir_op, u.timer), 0);
}

static void sleep_cancel(struct weir_op *op)
{
	wheel_del(&op->reactor->wheel, &op->u.timer);
	op_complete(op, -ECANCELED);
}

static const struct weir_op_class sleep_class = {
	.name = "sleep",
	.cancel = sleep_cancel,
};

void op_sleep(struct weir_reactor *r, struct weir_op *op, uint64_t when_ns)
{
	op_enlist(r, op, &sleep_class);
	op->u.timer = (struct weir_timer_node){ .fire = sleep_fire };
	wheel_add(&r->wheel, &op->u.timer, when_ns);
}

int weir_sleep_until(struct weir_reactor *r, struct weir_op *op,
		     uint64_t when_ns)
{
	int err = op_may_begin(r, op);

	if (!err)
		op_sleep(r, op, when_ns);
	return err;
}
