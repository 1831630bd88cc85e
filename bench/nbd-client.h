/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_NBD_CLIENT_H
#define BENCH_NBD_CLIENT_H

/*
 * A client of Network Block Device servers that costs little itself: it sends
 * the next requests of all replies that one read has brought in one write, and
 * leaves the data where it is.  It waits for sockets, never spins.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/hist.h"

#define NBD_CONNS_MAX 4

/* Where a server listens: a path, or a port of this machine. */
struct nbd_place {
	const char *path;	/* NULL: the port. */
	uint16_t port;
};

struct nbd_conn;

struct nbd_client {
	struct nbd_conn *conn[NBD_CONNS_MAX];
	int n;
	uint64_t size;		/* Of the export. */
	uint64_t next, random;
	struct bench_hist *latency;	/* Where to add them; NULL: nowhere. */
};

/* What is asked for. */
struct nbd_work {
	uint32_t block;
	uint32_t depth;		/* Requests in flight on each connection. */
	bool write;
	bool sequential;
};

/* @n connections to the export @name.  Returns 0 or a negative errno; there is
 * nothing to close then. */
int nbd_open(struct nbd_client *c, const struct nbd_place *at, const char *name,
	     int n);
void nbd_close(struct nbd_client *c);

/* Do @work for @ns, and then until all has been answered.  Returns how many
 * requests that were; *@took is how long it took. */
uint64_t nbd_run(struct nbd_client *c, const struct nbd_work *work, uint64_t ns,
		 uint64_t *took);

#endif /* BENCH_NBD_CLIENT_H */
