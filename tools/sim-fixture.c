/* SPDX-License-Identifier: BSD-3-Clause */

/* The ledger of operations, and the life of a run. */

#include <errno.h>
#include <string.h>

#include "sim-fixture.h"

#define AFTER_HEAL (3600 * WEIR_SEC) /* By then all has ended. */

struct run *run_begin(struct weir_sim_trial *trial)
{
	static struct run run;

	run = (struct run){ .trial = trial, .sim = trial->sim };
	return &run;
}

uint32_t rnd(struct run *run, uint32_t n)
{
	return (uint32_t)(weir_sim_random(run->sim) % n);
}

void program_begin(struct run *run, void *program, size_t size)
{
	memset(program, 0, size);
	run->program = program;
	run->budget = run->trial->ops;
}

bool budget_take(struct run *run)
{
	if (!run->budget || run->ending)
		return false;
	run->budget--;
	return true;
}

void act_often(struct run *run, unsigned int n, void (*act_once)(void *actor),
	       void *actor)
{
	for (; n && budget_take(run); n--)
		act_once(actor);
}

void run_budget(struct run *run, uint32_t times, uint32_t turns,
		void (*act)(void *program))
{
	uint32_t i;

	for (i = 0; run->budget && i < times * run->trial->ops; i++) {
		act(run->program);
		(void)weir_sim_run(run->sim, WEIR_MSEC, 1 + rnd(run, turns));
	}
}

void make_reactors(struct run *run, unsigned int n)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts) };
	int err;

	opts.sim = run->sim;
	for (unsigned int i = 0; i < n; i++) {
		opts.ops_max = one_in(run, 4) ? 4 + rnd(run, 30) : 0;
		opts.turn_max = one_in(run, 2) ? 1 + rnd(run, 20) : 0;
		opts.mailbox = one_in(run, 4) ? 1u << rnd(run, 4) : 0;
		err = weir_reactor_create(&run->reactors[i], &opts);
		must(!err, "a reactor can be made", "%d: %s", err, weir_why());
		run->ops_max[i] = opts.ops_max;
		run->mailbox[i] = opts.mailbox;
		run->n_reactors++;
	}
}

#define TICK_NS (UINT64_C(1) << 14)	/* Of timers. */
#define REPEAT_FIRST_NS (10 * WEIR_USEC) /* A cancel is repeated after that, */
#define REPEAT_LAST_NS (10 * WEIR_MSEC)	/* and then more and more seldom. */

void due_set(struct run *run, struct due *due, struct weir_reactor *r,
	     uint64_t ns)
{
	struct weir_sim_turns turns = { .size = sizeof(turns) };
	uint64_t now = weir_sim_now(run->sim);

	must(!weir_sim_turns(r, &turns), "a reactor's turns", "none");
	*due = (struct due){ .turn = turns.turns, .ns = ns > now ? ns : now,
			     .refused = turns.refused, .is_set = true };
}

void due_set_timer(struct run *run, struct due *due, struct weir_reactor *r,
		   uint64_t ns)
{
	due_set(run, due, r, ns);
	due->ns = (due->ns + TICK_NS - 1) & ~(TICK_NS - 1);
}

static void check_woken(const struct weir_sim_turns *t)
{
	must(!t->unwoken, "who sleeps is woken", "%llu times not",
	     (unsigned long long)t->unwoken);
}

static void due_check(const struct due *due, const struct weir_sim_turns *t,
		      unsigned int turns, const char *what)
{
	uint64_t whole = turns > 1 ? t->whole_before : t->whole;
	uint64_t whole_ns = turns > 1 ? t->whole_before_ns : t->whole_ns;

	must(whole <= due->turn || whole_ns < due->ns, "nothing is late",
	     "a %s, asked for in turn %llu and due at %llu, was not in turn "
	     "%llu at %llu", what, (unsigned long long)due->turn,
	     (unsigned long long)due->ns, (unsigned long long)whole,
	     (unsigned long long)whole_ns);
}

void due_pending(struct run *run, const struct due *due,
		 struct weir_reactor *r, unsigned int turns, const char *what)
{
	struct weir_sim_turns t = { .size = sizeof(t) };

