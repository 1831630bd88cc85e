/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Scenario: pipelines over files and memory, which are paused, resumed,
 * stopped, cancelled, kicked and narrowed at random, also by their own
 * functions.
 */

#include <errno.h>
#include <string.h>

#include "sim-pipelines.h"

/* It has ended, but its callback may still be due. */
static bool may_be_over(const struct line *l)
{
	bool no_more = l->ended || l->cancelled || l->failure.where ||
		       l->task.has_deadline;

	return !l->task.is_under_way ||
	       (no_more && !under_way(l) && !l->in_fn);
}

static void check_state_call(struct line *l, const char *what, int err)
{
	must(err == 0 ? l->task.is_under_way :
			err == -EBADFD && may_be_over(l),
	     "a call has the result of its state", "%s of %u: %d", what,
	     l->number, err);
}

/* Whether the next unit need not wait. */
static bool is_free(const struct line *l)
{
	return l->task.is_under_way && !l->has_pool && !l->idle &&
	       !l->paused && !l->ended && !l->cancelled && !l->failure.where &&
	       !l->task.has_deadline && under_way(l) < l->window;
}

static void expect_next(struct line *l)
{
	if (!is_free(l) || l->in_fn)
		l->next.is_set = false;
	else if (!l->next.is_set)
		due_set(l->program->run, &l->next, l->core->r, 0);
}

static void pause_one(struct line *l)
{
	int err = weir_pipeline_pause(l->pipeline);

	check_state_call(l, "pause", err);
	l->paused |= !err;
	expect_next(l);
}

static void resume_one(struct line *l)
{
	int err = weir_pipeline_resume(l->pipeline);

	check_state_call(l, "resume", err);
	if (!err)
		l->paused = false;
	expect_next(l);
}

static void kick_one(struct line *l)
{
	weir_pipeline_kick(l->pipeline);
	l->idle = false;
	expect_next(l);
}

static void stop_one(struct line *l)
{
	must(!weir_pipeline_stop(l->pipeline), "a stop is taken", "of %u",
	     l->number);
	/* An earlier cancel or failure remains. */
	l->ended |= l->task.is_under_way && !l->cancelled && !l->failure.where;
	expect_next(l);
	if (l->task.is_under_way && !under_way(l) && !l->in_fn &&
	    !l->stop.is_set)
		due_set(l->program->run, &l->stop, l->core->r, 0);
}

static void narrow_one(struct line *l)
{
	uint32_t window = rnd(l->program->run, l->depth + 2);
	bool fits = window && window <= l->depth;
	int err = weir_pipeline_set_window(l->pipeline, window);

	must(err == (fits ? 0 : -EINVAL), "a window is from 1 to the slots",
	     "%u of %u: %d", window, l->depth, err);
	if (fits)
		l->window = window;
	expect_next(l);
}

static void end_early(struct line *l)
{
	if (!l->task.is_under_way)
		return;
	if (one_in(l->program->run, 3)) {
		task_deadline(&l->task, rnd(l->program->run, 300000));
	} else {
		task_cancel(&l->task);
		l->cancelled = true;
	}
	expect_next(l);
}

/* Calls that are refused in this state. */
static void misuse(struct line *l)
{
	struct weir_op op;

	if (may_be_over(l))
		return;
	weir_op_init(&op, l->task.op.fn);
	must(weir_pipeline_start(l->pipeline, &op) == -EBUSY &&
	     weir_pipeline_destroy(l->pipeline) == -EBUSY,
	     "what is in flight is busy", "%u", l->number);
}

void meddle(struct line *l)
{
	switch (rnd(l->program->run, 16)) {
	case 0:
	case 1:
		pause_one(l);
		break;
	case 2:
	case 3:
	case 4:
		resume_one(l);
		break;
	case 5:
	case 6:
	case 7:
	case 8:
		kick_one(l);
		break;
	case 9:
		stop_one(l);
		break;
	case 10:
		end_early(l);
		break;
	case 11:
		misuse(l);
		break;
	default:
		narrow_one(l);
	}
}

/* How it ends. */

