/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_ENGINE_OF_H
#define TESTS_ENGINE_OF_H

/* The first engine of a context that says that it can do something. */

#include "dma/job-internal.h"

static inline const struct engine *engine_of(const struct weir_dma *dma,
					     uint32_t kind,
					     const struct weir_domain *src,
					     const struct weir_domain *dst)
{
	struct weir_engine_query q = {
		.size = sizeof(q), .kind = kind, .src = src, .dst = dst,
		.bytes = 64, .n_src = src ? 1 : 0, .n_dst = dst ? 1 : 0,
	};
	const struct engine *e;
	const char *why;
	uint32_t i;

	for (i = 0; i < dma->n_engines; i++) {
		e = engine_at(dma, i);
		if (e->kind->ops.can(e->arg, &q, &why))
			return e;
	}
	return NULL;
}

#endif /* TESTS_ENGINE_OF_H */
