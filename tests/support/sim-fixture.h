/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_SIM_FIXTURE_H
#define TESTS_SIM_FIXTURE_H

/* What the tests of memory and DMA in a world share. */

#include "tests/support/job-fixture.h"

#include <weir/domain-user.h>
#include <weir/sim/memory.h>
#include <weir/sim/world.h>

#define ALWAYS(kind) (UINT64_C(1) << (kind))

static inline struct weir_sim *sim_world(uint64_t seed, uint64_t faults,
					 uint32_t rate)
{
	struct weir_sim_opts opts = {
		.size = sizeof(opts),
		.faults = faults,
		.rate = rate,
	};
	struct weir_sim *sim = NULL;

	assert_int_equal(weir_sim_create(&sim, seed, &opts), 0);
	return sim;
}

static inline struct weir_reactor *sim_reactor_in(struct weir_sim *sim)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts), .sim = sim };
	struct weir_reactor *r = NULL;

	assert_int_equal(weir_reactor_create(&r, &opts), 0);
	return r;
}

/* Run the world until nothing would happen. */
static inline void sim_idle(struct weir_sim *sim)
{
	assert_int_equal(weir_sim_run(sim, WEIR_FOREVER, 0), 0);
}

static inline void sim_end_dma(struct weir_sim *sim, struct weir_dma *dma)
{
	struct rec stop;

	rec_init(&stop);
	STARTS(weir_dma_stop(dma, &stop.op));
	sim_idle(sim);
	assert_int_equal(stop.calls, 1);
	assert_int_equal(weir_dma_destroy(dma), 0);
}

#endif /* TESTS_SIM_FIXTURE_H */
