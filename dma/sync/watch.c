/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Watchers: threads that sleep, for the operations of all reactors, on the sync
 * events that other processes can signal, and serve the operations whose
 * condition holds.  One watcher sleeps on as many events as futex_waitv()
 * takes; another is started when those before it are full.
 *
 * A sync event is watched from the first operation that had to wait for it to
 * its end, but only checked while it is armed: while operations wait that their
 * reactor does not poll, and once more after some were served, because these
 * are likely to wait again.  So in a steady exchange only the peer wakes the
 * watcher.
 *
 *	armed, under the event's lock: a check will follow, which announces a
 *	waiter in the word before it goes through the list
 *
 * A watcher has a thread while it watches anything.  Places are given and taken
 * back under .life, at the first wait for a sync event and at its end; waits in
 * between take no lock of a watcher.
 *
 * In a simulated world there is no thread: the world checks, some virtual time
 * after every other event.
 */

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/why.h"
#include "dma/sync/internal.h"
#include "reactor/io.h"
#include "reactor/reactor-internal.h"

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif

/* struct futex_waitv, which older headers lack, and its flags. */
struct waitv {
	uint64_t val;
	uint64_t uaddr;
	uint32_t flags;
	uint32_t reserved;
};

#define WAITV_32 2u
#define WAITV_PRIVATE 128u

struct sync_watcher {
	pthread_t thread;
	uint32_t n;		/* Under life. */

	pthread_mutex_t lock;	/* Outside those of sync events. */
	struct weir_sync *first;
	bool quit;
	_Atomic uint32_t control; /* The thread's own futex. */

	/* The thread's. */
	struct waitv vec[SYNC_WATCHED_MAX + 1];
	uint32_t n_vec;
	bool poll;		/* Some are signalled without a wake-up. */
	uint64_t check_ns; /* When to check exporters. */
};

/* Serialises join and leave; taken before the lock of a watcher. */
static pthread_mutex_t life = PTHREAD_MUTEX_INITIALIZER;

/* Memory of those that were never needed is never touched. */
static struct sync_watcher watchers[SYNC_WATCHERS_MAX] = {
	[0 ... SYNC_WATCHERS_MAX - 1] = { .lock = PTHREAD_MUTEX_INITIALIZER },
};

atomic_bool sync_no_waitv;

static void add_word(struct sync_watcher *w, _Atomic uint32_t *word,
		     uint32_t seen, uint32_t flags)
{
	w->vec[w->n_vec++] = (struct waitv){
		.val = seen, .uaddr = (uintptr_t)word,
		.flags = WAITV_32 | flags,
	};
}

static bool is_armed(struct weir_sync *sync)
{
	bool armed;

	pthread_mutex_lock(&sync->lock);
	armed = sync->armed;
	pthread_mutex_unlock(&sync->lock);
	return armed;
}

/* Returns whether it stays armed. */
static bool disarm_if_idle(struct weir_sync *sync, bool served)
{
	bool armed;

	pthread_mutex_lock(&sync->lock);
	sync->armed = served || sync->n_left;
	armed = sync->armed;
	pthread_mutex_unlock(&sync->lock);
	return armed;
}

/*
 * Check one sync event.  A peer that changes the futex without a signal wakes
 * us for nothing; after some of these, poll every SYNC_POLL_NS for a while.
 */
static void look_at(struct sync_watcher *w, struct weir_sync *sync,
		    bool exporter)
{
	uint32_t seen = atomic_load(&sync->word->seq);
	bool told, served;

	if (exporter)
		sync_poll_exporter(sync);
	told = sync_announce(sync);
	served = sync_serve(sync);
	if (served || exporter)
		sync->fruitless = 0;
	else if (seen != sync->watch_seq)
		sync->fruitless++;
	sync->watch_seq = seen;
	if (!disarm_if_idle(sync, served))
		return;
	if (told && sync->fruitless < SYNC_FRUITLESS_MAX)
		add_word(w, &sync->word->seq, seen, 0);
	else
		w->poll = true;
}

/* Look at all that are armed.  Under the lock. */
static void hook(struct sync_watcher *w, uint64_t now)
{
	bool exporters = now >= w->check_ns;
	struct weir_sync *sync;

	if (exporters)
		w->check_ns = now + SYNC_CHECK_NS;
	w->poll = false;
	for (sync = w->first; sync; sync = sync->watch_next)
		if (is_armed(sync))
			look_at(w, sync, exporters);
}

