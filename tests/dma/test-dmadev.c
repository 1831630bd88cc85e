/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * What DPDK tests of its dmadevs (app/test/test_dmadev.c, test_dmadev_api.c),
 * of jobs: acceptance 60 to 68, by number.  Enqueueing is a start with
 * WEIR_JOB_LAZY, submitting the flush, and completions are callbacks.
 */

#include "tests/support/job-fixture.h"

#include <stdlib.h>

#include <weir/buf.h>
#include <weir/engine.h>
#include <weir/inventory.h>

#define COPY_LEN 1024
#define BURST 32

struct fixture {
	struct weir_reactor *r;
	struct weir_dma *dma;
	struct jrec j[BURST];
	char src[BURST][COPY_LEN];
	char dst[BURST][COPY_LEN];

	/* Of the engine that fails. */
	bool bad[BURST];
	bool later;			/* It ends jobs in a later turn. */
	struct weir_job *begun[BURST];
	int n_begun;
};

static void prepare(struct fixture *g, int n)
{
	int i;

	for (i = 0; i < n; i++) {
		fill_pattern(g->src[i], COPY_LEN, (uint64_t)rand(), 7);
		memset(g->dst[i], 0, COPY_LEN);
		jrec_init(&g->j[i]);
		weir_job_copy(&g->j[i].job,
			      weir_operand_mem(g->dst[i], COPY_LEN),
			      weir_operand_mem(g->src[i], COPY_LEN));
	}
}

static struct fixture *fixture_begin(void **state, struct weir_dma_opts opts)
{
	struct fixture *g = calloc(1, sizeof(*g));

	assert_non_null(g);
	g->r = start_reactor(state);
	g->dma = start_dma(g->r, opts);
	return g;
}

static void fixture_end(struct fixture *g)
{
	some_turns(g->r, 2);
	assert_int_equal(weir_dma_destroy(g->dma), 0);
	free(g);
}

static void start(struct fixture *g, int i, uint32_t flags)
{
	g->j[i].job.flags = flags;
	STARTS(weir_job_start(g->dma, &g->j[i].job));
}

static int n_ended(const struct fixture *g, int n)
{
	int i, ended = 0;

	for (i = 0; i < n; i++)
		ended += g->j[i].calls;
	return ended;
}

static void all_copied(struct fixture *g, int n)
{
	int i;

	UNTIL(g->r, n_ended(g, n) == n);
	for (i = 0; i < n; i++) {
		assert_int_equal(g->j[i].calls, 1);
		assert_int_equal(g->j[i].res, COPY_LEN);
		assert_memory_equal(g->dst[i], g->src[i], COPY_LEN);
	}
}

/* @n copies, the first @first of them submitted apart if that is not 0. */
static void copies(struct fixture *g, int n, int first)
{
	int i;

	prepare(g, n);
	for (i = 0; i < n; i++) {
		if (i && i == first)
			weir_dma_flush(g->dma);
		start(g, i, WEIR_JOB_LAZY);
	}
	assert_int_equal(weir_dma_in_flight(g->dma), n);
	weir_dma_flush(g->dma);
	all_copied(g, n);
	assert_int_equal(weir_dma_in_flight(g->dma), 0);
}

static void case_60_copies_one_by_one_and_in_bursts(void **state)
{
	struct fixture *g = fixture_begin(state, (struct weir_dma_opts){ 0 });
	int i, k;

	for (i = 0; i < 640; i++) {
		copies(g, 1, 0);
		for (k = 0; k < (i % 64 ? 0 : 4); k++)
			copies(g, 4, 0);
		if (i % 20 == 0) {
			copies(g, BURST, 0);
			copies(g, BURST, BURST / 2);
		}
	}
	fixture_end(g);
}

/* A burst completes in parts, when a turn may not do all of it. */
static void case_60_a_burst_may_complete_in_parts(void **state)
{
	struct weir_dma_opts opts = { .turn_bytes = 4096 };
	struct fixture *g = fixture_begin(state, opts);
	int parts = 0, before = 0, now;

	prepare(g, BURST);
	for (int i = 0; i < BURST; i++)
		start(g, i, WEIR_JOB_LAZY);
	weir_dma_flush(g->dma);
	while ((now = n_ended(g, BURST)) < BURST) {
		parts += now > before;
		before = now;
		some_turns(g->r, 1);
	}
	assert_true(parts > 1);
	all_copied(g, BURST);
	fixture_end(g);
}

