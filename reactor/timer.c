/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Timers: a node in the wheel, a callback, and a period.
 *
 * A timer is one cache line, in slabs: with a hundred thousand of them, moving
 * one costs the cache misses of its line and its neighbours in the list.  The
 * reactor keeps slabs until it is destroyed.  A free timer is on a list, and is
 * annotated for the sanitizer, which detects uses of destroyed timers.
 */

#include <weir/timer.h>

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/own.h"
#include "base/why.h"
#include "reactor/op-inline.h"

#define LINE 64
#define SLAB_TIMERS 63		/* And the slab's own line: a page. */

struct weir_timer {
	struct weir_timer_node node;
	struct weir_reactor *reactor;
	weir_timer_fn *fn;
	void *arg;
	uint64_t period_ns;
};

_Static_assert(sizeof(void *) != 8 || sizeof(struct weir_timer) == LINE,
	       "a timer is a cache line");

struct timer_slab {
	struct timer_slab *next;
	char pad[LINE - sizeof(void *)];
	struct weir_timer timers[SLAB_TIMERS];
};

static void put(struct weir_reactor *r, struct weir_timer *t)
{
	debug_check(!wheel_pending(&t->node));
	t->arg = r->free_timers;
	r->free_timers = t;
	own_release_in(t, sizeof(*t));
}

static int more_timers(struct weir_reactor *r)
{
	struct timer_slab *slab = mem_aligned(4096, sizeof(*slab));

	if (!slab)
		return -ENOMEM;
	slab->next = r->timer_slabs;
	r->timer_slabs = slab;
	for (int i = SLAB_TIMERS - 1; i >= 0; i--)
		put(r, &slab->timers[i]);
	return 0;
}

/* A zeroed one, or NULL. */
static struct weir_timer *get(struct weir_reactor *r)
{
	struct weir_timer *t;

	if (!r->free_timers && more_timers(r))
		return NULL;
	t = r->free_timers;
	own_acquire_in(t, sizeof(*t), sizeof(*t));
	r->free_timers = t->arg;
	memset(t, 0, sizeof(*t));
	return t;
}

void timers_fini(struct weir_reactor *r)
{
	struct timer_slab *slab;
	struct weir_timer *t;

	debug_check(!r->n_timers);
	reactor_check_thread(r);
	while ((t = r->free_timers)) {
		own_acquire_in(t, sizeof(*t), sizeof(*t));
		r->free_timers = t->arg;
	}
	while ((slab = r->timer_slabs)) {
		r->timer_slabs = slab->next;
		free(slab);
	}
}

/* The timer is not accessed after its callback, which may destroy it. */
static void timer_fire(struct weir_timer_node *node)
{
	struct weir_timer *t = weir_container_of(node, struct weir_timer, node);
	struct weir_reactor *r = t->reactor;
	uint64_t when = node->expires_ns;
	uint64_t n = 1, now;

	debug_check(!wheel_pending(node));
	if (t->period_ns) {
		now = reactor_now(r);
		n += (now - when) / t->period_ns;
		/* A time that no clock will show is never. */
		wheel_add(&r->wheel, node,
			  t->period_ns < WEIR_FOREVER - now ?
			  when + n * t->period_ns : WEIR_FOREVER);
	}
	t->fn(t, n, t->arg);
}

int weir_timer_create(struct weir_timer **ret, struct weir_reactor *r,
		      weir_timer_fn *fn, void *arg)
{
	struct weir_timer *t;

	reactor_check_thread(r);
	if (!fn)
		return why(-EINVAL, "weir_timer_create: no callback");
	t = get(r);
	if (!t)
		return why(-ENOMEM, "weir_timer_create: no memory");
	t->reactor = r;
	t->node.fire = timer_fire;
	t->fn = fn;
	t->arg = arg;
	r->n_timers++;
	*ret = t;
	return 0;
}

void weir_timer_start(struct weir_timer *timer, uint64_t when_ns,
		      uint64_t period_ns)
{
	reactor_check_thread(timer->reactor);
	timer->period_ns = period_ns;
	wheel_rearm(&timer->reactor->wheel, &timer->node, when_ns);
	reactor_touch(timer->reactor);
}

void weir_timer_stop(struct weir_timer *timer)
{
	reactor_check_thread(timer->reactor);
	wheel_del(&timer->reactor->wheel, &timer->node);
}

int weir_timer_is_set(const struct weir_timer *timer)
{
	return wheel_pending(&timer->node);
}

void weir_timer_destroy(struct weir_timer *timer)
{
	if (!timer)
		return;
	weir_timer_stop(timer);
	debug_check(timer->reactor->n_timers > 0);
	timer->reactor->n_timers--;
	put(timer->reactor, timer);
}

unsigned int timers_run(struct weir_reactor *r, unsigned int max)
{
	uint64_t now = reactor_now(r);
	struct weir_timer_node *node;
	unsigned int n = 0;

	reactor_check_thread(r);
	while (n < max && (node = wheel_expire(&r->wheel, now))) {
		n++;
		node->fire(node);
	}
	r->stats.timers += n;
	return n;
}
