/* SPDX-License-Identifier: BSD-3-Clause */

/* 64 bytes that go between two ends: see rdma-end.h. */

#include <errno.h>

#include <weir/dma.h>
#include <weir/reactor.h>

#include "bench/bench.h"
#include "bench/rdma-end.h"

static void turn(struct end *end, uint64_t wait)
{
	bench_must(weir_reactor_turn(end->r, wait), "turn");
}

/* Written: from the beginning of the memory here to the second half there. */

static void on_written(struct weir_op *op, int64_t res)
{
	(void)op;
	bench_must((int)res, "a write");
}

static volatile unsigned char *last_of(struct end *end, uint64_t off)
{
	return (unsigned char *)end->mem + off + PING_BYTES - 1;
}

static void write_one(struct end *end, uint32_t i)
{
	struct weir_job *job = &end->jobs[0];

	while (weir_dma_in_flight(end->dma))
		turn(end, 0);
	*last_of(end, 0) = (unsigned char)(i + 1);
	weir_job_copy(job, end_far(end, END_HALF, PING_BYTES),
		      weir_operand_mem(end->mem, PING_BYTES));
	bench_must(weir_job_start(end->dma, job), weir_why());
	weir_dma_flush(end->dma);
}

static void look_for_one(struct end *end, uint32_t i)
{
	while (*last_of(end, END_HALF) != (unsigned char)(i + 1))
		turn(end, 0);
}

/* Sent: both sleep in their loops. */

static void on_said(struct weir_op *op, int64_t res)
{
	struct end *end = weir_container_of(op, struct end, said);

	bench_must((int)res, "a message");
	end->saying = false;
}

void ping_message(struct weir_conn *c, const struct weir_message *m, void *arg)
{
	struct end *end = arg;

	(void)c;
	weir_buf_put(m->buf);
	end->heard++;
}

static void send_one(struct end *end)
{
	struct weir_message m = { .size = sizeof(m), .data = end->mem,
				  .len = PING_BYTES };

	while (end->saying)
		turn(end, WEIR_FOREVER);
	weir_op_init(&end->said, on_said);
	bench_must(weir_message_send(end->c, &end->said, &m), weir_why());
	end->saying = true;
}

static void wait_for_one(struct end *end, uint32_t i)
{
	while (end->heard <= i)
		turn(end, WEIR_FOREVER);
}

static void go(struct end *end, const struct ping *p, uint32_t i)
{
	if (p->sent)
		send_one(end);
	else
		write_one(end, i);
}

static void come(struct end *end, const struct ping *p, uint32_t i)
{
	if (p->sent)
		wait_for_one(end, i);
	else
		look_for_one(end, i);
}

void ping_run(struct end *end, const struct ping *p, bool first, uint64_t *ns)
{
	uint64_t at = bench_wall_ns(), now;

	weir_job_init(&end->jobs[0], on_written);
	for (uint32_t i = 0; i < p->n; i++) {
		if (first)
			go(end, p, i);
		come(end, p, i);
		if (!first)
			go(end, p, i);
		now = bench_wall_ns();
		if (ns)
			ns[i] = now - at;
		at = now;
	}
	while (weir_dma_in_flight(end->dma) || end->saying)
		turn(end, WEIR_FOREVER);
	*last_of(end, END_HALF) = 0;
	end->heard = 0;
}
