/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_DOMAIN_USER_H
#define WEIR_DOMAIN_USER_H

/*
 * Domains of a user: encrypted storage, a card, or any other place of bytes that
 * a program can reach.
 *
 *	err = weir_domain_create(&store, &opts);
 *	err = weir_domain_set_pull(store, store_pull);
 *	err = weir_domain_set_push(store, store_push);
 *
 * From then on a job can name it as source or destination, like a file.  Which
 * jobs it can do depends on which functions are set:
 *
 *	pull       from the domain to memory of this process
 *	push       from memory of this process to the domain
 *	transfer   from another domain to this one, with no memory between
 *	fill       a pattern into the domain
 *	translate  find the addresses of its bytes in another domain
 *
 * A program can also call them directly, by weir_domain_pull(),
 * weir_domain_push(), weir_domain_transfer() and weir_domain_fill(), with the
 * contract of <weir/op.h>.  These call the function of the domain on the
 * reactor's thread, inside the start:
 *
 *   - If it returns a negative errno, nothing was started, and the caller gets
 *     the errno.  -EAGAIN (no capacity now) is also returned to the caller of
 *     weir_job_start(), whatever other functions the domain has.  Blocks of
 *     jobs that go through staging, fences, lazy jobs and steps of chains have
 *     no such caller: for them the function is called again, soon at first,
 *     then at least once in a millisecond.
 *   - If it returns 0, the domain must call weir_domain_complete() once on that
 *     thread, inside the function or later.  The op's callback runs from the
 *     loop, never inside the start.
 *
 * A function of a domain may call any public function.  If it cancels the
 * operation or job for which it is called, or the chain or pipeline of that
 * job, or stops the DMA context or the reactor, the request is recorded and
 * takes effect when the function has returned.  So the domain's cancel function
 * is never called for an operation inside the function that starts it.
 * weir_dma_destroy() of the job's context is -EBUSY there, and so is
 * weir_domain_destroy() of the domain.
 *
 * All of them return 0, or
 *   -EINVAL      an argument or a domain is NULL that must not be; a side is
 *                not memory that must be; a fill has a source; there is nothing
 *                to move; .size is too small; @op is in flight or has no
 *                callback
 *   -EMSGSIZE    source and destination differ in length, or one has more than
 *                WEIR_DOMAIN_PIECES_MAX pieces
 *   -ERANGE      a piece wraps around or is outside of its domain, or the
 *                pieces together wrap around
 *   -EACCES      .flags of the source's domain forbid reading, or those of the
 *                destination's writing
 *   -E2BIG       @move has members that this version does not know
 *   -EOPNOTSUPP  the domain has no such function
 *   -EAGAIN      .ops_max operations are in flight
 *   -ESHUTDOWN   the reactor is stopping
 *   other errnos  returned by the domain's function
 *
 * All of them are called on the reactor's thread, callbacks included, never
 * block and never allocate.
 */

#include <sys/uio.h>

#include <weir/domain.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weir_op;
struct weir_op_detail;
struct weir_reactor;

/* weir_domain_opts.flags */
#define WEIR_DOMAIN_READ_ONLY 1u	/* Nothing may be written to it. */
#define WEIR_DOMAIN_WRITE_ONLY 2u	/* Nothing may be read from it. */

/*
 * Options of weir_domain_create().  Set .size to the size of the struct and
 * leave the other fields at 0.
 */
struct weir_domain_opts {
	size_t size;
	uint32_t kind;		/* WEIR_DOMAIN_USER or more. */
	uint32_t flags;		/* WEIR_DOMAIN_READ_ONLY, _WRITE_ONLY */
	const char *id;		/* For messages, copied; NULL: "user". */
	void *ctx;		/* For weir_domain_ctx(). */
	size_t ctx_size;	/* > 0: copy so many bytes at .ctx, and have
				 * weir_domain_ctx() return the copy. */
	uint64_t addr;		/* The first address, */
	uint64_t len;		/* and how many there are; 0: all from .addr. */
	const void *place;	/* Domains with the same .place have the same
				 * bytes at the same address; NULL: no other
				 * domain has the bytes of this one. */
};

