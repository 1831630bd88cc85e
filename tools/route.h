/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_ROUTE_H
#define TOOLS_ROUTE_H

/* A place of bytes, named by a word of the command line. */

#include <stdbool.h>
#include <stdint.h>

#include <weir/conn.h>
#include <weir/job.h>

struct weir_device;
struct weir_dm;
struct weir_inventory;
struct weir_mmap;

struct place {
	struct weir_operand operand;
	struct weir_domain *domain;	/* Made here, or NULL. */
	struct weir_remote_key key;
	int fd;				/* -1: none. */
	struct weir_device *device;
	struct weir_dm *dm;
	struct weir_mmap *mmap;
	struct weir_inventory *inv;
	struct weir_buf *buf;
	bool remote;			/* Of a peer, by RDMA. */
};

/*
 * Make the place that @word names, for @bytes bytes.  A place that is not
 * memory is not accessed.  @side is 0 for the source, 1 for the destination, 2
 * for a second source.  Returns an exit status; place_end() is needed in any
 * case.
 */
int place_begin(struct place *p, struct weir_reactor *r, const char *word,
		uint64_t bytes, int side);
void place_end(struct place *p);

/* Whether a device that can be used here reaches it. */
bool place_is_reached(const struct place *p);

#endif /* TOOLS_ROUTE_H */
