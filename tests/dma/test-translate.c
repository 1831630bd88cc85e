/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs over a user's domain that is memory in truth: nothing is pulled, and
 * what was translated is invalidated once, whatever happens. */

#include "tests/support/slow-fixture.h"

#include <weir/crc32c.h>
#include <weir/route.h>

#include "tests/support/sim-calls.h"

#define LEN 65536u

enum answer { ONE, TWO, NO, ELSEWHERE, WRONG };

/* What the domain is asked, and how it answers. */
static struct {
	enum answer answer;
	int n_asked, n_ended;
	struct iovec iov[2];
	struct weir_domain *elsewhere;
} said;

static int translate(struct weir_domain *src, void *src_ctx,
		     struct weir_domain *dst, void *dst_ctx, uint64_t addr,
		     size_t len, struct weir_translation *ret)
{
	char *mem = slow_of(src)->mem + addr;

	(void)src_ctx, (void)dst_ctx;
	if (said.answer == NO)
		return -EOPNOTSUPP;
	said.n_asked++;
	ret->domain = said.answer == ELSEWHERE ? said.elsewhere : dst;
	ret->n_iov = 1;
	ret->iov = (struct iovec){ mem, len };
	if (said.answer == WRONG)
		ret->iov.iov_len++;
	if (said.answer == TWO && len > 1) {
		said.iov[0] = (struct iovec){ mem, len / 2 };
		said.iov[1] = (struct iovec){ mem + len / 2, len - len / 2 };
		ret->iovs = said.iov;
		ret->n_iov = 2;
	}
	return 0;
}

static void invalidate(struct weir_domain *domain, void *ctx,
		       const struct weir_translation *t)
{
	(void)domain, (void)ctx, (void)t;
	said.n_ended++;
}

struct fixture {
	struct weir_reactor *r;
	struct weir_dma *dma;
	struct slow user;
	struct weir_domain *file;
	int fd;
	char *mem;
	struct jrec j;
};

static void fixture_begin(struct fixture *g, void **state)
{
	memset(&said, 0, sizeof(said));
	g->r = start_reactor(state);
	g->dma = start_dma(g->r, (struct weir_dma_opts){ 0 });
	slow_init(&g->user, 3);
	assert_int_equal(weir_domain_set_translate(g->user.d, translate), 0);
	assert_int_equal(weir_domain_set_invalidate(g->user.d, invalidate), 0);
	fill_pattern(g->user.mem, LEN, 0, 1);
	g->fd = test_file(state, "f", LEN, 2);
	g->file = file_domain(g->fd);
	said.elsewhere = g->file;
	g->mem = calloc(1, LEN);
	jrec_init(&g->j);
}

static void fixture_end(struct fixture *g)
{
	assert_int_equal(said.n_asked, said.n_ended);
	assert_int_equal(weir_dma_destroy(g->dma), 0);
	slow_end(&g->user);
	assert_int_equal(weir_domain_destroy(g->file), 0);
	close(g->fd);
	free(g->mem);
}

static int64_t run(struct fixture *g)
{
	unsigned int turns = 0;

	STARTS(weir_job_start(g->dma, &g->j.job));
	while (!g->j.calls) {
		assert_true(turns++ < TURNS_MAX);
		slow_pump(&g->user);
		weir_reactor_turn(g->r, g->user.n_asked ? 0 : WEIR_SEC / 1000);
	}
	return g->j.res;
}

static uint32_t route_of(struct fixture *g)
{
	struct weir_job_route route = { .size = sizeof(route) };

	assert_int_equal(weir_job_get_route(&g->j.job, &route), 0);
	return route.route;
}

static struct weir_operand user_at(struct fixture *g, uint64_t off,
				   uint64_t len)
{
	return weir_operand_at(g->user.d, off, len);
}

/* Whatever functions there are beside the one that has no capacity. */
static void no_capacity_is_the_callers_with_and_without_translation(
	void **state)
{
	struct fixture g;
	int i;

	fixture_begin(&g, state);
	said.answer = NO;
	for (i = 0; i < 2; i++) {
		g.user.refuse_in = 1;
		weir_job_copy(&g.j.job, weir_operand_mem(g.mem, 100),
			      user_at(&g, 0, 100));
		assert_int_equal(weir_job_start(g.dma, &g.j.job), -EAGAIN);
		assert_int_equal(weir_op_is_busy(&g.j.job.op), 0);
		assert_int_equal(weir_dma_in_flight(g.dma), 0);

		/* Nobody is there to be told. */
		g.j.job.flags = WEIR_JOB_LAZY;
		STARTS(weir_job_start(g.dma, &g.j.job));
		some_turns(g.r, 20);
		assert_int_equal(g.j.calls, 0);
		g.user.refuse_in = 0;
		UNTIL(g.r, (slow_pump(&g.user), g.j.calls));
		assert_int_equal(g.j.res, 100);
		jrec_init(&g.j);
		assert_int_equal(weir_domain_set_translate(g.user.d, NULL), 0);
	}
	fixture_end(&g);
}