/*
 * Create a domain of the user's own kind.
 *
 * The library checks the bounds (.addr and .len), the rights (.flags) and
 * overlaps (.place) before it calls a function of the domain: jobs and moves
 * outside of the bounds are refused with -ERANGE, those against the rights with
 * -EACCES, and a job whose source and destination overlap with -EINVAL.
 *
 * It can do nothing until its functions are set, by weir_domain_set_pull() and
 * the like; calls of functions that are not set are -EOPNOTSUPP.  Ids need not
 * be unique.
 *
 * Returns 0 with *@ret set, to be freed by weir_domain_destroy(), or
 *   -EINVAL  @ret is NULL; .kind is below WEIR_DOMAIN_USER; .ctx_size is
 *            not 0 and .ctx is NULL; the addresses wrap around; or .flags
 *            forbid both reading and writing
 *   -E2BIG   @opts uses fields or flags of a later version
 *   -ENOMEM  no memory
 *
 * Any thread.
 *
 * Re-creates spdk_memory_domain_create().
 */
WEIR_API int weir_domain_create(struct weir_domain **ret,
				const struct weir_domain_opts *opts);

/*
 * The addresses of bytes of one domain in another: the result of
 * weir_domain_translate().  Set .size to the size of the struct before the call.
 *
 * The pieces are .iovs, which the translator owns until the translation is
 * invalidated, or, if that is NULL, the one in .iov.
 */
struct weir_translation {
	size_t size;
	struct weir_domain *domain;	/* Whose addresses the pieces are. */
	const struct iovec *iovs;
	struct iovec iov;
	uint32_t n_iov;
	uint32_t flags;			/* 0 */
	uint32_t lkey;			/* Of RDMA; 0: none. */
	uint32_t rkey;
	void *data;			/* The translator's own. */

	/* The library's. */
	struct weir_domain *translator;	/* NULL: it was invalidated. */
	void *translator_ctx;
	uint64_t reserved[2];
};

/* One side of a move. */
struct weir_domain_side {
	struct weir_domain *domain;	/* NULL: this process's memory. */
	void *ctx;			/* For the domain's functions. */
	const struct iovec *iov;	/* Addresses in the domain. */
	uint32_t n_iov;
	uint32_t reserved;
	const struct weir_translation *translation; /* If known, or NULL. */
};

/*
 * A move.  It and its pieces must stay until the callback.  Set .size to the
 * size of the struct, and unused fields to 0.
 *
 * The two sides have the same length, but their pieces may differ.
 */
struct weir_domain_move {
	size_t size;
	struct weir_domain_side src;	/* Not of a fill. */
	struct weir_domain_side dst;
	uint64_t pattern;		/* Of a fill; first byte first. */
};

/* Pieces that each side of a move may have. */
#define WEIR_DOMAIN_PIECES_MAX 1024

/*
 * A function of @domain that moves.  @move is the caller's struct, not a copy.
 * Returns a negative errno, or 0: then the domain must call
 * weir_domain_complete() once, on @r's thread.
 */
typedef int weir_domain_move_fn(struct weir_domain *domain,
				struct weir_reactor *r, struct weir_op *op,
				const struct weir_domain_move *move);

/*
 * Cancel @op, which a function of @domain has started: call
 * weir_domain_complete() soon.  Called at most once for each @op.
 */
typedef void weir_domain_cancel_fn(struct weir_domain *domain,
				   struct weir_op *op);

/*
 * Find the addresses of the @len bytes at @addr of @src in @dst, or in another
 * domain: fill @ret's .domain, pieces and keys, and .data.  Returns 0 or a
 * negative errno.  Must not block.
 */
typedef int weir_domain_translate_fn(struct weir_domain *src, void *src_ctx,
				     struct weir_domain *dst, void *dst_ctx,
				     uint64_t addr, size_t len,
				     struct weir_translation *ret);

/*
 * Release @t, a translation by @domain.  @ctx is the @src_ctx of the translation.
 */
typedef void weir_domain_invalidate_fn(struct weir_domain *domain, void *ctx,
				       const struct weir_translation *t);

/*
 * Set the function of @domain that moves from it to memory, replacing the one
 * before; NULL means none.
 *
 * Returns 0, or, with @domain as it was:
 *   -EPERM  @domain is not of weir_domain_create()
 *   -EBUSY  it is in use, see weir_domain_users()
 *
 * Any thread, one at a time, while no other uses @domain.
 *
 * Re-creates spdk_memory_domain_set_pull().
 */
