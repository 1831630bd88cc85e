/* SPDX-License-Identifier: BSD-3-Clause */
/* Transfers of buffers between a shared pool, the caches of reactors and
 * waiters. */

#include <errno.h>

#include "base/alloc.h"
#include "base/probe.h"
#include "mem/shared-pool-internal.h"
#include "reactor/op-inline.h"

/*
 * A caller that .waiters_max of a pool refuses, and that has nothing else to
 * wait for, waits here, so that it need not retry in every turn.  When a waiter
 * leaves, all are notified: a caller that no longer needs a buffer must not use
 * up the only notification.
 */

static void capacity_cancel(struct weir_op *op)
{
	struct weir_pool *pool = (struct weir_pool *)(uintptr_t)op->u.words[0];

	debug_check(op_cancel_wanted(op));
	op_queue_del(&pool->outside, op);
	op_complete(op, -ECANCELED);
}

static const struct weir_op_class capacity_class = {
	.name = "pool capacity",
	.cancel = capacity_cancel,
};

static int shared_pool_wait_always(struct pool_class *pc, struct weir_op *op);

void shared_pool_wait_or_capacity(struct pool_class *pc, struct weir_op *op)
{
	reactor_check_thread(pc->pool->r);
	if (!shared_pool_wait_always(pc, op))
		return;
	op_enlist(pc->pool->r, op, &capacity_class);
	op->u.words[0] = (uintptr_t)pc->pool;
	op_queue_push(&pc->pool->outside, op);
}

/* Under the lock: whether no more operations may wait. */
static bool shared_pool_is_full(const struct weir_pool *pool)
{
	uint64_t n = 0;
	uint32_t i;

	for (i = 0; i < pool->n_classes; i++)
		n += pool->classes[i].waiting;
	return pool->waiters_max && n >= pool->waiters_max;
}

/* The same, on the pool's thread: a waiter has left. */
static void shared_pool_let_in(struct weir_pool *pool)
{
	struct weir_op *op;

	if (likely(op_queue_empty(&pool->outside)) || shared_pool_is_full(pool))
		return;
	while ((op = op_queue_pop(&pool->outside)))
		op_complete(op, 0);
}

/* The rules are in shared-pool-internal.h.  All of this runs under the shared
 * pool's lock, except the pool's own side of it. */

/* A wait: the buffer that it got, its place, and its queue. */
enum { WAIT_BUF, WAIT_CLASS, WAIT_QUEUED };

static struct pool_class *class_of(const struct weir_op *op)
{
	return (struct pool_class *)(uintptr_t)op->u.words[WAIT_CLASS];
}

static struct weir_buf *taken(const struct weir_op *op)
{
	return (struct weir_buf *)(uintptr_t)op->u.words[WAIT_BUF];
}

/* Not an op_queue: the flags of @op belong to its reactor, which may be another
 * one. */
static void enqueue(struct shared_pool_class *cls, struct weir_op *op)
{
	debug_check(shared_pool_is_locked(cls->shared_pool) &&
		    !op->u.words[WAIT_QUEUED]);
	op->next = NULL;
	op->pprev = cls->last;
	*cls->last = op;
	cls->last = &op->next;
	op->u.words[WAIT_QUEUED] = 1;
	class_of(op)->waiting++;
	atomic_fetch_add_explicit(&cls->n_waiting, 1, memory_order_relaxed);
}

static void dequeue(struct shared_pool_class *cls, struct weir_op *op)
{
	debug_check(shared_pool_is_locked(cls->shared_pool) &&
		    op->u.words[WAIT_QUEUED]);
	if (op->next)
		op->next->pprev = op->pprev;
	else
		cls->last = op->pprev;
	*op->pprev = op->next;
	op->u.words[WAIT_QUEUED] = 0;
	class_of(op)->waiting--;
	atomic_fetch_sub_explicit(&cls->n_waiting, 1, memory_order_relaxed);
}

/* Move from the shared pool to @pc.  Its own thread notifies it of the rest. */
static struct weir_buf *adopt(struct pool_class *pc)
{
	struct shared_pool_class *cls = pc->cls;
	struct weir_buf *buf = cls->free;

	debug_check(shared_pool_is_locked(pc->cls->shared_pool) &&
		    pc->cls->free);
	cls->free = buf->next;
	debug_check(cls->n_free > 0);
	cls->n_free--;
	pc->owned++;
	buf->free_list = &pc->free_list;
	buf->use = pc->links[buf->slab]->use;
	return buf;
}

/* Only the pool's own thread knows which buffer is registered. */
static void settle_in(struct weir_buf *buf)
{
	buf->index = mmap_use_index(buf->use, buf->addr, buf->len);
}

