/* SPDX-License-Identifier: BSD-3-Clause */
/* Chains over the places that there are everywhere: see chain-storm.c. */

#include "tests/support/chain-storm.h"

static void chains_weather_a_storm(void **state)
{
	chain_storm(state, NULL);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(chains_weather_a_storm),
	};

	return harness_run(cases, N_OF(cases));
}
