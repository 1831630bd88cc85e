/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_CHAIN_STORM_H
#define TESTS_CHAIN_STORM_H

#include "tests/support/slow-fixture.h"

/* Of every place that chains use. */
#define STORM_BYTES ((size_t)SLOW_LEN)

/* A place elsewhere: STORM_BYTES of .domain from .addr on, and the same with bufs. */
struct storm_far {
	struct weir_domain *domain;
	struct weir_mmap *m;
	uint64_t addr;
	/* Copy its bytes at @addr to @buf or, with @put, from there. */
	void (*see)(uint64_t addr, char *buf, size_t len, bool put);
};

/* Run the storm on the test's reactor; @far may be NULL. */
void chain_storm(void **state, const struct storm_far *far);

#endif /* TESTS_CHAIN_STORM_H */
