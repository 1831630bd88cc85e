/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_LATE_PEERS_H
#define BENCH_LATE_PEERS_H

/* Bytes that land in memory after the end of a ring. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LATE_THEIRS 0xee	/* What is written, */
#define LATE_OURS 0x11		/* and the pattern, after the end. */

bool late_has_liburing(void);

/* io_uring_queue_exit() with a read of @fd in flight: the late bytes. */
uint64_t late_liburing(int fd, char *memory, size_t size);

/* Fill @memory with the pattern, wait, and count what is not the pattern. */
uint64_t late_after(char *memory, size_t size);

#endif /* BENCH_LATE_PEERS_H */
