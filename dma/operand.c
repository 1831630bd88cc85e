/* SPDX-License-Identifier: BSD-3-Clause */

#include <errno.h>
#include <unistd.h>

#include <weir/provider.h>

#include "base/why.h"
#include "dma/operand.h"
#include "mem/buf-internal.h"

/* Returns the range of @buf that the operand covers. */
static void buf_piece(const struct weir_buf *buf, enum operand_side side,
		      uint64_t *addr, uint64_t *len)
{
	char *p = buf->data;

	switch (side) {
	case OPERAND_SRC:
	case OPERAND_UPDATE:
		*len = buf->data_len;
		break;
	case OPERAND_APPEND:
		p += buf->data_len;
		*len = buf_tailroom(buf);
		break;
	default:
		*len = buf_tailroom(buf) + buf->data_len;
		break;
	}
	*addr = (uintptr_t)p;
}

/* Load the piece at .index; bufs are counted as they are passed. */
static void load(struct cursor *c)
{
	const struct weir_operand *operand = c->operand;

	if (c->buf) {
		buf_piece(c->buf, c->side, &c->addr, &c->len);
	} else if (operand->n_iov) {
		c->addr = (uintptr_t)operand->iov[c->index].iov_base;
		c->len = operand->iov[c->index].iov_len;
	} else {
		c->addr = operand->addr;
		c->len = operand->len;
	}
}

void cursor_next(struct cursor *c)
{
	do {
		c->index++;
		if (c->buf)
			c->buf = c->buf->next;
		load(c);
	} while (!c->len);
	if (c->len > c->left)
		c->len = c->left;
}

void cursor_init_any(struct cursor *c, const struct weir_operand *operand,
		     enum operand_side side, uint64_t n)
{
	uint64_t skip = operand->buf ? operand->addr : 0;
	uint64_t step;

	c->operand = operand;
	c->buf = operand->buf;
	c->index = 0;
	c->side = side;
	c->left = n + skip;
	load(c);
	if (c->len > c->left)
		c->len = c->left;
	if (!c->len && c->left)
		cursor_next(c);
	for (; skip; skip -= step) {
		step = skip < c->len ? skip : c->len;
		cursor_advance(c, step);
	}
}

uint32_t cursor_gather_any(const struct cursor *at, struct iovec *iov,
			   uint32_t n_max, uint64_t max, uint64_t *len)
{
	struct cursor c = *at;
	uint32_t n = 0;
	uint64_t some;

	*len = 0;
	while (n < n_max && c.left && *len < max) {
		some = c.len < max - *len ? c.len : max - *len;
		iov[n].iov_base = (void *)(uintptr_t)c.addr;
		iov[n].iov_len = some;
		n++;
		*len += some;
		cursor_advance(&c, some);
	}
	return n;
}

struct weir_domain *operand_bufs_domain(const struct weir_operand *operand)
{
	return operand->buf->use->mmap->domain;
}

/* A peer may have granted atomics only; the engine checks that. */
static bool may_write(const struct weir_mmap *mmap, enum operand_side side)
{
	return (mmap->permissions & WEIR_MMAP_WRITE) ||
	       (side == OPERAND_UPDATE && domain_is_remote(mmap->domain));
}

/* Only the owner reactor's thread may check the marks and the references. */
static int check_buf(const struct weir_buf *buf, enum operand_side side,
		     bool owner)
{
	if (side != OPERAND_SRC && !may_write(buf->use->mmap, side))
		return -EACCES;
	if (!owner)
		return 0;
	return buf->writing || (side != OPERAND_SRC && buf->readers) ? -EBUSY :
								       0;
}

static void widen(struct operand_info *info, uint64_t addr, uint64_t len)
{
	if (addr < info->lo)
		info->lo = addr;
	if (addr + len > info->hi)
		info->hi = addr + len;
	info->total += len;
	info->n_pieces++;
}

/* One of the bufs is of the import @use: 0 or -ESTALE. */
static inline int note_import(struct operand_info *info, struct mmap_use *use,
			      bool owner)
{
	const struct mmap_import *import = use->mmap->import;

	if (unlikely(!import_is_fresh(import)) && import_is_stale(import))
		return -ESTALE;
	if (likely(!info->import) && owner && use->fenced)
		info->import = use;
	else if (info->import != use && import->busy)
		info->import = OPERAND_IMPORTS;
	return 0;
}

