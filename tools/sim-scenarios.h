/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_SIM_SCENARIOS_H
#define TOOLS_SIM_SCENARIOS_H

/* One for each sim-SCENARIO.c. */

#include "sim.h"

extern const struct scenario scenario_chains;
extern const struct scenario scenario_cores;
extern const struct scenario scenario_cp;
extern const struct scenario scenario_export;
extern const struct scenario scenario_pipelines;
extern const struct scenario scenario_pools;
extern const struct scenario scenario_reactor;
extern const struct scenario scenario_net;

#endif /* TOOLS_SIM_SCENARIOS_H */
