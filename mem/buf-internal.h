/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEIR_MEM_BUF_INTERNAL_H
#define WEIR_MEM_BUF_INTERNAL_H

/*
 * A buf, and the stock it goes home to.
 *
 *	FREE    in its stock's list, by next
 *	HEAD    out; refs >= 1; the list hangs on it by next, last is its end
 *	MEMBER  out, in a list whose head has the references
 */

#include <stdbool.h>

#include <weir/buf.h>

#include "base/check.h"
#include "mem/mmap-internal.h"
#include "reactor/reactor-internal.h"

enum buf_state {
	BUF_FREE,
	BUF_HEAD,
	BUF_MEMBER,
};

struct weir_buf {
	char *data;
	size_t data_len;
	char *addr;
	size_t len;
	struct weir_buf *next;
	struct weir_buf *last;	/* Of the list; valid in its head. */
	struct mmap_use *use;
	struct buf_stock *stock;
	int32_t index;		/* Registered buffer, plus 1; 0: none. */
	uint16_t refs;
	uint8_t state;		/* enum buf_state */
	uint8_t writing;	/* In a head: a job fills the list. */
	uint32_t readers;	/* In a head: jobs that read the list. */
};

/*
 * The free descriptors of an inventory or a pool.  A stack: what came back last
 * is still in the cache.
 */
struct buf_stock {
	struct weir_reactor *r;
	struct weir_buf *free;
	uint64_t n_free;
	uint64_t total;

	/* One came back and is FREE, but not in the list: take it.  NULL: just
	 * put it there. */
	void (*returned)(struct buf_stock *stock, struct weir_buf *buf);
};

static inline void stock_push(struct buf_stock *stock, struct weir_buf *buf)
{
	buf->next = stock->free;
	stock->free = buf;
	stock->n_free++;
}

/* FREE -> HEAD, counted as out. */
static inline void buf_out(struct weir_buf *buf)
{
	buf->state = BUF_HEAD;
	buf->refs = 1;
	buf->next = NULL;
	buf->last = buf;
	mmap_use_count(buf->use, 1);
}

/* The first of the stock, which has one; still FREE. */
static inline struct weir_buf *stock_pop(struct buf_stock *stock)
{
	struct weir_buf *buf = stock->free;

	stock->free = buf->next;
	stock->n_free--;
	return buf;
}

static inline size_t buf_tailroom(const struct weir_buf *buf)
{
	return buf->len - (size_t)(buf->data - buf->addr) - buf->data_len;
}

#endif /* WEIR_MEM_BUF_INTERNAL_H */
