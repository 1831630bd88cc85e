/* SPDX-License-Identifier: BSD-3-Clause */
/* Pipelines: their slots and chains, and what their users see of them. */

#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "base/why.h"
#include "dma/flow/pipeline-internal.h"
#include "mem/shared-pool-internal.h"

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

	slot->p = p;
	weir_op_init(&slot->op, pipeline_slot_ended);
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

int64_t weir_pipeline_failed_unit(const struct weir_pipeline *p)
{
	uint32_t where = p->failure.where;

	if (!where || where == WEIR_PIPELINE_AT_NEXT)
		return why(-ENOENT, "weir_pipeline_failed_unit: no unit has "
			   "failed");
	return (int64_t)p->failure.unit;
}
