/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_VERBS_RULES_H
#define TESTS_VERBS_RULES_H

/* What the parts of test-verbs-rules share. */

#include "tests/harness.h"

#include <infiniband/verbs.h>

/* One device, opened anew for each case. */
struct rules {
	const char *device;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
};

struct rules *rules_begin(void **state);
void rules_end(void);

struct rules_part {
	const struct harness_case *cases;
	size_t n;
};

extern const struct rules_part rules_queue;

#endif /* TESTS_VERBS_RULES_H */
