/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Steady state: once everything has been done a few times, doing it again and
 * again allocates nothing and touches no page for the first time.  A load does
 * one kind of thing, its result checked, over and over.
 */

#include <malloc.h>

#include "tests/support/alloc-fixture.h"
#include "tests/support/cores.h"
#include "tests/support/pipeline-fixture.h"

#include <weir/buf.h>
#include <weir/domain-user.h>
#include <weir/inventory.h>
#include <weir/route.h>
#include <weir/sync.h>

#define BLOCK 8192u
#define BLOCKS 16u
#define TURN_BYTES 16384u
#define BURST 32

struct fixture {
	struct weir_reactor *r;
	struct weir_dma *dma;
	struct core core;
	struct weir_dma *far;		/* The core's. */
	struct weir_domain *in, *out, *self, *store;
	char *mem;
	struct jrec j[BURST];
	struct weir_job *batch[BURST];
	struct weir_mmap *m;
	struct weir_inventory *inv;
	struct weir_pool *pool;
	struct weir_chain *chain, *inner;
	struct weir_sync *sync[2];	/* On the owner, and in an mmap; */
	struct weir_sync *opened;	/* the same, opened by a peer. */
	struct weir_sync_step signal;
	struct weir_pipeline *p;
	uint64_t at;			/* Of the pipeline's stream. */
	struct rec rec;
	struct weir_op *pulled;
	bool slow;
	int fd[2];
};

typedef void round_fn(struct fixture *g, unsigned int i);

static void must_take(struct fixture *g, struct jrec *j, int64_t want)
{
	assert_int_equal(jrec_run(g->dma, j), want);
}

static struct weir_operand mem_at(struct fixture *g, unsigned int block)
{
	return weir_operand_mem(g->mem + block * BLOCK, BLOCK);
}

/* Of the reactor's thread: each kind, in bursts, and beyond a turn's bytes. */
static void jobs_round(struct fixture *g, unsigned int i)
{
	struct weir_operand more[3] = { mem_at(g, 3), mem_at(g, 4),
					mem_at(g, 5) };
	struct weir_job *job = &g->j[0].job;
	uint32_t n;
	int k;

	weir_job_copy_crc32c(job, mem_at(g, 1), mem_at(g, 0), i);
	must_take(g, &g->j[0], BLOCK);
	weir_job_compare(job, mem_at(g, 1), mem_at(g, 0));
	must_take(g, &g->j[0], BLOCK);
	weir_job_dualcast(job, mem_at(g, 2), &more[0], mem_at(g, 0));
	must_take(g, &g->j[0], BLOCK);
	weir_job_xor(job, mem_at(g, 2), more, 3);
	must_take(g, &g->j[0], BLOCK);
	weir_job_memzero(job, mem_at(g, 2));
	job->flags = WEIR_JOB_FENCE;
	must_take(g, &g->j[0], BLOCK);
	for (k = 0; k < BURST; k++) {
		weir_job_copy(g->batch[k], mem_at(g, 6), mem_at(g, 0));
		g->batch[k]->flags = k % 2 ? WEIR_JOB_LAZY : 0;
	}
	assert_int_equal(weir_job_start_batch(g->dma, g->batch, BURST, &n), 0);
	weir_op_cancel(&g->batch[BURST - 1]->op);
	weir_dma_flush(g->dma);
	for (k = 0; k < BURST; k++)
		UNTIL(g->r, !weir_op_is_busy(&g->batch[k]->op));
}

/* Of the kernel, of another thread, of a process, of a function. */
static void engines_round(struct fixture *g, unsigned int i)
{
	struct weir_job *job = &g->j[0].job;
	uint64_t off = i % BLOCKS * BLOCK;

	weir_job_copy(job, weir_operand_at(g->out, off, BLOCK), mem_at(g, 0));
	must_take(g, &g->j[0], BLOCK);
	weir_job_copy(job, weir_operand_at(g->out, off, BLOCK),
		      weir_operand_at(g->in, off, BLOCK));
	must_take(g, &g->j[0], BLOCK);
	if (g->self) {
		weir_job_copy(job, mem_at(g, 1),
			      weir_operand_at(g->self, (uintptr_t)g->mem,
					      BLOCK));
		must_take(g, &g->j[0], BLOCK);
	}
	weir_job_copy(job, weir_operand_at(g->store, off, BLOCK), mem_at(g, 0));
	must_take(g, &g->j[0], BLOCK);
	weir_job_copy(job, weir_operand_mem(g->mem + 8 * BLOCK, 8 * BLOCK),
		      weir_operand_mem(g->mem, 8 * BLOCK));
	must_take(g, &g->j[0], 8 * BLOCK);
}

