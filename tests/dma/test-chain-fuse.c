/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Chains, fusing: which pairs of steps are one pass, and that neither step can
 * tell.
 */

#include "tests/support/job-fixture.h"

#include <weir/buf.h>
#include <weir/chain.h>
#include <weir/crc32c.h>
#include <weir/engine.h>
#include <weir/inventory.h>

#define LEN 8192u		/* Twice what the context does in a turn. */
#define MEM (4 * LEN)

struct fixture {
	struct weir_reactor *r;
	struct weir_dma *dma;
	struct weir_mmap *m;
	struct weir_inventory *inv;
	struct weir_buf *buf[2];
	struct weir_chain *chain;
	struct weir_job copy, crc;
	struct iovec iov[2];
	struct rec rec;
	char mem[MEM];
};

static void fixture_begin(struct fixture *g, void **state)
{
	int i;

	memset(g, 0, sizeof(*g));
	g->r = start_reactor(state);
	g->dma = start_dma(g->r, (struct weir_dma_opts){ .turn_bytes = 4096 });
	g->m = start_mmap(g->mem, MEM, WEIR_MMAP_WRITE);
	assert_int_equal(weir_inventory_create(&g->inv, g->r, NULL), 0);
	assert_int_equal(weir_inventory_attach(g->inv, g->m), 0);
	for (i = 0; i < 2; i++)
		assert_int_equal(weir_inventory_get(&g->buf[i], g->inv, g->m,
						    g->mem + i * 2 * LEN,
						    2 * LEN, NULL, 0), 0);
	assert_int_equal(weir_chain_create(&g->chain, g->r, NULL), 0);
	weir_job_init(&g->copy, NULL);
	weir_job_init(&g->crc, NULL);
	rec_init(&g->rec);
	fill_pattern(g->mem, MEM, 0, 3);
}

static void fixture_end(struct fixture *g)
{
	assert_int_equal(weir_chain_destroy(g->chain), 0);
	assert_int_equal(weir_dma_destroy(g->dma), 0);
	weir_buf_put(g->buf[0]);
	weir_buf_put(g->buf[1]);
	assert_int_equal(weir_inventory_destroy(g->inv), 0);
	assert_int_equal(weir_mmap_destroy(g->m), 0);
}

static void add_pair(struct fixture *g)
{
	assert_int_equal(weir_chain_add_job(g->chain, -1, g->dma, &g->copy), 0);
	assert_int_equal(weir_chain_add_job(g->chain, 0, g->dma, &g->crc), 1);
}

static uint64_t n_fused(struct fixture *g)
{
	struct weir_dma_stats stats = { .size = sizeof(stats) };

	assert_int_equal(weir_dma_stats(g->dma, &stats), 0);
	return stats.fused;
}

static struct weir_chain_step step_of(struct fixture *g, uint32_t n)
{
	struct weir_chain_step s = { .size = sizeof(s) };

	assert_int_equal(weir_chain_get_step(g->chain, n, &s), 0);
	return s;
}

static int64_t run(struct fixture *g)
{
	STARTS(weir_chain_start(g->chain, &g->rec.op));
	return finish(g->r, &g->rec);
}

/* Where source and destination are: the first and the third quarter. */
static char *src_of(struct fixture *g)
{
	return g->mem;
}

static char *dst_of(struct fixture *g)
{
	return g->mem + 2 * LEN;
}

/* What pairs are made of. */
static void of_source(struct fixture *g, size_t n)
{
	weir_job_copy(&g->copy, weir_operand_mem(dst_of(g), n),
		      weir_operand_mem(src_of(g), n));
	weir_job_crc32c(&g->crc, weir_operand_mem(src_of(g), n), 7);
}

static void of_destination(struct fixture *g, size_t n)
{
	of_source(g, n);
	weir_job_crc32c(&g->crc, weir_operand_mem(dst_of(g), n), 0);
}

static void of_a_part(struct fixture *g, size_t n)
{
	of_source(g, n);
	weir_job_crc32c(&g->crc, weir_operand_mem(dst_of(g), n - 1), 0);
}

static void of_something_else(struct fixture *g, size_t n)
{
	of_source(g, n);
	weir_job_crc32c(&g->crc, weir_operand_mem(src_of(g) + 1, n), 0);
}

static void of_pieces(struct fixture *g, size_t n)
{
	of_source(g, n);
	g->iov[0] = (struct iovec){ src_of(g), n / 2 };
	g->iov[1] = (struct iovec){ src_of(g) + n / 2, n - n / 2 };
	g->copy.src = weir_operand_iov(NULL, g->iov, 2);
	weir_job_crc32c(&g->crc, weir_operand_iov(NULL, g->iov, 2), 0);
}

