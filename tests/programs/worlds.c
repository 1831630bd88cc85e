/* SPDX-License-Identifier: BSD-3-Clause */
/* The runner of the scenarios in worlds.h. */

#include "tests/programs/worlds.h"

int main(int argc, char **argv)
{
	static const struct weir_sim_scenario *const scenarios[] = {
		&nbd_scenario, NULL
	};

	return weir_sim_main(argc, argv, scenarios);
}
