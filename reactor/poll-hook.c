/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Poll hooks: what is polled while the reactor is awake, which is cheaper than
 * a wake-up, and armed before it sleeps.
 *
 * The reactor has lists of nodes.  A node is embedded in an operation that
 * waits for a word of memory, or in a hook of <weir/poll-hook.h>, whose class
 * calls the user's functions.
 */

#include <weir/poll-hook.h>

#include <poll.h>
#include <stdlib.h>

#include <weir/watch.h>

#include "base/alloc.h"
#include "base/opts.h"
#include "base/why.h"
#include "reactor/op-inline.h"
#include "reactor/source.h"
#include "reactor/stats/page.h"

#define RETRY_NS WEIR_MSEC /* Until a hook that could not be armed is polled. */

static struct hook_list *list_of(struct weir_reactor *r,
				 const struct weir_hook_node *node)
{
	return node->cls->deliver ? &r->hooks : &r->plain_hooks;
}

void hook_begin(struct weir_reactor *r, struct weir_hook_node *node,
		const struct weir_hook_class *cls)
{
	struct hook_list *list;

	reactor_check_thread(r);
	node->cls = cls;
	list = list_of(r, node);
	node->next = list->first;
	node->pprev = &list->first;
	if (node->next)
		node->next->pprev = &node->next;
	list->first = node;
	list->n++;
	r->n_hooks++;
	r->hooks_at_ns = 0; /* It was not asked. */
}

void hook_end(struct weir_reactor *r, struct weir_hook_node *node)
{
	struct hook_list *list;

	reactor_check_thread(r);
	if (!node->pprev)
		return;
	list = list_of(r, node);
	if (list->at == node)
		list->at = node->next;
	if (r->hook_next == node)
		r->hook_next = node->next;
	*node->pprev = node->next;
	if (node->next)
		node->next->pprev = node->pprev;
	node->pprev = NULL;
	debug_check(list->n > 0);
	list->n--;
	debug_check(r->n_hooks > 0);
	r->n_hooks--;
}

/*
 * What a function of the user's starts while the reactor waits is submitted
 * only by a turn, so whether it has started something must be known.  A host is
 * told of it by host_kick(), and here host_kick() tells the reactor itself.
 * Returns what calls_end() gets.
 */
static uint32_t calls_begin(struct weir_reactor *r)
{
	uint32_t attention = r->attention;

	debug_check(reactor_is_entered(r));
	r->attention |= ATTENTION_KICK;
	return attention & ATTENTION_KICK;
}

/* Returns whether a turn is due.  A host's turn takes back the kick itself. */
static bool calls_end(struct weir_reactor *r, uint32_t kick)
{
	bool kicked = r->host.kicked;

	if (!kick)
		r->attention &= ~(uint32_t)ATTENTION_KICK;
	if (kicked && r->host.epoll < 0)
		r->host.kicked = false;
	return kicked;
}

/* A hook may end itself or another hook: hook_end() moves .at on. */
static struct weir_hook_node *next(struct hook_list *list)
{
	struct weir_hook_node *node = list->at ? list->at : list->first;

	if (node)
		list->at = node->next;
	return node;
}

/* How many have their turn. */
static uint32_t share(const struct hook_list *list)
{
	return list->n < WEIR_POLL_HOOKS_AT_ONCE ? list->n :
						   WEIR_POLL_HOOKS_AT_ONCE;
}

static bool run(struct hook_list *list)
{
	uint32_t n = share(list);
	struct weir_hook_node *node;
	bool any = false;

	while (n-- && (node = next(list)))
		any |= node->cls->poll(node);
	return any;
}

bool hooks_run(struct weir_reactor *r, bool spinning)
{
	uint32_t kick;
	bool any;

	reactor_check_thread(r);
	if (!spinning) {
		/* The first of a world's turn. */
		if (r->hooks_asked)
			hooks_awake(r);
		return run(&r->plain_hooks);
	}
	any = run(&r->plain_hooks);
	if (!r->hooks.n)
		return any;
	kick = calls_begin(r);
	any |= run(&r->hooks);
	return calls_end(r, kick) || any;
}

