/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_MEM_VMA_H
#define WEIR_MEM_VMA_H

/*
 * What the kernel has mapped in this process, by VMA: found by asking, without
 * touching a page.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vma {
	uintptr_t first, last;	/* Addresses of its first and last byte. */
	bool read, write;
	bool locked;		/* By mlock(2); if vma_begin() was asked for it. */
};

struct vma_walk {
	int fd;
	bool query;		/* PROCMAP_QUERY works; else .text is read. */
	bool failed;
	size_t len, at;		/* Of .text: what was read and what was used. */
	bool has_line;
	char line[160];		/* The beginning of a line. */
	char text[4096];
};

/*
 * Begin to look at VMAs by address.  @locked asks for .locked, for which the
 * kernel walks through all pages that the process has in memory.
 *
 * Returns 0, or a negative errno: there is no /proc.
 */
int vma_begin(struct vma_walk *w, bool locked);

/*
 * Copy the first VMA that ends at @addr or behind it.  @addr is never less than
 * the time before.
 *
 * Returns 1, 0 if there is none, or a negative errno.
 */
int vma_next(struct vma_walk *w, uintptr_t addr, struct vma *ret);

void vma_end(struct vma_walk *w);

/*
 * Whether all of the @len bytes at @addr can be read, and written if @write.
 * What the kernel does not tell is taken for granted.  Takes a system call or
 * two for each VMA of the range, or, before Linux 6.11, a line of text for each
 * of the process's.
 *
 * Returns 0, or -EFAULT with a message of @call.
 */
int vma_check(const void *addr, size_t len, bool write, const char *call);

#endif /* WEIR_MEM_VMA_H */
