/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <stdio.h>
#include <stdlib.h>

#include "base/check.h"

void check_failed(const char *file, int line, const char *fn, const char *what)
{
	fprintf(stderr, "weir: %s:%d: %s: check failed: %s\n", file, line, fn,
		what);
	abort();
}
