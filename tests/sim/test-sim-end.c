/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * The end of a program in a world, in no order.
 *
 * Three cores with all there is in flight between them: chains that hop,
 * pipelines, jobs of workers, waits for buffers and sync events, sleeps, files,
 * timers.  At a random moment somebody begins to destroy one thing after the
 * other, whichever comes.  Each says 0, and is gone, or -EBUSY and why, and is
 * as it was: what still needs it can be used.  Nothing else is ever said, and
 * in the end all is gone.
 */

#include "tests/support/sim-fixture.h"

#include <fcntl.h>

#include <weir/chain.h>
#include <weir/file.h>
#include <weir/pipeline.h>
#include <weir/pool.h>
#include <weir/shared-pool.h>
#include <weir/sync.h>
#include <weir/timer.h>

#define CORES 3
#define BYTES 65536
#define BUFS 4

struct program;

/* An operation that is begun again when it has ended. */
struct again {
	struct weir_op op;
	struct program *p;
	struct core *core;
	int (*begin)(struct again *a);
};

struct core {
	struct program *p;
	struct weir_reactor *r;
	struct weir_dma *dma;
	struct weir_pool *pool;
	struct weir_chain *chain, *outer;
	struct weir_pipeline *pipeline;
	struct weir_timer *timers[2];
	struct weir_job job, hopping, working;
	struct weir_sync_step step;
	struct again chain_op, pipeline_op, buf_op, sync_op, sleep_op,
		tick_op, file_op;
	uint64_t units;
	int fd;
	char from[BYTES], to[3][BYTES];
};

struct program {
	struct weir_sim *sim;
	struct weir_shared_pool *shared_pool;
	struct weir_sync *sync;
	struct core cores[CORES];
	bool closing;			/* Nothing begins by itself. */
	uint64_t ends, refused;
};

static void ended(struct weir_op *op, int64_t res)
{
	struct again *a = op->data;

	(void)res;
	a->p->ends++;
	if (!a->p->closing)
		(void)a->begin(a);
}

static int begin_chain(struct again *a)
{
	return weir_chain_start(a->core->outer, &a->op);
}

static int begin_pipeline(struct again *a)
{
	a->core->units = 0;
	return weir_pipeline_start(a->core->pipeline, &a->op);
}

static int begin_sync(struct again *a)
{
	return weir_sync_wait(a->p->sync, a->core->r, &a->op, WEIR_SYNC_EQ,
			      UINT64_MAX, WEIR_SYNC_ALL);
}

static int begin_sleep(struct again *a)
{
	return weir_sleep_until(a->core->r, &a->op, WEIR_FOREVER);
}

static int begin_tick(struct again *a)
{
	return weir_sleep_until(a->core->r, &a->op, weir_sim_now(a->p->sim) +
				weir_sim_random(a->p->sim) % WEIR_MSEC);
}

static int begin_file(struct again *a)
{
	struct core *c = a->core;

	return weir_write(c->r, &a->op, c->fd, c->from, BYTES, 0);
}

static int begin_buf(struct again *a)
{
	return weir_pool_wait(a->core->pool, &a->op);
}

/* What it has brought goes back, some of it at once. */
static void buf_ended(struct weir_op *op, int64_t res)
{
	if (res >= 0)
		weir_buf_put(weir_pool_taken(op));
	ended(op, res);
}

static void job_ended(struct weir_op *op, int64_t res)
{
	struct core *c = weir_container_of(op, struct core, working.op);

	(void)res;
	c->p->ends++;
	if (!c->p->closing)
		(void)weir_job_start(c->dma, &c->working);
}

static void ticked(struct weir_timer *timer, uint64_t n, void *arg)
{
	(void)timer, (void)n;
	((struct program *)arg)->ends++;
}

static int build(struct weir_slot *slot, void *arg)
{
	struct weir_job *job = weir_slot_data(slot);
	struct core *c = arg;
	int n;

	weir_job_init(job, NULL);
	n = weir_chain_add_job(weir_slot_chain(slot), WEIR_CHAIN_FIRST, c->dma,
			       job);
	return n < 0 ? n : 0;
}

static int next(struct weir_slot *slot, void *arg)
{
	struct core *c = arg;

	if (c->units++ == 16)
		return WEIR_PIPELINE_END;
	weir_job_fill(weir_slot_data(slot),
		      weir_operand_buf(weir_slot_buf(slot)), 'x');
	return WEIR_PIPELINE_UNIT;
}

static int done(struct weir_slot *slot, int64_t res, void *arg)
{
	(void)slot, (void)res, (void)arg;
	return 0;
}

static void again_init(struct again *a, struct core *c,
		       int (*begin)(struct again *a))
{
	weir_op_init(&a->op, ended);
	a->op.data = a;
	a->p = c->p;
	a->core = c;
	a->begin = begin;
}

