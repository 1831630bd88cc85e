/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * A result as a page of Markdown with pictures, and beside it a page with all
 * figures as tables.  Both are made from the figures alone.  Reasons for missed
 * goals are in another page, which is linked.
 */

#include <ctype.h>
#include <math.h>
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

static bool is_measured(const struct goal *g)
{
	return isfinite(g->figure);
}

static void goal_bound(FILE *f, const struct goal *g)
{
	fprintf(f, "%s %.4g", g->at_most ? "at most" : "at least", g->bound);
}

/* How many goals are met, of @bench or, if it is NULL, of all. */
static void count_goals(FILE *f, const struct result *r, const char *bench)
{
	size_t met = 0, unknown = 0, n = 0;

	for (size_t i = 0; i < r->n_goals; i++) {
		if (bench && strcmp(r->goals[i].bench, bench))
			continue;
		n++;
		met += r->goals[i].met;
		unknown += !is_measured(&r->goals[i]);
	}
	if (!n)
		return;
	fprintf(f, "%zu of %zu goals are met", met, n);
	if (unknown)
		fprintf(f, ", %zu are not measured", unknown);
	fputs(".\n", f);
}

/* The goals of @bench that are not met. */
static void missed(FILE *f, const struct result *r, const char *bench,
		   const char *reasons)
{
	const char *begin = "\n";

	for (size_t i = 0; i < r->n_goals; i++) {
		const struct goal *g = &r->goals[i];

		if (strcmp(g->bench, bench) || !is_measured(g) || g->met)
			continue;
		fprintf(f, "%s- missed: **", begin);
		text(f, g->text);
		fprintf(f, "**: %.4g, not ", g->figure);
		goal_bound(f, g);
		fputs(" (", f);
		text(f, g->where);
		putc(')', f);
		if (reasons)
			fprintf(f, ": [why](%s#%s)", reasons, bench);
		putc('\n', f);
		begin = "";
	}
}

static void goals(FILE *f, const struct result *r)
{
	if (!r->n_goals)
		return;
	fputs("\n## Goals\n\n", f);
	count_goals(f, r, NULL);
	fputs("Where a goal has several cases, the worst is shown.\n\n"
	      "| of | goal | bound | figure | met | where |\n"
	      "|---|---|---|---|---|---|\n", f);
	for (size_t i = 0; i < r->n_goals; i++) {
		const struct goal *g = &r->goals[i];

		fprintf(f, "| [%s](#%s) | ", g->bench, g->bench);
		text(f, g->text);
		fputs(" | ", f);
		goal_bound(f, g);
		fputs(" | ", f);
		if (is_measured(g))
			fprintf(f, "%.4g", g->figure);
		fprintf(f, " | %s | ", !is_measured(g) ? "not measured" :
			g->met ? "yes" : "**no**");
		text(f, g->where);
		fputs(" |\n", f);
	}
}

/* @n: the number of repetitions of the other figures. */
static void figure(FILE *f, const struct figure *fig, double n)
{
	fputs("| ", f);
	text(f, fig->name.what);
	fputs(" | ", f);
	text(f, fig->name.variant);
	fprintf(f, " | %.4g ", fig->median);
	text(f, fig->name.unit);
	fprintf(f, " | %.4g .. %.4g", fig->min, fig->max);
	if (fig->n != n)
		fprintf(f, " (of %.0f)", fig->n);
	fputs(" | ", f);
	if (isfinite(fig->ratio)) {
		fprintf(f, "%.3g x ", fig->ratio);
		text(f, fig->ratio_to);
	}
	fputs(" |\n", f);
}

