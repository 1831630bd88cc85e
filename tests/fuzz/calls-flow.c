/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls to chains, pipelines and sync events. */

#include "tests/fuzz/calls.h"

/* A chain with its jobs, and what they name, pinned while it is in flight. */
struct link {
	struct task t;		/* Its .buf and pins, for operands. */
	struct weir_job jobs[STEPS];
	struct weir_sync_step sync;
	struct object *synced;
	struct object *domain;	/* Of some jobs, pinned. */
	uint32_t n_jobs;
	bool in_flight;
};

void link_free(struct link *l)
{
	MUST(!l->in_flight);
	if (l->domain)
		l->domain->pins--;
	free(l->t.buf);
	free(l);
}

static int64_t on_step(struct weir_chain *chain, uint32_t step, void *arg)
{
	struct object *o = arg;

	MUST(o->h == chain && step < STEPS * 2 + 4);
	act(o);
	return rnd(6) ? 1 : -EPROTO;
}

static void step_cancel(struct weir_op *op, void *arg)
{
	act(arg);
	(void)CALL(weir_op_finish, op, -ECANCELED);
}

/* Starts an operation in one of several ways, or none. */
static int on_start(struct weir_chain *chain, uint32_t step,
		    struct weir_op *op, void *arg)
{
	struct object *o = arg;
	struct weir_reactor *r = o->core->r;
	int err;

	MUST(o->h == chain);
	(void)step;
	act(o);
	switch (rnd(6)) {
	case 0:
		return 1;
	case 1:
		return w.ending ? -EPROTO : -EAGAIN;
	case 2:
		err = (int)CALL(weir_op_start, r, op, step_cancel, o);
		if (!err && rnd(2))
			(void)CALL(weir_op_finish, op, 1);
		else if (!err)
			(void)CALL(weir_op_set_deadline, op, some_time());
		break;
	case 3:
		err = (int)CALL(weir_nop, r, op);
		break;
	default:
		err = (int)CALL(weir_sleep_until, r, op, some_time());
	}
	act(o);
	return err;
}

static void call_chain_create(struct core *c)
{
	struct weir_chain_opts opts = { .size = sizeof(opts) };
	struct object *o = object_new(A_CHAIN, c);
	struct weir_chain *chain;
	struct link *l;

	if (!o)
		return;
	l = calloc(1, sizeof(*l));
	MUST(l);
	l->t.core = c;
	task_buf(&l->t);
	opts.steps = STEPS * 2;
	opts.ctx = o;
	o->link = l;
	object_made(o, &chain, CALL(weir_chain_create, &chain, c->r, &opts));
}

static void call_chain_destroy(struct core *c)
{
	struct object *o = any(A_CHAIN);

	(void)c;
	if (o)
		object_destroy(o);
}

/* Only a chain that is not a pipeline's has a link. */
static int some_step(void)
{
	return rnd(3) ? WEIR_CHAIN_FIRST : (int)rnd(4);
}

static void chain_job_set(struct weir_job *job, struct link *l)
{
	char *at = l->t.buf + l->n_jobs * 128;
	struct weir_operand mem = weir_operand_mem(at, 64);
	struct weir_operand from = weir_operand_mem(at + 64, 64);

	weir_job_init(job, NULL);
	if (!l->domain || one_in(3))
		weir_job_copy(job, mem, from);
	else if (rnd(2))
		weir_job_copy(job, weir_operand_at(l->domain->h, 0, 64), mem);
	else
		weir_job_copy(job, mem, weir_operand_at(l->domain->h, 64, 64));
	if (one_in(4))
		job->flags |= rnd(2) ? WEIR_JOB_LAZY : WEIR_JOB_FENCE;
}

static void call_chain_add_job(struct core *c)
{
	struct object *o = any(A_CHAIN), *dma = any(A_DMA);
	struct link *l = o ? o->link : NULL;

	(void)c;
	if (!o || !dma || l->n_jobs == STEPS)
		return;
	if (!l->domain && rnd(2)) {
		l->domain = any(A_DOMAIN);
		if (l->domain)
			l->domain->pins++;
	}
	chain_job_set(&l->jobs[l->n_jobs], l);
	if (CALL(weir_chain_add_job, o->h, some_step(), dma->h,
		 &l->jobs[l->n_jobs]) >= 0)
		l->n_jobs++;
}

static void call_chain_add_call(struct core *c)
{
	struct object *o = any(A_CHAIN);

	(void)c;
	if (o)
		(void)CALL(weir_chain_add_call, o->h, some_step(), on_step, o);
}

