/* SPDX-License-Identifier: BSD-3-Clause */

/* A result: all lines of a file that weir bench has written. */

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "tool.h"

#define LINE_LONG ((size_t)16 << 20)	/* Far more than a histogram's. */

const char *const point_names[N_POINTS] = {
	"p50", "p90", "p99", "p99.9", "p99.99",
};

/* Make space for one more item of @size bytes, zeroed; NULL: no memory. */
static void *more(void *array, size_t *n, size_t size)
{
	char **items = array;
	char *grown = realloc(*items, (*n + 1) * size);

	if (!grown)
		return NULL;
	*items = grown;
	return memset(grown + (*n)++ * size, 0, size);
}

static void free_name(struct name *name)
{
	free(name->bench);
	free(name->what);
	free(name->variant);
	free(name->unit);
}

static void free_figure(void *item)
{
	struct figure *f = item;

	free_name(&f->name);
	free(f->ratio_to);
	free(f->sample);
}

static void free_latency(void *item)
{
	struct latency *l = item;

	free_name(&l->name);
	free(l->value);
	free(l->counts);
}

static void free_goal(void *item)
{
	struct goal *g = item;

	free(g->bench);
	free(g->text);
	free(g->where);
}

static void free_note(void *item)
{
	struct note *n = item;

	free(n->bench);
	free(n->text);
}

static bool is_named(const struct name *name, const struct line *line)
{
	return !strcmp(name->bench, line_text(line, "bench")) &&
	       !strcmp(name->what, line_text(line, "case")) &&
	       !strcmp(name->variant, line_text(line, "variant")) &&
	       !strcmp(name->unit, line_text(line, "unit"));
}

/* Make space for the item of @line, which begins with its name; an earlier item
 * of that name is removed. */
static void *capacity(void *array, size_t *n, size_t size,
		      const struct line *line, void (*release)(void *item))
{
	char **items = array, *item;

	for (item = *items; item < *items + *n * size; item += size)
		if (is_named((struct name *)(void *)item, line)) {
			release(item);
			return memset(item, 0, size);
		}
	return more(array, n, size);
}

/* Remove the items of @bench from an array. */
static void take_out(void *array, size_t *n, size_t size, const char *bench,
		     void (*release)(void *item))
{
	char **items = array, *item, *to = *items;
	char *end = to + *n * size;

	for (item = to; item < end; item += size) {
		/* Items begin with the name of their benchmark. */
		if (!strcmp(*(char **)(void *)item, bench)) {
			release(item);
			--*n;
			continue;
		}
		memmove(to, item, size);
		to += size;
	}
}

static void forget(struct result *r, const char *bench)
{
	take_out(&r->figures, &r->n_figures, sizeof(*r->figures), bench,
		 free_figure);
	take_out(&r->latencies, &r->n_latencies, sizeof(*r->latencies), bench,
		 free_latency);
	take_out(&r->goals, &r->n_goals, sizeof(*r->goals), bench, free_goal);
	take_out(&r->notes, &r->n_notes, sizeof(*r->notes), bench, free_note);
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
	struct figure *f = capacity(&r->figures, &r->n_figures, sizeof(*f),
				    line, free_figure);

	if (!f || take_name(&f->name, line))
		return -ENOMEM;
	f->median = line_number(line, "median");
	f->min = line_number(line, "min");
	f->max = line_number(line, "max");
	f->ratio = line_number(line, "ratio");
	f->others = line_number(line, "others_cpu");
	f->n_noisy = line_number(line, "n_noisy");
	f->ratio_to = copy(line, "ratio_to");
	f->n = line_number(line, "n");
	f->sample = copy_array(line, "samples", &f->n_samples);
	return f->ratio_to && f->sample ? 0 : -ENOMEM;
}

