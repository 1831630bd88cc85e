/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_MEMPOOL_H
#define BENCH_MEMPOOL_H

/*
 * DPDK's rte_mempool, for bench-buf.  In a file of its own, because of what DPDK's
 * headers bring with them.
 */

#include <stdbool.h>
#include <stdint.h>

/* A pool of @n objects of @size bytes with a cache of @cache for this thread;
 * false, with a reason, if DPDK will not. */
bool mempool_open(uint32_t n, uint32_t size, uint32_t cache,
		  const char **reason);
void mempool_close(void);

/* Nanoseconds of this thread's CPU time for a get and a put, @depth gets and
 * then as many puts at a time. */
double mempool_run(uint32_t depth, uint64_t rounds);

#endif /* BENCH_MEMPOOL_H */
