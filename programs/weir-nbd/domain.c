/* SPDX-License-Identifier: CC0-1.0 */
/*
 * Requests to what a plugin has brought: memory in some domain of weir.  Each
 * piece is a job between it and the connection's cells; weir finds the way.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include <weir/dma.h>
#include <weir/inventory.h>
#include <weir/job.h>

#include "weir-nbd.h"

/* A core has as many jobs as its connections have requests. */
int domain_begin(struct core *core, uint32_t connections)
{
	const struct server *server = core->server;
	uint32_t n = REQUESTS * connections;
	struct weir_dma_opts dma = { .size = sizeof(dma), .jobs_max = n };
	struct weir_inventory_opts inventory = { .size = sizeof(inventory),
						 .bufs = n,
						 .mmaps = EXPORTS_MAX };
	int err = 0;

	for (uint32_t i = 0; i < server->n_exports && !err; i++) {
		struct weir_mmap *mmap = server->exports[i].plugin.brought.mmap;

		if (mmap && !core->inventory)
			err = weir_inventory_create(&core->inventory,
						    core->reactor, &inventory);
		if (mmap && !err)
			err = weir_inventory_attach(core->inventory, mmap);
		if (server->exports[i].plugin.open && !core->dma && !err)
			err = weir_dma_create(&core->dma, core->reactor, &dma);
	}
	return err || !core->dma ? err : weir_dma_start(core->dma);
}

void domain_end(struct core *core)
{
	if (weir_dma_destroy(core->dma) ||
	    weir_inventory_destroy(core->inventory))
		fprintf(stderr, "weir-nbd: %s\n", weir_why());
	core->dma = NULL;
	core->inventory = NULL;
}

static void ended(struct request *rq, int64_t res)
{
	struct conn *c = rq->conn;

	c->busy--;
	request_done(rq, res);
	conn_pump(c);
}

static void on_job(struct weir_op *op, int64_t res)
{
	ended(op->data, res);
}

/* Jobs are large, and only connections served by them need any. */
int domain_adopt(struct conn *c)
{
	c->jobs = calloc(REQUESTS, sizeof(*c->jobs));
	if (!c->jobs)
		return -ENOMEM;
	for (uint32_t i = 0; i < REQUESTS; i++) {
		weir_job_init(&c->jobs[i], on_job);
		c->jobs[i].op.data = &c->requests[i];
	}
	return 0;
}

/* The answers are not wanted any more, and a plugin may take its time. */
void domain_cancel(struct conn *c)
{
	for (uint32_t i = 0; i < REQUESTS && c->jobs; i++) {
		weir_op_cancel(&c->jobs[i].op);
		weir_op_cancel(&c->requests[i].op);
	}
}

/*
 * Where the piece of @rq is: in a buf of an mmap, so that it is noticed if that
 * was taken back, or at an address.  *@buf, which may be NULL, is to be put.
 */
static int find(const struct request *rq, struct weir_operand *ret,
		struct weir_buf **buf)
{
	const struct nbd_plugin_export *e = &rq->conn->export->plugin.brought;
	uint64_t at = e->addr + rq->off + rq->done;
	uint32_t data = rq->type == NBD_CMD_READ ? rq->piece : 0;
	void *p = (void *)(uintptr_t)at;
	int err;

	*buf = NULL;
	if (!e->mmap) {
		*ret = weir_operand_at(e->domain, at, rq->piece);
		return 0;
	}
	err = weir_inventory_get(buf, rq->conn->core->inventory, e->mmap, p,
				 rq->piece, p, data);
	if (!err)
		*ret = weir_operand_buf(*buf);
	return err;
}

static void describe(const struct request *rq, struct weir_job *job,
		     struct weir_operand there)
{
	bool by_fill = !(rq->flags & NBD_CMD_FLAG_NO_HOLE);

	if (rq->type == NBD_CMD_READ)
		weir_job_copy(job, weir_operand_mem(rq->data, rq->piece),
			      there);
	else if (rq->type == NBD_CMD_WRITE)
		weir_job_copy(job, there,
			      weir_operand_mem(rq->data, rq->piece));
	else if (by_fill)
		weir_job_memzero(job, there);
	else
		weir_job_copy(job, there, weir_operand_mem(zeroes, rq->piece));
}

static int start_job(struct request *rq)
{
	struct conn *c = rq->conn;
	struct weir_job *job = &c->jobs[rq - c->requests];
	struct weir_operand there;
	struct weir_buf *buf;
	int err = find(rq, &there, &buf);

	if (err)
		return err;
	describe(rq, job, there);
	err = weir_job_start(c->core->dma, job);
	/* A job has a reference of its own. */
	weir_buf_put(buf);
	return err;
}

static void on_later(struct weir_op *op, int64_t res);

/* Start it, or, if there is no space for it, be back in a while. */
static void move(struct request *rq)
{
	struct weir_reactor *r = rq->conn->core->reactor;
	int err = start_job(rq);

	if (err == -EAGAIN) {
		weir_op_init(&rq->op, on_later);
		err = weir_sleep_until(r, &rq->op,
				       weir_reactor_now(r) + WEIR_MSEC);
	}
	if (err)
		request_done(rq, err);
	else
		rq->conn->busy++;
}

static void on_later(struct weir_op *op, int64_t res)
{
	struct request *rq = weir_container_of(op, struct request, op);
	struct conn *c = rq->conn;

	if (res < 0 || c->state == CLOSING) {
		ended(rq, res);
		return;
	}
	c->busy--;
	move(rq);
	conn_pump(c);
}

/* Piece by piece, as all else, so that others are served meanwhile. */
static void clear(struct request *rq)
{
	if (!rq->by_hand)
		rq->piece = rq->piece < PIECE ? rq->piece : PIECE;
	rq->by_hand = true;
	move(rq);
}

static void domain_zero(struct request *rq)
{
	const struct nbd_plugin_export *e = &rq->conn->export->plugin.brought;
	bool slow = !(e->flags & NBD_PLUGIN_FILLS) ||
		    rq->flags & NBD_CMD_FLAG_NO_HOLE;

	if (slow && rq->flags & NBD_CMD_FLAG_FAST_ZERO)
		request_done(rq, -EOPNOTSUPP);
	else
		clear(rq);
}

static void on_flushed(struct weir_op *op, int64_t res)
{
	ended(weir_container_of(op, struct request, op), res);
}

static void domain_flush(struct request *rq)
{
	struct conn *c = rq->conn;
	int err;

	weir_op_init(&rq->op, on_flushed);
	err = export_sync(c->export, c->core->reactor, &rq->op);
	if (err)
		request_done(rq, err);
	else
		c->busy++;
}

const struct backing domain_backing = {
	.read = move,
	.write = move,
	.flush = domain_flush,
	.trim = clear,
	.zero = domain_zero,
	.status = plain_status,
};
