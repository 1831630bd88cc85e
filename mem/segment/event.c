/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Callbacks that are notified when memory is added or removed, and validators.
 *
 * Hooks are numbered and called in that order.  A caller remembers the number
 * of a hook, not its address: a hook that was unregistered meanwhile is not
 * found, and nothing has to be allocated.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/why.h"
#include "mem/segment/table.h"

enum hook_kind { HOOK_EVENT, HOOK_VALIDATOR };

struct hook {
	struct hook *next;
	enum hook_kind kind;
	uint64_t id;
	unsigned int running;	/* Threads that are in it. */
	bool dead;		/* Unregistered. */
	bool awaited;		/* A thread waits to free it. */
	char name[WEIR_SEGMENT_NAME_MAX];
	void *arg;
	weir_segment_event_fn *event;
	weir_segment_validator_fn *validator;
	int node;
	uint64_t limit;
};

/* Guarded by the table's lock. */
static struct hook *hooks[2], **ends[2] = { &hooks[0], &hooks[1] };
static uint64_t last_id;
static pthread_cond_t idle = PTHREAD_COND_INITIALIZER;

/* The hooks that this thread is in. */
static _Thread_local unsigned int depth;

static int check_name(const char *name, const char *call)
{
	if (!name || !*name)
		return why(-EINVAL, "%s: no name", call);
	if (strnlen(name, WEIR_SEGMENT_NAME_MAX) >= WEIR_SEGMENT_NAME_MAX)
		return why(-ENAMETOOLONG, "%s: the name has %d bytes or more",
			   call, WEIR_SEGMENT_NAME_MAX);
	return 0;
}

/* The link that points to it, for removal.  NULL: it is not in the list. */
static struct hook **find(enum hook_kind kind, const char *name, void *arg,
			  int node)
{
	struct hook **p;

	for (p = &hooks[kind]; *p; p = &(*p)->next)
		if (!strcmp((*p)->name, name) &&
		    (kind == HOOK_EVENT ? (*p)->arg == arg :
					  (*p)->node == node))
			return p;
	return NULL;
}

static int hook_register(const struct hook *wish, const char *name,
			 const char *call)
{
	struct hook *hook;
	int err = check_name(name, call);

	if (err)
		return err;
	hook = mem_calloc(1, sizeof(*hook));
	if (!hook)
		return why(-ENOMEM, "%s: no memory", call);
	*hook = *wish;
	strcpy(hook->name, name);
	segments_lock();
	if (find(hook->kind, name, hook->arg, hook->node)) {
		err = why(-EEXIST, "%s: there is a %s already", call, name);
	} else {
		hook->id = ++last_id;
		*ends[hook->kind] = hook;
		ends[hook->kind] = &hook->next;
	}
	segments_unlock();
	if (err)
		free(hook);
	return err;
}

/* Remove it from the chain.  The last thread that is in it frees it, or the
 * thread that waits. */
static void take_out(struct hook **p)
{
	struct hook *hook = *p;

	*p = hook->next;
	if (!hook->next)
		ends[hook->kind] = p;
	hook->dead = true;
	if (hook->running && depth)
		return;
	hook->awaited = true;
	while (hook->running)
		pthread_cond_wait(&idle, &segments.lock);
	free(hook);
}

static int hook_unregister(enum hook_kind kind, const char *name, void *arg,
			   int node, const char *call)
{
	struct hook **p;
	int err = check_name(name, call);

	if (err)
		return err;
	segments_lock();
	p = find(kind, name, arg, node);
	if (p)
		take_out(p);
	else
		err = why(-ENOENT, "%s: there is no %s", call, name);
	segments_unlock();
	return err;
}

int weir_segment_event_register(const char *name, weir_segment_event_fn *fn,
				void *arg)
{
	struct hook wish = { .kind = HOOK_EVENT, .event = fn, .arg = arg };

	if (!fn)
		return why(-EINVAL, "weir_segment_event_register: no callback");
	return hook_register(&wish, name, "weir_segment_event_register");
}

