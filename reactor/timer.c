/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/* Timers: a node in the wheel, a callback, and a rhythm. */

#include <weir/timer.h>

#include <stdlib.h>

#include "base/alloc.h"
#include "base/why.h"
#include "reactor/op-inline.h"

struct weir_timer {
	struct weir_timer_node node;
	struct weir_reactor *reactor;
	weir_timer_fn *fn;
	void *arg;
	uint64_t period_ns;
};

/* Nothing of the timer is touched after its callback: it may be gone. */
static void timer_fire(struct weir_timer_node *node)
{
	struct weir_timer *t = weir_container_of(node, struct weir_timer, node);
	struct weir_reactor *r = t->reactor;
	uint64_t when = node->expires_ns;
	uint64_t n = 1;

	if (t->period_ns) {
		n += (reactor_now(r) - when) / t->period_ns;
		wheel_add(&r->wheel, node, when + n * t->period_ns);
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
	t = mem_calloc(1, sizeof(*t));
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
	timer->reactor->n_timers--;
	free(timer);
}

unsigned int timers_run(struct weir_reactor *r, unsigned int max)
{
	uint64_t now = reactor_now(r);
	struct weir_timer_node *node;
	unsigned int n = 0;

	while (n < max && (node = wheel_expire(&r->wheel, now))) {
		n++;
		node->fire(node);
	}
	r->stats.timers += n;
	return n;
}
