/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_MEM_PAGES_H
#define WEIR_MEM_PAGES_H

/* Large memory for data: whole pages, faulted in, in huge pages if possible. */

#include <stdbool.h>
#include <stddef.h>

/*
 * Map @len bytes, a multiple of 4096, aligned to @align, a power of 2 of at
 * least 4096, and touch them.  *@huge: huge pages are wished for; then whether
 * the kernel was asked for them and agreed.
 *
 * Returns the memory, or NULL.
 */
void *pages_alloc(size_t len, size_t align, bool *huge);
void pages_free(void *p, size_t len);

#endif /* WEIR_MEM_PAGES_H */
