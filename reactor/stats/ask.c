/* SPDX-License-Identifier: BSD-3-Clause */
/* The getters for a snapshot of a page. */

#include <errno.h>
#include <string.h>

#include "base/opts.h"
#include "reactor/stats/read.h"

int weir_stats_info(const struct weir_stats *s, struct weir_stats_info *ret)
{
	struct weir_stats_info info;

	snapshot_info(&s->now, &info);
	return opts_give(ret, &info, sizeof(info), "weir_stats_info");
}

static const struct stats_kind_entry *kind_of(const struct weir_stats *s,
					      uint32_t i)
{
	return &s->now.kinds[s->now.sections[i].head.kind - 1];
}

int weir_stats_section(const struct weir_stats *s, uint32_t i,
		       struct weir_stats_section *ret)
{
	const struct read_section *from;
	struct weir_stats_section section;

	if (i >= s->now.n_sections)
		return -ENOENT;
	from = &s->now.sections[i];
	section = (struct weir_stats_section){
		.kind = kind_of(s, i)->name,
		.label = from->head.label,
		.id = from->head.id,
		.parent = from->head.parent,
		.stamp_ns = from->head.stamp_ns,
		.n_fields = kind_of(s, i)->n_fields,
		.torn = from->torn,
	};
	return opts_give(ret, &section, sizeof(section), "weir_stats_section");
}

/* Field @j of section @i, and its words. */
static const struct stats_field_entry *find(const struct weir_stats *s,
					    uint32_t i, uint32_t j,
					    const uint64_t **counters)
{
	const struct stats_field_entry *f;

	if (i >= s->now.n_sections || j >= kind_of(s, i)->n_fields)
		return NULL;
	f = &s->now.fields[kind_of(s, i)->first_field + j];
	*counters = s->now.counters + s->now.sections[i].counters + f->counter;
	return f;
}

static uint64_t total(const struct stats_field_entry *f,
		      const uint64_t *counters)
{
	uint64_t n = 0;

	for (uint32_t k = 0; k < f->n_counters; k++)
		n += counters[k];
	return n;
}

int weir_stats_field(const struct weir_stats *s, uint32_t i, uint32_t j,
		     struct weir_stats_field *ret)
{
	struct weir_stats_field field;
	const struct stats_field_entry *f;
	const uint64_t *counters;

	f = find(s, i, j, &counters);
	if (!f)
		return -ENOENT;
	field = (struct weir_stats_field){
		.name = f->name,
		.help = f->help,
		.type = f->type,
		.unit = f->unit,
		.value = f->type == WEIR_STATS_HISTOGRAM ? total(f, counters) :
							   counters[0],
	};
	return opts_give(ret, &field, sizeof(field), "weir_stats_field");
}

int weir_stats_value(const struct weir_stats *s, uint32_t i, const char *name,
		     uint64_t *ret)
{
	struct weir_stats_field f = { .size = sizeof(f) };
	uint32_t j;

	for (j = 0; !weir_stats_field(s, i, j, &f); j++)
		if (!strcmp(f.name, name)) {
			*ret = f.value;
			return 0;
		}
	return -ENOENT;
}

int weir_stats_bucket(const struct weir_stats *s, uint32_t i, uint32_t j,
		      uint32_t k, uint64_t *end, uint64_t *count)
{
	const struct stats_field_entry *f;
	const uint64_t *counters;

	f = find(s, i, j, &counters);
	if (!f || f->type != WEIR_STATS_HISTOGRAM || k >= f->n_counters)
		return -ENOENT;
	*end = k + 1 == f->n_counters ?
		       UINT64_MAX :
		       histogram_begin(k + 1, f->shift, f->sub_bits);
	*count = counters[k];
	return 0;
}

/* How many values there are up to the quantile, without overflow. */
static uint64_t rank(uint64_t n, uint32_t ppm)
{
	if (ppm >= 1000000)
		return n;
	return n / 1000000 * ppm + n % 1000000 * ppm / 1000000;
}

int weir_stats_quantile(const struct weir_stats *s, uint32_t i, uint32_t j,
			uint32_t parts_per_million, uint64_t *ret)
{
	const struct stats_field_entry *f;
	uint64_t below = 0, end = 0, count, wanted;
	const uint64_t *counters;
	uint32_t k;

	f = find(s, i, j, &counters);
	if (!f || f->type != WEIR_STATS_HISTOGRAM)
		return -ENOENT;
	wanted = rank(total(f, counters), parts_per_million);
	for (k = 0; !weir_stats_bucket(s, i, j, k, &end, &count); k++) {
		below += count;
		if (below && below >= wanted)
			break;
	}
	*ret = below ? end : 0;
	return 0;
}
