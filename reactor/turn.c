/* SPDX-License-Identifier: BSD-3-Clause */
/* The order of a turn, and the states that a reactor goes through. */

#include <string.h>

#include "base/own.h"
#include "base/probe.h"
#include "base/why.h"
#include "reactor/group/spsc.h"
#include "reactor/op-inline.h"

/* Turns of a core between reads of the clock, if it never waits. */
#define TURNS_PER_POLL 1024

uint64_t weir_reactor_now(struct weir_reactor *r)
{
	reactor_check_thread(r);
	return reactor_now(r);
}

static void begin_stopping(struct weir_reactor *r)
{
	struct reactor_obj *obj, *next;

	r->state = WEIR_REACTOR_STOPPING;
	r->attention |= ATTENTION_STOPPING;
	atomic_fetch_or(&r->refuses, REFUSES_DOWN);
	for (obj = r->objs; obj; obj = next) {
		next = obj->next;
		if (obj->stop)
			obj->stop(obj);
	}
	objects_stop(r);
	capacity_waits_end(r);
	if (r->mailbox.rings)
		rings_close(r->mailbox.rings);
	op_cancel_all(r);
}

/* A break is left for run(), which consumes it. */
static void heed_requests(struct weir_reactor *r)
{
	unsigned int asked;

	if (likely(!atomic_load(&r->requests)))
		return;
	asked = atomic_fetch_and(&r->requests, REQUEST_BREAK);
	own_after(&r->requests);
	if (asked & REQUEST_RECALL)
		capacity_waits_recall(r);
	if (asked & REQUEST_STOP && r->state == WEIR_REACTOR_RUNNING)
		begin_stopping(r);
}

/*
 * First check that no sender is inside the mailbox, then that it is empty.
 * Another core of the group may have put a message after that check, so check
 * once more when all are quiet.
 */
static bool is_drained(struct weir_reactor *r)
{
	struct rings *rings = r->mailbox.rings;

	mailbox_await_visitors(r);
	/* A request of a source that was stopped may still take something. */
	return !reactor_in_flight(r) && !r->n_zombies &&
	       !(r->backend->repeat && r->backend->repeat(r, false)) &&
	       !mailbox_has(&r->mailbox) &&
	       (!rings || (rings_quiet(rings) && !rings_have(rings)));
}

static void end_stopping_if_drained(struct weir_reactor *r)
{
	if (r->state == WEIR_REACTOR_STOPPING && is_drained(r))
		r->state = WEIR_REACTOR_STOPPED;
}

/* Move operations that were deferred, in this turn's callbacks or before, to
 * the end of the ready list. */
static void take_deferred(struct weir_reactor *r)
{
	*r->ready_last = r->deferred;
	r->ready_last = r->deferred_last;
	r->deferred = NULL;
	r->deferred_last = &r->deferred;
}

/* They call no function of the user's. */
static void run_flushes(struct weir_reactor *r)
{
	struct flush_node *node;

	while ((node = r->flushes)) {
		flush_del(node);
		node->fn(node);
	}
}

/* Everything that is due, a bounded amount of each. */
static int do_due(struct weir_reactor *r, unsigned int *ran)
{
	int n;

	heed_requests(r);
	if (unlikely(r->n_hooks))
		hooks_run(r, false);
	r->delivered = 0;
	*ran += mailbox_run(r, r->turn_max);
	n = r->backend->reap(r, r->turn_max);
	if (unlikely(n < 0))
		return n;
	*ran += r->delivered;
	if (unlikely(r->n_hooks))
		*ran += hooks_deliver(r);
	if (r->deferred)
		take_deferred(r);
	*ran += op_run_ready(r, r->turn_max);
	if (likely(r->state == WEIR_REACTOR_RUNNING)) {
		if (r->wheel.n)
			*ran += timers_run(r, r->turn_max);
		if (r->pollers)
			*ran += pollers_run(r);
	}
	if (unlikely(r->mailbox.more))
		rings_publish(r->mailbox.rings);
	if (unlikely(r->repeats.at_ns != WEIR_FOREVER))
		repeats_run(r);
	if (unlikely(r->flushes != NULL))
		run_flushes(r);
	n = r->backend->flush(r);
	if (unlikely(r->state != WEIR_REACTOR_RUNNING))
		end_stopping_if_drained(r);
	return n < 0 ? n : 0;
}