/* Cut COPY_LEN * 16 bytes at @p into @n pieces of different sizes. */
static void cut(struct iovec *iov, char *p, uint32_t n)
{
	size_t len = COPY_LEN * 16, some;
	uint32_t i;

	for (i = 0; i < n; i++) {
		some = i == n - 1 ? len : len / (n - i) + (i & 1);
		iov[i] = (struct iovec){ p, some };
		p += some;
		len -= some;
	}
}

static void sg(struct fixture *g, uint32_t n_src, uint32_t n_dst)
{
	static struct iovec src[WEIR_JOB_PIECES_MAX], dst[WEIR_JOB_PIECES_MAX];
	struct jrec *j = &g->j[0];

	cut(src, g->src[0], n_src);
	cut(dst, g->dst[0], n_dst);
	memset(g->dst[0], 0, COPY_LEN * 16);
	jrec_init(j);
	weir_job_copy(&j->job, weir_operand_iov(NULL, dst, n_dst),
		      weir_operand_iov(NULL, src, n_src));
	assert_int_equal(jrec_run(g->dma, j), COPY_LEN * 16);
	assert_memory_equal(g->dst[0], g->src[0], COPY_LEN * 16);
}

static void case_61_every_number_of_pieces_on_both_sides(void **state)
{
	struct fixture *g = fixture_begin(state, (struct weir_dma_opts){ 0 });
	uint32_t max = want_long() ? WEIR_JOB_PIECES_MAX : 24;
	uint32_t n, m;

	prepare(g, BURST);
	for (n = 1; n <= max; n++) {
		for (m = 1; m <= max; m++)
			sg(g, n, m);
		sg(g, n, WEIR_JOB_PIECES_MAX);
		sg(g, WEIR_JOB_PIECES_MAX, n);
	}
	fixture_end(g);
}

static void case_62_heap_and_stack_as_they_are(void **state)
{
	struct fixture *g = fixture_begin(state, (struct weir_dma_opts){ 0 });
	char *heap = malloc(COPY_LEN);
	char stack[COPY_LEN];
	struct jrec *j = &g->j[0];

	assert_non_null(heap);
	fill_pattern(heap, COPY_LEN, 0, 3);
	jrec_init(j);
	weir_job_copy(&j->job, weir_operand_mem(stack, COPY_LEN),
		      weir_operand_mem(heap, COPY_LEN));
	assert_int_equal(jrec_run(g->dma, j), COPY_LEN);
	assert_memory_equal(stack, heap, COPY_LEN);
	memset(heap, 0, COPY_LEN);
	weir_job_copy(&j->job, weir_operand_mem(heap, COPY_LEN),
		      weir_operand_mem(stack, COPY_LEN));
	assert_int_equal(jrec_run(g->dma, j), COPY_LEN);
	assert_true(is_pattern(heap, COPY_LEN, 0, 3));
	free(heap);
	fixture_end(g);
}

static void case_63_stopped_and_started_again_it_goes_on(void **state)
{
	struct fixture *g = fixture_begin(state, (struct weir_dma_opts){ 0 });
	struct rec stop;
	int i;

	for (i = 0; i < 3; i++) {
		copies(g, BURST, 0);
		rec_init(&stop);
		STARTS(weir_dma_stop(g->dma, &stop.op));
		assert_int_equal(finish(g->r, &stop), 0);
		prepare(g, 1);
		assert_int_equal(weir_job_start(g->dma, &g->j[0].job), -EBADFD);
		assert_int_equal(weir_dma_start(g->dma), 0);
	}
	copies(g, 1, 0);
	fixture_end(g);
}

