/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_FUZZ_SIM_WORLD_H
#define TESTS_FUZZ_SIM_WORLD_H

/* The world that fuzz-sim.c plays in: what its parts share. */

#include <sys/un.h>

#include <weir/chain.h>
#include <weir/dma.h>
#include <weir/domain.h>
#include <weir/file.h>
#include <weir/job.h>
#include <weir/pipeline.h>
#include <weir/pool.h>
#include <weir/reactor.h>
#include <weir/sim/file.h>
#include <weir/sim/memory.h>
#include <weir/sim/socket.h>
#include <weir/socket.h>
#include <weir/shared-pool.h>
#include <weir/timer.h>
#include <weir/watch.h>

#include "tests/fuzz/fuzz-fixture.h"

enum {
	CORES = 3,
	TASKS = 40,
	FDS = 16,
	SOURCES = 16,	/* On a core. */
	HELD = 8,	/* Bufs, and buffers of receivers, on a core. */
	CHAINS = 3,
	STEPS = 5,
	DOMAINS = 2,
	CARDS = 2,
	PLACE = 4096,	/* Bytes of a card, and a peer. */
};

struct core;
struct task;

/* Descriptors, and who uses them: those may not be closed. */
struct place {
	int fd;			/* -1: none. */
	uint32_t users;
	bool is_stream;		/* What waits there may wait for ever. */
};

/* An operation.  It is its memory that device and library have meanwhile. */
struct task {
	struct weir_job job;	/* Its .op is that of all. */
	struct core *core;
	const char *what;
	void (*end)(struct task *t, int64_t res);
	struct place *places[2];
	void *object;		/* Chain, pipeline, pool. */
	char *buf;
	size_t len;
	int64_t most;		/* That it may complete with. */
	uint64_t not_before_ns;
	struct iovec iov[3];
	struct msghdr msg;
	struct sockaddr_un to;
	struct weir_operand more;
	char result[256];	/* struct statx */
	bool has_deadline;
	bool may_be_cancelled;
	bool is_of_device;	/* Which may end it as it likes. */
	bool is_of_socket;	/* Which has more errors than files. */
	bool is_endless;
};

/* What calls back again and again. */
struct source {
	struct core *core;
	int kind;		/* 0: there is none. */
	void *handle;
	struct place *place;
	uint64_t due_ns, owed;
	bool has_ended;
};

struct link {
	struct core *core;
	struct weir_chain *chain;
	struct weir_pipeline *pipeline;	/* Or this. */
	struct weir_job jobs[STEPS];
	char memory[STEPS][512];
	int depth;		/* Functions of it on the stack. */
	bool is_under_way;
};

struct core {
	struct weir_reactor *r;	/* NULL: none. */
	bool is_stopped;	/* Or asked to. */
	int depth;		/* Calls of turns on the stack. */
	uint32_t posts;		/* That are to come. */
	struct source sources[SOURCES];
	struct weir_pool *pool;
	struct weir_buf *bufs[HELD];
	void *kept[HELD];
	struct weir_dma *dma;
	struct link *links[CHAINS];
};

struct world {
	struct input in;
	struct weir_sim *sim;
	struct core cores[CORES];
	struct task *tasks[TASKS];
	struct place places[FDS];
	struct weir_domain *files[DOMAINS];
	struct place *file_places[DOMAINS];
	struct weir_shared_pool *shared_pool;
	struct weir_sim_card *cards[CARDS];
	struct weir_sim_peer *peer;
	uint32_t events;	/* Left, until the program is cut short. */
	int depth;
	bool ending;
};

extern struct world w;

static inline uint32_t byte_below(uint32_t n)
{
	return take(&w.in, n);
}

static inline bool is_likely(void)	/* Not when bytes have run out. */
{
	return take(&w.in, 4);
}

uint64_t some_span(void);
uint64_t some_time(void);

/* fuzz-sim.c: in a callback on @c, what the next bytes say. */
void act(struct core *c);

/* sim-task.c */
struct task *task_new(struct core *c);
void task_begin(struct task *t, const char *what, int64_t most);
void task_uses(struct task *t, int which, struct place *place);
void task_started(struct task *t, int err);
void task_disturb(void);
void task_cancel(struct task *t);
struct task *task_of(struct weir_op *op);
void task_end(struct weir_op *op, int64_t res);
uint32_t tasks_left(void);

/* sim-op.c: operations, and descriptors. */
void op_start(struct core *c);
struct place *place_any(void);
void place_keep(int64_t fd, bool is_stream);
void place_touch(void);
void place_close(struct place *place);

/* sim-source.c */
void source_touch(struct core *c);
void source_end(struct source *s);

/* sim-move.c: pools, jobs, and where bytes are. */
void move_set_up(void);
void move_touch(struct core *c);
void move_release(struct core *c);
void move_take_down_core(struct core *c);
void move_take_down(void);
void move_draw_step(struct link *l, uint32_t i);
void world_touch(void);

/* sim-chain.c: chains and pipelines. */
void link_touch(struct core *c);
bool link_destroy(struct core *c, uint32_t at);
void links_go_on(void);

#endif /* TESTS_FUZZ_SIM_WORLD_H */
