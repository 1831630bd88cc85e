/* SPDX-License-Identifier: BSD-3-Clause */
/* Engines of the user's: asked first, without capacity, refusing, cancelled. */

#include "tests/support/job-fixture.h"

#include <limits.h>

#include <weir/crc32c.h>
#include <weir/engine.h>
#include <weir/route.h>

#define LEN 65536u
#define CAPACITY 4

/* A card with capacity for some jobs, which do what they are to when it is
 * told. */
struct card {
	struct weir_job *jobs[CAPACITY];
	uint32_t n_jobs, capacity;
	uint32_t kinds;			/* Bits. */
	int refuse;
	bool inside;			/* Ends jobs in their start. */
	bool doorbell;			/* Works when flushed. */
	uint32_t starts, cancels, flushes;
	struct weir_engine_query last;
};

static int card_can(void *arg, const struct weir_engine_query *q,
		    const char **why)
{
	struct card *card = arg;

	card->last = *q;
	*why = "not a kind of the card's";
	return card->kinds >> q->kind & 1;
}

static void card_end(struct card *card, uint32_t i, int64_t res)
{
	struct weir_job *job = card->jobs[i];
	struct iovec src[3], dst[2];
	uint64_t done = 0, total = weir_job_bytes(job), n;
	uint32_t crc = job->crc;

	card->jobs[i] = card->jobs[--card->n_jobs];
	while (!res && done < total) {
		assert_true(weir_job_pieces(job, WEIR_JOB_SRC, done, src, 3));
		n = src[0].iov_len;
		if (weir_job_pieces(job, WEIR_JOB_DST, done, dst, 2)) {
			n = dst[0].iov_len < n ? dst[0].iov_len : n;
			memcpy(dst[0].iov_base, src[0].iov_base, n);
		}
		crc = weir_crc32c(crc, src[0].iov_base, n);
		done += n;
	}
	assert_int_equal(res || !weir_job_pieces(job, WEIR_JOB_SRC, done, src,
						 3), 1);
	if (job->kind == WEIR_JOB_CRC32C)
		weir_job_set_crc(job, crc);
	memset(weir_job_area(job), 0xee, WEIR_JOB_AREA);
	weir_job_end(job, done, res, res ? 99 : 0);
}

static int card_start(void *arg, struct weir_job *job)
{
	struct card *card = arg;

	card->starts++;
	if (card->refuse)
		return card->refuse;
	if (card->n_jobs == card->capacity)
		return -EAGAIN;
	card->jobs[card->n_jobs++] = job;
	if (card->inside)
		card_end(card, card->n_jobs - 1, 0);
	return 0;
}

static void card_cancel(void *arg, struct weir_job *job)
{
	struct card *card = arg;
	uint32_t i;

	card->cancels++;
	for (i = 0; card->jobs[i] != job; i++)
		assert_true(i < card->n_jobs);
	card_end(card, i, -ECANCELED);
}

static void card_flush(void *arg)
{
	struct card *card = arg;

	card->flushes++;
	while (card->doorbell && card->n_jobs)
		card_end(card, 0, 0);
}

static const struct weir_engine_ops ops = {
	.size = sizeof(ops), .name = "card", .can = card_can,
	.start = card_start, .cancel = card_cancel, .flush = card_flush,
};

struct fixture {
	struct weir_reactor *r;
	struct weir_dma *dma;
	struct card card;
	char *mem;
	struct jrec j[16];
};

static void fixture_begin(struct fixture *g, void **state)
{
	struct weir_dma_opts opts = { .size = sizeof(opts) };
	int i;

	memset(g, 0, sizeof(*g));
	g->r = start_reactor(state);
	g->mem = malloc(2 * LEN);
	fill_pattern(g->mem, LEN, 0, 1);
	memset(g->mem + LEN, 0, LEN);
	g->card.capacity = CAPACITY;
	g->card.kinds = 1u << WEIR_JOB_COPY | 1u << WEIR_JOB_CRC32C;
	assert_int_equal(weir_dma_create(&g->dma, g->r, &opts), 0);
	assert_int_equal(weir_dma_add_engine(g->dma, &ops, &g->card), 0);
	assert_int_equal(weir_dma_start(g->dma), 0);
	for (i = 0; i < 16; i++) {
		jrec_init(&g->j[i]);
		weir_job_copy(&g->j[i].job,
			      weir_operand_mem(g->mem + LEN + i * 64, 64),
			      weir_operand_mem(g->mem + i * 64, 64));
	}
}

static void fixture_end(struct fixture *g)
{
	assert_int_equal(weir_dma_destroy(g->dma), 0);
	free(g->mem);
}

static struct weir_dma_engine_stats stats(struct fixture *g)
{
	struct weir_dma_engine_stats s = { .size = sizeof(s) };
	uint32_t i = 0;

