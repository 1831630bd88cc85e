/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Latencies of operations, by kind, from start to callback.
 *
 * To read the clock twice costs as much as half an empty operation, so not all
 * are timed if there are many; which ones is drawn, so that what alternates
 * with something else is not always passed over.  Each counts for as many as it
 * was drawn from, so numbers add up to what was started, nearly.
 *
 * What is timed is written to the page at once.
 */

#include <string.h>

#include "reactor/op-inline.h"
#include "reactor/stats/page-internal.h"
#include "reactor/stats/publish.h"

#define TIMED_PER_SEC 8192u	/* More are not needed. */

enum { WORD_COUNT, WORD_FAILED, WORD_SUM, WORD_MAX, WORD_TIMED, WORD_BUCKETS };

static const struct stats_field fields[] = {
	STATS_COUNT("count", "Operations, estimated where not all are timed"),
	STATS_COUNT("failed", "Of them, those that ended with an error"),
	STATS_TIME("sum_ns", "Sum of their times from start to callback"),
	{ "max_ns", "The longest that was measured", WEIR_STATS_GAUGE,
	  WEIR_STATS_NS, 0 },
	STATS_COUNT("timed", "Operations that were measured"),
	{ "latency_ns", "Time from start to callback", WEIR_STATS_HISTOGRAM,
	  WEIR_STATS_NS, HISTOGRAM_COUNTERS },
};

static const struct stats_kind kind = STATS_KIND("operation", fields);

/* The first is for what the others have no capacity for. */
void stats_times_add(struct stats_reactor *s)
{
	uint32_t parent = stats_record_id(s->record);

	for (int i = 0; i < TIMES_MAX; i++)
		s->times[i].record = stats_record_add(&kind, parent,
						      i ? "" : "other");
	s->every = 1;
	s->weight = 1;
	s->random = UINT64_C(0x9e3779b97f4a7c15);
}

void stats_times_del(struct stats_reactor *s)
{
	for (int i = 0; i < TIMES_MAX; i++)
		stats_record_del(s->times[i].record);
}

/* The next: after 1 to 2 * @every - 1, each as likely. */
static void draw(struct weir_reactor *r)
{
	struct stats_reactor *s = r->page;

	s->random ^= s->random << 13;
	s->random ^= s->random >> 7;
	s->random ^= s->random << 17;
	s->weight = s->every;
	r->time_at = r->n_begun + 1 + s->random % (2 * s->every - 1);
}

void stats_times_adapt(struct weir_reactor *r, uint64_t now)
{
	struct stats_reactor *s = r->page;
	uint64_t begun = r->n_begun - s->adapted_begun;
	uint64_t elapsed = now - s->adapted_ns;

	/* Of a shorter time nothing can be said. */
	if (elapsed < WEIR_MSEC)
		return;
	s->adapted_ns = now;
	s->adapted_begun = r->n_begun;
	s->every = begun / (elapsed / (WEIR_SEC / TIMED_PER_SEC) + 1) + 1;
	/* What was drawn when there were more may be far away. */
	if (r->time_at > r->n_begun + 2 * s->every)
		draw(r);
}

/* What is deferred begins, too, and is not timed: if the one that was drawn was
 * such, none is.  Of those that are all timed, none is passed over. */
static bool was_drawn(const struct weir_reactor *r)
{
	return r->n_begun == r->time_at || r->page->weight == 1;
}

void stats_time_begin(struct weir_reactor *r, struct weir_op *op,
		      uint64_t since)
{
	struct stats_reactor *s = r->page;

	if (!s) {
		r->time_at = UINT64_MAX;
		return;
	}
	if (was_drawn(r)) {
		op->flags |= OP_TIMED;
		op->reserved[OP_BEGUN_NS] = since ? since :
						    r->backend->now(r);
		op->reserved[OP_WEIGHT] = s->weight;
	}
	draw(r);
}

static void name_record(struct stats_record *record, const char *name)
{
	if (!record)
		return;
	record_begin(record);
	strncpy(record->label, name, sizeof(record->label) - 1);
	record_end(record);
}

static struct stats_record *find(struct stats_reactor *s,
				 const struct weir_op_class *cls)
{
	size_t at = (uintptr_t)cls / sizeof(*cls) % (TIMES_MAX - 1), i;
	struct stats_time *t;

	for (i = 0; i < TIMES_MAX - 1; i++) {
		t = &s->times[1 + (at + i) % (TIMES_MAX - 1)];
		if (t->cls == cls)
			return t->record;
		if (!t->cls) {
			t->cls = cls;
			name_record(t->record, cls->name);
			return t->record;
		}
	}
	return s->times[0].record;
}

static void add(uint64_t *counter, uint64_t n)
{
	word_set(counter, *counter + n);
}

void stats_time_end(struct weir_reactor *r, struct weir_op *op, int64_t res)
{
	struct stats_reactor *s = r->page;
	uint64_t now = r->backend->now(r), weight = op->reserved[OP_WEIGHT];
	uint64_t ns = now - op->reserved[OP_BEGUN_NS];
	struct stats_record *record = find(s, op->cls);

	if (!stats_is_ours(record))
		return;
	record_begin(record);
	add(&record->counters[WORD_COUNT], weight);
	if (res < 0)
		add(&record->counters[WORD_FAILED], weight);
	add(&record->counters[WORD_SUM], ns * weight);
	if (ns > record->counters[WORD_MAX])
		word_set(&record->counters[WORD_MAX], ns);
	add(&record->counters[WORD_TIMED], 1);
	add(&record->counters[WORD_BUCKETS + histogram_bucket(ns)], weight);
	word_set(&record->stamp_ns, now);
	record_end(record);
}
