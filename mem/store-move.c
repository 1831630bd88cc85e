/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Buffers between the store, caches and waiters.  The rules are in
 * store-internal.h; all of this is under the store's lock, but for what is on
 * the pool's side of it.
 */

#include <errno.h>

#include "base/alloc.h"
#include "mem/store-internal.h"
#include "reactor/op-inline.h"

/* A wait: what it brought, where it stands, and in which queue. */
enum { WAIT_BUF, WAIT_CLASS, WAIT_QUEUED };

static struct pool_class *class_of(const struct weir_op *op)
{
	return (struct pool_class *)(uintptr_t)op->u.words[WAIT_CLASS];
}

static struct weir_buf *taken(const struct weir_op *op)
{
	return (struct weir_buf *)(uintptr_t)op->u.words[WAIT_BUF];
}

/* The op's flags are its reactor's, which may be another one: so no op_queue. */
static void enqueue(struct store_class *cls, struct weir_op *op)
{
	op->next = NULL;
	op->pprev = cls->last;
	*cls->last = op;
	cls->last = &op->next;
	op->u.words[WAIT_QUEUED] = 1;
	class_of(op)->waiting++;
	atomic_fetch_add_explicit(&cls->n_waiting, 1, memory_order_relaxed);
}

static void dequeue(struct store_class *cls, struct weir_op *op)
{
	if (op->next)
		op->next->pprev = op->pprev;
	else
		cls->last = op->pprev;
	*op->pprev = op->next;
	op->u.words[WAIT_QUEUED] = 0;
	class_of(op)->waiting--;
	atomic_fetch_sub_explicit(&cls->n_waiting, 1, memory_order_relaxed);
}

/* From the store to @pc, which is told of the rest by its own thread. */
static struct weir_buf *adopt(struct pool_class *pc)
{
	struct store_class *cls = pc->cls;
	struct weir_buf *buf = cls->free;

	cls->free = buf->next;
	cls->n_free--;
	pc->owned++;
	buf->stock = &pc->stock;
	buf->use = pc->links[buf->slab]->use;
	return buf;
}

/* Which buffer is registered is known on the pool's own thread. */
static void settle_in(struct weir_buf *buf)
{
	buf->index = mmap_use_index(buf->use, buf->addr, buf->len);
}

static void give_up(struct pool_class *pc, struct weir_buf *buf)
{
	struct store_class *cls = pc->cls;

	buf->stock = NULL;
	buf->next = cls->free;
	cls->free = buf;
	cls->n_free++;
	pc->owned--;
}

/* The waiter's own thread. */
static void receive(struct weir_op *op)
{
	struct weir_buf *buf = taken(op);

	settle_in(buf);
	pool_hand_out(class_of(op), buf);
	op_complete(op, (int64_t)buf->len);
}

/* What is free to who waits.  @r: whose thread this is, or NULL. */
static void serve(struct store_class *cls, struct weir_reactor *r)
{
	struct pool_class *pc;
	struct weir_op *op;

	while (cls->first && cls->free) {
		op = cls->first;
		pc = class_of(op);
		dequeue(cls, op);
		op->u.words[WAIT_BUF] = (uintptr_t)adopt(pc);
		if (pc->pool->r == r) {
			receive(op);
			store_let_in(pc->pool);
		} else {
			pc->transit++;
			op_return(op);
		}
	}
}

/* All but the @keep of the cache that came last.  They are the warm ones. */
static void shrink(struct pool_class *pc, uint64_t keep)
{
	struct weir_buf **p = &pc->stock.free, *buf, *next;
	uint64_t i;

	if (pc->stock.n_free <= keep)
		return;
	for (i = 0; i < keep; i++)
		p = &(*p)->next;
	buf = *p;
	*p = NULL;
	pc->stock.n_free = keep;
	pc->flushes++;
	for (; buf; buf = next) {
		next = buf->next;
		give_up(pc, buf);
	}
}

/* For waiters just what they need; else what is too much. */
static void give(struct pool_class *pc)
{
	uint64_t cached = pc->stock.n_free, n;

	if (store_has_waiters(pc->cls)) {
		n = atomic_load_explicit(&pc->cls->n_waiting,
					 memory_order_relaxed);
		shrink(pc, cached > n ? cached - n : 0);
		serve(pc->cls, pc->pool->r);
	}
	if (pc->stock.n_free > pc->cache_max)
		shrink(pc, pc->cache_max / 2);
}

