/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_REACTOR_REACTOR_INTERNAL_H
#define WEIR_REACTOR_REACTOR_INTERNAL_H

/*
 * The reactor's own struct, and what its files share.
 *
 *	reactor.c    create and destroy, options; object.c what hangs on it;
 *	             object-user.c objects of the program's own
 *	op.c         the life of an operation, cancel, deadline; op-inline.h
 *	op-user.c    operations of the program's own
 *	turn.c       the order of a turn, run, stop and drain
 *	wait.c       spin, sleep, and the account of time
 *	host.c       the one descriptor for foreign loops
 *	poll-hook.c  what is polled, and armed before a sleep
 *	worker.c     threads for what blocks
 *	wheel.c      the timer wheel;  timer.c  timers
 *	file.c       file operations;  socket.c  socket operations;  splice.c
 *	io.c         what they have in common: start, steps, buffers, cancel
 *	io-sync.c    an operation as blocking system calls
 *	source.h     what delivers again and again; watch.c event.c signal.c
 *	             acceptor.c receiver.c udp.c; poller.c
 *	child.c      child processes;  fswatch.c  changes of files
 *	alarm.c      timers on the wall clock
 *	backend.h    the table of a backend; uring/, ev/
 *	stats/       the page that others read; page.h, publish.h
 *	group/       many reactors, and what other threads send to one:
 *	  group.c      a group;  core.c  one of it;  cpu.c, load.c
 *	  mailbox.c    posts, and operations that are returned; requests
 *	  spsc.c       rings between reactors;  call.c  calls by these
 *	  deferred.c   work for a reactor, which is never refused
 */

#include <pthread.h>

#include <weir/reactor.h>

#include "base/check.h"
#include "base/provider.h"
#include "reactor/backend.h"
#include "reactor/cached.h"
#include "reactor/group/mailbox.h"
#include "reactor/op-internal.h"
#include "reactor/spin.h"
#include "reactor/wheel.h"

struct alarms;
struct group_core;
struct mmap_use;
struct rx_free_list;
struct stats_reactor;
struct worker_pool;

/*
 * What hangs on a reactor and must be gone before it: a timer, a pool, a DMA
 * context.  Embedded in the object.
 */
struct reactor_obj {
	const char *what;	/* "watch": for the message of destroy. */
	/* The reactor stops: disarm.  NULL: nothing to do. */
	void (*stop)(struct reactor_obj *obj);
	/* It was set running again.  NULL: nothing to do. */
	void (*start)(struct reactor_obj *obj);
	/* reactor_abandon(): detach and free it, without a callback.  NULL: it
	 * cannot be, so the reactor stays. */
	void (*abandon)(struct reactor_obj *obj);
	/* Its owner has destroyed it, and it does not keep the reactor, which
	 * calls this at its own end: detach and free it, by @until_ns at the
	 * latest.  NULL: it has not. */
	void (*settle)(struct reactor_obj *obj, uint64_t until_ns);
	struct reactor_obj *next;
	struct reactor_obj **pprev;
};

#define HOOKS_MAX 16 /* At this limit optional ones are refused. */

/* Poll hooks, and the one to continue with; NULL: the first. */
struct hook_list {
	struct weir_hook_node *first, *at;
	uint32_t n;
};

/*
 * Called once at the end of a turn, before the backend pushes out what it has: to
 * do with one system call what was started in the turn.  Embedded.
 */
struct flush_node {
	void (*fn)(struct flush_node *node);
	struct flush_node *next;
	struct flush_node **pprev; /* NULL: not in the list. */
};

/* Reasons for which a start takes the slow path; r->attention. */
enum attention {
	ATTENTION_STOPPING = 1,	/* New work is refused. */
	ATTENTION_KICK = 2,	/* A host must be told: we are outside a turn. */
};

/* Which posts are refused; r->refuses. */
enum refuses {
	REFUSES_DOWN = 1,	/* All: it is stopping or stopped. */
	REFUSES_THREADS = 2,	/* Those of threads that are not its own. */
};

/* Requests from any thread; r->requests. */
enum request {
	REQUEST_STOP = 1,
	REQUEST_BREAK = 2,
	REQUEST_RECALL = 4,	/* A waiter for capacity does not wait any more. */
};

