/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/* Which engine does a job: a pure function of what it is asked to do. */

#include "dma/job-internal.h"

struct engine *route(const struct weir_dma *dma,
		     const struct weir_engine_query *q)
{
	const char *why = NULL;
	struct engine *e;
	uint32_t i;

	for (i = 0; i < dma->n_engines; i++) {
		e = engine_at(dma, i);
		if (e->kind->ops.can(e->arg, q, &why))
			return e;
	}
	return NULL;
}
