/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Two results: by how much the medians differ, and how sure that is.
 *
 * The bounds are a bootstrap's: both sets of samples are drawn again, with
 * replacement, many times, and the ratio of the medians is within the bounds in
 * 95 of 100 draws.  It asks for no distribution; with fewer than five samples
 * it knows little, and says so.
 */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "tool.h"

#define DRAWS 2000
#define SAMPLES_MAX 256
#define SAMPLES_ENOUGH 5

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *sample, size_t n)
{
	qsort(sample, n, sizeof(*sample), by_value);
	return n % 2 ? sample[n / 2] : (sample[n / 2 - 1] + sample[n / 2]) / 2;
}

static uint64_t next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static double draw(const struct figure *f, uint64_t *state)
{
	double sample[SAMPLES_MAX];
	size_t n = f->n < SAMPLES_MAX ? f->n : SAMPLES_MAX;

	for (size_t i = 0; i < n; i++)
		sample[i] = f->sample[next(state) % n];
	return median(sample, n);
}

struct ratio ratio_of(const struct figure *b, const struct figure *a)
{
	uint64_t state = 0x9e3779b97f4a7c15;	/* The same answer each time. */
	struct ratio r = { .ratio = b->median / a->median };
	double drawn[DRAWS];

	r.low = r.high = r.ratio;
	if (!a->n || !b->n)
		return r;
	for (int i = 0; i < DRAWS; i++)
		drawn[i] = draw(b, &state) / draw(a, &state);
	qsort(drawn, DRAWS, sizeof(*drawn), by_value);
	r.low = drawn[DRAWS * 25 / 1000];
	r.high = drawn[DRAWS * 975 / 1000];
	return r;
}

static const struct figure *same_as(const struct result *r,
				    const struct name *name)
{
	const struct figure *f;

	for (f = r->figures; f < r->figures + r->n_figures; f++)
		if (!strcmp(f->name.bench, name->bench) &&
		    !strcmp(f->name.what, name->what) &&
		    !strcmp(f->name.variant, name->variant) &&
		    !strcmp(f->name.unit, name->unit))
			return f;
	return NULL;
}

enum verdict { SAME, BETTER, WORSE, UNSURE };

static enum verdict judge(const struct figure *a, const struct figure *b,
			  const struct ratio *r)
{
	if (a->n < SAMPLES_ENOUGH || b->n < SAMPLES_ENOUGH)
		return UNSURE;
	if (r->low <= 1 && r->high >= 1)
		return SAME;
	return (r->low > 1) == more_is_better(a->name.unit) ? BETTER : WORSE;
}

static void show(const struct figure *a, const struct figure *b,
		 const struct ratio *r, enum verdict verdict)
{
	static const char *const words[] = {
		"no difference seen", "better", "WORSE", "too few samples",
	};

	printf("%-9s %-32s %-16s %10.4g %10.4g %-8s %6.3f [%.3f .. %.3f]  %s\n",
	       a->name.bench, a->name.what, a->name.variant, a->median,
	       b->median, a->name.unit, r->ratio, r->low, r->high,
	       words[verdict]);
}

/* Even the bound nearer to 1 is worse by @percent. */
static bool is_worse_by(double percent, const struct figure *a,
			const struct ratio *r)
{
	if (more_is_better(a->name.unit))
		return r->high < 1 - percent / 100;
	return r->low > 1 + percent / 100;
}

int compare(const struct result *a, const struct result *b, double worse)
{
	size_t n[4] = { 0 }, missing = 0, too_bad = 0;
	const struct figure *f, *other;
	enum verdict verdict;
	struct ratio r;

	printf("%-9s %-32s %-16s %10s %10s %-8s %6s\n", "bench", "case",
	       "variant", "before", "after", "unit", "ratio");
	for (f = a->figures; f < a->figures + a->n_figures; f++) {
		other = same_as(b, &f->name);
		if (!other) {
			missing++;
			continue;
		}
		r = ratio_of(other, f);
		verdict = judge(f, other, &r);
		n[verdict]++;
		too_bad += verdict == WORSE && is_worse_by(worse, f, &r);
		show(f, other, &r, verdict);
	}
	printf("%zu better, %zu worse, %zu without a difference that could be "
	       "seen, %zu of too few samples", n[BETTER], n[WORSE], n[SAME],
	       n[UNSURE]);
	printf(missing ? ", %zu in the first only\n" : "\n", missing);
	if (worse >= 0 && too_bad)
		return failed("%zu figures are worse by more than %g %%",
			      too_bad, worse);
	return EXIT_OK;
}
