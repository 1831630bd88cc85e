/* SPDX-License-Identifier: BSD-3-Clause */
/* CRCs and protection information: published values, and a plain model. */

#include "tests/accel/accel-fixture.h"

#include <weir/accel/crc.h>
#include <weir/accel/dif.h>

#define BLOCKS 37

static uint16_t crc16_bitwise(uint16_t crc, const uint8_t *p, size_t n)
{
	int k;

	for (; n; n--, p++) {
		crc ^= (uint16_t)(*p << 8);
		for (k = 0; k < 8; k++)
			crc = (uint16_t)(crc << 1 ^ (crc & 0x8000 ? 0x8bb7 :
								    0));
	}
	return crc;
}

static uint64_t crc64_bitwise(uint64_t crc, const uint8_t *p, size_t n)
{
	int k;

	for (crc = ~crc; n; n--, p++) {
		crc ^= *p;
		for (k = 0; k < 8; k++)
			crc = crc >> 1 ^ (crc & 1 ? UINT64_C(0x9a6c9329ac4bc9b5)
						  : 0);
	}
	return ~crc;
}

/* The check values of the catalogue of CRCs; NVM command set, 5.2.1.3.4. */
static void crcs_have_their_published_values(void **state)
{
	uint8_t block[4096] = { 0 };
	size_t i, n;

	(void)state;
	assert_int_equal(weir_crc16_t10dif(0, "123456789", 9), 0xd0db);
	assert_true(weir_crc64_nvme(0, "123456789", 9) ==
		    UINT64_C(0xae8b14860a799888));
	assert_true(weir_crc64_nvme(0, block, 4096) ==
		    UINT64_C(0x6482d367eb22b64e));
	memset(block, 0xff, 4096);
	assert_true(weir_crc64_nvme(0, block, 4096) ==
		    UINT64_C(0xc0ddba7302eca3ac));
	fill_pattern((char *)block, 4096, 0, 1);
	for (i = 0; i < 16; i++)
		for (n = 0; n < 300; n++) {
			assert_int_equal(weir_crc16_t10dif(7, block + i, n),
					 crc16_bitwise(7, block + i, n));
			assert_true(weir_crc64_nvme(7, block + i, n) ==
				    crc64_bitwise(7, block + i, n));
		}
}

static void crc_jobs_continue_a_crc(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_dma *dma = start_dma(r, (struct weir_dma_opts){ 0 });
	const size_t len = 3 << 20;
	uint8_t *mem = malloc(len);
	struct iovec iov[3] = { { mem, 5 }, { mem + 5, 1000 },
				{ mem + 1005, len - 1005 } };
	uint64_t first;
	struct jrec j;

	fill_pattern((char *)mem, len, 0, 2);
	assert_int_equal(run_mem(dma, &j, WEIR_ACCEL_CRC16, NULL, 0, mem, 77,
				 NULL), 77);
	first = weir_job_result(&j.job)[0];
	assert_int_equal(first, crc16_bitwise(0, mem, 77));
	assert_int_equal(run_mem(dma, &j, WEIR_ACCEL_CRC16, NULL, 0, mem + 77,
				 len - 77, &first), len - 77);
	assert_int_equal(weir_job_result(&j.job)[0],
			 crc16_bitwise(0, mem, len));
	first = 0;
	assert_int_equal(run_kind(dma, &j, WEIR_ACCEL_CRC64,
				  weir_operand_mem(NULL, 0),
				  weir_operand_iov(NULL, iov, 3), &first), len);
	assert_true(weir_job_result(&j.job)[0] == crc64_bitwise(0, mem, len));
	assert_int_equal(weir_dma_destroy(dma), 0);
	free(mem);
}

struct format {
	struct weir_dif dif;
	uint8_t *plain, *ext, *back;
	size_t n, n_ext;
};

static uint64_t be(const uint8_t *p, int n)
{
	uint64_t v = 0;

	while (n--)
		v = v << 8 | *p++;
	return v;
}