	(void)run;
	if (due->is_set && !weir_sim_turns(r, &t))
		due_check(due, &t, turns, what);
}

static uint64_t restarted(const struct run *run, const struct weir_reactor *r)
{
	unsigned int i = 0;

	while (i < run->n_reactors && run->reactors[i] != r)
		i++;
	return i < run->n_reactors ? run->restarted_ns[i] : 0;
}

void due_met(struct run *run, const struct due *due, struct weir_reactor *r,
	     unsigned int turns, const char *what)
{
	struct weir_sim_turns t = { .size = sizeof(t) };
	uint64_t from = due->ns;

	if (!due->is_set || run->by_hand || weir_sim_turns(r, &t))
		return;
	check_woken(&t);
	due_check(due, &t, turns, what);
	if (from < t.free_ns)
		from = t.free_ns;
	if (from < restarted(run, r))
		from = restarted(run, r);
	must(t.target_ns <= from, "nothing is late",
	     "a %s that could be at %llu is at %llu", what,
	     (unsigned long long)from, (unsigned long long)t.target_ns);
}

void reactor_restarted(struct run *run, struct weir_reactor *r)
{
	for (unsigned int i = 0; i < run->n_reactors; i++)
		if (run->reactors[i] == r)
			run->restarted_ns[i] = weir_sim_now(run->sim);
}

static struct task *task_of(struct weir_op *op)
{
	return weir_container_of(op, struct task, op);
}

bool task_was_ended(const struct task *task, int64_t res)
{
	return (res == -ECANCELED && task->may_be_cancelled) ||
	       (res == -ETIMEDOUT && task->has_deadline);
}

/* Whether a cancel on @r was refused since @due; it may have been this one,
 * which is then repeated. */
static bool is_refused(const struct due *due, const struct weir_reactor *r)
{
	struct weir_sim_turns t = { .size = sizeof(t) };

	return due->is_set &&
	       (weir_sim_turns(r, &t) || t.refused != due->refused);
}

static void on_end(struct weir_op *op, int64_t res)
{
	struct task *task = task_of(op);
	struct run *run = task->run;

	must(task->is_under_way, "one completion for each operation",
	     "a %s ended twice, or never began", task->what);
	must(!weir_op_is_busy(op), "idle in its callback", "a %s", task->what);
	must(res >= 0 || weir_sim_now(run->sim) > 0, "a time", "none");
	must(res != -ECANCELED || task->may_be_cancelled ||
		     task->may_be_flushed,
	     "cancelled only if asked", "a %s", task->what);
	must(!task->is_late || res == -ETIMEDOUT,
	     "what begins after its deadline does nothing", "a %s: %lld",
	     task->what, (long long)res);
	must(res != 0 || weir_sim_now(run->sim) >= task->not_before_ns,
	     "never early", "a %s", task->what);
	due_met(run, &task->due, op->reactor, 2, task->what);
	if (!is_refused(&task->cancel, op->reactor))
		due_met(run, &task->cancel, op->reactor, 1, task->what);
	if (!is_refused(&task->repeat, op->reactor))
		due_met(run, &task->repeat, op->reactor, 2, task->what);
	if (!is_refused(&task->deadline, op->reactor))
		due_met(run, &task->deadline, op->reactor, 2, task->what);
	task->is_under_way = false;
	run->under_way--;
	task->end(task, res);
}

void task_init(struct task *task, struct run *run, const char *what,
	       void (*end)(struct task *task, int64_t res))
{
	memset(task, 0, sizeof(*task));
	weir_op_init(&task->op, on_end);
	task->run = run;
	task->what = what;
	task->end = end;
}

void task_deadline_first(struct task *task, uint64_t when_ns)
{
	must(!weir_op_set_deadline(&task->op, when_ns),
	     "an idle operation can have a deadline", "a %s", task->what);
	task->deadline_ns = when_ns;
}

