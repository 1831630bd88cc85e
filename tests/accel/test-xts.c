/* SPDX-License-Identifier: BSD-3-Clause */
/* AES-XTS: the vectors of IEEE 1619-2007, annex B, and of NIST's XTSVS, and what
 * is refused. */

#include "tests/accel/accel-fixture.h"

#include <weir/accel/xts.h>

static size_t unhex(uint8_t *out, const char *hex)
{
	unsigned int byte;
	size_t n = 0;

	for (; *hex; hex += 2, n++) {
		assert_int_equal(sscanf(hex, "%2x", &byte), 1);
		out[n] = (uint8_t)byte;
	}
	return n;
}

static const struct vector {
	const char *key;
	uint64_t number;
	uint32_t sector;
	int plain;	/* Each byte; -1: 0, 1, ... */
	const char *cipher;	/* As far as it is given here. */
	const char *text;	/* Instead of .plain. */
} vectors[] = {
	/* 2 */
	{ "1111111111111111111111111111111122222222222222222222222222222222",
	  UINT64_C(0x3333333333), 32, 0x44,
	  "c454185e6a16936e39334038acef838bfb186fff7480adc4289382ecd6d394f0",
	  NULL },
	/* 3 */
	{ "fffefdfcfbfaf9f8f7f6f5f4f3f2f1f022222222222222222222222222222222",
	  UINT64_C(0x3333333333), 32, 0x44,
	  "af85336b597afc1a900b2eb21ec949d292df4c047e0b21532186a5971a227a89",
	  NULL },
	/* 4 */
	{ "2718281828459045235360287471352631415926535897932384626433832795",
	  0, 512, -1,
	  "27a7479befa1d476489f308cd4cfa6e2a96e4bbe3208ff25287dd3819616e89c"
	  "c78cf7f5e543445f8333d8fa7f56000005279fa5d8b5e4ad40e736ddb4d35412"
	  "328063fd2aab53e5ea1e0a9f332500a5df9487d07a5c92cc512c8866c7e860ce",
	  NULL },
	/* 10 */
	{ "2718281828459045235360287471352662497757247093699959574966967627"
	  "3141592653589793238462643383279502884197169399375105820974944592",
	  0xff, 512, -1,
	  "1c3b3a102f770386e4836c99e370cf9bea00803f5e482357a4ae12d414a3e63b",
	  NULL },
	/* 15 to 18: ciphertext stealing */
	{ "fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0bfbebdbcbbbab9b8b7b6b5b4b3b2b1b0",
	  UINT64_C(0x123456789a), 17, -1,
	  "6c1625db4671522d3d7599601de7ca09ed",
	  NULL },
	{ "fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0bfbebdbcbbbab9b8b7b6b5b4b3b2b1b0",
	  UINT64_C(0x123456789a), 18, -1,
	  "d069444b7a7e0cab09e24447d24deb1fedbf",
	  NULL },
	{ "fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0bfbebdbcbbbab9b8b7b6b5b4b3b2b1b0",
	  UINT64_C(0x123456789a), 19, -1,
	  "e5df1351c0544ba1350b3363cd8ef4beedbf9d",
	  NULL },
	{ "fffefdfcfbfaf9f8f7f6f5f4f3f2f1f0bfbebdbcbbbab9b8b7b6b5b4b3b2b1b0",
	  UINT64_C(0x123456789a), 20, -1,
	  "9d84c813f719aa2c7be3f66171c7c5c2edbf9dac",
	  NULL },
	/* NIST's XTSVS, AES-128 with data unit sequence numbers: COUNT 196 */
	{ "d4b06bbbb1b088a0699e3cc9f05c859317980660c54002d0308adb5d012eb4d9",
	  75, 32, 0,
	  "ad6f759f80d4e4af0bc583358cbca1873065227ab1b307f3e9a774f3ce5c6b63",
	  "af6e3c9bea494cfc633f631b73119f00cab9a98ddc2197ee69d61d38df25619c" },
	/* COUNT 301 and 358: units of 200 bits */
	{ "fb46fb3cab7f67ad5207bc232c50dcbb24dbd1564590855d4cb777b3ba6431c3",
	  117, 25, 0, "a19d9b3209d388740a581975091fe26deecbb0f117c22b0ae4",
	  "46409f7426eb4e3d33480534b80fe6e09fed6583907eb83c84" },
	{ "dd9f8a86307bd905f90c676c46f13c42843587b54df3d74d4f3d07382e1bbdd3",
	  244, 25, 0, "35485a0f1a7e0f95dedb63041637bcbaad2662111265923442",
	  "e3526fca52a747dc7487b6a6c399e8b8b4cb29e941ec37f3ea" },
};

