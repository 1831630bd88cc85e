/* SPDX-License-Identifier: BSD-3-Clause */

/*
 * Segments: who is asked before memory grows.  The numbers are those of the
 * rules and cases that are re-created, of DPDK's allocation validators.
 */

#include "tests/support/segment-fixture.h"

#include <weir/pool.h>
#include <weir/shared-pool.h>

#define N 8

static int validate(int node, uint64_t limit, uint64_t total, void *arg)
{
	(void)node, (void)limit, (void)total, (void)arg;
	return 0;
}

/* C1.6, 50 */
static void names_of_validators_are_checked(void **state)
{
	(void)state;
	assert_int_equal(weir_segment_validator_register(NULL, validate, NULL,
							 0, 1), -EINVAL);
	assert_int_equal(weir_segment_validator_register("", validate, NULL, 0,
							 1), -EINVAL);
	assert_int_equal(weir_segment_validator_register("a", NULL, NULL, 0, 1),
			 -EINVAL);
	assert_int_equal(weir_segment_validator_register("a", validate, NULL,
							 -1, 1), -EINVAL);
	assert_int_equal(weir_segment_validator_register(LONG_NAME, validate,
							 NULL, 0, 1),
			 -ENAMETOOLONG);
	assert_int_equal(weir_segment_validator_register("a", validate, NULL, 0,
							 1), 0);
	assert_int_equal(weir_segment_validator_register("a", validate, "x", 0,
							 2), -EEXIST);
	assert_int_equal(weir_segment_validator_register("a", validate, NULL, 1,
							 1), 0);
	assert_int_equal(weir_segment_validator_unregister("a", -1), -EINVAL);
	assert_int_equal(weir_segment_validator_unregister("", 0), -EINVAL);
	assert_int_equal(weir_segment_validator_unregister("a", 2), -ENOENT);
	assert_int_equal(weir_segment_validator_unregister("b", 0), -ENOENT);
	assert_int_equal(weir_segment_validator_unregister("a", 1), 0);
	assert_int_equal(weir_segment_validator_unregister("a", 0), 0);
	assert_int_equal(weir_segment_validator_unregister("a", 0), -ENOENT);
}

/* What a validator was asked, and what it says. */
struct asked {
	int n;
	uint64_t total, limit;
	int node;
	int answer;
};

static int on_growth(int node, uint64_t limit, uint64_t total, void *arg)
{
	struct asked *asked = arg;

	asked->n++;
	asked->node = node;
	asked->limit = limit;
	asked->total = total;
	return asked->answer;
}

/* C1.6, gotcha 24 */
static void validators_are_asked_from_their_limit_on(void **state)
{
	struct asked a = { 0 };
	char *p = pages(N);
	struct weir_mmap *m[3] = {
		stopped_mmap(p, PAGE), stopped_mmap(p + PAGE, PAGE),
		stopped_mmap(p, 3 * PAGE),
	};
	uint64_t limit = 2 * PAGE;

	(void)state;
	assert_int_equal(weir_segment_validator_register("a", on_growth, &a, 0,
							 limit), 0);
	assert_int_equal(weir_mmap_start(m[0]), 0);
	assert_int_equal(a.n, 0);
	assert_int_equal(weir_mmap_start(m[1]), 0);	/* At the limit. */
	assert_int_equal(a.n, 1);
	assert_int_equal(a.total, limit);
	assert_int_equal(a.limit, limit);
	assert_int_equal(a.node, 0);
	a.answer = -EDQUOT;
	assert_int_equal(weir_mmap_start(m[2]), -EDQUOT);
	assert_int_equal(a.total, 3 * PAGE);	/* Two pages were known. */
	assert_non_null(strstr(weir_why(), "validator a refuses 12288 bytes"));
	assert_int_equal(weir_mmap_state(m[2]), WEIR_MMAP_STOPPED);
	assert_int_equal(n_lists(), 2);
	a.answer = 3;
	assert_int_equal(weir_mmap_start(m[2]), -EPERM);
	assert_int_equal(weir_segment_validator_unregister("a", 0), 0);
	assert_int_equal(weir_mmap_start(m[2]), 0);
	for (size_t i = 0; i < 3; i++)
		weir_mmap_destroy(m[i]);
	pages_end(p, N);
}

static void count_told(int event, const struct weir_segment *list, void *arg)
{
	(void)event, (void)list;
	++*(int *)arg;
}

/* C1.6 */
static void validators_are_all_asked_and_one_refusal_is_enough(void **state)
{
	struct asked a = { .answer = -EPERM }, b = { .answer = -ENOMEM },
		     c = { 0 }, elsewhere = { .answer = -EIO };
	char *p = pages(N);
	struct weir_mmap *m = stopped_mmap(p, PAGE);
	int told = 0;

	(void)state;
	weir_segment_validator_register("c", on_growth, &c, 0, 0);
	weir_segment_validator_register("a", on_growth, &a, 0, 1);
	weir_segment_validator_register("b", on_growth, &b, 0, PAGE);
	weir_segment_validator_register("a", on_growth, &elsewhere, 1, 0);
	weir_segment_event_register("told", count_told, &told);
	assert_int_equal(weir_mmap_start(m), -EPERM);
	assert_int_equal(a.n, 1);
	assert_int_equal(b.n, 1);
	assert_int_equal(c.n, 1);
	assert_int_equal(elsewhere.n, 0);
	assert_int_equal(told, 0);
	/* External memory is somebody else's growth. */
	assert_int_equal(weir_segment_register(p, PAGE, NULL, 0, PAGE), 0);
	assert_int_equal(weir_mmap_start(m), 0);
	assert_int_equal(a.n + b.n + c.n, 3);
	weir_mmap_destroy(m);
	assert_int_equal(weir_segment_unregister(p, PAGE), 0);
	weir_segment_event_unregister("told", &told);
	weir_segment_validator_unregister("a", 0);
	weir_segment_validator_unregister("b", 0);
	weir_segment_validator_unregister("c", 0);
	weir_segment_validator_unregister("a", 1);
	pages_end(p, N);
}

