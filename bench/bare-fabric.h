/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef BENCH_BARE_FABRIC_H
#define BENCH_BARE_FABRIC_H

/*
 * Reads and writes by libfabric alone, over connected endpoints of its provider tcp,
 * between this process and a child.  Both ends poll, as fi_rma_bw and
 * fi_rma_pingpong do, while a measurement lasts.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Fork the child, whose memory has @bytes.  Before this process uses libfabric. */
void bare_fork(size_t bytes);

/* Connect to it, if that is not done: NULL, or why there is none. */
const char *bare_connect(void);

/* The child polls; and no more. */
void bare_begin(void);
void bare_end(void);

/* Move @n times @bytes from the beginning of the memory, or to it, @depth at a time.
 * Each is done when the memory has it. */
void bare_move(bool read, size_t bytes, uint32_t depth, uint32_t n);

/* The child; and the end of it. */
pid_t bare_pid(void);
void bare_kill(void);

#endif /* BENCH_BARE_FABRIC_H */