static void give_up(struct pool_class *pc, struct weir_buf *buf)
{
	struct shared_pool_class *cls = pc->cls;

	debug_check(shared_pool_is_locked(pc->cls->shared_pool) &&
		    pc->owned > 0);
	buf->free_list = NULL;
	buf->next = cls->free;
	cls->free = buf;
	cls->n_free++;
	pc->owned--;
}

/* On the waiter's own thread. */
static void receive(struct weir_op *op)
{
	struct weir_buf *buf = taken(op);

	debug_check(taken(op) && op->state == OP_PENDING);
	settle_in(buf);
	pool_hand_out(class_of(op), buf);
	PROBE3(pool_taken, class_of(op)->pool, op, buf->len);
	op_complete(op, (int64_t)buf->len);
}

/* Give free buffers to waiters.  @r: the reactor of this thread, or NULL. */
static void serve(struct shared_pool_class *cls, struct weir_reactor *r)
{
	struct pool_class *pc;
	struct weir_op *op;

	debug_check(shared_pool_is_locked(cls->shared_pool));
	while (cls->first && cls->free) {
		op = cls->first;
		pc = class_of(op);
		dequeue(cls, op);
		op->u.words[WAIT_BUF] = (uintptr_t)adopt(pc);
		if (pc->pool->r == r) {
			receive(op);
			shared_pool_let_in(pc->pool);
		} else {
			pc->transit++;
			op_return(op);
		}
	}
}

/* Return all but the @keep newest of the cache, which are the warm ones. */
static void shrink(struct pool_class *pc, uint64_t keep)
{
	struct weir_buf **p = &pc->free_list.free, *buf, *next;
	uint64_t i;

	debug_check(shared_pool_is_locked(pc->cls->shared_pool));
	if (pc->free_list.n_free <= keep)
		return;
	for (i = 0; i < keep; i++)
		p = &(*p)->next;
	buf = *p;
	*p = NULL;
	pc->free_list.n_free = keep;
	pc->flushes++;
	for (; buf; buf = next) {
		next = buf->next;
		give_up(pc, buf);
	}
}

/* Return as many as waiters need; without waiters, as many as are too many. */
static void give(struct pool_class *pc)
{
	uint64_t cached = pc->free_list.n_free, n;

	debug_check(shared_pool_is_locked(pc->cls->shared_pool));
	if (shared_pool_has_waiters(pc->cls)) {
		n = atomic_load_explicit(&pc->cls->n_waiting,
					 memory_order_relaxed);
		shrink(pc, cached > n ? cached - n : 0);
		serve(pc->cls, pc->pool->r);
	}
	if (pc->free_list.n_free > pc->cache_max)
		shrink(pc, pc->cache_max / 2);
}

void shared_pool_give(struct pool_class *pc)
{
	reactor_check_thread(pc->pool->r);
	shared_pool_lock(pc->cls->shared_pool);
	give(pc);
	shared_pool_unlock(pc->cls->shared_pool);
}

/* C2.5: fetch what is needed and half a cache more, or only what is needed if a
 * whole cache would not be enough.  All or nothing. */
static bool refill(struct pool_class *pc, uint64_t n)
{
	struct shared_pool_class *cls = pc->cls;
	uint64_t have, extra = n > pc->cache_max ? 0 : pc->cache_max / 2;
	struct weir_buf *buf;

	debug_check(shared_pool_is_locked(pc->cls->shared_pool) && n > 0);
	give(pc);
	have = pc->free_list.n_free;
	if (cls->first || have + cls->n_free < n)
		return false;
	if (have >= n)
		return true;
	pc->refills++;
	for (n += extra - have; n && cls->free; n--) {
		buf = adopt(pc);
		settle_in(buf);
		free_list_push(&pc->free_list, buf);
	}
	return true;
}

bool shared_pool_refill(struct pool_class *pc, uint64_t n)
{
	bool enough;

	reactor_check_thread(pc->pool->r);
	shared_pool_lock(pc->cls->shared_pool);
	enough = refill(pc, n);
	shared_pool_unlock(pc->cls->shared_pool);
	return enough;
}

/* Rule 2.  The lock keeps the pools in the list. */
static void recall(struct pool_class *mine)
{
	struct shared_pool_class *cls = mine->cls;
	size_t which = (size_t)(cls - cls->shared_pool->classes);
	struct weir_pool *pool;

	debug_check(shared_pool_is_locked(mine->cls->shared_pool));
	for (pool = cls->shared_pool->pools; pool; pool = pool->next)
		if (pool != mine->pool && pool->classes[which].owned) {
			deferred_send(&pool->deferred);
			cls->recalls++;
		}
}

