/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * CRC-16 T10-DIF, by ISA-L, or else eight bytes at a time by tables, which are
 * made by the first call; and the kinds of both CRCs.
 */

#ifdef HAVE_ISAL
#include <isa-l.h>
#else
#include <pthread.h>
#endif

#include <weir/accel/crc.h>

#include "accel/kinds.h"

#define POLY16 0x8bb7u

#ifdef HAVE_ISAL

uint16_t weir_crc16_t10dif(uint16_t crc, const void *p, size_t len)
{
	return crc16_t10dif(crc, p, len);
}

#else

static uint16_t table16[8][256];
static pthread_once_t once16 = PTHREAD_ONCE_INIT;

static void make16(void)
{
	unsigned int crc;
	int i, k;

	for (i = 0; i < 256; i++) {
		crc = (unsigned int)i << 8;
		for (k = 0; k < 8; k++)
			crc = crc << 1 ^ (crc & 0x8000 ? POLY16 : 0);
		table16[0][i] = (uint16_t)crc;
	}
	for (k = 1; k < 8; k++)
		for (i = 0; i < 256; i++)
			table16[k][i] = (uint16_t)(table16[k - 1][i] << 8 ^
				table16[0][table16[k - 1][i] >> 8]);
}

uint16_t weir_crc16_t10dif(uint16_t crc, const void *p, size_t len)
{
	const uint8_t *at = p;
	unsigned int word;
	int k;

	pthread_once(&once16, make16);
	for (; len >= 8; at += 8, len -= 8) {
		word = table16[7][at[0] ^ crc >> 8] ^
		       table16[6][at[1] ^ (crc & 255)];
		for (k = 2; k < 8; k++)
			word ^= table16[7 - k][at[k]];
		crc = (uint16_t)word;
	}
	for (; len; at++, len--)
		crc = (uint16_t)(crc << 8 ^ table16[0][crc >> 8 ^ *at]);
	return crc;
}

#endif

/* The jobs: state[0] is whether they have begun, result[0] the CRC. */

static void begin(struct weir_kind_run *run)
{
	if (!run->state[0] && run->args)
		run->result[0] = *(const uint64_t *)run->args;
	run->state[0] = 1;
}

static int crc16_run(struct weir_kind_run *run)
{
	begin(run);
	run->result[0] = weir_crc16_t10dif((uint16_t)run->result[0], run->in,
					   run->in_len);
	run->consumed = run->in_len;
	return run->last;
}

static int crc64_run(struct weir_kind_run *run)
{
	begin(run);
	run->result[0] = weir_crc64_nvme(run->result[0], run->in,
					 run->in_len);
	run->consumed = run->in_len;
	return run->last;
}

#define CRC_WORKER_MIN ((uint64_t)1 << 20)

const struct weir_kind_ops accel_crc16 = {
	.size = sizeof(accel_crc16),
	.name = "crc16-t10dif",
	.weight = 2,
	.worker_min = CRC_WORKER_MIN,
	.run = crc16_run,
};

const struct weir_kind_ops accel_crc64 = {
	.size = sizeof(accel_crc64),
	.name = "crc64-nvme",
	.weight = 4,
	.worker_min = CRC_WORKER_MIN,
	.run = crc64_run,
};
