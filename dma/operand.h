/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_DMA_OPERAND_H
#define WEIR_DMA_OPERAND_H

/*
 * Locations: one way to walk the pieces of a struct weir_operand, whether
 * they are bufs, iovecs or one range.
 */

#include <stdbool.h>

#include <weir/job.h>

#include "base/check.h"
#include "mem/domain-internal.h"

/* The role of an operand in a job; it decides which bytes of a buf are used. */
enum operand_side {
	OPERAND_NONE, /* Not used. */
	OPERAND_SRC, /* The data. */
	OPERAND_APPEND, /* The tailroom. */
	OPERAND_OVERWRITE, /* Data and tailroom. */
	OPERAND_UPDATE, /* The data, changed where they are. */
};

/* A place in an operand: the rest of one piece, and of all. */
struct cursor {
	uint64_t addr;
	uint64_t len; /* Of the piece, but not more than .left. */
	uint64_t left;
	const struct weir_operand *operand;
	struct weir_buf *buf; /* The buf of the piece, or NULL. */
	uint32_t index; /* Of the piece. */
	uint32_t side; /* enum operand_side */
};

/* The result of checking an operand. */
struct operand_info {
	struct weir_domain *domain;
	uint64_t total; /* Bytes there are. */
	uint64_t lo, hi; /* All addresses are in [lo, hi). */
	uint32_t n_pieces;
	bool plain; /* operand_is_plain() */
	/* Memory is of imports that count their jobs: of this one alone, whose
	 * word is this thread's, or OPERAND_IMPORTS.  NULL before the check: it
	 * is not. */
	struct mmap_use *import;
};

/* Imports that are counted one by one. */
#define OPERAND_IMPORTS ((struct mmap_use *)1)

/* Check @loc as a @side of a job on @r and describe it, or return what
 * weir_job_start() does: pieces, ranges, rights, and whether its bufs are free
 * for this use, which is known of those that are on the owner on @r. */
int operand_check_bufs(const struct weir_operand *operand,
		       enum operand_side side, const struct weir_reactor *r,
		       struct operand_info *info);
int operand_check_addresses(const struct weir_operand *operand,
			    enum operand_side side, struct operand_info *info);

/*
 * Whether the check of @operand needs no more than this: it is one range of
 * this process, which does not wrap.  Most small jobs have such operands, and
 * no other case is cheap to check.
 */
static inline bool operand_is_plain(const struct weir_operand *operand)
{
	return !operand->domain && !operand->n_iov && !operand->reserved0 &&
	       !operand->translation && operand->addr && operand->len &&
	       operand->addr < operand->addr + operand->len;
}

static inline int operand_check(const struct weir_operand *operand,
				enum operand_side side,
				const struct weir_reactor *r,
				struct operand_info *info)
{
	if (operand->buf)
		return operand_check_bufs(operand, side, r, info);
	if (unlikely(!operand_is_plain(operand)))
		return operand_check_addresses(operand, side, info);
	info->domain = &domain_of_system;
	info->total = operand->len;
	info->lo = operand->addr;
	info->hi = operand->addr + operand->len;
	info->n_pieces = 1;
	info->plain = true;
	return 0;
}

/* Whether the bytes used are data that exist already. */
static inline bool side_is_data(enum operand_side side)
{
	return side == OPERAND_SRC || side == OPERAND_UPDATE;
}

/* The import by whose addresses @operand is given, if not by bufs; or NULL. */
static inline const struct weir_mmap *operand_import(
	const struct weir_operand *operand)
{
	return !operand->buf && operand->domain ? operand->domain->import :
						  NULL;
}

/* Whether memory of @operand is of an import that its exporter has revoked. */
bool operand_stale(const struct weir_operand *operand);

/* Set @c to the beginning of the first @n bytes of @operand, of any kind. */
void cursor_init_any(struct cursor *c, const struct weir_operand *operand,
		     enum operand_side side, uint64_t n);

