/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Atomics in memory of this process: what they do, on which words, and where
 * they would be none.
 */

#include "tests/support/job-fixture.h"

#include <pthread.h>

#include <weir/buf.h>
#include <weir/chain.h>
#include <weir/engine.h>
#include <weir/inventory.h>
#include <weir/route.h>

#define WORDS 16
#define MAGIC UINT64_C(0x0123456789abcdef)

struct fixture {
	struct weir_reactor *r;
	struct weir_dma *dma;
	struct weir_mmap *m;
	struct weir_inventory *inv;
	struct jrec j;
	char text[512];
	uint64_t word[WORDS];
};

static void fixture_begin(struct fixture *g, void **state, uint32_t permissions)
{
	int i;

	memset(g, 0, sizeof(*g));
	g->r = start_reactor(state);
	g->dma = start_dma(g->r, (struct weir_dma_opts){ .size = 0 });
	g->m = start_mmap(g->word, sizeof(g->word), permissions);
	assert_int_equal(weir_inventory_create(&g->inv, g->r, NULL), 0);
	assert_int_equal(weir_inventory_attach(g->inv, g->m), 0);
	for (i = 0; i < WORDS; i++)
		g->word[i] = MAGIC + (uint64_t)i;
	jrec_init(&g->j);
}

static void fixture_end(struct fixture *g)
{
	assert_int_equal(weir_dma_destroy(g->dma), 0);
	assert_int_equal(weir_inventory_destroy(g->inv), 0);
	assert_int_equal(weir_mmap_destroy(g->m), 0);
}

/* A buf of the @n words from the @first on. */
static struct weir_buf *words(struct fixture *g, int first, size_t n)
{
	struct weir_buf *b = NULL;

	assert_int_equal(weir_inventory_get(&b, g->inv, g->m, g->word + first,
					    8 * n, g->word + first, 8 * n), 0);
	return b;
}

static struct weir_operand at(struct fixture *g, int i)
{
	return weir_operand_mem(&g->word[i], 8);
}

/* Nothing but the @i-th has changed. */
static void assert_only(const struct fixture *g, int i, uint64_t value)
{
	int k;

	for (k = 0; k < WORDS; k++)
		assert_true(g->word[k] ==
			    (k == i ? value : MAGIC + (uint64_t)k));
}

static void a_word_is_added_to_and_its_old_value_told(void **state)
{
	struct fixture g;

	fixture_begin(&g, state, WEIR_MMAP_WRITE);
	weir_job_fetch_add(&g.j.job, at(&g, 3), 5);
	assert_int_equal(jrec_run(g.dma, &g.j), 8);
	assert_true(weir_job_old(&g.j.job) == MAGIC + 3);
	assert_only(&g, 3, MAGIC + 8);
	assert_int_equal(jrec_run(g.dma, &g.j), 8);
	assert_true(weir_job_old(&g.j.job) == MAGIC + 8);
	weir_job_fetch_add(&g.j.job, at(&g, 3), UINT64_MAX - 9);
	assert_int_equal(jrec_run(g.dma, &g.j), 8);
	assert_only(&g, 3, MAGIC + 3);
	fixture_end(&g);
}

static void a_word_is_swapped_if_it_is_as_expected(void **state)
{
	struct fixture g;

	fixture_begin(&g, state, WEIR_MMAP_WRITE);
	weir_job_compare_swap(&g.j.job, at(&g, 7), MAGIC + 7, 1);
	assert_int_equal(jrec_run(g.dma, &g.j), 8);
	assert_true(weir_job_old(&g.j.job) == MAGIC + 7);
	assert_only(&g, 7, 1);
	weir_job_compare_swap(&g.j.job, at(&g, 7), MAGIC + 7, 2);
	assert_int_equal(jrec_run(g.dma, &g.j), 8);
	assert_true(weir_job_old(&g.j.job) == 1);
	assert_only(&g, 7, 1);
	fixture_end(&g);
}

