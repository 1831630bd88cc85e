/* SPDX-License-Identifier: BSD-3-Clause */

/* All scenarios, in the order in which they are run. */

#include "sim-scenarios.h"

const struct weir_sim_scenario *const scenarios[] = {
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
