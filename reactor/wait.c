/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/*
 * Waiting: spin, then sleep, and an account of both.
 *
 * To be woken on another core costs tens of microseconds, of which the waker
 * pays a good part; to find work while looking for it costs a tenth of one.  So
 * it pays to look for about as long as a wake-up costs, if something will come
 * in that time; and it is pure waste if not.  What will come is guessed from
 * what came: a mean of the last idle phases that adapts slowly to long ones and
 * at once to a short one that spinning has met.  While the guess says "sleep",
 * every PROBE_EVERY-th sleep spins first, because phases ended by a wake-up
 * look longer than they are.
 *
 * Spinning on a core that others want takes from them what it hopes to gain, so
 * there is none where there is only one CPU, or we were preempted lately.  To be
 * bound to one CPU is no reason: the others are somebody else's to use.
 */

#include <sys/resource.h>
#include <unistd.h>

#include "base/own.h"
#include "base/relax.h"
#include "reactor/op-inline.h"

#define PROBE_EVERY 16
#define LOOKS_PER_CLOCK 32
#define LOOK_EVERY_NS (10 * WEIR_MSEC)
#define SHARED_FOR_NS (100 * WEIR_MSEC)

static long times_preempted(void)
{
	struct rusage ru;

	return getrusage(RUSAGE_THREAD, &ru) ? 0 : ru.ru_nivcsw;
}

void wait_init(struct weir_reactor *r)
{
	struct wait *w = &r->wait;

	w->born_ns = r->backend->now(r);
	if (r->backend->simulated)
		return;
	w->spin_ns = r->opts.spin_ns;
	if (r->opts.spin_ns == WEIR_SPIN_NONE ||
	    sysconf(_SC_NPROCESSORS_ONLN) < 2 ||
	    own_on_valgrind())
		w->spin_ns = 0;
	w->preempted = times_preempted();
	w->looked_ns = w->born_ns;
}

/* Somebody else wants this CPU, if we were put off it since we looked last. */
static bool cpu_is_shared(struct wait *w, uint64_t now)
{
	long n;

	if (now - w->looked_ns >= LOOK_EVERY_NS) {
		n = times_preempted();
		if (n > w->preempted + 1)
			w->shared_until_ns = now + SHARED_FOR_NS;
		w->preempted = n;
		w->looked_ns = now;
	}
	return now < w->shared_until_ns;
}

/* How long to spin from @now on. */
static uint64_t spin_budget(struct wait *w, uint64_t now)
{
	if (!w->spin_ns || cpu_is_shared(w, now))
		return 0;
	if (w->gap_ns <= w->spin_ns)
		return w->spin_ns;
	if (++w->sleeps < PROBE_EVERY)
		return 0;
	w->sleeps = 0;
	return w->spin_ns;
}

static bool work_is_here(struct weir_reactor *r)
{
	if (unlikely(r->n_looks) && looks_run(r, true))
		return true;
	return r->backend->ready(r) || mailbox_has(&r->mailbox) ||
	       reactor_requested(r);
}

/* Returns whether there is work, and the time it is now. */
static bool spin(struct weir_reactor *r, uint64_t end, uint64_t *now)
{
	do {
		for (int i = 0; i < LOOKS_PER_CLOCK; i++) {
			if (work_is_here(r)) {
				*now = r->backend->now(r);
				return true;
			}
			relax();
		}
		*now = r->backend->now(r);
	} while (*now < end);
	return false;
}

/* The order is the point: first be seen to sleep, then look once more. */
static int sleep_until(struct weir_reactor *r, uint64_t now, uint64_t until)
{
	uint64_t timeout;
	bool due = false;
	int err = 0;

	if (unlikely(r->page))
		until = stats_before_sleep(r, now, until);
	timeout = until == WEIR_FOREVER ? WEIR_FOREVER : until - now;
	atomic_store(&r->mailbox.asleep, true);
	if (unlikely(r->n_looks))
		due = looks_asleep(r);
	if (!due && !mailbox_has(&r->mailbox) && !reactor_requested(r)) {
		err = r->backend->wait(r, timeout);
		r->stats.sleeps++;
	}
	atomic_store(&r->mailbox.asleep, false);
	if (unlikely(r->n_looks))
		looks_awake(r);
	if (unlikely(r->page))
		stats_after_sleep(r);
	return err;
}

/* A mean of the last eight or so, in which one long phase is not everything. */
static void learn_gap(struct wait *w, uint64_t gap)
{
	uint64_t most = 8 * w->spin_ns;

	if (gap > most)
		gap = most;
	w->gap_ns += gap / 8;
	w->gap_ns -= w->gap_ns / 8;
}

int wait_for_work(struct weir_reactor *r, uint64_t until)
{
	struct wait *w = &r->wait;
	uint64_t begun = reactor_now_fresh(r);
	uint64_t now = begun, budget, end;
	int err;

	if (until <= begun)
		return 0;
	budget = spin_budget(w, begun);
	if (budget) {
		end = until - begun < budget ? until : begun + budget;
		if (spin(r, end, &now)) {
			r->stats.spin_ns += now - begun;
			w->gap_ns = now - begun;
			r->now_ns = now;
			if (unlikely(r->core))
				core_look(r, now);
			return 0;
		}
		r->stats.spin_ns += now - begun;
	}
	r->now_ns = now;
	if (now >= until)
		return 0;
	if (unlikely(r->core))
		core_tell_time(r, now, true);
	err = sleep_until(r, now, until);
	r->stats.sleep_ns += reactor_now_fresh(r) - now;
	learn_gap(w, r->now_ns - begun);
	if (unlikely(r->core)) {
		core_tell_time(r, r->now_ns, false);
		core_look(r, r->now_ns);
	}
	return err;
}
