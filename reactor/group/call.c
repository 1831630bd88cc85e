/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Calls, and waiting for capacity.  In a group both go through rings.
 * Otherwise a call is a post whose operation is returned, and a wait for
 * capacity is an operation that is sent to the other reactor and returned by
 * it:
 *
 *	the waiter's reactor            the reactor that is waited for
 *	weir_capacity_wait()  --- op --->   arrive(): tell at once, or keep it
 *	capacity_cancel()     --- wake-up -> capacity_waits_recall(): end those marked
 *	capacity_returned()       <-- op ----   when there is capacity, or it stops
 *
 * The mark is one of the operation's own words, and the only one that both
 * sides write.  While the operation is away the other side writes .next, and
 * the owner everything else.
 */

#include <sched.h>

#include <weir/call.h>

#include "base/own.h"
#include "base/why.h"
#include "reactor/group/spsc-inline.h"

/* In op->u.words. */
enum {
	CALL_TO,
	CALL_FN,
	CALL_ARG,
	CALL_MARK,	/* 1: its owner has cancelled it. */
	CALL_TOLD,	/* 1: it is on its way back. */
};

static struct weir_reactor *to_of(const struct weir_op *op)
{
	return (struct weir_reactor *)(uintptr_t)op->u.words[CALL_TO];
}

static bool is_marked(struct weir_op *op)
{
	return __atomic_load_n(&op->u.words[CALL_MARK], __ATOMIC_SEQ_CST);
}

static void mark(struct weir_op *op)
{
	__atomic_store_n(&op->u.words[CALL_MARK], 1, __ATOMIC_SEQ_CST);
}

void mailbox_await_visitors(struct weir_reactor *r)
{
	reactor_check_thread(r);
	while (atomic_load(&r->mailbox.visitors))
		sched_yield();
	own_after(&r->mailbox.visitors);
}

/* A call by the mailbox. */

static void shared_call_cancel(struct weir_op *op)
{
	debug_check(op_cancel_wanted(op));
	mark(op);
}

static const struct weir_op_class shared_call_class = {
	.name = "call",
	.cancel = shared_call_cancel,
};

/* On the other's thread. */
static void call_arrives(void *arg)
{
	struct weir_op *op = arg;
	int64_t (*fn)(void *arg) =
		(int64_t (*)(void *))(uintptr_t)op->u.words[CALL_FN];
	int64_t res = -ECANCELED;

	debug_check(op->u.words[CALL_FN]);
	if (!is_marked(op))
		res = fn((void *)(uintptr_t)op->u.words[CALL_ARG]);
	op_send_back(op, res);
}

__attribute__((cold)) static int call_is_vain(int err)
{
	return err != -ESHUTDOWN ? err :
	       why_static(err, "weir_call: the other reactor is stopping or "
			  "stopped, so the function will not run");
}

static int call_by_mailbox(struct weir_reactor *r, struct weir_op *op,
			   struct weir_reactor *to,
			   int64_t (*fn)(void *arg), void *arg)
{
	int err;

	op->u.words[CALL_TO] = (uintptr_t)to;
	op->u.words[CALL_FN] = (uintptr_t)fn;
	op->u.words[CALL_ARG] = (uintptr_t)arg;
	op->u.words[CALL_MARK] = 0;
	own_words(&op->u.words[CALL_MARK], sizeof(op->u.words[CALL_MARK]));
	op_enlist(r, op, &shared_call_class);
	mailbox_visit(to);
	err = weir_post(to, call_arrives, op);
	mailbox_leave(to);
	if (unlikely(err)) {
		op_abandon(op);
		r->stats.refused += err == -EAGAIN;
		return call_is_vain(err);
	}
	return 0;
}

/* A call by a ring. */

/*
 * Where its message is, in words of the operation that lists would need, and
 * its result: they are on the line that is written anyway.
 */
static void set_place(struct weir_op *op, struct spsc *spsc, uint64_t pos)
{
	op->pprev = (struct weir_op **)(void *)spsc;
	op->res = (int64_t)pos;
}

static void spsc_call_cancel(struct weir_op *op)
{
	debug_check(op_cancel_wanted(op));
	spsc_cancel((struct spsc *)(void *)op->pprev, (uint64_t)op->res);
}

static const struct weir_op_class spsc_call_class = {
	.name = "call",
	.cancel = spsc_call_cancel,
};

/* It is in no list of operations to be ended: it is answered soon anyway. */
static int call_by_spsc(struct spsc *spsc, struct weir_op *op,
			int64_t (*fn)(void *arg), void *arg)
{
	struct weir_reactor *r = spsc->from;
	uint64_t pos = spsc->next;
	int err = spsc_call(spsc, op, fn, arg);

	if (unlikely(err == -EAGAIN)) {
		r->stats.refused++;
		return mailbox_refuses(&spsc->to->mailbox);
	}
	if (unlikely(err))
		return call_is_vain(err);
	op->reactor = r;
	op->cls = &spsc_call_class;
	op->state = OP_PENDING;
	op->flags = 0;
	op->detail = (struct weir_op_detail){ 0 };
	set_place(op, spsc, pos);
	r->n_begun++;
	if (unlikely(op->deadline.expires_ns))
		op_deadline_begin(r, op);
	reactor_touch(r);
	return 0;
}

int weir_call(struct weir_reactor *r, struct weir_op *op,
	      struct weir_reactor *to, int64_t (*fn)(void *arg), void *arg)
{
	struct spsc *spsc;
	int err;

