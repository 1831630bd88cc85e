/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_ACCEL_CRC64_INTERNAL_H
#define WEIR_ACCEL_CRC64_INTERNAL_H

/* The kernels of weir_crc64_nvme(), in order of preference; tests try each, after
 * a call of weir_crc64_nvme(), which makes the tables. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct crc64_kernel {
	const char *name;
	bool (*usable)(void);
	/* The remainder @rem, continued over @len bytes at @p. */
	uint64_t (*update)(uint64_t rem, const uint8_t *p, size_t len);
};

extern const struct crc64_kernel *const crc64_kernels[];

#endif /* WEIR_ACCEL_CRC64_INTERNAL_H */