unsigned int hooks_deliver(struct weir_reactor *r)
{
	uint32_t n = share(&r->hooks);
	struct weir_hook_node *node;
	unsigned int ran = 0;

	reactor_check_thread(r);
	while (n-- && ran < r->turn_max && (node = next(&r->hooks)))
		ran += node->cls->deliver(node, r->turn_max - ran);
	return ran;
}

/*
 * Ask all of @list, because nothing may be left out that would not be heard of,
 * but none after one for which the reactor must not sleep.
 */
static uint64_t ask(struct weir_reactor *r, struct hook_list *list, uint64_t at)
{
	struct weir_hook_node *node;
	uint64_t its;

	for (node = list->first; node && at; node = r->hook_next) {
		r->hook_next = node->next;
		its = node->cls->asleep(node);
		if (its < at)
			at = its;
	}
	r->hook_next = NULL;
	return at;
}

uint64_t hooks_asleep(struct weir_reactor *r)
{
	uint64_t at = ask(r, &r->plain_hooks, WEIR_FOREVER);
	uint32_t kick;

	reactor_check_thread(r);
	r->hooks_asked = true;
	if (r->hooks.n && at) {
		r->hooks_at_ns = WEIR_FOREVER;
		kick = calls_begin(r);
		at = ask(r, &r->hooks, at);
		/* Or there is a new hook. */
		if (calls_end(r, kick) || !r->hooks_at_ns)
			at = 0;
	}
	r->hooks_at_ns = at;
	return at;
}

void hooks_awake(struct weir_reactor *r)
{
	struct weir_hook_node *node;

	reactor_check_thread(r);
	r->hooks_asked = false;
	for (node = r->plain_hooks.first; node; node = node->next)
		if (node->cls->awake)
			node->cls->awake(node);
}

/*
 * Hooks of <weir/poll-hook.h>.
 */

/* A descriptor that a hook has named, watched once for each sleep that it ends.
 * The kernel may still have a request for it when the hook is gone. */
struct hook_fd {
	struct source source;
	struct observer observer;	/* In a world, if it is the system's. */
	struct weir_poll_hook *hook;
	int error;	/* It cannot be watched: until there is another. */
};

struct weir_poll_hook {
	struct reactor_obj obj;
	struct weir_hook_node node;
	struct weir_reactor *reactor;
	struct weir_poll_hook_ops ops;
	void *arg;
	struct hook_fd *fd;	/* NULL: it has named none. */
	uint32_t entered;	/* Functions of its own on the stack. */
	bool ended;		/* To be freed when they have returned. */
	bool due;		/* .poll() has found something. */
	bool slept;		/* .after_sleep() is due. */
	bool readable;		/* And the descriptor was. */
	struct weir_poll_hook_stats stats;
	struct stats_item item;
};

static struct weir_poll_hook *hook_of(struct weir_hook_node *node)
{
	return weir_container_of(node, struct weir_poll_hook, node);
}

/* A function of the user's is about to be called, and may destroy the hook. */
static void enter(struct weir_poll_hook *hook)
{
	debug_check(!hook->ended);
	hook->entered++;
}

/* Returns whether the hook is still there. */
static bool leave(struct weir_poll_hook *hook)
{
	bool ended = hook->ended;

	debug_check(hook->entered > 0);
	if (!--hook->entered && ended)
		free(hook);
	return !ended;
}

static void failed(struct weir_poll_hook *hook, int err)
{
	debug_check(err < 0);
	hook->stats.failures++;
	hook->stats.error = err;
}

/* Call .poll().  Between enter() and leave(). */
static void poll_once(struct weir_poll_hook *hook)
{
	int n;

	hook->stats.polls++;
	n = hook->ops.poll(hook->arg);
	if (n > 0) {
		hook->stats.found++;
		hook->due = true;
	} else if (n < 0) {
		failed(hook, n);
	}
}

/* While the reactor spins. */
static bool public_poll(struct weir_hook_node *node)
{
	struct weir_poll_hook *hook = hook_of(node);
	bool due;

	if (hook->due)
		return true;
	enter(hook);
	poll_once(hook);
	due = hook->due;
	leave(hook);
	return due;
}

