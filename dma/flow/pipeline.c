/* SPDX-License-Identifier: BSD-3-Clause */
/* Pipelines: building one, running it, and what its users see of its slots. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "base/why.h"
#include "dma/flow/chain-internal.h"
#include "dma/flow/pipeline-internal.h"
#include "mem/shared-pool-internal.h"

/* Slots of pipelines, as their users see them. */

void *weir_slot_data(struct weir_slot *slot)
{
	return slot->data;
}

struct weir_buf *weir_slot_buf(const struct weir_slot *slot)
{
	return slot->buf;
}

struct weir_chain *weir_slot_chain(const struct weir_slot *slot)
{
	return slot->chain;
}

uint64_t weir_slot_unit(const struct weir_slot *slot)
{
	return slot->unit;
}

void weir_slot_set_bytes(struct weir_slot *slot, uint64_t bytes)
{
	slot->bytes = bytes;
}

struct weir_pipeline *weir_slot_pipeline(const struct weir_slot *slot)
{
	return slot->p;
}

/*
 * Pipelines, running: a stream that passes through slots.
 *
 *	FREE -> PARKED (waits for a buf) -> next() -> ACTIVE -> ENDED -> done()
 *	 ^         |                          | no unit                    |
 *	 +---------+--------------------------+----------------------------+
 *
 * Only an ordered pipeline has slots that stay ENDED: those of units that have
 * overtaken others.  Units in flight are fewer than slots and have consecutive
 * numbers, so unit n waits at order[n % depth].
 *
 * The operations that a pipeline itself starts are bounded by its slots, and it
 * has reserved capacity for them in the reactor.  So none is refused, and
 * nothing is retried in every turn: chains handle steps without capacity, and a
 * pool without capacity for waiters reports when it has some.
 */

static void pump(struct weir_pipeline *p);

static void arm_tick(struct weir_pipeline *p)
{
	static const struct weir_op_class tick_class = {
		.name = "pipeline turn",
	};

	if (weir_op_is_busy(&p->tick) || p->drained)
		return;
	op_enlist(p->r, &p->tick, &tick_class);
	op_complete(&p->tick, 0);
}

static void put_slot(struct weir_pipeline *p, struct weir_slot *slot)
{
	weir_buf_put(slot->buf);
	slot->buf = NULL;
	slot->next = p->free;
	p->free = slot;
}

/* All has drained: the pipeline's own operation ends. */
static void maybe_finish(struct weir_pipeline *p)
{
	struct weir_op *op = p->op;
	int64_t res = (int64_t)p->progress.done;

	if (!op || !(p->ended || p->stopping) || p->n_active || p->parked ||
	    p->in_fn || p->drained)
		return;
	if (p->failure.where)
		res = p->failure.res;
	else if (p->cancelled && (!p->ended || p->cut))
		res = -ECANCELED;
	p->drained = true;
	op_complete(op, res);
}

/* No more units; cancel those in flight. */
static void cut_short(struct weir_pipeline *p)
{
	uint32_t i;

	if (p->stopping)
		return;
	p->stopping = true;
	if (p->parked)
		weir_op_cancel(&p->wait);
	for (i = 0; i < p->opts.depth; i++)
		if (p->slots[i].active)
			weir_op_cancel(&p->slots[i].op);
}

/* The first error is the pipeline's.  @slot: whose unit's, or NULL. */
static void fail(struct weir_pipeline *p, uint32_t where, int64_t err,
		 const struct weir_slot *slot)
{
	struct weir_chain_step step = { .size = sizeof(step) };
	int n = WEIR_CHAIN_FIRST;

	if (p->stopping)
		return;
	if (where == WEIR_PIPELINE_AT_DONE && slot->res < 0 && slot->ran)
		n = weir_chain_failed_step(slot->chain);
	if (n >= 0) {
		weir_chain_get_step(slot->chain, (uint32_t)n, &step);
		where = WEIR_PIPELINE_AT_STEP;
	}
	p->failure = (struct weir_pipeline_failure){
		.unit = slot ? slot->unit : p->progress.units,
		.where = where,
		.step = n,
		.res = err,
		.detail = step.detail,
	};
	cut_short(p);
}

static void retire(struct weir_slot *slot)
{
	struct weir_pipeline *p = slot->p;
	int err;

	p->in_fn++;
	err = p->opts.done(slot, slot->res, p->opts.arg);
	debug_check(p->in_fn > 0);
	p->in_fn--;
	if (slot->res >= 0) {
		p->progress.done++;
		p->progress.bytes += slot->bytes;
	} else {
		p->progress.failed++;
		p->cut |= p->cancelled;
	}
	debug_check(p->n_active > 0);
	p->n_active--;
	slot->ended = false;
	if (err < 0)
		fail(p, WEIR_PIPELINE_AT_DONE, err, slot);
	put_slot(p, slot);
}

