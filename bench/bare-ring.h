/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_BARE_RING_H
#define BENCH_BARE_RING_H

#include <stdint.h>

/*
 * Nanoseconds for each of @n calls of a function on another CPU that are
 * answered, @window of them in flight; for each of @n that are not, if @window
 * is 0.  Both CPUs are busy all the time; this thread is on the first
 * meanwhile, and may run anywhere afterwards.
 */
double bare_ring(uint64_t n, uint64_t window);

/* How long each of @n calls takes, in ns, with so long a pause before it. */
void bare_ring_gaps(uint64_t n, uint64_t gap_ns, double *took);

#endif /* BENCH_BARE_RING_H */
