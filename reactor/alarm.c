/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Alarms: a heap of those that are set, by time, and one timerfd of the wall
 * clock for the first of them, which the kernel cancels when the clock is set.
 *
 * .n_set counts how often the clock was set, and each alarm has the count of which
 * it was last notified.  A delivery makes at most .turn_max callbacks; what is left
 * is due in the next turn, for which the timerfd is set to a time in the past.  An
 * alarm that a callback sets to the past is due then, too, after all of these.
 */

#include <weir/alarm.h>

#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <weir/watch.h>

#include "base/alloc.h"
#include "base/fault.h"
#include "base/why.h"
#include "reactor/op-inline.h"
#include "reactor/source.h"

#define PAST 1			/* ns; 0 would be: never. */
#define SECONDS_MAX INT64_C(9223372035) /* What the kernel takes as a time. */

struct weir_alarm {
	struct alarms *all;
	struct weir_alarm *next, **pprev; /* In all->first. */
	uint64_t when_ns;
	uint32_t place;		/* In the heap + 1; 0: it is not set. */
	uint32_t notified;	/* Of all->n_set. */
	weir_alarm_fn *fn;
	void *arg;
};

struct alarms {
	struct source source;	/* On the timerfd. */
	struct weir_alarm *first;
	struct weir_alarm *next_notified; /* That the clock was set; or NULL. */
	uint32_t n_set;		/* How often the clock was set. */
	uint32_t n, n_heap, max; /* The heap has capacity for all. */
	struct weir_alarm **heap;
	uint64_t armed_ns;	/* The timerfd's. */
	uint64_t now_ns;	/* Of the last delivery. */
	bool delivering;	/* That frees it, */
	bool released;		/* if this is set. */
};

static void put(struct alarms *all, uint32_t i, struct weir_alarm *a)
{
	all->heap[i] = a;
	a->place = i + 1;
}

/* @a has its place at @i or above. */
static void sift_up(struct alarms *all, uint32_t i, struct weir_alarm *a)
{
	uint32_t up;

	for (; i; i = up) {
		up = (i - 1) / 2;
		if (all->heap[up]->when_ns <= a->when_ns)
			break;
		put(all, i, all->heap[up]);
	}
	put(all, i, a);
}

/* Or below. */
static void sift_down(struct alarms *all, uint32_t i, struct weir_alarm *a)
{
	uint32_t down;

	while ((down = 2 * i + 1) < all->n_heap) {
		if (down + 1 < all->n_heap &&
		    all->heap[down + 1]->when_ns < all->heap[down]->when_ns)
			down++;
		if (a->when_ns <= all->heap[down]->when_ns)
			break;
		put(all, i, all->heap[down]);
		i = down;
	}
	put(all, i, a);
}

static void heap_del(struct weir_alarm *a)
{
	struct alarms *all = a->all;
	struct weir_alarm *last;
	uint32_t i = a->place - 1;

	if (!a->place)
		return;
	a->place = 0;
	last = all->heap[--all->n_heap];
	if (last == a)
		return;
	if (i && last->when_ns < all->heap[(i - 1) / 2]->when_ns)
		sift_up(all, i, last);
	else
		sift_down(all, i, last);
}

static void heap_add(struct weir_alarm *a)
{
	debug_check(!a->place && a->all->n_heap < a->all->n);
	sift_up(a->all, a->all->n_heap++, a);
}

/* All alarms are to be notified. */
static void clock_was_set(struct alarms *all)
{
	all->n_set++;
	all->next_notified = all->first;
}

/* Set the timerfd to what is due first.  Without that it is set to a time that
 * does not come, to learn when the clock is set. */
static void arm(struct alarms *all)
{
	struct itimerspec its = { .it_value.tv_sec = SECONDS_MAX };
	uint64_t when = all->n_heap ? all->heap[0]->when_ns : WEIR_FOREVER;

	if (all->next_notified || !when)
		when = PAST;
	if (when == all->armed_ns || all->delivering)
		return;
	all->armed_ns = when;
	if (when / WEIR_SEC < (uint64_t)SECONDS_MAX)
		its.it_value = (struct timespec){
			.tv_sec = (time_t)(when / WEIR_SEC),
			.tv_nsec = (long)(when % WEIR_SEC),
		};
	all->source.reactor->stats.syscalls++;
	if (!timerfd_settime(all->source.fd,
			     TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &its,
			     NULL) || errno != ECANCELED)
		return;
	/* It was set since the last time: the timer is armed, and the kernel
	 * will not say so again. */
	clock_was_set(all);
	if (when != PAST)
		arm(all);
}

static uint64_t wall_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	return (uint64_t)ts.tv_sec * WEIR_SEC + (uint64_t)ts.tv_nsec;
}

/* @a is due, or to be notified, or both. */
static void call(struct weir_alarm *a)
{
	uint32_t events = 0;

	if (a->notified != a->all->n_set)
		events |= WEIR_ALARM_CLOCK_SET;
	a->notified = a->all->n_set;
	if (a->place && a->when_ns <= a->all->now_ns) {
		heap_del(a);
		events |= WEIR_ALARM_DUE;
	}
	if (events)
		a->fn(a, events, a->arg);
}

