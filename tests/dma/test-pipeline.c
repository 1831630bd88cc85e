/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Pipelines: windows, order, the first error, cancel at any point, nothing
 * lost.  The tables of docs/internals/dma.md are test-pipeline-control.c's.
 */

#include "tests/support/pipeline-fixture.h"

#include <weir/crc32c.h>

#include "base/fault.h"

#include "tests/support/sim-calls.h"

/* The unit that ended the last run, or an errno. */
static int64_t failed_unit(const struct weir_pipeline *p)
{
	struct weir_pipeline_failure f = { .size = sizeof(f) };
	int err = weir_pipeline_failure(p, &f);

	return err ? err : f.where == WEIR_PIPELINE_AT_NEXT ? -ENOENT :
						      (int64_t)f.unit;
}

static void bad_options_are_refused(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_pipeline_opts good = {
		.size = sizeof(good), .build = on_build, .next = on_next,
		.done = on_done,
	}, opts;
	struct weir_pipeline *p = NULL;

	opts = good;
	opts.build = NULL;
	assert_int_equal(weir_pipeline_create(&p, r, &opts), -EINVAL);
	opts = good;
	opts.next = NULL;
	assert_int_equal(weir_pipeline_create(&p, r, &opts), -EINVAL);
	opts = good;
	opts.done = NULL;
	assert_int_equal(weir_pipeline_create(&p, r, &opts), -EINVAL);
	opts = good;
	opts.depth = 4097;
	assert_int_equal(weir_pipeline_create(&p, r, &opts), -EINVAL);
	opts = good;
	opts.flags = 0x80;
	assert_int_equal(weir_pipeline_create(&p, r, &opts), -EINVAL);
	opts = good;
	opts.steps = 5000;
	assert_int_equal(weir_pipeline_create(&p, r, &opts), -EINVAL);
	opts = good;
	opts.reserved = 1;
	assert_int_equal(weir_pipeline_create(&p, r, &opts), -E2BIG);
	assert_null(p);
	assert_int_equal(weir_pipeline_destroy(NULL), 0);
}

static int build_fails(struct weir_slot *slot, void *arg)
{
	return ++*(int *)arg == 3 ? -EDOM : on_build(slot, arg);
}

static int build_nothing(struct weir_slot *slot, void *arg)
{
	(void)slot, (void)arg;
	return 0;
}

static void a_slot_has_steps(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_pipeline_opts opts = {
		.size = sizeof(opts), .build = build_nothing, .next = on_next,
		.done = on_done,
	};
	struct weir_pipeline *p = NULL;

	assert_int_equal(weir_pipeline_create(&p, r, &opts), -EINVAL);
	assert_null(p);
}

static void create_returns_the_error_of_build(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	int calls = 0;
	struct weir_pipeline_opts opts = {
		.size = sizeof(opts), .build = build_fails, .next = on_next,
		.done = on_done, .arg = &calls,
	};
	struct weir_pipeline *p = NULL;

	assert_int_equal(weir_pipeline_create(&p, r, &opts), -EDOM);
	assert_null(p);
	assert_int_equal(calls, 3);
}

static void pipeline_does_every_unit_within_its_window(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	static const uint32_t depths[] = { 1, 2, 7, 64 };
	struct stream s;
	size_t i;
	int flags;

	for (i = 0; i < N_OF(depths); i++)
		for (flags = 0; flags < 2; flags++) {
			make(&s, r, depths[i], (uint32_t)flags, NULL);
			s.n_units = 500;
			s.random = true;
			s.seed = (unsigned int)i;
			assert_int_equal(run(&s), 500);
			assert_int_equal(s.dones, 500);
			assert_int_equal(s.window_max, depths[i]);
			assert_int_equal(look(&s).done, 500);
			assert_int_equal(look(&s).in_flight, 0);
			assert_int_equal(failed_unit(s.p), -ENOENT);

			/* And again. */
			assert_int_equal(run(&s), 500);
			assert_int_equal(weir_pipeline_destroy(s.p), 0);
		}
}

static void an_empty_stream_ends_at_once(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct stream s;

	make(&s, r, 4, 0, NULL);
	assert_int_equal(run(&s), 0);
	assert_int_equal(weir_pipeline_destroy(s.p), 0);
}

