/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_MEM_VMA_H
#define WEIR_MEM_VMA_H

/* The VMAs that the kernel has mapped in this process, without touching a
 * page. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vma {
	uintptr_t first, last;	/* Addresses of its first and last byte. */
	bool read, write;
	/* By mlock(2); valid if vma_begin() was asked for it. */
	bool locked;
};

struct vma_walk {
	int fd;
	bool query;		/* PROCMAP_QUERY works; else .text is read. */
	bool failed;
	/* Of .text: bytes that were read, and that were used. */
	size_t len, at;
	bool has_line;
	char line[160];		/* The beginning of a line. */
	char text[4096];
};

/*
 * Begin to walk over the VMAs by address.  @locked requests .locked, for which
 * the kernel walks through all resident pages of the process.
 *
 * Returns 0, or a negative errno: there is no /proc.
 */
int vma_begin(struct vma_walk *w, bool locked);

/*
 * Copy the first VMA that ends at or after @addr.  @addr must not decrease from
 * call to call.
 *
 * Returns 1, 0 if there is none, or a negative errno.
 */
int vma_next(struct vma_walk *w, uintptr_t addr, struct vma *ret);

void vma_end(struct vma_walk *w);

/*
 * Whether the process can read all of the @len bytes at @addr, and write them
 * if @write.  If the kernel does not tell, the answer is yes.  Needs one or two
 * system calls for each VMA of the range, or, before Linux 6.11, a line of text
 * for each VMA of the process.
 *
 * Returns 0, or -EFAULT with a message of @call.
 */
int vma_check(const void *addr, size_t len, bool write, const char *call);

#endif /* WEIR_MEM_VMA_H */
