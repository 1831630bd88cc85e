/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The timer wheel: its promises at the edges, one by one, and then a million
 * random steps beside a sorted array that is too simple to be wrong.
 *
 * Time is a number here: nothing sleeps, so years pass in microseconds.
 */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "reactor/wheel.h"

#define TICK WHEEL_TICK_NS
#define SECOND UINT64_C(1000000000)
#define HOUR (3600 * SECOND)
#define YEAR (365 * 24 * HOUR)

/* Not a multiple of anything the wheel's arithmetic is made of. */
#define START UINT64_C(123456789012345)

/* The start of the first tick that is not before @ns. */
static uint64_t due_ns(uint64_t ns)
{
	return (ns + TICK - 1) / TICK * TICK;
}

/* The next due node; NULL means that there is none, not just none yet. */
static struct weir_timer_node *expire(struct wheel *w, uint64_t now)
{
	struct weir_timer_node *n;

	do {
		n = wheel_expire(w, now);
	} while (!n && wheel_next(w) <= now);
	return n;
}

static struct wheel *wheel_at(uint64_t now)
{
	struct wheel *w = malloc(sizeof(*w));

	assert_non_null(w);
	wheel_init(w, now);
	return w;
}

static struct weir_timer_node *nodes(size_t count)
{
	struct weir_timer_node *n = calloc(count, sizeof(*n));

	assert_non_null(n);
	return n;
}

static void an_empty_wheel_has_nothing_to_wait_for(void **state)
{
	struct wheel *w = wheel_at(START);

	(void)state;
	assert_true(wheel_next(w) == UINT64_MAX);
	assert_null(wheel_expire(w, START));
	assert_null(wheel_expire(w, START + YEAR));
	assert_int_equal(w->n, 0);
	free(w);
}

static void a_node_is_pending_from_add_to_del_or_expiry(void **state)
{
	struct wheel *w = wheel_at(START);
	struct weir_timer_node n = { 0 };

	(void)state;
	assert_false(wheel_pending(&n));
	wheel_add(w, &n, START + SECOND);
	assert_true(wheel_pending(&n));
	assert_int_equal(w->n, 1);
	wheel_del(w, &n);
	assert_false(wheel_pending(&n));
	assert_int_equal(w->n, 0);

	wheel_add(w, &n, START + SECOND);
	assert_ptr_equal(wheel_expire(w, START + 2 * SECOND), &n);
	assert_false(wheel_pending(&n));
	assert_int_equal(w->n, 0);
	assert_true(wheel_next(w) == UINT64_MAX);
	free(w);
}

static void del_of_an_idle_node_has_no_effect(void **state)
{
	struct wheel *w = wheel_at(START);
	struct weir_timer_node n = { 0 }, other = { 0 };

	(void)state;
	wheel_add(w, &other, START + SECOND);
	wheel_del(w, &n);
	assert_int_equal(w->n, 1);
	wheel_add(w, &n, START + SECOND);
	wheel_del(w, &n);
	wheel_del(w, &n);
	assert_int_equal(w->n, 1);
	assert_ptr_equal(expire(w, START + 2 * SECOND), &other);
	assert_null(expire(w, START + 2 * SECOND));
	free(w);
}

static void rearm_moves_a_pending_node_and_adds_an_idle_one(void **state)
{
	struct wheel *w = wheel_at(START);
	struct weir_timer_node n = { 0 };

	(void)state;
	wheel_rearm(w, &n, START + SECOND);
	assert_int_equal(w->n, 1);
	wheel_rearm(w, &n, START + HOUR);
	assert_int_equal(w->n, 1);
	assert_null(expire(w, START + HOUR - 1));
	wheel_rearm(w, &n, START + HOUR + SECOND);
	assert_true(wheel_next(w) <= due_ns(START + HOUR + SECOND));
	assert_ptr_equal(expire(w, START + 2 * HOUR), &n);
	assert_int_equal(w->n, 0);
	free(w);
}

