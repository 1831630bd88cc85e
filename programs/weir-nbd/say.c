/* SPDX-License-Identifier: CC0-1.0 */
/* What went wrong, on standard error. */
#define _GNU_SOURCE 1
#include <stdio.h>
#include <string.h>

#include "weir-nbd.h"

void say(const char *what, int err)
{
	fprintf(stderr, "weir-nbd: %s: %s\n", what, strerror(-err));
}