/* The unit has ended; it, and those it held up, may be done. */
static void unit_ended(struct weir_slot *slot, int64_t res)
{
	struct weir_pipeline *p = slot->p;
	uint32_t depth = p->opts.depth;

	slot->res = res;
	slot->active = false;
	slot->ended = true;
	if (!(p->opts.flags & WEIR_PIPELINE_ORDERED)) {
		retire(slot);
		return;
	}
	while (p->retire < p->progress.units &&
	       p->order[p->retire % depth]->ended) {
		slot = p->order[p->retire % depth];
		p->retire++;
		retire(slot);
	}
}

static void pipeline_slot_ended(struct weir_op *op, int64_t res)
{
	struct weir_slot *slot = weir_container_of(op, struct weir_slot, op);
	struct weir_pipeline *p = slot->p;

	unit_ended(slot, res);
	pump(p);
}

static void start_unit(struct weir_slot *slot)
{
	int err = -ECANCELED;

	/* Before the start, inside which functions of the user's may cancel
	 * the pipeline. */
	slot->active = true;
	if (!slot->p->stopping)
		err = chain_start_always(slot->chain, &slot->op);
	slot->ran = !err;
	if (err)
		unit_ended(slot, err);
}

/* Ask for the next unit.  Returns false if that is all for now. */
static bool next_unit(struct weir_slot *slot)
{
	struct weir_pipeline *p = slot->p;
	int ret;

	debug_check(slot->p->n_active < slot->p->window);
	slot->unit = p->progress.units;
	slot->bytes = 0;
	p->in_fn++;
	ret = p->opts.next(slot, p->opts.arg);
	debug_check(p->in_fn > 0);
	p->in_fn--;
	if (ret == WEIR_PIPELINE_UNIT) {
		p->order[slot->unit % p->opts.depth] = slot;
		p->progress.units++;
		p->n_active++;
		start_unit(slot);
		return true;
	}
	put_slot(p, slot);
	if (ret == -EAGAIN)
		p->idle = true;
	else if (ret != WEIR_PIPELINE_END)
		fail(p, WEIR_PIPELINE_AT_NEXT, ret < 0 ? ret : -EINVAL, NULL);
	else
		p->ended = true;
	return false;
}

/* Give @slot a buf, now or by and by.  Returns whether it has one. */
static bool get_buf(struct weir_slot *slot)
{
	struct weir_pipeline *p = slot->p;

	debug_check(!slot->p->parked && !slot->buf);
	if (!p->opts.pool || !weir_pool_get(&slot->buf, p->opts.pool))
		return true;
	p->progress.waits++;
	p->parked = slot;
	shared_pool_wait_or_capacity(p->opts.pool->classes, &p->wait);
	return false;
}

static bool may_go_on(const struct weir_pipeline *p)
{
	return p->op && !p->ended && !p->stopping && !p->idle && !p->paused &&
	       !p->parked && p->n_active < p->window;
}

/* Fill the window: at most as many units as there are slots. */
static void pump(struct weir_pipeline *p)
{
	struct weir_slot *slot;

	debug_check(p->n_active <= p->opts.depth);
	if (p->in_fn || !p->op)
		return;
	while (may_go_on(p) && (slot = p->free)) {
		p->free = slot->next;
		if (!get_buf(slot) || !next_unit(slot))
			break;
	}
	maybe_finish(p);
}

static void pipeline_tick(struct weir_op *op, int64_t res)
{
	(void)res;
	pump(weir_container_of(op, struct weir_pipeline, tick));
}

/* The wait ended with a buf, with capacity to wait for one, or cancelled. */
static void pipeline_wait_done(struct weir_op *op, int64_t res)
{
	struct weir_pipeline *p = weir_container_of(op, struct weir_pipeline,
						    wait);
	struct weir_slot *slot = p->parked;

	debug_check(slot);
	p->parked = NULL;
	slot->buf = weir_pool_taken(op);
	if (slot->buf && may_go_on(p)) {
		next_unit(slot);
	} else {
		put_slot(p, slot);
		if (res < 0 && !p->ended)
			fail(p, WEIR_PIPELINE_AT_NEXT, res, NULL);
	}
	pump(p);
}

