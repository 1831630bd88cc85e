/* SPDX-License-Identifier: BSD-3-Clause */

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/copy.h"
#include "base/fault.h"
#include "base/own.h"

/*
 * The C library does this too, but only from a share of the cache on that, in
 * many virtual machines, is more than any copy has.
 */
#define MIN_LEAST ((size_t)4 << 20)
#define MIN_MOST ((size_t)64 << 20)

/* sysconf() counts the caches of all the host's cores; this is what we share. */
static size_t last_cache(void)
{
	static const char path[] =
		"/sys/devices/system/cpu/cpu0/cache/index3/size";
	FILE *file = fault("fopen") ? NULL : fopen(path, "re");
	unsigned int kib = 0;

	if (!file)
		return 0;
	if (fscanf(file, "%uK", &kib) != 1)
		kib = 0;
	fclose(file);
	return (size_t)kib << 10;
}

/* Source and destination share it. */
size_t copy_stream_min(void)
{
	size_t min = last_cache() / 2;

	if (min < MIN_LEAST)
		return MIN_LEAST;
	return min > MIN_MOST ? MIN_MOST : min;
}

atomic_bool copy_other_order;

#ifdef __x86_64__
bool copy_in_lanes(void)
{
	return !__builtin_cpu_is("amd") != atomic_load(&copy_other_order);
}
#endif

static bool always_usable(void)
{
	return true;
}

#ifdef __x86_64__

#include <immintrin.h>

#define AVX __attribute__((target("avx")))

/* Copy one line, and prefetch the one @ahead of it. */
AVX static inline void avx_line(char *dst, const char *src, size_t ahead)
{
	__m256i a = _mm256_loadu_si256((const __m256i *)(const void *)src);
	__m256i b = _mm256_loadu_si256((const __m256i *)(const void *)src + 1);

	_mm_prefetch(src + ahead, _MM_HINT_T0);
	_mm256_stream_si256((__m256i *)(void *)dst, a);
	_mm256_stream_si256((__m256i *)(void *)dst + 1, b);
}

AVX static void avx_lanes(char *dst, const char *src)
{
	for (size_t at = 0; at < COPY_LANE; at += COPY_LINE)
		for (size_t lane = 0; lane < COPY_BLOCK; lane += COPY_LANE)
			avx_line(dst + lane + at, src + lane + at, COPY_BLOCK);
}

AVX static void avx_straight(char *dst, const char *src)
{
	for (size_t at = 0; at < COPY_BLOCK; at += COPY_LINE)
		avx_line(dst + at, src + at, COPY_AHEAD);
}

static inline void sse2_half(char *dst, const char *src)
{
	__m128i a = _mm_loadu_si128((const __m128i *)(const void *)src);
	__m128i b = _mm_loadu_si128((const __m128i *)(const void *)src + 1);

	_mm_stream_si128((__m128i *)(void *)dst, a);
	_mm_stream_si128((__m128i *)(void *)dst + 1, b);
}

static void sse2_lanes(char *dst, const char *src)
{
	for (size_t at = 0; at < COPY_LANE; at += COPY_LINE)
		for (size_t lane = at; lane < COPY_BLOCK; lane += COPY_LANE) {
			_mm_prefetch(src + lane + COPY_BLOCK, _MM_HINT_T0);
			sse2_half(dst + lane, src + lane);
			sse2_half(dst + lane + 32, src + lane + 32);
		}
}

static void sse2_fill(char *lines, uint64_t word, size_t len)
{
	__m128i words = _mm_set1_epi64x((long long)word);

	for (size_t i = 0; i < len; i += sizeof(words))
		_mm_stream_si128((__m128i *)(void *)(lines + i), words);
}

/* Such stores are not in order with any later one, as others see it. */
static void stores_end(void)
{
	_mm_sfence();
}

static bool avx_usable(void)
{
	return __builtin_cpu_supports("avx");
}

static const struct copy_kernel kernel_avx_lanes = {
	.name = "avx in lanes",
	.usable = avx_usable,
	.block = avx_lanes,
	.fill = sse2_fill,
};

static const struct copy_kernel kernel_avx_straight = {
	.name = "avx straight",
	.usable = avx_usable,
	.block = avx_straight,
	.fill = sse2_fill,
};

/* The lanes are right for CPUs that old. */
static const struct copy_kernel kernel_sse2 = {
	.name = "sse2",
	.usable = always_usable,
	.block = sse2_lanes,
	.fill = sse2_fill,
};

#else

static void stores_end(void)
{
}

#endif /* __x86_64__ */

static void portable_block(char *dst, const char *src)
{
	memcpy(dst, src, COPY_BLOCK);
}

static void portable_fill(char *lines, uint64_t word, size_t len)
{
	for (size_t i = 0; i < len; i += sizeof(word))
		memcpy(lines + i, &word, sizeof(word));
}

static const struct copy_kernel kernel_portable = {
	.name = "portable",
	.usable = always_usable,
	.block = portable_block,
	.fill = portable_fill,
};

const struct copy_kernel *const copy_kernels[] = {
#ifdef __x86_64__
	&kernel_avx_lanes,
	&kernel_avx_straight,
	&kernel_sse2,
#endif
	&kernel_portable,
	NULL,
};

/* Sanitizers see memcpy(), and not stores past the cache. */
static const struct copy_kernel *best_kernel(void)
{
#if defined(__x86_64__) && !defined(OWN_ASAN) && !defined(OWN_TSAN)
	if (!avx_usable())
		return &kernel_sse2;
	return copy_in_lanes() ? &kernel_avx_lanes : &kernel_avx_straight;
#else
	return &kernel_portable;
#endif
}

void copy_stream_with(const struct copy_kernel *k, void *dst, const void *src,
		      size_t len)
{
	size_t head = copy_to_line(dst);
	const char *from = src;
	char *to = dst;

	if (head > len)
		head = len;
	memcpy(to, from, head);
	to += head;
	from += head;
	len -= head;
	for (; len >= COPY_BLOCK; len -= COPY_BLOCK) {
		k->block(to, from);
		to += COPY_BLOCK;
		from += COPY_BLOCK;
	}
	memcpy(to, from, len);
	stores_end();
}

void fill_stream_with(const struct copy_kernel *k, void *lines, uint64_t word,
		      size_t len)
{
	k->fill(lines, word, len);
	stores_end();
}

void copy_stream(void *dst, const void *src, size_t len)
{
	copy_stream_with(best_kernel(), dst, src, len);
}

void fill_stream(void *lines, uint64_t word, size_t len)
{
	fill_stream_with(best_kernel(), lines, word, len);
}