static void call_chain_add_op(struct core *c)
{
	struct object *o = any(A_CHAIN);

	(void)c;
	if (o)
		(void)CALL(weir_chain_add_op, o->h, some_step(), on_start, o);
}

static void call_chain_add_chain(struct core *c)
{
	struct object *o = any(A_CHAIN), *inner = any(A_CHAIN);

	(void)c;
	if (o && inner)
		(void)CALL(weir_chain_add_chain, o->h, some_step(), inner->h);
}

static void call_chain_reset(struct core *c)
{
	struct object *o = any(A_CHAIN);

	(void)c;
	if (o && !CALL(weir_chain_reset, o->h))
		((struct link *)o->link)->n_jobs = 0;
}

static void call_chain_add_fence(struct core *c)
{
	struct object *o = any(A_CHAIN);

	(void)c;
	if (o)
		(void)CALL(weir_chain_add_fence, o->h);
}

static void call_chain_add_dep(struct core *c)
{
	struct object *o = any(A_CHAIN);

	(void)c;
	if (o)
		(void)CALL(weir_chain_add_dep, o->h, rnd(4), rnd(4), rnd(5));
}

static void call_chain_set_finally(struct core *c)
{
	struct object *o = any(A_CHAIN);

	(void)c;
	if (o)
		(void)CALL(weir_chain_set_finally, o->h, rnd(4));
}

/* The sync event of a step must exist while the chain does. */
static void call_chain_add_sync(struct core *c)
{
	struct object *o = any(A_CHAIN), *sync = any(A_SYNC);
	struct link *l = o ? o->link : NULL;

	(void)c;
	if (!o || !sync || l->synced)
		return;
	l->sync.sync = sync->h;
	l->sync.action = rnd(5);
	l->sync.cond = WEIR_SYNC_GE;
	l->sync.value = rnd(8);
	if (CALL(weir_chain_add_sync, o->h, some_step(), &l->sync) < 0)
		return;
	l->synced = sync;
	object_pin(o, sync);
}

static void chain_ended(struct task *t, int64_t res)
{
	struct object *o = (struct object *)(uintptr_t)t->args;

	(void)res;
	MUST(o->link->in_flight);
	o->link->in_flight = false;
}

static void call_chain_start(struct core *c)
{
	struct object *o = any(A_CHAIN);
	struct task *t = o ? task_new(o->core) : NULL;
	struct link *l = o ? o->link : NULL;
	int64_t err;

	(void)c;
	if (!t)
		return;
	t->any_errno = true;
	if (l->in_flight) {
		START(t, weir_chain_start, o->h, OP(t));
		return;
	}
	t->end = chain_ended;
	t->args = (uintptr_t)o;
	l->in_flight = true;
	task_begins(t, FN(weir_chain_start));
	err = CALL(weir_chain_start, o->h, OP(t));
	if (err)
		l->in_flight = false;
	task_begun(t, err);
}

static void call_chain_get(struct core *c)
{
	struct weir_chain_step step = { .size = sizeof(step) };
	struct object *o = any(A_CHAIN);

	(void)c;
	if (!o)
		return;
	(void)CALL(weir_chain_get_step, o->h, rnd(4), &step);
	(void)GOT(weir_chain_failed_step, o->h);
	MUST(GOT(weir_chain_ctx, o->h) == o);
}

/* Pipelines. */

struct unit {
	struct object *pipeline;
	struct weir_job job;
	char from[64], to[64];
};

/* The chain is a slot's: its steps have the pipeline as argument. */
static int64_t on_unit_step(struct weir_chain *chain, uint32_t step, void *arg)
{
	struct weir_slot *slot = GOT(weir_chain_ctx, chain);
	struct object *o = arg;

	(void)step;
	MUST(GOT(weir_slot_pipeline, slot) == o->h || !o->h);
	MUST(GOT(weir_slot_chain, slot) == chain);
	(void)GOT(weir_slot_unit, slot);
	CALLV(weir_slot_set_bytes, slot, 5);
	act(o);
	return rnd(12) ? 0 : -EPROTO;
}

static int on_build(struct weir_slot *slot, void *arg)
{
	struct object *o = arg, *dma = any_on(A_DMA, o->core);
	struct unit *unit = GOT(weir_slot_data, slot);
	struct weir_chain *chain = GOT(weir_slot_chain, slot);
	int64_t step;

	unit->pipeline = o;
	o->h = GOT(weir_slot_pipeline, slot);
	step = CALL(weir_chain_add_call, chain, WEIR_CHAIN_FIRST, on_unit_step,
		    o);
	MUST(step >= 0);
	if (dma) {
		weir_job_copy(&unit->job, weir_operand_mem(unit->to, 64),
			      weir_operand_mem(unit->from, 64));
		step = CALL(weir_chain_add_job, chain, (int)step, dma->h,
			    &unit->job);
		MUST(step >= 0);
	}
	act(o);
	return one_in(16) ? -EPROTO : 0;
}

