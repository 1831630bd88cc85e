/* SPDX-License-Identifier: BSD-3-Clause */
/* The common code of the parts of a world: their list, trace and digest. */

#include <stdio.h>
#include <string.h>

#include "sim/world.h"

#define POLL_NS WEIR_MSEC	/* Until observers look, at the most. */

struct sim_part *sim_part(struct weir_sim *sim, const char *name)
{
	struct sim_part *part = sim->parts;

	while (part && strcmp(part->name, name))
		part = part->next;
	return part;
}

void sim_part_add(struct weir_sim *sim, struct sim_part *part)
{
	part->next = sim->parts;
	sim->parts = part;
}

void sim_observe(struct weir_reactor *r, struct observer *observer)
{
	struct weir_sim *sim = sim_of(r)->sim;

	reactor_check_thread(r);
	observer->reactor = r;
	observer->next = sim->observers;
	observer->pprev = &sim->observers;
	if (observer->next)
		observer->next->pprev = &observer->next;
	sim->observers = observer;
}

void sim_happened(struct weir_sim *sim)
{
	if (sim->observers && !sim->observation.queued)
		sim_at(sim, &sim->observation, 1 + sim_below(&sim->time, POLL_NS));
}

void sim_mix(struct weir_sim *sim, uint64_t value)
{
	struct sim_rng rng = { sim->digest ^ value };

	sim->digest = sim_rng(&rng) + (sim->digest << 1);
}

void sim_trace(struct weir_sim *sim, const char *fmt, ...)
{
	uint64_t ns = sim->now_ns - SIM_BEGINNING;
	char line[512];
	va_list ap;
	int n;

	if (!sim->trace)
		return;
	n = snprintf(line, sizeof(line), "%llu.%09llu ",
		     (unsigned long long)(ns / WEIR_SEC),
		     (unsigned long long)(ns % WEIR_SEC));
	va_start(ap, fmt);
	vsnprintf(line + n, sizeof(line) - (size_t)n, fmt, ap);
	va_end(ap);
	sim->trace(line, sim->trace_arg);
}

void weir_sim_note(struct weir_sim *sim, const char *what, uint64_t value)
{
	for (const char *s = what; *s; s++)
		sim_mix(sim, (unsigned char)*s);
	sim_mix(sim, value);
	sim_trace(sim, "%s %llu", what, (unsigned long long)value);
}

uint64_t weir_sim_digest(const struct weir_sim *sim)
{
	return sim->digest;
}
