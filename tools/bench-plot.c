/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Plots, by gnuplot, a file for each program.  For each unit there is a panel
 * with the figures as bars: a group for each case and a colour for each
 * variant.  For each case with latencies there is a panel with their
 * distribution.  A unit with one variant, or without a figure above 0, gets no
 * panel.
 */

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "bench.h"
#include "tool.h"

#define SERIES_MAX 32
#define WIDTH 1000
#define PANEL 380	/* Its height; names of cases take a third. */
#define STEP 1.08	/* Points of a curve are at least so far apart. */

struct series {
	const char *name[SERIES_MAX];
	size_t n;
};

static void add_once(struct series *s, const char *name)
{
	for (size_t i = 0; i < s->n; i++)
		if (!strcmp(s->name[i], name))
			return;
	if (s->n < SERIES_MAX)
		s->name[s->n++] = name;
}

/* Quote @name so that no character in it ends the string. */
static void quote(FILE *f, const char *text)
{
	putc('"', f);
	for (; *text; text++)
		putc(strchr("\"\\`\n@$", *text) ? '_' : *text, f);
	putc('"', f);
}

static void begin(FILE *f, const char *path, const char *format, size_t panels)
{
	bool png = !strcmp(format, "png");

	fprintf(f, "set terminal %s size %d,%zu noenhanced %s\nset output ",
		png ? "png" : "svg", WIDTH, PANEL * panels,
		png ? "" : "dynamic background rgb 'white'");
	quote(f, path);
	/* gnuplot has only eight colours of its own. */
	fprintf(f, "\nset linetype 9 lc rgb '#8c564b'\n"
		"set linetype 10 lc rgb '#7f7f7f'\n"
		"set linetype 11 lc rgb '#bcbd22'\n"
		"set linetype 12 lc rgb '#1f4e79'\nset linetype cycle 12\n"
		"set multiplot layout %zu,1\n", panels);
}

/* Likewise for one of them. */
static void begin_panel(FILE *f, const char *title)
{
	fputs("reset\nset grid ytics\nset key outside right top Left reverse\n"
	      "set rmargin 24\nset title ", f);
	quote(f, title);
	putc('\n', f);
}

static bool is_of(const struct figure *f, const struct name *name)
{
	return !strcmp(f->name.bench, name->bench) &&
	       !strcmp(f->name.unit, name->unit);
}

static void cell(FILE *f, const struct result *r, const struct name *name,
		 const char *what, const char *variant)
{
	const struct figure *fig;

	for (fig = r->figures; fig < r->figures + r->n_figures; fig++) {
		if (!is_of(fig, name) || strcmp(fig->name.what, what) ||
		    strcmp(fig->name.variant, variant))
			continue;
		fprintf(f, " %.9g %.9g %.9g", fig->median, fig->min, fig->max);
		return;
	}
	fputs(" NaN NaN NaN", f);
}

static void bars_data(FILE *f, const struct result *r, const struct name *name,
		      const struct series *cases, const struct series *variants)
{
	fputs("$data << EOD\n", f);
	for (size_t i = 0; i < cases->n; i++) {
		quote(f, cases->name[i]);
		for (size_t k = 0; k < variants->n; k++)
			cell(f, r, name, cases->name[i], variants->name[k]);
		putc('\n', f);
	}
	fputs("EOD\n", f);
}

static void bars(FILE *f, const struct result *r, const struct name *name)
{
	struct series cases = { .n = 0 }, variants = { .n = 0 };
	const struct figure *fig;
	double low = INFINITY, high = 0;

	for (fig = r->figures; fig < r->figures + r->n_figures; fig++) {
		if (!is_of(fig, name))
			continue;
		add_once(&cases, fig->name.what);
		add_once(&variants, fig->name.variant);
		if (fig->min > 0)
			low = fmin(low, fig->min);
		high = fmax(high, fig->max);
	}
	begin_panel(f, name->unit);
	if (high >= low)
		fprintf(f, "set yrange [%g:%g]\n", low / 2, high * 2);
	bars_data(f, r, name, &cases, &variants);
	fputs("set style data histogram\n"
	      "set style histogram errorbars gap 1 lw 1\n"
	      "set style fill solid 0.7 border -1\n"
	      "set xtics rotate by -25 font ',9'\nset logscale y\nplot ", f);
	for (size_t k = 0; k < variants.n; k++) {
		fprintf(f, "%s$data using %zu:%zu:%zu%s title ", k ? ", " : "",
			3 * k + 2, 3 * k + 3, 3 * k + 4,
			k ? "" : ":xtic(1)");
		quote(f, variants.name[k]);
	}
	putc('\n', f);
}