static struct weir_xts *make(const void *key, uint32_t len, uint32_t sector,
			     bool count_512)
{
	struct weir_xts_opts opts = { .size = sizeof(opts), .key = key,
				      .key_len = len, .sector = sector,
				      .count_512 = count_512 };
	struct weir_xts *xts = NULL;

	if (weir_xts_create(&xts, &opts) == -EOPNOTSUPP)
		skip_because("weir was built without OpenSSL");
	assert_non_null(xts);
	return xts;
}

static void published_vectors_are_met(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_dma *dma = start_dma(r, (struct weir_dma_opts){ 0 });
	uint8_t key[64], plain[512], cipher[512], want[512], back[512];
	size_t i, k, n, len;
	struct jrec j;

	for (i = 0; i < N_OF(vectors); i++) {
		const struct vector *v = &vectors[i];
		struct weir_xts_args args = { .sector = v->number };

		len = unhex(key, v->key);
		n = unhex(want, v->cipher);
		for (k = 0; k < v->sector; k++)
			plain[k] = (uint8_t)(v->plain < 0 ? (int)k : v->plain);
		if (v->text)
			assert_int_equal(unhex(plain, v->text), v->sector);
		args.xts = make(key, (uint32_t)len, v->sector, false);
		assert_int_equal(run_mem(dma, &j, WEIR_ACCEL_ENCRYPT, cipher,
					 v->sector, plain, v->sector, &args),
				 v->sector);
		assert_memory_equal(cipher, want, n);
		assert_int_equal(run_mem(dma, &j, WEIR_ACCEL_DECRYPT, back,
					 v->sector, cipher, v->sector, &args),
				 v->sector);
		assert_memory_equal(back, plain, v->sector);
		assert_int_equal(weir_xts_destroy(args.xts), 0);
	}
	assert_int_equal(weir_dma_destroy(dma), 0);
}

static uint8_t key[64];

static void make_key(void)
{
	for (int i = 0; i < 64; i++)
		key[i] = (uint8_t)(i * 7 + 1);
}

