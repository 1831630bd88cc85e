/* SPDX-License-Identifier: BSD-3-Clause */

#include "base/mutation.h"

#ifdef WEIR_MUTATIONS
#include <stdlib.h>
#include <string.h>

int mutation_is_active(const char *name)
{
	const char *active = getenv("WEIR_MUTATION");

	return active && !strcmp(active, name);
}
#else
typedef int mutation_is_empty; /* ISO C requires a declaration in each file. */
#endif
