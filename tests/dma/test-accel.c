/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * What DOCA tests of its graphs and SPDK of its memory domains and accel
 * sequences: acceptance 12 and 30, by number; and what a device may say at the
 * end of a job.
 */

#include "tests/support/user-domain-fixture.h"

#include <weir/buf.h>
#include <weir/chain.h>
#include <weir/crc32c.h>
#include <weir/engine.h>
#include <weir/inventory.h>
#include <weir/route.h>

#include "tests/support/sim-calls.h"

#define INSTANCES 10
#define NODES 2			/* That copy. */
#define PART 5000

/* One graph: two copies of the same source, and who compares them. */
struct graph {
	struct weir_chain *chain;
	struct weir_job job[NODES];
	struct weir_buf *src, *dst[NODES];
	struct rec rec;
	int compared, starts;
};

struct graphs {
	struct weir_reactor *r;
	struct weir_dma *dma;
	struct weir_inventory *inv;
	struct weir_mmap *m;
	char *mem;
	struct graph graph[INSTANCES];
};

static int64_t compare_all(struct weir_chain *chain, uint32_t step, void *arg)
{
	struct graph *g = arg;
	int i;

	assert_ptr_equal(weir_chain_ctx(chain), g);
	assert_int_equal(step, NODES);
	for (i = 0; i < NODES; i++) {
		assert_int_equal(weir_buf_data_len(g->dst[i]), PART);
		assert_memory_equal(weir_buf_data(g->dst[i]),
				    weir_buf_data(g->src), PART);
	}
	g->compared++;
	return 0;
}

static void must_not_run(struct weir_op *op, int64_t res)
{
	(void)op, (void)res;
	fail_msg("the callback of a job that is a step has run");
}

/* Each is started three times, the last two in its own callback. */
static void on_graph(struct weir_op *op, int64_t res)
{
	struct graph *g = weir_container_of(op, struct graph, rec.op);
	int i;

	g->rec.calls++;
	assert_int_equal(res, NODES + 1);
	if (g->rec.calls == 3)
		return;
	for (i = 0; i < NODES; i++) {
		weir_buf_reset(g->dst[i]);
		memset(weir_buf_data(g->dst[i]), 0, PART);
	}
	assert_int_equal(weir_chain_start(g->chain, op), 0);
	assert_int_equal(weir_chain_start(g->chain, op), -EBUSY);
}

static struct weir_buf *take(struct graphs *gs, size_t part, size_t data)
{
	return get_buf(gs->inv, gs->m, gs->mem + part * PART, PART, data);
}

static void graph_begin(struct graphs *gs, int at)
{
	struct weir_chain_opts opts = { .size = sizeof(opts),
					.steps = NODES + 1 };
	struct graph *g = &gs->graph[at];
	size_t part = (size_t)at * (NODES + 1);
	int i;

	opts.ctx = g;
	assert_int_equal(weir_chain_create(&g->chain, gs->r, &opts), 0);
	rec_init(&g->rec);
	g->rec.op.fn = on_graph;
	g->src = take(gs, part, PART);
	fill_pattern(weir_buf_data(g->src), PART, 0, (unsigned int)at + 1);
	for (i = 0; i < NODES; i++) {
		g->dst[i] = take(gs, part + 1 + (size_t)i, 0);
		weir_job_init(&g->job[i], must_not_run);
		weir_job_copy(&g->job[i], weir_operand_buf(g->dst[i]),
			      weir_operand_buf(g->src));
		assert_int_equal(weir_chain_add_job(g->chain, WEIR_CHAIN_FIRST,
						    gs->dma, &g->job[i]), i);
	}
	assert_int_equal(weir_chain_add_call(g->chain, 0, compare_all, g),
			 NODES);
	assert_int_equal(weir_chain_add_dep(g->chain, NODES, 1,
					    WEIR_CHAIN_ON_DONE), 0);
}

