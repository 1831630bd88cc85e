/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_GROUP_FIXTURE_H
#define TESTS_GROUP_FIXTURE_H

/*
 * A group whose core 0 is the test's own thread, which makes its turns by hand:
 *
 *	team_begin(&t, state, 2, 0);
 *	STARTS(weir_call(t.r[0], &rec.op, t.r[1], fn, arg));
 *	UNTIL(t.r[0], rec.calls);
 *	team_end(&t);
 *
 * In a simulated world all cores are on the test's thread, and those turns let
 * the others go on.  cmocka's assertions jump, and so belong to core 0 alone.
 */

#include <weir/call.h>
#include <weir/group.h>

#include "tests/support/harness.h"

#include <sched.h>

#define TEAM_MAX 4

struct team {
	struct weir_group *group;
	struct weir_reactor *r[TEAM_MAX];
};

/* Without start: for who has something to set first. */
static inline void team_create(struct team *t, void **state, uint32_t n,
			       uint32_t spsc)
{
	struct weir_reactor_opts ropts = {
		.size = sizeof(ropts),
		.backend = backend_of(*state),
		.sim = harness_sim,
	};
	struct weir_group_opts opts = {
		.size = sizeof(opts),
		.n_cores = n,
		.spsc = spsc,
		.flags = WEIR_GROUP_ADOPT,
		.reactor = &ropts,
	};

	memset(t, 0, sizeof(*t));
	assert_int_equal(weir_group_create(&t->group, &opts), 0);
}

static inline void team_start(struct team *t)
{
	int err = weir_group_start(t->group);

	if (err)
		fail_msg("%s", weir_why());
	for (uint32_t i = 0; i < weir_group_size(t->group); i++)
		t->r[i] = weir_group_reactor(t->group, i);
}

static inline void team_begin(struct team *t, void **state, uint32_t n,
			      uint32_t spsc)
{
	team_create(t, state, n, spsc);
	team_start(t);
}

static inline void team_end(struct team *t)
{
	assert_int_equal(weir_group_stop(t->group), 0);
	assert_int_equal(weir_group_run(t->group), 0);
	assert_int_equal(weir_group_destroy(t->group), 0);
}

#endif /* TESTS_GROUP_FIXTURE_H */
