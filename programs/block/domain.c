/* SPDX-License-Identifier: CC0-1.0 */
/*
 * Requests to what a plugin has brought: memory in some domain of weir.  Each
 * piece is a job between it and the memory of the caller; weir finds the way.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <weir/dma.h>
#include <weir/file.h>
#include <weir/inventory.h>
#include <weir/job.h>

#include "backing.h"

int block_core_begin(struct block_core *core, struct weir_reactor *r,
		     struct block *blocks, uint32_t n, uint32_t ios)
{
	struct weir_dma_opts dma = { .size = sizeof(dma), .jobs_max = ios };
	struct weir_inventory_opts inventory = { .size = sizeof(inventory),
						 .bufs = ios,
						 .mmaps = BLOCKS_MAX };
	int err = 0;

	*core = (struct block_core){ .reactor = r, .blocks = blocks,
				     .n_blocks = n };
	for (uint32_t i = 0; i < n && !err; i++) {
		struct weir_mmap *mmap = blocks[i].plugin.brought.mmap;

		if (blocks[i].fd >= 0)
			weir_fd_register(r, blocks[i].fd);
		if (blocks[i].durable_fd >= 0)
			weir_fd_register(r, blocks[i].durable_fd);
		if (mmap && !core->inventory)
			err = weir_inventory_create(&core->inventory, r,
						    &inventory);
		if (mmap && !err)
			err = weir_inventory_attach(core->inventory, mmap);
		if (blocks[i].plugin.open && !core->dma && !err)
			err = weir_dma_create(&core->dma, r, &dma);
	}
	return err || !core->dma ? err : weir_dma_start(core->dma);
}

void block_core_end(struct block_core *core)
{
	for (uint32_t i = 0; i < core->n_blocks; i++) {
		const struct block *b = &core->blocks[i];

		if (b->fd >= 0)
			weir_fd_unregister(core->reactor, b->fd);
		if (b->durable_fd >= 0)
			weir_fd_unregister(core->reactor, b->durable_fd);
	}
	if (weir_dma_destroy(core->dma) ||
	    weir_inventory_destroy(core->inventory))
		fprintf(stderr, "%s: %s\n", core->blocks[0].program,
			weir_why());
	*core = (struct block_core){ .reactor = NULL };
}

/* The slice of @io is done, and its job is free for others. */
static void ended(struct block_io *io, int64_t res)
{
	struct block_queue *q = io->queue;

	io->job->op.data = NULL;
	q->free_jobs[q->n_free_jobs++] = io->job;
	io->job = NULL;
	block_ended(io, res);
}

static void on_job(struct weir_op *op, int64_t res)
{
	ended(op->data, res);
}

/* Jobs are large, and only queues served by them need any. */
int domain_queue_begin(struct block_queue *q, uint32_t depth)
{
	q->jobs = calloc(depth, sizeof(*q->jobs));
	q->free_jobs = calloc(depth, sizeof(struct weir_job *));
	if (!q->jobs || !q->free_jobs) {
		block_queue_end(q);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < depth; i++) {
		weir_job_init(&q->jobs[i], on_job);
		q->free_jobs[i] = &q->jobs[i];
	}
	q->n_jobs = depth;
	q->n_free_jobs = depth;
	return 0;
}

/* A plugin may take its time. */
void domain_cancel(struct block_queue *q)
{
	for (uint32_t i = 0; i < q->n_jobs; i++) {
		struct block_io *io = q->jobs[i].op.data;

		if (!io)
			continue;
		weir_op_cancel(&q->jobs[i].op);
		weir_op_cancel(&io->op);
	}
}

/*
 * Where the piece of @io is: in a buf of an mmap, so that it is noticed if that
 * was taken back, or at an address.  *@buf, which may be NULL, is to be put.
 */
static int find(const struct block_io *io, struct weir_operand *ret,
		struct weir_buf **buf)
{
	const struct nbd_plugin_export *e = &io->queue->block->plugin.brought;
	uint64_t at = e->addr + io->off + io->done;
	uint32_t data = io->kind == BLOCK_READ ? io->piece : 0;
	void *p = (void *)(uintptr_t)at;
	int err;