/* As the formats are in the standards, block by block. */
static void check_blocks(const struct format *f)
{
	const struct weir_dif *d = &f->dif;
	uint32_t len = d->format ? 16 : 8, i;
	uint32_t at = d->first ? 0 : d->metadata - len;
	uint64_t mask = d->format ? (UINT64_C(1) << 48) - 1 : UINT32_MAX;

	for (i = 0; i < BLOCKS; i++) {
		const uint8_t *b = f->ext + i * (d->data + d->metadata);
		const uint8_t *pi = b + d->data + at;
		uint64_t ref = (d->ref + (d->type == 3 ? 0 : i)) & mask;

		assert_memory_equal(b, f->plain + i * d->data, d->data);
		if (d->format) {
			assert_true(be(pi, 8) ==
				    crc64_bitwise(0, b, d->data + at));
			assert_int_equal(be(pi + 8, 2), d->app);
			assert_true(be(pi + 10, 6) == ref);
		} else {
			assert_int_equal(be(pi, 2),
					 crc16_bitwise(d->guard, b,
						       d->data + at));
			assert_int_equal(be(pi + 2, 2), d->app);
			assert_int_equal(be(pi + 4, 4), ref);
		}
	}
}

static void expect_error(struct jrec *j, uint32_t what, uint64_t block)
{
	assert_int_equal(weir_job_result(&j->job)[0], what);
	assert_int_equal(weir_job_result(&j->job)[3], block);
	assert_true(weir_job_result(&j->job)[1] !=
		    weir_job_result(&j->job)[2]);
}

/* The metadata are in .back, where they were generated. */
static void try_apart(struct weir_dma *dma, struct format *f)
{
	struct weir_dif apart = f->dif;
	size_t len = BLOCKS * apart.metadata;
	size_t at = 7 * apart.metadata +
		    (apart.first ? 0 : apart.metadata - (apart.format ? 16 : 8));
	struct iovec iov[2] = { { f->plain, 1001 },
				{ f->plain + 1001, f->n - 1001 } };
	struct jrec j;

	apart.separate = f->back;
	apart.separate_len = len;
	assert_int_equal(run_mem(dma, &j, WEIR_ACCEL_DIX_VERIFY, NULL, 0,
				 f->plain, f->n, &apart), f->n);
	/* In pieces that divide blocks. */
	assert_int_equal(run_kind(dma, &j, WEIR_ACCEL_DIX_VERIFY,
				  weir_operand_mem(NULL, 0),
				  weir_operand_iov(NULL, iov, 2), &apart),
			 f->n);
	f->plain[20 * apart.data + 3] ^= 1;
	assert_int_equal(run_mem(dma, &j, WEIR_ACCEL_DIX_VERIFY, NULL, 0,
				 f->plain, f->n, &apart), -EILSEQ);
	expect_error(&j, WEIR_DIF_GUARD, 20);
	f->plain[20 * apart.data + 3] ^= 1;
	f->back[at + (apart.format ? 15 : 7)] ^= 1;
	assert_int_equal(run_mem(dma, &j, WEIR_ACCEL_DIX_VERIFY, NULL, 0,
				 f->plain, f->n, &apart), -EILSEQ);
	expect_error(&j, WEIR_DIF_REF, 7);
	f->back[at + (apart.format ? 15 : 7)] ^= 1;
	apart.separate_len = len - 1;
	assert_int_equal(refused(dma, WEIR_ACCEL_DIX_VERIFY, NULL, 0, f->plain,
				 f->n, &apart), -EMSGSIZE);
	apart.separate_len = len;
	apart.separate = NULL;
	assert_int_equal(refused(dma, WEIR_ACCEL_DIX_VERIFY, NULL, 0, f->plain,
				 f->n, &apart), -EINVAL);
	apart.separate = f->back;
	apart.size = offsetof(struct weir_dif, separate);
	assert_int_equal(refused(dma, WEIR_ACCEL_DIX_VERIFY, NULL, 0, f->plain,
				 f->n, &apart), -EINVAL);
	assert_int_equal(run_mem(dma, &j, WEIR_ACCEL_DIX_GENERATE, f->back, len,
				 f->plain, f->n, &apart), len);
}

