/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Waiting for sync events: as operations, as steps of chains, and in threads
 * that block.
 */

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <weir/chain.h>

#include "base/own.h"
#include "base/relax.h"
#include "base/why.h"
#include "dma/flow/chain-internal.h"
#include "dma/sync/internal.h"
#include "reactor/op-inline.h"

/* Sync events as steps: a wait is an operation, all else is done at once. */

static int start(struct weir_chain *chain, uint32_t n, struct weir_op *op,
		 void *arg)
{
	struct weir_sync_step *step = arg;
	int err;

	(void)n;
	switch (step->action) {
	case WEIR_SYNC_DO_WAIT:
		return weir_sync_wait(step->sync, chain->r, op, step->cond,
				      step->value,
				      step->mask ? step->mask : WEIR_SYNC_ALL);
	case WEIR_SYNC_DO_SET:
		err = weir_sync_set(step->sync, step->value);
		break;
	case WEIR_SYNC_DO_ADD:
		err = weir_sync_add(step->sync, step->value, &step->got);
		break;
	case WEIR_SYNC_DO_GET:
		err = weir_sync_get(step->sync, &step->got);
		break;
	default:
		return -EINVAL;
	}
	return err ? err : 1;
}

int weir_chain_add_sync(struct weir_chain *chain, int after,
			struct weir_sync_step *step)
{
	if (!step)
		return why(-EINVAL, "weir_chain_add_sync: step is NULL");
	return chain_add_op("weir_chain_add_sync", chain, after, start, step);
}

/*
 * Waits.  A waiting operation is in a list of the sync event.  When it has been
 * served it is itself sent to its reactor, as deferred calls and workers'
 * operations are: that needs no capacity and cannot be refused.  As soon as it
 * is off the list (.pprev is NULL) it is being returned.
 */

uint64_t sync_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * WEIR_SEC + (uint64_t)ts.tv_nsec;
}

/* The bitset variant has absolute times. */
int sync_futex_wait(_Atomic uint32_t *word, uint32_t seen, uint64_t until_ns,
		    bool shared)
{
	struct timespec ts = {
		.tv_sec = (time_t)(until_ns / WEIR_SEC),
		.tv_nsec = (long)(until_ns % WEIR_SEC),
	};
	int op = FUTEX_WAIT_BITSET | (shared ? 0 : FUTEX_PRIVATE_FLAG);

	if (!syscall(SYS_futex, word, op, seen,
		     until_ns == WEIR_FOREVER ? NULL : &ts, NULL,
		     FUTEX_BITSET_MATCH_ANY))
		return 0;
	return -errno;
}

void sync_futex_wake(_Atomic uint32_t *word, bool shared)
{
	int op = FUTEX_WAKE | (shared ? 0 : FUTEX_PRIVATE_FLAG);

	syscall(SYS_futex, word, op, INT_MAX, NULL, NULL, 0);
}

/* A signal that came before the close counts. */
static int sync_check(const struct weir_sync *sync, const struct sync_cond *cond)
{
	int err = sync_over(sync);

	if (sync_cond_holds(cond, atomic_load(&sync->word->value)))
		return 1;
	return err;
}

void sync_wake_sleepers(struct weir_sync *sync)
{
	atomic_store(&sync->word->waiting, 0);
	atomic_fetch_add(&sync->word->seq, 1);
	sync_futex_wake(&sync->word->seq, sync_is_shared(sync));
}

void sync_signalled(struct weir_sync *sync)
{
	if (unlikely(atomic_load(&sync->n_ops)))
		sync_serve(sync);
	if (unlikely(sync->always || atomic_load(&sync->word->waiting)))
		sync_wake_sleepers(sync);
}

#define SPIN_NS (50 * WEIR_USEC)
#define POLLS_PER_CLOCK 32
#define PROBE_EVERY 16
#define POLLS_IN_VAIN 65536 /* Then the watcher takes over. */

atomic_bool sync_no_hooks;

/*
 * The parameters are in the operation.  words[4] counts the polls of its
 * reactor, and .kind is true if it is left to the watcher; both belong to the
 * reactor.
 */
static struct weir_sync *sync_of(const struct weir_op *op)
{
	return (struct weir_sync *)(uintptr_t)op->u.hooked.words[0];
}

static struct sync_cond cond_of(const struct weir_op *op)
{
	return (struct sync_cond){
		.cond = (uint32_t)op->u.hooked.words[1],
		.value = op->u.hooked.words[2],
		.mask = op->u.hooked.words[3],
	};
}