	do
		assert_int_equal(weir_dma_engine_stats(g->dma, i++, &s), 0);
	while (strcmp(s.name, "card"));
	return s;
}

static void engine_with_bad_attributes_is_not_added(void **state)
{
	struct weir_engine_ops bad;
	char name[WEIR_ENGINES_MAX][8];
	struct rec stop;
	struct fixture g;
	int i, err = 0;

	fixture_begin(&g, state);
	assert_int_equal(weir_dma_add_engine(g.dma, &ops, NULL), -EBUSY);
	rec_init(&stop);
	STARTS(weir_dma_stop(g.dma, &stop.op));
	assert_int_equal(finish(g.r, &stop), 0);
	assert_int_equal(weir_dma_add_engine(g.dma, &ops, NULL), -EEXIST);
	assert_int_equal(weir_dma_add_engine(g.dma, NULL, NULL), -EINVAL);
	bad = ops;
	bad.name = "cpu";
	assert_int_equal(weir_dma_add_engine(g.dma, &bad, NULL), -EEXIST);
	bad.name = NULL;
	assert_int_equal(weir_dma_add_engine(g.dma, &bad, NULL), -EINVAL);
	bad = ops;
	bad.can = NULL;
	assert_int_equal(weir_dma_add_engine(g.dma, &bad, NULL), -EINVAL);
	bad = ops;
	bad.flags = WEIR_ENGINE_FLAGS + 1;
	assert_int_equal(weir_dma_add_engine(g.dma, &bad, NULL), -EINVAL);
	bad = ops;
	bad.start = NULL;
	assert_int_equal(weir_dma_add_engine(g.dma, &bad, NULL), -EINVAL);
	bad = ops;
	bad.size = 1;
	assert_int_equal(weir_dma_add_engine(g.dma, &bad, NULL), -EINVAL);
	for (i = 0; !err && i <= WEIR_ENGINES_MAX; i++) {
		snprintf(name[i], sizeof(name[i]), "e%d", i);
		bad = ops;
		bad.name = name[i];
		err = weir_dma_add_engine(g.dma, &bad, &g.card);
	}
	assert_int_equal(err, -ENOSPC);
	assert_starts_with(weir_why(), "weir_dma_add_engine: a context has ");
	fixture_end(&g);
}

static void user_engine_is_asked_before_those_of_the_library(void **state)
{
	struct weir_job_route route = { .size = sizeof(route) };
	struct iovec iov[3];
	struct fixture g;

	fixture_begin(&g, state);
	g.card.inside = true;
	iov[0] = (struct iovec){ g.mem, 10 };
	iov[1] = (struct iovec){ g.mem + 100, 50 };
	iov[2] = (struct iovec){ g.mem + 300, 4 };
	g.j[0].job.src = weir_operand_iov(NULL, iov, 3);
	assert_int_equal(jrec_run(g.dma, &g.j[0]), 64);
	assert_memory_equal(g.mem + LEN + 10, g.mem + 100, 50);
	assert_int_equal(g.card.last.n_src, 3);
	assert_int_equal(g.card.last.n_dst, 1);
	assert_int_equal(g.card.last.bytes, 64);
	assert_ptr_equal(g.card.last.src, weir_domain_system());
	assert_int_equal(weir_job_get_route(&g.j[0].job, &route), 0);
	assert_string_equal(route.engine, "card");

	weir_job_crc32c(&g.j[1].job, weir_operand_mem(g.mem, 1000), 5);
	assert_int_equal(jrec_run(g.dma, &g.j[1]), 1000);
	assert_int_equal(g.j[1].job.crc, weir_crc32c(5, g.mem, 1000));

	/* What it cannot is for the next. */
	weir_job_fill(&g.j[2].job, weir_operand_mem(g.mem + LEN, 9), 7);
	assert_int_equal(jrec_run(g.dma, &g.j[2]), 9);
	assert_int_equal(g.card.starts, 2);
	assert_int_equal(stats(&g).jobs, 2);
	assert_int_equal(stats(&g).bytes, 1064);
	fixture_end(&g);
}

/* In place of @g's context one whose engine has the flags @flags. */
static void use_engine_with(struct fixture *g, uint32_t flags)
{
	struct weir_engine_ops flagged = ops;
	struct rec stop;

	rec_init(&stop);
	STARTS(weir_dma_stop(g->dma, &stop.op));
	assert_int_equal(finish(g->r, &stop), 0);
	assert_int_equal(weir_dma_destroy(g->dma), 0);
	assert_int_equal(weir_dma_create(&g->dma, g->r, NULL), 0);
	flagged.flags = flags;
	assert_int_equal(weir_dma_add_engine(g->dma, &flagged, &g->card), 0);
	assert_int_equal(weir_dma_start(g->dma), 0);
}