static void graphs_begin(struct graphs *gs, void **state, uint32_t turn_bytes)
{
	size_t len = (size_t)INSTANCES * (NODES + 1) * PART;

	memset(gs, 0, sizeof(*gs));
	gs->r = start_reactor(state);
	gs->mem = calloc(1, len);
	gs->m = start_mmap(gs->mem, len, WEIR_MMAP_WRITE);
	gs->dma = start_dma(gs->r, (struct weir_dma_opts){
		.turn_bytes = turn_bytes, .jobs_max = 3 });
	gs->inv = start_inventory(gs->r, gs->m);
}

static void graphs_end(struct graphs *gs)
{
	assert_int_equal(weir_dma_destroy(gs->dma), 0);
	assert_int_equal(weir_inventory_destroy(gs->inv), 0);
	assert_int_equal(weir_mmap_destroy(gs->m), 0);
	free(gs->mem);
}

/* Acceptance 12; A9.1, A9.3, A9.4, 2.6.  The context has space for three jobs,
 * so most nodes have to wait for it, and none fails. */
static void case_12_ten_graphs_at_once_and_again(void **state)
{
	struct graphs gs;
	struct graph *g;
	int i, k;

	graphs_begin(&gs, state, 4096);
	for (i = 0; i < INSTANCES; i++)
		graph_begin(&gs, i);
	for (g = gs.graph; g < gs.graph + INSTANCES; g++) {
		STARTS(weir_chain_start(g->chain, &g->rec.op));
		assert_int_equal(weir_chain_destroy(g->chain), -EBUSY);
	}
	for (g = gs.graph; g < gs.graph + INSTANCES; g++) {
		UNTIL(gs.r, g->rec.calls == 3);
		assert_int_equal(g->compared, 3);
		for (k = 0; k < NODES; k++) {
			assert_int_equal(weir_buf_data_len(g->dst[k]), PART);
			weir_buf_put(g->dst[k]);
		}
		weir_buf_put(g->src);
		assert_int_equal(weir_chain_destroy(g->chain), 0);
	}
	graphs_end(&gs);
}

/* A9.2: a graph may be built over a context that is stopped; to run, it has to
 * be started.  The other node ends, and nobody compares. */
static void a_node_of_a_stopped_context_fails(void **state)
{
	struct weir_chain_step s = { .size = sizeof(s) };
	struct graphs gs;
	struct graph *g = &gs.graph[0];
	struct weir_dma *late = NULL;

	graphs_begin(&gs, state, 0);
	assert_int_equal(weir_dma_create(&late, gs.r, NULL), 0);
	graph_begin(&gs, 0);
	weir_chain_destroy(g->chain);
	assert_int_equal(weir_chain_create(&g->chain, gs.r, NULL), 0);
	assert_int_equal(weir_chain_add_job(g->chain, WEIR_CHAIN_FIRST, gs.dma,
					    &g->job[0]), 0);
	assert_int_equal(weir_chain_add_job(g->chain, WEIR_CHAIN_FIRST, late,
					    &g->job[1]), 1);
	assert_int_equal(weir_chain_add_call(g->chain, 1, compare_all, g), 2);

	rec_init(&g->rec);
	STARTS(weir_chain_start(g->chain, &g->rec.op));
	assert_int_equal(finish(gs.r, &g->rec), -EBADFD);
	assert_int_equal(weir_chain_failed_step(g->chain), 1);
	assert_int_equal(weir_chain_get_step(g->chain, 0, &s), 0);
	assert_int_equal(s.state, WEIR_STEP_DONE);
	assert_int_equal(weir_chain_get_step(g->chain, 2, &s), 0);
	assert_int_equal(s.state, WEIR_STEP_SKIPPED);
	assert_int_equal(g->compared, 0);
	weir_buf_put(g->src);
	weir_buf_put(g->dst[0]);
	weir_buf_put(g->dst[1]);
	assert_int_equal(weir_chain_destroy(g->chain), 0);
	assert_int_equal(weir_dma_destroy(late), 0);
	graphs_end(&gs);
}

/* Random work between memory, a store that is pulled from and pushed to, and
 * one that translates; with a digest of each read. */
struct work {
	struct fixture *g;
	struct weir_dma *dma;
	struct jrec j;
	char shadow[2][LEN];
	unsigned int seed;
	unsigned int routes[WEIR_ROUTE_TRANSLATE + 1], fills;
};

