/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Plots, by gnuplot: for each program and unit the figures as bars, one group
 * for a case and one colour for a variant; for each case with latencies their
 * distribution, to the share that is above.
 */

#define _GNU_SOURCE 1
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "bench.h"
#include "tool.h"

#define SERIES_MAX 32

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

/* Whatever a name holds, it cannot end the string. */
static void quote(FILE *f, const char *text)
{
	putc('"', f);
	for (; *text; text++)
		putc(strchr("\"\\`\n@$", *text) ? '_' : *text, f);
	putc('"', f);
}

static void begin(FILE *f, const char *path, const char *format)
{
	if (!strcmp(format, "png"))
		fputs("set terminal png size 1000,500 noenhanced\n", f);
	else
		fputs("set terminal svg size 1000,500 dynamic noenhanced "
		      "background rgb 'white'\n", f);
	fputs("set output ", f);
	quote(f, path);
	fputs("\nset grid ytics\nset key outside right top\n", f);
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
	if (high >= low)
		fprintf(f, "set yrange [%g:%g]\n", low / 2, high * 2);
	bars_data(f, r, name, &cases, &variants);
	fputs("set style data histogram\n"
	      "set style histogram errorbars gap 1 lw 1\n"
	      "set style fill solid 0.7 border -1\n"
	      "set xtics rotate by -30\nset logscale y\nset ylabel ", f);
	quote(f, name->unit);
	fputs("\nset title ", f);
	quote(f, name->bench);
	fputs("\nplot ", f);
	for (size_t k = 0; k < variants.n; k++) {
		fprintf(f, "%s$data using %zu:%zu:%zu%s title ", k ? ", " : "",
			3 * k + 2, 3 * k + 3, 3 * k + 4,
			k ? "" : ":xtic(1)");
		quote(f, variants.name[k]);
	}
	fputs("\nreset\nunset output\n", f);
}

static bool is_case(const struct latency *l, const struct name *name)
{
	return !strcmp(l->name.bench, name->bench) &&
	       !strcmp(l->name.what, name->what);
}

static void curve_data(FILE *f, const struct latency *l, size_t i)
{
	double seen = 0;

	fprintf(f, "$d%zu << EOD\n", i);
	for (size_t k = 0; k < l->n && seen < l->count; k++) {
		fprintf(f, "%.9g %.9g\n", l->count / (l->count - seen),
			l->value[k] / 1e3);
		seen += l->counts[k];
	}
	fputs("EOD\n", f);
}

static void curves(FILE *f, const struct result *r, const struct name *name)
{
	const char *comma = "";

	for (size_t i = 0; i < r->n_latencies; i++)
		if (is_case(&r->latencies[i], name))
			curve_data(f, &r->latencies[i], i);
	fputs("set logscale xy\nset ylabel \"us\"\nset xlabel \"share below\"\n"
	      "set xtics (\"0\" 1, \"90 %%\" 10, \"99 %%\" 100, "
	      "\"99.9 %%\" 1e3, \"99.99 %%\" 1e4, \"99.999 %%\" 1e5)\nset title ", f);
	quote(f, name->what);
	fputs("\nplot ", f);
	for (size_t i = 0; i < r->n_latencies; i++) {
		if (!is_case(&r->latencies[i], name))
			continue;
		fprintf(f, "%s$d%zu with steps title ", comma, i);
		quote(f, r->latencies[i].name.variant);
		comma = ", ";
	}
	fputs("\nreset\nunset output\n", f);
}

static bool is_first_case(const struct result *r, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (is_case(&r->latencies[k], &r->latencies[i].name))
			return false;
	return true;
}

static void all_plots(FILE *f, const struct result *r, const char *dir,
		      const char *format)
{
	char path[4096], what[128];

	for (size_t i = 0; i < r->n_figures; i++) {
		if (!is_first_figure(r, i, true))
			continue;
		file_name(path, sizeof(path), dir, r->figures[i].name.bench,
			  r->figures[i].name.unit, format);
		begin(f, path, format);
		bars(f, r, &r->figures[i].name);
	}
	for (size_t i = 0; i < r->n_latencies; i++) {
		if (!is_first_case(r, i))
			continue;
		snprintf(what, sizeof(what), "latency-%s",
			 r->latencies[i].name.what);
		file_name(path, sizeof(path), dir, r->latencies[i].name.bench,
			  what, format);
		begin(f, path, format);
		curves(f, r, &r->latencies[i].name);
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
