/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Pictures of a result, as SVG: for each program its cases as bars, for some the
 * latencies of a case as curves, and an overview with a row for each program.
 * weir has one colour, the others are grey.  Bars are speeds, so longer is
 * better, on a linear axis.
 */

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "tool.h"

#define WIDTH 900
#define HEIGHT 700	/* No picture is higher. */
#define TOP 94		/* Below the title and the key. */
#define BOTTOM 22	/* The numbers of the axis. */
#define LEFT 190	/* Where bars begin, */
#define ROW_LEFT 320	/* and where those of the overview do. */
#define RIGHT 740	/* Where the longest end. */
#define CUT 3.		/* Longer bars are cut off. */
#define HEAD 22		/* The name of a case, */
#define STEP 13		/* and each bar below it. */
#define ROW 30		/* A row of the overview, */
#define ROW_MIN 25	/* and where there are many. */
#define BAR 9

/* Blue and orange differ for those who cannot tell red from green, too.  The
 * background is painted, because the page around it may have another. */
static const char style[] =
	"<style>\n"
	"text{fill:#1f2328}.dim{fill:#59636e}.page{fill:#fff}\n"
	".end{text-anchor:end}.mid{text-anchor:middle}.b{font-weight:bold}\n"
	".weir{fill:#0072b2}.peer{fill:#a3abb3}\n"
	".bare{fill:#fff;stroke:#6e7781}\n"
	"path{fill:none}.grid{stroke:#d8dee4}\n"
	".one,.spread{stroke:#1f2328}.goal{stroke:#d55e00;stroke-width:3}\n"
	".cut{stroke:#fff;stroke-width:3}\n"
	"polyline{stroke:#8c959f;stroke-width:2}\n"
	"polyline.weir{stroke:#0072b2;stroke-width:3}\n"
	"polyline.bare{stroke-dasharray:4 3}\n"
	"@media(prefers-color-scheme:dark){\n"
	"text{fill:#f0f6fc}.dim{fill:#9198a1}.page{fill:#0d1117}\n"
	".weir{fill:#3d96d6}.peer{fill:#656c76}\n"
	".bare{fill:#0d1117;stroke:#9198a1}\n"
	".grid{stroke:#2b323b}.one,.spread{stroke:#f0f6fc}\n"
	".goal{stroke:#e69f00}.cut{stroke:#0d1117}\n"
	"polyline{stroke:#7d8590}polyline.weir{stroke:#3d96d6}}\n"
	"</style>\n";

static const char *const classes[] = {
	[OURS] = "weir", [PEER] = "peer", [BARE] = "bare",
};