static void pipeline_cancel(struct weir_op *op)
{
	struct weir_pipeline *p =
		(struct weir_pipeline *)(uintptr_t)op->u.words[0];

	debug_check(op_cancel_wanted(op));
	p->cancelled = true;
	cut_short(p);
	maybe_finish(p);
}

static void pipeline_leave(struct weir_op *op)
{
	struct weir_pipeline *p =
		(struct weir_pipeline *)(uintptr_t)op->u.words[0];

	debug_check(!p->n_active);
	p->op = NULL;
}

static const struct weir_op_class pipeline_class = {
	.name = "pipeline",
	.cancel = pipeline_cancel,
	.leave = pipeline_leave,
};

int weir_pipeline_start(struct weir_pipeline *p, struct weir_op *op)
{
	int err;

	if (p->op || p->in_fn)
		return why(-EBUSY, "weir_pipeline_start: the pipeline is "
			   "running; wait for its callback");
	err = op_may_begin(p->r, op);
	if (err)
		return op_refused(err, op, "weir_pipeline_start");
	op_enlist(p->r, op, &pipeline_class);
	op->u.words[0] = (uintptr_t)p;
	op->flags |= OP_LEAVES;
	p->op = op;
	p->retire = 0;
	p->ended = p->idle = p->paused = false;
	p->stopping = p->cancelled = p->cut = p->drained = false;
	memset(&p->progress, 0, sizeof(p->progress));
	memset(&p->failure, 0, sizeof(p->failure));
	if (op_is_late(p->r, op))
		op_request_cancel(op, OP_TIMED_OUT);
	else
		arm_tick(p);
	return 0;
}

void weir_pipeline_kick(struct weir_pipeline *p)
{
	if (!p->op || !p->idle)
		return;
	p->idle = false;
	arm_tick(p);
}

int weir_pipeline_pause(struct weir_pipeline *p)
{
	if (!p->op)
		return why(-EBADFD, "weir_pipeline_pause: the pipeline is not "
			   "running; see weir_pipeline_start()");
	p->paused = true;
	return 0;
}

int weir_pipeline_resume(struct weir_pipeline *p)
{
	if (!p->op)
		return why(-EBADFD, "weir_pipeline_resume: the pipeline is not "
			   "running; see weir_pipeline_start()");
	if (p->paused)
		arm_tick(p);
	p->paused = false;
	return 0;
}

int weir_pipeline_stop(struct weir_pipeline *p)
{
	if (!p->op || p->ended || p->stopping)
		return 0;	/* The earlier reason to end stays. */
	p->ended = true;
	if (p->parked)
		weir_op_cancel(&p->wait);
	maybe_finish(p);
	return 0;
}

int weir_pipeline_set_window(struct weir_pipeline *p, uint32_t slots)
{
	if (!slots || slots > p->opts.depth)
		return why(-EINVAL, "weir_pipeline_set_window: the window is "
			   "1 to %u slots, not %u", p->opts.depth, slots);
	p->window = slots;
	if (p->op)
		arm_tick(p);
	return 0;
}

/* Pipelines: their slots and chains, and what their users see of them. */

#define DEPTH_DEFAULT 8
#define DEPTH_MAX 4096
#define DATA_ALIGN 64

static int load_opts(struct weir_pipeline_opts *opts,
		     const struct weir_pipeline_opts *user)
{
	int err = opts_load(opts, sizeof(*opts), user, "weir_pipeline_create");

	if (err)
		return err;
	if (!opts->build || !opts->next || !opts->done)
		return why(-EINVAL, "weir_pipeline_create: .build, .next and "
			   ".done must be there");
	if (opts->depth > DEPTH_MAX)
		return why(-EINVAL, "weir_pipeline_create: .depth is at most "
			   "%u", DEPTH_MAX);
	if (opts->reserved)
		return why(-E2BIG, "weir_pipeline_create: .reserved is unknown "
			   "to this version");
	if (opts->flags & ~WEIR_PIPELINE_ORDERED)
		return why(-EINVAL, "weir_pipeline_create: unknown .flags %x",
			   opts->flags);
	if (!opts->depth)
		opts->depth = DEPTH_DEFAULT;
	return 0;
}

/* Each slot's chain and its tick, the pipeline's wait and tick. */
static int64_t own_ops(const struct weir_pipeline *p)
{
	return 2 * (int64_t)p->opts.depth + 2;
}

