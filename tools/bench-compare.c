/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Compares two results: by how much they differ, and how certain that is.
 *
 * A figure that was measured beside a peer is compared by its ratio to that
 * peer, repetition by repetition, because changes of the machine between the
 * two runs affect both.  Other figures are compared directly.
 *
 * The bounds are a bootstrap's: both sets of samples are drawn again, with
 * replacement, many times, and the ratio of the medians is within the bounds in
 * 95 of 100 draws.  It assumes no distribution.  With fewer than five samples,
 * or medians of 0, it gives no judgement.  It measures how samples vary within
 * a run, not how runs vary.
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

/* The compared numbers: a figure's samples, or their ratios to a peer's. */
struct side {
	double sample[SAMPLES_MAX], median;
	size_t n;
};

/* The ratio of two medians, and its bounds in 95 of 100 draws. */
struct ratio {
	double ratio, low, high;
};

static double draw(const struct side *s, uint64_t *state)
{
	double sample[SAMPLES_MAX];

	for (size_t i = 0; i < s->n; i++)
		sample[i] = s->sample[next(state) % s->n];
	return median(sample, s->n);
}

static struct ratio ratio_of(const struct side *b, const struct side *a)
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

/* The peer that @f was measured beside, in the same repetitions.  A variant of
 * weir is no peer: if it got faster, the others would seem slower. */
static const struct figure *peer_of(const struct result *r,
				    const struct figure *f)
{
	struct name name = f->name;
	const struct figure *peer;

	if (!*f->ratio_to || origin_of(name.bench, f->ratio_to) == OURS)
		return NULL;
	name.variant = f->ratio_to;
	peer = same_as(r, &name);
	return peer && peer->n_samples && peer->n_samples == f->n_samples ?
	       peer : NULL;
}

/* Whether @f is a peer of other figures.  Then it is not judged. */
static bool is_peer(const struct result *r, const struct figure *f)
{
	const struct figure *other;

	for (other = r->figures; other < r->figures + r->n_figures; other++)
		if (peer_of(r, other) == f)
			return true;
	return false;
}

static void take_samples(struct side *s, const struct figure *f,
			 const struct figure *peer)
{
	double sorted[SAMPLES_MAX];

	s->n = f->n_samples < SAMPLES_MAX ? f->n_samples : SAMPLES_MAX;
	s->median = f->median;
	for (size_t i = 0; i < s->n; i++)
		s->sample[i] = f->sample[i] / (peer ? peer->sample[i] : 1);
	if (!peer)
		return;
	memcpy(sorted, s->sample, s->n * sizeof(*sorted));
	s->median = median(sorted, s->n);
}

enum verdict { SAME, BETTER, WORSE, UNSURE, N_VERDICTS };

/* A figure of both results. */
struct pair {
	const struct name *name;
	const char *peer;	/* NULL: they are compared as they are. */
	struct side a, b;
	struct ratio ratio;
	enum verdict verdict;
};

static enum verdict judge(const struct pair *p)
{
	const struct ratio *r = &p->ratio;

	if (p->a.n < SAMPLES_ENOUGH || p->b.n < SAMPLES_ENOUGH)
		return UNSURE;
	/* A median was 0, so there is no ratio. */
	if (!isfinite(r->low) || !isfinite(r->high))
		return UNSURE;
	if (r->low <= 1 && r->high >= 1)
		return SAME;
	return (r->low > 1) == more_is_better(p->name->unit) ? BETTER : WORSE;
}

static void make_pair(struct pair *p, const struct result *a,
		      const struct figure *fa, const struct result *b,
		      const struct figure *fb)
{
	const struct figure *pa = peer_of(a, fa), *pb = peer_of(b, fb);

	if (!pa || !pb || strcmp(fa->ratio_to, fb->ratio_to))
		pa = pb = NULL;
	p->name = &fa->name;
	p->peer = pa ? pa->name.variant : NULL;
	take_samples(&p->a, fa, pa);
	take_samples(&p->b, fb, pb);
	p->ratio = ratio_of(&p->b, &p->a);
	p->verdict = is_peer(a, fa) && is_peer(b, fb) ? UNSURE : judge(p);
}

static void show(const struct pair *p)
{
	static const char *const words[] = {
		"no difference seen", "better", "WORSE", "not judged",
	};
	const struct name *name = p->name;
	char unit[64];

	snprintf(unit, sizeof(unit), p->peer ? "x %s" : "%s",
		 p->peer ? p->peer : name->unit);
	printf("%-9s %-32s %-16s %10.4g %10.4g %-12s %6.3f [%.3f .. %.3f]  "
	       "%s\n", name->bench, name->what, name->variant, p->a.median,
	       p->b.median, unit, p->ratio.ratio, p->ratio.low, p->ratio.high,
	       words[p->verdict]);
}

/* Whether even the bound nearer to 1 is worse by @percent. */
static bool is_worse_by(double percent, const struct pair *p)
{
	if (p->verdict != WORSE)
		return false;
	if (more_is_better(p->name->unit))
		return p->ratio.high < 1 - percent / 100;
	return p->ratio.low > 1 + percent / 100;
}

/* Report figures that the second result lacks.  With @must they are a failure.
 * Returns an exit status. */
static int look_for_missing(const struct result *a, const struct result *b,
			    bool must)
{
	const struct name *first = NULL;
	const struct ran *ran;
	size_t missing = 0;
	int status = EXIT_OK;

	for (size_t i = a->n_figures; i--;) {
		if (same_as(b, &a->figures[i].name))
			continue;
		first = &a->figures[i].name;
		missing++;
	}
	for (ran = a->ran; must && ran < a->ran + a->n_ran; ran++)
		if (has_ended(a, ran->bench) && !has_ended(b, ran->bench))
			status = failed("%s did not run to its end in the "
					"second", ran->bench);
	printf(missing ? ", %zu in the first only\n" : "\n", missing);
	if (!must || !missing)
		return status;
	return failed("%zu figures are in the first only; one is %s, %s, %s, "
		      "in %s", missing, first->bench, first->what,
		      first->variant, first->unit);
}

int compare(const struct result *a, const struct result *b, double worse)
{
	size_t n[N_VERDICTS] = { 0 }, too_bad = 0;
	const struct figure *f, *other;
	struct pair pair;
	int status;

	printf("%-9s %-32s %-16s %10s %10s %-12s %6s\n", "bench", "case",
	       "variant", "before", "after", "unit", "ratio");
	for (f = a->figures; f < a->figures + a->n_figures; f++) {
		other = same_as(b, &f->name);
		if (!other)
			continue;
		make_pair(&pair, a, f, b, other);
		n[pair.verdict]++;
		too_bad += is_worse_by(worse, &pair);
		show(&pair);
	}
	printf("%zu better, %zu worse, %zu without a difference that could be "
	       "seen, %zu not judged", n[BETTER], n[WORSE], n[SAME],
	       n[UNSURE]);
	status = look_for_missing(a, b, worse >= 0);
	if (worse >= 0 && too_bad)
		return failed("%zu figures are worse by more than %g %%",
			      too_bad, worse);
	return status;
}
