/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_SIM_FIXTURE_H
#define TOOLS_SIM_FIXTURE_H

/*
 * The common code of weir's own scenarios.  A scenario makes reactors, starts operations
 * as tasks, and calls run_to_end(), which injects faults for a while, stops
 * them, and checks that everything ends.
 */

#include <stdbool.h>

#include <weir/op.h>
#include <weir/reactor.h>
#include <weir/sim/runner.h>

/* A world, a program in it, and facts about both. */
struct run {
	struct weir_sim_trial *trial;
	struct weir_sim *sim;	/* The trial's. */
	struct weir_reactor *reactors[8];
	unsigned int n_reactors;
	uint32_t ops_max[8], mailbox[8]; /* Of each, if it was drawn. */
	uint64_t restarted_ns[8]; /* When each was started again. */
	uint64_t under_way;	/* By the ledger. */
	uint32_t budget;	/* Actions that the scenario may still start. */
	bool ending;		/* It is being taken down. */
	bool by_hand;		/* A reactor is run from outside the world. */
	void *program;		/* The scenario's own. */
};

/* The run of @trial: the process has one at a time. */
struct run *run_begin(struct weir_sim_trial *trial);

/* A rule: if it does not hold, the seed has failed. */
#define must(holds, rule, ...) \
	do { \
		if (!(holds)) \
			weir_sim_violation(rule, __VA_ARGS__); \
	} while (0)

/* A number from 0 to @n - 1, from the stream of the program. */
uint32_t rnd(struct run *run, uint32_t n);
static inline bool one_in(struct run *run, uint32_t n)
{
	return !rnd(run, n);
}

/* A scenario's @program begins: @size bytes of zeros. */
void program_begin(struct run *run, void *program, size_t size);

/* Whether the scenario may start one more action; that one is counted. */
bool budget_take(struct run *run);

/* Up to @n times act_once(@actor), as long as the budget lasts. */
void act_often(struct run *run, unsigned int n, void (*act_once)(void *actor),
	       void *actor);

/* act(@program) again and again, each time followed by 1 to @turns turns, until the
 * budget is used up or that was done @times times for each action of it. */
void run_budget(struct run *run, uint32_t times, uint32_t turns,
		void (*act)(void *program));

/* Make @n reactors with drawn options: small bounds, few callbacks in a
 * turn. */
void make_reactors(struct run *run, unsigned int n);

/*
 * When something must happen on a reactor.  Virtual time makes this exact.
 *
 * It is due at a time, or when it was requested if that is later.  Its reactor
 * must have a turn as soon as its core is free, without another advance of the
 * clock.  It happens in the first turn that is long enough for everything that
 * is due.  A fact that a turn detects, such as the end of a sleep, may be
 * reported in the turn after it.
 */
struct due {
	uint64_t turn;		/* The reactor's last, when it was asked for. */
	uint64_t ns;
	uint64_t refused;	/* Cancels that the world had refused. */
	bool is_set;
};

/* Set @due: something must happen on @r at @ns. */
void due_set(struct run *run, struct due *due, struct weir_reactor *r,
	     uint64_t ns);

/* The same for times that the reactor measures in ticks: timers and
 * deadlines. */
void due_set_timer(struct run *run, struct due *due, struct weir_reactor *r,
		   uint64_t ns);

/* It happens now, in a callback on @r.  Check that it took at most @turns whole
 * turns. */
void due_met(struct run *run, const struct due *due, struct weir_reactor *r,
	     unsigned int turns, const char *what);

/* Outside all turns: check that it may still happen in time. */
void due_pending(struct run *run, const struct due *due,
		 struct weir_reactor *r, unsigned int turns, const char *what);

/* @r was stopped and has been started again: until then nothing was due. */
void reactor_restarted(struct run *run, struct weir_reactor *r);

/* An operation that is checked: it must end once, and only if it began. */
struct task {
	struct weir_op op;
	struct run *run;
	const char *what;
	void (*end)(struct task *task, int64_t res);
	uint64_t not_before_ns; /* 0: any time. */
	uint64_t deadline_ns;	/* Set before the start; 0: none. */
	bool is_late;		/* And that was past. */
	bool is_under_way;
	bool may_be_cancelled; /* It was cancelled, or its reactor stops. */
	bool has_deadline;
	bool may_be_flushed; /* A device may end it with -ECANCELED. */
	bool ends_at_once;   /* A cancel that is not refused ends it. */
	struct due due, cancel, deadline;
	struct due repeat;   /* Of the cancel, which was refused. */
};

void task_init(struct task *task, struct run *run, const char *what,
	       void (*end)(struct task *task, int64_t res));

/* Note the result of the start of @task's operation.  Returns whether it began.
 * With .not_before_ns it is a sleep, which must end then. */
bool task_began(struct task *task, int err);

/* Set a deadline before the start, perhaps one that is past. */
void task_deadline_first(struct task *task, uint64_t when_ns);

/* Request its end: by a cancel, or by a deadline in @ns nanoseconds. */
void task_cancel(struct task *task);
void task_deadline(struct task *task, uint64_t ns);

/* Whether @res is the result of a cancel or a deadline, and there was one. */
bool task_was_ended(const struct task *task, int64_t res);

/* Run for @ns with faults, and then without, until all tasks have ended and
 * @is_done (or NULL) returns true.  Otherwise the rule "progress" is broken. */
void run_to_end(struct run *run, uint64_t ns, bool (*is_done)(struct run *run));

/* Check that everything has ended: nothing more happens, nothing is in flight,
 * and each reactor accepts as much as when it was new. */
void check_rest(struct run *run);

/* Destroy the reactors, after the checks of check_rest(). */
void end_reactors(struct run *run);

/* Bytes that depend only on @seed and their place. */
void pattern_fill(void *buf, size_t len, uint64_t seed, uint64_t off);
bool pattern_is(struct run *run, const void *buf, size_t len, uint64_t seed,
		uint64_t off);

#endif /* TOOLS_SIM_FIXTURE_H */
