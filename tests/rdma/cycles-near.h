/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_CYCLES_NEAR_H
#define TESTS_CYCLES_NEAR_H

/*
 * The near end of test-conn-cycles.c: a connection with a policy, and a stream
 * of jobs of all kinds over it, each with a place of its own here and there.
 */

#include "tests/rdma/cycles-far.h"
#include "tests/support/job-fixture.h"

#include <poll.h>

#include <infiniband/verbs.h>

#include <weir/device.h>
#include <weir/inventory.h>

#include "rdma/engine.h"

#define SLOTS 24
#define STRIDE (FAR_LEN / SLOTS / 4096 * 4096)
#define LEN_MAX 100000u
#define WR_LEN 16384u		/* So that most jobs are several. */

struct near;

/* A place, and the job that is about it. */
struct site {
	struct weir_job job;
	struct near *n;
	size_t len;
	bool read, raw;		/* .raw: memory that has no key. */
	bool busy, failed;
	uint64_t generation;
	uint64_t bytes;		/* Of one that failed: its beginning. */
	char *near, *far;
	char was[LEN_MAX];	/* The destination, before it began, */
	char left[LEN_MAX];	/* and, if it is here, when it had failed. */
};

struct failure {
	int64_t res;
	int32_t code;
};

struct near {
	struct weir_reactor *r;
	const char *backend;
	struct address to;
	uint16_t port;
	struct weir_conn *c;
	struct weir_domain *there;
	struct weir_device *dev;
	struct weir_mmap *m;
	struct weir_inventory *inv;
	struct weir_dma *dma;
	struct weir_remote_key key, wrong;
	char *mem, *raw;
	struct site *slots;		/* And one with a wrong key. */

	bool going;			/* Who is done begins again. */
	unsigned int under_way, done_now;
	struct failure failures[SLOTS + 1];
	unsigned int n_failures;
	unsigned int n_ends, n_agains;
	int why;
	uint64_t n_started, n_done, n_causes, n_flushed;
};

/* Far end, connection and memory. */
void near_begin(struct near *n, void **state, uint64_t first_ns);
void near_end(struct near *n);

/* There is a new QP, and a new key. */
void near_reconnected(struct near *n);

/* Start a job in each slot; who is done begins again until one fails. */
void near_start(struct near *n);

/* And one that the peer will not have. */
void near_start_wrong(struct near *n);

/* Nothing is in flight: all bytes are what they may be. */
void near_check(struct near *n);

#endif /* TESTS_CYCLES_NEAR_H */