/* S6: several pieces are allowed; the caller invalidates. */
static void translated_memory_is_not_pulled(void **state)
{
	struct fixture g;
	int a;

	for (a = ONE; a <= TWO; a++) {
		fixture_begin(&g, state);
		said.answer = (enum answer)a;
		weir_job_copy_crc32c(&g.j.job, weir_operand_mem(g.mem, 1000),
				     user_at(&g, 7, 1000), 5);
		assert_int_equal(run(&g), 1000);
		assert_int_equal(route_of(&g), WEIR_ROUTE_TRANSLATE);
		assert_true(is_pattern(g.mem, 1000, 7, 1));
		assert_int_equal(g.j.job.crc, weir_crc32c(5, g.mem, 1000));

		jrec_init(&g.j);
		weir_job_copy(&g.j.job, user_at(&g, 0, LEN),
			      weir_operand_at(g.file, 0, LEN));
		assert_int_equal(run(&g), LEN);
		assert_int_equal(route_of(&g), WEIR_ROUTE_TRANSLATE);
		assert_true(is_pattern(g.user.mem, LEN, 0, 2));

		jrec_init(&g.j);
		weir_job_compare(&g.j.job, user_at(&g, 0, LEN),
				 weir_operand_at(g.file, 0, LEN));
		assert_int_equal(run(&g), LEN);

		jrec_init(&g.j);
		weir_job_fill(&g.j.job, user_at(&g, 8, 16), 0x4141414141414141);
		assert_int_equal(run(&g), 16);
		assert_memory_equal(g.user.mem + 8, "AAAAAAAAAAAAAAAA", 16);

		/* Both sides are of the domain. */
		jrec_init(&g.j);
		said.answer = ONE;
		weir_job_copy(&g.j.job, user_at(&g, 1000, 500),
			      user_at(&g, 5000, 500));
		assert_int_equal(run(&g), 500);
		assert_memory_equal(g.user.mem + 1000, g.user.mem + 5000, 500);
		assert_int_equal(g.user.n_done, 0);
		assert_int_equal(said.n_asked, 6);
		fixture_end(&g);
		end_reactor(state);
	}
}

static void range_that_is_not_memory_takes_another_route(void **state)
{
	char text[500];
	struct fixture g;
	int a;

	for (a = NO; a <= WRONG; a++) {
		fixture_begin(&g, state);
		said.answer = (enum answer)a;
		weir_job_copy(&g.j.job, weir_operand_mem(g.mem, 1000),
			      user_at(&g, 7, 1000));
		assert_int_equal(weir_route_explain(g.dma, &g.j.job, text,
						    sizeof(text)), 0);
		assert_starts_with(text, "translate: if the domain says where "
				   "it is in memory; else by domain\n");
		assert_int_equal(said.n_asked, 0);
		assert_int_equal(run(&g), 1000);
		assert_int_equal(route_of(&g), WEIR_ROUTE_PULL);
		assert_true(is_pattern(g.mem, 1000, 7, 1));
		assert_int_equal(g.user.n_done, 1);

		jrec_init(&g.j);
		weir_job_crc32c(&g.j.job, user_at(&g, 0, LEN), 0);
		assert_int_equal(run(&g), LEN);
		assert_int_equal(route_of(&g), WEIR_ROUTE_BOUNCE);

		/* Without another way. */
		assert_int_equal(weir_domain_set_pull(g.user.d, NULL), 0);
		jrec_init(&g.j);
		assert_int_equal(weir_job_start(g.dma, &g.j.job), -EINVAL);
		weir_job_crc32c(&g.j.job, user_at(&g, 0, LEN), 0);
		assert_int_equal(weir_job_start(g.dma, &g.j.job), -EXDEV);
		assert_int_equal(weir_domain_users(g.user.d), 0);
		fixture_end(&g);
		end_reactor(state);
	}
}