/* Older kernels have no futex_waitv(), and some sandboxes forbid it. */
static void sleep_on_all(const struct sync_watcher *w, uint64_t until_ns)
{
	struct timespec ts = {
		.tv_sec = (time_t)(until_ns / WEIR_SEC),
		.tv_nsec = (long)(until_ns % WEIR_SEC),
	};

	if (syscall(SYS_futex_waitv, w->vec, w->n_vec, 0, &ts,
		    CLOCK_MONOTONIC) < 0 &&
	    (errno == ENOSYS || errno == EPERM || errno == EACCES))
		atomic_store(&sync_no_waitv, true);
}

/* The first word is our own; if it is the only one, use the older call. */
static void sleep_after(struct sync_watcher *w, uint64_t now, uint32_t control)
{
	bool no_waitv = atomic_load(&sync_no_waitv);
	bool alone = w->n_vec == 1;
	uint64_t until = w->check_ns;

	if (w->poll || (no_waitv && !alone))
		until = now + SYNC_POLL_NS;
	else if (alone)
		until = WEIR_FOREVER;
	if (alone || no_waitv)
		sync_futex_wait(&w->control, control, until, false);
	else
		sleep_on_all(w, until);
}

static void *watch(void *arg)
{
	struct sync_watcher *w = arg;
	uint32_t control;
	uint64_t now;

	pthread_mutex_lock(&w->lock);
	while (!w->quit) {
		now = sync_now();
		control = atomic_load(&w->control);
		w->n_vec = 0;
		add_word(w, &w->control, control, WAITV_PRIVATE);
		hook(w, now);
		pthread_mutex_unlock(&w->lock);
		sleep_after(w, now, control);
		pthread_mutex_lock(&w->lock);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

static void kick(struct sync_watcher *w)
{
	atomic_fetch_add(&w->control, 1);
	sync_futex_wake(&w->control, false);
}

void sync_watch_kick(struct weir_sync *sync)
{
	struct sync_watcher *w = atomic_load(&sync->watcher);

	if (w)
		kick(w);
}

/* In a world there is no thread: the world polls. */
static void observe(struct observer *observer)
{
	sync_serve(weir_container_of(observer, struct weir_sync, observer));
}

static int join_world(struct weir_sync *sync, struct weir_reactor *r)
{
	if (sync->observer.pprev)
		return 0;
	sync->observer.fn = observe;
	r->backend->observe(r, &sync->observer);
	return 0;
}

static int start_thread(struct sync_watcher *w)
{
	w->quit = false;
	w->check_ns = 0;
	if (thread_start(&w->thread, watch, w))
		return why(-EAGAIN, "weir_sync_wait: the thread that waits for "
			   "other processes cannot be made; see ulimit -u");
	return 0;
}

/* The first that has a place. */
static struct sync_watcher *find_place(void)
{
	uint32_t i;

	for (i = 0; i < SYNC_WATCHERS_MAX; i++)
		if (watchers[i].n < SYNC_WATCHED_MAX)
			return &watchers[i];
	return NULL;
}

static int join(struct weir_sync *sync)
{
	struct sync_watcher *w;
	int err = 0;

	if (atomic_load(&sync->watcher))
		return 0;
	w = find_place();
	if (!w)
		return why(-ENOSPC, "weir_sync_wait: operations have waited for "
			   "%d sync events in mmaps, as many as a process can "
			   "watch; destroy some", WEIR_SYNC_WATCHED_MAX);
	if (!w->n)
		err = start_thread(w);
	if (err)
		return err;
	w->n++;
	pthread_mutex_lock(&w->lock);
	sync->watch_next = w->first;
	w->first = sync;
	pthread_mutex_unlock(&w->lock);
	atomic_store(&sync->watcher, w);
	return 0;
}

int sync_watch_join(struct weir_sync *sync, struct weir_reactor *r)
{
	int err;

	if (unlikely(r->backend->observe != NULL))
		return join_world(sync, r);
	if (atomic_load(&sync->watcher))
		return 0;
	pthread_mutex_lock(&life);
	err = join(sync);
	pthread_mutex_unlock(&life);
	return err;
}

/* The thread may be asleep on its word: a stale address does no harm there. */
void sync_watch_leave(struct weir_sync *sync)
{
	struct sync_watcher *w = atomic_load(&sync->watcher);
	struct weir_sync **p;
	bool last;

	observer_del(&sync->observer);
	if (!w)
		return;
	pthread_mutex_lock(&life);
	last = !--w->n;
	pthread_mutex_lock(&w->lock);
	for (p = &w->first; *p != sync; p = &(*p)->watch_next)
		;
	*p = sync->watch_next;
	w->quit = last;
	pthread_mutex_unlock(&w->lock);
	kick(w);
	if (last)
		pthread_join(w->thread, NULL);
	pthread_mutex_unlock(&life);
}
