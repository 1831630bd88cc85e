/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_SHARED_PEERS_H
#define BENCH_SHARED_PEERS_H

/*
 * Programs of others that measure messages of 8 bytes between two processes in
 * shared memory: one waits, the other connects to it, measures, and says the
 * result in a line of figures.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct shared_peer {
	const char *name, *program;
	const char *latency, *rate;	/* What they are called; NULL: no such. */
	/* A command: what is measured, how often, and the other's address. */
	const char *form;
	const char *separator;		/* Of the columns. */
	int latency_column, rate_column;
	double latency_ns, rate_millions;	/* Of the unit that it uses. */
};

extern const struct shared_peer shared_peers[];
extern const size_t n_shared_peers;

bool shared_peer_is_there(const struct shared_peer *p);

/* Nanoseconds of one way, or millions of messages a second, of @n; NAN if it
 * fails, or measures no such thing. */
double shared_peer_latency(const struct shared_peer *p, uint64_t n);
double shared_peer_rate(const struct shared_peer *p, uint64_t n);

#endif /* BENCH_SHARED_PEERS_H */
