/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_BASE_COPY_H
#define WEIR_BASE_COPY_H

/*
 * Copies and fills of more than the caches hold.
 *
 * An ordinary store first reads the line that it writes to.  If the destination
 * will not be read from the cache anyway, stores that bypass the cache save a
 * third of the memory traffic, and leave the contents of the cache.  On less
 * than the cache holds they are slower than memcpy(), and the next reader of
 * the destination waits for memory: hence copy_stream_min().
 *
 * Any thread.  Nothing fails, allocates or blocks.
 */

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Bytes from which on copy_stream() is the faster one on this machine.  Reads a
 * file: for when things are set up.
 */
size_t copy_stream_min(void);

/* Like memcpy(), but bypasses the cache if the CPU can. */
void copy_stream(void *dst, const void *src, size_t len);

/* Fill @lines, @len bytes of whole lines, with @word, past the cache
 * likewise.  In slices memset() is slower: it goes past the cache in large
 * calls only. */
void fill_stream(void *lines, uint64_t word, size_t len);

/*
 * What stores past the cache work in: whole lines, of which a block of four
 * pages is taken at a time.  In which order depends on the CPU, and makes up to
 * half of the speed:
 *
 *	in lanes	a line of each page in turn: Intel's
 *	straight	one line after the other, which is what the prefetchers
 *			of AMD's follow
 */
#define COPY_LANE ((size_t)4096)
#define COPY_LANES 4
#define COPY_BLOCK (COPY_LANE * COPY_LANES)
#define COPY_LINE ((size_t)64)
#define COPY_AHEAD COPY_LANE	/* Prefetch distance, in one lane. */

#ifdef __x86_64__
/* Which of the two orders copies use on this CPU. */
bool copy_in_lanes(void);
#endif

/* Tests: the other one. */
extern atomic_bool copy_other_order;

/* One way to do both: blocks of COPY_BLOCK to a line, and whole lines.  What it
 * stores may be late for others until an sfence. */
struct copy_kernel {
	const char *name;
	bool (*usable)(void);
	void (*block)(char *dst, const char *src);
	void (*fill)(char *lines, uint64_t word, size_t len);
};

/* NULL last; the last but one is usable everywhere. */
extern const struct copy_kernel *const copy_kernels[];

/* copy_stream() and fill_stream(), with a kernel that the caller chose. */
void copy_stream_with(const struct copy_kernel *k, void *dst, const void *src,
		      size_t len);
void fill_stream_with(const struct copy_kernel *k, void *lines, uint64_t word,
		      size_t len);

/* Bytes before @p is at a line. */
static inline size_t copy_to_line(const void *p)
{
	return (size_t)-(size_t)p & (COPY_LINE - 1);
}

#endif /* WEIR_BASE_COPY_H */
