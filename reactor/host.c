/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The one descriptor for foreign loops: an epoll set of three.
 *
 *	the backend's descriptor   completions, readiness, posts (by its wake())
 *	an eventfd                 work that is known already: what was started
 *	                           outside a turn, what a bounded turn left over
 *	a timerfd                  the next timer, set at the end of each turn
 *
 * Between turns the reactor counts as asleep, so that senders wake it.
 */

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/why.h"
#include "reactor/op-inline.h"

void host_init(struct weir_reactor *r)
{
	reactor_check_thread(r);
	r->host.epoll = r->host.event = r->host.timer = -1;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void host_fini(struct weir_reactor *r)
{
	reactor_check_thread(r);
	close_fd(&r->host.epoll);
	close_fd(&r->host.event);
	close_fd(&r->host.timer);
}

void host_turn_begins(struct weir_reactor *r)
{
	uint64_t now = reactor_now_fresh(r);
	eventfd_t n;

	reactor_check_thread(r);
	r->attention &= ~(uint32_t)ATTENTION_KICK;
	atomic_store(&r->mailbox.asleep, false);
	hooks_awake(r);
	if (unlikely(r->page))
		stats_after_sleep(r);
	if (r->host.kicked) {
		r->host.kicked = false;
		eventfd_read(r->host.event, &n);
	}
	r->stats.sleep_ns += now - r->host.left_ns;
	r->wait.clocked_ns = now;
	if (unlikely(r->core)) {
		core_tell_time(r, now, false);
		core_poll(r, now);
	}
}

/* From here on senders see it asleep. */
static void host_has_it(struct weir_reactor *r, uint64_t now)
{
	r->host.left_ns = now;
	r->attention |= ATTENTION_KICK;
	if (unlikely(r->core))
		core_tell_time(r, now, true);
	atomic_store(&r->mailbox.asleep, true);
}

/* An absolute time that is past makes the timerfd readable at once. */
static void arm_timer(struct weir_reactor *r, uint64_t next_ns)
{
	struct itimerspec its = { 0 };

	if (next_ns == r->host.armed_ns)
		return;
	r->host.armed_ns = next_ns;
	if (next_ns != WEIR_FOREVER) {
		its.it_value.tv_sec = (time_t)(next_ns / WEIR_SEC);
		its.it_value.tv_nsec = (long)(next_ns % WEIR_SEC);
		if (!next_ns)
			its.it_value.tv_nsec = 1;
	}
	timerfd_settime(r->host.timer, TFD_TIMER_ABSTIME, &its, NULL);
}

/* The watches of hooks are armed after the flush of the turn, and the host's
 * loop does not come back for them. */
static bool hooks_are_ready(struct weir_reactor *r)
{
	if (likely(!r->hooks_armed))
		return false;
	r->hooks_armed = false;
	return r->backend->flush(r) < 0 || r->backend->ready(r);
}

void host_turn_ends(struct weir_reactor *r, bool more, uint64_t next_ns)
{
	uint64_t now = reactor_now_fresh(r), hooks;

	reactor_check_thread(r);
	if (unlikely(r->page))
		next_ns = stats_before_sleep(r, now, next_ns);
	host_has_it(r, now);
	hooks = hooks_asleep(r);
	if (hooks < next_ns)
		next_ns = hooks;
	if (next_ns <= now || hooks_are_ready(r))
		more = true;
	else
		arm_timer(r, next_ns);
	if (more || mailbox_has(&r->mailbox) || reactor_requested(r))
		host_kick(r);
}

static int add(int epoll, int fd)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.fd = fd };

	if (fault("epoll_ctl"))
		return -ENOMEM;
	return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

static int host_open(struct host *h, int pollfd)
{
	int err;

	if (pollfd < 0)
		return pollfd;
	if (fault("eventfd") || fault("timerfd") || fault("epoll_create"))
		return -EMFILE;
	h->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (h->event < 0)
		return -errno;
	h->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (h->timer < 0)
		return -errno;
	h->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (h->epoll < 0)
		return -errno;
	err = add(h->epoll, pollfd);
	if (!err)
		err = add(h->epoll, h->event);
	if (!err)
		err = add(h->epoll, h->timer);
	return err;
}

/* Whether its backend can be replaced: no object or operation uses it. */
static bool is_fresh(struct weir_reactor *r)
{
	return !reactor_in_flight(r) && !r->objs && !r->n_zombies && !r->rx;
}

/* Kicked at first: it is unknown what was started before. */
int weir_reactor_fd(struct weir_reactor *r)
{
	int err;

	reactor_check_thread(r);
	if (r->host.epoll >= 0)
		return r->host.epoll;
	if (r->backend->isolated)
		return why(-EOPNOTSUPP, "weir_reactor_fd: the %s backend has "
			   "no descriptor for a foreign loop",
			   r->backend->name);
	if (!r->opts.hosted && !is_fresh(r))
		return why(-EBUSY, "weir_reactor_fd: the reactor is in use "
			   "already; call this before anything is started on "
			   "it or made for it, or create it with .hosted = 1");
	err = host_open(&r->host, r->backend->pollfd(r));
	if (err) {
		host_fini(r);
		return why_no_fd(err, "weir_reactor_fd",
				 "an eventfd, a timerfd or an epoll set");
	}
	r->host.armed_ns = WEIR_FOREVER;
	if (!r->in_turn)
		host_has_it(r, reactor_now_fresh(r));
	host_kick(r);
	return r->host.epoll;
}
