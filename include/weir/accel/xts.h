/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_ACCEL_XTS_H
#define WEIR_ACCEL_XTS_H

/*
 * Keys of AES-XTS (IEEE 1619), the encryption of storage devices: sectors of
 * one size, each by its number.
 *
 * A job of the kind WEIR_ACCEL_ENCRYPT or WEIR_ACCEL_DECRYPT has a struct
 * weir_xts_args as arguments, which is lent until the callback.  Source and
 * destination are equally long, multiples of the sector (else -EINVAL), and may
 * be the same range of memory.
 *
 *	err = weir_xts_create(&xts, &opts);
 *	...
 *	rq->args = (struct weir_xts_args){ .xts = xts, .sector = lba };
 *	weir_job_registered(&rq->job, weir_accel_kind(WEIR_ACCEL_ENCRYPT),
 *			    dst, src, &rq->args);
 *
 * The tweak of a sector is its number, as a little-endian number of 128 bits:
 * "plain64" of dm-crypt, and SPDK_ACCEL_CRYPTO_TWEAK_MODE_SIMPLE_LBA.  With
 * .count_512 the numbers count 512 bytes whatever a sector is, as dm-crypt does
 * without iv_large_sectors.
 *
 * A sector may have any size from 16 bytes on.  If that is no multiple of 16, the
 * last two blocks of each are encrypted by ciphertext stealing, as the standard
 * has it, so the output is as long as the input.  A message of any length is one
 * sector.
 *
 * Any number of jobs may use a key at the same time.  XTS hides what the sectors
 * hold; it does not detect that one was changed.
 *
 * Re-creates spdk_accel_crypto_key_create() and spdk_accel_submit_encrypt().
 */

#include <stdbool.h>

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_xts;

/* Options of weir_xts_create().  Set .size to the size of the struct. */
struct weir_xts_opts {
	size_t size;
	const void *key;	/* Both halves behind each other; copied. */
	uint32_t key_len;	/* 32: AES-128-XTS; 64: AES-256-XTS. */
	uint32_t sector;	/* Bytes, 16 to 8192; 0: 512. */
	bool count_512;		/* Numbers of sectors count 512 bytes. */
};

/* Arguments of a job. */
struct weir_xts_args {
	struct weir_xts *xts;
	uint64_t sector;	/* Number of the first one. */
};

/*
 * Create a key.
 *
 * Returns 0 with *@ret set, to be freed by weir_xts_destroy(), or
 *   -EINVAL      an argument or .key is NULL; .key_len is neither 32 nor 64; the
 *                two halves of the key are equal; .sector is not possible, or
 *                no multiple of 512 with .count_512
 *   -EOPNOTSUPP  weir was built without OpenSSL, or OpenSSL has no AES-XTS
 *   -E2BIG       @opts sets a member that this version does not have
 *   -ENOMEM      no memory
 *
 * Any thread.  Allocates.  Re-creates spdk_accel_crypto_key_create().
 */
WEIR_API int weir_xts_create(struct weir_xts **ret,
			     const struct weir_xts_opts *opts);

/*
 * Free @xts, and wipe it.  NULL is allowed.
 *
 * Returns 0, or
 *   -EBUSY  a job of it is in flight
 *
 * Any thread.  Re-creates spdk_accel_crypto_key_destroy().
 */
WEIR_API int weir_xts_destroy(struct weir_xts *xts);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_ACCEL_XTS_H */
