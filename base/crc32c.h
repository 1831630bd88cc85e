/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_BASE_CRC32C_H
#define WEIR_BASE_CRC32C_H

/*
 * CRC-32C (Castagnoli), alone and fused with a copy.
 *
 * The inversions before and after are inside, so that the CRC of nothing is 0
 * and a CRC is continued by passing in the last result:
 *
 *	crc32c(0, "123456789", 9) == 0xe3069283
 *	crc32c(crc32c(0, a, n), b, m) == crc32c(0, ab, n + m)
 *
 * Nothing here fails, allocates or blocks; every function may be called from
 * any thread at any time.  The first call chooses a kernel by the CPU and the
 * environment.  WEIR_CPU=baseline in the environment forces the portable one,
 * for a debugger or emulator that does not support vector instructions.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

uint32_t crc32c(uint32_t crc, const void *p, size_t len);

/*
 * Copy @len bytes and return the CRC of what was copied; @src and @dst do not
 * overlap.  Memory is read once: the second read of a byte hits the cache.
 * Nothing is read back from @dst, which may thus be memory that is slow to
 * read, such as a device's.
 *
 * If @src is changed meanwhile, the CRC may not belong to the copy.  A later
 * check then finds a mismatch; nothing crashes.
 */
uint32_t crc32c_copy(uint32_t crc, void *dst, const void *src, size_t len);

/*
 * The same by stores that go past the cache, see base/copy.h: for more than the
 * cache holds.
 */
uint32_t crc32c_copy_stream(uint32_t crc, void *dst, const void *src,
			    size_t len);

/*
 * The CRC of A followed by B, from the CRCs of the two and the length of B in
 * bytes.  The time does not depend on the data and hardly on the length.
 */
uint32_t crc32c_combine(uint32_t crc1, uint32_t crc2, uint64_t len2);

/* The name of the kernel in use, for `weir info`. */
const char *crc32c_impl(void);

/*
 * What follows is between the crc32c*.c files and their test.
 *
 * A kernel works on the bare remainder, without the inversions, because that
 * is linear: kernels may split and join it.
 */
struct crc32c_kernel {
	const char *name;
	bool (*usable)(void);
	uint32_t (*update)(uint32_t rem, const uint8_t *p, size_t len);

	/* Optional: NULL means memcpy and update, tile by tile. */
	uint32_t (*copy)(uint32_t rem, uint8_t *dst, const uint8_t *src,
			 size_t len);

	/* @n times COPY_BLOCK, bypassing the cache, to a @dst aligned to a
	 * line. Optional: NULL means update and copy_stream, block by block. */
	uint32_t (*copy_blocks)(uint32_t rem, uint8_t *dst, const uint8_t *src,
				size_t n);
};

/* Best first, NULL last; the last but one is usable everywhere. */
extern const struct crc32c_kernel *const crc32c_kernels[];

extern const struct crc32c_kernel crc32c_kernel_vpclmul;
extern const struct crc32c_kernel crc32c_kernel_pclmul;
extern const struct crc32c_kernel crc32c_kernel_sse42;
extern const struct crc32c_kernel crc32c_kernel_armv8;

/* crc32c_copy() on the bare remainder, with a kernel that the caller chose. */
uint32_t crc32c_copy_with(const struct crc32c_kernel *k, uint32_t rem,
			  void *dst, const void *src, size_t len);

/* crc32c_copy_stream(), likewise. */
uint32_t crc32c_stream_with(const struct crc32c_kernel *k, uint32_t rem,
			    void *dst, const void *src, size_t len);

/* The remainder @rem as it is after @len zero bytes more. */
uint32_t crc32c_shift(uint32_t rem, uint64_t len);

#endif /* WEIR_BASE_CRC32C_H */
