/* SPDX-License-Identifier: BSD-3-Clause */
/* Pollers, which run in every turn. */

#include <weir/watch.h>

#include <stdlib.h>

#include "base/alloc.h"
#include "base/mutation.h"
#include "base/why.h"
#include "reactor/op-inline.h"

struct weir_poller {
	struct reactor_obj obj;
	struct weir_reactor *reactor;
	struct weir_poller *next;
	struct weir_poller **pprev;
	uint64_t period_ns;
	uint64_t last_ns;	/* When it ran. */
	weir_poller_fn *fn;
	void *arg;
};

static void poller_abandon(struct reactor_obj *obj)
{
	weir_poller_destroy(weir_container_of(obj, struct weir_poller, obj));
}

int weir_poller_create(struct weir_poller **ret, struct weir_reactor *r,
		       uint64_t period_ns, weir_poller_fn *fn, void *arg)
{
	struct weir_poller *p;
	int err;

	if (!fn)
		return why(-EINVAL, "weir_poller_create: no callback");
	p = mem_calloc(1, sizeof(*p));
	if (!p)
		return why(-ENOMEM, "weir_poller_create: no memory");
	err = reactor_attach(r, &p->obj, "weir_poller");
	if (err) {
		free(p);
		return err;
	}
	p->obj.abandon = poller_abandon;
	p->reactor = r;
	p->period_ns = period_ns;
	p->fn = fn;
	p->arg = arg;
	p->next = r->pollers;
	p->pprev = &r->pollers;
	if (p->next)
		p->next->pprev = &p->next;
	r->pollers = p;
	reactor_touch(r);
	*ret = p;
	return 0;
}

void weir_poller_destroy(struct weir_poller *poller)
{
	struct weir_reactor *r;

	if (!poller)
		return;
	r = poller->reactor;
	reactor_check_thread(r);
	if (r->poller_next == poller && !mutation(use_after_free))
		r->poller_next = poller->next;
	*poller->pprev = poller->next;
	if (poller->next)
		poller->next->pprev = poller->pprev;
	reactor_detach(&poller->obj);
	free(poller);
}

/* A callback may destroy any: the cursor is moved on by what it destroys. */
unsigned int pollers_run(struct weir_reactor *r)
{
	struct weir_poller *p;
	unsigned int did = 0;
	int n;

	reactor_check_thread(r);
	for (p = r->pollers; p; p = r->poller_next) {
		r->poller_next = p->next;
		if (p->period_ns)
			p->last_ns = reactor_now(r);
		n = p->fn(p, p->arg);
		did += n > 0;
	}
	return did;
}

uint64_t pollers_next(struct weir_reactor *r)
{
	uint64_t next = WEIR_FOREVER, at;
	struct weir_poller *p;

	reactor_check_thread(r);
	for (p = r->pollers; p; p = p->next) {
		if (!p->period_ns)
			return 0;
		at = p->period_ns < WEIR_FOREVER - p->last_ns ?
		     p->last_ns + p->period_ns : WEIR_FOREVER;
		if (at < next)
			next = at;
	}
	return next;
}
