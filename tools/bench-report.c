/* SPDX-License-Identifier: BSD-3-Clause */

/* A result as a page to read: Markdown, made from the figures alone. */

#include <math.h>
#include <string.h>

#include "bench.h"
#include "tool.h"

/* A cell of a table: a bar would end it. */
static void text(FILE *f, const char *s)
{
	for (; *s; s++) {
		if (*s == '|' || *s == '<' || *s == '\\')
			putc('\\', f);
		putc(*s, f);
	}
}

static void machine(FILE *f, const struct result *r)
{
	fputs("## Where\n\n| | |\n|---|---|\n", f);
	for (size_t i = 0; i < r->n_facts; i++) {
		fputs("| ", f);
		text(f, r->facts[i].key);
		fputs(" | ", f);
		text(f, r->facts[i].value);
		fputs(" |\n", f);
	}
}

static void goals(FILE *f, const struct result *r)
{
	size_t met = 0;

	if (!r->n_goals)
		return;
	for (size_t i = 0; i < r->n_goals; i++)
		met += r->goals[i].met;
	fprintf(f, "\n## Goals\n\n%zu of %zu are met.  Where a goal has several "
		"cases, the worst is shown.\n\n"
		"| goal | bound | figure | met | where |\n"
		"|---|---|---|---|---|\n", met, r->n_goals);
	for (size_t i = 0; i < r->n_goals; i++) {
		const struct goal *g = &r->goals[i];

		fputs("| ", f);
		text(f, g->text);
		fprintf(f, " | %s %.4g | %.4g | %s | ",
			g->at_most ? "at most" : "at least", g->bound,
			g->figure, g->met ? "yes" : "**no**");
		text(f, g->where);
		fputs(" |\n", f);
	}
}

static void figure(FILE *f, const struct figure *fig)
{
	fputs("| ", f);
	text(f, fig->name.what);
	fputs(" | ", f);
	text(f, fig->name.variant);
	fprintf(f, " | %.4g %s | %.4g .. %.4g | ", fig->median,
		fig->name.unit, fig->min, fig->max);
	if (isfinite(fig->ratio)) {
		fprintf(f, "%.3g x ", fig->ratio);
		text(f, fig->ratio_to);
	}
	fputs(" |\n", f);
}

static void figures(FILE *f, const struct result *r, const char *bench)
{
	double others = 0;
	size_t n = 0;

	for (size_t i = 0; i < r->n_figures; i++)
		if (!strcmp(r->figures[i].name.bench, bench)) {
			others = fmax(others, r->figures[i].others);
			n = n > r->figures[i].n ? n : r->figures[i].n;
		}
	fprintf(f, "Medians of %zu; others used %.2f CPUs meanwhile.\n\n"
		"| case | variant | median | spread | beside |\n"
		"|---|---|---|---|---|\n", n, others);
	for (size_t i = 0; i < r->n_figures; i++)
		if (!strcmp(r->figures[i].name.bench, bench))
			figure(f, &r->figures[i]);
}

static void latency(FILE *f, const struct latency *l)
{
	fputs("| ", f);
	text(f, l->name.what);
	fputs(" | ", f);
	text(f, l->name.variant);
	for (int i = 0; i < N_POINTS; i++)
		fprintf(f, " | %.4g", l->point[i] / 1e3);
	fprintf(f, " | %.4g | %.0f |\n", l->max / 1e3, l->count);
}

static void latencies(FILE *f, const struct result *r, const char *bench)
{
	bool begun = false;

	for (size_t i = 0; i < r->n_latencies; i++) {
		if (strcmp(r->latencies[i].name.bench, bench))
			continue;
		if (!begun)
			fputs("\n| latency, us | variant | p50 | p90 | p99 | "
			      "p99.9 | p99.99 | max | of |\n"
			      "|---|---|---|---|---|---|---|---|---|\n", f);
		begun = true;
		latency(f, &r->latencies[i]);
	}
}

static void plots(FILE *f, const struct result *r, const char *bench,
		  const char *dir)
{
	char path[4096];

	for (size_t i = 0; i < r->n_figures; i++) {
		if (strcmp(r->figures[i].name.bench, bench) ||
		    !is_first_figure(r, i, true))
			continue;
		file_name(path, sizeof(path), dir, bench,
			  r->figures[i].name.unit, "svg");
		fprintf(f, "\n![%s, ", bench);
		text(f, r->figures[i].name.unit);
		fprintf(f, "](%s)\n", path);
	}
}

static void section(FILE *f, const struct result *r, const char *bench,
		    const char *dir)
{
	const struct program *p = find_program(bench);

	fprintf(f, "\n## %s\n\n", bench);
	if (p) {
		fprintf(f, "%c%s; beside %s.\n", p->measures[0] & ~0x20,
			p->measures + 1, p->beside);
	}
	figures(f, r, bench);
	latencies(f, r, bench);
	if (dir)
		plots(f, r, bench, dir);
}

/* @dir as it is called in the file @path: links begin where that is. */
static const char *seen_from(const char *path, const char *dir)
{
	const char *slash = strrchr(path, '/');
	size_t len = slash ? (size_t)(slash - path) + 1 : 0;

	return dir && !strncmp(path, dir, len) ? dir + len : dir;
}

int write_report(const struct result *r, const char *path, const char *dir)
{
	FILE *f = open_output(path);

	if (!f)
		return EXIT_FAILED;
	dir = seen_from(path, dir);
	fputs("# Performance\n\nMade by `weir bench` from one run; nothing here "
	      "is typed by hand.  Both sides of each ratio ran in turns in "
	      "that run.  A time is this machine's; a ratio says more.\n\n", f);
	machine(f, r);
	goals(f, r);
	for (size_t i = 0; i < r->n_figures; i++)
		if (is_first_figure(r, i, false))
			section(f, r, r->figures[i].name.bench, dir);
	return close_output(f, path);
}

void show_goals(const struct result *r)
{
	const struct goal *g;

	if (!r->n_goals)
		return;
	printf("\n%-56s %10s %10s  %s\n", "Goal", "bound", "figure", "met");
	for (g = r->goals; g < r->goals + r->n_goals; g++)
		printf("%-56s %s %7.3g %10.3g  %s\n", g->text,
		       g->at_most ? "<=" : ">=", g->bound, g->figure,
		       g->met ? "yes" : "NO");
}
