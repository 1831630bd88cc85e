/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_PROGRAMS_WORLDS_H
#define TESTS_PROGRAMS_WORLDS_H

/*
 * The installed programs in simulated worlds, as they are: linked with
 * libweir-sim-libc, on hosts that are killed and lose power.
 */

#include <weir/reactor.h>
#include <weir/sim/host.h>
#include <weir/sim/runner.h>

#define MUST(rule, cond) \
	do { \
		if (!(cond)) \
			weir_sim_violation(rule, "%s:%d: %s", __FILE__, \
					   __LINE__, #cond); \
	} while (0)

static inline uint32_t draw(struct weir_sim *sim, uint32_t n)
{
	return (uint32_t)(weir_sim_random(sim) % n);
}

static inline struct weir_reactor *reactor_here(void)
{
	struct weir_reactor *r;

	MUST("a program gets its reactor", !weir_reactor_create(&r, NULL));
	return r;
}

static inline struct weir_sim_host *host_add(struct weir_sim *sim,
					     struct weir_sim_host_opts opts)
{
	struct weir_sim_host *host;

	opts.size = sizeof(opts);
	MUST("a host is made", !weir_sim_host_create(&host, sim, &opts));
	MUST("a host starts", !weir_sim_host_start(host));
	return host;
}

#endif /* TESTS_PROGRAMS_WORLDS_H */
