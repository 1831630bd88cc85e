/* SPDX-License-Identifier: CC0-1.0 */
/* What is allocated: the answer to a block status, as it will be sent. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <unistd.h>

#include "weir-nbd.h"

/* @state holds from @from to @to; false: there is capacity for no more. */
static bool add_extent(struct request *rq, uint64_t from, uint64_t to,
		       uint32_t state)
{
	uint8_t *p = rq->data + 8 * rq->extents;

	p = put32(p, (uint32_t)(to - from));
	put32(p, state);
	rq->extents++;
	return rq->extents < EXTENTS_MAX &&
	       !(rq->flags & NBD_CMD_FLAG_REQ_ONE);
}

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
static uint64_t extent_end(const struct export *x, uint64_t off, uint64_t end,
			   uint32_t *state)
{
	uint64_t block = x->block_min;
	uint64_t data = data_end(x->fd, off, end), hole;

	*state = 0;
	if (data > off)
		return (data + block - 1) & ~(block - 1);
	hole = hole_end(x->fd, off, end);
	if (hole == off)
		return end;
	if (hole < off + block)
		return off + block;
	*state = NBD_STATE_HOLE | NBD_STATE_ZERO;
	return hole & ~(block - 1);
}

/* On a worker. */
int64_t status_work(void *arg)
{
	struct request *rq = arg;
	uint64_t off = rq->off, end = rq->off + rq->len;
	bool more = true;

	rq->extents = 0;
	while (off < end && more) {
		uint32_t state;
		uint64_t next = extent_end(rq->conn->export, off, end, &state);

		more = add_extent(rq, off, next, state);
		off = next;
	}
	return 0;
}

/* Where nothing is known of holes. */
void plain_status(struct request *rq)
{
	rq->extents = 0;
	add_extent(rq, rq->off, rq->off + rq->len, 0);
	request_done(rq, 0);
}

void memory_status(struct request *rq)
{
	const struct export *x = rq->conn->export;
	uint64_t off = rq->off, end = rq->off + rq->len;
	bool more = true;

	rq->extents = 0;
	while (off < end && more) {
		bool used = memory_in_use(x, off / MEMORY_BLOCK);
		uint64_t block = off / MEMORY_BLOCK + 1;
		uint64_t next;

		while (block * MEMORY_BLOCK < end &&
		       memory_in_use(x, block) == used)
			block++;
		next = block * MEMORY_BLOCK < end ? block * MEMORY_BLOCK : end;
		more = add_extent(rq, off, next, used ? 0 :
				  NBD_STATE_HOLE | NBD_STATE_ZERO);
		off = next;
	}
	request_done(rq, 0);
}