/* Through staging, of which there is little, and by translation. */
static void bounces_round(struct fixture *g, unsigned int i)
{
	struct weir_job_route route = { .size = sizeof(route) };
	uint64_t len = 4 * BLOCK;
	int k;

	for (k = 0; k < 4; k++) {
		weir_job_copy_crc32c(&g->j[k].job,
				     weir_operand_at(k % 2 ? g->store : g->out,
						     (uint64_t)k * len, len),
				     weir_operand_at(g->in, 0, len), i);
		g->j[k].calls = 0;
		STARTS(weir_job_start(g->dma, &g->j[k].job));
	}
	for (k = 0; k < 4; k++) {
		UNTIL(g->r, g->j[k].calls);
		assert_int_equal(g->j[k].res, len);
		assert_int_equal(weir_job_get_route(&g->j[k].job, &route), 0);
		assert_int_equal(route.route, WEIR_ROUTE_BOUNCE);
	}
}

/* Ends by a cancel, and by a deadline, with what a device has in flight. */
static void ends_round(struct fixture *g, unsigned int i)
{
	struct weir_op *op = &g->j[0].job.op;

	g->slow = true;
	weir_job_copy(&g->j[0].job, mem_at(g, 1),
		      weir_operand_at(g->store, 0, BLOCK));
	g->j[0].calls = 0;
	STARTS(weir_job_start(g->dma, &g->j[0].job));
	if (i % 2)
		weir_op_set_deadline(op, weir_reactor_now(g->r) + 1);
	else
		assert_int_equal(weir_op_cancel(op), 0);
	assert_int_equal(jrec_finish(g->r, &g->j[0]),
			 i % 2 ? -ETIMEDOUT : -ECANCELED);
	g->slow = false;
}

static void bufs_round(struct fixture *g, unsigned int i)
{
	struct weir_buf *a = NULL, *b = NULL;

	assert_int_equal(weir_inventory_get(&a, g->inv, g->m, g->mem, BLOCK,
					    NULL, BLOCK), 0);
	assert_int_equal(weir_inventory_get(&b, g->inv, g->m,
					    g->mem + BLOCK, BLOCK, NULL, 0), 0);
	weir_job_copy(&g->j[0].job, weir_operand_buf(b), weir_operand_buf(a));
	must_take(g, &g->j[0], BLOCK);
	assert_int_equal(weir_buf_chain(a, b), 0);
	weir_job_copy(&g->j[0].job,
		      weir_operand_at(g->out, i % 8 * BLOCK, 2 * BLOCK),
		      weir_operand_buf(a));
	must_take(g, &g->j[0], 2 * BLOCK);
	weir_buf_put(a);
	rec_init(&g->rec);
	STARTS(weir_pool_wait(g->pool, &g->rec.op));
	assert_int_equal(finish(g->r, &g->rec), BLOCK);
	weir_buf_put(weir_pool_taken(&g->rec.op));
}

static void chains_round(struct fixture *g, unsigned int i)
{
	rec_init(&g->rec);
	g->slow = i % 4 == 3;
	STARTS(weir_chain_start(g->chain, &g->rec.op));
	if (g->slow) {
		UNTIL(g->r, g->pulled);
		assert_int_equal(weir_op_cancel(&g->rec.op), 0);
	}
	finish(g->r, &g->rec);
	assert_int_equal(g->rec.res, g->slow ? -ECANCELED : 8);
	g->slow = false;
}

static int64_t nothing(struct weir_chain *chain, uint32_t step, void *arg)
{
	(void)chain, (void)step, (void)arg;
	return 0;
}

static int defer(struct weir_chain *chain, uint32_t step, struct weir_op *op,
		 void *arg)
{
	struct fixture *g = arg;

	(void)chain, (void)step;
	return weir_defer(g->r, op);
}

/* A copy and its CRC, a file, an operation, a call, a chain, a branch, two
 * syncs, what the device has. */