static void engine_for_other_domains_is_not_asked_about_memory(void **state)
{
	struct weir_domain *file;
	struct fixture g;
	char text[2000];
	int fd;

	fixture_begin(&g, state);
	use_engine_with(&g, WEIR_ENGINE_FOREIGN);
	assert_int_equal(jrec_run(g.dma, &g.j[0]), 64);
	assert_memory_equal(g.mem + LEN, g.mem, 64);
	/* Nor where a job is planned, which a chain's and this are. */
	assert_true(weir_route_explain(g.dma, &g.j[0].job, text,
				       sizeof(text)) >= 0);
	assert_non_null(strstr(text, "not asked about memory"));
	assert_int_equal(g.card.last.size, 0);
	assert_int_equal(g.card.starts, 0);
	/* Of another domain it is asked first. */
	fd = test_file(state, "file", LEN, 0);
	file = file_domain(fd);
	g.card.kinds = 0;
	weir_job_copy(&g.j[1].job, weir_operand_mem(g.mem + LEN, 64),
		      weir_operand_at(file, 0, 64));
	assert_int_equal(jrec_run(g.dma, &g.j[1]), 64);
	assert_ptr_equal(g.card.last.src, file);
	assert_int_equal(weir_domain_destroy(file), 0);
	close(fd);
	fixture_end(&g);
}

static void engine_that_does_no_files_is_not_asked_about_them(void **state)
{
	struct weir_domain *file;
	struct fixture g;
	char text[2000];
	int fd;

	fixture_begin(&g, state);
	use_engine_with(&g, WEIR_ENGINE_NO_FILES);
	fd = test_file(state, "file", LEN, 0);
	file = file_domain(fd);
	weir_job_copy(&g.j[1].job, weir_operand_mem(g.mem + LEN, 64),
		      weir_operand_at(file, 0, 64));
	assert_int_equal(jrec_run(g.dma, &g.j[1]), 64);
	assert_true(weir_route_explain(g.dma, &g.j[1].job, text,
				       sizeof(text)) >= 0);
	assert_int_equal(g.card.last.size, 0);
	assert_int_equal(g.card.starts, 0);
	/* But about memory. */
	g.card.inside = true;
	assert_int_equal(jrec_run(g.dma, &g.j[0]), 64);
	assert_int_equal(g.card.starts, 1);
	assert_int_equal(weir_domain_destroy(file), 0);
	close(fd);
	fixture_end(&g);
}

static void jobs_wait_in_order_for_engine_capacity(void **state)
{
	struct fixture g;
	int i;

	fixture_begin(&g, state);
	for (i = 0; i < 16; i++)
		STARTS(weir_job_start(g.dma, &g.j[i].job));
	assert_int_equal(g.card.n_jobs, CAPACITY);
	assert_int_equal(stats(&g).waiting, 16 - CAPACITY);
	/* Behind one that waits nobody is let in, and nobody is asked. */
	assert_int_equal(g.card.starts, CAPACITY + 1);
	some_turns(g.r, 3);
	for (i = 0; i < 16; i++) {
		assert_ptr_equal(g.card.jobs[0], &g.j[i].job);
		/* Take it out of the middle of their order. */
		card_end(&g.card, 0, 0);
		if (g.card.n_jobs) {
			struct weir_job *last = g.card.jobs[0];

			memmove(g.card.jobs, g.card.jobs + 1,
				(g.card.n_jobs - 1) * sizeof(last));
			g.card.jobs[g.card.n_jobs - 1] = last;
		}
		UNTIL(g.r, g.j[i].calls);
		some_turns(g.r, 1);
		assert_int_equal(g.j[i].res, 64);
	}
	assert_memory_equal(g.mem, g.mem + LEN, 1024);
	assert_int_equal(stats(&g).waited, 16 - CAPACITY);
	assert_int_equal(stats(&g).under_way, 0);
	fixture_end(&g);
}

/* Others use the card as well: it may be full without a job of ours. */
static void idle_engine_is_polled_in_each_turn(void **state)
{
	struct fixture g;

	fixture_begin(&g, state);
	g.card.capacity = 0;
	g.card.inside = true;
	STARTS(weir_job_start(g.dma, &g.j[0].job));
	some_turns(g.r, 10);
	assert_in_range(g.card.starts, 5, 12);
	assert_int_equal(g.j[0].calls, 0);
	g.card.capacity = 1;
	assert_int_equal(jrec_finish(g.r, &g.j[0]), 64);
	fixture_end(&g);
}

