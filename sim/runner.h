/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SIM_RUNNER_H
#define SIM_RUNNER_H

/*
 * The internals of weir_sim_main().
 *
 *	runner.c         the command line, rounds of seeds, the outcome
 *	runner-params.c  the parameters of a run as options and in files
 *	runner-seeds.c   seeds in child processes; smaller failures
 */

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <weir/sim/runner.h>

/* The name of the program, for messages. */
extern const char *runner_name;

/* The parameters of a run. */
struct params {
	const struct weir_sim_scenario *scenario;
	uint64_t seed;
	uint64_t faults;
	uint64_t faults_max;	/* 0: no bound. */
	uint32_t rate;		/* 0: the library's. */
	uint32_t ops;
	bool steady;		/* The same faults for each seed. */
	char hosts[128];	/* That may be faulty; empty: all. */
	int timeout_ms;		/* For a seed; then a child counts as hung. */
};

/* A number of @text in [@low, @high]; false: it is none. */
static inline bool params_number(const char *text, uint64_t low, uint64_t high,
				 uint64_t *ret)
{
	char *end;

	errno = 0;
	*ret = strtoull(text, &end, 10);
	return !errno && *text >= '0' && *text <= '9' && !*end &&
	       *ret >= low && *ret <= high;
}

static inline void params_default(struct params *params,
				  const struct weir_sim_scenario *scenario)
{
	memset(params, 0, sizeof(*params));
	params->scenario = scenario;
	params->seed = 1;
	params->faults = scenario->faults;
	params->ops = scenario->ops;
}

/* Only @hosts, names with commas, are faulty; false: too long. */
static inline bool params_hosts(struct params *params, const char *hosts)
{
	if (strlen(hosts) >= sizeof(params->hosts))
		return false;
	strcpy(params->hosts, hosts);
	return true;
}

/* The outcome of seeds, in memory that parent and child share. */
struct outcome {
	uint64_t seed;		/* The one that runs, or has failed. */
	uint64_t seeds;		/* Those that succeeded. */
	uint64_t completions, events, verified;
	uint64_t faults[WEIR_SIM_FAULTS];
	uint64_t digest;	/* Of all of them, in any order. */
	uint64_t at_event;	/* Of the failure. */
	char rule[64];		/* Empty: no rule is broken. */
	char text[512];
};

static inline uint64_t outcome_faults(const struct outcome *out)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < WEIR_SIM_FAULTS; i++)
		n += out->faults[i];
	return n;
}

/* The counts of both, and the failure of the first that has one. */
static inline void outcome_add(struct outcome *sum, const struct outcome *out)
{
	sum->seeds += out->seeds;
	sum->completions += out->completions;
	sum->events += out->events;
	sum->verified += out->verified;
	sum->digest += out->digest;
	for (unsigned int i = 0; i < WEIR_SIM_FAULTS; i++)
		sum->faults[i] += out->faults[i];
	if (!*sum->rule && *out->rule) {
		sum->seed = out->seed;
		sum->at_event = out->at_event;
		memcpy(sum->rule, out->rule, sizeof(sum->rule));
		memcpy(sum->text, out->text, sizeof(sum->text));
	}
}

/* runner-seeds.c */

/* Run @n seeds from @params->seed on with @jobs children, each a share; @ret is
 * the sum.  @trace: one child writes all that happens.  Returns whether all
 * succeed. */
bool runner_seeds(const struct params *params, uint64_t n, unsigned int jobs,
		  bool trace, struct outcome *ret);

/* Find smaller @params that break the same rule as @found.  False: the first
 * repetition did not fail. */
bool runner_shrink(struct params *params, struct outcome *found, bool quiet);

/* runner-params.c: a line of options, as on the command line. */

/* A list of kinds of faults: 0, or -EINVAL. */
int params_faults(uint64_t *ret, const char *text);

void params_print(char *buf, size_t size, const struct params *params);

/* @ret from the seed file @path, with a scenario of the array @all; or -EINVAL
 * with *@why set to the error in the file. */
int params_load(struct params *ret, const struct weir_sim_scenario *all,
		const char *path, const char **why);

/* Keep a failing seed in the directory @dir, to run it again from then on. */
void params_save(const struct params *params, const struct outcome *found,
		 const char *dir);

/* The scenario of the array @all, which ends with one without a name. */
static inline const struct weir_sim_scenario *
scenario_find(const struct weir_sim_scenario *all, const char *name)
{
	while (all->name && strcmp(all->name, name))
		all++;
	return all->name ? all : NULL;
}

#endif /* SIM_RUNNER_H */