/* The next to call, or NULL. */
static struct weir_alarm *next_due(struct alarms *all)
{
	struct weir_alarm *a = all->next_notified;

	if (a) {
		all->next_notified = a->next;
		return a;
	}
	return all->n_heap && all->heap[0]->when_ns <= all->now_ns ?
		       all->heap[0] : NULL;
}

static void free_now(struct alarms *all)
{
	free(all->heap);
	free(all);
}

static void release(struct source *s)
{
	struct alarms *all = weir_container_of(s, struct alarms, source);

	if (all->delivering)
		all->released = true;
	else
		free_now(all);
}

/* Whether the clock was set since the last time. */
static bool is_set(const struct source *s)
{
	uint64_t n;

	if (read(s->fd, &n, sizeof(n)) < 0)
		return errno == ECANCELED;
	return fault_choice("clock_set");
}

static void deliver(struct source *s, int64_t res, int rx_id)
{
	struct alarms *all = weir_container_of(s, struct alarms, source);
	uint32_t left = s->reactor->turn_max;
	struct weir_alarm *a;

	(void)rx_id;
	if (res < 0)
		(void)source_arm(s);
	if (is_set(s))
		clock_was_set(all);
	all->now_ns = wall_now();
	all->armed_ns = 0;
	all->delivering = true;
	while (all->n && left-- && (a = next_due(all)))
		call(a);
	all->delivering = false;
	if (all->released)
		free_now(all);
	else if (all->n)
		arm(all);
}

/* The first alarm of @r is about to be. */
static int begin(struct alarms **ret, struct weir_reactor *r)
{
	struct alarms *all = mem_calloc(1, sizeof(*all));
	int err, fd;

	if (!all)
		return why(-ENOMEM, "weir_alarm_create: no memory");
	fd = fault("timerfd") ? (errno = EMFILE, -1) :
	     timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
	if (fd < 0) {
		err = -errno;
		free(all);
		return why_no_fd(err, "weir_alarm_create", "a timerfd");
	}
	all->source.deliver = deliver;
	all->source.release = release;
	all->source.events = WEIR_READABLE;
	(void)source_init(&all->source, r, "weir_alarm", SOURCE_WATCH, fd);
	err = source_arm(&all->source);
	if (err) {
		source_destroy(&all->source);
		close(fd);
		return why(err, "weir_alarm_create: no capacity to watch the "
			   "clock");
	}
	r->alarms = all;
	*ret = all;
	return 0;
}

/* There is no alarm any more. */
static void end(struct alarms *all)
{
	int fd = all->source.fd;

	all->source.reactor->alarms = NULL;
	source_destroy(&all->source);
	close(fd);
}

static int add(struct weir_alarm **ret, struct alarms *all, weir_alarm_fn *fn,
	       void *arg)
{
	struct weir_alarm *a = mem_grow(&all->heap, sizeof(struct weir_alarm *),
					all->n, &all->max) ?
			       NULL : mem_calloc(1, sizeof(*a));

	if (!a && !all->n)
		end(all);
	if (!a)
		return why(-ENOMEM, "weir_alarm_create: no memory");
	a->all = all;
	a->fn = fn;
	a->arg = arg;
	a->notified = all->n_set;
	a->next = all->first;
	a->pprev = &all->first;
	if (a->next)
		a->next->pprev = &a->next;
	all->first = a;
	all->n++;
	*ret = a;
	return 0;
}

int weir_alarm_create(struct weir_alarm **ret, struct weir_reactor *r,
		      weir_alarm_fn *fn, void *arg)
{
	struct alarms *all = r->alarms;
	int err;

	reactor_check_thread(r);
	if (!fn)
		return why(-EINVAL, "weir_alarm_create: no callback");
	if (r->backend->isolated)
		return why(-EOPNOTSUPP, "weir_alarm_create: a simulated world "
			   "has no wall clock; see weir_timer_create()");
	if (r->attention & ATTENTION_STOPPING)
		return why(-ESHUTDOWN, "weir_alarm_create: the reactor is "
			   "stopping or stopped");
	err = all ? 0 : begin(&all, r);
	if (!err)
		err = add(ret, all, fn, arg);
	if (!err)
		arm(all);
	return err;
}

void weir_alarm_set(struct weir_alarm *alarm, uint64_t when_ns)
{
	struct alarms *all = alarm->all;

	reactor_check_thread(all->source.reactor);
	if (all->delivering && when_ns <= all->now_ns)
		when_ns = all->now_ns + 1;
	heap_del(alarm);
	alarm->when_ns = when_ns;
	heap_add(alarm);
	arm(all);
}

/* The timerfd stays as it is: at worst it wakes the loop once in vain. */
void weir_alarm_stop(struct weir_alarm *alarm)
{
	reactor_check_thread(alarm->all->source.reactor);
	heap_del(alarm);
}

void weir_alarm_destroy(struct weir_alarm *alarm)
{
	struct alarms *all;

	if (!alarm)
		return;
	weir_alarm_stop(alarm);
	all = alarm->all;
	if (all->next_notified == alarm)
		all->next_notified = alarm->next;
	*alarm->pprev = alarm->next;
	if (alarm->next)
		alarm->next->pprev = alarm->pprev;
	free(alarm);
	if (!--all->n)
		end(all);
}
