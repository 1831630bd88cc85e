/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * The cases of a program that decide: what weir and the others reach in each,
 * by speed.  A speed is relative to another figure, and more is better, also
 * where the figures are times.
 */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

/* The position in @list, names with "|" between them, of the first that @text
 * begins with, from 1; 0: there is none. */
static int place_in(const char *list, const char *text)
{
	size_t len;

	for (int place = 1; list; place++) {
		len = strcspn(list, "|");
		if (!strncmp(list, text, len))
			return place;
		list = list[len] ? list + len + 1 : NULL;
	}
	return 0;
}

/* 1: what a program gets that chooses nothing; 0: it is not weir's. */
static int own_place(const char *bench, const char *variant)
{
	const struct program *p = find_program(bench);

	return place_in(p && p->ours ? p->ours : "weir", variant);
}

enum origin origin_of(const char *bench, const char *variant)
{
	const struct program *p = find_program(bench);

	if (own_place(bench, variant))
		return OURS;
	return place_in(p && p->bare ? p->bare : "bare", variant) ? BARE : PEER;
}

bool is_in_curves(const struct program *p, const char *variant)
{
	return own_place(p->name, variant) <= 1 && !place_in(p->omit, variant);
}

double speed(double value, const struct figure *one)
{
	return more_is_better(one->name.unit) ? value / one->median :
						one->median / value;
}

/* Whether a figure of the case of @f has the variant that @len bytes of @text
 * name. */
static bool is_variant(const struct result *r, const struct figure *f,
		       const char *text, size_t len)
{
	const struct figure *o;

	for (o = r->figures; o < r->figures + r->n_figures; o++)
		if (!strcmp(o->name.bench, f->name.bench) &&
		    !strcmp(o->name.what, f->name.what) &&
		    !strncmp(o->name.variant, text, len) &&
		    !o->name.variant[len])
			return true;
	return false;
}

/* Whether a goal's @rest, "VARIANT" or "VARIANT / VARIANT", is about @f: that is
 * the first, or the second if the first is not weir's. */
static bool is_about(const struct result *r, const struct figure *f,
		     const char *rest)
{
	const char *second = strstr(rest, " / "), *variant = f->name.variant;
	size_t len = second ? (size_t)(second - rest) : strlen(rest);

	if (!is_variant(r, f, rest, len))
		return false;
	if (strlen(variant) == len && !strncmp(rest, variant, len))
		return true;
	return second && !own_place(f->name.bench, rest) &&
	       !strcmp(second + 3, variant);
}

/* The speed that meets all goals of @f, whose speed is @has; NAN: it has none. */
static double wanted(const struct result *r, const struct figure *f, double has)
{
	size_t len = strlen(f->name.what);
	const struct goal *g;
	double most = NAN;

	for (g = r->goals; g < r->goals + r->n_goals; g++) {
		if (strcmp(g->bench, f->name.bench) || !(g->figure > 0) ||
		    strncmp(g->where, f->name.what, len) ||
		    strncmp(g->where + len, ", ", 2) ||
		    !is_about(r, f, g->where + len + 2))
			continue;
		most = fmax(most, g->at_most ? has * g->figure / g->bound :
					       has * g->bound / g->figure);
	}
	return most;
}

static bool is_better(const struct figure *f, const struct figure *than)
{
	return !than || speed(f->median, than) > 1;
}

static int by_speed(const void *a, const void *b)
{
	double x = ((const struct shown *)a)->speed;
	double y = ((const struct shown *)b)->speed;

	return (x < y) - (x > y);
}

static void add_variant(struct bench_case *c, const struct figure *f)
{
	struct shown *s = &c->variant[c->n];

	if (c->n == VARIANTS_MAX)
		return;
	c->n++;
	*s = (struct shown){ .figure = f,
			     .origin = origin_of(f->name.bench, f->name.variant) };
	if (s->origin == PEER && is_better(f, c->peer))
		c->peer = f;
	if (s->origin == BARE && is_better(f, c->bare))
		c->bare = f;
	if (s->origin == OURS &&
	    (!c->weir || own_place(f->name.bench, f->name.variant) <
			 own_place(f->name.bench, c->weir->name.variant)))
		c->weir = f;
}

/* Where all variants are weir's, what weir's was measured beside is the bare
 * program. */
static void find_bare(struct bench_case *c)
{
	for (size_t i = 0; i < c->n; i++) {
		struct shown *s = &c->variant[i];

		if (s->figure != c->weir &&
		    !strcmp(s->figure->name.variant, c->weir->ratio_to)) {
			s->origin = BARE;
			c->bare = s->figure;
		}
	}
}

/* Whether weir and another have figures of the case of @first. */
static bool load_case(struct bench_case *c, const struct result *r,
		      const struct program *p, const struct figure *first)
{
	const struct figure *f;

	*c = (struct bench_case){ .name = &first->name };
	for (f = first; f < r->figures + r->n_figures; f++)
		if (!strcmp(f->name.bench, first->name.bench) &&
		    !strcmp(f->name.what, first->name.what) &&
		    !strcmp(f->name.unit, first->name.unit) && f->median > 0 &&
		    !place_in(p->omit, f->name.variant))
			add_variant(c, f);
	if (c->weir && !c->peer && !c->bare)
		find_bare(c);
	c->one = c->peer && (!c->bare || is_better(c->peer, c->bare)) ?
		 c->peer : c->bare;
	if (!c->weir || !c->one)
		return false;
	for (size_t i = 0; i < c->n; i++) {
		struct shown *s = &c->variant[i];

		s->speed = speed(s->figure->median, c->one);
		s->low = speed(s->figure->min, c->one);
		s->high = speed(s->figure->max, c->one);
		s->wanted = s->origin == OURS ?
			    wanted(r, s->figure, s->speed) : NAN;
	}
	qsort(c->variant, c->n, sizeof(*c->variant), by_speed);
	return true;
}

/* Whether no earlier figure is of this case and unit. */
static bool begins_case(const struct result *r, const struct figure *f)
{
	for (const struct figure *e = r->figures; e < f; e++)
		if (!strcmp(e->name.bench, f->name.bench) &&
		    !strcmp(e->name.what, f->name.what) &&
		    !strcmp(e->name.unit, f->name.unit))
			return false;
	return true;
}

/* Add the cases called @what, which ends at a "|"; NULL: all. */
static size_t add_cases(struct bench_case *to, size_t n, const struct result *r,
			const struct program *p, const char *what)
{
	size_t len = what ? strcspn(what, "|") : 0;
	const struct figure *f;

	for (f = r->figures; f < r->figures + r->n_figures; f++) {
		if (strcmp(f->name.bench, p->name) || !begins_case(r, f))
			continue;
		if (what && (strncmp(f->name.what, what, len) ||
			     f->name.what[len]))
			continue;
		n += n < CASES_MAX && load_case(&to[n], r, p, f);
	}
	return n;
}

size_t cases_of(const struct result *r, const struct program *p,
		struct bench_case *to)
{
	const char *bar;
	size_t n = 0;

	if (!p->question)
		return 0;
	for (const char *what = p->cases; what; what = bar ? bar + 1 : NULL) {
		n = add_cases(to, n, r, p, what);
		bar = strchr(what, '|');
	}
	/* With other sizes or depths, cases have other names. */
	return n ? n : add_cases(to, 0, r, p, NULL);
}