static int on_next(struct weir_slot *slot, void *arg)
{
	struct object *o = arg;
	uint32_t n;

	(void)GOT(weir_slot_buf, slot);
	act(o);
	n = rnd(16);
	if (w.ending || !n)
		return WEIR_PIPELINE_END;
	return n == 1 ? -EPROTO : n == 2 ? -EAGAIN : WEIR_PIPELINE_UNIT;
}

static int on_done(struct weir_slot *slot, int64_t res, void *arg)
{
	struct weir_buf *buf = GOT(weir_slot_buf, slot);
	struct object *o = arg, *kept = NULL;

	/* Keep the buf. */
	if (buf && one_in(3)) {
		kept = object_new(A_BUF, o->core);
		if (kept && !CALL(weir_buf_ref, buf))
			kept->h = buf;
		else if (kept)
			object_free(kept);
	}
	act(o);
	return res < 0 && rnd(2) ? (int)res : one_in(16) ? -EPROTO : 0;
}

static void call_pipeline_create(struct core *c)
{
	struct weir_pipeline_opts opts = { .size = sizeof(opts) };
	struct object *o = object_new(A_PIPELINE, c);
	struct object *pool = any_on(A_POOL, c);
	struct weir_pipeline *pipeline;

	if (!o)
		return;
	opts.build = on_build;
	opts.next = on_next;
	opts.done = on_done;
	opts.arg = o;
	opts.pool = pool && rnd(2) ? pool->h : NULL;
	opts.depth = 1 + rnd(3);
	opts.flags = rnd(2) * WEIR_PIPELINE_ORDERED;
	opts.data_size = sizeof(struct unit);
	object_made(o, &pipeline, CALL(weir_pipeline_create, &pipeline, c->r,
				       &opts));
}

static void call_pipeline_destroy(struct core *c)
{
	struct object *o = any(A_PIPELINE);

	(void)c;
	if (o)
		object_destroy(o);
}

static void call_pipeline_start(struct core *c)
{
	struct object *o = any(A_PIPELINE);
	struct task *t = o ? task_new(o->core) : NULL;

	(void)c;
	if (!t)
		return;
	t->any_errno = true;
	START(t, weir_pipeline_start, o->h, OP(t));
}

static void call_pipeline_kick(struct core *c)
{
	struct object *o = any(A_PIPELINE);

	(void)c;
	if (o)
		CALLV(weir_pipeline_kick, o->h);
}

static void call_pipeline_pause(struct core *c)
{
	struct object *o = any(A_PIPELINE);

	(void)c;
	if (o)
		(void)CALL(weir_pipeline_pause, o->h);
}

static void call_pipeline_resume(struct core *c)
{
	struct object *o = any(A_PIPELINE);

	(void)c;
	if (o)
		(void)CALL(weir_pipeline_resume, o->h);
}

static void call_pipeline_stop(struct core *c)
{
	struct object *o = any(A_PIPELINE);

	(void)c;
	if (o)
		(void)CALL(weir_pipeline_stop, o->h);
}

static void call_pipeline_set_window(struct core *c)
{
	struct object *o = any(A_PIPELINE);

	(void)c;
	if (o)
		(void)CALL(weir_pipeline_set_window, o->h, rnd(4));
}

static void call_pipeline_get(struct core *c)
{
	struct weir_pipeline_progress progress = { .size = sizeof(progress) };
	struct weir_pipeline_failure failure = { .size = sizeof(failure) };
	struct object *o = any(A_PIPELINE);

	(void)c;
	if (!o)
		return;
	MUST(!CALL(weir_pipeline_progress, o->h, &progress));
	(void)CALL(weir_pipeline_failure, o->h, &failure);
}

/* Sync events. */

static void call_sync_create(struct core *c)
{
	struct object *o = object_new(A_SYNC, NULL);
	struct weir_sync *sync;

	(void)c;
	if (o)
		object_made(o, &sync, CALL(weir_sync_create, &sync, NULL));
}

static void call_sync_create_in(struct core *c)
{
	struct object *o, *mmap = any(A_MMAP);
	struct weir_sync *sync;

	(void)c;
	o = mmap ? object_new(A_SYNC, NULL) : NULL;
	if (o)
		object_made(o, &sync, CALL(weir_sync_create_in, &sync, mmap->h,
					   MEMORY - 128 + rnd(2) * 64, NULL));
}

