/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_STATS_FIXTURE_H
#define TESTS_STATS_FIXTURE_H

/* What tests of the page of statistics share: pages in the test's directory,
 * and what is asked of a reader. */

#include <time.h>

#include "tests/support/harness.h"

#include <weir/stats.h>

/* This process and its children publish in the test's directory. */
static inline void publish_here(void **state)
{
	assert_int_equal(chmod(test_dir(state), 0700), 0);
	assert_int_equal(setenv("WEIR_STATS", test_dir(state), 1), 0);
	assert_int_equal(weir_stats_publish(NULL), 0);
}

/* The reactor goes before the page. */
static inline void publish_no_more(void **state)
{
	struct world *w = *state;

	if (w->r)
		end_reactor(state);
	assert_int_equal(weir_stats_withdraw(), 0);
	unsetenv("WEIR_STATS");
}

static inline struct weir_stats *must_open(int64_t pid)
{
	struct weir_stats *s = NULL;
	int err = weir_stats_open(&s, pid);

	if (err)
		print_error("weir_stats_open: %d: %s\n", err, weir_why());
	assert_int_equal(err, 0);
	return s;
}

/* Another process has to get on. */
static inline void nap(void)
{
	struct timespec ts = { .tv_nsec = 1000000 };

	nanosleep(&ts, NULL);
}

static inline void do_nops(struct weir_reactor *r, int n)
{
	struct rec rec;

	for (int i = 0; i < n; i++) {
		rec_init(&rec);
		assert_int_equal(weir_nop(r, &rec.op), 0);
		finish(r, &rec);
	}
}

/* The first section of @kind whose label begins with @label; -1: none. */
static inline int find_section(const struct weir_stats *s, const char *kind,
			       const char *label)
{
	struct weir_stats_section section = { .size = sizeof(section) };

	for (uint32_t i = 0; !weir_stats_section(s, i, &section); i++)
		if (!strcmp(section.kind, kind) &&
		    !strncmp(section.label, label, strlen(label)))
			return (int)i;
	return -1;
}

static inline uint64_t value_of(const struct weir_stats *s, const char *kind,
				const char *label, const char *name)
{
	int i = find_section(s, kind, label);
	uint64_t value = 0;

	if (i < 0)
		fail_msg("there is no section %s %s", kind, label);
	if (weir_stats_value(s, (uint32_t)i, name, &value))
		fail_msg("%s has no field %s", kind, name);
	return value;
}

/* Everything that a reader can be asked, and more; what it tells is summed up
 * so that nothing of it is left out. */
static inline uint64_t ask_everything(const struct weir_stats *s)
{
	struct weir_stats_section section = { .size = sizeof(section) };
	struct weir_stats_field f = { .size = sizeof(f) };
	struct weir_stats_info info = { .size = sizeof(info) };
	uint64_t sum = 0, end, n;
	uint32_t i, j, k;

	assert_int_equal(weir_stats_info(s, &info), 0);
	sum += strlen(info.program) + strlen(info.version);
	for (i = 0; !weir_stats_section(s, i, &section); i++) {
		sum += strlen(section.kind) + strlen(section.label);
		for (j = 0; !weir_stats_field(s, i, j, &f); j++) {
			sum += f.value + strlen(f.name) + strlen(f.help);
			for (k = 0; !weir_stats_bucket(s, i, j, k, &end, &n);)
				k++;
			if (!weir_stats_quantile(s, i, j, 999000, &n))
				sum += n;
		}
		assert_int_equal(weir_stats_quantile(s, i, j, 1, &n), -ENOENT);
	}
	return sum;
}

#endif /* TESTS_STATS_FIXTURE_H */
