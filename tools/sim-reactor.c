/* SPDX-License-Identifier: BSD-3-Clause */

/* Scenario: reactors with operations, timers, counters, pollers and posts,
 * which act on each other at random in their callbacks. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <weir/file.h>
#include <weir/timer.h>
#include <weir/watch.h>

#include "sim-fixture.h"

#define REACTORS 4
#define SLOTS 24	/* Operations at a time, on each reactor. */
#define THINGS 6	/* Timers, counters and pollers, each. */
#define FOREVER_NS (WEIR_FOREVER / 2)	/* A period so long comes once. */

struct core;

/* Objects that may exist or not; only existing ones have callbacks. */
struct thing {
	struct core *core;
	bool is_there;
	uint64_t due_ns;	/* A timer: not before, */
	uint64_t period_ns;	/* and after that each so long. */
	struct due due;		/* When it has to call back. */
	uint64_t owed;		/* A counter: signals not told yet. */
	struct weir_timer *timer;
	struct weir_event *event;
	struct weir_poller *poller;
};

struct core {
	struct program *program;
	struct weir_reactor *r;
	unsigned int id;
	struct task *slots[SLOTS];
	struct thing timers[THINGS], events[THINGS], pollers[THINGS];
	uint64_t next_from[REACTORS];	/* The number of the next post. */
	uint64_t next_to[REACTORS];
	bool stopped;
};

struct program {
	struct run *run;
	struct core cores[REACTORS];
	uint64_t posts;		/* In flight. */
};

struct post {
	struct core *from, *to;
	uint64_t number;
	struct due due;
};

static void act(struct core *c);

static uint64_t soon(struct run *run)
{
	static const uint64_t spans[] = { 0, 100, WEIR_USEC, 50 * WEIR_USEC,
					  WEIR_MSEC, WEIR_SEC };

	uint64_t span = spans[rnd(run, 6)];

	/* Two statements, because compilers differ in the order of draws in one
	 * expression. */
	return span * (1 + rnd(run, 9));
}

/* Operations. */

static int64_t do_work(void *arg)
{
	return (int64_t)(uintptr_t)arg;
}

static void slot_end(struct task *task, int64_t res)
{
	struct core *c = task->op.data;
	struct task **slot = c->slots;

	while (*slot != task)
		slot++;
	must(res >= 0 || task_was_ended(task, res) ||
	     (res == -EAGAIN && !strcmp(task->what, "work")),
	     "a result that is documented", "a %s: %lld", task->what,
	     (long long)res);
	must(res <= 0 || (res == 42 && !strcmp(task->what, "work")),
	     "the function's result", "a %s: %lld", task->what,
	     (long long)res);
	*slot = NULL;
	free(task);	/* In its own callback, as is allowed. */
	act(c);
}

/* Some have a deadline, half of which are past. */
static void prepare(struct core *c, struct task *task, const char *what)
{
	struct run *run = c->program->run;
	uint64_t when;

	task_init(task, run, what, slot_end);
	task->op.data = c;
	if (!one_in(run, 6))
		return;
	when = weir_sim_now(run->sim) + soon(run);
	task_deadline_first(task, one_in(run, 2) ? when : soon(run) + 1);
}

static int begin(struct core *c, struct task *task)
{
	struct run *run = c->program->run;

	switch (rnd(run, 4)) {
	case 0:
		prepare(c, task, "nop");
		task->ends_at_once = true;
		return weir_nop(c->r, &task->op);
	case 1:
		prepare(c, task, "defer");
		due_set(run, &task->due, c->r, 0);
		return weir_defer(c->r, &task->op);
	case 2:
		prepare(c, task, "work");
		return weir_work(c->r, &task->op, do_work,
				 (void *)(uintptr_t)42);
	default:
		prepare(c, task, "sleep");
		task->ends_at_once = true;
		task->not_before_ns = weir_sim_now(run->sim) + soon(run);
		return weir_sleep_until(c->r, &task->op, task->not_before_ns);
	}
}

