/* SPDX-License-Identifier: BSD-3-Clause */

/* Runs seeds in rounds, so that a run can be interrupted and continued; and
 * handles failures. */

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "sim-command.h"

/* The seeds of a round.  It does not depend on the number of processes, so the
 * same seeds run. */
#define ROUND 512

static double now_s(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void fail(struct command *c, struct params *params,
		 const struct progress *p, struct outcome *found)
{
	char again[512];
	bool did = true;

	if (!c->no_shrink && !c->trace)
		did = shrink(params, found, c->quiet);
	params_print(again, sizeof(again), params);
	fprintf(stderr, "weir-sim: %s, seed %" PRIu64 ", event %" PRIu64
		": '%s' does not hold: %s\nweir-sim: again: weir-sim %s "
		"--trace\n", params->scenario->name, params->seed,
		found->at_event, found->rule, found->text, again);
	if (!did)
		fputs("weir-sim: it did not happen a second time: something "
		      "real had a part in it\n", stderr);
	if (c->keep)
		params_save(params, found, c->keep);
	tell(c, params, p, found);
}

static struct params params_of(const struct command *c,
			       const struct scenario *scenario)
{
	struct params params;

	params_default(&params, scenario);
	params.seed = c->first;
	params.rate = c->rate;
	params.steady = c->steady;
	params.faults_max = c->faults_max;
	if (c->ops)
		params.ops = c->ops;
	if (c->has_faults)
		params.faults = c->faults;
	return params;
}

/* This scenario's share of the requested completions. */
static uint64_t quota(const struct command *c, const struct scenario *scenario)
{
	uint64_t share = scenario->share ? scenario->share : 1;

	return (uint64_t)((__extension__ (unsigned __int128)c->completions *
			   share + c->shares - 1) / c->shares);
}

/* The number of seeds of the next round; 0: enough. */
static uint64_t round_of(const struct command *c,
			 const struct scenario *scenario,
			 const struct progress *p)
{
	uint64_t done = p->next - c->first;

	if (c->completions)
		return p->sum.completions < quota(c, scenario) ? ROUND : 0;
	if (done >= c->seeds)
		return 0;
	return c->seeds - done < ROUND ? c->seeds - done : ROUND;
}

/* One round; false: @out has failed. */
static bool run_round(const struct command *c, const struct params *whole,
		      uint64_t n, struct progress *p, struct outcome *out)
{
	struct params params = *whole;
	double begun = now_s();
	bool well;

	params.seed = p->next;
	well = c->trace ? run_seeds(&params, n, true, out) :
			  run_many(&params, n, c->jobs, out);
	p->seconds += now_s() - begun;
	outcome_add(&p->sum, out);
	p->next += n;
	return well;
}

int command_run(struct command *c, const struct scenario *scenario)
{
	struct params params = params_of(c, scenario);
	struct progress p = { .next = c->first };
	struct outcome out;
	uint64_t n;

	if (c->state && state_load(c->state, &params, &p))
		return EXIT_FAILED;
	while ((n = round_of(c, scenario, &p))) {
		if (!run_round(c, &params, n, &p, &out)) {
			params.seed = out.seed;
			fail(c, &params, &p, &out);
			return EXIT_FAILED;
		}
		if (c->state && state_save(c->state, &params, &p))
			return EXIT_FAILED;
	}
	tell(c, &params, &p, NULL);
	return EXIT_OK;
}

int command_run_file(struct command *c, const char *path)
{
	struct progress p = { 0 };
	struct params params;
	struct outcome out;
	const char *why;
	double begun = now_s();

	if (params_load(&params, path, &why)) {
		fprintf(stderr, "weir-sim: %s: %s\n", path, why);
		return EXIT_USAGE;
	}
	if (run_seeds(&params, 1, c->trace, &out)) {
		p.sum = out;
		p.seconds = now_s() - begun;
		tell(c, &params, &p, NULL);
		return EXIT_OK;
	}
	fail(c, &params, &p, &out);
	return EXIT_FAILED;
}
