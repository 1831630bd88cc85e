/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Reduces a failure: to the first n faults, to the kinds of faults that it
 * needs, and to the fewest operations.  A failure of another rule is not the
 * same failure.
 */

#include <stdio.h>
#include <string.h>

#include "sim.h"

static bool still_fails(const struct params *params, struct outcome *found)
{
	struct outcome out;

	if (run_seeds(params, 1, false, &out) || strcmp(out.rule, found->rule))
		return false;
	*found = out;
	return true;
}

/* Each kind of fault has its own stream, so the others are unchanged. */
static bool drop_kinds(struct params *p, struct outcome *found)
{
	bool did = false;
	struct params with;

	for (unsigned int i = 0; i < WEIR_SIM_FAULTS; i++) {
		with = *p;
		with.faults &= ~(UINT64_C(1) << i);
		if (with.faults == p->faults || !still_fails(&with, found))
			continue;
		*p = with;
		did = true;
	}
	return did;
}

/* The least @*member in [@low, it] that fails, as far as bisection finds it. */
static bool halve(struct params *p, struct outcome *found, uint64_t low,
		  uint64_t high, void (*set)(struct params *p, uint64_t n))
{
	struct params with = *p;
	bool did = false;
	uint64_t mid;

	while (low < high) {
		mid = low + (high - low) / 2;
		set(&with, mid);
		if (still_fails(&with, found)) {
			*p = with;
			high = mid;
			did = true;
		} else {
			low = mid + 1;
		}
	}
	return did;
}

static void set_faults_max(struct params *p, uint64_t n)
{
	p->faults_max = n;
}

static void set_ops(struct params *p, uint64_t n)
{
	p->ops = (uint32_t)n;
}

static bool fewer_faults(struct params *p, struct outcome *found)
{
	uint64_t high = p->faults_max;

	if (!p->faults)
		return false;
	/* A failed child has not reported how many there were. */
	if (!high)
		high = outcome_faults(found) ? outcome_faults(found) : 1u << 20;
	return halve(p, found, 1, high, set_faults_max);
}

bool shrink(struct params *params, struct outcome *found, bool quiet)
{
	char line[512];
	bool did;

	if (!still_fails(params, found))
		return false;
	if (!strcmp(found->rule, "hang"))
		return true;	/* Each try would take as long. */
	do {
		did = drop_kinds(params, found);
		did = halve(params, found, 1, params->ops, set_ops) || did;
		did = fewer_faults(params, found) || did;
		params_print(line, sizeof(line), params);
		if (!quiet && did)
			fprintf(stderr, "weir-sim: smaller: %s\n", line);
	} while (did);
	return true;
}
