/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of this library's kinds. */

#include <pthread.h>

#include <weir/accel/kinds.h>

#include "accel/kinds.h"

static const struct weir_kind_ops *const all[] = {
	[WEIR_ACCEL_CRC16] = &accel_crc16,
	[WEIR_ACCEL_CRC64] = &accel_crc64,
	[WEIR_ACCEL_DIF_GENERATE] = &accel_dif_generate,
	[WEIR_ACCEL_DIF_VERIFY] = &accel_dif_verify,
	[WEIR_ACCEL_DIF_INSERT] = &accel_dif_insert,
	[WEIR_ACCEL_DIF_STRIP] = &accel_dif_strip,
	[WEIR_ACCEL_DIF_UPDATE] = &accel_dif_update,
	[WEIR_ACCEL_DIX_GENERATE] = &accel_dix_generate,
	[WEIR_ACCEL_COMPRESS] = &accel_compress,
	[WEIR_ACCEL_DECOMPRESS] = &accel_decompress,
	[WEIR_ACCEL_ENCRYPT] = &accel_encrypt,
	[WEIR_ACCEL_DECRYPT] = &accel_decrypt,
	[WEIR_ACCEL_DIX_VERIFY] = &accel_dix_verify,
};

#define N_ALL (sizeof(all) / sizeof(all[0]))

static uint32_t numbers[N_ALL];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void register_all(void)
{
	for (uint32_t i = 0; i < N_ALL; i++)
		if (all[i])
			weir_kind_register(all[i], &numbers[i]);
}

uint32_t weir_accel_kind(uint32_t which)
{
	pthread_once(&once, register_all);
	return which < N_ALL ? numbers[which] : 0;
}