static void chains_begin(struct fixture *g)
{
	struct weir_chain_opts opts = { .size = sizeof(opts), .steps = 16 };
	struct weir_chain *c;
	int a, b, n;

	assert_int_equal(weir_chain_create(&g->inner, g->r, NULL), 0);
	assert_int_equal(weir_chain_add_op(g->inner, WEIR_CHAIN_FIRST, defer,
					   g), 0);
	assert_int_equal(weir_chain_create(&g->chain, g->r, &opts), 0);
	c = g->chain;
	weir_job_copy(&g->j[0].job, mem_at(g, 1), mem_at(g, 0));
	weir_job_crc32c(&g->j[1].job, mem_at(g, 1), 0);
	weir_job_copy(&g->j[2].job, weir_operand_at(g->out, 0, BLOCK),
		      mem_at(g, 1));
	weir_job_copy(&g->j[3].job, mem_at(g, 2),
		      weir_operand_at(g->store, 0, BLOCK));
	a = weir_chain_add_job(c, WEIR_CHAIN_FIRST, g->dma, &g->j[0].job);
	a = weir_chain_add_job(c, a, g->dma, &g->j[1].job);
	b = weir_chain_add_job(c, a, g->dma, &g->j[2].job);
	a = weir_chain_add_op(c, a, defer, g);
	a = weir_chain_add_chain(c, a, g->inner);
	n = weir_chain_add_call(c, a, nothing, g);
	assert_int_equal(weir_chain_add_dep(c, (uint32_t)n, (uint32_t)b,
					    WEIR_CHAIN_ON_END), 0);
	b = weir_chain_add_call(c, WEIR_CHAIN_FIRST, nothing, g);
	assert_int_equal(weir_chain_add_dep(c, (uint32_t)b, (uint32_t)a,
					    WEIR_CHAIN_ON_FAILED), 0);
	g->signal = (struct weir_sync_step){ .sync = g->sync[0],
		.action = WEIR_SYNC_DO_ADD, .value = 1 };
	n = weir_chain_add_sync(c, n, &g->signal);
	assert_true(weir_chain_add_job(c, n, g->dma, &g->j[3].job) > 0);
}

/* On the core, and back. */
static void hops_round(struct fixture *g, unsigned int i)
{
	(void)i;
	rec_init(&g->rec);
	STARTS(weir_chain_start(g->chain, &g->rec.op));
	assert_int_equal(finish(g->r, &g->rec), 2);
}

static void hops_begin(struct fixture *g)
{
	int a;

	assert_int_equal(weir_chain_create(&g->chain, g->r, NULL), 0);
	weir_job_copy(&g->j[0].job, mem_at(g, 1), mem_at(g, 0));
	weir_job_crc32c(&g->j[1].job, mem_at(g, 1), 0);
	a = weir_chain_add_job(g->chain, WEIR_CHAIN_FIRST, g->far,
			       &g->j[0].job);
	a = weir_chain_add_job(g->chain, a, g->dma, &g->j[1].job);
	assert_int_equal(a, 1);
}

static void signal_both(struct core *core, void *arg)
{
	struct fixture *g = arg;

	(void)core;
	MUST(weir_sync_add(g->sync[0], 1, NULL) == 0);
	MUST(weir_sync_add(g->sync[1], 1, NULL) == 0);
}

/* Signalled from here, and from the core; one of them lies in an mmap. */
static void syncs_round(struct fixture *g, unsigned int i)
{
	struct weir_sync *sync;
	uint64_t value = 0;
	struct rec rec[2];
	int k;

	for (k = 0; k < 2; k++) {
		sync = k ? g->opened : g->sync[0];
		assert_int_equal(weir_sync_get(sync, &value), 0);
		rec_init(&rec[k]);
		STARTS(weir_sync_wait(sync, g->r, &rec[k].op, WEIR_SYNC_GE,
				      value + 1, WEIR_SYNC_ALL));
	}
	if (i % 2)
		core_post(&g->core, signal_both, g);
	else
		signal_both(NULL, g);
	for (k = 0; k < 2; k++) {
		UNTIL(g->r, rec[k].calls);
		assert_int_equal(rec[k].res, 0);
	}
	if (i % 2)
		core_wait(&g->core);
}

struct unit_jobs {
	struct weir_job read, crc, write;
};

static int build(struct weir_slot *slot, void *arg)
{
	struct unit_jobs *u = weir_slot_data(slot);
	struct weir_chain *c = weir_slot_chain(slot);
	struct fixture *g = arg;
	int n;

	weir_job_init(&u->read, NULL);
	weir_job_init(&u->crc, NULL);
	weir_job_init(&u->write, NULL);
	n = weir_chain_add_job(c, WEIR_CHAIN_FIRST, g->dma, &u->read);
	n = weir_chain_add_job(c, n, g->dma, &u->crc);
	n = weir_chain_add_job(c, n, g->dma, &u->write);
	return n < 0 ? n : 0;
}

