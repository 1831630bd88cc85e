/* SPDX-License-Identifier: CC0-1.0 */
/*
 * Memory: requests are done at once.  A bit for each block of 64 KiB says
 * whether it was ever written, so that reading what is not there takes no
 * memory.
 *
 * Several cores may work on a block.  A writer sets the bit before bytes come,
 * for what there is of a write that is cut short stays, and once more when they
 * are there; a discard clears it before they go.  So a bit that is clear is
 * right unless the block is written at that very moment.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "weir-nbd.h"

/* Longer requests go to a worker: they take a while, and there may be many. */
#define INLINE_MAX MEMORY_BLOCK

static uint64_t n_blocks(const struct export *x)
{
	return (x->size + MEMORY_BLOCK - 1) / MEMORY_BLOCK;
}

static size_t map_bytes(const struct export *x)
{
	return n_blocks(x) * MEMORY_BLOCK;
}

int memory_open(struct export *x)
{
	void *base = mmap(NULL, map_bytes(x), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (base == MAP_FAILED)
		return -errno;
	x->used = calloc(n_blocks(x) / 64 + 1, sizeof(*x->used));
	if (!x->used) {
		munmap(base, map_bytes(x));
		return -ENOMEM;
	}
	x->base = base;
	return 0;
}

void memory_close(struct export *x)
{
	if (x->base)
		munmap(x->base, map_bytes(x));
	x->base = NULL;
	free(x->used);
	x->used = NULL;
}

bool memory_in_use(const struct export *x, uint64_t block)
{
	return atomic_load_explicit(&x->used[block / 64],
				    memory_order_relaxed) >> block % 64 & 1;
}

static void set_used(const struct export *x, uint64_t off, uint64_t len,
		     bool used)
{
	for (uint64_t b = off / MEMORY_BLOCK;
	     b <= (off + len - 1) / MEMORY_BLOCK; b++) {
		uint64_t bit = UINT64_C(1) << b % 64;

		if (memory_in_use(x, b) == used)
			continue;
		if (used)
			atomic_fetch_or(&x->used[b / 64], bit);
		else
			atomic_fetch_and(&x->used[b / 64], ~bit);
	}
}

static bool any_used(const struct export *x, uint64_t off, uint64_t len)
{
	for (uint64_t b = off / MEMORY_BLOCK;
	     b <= (off + len - 1) / MEMORY_BLOCK; b++)
		if (memory_in_use(x, b))
			return true;
	return false;
}

static void memory_read(struct request *rq)
{
	const struct export *x = rq->conn->export;
	uint64_t off = rq->off + rq->done;

	rq->data = any_used(x, off, rq->piece) ? x->base + off : zeroes;
	request_done(rq, 0);
}

void memory_expect(const struct export *x, uint64_t off, uint64_t len)
{
	set_used(x, off, len, true);
}

/* The bytes are there already; see next_piece(). */
static void memory_write(struct request *rq)
{
	const struct export *x = rq->conn->export;

	set_used(x, rq->off + rq->done, rq->piece, true);
	request_done(rq, 0);
}

static void clear_part(const struct export *x, uint64_t from, uint64_t to)
{
	if (from < to && any_used(x, from, to - from))
		memset(x->base + from, 0, to - from);
}

/* Whole blocks go back to the system; the rest is overwritten. */
static int64_t discard(void *arg)
{
	const struct request *rq = arg;
	const struct export *x = rq->conn->export;
	uint64_t from = rq->off + rq->done, to = from + rq->piece;
	uint64_t first = (from + MEMORY_BLOCK - 1) / MEMORY_BLOCK * MEMORY_BLOCK;
	uint64_t last = to == x->size ? map_bytes(x) :
					to / MEMORY_BLOCK * MEMORY_BLOCK;

	if (first >= last) {
		clear_part(x, from, to);
		return 0;
	}
	clear_part(x, from, first);
	set_used(x, first, last - first, false);
	if (madvise(x->base + first, last - first, MADV_DONTNEED))
		memset(x->base + first, 0, last - first);
	clear_part(x, last, to);
	return 0;
}

/* For users that want the memory committed, as far as the system promises. */
static int64_t fill(void *arg)
{
	const struct request *rq = arg;
	const struct export *x = rq->conn->export;

	memset(x->base + rq->off + rq->done, 0, rq->piece);
	set_used(x, rq->off + rq->done, rq->piece, true);
	return 0;
}

static void on_worked(struct weir_op *op, int64_t res)
{
	struct request *rq = weir_container_of(op, struct request, op);
	struct conn *c = rq->conn;

	c->busy--;
	request_done(rq, res);
	conn_pump(c);
}

static void work(struct request *rq, int64_t (*fn)(void *request))
{
	struct conn *c = rq->conn;
	int err;

	if (rq->len <= INLINE_MAX) {
		request_done(rq, fn(rq));
		return;
	}
	weir_op_init(&rq->op, on_worked);
	err = weir_work(c->core->reactor, &rq->op, fn, rq);
	if (err)
		request_done(rq, err);
	else
		c->busy++;
}

static void memory_trim(struct request *rq)
{
	work(rq, discard);
}

static void memory_zero(struct request *rq)
{
	if (!(rq->flags & NBD_CMD_FLAG_NO_HOLE))
		work(rq, discard);
	else if (rq->flags & NBD_CMD_FLAG_FAST_ZERO)
		request_done(rq, -EOPNOTSUPP);
	else
		work(rq, fill);
}

static void memory_nothing(struct request *rq)
{
	request_done(rq, 0);
}

const struct backing memory_backing = {
	.read = memory_read,
	.write = memory_write,
	.flush = memory_nothing,
	.trim = memory_trim,
	.cache = memory_nothing,
	.zero = memory_zero,
	.status = memory_status,
};
