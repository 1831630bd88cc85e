/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Through staging: domains whose functions start such jobs themselves, in the
 * same context, and devices that do not let go of staging.
 */

#include "tests/support/slow-fixture.h"

#include <weir/route.h>

#include "tests/support/sim-calls.h"

#define LEN 65536u
#define DEPTH_MAX 6
#define REQUESTS_MAX 64

/* A pull of a layer: a job through staging from the one below. */
struct request {
	struct layer *layer;
	struct weir_op *op;	/* NULL: this is free. */
	const struct weir_domain_move *move;
	struct jrec j;
	struct weir_op defer;
};

/* A domain whose bytes are those of another place. */
struct layer {
	struct weir_domain *d;
	struct weir_operand below; /* Of all of it. */
	struct weir_dma *dma;
	struct weir_reactor *r;
	bool later;		/* The job is started from the loop. */
	int refused;
	struct request requests[REQUESTS_MAX];
};

struct fixture {
	struct weir_reactor *r;
	struct weir_dma *dma;
	struct weir_domain *file[2];
	int fd[2];
	struct layer layer[DEPTH_MAX];
	char *mem;
};

static void request_done(struct weir_op *op, int64_t res)
{
	struct request *q = weir_container_of(op, struct request, j.job.op);
	struct weir_op *outer = q->op;

	q->op = NULL;
	weir_domain_complete(outer, res);
}

static int request_start(struct request *q)
{
	const struct iovec *src = &q->move->src.iov[0];
	const struct iovec *dst = &q->move->dst.iov[0];
	struct weir_operand from = q->layer->below;

	from.addr += (uintptr_t)src->iov_base;
	from.len = src->iov_len;
	weir_job_init(&q->j.job, request_done);
	weir_job_copy_crc32c(&q->j.job,
			     weir_operand_mem(dst->iov_base, dst->iov_len),
			     from, 0);
	return weir_job_start(q->layer->dma, &q->j.job);
}

static void request_begin(struct weir_op *op, int64_t res)
{
	struct request *q = weir_container_of(op, struct request, defer);

	(void)res;
	assert_int_equal(request_start(q), 0);
}

static int layer_pull(struct weir_domain *d, struct weir_reactor *r,
		      struct weir_op *op, const struct weir_domain_move *m)
{
	struct layer *layer = weir_domain_ctx(d);
	struct request *q = layer->requests;
	int err;

	assert_int_equal(m->src.n_iov, 1);
	assert_int_equal(m->dst.n_iov, 1);
	while (q->op)
		q++;
	assert_true(q < layer->requests + REQUESTS_MAX);
	*q = (struct request){ .layer = layer, .op = op, .move = m };
	if (layer->later) {
		weir_op_init(&q->defer, request_begin);
		return weir_defer(r, &q->defer);
	}
	err = request_start(q);
	if (err) {
		layer->refused = err;
		q->op = NULL;
	}
	return err;
}

static void layer_init(struct fixture *g, int i, struct weir_operand below)
{
	struct layer *layer = &g->layer[i];
	struct weir_domain_opts opts = {
		.size = sizeof(opts), .kind = WEIR_DOMAIN_USER, .ctx = layer,
		.id = "layer",
	};

	layer->below = below;
	layer->dma = g->dma;
	layer->r = g->r;
	assert_int_equal(weir_domain_create(&layer->d, &opts), 0);
	assert_int_equal(weir_domain_set_pull(layer->d, layer_pull), 0);
}

static void fixture_begin(struct fixture *g, void **state, uint32_t bufs)
{
	static const char *const names[] = { "a", "b" };
	int i;

	memset(g, 0, sizeof(*g));
	g->r = start_reactor(state);
	g->dma = start_dma(g->r, (struct weir_dma_opts){
		.staging_bufs = bufs, .staging_size = 8192 });
	g->mem = calloc(1, LEN);
	for (i = 0; i < 2; i++) {
		g->fd[i] = test_file(state, names[i], LEN, (unsigned int)i);
		g->file[i] = file_domain(g->fd[i]);
	}
	for (i = 0; i < DEPTH_MAX; i++)
		layer_init(g, i,
			   i ? weir_operand_at(g->layer[i - 1].d, 0, LEN) :
			       weir_operand_at(g->file[0], 0, LEN));
}