/* Has no effect if it was served. */
static void wait_cancel(struct weir_op *op)
{
	struct shared_pool_class *cls = class_of(op)->cls;
	bool queued;

	debug_check(op_cancel_wanted(op));
	shared_pool_lock(cls->shared_pool);
	queued = op->u.words[WAIT_QUEUED];
	if (queued) {
		dequeue(cls, op);
		shared_pool_let_in(class_of(op)->pool);
	}
	shared_pool_unlock(cls->shared_pool);
	if (queued) {
		PROBE3(pool_taken, class_of(op)->pool, op, -ECANCELED);
		op_complete(op, -ECANCELED);
	}
}

static void wait_returned(struct weir_op *op)
{
	struct pool_class *pc = class_of(op);

	debug_check(taken(op));
	debug_check(op->state == OP_PENDING);
	shared_pool_lock(pc->cls->shared_pool);
	debug_check(pc->transit > 0);
	pc->transit--;
	shared_pool_let_in(pc->pool);
	shared_pool_unlock(pc->cls->shared_pool);
	receive(op);
}

static const struct weir_op_class wait_class = {
	.name = "pool wait",
	.cancel = wait_cancel,
	.returned = wait_returned,
};

struct weir_buf *shared_pool_taken(const struct weir_op *op)
{
	return op->cls == &wait_class ? taken(op) : NULL;
}

static void begin_wait(struct pool_class *pc, struct weir_op *op)
{
	op_enlist(pc->pool->r, op, &wait_class);
	op->u.words[WAIT_BUF] = 0;
	op->u.words[WAIT_CLASS] = (uintptr_t)pc;
	op->u.words[WAIT_QUEUED] = 0;
}

static int wait_under_lock(struct pool_class *pc, struct weir_op *op)
{
	bool first;

	debug_check(shared_pool_is_locked(pc->cls->shared_pool));
	if (refill(pc, 1)) {
		begin_wait(pc, op);
		op->u.words[WAIT_BUF] =
			(uintptr_t)free_list_pop(&pc->free_list);
		receive(op);
		return 0;
	}
	if (shared_pool_is_full(pc->pool))
		return -EAGAIN;
	begin_wait(pc, op);
	first = !pc->cls->first;
	enqueue(pc->cls, op);
	PROBE2(pool_wait, pc->pool, op);
	if (first)
		recall(pc);
	return 0;
}

/*
 * As shared_pool_wait(), but neither .ops_max nor a stop refuses it: for
 * operations that are bounded otherwise, and that are cancelled with their
 * owner.
 */
static int shared_pool_wait_always(struct pool_class *pc, struct weir_op *op)
{
	int err;

	if (likely(pc->free_list.free && !shared_pool_has_waiters(pc->cls))) {
		begin_wait(pc, op);
		op->u.words[WAIT_BUF] =
			(uintptr_t)free_list_pop(&pc->free_list);
		receive(op);
		return 0;
	}
	shared_pool_lock(pc->cls->shared_pool);
	err = wait_under_lock(pc, op);
	shared_pool_unlock(pc->cls->shared_pool);
	return err;
}

int shared_pool_wait(struct pool_class *pc, struct weir_op *op,
		     const char *call)
{
	int err = op_admit(pc->pool->r, op);

	reactor_check_thread(pc->pool->r);
	return err ? op_refused(err, op, call) :
		     shared_pool_wait_always(pc, op);
}

void shared_pool_take_in(struct shared_pool_class *cls, uint32_t which)
{
	struct shared_pool_slab *slab = &cls->slabs[which];
	uint32_t i = slab->n;

	debug_check(shared_pool_is_locked(cls->shared_pool));
	while (i--) {
		slab->bufs[i].slab = which;
		slab->bufs[i].next = cls->free;
		cls->free = &slab->bufs[i];
	}
	cls->n_free += slab->n;
	cls->total += slab->n;
	serve(cls, NULL);
}

/* More of a slab is registered, from byte @from of its mmap on: set the index
 * of this pool's bufs there, out or not.  The lock guards their ownership. */
static void slab_registered(struct mmap_link *link, size_t from)
{
	struct pool_class *pc = link->arg;
	struct mmap_use *use = link->use;
	const char *first = use->mmap->addr + from;
	const char *end = use->mmap->addr + use->registered;
	struct shared_pool_slab *slab = &pc->cls->slabs[link->which];
	uint32_t i = 0;

	if (slab->n && first > slab->bufs[0].addr)
		i = (uint32_t)((size_t)(first - slab->bufs[0].addr) /
			       shared_pool_stride(pc->cls));
	shared_pool_lock(pc->cls->shared_pool);
	for (; i < slab->n && slab->bufs[i].addr < end; i++)
		if (slab->bufs[i].free_list == &pc->free_list)
			settle_in(&slab->bufs[i]);
	shared_pool_unlock(pc->cls->shared_pool);
}