static void a_stream_may_have_gaps(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct stream s;

	make(&s, r, 4, WEIR_PIPELINE_ORDERED, NULL);
	s.n_units = 10;
	s.gap_at = 6;
	weir_pipeline_kick(s.p);
	STARTS(weir_pipeline_start(s.p, &s.rec.op));
	UNTIL(r, s.dones == 6);
	some_turns(r, 5);
	assert_int_equal(s.dones, 6);
	assert_int_equal(s.rec.calls, 0);
	weir_pipeline_kick(s.p);
	weir_pipeline_kick(s.p);
	assert_int_equal(finish(r, &s.rec), 10);
	assert_int_equal(weir_pipeline_destroy(s.p), 0);
}

static void the_first_error_ends_it_and_says_where(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct stream s;
	int flags;

	for (flags = 0; flags < 2; flags++) {
		make(&s, r, 8, (uint32_t)flags, NULL);
		s.n_units = 100;
		s.random = true;
		s.fail_at = 37;
		assert_int_equal(run(&s), -EDOM);
		assert_int_equal(failed_unit(s.p), 37);
		assert_int_equal(s.in_window, 0);
		assert_true(s.next_at < 60);
		assert_int_equal(look(&s).units, s.dones);

		s.fail_at = UINT64_MAX;
		assert_int_equal(run(&s), 100);
		assert_int_equal(weir_pipeline_destroy(s.p), 0);
	}
}

static void a_failure_that_is_forgiven_is_only_counted(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct stream s;

	make(&s, r, 8, 0, NULL);
	s.n_units = 100;
	s.fail_at = 37;
	s.fail_counts = false;
	assert_int_equal(run(&s), 99);
	assert_int_equal(look(&s).failed, 1);
	assert_int_equal(failed_unit(s.p), -ENOENT);
	assert_int_equal(weir_pipeline_destroy(s.p), 0);
}

static void error_of_the_stream_ends_a_pipeline(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct stream s;

	make(&s, r, 8, 0, NULL);
	s.n_units = 100;
	s.next_fails_at = 20;
	assert_int_equal(run(&s), -ENOBUFS);
	assert_int_equal(failed_unit(s.p), -ENOENT);
	assert_int_equal(s.in_window, 0);
	assert_int_equal(weir_pipeline_destroy(s.p), 0);
}

static void cancel_drains_a_pipeline(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct stream s;
	int when;

	for (when = 0; when < 8; when++) {
		make(&s, r, 4, WEIR_PIPELINE_ORDERED, NULL);
		s.n_units = 100;
		s.pends = when >= 4;
		STARTS(weir_pipeline_start(s.p, &s.rec.op));
		some_turns(r, when % 4);
		assert_int_equal(weir_op_cancel(&s.rec.op), 0);
		assert_int_equal(weir_pipeline_destroy(s.p), -EBUSY);
		assert_int_equal(finish(r, &s.rec), -ECANCELED);
		assert_int_equal(s.in_window, 0);
		assert_int_equal(look(&s).units, s.dones);
		assert_int_equal(weir_pipeline_destroy(s.p), 0);
	}
}

static void done_callback_may_cancel_its_pipeline(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct stream s;

	make(&s, r, 4, WEIR_PIPELINE_ORDERED, NULL);
	s.n_units = 50;
	s.cancel_at = 10;
	assert_int_equal(run(&s), -ECANCELED);
	assert_int_equal(s.in_window, 0);

	/* By the last unit it is too late. */
	s.cancel_at = 49;
	assert_int_equal(run(&s), 50);
	s.fail_at = 3;
	s.fail_counts = false;
	assert_int_equal(run(&s), 49);
	assert_int_equal(weir_pipeline_destroy(s.p), 0);
}