static int where_it_is(struct weir_domain *src, void *src_ctx,
		       struct weir_domain *dst, void *dst_ctx, uint64_t addr,
		       size_t len, struct weir_translation *t)
{
	struct user_domain *s = user_domain_of(src);

	(void)src_ctx, (void)dst_ctx;
	s->translates++;
	t->domain = dst;
	t->iov = (struct iovec){ s->mem + addr, len };
	t->n_iov = 1;
	return 0;
}

static void count_invalidated(struct weir_domain *d, void *ctx,
			      const struct weir_translation *t)
{
	(void)ctx, (void)t;
	user_domain_of(d)->invalidates++;
}

static uint64_t random_part(struct work *k, uint64_t *len)
{
	uint64_t off = (uint64_t)rand_r(&k->seed) % LEN;

	*len = 1 + (uint64_t)rand_r(&k->seed) % (LEN - off) % 3000;
	return off;
}

static void ends_well(struct work *k, uint64_t len)
{
	struct weir_job_route route = { .size = sizeof(route) };

	assert_int_equal(jrec_run(k->dma, &k->j), len);
	assert_int_equal(weir_job_get_route(&k->j.job, &route), 0);
	k->routes[route.route]++;
}

/* A write from memory, or a fill with zeros. */
static void put_some(struct work *k, int which, struct weir_domain *d)
{
	uint64_t len, off = random_part(k, &len);
	char *shadow = k->shadow[which] + off;

	if (rand_r(&k->seed) % 4) {
		fill_pattern(k->g->mem, len, off, k->seed);
		weir_job_copy(&k->j.job, weir_operand_at(d, off, len),
			      weir_operand_mem(k->g->mem, len));
		memcpy(shadow, k->g->mem, len);
	} else {
		weir_job_memzero(&k->j.job, weir_operand_at(d, off, len));
		memset(shadow, 0, len);
		k->fills++;
	}
	ends_well(k, len);
}

/* A read, or a copy from store to store, which the destination's domain does. */
static void get_some(struct work *k, int which, struct weir_domain *d)
{
	uint64_t len, off = random_part(k, &len);
	const char *shadow = k->shadow[which] + off;
	uint32_t want = weir_crc32c(0, shadow, len);

	if (which == 0 && rand_r(&k->seed) % 2) {
		weir_job_copy_crc32c(&k->j.job,
				     weir_operand_at(k->g->b.d, off, len),
				     weir_operand_at(d, off, len), 0);
		memcpy(k->shadow[1] + off, shadow, len);
	} else {
		weir_job_copy_crc32c(&k->j.job,
				     weir_operand_mem(k->g->mem, len),
				     weir_operand_at(d, off, len), 0);
	}
	ends_well(k, len);
	assert_int_equal(k->j.job.crc, want);
}

/* Acceptance 30: S3, S6 */
static void case_30_random_reads_and_writes_have_their_digests(void **state)
{
	struct work *k = calloc(1, sizeof(*k));
	unsigned int i, n = scaled(4000);
	struct fixture *g = fixture_begin(state);
	int which;

	k->g = g;
	k->seed = 11;
	k->dma = start_dma(g->r, (struct weir_dma_opts){ .staging_bufs = 1 });
	user_domain_can_all(&g->a);
	memset(g->a.mem, 0xff, LEN);	/* Zeros, as it keeps them. */
	assert_int_equal(weir_domain_set_translate(g->b.d, where_it_is), 0);
	assert_int_equal(weir_domain_set_invalidate(g->b.d, count_invalidated),
			 0);
	jrec_init(&k->j);
	for (i = 0; i < n; i++) {
		which = rand_r(&k->seed) % 2;
		if (rand_r(&k->seed) % 2)
			put_some(k, which, which ? g->b.d : g->a.d);
		else
			get_some(k, which, which ? g->b.d : g->a.d);
	}
	assert_memory_equal(g->b.mem, k->shadow[1], LEN);
	assert_true(k->routes[WEIR_ROUTE_PUSH] && k->fills);
	assert_true(k->routes[WEIR_ROUTE_BOUNCE]);
	assert_true(k->routes[WEIR_ROUTE_TRANSLATE]);
	assert_true(g->b.translates > 0 && !g->b.calls);
	assert_int_equal(g->b.translates, g->b.invalidates);
	assert_int_equal(weir_dma_destroy(k->dma), 0);
	fixture_end(g);
	free(k);
}

