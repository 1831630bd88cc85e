/* SPDX-License-Identifier: BSD-3-Clause */

/* The errnos that the headers of jobs document: contexts, engines, chains,
 * pipelines; and those of published statistics. */

#include "tests/support/errnos-fixture.h"
#include "tests/support/ignore.h"
#include "tests/support/job-fixture.h"
#include "tests/support/pipeline-fixture.h"
#include "tests/support/stats-fixture.h"

#include <weir/chain.h>
#include <weir/engine.h>

static char memory[4096];

/* Contexts and engines. */

RETURNS(weir_dma_create, ENOMEM)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_dma *dma = NULL;

	no_memory();
	return plenty(weir_dma_create(&dma, r, NULL));
}

/* A stop when @before has been done to the reactor, which has to forget it. */
static int64_t stop_after(struct weir_reactor *r,
			  void (*before)(struct weir_reactor *r))
{
	struct weir_dma *dma = start_dma(r, (struct weir_dma_opts){ 0 });
	struct rec rec;
	int64_t err;

	rec_init(&rec);
	before(r);
	err = weir_dma_stop(dma, &rec.op);
	if (before == fill_reactor)
		free_reactor(r);
	assert_int_equal(weir_dma_destroy(dma), 0);
	return err;
}

RETURNS(weir_dma_stop, EAGAIN)
{
	return stop_after(small_reactor(state), fill_reactor);
}

RETURNS(weir_dma_stop, ESHUTDOWN)
{
	return stop_after(start_reactor(state), stop_reactor);
}

RETURNS(weir_dma_add_engine, E2BIG)
{
	struct weir_dma *dma = NULL;
	int err;

	assert_int_equal(weir_dma_create(&dma, start_reactor(state), NULL), 0);
	err = weir_dma_add_engine(dma, later_options(), NULL);
	assert_int_equal(weir_dma_destroy(dma), 0);
	return err;
}

RETURNS(weir_dma_engine_stats, EINVAL)
{
	struct weir_dma *dma = start_dma(start_reactor(state),
					 (struct weir_dma_opts){ 0 });
	int err = weir_dma_engine_stats(dma, 0, no_capacity());

	assert_int_equal(weir_dma_destroy(dma), 0);
	return err;
}

/* Chains. */

/* A chain that has all of its steps. */
static struct weir_chain *full_chain(struct weir_reactor *r)
{
	struct weir_chain_opts opts = { .size = sizeof(opts), .steps = 1 };
	struct weir_chain *chain = NULL;

	assert_int_equal(weir_chain_create(&chain, r, &opts), 0);
	while (weir_chain_add_call(chain, WEIR_CHAIN_FIRST, ignore_step,
				   NULL) >= 0)
		;
	return chain;
}

RETURNS(weir_chain_add_job, ENOSPC)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_dma *dma = start_dma(r, (struct weir_dma_opts){ 0 });
	struct weir_chain *chain = full_chain(r);
	struct jrec j;
	int err;

	jrec_init(&j);
	weir_job_fill(&j.job, weir_operand_mem(memory, 8), 0);
	err = weir_chain_add_job(chain, WEIR_CHAIN_FIRST, dma, &j.job);
	assert_int_equal(weir_chain_destroy(chain), 0);
	assert_int_equal(weir_dma_destroy(dma), 0);
	return err;
}

RETURNS(weir_chain_add_chain, ENOSPC)
{
	struct weir_reactor *r = start_reactor(state);
	struct weir_chain *chain = full_chain(r), *inner = full_chain(r);
	int err = weir_chain_add_chain(chain, WEIR_CHAIN_FIRST, inner);

	assert_int_equal(weir_chain_destroy(chain), 0);
	assert_int_equal(weir_chain_destroy(inner), 0);
	return err;
}

/* Pipelines. */

static int pipeline_on(struct weir_pipeline **ret, struct weir_reactor *r,
		       struct stream *s)
{
	struct weir_pipeline_opts opts = {
		.size = sizeof(opts), .depth = 1, .build = on_build,
		.next = on_next, .done = on_done, .arg = s,
		.data_size = sizeof(struct unit),
	};

	memset(s, 0, sizeof(*s));
	s->r = r;
	return weir_pipeline_create(ret, r, &opts);
}

RETURNS(weir_pipeline_create, ESHUTDOWN)
{
	struct weir_pipeline *p = NULL;
	struct stream s;

	return pipeline_on(&p, stopped_reactor(state), &s);
}

