/* SPDX-License-Identifier: BSD-3-Clause */
/* Kinds and records in the page of this process. */

#include <stdio.h>
#include <string.h>

#include "reactor/stats/page-internal.h"

static void *at(uint64_t off)
{
	return (char *)page.header + off;
}

uint32_t stats_kind_counters(const struct stats_kind *kind)
{
	uint32_t n = 0, i;

	for (i = 0; i < kind->n_fields; i++)
		n += kind->fields[i].n_counters ? kind->fields[i].n_counters :
						  1;
	return n;
}

static void write_field(struct stats_field_entry *e,
			const struct stats_field *field, uint32_t counter)
{
	snprintf(e->name, sizeof(e->name), "%s", field->name);
	snprintf(e->help, sizeof(e->help), "%s", field->help);
	e->counter = (uint16_t)counter;
	e->n_counters = field->n_counters ? field->n_counters : 1;
	e->type = field->type;
	e->unit = field->unit;
	if (field->type == WEIR_STATS_HISTOGRAM) {
		e->shift = HISTOGRAM_SHIFT;
		e->sub_bits = HISTOGRAM_SUB;
	}
}

/* What readers count with is written last. */
static bool add_kind(const struct stats_kind *kind)
{
	struct stats_header *h = page.header;
	struct stats_kind_entry *e = at(h->kinds_at);
	struct stats_field_entry *f = at(h->fields_at);
	uint32_t counter = 0, i;

	if (h->n_kinds == STATS_KINDS_MAX ||
	    kind->n_fields > STATS_FIELDS_MAX - h->n_fields)
		return false;
	for (i = 0; i < kind->n_fields; i++) {
		write_field(&f[h->n_fields + i], &kind->fields[i], counter);
		counter += f[h->n_fields + i].n_counters;
	}
	snprintf(e[h->n_kinds].name, sizeof(e->name), "%s", kind->name);
	e[h->n_kinds].first_field = h->n_fields;
	e[h->n_kinds].n_fields = kind->n_fields;
	page.kinds[h->n_kinds] = kind;
	__atomic_store_n(&h->n_fields, h->n_fields + kind->n_fields,
			 __ATOMIC_RELEASE);
	__atomic_store_n(&h->n_kinds, h->n_kinds + 1, __ATOMIC_RELEASE);
	return true;
}

/* The number of @kind + 1; 0: no capacity for it. */
static uint32_t kind_number(const struct stats_kind *kind)
{
	uint32_t i;

	for (i = 0; i < page.header->n_kinds; i++)
		if (page.kinds[i] == kind)
			return i + 1;
	return add_kind(kind) ? i + 1 : 0;
}

static struct stats_record *find_free(uint32_t size)
{
	uint64_t off = page.header->records_at;
	struct stats_record *record;

	for (; off < page.header->used; off += record->size) {
		record = at(off);
		if (!record->kind && record->size == size)
			return record;
	}
	return NULL;
}

static struct stats_record *get_record(uint32_t size)
{
	struct stats_header *h = page.header;
	struct stats_record *record = find_free(size);
	uint64_t used = h->used + size;

	if (record)
		return record;
	if (!page_has_capacity(used))
		return NULL;
	record = at(h->used);
	record->size = size;
	word_set(&h->used, used);
	return record;
}

static struct stats_record *record_add(const struct stats_kind *kind,
				       uint32_t parent, const char *label)
{
	uint32_t n_counters = stats_kind_counters(kind);
	uint32_t number = kind_number(kind);
	struct stats_record *record;
	size_t size =
		sizeof(*record) + n_counters * sizeof(record->counters[0]);

	size = (size + STATS_ALIGN - 1) & ~(size_t)(STATS_ALIGN - 1);
	record = number ? get_record((uint32_t)size) : NULL;
	if (!record) {
		page.header->left_out++;
		return NULL;
	}
	record_begin(record);
	for (uint32_t i = 0; i < n_counters; i++)
		word_set(&record->counters[i], 0);
	record->n_counters = n_counters;
	record->id = ++page.last_id;
	record->parent = parent;
	record->stamp_ns = 0;
	snprintf(record->label, sizeof(record->label), "%s", label);
	__atomic_store_n(&record->kind, number, __ATOMIC_RELEASE);
	record_end(record);
	page.n_records++;
	return record;
}

struct stats_record *stats_record_add(const struct stats_kind *kind,
				      uint32_t parent, const char *label)
{
	struct stats_record *record = NULL;

	pthread_mutex_lock(&page.lock);
	if (page.header)
		record = record_add(kind, parent, label);
	pthread_mutex_unlock(&page.lock);
	return record;
}

/* The page does not change while it has records. */
bool stats_is_ours(const struct stats_record *record)
{
	const char *p = (const char *)record;
	const char *begin = (const char *)page.header;

	return begin && p >= begin && p < begin + STATS_SIZE_MAX;
}

void stats_record_del(struct stats_record *record)
{
	if (!record)
		return;
	pthread_mutex_lock(&page.lock);
	if (stats_is_ours(record)) {
		record_begin(record);
		__atomic_store_n(&record->kind, 0, __ATOMIC_RELEASE);
		record_end(record);
		page.n_records--;
	}
	pthread_mutex_unlock(&page.lock);
}

uint32_t stats_record_id(const struct stats_record *record)
{
	return record ? record->id : 0;
}

void stats_put(struct stats_record *record, uint64_t now_ns,
	       const void *counters)
{
	const char *from = counters;
	uint64_t counter;
	uint32_t i;

	if (!stats_is_ours(record))
		return;
	record_begin(record);
	for (i = 0; i < record->n_counters; i++, from += sizeof(counter)) {
		memcpy(&counter, from, sizeof(counter));
		word_set(&record->counters[i], counter);
	}
	word_set(&record->stamp_ns, now_ns);
	record_end(record);
}

/* One word is whole in any case, so the sequence stays as it is. */
void stats_put_word(struct stats_record *record, uint32_t i, uint64_t value)
{
	if (stats_is_ours(record))
		word_set(&record->counters[i], value);
}
