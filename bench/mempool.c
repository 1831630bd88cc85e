/* SPDX-License-Identifier: BSD-3-Clause */
/* rte_mempool with its per-core cache. */

#include "bench/bench.h"
#include "bench/dpdk.h"

#ifdef HAVE_DPDK

#pragma GCC diagnostic push
#include "bench/dpdk-quiet.h"
#include <rte_mempool.h>
#pragma GCC diagnostic pop

#define DEPTH_MAX 1024

static struct rte_mempool *pool;

bool mempool_open(uint32_t n, uint32_t size, uint32_t cache,
		  const char **reason)
{
	if (!dpdk_start(reason))
		return false;
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
	return dpdk_start(reason);
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
