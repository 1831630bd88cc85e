/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Copies and fills past the cache: every kernel that this CPU can run, under
 * sanitizers too, where the library itself takes the portable one.
 *
 * They do not see stores past the cache.  So pages without access are before and
 * behind each buffer, and it touches one of them.
 */

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/copy.h"
#include "base/crc32c.h"

/* Three blocks, a line on both sides and less than a page. */
#define SIZE (4 * COPY_BLOCK)
#define WORD UINT64_C(0x0123456789abcdef)

struct buffer {
	uint8_t *base, *p;
	size_t page;
};

/* @b->p has SIZE bytes, and there is no access before and behind them. */
static void map_between_holes(struct buffer *b)
{
	b->page = (size_t)sysconf(_SC_PAGESIZE);
	b->base = mmap(NULL, SIZE + 2 * b->page, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(b->base, MAP_FAILED);
	b->p = b->base + b->page;
	assert_int_equal(mprotect(b->p, SIZE, PROT_READ | PROT_WRITE), 0);
}

static void unmap_between_holes(struct buffer *b)
{
	assert_int_equal(munmap(b->base, SIZE + 2 * b->page), 0);
}

/* All bytes differ from their neighbours, and so do lines and pages. */
static void set_pattern(uint8_t *p)
{
	for (size_t i = 0; i < SIZE; i++)
		p[i] = (uint8_t)(i * 7 + i / COPY_LINE * 3 + i / COPY_LANE);
}

typedef void copy_fn(const void *kernel, void *dst, const void *src,
		     size_t len);

static void copy_by(const void *kernel, void *dst, const void *src, size_t len)
{
	copy_stream_with(kernel, dst, src, len);
}

static void copy_with_crc(const void *kernel, void *dst, const void *src,
			  size_t len)
{
	const struct crc32c_kernel *k = kernel;
	uint32_t rem = crc32c_copy_with(k, 5, dst, src, len);

	assert_int_equal(rem, k->update(5, src, len));
	memset(dst, 0, len);
	assert_int_equal(crc32c_stream_with(k, 5, dst, src, len), rem);
}

/* What is around the bytes of @dst stays. */
static void check_copy(copy_fn *copy, const void *kernel, struct buffer *dst,
		       size_t to, const uint8_t *src, size_t len)
{
	size_t before = to < COPY_LINE ? to : COPY_LINE;
	size_t after = SIZE - to - len;
	size_t i;

	if (after > COPY_LINE)
		after = COPY_LINE;
	memset(dst->p + to - before, 0xa5, before + len + after);
	copy(kernel, dst->p + to, src, len);
	assert_memory_equal(dst->p + to, src, len);
	for (i = 0; i < before; i++)
		assert_int_equal(dst->p[to - before + i], 0xa5);
	for (i = 0; i < after; i++)
		assert_int_equal(dst->p[to + len + i], 0xa5);
}

static const size_t lengths[] = {
	0,
	1,
	15,
	COPY_LINE - 1,
	COPY_LINE,
	COPY_LINE + 1,
	130,
	511,
	513,
	COPY_LANE + 33,
	COPY_BLOCK - 1,
	COPY_BLOCK,
	COPY_BLOCK + COPY_LINE - 1,
	2 * COPY_BLOCK + COPY_LINE + 7,
	3 * COPY_BLOCK + 129,
};

/* Both at their first byte, both at their last, and each way crosswise. */
static void check_edges(copy_fn *copy, const void *kernel, struct buffer *dst,
			struct buffer *src)
{
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		size_t len = lengths[i], end = SIZE - len;

		check_copy(copy, kernel, dst, 0, src->p, len);
		check_copy(copy, kernel, dst, end, src->p + end, len);
		check_copy(copy, kernel, dst, 0, src->p + end, len);
		check_copy(copy, kernel, dst, end, src->p, len);
	}
}

static void check_misaligned(copy_fn *copy, const void *kernel,
			     struct buffer *dst, struct buffer *src)
{
	for (size_t to = 0; to < COPY_LINE; to++)
		for (size_t from = 0; from < COPY_LINE; from += 9) {
			size_t len = COPY_BLOCK + 3 * COPY_LINE - to;

			check_copy(copy, kernel, dst, to, src->p + from, len);
			check_copy(copy, kernel, dst, SIZE - len - to,
				   src->p + SIZE - len - from, len);
		}
}

typedef void check_fn(copy_fn *copy, const void *kernel, struct buffer *dst,
		      struct buffer *src);

static void check_kernels(check_fn *check)
{
	struct buffer dst, src;
	size_t i;

	map_between_holes(&dst);
	map_between_holes(&src);
	set_pattern(src.p);
	for (i = 0; copy_kernels[i]; i++)
		if (copy_kernels[i]->usable())
			check(copy_by, copy_kernels[i], &dst, &src);
	for (i = 0; crc32c_kernels[i]; i++) {
		if (!crc32c_kernels[i]->usable())
			continue;
		check(copy_with_crc, crc32c_kernels[i], &dst, &src);
		atomic_store(&copy_other_order, true);
		check(copy_with_crc, crc32c_kernels[i], &dst, &src);
		atomic_store(&copy_other_order, false);
	}
	unmap_between_holes(&dst);
	unmap_between_holes(&src);
}

static void every_kernel_stays_between_the_edges_of_pages(void **state)
{
	(void)state;
	check_kernels(check_edges);
}

static void every_kernel_copies_at_each_alignment(void **state)
{
	(void)state;
	check_kernels(check_misaligned);
}

static void check_fill(const struct copy_kernel *k, struct buffer *b, size_t at,
		       size_t len)
{
	uint64_t word = WORD;

	memset(b->p, 0xa5, SIZE);
	fill_stream_with(k, b->p + at, WORD, len);
	for (size_t i = 0; i < SIZE; i++)
		assert_int_equal(b->p[i],
				 i < at || i >= at + len ?
					 0xa5 :
					 ((uint8_t *)&word)[i % 8]);
}

static void every_kernel_fills_whole_lines_and_no_more(void **state)
{
	static const size_t lines[] = { 0, 1, 2, 3, 64, 65 };
	struct buffer b;

	(void)state;
	map_between_holes(&b);
	for (size_t k = 0; copy_kernels[k]; k++)
		for (size_t i = 0; i < 6 && copy_kernels[k]->usable(); i++) {
			size_t len = lines[i] * COPY_LINE;

			check_fill(copy_kernels[k], &b, 0, len);
			check_fill(copy_kernels[k], &b, COPY_LINE, len);
			check_fill(copy_kernels[k], &b, SIZE - len, len);
		}
	unmap_between_holes(&b);
}

static void library_has_a_kernel_on_this_cpu(void **state)
{
	struct buffer dst, src;

	(void)state;
	map_between_holes(&dst);
	map_between_holes(&src);
	set_pattern(src.p);
	copy_stream(dst.p, src.p, SIZE);
	assert_memory_equal(dst.p, src.p, SIZE);
	fill_stream(dst.p, 0, SIZE);
	memset(src.p, 0, SIZE);
	assert_memory_equal(dst.p, src.p, SIZE);
	unmap_between_holes(&dst);
	unmap_between_holes(&src);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_kernel_stays_between_the_edges_of_pages),
		cmocka_unit_test(every_kernel_copies_at_each_alignment),
		cmocka_unit_test(every_kernel_fills_whole_lines_and_no_more),
		cmocka_unit_test(library_has_a_kernel_on_this_cpu),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
