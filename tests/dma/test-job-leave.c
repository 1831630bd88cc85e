/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Until the callback of a job begins, the job is in flight and its bufs are in
 * use, whatever its size and wherever its bytes were moved.
 */

#include "tests/support/job-fixture.h"

#include <stdlib.h>

#include <weir/buf.h>
#include <weir/inventory.h>

#include "tests/support/sim-calls.h"

#define MOST (4u << 20)
#define JOBS 64

struct fixture {
	struct weir_reactor *r;
	struct weir_dma *dma;
	struct weir_inventory *inv;
	struct weir_mmap *m;
	char *mem;			/* Twice MOST. */
};

static void fixture_begin(struct fixture *g, void **state,
			  struct weir_dma_opts opts)
{
	g->r = start_reactor(state);
	g->dma = start_dma(g->r, opts);
	g->mem = aligned_alloc(4096, 2 * MOST);
	fill_pattern(g->mem, 2 * MOST, 0, 1);
	g->m = start_mmap(g->mem, 2 * MOST, WEIR_MMAP_WRITE);
	g->inv = start_inventory(g->r, g->m);
}

static void fixture_end(struct fixture *g)
{
	assert_int_equal(weir_dma_destroy(g->dma), 0);
	assert_int_equal(weir_inventory_destroy(g->inv), 0);
	assert_int_equal(weir_mmap_destroy(g->m), 0);
	free(g->mem);
}

static struct weir_buf *take(struct fixture *g, size_t off, size_t len,
			     size_t data_len)
{
	return get_buf(g->inv, g->m, g->mem + off, len, data_len);
}

/* Of the bytes from which on they do not fit into a turn, 1 MiB, and others. */
static const size_t sizes[] = {
	1, 4096, (1u << 20) - 1, 1u << 20, (1u << 20) + 1, MOST,
};

static void job_holds_its_bufs_until_its_callback(void **state)
{
	struct weir_buf *src, *dst, *other;
	struct jrec j, second;
	struct fixture g;
	size_t i, len;

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	for (i = 0; i < N_OF(sizes); i++) {
		len = sizes[i];
		src = take(&g, 0, len, len);
		dst = take(&g, MOST, len, 0);
		other = take(&g, 0, len, len);
		some_turns(g.r, 1);
		jrec_init(&j);
		jrec_init(&second);
		weir_job_copy(&j.job, weir_operand_buf(dst),
			      weir_operand_buf(src));
		STARTS(weir_job_start(g.dma, &j.job));

		assert_true(weir_op_is_busy(&j.job.op));
		assert_int_equal(weir_buf_reset(src), -EBUSY);
		assert_int_equal(weir_buf_reset(dst), -EBUSY);
		assert_int_equal(weir_buf_chain(dst, other), -EBUSY);
		assert_int_equal(weir_buf_refs(dst), 2);
		assert_int_equal(weir_buf_data_len(dst), 0);
		weir_job_copy(&second.job, weir_operand_buf(dst),
			      weir_operand_buf(other));
		assert_int_equal(weir_job_start(g.dma, &second.job), -EBUSY);
		weir_job_crc32c(&second.job, weir_operand_buf(dst), 0);
		assert_int_equal(weir_job_start(g.dma, &second.job), -EBUSY);

		assert_int_equal(jrec_finish(g.r, &j), len);
		assert_int_equal(weir_buf_refs(dst), 1);
		assert_int_equal(weir_buf_data_len(dst), len);
		assert_int_equal(weir_buf_reset(src), 0);
		assert_int_equal(weir_buf_reset(dst), 0);
		weir_buf_put(src);
		weir_buf_put(dst);
		weir_buf_put(other);
	}
	fixture_end(&g);
}

static void job_holds_its_file_domain_until_its_callback(void **state)
{
	struct weir_domain *file;
	struct jrec j;
	struct fixture g;
	int fd;

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	fd = test_file(state, "a", 4096, 1);
	file = file_domain(fd);
	jrec_init(&j);
	weir_job_copy(&j.job, weir_operand_mem(g.mem, 4096),
		      weir_operand_at(file, 0, 4096));
	STARTS(weir_job_start(g.dma, &j.job));
	while (weir_dma_in_flight(g.dma)) {
		assert_int_equal(weir_domain_users(file), 1);
		assert_int_equal(weir_domain_destroy(file), -EBUSY);
		some_turns(g.r, 1);
	}
	assert_int_equal(j.calls, 1);
	assert_int_equal(weir_domain_users(file), 0);
	assert_int_equal(weir_domain_destroy(file), 0);
	close(fd);
	fixture_end(&g);
}

