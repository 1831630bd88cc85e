/* SPDX-License-Identifier: CC0-1.0 */
/*
 * Small writes to files, many at a time: what one receive has brought goes to a
 * worker together.  A write into the page cache is a copy, and on most file
 * systems it may block, so a thread must do it; to hand one over costs more
 * than the copy.  There is one batch at a time, so writes that come meanwhile
 * make the next one.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <unistd.h>

#include <weir/file.h>

#include "weir-nbd.h"

/* Above this the copy costs more, and several threads are better. */
#define SMALL (32u << 10)

/* Round the page cache the kernel needs no thread. */
bool batch_wants(const struct request *rq)
{
	return rq->len <= SMALL && !rq->conn->export->direct;
}

void batch_add(struct request *rq)
{
	struct batch *b = &rq->conn->batch;

	rq->next = NULL;
	*b->end = rq;
	b->end = &rq->next;
}

static int64_t write_one(const struct request *rq)
{
	int fd = rq->conn->export->fd;
	uint32_t done = 0;

	while (done < rq->len) {
		ssize_t n = pwrite(fd, rq->data + done, rq->len - done,
				   (off_t)(rq->off + done));

		if (n <= 0)
			return n ? -errno : -EIO;
		done += (uint32_t)n;
	}
	return 0;
}

/* On a worker, to which they belong as long. */
static int64_t write_all(void *first)
{
	for (struct request *rq = first; rq; rq = rq->next)
		rq->res = write_one(rq);
	return 0;
}

/* @err: none of them was tried. */
static void end_all(struct request *rq, int64_t err)
{
	while (rq) {
		struct request *next = rq->next;

		request_done(rq, err ? err : rq->res);
		rq = next;
	}
}

static void on_written(struct weir_op *op, int64_t res)
{
	struct batch *b = weir_container_of(op, struct batch, op);
	struct conn *c = weir_container_of(b, struct conn, batch);
	struct request *first = b->under_way;

	b->under_way = NULL;
	c->busy--;
	end_all(first, res);
	conn_pump(c);
}

/* What has gathered, unless the last batch is still being written. */
void batch_begin(struct conn *c)
{
	struct batch *b = &c->batch;
	struct request *first = b->first;
	int err;

	if (!first || b->under_way || c->state == CLOSING)
		return;
	batch_init(b);
	weir_op_init(&b->op, on_written);
	err = weir_work(c->core->reactor, &b->op, write_all, first);
	if (err) {
		end_all(first, err);
		return;
	}
	b->under_way = first;
	c->busy++;
}

void batch_init(struct batch *b)
{
	b->first = NULL;
	b->end = &b->first;
}
