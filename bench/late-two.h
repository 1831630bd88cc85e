/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_LATE_TWO_H
#define BENCH_LATE_TWO_H

/*
 * Two processes of which one writes to the other's memory by a library of
 * others: what late-fabric and late-ucx share.
 *
 *	late-NAME ENGINE ENDING SIZE N
 *
 * tries N endings, each in two processes of its own, and prints a line for
 * late_parse().
 */

#include <stddef.h>

#include "bench/late-child.h"

struct late_two {
	struct late_one *one;
	const char *engine, *ending;
	char *memory;		/* The owner's, or the writer's source. */
	size_t size;
	int sock;
	int other;		/* The writer's pid; 0: this is the writer. */
	/* The owner's library makes progress only when it is called. */
	void (*progress)(void *arg);
	void *arg;
};

/* Each of the two; neither returns to its caller's caller. */
typedef void late_side_fn(struct late_two *t);

/* What main() does. */
int late_two_main(int argc, char **argv, const char *version,
		  late_side_fn *owner, late_side_fn *writer);

/* To and from the other process; if that has ended there is nothing to get, and
 * this one ends the same way. */
void late_two_put(struct late_two *t, const void *data, size_t len);
size_t late_two_get(struct late_two *t, void *data, size_t max);

/* Until the other process says something; this one's library goes on meanwhile. */
void late_two_wait(struct late_two *t);

/* The owner's: until the first bytes have come, and some time of what the
 * transfer takes.  Then what it is going to end is still in flight, or it is
 * noted that it is not; returns the time. */
uint64_t late_two_in_flight(struct late_two *t);

/* The owner's: the end that was begun at @begun is complete.  Paints the memory,
 * waits for the end of the writer and for what is on its way, and counts. */
void late_two_ended(struct late_two *t, uint64_t begun);

/* The writer's: its transfer has ended, by success or not.  Does not return. */
void late_two_written(struct late_two *t) __attribute__((noreturn));

#endif /* BENCH_LATE_TWO_H */