static void pipeline_free(struct weir_pipeline *p)
{
	uint32_t i;

	for (i = 0; p->slots && i < p->opts.depth; i++)
		check(!weir_chain_destroy(p->slots[i].chain));
	pool_let_go(p->opts.pool);
	free(p->slots);
	free(p->order);
	free(p->data);
	free(p);
}

static int alloc_parts(struct weir_pipeline *p, size_t stride)
{
	uint32_t depth = p->opts.depth;

	p->slots = mem_calloc(depth, sizeof(*p->slots));
	p->order = mem_calloc(depth, sizeof(*p->order));
	if (stride)
		p->data = mem_aligned(DATA_ALIGN, stride * depth);
	if (!p->slots || !p->order || (stride && !p->data))
		return why(-ENOMEM, "weir_pipeline_create: no memory for %u "
			   "slots", depth);
	return 0;
}

static int build_slot(struct weir_pipeline *p, struct weir_slot *slot)
{
	struct weir_chain_opts opts = {
		.size = sizeof(opts),
		.steps = p->opts.steps,
		.deps = p->opts.deps,
		.ctx = slot,
	};
	struct weir_chain_step first = { .size = sizeof(first) };
	int err;

	debug_check(!slot->chain);
	slot->p = p;
	weir_op_init(&slot->op, pipeline_slot_ended);
	err = weir_chain_create(&slot->chain, p->r, &opts);
	if (err)
		return err;
	p->in_fn++;
	reactor_enter(p->r);
	err = p->opts.build(slot, p->opts.arg);
	reactor_exit(p->r);
	debug_check(p->in_fn > 0);
	p->in_fn--;
	if (!err && weir_chain_get_step(slot->chain, 0, &first))
		err = why(-EINVAL, "weir_pipeline_create: .build has added no "
			  "steps");
	return err;
}

static int build_slots(struct weir_pipeline *p)
{
	size_t stride = ((size_t)p->opts.data_size + DATA_ALIGN - 1) &
			~(size_t)(DATA_ALIGN - 1);
	uint32_t i = p->opts.depth;
	int err = alloc_parts(p, stride);

	while (!err && i--) {
		if (stride)
			p->slots[i].data = p->data + i * stride;
		err = build_slot(p, &p->slots[i]);
		p->slots[i].next = p->free;
		p->free = &p->slots[i];
	}
	return err;
}

int weir_pipeline_create(struct weir_pipeline **ret, struct weir_reactor *r,
			 const struct weir_pipeline_opts *user)
{
	struct weir_pipeline_opts opts;
	struct weir_pipeline *p;
	int err;

	err = load_opts(&opts, user);
	if (err)
		return err;
	if (opts.pool && opts.pool->r != r)
		return why(-EINVAL, "weir_pipeline_create: .pool is of another "
			   "reactor; a pool of the same store can be made for "
			   "each");
	p = mem_calloc(1, sizeof(*p));
	if (!p)
		return why(-ENOMEM, "weir_pipeline_create: no memory");
	p->r = r;
	p->opts = opts;
	p->window = opts.depth;
	pool_hold(opts.pool);
	weir_op_init(&p->wait, pipeline_wait_done);
	weir_op_init(&p->tick, pipeline_tick);
	err = build_slots(p);
	if (!err)
		err = reactor_attach(r, &p->obj, "weir_pipeline");
	if (err) {
		pipeline_free(p);
		return err;
	}
	reactor_reserve(r, own_ops(p));
	*ret = p;
	return 0;
}

int weir_pipeline_destroy(struct weir_pipeline *p)
{
	if (!p)
		return 0;
	if (p->op || p->in_fn || weir_op_is_busy(&p->tick))
		return why(-EBUSY, "weir_pipeline_destroy: the pipeline is "
			   "in flight");
	reactor_reserve(p->r, -own_ops(p));
	reactor_detach(&p->obj);
	pipeline_free(p);
	return 0;
}

int weir_pipeline_progress(const struct weir_pipeline *p,
			   struct weir_pipeline_progress *ret)
{
	struct weir_pipeline_progress out = p->progress;

	out.in_flight = p->n_active;
	out.window = p->window;
	out.paused = p->paused;
	return opts_give(ret, &out, sizeof(out), "weir_pipeline_progress");
}

int weir_pipeline_failure(const struct weir_pipeline *p,
			  struct weir_pipeline_failure *ret)
{
	int err = opts_capacity(ret, "weir_pipeline_failure");

	if (!err && !p->failure.where)
		err = why(-ENOENT, "weir_pipeline_failure: no unit has failed");
	return err ? err : opts_give(ret, &p->failure, sizeof(p->failure),
				     "weir_pipeline_failure");
}
