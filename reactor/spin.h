/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_REACTOR_SPIN_H
#define WEIR_REACTOR_SPIN_H

/*
 * Whether to spin before a sleep, judged by experience.
 *
 * A wake-up from another core costs tens of microseconds, of which the waking
 * thread pays a good part; finding work while spinning costs a tenth of a
 * microsecond.  So spinning pays for about as long as a wake-up takes if work
 * comes in that time, and is pure waste if not.
 *
 *  - Spins that found work are counted up, others down, within 0 and
 *    SPIN_SCORE_MAX.  At 0 there is no more spinning.  The duration of a sleep
 *    does not count, because it includes the wake-up.
 *  - At 0 one of so many sleeps is preceded by a spin, which may bring spinning
 *    back.  Only short sleeps are: before a long one the spin would fail; what
 *    the wake-up itself takes, which may be long, is not counted.  While these
 *    spins fail they become rarer, because two threads that share a CPU wake
 *    each other soon, and spinning can never help them.
 *  - Spinning on a CPU that other threads need takes time from them.  They need
 *    it if we were preempted, and lost a good part of our time by that, twice
 *    in a row.  Then there is no spinning for a while, and if they still need
 *    the CPU then, for twice as long.  A preemption of microseconds does not
 *    count, nor does a longer one once: kernel threads cause the former, and a
 *    thread that wakes up now and then the latter.
 *
 * Numbers in, a number out: nothing here reads a clock.
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
	uint64_t off_ns;		/* Next time for twice so long. */
	uint64_t off_until_ns;		/* Others need this CPU. */
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

/* The result of a spin, and the duration of a sleep. */
void spin_hit(struct spin *s);
void spin_missed(struct spin *s);
void spin_slept(struct spin *s, uint64_t ns);

/* Whether it is time for spin_judge(), which costs a system call. */
static inline bool spin_is_due(const struct spin *s, uint64_t now_ns)
{
	return now_ns >= s->off_until_ns &&
	       now_ns - s->then.now_ns >= SPIN_JUDGED_NS;
}

/* Judge whether others need the CPU. */
void spin_judge(struct spin *s, const struct spin_usage *now);

#endif /* WEIR_REACTOR_SPIN_H */