static void check_progress(struct line *l)
{
	struct weir_pipeline_progress p = { .size = sizeof(p) };

	must(!weir_pipeline_progress(l->pipeline, &p), "a progress", "none");
	must(p.units == l->brought && p.done == l->done &&
	     p.failed == l->failed && p.bytes == l->bytes &&
	     p.in_flight == under_way(l) && p.window == l->window,
	     "the progress is what has happened",
	     "%u: %llu units, %llu done, %llu failed, %llu in flight",
	     l->number, (unsigned long long)p.units,
	     (unsigned long long)p.done, (unsigned long long)p.failed,
	     (unsigned long long)p.in_flight);
}

/* Without a deadline there is one possible result. */
static bool is_right(const struct line *l, int64_t res)
{
	if (l->failure.where)
		return res == l->failure.res;
	if (l->cancelled && !l->ended)
		return res == -ECANCELED;
	if (l->cut && res == -ECANCELED)
		return true;
	return l->ended && res == l->done;
}

/* The deadline may have ended the run before anything else did, or after it. */
static bool is_right_after_deadline(const struct line *l, int64_t res)
{
	if (is_right(l, res) || res == -ETIMEDOUT)
		return true;
	return l->ended ? res == l->done :
			  l->cancelled && res == -ECANCELED;
}

static void check_failure(struct line *l, int64_t res)
{
	struct weir_pipeline_failure f = { .size = sizeof(f) };
	const struct weir_pipeline_failure *want = &l->failure;
	int err = weir_pipeline_failure(l->pipeline, &f);

	if (err) {
		must(err == -ENOENT && (res >= 0 || res == -ECANCELED ||
					res == -ETIMEDOUT),
		     "a failure is told", "%lld: %d", (long long)res, err);
		return;
	}
	must(f.where == want->where && f.unit == want->unit &&
	     f.res == want->res && res == want->res,
	     "the failure is the first", "%u in unit %llu: %lld, not %u in "
	     "unit %llu: %lld", f.where, (unsigned long long)f.unit,
	     (long long)f.res, want->where, (unsigned long long)want->unit,
	     (long long)want->res);
	must((f.step >= 0) == (f.where == WEIR_PIPELINE_AT_STEP),
	     "a failure has its step", "%u: %d", f.where, f.step);
}

static void line_end(struct task *task, int64_t res)
{
	struct line *l = task->op.data;

	must(!under_way(l), "all has drained", "%u of %u are in flight",
	     under_way(l), l->number);
	due_met(task->run, &l->stop, l->core->r, 2, "pipeline");
	must(task->has_deadline ? is_right_after_deadline(l, res) :
				  is_right(l, res),
	     "a pipeline ends as it should",
	     "%u: %lld; %u done, %u failed%s%s, failure %lld", l->number,
	     (long long)res, l->done, l->failed, l->ended ? ", ended" : "",
	     l->cancelled ? ", cancelled" : "", (long long)l->failure.res);
	check_failure(l, res);
	check_progress(l);
	stream_check(l);
}

static void start_line(struct line *l)
{
	struct program *p = l->program;
	int err;

	if (!budget_take(p->run))
		return;
	stream_prepare(l);
	l->brought = l->done = l->failed = 0;
	l->bytes = 0;
	l->idle = l->paused = l->ended = l->cancelled = l->cut = false;
	memset(&l->failure, 0, sizeof(l->failure));
	l->stop.is_set = l->next.is_set = false;
	task_init(&l->task, p->run, "pipeline", line_end);
	l->task.op.data = l;
	err = weir_pipeline_start(l->pipeline, &l->task.op);
	must(!err || err == -EAGAIN, "a pipeline can be started", "%d", err);
	task_began(&l->task, err);
	expect_next(l);
}

static void disturb(void *program)
{
	struct program *p = program;
	struct line *l = &p->lines[rnd(p->run, LINES)];

	if (!l->task.is_under_way) {
		start_line(l);
		return;
	}
	check_progress(l);
	if (is_free(l))
		due_pending(p->run, &l->next, l->core->r, 2, "call of next()");
	if (one_in(p->run, 3))
		meddle(l);
	else
		kick_one(l);
}

