/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A count of where all buffers of a store are.
 *
 * What is free, what each pool owns and what of that is in transit is known
 * under the lock at any time.  How much of the rest is cached and how much out
 * only the pool's thread knows, and changes without a lock: so each pool is
 * visited and notes what it has cached.  When the last one has been, all is
 * added up, under the lock: a pool that has since given some of its cache away
 * is credited with no more than it still owns.
 */

#include <errno.h>

#include "base/opts.h"
#include "mem/store-internal.h"
#include "reactor/op-inline.h"

#define COUNT "weir_store_count"

enum { COUNT_RESULT, COUNT_STORE, COUNT_SEQ };

static void add_class(struct weir_store_count *count, struct store_class *cls)
{
	size_t which = (size_t)(cls - cls->store->classes);
	const struct weir_pool *pool;
	const struct pool_class *pc;
	uint64_t held, cached;

	count->total += cls->total;
	count->free += cls->n_free;
	for (pool = cls->store->pools; pool; pool = pool->next) {
		pc = &pool->classes[which];
		held = pc->owned - pc->transit;
		cached = pc->seen_cached < held ? pc->seen_cached : held;
		count->cached += cached;
		count->out += held - cached;
		count->in_transit += pc->transit;
	}
}

static int64_t add_up(struct weir_store *store, struct weir_store_count *ret)
{
	struct weir_store_count count = { .size = sizeof(count) };
	uint32_t i;

	for (i = 0; i < store->n_classes; i++)
		add_class(&count, &store->classes[i]);
	opts_give(ret, &count, sizeof(count), COUNT);
	return (int64_t)count.total;
}

static struct weir_store *store_of(const struct weir_op *op)
{
	return (struct weir_store *)(uintptr_t)op->u.words[COUNT_STORE];
}

static void push(struct weir_store *store, struct weir_op *op)
{
	store->n_counts++;
	op->next = store->counts;
	op->pprev = &store->counts;
	if (op->next)
		op->next->pprev = &op->next;
	store->counts = op;
}

/* Without a place in the list it is as good as done. */
static void take_out(struct weir_op *op)
{
	*op->pprev = op->next;
	if (op->next)
		op->next->pprev = op->pprev;
	op->pprev = NULL;
}

static bool all_counted(const struct weir_store *store, uint64_t seq)
{
	const struct weir_pool *pool;

	for (pool = store->pools; pool; pool = pool->next)
		if (pool->counted < seq)
			return false;
	return true;
}

void store_settle_counts(struct weir_store *store, struct weir_reactor *r)
{
	struct weir_op *op, *next;

	for (op = store->counts; op; op = next) {
		next = op->next;
		if (!all_counted(store, op->u.words[COUNT_SEQ]))
			continue;
		take_out(op);
		op->res = add_up(store, (struct weir_store_count *)(uintptr_t)
				 op->u.words[COUNT_RESULT]);
		if (op->reactor == r) {
			store->n_counts--;
			op_complete(op, op->res);
		} else {
			op_return(op);
		}
	}
}

void store_visit(struct weir_pool *pool)
{
	struct weir_store *store = pool->store;
	uint32_t i;

	if (likely(!store->counts))
		return;
	for (i = 0; i < pool->n_classes; i++)
		pool->classes[i].seen_cached = pool->classes[i].stock.n_free;
	pool->counted = store->count_seq;
	store_settle_counts(store, pool->r);
}

static void count_cancel(struct weir_op *op)
{
	struct weir_store *store = store_of(op);
	bool waits;

	store_lock(store);
	waits = op->pprev;
	if (waits) {
		take_out(op);
		store->n_counts--;
	}
	store_unlock(store);
	if (waits)
		op_complete(op, -ECANCELED);
}

/* The lock is also to wait for who has sent it home, and has still to ring. */
static void count_home(struct weir_op *op)
{
	struct weir_store *store = store_of(op);

	store_lock(store);
	store->n_counts--;
	store_unlock(store);
	op_complete(op, op->res);
}

static const struct weir_op_class count_class = {
	.name = "store count",
	.cancel = count_cancel,
	.home = count_home,
};

int weir_store_count(struct weir_store *store, struct weir_reactor *r,
		     struct weir_op *op, struct weir_store_count *ret)
{
	struct weir_pool *pool;
	int err = opts_room(ret, COUNT);

	if (!err)
		err = op_begin(r, op, &count_class);
	if (err)
		return op_admitted(err);
	op->u.words[COUNT_RESULT] = (uintptr_t)ret;
	op->u.words[COUNT_STORE] = (uintptr_t)store;
	store_lock(store);
	op->u.words[COUNT_SEQ] = ++store->count_seq;
	push(store, op);
	for (pool = store->pools; pool; pool = pool->next)
		errand_send(&pool->errand);
	store_settle_counts(store, r);
	store_unlock(store);
	return 0;
}
