/* SPDX-License-Identifier: CC0-1.0 */
/* Requests to a file or a block device: weir's operations, and a worker. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>

#include <weir/file.h>

#include "weir-nbd.h"

/* What there is to write where the file system has no other way. */
_Alignas(CELL) uint8_t zeroes[PIECE];

/* @err: of the start.  If there was none, @fn comes later. */
static void started(struct request *rq, int err)
{
	if (err)
		request_done(rq, err);
	else
		rq->conn->busy++;
}

static void on_done(struct weir_op *op, int64_t res)
{
	struct request *rq = weir_container_of(op, struct request, op);
	struct conn *c = rq->conn;

	c->busy--;
	request_done(rq, res);
	conn_pump(c);
}

/* The file has become shorter: its data there are lost. */
static int truncated(struct export *x)
{
	if (!atomic_exchange(&x->truncated, true))
		fprintf(stderr, "weir-nbd: %s: it has become shorter\n",
			export_title(x));
	return -EIO;
}

static void on_read(struct weir_op *op, int64_t res)
{
	const struct request *rq = weir_container_of(op, struct request, op);

	if (res >= 0 && res < rq->piece)
		res = truncated(rq->conn->export);
	on_done(op, res);
}

static void file_read(struct request *rq)
{
	struct conn *c = rq->conn;

	weir_op_init(&rq->op, on_read);
	started(rq, weir_read(c->core->reactor, &rq->op, c->export->fd,
			      rq->data, rq->piece, rq->off + rq->done));
}

static void file_write(struct request *rq)
{
	struct conn *c = rq->conn;

	if (!rq->by_hand && batch_wants(rq)) {
		batch_add(rq);
		return;
	}
	weir_op_init(&rq->op, on_done);
	started(rq, weir_write(c->core->reactor, &rq->op, c->export->fd,
			       rq->by_hand ? zeroes : rq->data, rq->piece,
			       rq->off + rq->done));
}

static void file_flush(struct request *rq)
{
	struct conn *c = rq->conn;

	weir_op_init(&rq->op, on_done);
	started(rq, weir_fsync(c->core->reactor, &rq->op, c->export->fd,
			       WEIR_FSYNC_DATA));
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
	on_done(op, cannot(res) ? 0 : res);
}

static void file_trim(struct request *rq)
{
	struct conn *c = rq->conn;

	weir_op_init(&rq->op, on_trim);
	started(rq, weir_fallocate(c->core->reactor, &rq->op, c->export->fd,
				   FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				   rq->off + rq->done, rq->piece));
}

/* What the client said that it will need; on a worker. */
static int64_t advise(void *arg)
{
	const struct request *rq = arg;

	posix_fadvise(rq->conn->export->fd, (off_t)(rq->off + rq->done),
		      (off_t)rq->piece, POSIX_FADV_WILLNEED);
	return 0;
}

static void file_cache(struct request *rq)
{
	weir_op_init(&rq->op, on_done);
	started(rq, weir_work(rq->conn->core->reactor, &rq->op, advise, rq));
}

/* Zeroes without writing them, or else by hand, unless it was to be fast: then
 * this is found by the first slice, or only the odd end is left. */
static void on_zero(struct weir_op *op, int64_t res)
{
	struct request *rq = weir_container_of(op, struct request, op);
	struct conn *c = rq->conn;
	uint32_t rest = rq->len - rq->done;

	if (!cannot(res) ||
	    (rq->flags & NBD_CMD_FLAG_FAST_ZERO && !rq->done)) {
		on_done(op, cannot(res) ? -EOPNOTSUPP : res);
		return;
	}
	c->busy--;
	rq->by_hand = true;
	rq->piece = rest < PIECE ? rest : PIECE;
	file_write(rq);
	conn_pump(c);
}

static void file_zero(struct request *rq)
{
	struct conn *c = rq->conn;
	int how = rq->flags & NBD_CMD_FLAG_NO_HOLE ?
		  FALLOC_FL_ZERO_RANGE :
		  FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;

	if (rq->by_hand) {
		file_write(rq);
		return;
	}
	weir_op_init(&rq->op, on_zero);
	started(rq, weir_fallocate(c->core->reactor, &rq->op, c->export->fd,
				   how, rq->off + rq->done, rq->piece));
}

static void file_status(struct request *rq)
{
	weir_op_init(&rq->op, on_done);
	started(rq, weir_work(rq->conn->core->reactor, &rq->op, status_work,
			      rq));
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
