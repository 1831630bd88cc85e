/* SPDX-License-Identifier: BSD-3-Clause */

/* A result as a page of Markdown, made from the figures alone.  Reasons for
 * missed goals are in another page, which is linked. */

#include <ctype.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "tool.h"

/* A cell of a table.  A bar would end the cell, so it is escaped. */
static void text(FILE *f, const char *s)
{
	for (; *s; s++) {
		if (*s == '|' || *s == '<' || *s == '\\')
			putc('\\', f);
		putc(*s, f);
	}
}

static void facts(FILE *f, const char *head, const struct fact *facts, size_t n)
{
	if (!n)
		return;
	fputs(head, f);
	for (size_t i = 0; i < n; i++) {
		fputs("| ", f);
		text(f, facts[i].key);
		fputs(" | ", f);
		text(f, facts[i].value);
		fputs(" |\n", f);
	}
}

static bool has_figures(const struct result *r, const char *bench)
{
	for (size_t i = 0; i < r->n_figures; i++)
		if (!strcmp(r->figures[i].name.bench, bench))
			return true;
	return false;
}

/* The notes of @bench about its figures, or why it has none. */
static void notes(FILE *f, const struct result *r, const char *bench)
{
	for (size_t i = 0; i < r->n_notes; i++) {
		if (strcmp(r->notes[i].bench, bench))
			continue;
		fputs("  Note: ", f);
		text(f, r->notes[i].text);
		putc('.', f);
	}
}

/* Notes about values that were not measured. */
static void gaps(FILE *f, const struct result *r)
{
	bool begun = false, ended;

	for (size_t i = 0; i < r->n_ran; i++) {
		ended = has_ended(r, r->ran[i].bench);
		if (ended && has_figures(r, r->ran[i].bench))
			continue;
		if (!begun)
			fputs("\n## Not measured\n\n| benchmark | what happened "
			      "|\n|---|---|\n", f);
		begun = true;
		fprintf(f, "| %s | ", r->ran[i].bench);
		text(f, ended ? "measured nothing." : r->ran[i].ended);
		notes(f, r, r->ran[i].bench);
		fputs(" |\n", f);
	}
	facts(f, "\n## Peers that are not installed\n\n| peer | Debian package "
	      "|\n|---|---|\n", r->missing, r->n_missing);
}

static void verdict(FILE *f, const struct goal *g, const char *reasons)
{
	if (!isfinite(g->figure))
		fputs("not measured", f);
	else if (g->met)
		fputs("yes", f);
	else if (reasons)
		fprintf(f, "**no**, [why](%s#%s)", reasons, g->bench);
	else
		fputs("**no**", f);
}

static void goals(FILE *f, const struct result *r, const char *reasons)
{
	size_t met = 0, unknown = 0;

	if (!r->n_goals)
		return;
	for (size_t i = 0; i < r->n_goals; i++) {
		met += r->goals[i].met;
		unknown += !isfinite(r->goals[i].figure);
	}
	fprintf(f, "\n## Goals\n\n%zu of %zu are met, %zu are not measured.  "
		"Where a goal has several cases, the worst is shown.\n\n"
		"| of | goal | bound | figure | met | where |\n"
		"|---|---|---|---|---|---|\n", met, r->n_goals, unknown);
	for (size_t i = 0; i < r->n_goals; i++) {
		const struct goal *g = &r->goals[i];

		fprintf(f, "| [%s](#%s) | ", g->bench, g->bench);
		text(f, g->text);
		fprintf(f, " | %s %.4g | ",
			g->at_most ? "at most" : "at least", g->bound);
		if (isfinite(g->figure))
			fprintf(f, "%.4g", g->figure);
		fputs(" | ", f);
		verdict(f, g, reasons);
		fputs(" | ", f);
		text(f, g->where);
		fputs(" |\n", f);
	}
}

/* @n: the number of samples of the other figures. */
static void figure(FILE *f, const struct figure *fig, size_t n)
{
	fputs("| ", f);
	text(f, fig->name.what);
	fputs(" | ", f);
	text(f, fig->name.variant);
	fprintf(f, " | %.4g ", fig->median);
	text(f, fig->name.unit);
	fprintf(f, " | %.4g .. %.4g", fig->min, fig->max);
	if (fig->n != n)
		fprintf(f, " (of %zu)", fig->n);
	fputs(" | ", f);
	if (isfinite(fig->ratio)) {
		fprintf(f, "%.3g x ", fig->ratio);
		text(f, fig->ratio_to);
	}
	fputs(" |\n", f);
}

