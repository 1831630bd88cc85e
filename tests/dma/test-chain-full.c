/* SPDX-License-Identifier: BSD-3-Clause */
/* Chains that leave no capacity in their reactors, among themselves, still end.
 * Two reactors of a simulated world, whose steps go to each other. */

#include "tests/support/harness.h"

#include <weir/chain.h>
#include <weir/dma.h>
#include <weir/job.h>
#include <weir/sim/world.h>

#define CHAINS 4	/* On each reactor; and .ops_max of it. */
#define STEPS 5

struct fixture {
	struct weir_sim *sim;
	struct weir_reactor *r[2];
	struct weir_dma *dma[2];
	struct weir_chain *chain[2][CHAINS], *inner[2][CHAINS];
	struct weir_job jobs[2][CHAINS][STEPS];
	struct weir_op ops[2][CHAINS];
	int64_t res[2][CHAINS];
	char from[64], to[2][CHAINS][STEPS][64];
};

static int start_sleep(struct weir_chain *chain, uint32_t step,
		       struct weir_op *op, void *arg)
{
	struct weir_reactor *r = arg;

	(void)chain, (void)step;
	return weir_sleep_until(r, op, weir_reactor_now(r) + WEIR_MSEC);
}

static void on_end(struct weir_op *op, int64_t res)
{
	*(int64_t *)op->data = res;
}

/* @step of chain @c on reactor @i: a copy in the context of reactor @at. */
static int add_copy(struct fixture *g, int i, int c, int step, int after,
		    int at)
{
	struct weir_job *job = &g->jobs[i][c][step];

	weir_job_copy(job, weir_operand_mem(g->to[i][c][step], 64),
		      weir_operand_mem(g->from, 64));
	return weir_chain_add_job(g->chain[i][c], after, g->dma[at], job);
}

static void make_chain(struct fixture *g, int i, int c)
{
	struct weir_chain *chain;
	int s;

	assert_int_equal(weir_chain_create(&chain, g->r[i], NULL), 0);
	g->chain[i][c] = chain;
	assert_int_equal(weir_chain_create(&g->inner[i][c], g->r[i], NULL), 0);
	assert_int_equal(weir_chain_add_op(g->inner[i][c], WEIR_CHAIN_FIRST,
					   start_sleep, g->r[i]), 0);
	s = weir_chain_add_op(chain, WEIR_CHAIN_FIRST, start_sleep, g->r[i]);
	s = add_copy(g, i, c, 1, s, i);
	s = add_copy(g, i, c, 2, s, !i);
	s = weir_chain_add_chain(chain, s, g->inner[i][c]);
	assert_int_equal(add_copy(g, i, c, 4, s, !i), STEPS - 1);
	weir_op_init(&g->ops[i][c], on_end);
	g->ops[i][c].data = &g->res[i][c];
}

static void fixture_begin(struct fixture *g, uint64_t seed)
{
	struct weir_reactor_opts opts = { .size = sizeof(opts),
					  .ops_max = CHAINS };

	memset(g, 0, sizeof(*g));
	memset(g->from, 'w', sizeof(g->from));
	assert_int_equal(weir_sim_create(&g->sim, seed, NULL), 0);
	opts.sim = g->sim;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(weir_reactor_create(&g->r[i], &opts), 0);
		assert_int_equal(weir_dma_create(&g->dma[i], g->r[i], NULL),
				 0);
		assert_int_equal(weir_dma_start(g->dma[i]), 0);
	}
	for (int i = 0; i < 2; i++)
		for (int c = 0; c < CHAINS; c++)
			make_chain(g, i, c);
}

static void fixture_end(struct fixture *g)
{
	for (int i = 0; i < 2; i++)
		for (int c = 0; c < CHAINS; c++) {
			assert_int_equal(weir_chain_destroy(g->chain[i][c]),
					 0);
			assert_int_equal(weir_chain_destroy(g->inner[i][c]),
					 0);
		}
	for (int i = 0; i < 2; i++)
		assert_int_equal(weir_dma_destroy(g->dma[i]), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(weir_reactor_destroy(g->r[i]), 0);
	assert_int_equal(weir_sim_destroy(g->sim), 0);
}

static void chains_that_fill_two_reactors_end(void **state)
{
	struct weir_op one_more;
	struct fixture g;

	(void)state;
	for (uint64_t seed = 1; seed <= 50; seed++) {
		fixture_begin(&g, seed);
		for (int i = 0; i < 2; i++)
			for (int c = 0; c < CHAINS; c++)
				assert_int_equal(weir_chain_start(
					g.chain[i][c], &g.ops[i][c]), 0);
		weir_op_init(&one_more, on_end);
		assert_int_equal(weir_defer(g.r[0], &one_more), -EAGAIN);
		assert_int_equal(weir_sim_run(g.sim, 10 * WEIR_SEC, 0), 0);
		for (int i = 0; i < 2; i++)
			for (int c = 0; c < CHAINS; c++)
				assert_int_equal(g.res[i][c], STEPS);
		fixture_end(&g);
	}
}

/* What chains had beyond the bound is given back. */
static void afterwards_the_bound_is_what_it_was(void **state)
{
	struct weir_op ops[CHAINS + 1];
	int64_t res;
	struct fixture g;

	(void)state;
	fixture_begin(&g, 1);
	for (int c = 0; c < CHAINS; c++)
		assert_int_equal(weir_chain_start(g.chain[0][c], &g.ops[0][c]),
				 0);
	assert_int_equal(weir_sim_run(g.sim, 10 * WEIR_SEC, 0), 0);
	for (int i = 0; i <= CHAINS; i++) {
		weir_op_init(&ops[i], on_end);
		ops[i].data = &res;
		assert_int_equal(weir_defer(g.r[0], &ops[i]),
				 i < CHAINS ? 0 : -EAGAIN);
	}
	assert_int_equal(weir_sim_run(g.sim, WEIR_SEC, 0), 0);
	for (int i = 0; i <= CHAINS; i++)
		assert_int_equal(weir_defer(g.r[1], &ops[i]),
				 i < CHAINS ? 0 : -EAGAIN);
	assert_int_equal(weir_sim_run(g.sim, WEIR_SEC, 0), 0);
	fixture_end(&g);
}

static const struct harness_case cases[] = {
	CASE(chains_that_fill_two_reactors_end),
	CASE(afterwards_the_bound_is_what_it_was),
};

int main(void)
{
	return harness_run_plain(cases, N_OF(cases));
}
