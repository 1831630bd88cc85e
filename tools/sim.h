/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_SIM_H
#define TOOLS_SIM_H

/*
 * weir-sim: runs scenarios in simulated worlds, seed after seed, and makes what
 * fails small.
 *
 *	weir-sim.c       the command line, and what is printed
 *	sim-command.c    seeds in rounds, and what becomes of a failure
 *	sim-state.c      how far a run is, in a file, to go on with
 *	sim-tell.c       the outcome as text, as JSON and as a report
 *	sim-run.c        seeds in child processes, so that a crash or a hang of
 *	                 one is a result like any other
 *	sim-shrink.c     fewer faults, fewer kinds of them, fewer operations
 *	sim-file.c       a failing seed as a file
 *	sim-fixture.c        what scenarios have in common: the ledger, the rules
 *	sim-SCENARIO.c   a program, and what must be true of it
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/op.h>
#include <weir/reactor.h>
#include <weir/sim/world.h>

enum { EXIT_OK, EXIT_FAILED, EXIT_USAGE };

struct run;

struct scenario {
	const char *name;
	const char *what;	/* For people. */
	void (*run)(struct run *run);
	uint64_t faults;	/* What it can bear; not all if it is not 0. */
	uint32_t ops;		/* Unless asked otherwise. */
	uint32_t share;		/* Of --completions; 0 is 1. */
};

extern const struct scenario *const scenarios[];	/* Ends with NULL. */

const struct scenario *scenario_find(const char *name);

/* What a run depends on, beside the program. */
struct params {
	const struct scenario *scenario;
	uint64_t seed;
	uint64_t faults;
	uint64_t faults_max;	/* 0: no bound. */
	uint32_t rate;		/* 0: the library's. */
	uint32_t ops;
	bool steady;		/* The same faults for each seed. */
};

/* A world, a program in it, and what is known of both; see sim-fixture.c. */
struct run {
	struct params params;
	struct weir_sim *sim;
	struct weir_reactor *reactors[8];
	unsigned int n_reactors;
	uint32_t ops_max[8], mailbox[8]; /* Of each, if it was drawn. */
	uint64_t restarted_ns[8]; /* When each was started again. */
	uint64_t under_way;	/* By the ledger. */
	uint64_t verified;	/* Bytes that were compared. */
	uint32_t budget;	/* Actions that the scenario may still start. */
	bool ending;		/* It is being taken down. */
	bool by_hand;		/* A reactor is run from outside the world. */
	void *program;		/* The scenario's own. */
};

/* What has come of seeds, in memory that parent and child share. */
struct outcome {
	uint64_t seed;		/* That runs, or has failed. */
	uint64_t seeds;		/* That have run well. */
	uint64_t completions, events, verified;
	uint64_t faults[WEIR_SIM_FAULTS];
	uint64_t digest;	/* Of all of them, in any order. */
	uint64_t at_event;	/* Of the failure. */
	char rule[48];		/* Empty: nothing is wrong. */
	char text[512];
};

/* sim-run.c */

/* How many seconds a child has for a seed before it is taken to hang. */
void run_set_timeout(unsigned int seconds);

/* The counts of both, and the failure of the first that has one. */
void outcome_add(struct outcome *sum, const struct outcome *out);
uint64_t outcome_faults(const struct outcome *out);

/* Run @n seeds from @params->seed on in a child.  Returns whether all is
 * well. */
bool run_seeds(const struct params *params, uint64_t n, bool trace,
	       struct outcome *ret);

/* The same with @jobs children, each a share; @ret is the sum. */
bool run_many(const struct params *params, uint64_t n, unsigned int jobs,
	      struct outcome *ret);

/* In a child: say what is wrong, and end. */
__attribute__((noreturn, format(printf, 2, 3))) void violation(
	const char *rule, const char *fmt, ...);

/* In a child: one seed. */
void run_one(struct run *run, struct outcome *out, bool trace);

/* sim-shrink.c: smaller @params that break the same rule as @found.  False: it
 * did not fail again. */
bool shrink(struct params *params, struct outcome *found, bool quiet);

/* sim-file.c: a line of options, as on the command line.  @why says in a
 * message what is wrong with a file. */
int params_load(struct params *ret, const char *path, const char **why);
int params_save(const struct params *params, const struct outcome *found,
		const char *dir);
bool parse_number(const char *text, uint64_t low, uint64_t high, uint64_t *ret);
void params_print(char *buf, size_t size, const struct params *params);
int params_parse_faults(uint64_t *ret, const char *text);
void params_default(struct params *params, const struct scenario *scenario);

#endif /* TOOLS_SIM_H */
