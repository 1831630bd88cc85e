/* SPDX-License-Identifier: BSD-3-Clause */
/* What a pool has, where it is, and who has it. */

#include <errno.h>
#include <string.h>

#include "base/opts.h"
#include "mem/shared-pool-internal.h"
#include "mem/tags.h"

struct weir_mmap *weir_pool_mmap(const struct weir_pool *pool)
{
	return pool->shared_pool->classes[0].slabs[0].mmap;
}

size_t weir_pool_buf_size(const struct weir_pool *pool)
{
	return pool->shared_pool->classes[0].buf_size;
}

static void add_up(struct weir_pool_stats *stats, const struct pool_class *pc)
{
	const struct shared_pool_class *cls = pc->cls;
	uint32_t i;

	stats->total += pc->owned;
	stats->free += pc->free_list.n_free;
	stats->in_transit += pc->transit;
	stats->waiting += pc->waiting;
	stats->gets += pc->gets;
	stats->empty += pc->empty;
	stats->refills += pc->refills;
	stats->flushes += pc->flushes;
	for (i = 0; i < cls->n_slabs; i++) {
		stats->registered += pc->links[i]->use->registered;
		stats->huge |= cls->slabs[i].transparent ||
			       cls->slabs[i].page_size > 4096;
	}
}

void pool_add_up(const struct weir_pool *pool, struct weir_pool_stats *stats)
{
	uint32_t i;

	for (i = 0; i < pool->n_classes; i++)
		add_up(stats, &pool->classes[i]);
	stats->out = stats->total - stats->free - stats->in_transit;
}

int weir_pool_stats(const struct weir_pool *pool, struct weir_pool_stats *ret)
{
	struct weir_pool_stats stats = { .size = sizeof(stats) };

	shared_pool_lock(pool->shared_pool);
	pool_add_up(pool, &stats);
	shared_pool_unlock(pool->shared_pool);
	return opts_give(ret, &stats, sizeof(stats), "weir_pool_stats");
}

static void count_slab(const struct pool_class *pc,
		       const struct shared_pool_slab *slab, struct tags *tags)
{
	uint32_t i;

	for (i = 0; i < slab->n; i++)
		if (slab->bufs[i].free_list == &pc->free_list &&
		    slab->bufs[i].state != BUF_FREE)
			tags_add(tags, &slab->bufs[i]);
}

/* Whose a buf is changes under the lock; the state of ours is ours. */
void pool_count_tags(const struct weir_pool *pool, struct tags *tags)
{
	const struct pool_class *pc = pool->classes;
	uint32_t i, j;

	shared_pool_lock(pool->shared_pool);
	for (i = 0; i < pool->n_classes; i++, pc++)
		for (j = 0; j < pc->cls->n_slabs; j++)
			count_slab(pc, &pc->cls->slabs[j], tags);
	shared_pool_unlock(pool->shared_pool);
}

uint32_t weir_pool_owners(const struct weir_pool *pool,
			  struct weir_buf_owner *ret, uint32_t max)
{
	struct tags tags = { 0 };

	pool_count_tags(pool, &tags);
	tags_sort(&tags);
	if (max > tags.n)
		max = tags.n;
	memcpy(ret, tags.owner, max * sizeof(ret[0]));
	return tags.n;
}
