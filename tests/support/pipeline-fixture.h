/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TESTS_PIPELINE_FIXTURE_H
#define TESTS_PIPELINE_FIXTURE_H

/* What the tests of pipelines share. */

#include "tests/support/job-fixture.h"

#include <weir/chain.h>
#include <weir/pipeline.h>
#include <weir/pool.h>

/* A stream of numbered units whose one step is an operation of the test's. */
struct stream {
	struct weir_reactor *r;
	struct weir_pipeline *p;
	unsigned int seed;
	uint64_t n_units; /* Length of the stream. */
	uint64_t next_at; /* Units given out. */
	uint64_t gap_at; /* next() says -EAGAIN once, here. */
	uint64_t fail_at; /* The unit with this number fails, */
	bool fail_counts; /* and done() says so. */
	uint64_t done_fails_at; /* With an error of done()'s own. */
	uint64_t next_fails_at;
	uint64_t nonsense_at; /* next() returns what it may not. */
	uint64_t cancel_at; /* done() of it cancels the pipeline. */
	bool pends; /* Steps wait for ever. */
	bool closed; /* Steps do not begin yet. */
	bool random; /* Steps take a random number of turns. */
	uint64_t dones;
	uint64_t in_window, window_max;
	bool ordered;
	uint64_t last_unit; /* Of done(). */
	void (*in_next)(struct stream *s); /* Before it says. */
	void (*in_done)(struct stream *s);
	struct rec rec;
};

struct unit {
	uint64_t number;
	int delay;
};

static inline int step_start(struct weir_chain *chain, uint32_t step,
			     struct weir_op *op, void *arg)
{
	struct weir_slot *slot = weir_chain_ctx(chain);
	struct unit *u = weir_slot_data(slot);
	struct stream *s = arg;

	(void)step;
	assert_int_equal(weir_slot_unit(slot), u->number);
	if (u->delay || s->closed) {
		u->delay -= u->delay > 0;
		return -EAGAIN;
	}
	if (u->number == s->fail_at)
		return -EDOM;
	return s->pends ? weir_sleep_until(s->r, op, WEIR_FOREVER) :
			  weir_defer(s->r, op);
}

static inline int on_build(struct weir_slot *slot, void *arg)
{
	int n = weir_chain_add_op(weir_slot_chain(slot), WEIR_CHAIN_FIRST,
				  step_start, arg);

	assert_null(weir_slot_buf(slot));
	assert_int_equal((uintptr_t)weir_slot_data(slot) % 64, 0);
	return n < 0 ? n : 0;
}

static inline int on_next(struct weir_slot *slot, void *arg)
{
	struct stream *s = arg;
	struct unit *u = weir_slot_data(slot);

	assert_int_equal(harness_starting, 0);
	assert_ptr_equal(weir_slot_pipeline(slot), s->p);
	assert_int_equal(weir_pipeline_destroy(s->p), -EBUSY);
	assert_int_equal(weir_pipeline_start(s->p, &s->rec.op), -EBUSY);
	if (s->in_next)
		s->in_next(s);
	if (s->next_at == s->next_fails_at)
		return -ENOBUFS;
	if (s->next_at == s->nonsense_at)
		return 2;
	if (s->next_at == s->n_units)
		return WEIR_PIPELINE_END;
	if (s->next_at == s->gap_at) {
		s->gap_at = UINT64_MAX;
		return -EAGAIN;
	}
	assert_int_equal(weir_slot_unit(slot), s->next_at);
	u->number = s->next_at++;
	u->delay = s->random ? (int)(rand_r(&s->seed) % 4) : 0;
	weir_slot_set_bytes(slot, 10);
	if (++s->in_window > s->window_max)
		s->window_max = s->in_window;
	return WEIR_PIPELINE_UNIT;
}

static inline int on_done(struct weir_slot *slot, int64_t res, void *arg)
{
	struct stream *s = arg;
	struct unit *u = weir_slot_data(slot);

	assert_int_equal(weir_slot_unit(slot), u->number);
	if (s->ordered)
		assert_int_equal(u->number, s->dones);
	s->dones++;
	s->in_window--;
	if (s->in_done)
		s->in_done(s);
	if (u->number == s->cancel_at)
		assert_int_equal(weir_op_cancel(&s->rec.op), 0);
	if (u->number == s->done_fails_at)
		return -EPROTO;
	return res < 0 && s->fail_counts ? (int)res : 0;
}

static inline void make(struct stream *s, struct weir_reactor *r,
			uint32_t depth, uint32_t flags, struct weir_pool *pool)
{
	struct weir_pipeline_opts opts = {
		.size = sizeof(opts),
		.build = on_build,
		.next = on_next,
		.done = on_done,
		.arg = s,
		.depth = depth,
		.flags = flags,
		.data_size = sizeof(struct unit),
		.pool = pool,
	};

	memset(s, 0, sizeof(*s));
	s->r = r;
	s->ordered = flags & WEIR_PIPELINE_ORDERED;
	s->gap_at = s->fail_at = s->next_fails_at = UINT64_MAX;
	s->cancel_at = s->done_fails_at = s->nonsense_at = UINT64_MAX;
	s->fail_counts = true;
	rec_init(&s->rec);
	assert_int_equal(weir_pipeline_create(&s->p, r, &opts), 0);
}

static inline struct weir_pipeline_progress look(struct stream *s)
{
	struct weir_pipeline_progress p = { .size = sizeof(p) };

	assert_int_equal(weir_pipeline_progress(s->p, &p), 0);
	assert_int_equal(p.units, p.done + p.failed + p.in_flight);
	assert_int_equal(p.bytes, 10 * p.done);
	return p;
}

static inline int64_t run(struct stream *s)
{
	s->next_at = s->dones = 0;
	STARTS(weir_pipeline_start(s->p, &s->rec.op));
	return finish(s->r, &s->rec);
}

static inline uint64_t pool_free_bufs(struct weir_pool *pool)
{
	struct weir_pool_stats s = { .size = sizeof(s) };

	assert_int_equal(weir_pool_stats(pool, &s), 0);
	assert_int_equal(s.waiting, 0);
	return s.free;
}

#endif /* TESTS_PIPELINE_FIXTURE_H */