static void make_objects(struct core *c)
{
	struct weir_dma_opts dopts = { .size = sizeof(dopts),
				       .worker_min = BYTES };
	struct weir_pool_opts popts = { .size = sizeof(popts),
					.cache = 2,
					.shared_pool = c->p->shared_pool };
	struct weir_pipeline_opts lopts = {
		.size = sizeof(lopts), .build = build, .next = next,
		.done = done, .arg = c, .depth = 3,
		.data_size = sizeof(struct weir_job),
	};
	int i;

	assert_int_equal(weir_dma_create(&c->dma, c->r, &dopts), 0);
	assert_int_equal(weir_dma_start(c->dma), 0);
	assert_int_equal(weir_pool_create(&c->pool, c->r, &popts), 0);
	lopts.pool = c->pool;
	assert_int_equal(weir_pipeline_create(&c->pipeline, c->r, &lopts), 0);
	assert_int_equal(weir_chain_create(&c->chain, c->r, NULL), 0);
	assert_int_equal(weir_chain_create(&c->outer, c->r, NULL), 0);
	for (i = 0; i < 2; i++)
		assert_int_equal(weir_timer_create(&c->timers[i], c->r, ticked,
						   c->p), 0);
	weir_timer_start(c->timers[0], weir_sim_now(c->p->sim),
			 300 * WEIR_USEC);
}

/* Its own job, one on the next core, and a wait that only a cancel ends. */
static void make_steps(struct core *c, struct core *neighbour)
{
	int n;

	weir_job_init(&c->job, NULL);
	weir_job_init(&c->hopping, NULL);
	weir_job_init(&c->working, job_ended);
	weir_job_copy(&c->job, weir_operand_mem(c->to[0], BYTES),
		      weir_operand_mem(c->from, BYTES));
	weir_job_copy(&c->hopping, weir_operand_mem(c->to[1], 100),
		      weir_operand_mem(c->from, 100));
	weir_job_copy(&c->working, weir_operand_mem(c->to[2], BYTES),
		      weir_operand_mem(c->from, BYTES));
	c->step = (struct weir_sync_step){
		.sync = c->p->sync,
		.action = WEIR_SYNC_DO_WAIT, .cond = WEIR_SYNC_EQ,
		.value = weir_sim_random(c->p->sim) % 2 ? 0 : 1,
	};
	n = weir_chain_add_job(c->chain, WEIR_CHAIN_FIRST, c->dma, &c->job);
	n = weir_chain_add_job(c->chain, n, neighbour->dma, &c->hopping);
	n = weir_chain_add_chain(c->outer, WEIR_CHAIN_FIRST, c->chain);
	assert_true(weir_chain_add_sync(c->outer, n, &c->step) > 0);
}

static void begin_all(struct core *c)
{
	struct again *all[] = {
		&c->chain_op, &c->pipeline_op, &c->buf_op, &c->sync_op,
		&c->sleep_op, &c->tick_op, &c->file_op,
	};
	int (*const begins[])(struct again *) = {
		begin_chain, begin_pipeline, begin_buf, begin_sync, begin_sleep,
		begin_tick, begin_file,
	};
	size_t i;

	for (i = 0; i < N_OF(all); i++) {
		again_init(all[i], c, begins[i]);
		if (all[i] == &c->buf_op)
			c->buf_op.op.fn = buf_ended;
		STARTS(begins[i](all[i]));
	}
	STARTS(weir_job_start(c->dma, &c->working));
}

static void open_file(struct core *c)
{
	struct rec rec;

	rec_init(&rec);
	STARTS(weir_open(c->r, &rec.op, AT_FDCWD, "file", O_RDWR | O_CREAT,
			 0600));
	sim_idle(c->p->sim);
	assert_true(rec.res >= 0);
	c->fd = (int)rec.res;
}

static void program_begin(struct program *p, uint64_t seed, uint64_t faults)
{
	struct weir_shared_pool_class one = { .buf_size = 4096, .bufs = BUFS };
	struct weir_shared_pool_opts sopts = { .size = sizeof(sopts),
					       .classes = &one,
					       .n_classes = 1 };
	int i;

	memset(p, 0, sizeof(*p));
	p->sim = sim_world(seed, faults, 16);
	assert_int_equal(weir_shared_pool_create(&p->shared_pool, &sopts), 0);
	assert_int_equal(weir_sync_create(&p->sync, NULL), 0);
	for (i = 0; i < CORES; i++) {
		p->cores[i].p = p;
		p->cores[i].r = sim_reactor_in(p->sim);
		make_objects(&p->cores[i]);
	}
	for (i = 0; i < CORES; i++)
		weir_timer_stop(p->cores[i].timers[0]);
	for (i = 0; i < CORES; i++)
		open_file(&p->cores[i]);
	for (i = 0; i < CORES; i++)
		make_steps(&p->cores[i], &p->cores[(i + 1) % CORES]);
	for (i = 0; i < CORES; i++) {
		weir_timer_start(p->cores[i].timers[0], weir_sim_now(p->sim),
				 300 * WEIR_USEC);
		begin_all(&p->cores[i]);
	}
}

/* A timer is destroyed whenever one likes, its reactor in no other way. */
static int destroy_timer(struct weir_timer **timer)
{
	weir_timer_destroy(*timer);
	return 0;
}

/* What a step says is the user's, who has to have it there while the chain is
 * in flight, as memory and domains of jobs. */