/* Left where it was, it must not hide what is due between its two times. */
static void a_node_rearmed_for_later_wakes_once_at_its_old_time(void **state)
{
	struct wheel *w = wheel_at(START);
	struct weir_timer_node late = { 0 }, early = { 0 };

	(void)state;
	wheel_add(w, &late, START + SECOND);
	wheel_add(w, &early, START + 2 * SECOND);
	wheel_rearm(w, &late, START + HOUR);
	assert_true(wheel_next(w) <= due_ns(START + 2 * SECOND));
	assert_null(expire(w, wheel_next(w)));
	assert_true(wheel_next(w) == due_ns(START + 2 * SECOND));
	assert_ptr_equal(expire(w, START + 2 * SECOND + TICK), &early);
	assert_true(wheel_next(w) == due_ns(START + HOUR));
	assert_null(expire(w, START + HOUR - 1));
	assert_ptr_equal(expire(w, START + HOUR + TICK), &late);
	free(w);
}

static void rearmed_for_later_and_then_for_earlier_it_is_early(void **state)
{
	struct wheel *w = wheel_at(START);
	struct weir_timer_node n = { 0 };

	(void)state;
	wheel_add(w, &n, START + SECOND);
	wheel_rearm(w, &n, START + HOUR);
	wheel_rearm(w, &n, START + SECOND / 2);
	assert_true(wheel_next(w) == due_ns(START + SECOND / 2));
	assert_ptr_equal(expire(w, START + SECOND), &n);
	assert_null(expire(w, START + 2 * HOUR));
	free(w);
}

static void what_is_past_when_added_is_due_at_once(void **state)
{
	static const uint64_t past[] = { 0, 1, START - SECOND, START - 1,
					 START };
	struct wheel *w = wheel_at(START);
	struct weir_timer_node n = { 0 };
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(past) / sizeof(past[0]); i++) {
		wheel_add(w, &n, past[i]);
		assert_true(wheel_next(w) <= START);
		assert_ptr_equal(wheel_expire(w, START), &n);
		assert_null(wheel_expire(w, START));
	}
	wheel_expire(w, START + HOUR);
	wheel_add(w, &n, START + HOUR);
	assert_ptr_equal(wheel_expire(w, START + HOUR), &n);
	free(w);
}

/* One node, alone, from add to expiry; the clock must be at @now. */
static void check_one(struct wheel *w, uint64_t now, uint64_t expires)
{
	struct weir_timer_node n = { 0 };
	uint64_t due = due_ns(expires);

	if (expires <= now)
		return;
	wheel_add(w, &n, expires);
	assert_true(wheel_next(w) == due);
	assert_null(wheel_expire(w, expires - 1));
	assert_true(wheel_next(w) == due);
	if (due > expires)
		assert_null(wheel_expire(w, due - 1));
	assert_ptr_equal(wheel_expire(w, due), &n);
	assert_int_equal(w->n, 0);
}

/* From about a level's slot to about the next, the fourth and the 64th. */
static void check_edge(struct wheel *w, uint64_t slot, int from, int to)
{
	static const uint64_t slots[] = { 1, 4, 64 };
	uint64_t now = 3 * slot + from * TICK;
	size_t i;
	int ns;

	for (i = 0; i < 3; i++)
		for (ns = -1; ns <= 1; ns++) {
			uint64_t base = slots[i] == 1 ? now : 0;

			wheel_init(w, now);
			check_one(w, now, base + slots[i] * slot + to * TICK +
				  ns);
		}
}

static void every_edge_of_every_level_is_met_to_the_tick(void **state)
{
	struct wheel *w = wheel_at(0);
	int level, from, to;

	(void)state;
	for (level = 0; level < WHEEL_LEVELS - 1; level++)
		for (from = -1; from <= 1; from++)
			for (to = -1; to <= 1; to++)
				check_edge(w, TICK << level * WHEEL_SLOT_SHIFT,
					   from, to);
	free(w);
}

