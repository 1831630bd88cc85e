/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Scenario: chains of jobs between this process, cards and a peer, on several
 * reactors, with cancels and deadlines.  Each step has a source and a
 * destination of its own, so its effect can be compared with its result.
 */

#include <errno.h>
#include <string.h>

#include <weir/chain.h>
#include <weir/crc32c.h>
#include <weir/file.h>

#include "sim-chains.h"

static void see_all(struct program *p);

static int64_t on_call(struct weir_chain *chain, uint32_t step, void *arg)
{
	struct step *s = arg;

	(void)chain, (void)step;
	see_all(s->link->program);
	s->calls++;
	return one_in(s->link->program->run, 8) ? -EDOM : 0;
}

static int on_op(struct weir_chain *chain, uint32_t step, struct weir_op *op,
		 void *arg)
{
	struct step *s = arg;
	struct run *run = s->link->program->run;
	int err = weir_sleep_until(s->link->core->r, op,
				   weir_sim_now(run->sim) +
				   rnd(run, 1000000));

	(void)chain, (void)step;
	s->calls += !err;
	return err;
}

/* Add a step that depends on an earlier one, or on none, and perhaps on a
 * second. */
static void add_step(struct link *l, uint32_t i)
{
	struct run *run = l->program->run;
	struct step *s = &l->steps[i];
	int after = i && !one_in(run, 3) ? (int)rnd(run, i) : WEIR_CHAIN_FIRST;
	struct core *at = &l->program->cores[rnd(run, run->n_reactors)];
	int n;

	s->link = l;
	l->finally &= ~(1u << i);
	s->region = l->number * STEPS + i;
	switch (rnd(run, 9)) {
	case 8:
		s->kind = STEP_SYNC;
		n = weir_chain_add_sync(l->chain, after, &s->sync);
		break;
	case 0:
		s->kind = STEP_CALL;
		n = weir_chain_add_call(l->chain, after, on_call, s);
		break;
	case 1:
		s->kind = STEP_OP;
		n = weir_chain_add_op(l->chain, after, on_op, s);
		break;
	default:
		s->kind = STEP_JOB;
		s->dma = one_in(run, 2) ? at->dma : l->core->dma;
		n = weir_chain_add_job(l->chain, after, s->dma, &s->job);
	}
	must(n == (int)i, "steps are numbered", "%d", n);
	if (after >= 0)
		s->on[after] = WEIR_CHAIN_ON_DONE;
	s->finally = after >= 0 && l->steps[after].finally;
	if (s->finally)
		l->finally |= 1u << i;
	if (i && one_in(run, 2)) {
		uint32_t dep = rnd(run, i), on = 1 + rnd(run, 3);

		if (s->finally)
			on = WEIR_CHAIN_ON_END;
		else if (l->steps[dep].finally)
			return;

		must(!weir_chain_add_dep(l->chain, i, dep, on),
		     "a dependency can be added", "of %u on %u", i, dep);
		s->on[dep] = on;
	}
	if (one_in(run, 6)) {
		must(!weir_chain_set_finally(l->chain, i),
		     "the last step can be a finally one", "%u", i);
		s->finally = true;
		l->finally |= 1u << i;
		for (uint32_t dep = 0; dep < i; dep++)
			if (s->on[dep])
				s->on[dep] = WEIR_CHAIN_ON_END;
	}
}

static void link_set_up(struct program *p, struct link *l, uint32_t number)
{
	struct weir_chain_opts opts = { .size = sizeof(opts), .steps = STEPS };
	int err;

	l->program = p;
	l->number = number;
	l->core = &p->cores[rnd(p->run, p->run->n_reactors)];
	l->n_steps = 1 + rnd(p->run, STEPS);
	l->finally = 0;
	err = weir_chain_create(&l->chain, l->core->r, &opts);
	must(!err || p->run->trial->faults, "a chain can be made", "%d: %s",
	     err, weir_why());
	if (err)
		return;
	for (uint32_t i = 0; i < l->n_steps; i++)
		add_step(l, i);
}

/* Whether the state @state satisfies a dependency on @on. */
static bool suits(uint32_t on, uint32_t state)
{
	switch (on) {
	case WEIR_CHAIN_ON_DONE:
		return state == WEIR_STEP_DONE;
	case WEIR_CHAIN_ON_FAILED:
		return state == WEIR_STEP_FAILED;
	default:
		return true;
	}
}

static bool ran(uint32_t state)
{
	return state == WEIR_STEP_DONE || state == WEIR_STEP_FAILED ||
	       state == WEIR_STEP_CANCELLED;
}

/* The step ran only if its dependencies allow it, and was skipped only for a
 * reason. */