/* Call .deliver() for what was found.  Returns how much was done. */
static unsigned int deliver_due(struct weir_poll_hook *hook, uint32_t max)
{
	int n = 0;

	if (hook->ops.deliver)
		n = hook->ops.deliver(hook->arg, max);
	if (n < 0)
		failed(hook, n);
	else
		hook->stats.delivered += (unsigned int)n;
	hook->due = n > 0 && (uint32_t)n >= max;
	return n <= 0 ? 1 : (uint32_t)n < max ? (unsigned int)n : max;
}

static void tell_awake(struct weir_poll_hook *hook)
{
	bool readable = hook->readable;

	hook->slept = hook->readable = false;
	if (hook->ops.after_sleep)
		hook->ops.after_sleep(hook->arg, readable);
}

static unsigned int public_deliver(struct weir_hook_node *node,
				   unsigned int max)
{
	struct weir_poll_hook *hook = hook_of(node);
	unsigned int ran = 0;

	enter(hook);
	if (hook->slept || hook->readable)
		tell_awake(hook);
	if (!hook->ended && !hook->due)
		poll_once(hook);
	if (!hook->ended && hook->due)
		ran = deliver_due(hook, max);
	leave(hook);
	return ran;
}

/* The descriptor is readable, or cannot be watched.  Not watched again before
 * the next sleep, however long it stays readable. */
static void fd_ready(struct source *s, int64_t res, int rx_id)
{
	struct hook_fd *fd = weir_container_of(s, struct hook_fd, source);

	(void)rx_id;
	if (res < 0) {
		fd->error = (int)res;
		failed(fd->hook, fd->error);
		return;
	}
	s->reactor->backend->disarm(s->reactor, s);
	fd->hook->readable = true;
	fd->hook->stats.wakeups++;
}

static void fd_release(struct source *s)
{
	free(weir_container_of(s, struct hook_fd, source));
}

/* In a world, some time after every other event. */
static void fd_observe(struct observer *observer)
{
	struct hook_fd *fd = weir_container_of(observer, struct hook_fd,
					       observer);
	struct weir_reactor *r = fd->source.reactor;
	struct pollfd pfd = { .fd = fd->source.fd, .events = POLLIN };

	if (!r->hooks_asked || poll(&pfd, 1, 0) <= 0)
		return;
	if (!fd->hook->readable)
		fd->hook->stats.wakeups++;
	fd->hook->readable = true;
	r->hooks_at_ns = 0;
}

static void unwatch(struct weir_poll_hook *hook)
{
	struct hook_fd *fd = hook->fd;

	if (!fd)
		return;
	hook->fd = NULL;
	observer_del(&fd->observer);
	source_destroy(&fd->source);
}

/* Check @fd, and remember the answer. */
static int name_fd(struct weir_poll_hook *hook, int number)
{
	struct weir_reactor *r = hook->reactor;
	struct hook_fd *fd = mem_calloc(1, sizeof(*fd));

	if (!fd)
		return -ENOMEM;
	fd->hook = hook;
	fd->source.reactor = r;
	fd->source.kind = SOURCE_WATCH;
	fd->source.fd = number;
	fd->source.events = WEIR_READABLE;
	fd->source.deliver = fd_ready;
	fd->source.release = fd_release;
	hook->fd = fd;
	if (r->backend->observe && !fd_is_virtual(number)) {
		fd->observer.fn = fd_observe;
		r->backend->observe(r, &fd->observer);
		return 0;
	}
	fd->error =
		source_check_fd(r, number, "weir_poll_hook_ops.before_sleep");
	return fd->error;
}

/* Watch what .before_sleep() has set: 0, or why it cannot be. */
static int watch(struct weir_poll_hook *hook, int number)
{
	struct weir_reactor *r = hook->reactor;
	struct source *s;
	int err;

	if (hook->fd && hook->fd->source.fd != number)
		unwatch(hook);
	if (number < 0)
		return 0;
	err = hook->fd ? hook->fd->error : name_fd(hook, number);
	if (err || hook->fd->observer.fn)
		return err;
	s = &hook->fd->source;
	if (s->armed)
		return 0;
	r->hooks_armed = true;
	return r->backend->arm(r, s);
}

/* .before_sleep() has returned @n, and the descriptor @fd. */
static uint64_t after_asking(struct weir_poll_hook *hook, int n, int fd)
{
	if (n > 0) {
		hook->stats.refused++;
		return 0;
	}
	if (!n)
		n = watch(hook, fd);
	if (n < 0) {
		failed(hook, n);
		return reactor_now_fresh(hook->reactor) + RETRY_NS;
	}
	hook->stats.sleeps++;
	return WEIR_FOREVER;
}

