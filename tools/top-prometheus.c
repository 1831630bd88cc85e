/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * weir top in the text format of Prometheus, version 0.0.4.
 *
 * All samples of a name must be together, after its HELP and TYPE.  So for each
 * new name this walks over all sections of all processes.  Times become
 * seconds, counters end in _total.
 */

#include <inttypes.h>
#include <string.h>

#include "top.h"

#define NAME_MAX_LEN 128

static void make_name(char name[NAME_MAX_LEN], const char *kind,
		      const struct weir_stats_field *f)
{
	size_t len = strlen(f->name);
	const char *unit = "";

	if (f->unit == WEIR_STATS_NS) {
		unit = "_seconds";
		if (len > 3 && !strcmp(f->name + len - 3, "_ns"))
			len -= 3;
	} else if (f->unit == WEIR_STATS_BYTES &&
		   (len < 5 || strcmp(f->name + len - 5, "bytes"))) {
		unit = "_bytes";
	}
	snprintf(name, NAME_MAX_LEN, "weir_%s_%.*s%s%s", kind, (int)len,
		 f->name, unit,
		 f->type == WEIR_STATS_COUNTER ? "_total" : "");
}

static void put_quoted(const char *s)
{
	putchar('"');
	for (; *s; s++) {
		if (*s == '"' || *s == '\\')
			putchar('\\');
		putchar(*s);
	}
	putchar('"');
}

/* Prometheus rejects any other escape, and then the whole scrape. */
static void put_help(const char *s)
{
	for (; *s; s++) {
		if (*s == '\\')
			putchar('\\');
		putchar(*s);
	}
}

static void put_labels(const struct process *p, const struct section *sec)
{
	struct weir_stats_info info = process_info(p);

	printf("{pid=\"%" PRId64 "\",program=", info.pid);
	put_quoted(info.program);
	printf(",id=\"%" PRIu32 "\",of=\"%" PRIu32 "\",label=", sec->s.id,
	       sec->s.parent);
	put_quoted(sec->s.label);
}

/* Exact; a double would round. */
static void put_number(uint64_t n, uint32_t unit)
{
	if (unit == WEIR_STATS_NS)
		printf("%" PRIu64 ".%09" PRIu64, n / WEIR_SEC, n % WEIR_SEC);
	else
		printf("%" PRIu64, n);
}

/* A bucket for each power of 2 suffices. */
static void put_buckets(const struct process *p, const struct section *sec,
			const char *name, uint32_t j,
			const struct weir_stats_field *f)
{
	uint64_t below = 0, end, count;

	for (uint32_t k = 0;
	     !weir_stats_bucket(p->now, sec->i, j, k, &end, &count); k++) {
		below += count;
		if (end == UINT64_MAX || end & (end - 1))
			continue;
		printf("%s_bucket", name);
		put_labels(p, sec);
		fputs(",le=\"", stdout);
		put_number(end, f->unit);
		printf("\"} %" PRIu64 "\n", below);
	}
	printf("%s_bucket", name);
	put_labels(p, sec);
	printf(",le=\"+Inf\"} %" PRIu64 "\n", f->value);
	printf("%s_sum", name);
	put_labels(p, sec);
	fputs("} ", stdout);
	put_number(value_of(p->now, sec->i, "sum_ns"), f->unit);
	printf("\n%s_count", name);
	put_labels(p, sec);
	printf("} %" PRIu64 "\n", f->value);
}

static void put_sample(const struct process *p, const struct section *sec,
		       const char *name, uint32_t j,
		       const struct weir_stats_field *f)
{
	if (f->type == WEIR_STATS_HISTOGRAM) {
		put_buckets(p, sec, name, j, f);
		return;
	}
	fputs(name, stdout);
	put_labels(p, sec);
	fputs("} ", stdout);
	put_number(f->value, f->unit);
	putchar('\n');
}

/* Field @name of @sec; false if there is none. */
static bool find_field(const struct process *p, const struct section *sec,
		       const char *name, uint32_t *j,
		       struct weir_stats_field *f)
{
	f->size = sizeof(*f);
	for (*j = 0; !weir_stats_field(p->now, sec->i, *j, f); ++*j)
		if (!strcmp(f->name, name))
			return true;
	return false;
}

/* A section that could not be read consistently is left to the next scrape. */
static bool next_whole(const struct process *p, struct section *sec)
{
	while (next_section(p->now, sec))
		if (!sec->s.torn)
			return true;
	return false;
}

/* All samples of a field of sections of a kind. */
static void put_all(const struct process *all, int n, const char *kind,
		    const struct weir_stats_field *like)
{
	struct weir_stats_field f;
	char name[NAME_MAX_LEN];
	struct section sec;
	uint32_t j;
	int k;

	make_name(name, kind, like);
	printf("# HELP %s ", name);
	put_help(like->help);
	printf("\n# TYPE %s %s\n", name,
	       like->type == WEIR_STATS_COUNTER ? "counter" :
	       like->type == WEIR_STATS_GAUGE ? "gauge" : "histogram");
	for (k = 0; k < n; k++)
		for (sec.i = UINT32_MAX; next_whole(&all[k], &sec);)
			if (!strcmp(sec.s.kind, kind) &&
			    find_field(&all[k], &sec, like->name, &j, &f) &&
			    f.type == like->type && f.unit == like->unit)
				put_sample(&all[k], &sec, name, j, &f);
}

/* Whether a section before @sec of @all[@k] has a field of that name. */
static bool was_before(const struct process *all, int k,
		       const struct section *sec, const char *name)
{
	struct weir_stats_field f;
	struct section other;
	uint32_t j;

	for (int i = 0; i <= k; i++)
		for (other.i = UINT32_MAX; next_whole(&all[i], &other);) {
			if (i == k && other.i == sec->i)
				return false;
			if (!strcmp(other.s.kind, sec->s.kind) &&
			    find_field(&all[i], &other, name, &j, &f))
				return true;
		}
	return false;
}

static bool is_twice(const struct process *p, const struct section *sec,
		     uint32_t j, const char *name)
{
	struct weir_stats_field f;
	uint32_t first;

	return find_field(p, sec, name, &first, &f) && first < j;
}

static void put_section(const struct process *all, int n, int k,
			const struct section *sec)
{
	struct weir_stats_field f = { .size = sizeof(f) };

	for (uint32_t j = 0; !weir_stats_field(all[k].now, sec->i, j, &f); j++)
		if (f.type <= WEIR_STATS_HISTOGRAM &&
		    !is_twice(&all[k], sec, j, f.name) &&
		    !was_before(all, k, sec, f.name))
			put_all(all, n, sec->s.kind, &f);
}

void top_prometheus(const struct process *all, int n)
{
	struct section sec;

	for (int k = 0; k < n; k++)
		for (sec.i = UINT32_MAX; next_whole(&all[k], &sec);)
			put_section(all, n, k, &sec);
}