static void two_nodes_across_an_edge_come_in_order(void **state)
{
	struct wheel *w = wheel_at(0);
	struct weir_timer_node a = { 0 }, b = { 0 };
	int level;

	(void)state;
	for (level = 1; level < WHEEL_LEVELS - 1; level++) {
		uint64_t edge = TICK << (level * WHEEL_SLOT_SHIFT);

		wheel_init(w, START % edge);
		wheel_add(w, &b, 5 * edge);
		wheel_add(w, &a, 5 * edge - TICK);
		assert_true(wheel_next(w) == 5 * edge - TICK);
		assert_ptr_equal(expire(w, 5 * edge - TICK), &a);
		assert_null(expire(w, 5 * edge - 1));
		assert_ptr_equal(expire(w, 5 * edge), &b);

		/* And both in one slot of a level above, in one jump. */
		wheel_init(w, START % edge);
		wheel_add(w, &b, 5 * edge + 2 * TICK);
		wheel_add(w, &a, 5 * edge + TICK);
		assert_true(wheel_next(w) == 5 * edge + TICK);
		assert_ptr_equal(expire(w, YEAR << 8), &a);
		assert_ptr_equal(expire(w, YEAR << 8), &b);
	}
	free(w);
}

static void the_end_of_time_never_comes(void **state)
{
	struct wheel *w = wheel_at(START);
	struct weir_timer_node never = { 0 }, last = { 0 }, soon = { 0 };

	(void)state;
	wheel_add(w, &never, UINT64_MAX);
	assert_true(wheel_next(w) == UINT64_MAX);
	wheel_add(w, &last, UINT64_MAX - TICK + 1);
	assert_true(wheel_next(w) == UINT64_MAX - TICK + 1);
	wheel_add(w, &soon, START + SECOND);
	assert_true(wheel_next(w) == due_ns(START + SECOND));

	assert_ptr_equal(expire(w, START + HOUR), &soon);
	assert_null(expire(w, UINT64_MAX - TICK));
	assert_ptr_equal(wheel_expire(w, UINT64_MAX - 1), &last);
	assert_null(wheel_expire(w, UINT64_MAX - 1));
	assert_true(wheel_pending(&never));
	wheel_del(w, &never);
	assert_int_equal(w->n, 0);
	free(w);
}

static void time_that_goes_back_stands_still(void **state)
{
	struct wheel *w = wheel_at(START);
	struct weir_timer_node n = { 0 }, m = { 0 };

	(void)state;
	assert_null(wheel_expire(w, START + HOUR));
	assert_null(wheel_expire(w, START));
	wheel_add(w, &n, START + HOUR - 1);
	wheel_add(w, &m, START + HOUR + SECOND);
	assert_ptr_equal(wheel_expire(w, 0), &n);
	assert_null(wheel_expire(w, START + 2));
	assert_ptr_equal(wheel_expire(w, START + HOUR + 2 * SECOND), &m);
	free(w);
}

static void a_year_without_a_look_is_one_jump(void **state)
{
	static const uint64_t delay[] = { 1, TICK, SECOND, HOUR, 24 * HOUR,
					  YEAR - 1, YEAR + SECOND };
	struct weir_timer_node n[7] = { 0 };
	struct wheel *w = wheel_at(START);
	size_t i;

	(void)state;
	for (i = 7; i-- > 0;)
		wheel_add(w, &n[i], START + delay[i]);
	for (i = 0; i < 6; i++)
		assert_ptr_equal(expire(w, START + YEAR + TICK), &n[i]);
	assert_null(expire(w, START + YEAR + TICK));
	assert_true(wheel_next(w) == due_ns(START + YEAR + SECOND));
	assert_ptr_equal(expire(w, START + 2 * YEAR), &n[6]);
	free(w);
}

/* An idle reactor with a few timers must not wake up to tidy its wheel. */
static void few_timers_cause_no_needless_wakeup(void **state)
{
	struct wheel *w = wheel_at(START);
	struct weir_timer_node n[16] = { 0 };
	size_t i, wakeups = 0;

	(void)state;
	for (i = 0; i < 16; i++)
		wheel_add(w, &n[i], START + HOUR + i * SECOND);
	while (w->n) {
		uint64_t now = wheel_next(w);

		assert_ptr_equal(expire(w, now), &n[wakeups]);
		assert_null(expire(w, now));
		wakeups++;
	}
	assert_int_equal(wakeups, 16);
	free(w);
}

