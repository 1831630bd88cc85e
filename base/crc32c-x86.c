/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC-32C on x86-64: three kernels, each for a class of CPUs.
 *
 *   sse4.2   The crc32 instruction starts once per cycle with 8 bytes but has a
 *            latency of three cycles; so three streams run in parallel, and are
 *            joined at the end.
 *   pclmul   Folding by carry-less multiplication.  With 128 bits it is no
 *            faster than sse4.2, but uses other execution units: so a block is
 *            cut into a part to fold and three streams, all in one loop.
 *   vpclmul  Folding with 512 bits.  Rejected: streams beside it.  In the cache
 *            they gain nothing with one compiler and a fifth with another; from
 *            memory they halve the speed.  Folding alone reads memory in order,
 *            so copying is one more instruction per load, and runs as fast as
 *            memcpy.
 *
 * Folding replaces 128 bits X of a message by bits further on, with the same
 * remainder.  If they move by D bits, and the low half of the mirrored X
 * holds its high powers H and the other half the low ones L, then
 *
 *	X * x^D = H * x^(D + 64) + L * x^D
 *
 * where the powers of x are constants mod P.  A mirrored 64-bit product comes
 * out one place too low, which counts as a factor x; a mirrored 32-bit constant
 * in the low half of a 64-bit operand counts as a factor x^32.  So the factors
 * are x^(D + 31) and x^(D - 33).
 *
 * At the end of the data the registers hold a short message with the right
 * remainder.  The crc32 instruction computes that, which is simpler than a
 * reduction by more multiplications.
 */

#include "base/copy.h"
#include "base/crc32c.h"

#ifdef __x86_64__

#include <immintrin.h>
#include <string.h>

/*
 * The AVX encoding of pclmulqdq runs half as fast again as the old one on
 * Zen 4, and saves moves everywhere.  Hardly a CPU has one without the other.
 */
#define SSE42 __attribute__((target("sse4.2")))
#define PCLMUL __attribute__((target("sse4.2,avx,pclmul")))
#define ALWAYS_INLINE __attribute__((always_inline))
#define VPCLMUL \
	__attribute__((target("sse4.2,avx,pclmul,avx512f,avx512vl,vpclmulqdq")))

/* x^(D - 33) and x^(D + 31) mod P, mirrored; D is in the name. */
#define FOLD_512 0x9e4addf8, 0x740eef02
#define FOLD_2048 0xb9e02b86, 0xdcb17aa4
#define FOLD_LANE1 0x82f89c77, 0xc2a5b65e	/* A COPY_LANE, */
#define FOLD_LANE2 0x54a86326, 0xe040e0ac	/* two */
#define FOLD_LANE3 0xc1f19ee1, 0xe1e5a161	/* and three. */

/*
 * A block of the pclmul kernel gives each stream 32 bytes for each time around
 * its loop, and 64 to folding.  That is 12 instructions of the one kind against
 * 8 of the other, which CPUs start every one or two cycles.  At 64 rounds the
 * joins have become two percent.
 */
#define STEP 32
#define ROUND (64 + 3 * STEP)
#define ROUNDS_MAX 64

