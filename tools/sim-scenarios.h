/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_SIM_SCENARIOS_H
#define TOOLS_SIM_SCENARIOS_H

#include <weir/sim/runner.h>

/* All, in the order in which they are run; ends with NULL. */
extern const struct weir_sim_scenario *const scenarios[];

/* One for each sim-SCENARIO.c. */

extern const struct weir_sim_scenario scenario_chains;
extern const struct weir_sim_scenario scenario_cores;
extern const struct weir_sim_scenario scenario_cp;
extern const struct weir_sim_scenario scenario_export;
extern const struct weir_sim_scenario scenario_pipelines;
extern const struct weir_sim_scenario scenario_pools;
extern const struct weir_sim_scenario scenario_reactor;
extern const struct weir_sim_scenario scenario_net;

#endif /* TOOLS_SIM_SCENARIOS_H */
