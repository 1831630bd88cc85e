/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/*
 * Pipelines: slots, each with a chain, and a stream that goes through them.
 *
 *	FREE -> PARKED (waits for a buf) -> next() -> ACTIVE -> ENDED -> done()
 *	 ^         |                          | no unit                    |
 *	 +---------+--------------------------+----------------------------+
 *
 * Only an ordered pipeline has slots that stay ENDED: those of units that have
 * overtaken others.  Units under way are fewer than slots and have consecutive
 * numbers, so unit n waits at order[n % depth].
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "base/why.h"
#include "dma/pipeline-internal.h"

#define DEPTH_DEFAULT 8
#define DEPTH_MAX 4096
#define DATA_ALIGN 64

static void pump(struct weir_pipeline *p);
static void wait_done(struct weir_op *op, int64_t res);
static void tick_run(struct weir_op *op, int64_t res);
static void slot_ended(struct weir_op *op, int64_t res);

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

static void pipeline_free(struct weir_pipeline *p)
{
	uint32_t i;

	for (i = 0; p->slots && i < p->opts.depth; i++)
		check(!weir_chain_destroy(p->slots[i].chain));
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

	slot->p = p;
	weir_op_init(&slot->op, slot_ended);
	err = weir_chain_create(&slot->chain, p->r, &opts);
	if (err)
		return err;
	p->in_fn++;
	err = p->opts.build(slot, p->opts.arg);
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
	p = mem_calloc(1, sizeof(*p));
	if (!p)
		return why(-ENOMEM, "weir_pipeline_create: no memory");
	p->r = r;
	p->opts = opts;
	p->failed_unit = -ENOENT;
	weir_op_init(&p->wait, wait_done);
	weir_op_init(&p->tick, tick_run);
	err = build_slots(p);
	if (!err)
		err = reactor_attach(r, &p->obj, "pipeline");
	if (err) {
		pipeline_free(p);
		return err;
	}
	*ret = p;
	return 0;
}

int weir_pipeline_destroy(struct weir_pipeline *p)
{
	if (!p)
		return 0;
	if (p->op || p->in_fn || weir_op_is_busy(&p->tick))
		return why(-EBUSY, "weir_pipeline_destroy: the pipeline is "
			   "under way");
	reactor_detach(&p->obj);
	pipeline_free(p);
	return 0;
}

static void arm_tick(struct weir_pipeline *p)
{
	static const struct weir_op_class tick_class = {
		.name = "pipeline turn",
	};

	if (weir_op_is_busy(&p->tick))
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
	    p->in_fn)
		return;
	if (p->err)
		res = p->err;
	else if (p->cancelled && (!p->ended || p->cut))
		res = -ECANCELED;
	p->op = NULL;
	op_complete(op, res);
}

/* No more units; cancel those under way. */
static void stop(struct weir_pipeline *p)
{
	uint32_t i;

	if (p->stopping)
		return;
	p->stopping = true;
	if (weir_op_is_busy(&p->wait))
		weir_op_cancel(&p->wait);
	for (i = 0; i < p->opts.depth; i++)
		if (p->slots[i].active)
			weir_op_cancel(&p->slots[i].op);
}

static void fail(struct weir_pipeline *p, int64_t err, int64_t unit)
{
	if (p->stopping)
		return;
	p->err = err;
	p->failed_unit = unit;
	stop(p);
}

