/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC-32C: the choice of a kernel, the portable kernel, and combining.
 *
 * A message is a polynomial over GF(2) whose first bit has the highest power,
 * and its remainder is message * x^32 mod P.  As CRC-32C takes the low bit of
 * a byte first, everything is mirrored: bit 31 of a remainder is x^0 and bit 0
 * is x^31.  The step that all kernels and combining share is
 *
 *	rem(A B) = rem(A) * x^(8 |B|) + rem(B)
 *
 * All tables are constants, so there is no constructor and no order of
 * initialisation.  The test uses every entry.
 *
 * The only state is the pointer to the chosen kernel.  Threads that race to set
 * it all write the same value, and it points to constants; so relaxed atomics
 * are enough, and a call costs one predicted branch.
 */

#include <endian.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/copy.h"
#include "base/crc32c.h"

/*
 * Bytes copied before the CRC reads them again.  Source and destination of a
 * tile fit into an L1 of 32 KiB, and starting a tile costs little compared with
 * processing it.
 */
#define TILE 16384

/*
 * The same for copies past the cache.  Kernels prefetch from one block to the
 * next, and copies start again with each tile; so a tile is half of an L2, the
 * smallest of which has 256 KiB.
 */
#define LOOK_TILE ((size_t)128 << 10)

/* x to this power is 1: P is (x + 1) times a primitive of degree 31. */
#define X_ORDER 0x7fffffffu

/*
 * A table of a linear function of a byte, from its values at the single bits:
 * each line has the one above twice, without and with one more bit.
 */
#define SPAN1(v, a) (v), (v) ^ (a)
#define SPAN2(v, a, b) SPAN1(v, a), SPAN1((v) ^ (b), a)
#define SPAN3(v, a, b, c) SPAN2(v, a, b), SPAN2((v) ^ (c), a, b)
#define SPAN4(v, a, b, c, d) SPAN3(v, a, b, c), SPAN3((v) ^ (d), a, b, c)
#define SPAN5(v, a, b, c, d, e) \
	SPAN4(v, a, b, c, d), SPAN4((v) ^ (e), a, b, c, d)
#define SPAN6(v, a, b, c, d, e, f) \
	SPAN5(v, a, b, c, d, e), SPAN5((v) ^ (f), a, b, c, d, e)
#define SPAN7(v, a, b, c, d, e, f, g) \
	SPAN6(v, a, b, c, d, e, f), SPAN6((v) ^ (g), a, b, c, d, e, f)
#define SLICE(a, b, c, d, e, f, g, h) \
	{ SPAN7(0u, a, b, c, d, e, f, g), SPAN7(0u ^ (h), a, b, c, d, e, f, g) }

/*
 * slice[s][v] is the remainder of byte v with s zero bytes behind it.  The
 * constants, bit 0 first, are x^(8 s + 39 - bit) mod P.
 */
static const uint32_t slice[8][256] = {
	SLICE(0xf26b8303, 0xe13b70f7, 0xc79a971f, 0x8ad958cf,
	      0x105ec76f, 0x20bd8ede, 0x417b1dbc, 0x82f63b78),
	SLICE(0x13a29877, 0x274530ee, 0x4e8a61dc, 0x9d14c3b8,
	      0x3fc5f181, 0x7f8be302, 0xff17c604, 0xfbc3faf9),
	SLICE(0xa541927e, 0x4f6f520d, 0x9edea41a, 0x38513ec5,
	      0x70a27d8a, 0xe144fb14, 0xc76580d9, 0x8b277743),
	SLICE(0xdd45aab8, 0xbf672381, 0x7b2231f3, 0xf64463e6,
	      0xe964b13d, 0xd725148b, 0xaba65fe7, 0x52a0c93f),
	SLICE(0x38116fac, 0x7022df58, 0xe045beb0, 0xc5670b91,
	      0x8f2261d3, 0x1ba8b557, 0x37516aae, 0x6ea2d55c),
	SLICE(0xef306b19, 0xdb8ca0c3, 0xb2f53777, 0x6006181f,
	      0xc00c303e, 0x85f4168d, 0x0e045beb, 0x1c08b7d6),
	SLICE(0x68032cc8, 0xd0065990, 0xa5e0c5d1, 0x4e2dfd53,
	      0x9c5bfaa6, 0x3d5b83bd, 0x7ab7077a, 0xf56e0ef4),
	SLICE(0x493c7d27, 0x9278fa4e, 0x211d826d, 0x423b04da,
	      0x847609b4, 0x0d006599, 0x1a00cb32, 0x34019664),
};

