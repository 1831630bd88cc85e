/* SPDX-License-Identifier: BSD-3-Clause */

/* Queries of a page.  Two handles of a process take turns: one has the present
 * page, the other the previous one. */

#include <errno.h>
#include <string.h>
#include <time.h>

#include "tool.h"
#include "top.h"

/* A reactor that is awake sees that it is asked within some turns. */
static int ask(struct process *p)
{
	struct timespec ts = { .tv_nsec = 100 * (long)WEIR_MSEC };
	int err = weir_stats_want(p->now, p->want_ns);

	if (err || !process_info(p).offered)
		return err;
	nanosleep(&ts, NULL);
	return weir_stats_read(p->now);
}

int process_open(struct process *p, int64_t pid, uint64_t want_ns)
{
	int status;

	memset(p, 0, sizeof(*p));
	p->want_ns = want_ns;
	if (!weir_stats_open(&p->now, pid) && !ask(p) &&
	    !weir_stats_open(&p->spare, pid))
		return EXIT_OK;
	status = failed("top: %s", weir_why());
	process_close(p);
	return status;
}

void process_close(struct process *p)
{
	weir_stats_close(p->now);
	weir_stats_close(p->before);
	weir_stats_close(p->spare);
}

struct weir_stats_info process_info(const struct process *p)
{
	struct weir_stats_info info = { .size = sizeof(info) };

	weir_stats_info(p->now, &info);
	return info;
}

int process_look(struct process *p)
{
	struct weir_stats *next = p->spare ? p->spare : p->before;

	int err = weir_stats_read(next);

	if (!err)
		err = weir_stats_want(next, p->want_ns);
	if (err)
		return err;
	p->spare = NULL;
	p->before = p->now;
	p->now = next;
	return process_info(p).alive ? 0 : -ESRCH;
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