/* The second piece lies over the first. */
static void of_laid_over(struct fixture *g, size_t n)
{
	of_source(g, n);
	g->iov[0] = (struct iovec){ dst_of(g), n / 2 };
	g->iov[1] = (struct iovec){ dst_of(g) + 1, n - n / 2 };
	g->copy.dst = weir_operand_iov(NULL, g->iov, 2);
	weir_job_crc32c(&g->crc, weir_operand_iov(NULL, g->iov, 2), 0);
}

static void set_data(struct fixture *g, int i, size_t len)
{
	assert_int_equal(weir_buf_set_data(g->buf[i], g->mem + i * 2 * LEN,
					   len), 0);
}

static void of_empty_buf(struct fixture *g, size_t n)
{
	set_data(g, 0, n);
	set_data(g, 1, 0);
	weir_job_copy(&g->copy, weir_operand_buf(g->buf[1]),
		      weir_operand_buf(g->buf[0]));
	weir_job_crc32c(&g->crc, weir_operand_buf(g->buf[1]), 1);
}

static void of_source_buf(struct fixture *g, size_t n)
{
	of_empty_buf(g, n);
	set_data(g, 1, 100);
	weir_job_crc32c(&g->crc, weir_operand_buf(g->buf[0]), 1);
}

static void of_buf_with_data(struct fixture *g, size_t n)
{
	of_empty_buf(g, n);
	set_data(g, 1, 100);
}

static void of_overwritten_buf(struct fixture *g, size_t n)
{
	of_buf_with_data(g, n);
	g->copy.flags = WEIR_JOB_OVERWRITE;
}

static void with_a_wrong_flag(struct fixture *g, size_t n)
{
	of_source(g, n);
	g->crc.flags = WEIR_JOB_SHORT_OK;
}

static const struct pair {
	const char *name;
	void (*set)(struct fixture *g, size_t n);
	bool fused;
} pairs[] = {
	{ "of the source", of_source, true },
	{ "of the destination", of_destination, true },
	{ "of a part", of_a_part, false },
	{ "of something else", of_something_else, false },
	{ "of a source in pieces", of_pieces, true },
	{ "of pieces laid over each other", of_laid_over, false },
	{ "of an empty buf", of_empty_buf, true },
	{ "of the source's buf", of_source_buf, true },
	{ "of a buf that had data", of_buf_with_data, false },
	{ "of a buf that is overwritten", of_overwritten_buf, true },
	{ "with a flag", with_a_wrong_flag, false },
};

/* What one after the other would come to. */
struct outcome {
	int64_t res[2];
	uint32_t crc;
	uint64_t bytes[2];
	char mem[MEM];
};

static void one_by_one(struct fixture *g, struct outcome *o)
{
	const struct weir_job *jobs[2] = { &g->copy, &g->crc };
	struct jrec j;
	int i;

	for (i = 0; i < 2; i++) {
		jrec_init(&j);
		j.job.kind = jobs[i]->kind;
		j.job.flags = jobs[i]->flags;
		j.job.crc = jobs[i]->crc;
		j.job.src = jobs[i]->src;
		j.job.dst = jobs[i]->dst;
		o->res[i] = jrec_run(g->dma, &j);
		o->bytes[i] = j.detail.bytes;
		o->crc = j.job.crc;
	}
	memcpy(o->mem, g->mem, MEM);
}

static void check_pair(struct fixture *g, const struct pair *pair, size_t n)
{
	static struct outcome want;
	uint64_t before;
	uint32_t i;

	fill_pattern(g->mem, MEM, 0, 3);
	pair->set(g, n);
	one_by_one(g, &want);
	fill_pattern(g->mem, MEM, 0, 3);
	pair->set(g, n);
	before = n_fused(g);
	if (run(g) != 2 || (n_fused(g) > before) != pair->fused)
		fail_msg("%s, %zu bytes: not as it should be", pair->name, n);
	for (i = 0; i < 2; i++) {
		assert_int_equal(step_of(g, i).res, want.res[i]);
		assert_int_equal(step_of(g, i).state, WEIR_STEP_DONE);
		assert_int_equal(step_of(g, i).detail.bytes, want.bytes[i]);
		assert_string_equal(step_of(g, i).engine, "cpu");
	}
	assert_int_equal(g->crc.crc, want.crc);
	assert_int_equal(g->crc.op.detail.bytes, want.bytes[1]);
	assert_int_equal(g->copy.kind, WEIR_JOB_COPY);
	assert_int_equal(g->copy.crc, 0);
	assert_memory_equal(g->mem, want.mem, MEM);
}

