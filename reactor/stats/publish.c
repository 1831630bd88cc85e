/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What is on the page: records, latencies, a reactor's own sections, and when
 * they are written.
 */

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "base/why.h"
#include "reactor/op-inline.h"
#include "reactor/stats/page-internal.h"
#include "reactor/stats/publish.h"

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

static const struct stats_kind operation_kind = STATS_KIND("operation", fields);

/* The first is for what the others have no capacity for. */
static void stats_times_add(struct stats_reactor *s)
{
	uint32_t parent = stats_record_id(s->record);

	for (int i = 0; i < TIMES_MAX; i++)
		s->times[i].record = stats_record_add(&operation_kind, parent,
						      i ? "" : "other");
	s->every = 1;
	s->weight = 1;
	s->random = UINT64_C(0x9e3779b97f4a7c15);
}

/* The records, and how many operations are to be timed. */
static void stats_times_del(struct stats_reactor *s)
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

static void stats_times_adapt(struct weir_reactor *r, uint64_t now)
{
	struct stats_reactor *s = r->page;
	uint64_t begun = r->n_begun - s->adapted_begun;
	uint64_t elapsed = now - s->adapted_ns;

	/* A shorter time is too short for a rate. */
	if (elapsed < WEIR_MSEC || s->resting)
		return;
	s->adapted_ns = now;
	s->adapted_begun = r->n_begun;
	s->every = begun / (elapsed / (WEIR_SEC / TIMED_PER_SEC) + 1) + 1;
	/* An operation drawn at a higher rate may be far ahead. */
	if (r->time_at > r->n_begun + 2 * s->every)
		draw(r);
}

/* Deferred operations are counted as begun but are not timed, so if the one
 * that was drawn is deferred, none is timed.  If all are timed, none is
 * skipped. */
static bool was_drawn(const struct weir_reactor *r)
{
	return r->n_begun == r->time_at || r->page->weight == 1;
}

