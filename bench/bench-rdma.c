/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Jobs over RDMA beside perftest, both between two processes on one device:
 * writes and reads of 64 KiB and 1 MiB, up to 128 in flight; and the time of 64
 * bytes that go there and back, halved, as perftest has it.
 *
 * Of perftest, writes poll and reads sleep until the device tells; weir's loop
 * does as it does by itself, looking for a while before it sleeps.  "busy": no
 * end ever sleeps; "asleep": both do, for each message.  CPU time is that of
 * the process that measures; perftest's without what it takes to begin and to
 * end.
 */

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <weir/dma.h>
#include <weir/reactor.h>

#include "bench/bench.h"
#include "bench/perftest.h"
#include "bench/rdma-end.h"

#define FEW 16u		/* What perftest does when only its start counts. */
#define MIB (1024.0 * 1024.0)

struct stream_case {
	const char *name;
	const char *program;
	unsigned int bytes, n;
	bool read, events;
};

static const struct stream_case streams[] = {
	{ "write 64 KiB", "ib_write_bw", 64 << 10, 1000, false, false },
	{ "write 1 MiB", "ib_write_bw", 1 << 20, 100, false, false },
	{ "read 64 KiB", "ib_read_bw", 64 << 10, 1000, true, true },
	{ "read 1 MiB", "ib_read_bw", 1 << 20, 100, true, true },
};

struct ping_case {
	const char *name;
	struct perftest peer;
	uint32_t sent;
};

static const struct ping_case pings[] = {
	{ "write 64 B, busy",
	  { .program = "ib_write_lat", .bytes = PING_BYTES, .n = 3000,
	    .column = 4 }, 0 },
	{ "send 64 B, asleep",
	  { .program = "ib_send_lat", .bytes = PING_BYTES, .n = 1000,
	    .events = true, .column = 4 }, 1 },
};

static const char *device, *address, *gid;

/* What perftest does, and what it takes for each.  Column: see perftest.h. */
static void peer(struct bench *b, const char *what, const char *unit,
		 struct perftest p)
{
	struct perftest_result all, few;
	unsigned int n = p.n;

	if (!bench_wants(b, "perftest") || !perftest_has(p.program))
		return;
	p.device = device;
	p.gid = gid;
	if (!perftest_run(&p, &all))
		return;
	bench_add(b, what, "perftest", unit, all.figure);
	p.n = FEW;
	if (perftest_run(&p, &few))
		bench_add(b, what, "perftest", "us CPU",
			  (all.cpu_ns - few.cpu_ns) / (n - FEW) / 1e3);
}

struct stream {
	struct end *end;
	const struct stream_case *c;
	struct weir_buf *bufs[END_JOBS];
	uint32_t started, ended, n;
};

static struct stream stream;

static void begin(uint32_t i)
{
	struct end *end = stream.end;
	struct weir_operand here = weir_operand_buf(stream.bufs[i]);
	struct weir_operand there = end_far(end, 0, stream.c->bytes);
	struct weir_job *job = &end->jobs[i];

	if (stream.c->read)
		weir_job_copy(job, here, there);
	else
		weir_job_copy(job, there, here);
	if (stream.c->read)
		job->flags = WEIR_JOB_OVERWRITE;
	stream.started++;
	bench_must(weir_job_start(end->dma, job), weir_why());
}

static void on_moved(struct weir_op *op, int64_t res)
{
	struct weir_job *job = weir_job_of(op);

	bench_must((int)res, "a job");
	stream.ended++;
	if (stream.started < stream.n)
		begin((uint32_t)(job - stream.end->jobs));
}

static void move(uint32_t n)
{
	uint32_t window = n < END_JOBS ? n : END_JOBS;

	stream.started = stream.ended = 0;
	stream.n = n;
	for (uint32_t i = 0; i < window; i++)
		begin(i);
	while (stream.ended < n)
		bench_must(weir_reactor_turn(stream.end->r, WEIR_FOREVER),
			   "turn");
}

