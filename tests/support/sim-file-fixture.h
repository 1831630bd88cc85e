/* SPDX-License-Identifier: BSD-3-Clause */

#ifndef TESTS_SIM_FILE_FIXTURE_H
#define TESTS_SIM_FILE_FIXTURE_H

/* What the tests of simulated files share: a world with a reactor, and calls
 * that wait for their operation. */

#include "tests/support/harness.h"

#include <weir/file.h>
#include <weir/sim/file.h>

struct sim_world {
	struct weir_sim *sim;
	struct weir_reactor *r;
	struct weir_op op;
	int64_t res;
	int calls;
	struct weir_op_detail detail;
};

static inline void sim_world_done(struct weir_op *op, int64_t res)
{
	struct sim_world *w = weir_container_of(op, struct sim_world, op);

	w->res = res;
	w->calls++;
	assert_int_equal(weir_op_get_detail(op, &w->detail), 0);
}

static inline void sim_world_begin(struct sim_world *w, uint64_t seed,
				   uint64_t faults, uint32_t rate)
{
	struct weir_sim_opts opts = { .size = sizeof(opts),
				      .faults = faults,
				      .rate = rate };
	struct weir_reactor_opts ropts = { .size = sizeof(ropts) };

	memset(w, 0, sizeof(*w));
	assert_int_equal(weir_sim_create(&w->sim, seed, &opts), 0);
	ropts.sim = w->sim;
	assert_int_equal(weir_reactor_create(&w->r, &ropts), 0);
	weir_op_init(&w->op, sim_world_done);
}

static inline void sim_world_end(struct sim_world *w)
{
	weir_sim_set_faults(w->sim, 0);
	assert_int_equal(weir_reactor_destroy(w->r), 0);
	assert_int_equal(weir_sim_destroy(w->sim), 0);
}

static inline int64_t sim_wait(struct sim_world *w, int err)
{
	int before = w->calls;

	assert_int_equal(err, 0);
	while (w->calls == before && weir_sim_run(w->sim, WEIR_FOREVER, 1) > 0)
		;
	assert_int_equal(w->calls, before + 1);
	return w->res;
}

#define SIM_CALL(w, call, ...) \
	sim_wait(w, weir_##call((w)->r, &(w)->op, __VA_ARGS__))

static inline int sim_open(struct sim_world *w, const char *path, int flags)
{
	return (int)SIM_CALL(w, open, AT_FDCWD, path, flags, 0644);
}

static inline int64_t sim_sync(struct sim_world *w, int fd)
{
	return SIM_CALL(w, fsync, fd, 0);
}

/* Make the names in @dir durable. */
static inline void sim_sync_dir(struct sim_world *w, const char *dir)
{
	int fd = sim_open(w, dir, O_RDONLY | O_DIRECTORY);

	assert_true(fd >= 0);
	assert_int_equal(sim_sync(w, fd), 0);
	assert_int_equal(SIM_CALL(w, close, fd), 0);
}

#endif /* TESTS_SIM_FILE_FIXTURE_H */
