/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting: whether to spin, the sleep, and the account of time. */

#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/own.h"
#include "base/probe.h"
#include "base/relax.h"
#include "reactor/op-inline.h"
#include "reactor/spin.h"

/* Whether to spin before a sleep; spin.h has the reasons. */

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

/* Whether the thread was preempted, and lost a good part of its time. */
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
 * The time before the first call does not count, because threads are created,
 * bound to their CPUs, and wait for each other then.  The time without spins
 * does not count either, because other threads then use the idle CPU.
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

/*
 * Waiting: spin, then sleep, and account for the time of both.
 *
 * spin.h decides whether to spin.  A reactor never spins on a machine with one
 * CPU, under valgrind, or in a simulated world.  Being bound to one CPU of
 * several does not prevent it, because other programs use the other CPUs.
 *
 * Two cores that call each other wait for some hundred nanoseconds at a time,
 * of which reading the clock twice would be a good part.  So the first
 * POLLS_PER_CLOCK polls do not read it.  Their time is estimated from polls
 * that were timed, and accounted for later.
 */

#define POLLS_PER_CLOCK 32
#define AT_ONCE_MAX 256		/* Waits that begin without the clock; in a row. */
#define POLL_MAX_NS 100 /* A longer time is not caused by the poll. */

/* The CPU time of getrusage() is that of the last tick, which is too coarse. */
static struct spin_usage usage_now(struct weir_reactor *r, uint64_t now)
{
	struct spin_usage u = { .now_ns = now, .slept_ns = r->stats.sleep_ns };
	struct timespec cpu;
	struct rusage ru;

	if (getrusage(RUSAGE_THREAD, &ru) ||
	    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &cpu))
		return u;
	u.preempted = (uint64_t)ru.ru_nivcsw;
	u.cpu_ns = (uint64_t)cpu.tv_sec * WEIR_SEC + (uint64_t)cpu.tv_nsec;
	return u;
}

void wait_init(struct weir_reactor *r)
{
	uint64_t most = r->opts.spin_ns;

	reactor_check_thread(r);
	r->wait.born_ns = r->wait.clocked_ns = r->backend->now(r);
	if (r->opts.spin_ns == WEIR_SPIN_NONE ||
	    sysconf(_SC_NPROCESSORS_ONLN) < 2 || own_on_valgrind())
		most = 0;
	spin_init(&r->wait.spin, most);
}

/* How long to spin from @now on. */
static uint64_t budget_from(struct weir_reactor *r, uint64_t now)
{
	struct spin *s = &r->wait.spin;
	struct spin_usage usage;
	uint64_t budget;

	if (!s->max_ns)
		return 0;
	if (spin_is_due(s, now)) {
		usage = usage_now(r, now);
		spin_judge(s, &usage);
	}
	budget = spin_budget(s, now);
	r->wait.at_once = budget ? AT_ONCE_MAX : 0;
	return budget;
}

static bool work_is_here(struct weir_reactor *r)
{
	if (unlikely(r->n_hooks) && hooks_run(r, true))
		return true;
	return r->backend->ready(r) || mailbox_has(&r->mailbox) ||
	       reactor_requested(r);
}

/* Whether there is work, within POLLS_PER_CLOCK polls, which are counted. */
static inline bool hook(struct weir_reactor *r, uint64_t *hooks)
{
	for (int i = 0; i < POLLS_PER_CLOCK; i++) {
		if (work_is_here(r))
			return true;
		relax();
		++*hooks;
	}
	return false;
}

static bool look_at_once(struct weir_reactor *r)
{
	struct wait *w = &r->wait;

	if (!w->at_once)
		return false;
	debug_check(w->at_once > 0);
	w->at_once--;
	if (!hook(r, &w->hooks))
		return false;
	spin_hit(&w->spin);
	r->now_turn = 0;
	return true;
}

/* Account for polls without the clock, at most the time that has passed. */
static void account_hooks(struct weir_reactor *r, uint64_t now)
{
	struct wait *w = &r->wait;
	uint64_t ns = w->hooks * w->hook_ns, most = now - w->clocked_ns;

	r->stats.spin_ns += ns < most ? ns : most;
	w->hooks = 0;
	w->clocked_ns = now;
}

/* Returns whether there is work, and the present time. */
static bool spin(struct weir_reactor *r, uint64_t end, uint64_t *now)
{
	uint64_t begun = *now, hooks = 0, ns;
	bool found;

	do {
		found = hook(r, &hooks);
		*now = r->backend->now(r);
	} while (!found && *now < end);
	r->stats.spin_ns += *now - begun;
	if (hooks >= POLLS_PER_CLOCK) {
		ns = (*now - begun) / hooks;
		r->wait.hook_ns = ns < POLL_MAX_NS ? ns : POLL_MAX_NS;
	}
	return found;
}

/* The order matters: first publish .asleep, then check for work once more. */
static int sleep_until(struct weir_reactor *r, uint64_t now, uint64_t until)
{
	uint64_t timeout, hooks;
	int err = 0;

	if (unlikely(r->page))
		until = stats_before_sleep(r, now, until);
	timeout = until == WEIR_FOREVER ? WEIR_FOREVER : until - now;
	atomic_store(&r->mailbox.asleep, true);
	if (unlikely(r->n_hooks)) {
		hooks = hooks_asleep(r);
		if (hooks < until)
			timeout = hooks > now ? hooks - now : 0;
	}
	if (timeout && !mailbox_has(&r->mailbox) && !reactor_requested(r)) {
		PROBE2(sleep, r, timeout);
		err = r->backend->wait(r, timeout);
		PROBE2(awake, r, err);
		r->stats.sleeps++;
	}
	atomic_store(&r->mailbox.asleep, false);
	if (unlikely(r->n_hooks))
		hooks_awake(r);
	if (unlikely(r->page))
		stats_after_sleep(r);
	return err;
}

/* Returns whether there is work. */
static bool spin_first(struct weir_reactor *r, uint64_t until, uint64_t *now)
{
	uint64_t budget = budget_from(r, *now);

	if (!budget)
		return false;
	if (spin(r, until - *now < budget ? until : *now + budget, now)) {
		spin_hit(&r->wait.spin);
		return true;
	}
	if (*now < until)
		spin_missed(&r->wait.spin);
	return false;
}

static int then_sleep(struct weir_reactor *r, uint64_t begun, uint64_t until)
{
	uint64_t now = r->now_ns;
	int err;

	if (unlikely(r->core))
		core_tell_time(r, now, true);
	err = sleep_until(r, now, until);
	r->stats.sleep_ns += reactor_now_fresh(r) - now;
	spin_slept(&r->wait.spin, r->now_ns - begun);
	if (unlikely(r->core))
		core_tell_time(r, r->now_ns, false);
	return err;
}

int wait_for_work(struct weir_reactor *r, uint64_t until)
{
	uint64_t begun;
	int err = 0;

	reactor_check_thread(r);
	/* If there are timers, this turn has read the clock already. */
	if (until != WEIR_FOREVER && until <= reactor_now(r))
		return 0;
	if (look_at_once(r))
		return 0;
	begun = reactor_now_fresh(r);
	account_hooks(r, begun);
	if (until <= begun)
		return 0;
	if (!spin_first(r, until, &r->now_ns) && r->now_ns < until)
		err = then_sleep(r, begun, until);
	r->wait.clocked_ns = r->now_ns;
	if (unlikely(r->core))
		core_poll(r, r->now_ns);
	return err;
}
