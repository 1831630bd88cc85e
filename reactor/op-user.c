/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Operations of the program's own, and of libraries above this one: the loop has
 * their place in it, and they do the work.
 *
 * Any thread may finish one, so whether it was finished is decided by one word
 * in it, by compare and exchange:
 *
 *	started ^ address ---- weir_op_finish() ----> finished ^ address
 *
 * The word is the first of what operations of all classes share, and the address
 * is in it: so an operation that is another's, was copied, or was never started
 * is refused, on every thread and in release builds, without a look at members
 * that only the reactor's thread may read.
 */

#include <stddef.h>

#include "base/opts.h"
#include "base/own.h"
#include "base/why.h"
#include "reactor/op-inline.h"

#define STARTED UINT64_C(0x9e8d1c5b37a64f21)
#define FINISHED UINT64_C(0x61c2b7f40d93ae57)
#define ERRNO_MAX 4095

static uint64_t mark_of(const struct weir_op *op, uint64_t what)
{
	return (uintptr_t)op ^ what;
}

/* Another thread may have finished it: then its result is on the way. */
static void user_cancel(struct weir_op *op)
{
	struct weir_reactor *r = op->reactor;

	debug_check(op->state == OP_PENDING && op_cancel_wanted(op));
	if (!op->u.own.cancel ||
	    __atomic_load_n(&op->u.own.mark, __ATOMIC_ACQUIRE) !=
		    mark_of(op, STARTED))
		return;
	reactor_enter(r);
	op->u.own.cancel(op, op->u.own.arg);
	reactor_exit(r);
}

/* The caller owns the lent buffer again. */
static void take_back(struct weir_op *op)
{
#ifdef OWN_ANNOTATE
	void *p = op->u.own.lent;
	size_t len = (size_t)op->u.own.lent_len;

	if (!(op->flags & OP_LENT))
		return;
	own_acquire(op);
	if (op->u.own.lent_how == WEIR_LEND_IN)
		own_acquire_in(p, len, op->res < 0 ? 0 : len);
	else if (own_acquire_out(p, len, 0) != op->u.own.lent_sum)
		own_was_changed();
#else
	(void)op;
#endif
}

static void user_leave(struct weir_op *op)
{
	take_back(op);
	if (op->u.own.kind->leave)
		op->u.own.kind->leave(op, op->u.own.arg);
}

/* Its name is that of the kind. */
static const struct weir_op_class user_class = {
	.cancel = user_cancel,
	.leave = user_leave,
};

/* Those of weir_op_start(). */
static const struct weir_op_kind user_kind = {
	.size = sizeof(user_kind),
	.name = "user",
};

static void enlist(struct weir_reactor *r, struct weir_op *op,
		   const struct weir_op_kind *kind, weir_op_cancel_fn *cancel,
		   void *arg)
{
	op->u.own.kind = kind;
	op->u.own.cancel = cancel;
	op->u.own.arg = arg;
	op->u.own.lent = NULL;
	op_enlist(r, op, &user_class);
	own_words(&op->u.own.mark, sizeof(op->u.own.mark));
	__atomic_store_n(&op->u.own.mark, mark_of(op, STARTED),
			 __ATOMIC_RELEASE);
}

/* A deadline that has passed is the wheel's, as any other: the caller is about
 * to begin, and must find @op in flight. */
int weir_op_start(struct weir_reactor *r, struct weir_op *op,
		  weir_op_cancel_fn *cancel, void *arg)
{
	int err = op_may_begin(r, op);

	if (unlikely(err))
		return op_refused(err, op, "weir_op_start");
	enlist(r, op, &user_kind, cancel, arg);
	return 0;
}

static int check_kind(const struct weir_op_kind *kind)
{
	struct weir_op_kind known;

	if (likely(kind && kind->size == sizeof(*kind) && kind->name))
		return 0;
	if (!kind || kind->size < sizeof(*kind) || !kind->name)
		return why_static(-EINVAL, "weir_op_begin: there is no kind, it "
				  "has no .name, or its .size is too small");
	return opts_load(&known, sizeof(known), kind, "weir_op_begin");
}

