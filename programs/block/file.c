/* SPDX-License-Identifier: CC0-1.0 */
/* Requests to a file or a block device: weir's operations, and a worker. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>

#include <weir/file.h>

#include "backing.h"

/* What there is to write where the file system has no other way. */
_Alignas(BLOCK_MIN_MAX) uint8_t zeroes[BLOCK_PIECE];

/* The file has become shorter: its data there are lost. */
static int truncated(struct block *b)
{
	if (!atomic_exchange(&b->truncated, true))
		fprintf(stderr, "%s: %s: it has become shorter\n",
			b->program, block_title(b));
	return -EIO;
}

static void on_read(struct weir_op *op, int64_t res)
{
	struct block_io *io = weir_container_of(op, struct block_io, op);

	if (res >= 0 && (uint64_t)res < io->len)
		res = truncated(io->queue->block);
	block_ended(io, res);
}

static struct weir_reactor *reactor(const struct block_io *io)
{
	return io->queue->core->reactor;
}

static int64_t file_read(struct block_io *io)
{
	int fd = io->queue->block->fd;
	int err;

	weir_op_init(&io->op, on_read);
	if (io->n_iov == 1)
		err = weir_read(reactor(io), &io->op, fd, io->iov->iov_base,
				io->len, io->off);
	else
		err = weir_readv(reactor(io), &io->op, fd, io->iov, io->n_iov,
				 io->off);
	return block_started(io, err);
}

/* @io->op is initialized. */
static int64_t start_write(struct block_io *io)
{
	int fd = io->queue->block->fd;
	int err;

	if (io->n_iov == 1)
		err = weir_write(reactor(io), &io->op, fd, io->iov->iov_base,
				 io->len, io->off);
	else
		err = weir_writev(reactor(io), &io->op, fd, io->iov, io->n_iov,
				  io->off);
	return block_started(io, err);
}

static int64_t plain_write(struct block_io *io)
{
	weir_op_init(&io->op, block_on_op);
	return start_write(io);
}

/*
 * A write that was to be safe at its end.  An error may be that of this write, or
 * of an earlier one that the kernel could not write back, of which it tells once:
 * so it is written again and flushed, and only an error of that write itself
 * loses nothing.
 */
static void on_safe_write(struct weir_op *op, int64_t res)
{
	struct block_io *io = weir_container_of(op, struct block_io, op);

	if (res >= 0) {
		io->safe = true;
		block_ended(io, res);
		return;
	}
	if (block_is_loss(res))
		io->sync_err = (int)res;
	io->queue->busy--;
	res = plain_write(io);
	if (res != BLOCK_LATER) {
		io->queue->busy++;
		block_ended(io, res);
	}
}

static int64_t file_write(struct block_io *io)
{
	if (io->flags & BLOCK_FUA) {
		weir_op_init(&io->op, on_safe_write);
		weir_op_set_rw(&io->op, WEIR_RW_DSYNC, 0);
		return start_write(io);
	}
	return batch_wants(io) ? batch_add(io) : plain_write(io);
}

static int64_t file_flush(struct block_io *io)
{
	weir_op_init(&io->op, block_on_op);
	return block_started(io, weir_fsync(reactor(io), &io->op,
					    io->queue->block->fd,
					    WEIR_FSYNC_DATA));
}

static int64_t allocate(struct block_io *io, weir_op_fn *fn, int how)
{
	weir_op_init(&io->op, fn);
	return block_started(io, weir_fallocate(reactor(io), &io->op,
						io->queue->block->fd, how,
						io->off + io->done,
						io->piece));
}

/* The file system knows no holes; or a device has none of that size, for what
 * it does to a range it does to whole sectors. */
static bool cannot(int64_t res)
{
	return res == -EOPNOTSUPP || res == -EINVAL;
}

/* A trim is a hint: where there is no such thing, nothing is done. */
static void on_trim(struct weir_op *op, int64_t res)
{
	block_on_op(op, cannot(res) ? 0 : res);
}

static int64_t file_trim(struct block_io *io)
{
	return allocate(io, on_trim,
			FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
}

/* What the client said that it will need; on a worker. */
static int64_t advise(void *arg)
{
	const struct block_io *io = arg;

	posix_fadvise(io->queue->block->fd, (off_t)(io->off + io->done),
		      (off_t)io->piece, POSIX_FADV_WILLNEED);
	return 0;
}

static int64_t file_cache(struct block_io *io)
{
	return block_work(io, advise);
}

static int64_t write_zeroes(struct block_io *io)
{
	weir_op_init(&io->op, block_on_op);
	return block_started(io, weir_write(reactor(io), &io->op,
					    io->queue->block->fd, zeroes,
					    io->piece, io->off + io->done));
}

/* Zeroes without writing them, or else by hand, unless it was to be fast: then
 * this is found by the first slice, or only the odd end is left. */
static void on_zero(struct weir_op *op, int64_t res)
{
	struct block_io *io = weir_container_of(op, struct block_io, op);
	uint64_t rest = io->len - io->done;

	if (!cannot(res) || (io->flags & BLOCK_FAST && !io->done)) {
		block_ended(io, cannot(res) ? -EOPNOTSUPP : res);
		return;
	}
	io->by_hand = true;
	io->piece = rest < BLOCK_PIECE ? (uint32_t)rest : BLOCK_PIECE;
	io->queue->busy--;
	res = write_zeroes(io);
	if (res != BLOCK_LATER) {
		io->queue->busy++;
		block_ended(io, res);
	}
}

static int64_t file_zero(struct block_io *io)
{
	if (io->by_hand)
		return write_zeroes(io);
	return allocate(io, on_zero, io->flags & BLOCK_NO_HOLE ?
			FALLOC_FL_ZERO_RANGE :
			FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE);
}

static int64_t file_status(struct block_io *io)
{
	return block_work(io, status_work);
}

const struct backing file_backing = {
	.read = file_read,
	.write = file_write,
	.flush = file_flush,
	.trim = file_trim,
	.cache = file_cache,
	.zero = file_zero,
	.status = file_status,
};