/* The same, at once if it is one range. */
static inline void cursor_init(struct cursor *c,
			       const struct weir_operand *operand,
			       enum operand_side side, uint64_t n)
{
	if (unlikely(operand->buf || operand->n_iov)) {
		cursor_init_any(c, operand, side, n);
		return;
	}
	c->addr = operand->addr;
	c->len = n;
	c->left = n;
	c->operand = operand;
	c->buf = NULL;
	c->index = 0;
	c->side = side;
}

/* On to the next piece, when .len is 0 and .left is not. */
void cursor_next(struct cursor *c);

/* Go on by @n bytes, at most .len. */
static inline void cursor_advance(struct cursor *c, uint64_t n)
{
	c->addr += n;
	c->len -= n;
	c->left -= n;
	if (!c->len && c->left)
		cursor_next(c);
}

/* Go on by @n bytes, at most .left. */
static inline void cursor_skip(struct cursor *c, uint64_t n)
{
	uint64_t some;

	for (; n; n -= some) {
		some = n < c->len ? n : c->len;
		cursor_advance(c, some);
	}
}

/* cursor_gather() of whatever it is. */
uint32_t cursor_gather_any(const struct cursor *c, struct iovec *iov,
			   uint32_t n_max, uint64_t max, uint64_t *len);

/* Put the pieces from @c on into @iov, at most @n_max, which is not 0, and
 * together at most @max bytes.  Returns how many, and their bytes in *@len. */
static inline uint32_t cursor_gather(const struct cursor *c, struct iovec *iov,
				     uint32_t n_max, uint64_t max,
				     uint64_t *len)
{
	if (unlikely(c->len < c->left && c->len < max))
		return cursor_gather_any(c, iov, n_max, max, len);
	*len = c->len < max ? c->len : max;
	iov->iov_base = (void *)(uintptr_t)c->addr;
	iov->iov_len = *len;
	return *len != 0;
}

/* The domain whose addresses @loc has. */
struct weir_domain *operand_bufs_domain(const struct weir_operand *operand);

static inline struct weir_domain *operand_domain(
	const struct weir_operand *operand)
{
	if (operand->buf)
		return operand_bufs_domain(operand);
	return operand->domain ? operand->domain : &domain_of_system;
}

/* An operand, its role in its job, and the result of its check. */
struct operand_part {
	const struct weir_operand *operand;
	enum operand_side side;
	const struct operand_info *info;
};

/* Whether the first @n bytes of the two have a byte in common. */
bool operand_overlap(const struct operand_part *a, const struct operand_part *b,
		     uint64_t n);

/* Whether one engine does both: a list may span mmaps, but not worlds; and the
 * same address in both is the same byte, unless it is one of a mmap. */
static inline bool operand_is_like(const struct weir_domain *a,
				   const struct weir_domain *b)
{
	return a == b || (domain_is_memory(a) && domain_is_memory(b));
}

/* Hold and release the bufs of @operand, which has some, for a job on @r. */
void operand_hold_bufs(const struct weir_operand *operand,
		       enum operand_side side, const struct weir_reactor *r);
void operand_release_bufs(const struct weir_operand *operand,
			  enum operand_side side, const struct weir_reactor *r);

/* The same of whatever it has. */
static inline void operand_hold(const struct weir_operand *operand,
				enum operand_side side,
				const struct weir_reactor *r)
{
	if (operand->buf)
		operand_hold_bufs(operand, side, r);
	else if (operand->domain)
		domain_use(operand->domain);
}

static inline void operand_release(const struct weir_operand *operand,
				   enum operand_side side,
				   const struct weir_reactor *r)
{
	if (operand->buf)
		operand_release_bufs(operand, side, r);
	else if (operand->domain)
		domain_unuse(operand->domain);
}

/* @n bytes were written to @loc: set the data lengths of its bufs. */
void operand_commit(const struct weir_operand *operand, enum operand_side side,
		    uint64_t n);

#endif /* WEIR_DMA_OPERAND_H */
