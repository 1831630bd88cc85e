/* SPDX-License-Identifier: BSD-3-Clause */

/* The ledger of operations, and the life of a run. */

#include <errno.h>
#include <string.h>

#include "sim-fixture.h"

#define AFTER_HEAL (3600 * WEIR_SEC) /* By then all has ended. */

uint32_t rnd(struct run *run, uint32_t n)
{
	return (uint32_t)(weir_sim_random(run->sim) % n);
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
		run->n_reactors++;
	}
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
	must(res != 0 || weir_sim_now(run->sim) >= task->not_before_ns,
	     "never early", "a %s", task->what);
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

bool task_began(struct task *task, int err)
{
	if (err)
		return false;
	task->is_under_way = true;
	task->may_be_cancelled = false;
	task->has_deadline = false;
	task->run->under_way++;
	return true;
}

void task_cancel(struct task *task)
{
	int err = weir_op_cancel(&task->op);

	must(err == (task->is_under_way ? 0 : -EINVAL),
	     "a cancel is taken while it is in flight", "a %s: %d", task->what,
	     err);
	task->may_be_cancelled = true;
}

void task_deadline(struct task *task, uint64_t ns)
{
	uint64_t when = weir_sim_now(task->run->sim) + ns;
	int err = weir_op_set_deadline(&task->op, when);

	must(!err || err == -EINVAL, "a deadline is taken or too late",
	     "a %s: %d", task->what, err);
	if (!err)
		task->has_deadline = true;
}

static bool all_done(struct run *run, bool (*is_done)(struct run *run))
{
	/* Asked in any case: it may be what lets the others end. */
	bool done = !is_done || is_done(run);

	return done && !run->under_way;
}

static uint64_t events(struct run *run)
{
	struct weir_sim_stats stats = { .size = sizeof(stats) };

	return weir_sim_stats(run->sim, &stats) ? 0 : stats.events;
}

/* For @ns, or until all is done, or nothing happens any more, although it was
 * asked, which may be what makes something happen. */
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
		if (!weir_sim_run(run->sim, until - now, 1000) &&
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

void end_reactors(struct run *run)
{
	int err;

	for (unsigned int i = 0; i < run->n_reactors; i++) {
		err = weir_reactor_destroy(run->reactors[i]);
		must(!err, "a reactor can be destroyed at the end", "%d: %s",
		     err, weir_why());
	}
	run->n_reactors = 0;
}

/* Eight bytes at a time, for this is most of what a run does. */
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

	run->verified += len;
	for (size_t i = 0; i < len; i++)
		if (p[i] != byte(seed, off + i))
			return false;
	return true;
}
