/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC-32C on 64-bit ARM, with the crc instructions that ARMv8.0 has as an
 * option and 8.1 requires.
 *
 * As on x86, the instruction starts once per cycle with 8 bytes but has a
 * latency of two or three cycles, so three streams run in parallel.  It was
 * tested under an emulator only: the results are right, the speed is unknown.
 *
 * The instruction is written as assembly because gcc and clang disagree about
 * target attributes and the availability of <arm_acle.h> in a file that is not
 * compiled for such a CPU as a whole.
 */

#include "base/crc32c.h"

#ifdef __AARCH64EL__

#include <string.h>
#include <sys/auxv.h>

struct streams {
	uint32_t a, b, c;
};

static inline uint32_t crc_word(uint32_t rem, const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	__asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1"
		: "+r"(rem)
		: "r"(v));
	return rem;
}

static inline uint32_t crc_byte(uint32_t rem, uint8_t v)
{
	__asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1"
		: "+r"(rem)
		: "r"((uint32_t)v));
	return rem;
}

static inline void three_words(struct streams *s, const uint8_t *p,
			       size_t apart)
{
	s->a = crc_word(s->a, p);
	s->b = crc_word(s->b, p + apart);
	s->c = crc_word(s->c, p + 2 * apart);
}

/* Three streams of @n bytes, a multiple of 32, behind one another. */
static uint32_t armv8_block(uint32_t rem, const uint8_t *p, size_t n)
{
	struct streams s = { .a = rem };

	for (size_t i = 0; i < n; i += 32) {
		three_words(&s, p + i, n);
		three_words(&s, p + i + 8, n);
		three_words(&s, p + i + 16, n);
		three_words(&s, p + i + 24, n);
	}
	return crc32c_shift(s.a, 2 * n) ^ crc32c_shift(s.b, n) ^ s.c;
}

/* The sizes are those of the sse4.2 kernel, for the same reasons. */
static uint32_t armv8_update(uint32_t rem, const uint8_t *p, size_t len)
{
	static const size_t sizes[] = { 4096, 512, 128 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t n = sizes[i];

		for (; len >= 3 * n; len -= 3 * n, p += 3 * n)
			rem = armv8_block(rem, p, n);
	}
	for (; len >= 8; len -= 8, p += 8)
		rem = crc_word(rem, p);
	for (; len; len--)
		rem = crc_byte(rem, *p++);
	return rem;
}

static bool armv8_usable(void)
{
	return getauxval(AT_HWCAP) & HWCAP_CRC32;
}

const struct crc32c_kernel crc32c_kernel_armv8 = {
	.name = "armv8",
	.usable = armv8_usable,
	.update = armv8_update,
};

#endif /* __AARCH64EL__ */