static void case_64_the_capacity_for_a_burst_is_exact_for_ever(void **state)
{
	struct weir_dma_opts opts = { .jobs_max = BURST };
	struct fixture *g = fixture_begin(state, opts);
	struct weir_job *jobs[BURST];
	uint32_t n, total;
	int i;

	for (total = 0; total < 65536 + 10 * BURST; total += BURST) {
		if (total % 2048 == 0 || total > 65000)
			prepare(g, BURST);
		for (i = 0; i < BURST; i++) {
			jobs[i] = &g->j[i].job;
			jobs[i]->flags = WEIR_JOB_LAZY;
			g->j[i].calls = 0;
		}
		assert_int_equal(weir_job_start_batch(g->dma, jobs, BURST / 2,
						      &n), 0);
		assert_int_equal(weir_dma_in_flight(g->dma), BURST / 2);
		assert_int_equal(weir_job_start_batch(g->dma, jobs + n,
						      BURST / 2, &n), 0);
		assert_int_equal(weir_dma_in_flight(g->dma), BURST);
		weir_dma_flush(g->dma);
		all_copied(g, BURST);
	}
	for (i = 0; i < BURST; i++)
		start(g, i, WEIR_JOB_LAZY);
	assert_int_equal(
		weir_job_start(g->dma,
			       &(struct weir_job){
				       .op.fn = jrec_done,
				       .kind = WEIR_JOB_COPY,
				       .src = weir_operand_mem(g->src, 1),
				       .dst = weir_operand_mem(g->dst, 1),
			       }),
		-EAGAIN);
	fixture_end(g);
}

/* An engine that fails what it is told to, after half of it. */

static int bad_can(void *arg, const struct weir_engine_query *q,
		   const char **why)
{
	(void)arg;
	*why = "only copies";
	return q->kind == WEIR_JOB_COPY;
}

static void bad_end(struct fixture *g, struct weir_job *job)
{
	int i = (int)(weir_container_of(job, struct jrec, job) - g->j);

	if (g->bad[i]) {
		weir_job_end(job, COPY_LEN / 2, -EIO, 1000 + i);
		return;
	}
	memcpy(g->dst[i], g->src[i], COPY_LEN);
	weir_job_end(job, COPY_LEN, 0, 0);
}

static int bad_start(void *arg, struct weir_job *job)
{
	struct fixture *g = arg;

	if (g->later)
		g->begun[g->n_begun++] = job;
	else
		bad_end(g, job);
	return 0;
}

static struct fixture *bad_begin(void **state)
{
	static const struct weir_engine_ops ops = {
		.size = sizeof(ops), .name = "bad", .can = bad_can,
		.start = bad_start,
	};
	struct fixture *g = calloc(1, sizeof(*g));
	struct weir_dma_opts opts = { .size = sizeof(opts) };

	assert_non_null(g);
	g->r = start_reactor(state);
	assert_int_equal(weir_dma_create(&g->dma, g->r, &opts), 0);
	assert_int_equal(weir_dma_add_engine(g->dma, &ops, g), 0);
	assert_int_equal(weir_dma_start(g->dma), 0);
	return g;
}

#define ERROR_BURST 16

/* End what the engine has, in turns, until all of the burst has ended. */
static void drain(struct fixture *g)
{
	int turns = 0;

	while (n_ended(g, ERROR_BURST) < ERROR_BURST) {
		if (g->n_begun)
			bad_end(g, g->begun[--g->n_begun]);
		some_turns(g->r, 1);
		assert_true(++turns < 1000);
	}
}

static void burst_with_failures(struct fixture *g, uint32_t fence,
				bool one_by_one)
{
	struct weir_dma_stats was = { .size = sizeof(was) }, is = was;
	int i, n_bad = 0;

	assert_int_equal(weir_dma_stats(g->dma, &was), 0);
	prepare(g, ERROR_BURST);
	for (i = 0; i < ERROR_BURST; i++) {
		n_bad += g->bad[i];
		start(g, i, WEIR_JOB_LAZY |
			    (i && g->bad[i - 1] ? fence : 0));
		if (one_by_one)
			weir_dma_flush(g->dma);
	}
	weir_dma_flush(g->dma);
	drain(g);
	for (i = 0; i < ERROR_BURST; i++) {
		assert_int_equal(g->j[i].calls, 1);
		assert_int_equal(g->j[i].res, g->bad[i] ? -EIO : COPY_LEN);
		assert_int_equal(g->j[i].detail.code,
				 g->bad[i] ? 1000 + i : 0);
		assert_int_equal(g->j[i].detail.bytes,
				 g->bad[i] ? COPY_LEN / 2 : COPY_LEN);
		if (!g->bad[i])
			assert_memory_equal(g->dst[i], g->src[i], COPY_LEN);
	}
	assert_int_equal(weir_dma_stats(g->dma, &is), 0);
	assert_int_equal(is.started - was.started, ERROR_BURST);
	assert_int_equal(is.completed - was.completed, ERROR_BURST - n_bad);
	assert_int_equal(is.failed - was.failed, n_bad);
	assert_int_equal(is.in_flight, 0);
}

