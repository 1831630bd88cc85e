/* SPDX-License-Identifier: BSD-3-Clause */
/* What the rest of a world asks about hosts: whose name it is, what time it is
 * there, and what lies between two of them. */

#include <string.h>

#include "sim/world.h"

_Thread_local struct weir_sim_host *sim_acting;

struct weir_sim_host *sim_host_named(struct weir_sim *sim, const char *name)
{
	size_t len = strcspn(name, "/:");
	struct weir_sim_host *h = sim->hosts;

	while (h && (strlen(h->name) != len || memcmp(h->name, name, len)))
		h = h->next;
	return h;
}

struct sim_link *sim_link(struct weir_sim_host *from,
			  const struct weir_sim_host *to)
{
	struct sim_link *link = from ? from->links : NULL;

	while (link && link->to != to)
		link = link->next;
	return link;
}

static uint64_t scale(uint64_t ns, uint64_t by, uint64_t from)
{
	return ns / from * by + ns % from * by / from;
}

/* What the clock of @h gains in a second. */
static uint64_t pace(const struct weir_sim_host *h)
{
	return (uint64_t)((int64_t)WEIR_SEC + h->drift);
}

static uint64_t clock_at(const struct weir_sim_host *h, uint64_t now_ns)
{
	return h->clock_ns + scale(now_ns - h->since_ns, pace(h), WEIR_SEC);
}

uint64_t sim_clock(const struct weir_sim *sim,
		   const struct weir_sim_host *host)
{
	return host ? clock_at(host, sim->now_ns) : sim->now_ns;
}

/* 0 and WEIR_FOREVER, now and never, are the same for all. */
uint64_t sim_world_time(const struct weir_sim_host *host, uint64_t ns)
{
	uint64_t at;

	if (!host || !ns || ns == WEIR_FOREVER)
		return ns;
	if (ns <= host->clock_ns)
		return host->since_ns;
	ns -= host->clock_ns;
	if (ns > WEIR_FOREVER / 4)
		return WEIR_FOREVER - 1;
	at = host->since_ns + scale(ns, WEIR_SEC, pace(host));
	while (clock_at(host, at) - host->clock_ns < ns)
		at++;
	return at;
}
