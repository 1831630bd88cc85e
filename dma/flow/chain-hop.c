/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Chains, hops: steps whose job is on another reactor, and so on another
 * thread.
 *
 *	the chain's reactor              the context's reactor
 *	hop_begin()   --- .op -------->  arrive(): start the job, or wait
 *	hop_cancel()  --- .hop.cancel ->  hear(): cancel it
 *	step_returned() <-- .op --------  when it has ended
 *
 * Both travel as operations that are returned, which are never refused.  The
 * context's reactor does not touch a step that it has returned.  So the side
 * that ends first checks whether a cancel is in flight to it, and if so waits
 * for it.
 *
 * The gate counts what is in flight to a context.  The context's reactor closes
 * it when it stops, and does not finish stopping before the gate is empty: so
 * it answers all steps that were let in, and a step that comes later is refused
 * at once.  While chains name the context, it cannot be destroyed, and so its
 * reactor cannot either.
 */

#include <errno.h>
#include <sched.h>

#include "dma/flow/chain-internal.h"

enum hop_word {
	HOP_CANCEL = 1,		/* The chain's: it has been sent. */
	HOP_ENDED = 2,		/* The other's: the job, or it never began. */
};

enum gate {
	GATE_CLOSED = 1,
	GATE_ONE = 2,		/* Each that is in flight. */
};

/* Any thread. */
static bool gate_enter(struct weir_dma *dma)
{
	unsigned int gate = atomic_load(&dma->gate);

	do {
		if (gate & GATE_CLOSED)
			return false;
	} while (!atomic_compare_exchange_weak(&dma->gate, &gate,
					       gate + GATE_ONE));
	return true;
}

/* Keep one operation in flight while the gate counts any step. */
static void gate_hold(struct weir_dma *dma)
{
	static const struct weir_op_class gate_class = { .name = "hop" };

	if (dma->gate_op.state == OP_IDLE)
		op_enlist(dma->r, &dma->gate_op, &gate_class);
}

static void gate_expect(struct weir_dma *dma)
{
	if (atomic_fetch_add(&dma->gate, GATE_ONE) & GATE_CLOSED)
		gate_hold(dma);
}

static void gate_leave(struct weir_dma *dma)
{
	debug_check(atomic_load(&dma->gate) >= GATE_ONE);
	if (atomic_fetch_sub(&dma->gate, GATE_ONE) == GATE_ONE + GATE_CLOSED &&
	    dma->gate_op.state == OP_PENDING)
		op_complete(&dma->gate_op, 0);
}

static void gate_close(struct reactor_obj *obj)
{
	struct weir_dma *dma = weir_container_of(obj, struct weir_dma, obj);

	if (atomic_fetch_or(&dma->gate, GATE_CLOSED) >= GATE_ONE)
		gate_hold(dma);
}

static void gate_open(struct reactor_obj *obj)
{
	struct weir_dma *dma = weir_container_of(obj, struct weir_dma, obj);

	atomic_fetch_and(&dma->gate, ~(unsigned int)GATE_CLOSED);
}

/* It may have been held again when it was empty, and its callback due. */
static void gate_op_done(struct weir_op *op, int64_t res)
{
	struct weir_dma *dma = weir_container_of(op, struct weir_dma, gate_op);

	(void)res;
	if (atomic_load(&dma->gate) > GATE_ONE)
		gate_hold(dma);
}

void hop_init(struct weir_dma *dma)
{
	weir_op_init(&dma->gate_op, gate_op_done);
	dma->obj.stop = gate_close;
	dma->obj.start = gate_open;
}

/* The context's thread. */

static void step_returned(struct weir_op *op);

/* Once the chain's reactor has @s, its thread may destroy this reactor: see
 * hop_part(). */
static void return_to_owner(struct step *s)
{
	static const struct weir_op_class return_class = {
		.name = "hop back",
		.returned = step_returned,
	};
	struct weir_dma *dma = s->dma;

	debug_check(s->kind == STEP_HOP);
	atomic_fetch_add(&dma->n_returning, 1);
	s->away->op.reactor = s->chain->r;
	s->away->op.cls = &return_class;
	op_return(&s->away->op);
	atomic_fetch_sub(&dma->n_returning, 1);
}

static void end(struct step *s, int64_t res)
{
	debug_check(s->kind == STEP_HOP && !s->away->hop.ended);
	s->away->hop.res = res;
	if (atomic_fetch_or(&s->away->hop.word, HOP_ENDED) & HOP_CANCEL &&
	    !s->away->hop.heard) {
		s->away->hop.ended = true;
		gate_expect(s->dma);
		return;
	}
	return_to_owner(s);
}

/* Release the capacity that the step had beyond .ops_max. */
static void give_back(struct step *s)
{
	if (!s->away->hop.extra)
		return;
	s->away->hop.extra = false;
	reactor_reserve(s->dma->r, -1);
}

static void job_ended(struct weir_op *op, int64_t res)
{
	struct step *s = op->data;

	debug_check(s->kind == STEP_HOP);
	give_back(s);
	s->away->hop.detail = op->detail;
	s->away->hop.engine = job_priv(s->job)->engine->kind->ops.name;
	end(s, res);
}

