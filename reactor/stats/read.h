/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_REACTOR_STATS_READ_H
#define WEIR_REACTOR_STATS_READ_H

/*
 * The reader's side of a page.
 *
 * What is read is copied by pread(), never mapped: a page that shrinks under a
 * mapping would end the reader.  Every number is checked before it is used, and
 * what of it is used later is kept in the reader's own memory.
 */

#include <sys/types.h>

#include "reactor/stats/layout.h"
#include "reactor/stats/page.h"

#define STATS_READ_MAX (UINT64_C(64) << 20)	/* A newer one may be larger. */

struct read_section {
	size_t counters; /* Index in the snapshot's. */
	uint32_t torn;
	struct stats_record head;	/* Last: it ends in its words. */
};

struct snapshot {
	struct stats_header header;
	struct stats_kind_entry *kinds;
	struct stats_field_entry *fields;
	struct read_section *sections;
	uint32_t n_sections;
	uint32_t sections_max;
	uint64_t *counters;
	size_t n_counters;
	size_t counters_max;
	uint64_t read_ns;
	bool alive;
};

struct weir_stats {
	int fd;			/* Ours. */
	struct snapshot now;
};

/* The page in @fd, which is the library's from now on, also on failure.  Fails
 * as weir_stats_open() does. */
int stats_open_fd(struct weir_stats **ret, int fd);

/* Read into @snap, zeroed before.  snapshot_free() in any case. */
int snapshot_read(struct snapshot *snap, int fd, const char *call);
void snapshot_free(struct snapshot *snap);

void snapshot_info(const struct snapshot *snap, struct weir_stats_info *ret);

/* Read a header, and check it. */
int header_read(struct stats_header *h, int fd, const char *call);

/* Open page @name in @dir, which is @uid's.  Returns a descriptor, -ESTALE if
 * it is not written to any more, or as weir_stats_open() fails. */
int page_open(int dir, const char *name, uid_t uid, const char *call);

#endif /* WEIR_REACTOR_STATS_READ_H */