/* Large, so that workers do it; in pieces that divide sectors; in place. */
static void sectors_are_numbered_however_they_lie(void **state)
{
	enum { LEN = 1 << 20 };
	struct weir_reactor *r = start_reactor(state);
	struct weir_dma *dma = start_dma(r, (struct weir_dma_opts){ 0 });
	uint8_t *plain = malloc(LEN), *a = malloc(LEN), *b = malloc(LEN);
	struct weir_xts_args args, one;
	struct iovec iov[3] = { { b, 1000 }, { b + 1000, 5000 },
				{ b + 6000, LEN - 6000 } };
	struct jrec j;
	size_t i;

	make_key();
	fill_pattern((char *)plain, LEN, 0, 4);
	one.xts = args.xts = make(key, 64, 4096, false);
	args.sector = UINT64_C(0xfffffffff0);
	assert_int_equal(run_mem(dma, &j, WEIR_ACCEL_ENCRYPT, a, LEN, plain,
				 LEN, &args), LEN);
	assert_int_equal(run_kind(dma, &j, WEIR_ACCEL_ENCRYPT,
				  weir_operand_iov(NULL, iov, 3),
				  weir_operand_mem(plain, LEN), &args), LEN);
	assert_memory_equal(a, b, LEN);
	for (i = 0; i < LEN / 4096; i++) {
		one.sector = args.sector + i;
		memcpy(b, plain + i * 4096, 4096);
		assert_int_equal(run_mem(dma, &j, WEIR_ACCEL_ENCRYPT, b, 4096,
					 b, 4096, &one), 4096);
		assert_memory_equal(a + i * 4096, b, 4096);
	}
	assert_int_equal(run_mem(dma, &j, WEIR_ACCEL_DECRYPT, a, LEN, a, LEN,
				 &args), LEN);
	assert_memory_equal(a, plain, LEN);
	assert_int_equal(weir_xts_destroy(args.xts), 0);
	/* dm-crypt counts 512 bytes: the second sector of 4096 is number 8. */
	args.xts = make(key, 64, 4096, true);
	one.xts = make(key, 64, 4096, false);
	args.sector = 0;
	one.sector = 8;
	assert_int_equal(run_mem(dma, &j, WEIR_ACCEL_ENCRYPT, a, 8192, plain,
				 8192, &args), 8192);
	assert_int_equal(run_mem(dma, &j, WEIR_ACCEL_ENCRYPT, b, 4096,
				 plain + 4096, 4096, &one), 4096);
	assert_memory_equal(a + 4096, b, 4096);
	assert_int_equal(weir_xts_destroy(args.xts), 0);
	assert_int_equal(weir_xts_destroy(one.xts), 0);
	free(plain);
	free(a);
	free(b);
	assert_int_equal(weir_dma_destroy(dma), 0);
}

/* Several in a job, in pieces that divide them, and each alone, in place. */
static void sectors_may_have_any_size(void **state)
{
	static const uint32_t sizes[] = { 16, 17, 31, 33, 520, 4104, 8191,
					  8192 };
	enum { N = 40, LEN = N * 8192 };
	struct weir_reactor *r = start_reactor(state);
	struct weir_dma *dma = start_dma(r, (struct weir_dma_opts){ 0 });
	uint8_t *plain = malloc(LEN), *a = malloc(LEN), *b = malloc(8192);
	struct weir_xts_args args, one;
	struct jrec j;
	size_t i, k, len;

	make_key();
	fill_pattern((char *)plain, LEN, 0, 4);
	for (i = 0; i < N_OF(sizes); i++) {
		len = (size_t)N * sizes[i];
		struct iovec iov[3] = { { plain, 7 }, { plain + 7, len / 2 },
					{ plain + 7 + len / 2,
					  len - 7 - len / 2 } };

		one.xts = args.xts = make(key, 64, sizes[i], false);
		args.sector = 77;
		assert_int_equal(run_kind(dma, &j, WEIR_ACCEL_ENCRYPT,
					  weir_operand_mem(a, len),
					  weir_operand_iov(NULL, iov, 3),
					  &args), len);
		for (k = 0; k < N; k++) {
			one.sector = 77 + k;
			memcpy(b, plain + k * sizes[i], sizes[i]);
			assert_int_equal(run_mem(dma, &j, WEIR_ACCEL_ENCRYPT, b,
						 sizes[i], b, sizes[i], &one),
					 sizes[i]);
			assert_memory_equal(a + k * sizes[i], b, sizes[i]);
		}
		assert_int_equal(run_mem(dma, &j, WEIR_ACCEL_DECRYPT, a, len, a,
					 len, &args), len);
		assert_memory_equal(a, plain, len);
		assert_int_equal(weir_xts_destroy(args.xts), 0);
	}
	free(plain);
	free(a);
	free(b);
	assert_int_equal(weir_dma_destroy(dma), 0);
}