static void first_deadline_holds(struct task *task)
{
	uint64_t now = weir_sim_now(task->run->sim);

	task->has_deadline = true;
	task->is_late = task->deadline_ns <= now;
	if (task->is_late)
		due_set(task->run, &task->deadline, task->op.reactor, now);
	else if (task->ends_at_once)
		due_set_timer(task->run, &task->deadline, task->op.reactor,
			      task->deadline_ns);
}

bool task_began(struct task *task, int err)
{
	if (err)
		return false;
	task->is_under_way = true;
	task->may_be_cancelled = false;
	task->has_deadline = false;
	task->cancel.is_set = task->deadline.is_set = false;
	task->repeat.is_set = false;
	if (task->deadline_ns)
		first_deadline_holds(task);
	if (task->not_before_ns)
		due_set_timer(task->run, &task->due, task->op.reactor,
			      task->not_before_ns);
	task->run->under_way++;
	return true;
}

/* A refused cancel is repeated soon, or later if other cancels have waited
 * long. */
static void cancel_is_due(struct task *task,
			  const struct weir_sim_turns *before)
{
	struct weir_reactor *r = task->op.reactor;
	struct run *run = task->run;
	uint64_t now = weir_sim_now(run->sim);

	if (task->cancel.is_set)
		return;
	/* The deadline has asked already, and may have been refused: then this
	 * cancel asks for nothing more, and that one is repeated. */
	if (task->deadline.ns <= now && is_refused(&task->deadline, r))
		return;
	due_set(run, &task->cancel, r, 0);
	if (task->cancel.refused == before->refused)
		return;
	task->cancel.is_set = false;
	if (!before->refused || now - before->refused_ns > 10 * REPEAT_LAST_NS)
		due_set(run, &task->repeat, r, now + REPEAT_FIRST_NS);
}

void task_cancel(struct task *task)
{
	struct weir_sim_turns turns = { .size = sizeof(turns) };
	struct weir_op_detail detail;
	bool at_once = task->ends_at_once && task->is_under_way &&
		       !weir_sim_turns(task->op.reactor, &turns);
	int err = weir_op_cancel(&task->op);

	must(err == (task->is_under_way ? 0 : -EINVAL),
	     "a cancel is taken while it is in flight", "a %s: %d", task->what,
	     err);
	must(!task->is_under_way ||
	     weir_op_get_detail(&task->op, &detail) == -EINVAL,
	     "nothing is told of what has not ended", "a %s", task->what);
	task->may_be_cancelled = true;
	if (at_once)
		cancel_is_due(task, &turns);
}

void task_deadline(struct task *task, uint64_t ns)
{
	uint64_t when = weir_sim_now(task->run->sim) + ns;
	int err = weir_op_set_deadline(&task->op, when);

	must(!err || err == -EINVAL, "a deadline is taken or too late",
	     "a %s: %d", task->what, err);
	if (err)
		return;
	task->has_deadline = true;
	if (task->ends_at_once)
		due_set_timer(task->run, &task->deadline, task->op.reactor,
			      when);
}

static bool all_done(struct run *run, bool (*is_done)(struct run *run))
{
	/* Always call it: it may be what lets other operations end. */
	bool done = !is_done || is_done(run);

	return done && !run->under_way;
}

static uint64_t events(struct run *run)
{
	struct weir_sim_stats stats = { .size = sizeof(stats) };

	return weir_sim_stats(run->sim, &stats) ? 0 : stats.events;
}

/* For @ns, or until everything has ended, or nothing happens any more although
 * is_done() was called, which may cause something to happen. */
static bool run_for(struct run *run, uint64_t ns,
		    bool (*is_done)(struct run *run))
{
	uint64_t until = weir_sim_now(run->sim) + ns, now;
	uint64_t begun;

	while (!all_done(run, is_done)) {
		now = weir_sim_now(run->sim);
		begun = events(run);
		if (now >= until)
			return false;
		now = until - now < WEIR_SEC ? until - now : WEIR_SEC;
		if (!weir_sim_run(run->sim, now, 1000) &&
		    events(run) == begun)
			return all_done(run, is_done);
	}
	return true;
}

