/* SPDX-License-Identifier: BSD-3-Clause */

#include <errno.h>
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

int mem_grow(void *items, size_t size, uint32_t n, uint32_t *max)
{
	uint32_t more = *max ? 2 * *max : 8;
	void *old, *new;

	if (n < *max)
		return 0;
	new = mem_calloc(more, size);
	if (!new)
		return -ENOMEM;
	memcpy(&old, items, sizeof(old));
	if (n)
		memcpy(new, old, n * size);
	free(old);
	memcpy(items, &new, sizeof(new));
	*max = more;
	return 0;
}