static void check_edges(const struct link *l, const uint32_t *states,
			bool whole)
{
	for (uint32_t i = 0; i < l->n_steps; i++) {
		bool all = true;

		must(!l->steps[i].finally || ran(states[i]),
		     "a finally step always runs", "step %u of %u: %u", i,
		     l->number, states[i]);
		must(!l->steps[i].finally || l->steps[i].kind != STEP_CALL ||
		     l->steps[i].calls == 1, "a finally step runs once",
		     "step %u of %u: %u", i, l->number, l->steps[i].calls);
		if (l->steps[i].finally)
			continue;
		for (uint32_t dep = 0; dep < i; dep++)
			if (l->steps[i].on[dep] &&
			    !suits(l->steps[i].on[dep], states[dep]))
				all = false;
		must(all || !ran(states[i]), "a step runs after what it waits "
		     "for", "step %u of %u", i, l->number);
		must(!all || ran(states[i]) || !whole,
		     "a step is skipped for a cause", "step %u of %u: %u", i,
		     l->number, states[i]);
	}
}

static bool has_branch(const struct link *l, uint32_t step)
{
	for (uint32_t i = step + 1; i < l->n_steps; i++)
		if (l->steps[i].on[step] == WEIR_CHAIN_ON_FAILED)
			return true;
	return false;
}

/* Note, when a failure is first seen, which failures may be the chain's
 * first. */
static void see_failures(struct link *l)
{
	for (uint32_t i = 0; i < l->n_steps && !l->first; i++) {
		struct weir_chain_step s = { .size = sizeof(s) };

		if (weir_chain_get_step(l->chain, i, &s) ||
		    s.state != WEIR_STEP_FAILED || has_branch(l, i))
			continue;
		for (uint32_t j = i; j < l->n_steps; j++)
			if (!weir_chain_get_step(l->chain, j, &s) &&
			    s.state == WEIR_STEP_FAILED && !has_branch(l, j))
				l->first |= 1u << j;
	}
}

static void see_all(struct program *p)
{
	for (uint32_t i = 0; i < LINKS; i++)
		if (p->links[i].task.is_under_way)
			see_failures(&p->links[i]);
}

/* The chain's error is that of the step that failed first. */
static void check_failure(struct link *l, int64_t res, const uint32_t *states)
{
	int failed = weir_chain_failed_step(l->chain);
	struct weir_chain_step s = { .size = sizeof(s) };

	if (failed < 0) {
		must(!(l->first & ~l->finally), "the first error is the "
		     "chain's", "none, although %x have failed", l->first);
		must(res >= 0 || task_was_ended(&l->task, res) ||
		     (res == -ECANCELED && l->task.may_be_flushed),
		     "the first error is the chain's", "none, but %lld",
		     (long long)res);
		return;
	}
	must(!weir_chain_get_step(l->chain, (uint32_t)failed, &s) &&
	     s.state == WEIR_STEP_FAILED &&
	     (s.res == res || (s.res == -ECANCELED && /* By a device. */
			       res == -ETIMEDOUT && l->task.has_deadline)) &&
	     (!l->first || l->first >> failed & 1),
	     "the first error is the chain's",
	     "step %d with %lld; the chain has %lld, the first are %x", failed,
	     (long long)s.res, (long long)res, l->first);
	if (!l->steps[failed].finally)
		return;
	for (uint32_t i = 0; i < l->n_steps; i++)
		must(l->steps[i].finally || states[i] != WEIR_STEP_CANCELLED,
		     "what has cancelled a chain is its result",
		     "step %d failed after it", failed);
	check_edges(l, states, true);
}

/* A stopping context ends its jobs; a stopped one accepts none. */
static bool was_stopped(const struct link *l)
{
	const struct program *p = l->program;

	for (uint32_t i = 0; i < p->run->n_reactors; i++)
		if (weir_dma_state(p->cores[i].dma) != WEIR_DMA_RUNNING)
			return true;
	return l->stops != p->stops;
}

static void start_again(struct program *p, struct core *c)
{
	int err = weir_dma_start(c->dma);

	must(!err || p->run->trial->faults, "nothing fails without a cause",
	     "a start: %d: %s", err, weir_why());
	p->stops++;
}

static void stop_end(struct task *task, int64_t res)
{
	struct program *p = task->run->program;
	struct core *c = task->op.data;

	must(!res || task_was_ended(task, res), "a context can be stopped",
	     "%lld", (long long)res);
	must(res || !weir_dma_in_flight(c->dma),
	     "nothing is in flight in what has stopped", "%u jobs",
	     weir_dma_in_flight(c->dma));
	if (weir_dma_state(c->dma) == WEIR_DMA_STOPPED)
		start_again(p, c);
}