static void deadline_and_stop_drain_a_pipeline(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct stream s;

	make(&s, r, 4, 0, NULL);
	s.n_units = 50;
	s.pends = true;
	assert_int_equal(weir_op_set_deadline(&s.rec.op, weir_reactor_now(r) +
					      WEIR_MSEC), 0);
	assert_int_equal(run(&s), -ETIMEDOUT);
	assert_int_equal(s.in_window, 0);

	s.next_at = s.dones = 0;
	STARTS(weir_pipeline_start(s.p, &s.rec.op));
	some_turns(r, 2);
	weir_reactor_stop(r);
	assert_int_equal(weir_reactor_run(r), 0);
	assert_int_equal(s.rec.res, -ECANCELED);
	assert_int_equal(s.in_window, 0);
	assert_int_equal(weir_pipeline_start(s.p, &s.rec.op), -ESHUTDOWN);
	assert_int_equal(weir_pipeline_destroy(s.p), 0);
}

static void late_pipeline_begins_no_unit(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct stream s;

	make(&s, r, 4, 0, NULL);
	s.n_units = 50;
	weir_op_set_deadline(&s.rec.op, weir_reactor_now(r));
	assert_int_equal(run(&s), -ETIMEDOUT);
	assert_int_equal(s.next_at, 0);
	assert_int_equal(s.dones, 0);
	assert_int_equal(run(&s), 50);
	assert_int_equal(weir_pipeline_destroy(s.p), 0);
}

static void a_small_pool_narrows_the_window(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_pool_opts opts = { .size = sizeof(opts), .bufs = 3 };
	struct weir_pool *pool = NULL;
	struct stream s, t;

	assert_int_equal(weir_pool_create(&pool, r, &opts), 0);
	make(&s, r, 8, WEIR_PIPELINE_ORDERED, pool);
	make(&t, r, 8, 0, pool);
	s.n_units = t.n_units = 200;
	s.random = t.random = true;

	/* Two pipelines over one pool: both go on, and all comes back. */
	STARTS(weir_pipeline_start(s.p, &s.rec.op));
	STARTS(weir_pipeline_start(t.p, &t.rec.op));
	UNTIL(r, s.rec.calls && t.rec.calls);
	assert_int_equal(s.rec.res, 200);
	assert_int_equal(t.rec.res, 200);
	assert_true(s.window_max <= 3 && t.window_max <= 3);
	assert_true(look(&s).waits + look(&t).waits > 0);
	assert_int_equal(pool_free_bufs(pool), 3);

	/* A cancel while it waits for a buf. */
	s.pends = true;
	s.next_at = s.dones = 0;
	STARTS(weir_pipeline_start(s.p, &s.rec.op));
	some_turns(r, 5);
	assert_int_equal(s.in_window, 3);
	assert_int_equal(weir_op_cancel(&s.rec.op), 0);
	assert_int_equal(finish(r, &s.rec), -ECANCELED);
	assert_int_equal(pool_free_bufs(pool), 3);
	assert_int_equal(weir_pipeline_destroy(s.p), 0);
	assert_int_equal(weir_pipeline_destroy(t.p), 0);
	assert_int_equal(weir_pool_destroy(pool), 0);
}

static void random_runs_lose_nothing(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_pool_opts opts = { .size = sizeof(opts), .bufs = 5 };
	unsigned int rounds = scaled(600), seed = 21;
	struct weir_pool *pool = NULL;
	struct stream s;

	assert_int_equal(weir_pool_create(&pool, r, &opts), 0);
	while (rounds--) {
		make(&s, r, 1 + rand_r(&seed) % 9, rand_r(&seed) % 2,
		     rand_r(&seed) % 2 ? pool : NULL);
		s.n_units = rand_r(&seed) % 60;
		s.random = true;
		s.seed = seed;
		s.fail_at = rand_r(&seed) % 120;
		s.fail_counts = rand_r(&seed) % 2;
		s.next_fails_at = rand_r(&seed) % 200;
		s.cancel_at = rand_r(&seed) % 200;
		STARTS(weir_pipeline_start(s.p, &s.rec.op));
		some_turns(r, (int)(rand_r(&seed) % 20));
		if (rand_r(&seed) % 2)
			weir_op_cancel(&s.rec.op);
		if (!s.rec.calls)
			finish(r, &s.rec);
		assert_int_equal(s.rec.calls, 1);
		assert_int_equal(s.in_window, 0);
		assert_int_equal(look(&s).units, s.dones);
		assert_int_equal(pool_free_bufs(pool), 5);
		assert_int_equal(weir_pipeline_destroy(s.p), 0);
	}
	assert_int_equal(weir_pool_destroy(pool), 0);
}

