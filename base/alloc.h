/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_BASE_ALLOC_H
#define WEIR_BASE_ALLOC_H

/*
 * Memory for the library's own books.  One way to get it, zeroed, with a fault
 * point; free() gives it back.  Never called on the data path.
 *
 * Each library has a copy of its own, as of check.c and opts.c (libbase.la).
 */

#include <stddef.h>
#include <stdint.h>

/* @n zeroed items of @size bytes, or NULL; an overflow is NULL too. */
void *mem_calloc(size_t n, size_t size);

/* Like mem_calloc(1, @size), but aligned to @align, a power of two. */
void *mem_aligned(size_t align, size_t size);

/* Have memory for one more than @n items of @size bytes in the array *@items, of
 * *@max: 0, or -ENOMEM, and all is as before.  @items is the address of a pointer
 * to the items. */
int mem_grow(void *items, size_t size, uint32_t n, uint32_t *max);

#endif /* WEIR_BASE_ALLOC_H */