/* join_by[n - 1] is x^(8 STEP n - 33) mod P; the 33 as above, and x^32. */
static const uint32_t join_by[ROUNDS_MAX] = {
	0xba4fc28e, 0x9e4addf8, 0x0715ce53, 0x0d3b6092,
	0x878a92a7, 0xab7aff2a, 0x83348832, 0xb9e02b86,
	0xb6dd949b, 0xbac2fd7b, 0xce7f39f4, 0xd270f1a2,
	0x2b3cac5d, 0x1b03397f, 0xb3e32c28, 0xdd7e3b0c,
	0x10746f3c, 0x271d9844, 0x93a5f730, 0x6b749fb2,
	0xcec3662e, 0xe6fc4e6a, 0xb0cd4768, 0xd7a4825c,
	0x0167d312, 0x26f6a60a, 0x98d8d9cb, 0x68bce87a,
	0x6956fc3b, 0x3771e98f, 0x2178513a, 0x170076fa,
	0x6f345e45, 0xff0dba97, 0xf872e54c, 0x86d8e4d2,
	0x5bb8f1bc, 0xb3af077a, 0xca6ef3ac, 0xdd66cbbb,
	0xe9e28eb4, 0xc9c8b782, 0x93e106a4, 0xd813b325,
	0x2342001e, 0x6d9a4957, 0xd2c3ed1a, 0x9ef68d35,
	0xf2271e60, 0x2664fd8b, 0x02ee03b2, 0x363bd6b3,
	0x5fabe670, 0x00bcf5f6, 0x17f27698, 0xaa7c7ad5,
	0xded288f8, 0x6d390dec, 0x6353c1cc, 0xf48642e9,
	0xdd35bc8d, 0x9a5ede41, 0x45cddf4e, 0xa51b6135,
};

struct streams {
	uint64_t a, b, c;
};

static inline uint64_t load64(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

/* For messages that are too short for streams. */
SSE42 static inline uint32_t one_stream(uint32_t rem, const uint8_t *p,
					size_t len)
{
	uint64_t r = rem;
	uint32_t v;

	for (; len >= 8; len -= 8, p += 8)
		r = _mm_crc32_u64(r, load64(p));
	rem = (uint32_t)r;
	if (len & 4) {
		memcpy(&v, p, sizeof(v));
		rem = _mm_crc32_u32(rem, v);
		p += 4;
	}
	for (len &= 3; len; len--)
		rem = _mm_crc32_u8(rem, *p++);
	return rem;
}

SSE42 static inline void three_words(struct streams *s, const uint8_t *p,
				     size_t apart)
{
	s->a = _mm_crc32_u64(s->a, load64(p));
	s->b = _mm_crc32_u64(s->b, load64(p + apart));
	s->c = _mm_crc32_u64(s->c, load64(p + 2 * apart));
}

/*
 * STEP bytes of each of three streams, @apart bytes apart.  Not a loop, because
 * gcc does not unroll it at -O2, which costs the sse4.2 kernel a sixth.
 */
SSE42 static inline void three_streams(struct streams *s, const uint8_t *p,
				       size_t apart)
{
	three_words(s, p, apart);
	three_words(s, p + 8, apart);
	three_words(s, p + 16, apart);
	three_words(s, p + 24, apart);
}

/* Three streams of @n bytes, and the joins without multiply instruction. */
SSE42 static inline uint32_t sse42_block(uint32_t rem, const uint8_t *p,
					 size_t n)
{
	struct streams s = { .a = rem };

	for (size_t i = 0; i < n; i += STEP)
		three_streams(&s, p + i, n);
	return crc32c_shift((uint32_t)s.a, 2 * n) ^
	       crc32c_shift((uint32_t)s.b, n) ^ (uint32_t)s.c;
}

/*
 * The longer the streams, the less the joins count; but each size must leave
 * little to the next, down to the single stream.  n and 2 n have one digit in
 * base 16, so a join is two independent multiplications.
 */
SSE42 static uint32_t sse42_update(uint32_t rem, const uint8_t *p, size_t len)
{
	static const size_t sizes[] = { 4096, 512, 128 };

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		size_t n = sizes[i];

		for (; len >= 3 * n; len -= 3 * n, p += 3 * n)
			rem = sse42_block(rem, p, n);
	}
	return one_stream(rem, p, len);
}

static bool sse42_usable(void)
{
	return __builtin_cpu_supports("sse4.2");
}

const struct crc32c_kernel crc32c_kernel_sse42 = {
	.name = "sse4.2",
	.usable = sse42_usable,
	.update = sse42_update,
};

PCLMUL static inline uint32_t join(uint32_t rem, uint32_t by, uint64_t next)
{
	__m128i product = _mm_clmulepi64_si128(_mm_cvtsi32_si128((int)rem),
					       _mm_cvtsi32_si128((int)by), 0);
	uint64_t v = (uint64_t)_mm_cvtsi128_si64(product);

	return (uint32_t)(_mm_crc32_u64(0, v) ^ next);
}

