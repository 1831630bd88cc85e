/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TOOLS_SIM_PIPELINES_H
#define TOOLS_SIM_PIPELINES_H

/* The scenario of pipelines: sim-pipelines.c has the calls and the rules of
 * their ends, sim-stream.c the data. */

#include <weir/buf.h>
#include <weir/chain.h>
#include <weir/dma.h>
#include <weir/job.h>
#include <weir/pipeline.h>
#include <weir/pool.h>

#include "sim-fixture.h"

#define REACTORS 2
#define LINES 3		/* Pipelines. */
#define UNITS 20	/* Of a stream, at most. */
#define BLOCK 4096	/* Bytes of a unit, at most. */
#define DEPTH 6		/* Slots, at most. */

struct core {
	struct weir_reactor *r;
	struct weir_dma *dma;
	struct weir_pool *pool;
};

enum unit_state { UNIT_AHEAD, UNIT_UNDER_WAY, UNIT_DONE };

/* A unit of a stream, in any slot. */
struct unit {
	enum unit_state state;
	size_t len;
	bool failing;		/* Its call step says -EDOM. */
	uint64_t sleep_ns;	/* Of its operation. */
};

/* Of each slot. */
struct slot_data {
	struct line *line;
	struct weir_job in, out;
	uint32_t n;
	uint32_t steps;
};

/* One side of a stream: memory, or a file. */
struct end {
	bool is_file;
	char path[16];
	int fd;
	struct weir_domain *domain;
	char bytes[UNITS * BLOCK];	/* Unless it is a file. */
};

/* A pipeline, and the facts about its present run. */
struct line {
	struct program *program;
	struct core *core;
	struct weir_pipeline *pipeline;
	struct task task;
	uint32_t number, depth;
	bool ordered, has_pool;
	struct end src, dst;

	uint64_t stamp;		/* Of the source's bytes. */
	struct unit units[UNITS];
	uint32_t total;		/* Units that there are to be, */
	uint32_t brought;	/* by next() so far, */
	uint32_t done, failed;	/* and of those by done(). */
	uint64_t bytes;
	uint32_t window;
	bool idle;		/* next() has said -EAGAIN. */
	bool paused, ended, cancelled;
	bool in_fn;		/* In next() or done(). */
	bool cut;		/* A unit failed, and a cancel had come. */
	struct weir_pipeline_failure failure;	/* .where is 0: none. */
	struct due stop;	/* Nothing was in flight when it was stopped. */
	struct due next;	/* Nothing holds it up: next() is due. */
};

struct program {
	struct run *run;
	struct core cores[REACTORS];
	struct line lines[LINES];
	uint64_t stamps;
};

/* sim-stream.c */

void stream_set_up(struct line *l, struct weir_pipeline_opts *opts);
void stream_take_down(struct line *l);

/* New bytes for a new run; the destination is marked. */
void stream_prepare(struct line *l);

/* The run has ended: the destination of units that did not come is
 * unchanged. */
void stream_check(struct line *l);

/* sim-pipelines.c: act on @l, in one of its functions or between. */
void meddle(struct line *l);

static inline uint32_t under_way(const struct line *l)
{
	return l->brought - l->done - l->failed;
}

#endif /* TOOLS_SIM_PIPELINES_H */