/* Text at a point.  What XML would take for its own is escaped. */
__attribute__((format(printf, 5, 6)))
static void text(FILE *f, double x, double y, const char *class,
		 const char *fmt, ...)
{
	char s[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(s, sizeof(s), fmt, ap);
	va_end(ap);
	fprintf(f, "<text class=\"%s\" x=\"%.1f\" y=\"%.1f\">", class, x, y);
	for (const char *p = s; *p; p++)
		if (strchr("<>&", *p))
			fprintf(f, "&#%d;", *p);
		else
			putc(*p & 0x80 ? '?' : *p, f);
	fputs("</text>\n", f);
}

static void line(FILE *f, const char *class, double x1, double y1, double x2,
		 double y2)
{
	fprintf(f, "<path class=\"%s\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", class,
		x1, y1, x2, y2);
}

static void box(FILE *f, const char *class, double x, double y, double width)
{
	fprintf(f, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" "
		"height=\"%d\"/>\n", class, x, y, width, BAR);
}

static void begin(FILE *f, const struct result *r, double height,
		  const char *question, const char *measure)
{
	char machine[MACHINE_TEXT];

	machine_text(machine, r);
	fprintf(f, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
		"height=\"%.0f\" viewBox=\"0 0 %d %.0f\" "
		"font-family=\"sans-serif\" font-size=\"11\">\n", WIDTH,
		height, WIDTH, height);
	fputs(style, f);
	fprintf(f, "<rect class=\"page\" width=\"%d\" height=\"%.0f\"/>\n"
		"<g font-size=\"17\">\n", WIDTH, height);
	text(f, 12, 24, "b", "%s", question);
	fputs("</g>\n", f);
	text(f, 12, 42, "dim", "%s", measure);
	text(f, 12, 57, "dim", "%s", machine);
}

static void diamond(FILE *f, double x, double y)
{
	fprintf(f, "<path class=\"bare\" d=\"M%.1f %.1fl5 6l-5 6l-5 -6z\"/>\n",
		x, y);
}

/* What the overview has, or else the others. */
static void key(FILE *f, bool is_overview)
{
	const double y = 78;

	box(f, "weir", 12, y - BAR, 20);
	text(f, 37, y, "", "weir");
	line(f, "spread", 80, y - BAR / 2., 100, y - BAR / 2.);
	text(f, 105, y, "", "least to most");
	if (is_overview)
		diamond(f, 215, y - BAR - 1);
	else
		box(f, "bare", 202, y - BAR, 20);
	text(f, 227, y, "",
	     "bare program, which does only what the machine must");
	if (is_overview)
		return;
	box(f, "peer", 552, y - BAR, 20);
	text(f, 577, y, "", "peer");
	line(f, "goal", 625, y - BAR - 1, 625, y + 2);
	text(f, 633, y, "", "goal");
}

/* The axis of speeds: from 0 at @left to @max at RIGHT. */
struct axis {
	double left, max;
};

/* One that shows speeds up to @high. */
static struct axis axis_to(double high, double left)
{
	return (struct axis){ left, fmin(CUT, fmax(1.25, high * 1.02)) };
}

static double at(const struct axis *a, double speed)
{
	return a->left + fmin(speed, a->max) / a->max * (RIGHT - a->left);
}

/* @one: what has the speed 1. */
static void grid(FILE *f, const struct axis *a, double bottom, const char *one)
{
	double step = a->max > 1.5 ? .5 : .25;

	for (double v = 0; v <= a->max; v += step) {
		line(f, v == 1 ? "one" : "grid", at(a, v), TOP - 8, at(a, v),
		     bottom);
		text(f, at(a, v), bottom + 14, "mid dim", "%g%s", v,
		     v == 1 ? one : "");
	}
}

/* A bar that is cut off has a gap near its end. */
static void bar(FILE *f, const struct axis *a, const struct shown *s, double y)
{
	double middle = y + BAR / 2.;

	box(f, classes[s->origin], a->left, y, at(a, s->speed) - a->left);
	if (s->speed > a->max)
		line(f, "cut", RIGHT - 14, y + BAR + 2, RIGHT - 8, y - 2);
	else if (s->low > 0 && s->high > 0)
		line(f, "spread", at(a, s->low), middle, at(a, s->high),
		     middle);
	if (s->wanted > a->max)
		fprintf(f, "<path class=\"goal\" d=\"M%d %.1fl5 6l-5 6\"/>\n",
			RIGHT + 4, y - 1.5);
	else if (s->wanted > 0)
		line(f, "goal", at(a, s->wanted), y - 1.5, at(a, s->wanted),
		     y + BAR + 1.5);
}

static void ratio(FILE *f, double x, double y, double speed)
{
	text(f, x, y, "end b", speed < .095 ? "%.1g" :
	     speed < 9.995 ? "%.2f" : "%.0f", speed);
}

static double group(FILE *f, const struct axis *a, const struct bench_case *c,
		    double y)
{
	text(f, 12, y + HEAD - 6, "b", "%s, %s", c->name->what, c->name->unit);
	y += HEAD;
	for (size_t i = 0; i < c->n; i++, y += STEP) {
		const struct shown *s = &c->variant[i];

		text(f, a->left - 8, y + BAR,
		     s->origin == OURS ? "end" : "end dim", "%.30s",
		     s->figure->name.variant);
		bar(f, a, s, y);
		ratio(f, RIGHT + 60, y + BAR, s->speed);
		text(f, WIDTH - 12, y + BAR, "end dim",
		     s->figure->median < 1e4 ? "%.4g" : "%.0f",
		     s->figure->median);
	}
	return y;
}

static double highest(const struct bench_case *c)
{
	double high = 0;

	for (size_t i = 0; i < c->n; i++)
		high = fmax(fmax(high, c->variant[i].wanted),
			    fmax(c->variant[i].low, c->variant[i].high));
	return high;
}

/* As many of the cases as fit. */
static void bars(FILE *f, const struct result *r, const struct program *p,
		 const struct bench_case *cases, size_t n)
{
	double high = 0, y = TOP, height = TOP + BOTTOM, more;
	struct axis a;
	size_t fit = 0;

	for (; fit < n; fit++) {
		more = HEAD + (double)cases[fit].n * STEP;
		if (height + more > HEIGHT)
			break;
		height += more;
		high = fmax(high, highest(&cases[fit]));
	}
	a = axis_to(high, LEFT);
	begin(f, r, height, p->question,
	      "Ratio to the best that is not weir, so that longer is better, "
	      "for costs too.  Medians.");
	key(f, false);
	text(f, RIGHT + 60, 78, "end b", "ratio");
	text(f, WIDTH - 12, 78, "end dim", "median");
	grid(f, &a, height - BOTTOM, " = best other");
	for (size_t i = 0; i < fit; i++)
		y = group(f, &a, &cases[i], y);
	fputs("</svg>\n", f);
}

/* A row of the overview: weir beside the best peer, or beside the bare program
 * if there is no peer. */
struct row {
	const struct figure *weir, *one, *bare;
	struct shown shown;
	double bare_speed;
};

/* That of the case of @p that decides; false: it has none. */
static bool load_row(struct row *row, const struct result *r,
		     const struct program *p)
{
	struct bench_case cases[CASES_MAX];
	const struct figure *weir, *one;

	if (!cases_of(r, p, cases))
		return false;
	weir = cases[0].weir;
	one = cases[0].peer ? cases[0].peer : cases[0].one;
	*row = (struct row){
		.weir = weir, .one = one, .bare = cases[0].bare,
		.shown = { .origin = OURS, .wanted = NAN,
			   .speed = speed(weir->median, one),
			   .low = speed(weir->min, one),
			   .high = speed(weir->max, one) },
		.bare_speed = cases[0].bare ?
			      speed(cases[0].bare->median, one) : NAN,
	};
	return true;
}

static int by_weir(const void *a, const void *b)
{
	double x = ((const struct row *)a)->shown.speed;
	double y = ((const struct row *)b)->shown.speed;

	return (x < y) - (x > y);
}

static void draw_row(FILE *f, const struct axis *a, const struct row *row,
		     double y)
{
	const struct name *name = &row->weir->name;

	text(f, 12, y + 11, "b", "%s: %s", name->bench, name->what);
	text(f, 12, y + 23, "dim", "%s beside %s%s%s", name->variant,
	     row->one->name.variant, row->bare == row->one ? " (bare)" :
	     row->bare ? "; bare: " : "",
	     row->bare && row->bare != row->one ? row->bare->name.variant : "");
	bar(f, a, &row->shown, y + 8);
	ratio(f, RIGHT + 60, y + 17, row->shown.speed);
	if (!row->bare)
		return;
	diamond(f, at(a, row->bare_speed), y + 6.5);
	ratio(f, WIDTH - 12, y + 17, row->shown.speed / row->bare_speed);
}

static void overview(FILE *f, const struct result *r)
{
	struct row rows[(HEIGHT - TOP - BOTTOM) / ROW_MIN];
	const size_t most = sizeof(rows) / sizeof(rows[0]);
	double high = 0, height, step;
	struct axis a;
	size_t n = 0;

	for (size_t i = 0; i < n_programs && n < most; i++)
		n += load_row(&rows[n], r, &programs[i]);
	qsort(rows, n, sizeof(*rows), by_weir);
	for (size_t i = 0; i < n; i++)
		high = fmax(high, fmax(rows[i].shown.low, rows[i].shown.high));
	a = axis_to(high, ROW_LEFT);
	step = fmin(ROW, (HEIGHT - TOP - BOTTOM) / fmax(1, (double)n));
	height = TOP + BOTTOM + step * (double)n;
	begin(f, r, height,
	      "How fast is weir, beside the best peer and a bare program?",
	      "Ratio to the best peer in the case that decides, so that longer "
	      "is better, for costs too.  Medians.");
	key(f, true);
	text(f, RIGHT + 60, 78, "end b", "/ peer");
	text(f, WIDTH - 12, 78, "end b", "/ bare");
	grid(f, &a, height - BOTTOM, " = best peer");
	for (size_t i = 0; i < n; i++)
		draw_row(f, &a, &rows[i], TOP - 4 + step * (double)i);
	fputs("</svg>\n", f);
}

/* Latencies of a case: from the median to the slowest of 10,000 with a step for
 * each nine. */

#define CURVES_MAX 16
#define CURVES_HEIGHT 420.

struct curve {
	const struct latency *latency;
	double label;		/* The place of its name. */
};

static bool is_whole(const struct latency *l)
{
	bool whole = true;

	for (int i = 0; i < N_POINTS; i++)
		whole &= l->point[i] > 0;
	return whole;
}

static size_t curves_of(const struct result *r, const struct program *p,
			struct curve *to)
{
	const struct latency *l;
	size_t n = 0;

	for (l = r->latencies; l < r->latencies + r->n_latencies; l++)
		if (p->curve && n < CURVES_MAX &&
		    !strcmp(l->name.bench, p->name) &&
		    !strcmp(l->name.what, p->curve) &&
		    is_in_curves(p, l->name.variant) && is_whole(l))
			to[n++] = (struct curve){ .latency = l };
	return n;
}

bool has_curves(const struct result *r, const struct program *p)
{
	struct curve curves[CURVES_MAX];

	return curves_of(r, p, curves) > 1;
}

/* The place of a latency on an axis from @low to @high. */
static double height_of(double ns, double low, double high)
{
	double bottom = CURVES_HEIGHT - 2 * BOTTOM, top = TOP;

	return bottom - log(ns / low) / log(high / low) * (bottom - top);
}

static double point_x(int i)
{
	return 80 + (RIGHT - 80.) * i / (N_POINTS - 1);
}

static int by_end(const void *a, const void *b)
{
	double x = ((const struct curve *)a)->latency->point[P9999];
	double y = ((const struct curve *)b)->latency->point[P9999];

	return (x < y) - (x > y);
}

static void curves_grid(FILE *f, double low, double high)
{
	static const double steps[] = { 1, 2, 5 };
	double ns, y;

	for (double ten = 1; ten < high; ten *= 10)
		for (int i = 0; i < 3; i++) {
			ns = ten * steps[i];
			if (ns < low || ns > high)
				continue;
			y = height_of(ns, low, high);
			line(f, "grid", point_x(0), y, RIGHT, y);
			text(f, point_x(0) - 8, y + 4, "end dim", "%g",
			     ns / 1e3);
		}
	for (int i = 0; i < N_POINTS; i++)
		text(f, point_x(i), CURVES_HEIGHT - 26, "mid dim", "%s",
		     point_names[i]);
}

static bool is_ours(const struct latency *l)
{
	return origin_of(l->name.bench, l->name.variant) == OURS;
}

static void draw_curve(FILE *f, const struct curve *c, double low, double high)
{
	const struct latency *l = c->latency;
	double end = height_of(l->point[P9999], low, high);

	fprintf(f, "<polyline style=\"fill:none\" class=\"%s\" points=\"",
		classes[origin_of(l->name.bench, l->name.variant)]);
	for (int i = 0; i < N_POINTS; i++)
		fprintf(f, "%.1f,%.1f ", point_x(i),
			height_of(l->point[i], low, high));
	fputs("\"/>\n", f);
	line(f, "grid", RIGHT + 2, end, RIGHT + 14, c->label);
	text(f, RIGHT + 18, c->label + 4, is_ours(l) ? "b" : "dim", "%s",
	     l->name.variant);
}

static void curves(FILE *f, const struct result *r, const struct program *p)
{
	struct curve c[CURVES_MAX];
	size_t n = curves_of(r, p, c);
	double low = INFINITY, high = 0, label = 0;
	char title[128];

	qsort(c, n, sizeof(*c), by_end);
	for (size_t i = 0; i < n; i++) {
		low = fmin(low, c[i].latency->point[P50] * .8);
		high = fmax(high, c[i].latency->point[P9999] * 1.2);
	}
	snprintf(title, sizeof(title), "How late are the slowest? %s, %s",
		 p->name, p->curve);
	begin(f, r, CURVES_HEIGHT, title,
	      "Latency in us, on a logarithmic axis; lower is better.  A point "
	      "for each share that is not later.");
	curves_grid(f, low, high);
	/* Names that would touch move down. */
	for (size_t i = 0; i < n; i++) {
		label = fmax(label + STEP, height_of(c[i].latency->point[P9999],
						     low, high));
		c[i].label = label;
	}
	/* weir's is in front. */
	for (int ours = 0; ours < 2; ours++)
		for (size_t i = 0; i < n; i++)
			if (is_ours(c[i].latency) == ours)
				draw_curve(f, &c[i], low, high);
	fputs("</svg>\n", f);
}

/* The pictures of one program. */
static int write_some(const struct result *r, const struct program *p,
		      const char *dir)
{
	struct bench_case cases[CASES_MAX];
	size_t n = cases_of(r, p, cases);
	int status = EXIT_OK;
	char path[PATH_MAX];
	FILE *f;

	if (n) {
		f = open_in(path, dir, "%s.svg", p->name);
		if (!f)
			return EXIT_FAILED;
		bars(f, r, p, cases, n);
		status = close_output(f, path);
	}
	if (!status && has_curves(r, p)) {
		f = open_in(path, dir, "%s-latency.svg", p->name);
		if (!f)
			return EXIT_FAILED;
		curves(f, r, p);
		status = close_output(f, path);
	}
	return status;
}

int write_pictures(const struct result *r, const char *dir)
{
	char path[PATH_MAX];
	FILE *f = open_in(path, dir, "overview.svg");
	int status;

	if (!f)
		return EXIT_FAILED;
	overview(f, r);
	status = close_output(f, path);
	for (size_t i = 0; i < n_programs && !status; i++)
		status = write_some(r, &programs[i], dir);
	return status;
}
