/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_SIM_COMMAND_H
#define TOOLS_SIM_COMMAND_H

/* What the command line of weir-sim asks for, and doing it. */

#include "sim.h"

struct command {
	uint64_t first, seeds;
	uint64_t completions;	/* 0: .seeds say how many. */
	uint64_t faults, faults_max;
	uint32_t ops, rate, jobs;
	bool has_faults, one, steady, trace, no_shrink, json, quiet, files;
	const char *state;
	const char *report;
};

/* Returns an exit status. */
int command_run(const struct command *c, const struct scenario *scenario);
int command_run_file(const struct command *c, const char *path);

#endif /* TOOLS_SIM_COMMAND_H */