/* Whether a next turn would find something, as far as is known already. */
static bool more_is_due(struct weir_reactor *r)
{
	return r->ready || r->deferred || r->flushes || mailbox_has(&r->mailbox) ||
	       reactor_requested(r) || r->backend->ready(r);
}

/* When time alone makes something due. */
static uint64_t next_due(struct weir_reactor *r)
{
	uint64_t next = WEIR_FOREVER, at;

	if (unlikely(r->repeats.at_ns != WEIR_FOREVER))
		next = repeats_due(r);
	if (r->state != WEIR_REACTOR_RUNNING)
		return next;
	if (r->wheel.n) {
		at = wheel_next(&r->wheel);
		if (at < next)
			next = at;
	}
	if (r->pollers) {
		at = pollers_next(r);
		if (at < next)
			next = at;
	}
	return next;
}

uint64_t reactor_next_turn(struct weir_reactor *r)
{
	uint64_t next;

	reactor_check_thread(r);
	if (more_is_due(r))
		return 0;
	next = next_due(r);
	if (likely(!r->n_hooks) || r->state == WEIR_REACTOR_STOPPED)
		return next;
	if (!r->hooks_asked) {
		reactor_enter(r);
		hooks_asleep(r);
		reactor_exit(r);
	}
	return r->hooks_at_ns < next ? r->hooks_at_ns : next;
}

static uint64_t time_after(struct weir_reactor *r, uint64_t ns)
{
	uint64_t now;

	if (ns == WEIR_FOREVER)
		return WEIR_FOREVER;
	now = reactor_now(r);
	return ns < WEIR_FOREVER - now ? now + ns : WEIR_FOREVER;
}

static int wait_and_do(struct weir_reactor *r, uint64_t timeout_ns,
		       unsigned int *ran)
{
	uint64_t until = time_after(r, timeout_ns);
	uint64_t next = next_due(r);
	int err;

	err = wait_for_work(r, next < until ? next : until);
	if (err)
		return err;
	return do_due(r, ran);
}

/* Periodic work that must not wait until the reactor is idle. */
static void look_around(struct weir_reactor *r)
{
	r->publish_at = r->stats.turns + TURNS_PER_POLL;
	if (r->page)
		stats_in_turn(r);
	if (r->core)
		core_poll(r, reactor_now_fresh(r));
}

static int one_turn(struct weir_reactor *r, uint64_t timeout_ns)
{
	struct weir_reactor *outer = rings_here;
	unsigned int ran = 0;
	int err;

	PROBE1(turn_begin, r);
	r->in_turn = true;
	r->stats.turns++;
	rings_here = r->mailbox.rings ? r : NULL;
	if (unlikely(r->host.epoll >= 0))
		host_turn_begins(r);
	if (unlikely(r->stats.turns >= r->publish_at))
		look_around(r);
	err = do_due(r, &ran);
	if (!err && !ran && timeout_ns &&
	    r->state != WEIR_REACTOR_STOPPED && !more_is_due(r))
		err = wait_and_do(r, timeout_ns, &ran);
	if (unlikely(r->host.epoll >= 0))
		host_turn_ends(r, more_is_due(r), next_due(r));
	/* Publish messages sent before the failure, as in any turn. */
	if (unlikely(err))
		rings_publish(r->mailbox.rings);
	r->in_turn = false;
	rings_here = outer;
	PROBE2(turn_end, r, ran);
	return err ? err : (int)ran;
}

/* In a callback of another reactor, or on its thread.  The turn may destroy
 * that. */
__attribute__((cold)) static int turn_within(struct weir_reactor *r,
					     uint64_t timeout_ns)
{
	struct rings_frame frame = { .outer = rings_here, .prev = rings_frames };
	int n;

	rings_frames = &frame;
	rings_here = NULL;
	n = weir_reactor_turn(r, timeout_ns);
	rings_frames = frame.prev;
	rings_here = frame.outer;
	return n;
}

int weir_reactor_turn(struct weir_reactor *r, uint64_t timeout_ns)
{
	int n;

	reactor_check_thread(r);
	if (unlikely(rings_here && rings_here != r))
		return turn_within(r, timeout_ns);
	if (unlikely(reactor_is_entered(r)))
		return why(-EBUSY, "weir_reactor_turn: called from a callback "
			   "of the same reactor");
	n = one_turn(r, timeout_ns);
	if (unlikely(n == -EDEADLK))
		return why(n, "weir_reactor_turn: nothing will ever happen in "
			   "this world");
	if (unlikely(n < 0))
		return why(n, "weir_reactor_turn: the %s backend cannot wait "
			   "for the kernel: %s", r->backend->name,
			   strerror(-n));
	return n;
}

