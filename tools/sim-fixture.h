/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_SIM_FIXTURE_H
#define TOOLS_SIM_FIXTURE_H

/*
 * What scenarios have in common.  A scenario makes reactors, starts what it
 * follows as tasks, and hands both to run_to_end(), which has faults come for a
 * while, stops them, and sees whether everything ends.
 */

#include "sim.h"

/* What must be true: else the seed has failed. */
#define must(holds, rule, ...) \
	do { \
		if (!(holds)) \
			violation(rule, __VA_ARGS__); \
	} while (0)

/* From 0 to @n - 1, of the program's own chances. */
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

/* @n reactors, with drawn options: small bounds, few callbacks in a turn. */
void make_reactors(struct run *run, unsigned int n);

/*
 * When something has to happen on a reactor, which virtual time makes exact.
 * It is due at a time, or when it was asked for if that was later.  Then its
 * reactor has a turn as soon as its core is free, at no other time of the
 * clock, and does it in the first turn that is not too short for all that is
 * due.  What a first turn finds out, such as that a sleep is over, may take a
 * second one to be told.
 */
struct due {
	uint64_t turn;		/* The reactor's last, when it was asked for. */
	uint64_t ns;
	uint64_t refused;	/* Cancels that the world had refused. */
	bool is_set;
};

/* @due is from now on what is to happen on @r at @ns. */
void due_set(struct run *run, struct due *due, struct weir_reactor *r,
	     uint64_t ns);

/* The same for what the reactor measures in ticks: timers and deadlines. */
void due_set_timer(struct run *run, struct due *due, struct weir_reactor *r,
		   uint64_t ns);

/* It happens now, in a callback on @r; after @turns turns that were whole. */
void due_met(struct run *run, const struct due *due, struct weir_reactor *r,
	     unsigned int turns, const char *what);

/* It has not happened yet; outside all turns. */
void due_pending(struct run *run, const struct due *due,
		 struct weir_reactor *r, unsigned int turns, const char *what);

/* @r, which had stopped, was started: till then nothing was due. */
void reactor_restarted(struct run *run, struct weir_reactor *r);

/* An operation that is followed: it must end once, and only if it began. */
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

/*
 * Note what a start of @task's operation returned.  Returns whether it began.
 * With .not_before_ns it is a sleep, which also ends then.
 */
bool task_began(struct task *task, int err);

/* Give it a deadline before it is started, perhaps one that is past. */
void task_deadline_first(struct task *task, uint64_t when_ns);

/* Ask for its end; by a deadline so many nanoseconds from now. */
void task_cancel(struct task *task);
void task_deadline(struct task *task, uint64_t ns);

/* Whether @res is what a cancel or a deadline makes, and there was one. */
bool task_was_ended(const struct task *task, int64_t res);

/*
 * Run for @ns with faults, and then without, until all tasks have ended and
 * @is_done (or NULL) says so; "progress" is broken if they do not.
 */
void run_to_end(struct run *run, uint64_t ns, bool (*is_done)(struct run *run));

/* All has ended: nothing more happens, nothing is in flight, and each reactor
 * takes as much as when it was new. */
void check_rest(struct run *run);

/*
 * Destroy the reactors: all has ended, so nothing more happens, and each takes
 * as much as when it was new.
 */
void end_reactors(struct run *run);

/* Bytes that only @seed and their place determine. */
void pattern_fill(void *buf, size_t len, uint64_t seed, uint64_t off);
bool pattern_is(struct run *run, const void *buf, size_t len, uint64_t seed,
		uint64_t off);

#endif /* TOOLS_SIM_FIXTURE_H */
