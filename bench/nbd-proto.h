/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_NBD_PROTO_H
#define BENCH_NBD_PROTO_H

#include <stdint.h>

/* The protocol's: doc/proto.md of the nbd project. */
#define OPTIONS_MAGIC 0x49484156454f5054u	/* "IHAVEOPT" */
#define REQUEST_MAGIC 0x25609513u
#define REPLY_MAGIC 0x67446698u
#define FIXED_NO_ZEROES 3
#define OPT_EXPORT_NAME 1

struct request {
	uint32_t magic;
	uint16_t flags, type;
	uint64_t handle, offset;
	uint32_t len;
} __attribute__((packed));

struct reply {
	uint32_t magic, error;
	uint64_t handle;
} __attribute__((packed));

#endif /* BENCH_NBD_PROTO_H */