/* Under the lock; the operation's flags are its reactor's. */
static void list_add(struct weir_sync *sync, struct weir_op *op)
{
	op->next = NULL;
	op->pprev = sync->last;
	*sync->last = op;
	sync->last = &op->next;
}

static void list_del(struct weir_sync *sync, struct weir_op *op)
{
	*op->pprev = op->next;
	if (op->next)
		op->next->pprev = op->pprev;
	else
		sync->last = op->pprev;
	op->pprev = NULL;
}

/* Called under the lock.  Returns whether the watcher must be woken. */
static bool leave(struct weir_sync *sync, struct weir_op *op)
{
	bool armed = sync->armed;

	op->kind = true;
	sync->n_left++;
	sync->armed = true;
	return !armed;
}

/* Under the lock. */
static void take_back(struct weir_sync *sync, struct weir_op *op)
{
	sync->n_left -= op->kind;
	op->kind = false;
}

/* In their order.  Returns whether there was any.  Under the lock. */
static bool serve(struct weir_sync *sync)
{
	struct weir_op *op, *next;
	struct sync_cond cond;
	bool any = false;
	int res;

	for (op = sync->first; op; op = next) {
		next = op->next;
		cond = cond_of(op);
		res = sync_check(sync, &cond);
		if (!res)
			continue;
		list_del(sync, op);
		op->res = res < 0 ? res : 0;
		op_return(op);
		any = true;
	}
	return any;
}

bool sync_serve(struct weir_sync *sync)
{
	bool any;

	pthread_mutex_lock(&sync->lock);
	any = serve(sync);
	pthread_mutex_unlock(&sync->lock);
	return any;
}

/* On its reactor: it is off the list, where no signal would find it. */
static inline void end_here(struct weir_sync *sync, struct weir_op *op,
			    int64_t res)
{
	hook_end(op->reactor, &op->u.hooked.hook);
	atomic_fetch_sub(&sync->n_ops, 1);
	op_complete(op, res);
}

/*
 * The thread that returned the operation may not have woken the reactor yet,
 * and once the callback has run the reactor may be destroyed.  So wait until
 * that thread has left the reactor, which is when it releases the lock.
 */
static void wait_returned(struct weir_op *op)
{
	struct weir_sync *sync = sync_of(op);

	debug_check(op->state == OP_PENDING);
	pthread_mutex_lock(&sync->lock);
	take_back(sync, op);
	pthread_mutex_unlock(&sync->lock);
	end_here(sync, op, op->res);
}

/* Too late, if it is off the list: its result is on the way. */
static void wait_cancel(struct weir_op *op)
{
	struct weir_sync *sync = sync_of(op);
	bool waits;

	debug_check(op_cancel_wanted(op));
	pthread_mutex_lock(&sync->lock);
	waits = op->pprev;
	if (waits) {
		list_del(sync, op);
		take_back(sync, op);
	}
	pthread_mutex_unlock(&sync->lock);
	if (waits)
		end_here(sync, op, -ECANCELED);
}

static const struct weir_op_class wait_class = {
	.name = "sync event wait",
	.cancel = wait_cancel,
	.returned = wait_returned,
};

static struct weir_op *op_of(struct weir_hook_node *node)
{
	return weir_container_of(node, struct weir_op, u.hooked.hook);
}

static uint64_t wait_asleep(struct weir_hook_node *node)
{
	struct weir_op *op = op_of(node);
	struct weir_sync *sync = sync_of(op);
	bool kick;

	pthread_mutex_lock(&sync->lock);
	take_back(sync, op);
	kick = leave(sync, op);
	pthread_mutex_unlock(&sync->lock);
	if (kick)
		sync_watch_kick(sync);
	return WEIR_FOREVER;
}

static void wait_awake(struct weir_hook_node *node)
{
	struct weir_op *op = op_of(node);
	struct weir_sync *sync = sync_of(op);

	pthread_mutex_lock(&sync->lock);
	take_back(sync, op);
	pthread_mutex_unlock(&sync->lock);
}

/*
 * The condition of @op holds, its own reactor has seen.  If nothing else waits,
 * nor is on the way back, @op ends where it is, which is a third of the way
 * that it would have to travel; otherwise it keeps its place among them.
 * Returns whether it has ended.
 */
