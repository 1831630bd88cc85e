/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_REACTOR_CACHED_H
#define WEIR_REACTOR_CACHED_H

/*
 * Reads that the page cache answers: a copy, which is done at once, and costs far
 * less than a worker, or a ring that would be entered for it alone.
 *
 * Whether a file is one to try this with is checked by fstat(2) once in
 * CACHED_USES reads, and kept by descriptor.  After a read that was not in the
 * cache some are not tried, more each time.
 */

#include "reactor/op-internal.h"

#define CACHED_MAX (128u << 10)	/* Bytes: a longer copy would take too long. */
#define CACHED_FILES 64		/* Descriptors that are known; a power of 2. */
#define CACHED_USES 64		/* Reads until a file is asked about again. */
#define CACHED_PASSES 32	/* At most so many are not tried after a miss, */
#define CACHED_NEVER 1024	/* and where there is no use in it. */

struct cached_file {
	int32_t fd;		/* Zeroed, it is 0 with nothing known. */
	uint16_t uses;		/* Left, or 0: ask. */
	uint16_t passes;	/* Reads not to be tried from now on, */
	uint16_t penalty;	/* and after the next miss. */
};

struct cached {
	struct cached_file files[CACHED_FILES];
};

/* A model of io_uring sets it, to see every read. */
extern bool cached_is_off;

/* Returns whether the page cache had all that @op, which is PENDING, reads: it
 * has ended then. */
bool cached_read(struct weir_reactor *r, struct weir_op *op);

/* @fd is about to be closed: its number may be another file's next. */
void cached_forget(struct weir_reactor *r, int fd);

#endif /* WEIR_REACTOR_CACHED_H */
