/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/* Files: none yet. */

#include <errno.h>

#include "reactor/sim.h"

int64_t sim_path_call(struct weir_sim *sim, struct weir_op *op)
{
	(void)sim, (void)op;
	return -ENOENT;
}

int64_t sim_copy_range(struct weir_sim *sim, struct weir_op *op)
{
	(void)sim, (void)op;
	return -EBADF;
}