void stats_time_begin(struct weir_reactor *r, struct weir_op *op,
		      uint64_t since)
{
	struct stats_reactor *s = r->page;

	reactor_check_thread(r);
	if (!s) {
		r->time_at = UINT64_MAX;
		return;
	}
	if (was_drawn(r)) {
		op->flags |= OP_TIMED;
		op->backend[OP_BEGUN_NS] = since ? since :
						    r->backend->now(r);
		op->backend[OP_WEIGHT] = s->weight;
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

static struct stats_record *find(struct stats_reactor *s, const char *name)
{
	size_t at = (uintptr_t)name / 8 % (TIMES_MAX - 1), i;
	struct stats_time *t;

	for (i = 0; i < TIMES_MAX - 1; i++) {
		t = &s->times[1 + (at + i) % (TIMES_MAX - 1)];
		if (t->name == name)
			return t->record;
		if (!t->name) {
			t->name = name;
			name_record(t->record, name);
			return t->record;
		}
	}
	return s->times[0].record;
}

static void add(uint64_t *counter, uint64_t n)
{
	word_set(counter, *counter + n);
}

static bool stats_is_ours(const struct stats_record *record);

void stats_time_end(struct weir_reactor *r, struct weir_op *op, int64_t res)
{
	struct stats_reactor *s = r->page;
	uint64_t now = r->backend->now(r), weight = op->backend[OP_WEIGHT];
	uint64_t ns = now - op->backend[OP_BEGUN_NS];
	struct stats_record *record = find(s, op_name(op));

	reactor_check_thread(r);
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

/* Kinds and records in the page of this process. */

static void *at(uint64_t off)
{
	return (char *)page.header + off;
}

/* The number of words of @kind. */
static uint32_t stats_kind_counters(const struct stats_kind *kind)
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

/* The counts that readers use are written last. */
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
	page.kinds[h->n_kinds] = kind->id;
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
		if (page.kinds[i] == kind->id)
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
static bool stats_is_ours(const struct stats_record *record)
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
static void stats_put_word(struct stats_record *record, uint32_t i, uint64_t value)
{
	if (stats_is_ours(record))
		word_set(&record->counters[i], value);
}

/* When a reactor copies its numbers to the page, and which. */

#define BUSY_NS WEIR_MSEC	/* Between copies of a busy reactor. */
#define TURNS_MAX 64u		/* Likewise, however short they are. */
#define NS_PER_WORD 100u

struct reactor_counters {
	uint64_t state, asleep, tid, cpu;
	uint64_t busy_ns, spin_ns, sleep_ns;
	uint64_t turns, sleeps, started, completed, refused;
	uint64_t timers, syscalls, overflows;
	uint64_t in_flight, in_flight_max, timed_every;
};

static const struct stats_field reactor_fields[] = {
	STATS_NOW("state", "1: running, 2: stopping, 3: stopped"),
	STATS_NOW("asleep", "1: in the kernel, waiting, since it was written"),
	STATS_NOW("tid", "Thread, for gdb, perf and taskset"),
	STATS_NOW("cpu", "CPU that it was on when it was written"),
	STATS_TIME("busy_ns", "Time in callbacks and in the loop itself"),
	STATS_TIME("spin_ns", "Time spent looking for work in user space"),
	STATS_TIME("sleep_ns", "Time spent in the kernel, waiting"),
	STATS_COUNT("turns", "Turns of the loop"),
	STATS_COUNT("sleeps", "Times it went to sleep"),
	STATS_COUNT("started", "Operations started"),
	STATS_COUNT("completed", "Operations completed"),
	STATS_COUNT("refused", "Starts answered -EAGAIN"),
	STATS_COUNT("timers", "Timers that have expired"),
	STATS_COUNT("syscalls", "System calls of the loop: submit and wait"),
	STATS_COUNT("overflows", "Times the completion queue ran over"),
	STATS_NOW("in_flight", "Operations in flight"),
	STATS_NOW("in_flight_max", "Operations that can be in flight"),
	STATS_NOW("timed_every", "One operation in so many is timed"),
};
STATS_FITS(reactor_fields, struct reactor_counters, state);

static const struct stats_kind reactor_kind =
	STATS_KIND("reactor", reactor_fields);

struct mailbox_counters {
	uint64_t posted, taken, depth, capacity, wakes, refused;
};

static const struct stats_field mailbox_fields[] = {
	STATS_COUNT("posted", "Posts put into the mailbox"),
	STATS_COUNT("taken", "Posts that have run"),
	STATS_NOW("depth", "Posts that wait"),
	STATS_NOW("capacity", "Posts that fit"),
	STATS_COUNT("wakes", "Wake-ups that senders paid for"),
	STATS_COUNT("refused", "Posts and calls answered -EAGAIN, rings' too"),
};
STATS_FITS(mailbox_fields, struct mailbox_counters, posted);

static const struct stats_kind mailbox_kind =
	STATS_KIND("mailbox", mailbox_fields);

int weir_reactor_stats(struct weir_reactor *r, struct weir_reactor_stats *ret)
{
	struct weir_reactor_stats s = r->stats;
	uint64_t age;

	reactor_check_thread(r);
	age = r->backend->now(r) - r->wait.born_ns;
	s.busy_ns = age - s.spin_ns - s.sleep_ns;
	s.started = r->n_begun;
	s.completed = r->begun_max - r->ops_max;
	s.in_flight = reactor_in_flight(r);
	s.wakes = atomic_load(&r->mailbox.wakes);
	return opts_give(ret, &s, sizeof(s), "weir_reactor_stats");
}

static void put_reactor(struct weir_reactor *r, uint64_t now)
{
	struct weir_reactor_stats s = { .size = sizeof(s) };
	struct reactor_counters w;

	weir_reactor_stats(r, &s);
	w = (struct reactor_counters){
		.state = r->state,
		.tid = (uint64_t)r->page->tid,
		.cpu = (uint64_t)sched_getcpu(),
		.busy_ns = s.busy_ns,
		.spin_ns = s.spin_ns,
		.sleep_ns = s.sleep_ns,
		.turns = s.turns,
		.sleeps = s.sleeps,
		.started = s.started,
		.completed = s.completed,
		.refused = s.refused,
		.timers = s.timers,
		.syscalls = s.syscalls,
		.overflows = s.overflows,
		.in_flight = s.in_flight,
		.in_flight_max = r->ops_max,
		.timed_every = r->page->every,
	};
	stats_put(r->page->record, now, &w);
}

static void put_mailbox(struct weir_reactor *r, uint64_t now)
{
	struct mailbox *box = &r->mailbox;
	uint64_t posted = atomic_load_explicit(&box->tail,
					       memory_order_relaxed);
	struct mailbox_counters w = {
		.posted = posted,
		.taken = box->head,
		.depth = posted - box->head,
		.capacity = box->mask + 1,
		.wakes =
			atomic_load_explicit(&box->wakes, memory_order_relaxed),
		.refused = atomic_load_explicit(&box->refused,
						memory_order_relaxed),
	};

	stats_put(r->page->mailbox, now, &w);
}

/* No more of it: this is a child of fork(), and the page its parent's. */
static void forget(struct weir_reactor *r)
{
	r->publish_at = UINT64_MAX;
	r->time_at = UINT64_MAX;
}

static bool is_forgotten(const struct weir_reactor *r)
{
	return !stats_is_ours(r->page->record);
}

static void publish(struct weir_reactor *r, uint64_t now)
{
	struct stats_reactor *s = r->page;
	struct stats_item *item;

	if (unlikely(is_forgotten(r))) {
		forget(r);
		return;
	}
	stats_times_adapt(r, now);
	put_reactor(r, now);
	put_mailbox(r, now);
	for (item = s->items; item; item = item->next)
		item->publish(item, now);
	s->last_ns = now;
	s->last_turn = r->stats.turns;
}

/* The number of turns that fill the time, if turns go on taking as long. */
static void set_next(struct weir_reactor *r, uint64_t now)
{
	struct stats_reactor *s = r->page;
	uint64_t wanted = s->gap_ns > BUSY_NS ? s->gap_ns : BUSY_NS;
	uint64_t turns = r->stats.turns - s->last_turn;
	uint64_t elapsed = now - s->last_ns;

	turns = elapsed > wanted ? turns * wanted / elapsed : 2 * turns;
	if (turns > TURNS_MAX)
		turns = TURNS_MAX;
	r->publish_at = r->stats.turns + (turns ? turns : 1);
}

/* Whether numbers are wanted at all.  What has begun meanwhile was not timed. */
static bool is_wanted(struct weir_reactor *r, uint64_t now)
{
	struct stats_reactor *s = r->page;
	const struct stats_header *h = page.header;

	if (likely(!h || !__atomic_load_n(&h->offered, __ATOMIC_RELAXED) ||
		   __atomic_load_n(&h->wanted_ns, __ATOMIC_RELAXED) > now)) {
		if (unlikely(s->resting)) {
			s->resting = false;
			s->every = 1;
			s->adapted_ns = now;
			s->adapted_begun = r->n_begun;
			draw(r);
		}
		return true;
	}
	s->resting = true;
	r->time_at = UINT64_MAX;
	return false;
}

void stats_in_turn(struct weir_reactor *r)
{
	uint64_t now = reactor_now_fresh(r);
	uint64_t elapsed = now - r->page->last_ns;

	reactor_check_thread(r);
	if (!is_wanted(r, now))
		return;
	set_next(r, now);
	if (elapsed >= BUSY_NS && elapsed >= r->page->gap_ns)
		publish(r, now);
}

static void set_asleep(struct weir_reactor *r, uint64_t asleep)
{
	stats_put_word(r->page->record,
		       offsetof(struct reactor_counters, asleep) / 8, asleep);
}

uint64_t stats_before_sleep(struct weir_reactor *r, uint64_t now,
			    uint64_t until)
{
	uint64_t next = r->page->last_ns + r->page->gap_ns;

	reactor_check_thread(r);
	if (!is_wanted(r, now)) {
		next = until;
	} else if (now >= next) {
		publish(r, now);
		next = until;
	}
	set_asleep(r, 1);
	return next < until ? next : until;
}

void stats_after_sleep(struct weir_reactor *r)
{
	reactor_check_thread(r);
	set_asleep(r, 0);
}

int weir_stats_update(struct weir_reactor *r)
{
	reactor_check_thread(r);
	if (!r->page || is_forgotten(r))
		return -ENOENT;
	publish(r, reactor_now_fresh(r));
	return 0;
}

static void add_counters(struct stats_reactor *s, uint32_t n)
{
	s->n_counters += n;
	s->gap_ns = (uint64_t)s->n_counters * NS_PER_WORD;
}

void stats_begin(struct weir_reactor *r)
{
	struct stats_reactor *s;
	uint32_t id;

	reactor_check_thread(r);
	r->publish_at = UINT64_MAX;
	r->time_at = UINT64_MAX;
	if (r->backend->isolated || !stats_wanted())
		return;
	s = mem_calloc(1, sizeof(*s));
	if (!s)
		return;		/* A reactor does without. */
	s->record = stats_record_add(&reactor_kind, 0, r->backend->name);
	if (!s->record) {
		free(s);	/* The page is full, and counts this. */
		return;
	}
	s->tid = (int64_t)syscall(SYS_gettid);
	id = stats_record_id(s->record);
	s->mailbox = stats_record_add(&mailbox_kind, id, "");
	s->last_ns = r->wait.born_ns;
	s->adapted_ns = s->last_ns;
	add_counters(s, stats_kind_counters(&reactor_kind) +
				stats_kind_counters(&mailbox_kind));
	stats_times_add(s);
	r->page = s;
	r->publish_at = 0;
	r->time_at = 0;
	is_wanted(r, s->last_ns);
}

void stats_end(struct weir_reactor *r)
{
	struct stats_reactor *s = r->page;

	reactor_check_thread(r);
	if (!s)
		return;
	stats_times_del(s);
	stats_record_del(s->mailbox);
	stats_record_del(s->record);
	free(s);
}

void stats_item_add(struct weir_reactor *r, struct stats_item *item,
		    const struct stats_kind *kind,
		    void (*fn)(struct stats_item *item, uint64_t now_ns),
		    uint32_t parent, const char *label)
{
	struct stats_reactor *s = r->page;

	reactor_check_thread(r);
	if (!s || is_forgotten(r))
		return;
	if (!parent)
		parent = stats_record_id(s->record);
	item->record = stats_record_add(kind, parent, label);
	if (!item->record)
		return;
	item->publish = fn;
	item->r = r;
	item->n_counters = stats_kind_counters(kind);
	add_counters(s, item->n_counters);
	item->next = s->items;
	item->pprev = &s->items;
	if (item->next)
		item->next->pprev = &item->next;
	s->items = item;
}

void stats_item_del(struct stats_item *item)
{
	if (!item->record)
		return;
	*item->pprev = item->next;
	if (item->next)
		item->next->pprev = item->pprev;
	add_counters(item->r->page, 0u - item->n_counters);
	stats_record_del(item->record);
	item->record = NULL;
}