static void start_one(struct core *c)
{
	unsigned int i = rnd(c->program->run, SLOTS);
	struct task *task;
	int err;

	if (c->slots[i])
		return;
	task = malloc(sizeof(*task));
	if (!task)
		return;
	err = begin(c, task);
	must(!err || err == -EAGAIN || (err == -ESHUTDOWN && c->stopped),
	     "a start is refused for a reason", "a %s: %d", task->what, err);
	if (!task_began(task, err)) {
		free(task);
		return;
	}
	c->slots[i] = task;
	task->may_be_cancelled = c->stopped;
}

static void disturb_one(struct core *c)
{
	struct run *run = c->program->run;
	struct task *task = c->slots[rnd(run, SLOTS)];

	if (!task)
		return;
	if (one_in(run, 2))
		task_cancel(task);
	else
		task_deadline(task, soon(run));
}

/* Timers. */

static void touch_timer(struct core *c);

static void on_timer(struct weir_timer *timer, uint64_t n, void *arg)
{
	struct thing *t = arg;
	struct core *c = t->core;
	struct run *run = c->program->run;
	uint64_t now = weir_sim_now(run->sim);

	(void)timer;
	must(t->is_there, "no callback after destroy", "a timer");
	must(now >= t->due_ns, "never early", "a timer");
	due_met(run, &t->due, c->r, 1, "timer");
	must(n == (t->period_ns ? 1 + (now - t->due_ns) / t->period_ns : 1),
	     "a timer counts its periods", "%llu, %llu ns late, each %llu",
	     (unsigned long long)n, (unsigned long long)(now - t->due_ns),
	     (unsigned long long)t->period_ns);
	t->due_ns += n * t->period_ns;
	if (t->period_ns > FOREVER_NS)
		t->due_ns = WEIR_FOREVER;
	if (t->period_ns && t->due_ns < WEIR_FOREVER)
		due_set_timer(run, &t->due, c->r, t->due_ns);
	else
		t->due.is_set = false;
	must(weir_reactor_state(c->r) == WEIR_REACTOR_RUNNING,
	     "a stopped reactor's timers are silent", "core %u", c->id);
	/* Also while other timers are due. */
	if (run->budget && !run->ending && one_in(run, 2)) {
		run->budget--;
		touch_timer(c);
	}
	act(c);
}

static void touch_timer(struct core *c)
{
	struct run *run = c->program->run;
	struct thing *t = &c->timers[rnd(run, THINGS)];

	if (!t->is_there) {
		t->is_there = !weir_timer_create(&t->timer, c->r, on_timer, t);
		t->due.is_set = false;
		return;
	}
	switch (rnd(run, 4)) {
	case 0:
		t->is_there = false;
		weir_timer_destroy(t->timer);
		break;
	case 1:
		weir_timer_stop(t->timer);
		t->due.is_set = false;
		break;
	default:
		t->period_ns = one_in(run, 3) && !run->ending ?
				       WEIR_MSEC + soon(run) : 0;
		if (one_in(run, 16))
			t->period_ns = WEIR_FOREVER - soon(run);
		t->due_ns = weir_sim_now(run->sim) + soon(run);
		if (one_in(run, 4))
			t->due_ns = soon(run);	/* Long past. */
		weir_timer_start(t->timer, t->due_ns, t->period_ns);
		due_set_timer(run, &t->due, c->r, t->due_ns);
	}
}

/* Counters. */

static void on_event(struct weir_event *event, uint64_t n, void *arg)
{
	struct thing *t = arg;

	(void)event;
	must(t->is_there, "no callback after destroy", "a counter");
	must(n && n == t->owed, "a counter tells what was added",
	     "%llu of %llu", (unsigned long long)n,
	     (unsigned long long)t->owed);
	due_met(t->core->program->run, &t->due, t->core->r, 1, "counter");
	t->owed = 0;
	act(t->core);
}

