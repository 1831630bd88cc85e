/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_STREAMED_H
#define BENCH_STREAMED_H

/*
 * A copy by hand for more than the cache holds, where memcpy() is slow: stores
 * that go past the cache.
 */

#include <stddef.h>
#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>

/* Both are at a line, and @len is a multiple of one. */
static inline void streamed(void *to, const void *from, size_t len)
{
	const __m128i *p = from;
	__m128i *q = to;

	for (; len; len -= 64, p += 4, q += 4) {
		_mm_prefetch((const char *)p + 1024, _MM_HINT_T0);
		_mm_stream_si128(q, _mm_load_si128(p));
		_mm_stream_si128(q + 1, _mm_load_si128(p + 1));
		_mm_stream_si128(q + 2, _mm_load_si128(p + 2));
		_mm_stream_si128(q + 3, _mm_load_si128(p + 3));
	}
	_mm_sfence();
}
#else
static inline void streamed(void *to, const void *from, size_t len)
{
	memcpy(to, from, len);
}
#endif

#endif /* BENCH_STREAMED_H */