static int next(struct weir_slot *slot, void *arg)
{
	struct weir_operand buf = weir_operand_buf(weir_slot_buf(slot));
	struct unit_jobs *u = weir_slot_data(slot);
	struct fixture *g = arg;

	if (g->at == BLOCKS)
		return WEIR_PIPELINE_END;
	weir_job_copy(&u->read, buf,
		      weir_operand_at(g->in, g->at * BLOCK, BLOCK));
	weir_job_crc32c(&u->crc, buf, 0);
	weir_job_copy(&u->write, weir_operand_at(g->out, g->at * BLOCK, BLOCK),
		      buf);
	g->at++;
	return WEIR_PIPELINE_UNIT;
}

static int unit_done(struct weir_slot *slot, int64_t res, void *arg)
{
	(void)slot, (void)arg;
	return res < 0 ? (int)res : 0;
}

static void pipelines_begin(struct fixture *g)
{
	struct weir_pipeline_opts opts = {
		.size = sizeof(opts), .build = build, .next = next,
		.done = unit_done, .arg = g, .pool = g->pool, .depth = 4,
		.data_size = sizeof(struct unit_jobs),
		.flags = WEIR_PIPELINE_ORDERED,
	};

	assert_int_equal(weir_pipeline_create(&g->p, g->r, &opts), 0);
}

/* The whole stream; every other time it is paused, and stopped or cancelled. */
static void pipelines_round(struct fixture *g, unsigned int i)
{
	g->at = 0;
	rec_init(&g->rec);
	STARTS(weir_pipeline_start(g->p, &g->rec.op));
	if (i % 2) {
		some_turns(g->r, 2);
		weir_pipeline_pause(g->p);
		some_turns(g->r, 2);
		weir_pipeline_resume(g->p);
		if (i % 4 == 1)
			weir_pipeline_stop(g->p);
		else
			weir_op_cancel(&g->rec.op);
		if (!g->rec.calls)
			finish(g->r, &g->rec);
		return;
	}
	assert_int_equal(finish(g->r, &g->rec), BLOCKS);
}

/* The store's functions. */
static int store_move(struct weir_domain *d, struct weir_reactor *r,
		      struct weir_op *op, const struct weir_domain_move *m)
{
	struct fixture *g = weir_domain_ctx(d);
	bool pull = m->src.domain == d;
	uint64_t n = 0;
	uint32_t i;

	(void)r;
	g->pulled = NULL;
	if (g->slow) {
		g->pulled = op;
		return 0;
	}
	for (i = 0; i < (pull ? m->dst.n_iov : m->src.n_iov); i++)
		n += pull ? m->dst.iov[i].iov_len : m->src.iov[i].iov_len;
	weir_domain_complete(op, (int64_t)n);
	return 0;
}

static void store_cancel(struct weir_domain *d, struct weir_op *op)
{
	struct fixture *g = weir_domain_ctx(d);

	g->pulled = NULL;
	weir_domain_complete(op, -ECANCELED);
}

static void store_begin(struct fixture *g)
{
	struct weir_domain_opts opts = {
		.size = sizeof(opts), .kind = WEIR_DOMAIN_USER, .ctx = g,
	};

	assert_int_equal(weir_domain_create(&g->store, &opts), 0);
	assert_int_equal(weir_domain_set_pull(g->store, store_move), 0);
	assert_int_equal(weir_domain_set_push(g->store, store_move), 0);
	assert_int_equal(weir_domain_set_cancel(g->store, store_cancel), 0);
}

static void far_begin(struct core *core, void *arg)
{
	struct fixture *g = arg;

	MUST(!weir_dma_create(&g->far, core->r, NULL));
	MUST(!weir_dma_start(g->far));
}

static void far_end(struct core *core, void *arg)
{
	struct fixture *g = arg;

	(void)core;
	MUST(!weir_dma_destroy(g->far));
}

static void memory_begin(struct fixture *g)
{
	struct weir_pool_opts opts = { .size = sizeof(opts), .bufs = 3,
				       .buf_size = BLOCK };

	g->mem = memalign(4096, BLOCKS * BLOCK + 4096);
	g->m = start_mmap(g->mem, BLOCKS * BLOCK + 4096, WEIR_MMAP_WRITE);
	assert_int_equal(weir_sync_create(&g->sync[0], NULL), 0);
	assert_int_equal(weir_sync_create_in(&g->sync[1], g->m, BLOCKS * BLOCK,
					     NULL), 0);
	assert_int_equal(weir_sync_open(&g->opened, g->m, BLOCKS * BLOCK), 0);
	fill_pattern(g->mem, BLOCKS * BLOCK, 0, 1);
	assert_int_equal(weir_inventory_create(&g->inv, g->r, NULL), 0);
	assert_int_equal(weir_inventory_attach(g->inv, g->m), 0);
	assert_int_equal(weir_pool_create(&g->pool, g->r, &opts), 0);
}

