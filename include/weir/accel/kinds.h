/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_ACCEL_KINDS_H
#define WEIR_ACCEL_KINDS_H

/*
 * The kinds of jobs that libweir-accel brings: checksums, protection
 * information, compression and encryption.
 *
 *	uint32_t kind = weir_accel_kind(WEIR_ACCEL_CRC64);
 *	...
 *	weir_job_registered(&rq->job, kind, weir_operand_mem(NULL, 0), src,
 *			    NULL);
 *	err = weir_job_start(dma, &rq->job);
 *
 * They are kinds like any that a program registers, see <weir/kind.h>: any side
 * may be bufs, memory, a file, another process or a peer.  <weir/accel/crc.h>,
 * <weir/accel/dif.h>, <weir/accel/codec.h> and <weir/accel/xts.h> say what the
 * arguments of their jobs are.  All run on processors: the reactor's own for
 * small jobs, a worker's for larger ones.
 *
 * What replaces the opcodes of SPDK's accel framework:
 *
 *	SPDK_ACCEL_OPC_COPY		WEIR_JOB_COPY
 *	SPDK_ACCEL_OPC_FILL		WEIR_JOB_FILL
 *	SPDK_ACCEL_OPC_DUALCAST		WEIR_JOB_DUALCAST
 *	SPDK_ACCEL_OPC_COMPARE		WEIR_JOB_COMPARE
 *	SPDK_ACCEL_OPC_CRC32C		WEIR_JOB_CRC32C
 *	SPDK_ACCEL_OPC_COPY_CRC32C	WEIR_JOB_COPY_CRC32C
 *	SPDK_ACCEL_OPC_XOR		WEIR_JOB_XOR
 *	SPDK_ACCEL_OPC_COMPRESS		WEIR_ACCEL_COMPRESS
 *	SPDK_ACCEL_OPC_DECOMPRESS	WEIR_ACCEL_DECOMPRESS
 *	SPDK_ACCEL_OPC_ENCRYPT		WEIR_ACCEL_ENCRYPT
 *	SPDK_ACCEL_OPC_DECRYPT		WEIR_ACCEL_DECRYPT
 *	SPDK_ACCEL_OPC_DIF_VERIFY	WEIR_ACCEL_DIF_VERIFY
 *	SPDK_ACCEL_OPC_DIF_VERIFY_COPY	WEIR_ACCEL_DIF_STRIP
 *	SPDK_ACCEL_OPC_DIF_GENERATE	WEIR_ACCEL_DIF_GENERATE
 *	SPDK_ACCEL_OPC_DIF_GENERATE_COPY WEIR_ACCEL_DIF_INSERT
 *	SPDK_ACCEL_OPC_DIX_GENERATE	WEIR_ACCEL_DIX_GENERATE
 *	SPDK_ACCEL_OPC_DIX_VERIFY	WEIR_ACCEL_DIX_VERIFY
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The kinds; weir_accel_kind(). */
#define WEIR_ACCEL_CRC16 1	  /* <weir/accel/crc.h> */
#define WEIR_ACCEL_CRC64 2
#define WEIR_ACCEL_DIF_GENERATE 3 /* <weir/accel/dif.h> */
#define WEIR_ACCEL_DIF_VERIFY 4
#define WEIR_ACCEL_DIF_INSERT 5
#define WEIR_ACCEL_DIF_STRIP 6
#define WEIR_ACCEL_DIF_UPDATE 7
#define WEIR_ACCEL_DIX_GENERATE 8
#define WEIR_ACCEL_COMPRESS 9	  /* <weir/accel/codec.h> */
#define WEIR_ACCEL_DECOMPRESS 10
#define WEIR_ACCEL_ENCRYPT 11	  /* <weir/accel/xts.h> */
#define WEIR_ACCEL_DECRYPT 12
#define WEIR_ACCEL_DIX_VERIFY 13  /* <weir/accel/dif.h> */

/*
 * Get the number of the kind of job @which, WEIR_ACCEL_...
 *
 * The first call registers all kinds of this library.  A kind whose library was
 * not found when weir was configured is there too; its objects cannot be
 * created.
 *
 * Returns the number, for weir_job_registered(), or 0: there is no such kind,
 * or the process has no place for all of them (WEIR_KINDS_MAX).
 *
 * Any thread.  The first call takes a lock.  Re-creates
 * spdk_accel_get_opc_module_name().
 */
WEIR_API uint32_t weir_accel_kind(uint32_t which);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_ACCEL_KINDS_H */