static bool may_destroy_sync(const struct program *p)
{
	int i;

	for (i = 0; i < CORES; i++)
		if (p->cores[i].outer &&
		    weir_op_is_busy(&p->cores[i].chain_op.op))
			return false;
	return true;
}

#define DESTROY(at, call)                                         \
	do {                                                      \
		if (!(at))                                        \
			return;                                   \
		err = (call);                                     \
		if (!err)                                         \
			(at) = NULL;                              \
	} while (0)

/* One of the things that there are, by chance. */
static void destroy_one(struct program *p, uint64_t draw)
{
	struct core *c = &p->cores[draw % CORES];
	int err = 0;

	switch (draw / CORES % 10) {
	case 0:
		DESTROY(c->r, weir_reactor_destroy(c->r));
		break;
	case 1:
		DESTROY(c->dma, weir_dma_destroy(c->dma));
		break;
	case 2:
		DESTROY(c->pool, weir_pool_destroy(c->pool));
		break;
	case 3:
		DESTROY(c->chain, weir_chain_destroy(c->chain));
		break;
	case 4:
		DESTROY(c->outer, weir_chain_destroy(c->outer));
		break;
	case 5:
		DESTROY(c->pipeline, weir_pipeline_destroy(c->pipeline));
		break;
	case 6:
		DESTROY(c->timers[0], destroy_timer(&c->timers[0]));
		break;
	case 7:
		DESTROY(c->timers[1], destroy_timer(&c->timers[1]));
		break;
	case 8:
		DESTROY(p->shared_pool, weir_shared_pool_destroy(p->shared_pool));
		break;
	default:
		if (may_destroy_sync(p))
			DESTROY(p->sync, weir_sync_destroy(p->sync));
	}
	if (err && (err != -EBUSY || !*weir_why()))
		fail_msg("%d: %s", err, weir_why());
	p->refused += err != 0;
}

static void cancel_one(struct core *c, uint64_t draw)
{
	struct weir_op *ops[] = {
		&c->chain_op.op, &c->pipeline_op.op, &c->buf_op.op,
		&c->sync_op.op, &c->sleep_op.op, &c->working.op,
	};

	(void)weir_op_cancel(ops[draw % N_OF(ops)]);
}

/* What is there can be used, whatever else has gone; but see above. */
static void begin_one(struct core *c, uint64_t draw)
{
	if (draw & 1 && c->outer && c->p->sync)
		(void)begin_chain(&c->chain_op);
	else if (c->pipeline)
		(void)begin_pipeline(&c->pipeline_op);
}

/* Nothing waits for what does not come. */
static void help(struct program *p)
{
	uint64_t i;

	weir_sim_set_faults(p->sim, 0);
	for (i = 0; i < CORES * 6; i++)
		if (p->cores[i % CORES].r)
			cancel_one(&p->cores[i % CORES], i / CORES);
}

static bool is_gone(const struct program *p)
{
	int i;

	for (i = 0; i < CORES; i++)
		if (p->cores[i].r)
			return false;
	return !p->shared_pool && !p->sync;
}

/* What is in flight while they are destroyed ends by a cancel, or by itself. */
static void ends_in_any_order(uint64_t seed, uint64_t faults)
{
	static struct program p;
	unsigned int tries = 0;
	uint64_t draw;
	struct core *c;

	program_begin(&p, seed, faults);
	(void)weir_sim_run(p.sim, WEIR_FOREVER,
			   1 + weir_sim_random(p.sim) % 3000);
	p.closing = true;
	while (!is_gone(&p)) {
		draw = weir_sim_random(p.sim);
		destroy_one(&p, draw >> 8);
		c = &p.cores[(draw >> 40) % CORES];
		if (draw % 4 == 0 && c->r)
			cancel_one(c, draw >> 48);
		if (draw % 8 == 2 && tries < 500)
			begin_one(c, draw >> 48);
		if (draw % 8 == 1)
			(void)weir_sim_run(p.sim, WEIR_SEC, draw >> 60);
		if (++tries == 500)
			help(&p);
		assert_true(tries < 100000);
	}
	assert_true(p.ends > 0);
	assert_true(p.refused > 0);
	assert_int_equal(weir_sim_destroy(p.sim), 0);
}

static void world_may_end_in_any_order(void **state)
{
	unsigned int seed, n = scaled(200);

	(void)state;
	for (seed = 0; seed < n; seed++)
		ends_in_any_order(seed, 0);
}

static void and_with_devices_that_are_stuck(void **state)
{
	unsigned int seed, n = scaled(200);

	(void)state;
	for (seed = 0; seed < n; seed++)
		ends_in_any_order(seed, ALWAYS(WEIR_SIM_STUCK) |
				  ALWAYS(WEIR_SIM_DELAY) |
				  ALWAYS(WEIR_SIM_SLOW) |
				  ALWAYS(WEIR_SIM_CLOCK));
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(world_may_end_in_any_order),
		CASE(and_with_devices_that_are_stuck),
	};

	return harness_run_plain(cases, N_OF(cases));
}