/* A translation that the caller has is used, and stays the caller's. */
static void a_translation_that_is_known_is_not_asked_for(void **state)
{
	struct weir_translation t = { .size = sizeof(t) };
	struct fixture g;

	fixture_begin(&g, state);
	assert_int_equal(weir_domain_translate(g.user.d, NULL,
					       weir_domain_system(), NULL, 100,
					       1000, &t), 0);
	weir_job_copy(&g.j.job, weir_operand_mem(g.mem, 1000),
		      user_at(&g, 100, 1000));
	g.j.job.src.translation = &t;
	assert_int_equal(run(&g), 1000);
	assert_int_equal(route_of(&g), WEIR_ROUTE_TRANSLATE);
	assert_true(is_pattern(g.mem, 1000, 100, 1));
	assert_int_equal(said.n_asked, 1);
	assert_int_equal(said.n_ended, 0);

	/* One of another length is not for this job. */
	jrec_init(&g.j);
	weir_job_copy(&g.j.job, weir_operand_mem(g.mem, 999),
		      user_at(&g, 100, 999));
	g.j.job.src.translation = &t;
	assert_int_equal(run(&g), 999);
	assert_int_equal(route_of(&g), WEIR_ROUTE_PULL);
	weir_domain_invalidate(&t);
	fixture_end(&g);
}

static void refused_job_invalidates_its_translation(void **state)
{
	struct fixture g;

	fixture_begin(&g, state);

	/* In truth they overlap. */
	weir_job_copy(&g.j.job, weir_operand_mem(g.user.mem + 500, 1000),
		      user_at(&g, 0, 1000));
	assert_int_equal(weir_job_start(g.dma, &g.j.job), -EINVAL);
	assert_int_equal(said.n_asked, 1);
	assert_int_equal(said.n_ended, 1);
	assert_int_equal(weir_domain_users(g.user.d), 0);

	/* Its end is an error. */
	assert_int_equal(ftruncate(g.fd, 10), 0);
	weir_job_copy(&g.j.job, user_at(&g, 0, 1000),
		      weir_operand_at(g.file, 0, 1000));
	assert_int_equal(run(&g), -ENODATA);
	assert_int_equal(said.n_ended, 2);
	fixture_end(&g);
}

/* More than there is capacity for, some cancelled. */
static void waiting_translations_may_be_cancelled(void **state)
{
	enum { N = 200 };
	struct jrec *j = calloc(N, sizeof(*j));
	unsigned int seed = 4;
	struct fixture g;
	int i;

	fixture_begin(&g, state);
	for (i = 0; i < N; i++) {
		jrec_init(&j[i]);
		weir_job_copy(&j[i].job, user_at(&g, (uint64_t)i * 300, 300),
			      weir_operand_at(g.file, (uint64_t)i * 300, 300));
		STARTS(weir_job_start(g.dma, &j[i].job));
	}
	for (i = 0; i < N; i++)
		if (!(rand_r(&seed) % 3))
			weir_op_cancel(&j[i].job.op);
	for (i = 0; i < N; i++) {
		UNTIL(g.r, j[i].calls);
		assert_true(j[i].res == 300 || j[i].res == -ECANCELED);
		if (j[i].res == 300)
			assert_true(is_pattern(g.user.mem + i * 300, 300,
					       (uint64_t)i * 300, 2));
	}
	free(j);
	fixture_end(&g);
}

/* One that is where it says; one in two pieces would be none. */
static void a_word_there_is_one_here(void **state)
{
	struct fixture g;
	uint64_t was;

	fixture_begin(&g, state);
	memcpy(&was, g.user.mem + 64, 8);
	weir_job_fetch_add(&g.j.job, weir_operand_at(g.user.d, 64, 8), 3);
	assert_int_equal(run(&g), 8);
	assert_true(weir_job_old(&g.j.job) == was);
	was += 3;
	assert_memory_equal(g.user.mem + 64, &was, 8);
	jrec_init(&g.j);
	weir_job_fetch_add(&g.j.job, weir_operand_at(g.user.d, 65, 8), 3);
	assert_int_equal(weir_job_start(g.dma, &g.j.job), -EINVAL);
	said.answer = TWO;
	g.j.job.dst.addr = 64;
	assert_int_equal(weir_job_start(g.dma, &g.j.job), -EINVAL);
	said.answer = ELSEWHERE;
	assert_int_equal(weir_job_start(g.dma, &g.j.job), -EXDEV);
	said.answer = NO;
	assert_int_equal(weir_job_start(g.dma, &g.j.job), -EXDEV);
	assert_memory_equal(g.user.mem + 64, &was, 8);
	fixture_end(&g);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(translated_memory_is_not_pulled),
		CASE(range_that_is_not_memory_takes_another_route),
		CASE(no_capacity_is_the_callers_with_and_without_translation),
		CASE(a_translation_that_is_known_is_not_asked_for),
		CASE(refused_job_invalidates_its_translation),
		CASE(waiting_translations_may_be_cancelled),
		CASE(a_word_there_is_one_here),
	};

	return harness_run_all(cases, N_OF(cases));
}