struct nested {
	struct asked asked;
	struct weir_mmap *m;
	int err;
};

static int start_another(int node, uint64_t limit, uint64_t total, void *arg)
{
	struct nested *nested = arg;
	int first = !nested->asked.n;

	on_growth(node, limit, total, &nested->asked);
	assert_int_equal(own_bytes(), 0);
	assert_int_equal(n_lists(), 0);
	if (first) {
		nested->err = weir_mmap_start(nested->m);
		weir_segment_validator_unregister("n", 0);
	}
	return nested->asked.answer;
}

/* What is being asked about counts already, and is not there yet. */
static void memory_that_is_being_added_counts(void **state)
{
	struct nested nested = { .err = 1 };
	char *p = pages(N);
	struct weir_mmap *m = stopped_mmap(p, PAGE);

	(void)state;
	nested.m = stopped_mmap(p + PAGE, PAGE);
	weir_segment_validator_register("n", start_another, &nested, 0, 0);
	assert_int_equal(weir_mmap_start(m), 0);
	assert_int_equal(nested.err, 0);
	assert_int_equal(nested.asked.n, 2);
	assert_int_equal(nested.asked.total, 2 * PAGE);
	weir_mmap_destroy(m);
	weir_mmap_destroy(nested.m);
	assert_int_equal(n_lists(), 0);
	pages_end(p, N);
}

/* 54 */
static void a_pool_can_be_refused_and_kept(void **state)
{
	struct asked a = { .answer = -EPERM };
	struct weir_reactor *r;
	struct weir_pool *pool = NULL;
	void *mem;

	(void)state;
	assert_int_equal(weir_reactor_create(&r, NULL), 0);
	weir_segment_validator_register("a", on_growth, &a, 0, 1);
	assert_int_equal(weir_pool_create(&pool, r, NULL), -EPERM);
	assert_null(pool);
	weir_segment_validator_unregister("a", 0);
	assert_int_equal(weir_pool_create(&pool, r, NULL), 0);
	weir_mmap_memrange(weir_pool_mmap(pool), &mem, NULL);
	assert_int_equal(weir_segment_set_flags(list_of(mem),
				WEIR_SEGMENT_DO_NOT_FREE, 0), 0);
	assert_int_equal(weir_pool_destroy(pool), -EBUSY);
	assert_starts_with(weir_why(), "weir_pool_destroy: its memory is not");
	assert_int_equal(weir_segment_set_flags(list_of(mem), 0,
				WEIR_SEGMENT_DO_NOT_FREE), 0);
	assert_int_equal(weir_pool_destroy(pool), 0);
	assert_int_equal(weir_reactor_destroy(r), 0);
	assert_int_equal(n_lists(), 0);
}

struct growth {
	struct weir_shared_pool *shared_pool;
	int n;
	int err;
	uint64_t list;
};

static void grow_again(int event, const struct weir_segment *list, void *arg)
{
	struct growth *g = arg;

	if (event != WEIR_SEGMENT_ADDED || g->n++)
		return;
	g->list = list->list;
	g->err = weir_shared_pool_grow(g->shared_pool, PAGE, 3);
}

/* No lock of the shared_pool's is held, either. */
static void a_store_may_be_used_while_it_is_told_of_its_growth(void **state)
{
	const struct weir_shared_pool_class cls = { .buf_size = PAGE,
						    .bufs = 4 };
	struct weir_shared_pool_opts opts = {
		.size = sizeof(opts),
		.classes = &cls,
		.n_classes = 1,
	};
	struct weir_shared_pool_stats stats = { .size = sizeof(stats) };
	struct growth g = { .err = 1 };
	struct asked a = { .answer = -EPERM };

	(void)state;
	assert_int_equal(weir_shared_pool_create(&g.shared_pool, &opts), 0);
	weir_segment_event_register("grow", grow_again, &g);
	assert_int_equal(weir_shared_pool_grow(g.shared_pool, PAGE, 2), 0);
	weir_segment_event_unregister("grow", &g);
	assert_int_equal(g.err, 0);
	weir_segment_validator_register("a", on_growth, &a, 0, 1);
	assert_int_equal(weir_shared_pool_grow(g.shared_pool, PAGE, 2), -EPERM);
	weir_segment_validator_unregister("a", 0);
	assert_int_equal(weir_shared_pool_stats(g.shared_pool, PAGE, &stats), 0);
	assert_int_equal(stats.total, 9);
	assert_int_equal(weir_segment_set_flags(g.list,
				WEIR_SEGMENT_DO_NOT_FREE, 0), 0);
	assert_int_equal(weir_shared_pool_destroy(g.shared_pool), -EBUSY);
	assert_int_equal(weir_segment_set_flags(g.list, 0,
				WEIR_SEGMENT_DO_NOT_FREE), 0);
	assert_int_equal(weir_shared_pool_destroy(g.shared_pool), 0);
	assert_int_equal(n_lists(), 0);
}

int main(void)
{
	static const struct harness_case cases[] = {
		CASE(names_of_validators_are_checked),
		CASE(validators_are_asked_from_their_limit_on),
		CASE(validators_are_all_asked_and_one_refusal_is_enough),
		CASE(memory_that_is_being_added_counts),
		CASE(a_pool_can_be_refused_and_kept),
		CASE(a_store_may_be_used_while_it_is_told_of_its_growth),
	};

	return harness_run_plain(cases, N_OF(cases));
}
