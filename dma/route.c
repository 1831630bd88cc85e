/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/* Which engine does a job: the first that can. */

#include "dma/job-internal.h"

const struct engine *const engines[] = {
	&engine_cpu,
	&engine_file,
	&engine_process,
	&engine_domain,
	NULL,
};

const struct engine *route(uint32_t kind, const struct weir_domain *src,
			   const struct weir_domain *dst)
{
	unsigned int i;

	for (i = 0; engines[i]; i++)
		if (engines[i]->can(kind, src, dst))
			return engines[i];
	return NULL;
}
