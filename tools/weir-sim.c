/* SPDX-License-Identifier: BSD-3-Clause */

/* The command weir-sim: <weir/sim/runner.h> with weir's own scenarios. */

#include "sim-scenarios.h"

int main(int argc, char **argv)
{
	return weir_sim_main(argc, argv, scenarios);
}