static void fixture_end(struct fixture *g, void **state)
{
	int i;

	some_turns(g->r, 2);
	assert_int_equal(weir_dma_destroy(g->dma), 0);
	for (i = 0; i < DEPTH_MAX; i++)
		assert_int_equal(weir_domain_destroy(g->layer[i].d), 0);
	for (i = 0; i < 2; i++) {
		assert_int_equal(weir_domain_destroy(g->file[i]), 0);
		close(g->fd[i]);
	}
	end_reactor(state);
	free(g->mem);
}

/* @n jobs at once from the @top-th layer to the other file; all must end. */
static void run_jobs(struct fixture *g, int top, int n)
{
	struct jrec *j = calloc((size_t)n, sizeof(*j));
	uint64_t each = LEN / (unsigned int)n;
	int i;

	memset(g->mem, 0, LEN);
	assert_int_equal(pwrite(g->fd[1], g->mem, LEN, 0), LEN);
	for (i = 0; i < n; i++) {
		jrec_init(&j[i]);
		weir_job_copy(&j[i].job,
			      weir_operand_at(g->file[1], (uint64_t)i * each,
					      each),
			      weir_operand_at(g->layer[top].d,
					      (uint64_t)i * each, each));
		STARTS(weir_job_start(g->dma, &j[i].job));
	}
	for (i = 0; i < n; i++) {
		UNTIL(g->r, j[i].calls);
		assert_int_equal(j[i].res, each);
	}
	assert_int_equal(pread(g->fd[1], g->mem, LEN, 0), LEN);
	assert_true(is_pattern(g->mem, LEN, 0, 0));
	free(j);
}

static const uint32_t bufs[] = { 1, 2, 0 };

/* 1, 4 and 16 jobs from these layers. */
static void run_with_any_staging(void **state, const int top[3], bool later)
{
	struct fixture g;
	size_t i;

	for (i = 0; i < N_OF(bufs); i++) {
		fixture_begin(&g, state, bufs[i]);
		g.layer[0].later = later;
		run_jobs(&g, top[0], 1);
		run_jobs(&g, top[1], 4);
		run_jobs(&g, top[2], 16);
		fixture_end(&g, state);
	}
}

static void pull_may_start_jobs_through_staging(void **state)
{
	run_with_any_staging(state, (int[]){ 0, 0, 0 }, false);
}

static void pull_may_start_them_later(void **state)
{
	run_with_any_staging(state, (int[]){ 0, 0, 0 }, true);
}

static void domains_may_be_three_above_another(void **state)
{
	run_with_any_staging(state, (int[]){ 2, 1, 3 }, false);
}

static void deeper_nesting_is_refused(void **state)
{
	struct jrec j;
	struct fixture g;

	fixture_begin(&g, state, 0);
	jrec_init(&j);
	weir_job_copy(&j.job, weir_operand_at(g.file[1], 0, LEN),
		      weir_operand_at(g.layer[4].d, 0, LEN));
	STARTS(weir_job_start(g.dma, &j.job));
	assert_int_equal(jrec_finish(g.r, &j), -EDEADLK);
	assert_int_equal(g.layer[1].refused, -EDEADLK);
	assert_starts_with(weir_why(), "weir_job_start: functions of domains");
	fixture_end(&g, state);
}

/* Devices that do not let go. */

static void set_copy(struct fixture *g, struct jrec *j,
		     struct weir_domain *from)
{
	jrec_init(j);
	weir_job_copy(&j->job, weir_operand_at(g->file[1], 0, LEN),
		      weir_operand_at(from, 0, LEN));
}