int weir_op_begin(struct weir_reactor *r, struct weir_op *op,
		  const struct weir_op_kind *kind, void *arg)
{
	int err = check_kind(kind);

	if (unlikely(err))
		return err;
	err = op_admit(r, op);
	if (unlikely(err == OP_ENDED))
		return 1;
	if (unlikely(err))
		return op_refused(err, op, "weir_op_begin");
	enlist(r, op, kind, kind->cancel, arg);
	if (kind->leave)
		op->flags |= OP_LEAVES;
	return 0;
}

/* Whether @op is in flight, and not finished: 0 or -EINVAL. */
static int check_started(const struct weir_op *op, const char *text)
{
	if (likely(op->state == OP_PENDING && op->cls == &user_class &&
		   __atomic_load_n(&op->u.own.mark, __ATOMIC_ACQUIRE) ==
			   mark_of(op, STARTED)))
		return 0;
	return why_static(-EINVAL, text);
}

int weir_op_abandon(struct weir_op *op)
{
	int err = check_started(op, "weir_op_abandon: the operation is not in "
				"flight by weir_op_begin(), or was finished");

	if (err)
		return err;
	reactor_check_thread(op->reactor);
	__atomic_store_n(&op->u.own.mark, 0, __ATOMIC_RELAXED);
	take_back(op);
	op_abandon(op);
	return 0;
}

int weir_op_set_detail(struct weir_op *op, const struct weir_op_detail *detail)
{
	int err = check_started(op, "weir_op_set_detail: the operation is not "
				"in flight by weir_op_begin(), or was "
				"finished");

	if (err)
		return err;
	reactor_check_thread(op->reactor);
	op->detail = *detail;
	return 0;
}

void *weir_op_area(struct weir_op *op)
{
	enum { FIRST = sizeof(op->backend) - WEIR_OP_AREA };

	_Static_assert(FIRST >= (OP_WEIGHT + 1) * sizeof(op->backend[0]),
		       "it may be timed");
	return (char *)op->backend + FIRST;
}

__attribute__((cold)) static int refuse(uint64_t mark, const struct weir_op *op)
{
	if (mark == mark_of(op, FINISHED))
		return why_static(-EALREADY, "weir_op_finish: the operation was "
				  "finished already; call it once for each "
				  "weir_op_start() or weir_op_begin()");
	return why_static(-EINVAL, "weir_op_finish: the operation is not in "
			  "flight by weir_op_start() or weir_op_begin()");
}

int weir_op_finish(struct weir_op *op, int64_t res)
{
	uint64_t mark = __atomic_load_n(&op->u.own.mark, __ATOMIC_RELAXED);
	struct weir_reactor *r;

	/* What is no such operation's is another's, which a worker may read:
	 * it is not written to, not even with what is there. */
	if (unlikely(mark != mark_of(op, STARTED) ||
		     !__atomic_compare_exchange_n(
			     &op->u.own.mark, &mark, mark_of(op, FINISHED),
			     false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)))
		return refuse(mark, op);
	if (unlikely(res < -ERRNO_MAX))
		res = -EIO;
	r = op->reactor;
	if (likely(reactor_is_here(r)))
		op_complete(op, res);
	else
		op_send_back(op, res);
	return 0;
}

static void lend(struct weir_op *op)
{
#ifdef OWN_ANNOTATE
	void *p = op->u.own.lent;
	size_t len = (size_t)op->u.own.lent_len;

	if (!own_heard())
		return;
	if (op->u.own.lent_how == WEIR_LEND_IN)
		own_release_in(p, len);
	else
		op->u.own.lent_sum = own_release_out(p, len, 0);
	own_release(op);
	op->flags |= OP_LEAVES | OP_LENT;
#else
	(void)op;
#endif
}

int weir_op_lend(struct weir_op *op, void *buf, size_t len, uint32_t how)
{
	if (!buf || (how != WEIR_LEND_IN && how != WEIR_LEND_OUT))
		return why_static(-EINVAL, "weir_op_lend: no buffer, or .how is "
				  "neither WEIR_LEND_IN nor WEIR_LEND_OUT");
	if (op->state == OP_IDLE || op->cls != &user_class)
		return why_static(-EINVAL, "weir_op_lend: the operation is not "
				  "in flight by weir_op_start()");
	reactor_check_thread(op->reactor);
	if (op->u.own.lent)
		return why_static(-EBUSY, "weir_op_lend: the operation has a "
				  "buffer already");
	op->u.own.lent = buf;
	op->u.own.lent_len = len;
	op->u.own.lent_how = how;
	lend(op);
	return 0;
}
