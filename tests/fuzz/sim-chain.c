/* SPDX-License-Identifier: BSD-3-Clause */
/* Chains, and pipelines of them. */

#include "tests/fuzz/sim-world.h"

/* In one of its functions. */
static void act_in(struct link *l)
{
	l->depth++;
	act(l->core);
	l->depth--;
}

static int64_t on_call(struct weir_chain *chain, uint32_t step, void *arg)
{
	struct weir_chain_step next = { .size = sizeof(next) };
	struct link *l = arg;
	uint32_t how = byte_below(4);

	MUST(l->is_under_way && weir_chain_destroy(chain) == -EBUSY);
	if (!weir_chain_get_step(chain, step + 1, &next) &&
	    next.state == WEIR_STEP_IDLE && l->chain == chain)
		move_draw_step(l, step + 1);
	act_in(l);
	return how == 3 ? -EDOM : (int64_t)how;
}

static int on_op(struct weir_chain *chain, uint32_t step, struct weir_op *op,
		 void *arg)
{
	struct link *l = arg;

	(void)chain, (void)step;
	switch (byte_below(5)) {
	case 0:
		return weir_sleep_until(l->core->r, op, some_time());
	case 1:
		return -EAGAIN;
	case 2:
		return 1;
	case 3:
		return -EDOM;
	default:
		return weir_nop(l->core->r, op);
	}
}

static int after_any(uint32_t i)
{
	return i && byte_below(3) ? (int)byte_below(i) : WEIR_CHAIN_FIRST;
}

static struct weir_dma *some_dma(struct core *c)
{
	struct weir_dma *dma = w.cores[byte_below(CORES)].dma;

	return dma ? dma : c->dma;
}

static void add_step(struct link *l, struct weir_chain *chain, uint32_t i)
{
	struct weir_dma *dma = some_dma(l->core);
	int after = after_any(i), n;

	switch (byte_below(5)) {
	case 0:
		n = weir_chain_add_call(chain, after, on_call, l);
		break;
	case 1:
		n = weir_chain_add_op(chain, after, on_op, l);
		break;
	default:
		if (!dma) {
			n = weir_chain_add_call(chain, after, on_call, l);
			break;
		}
		move_draw_step(l, i);
		n = weir_chain_add_job(chain, after, dma, &l->jobs[i]);
	}
	MUST(n == (int)i);
	if (i && byte_below(2))
		MUST(!weir_chain_add_dep(chain, i, byte_below(i),
					 1 + byte_below(3)));
}

static void add_steps(struct link *l, struct weir_chain *chain)
{
	uint32_t i, n = 1 + byte_below(STEPS);

	for (i = 0; i < n; i++)
		add_step(l, chain, i);
}

/* A pipeline's slot has one call and one operation: nothing that is shared. */
static int on_build(struct weir_slot *slot, void *arg)
{
	struct weir_chain *chain = weir_slot_chain(slot);

	if (byte_below(16) == 15)
		return -EDOM;
	MUST(!weir_chain_add_op(chain, WEIR_CHAIN_FIRST, on_op, arg));
	return byte_below(2) ?
		       weir_chain_add_call(chain, 0, on_call, arg) - 1 : 0;
}

static int on_next(struct weir_slot *slot, void *arg)
{
	struct link *l = arg;

	MUST(l->is_under_way && weir_slot_pipeline(slot) == l->pipeline);
	act_in(l);
	switch (byte_below(8)) {
	case 0:
		return WEIR_PIPELINE_END;
	case 1:
		return -EDOM;
	case 2:
		return -EAGAIN;
	default:
		return WEIR_PIPELINE_UNIT;
	}
}

static int on_done(struct weir_slot *slot, int64_t res, void *arg)
{
	struct link *l = arg;

	MUST(l->is_under_way && weir_slot_pipeline(slot) == l->pipeline);
	MUST(res > -4096);
	act_in(l);
	return byte_below(8) == 7 ? -EDOM : 0;
}