/* @rem of what is before three streams of STEP * n bytes each. */
PCLMUL static inline uint32_t join_streams(uint32_t rem, struct streams s,
					   size_t n)
{
	uint32_t by = join_by[n - 1];

	return join(join(join(rem, by, s.a), by, s.b), by, s.c);
}

PCLMUL static inline __m128i load128(const uint8_t *p)
{
	return _mm_loadu_si128((const __m128i *)(const void *)p);
}

PCLMUL static inline __m128i fold128(__m128i x, __m128i by, __m128i next)
{
	__m128i h = _mm_clmulepi64_si128(x, by, 0x00);
	__m128i l = _mm_clmulepi64_si128(x, by, 0x11);

	return _mm_xor_si128(_mm_xor_si128(h, l), next);
}

/* From registers, so that the compiler keeps them there in the loop too. */
PCLMUL static inline uint32_t two_words(uint32_t rem, __m128i x)
{
	uint64_t r = _mm_crc32_u64(rem, (uint64_t)_mm_cvtsi128_si64(x));

	return (uint32_t)_mm_crc32_u64(r, (uint64_t)_mm_extract_epi64(x, 1));
}

static inline const uint8_t *prefetch_round(const uint8_t *p)
{
	_mm_prefetch((const char *)p, _MM_HINT_T0);
	_mm_prefetch((const char *)p + 64, _MM_HINT_T0);
	_mm_prefetch((const char *)p + 128, _MM_HINT_T0);
	return p + ROUND;
}

/*
 * 64 (n + 1) bytes to fold, then three streams of STEP * n.
 *
 * The hardware's prefetchers follow a few KiB in one direction, but not four
 * places at a time with a jump after each block: out of memory, that costs more
 * than half of the speed.  So each round prefetches its share from @ahead on.
 */
PCLMUL static inline uint32_t pclmul_block(uint32_t rem, const uint8_t *p,
					   size_t n, const uint8_t *ahead)
{
	const __m128i by = _mm_set_epi64x(FOLD_512);
	const uint8_t *q = p + 64 * (n + 1);
	struct streams s = { 0 };
	__m128i x0, x1, x2, x3;

	x0 = _mm_xor_si128(load128(p), _mm_cvtsi32_si128((int)rem));
	x1 = load128(p + 16);
	x2 = load128(p + 32);
	x3 = load128(p + 48);
	for (size_t i = 0; i < n; i++, q += STEP) {
		p += 64;
		x0 = fold128(x0, by, load128(p));
		x1 = fold128(x1, by, load128(p + 16));
		x2 = fold128(x2, by, load128(p + 32));
		x3 = fold128(x3, by, load128(p + 48));
		three_streams(&s, q, STEP * n);
		ahead = prefetch_round(ahead);
	}
	rem = two_words(two_words(two_words(two_words(0, x0), x1), x2), x3);
	return join_streams(rem, s, n);
}

PCLMUL static uint32_t pclmul_update(uint32_t rem, const uint8_t *p,
				     size_t len)
{
	while (len >= 64 + ROUND) {
		size_t n = (len - 64) / ROUND;
		size_t size;
		const uint8_t *ahead;

		if (n > ROUNDS_MAX)
			n = ROUNDS_MAX;
		size = 64 + n * ROUND;

		/* Not past the end: this block again costs little. */
		ahead = len >= 2 * size ? p + size : p;
		rem = pclmul_block(rem, p, n, ahead);
		p += size;
		len -= size;
	}
	return one_stream(rem, p, len);
}

static bool pclmul_usable(void)
{
	return sse42_usable() && __builtin_cpu_supports("avx") &&
	       __builtin_cpu_supports("pclmul");
}

const struct crc32c_kernel crc32c_kernel_pclmul = {
	.name = "pclmul",
	.usable = pclmul_usable,
	.update = pclmul_update,
};

