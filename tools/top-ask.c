/* SPDX-License-Identifier: BSD-3-Clause */

/* Queries of a page.  Two handles of a process take turns: one has the present
 * page, the other the previous one. */

#include <errno.h>
#include <string.h>
#include <time.h>

#include "tool.h"
#include "top.h"

struct weir_stats_info process_info(const struct process *p)
{
	struct weir_stats_info info = { .size = sizeof(info) };

	weir_stats_info(p->now, &info);
	return info;
}

/* A reactor that is awake notices a request within some turns. */
static void wait_for_reactors(void)
{
	struct timespec ts = { .tv_nsec = 100 * (long)WEIR_MSEC };

	nanosleep(&ts, NULL);
}

void processes_want(struct process *all, int n, uint64_t ns)
{
	bool offered = false;
	int i;

	for (i = 0; i < n; i++) {
		offered |= process_info(&all[i]).offered;
		if (weir_stats_want(all[i].now, ns))
			failed("top: %s", weir_why());
	}
	if (!offered)
		return;
	wait_for_reactors();
	/* What cannot be read is shown as it was. */
	for (i = 0; i < n; i++)
		weir_stats_read(all[i].now);
}

static int look(struct process *p)
{
	struct weir_stats *next = p->spare ? p->spare : p->before;
	int err = weir_stats_read(next);

	if (err)
		return err;
	p->spare = NULL;
	p->before = p->now;
	p->now = next;
	return process_info(p).alive ? 0 : -ESRCH;
}

/* Of an offered page: two looks at what it measures from now on. */
static int look_anew(struct process *p)
{
	int err = weir_stats_want(p->now, p->want_ns), i;

	for (i = 0; i < 2 && !err; i++) {
		wait_for_reactors();
		err = look(p);
	}
	return err;
}

int process_open(struct process *p, int64_t pid, uint64_t want_ns)
{
	int err, status;

	memset(p, 0, sizeof(*p));
	p->want_ns = want_ns;
	err = weir_stats_open(&p->now, pid);
	if (!err)
		err = weir_stats_open(&p->spare, pid);
	if (err)
		status = failed("top: %s", weir_why());
	else if (process_info(p).offered && (err = look_anew(p)))
		status = process_failed(p, err);
	else
		return EXIT_OK;
	process_close(p);
	return status;
}

void process_close(struct process *p)
{
	weir_stats_close(p->now);
	weir_stats_close(p->before);
	weir_stats_close(p->spare);
}

/* What an offered page has is old if the last look is longer ago than was asked for. */
static bool is_old(const struct process *p)
{
	struct weir_stats_info info = process_info(p);
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return info.offered && (uint64_t)now.tv_sec * WEIR_SEC +
		(uint64_t)now.tv_nsec - info.read_ns >= p->want_ns;
}

int process_look(struct process *p)
{
	int err;

	if (is_old(p))
		return look_anew(p);
	err = weir_stats_want(p->now, p->want_ns);
	return err ? err : look(p);
}

int process_failed(const struct process *p, int err)
{
	if (err == -ESRCH)
		return failed("top: process %lld has ended",
			      (long long)process_info(p).pid);
	return failed("top: %s", weir_why());
}

int histogram_of(const struct weir_stats *s, uint32_t i)
{
	struct weir_stats_field f = { .size = sizeof(f) };

	for (uint32_t j = 0; !weir_stats_field(s, i, j, &f); j++)
		if (f.type == WEIR_STATS_HISTOGRAM)
			return (int)j;
	return -1;
}

/* Sections for events that have not happened yet are not shown. */
static bool is_empty(const struct weir_stats *s, uint32_t i)
{
	struct weir_stats_field f = { .size = sizeof(f) };
	int j = histogram_of(s, i);

	return j >= 0 && !weir_stats_field(s, i, (uint32_t)j, &f) && !f.value;
}

bool next_section(const struct weir_stats *s, struct section *sec)
{
	sec->s.size = sizeof(sec->s);
	for (sec->i++; !weir_stats_section(s, sec->i, &sec->s); sec->i++)
		if (!is_empty(s, sec->i))
			return true;
	return false;
}

uint64_t value_of(const struct weir_stats *s, uint32_t i, const char *name)
{
	uint64_t value = 0;

	weir_stats_value(s, i, name, &value);
	return value;
}

int64_t section_before(const struct process *p, const struct section *sec)
{
	struct weir_stats_section s = { .size = sizeof(s) };

	for (uint32_t i = 0; p->before; i++) {
		if (weir_stats_section(p->before, i, &s))
			break;
		if (s.id == sec->s.id && !strcmp(s.kind, sec->s.kind))
			return i;
	}
	return -1;
}

static uint64_t read_at(const struct weir_stats *s)
{
	struct weir_stats_info info = { .size = sizeof(info) };

	weir_stats_info(s, &info);
	return info.read_ns;
}

/* A page does not say when a section began.  The start of its process is an
 * estimate, which is right for most sections. */
static uint64_t age_of(const struct process *p)
{
	struct weir_stats_info info = process_info(p);
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * WEIR_SEC + (uint64_t)now.tv_nsec -
	       info.since_ns;
}

/* The nanoseconds that rates of @sec refer to. */
static uint64_t span_of(const struct process *p, const struct section *sec)
{
	uint64_t span;

	if (section_before(p, sec) < 0)
		span = age_of(p);
	else
		span = read_at(p->now) - read_at(p->before);
	return span && span < INT64_MAX ? span : 1;
}

double rate_of(const struct process *p, const struct section *sec,
	       const char *name)
{
	uint64_t value = value_of(p->now, sec->i, name), before = 0;
	int64_t i = section_before(p, sec);

	if (i >= 0)
		before = value_of(p->before, (uint32_t)i, name);
	if (value < before)
		return 0;
	return (double)(value - before) * 1e9 / (double)span_of(p, sec);
}
