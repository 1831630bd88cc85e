/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_HIST_H
#define BENCH_HIST_H

/*
 * A histogram of latencies: as many buckets for each power of two, so that the
 * error is at most 1/128 of the value, from nanoseconds to years.
 */

#include <stdint.h>
#include <stdio.h>

#define BENCH_HIST_SUB 128	/* Buckets for a power of two. */
#define BENCH_HIST_BUCKETS ((64 - 8 + 1) * BENCH_HIST_SUB + BENCH_HIST_SUB)

struct bench_hist {
	uint64_t n;
	uint64_t max;
	double sum, squares;
	uint64_t bucket[BENCH_HIST_BUCKETS];
};

static inline unsigned int bench_hist_index(uint64_t ns)
{
	unsigned int shift;

	if (ns < 2 * BENCH_HIST_SUB)
		return (unsigned int)ns;
	shift = 56 - (unsigned int)__builtin_clzll(ns);
	return shift * BENCH_HIST_SUB + (unsigned int)(ns >> shift);
}

static inline void bench_hist_add(struct bench_hist *h, uint64_t ns)
{
	h->n++;
	h->sum += (double)ns;
	h->squares += (double)ns * (double)ns;
	if (ns > h->max)
		h->max = ns;
	h->bucket[bench_hist_index(ns)]++;
}

/* Add all of @from. */
void bench_hist_merge(struct bench_hist *to, const struct bench_hist *from);

/* The middle of bucket @i. */
double bench_hist_value(unsigned int i);

/* The value that the share @q of all, 0 to 1, is not above; 0 of nothing. */
double bench_hist_quantile(const struct bench_hist *h, double q);

double bench_hist_mean(const struct bench_hist *h);
double bench_hist_deviation(const struct bench_hist *h);

/* Its members in a JSON object: count to max, then the buckets in use. */
void bench_hist_json(const struct bench_hist *h, FILE *out);

#endif /* BENCH_HIST_H */