static void call_sync_open(struct core *c)
{
	struct object *o, *mmap = any(A_MMAP);
	struct weir_sync *sync;

	(void)c;
	o = mmap ? object_new(A_SYNC, NULL) : NULL;
	if (o)
		object_made(o, &sync, CALL(weir_sync_open, &sync, mmap->h,
					   MEMORY - 128 + rnd(2) * 64));
}

static void call_sync_destroy(struct core *c)
{
	struct object *o = any(A_SYNC);

	(void)c;
	if (o)
		object_destroy(o);
}

static void call_sync_set(struct core *c)
{
	struct object *o = any(A_SYNC);

	(void)c;
	if (o)
		(void)CALL(weir_sync_set, o->h, rnd(16));
}

static void call_sync_add(struct core *c)
{
	struct object *o = any(A_SYNC);

	(void)c;
	if (o)
		(void)CALL(weir_sync_add, o->h, 1, NULL);
}

static void call_sync_get(struct core *c)
{
	struct object *o = any(A_SYNC);
	uint64_t value;

	(void)c;
	if (o)
		(void)CALL(weir_sync_get, o->h, &value);
}

static void call_sync_wait(struct core *c)
{
	struct object *o = any(A_SYNC);
	struct task *t = o ? task_new(c) : NULL;

	if (t)
		START(t, weir_sync_wait, o->h, c->r, OP(t), WEIR_SYNC_GE,
		      rnd(16), WEIR_SYNC_ALL);
}

static void call_sync_wait_blocking(struct core *c)
{
	struct object *o = any(A_SYNC);

	(void)c;
	if (o)
		(void)CALL(weir_sync_wait_blocking, o->h, WEIR_SYNC_GE,
			   rnd(16), WEIR_SYNC_ALL, 0);
}

/* There is no peer: what can be tested is that it is refused. */
static void call_sync_remote_open(struct core *c)
{
	struct object *mmap = any(A_MMAP), *dma = any(A_DMA);
	struct weir_sync_remote *sync;

	(void)c;
	if (mmap && dma)
		MUST(CALL(weir_sync_remote_open, &sync, dma->h, mmap->h, 0) <
		     0);
	(void)CALL(weir_sync_remote_destroy, NULL);
}

const struct call calls_flow[] = {
	{ "weir_chain_create", call_chain_create, 12 },
	{ "weir_chain_destroy", call_chain_destroy, 8 },
	{ "weir_chain_reset", call_chain_reset, 8 },
	{ "weir_chain_add_job", call_chain_add_job, 24 },
	{ "weir_chain_add_call", call_chain_add_call, 16 },
	{ "weir_chain_add_op", call_chain_add_op, 16 },
	{ "weir_chain_add_chain", call_chain_add_chain, 8 },
	{ "weir_chain_add_fence", call_chain_add_fence, 4 },
	{ "weir_chain_add_dep", call_chain_add_dep, 8 },
	{ "weir_chain_set_finally", call_chain_set_finally, 6 },
	{ "weir_chain_add_sync", call_chain_add_sync, 6 },
	{ "weir_chain_start", call_chain_start, 64 },
	{ "weir_chain_get_step", call_chain_get, 4 },
	{ "weir_pipeline_create", call_pipeline_create, 12 },
	{ "weir_pipeline_destroy", call_pipeline_destroy, 8 },
	{ "weir_pipeline_start", call_pipeline_start, 48 },
	{ "weir_pipeline_kick", call_pipeline_kick, 12 },
	{ "weir_pipeline_pause", call_pipeline_pause, 4 },
	{ "weir_pipeline_resume", call_pipeline_resume, 8 },
	{ "weir_pipeline_stop", call_pipeline_stop, 4 },
	{ "weir_pipeline_set_window", call_pipeline_set_window, 4 },
	{ "weir_pipeline_progress", call_pipeline_get, 4 },
	{ "weir_sync_create", call_sync_create, 6 },
	{ "weir_sync_create_in", call_sync_create_in, 4 },
	{ "weir_sync_open", call_sync_open, 4 },
	{ "weir_sync_destroy", call_sync_destroy, 8 },
	{ "weir_sync_set", call_sync_set, 12 },
	{ "weir_sync_add", call_sync_add, 12 },
	{ "weir_sync_get", call_sync_get, 4 },
	{ "weir_sync_wait", call_sync_wait, 24 },
	{ "weir_sync_wait_blocking", call_sync_wait_blocking, 4 },
	{ "weir_sync_remote_open", call_sync_remote_open, 1 },
	{ NULL, NULL, 0 },
};