static void touch_event(struct core *c)
{
	struct run *run = c->program->run;
	struct core *other = &c->program->cores[rnd(run, run->n_reactors)];
	struct thing *t = &other->events[rnd(run, THINGS)];

	if (t->is_there && !one_in(run, 4)) {
		if (!t->owed++)
			due_set(run, &t->due, other->r, 0);
		weir_event_signal(t->event);
	} else if (other == c && t->is_there) {
		t->is_there = false;
		t->owed = 0;
		weir_event_destroy(t->event);
	} else if (other == c) {
		t->is_there = !weir_event_create(&t->event, c->r, on_event, t);
	}
}

/* Pollers. */

static int on_poller(struct weir_poller *poller, void *arg)
{
	struct thing *t = arg;
	struct core *c = t->core;

	(void)poller;
	must(t->is_there, "no callback after destroy", "a poller");
	due_met(c->program->run, &t->due, c->r, 1, "poller");
	due_set(c->program->run, &t->due, c->r,
		weir_sim_now(c->program->run->sim) + t->period_ns);
	if (!one_in(c->program->run, 4))
		return 0;
	act(c);
	return 1;
}

static void touch_poller(struct core *c)
{
	struct run *run = c->program->run;
	struct thing *t = &c->pollers[rnd(run, THINGS)];

	if (t->is_there) {
		t->is_there = false;
		weir_poller_destroy(t->poller);
	} else if (!run->ending) {
		t->period_ns = soon(run);
		t->is_there = !weir_poller_create(&t->poller, c->r,
						  t->period_ns, on_poller, t);
		due_set(run, &t->due, c->r, 0);
	}
}

/* Posts: those of each sender arrive in order, each once. */

static void on_post(void *arg)
{
	struct post *post = arg;
	struct core *to = post->to;
	uint64_t *next = &to->next_from[post->from->id];

	must(post->number == *next, "posts come in order, and once",
	     "%llu, not %llu, from %u to %u",
	     (unsigned long long)post->number, (unsigned long long)*next,
	     post->from->id, to->id);
	due_met(to->program->run, &post->due, to->r, 1, "post");
	++*next;
	to->program->posts--;
	free(post);
	act(to);
}

static void post_one(struct core *c)
{
	struct run *run = c->program->run;
	struct core *to = &c->program->cores[rnd(run, run->n_reactors)];
	struct post *post = malloc(sizeof(*post));
	int err;

	if (!post)
		return;
	*post = (struct post){ .from = c, .to = to,
			       .number = c->next_to[to->id] };
	due_set(run, &post->due, to->r, 0);
	err = weir_post(to->r, on_post, post);
	must(!err || err == -EAGAIN || (err == -ESHUTDOWN && to->stopped),
	     "a post is refused for a reason", "%d", err);
	must(err == -ESHUTDOWN ||
	     weir_reactor_state(to->r) == WEIR_REACTOR_RUNNING,
	     "a stopped reactor takes no post", "%d", err);
	if (err) {
		free(post);
		return;
	}
	c->next_to[to->id]++;
	c->program->posts++;
}

/* Stop this reactor or another one.  A stop cancels everything; outside()
 * starts it again. */
static void stop_one(struct core *c)
{
	struct run *run = c->program->run;

	if (!one_in(run, 20))
		return;
	c = &c->program->cores[rnd(run, run->n_reactors)];
	if (c->stopped)
		return;
	weir_reactor_stop(c->r);
	c->stopped = true;
	for (unsigned int i = 0; i < SLOTS; i++)
		if (c->slots[i])
			c->slots[i]->may_be_cancelled = true;
}

