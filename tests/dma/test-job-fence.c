/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * When jobs begin, and what a context says of itself: fences, lazy jobs,
 * batches, the flush, the state callback.
 *
 * An engine of the test's own takes all copies and ends them when it is told.
 */

#include "tests/support/job-fixture.h"

#include <weir/buf.h>
#include <weir/engine.h>
#include <weir/inventory.h>

#define N_JOBS 8
#define LEN 64

struct fixture {
	struct weir_reactor *r;
	struct weir_dma *dma;
	struct jrec j[N_JOBS];
	char mem[N_JOBS][2][LEN];

	/* What the engine saw: jobs by number, in the order they began. */
	int begun[2 * N_JOBS];
	int n_begun;
	int flushes;
	int refuse; /* With this errno. */
};

static int number(struct fixture *g, const struct weir_job *job)
{
	return (int)(weir_container_of(job, struct jrec, job) - g->j);
}

static int held_can(void *arg, const struct weir_engine_query *q,
		    const char **why)
{
	(void)arg;
	*why = "only copies";
	return q->kind == WEIR_JOB_COPY;
}

static int held_start(void *arg, struct weir_job *job)
{
	struct fixture *g = arg;

	if (g->refuse)
		return g->refuse;
	g->begun[g->n_begun++] = number(g, job);
	return 0;
}

static void held_cancel(void *arg, struct weir_job *job)
{
	(void)arg;
	weir_job_end(job, 0, -ECANCELED, 0);
}

static void held_flush(void *arg)
{
	((struct fixture *)arg)->flushes++;
}

static void ends(struct fixture *g, int i, int err)
{
	weir_job_end(&g->j[i].job, err ? 0 : LEN, err, 0);
}

static void fixture_begin(struct fixture *g, void **state,
			  struct weir_dma_opts opts)
{
	static const struct weir_engine_ops ops = {
		.size = sizeof(ops),
		.name = "held",
		.can = held_can,
		.start = held_start,
		.cancel = held_cancel,
		.flush = held_flush,
	};
	int i;

	memset(g, 0, sizeof(*g));
	g->r = start_reactor(state);
	opts.size = sizeof(opts);
	assert_int_equal(weir_dma_create(&g->dma, g->r, &opts), 0);
	assert_int_equal(weir_dma_add_engine(g->dma, &ops, g), 0);
	assert_int_equal(weir_dma_start(g->dma), 0);
	for (i = 0; i < N_JOBS; i++) {
		jrec_init(&g->j[i]);
		weir_job_copy(&g->j[i].job, weir_operand_mem(g->mem[i][0], LEN),
			      weir_operand_mem(g->mem[i][1], LEN));
	}
}

static void fixture_end(struct fixture *g)
{
	some_turns(g->r, 2);
	assert_int_equal(weir_dma_in_flight(g->dma), 0);
	assert_int_equal(weir_dma_destroy(g->dma), 0);
}

static void start(struct fixture *g, int i, uint32_t flags)
{
	g->j[i].job.flags = flags;
	STARTS(weir_job_start(g->dma, &g->j[i].job));
}

/* The engine has seen these, in this order, and no more. */
static void has_begun(struct fixture *g, int n, const int *want)
{
	int i;

	assert_int_equal(g->n_begun, n);
	for (i = 0; i < n; i++)
		assert_int_equal(g->begun[i], want[i]);
}

#define BEGUN(g, ...) \
	has_begun(g, (int)N_OF(((int[]){ __VA_ARGS__ })), \
		  (int[]){ __VA_ARGS__ })

/* C3.3, FENCE */
static void fence_waits_for_jobs_started_before_it(void **state)
{
	struct fixture g;

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	start(&g, 0, 0);
	start(&g, 1, 0);
	start(&g, 2, WEIR_JOB_FENCE);
	start(&g, 3, 0);
	some_turns(g.r, 3);
	BEGUN(&g, 0, 1, 3);
	assert_int_equal(weir_dma_in_flight(g.dma), 4);
	ends(&g, 1, 0);
	some_turns(g.r, 3);
	BEGUN(&g, 0, 1, 3);
	ends(&g, 0, 0);
	some_turns(g.r, 3);
	BEGUN(&g, 0, 1, 3, 2);
	ends(&g, 2, 0);
	ends(&g, 3, 0);
	assert_int_equal(jrec_finish(g.r, &g.j[3]), LEN);
	assert_int_equal(g.j[2].res, LEN);
	fixture_end(&g);
}

