/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_MEM_PAGES_H
#define WEIR_MEM_PAGES_H

/* Large memory for data: whole pages, faulted in, huge ones if possible. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* @len, at most PTRDIFF_MAX, up to a multiple of @page, a power of 2. */
static inline size_t pages_round(size_t len, size_t page)
{
	return page ? (len + page - 1) & ~(page - 1) : len;
}

/*
 * Map @len bytes, a multiple of 4096, aligned to @align, a power of 2 of at
 * least 4096, and touch them.  *@huge: huge pages are wished for; then whether
 * the kernel was asked for them and agreed.
 *
 * Returns the memory, or NULL.
 */
void *pages_alloc(size_t len, size_t align, bool *huge);
void pages_free(void *p, size_t len);

/* Touch all of the @len bytes at @p, a multiple of @page, the size of their
 * pages.  Returns 0 or -errno.  Where the kernel tells how much memory is left,
 * nothing is touched for which there is none. */
int pages_populate(char *p, size_t len, size_t page);

/*
 * Map @len bytes of pages of @page bytes of @fd, shared, from @off; *@readonly:
 * they cannot be written.  Returns 0 with *@ret set, or a negative errno.
 */
int pages_map_fd(char **ret, size_t len, size_t page, int fd, uint64_t off,
		 bool *readonly);

/* Map huge pages of @page bytes, reserved, but not touched.  @len is a multiple
 * of @page.  Returns 0 with *@ret set, or a negative errno. */
int pages_map_huge(char **ret, size_t len, size_t page);

#endif /* WEIR_MEM_PAGES_H */