static void act_once(void *actor)
{
	struct core *c = actor;

	switch (rnd(c->program->run, 9)) {
	case 0:
	case 1:
	case 2:
		start_one(c);
		break;
	case 3:
		disturb_one(c);
		break;
	case 4:
		touch_timer(c);
		break;
	case 5:
		touch_event(c);
		break;
	case 6:
		touch_poller(c);
		break;
	case 7:
		post_one(c);
		break;
	default:
		stop_one(c);
	}
}

/* In a callback on @c: some actions, as long as the budget lasts; sometimes so
 * many that no turn is long enough for their callbacks. */
static void act(struct core *c)
{
	struct run *run = c->program->run;

	act_often(run, one_in(run, 16) ? 40 : 1 + rnd(run, 3), act_once, c);
}

/* Timers, counters and pollers that have long been due have been called. */
static void check_pending(struct core *c)
{
	struct run *run = c->program->run;

	for (unsigned int i = 0; i < THINGS; i++) {
		if (c->timers[i].is_there)
			due_pending(run, &c->timers[i].due, c->r, 1, "timer");
		if (c->events[i].is_there && c->events[i].owed)
			due_pending(run, &c->events[i].due, c->r, 1,
				    "counter");
		if (c->pollers[i].is_there)
			due_pending(run, &c->pollers[i].due, c->r, 1,
				    "poller");
	}
}

static void put_away(struct core *c)
{
	check_pending(c);
	for (unsigned int i = 0; i < THINGS; i++) {
		if (c->timers[i].is_there)
			weir_timer_destroy(c->timers[i].timer);
		if (c->events[i].is_there)
			weir_event_destroy(c->events[i].event);
		if (c->pollers[i].is_there)
			weir_poller_destroy(c->pollers[i].poller);
		c->timers[i].is_there = false;
		c->events[i].is_there = false;
		c->pollers[i].is_there = false;
	}
}

/* Actions that no reactor can take: start a stopped reactor, and begin. */
static void outside(struct program *p)
{
	for (unsigned int i = 0; i < p->run->n_reactors; i++) {
		struct core *c = &p->cores[i];

		check_pending(c);
		if (weir_reactor_state(c->r) == WEIR_REACTOR_STOPPED) {
			must(c->stopped, "it stops only if asked", "core %u",
			     i);
			c->stopped = weir_reactor_start(c->r) != 0;
			reactor_restarted(p->run, c->r);
		}
		if (!c->stopped && budget_take(p->run))
			start_one(c);
	}
}

static bool is_done(struct run *run)
{
	struct program *p = run->program;

	return !p->posts;
}

static void run_reactor(struct weir_sim_trial *trial)
{
	struct run *run = run_begin(trial);
	static struct program p;
	unsigned int i;

	program_begin(run, &p, sizeof(p));
	p.run = run;
	make_reactors(run, 1 + rnd(run, REACTORS));
	for (i = 0; i < run->n_reactors; i++) {
		struct core *c = &p.cores[i];

		c->program = &p;
		c->r = run->reactors[i];
		c->id = i;
		for (unsigned int j = 0; j < THINGS; j++) {
			c->timers[j].core = c;
			c->events[j].core = c;
			c->pollers[j].core = c;
		}
	}
	/* A stuck operation keeps a reactor from stopping until the world is
	 * healed. */
	for (i = 0; run->budget && i < 10 * run->trial->ops; i++) {
		uint64_t ns = WEIR_USEC + soon(run);

		outside(&p);
		(void)weir_sim_run(run->sim, ns, 1 + rnd(run, 200));
	}
	for (i = 0; i < run->n_reactors; i++)
		put_away(&p.cores[i]);
	run_to_end(run, WEIR_SEC, is_done);
	end_reactors(run);
}

const struct weir_sim_scenario scenario_reactor = {
	.size = sizeof(scenario_reactor),
	.name = "reactor",
	.what = "operations, timers, counters, pollers and posts, at random",
	.run = run_reactor,
	.faults = WEIR_SIM_ALL_FAULTS,
	.ops = 400,
};
