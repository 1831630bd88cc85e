/* SPDX-License-Identifier: BSD-3-Clause */

/* Figures, goals, and how they are shown: see bench.h. */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/bench.h"

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double bench_median_of(const double *sample, int n)
{
	double sorted[BENCH_SAMPLES_MAX];

	if (n < 1)
		return NAN;
	memcpy(sorted, sample, (size_t)n * sizeof(*sample));
	qsort(sorted, (size_t)n, sizeof(*sorted), by_value);
	return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

static const struct bench_figure *find(const struct bench *b, const char *what,
				       const char *variant, const char *unit)
{
	const struct bench_figure *f;

	for (int i = 0; i < b->n_figures; i++) {
		f = &b->figures[i];
		if (!strcmp(f->what, what) && !strcmp(f->variant, variant) &&
		    (!unit || !strcmp(f->unit, unit)))
			return f;
	}
	return NULL;
}

static void copy_text(char *to, size_t size, const char *from)
{
	snprintf(to, size, "%s", from);
}

void bench_add(struct bench *b, const char *what, const char *variant,
	       const char *unit, double value)
{
	struct bench_figure *f;

	if (!isfinite(value))
		return;
	f = (struct bench_figure *)find(b, what, variant, unit);
	if (!f) {
		if (b->n_figures == BENCH_FIGURES_MAX)
			bench_die("figures", ENOSPC);
		f = &b->figures[b->n_figures++];
		copy_text(f->what, sizeof(f->what), what);
		copy_text(f->variant, sizeof(f->variant), variant);
		copy_text(f->unit, sizeof(f->unit), unit);
	}
	if (f->n < BENCH_SAMPLES_MAX)
		f->sample[f->n++] = value;
}

double bench_median(const struct bench *b, const char *what,
		    const char *variant, const char *unit)
{
	const struct bench_figure *f = find(b, what, variant, unit);

	return f ? bench_median_of(f->sample, f->n) : NAN;
}

/* The median of the ratios within repetitions: what they shared cancels. */
double bench_ratio_of(const struct bench_figure *f,
		       const struct bench_figure *other)
{
	double r[BENCH_SAMPLES_MAX];

	if (f->n != other->n)
		return bench_median_of(f->sample, f->n) /
		       bench_median_of(other->sample, other->n);
	for (int i = 0; i < f->n; i++)
		r[i] = f->sample[i] / other->sample[i];
	return bench_median_of(r, f->n);
}

static bool is_worse(const struct bench_goal *g, double figure)
{
	return g->kind == BENCH_AT_MOST ? figure > g->figure
					: figure < g->figure;
}

static struct bench_goal *goal_of(struct bench *b, const char *text)
{
	for (int i = 0; i < b->n_goals; i++)
		if (!strcmp(b->goals[i].text, text))
			return &b->goals[i];
	if (b->n_goals == BENCH_GOALS_MAX)
		bench_die("goals", ENOSPC);
	copy_text(b->goals[b->n_goals].text, sizeof(b->goals[0].text), text);
	b->goals[b->n_goals].figure = NAN;
	return &b->goals[b->n_goals++];
}

void bench_goal(struct bench *b, const char *text, const char *what,
		const char *variant, const char *other,
		enum bench_bound kind, double bound)
{
	const struct bench_figure *f = find(b, what, variant, NULL);
	const struct bench_figure *o = other ? find(b, what, other, NULL) : f;
	struct bench_goal *g = goal_of(b, text);
	double figure = NAN;

	g->kind = kind;
	g->bound = bound;
	if (f && o)
		figure = other ? bench_ratio_of(f, o)
			       : bench_median_of(f->sample, f->n);
	/* Not measured, or to nothing at all: any other case says more. */
	if (!isfinite(figure)) {
		if (g->where[0])
			return;
	} else if (isfinite(g->figure) && !is_worse(g, figure)) {
		return;
	}
	g->figure = isfinite(figure) ? figure : NAN;
	snprintf(g->where, sizeof(g->where), "%s, %s%s%s", what, variant,
		 other ? " / " : "", other ? other : "");
}

bool bench_is_met(const struct bench_goal *g)
{
	return g->kind == BENCH_AT_MOST ? g->figure <= g->bound
					: g->figure >= g->bound;
}

/* The variant of the same case and unit that others are compared with. */
const struct bench_figure *bench_reference_of(const struct bench *b,
					       const struct bench_figure *f)
{
	const struct bench_figure *ref = NULL;

	if (b->reference)
		ref = find(b, f->what, b->reference, f->unit);
	for (int i = 0; !ref && i < b->n_figures; i++)
		if (!strcmp(b->figures[i].what, f->what) &&
		    !strcmp(b->figures[i].unit, f->unit))
			ref = &b->figures[i];
	return ref;
}

static void show_value(char *text, size_t size, double v)
{
	int digits = v >= 1000 ? 0 : v >= 100 ? 1 : v >= 1 ? 2 : 3;

	snprintf(text, size, "%.*f", digits, v);
}

static void table_line(const struct bench *b, const struct bench_figure *f)
{
	const struct bench_figure *ref = bench_reference_of(b, f);
	char mid[32], low[32], high[32];
	double lo = f->sample[0], hi = f->sample[0];

	for (int i = 1; i < f->n; i++) {
		lo = fmin(lo, f->sample[i]);
		hi = fmax(hi, f->sample[i]);
	}
	show_value(mid, sizeof(mid), bench_median_of(f->sample, f->n));
	show_value(low, sizeof(low), lo);
	show_value(high, sizeof(high), hi);
	printf("%-30s %-16s %10s %-8s [%s .. %s]", f->what, f->variant, mid,
	       f->unit, low, high);
	/* To nothing at all there is none. */
	if (ref && ref != f && isfinite(bench_ratio_of(f, ref)))
		printf("  %.2f x %s", bench_ratio_of(f, ref), ref->variant);
	printf("\n");
}

double bench_load_average(void)
{
	double load = 0;

	return getloadavg(&load, 1) == 1 ? load : 0;
}

double bench_noise_of(const struct bench *b)
{
	return b->wall_sum > 0 ? b->noise_sum / b->wall_sum : 0;
}

static void write_json(const struct bench *b)
{
	FILE *out = fopen(b->json_path, "a");

	if (!out)
		bench_die(b->json_path, errno);
	bench_write_peers(out);
	bench_write_json(b, out);
	if (fclose(out))
		bench_die(b->json_path, errno);
}

static void latency_line(const struct bench_latency *l)
{
	const struct bench_hist *h = l->kept;

	printf("%-30s %-16s %9.1f %9.1f %9.1f %9.1f %9.1f us\n", l->what,
	       l->variant, bench_hist_quantile(h, 0.5) / 1e3,
	       bench_hist_quantile(h, 0.99) / 1e3,
	       bench_hist_quantile(h, 0.999) / 1e3,
	       bench_hist_quantile(h, 0.9999) / 1e3, (double)h->max / 1e3);
}

static void latency_table(const struct bench *b)
{
	if (!b->n_latencies)
		return;
	printf("%-47s %9s %9s %9s %9s %9s\n", "latency", "p50", "p99", "p99.9",
	       "p99.99", "max");
	for (int i = 0; i < b->n_latencies; i++)
		if (b->latencies[i].kept->n)
			latency_line(&b->latencies[i]);
}

static void free_latencies(struct bench *b)
{
	for (int i = 0; i < b->n_latencies; i++) {
		free(b->latencies[i].now);
		free(b->latencies[i].kept);
	}
	b->n_latencies = 0;
}

static int most_samples(const struct bench *b)
{
	int n = 0;

	for (int i = 0; i < b->n_figures; i++)
		n = b->figures[i].n > n ? b->figures[i].n : n;
	return n;
}

int bench_done(struct bench *b)
{
	const struct bench_goal *g;
	char figure[32];

	printf("\n%s: median [min .. max] of %d; others used %.2f CPUs, "
	       "load average %.2f\n", b->name, most_samples(b),
	       bench_noise_of(b), bench_load_average());
	if (b->n_noisy)
		printf("%d repetitions were disturbed by others\n",
		       b->n_noisy);
	for (int i = 0; i < b->n_figures; i++)
		if (b->figures[i].n)
			table_line(b, &b->figures[i]);
	latency_table(b);
	for (int i = 0; i < b->n_goals; i++) {
		g = &b->goals[i];
		if (isfinite(g->figure))
			snprintf(figure, sizeof(figure), "%.2f", g->figure);
		else
			strcpy(figure, "-");
		printf("goal: %-56s %8s  %s  (%s)\n", g->text, figure,
		       !isfinite(g->figure) ? "not measured" :
		       bench_is_met(g) ? "met" : "NOT MET", g->where);
	}
	if (b->json_path)
		write_json(b);
	free_latencies(b);
	return 0;
}
