/* SPDX-License-Identifier: BSD-3-Clause */

#include <stdlib.h>
#include <string.h>

#include <weir/base.h>

#include "base/alloc.h"

void *mem_calloc(size_t n, size_t size)
{
	if (weir_fault("malloc"))
		return NULL;
	return calloc(n, size);
}

void *mem_aligned(size_t align, size_t size)
{
	void *p;

	if (weir_fault("malloc") || posix_memalign(&p, align, size))
		return NULL;
	memset(p, 0, size);
	return p;
}