/* @n jobs over @dead, which is stuck, are cancelled. */
static void cancel_jobs_over(struct fixture *g, struct slow *dead, int n)
{
	struct jrec j;
	int i;

	for (i = 0; i < n; i++) {
		set_copy(g, &j, dead->d);
		STARTS(weir_job_start(g->dma, &j.job));
		some_turns(g->r, 2);
		assert_int_equal(weir_op_cancel(&j.job.op), 0);
		assert_int_equal(jrec_finish(g->r, &j), -ECANCELED);
	}
}

static void others_go_on(struct fixture *g, struct slow *other)
{
	struct jrec j[2];
	int i;

	for (i = 0; i < 2; i++) {
		set_copy(g, &j[i], i ? other->d : g->file[0]);
		j[i].job.kind = WEIR_JOB_COPY_CRC32C;
		STARTS(weir_job_start(g->dma, &j[i].job));
	}
	for (i = 0; i < 2; i++) {
		UNTIL(g->r, (slow_pump(other), j[i].calls));
		assert_int_equal(j[i].res, LEN);
	}
}

static void dead_device_does_not_hold_up_other_jobs(void **state)
{
	struct slow dead, other;
	struct jrec waits;
	char text[1024];
	struct fixture g;
	size_t i;

	for (i = 0; i < N_OF(bufs); i++) {
		fixture_begin(&g, state, bufs[i]);
		slow_init(&dead, 1);
		slow_init(&other, 2);
		dead.stuck = true;
		cancel_jobs_over(&g, &dead, 10);
		assert_in_range(dma_stats_of(g.dma).quarantined, 1, 2);
		others_go_on(&g, &other);

		/* And says why one over it has to wait. */
		set_copy(&g, &waits, dead.d);
		assert_int_equal(weir_route_explain(g.dma, &waits.job, text,
						    sizeof(text)), 0);
		assert_non_null(strstr(text, "now: domain 'slow' has not let"));
		STARTS(weir_job_start(g.dma, &waits.job));
		others_go_on(&g, &other);
		assert_int_equal(waits.calls, 0);
		dead.stuck = false;
		UNTIL(g.r, (slow_pump(&dead), waits.calls));
		assert_int_equal(waits.res, LEN);
		assert_int_equal(dma_stats_of(g.dma).quarantined, 0);
		others_go_on(&g, &other);
		fixture_end(&g, state);
		slow_end(&dead);
		slow_end(&other);
	}
}

/* All buffers were with the device when the jobs were cancelled. */
static void device_that_dies_with_all_staging_does_not_either(void **state)
{
	struct slow dead, other;
	struct jrec j[8];
	struct fixture g;
	int i;

	fixture_begin(&g, state, 4);
	slow_init(&dead, 1);
	slow_init(&other, 2);
	dead.stuck = true;
	for (i = 0; i < 8; i++) {
		set_copy(&g, &j[i], dead.d);
		STARTS(weir_job_start(g.dma, &j[i].job));
	}
	some_turns(g.r, 3);
	for (i = 0; i < 8; i++)
		assert_int_equal(weir_op_cancel(&j[i].job.op), 0);
	some_turns(g.r, 3);
	for (i = 0; i < 8; i++)
		assert_int_equal(j[i].res, -ECANCELED);
	assert_int_equal(dma_stats_of(g.dma).quarantined, 4);
	others_go_on(&g, &other);
	dead.stuck = false;
	UNTIL(g.r, (slow_pump(&dead), !dma_stats_of(g.dma).quarantined));
	others_go_on(&g, &dead);
	fixture_end(&g, state);
	slow_end(&dead);
	slow_end(&other);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(pull_may_start_jobs_through_staging),
		CASE(pull_may_start_them_later),
		CASE(domains_may_be_three_above_another),
		CASE(deeper_nesting_is_refused),
		CASE(dead_device_does_not_hold_up_other_jobs),
		CASE(device_that_dies_with_all_staging_does_not_either),
	};

	return harness_run_all(cases, N_OF(cases));
}
