/* SPDX-License-Identifier: BSD-3-Clause */

/* A result: all lines of a file that weir bench has written. */

#define _GNU_SOURCE 1
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "tool.h"

const char *const point_names[N_POINTS] = {
	"p50", "p90", "p99", "p99.9", "p99.99",
};

/* Room for one more of @size bytes, zero; NULL: none. */
static void *more(void *array, size_t *n, size_t size)
{
	char **items = array;
	char *grown = realloc(*items, (*n + 1) * size);

	if (!grown)
		return NULL;
	*items = grown;
	return memset(grown + (*n)++ * size, 0, size);
}

static char *copy(const struct line *line, const char *key)
{
	return strdup(line_text(line, key));
}

static double *copy_array(const struct line *line, const char *key, size_t *n)
{
	const struct member *m = line_find(line, key);
	double *array;

	*n = m && m->array ? m->n : 0;
	array = malloc((*n ? *n : 1) * sizeof(*array));
	if (array && *n)
		memcpy(array, m->array, *n * sizeof(*array));
	return array;
}

static int take_name(struct name *name, const struct line *line)
{
	name->bench = copy(line, "bench");
	name->what = copy(line, "case");
	name->variant = copy(line, "variant");
	name->unit = copy(line, "unit");
	return name->bench && name->what && name->variant && name->unit ?
	       0 : -ENOMEM;
}

static int add_figure(struct result *r, const struct line *line)
{
	struct figure *f = more(&r->figures, &r->n_figures, sizeof(*f));

	if (!f || take_name(&f->name, line))
		return -ENOMEM;
	f->median = line_number(line, "median");
	f->min = line_number(line, "min");
	f->max = line_number(line, "max");
	f->ratio = line_number(line, "ratio");
	f->others = line_number(line, "others_cpu");
	f->ratio_to = copy(line, "ratio_to");
	f->sample = copy_array(line, "samples", &f->n);
	return f->ratio_to && f->sample ? 0 : -ENOMEM;
}

static int add_latency(struct result *r, const struct line *line)
{
	struct latency *l = more(&r->latencies, &r->n_latencies, sizeof(*l));
	size_t n;

	if (!l || take_name(&l->name, line))
		return -ENOMEM;
	l->count = line_number(line, "count");
	l->mean = line_number(line, "mean");
	l->deviation = line_number(line, "stddev");
	l->max = line_number(line, "max");
	for (int i = 0; i < N_POINTS; i++)
		l->point[i] = line_number(line, point_names[i]);
	l->value = copy_array(line, "values", &l->n);
	l->counts = copy_array(line, "counts", &n);
	if (n < l->n)
		l->n = n;
	return l->value && l->counts ? 0 : -ENOMEM;
}

static int add_goal(struct result *r, const struct line *line)
{
	struct goal *g = more(&r->goals, &r->n_goals, sizeof(*g));

	if (!g)
		return -ENOMEM;
	g->bench = copy(line, "bench");
	g->text = copy(line, "goal");
	g->where = copy(line, "where");
	g->at_most = line_find(line, "at_most");
	g->bound = line_number(line, g->at_most ? "at_most" : "at_least");
	g->figure = line_number(line, "figure");
	g->met = line_number(line, "met") > 0;
	return g->bench && g->text && g->where ? 0 : -ENOMEM;
}

/* Once each. */
static int add_fact(struct result *r, const char *key, const char *value)
{
	struct fact *f;

	for (size_t i = 0; i < r->n_facts; i++)
		if (!strcmp(r->facts[i].key, key))
			return 0;
	f = more(&r->facts, &r->n_facts, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->key = strdup(key);
	f->value = strdup(value);
	return f->key && f->value ? 0 : -ENOMEM;
}

static int add_machine(struct result *r, const struct line *line)
{
	int err = 0;

	for (size_t i = 0; i < line->n && !err; i++)
		if (line->member[i].text)
			err = add_fact(r, line->member[i].key,
				       line->member[i].text);
	return err;
}

static int add(struct result *r, const struct line *line)
{
	if (line_find(line, "machine"))
		return add_machine(r, line);
	if (line_find(line, "peer"))
		return add_fact(r, line_text(line, "peer"),
				line_text(line, "version"));
	if (line_find(line, "goal"))
		return add_goal(r, line);
	if (line_find(line, "counts"))
		return add_latency(r, line);
	if (line_number(line, "n") > 0 && isfinite(line_number(line, "median")))
		return add_figure(r, line);
	r->n_bad++;
	return 0;
}

static int add_text(struct result *r, char *text)
{
	struct line line;
	int err = line_parse(&line, text);

	if (err == -EINVAL) {
		r->n_bad++;
		return 0;
	}
	if (!err) {
		err = add(r, &line);
		line_free(&line);
	}
	return err;
}

int result_load(struct result *r, const char *path)
{
	FILE *f = fopen(path, "re");
	char *text = NULL;
	size_t size = 0;
	int err = 0;

	memset(r, 0, sizeof(*r));
	if (!f)
		return failed("cannot read %s: %s", path, strerror(errno));
	while (!err && getline(&text, &size, f) > 0)
		err = add_text(r, text);
	if (!err && ferror(f))
		err = -EIO;
	free(text);
	fclose(f);
	if (!err && !r->n_figures && !r->n_latencies)
		return failed("%s holds no figures; weir bench --output writes "
			      "such files", path);
	return err ? failed("cannot read %s: %s", path, strerror(-err)) :
	       EXIT_OK;
}

static void free_name(struct name *name)
{
	free(name->bench);
	free(name->what);
	free(name->variant);
	free(name->unit);
}

void result_free(struct result *r)
{
	for (size_t i = 0; i < r->n_figures; i++) {
		free_name(&r->figures[i].name);
		free(r->figures[i].ratio_to);
		free(r->figures[i].sample);
	}
	for (size_t i = 0; i < r->n_latencies; i++) {
		free_name(&r->latencies[i].name);
		free(r->latencies[i].value);
		free(r->latencies[i].counts);
	}
	for (size_t i = 0; i < r->n_goals; i++) {
		free(r->goals[i].bench);
		free(r->goals[i].text);
		free(r->goals[i].where);
	}
	for (size_t i = 0; i < r->n_facts; i++) {
		free(r->facts[i].key);
		free(r->facts[i].value);
	}
	free(r->figures);
	free(r->latencies);
	free(r->goals);
	free(r->facts);
	memset(r, 0, sizeof(*r));
}

bool is_first_figure(const struct result *r, size_t i, bool unit)
{
	const struct name *name = &r->figures[i].name, *other;

	while (i--) {
		other = &r->figures[i].name;
		if (!strcmp(other->bench, name->bench) &&
		    (!unit || !strcmp(other->unit, name->unit)))
			return false;
	}
	return true;
}

bool more_is_better(const char *unit)
{
	static const char *const rates[] = { "/s", "/sec" };
	size_t len = strlen(unit), n;

	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		n = strlen(rates[i]);
		if (len > n && !strcmp(unit + len - n, rates[i]))
			return true;
	}
	return false;
}
