/* SPDX-License-Identifier: CC0-1.0 */
/*
 * A queue of the device, on a thread of its own, as the driver wants it.  For each tag a
 * command is with the driver, which ends it when there is a request with that tag; the
 * next command brings the result of that request.
 *
 * The driver copies between the request and a buffer of the tag.  Of memory that is
 * served it copies nothing: the bytes go between it and the request by pread(2) and
 * pwrite(2) of the device, which never block.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "weir-ublk.h"

/* The kernel has written all of it before the command ended. */
static struct ublk_request shared_of(const struct request *rq)
{
	return rq->queue->shared[rq->tag];
}

/* Whether the driver has ended all of it: then core 0 is told, once. */
static void check_over(struct queue *q)
{
	if (q->busy || q->block.busy || q->over)
		return;
	q->over = true;
	if (weir_post(weir_group_reactor(q->server->group, 0), server_queue_over, q->server))
		abort(); /* Its mailbox holds more than there are queues. */
}

static void over(struct request *rq)
{
	rq->queue->busy--;
	check_over(rq->queue);
}

static void fill(struct io_uring_sqe *sqe, uint32_t code, const struct request *rq)
{
	const struct ublk_io_command command = {
		.queue = (uint16_t)rq->queue->index, .tag = rq->tag,
		.result = rq->result, .addr = (uintptr_t)rq->data,
	};

	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = rq->queue->server->fd;
	sqe->cmd_op = code;
	memcpy(sqe->cmd, &command, sizeof(command));
}

static void fill_fetch(struct io_uring_sqe *sqe, void *arg)
{
	fill(sqe, UBLK_FETCH, arg);
}

static void fill_commit(struct io_uring_sqe *sqe, void *arg)
{
	fill(sqe, UBLK_COMMIT_AND_FETCH, arg);
}

/* Tell the result of the request, or an errno. */
static void commit(struct request *rq, int64_t res)
{
	if (res < 0)
		rq->queue->counts.errors++;
	rq->result = (int32_t)res;
	/* What stops this reactor has waited for all requests before. */
	if (weir_uring_submit(rq->queue->reactor, &rq->op, fill_commit, rq))
		over(rq);
}

/* The driver wants to know of the data that were moved, and of nothing else. */
static int64_t moved(const struct block_io *io)
{
	return io->kind == BLOCK_READ || io->kind == BLOCK_WRITE ? (int64_t)io->len : 0;
}

static void on_io(struct block_io *io, int64_t res)
{
	struct request *rq = weir_container_of(io, struct request, io);

	commit(rq, res < 0 ? res : moved(io));
}

/* Between the request and memory that is served. */
static int64_t copy(struct request *rq)
{
	const struct block *b = &rq->queue->server->block;
	uint64_t at = UBLK_DATA_AT | (uint64_t)rq->queue->index << UBLK_DATA_QUEUE |
		      (uint64_t)rq->tag << UBLK_DATA_TAG;
	uint64_t off = rq->io.off, left = rq->io.len;
	int fd = rq->queue->server->fd;
	uint32_t n;
	ssize_t res;

	if (rq->io.kind == BLOCK_WRITE)
		block_expect(b, off, left);
	for (; left; left -= n, off += n, at += n) {
		n = left < BLOCK_PIECE ? (uint32_t)left : BLOCK_PIECE;
		res = rq->io.kind == BLOCK_WRITE ?
		      pread(fd, b->base + off, n, (off_t)at) :
		      pwrite(fd, block_peek(b, off, n), n, (off_t)at);
		if (res != (ssize_t)n)
			return res < 0 ? -errno : -EIO;
	}
	if (rq->io.kind == BLOCK_WRITE)
		block_expect(b, rq->io.off, rq->io.len);
	return (int64_t)rq->io.len;
}

/* Returns false: there is no such request. */
static bool set_kind(struct block_io *io, struct counts *counts, uint32_t op_flags)
{
	io->flags = op_flags & UBLK_IO_FUA ? BLOCK_FUA : 0;
	switch (UBLK_OP(op_flags)) {
	case UBLK_READ:
		io->kind = BLOCK_READ;
		io->flags = 0;
		counts->reads++;
		counts->read += io->len;
		return true;
	case UBLK_WRITE:
		io->kind = BLOCK_WRITE;
		counts->writes++;
		counts->written += io->len;
		return true;
	case UBLK_FLUSH:
		io->kind = BLOCK_FLUSH;
		io->flags = 0;
		io->off = 0;
		io->len = 0;
		counts->flushes++;
		return true;
	case UBLK_DISCARD:
		io->kind = BLOCK_TRIM;
		counts->trims++;
		return true;
	case UBLK_WRITE_ZEROES:
		io->kind = BLOCK_ZERO;
		if (op_flags & UBLK_IO_NO_UNMAP)
			io->flags |= BLOCK_NO_HOLE;
		counts->zeroes++;
		return true;
	default:
		return false;
	}
}