void run_to_end(struct run *run, uint64_t ns, bool (*is_done)(struct run *run))
{
	(void)run_for(run, ns, is_done);
	weir_sim_set_faults(run->sim, 0);
	run->ending = true;
	must(run_for(run, AFTER_HEAL, is_done),
	     "progress once faults have stopped",
	     "%llu operations never ended, or what they led to",
	     (unsigned long long)run->under_way);
}

#define OPS_DRAWN 34	/* More are not drawn as .ops_max, */
#define POSTS_DRAWN 8	/* and as .mailbox. */

static void count_end(struct weir_op *op, int64_t res)
{
	unsigned int *n = op->data;

	must(!res, "an operation that does nothing succeeds", "%lld",
	     (long long)res);
	++*n;
}

static void count_post(void *arg)
{
	++*(unsigned int *)arg;
}

/* It accepts as many operations and posts as when it was new. */
static void check_limits(struct run *run, unsigned int i)
{
	struct weir_op ops[OPS_DRAWN + 1];
	struct weir_reactor *r = run->reactors[i];
	unsigned int n, ended = 0, posted = 0;

	for (n = 0; n < run->ops_max[i] + 1 && run->ops_max[i]; n++) {
		weir_op_init(&ops[n], count_end);
		ops[n].data = &ended;
		if (weir_defer(r, &ops[n]))
			break;
	}
	must(n == run->ops_max[i], "a limit is at the end what it was",
	     "%u operations of %u", n, run->ops_max[i]);
	for (n = 0; n < run->mailbox[i] + 1 && run->mailbox[i]; n++)
		if (weir_post(r, count_post, &posted))
			break;
	must(n == run->mailbox[i], "a limit is at the end what it was",
	     "%u posts of %u", n, run->mailbox[i]);
	must(!weir_sim_run(run->sim, WEIR_FOREVER, 0) &&
	     ended == run->ops_max[i] && posted == run->mailbox[i],
	     "progress once faults have stopped", "at a reactor's limit");
}

void check_rest(struct run *run)
{
	must(!weir_sim_run(run->sim, AFTER_HEAL, 0),
	     "nothing happens when all has ended", "within an hour");
	for (unsigned int i = 0; i < run->n_reactors; i++) {
		struct weir_reactor_stats s = { .size = sizeof(s) };
		struct weir_sim_turns t = { .size = sizeof(t) };

		must(!weir_sim_turns(run->reactors[i], &t),
		     "a reactor's turns", "none");
		check_woken(&t);
		if (weir_reactor_state(run->reactors[i]) !=
		    WEIR_REACTOR_RUNNING)
			continue;
		must(!weir_reactor_stats(run->reactors[i], &s) && !s.in_flight,
		     "nothing is in flight when all has ended", "%llu",
		     (unsigned long long)s.in_flight);
		check_limits(run, i);
	}
}

void end_reactors(struct run *run)
{
	int err;

	check_rest(run);
	for (unsigned int i = 0; i < run->n_reactors; i++) {
		err = weir_reactor_destroy(run->reactors[i]);
		must(!err, "a reactor can be destroyed at the end", "%d: %s",
		     err, weir_why());
	}
	run->n_reactors = 0;
}

/* Eight bytes at a time, because this takes most of a run's time. */
static uint64_t word(uint64_t seed, uint64_t n)
{
	uint64_t z = (seed ^ n) * UINT64_C(0x9e3779b97f4a7c15);

	return z ^ (z >> 29);
}

static unsigned char byte(uint64_t seed, uint64_t off)
{
	return (unsigned char)(word(seed, off >> 3) >> 8 * (off & 7));
}

void pattern_fill(void *buf, size_t len, uint64_t seed, uint64_t off)
{
	unsigned char *p = buf;

	for (size_t i = 0; i < len; i++)
		p[i] = byte(seed, off + i);
}

bool pattern_is(struct run *run, const void *buf, size_t len, uint64_t seed,
		uint64_t off)
{
	const unsigned char *p = buf;

	run->trial->verified += len;
	for (size_t i = 0; i < len; i++)
		if (p[i] != byte(seed, off + i))
			return false;
	return true;
}