int turn_until_stopped(struct weir_reactor *r, uint64_t until_ns)
{
	uint64_t now;
	int n;

	reactor_check_thread(r);
	/* After the stop: a close, a late post, a source that was destroyed. */
	if (r->state == WEIR_REACTOR_STOPPED && !is_drained(r))
		r->state = WEIR_REACTOR_STOPPING;
	while (r->state != WEIR_REACTOR_STOPPED) {
		now = r->backend->now(r);
		if (now >= until_ns)
			return -ETIMEDOUT;
		n = weir_reactor_turn(r, until_ns - now);
		if (n < 0)
			return n;
	}
	return 0;
}

static void run_without_kernel(struct weir_reactor *r)
{
	struct weir_reactor *outer = rings_here;

	r->in_turn = true;
	r->stats.turns++;
	rings_here = r;
	heed_requests(r);
	mailbox_run(r, r->turn_max);
	if (r->deferred)
		take_deferred(r);
	op_run_ready(r, r->turn_max);
	rings_publish(r->mailbox.rings);
	r->in_turn = false;
	rings_here = outer;
}

bool reactor_settle(struct weir_reactor *r)
{
	struct rings *rings = r->mailbox.rings;

	reactor_check_thread(r);
	run_without_kernel(r);
	mailbox_await_visitors(r);
	return !r->ready && !r->deferred && !mailbox_has(&r->mailbox) &&
	       rings_quiet(rings) && !rings_have(rings) && !rings_owed(rings);
}

static int took_break(struct weir_reactor *r)
{
	if (!(atomic_load(&r->requests) & REQUEST_BREAK))
		return 0;
	own_after(&r->requests);
	return !!(atomic_fetch_and(&r->requests, ~(unsigned int)REQUEST_BREAK) &
		  REQUEST_BREAK);
}

int weir_reactor_run(struct weir_reactor *r)
{
	int n;

	reactor_check_thread(r);
	if (reactor_is_entered(r))
		return why(-EBUSY, "weir_reactor_run: called from a callback "
			   "of the same reactor");
	if (r->state == WEIR_REACTOR_STOPPED)
		return 0;
	r->running = true;
	for (n = 0; n >= 0 && r->state != WEIR_REACTOR_STOPPED;) {
		n = weir_reactor_turn(r, WEIR_FOREVER);
		if (unlikely(atomic_load(&r->requests) & REQUEST_BREAK))
			break;
	}
	r->running = false;
	return n < 0 ? n : took_break(r);
}

/* A source that cannot be watched again calls the user's function, which may
 * destroy any of them: so the place in the list is kept by an object in it. */
static void start_objs(struct weir_reactor *r)
{
	struct reactor_obj place = { .what = "" }, *obj, *next;

	reactor_enter(r);
	for (obj = r->objs; obj; obj = next) {
		reactor_insert(&obj->next, &place);
		if (obj->start)
			obj->start(obj);
		next = place.next;
		reactor_detach(&place);
	}
	reactor_exit(r);
}

int weir_reactor_start(struct weir_reactor *r)
{
	reactor_check_thread(r);
	/* Inside a turn the next turn handles requests; otherwise sources that
	 * are due in this turn would still run. */
	if (!r->in_turn || r->state != WEIR_REACTOR_RUNNING)
		heed_requests(r);
	if (r->state == WEIR_REACTOR_STOPPING ||
	    (r->state == WEIR_REACTOR_RUNNING &&
	     atomic_load(&r->requests) & REQUEST_STOP))
		return why(-EBUSY, "weir_reactor_start: it is stopping; run it "
			   "until it has stopped");
	if (r->state == WEIR_REACTOR_RUNNING)
		return 0;
	r->state = WEIR_REACTOR_RUNNING;
	r->attention &= ~(uint32_t)ATTENTION_STOPPING;
	atomic_fetch_and(&r->refuses, (unsigned char)~REFUSES_DOWN);
	start_objs(r);
	reactor_touch(r);
	return 0;
}

int weir_reactor_state(const struct weir_reactor *r)
{
	reactor_check_thread(r);
	return (int)r->state;
}

int weir_reactor_is_here(const struct weir_reactor *r)
{
	return reactor_is_here(r);
}
