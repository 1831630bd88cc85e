/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_MEM_AVAILABLE_H
#define WEIR_MEM_AVAILABLE_H

/* How much memory is left.  A request for more is refused; otherwise the
 * kernel's OOM killer would end the process when it touches the pages. */

#include <stdint.h>

/*
 * Bytes of memory and swap that this process can still have: of the machine, or
 * of a cgroup that it is in, whichever is less; UINT64_MAX if the kernel does
 * not tell.  An estimate, for all processes together, which may be old when it
 * is returned.  *@from, if not NULL, is set to where the number is from.
 */
uint64_t memory_available(const char **from);

/* For tests: the directory of /proc and /sys; "" restores the system's. */
void memory_set_root(const char *root);

#endif /* WEIR_MEM_AVAILABLE_H */
