/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Polling memory whose writer cannot wake the reactor by itself: words of other
 * processes, completion queues of devices.  While the reactor is awake it
 * polls, which is cheaper than a wake-up.  Before it sleeps it arms the hook (a
 * watcher or a device then wakes it), and polls once more.
 */

#include "reactor/op-inline.h"

bool hook_has_capacity(const struct weir_reactor *r)
{
	reactor_check_thread(r);
	return r->plain_hooks.n < HOOKS_MAX;
}

static struct hook_list *list_of(struct weir_reactor *r,
				 const struct weir_poll_hook *hook)
{
	return hook->cls->deliver ? &r->hooks : &r->plain_hooks;
}

void hook_begin(struct weir_reactor *r, struct weir_poll_hook *hook,
		const struct weir_poll_hook_class *cls)
{
	struct hook_list *list;

	reactor_check_thread(r);
	hook->cls = cls;
	list = list_of(r, hook);
	hook->next = list->first;
	hook->pprev = &list->first;
	if (hook->next)
		hook->next->pprev = &hook->next;
	list->first = hook;
	list->n++;
	r->n_hooks++;
}

void hook_end(struct weir_reactor *r, struct weir_poll_hook *hook)
{
	struct hook_list *list;

	reactor_check_thread(r);
	if (!hook->pprev)
		return;
	list = list_of(r, hook);
	if (list->at == hook)
		list->at = hook->next;
	*hook->pprev = hook->next;
	if (hook->next)
		hook->next->pprev = hook->pprev;
	hook->pprev = NULL;
	debug_check(list->n > 0);
	list->n--;
	debug_check(r->n_hooks > 0);
	r->n_hooks--;
}

/* A hook may end itself or another hook: hook_end() moves .at on. */
static struct weir_poll_hook *next(struct hook_list *list)
{
	struct weir_poll_hook *hook = list->at ? list->at : list->first;

	if (hook)
		list->at = hook->next;
	return hook;
}

/* How many have their turn. */
static uint32_t share(const struct hook_list *list)
{
	return list->n < HOOKS_AT_ONCE ? list->n : HOOKS_AT_ONCE;
}

static bool run(struct hook_list *list)
{
	uint32_t n = share(list);
	struct weir_poll_hook *hook;
	bool any = false;

	while (n-- && (hook = next(list)))
		any |= hook->cls->hook(hook);
	return any;
}

bool hooks_run(struct weir_reactor *r, bool spinning)
{
	bool any = run(&r->plain_hooks);

	reactor_check_thread(r);
	return (spinning && run(&r->hooks)) || any;
}

unsigned int hooks_deliver(struct weir_reactor *r)
{
	uint32_t n = share(&r->hooks);
	struct weir_poll_hook *hook;
	unsigned int ran = 0;

	reactor_check_thread(r);
	while (n-- && ran < r->turn_max && (hook = next(&r->hooks)))
		ran += hook->cls->deliver(hook);
	return ran;
}

/* All: what is left out here might never be heard of. */
bool hooks_asleep(struct weir_reactor *r)
{
	struct weir_poll_hook *hook;
	bool any = false;

	reactor_check_thread(r);
	for (hook = r->plain_hooks.first; hook; hook = hook->next)
		any |= hook->cls->asleep(hook);
	for (hook = r->hooks.first; hook; hook = hook->next)
		any |= hook->cls->asleep(hook);
	return any;
}

void hooks_awake(struct weir_reactor *r)
{
	struct weir_poll_hook *hook;

	reactor_check_thread(r);
	for (hook = r->plain_hooks.first; hook; hook = hook->next)
		if (hook->cls->awake)
			hook->cls->awake(hook);
	for (hook = r->hooks.first; hook; hook = hook->next)
		if (hook->cls->awake)
			hook->cls->awake(hook);
}