static void one_deadline_of_many_comes_in_the_order_of_adding(void **state)
{
	enum { COUNT = 100000 };
	struct weir_timer_node *n = nodes(COUNT);
	struct wheel *w = wheel_at(START);
	uint64_t due = due_ns(START + HOUR);
	size_t i;

	(void)state;
	for (i = 0; i < COUNT; i++)
		wheel_add(w, &n[i], START + HOUR);
	assert_true(wheel_next(w) == due);
	assert_null(wheel_expire(w, due - 1));

	/* No step is wasted on moving them: it is the first call that gives. */
	for (i = 0; i < COUNT; i++)
		assert_ptr_equal(wheel_expire(w, due), &n[i]);
	assert_null(wheel_expire(w, due));
	free(w);
	free(n);
}

static void equal_ticks_keep_their_order_through_all_levels(void **state)
{
	enum { COUNT = 200, TICKS = 5 };
	struct weir_timer_node *n = nodes(COUNT);
	struct wheel *w = wheel_at(START);
	uint64_t base = due_ns(START + YEAR);
	size_t i, t;

	(void)state;
	for (i = 0; i < COUNT; i++)
		wheel_add(w, &n[i], base + i % TICKS * 1000 * TICK);
	for (t = 0; t < TICKS; t++)
		for (i = t; i < COUNT; i += TICKS)
			assert_ptr_equal(expire(w, base + YEAR), &n[i]);
	assert_null(expire(w, base + YEAR));
	free(w);
	free(n);
}

/* Nodes in one slot of a high level, no two neighbours of the same tick. */
static void crowd(struct wheel *w, struct weir_timer_node *n, size_t count,
		  uint64_t base)
{
	size_t i;

	for (i = 0; i < count; i++)
		wheel_add(w, &n[i], base + i * 7919 % count * TICK);
}

static void a_crowd_is_not_moved_in_one_call(void **state)
{
	enum { COUNT = 100000 };
	struct weir_timer_node *n = nodes(COUNT);
	struct wheel *w = wheel_at(0);
	uint64_t base = TICK << 30, now = base + COUNT * TICK, last = 0;
	size_t calls = 0, i;

	(void)state;
	crowd(w, n, COUNT, base);
	assert_true(wheel_next(w) <= base);
	while (w->n == COUNT) {
		struct weir_timer_node *first = wheel_expire(w, now);

		calls++;
		if (!first)
			assert_true(wheel_next(w) <= now);
		else
			assert_ptr_equal(first, &n[0]);
	}
	/* Not more than 256 nodes on each level a call may work on. */
	assert_true(calls >= COUNT / (256 * WHEEL_LEVELS));
	for (i = 1; i < COUNT; i++) {
		struct weir_timer_node *next = expire(w, now);

		assert_non_null(next);
		assert_true(next->expires_ns > last);
		last = next->expires_ns;
	}
	assert_int_equal(w->n, 0);
	assert_null(expire(w, now));
	free(w);
	free(n);
}

static void a_crowd_that_is_being_moved_may_change(void **state)
{
	enum { COUNT = 3000 };
	struct weir_timer_node *n = nodes(COUNT), extra[4] = { 0 };
	struct weir_timer_node *next;
	struct wheel *w = wheel_at(0);
	uint64_t base = TICK << 30, now = base + COUNT * TICK, last = 0;
	size_t i, left;

	(void)state;
	crowd(w, n, COUNT, base);
	assert_null(wheel_expire(w, now));
	assert_non_null(w->moving);

	/* Moved and waiting ones, and the last, which the head points to. */
	for (i = 0; i < COUNT; i += 3)
		wheel_del(w, &n[i]);
	wheel_del(w, &n[COUNT - 1]);
	wheel_add(w, &extra[0], 0);
	wheel_add(w, &extra[1], base + TICK / 2);
	wheel_add(w, &extra[2], now);
	wheel_add(w, &extra[3], now + HOUR);
	assert_true(wheel_next(w) <= now);

	assert_ptr_equal(expire(w, now), &extra[0]);
	for (left = w->n - 1; left; left--) {
		next = expire(w, now);
		assert_non_null(next);
		assert_true(due_ns(next->expires_ns) >= last);
		last = due_ns(next->expires_ns);
	}
	assert_null(expire(w, now));
	assert_ptr_equal(expire(w, due_ns(now + HOUR)), &extra[3]);
	free(w);
	free(n);
}

