/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_DOMAIN_USER_H
#define WEIR_DOMAIN_USER_H

/*
 * Domains of the user's own: a shared pool that encrypts, a card, whatever
 * bytes can be in and a program can reach.
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
 *	translate  say where bytes of the domain are in another one
 *
 * They can also be called directly, by weir_domain_pull() and its sisters, by
 * the contract of <weir/op.h>.  Those call a function of the domain, on the
 * reactor's thread, inside the start:
 *
 *   - It returns a negative errno: nothing was started.  The caller gets it.
 *     -EAGAIN, there is no capacity now, is returned to the caller of
 *     weir_job_start(), too, whatever other functions the domain has.  Blocks
 *     of jobs that go through staging, fences, lazy jobs and steps of chains
 *     have no such caller: there the function is called again, soon at first,
 *     then at least once in a millisecond.
 *   - It returns 0, and sooner or later, in it or after it, and once, the
 *     domain calls weir_domain_complete() on that thread.  The op's callback
 *     runs from the loop, never inside the start.
 *
 * A function of a domain may call any public function.  If it cancels the
 * operation or job for which it is called, or what that is part of, or stops
 * the DMA context or the reactor, the request is recorded and takes effect
 * when the function has returned: the domain's function for cancels is never
 * called for an operation inside the function that starts it.
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
 *   -ERANGE      a piece wraps around, or the pieces together do
 *   -E2BIG       @move has members that this version does not know
 *   -EOPNOTSUPP  the domain has no such function
 *   -EAGAIN      .ops_max operations are in flight
 *   -ESHUTDOWN   the reactor is stopping
 *   other errnos  what the domain's function said
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

/*
 * Options of weir_domain_create().  Set .size to the size of the struct and
 * leave what you do not care about at 0.
 */
struct weir_domain_opts {
	size_t size;
	uint32_t kind;		/* WEIR_DOMAIN_USER or more. */
	uint32_t reserved;
	const char *id;		/* For people, copied; NULL: "user". */
	void *ctx;		/* For weir_domain_ctx(). */
	size_t ctx_size;	/* > 0: copy so many bytes at .ctx, and have
				 * weir_domain_ctx() return the copy. */
};

/*
 * Create a domain of the user's own kind.
 *
 * It can do nothing until it is given functions, by weir_domain_set_pull() and
 * its sisters; what is not set is -EOPNOTSUPP.  Ids need not be unique.
 *
 * Returns 0 with *@ret set, to be freed by weir_domain_destroy(), or
 *   -EINVAL  @ret is NULL; .kind is below WEIR_DOMAIN_USER; or .ctx_size is
 *            not 0 and .ctx is NULL
 *   -E2BIG   @opts asks for what this version does not know
 *   -ENOMEM  no memory
 *
 * Any thread.
 *
 * Re-creates spdk_memory_domain_create().
 */
WEIR_API int weir_domain_create(struct weir_domain **ret,
				const struct weir_domain_opts *opts);

/*
 * Where bytes of one domain are in another: what weir_domain_translate() has
 * found out.  Set .size to the size of the struct before.
 *
 * The pieces are .iovs, which are the translator's until the translation is
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
	struct weir_domain *translator;	/* NULL: it is none any more. */
	void *translator_ctx;
	uint64_t reserved[2];
};

/* One side of a move. */
struct weir_domain_side {
	struct weir_domain *domain;	/* NULL: this process's memory. */
	void *ctx;			/* For the domain, this time. */
	const struct iovec *iov;	/* Addresses in the domain. */
	uint32_t n_iov;
	uint32_t reserved;
	const struct weir_translation *translation; /* If known, or NULL. */
};

/*
 * What is to be moved; lent, with the pieces, until the callback.  Set .size to
 * the size of the struct, and the rest to 0.
 *
 * The two sides are equally long, but may be cut into pieces differently.
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
 * A function of @domain that moves: @move is what the starter has given, not a
 * copy.  Returns a negative errno, or 0: then weir_domain_complete() is called
 * once, on @r's thread.
 */
typedef int weir_domain_move_fn(struct weir_domain *domain,
				struct weir_reactor *r, struct weir_op *op,
				const struct weir_domain_move *move);

/*
 * @op, which a function of @domain has started, should end early: see to it
 * that weir_domain_complete() is called soon.  Not called twice for one @op.
 */
typedef void weir_domain_cancel_fn(struct weir_domain *domain,
				   struct weir_op *op);

/*
 * Say where the @len bytes at @addr of @src are in @dst, or in another domain,
 * by filling @ret's .domain, pieces and keys, and .data.  Returns 0 or a
 * negative errno.  Must not block.
 */
typedef int weir_domain_translate_fn(struct weir_domain *src, void *src_ctx,
				     struct weir_domain *dst, void *dst_ctx,
				     uint64_t addr, size_t len,
				     struct weir_translation *ret);

/*
 * @t, which @domain has translated, is not needed any more.  @ctx is what was
 * @src_ctx then.
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
 */