/* The real thing: a file is read, checksummed and written. */
struct copy {
	struct weir_dma *dma;
	struct weir_domain *in, *out;
	uint64_t size, at;
	uint32_t crc;
	struct rec rec;
};

struct block {
	struct weir_job read, crc, write;
	uint64_t len;
};

#define BLOCK 5000u

static int copy_build(struct weir_slot *slot, void *arg)
{
	struct block *b = weir_slot_data(slot);
	struct weir_chain *chain = weir_slot_chain(slot);
	struct copy *c = arg;
	int n;

	weir_job_init(&b->read, NULL);
	weir_job_init(&b->crc, NULL);
	weir_job_init(&b->write, NULL);
	n = weir_chain_add_job(chain, WEIR_CHAIN_FIRST, c->dma, &b->read);
	n = weir_chain_add_job(chain, n, c->dma, &b->crc);
	n = weir_chain_add_job(chain, n, c->dma, &b->write);
	return n < 0 ? n : 0;
}

static int copy_next(struct weir_slot *slot, void *arg)
{
	struct block *b = weir_slot_data(slot);
	struct weir_operand buf = weir_operand_buf(weir_slot_buf(slot));
	struct copy *c = arg;

	if (c->at == c->size)
		return WEIR_PIPELINE_END;
	b->len = c->size - c->at < BLOCK ? c->size - c->at : BLOCK;
	weir_job_copy(&b->read, buf, weir_operand_at(c->in, c->at, b->len));
	weir_job_crc32c(&b->crc, buf, 0);
	weir_job_copy(&b->write, weir_operand_at(c->out, c->at, b->len), buf);
	weir_slot_set_bytes(slot, b->len);
	c->at += b->len;
	return WEIR_PIPELINE_UNIT;
}

static int copy_done(struct weir_slot *slot, int64_t res, void *arg)
{
	struct block *b = weir_slot_data(slot);
	struct copy *c = arg;

	if (res < 0)
		return (int)res;
	c->crc = weir_crc32c_combine(c->crc, b->crc.crc, b->len);
	return 0;
}

/* A pipeline that copies @size bytes of pattern(9) from "in" to "out". */
struct copy_fixture {
	struct copy c;
	struct weir_reactor *r;
	struct weir_pool *pool;
	struct weir_pipeline *p;
	int in, out;
};

static void copy_begin(struct copy_fixture *g, void **state, uint64_t size)
{
	struct weir_pool_opts pool_opts = { .size = sizeof(pool_opts),
					    .bufs = 6, .buf_size = BLOCK };
	struct weir_pipeline_opts opts = {
		.size = sizeof(opts), .build = copy_build, .next = copy_next,
		.done = copy_done, .arg = &g->c, .depth = 6,
		.flags = WEIR_PIPELINE_ORDERED,
		.data_size = sizeof(struct block),
	};

	memset(g, 0, sizeof(*g));
	g->r = start_reactor(state);
	g->in = test_file(state, "in", size, 9);
	g->out = test_file(state, "out", 0, 0);
	g->c.size = size;
	g->c.dma = start_dma(g->r, (struct weir_dma_opts){ 0 });
	g->c.in = file_domain(g->in);
	g->c.out = file_domain(g->out);
	assert_int_equal(weir_pool_create(&g->pool, g->r, &pool_opts), 0);
	opts.pool = g->pool;
	assert_int_equal(weir_pipeline_create(&g->p, g->r, &opts), 0);
	rec_init(&g->c.rec);
}

static void copy_end(struct copy_fixture *g)
{
	assert_int_equal(weir_pipeline_destroy(g->p), 0);
	assert_int_equal(weir_pool_destroy(g->pool), 0);
	assert_int_equal(weir_domain_destroy(g->c.in), 0);
	assert_int_equal(weir_domain_destroy(g->c.out), 0);
	assert_int_equal(weir_dma_destroy(g->c.dma), 0);
	close(g->in);
	close(g->out);
}