VPCLMUL static inline __m512i fold512(__m512i x, __m512i by, __m512i next)
{
	__m512i h = _mm512_clmulepi64_epi128(x, by, 0x00);
	__m512i l = _mm512_clmulepi64_epi128(x, by, 0x11);

	/* 0x96 is the truth table of a three-way xor. */
	return _mm512_ternarylogic_epi64(h, l, next, 0x96);
}

/* The use of loaded data. */
enum pass {
	LOOK,
	COPY,
	STREAM,		/* A copy past the cache, to what is at a line. */
};

/* Load 64 bytes at @p + @at; store them at @dst + @at if @pass says so. */
VPCLMUL static inline ALWAYS_INLINE __m512i
pass512(uint8_t *dst, const uint8_t *p, size_t at, enum pass pass)
{
	__m512i v = _mm512_loadu_si512(p + at);

	if (pass == STREAM) {
		_mm_prefetch((const char *)p + at + COPY_AHEAD, _MM_HINT_T0);
		_mm512_stream_si512((__m512i *)(void *)(dst + at), v);
	} else if (pass == COPY) {
		_mm512_storeu_si512(dst + at, v);
	}
	return v;
}

/*
 * Fold @len bytes, a multiple of 64 and not 0, into the last 64 of them.  Four
 * registers hide the time that a multiplication takes.  @pass is a constant in
 * all callers, so nothing tests it in the loop.
 */
VPCLMUL static inline ALWAYS_INLINE __m512i fold_all(uint32_t rem, uint8_t *dst,
						     const uint8_t *p,
						     size_t len, enum pass pass)
{
	const __m512i far = _mm512_broadcast_i32x4(_mm_set_epi64x(FOLD_2048));
	const __m512i near = _mm512_broadcast_i32x4(_mm_set_epi64x(FOLD_512));
	__m512i x0, x1, x2, x3;
	size_t at = 64;

	x0 = _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)rem));
	x0 = _mm512_xor_si512(x0, pass512(dst, p, 0, pass));
	if (len >= 512) {
		x1 = pass512(dst, p, 64, pass);
		x2 = pass512(dst, p, 128, pass);
		x3 = pass512(dst, p, 192, pass);
		for (at = 256; len - at >= 256; at += 256) {
			x0 = fold512(x0, far, pass512(dst, p, at, pass));
			x1 = fold512(x1, far, pass512(dst, p, at + 64, pass));
			x2 = fold512(x2, far, pass512(dst, p, at + 128, pass));
			x3 = fold512(x3, far, pass512(dst, p, at + 192, pass));
		}
		x0 = fold512(x0, near, x1);
		x0 = fold512(fold512(x0, near, x2), near, x3);
	}
	for (; at < len; at += 64)
		x0 = fold512(x0, near, pass512(dst, p, at, pass));
	return x0;
}

VPCLMUL static uint32_t vpclmul_update(uint32_t rem, const uint8_t *p,
				       size_t len)
{
	size_t tail = len % 64;
	__m512i x;

	/* Folding less than this is slower than not to. */
	if (len < 128)
		return one_stream(rem, p, len);
	x = fold_all(rem, NULL, p, len - tail, LOOK);
	rem = one_stream(0, (const uint8_t *)&x, sizeof(x));
	return one_stream(rem, p + len - tail, tail);
}

VPCLMUL static uint32_t vpclmul_copy(uint32_t rem, uint8_t *dst,
				     const uint8_t *src, size_t len)
{
	size_t tail = len % 64;
	__m512i x;

	if (len < 128) {
		memcpy(dst, src, len);
		return one_stream(rem, src, len);
	}
	x = fold_all(rem, dst, src, len - tail, COPY);
	rem = one_stream(0, (const uint8_t *)&x, sizeof(x));
	memcpy(dst + len - tail, src + len - tail, tail);
	return one_stream(rem, src + len - tail, tail);
}