/* In the start, and by and by. */
static void a_pass_for_two_comes_to_the_same(void **state)
{
	struct fixture *g = malloc(sizeof(*g));
	size_t i;

	fixture_begin(g, state);
	add_pair(g);
	for (i = 0; i < N_OF(pairs); i++) {
		check_pair(g, &pairs[i], 16);
		check_pair(g, &pairs[i], LEN);
		some_turns(g->r, 1);
		check_pair(g, &pairs[i], 1000);
	}
	fixture_end(g);
	free(g);
}

static void a_failure_is_that_of_the_step_at_fault(void **state)
{
	struct fixture *g = malloc(sizeof(*g));

	fixture_begin(g, state);
	add_pair(g);
	of_source(g, 64);
	g->copy.dst.len = 63;
	assert_int_equal(run(g), -EMSGSIZE);
	assert_int_equal(weir_chain_failed_step(g->chain), 0);
	assert_int_equal(step_of(g, 1).state, WEIR_STEP_SKIPPED);
	assert_int_equal(g->copy.kind, WEIR_JOB_COPY);

	of_source(g, 64);
	weir_job_crc32c(&g->crc, weir_operand_mem(NULL, 64), 0);
	assert_int_equal(run(g), -EINVAL);
	assert_int_equal(weir_chain_failed_step(g->chain), 1);
	assert_int_equal(step_of(g, 0).state, WEIR_STEP_DONE);
	fixture_end(g);
	free(g);
}

static void a_cancel_finds_two_steps(void **state)
{
	struct fixture *g = malloc(sizeof(*g));

	fixture_begin(g, state);
	add_pair(g);
	of_source(g, LEN);
	STARTS(weir_chain_start(g->chain, &g->rec.op));
	assert_int_equal(step_of(g, 0).state, WEIR_STEP_RUNNING);
	assert_int_equal(step_of(g, 1).state, WEIR_STEP_IDLE);
	assert_int_equal(weir_op_cancel(&g->rec.op), 0);
	assert_int_equal(finish(g->r, &g->rec), -ECANCELED);
	assert_int_equal(step_of(g, 0).state, WEIR_STEP_CANCELLED);
	assert_int_equal(step_of(g, 1).state, WEIR_STEP_SKIPPED);
	assert_int_equal(g->copy.kind, WEIR_JOB_COPY);
	assert_int_equal(g->crc.crc, 7);
	fixture_end(g);
	free(g);
}

/* What the checksum starts with may change until its step begins. */
static void changed_start_value_of_a_checksum_is_used(void **state)
{
	struct fixture *g = malloc(sizeof(*g));

	fixture_begin(g, state);
	add_pair(g);
	of_source(g, LEN);
	STARTS(weir_chain_start(g->chain, &g->rec.op));
	assert_int_equal(step_of(g, 0).state, WEIR_STEP_RUNNING);
	g->crc.crc = 99;
	assert_int_equal(finish(g->r, &g->rec), 2);
	assert_int_equal(g->crc.crc, weir_crc32c(99, src_of(g), LEN));
	fixture_end(g);
	free(g);
}

static int64_t changes_crc(struct weir_chain *chain, uint32_t step, void *arg)
{
	struct fixture *g = arg;

	(void)chain, (void)step;
	g->crc.crc = 99;
	return 0;
}

static void call_between_steps_prevents_fusion(void **state)
{
	struct fixture *g = malloc(sizeof(*g));
	uint32_t want;

	fixture_begin(g, state);
	assert_int_equal(weir_chain_add_job(g->chain, -1, g->dma, &g->copy), 0);
	assert_int_equal(weir_chain_add_call(g->chain, 0, changes_crc, g), 1);
	assert_int_equal(weir_chain_add_job(g->chain, 1, g->dma, &g->crc), 2);
	of_source(g, 64);
	want = weir_crc32c(99, src_of(g), 64);
	assert_int_equal(run(g), 3);
	assert_int_equal(n_fused(g), 0);
	assert_int_equal(g->crc.crc, want);

	/* Beside it, too: it comes first. */
	assert_int_equal(weir_chain_destroy(g->chain), 0);
	assert_int_equal(weir_chain_create(&g->chain, g->r, NULL), 0);
	assert_int_equal(weir_chain_add_job(g->chain, -1, g->dma, &g->copy), 0);
	assert_int_equal(weir_chain_add_call(g->chain, 0, changes_crc, g), 1);
	assert_int_equal(weir_chain_add_job(g->chain, 0, g->dma, &g->crc), 2);
	of_source(g, 64);
	STARTS(weir_chain_start(g->chain, &g->rec.op));
	assert_int_equal(finish(g->r, &g->rec), 3);
	assert_int_equal(n_fused(g), 0);
	fixture_end(g);
	free(g);
}

