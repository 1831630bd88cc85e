/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/*
 * The watcher: one thread that sleeps, on behalf of the operations of all
 * reactors, on all sync events that other processes can signal, and serves
 * those whose condition has come to hold.
 *
 * A sync event is watched from the first operation that had to wait for it to
 * its end, but only looked at while it is armed: while operations wait that
 * their reactor does not look after, and once more after some were served, for
 * they are likely to wait again; so in a steady exchange nobody has to wake the
 * watcher but the peer.
 *
 *	armed, under the event's lock: a look is still to come, which says that
 *	somebody waits before it goes through the list
 *
 * The thread is there while anything is watched.
 *
 * In a simulated world there is no thread: the world looks, some virtual time
 * after anything else has happened.
 */

#include <errno.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "dma/sync-internal.h"
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

static struct {
	pthread_mutex_t life;	/* Who joins and who leaves; outside .lock. */
	pthread_t thread;

	pthread_mutex_t lock;	/* Outside those of sync events. */
	struct weir_sync *first;
	uint32_t n;
	bool quit;
	_Atomic uint32_t control; /* The thread's own futex. */

	/* The thread's. */
	struct waitv vec[SYNC_WATCHED_MAX + 1];
	uint32_t n_vec;
	bool poll;		/* Of some nobody will tell us. */
	uint64_t look_ns;	/* When to look at exporters. */
} watcher = {
	.life = PTHREAD_MUTEX_INITIALIZER,
	.lock = PTHREAD_MUTEX_INITIALIZER,
};

atomic_bool sync_no_waitv;

static void add_word(_Atomic uint32_t *word, uint32_t seen, uint32_t flags)
{
	watcher.vec[watcher.n_vec++] = (struct waitv){
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
 * Look at one.  A peer that changes the futex for nothing makes us look in vain
 * each time; after some of that we look every SYNC_POLL_NS, for a while.
 */
static void look_at(struct weir_sync *sync, bool exporter)
{
	uint32_t seen = atomic_load(&sync->word->seq);
	bool told, served;

	if (exporter)
		sync_look_at_exporter(sync);
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
		add_word(&sync->word->seq, seen, 0);
	else
		watcher.poll = true;
}

/* Look at all that are armed.  Under the lock. */
static void look(uint64_t now)
{
	bool exporters = now >= watcher.look_ns;
	struct weir_sync *sync;

	if (exporters)
		watcher.look_ns = now + SYNC_LOOK_NS;
	watcher.poll = false;
	for (sync = watcher.first; sync; sync = sync->watch_next)
		if (is_armed(sync))
			look_at(sync, exporters);
}

/* Older kernels have no such call, and some sandboxes do not let us. */
static void sleep_on_all(uint64_t until_ns)
{
	struct timespec ts = {
		.tv_sec = (time_t)(until_ns / WEIR_SEC),
		.tv_nsec = (long)(until_ns % WEIR_SEC),
	};

	if (syscall(SYS_futex_waitv, watcher.vec, watcher.n_vec, 0, &ts,
		    CLOCK_MONOTONIC) < 0 &&
	    (errno == ENOSYS || errno == EPERM || errno == EACCES))
		atomic_store(&sync_no_waitv, true);
}

/* The first word is our own: for that alone there is an older call. */
static void sleep_after(uint64_t now, uint32_t control)
{
	bool no_waitv = atomic_load(&sync_no_waitv);
	bool alone = watcher.n_vec == 1;
	uint64_t until = watcher.look_ns;

	if (watcher.poll || (no_waitv && !alone))
		until = now + SYNC_POLL_NS;
	else if (alone)
		until = WEIR_FOREVER;
	if (alone || no_waitv)
		sync_futex_wait(&watcher.control, control, until, false);
	else
		sleep_on_all(until);
}

static void *watch(void *arg)
{
	uint32_t control;
	uint64_t now;

	(void)arg;
	pthread_mutex_lock(&watcher.lock);
	while (!watcher.quit) {
		now = sync_now();
		control = atomic_load(&watcher.control);
		watcher.n_vec = 0;
		add_word(&watcher.control, control, WAITV_PRIVATE);
		look(now);
		pthread_mutex_unlock(&watcher.lock);
		sleep_after(now, control);
		pthread_mutex_lock(&watcher.lock);
	}
	pthread_mutex_unlock(&watcher.lock);
	return NULL;
}

static void kick(void)
{
	atomic_fetch_add(&watcher.control, 1);
	sync_futex_wake(&watcher.control, false);
}

void sync_watch_kick(const struct weir_reactor *r)
{
	if (!r->backend->simulated)
		kick();
}

/* In a world there is no thread, and nobody else: the world looks. */
static void sim_look(struct sim_look *look)
{
	sync_serve(weir_container_of(look, struct weir_sync, sim_look));
}

static int join_world(struct weir_sync *sync, struct weir_reactor *r)
{
	if (sync->sim_look.pprev)
		return 0;
	sync->sim_look.fn = sim_look;
	sim_look_add(sim_of(r)->sim, &sync->sim_look);
	return 0;
}

static int start_thread(void)
{
	watcher.quit = false;
	watcher.look_ns = 0;
	return thread_start(&watcher.thread, watch, NULL) ? -EAGAIN : 0;
}

static int join(struct weir_sync *sync)
{
	int err = 0;

	if (atomic_load(&sync->watched))
		return 0;
	if (watcher.n >= SYNC_WATCHED_MAX)
		return -ENOSPC;
	if (!watcher.n)
		err = start_thread();
	if (err)
		return err;
	pthread_mutex_lock(&watcher.lock);
	sync->watch_next = watcher.first;
	watcher.first = sync;
	watcher.n++;
	pthread_mutex_unlock(&watcher.lock);
	atomic_store(&sync->watched, true);
	return 0;
}

int sync_watch_join(struct weir_sync *sync, struct weir_reactor *r)
{
	int err;

	if (unlikely(r->backend->simulated))
		return join_world(sync, r);
	if (atomic_load(&sync->watched))
		return 0;
	pthread_mutex_lock(&watcher.life);
	err = join(sync);
	pthread_mutex_unlock(&watcher.life);
	return err;
}

/* The thread may be asleep on its word: a stale address does no harm there. */
void sync_watch_leave(struct weir_sync *sync)
{
	struct weir_sync **p;
	bool last;

	sim_look_del(&sync->sim_look);
	if (!atomic_load(&sync->watched))
		return;
	pthread_mutex_lock(&watcher.life);
	pthread_mutex_lock(&watcher.lock);
	for (p = &watcher.first; *p != sync; p = &(*p)->watch_next)
		;
	*p = sync->watch_next;
	last = !--watcher.n;
	watcher.quit = last;
	pthread_mutex_unlock(&watcher.lock);
	kick();
	if (last)
		pthread_join(watcher.thread, NULL);
	pthread_mutex_unlock(&watcher.life);
}