static void a_file_goes_through_whole(void **state)
{
	const uint64_t size = 333333;
	struct weir_pipeline_progress p = { .size = sizeof(p) };
	struct weir_pipeline_failure f = { .size = sizeof(f) };
	char *want = malloc(size), *got = malloc(size);
	struct copy_fixture g;

	copy_begin(&g, state, size);
	STARTS(weir_pipeline_start(g.p, &g.c.rec.op));
	assert_int_equal(finish(g.r, &g.c.rec), (size + BLOCK - 1) / BLOCK);
	assert_int_equal(weir_pipeline_progress(g.p, &p), 0);
	assert_int_equal(p.bytes, size);

	fill_pattern(want, size, 0, 9);
	assert_int_equal(pread(g.out, got, size, 0), size);
	assert_memory_equal(got, want, size);
	assert_int_equal(g.c.crc, weir_crc32c(0, want, size));

	/* A source that has become shorter meanwhile is found out. */
	g.c.at = 0;
	assert_int_equal(ftruncate(g.in, 200001), 0);
	STARTS(weir_pipeline_start(g.p, &g.c.rec.op));
	assert_int_equal(finish(g.r, &g.c.rec), -ENODATA);
	assert_int_equal(weir_pipeline_failure(g.p, &f), 0);
	assert_int_equal(f.unit, 40);
	assert_int_equal(f.where, WEIR_PIPELINE_AT_STEP);
	assert_int_equal(f.step, 0);
	assert_int_equal(f.res, -ENODATA);
	assert_int_equal(f.detail.bytes, 1);
	copy_end(&g);
	free(want);
	free(got);
}

/* A turn may fail too, when it is the wait that does; it is made again. */
static void pipeline_drains_after_any_failure(void **state)
{
	unsigned int n = 0, turns, stride = 1 + 20 * (scaled(100) < 100);
	struct copy_fixture g;
	int fired;

	copy_begin(&g, state, 40000);
	do {
		rec_init(&g.c.rec);
		g.c.at = 0;
		fault_arm(n);
		assert_int_equal(weir_pipeline_start(g.p, &g.c.rec.op), 0);
		for (turns = 0; !g.c.rec.calls && turns < TURNS_MAX; turns++)
			weir_reactor_turn(g.r, WEIR_SEC);
		fired = fault_disarm();
		assert_int_equal(g.c.rec.calls, 1);
		assert_true(g.c.rec.res == 8 || (fired && g.c.rec.res < 0));
		assert_int_equal(pool_free_bufs(g.pool), 6);
		n += stride;
	} while (fired);
	copy_end(&g);
}

static void failed_pipeline_call_leaves_nothing_behind(void **state)
{
	struct weir_reactor *r = start_reactor(state);
	struct stream s;
	struct weir_pipeline_opts opts = {
		.size = sizeof(opts), .build = on_build, .next = on_next,
		.done = on_done, .arg = &s, .data_size = 16, .depth = 2,
	};
	struct weir_pipeline *p = NULL;
	int err, n = 0, fired;

	do {
		fault_arm(n++);
		err = weir_pipeline_create(&p, r, &opts);
		fired = fault_disarm();
		assert_int_equal(err, fired ? -ENOMEM : 0);
	} while (fired);
	assert_true(n > 4);
	assert_int_equal(weir_pipeline_destroy(p), 0);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(bad_options_are_refused),
		CASE(a_slot_has_steps),
		CASE(create_returns_the_error_of_build),
		CASE(pipeline_does_every_unit_within_its_window),
		CASE(an_empty_stream_ends_at_once),
		CASE(a_stream_may_have_gaps),
		CASE(the_first_error_ends_it_and_says_where),
		CASE(a_failure_that_is_forgiven_is_only_counted),
		CASE(error_of_the_stream_ends_a_pipeline),
		CASE(cancel_drains_a_pipeline),
		CASE(done_callback_may_cancel_its_pipeline),
		CASE(deadline_and_stop_drain_a_pipeline),
		CASE(late_pipeline_begins_no_unit),
		CASE(a_small_pool_narrows_the_window),
		CASE(random_runs_lose_nothing),
		CASE(a_file_goes_through_whole),
		CASE(pipeline_drains_after_any_failure),
		CASE(failed_pipeline_call_leaves_nothing_behind),
	};

	return harness_run_all(cases, N_OF(cases));
}