	*buf = NULL;
	if (!e->mmap) {
		*ret = weir_operand_at(e->domain, at, io->piece);
		return 0;
	}
	err = weir_inventory_get(buf, io->queue->core->inventory, e->mmap, p,
				 io->piece, p, data);
	if (!err)
		*ret = weir_operand_buf(*buf);
	return err;
}

static struct weir_operand here(const struct block_io *io)
{
	return io->n_iov == 1 ?
	       weir_operand_mem(io->iov->iov_base, io->len) :
	       weir_operand_iov(NULL, io->iov, io->n_iov);
}

static void describe(const struct block_io *io, struct weir_operand there)
{
	struct weir_job *job = io->job;

	if (io->kind == BLOCK_READ)
		weir_job_copy(job, here(io), there);
	else if (io->kind == BLOCK_WRITE)
		weir_job_copy(job, there, here(io));
	else if (!(io->flags & BLOCK_NO_HOLE))
		weir_job_memzero(job, there);
	else
		weir_job_copy(job, there, weir_operand_mem(zeroes, io->piece));
}

static int start_job(struct block_io *io)
{
	struct weir_operand there;
	struct weir_buf *buf;
	int err = find(io, &there, &buf);

	if (err)
		return err;
	describe(io, there);
	err = weir_job_start(io->queue->core->dma, io->job);
	/* A job has a reference of its own. */
	weir_buf_put(buf);
	return err;
}

static void on_later(struct weir_op *op, int64_t res);

/* Start it, or, if there is no space for it, be back in a while. */
static int start(struct block_io *io)
{
	struct weir_reactor *r = io->queue->core->reactor;
	int err = start_job(io);

	if (err != -EAGAIN)
		return err;
	weir_op_init(&io->op, on_later);
	return weir_sleep_until(r, &io->op, weir_reactor_now(r) + WEIR_MSEC);
}

static void on_later(struct weir_op *op, int64_t res)
{
	struct block_io *io = weir_container_of(op, struct block_io, op);

	if (res >= 0)
		res = io->queue->cancelled ? -ECANCELED : start(io);
	if (res < 0)
		ended(io, res);
}

/* The job of @io, as long as the slice takes; domain_cancel() finds it by
 * that. */
static void take_job(struct block_io *io)
{
	struct block_queue *q = io->queue;

	io->job = q->free_jobs[--q->n_free_jobs];
	io->job->op.data = io;
}

static int64_t started(struct block_io *io, int err)
{
	struct block_queue *q = io->queue;

	if (err) {
		io->job->op.data = NULL;
		q->free_jobs[q->n_free_jobs++] = io->job;
		io->job = NULL;
	}
	return block_started(io, err);
}

static int64_t move(struct block_io *io)
{
	take_job(io);
	return started(io, start(io));
}

/* Piece by piece, as all else, so that others are served meanwhile. */
static int64_t clear(struct block_io *io)
{
	if (!io->by_hand && io->piece > BLOCK_PIECE)
		io->piece = BLOCK_PIECE;
	io->by_hand = true;
	return move(io);
}

static int64_t domain_zero(struct block_io *io)
{
	const struct nbd_plugin_export *e = &io->queue->block->plugin.brought;
	bool slow = !(e->flags & NBD_PLUGIN_FILLS) ||
		    io->flags & BLOCK_NO_HOLE;

	return slow && io->flags & BLOCK_FAST ? -EOPNOTSUPP : clear(io);
}

static void on_flushed(struct weir_op *op, int64_t res)
{
	ended(weir_container_of(op, struct block_io, op), res);
}

static int64_t domain_flush(struct block_io *io)
{
	take_job(io);
	weir_op_init(&io->op, on_flushed);
	return started(io, block_sync(io->queue->block,
				      io->queue->core->reactor, &io->op));
}

const struct backing domain_backing = {
	.read = move,
	.write = move,
	.flush = domain_flush,
	.trim = clear,
	.zero = domain_zero,
	.status = plain_status,
};