static int64_t changes_dst(struct weir_chain *chain, uint32_t step, void *arg)
{
	(void)chain, (void)step;
	dst_of(arg)[0] ^= 1;
	return 0;
}

/* Begins nothing, but might have changed something all the same. */
static int changes_dst_too(struct weir_chain *chain, uint32_t step,
			   struct weir_op *op, void *arg)
{
	(void)op;
	changes_dst(chain, step, arg);
	return 1;
}

/* No edge says when, but it is called when the copy is done. */
static void a_step_beside_that_changes_the_bytes_is_seen(void **state)
{
	struct fixture *g = malloc(sizeof(*g));
	int by_op, n;

	for (by_op = 0; by_op < 2; by_op++) {
		fixture_begin(g, state);
		of_destination(g, 64);
		assert_int_equal(weir_chain_add_call(g->chain, -1, changes_crc,
						     g), 0);
		assert_int_equal(weir_chain_add_job(g->chain, 0, g->dma,
						    &g->copy), 1);
		n = by_op ? weir_chain_add_op(g->chain, 0, changes_dst_too, g) :
			    weir_chain_add_call(g->chain, 0, changes_dst, g);
		assert_int_equal(n, 2);
		assert_int_equal(weir_chain_add_job(g->chain, 1, g->dma,
						    &g->crc), 3);
		assert_int_equal(run(g), 4);
		assert_int_equal(n_fused(g), 0);
		assert_memory_equal(dst_of(g) + 1, src_of(g) + 1, 63);
		assert_int_equal(dst_of(g)[0], src_of(g)[0] ^ 1);
		assert_int_equal(g->crc.crc, weir_crc32c(99, dst_of(g), 64));
		fixture_end(g);
		end_reactor(state);
	}
	free(g);
}

static void step_with_another_fence_is_not_fused(void **state)
{
	struct fixture *g = malloc(sizeof(*g));
	uint32_t on;

	fixture_begin(g, state);
	add_pair(g);
	for (on = WEIR_CHAIN_ON_FAILED; on <= WEIR_CHAIN_ON_END; on++) {
		assert_int_equal(weir_chain_add_dep(g->chain, 1, 0, on), 0);
		of_source(g, 64);
		run(g);
		assert_int_equal(n_fused(g), 0);
	}
	assert_int_equal(weir_chain_add_dep(g->chain, 1, 0,
					    WEIR_CHAIN_ON_DONE), 0);
	of_source(g, 64);
	assert_int_equal(run(g), 2);
	assert_int_equal(n_fused(g), 1);
	fixture_end(g);
	free(g);
}

static int can_copy(void *arg, const struct weir_engine_query *q,
		    const char **why)
{
	(void)arg, (void)why;
	return q->kind == WEIR_JOB_COPY;
}

static int do_copy(void *arg, struct weir_job *job)
{
	++*(int *)arg;
	weir_job_end(job, weir_job_bytes(job), 0, 0);
	return 0;
}

static void an_engine_of_the_users_gets_its_copies(void **state)
{
	static const struct weir_engine_ops ops = {
		.size = sizeof(ops), .name = "mine",
		.can = can_copy, .start = do_copy,
	};
	struct fixture *g = malloc(sizeof(*g));
	struct weir_dma *dma = NULL;
	int copies = 0;

	fixture_begin(g, state);
	assert_int_equal(weir_dma_create(&dma, g->r, NULL), 0);
	assert_int_equal(weir_dma_add_engine(dma, &ops, &copies), 0);
	assert_int_equal(weir_dma_start(dma), 0);
	assert_int_equal(weir_chain_add_job(g->chain, -1, dma, &g->copy), 0);
	assert_int_equal(weir_chain_add_job(g->chain, 0, dma, &g->crc), 1);
	of_source(g, 64);
	assert_int_equal(run(g), 2);
	assert_int_equal(copies, 1);
	assert_string_equal(step_of(g, 0).engine, "mine");
	assert_string_equal(step_of(g, 1).engine, "cpu");
	fixture_end(g);
	assert_int_equal(weir_dma_destroy(dma), 0);
	free(g);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(changed_start_value_of_a_checksum_is_used),
		CASE(a_pass_for_two_comes_to_the_same),
		CASE(a_failure_is_that_of_the_step_at_fault),
		CASE(a_cancel_finds_two_steps),
		CASE(call_between_steps_prevents_fusion),
		CASE(a_step_beside_that_changes_the_bytes_is_seen),
		CASE(step_with_another_fence_is_not_fused),
		CASE(an_engine_of_the_users_gets_its_copies),
	};

	return harness_run_all(cases, N_OF(cases));
}
