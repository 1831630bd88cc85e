/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_REACTOR_STATS_PAGE_INTERNAL_H
#define WEIR_REACTOR_STATS_PAGE_INTERNAL_H

/* The page of this process, and what the files that write it share. */

#include <pthread.h>

#include "reactor/stats/layout.h"
#include "reactor/stats/page.h"
#include "reactor/stats/place.h"

struct page {
	pthread_mutex_t lock;		/* Of all but words. */
	struct stats_header *header;	/* The file, mapped; NULL: none. */
	int fd;
	bool offer;			/* That it is made for. */
	uint64_t allocated;		/* Bytes that there is capacity for. */
	uint32_t n_records;		/* In use. */
	uint32_t last_id;
	char dir[PLACE_MAX];
	char name[PAGE_NAME_MAX];

	/* The .id of the kinds that are in it, in order. */
	const void *kinds[STATS_KINDS_MAX];
};

extern struct page page;

/* Under the lock: whether it has capacity up to @used, which is made if not. */
bool page_has_capacity(uint64_t used);

/* Remove the pages of processes that have ended from @dir, which is ours. */
void stats_sweep(int dir);

/* Plain stores that nothing is moved across: see stats/layout.h. */
static inline void word_set(uint64_t *counter, uint64_t value)
{
	__atomic_store_n(counter, value, __ATOMIC_RELEASE);
}

/* Words change between these two; no other thread writes to @record. */
static inline void record_begin(struct stats_record *record)
{
	__atomic_store_n(&record->seq, record->seq + 1, __ATOMIC_RELAXED);
}

static inline void record_end(struct stats_record *record)
{
	word_set(&record->seq, record->seq + 1);
}

#endif /* WEIR_REACTOR_STATS_PAGE_INTERNAL_H */
