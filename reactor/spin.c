/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether to spin before a sleep; the header says why. */

#include "reactor/spin.h"

void spin_init(struct spin *s, uint64_t max_ns)
{
	*s = (struct spin){
		.max_ns = max_ns,
		.score = SPIN_SCORE_MAX / 2,
		.probe_every = SPIN_PROBE_MIN,
	};
}

uint64_t spin_budget(struct spin *s, uint64_t now_ns)
{
	if (now_ns < s->off_until_ns)
		return 0;
	if (!s->score && s->sleeps < s->probe_every)
		return 0;
	return s->max_ns;
}

void spin_hit(struct spin *s)
{
	s->sleeps = 0;
	s->probe_every = SPIN_PROBE_MIN;
	if (s->score < SPIN_SCORE_MAX)
		s->score++;
}

void spin_missed(struct spin *s)
{
	s->sleeps = 0;
	if (s->score)
		s->score--;
	else if (s->probe_every < SPIN_PROBE_MAX)
		s->probe_every *= 2;
}

void spin_slept(struct spin *s, uint64_t ns)
{
	if (ns < SPIN_SHORT_SLEEPS * s->max_ns || ns < SPIN_SHORT_NS)
		s->sleeps++;
}

static uint64_t growth(uint64_t now, uint64_t then)
{
	return now > then ? now - then : 0;
}

/* Put off it, and not by something short. */
static bool is_shared(const struct spin_usage *then,
		      const struct spin_usage *now)
{
	uint64_t passed = growth(now->now_ns, then->now_ns);
	uint64_t awake = growth(passed, growth(now->slept_ns, then->slept_ns));
	uint64_t lost = growth(awake, growth(now->cpu_ns, then->cpu_ns));

	return now->preempted > then->preempted &&
	       lost > passed / SPIN_LOST_PART;
}

/*
 * What was before the first time does not count: threads are made and bound to
 * their CPUs then, and wait for each other.  Nor does the time without spins,
 * in which others need not put us off.
 */
void spin_judge(struct spin *s, const struct spin_usage *now)
{
	bool first = !s->then.now_ns, shared = is_shared(&s->then, now);

	s->then = *now;
	if (first)
		return;
	if (!shared) {
		s->off_ns = 0;
	} else if (!s->off_ns) {
		s->off_ns = SPIN_JUDGED_NS;
	} else {
		s->off_until_ns = now->now_ns + s->off_ns;
		s->then.now_ns = 0;
		if (s->off_ns < SPIN_OFF_MAX_NS)
			s->off_ns *= 2;
	}
}
