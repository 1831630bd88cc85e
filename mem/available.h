/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_MEM_AVAILABLE_H
#define WEIR_MEM_AVAILABLE_H

/*
 * How much memory is left, so that a request for more is refused, and the
 * process not ended by the kernel's OOM killer when the pages are touched.
 */

#include <stdint.h>

/*
 * Bytes of memory and swap that this process can still have: of the machine, or
 * of a cgroup that it is in, whichever is less; UINT64_MAX if the kernel does
 * not tell.  An estimate, for all processes together, which may be old when it
 * is returned.  *@from, if not NULL, is set to where the number is from.
 */
uint64_t memory_available(const char **from);

/* For tests: where /proc and /sys are; "" in the end. */
void memory_set_root(const char *root);

#endif /* WEIR_MEM_AVAILABLE_H */