/*
 * Operations that were cancelled and have not ended.  The kernel may answer
 * that there is no such request, while it is about to try that request again.
 * So a cancel is repeated until its operation ends, after a delay that doubles.
 * An operation in either list is not in the live list.
 */
struct repeats {
	struct weir_op *due;		/* To cancel in this round. */
	struct weir_op *asked;		/* And in the next. */
	uint64_t at_ns;			/* The next round; WEIR_FOREVER: none. */
	uint64_t delay_ns;		/* Until the one that is planned next. */
};

/* How it waits; see wait.c. */
struct wait {
	struct spin spin;
	uint32_t at_once;		/* Waits that may end without the clock. */
	uint64_t hooks; /* Run, but not accounted for. */
	uint64_t hook_ns; /* Time that one takes. */
	uint64_t clocked_ns;		/* When the last wait with it ended. */
	uint64_t born_ns;
};

/* The one descriptor for a foreign loop; see host.c. */
struct host {
	int epoll, event, timer;	/* -1 until weir_reactor_fd(). */
	uint64_t armed_ns;		/* The timer's setting. */
	uint64_t left_ns;		/* When the last turn ended. */
	bool kicked;			/* The event is readable. */
};

struct weir_reactor {
	/* Hot: one line for starting, one for running. */
	struct weir_op *ready;		/* Singly linked, in order of result. */
	struct weir_op **ready_last;
	uint64_t n_begun;		/* Operations, ever. */
	uint64_t begun_max;		/* Those that ended, and ops_max. */
	uint64_t time_at;		/* The n_begun that is timed next. */
	uint32_t ops_max;
	uint32_t attention;		/* enum attention */
	uint32_t turn_max;
	const struct backend *backend;
	void *backend_data;
	struct weir_op *live;		/* All that are PENDING and not there: */
	struct repeats repeats;

	uint32_t state;			/* WEIR_REACTOR_ */
	bool in_turn;
	bool running;			/* Inside weir_reactor_run(). */
	uint16_t n_entered;		/* See reactor_enter(). */
	struct weir_op *deferred;	/* READY too, due after those. */
	struct weir_op **deferred_last;
	uint64_t now_ns;		/* As of now_turn. */
	uint64_t now_turn;		/* In stats.turns; 0: not known. */
	struct wheel wheel;
	struct mailbox mailbox;
	atomic_uint requests;		/* enum request */
	_Atomic unsigned char refuses;	/* Posts: enum refuses. */

	struct reactor_obj *objs;
	struct alarms *alarms;		/* NULL: there are none. */
	uint32_t n_timers;		/* Counted, not listed: a million. */
	struct weir_timer *free_timers;
	struct timer_slab *timer_slabs;
	struct weir_poller *pollers;
	struct weir_poller *poller_next; /* While they run. */
	struct flush_node *flushes;	/* Due at the end of this turn. */
	struct worker_pool *workers;	/* NULL until first used. */
	struct rx_free_list *rx; /* NULL until first used. */
	struct mmap_use *mmap_uses;	/* mem/mmap-use.c's. */
	struct cached cached;		/* Files that were read. */
	unsigned int delivered;		/* Callbacks of sources and objects. */
	uint32_t n_zombies;		/* Dead sources the kernel still has. */
	uint32_t n_hooks;
	struct hook_list plain_hooks; /* Without callbacks: HOOKS_MAX. */
	struct hook_list hooks; /* With: any number. */
	struct weir_hook_node *hook_next; /* While all are asked. */
	uint64_t hooks_at_ns;	/* Asked: when they must be polled. */
	bool hooks_asked;	/* Before a sleep that has not ended. */
	bool hooks_armed;	/* A watch of theirs was not pushed out yet. */

	struct wait wait;
	struct group_core *core;	/* NULL: it is in no group. */
	struct host host;

	uint64_t publish_at;		/* In which turn, or later; or to see
					 * where this core is. */
	struct stats_reactor *page;	/* NULL: it is not on one. */

	struct weir_reactor_opts opts;	/* With defaults filled in. */
	struct weir_reactor_stats stats;
	pthread_t thread;
	char describe[256];

	/* Of <weir/object.h>, and the next one to tell of the stop. */
	struct weir_object *user_objs, *user_obj_next;
};

static inline void flush_del(struct flush_node *node)
{
	if (!node->pprev)
		return;
	*node->pprev = node->next;
	if (node->next)
		node->next->pprev = node->pprev;
	node->pprev = NULL;
}

