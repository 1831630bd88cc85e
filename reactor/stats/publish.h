/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_REACTOR_STATS_PUBLISH_H
#define WEIR_REACTOR_STATS_PUBLISH_H

/*
 * A reactor's part in the page of its process, on its own thread.
 *
 * The reactor keeps its counters where it always did, and copies them: before
 * it sleeps, and about once a millisecond while it does not.  It estimates this
 * time without a clock, from the number of turns that it has lately made in it,
 * so that a turn costs one comparison.  The more there is to copy, the rarer
 * the copies: a word for each 100 ns, so copying always takes about a hundredth
 * of the time.
 *
 * A page that is only offered rests: until a reader wants it, nothing is copied
 * or measured, and only .asleep is kept right.
 *
 * Latencies are measured from start to callback, for one operation in .every:
 * for all of them if there are fewer than some thousands a second, else for
 * fewer, each of which then counts for as many.  That costs one more comparison
 * at a start, and a flag that is checked together with another one at the end.
 */

#include "reactor/stats/page.h"

struct weir_op;

#define TIMES_MAX 32	/* Kinds of operations; the rest are one. */

/* Latencies of a kind of operation. */
struct stats_time {
	const char *name; /* op_name(), by its address. */
	struct stats_record *record;
};

struct stats_reactor {
	struct stats_record *record;
	struct stats_record *mailbox;
	struct stats_item *items;
	uint32_t n_counters; /* That are copied. */
	bool resting;
	uint64_t gap_ns;		/* The least time between copies. */
	uint64_t last_ns;		/* When the last copy was made, */
	uint64_t last_turn;		/* in which turn. */
	uint64_t adapted_ns;		/* When .every was set, */
	uint64_t adapted_begun;		/* after how many operations. */
	uint64_t every;			/* One operation in so many is timed; */
	uint64_t weight;		/* how many the next stands for. */
	uint64_t random;
	int64_t tid;
	struct stats_time times[TIMES_MAX];
};

/* @r is complete; it is published if the process is, and there is memory. */
void stats_begin(struct weir_reactor *r);
void stats_end(struct weir_reactor *r);

/* In a turn whose number is r->publish_at or more: copy, if it is time to. */
void stats_in_turn(struct weir_reactor *r);

/* The reactor has nothing due, or returns to a host; the time is @now.  Copy,
 * and return when to wake for what could not be copied now, or @until if that
 * is earlier. */
uint64_t stats_before_sleep(struct weir_reactor *r, uint64_t now,
			    uint64_t until);
void stats_after_sleep(struct weir_reactor *r);

/* @op has begun, at @since or, if that is 0, now, and may be one to be timed;
 * it was, and ends with @res. */
void stats_time_begin(struct weir_reactor *r, struct weir_op *op,
		      uint64_t since);
void stats_time_end(struct weir_reactor *r, struct weir_op *op, int64_t res);

#endif /* WEIR_REACTOR_STATS_PUBLISH_H */