static int start_job(struct step *s)
{
	struct weir_op *op = &s->job->op;

	if (unlikely(op->state != OP_IDLE))
		return -EINVAL;
	op->fn = job_ended;
	op->data = s;
	return weir_job_start(s->dma, s->job);
}

static void retry(struct weir_op *op, int64_t res);
static void found_capacity(struct dma_capacity *capacity);

static void wait_for_capacity(struct step *s)
{
	struct weir_reactor *r = s->dma->r;

	if (capacity_none(s->dma)) {
		s->capacity.fn = found_capacity;
		capacity_wait(s->dma, &s->capacity);
		return;
	}
	s->away->op.fn = retry;
	reactor_reserve(r, 1);
	op_sleep(r, &s->away->op, reactor_now(r) + chain_backoff(s->away->hop.tries++));
}

/* Chains of two reactors could else fill both, and wait for each other. */
static int start_beyond(struct step *s)
{
	struct weir_reactor *r = s->dma->r;
	int err;

	debug_check(!s->away->hop.extra);
	if (!reactor_is_full(r))
		return -EAGAIN;
	reactor_reserve(r, 1);
	s->away->hop.extra = true;
	err = start_job(s);
	if (err)
		give_back(s);
	return err;
}

static void attempt(struct step *s)
{
	int err = s->away->hop.heard ? -ECANCELED : start_job(s);

	debug_check(s->kind == STEP_HOP && !s->away->hop.begun);
	if (err == -EAGAIN)
		err = start_beyond(s);
	if (!err)
		s->away->hop.begun = true;
	else if (err == -EAGAIN)
		wait_for_capacity(s);
	else
		end(s, err);
}

static void retry(struct weir_op *op, int64_t res)
{
	struct step *s = away_of(op)->step;

	(void)res;
	reactor_reserve(s->dma->r, -1);
	attempt(s);
}

static void found_capacity(struct dma_capacity *capacity)
{
	attempt(weir_container_of(capacity, struct step, capacity));
}

/* The context outlives the step, which may be gone after attempt(). */
static void arrive(struct weir_op *op)
{
	struct step *s = away_of(op)->step;
	struct weir_dma *dma = s->dma;

	debug_check(s->dma->r != s->chain->r);
	attempt(s);
	gate_leave(dma);
}

static void hear(struct weir_op *op)
{
	struct step *s = weir_container_of(op, struct step_away,
					   hop.cancel)->step;
	struct weir_dma *dma = s->dma;

	s->away->hop.heard = true;
	if (s->away->hop.ended) {
		return_to_owner(s);
		gate_leave(dma);
	} else if (s->away->hop.begun) {
		weir_op_cancel(&s->job->op);
	} else if (s->capacity.pprev) {
		capacity_wait_no_more(dma, &s->capacity);
		end(s, -ECANCELED);
	} else {
		weir_op_cancel(&s->away->op);
	}
}

/* The chain's thread. */

static void step_returned(struct weir_op *op)
{
	struct step *s = away_of(op)->step;

	debug_check(s->state == WEIR_STEP_RUNNING);
	s->detail = s->away->hop.detail;
	s->engine = s->away->hop.engine;
	if (!s->away->hop.begun && s->away->hop.res == -ECANCELED)
		chain_step_not_begun(s);
	else
		chain_step_ended(s, s->away->hop.res);
}

int hop_begin(struct step *s)
{
	static const struct weir_op_class class = {
		.name = "hop",
		.returned = arrive,
	};

	debug_check(s->kind == STEP_HOP && s->state == WEIR_STEP_RUNNING);
	reactor_check_thread(s->chain->r);
	if (!gate_enter(s->dma))
		return -ESHUTDOWN;
	atomic_store(&s->away->hop.word, 0);
	s->away->hop.begun = s->away->hop.heard = s->away->hop.ended = s->away->hop.extra = false;
	s->away->hop.tries = 0;
	s->away->hop.detail = (struct weir_op_detail){ 0 };
	s->away->hop.engine = NULL;
	s->away->op.reactor = s->dma->r;
	s->away->op.cls = &class;
	op_return(&s->away->op);
	return 0;
}

void hop_cancel(struct step *s)
{
	static const struct weir_op_class class = {
		.name = "hop cancel",
		.returned = hear,
	};

	debug_check(s->kind == STEP_HOP && s->state == WEIR_STEP_RUNNING);
	reactor_check_thread(s->chain->r);
	if (atomic_fetch_or(&s->away->hop.word, HOP_CANCEL))
		return;
	s->away->hop.cancel.reactor = s->dma->r;
	s->away->hop.cancel.cls = &class;
	op_return(&s->away->hop.cancel);
}

/* The thread that returned the last step may still be waking our reactor. */
void hop_part(struct step *s)
{
	reactor_check_thread(s->chain->r);
	while (atomic_load(&s->dma->n_returning))
		sched_yield();
}
