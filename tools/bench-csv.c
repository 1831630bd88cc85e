/* SPDX-License-Identifier: BSD-3-Clause */

/* Results as files for other programs: CSV, and HdrHistogram's text. */

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>

#include "bench.h"
#include "tool.h"

FILE *open_output(const char *path)
{
	FILE *f = strcmp(path, "-") ? fopen(path, "we") : stdout;

	if (!f)
		failed("cannot write %s: %s", path, strerror(errno));
	return f;
}

FILE *open_in(char path[PATH_MAX], const char *dir, const char *name, ...)
{
	int at = snprintf(path, PATH_MAX, "%s/", dir), n = 0;
	va_list ap;

	va_start(ap, name);
	if (at < PATH_MAX)
		n = vsnprintf(path + at, (size_t)(PATH_MAX - at), name, ap);
	va_end(ap);
	if (at + n < PATH_MAX)
		return open_output(path);
	failed("cannot write into %s: the name is too long", dir);
	return NULL;
}

int close_output(FILE *f, const char *path)
{
	int bad = ferror(f);

	errno = 0;
	if (f == stdout)
		return EXIT_OK;	/* The caller looks at it. */
	if (fclose(f) || bad)
		return failed("cannot write %s: %s", path,
			      errno ? strerror(errno) : "a write failed");
	return EXIT_OK;
}

int make_dir(const char *path)
{
	if (mkdir(path, 0777) && errno != EEXIST)
		return failed("cannot make %s: %s", path, strerror(errno));
	return EXIT_OK;
}

static void csv_text(FILE *f, const char *text)
{
	putc('"', f);
	for (; *text; text++) {
		if (*text == '"')
			putc('"', f);
		putc(*text, f);
	}
	fputs("\",", f);
}

static void csv_name(FILE *f, const struct name *name)
{
	csv_text(f, name->bench);
	csv_text(f, name->what);
	csv_text(f, name->variant);
	csv_text(f, name->unit);
}

/* An empty field if there is no value. */
static void csv_number(FILE *f, double v, const char *end)
{
	if (isfinite(v))
		fprintf(f, "%.9g", v);
	fputs(end, f);
}

static void csv_figure(FILE *f, const struct figure *fig)
{
	csv_name(f, &fig->name);
	csv_number(f, fig->median, ",");
	csv_number(f, fig->min, ",");
	csv_number(f, fig->max, ",");
	csv_number(f, fig->n, ",");
	csv_text(f, fig->ratio_to);
	csv_number(f, fig->ratio, ",,,,,\n");
}

static void csv_latency(FILE *f, const struct latency *l)
{
	csv_name(f, &l->name);
	csv_number(f, l->point[P50], ",,");
	csv_number(f, l->max, ",");
	csv_number(f, l->count, ",\"\",,");
	for (int i = 0; i < N_POINTS; i++)
		csv_number(f, l->point[i], i + 1 < N_POINTS ? "," : "\n");
}

int write_csv(const struct result *r, const char *path)
{
	FILE *f = open_output(path);

	if (!f)
		return EXIT_FAILED;
	fputs("bench,case,variant,unit,median,min,max,n,ratio_to,ratio,"
	      "p50,p90,p99,p99.9,p99.99\n", f);
	for (size_t i = 0; i < r->n_figures; i++)
		csv_figure(f, &r->figures[i]);
	for (size_t i = 0; i < r->n_latencies; i++)
		csv_latency(f, &r->latencies[i]);
	return close_output(f, path);
}

/* The format that HdrHistogram's tools write and plot; microseconds. */
static void hdr(FILE *f, const struct latency *l)
{
	double seen = 0, share;

	fputs("       Value     Percentile TotalCount 1/(1-Percentile)\n\n", f);
	for (size_t i = 0; i < l->n; i++) {
		seen += l->counts[i];
		share = seen / l->count;
		fprintf(f, "%12.3f %2.12f %10.0f", l->value[i] / 1e3, share,
			seen);
		if (share < 1)
			fprintf(f, " %14.2f", 1 / (1 - share));
		putc('\n', f);
	}
	fprintf(f, "#[Mean    = %12.3f, StdDeviation   = %12.3f]\n",
		l->mean / 1e3, l->deviation / 1e3);
	fprintf(f, "#[Max     = %12.3f, Total count    = %12.0f]\n",
		l->max / 1e3, l->count);
	fprintf(f, "#[Buckets = %12d, SubBuckets     = %12d]\n", 57, 128);
}

/* The name of a file in @dir, without unsuitable characters of @name. */
static void hdr_name(char *to, size_t size, const char *dir,
		     const struct name *name)
{
	size_t at = (size_t)snprintf(to, size, "%s/", dir);

	if (at >= size)		/* It is cut off: no file can be there. */
		return;
	snprintf(to + at, size - at, "%s-%s-%s", name->bench, name->what,
		 name->variant);
	for (; to[at]; at++)
		if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789-+.",
			    to[at] | 0x20))
			to[at] = '-';
	snprintf(to + at, size - at, ".hgrm");
}

int write_hdr(const struct result *r, const char *dir)
{
	const struct latency *l;
	char path[4096];
	FILE *f;

	if (make_dir(dir))
		return EXIT_FAILED;
	for (l = r->latencies; l < r->latencies + r->n_latencies; l++) {
		hdr_name(path, sizeof(path), dir, &l->name);
		f = open_output(path);
		if (!f)
			return EXIT_FAILED;
		hdr(f, l);
		if (close_output(f, path))
			return EXIT_FAILED;
	}
	return EXIT_OK;
}