int weir_segment_event_unregister(const char *name, void *arg)
{
	return hook_unregister(HOOK_EVENT, name, arg, 0,
			       "weir_segment_event_unregister");
}

int weir_segment_validator_register(const char *name,
				    weir_segment_validator_fn *fn, void *arg,
				    int node, uint64_t limit)
{
	struct hook wish = {
		.kind = HOOK_VALIDATOR, .validator = fn, .arg = arg,
		.node = node, .limit = limit,
	};

	if (!fn || node < 0)
		return why(-EINVAL, "weir_segment_validator_register: %s",
			   fn ? "a negative node" : "no callback");
	return hook_register(&wish, name, "weir_segment_validator_register");
}

int weir_segment_validator_unregister(const char *name, int node)
{
	if (node < 0)
		return why(-EINVAL, "weir_segment_validator_unregister: a "
			   "negative node");
	return hook_unregister(HOOK_VALIDATOR, name, NULL, node,
			       "weir_segment_validator_unregister");
}

/* Enter the first hook after number @after, up to @last.  Under the lock. */
static struct hook *enter(enum hook_kind kind, uint64_t after, uint64_t last)
{
	struct hook *hook;

	for (hook = hooks[kind]; hook && hook->id <= after; hook = hook->next)
		;
	if (!hook || hook->id > last)
		return NULL;
	hook->running++;
	return hook;
}

/* Under the lock. */
static void leave(struct hook *hook)
{
	if (--hook->running || !hook->dead)
		return;
	if (hook->awaited)
		pthread_cond_broadcast(&idle);
	else
		free(hook);
}

static void call_event(struct hook *hook, int event,
		       const struct segment_list *list)
{
	struct weir_segment copy = list->whole;

	segments_unlock();
	depth++;
	hook->event(event, &copy, hook->arg);
	depth--;
	segments_lock();
	leave(hook);
}

void segment_tell_added(struct segment_list *list)
{
	struct hook *hook;
	uint64_t last;

	segments_lock();
	last = last_id;
	list->telling = true;
	list->teller = pthread_self();
	while (list->state == LIST_LIVE &&
	       (hook = enter(HOOK_EVENT, list->told, last))) {
		list->told = hook->id;
		call_event(hook, WEIR_SEGMENT_ADDED, list);
	}
	list->telling = false;
	if (list->state == LIST_LIVE)
		list->told = UINT64_MAX;
	segments_unlock();
}

void segment_tell_removing(struct segment_list *list)
{
	struct hook *hook;
	uint64_t at = 0;

	segments_lock();
	while ((hook = enter(HOOK_EVENT, at, list->told))) {
		at = hook->id;
		call_event(hook, WEIR_SEGMENT_REMOVING, list);
	}
	segments_unlock();
}

/*
 * The answer of @hook, if it is for this node.  The lock is released meanwhile.
 */
static int ask(struct hook *hook)
{
	uint64_t total = segments_own_bytes(hook->node, true);
	int res;

	if (total < hook->limit)
		return 0;
	segments_unlock();
	depth++;
	res = hook->validator(hook->node, hook->limit, total, hook->arg);
	depth--;
	if (res)
		res = why(res < 0 ? res : -EPERM, "weir_mmap_start: validator "
			  "%s refuses %llu bytes on node %d, its limit is %llu",
			  hook->name, (unsigned long long)total, hook->node,
			  (unsigned long long)hook->limit);
	segments_lock();
	return res;
}

int segment_validate(struct segment_list *list)
{
	int node = list->whole.node < 0 ? 0 : list->whole.node;
	uint64_t at = 0, last;
	struct hook *hook;
	int res, err = 0;

	segments_lock();
	last = last_id;
	if (list->whole.flags & (WEIR_SEGMENT_EXTERNAL | WEIR_SEGMENT_IMPORTED))
		last = 0;
	while ((hook = enter(HOOK_VALIDATOR, at, last))) {
		at = hook->id;
		res = hook->node == node ? ask(hook) : 0;
		leave(hook);
		if (!err)
			err = res;
	}
	segments_unlock();
	return err;
}
