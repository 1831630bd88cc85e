/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_SIM_COMMAND_H
#define TOOLS_SIM_COMMAND_H

/* The command line of weir-sim, its execution, and its output. */

#include "json.h"
#include "sim.h"

#define TOLD_MAX 64

/* The progress of a scenario. */
struct progress {
	uint64_t next;		/* The seed to go on with. */
	struct outcome sum;
	double seconds;
};

/* The summary of a scenario at the end. */
struct told {
	const struct scenario *scenario;
	struct progress progress;
	bool failed;
};

struct command {
	uint64_t first, seeds;
	uint64_t completions;	/* In all; 0: .seeds say how many. */
	uint64_t faults, faults_max;
	uint32_t ops, rate, jobs, timeout;
	bool has_faults, one, steady, trace, no_shrink, json, quiet, files;
	const char *state;
	const char *report;
	const char *keep;
	uint32_t shares;	/* Of all scenarios that are run. */
	struct json out;
	struct told told[TOLD_MAX];
	uint32_t n_told;
};

/* sim-command.c; an exit status. */
int command_run(struct command *c, const struct scenario *scenario);
int command_run_file(struct command *c, const char *path);

/* sim-state.c: the progress of a run with @params, whose .seed is the run's
 * first.  Errors are reported; 0, or a negative errno. */
int state_load(const char *path, const struct params *params,
	       struct progress *p);
int state_save(const char *path, const struct params *params,
	       const struct progress *p);

/* sim-tell.c */
void tell_begin(struct command *c);
void tell(struct command *c, const struct params *params,
	  const struct progress *p, const struct outcome *found);
int tell_end(struct command *c);	/* An exit status. */

/* Whether a report can be written; it is written only at the end. */
int report_open(const struct command *c);

#endif /* TOOLS_SIM_COMMAND_H */
