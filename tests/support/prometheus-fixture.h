/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_PROMETHEUS_FIXTURE_H
#define TESTS_PROMETHEUS_FIXTURE_H

/*
 * A reader of Prometheus' text format that fails a test for what promtool would
 * not take: lines of no form, samples of a name that do not stand together or
 * have no HELP and TYPE, counters that do not end in _total, histograms that
 * are none.
 */

#include <ctype.h>

#include "tests/support/harness.h"

#define PROM_NAMES_MAX 512

struct prom {
	char name[128]; /* Of the samples that come. */
	char type[16];
	char names[PROM_NAMES_MAX][128];
	int n_names;
	int samples;
	bool helped, typed;
	uint64_t below; /* Of the last bucket. */
	double le;
	bool ended; /* With +Inf. */
};

static inline const char *prom_name(const char *p, char name[128])
{
	size_t n = 0;

	assert_true(isalpha(*p) || *p == '_' || *p == ':');
	while (isalnum(*p) || *p == '_' || *p == ':') {
		assert_true(n < 127);
		name[n++] = *p++;
	}
	name[n] = '\0';
	return p;
}

static inline void prom_begin(struct prom *prom, const char *name)
{
	for (int i = 0; i < prom->n_names; i++)
		if (!strcmp(prom->names[i], name))
			fail_msg("%s comes up again", name);
	assert_true(prom->n_names < PROM_NAMES_MAX);
	snprintf(prom->names[prom->n_names++], 128, "%s", name);
	snprintf(prom->name, sizeof(prom->name), "%s", name);
	prom->helped = true;
	prom->typed = false;
}

static inline void prom_comment(struct prom *prom, const char *line)
{
	char name[128];
	const char *p;

	if (!strncmp(line, "# HELP ", 7)) {
		p = prom_name(line + 7, name);
		assert_int_equal(*p, ' ');
		while ((p = strchr(p, '\\'))) {
			assert_true(p[1] == '\\' || p[1] == 'n');
			p += 2;
		}
		prom_begin(prom, name);
		return;
	}
	assert_int_equal(strncmp(line, "# TYPE ", 7), 0);
	p = prom_name(line + 7, name);
	assert_true(prom->helped && !strcmp(name, prom->name));
	snprintf(prom->type, sizeof(prom->type), "%s", p + 1);
	assert_true(!strcmp(prom->type, "counter") ||
		    !strcmp(prom->type, "gauge") ||
		    !strcmp(prom->type, "histogram"));
	if (!strcmp(prom->type, "counter"))
		assert_string_equal(name + strlen(name) - 6, "_total");
	prom->typed = true;
	prom->helped = false;
}

/* Behind the labels at @p, of which "le" is put to @le. */
static inline const char *prom_labels(const char *p, char le[32])
{
	char name[128];
	size_t n;

	while (*p != '}') {
		p = prom_name(p, name);
		assert_int_equal(strncmp(p, "=\"", 2), 0);
		for (p += 2, n = 0; *p && *p != '"'; p++) {
			if (*p == '\\')
				p++;
			if (!strcmp(name, "le") && n < 31)
				le[n++] = *p;
		}
		assert_int_equal(*p++, '"');
		if (!strcmp(name, "le"))
			le[n] = '\0';
		if (*p == ',')
			p++;
	}
	return p + 1;
}

static inline void prom_bucket(struct prom *prom, const char *le,
			       uint64_t value)
{
	double end = !strcmp(le, "+Inf") ? 1e300 : strtod(le, NULL);

	if (prom->ended || end < prom->le)
		prom->below = 0;
	else
		assert_true(end > prom->le);
	assert_true(value >= prom->below);
	prom->below = value;
	prom->le = end;
	prom->ended = end == 1e300;
}

static inline void prom_sample(struct prom *prom, const char *line)
{
	char name[128], le[32] = "", *end;
	const char *p = prom_name(line, name), *suffix;
	size_t len = strlen(prom->name);
	double value;

	if (*p == '{')
		p = prom_labels(p + 1, le);
	assert_int_equal(*p, ' ');
	value = strtod(p + 1, &end);
	assert_true(end > p + 1 && !*end);
	assert_true(prom->typed && !strncmp(name, prom->name, len));
	suffix = name + len;
	prom->samples++;
	if (strcmp(prom->type, "histogram")) {
		assert_string_equal(suffix, "");
	} else if (!strcmp(suffix, "_bucket")) {
		prom_bucket(prom, le, (uint64_t)value);
	} else if (!strcmp(suffix, "_count")) {
		assert_true(prom->ended && (uint64_t)value == prom->below);
	} else {
		assert_string_equal(suffix, "_sum");
	}
}

/* All of @text, which is taken apart.  Returns how many samples there are. */
static inline int prom_check(char *text)
{
	static struct prom prom;
	char *line, *next;

	memset(&prom, 0, sizeof(prom));
	for (line = text; *line; line = next) {
		next = strchr(line, '\n');
		assert_non_null(next);
		*next++ = '\0';
		if (*line == '#')
			prom_comment(&prom, line);
		else
			prom_sample(&prom, line);
	}
	return prom.samples;
}

#endif /* TESTS_PROMETHEUS_FIXTURE_H */