/* Of its data, which stay as long as they are. */
static void a_part_of_a_buf_is_a_word(void **state)
{
	struct weir_operand operand;
	struct weir_buf *b;
	struct fixture g;

	fixture_begin(&g, state, WEIR_MMAP_WRITE);
	b = words(&g, 2, 3);
	assert_int_equal(weir_buf_chain(b, words(&g, 8, 2)), 0);
	operand = weir_operand_buf(b);
	operand.len = 8;
	operand.addr = 32;
	weir_job_fetch_add(&g.j.job, operand, 1);
	g.j.job.flags = WEIR_JOB_FENCE | WEIR_JOB_LAZY;
	assert_int_equal(jrec_run(g.dma, &g.j), 8);
	assert_only(&g, 9, MAGIC + 10);
	assert_true(weir_job_old(&g.j.job) == MAGIC + 9);
	assert_int_equal(weir_buf_data_len(b), 24);
	g.j.job.dst.addr = 33;
	assert_int_equal(weir_job_start(g.dma, &g.j.job), -ERANGE);
	g.j.job.dst.addr = 20;
	assert_int_equal(weir_job_start(g.dma, &g.j.job), -EINVAL);
	weir_buf_put(b);
	fixture_end(&g);
}

static void atomic_on_an_unaligned_word_is_refused(void **state)
{
	struct iovec iov[2];
	struct fixture g;

	fixture_begin(&g, state, WEIR_MMAP_WRITE);
	iov[0] = (struct iovec){ &g.word[0], 4 };
	iov[1] = (struct iovec){ &g.word[1], 4 };
	const struct {
		struct weir_operand operand;
		int err;
		const char *text;
	} rows[] = {
		{ weir_operand_mem(g.word, 4), -EMSGSIZE,
		  "about 8 bytes, not 4" },
		{ weir_operand_mem(g.word, 16), -EMSGSIZE, "8 bytes, not 16" },
		{ weir_operand_mem(g.word, 0), -EINVAL, "its length is 0" },
		{ weir_operand_mem((char *)g.word + 4, 8), -EINVAL,
		  "at a multiple of 8" },
		{ weir_operand_iov(NULL, iov, 2), -EINVAL, "in one piece" },
	};

	for (size_t i = 0; i < N_OF(rows); i++) {
		weir_job_fetch_add(&g.j.job, rows[i].operand, 1);
		assert_int_equal(weir_route_explain(g.dma, &g.j.job, g.text,
						    sizeof(g.text)),
				 rows[i].err);
		if (!strstr(g.text, rows[i].text))
			fail_msg("no '%s' in: %s", rows[i].text, g.text);
		assert_int_equal(weir_job_start(g.dma, &g.j.job),
				 rows[i].err);
	}
	assert_only(&g, -1, 0);
	fixture_end(&g);
}

static void a_word_that_cannot_be_written_is_none(void **state)
{
	struct weir_buf *b;
	struct fixture g;

	fixture_begin(&g, state, WEIR_MMAP_READ);
	b = words(&g, 0, 1);
	weir_job_fetch_add(&g.j.job, weir_operand_buf(b), 1);
	assert_int_equal(weir_job_start(g.dma, &g.j.job), -EACCES);
	weir_buf_put(b);
	fixture_end(&g);
}

/* Two steps would be no atomic. */
static void atomic_never_goes_through_staging(void **state)
{
	struct weir_domain *file;
	struct fixture g;
	int fd;

	fixture_begin(&g, state, WEIR_MMAP_WRITE);
	fd = test_file(state, "f", 64, 1);
	file = file_domain(fd);
	weir_job_compare_swap(&g.j.job, weir_operand_at(file, 8, 8), 0, 1);
	assert_int_equal(weir_route_explain(g.dma, &g.j.job, g.text,
					    sizeof(g.text)), -EXDEV);
	assert_non_null(strstr(g.text, "no bounce: an atomic in two steps "
			       "would be none"));
	assert_int_equal(weir_job_start(g.dma, &g.j.job), -EXDEV);
	assert_int_equal(weir_domain_destroy(file), 0);
	close(fd);
	fixture_end(&g);
}