static int add_latency(struct result *r, const struct line *line)
{
	struct latency *l = capacity(&r->latencies, &r->n_latencies, sizeof(*l),
				     line, free_latency);
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

static struct goal *goal_capacity(struct result *r, const struct line *line)
{
	struct goal *g;

	for (g = r->goals; g < r->goals + r->n_goals; g++)
		if (!strcmp(g->bench, line_text(line, "bench")) &&
		    !strcmp(g->text, line_text(line, "goal"))) {
			free_goal(g);
			return memset(g, 0, sizeof(*g));
		}
	return more(&r->goals, &r->n_goals, sizeof(*g));
}

static int add_goal(struct result *r, const struct line *line)
{
	struct goal *g = goal_capacity(r, line);

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
static int add_note(struct result *r, const struct line *line)
{
	struct note *n;

	for (n = r->notes; n < r->notes + r->n_notes; n++)
		if (!strcmp(n->bench, line_text(line, "bench")) &&
		    !strcmp(n->text, line_text(line, "note")))
			return 0;
	n = more(&r->notes, &r->n_notes, sizeof(*n));
	if (!n)
		return -ENOMEM;
	n->bench = copy(line, "bench");
	n->text = copy(line, "note");
	return n->bench && n->text ? 0 : -ENOMEM;
}

/* Once each. */
static int add_fact(struct fact **facts, size_t *n, const char *key,
		    const char *value)
{
	struct fact *f;

	for (size_t i = 0; i < *n; i++)
		if (!strcmp((*facts)[i].key, key))
			return 0;
	f = more(facts, n, sizeof(*f));
	if (!f)
		return -ENOMEM;
	f->key = strdup(key);
	f->value = strdup(value);
	return f->key && f->value ? 0 : -ENOMEM;
}

static int add_peer(struct result *r, const struct line *line)
{
	if (line_find(line, "peer"))
		return add_fact(&r->facts, &r->n_facts, line_text(line, "peer"),
				line_text(line, "version"));
	return add_fact(&r->missing, &r->n_missing, line_text(line, "missing"),
			line_text(line, "package"));
}

/* The last run counts. */
static int add_ran(struct result *r, const struct line *line)
{
	struct ran *ran = NULL;

	for (size_t i = 0; i < r->n_ran && !ran; i++)
		if (!strcmp(r->ran[i].bench, line_text(line, "ran")))
			ran = &r->ran[i];
	if (!ran)
		ran = more(&r->ran, &r->n_ran, sizeof(*ran));
	if (!ran)
		return -ENOMEM;
	free(ran->bench);
	free(ran->ended);
	ran->bench = copy(line, "ran");
	ran->ended = copy(line, "ended");
	if (!ran->bench || !ran->ended)
		return -ENOMEM;
	if (strcmp(ran->ended, "ok"))
		forget(r, ran->bench);
	return 0;
}

static int add_machine(struct result *r, const struct line *line)
{
	int err = 0;

	for (size_t i = 0; i < line->n && !err; i++)
		if (line->member[i].text)
			err = add_fact(&r->facts, &r->n_facts,
				       line->member[i].key,
				       line->member[i].text);
	return err;
}

static int add(struct result *r, const struct line *line)
{
	if (line_find(line, "machine"))
		return add_machine(r, line);
	if (line_find(line, "peer") || line_find(line, "missing"))
		return add_peer(r, line);
	if (line_find(line, "ran"))
		return add_ran(r, line);
	if (line_find(line, "note"))
		return add_note(r, line);
	if (line_find(line, "ending"))
		return 0;	/* For build-aux/late-writes.awk. */
	if (line_find(line, "goal"))
		return add_goal(r, line);
	if (line_find(line, "count"))
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

static int grow(char **text, size_t *size)
{
	size_t larger = *size ? 2 * *size : 4096;
	char *grown;

	if (larger > LINE_LONG)
		return -EFBIG;
	grown = realloc(*text, larger);
	if (!grown)
		return -ENOMEM;
	*text = grown;
	*size = larger;
	return 0;
}

/* Like getline(), but with a bound, because the file may be a device without an
 * end.  1, or 0: there is no other line. */
static int next_line(FILE *f, char **text, size_t *size)
{
	size_t len = 0;
	int c, err = *size ? 0 : grow(text, size);

	while (!err && (c = getc(f)) != EOF && c != '\n') {
		(*text)[len++] = (char)c;
		if (len == *size)
			err = grow(text, size);
	}
	if (err)
		return err;
	(*text)[len] = '\0';
	if (ferror(f))
		return -EIO;
	return len || !feof(f);
}

int result_load(struct result *r, const char *path, bool empty)
{
	FILE *f = fopen(path, "re");
	char *text = NULL;
	size_t size = 0;
	int err = 0, more;

	memset(r, 0, sizeof(*r));
	if (!f)
		return failed("cannot read %s: %s", path, strerror(errno));
	while (!err && (more = next_line(f, &text, &size)))
		err = more < 0 ? more : add_text(r, text);
	free(text);
	fclose(f);
	if (!err && !empty && !r->n_figures && !r->n_latencies)
		return failed("%s holds no figures; weir bench --output writes "
			      "such files", path);
	return err ? failed("cannot read %s: %s", path, strerror(-err)) :
	       EXIT_OK;
}

static void free_facts(struct fact *facts, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		free(facts[i].key);
		free(facts[i].value);
	}
	free(facts);
}

void result_free(struct result *r)
{
	for (size_t i = 0; i < r->n_figures; i++)
		free_figure(&r->figures[i]);
	for (size_t i = 0; i < r->n_latencies; i++)
		free_latency(&r->latencies[i]);
	for (size_t i = 0; i < r->n_goals; i++)
		free_goal(&r->goals[i]);
	for (size_t i = 0; i < r->n_notes; i++)
		free_note(&r->notes[i]);
	free(r->notes);
	free_facts(r->facts, r->n_facts);
	free_facts(r->missing, r->n_missing);
	for (size_t i = 0; i < r->n_ran; i++) {
		free(r->ran[i].bench);
		free(r->ran[i].ended);
	}
	free(r->figures);
	free(r->latencies);
	free(r->goals);
	free(r->ran);
	memset(r, 0, sizeof(*r));
}

const char *fact_of(const struct result *r, const char *key)
{
	for (size_t i = 0; i < r->n_facts; i++)
		if (!strcmp(r->facts[i].key, key))
			return r->facts[i].value;
	return "";
}

bool has_ended(const struct result *r, const char *bench)
{
	for (size_t i = 0; i < r->n_ran; i++)
		if (!strcmp(r->ran[i].bench, bench))
			return !strcmp(r->ran[i].ended, "ok");
	return false;
}

bool is_first_figure(const struct result *r, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (!strcmp(r->figures[k].name.bench, r->figures[i].name.bench))
			return false;
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
