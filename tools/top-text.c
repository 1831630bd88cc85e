/* SPDX-License-Identifier: BSD-3-Clause */

/* weir top as text: reactors, operations, and then all other sections, as the
 * page describes them. */

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "top.h"

#define STUCK_NS WEIR_SEC	/* Longer than any callback should take. */
#define COLUMNS 80

/* A number of seven columns at most: 12345, 1234.5k, 12.3M. */
static const char *short_number(char buf[16], double n)
{
	static const char units[] = " kMGTPE";
	size_t unit = 0;

	/* As it is rounded below. */
	while (n >= (unit ? 9999.95 : 99999.5) && unit + 2 < sizeof(units)) {
		n /= 1000;
		unit++;
	}
	if (unit)
		snprintf(buf, 16, "%.1f%c", n, units[unit]);
	else
		snprintf(buf, 16, "%.*f", n < 10 && n != (double)(int)n, n);
	return buf;
}

/* 850ns, 12.5us, 3.1ms, 2.0s: likewise. */
static const char *short_time(char buf[16], uint64_t ns)
{
	if (ns == UINT64_MAX)
		snprintf(buf, 16, "more");
	else if (ns < 1000)
		snprintf(buf, 16, "%" PRIu64 "ns", ns);
	else if (ns < 999950)
		snprintf(buf, 16, "%.1fus", (double)ns / 1e3);
	else if (ns < 999950000)
		snprintf(buf, 16, "%.1fms", (double)ns / 1e6);
	else
		snprintf(buf, 16, "%.1fs", (double)ns / 1e9);
	return buf;
}

static void show_head(FILE *out, const struct process *p)
{
	struct weir_stats_info info = process_info(p);

	fprintf(out, "%.40s, process %" PRId64 ", weir %s%s\n", info.program,
		info.pid, info.version, info.alive ? "" : "; it has ended");
	if (info.left_out)
		fprintf(out, "The page is full: %" PRIu64 " sections are not "
			"in it.\n", info.left_out);
	if (!p->before)
		fputs("Rates are means since it was published.\n", out);
}

/* How a reactor has spent the interval; time that is not on the page yet counts
 * as its present state. */
struct split {
	uint64_t busy, spin, sleep;
};

static struct split split_at(const struct weir_stats *s, uint32_t i)
{
	struct weir_stats_section sec = { .size = sizeof(sec) };
	struct weir_stats_info info = { .size = sizeof(info) };
	struct split t;
	uint64_t since;

	weir_stats_section(s, i, &sec);
	weir_stats_info(s, &info);
	since = info.read_ns > sec.stamp_ns ? info.read_ns - sec.stamp_ns : 0;
	t.busy = value_of(s, i, "busy_ns");
	t.spin = value_of(s, i, "spin_ns");
	t.sleep = value_of(s, i, "sleep_ns");
	if (!sec.stamp_ns)
		return t;
	*(value_of(s, i, "asleep") ? &t.sleep : &t.busy) += since;
	return t;
}

static double percent(uint64_t now, uint64_t before, uint64_t all)
{
	return now > before && all ?
	       100.0 * (double)(now - before) / (double)all : 0;
}

static const char *state_of(char buf[24], const struct weir_stats *s,
			    const struct section *sec, uint64_t read_ns)
{
	uint64_t age = read_ns - sec->s.stamp_ns;
	char time[16];

	if (value_of(s, sec->i, "state") == 3)
		return "stopped";
	if (value_of(s, sec->i, "asleep"))
		return "asleep";
	if (sec->s.stamp_ns && age < INT64_MAX && age > STUCK_NS) {
		snprintf(buf, 24, "STUCK %s", short_time(time, age));
		return buf;
	}
	return value_of(s, sec->i, "state") == 2 ? "stopping" : "running";
}

static void show_reactor(FILE *out, const struct process *p,
			 const struct section *sec)
{
	struct split t = split_at(p->now, sec->i), b = { 0 };
	int64_t i = section_before(p, sec);
	char state[24], turns[16], ops[16];
	uint64_t all;

	if (i >= 0)
		b = split_at(p->before, (uint32_t)i);
	all = t.busy + t.spin + t.sleep - b.busy - b.spin - b.sleep;
	fprintf(out, "%-4" PRIu32 " %-6.6s %-12.12s %8" PRIu64 " %3" PRIu64
		" %6.1f %6.1f %6.1f %8s %8s\n", sec->s.id, sec->s.label,
		state_of(state, p->now, sec, process_info(p).read_ns),
		value_of(p->now, sec->i, "tid"),
		value_of(p->now, sec->i, "cpu"),
		percent(t.busy, b.busy, all), percent(t.spin, b.spin, all),
		percent(t.sleep, b.sleep, all),
		short_number(turns, rate_of(p, sec, "turns")),
		short_number(ops, rate_of(p, sec, "completed")));
}

