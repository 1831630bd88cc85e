/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Work that keeps a worker busy until the test opens a gate.
 */

#ifndef TESTS_GATE_FIXTURE_H
#define TESTS_GATE_FIXTURE_H

#include "tests/support/harness.h"

#include <errno.h>
#include <stdatomic.h>
#include <unistd.h>

struct gate {
	int open[2], here[2];
	atomic_int ran;
};

static inline void gate_make(struct gate *g)
{
	pipe_pair(g->open);
	pipe_pair(g->here);
	atomic_store(&g->ran, 0);
}

static inline void gate_free(struct gate *g)
{
	close_pair(g->open);
	close_pair(g->here);
}

/* For weir_work(). */
static inline int64_t pass_gate(void *arg)
{
	struct gate *g = arg;
	char byte;

	atomic_fetch_add(&g->ran, 1);
	if (write(g->here[1], "x", 1) != 1)
		return -EIO;
	return read(g->open[0], &byte, 1);
}

/* Until one more worker is there. */
static inline void gate_wait(struct gate *g)
{
	char byte;

	assert_int_equal(read(g->here[0], &byte, 1), 1);
}

/* For one of them. */
static inline void gate_open(struct gate *g)
{
	assert_int_equal(write(g->open[1], "x", 1), 1);
}

#endif
