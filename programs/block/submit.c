/* SPDX-License-Identifier: CC0-1.0 */
/* Requests: run slice by slice, one slow one at a time, and ended once. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <weir/file.h>

#include "backing.h"

/* They may take long, and a short message from the client is enough to start
 * one. */
static bool is_slow(const struct block_io *io)
{
	return io->kind == BLOCK_TRIM || io->kind == BLOCK_CACHE ||
	       io->kind == BLOCK_ZERO;
}

static bool changes(const struct block_io *io)
{
	return io->kind == BLOCK_WRITE || io->kind == BLOCK_TRIM ||
	       io->kind == BLOCK_ZERO;
}

int block_queue_begin(struct block_queue *q, struct block *b,
		      struct block_core *core, uint32_t depth,
		      void (*settled)(struct block_queue *q))
{
	*q = (struct block_queue){ .block = b, .core = core,
				   .settled = settled };
	q->slow_end = &q->slow;
	q->gathered_end = &q->gathered;
	return b->plugin.open ? domain_queue_begin(q, depth) : 0;
}

void block_queue_end(struct block_queue *q)
{
	free(q->jobs);
	free(q->free_jobs);
	q->jobs = NULL;
	q->free_jobs = NULL;
}

/*
 * The kernel reports a failed write-back once.  It is then unknown which writes
 * are lost, so no flush succeeds afterwards.
 */
static int64_t flushed(struct block_io *io, int64_t res)
{
	struct block *b = io->queue->block;
	bool lost;

	io->flushing = false;
	lost = block_is_loss(res);
	if (lost && !atomic_exchange(&b->lost, (int)res))
		fprintf(stderr, "%s: %s: %s\n", b->program, block_title(b),
			strerror((int)-res));
	return res < 0 ? res : atomic_load(&b->lost);
}

static uint32_t smaller(uint64_t a, uint32_t b)
{
	return a < b ? (uint32_t)a : b;
}

/* The bytes that are due next. */
static void next_slice(struct block_io *io)
{
	uint64_t rest = io->len - io->done;

	if (!is_slow(io))
		io->piece = (uint32_t)io->len;
	else if (io->by_hand)
		io->piece = smaller(rest, BLOCK_PIECE);
	else
		io->piece = smaller(rest, BLOCK_SLICE - (uint32_t)
				    ((io->off + io->done) % BLOCK_SLICE));
}

static int64_t run(struct block_io *io)
{
	const struct backing *b = io->queue->block->backing;

	if (io->flushing)
		return b->flush(io);
	switch (io->kind) {
	case BLOCK_READ:
		return b->read(io);
	case BLOCK_WRITE:
		return b->write(io);
	case BLOCK_TRIM:
		return b->trim(io);
	case BLOCK_CACHE:
		return b->cache(io);
	case BLOCK_ZERO:
		return b->zero(io);
	default:
		return b->status(io);
	}
}

/* A slice is done, well or badly.  Returns BLOCK_LATER if there is another one
 * to run, or how it all has ended. */
static int64_t step(struct block_io *io, int64_t res)
{
	if (io->flushing)
		return flushed(io, res);
	if (res < 0)
		return res;
	io->done += io->piece;
	if (io->queue->cancelled && io->done < io->len)
		return -ECANCELED;
	if (is_slow(io) && io->done < io->len) {
		next_slice(io);
		return BLOCK_LATER;
	}
	if (!(io->flags & BLOCK_FUA) || !changes(io))
		return 0;
	if (io->durable)
		return flushed(io, 0);
	io->flushing = true;
	return BLOCK_LATER;
}

/* Run slices until one has to be waited for. */
static int64_t go(struct block_io *io)
{
	int64_t res;

	do {
		res = run(io);
		if (res == BLOCK_LATER)
			return res;
		res = step(io, res);
	} while (res == BLOCK_LATER);
	return res;
}

static int64_t begin(struct block_io *io)
{
	if (io->queue->cancelled)
		return -ECANCELED;
	next_slice(io);
	return go(io);
}

/* Returns the one that is to run after @io, or NULL. */
static struct block_io *after_slow(const struct block_io *io)
{
	struct block_queue *q = io->queue;

	if (io != q->slow)
		return NULL;
	q->slow = io->next;
	if (!q->slow)
		q->slow_end = &q->slow;
	return q->slow;
}

int64_t block_submit(struct block_io *io)
{
	struct block_queue *q = io->queue;
	int64_t res;

	io->by_hand = false;
	io->flushing = io->kind == BLOCK_FLUSH;
	io->durable = false;
	io->done = 0;
	io->next = NULL;
	io->job = NULL;
	if (!is_slow(io))
		return begin(io);
	*q->slow_end = io;
	q->slow_end = &io->next;
	if (io != q->slow)
		return BLOCK_LATER;
	res = begin(io);
	if (res != BLOCK_LATER)
		after_slow(io);
	return res;
}

/* The end of @io, and of those behind it that need no waiting. */
static void finish(struct block_io *io, int64_t res)
{
	while (io) {
		struct block_io *next = after_slow(io);

		io->fn(io, res);
		io = next;
		res = io ? begin(io) : 0;
		if (res == BLOCK_LATER)
			return;
	}
}

/* What began by BLOCK_LATER is done, of which there may be more. */
void block_done(struct block_io *io, int64_t res)
{
	res = step(io, res);
	if (res == BLOCK_LATER)
		res = go(io);
	if (res != BLOCK_LATER)
		finish(io, res);
}

/* An operation has ended; the queue may be gone afterwards. */
void block_ended(struct block_io *io, int64_t res)
{
	struct block_queue *q = io->queue;

	q->busy--;
	block_done(io, res);
	q->settled(q);
}

void block_queue_cancel(struct block_queue *q)
{
	q->cancelled = true;
	domain_cancel(q);
}

int64_t block_started(struct block_io *io, int err)
{
	if (err)
		return err;
	io->queue->busy++;
	return BLOCK_LATER;
}

void block_on_op(struct weir_op *op, int64_t res)
{
	block_ended(weir_container_of(op, struct block_io, op), res);
}

int64_t block_work(struct block_io *io, int64_t (*fn)(void *io))
{
	weir_op_init(&io->op, block_on_op);
	return block_started(io, weir_work(io->queue->core->reactor, &io->op,
					   fn, io));
}
