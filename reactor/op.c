/* SPDX-License-Identifier: BSD-3-Clause */
/* The life of an operation: cancel, deadline, callback; and a simple one. */

#include "base/mutation.h"
#include "base/why.h"
#include "reactor/op-inline.h"

#define REPEAT_FIRST_NS (10 * WEIR_USEC)
#define REPEAT_LAST_NS (10 * WEIR_MSEC)

int op_refused(int err, const struct weir_op *op, const char *call)
{
	if (err == OP_ENDED)
		return 0;
	if (err == -EAGAIN)
		return why_static(err, "too many operations are in flight on "
				  "the reactor: wait for a callback, or raise "
				  ".ops_max");
	return why(err, "%s: %s", call,
		   err == -ESHUTDOWN ? "the reactor is stopping or stopped" :
		   op->state != OP_IDLE ?
		   "the operation is in flight; wait for its callback" :
		   "the operation has no callback; see weir_op_init()");
}

/* Asked to end by its owner, its deadline, or a reactor that stops. */
void op_request_cancel(struct weir_op *op, unsigned int why)
{
	if (op_cancel_wanted(op))
		return;
	op->flags |= (uint8_t)(OP_CANCEL | why);
	if (unlikely(op->entered))
		op->entered |= OP_CANCEL_DUE;
	else if (op->cls->cancel)
		op->cls->cancel(op);
}

int weir_op_cancel(struct weir_op *op)
{
	if (op->state == OP_IDLE)
		return why_static(-EINVAL, "weir_op_cancel: the operation is "
				  "not in flight");
	reactor_check_thread(op->reactor);
	if (op->state == OP_PENDING) {
		op_request_cancel(op, OP_CANCEL);
		reactor_touch(op->reactor);
	}
	return 0;
}

static void deadline_fire(struct weir_timer_node *node)
{
	debug_check(!wheel_pending(node));
	op_request_cancel(weir_container_of(node, struct weir_op, deadline),
			  OP_TIMED_OUT);
}

/* @op was just enlisted; its owner has set its deadline before the start. */
void op_deadline_begin(struct weir_reactor *r, struct weir_op *op)
{
	debug_check(op->deadline.expires_ns && !wheel_pending(&op->deadline));
	reactor_check_thread(r);
	op->deadline.fire = deadline_fire;
	wheel_add(&r->wheel, &op->deadline, op->deadline.expires_ns);
}

static const struct weir_op_class late_class = { .name = "late" };

/* The rest of op_admit(): @op has a deadline. */
int op_admit_timely(struct weir_reactor *r, struct weir_op *op)
{
	debug_check(op->deadline.expires_ns);
	reactor_check_thread(r);
	if (likely(!op_is_late(r, op)))
		return 0;
	op_begin_ready(r, op, &late_class, -ETIMEDOUT, 0);
	op_set_late(op, true);
	return OP_ENDED;
}

static void move_deadline(struct weir_op *op, uint64_t when)
{
	struct wheel *w = &op->reactor->wheel;

	debug_check(op->state == OP_PENDING);
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
		return why_static(-EINVAL, "weir_op_set_deadline: the "
				  "operation has ended, and its callback is "
				  "due");
	}
}

int weir_op_get_detail(const struct weir_op *op, struct weir_op_detail *ret)
{
	if (op->state != OP_IDLE)
		return why_static(-EINVAL, "weir_op_get_detail: the operation "
				  "is in flight");
	*ret = op->detail;
	return 0;
}

int weir_op_is_late(const struct weir_op *op)
{
	return op->state == OP_IDLE && op->deadline.next == &op->deadline;
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

	debug_check(!*r->ready_last);
	reactor_check_thread(r);
	r->ready = NULL;
	r->ready_last = &r->ready;
	for (n = 0; op && n < max; n++) {
		next = op->next;
		op_call_back(r, op, op->res);
		op = next;
	}
	if (unlikely(op)) {
		/* The rest goes before what was added. */
		if (!mutation(lost_completion))
			*end = r->ready;
		if (!r->ready)
			r->ready_last = end;
		r->ready = op;
	}
	return n;
}

static void list_push(struct weir_op **list, struct weir_op *op)
{
	op->live_next = *list;
	op->live_pprev = list;
	if (*list)
		(*list)->live_pprev = &op->live_next;
	*list = op;
}

static void list_del(struct weir_op *op)
{
	debug_check(*op->live_pprev == op);
	*op->live_pprev = op->live_next;
	if (op->live_next)
		op->live_next->live_pprev = op->live_pprev;
}

/*
 * A cancel may complete this op or another, and may begin one; it runs no
 * callback.  So each op is moved to another list before its cancel.
 */
