/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_LATE_UV_H
#define BENCH_LATE_UV_H

/* Endings of libuv; without it they say so. */

#include "bench/late-child.h"

/* uv_cancel() of a read of a file that a worker has begun. */
late_fn late_uv_read;
/* uv_close() of a stream with a write in flight: bytes that are read late. */
late_fn late_uv_write;
const char *late_uv_version(void);

#endif /* BENCH_LATE_UV_H */
