/* SPDX-License-Identifier: BSD-3-Clause */

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/copy.h"
#include "base/fault.h"

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

/* Sanitizers see memcpy(), and not these stores. */
#if defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && \
	!defined(__SANITIZE_THREAD__)

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

/* The lanes are right for CPUs that old. */
static void (*block_fn(void))(char *dst, const char *src)
{
	if (!__builtin_cpu_supports("avx"))
		return sse2_lanes;
	return copy_in_lanes() ? avx_lanes : avx_straight;
}

void copy_stream(void *dst, const void *src, size_t len)
{
	void (*block)(char *, const char *) = block_fn();
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
		block(to, from);
		to += COPY_BLOCK;
		from += COPY_BLOCK;
	}
	memcpy(to, from, len);

	/* Such stores are not in order with any later one, as others see it. */
	_mm_sfence();
}

void fill_stream(void *lines, uint64_t word, size_t len)
{
	__m128i words = _mm_set1_epi64x((long long)word);
	char *p = lines;

	for (size_t i = 0; i < len; i += sizeof(words))
		_mm_stream_si128((__m128i *)(void *)(p + i), words);
	_mm_sfence();
}

#else

void copy_stream(void *dst, const void *src, size_t len)
{
	memcpy(dst, src, len);
}

void fill_stream(void *lines, uint64_t word, size_t len)
{
	char *p = lines;

	for (size_t i = 0; i < len; i += sizeof(word))
		memcpy(p + i, &word, sizeof(word));
}

#endif
