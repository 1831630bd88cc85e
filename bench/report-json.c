/* SPDX-License-Identifier: BSD-3-Clause */

/* Figures, latencies and goals as lines of JSON: README.md has their form. */

#include <math.h>

#include "bench/bench.h"

static void json_name(const struct bench *b, FILE *out, const char *what,
		      const char *variant, const char *unit)
{
	fprintf(out, "{\"bench\":\"%s\",\"case\":\"%s\",\"variant\":\"%s\","
		"\"unit\":\"%s\",", b->name, what, variant, unit);
}

static void json_noise(const struct bench *b, FILE *out)
{
	fprintf(out, ",\"others_cpu\":%.3f,\"loadavg\":%.2f,\"n_noisy\":%d}\n",
		bench_noise_of(b), bench_load_average(), b->n_noisy);
}

static void json_figure(const struct bench *b, FILE *out,
			const struct bench_figure *f)
{
	const struct bench_figure *ref = bench_reference_of(b, f);
	double lo = f->sample[0], hi = f->sample[0];

	json_name(b, out, f->what, f->variant, f->unit);
	for (int i = 1; i < f->n; i++) {
		lo = fmin(lo, f->sample[i]);
		hi = fmax(hi, f->sample[i]);
	}
	fprintf(out, "\"median\":%.6g,\"min\":%.6g,\"max\":%.6g,\"n\":%d,",
		bench_median_of(f->sample, f->n), lo, hi, f->n);
	if (ref && ref != f && isfinite(bench_ratio_of(f, ref)))
		fprintf(out, "\"ratio_to\":\"%s\",\"ratio\":%.4g,",
			ref->variant, bench_ratio_of(f, ref));
	fputs("\"samples\":[", out);
	for (int i = 0; i < f->n; i++)
		fprintf(out, "%s%.6g", i ? "," : "", f->sample[i]);
	fputs("]", out);
	json_noise(b, out);
}

static void json_latency(const struct bench *b, FILE *out,
			 const struct bench_latency *l)
{
	json_name(b, out, l->what, l->variant, "ns");
	bench_hist_json(l->kept, out);
	json_noise(b, out);
}

static const char *bound_name(const struct bench_goal *g)
{
	return g->kind == BENCH_AT_MOST ? "at_most" : "at_least";
}

/* One that was not measured has no figure, and is neither met nor missed. */
static void json_goal(const struct bench *b, FILE *out,
		      const struct bench_goal *g)
{
	if (!isfinite(g->figure)) {
		fprintf(out, "{\"bench\":\"%s\",\"goal\":\"%s\","
			"\"where\":\"%s\",\"%s\":%g,\"figure\":null,"
			"\"met\":null}\n", b->name, g->text, g->where,
			bound_name(g), g->bound);
		return;
	}
	fprintf(out, "{\"bench\":\"%s\",\"goal\":\"%s\",\"where\":\"%s\","
		"\"%s\":%g,\"figure\":%.4g,\"met\":%s}\n", b->name, g->text,
		g->where, bound_name(g), g->bound, g->figure,
		bench_is_met(g) ? "true" : "false");
}

/* JSON would want some characters escaped. */
void bench_json_note(FILE *out, const char *bench, const char *note)
{
	fprintf(out, "{\"bench\":\"%s\",\"note\":\"", bench);
	for (; *note; note++)
		putc(*note == '"' || *note == '\\' || *note < ' ' ? '\''
								 : *note, out);
	fputs("\"}\n", out);
}

void bench_write_json(const struct bench *b, FILE *out)
{
	for (int i = 0; i < b->n_figures; i++)
		if (b->figures[i].n)
			json_figure(b, out, &b->figures[i]);
	for (int i = 0; i < b->n_latencies; i++)
		if (b->latencies[i].kept->n)
			json_latency(b, out, &b->latencies[i]);
	for (int i = 0; i < b->n_goals; i++)
		json_goal(b, out, &b->goals[i]);
}