static void a_fence_with_nothing_before_it_begins_at_once(void **state)
{
	struct fixture g;

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	start(&g, 0, WEIR_JOB_FENCE);
	BEGUN(&g, 0);
	ends(&g, 0, 0);
	start(&g, 1, WEIR_JOB_FENCE);
	BEGUN(&g, 0, 1);
	ends(&g, 1, 0);
	fixture_end(&g);
}

static void fences_follow_one_another(void **state)
{
	struct fixture g;
	int i;

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	for (i = 0; i < N_JOBS; i++)
		start(&g, i, WEIR_JOB_FENCE);
	for (i = 0; i < N_JOBS; i++) {
		some_turns(g.r, 2);
		assert_int_equal(g.n_begun, i + 1);
		assert_int_equal(g.begun[i], i);
		ends(&g, i, 0);
	}
	fixture_end(&g);
}

/* C3.8: order only, dependents are a chain's. */
static void a_fence_runs_also_after_a_failure(void **state)
{
	struct fixture g;

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	start(&g, 0, 0);
	start(&g, 1, WEIR_JOB_FENCE);
	ends(&g, 0, -EIO);
	some_turns(g.r, 2);
	assert_int_equal(g.j[0].res, -EIO);
	BEGUN(&g, 0, 1);
	ends(&g, 1, 0);
	assert_int_equal(jrec_finish(g.r, &g.j[1]), LEN);
	fixture_end(&g);
}

static void a_fence_that_waits_can_be_cancelled(void **state)
{
	struct fixture g;

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	start(&g, 0, 0);
	start(&g, 1, WEIR_JOB_FENCE);
	start(&g, 2, WEIR_JOB_FENCE);
	assert_int_equal(weir_op_cancel(&g.j[1].job.op), 0);
	assert_int_equal(jrec_finish(g.r, &g.j[1]), -ECANCELED);
	assert_int_equal(g.j[1].detail.bytes, 0);
	some_turns(g.r, 2);
	BEGUN(&g, 0);
	ends(&g, 0, 0);
	some_turns(g.r, 2);
	BEGUN(&g, 0, 2);
	ends(&g, 2, 0);
	fixture_end(&g);
}

static void a_deadline_reaches_a_fence_that_waits(void **state)
{
	struct fixture g;

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	start(&g, 0, 0);
	assert_int_equal(weir_op_set_deadline(&g.j[1].job.op, 1), 0);
	start(&g, 1, WEIR_JOB_FENCE);
	assert_int_equal(jrec_finish(g.r, &g.j[1]), -ETIMEDOUT);
	BEGUN(&g, 0);
	ends(&g, 0, 0);
	fixture_end(&g);
}