WEIR_API int weir_domain_set_push(struct weir_domain *domain,
				      weir_domain_move_fn *fn);

/*
 * Set the function of @domain that moves to it from another domain, replacing
 * the one before; NULL means none.  It need not be able to move from every
 * other: where it returns -EXDEV or -EOPNOTSUPP, a job goes through memory if
 * the one can pull and the other push.
 *
 * Returns 0, or, with @domain as it was:
 *   -EPERM  @domain is not of weir_domain_create()
 *   -EBUSY  it is in use, see weir_domain_users()
 *
 * Any thread, one at a time, while no other uses @domain.
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
 */
WEIR_API int weir_domain_set_fill(struct weir_domain *domain,
				      weir_domain_move_fn *fn);

/*
 * Set the function of @domain that says where its bytes are in another,
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
 * Set the function of @domain that ends what the others have started,
 * replacing the one before; NULL means none.  Without one a cancel has no
 * effect: what is in flight goes on to its end.
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
 * Completes with what the domain said: the bytes moved, fewer than asked for if
 * the source ended early, or a negative errno.
 *
 * Re-creates spdk_memory_domain_pull_data().
 */
WEIR_API int weir_domain_pull(struct weir_reactor *r, struct weir_op *op,
			      const struct weir_domain_move *move);

/*
 * Push: move from memory of this process to .dst, by its domain's function.
 *
 * Completes with what the domain said: the bytes moved, fewer than asked for if
 * the source ended early, or a negative errno.
 *
 * Re-creates spdk_memory_domain_push_data().
 */
WEIR_API int weir_domain_push(struct weir_reactor *r, struct weir_op *op,
			      const struct weir_domain_move *move);

/*
 * Transfer: move from .src to .dst, whose domain's function it is that does it.
 * Both domains must be named.
 *
 * Completes with what the domain said: the bytes moved, fewer than asked for if
 * the source ended early, or a negative errno.
 *
 * Re-creates spdk_memory_domain_transfer_data().
 */
WEIR_API int weir_domain_transfer(struct weir_reactor *r, struct weir_op *op,
			      const struct weir_domain_move *move);

/*
 * Fill .dst with .pattern, repeated, by its domain's function; .src stays 0.
 *
 * Completes with what the domain said: the bytes moved, fewer than asked for if
 * the source ended early, or a negative errno.
 *
 * Re-creates spdk_memory_domain_memzero(), for any pattern.
 */
WEIR_API int weir_domain_fill(struct weir_reactor *r, struct weir_op *op,
			      const struct weir_domain_move *move);

/*
 * @op, which a function of a domain has started, ends with @res: the bytes that
 * were moved, all unless the source ended early, or a negative errno.
 * More than there was to move, or a negative value that is not an errno (below
 * -4095), becomes -EIO.
 *
 * Call on the reactor's thread, once for each op, inside the domain's function
 * or later.  Never blocks, never allocates.
 */
WEIR_API void weir_domain_complete(struct weir_op *op, int64_t res);

/*
 * Say more of how @op, not yet completed, goes: the bytes moved before it
 * failed, the domain's own code, the index of the segment.  They are for
 * weir_op_get_detail(); weir_domain_complete() with @res >= 0 sets the bytes.
 *
 * Call on the reactor's thread, between the start and weir_domain_complete().
 * Never blocks.  Re-creates spdk_bdev_io_complete_nvme_status().
 */
WEIR_API void weir_domain_set_detail(struct weir_op *op,
				     const struct weir_op_detail *detail);

/*
 * Remember @data with @op for the domain: the request that it has made of it,
 * say, so that its cancel function finds it.
 *
 * Call on the reactor's thread, between the start and weir_domain_complete().
 * Never blocks.
 */
WEIR_API void weir_domain_set_op_data(struct weir_op *op, void *data);

/*
 * What weir_domain_set_op_data() has remembered; NULL if nothing.
 *
 * Call on the reactor's thread, between the start and weir_domain_complete().
 * Never blocks.
 */
WEIR_API void *weir_domain_op_data(const struct weir_op *op);

/*
 * Find out where the @len bytes at @addr of @src are in @dst, by @src's
 * function.  Memory of this process is where it is: there @ret says the same
 * address.  Nothing moves.
 *
 * The answer may name another domain than @dst, and keys for RDMA; it may be
 * handed to jobs and moves as a translation that is known.  It is good until
 * weir_domain_invalidate(), which must be called once; until then @src is in
 * use.
 *
 * Returns 0 with *@ret filled, whose .size the caller has set, or
 *   -EINVAL      a domain or @ret is NULL, @len is 0, or .size is none
 *                that the struct can have
 *   -ERANGE      @addr + @len wraps around
 *   -EOPNOTSUPP  @src has no such function
 *   -EIO         @src's function has answered with pieces that are not @len
 *                bytes, too many, wrap around, or are memory at NULL
 *   other errnos  what @src's function said
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
 * End @t: its domain is told, by the function for that if it has one, and its
 * pieces are no more.  What has ended already, and zeroed memory, are left as
 * they are.
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