static bool is_case(const struct latency *l, const struct name *name)
{
	return !strcmp(l->name.bench, name->bench) &&
	       !strcmp(l->name.what, name->what);
}

static void curve_data(FILE *f, const struct latency *l, size_t i)
{
	double seen = 0, x, last = 0;

	fprintf(f, "$d%zu << EOD\n", i);
	for (size_t k = 0; k < l->n && seen < l->count; k++) {
		x = l->count / (l->count - seen);
		seen += l->counts[k];
		if (x < last * STEP && k + 1 < l->n)
			continue;
		fprintf(f, "%.4g %.4g\n", x, l->value[k] / 1e3);
		last = x;
	}
	fputs("EOD\n", f);
}

static void curves(FILE *f, const struct result *r, const struct name *name)
{
	const char *comma = "";

	begin_panel(f, name->what);
	for (size_t i = 0; i < r->n_latencies; i++)
		if (is_case(&r->latencies[i], name))
			curve_data(f, &r->latencies[i], i);
	fputs("set logscale xy\nset ylabel \"us\"\nset xlabel \"share below\"\n"
	      "set xtics (\"0\" 1, \"90 %%\" 10, \"99 %%\" 100, "
	      "\"99.9 %%\" 1e3, \"99.99 %%\" 1e4, \"99.999 %%\" 1e5)\nplot ", f);
	for (size_t i = 0; i < r->n_latencies; i++) {
		if (!is_case(&r->latencies[i], name))
			continue;
		fprintf(f, "%s$d%zu with steps lw 2 title ", comma, i);
		quote(f, r->latencies[i].name.variant);
		comma = ", ";
	}
	putc('\n', f);
}

/* Whether these are the first latencies of a case of @bench. */
static bool begins_curves(const struct result *r, size_t i, const char *bench)
{
	const struct name *name = &r->latencies[i].name;

	if (strcmp(name->bench, bench))
		return false;
	for (size_t k = 0; k < i; k++)
		if (is_case(&r->latencies[k], name))
			return false;
	return true;
}

/* Whether another variant has a figure of this unit, and one figure is above 0,
 * as a logarithmic scale needs. */
static bool can_compare(const struct result *r, const struct figure *first)
{
	bool another = false, above = false;
	const struct figure *f;

	for (f = first; f < r->figures + r->n_figures; f++) {
		if (!is_of(f, &first->name))
			continue;
		another |= strcmp(f->name.variant, first->name.variant) != 0;
		above |= f->median > 0;
	}
	return another && above;
}

/* Whether this is the first figure of a unit of @bench that has a panel. */
static bool begins_bars(const struct result *r, size_t i, const char *bench)
{
	return !strcmp(r->figures[i].name.bench, bench) &&
	       is_first_figure(r, i, true) && can_compare(r, &r->figures[i]);
}

size_t plot_panels(const struct result *r, const char *bench)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n_figures; i++)
		n += begins_bars(r, i, bench);
	for (size_t i = 0; i < r->n_latencies; i++)
		n += begins_curves(r, i, bench);
	return n;
}

static void plot(FILE *f, const struct result *r, const char *bench,
		 const char *path, const char *format)
{
	begin(f, path, format, plot_panels(r, bench));
	for (size_t i = 0; i < r->n_figures; i++)
		if (begins_bars(r, i, bench))
			bars(f, r, &r->figures[i].name);
	for (size_t i = 0; i < r->n_latencies; i++)
		if (begins_curves(r, i, bench))
			curves(f, r, &r->latencies[i].name);
	fputs("unset multiplot\nunset output\n", f);
}

static void all_plots(FILE *f, const struct result *r, const char *dir,
		      const char *format)
{
	const char *bench;
	char path[4096];

	for (size_t i = 0; i < r->n_figures; i++) {
		bench = r->figures[i].name.bench;
		if (!is_first_figure(r, i, false) || !plot_panels(r, bench))
			continue;
		file_name(path, sizeof(path), dir, "bench", bench, format);
		plot(f, r, bench, path, format);
	}
}

int write_plots(const struct result *r, const char *dir, const char *format)
{
	FILE *f;
	int status;

	if (mkdir(dir, 0777) && errno != EEXIST)
		return failed("cannot make %s: %s", dir, strerror(errno));
	fflush(stdout);
	f = popen("command -v gnuplot >/dev/null || exit 127; exec gnuplot",
		  "we");
	if (!f)
		return failed("cannot run gnuplot: %s", strerror(errno));
	all_plots(f, r, dir, format);
	status = pclose(f);
	if (WEXITSTATUS(status) == 127)
		return failed("gnuplot is not installed (Debian: apt-get "
			      "install gnuplot-nox); no plots");
	return status ? failed("gnuplot failed; what it said is above")
		      : EXIT_OK;
}