/* Many jobs of one key, on several workers. */
static void jobs_share_a_key(void **state)
{
	enum { LEN = 300 << 10, N = 24 };
	struct weir_reactor *r = start_reactor(state);
	struct weir_dma *dma = start_dma(r, (struct weir_dma_opts){ 0 });
	uint8_t *plain = malloc(LEN), *out = malloc((size_t)N * LEN);
	struct jrec *j = calloc(N, sizeof(*j));
	struct weir_xts_args args = { .sector = 5 };
	size_t i;

	make_key();
	fill_pattern((char *)plain, LEN, 0, 4);
	args.xts = make(key, 32, 512, false);
	for (i = 0; i < N; i++) {
		jrec_init(&j[i]);
		weir_job_registered(&j[i].job,
				    weir_accel_kind(WEIR_ACCEL_ENCRYPT),
				    weir_operand_mem(out + i * LEN, LEN),
				    weir_operand_mem(plain, LEN), &args);
		STARTS(weir_job_start(dma, &j[i].job));
	}
	assert_int_equal(weir_xts_destroy(args.xts), -EBUSY);
	for (i = 0; i < N; i++) {
		UNTIL(r, j[i].calls);
		assert_int_equal(j[i].res, LEN);
		assert_memory_equal(out + i * LEN, out, LEN);
	}
	assert_int_equal(weir_xts_destroy(args.xts), 0);
	free(plain);
	free(out);
	free(j);
	assert_int_equal(weir_dma_destroy(dma), 0);
}

static void bad_keys_and_lengths_are_refused(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_dma *dma = start_dma(r, (struct weir_dma_opts){ 0 });
	static uint8_t a[2048], b[2048];
	struct weir_xts_opts o = { .size = sizeof(o), .key = key,
				   .key_len = 64 };
	struct weir_xts_args args = { 0 };
	struct weir_xts *xts = NULL;
	uint32_t len;

	make_key();
	args.xts = make(key, 64, 0, false);
	assert_int_equal(refused(dma, WEIR_ACCEL_ENCRYPT, b, 2048, a, 1000,
				 &args), -EINVAL);
	assert_int_equal(refused(dma, WEIR_ACCEL_ENCRYPT, b, 1023, a, 1024,
				 &args), -EMSGSIZE);
	assert_int_equal(refused(dma, WEIR_ACCEL_DECRYPT, b, 1024, a, 1024,
				 NULL), -EINVAL);
	assert_int_equal(weir_xts_destroy(args.xts), 0);
	args.xts = NULL;
	assert_int_equal(refused(dma, WEIR_ACCEL_DECRYPT, b, 1024, a, 1024,
				 &args), -EINVAL);
	for (len = 0; len < 70; len++) {
		o.key_len = len;
		if (len != 32 && len != 64)
			assert_int_equal(weir_xts_create(&xts, &o), -EINVAL);
	}
	o.key_len = 64;
	o.sector = 8;
	assert_int_equal(weir_xts_create(&xts, &o), -EINVAL);
	o.sector = 15;
	assert_int_equal(weir_xts_create(&xts, &o), -EINVAL);
	o.sector = 8193;
	assert_int_equal(weir_xts_create(&xts, &o), -EINVAL);
	o.sector = 256;
	o.count_512 = true;
	assert_int_equal(weir_xts_create(&xts, &o), -EINVAL);
	o.sector = 520;
	assert_int_equal(weir_xts_create(&xts, &o), -EINVAL);
	o.count_512 = false;
	memcpy(key + 32, key, 32);
	assert_int_equal(weir_xts_create(&xts, &o), -EINVAL);
	o.key = NULL;
	assert_int_equal(weir_xts_create(&xts, &o), -EINVAL);
	assert_int_equal(weir_xts_create(&xts, NULL), -EINVAL);
	assert_int_equal(weir_xts_create(&xts, (void *)&(struct {
		struct weir_xts_opts o;
		uint64_t later;
	}){ { .size = sizeof(o) + 8 }, 1 }), -E2BIG);
	assert_null(xts);
	assert_int_equal(weir_xts_destroy(NULL), 0);
	assert_int_equal(weir_dma_destroy(dma), 0);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(published_vectors_are_met),
		CASE(sectors_are_numbered_however_they_lie),
		CASE(sectors_may_have_any_size),
		CASE(jobs_share_a_key),
		CASE(bad_keys_and_lengths_are_refused),
	};

	return harness_run_all(cases, N_OF(cases));
}