/* Stopping the context cancels its jobs, also those of other links' chains. */
static void stop_one(struct program *p)
{
	struct core *c = &p->cores[rnd(p->run, p->run->n_reactors)];
	int err;

	if (c->stop.is_under_way)
		return;
	if (weir_dma_state(c->dma) == WEIR_DMA_STOPPED) {
		start_again(p, c);
		return;
	}
	task_init(&c->stop, p->run, "stop of a context", stop_end);
	c->stop.op.data = c;
	err = weir_dma_stop(c->dma, &c->stop.op);
	must(!err || err == -EAGAIN || err == -EBUSY,
	     "a stop is refused for a reason", "%d", err);
	if (!task_began(&c->stop, err))
		return;
	p->stops++;
	for (uint32_t i = 0; i < LINKS; i++)
		p->links[i].task.may_be_flushed = true;
}

static void start_link(struct link *l);

/* Destroy it in its own callback, which is allowed.  There may be no memory for
 * another. */
static void link_anew(struct link *l)
{
	struct program *p = l->program;
	int err = weir_chain_destroy(l->chain);

	must(!err, "a chain that has ended can be destroyed", "%d: %s", err,
	     weir_why());
	memset(l->steps, 0, sizeof(l->steps));
	l->chain = NULL;
	link_set_up(p, l, l->number);
}

static void link_end(struct task *task, int64_t res)
{
	struct link *l = task->op.data;
	uint32_t states[STEPS], n_done = 0;

	see_all(l->program);
	due_met(task->run, &l->cancel, l->core->r, 2, "chain");

	for (uint32_t i = 0; i < l->n_steps; i++) {
		struct weir_chain_step s = { .size = sizeof(s) };

		must(!weir_chain_get_step(l->chain, i, &s), "a step is there",
		     "%u", i);
		states[i] = s.state;
		n_done += s.state == WEIR_STEP_DONE;
		must(ran(s.state) || s.state == WEIR_STEP_SKIPPED,
		     "each step has an outcome", "step %u: %u", i, s.state);
		step_check(&l->steps[i], &s, task->may_be_cancelled ||
			   task->has_deadline || was_stopped(l));
	}
	must(res < 0 || res == n_done, "the result counts what was done",
	     "%lld, not %u", (long long)res, n_done);
	check_edges(l, states, res >= 0);
	check_failure(l, res, states);
	if (one_in(l->program->run, 8))
		link_anew(l);
	start_link(l);
}

/* Start it again while the budget lasts.  Other links are disturbed
 * meanwhile. */
static void start_link(struct link *l)
{
	struct program *p = l->program;
	int err;

	if (!l->chain || !budget_take(p->run))
		return;
	for (uint32_t i = 0; i < l->n_steps; i++)
		step_prepare(&l->steps[i]);
	task_init(&l->task, p->run, "chain", link_end);
	l->task.op.data = l;
	l->stops = p->stops;
	l->task.may_be_flushed = p->run->trial->faults || was_stopped(l);
	l->first = 0;
	l->cancel.is_set = false;
	err = weir_chain_start(l->chain, &l->task.op);
	must(!err || err == -EAGAIN, "a chain can be started", "%d", err);
	task_began(&l->task, err);
}

/* If no step is in flight and no step cleans up, the end needs neither a device
 * nor capacity. */
static void cancel_link(struct link *l)
{
	bool free = !l->finally;

	for (uint32_t i = 0; i < l->n_steps; i++) {
		struct weir_chain_step s = { .size = sizeof(s) };

		must(!weir_chain_get_step(l->chain, i, &s), "a step is there",
		     "%u", i);
		free = free && s.state != WEIR_STEP_RUNNING;
	}
	task_cancel(&l->task);
	if (free && !l->cancel.is_set)
		due_set(l->program->run, &l->cancel, l->core->r, 0);
}

/* Calls that are always refused. */
static void misuse(struct program *p)
{
	struct core *c = &p->cores[rnd(p->run, p->run->n_reactors)];
	char *at = p->targets[0];
	size_t len = 1 + rnd(p->run, REGION / 2);
	size_t shift = rnd(p->run, (uint32_t)len);
	struct weir_job job;
	int err;

	weir_job_init(&job, NULL);
	job.op.fn = p->links[0].task.op.fn;
	if (one_in(p->run, 2))
		weir_job_copy(&job, weir_operand_mem(at + shift, len),
			      weir_operand_mem(at, len));
	else
		weir_job_copy(&job, weir_operand_mem(at, len),
			      weir_operand_mem(at + shift, len));
	err = weir_job_start(c->dma, &job);
	must(err == -EINVAL || (err == -EBADFD && weir_dma_state(c->dma) !=
				WEIR_DMA_RUNNING),
	     "a copy over itself is refused",
	     "%zu bytes, %zu further: %d", len, shift, err);
}

