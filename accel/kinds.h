/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_ACCEL_KINDS_INTERNAL_H
#define WEIR_ACCEL_KINDS_INTERNAL_H

/* The tables of this library's kinds of jobs; kinds.c registers them. */

#include <weir/job.h>
#include <weir/kind.h>

extern const struct weir_kind_ops accel_crc16, accel_crc64;
extern const struct weir_kind_ops accel_dif_generate, accel_dif_verify,
	accel_dif_insert, accel_dif_strip, accel_dif_update,
	accel_dix_generate, accel_dix_verify;
extern const struct weir_kind_ops accel_compress, accel_decompress;
extern const struct weir_kind_ops accel_encrypt, accel_decrypt;

#endif /* WEIR_ACCEL_KINDS_INTERNAL_H */
