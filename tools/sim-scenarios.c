/* SPDX-License-Identifier: BSD-3-Clause */

/* All scenarios, in the order in which they are run. */

#include <string.h>

#include "sim-scenarios.h"

const struct scenario *const scenarios[] = {
	&scenario_reactor,
	&scenario_pools,
	&scenario_cores,
	&scenario_chains,
	&scenario_pipelines,
	&scenario_cp,
	&scenario_export,
	&scenario_net,
	NULL,
};

const struct scenario *scenario_find(const char *name)
{
	for (size_t i = 0; scenarios[i]; i++)
		if (!strcmp(scenarios[i]->name, name))
			return scenarios[i];
	return NULL;
}
