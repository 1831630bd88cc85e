/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_CRC32C_H
#define WEIR_CRC32C_H

/*
 * CRC-32C (Castagnoli), as iSCSI, ext4 and btrfs use it.
 *
 * The inversions are inside: the CRC of nothing is 0, and passing in the last
 * result continues a CRC.  Jobs compute it too, beside a copy.  These functions
 * are for data in the CPU's cache, and combine the CRCs of blocks that were
 * computed out of order.
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Compute the CRC of @len bytes at @p, continued from @crc; begin with 0.
 *
 * Returns the CRC.  Any thread.  Never fails, allocates or waits; takes about
 * the time to read the memory.
 *
 * Re-creates rte_hash_crc() and spdk_crc32c_update().
 */
WEIR_API uint32_t weir_crc32c(uint32_t crc, const void *p, size_t len);

/*
 * Compute the CRC of A followed by B from the CRC of A, the CRC of B, and the
 * length of B in bytes.
 *
 * Returns the CRC.  Any thread.  Never fails or waits; the time hardly depends
 * on the length.
 *
 * Re-creates crc32_combine() of zlib.
 */
WEIR_API uint32_t weir_crc32c_combine(uint32_t crc_a, uint32_t crc_b,
				      uint64_t len_b);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_CRC32C_H */