/* An engine that ends jobs as it is told. */
struct teller {
	int64_t res;
	int32_t code;
};

static int teller_can(void *arg, const struct weir_engine_query *q,
		      const char **why)
{
	(void)arg, (void)q, (void)why;
	return 1;
}

static int teller_start(void *arg, struct weir_job *job)
{
	const struct teller *t = arg;

	weir_job_end(job, t->res ? 3 : weir_job_bytes(job), t->res, t->code);
	return 0;
}

/* 3.5: whatever a device says reaches the job and the step; what comes after
 * it in a chain was not attempted, and is told apart from what was cancelled.
 */
static void job_status_is_that_of_the_device(void **state)
{
	static const int64_t ends[] = {
		0, -ECANCELED, -EFAULT, -EMSGSIZE, -EOPNOTSUPP, -EIO, -EBADMSG,
		-ENOLINK, -ESTALE,
	};
	static const struct weir_engine_ops ops = {
		.size = sizeof(ops), .name = "teller", .can = teller_can,
		.start = teller_start,
	};
	struct weir_chain_step s = { .size = sizeof(s) };
	struct weir_reactor *r = start_reactor(state);
	struct weir_chain *chain = NULL;
	struct weir_dma *dma = NULL;
	struct teller t;
	char mem[20];
	struct jrec j, next;
	struct rec rec;
	size_t i;

	assert_int_equal(weir_dma_create(&dma, r, NULL), 0);
	assert_int_equal(weir_dma_add_engine(dma, &ops, &t), 0);
	assert_int_equal(weir_dma_start(dma), 0);
	assert_int_equal(weir_chain_create(&chain, r, NULL), 0);
	jrec_init(&j);
	jrec_init(&next);
	weir_job_copy(&j.job, weir_operand_mem(mem, 10),
		      weir_operand_mem(mem + 10, 10));
	next.job = j.job;
	for (i = 0; i < N_OF(ends); i++) {
		t = (struct teller){ ends[i], 40 + (int32_t)i };
		assert_int_equal(jrec_run(dma, &j), ends[i] ? ends[i] : 10);
		assert_int_equal(j.detail.bytes, ends[i] ? 3 : 10);
		assert_int_equal(j.detail.code, t.code);
	}
	assert_int_equal(weir_chain_add_job(chain, WEIR_CHAIN_FIRST, dma,
					    &j.job), 0);
	assert_int_equal(weir_chain_add_job(chain, 0, dma, &next.job), 1);
	for (i = 2; i < N_OF(ends); i++) {
		t = (struct teller){ ends[i], 40 + (int32_t)i };
		rec_init(&rec);
		STARTS(weir_chain_start(chain, &rec.op));
		assert_int_equal(finish(r, &rec), ends[i]);
		assert_int_equal(weir_chain_get_step(chain, 0, &s), 0);
		assert_int_equal(s.state, WEIR_STEP_FAILED);
		assert_int_equal(s.res, ends[i]);
		assert_int_equal(s.detail.code, t.code);
		assert_string_equal(s.engine, "teller");
		assert_int_equal(weir_chain_get_step(chain, 1, &s), 0);
		assert_int_equal(s.state, WEIR_STEP_SKIPPED);
	}
	assert_int_equal(weir_chain_destroy(chain), 0);
	assert_int_equal(weir_dma_destroy(dma), 0);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(case_12_ten_graphs_at_once_and_again),
		CASE(a_node_of_a_stopped_context_fails),
		CASE(case_30_random_reads_and_writes_have_their_digests),
		CASE(job_status_is_that_of_the_device),
	};

	return harness_run_all(cases, N_OF(cases));
}
