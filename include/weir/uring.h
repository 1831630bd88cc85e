/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_URING_H
#define WEIR_URING_H

/*
 * io_uring itself: its features and limits on this system, and operations whose
 * submission entry (SQE) the caller fills in.
 *
 * With weir_uring_submit() a program uses whatever the kernel offers, such as
 * commands to an NVMe drive or a socket (IORING_OP_URING_CMD), a futex, or an
 * opcode that is newer than this library, under the contract of <weir/op.h>.
 *
 *	static void prep_truncate(struct io_uring_sqe *sqe, void *arg)
 *	{
 *		const struct file *f = arg;
 *
 *		sqe->opcode = IORING_OP_FTRUNCATE;
 *		sqe->fd = f->fd;
 *		sqe->off = f->len;
 *	}
 *
 *	err = weir_uring_submit(reactor, &rq->op, prep_truncate, file);
 */

#include <weir/base.h>
#include <weir/op.h>

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
#define WEIR_URING_SQE128 256u		/* SQEs of 128 bytes; 5.19 */
#define WEIR_URING_CQE32 512u		/* CQEs of 32 bytes; 5.19 */
#define WEIR_URING_CQE_MIXED 1024u	/* Those only where needed; 6.18 */
#define WEIR_URING_RECV_BUNDLES 2048u	/* Many buffers in a receive; 6.16 */
#define WEIR_URING_NAPI 4096u		/* .napi_us has an effect; 6.9 */

struct io_uring_sqe;

/* The result of weir_uring_probe() and weir_uring_get_info(). */
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

/*
 * Get the features and limits of the ring of @r.
 *
 * The caller sets .size of *@ret.  Of sizes of SQEs and CQEs it has those that
 * were asked for by .sqe128 and .cqe32 of struct weir_reactor_opts.
 * WEIR_URING_BUFFER_RINGS is set from the first receiver on.
 *
 * Returns 0, or
 *   -EOPNOTSUPP  @r is on another backend
 *   -EINVAL      .size is smaller than the member itself
 *
 * Call on @r's thread.  Never blocks.
 *
 * Re-creates io_uring_get_probe_ring().
 */
WEIR_API int weir_uring_get_info(struct weir_reactor *r,
				 struct weir_uring_info *ret);

/*
 * Tell whether the kernel, and a filter of this process, have the opcode
 * @opcode (IORING_OP_) for the ring of @r.
 *
 * Returns 1 or 0, or
 *   -EOPNOTSUPP  @r is on another backend
 *
 * Call on @r's thread.  Never blocks.
 *
 * Re-creates io_uring_opcode_supported().
 */
WEIR_API int weir_uring_has_opcode(struct weir_reactor *r,
				   unsigned int opcode);

/*
 * Fill in @sqe, which is zeroed, for weir_uring_submit().
 *
 * With .sqe128 of the reactor @sqe has 128 bytes, else 64.  The library sets
 * .user_data afterwards.  The function may start operations.
 */
typedef void weir_uring_prep_fn(struct io_uring_sqe *sqe, void *arg);

/*
 * Start @op, as the submission entry says that @prep fills in.
 *
 * The library calls @prep with @arg, once and inside this call, also if it then
 * refuses @op.  It submits the entry with the others of the turn, or later if
 * the ring has no capacity.  All memory that the entry names is the kernel's
 * until the callback; the sanitizers do not know of it.
 *
 * These would break the library's account of the ring, and are refused:
 *
 *   - flags other than IOSQE_FIXED_FILE and IOSQE_ASYNC: no links (use a
 *     chain), no drain, no choice of buffers, no skipped completion
 *   - multishot requests: use a watch, an acceptor or a receiver
 *   - opcodes that act on other requests (IORING_OP_ASYNC_CANCEL, _POLL_REMOVE,
 *     _TIMEOUT_REMOVE, _LINK_TIMEOUT), on provided buffers, or on registered
 *     files, and descriptors that exist in the ring only
 *
 * A cancel, a deadline or a stop sends a cancel request to the kernel, again and
 * again until the operation ends.  The kernel cannot cancel every request: a
 * command to a device, once issued, ends when the device has done it.  A send
 * without a copy ends when its memory is free again.
 *
 * Completes with .res of the completion entry, also where other functions of
 * this library would try again.  weir_op_get_detail() has its .flags as .code,
 * and weir_uring_get_extra() the rest of one of 32 bytes.
 *
 * Returns 0, or
 *   -EINVAL      @op is in flight or has no callback, @prep is NULL, or the
 *                entry is one of those above, or has more than 64 bytes without
 *                .sqe128
 *   -EOPNOTSUPP  @r is on another backend; weir_why() names it
 *   -EAGAIN      .ops_max operations are in flight
 *   -ESHUTDOWN   @r is stopping
 *
 * Call on @r's thread.  Never blocks, never allocates.
 *
 * Re-creates io_uring_get_sqe() with io_uring_submit().
 */
WEIR_API int weir_uring_submit(struct weir_reactor *r, struct weir_op *op,
			       weir_uring_prep_fn *prep, void *arg);

/*
 * Get the second half of the completion entry of @op, which has ended: two
 * words, or zeros if its entry had 16 bytes.
 *
 * For a command to an NVMe drive the first is the command's result.  Needs
 * .cqe32 of struct weir_reactor_opts.  Valid in the callback and after it,
 * until @op is started again.
 *
 * Returns 0, or
 *   -EINVAL  @op is in flight, or was not an operation of weir_uring_submit()
 *            that reached the ring
 *
 * Call on the reactor's thread.  Never blocks.
 *
 * Re-creates .big_cqe of struct io_uring_cqe.
 */
WEIR_API int weir_uring_get_extra(const struct weir_op *op, uint64_t ret[2]);

#ifdef __cplusplus
}
#endif

#endif /* WEIR_URING_H */
