/* SPDX-License-Identifier: BSD-3-Clause */

/* What can be read from a histogram: see hist.h. */

#include <math.h>

#include "bench/hist.h"

void bench_hist_merge(struct bench_hist *to, const struct bench_hist *from)
{
	to->n += from->n;
	to->sum += from->sum;
	to->squares += from->squares;
	if (from->max > to->max)
		to->max = from->max;
	for (unsigned int i = 0; i < BENCH_HIST_BUCKETS; i++)
		to->bucket[i] += from->bucket[i];
}

double bench_hist_value(unsigned int i)
{
	unsigned int shift;

	if (i < 2 * BENCH_HIST_SUB)
		return i;
	shift = i / BENCH_HIST_SUB - 1;
	return ldexp((double)(i - shift * BENCH_HIST_SUB) + 0.5, (int)shift);
}

double bench_hist_quantile(const struct bench_hist *h, double q)
{
	uint64_t seen = 0, wanted = (uint64_t)ceil(q * (double)h->n);

	if (!h->n)
		return 0;
	if (!wanted)
		wanted = 1;
	for (unsigned int i = 0; i < BENCH_HIST_BUCKETS; i++) {
		seen += h->bucket[i];
		if (seen >= wanted)
			return fmin(bench_hist_value(i), (double)h->max);
	}
	return (double)h->max;
}

double bench_hist_mean(const struct bench_hist *h)
{
	return h->n ? h->sum / (double)h->n : 0;
}

double bench_hist_deviation(const struct bench_hist *h)
{
	double mean = bench_hist_mean(h);

	if (!h->n)
		return 0;
	return sqrt(fmax(h->squares / (double)h->n - mean * mean, 0));
}

void bench_hist_json(const struct bench_hist *h, FILE *out)
{
	static const struct {
		const char *name;
		double q;
	} points[] = {
		{ "p50", 0.5 }, { "p90", 0.9 }, { "p99", 0.99 },
		{ "p99.9", 0.999 }, { "p99.99", 0.9999 },
	};
	const char *comma = "";

	fprintf(out, "\"count\":%llu,\"mean\":%.6g,\"stddev\":%.6g,",
		(unsigned long long)h->n, bench_hist_mean(h),
		bench_hist_deviation(h));
	for (size_t i = 0; i < sizeof(points) / sizeof(points[0]); i++)
		fprintf(out, "\"%s\":%.6g,", points[i].name,
			bench_hist_quantile(h, points[i].q));
	fprintf(out, "\"max\":%llu,\"values\":[",
		(unsigned long long)h->max);
	for (unsigned int i = 0; i < BENCH_HIST_BUCKETS; i++) {
		if (!h->bucket[i])
			continue;
		fprintf(out, "%s%.10g", comma, bench_hist_value(i));
		comma = ",";
	}
	fputs("],\"counts\":[", out);
	comma = "";
	for (unsigned int i = 0; i < BENCH_HIST_BUCKETS; i++) {
		if (!h->bucket[i])
			continue;
		fprintf(out, "%s%llu", comma,
			(unsigned long long)h->bucket[i]);
		comma = ",";
	}
	fputs("]", out);
}
