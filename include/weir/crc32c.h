/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_CRC32C_H
#define WEIR_CRC32C_H

/*
 * CRC-32C (Castagnoli), as iSCSI, ext4 and btrfs use it.
 *
 * The inversions are inside: the CRC of nothing is 0, and a CRC is continued by
 * passing in the last result.  Jobs compute it too, beside a copy; this is for
 * what is at hand anyway, and to join the CRCs of blocks that were done out of
 * order into that of the whole.
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The CRC of @len bytes at @p, continued from @crc; 0 to begin with.
 *
 * Any thread.  Never fails, allocates or waits; takes as long as it takes to
 * read the memory.
 *
 * Re-creates rte_hash_crc() and spdk_crc32c_update().
 */
WEIR_API uint32_t weir_crc32c(uint32_t crc, const void *p, size_t len);

/*
 * The CRC of A followed by B, from the CRC of A, the CRC of B, and the length
 * of B in bytes.
 *
 * Any thread.  Never fails or waits; the time hardly depends on the length.
 *
 * Re-creates crc32_combine() of zlib.
 */
WEIR_API uint32_t weir_crc32c_combine(uint32_t crc_a, uint32_t crc_b,
				      uint64_t len_b);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_CRC32C_H */