void store_give(struct pool_class *pc)
{
	store_lock(pc->cls->store);
	give(pc);
	store_unlock(pc->cls->store);
}

/* C2.5: what is wanted, and half a cache more; nothing more if a whole cache
 * would not be enough.  All or nothing. */
static bool refill(struct pool_class *pc, uint64_t n)
{
	struct store_class *cls = pc->cls;
	uint64_t have, extra = n > pc->cache_max ? 0 : pc->cache_max / 2;
	struct weir_buf *buf;

	give(pc);
	have = pc->stock.n_free;
	if (cls->first || have + cls->n_free < n)
		return false;
	if (have >= n)
		return true;
	pc->refills++;
	for (n += extra - have; n && cls->free; n--) {
		buf = adopt(pc);
		settle_in(buf);
		stock_push(&pc->stock, buf);
	}
	return true;
}

bool store_refill(struct pool_class *pc, uint64_t n)
{
	bool enough;

	store_lock(pc->cls->store);
	enough = refill(pc, n);
	store_unlock(pc->cls->store);
	return enough;
}

/* Rule 2.  The lock keeps the pools where they are. */
static void recall(struct pool_class *mine)
{
	struct store_class *cls = mine->cls;
	size_t which = (size_t)(cls - cls->store->classes);
	struct weir_pool *pool;

	for (pool = cls->store->pools; pool; pool = pool->next)
		if (pool != mine->pool && pool->classes[which].owned) {
			errand_send(&pool->errand);
			cls->recalls++;
		}
}

/* Too late, if somebody has served it. */
static void wait_cancel(struct weir_op *op)
{
	struct store_class *cls = class_of(op)->cls;
	bool queued;

	store_lock(cls->store);
	queued = op->u.words[WAIT_QUEUED];
	if (queued) {
		dequeue(cls, op);
		store_let_in(class_of(op)->pool);
	}
	store_unlock(cls->store);
	if (queued)
		op_complete(op, -ECANCELED);
}

static void wait_home(struct weir_op *op)
{
	struct pool_class *pc = class_of(op);

	store_lock(pc->cls->store);
	pc->transit--;
	store_let_in(pc->pool);
	store_unlock(pc->cls->store);
	receive(op);
}

static const struct weir_op_class wait_class = {
	.name = "pool wait",
	.cancel = wait_cancel,
	.home = wait_home,
};

struct weir_buf *store_taken(const struct weir_op *op)
{
	return op->cls == &wait_class ? taken(op) : NULL;
}

void store_wait_end(struct weir_op *op)
{
	if (!weir_op_is_busy(op))
		return;
	weir_op_cancel(op);
	if (op->state != OP_READY)
		return;
	weir_buf_put(store_taken(op));
	op->u.words[WAIT_BUF] = 0;
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

	if (refill(pc, 1)) {
		begin_wait(pc, op);
		op->u.words[WAIT_BUF] = (uintptr_t)stock_pop(&pc->stock);
		receive(op);
		return 0;
	}
	if (store_is_full(pc->pool))
		return -EAGAIN;
	begin_wait(pc, op);
	first = !pc->cls->first;
	enqueue(pc->cls, op);
	if (first)
		recall(pc);
	return 0;
}

int store_wait_always(struct pool_class *pc, struct weir_op *op)
{
	int err;

	if (likely(pc->stock.free && !store_has_waiters(pc->cls))) {
		begin_wait(pc, op);
		op->u.words[WAIT_BUF] = (uintptr_t)stock_pop(&pc->stock);
		receive(op);
		return 0;
	}
	store_lock(pc->cls->store);
	err = wait_under_lock(pc, op);
	store_unlock(pc->cls->store);
	return err;
}

int store_wait(struct pool_class *pc, struct weir_op *op)
{
	int err = op_admit(pc->pool->r, op);

	return err ? op_admitted(err) : store_wait_always(pc, op);
}

void store_take_in(struct store_class *cls, uint32_t which)
{
	struct store_slab *slab = &cls->slabs[which];
	uint32_t i = slab->n;

	while (i--) {
		slab->bufs[i].slab = which;
		slab->bufs[i].next = cls->free;
		cls->free = &slab->bufs[i];
	}
	cls->n_free += slab->n;
	cls->total += slab->n;
	serve(cls, NULL);
}

/*
 * More of a slab is registered, from byte @from of its mmap on: tell the bufs
 * there that are this pool's, out or not.  The lock guards whose they are.
 */