WEIR_API int weir_domain_set_pull(struct weir_domain *domain,
				      weir_domain_move_fn *fn);

/*
 * Set the function of @domain that moves to it from memory, replacing the one
 * before; NULL means none.
 *
 * Returns 0, or, with @domain as it was:
 *   -EPERM  @domain is not of weir_domain_create()
 *   -EBUSY  it is in use, see weir_domain_users()
 *
 * Any thread, one at a time, while no other uses @domain.
 *
 * Re-creates spdk_memory_domain_set_push().
 */
WEIR_API int weir_domain_set_push(struct weir_domain *domain,
				      weir_domain_move_fn *fn);

/*
 * Set the function of @domain that moves to it from another domain, replacing
 * the one before; NULL means none.  It need not support every other domain: if
 * it returns -EXDEV or -EOPNOTSUPP, a job goes through memory if one domain can
 * pull and the other can push.
 *
 * Returns 0, or, with @domain as it was:
 *   -EPERM  @domain is not of weir_domain_create()
 *   -EBUSY  it is in use, see weir_domain_users()
 *
 * Any thread, one at a time, while no other uses @domain.
 *
 * Re-creates spdk_memory_domain_set_data_transfer().
 */
WEIR_API int weir_domain_set_transfer(struct weir_domain *domain,
				      weir_domain_move_fn *fn);

/*
 * Set the function of @domain that fills it with a pattern, replacing the one
 * before; NULL means none.
 *
 * Returns 0, or, with @domain as it was:
 *   -EPERM  @domain is not of weir_domain_create()
 *   -EBUSY  it is in use, see weir_domain_users()
 *
 * Any thread, one at a time, while no other uses @domain.
 *
 * Re-creates spdk_memory_domain_set_memzero(), for any pattern.
 */
WEIR_API int weir_domain_set_fill(struct weir_domain *domain,
				      weir_domain_move_fn *fn);

/*
 * Set the function of @domain that finds its bytes in another domain,
 * replacing the one before; NULL means none.
 *
 * Returns 0, or, with @domain as it was:
 *   -EPERM  @domain is not of weir_domain_create()
 *   -EBUSY  it is in use, see weir_domain_users()
 *
 * Any thread, one at a time, while no other uses @domain.
 *
 * Re-creates spdk_memory_domain_set_translation().
 */
WEIR_API int weir_domain_set_translate(struct weir_domain *domain,
				      weir_domain_translate_fn *fn);

/*
 * Set the function of @domain that ends a translation, replacing the one
 * before; NULL means none.
 *
 * Returns 0, or, with @domain as it was:
 *   -EPERM  @domain is not of weir_domain_create()
 *   -EBUSY  it is in use, see weir_domain_users()
 *
 * Any thread, one at a time, while no other uses @domain.
 *
 * Re-creates spdk_memory_domain_set_invalidate().
 */
WEIR_API int weir_domain_set_invalidate(struct weir_domain *domain,
				      weir_domain_invalidate_fn *fn);

/*
 * Set the function of @domain that cancels moves, replacing the one before; NULL
 * means none.  Without one a cancel has no effect, and the move continues.
 *
 * Returns 0, or, with @domain as it was:
 *   -EPERM  @domain is not of weir_domain_create()
 *   -EBUSY  it is in use, see weir_domain_users()
 *
 * Any thread, one at a time, while no other uses @domain.
 */
WEIR_API int weir_domain_set_cancel(struct weir_domain *domain,
				      weir_domain_cancel_fn *fn);

/*
 * Pull: move from .src, by its domain's function, to memory of this process.
 *
 * Completes with the domain's result: the bytes moved, fewer than requested if
 * the source ended early, or a negative errno.
 *
 * Re-creates spdk_memory_domain_pull_data().
 */
WEIR_API int weir_domain_pull(struct weir_reactor *r, struct weir_op *op,
			      const struct weir_domain_move *move);

/*
 * Push: move from memory of this process to .dst, by its domain's function.
 *
 * Completes with the domain's result: the bytes moved, fewer than requested if
 * the source ended early, or a negative errno.
 *
 * Re-creates spdk_memory_domain_push_data().
 */
WEIR_API int weir_domain_push(struct weir_reactor *r, struct weir_op *op,
			      const struct weir_domain_move *move);

