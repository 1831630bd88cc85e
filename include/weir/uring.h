/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_URING_H
#define WEIR_URING_H

/*
 * What io_uring is good for here, without a reactor: for a program that wants
 * to know, and for programs that choose by it.
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the running kernel has of what weir makes use of; .features. */
#define WEIR_URING_DEFER_TASKRUN 1u	/* Linux 6.1 */
#define WEIR_URING_COOP_TASKRUN 2u	/* 5.19; any of it, if not the above. */
#define WEIR_URING_RING_FD 4u		/* A registered ring; 5.18 */
#define WEIR_URING_FILES 8u		/* Registered files; 5.19 */
#define WEIR_URING_BUFFERS 16u		/* Registered buffers; 5.19 */
#define WEIR_URING_BUFFER_RINGS 32u	/* Buffers the kernel picks; 5.19 */
#define WEIR_URING_SEND_ZC 64u		/* Sends without a copy; 6.0 */
#define WEIR_URING_CQE_SKIP 128u	/* Cancels without an answer; 5.17 */

/* What weir_uring_probe() finds. */
struct weir_uring_info {
	size_t size;		/* Set by the caller: what it can hold. */
	uint32_t features;	/* WEIR_URING_ */
	uint32_t max_files;	/* Registered files of a reactor. */
	uint32_t max_buffers;	/* Registered buffers of a reactor. */
	uint32_t max_ops;	/* Operations in the kernel at a time, besides
				 * those that wait for a peer, or turned
				 * out to; the rest wait outside. */
};

/*
 * Make a ring, see what it can do, copy that to *@ret, whose .size the caller
 * has set, and close it again.
 *
 * With WEIR_BACKEND=ev in the environment io_uring is not touched: there may
 * be a seccomp filter that kills.
 *
 * Returns 0, or
 *   -EOPNOTSUPP  it cannot be used: weir_why() says why, and what would change
 *                that
 *   -EINVAL      .size is too small to hold even itself
 *   -EMFILE      no descriptor left
 *   -ENOMEM      no memory, for us or for the kernel's rings
 *
 * Any thread.  Some system calls that do not block.
 */
WEIR_API int weir_uring_probe(struct weir_uring_info *ret);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_URING_H */