static void try_format(struct weir_dma *dma, struct format *f)
{
	struct weir_dif *d = &f->dif, moved;
	size_t ext = d->data + d->metadata, at;
	struct jrec j;

	f->n = BLOCKS * d->data;
	f->n_ext = BLOCKS * ext;
	memset(f->ext, 0xee, f->n_ext + 1);
	assert_int_equal(run_mem(dma, &j, WEIR_ACCEL_DIF_INSERT, f->ext,
				 f->n_ext, f->plain, f->n, d), f->n_ext);
	assert_int_equal(f->ext[f->n_ext], 0xee);
	check_blocks(f);
	assert_int_equal(run_mem(dma, &j, WEIR_ACCEL_DIF_VERIFY, NULL, 0,
				 f->ext, f->n_ext, d), f->n_ext);
	/* In place again, after the information was destroyed. */
	for (at = 0; at < BLOCKS; at++)
		memset(f->ext + at * ext + d->data, 0, d->metadata);
	assert_int_equal(run_mem(dma, &j, WEIR_ACCEL_DIF_GENERATE, f->ext,
				 f->n_ext, f->ext, f->n_ext, d), f->n_ext);
	check_blocks(f);
	assert_int_equal(run_mem(dma, &j, WEIR_ACCEL_DIF_STRIP, f->back, f->n,
				 f->ext, f->n_ext, d), f->n);
	assert_memory_equal(f->back, f->plain, f->n);
	/* Other reference tags, and back. */
	moved = *d;
	moved.new_ref = 4711;
	assert_int_equal(run_mem(dma, &j, WEIR_ACCEL_DIF_UPDATE, f->ext,
				 f->n_ext, f->ext, f->n_ext, &moved),
			 f->n_ext);
	moved.ref = 4711;
	assert_int_equal(run_mem(dma, &j, WEIR_ACCEL_DIF_VERIFY, NULL, 0,
				 f->ext, f->n_ext, &moved), f->n_ext);
	assert_int_equal(run_mem(dma, &j, WEIR_ACCEL_DIF_VERIFY, NULL, 0,
				 f->ext, f->n_ext, d), -EILSEQ);
	expect_error(&j, WEIR_DIF_REF, 0);
	moved.new_ref = d->ref;
	assert_int_equal(run_mem(dma, &j, WEIR_ACCEL_DIF_UPDATE, f->ext,
				 f->n_ext, f->ext, f->n_ext, &moved),
			 f->n_ext);
	check_blocks(f);
	/* The metadata alone are what is behind the blocks. */
	assert_int_equal(run_mem(dma, &j, WEIR_ACCEL_DIX_GENERATE, f->back,
				 BLOCKS * d->metadata, f->plain, f->n, d),
			 BLOCKS * d->metadata);
	for (at = 0; at < BLOCKS; at++)
		assert_memory_equal(f->back + at * d->metadata,
				    f->ext + at * ext + d->data, d->metadata);
	try_apart(dma, f);
	/* Damage of data, of the application tag; and what is not checked. */
	f->ext[20 * ext + 3] ^= 1;
	assert_int_equal(run_mem(dma, &j, WEIR_ACCEL_DIF_STRIP, f->back, f->n,
				 f->ext, f->n_ext, d), -EILSEQ);
	expect_error(&j, WEIR_DIF_GUARD, 20);
	moved = *d;
	moved.check = WEIR_DIF_APP | WEIR_DIF_REF;
	assert_int_equal(run_mem(dma, &j, WEIR_ACCEL_DIF_VERIFY, NULL, 0,
				 f->ext, f->n_ext, &moved), f->n_ext);
	moved.app ^= 0x10;
	assert_int_equal(run_mem(dma, &j, WEIR_ACCEL_DIF_VERIFY, NULL, 0,
				 f->ext, f->n_ext, &moved), -EILSEQ);
	expect_error(&j, WEIR_DIF_APP, 0);
	moved.app_mask = 0xffef;
	assert_int_equal(run_mem(dma, &j, WEIR_ACCEL_DIF_VERIFY, NULL, 0,
				 f->ext, f->n_ext, &moved), f->n_ext);
}