static uint64_t public_asleep(struct weir_hook_node *node)
{
	struct weir_poll_hook *hook = hook_of(node);
	int n, fd = hook->fd ? hook->fd->source.fd : -1;
	uint64_t at = 0;

	if (hook->due)
		return 0;
	enter(hook);
	hook->slept = true;
	n = hook->ops.before_sleep(hook->arg, &fd);
	if (!hook->ended)
		at = after_asking(hook, n, fd);
	leave(hook);
	return at;
}

static const struct weir_hook_class public_class = {
	.poll = public_poll,
	.deliver = public_deliver,
	.asleep = public_asleep,
};

struct hook_counters {
	uint64_t polls, found, delivered, sleeps, refused, wakeups, failures;
};

static const struct stats_field stats_fields[] = {
	STATS_COUNT("polls", "Polls"),
	STATS_COUNT("found", "Of them, those that found something"),
	STATS_COUNT("delivered", "Callbacks that the hook has run"),
	STATS_COUNT("sleeps", "Times that the hook has allowed a sleep"),
	STATS_COUNT("refused", "Times that it has refused one"),
	STATS_COUNT("wakeups", "Times that its descriptor was readable"),
	STATS_COUNT("failures", "Failures of its functions and its watch"),
};
STATS_FITS(stats_fields, struct hook_counters, polls);

static const struct stats_kind stats_kind =
	STATS_KIND("poll_hook", stats_fields);

static void publish(struct stats_item *item, uint64_t now)
{
	const struct weir_poll_hook_stats *s =
		&weir_container_of(item, struct weir_poll_hook, item)->stats;
	struct hook_counters w = {
		s->polls,   s->found,   s->delivered, s->sleeps,
		s->refused, s->wakeups, s->failures,
	};

	stats_put(item->record, now, &w);
}

static int load_ops(struct weir_poll_hook_ops *ops,
		    const struct weir_poll_hook_ops *user)
{
	int err = opts_load(ops, sizeof(*ops), user, "weir_poll_hook_create");

	if (!err && (!ops->poll || !ops->before_sleep))
		err = why(-EINVAL, "weir_poll_hook_create: .poll or "
			  ".before_sleep is NULL; one that needs no wake-up "
			  "returns 0 and leaves -1");
	return err;
}

int weir_poll_hook_create(struct weir_poll_hook **ret, struct weir_reactor *r,
			  const struct weir_poll_hook_ops *user, void *arg)
{
	struct weir_poll_hook_ops ops;
	struct weir_poll_hook *hook;
	int err;

	reactor_check_thread(r);
	err = load_ops(&ops, user);
	if (err)
		return err;
	hook = mem_calloc(1, sizeof(*hook));
	if (!hook)
		return why(-ENOMEM, "weir_poll_hook_create: no memory");
	err = reactor_attach(r, &hook->obj, "weir_poll_hook");
	if (err) {
		free(hook);
		return err;
	}
	hook->reactor = r;
	hook->ops = ops;
	hook->arg = arg;
	hook_begin(r, &hook->node, &public_class);
	reactor_touch(r);
	stats_item_add(r, &hook->item, &stats_kind, publish, 0,
		       ops.name ? ops.name : "");
	*ret = hook;
	return 0;
}

int weir_poll_hook_stats(const struct weir_poll_hook *hook,
			 struct weir_poll_hook_stats *ret)
{
	reactor_check_thread(hook->reactor);
	return opts_give(ret, &hook->stats, sizeof(hook->stats),
			 "weir_poll_hook_stats");
}

void weir_poll_hook_destroy(struct weir_poll_hook *hook)
{
	struct weir_reactor *r;

	if (!hook)
		return;
	r = hook->reactor;
	reactor_check_thread(r);
	check(!hook->ended);
	unwatch(hook);
	hook_end(r, &hook->node);
	stats_item_del(&hook->item);
	reactor_detach(&hook->obj);
	reactor_touch(r);
	hook->ended = true;
	if (!hook->entered)
		free(hook);
}