static void fixture_begin(struct fixture *g, void **state)
{
	int i;

	memset(g, 0, sizeof(*g));
	/* A thread is made when it is needed, and that allocates: one, in the
	 * first rounds. */
	g->r = start_reactor_with(state, (struct weir_reactor_opts){
		.workers = 1 });
	g->dma = start_dma(g->r, (struct weir_dma_opts){
		.turn_bytes = TURN_BYTES, .worker_min = 8 * BLOCK,
		.staging_bufs = 2, .staging_size = BLOCK });
	core_begin(&g->core, state);
	core_do(&g->core, far_begin, g);
	for (i = 0; i < 2; i++)
		g->fd[i] = test_file(state, i ? "out" : "in", BLOCKS * BLOCK,
				     2);
	g->in = file_domain(g->fd[0]);
	g->out = file_domain(g->fd[1]);
	weir_domain_process_create(&g->self, getpid(), NULL);
	store_begin(g);
	memory_begin(g);
	for (i = 0; i < BURST; i++) {
		jrec_init(&g->j[i]);
		g->batch[i] = &g->j[i].job;
	}
}

static void fixture_end(struct fixture *g)
{
	assert_int_equal(weir_pipeline_destroy(g->p), 0);
	assert_int_equal(weir_chain_destroy(g->chain), 0);
	assert_int_equal(weir_chain_destroy(g->inner), 0);
	core_do(&g->core, far_end, g);
	core_end(&g->core);
	assert_int_equal(weir_pool_destroy(g->pool), 0);
	assert_int_equal(weir_inventory_destroy(g->inv), 0);
	assert_int_equal(weir_sync_destroy(g->sync[0]), 0);
	assert_int_equal(weir_sync_destroy(g->opened), 0);
	assert_int_equal(weir_sync_destroy(g->sync[1]), 0);
	assert_int_equal(weir_mmap_destroy(g->m), 0);
	free(g->mem);
	assert_int_equal(weir_dma_destroy(g->dma), 0);
	assert_int_equal(weir_domain_destroy(g->in), 0);
	assert_int_equal(weir_domain_destroy(g->out), 0);
	assert_int_equal(weir_domain_destroy(g->store), 0);
	assert_int_equal(weir_domain_destroy(g->self), 0);
	close_pair(g->fd);
}

struct load {
	round_fn *round;
	void (*begin)(struct fixture *g);
	unsigned int rounds;
};

static void many(struct fixture *g, const struct load *load, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++)
		load->round(g, i);
	some_turns(g->r, 2);
}

static void nothing_is_allocated_or_faulted_in(void **state)
{
	const struct world *w = *state;
	const struct load *load = w->arg;
	unsigned int before;
	long faults;
	struct fixture g;

	fixture_begin(&g, state);
	if (load->begin)
		load->begin(&g);
	many(&g, load, scaled(load->rounds) / 4 + 4);
	if (has_counts()) {
		before = atomic_load(&allocations);
		assert_true(before > 0);
		faults = minor_faults();
		many(&g, load, load->rounds);
		faults = minor_faults() - faults;
		assert_int_equal(atomic_load(&allocations) - before, 0);

		/* The kernel may move a page or two meanwhile. */
		assert_in_range(faults, 0, load->rounds / 50);
	}
	fixture_end(&g);
	need_counts();
}

int main(void)
{
	static const struct load jobs = { jobs_round, NULL, 1000 };
	static const struct load engines = { engines_round, NULL, 1000 };
	static const struct load bounces = { bounces_round, NULL, 400 };
	static const struct load ends = { ends_round, NULL, 1000 };
	static const struct load bufs = { bufs_round, NULL, 1000 };
	static const struct load chains = { chains_round, chains_begin, 1000 };
	static const struct load hops = { hops_round, hops_begin, 1000 };
	static const struct load syncs = { syncs_round, NULL, 1000 };
	static const struct load pipelines = { pipelines_round,
					       pipelines_begin, 400 };
#define LOAD(name) { #name "_allocate_nothing_in_steady_state", \
		     nothing_is_allocated_or_faulted_in, &name, true }
	const struct harness_case cases[] = {
		LOAD(jobs), LOAD(engines), LOAD(bounces), LOAD(ends),
		LOAD(bufs), LOAD(chains), LOAD(hops), LOAD(syncs),
		LOAD(pipelines),
	};

	return harness_run(cases, N_OF(cases));
}