static void disturb(struct program *p)
{
	struct link *l = &p->links[rnd(p->run, LINKS)];

	see_all(p);
	if (one_in(p->run, 8))
		misuse(p);
	if (one_in(p->run, 40))
		stop_one(p);
	if (!l->task.is_under_way)
		start_link(l);
	else if (one_in(p->run, 2))
		cancel_link(l);
	else if (one_in(p->run, 2))
		task_deadline(&l->task, rnd(p->run, 100000));
}

static void set_up_core(struct program *p, struct core *c,
			struct weir_reactor *r)
{
	struct weir_dma_opts opts = { .size = sizeof(opts) };
	int err;

	c->r = r;
	opts.jobs_max = one_in(p->run, 4) ? 1 + rnd(p->run, JOBS) : 0;
	c->jobs_max = opts.jobs_max;
	err = weir_dma_create(&c->dma, r, &opts);
	if (!err)
		err = weir_dma_start(c->dma);
	must(!err, "a context can be made", "%d: %s", err, weir_why());
}

static void count_end(struct weir_op *op, int64_t res)
{
	uint32_t *n = op->data;

	must(res > 0, "a job between memory succeeds", "%lld", (long long)res);
	++*n;
}

/* A context accepts as many jobs as when it was new. */
static void check_limit(struct program *p, struct core *c)
{
	struct weir_job jobs[JOBS + 1];
	uint32_t n, ended = 0;

	for (n = 0; n <= c->jobs_max; n++) {
		weir_job_init(&jobs[n], count_end);
		jobs[n].op.data = &ended;
		weir_job_crc32c(&jobs[n], weir_operand_mem(p->sources, REGION),
				0);
		if (weir_job_start(c->dma, &jobs[n]))
			break;
	}
	must(n == c->jobs_max, "a limit is at the end what it was",
	     "%u jobs of %u", n, c->jobs_max);
	(void)weir_sim_run(p->run->sim, WEIR_SEC, 0);
	must(ended == n, "progress once faults have stopped", "%u of %u jobs",
	     ended, n);
}

static void take_down(struct program *p)
{
	int err = 0;

	for (uint32_t i = 0; i < p->run->n_reactors; i++) {
		if (weir_dma_state(p->cores[i].dma) == WEIR_DMA_STOPPED)
			start_again(p, &p->cores[i]);
		if (p->cores[i].jobs_max)
			check_limit(p, &p->cores[i]);
	}

	for (uint32_t i = 0; !err && i < LINKS; i++)
		err = weir_chain_destroy(p->links[i].chain);
	must(!err, "a chain that has ended can be destroyed", "%d: %s", err,
	     weir_why());
	/* Changes of state have yet to be reported. */
	(void)weir_sim_run(p->run->sim, WEIR_SEC, 0);
	for (uint32_t i = 0; !err && i < p->run->n_reactors; i++)
		err = weir_dma_destroy(p->cores[i].dma);
	must(!err, "an idle context can be destroyed", "%d: %s", err,
	     weir_why());
	end_reactors(p->run);
}

/* At the end of the run every awaited signal comes. */
static bool is_done(struct run *run)
{
	struct program *p = run->program;

	if (run->ending && run->under_way && !weir_sync_add(p->sync, 10, NULL))
		p->added += 10;
	return true;
}

static void run_chains(struct weir_sim_trial *trial)
{
	struct run *run = run_begin(trial);
	static struct program p;
	uint32_t i;

	program_begin(run, &p, sizeof(p));
	p.run = run;
	make_reactors(run, 1 + rnd(run, REACTORS));
	places_set_up(&p);
	for (i = 0; i < run->n_reactors; i++)
		set_up_core(&p, &p.cores[i], run->reactors[i]);
	for (i = 0; i < LINKS; i++)
		link_set_up(&p, &p.links[i], i);
	for (i = 0; run->budget && i < 20 * run->trial->ops; i++) {
		places_mend(&p);
		disturb(&p);
		(void)weir_sim_run(run->sim, WEIR_MSEC, 1 + rnd(run, 200));
	}
	run_to_end(run, WEIR_SEC, is_done);
	take_down(&p);
	places_take_down(&p);
}

const struct weir_sim_scenario scenario_chains = {
	.size = sizeof(scenario_chains),
	.name = "chains",
	.what = "chains of jobs between memory, cards and a peer, with cancels",
	.run = run_chains,
	.faults = WEIR_SIM_ALL_FAULTS,
	.ops = 60,
};