static void a_crowd_may_vanish_while_it_is_being_moved(void **state)
{
	enum { COUNT = 1000 };
	struct weir_timer_node *n = nodes(COUNT);
	struct wheel *w = wheel_at(0);
	uint64_t base = TICK << 30;
	size_t i;

	(void)state;
	crowd(w, n, COUNT, base);
	assert_null(wheel_expire(w, base));
	assert_non_null(w->moving);
	for (i = 0; i < COUNT; i++)
		wheel_del(w, &n[i]);
	assert_int_equal(w->n, 0);
	assert_true(wheel_next(w) == UINT64_MAX);
	wheel_add(w, &n[0], base + HOUR);
	wheel_add(w, &n[1], base + 2 * HOUR);
	assert_ptr_equal(expire(w, base + HOUR + TICK), &n[0]);
	assert_null(expire(w, base + HOUR + TICK));
	assert_ptr_equal(expire(w, base + 2 * HOUR + TICK), &n[1]);
	free(w);
	free(n);
}

static void the_expiry_loop_may_add_and_del(void **state)
{
	struct weir_timer_node n[8] = { 0 };
	struct wheel *w = wheel_at(START);
	uint64_t now = due_ns(START + SECOND);
	size_t i;

	(void)state;
	for (i = 0; i < 4; i++)
		wheel_add(w, &n[i], START + SECOND);
	assert_ptr_equal(wheel_expire(w, now), &n[0]);
	wheel_del(w, &n[1]);		/* The one that would be next, */
	wheel_del(w, &n[3]);		/* and the last. */
	wheel_add(w, &n[0], now);	/* Itself again: after the others. */
	wheel_add(w, &n[4], now + 1);
	assert_ptr_equal(wheel_expire(w, now), &n[2]);
	assert_ptr_equal(wheel_expire(w, now), &n[0]);
	assert_null(wheel_expire(w, now));
	assert_true(wheel_next(w) == now + TICK);
	assert_ptr_equal(wheel_expire(w, now + TICK), &n[4]);

	/* In the middle of a long burst, ahead of it and at its end. */
	for (i = 0; i < 4; i++)
		wheel_add(w, &n[i], now + (i + 1) * SECOND);
	now += HOUR;
	assert_ptr_equal(expire(w, now), &n[0]);
	wheel_add(w, &n[5], START);
	wheel_add(w, &n[6], now - TICK);
	wheel_del(w, &n[2]);
	assert_ptr_equal(expire(w, now), &n[5]);
	assert_ptr_equal(expire(w, now), &n[1]);
	assert_ptr_equal(expire(w, now), &n[3]);
	assert_ptr_equal(expire(w, now), &n[6]);
	assert_null(expire(w, now));
	assert_int_equal(w->n, 0);
	free(w);
}

/*
 * The model: pending nodes in an array sorted by tick.  A node's tick is its
 * time rounded up, but not before the clock's at its adding.
 */
enum { POOL = 4096 };

struct entry {
	uint64_t tick;
	size_t id;
};

struct model {
	struct wheel wheel;
	struct weir_timer_node node[POOL];
	uint64_t tick[POOL];
	uint64_t added_ns[POOL];
	struct entry sorted[POOL];
	size_t n;
	uint64_t now;
	uint64_t steps;
	uint64_t handed_out;
	uint64_t interrupted;	/* Times a slot was left half moved. */
	bool exact;	/* Came to .now as wheel_next() said. */
	uint64_t seed;
};

static uint64_t draw(struct model *m)
{
	m->seed ^= m->seed << 13;
	m->seed ^= m->seed >> 7;
	m->seed ^= m->seed << 17;
	return m->seed;
}