static bool serve_here(struct weir_sync *sync, struct weir_op *op, int res)
{
	bool alone;

	pthread_mutex_lock(&sync->lock);
	alone = op->pprev && atomic_load(&sync->n_ops) == 1;
	if (alone) {
		list_del(sync, op);
		take_back(sync, op);
	} else {
		serve(sync);
	}
	pthread_mutex_unlock(&sync->lock);
	if (alone)
		end_here(sync, op, res < 0 ? res : 0);
	return alone;
}

/*
 * While the reactor is awake it polls, so that it sees a signal from another
 * process without help, and the sender makes no system call.  After many polls
 * it leaves the wait to the watcher, as it does before it sleeps.  If the
 * result is already being returned, the poll finds nothing.
 */
static bool wait_poll(struct weir_hook_node *node)
{
	struct weir_op *op = op_of(node);
	struct weir_sync *sync = sync_of(op);
	struct sync_cond cond = cond_of(op);
	int res = sync_check(sync, &cond);

	if (res)
		return serve_here(sync, op, res);
	if (++op->u.hooked.words[4] == POLLS_IN_VAIN) {
		hook_end(op->reactor, node);
		wait_asleep(node);
	}
	return false;
}

static const struct weir_hook_class hook_class = {
	.poll = wait_poll,
	.asleep = wait_asleep,
	.awake = wait_awake,
};

static bool may_look(struct weir_op *op)
{
	if (atomic_load(&sync_no_hooks) || !hook_has_capacity(op->reactor))
		return false;
	hook_begin(op->reactor, &op->u.hooked.hook, &hook_class);
	return true;
}

/* Wait, unless it holds now.  Returns what sync_check() does. */
static int enlist(struct weir_sync *sync, struct weir_op *op)
{
	struct sync_cond cond = cond_of(op);
	bool kick = false;
	int res;

	pthread_mutex_lock(&sync->lock);
	atomic_fetch_add(&sync->n_ops, 1);
	list_add(sync, op);
	res = sync_check(sync, &cond);
	if (res) {
		list_del(sync, op);
		atomic_fetch_sub(&sync->n_ops, 1);
	} else if (sync_is_shared(sync) && !may_look(op)) {
		kick = leave(sync, op);
	}
	pthread_mutex_unlock(&sync->lock);
	if (kick)
		sync_watch_kick(sync);
	return res;
}

/* Whether it has to wait: 0, and it can; 1: not at all; or why it cannot. */
static int prepare(struct weir_sync *sync, struct weir_reactor *r,
		   const struct sync_cond *cond)
{
	int res = sync_cond_check(cond);

	if (!res)
		res = sync_over(sync);
	if (!res)
		res = sync_cond_holds(cond, atomic_load(&sync->word->value));
	if (!res && sync_is_shared(sync))
		res = sync_watch_join(sync, r);
	return res;
}

#define NO_CONDITION "unknown condition, no bit in the mask, or bits of the " \
		     "value that are not in the mask"
#define IS_OVER "the creator has destroyed the event, or its memory was revoked"

/* The attachment to a shared event leaves a message of its own. */
__attribute__((cold)) static int refuse_wait(int err)
{
	switch (err) {
	case -EINVAL:
		return why_static(err, "weir_sync_wait: " NO_CONDITION);
	case -ESTALE:
		return why_static(err, "weir_sync_wait: " IS_OVER);
	default:
		return err;
	}
}

__attribute__((cold)) static int refuse_blocking(int err)
{
	switch (err) {
	case -EINVAL:
		return why_static(err, "weir_sync_wait_blocking: "
				  NO_CONDITION);
	case -ESTALE:
		return why_static(err, "weir_sync_wait_blocking: " IS_OVER);
	default:
		return err;
	}
}

int weir_sync_wait(struct weir_sync *sync, struct weir_reactor *r,
		   struct weir_op *op, uint32_t cond, uint64_t value,
		   uint64_t mask)
{
	struct sync_cond c = { cond, value, mask };
	int err = op_admit(r, op), res;

	if (err)
		return op_refused(err, op, "weir_sync_wait");
	res = prepare(sync, r, &c);
	if (res < 0)
		return refuse_wait(res);
	op_enlist(r, op, &wait_class);
	op->u.hooked.hook.pprev = NULL;
	op->u.hooked.words[0] = (uintptr_t)sync;
	op->u.hooked.words[1] = cond;
	op->u.hooked.words[2] = value;
	op->u.hooked.words[3] = mask;
	op->u.hooked.words[4] = 0;
	op->kind = false;
	op->pprev = NULL;
	if (!res)
		res = enlist(sync, op);
	if (res)
		op_complete(op, res < 0 ? res : 0);
	return 0;
}

