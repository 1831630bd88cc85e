/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_ACCEL_CRC_H
#define WEIR_ACCEL_CRC_H

/*
 * The CRCs of protection information: CRC-16 T10-DIF of SCSI and NVMe, and
 * CRC-64 NVMe (Rocksoft) of NVMe's 64-bit guards.
 *
 * Jobs of the kinds WEIR_ACCEL_CRC16 and WEIR_ACCEL_CRC64 compute them: the
 * source is any, there is no destination, and weir_job_result()[0] is the CRC.
 * Their arguments are NULL, or a const uint64_t, lent until the callback: the
 * CRC from which this one is continued.
 *
 * CRC-32C is in <weir/crc32c.h>, with kinds of jobs of the library's own.
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Compute the CRC-16 T10-DIF (polynomial 0x8BB7, not reflected) of @len bytes at
 * @p, continued from @crc; begin with 0.
 *
 * Returns the CRC.  Any thread.  Never fails, allocates or waits.
 * Re-creates spdk_crc16_t10dif().
 */
WEIR_API uint16_t weir_crc16_t10dif(uint16_t crc, const void *p, size_t len);

/*
 * Compute the CRC-64 NVMe (polynomial 0xAD93D23594C93659, reflected) of @len
 * bytes at @p, continued from @crc; begin with 0.  The inversions are inside.
 *
 * Returns the CRC.  Any thread.  Never fails, allocates or waits.
 * Re-creates spdk_crc64_nvme().
 */
WEIR_API uint64_t weir_crc64_nvme(uint64_t crc, const void *p, size_t len);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_ACCEL_CRC_H */