/* The first entry that is not before @tick. */
static size_t model_find(const struct model *m, uint64_t tick)
{
	size_t lo = 0, hi = m->n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;

		if (m->sorted[mid].tick < tick)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static void model_insert(struct model *m, size_t id, uint64_t expires)
{
	uint64_t tick = expires / TICK + (expires % TICK != 0);
	size_t at;

	if (expires <= m->now && m->wheel.clk == m->now / TICK)
		tick = m->wheel.clk;
	if (tick < m->wheel.clk)
		tick = m->wheel.clk;
	at = model_find(m, tick);
	memmove(&m->sorted[at + 1], &m->sorted[at],
		(m->n - at) * sizeof(m->sorted[0]));
	m->sorted[at] = (struct entry){ tick, id };
	m->n++;
	m->tick[id] = tick;
	m->added_ns[id] = m->now;
}

static void model_add(struct model *m, size_t id, uint64_t expires)
{
	model_insert(m, id, expires);
	wheel_add(&m->wheel, &m->node[id], expires);
}

static void model_forget(struct model *m, size_t id)
{
	size_t at = model_find(m, m->tick[id]);

	while (at < m->n && m->sorted[at].id != id)
		at++;
	assert_true(at < m->n);
	m->n--;
	memmove(&m->sorted[at], &m->sorted[at + 1],
		(m->n - at) * sizeof(m->sorted[0]));
}

static void model_del(struct model *m, size_t id)
{
	if (wheel_pending(&m->node[id]))
		model_forget(m, id);
	wheel_del(&m->wheel, &m->node[id]);
	assert_false(wheel_pending(&m->node[id]));
}

static void model_rearm(struct model *m, size_t id, uint64_t expires)
{
	if (wheel_pending(&m->node[id]))
		model_forget(m, id);
	model_insert(m, id, expires);
	wheel_rearm(&m->wheel, &m->node[id], expires);
}

/* Any length of time from nanoseconds to a year, or something nasty. */
static uint64_t model_time(struct model *m)
{
	uint64_t r = draw(m);

	switch (r % 64) {
	case 0:
		return UINT64_MAX - draw(m) % (2 * TICK);
	case 1:
		return draw(m) % (m->now + 1);
	case 2:
		return m->now;
	case 3:
		return m->now / TICK * TICK + TICK;
	case 4:
		/* A crowd far out, in a few ticks or in many. */
		return (m->now | 0xfffffffff) + draw(m) % TICK;
	case 5 ... 40:
		return (m->now | 0xfffffffff) + draw(m) % SECOND;
	default:
		return m->now + draw(m) % (UINT64_C(1) << (r >> 32) % 46);
	}
}

static void model_taken(struct model *m, const struct weir_timer_node *n)
{
	size_t id = n - m->node;
	uint64_t from = n->expires_ns;

	assert_true(id < POOL);
	assert_false(wheel_pending(n));
	assert_true(m->now >= n->expires_ns);
	assert_true(m->n > 0 && m->sorted[0].tick == m->tick[id]);
	if (from < m->added_ns[id])
		from = m->added_ns[id];
	if (m->exact)
		assert_true(m->now - from <= TICK);
	model_forget(m, id);
	m->handed_out++;
}

/* Take up to @timeout nodes, and change others in between. */
static void model_expire(struct model *m, size_t timeout)
{
	for (; timeout; timeout--) {
		struct weir_timer_node *n = wheel_expire(&m->wheel, m->now);

		assert_true(m->wheel.clk <= m->now / TICK);
		if (!n)
			break;
		model_taken(m, n);
		if (draw(m) % 8 == 0)
			model_del(m, draw(m) % POOL);
		if (draw(m) % 8 == 0)
			model_add(m, n - m->node, model_time(m));
	}
	assert_int_equal(m->wheel.n, m->n);
	if (m->wheel.moving && m->n) {
		assert_true(wheel_next(&m->wheel) <= m->now);
		m->interrupted++;
	} else if (timeout) {
		assert_true(!m->n || m->sorted[0].tick > m->now / TICK);
	}
}

static void model_advance(struct model *m)
{
	uint64_t next = wheel_next(&m->wheel);
	uint64_t how = draw(m) % 16;

	if (next > m->now && m->n && m->sorted[0].tick <= UINT64_MAX / TICK)
		assert_true(next <= m->sorted[0].tick * TICK);
	m->exact = true;
	if (next <= m->now) {
		/* In the middle of a burst: what is left of it may be late. */
		m->exact = false;
	} else if (how < 12 && next < UINT64_MAX / 2) {
		m->now = next;
	} else if (how < 14 || next > UINT64_MAX / 2) {
		m->now += draw(m) % (how == 12 ? SECOND : TICK);
		m->exact = m->now <= next;
	} else {
		m->now += draw(m) >> (20 + how % 2 * 10);
		m->exact = m->now <= next;
	}
	model_expire(m, draw(m) % 2 ? SIZE_MAX : 1 + draw(m) % 8);
}

static void model_step(struct model *m)
{
	size_t id = draw(m) % POOL;

	switch (draw(m) % 8) {
	case 0 ... 2:
		if (!wheel_pending(&m->node[id]))
			model_add(m, id, model_time(m));
		break;
	case 3:
		model_rearm(m, id, model_time(m));
		break;
	case 4:
		model_del(m, id);
		model_add(m, id, model_time(m));
		break;
	case 5:
		model_del(m, id);
		break;
	default:
		/* Time stands still by turns, so that crowds gather. */
		if (m->steps >> 12 & 1)
			model_advance(m);
	}
	m->steps++;
	assert_int_equal(m->wheel.n, m->n);
}

static void a_million_random_steps_agree_with_a_sorted_array(void **state)
{
	struct model *m = calloc(1, sizeof(*m));
	size_t i;

	(void)state;
	assert_non_null(m);
	m->seed = UINT64_C(0x9e3779b97f4a7c15);
	m->now = START;
	wheel_init(&m->wheel, m->now);
	while (m->steps < 1000000)
		model_step(m);
	assert_true(m->handed_out > 100000);
	assert_true(m->interrupted > 100);

	/* What is left comes out too, but for what is never due. */
	m->exact = false;
	while (wheel_next(&m->wheel) < UINT64_MAX - 4 * TICK) {
		if (wheel_next(&m->wheel) > m->now)
			m->now = wheel_next(&m->wheel);
		while (wheel_expire(&m->wheel, m->now))
			m->n--;
	}
	for (i = 0; i < POOL; i++)
		if (wheel_pending(&m->node[i]))
			assert_true(m->node[i].expires_ns >
				    UINT64_MAX - 4 * TICK);
	assert_int_equal(m->wheel.n, m->n);
	free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_empty_wheel_has_nothing_to_wait_for),
		cmocka_unit_test(a_node_is_pending_from_add_to_del_or_expiry),
		cmocka_unit_test(del_of_an_idle_node_has_no_effect),
		cmocka_unit_test(
			rearm_moves_a_pending_node_and_adds_an_idle_one),
		cmocka_unit_test(
			a_node_rearmed_for_later_wakes_once_at_its_old_time),
		cmocka_unit_test(
			rearmed_for_later_and_then_for_earlier_it_is_early),
		cmocka_unit_test(what_is_past_when_added_is_due_at_once),
		cmocka_unit_test(every_edge_of_every_level_is_met_to_the_tick),
		cmocka_unit_test(two_nodes_across_an_edge_come_in_order),
		cmocka_unit_test(the_end_of_time_never_comes),
		cmocka_unit_test(time_that_goes_back_stands_still),
		cmocka_unit_test(a_year_without_a_look_is_one_jump),
		cmocka_unit_test(few_timers_cause_no_needless_wakeup),
		cmocka_unit_test(
			one_deadline_of_many_comes_in_the_order_of_adding),
		cmocka_unit_test(
			equal_ticks_keep_their_order_through_all_levels),
		cmocka_unit_test(a_crowd_is_not_moved_in_one_call),
		cmocka_unit_test(a_crowd_that_is_being_moved_may_change),
		cmocka_unit_test(a_crowd_may_vanish_while_it_is_being_moved),
		cmocka_unit_test(the_expiry_loop_may_add_and_del),
		cmocka_unit_test(
			a_million_random_steps_agree_with_a_sorted_array),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