bool sync_announce(struct weir_sync *sync)
{
	if (sync->polled)
		return false;
	if (sync->always)
		return true;
	if (!sync->writable)
		return false;
	if (!sync_enter(sync))
		atomic_store(&sync->word->waiting, 1);
	sync_leave(sync);
	return true;
}

/*
 * Sleep once.  A peer that changes the futex without a signal wakes us for
 * nothing; after some of these, poll every SYNC_POLL_NS for a while.
 */
static void block(struct weir_sync *sync, const struct sync_cond *cond,
		  uint64_t until_ns, uint32_t *fruitless)
{
	static const struct timespec nap = { .tv_nsec = SYNC_POLL_NS };
	uint32_t seen = atomic_load(&sync->word->seq);
	uint64_t end;
	bool told = sync_announce(sync);

	if (sync_check(sync, cond))
		return;
	if (!sync_is_shared(sync)) {
		sync_futex_wait(&sync->word->seq, seen, until_ns, false);
		return;
	}
	if (!told || ++*fruitless > SYNC_FRUITLESS_MAX) {
		nanosleep(&nap, NULL);
		return;
	}
	end = sync_now() + SYNC_CHECK_NS;
	sync_futex_wait(&sync->word->seq, seen, end < until_ns ? end : until_ns,
			true);
}

/* Whether another thread can run meanwhile. */
static bool may_spin(void)
{
	static _Atomic long cpus;

	if (!atomic_load(&cpus))
		atomic_store(&cpus, sysconf(_SC_NPROCESSORS_ONLN));
	return atomic_load(&cpus) > 1 && !own_on_valgrind();
}

/* Returns whether there is something to see. */
static bool look_until(const struct weir_sync *sync,
		       const struct sync_cond *cond, uint64_t end)
{
	do {
		for (int i = 0; i < POLLS_PER_CLOCK; i++) {
			if (sync_check(sync, cond))
				return true;
			relax();
		}
	} while (sync_now() < end);
	return false;
}

/*
 * A wake-up takes tens of microseconds, and spinning for as long pays if a
 * signal comes in that time.  After a spin without a signal, most waits do not
 * spin.
 */
static void spin(struct weir_sync *sync, const struct sync_cond *cond,
		 uint64_t until_ns)
{
	uint32_t unspun = atomic_load(&sync->unspun);
	uint64_t end;

	if (unspun) {
		atomic_store(&sync->unspun, unspun - 1);
		return;
	}
	if (!may_spin())
		return;
	end = sync_now() + SPIN_NS;
	if (!look_until(sync, cond, end < until_ns ? end : until_ns))
		atomic_store(&sync->unspun, PROBE_EVERY);
}

/* Wait, however long the sleeps are.  The thread is counted. */
static int block_until(struct weir_sync *sync, const struct sync_cond *cond,
		       uint64_t until_ns)
{
	uint64_t now, check_ns = sync_now() + SYNC_CHECK_NS;
	uint32_t fruitless = 0;
	int res;

	spin(sync, cond, until_ns);
	while (!(res = sync_check(sync, cond))) {
		now = sync_now();
		if (now >= until_ns)
			return -ETIMEDOUT;
		if (now >= check_ns) {
			sync_poll_exporter(sync);
			check_ns = now + SYNC_CHECK_NS;
			fruitless = 0;
		}
		block(sync, cond, until_ns, &fruitless);
	}
	return res < 0 ? res : 0;
}

int weir_sync_wait_blocking(struct weir_sync *sync, uint32_t cond,
			    uint64_t value, uint64_t mask, uint64_t timeout_ns)
{
	struct sync_cond c = { cond, value, mask };
	uint64_t until = WEIR_FOREVER, now;
	int res = sync_cond_check(&c);

	if (!res)
		res = sync_over(sync);
	if (!res)
		res = sync_cond_holds(&c, atomic_load(&sync->word->value));
	if (res)
		return res < 0 ? refuse_blocking(res) : 0;
	if (!timeout_ns)
		return -ETIMEDOUT;
	if (backend_isolates)
		return why(-EOPNOTSUPP, "weir_sync_wait_blocking: called in a "
			   "simulated world, where nothing else would go on; "
			   "use weir_sync_wait()");
	now = sync_now();
	if (timeout_ns < WEIR_FOREVER - now)
		until = now + timeout_ns;
	atomic_fetch_add(&sync->n_blocked, 1);
	res = block_until(sync, &c, until);
	atomic_fetch_sub(&sync->n_blocked, 1);
	return res ? refuse_blocking(res) : 0;
}