/* C3.4, C3.5, C3.8 */
static void case_65_failures_are_exactly_those_that_fail(void **state)
{
	static const int at[] = { 0, 7, 14, 15 };
	struct fixture *g = bad_begin(state);
	size_t i, k;

	for (k = 0; k < 8; k++) {
		g->later = k & 4;
		for (i = 0; i < N_OF(at); i++) {
			memset(g->bad, 0, sizeof(g->bad));
			g->bad[at[i]] = true;
			burst_with_failures(g, k & 1 ? WEIR_JOB_FENCE : 0,
					    k & 2);
		}
		for (i = 0; i < N_OF(at); i++)
			g->bad[at[i]] = true;
		burst_with_failures(g, k & 1 ? WEIR_JOB_FENCE : 0, k & 2);
	}
	fixture_end(g);
}

/* What has no address is refused, and the rest of the batch is untouched. */
static void case_65_what_is_wrong_is_refused_in_its_place(void **state)
{
	static const uint32_t at[] = { 0, 7, 14, 15 };
	struct fixture *g = fixture_begin(state, (struct weir_dma_opts){ 0 });
	struct weir_job *jobs[ERROR_BURST];
	uint32_t n;
	size_t i, k;

	for (k = 0; k < N_OF(at); k++) {
		prepare(g, ERROR_BURST);
		for (i = 0; i < ERROR_BURST; i++)
			jobs[i] = &g->j[i].job;
		jobs[at[k]]->src = weir_operand_mem(NULL, COPY_LEN);
		assert_int_equal(weir_job_start_batch(g->dma, jobs,
						      ERROR_BURST, &n), -EINVAL);
		assert_int_equal(n, at[k]);
		assert_int_equal(weir_job_start_batch(g->dma, jobs + n + 1,
				 ERROR_BURST - 1 - n, &n), 0);
		assert_int_equal(n, ERROR_BURST - 1 - at[k]);
		UNTIL(g->r, n_ended(g, ERROR_BURST) == ERROR_BURST - 1);
		assert_int_equal(g->j[at[k]].calls, 0);
	}
	fixture_end(g);
}

static void case_66_a_fill_repeats_its_pattern_and_ends_there(void **state)
{
	static const size_t lengths[] = { 8, 64, 1024, 50, 100, 89 };
	static const char pattern[8] = "\x21\x43\x65\x87\xa9\xcb\xed\x0f";
	struct fixture *g = fixture_begin(state, (struct weir_dma_opts){ 0 });
	struct jrec *j = &g->j[0];
	char *dst = g->dst[1];
	uint64_t value;
	size_t i, k;

	memcpy(&value, pattern, 8);
	for (k = 0; k < N_OF(lengths); k++) {
		memset(g->dst, 0x5a, sizeof(g->dst));
		jrec_init(j);
		weir_job_fill(&j->job, weir_operand_mem(dst, lengths[k]),
			      value);
		assert_int_equal(jrec_run(g->dma, j), lengths[k]);
		for (i = 0; i < lengths[k]; i++)
			assert_int_equal(dst[i], pattern[i % 8]);
		assert_int_equal(dst[-1], 0x5a);
		assert_int_equal(dst[lengths[k]], 0x5a);
	}
	weir_job_memzero(&j->job, weir_operand_mem(dst, 89));
	assert_int_equal(jrec_run(g->dma, j), 89);
	for (i = 0; i < 89; i++)
		assert_int_equal(dst[i], 0);
	fixture_end(g);
}

static uint64_t n_free(const struct weir_inventory *inv)
{
	struct weir_inventory_stats s = { .size = sizeof(s) };

	assert_int_equal(weir_inventory_stats(inv, &s), 0);
	return s.free;
}

