/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_DPDK_H
#define BENCH_DPDK_H

/*
 * DPDK's parts that we are measured beside.  Each is in a file of its own,
 * because of what DPDK's headers bring with them.
 *
 *	mempool.c	rte_mempool, for bench-buf
 *	dmadev.c	rte_dmadev over its software skeleton, for bench-copy
 *	ring.c		rte_ring, for bench-post
 *
 * Where one cannot be had, it says why in *@reason.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Its environment, once: without huge pages, devices or files, on the first of
 * our CPUs, and on that one only. */
bool dpdk_start(const char **reason);

/* A pool of @n objects of @size bytes with a cache of @cache for this thread. */
bool mempool_open(uint32_t n, uint32_t size, uint32_t cache,
		  const char **reason);
void mempool_close(void);

/* Nanoseconds of this thread's CPU time for a get and a put, @depth gets and
 * then as many puts at a time. */
double mempool_run(uint32_t depth, uint64_t rounds);

/* A thread that copies: dmadev's mock for a device. */
bool dmadev_open(const char **reason);
void dmadev_close(void);

/* Nanoseconds for a copy of @size bytes, @n of them, @batch at a time, while
 * this thread looks whether they are done. */
double dmadev_run(void *dst, const void *src, size_t size, size_t batch,
		  uint64_t n);

/* A ring that has space for @slots messages, of one producer or of many. */
bool ring_open(uint32_t slots, bool many, const char **reason);
void ring_close(void);

/* This thread sends @n, one by one, another takes them, as many as there are;
 * or sends them back, @window of them in flight.  Nanoseconds for each. */
double ring_flood(uint64_t n);
double ring_round_trip(uint32_t window, uint64_t n);

#endif /* BENCH_DPDK_H */