/* Returns as block_submit() does. */
static int64_t begin(struct request *rq)
{
	const struct ublk_request wanted = shared_of(rq);
	struct server *s = rq->queue->server;
	struct block_io *io = &rq->io;
	uint64_t sectors = atomic_load(&s->sectors);
	int64_t res;

	io->off = wanted.sector * SECTOR;
	io->len = (uint64_t)wanted.sectors * SECTOR;
	if (!set_kind(io, &rq->queue->counts, wanted.op_flags))
		return -EOPNOTSUPP;
	if (block_needs(io->kind) & ~s->block.can)
		return io->kind == BLOCK_WRITE ? -EROFS : -EOPNOTSUPP;
	if (io->kind == BLOCK_FLUSH)
		return block_submit(io);
	/* A disk that became smaller may still be asked for what it had. */
	if (wanted.sector > sectors || wanted.sectors > sectors - wanted.sector ||
	    !io->len || (io->off | io->len) & (s->block_size - 1))
		return -EIO;
	if (io->kind != BLOCK_READ && io->kind != BLOCK_WRITE)
		return block_submit(io);
	if (!rq->data)
		return copy(rq);
	if (io->len > IO_MAX)
		return -EIO;
	rq->iov = (struct iovec){ rq->data, io->len };
	res = block_submit(io);
	return res == 0 ? moved(io) : res;
}

static void on_kick(struct weir_op *op, int64_t res)
{
	struct queue *q = weir_container_of(op, struct queue, kick_op);

	(void)res;
	q->kick_due = false;
	block_queue_kick(&q->block);
}

/* When the turn has brought what else there is. */
static void kick_soon(struct queue *q)
{
	if (q->kick_due)
		return;
	q->kick_due = !weir_defer(q->reactor, &q->kick_op);
	if (!q->kick_due)
		block_queue_kick(&q->block);
}

static void on_settled(struct block_queue *block)
{
	struct queue *q = weir_container_of(block, struct queue, block);

	kick_soon(q);
	check_over(q);
}

static void on_request(struct weir_op *op, int64_t res)
{
	struct request *rq = weir_container_of(op, struct request, op);

	if (res < 0) {
		if (res != UBLK_ABORTED && res != -ECANCELED)
			say("queue %u: %s", rq->queue->index, strerror((int)-res));
		over(rq);
		return;
	}
	res = begin(rq);
	if (res == BLOCK_LATER)
		kick_soon(rq->queue);
	else
		commit(rq, res);
}

static size_t shared_len(const struct server *s)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);

	return (s->info.depth * sizeof(struct ublk_request) + page - 1) & ~(page - 1);
}

static int map(struct queue *q)
{
	struct server *s = q->server;
	void *at;

	at = mmap(NULL, shared_len(s), PROT_READ, MAP_SHARED | MAP_POPULATE, s->fd,
		  (off_t)(q->index * UBLK_QUEUE_BYTES));
	if (at == MAP_FAILED)
		return -errno;
	q->shared = at;
	if (server_copies(s))
		return 0;
	/* Pages of it are there from the first use on. */
	at = mmap(NULL, (size_t)s->info.depth * IO_MAX, PROT_READ | PROT_WRITE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED)
		return -errno;
	q->data = at;
	return 0;
}

static int make_requests(struct queue *q)
{
	uint32_t n = q->server->info.depth;

	q->requests = calloc(n, sizeof(*q->requests));
	if (!q->requests)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++) {
		struct request *rq = &q->requests[i];

		weir_op_init(&rq->op, on_request);
		rq->queue = q;
		rq->tag = (uint16_t)i;
		rq->data = q->data ? q->data + (size_t)i * IO_MAX : NULL;
		rq->io.queue = &q->block;
		rq->io.fn = on_io;
		rq->io.iov = &rq->iov;
		rq->io.n_iov = 1;
	}
	return 0;
}

void queue_fetch(void *queue)
{
	struct queue *q = queue;

	for (uint32_t i = 0; i < q->server->info.depth; i++) {
		if (weir_uring_submit(q->reactor, &q->requests[i].op, fill_fetch,
				      &q->requests[i]))
			abort(); /* A reactor has more operations, and is not stopped. */
		q->busy++;
	}
}

int queue_begin(struct queue *q)
{
	struct server *s = q->server;
	int err;

	weir_op_init(&q->kick_op, on_kick);
	err = block_core_begin(&q->core, q->reactor, &s->block, 1, s->info.depth);
	if (!err)
		err = block_queue_begin(&q->block, &s->block, &q->core, s->info.depth,
					on_settled);
	if (!err)
		err = map(q);
	if (!err)
		err = make_requests(q);
	if (err)
		say("queue %u: %s", q->index, strerror(-err));
	return err;
}

void queue_end(struct queue *q)
{
	if (q->block.core)
		block_queue_end(&q->block);
	if (q->core.reactor)
		block_core_end(&q->core);
	if (q->shared)
		munmap((void *)(uintptr_t)q->shared, shared_len(q->server));
	if (q->data)
		munmap(q->data, (size_t)q->server->info.depth * IO_MAX);
	free(q->requests);
	q->shared = NULL;
	q->data = NULL;
	q->requests = NULL;
}
