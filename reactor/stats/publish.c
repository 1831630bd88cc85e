/* SPDX-License-Identifier: BSD-3-Clause */
/* When a reactor copies its numbers to the page, and which. */

#include <sched.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/why.h"
#include "reactor/op-inline.h"
#include "reactor/stats/publish.h"

#define BUSY_NS WEIR_MSEC	/* From copy to copy, while it is busy. */
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

/* So many turns as fill the time, if they go on as they did. */
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

void stats_in_turn(struct weir_reactor *r)
{
	uint64_t now = reactor_now_fresh(r);
	uint64_t elapsed = now - r->page->last_ns;

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

	if (now >= next) {
		publish(r, now);
		next = until;
	}
	set_asleep(r, 1);
	return next < until ? next : until;
}

void stats_after_sleep(struct weir_reactor *r)
{
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

	r->publish_at = UINT64_MAX;
	r->time_at = UINT64_MAX;
	if (r->backend->isolated || !stats_wanted())
		return;
	s = mem_calloc(1, sizeof(*s));
	if (!s)
		return;		/* A reactor does without. */
	s->record = stats_record_add(&reactor_kind, 0, r->backend->name);
	if (!s->record) {
		free(s);	/* There is no capacity, which is counted. */
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
}

void stats_end(struct weir_reactor *r)
{
	struct stats_reactor *s = r->page;

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
