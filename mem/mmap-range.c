/* SPDX-License-Identifier: BSD-3-Clause */
#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

/* The kinds of range that an mmap can have. */

#include <errno.h>

#include "base/why.h"
#include "mem/mmap-internal.h"

#define PAGE ((size_t)4096)

int weir_mmap_set_memrange(struct weir_mmap *mmap, void *addr, size_t len)
{
	int err = mmap_refuse_config(mmap, "weir_mmap_set_memrange");

	if (err)
		return err;
	if (!addr || !len || (uintptr_t)addr + len - 1 < (uintptr_t)addr)
		return why(-EINVAL,
			   "weir_mmap_set_memrange: no range: %zu bytes at %p",
			   len, addr);
	if (mmap->has_range)
		return why(-EPERM,
			   "weir_mmap_set_memrange: the mmap has a range");
	mmap->addr = addr;
	mmap->len = len;
	mmap->page_size = PAGE;
	mmap->cpu = true;
	mmap->range = MMAP_MEM;
	mmap->has_range = true;
	return 0;
}
