/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_URING_H
#define WEIR_URING_H

/*
 * Features and limits of io_uring on this system, without a reactor.
 */

#include <weir/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Features of the running kernel that weir uses; .features. */
#define WEIR_URING_DEFER_TASKRUN 1u	/* Linux 6.1 */
#define WEIR_URING_COOP_TASKRUN 2u	/* 5.19; used without the one above. */
#define WEIR_URING_RING_FD 4u		/* A registered ring; 5.18 */
#define WEIR_URING_FILES 8u		/* Registered files; 5.19 */
#define WEIR_URING_BUFFERS 16u		/* Registered buffers; 5.19 */
#define WEIR_URING_BUFFER_RINGS 32u	/* Buffers the kernel picks; 5.19 */
#define WEIR_URING_SEND_ZC 64u		/* Sends without a copy; 6.0 */
#define WEIR_URING_CQE_SKIP 128u	/* Cancels without an answer; 5.17 */

/* The result of weir_uring_probe(). */
struct weir_uring_info {
	size_t size;		/* Set by the caller: the size of the struct. */
	uint32_t features;	/* WEIR_URING_ */
	uint32_t max_files;	/* Registered files of a reactor. */
	uint32_t max_buffers;	/* Registered buffers of a reactor. */
	uint32_t max_ops;	/* Operations in the kernel at a time, without
				 * those that wait for a peer; others wait in
				 * the reactor. */
};

/*
 * Get the features and limits of io_uring, by creating a ring and closing it.
 *
 * The caller sets .size of *@ret.  With WEIR_BACKEND=ev in the environment the
 * call does not use io_uring, because a seccomp filter may kill for it.
 *
 * Returns 0, or
 *   -EOPNOTSUPP  io_uring cannot be used: weir_why() says why, and what would
 *                change that
 *   -EINVAL      .size is smaller than the member itself
 *   -EMFILE      no descriptor left
 *   -ENOMEM      no memory for the library or for the kernel's rings
 *
 * Any thread.  Some system calls that do not block.
 */
WEIR_API int weir_uring_probe(struct weir_uring_info *ret);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_URING_H */