/*
 * A lane for each register, so that no fold waits for the one before; what is
 * in a register at the end is the message of its lane.
 */
VPCLMUL static inline ALWAYS_INLINE __m512i
stream512(uint8_t *dst, const uint8_t *src, size_t at)
{
	__m512i v = _mm512_loadu_si512(src + at);

	_mm_prefetch((const char *)src + at + COPY_BLOCK, _MM_HINT_T0);
	_mm512_stream_si512((__m512i *)(void *)(dst + at), v);
	return v;
}

/* Combine the registers at the ends of the lanes into that of the last one. */
VPCLMUL static inline ALWAYS_INLINE __m512i join_lanes(__m512i x0, __m512i x1,
						       __m512i x2, __m512i x3)
{
	const __m512i by1 = _mm512_broadcast_i32x4(_mm_set_epi64x(FOLD_LANE1));
	const __m512i by2 = _mm512_broadcast_i32x4(_mm_set_epi64x(FOLD_LANE2));
	const __m512i by3 = _mm512_broadcast_i32x4(_mm_set_epi64x(FOLD_LANE3));

	return fold512(x0, by3, fold512(x1, by2, fold512(x2, by1, x3)));
}

/* @x is what is before the block, and is at its end when it is passed back. */
VPCLMUL static inline ALWAYS_INLINE __m512i
stream_block(__m512i x, uint8_t *dst, const uint8_t *src)
{
	const __m512i near = _mm512_broadcast_i32x4(_mm_set_epi64x(FOLD_512));
	__m512i x0 = _mm512_xor_si512(x, stream512(dst, src, 0));
	__m512i x1 = stream512(dst, src, COPY_LANE);
	__m512i x2 = stream512(dst, src, 2 * COPY_LANE);
	__m512i x3 = stream512(dst, src, 3 * COPY_LANE);

	for (size_t i = COPY_LINE; i < COPY_LANE; i += COPY_LINE) {
		x0 = fold512(x0, near, stream512(dst, src, i));
		x1 = fold512(x1, near, stream512(dst, src, COPY_LANE + i));
		x2 = fold512(x2, near, stream512(dst, src, 2 * COPY_LANE + i));
		x3 = fold512(x3, near, stream512(dst, src, 3 * COPY_LANE + i));
	}
	return join_lanes(x0, x1, x2, x3);
}

VPCLMUL static uint32_t straight_on(uint32_t rem, uint8_t *dst,
				    const uint8_t *src, size_t len)
{
	__m512i x = fold_all(rem, dst, src, len, STREAM);

	_mm_sfence();
	return one_stream(0, (const uint8_t *)&x, sizeof(x));
}

VPCLMUL static uint32_t vpclmul_copy_blocks(uint32_t rem, uint8_t *dst,
					    const uint8_t *src, size_t n)
{
	const __m512i near = _mm512_broadcast_i32x4(_mm_set_epi64x(FOLD_512));
	const __m512i none = _mm512_setzero_si512();
	__m512i x = _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)rem));

	if (!copy_in_lanes())
		return straight_on(rem, dst, src, n * COPY_BLOCK);
	for (; n; n--, dst += COPY_BLOCK, src += COPY_BLOCK) {
		x = stream_block(x, dst, src);
		if (n > 1)	/* On to the first line of the next. */
			x = fold512(x, near, none);
	}
	_mm_sfence();
	return one_stream(0, (const uint8_t *)&x, sizeof(x));
}

static bool vpclmul_usable(void)
{
	return pclmul_usable() && __builtin_cpu_supports("avx512f") &&
	       __builtin_cpu_supports("avx512vl") &&
	       __builtin_cpu_supports("vpclmulqdq");
}

const struct crc32c_kernel crc32c_kernel_vpclmul = {
	.name = "vpclmul",
	.usable = vpclmul_usable,
	.update = vpclmul_update,
	.copy = vpclmul_copy,
	.copy_blocks = vpclmul_copy_blocks,
};

#endif /* __x86_64__ */
