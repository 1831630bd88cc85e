/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * How a core spends its time, and on which CPU, for readers on other threads.
 *
 * A core stores the times when it goes to sleep, when it wakes up, and now and
 * then between.  The reader adds the time since: to the sleep if the core
 * sleeps, else to the time that it is busy.
 */

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/opts.h"
#include "base/why.h"
#include "reactor/group/group.h"

#define POLL_EVERY_NS (10 * WEIR_MSEC)

void core_tell_time(struct weir_reactor *r, uint64_t now, bool asleep)
{
	struct core_clock *clock = &r->core->clock;

	reactor_check_thread(r);
	atomic_fetch_add(&clock->seq, 1);
	atomic_store(&clock->asleep, asleep);
	atomic_store(&clock->at_ns, now);
	atomic_store(&clock->spin_ns, r->stats.spin_ns);
	atomic_store(&clock->sleep_ns, r->stats.sleep_ns);
	atomic_store(&clock->sleeps, r->stats.sleeps);
	atomic_fetch_add(&clock->seq, 1);
}

#define TRIES_PER_YIELD 64

/* Read a consistent state; return whether the core sleeps, and since when. */
static bool read_clock(struct core_clock *clock, struct weir_group_load *l,
		       uint64_t *at)
{
	unsigned int seq, tries = 0;
	bool asleep;

	do {
		/* The writer may have been put off this very CPU. */
		if (++tries > TRIES_PER_YIELD)
			sched_yield();
		seq = atomic_load(&clock->seq);
		asleep = atomic_load(&clock->asleep);
		*at = atomic_load(&clock->at_ns);
		l->spin_ns = atomic_load(&clock->spin_ns);
		l->sleep_ns = atomic_load(&clock->sleep_ns);
		l->sleeps = atomic_load(&clock->sleeps);
	} while (seq & 1 || seq != atomic_load(&clock->seq));
	return asleep;
}

static void load_now(struct group_core *core, struct weir_group_load *l)
{
	struct weir_reactor *r = core->r;
	uint64_t at, now;
	bool asleep = read_clock(&core->clock, l, &at);

	now = r->backend->now(r);
	if (asleep)
		l->sleep_ns += now - at;
	l->busy_ns = now - r->wait.born_ns - l->spin_ns - l->sleep_ns;
	l->wakes = atomic_load(&r->mailbox.wakes);
}

/* The lock keeps the reactor there meanwhile. */
static int load_if_there(struct weir_group *group, uint32_t core,
			 struct weir_group_load *l)
{
	int err = -EBADFD;

	pthread_mutex_lock(&group->lock);
	if (group->state != WEIR_GROUP_STOPPED && !group->ending) {
		load_now(&group->cores[core], l);
		err = 0;
	}
	pthread_mutex_unlock(&group->lock);
	return err;
}

/* It may have been awake for a moment of what was taken for sleep. */
static uint64_t growth(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

int weir_group_load(struct weir_group *group, uint32_t core,
		    struct weir_group_load *ret)
{
	struct weir_group_load l = { 0 }, old;
	int err = opts_capacity(ret, "weir_group_load");

	if (err)
		return err;
	if (core >= group->n)
		return why(-EINVAL, "weir_group_load: core %u of %u", core,
			   group->n);
	err = load_if_there(group, core, &l);
	if (err)
		return why(err, "weir_group_load: the group is not started");
	opts_take(&old, sizeof(old), ret);
	l.last_busy_ns = growth(l.busy_ns, old.busy_ns);
	l.last_spin_ns = growth(l.spin_ns, old.spin_ns);
	l.last_sleep_ns = growth(l.sleep_ns, old.sleep_ns);
	l.last_sleeps = growth(l.sleeps, old.sleeps);
	return opts_give(ret, &l, sizeof(l), "weir_group_load");
}

void core_event(struct group_core *core, uint32_t kind, int err,
		const char *fmt, ...)
{
	struct weir_group_event event = {
		.size = sizeof(event), .kind = kind, .core = core->index,
		.cpu = core->cpu, .err = err,
	};
	char text[192];
	va_list ap;

	if (!core->group->event)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	event.text = text;
	core->group->event(core->group, &event, core->group->event_arg);
}

/* Bound to its CPU, it can be on another one only if it was moved. */
static void look_where_we_are(struct group_core *core)
{
	cpu_set_t set;

	if (!core->pinned || core->lost || sched_getcpu() == core->cpu)
		return;
	CPU_ZERO(&set);
	sched_getaffinity(0, sizeof(set), &set);
	if (CPU_ISSET(core->cpu, &set))
		return;
	core->lost = true;
	spin_init(&core->r->wait.spin, 0);
	core->r->wait.at_once = 0;
	core_event(core, WEIR_GROUP_CPU_LOST, 0, "core %u has lost CPU %d, by "
		   "its affinity, its cpuset or because it went offline; it "
		   "goes on on CPU %d, and does not spin any more",
		   core->index, core->cpu, sched_getcpu());
}

void core_poll(struct weir_reactor *r, uint64_t now)
{
	struct group_core *core = r->core;

	reactor_check_thread(r);
	if (now - core->looked_ns < POLL_EVERY_NS)
		return;
	core->looked_ns = now;
	if (now - atomic_load(&core->clock.at_ns) >= POLL_EVERY_NS)
		core_tell_time(r, now, false);
	look_where_we_are(core);
}

bool core_is_bound(const struct weir_reactor *r, cpu_set_t *cpus)
{
	const struct group_core *core = r->core;

	reactor_check_thread(r);
	if (!core || !core->pinned)
		return false;
	*cpus = core->affinity;
	return true;
}
