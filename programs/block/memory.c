/* SPDX-License-Identifier: CC0-1.0 */
/*
 * Memory: short requests are done at once.  A bit for each block of 64 KiB says
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

#include "backing.h"

/* Longer requests go to a worker: they take a while, and there may be many. */
#define INLINE_MAX MEMORY_BLOCK

static uint64_t n_blocks(const struct block *b)
{
	return (b->size + MEMORY_BLOCK - 1) / MEMORY_BLOCK;
}

static size_t map_bytes(const struct block *b)
{
	return n_blocks(b) * MEMORY_BLOCK;
}

int memory_open(struct block *b)
{
	void *base = mmap(NULL, map_bytes(b), PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (base == MAP_FAILED)
		return -errno;
	b->used = calloc(n_blocks(b) / 64 + 1, sizeof(*b->used));
	if (!b->used) {
		munmap(base, map_bytes(b));
		return -ENOMEM;
	}
	b->base = base;
	return 0;
}

void memory_close(struct block *b)
{
	if (b->base)
		munmap(b->base, map_bytes(b));
	b->base = NULL;
	free(b->used);
	b->used = NULL;
}

bool memory_in_use(const struct block *b, uint64_t chunk)
{
	return atomic_load_explicit(&b->used[chunk / 64],
				    memory_order_relaxed) >> chunk % 64 & 1;
}

static void set_used(const struct block *b, uint64_t off, uint64_t len,
		     bool used)
{
	for (uint64_t i = off / MEMORY_BLOCK;
	     i <= (off + len - 1) / MEMORY_BLOCK; i++) {
		uint64_t bit = UINT64_C(1) << i % 64;

		if (memory_in_use(b, i) == used)
			continue;
		if (used)
			atomic_fetch_or(&b->used[i / 64], bit);
		else
			atomic_fetch_and(&b->used[i / 64], ~bit);
	}
}

static bool any_used(const struct block *b, uint64_t off, uint64_t len)
{
	for (uint64_t i = off / MEMORY_BLOCK;
	     i <= (off + len - 1) / MEMORY_BLOCK; i++)
		if (memory_in_use(b, i))
			return true;
	return false;
}

const uint8_t *block_peek(const struct block *b, uint64_t off, uint32_t len)
{
	return any_used(b, off, len) ? b->base + off : zeroes;
}

void block_expect(const struct block *b, uint64_t off, uint64_t len)
{
	set_used(b, off, len, true);
}

static int64_t work(struct block_io *io, int64_t (*fn)(void *io))
{
	return io->len <= INLINE_MAX ? fn(io) : block_work(io, fn);
}

static int64_t copy_out(void *arg)
{
	const struct block_io *io = arg;
	const struct block *b = io->queue->block;
	bool used = any_used(b, io->off, io->len);
	const uint8_t *from = b->base + io->off;

	for (uint32_t i = 0; i < io->n_iov; i++) {
		const struct iovec *v = &io->iov[i];

		if (used)
			memcpy(v->iov_base, from, v->iov_len);
		else
			memset(v->iov_base, 0, v->iov_len);
		from += v->iov_len;
	}
	return 0;
}

static int64_t memory_read(struct block_io *io)
{
	return work(io, copy_out);
}

static int64_t copy_in(void *arg)
{
	const struct block_io *io = arg;
	const struct block *b = io->queue->block;
	uint8_t *to = b->base + io->off;

	block_expect(b, io->off, io->len);
	for (uint32_t i = 0; i < io->n_iov; i++) {
		memcpy(to, io->iov[i].iov_base, io->iov[i].iov_len);
		to += io->iov[i].iov_len;
	}
	block_expect(b, io->off, io->len);
	return 0;
}

static int64_t memory_write(struct block_io *io)
{
	return work(io, copy_in);
}

static void clear_part(const struct block *b, uint64_t from, uint64_t to)
{
	if (from < to && any_used(b, from, to - from))
		memset(b->base + from, 0, to - from);
}

/* Whole blocks go back to the system; the rest is overwritten. */
static int64_t discard(void *arg)
{
	const struct block_io *io = arg;
	const struct block *b = io->queue->block;
	uint64_t from = io->off + io->done, to = from + io->piece;
	uint64_t first = (from + MEMORY_BLOCK - 1) / MEMORY_BLOCK * MEMORY_BLOCK;
	uint64_t last = to == b->size ? map_bytes(b) :
					to / MEMORY_BLOCK * MEMORY_BLOCK;

	if (first >= last) {
		clear_part(b, from, to);
		return 0;
	}
	clear_part(b, from, first);
	set_used(b, first, last - first, false);
	if (madvise(b->base + first, last - first, MADV_DONTNEED))
		memset(b->base + first, 0, last - first);
	clear_part(b, last, to);
	return 0;
}

/* For users that want the memory committed, as far as the system promises. */
static int64_t fill(void *arg)
{
	const struct block_io *io = arg;
	const struct block *b = io->queue->block;

	memset(b->base + io->off + io->done, 0, io->piece);
	set_used(b, io->off + io->done, io->piece, true);
	return 0;
}

static int64_t memory_trim(struct block_io *io)
{
	return work(io, discard);
}

static int64_t memory_zero(struct block_io *io)
{
	if (!(io->flags & BLOCK_NO_HOLE))
		return work(io, discard);
	return io->flags & BLOCK_FAST ? -EOPNOTSUPP : work(io, fill);
}

static int64_t memory_nothing(struct block_io *io)
{
	(void)io;
	return 0;
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
