/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of the CRC-64 NVMe: published values, and a plain model, with no
 * memory in front of the bytes or behind them. */

#include "tests/support/harness.h"

#include <sys/mman.h>

#include <weir/accel/crc.h>

#include "accel/crc64.h"

#define MAX 1100

static uint64_t model(uint64_t rem, const uint8_t *p, size_t n)
{
	int k;

	for (; n; n--, p++) {
		rem ^= *p;
		for (k = 0; k < 8; k++)
			rem = rem >> 1 ^
			      (rem & 1 ? UINT64_C(0x9a6c9329ac4bc9b5) : 0);
	}
	return rem;
}

typedef void check_fn(const struct crc64_kernel *k);

static void each_kernel(check_fn *check)
{
	size_t i, n = 0;

	weir_crc64_nvme(0, "", 0);
	for (i = 0; crc64_kernels[i]; i++) {
		if (!crc64_kernels[i]->usable())
			continue;
		check(crc64_kernels[i]);
		n++;
	}
	assert_true(n > 0);
}

/* NVM command set, 5.2.1.3.4; and the catalogue of CRCs. */
static void check_published(const struct crc64_kernel *k)
{
	static const uint64_t want[] = {
		0x6482d367eb22b64e, 0xc0ddba7302eca3ac, 0x3e729f5f6750449c,
		0x9a2df64b8e9e517e,
	};
	uint8_t block[4096];
	size_t i, n;

	for (n = 0; n < N_OF(want); n++) {
		for (i = 0; i < 4096; i++)
			block[i] = (uint8_t)(n == 0 ? 0 : n == 1 ? 255 :
					     n == 2 ? i : 255 - i);
		assert_true(~k->update(~UINT64_C(0), block, 4096) == want[n]);
	}
	assert_true(~k->update(~UINT64_C(0), (const uint8_t *)"123456789", 9) ==
		    UINT64_C(0xae8b14860a799888));
}

static void kernels_have_the_published_values(void **state)
{
	(void)state;
	each_kernel(check_published);
}

/* Each length, at the end of memory and at its beginning. */
static void check_edges(const struct crc64_kernel *k)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), len, i;
	uint8_t *all = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint8_t *begin = all + page, *end = all + 3 * page;
	uint64_t rem = 4711, want;

	assert_ptr_not_equal(all, MAP_FAILED);
	for (i = 0; i < 2 * page; i++)
		begin[i] = (uint8_t)(i * 167 ^ i >> 7);
	assert_int_equal(mprotect(all, page, PROT_NONE), 0);
	assert_int_equal(mprotect(end, page, PROT_NONE), 0);
	for (len = 0; len <= MAX; len++) {
		want = model(rem, begin, len);
		assert_true(k->update(rem, begin, len) == want);
		rem = model(rem, end - len, len);
		assert_true(k->update(want, end - len, len) ==
			    model(want, end - len, len));
	}
	munmap(all, 4 * page);
}

static void kernels_stay_inside_the_bytes(void **state)
{
	(void)state;
	each_kernel(check_edges);
}

/* Each alignment, with each tail, in a piece and in two. */
static void check_alignments(const struct crc64_kernel *k)
{
	uint8_t block[64 + 400];
	size_t at, len;
	uint64_t want, part;

	for (at = 0; at < sizeof(block); at++)
		block[at] = (uint8_t)(at * 73 + 5);
	for (at = 0; at < 64; at++)
		for (len = 0; len <= 400; len++) {
			want = model(at, block + at, len);
			assert_true(k->update(at, block + at, len) == want);
			part = k->update(at, block + at, len / 3);
			assert_true(k->update(part, block + at + len / 3,
					      len - len / 3) == want);
		}
}

static void kernels_take_each_alignment_and_tail(void **state)
{
	(void)state;
	each_kernel(check_alignments);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kernels_have_the_published_values),
		cmocka_unit_test(kernels_stay_inside_the_bytes),
		cmocka_unit_test(kernels_take_each_alignment_and_tail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
