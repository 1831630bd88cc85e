/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_BASE_RELAX_H
#define WEIR_BASE_RELAX_H

/* Say to the CPU that this is a loop that waits for memory to change. */
static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("yield");
#endif
}

#endif /* WEIR_BASE_RELAX_H */
