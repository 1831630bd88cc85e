/* SPDX-License-Identifier: BSD-3-Clause */

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"

void check_failed(const char *file, int line, const char *fn, const char *what)
{
	fprintf(stderr, "weir: %s:%d: %s: check failed: %s\n", file, line, fn,
		what);
	abort();
}