static void slab_registered(struct mmap_link *link, size_t from)
{
	struct pool_class *pc = link->arg;
	struct mmap_use *use = link->use;
	const char *first = use->mmap->addr + from;
	const char *end = use->mmap->addr + use->registered;
	struct store_slab *slab = &pc->cls->slabs[link->which];
	uint32_t i = 0;

	if (slab->n && first > slab->bufs[0].addr)
		i = (uint32_t)((size_t)(first - slab->bufs[0].addr) /
			       store_stride(pc->cls));
	store_lock(pc->cls->store);
	for (; i < slab->n && slab->bufs[i].addr < end; i++)
		if (slab->bufs[i].stock == &pc->stock)
			settle_in(&slab->bufs[i]);
	store_unlock(pc->cls->store);
}

struct mmap_link *store_make_link(struct pool_class *pc, uint32_t which)
{
	struct mmap_link *link = mem_calloc(1, sizeof(*link));

	if (!link)
		return NULL;
	link->is_pool = true;
	link->more = slab_registered;
	link->arg = pc;
	link->which = which;
	return link;
}

/* Memory that came by growth: register it, and what of it is cached. */
static void see_slabs(struct pool_class *pc, uint32_t n_slabs)
{
	struct weir_buf *buf;

	if (pc->n_seen == n_slabs)
		return;
	for (; pc->n_seen < n_slabs; pc->n_seen++)
		if (pc->pool->may_register)
			mmap_register(pc->links[pc->n_seen]);
	for (buf = pc->stock.free; buf; buf = buf->next)
		settle_in(buf);
}

/* Registering takes its time, so not under the lock. */
static void see_all_slabs(struct weir_pool *pool)
{
	uint32_t i, n;

	for (i = 0; i < pool->n_classes; i++) {
		store_lock(pool->store);
		n = pool->classes[i].cls->n_slabs;
		store_unlock(pool->store);
		see_slabs(&pool->classes[i], n);
	}
}

void store_errand(struct errand *errand)
{
	struct weir_pool *pool = weir_container_of(errand, struct weir_pool,
						   errand);
	uint32_t i;

	if (pool->gone)
		return;
	see_all_slabs(pool);
	store_lock(pool->store);
	for (i = 0; i < pool->n_classes; i++)
		give(&pool->classes[i]);
	store_visit(pool);
	store_unlock(pool->store);
}

void store_enter(struct weir_pool *pool)
{
	struct weir_store *store = pool->store;

	store_lock(store);
	if (store->counts)
		errand_send(&pool->errand);
	else
		pool->counted = store->count_seq;
	pool->next = store->pools;
	pool->pprev = &store->pools;
	if (pool->next)
		pool->next->pprev = &pool->next;
	store->pools = pool;
	store_unlock(store);
	see_all_slabs(pool);
}

static bool is_idle(const struct weir_pool *pool)
{
	const struct pool_class *pc = pool->classes;
	uint32_t i;

	for (i = 0; i < pool->n_classes; i++, pc++)
		if (pc->owned != pc->stock.n_free || pc->waiting)
			return false;
	return op_queue_empty(&pool->outside);
}

static void flush(struct weir_pool *pool)
{
	uint32_t i;

	for (i = 0; i < pool->n_classes; i++) {
		shrink(&pool->classes[i], 0);
		serve(pool->classes[i].cls, pool->r);
	}
}

int store_leave(struct weir_pool *pool)
{
	struct weir_store *store = pool->store;
	int err = 0;

	store_lock(store);
	if (!is_idle(pool)) {
		err = -EBUSY;
	} else {
		flush(pool);
		*pool->pprev = pool->next;
		if (pool->next)
			pool->next->pprev = pool->pprev;
		pool->gone = true;
		store->n_leaving++;
		store_settle_counts(store, pool->r);
	}
	store_unlock(store);
	return err;
}

void store_stop_caching(struct weir_pool *pool)
{
	uint32_t i;

	if (!pool->store->shared)
		return;
	for (i = 0; i < pool->n_classes; i++)
		pool->classes[i].cache_max = 0;
	store_lock(pool->store);
	flush(pool);
	store_unlock(pool->store);
}

void store_start_caching(struct weir_pool *pool)
{
	uint32_t i;

	for (i = 0; i < pool->n_classes; i++)
		pool->classes[i].cache_max = pool->cache_max;
}
