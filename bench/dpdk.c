/* SPDX-License-Identifier: BSD-3-Clause */
/* DPDK's environment, as an ordinary user can have it: see dpdk.h. */

#include "bench/bench.h"
#include "bench/dpdk.h"

#ifdef HAVE_DPDK

#include <sched.h>

#pragma GCC diagnostic push
#include "bench/dpdk-quiet.h"
#include <rte_eal.h>
#pragma GCC diagnostic pop

static int first_cpu(void)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	sched_getaffinity(0, sizeof(cpus), &cpus);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, &cpus))
			return cpu;
	return 0;
}

static bool start_eal(void)
{
	static char core[24];
	static char *args[] = {
		(char *)"bench", (char *)"--no-huge", (char *)"--no-shconf",
		(char *)"--no-pci", (char *)"--no-telemetry", (char *)"-m",
		(char *)"64", (char *)"--log-level=1", (char *)"--lcores", core,
		NULL,
	};

	snprintf(core, sizeof(core), "0@%d", first_cpu());
	return rte_eal_init((int)ARRAY_SIZE(args) - 1, args) >= 0;
}

bool dpdk_start(const char **reason)
{
	static bool tried, up;

	if (!tried)
		up = start_eal();
	tried = true;
	if (!up)
		*reason = "rte_eal_init() fails here";
	return up;
}

#else

bool dpdk_start(const char **reason)
{
	*reason = "DPDK is not installed (libdpdk-dev)";
	return false;
}

#endif
