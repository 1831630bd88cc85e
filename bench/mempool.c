/* SPDX-License-Identifier: BSD-3-Clause */

/* rte_mempool with its per-core cache, without huge pages, devices or files. */

#include "bench/bench.h"
#include "bench/mempool.h"

#ifdef HAVE_DPDK

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wpedantic"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wcast-qual"
#pragma GCC diagnostic ignored "-Wundef"
#pragma GCC diagnostic ignored "-Wstrict-prototypes"
#include <rte_eal.h>
#include <rte_mempool.h>
#pragma GCC diagnostic pop

#define DEPTH_MAX 1024

static struct rte_mempool *pool;

static bool start_eal(void)
{
	static char core[] = "0@0";
	static char *args[] = {
		(char *)"bench-buf", (char *)"--no-huge", (char *)"--no-shconf",
		(char *)"--no-pci", (char *)"--no-telemetry", (char *)"-m",
		(char *)"64", (char *)"--log-level=1", (char *)"--lcores", core,
		NULL,
	};

	return rte_eal_init((int)ARRAY_SIZE(args) - 1, args) >= 0;
}

bool mempool_open(uint32_t n, uint32_t size, uint32_t cache,
		  const char **reason)
{
	static bool up;

	if (!up && !start_eal()) {
		*reason = "rte_eal_init() fails here";
		return false;
	}
	up = true;
	pool = rte_mempool_create("bench", n, size, cache, 0, NULL, NULL, NULL,
				  NULL, SOCKET_ID_ANY, 0);
	*reason = pool ? NULL : "rte_mempool_create() fails here";
	return pool;
}

void mempool_close(void)
{
	rte_mempool_free(pool);
}

double mempool_run(uint32_t depth, uint64_t rounds)
{
	uint64_t begun = bench_thread_ns();
	void *obj[DEPTH_MAX];

	for (uint64_t i = 0; i < rounds; i++) {
		for (uint32_t k = 0; k < depth; k++)
			bench_must(rte_mempool_get(pool, &obj[k]), "get");
		for (uint32_t k = 0; k < depth; k++)
			rte_mempool_put(pool, obj[k]);
	}
	return (double)(bench_thread_ns() - begun) / (double)(rounds * depth);
}

#else

bool mempool_open(uint32_t n, uint32_t size, uint32_t cache,
		  const char **reason)
{
	(void)n, (void)size, (void)cache;
	*reason = "DPDK is not installed";
	return false;
}

void mempool_close(void)
{
}

double mempool_run(uint32_t depth, uint64_t rounds)
{
	(void)depth, (void)rounds;
	return 0;
}

#endif
