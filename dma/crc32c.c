/* SPDX-License-Identifier: BSD-3-Clause */
/* The public face of base/crc32c.h. */

#include <weir/crc32c.h>

#include "base/crc32c.h"

uint32_t weir_crc32c(uint32_t crc, const void *p, size_t len)
{
	return crc32c(crc, p, len);
}

uint32_t weir_crc32c_combine(uint32_t crc_a, uint32_t crc_b, uint64_t len_b)
{
	return crc32c_combine(crc_a, crc_b, len_b);
}