	if (unlikely(!to || !fn))
		return why_static(-EINVAL, "weir_call: no reactor to call, or "
				  "no function");
	err = op_admit(r, op);
	if (unlikely(err))
		return op_refused(err, op, "weir_call");
	spsc = spsc_between(r, to);
	if (unlikely(!spsc))
		return call_by_mailbox(r, op, to, fn, arg);
	return call_by_spsc(spsc, op, fn, arg);
}

/* Capacity in a ring: its sender waits on its own reactor. */

static void spsc_capacity_cancel(struct weir_op *op)
{
	struct spsc *spsc = spsc_between(op->reactor, to_of(op));

	debug_check(op_cancel_wanted(op));
	op_queue_del(&spsc->waiting, op);
	if (op_queue_empty(&spsc->waiting))
		atomic_store(&spsc->wants_capacity, false);
	op_complete(op, -ECANCELED);
}

static const struct weir_op_class spsc_capacity_class = {
	.name = "wait for capacity",
	.cancel = spsc_capacity_cancel,
};

__attribute__((cold)) static int wait_is_vain(void)
{
	return why_static(-ESHUTDOWN, "weir_capacity_wait: the other reactor is "
			  "stopping or stopped");
}

static int wait_at_spsc(struct spsc *spsc, struct weir_op *op)
{
	debug_check(op->state == OP_IDLE);
	if (unlikely(atomic_load(&spsc->closed)))
		return wait_is_vain();
	op->u.words[CALL_TO] = (uintptr_t)spsc->to;
	op_enlist(spsc->from, op, &spsc_capacity_class);
	op_queue_push(&spsc->waiting, op);
	atomic_store(&spsc->wants_capacity, true);
	return 0;
}

/* Capacity in a mailbox: the waiting operation travels. */

static void capacity_cancel(struct weir_op *op)
{
	struct weir_reactor *to = to_of(op);

	debug_check(op_cancel_wanted(op));
	mark(op);
	own_before(&to->requests);
	atomic_fetch_or(&to->requests, REQUEST_RECALL);
	mailbox_wake(to);
}

static void capacity_returned(struct weir_op *op);

static const struct weir_op_class capacity_class = {
	.name = "wait for capacity",
	.cancel = capacity_cancel,
	.returned = capacity_returned,
};

static void tell(struct weir_op *op, int64_t res)
{
	debug_check(!op->u.words[CALL_TOLD]);
	op->u.words[CALL_TOLD] = 1;
	op_send_back(op, is_marked(op) ? -ECANCELED : res);
}

static void capacity_arrives(struct weir_reactor *r, struct weir_op *op)
{
	debug_check(to_of(op) == r);
	/* A recall may have passed before a marked operation arrived here. */
	if (reactor_is_down(r) || is_marked(op)) {
		tell(op, -ESHUTDOWN);
		return;
	}
	op->next = NULL;
	*r->mailbox.waiting_last = op;
	r->mailbox.waiting_last = &op->next;
	mailbox_note_more(&r->mailbox);
}

static void capacity_returned(struct weir_op *op)
{
	debug_check(op->state == OP_PENDING);
	if (op->u.words[CALL_TOLD])
		op_complete(op, op->res);
	else
		capacity_arrives(to_of(op), op);
}

/* Tell all that @is_due holds for, at most @n; the rest stays in order. */
static void tell_some(struct weir_reactor *r, uint64_t n,
		      bool (*is_due)(struct weir_op *op), int64_t res)
{
	struct weir_op **at = &r->mailbox.waiting, *op;

	while (n && (op = *at)) {
		if (!is_due(op)) {
			at = &op->next;
			continue;
		}
		*at = op->next;
		tell(op, res);
		n--;
	}
	if (!*at)
		r->mailbox.waiting_last = at;
	mailbox_note_more(&r->mailbox);
}

static bool always(struct weir_op *op)
{
	(void)op;
	return true;
}

void capacity_waits_recall(struct weir_reactor *r)
{
	reactor_check_thread(r);
	tell_some(r, UINT64_MAX, is_marked, -ECANCELED);
}

void capacity_waits_end(struct weir_reactor *r)
{
	reactor_check_thread(r);
	tell_some(r, UINT64_MAX, always, -ESHUTDOWN);
}

void capacity_waits_tell(struct weir_reactor *r)
{
	reactor_check_thread(r);
	if (r->mailbox.waiting && mailbox_has_capacity(&r->mailbox))
		tell_some(r, mailbox_capacity(&r->mailbox), always, 0);
}

static int wait_at_mailbox(struct weir_reactor *r, struct weir_op *op,
			   struct weir_reactor *to)
{
	int err = 0;

	mailbox_visit(to);
	if (reactor_is_down(to)) {
		err = wait_is_vain();
	} else {
		op->u.words[CALL_TO] = (uintptr_t)to;
		op->u.words[CALL_MARK] = 0;
		op->u.words[CALL_TOLD] = 0;
		own_words(&op->u.words[CALL_MARK],
			  sizeof(op->u.words[CALL_MARK]));
		op_enlist(r, op, &capacity_class);
		mailbox_send(to, op);
	}
	mailbox_leave(to);
	return err;
}

int weir_capacity_wait(struct weir_reactor *r, struct weir_op *op,
		       struct weir_reactor *to)
{
	struct spsc *spsc;
	int err;

	if (unlikely(!to))
		return why_static(-EINVAL, "weir_capacity_wait: no reactor to "
				  "wait for");
	err = op_admit(r, op);
	if (unlikely(err))
		return op_refused(err, op, "weir_capacity_wait");
	spsc = spsc_between(r, to);
	return spsc ? wait_at_spsc(spsc, op) : wait_at_mailbox(r, op, to);
}