/* Each step sees what the one before has left, in each run. */
static void chain_has_atomic_steps(void **state)
{
	struct weir_job add, swap, add2;
	struct weir_chain *chain = NULL;
	struct rec rec;
	struct fixture g;
	int i;

	fixture_begin(&g, state, WEIR_MMAP_WRITE);
	weir_job_init(&add, NULL);
	weir_job_init(&swap, NULL);
	weir_job_init(&add2, NULL);
	weir_job_fetch_add(&add, at(&g, 0), 1);
	weir_job_compare_swap(&swap, at(&g, 0), MAGIC + 1, 41);
	weir_job_fetch_add(&add2, at(&g, 0), MAGIC - 42);
	rec_init(&rec);
	assert_int_equal(weir_chain_create(&chain, g.r, NULL), 0);
	assert_int_equal(weir_chain_add_job(chain, -1, g.dma, &add), 0);
	assert_int_equal(weir_chain_add_job(chain, 0, g.dma, &swap), 1);
	assert_int_equal(weir_chain_add_job(chain, 1, g.dma, &add2), 2);
	for (i = 0; i < 3; i++) {
		g.word[0] = MAGIC;
		STARTS(weir_chain_start(chain, &rec.op));
		assert_int_equal(finish(g.r, &rec), 3);
		assert_true(weir_job_old(&add) == MAGIC);
		assert_true(weir_job_old(&swap) == MAGIC + 1);
		assert_true(weir_job_old(&add2) == 41);
		assert_true(g.word[0] == MAGIC - 1);
	}
	assert_int_equal(weir_chain_destroy(chain), 0);
	fixture_end(&g);
}

static uint64_t engine_word;

static int engine_can(void *arg, const struct weir_engine_query *q,
		      const char **why)
{
	(void)arg, (void)why;
	return q->kind == WEIR_JOB_FETCH_ADD && !q->src && q->bytes == 8 &&
	       q->n_dst == 1;
}

static int engine_start(void *arg, struct weir_job *job)
{
	(void)arg;
	weir_job_set_old(job, engine_word);
	engine_word += job->pattern;
	weir_job_end(job, 8, 0, 0);
	return 0;
}

static void user_engine_may_do_atomics(void **state)
{
	static const struct weir_engine_ops ops = {
		.size = sizeof(ops), .name = "words", .can = engine_can,
		.start = engine_start,
	};
	struct weir_domain *file;
	struct rec stop;
	struct fixture g;
	int fd;

	fixture_begin(&g, state, WEIR_MMAP_WRITE);
	fd = test_file(state, "f", 64, 1);
	file = file_domain(fd);
	rec_init(&stop);
	STARTS(weir_dma_stop(g.dma, &stop.op));
	assert_int_equal(finish(g.r, &stop), 0);
	assert_int_equal(weir_dma_add_engine(g.dma, &ops, NULL), 0);
	assert_int_equal(weir_dma_start(g.dma), 0);
	engine_word = 17;
	weir_job_fetch_add(&g.j.job, weir_operand_at(file, 8, 8), 5);
	assert_int_equal(jrec_run(g.dma, &g.j), 8);
	assert_true(weir_job_old(&g.j.job) == 17 && engine_word == 22);
	assert_int_equal(weir_domain_destroy(file), 0);
	close(fd);
	fixture_end(&g);
}

#define TIMES 20000

static void *add_too(void *arg)
{
	uint64_t *word = arg;
	int i;

	for (i = 0; i < TIMES; i++)
		__atomic_fetch_add(word, UINT64_C(1) << 32, __ATOMIC_RELAXED);
	return NULL;
}

/* Somebody else adds at the same time, and nothing is lost. */
static void atomic_is_atomic_beside_other_threads(void **state)
{
	pthread_t thread;
	struct fixture g;
	int i;

	fixture_begin(&g, state, WEIR_MMAP_WRITE);
	g.word[0] = 0;
	weir_job_fetch_add(&g.j.job, at(&g, 0), 1);
	assert_int_equal(pthread_create(&thread, NULL, add_too, g.word), 0);
	for (i = 0; i < TIMES / 10; i++)
		assert_int_equal(jrec_run(g.dma, &g.j), 8);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(g.word[0] == ((uint64_t)TIMES << 32) + TIMES / 10);
	fixture_end(&g);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(a_word_is_added_to_and_its_old_value_told),
		CASE(a_word_is_swapped_if_it_is_as_expected),
		CASE(a_part_of_a_buf_is_a_word),
		CASE(atomic_on_an_unaligned_word_is_refused),
		CASE(a_word_that_cannot_be_written_is_none),
		CASE(atomic_never_goes_through_staging),
		CASE(chain_has_atomic_steps),
		CASE(user_engine_may_do_atomics),
		CASE(atomic_is_atomic_beside_other_threads),
	};

	return harness_run(cases, N_OF(cases));
}