static inline void flush_add(struct weir_reactor *r, struct flush_node *node)
{
	if (node->pprev)
		return;
	node->next = r->flushes;
	node->pprev = &r->flushes;
	if (node->next)
		node->next->pprev = &node->next;
	r->flushes = node;
}

#define reactor_check_thread(r) \
	debug_check(pthread_equal((r)->thread, pthread_self()))

/* Hang @obj on @r.  -ESHUTDOWN if it is stopping; leaves a message. */
int reactor_attach(struct weir_reactor *r, struct reactor_obj *obj,
		   const char *what);
void reactor_detach(struct reactor_obj *obj);

/* Put @obj in front of *@at, in the list of a reactor. */
static inline void reactor_insert(struct reactor_obj **at,
				  struct reactor_obj *obj)
{
	obj->next = *at;
	obj->pprev = at;
	if (obj->next)
		obj->next->pprev = &obj->next;
	*at = obj;
}

/* object-user.c: tell those of <weir/object.h> that @r begins to stop. */
void objects_stop(struct weir_reactor *r);

/*
 * The program that @r belongs to was killed: free @r without a callback.  Its
 * operations become idle wherever they are; the backend has forgotten those
 * that it had.  Objects that have an .abandon() are freed.
 *
 * Returns false if @r is not freed, because it has others, or is in a group:
 * the memory of @r and of those must stay, and nothing may use it.
 */
bool reactor_abandon(struct weir_reactor *r) PROVIDER_API(reactor_abandon);

/* Time, read at most once in a turn; or read afresh, for the rest of it. */
static inline uint64_t reactor_now_fresh(struct weir_reactor *r)
{
	r->now_ns = r->backend->now(r);
	r->now_turn = r->stats.turns;
	return r->now_ns;
}

/* Whether @r is the calling thread's; in a world, whether it is its turn. */
static inline bool reactor_is_here(const struct weir_reactor *r)
{
	return unlikely(r->backend->is_here != NULL) ? r->backend->is_here(r) :
	       pthread_equal(r->thread, pthread_self());
}

/* Stopping or stopped.  Any thread. */
static inline bool reactor_is_down(const struct weir_reactor *r)
{
	return atomic_load(&r->refuses) & REFUSES_DOWN;
}

static inline uint64_t reactor_now(struct weir_reactor *r)
{
	if (r->now_turn == r->stats.turns && r->in_turn)
		return r->now_ns;
	return reactor_now_fresh(r);
}

/* op.c: run the callbacks that are due, at most @max.  Returns how many. */
unsigned int op_run_ready(struct weir_reactor *r, unsigned int max)
	PROVIDER_API(op_run_ready);

/* Ask every operation in flight to end. */
void op_cancel_all(struct weir_reactor *r);

/*
 * Cancels that are repeated: plan a round, if there is none; run it, if it is
 * due; return when it is due, or WEIR_FOREVER if there is nothing to repeat.
 */
void repeats_init(struct weir_reactor *r);
void repeats_plan(struct weir_reactor *r);
void repeats_run(struct weir_reactor *r);
uint64_t repeats_due(struct weir_reactor *r);

/* op-inline.h: the rest of op_admit(). */
int op_admit_timely(struct weir_reactor *r, struct weir_op *op);

/* @op was begun with a deadline set. */
void op_deadline_begin(struct weir_reactor *r, struct weir_op *op);

/* turn.c: when a turn would find something: 0 is now, WEIR_FOREVER never.  For
 * a caller that makes the turns of @r and sleeps until then.  Asks the hooks. */
uint64_t reactor_next_turn(struct weir_reactor *r)
	PROVIDER_API(reactor_next_turn);

/* turn.c: turns until the reactor is stopped, or it is @until_ns. */
int turn_until_stopped(struct weir_reactor *r, uint64_t until_ns);

/* turn.c: if the turns of a stopping core fail, do the work that needs no
 * kernel. False: its group may have more for it, or waits for an answer of
 * it. */
bool reactor_settle(struct weir_reactor *r);

/* wait.c: nothing is due: spin, then sleep, no longer than until @until_ns. */
int wait_for_work(struct weir_reactor *r, uint64_t until_ns);
void wait_init(struct weir_reactor *r);

