/* SPDX-License-Identifier: CC0-1.0 */
/* Requests to a file or a block device: weir's operations, and a worker. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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

/* Round the page cache pieces are whole sectors, but those of a virtual machine
 * may be cut anywhere. */
static bool is_unaligned(const struct block_io *io)
{
	const struct block *b = io->queue->block;
	uintptr_t mask = b->block_min - 1;

	for (uint32_t i = 0; i < io->n_iov && b->direct; i++)
		if (((uintptr_t)io->iov[i].iov_base | io->iov[i].iov_len) &
		    mask)
			return true;
	return false;
}

/* Copy the pieces' @len bytes at @off to @p, or from there. */
static void copy(const struct block_io *io, uint64_t off, uint8_t *p,
		 uint64_t len)
{
	for (const struct iovec *v = io->iov; len; v++) {
		uint64_t here = off < v->iov_len ? v->iov_len - off : 0;
		uint8_t *at = (uint8_t *)v->iov_base + off;

		off -= here ? off : v->iov_len;
		if (here > len)
			here = len;
		if (here && io->kind == BLOCK_READ)
			memcpy(at, p, here);
		else if (here)
			memcpy(p, at, here);
		p += here;
		len -= here;
	}
}

static int64_t move_copied(const struct block_io *io, uint64_t done,
			   uint8_t *p, uint64_t len)
{
	struct block *b = io->queue->block;
	ssize_t n;

	if (io->kind == BLOCK_READ) {
		n = pread(b->fd, p, len, (off_t)(io->off + done));
		if (n >= 0 && (uint64_t)n < len)
			return truncated(b);
		if (n >= 0)
			copy(io, done, p, len);
	} else {
		copy(io, done, p, len);
		n = pwrite(b->fd, p, len, (off_t)(io->off + done));
		if (n >= 0 && (uint64_t)n < len)
			return -EIO;
	}
	return n < 0 ? -errno : 0;
}

/* On a worker: aligned memory is in between. */
static int64_t move_unaligned(void *arg)
{
	const struct block_io *io = arg;
	uint8_t *p = aligned_alloc(BLOCK_MIN_MAX, BLOCK_PIECE);
	int64_t res = p ? 0 : -ENOMEM;

	for (uint64_t done = 0; done < io->len && !res; done += BLOCK_PIECE) {
		uint64_t rest = io->len - done;

		res = move_copied(io, done, p,
				  rest < BLOCK_PIECE ? rest : BLOCK_PIECE);
	}
	free(p);
	return res;
}

static int64_t file_read(struct block_io *io)
{
	int fd = io->queue->block->fd;
	int err;

	if (is_unaligned(io))
		return block_work(io, move_unaligned);
	weir_op_init(&io->op, on_read);
	if (io->n_iov == 1)
		err = weir_read(reactor(io), &io->op, fd, io->iov->iov_base,
				io->len, io->off);
	else
		err = weir_readv(reactor(io), &io->op, fd, io->iov, io->n_iov,
				 io->off);
	return block_started(io, err);
}

static int64_t write_to(struct block_io *io, int fd)
{
	int err;

	weir_op_init(&io->op, block_on_op);
	if (io->n_iov == 1)
		err = weir_write(reactor(io), &io->op, fd, io->iov->iov_base,
				 io->len, io->off);
	else
		err = weir_writev(reactor(io), &io->op, fd, io->iov, io->n_iov,
				  io->off);
	return block_started(io, err);
}

/*
 * A durable write may fail by an error of an earlier one that the kernel could not
 * write back.  The kernel reports that once for each open file: a flush, by
 * another one, still reports it.
 */
static int64_t file_write(struct block_io *io)
{
	const struct block *b = io->queue->block;

	if (is_unaligned(io))
		return block_work(io, move_unaligned);
	if (io->flags & BLOCK_FUA) {
		io->durable = true;
		return write_to(io, b->durable_fd);
	}
	return batch_wants(io) ? batch_add(io) : write_to(io, b->fd);
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
