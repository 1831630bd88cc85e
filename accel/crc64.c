/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC-64 NVMe, by two kernels: eight bytes at a time by tables, which are made
 * by the first call; and, on x86-64, by carry-less multiplication.
 *
 * The latter folds: it replaces 128 bits X of the message by bits further on
 * that have the same remainder.  Mirrored, as this CRC is, the low half of X
 * holds its high powers H and the other half the low ones L, and
 *
 *	X * x^D = H * x^(D + 64) + L * x^D
 *
 * where the powers of x are constants mod P.  A mirrored product comes out one
 * place too low, which counts as a factor x: so the factors are x^(D + 63) and
 * x^(D - 1).  What is left at the end, 128 bits and a tail, the tables do.
 *
 * ISA-L has this CRC from 2.31 on, which Debian 12 does not have.
 */

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <weir/accel/crc.h>

#include "accel/crc64.h"

#define POLY UINT64_C(0x9a6c9329ac4bc9b5)	/* Mirrored. */

static uint64_t table[8][256];

static void make_table(void)
{
	uint64_t crc;
	int i, k;

	for (i = 0; i < 256; i++) {
		crc = (uint64_t)i;
		for (k = 0; k < 8; k++)
			crc = crc >> 1 ^ (crc & 1 ? POLY : 0);
		table[0][i] = crc;
	}
	for (k = 1; k < 8; k++)
		for (i = 0; i < 256; i++)
			table[k][i] = table[k - 1][i] >> 8 ^
				      table[0][table[k - 1][i] & 255];
}

static uint64_t by_table(uint64_t crc, const uint8_t *at, size_t len)
{
	uint64_t word;
	int k;

	for (; len >= 8; at += 8, len -= 8) {
		for (word = 0, k = 7; k >= 0; k--)
			word = word << 8 | at[k];
		crc ^= word;
		for (word = 0, k = 0; k < 8; k++)
			word ^= table[7 - k][crc >> (8 * k) & 255];
		crc = word;
	}
	for (; len; at++, len--)
		crc = crc >> 8 ^ table[0][(crc ^ *at) & 255];
	return crc;
}

static bool always_usable(void)
{
	return true;
}

static const struct crc64_kernel kernel_table = {
	.name = "table",
	.usable = always_usable,
	.update = by_table,
};

#ifdef __x86_64__

#include <immintrin.h>

/* The AVX encoding saves moves; hardly a CPU has one without the other. */
#define PCLMUL __attribute__((target("avx,pclmul")))

/* x^(D - 1) and x^(D + 63) mod P, mirrored; D is in the name. */
#define FOLD_128 0x21e9761e252621ac, (long long)0xeadc41fd2ba3d420
#define FOLD_512 0x62242240ace5045a, 0x0c32cdb31e18a84a

/* Under this the tables are as fast. */
#define FOLD_MIN 64

PCLMUL static inline __m128i load(const uint8_t *p)
{
	return _mm_loadu_si128((const __m128i *)(const void *)p);
}

/* @x, moved by the distance of @by, and @next. */
PCLMUL static inline __m128i fold(__m128i x, __m128i by, __m128i next)
{
	return _mm_xor_si128(_mm_xor_si128(_mm_clmulepi64_si128(x, by, 0x00),
					   _mm_clmulepi64_si128(x, by, 0x11)),
			     next);
}

PCLMUL static uint64_t by_pclmul(uint64_t crc, const uint8_t *p, size_t len)
{
	const __m128i by512 = _mm_set_epi64x(FOLD_512);
	const __m128i by128 = _mm_set_epi64x(FOLD_128);
	__m128i a, b, c, d;
	uint8_t left[16];

	if (len < FOLD_MIN)
		return by_table(crc, p, len);
	a = _mm_xor_si128(load(p), _mm_set_epi64x(0, (long long)crc));
	b = load(p + 16);
	c = load(p + 32);
	d = load(p + 48);
	/* Four at a time, because a product takes several cycles. */
	for (p += 64, len -= 64; len >= 64; p += 64, len -= 64) {
		a = fold(a, by512, load(p));
		b = fold(b, by512, load(p + 16));
		c = fold(c, by512, load(p + 32));
		d = fold(d, by512, load(p + 48));
	}
	a = fold(fold(fold(a, by128, b), by128, c), by128, d);
	for (; len >= 16; p += 16, len -= 16)
		a = fold(a, by128, load(p));
	_mm_storeu_si128((__m128i *)(void *)left, a);
	return by_table(by_table(0, left, sizeof(left)), p, len);
}

static bool has_pclmul(void)
{
	return __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("avx");
}

static const struct crc64_kernel kernel_pclmul = {
	.name = "pclmul",
	.usable = has_pclmul,
	.update = by_pclmul,
};

#endif

const struct crc64_kernel *const crc64_kernels[] = {
#ifdef __x86_64__
	&kernel_pclmul,
#endif
	&kernel_table,
	NULL,
};

static const struct crc64_kernel *chosen;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void choose(void)
{
	const struct crc64_kernel *const *k = crc64_kernels;
	const char *cpu = getenv("WEIR_CPU");

	make_table();
	while (!(*k)->usable())
		k++;
	chosen = cpu && !strcmp(cpu, "baseline") ? &kernel_table : *k;
}

uint64_t weir_crc64_nvme(uint64_t crc, const void *p, size_t len)
{
	pthread_once(&once, choose);
	return ~chosen->update(~crc, p, len);
}