void op_cancel_all(struct weir_reactor *r)
{
	struct weir_op *asked = NULL;
	struct weir_op *op;

	reactor_check_thread(r);
	while ((op = r->live)) {
		list_del(op);
		list_push(&asked, op);
		op_request_cancel(op, OP_CANCEL);
	}
	r->live = asked;
	if (asked)
		asked->live_pprev = &r->live;
}

void op_repeat_cancel(struct weir_op *op)
{
	struct weir_reactor *r = op->reactor;

	debug_check(op_cancel_wanted(op) && op->cls->cancel);
	list_del(op);
	list_push(&r->repeats.asked, op);
	repeats_plan(r);
}

void repeats_init(struct weir_reactor *r)
{
	reactor_check_thread(r);
	r->repeats.at_ns = WEIR_FOREVER;
	r->repeats.delay_ns = REPEAT_FIRST_NS;
}

void repeats_plan(struct weir_reactor *r)
{
	reactor_check_thread(r);
	if (r->repeats.at_ns == WEIR_FOREVER)
		r->repeats.at_ns = reactor_now(r) + r->repeats.delay_ns;
}

/*
 * Whether the backend still has requests to cancel; with @ask it repeats the
 * cancels.
 */
static bool backend_repeats(struct weir_reactor *r, bool ask)
{
	return r->backend->repeat && r->backend->repeat(r, ask);
}

/* Each comes up once before one comes up again. */
static void ask_again(struct weir_reactor *r)
{
	struct repeats *rep = &r->repeats;
	struct weir_op *op;
	unsigned int n;

	debug_check(rep->at_ns == WEIR_FOREVER);
	if (!rep->due && rep->asked) {
		rep->due = rep->asked;
		rep->due->live_pprev = &rep->due;
		rep->asked = NULL;
	}
	for (n = 0; (op = rep->due) && n < REPEATS_MAX; n++) {
		list_del(op);
		list_push(&r->live, op);
		op->cls->cancel(op);
	}
}

void repeats_run(struct weir_reactor *r)
{
	struct repeats *rep = &r->repeats;
	bool more;

	reactor_check_thread(r);
	if (reactor_now(r) < rep->at_ns)
		return;
	rep->at_ns = WEIR_FOREVER;
	if (rep->delay_ns < REPEAT_LAST_NS)
		rep->delay_ns *= 2;
	ask_again(r);
	more = backend_repeats(r, true);
	if (more || rep->due || rep->asked)
		repeats_plan(r);
	else
		rep->delay_ns = REPEAT_FIRST_NS;
}

uint64_t repeats_due(struct weir_reactor *r)
{
	struct repeats *rep = &r->repeats;

	reactor_check_thread(r);
	if (!rep->due && !rep->asked && !backend_repeats(r, false))
		repeats_init(r);
	return rep->at_ns;
}

/* weir_defer() of an operation with a deadline.  Not inline, so that operations
 * without one need not save registers for a call. */
__attribute__((noinline)) static int defer_timely(struct weir_reactor *r,
						  struct weir_op *op)
{
	int err = op_admit_timely(r, op);

	if (!err)
		op_defer(r, op);
	return op_admitted(err);
}

int weir_defer(struct weir_reactor *r, struct weir_op *op)
{
	int err = op_may_begin(r, op);

	if (unlikely(err))
		return op_refused(err, op, "weir_defer");
	if (unlikely(op->deadline.expires_ns))
		return defer_timely(r, op);
	op_defer(r, op);
	return 0;
}

static void sleep_fire(struct weir_timer_node *node)
{
	debug_check(!wheel_pending(node));
	op_complete(weir_container_of(node, struct weir_op, u.timer), 0);
}

static void sleep_cancel(struct weir_op *op)
{
	debug_check(wheel_pending(&op->u.timer));
	debug_check(op_cancel_wanted(op));
	wheel_del(&op->reactor->wheel, &op->u.timer);
	op_complete(op, -ECANCELED);
}

static const struct weir_op_class sleep_class = {
	.name = "sleep",
	.cancel = sleep_cancel,
};

void op_sleep(struct weir_reactor *r, struct weir_op *op, uint64_t when_ns)
{
	reactor_check_thread(r);
	op_enlist(r, op, &sleep_class);
	op->u.timer = (struct weir_timer_node){ .fire = sleep_fire };
	wheel_add(&r->wheel, &op->u.timer, when_ns);
}

int weir_sleep_until(struct weir_reactor *r, struct weir_op *op,
		     uint64_t when_ns)
{
	int err = op_admit(r, op);

	if (err)
		return op_refused(err, op, "weir_sleep_until");
	op_sleep(r, op, when_ns);
	return 0;
}