/* The reference of the job is the last one: it frees the source. */
static void case_67_a_buf_let_go_by_its_owner_is_freed_by_the_job(void **state)
{
	struct fixture *g = fixture_begin(state, (struct weir_dma_opts){ 0 });
	struct weir_mmap *m = start_mmap(g->src, sizeof(g->src),
					 WEIR_MMAP_WRITE);
	struct weir_inventory *inv = NULL;
	struct weir_buf *buf = NULL;
	uint64_t before;

	assert_int_equal(weir_inventory_create(&inv, g->r, NULL), 0);
	assert_int_equal(weir_inventory_attach(inv, m), 0);
	before = n_free(inv);
	prepare(g, 1);
	assert_int_equal(weir_inventory_get(&buf, inv, m, g->src[0], COPY_LEN,
					    NULL, COPY_LEN), 0);
	weir_job_copy(&g->j[0].job, weir_operand_mem(g->dst[0], COPY_LEN),
		      weir_operand_buf(buf));
	start(g, 0, WEIR_JOB_LAZY);
	weir_buf_put(buf);
	assert_int_equal(n_free(inv), before - 1);
	weir_dma_flush(g->dma);
	all_copied(g, 1);
	assert_int_equal(n_free(inv), before);
	fixture_end(g);
	assert_int_equal(weir_inventory_destroy(inv), 0);
	assert_int_equal(weir_mmap_destroy(m), 0);
}

/* C3.1, C3.2 */
static void case_68_what_makes_no_sense_is_refused(void **state)
{
	static const struct weir_engine_ops ops = {
		.size = sizeof(ops), .name = "late", .can = bad_can,
		.start = bad_start,
	};
	struct weir_dma_opts opts = { .size = sizeof(opts) };
	struct weir_dma_engine_stats es = { .size = sizeof(es) };
	struct weir_dma_stats s = { .size = 4 };
	struct fixture *g;
	struct rec stop;
	char big[sizeof(opts) + 8] = { 0 };
	struct weir_dma *other = NULL;

	g = fixture_begin(state, (struct weir_dma_opts){ 0 });
	opts.jobs_max = UINT32_MAX;
	assert_int_equal(weir_dma_create(&other, g->r, &opts), -EINVAL);
	*(size_t *)(void *)big = sizeof(big);
	big[sizeof(big) - 1] = 1;
	assert_int_equal(weir_dma_create(&other, g->r, (void *)big), -E2BIG);
	assert_null(other);
	assert_int_equal(weir_dma_add_engine(g->dma, &ops, g), -EBUSY);
	assert_int_equal(weir_dma_set_state_cb(g->dma, NULL, NULL), -EBUSY);
	assert_int_equal(weir_dma_start(g->dma), 0);
	assert_int_equal(weir_dma_stats(g->dma, &s), -EINVAL);
	assert_int_equal(weir_dma_engine_stats(g->dma, 99, &es), -ENOENT);
	/* Those of libraries above come first. */
	for (uint32_t i = 0; !es.name || strcmp(es.name, "cpu"); i++)
		assert_int_equal(weir_dma_engine_stats(g->dma, i, &es), 0);

	/* Nothing completes that was not submitted. */
	prepare(g, 1);
	start(g, 0, WEIR_JOB_LAZY);
	assert_int_equal(g->j[0].calls, 0);
	assert_int_equal(weir_dma_destroy(g->dma), -EBUSY);
	rec_init(&stop);
	STARTS(weir_dma_stop(g->dma, &stop.op));
	assert_int_equal(weir_dma_start(g->dma), -EBUSY);
	assert_int_equal(finish(g->r, &stop), 0);
	assert_int_equal(weir_dma_start(g->dma), 0);
	assert_int_equal(g->j[0].res, -ECANCELED);
	rec_init(&stop);
	STARTS(weir_dma_stop(g->dma, &stop.op));
	assert_int_equal(finish(g->r, &stop), 0);
	rec_init(&stop);
	STARTS(weir_dma_stop(g->dma, &stop.op));
	assert_int_equal(finish(g->r, &stop), 0);
	fixture_end(g);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(case_60_copies_one_by_one_and_in_bursts),
		CASE(case_60_a_burst_may_complete_in_parts),
		CASE(case_61_every_number_of_pieces_on_both_sides),
		CASE(case_62_heap_and_stack_as_they_are),
		CASE(case_63_stopped_and_started_again_it_goes_on),
		CASE(case_64_the_capacity_for_a_burst_is_exact_for_ever),
		CASE(case_65_failures_are_exactly_those_that_fail),
		CASE(case_65_what_is_wrong_is_refused_in_its_place),
		CASE(case_66_a_fill_repeats_its_pattern_and_ends_there),
		CASE(case_67_a_buf_let_go_by_its_owner_is_freed_by_the_job),
		CASE(case_68_what_makes_no_sense_is_refused),
	};

	return harness_run_all(cases, N_OF(cases));
}
