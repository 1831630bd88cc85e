/* SPDX-License-Identifier: BSD-3-Clause */

/* weir top as JSON: the whole page, with its own names. */

#include <inttypes.h>

#include "json.h"
#include "top.h"

/* Buckets that are not empty: their ends (null: none), and their counts. */
static void show_buckets(struct json *j, const struct weir_stats *s,
			 uint32_t i, uint32_t field)
{
	uint64_t end, count;

	json_open(j, "buckets", '[');
	for (uint32_t k = 0; !weir_stats_bucket(s, i, field, k, &end, &count);
	     k++) {
		if (!count)
			continue;
		json_open(j, NULL, '{');
		if (end == UINT64_MAX)
			json_null(j, "below");
		else
			json_number(j, "below", end);
		json_number(j, "count", count);
		json_close(j, '}');
	}
	json_close(j, ']');
}

static void show_histogram(struct json *j, const struct weir_stats *s,
			   uint32_t i, uint32_t field, const char *name)
{
	static const struct {
		const char *name;
		uint32_t ppm;
	} wanted[] = {
		{ "p50", 500000 }, { "p90", 900000 }, { "p99", 990000 },
		{ "p99_9", 999000 }, { "p99_99", 999900 },
	};
	uint64_t value = 0;

	json_open(j, name, '{');
	for (size_t k = 0; k < sizeof(wanted) / sizeof(wanted[0]); k++) {
		weir_stats_quantile(s, i, field, wanted[k].ppm, &value);
		if (value == UINT64_MAX)
			json_null(j, wanted[k].name);
		else
			json_number(j, wanted[k].name, value);
	}
	show_buckets(j, s, i, field);
	json_close(j, '}');
}

static void show_fields(struct json *j, const struct weir_stats *s, uint32_t i)
{
	struct weir_stats_field f = { .size = sizeof(f) };

	json_open(j, "fields", '{');
	for (uint32_t k = 0; !weir_stats_field(s, i, k, &f); k++)
		if (f.type == WEIR_STATS_HISTOGRAM)
			show_histogram(j, s, i, k, f.name);
		else
			json_number(j, f.name, f.value);
	json_close(j, '}');
}

void top_json(const struct process *p)
{
	struct weir_stats_info info = process_info(p);
	struct section sec = { .i = UINT32_MAX };
	struct json j = { 0 };

	json_open(&j, NULL, '{');
	json_number(&j, "pid", (uint64_t)info.pid);
	json_string(&j, "program", info.program);
	json_string(&j, "version", info.version);
	json_bool(&j, "alive", info.alive);
	json_number(&j, "since_ns", info.since_ns);
	json_number(&j, "read_ns", info.read_ns);
	json_number(&j, "left_out", info.left_out);
	json_open(&j, "sections", '[');
	while (next_section(p->now, &sec)) {
		json_open(&j, NULL, '{');
		json_string(&j, "kind", sec.s.kind);
		json_string(&j, "label", sec.s.label);
		json_number(&j, "id", sec.s.id);
		json_number(&j, "parent", sec.s.parent);
		json_number(&j, "stamp_ns", sec.s.stamp_ns);
		json_bool(&j, "torn", sec.s.torn);
		show_fields(&j, p->now, sec.i);
		json_close(&j, '}');
	}
	json_close(&j, ']');
	json_close(&j, '}');
}