static void blocks_are_protected_in_each_format(void **state)
{
	static const uint32_t data[] = { 512, 4096, 520 };
	static const uint32_t meta[] = { 8, 16, 64 };
	struct weir_reactor *r = start_reactor(state);
	struct weir_dma *dma = start_dma(r, (struct weir_dma_opts){ 0 });
	struct format f = { .plain = malloc(BLOCKS * 4200),
			    .ext = malloc(BLOCKS * 4200 + 1),
			    .back = malloc(BLOCKS * 4200) };
	size_t d, m;
	int i;

	fill_pattern((char *)f.plain, BLOCKS * 4200, 0, 6);
	for (d = 0; d < N_OF(data); d++)
		for (m = 0; m < N_OF(meta); m++)
			for (i = 0; i < 12; i++) {
				f.dif = (struct weir_dif){
					.size = sizeof(f.dif), .data = data[d],
					.metadata = meta[m],
					.format = (uint32_t)i & 1,
					.first = i & 2, .check = 7,
					.type = i < 4 ? 0 : i < 8 ? 2 : 3,
					.app = 0x1234, .ref = 0xfffffff0,
				};
				f.dif.guard = f.dif.format ? 0 : 99;
				if (f.dif.format && meta[m] < 16)
					continue;
				try_format(dma, &f);
			}
	free(f.plain);
	free(f.ext);
	free(f.back);
	assert_int_equal(weir_dma_destroy(dma), 0);
}

static void escaped_block_is_not_verified(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_dma *dma = start_dma(r, (struct weir_dma_opts){ 0 });
	struct weir_dif dif = { .size = sizeof(dif), .data = 512,
				.metadata = 8, .check = 7, .app = 1 };
	uint8_t block[520];
	struct jrec j;

	memset(block, 0x77, sizeof(block));
	memset(block + 514, 0xff, 2);
	assert_int_equal(run_mem(dma, &j, WEIR_ACCEL_DIF_VERIFY, NULL, 0,
				 block, 520, &dif), 520);
	dif.type = 3;
	assert_int_equal(run_mem(dma, &j, WEIR_ACCEL_DIF_VERIFY, NULL, 0,
				 block, 520, &dif), -EILSEQ);
	memset(block + 516, 0xff, 4);
	assert_int_equal(run_mem(dma, &j, WEIR_ACCEL_DIF_VERIFY, NULL, 0,
				 block, 520, &dif), 520);
	assert_int_equal(weir_dma_destroy(dma), 0);
}

static void protection_that_makes_no_sense_is_refused(void **state)
{
	static const struct weir_dif good = { .size = sizeof(good), .data = 512,
					      .metadata = 16 };
	struct weir_reactor *r = start_reactor(state);
	struct weir_dma *dma = start_dma(r, (struct weir_dma_opts){ 0 });
	static uint8_t a[1056], b[1056];
	struct weir_dif bad[8];
	size_t i;

	for (i = 0; i < N_OF(bad); i++)
		bad[i] = good;
	bad[0].size = 8;
	bad[1].data = 0;
	bad[2].data = 510;
	bad[3].metadata = 7;
	bad[4].format = 2;
	bad[5].type = 4;
	bad[6].check = 8;
	bad[7].metadata = 8192;
	for (i = 0; i < N_OF(bad); i++)
		assert_int_equal(refused(dma, WEIR_ACCEL_DIF_GENERATE, b, 1056,
					 a, 1056, &bad[i]), -EINVAL);
	assert_int_equal(refused(dma, WEIR_ACCEL_DIF_GENERATE, b, 1056, a, 1056,
				 NULL), -EINVAL);
	assert_int_equal(refused(dma, WEIR_ACCEL_DIF_GENERATE, b, 1056, a, 1055,
				 &good), -EINVAL);
	assert_int_equal(refused(dma, WEIR_ACCEL_DIF_INSERT, b, 1055, a, 1024,
				 &good), -EMSGSIZE);
	assert_int_equal(weir_accel_kind(0), 0);
	assert_int_equal(weir_accel_kind(14), 0);
	assert_int_equal(weir_dma_destroy(dma), 0);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(crcs_have_their_published_values),
		CASE(crc_jobs_continue_a_crc),
		CASE(blocks_are_protected_in_each_format),
		CASE(escaped_block_is_not_verified),
		CASE(protection_that_makes_no_sense_is_refused),
	};

	return harness_run_all(cases, N_OF(cases));
}