static void retire(struct weir_slot *slot)
{
	struct weir_pipeline *p = slot->p;
	int err;

	p->in_fn++;
	err = p->opts.done(slot, slot->res, p->opts.arg);
	p->in_fn--;
	if (slot->res >= 0) {
		p->progress.done++;
		p->progress.bytes += slot->bytes;
	} else {
		p->progress.failed++;
		p->cut |= p->cancelled;
	}
	p->n_active--;
	slot->ended = false;
	if (err < 0)
		fail(p, err, (int64_t)slot->unit);
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

static void slot_ended(struct weir_op *op, int64_t res)
{
	struct weir_slot *slot = weir_container_of(op, struct weir_slot, op);
	struct weir_pipeline *p = slot->p;

	unit_ended(slot, res);
	pump(p);
}

/* Returns false if there is no room for it now. */
static bool start_unit(struct weir_slot *slot)
{
	struct weir_pipeline *p = slot->p;
	int err = p->stopping ? -ECANCELED :
				weir_chain_start(slot->chain, &slot->op);

	if (err == -EAGAIN) {
		p->stuck = slot;
		arm_tick(p);
		return false;
	}
	p->stuck = NULL;
	if (err)
		unit_ended(slot, err);
	else
		slot->active = true;
	return true;
}

/* Ask for the next unit.  Returns false if that is all for now. */
static bool next_unit(struct weir_slot *slot)
{
	struct weir_pipeline *p = slot->p;
	int ret;

	slot->unit = p->progress.units;
	slot->bytes = 0;
	p->in_fn++;
	ret = p->opts.next(slot, p->opts.arg);
	p->in_fn--;
	if (ret == WEIR_PIPELINE_UNIT) {
		p->order[slot->unit % p->opts.depth] = slot;
		p->progress.units++;
		p->n_active++;
		return start_unit(slot);
	}
	put_slot(p, slot);
	if (ret == -EAGAIN)
		p->idle = true;
	else if (ret != WEIR_PIPELINE_END)
		fail(p, ret < 0 ? ret : -EINVAL, -ENOENT);
	else
		p->ended = true;
	return false;
}

/* Give @slot a buf, now or by and by.  Returns whether it has one. */
static bool get_buf(struct weir_slot *slot)
{
	struct weir_pipeline *p = slot->p;
	int err;

	if (!p->opts.pool || !weir_pool_get(&slot->buf, p->opts.pool))
		return true;
	p->progress.waits++;
	err = weir_pool_wait(p->opts.pool, &p->wait);
	if (!err) {
		p->parked = slot;
		return false;
	}
	put_slot(p, slot);
	if (err == -EAGAIN)
		arm_tick(p);
	else
		fail(p, err, -ENOENT);
	return false;
}

static bool may_go_on(const struct weir_pipeline *p)
{
	return p->op && !p->ended && !p->stopping && !p->idle && !p->parked &&
	       !p->stuck;
}

/* Fill the window: at most as many units as there are slots. */
static void pump(struct weir_pipeline *p)
{
	struct weir_slot *slot;

	if (p->in_fn || !p->op)
		return;
	if (p->stuck && !start_unit(p->stuck))
		return;
	while (may_go_on(p) && (slot = p->free)) {
		p->free = slot->next;
		if (!get_buf(slot) || !next_unit(slot))
			break;
	}
	maybe_finish(p);
}

static void tick_run(struct weir_op *op, int64_t res)
{
	(void)res;
	pump(weir_container_of(op, struct weir_pipeline, tick));
}

static void wait_done(struct weir_op *op, int64_t res)
{
	struct weir_pipeline *p = weir_container_of(op, struct weir_pipeline,
						    wait);
	struct weir_slot *slot = p->parked;

	p->parked = NULL;
	if (res >= 0)
		slot->buf = weir_pool_taken(op);
	if (res < 0 || p->stopping) {
		put_slot(p, slot);
		if (res < 0)
			fail(p, res, -ENOENT);
	} else {
		next_unit(slot);
	}
	pump(p);
}

static void pipeline_cancel(struct weir_op *op)
{
	struct weir_pipeline *p =
		(struct weir_pipeline *)(uintptr_t)op->u.words[0];

	p->cancelled = true;
	stop(p);
	if (p->stuck)
		arm_tick(p);
	maybe_finish(p);
}

static const struct weir_op_class pipeline_class = {
	.name = "pipeline",
	.cancel = pipeline_cancel,
};

int weir_pipeline_start(struct weir_pipeline *p, struct weir_op *op)
{
	int err;

	if (p->op || p->in_fn)
		return -EBUSY;
	err = op_begin(p->r, op, &pipeline_class);
	if (err)
		return err;
	op->u.words[0] = (uintptr_t)p;
	p->op = op;
	p->retire = 0;
	p->err = 0;
	p->failed_unit = -ENOENT;
	p->ended = p->idle = p->stopping = p->cancelled = p->cut = false;
	memset(&p->progress, 0, sizeof(p->progress));
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
