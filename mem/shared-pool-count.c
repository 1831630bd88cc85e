/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A count of where all buffers of a shared pool are.
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
#include "mem/shared-pool-internal.h"
#include "reactor/op-inline.h"

#define COUNT "weir_shared_pool_count"

enum { COUNT_RESULT, COUNT_SHARED_POOL, COUNT_SEQ };

static void add_class(struct weir_shared_pool_count *count,
		      struct shared_pool_class *cls)
{
	size_t which = (size_t)(cls - cls->shared_pool->classes);
	const struct weir_pool *pool;
	const struct pool_class *pc;
	uint64_t held, cached;

	count->total += cls->total;
	count->free += cls->n_free;
	for (pool = cls->shared_pool->pools; pool; pool = pool->next) {
		pc = &pool->classes[which];
		held = pc->owned - pc->transit;
		cached = pc->seen_cached < held ? pc->seen_cached : held;
		count->cached += cached;
		count->out += held - cached;
		count->in_transit += pc->transit;
	}
}

static int64_t add_up(struct weir_shared_pool *shared_pool,
		      struct weir_shared_pool_count *ret)
{
	struct weir_shared_pool_count count = { .size = sizeof(count) };
	uint32_t i;

	for (i = 0; i < shared_pool->n_classes; i++)
		add_class(&count, &shared_pool->classes[i]);
	opts_give(ret, &count, sizeof(count), COUNT);
	return (int64_t)count.total;
}

static struct weir_shared_pool *shared_pool_of(const struct weir_op *op)
{
	return (struct weir_shared_pool *)(uintptr_t)
		op->u.words[COUNT_SHARED_POOL];
}

static void push(struct weir_shared_pool *shared_pool, struct weir_op *op)
{
	shared_pool->n_counts++;
	op->next = shared_pool->counts;
	op->pprev = &shared_pool->counts;
	if (op->next)
		op->next->pprev = &op->next;
	shared_pool->counts = op;
}

/* Without a place in the list it is as good as done. */
static void take_out(struct weir_op *op)
{
	*op->pprev = op->next;
	if (op->next)
		op->next->pprev = op->pprev;
	op->pprev = NULL;
}

static bool all_counted(const struct weir_shared_pool *shared_pool,
			uint64_t seq)
{
	const struct weir_pool *pool;

	for (pool = shared_pool->pools; pool; pool = pool->next)
		if (pool->counted < seq)
			return false;
	return true;
}

void shared_pool_settle_counts(struct weir_shared_pool *shared_pool,
			       struct weir_reactor *r)
{
	struct weir_op *op, *next;

	for (op = shared_pool->counts; op; op = next) {
		next = op->next;
		if (!all_counted(shared_pool, op->u.words[COUNT_SEQ]))
			continue;
		take_out(op);
		op->res = add_up(shared_pool,
				 (struct weir_shared_pool_count *)(uintptr_t)
					 op->u.words[COUNT_RESULT]);
		if (op->reactor == r) {
			shared_pool->n_counts--;
			op_complete(op, op->res);
		} else {
			op_return(op);
		}
	}
}

void shared_pool_visit(struct weir_pool *pool)
{
	struct weir_shared_pool *shared_pool = pool->shared_pool;
	uint32_t i;

	if (likely(!shared_pool->counts))
		return;
	for (i = 0; i < pool->n_classes; i++)
		pool->classes[i].seen_cached =
			pool->classes[i].free_list.n_free;
	pool->counted = shared_pool->count_seq;
	shared_pool_settle_counts(shared_pool, pool->r);
}

static void count_cancel(struct weir_op *op)
{
	struct weir_shared_pool *shared_pool = shared_pool_of(op);
	bool waits;

	shared_pool_lock(shared_pool);
	waits = op->pprev;
	if (waits) {
		take_out(op);
		shared_pool->n_counts--;
	}
	shared_pool_unlock(shared_pool);
	if (waits)
		op_complete(op, -ECANCELED);
}

/* The lock is also to wait for who has sent it back, and has still to ring. */
static void count_returned(struct weir_op *op)
{
	struct weir_shared_pool *shared_pool = shared_pool_of(op);

	shared_pool_lock(shared_pool);
	shared_pool->n_counts--;
	shared_pool_unlock(shared_pool);
	op_complete(op, op->res);
}

static const struct weir_op_class count_class = {
	.name = "store count",
	.cancel = count_cancel,
	.returned = count_returned,
};

int weir_shared_pool_count(struct weir_shared_pool *shared_pool,
			   struct weir_reactor *r, struct weir_op *op,
			   struct weir_shared_pool_count *ret)
{
	struct weir_pool *pool;
	int err = opts_capacity(ret, COUNT);

	if (!err)
		err = op_begin(r, op, &count_class);
	if (err)
		return op_admitted(err);
	op->u.words[COUNT_RESULT] = (uintptr_t)ret;
	op->u.words[COUNT_SHARED_POOL] = (uintptr_t)shared_pool;
	shared_pool_lock(shared_pool);
	op->u.words[COUNT_SEQ] = ++shared_pool->count_seq;
	push(shared_pool, op);
	for (pool = shared_pool->pools; pool; pool = pool->next)
		deferred_send(&pool->deferred);
	shared_pool_settle_counts(shared_pool, r);
	shared_pool_unlock(shared_pool);
	return 0;
}