/* What a callback saw. */
struct seen {
	struct jrec rec;
	struct weir_dma *dma;
	uint32_t in_flight;
};

static void see(struct weir_op *op, int64_t res)
{
	struct seen *s = weir_container_of(op, struct seen, rec.job.op);

	jrec_done(op, res);
	s->in_flight = weir_dma_in_flight(s->dma);
}

/* A caller may free a job when none is in flight. */
static void context_counts_jobs_until_their_callbacks_begin(void **state)
{
	struct seen *jobs = calloc(JOBS, sizeof(*jobs));
	struct fixture g;
	uint32_t i;

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	for (i = 0; i < JOBS; i++) {
		jrec_init(&jobs[i].rec);
		jobs[i].dma = g.dma;
		jobs[i].rec.job.op.fn = see;
		weir_job_fill(&jobs[i].rec.job,
			      weir_operand_mem(g.mem + i * 64, 64), i);
		STARTS(weir_job_start(g.dma, &jobs[i].rec.job));
		assert_int_equal(weir_dma_in_flight(g.dma), i + 1);
		assert_int_equal(dma_stats_of(g.dma).in_flight, i + 1);
	}
	assert_int_equal(weir_dma_destroy(g.dma), -EBUSY);
	while (weir_dma_in_flight(g.dma))
		some_turns(g.r, 1);
	for (i = 0; i < JOBS; i++) {
		assert_int_equal(jobs[i].rec.calls, 1);
		assert_int_equal(jobs[i].rec.res, 64);
		assert_int_equal(jobs[i].in_flight, JOBS - 1 - i);
	}
	assert_int_equal(dma_stats_of(g.dma).completed, JOBS);
	free(jobs);
	fixture_end(&g);
}

static void context_bounds_jobs_that_end_inside_their_start(void **state)
{
	struct jrec jobs[4], more;
	struct fixture g;
	uint32_t i;

	fixture_begin(&g, state, (struct weir_dma_opts){ .jobs_max = 4 });
	for (i = 0; i < 4; i++) {
		jrec_init(&jobs[i]);
		weir_job_fill(&jobs[i].job, weir_operand_mem(g.mem + i * 8, 8),
			      i);
		STARTS(weir_job_start(g.dma, &jobs[i].job));
	}
	jrec_init(&more);
	weir_job_fill(&more.job, weir_operand_mem(g.mem, 8), 1);
	assert_int_equal(weir_job_start(g.dma, &more.job), -EAGAIN);
	assert_int_equal(dma_stats_of(g.dma).refused, 1);
	UNTIL(g.r, jobs[3].calls);
	assert_int_equal(jrec_run(g.dma, &more), 8);
	fixture_end(&g);
}

static void stop_waits_for_callbacks_that_are_due(void **state)
{
	struct jrec jobs[4];
	struct rec stop;
	struct fixture g;
	uint32_t i;

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	for (i = 0; i < 4; i++) {
		jrec_init(&jobs[i]);
		weir_job_fill(&jobs[i].job, weir_operand_mem(g.mem + i * 8, 8),
			      i);
		STARTS(weir_job_start(g.dma, &jobs[i].job));
	}
	rec_init(&stop);
	STARTS(weir_dma_stop(g.dma, &stop.op));
	assert_int_equal(weir_dma_state(g.dma), WEIR_DMA_STOPPING);
	assert_int_equal(weir_dma_destroy(g.dma), -EBUSY);
	assert_int_equal(finish(g.r, &stop), 0);
	assert_int_equal(weir_dma_state(g.dma), WEIR_DMA_STOPPED);
	for (i = 0; i < 4; i++) {
		assert_int_equal(jobs[i].calls, 1);
		assert_int_equal(jobs[i].res, 8);
	}
	fixture_end(&g);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(job_holds_its_bufs_until_its_callback),
		CASE(job_holds_its_file_domain_until_its_callback),
		CASE(context_counts_jobs_until_their_callbacks_begin),
		CASE(context_bounds_jobs_that_end_inside_their_start),
		CASE(stop_waits_for_callbacks_that_are_due),
	};

	return harness_run_all(cases, N_OF(cases));
}
