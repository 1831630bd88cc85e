/* SPDX-License-Identifier: CC0-1.0 */
/*
 * Small writes to files, many at a time: what a queue has gathered goes to a
 * worker together.  A write into the page cache is a copy, and on most file
 * systems it may block, so a thread must do it; to hand one over costs more
 * than the copy.  There is one batch at a time, so writes that come meanwhile
 * make the next one.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#include "backing.h"

/* Above this the copy costs more, and several threads are better. */
#define SMALL (32u << 10)

/* Round the page cache the kernel needs no thread. */
bool batch_wants(const struct block_io *io)
{
	return io->len <= SMALL && !io->queue->block->direct;
}

int64_t batch_add(struct block_io *io)
{
	struct block_queue *q = io->queue;

	io->next = NULL;
	*q->gathered_end = io;
	q->gathered_end = &io->next;
	return BLOCK_LATER;
}

/* What is left after the first @done bytes of @io: rarely anything. */
static int64_t write_rest(const struct block_io *io, uint64_t done)
{
	int fd = io->queue->block->fd;
	uint64_t at = 0;

	for (uint32_t i = 0; i < io->n_iov; at += io->iov[i++].iov_len) {
		const struct iovec *v = &io->iov[i];

		while (done < at + v->iov_len) {
			ssize_t n = pwrite(fd, (uint8_t *)v->iov_base +
					       (done - at),
					   v->iov_len - (done - at),
					   (off_t)(io->off + done));

			if (n <= 0)
				return n ? -errno : -EIO;
			done += (uint64_t)n;
		}
	}
	return 0;
}

static int64_t write_one(const struct block_io *io)
{
	ssize_t n = 0;

	if (io->n_iov > 1)
		n = pwritev(io->queue->block->fd, io->iov, (int)io->n_iov,
			    (off_t)io->off);
	if (n < 0)
		return -errno;
	return write_rest(io, (uint64_t)n);
}

/* On a worker, to which they belong as long. */
static int64_t write_all(void *first)
{
	for (struct block_io *io = first; io; io = io->next)
		io->res = write_one(io);
	return 0;
}

/* @err: none of them was tried. */
static void end_all(struct block_io *io, int64_t err)
{
	while (io) {
		struct block_io *next = io->next;

		block_done(io, err ? err : io->res);
		io = next;
	}
}

static void on_written(struct weir_op *op, int64_t res)
{
	struct block_queue *q = weir_container_of(op, struct block_queue,
						  batch_op);
	struct block_io *first = q->batch;

	q->batch = NULL;
	end_all(first, res);
	q->busy--;
	q->settled(q);
}

void block_queue_kick(struct block_queue *q)
{
	struct block_io *first = q->gathered;
	int err = -ECANCELED;

	if (!first || q->batch)
		return;
	q->gathered = NULL;
	q->gathered_end = &q->gathered;
	weir_op_init(&q->batch_op, on_written);
	if (!q->cancelled)
		err = weir_work(q->core->reactor, &q->batch_op, write_all,
				first);
	if (err) {
		end_all(first, err);
		return;
	}
	q->batch = first;
	q->busy++;
}