static void a_refusal_is_the_callers_or_the_end(void **state)
{
	struct fixture g;

	fixture_begin(&g, state);
	g.card.refuse = -ENXIO;
	assert_int_equal(weir_job_start(g.dma, &g.j[0].job), -ENXIO);
	assert_int_equal(weir_op_is_busy(&g.j[0].job.op), 0);
	assert_int_equal(stats(&g).under_way, 0);

	g.card.refuse = -EAGAIN;
	STARTS(weir_job_start(g.dma, &g.j[0].job));
	g.card.refuse = -ENXIO;
	assert_int_equal(jrec_finish(g.r, &g.j[0]), -ENXIO);
	assert_int_equal(stats(&g).waiting, 0);
	fixture_end(&g);
}

static void a_cancel_reaches_it_and_those_that_wait(void **state)
{
	struct rec stop;
	struct fixture g;
	int i;

	fixture_begin(&g, state);
	for (i = 0; i < 8; i++)
		STARTS(weir_job_start(g.dma, &g.j[i].job));
	assert_int_equal(weir_op_cancel(&g.j[6].job.op), 0);
	assert_int_equal(jrec_finish(g.r, &g.j[6]), -ECANCELED);
	assert_int_equal(g.card.cancels, 0);
	assert_int_equal(weir_op_cancel(&g.j[1].job.op), 0);
	assert_int_equal(jrec_finish(g.r, &g.j[1]), -ECANCELED);
	assert_int_equal(g.j[1].detail.code, 99);
	assert_int_equal(g.card.cancels, 1);
	rec_init(&stop);
	STARTS(weir_dma_stop(g.dma, &stop.op));
	assert_int_equal(finish(g.r, &stop), 0);
	for (i = 0; i < 8; i++)
		assert_int_equal(g.j[i].res, -ECANCELED);
	fixture_end(&g);
}

static void engine_rings_one_doorbell_for_all_starts_of_a_turn(void **state)
{
	struct fixture g;
	int i;

	fixture_begin(&g, state);
	g.card.doorbell = true;
	for (i = 0; i < CAPACITY; i++)
		STARTS(weir_job_start(g.dma, &g.j[i].job));
	assert_int_equal(g.card.flushes, 0);
	for (i = 0; i < CAPACITY; i++)
		UNTIL(g.r, g.j[i].calls);
	assert_int_equal(g.card.flushes, 1);
	fixture_end(&g);
}

static void engine_that_reports_too_many_bytes_is_an_error(void **state)
{
	struct fixture g;

	fixture_begin(&g, state);
	STARTS(weir_job_start(g.dma, &g.j[0].job));
	g.card.n_jobs = 0;
	weir_job_end(&g.j[0].job, 65, 0, 0);
	assert_int_equal(jrec_finish(g.r, &g.j[0]), -EIO);
	STARTS(weir_job_start(g.dma, &g.j[1].job));
	g.card.n_jobs = 0;
	weir_job_end(&g.j[1].job, 63, 0, 0);
	assert_int_equal(jrec_finish(g.r, &g.j[1]), -ENODATA);
	assert_int_equal(g.j[1].detail.bytes, 63);
	fixture_end(&g);
}

static void engine_result_that_is_no_errno_becomes_an_error(void **state)
{
	static const int64_t results[] = { INT64_MIN, -(INT64_C(1) << 32),
					   -4096 };
	struct fixture g;
	size_t i;

	fixture_begin(&g, state);
	for (i = 0; i < N_OF(results); i++) {
		STARTS(weir_job_start(g.dma, &g.j[i].job));
		g.card.n_jobs = 0;
		weir_job_end(&g.j[i].job, 1, results[i], 0);
		assert_int_equal(jrec_finish(g.r, &g.j[i]), -EIO);
		assert_int_equal(g.j[i].detail.bytes, 1);
	}
	g.card.refuse = INT_MIN;
	assert_int_equal(weir_job_start(g.dma, &g.j[4].job), -EIO);
	g.card.refuse = 7;
	assert_int_equal(weir_job_start(g.dma, &g.j[4].job), -EIO);
	assert_int_equal(g.j[4].calls, 0);
	fixture_end(&g);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(engine_with_bad_attributes_is_not_added),
		CASE(user_engine_is_asked_before_those_of_the_library),
		REAL(engine_for_other_domains_is_not_asked_about_memory),
		REAL(engine_that_does_no_files_is_not_asked_about_them),
		CASE(jobs_wait_in_order_for_engine_capacity),
		CASE(idle_engine_is_polled_in_each_turn),
		CASE(a_refusal_is_the_callers_or_the_end),
		CASE(a_cancel_reaches_it_and_those_that_wait),
		CASE(engine_rings_one_doorbell_for_all_starts_of_a_turn),
		CASE(engine_that_reports_too_many_bytes_is_an_error),
		CASE(engine_result_that_is_no_errno_becomes_an_error),
	};

	return harness_run_all(cases, N_OF(cases));
}