static void a_fence_that_waits_holds_its_bufs(void **state)
{
	struct weir_inventory *inv = NULL;
	struct weir_buf *buf = NULL;
	struct weir_mmap *m;
	static char mem[4096];
	struct jrec other;
	struct fixture g;

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	m = start_mmap(mem, sizeof(mem), WEIR_MMAP_WRITE);
	assert_int_equal(weir_inventory_create(&inv, g.r, NULL), 0);
	assert_int_equal(weir_inventory_attach(inv, m), 0);
	assert_int_equal(weir_inventory_get(&buf, inv, m, mem, 4096, NULL, 0),
			 0);
	start(&g, 0, 0);
	g.j[1].job.dst = weir_operand_buf(buf);
	start(&g, 1, WEIR_JOB_FENCE);
	jrec_init(&other);
	weir_job_fill(&other.job, weir_operand_buf(buf), 1);
	assert_int_equal(weir_job_start(g.dma, &other.job), -EBUSY);
	assert_int_equal(weir_op_cancel(&g.j[1].job.op), 0);
	assert_int_equal(jrec_finish(g.r, &g.j[1]), -ECANCELED);
	assert_int_equal(weir_buf_data_len(buf), 0);
	assert_int_equal(jrec_run(g.dma, &other), 4096);
	ends(&g, 0, 0);
	weir_buf_put(buf);
	fixture_end(&g);
	assert_int_equal(weir_inventory_destroy(inv), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

static void a_stop_ends_what_has_not_begun(void **state)
{
	struct rec stop;
	struct fixture g;
	int i;

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	start(&g, 0, 0);
	start(&g, 1, WEIR_JOB_FENCE);
	start(&g, 2, WEIR_JOB_LAZY);
	start(&g, 3, WEIR_JOB_FENCE | WEIR_JOB_LAZY);
	rec_init(&stop);
	STARTS(weir_dma_stop(g.dma, &stop.op));
	assert_int_equal(finish(g.r, &stop), 0);
	for (i = 0; i < 4; i++)
		assert_int_equal(g.j[i].res, -ECANCELED);
	BEGUN(&g, 0);
	assert_int_equal(weir_dma_state(g.dma), WEIR_DMA_STOPPED);

	/* The lists are whole after it. */
	assert_int_equal(weir_dma_start(g.dma), 0);
	start(&g, 4, 0);
	start(&g, 5, WEIR_JOB_FENCE);
	ends(&g, 4, 0);
	some_turns(g.r, 2);
	BEGUN(&g, 0, 4, 5);
	ends(&g, 5, 0);
	fixture_end(&g);
}

/* A7.6: NONE, then FLUSH. */
static void lazy_jobs_begin_when_the_context_is_flushed(void **state)
{
	struct fixture g;

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	start(&g, 0, WEIR_JOB_LAZY);
	start(&g, 1, WEIR_JOB_LAZY);
	assert_int_equal(g.n_begun, 0);
	assert_int_equal(weir_dma_in_flight(g.dma), 2);
	weir_dma_flush(g.dma);
	BEGUN(&g, 0, 1);
	assert_int_equal(g.flushes, 1);
	weir_dma_flush(g.dma);
	assert_int_equal(g.flushes, 1);
	ends(&g, 0, 0);
	ends(&g, 1, 0);
	fixture_end(&g);
}

static void lazy_jobs_begin_by_themselves_in_the_next_turn(void **state)
{
	struct fixture g;

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	start(&g, 0, WEIR_JOB_LAZY);
	start(&g, 1, 0);
	BEGUN(&g, 1);
	UNTIL(g.r, g.n_begun == 2);
	assert_int_equal(g.flushes, 1);
	ends(&g, 0, 0);
	ends(&g, 1, 0);
	fixture_end(&g);
}

static void a_lazy_job_can_be_cancelled_before_the_flush(void **state)
{
	struct fixture g;

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	start(&g, 0, WEIR_JOB_LAZY);
	start(&g, 1, WEIR_JOB_LAZY);
	start(&g, 2, WEIR_JOB_LAZY);
	assert_int_equal(weir_op_cancel(&g.j[1].job.op), 0);
	weir_dma_flush(g.dma);
	BEGUN(&g, 0, 2);
	assert_int_equal(jrec_finish(g.r, &g.j[1]), -ECANCELED);
	ends(&g, 0, 0);
	ends(&g, 2, 0);
	fixture_end(&g);
}

static void fence_waits_for_lazy_jobs(void **state)
{
	struct fixture g;

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	start(&g, 0, WEIR_JOB_LAZY);
	start(&g, 1, WEIR_JOB_FENCE);
	start(&g, 2, WEIR_JOB_FENCE | WEIR_JOB_LAZY);
	weir_dma_flush(g.dma);
	BEGUN(&g, 0);
	ends(&g, 0, 0);
	some_turns(g.r, 2);
	BEGUN(&g, 0, 1);
	ends(&g, 1, 0);
	weir_dma_flush(g.dma);
	BEGUN(&g, 0, 1, 2);
	ends(&g, 2, 0);
	fixture_end(&g);
}

static void late_refusal_is_the_result_of_the_job(void **state)
{
	struct fixture g;

	fixture_begin(&g, state, (struct weir_dma_opts){ 0 });
	start(&g, 0, WEIR_JOB_LAZY);
	g.refuse = -ENODEV;
	weir_dma_flush(g.dma);
	assert_int_equal(jrec_finish(g.r, &g.j[0]), -ENODEV);

	/* No capacity is no refusal. */
	g.refuse = -EAGAIN;
	start(&g, 1, WEIR_JOB_LAZY);
	weir_dma_flush(g.dma);
	some_turns(g.r, 3);
	assert_int_equal(g.j[1].calls, 0);
	g.refuse = 0;
	UNTIL(g.r, g.n_begun == 1);
	ends(&g, 1, 0);
	assert_int_equal(jrec_finish(g.r, &g.j[1]), LEN);
	fixture_end(&g);
}

/* A7.10, A7.11 */
static void a_batch_starts_what_there_is_capacity_for(void **state)
{
	struct weir_job *jobs[N_JOBS];
	struct fixture g;
	uint32_t n = 99;
	int i;

	fixture_begin(&g, state, (struct weir_dma_opts){ .jobs_max = 5 });
	for (i = 0; i < N_JOBS; i++)
		jobs[i] = &g.j[i].job;
	assert_int_equal(weir_job_start_batch(g.dma, jobs, 0, &n), 0);
	assert_int_equal(n, 0);
	assert_int_equal(weir_job_start_batch(g.dma, jobs, N_JOBS, &n),
			 -EAGAIN);
	assert_int_equal(n, 5);
	BEGUN(&g, 0, 1, 2, 3, 4);
	for (i = 0; i < N_JOBS; i++)
		assert_int_equal(weir_op_is_busy(&g.j[i].job.op), i < 5);
	for (i = 0; i < 5; i++)
		ends(&g, i, 0);
	UNTIL(g.r, g.j[4].calls);
	g.j[6].job.kind = 0;
	assert_int_equal(weir_job_start_batch(g.dma, jobs + 5, 3, &n), -EINVAL);
	assert_int_equal(n, 1);
	BEGUN(&g, 0, 1, 2, 3, 4, 5);
	ends(&g, 5, 0);
	fixture_end(&g);
}

/* States. */

struct arrows {
	struct weir_reactor *r;
	struct weir_dma *dma;
	int seen[16][2];
	int n;
	int again; /* Restarts still to make. */
	struct rec stop;
	bool destroy;
};

static void on_state(struct weir_dma *dma, int prev, int next, void *arg)
{
	struct arrows *a = arg;

	assert_int_equal(harness_starting, 0);
	assert_ptr_equal(dma, a->dma);
	assert_true(a->n < 16);
	a->seen[a->n][0] = prev;
	a->seen[a->n++][1] = next;
	if (next == WEIR_DMA_STOPPED && a->destroy) {
		assert_int_equal(weir_dma_destroy(dma), 0);
		a->dma = NULL;
	} else if (next == WEIR_DMA_STOPPED && a->again) {
		a->again--;
		STARTS(weir_dma_start(dma));
	} else if (next == WEIR_DMA_RUNNING && a->again) {
		rec_init(&a->stop);
		STARTS(weir_dma_stop(dma, &a->stop.op));
	}
}

static void arrows_begin(struct arrows *a, void **state)
{
	memset(a, 0, sizeof(*a));
	a->r = start_reactor(state);
	assert_int_equal(weir_dma_create(&a->dma, a->r, NULL), 0);
	assert_int_equal(weir_dma_set_state_cb(a->dma, on_state, a), 0);
}

static void saw(const struct arrows *a, int n, const int (*want)[2])
{
	int i;

	assert_int_equal(a->n, n);
	for (i = 0; i < n; i++) {
		assert_int_equal(a->seen[i][0], want[i][0]);
		assert_int_equal(a->seen[i][1], want[i][1]);
	}
}

/* A7.1, 2.3: each arrow once, from the loop. */
static void context_reports_each_change_of_state_once(void **state)
{
	static const int want[][2] = {
		{ WEIR_DMA_STOPPED, WEIR_DMA_RUNNING },
		{ WEIR_DMA_RUNNING, WEIR_DMA_STOPPED },
		{ WEIR_DMA_STOPPED, WEIR_DMA_RUNNING },
		{ WEIR_DMA_RUNNING, WEIR_DMA_STOPPING },
		{ WEIR_DMA_STOPPING, WEIR_DMA_STOPPED },
	};
	static char mem[3][8192];
	struct arrows a;
	struct jrec j[2];

	arrows_begin(&a, state);
	STARTS(weir_dma_start(a.dma));
	STARTS(weir_dma_start(a.dma));
	assert_int_equal(weir_dma_set_state_cb(a.dma, NULL, NULL), -EBUSY);
	assert_int_equal(weir_dma_destroy(a.dma), -EBUSY);
	some_turns(a.r, 2);
	saw(&a, 1, want);

	rec_init(&a.stop);
	STARTS(weir_dma_stop(a.dma, &a.stop.op));
	STARTS(weir_dma_start(a.dma));
	assert_int_equal(finish(a.r, &a.stop), 0);
	saw(&a, 3, want);

	weir_dma_start(a.dma);
	jrec_init(&j[0]);
	weir_job_copy(&j[0].job, weir_operand_mem(mem[0], 8192),
		      weir_operand_mem(mem[1], 8192));
	j[0].job.flags = WEIR_JOB_LAZY;
	STARTS(weir_job_start(a.dma, &j[0].job));
	rec_init(&a.stop);
	STARTS(weir_dma_stop(a.dma, &a.stop.op));
	assert_int_equal(finish(a.r, &a.stop), 0);
	assert_int_equal(j[0].res, -ECANCELED);
	saw(&a, 5, want);
	assert_int_equal(weir_dma_set_state_cb(a.dma, NULL, NULL), 0);
	STARTS(weir_dma_start(a.dma));
	some_turns(a.r, 2);
	saw(&a, 5, want);
	assert_int_equal(weir_dma_destroy(a.dma), 0);
}

static void the_state_callback_may_drive_it_all(void **state)
{
	struct arrows a;

	arrows_begin(&a, state);
	a.again = 3;
	STARTS(weir_dma_start(a.dma));
	UNTIL(a.r, !a.again && a.seen[a.n - 1][1] == WEIR_DMA_RUNNING);
	assert_int_equal(a.n, 7);
	a.destroy = true;
	rec_init(&a.stop);
	STARTS(weir_dma_stop(a.dma, &a.stop.op));
	assert_int_equal(finish(a.r, &a.stop), 0);
	assert_null(a.dma);
	assert_int_equal(a.n, 8);
}

static void untold_changes_are_bounded(void **state)
{
	struct rec stop[16];
	struct arrows a;
	int i, err = 0;

	arrows_begin(&a, state);
	for (i = 0; i < 16 && !err; i++) {
		err = weir_dma_start(a.dma);
		if (err)
			break;
		rec_init(&stop[i]);
		STARTS(weir_dma_stop(a.dma, &stop[i].op));
	}
	assert_int_equal(err, -EAGAIN);
	assert_true(i >= 4);
	some_turns(a.r, 2);
	assert_int_equal(a.n, 2 * i);
	assert_int_equal(weir_dma_start(a.dma), 0);
	some_turns(a.r, 1);
	assert_int_equal(weir_dma_destroy(a.dma), 0);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(fence_waits_for_jobs_started_before_it),
		CASE(a_fence_with_nothing_before_it_begins_at_once),
		CASE(fences_follow_one_another),
		CASE(a_fence_runs_also_after_a_failure),
		CASE(a_fence_that_waits_can_be_cancelled),
		CASE(a_deadline_reaches_a_fence_that_waits),
		CASE(a_fence_that_waits_holds_its_bufs),
		CASE(a_stop_ends_what_has_not_begun),
		CASE(lazy_jobs_begin_when_the_context_is_flushed),
		CASE(lazy_jobs_begin_by_themselves_in_the_next_turn),
		CASE(a_lazy_job_can_be_cancelled_before_the_flush),
		CASE(fence_waits_for_lazy_jobs),
		CASE(late_refusal_is_the_result_of_the_job),
		CASE(a_batch_starts_what_there_is_capacity_for),
		CASE(context_reports_each_change_of_state_once),
		CASE(the_state_callback_may_drive_it_all),
		CASE(untold_changes_are_bounded),
	};

	return harness_run_all(cases, N_OF(cases));
}