/* shift_by[k][d] is x^(8 d 16^k) mod P: d 16^k zero bytes. */
static const uint32_t shift_by[8][16] = {
	{
		0x80000000, 0x00800000, 0x00008000, 0x00000080,
		0x82f63b78, 0xfbc3faf9, 0x8b277743, 0x52a0c93f,
		0x6ea2d55c, 0x1c08b7d6, 0xf56e0ef4, 0x34019664,
		0xa66805eb, 0x7a1f6b24, 0xe75d06aa, 0xc94ec098,
	},
	{
		0x80000000, 0x18b8ea18, 0x510ac59a, 0xb2dea967,
		0xb82be955, 0x36c41f1c, 0x19b29a35, 0xc9e90b9e,
		0xb8fdb1e7, 0xe55ef1f3, 0x1fe0b5c3, 0xe0553f1e,
		0x18e4a304, 0x2b830011, 0x56993a31, 0x0246e2e6,
	},
	{
		0x80000000, 0x88e56f72, 0x74c360a4, 0x631bb273,
		0xe4172b16, 0x71892b1b, 0x835305c9, 0x196b1eae,
		0x0d65762a, 0xafc81338, 0xb5a50ab7, 0xf373c3ac,
		0x5f60970f, 0xd46d3063, 0x3a5275ea, 0x02331c01,
	},
	{
		0x80000000, 0x35d73a62, 0x28461564, 0x43eefc9f,
		0xbf455269, 0x5edcdeb9, 0x65059450, 0x4e6f41a4,
		0xe2ea32dc, 0xf5b95b32, 0x695a4c87, 0xf204502c,
		0x9a4f01b6, 0x941a0916, 0x4303cb97, 0x4c3d3d65,
	},
	{
		0x80000000, 0xfe7740e6, 0xf946610b, 0xa0a51f5f,
		0x3c204f8f, 0x40f28a69, 0x35af26b2, 0xda70c2a6,
		0x538586e3, 0x78edc103, 0xf0f3875e, 0xefb7cf1d,
		0x683988b2, 0xe5dbb221, 0x0fc062f5, 0xd7b17b91,
	},
	{
		0x80000000, 0x59726915, 0x734d5309, 0xdb1b3315,
		0xbc1ac763, 0x11b31f9d, 0x5414bce3, 0x54f2f77b,
		0x7d0722cc, 0xbae70d08, 0x238acb2b, 0xd2074e2b,
		0x546dfa6e, 0x3f76a96c, 0xa3aa3946, 0xf054ca48,
	},
	{
		0x80000000, 0xd289cabe, 0xe94ca9bc, 0x6ac5538f,
		0x05b74f3f, 0x9e0b2298, 0x14de47cd, 0x3a9fb07d,
		0xa51e1f42, 0xfe578179, 0x038d778c, 0x5fe3cf44,
		0xb7c64e40, 0x20cbb8e3, 0x4f04f803, 0x56745358,
	},
	{
		0x80000000, 0x40000000, 0x20000000, 0x10000000,
		0x08000000, 0x04000000, 0x02000000, 0x01000000,
		0x00800000, 0x00400000, 0x00200000, 0x00100000,
		0x00080000, 0x00040000, 0x00020000, 0x00010000,
	},
};

/* The remainder of the four bytes in @v, the low one first. */
static uint32_t slice4(uint32_t v)
{
	return slice[3][v & 0xff] ^ slice[2][v >> 8 & 0xff] ^
	       slice[1][v >> 16 & 0xff] ^ slice[0][v >> 24];
}

static uint32_t slice8(uint64_t v)
{
	uint32_t lo = (uint32_t)v;

	return slice[7][lo & 0xff] ^ slice[6][lo >> 8 & 0xff] ^
	       slice[5][lo >> 16 & 0xff] ^ slice[4][lo >> 24] ^
	       slice4((uint32_t)(v >> 32));
}

static uint32_t portable_update(uint32_t rem, const uint8_t *p, size_t len)
{
	uint64_t v;

	for (; len >= sizeof(v); len -= sizeof(v), p += sizeof(v)) {
		memcpy(&v, p, sizeof(v));
		rem = slice8(le64toh(v) ^ rem);
	}
	for (; len; len--)
		rem = rem >> 8 ^ slice[0][(rem ^ *p++) & 0xff];
	return rem;
}

static bool always_usable(void)
{
	return true;
}

static const struct crc32c_kernel kernel_portable = {
	.name = "portable",
	.usable = always_usable,
	.update = portable_update,
};

/*
 * In order of preference.  On x86-64 (Zen 4, 64 KiB) each was measured against
 * ISA-L's for the same CPU: 59 to 58 GB/s with VPCLMULQDQ, 31 to 28 with
 * PCLMULQDQ, and even without.  So the core needs no ISA-L.
 */
const struct crc32c_kernel *const crc32c_kernels[] = {
#ifdef __x86_64__
	&crc32c_kernel_vpclmul,
	&crc32c_kernel_pclmul,
	&crc32c_kernel_sse42,
#endif
#ifdef __AARCH64EL__
	&crc32c_kernel_armv8,
#endif
	&kernel_portable,
	NULL,
};

static const struct crc32c_kernel *_Atomic chosen;

static const struct crc32c_kernel *best_kernel(void)
{
	const struct crc32c_kernel *const *k = crc32c_kernels;

	while (!(*k)->usable())
		k++;
	return *k;
}

static __attribute__((noinline)) const struct crc32c_kernel *choose(void)
{
	const struct crc32c_kernel *k = &kernel_portable;
	const char *cpu = getenv("WEIR_CPU");

	if (!cpu || strcmp(cpu, "baseline"))
		k = best_kernel();
	atomic_store_explicit(&chosen, k, memory_order_relaxed);
	return k;
}