static void figures(FILE *f, const struct result *r, const char *bench)
{
	double others = 0, noisy = 0, n = 0;

	for (size_t i = 0; i < r->n_figures; i++)
		if (!strcmp(r->figures[i].name.bench, bench)) {
			others = fmax(others, r->figures[i].others);
			noisy = fmax(noisy, r->figures[i].n_noisy);
			n = fmax(n, r->figures[i].n);
		}
	fprintf(f, "Medians of %.0f where no other number stands; others used "
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

static void heading(FILE *f, const char *bench)
{
	fputs("\n## ", f);
	text(f, bench);
	fputs("\n\n", f);
}

/* All figures and latencies of @bench. */
static void tables(FILE *f, const struct result *r, const char *bench)
{
	const struct program *p = find_program(bench);

	heading(f, bench);
	if (p)
		fprintf(f, "%c%s; beside %s.\n",
			toupper((unsigned char)p->measures[0]),
			p->measures + 1, p->beside);
	figures(f, r, bench);
	latencies(f, r, bench);
}

/* A cell, with the ratio of @weir to it if there is one. */
static void variant(FILE *f, const struct figure *fig, const struct figure *weir)
{
	fputs(" | ", f);
	if (!fig)
		return;
	text(f, fig->name.variant);
	fprintf(f, ": %.4g", fig->median);
	if (weir)
		fprintf(f, ", ratio %.3g", speed(weir->median, fig));
}

/* What the pictures of @p show, and a small table beside them. */
static void shown(FILE *f, const struct result *r, const struct program *p,
		  const char *dir)
{
	struct bench_case cases[CASES_MAX];
	size_t n = cases_of(r, p, cases);

	if (!n)
		return;
	fprintf(f, "%s\n\n![%s](%s/%s.svg)\n\n", p->question, p->question,
		dir, p->name);
	fputs("| case | weir | best peer | bare |\n|---|---|---|---|\n", f);
	for (size_t i = 0; i < n; i++) {
		fputs("| ", f);
		text(f, cases[i].name->what);
		fputs(", ", f);
		text(f, cases[i].name->unit);
		variant(f, cases[i].weir, NULL);
		variant(f, cases[i].peer, cases[i].weir);
		variant(f, cases[i].bare, cases[i].weir);
		fputs(" |\n", f);
	}
	if (has_curves(r, p))
		fprintf(f, "\n![latencies of %s](%s/%s-latency.svg)\n",
			p->curve, dir, p->name);
	putc('\n', f);
}

/* The programs that have no figures in @r. */
static void left_out(FILE *f, const struct result *r)
{
	const char *begin = "\nWithout figures: ";

	for (size_t i = 0; i < n_programs; i++) {
		if (has_figures(r, programs[i].name))
			continue;
		fprintf(f, "%s%s", begin, programs[i].name);
		begin = ", ";
	}
	if (*begin == ',')
		fputs(".\n", f);
}

static void page(FILE *f, const struct result *r, const char *dir,
		 const char *reasons)
{
	char machine[MACHINE_TEXT];
	const char *bench;

	machine_text(machine, r);
	fprintf(f, "# Performance\n\nMade by `weir bench` from one run; nothing "
		"here is typed by hand.  Both sides of each ratio ran in turns "
		"in that run.  A time is this machine's; a ratio says more.  "
		"In pictures and beside them, a ratio is that of two medians, "
		"and 2 is twice the rate, or half the cost; a goal's is the "
		"median of the ratios of all repetitions.\n\n"
		"The run: ");
	text(f, machine);
	fprintf(f, ".  [All figures](%s/figures.md) are in another page, with "
		"the machine and the versions of the peers.\n\n", dir);
	count_goals(f, r, NULL);
	fprintf(f, "\n![weir beside the best peer and the bare program]"
		"(%s/overview.svg)\n", dir);
	left_out(f, r);
	gaps(f, r);
	for (size_t i = 0; i < r->n_figures; i++) {
		if (!is_first_figure(r, i))
			continue;
		bench = r->figures[i].name.bench;
		heading(f, bench);
		if (find_program(bench))
			shown(f, r, find_program(bench), dir);
		count_goals(f, r, bench);
		missed(f, r, bench, reasons);
		fprintf(f, "\n[All figures of %s](%s/figures.md#%s)\n", bench,
			dir, bench);
	}
}

static int write_page(const struct result *r, const char *path, const char *dir,
		      const char *reasons)
{
	FILE *f = open_output(path);

	if (!f)
		return EXIT_FAILED;
	page(f, r, dir, reasons);
	return close_output(f, path);
}

/* @page: the name of the page without ".md". */
static int write_tables(const struct result *r, const char *dir,
			const char *page)
{
	char path[PATH_MAX];
	FILE *f = open_in(path, dir, "figures.md");

	if (!f)
		return EXIT_FAILED;
	fprintf(f, "# All figures\n\nThose of the run that [the page](../%s.md) "
		"shows.\n\n", page);
	facts(f, "## Where, and which versions\n\n| | |\n|---|---|\n", r->facts,
	      r->n_facts);
	goals(f, r);
	for (size_t i = 0; i < r->n_figures; i++)
		if (is_first_figure(r, i))
			tables(f, r, r->figures[i].name.bench);
	return close_output(f, path);
}

int write_report(const struct result *r, const char *path, const char *reasons)
{
	char dir[PATH_MAX], *page = dir;
	int status;

	snprintf(dir, sizeof(dir), "%.*s", (int)(strlen(path) - strlen(".md")),
		 path);
	if (strrchr(dir, '/'))
		page = strrchr(dir, '/') + 1;
	status = make_dir(dir);
	if (!status)
		status = write_pictures(r, dir);
	if (!status)
		status = write_tables(r, dir, page);
	if (!status)
		status = write_page(r, path, page, reasons);
	return status;
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
