/* SPDX-License-Identifier: BSD-3-Clause */

#include "base/canary.h"

#ifdef WEIR_CANARIES
#include <stdlib.h>
#include <string.h>

int canary_lives(const char *name)
{
	const char *chosen = getenv("WEIR_CANARY");

	return chosen && !strcmp(chosen, name);
}
#else
typedef int canary_is_empty; /* ISO C wants something in a file. */
#endif
