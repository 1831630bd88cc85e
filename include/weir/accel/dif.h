/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_ACCEL_DIF_H
#define WEIR_ACCEL_DIF_H

/*
 * Protection information of blocks, as T10 and NVMe define it: a guard (a CRC),
 * an application tag and a reference tag in the metadata of each block.
 *
 *	static const struct weir_dif dif = {
 *		.size = sizeof(dif), .data = 512, .metadata = 8,
 *		.check = WEIR_DIF_GUARD | WEIR_DIF_REF,
 *	};
 *
 *	weir_job_registered(&rq->job, weir_accel_kind(WEIR_ACCEL_DIF_INSERT),
 *			    blocks_of_520, blocks_of_512, &dif);
 *
 * The arguments of each of these jobs are a struct weir_dif, lent until the
 * callback.  What they read and write, where a block is .data bytes and an
 * extended block has its .metadata behind them:
 *
 *	kind			source		destination
 *	DIF_GENERATE		extended	extended, the same range too: the
 *						information is set
 *	DIF_VERIFY		extended	none
 *	DIF_INSERT		blocks		extended
 *	DIF_STRIP		extended	blocks; verified
 *	DIF_UPDATE		extended	extended, the same range too: the
 *						reference tags go from .ref to
 *						.new_ref; verified by .ref
 *	DIX_GENERATE		blocks		metadata alone
 *	DIX_VERIFY		blocks		none; the metadata are in .separate
 *
 * Lengths are multiples of the block, or else the start is -EINVAL; -EMSGSIZE, if
 * .separate_len is less than the metadata of all blocks.
 *
 * A block that does not verify ends the job with -EILSEQ.  Then
 * weir_job_result() is what was wrong (WEIR_DIF_GUARD, WEIR_DIF_APP or
 * WEIR_DIF_REF), what was expected, what is there, and the number of the block
 * in the job.  A block whose application tag is 0xffff is not verified; of type
 * 3 only if its reference tag has all bits set, too.
 *
 * Re-creates spdk_dif_ctx and spdk_dif_error.
 */

#include <stdbool.h>

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* weir_dif.check: what is verified.  All of it is always generated. */
#define WEIR_DIF_GUARD 1u
#define WEIR_DIF_APP 2u
#define WEIR_DIF_REF 4u

/* weir_dif.format */
#define WEIR_DIF_GUARD_16 0	/* 8 bytes: CRC-16, tags of 16 and 32 bits. */
#define WEIR_DIF_GUARD_64 1	/* 16 bytes: CRC-64, tags of 16 and 48 bits. */

/* How blocks are protected. */
struct weir_dif {
	size_t size;		/* Of this struct. */
	uint32_t data;		/* Bytes of a block; a multiple of 4. */
	uint32_t metadata;	/* Bytes behind it; at least the format's. */
	uint32_t format;
	uint32_t check;
	uint8_t type;		/* 1, 2: the reference tag counts blocks; 3: it
				 * does not.  0: 1. */
	bool first;		/* The information is in the metadata's first
				 * bytes, not in its last. */
	uint16_t app;		/* Application tag, */
	uint16_t app_mask;	/* and its bits that are verified; 0: all. */
	uint16_t guard;		/* The CRC-16 begins with this. */
	uint64_t ref;		/* Reference tag of the first block. */
	uint64_t new_ref;	/* The same, of DIF_UPDATE's output. */

	/* Of DIX_VERIFY: the metadata, in memory of this process, lent until
	 * the callback; and how many bytes there are. */
	const void *separate;
	uint64_t separate_len;
};

#ifdef __cplusplus
}
#endif

#endif /* WEIR_ACCEL_DIF_H */