/*
 * Transfer: move from .src to .dst, by the function of .dst's domain.  Both
 * domains must be given.
 *
 * Completes with the domain's result: the bytes moved, fewer than requested if
 * the source ended early, or a negative errno.
 *
 * Re-creates spdk_memory_domain_transfer_data().
 */
WEIR_API int weir_domain_transfer(struct weir_reactor *r, struct weir_op *op,
			      const struct weir_domain_move *move);

/*
 * Fill .dst with .pattern, repeated, by its domain's function; .src stays 0.
 *
 * Completes with the domain's result: the bytes moved, fewer than requested if
 * the source ended early, or a negative errno.
 *
 * Re-creates spdk_memory_domain_memzero(), for any pattern.
 */
WEIR_API int weir_domain_fill(struct weir_reactor *r, struct weir_op *op,
			      const struct weir_domain_move *move);

/*
 * Complete @op, which a function of a domain has started, with @res: the bytes
 * that were moved, which are all unless the source ended early, or a negative
 * errno.  A larger number of bytes, or a negative value that is not an errno
 * (below -4095), becomes -EIO.
 *
 * Call on the reactor's thread, once for each op, inside the domain's function
 * or later.  Never blocks, never allocates.
 */
WEIR_API void weir_domain_complete(struct weir_op *op, int64_t res);

/*
 * Set the detail of @op, which has not completed: the bytes moved before it
 * failed, the domain's own code, the index of the segment.  The caller gets it
 * by weir_op_get_detail(); weir_domain_complete() with @res >= 0 sets the bytes.
 *
 * Call on the reactor's thread, between the start and weir_domain_complete().
 * Never blocks.  Re-creates spdk_bdev_io_complete_nvme_status().
 */
WEIR_API void weir_domain_set_detail(struct weir_op *op,
				     const struct weir_op_detail *detail);

/*
 * Store @data in @op for the domain, for example its own request, so that its
 * cancel function finds it.
 *
 * Call on the reactor's thread, between the start and weir_domain_complete().
 * Never blocks.
 */
WEIR_API void weir_domain_set_op_data(struct weir_op *op, void *data);

/*
 * Get the pointer that weir_domain_set_op_data() has stored.
 *
 * Returns it, or NULL if none was stored.
 *
 * Call on the reactor's thread, between the start and weir_domain_complete().
 * Never blocks.
 */
WEIR_API void *weir_domain_op_data(const struct weir_op *op);

/*
 * Find the addresses of the @len bytes at @addr of @src in @dst, by @src's
 * function.  For memory of this process @ret has the same address.  Nothing
 * moves.
 *
 * The answer may be in another domain than @dst, and may have keys for RDMA.
 * Jobs and moves accept it as .translation.  It is valid until
 * weir_domain_invalidate(), which must be called once; until then @src is in
 * use.
 *
 * Returns 0 with *@ret filled, whose .size the caller has set, or
 *   -EINVAL      a domain or @ret is NULL, @len is 0, or .size is none
 *                that the struct can have
 *   -ERANGE      @addr + @len wraps around, or is outside of @src
 *   -EOPNOTSUPP  @src has no such function
 *   -EIO         the pieces of @src's function are not @len
 *                bytes, too many, wrap around, or are memory at NULL
 *   other errnos  returned by @src's function
 *
 * Any thread on which @src's function may be called; for memory, any.
 *
 * Re-creates spdk_memory_domain_translate_data().
 */
WEIR_API int weir_domain_translate(struct weir_domain *src, void *src_ctx,
				   struct weir_domain *dst, void *dst_ctx,
				   uint64_t addr, size_t len,
				   struct weir_translation *ret);

/*
 * Invalidate @t: call its domain's invalidate function, if there is one.  Its
 * pieces must not be used any more.  A translation that was invalidated before,
 * and zeroed memory, are left unchanged.
 *
 * Any thread on which the domain's function may be called, when no move uses @t
 * any more.
 *
 * Re-creates spdk_memory_domain_invalidate_data().
 */
WEIR_API void weir_domain_invalidate(struct weir_translation *t);

/*
 * The pieces of @t, .n_iov of them.
 *
 * Any thread.  Never blocks.
 */
static inline const struct iovec *weir_translation_iov(
	const struct weir_translation *t)
{
	return t->iovs ? t->iovs : &t->iov;
}

#ifdef __cplusplus
}
#endif

#endif /* WEIR_DOMAIN_USER_H */