static int check_bufs(const struct weir_operand *operand,
		      enum operand_side side, const struct weir_reactor *r,
		      struct operand_info *info)
{
	const struct weir_buf *buf = operand->buf;
	bool owner = buf_is_owned_by(buf, r);
	const struct weir_mmap *mmap;
	struct mmap_use *use;
	uint64_t addr, len;
	unsigned int n = 0;
	int err;

	if (buf->state != BUF_HEAD)
		return -EPERM;
	if (owner && buf->refs >= WEIR_BUF_REFS_MAX - 1)
		return -EMSGSIZE;
	for (; buf; buf = buf->next) {
		use = buf->use;
		mmap = use->mmap;
		err = check_buf(buf, side, owner);
		if (err)
			return err;
		if (unlikely(mmap->import)) {
			err = note_import(info, use, owner);
			if (unlikely(err))
				return err;
		}
		if (unlikely(!operand_is_like(mmap->domain, info->domain)))
			return -EXDEV;
		if (n++ == WEIR_JOB_PIECES_MAX)
			return -EMSGSIZE;
		buf_piece(buf, side, &addr, &len);
		widen(info, addr, len);
	}
	if (operand->addr > info->total ||
	    (operand->addr && !side_is_data(side)))
		return -ERANGE;
	info->total -= operand->addr;
	if (operand->len > info->total)
		return side_is_data(side) ? -ERANGE : -EMSGSIZE;
	if (operand->len)
		info->total = operand->len;
	return 0;
}

static inline int check_rights(const struct weir_domain *domain,
			       enum operand_side side)
{
	return (side == OPERAND_SRC ? domain->no_read : domain->no_write) ?
		-EACCES : 0;
}

static inline int check_piece(const struct operand_info *info, uint64_t addr,
			      uint64_t len)
{
	if (info->total + len < len)
		return -ERANGE;
	if (!addr && len && domain_is_memory(info->domain))
		return -EINVAL;
	return domain_has(info->domain, addr, len) ? 0 : -ERANGE;
}

/* One range: nothing is to be added up. */
static int check_range(const struct weir_operand *operand,
		       struct operand_info *info)
{
	int err = check_piece(info, operand->addr, operand->len);

	if (unlikely(err))
		return err;
	info->total = operand->len;
	info->lo = operand->addr;
	info->hi = operand->addr + operand->len;
	info->n_pieces = operand->len != 0;
	return 0;
}

static int check_iov(const struct weir_operand *operand,
		     struct operand_info *info)
{
	uint64_t addr, len;
	uint32_t i;
	int err;

	if (operand->n_iov > WEIR_JOB_PIECES_MAX)
		return -EMSGSIZE;
	if (!operand->iov)
		return -EINVAL;
	for (i = 0; i < operand->n_iov; i++) {
		addr = (uintptr_t)operand->iov[i].iov_base;
		len = operand->iov[i].iov_len;
		err = check_piece(info, addr, len);
		if (err)
			return err;
		if (len)
			widen(info, addr, len);
	}
	return 0;
}

/* The checks common to all operands; the rest of @info is filled in later. */
static int check_any(const struct weir_operand *operand,
		     struct operand_info *info)
{
	info->plain = false;
	info->total = 0;
	info->n_pieces = 0;
	info->lo = UINT64_MAX;
	info->hi = 0;
	if (unlikely(operand->translation && !domain_is_user(info->domain)))
		return -EINVAL;
	return unlikely(operand->reserved0) ? -EINVAL : 0;
}

int operand_check_bufs(const struct weir_operand *operand,
		       enum operand_side side, const struct weir_reactor *r,
		       struct operand_info *info)
{
	int err;

	info->domain = operand_bufs_domain(operand);
	err = check_any(operand, info);
	if (!err)
		err = check_bufs(operand, side, r, info);
	return err ? err : check_rights(info->domain, side);
}

int operand_check_addresses(const struct weir_operand *operand,
			    enum operand_side side, struct operand_info *info)
{
	int err;

	info->domain = operand_domain(operand);
	err = check_any(operand, info);
	if (unlikely(info->domain->import))
		info->import = OPERAND_IMPORTS;
	if (!err)
		err = operand->n_iov ? check_iov(operand, info) :
				       check_range(operand, info);
	return err ? err : check_rights(info->domain, side);
}

bool operand_stale(const struct weir_operand *operand)
{
	const struct weir_mmap *mmap = operand_import(operand);
	const struct weir_buf *buf;

	if (unlikely(mmap))
		return mmap_stale(mmap);
	for (buf = operand->buf; buf; buf = buf->next)
		if (unlikely(mmap_stale(buf->use->mmap)))
			return true;
	return false;
}

