/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_REACTOR_SPIN_H
#define WEIR_REACTOR_SPIN_H

/*
 * Whether to spin before a sleep: what experience says.
 *
 * To be woken on another core costs tens of microseconds, of which the waker
 * pays a good part; to find work while looking for it costs a tenth of one.  So
 * it pays to look for about as long as a wake-up costs, if something comes in
 * that time, and is pure waste if not.
 *
 *  - Spins that met something are counted up, those that did not down, within
 *    0 and SPIN_SCORE_MAX.  At 0 there is no more spinning.  How long a sleep
 *    lasted does not count: its end is that of the wake-up, not of the wait.
 *  - At 0 one of so many sleeps is a spin first, which may bring spinning back.
 *    Only of short ones, for before a long one it must fail, where what it
 *    takes to be woken, which may be much, does not count; and of ever fewer,
 *    as long as they fail, for two that share a CPU are woken soon, and can
 *    never meet anything.
 *  - Spinning on a CPU that others want takes from them what it hopes to gain.
 *    Others want it if we were put off it, and lost a good part of our time by
 *    that, twice in a row.  Then there is no spinning for a while, and if they
 *    still want it then, for twice as long.  To be put off for microseconds
 *    means nothing, nor to be put off for longer once: the kernel's own threads
 *    do the one, and one that wakes up now and then the other.
 *
 * Numbers in, a number out: nothing here looks at a clock.
 */

#include <stdbool.h>
#include <stdint.h>

#define SPIN_SCORE_MAX 8
#define SPIN_PROBE_MIN 16		/* Short sleeps from spin to spin. */
#define SPIN_PROBE_MAX 1024
#define SPIN_SHORT_SLEEPS 4		/* In spins, */
#define SPIN_SHORT_NS 1000000		/* or no longer than this. */
#define SPIN_JUDGED_NS 10000000		/* Whose CPU it is; at least. */
#define SPIN_LOST_PART 8		/* Of that time: too much. */
#define SPIN_OFF_MAX_NS 640000000

/* How a thread has spent its time so far. */
struct spin_usage {
	uint64_t now_ns;
	uint64_t slept_ns;		/* Because it wanted to. */
	uint64_t cpu_ns;
	uint64_t preempted;		/* How many times. */
};

struct spin {
	uint64_t max_ns;		/* 0: never. */
	uint32_t score;
	uint32_t sleeps;		/* Short ones, since the last spin. */
	uint32_t probe_every;
	uint64_t off_ns;		/* For so long, if once more. */
	uint64_t off_until_ns;		/* Others want this CPU. */
	struct spin_usage then;		/* When that was judged. */
};

static inline void spin_init(struct spin *s, uint64_t max_ns)
{
	*s = (struct spin){
		.max_ns = max_ns,
		.score = SPIN_SCORE_MAX / 2,
		.probe_every = SPIN_PROBE_MIN,
	};
}

/* How long to spin, from @now_ns on; 0: sleep at once. */
uint64_t spin_budget(struct spin *s, uint64_t now_ns);

/* What came of it: of a spin, and of a sleep. */
void spin_hit(struct spin *s);
void spin_missed(struct spin *s);
void spin_slept(struct spin *s, uint64_t ns);

/* Whether it is time for spin_judge(), which costs a system call. */
static inline bool spin_is_due(const struct spin *s, uint64_t now_ns)
{
	return now_ns >= s->off_until_ns &&
	       now_ns - s->then.now_ns >= SPIN_JUDGED_NS;
}

/* Whose CPU it is. */
void spin_judge(struct spin *s, const struct spin_usage *now);

#endif /* WEIR_REACTOR_SPIN_H */