static void our_stream(struct bench *b, const struct stream_case *c, uint32_t n)
{
	static struct end end;
	uint64_t wall, cpu;

	end_open(&end, address, 0);
	stream.end = &end;
	stream.c = c;
	for (uint32_t i = 0; i < END_JOBS; i++) {
		stream.bufs[i] = end_buf(&end, 0, c->bytes, !c->read);
		weir_job_init(&end.jobs[i], on_moved);
	}
	move(FEW);
	wall = bench_wall_ns();
	cpu = bench_process_ns();
	move(n);
	cpu = bench_process_ns() - cpu;
	wall = bench_wall_ns() - wall;
	bench_add(b, c->name, "weir", "MiB/s",
		  (double)n * c->bytes / MIB * 1e9 / (double)wall);
	bench_add(b, c->name, "weir", "us CPU", (double)cpu / n / 1e3);
	for (uint32_t i = 0; i < END_JOBS; i++)
		weir_buf_put(stream.bufs[i]);
	end_close(&end);
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void our_ping(struct bench *b, const struct ping_case *c, uint32_t n)
{
	struct ping p = { .n = n, .sent = c->sent };
	uint64_t *ns = calloc(n, sizeof(*ns));
	static struct end end;
	uint64_t cpu;

	end_open(&end, address, WEIR_SPIN_NONE);
	end_ask(&end, &p);
	cpu = bench_process_ns();
	ping_run(&end, &p, true, ns);
	cpu = bench_process_ns() - cpu;
	qsort(ns, n, sizeof(*ns), by_size);
	bench_add(b, c->name, "weir", "us", (double)ns[n / 2] / 2e3);
	bench_add(b, c->name, "weir", "us CPU", (double)cpu / n / 1e3);
	free(ns);
	end_close(&end);
}

static void one_rep(struct bench *b)
{
	uint32_t few = b->quick ? 10 : 1;
	bool ours = bench_wants(b, "weir");

	for (size_t i = 0; i < ARRAY_SIZE(streams); i++) {
		const struct stream_case *c = &streams[i];
		struct perftest p = { .program = c->program, .bytes = c->bytes,
				      .n = c->n / few, .events = c->events,
				      .column = 3 };

		peer(b, c->name, "MiB/s", p);
		if (ours)
			our_stream(b, c, c->n / few);
	}
	for (size_t i = 0; i < ARRAY_SIZE(pings); i++) {
		struct perftest p = pings[i].peer;

		p.n /= few;
		peer(b, pings[i].name, "us", p);
		if (ours)
			our_ping(b, &pings[i], p.n);
	}
}

static void goals(struct bench *b)
{
	for (size_t i = 0; i < ARRAY_SIZE(streams); i++)
		bench_goal(b, "bandwidth, at least 0.9 times perftest",
			   streams[i].name, "weir", "perftest", BENCH_AT_LEAST,
			   0.9);
	for (size_t i = 0; i < ARRAY_SIZE(pings); i++)
		bench_goal(b, "64 bytes, at most 1.15 times perftest",
			   pings[i].name, "weir", "perftest", BENCH_AT_MOST,
			   1.15);
}

int main(int argc, char **argv)
{
	static struct bench b;

	bench_init(&b, "rdma", argc, argv);
	device = getenv("WEIR_RDMA_DEVICE");
	address = getenv("WEIR_RDMA_ADDRESS");
	gid = getenv("WEIR_RDMA_GID");
	if (!device || !address || !gid) {
		bench_note("no RDMA device here; in a guest there is one: "
			   "make bench-rdma");
		return bench_done(&b);
	}
	if (!perftest_has("ib_write_bw"))
		bench_note("perftest is not installed: no peer");
	b.reference = "perftest";
	for (bench_begin(&b); bench_next(&b); )
		one_rep(&b);
	goals(&b);
	return bench_done(&b);
}
