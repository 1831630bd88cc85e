/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_SIM_H
#define TOOLS_SIM_H

/*
 * weir-sim: runs scenarios in simulated worlds, seed after seed, and reduces
 * failures.
 *
 *	weir-sim.c       the command line, and the output
 *	sim-command.c    seeds in rounds; failures
 *	sim-state.c      the progress of a run in a file, to continue it
 *	sim-tell.c       the outcome as text, as JSON and as a report
 *	sim-run.c        seeds in child processes, so that a crash or a hang of
 *	                 one is an ordinary result
 *	sim-shrink.c     fewer faults, fewer kinds of them, fewer operations
 *	sim-file.c       a failing seed as a file
 *	sim-fixture.c    the common code of scenarios: the ledger, the rules
 *	sim-SCENARIO.c   a program, and its rules
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
	const char *what;	/* For --list. */
	void (*run)(struct run *run);
	uint64_t faults;	/* Kinds that it supports; 0: all. */
	uint32_t ops;		/* The default. */
	uint32_t share;		/* Of --completions; 0 is 1. */
};

extern const struct scenario *const scenarios[];	/* Ends with NULL. */

const struct scenario *scenario_find(const char *name);

/* The parameters of a run. */
struct params {
	const struct scenario *scenario;
	uint64_t seed;
	uint64_t faults;
	uint64_t faults_max;	/* 0: no bound. */
	uint32_t rate;		/* 0: the library's. */
	uint32_t ops;
	bool steady;		/* The same faults for each seed. */
};

/* A world, a program in it, and facts about both; see sim-fixture.c. */
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

/* The outcome of seeds, in memory that parent and child share. */
struct outcome {
	uint64_t seed;		/* The one that runs, or has failed. */
	uint64_t seeds;		/* Those that succeeded. */
	uint64_t completions, events, verified;
	uint64_t faults[WEIR_SIM_FAULTS];
	uint64_t digest;	/* Of all of them, in any order. */
	uint64_t at_event;	/* Of the failure. */
	char rule[48];		/* Empty: no rule is broken. */
	char text[512];
};

/* sim-run.c */

/* The seconds for a seed after which a child counts as hanging. */
void run_set_timeout(unsigned int seconds);

/* The counts of both, and the failure of the first that has one. */
void outcome_add(struct outcome *sum, const struct outcome *out);
uint64_t outcome_faults(const struct outcome *out);

/* Run @n seeds from @params->seed on in a child.  Returns whether all succeed. */
bool run_seeds(const struct params *params, uint64_t n, bool trace,
	       struct outcome *ret);

/* The same with @jobs children, each a share; @ret is the sum. */
bool run_many(const struct params *params, uint64_t n, unsigned int jobs,
	      struct outcome *ret);

/* In a child: report the broken rule, and exit. */
__attribute__((noreturn, format(printf, 2, 3))) void violation(
	const char *rule, const char *fmt, ...);

/* In a child: one seed. */
void run_one(struct run *run, struct outcome *out, bool trace);

/* sim-shrink.c: find smaller @params that break the same rule as @found.  False:
 * the first repetition did not fail. */
bool shrink(struct params *params, struct outcome *found, bool quiet);

/* sim-file.c: a line of options, as on the command line.  *@why is set to the
 * error in a file. */
int params_load(struct params *ret, const char *path, const char **why);
int params_save(const struct params *params, const struct outcome *found,
		const char *dir);
bool parse_number(const char *text, uint64_t low, uint64_t high, uint64_t *ret);
void params_print(char *buf, size_t size, const struct params *params);
int params_parse_faults(uint64_t *ret, const char *text);
void params_default(struct params *params, const struct scenario *scenario);

#endif /* TOOLS_SIM_H */