/* host.c */
void host_init(struct weir_reactor *r);
void host_fini(struct weir_reactor *r);
void host_turn_begins(struct weir_reactor *r);
void host_turn_ends(struct weir_reactor *r, bool more, uint64_t next_ns);

/* object.c: wake a foreign loop; once until the next turn.  Not inline, so that
 * callers of reactor_touch() have no registers to save for it. */
void host_kick(struct weir_reactor *r) PROVIDER_API(host_kick);

/*
 * A function of the user's is about to be called, perhaps outside a turn: in a
 * start, say.  Until reactor_exit() the reactor makes no turn, for that would
 * run callbacks inside the start, and cannot be destroyed.  The two may be
 * nested.
 */
static inline void reactor_enter(struct weir_reactor *r)
{
	r->n_entered++;
}

static inline void reactor_exit(struct weir_reactor *r)
{
	debug_check(r->n_entered > 0);
	r->n_entered--;
}

/* Whether a function of the user's is on the stack for @r: in a callback, or
 * between the two. */
static inline bool reactor_is_entered(const struct weir_reactor *r)
{
	return r->in_turn || r->n_entered;
}

/* Something was started or changed outside a turn: wake a foreign loop. */
static inline void reactor_touch(struct weir_reactor *r)
{
	if (unlikely(r->attention & ATTENTION_KICK))
		host_kick(r);
}

/* Operations that are PENDING or READY. */
static inline uint64_t reactor_in_flight(const struct weir_reactor *r)
{
	return r->n_begun + r->ops_max - r->begun_max;
}

/*
 * Reserve capacity for @n operations of an object of the library's own, beyond
 * that of the user's; released with -@n.  Otherwise an object that starts
 * operations on behalf of others could take the capacity that those need to
 * end.
 */
static inline void reactor_reserve(struct weir_reactor *r, int64_t n)
{
	r->ops_max += (uint32_t)n;
	r->begun_max += (uint64_t)n;
}

/* No capacity for an operation that may be refused. */
static inline bool reactor_is_full(const struct weir_reactor *r)
{
	return r->n_begun >= r->begun_max;
}

/* Whether a wait has to end for a request; a break is run()'s alone. */
static inline bool reactor_requested(struct weir_reactor *r)
{
	return atomic_load(&r->requests) &
	       (REQUEST_STOP | REQUEST_RECALL |
		(r->running ? REQUEST_BREAK : 0));
}

/* poller.c: returns how many did something; when they are due again. */
unsigned int pollers_run(struct weir_reactor *r);
uint64_t pollers_next(struct weir_reactor *r);

/*
 * poll-hook.c: poll (in a turn only the hooks without callbacks); deliver,
 * which runs callbacks; the reactor goes to sleep; it is awake again.  The
 * first returns whether there is work for a turn, the second how much was done,
 * the third when there is: 0 is now, WEIR_FOREVER never.  Of the hooks with
 * callbacks a turn, or a poll of a spinning reactor, takes at most
 * WEIR_POLL_HOOKS_AT_ONCE, and the next continues after them.
 */
bool hooks_run(struct weir_reactor *r, bool spinning);
unsigned int hooks_deliver(struct weir_reactor *r);
uint64_t hooks_asleep(struct weir_reactor *r);
void hooks_awake(struct weir_reactor *r);

/* For one more without callbacks that need not be: see hook_begin(). */
static inline bool hook_has_capacity(const struct weir_reactor *r)
{
	return r->plain_hooks.n < HOOKS_MAX;
}

/* Whether a hook wants a turn of a reactor that sleeps. */
static inline bool reactor_hooks_due(const struct weir_reactor *r)
{
	return unlikely(r->n_hooks) && r->hooks_asked && !r->hooks_at_ns;
}

/*
 * For a reactor of a group; group/core.c, group/load.c.  core_poll(): the
 * reactor has nothing to do, or begins a host's turn; check its CPU.
 * core_tell_time(): store whether it goes to sleep.
 */
void core_poll(struct weir_reactor *r, uint64_t now);
void core_tell_time(struct weir_reactor *r, uint64_t now, bool asleep);

/* timer.c: fires what is due, at most @max.  Returns how many. */
unsigned int timers_run(struct weir_reactor *r, unsigned int max);
void timers_fini(struct weir_reactor *r);

#endif /* WEIR_REACTOR_REACTOR_INTERNAL_H */