/* Bounded by the square of WEIR_JOB_PIECES_MAX. */
static bool pieces_overlap(const struct operand_part *a,
			   const struct operand_part *b, uint64_t n)
{
	uint64_t na = a->info->total < n ? a->info->total : n;
	uint64_t nb = b->info->total < n ? b->info->total : n;
	struct cursor ca, cb;

	for (cursor_init(&ca, a->operand, a->side, na); ca.left;
	     cursor_advance(&ca, ca.len))
		for (cursor_init(&cb, b->operand, b->side, nb); cb.left;
		     cursor_advance(&cb, cb.len))
			if (ca.addr < cb.addr + cb.len &&
			    cb.addr < ca.addr + ca.len)
				return true;
	return false;
}

/* Addresses that are offsets in an mmap mean nothing in another; those of a domain
 * of a user's are its own. */
static bool other_mmaps(const struct operand_part *a,
			const struct operand_part *b)
{
	return !domain_is_memory(a->info->domain) &&
	       !domain_is_user(a->info->domain) && a->operand->buf &&
	       b->operand->buf &&
	       a->operand->buf->use->mmap != b->operand->buf->use->mmap;
}

/* Two domains may be of one file, or of one process, this one too. */
static bool is_same_place(const struct weir_domain *a,
			  const struct weir_domain *b)
{
	struct domain_place pa, pb;

	if (operand_is_like(a, b))
		return true;
	if (a->place || b->place)
		return a->place == b->place;
	if (!a->cls->place || !b->cls->place)
		return false;
	pa = a->cls->place(a);
	pb = b->cls->place(b);
	return pa.what == pb.what && pa.id[0] == pb.id[0] &&
	       pa.id[1] == pb.id[1];
}

bool operand_overlap(const struct operand_part *a, const struct operand_part *b,
		     uint64_t n)
{
	if (a->operand->buf && a->operand->buf == b->operand->buf)
		return true;
	if (a->info->lo >= b->info->hi || b->info->lo >= a->info->hi ||
	    !is_same_place(a->info->domain, b->info->domain) ||
	    other_mmaps(a, b))
		return false;
	return pieces_overlap(a, b, n);
}

/*
 * Mark each buf, because a member of a list does not refer to its head.  Bufs
 * of another reactor are not marked: their holder keeps them until the
 * callback.
 */
void operand_hold_bufs(const struct weir_operand *operand,
		       enum operand_side side, const struct weir_reactor *r)
{
	struct weir_buf *buf = operand->buf;

	if (!buf_is_owned_by(buf, r))
		return;
	buf->refs++;
	for (; buf; buf = buf->next) {
		if (side == OPERAND_SRC)
			buf->readers++;
		else
			buf->writing = 1;
	}
}

void operand_release_bufs(const struct weir_operand *operand,
			  enum operand_side side, const struct weir_reactor *r)
{
	struct weir_buf *buf;

	if (!buf_is_owned_by(operand->buf, r))
		return;
	for (buf = operand->buf; buf; buf = buf->next) {
		if (side == OPERAND_SRC)
			buf->readers--;
		else
			buf->writing = 0;
	}
	buf_put_on_owner(operand->buf);
}

int64_t weir_buf_hold(struct weir_buf *head, struct weir_reactor *r,
		      uint32_t *n)
{
	struct weir_operand operand = weir_operand_buf(head);
	struct operand_info info = { .import = NULL };
	int err = operand_check_bufs(&operand, OPERAND_SRC, r, &info);

	reactor_check_thread(r);
	if (err)
		return why_static(err, "weir_buf_hold: the bufs cannot be used "
				  "now");
	operand_hold_bufs(&operand, OPERAND_SRC, r);
	*n = info.n_pieces;
	return (int64_t)info.total;
}

void weir_buf_release(struct weir_buf *head, struct weir_reactor *r)
{
	const struct weir_operand operand = weir_operand_buf(head);

	reactor_check_thread(r);
	operand_release_bufs(&operand, OPERAND_SRC, r);
}

void operand_commit(const struct weir_operand *operand, enum operand_side side,
		    uint64_t n)
{
	struct weir_buf *buf;
	uint64_t addr, len;

	for (buf = operand->buf; buf; buf = buf->next) {
		buf_piece(buf, side, &addr, &len);
		if (len > n)
			len = n;
		buf->data_len =
			side == OPERAND_OVERWRITE ? len : buf->data_len + len;
		n -= len;
	}
}