/* At the end of the run none is paused. */
static bool is_done(struct run *run)
{
	struct program *p = run->program;

	for (uint32_t i = 0; i < LINES; i++) {
		if (!p->lines[i].task.is_under_way)
			continue;
		resume_one(&p->lines[i]);
		kick_one(&p->lines[i]);
	}
	return true;
}

/* The program. */

static void set_up_core(struct program *p, struct core *c,
			struct weir_reactor *r)
{
	struct weir_dma_opts opts = { .size = sizeof(opts) };
	struct weir_pool_opts pool = { .size = sizeof(pool) };
	int err;

	c->r = r;
	opts.jobs_max = one_in(p->run, 4) ? 1 + rnd(p->run, 4) : 0;
	err = weir_dma_create(&c->dma, r, &opts);
	if (!err)
		err = weir_dma_start(c->dma);
	must(!err, "a context can be made", "%d: %s", err, weir_why());
	pool.bufs = 1 + rnd(p->run, 2 * DEPTH);
	pool.buf_size = BLOCK;
	pool.waiters_max = one_in(p->run, 3) ? 1 : 0;
	pool.flags = WEIR_POOL_NO_HUGE;
	err = weir_pool_create(&c->pool, r, &pool);
	must(!err, "a pool can be made", "%d: %s", err, weir_why());
}

static void line_set_up(struct program *p, struct line *l, uint32_t number)
{
	struct weir_pipeline_opts opts = { .size = sizeof(opts) };
	int err;

	l->program = p;
	l->number = number;
	l->core = &p->cores[rnd(p->run, p->run->n_reactors)];
	l->depth = l->window = opts.depth = 1 + rnd(p->run, DEPTH);
	l->ordered = one_in(p->run, 2);
	l->has_pool = !one_in(p->run, 3);
	opts.flags = l->ordered ? WEIR_PIPELINE_ORDERED : 0;
	opts.pool = l->has_pool ? l->core->pool : NULL;
	stream_set_up(l, &opts);
	err = weir_pipeline_create(&l->pipeline, l->core->r, &opts);
	must(!err, "a pipeline can be made", "%d: %s", err, weir_why());
}

static void core_take_down(struct core *c)
{
	struct weir_pool_stats s = { .size = sizeof(s) };
	int err = weir_pool_stats(c->pool, &s);

	must(!err && s.free == s.total && !s.waiting,
	     "a pool has all its buffers back", "%llu of %llu",
	     (unsigned long long)s.free, (unsigned long long)s.total);
	err = weir_pool_destroy(c->pool);
	if (!err)
		err = weir_dma_destroy(c->dma);
	must(!err, "an idle context can be destroyed", "%d: %s", err,
	     weir_why());
}

static void take_down(struct program *p)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < LINES; i++)
		err = weir_pipeline_destroy(p->lines[i].pipeline);
	must(!err, "a pipeline that has ended can be destroyed", "%d: %s", err,
	     weir_why());
	/* Changes of state have yet to be reported. */
	(void)weir_sim_run(p->run->sim, WEIR_SEC, 0);
	for (uint32_t i = 0; i < p->run->n_reactors; i++)
		core_take_down(&p->cores[i]);
	for (uint32_t i = 0; i < LINES; i++)
		stream_take_down(&p->lines[i]);
	end_reactors(p->run);
}

static void run_pipelines(struct weir_sim_trial *trial)
{
	struct run *run = run_begin(trial);
	static struct program p;
	uint32_t i;

	program_begin(run, &p, sizeof(p));
	p.run = run;
	make_reactors(run, 1 + rnd(run, REACTORS));
	for (i = 0; i < run->n_reactors; i++)
		set_up_core(&p, &p.cores[i], run->reactors[i]);
	for (i = 0; i < LINES; i++)
		line_set_up(&p, &p.lines[i], i);
	run_budget(run, 20, 60, disturb);
	run_to_end(run, WEIR_SEC, is_done);
	take_down(&p);
}

const struct weir_sim_scenario scenario_pipelines = {
	.size = sizeof(scenario_pipelines),
	.name = "pipelines",
	.what = "pipelines over files and memory, and all that can be done to "
		"them",
	.run = run_pipelines,
	.faults = WEIR_SIM_ALL_FAULTS,
	.ops = 40,
};