static int pipeline_create(struct link *l)
{
	struct weir_pipeline_opts opts = {
		.size = sizeof(opts), .build = on_build, .next = on_next,
		.done = on_done, .arg = l, .depth = 1 + byte_below(4),
		.flags = byte_below(2) * WEIR_PIPELINE_ORDERED, .data_size = 64,
		.pool = byte_below(2) ? l->core->pool : NULL,
	};

	return weir_pipeline_create(&l->pipeline, l->core->r, &opts);
}

static int chain_create(struct link *l)
{
	struct weir_chain_opts opts = { .size = sizeof(opts), .steps = STEPS };
	int err = weir_chain_create(&l->chain, l->core->r, &opts);

	if (!err)
		add_steps(l, l->chain);
	return err;
}

static void link_create(struct core *c, uint32_t at)
{
	struct link *l = calloc(1, sizeof(*l));
	int err, i;

	MUST(l);
	l->core = c;
	for (i = 0; i < STEPS; i++)
		weir_job_init(&l->jobs[i], NULL);
	err = byte_below(3) ? chain_create(l) : pipeline_create(l);
	MUST(err != -EINVAL && (err != -ESHUTDOWN || c->is_stopped));
	if (err)
		free(l);
	else
		c->links[at] = l;
}

/* Returns whether it could be.  Between its end and the callback that tells it
 * is idle for the library, but not for us. */
bool link_destroy(struct core *c, uint32_t at)
{
	struct link *l = c->links[at];
	int err;

	if (l->is_under_way)
		return false;
	err = l->chain ? weir_chain_destroy(l->chain) :
			     weir_pipeline_destroy(l->pipeline);

	MUST(err == (l->depth ? -EBUSY : 0));
	if (err)
		return false;
	c->links[at] = NULL;
	free(l);
	return true;
}

static void link_end(struct task *t, int64_t res)
{
	struct weir_chain_step s = { .size = sizeof(s) };
	struct link *l = t->object;
	uint32_t i;

	(void)res;
	l->is_under_way = false;
	for (i = 0; l->chain && !weir_chain_get_step(l->chain, i, &s); i++)
		MUST(s.state > WEIR_STEP_RUNNING && s.res > -4096);
}

static void link_start(struct link *l)
{
	struct task *t = l->is_under_way ? NULL : task_new(l->core);
	int err;

	if (!t)
		return;
	task_begin(t, l->chain ? "chain" : "pipeline", INT64_MAX);
	t->end = link_end;
	t->object = l;
	err = l->chain ? weir_chain_start(l->chain, &t->job.op) :
			 weir_pipeline_start(l->pipeline, &t->job.op);
	MUST(err != -EBUSY || l->depth);
	l->is_under_way = !err;
	t->is_of_device = true;
	task_started(t, err);
}

static void pipeline_touch(struct weir_pipeline *p)
{
	switch (byte_below(5)) {
	case 0:
		(void)weir_pipeline_pause(p);
		break;
	case 1:
		MUST(!weir_pipeline_stop(p));
		break;
	case 2:
		(void)weir_pipeline_set_window(p, 1);
		break;
	default:
		weir_pipeline_kick(p);
		(void)weir_pipeline_resume(p);
	}
}

void link_touch(struct core *c)
{
	uint32_t at = byte_below(CHAINS);
	struct link *l = c->links[at];

	if (!l)
		link_create(c, at);
	else if (!byte_below(8))
		(void)link_destroy(c, at);
	else if (l->pipeline && l->is_under_way)
		pipeline_touch(l->pipeline);
	else
		link_start(l);
}

void links_go_on(void)
{
	uint32_t i, j;

	for (i = 0; i < CORES; i++)
		for (j = 0; j < CHAINS; j++)
			if (w.cores[i].links[j] &&
			    w.cores[i].links[j]->pipeline) {
				(void)weir_pipeline_resume(
					w.cores[i].links[j]->pipeline);
				weir_pipeline_kick(
					w.cores[i].links[j]->pipeline);
			}
}
