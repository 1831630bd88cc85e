/* SPDX-License-Identifier: CC0-1.0 */
/* What is allocated: extents of holes and data. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <unistd.h>

#include "backing.h"

static uint64_t smaller(off_t a, uint64_t b)
{
	return (uint64_t)a < b ? (uint64_t)a : b;
}

/* The end of the data at @off; @off itself: there is a hole. */
static uint64_t data_end(int fd, uint64_t off, uint64_t end)
{
	off_t hole = lseek(fd, (off_t)off, SEEK_HOLE);

	return hole < 0 ? end : smaller(hole, end);
}

/* The end of the hole at @off; @off itself: there is none, or not any more, or
 * it is unknown.  A file that has become shorter has no hole behind its end. */
static uint64_t hole_end(int fd, uint64_t off, uint64_t end)
{
	off_t data = lseek(fd, (off_t)off, SEEK_DATA);

	if (data < 0 && errno == ENXIO)
		data = lseek(fd, 0, SEEK_END);
	return data < (off_t)off ? off : smaller(data, end);
}

/*
 * The end of what begins at @off, in whole blocks: of a block that is a hole in
 * part only the rest counts.  Others may write meanwhile, and some file systems
 * do not know: what is not known to be a hole has data, because a copy leaves
 * holes out.
 */
static uint64_t extent_end(const struct block *b, uint64_t off, uint64_t end,
			   bool *is_hole)
{
	uint64_t block = b->block_min;
	uint64_t data = data_end(b->fd, off, end), hole;

	*is_hole = false;
	if (data > off)
		return (data + block - 1) & ~(block - 1);
	hole = hole_end(b->fd, off, end);
	if (hole == off)
		return end;
	if (hole < off + block)
		return off + block;
	*is_hole = true;
	return hole & ~(block - 1);
}

/* On a worker. */
int64_t status_work(void *arg)
{
	struct block_io *io = arg;
	uint64_t off = io->off, end = io->off + io->len;
	bool more = true;

	while (off < end && more) {
		bool is_hole;
		uint64_t next = extent_end(io->queue->block, off, end,
					   &is_hole);

		more = io->extent(io, next - off, is_hole);
		off = next;
	}
	return 0;
}

/* Where nothing is known of holes. */
int64_t plain_status(struct block_io *io)
{
	io->extent(io, io->len, false);
	return 0;
}

int64_t memory_status(struct block_io *io)
{
	const struct block *b = io->queue->block;
	uint64_t off = io->off, end = io->off + io->len;
	bool more = true;

	while (off < end && more) {
		bool used = memory_in_use(b, off / MEMORY_BLOCK);
		uint64_t chunk = off / MEMORY_BLOCK + 1;
		uint64_t next;

		while (chunk * MEMORY_BLOCK < end &&
		       memory_in_use(b, chunk) == used)
			chunk++;
		next = chunk * MEMORY_BLOCK < end ? chunk * MEMORY_BLOCK : end;
		more = io->extent(io, next - off, !used);
		off = next;
	}
	return 0;
}