struct mmap_link *shared_pool_make_link(struct pool_class *pc, uint32_t which)
{
	struct mmap_link *link = mem_calloc(1, sizeof(*link));

	reactor_check_thread(pc->pool->r);
	if (!link)
		return NULL;
	link->is_pool = true;
	link->more = slab_registered;
	link->arg = pc;
	link->which = which;
	return link;
}

/* The shared pool has grown: register the new memory and the cached bufs in
 * it. */
static void see_slabs(struct pool_class *pc, uint32_t n_slabs)
{
	struct weir_buf *buf;

	if (pc->n_seen == n_slabs)
		return;
	for (; pc->n_seen < n_slabs; pc->n_seen++)
		if (pc->pool->may_register)
			mmap_register(pc->links[pc->n_seen]);
	for (buf = pc->free_list.free; buf; buf = buf->next)
		settle_in(buf);
}

/* Registering takes long, so it is done without the lock. */
static void see_all_slabs(struct weir_pool *pool)
{
	uint32_t i, n;

	for (i = 0; i < pool->n_classes; i++) {
		shared_pool_lock(pool->shared_pool);
		n = pool->classes[i].cls->n_slabs;
		shared_pool_unlock(pool->shared_pool);
		see_slabs(&pool->classes[i], n);
	}
}

void shared_pool_deferred(struct deferred *deferred)
{
	struct weir_pool *pool =
		weir_container_of(deferred, struct weir_pool, deferred);
	uint32_t i;

	if (pool->gone)
		return;
	see_all_slabs(pool);
	shared_pool_lock(pool->shared_pool);
	for (i = 0; i < pool->n_classes; i++)
		give(&pool->classes[i]);
	shared_pool_visit(pool);
	shared_pool_unlock(pool->shared_pool);
}

void shared_pool_enter(struct weir_pool *pool)
{
	struct weir_shared_pool *shared_pool = pool->shared_pool;

	reactor_check_thread(pool->r);
	shared_pool_lock(shared_pool);
	if (shared_pool->counts)
		deferred_send(&pool->deferred);
	else
		pool->counted = shared_pool->count_seq;
	pool->next = shared_pool->pools;
	pool->pprev = &shared_pool->pools;
	if (pool->next)
		pool->next->pprev = &pool->next;
	shared_pool->pools = pool;
	shared_pool_unlock(shared_pool);
	see_all_slabs(pool);
}

static bool is_idle(const struct weir_pool *pool)
{
	const struct pool_class *pc = pool->classes;
	uint32_t i;

	debug_check(shared_pool_is_locked(pool->shared_pool));
	for (i = 0; i < pool->n_classes; i++, pc++)
		if (pc->owned != pc->free_list.n_free || pc->waiting)
			return false;
	return op_queue_empty(&pool->outside);
}

static void flush(struct weir_pool *pool)
{
	uint32_t i;

	debug_check(shared_pool_is_locked(pool->shared_pool));
	for (i = 0; i < pool->n_classes; i++) {
		shrink(&pool->classes[i], 0);
		serve(pool->classes[i].cls, pool->r);
	}
}

int shared_pool_leave(struct weir_pool *pool)
{
	struct weir_shared_pool *shared_pool = pool->shared_pool;
	int err = 0;

	reactor_check_thread(pool->r);
	shared_pool_lock(shared_pool);
	if (!is_idle(pool)) {
		err = -EBUSY;
	} else {
		flush(pool);
		*pool->pprev = pool->next;
		if (pool->next)
			pool->next->pprev = pool->pprev;
		pool->gone = true;
		shared_pool->n_leaving++;
		shared_pool_settle_counts(shared_pool, pool->r);
	}
	shared_pool_unlock(shared_pool);
	return err;
}

void shared_pool_stop_caching(struct weir_pool *pool)
{
	uint32_t i;

	reactor_check_thread(pool->r);
	if (!pool->shared_pool->shared)
		return;
	for (i = 0; i < pool->n_classes; i++)
		pool->classes[i].cache_max = 0;
	shared_pool_lock(pool->shared_pool);
	flush(pool);
	shared_pool_unlock(pool->shared_pool);
}

void shared_pool_start_caching(struct weir_pool *pool)
{
	uint32_t i;

	reactor_check_thread(pool->r);
	for (i = 0; i < pool->n_classes; i++)
		pool->classes[i].cache_max = pool->cache_max;
}