static const struct crc32c_kernel *kernel(void)
{
	const struct crc32c_kernel *k;

	k = atomic_load_explicit(&chosen, memory_order_relaxed);
	return __builtin_expect(k != NULL, 1) ? k : choose();
}

/*
 * The product of two polynomials of degree 31, without carries.  There is no
 * portable instruction for it, but integer multiplication does it if there is
 * space for the carries: with every fourth bit only, at most 8 ones are added
 * in one place, and their sum fits into the four bits up to the next.  The
 * lowest bit of the sum is the result.  16 independent multiplications take
 * less time than 32 dependent shifts.
 */
static uint64_t multiply_carryless(uint32_t a, uint32_t b)
{
	const uint64_t every4 = 0x1111111111111111u;
	uint64_t a0 = a & every4, a1 = a & every4 << 1;
	uint64_t a2 = a & every4 << 2, a3 = a & every4 << 3;
	uint64_t b0 = b & every4, b1 = b & every4 << 1;
	uint64_t b2 = b & every4 << 2, b3 = b & every4 << 3;
	uint64_t p0 = (a0 * b0) ^ (a1 * b3) ^ (a2 * b2) ^ (a3 * b1);
	uint64_t p1 = (a0 * b1) ^ (a1 * b0) ^ (a2 * b3) ^ (a3 * b2);
	uint64_t p2 = (a0 * b2) ^ (a1 * b1) ^ (a2 * b0) ^ (a3 * b3);
	uint64_t p3 = (a0 * b3) ^ (a1 * b2) ^ (a2 * b1) ^ (a3 * b0);

	return (p0 & every4) | (p1 & every4 << 1) | (p2 & every4 << 2) |
	       (p3 & every4 << 3);
}

/*
 * a * b mod P.  The mirrored product has x^0 in bit 62; moved to bit 63, its
 * low half is what is to be reduced: a multiple of x^32, a message's remainder.
 */
static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint64_t product = multiply_carryless(a, b) << 1;

	return slice4((uint32_t)product) ^ (uint32_t)(product >> 32);
}

/*
 * Powers of x repeat, so that no length has more than eight digits to multiply
 * by; and kernels that shift by one digit pay for one multiplication.
 */
uint32_t crc32c_shift(uint32_t rem, uint64_t len)
{
	uint32_t left = (uint32_t)(len % X_ORDER);

	for (unsigned int k = 0; left; k++, left >>= 4) {
		if (left & 15)
			rem = multiply(rem, shift_by[k][left & 15]);
	}
	return rem;
}

uint32_t crc32c(uint32_t crc, const void *p, size_t len)
{
	return ~kernel()->update(~crc, p, len);
}

uint32_t crc32c_copy_with(const struct crc32c_kernel *k, uint32_t rem,
			  void *dst, const void *src, size_t len)
{
	const uint8_t *from = src;
	uint8_t *to = dst;

	if (k->copy)
		return k->copy(rem, to, from, len);
	while (len) {
		size_t n = len < TILE ? len : TILE;

		memcpy(to, from, n);
		rem = k->update(rem, from, n);
		to += n;
		from += n;
		len -= n;
	}
	return rem;
}

uint32_t crc32c_copy(uint32_t crc, void *dst, const void *src, size_t len)
{
	return ~crc32c_copy_with(kernel(), ~crc, dst, src, len);
}

/* Into the cache by looking, and past it by writing. */
static uint32_t look_and_copy(const struct crc32c_kernel *k, uint32_t rem,
			      uint8_t *dst, const uint8_t *src, size_t len)
{
	while (len) {
		size_t n = len < LOOK_TILE ? len : LOOK_TILE;

		rem = k->update(rem, src, n);
		copy_stream(dst, src, n);
		dst += n;
		src += n;
		len -= n;
	}
	return rem;
}

uint32_t crc32c_stream_with(const struct crc32c_kernel *k, uint32_t rem,
			    void *dst, const void *src, size_t len)
{
	size_t head = copy_to_line(dst), n, body;
	const uint8_t *from = src;
	uint8_t *to = dst;

	if (head > len)
		head = len;
	rem = crc32c_copy_with(k, rem, to, from, head);
	n = (len - head) / COPY_BLOCK;
	body = head + n * COPY_BLOCK;
	if (n && k->copy_blocks)
		rem = k->copy_blocks(rem, to + head, from + head, n);
	else if (n)
		rem = look_and_copy(k, rem, to + head, from + head,
				    n * COPY_BLOCK);
	return crc32c_copy_with(k, rem, to + body, from + body, len - body);
}

uint32_t crc32c_copy_stream(uint32_t crc, void *dst, const void *src,
			    size_t len)
{
	return ~crc32c_stream_with(kernel(), ~crc, dst, src, len);
}

/* The inversions of the two CRCs cancel out. */
uint32_t crc32c_combine(uint32_t crc1, uint32_t crc2, uint64_t len2)
{
	return crc32c_shift(crc1, len2) ^ crc2;
}

const char *crc32c_impl(void)
{
	return kernel()->name;
}