static void show_reactors(FILE *out, const struct process *p)
{
	struct section sec = { .i = UINT32_MAX };

	fputs("\nID   REACTOR STATE           TID CPU  BUSY%  SPIN% SLEEP%  "
	      "TURNS/S    OPS/S\n", out);
	while (next_section(p->now, &sec))
		if (!strcmp(sec.s.kind, "reactor"))
			show_reactor(out, p, &sec);
}

static const char *quantile(char buf[16], const struct process *p,
			    uint32_t i, uint32_t ppm)
{
	int j = histogram_of(p->now, i);
	uint64_t ns = 0;

	if (j >= 0)
		weir_stats_quantile(p->now, i, (uint32_t)j, ppm, &ns);
	return short_time(buf, ns);
}

static void show_operation(FILE *out, const struct process *p,
			   const struct section *sec)
{
	char rate[16], count[16], bad[16], q[4][16];

	fprintf(out, "%-4" PRIu32 " %-16.16s %7s %7s %6s %7s %7s %7s %7s\n",
		sec->s.parent, sec->s.label,
		short_number(rate, rate_of(p, sec, "count")),
		short_number(count, (double)value_of(p->now, sec->i, "count")),
		short_number(bad, (double)value_of(p->now, sec->i, "failed")),
		quantile(q[0], p, sec->i, 500000),
		quantile(q[1], p, sec->i, 990000),
		quantile(q[2], p, sec->i, 999000),
		short_time(q[3], value_of(p->now, sec->i, "max_ns")));
}

static void show_operations(FILE *out, const struct process *p)
{
	struct section sec = { .i = UINT32_MAX };

	fputs("\nOF   OPERATION          OPS/S   COUNT FAILED     P50     P99"
	      "   P99.9     MAX\n", out);
	while (next_section(p->now, &sec))
		if (!strcmp(sec.s.kind, "operation"))
			show_operation(out, p, &sec);
}

/* "bytes 12.3M (1.2M/s)"; fields that are 0 are left out. */
static int name_field(char buf[64], const struct process *p,
		      const struct section *sec,
		      const struct weir_stats_field *f)
{
	char value[16], rate[16];
	double per_s;

	if (!f->value || f->type == WEIR_STATS_HISTOGRAM)
		return 0;
	if (f->unit == WEIR_STATS_NS)
		short_time(value, f->value);
	else
		short_number(value, (double)f->value);
	per_s = f->type == WEIR_STATS_COUNTER ? rate_of(p, sec, f->name) : 0;
	if (per_s >= 0.1 && f->unit != WEIR_STATS_NS)
		return snprintf(buf, 64, "%s %s (%s/s)", f->name, value,
				short_number(rate, per_s));
	return snprintf(buf, 64, "%s %s", f->name, value);
}

/* A section of any kind, with as many fields in a line as fit. */
static void show_other(FILE *out, const struct process *p,
		       const struct section *sec)
{
	struct weir_stats_field f = { .size = sizeof(f) };
	char text[64];
	int at, len;

	at = fprintf(out, "%-4" PRIu32 " %s%s%s%s", sec->s.parent, sec->s.kind,
		     *sec->s.label ? " " : "", sec->s.label,
		     sec->s.torn ? " (torn)" : "");
	for (uint32_t j = 0; !weir_stats_field(p->now, sec->i, j, &f); j++) {
		len = name_field(text, p, sec, &f);
		if (!len)
			continue;
		if (at + len + 2 > COLUMNS)
			at = fprintf(out, "\n      %s", text) - 1;
		else
			at += fprintf(out, "  %s", text);
	}
	fputc('\n', out);
}

static void show_others(FILE *out, const struct process *p)
{
	struct section sec = { .i = UINT32_MAX };

	fputs("\nOF   WHAT ELSE THERE IS\n", out);
	while (next_section(p->now, &sec))
		if (strcmp(sec.s.kind, "operation") &&
		    strcmp(sec.s.kind, "reactor"))
			show_other(out, p, &sec);
}

void top_text(FILE *out, const struct process *p)
{
	show_head(out, p);
	show_reactors(out, p);
	show_operations(out, p);
	show_others(out, p);
}