RETURNS(weir_pipeline_progress, EINVAL)
{
	struct weir_pipeline *p = NULL;
	struct stream s;
	int err;

	assert_int_equal(pipeline_on(&p, start_reactor(state), &s), 0);
	err = weir_pipeline_progress(p, no_capacity());
	assert_int_equal(weir_pipeline_destroy(p), 0);
	return err;
}

RETURNS(weir_pipeline_start, EINVAL)
{
	struct weir_pipeline *p = NULL;
	struct weir_op op;
	struct stream s;
	int err;

	weir_op_init(&op, NULL);
	assert_int_equal(pipeline_on(&p, start_reactor(state), &s), 0);
	err = weir_pipeline_start(p, &op);
	assert_int_equal(weir_pipeline_destroy(p), 0);
	return err;
}

RETURNS(weir_pipeline_start, EAGAIN)
{
	struct weir_reactor *r = small_reactor(state);
	struct weir_pipeline *p = NULL;
	struct stream s;
	struct rec rec;
	int err;

	rec_init(&rec);
	assert_int_equal(pipeline_on(&p, r, &s), 0);
	fill_reactor(r);
	err = weir_pipeline_start(p, &rec.op);
	free_reactor(r);
	assert_int_equal(weir_pipeline_destroy(p), 0);
	return err;
}

/* Published statistics. */

/* What @call returns of the page of this process. */
static int64_t of_own_page(void **state, int64_t (*call)(struct weir_stats *s))
{
	struct weir_reactor *r;
	struct weir_stats *s;
	int64_t err;

	publish_here(state);
	r = start_reactor(state);
	assert_int_equal(weir_stats_update(r), 0);
	s = must_open(getpid());
	assert_int_equal(weir_stats_read(s), 0);
	err = call(s);
	weir_stats_close(s);
	publish_no_more(state);
	return err;
}

static int64_t informs_without_capacity(struct weir_stats *s)
{
	return weir_stats_info(s, no_capacity());
}

static int64_t section_without_capacity(struct weir_stats *s)
{
	return weir_stats_section(s, 0, no_capacity());
}

static int64_t field_without_capacity(struct weir_stats *s)
{
	return weir_stats_field(s, 0, 0, no_capacity());
}

RETURNS(weir_stats_info, EINVAL)
{
	return of_own_page(state, informs_without_capacity);
}

RETURNS(weir_stats_section, EINVAL)
{
	return of_own_page(state, section_without_capacity);
}

RETURNS(weir_stats_field, EINVAL)
{
	return of_own_page(state, field_without_capacity);
}

static int64_t opens_without_descriptors(struct weir_stats *s)
{
	struct weir_stats *other = NULL;

	(void)s;
	no_descriptors();
	return plenty(weir_stats_open(&other, getpid()));
}

static int64_t opens_without_memory(struct weir_stats *s)
{
	struct weir_stats *other = NULL;

	(void)s;
	no_memory();
	return plenty(weir_stats_open(&other, getpid()));
}

RETURNS(weir_stats_open, EMFILE)
{
	return of_own_page(state, opens_without_descriptors);
}

RETURNS(weir_stats_open, ENOMEM)
{
	return of_own_page(state, opens_without_memory);
}

static int see(const struct weir_stats_info *info, void *arg)
{
	(void)info, (void)arg;
	return 0;
}

static int64_t lists_without_descriptors(struct weir_stats *s)
{
	(void)s;
	no_descriptors();
	return plenty(weir_stats_list(see, NULL));
}

static int64_t lists_without_memory(struct weir_stats *s)
{
	(void)s;
	no_memory();
	return plenty(weir_stats_list(see, NULL));
}

RETURNS(weir_stats_list, EMFILE)
{
	return of_own_page(state, lists_without_descriptors);
}

RETURNS(weir_stats_list, ENOMEM)
{
	return of_own_page(state, lists_without_memory);
}

static int64_t reads_without_memory(struct weir_stats *s)
{
	no_memory();
	return plenty(weir_stats_read(s));
}

RETURNS(weir_stats_read, ENOMEM)
{
	return of_own_page(state, reads_without_memory);
}

RETURNS(weir_stats_publish, ENOMEM)
{
	assert_int_equal(chmod(test_dir(state), 0700), 0);
	no_memory();
	return plenty(weir_stats_publish(test_dir(state)));
}

int main(void)
{
	return run_errno_rows();
}