static void figures(FILE *f, const struct result *r, const char *bench)
{
	double others = 0, noisy = 0;
	size_t n = 0;

	for (size_t i = 0; i < r->n_figures; i++)
		if (!strcmp(r->figures[i].name.bench, bench)) {
			others = fmax(others, r->figures[i].others);
			noisy = fmax(noisy, r->figures[i].n_noisy);
			n = n > r->figures[i].n ? n : r->figures[i].n;
		}
	fprintf(f, "Medians of %zu where no other number stands; others used "
		"%.2f CPUs meanwhile", n, others);
	if (noisy > 0)
		fprintf(f, ", and disturbed %.0f repetitions", noisy);
	putc('.', f);
	notes(f, r, bench);
	fputs("\n\n| case | variant | median | spread | beside |\n"
	      "|---|---|---|---|---|\n", f);
	for (size_t i = 0; i < r->n_figures; i++)
		if (!strcmp(r->figures[i].name.bench, bench))
			figure(f, &r->figures[i], n);
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

/* The directory of the plots, relative to the page; no format: there are
 * none. */
struct plots {
	char dir[PATH_MAX];
	const char *format;
};

static void plot(FILE *f, const struct result *r, const char *bench,
		 const struct plots *plots)
{
	char path[PATH_MAX];

	if (!plots->format || !plot_panels(r, bench))
		return;
	file_name(path, sizeof(path), plots->dir, "bench", bench,
		  plots->format);
	fputs("\n![", f);
	text(f, bench);
	fprintf(f, "](%s)\n", path);
}

static void section(FILE *f, const struct result *r, const char *bench,
		    const struct plots *plots)
{
	const struct program *p = find_program(bench);

	fputs("\n## ", f);
	text(f, bench);
	fputs("\n\n", f);
	if (p) {
		fprintf(f, "%c%s; beside %s.\n",
			toupper((unsigned char)p->measures[0]),
			p->measures + 1, p->beside);
	}
	figures(f, r, bench);
	latencies(f, r, bench);
	plot(f, r, bench, plots);
}

/* @path without links and "..", and with a slash at the end. */
static bool real_dir(char to[PATH_MAX + 1], const char *path)
{
	if (!realpath(path, to))
		return false;
	if (to[strlen(to) - 1] != '/')
		strcat(to, "/");
	return true;
}

/* The path of @dir relative to the directory of the file @page, as links need
 * it. */
static void seen_from(char to[PATH_MAX], const char *page, const char *dir)
{
	char home[PATH_MAX + 1], there[PATH_MAX + 1], parent[PATH_MAX];
	const char *slash = strrchr(page, '/');
	size_t same = 0, n = 0;

	snprintf(to, PATH_MAX, "%s", dir);
	snprintf(parent, sizeof(parent), "%.*s",
		 slash ? (int)(slash - page) + 1 : 1, slash ? page : ".");
	if (!real_dir(home, parent) || !real_dir(there, dir))
		return;
	for (size_t i = 0; home[i] && home[i] == there[i]; i++)
		if (home[i] == '/')
			same = i + 1;
	for (const char *p = home + same; *p && n + 4 < PATH_MAX; p++)
		if (*p == '/')
			n += (size_t)sprintf(to + n, "../");
	snprintf(to + n, PATH_MAX - n, "%s", there[same] ? there + same : "./");
	to[strlen(to) - 1] = '\0';	/* The slash. */
}

static double minutes(const struct result *r)
{
	double seconds = 0;

	for (size_t i = 0; i < r->n_ran; i++)
		seconds += r->ran[i].seconds;
	return seconds / 60;
}

int write_report(const struct result *r, const char *path, const char *dir,
		 const char *format, const char *reasons)
{
	struct plots plots = { .format = dir ? format : NULL };
	FILE *f = open_output(path);

	if (!f)
		return EXIT_FAILED;
	if (dir)
		seen_from(plots.dir, path, dir);
	fprintf(f, "# Performance\n\nMade by `weir bench` from one run of %.0f "
		"minutes; nothing here is typed by hand.  Both sides of each "
		"ratio ran in turns in that run.  A time is this machine's; a "
		"ratio says more.\n\n", minutes(r));
	facts(f, "## Where, and which versions\n\n| | |\n|---|---|\n", r->facts,
	      r->n_facts);
	gaps(f, r);
	goals(f, r, reasons);
	for (size_t i = 0; i < r->n_figures; i++)
		if (is_first_figure(r, i, false))
			section(f, r, r->figures[i].name.bench, &plots);
	return close_output(f, path);
}

void show_goals(const struct result *r)
{
	const struct goal *g;
	char figure[32];

	if (!r->n_goals)
		return;
	printf("\n%-56s %10s %10s  %s\n", "Goal", "bound", "figure", "met");
	for (g = r->goals; g < r->goals + r->n_goals; g++) {
		if (isfinite(g->figure))
			snprintf(figure, sizeof(figure), "%.3g", g->figure);
		else
			strcpy(figure, "-");
		printf("%-56s %s %7.3g %10s  %s\n", g->text,
		       g->at_most ? "<=" : ">=", g->bound, figure,
		       !isfinite(g->figure) ? "not measured" :
		       g->met ? "yes" : "NO");
	}
}
