/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Stores and pools on the page of statistics.
 *
 * What a shared store and its pools own is known under its lock.  It is tried,
 * not waited for: who does not get it leaves the numbers as they are until the
 * next time.  Whoever gets it writes the shared pool's, too.
 */

#include <stdio.h>

#include "mem/shared-pool-internal.h"

static const struct stats_field pool_fields[] = {
	STATS_NOW("total", "Buffers it owns: free, out and in transit"),
	STATS_NOW("free", "Buffers free; with a shared pool: cached"),
	STATS_NOW("out", "Buffers that users hold"),
	STATS_NOW("waiting", "Operations that wait for a buffer"),
	STATS_COUNT("gets", "Buffers handed out"),
	STATS_COUNT("empty", "Gets answered -EAGAIN"),
	STATS_BYTES_NOW("registered", "Memory that the backend has registered"),
	STATS_NOW("huge", "1 if its memory is in huge pages, by wish"),
	STATS_NOW("in_transit", "Buffers of waiters whose turn is to come"),
	STATS_COUNT("refills", "Batches taken from the shared pool"),
	STATS_COUNT("flushes", "Batches given back to the shared pool"),
};
STATS_FITS(pool_fields, struct weir_pool_stats, total);

static const struct stats_kind pool_kind = STATS_KIND("pool", pool_fields);

static const struct stats_field shared_pool_fields[] = {
	STATS_NOW("total", "Buffers: free, held and in transit"),
	STATS_NOW("free", "Buffers in the shared pool itself"),
	STATS_NOW("held", "Buffers in caches of pools, or out"),
	STATS_NOW("in_transit", "Buffers of waiters whose turn is to come"),
	STATS_NOW("waiting", "Operations that wait for a buffer"),
	STATS_NOW("pools", "Pools that take from it"),
	STATS_BYTES_NOW("bytes", "Memory of its buffers"),
	STATS_BYTES_NOW("page_size", "The smallest pages that it is in"),
	STATS_NOW("transparent", "1: the kernel may make huge pages of it"),
	STATS_COUNT("recalls", "Times that caches were recalled"),
};
STATS_FITS(shared_pool_fields, struct weir_shared_pool_stats, total);

static const struct stats_kind shared_pool_kind =
	STATS_KIND("store", shared_pool_fields);

static bool try_lock(struct weir_shared_pool *shared_pool)
{
	return !shared_pool->shared ||
	       !pthread_mutex_trylock(&shared_pool->lock);
}

static void put_shared_pool(struct weir_shared_pool *shared_pool, uint64_t now)
{
	struct weir_shared_pool_stats stats = { .size = sizeof(stats) };

	shared_pool_add_up(shared_pool, NULL, &stats);
	stats_put(shared_pool->record, now, &stats.total);
}

static void publish(struct stats_item *item, uint64_t now)
{
	struct weir_pool *pool =
		weir_container_of(item, struct weir_pool, item);
	struct weir_pool_stats stats = { .size = sizeof(stats) };

	if (!try_lock(pool->shared_pool))
		return;
	pool_add_up(pool, &stats);
	if (pool->shared_pool->record)
		put_shared_pool(pool->shared_pool, now);
	shared_pool_unlock(pool->shared_pool);
	stats_put(item->record, now, &stats.total);
}

/* "4096 B", or from the smallest to the largest of several. */
static void name_sizes(char label[64],
		       const struct weir_shared_pool *shared_pool)
{
	const struct shared_pool_class *cls = shared_pool->classes;
	uint32_t n = shared_pool->n_classes;

	if (n == 1)
		snprintf(label, 64, "%zu B", cls->buf_size);
	else
		snprintf(label, 64, "%zu-%zu B", cls->buf_size,
			 cls[n - 1].buf_size);
}

void shared_pool_publish(struct weir_shared_pool *shared_pool)
{
	char label[64];

	if (!stats_wanted())
		return;
	name_sizes(label, shared_pool);
	shared_pool->record = stats_record_add(&shared_pool_kind, 0, label);
	shared_pool_lock(shared_pool);
	put_shared_pool(shared_pool, 0);
	shared_pool_unlock(shared_pool);
}

void pool_publish(struct weir_pool *pool)
{
	char label[64];

	name_sizes(label, pool->shared_pool);
	stats_item_add(pool->r, &pool->item, &pool_kind, publish, 0, label);
}
